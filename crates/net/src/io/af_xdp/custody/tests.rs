//! The ledger against a correct model of the kernel, and against one with arbitrary behaviour.

use super::*;
use crate::io::af_xdp::ring::Ring;

/// The kernel's ends of the rings.
struct Kernel {
    fill: Ring<u64>,
    reception: Ring<libc::xdp_desc>,
    transmission: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
}

const FRAMES: u32 = RECEIVING + SENDING + 200;

fn pair() -> (FramePool, Custody, Kernel) {
    let pool = FramePool::new(FRAMES, 2048).unwrap();
    let nothing = || libc::xdp_desc { addr: 0, len: 0, options: 0 };
    let (fill, their_fill) = Ring::ends(RECEIVING, 0);
    let (reception, their_reception) = Ring::ends(RECEIVING, nothing());
    let (transmission, their_transmission) = Ring::ends(SENDING, nothing());
    let (completion, their_completion) = Ring::ends(2 * SENDING, 0);
    let kernel = Kernel {
        fill: their_fill,
        reception: their_reception,
        transmission: their_transmission,
        completion: their_completion,
    };
    let custody = Custody::new(Rings { fill, reception, transmission, completion }, &pool, RECEIVING);
    (pool, custody, kernel)
}

/// Checks that each frame is free, in custody, or in `ours`.
fn check(pool: &FramePool, custody: &Custody, ours: usize) {
    assert_eq!(pool.frames() - pool.free(), custody.receiving() + custody.sending() + ours);
}

struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % below
    }
}

#[test]
fn what_is_received_is_sent_from_where_it_lies_and_comes_back() {
    let (mut pool, mut custody, mut kernel) = pair();
    let mut counters = BackendCounters::default();
    custody.refill(&mut pool);
    assert_eq!(custody.receiving(), RECEIVING as usize);
    let (mut arrivals, mut next, mut expected) = (Vec::new(), 0u8, 0u8);
    for round in 0..if cfg!(miri) { 50 } else { 2000 } {
        let mut addresses = Vec::new();
        kernel.fill.take(7, |address| addresses.push(address));
        for address in addresses {
            // SAFETY: the frame is lent for writing, so that no reference to it exists.
            unsafe { pool.as_mut_ptr().add(address as usize + 256).write_bytes(next, 64) };
            next = next.wrapping_add(1);
            kernel.reception.put(libc::xdp_desc { addr: address + 256, len: 64, options: 0 });
        }
        kernel.reception.publish();
        arrivals.clear();
        custody.take_in(&mut pool, Nanos(round), 64, &mut arrivals, &mut counters);
        let frames: Vec<u32> = arrivals.iter().map(|arrival| arrival.frame).collect();
        for &frame in &frames {
            assert_eq!((pool.packet(frame), pool.info(frame).received), (&[expected; 64][..], Nanos(round)));
            expected = expected.wrapping_add(1);
        }
        assert_eq!(custody.submit(&mut pool, &frames, &mut counters), frames.len());
        let mut sent = Vec::new();
        kernel.transmission.take(64, |descriptor| sent.push(descriptor.addr));
        assert_eq!(sent, frames.iter().map(|&frame| u64::from(frame) * 2048 + 256).collect::<Vec<_>>());
        sent.into_iter().for_each(|address| kernel.completion.put(address));
        kernel.completion.publish();
        custody.complete(&mut pool);
        custody.refill(&mut pool);
        check(&pool, &custody, 0);
    }
    assert!(next > 0 && expected == next);
    // SAFETY: there is no kernel.
    unsafe { custody.release(&mut pool) };
    assert_eq!(pool.free(), pool.frames());
}

#[test]
fn no_more_is_handed_to_the_kernel_than_it_has_room_for_and_than_may_be_under_way() {
    let (mut pool, mut custody, mut kernel) = pair();
    let mut counters = BackendCounters::default();
    let mut frames: Vec<u32> = std::iter::from_fn(|| pool.take()).take(700).collect();
    frames.iter().for_each(|&frame| pool.set_info(frame, FrameInfo { len: 60, ..FrameInfo::default() }));
    let first = custody.submit(&mut pool, &frames, &mut counters);
    assert_eq!((first, custody.sending()), (SENDING as usize, SENDING as usize));
    frames.drain(..first);
    kernel.transmission.take(100, |_| ());
    // The ring has room again, and the frames have not come back.
    assert_eq!(custody.submit(&mut pool, &frames, &mut counters), 0);
    check(&pool, &custody, frames.len());
}

#[test]
fn what_is_withdrawn_is_passed_over_by_the_kernel_and_the_callers_again() {
    let (mut pool, mut custody, mut kernel) = pair();
    let mut counters = BackendCounters::default();
    let frames: Vec<u32> = std::iter::from_fn(|| pool.take()).take(10).collect();
    frames.iter().for_each(|&frame| pool.set_info(frame, FrameInfo { len: 60, ..FrameInfo::default() }));
    assert_eq!(custody.submit(&mut pool, &frames, &mut counters), 10);
    let mut taken = Vec::new();
    kernel.transmission.take(4, |descriptor| taken.push(descriptor.addr / 2048));
    custody.withdraw(&mut pool, &frames[4..]);
    check(&pool, &custody, 6);
    kernel.transmission.take(10, |descriptor| assert_eq!(descriptor.len, 0, "it was withdrawn"));
    taken.iter().for_each(|frame| kernel.completion.put(frame * 2048));
    kernel.completion.publish();
    // The driver dropped the last frame that was taken.
    assert!(custody.complete_but(&mut pool, frames[3]));
    check(&pool, &custody, 7);
    assert!(!custody.complete_but(&mut pool, frames[3]), "it has come back already");
    frames[3..].iter().for_each(|&frame| pool.give_back(frame));
    assert_eq!(pool.free(), pool.frames());
}

#[test]
fn whatever_the_rings_say_no_frame_has_two_owners_and_all_come_back_at_the_end() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut arrived = 0;
    for _ in 0..if cfg!(miri) { 3 } else { 30 } {
        let (mut pool, mut custody, mut kernel) = pair();
        let mut counters = BackendCounters::default();
        let mut ours: Vec<u32> = Vec::new();
        for _ in 0..400 {
            let address = |numbers: &mut Numbers| match numbers.next(8) {
                0 => u64::MAX - numbers.next(5000),
                1 => numbers.next(1 << 40),
                _ => numbers.next(u64::from(FRAMES) * 2048),
            };
            match numbers.next(9) {
                0 => custody.refill(&mut pool),
                1 => {
                    let mut arrivals = Vec::new();
                    custody.take_in(&mut pool, Nanos::ZERO, 64, &mut arrivals, &mut counters);
                    arrived += arrivals.len();
                    for arrival in arrivals {
                        assert_eq!(pool.packet(arrival.frame).len(), arrival.len as usize);
                        ours.push(arrival.frame);
                    }
                }
                2 => {
                    let count = custody.submit(&mut pool, &ours, &mut counters);
                    ours.drain(..count);
                }
                3 => custody.complete(&mut pool),
                4 => {
                    for _ in 0..numbers.next(100) {
                        let len = [0, 60, 1500, 2048, 5000, u32::MAX][numbers.next(6) as usize];
                        let addr = address(&mut numbers);
                        if kernel.reception.room() > 0 {
                            kernel.reception.put(libc::xdp_desc { addr, len, options: u32::MAX });
                        }
                    }
                    kernel.reception.publish();
                }
                5 => {
                    for _ in 0..numbers.next(100) {
                        let address = address(&mut numbers);
                        if kernel.completion.room() > 0 {
                            kernel.completion.put(address);
                        }
                    }
                    kernel.completion.publish();
                }
                6 => kernel.reception.disturb(Some(numbers.next(1 << 32) as u32), None),
                7 => kernel.completion.disturb(Some(numbers.next(1 << 32) as u32), None),
                _ => {
                    kernel.fill.disturb(None, Some(numbers.next(1 << 32) as u32));
                    kernel.transmission.disturb(None, Some(numbers.next(1 << 32) as u32));
                }
            }
            check(&pool, &custody, ours.len());
        }
        ours.into_iter().for_each(|frame| pool.give_back(frame));
        // SAFETY: there is no kernel.
        unsafe { custody.release(&mut pool) };
        assert_eq!(pool.free(), pool.frames());
    }
    assert!(arrived > if cfg!(miri) { 0 } else { 1000 }, "{arrived}");
}
