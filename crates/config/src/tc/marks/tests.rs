use crate::import::tc::{Options, import};

const TREE: &str = "tc qdisc add dev eth0 root handle 1: htb default 30
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 2mbit ceil 10mbit
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 2mbit ceil 10mbit
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 2mbit ceil 10mbit
tc filter add dev eth0 parent 1: protocol ip prio 1 handle 10 fw flowid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 1 handle 0x14 fw flowid 1:20
";

/// The classes that packets of (protocol, source port, destination port) go to, and all notes.
fn classes(rules: &str, packets: &[(u8, u16, u16)]) -> (Vec<String>, String) {
    let made = import("a.tc", format!("{TREE}{rules}"), &Options::default())
        .unwrap_or_else(|errors| panic!("{}", errors.lines()));
    let link = &made.links[0].link;
    let of = |&(proto, sport, dport): &(u8, u16, u16)| {
        let key = crate::matching::FrameKey {
            ethertype: Some(0x0800),
            version: Some(crate::matching::IpVersion::V4),
            src: crate::matching::v4_mapped([10, 0, 0, 1]),
            dst: crate::matching::v4_mapped([192, 0, 2, 7]),
            proto,
            sport: Some(sport),
            dport: Some(dport),
            ..Default::default()
        };
        let found = link.matches.iter().find(|(_, made)| made.matches(&key)).map(|(class, _)| *class);
        link.names.name(found.or(link.default_class).unwrap()).to_owned()
    };
    (packets.iter().map(of).collect(), made.notes.iter().map(|note| format!("{note}\n")).collect())
}

#[test]
fn the_last_rule_that_sets_a_mark_counts() {
    let rules = "iptables -t mangle -A POSTROUTING -o eth0 -p tcp -j MARK --set-mark 10
iptables -t mangle -A POSTROUTING -o eth0 -p tcp --dport 80 -j MARK --set-mark 20
iptables -t mangle -A PREROUTING -p udp -j MARK --set-mark 20
iptables -t mangle -A FORWARD -o eth1 -p udp -j MARK --set-mark 10
iptables -A FORWARD -p udp -j ACCEPT\n";
    let (found, notes) = classes(rules, &[(6, 9, 80), (6, 9, 81), (17, 9, 9), (1, 0, 0)]);
    assert_eq!(found, ["1:20", "1:10", "1:20", "1:30"], "{notes}");
}

#[test]
fn a_rule_that_returns_keeps_later_rules_off_and_chains_are_followed() {
    let rules = "iptables -t mangle -N Q
iptables -t mangle -A FORWARD -o eth0 -j Q
iptables -t mangle -A Q -p tcp --dport 80 -j MARK --set-mark 10
iptables -t mangle -A Q -p tcp --dport 80 -j RETURN
iptables -t mangle -A Q -p tcp -m multiport --dports 80,81:90 -j MARK --set-mark 20
iptables -t mangle -A Q -m mark --mark 0 -j MARK --set-mark 10\n";
    let (found, notes) = classes(rules, &[(6, 9, 80), (6, 9, 85), (17, 9, 9)]);
    assert_eq!(found, ["1:10", "1:20", "1:10"], "{notes}");
}

#[test]
fn marks_of_connections_are_those_of_replies_too() {
    let rules = "iptables -t mangle -A PREROUTING -j CONNMARK --restore-mark
iptables -t mangle -A PREROUTING -m mark ! --mark 0 -j ACCEPT
iptables -t mangle -A PREROUTING -i eth0 -p tcp --dport 80 -j MARK --set-mark 10
iptables -t mangle -A PREROUTING -j CONNMARK --save-mark\n";
    // Requests come in at eth0, and what leaves it are the replies.
    let (found, notes) = classes(rules, &[(6, 80, 9), (6, 9, 80)]);
    assert_eq!(found, ["1:10", "1:30"], "{notes}");
}

#[test]
fn classes_that_rules_name_need_no_filter() {
    let rules = "iptables -t mangle -A POSTROUTING -o eth0 -p udp --sport 5000:5010 -j CLASSIFY --set-class 1:20\n";
    let (found, notes) = classes(rules, &[(17, 5003, 9), (17, 5011, 9)]);
    assert_eq!(found, ["1:20", "1:30"], "{notes}");
}

#[test]
fn what_no_frame_shows_is_left_out_and_said() {
    let rules = "iptables -t mangle -A POSTROUTING -o eth0 -m owner --uid-owner 7 -j MARK --set-mark 10
iptables -t mangle -A POSTROUTING -o eth0 ! -p tcp -j MARK --set-mark 20\n";
    let (found, notes) = classes(rules, &[(6, 9, 80), (17, 9, 80)]);
    assert_eq!(found, ["1:30", "1:30"]);
    for said in [
        "\"--uid-owner 7\"",
        "\"! -p tcp\"",
        "a filter to 1:10 is left out: no rule that can be read sets it (mark 0xa)",
    ] {
        assert!(notes.contains(said), "{notes}");
    }
}
