use fairlink_core::Share;

use super::*;
use crate::link::LinkFile;

const NETWORK: &str = "<network>
  <name>default</name>
  <bandwidth><inbound average='1000' peak='5000' burst='5120'/><outbound average='500'/></bandwidth>
  <ip address='192.168.122.1' netmask='255.255.255.0'>
    <dhcp>
      <host mac='52:54:00:00:00:01' name='web' ip='192.168.122.5'/>
      <host mac='52:54:00:00:00:02' ip='192.168.122.6'/>
    </dhcp>
  </ip>
</network>
";

fn import(texts: &[(&str, &str)], options: &Options) -> Result<Imported, Problems> {
    super::super::tests::import(&INFO, texts, options)
}

fn domain(name: &str, mac: &str, bandwidth: &str) -> String {
    format!(
        "<domain type='kvm'>\n  <name>{name}</name>\n  <devices>\n    <interface type='network'>\n      <mac address='{mac}'/>\n      <source network='default'/>\n      <bandwidth>{bandwidth}</bandwidth>\n    </interface>\n  </devices>\n</domain>\n"
    )
}

fn class(link: &LinkFile, name: &str) -> (Option<u64>, Option<u64>) {
    let config = link.tree.config(link.names.id(name).unwrap());
    let guarantee = match config.share {
        Some(Share::Guarantee(rate)) => Some(rate.bps()),
        _ => None,
    };
    (guarantee, config.ceiling.map(|rate| rate.bps()))
}

#[test]
fn averages_are_ceilings_floors_guarantees_and_the_network_gives_rate_and_addresses() {
    let web = domain(
        "web",
        "52:54:00:00:00:01",
        "<inbound average='400' peak='800' floor='200' burst='64'/><outbound average='128'/>",
    );
    let db = domain("db", "52:54:00:00:00:02", "<inbound floor='100'/>");
    let lost =
        domain("lost", "52:54:00:00:00:99", "<inbound average='1'/>").replace("<mac address='52:54:00:00:00:99'/>", "");
    let options = Options::default().with("direction", "both");
    let texts = [("web.xml", web.as_str()), ("db.xml", &db), ("lost.xml", &lost), ("net.xml", NETWORK)];
    let imported = import(&texts, &options).unwrap_or_else(|errors| panic!("{}", errors.lines()));
    let [down, up] = &imported.links[..] else { panic!("two links") };
    // Kilobytes per second.
    assert_eq!(down.link.tree.link().rate.bps(), 8_000_000);
    assert_eq!(up.link.tree.link().rate.bps(), 4_000_000);
    assert_eq!(class(&down.link, "web"), (Some(1_600_000), Some(3_200_000)));
    assert_eq!(class(&down.link, "db"), (Some(800_000), None));
    assert_eq!(class(&up.link, "web"), (None, Some(1_024_000)));
    assert_eq!(down.link.matches[0].1.to_string(), "dst net 192.168.122.5/32");
    // HTB where there are floors; outbound there are none.
    assert!(down.link_before.is_some() && up.before.is_none());
    let said: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    assert!(
        said.iter().any(|note| note.contains("an interface of lost has neither a MAC nor an IP address")),
        "{said:#?}"
    );
    assert!(said.iter().any(|note| note.starts_with("2 peaks")), "{said:#?}");
    let lost = imported.notes.iter().find(|note| note.to_string().contains("lost")).unwrap();
    assert_eq!((lost.location().file.as_str(), lost.location().line), ("lost.xml", 4));
}

#[test]
fn what_is_no_domain_and_no_network_is_refused_at_its_place() {
    let refused = |texts: &[(&str, &str)]| import(texts, &Options::default()).expect_err("wrong").lines();
    assert!(refused(&[("a.xml", "<domain>\n <x>\n</domain>")]).starts_with("a.xml:3:1: error: this is not XML"));
    assert!(refused(&[("a.xml", "\n<pool/>")]).contains("a.xml:2:1: error: this is a <pool>"));
    assert!(refused(&[("a.xml", NETWORK), ("b.xml", NETWORK)]).contains("b.xml:1:1: error: this is a second network"));
    assert!(refused(&[("a.xml", NETWORK)]).contains("there is no interface with a MAC or an IP address to import"));
    let wrong = domain("web", "52:54:00:00:00:01", "<inbound average='fast'/>");
    assert!(
        refused(&[("a.xml", NETWORK), ("web.xml", &wrong)])
            .contains("web.xml:7:18: error: \"average\" of <inbound> is \"fast\"")
    );
    let web = domain("web", "52:54:00:00:00:01", "<inbound average='10'/>");
    let bare = NETWORK.replace("<inbound average='1000' peak='5000' burst='5120'/>", "");
    assert!(refused(&[("a.xml", &bare), ("web.xml", &web)]).contains("the rate of the link down is unknown"));
}

#[test]
fn averages_above_the_link_and_floors_above_their_average_are_cut() {
    let web = domain("web", "52:54:00:00:00:01", "<inbound average='4000' floor='2000'/>");
    let db = domain("db", "52:54:00:00:00:02", "<inbound average='100' floor='300'/>");
    let imported = import(&[("web.xml", &web), ("db.xml", &db), ("net.xml", NETWORK)], &Options::default());
    let imported = imported.unwrap_or_else(|errors| panic!("{}", errors.lines()));
    let link = &imported.links[0];
    assert_eq!(class(&link.link, "web").1, Some(8_000_000));
    // Floors of 8 and 0.8 Mbit/s in 8, and 1 kbit/s for other traffic.
    assert_eq!(class(&link.link, "db"), (Some(727_190), Some(800_000)));
    // HTB's quantum, too, is that of the rest of the floor.
    let before = link.link_before.as_ref().unwrap();
    assert_eq!(class(before, "db").1, Some(800_000));
    assert_eq!(before.tree.config(before.names.id("db").unwrap()).quantum, Some(10_000));
    let said: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|note| note.starts_with("the floors add up to 8.8 Mbit/s")), "{said:#?}");
}

#[test]
fn hosts_are_found_by_their_mac_in_capitals_too() {
    let network = NETWORK.replace("52:54:00:00:00:01", "52:54:00:00:00:AB");
    let web = domain("web", "52:54:00:00:00:aB", "<inbound average='10'/>");
    let imported = import(&[("web.xml", &web), ("net.xml", &network)], &Options::default());
    let imported = imported.unwrap_or_else(|errors| panic!("{}", errors.lines()));
    assert_eq!(imported.links[0].link.matches[0].1.to_string(), "dst net 192.168.122.5/32");
}

#[test]
fn rates_of_zero_and_a_lending_that_is_not_there_are_refused() {
    let web = domain("web", "52:54:00:00:00:01", "<inbound average='0'/>");
    let options = Options::default();
    let refused = |web: &str, options: &Options| {
        import(&[("net.xml", NETWORK), ("web.xml", web)], options).expect_err("wrong").lines()
    };
    assert!(refused(&web, &options).contains("\"average\" of <inbound> is \"0\""));
    let as_is = Options::default().with("as-is", true);
    let web = domain("web", "52:54:00:00:00:01", "<inbound average='10'/>");
    let errors = refused(&web, &as_is);
    assert!(errors.contains("no interface has a floor down, so --as-is has no lending to keep"), "{errors}");
    assert!(errors.contains("remove --as-is"), "{errors}");
}

#[test]
fn machines_at_a_bridge_are_told_by_their_macs_or_the_addresses_of_their_filters() {
    let bridged = |name: &str, mac: &str, more: &str| {
        domain(name, mac, "<inbound average='1000'/><outbound average='500'/>")
            .replace("type='network'", "type='bridge'")
            .replace("<source network='default'/>", &format!("<source bridge='br0'/>{more}"))
    };
    let filter = "<filterref filter='clean-traffic'><parameter name='IP' value='192.0.2.7'/><parameter name='IPV6' value='2001:db8::7'/></filterref>";
    let web = bridged("web", "52:54:00:00:00:01", "");
    let db = bridged("db", "52-54-00-0-0-2", "");
    let dns = bridged("dns", "52:54:00:00:00:03", filter);
    let options = Options::default().with("rate", "100mbit").with("direction", "both");
    let texts = [("web.xml", web.as_str()), ("db.xml", &db), ("dns.xml", &dns)];
    let imported = import(&texts, &options).unwrap_or_else(|errors| panic!("{}", errors.lines()));
    for (link, end) in imported.links.iter().zip(["dst", "src"]) {
        let matches: Vec<String> = link.link.matches.iter().map(|(_, made)| made.to_string()).collect();
        let told = [" mac 52:54:00:00:00:01", " mac 52:54:00:00:00:02", " net 192.0.2.7/32", " net 2001:db8::7/128"];
        assert_eq!(matches, told.map(|told| format!("{end}{told}")));
        assert_eq!(link.link.unreachable(), []);
    }
    let said: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|note| note.starts_with("2 interfaces are matched by their MACs")), "{said:#?}");
    // One MAC cannot identify two machines, and a MAC has six numbers.
    let refused = |texts: &[(&str, &str)]| import(texts, &options).expect_err("wrong").lines();
    let twin = bridged("twin", "52:54:00:00:00:01", "");
    assert!(refused(&[("a.xml", &web), ("b.xml", &twin)]).contains("web and twin both have the MAC 52:54:00:00:00:01"));
    let odd = bridged("odd", "52:54:00:00:01", "");
    assert!(refused(&[("odd.xml", &odd)]).contains("odd.xml:5:7: error: \"52:54:00:00:01\" is not a MAC address"));
}

/// An interface has its own limits, else those of the port group that it names, else those of the default one.
#[test]
fn limits_of_a_port_group_are_those_of_its_interfaces() {
    let network = NETWORK.replace(
        "</network>",
        "<portgroup name='a'><bandwidth><inbound average='300'/></bandwidth></portgroup>\
         <portgroup name='b' default='yes'><bandwidth><inbound average='70' floor='5'/></bandwidth></portgroup><portgroup name='c'/></network>",
    );
    let of = |group: &str, own: &str| {
        let web = domain("web", "52:54:00:00:00:01", "")
            .replace("<bandwidth></bandwidth>", own)
            .replace("network='default'", &format!("network='default'{group}"));
        import(&[("web.xml", &web), ("net.xml", &network)], &Options::default())
    };
    for (group, own, expected) in [
        (" portgroup='a'", "", (None, Some(2_400_000))),
        ("", "", (Some(40_000), Some(560_000))),
        (" portgroup='c'", "", (None, None)),
        (" portgroup='a'", "<bandwidth><inbound average='9'/></bandwidth>", (None, Some(72_000))),
        // A bandwidth of its own without this direction overrides, too.
        (" portgroup='a'", "<bandwidth><outbound average='9'/></bandwidth>", (None, None)),
    ] {
        let imported = of(group, own).unwrap_or_else(|errors| panic!("{}", errors.lines()));
        assert_eq!(class(&imported.links[0].link, "web"), expected, "{group} {own}");
    }
    let lines = of(" portgroup='x'", "").err().unwrap().lines();
    assert!(lines.starts_with("web.xml:4:") && lines.contains("has no port group \"x\"; it has: a, b, c"), "{lines}");
    let web = domain("web", "52:54:00:00:00:01", "")
        .replace("<bandwidth></bandwidth>", "")
        .replace("network='default'", "network='default' portgroup='a'");
    let imported = import(&[("web.xml", &web)], &Options::default().with("rate", "1mbit"));
    let said: Vec<String> = imported.unwrap().notes.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|note| note.contains("of an interface of web: pass the network \"default\"")), "{said:#?}");
}
