//! Finds a frame that reaches a class, or proves that none does.

use super::ethernet::{IPV4, IPV6, PPPOE_SESSION, is_vlan};
use super::{FrameKey, IpVersion, MAX_DSCP, MAX_VLAN, MIN_ETHERTYPE, Mac, Match, PortRange, Prefix, TCP, UDP};

/// EtherType of ARP, which every Ethernet carries.
const ARP: u16 = 0x0806;
/// Address bits of both versions.
const ADDRESS_BITS: u8 = 128;

/// Most conditions that have to fail at once, which bounds the depth of recursion: to half of a thread's stack of 2 MiB, also without
/// optimization. Beyond it nothing is proven.
const MAX_FAILING: usize = 400;

/// Comparisons with matches that a search may make. Beyond them nothing is proven.
#[derive(Debug)]
pub struct Budget(usize);

impl Default for Budget {
    /// About a second of work.
    fn default() -> Self {
        Self(50_000_000)
    }
}

/// Outcome of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// This frame meets the match and none of the earlier ones.
    Frame(FrameKey),
    /// Every well-formed frame that meets the match meets an earlier one.
    None,
    /// The search was given up: there are too many earlier matches that overlap.
    Unknown,
}

impl Witness {
    /// Searches a frame that meets `of` and none of `earlier`.
    ///
    /// A frame that an earlier match takes fails one of its conditions or is taken by it. So the search follows each
    /// condition that can fail, with the conditions that have to fail so far, until a frame is left or no way is.
    ///
    /// `is_left` may say at once that no earlier match takes a frame, where a classifier knows it without comparing
    /// them one by one.
    pub fn search<'m>(
        of: &Match,
        earlier: impl Iterator<Item = &'m Match> + Clone,
        is_left: &mut dyn FnMut(&FrameKey) -> bool,
        budget: &mut Budget,
    ) -> Self {
        Search { of, is_left, budget, failing: Vec::new() }.go(earlier)
    }
}

/// A condition that has to fail.
#[derive(Clone, Copy, Debug)]
enum Failing {
    SrcMac(Mac),
    DstMac(Mac),
    Vlan(u16),
    InnerVlan(u16),
    Ethertype(u16),
    /// The frame carries no IP packet.
    Ip,
    Version(IpVersion),
    Proto(u8),
    Src(Prefix),
    Dst(Prefix),
    Sport(PortRange),
    Dport(PortRange),
    Dscp(u8),
}

struct Search<'a> {
    of: &'a Match,
    is_left: &'a mut dyn FnMut(&FrameKey) -> bool,
    budget: &'a mut Budget,
    failing: Vec<Failing>,
}

impl Search<'_> {
    fn go<'m>(&mut self, earlier: impl Iterator<Item = &'m Match> + Clone) -> Witness {
        let Some(frame) = self.frame() else { return Witness::None };
        if (self.is_left)(&frame) {
            return Witness::Frame(frame);
        }
        if self.budget.0 == 0 || self.failing.len() == MAX_FAILING {
            return Witness::Unknown;
        }
        let mut compared = self.failing.len();
        let taken_by = earlier.clone().inspect(|_| compared += 1).find(|earlier| earlier.matches(&frame));
        let Some(taken_by) = taken_by else { return Witness::Frame(frame) };
        self.budget.0 = self.budget.0.saturating_sub(compared);
        let mut outcome = Witness::None;
        for condition in conditions(taken_by) {
            self.failing.push(condition);
            let found = self.go(earlier.clone());
            self.failing.pop();
            match found {
                Witness::None => {}
                Witness::Frame(_) => return found,
                Witness::Unknown => outcome = found,
            }
        }
        outcome
    }

    /// Returns a well-formed frame that meets the match and fails the others, if there is one.
    fn frame(&self) -> Option<FrameKey> {
        let (vlan, inner_vlan) = self.tags()?;
        let src_mac = self.mac(self.of.src_mac, |failing| match failing {
            Failing::SrcMac(mac) => Some(*mac),
            _ => None,
        })?;
        let dst_mac = self.mac(self.of.dst_mac, |failing| match failing {
            Failing::DstMac(mac) => Some(*mac),
            _ => None,
        })?;
        let tagged =
            FrameKey { src_mac: Some(src_mac), dst_mac: Some(dst_mac), vlan, inner_vlan, ..FrameKey::default() };
        [IpVersion::V4, IpVersion::V6].into_iter().find_map(|version| self.packet(version, tagged)).or_else(|| {
            let ethertype = self.ethertype_without_ip()?;
            (!self.of.needs_ip()).then_some(FrameKey { ethertype: Some(ethertype), ..tagged })
        })
    }

    /// An address of Ethernet. There are more than can fail.
    fn mac(&self, wanted: Option<Mac>, failing: fn(&Failing) -> Option<Mac>) -> Option<Mac> {
        let fails = |mac: &Mac| self.failing.iter().filter_map(failing).any(|other| other == *mac);
        match wanted {
            Some(mac) => Some(mac).filter(|mac| !fails(mac)),
            None => (0..=u16::MAX).map(|last| Mac([2, 0, 0, 0, (last >> 8) as u8, last as u8])).find(|mac| !fails(mac)),
        }
    }

    /// Returns no tags if the match does not need one.
    fn tags(&self) -> Option<(Option<u16>, Option<u16>)> {
        let id = |wanted: Option<u16>, needed: bool, fails: &dyn Fn(u16) -> bool| match wanted {
            Some(id) => (!fails(id)).then_some(Some(id)),
            None if needed => (0..=MAX_VLAN).find(|&id| !fails(id)).map(Some),
            None => Some(None),
        };
        let outer = |id| self.failing.iter().any(|failing| matches!(failing, Failing::Vlan(other) if *other == id));
        let inner =
            |id| self.failing.iter().any(|failing| matches!(failing, Failing::InnerVlan(other) if *other == id));
        let inner_vlan = id(self.of.inner_vlan, false, &inner)?;
        Some((id(self.of.vlan, inner_vlan.is_some(), &outer)?, inner_vlan))
    }

    fn may_be_ethertype(&self, ethertype: u16) -> bool {
        let fails = |failing: &Failing| matches!(failing, Failing::Ethertype(other) if *other == ethertype);
        self.of.ethertype.is_none_or(|wanted| wanted == ethertype) && !self.failing.iter().any(fails)
    }

    fn ethertype_without_ip(&self) -> Option<u16> {
        std::iter::once(ARP)
            .chain(MIN_ETHERTYPE..=u16::MAX)
            .find(|&kind| !is_vlan(kind) && kind != IPV4 && kind != IPV6 && self.may_be_ethertype(kind))
    }

    fn packet(&self, version: IpVersion, tagged: FrameKey) -> Option<FrameKey> {
        let of = self.of;
        let fails_as_ip = |failing: &Failing| match failing {
            Failing::Ip => true,
            Failing::Version(other) => *other == version,
            _ => false,
        };
        if of.version.is_some_and(|wanted| wanted != version) || self.failing.iter().any(fails_as_ip) {
            return None;
        }
        let own = if version == IpVersion::V4 { IPV4 } else { IPV6 };
        let ethertype = [own, PPPOE_SESSION].into_iter().find(|&kind| self.may_be_ethertype(kind))?;
        let (proto, ports) = self.proto()?;
        let src = self.address(version, of.src, |failing| match failing {
            Failing::Src(prefix) => Some(*prefix),
            _ => None,
        })?;
        let dst = self.address(version, of.dst, |failing| match failing {
            Failing::Dst(prefix) => Some(*prefix),
            _ => None,
        })?;
        let fails = |dscp| self.failing.iter().any(|failing| matches!(failing, Failing::Dscp(other) if *other == dscp));
        let dscp = match of.dscp {
            Some(dscp) => Some(dscp).filter(|&dscp| !fails(dscp)),
            None => (0..=MAX_DSCP).find(|&dscp| !fails(dscp)),
        }?;
        let (sport, dport) = ports.unzip();
        Some(FrameKey {
            ethertype: Some(ethertype),
            version: Some(version),
            proto,
            src,
            dst,
            sport,
            dport,
            dscp,
            ..tagged
        })
    }

    /// A protocol, and both ports or, as in a later fragment, none.
    fn proto(&self) -> Option<(u8, Option<(u16, u16)>)> {
        let needs_ports = self.of.sport.is_some() || self.of.dport.is_some();
        let fails =
            |proto| self.failing.iter().any(|failing| matches!(failing, Failing::Proto(other) if *other == proto));
        let may_be = |proto: &u8| {
            self.of.proto.is_none_or(|wanted| wanted == *proto)
                && !fails(*proto)
                && (!needs_ports || [TCP, UDP].contains(proto))
        };
        let proto = [UDP, TCP].into_iter().chain(0..=u8::MAX).find(may_be)?;
        let sport = self.port(self.of.sport, |failing| match failing {
            Failing::Sport(range) => Some(*range),
            _ => None,
        });
        let dport = self.port(self.of.dport, |failing| match failing {
            Failing::Dport(range) => Some(*range),
            _ => None,
        });
        match sport.zip(dport).filter(|_| [TCP, UDP].contains(&proto)) {
            None if needs_ports => None,
            ports => Some((proto, ports)),
        }
    }

    fn port(&self, wanted: Option<PortRange>, failing: fn(&Failing) -> Option<PortRange>) -> Option<u16> {
        let PortRange { first, last } = wanted.unwrap_or(PortRange { first: 0, last: u16::MAX });
        let mut port = first;
        while let Some(range) = self.failing.iter().filter_map(failing).find(|range| range.contains(port)) {
            port = range.last.checked_add(1)?;
        }
        (port <= last).then_some(port)
    }

    fn address(
        &self,
        version: IpVersion,
        wanted: Option<Prefix>,
        failing: fn(&Failing) -> Option<Prefix>,
    ) -> Option<[u8; 16]> {
        let all = Prefix::all(version);
        let within = wanted.unwrap_or(all);
        let mut address = u128::from_be_bytes(within.address());
        loop {
            if !within.contains(version, address.to_be_bytes()) {
                return None;
            }
            let holds = |prefix: &Prefix| prefix.contains(version, address.to_be_bytes());
            let Some(prefix) = self.failing.iter().filter_map(failing).find(holds) else {
                return Some(address.to_be_bytes());
            };
            let hosts = ADDRESS_BITS - prefix.mapped_len();
            let behind = 1u128.checked_shl(hosts.into())?;
            address = u128::from_be_bytes(prefix.address()).checked_add(behind)?;
        }
    }
}

/// The conditions of a match. Those that a frame most often fails come first.
fn conditions(of: &Match) -> impl Iterator<Item = Failing> {
    let ip = of.needs_ip() && of.version.is_none();
    [
        of.dst_mac.map(Failing::DstMac),
        of.src_mac.map(Failing::SrcMac),
        of.dst.map(Failing::Dst),
        of.src.map(Failing::Src),
        of.dport.map(Failing::Dport),
        of.sport.map(Failing::Sport),
        of.proto.map(Failing::Proto),
        of.dscp.map(Failing::Dscp),
        of.vlan.map(Failing::Vlan),
        of.inner_vlan.map(Failing::InnerVlan),
        of.version.map(Failing::Version),
        ip.then_some(Failing::Ip),
        of.ethertype.map(Failing::Ethertype),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(of: &str, earlier: &[&str]) -> Witness {
        let earlier: Vec<Match> = earlier.iter().flat_map(|text| Match::parse_all(text).unwrap()).collect();
        Witness::search(&Match::parse(of).unwrap(), earlier.iter(), &mut |_| false, &mut Budget::default())
    }

    #[test]
    fn matches_that_cover_another_only_together_leave_it_nothing() {
        for (of, earlier) in [
            ("dst net 10.0.0.0/24", &["dst net 10.0.0.0/25", "dst net 10.0.0.128/25"][..]),
            ("udp dst port 5001", &["ip udp", "ip6 udp"]),
            ("dst port 53", &["udp", "tcp dst port 1-100"]),
        ] {
            assert_eq!(search(of, earlier), Witness::None, "{of}");
        }
        let code_points: Vec<Match> = (0..=MAX_DSCP).map(|dscp| Match { dscp: Some(dscp), ..Match::ANY }).collect();
        let ip = Match::parse("ip").unwrap();
        assert_eq!(Witness::search(&ip, code_points.iter(), &mut |_| false, &mut Budget::default()), Witness::None);
    }

    #[test]
    fn what_the_earlier_ones_leave_is_found() {
        let Witness::Frame(frame) = search("dst net 10.0.0.0/24", &["dst net 10.0.0.0/25", "dst net 10.0.0.128/26"])
        else {
            panic!("10.0.0.192 is left")
        };
        assert_eq!(frame.dst[12..], [10, 0, 0, 192]);
        // Only later fragments have no port.
        let Witness::Frame(frame) = search("ip udp", &["udp dst port 0-65535"]) else { panic!("a fragment is left") };
        assert_eq!(frame.dport, None);
    }

    #[test]
    fn a_search_that_takes_too_long_proves_nothing() {
        let earlier: Vec<Match> =
            (0..=255).map(|third| Match::parse(&format!("dst net 10.0.{third}.0/24")).unwrap()).collect();
        let of = Match::parse("dst net 10.0.0.0/16").unwrap();
        assert_eq!(Witness::search(&of, earlier.iter(), &mut |_| false, &mut Budget::default()), Witness::None);
        assert_eq!(Witness::search(&of, earlier.iter(), &mut |_| false, &mut Budget(1_000)), Witness::Unknown);
        let hosts: Vec<Match> = (0..2_000u32)
            .map(|host| Match { dst: Some(Prefix::v4(host.into(), 32)), version: Some(IpVersion::V4), ..Match::ANY })
            .collect();
        let of = Match { dst: Some(Prefix::all(IpVersion::V4)), version: Some(IpVersion::V4), ..Match::ANY };
        assert_eq!(Witness::search(&of, hosts.iter(), &mut |_| false, &mut Budget::default()), Witness::Unknown);
    }

    /// A match of few values, so that several often cover another together.
    fn small() -> impl Strategy<Value = Match> {
        let version = proptest::option::of(prop_oneof![Just(IpVersion::V4), Just(IpVersion::V6)]);
        let prefix = proptest::option::weighted(0.5, (0u8..4, 0u8..3));
        let vlan = proptest::option::weighted(0.3, 0u16..2);
        let inner = proptest::option::weighted(0.1, 0u16..2);
        let ethertype = proptest::option::weighted(0.2, prop_oneof![Just(IPV4), Just(ARP), Just(PPPOE_SESSION)]);
        let proto = proptest::option::weighted(0.4, prop_oneof![Just(TCP), Just(UDP), Just(1u8)]);
        let port = proptest::option::weighted(
            0.4,
            prop_oneof![Just((0, 0x7fff)), Just((0x8000, u16::MAX)), Just((0, u16::MAX))],
        );
        let dscp = proptest::option::weighted(0.1, 0u8..2);
        let mac = proptest::option::weighted(0.15, 0u8..2);
        (version, prefix, vlan, inner, ethertype, proto, port, (dscp, mac)).prop_filter_map(
            "no frame can meet it",
            |(version, prefix, vlan, inner_vlan, ethertype, proto, port, (dscp, mac))| {
                let dst_mac = mac.map(|mac| Mac([2, 0, 0, 0, 0, mac]));
                let dport = port.map(|(first, last)| PortRange { first, last });
                let dst = prefix.map(|(bits, len)| {
                    let version = version.unwrap_or(IpVersion::V4);
                    let top = u32::from(bits) << 30;
                    match version {
                        IpVersion::V4 => Prefix::v4(top.into(), len),
                        IpVersion::V6 => Prefix::v6((u128::from(top) << 96).into(), len),
                    }
                });
                let version = version.or(dst.map(|prefix| prefix.version()));
                let made =
                    Match { dst_mac, vlan, inner_vlan, ethertype, version, proto, dst, dport, dscp, ..Match::ANY };
                // Matches that the text form refuses are left out.
                Match::parse(&made.to_string()).ok().filter(|read| *read == made)
            },
        )
    }

    /// A frame of each kind that those matches distinguish.
    fn universe() -> Vec<FrameKey> {
        let mut all = Vec::new();
        let tags = [None, Some(0), Some(1), Some(2)];
        let macs = [0, 1, 2].map(|last| Mac([2, 0, 0, 0, 0, last]));
        let tags = tags.into_iter().flat_map(|outer| tags.map(|inner| (outer, inner)));
        for ((vlan, inner_vlan), mac) in tags.flat_map(|tags| macs.map(|mac| (tags, mac))) {
            if vlan.is_none() && inner_vlan.is_some() {
                continue;
            }
            let tagged =
                FrameKey { src_mac: Some(Mac([4; 6])), dst_mac: Some(mac), vlan, inner_vlan, ..FrameKey::default() };
            all.extend([ARP, PPPOE_SESSION, 0x88cc].map(|kind| FrameKey { ethertype: Some(kind), ..tagged }));
            for (version, own) in [(IpVersion::V4, IPV4), (IpVersion::V6, IPV6)] {
                for ((kind, proto), (quarter, dscp)) in [own, PPPOE_SESSION]
                    .into_iter()
                    .flat_map(|kind| [TCP, UDP, 1, 99].map(|proto| (kind, proto)))
                    .flat_map(|one| {
                        (0..4u32).flat_map(|at| [0, 1, 2].map(|dscp| (at, dscp))).map(move |other| (one, other))
                    })
                {
                    let dst = match version {
                        IpVersion::V4 => super::super::v4_mapped((quarter << 30).to_be_bytes()),
                        IpVersion::V6 => (u128::from(quarter) << 126).to_be_bytes(),
                    };
                    let base = FrameKey { ethertype: Some(kind), version: Some(version), proto, dst, dscp, ..tagged };
                    all.push(base);
                    if [TCP, UDP].contains(&proto) {
                        all.extend([1, 0x9000].map(|port| FrameKey { sport: Some(7), dport: Some(port), ..base }));
                    }
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn a_frame_is_found_exactly_where_one_is_left(of in small(), earlier in proptest::collection::vec(small(), 0..12)) {
            let left = universe().into_iter().find(|frame| of.matches(frame) && !earlier.iter().any(|one| one.matches(frame)));
            match Witness::search(&of, earlier.iter(), &mut |_| false, &mut Budget::default()) {
                Witness::Frame(frame) => {
                    prop_assert!(of.matches(&frame) && !earlier.iter().any(|one| one.matches(&frame)), "{frame:?}");
                    prop_assert!(left.is_some(), "{frame:?} is left, and the universe has none");
                }
                Witness::None => prop_assert_eq!(left, None),
                Witness::Unknown => prop_assert!(false, "given up"),
            }
        }
    }
}
