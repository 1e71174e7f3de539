//! The router around the queues: address lists, networks of interfaces, lists of interfaces.
//!
//! Frames do not carry interfaces. But an interface with an address has a network, and traffic to that network leaves
//! by it. That does not hold for an interface of a route's gateway, or with address translation.

use std::collections::{HashMap, HashSet};

use super::words::Command;
use crate::import::prefixes;
use crate::matching::{IpVersion, Match, Prefix};

/// Maximum number of networks of an address list, or of its exceptions.
pub(super) const MAX_NETS: usize = 200;

/// An address list.
#[derive(Debug, Default)]
struct List {
    nets: Vec<Prefix>,
    /// Entries that are names of DNS, or anything else that is no address.
    names: usize,
    /// True if rules add addresses to it while the router runs.
    is_filled: bool,
}

/// The networks of a condition.
#[derive(Debug)]
pub(super) struct Nets {
    pub(super) nets: Vec<Prefix>,
    /// Description of the missing networks; `None` if none is missing.
    pub(super) lacks: Option<String>,
}

/// The surroundings of the queues.
#[derive(Debug, Default)]
pub(super) struct Router<'c> {
    lists: HashMap<&'c str, List>,
    /// By interface: the networks at it.
    nets: HashMap<&'c str, Vec<Prefix>>,
    /// By list: interfaces.
    members: HashMap<&'c str, Vec<&'c str>>,
}

impl<'c> Router<'c> {
    pub(super) fn of(commands: &'c [Command]) -> Self {
        let mut router = Self::default();
        let added = |section: &'static str| {
            commands.iter().filter(move |command| {
                command.section == section && command.verb == "add" && !command.is_on("disabled")
            })
        };
        for entry in added("ip firewall address-list") {
            let list = router.lists.entry(entry.get("list")).or_default();
            match nets(entry.get("address")) {
                Some(nets) => list.nets.extend(nets),
                None => list.names += 1,
            }
        }
        for section in ["ip firewall mangle", "ip firewall filter", "ip firewall nat"] {
            let fills = |rule: &&Command| rule.get("action").ends_with("to-address-list");
            for rule in added(section).filter(fills) {
                router.lists.entry(rule.get("address-list")).or_default().is_filled = true;
            }
        }
        for member in added("interface list member") {
            router.members.entry(member.get("list")).or_default().push(member.get("interface"));
        }
        let mut outer: HashSet<&str> = HashSet::new();
        for rule in added("ip firewall nat").filter(|rule| ["masquerade", "src-nat"].contains(&rule.get("action"))) {
            outer.insert(rule.get("out-interface"));
            outer.extend(router.members.get(rule.get("out-interface-list")).into_iter().flatten());
        }
        let gateways: Vec<Prefix> =
            added("ip route").filter_map(|route| Some(prefixes::parse(route.get("gateway"))?.0)).collect();
        outer.extend(added("ip route").map(|route| route.get("gateway")));
        for address in added("ip address") {
            let Some((net, _)) = prefixes::parse(address.get("address")) else { continue };
            let leads_on = gateways.iter().any(|gateway| net.covers(gateway));
            if outer.contains(address.get("interface")) || leads_on || net.mapped_len() == 128 {
                outer.insert(address.get("interface"));
                continue;
            }
            router.nets.entry(address.get("interface")).or_default().push(net);
        }
        router.nets.retain(|interface, _| !outer.contains(interface));
        router
    }

    /// Returns the networks at these interfaces; `None` if one of them has no known network.
    pub(super) fn nets_at(&self, interfaces: &[&str]) -> Option<Vec<Prefix>> {
        let all: Option<Vec<_>> = interfaces.iter().map(|interface| self.nets.get(interface)).collect();
        all.map(|all| all.into_iter().flatten().copied().collect()).filter(|nets: &Vec<_>| !nets.is_empty())
    }

    /// Returns the interfaces of a list; `None` if the file does not have them.
    pub(super) fn members(&self, list: &str) -> Option<&[&'c str]> {
        self.members.get(list).map(Vec::as_slice)
    }

    /// The networks of an address list: those outside of it with `!` before its name.
    ///
    /// # Errors
    /// Why they are not known.
    pub(super) fn list(&self, name: &str) -> Result<Nets, String> {
        let (is_not, name) = name.strip_prefix('!').map_or((false, name), |name| (true, name));
        let Some(list) = self.lists.get(name) else {
            return Err(format!(
                "the address list \"{name}\", which has no entry in this file (/ip firewall address-list)"
            ));
        };
        let lacks = match (list.names, list.is_filled) {
            (0, false) => None,
            (0, true) => Some(format!("addresses that rules add to the list \"{name}\" at run time")),
            (names, _) => Some(format!(
                "{names} entries of the address list \"{name}\" that are not addresses, such as DNS names"
            )),
        };
        match (list.nets.is_empty(), lacks) {
            (true, Some(lacks)) => Err(lacks),
            (_, lacks) => {
                let nets = if is_not { outside(&list.nets) } else { Some(list.nets.clone()) };
                let nets = nets.filter(|nets| nets.len() <= MAX_NETS);
                let nets = nets
                    .ok_or_else(|| format!("the address list \"{name}\", which has more than {MAX_NETS} networks"))?;
                Ok(Nets { nets, lacks })
            }
        }
    }
}

/// The networks of an entry: an address, a prefix, or a range of addresses.
fn nets(text: &str) -> Option<Vec<Prefix>> {
    if let Some((net, _)) = prefixes::parse(text) {
        return Some(vec![net]);
    }
    let (first, last) = text.split_once('-')?;
    let number = |text: &str| Some(u64::from(u32::from(text.trim().parse::<std::net::Ipv4Addr>().ok()?)));
    let (mut at, last) = (number(first)?, number(last)?);
    let mut made = Vec::new();
    while at <= last {
        // The largest block that begins here and does not go beyond the last address.
        let aligned = if at == 0 { 32 } else { at.trailing_zeros().min(32) };
        let size = (0..=aligned).rev().find(|size| at + (1 << size) - 1 <= last)?;
        made.push(Prefix::v4(u32::try_from(at).ok()?.into(), 32 - size as u8));
        at += 1 << size;
    }
    (!made.is_empty()).then_some(made)
}

/// The networks of IPv4 outside of these.
fn outside(nets: &[Prefix]) -> Option<Vec<Prefix>> {
    let mut left = vec![Match { src: Some(Prefix::all(IpVersion::V4)), version: Some(IpVersion::V4), ..Match::ANY }];
    for net in nets.iter().filter(|net| net.version() == IpVersion::V4) {
        let taken = Match { src: Some(*net), version: Some(IpVersion::V4), ..Match::ANY };
        let less: Option<Vec<Vec<Match>>> = left.iter().map(|part| part.minus(&taken)).collect();
        left = less?.concat();
        if left.len() > MAX_NETS {
            return None;
        }
    }
    left.into_iter().map(|part| part.src).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Log, SourceText};

    fn shown(nets: &[Prefix]) -> Vec<String> {
        nets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ranges_are_blocks_and_what_is_outside_of_networks_is_said_by_networks() {
        assert_eq!(shown(&nets("10.0.0.254-10.0.1.2").unwrap()), ["10.0.0.254/31", "10.0.1.0/31", "10.0.1.2/32"]);
        assert_eq!(shown(&nets("0.0.0.0-255.255.255.255").unwrap()), ["0.0.0.0/0"]);
        assert_eq!([nets("example.org"), nets("10.0.0.2-10.0.0.1")], [None, None]);
        let out = outside(&[Prefix::v4([128, 0, 0, 0].into(), 1), Prefix::v4([0, 0, 0, 0].into(), 3)]).unwrap();
        let mut out = shown(&out);
        out.sort();
        assert_eq!(out, ["32.0.0.0/3", "64.0.0.0/2"]);
    }

    #[test]
    fn networks_are_those_of_interfaces_that_lead_to_no_other_network() {
        let text = "/ip address\nadd address=10.0.1.1/24 interface=lan\nadd address=10.0.2.1/24 interface=up\nadd address=10.0.3.1/24 interface=nat\n\
            add address=10.0.4.1/32 interface=alone\nadd address=10.0.5.1/24 interface=off disabled=yes\n/ip route\nadd gateway=10.0.2.9\n\
            /ip firewall nat\nadd action=masquerade chain=srcnat out-interface-list=WAN\n/interface list member\nadd interface=nat list=WAN\n";
        let commands = super::super::words::commands(text, &mut Log::new(&SourceText::new("a.rsc", text)));
        let router = Router::of(&commands);
        let known: Vec<bool> =
            ["lan", "up", "nat", "alone", "off"].iter().map(|name| router.nets_at(&[name]).is_some()).collect();
        assert_eq!(known, [true, false, false, false, false]);
        assert_eq!(shown(&router.nets_at(&["lan"]).unwrap()), ["10.0.1.0/24"]);
        assert!(router.nets_at(&["lan", "up"]).is_none());
    }
}
