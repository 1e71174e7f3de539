use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;
use crate::wire::virtio::NEEDS_CHECKSUM;

const LONGEST_PACKET: usize = 1600;

/// Parameters of a super-frame.
#[derive(Clone, Copy, Debug)]
struct Made {
    is_v6: bool,
    is_tcp: bool,
    /// VLAN tags.
    tags: usize,
    /// Bytes of payload, in all and in each packet.
    total: usize,
    size: u16,
    /// True if the sender has left the checksum to hardware.
    unfinished: bool,
}

const TCP4: Made = Made { is_v6: false, is_tcp: true, tags: 0, total: 4000, size: 1448, unfinished: true };
const FLAGS: u8 = FIN | PSH | CWR | 0x10;

/// Builds the super-frame and the kernel's description of it.
fn made(made: Made) -> (Vec<u8>, VirtioHeader) {
    let Made { is_v6, is_tcp, tags, total, size, unfinished } = made;
    let payload: Vec<u8> = (0..total).map(|n| (n * 31 + n / 251) as u8).collect();
    let mut plain = Vec::new();
    let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let net = match is_v6 {
        true => link.ipv6([0x20; 16], [0xfd; 16], 64),
        false => link.ipv4([10, 200, 0, 1], [10, 0, 255, 2], 64),
    };
    match is_tcp {
        true => {
            let tcp = net.tcp(5001, 5002, 0xffff_f000, 4096).ack(77);
            let tcp = tcp.options_raw(&[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
            tcp.write(&mut plain, &payload).unwrap();
        }
        false => net.udp(5001, 5002).write(&mut plain, &payload).unwrap(),
    }
    let transport = if is_v6 { 54 } else { 34 };
    let checksum = transport + if is_tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
    if is_tcp {
        plain[transport + TCP_FLAGS] = FLAGS;
    }
    if unfinished {
        let length = (plain.len() - transport) as u64;
        let sum = Layout::from_frame(&plain).unwrap().pseudo_header(&plain);
        plain[checksum..checksum + 2].copy_from_slice(&checksum::fold(sum + length).to_be_bytes());
    }
    if !is_v6 {
        plain[18..20].copy_from_slice(&0xfffe_u16.to_be_bytes());
    }
    let mut frame = plain[..12].to_vec();
    for tag in 0..tags {
        frame.extend([0x81, 0, 0, tag as u8 + 1]);
    }
    frame.extend(&plain[12..]);
    let kind = match (is_tcp, is_v6) {
        (false, _) => JOINED_UDP,
        (true, false) => JOINED_TCP4 | JOINED_CWR,
        (true, true) => JOINED_TCP6 | JOINED_CWR,
    };
    let start = transport + 4 * tags;
    let header = VirtioHeader {
        flags: if unfinished { NEEDS_CHECKSUM } else { 0 },
        kind,
        header_len: 9,
        segment: size,
        checksum_start: if unfinished { start as u16 } else { 0 },
        checksum_offset: if unfinished { (checksum - transport) as u16 } else { 0 },
    };
    (frame, header)
}

/// The packets of a super-frame, checksums finished.
fn split(frame: &[u8], header: &VirtioHeader) -> Result<Vec<Vec<u8>>, Unsplittable> {
    let segments = Segments::from_frame(frame, header, LONGEST_PACKET)?;
    let packet = |index| {
        let mut out = vec![0xee; LONGEST_PACKET];
        let len = segments.write(frame, index, &mut out);
        assert_eq!(len, segments.len(index));
        assert!(out[len..].iter().all(|&byte| byte == 0xee));
        out.truncate(len);
        if let Some(Unfinished { start, offset }) = segments.unfinished() {
            assert!(is_of_transport(&out, segments.unfinished().unwrap()));
            assert!(checksum::complete(&mut out, start, offset));
        }
        out
    };
    Ok((0..segments.count()).map(packet).collect())
}

#[test]
fn each_packet_is_whole_and_together_they_carry_what_the_super_frame_carried() {
    for is_v6 in [false, true] {
        for is_tcp in [false, true] {
            for (tags, unfinished) in [(0, true), (1, true), (2, true), (0, false)] {
                for (total, size) in [(4000, 1300), (3900, 1300), (1300, 1300), (1, 1300), (0, 1300), (60_000, 1441)] {
                    let what = Made { is_v6, is_tcp, tags, total, size, unfinished };
                    let (frame, header) = made(what);
                    let packets = split(&frame, &header).unwrap_or_else(|why| panic!("{what:?}: {why:?}"));
                    assert_eq!(packets.len(), total.div_ceil(usize::from(size)).max(1));
                    check(what, &frame, &packets);
                }
            }
        }
    }
}

/// Parses the packets with an independent library.
fn check(what: Made, frame: &[u8], packets: &[Vec<u8>]) {
    let headers = frame.len() - what.total;
    let mut at = headers;
    for (index, bytes) in packets.iter().enumerate() {
        let packet = SlicedPacket::from_ethernet(bytes).unwrap();
        assert_eq!(packet.vlan_ids().len(), what.tags);
        let payload = match packet.transport.unwrap() {
            TransportSlice::Tcp(tcp) => {
                assert_eq!(tcp.sequence_number(), 0xffff_f000_u32.wrapping_add((at - headers) as u32));
                assert_eq!((tcp.fin(), tcp.psh()), (index + 1 == packets.len(), index + 1 == packets.len()));
                assert_eq!((tcp.cwr(), tcp.ack()), (index == 0, true));
                let right = match packet.net.as_ref().unwrap() {
                    NetSlice::Ipv4(ip) => tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()),
                    NetSlice::Ipv6(ip) => tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()),
                    NetSlice::Arp(_) => panic!("{what:?}"),
                };
                assert_eq!(tcp.checksum(), right.unwrap(), "{what:?}, packet {index}");
                tcp.payload().to_vec()
            }
            TransportSlice::Udp(udp) => {
                let right = match packet.net.as_ref().unwrap() {
                    NetSlice::Ipv4(ip) => udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload()),
                    NetSlice::Ipv6(ip) => udp.to_header().calc_checksum_ipv6(&ip.header().to_header(), udp.payload()),
                    NetSlice::Arp(_) => panic!("{what:?}"),
                };
                assert_eq!(udp.checksum(), right.unwrap(), "{what:?}, packet {index}");
                assert_eq!(usize::from(udp.length()), 8 + udp.payload().len());
                udp.payload().to_vec()
            }
            other => panic!("{other:?}"),
        };
        if let NetSlice::Ipv4(ip) = packet.net.unwrap() {
            let header = ip.header().to_header();
            assert_eq!(header.identification, 0xfffe_u16.wrapping_add(index as u16));
            assert_eq!(header.header_checksum, header.calc_header_checksum());
        }
        let last = index + 1 == packets.len();
        assert_eq!(payload.len(), if last { what.total - (at - headers) } else { what.size.into() });
        assert_eq!(payload, frame[at..at + payload.len()]);
        at += payload.len();
    }
    assert_eq!(at, frame.len());
}

#[test]
fn datagrams_without_a_checksum_stay_without_one() {
    let (mut frame, header) = made(Made { is_tcp: false, unfinished: false, ..TCP4 });
    frame[40..42].fill(0);
    for packet in split(&frame, &header).unwrap() {
        assert_eq!(packet[40..42], [0, 0]);
    }
}

#[test]
fn ipv6_extension_headers_are_in_every_packet_and_a_routing_headers_address_stays_in_the_checksum() {
    let (plain, mut header) = made(Made { is_v6: true, ..TCP4 });
    // A routing header, 24 bytes with an address, that names another last destination than the header.
    let mut frame = plain[..54].to_vec();
    frame[20] = ROUTING;
    let routing = [&[TCP, 2, 0, 1, 0, 0, 0, 0][..], &[0x77; 16]].concat();
    frame.extend(&routing);
    frame.extend(&plain[54..]);
    header.checksum_start += 24;
    // The sender's sum has the last destination.
    let mut left = u64::from(TCP) + (plain.len() - 54) as u64;
    left = u64::from(checksum::sum(left, &[0x20; 16]));
    left = u64::from(checksum::sum(left, &[0x77; 16]));
    frame[78 + 16..78 + 18].copy_from_slice(&(left as u16).to_be_bytes());
    for packet in split(&frame, &header).unwrap() {
        assert_eq!(packet[54..78], routing);
        let length = (packet.len() - 78) as u64;
        assert_eq!(u64::from(u16::from_be_bytes([packet[18], packet[19]])), length + 24);
        let sum = checksum::sum(u64::from(TCP) + length, &[[0x20; 16], [0x77; 16]].concat());
        assert_eq!(checksum::sum(u64::from(sum), &packet[78..]), 0xffff);
    }
}

#[test]
fn no_field_is_believed() {
    type Change = fn(&mut Vec<u8>, &mut VirtioHeader);
    let lies: [(Change, Unsplittable); 20] = [
        (|_, header| header.kind = JOINED_TCP6, Unsplittable::Protocol),
        (|_, header| header.kind = 3, Unsplittable::Protocol),
        (|_, header| header.kind = 77, Unsplittable::Protocol),
        // UDP joined, and the protocol is TCP.
        (|_, header| header.kind = JOINED_UDP, Unsplittable::Protocol),
        // VXLAN: TCP joined below an outer UDP. Then GRE, IPv4 in IPv4.
        (|frame, _| frame[23] = UDP, Unsplittable::Tunnel),
        (|frame, _| frame[23] = 47, Unsplittable::Tunnel),
        (|frame, _| frame[23] = 4, Unsplittable::Tunnel),
        (|frame, _| frame[23] = 132, Unsplittable::Protocol),
        (|frame, _| frame[12..14].copy_from_slice(&[0x88, 0x64]), Unsplittable::Protocol),
        (|_, header| header.checksum_start = 34 + 20 + 14 + 20, Unsplittable::Tunnel),
        (|_, header| header.checksum_start = 30, Unsplittable::Malformed),
        (|_, header| header.checksum_offset = 6, Unsplittable::Malformed),
        (|_, header| header.segment = 0, Unsplittable::Malformed),
        (|_, header| header.segment = 1560, Unsplittable::TooLong),
        (|_, header| header.segment = 1, Unsplittable::TooLong),
        // Lengths of the headers of TCP and IPv4; a fragment.
        (|frame, _| frame[46] = 0x40, Unsplittable::Malformed),
        (|frame, _| frame[14] = 0x44, Unsplittable::Malformed),
        (|frame, _| frame[20] = 0x20, Unsplittable::Malformed),
        (|frame, _| frame.truncate(50), Unsplittable::Malformed),
        (|frame, _| frame.resize(LONGEST + 1, 0), Unsplittable::TooLong),
    ];
    for (number, (lie, why)) in lies.into_iter().enumerate() {
        let (mut frame, mut header) = made(TCP4);
        lie(&mut frame, &mut header);
        assert_eq!(split(&frame, &header), Err(why), "lie {number}");
    }
    // Data behind IPv4's own length is payload like any other: lengths in headers do not count.
    let (mut frame, header) = made(TCP4);
    frame[16..18].fill(0);
    let packets = split(&frame, &header).unwrap();
    check(TCP4, &frame, &packets);
}

#[test]
fn packets_are_never_longer_than_frames_nor_than_ip_can_tell() {
    let (frame, header) = made(Made { total: 65_400, size: 65_400, ..TCP4 });
    assert_eq!(Segments::from_frame(&frame, &header, 1 << 17).unwrap().count(), 1);
    assert_eq!(Segments::from_frame(&frame, &header, frame.len() - 1), Err(Unsplittable::TooLong));
    let (mut frame, header) = made(Made { total: 65_400, size: 65_400, ..TCP4 });
    frame.resize(14 + 65_535, 1);
    assert_eq!(Segments::from_frame(&frame, &header, 1 << 17).unwrap().count(), 2);
    let header = VirtioHeader { segment: 65_535, ..header };
    assert_eq!(Segments::from_frame(&frame, &header, 1 << 17).unwrap().count(), 1);
    frame.push(1);
    assert_eq!(Segments::from_frame(&frame, &header, 1 << 17), Err(Unsplittable::TooLong));
}

proptest! {
    /// Any header over any bytes: no panic, bounded output, and every byte of payload once and in order.
    #[test]
    fn whatever_the_bytes_are_the_output_is_bounded(
        base in (any::<bool>(), any::<bool>(), 0usize..3, 0usize..5000, any::<bool>()),
        size in any::<u16>(),
        changes in proptest::collection::vec((0usize..120, any::<u8>()), 0..5),
        fields in proptest::option::of((any::<u8>(), any::<u8>(), any::<u16>(), any::<u16>(), any::<u16>())),
        keep in any::<prop::sample::Index>(), cut in any::<bool>(),
        longest in 60usize..3000,
    ) {
        let (is_v6, is_tcp, tags, total, unfinished) = base;
        let (mut frame, mut header) = made(Made { is_v6, is_tcp, tags, total, size, unfinished });
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        if cut {
            frame.truncate(keep.index(frame.len() + 1));
        }
        if let Some((flags, kind, header_len, checksum_start, checksum_offset)) = fields {
            header = VirtioHeader { flags, kind, header_len, segment: size, checksum_start, checksum_offset };
        }
        if let Ok(segments) = Segments::from_frame(&frame, &header, longest) {
            prop_assert!((1..=MOST_SEGMENTS).contains(&segments.count()));
            let mut out = vec![0; longest];
            let mut at = None;
            for index in 0..segments.count() {
                let len = segments.write(&frame, index, &mut out);
                let payload = segments.payload(index);
                prop_assert!(len <= longest && len == segments.len(index));
                prop_assert_eq!(&out[len - payload.len()..len], &frame[payload.clone()]);
                prop_assert!(at.is_none_or(|at| at == payload.start));
                at = Some(payload.end);
            }
            prop_assert_eq!(at, Some(frame.len()));
        }
        for start in [34, 54, header.checksum_start] {
            let _ = is_of_transport(&frame, Unfinished { start, offset: header.checksum_offset });
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0u8..6, size in 1u16..2000,
    ) {
        let header = VirtioHeader { kind, segment: size, ..VirtioHeader::default() };
        let mut bytes = bytes;
        for ethertype in [IPV4, IPV6] {
            if let Some(place) = bytes.get_mut(12..14) {
                place.copy_from_slice(&ethertype.to_be_bytes());
            }
            let _ = split(&bytes, &header);
        }
    }
}

proptest! {
    /// For any super-frame and any run of its packets: joined, they are a super-frame that splits into the same packets.
    #[test]
    fn packets_that_are_joined_again_split_into_the_same_packets(
        is_v6 in any::<bool>(),
        is_tcp in any::<bool>(),
        tags in 0usize..3,
        total in 1usize..20_000,
        size in 10u16..1500,
        unfinished in any::<bool>(),
        run in (0usize..100, 2usize..=64),
        seed in any::<u64>(),
    ) {
        let (mut frame, header) = made(Made { is_v6, is_tcp, tags, total, size, unfinished });
        if is_tcp {
            // Flags that are only in the first packet or in the last, or not at all.
            let transport = if is_v6 { 54 } else { 34 } + 4 * tags;
            frame[transport + TCP_FLAGS] = seed as u8;
        }
        let segments = Segments::from_frame(&frame, &header, LONGEST_PACKET).unwrap();
        let packets: Vec<Vec<u8>> = (0..segments.count())
            .map(|index| {
                let mut packet = vec![0; segments.len(index)];
                segments.write(&frame, index, &mut packet);
                packet
            })
            .collect();
        let from = run.0.min(packets.len() - 1);
        let run = &packets[from..packets.len().min(from + run.1)];
        let mut headers = [0; 200];
        let (length, description) = join(&run[0], &run[run.len() - 1], run.len(), &mut headers).unwrap();
        let mut joined = headers[..length].to_vec();
        run.iter().for_each(|packet| joined.extend(&packet[length..]));
        prop_assert_eq!(usize::from(description.header_len), length);
        let again = Segments::from_frame(&joined, &description, LONGEST_PACKET).unwrap();
        prop_assert_eq!(again.count(), run.len());
        for (index, packet) in run.iter().enumerate() {
            let mut out = vec![0; packet.len()];
            prop_assert_eq!(again.write(&joined, index, &mut out), packet.len());
            prop_assert_eq!(&out, packet, "packet {} of {}", index, run.len());
        }
    }

    /// No bytes make it panic.
    #[test]
    fn joining_survives_any_bytes(
        first in proptest::collection::vec(any::<u8>(), 0..120),
        last in proptest::collection::vec(any::<u8>(), 0..120),
        start in prop_oneof![Just(vec![]), Just(vec![8, 0, 0x45]), Just(vec![0x86, 0xdd, 0x60])],
        count in 0usize..70,
        room in 0usize..200,
    ) {
        let mut first = first;
        if first.len() > 40 {
            first[12..12 + start.len()].copy_from_slice(&start);
            first[23] = 6;
        }
        let _ = join(&first, &last, count, &mut vec![0; room]);
    }
}
