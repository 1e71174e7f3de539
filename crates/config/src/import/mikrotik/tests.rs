use fairlink_core::{ClassId, HostKey, Share};

use super::*;
use crate::link::LinkFile;
use crate::matching::{FrameKey, IpVersion, v4_mapped};
use crate::problem::{ProblemKind, SourceText};

/// An export with the peculiarities of published ones: a duplicate section, continuation lines within words, quotes, a
/// script in a value, queue types, a disabled queue.
const SIMPLE: &str = "# jan/02/2024 10:00:00 by RouterOS 7.12\r\n# software id = ABCD-EFGH\r\n#\r\n\
    /ip dhcp-server\r\nadd interface=bridge lease-script=\":if (\\$leaseBound=1) do={\\r\\\r\n    \\n /queue simple add name=x}\" name=dhcp\r\n\
    /queue type\r\nadd kind=pcq name=pcq-home pcq-classifier=dst-address pcq-rate=2M\r\n\
    /queue simple\r\n\
    add comment=\"all of the house\" max-limit=5M/20M name=house target=192.168.88.0/24\r\n\
    add limit-at=1M/4M max-limit=2M/8M name=\"PC 1, upstairs\" parent=house priority=1/2 target=\\\r\n    192.168.88.10/32\r\n\
    add burst-limit=0/9M burst-threshold=0/1M burst-time=0s/8s limit-at=512k/1M max-limit=2M/8M name=phones pa\\\r\n    rent=house queue=default-small/pcq-home target=192.168.88.16/28,2001:db8::/64\r\n\
    add disabled=yes max-limit=1M/1M name=old target=192.168.88.99/32\r\n\
    /queue simple\r\nadd max-limit=5M/5M name=guests target=192.168.89.0/24\r\n";

const TREE: &str = "/ip firewall mangle
add action=mark-packet chain=forward dst-port=80,443 new-packet-mark=web protocol=tcp
add action=mark-packet chain=forward dscp=46 new-packet-mark=voice passthrough=no
add action=mark-packet chain=forward connection-mark=games new-packet-mark=games passthrough=no
add action=mark-packet chain=forward new-packet-mark=bulk out-interface=wan src-address=10.0.9.0/24
add action=accept chain=forward
/queue tree
add limit-at=1M max-limit=5M name=voice packet-mark=voice parent=up priority=1
add limit-at=2M max-limit=20M name=up parent=wan
add limit-at=2M max-limit=20M name=web packet-mark=web,bulk parent=up priority=4 queue=fq
add max-limit=10M name=games packet-mark=games parent=up
add max-limit=50M name=down packet-mark=all parent=lan
/queue type add name=fq kind=fq-codel
";

fn import(name: &str, text: impl Into<String>, options: &Options) -> Result<Imported, Problems> {
    super::super::tests::import(&INFO, &[(name, &text.into())], options)
}

fn made(text: &str, options: &Options) -> Imported {
    import("export.rsc", text, options).unwrap_or_else(|errors| panic!("{}", errors.lines()))
}

fn refused(text: &str, options: &Options) -> String {
    import("export.rsc", text, options).expect_err("this is wrong").lines()
}

/// Of a class: parent, guarantee, ceiling.
fn class(link: &LinkFile, name: &str) -> (String, Option<u64>, Option<u64>) {
    let id = link.names.id(name).unwrap_or_else(|| panic!("no class {name}"));
    let parent = link.tree.parent(id).unwrap_or(ClassId::ROOT);
    let guarantee = match link.tree.config(id).share {
        Some(Share::Guarantee(rate)) => Some(rate.bps()),
        _ => None,
    };
    (link.names.name(parent).to_owned(), guarantee, link.tree.config(id).ceiling.map(|rate| rate.bps()))
}

fn matches(link: &LinkFile, name: &str) -> Vec<String> {
    let id = link.names.id(name).unwrap();
    link.matches.iter().filter(|(class, _)| *class == id).map(|(_, made)| made.to_string()).collect()
}

fn said(imported: &Imported, change: bool) -> Vec<String> {
    let all = imported.notes.iter().filter(|note| matches!(note.kind(), ProblemKind::Changed { .. }) == change);
    all.map(ToString::to_string).collect()
}

const M: u64 = 1_000_000;

#[test]
fn simple_queues_have_their_rates_of_each_direction() {
    let options = Options::default().with("direction", "both");
    let imported = made(SIMPLE, &options);
    let [down, up] = &imported.links[..] else { panic!("two links") };
    assert_eq!(down.link.tree.link().rate.bps(), 25 * M);
    assert_eq!(up.link.tree.link().rate.bps(), 10 * M);
    let (down, up) = (&down.link, &up.link);
    assert_eq!(class(down, "PC 1 upstairs"), ("house".into(), Some(4 * M), Some(8 * M)));
    assert_eq!(class(up, "PC 1 upstairs"), ("house".into(), Some(M), Some(2 * M)));
    assert_eq!(class(down, "phones"), ("house".into(), Some(M), Some(8 * M)));
    assert_eq!(class(up, "phones").1, Some(512_000));
    assert_eq!(class(down, "house"), ("link".into(), Some(5 * M), Some(20 * M)));
    // It has no minimum: an equal part of the rest.
    assert_eq!(class(down, "guests").1, Some(5 * M));
    assert_eq!(matches(down, "phones"), ["dst net 192.168.88.16/28", "dst net 2001:db8::/64"]);
    assert_eq!(matches(up, "PC 1 upstairs"), ["src net 192.168.88.10/32"]);
    assert_eq!(down.names.id("old"), None);
    assert!(
        imported.links[0]
            .text
            .contains("queue = \"fq_codel\"\nper = \"dst-ip\"\nmatch = [\"dst net 192.168.88.16/28\"")
    );
    let by = |link: &LinkFile, name| link.tree.config(link.names.id(name).unwrap()).hosts.map(|hosts| hosts.by);
    assert_eq!(by(down, "phones"), Some(HostKey::DestinationIp));
    assert!(down.tree.leaves().iter().filter(|&&leaf| down.tree.config(leaf).hosts.is_some()).count() == 1);
    assert!(up.tree.leaves().iter().all(|&leaf| up.tree.config(leaf).hosts.is_none()), "default-small is a fifo");
    let (changed, left_out) = (said(&imported, true), said(&imported, false));
    assert!(changed.iter().any(|note| note.starts_with("1 queue of pcq")), "{changed:#?}");
    for expected in ["1 queue with a burst", "that are disabled", "priorities 1 to 8"] {
        assert!(left_out.iter().any(|note| note.contains(expected)), "{expected}: {left_out:#?}");
    }
}

#[test]
fn a_tree_hangs_off_its_interface_and_takes_what_its_marks_say() {
    let options = Options::default().with("parent", "wan");
    let imported = made(TREE, &options);
    let link = &imported.links[0];
    assert_eq!((imported.links.len(), link.name.as_str()), (1, "wan"));
    let down = &link.link;
    assert_eq!(down.tree.link().rate.bps(), 20 * M);
    // Children before their parent, as exports have them where names say so.
    assert_eq!(class(down, "up"), ("link".into(), Some(3 * M + 1000), Some(20 * M)));
    assert_eq!(class(down, "voice").0, "up");
    assert_eq!(matches(down, "voice"), ["dscp ef"]);
    // A rule with passthrough comes after later rules: the later mark applies.
    assert_eq!(matches(down, "web"), ["tcp dst port 80", "tcp dst port 443", "src net 10.0.9.0/24"]);
    let order: Vec<&str> = down.matches.iter().map(|(class, _)| down.names.name(*class)).collect();
    assert_eq!(order, ["voice", "web", "web", "web"]);
    let left_out = said(&imported, false);
    assert!(
        left_out.iter().any(|note| note.contains("\"games\": not expressible as a match: connection-mark=games")),
        "{left_out:#?}"
    );
    assert!(left_out.iter().any(|note| note.contains("class of queue \"games\" has no match")), "{left_out:#?}");
    // HTB's priorities count from 0.
    let before = link.before.as_ref().unwrap();
    assert!(before.contains("name = \"voice\"\nparent = \"up\"\nguarantee = \"1Mbit\"\nceiling = \"5Mbit\"\npriority = 0\nquantum = \"1514B\""), "{before}");
    // All trees, a link for each; or a queue as the link.
    let names: Vec<String> = made(TREE, &Options::default()).links.into_iter().map(|link| link.name).collect();
    assert_eq!(names, ["wan", "lan"]);
    let below = made(TREE, &Options::default().with("parent", "up"));
    assert_eq!(below.links[0].link.tree.link().rate.bps(), 20 * M);
    assert_eq!(class(&below.links[0].link, "web").0, "link");
}

/// Every packet of a small world goes through RouterOS' rules and through the matches, with every order of rules and
/// every passthrough.
#[test]
fn the_first_match_is_the_mark_that_routeros_gives() {
    let conditions =
        ["", "protocol=udp", "dst-address=10.0.0.0/9", "protocol=udp dst-port=5", "dst-address=10.0.0.0/8"];
    let holds = |rule: usize, udp: bool, port: u16, address: u32| match rule {
        0 => true,
        1 => udp,
        2 => address >> 23 == 20,
        3 => udp && port == 5,
        _ => address >> 24 == 10,
    };
    let mut state = 3u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    for _ in 0..300 {
        let rules: Vec<(usize, bool, usize)> =
            (0..1 + next(4)).map(|_| (next(5) as usize, next(2) == 0, next(2) as usize)).collect();
        let mut text = String::from("/ip firewall mangle\n");
        for (at, (rule, goes_on, chain)) in rules.iter().enumerate() {
            let chain = ["prerouting", "forward"][*chain];
            let pass = if *goes_on { "" } else { "passthrough=no" };
            text +=
                &format!("add action=mark-packet chain={chain} new-packet-mark=m{at} {} {pass}\n", conditions[*rule]);
        }
        let mut log = Log::new(&SourceText::new("a.rsc", text.clone()));
        let commands = commands(&text, &mut log);
        let place = mangle::Place { out: Some("wan"), into: None };
        let mangle::Marks { marked, untold, .. } =
            mangle::read(&commands, &router::Router::of(&commands), place, &|_| true);
        assert!(untold.is_empty() && !log.has_errors(), "{text}");
        for (udp, port, address) in [
            (true, 5, 0x0a00_0001),
            (true, 6, 0x0a80_0001),
            (false, 5, 0x0a00_0001),
            (true, 5, 0x0b00_0001),
            (false, 5, 0x0b00_0001),
        ] {
            let mut mark = None;
            for chain in 0..2 {
                for (at, (rule, goes_on, _)) in rules.iter().enumerate().filter(|(_, rule)| rule.2 == chain) {
                    if holds(*rule, udp, port, address) {
                        mark = Some(format!("m{at}"));
                        if !goes_on {
                            break;
                        }
                    }
                }
            }
            let frame = frame(udp, port, address);
            let first = marked.iter().find(|marked| marked.is.matches(&frame)).unwrap();
            assert_eq!(first.mark, mark.unwrap_or_default(), "{text}");
        }
    }
}

#[test]
fn what_is_wrong_is_refused_at_its_line() {
    let simple = |line: &str| format!("/queue simple\nadd name=a target=10.0.0.1/32 max-limit=1M/1M\n{line}\n");
    for (line, said) in [
        ("add name=b max-limit=1X/2M target=10.0.0.2", "\"max-limit\" is \"1X/2M\""),
        (
            "add name=b max-limit=1M/2M limit-at=0/3M target=10.0.0.2",
            "limit-at of 3 Mbit/s is above max-limit of 2 Mbit/s",
        ),
        ("add name=b max-limit=1M/2M priority=9/9", "\"priority\" is \"9/9\""),
        ("add max-limit=1M/2M", "this queue has no name"),
        ("add name=a max-limit=1M/2M", "there are two queues named \"a\""),
        ("add name=b parent=c max-limit=1M/2M", "the parent \"c\" of \"b\" is not a queue"),
        ("add name=b parent=b max-limit=1M/2M", "has more than 60 queues above it, or is its own ancestor"),
        ("limit name=b", "/queue simple has no command \"limit\""),
    ] {
        let errors = refused(&simple(line), &Options::default());
        assert!(errors.starts_with("export.rsc:3:1") && errors.contains(said), "{line}: {errors}");
    }
    for (text, options, said) in [
        ("", Options::default(), "there is no queue in /queue tree"),
        ("/queue tree\nadd name=a parent=wan\n", Options::default(), "the rate of wan is unknown"),
        (
            TREE,
            Options::default().with("parent", "dmz"),
            "there is no queue below \"dmz\"; there are queues below: wan, lan",
        ),
        (&format!("{SIMPLE}{TREE}"), Options::default(), "select one with --queues tree or --queues simple"),
    ] {
        let errors = refused(text, &options);
        assert!(errors.contains(said), "{errors}");
    }
    assert_eq!(made(&format!("{SIMPLE}{TREE}"), &Options::default().with("queues", "tree")).links.len(), 2);
}

#[test]
fn rates_are_read_as_routeros_writes_them() {
    for (text, bps) in [("10M", 10_000_000), ("512k", 512_000), ("1.5G", 1_500_000_000), ("0", 0), ("64000", 64_000)] {
        assert_eq!(rate(text), Some(bps), "{text}");
    }
    for wrong in ["", "M", "-1", "10MM", "1e6", "9999G", "10Mbit"] {
        assert_eq!(rate(wrong), None, "{wrong}");
    }
}

#[test]
fn every_type_of_queue_has_its_counterpart_and_a_note_where_that_is_another() {
    const RED: &str = "1 queue of red: a fifo";
    const CAKE: &str = "1 queue of cake: fq_codel";
    let queues = [
        ("kind=fq-codel", "fq_codel", None, None),
        ("kind=codel", "codel", None, None),
        ("kind=pcq pcq-classifier=src-address,src-port", "fq_codel", Some("src-ip"), Some("1 queue of pcq: per")),
        ("kind=pcq pcq-classifier=src-address,dst-address", "fq_codel", None, Some("1 queue of pcq: per")),
        ("kind=cake", "fq_codel", None, Some(CAKE)),
        ("kind=sfq", "fq_codel", None, Some("1 queue of sfq: fq_codel instead")),
        ("kind=red", "fifo", None, Some(RED)),
        // Only of pcq a classifier says anything.
        ("kind=red pcq-classifier=src-address", "fifo", None, Some(RED)),
        ("kind=pfifo", "fifo", None, None),
    ];
    for (made_of, queue, per, note) in queues {
        let text = format!(
            "/queue type\nadd name=t {made_of}\n/queue simple\nadd name=a target=10.0.0.1 max-limit=1M/2M queue=t/t\n"
        );
        let imported = made(&text, &Options::default());
        let line = |key: &str| {
            let text = &imported.links[0].text;
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")))?;
            Some(line.trim_matches('"').to_owned())
        };
        assert_eq!(line("queue").unwrap_or_else(|| "fifo".to_owned()), queue, "{made_of}");
        assert_eq!(line("per").as_deref(), per, "{made_of}");
        let notes: Vec<String> = said(&imported, true).into_iter().filter(|note| note.contains("queue of")).collect();
        assert_eq!(notes.len(), usize::from(note.is_some()), "{made_of}: {notes:?}");
        assert!(note.is_none_or(|note| notes[0].starts_with(note)), "{made_of}: {notes:?}");
    }
    let own = [("wireless-default", "sfq"), ("hotspot-default", "sfq"), ("synchronous-default", "red")];
    for (name, kind) in own {
        let text = format!("/queue simple\nadd name=a target=10.0.0.1 max-limit=1M/2M queue=default/{name}\n");
        let notes = said(&made(&text, &Options::default()), true);
        assert!(notes.iter().any(|note| note.starts_with(&format!("1 queue of {kind}"))), "{name}: {notes:?}");
    }
}

#[test]
fn what_a_queue_has_beside_its_rates_is_said_to_be_left_out() {
    let text = "/queue simple\nadd name=a target=10.0.0.1 max-limit=1M/2M time=8h-20h,mon total-max-limit=2M total-priority=0\n";
    let imported = made(text, &Options::default());
    let (changed, left_out) = (said(&imported, true), said(&imported, false));
    assert!(changed.contains(&"1 queue with a time: the class exists at all times".to_owned()), "{changed:#?}");
    assert!(left_out.contains(&"1 queue with limits of both directions together".to_owned()), "{left_out:#?}");
}

#[test]
fn queues_without_limit_at_have_next_to_nothing_under_htb_and_others_a_hundredth() {
    let text = "/queue type add name=p kind=pcq pcq-classifier=dst-address\n/queue simple\n\
        add name=house target=10.0.0.0/8 max-limit=5M/20M queue=p/p\n\
        add name=a parent=house target=10.0.0.1 max-limit=5M/20M\nadd name=b parent=house target=10.0.0.2 max-limit=5M/20M limit-at=1M/2M\n";
    let imported = made(text, &Options::default());
    let link = &imported.links[0];
    let before = link.link_before.as_ref().unwrap();
    assert_eq!(["a", "b", "others"].map(|name| class(before, name).1), [Some(1000), Some(2 * M), Some(200_000)]);
    assert_eq!(class(&link.link, "others").1, Some(200_000));
    // The queue discipline and hosts of a class with children are not used.
    let tree = &link.link.tree;
    assert!(tree.leaves().iter().all(|&leaf| tree.config(leaf).hosts.is_none()));
}

#[test]
fn what_an_earlier_queue_takes_all_of_is_left_out_of_a_later_one() {
    let text = "/queue simple\nadd name=all target=10.0.0.0/8 max-limit=5M/20M\nadd name=one target=10.0.0.1,11.0.0.1 max-limit=5M/20M\n";
    let imported = made(text, &Options::default());
    assert_eq!(matches(&imported.links[0].link, "one"), ["dst net 11.0.0.1/32"]);
    let left_out = said(&imported, false);
    let note = "\"dst net 10.0.0.1/32\" of the queue \"one\": an earlier queue takes all of its frames";
    assert!(left_out.contains(&note.to_owned()), "{left_out:#?}");
}

#[test]
fn rules_have_their_protocol_and_one_that_excludes_something_is_left_out() {
    for (condition, found) in [
        ("protocol=gre", Some("proto 47")),
        ("protocol=ipsec-esp", Some("proto 50")),
        ("protocol=ipsec-ah", Some("proto 51")),
        ("protocol=icmpv6", Some("icmp6")),
        ("protocol=89", Some("proto 89")),
        ("dscp=!46", None),
        ("src-address=!10.0.0.0/8", None),
    ] {
        let text = format!(
            "/ip firewall mangle\nadd action=mark-packet chain=forward new-packet-mark=m {condition}\n\
             /queue tree\nadd name=a parent=wan max-limit=1M packet-mark=m\n"
        );
        let imported = made(&text, &Options::default());
        let link = &imported.links[0].link;
        assert_eq!(
            matches(link, "a"),
            found.map(|text| crate::matching::Match::parse(text).unwrap().to_string()).as_slice(),
            "{condition}"
        );
        let noted = said(&imported, false)
            .iter()
            .any(|note| note.contains(&format!("not expressible as a match: {condition}")));
        assert_eq!(noted, found.is_none(), "{condition}: {:#?}", said(&imported, false));
    }
}

#[test]
fn few_queues_are_no_table_and_what_is_kept_has_its_comments() {
    let few = |queues: usize| {
        let rows =
            (0..queues).map(|at| format!("add name=q{at} target=10.0.0.{at} max-limit=1M/1M comment=\"flat {at}\"\n"));
        format!("/queue simple\n{}", rows.collect::<String>())
    };
    let tabled = |queues: usize| made(&few(queues), &Options::default()).links.remove(0).tabled.is_some();
    assert_eq!([tabled(29), tabled(30)], [false, true]);
    let kept = made(&few(2), &Options::default().with("as-is", true)).links.remove(0).text;
    assert!(kept.contains("scheduler = \"htb\"") && kept.contains("# flat 1\nname = \"q1\""), "{kept}");
}

/// Packets have the mark of their connection, which its first packet got; replies have source and destination
/// exchanged.
#[test]
fn marks_of_connections_are_followed_to_packets_of_both_ways() {
    let text = "/ip firewall mangle
add action=mark-connection chain=prerouting connection-state=new dst-port=80,443 in-interface=wan new-connection-mark=web protocol=tcp
add action=mark-connection chain=prerouting connection-mark=no-mark new-connection-mark=rest
add action=mark-connection chain=forward layer7-protocol=x new-connection-mark=web
add action=mark-packet chain=forward connection-mark=web new-packet-mark=web passthrough=no
add action=mark-packet chain=forward connection-mark=rest new-packet-mark=rest passthrough=no
/queue tree
add limit-at=2M max-limit=10M name=all parent=wan
add limit-at=1M max-limit=10M name=web packet-mark=web parent=all
add limit-at=1M max-limit=10M name=rest packet-mark=rest parent=all\n";
    let imported = made(text, &Options::default());
    let link = &imported.links[0];
    // Replies of connections that arrived at wan leave by it.
    assert!(link.text.contains("match = [\"tcp src port 80\", \"tcp src port 443\"]"), "{}", link.text);
    let of = |name: &str| link.link.matches.iter().filter(|(class, _)| link.link.names.name(*class) == name).count();
    assert_eq!((of("web"), of("rest")), (2, 1), "{}", link.text);
    let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
    assert!(notes.contains("marks packets as \"web\": not expressible as a match: layer7-protocol=x"), "{notes}");
}

#[test]
fn a_queue_for_all_of_an_interface_takes_what_no_queue_before_it_takes() {
    let one = "/queue simple\nadd name=boss target=10.0.0.2/32 max-limit=50M/50M\nadd name=sqm target=ether1 max-limit=285M/285M\n";
    let imported = made(one, &Options::default());
    let link = &imported.links[0].link;
    let texts: Vec<String> = link.matches.iter().map(|(_, made)| made.to_string()).collect();
    assert_eq!((texts, link.unreachable()), (vec!["dst net 10.0.0.2/32".to_owned(), "any".to_owned()], &[][..]));
    // Nothing is left for others.
    assert_eq!((link.tree.len(), link.default_class), (3, link.names.id("sqm")));
    assert_eq!(imported.kept, ["2 queues with their rates and parents, in 1 link"]);
    assert!(
        imported
            .notes
            .iter()
            .any(|note| note.to_string().contains("\"target=ether1\": read as all traffic that no earlier queue"))
    );
    // The link is one of two interfaces, and the file does not say which.
    let two = one.replace("target=10.0.0.2/32", "target=ether2");
    let imported = made(&two, &Options::default());
    assert_eq!(imported.links[0].link.unreachable().len(), 2);
}

#[test]
fn where_a_packet_came_in_is_taken_for_granted_where_it_leaves_by_another_interface() {
    let text = "/ip firewall mangle\nadd action=mark-packet chain=forward in-interface=wan new-packet-mark=down passthrough=no\n\
                /queue tree\nadd name=all parent=lan packet-mark=down max-limit=100M\n";
    let imported = made(text, &Options::default());
    assert_eq!(imported.links[0].link.unreachable(), []);
    let note = imported.notes.iter().find(|note| note.to_string().contains("in-interface=wan")).unwrap();
    assert!(note.to_string().contains("assumed true for all traffic that leaves lan"), "{note}");
    // A packet does not leave by the interface that it came from.
    let imported = made(&text.replace("parent=lan", "parent=wan"), &Options::default());
    assert_eq!(imported.links[0].link.unreachable().len(), 1);
}

/// Rules that mark connections and then their packets, at random, beside a model that follows each packet through the
/// chain.
#[test]
fn marks_of_connections_are_those_that_a_packet_and_the_next_of_its_connection_get() {
    let conditions =
        ["protocol=udp dst-port=5", "protocol=udp", "dst-address=10.0.0.0/8", "protocol=tcp dst-port=5", ""];
    let holds = |rule: usize, udp: bool, port: u16, address: u32| match rule {
        0 => udp && port == 5,
        1 => udp,
        2 => address >> 24 == 10,
        3 => !udp && port == 5,
        _ => true,
    };
    let mut state = 11u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut compared = 0;
    for _ in 0..2000 {
        // Each rule: marks connections by a condition, or packets of a connection's mark.
        let count = 2 + next(6);
        let rules: Vec<(bool, usize, usize)> =
            (0..count).map(|_| (next(2) == 0, next(5) as usize, next(3) as usize)).collect();
        let mut text = String::from("/ip firewall mangle\n");
        for &(connection, condition, mark) in &rules {
            let chain = "chain=prerouting";
            text += &match connection {
                true => format!(
                    "add action=mark-connection {chain} {} new-connection-mark=c{mark}\n",
                    conditions[condition]
                ),
                // Rules with passthrough are not closed: this test has none.
                false => format!(
                    "add action=mark-packet {chain} connection-mark=c{mark} new-packet-mark=p{mark} passthrough=no\n"
                ),
            };
        }
        let mut log = Log::new(&SourceText::new("a.rsc", text.clone()));
        let commands = commands(&text, &mut log);
        let place = mangle::Place { out: Some("wan"), into: None };
        let mangle::Marks { marked, untold, .. } =
            mangle::read(&commands, &router::Router::of(&commands), place, &|_| true);
        if !untold.is_empty() {
            continue;
        }
        for (udp, port, address) in [
            (true, 5, 0x0a00_0001),
            (true, 6, 0x0b00_0001),
            (false, 5, 0x0a00_0001),
            (false, 6, 0x0a00_0001),
            (false, 6, 0x0b00_0001),
        ] {
            let pass = |connection: &mut Option<usize>| {
                for &(marks_connection, condition, mark) in &rules {
                    if marks_connection && holds(condition, udp, port, address) {
                        *connection = Some(mark);
                    } else if !marks_connection && *connection == Some(mark) {
                        return Some(mark);
                    }
                }
                None
            };
            let mut connection = None;
            // A connection that lasts: what its packets get once nothing changes any more.
            let marks: Vec<Option<usize>> = (0..6).map(|_| pass(&mut connection)).collect();
            if marks[4] != marks[5] || marks[1] != marks[5] {
                continue;
            }
            compared += 1;
            let frame = frame(udp, port, address);
            let found = marked.iter().find(|marked| marked.is.matches(&frame));
            let expected = marks[5].map(|mark| format!("p{mark}"));
            assert_eq!(
                found.map(|marked| marked.mark.clone()).filter(|mark| !mark.is_empty()),
                expected,
                "{udp} {port} {address:x}\n{text}{marked:#?}"
            );
        }
    }
    assert!(compared > 2000, "{compared}");
}

fn frame(udp: bool, port: u16, address: u32) -> FrameKey {
    FrameKey {
        ethertype: Some(0x0800),
        version: Some(IpVersion::V4),
        proto: if udp { 17 } else { 6 },
        src: v4_mapped([192, 0, 2, 1]),
        dst: v4_mapped(address.to_be_bytes()),
        sport: Some(40_000),
        dport: Some(port),
        ..FrameKey::default()
    }
}

/// Queues of `global` with the marks of one interface become a link there; if the file has the network of an interface,
/// it is matched instead.
#[test]
fn queues_of_global_are_told_apart_by_interfaces() {
    let text = "/ip firewall mangle
add action=mark-packet chain=forward out-interface=lan new-packet-mark=down passthrough=yes
add action=mark-packet chain=forward in-interface=lan new-packet-mark=up passthrough=yes
add action=mark-packet chain=forward out-interface=dmz new-packet-mark=dmz passthrough=no
/queue tree
add name=d parent=global packet-mark=down max-limit=100M
add name=u parent=global packet-mark=up max-limit=10M\n";
    let imported = import("a.rsc", text, &Options::default()).unwrap();
    let names: Vec<&str> = imported.links.iter().map(|link| link.name.as_str()).collect();
    // The same interface has one link of its own; the other queue is named.
    assert_eq!(names, ["lan", "global"]);
    assert_eq!([0, 1].map(|at| imported.links[at].link.unreachable().len()), [0, 1]);
    let other = text.replace("in-interface=lan", "in-interface=lan2");
    let imported = import("a.rsc", other.as_str(), &Options::default()).unwrap();
    let names: Vec<&str> = imported.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["lan", "from-lan2"]);
    assert!(imported.links.iter().all(|link| link.link.unreachable().is_empty()));
    assert!(
        said(&imported, true).iter().any(|note| note.contains("all its marks are of traffic that comes in by lan2"))
    );
    let chosen = Options::default().with("parent", "lan2");
    assert_eq!(import("a.rsc", other, &chosen).unwrap().links[0].name, "from-lan2");
    // A queue as the link is in the place of its parent.
    let below = text.replace(
        "name=d parent=global packet-mark=down",
        "name=t parent=global\nadd name=d parent=t packet-mark=down max-limit=9M\nadd name=e parent=t packet-mark=x",
    );
    let chosen = Options::default().with("parent", "t").with("rate", "1mbit");
    let imported = import("a.rsc", below, &chosen).unwrap();
    assert_eq!((imported.links[0].name.as_str(), imported.links[0].link.unreachable().len()), ("t", 1));
    let with_net = format!("/ip address\nadd address=10.1.0.1/16 interface=lan\n{text}");
    let imported = made(&with_net, &Options::default());
    let link = &imported.links[0].link;
    assert_eq!(
        (matches(link, "d"), matches(link, "u")),
        (vec!["dst net 10.1.0.0/16".to_owned()], vec!["src net 10.1.0.0/16".to_owned()])
    );
    assert!(said(&imported, true).iter().any(|note| note.starts_with("out-interface=lan: read as its network")));
}

#[test]
fn address_lists_are_their_static_entries_and_what_they_lack_is_said() {
    let text = "/ip firewall address-list
add list=vip address=10.0.0.1
add list=vip address=10.0.1.0/24
add list=vip address=10.9.9.9 disabled=yes
/ip firewall mangle
add action=mark-packet chain=forward dst-address-list=vip new-packet-mark=vip passthrough=no
add action=mark-packet chain=forward src-address-list=!vip new-packet-mark=rest passthrough=no
/queue tree
add name=vip parent=lan packet-mark=vip max-limit=100M
add name=rest parent=lan packet-mark=rest max-limit=10M\n";
    let imported = made(text, &Options::default());
    let link = &imported.links[0].link;
    assert_eq!(matches(link, "vip"), ["dst net 10.0.0.1/32", "dst net 10.0.1.0/24"]);
    let of = |source: &str, to: &str| {
        let (source, to): (std::net::Ipv4Addr, std::net::Ipv4Addr) = (source.parse().unwrap(), to.parse().unwrap());
        let frame = FrameKey { src: v4_mapped(source.octets()), dst: v4_mapped(to.octets()), ..frame(true, 1, 0) };
        let found = link.matches.iter().find(|(_, made)| made.matches(&frame)).map(|(class, _)| *class);
        link.names.name(found.or(link.default_class).unwrap()).to_owned()
    };
    assert_eq!(of("192.0.2.1", "10.0.1.9"), "vip");
    assert_eq!(of("192.0.2.1", "10.0.2.9"), "rest");
    assert_eq!(of("10.0.1.7", "10.0.2.9"), "others");
    assert_eq!(said(&imported, false), [] as [String; 0]);
    for (entry, note) in [
        (
            "add list=vip address=vip.example.org",
            "a part of a rule that marks packets as \"vip\": 1 entries of the address list \"vip\" that are not addresses",
        ),
        (
            "/ip firewall filter\nadd action=add-src-to-address-list address-list=vip chain=input",
            "a part of a rule that marks packets as \"vip\": addresses that rules add to the list \"vip\" at run time",
        ),
    ] {
        let imported = made(
            &text.replace(
                "add list=vip address=10.9",
                &format!("{entry}\n/ip firewall address-list\nadd list=vip address=10.9"),
            ),
            &Options::default(),
        );
        let notes = said(&imported, false);
        assert!(notes.iter().any(|said| said.starts_with(note)), "{notes:#?}");
        assert!(imported.links[0].link.unreachable().is_empty());
    }
    let none = text.replace("list=vip address", "list=other address");
    let imported = made(&none, &Options::default());
    assert_eq!(imported.links[0].link.unreachable().len(), 2);
    assert!(
        said(&imported, false)
            .iter()
            .any(|note| note.contains("the address list \"vip\", which has no entry in this file"))
    );
}

#[test]
fn types_of_queues_that_are_changed_are_what_they_are_then() {
    let text = "/queue type\nset 0 kind=sfq\nset 9 kind=fq-codel\nset 1 kind=pfifo\n/queue simple\nadd name=a target=10.0.0.1 max-limit=1M/2M queue=default/default\n\
        add name=b target=10.0.0.2 max-limit=1M/2M\n";
    let notes = said(&made(text, &Options::default()), true);
    assert!(notes.iter().any(|note| note.starts_with("1 queue of sfq")), "{notes:?}");
}

/// Rules at random, with address lists, jumps and marks that they ask for, beside a model that follows each packet.
#[test]
fn packets_get_the_marks_that_a_model_of_the_rules_gives_them() {
    const CONDITIONS: [&str; 7] = [
        "",
        "protocol=udp",
        "dst-address-list=l",
        "dst-address-list=!l",
        "protocol=udp dst-port=5",
        "dst-address=10.0.0.0/8",
        "dst-address-list=!l protocol=udp",
    ];
    let in_list = |address: u32| address >> 23 == 20 || address == 0x0b00_0001;
    let holds = |condition: usize, udp: bool, port: u16, address: u32| match condition {
        0 => true,
        1 => udp,
        2 => in_list(address),
        3 => !in_list(address),
        4 => udp && port == 5,
        5 => address >> 24 == 10,
        _ => !in_list(address) && udp,
    };
    let mut state = 5u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    // Action of a rule: marks, jumps (to "j", but not from there), accepts, returns.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Does {
        Mark(bool),
        Jump,
        Accept,
        Return,
    }
    let mut marks = std::collections::BTreeSet::new();
    for _ in 0..1500 {
        let rules: Vec<(usize, usize, Does, bool)> = (0..1 + next(7))
            .map(|_| {
                let chain = next(3) as usize;
                let does = match next(8) {
                    0 if chain < 2 => Does::Jump,
                    1 => Does::Accept,
                    2 => Does::Return,
                    other => Does::Mark(other % 2 == 0),
                };
                (chain, next(7) as usize, does, next(3) == 0)
            })
            .collect();
        let mut text = "/ip firewall address-list\nadd list=l address=10.0.0.0-10.127.255.255\nadd list=l address=11.0.0.1\n/ip firewall mangle\n".to_owned();
        for (at, &(chain, condition, does, asks)) in rules.iter().enumerate() {
            let chain = ["prerouting", "forward", "j"][chain];
            let does = match does {
                Does::Mark(goes_on) => {
                    format!("mark-packet new-packet-mark=m{at} passthrough={}", if goes_on { "yes" } else { "no" })
                }
                Does::Jump => "jump jump-target=j".to_owned(),
                Does::Accept => "accept".to_owned(),
                Does::Return => "return".to_owned(),
            };
            let asked = if asks { "packet-mark=no-mark" } else { "" };
            text += &format!("add chain={chain} action={does} {} {asked}\n", CONDITIONS[condition]);
        }
        let mut log = Log::new(&SourceText::new("a.rsc", text.clone()));
        let commands = commands(&text, &mut log);
        let mangle::Marks { marked, untold, .. } =
            mangle::read(&commands, &router::Router::of(&commands), mangle::Place::default(), &|_| true);
        assert!(untold.is_empty() && !log.has_errors(), "{text}\n{untold:#?}");
        for (udp, port, address) in [
            (true, 5, 0x0a00_0001),
            (true, 6, 0x0a80_0001),
            (false, 5, 0x0a00_0001),
            (true, 5, 0x0b00_0001),
            (false, 5, 0x0b00_0002),
            (false, 7, 0x0a80_0001),
        ] {
            /// Passes a chain; returns false if it was ended.
            fn pass(
                chain: usize,
                rules: &[(usize, usize, Does, bool)],
                holds: &dyn Fn(usize) -> bool,
                mark: &mut Option<usize>,
            ) -> bool {
                for (at, &(_, condition, does, asks)) in rules.iter().enumerate().filter(|(_, rule)| rule.0 == chain) {
                    if !holds(condition) || asks && mark.is_some() {
                        continue;
                    }
                    match does {
                        Does::Mark(goes_on) => {
                            *mark = Some(at);
                            if !goes_on {
                                return false;
                            }
                        }
                        Does::Jump => {
                            if !pass(2, rules, holds, mark) {
                                return false;
                            }
                        }
                        Does::Accept => return false,
                        Does::Return => return true,
                    }
                }
                true
            }
            let mut mark = None;
            for chain in 0..2 {
                pass(chain, &rules, &|condition| holds(condition, udp, port, address), &mut mark);
            }
            let frame = frame(udp, port, address);
            let first = marked.iter().find(|marked| marked.is.matches(&frame)).unwrap();
            marks.insert(first.mark.clone());
            assert_eq!(first.mark, mark.map(|at| format!("m{at}")).unwrap_or_default(), "{text}{marked:#?}");
        }
    }
    assert!(marks.len() > 5, "{marks:?}");
}

/// Simple queues with targets and marks at random, and trees, beside a model that asks the queues one after the other.
#[test]
fn frames_are_of_the_queue_that_a_model_of_the_queues_gives_them() {
    const CONDITIONS: [&str; 4] =
        ["protocol=udp", "dst-address=10.0.0.0/9", "protocol=tcp dst-port=5", "protocol=udp dst-port=5"];
    const TARGETS: [&str; 4] = ["", "target=10.0.0.0/8", "target=10.0.0.1/32", "target=0.0.0.0/0"];
    let holds = |condition: usize, udp: bool, port: u16, address: u32| match condition {
        0 => udp,
        1 => address >> 23 == 20,
        2 => !udp && port == 5,
        _ => udp && port == 5,
    };
    let is_target = |target: usize, address: u32| match target {
        0 => false,
        1 => address >> 24 == 10,
        2 => address == 0x0a00_0001,
        _ => true,
    };
    let mut state = 9u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let (mut compared, mut warned) = (0, 0);
    for round in 0..1500 {
        let simple = round % 2 == 0;
        let rules: Vec<(usize, usize)> = (0..1 + next(4)).map(|_| (next(4) as usize, next(3) as usize)).collect();
        // Target and mark; the mark 3 is none, 4 is "no-mark".
        let queues: Vec<(usize, usize)> = (0..1 + next(4)).map(|_| (next(4) as usize, next(5) as usize)).collect();
        let mut text = "/ip firewall mangle\n".to_owned();
        for (condition, mark) in &rules {
            text += &format!(
                "add chain=forward action=mark-packet new-packet-mark=m{mark} passthrough=no {}\n",
                CONDITIONS[*condition]
            );
        }
        text += if simple { "/queue simple\n" } else { "/queue tree\n" };
        for (at, &(target, mark)) in queues.iter().enumerate() {
            let key = if simple { "packet-marks" } else { "packet-mark" };
            let mark = match mark {
                3 => String::new(),
                4 => format!("{key}=no-mark"),
                mark => format!("{key}=m{mark}"),
            };
            text += &match simple {
                true => format!("add name=q{at} max-limit=9M/9M {} {mark}\n", TARGETS[target]),
                false => format!("add name=q{at} max-limit=9M parent=wan {mark}\n"),
            };
        }
        let imported =
            import("a.rsc", text.as_str(), &Options::default()).unwrap_or_else(|errors| panic!("{}", errors.lines()));
        if imported
            .notes
            .iter()
            .any(|note| note.to_string().starts_with("WARNING") && !note.to_string().contains("has no match"))
        {
            warned += 1;
            continue;
        }
        let link = &imported.links[0].link;
        for (udp, port, address) in [
            (true, 5, 0x0a00_0001),
            (true, 6, 0x0a00_0002),
            (false, 5, 0x0a00_0001),
            (false, 5, 0x0b00_0001),
            (true, 5, 0x0b00_0001),
            (false, 6, 0x0a80_0001),
            (true, 6, 0x0b00_0001),
        ] {
            let mark = rules.iter().find(|(condition, _)| holds(*condition, udp, port, address)).map(|(_, mark)| *mark);
            let asks = |wanted: usize| wanted == 4 && mark.is_none() || mark == Some(wanted);
            let taker = queues.iter().position(|&(target, wanted)| match simple {
                true if target == 0 => asks(wanted),
                true => is_target(target, address) && (wanted == 3 || asks(wanted)),
                false => asks(wanted),
            });
            let frame = frame(udp, port, address);
            let found = link.matches.iter().find(|(_, made)| made.matches(&frame)).map(|(class, _)| *class);
            let found = link.names.name(found.or(link.default_class).unwrap()).to_owned();
            assert_eq!(
                found,
                taker.map_or("others".to_owned(), |at| format!("q{at}")),
                "{udp} {port} {address:x}\n{text}\n{}",
                imported.links[0].text
            );
            compared += 1;
        }
    }
    assert!(compared > 8000 && warned < 200, "{compared} {warned}");
}
