use std::os::unix::net::UnixDatagram;

use fairlink_core::Nanos;
use proptest::prelude::*;

use super::receive::IN_FRONT;
use super::*;
use crate::io::backend::{Arrival, BackendCounters, Condition, LONGEST_SUPER_FRAME};
use crate::io::frame_pool::FramePool;
use crate::io::received::samples::{datagram, described};
use crate::wire::segments::MOST_SEGMENTS;
use crate::wire::virtio::VirtioHeader;

const LONGEST: usize = 1522;
const FRAME: u32 = 1600;
/// Where a kernel puts an Ethernet frame that it describes.
const MAC: usize = 76;

/// A ring without a socket, and a queue in place of the socket's, which the test fills as a kernel does.
struct Kernel {
    ring: RingReception,
    queue: UnixDatagram,
    socket: OwnedFd,
    /// The slot that is filled next, counted from that which is read next.
    filled: usize,
}

/// A kernel's description of a frame in a slot.
#[derive(Clone, Copy, Debug)]
struct Said {
    status: u32,
    len: u32,
    held: u32,
    mac: u16,
    tag: [u16; 2],
    header: VirtioHeader,
}

impl Kernel {
    fn new(slots: usize) -> Self {
        let (socket, queue) = UnixDatagram::pair().unwrap();
        let slot_bytes = (IN_FRONT + LONGEST).next_multiple_of(64);
        let of_block = BLOCK / slot_bytes;
        let blocks = slots.div_ceil(of_block);
        let mapping = Mapping::anonymous(blocks * BLOCK).unwrap();
        let slots = Slots { mapping, block_bytes: BLOCK, slot_bytes, of_block, count: blocks * of_block, next: 0 };
        Self { ring: RingReception::over(slots, true), queue, socket: socket.into(), filled: 0 }
    }

    /// Fills the next slot with these words and the beginning of `frame`.
    fn write(&mut self, said: Said, frame: &[u8]) {
        let slots = &self.ring.slots;
        assert_eq!(slots.load(self.filled), libc::TP_STATUS_KERNEL);
        let slot = slots.slot(self.filled).as_ptr();
        let Said { status, len, held, mac, tag: [tci, tpid], header } = said;
        let mut bytes = vec![0; slots.slot_bytes];
        for (at, word) in [(4, len), (8, held)] {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        for (at, word) in [(12, mac), (24, tci), (26, tpid)] {
            bytes[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        let place = usize::from(mac);
        if let Some(into) = place.checked_sub(VirtioHeader::LEN).and_then(|at| bytes.get_mut(at..place)) {
            into.copy_from_slice(&header_bytes(&header));
        }
        if let Some(into) = bytes.get_mut(place..) {
            let count = into.len().min(frame.len());
            into[..count].copy_from_slice(&frame[..count]);
        }
        bytes[..4].copy_from_slice(&(status | libc::TP_STATUS_USER).to_ne_bytes());
        // SAFETY: the slot has as many bytes, and nothing refers to them.
        unsafe { slot.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.filled += 1;
    }

    /// Delivers a frame as the kernel does: one that is longer than a slot is in the queue, too.
    fn deliver(&mut self, header: VirtioHeader, tag: Option<[u16; 2]>, frame: &[u8]) {
        let room = self.ring.slots.slot_bytes - MAC;
        let copied = frame.len() > room;
        if copied {
            self.queue.send(&[&header_bytes(&header), frame].concat()).unwrap();
        }
        let tagged = if tag.is_some() { libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID } else { 0 };
        let said = Said {
            status: tagged | if copied { libc::TP_STATUS_COPY } else { 0 },
            len: frame.len() as u32,
            held: frame.len().min(room) as u32,
            mac: MAC as u16,
            tag: tag.unwrap_or_default(),
            header,
        };
        self.write(said, frame);
    }

    fn receive(&mut self, pool: &mut FramePool, max: usize, counters: &mut BackendCounters) -> Vec<Arrival> {
        let mut out = Vec::new();
        let before = self.ring.slots.next;
        self.ring.receive(&self.socket, pool, Nanos(7), max, &mut out, counters).unwrap();
        let count = self.ring.slots.count;
        self.filled -= (self.ring.slots.next + count - before) % count;
        out
    }
}

impl Kernel {
    fn fetch(&mut self, pool: &FramePool, frame: u32, number: u8, into: &mut [u8]) -> bool {
        self.ring.fetch(&self.socket, pool, frame, number, into).unwrap()
    }
}

fn header_bytes(header: &VirtioHeader) -> Vec<u8> {
    let words = [header.header_len, header.segment, header.checksum_start, header.checksum_offset];
    [header.flags, header.kind].into_iter().chain(words.into_iter().flat_map(u16::to_ne_bytes)).collect()
}

#[test]
fn frames_and_the_packets_of_super_frames_come_in_order_however_few_are_asked_for() {
    // The second fits into a slot as a whole; 3 in 100 are longer than one.
    let sizes = [(900, 0), (1300, 100), (10, 0), (60_000, 1400), (800, 0), (4500, 1000)];
    for max in [1, 2, 7, 64] {
        let mut kernel = Kernel::new(50);
        let mut pool = FramePool::new(80, FRAME).unwrap();
        let mut counters = BackendCounters::default();
        let (mut expected, mut seen) = (Vec::new(), Vec::new());
        let mut buffer = vec![0; LONGEST_SUPER_FRAME];
        // Several times around the ring.
        for round in 0..200 {
            let (payload, segment) = sizes[round % sizes.len()];
            let tag = (round % 4 == 3).then_some([5, 0x8100]);
            let frame = datagram(payload, round as u8);
            kernel.deliver(described(segment), tag, &frame);
            let piece = if segment > 0 { usize::from(segment) } else { payload };
            expected.extend(frame[42..].chunks(piece).map(|piece| (tag.is_some(), piece.to_vec())));
            while kernel.ring.has_more() {
                for Arrival { frame, condition, len, .. } in kernel.receive(&mut pool, max, &mut counters) {
                    let packet = pool.packet(frame);
                    let is_tagged = packet[12..16] == [0x81, 0, 0, 5];
                    match condition {
                        Condition::Super(number) => {
                            assert!(kernel.fetch(&pool, frame, number, &mut buffer));
                            let segments = kernel.ring.segments(number);
                            let all = 0..segments.count();
                            seen.extend(all.map(|index| (is_tagged, buffer[segments.payload(index)].to_vec())));
                        }
                        _ => {
                            assert_eq!((condition, packet.len()), (Condition::Whole, len as usize));
                            seen.push((is_tagged, packet[if is_tagged { 46 } else { 42 }..].to_vec()));
                        }
                    }
                    pool.give_back(frame);
                }
            }
        }
        assert!(seen == expected, "at most {max}");
        assert_eq!((counters.kernel_dropped, counters.unreadable, pool.free()), (0, 0, pool.frames()));
    }
}

#[test]
fn a_super_frame_that_the_kernel_had_no_room_for_is_counted_and_those_behind_it_come() {
    let mut kernel = Kernel::new(50);
    let mut pool = FramePool::new(80, FRAME).unwrap();
    let mut counters = BackendCounters::default();
    let mut buffer = vec![0; LONGEST_SUPER_FRAME];
    let long = datagram(20_000, 1);
    let room = (kernel.ring.slots.slot_bytes - MAC) as u32;
    let lost =
        Said { status: 0, len: long.len() as u32, held: room, mac: MAC as u16, tag: [0; 2], header: described(1000) };
    kernel.write(lost, &long);
    kernel.deliver(described(1000), None, &datagram(2000, 2));
    // The kernel says that it is there, and it is not.
    kernel.write(Said { status: libc::TP_STATUS_COPY, ..lost }, &long);
    kernel.deliver(described(0), None, &datagram(100, 3));
    let arrivals = kernel.receive(&mut pool, 64, &mut counters);
    assert_eq!(arrivals.iter().map(|arrival| arrival.len).collect::<Vec<_>>(), [2042, long.len() as u32, 142]);
    assert!(kernel.fetch(&pool, arrivals[0].frame, 0, &mut buffer));
    assert!(!kernel.fetch(&pool, arrivals[1].frame, 1, &mut buffer));
    assert_eq!((counters.kernel_dropped, kernel.ring.has_more()), (1, false));
}

#[test]
fn super_frames_that_are_not_wanted_and_frames_that_are_too_long_leave_nothing_in_the_queue() {
    let mut kernel = Kernel::new(50);
    let mut pool = FramePool::new(80, FRAME).unwrap();
    let mut counters = BackendCounters::default();
    let mut buffer = vec![0; LONGEST_SUPER_FRAME];
    for wanted in [[true, true, true], [false, true, false], [false, false, true], [false; 3], [true; 3]] {
        kernel.deliver(described(0), None, &datagram(3000, 1));
        for seed in 2..5 {
            kernel.deliver(described(1000), None, &datagram(5000, seed));
        }
        let arrivals = kernel.receive(&mut pool, 64, &mut counters);
        assert_eq!((arrivals[0].condition, arrivals[0].len), (Condition::TooLong, 3042));
        for ((arrival, is_wanted), seed) in arrivals[1..].iter().zip(wanted).zip(2u8..) {
            let Condition::Super(number) = arrival.condition else { panic!("{arrival:?}") };
            if is_wanted {
                assert!(kernel.fetch(&pool, arrival.frame, number, &mut buffer));
                assert_eq!(buffer[42..52], datagram(10, seed)[42..]);
            }
        }
        arrivals.iter().for_each(|arrival| pool.give_back(arrival.frame));
    }
    assert!(kernel.receive(&mut pool, 64, &mut counters).is_empty());
    assert_eq!(receive::fetch(&kernel.socket, &mut buffer).unwrap(), 0, "the queue is empty");
}

#[test]
fn a_frame_behind_a_slot_that_is_being_filled_waits_and_is_known() {
    let mut kernel = Kernel::new(50);
    let mut pool = FramePool::new(80, FRAME).unwrap();
    let mut counters = BackendCounters::default();
    kernel.filled = 1;
    kernel.deliver(described(0), None, &datagram(20, 2));
    assert!(kernel.ring.has_more() && kernel.receive(&mut pool, 64, &mut counters).is_empty());
    kernel.filled = 0;
    kernel.deliver(described(0), None, &datagram(10, 1));
    kernel.filled = 2;
    let lengths: Vec<_> = kernel.receive(&mut pool, 64, &mut counters).iter().map(|arrival| arrival.len).collect();
    assert_eq!((lengths, kernel.ring.has_more()), (vec![52, 62], false));
}

#[test]
fn a_quarter_of_the_ring_is_a_flood() {
    let mut kernel = Kernel::new(50);
    let count = kernel.ring.slots.count;
    for _ in 0..count / 4 {
        kernel.deliver(described(0), None, &datagram(10, 1));
        assert!(!kernel.ring.is_flooded());
    }
    kernel.deliver(described(0), None, &datagram(10, 1));
    assert!(kernel.ring.is_flooded());
}

proptest! {
    /// For any numbers in a slot and any description: nothing panics, no frame of the pool is lost, each slot is given
    /// back, and what is good behind them comes.
    #[test]
    fn numbers_that_make_no_sense_stop_nothing(
        slots in proptest::collection::vec(
            (any::<u32>(), any::<[u32; 2]>(), any::<u16>(), any::<[u16; 2]>(), any::<(u8, u8, u16, u16, u16, u16)>(), 0u8..8), 1..20),
    ) {
        let mut kernel = Kernel::new(50);
        let mut pool = FramePool::new(80, FRAME).unwrap();
        let mut counters = BackendCounters::default();
        for (status, [len, held], mac, tag, (flags, kind, header_len, segment, checksum_start, checksum_offset), sane) in slots {
            let header = VirtioHeader { flags, kind: kind % 8, header_len, segment, checksum_start, checksum_offset };
            // Some of the numbers are near what they should be.
            let mac = if sane & 1 == 0 { mac } else { MAC as u16 + mac % 4 };
            let (len, held) = if sane & 2 == 0 { (len, held) } else { (len % 70_000, held % 1600) };
            let said = Said { status, len, held, mac, tag, header };
            kernel.write(said, &datagram(1400, status as u8));
        }
        kernel.deliver(described(0), None, &datagram(100, 3));
        let mut buffer = vec![0; LONGEST_SUPER_FRAME];
        let mut last = None;
        let mut arrived = 0;
        while kernel.ring.has_more() {
            for arrival in kernel.receive(&mut pool, 64, &mut counters) {
                if let Condition::Super(number) = arrival.condition {
                    kernel.fetch(&pool, arrival.frame, number, &mut buffer);
                    prop_assert!(kernel.ring.segments(number).count() <= MOST_SEGMENTS);
                }
                last = Some(arrival.len);
                pool.give_back(arrival.frame);
                arrived += 1;
            }
        }
        prop_assert_eq!((last, pool.free()), (Some(142), pool.frames()));
        prop_assert!(arrived <= 20);
        prop_assert_eq!(kernel.filled, 0);
    }
}
