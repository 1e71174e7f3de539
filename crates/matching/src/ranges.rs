//! Ranges of VLAN ids and addresses in the text of a match. They are spread into one match for each id and each prefix,
//! so that a classifier has nothing but exact ids and prefixes to look up.

use std::net::IpAddr;

use super::{IpVersion, Match, Prefix, v4_mapped};

/// Most matches that the ranges of one text stand for.
pub const MAX_STANDS_FOR: usize = 4096;

/// The ranges of a text. A list is empty if the text has no such condition, and has one entry if it has no range.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    pub(super) vlans: Vec<u16>,
    pub(super) inner_vlans: Vec<u16>,
    pub(super) src: Vec<Prefix>,
    pub(super) dst: Vec<Prefix>,
}

impl Ranges {
    /// Number of matches that they expand to.
    pub(super) fn count(&self) -> usize {
        [self.vlans.len(), self.inner_vlans.len(), self.src.len(), self.dst.len()]
            .into_iter()
            .map(|count| count.max(1))
            .fold(1, usize::saturating_mul)
    }

    /// Returns `made` with each combination of the ranges' parts.
    pub(super) fn spread(&self, made: Match) -> Vec<Match> {
        let mut all = vec![made];
        all = each(all, &self.vlans, |made, &vlan| made.vlan = Some(vlan));
        all = each(all, &self.inner_vlans, |made, &vlan| made.inner_vlan = Some(vlan));
        all = each(all, &self.src, |made, &prefix| made.src = Some(prefix));
        each(all, &self.dst, |made, &prefix| made.dst = Some(prefix))
    }
}

/// Returns each of `all` with each of `values`; `all` unchanged if there is none.
fn each<T>(all: Vec<Match>, values: &[T], set: impl Fn(&mut Match, &T)) -> Vec<Match> {
    if values.is_empty() {
        return all;
    }
    let with = |made: &Match, value: &T| {
        let mut made = *made;
        set(&mut made, value);
        made
    };
    all.iter().flat_map(|made| values.iter().map(|value| with(made, value)).collect::<Vec<_>>()).collect()
}

/// The fewest prefixes that have the addresses from `first` to `last` and no others: at most 2 * 32 - 2 of IPv4, 2 *
/// 128 - 2 of IPv6. Both ends are of one version, and `first` is not above `last`.
pub(super) fn prefixes(first: IpAddr, last: IpAddr) -> Vec<Prefix> {
    let bits = |address| match address {
        IpAddr::V4(address) => u128::from_be_bytes(v4_mapped(address.octets())),
        IpAddr::V6(address) => u128::from(address),
    };
    let (version, most) = if first.is_ipv4() { (IpVersion::V4, 32) } else { (IpVersion::V6, 128) };
    let (mut from, last) = (bits(first), bits(last));
    let mut all = Vec::new();
    loop {
        // The largest block that begins here and does not go beyond the end.
        let size = (0..=most.min(from.trailing_zeros())).rev().find(|&size| last - from >= below(size)).unwrap_or(0);
        all.push(Prefix::new(version, from, (128 - size) as u8));
        let end = from + below(size);
        if end >= last {
            return all;
        }
        from = end + 1;
    }
}

/// 2^`size` - 1.
const fn below(size: u32) -> u128 {
    if size == 0 { 0 } else { u128::MAX >> (128 - size) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MatchErrorKind, packet_key};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn bounds(prefix: &Prefix) -> (u128, u128) {
        (prefix.bits, prefix.bits + below(128 - u32::from(prefix.len)))
    }

    proptest! {
        #[test]
        fn a_range_of_addresses_is_its_prefixes_one_after_the_other(a: u32, span in 0u32..100_000, c: u128, far: u128) {
            let b = a.saturating_add(span);
            let v4 = prefixes(Ipv4Addr::from(a).into(), Ipv4Addr::from(b).into());
            let (low, high) = (c.min(far), c.max(far));
            let v6 = prefixes(Ipv6Addr::from(low).into(), Ipv6Addr::from(high).into());
            let mapped = |address: u32| u128::from_be_bytes(v4_mapped(address.to_be_bytes()));
            for (all, first, last, most) in [(v4, mapped(a), mapped(b), 62), (v6, low, high, 254)] {
                prop_assert!(all.len() <= most);
                prop_assert_eq!(bounds(&all[0]).0, first);
                prop_assert_eq!(bounds(&all[all.len() - 1]).1, last);
                for pair in all.windows(2) {
                    prop_assert_eq!(bounds(&pair[0]).1 + 1, bounds(&pair[1]).0);
                    // No two neighbours are the halves of one prefix.
                    let joined = pair[0].len == pair[1].len && pair[0].len > 0
                        && pair[0].shortened(pair[0].len - 1) == pair[1].shortened(pair[1].len - 1);
                    prop_assert!(!joined, "{} and {}", pair[0], pair[1]);
                }
            }
        }

        #[test]
        fn a_packet_meets_a_text_with_ranges_where_its_addresses_lie_in_them(
            from in 0u32..300, width in 0u32..300, src in 0u32..700, dst in 0u32..700,
        ) {
            let address = |n: u32| Ipv4Addr::from(0x0a00_0000 + n);
            let text = format!(
                "src host {}-{} dst net {}-{}",
                address(from), address(from + width), address(2 * from), address(2 * from + width)
            );
            let mut packet = [0u8; 20];
            packet[0] = 0x45;
            packet[12..16].copy_from_slice(&address(src).octets());
            packet[16..20].copy_from_slice(&address(dst).octets());
            let all = Match::parse_all(&text).unwrap();
            let met = all.iter().filter(|made| made.matches(&packet_key(&packet))).count();
            let meets = (from..=from + width).contains(&src) && (2 * from..=2 * from + width).contains(&dst);
            prop_assert_eq!(met, usize::from(meets));
        }
    }

    #[test]
    fn whole_address_spaces_are_one_prefix_each() {
        let text = |first: &str, last: &str| {
            let all = prefixes(first.parse().unwrap(), last.parse().unwrap());
            all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text("0.0.0.0", "255.255.255.255"), "0.0.0.0/0");
        assert_eq!(text("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "::/0");
        assert_eq!(text("10.0.0.1", "10.0.0.6"), "10.0.0.1/32 10.0.0.2/31 10.0.0.4/31 10.0.0.6/32");
        assert_eq!(text("255.255.255.255", "255.255.255.255"), "255.255.255.255/32");
    }

    #[test]
    fn ids_of_vlans_are_spread_with_all_other_conditions() {
        let all = Match::parse_all("vlan 100-102 inner vlan 7-8 udp").unwrap();
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 6);
        assert_eq!(texts[0], "vlan 100 inner vlan 7 udp");
        assert_eq!(texts[5], "vlan 102 inner vlan 8 udp");
        assert_eq!(Match::parse_all("vlan 5").unwrap(), [Match::parse("vlan 5").unwrap()]);
    }

    #[test]
    fn ranges_that_are_wrong_are_refused_with_what_was_written() {
        let why = |text: &str| Match::parse_all(text).unwrap_err().to_string();
        assert_eq!(why("vlan 9-3"), "the range 9-3 is reversed; write the smaller end first");
        assert_eq!(
            why("dst host 10.0.0.9-10.0.0.3"),
            "the range 10.0.0.9-10.0.0.3 is reversed; write the smaller end first"
        );
        assert!(why("src net 10.0.0.1-2001:db8::1").contains("the ends of 10.0.0.1-2001:db8::1 are IPv4"));
        assert!(why("vlan 1-4095").contains("from 0 to 4094"));
        assert!(why("vlan 1-2-3").contains("not \"2-3\""));
        assert!(why("src net 10.0.0.0/24-10.0.1.0/24").contains("or a range such as 10.0.0.1-10.0.0.9"));
        assert!(why("vlan 0-99 inner vlan 0-99").contains("expand to 10000 matches; the limit is 4096"));
        let single = Match::parse("vlan 1-3").unwrap_err();
        assert_eq!(single.kind, MatchErrorKind::NotSingle { count: 3 });
    }
}
