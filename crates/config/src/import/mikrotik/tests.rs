use fairlink_core::{ClassId, HostKey, Share};

use super::*;
use crate::link::LinkFile;
use crate::matching::{FrameKey, IpVersion, Match, v4_mapped};
use crate::problem::ProblemKind;

/// An export with the oddities of those that are published: a section twice, lines that go on within words, quotes, a script in a value, types of queues,
/// a queue that is disabled.
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
    let options = Options { directions: vec![Direction::Down, Direction::Up], ..Options::default() };
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
    // Nothing is said of its least: an equal part of what the others leave.
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
    let options = Options { parent: Some("wan".to_owned()), ..Options::default() };
    let imported = made(TREE, &options);
    let link = &imported.links[0];
    assert_eq!((imported.links.len(), link.name.as_str()), (1, "wan"));
    let down = &link.link;
    assert_eq!(down.tree.link().rate.bps(), 20 * M);
    // Children before their parent, as exports have them where names say so.
    assert_eq!(class(down, "up"), ("link".into(), Some(3 * M + 1000), Some(20 * M)));
    assert_eq!(class(down, "voice").0, "up");
    assert_eq!(matches(down, "voice"), ["dscp ef"]);
    // A rule that lets packets go on comes behind those that follow it: the later mark counts.
    assert_eq!(matches(down, "web"), ["src net 10.0.9.0/24", "tcp dst port 80", "tcp dst port 443"]);
    let order: Vec<&str> = down.matches.iter().map(|(class, _)| down.names.name(*class)).collect();
    assert_eq!(order, ["voice", "web", "web", "web"]);
    let left_out = said(&imported, false);
    assert!(
        left_out
            .iter()
            .any(|note| note.contains("\"games\": the match language has nothing like connection-mark=games")),
        "{left_out:#?}"
    );
    assert!(
        left_out.iter().any(|note| note.contains("what the queue \"games\" takes: no match was found")),
        "{left_out:#?}"
    );
    // HTB's priorities count from 0.
    let before = link.before.as_ref().unwrap();
    assert!(before.contains("name = \"voice\"\nparent = \"up\"\nguarantee = \"1Mbit\"\nceiling = \"5Mbit\"\npriority = 0\nquantum = \"1514B\""), "{before}");
    // All trees, a link for each; or a queue as the link.
    let names: Vec<String> = made(TREE, &Options::default()).links.into_iter().map(|link| link.name).collect();
    assert_eq!(names, ["wan", "lan"]);
    let below = made(TREE, &Options { parent: Some("up".to_owned()), ..Options::default() });
    assert_eq!(below.links[0].link.tree.link().rate.bps(), 20 * M);
    assert_eq!(class(&below.links[0].link, "web").0, "link");
}

/// Every packet of a small world goes through RouterOS' rules and through the matches, with every order of rules and every passthrough.
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
        let (marked, untold) = mangle::read(&commands(&text, &mut log), "wan");
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
            let rule_of = |mark: &str| rules[mark[1..].parse::<usize>().unwrap()].0;
            let first = marked.iter().find(|marked| holds(rule_of(&marked.mark), udp, port, address));
            assert_eq!(first.map(|marked| marked.mark.clone()), mark, "{text}");
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
        ("add name=b parent=c max-limit=1M/2M", "the parent \"c\" of \"b\" is no queue"),
        ("add name=b parent=b max-limit=1M/2M", "has more than 60 queues above it, or itself"),
        ("limit name=b", "/queue simple has no command \"limit\""),
    ] {
        let errors = refused(&simple(line), &Options::default());
        assert!(errors.starts_with("export.rsc:3:1") && errors.contains(said), "{line}: {errors}");
    }
    for (text, options, said) in [
        ("", Options::default(), "there is no queue in /queue tree"),
        ("/queue tree\nadd name=a parent=wan\n", Options::default(), "nothing says what wan carries"),
        (
            TREE,
            Options { parent: Some("dmz".to_owned()), ..Options::default() },
            "no queue hangs below \"dmz\"; queues hang below: wan, lan",
        ),
        (&format!("{SIMPLE}{TREE}"), Options::default(), "choose with --queues tree or --queues simple"),
    ] {
        let errors = refused(text, &options);
        assert!(errors.contains(said), "{errors}");
    }
    assert_eq!(
        made(&format!("{SIMPLE}{TREE}"), &Options { queues: Some(Queues::Tree), ..Options::default() }).links.len(),
        2
    );
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
    assert!(changed.contains(&"1 queue with a time: the class is there always".to_owned()), "{changed:#?}");
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
    // The queue of a class with others below it is not used, nor is what it says of hosts.
    let tree = &link.link.tree;
    assert!(tree.leaves().iter().all(|&leaf| tree.config(leaf).hosts.is_none()));
}

#[test]
fn what_an_earlier_queue_takes_all_of_is_left_out_of_a_later_one() {
    let text = "/queue simple\nadd name=all target=10.0.0.0/8 max-limit=5M/20M\nadd name=one target=10.0.0.1,11.0.0.1 max-limit=5M/20M\n";
    let imported = made(text, &Options::default());
    assert_eq!(matches(&imported.links[0].link, "one"), ["dst net 11.0.0.1/32"]);
    let left_out = said(&imported, false);
    let note = "\"dst net 10.0.0.1/32\" of the queue \"one\": an earlier queue takes all of it";
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
        let noted = said(&imported, false).iter().any(|note| note.contains(&format!("nothing like {condition}")));
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
    let kept = made(&few(2), &Options { as_is: true, ..Options::default() }).links.remove(0).text;
    assert!(kept.contains("scheduler = \"htb\"") && kept.contains("# flat 1\nname = \"q1\""), "{kept}");
}

/// Packets have the mark of their connection, which its first packet got; replies have source and destination exchanged.
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
    // What leaves by wan are the replies of connections that came in by it.
    assert!(link.text.contains("match = [\"tcp src port 80\", \"tcp src port 443\"]"), "{}", link.text);
    let of = |name: &str| link.link.matches.iter().filter(|(class, _)| link.link.names.name(*class) == name).count();
    assert_eq!((of("web"), of("rest")), (2, 1), "{}", link.text);
    let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
    assert!(
        notes.contains("marks packets as \"web\": the match language has nothing like layer7-protocol=x"),
        "{notes}"
    );
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
        imported.notes.iter().any(|note| note.to_string().contains("\"target=ether1\": taken for all that no queue"))
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
    assert!(note.to_string().contains("taken as true of all that leaves lan"), "{note}");
    // A packet does not leave by the interface that it came from, and the queues of all interfaces see both.
    for parent in ["wan", "global"] {
        let imported = made(&text.replace("parent=lan", &format!("parent={parent}")), &Options::default());
        assert_eq!(imported.links[0].link.unreachable().len(), 1, "{parent}");
    }
}

/// Rules that mark connections and then their packets, at random, beside a model that follows each packet through the chain.
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
                // Those that let packets go on are not closed: they are not in this test.
                false => format!(
                    "add action=mark-packet {chain} connection-mark=c{mark} new-packet-mark=p{mark} passthrough=no\n"
                ),
            };
        }
        let mut log = Log::new(&SourceText::new("a.rsc", text.clone()));
        let (marked, untold) = mangle::read(&commands(&text, &mut log), "wan");
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
            let found = marked.iter().find(|marked| {
                marked.matches.iter().any(|text| Match::parse(text).is_ok_and(|made| made.matches(&frame)))
            });
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
