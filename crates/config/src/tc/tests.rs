//! The lines of the HTB text, conversion in both directions, and errors.

use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{ClassId, Leniency, Rate, Share};
use proptest::prelude::*;

use super::*;
use crate::{LinkFile, Problem, ReadOptions};

const HTB: &str = include_str!("../../../../scenarios/htb/htb.tc");
const CBQ: &str = include_str!("../../../../scenarios/htb/cbq.tc");
const SLOTS: &str = include_str!("../../../../scenarios/htb/slots.tc");

fn imported(text: &str) -> Imported {
    import("a.tc", text, &ImportOptions::default()).unwrap_or_else(|problems| panic!("{}", problems.lines()))
}

fn link(text: &str) -> LinkFile {
    LinkFile::parse("a.toml", imported(text).text, &ReadOptions::default()).unwrap()
}

fn exported(link: &LinkFile) -> Exported {
    export(link, "eth0").unwrap()
}

fn errors(text: &str) -> Vec<String> {
    let problems = import("a.tc", text, &ImportOptions::default()).expect_err(text);
    problems.lines().lines().map(str::to_owned).collect()
}

fn notes(made: &[Problem]) -> Vec<String> {
    made.iter().map(Problem::line).collect()
}

fn class(link: &LinkFile, name: &str) -> ClassId {
    link.names.id(name).unwrap()
}

/// An htb with two leaves, and `lines` behind it.
fn with(lines: &str) -> String {
    format!(
        "tc qdisc add dev eth0 root handle 1: htb default 3\n\
         tc class add dev eth0 parent 1: classid 1:1 htb rate 1mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:2 htb rate 600kbit\n\
         tc class add dev eth0 parent 1:1 classid 1:3 htb rate 400kbit\n{lines}\n"
    )
}

#[test]
fn the_texts_htb_has_the_rates_bursts_and_quanta_that_the_kernel_gives_it() {
    let link = link(HTB);
    assert_eq!(link.scheduler, "htb");
    let config = |name: &str| *link.tree.config(class(&link, name));
    let rate = |bps| Rate::from_bps(bps).unwrap();
    let (a, b) = (config("1:2"), config("1:3"));
    // kbps are kilobytes per second.
    assert_eq!((a.share, a.ceiling), (Some(Share::Guarantee(rate(320_000))), Some(rate(640_000))));
    assert_eq!((b.share, b.ceiling), (Some(Share::Guarantee(rate(160_000))), Some(rate(640_000))));
    // `burst 2k` are 2048 B, and the default of cburst is 1600 B.
    assert_eq!((a.burst, a.ceiling_burst, a.priority), (Some(2048), Some(1600), Some(1)));
    // rate / r2q
    assert_eq!((a.quantum, b.quantum), (Some(4_000), Some(2_000)));
    assert_eq!(a.limits.packets, 5);
    let top = config("1:1");
    assert_eq!((top.share, top.ceiling), (Some(Share::Guarantee(rate(800_000))), Some(rate(800_000))));
    assert_eq!(link.class_numbered(crate::Classid::new(1, 2).unwrap()), Some(class(&link, "1:2")));
}

#[test]
fn the_texts_cbq_has_its_weights_as_quanta() {
    let link = link(CBQ);
    assert_eq!(link.scheduler, "cbq-top-level");
    assert_eq!(link.tree.link().rate.bps(), 10_000_000);
    let config = |name: &str| *link.tree.config(class(&link, name));
    assert!(config("1:1").bounded && !config("1:2").bounded);
    assert_eq!((config("1:2").quantum, config("1:3").quantum), (Some(2_000), Some(1_000)));
    assert_eq!((config("1:2").burst, config("1:2").priority), (Some(10_000), Some(1)));
}

#[test]
fn slots_become_a_pool_that_classes_of_both_devices_share() {
    let made = imported(SLOTS);
    assert_eq!(made.devices, ["eth0", "eth1"]);
    let text = format!(
        "duration = \"1s\"\n{}\n[[source]]\nclass = \"1:2\"\nmodel = \"greedy\"\npacket = \"500B\"\n",
        made.text
    );
    let scenario = crate::Scenario::parse("s.toml", text, &ReadOptions::default()).unwrap();
    let pool = &scenario.pools[0];
    // A bare rate is in bit/s.
    assert_eq!((pool.rate.bps(), pool.burst), (800_000, 2048));
    let members: Vec<_> = pool.members.iter().map(|(link, _, base)| (*link, base.bps())).collect();
    assert_eq!(members, [(0, 400_000), (1, 240_000)]);
    assert_eq!(scenario.peers[0].name, "eth1");
}

#[test]
fn what_was_imported_is_exported_and_imported_as_the_same_link() {
    for text in [HTB, CBQ] {
        let first = link(text);
        let there = exported(&first);
        let second = link(&there.text);
        let classes = |link: &LinkFile| {
            link.tree
                .classes()
                .map(|class| (link.names.name(class).to_owned(), link.tree.parent(class), *link.tree.config(class)))
                .collect::<Vec<_>>()
        };
        assert_eq!(classes(&first), classes(&second), "{}", there.text);
        assert_eq!((first.tree.link(), first.matches.len()), (second.tree.link(), second.matches.len()));
        // And once more, letter by letter.
        let again = exported(&second);
        let lines = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(&there.text), lines(&again.text));
    }
}

#[test]
fn the_texts_htb_is_exported_in_the_kernels_units() {
    let text = exported(&link(HTB)).text;
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "tc qdisc add dev eth0 root handle 1: htb",
            "tc class add dev eth0 parent 1: classid 1:1 htb rate 800000bit ceil 800000bit burst 2048b cburst 1600b",
            "tc class add dev eth0 parent 1:1 classid 1:2 htb rate 320000bit ceil 640000bit burst 2048b cburst 1600b prio 1 quantum 4000",
            "tc qdisc add dev eth0 parent 1:2 pfifo limit 5",
            "tc class add dev eth0 parent 1:1 classid 1:3 htb rate 160000bit ceil 640000bit burst 2048b cburst 1600b prio 1 quantum 2000",
            "tc qdisc add dev eth0 parent 1:3 pfifo limit 5",
        ]
    );
}

#[test]
fn keys_that_tc_does_not_have_are_named_by_an_export() {
    let class = "[[class]]\nname = \"a\"\nguarantee = \"5mbit\"\n";
    let said = |scheduler: &str, of_link: &str, of_class: &str| {
        let text = format!("[link]\nrate = \"10mbit\"\nscheduler = \"{scheduler}\"\n{of_link}{class}{of_class}");
        let options = ReadOptions { leniency: Leniency::Ignore, ..ReadOptions::default() };
        notes(&exported(&LinkFile::parse("a.toml", text, &options).unwrap()).notes)
    };
    let curve = "{ burst = \"160B\", delay = \"5ms\", rate = \"64kbit\" }";
    for (scheduler, of_link, of_class, expected) in [
        (
            "htb",
            "",
            "ceiling = \"8mbit\"\nburst = \"3kB\"\nceiling_burst = \"3kB\"\npriority = 1\nquantum = \"2kB\"\n",
            0,
        ),
        ("htb", "", "bounded = true\nisolated = true\n", 1),
        ("htb", "", &*format!("real_time = {curve}\nlink_share = {curve}\nmax_delay = \"5ms\"\n"), 3),
        ("hls", "transmit_queue = \"4p\"\ntransmit_priority = true\nrounds = \"long\"\n", "", 3),
        ("cbq-top-level", "", "bounded = true\nburst = \"3kB\"\npriority = 1\n", 0),
        ("cbq-top-level", "", "ceiling = \"8mbit\"\nceiling_burst = \"3kB\"\n", 2),
    ] {
        let said = said(scheduler, of_link, of_class);
        let left_out = said.iter().filter(|note| note.contains(" is left out: ")).count();
        assert_eq!(left_out, expected, "{scheduler} {of_link}{of_class}: {said:#?}");
    }
}

#[test]
fn filters_become_matches_in_the_order_of_their_preference() {
    let text = with(
        "tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dport 80 0xffff flowid 1:2\n\
         tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip src 10.1.2.3/16 match ip protocol 17 0xff flowid 1:3\n\
         tc filter add dev eth0 protocol 0x88b5 parent 1:0 prio 3 u32 match u32 0 0 flowid 1:2\n\
         tc filter add dev eth0 parent 1: protocol ipv6 prio 4 u32 match ip6 dst 2001:db8::/32 match ip6 dport 0x1000 0xf000 flowid 1:2\n\
         tc filter add dev eth0 parent 1: protocol ip prio 5 u32 match u32 0x0a000001 0xffffffff at 16 match u8 0xb8 0xfc at 1 classid 1:2\n\
         tc filter add dev eth0 parent 1: protocol ip prio 6 flower ip_proto tcp dst_port 1000-1010 vlan_id 5 classid 1:2\n",
    );
    let made = imported(&text);
    let link = link(&text);
    let matches: Vec<String> =
        link.matches.iter().map(|(class, made)| format!("{}: {made}", link.names.name(*class))).collect();
    assert_eq!(
        matches,
        [
            "1:3: udp src net 10.1.0.0/16",
            "1:2: ip dst port 80",
            "1:2: ethertype 0x88b5",
            "1:2: dst net 2001:db8::/32 dst port 4096-8191",
            "1:2: dst net 10.0.0.1/32 dscp ef",
            "1:2: vlan 5 ip tcp dst port 1000-1010",
        ]
    );
    assert!(notes(&made.notes).iter().all(|note| note.contains("htb does not give")), "{:?}", notes(&made.notes));
}

#[test]
fn what_is_lost_is_named_with_its_line() {
    let filter = "tc filter add dev eth0 parent 1: protocol ip prio";
    let of = |lines: &str| {
        let text = with(lines);
        notes(&imported(&text).notes).into_iter().filter(|note| !note.contains("htb does not give")).collect::<Vec<_>>()
    };
    for (lines, said) in [
        (
            format!("{filter} 1 handle 6 fw flowid 1:2"),
            "a filter to 1:2 is left out: not expressible as a match: a firewall mark",
        ),
        (format!("{filter} 1 u32 match ip tos 0x11 0xff flowid 1:2"), "the type of service 0x11 under the mask 0xff"),
        (format!("{filter} 1 u32 match ip dport 80 0x0ff0 flowid 1:2"), "the port 0x50 under the mask 0xff0"),
        (
            format!("{filter} 1 u32 match ip dport 80 0xffff flowid 1:1"),
            "a filter to 1:1, which has classes below it, is left out",
        ),
        (
            format!("{filter} 1 u32 match ip dport 80 0xffff flowid 1:9"),
            "a filter to 1:9, which is not a class, is left out",
        ),
        (
            format!("{filter} 1 u32 match ip dport 80 0xffff police rate 1mbit drop flowid 1:2"),
            "a policer drops traffic above its rate; here it waits in the queue of 1:2",
        ),
        (
            format!(
                "{filter} 1 u32 match ip dport 80 0xffff flowid 1:2\n{filter} 2 u32 match ip sport 9 0xffff flowid 1:3\n{filter} 3 u32 match ip dport 81 0xffff flowid 1:2"
            ),
            "now precedes this filter",
        ),
        ("tc qdisc add dev eth0 parent 1:2 sfq perturb 10".to_owned(), "the queue sfq becomes a fifo"),
        ("tc qdisc add dev eth0 parent 1:2 fq_codel target 10ms".to_owned(), "\"target\" is 5 ms here"),
        ("tc qdisc add dev eth0 ingress".to_owned(), "\"ingress\" applies to received traffic"),
        (
            "tc class change dev eth0 classid 1:1 htb rate 1mbit ceil 2mbit".to_owned(),
            "a class of the root cannot borrow",
        ),
        (
            "tc class change dev eth0 parent 1:1 classid 1:2 htb rate 600kbit prio 9".to_owned(),
            "htb treats prio 9 as 7",
        ),
        ("tc class change dev eth0 parent 1:1 classid 1:2 htb rate 600kbit mtu 9000".to_owned(), "\"mtu\" of a class"),
    ] {
        let said_there = of(&lines);
        let first = said_there.first().unwrap_or_else(|| panic!("{lines}: nothing was noted"));
        assert!(first.contains(said) && first.starts_with("a.tc:"), "{lines}: {first}");
    }
}

#[test]
fn what_is_not_understood_is_refused_with_file_and_line() {
    for (line, said) in [
        (
            "ip link set eth0 up",
            "a.tc:5:1: error: this is not a tc command: \"ip\"; only qdisc, class and filter are read",
        ),
        ("tc monitor", "a.tc:5:4: error: tc has no object \"monitor\""),
        ("tc qdisc frobnicate dev eth0", "unknown verb \"frobnicate\"; there are: add, replace, change, del, show"),
        (
            "tc class add dev eth0 parent 1:1 classid 1:4 htb rate 1mbit colour red",
            "a.tc:5:61: error: a class of htb has no option \"colour\"",
        ),
        ("tc class add dev eth0 parent 1:1 classid 1:4 htb ceil 1mbit", "the class 1:4 has no \"rate\""),
        ("tc class add dev eth0 parent 1:1 classid 1:4 htb rate 10%", "\"rate\" takes no \"10%\""),
        ("tc class add dev eth0 parent 1:1 classid 1:4 htb rate 0", "\"rate\" takes no \"0\""),
        ("tc class add dev eth0 parent 1:7 classid 1:4 htb rate 1mbit", "there is no class 1:7 on eth0 at this point"),
        ("tc class add dev eth0 parent 1:1 classid 1:2 htb rate 1mbit", "there is a class 1:2 on eth0 already"),
        (
            "tc class add dev eth0 parent 1:1 classid 2:2 htb rate 1mbit",
            "the class 2:2 is not of the queueing discipline 1:",
        ),
        (
            "tc class add dev eth1 parent 1:1 classid 1:4 htb rate 1mbit",
            "there is no htb, hfsc or cbq at the root of eth1 at this point",
        ),
        ("tc class add dev eth0 parent 1:1 classid 1:4 cbq rate 1mbit", "a class of \"cbq\" below a root of htb"),
        ("tc class add dev eth0 parent 1:1 classid 1:4 htb rate 1mbit", "add up to 2 Mbit/s, more than its 1 Mbit/s"),
        (
            "tc qdisc add dev eth1 root handle 1: drr",
            "\"drr\" at the root of a device has no counterpart in a link file",
        ),
        ("tc qdisc add dev eth0 parent 1:2 handle 2: htb", "\"htb\" below a class has no counterpart in a link file"),
        ("tc qdisc add dev eth0 parent 1:2 pfifo length 5", "pfifo has no option \"length\""),
        ("tc qdisc add dev eth0 parent 1:2 pfifo limit", "\"limit\" has no value"),
        ("tc filter add dev eth0 parent 1: magic flowid 1:2", "there is no kind of filter \"magic\""),
        ("tc class add dev $DEV parent 1:1", "the variable \"DEV\" is not set at this point"),
        ("tc class add dev \"eth0", "unterminated quote on this line"),
        ("tc class del dev eth0 classid 1:2", "only a whole device is deleted"),
    ] {
        let all = errors(&with(line));
        assert!(all[0].contains(said) && (all[0].starts_with("a.tc:5:") || said.contains("add up")), "{line}: {all:?}");
    }
    assert!(errors("# nothing\n")[0].contains("this configures no device"));
    assert!(errors("tc qdisc add dev eth0 root htb")[0].contains("eth0 has no class"));
}

#[test]
fn scripts_of_shells_are_read_as_far_as_such_files_use_them() {
    let text = "#!/bin/sh\nDEV=eth7\nTC=/sbin/tc\n$TC qdisc del dev $DEV root 2>/dev/null || true\n\
                $TC qdisc add dev ${DEV} root handle 1: htb default 0x2 \\\n    r2q 1 # comment\n\
                A='1mbit'; sudo tc class add dev $DEV parent 1: classid 1:2 htb rate $A && tc qdisc show dev $DEV\n";
    let made = imported(text);
    assert_eq!(made.devices, ["eth7"]);
    assert!(made.text.contains("default = \"1:2\"") && made.text.contains("quantum = \"125kB\""), "{}", made.text);
    // Input of tc -batch.
    let batch =
        "qdisc replace dev v0 root handle 1: htb\nclass add dev v0 parent 1: classid 1:a htb rate 8bit ceil 8bit\n";
    assert!(imported(batch).text.contains("classid = \"1:a\""));
}

#[test]
fn a_device_can_be_picked_and_the_link_given_a_rate() {
    let options = ImportOptions { rate: Some(Rate::from_bps(10_000_000).unwrap()), device: Some("eth0".to_owned()) };
    let made = import("a.tc", HTB, &options).unwrap();
    assert!(made.text.contains("rate = \"10Mbit\"") && made.notes.is_empty(), "{}", made.text);
    let options = ImportOptions { device: Some("eth9".to_owned()), ..options };
    let error = import("a.tc", HTB, &options).unwrap_err().lines();
    assert!(error.contains("there is no device eth9 here; there are: eth0"), "{error}");
}

#[test]
fn a_link_without_numbers_is_given_some_and_a_class_for_itself() {
    let text = "[link]\nrate = \"10mbit\"\nscheduler = \"hls\"\ndefault = \"b\"\n\
                [[class]]\nname = \"a\"\nweight = 3\nmatch = [\"udp dst port 1000-1002\", \"dscp ef\", \"vlan 3\"]\n\
                [[class]]\nname = \"b\"\nweight = 1\nlatency_critical = true\nclassid = \"1:1\"\n";
    let link = LinkFile::parse("l.toml", text, &ReadOptions::default()).unwrap();
    let made = exported(&link);
    let lines: Vec<&str> = made.text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "tc qdisc add dev eth0 root handle 1: htb default 1",
            "# The link itself: the root of htb has no rate.",
            "tc class add dev eth0 parent 1: classid 1:2 htb rate 10000000bit ceil 10000000bit",
            "# a",
            "tc class add dev eth0 parent 1:2 classid 1:3 htb rate 7500000bit ceil 10000000bit prio 0 quantum 4542",
            "tc qdisc add dev eth0 parent 1:3 bfifo limit 125000",
            "# b",
            "tc class add dev eth0 parent 1:2 classid 1:1 htb rate 2500000bit ceil 10000000bit prio 0 quantum 1514",
            "tc qdisc add dev eth0 parent 1:1 bfifo limit 125000",
            "tc filter add dev eth0 parent 1: protocol ip pref 1 u32 match ip protocol 17 0xff match ip dport 1000 0xfffe flowid 1:3",
            "tc filter add dev eth0 parent 1: protocol ip pref 1 u32 match ip protocol 17 0xff match ip dport 1002 0xffff flowid 1:3",
            "tc filter add dev eth0 parent 1: protocol ipv6 pref 2 u32 match ip6 protocol 17 0xff match ip6 dport 1000 0xfffe flowid 1:3",
            "tc filter add dev eth0 parent 1: protocol ipv6 pref 2 u32 match ip6 protocol 17 0xff match ip6 dport 1002 0xffff flowid 1:3",
            "tc filter add dev eth0 parent 1: protocol ip pref 3 u32 match ip dsfield 0xb8 0xfc flowid 1:3",
            "tc filter add dev eth0 parent 1: protocol ipv6 pref 4 u32 match ip6 priority 0xb8 0xfc flowid 1:3",
        ]
    );
    let notes = notes(&made.notes).join("\n");
    for said in [
        "hls becomes htb",
        "its share becomes a rate: 7.5 Mbit/s",
        "latency_critical is left out",
        "\"vlan 3\" is left out",
    ] {
        assert!(notes.contains(said), "{said}: {notes}");
    }
    // It is a file that import takes, and the classes below the link's own are the same.
    let back = self::link(&made.text);
    assert_eq!(back.tree.config(class(&back, "1:3")).quantum, Some(4542));
    assert_eq!(back.matches.len(), 6);
}

proptest! {
    #[test]
    fn any_text_is_imported_or_refused(
        text in "(tc|qdisc|class|filter|add|dev|eth0|root|parent|handle|classid|1:|1:1|1:2|htb|cbq|rate|ceil|1mbit|8|pfifo|limit|u32|match|ip|dport|flowid|prio|\\$A|A=|\"|\\\\\n|\n|;|&&|\\|\\|| ){0,60}"
    ) {
        let _ = import("a.tc", text, &ImportOptions::default());
    }

    #[test]
    fn any_words_behind_a_sound_set_up_are_taken_or_refused(
        object in "qdisc add dev eth0|class add dev eth0|filter add dev eth0 parent 1:|class change dev eth0",
        words in "( (root|parent|handle|classid|1:|1:1|1:2|ffff:1|htb|cbq|rate|ceil|1mbit|99999999999999999|0|-1|pfifo|fq_codel|limit|u32|match|ip|ip6|u8|u16|at|255|dport|src|1.2.3.4/0|::/0|0xffff|flowid|prio|slot|pslot|overhead|burst|quantum|flower|dst_port|5-1)){0,14}"
    ) {
        let _ = import("a.tc", with(&format!("tc {object}{words}")), &ImportOptions::default());
    }

    /// Random trees are equal after an export and an import: rates, numbers and limits.
    #[test]
    fn links_of_htb_come_back_from_tc_as_they_were(
        rates in proptest::collection::vec((1u64..1000, 0u64..1000, 0u8..8, 1514u32..60_000, 1u32..5000), 1..12)
    ) {
        use std::fmt::Write as _;
        let sum: u64 = rates.iter().map(|&(rate, ..)| rate * 8).sum();
        let mut text = format!(
            "[link]\nrate = \"{sum}bit\"\nscheduler = \"htb\"\n[[class]]\nname = \"top\"\nclassid = \"a:1\"\nguarantee = \"{sum}bit\"\nceiling = \"{sum}bit\"\n"
        );
        for (index, (rate, more, priority, quantum, packets)) in rates.iter().enumerate() {
            writeln!(
                text,
                "[[class]]\nname = \"c{index}\"\nparent = \"top\"\nguarantee = \"{}bit\"\nceiling = \"{}bit\"\nburst = \"{}B\"\n\
                 ceiling_burst = \"1600B\"\npriority = {priority}\nquantum = \"{quantum}B\"\nbuffer = \"{packets}p\"",
                rate * 8, ((rate + more) * 8).min(sum), 1500 + more
            ).unwrap();
        }
        let first = LinkFile::parse("l.toml", text, &ReadOptions::default()).unwrap();
        let second = link(&exported(&first).text);
        prop_assert_eq!(first.tree.len(), second.tree.len());
        // `top` has no bursts in the file, and afterwards those that it runs with.
        let plan = Plan::for_tree(&first.tree).unwrap();
        let (top, ceiling) = (ClassId(1), first.tree.config(ClassId(1)).ceiling.unwrap());
        let written = second.tree.config(top);
        prop_assert_eq!(written.burst, Some(plan.depth(top)));
        prop_assert_eq!(written.ceiling_burst, Some(plan.ceiling_depth(top, ceiling)));
        for class in first.tree.classes().skip(1) {
            prop_assert_eq!(first.tree.config(class), second.tree.config(class));
        }
    }
}

#[test]
fn export_writes_the_quanta_and_buckets_that_sim_runs() {
    let text = "[link]\nrate = \"10mbit\"\nscheduler = \"htb\"\nmtu = \"1514B\"\n\
        [[class]]\nname = \"a\"\nguarantee = \"1mbit\"\nceiling = \"2mbit\"\nquantum = \"100B\"\n\
        [[class]]\nname = \"b\"\nguarantee = \"3mbit\"\n";
    let link = LinkFile::parse("l.toml", text, &ReadOptions::default()).unwrap();
    let plan = Plan::for_tree(&link.tree).unwrap();
    let made = exported(&link).text;
    // A quantum of 100 B would be a packet a visit in the kernel; `htb` scales it up to a packet, and b's with it.
    assert_eq!(plan.quanta[1..], [1514, 4542]);
    let a = format!(
        "htb rate 1000000bit ceil 2000000bit burst {}b cburst {}b prio 0 quantum 1514",
        plan.depth(ClassId(1)),
        plan.ceiling_depth(ClassId(1), link.tree.config(ClassId(1)).ceiling.unwrap())
    );
    let b = format!("htb rate 3000000bit ceil 10000000bit burst {}b prio 0 quantum 4542", plan.depth(ClassId(2)));
    assert!(made.contains(&a) && made.contains(&b), "{a}\n{b}\n{made}");
}

#[test]
fn macs_are_exported_as_u32_filters_and_read_of_them_and_of_flower() {
    let matches = [
        "src mac 02:00:00:00:00:0a ip tcp dst port 80",
        "dst mac 02:00:00:00:00:0b ethertype 0x88b5",
        "dst mac 02:00:00:00:00:0b",
    ];
    let mut text = "[link]\nrate = \"10mbit\"\nscheduler = \"htb\"\ndefault = \"c0\"\n".to_owned();
    for (index, made) in matches.iter().enumerate() {
        text += &format!("[[class]]\nname = \"c{index}\"\nguarantee = \"1mbit\"\nmatch = [\"{made}\"]\n");
    }
    let first = LinkFile::parse("l.toml", text, &ReadOptions::default()).unwrap();
    let made = exported(&first);
    assert!(made.text.contains("u32 match ether src 02:00:00:00:00:0a match ip protocol 6 0xff"), "{}", made.text);
    let second = link(&made.text);
    let texts = |link: &LinkFile| link.matches.iter().map(|(_, made)| made.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(&second), texts(&first));
    let flower = made
        .text
        .replace("u32 match ether dst 02:00:00:00:00:0b", "flower dst_mac 02:00:00:00:00:0b/ff:ff:ff:ff:ff:ff");
    assert_eq!(texts(&link(&flower))[1..], texts(&first)[1..]);
    // A part of an address is none.
    let part = made
        .text
        .replace("u32 match ether dst 02:00:00:00:00:0b", "flower dst_mac 02:00:00:00:00:0b/ff:ff:ff:00:00:00");
    assert_eq!(texts(&link(&part)).len(), 1);
}

#[test]
fn a_tree_deeper_than_the_kernels_htb_takes_is_warned_of() {
    let chain = |levels: usize| {
        let mut text = "[link]\nrate = \"10mbit\"\nscheduler = \"htb\"\n".to_owned();
        for level in 0..levels {
            text += &format!("[[class]]\nname = \"c{level}\"\nguarantee = \"1mbit\"\n");
            if level > 0 {
                text += &format!("parent = \"c{}\"\n", level - 1);
            }
        }
        LinkFile::parse("a.toml", text, &ReadOptions::default()).unwrap()
    };
    let warned = |link: &LinkFile| {
        let of = |line: &String| line.contains("HTB is 8");
        (notes(&link.warnings).iter().any(of), notes(&exported(link).notes).iter().any(of))
    };
    // The link itself is a class of tc.
    assert_eq!(warned(&chain(7)), (false, false));
    assert_eq!(warned(&chain(8)), (true, true));
}

#[test]
fn a_depth_of_htb_that_is_not_that_of_all_leaves_is_noted() {
    let noted =
        |text: &str| notes(&imported(text).notes).into_iter().filter(|note| note.contains("depth")).collect::<Vec<_>>();
    assert_eq!(noted(HTB), [""; 0]);
    assert_eq!(noted(SLOTS), [""; 0]);
    let deeper = noted(&HTB.replace("depth 2", "depth 3"));
    assert!(deeper.len() == 1 && deeper[0].contains("the leaf 1:2 is at depth 2"), "{deeper:?}");
}
