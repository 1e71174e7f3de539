//! pf.conf as link files. Classes of frames are checked against an evaluation of the rules as pf.conf(5) has it.

use super::*;
use crate::matching::{FrameKey, IpVersion, Match, TCP, UDP, v4_mapped};

const HFSC: &str = include_str!("../../../../../scenarios/import/pf.conf");

fn import(name: &str, text: impl Into<String>, options: &Options) -> Result<Imported, Problems> {
    super::super::tests::import(&INFO, &[(name, &text.into())], options)
}

fn made(text: &str) -> Imported {
    import("pf.conf", text, &Options::default()).unwrap_or_else(|problems| panic!("{}", problems.lines()))
}

fn refused(text: &str) -> String {
    import("pf.conf", text, &Options::default()).expect_err("it is wrong").lines()
}

fn notes(imported: &Imported) -> String {
    imported.notes.iter().map(|note| format!("{note}\n")).collect()
}

/// A file of CBQ with queues `a`, `b` and the default `d`, and these rules.
fn with_rules(rules: &str) -> String {
    format!(
        "altq on em0 cbq bandwidth 10Mb queue {{ a, b, d }}\nqueue a bandwidth 30% cbq(borrow)\nqueue b bandwidth 2Mb cbq\nqueue d bandwidth 50% cbq(default borrow)\n{rules}\n"
    )
}

/// The class of a frame, by the matches of a link in file order.
fn class_of(imported: &Imported, frame: &FrameKey) -> String {
    let link = &imported.links[0].link;
    let met = link.matches.iter().find(|(_, rule)| rule.matches(frame)).map(|&(class, _)| class);
    link.names.name(met.or(link.default_class).expect("there is a default")).to_owned()
}

fn frame(proto: u8, [src, dst]: [[u8; 4]; 2], [sport, dport]: [u16; 2]) -> FrameKey {
    FrameKey {
        version: Some(IpVersion::V4),
        proto,
        src: v4_mapped(src),
        dst: v4_mapped(dst),
        sport: Some(sport),
        dport: Some(dport),
        ..FrameKey::default()
    }
}

const HERE: [u8; 4] = [10, 0, 0, 1];
const THERE: [u8; 4] = [192, 0, 2, 7];

#[test]
fn curves_of_hfsc_are_kept_as_they_are() {
    let imported = made(HFSC);
    let text = &imported.links[0].text;
    for line in [
        "rate = \"20Mbit\"           # its bandwidth",
        "scheduler = \"hfsc\"",
        "default = \"rest\"",
        "real_time = { m1 = \"2Mbit\", d = \"10ms\", m2 = \"500kbit\" }\nbuffer = \"50p\"",
        "name = \"work\"\nlink_share = { rate = \"12Mbit\" }\n",
        // Without linkshare, a line of the bandwidth: 20 % of the 12 Mbit/s above it.
        "parent = \"work\"\nlink_share = { rate = \"2.4Mbit\" }\nreal_time = { rate = \"1Mbit\" }",
        "link_share = { rate = \"9.6Mbit\" }\nbuffer = \"200p\"\nqueue = \"codel\"\necn = true",
        "upper_limit = { rate = \"15Mbit\" }",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(imported.links[0].link_before.is_none());
    let notes = notes(&imported);
    for note in ["1 rule with a second queue", "1 block rule", "3 other statements"] {
        assert!(notes.contains(note), "{notes}");
    }
}

#[test]
fn frames_find_the_queue_of_the_last_rule_that_matches_or_of_the_first_with_quick() {
    let imported = made(HFSC);
    for (proto, ports, class) in [
        (TCP, [40_000, 80], "web"),
        (TCP, [40_000, 443], "web"),
        (TCP, [40_000, 22], "ssh"),
        (TCP, [40_000, 25], "rest"),
        (UDP, [5060, 15_000], "voice"),
        (UDP, [15_000, 53], "rest"),
    ] {
        assert_eq!(class_of(&imported, &frame(proto, [HERE, THERE], ports)), class, "{ports:?}");
    }
    // Replies of a connection that came in, and no others.
    assert_eq!(class_of(&imported, &frame(TCP, [[203, 0, 113, 5], THERE], [22, 50_000])), "ssh");
    assert_eq!(class_of(&imported, &frame(TCP, [HERE, THERE], [22, 50_000])), "rest");
}

/// Rules by hand, as pf.conf(5) evaluates them: all in turn, the last that matches, or the first with quick.
#[test]
fn the_order_of_matches_is_that_of_an_evaluation_of_the_rules() {
    // Protocol, destination ports, whether quick, and the queue.
    type Plain = (&'static str, u8, (u16, u16), bool, Option<&'static str>);
    let rules: [Plain; 6] = [
        ("tcp", TCP, (0, 65_535), false, Some("a")),
        ("tcp", TCP, (80, 90), false, Some("b")),
        ("tcp", TCP, (22, 22), true, Some("b")),
        ("tcp", TCP, (1000, 2000), false, None),
        ("tcp", TCP, (20, 30), true, None),
        ("udp", UDP, (53, 53), false, Some("b")),
    ];
    let line = |(proto, _, (first, last), quick, queue): &Plain| {
        let quick = if *quick { "quick " } else { "" };
        let queue = queue.map_or(String::new(), |queue| format!(" queue {queue}"));
        format!("pass out {quick}on em0 proto {proto} to any port {first}:{last} keep state{queue}\n")
    };
    for skipped in 0..=rules.len() {
        let kept: Vec<&Plain> =
            rules.iter().enumerate().filter(|&(at, _)| at != skipped).map(|(_, rule)| rule).collect();
        let imported = made(&with_rules(&kept.iter().map(|rule| line(rule)).collect::<String>()));
        for proto in [TCP, UDP] {
            for port in [21, 22, 25, 30, 31, 53, 79, 80, 90, 91, 999, 1000, 2000, 2001] {
                let mut last = None;
                for (_, of, (first, end), quick, queue) in &kept {
                    if *of == proto && (*first..=*end).contains(&port) {
                        last = *queue;
                        if *quick {
                            break;
                        }
                    }
                }
                let found = class_of(&imported, &frame(proto, [HERE, THERE], [40_000, port]));
                assert_eq!(found, last.unwrap_or("d"), "without {skipped}, {proto} {port}: {}", imported.links[0].text);
            }
        }
    }
}

#[test]
fn what_comes_in_by_an_interface_leaves_another_as_it_came_and_this_one_as_a_reply() {
    let class = |rule: &str, ports: [u16; 2]| class_of(&made(&with_rules(rule)), &frame(TCP, [HERE, THERE], ports));
    let (to_80, from_80) = ([40_000, 80], [80, 40_000]);
    for (rule, written, reply) in [
        ("pass out on em0 proto tcp to any port 80 queue a", "a", "d"),
        ("pass in on em0 proto tcp to any port 80 queue a", "d", "a"),
        ("pass in on em1 proto tcp to any port 80 queue a", "a", "d"),
        ("pass out on em1 proto tcp to any port 80 queue a", "d", "a"),
        ("pass on em0 proto tcp to any port 80 queue a", "a", "a"),
        ("pass proto tcp to any port 80 queue a", "a", "a"),
        // A match rule is not overruled by what only passes.
        ("match out on em0 proto tcp to any port 80 queue a\npass out on em0", "a", "d"),
        ("pass out on em0 proto tcp to any port 80 queue a\npass out on em0", "d", "d"),
    ] {
        assert_eq!([class(rule, to_80), class(rule, from_80)], [written, reply], "{rule}");
    }
}

#[test]
fn cbq_becomes_guarantees_and_is_kept_beside() {
    let text = with_rules(
        "pass out on em0 proto udp queue a\npass out on em0 proto tcp from 10.0.0.0/8 to any port { != 22 } queue b",
    );
    let link = &made(&text).links[0];
    assert!(link.text.contains("scheduler = \"hls\""));
    assert!(link.text.contains("name = \"b\"\nguarantee = \"2Mbit\"\nceiling = \"2Mbit\"\n"), "{}", link.text);
    assert!(link.text.contains("name = \"a\"\nguarantee = \"3Mbit\"\nbuffer"), "{}", link.text);
    let before = link.before.as_deref().unwrap();
    assert!(
        before.contains("scheduler = \"cbq-top-level\"") && before.contains("bounded = true\npriority = 6"),
        "{before}"
    );
    let kept = import("pf.conf", text, &Options::default().with("as-is", true)).unwrap();
    assert_eq!(kept.links[0].text, before);
}

#[test]
fn priq_becomes_priorities_of_htb() {
    let text = "altq on em0 priq bandwidth 1Mb queue { q1, q2 }\nqueue q1 priority 15 priq\nqueue q2 priority 0 priq(default, red)\npass out on em0 proto icmp queue q1\n";
    let imported = made(text);
    assert!(
        imported.links[0].text.contains("name = \"q1\"\nguarantee = \"1kbit\"\npriority = 0\n"),
        "{}",
        imported.links[0].text
    );
    assert!(imported.links[0].text.contains("name = \"q2\"\nguarantee = \"1kbit\"\npriority = 1\n"));
    assert!(notes(&imported).contains("1 queue with red or rio"));
}

#[test]
fn macros_and_lists_are_put_in_where_they_are_named() {
    let text = "p = \"{ 80, 443 }\"\nq = \"{ 22 \" $p \"}\"\n".to_owned()
        + &with_rules("pass out on em0 proto { tcp udp } to any \\\n  port $q \\\n queue a # the end");
    let imported = made(&text);
    let matches = imported.links[0].link.matches.len();
    assert_eq!(matches, 6, "{}", imported.links[0].text);
    assert_eq!(class_of(&imported, &frame(UDP, [HERE, THERE], [1, 443])), "a");
}

#[test]
fn two_interfaces_are_two_links_and_a_queue_may_be_of_one() {
    let text = "altq on a cbq bandwidth 1Mb queue { x }\naltq on b cbq bandwidth 2Mb queue { x, y }\nqueue x on a bandwidth 50% cbq(default)\nqueue x on b bandwidth 10% cbq(default)\nqueue y bandwidth 1Mb cbq\npass out on b proto udp queue y\n";
    let imported = made(text);
    let names: Vec<&str> = imported.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(
        imported.links[0].text.contains("guarantee = \"500kbit\"")
            && imported.links[1].text.contains("guarantee = \"200kbit\"")
    );
    let one = import("pf.conf", text, &Options::default().with("interface", "b")).unwrap();
    assert_eq!(one.links.len(), 1);
}

#[test]
fn rules_that_no_frame_shows_are_left_out_and_said() {
    let rules = "pass out on em0 proto tcp from <lan> to any queue a\npass out on em0 proto udp from (em0) to any queue b\npass out on em0 proto tcp user root queue a\npass out on em0 from !10.0.0.1 to any queue a";
    let said = notes(&made(&with_rules(rules)));
    for why in ["a table of addresses", "the address of an interface", "\"user\"", "addresses that are not these"] {
        assert!(said.contains(why), "{why}\n{said}");
    }
    assert!(said.contains("class of queue \"a\" has no rule"), "{said}");
}

#[test]
fn what_cannot_be_read_is_refused_at_its_place() {
    let queue = |more: &str| format!("altq on em0 hfsc bandwidth 10Mb queue {{ a }}\nqueue a hfsc(default {more})\n");
    for (text, place, what) in [
        (String::new(), "", "there is no altq in this file"),
        ("altq on em0 bandwidth 1Mb queue { a }".to_owned(), ":1:1", "names no scheduler"),
        ("altq on em0 cbq queue { a }\nqueue a cbq(default)".to_owned(), ":1:1", "--rate"),
        ("altq on em0 fairq bandwidth 1Mb queue { a }".to_owned(), ":1:13", "\"fairq\" is not an option"),
        ("queue std on em0 bandwidth 100M".to_owned(), ":1:28", "\"100M\" is not a bandwidth"),
        ("queue a parent b bandwidth 1Mb".to_owned(), ":1:9", "OpenBSD 5.5"),
        (queue("realtime (1Mb 10)"), ":2:38", "expected a bandwidth"),
        (queue("realtime 11Mb"), ":1:1", "do not fit"),
        (queue("speed 1"), ":2:22", "\"speed\" is not an option of a scheduler"),
        (
            format!(
                "altq on em0 priq bandwidth 1Mb queue {{ a b c d e f g h i }}\n{}queue a priq(default)\n",
                "bcdefghi"
                    .chars()
                    .enumerate()
                    .map(|(at, name)| format!("queue {name} priority {}\n", at + 2))
                    .collect::<String>()
            ),
            ":1:1",
            "9 different priorities",
        ),
        (queue("") + "queue b on em0 cbq\npass out queue c", ":4:16", "there is no queue \"c\""),
        (queue("") + "pass out proto tcp to any port nosuch queue a", ":3:32", "\"nosuch\" is not a known port"),
        (queue("") + "pass out proto tcp to any port $p queue a", ":3:32", "no macro \"p\""),
        (queue("") + "pass out wrongly queue a", ":3:10", "\"wrongly\" is not a word"),
        (queue("") + "passs out", ":3:1", "is not the beginning of a statement"),
        (queue("") + "x = \"unfinished", ":3:5", "unterminated quote"),
        (queue("") + "pass out to { 10.0.0.1", ":3:22", "unterminated list"),
        (with_rules("").replace("default ", ""), ":1:1", "0 queues of \"em0\" are the default"),
        (with_rules("").replace("2Mb", "3Mb"), "", "add up to 11 Mbit/s"),
        (
            with_rules(
                "pass out on em0 proto tcp queue a\npass out on em0 proto tcp to any port 80 queue b\npass out on em0 proto tcp to any port 80:90 queue a",
            ),
            ":5:1",
            "alternate",
        ),
    ] {
        // The rule that takes port 80 from another queue is left out, so that nothing takes turns there.
        if what == "alternate" {
            assert!(notes(&made(&text)).contains("another rule takes all of its frames"));
            let text = text.replace("port 80:90", "port 85:90").replace("port 80 ", "port 80:87 ");
            let said = refused(&text);
            assert!(said.contains(what), "{said}");
            continue;
        }
        let said = refused(&text);
        assert!(said.contains(what) && said.contains(&format!("pf.conf{place}")), "{text}\n{said}");
    }
}

#[test]
fn macros_that_would_fill_memory_are_refused() {
    let mut text = "a = \"x x x x x x x x\"\n".to_owned();
    for name in "bcdefghijklmnop".chars() {
        let before = char::from(name as u8 - 1);
        text +=
            &format!("{name} = \"${before} ${before} ${before} ${before} ${before} ${before} ${before} ${before}\"\n");
    }
    let said = refused(&(text + "pass $p\n"));
    assert!(said.contains("more than"), "{said}");
}

/// [`Match::matches`] is the reference for matches; a text that is not a port gives none.
#[test]
fn ports_are_ranges_as_pf_has_them() {
    for (ports, inside, outside) in [
        ("port = 80", vec![80], vec![79, 81]),
        ("port != 80", vec![0, 79, 81, 65_535], vec![80]),
        ("port < 80", vec![0, 79], vec![80]),
        ("port <= 80", vec![80], vec![81]),
        ("port > 80", vec![81, 65_535], vec![80]),
        ("port >= 80", vec![80], vec![79]),
        ("port 80 >< 90", vec![81, 89], vec![80, 90]),
        ("port 80 <> 90", vec![79, 91], vec![80, 90]),
        ("port 80:90", vec![80, 90], vec![79, 91]),
        ("port 60000:", vec![60_000, 65_535], vec![59_999]),
        ("port { ssh, domain }", vec![22, 53], vec![80]),
    ] {
        let imported = made(&with_rules(&format!("pass out on em0 proto tcp to any {ports} queue a")));
        for (all, class) in [(inside, "a"), (outside, "d")] {
            for port in all {
                assert_eq!(class_of(&imported, &frame(TCP, [HERE, THERE], [1, port])), class, "{ports}: {port}");
            }
        }
    }
    assert!(Match::parse("tcp dst port 80-90").is_ok());
}

#[test]
fn a_queue_of_hfsc_may_have_no_bandwidth_beside_a_link_sharing_curve() {
    let text = "altq on em0 bandwidth 2Mb hfsc queue { main, spamd }\nqueue main bandwidth 99% hfsc(default linkshare 99%)\n\
                queue spamd bandwidth 0% hfsc(realtime 0, upperlimit 1%, linkshare 1%)\npass in on em0 proto tcp to port smtp queue spamd\n";
    let imported = import("pf.conf", text, &Options::default()).unwrap_or_else(|errors| panic!("{}", errors.lines()));
    assert_eq!(imported.links[0].link.unreachable(), []);
    let bare = import("pf.conf", text.replace(", linkshare 1%", ""), &Options::default()).expect_err("nothing for it");
    assert!(bare.lines().contains("has a bandwidth of 0 bit/s"), "{}", bare.lines());
}
