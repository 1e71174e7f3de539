use fairlink_core::ClassId;

use crate::tc::{ImportOptions, import};
use crate::{LinkFile, ReadOptions};

/// Commands that set up a device.
const COMMANDS: &str = "tc qdisc add dev eth0 root handle 1: htb default 30 r2q 10
tc class add dev eth0 parent 1: classid 1:1 htb rate 100mbit ceil 100mbit burst 15k
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 30mbit ceil 100mbit prio 0 quantum 3000 burst 1593b
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 50mbit ceil 80mbit burst 2k cburst 3k overhead 24
tc class add dev eth0 parent 1:20 classid 1:21 htb rate 20mbit ceil 80mbit prio 1
tc class add dev eth0 parent 1:20 classid 1:22 htb rate 512kbit ceil 80mbit prio 2
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 1500kbit ceil 2.5gbit burst 1599b cburst 1250b quantum 18750
tc qdisc add dev eth0 parent 1:22 handle 22: pfifo limit 50
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 10.1.0.0/16 match ip dport 80 0xffff flowid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip protocol 17 0xff match ip tos 0xb8 0xfc flowid 1:21
tc filter add dev eth0 parent 1: protocol ipv6 prio 6 u32 match ip6 dst 2001:db8::/32 flowid 1:22
";

/// Output of `tc -s -d qdisc|class|filter show dev eth0` for it (iproute2 6.1, a kernel of 2026), classes in the
/// kernel's order.
const TEXT: &str = "qdisc htb 1: root refcnt 3 r2q 10 default 0x30 direct_packets_stat 0 ver 3.17 direct_qlen 1000
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) 
 backlog 0b 0p requeues 0
qdisc pfifo 22: parent 1:22 limit 50p
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) 
 backlog 0b 0p requeues 0
class htb 1:22 parent 1:20 leaf 22: prio 2 quantum 6400 rate 512Kbit ceil 80Mbit linklayer ethernet burst 1600b/1 mpu 0b cburst 1600b/1 mpu 0b level 0 
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) 
 backlog 0b 0p requeues 0
 lended: 0 borrowed: 0 giants: 0
 tokens: 390625 ctokens: 2500

class htb 1:1 root rate 100Mbit ceil 100Mbit linklayer ethernet burst 15360b/1 mpu 0b cburst 1600b/1 mpu 0b level 7 
class htb 1:10 parent 1:1 prio 0 quantum 3000 rate 30Mbit ceil 100Mbit linklayer ethernet burst 1593b/1 mpu 0b cburst 1600b/1 mpu 0b level 0 
class htb 1:20 parent 1:1 rate 50Mbit overhead 24 ceil 80Mbit linklayer ethernet burst 2Kb/1 mpu 0b cburst 3Kb/1 mpu 0b level 6 
class htb 1:30 parent 1:1 prio 0 quantum 18750 rate 1500Kbit ceil 2500Mbit linklayer ethernet burst 1599b/1 mpu 0b cburst 1250b/1 mpu 0b level 0 
class htb 1:21 parent 1:20 prio 1 quantum 200000 rate 20Mbit ceil 80Mbit linklayer ethernet burst 1600b/1 mpu 0b cburst 1600b/1 mpu 0b level 0 
filter parent 1: protocol ip pref 1 u32 chain 0 
filter parent 1: protocol ip pref 1 u32 chain 0 fh 800: ht divisor 1 
filter parent 1: protocol ip pref 1 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 *flowid 1:10 not_in_hw 
  match 0a010000/ffff0000 at 16
  match 00000050/0000ffff at 20
filter parent 1: protocol ip pref 2 u32 chain 0 
filter parent 1: protocol ip pref 2 u32 chain 0 fh 801: ht divisor 1 
filter parent 1: protocol ip pref 2 u32 chain 0 fh 801::800 order 2048 key ht 801 bkt 0 *flowid 1:21 not_in_hw (rule hit 0 success 0)
  match 00110000/00ff0000 at 8 (success 0 ) 
  match 00b80000/00fc0000 at 0 (success 0 ) 
filter parent 1: protocol ipv6 pref 6 u32 chain 0 
filter parent 1: protocol ipv6 pref 6 u32 chain 0 fh 802::800 order 2048 key ht 802 bkt 0 *flowid 1:22 not_in_hw 
  match 20010db8/ffffffff at 24
";

/// The same with `-j`: filters and queueing disciplines are JSON there, with a key for each match.
const JSON: &str = r#"[{"kind":"htb","handle":"1:","dev":"eth0","root":true,"refcnt":3,"options":{"r2q":10,"default":"0x30","direct_packets_stat":0,"ver":"3.17","direct_qlen":1000},"bytes":0,"packets":0},{"kind":"pfifo","handle":"22:","dev":"eth0","parent":"1:22","options":{"limit":50}}]
[{"parent":"1:","protocol":"ip","pref":1,"kind":"u32","chain":0},{"parent":"1:","protocol":"ip","pref":1,"kind":"u32","chain":0,"options":{"fh":"800:","ht_divisor":1}},{"parent":"1:","protocol":"ip","pref":1,"kind":"u32","chain":0,"options":{"fh":"800::800","order":2048,"key_ht":"800","bkt":"0","flowid":"1:10","not_in_hw":true,"match":{"value":"a010000","mask":"ffff0000","offmask":"","off":16},"match":{"value":"50","mask":"ffff","offmask":"","off":20}}},{"parent":"1:","protocol":"ip","pref":2,"kind":"u32","chain":0,"options":{"fh":"801::800","flowid":"1:21","match":{"value":"110000","mask":"ff0000","offmask":"","off":8},"match":{"value":"b80000","mask":"fc0000","offmask":"","off":0}}},{"parent":"1:","protocol":"ipv6","pref":6,"kind":"u32","chain":0,"options":{"fh":"802::800","flowid":"1:22","match":{"value":"20010db8","mask":"ffffffff","offmask":"","off":24}}}]
"#;

/// As versions that have classes in JSON print them: rates are in bytes per second.
const JSON_CLASSES: &str = r#"[{"class":"htb","handle":"1:21","parent":"1:20","prio":1,"quantum":200000,"rate":2500000,"ceil":10000000,"linklayer":"ethernet","burst":1600,"mpu":0,"cburst":1600,"level":0,"stats":{"bytes":0}},
{"class":"htb","handle":"1:1","root":true,"rate":12500000,"ceil":12500000,"burst":15360,"cburst":1600,"level":7},
{"class":"htb","handle":"1:10","parent":"1:1","prio":0,"quantum":3000,"rate":3750000,"ceil":12500000,"burst":"1593b","cburst":1600},
{"class":"htb","handle":"1:20","parent":"1:1","rate":6250000,"overhead":24,"ceil":10000000,"burst":2048,"cburst":3072},
{"class":"htb","handle":"1:30","parent":"1:1","prio":0,"quantum":18750,"rate":187500,"ceil":312500000,"burst":1599,"cburst":1250},
{"class":"htb","handle":"1:22","parent":"1:20","leaf":"22:","prio":2,"quantum":6400,"rate":64000,"ceil":10000000,"burst":1600,"cburst":1600}]
"#;

fn read(text: &str) -> LinkFile {
    let made = import("a.tc", text, &ImportOptions::default()).unwrap_or_else(|errors| panic!("{}", errors.lines()));
    LinkFile::parse("a.toml", made.text, &ReadOptions::default()).unwrap_or_else(|errors| panic!("{}", errors.lines()))
}

/// Describes each class, by name.
fn classes(link: &LinkFile) -> Vec<String> {
    let one = |id: u32| {
        let id = ClassId(id);
        let parent = link.tree.parent(id).map(|parent| link.names.name(parent));
        let config = link.tree.config(id);
        let matches = link.matches.iter().filter(|(class, _)| *class == id).map(|(_, made)| made.to_string());
        format!("{} {parent:?} {config:?} {:?}", link.names.name(id), matches.collect::<Vec<_>>())
    };
    let mut all: Vec<String> = (1..link.tree.len() as u32).map(one).collect();
    all.sort();
    all
}

#[test]
fn what_tc_shows_is_the_same_link_as_the_commands_that_set_it_up() {
    let expected = read(COMMANDS);
    assert_eq!(expected.matches.len(), 3);
    let of_classes: String =
        TEXT.lines().filter(|line| line.starts_with("class ")).map(|line| format!("{line}\n")).collect();
    for shown in [TEXT.to_owned(), format!("{JSON}\n{of_classes}"), format!("{JSON_CLASSES}{JSON}")] {
        let found = read(&shown);
        assert_eq!(classes(&found), classes(&expected));
        assert_eq!(found.tree.link().rate, expected.tree.link().rate);
        assert_eq!(found.default_class.map(|class| found.names.name(class)), Some("1:30"));
    }
    // Without -d there are no quanta, and those that the kernel chooses are taken.
    let plain: String = TEXT.replace(" quantum 200000", "").replace(" quantum 6400", "");
    assert_eq!(classes(&read(&plain)), classes(&expected));
}

#[test]
fn devices_are_told_apart_and_those_that_share_nothing_out_are_left_out() {
    let text = "qdisc noqueue 0: dev lo root refcnt 2 \nqdisc htb 1: dev eth1 root refcnt 2 r2q 10 default 0 direct_packets_stat 0\n\
        class htb 1:2 dev eth1 root prio 0 rate 8Mbit ceil 8Mbit burst 1600b cburst 1600b \nclass fq_codel 8001:5 dev eth1 parent 8001: \n\
        filter dev eth1 parent 1: protocol ip pref 5 flower chain 0 handle 0x1 classid 1:2 \n  eth_type ipv4\n  ip_proto udp\n  dst_ip 10.2.0.0/24\n  dst_port 5001\n  not_in_hw\n        action order 1: gact action pass\n";
    let made = import("a.tc", text, &ImportOptions::default()).unwrap_or_else(|errors| panic!("{}", errors.lines()));
    assert_eq!(made.devices, ["eth1"]);
    assert!(made.text.contains("match = [\"udp dst net 10.2.0.0/24 dst port 5001\"]"), "{}", made.text);
    assert!(made.notes.iter().any(|note| note.to_string().contains("noqueue at the root of lo")));
}

#[test]
fn what_tc_does_not_show_is_refused_at_its_line() {
    for (text, line, said) in [
        ("qdisc htb 1: root r2q 10\nip link show\n", 2, "this line begins with \"ip\""),
        ("qdisc htb 1: root r2q 10\n colour blue\n", 2, "\"colour\" is not part of the output of tc"),
        ("qdisc htb 1: root r2q 10\nclass htb 1:2 root rate fast ceil 1Mbit\n", 2, "\"rate\" takes no \"fast\""),
        ("qdisc htb 1: root r2q 10\nclass htb 1:2 parent 1:7 rate 1Mbit ceil 1Mbit\n", 2, "there is no class 1:7"),
        ("[{\"kind\":\"htb\"\n", 1, "this is not JSON"),
        ("[{\"mtu\": 5}]\n", 1, "is not output of tc"),
        ("qdisc htb\n", 1, "this line ends too early"),
    ] {
        let errors = import("a.tc", text, &ImportOptions::default()).expect_err(text).lines();
        assert!(errors.starts_with(&format!("a.tc:{line}:")) && errors.contains(said), "{text}: {errors}");
    }
}
