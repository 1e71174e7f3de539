//! Labels of frames for active leaf queues (CoDel, FQ-CoDel, per-host sharing): flow, host, and whether the frame may
//! be marked. A mark reports congestion to the receiver.
//!
//! A flow is defined as in RFC 8290, Section 3.1: addresses, protocol and ports. They are hashed with a salt drawn at
//! each start, so that a sender cannot choose flows that share a queue. Only frames of classes whose queues need labels
//! are parsed.
//!
//! Marks are those of RFC 3168: CE in the two lowest bits of IPv4's type of service or of IPv6's traffic class. A frame
//! with neither ECT nor CE may not be marked, and its queue drops it instead.

use std::hash::{BuildHasher, RandomState};

use fairlink_config::host_of;
use fairlink_config::matching::{FrameHeaders, IpVersion, frame_headers};
use fairlink_core::{ClassId, ECN_CAPABLE, Hierarchy, HostTables, OutOfMemory, QueueKind, flow_bits, with_host};

use crate::wire::checksum;
use crate::wire::fragments::Fragments;

/// The code point of a packet that has met congestion.
const CE: u8 = 3;

#[derive(Clone, Copy, Debug, Default)]
struct Wants {
    flow: bool,
    ecn: bool,
    hosts: bool,
}

/// Labels frames for active queues, in the upper half of their handles.
#[derive(Debug)]
pub(crate) struct Labels {
    /// By class; empty if no class needs labels.
    wants: Vec<Wants>,
    hosts: HostTables,
    host_bytes: u64,
    fragments: Fragments,
    salt: RandomState,
}

impl Labels {
    /// Creates labels for the leaves of `tree`, with a new salt.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        Self::salted(tree, RandomState::new())
    }

    /// Creates labels for the leaves of `tree`. `salt` determines the hashes of flows; [`Labels::salt`] returns that of
    /// other labels.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn salted(tree: &Hierarchy, salt: RandomState) -> Result<Self, OutOfMemory> {
        let mut wants = vec![Wants::default(); tree.len()];
        for &leaf in tree.leaves() {
            let config = tree.config(leaf);
            wants[leaf.index()] = Wants {
                flow: config.queue == QueueKind::FqCoDel,
                ecn: config.queue.is_active() && config.ecn,
                hosts: config.hosts.is_some(),
            };
        }
        if !wants.iter().any(|wants| wants.flow || wants.ecn || wants.hosts) {
            wants.clear();
        }
        let host_bytes = HostTables::memory(tree);
        Ok(Self { wants, hosts: HostTables::new(tree)?, host_bytes, fragments: Fragments::new(), salt })
    }

    /// The secret salt of the flow hashes.
    pub(crate) fn salt(&self) -> RandomState {
        self.salt.clone()
    }

    /// Takes over the hosts of `old` for the leaves that continue; `class_map` maps old classes to new ones.
    pub(crate) fn inherit(&mut self, old: &mut Self, class_map: &[Option<ClassId>]) {
        self.hosts.inherit(&mut old.hosts, class_map);
        std::mem::swap(&mut self.fragments, &mut old.fragments);
    }

    /// Bytes that they take at most.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&self.wants[..]) + self.host_bytes as usize + self.fragments.memory_bytes()
    }

    /// Reads the headers of the frame in `bytes`, of any content. A later fragment of a datagram gets the ports of the
    /// first one, if that was seen.
    #[must_use]
    #[inline]
    pub(crate) fn headers(&mut self, bytes: &[u8]) -> FrameHeaders {
        let mut headers = frame_headers(bytes);
        self.fragments.complete(&mut headers, &self.salt);
        headers
    }

    /// Returns true if frames of `class` need labels.
    #[inline]
    pub(crate) fn are_wanted(&self, class: ClassId) -> bool {
        self.wants.get(class.index()).is_some_and(|&Wants { flow, ecn, hosts }| flow || ecn || hosts)
    }

    /// Returns the upper half of the handle of the frame in `bytes`, of `class`, with these `headers`.
    #[must_use]
    #[inline]
    pub(crate) fn label(&mut self, class: ClassId, headers: &FrameHeaders, bytes: &[u8]) -> u64 {
        let Some(&Wants { flow, ecn, hosts }) = self.wants.get(class.index()) else { return 0 };
        let key = &headers.key;
        let flow = if flow {
            let tuple = (&key.src, &key.dst, key.proto, key.sport, key.dport);
            (self.salt.hash_one(tuple) >> 32) as u32
        } else {
            0
        };
        let mut label = flow_bits(flow);
        if hosts && let Some(table) = self.hosts.of(class) {
            let host = host_of(table.by(), key, bytes);
            label = with_host(label, table.place(host, self.salt.hash_one(host)));
        }
        if ecn && headers.ecn != 0 { label | ECN_CAPABLE } else { label }
    }
}

/// Returns true if the frame in `bytes` is an IP packet with ECT or CE.
#[must_use]
pub fn is_ecn_capable(bytes: &[u8]) -> bool {
    frame_headers(bytes).ecn != 0
}

/// Sets CE in the frame in `bytes` if it [`is_ecn_capable`], and updates the checksum of IPv4. Returns true if it is.
pub fn mark_congestion(bytes: &mut [u8]) -> bool {
    let FrameHeaders { key, ip: Some(at), ecn: 1.., .. } = frame_headers(bytes) else { return false };
    if key.version == Some(IpVersion::V6) {
        bytes[at + 1] |= CE << 4;
    } else if bytes[at + 1] & CE != CE {
        // Leave a CE mark unchanged: the sum below would turn a checksum of all ones into zeros.
        let before = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        bytes[at + 1] |= CE;
        let after = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
        let old = u16::from_be_bytes([bytes[at + 10], bytes[at + 11]]);
        let sum = checksum::fold(u64::from(!old) + u64::from(!before) + u64::from(after));
        bytes[at + 10..at + 12].copy_from_slice(&(!sum).to_be_bytes());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, PacketBuilder, SlicedPacket};
    use fairlink_config::matching::ethernet::{self, IPV4, IPV6, PPPOE_SESSION};
    use fairlink_core::{ClassConfig, HostKey, Hosts, LinkConfig, Rate};
    use proptest::prelude::*;

    fn frame(v6: bool, tags: usize, ecn: u8, dscp: u8, port: u16) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2([2; 6], [3; 6]);
        let mut frame = Vec::new();
        if v6 {
            let mut packet = Vec::new();
            ethernet.ipv6([1; 16], [2; 16], 9).udp(port, 9).write(&mut packet, &[0; 10]).unwrap();
            packet[15] |= (dscp & 3) << 6 | ecn << 4;
            packet[14] |= dscp >> 2;
            frame.extend(packet);
        } else {
            let mut packet = Vec::new();
            ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9).udp(port, 9).write(&mut packet, &[0; 10]).unwrap();
            packet[15] = dscp << 2 | ecn;
            let header = etherparse::Ipv4Header::from_slice(&packet[14..]).unwrap().0;
            packet[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
            frame.extend(packet);
        }
        for tag in 0..tags {
            frame.splice(12..12, [0x81, 0, 0, tag as u8]);
        }
        frame
    }

    proptest! {
        #[test]
        fn a_mark_sets_ce_keeps_all_else_and_leaves_a_right_checksum(
            v6: bool, tags in 0usize..3, ecn in 0u8..4, dscp in 0u8..64, port: u16,
        ) {
            let before = frame(v6, tags, ecn, dscp, port);
            let mut after = before.clone();
            prop_assert_eq!(mark_congestion(&mut after), ecn != 0);
            if ecn == 0 {
                prop_assert_eq!(after, before);
                return Ok(());
            }
            let read = |frame: &[u8]| match SlicedPacket::from_ethernet(frame).unwrap().net.unwrap() {
                NetSlice::Ipv4(ip) => {
                    let header = ip.header().to_header();
                    (header.ecn.value(), header.dscp.value(), header.header_checksum == header.calc_header_checksum())
                }
                NetSlice::Ipv6(ip) => (ip.header().ecn().value(), ip.header().dscp().value(), true),
                NetSlice::Arp(_) => unreachable!(),
            };
            prop_assert_eq!(read(&after), (CE, dscp, true));
            let differ = before.iter().zip(&after).filter(|(a, b)| a != b).count();
            let most = if v6 { 1 } else { 3 };
            prop_assert!(differ <= most && before.len() == after.len());
        }

        #[test]
        fn bytes_from_anywhere_are_marked_only_where_they_may_be(mut bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            for kind in [IPV4, IPV6, ethernet::VLAN, PPPOE_SESSION] {
                if bytes.len() > 15 {
                    bytes[12..14].copy_from_slice(&kind.to_be_bytes());
                }
                let before = bytes.clone();
                let may = is_ecn_capable(&bytes);
                prop_assert_eq!(mark_congestion(&mut bytes), may);
                prop_assert!(may || bytes == before);
            }
        }
    }

    fn labels(queue: QueueKind, ecn: bool) -> Labels {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1).unwrap()));
        tree.add(ClassId::ROOT, ClassConfig { queue, ecn, ..ClassConfig::default() }).unwrap();
        Labels::new(&tree.build().unwrap()).unwrap()
    }

    #[test]
    fn a_frame_that_has_ce_already_is_left_as_it_is_whatever_its_checksum() {
        let mut bytes = frame(false, 1, CE, 9, 7);
        bytes[28..30].fill(0xff);
        let before = bytes.clone();
        assert!(mark_congestion(&mut bytes));
        assert_eq!(bytes, before);
    }

    #[test]
    fn flows_are_told_apart_alike_within_one_start_and_otherwise_in_the_next() {
        let label = |labels: &mut Labels, port, ecn| {
            let bytes = frame(false, 0, ecn, 0, port);
            labels.label(ClassId(1), &frame_headers(&bytes), &bytes)
        };
        let (mut fair, mut other) = (labels(QueueKind::FqCoDel, true), labels(QueueKind::FqCoDel, true));
        let flows: std::collections::HashSet<u64> = (0..200).map(|port| label(&mut fair, port, 0)).collect();
        assert!(flows.len() > 195, "{}", flows.len());
        assert!((0..200).all(|port| label(&mut fair, port, 0) == label(&mut fair, port, 0)));
        assert!((0..200).any(|port| label(&mut fair, port, 0) != label(&mut other, port, 0)));
        assert_eq!(label(&mut fair, 7, 2), label(&mut fair, 7, 0) | ECN_CAPABLE);
        assert!(flows.iter().all(|flow| flow & u64::from(u32::MAX) == 0));
        assert_eq!(label(&mut labels(QueueKind::CoDel, true), 7, 1), ECN_CAPABLE);
        assert_eq!(label(&mut labels(QueueKind::CoDel, false), 7, 1), 0);
        assert_eq!(label(&mut labels(QueueKind::Fifo, true), 7, 1), 0);
    }

    #[test]
    fn frames_of_a_host_have_its_place_and_those_of_its_flows_differ() {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1).unwrap()));
        let config = |queue, by| ClassConfig { queue, hosts: Hosts::new(9, by), ..ClassConfig::default() };
        let fair = tree.add(ClassId::ROOT, config(QueueKind::FqCoDel, HostKey::SourceIp)).unwrap();
        let plain = tree.add(ClassId::ROOT, config(QueueKind::Fifo, HostKey::DestinationIp)).unwrap();
        let nets = tree.add(ClassId::ROOT, config(QueueKind::Fifo, HostKey::SourceMac)).unwrap();
        let mut labels = Labels::new(&tree.build().unwrap()).unwrap();
        let mut of = |class, src: u8, dst: u8, port: u16| {
            let mut bytes = frame(false, 0, 0, 0, port);
            (bytes[29], bytes[33]) = (src, dst);
            bytes[11] = src / 2;
            let label = labels.label(class, &frame_headers(&bytes), &bytes);
            // Host and flow.
            (label >> 47, label >> 32 & 0x7fff)
        };
        let (one, two) = (of(fair, 1, 7, 80), of(fair, 2, 7, 80));
        assert_eq!((one.0, two.0), (0, 1));
        assert!((0..50).any(|port| of(fair, 1, 7, port).1 != one.1));
        assert!((0..50).all(|port| of(fair, 1, port as u8, port).0 == 0));
        // The other leaf counts its own hosts, by the other address, and its flows are one.
        assert_eq!([of(plain, 2, 9, 1), of(plain, 2, 8, 2), of(plain, 3, 9, 3)], [(0, 0), (1, 0), (0, 0)]);
        assert_eq!([of(nets, 2, 9, 1), of(nets, 3, 9, 1), of(nets, 4, 9, 1)].map(|label| label.0), [0, 0, 1]);
        // Packets other than IP count as one additional host.
        let arp = [[0u8; 12].as_slice(), &[8, 6], &[0; 28]].concat();
        assert_eq!(labels.label(fair, &frame_headers(&arp), &arp) >> 47, 2);
    }
}
