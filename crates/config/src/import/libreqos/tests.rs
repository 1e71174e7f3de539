use fairlink_core::ClassId;

use super::*;
use crate::import::ImportedLink;
use crate::link::LinkFile;
use crate::problem::ProblemKind;

/// A file with the oddities of those that are published: comments, quotes with commas, several addresses in a field,
/// two devices of a circuit, fractions, a queue for each direction, commas in a comment without quotes.
const DEVICES: &str = "\u{feff}# written by hand\r\n\
    Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment,sqm\r\n\
    # between rows\r\n\
    7,\"1 Mill Lane, Ely\",1,router,Tower,,\"100.64.1.1, 100.64.1.2\",2001:db8:1::/56,2,1,50.5,10.25,plain,\r\n\
    8,\"2 Mill \"\"Old\"\" Lane\",2,router,Tower,,100.64.1.3,,0.5,0.5,20,5,Down=cake, Up=none,cake/none\r\n\
    \r\n\
    9,3 Mill Lane,3,router,Hut,aa:bb:cc:dd:ee:ff,100.64.2.0/29,,1,1,30,5,,fq_codel\r\n\
    9,3 Mill Lane,4,phone,Hut,,100.64.2.9,,1,1,30,5,,fq_codel\r\n\
    10,\"4, Mill Lane\",5,router,,,100.64.0.0/10,,1,1,40,5,,\r\n";

const NETWORK: &str = r#"{
  "Mast": {
    "downloadBandwidthMbps": 100, "uploadBandwidthMbps": 50, "type": "Site",
    "children": {
      "Group": {"virtual": true, "downloadBandwidthMbps": 1, "uploadBandwidthMbps": 1, "children": {
        "Tower": {"downloadBandwidthMbps": 60.5, "uploadBandwidthMbps": 30, "type": "AP"}
      }},
      "Hut": {"downloadBandwidthMbps": 200, "uploadBandwidthMbps": 30, "type": "AP", "id": "hut-1"},
      "Empty": {"downloadBandwidthMbps": 20, "uploadBandwidthMbps": 20, "children": {}}
    }
  }
}"#;

fn import(devices: &str, network: Option<&str>, options: &Options) -> Result<Imported, Problems> {
    let texts = std::iter::once(("devices.csv", devices)).chain(network.map(|text| ("network.json", text)));
    super::super::tests::import(&INFO, &texts.collect::<Vec<_>>(), options)
}

fn both() -> Options {
    Options::default().with("direction", "both")
}

fn made(devices: &str, network: Option<&str>, options: &Options) -> Imported {
    import(devices, network, options).unwrap_or_else(|errors| panic!("{}", errors.lines()))
}

fn refused(devices: &str, network: Option<&str>) -> String {
    import(devices, network, &Options::default()).expect_err("this is wrong").lines()
}

/// Of a class: parent, guarantee, ceiling.
fn class(link: &LinkFile, name: &str) -> (String, u64, Option<u64>) {
    let id = link.names.id(name).unwrap_or_else(|| panic!("no class {name}"));
    let parent = link.tree.parent(id).unwrap_or(ClassId::ROOT);
    let guarantee = link.tree.config(id).share.and_then(|share| match share {
        fairlink_core::Share::Guarantee(rate) => Some(rate.bps()),
        fairlink_core::Share::Weight(_) => None,
    });
    (link.names.name(parent).to_owned(), guarantee.unwrap_or(0), link.tree.config(id).ceiling.map(|rate| rate.bps()))
}

fn matches(link: &LinkFile, name: &str) -> Vec<String> {
    let id = link.names.id(name).unwrap();
    link.matches.iter().filter(|(class, _)| *class == id).map(|(_, made)| made.to_string()).collect()
}

const MBIT: u64 = 1_000_000;

#[test]
fn every_rate_address_and_parent_is_as_the_files_say_in_each_direction() {
    let imported = made(DEVICES, Some(NETWORK), &both());
    let [down, up] = &imported.links[..] else { panic!("two links") };
    assert_eq!((down.name.as_str(), up.name.as_str()), ("down", "up"));
    assert_eq!(down.link.tree.link().rate.bps(), 100 * MBIT);
    assert_eq!(up.link.tree.link().rate.bps(), 50 * MBIT);
    // A node is guaranteed the sum below it, and its capacity is the ceiling. A virtual node has none.
    assert_eq!(class(&down.link, "Mast"), ("link".into(), 3_500_000, Some(100 * MBIT)));
    assert_eq!(class(&down.link, "Tower"), ("Mast".into(), 2_500_000, Some(60_500_000)));
    assert_eq!(class(&down.link, "Hut"), ("Mast".into(), MBIT, Some(200 * MBIT)));
    assert_eq!(down.link.names.id("Group"), None);
    assert_eq!(class(&down.link, "7"), ("Tower".into(), 2 * MBIT, Some(50_500_000)));
    assert_eq!(class(&down.link, "8"), ("Tower".into(), 500_000, Some(20 * MBIT)));
    assert_eq!(class(&up.link, "7"), ("Tower".into(), MBIT, Some(10_250_000)));
    assert_eq!(class(&down.link, "9"), ("Hut".into(), MBIT, Some(30 * MBIT)));
    assert_eq!(class(&down.link, "10"), ("link".into(), MBIT, Some(40 * MBIT)));
    assert_eq!(matches(&down.link, "7"), ["dst net 100.64.1.1/32", "dst net 100.64.1.2/32", "dst net 2001:db8:1::/56"]);
    assert_eq!(matches(&up.link, "9"), ["src net 100.64.2.0/29", "src net 100.64.2.9/32"]);
    // Prefixes that contain others come last, because LibreQoS uses the longest prefix.
    let last = down.link.matches.last().unwrap();
    assert_eq!((down.link.names.name(last.0), last.1.to_string()), ("10", "dst net 100.64.0.0/10".to_owned()));
    // 8 has no queue management on the way up.
    assert!(down.text.contains("queue = \"fq_codel\"\nmatch = [\"dst net 100.64.1.3/32\"]"), "{}", down.text);
    assert!(up.text.contains("queue = \"fifo\"\nmatch = [\"src net 100.64.1.3/32\"]"), "{}", up.text);
    assert_eq!(down.link.names.name(down.link.default_class.unwrap()), "others");
    // People find their circuits again.
    assert!(down.text.contains("[[class]]                 # 1 Mill Lane, Ely\nname = \"7\""), "{}", down.text);
}

#[test]
fn htb_beside_it_has_the_capacities_quanta_and_priorities_that_libreqos_sets_up() {
    let imported = made(DEVICES, Some(NETWORK), &Options::default());
    let link = &imported.links[0];
    let before = link.link_before.as_ref().unwrap();
    assert_eq!(before.scheduler, "htb");
    // 100 Mbit/s are 12,500,000 B/s: r2q is 209, the smallest for which the link's quantum is at most 60,000 B.
    let quantum = |name: &str| before.tree.config(before.names.id(name).unwrap()).quantum;
    assert_eq!(quantum("7"), Some(50_500_000 / 8 / 209));
    assert_eq!(quantum("8"), Some(20_000_000 / 8 / 209));
    // A circuit takes no more than its node.
    assert_eq!(class(before, "Tower").2, Some(60_500_000));
    assert_eq!(class(before, "Hut").2, Some(100 * MBIT));
    assert!(link.before.as_ref().unwrap().contains("priority = 3"));
    // The same classes, but for frames.
    let names = |link: &LinkFile| link.names.iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(before), names(&link.link));
    // The same is returned with --as-is.
    let kept = made(DEVICES, Some(NETWORK), &Options::default().with("as-is", true));
    assert_eq!(kept.links[0].link.scheduler, "htb");
    assert_eq!(kept.links[0].link.matches.len(), link.link.matches.len());
}

#[test]
fn minimums_that_do_not_fit_are_scaled_down_and_said_of_their_node_with_both_numbers() {
    let devices = "circuit_id,circuit_name,device_id,device_name,parent_node,mac,ipv4,ipv6,download_min,upload_min,download_max,upload_max,comment\n\
        a,,,,AP,,10.0.0.1,,60,1,90,5,\nb,,,,AP,,10.0.0.2,,20,1,90,5,\n";
    let network = "{\"AP\": {\"downloadBandwidthMbps\": 40, \"uploadBandwidthMbps\": 40}}";
    let imported = made(devices, Some(network), &Options::default().with("rate", "1gbit"));
    let link = &imported.links[0];
    assert_eq!(class(&link.link, "a"), ("AP".into(), 30 * MBIT, Some(90 * MBIT)));
    assert_eq!(class(&link.link, "b"), ("AP".into(), 10 * MBIT, Some(90 * MBIT)));
    let note = imported.notes.iter().find(|note| note.to_string().contains("scaled down")).unwrap();
    assert!(note.to_string().contains("below \"AP\" add up to 80 Mbit/s, more than its 40 Mbit/s"), "{note}");
    assert_eq!(note.location().file, "network.json");
    // LibreQoS gives them 1 Mbit/s each.
    let before = link.link_before.as_ref().unwrap();
    assert_eq!([class(before, "a").1, class(before, "b").1], [MBIT, MBIT]);
    // And 10 kbit/s where that does not fit, either; the other direction decides as well.
    let network = "{\"AP\": {\"downloadBandwidthMbps\": 1000, \"uploadBandwidthMbps\": 1}}";
    let imported = made(devices, Some(network), &Options::default());
    let before = imported.links[0].link_before.as_ref().unwrap();
    assert_eq!([class(before, "a").1, class(before, "b").1], [10_000, 10_000]);
}

#[test]
fn what_changed_and_what_was_left_out_is_said_at_its_place() {
    let imported = made(DEVICES, Some(NETWORK), &Options::default());
    let of = |change: bool| {
        let all = imported.notes.iter().filter(|note| matches!(note.kind(), ProblemKind::Changed { .. }) == change);
        all.map(|note| format!("{}:{}: {note}", note.location().file, note.location().line)).collect::<Vec<_>>()
    };
    let [changed, left_out] = [true, false].map(of);
    for expected in ["devices.csv:5: 1 row with unquoted commas in a comment", "quanta:", "cake, of 3 circuits"] {
        assert!(changed.iter().any(|note| note.contains(expected)), "{expected} in {changed:#?}");
    }
    assert_eq!(left_out, ["network.json:9: the node \"Empty\" has no circuit"]);
    assert!(imported.kept[0].starts_with("4 circuits with 7 addresses and prefixes, 3 nodes"), "{:?}", imported.kept);
}

/// In place of a row of the file above.
fn with_row(row: &str) -> String {
    let head = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n";
    format!("{head}1,a,1,b,Tower,,10.0.0.1,,1,1,2,2,\n{row}\n")
}

#[test]
fn rows_of_earlier_versions_below_a_later_first_row_are_told_apart_by_what_they_lack() {
    // LibreQoS' own documentation has such an example: 15 columns, and 13 fields in each row.
    let text = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,Parent Node ID,Anchor Node ID,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n\
                1,a,1,b,Tower,,10.0.0.2,,1,1,2,2,\n";
    let errors = refused(text, Some(NETWORK));
    assert!(
        errors.starts_with("devices.csv:2:1: error: this row has 13 fields, and there are 15 columns;"),
        "{errors}"
    );
    assert!(errors.contains("have no field \"Parent Node ID\" and \"Anchor Node ID\": remove it"), "{errors}");
    let mended = text.replace("Parent Node ID,Anchor Node ID,", "");
    assert_eq!(made(&mended, Some(NETWORK), &Options::default()).links.len(), 1);
}

#[test]
fn a_row_that_is_wrong_is_refused_by_its_line_and_columns_are_never_shifted() {
    for (row, said) in [
        (
            "2,a,1,b,Tower,,10.0.0.2,,1,1,2,2",
            "this row has 12 fields, and there are 13 columns: \"Comment\" is missing",
        ),
        ("2", "this row has 1 field, and there are 13 columns"),
        // An address with a comma and no quotes shifts what follows: nothing of it is taken.
        ("2,5 Mill Lane, Ely,1,b,Tower,,10.0.0.2,,1,1,2,2,", "\"Download Min Mbps\" is empty"),
        ("2,a,1,b,Tower,,10.0.0.2, 10.0.0.3,,1,1,2,2,", "\"Download Min Mbps\" is empty"),
        ("2,a,1,b,Tower,,10.0.0.2,,,1,2,2,", "\"Download Min Mbps\" is empty"),
        ("2,a,1,b,Tower,,10.0.0.2,,1,1,2,x,", "\"Upload Max Mbps\" is \"x\""),
        ("2,a,1,b,Tower,,10.0.0.2,,0,1,2,2,", "\"Download Min Mbps\" is \"0\""),
        ("2,a,1,b,Tower,,10.0.0.2,,-1,1,2,2,", "\"Download Min Mbps\" is \"-1\""),
        ("2,a,1,b,Tower,,10.0.0.2,,3,1,2,2,", "\"Download Min Mbps\" of 3 is above \"Download Max Mbps\" of 2"),
        ("2,a,1,b,Towr,,10.0.0.2,,1,1,2,2,", "there is no node \"Towr\"; did you mean \"Tower\"?"),
        ("2,a,1,b,Tower,,10.0.0,,1,1,2,2,", "\"10.0.0\" is not an IPv4 address"),
        ("2,a,1,b,Tower,,2001:db8::1,,1,1,2,2,", "\"2001:db8::1\" is not an IPv4 address"),
        ("2,a,1,b,Tower,,,10.0.0.2,1,1,2,2,", "\"10.0.0.2\" is not an IPv6 address"),
        ("2,\"a,1,b,Tower,,10.0.0.2,,1,1,2,2,", "fields, and there are 13 columns"),
        ("1,a,1,b,Hut,,10.0.0.2,,1,1,2,2,", "the circuit 1 has devices below different nodes"),
    ] {
        let errors = refused(&with_row(row), Some(NETWORK));
        assert!(errors.starts_with("devices.csv:3:1: error: ") && errors.contains(said), "{row}: {errors}");
    }
    // A quote that is not closed takes the next row as well.
    let errors =
        refused(&with_row("2,\"a,1,b,Tower,,10.0.0.2,,1,1,2,2,\n3,\"c,1,b,Tower,,10.0.0.3,,1,1,2,2,"), Some(NETWORK));
    assert!(errors.contains("devices.csv:3:1: error: "), "{errors}");
    let sqm = with_row("").replace("Comment\n", "Comment,sqm\n").replace("2,2,\n", "2,2,,cake/fast\n");
    assert!(refused(&sqm, Some(NETWORK)).contains("devices.csv:2:1: error: \"cake/fast\" is not a value of \"sqm\""));
}

#[test]
fn a_head_or_a_network_that_says_too_little_is_refused() {
    for (devices, said) in [
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("7,a,1,b,Tower,,10.0.0.1,,1,1,2,2,\n", "the first row has no column \"download min\""),
        ("Circuit ID,IPv4,Download Min,Upload Min,Download Max\n", "has no column \"upload max\""),
        ("IPv4,IPv4,Download Min,Upload Min,Download Max,Upload Max\n", "two columns are called \"IPv4\""),
        ("IPv4,Download Min,Upload Min,Download Max,Upload Max\n", "there is no circuit to import: there is none"),
        (
            "IPv4,Download Min,Upload Min,Download Max,Upload Max\n,1,1,2,2\n",
            "there is no circuit to import: 1 circuit has no address",
        ),
    ] {
        let errors = refused(devices, Some(NETWORK));
        assert!(errors.contains(said), "{devices}: {errors}");
    }
    let sound = with_row("");
    assert!(refused(&sound, None).contains("the rate of the link is unknown"));
    for (network, said) in [
        ("{\n\"A\": }", "network.json:2:6: error: this is not JSON"),
        ("[1]", "the nodes of the file are a list, not an object"),
        ("{\"Tower\": 5}", "the node \"Tower\" is a number, not an object"),
        ("{\"Tower\": {\"uploadBandwidthMbps\": 5}}", "the rate of the link is unknown"),
        ("{}", "the rate of the link is unknown"),
        ("{\"Tower\": {\"downloadBandwidthMbps\": -1, \"uploadBandwidthMbps\": 5}}", "of the node \"Tower\" is -1"),
        (
            "{\"Tower\": {\"downloadBandwidthMbps\": 5, \"uploadBandwidthMbps\": 5, \"children\": [1]}}",
            "the nodes of \"Tower\" are a list",
        ),
        (
            "{\"Tower\": {\"downloadBandwidthMbps\": 5, \"uploadBandwidthMbps\": 5},\n \"Tower\": {\"downloadBandwidthMbps\": 5, \"uploadBandwidthMbps\": 5}}",
            "network.json:2:2: error: there are two nodes named \"Tower\"",
        ),
    ] {
        let errors = refused(&sound, Some(network));
        assert!(errors.contains(said), "{network}: {errors}");
    }
}

#[test]
fn devices_of_a_circuit_share_its_rates_and_an_address_of_two_circuits_stays_with_the_first() {
    let rows = with_row(
        "1,a,2,c,Tower,,10.0.0.9,,9,1,9,2,\n2,b,3,d,Tower,,\"10.0.0.9,10.0.0.8\",,1,1,2,2,\n3,c,4,d,Tower,,10.0.0.9,,1,1,2,2,",
    );
    let imported = made(&rows, Some(NETWORK), &Options::default());
    let link = &imported.links[0].link;
    assert_eq!(class(link, "1").1, MBIT);
    assert_eq!(matches(link, "1"), ["dst net 10.0.0.1/32", "dst net 10.0.0.9/32"]);
    assert_eq!(matches(link, "2"), ["dst net 10.0.0.8/32"]);
    assert_eq!(link.names.id("3"), None);
    let said: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    let says = |text: &str| said.iter().any(|note| note.contains(text));
    assert!(says("the circuit 1 has different rates here and in line 2; those of line 2 apply"), "{said:#?}");
    assert!(says("10.0.0.9/32 belongs to circuit \"1\" of line 2; it is removed"), "{said:#?}");
    // Of IPv6 LibreQoS does not take it.
    let rows = with_row("2,b,3,d,Tower,,,2001:db8::/64,1,1,2,2,\n3,c,4,d,Tower,,,2001:db8::/64,1,1,2,2,");
    let errors = refused(&rows, Some(NETWORK));
    assert!(errors.contains("devices.csv:4:1: error: 2001:db8::/64 belongs to two circuits"), "{errors}");
}

#[test]
fn without_a_network_all_circuits_hang_off_the_link_and_nodes_are_found_by_their_ids() {
    let options = Options::default().with("rate", "10mbit");
    let imported = made(&with_row(""), None, &options);
    assert_eq!(class(&imported.links[0].link, "1").0, "link");
    assert!(imported.notes.iter().any(|note| note.to_string().contains("whose parent node is ignored")));
    let devices = "Circuit ID,Parent Node,Parent Node ID,Anchor Node ID,IPv4,Download Min,Upload Min,Download Max,Upload Max\n1,Hütte,hut-1,x,10.0.0.1,1,1,2,2\n";
    let imported = made(devices, Some(NETWORK), &Options::default());
    assert_eq!(class(&imported.links[0].link, "1").0, "Hut");
}

#[test]
fn a_node_without_a_capacity_has_that_of_the_node_above_and_an_empty_network_is_flat() {
    let network = NETWORK.replace("60.5", "0");
    let imported = made(DEVICES, Some(&network), &Options::default());
    let link = &imported.links[0];
    assert_eq!(class(&link.link, "Tower").2, Some(100 * MBIT));
    // Half of what 100 Mbit/s of 102 are.
    assert_eq!(class(link.link_before.as_ref().unwrap(), "Tower").1, 49_019_607);
    assert!(imported.notes.iter().any(|note| note.to_string().starts_with("1 node has no capacity, or 0")));
    let options = Options::default().with("rate", "10mbit");
    let flat = made(DEVICES, Some("{}"), &options);
    assert_eq!(class(&flat.links[0].link, "7").0, "link");
}

/// The tables and the text say the same, class by class.
#[test]
fn many_circuits_become_tables_that_say_the_same() {
    let mut devices = with_row("");
    for at in 0..2000 {
        let (parent, max) = (["Tower", "Hut", ""][at % 3], 20 + at % 7);
        devices += &format!(
            "c{at},\"{at}, Mill \"\"X\"\" Lane; #{at}\",{at},d,{parent},,\"10.1.{}.{}, 10.9.{}.{}\",2001:db8:{at:x}::/64,0.01,0.01,{max},5,\n",
            at / 250,
            at % 250,
            at / 250,
            at % 250
        );
    }
    let imported = made(&devices, Some(NETWORK), &both());
    for ImportedLink { name, text, tabled, link, .. } in &imported.links {
        let tabled = tabled.as_ref().unwrap();
        assert!(tabled.text.lines().count() <= 20, "{}", tabled.text);
        let dir = std::env::temp_dir().join(format!("fairlink-import-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("link.toml");
        std::fs::write(&file, &tabled.text).unwrap();
        for (name, table) in &tabled.tables {
            std::fs::write(dir.join(name), table).unwrap();
        }
        let read = LinkFile::read(&file, &crate::ReadOptions::default());
        std::fs::remove_dir_all(&dir).unwrap();
        let read = read.unwrap_or_else(|errors| panic!("{}", errors.lines()));
        assert_eq!(read.tree.len(), link.tree.len(), "{text}");
        for id in (1..link.tree.len()).map(|id| ClassId(id as u32)) {
            let name = link.names.name(id);
            assert_eq!(class(&read, name), class(link, name));
            assert_eq!(matches(&read, name), matches(link, name));
        }
        let order = |link: &LinkFile| link.matches.iter().map(|(_, made)| made.to_string()).collect::<Vec<_>>();
        assert_eq!(order(&read), order(link));
        assert_eq!(read.names.name(read.default_class.unwrap()), "others");
    }
}

#[test]
fn a_hundred_thousand_rows_are_imported() {
    // All of them in a long run alone, which is for the time that it takes.
    let rows = if std::env::var_os("FAIRLINK_LONG").is_some() { 100_000_u32 } else { 10_000 };
    let mut devices = with_row("");
    for at in 0..rows {
        let [_, a, b, c] = at.to_be_bytes();
        devices += &format!(
            "c{at},\"House {at}, Street\",{at},d,{},,10.{a}.{b}.{c},,0.0001,0.0001,20,5,\n",
            ["Tower", "Hut"][at as usize % 2]
        );
    }
    let begun = std::time::Instant::now();
    // The first row of the file above has an address of these.
    let imported = made(&devices.replace("10.0.0.1,,1,1,2,2", "11.0.0.1,,1,1,2,2"), Some(NETWORK), &Options::default());
    println!("{rows} rows took {:.1} s", begun.elapsed().as_secs_f64());
    assert_eq!(imported.links[0].link.tree.leaves().len(), rows as usize + 2);
    let [_, a, b, c] = u32::to_be_bytes(rows - 1);
    assert_eq!(matches(&imported.links[0].link, &format!("c{}", rows - 1)), [format!("dst net 10.{a}.{b}.{c}/32")]);
}

#[test]
fn circuits_of_a_virtual_node_hang_below_the_one_above_it() {
    let imported = made(&with_row("2,c,2,d,Group,,10.0.0.2,,1,1,2,2,"), Some(NETWORK), &Options::default());
    assert_eq!(class(&imported.links[0].link, "2").0, "Mast");
}

/// Files of versions up to 0.7 have one rate for each direction, which is the least and the most.
#[test]
fn one_rate_for_each_direction_is_minimum_and_maximum() {
    let devices = "ID,Hostname,IPv4,IPv6,Download,Upload\n,a,100.65.0.0,8e95:12ce::/56,100,10\n,b,100.65.0.1,8e95:12ce:0:100::/56,50,5\n";
    let imported = made(devices, None, &both().with("rate", "600mbit"));
    let [down, up] = &imported.links[..] else { panic!("two links") };
    for (link, name, rate) in [(down, "a", 100_000_000), (down, "b", 50_000_000), (up, "a", 10_000_000)] {
        let (_, guarantee, ceiling) = class(&link.link, name);
        assert_eq!((guarantee, ceiling), (rate, Some(rate)), "{name}");
    }
    assert!(imported.notes.iter().any(|note| note.to_string().starts_with("one rate for each direction")));
    // A minimum beside it belongs to another version, whose maximum is missing.
    let mixed = devices.replace("Download,Upload", "Download Min,Upload");
    assert!(refused(&mixed, None).contains("has no column"));
}

#[test]
fn a_key_that_stands_twice_in_a_node_is_refused() {
    let network = "{\"S\": {\"downloadBandwidthMbps\": 9, \"uploadBandwidthMbps\": 9,\n \"children\": {\"A\": {}}, \"children\": {\"B\": {}}}}";
    let lines = refused("ID,IPv4,Download Min,Upload Min,Download Max,Upload Max\n1,10.0.0.1,1,1,2,2\n", Some(network));
    assert!(lines.starts_with("network.json:1:2: error: \"children\" is given twice in the node \"S\""), "{lines}");
}
