use fairlink_core::{ClassId, Share};

use super::*;
use crate::link::LinkFile;
use crate::problem::ProblemKind;

const SCRIPT: &str = "#!/bin/sh
tc qdisc del dev eth0 root 2>/dev/null || true
tc qdisc add dev eth0 root handle 1: htb default 30 r2q 5
tc class add dev eth0 parent 1: classid 1:1 htb rate 100mbit ceil 120mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 80mbit ceil 100mbit prio 0 burst 15k
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 120mbit ceil 100mbit prio 1
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 40mbit ceil 100mbit prio 2 quantum 3000
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 10.1.0.0/16 flowid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 2 handle 6 fw flowid 1:20
";

fn import(name: &str, text: impl Into<String>, options: &Options) -> Result<Imported, Problems> {
    super::super::tests::import(&INFO, &[(name, &text.into())], options)
}

fn made(text: &str, options: &Options) -> Imported {
    import("a.tc", text, options).unwrap_or_else(|errors| panic!("{}", errors.lines()))
}

fn guarantee(link: &LinkFile, name: &str) -> u64 {
    match link.tree.config(link.names.id(name).unwrap()).share {
        Some(Share::Guarantee(rate)) => rate.bps(),
        _ => 0,
    }
}

fn ceiling(link: &LinkFile, name: &str) -> Option<u64> {
    link.tree.config(link.names.id(name).unwrap()).ceiling.map(|rate| rate.bps())
}

const M: u64 = 1_000_000;

#[test]
fn rates_that_do_not_fit_are_scaled_down_under_hls_and_under_htb() {
    let imported = made(SCRIPT, &Options::default());
    let link = &imported.links[0];
    // 80, 100 (its ceil) and 40 of 100.
    let before = link.link_before.as_ref().unwrap();
    for file in [&link.link, before] {
        assert_eq!(file.tree.link().rate.bps(), 100 * M);
        assert_eq!(
            ["1:1", "1:10", "1:20", "1:30"].map(|name| guarantee(file, name)),
            [100 * M, 36_363_636, 45_454_545, 18_181_818]
        );
        assert_eq!(ceiling(file, "1:10"), Some(100 * M));
        // A class of the root cannot borrow.
        assert_eq!(ceiling(file, "1:1"), Some(100 * M));
        assert_eq!(file.names.name(file.default_class.unwrap()), "1:30");
    }
    assert_eq!((link.link.scheduler.as_str(), before.scheduler.as_str()), ("hls", "htb"));
    // Quanta are those of the rates as written, regardless of the guarantees.
    let quantum = |name: &str| before.tree.config(before.names.id(name).unwrap()).quantum;
    assert_eq!([quantum("1:10"), quantum("1:30")], [Some(200_000), Some(3000)]);
    let said = |change: bool| -> Vec<(usize, String)> {
        let all = imported.notes.iter().filter(|note| matches!(note.kind(), ProblemKind::Changed { .. }) == change);
        all.map(|note| (note.location().line, note.to_string())).collect()
    };
    let (changed, left_out) = (said(true), said(false));
    let has = |all: &[(usize, String)], line: usize, text: &str| {
        all.iter().any(|(at, note)| *at == line && note.contains(text))
    };
    assert!(has(&changed, 4, "add up to 220 Mbit/s, more than 100 Mbit/s"), "{changed:#?}");
    assert!(has(&changed, 4, "its ceil of 120 Mbit/s becomes its rate of 100 Mbit/s"), "{changed:#?}");
    assert!(has(&changed, 3, "quanta: htb shares lent bandwidth"), "{changed:#?}");
    assert!(has(&left_out, 3, "priorities 0 to 2 are left out"), "{left_out:#?}");
    assert!(has(&left_out, 3, "bursts are left out"), "{left_out:#?}");
    assert!(has(&left_out, 9, "a filter to 1:20 is left out"), "{left_out:#?}");
    // No such note if HTB is kept.
    let kept = made(SCRIPT, &Options::default().with("as-is", true));
    assert_eq!(kept.links[0].link.scheduler, "htb");
    assert!(!kept.notes.iter().any(|note| note.to_string().contains("quanta")));
}

#[test]
fn frames_that_tc_sends_past_all_classes_get_a_class() {
    let text = SCRIPT.replace("default 30 ", "");
    let imported = made(&text, &Options::default());
    let link = &imported.links[0];
    assert_eq!(link.link.names.name(link.link.default_class.unwrap()), "others");
    assert_eq!(link.idle, ["others"]);
    // 1 of 101 parts, and the tree below the link has the rest.
    assert_eq!(guarantee(&link.link, "others"), 990_099);
    assert_eq!(guarantee(&link.link, "1:1"), 99_009_900);
    assert_eq!(ceiling(&link.link, "1:1"), Some(100 * M));
}

#[test]
fn each_device_is_a_link_of_its_own_and_cbq_is_imported_as_well() {
    let other = SCRIPT.replace("eth0", "ppp/../0").replace("htb default 30 r2q 5", "cbq bandwidth 100mbit avpkt 1000");
    let other = other
        .replace(" htb rate", " cbq rate")
        .replace(" ceil 100mbit", "")
        .replace(" ceil 120mbit", "")
        .replace(" burst 15k", " bounded")
        .replace(" quantum 3000", "");
    let imported = made(&format!("{SCRIPT}{other}"), &Options::default());
    let [first, second] = &imported.links[..] else { panic!("two links") };
    // A name that is one of a file, here.
    assert_eq!((first.name.as_str(), second.name.as_str()), ("eth0", "ppp____0"));
    assert_eq!(second.link_before.as_ref().unwrap().scheduler, "cbq-top-level");
    assert_eq!(second.link.scheduler, "hls");
    let bounded = ceiling(&second.link, "1:10").unwrap();
    assert_eq!(bounded, guarantee(&second.link, "1:10"));
    assert_eq!(ceiling(&second.link, "1:20"), None);
    let alone = made(&format!("{SCRIPT}{other}"), &Options::default().with("dev", "eth0"));
    assert_eq!(alone.links.len(), 1);
    let one = |link: &LinkFile| {
        (1..link.tree.len()).map(|id| guarantee(link, link.names.name(ClassId(id as u32)))).collect::<Vec<_>>()
    };
    assert_eq!(one(&alone.links[0].link), one(&first.link));
}

#[test]
fn commands_that_are_not_tcs_and_pools_are_refused() {
    let refused = |text: &str| import("a.tc", text, &Options::default()).expect_err("wrong").lines();
    assert!(
        refused(&format!("{SCRIPT}ip link set eth0 up\n"))
            .starts_with("a.tc:10:1: error: this is not a tc command: \"ip\"")
    );
    assert!(refused("").contains("this configures no device"));
    let slots = include_str!("../../../../../scenarios/htb/slots.tc");
    assert!(refused(slots).contains("classes of several devices share a slot"));
}

/// Each is below one of two hundred, with a queue and a filter.
#[test]
fn sixty_thousand_classes_are_imported() {
    // The whole number in a long run alone, which is for the time that it takes.
    let leaves = if std::env::var_os("FAIRLINK_LONG").is_some() { 60_000 } else { 6_000 };
    let add = ["tc qdisc add dev eth0 ", "tc class add dev eth0 parent ", "tc filter add dev eth0 parent 1: "];
    let mut text = format!("{}root handle 1: htb default ffff\n{}1: classid 1:1 htb rate 100gbit\n", add[0], add[1]);
    for minor in 2..202 {
        text += &format!("{}1:1 classid 1:{minor:x} htb rate 400mbit\n", add[1]);
    }
    for minor in (202..202 + leaves).chain([0xffff]) {
        let parent = 2 + minor % 200;
        text += &format!("{}1:{parent:x} classid 1:{minor:x} htb rate 1mbit ceil 10mbit\n", add[1]);
        text += &format!("{}parent 1:{minor:x} fq_codel\n", add[0]);
        let [_, _, high, low] = u32::to_be_bytes(minor);
        text += &format!("{}protocol ip u32 match ip dst 10.0.{high}.{low} flowid 1:{minor:x}\n", add[2]);
    }
    // A filter that another one covers, far behind it.
    text += &format!("{}protocol ip u32 match ip dst 10.0.0.202 flowid 1:ffff\n", add[2]);
    let begun = std::time::Instant::now();
    let imported = made(&text, &Options::default());
    println!("{} classes with as many filters took {:.1} s", leaves + 201, begun.elapsed().as_secs_f64());
    let link = &imported.links[0].link;
    assert_eq!((link.tree.leaves().len(), link.matches.len()), (leaves as usize + 1, leaves as usize + 1));
    let last = format!("1:{:x}", leaves + 201);
    assert_eq!(link.names.name(link.tree.parent(link.names.id(&last).unwrap()).unwrap()), "1:3");
    assert_eq!(guarantee(link, &last), M);
    assert!(imported.links[0].text.contains(&format!("# line {}\nname = \"1:ffff\"", 3 * leaves + 203)));
    let notes: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    let covered = "a filter is left out: an earlier filter to 1:ca takes all of its frames";
    assert!(notes.iter().any(|note| note == covered), "{notes:#?}");
}

#[test]
fn what_is_the_same_of_several_devices_is_said_once() {
    let script = format!("{SCRIPT}tc filter add dev eth1 parent 1: protocol ip prio 2 handle 6 fw flowid 1:20\n");
    let other = SCRIPT.replace("eth0", "eth1").replace("#!/bin/sh\n", "");
    let imported = made(&format!("{other}{script}"), &Options::default());
    assert_eq!(imported.links.len(), 2);
    let all: Vec<(Option<crate::problem::Span>, String)> =
        imported.notes.iter().map(|note| (note.span(), note.to_string())).collect();
    for (at, note) in all.iter().enumerate() {
        assert!(!all[..at].contains(note), "{note:?}");
    }
    let filters = all.iter().filter(|(_, note)| note.contains("a filter to 1:20 is left out"));
    assert_eq!(filters.count(), 3);
}

#[test]
fn hfsc_keeps_its_curves() {
    let text = "tc qdisc add dev eth0 root handle 1: hfsc default 20
tc class add dev eth0 parent 1: classid 1:1 hfsc sc rate 10mbit ul rate 10mbit
tc class add dev eth0 parent 1:1 classid 1:10 hfsc sc umax 1500b dmax 5ms rate 1mbit ul rate 10mbit
tc class add dev eth0 parent 1:1 classid 1:20 hfsc ls m1 2mbit d 20ms m2 4mbit
tc qdisc add dev eth0 parent 1:20 cake
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 5060 0xffff flowid 1:10\n";
    let imported = made(text, &Options::default());
    let [link] = &imported.links[..] else { panic!("one link") };
    assert_eq!((link.link.scheduler.as_str(), link.link_before.is_some()), ("hfsc", false));
    assert_eq!(link.link.tree.link().rate.bps(), 10 * M);
    // 1500 B within 5 ms are 2.4 Mbit/s.
    for line in [
        "link_share = { m1 = \"2.4Mbit\", d = \"5000000ns\", m2 = \"1Mbit\" }",
        "real_time = { m1 = \"2.4Mbit\", d = \"5000000ns\", m2 = \"1Mbit\" }",
        "link_share = { m1 = \"2Mbit\", d = \"20000000ns\", m2 = \"4Mbit\" }",
        "upper_limit = { rate = \"10Mbit\" }",
        "queue = \"fq_codel\"",
        "default = \"1:20\"",
    ] {
        assert!(link.text.contains(line), "{line}: {}", link.text);
    }
}

#[test]
fn devices_that_are_shaped_as_a_whole_and_policers_become_links() {
    let text = "tc qdisc add dev eth0 handle ffff: ingress
tc filter add dev eth0 parent ffff: protocol ip prio 5 u32 match ip src 10.0.0.1 police rate 1mbit burst 10k drop flowid :1
tc filter add dev eth0 parent ffff: protocol ip prio 6 u32 match ip src 10.0.0.2 action police rate 2mbit burst 10k drop
tc qdisc add dev eth0 root handle 1: tbf rate 5mbit burst 10k latency 25ms
tc qdisc add dev eth0 parent 1:1 fq_codel
tc qdisc add dev eth1 root cake bandwidth 20mbit
tc qdisc add dev eth2 root netem delay 10ms\n";
    let imported = made(text, &Options::default());
    let links: Vec<(&str, u64)> =
        imported.links.iter().map(|link| (link.name.as_str(), link.link.tree.link().rate.bps() / M)).collect();
    assert_eq!(links, [("eth0", 5), ("eth0-ingress", 3), ("eth1", 20)]);
    let policed = &imported.links[1];
    assert_eq!((ceiling(&policed.link, "1:1"), ceiling(&policed.link, "1:2")), (Some(M), Some(2 * M)));
    assert!(policed.text.contains("match = [\"src net 10.0.0.2/32\"]"), "{}", policed.text);
    assert!(
        imported.links[0].text.contains("queue = \"fq_codel\"")
            && imported.links[2].text.contains("queue = \"fq_codel\"")
    );
    let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
    assert!(notes.contains("netem at the root of eth2 has no rate"), "{notes}");
    assert!(notes.contains("a policer drops traffic above its rate"), "{notes}");
}

#[test]
fn a_policer_at_the_root_is_a_ceiling_and_one_of_all_frames_leaves_none_for_others() {
    let text = "tc qdisc add dev eth0 root handle 1: htb default 30
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 4mbit ceil 10mbit
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 4mbit ceil 10mbit
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 25 0xffff police rate 1mbit burst 10k drop flowid 1:20
tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dport 26 0xffff police rate 2mbit burst 10k drop flowid 1:30
tc qdisc add dev ppp0 handle ffff: ingress
tc filter add dev ppp0 parent ffff: u32 match u32 0 0 police rate 5mbit burst 10k\n";
    let imported = made(text, &Options::default());
    let [shaped, policed] = &imported.links[..] else { panic!("two links") };
    assert_eq!((ceiling(&shaped.link, "1:20"), ceiling(&shaped.link, "1:30")), (Some(M), Some(10 * M)));
    assert!(!policed.text.contains("others") && policed.link.unreachable().is_empty(), "{}", policed.text);
    let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
    assert!(
        notes.contains("WARNING: \"police\" of this filter has no counterpart: other frames go to 1:30, too"),
        "{notes}"
    );
}

mod scripts;
