//! Features of public scripts besides HTB with filters by address.

use super::*;
use crate::matching::{FrameKey, IpVersion, v4_mapped};

/// Packets of IPv4 with this code point go to the class that is returned; `None` for a frame without IP.
fn class_of(link: &LinkFile, dscp: Option<u8>) -> String {
    let ip = FrameKey { ethertype: Some(0x0800), version: Some(IpVersion::V4), ..FrameKey::default() };
    let arp = FrameKey { ethertype: Some(0x0806), ..FrameKey::default() };
    let key = dscp.map_or(arp, |dscp| FrameKey { dscp, proto: 17, sport: Some(9), dport: Some(9), ..ip });
    class_of_key(link, &key)
}

fn class_of_key(link: &LinkFile, key: &FrameKey) -> String {
    let found = link.matches.iter().find(|(_, made)| made.matches(key)).map(|(class, _)| *class);
    link.names.name(found.or(link.default_class).unwrap()).to_owned()
}

fn priority(link: &LinkFile, name: &str) -> Option<u8> {
    link.tree.config(link.names.id(name).unwrap()).priority
}

fn said(imported: &Imported, text: &str) -> bool {
    imported.notes.iter().any(|note| note.to_string().contains(text))
}

fn rate(text: &str) -> Options {
    Options::default().with("rate", text)
}

fn refused(text: &str, options: &Options) -> String {
    import("a.tc", text, options).expect_err("wrong").lines()
}

#[test]
fn bands_of_prio_are_priorities_and_frames_find_them_by_their_type_of_service() {
    let text = "tc qdisc add dev eth0 root handle 1: prio
tc qdisc add dev eth0 parent 1:3 handle 30: tbf rate 2mbit burst 10k latency 50ms
tc qdisc add dev eth0 parent 30: sfq perturb 10
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 22 0xffff flowid 1:1
";
    let why = refused(text, &Options::default());
    assert!(why.contains("a.tc:1:1: error: prio does not give the rate of eth0") && why.contains("--rate"), "{why}");
    let imported = made(text, &rate("10mbit"));
    let link = &imported.links[0].link;
    assert_eq!((link.scheduler.as_str(), link.tree.link().rate.bps()), ("htb", 10 * M));
    assert_eq!(
        ["1:1", "1:2", "1:3"].map(|name| (priority(link, name), guarantee(link, name))),
        [(Some(0), 1000), (Some(1), 1000), (Some(2), 1000)]
    );
    assert_eq!((ceiling(link, "1:3"), ceiling(link, "1:1")), (Some(2 * M), None));
    // The table of tc-prio(8): minimum delay, maximum throughput, both; everything else, and traffic other than IPv4,
    // is best effort.
    let found = [Some(4), Some(2), Some(6), Some(0), Some(46), None].map(|dscp| class_of(link, dscp));
    assert_eq!(found, ["1:1", "1:3", "1:2", "1:2", "1:2", "1:2"]);
    let ssh = FrameKey {
        ethertype: Some(0x0800),
        version: Some(IpVersion::V4),
        proto: 6,
        dscp: 2,
        sport: Some(5),
        dport: Some(22),
        ..FrameKey::default()
    };
    assert_eq!(class_of_key(link, &ssh), "1:1");
    assert!(said(&imported, "htb with the bands as priorities") && said(&imported, "its ceiling"));
    // A truncated map continues with its first band.
    let text = "tc qdisc add dev eth0 root handle 1: prio bands 2 priomap 1 0\n";
    let link = &made(text, &rate("10mbit")).links[0].link;
    assert_eq!([Some(4), Some(2), None].map(|dscp| class_of(link, dscp)), ["1:2"; 3]);
    let wrong =
        |options: &str| refused(&format!("tc qdisc add dev eth0 root handle 1: prio {options}\n"), &rate("10mbit"));
    assert!(
        wrong("bands 16").contains("16 bands; it needs 2 or more, and the import takes up to 8"),
        "{}",
        wrong("bands 16")
    );
    assert!(wrong("bands 2").contains("band 2; the 2 bands are 0 to 1"), "{}", wrong("bands 2"));
    assert!(wrong("bands 4 priomap x").contains("0 bands; the limits are 1 to 16"), "{}", wrong("bands 4 priomap x"));
}

#[test]
fn bits_of_the_type_of_service_are_code_points() {
    let filtered = |filter: &str| {
        let text = format!(
            "{SCRIPT}tc filter add dev eth0 parent 1: protocol ip pref 3 u32 match ip tos {filter} flowid 1:20\n"
        );
        made(&text, &Options::default())
    };
    let points = |filter: &str| -> Vec<u8> {
        let imported = filtered(filter);
        (0..64).filter(|&dscp| class_of(&imported.links[0].link, Some(dscp)) == "1:20").collect()
    };
    // The two bits above the mask may be any.
    assert_eq!(points("0x10 0x1c"), [4, 12, 20, 28, 36, 44, 52, 60]);
    assert_eq!(points("0xb8 0xfc"), [46]);
    assert_eq!(points("0x10 0xff"), [4]);
    assert!(said(&filtered("0x10 0xff"), "the two ECN bits are ignored"));
    assert!(!said(&filtered("0x10 0xfc"), "the two ECN bits"));
    let text = format!("{SCRIPT}tc filter add dev eth0 parent 1: protocol ip u32 match ip tos 0x11 0xff flowid 1:20\n");
    assert!(said(
        &made(&text, &Options::default()),
        "not expressible as a match: the type of service 0x11 under the mask 0xff"
    ));
}

#[test]
fn what_comes_in_is_deleted_without_what_goes_out() {
    let text = "tc qdisc add dev eth0 root tbf rate 1mbit burst 10k latency 300ms
tc qdisc del dev eth0 handle ffff: ingress
tc qdisc add dev eth0 handle ffff: ingress
tc filter add dev eth0 parent ffff: u32 match u32 0 0 police rate 3mbit burst 10k drop flowid :1
tc qdisc del dev eth0 ingress
tc qdisc add dev ifb0 root handle 1: htb
tc class add dev ifb0 parent 1: classid 1:1 htb rate 2mbit
tc qdisc del dev ifb0 root
";
    let imported = made(text, &Options::default());
    let names: Vec<&str> = imported.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["eth0"]);
    assert_eq!(imported.links[0].link.tree.link().rate.bps(), M);
}

#[test]
fn queues_below_queues_and_below_a_delay_of_the_whole_device_are_found() {
    let text = "tc qdisc add dev eth0 root handle 1: netem delay 20ms
tc qdisc add dev eth0 parent 1: handle 2: htb default 10
tc class add dev eth0 parent 2: classid 10 htb rate 10mbit burst 0
tc qdisc add dev eth0 parent 2:10 handle 20 netem delay 100ms
tc qdisc add dev eth0 parent 20: handle 101: pfifo limit 7
";
    let imported = made(text, &Options::default().with("as-is", true));
    let link = &imported.links[0].link;
    assert_eq!(link.names.name(link.default_class.unwrap()), "2:10");
    assert_eq!(guarantee(link, "2:10"), 10 * M);
    assert!(imported.links[0].text.contains("buffer = \"7p\""), "{}", imported.links[0].text);
    assert!(said(&imported, "netem at the root of eth0 has no rate"));
}

#[test]
fn a_redirected_device_sees_the_marks_of_connections() {
    let text = "tc qdisc add dev ifb0 root handle 3: htb default 30
tc class add dev ifb0 parent 3: classid 3:30 htb rate 1mbit
tc class add dev ifb0 parent 3: classid 3:33 htb rate 2mbit
tc filter add dev ifb0 parent 3:0 protocol ip handle 3 fw flowid 3:33
iptables -A FORWARD -t mangle -o eth0 -s 192.0.2.7 -j MARK --set-mark 3
iptables -t mangle -A POSTROUTING -o eth0 -j CONNMARK --save-mark
tc qdisc add dev eth0 ingress handle ffff:
tc filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 action connmark action mirred egress redirect dev ifb0
";
    let to = |imported: &Imported, address: [u8; 4]| {
        let ip = FrameKey { ethertype: Some(0x0800), version: Some(IpVersion::V4), ..FrameKey::default() };
        let link = imported.links.iter().find(|link| link.name == "ifb0").unwrap();
        class_of_key(&link.link, &FrameKey { dst: v4_mapped(address), proto: 6, sport: Some(1), dport: Some(2), ..ip })
    };
    let imported = made(text, &Options::default());
    assert_eq!([[192, 0, 2, 7], [192, 0, 2, 8]].map(|address| to(&imported, address)), ["3:33", "3:30"]);
    // Without it, no frame has a mark there.
    let imported = made(&text.replace("action connmark ", ""), &Options::default());
    assert_eq!(to(&imported, [192, 0, 2, 7]), "3:30");
}

#[test]
fn a_mark_that_a_connection_gets_at_input_is_that_of_its_replies() {
    let text = "tc qdisc add dev eth0 root handle 1: htb default 9
tc class add dev eth0 parent 1:0 classid 1:9 htb rate 9mbit
tc class add dev eth0 parent 1:0 classid 1:1 htb rate 5mbit
iptables -t mangle -A INPUT -i eth0 -s 192.0.2.7 -j CONNMARK --set-mark 1
iptables -t mangle -A POSTROUTING -j CONNMARK --restore-mark
tc filter add dev eth0 parent 1:0 protocol ip prio 1 handle 1 fw flowid 1:1
";
    let link = &made(text, &Options::default()).links[0].link;
    assert_eq!(link.matches.iter().map(|(_, made)| made.to_string()).collect::<Vec<_>>(), ["dst net 192.0.2.7/32"]);
}

#[test]
fn a_rule_for_any_interface_of_a_kind_is_not_one_for_all_frames() {
    let of = |interface: &str| {
        let rule = format!("iptables -t mangle -A PREROUTING -i {interface} -p udp -j MARK --set-mark 6\n");
        let imported = made(&format!("{SCRIPT}{rule}"), &Options::default().with("as-is", true));
        let assumed = imported
            .notes
            .iter()
            .map(ToString::to_string)
            .find(|note| note.contains("for all traffic that leaves eth0"));
        (class_of(&imported.links[0].link, Some(0)), assumed.unwrap_or_default())
    };
    let (class, assumed) = of("tun+");
    assert_eq!(class, "1:30");
    assert!(assumed.contains("-i tun+: assumed false"), "{assumed}");
    let (class, assumed) = of("eth1");
    assert_eq!(class, "1:20");
    assert!(assumed.contains("-i eth1: assumed true"), "{assumed}");
}

#[test]
fn rules_may_ask_for_the_type_of_service_by_name() {
    let text = format!("{SCRIPT}iptables -t mangle -A POSTROUTING -m tos --tos Minimize-Delay -j MARK --set-mark 6\n");
    let link = &made(&text, &Options::default()).links[0].link;
    let points: Vec<u8> = (0..64).filter(|&dscp| class_of(link, Some(dscp)) == "1:20").collect();
    // Its bits under the mask 0x3f.
    assert_eq!(points, [4, 20, 36, 52]);
}

#[test]
fn tins_of_cake_are_classes_by_code_point() {
    let link = |options: &str| {
        made(&format!("tc qdisc add dev eth0 root cake bandwidth 29mbit {options}\n"), &Options::default())
    };
    let imported = link("diffserv4 nat");
    let file = &imported.links[0].link;
    let share = ["1:2", "1:3", "1:4", "1:5"].map(|name| guarantee(file, name));
    assert_eq!(share, [16, 1, 8, 4].map(|quantum| quantum * M));
    assert!(["1:2", "1:5"].iter().all(|name| ceiling(file, name) == Some(29 * M)));
    let found = [Some(0), Some(8), Some(1), Some(34), Some(46), Some(48), None].map(|dscp| class_of(file, dscp));
    assert_eq!(found, ["1:2", "1:3", "1:3", "1:4", "1:5", "1:5", "1:2"]);
    // Of several words the last counts, and without one there are three tins.
    assert_eq!(link("diffserv4 nat besteffort wash").links[0].link.tree.len(), 2);
    assert_eq!(link("").links[0].link.tree.len(), 5);
    assert!(said(&link("precedence"), "its tins are left out"));
}

#[test]
fn a_policer_of_what_goes_out_is_a_link_of_its_own() {
    let text = "tc qdisc add dev eth0 clsact
tc filter add dev eth0 egress protocol ip prior 1 flower dst_ip 192.0.2.0/24 action police rate 5mbit burst 10k conform-exceed drop
tc filter add dev eth0 ingress protocol ip matchall action police rate 2mbit burst 10k drop
";
    let imported = made(text, &Options::default());
    let links: Vec<(&str, u64)> =
        imported.links.iter().map(|link| (link.name.as_str(), ceiling(&link.link, "1:1").unwrap())).collect();
    assert_eq!(links, [("eth0-egress", 5 * M), ("eth0-ingress", 2 * M)]);
}

#[test]
fn an_address_of_which_the_end_is_missing_has_zeros_there() {
    let text = format!("{SCRIPT}tc filter add dev eth0 parent 1: protocol ip u32 match ip src 80 flowid 1:20\n");
    let link = &made(&text, &Options::default()).links[0].link;
    assert!(link.matches.iter().any(|(_, made)| made.to_string() == "src net 80.0.0.0/32"));
}
