use crate::import::{Options, find};
use crate::problem::SourceText;

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
    classes_of(TREE, rules, packets)
}

fn key((proto, sport, dport): (u8, u16, u16)) -> crate::matching::FrameKey {
    crate::matching::FrameKey {
        ethertype: Some(0x0800),
        version: Some(crate::matching::IpVersion::V4),
        src: crate::matching::v4_mapped([10, 0, 0, 1]),
        dst: crate::matching::v4_mapped([192, 0, 2, 7]),
        proto,
        sport: Some(sport),
        dport: Some(dport),
        ..Default::default()
    }
}

/// As [`classes`], with another tree.
fn classes_of(tree: &str, rules: &str, packets: &[(u8, u16, u16)]) -> (Vec<String>, String) {
    let source = SourceText::new("a.tc", format!("{tree}{rules}"));
    let made = find("tc").unwrap().read(&[source], &Options::default()).unwrap_or_else(|error| panic!("{error:?}"));
    let link = &made.links[0].link;
    let of = |packet: &(u8, u16, u16)| {
        let key = key(*packet);
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
iptables -t mangle -A POSTROUTING -o eth0 -m length ! --length 0:60 -j MARK --set-mark 20
iptables -t mangle -A POSTROUTING -o eth0 ! -p tcp -j MARK --set-mark 20\n";
    let (found, notes) = classes(rules, &[(6, 9, 80), (17, 9, 80)]);
    assert_eq!(found, ["1:30", "1:20"]);
    for said in [
        "WARNING: a rule is left out: not expressible as a match: \"--uid-owner 7\"; its frames for 1:10 get another class",
        "\"! --length 0:60\"",
        "a filter to 1:10 is left out: no readable rule sets it (mark 0xa)",
    ] {
        assert!(notes.contains(said), "{notes}");
    }
}

#[test]
fn masks_are_followed_bit_by_bit() {
    // Of the mark 0x10 | 0x20, the filter for 10 = 0xa is under a mask of its own.
    let masked = TREE.replace("handle 10 fw", "handle 0x10/0xf0 fw").replace("handle 0x14 fw", "handle 0x20/0x20 fw");
    let rules = "iptables -t mangle -A POSTROUTING -p tcp -j MARK --set-xmark 0x11/0xff
iptables -t mangle -A POSTROUTING -p udp -j MARK --or-mark 0x23
iptables -t mangle -A POSTROUTING -p udp --dport 53 -j MARK --and-mark 0xffffffdf
iptables -t mangle -A POSTROUTING -p udp --dport 53 -j MARK --or-mark 0x10
iptables -t mangle -A POSTROUTING -p tcp --dport 22 -j MARK --set-mark 0x20/0xf0
iptables -t mangle -A POSTROUTING -m mark --mark 0x13/0x3f -p udp --sport 7 -j MARK --set-mark 0
iptables -t mangle -A POSTROUTING -p tcp --dport 23 -j MARK --xor-mark 0x20\n";
    let packets = [(6, 9, 80), (17, 9, 9), (17, 9, 53), (6, 9, 22), (17, 7, 53), (17, 7, 9), (6, 9, 23), (1, 0, 0)];
    let (found, notes) = classes_of(&masked, rules, &packets);
    // tcp 23: 0x31, which the first filter does not take under 0xf0 and the second does under 0x20.
    assert_eq!(found, ["1:10", "1:20", "1:10", "1:20", "1:30", "1:20", "1:20", "1:30"], "{notes}");
    assert!(!notes.contains("WARNING"), "{notes}");
}

/// A model of iptables that evaluates rules for a packet, for a small kind of rules: (conditions on tcp, source port,
/// destination port), change, verdict.
#[test]
fn random_rules_give_each_packet_the_class_that_a_walk_of_that_packet_gives() {
    #[derive(Clone)]
    struct Step {
        proto: Option<u8>,
        sport: Option<(u16, bool)>,
        dport: Option<(u16, bool)>,
        test: Option<(u32, u32, bool)>,
        act: u32,
        bits: (u32, u32),
    }
    fn pass(chains: &[Vec<Step>; 3], chain: usize, packet: (u8, u16, u16), mark: &mut u32) -> bool {
        for step in &chains[chain] {
            let port =
                |wanted: Option<(u16, bool)>, port: u16| wanted.is_none_or(|(wanted, not)| (wanted == port) != not);
            if step.proto.is_some_and(|proto| proto != packet.0)
                || !port(step.sport, packet.1)
                || !port(step.dport, packet.2)
                || step.test.is_some_and(|(value, mask, not)| (*mark & mask == value) == not)
            {
                continue;
            }
            let (value, mask) = step.bits;
            match step.act {
                0 | 1 => *mark = (*mark & !mask) ^ value,
                2 => *mark = (*mark & !(mask | value)) | value,
                3 => *mark |= value,
                4 => *mark &= value,
                5 => return false,
                6 => return true,
                7 if chain < 2 && pass(chains, chain + 1, packet, mark) => return true,
                8 if chain < 2 => return pass(chains, chain + 1, packet, mark),
                _ => {}
            }
        }
        false
    }
    let mut seed = 20_251u64;
    let mut random = move |below: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(seed >> 33).unwrap() % below
    };
    let packets: Vec<(u8, u16, u16)> =
        [6, 17].into_iter().flat_map(|proto| (1..4).flat_map(move |s| (1..4).map(move |d| (proto, s, d)))).collect();
    let (mut marked, mut calls) = (0, 0);
    for round in 0..400 {
        let mut chains: [Vec<Step>; 3] = Default::default();
        let mut rules = "iptables -t mangle -N A\niptables -t mangle -N B\n".to_owned();
        for (chain, name) in ["POSTROUTING", "A", "B"].into_iter().enumerate() {
            for _ in 0..3 + random(4) {
                let port = |random: &mut dyn FnMut(u32) -> u32| {
                    (random(3) == 0).then(|| (1 + random(3) as u16, random(4) == 0))
                };
                let step = Step {
                    proto: [None, Some(6), Some(17)][random(3) as usize],
                    sport: port(&mut random),
                    dport: port(&mut random),
                    test: (random(3) == 0).then(|| (random(8), [3, 7, 6][random(3) as usize], random(2) == 0)),
                    act: random(9),
                    bits: (random(8), random(8)),
                };
                rules += &format!("iptables -t mangle -A {name}");
                let is_ports = step.sport.is_some() || step.dport.is_some();
                match step.proto {
                    Some(6) => rules += " -p tcp",
                    Some(_) => rules += " -p udp",
                    None if is_ports => rules += " -m multiport",
                    None => {}
                }
                for (option, port) in [("sport", step.sport), ("dport", step.dport)] {
                    if let Some((port, not)) = port {
                        rules += &format!(" {}--{option} {port}", if not { "! " } else { "" });
                    }
                }
                if let Some((value, mask, not)) = step.test {
                    rules += &format!(" -m mark {}--mark {value:#x}/{mask:#x}", if not { "! " } else { "" });
                }
                let (value, mask) = step.bits;
                let next = ["A", "B", ""][chain];
                rules += &match step.act {
                    0 | 1 => format!(" -j MARK --set-xmark {value:#x}/{mask:#x}"),
                    2 => format!(" -j MARK --set-mark {value:#x}/{mask:#x}"),
                    3 => format!(" -j MARK --or-mark {value:#x}"),
                    4 => format!(" -j MARK --and-mark {value:#x}"),
                    5 => " -j RETURN".to_owned(),
                    6 => " -j ACCEPT".to_owned(),
                    7 if chain < 2 => format!(" -j {next}"),
                    8 if chain < 2 => format!(" -g {next}"),
                    _ => String::new(),
                };
                calls += u32::from(step.act > 6);
                rules += "\n";
                chains[chain].push(step);
            }
        }
        let source = crate::problem::SourceText::new("a.tc", rules.clone());
        let mut log = crate::problem::Log::new(&source);
        let mut firewall = super::Firewall::default();
        let mut notes = Vec::new();
        for command in crate::commands::words::commands(&rules, &mut log) {
            firewall.read(&command, &log, &mut notes);
        }
        let walk = super::Walk::leaving(&firewall, "ip", "eth0");
        assert!(walk.untold.is_empty() && notes.is_empty(), "{:?}\n{rules}", walk.untold);
        for packet in &packets {
            let mut mark = 0;
            pass(&chains, 0, *packet, &mut mark);
            let key = key(*packet);
            let found = walk.regions.iter().find(|region| region.made.matches(&key)).unwrap();
            marked += u32::from(mark != 0);
            assert_eq!(
                found.state.mark.is(mark, u32::MAX),
                Some(true),
                "round {round}, {packet:?}, mark {mark:#x}, found {:?}\n{rules}",
                found.state.mark
            );
        }
    }
    assert!(marked > 2000 && calls > 500, "{marked} {calls}");
}

#[test]
fn bits_that_nobody_knows_name_the_class_in_a_warning() {
    let tree = TREE.replace("handle 10 fw", "handle 0x10/0xf0 fw");
    let rules = "nft 'add chain ip x y { type filter hook postrouting priority 0 ; }'
nft 'add rule ip x y tcp dport 80 meta mark set ip saddr map { 10.0.0.1 : 16 }'
nft add rule ip x y udp dport 53 meta mark set 0x14\n";
    let (found, notes) = classes_of(&tree, rules, &[(6, 9, 80), (17, 9, 53)]);
    // 0x14 is 0x10 under 0xf0, which the first filter asks for.
    assert_eq!(found, ["1:30", "1:10"], "{notes}");
    let said = "WARNING: frames \"ip tcp dst port 80\" may have the mark of 1:10, 1:20, depending on unknown bits";
    assert!(notes.contains(said), "{notes}");
    // Bits that a later rule sets are known again.
    let rules = format!("{rules}nft add rule ip x y tcp dport 80 meta mark set meta mark and 0x0f or 0x10\n");
    let (found, notes) = classes_of(&tree, &rules, &[(6, 9, 80)]);
    assert_eq!((found[0].as_str(), notes.contains("may have the mark")), ("1:10", false), "{notes}");
}

#[test]
fn rules_of_nft_are_followed_as_those_of_iptables() {
    let block = "table inet q {
  set web { type inet_service ; elements = { 80, 443 } }
  chain out {
    type filter hook postrouting priority mangle ; policy accept ;
    oifname != \"eth0\" return
    meta l4proto tcp meta mark set 0x1 comment \"all of tcp\"
    tcp dport @web counter packets 0 bytes 0 meta mark set meta mark and 0xf0 or 10
    udp dport { 53, 5000-5010 } meta mark set 20 accept
    ip saddr 10.0.0.1 udp sport 7 goto late
    udp sport 7 meta mark set 20
  }
  chain late { ip daddr 192.0.2.0-192.0.2.130 meta mark set 10 ; }
}";
    let rules = format!(
        "nft '{}'\nnft add rule inet q out meta mark 10 tcp dport 443 meta priority set 1:20\n",
        block.replace('\n', " ; ")
    );
    let packets = [(6, 9, 80), (6, 9, 81), (6, 9, 443), (17, 9, 53), (17, 9, 5007), (17, 7, 9), (17, 9, 9)];
    let (found, notes) = classes(&rules, &packets);
    assert_eq!(found, ["1:10", "1:30", "1:20", "1:20", "1:20", "1:10", "1:30"], "{notes}");
}

#[test]
fn scripts_that_return_with_a_mark_and_scripts_that_add_bits_are_followed() {
    let rules = "iptables -t mangle -N S
iptables -t mangle -A POSTROUTING -j S
iptables -t mangle -A S -o eth0 -j CONNMARK --restore-mark
iptables -t mangle -A S -m mark ! --mark 0 -j RETURN
iptables -t mangle -A S -o eth0 -p udp --dport 53 -j MARK --set-mark 10
iptables -t mangle -A S -m mark ! --mark 0 -j RETURN
iptables -t mangle -A S -o eth0 -p tcp --tcp-flags FIN,SYN SYN -j MARK --set-mark 10
iptables -t mangle -A S -o eth0 ! -d 192.0.2.0/24 -j RETURN
iptables -t mangle -A S -o eth0 -j MARK --set-mark 20
iptables -t mangle -A S -j CONNMARK --save-mark\n";
    let (found, notes) = classes(rules, &[(17, 9, 53), (6, 9, 80)]);
    assert_eq!(found, ["1:10", "1:20"], "{notes}");
    let said = "WARNING: a rule is left out: not expressible as a match: \"--tcp-flags FIN,SYN SYN\"; its frames for 1:10 get another class";
    assert!(notes.contains(said), "{notes}");
    let rules = "iptables -t mangle -A POSTROUTING -p tcp --dport 22 -j MARK --or-mark 0xa
iptables -t mangle -A POSTROUTING -p tcp --dport 22 -j RETURN
iptables -t mangle -A POSTROUTING -p tcp -j MARK --or-mark 0x14\n";
    let (found, notes) = classes(rules, &[(6, 9, 22), (6, 9, 80), (17, 9, 9)]);
    assert_eq!(found, ["1:10", "1:20", "1:30"], "{notes}");
}
