use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const L: u32 = 1_500;
const STEP: Nanos = Nanos::from_micros(10);

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

/// A sender through a pool: its arrivals, the rate of its link, and its assured rate. It uses the assured rate without
/// asking if `base` is true.
#[derive(Clone, Debug)]
struct Sender {
    comes_bps: u64,
    link_bps: u64,
    packet: u32,
    base: bool,
    /// In billionths of a bit.
    queued: i128,
    link: i128,
    own: i128,
    sent: Vec<(Nanos, u64)>,
}

const UNITS: i128 = 8_000_000_000;

impl Sender {
    fn new(comes_bps: u64, link_bps: u64) -> Self {
        Self { comes_bps, link_bps, packet: L, base: false, queued: 0, link: 0, own: 0, sent: Vec::new() }
    }

    /// Sends during a step that ends at `now`.
    fn step(&mut self, pool: &Exact, index: usize, base_bps: u64, now: Nanos) {
        let brings = |bps: u64| i128::from(bps) * i128::from(STEP.0);
        let len = i128::from(self.packet) * UNITS;
        // Greedy ones have a queue that never ends.
        self.queued = (self.queued + brings(self.comes_bps)).min(1_000 * len);
        self.link = (self.link + brings(self.link_bps)).min(brings(self.link_bps).max(len));
        self.own = (self.own + brings(base_bps)).min(2 * UNITS * i128::from(L));
        while self.queued >= len && self.link >= 0 {
            let green = self.base && self.own >= 0;
            if !green && pool.may_borrow(index, now).is_err() {
                break;
            }
            self.queued -= len;
            pool.sent(index, now, self.packet, self.queued >= len);
            self.link -= len;
            self.own -= len;
            self.sent.push((now, u64::from(self.packet)));
        }
    }

    fn bps(&self, from: Nanos, to: Nanos) -> f64 {
        let bytes: u64 = self.sent.iter().filter(|&&(at, _)| at > from && at <= to).map(|&(_, len)| len).sum();
        bytes as f64 * 8e9 / (to.0 - from.0) as f64
    }
}

fn run(pool: &Exact, bases: &[u64], senders: &mut [Sender], from: Nanos, to: Nanos) {
    let mut now = from;
    while now < to {
        now += STEP;
        for (index, sender) in senders.iter_mut().enumerate() {
            sender.step(pool, index, bases[index], now);
        }
    }
}

/// Weighted max-min fairness by bisection of the level, independent of how the pool fills.
fn max_min(rate: f64, bases: &[u64], wants: &[f64]) -> Vec<f64> {
    let at = |level: f64| {
        bases.iter().zip(wants).map(|(&base, &wants)| wants.min(level * base as f64)).collect::<Vec<f64>>()
    };
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..200 {
        let mid = (low + high) / 2.0;
        if at(mid).iter().sum::<f64>() <= rate { low = mid } else { high = mid }
    }
    at(low)
}

fn pool(rate_bps: u64, burst: u64, bases: &[u64]) -> Exact {
    Exact::new(rate(rate_bps), burst, &bases.iter().map(|&base| rate(base)).collect::<Vec<_>>())
}

const MBIT: u64 = 1_000_000;

#[test]
fn greedy_members_share_by_their_bases_in_every_ten_milliseconds() {
    let bases = [500 * MBIT, 300 * MBIT];
    let shared = pool(1_000 * MBIT, 10_000, &bases);
    let mut senders = vec![Sender::new(2_000 * MBIT, 1_000 * MBIT), Sender::new(2_000 * MBIT, 1_000 * MBIT)];
    run(&shared, &bases, &mut senders, Nanos::ZERO, Nanos::from_millis(200));
    for tens in 1..20 {
        let (from, to) = (Nanos::from_millis(10 * tens), Nanos::from_millis(10 * tens + 10));
        let got = [0, 1].map(|at: usize| senders[at].bps(from, to) / 1e6);
        assert!((got[0] - 625.0).abs() < 12.5 && (got[1] - 375.0).abs() < 7.5, "{tens}: {got:?}");
    }
}

#[test]
fn what_one_member_leaves_another_has_at_once_and_gives_back_within_ten_milliseconds() {
    let bases = [50 * MBIT, 50 * MBIT];
    let shared = pool(100 * MBIT, 3_000, &bases);
    let mut senders = vec![Sender::new(20 * MBIT, 100 * MBIT), Sender::new(200 * MBIT, 100 * MBIT)];
    let at = Nanos::from_millis;
    run(&shared, &bases, &mut senders, at(0), at(100));
    let got = [0, 1].map(|of: usize| senders[of].bps(at(20), at(100)) / 1e6);
    assert!((got[0] - 20.0).abs() < 0.4 && (got[1] - 80.0).abs() < 0.8, "{got:?}");
    senders[0].comes_bps = 200 * MBIT;
    run(&shared, &bases, &mut senders, at(100), at(200));
    let got = [0, 1].map(|of: usize| senders[of].bps(at(110), at(200)) / 1e6);
    assert!((got[0] - 50.0).abs() < 1.0 && (got[1] - 50.0).abs() < 1.0, "{got:?}");
    // After one more packet it has none.
    senders[0].comes_bps = 0;
    senders[0].queued = i128::from(L) * UNITS;
    run(&shared, &bases, &mut senders, at(200), at(300));
    assert!((senders[1].bps(at(204), at(300)) / 1e6 - 100.0).abs() < 1.0, "{}", senders[1].bps(at(204), at(300)));
}

#[test]
fn a_member_whose_link_holds_it_back_leaves_the_rest() {
    let bases = [50 * MBIT, 50 * MBIT];
    let shared = pool(100 * MBIT, 3_000, &bases);
    let mut senders = vec![Sender::new(200 * MBIT, 10 * MBIT), Sender::new(200 * MBIT, 100 * MBIT)];
    let at = Nanos::from_millis;
    run(&shared, &bases, &mut senders, at(0), at(200));
    let got = [0, 1].map(|of: usize| senders[of].bps(at(20), at(200)) / 1e6);
    assert!((got[0] - 10.0).abs() < 0.2 && (got[1] - 90.0).abs() < 1.0, "{got:?}");
}

#[test]
fn a_pool_slower_than_a_packet_a_period_shares_by_bases_too() {
    // The text's slot: 100 kB/s, which yield 100 B per period.
    let bases = [400_000, 240_000];
    let shared = pool(800_000, 2_000, &bases);
    let mut senders = vec![Sender::new(2 * MBIT, 10 * MBIT), Sender::new(2 * MBIT, 10 * MBIT)];
    senders[1].packet = 500;
    let at = Nanos::from_millis;
    run(&shared, &bases, &mut senders, at(0), at(4_000));
    let got = [0, 1].map(|of: usize| senders[of].bps(at(500), at(4_000)) / 1e3);
    assert!((got[0] - 500.0).abs() < 10.0 && (got[1] - 300.0).abs() < 6.0, "{got:?}");
}

#[test]
fn new_values_count_from_the_next_period_on() {
    let shared = pool(100 * MBIT, 3_000, &[50 * MBIT, 50 * MBIT]);
    let mut senders = vec![Sender::new(400 * MBIT, 200 * MBIT), Sender::new(400 * MBIT, 200 * MBIT)];
    let at = Nanos::from_millis;
    run(&shared, &[0, 0], &mut senders, at(0), at(50));
    shared.retune(rate(200 * MBIT), 3_000, &[rate(50 * MBIT), rate(150 * MBIT)]);
    run(&shared, &[0, 0], &mut senders, at(50), at(150));
    let got = [0, 1].map(|of: usize| senders[of].bps(at(60), at(150)) / 1e6);
    assert!((got[0] - 50.0).abs() < 1.0 && (got[1] - 150.0).abs() < 3.0, "{got:?}");
}

#[test]
fn a_member_that_is_late_after_it_was_refused_has_its_share_all_the_same() {
    let bases = [60 * MBIT, 30 * MBIT];
    let shared = pool(90 * MBIT, 3_000, &bases);
    let mut senders = [Sender::new(4_000 * MBIT, 4_000 * MBIT), Sender::new(4_000 * MBIT, 4_000 * MBIT)];
    let at = Nanos::from_millis;
    // Whenever the first is refused it comes five milliseconds later, as a thread does that sleeps and gets no processor.
    let (mut now, mut next) = (at(0), at(0));
    while now < at(600) {
        now += STEP;
        if now >= next {
            senders[0].step(&shared, 0, 0, now);
            if shared.seats[0].credit.load(Relaxed) <= 0 {
                next = now + at(5);
            }
        }
        senders[1].step(&shared, 1, 0, now);
    }
    let got = [0, 1].map(|of: usize| senders[of].bps(at(60), at(600)) / 1e6);
    assert!((got[0] - 60.0).abs() < 1.2 && (got[0] + got[1] - 90.0).abs() < 0.9, "{got:?}");
    // And is forgotten when it does not come any more.
    while now < at(700) {
        now += STEP;
        senders[1].step(&shared, 1, 0, now);
    }
    assert!((senders[1].bps(at(620), at(700)) / 1e6 - 90.0).abs() < 1.0, "{}", senders[1].bps(at(620), at(700)));
}

#[test]
fn members_that_are_all_visited_rarely_lose_nothing() {
    // Two rounds of links with large packets: every member has its turn every few milliseconds, and sends all that it may.
    let bases = [60 * MBIT, 40 * MBIT];
    for every in [1, 3, 7] {
        let shared = pool(100 * MBIT, 3_000, &bases);
        let mut sent = [0u64; 2];
        for turn in 1..=1_000 {
            let now = Nanos::from_millis(every * turn);
            for (index, sent) in sent.iter_mut().enumerate() {
                while shared.may_borrow(index, now).is_ok() {
                    shared.sent(index, now, L, true);
                    *sent += u64::from(L);
                }
            }
        }
        let mbps = sent.map(|bytes| bytes as f64 * 8.0 / (every * 1_000_000) as f64);
        assert!((mbps[0] - 60.0).abs() < 0.6 && (mbps[1] - 40.0).abs() < 0.4, "every {every} ms: {mbps:?}");
    }
}

#[test]
fn threads_that_meet_lose_and_invent_no_credit() {
    let bases = [MBIT; 4];
    let shared = pool(4_000 * MBIT, 5_000, &bases);
    let clock = AtomicU64::new(0);
    let sent = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for index in 0..bases.len() {
            let (shared, clock, sent) = (&shared, &clock, &sent);
            scope.spawn(move || {
                for turn in 0..100_000u64 {
                    let now = Nanos(clock.fetch_add(97, Relaxed));
                    // One of them sends without asking.
                    if index == 3 && turn % 50 == 0 || shared.may_borrow(index, now).is_ok() {
                        shared.sent(index, now, 700, true);
                        sent.fetch_add(700, Relaxed);
                    }
                }
            });
        }
    });
    let outstanding: i64 =
        shared.seats.iter().map(|seat| seat.credit.load(Relaxed)).sum::<i64>() + shared.spare.load(Relaxed);
    let brought = i128::from(4_000 * MBIT) * i128::from(shared.last.load(Relaxed)) / UNITS;
    let total = i128::from(sent.load(Relaxed)) + i128::from(outstanding);
    // The whole yield, and no more than may be outstanding.
    assert!(total <= 5_000 + brought, "{total} of {brought}");
    assert!(!shared.at_work.load(Relaxed) && sent.load(Relaxed) > 1_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The bound in the module's documentation, and work conservation, for members of any kind that begin and end at
    /// any time.
    #[test]
    fn the_total_is_never_above_the_pool_and_never_below_what_is_wanted(
        rate_mbit in 5u64..400,
        burst in 0u64..5_000,
        parts in prop::collection::vec(1u64..20, 1..6),
        phases in prop::collection::vec(prop::collection::vec((0u64..3, 1u64..400, 64u32..=1_500, any::<bool>()), 6), 1..4),
    ) {
        let all: u64 = parts.iter().sum();
        let bases: Vec<u64> = parts.iter().map(|part| rate_mbit * MBIT * part / all).collect();
        let shared = pool(rate_mbit * MBIT, burst, &bases);
        let mut senders: Vec<Sender> = parts.iter().map(|_| Sender::new(0, 0)).collect();
        let length = Nanos::from_millis(60);
        for (number, phase) in phases.iter().enumerate() {
            let from = Nanos(length.0 * number as u64);
            let to = from + length;
            let mut wants = Vec::new();
            for (index, (sender, &(kind, mbit, packet, base))) in senders.iter_mut().zip(phase).enumerate() {
                // Its queue is emptied.
                shared.sent(index, from, 0, false);
                let comes = [0, mbit * MBIT, 1_000 * MBIT][kind as usize];
                (sender.comes_bps, sender.link_bps, sender.packet, sender.base, sender.queued) = (comes, 500 * MBIT, packet, base, 0);
                wants.push(comes.min(500 * MBIT) as f64);
            }
            // Rates from the twentieth millisecond of the phase on, compared with max-min fairness of the arrivals, and
            // of the arrivals plus the backlog at that time.
            let (begin, span) = (from + Nanos::from_millis(20), 0.04);
            run(&shared, &bases, &mut senders, from, begin);
            let waiting: Vec<f64> = senders.iter().map(|sender| (sender.queued / 1_000_000_000) as f64 / span).collect();
            run(&shared, &bases, &mut senders, begin, to);
            let with_queues: Vec<f64> = wants.iter().zip(waiting).map(|(wants, waiting)| (wants + waiting).min(500e6)).collect();
            let ideals = [wants, with_queues].map(|wants| max_min((rate_mbit * MBIT) as f64, &bases, &wants));
            for (at, sender) in senders.iter().enumerate() {
                let (got, low, high) = (sender.bps(begin, to), ideals[0][at].min(ideals[1][at]), ideals[0][at].max(ideals[1][at]));
                // The possible outstanding credit, packets at both ends, and a tolerance of 2 %.
                let outstanding = burst as f64 + 2e-3 * (rate_mbit * MBIT) as f64 / 8.0;
                let most = 0.02 * high + 8.0 * (outstanding + 3.0 * f64::from(L)) / span;
                prop_assert!(got >= low - most && got <= high + most, "phase {}, member {}: {} beside {} to {}", number, at, got, low, high);
            }
        }
        let mut sent: Vec<(Nanos, u64)> = senders.iter().flat_map(|sender| sender.sent.iter().copied()).collect();
        sent.sort_unstable();
        let rate_bps = rate_mbit as f64 * 1e6;
        // A member may be late by eight milliseconds.
        let slack = burst as f64 + (4.0 + PATIENCE[0].0 as f64 * 1e-6) * rate_bps / 8.0 * 1e-3 + parts.len() as f64 * (2.0 + 1.0) * f64::from(L);
        // Largest excess over the rate of any interval, in one pass.
        let (mut total, mut least) = (0.0f64, f64::MAX);
        for &(at, len) in &sent {
            let line = at.0 as f64 * 1e-9 * rate_bps / 8.0;
            least = least.min(total - line);
            total += len as f64;
            prop_assert!(total - line - least <= slack, "{} over {}", total - line - least, slack);
        }
    }
}
