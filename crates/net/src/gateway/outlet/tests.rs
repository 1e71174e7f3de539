//! Frames that an interface accepts, does not accept now, or never accepts.

use super::*;
use crate::io::frame_pool::{FrameInfo, HEADROOM};
use crate::io::virtual_link::VirtualLink;

/// Frames that begin with this byte are never accepted, with the error of a full interface.
const BAD: u8 = 0xbd;

struct Bench {
    outlet: Outlet,
    link: VirtualLink,
    pool: FramePool,
    waiting: Vec<u32>,
    accepted: u64,
    refused: u64,
    now: Nanos,
}

impl Bench {
    fn new() -> Self {
        let mut link = VirtualLink::default();
        link.unwilling.push(BAD);
        Self {
            outlet: Outlet::default(),
            link,
            pool: FramePool::new(64, 100).unwrap(),
            waiting: Vec::new(),
            accepted: 0,
            refused: 0,
            now: Nanos::ZERO,
        }
    }

    fn push(&mut self, first: u8) {
        let frame = self.pool.take().unwrap();
        self.pool.frame_mut(frame)[HEADROOM..HEADROOM + 20].fill(first);
        self.pool.set_info(
            frame,
            FrameInfo { start: HEADROOM as u32, len: 20, received: Nanos::ZERO, ..FrameInfo::default() },
        );
        self.waiting.push(frame);
    }

    /// Adds a frame that is too long for the other end; the interface reports it as being full.
    fn push_long(&mut self) {
        self.push(BAD);
        let frame = self.waiting[self.waiting.len() - 1];
        self.pool.set_info(
            frame,
            FrameInfo { start: HEADROOM as u32, len: 40, received: Nanos::ZERO, ..FrameInfo::default() },
        );
    }

    fn offer(&mut self) {
        let Self { outlet, link, pool, waiting, accepted, refused, now } = self;
        let (done, error) = outlet.offer(*now, link, pool, waiting, |_, outcome| match outcome {
            Outcome::Accepted(range) => *accepted += range.len() as u64,
            Outcome::Refused(_, reason) => {
                assert_eq!(reason.raw_os_error(), Some(libc::ENOBUFS));
                *refused += 1;
            }
        });
        assert!(error.is_none());
        waiting.drain(..done);
    }

    /// Offers frames at each time of the next attempt, until none waits. Returns the time that this took.
    fn until_empty(&mut self) -> Nanos {
        let start = self.now;
        self.offer();
        while !self.waiting.is_empty() {
            assert!(self.outlet.retry_at() > self.now, "it is not asked again at once");
            self.now = self.outlet.retry_at();
            self.offer();
        }
        self.now.saturating_sub(start)
    }
}

#[test]
fn a_frame_that_is_never_taken_is_given_up_and_those_behind_it_leave() {
    let mut bench = Bench::new();
    for first in [1, BAD, 2, 3] {
        bench.push(first);
    }
    let took = bench.until_empty();
    assert_eq!((bench.accepted, bench.refused), (3, 1));
    assert!(took >= PATIENCE && took <= PATIENCE.saturating_add(LONGEST_RETRY), "{took}");
    assert_eq!(bench.pool.free(), 64);
    // It does not try all the time: the pauses double from 50 us to 1 ms.
    assert!(bench.link.tries < 15, "{}", bench.link.tries);
}

#[test]
fn a_stream_of_frames_that_are_never_taken_costs_the_others_little() {
    let mut bench = Bench::new();
    let mut took = Nanos::ZERO;
    for n in 0..1000 {
        bench.push(if n % 2 == 0 { BAD } else { 1 });
        took = took.saturating_add(bench.until_empty());
    }
    assert_eq!((bench.accepted, bench.refused), (500, 500));
    // 5 ms, a quarter of that, and so on, each longer by at most a pause.
    assert!(took < Nanos::from_millis(10), "{took}");
}

#[test]
fn frames_too_long_for_the_other_end_cost_next_to_nothing_however_many_there_are() {
    let mut bench = Bench::new();
    let mut took = Nanos::ZERO;
    for n in 0..100 {
        bench.push(1);
        for _ in 0..40 {
            bench.push_long();
        }
        bench.push(2);
        took = took.saturating_add(bench.until_empty());
        // The first batch is decisive: until its end, no shorter frame has been accepted after the first long one.
        if n == 0 {
            assert!(took < Nanos::from_millis(250), "{took}");
            took = Nanos::ZERO;
        }
    }
    assert_eq!((bench.accepted, bench.refused), (200, 4000));
    assert_eq!(took, Nanos::ZERO);
    // The outlet adapts to an interface that accepts long frames again.
    bench.link.unwilling.clear();
    bench.push_long();
    bench.until_empty();
    assert_eq!((bench.refused, bench.outlet.too_long), (4000, None));
}

#[test]
fn an_interface_that_is_full_for_a_while_loses_no_frame() {
    let mut bench = Bench::new();
    // Its patience was used up by one kind of frame.
    for n in 0..20 {
        bench.push(if n % 2 == 0 { BAD } else { 1 });
        bench.until_empty();
    }
    let lost = bench.refused;
    // Then it is full for 4 ms, with the same error. A few frames are given up at once, and no more.
    bench.link.unwilling = vec![1];
    for _ in 0..30 {
        bench.push(1);
    }
    let full = bench.now.saturating_add(Nanos::from_millis(4));
    while bench.now < full {
        bench.offer();
        bench.now = bench.outlet.retry_at();
    }
    bench.link.unwilling.clear();
    bench.until_empty();
    assert!(bench.refused <= lost + u64::from(ROW), "{} {lost}", bench.refused);
    let lost = bench.refused;
    // From here on it is known to be full at times, and none is lost.
    bench.link.unwilling = vec![2];
    bench.push(2);
    bench.offer();
    bench.now = bench.outlet.retry_at();
    bench.link.unwilling.clear();
    bench.until_empty();
    assert_eq!((bench.refused, bench.outlet.patience), (lost, PATIENCE));
}

#[test]
fn frames_wait_for_carrier_and_the_interface_is_asked_seldom() {
    let mut bench = Bench::new();
    bench.link.unplugged = true;
    for _ in 0..5 {
        bench.push(1);
    }
    let end = Nanos::from_secs(10);
    while bench.now < end {
        bench.offer();
        assert!(bench.outlet.waits_for_carrier());
        bench.now = bench.outlet.retry_at();
    }
    assert_eq!((bench.accepted, bench.refused, bench.waiting.len()), (0, 0, 5));
    assert!(bench.link.tries < 600, "{}", bench.link.tries);
    bench.link.unplugged = false;
    bench.until_empty();
    assert_eq!((bench.accepted, bench.refused), (5, 0));
    assert!(!bench.outlet.waits_for_carrier());
}

#[test]
fn a_backend_that_takes_a_few_at_once_gets_the_rest_without_a_pause() {
    let mut bench = Bench::new();
    bench.link.at_once = Some(4);
    for _ in 0..10 {
        bench.push(1);
    }
    for left in [6, 2] {
        bench.offer();
        assert_eq!((bench.waiting.len(), bench.outlet.has_more(), bench.outlet.retry_at()), (left, true, Nanos::ZERO));
    }
    bench.offer();
    assert_eq!((bench.accepted, bench.outlet.has_more(), bench.outlet.busy), (10, false, 0));
    // One that takes none at all is busy, whatever it says.
    bench.link.at_once = Some(0);
    bench.push(1);
    bench.offer();
    assert_eq!((bench.outlet.has_more(), bench.outlet.busy), (false, 1));
    assert!(bench.outlet.retry_at() > bench.now);
}
