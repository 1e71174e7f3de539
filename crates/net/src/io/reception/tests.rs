use proptest::prelude::*;

use super::*;
use crate::io::backend::{Condition, LONGEST_SUPER_FRAME};
use crate::io::received::samples::{datagram, described};
use crate::wire::segments::MOST_SEGMENTS;

/// As much as an Ethernet frame with two tags and the headroom take.
const FRAME: usize = 1600;

/// The kernel's description of a frame, the tag that it took out, and the frame.
type Message = (VirtioHeader, Option<[u8; 4]>, Vec<u8>);

impl Reception {
    /// Fills slots with `messages` as the kernel does: bytes that do not fit into a frame of the pool continue in the
    /// long buffer.
    fn place(&mut self, pool: &mut FramePool, messages: &[Message]) {
        assert!(!self.has_more());
        let count = self.arm(pool, messages.len());
        for (slot, (header, tag, frame)) in messages[..count].iter().enumerate() {
            let held = frame.len().min(pool.frame_bytes() - HEADROOM);
            pool.frame_mut(self.armed[slot].unwrap())[HEADROOM..HEADROOM + held].copy_from_slice(&frame[..held]);
            let further = &mut self.long[slot * SLOT + pool.frame_bytes()..(slot + 1) * SLOT];
            let beyond = (frame.len() - held).min(further.len());
            further[..beyond].copy_from_slice(&frame[held..held + beyond]);
            self.filled[slot] = Received { header: *header, wire: frame.len(), tag: *tag };
        }
        (self.count, self.next, self.at) = (count, 0, Nanos(7));
        self.used = BATCH;
    }
}

/// Takes all arrivals, at most `max` at a time, gives their frames back, and returns the payload of each packet, behind 42
/// bytes of headers and a tag, and whether it has one.
fn all(
    reception: &mut Reception,
    pool: &mut FramePool,
    max: usize,
    counters: &mut BackendCounters,
) -> Vec<(bool, Vec<u8>)> {
    let (mut seen, mut out) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; LONGEST_SUPER_FRAME];
    while reception.has_more() {
        reception.hand_over(pool, max, &mut out, counters);
        assert!(out.len() <= max && !out.is_empty());
        for Arrival { frame, len, condition, .. } in out.drain(..) {
            assert_eq!(pool.info(frame).received, Nanos(7));
            let packet = pool.packet(frame);
            let is_tagged = packet[12..14] == [0x81, 0];
            let headers = if is_tagged { 46 } else { 42 };
            match condition {
                Condition::Super(number) => {
                    reception.fetch(pool, frame, number, &mut buffer);
                    let segments = reception.segments(number);
                    assert_eq!(segments.payload(0).start, headers);
                    assert_eq!(buffer[..headers], packet[..headers]);
                    seen.extend(
                        (0..segments.count()).map(|index| (is_tagged, buffer[segments.payload(index)].to_vec())),
                    );
                }
                _ => {
                    assert_eq!((condition, packet.len()), (Condition::Whole, len as usize));
                    seen.push((is_tagged, packet[headers..].to_vec()));
                }
            }
            pool.give_back(frame);
        }
    }
    seen
}

#[test]
fn packets_come_in_the_order_of_the_frames_they_were_joined_in_however_few_are_asked_for() {
    const TAG: Option<[u8; 4]> = Some([0x81, 0, 0, 5]);
    let messages = [
        (described(0), None, datagram(900, 1)),
        (described(1000), None, datagram(4500, 2)),
        (described(0), None, datagram(10, 3)),
        (described(1400), TAG, datagram(60_000, 4)),
        (described(1000), TAG, datagram(1200, 6)),
        (described(0), TAG, datagram(800, 5)),
    ];
    let mut expected = Vec::new();
    for (header, tag, frame) in &messages {
        let piece = if header.segment > 0 { usize::from(header.segment) } else { frame.len() };
        expected.extend(frame[42..].chunks(piece).map(|piece| (tag.is_some(), piece.to_vec())));
    }
    for max in [1, 2, 7, 64] {
        let mut pool = FramePool::new(80, FRAME as u32).unwrap();
        let mut reception = Reception::new(true);
        let mut counters = BackendCounters::default();
        reception.place(&mut pool, &messages);
        assert!(all(&mut reception, &mut pool, max, &mut counters) == expected, "at most {max}");
        assert_eq!((counters.checksums_passed_on, counters.vlan_tags_restored), (3, 3));
        assert_eq!(reception.held(), pool.frames() - pool.free());
        reception.release(&mut pool);
        assert_eq!(pool.free(), pool.frames());
    }
}

#[test]
fn what_cannot_be_split_arrives_as_one_unfit_frame_with_its_first_bytes() {
    let mut pool = FramePool::new(64, FRAME as u32).unwrap();
    let mut reception = Reception::new(true);
    let mut counters = BackendCounters::default();
    let mut longer_than_any_buffer = datagram(1000, 1);
    longer_than_any_buffer.resize(SLOT + 5, 0);
    let tcp = VirtioHeader { kind: 1, ..described(1000) };
    reception.place(
        &mut pool,
        &[
            (described(1000), None, longer_than_any_buffer),
            (tcp, Some([0x81, 0, 0, 9]), datagram(3000, 2)),
            (described(0), None, datagram(3000, 3)),
        ],
    );
    let mut out = Vec::new();
    reception.hand_over(&mut pool, 64, &mut out, &mut counters);
    let conditions: Vec<_> = out.iter().map(|arrival| (arrival.condition, arrival.len as usize)).collect();
    assert_eq!(conditions, [(Condition::Joined, SLOT + 5), (Condition::Joined, 3042 + 4), (Condition::TooLong, 3042)]);
    assert_eq!(counters.unsplittable, [1, 0, 0, 1]);
    assert_eq!(pool.packet(out[1].frame)[12..18], [0x81, 0, 0, 9, 8, 0]);
}

proptest! {
    /// For any frames with any descriptions in any number: nothing panics, no frame is lost or doubled, arrivals are
    /// bounded.
    #[test]
    fn the_pool_is_balanced_whatever_the_kernel_says(
        frames in proptest::collection::vec(
            (any::<(u8, u8, u16, u16, u16, u16)>(), any::<Option<[u8; 4]>>(), 0usize..70_000, any::<bool>(), 0u8..6), 1..8),
        pool_frames in 9u32..200, max in 1usize..65,
    ) {
        let mut pool = FramePool::new(pool_frames, FRAME as u32).unwrap();
        let mut reception = Reception::new(true);
        let mut counters = BackendCounters::default();
        let messages: Vec<_> = frames
            .into_iter()
            .map(|((flags, kind, header_len, segment, checksum_start, checksum_offset), tag, len, sane, known)| {
                let header = if sane {
                    described(segment)
                } else {
                    VirtioHeader { flags, kind: if kind < 128 { known } else { kind }, header_len, segment, checksum_start, checksum_offset }
                };
                let mut frame = datagram(len.min(65_000), kind);
                frame.resize(len, kind);
                (header, tag, frame)
            })
            .collect();
        reception.place(&mut pool, &messages);
        let (mut arrived, mut out) = (0, Vec::new());
        let mut buffer = vec![0; LONGEST_SUPER_FRAME];
        while reception.has_more() {
            reception.hand_over(&mut pool, max, &mut out, &mut counters);
            prop_assert!(!out.is_empty() && out.len() <= max);
            prop_assert_eq!(reception.held() + out.len(), pool.frames() - pool.free());
            for arrival in out.drain(..) {
                if let Condition::Super(number) = arrival.condition {
                    reception.fetch(&pool, arrival.frame, number, &mut buffer);
                    prop_assert!(reception.segments(number).count() <= MOST_SEGMENTS);
                }
                prop_assert!(pool.packet(arrival.frame).len() <= FRAME - HEADROOM + 4);
                pool.finish_checksum(arrival.frame);
                pool.give_back(arrival.frame);
                arrived += 1;
            }
        }
        prop_assert_eq!(arrived, messages.len());
        reception.release(&mut pool);
        prop_assert_eq!(pool.free(), pool.frames());
    }
}

#[test]
fn slots_hold_no_frames_of_a_pool_before() {
    let mut counters = BackendCounters::default();
    let mut reception = Reception::new(true);
    let mut before = FramePool::new(80, FRAME as u32).unwrap();
    reception.place(&mut before, &[(described(0), None, datagram(10, 1)), (described(0), None, datagram(20, 2))]);
    assert_eq!(all(&mut reception, &mut before, 64, &mut counters).len(), 2);
    assert_eq!(reception.arm(&mut before, BATCH), BATCH);
    drop(before);
    // Most likely at the same address; fewer frames than the slots had numbers of.
    let mut pool = FramePool::new(3, FRAME as u32).unwrap();
    assert_eq!((reception.arm(&mut pool, BATCH), reception.held(), pool.free()), (3, 3, 0));
    reception.release(&mut pool);
    assert_eq!(pool.free(), 3);
}
