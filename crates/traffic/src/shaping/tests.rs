//! Shapers are compared with independent checkers without buckets and queues, which test every interval of the output.

use fairlink_core::{Nanos, PerWindow, QueueLimits, Rate};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::*;
use crate::curve::{ArrivalCurve, ArrivalLimit};
use ArrivalLimit::{Bucket, Line, Spacing, Window};

type Sent = Vec<(Nanos, u32)>;

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

/// Every pair of packets, the first and the last of an interval: the definition, letter by letter.
fn breaks_by_definition(sent: &Sent, limit: ArrivalLimit) -> Option<(usize, usize)> {
    (0..sent.len()).find_map(|first| {
        let mut bytes = 0u128;
        (first..sent.len()).find_map(|last| {
            bytes += u128::from(sent[last].1);
            let (span, packets) = (u128::from(sent[last].0.0 - sent[first].0.0), (last - first + 1) as u128);
            let kept = match limit {
                Bucket { burst, rate_bps } => {
                    bytes * 8_000_000_000 <= u128::from(burst) * 8_000_000_000 + u128::from(rate_bps) * span
                }
                // Two instants are in one half-open interval if they are less than its length apart.
                Window { amount, every } => {
                    let (own, most) = match amount {
                        PerWindow::Bytes(most) => (bytes, most),
                        PerWindow::Packets(most) => (packets, most),
                    };
                    span >= u128::from(every.0) || own <= u128::from(most)
                }
                Spacing { min_gap, mean_gap, over, largest } => {
                    (packets == 1 || span >= u128::from(min_gap.0))
                        && (span >= u128::from(over.0) || packets * u128::from(mean_gap.0) <= u128::from(over.0))
                        && sent[last].1 <= largest
                }
                // Packets behind the first crossed the line since then, and instants are rounded up by less than 1 ns.
                Line { rate } => {
                    (bytes - u128::from(sent[first].1)) * 8_000_000_000 <= u128::from(rate.bps()) * (span + 1)
                }
            };
            (!kept).then_some((first, last))
        })
    })
}

/// The same in one pass over long runs: checks the worst of all intervals that end with a packet.
fn breaks(sent: &Sent, limit: ArrivalLimit) -> Option<usize> {
    // bits - rate * time, with time in ns and bits times 10^9: least at the worst beginning of an interval.
    let line = |rate_bps: u64, burst: i128, own_first: bool| {
        let (mut before, mut least) = (0i128, i128::MAX);
        sent.iter().position(|&(at, len)| {
            let drained = i128::from(rate_bps) * i128::from(at.0);
            let len = i128::from(len) * 8_000_000_000;
            least = least.min(before + if own_first { 0 } else { len } - drained);
            before += len;
            before - drained - least > burst
        })
    };
    // The first packet that is still in a half-open interval which ends with each.
    let window = |every: Nanos, most: u64, own: &dyn Fn(u32) -> u64| {
        let (mut first, mut sum) = (0, 0);
        sent.iter().position(|&(at, len)| {
            sum += u128::from(own(len));
            while sent[first].0.0 + every.0 <= at.0 {
                sum -= u128::from(own(sent[first].1));
                first += 1;
            }
            sum > u128::from(most)
        })
    };
    match limit {
        Bucket { burst, rate_bps } => line(rate_bps, i128::from(burst) * 8_000_000_000, true),
        Line { rate } => line(rate.bps(), rate.bps().into(), false),
        Window { amount: PerWindow::Bytes(most), every } => window(every, most, &u64::from),
        Window { amount: PerWindow::Packets(most), every } => window(every, most, &|_| 1),
        Spacing { min_gap, mean_gap, over, largest } => {
            let close = sent.windows(2).position(|pair| pair[1].0.0 - pair[0].0.0 < min_gap.0);
            let long = sent.iter().position(|&(_, len)| len > largest);
            close.or(long).or_else(|| window(over, over.0 / mean_gap.0, &|_| 1))
        }
    }
}

/// Curves of every kind, whose rates are about 8 Mbit/s.
fn curves() -> Vec<Vec<ArrivalLimit>> {
    let ms = |ms: u64| Nanos::from_millis(ms);
    let bucket = Bucket { burst: 4_001, rate_bps: 7_999_993 };
    let window = ArrivalLimit::rate_in(rate(8_000_000), ms(7));
    let spacing = Spacing { min_gap: Nanos(123_457), mean_gap: Nanos(700_001), over: ms(13), largest: 1400 };
    let line = Line { rate: rate(23_456_789) };
    vec![
        vec![bucket],
        vec![Bucket { burst: 30_000, rate_bps: 6_000_000 }, bucket, Bucket { burst: 1_500, rate_bps: 40_000_000 }],
        vec![window],
        vec![Window { amount: PerWindow::Packets(9), every: Nanos(7_654_321) }],
        vec![spacing],
        vec![line],
        vec![Line { rate: rate(100_000_000_000) }],
        vec![bucket, window, spacing, line],
    ]
}

/// Random arrivals, now far apart, now at once, some 10 Mbit/s on average.
fn arrivals(seed: u64, count: usize) -> impl Iterator<Item = (Nanos, u32)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut at = 0;
    (0..count).map(move |_| {
        let draw = random.next_u64();
        at += match draw % 8 {
            0..5 => 0,
            5 => 1 + (draw >> 32) % 1_000,
            6 => (draw >> 32) % 500_000,
            _ => (draw >> 32) % 6_000_000,
        };
        (Nanos(at), 40 + (random.next_u64() % 1361) as u32)
    })
}

/// Returns the output of a shaper of `limits` for random arrivals, without lost packets.
fn shaped(limits: &[ArrivalLimit], room: Option<QueueLimits>, seed: u64, count: usize) -> (Sent, Shaper) {
    let mut shaper = Shaper::new(&ArrivalCurve::new(limits).unwrap(), room).unwrap();
    let sent = arrivals(seed, count).filter_map(|(at, len)| Some((shaper.arrive(at, len).ok()?, len))).collect();
    (sent, shaper)
}

#[test]
fn the_checker_in_one_pass_finds_what_the_definition_finds() {
    let mut broken = 0;
    for limits in curves() {
        let (kept, _) = shaped(&limits, None, 3, 300);
        for (at, &limit) in limits.iter().enumerate() {
            assert_eq!((breaks_by_definition(&kept, limit), breaks(&kept, limit)), (None, None), "{limit:?}");
            // A packet a nanosecond too early, and random traffic.
            for seed in 0..40 {
                let mut sent = kept.clone();
                if seed > 0 {
                    let place = 1 + (seed as usize * 7 + at) % (sent.len() - 1);
                    sent[place].0 = Nanos(sent[place].0.0.saturating_sub(seed % 3 + 1)).max(sent[place - 1].0);
                } else {
                    sent = arrivals(9, 300).collect();
                }
                let both = (breaks_by_definition(&sent, limit).is_some(), breaks(&sent, limit).is_some());
                assert_eq!(both.0, both.1, "{limit:?} {seed}");
                broken += u32::from(both.0);
            }
        }
    }
    assert!(broken > 100, "{broken}");
}

fn shapers_keep_their_curves(count: usize) {
    for (seed, limits) in curves().into_iter().enumerate() {
        let finite = QueueLimits { packets: 30, bytes: 40_000 };
        for room in [None, Some(finite)] {
            let (sent, shaper) = shaped(&limits, room, seed as u64, count);
            assert!(sent.is_sorted_by_key(|&(at, _)| at), "{limits:?}");
            for &limit in &limits {
                assert_eq!(breaks(&sent, limit).map(|at| sent[at]), None, "{limit:?} of {limits:?}");
            }
            assert_eq!(sent.len() as u64 + shaper.lost().packets, count as u64);
            assert!(room.is_none() || shaper.remembered() < 2000, "{limits:?}: {}", shaper.remembered());
            // A meter finds no excess either.
            let meter = |sent: &[(Nanos, u32)]| {
                let mut meter = Meter::new(&ArrivalCurve::new(&limits).unwrap()).unwrap();
                sent.iter().filter(|&&(at, len)| !meter.arrive(at, len)).count()
            };
            assert_eq!(meter(&sent), 0, "{limits:?}");
        }
    }
}

#[test]
fn shapers_never_break_their_curve() {
    // CONTRIBUTING.md has the longer suite.
    let packets = std::env::var("FAIRLINK_PACKETS").ok().and_then(|count| count.parse().ok());
    shapers_keep_their_curves(packets.unwrap_or(100_000));
}

#[test]
fn shapers_hold_no_packet_longer_than_they_must() {
    for limits in curves().into_iter().filter(|limits| !limits.iter().any(|limit| matches!(limit, Line { .. }))) {
        let curve = ArrivalCurve::new(&limits).unwrap();
        let mut shaper = Shaper::new(&curve, None).unwrap();
        let mut sent: Sent = Vec::new();
        for (at, len) in arrivals(5, 250) {
            let Ok(leaves) = shaper.arrive(at, len) else { continue };
            let at_least = sent.last().map_or(at, |&(before, _)| before.max(at));
            if leaves > at_least {
                sent.push((Nanos(leaves.0 - 1), len));
                assert!(
                    limits.iter().any(|&limit| breaks_by_definition(&sent, limit).is_some()),
                    "{limits:?} at {leaves}"
                );
                sent.pop();
            }
            sent.push((leaves, len));
        }
    }
}

#[test]
fn a_line_sends_packets_back_to_back_at_its_rate_and_loses_no_fraction() {
    // 8 ns for 100 B at 100 Gbit/s; 2.4 ns for 3 B at 10 Gbit/s.
    let mut line = Shaper::new(&Line { rate: rate(100_000_000_000) }.into(), None).unwrap();
    assert_eq!([10, 10, 40].map(|at| line.arrive(Nanos(at), 100).unwrap().0), [18, 26, 48]);
    let mut line = Shaper::new(&Line { rate: rate(10_000_000_000) }.into(), None).unwrap();
    let times = [0; 6].map(|at| line.arrive(Nanos(at), 3).unwrap().0);
    assert_eq!(times, [3, 5, 8, 10, 12, 15]);
}

#[test]
fn a_full_queue_loses_packets_and_counts_them() {
    let curve = Bucket { burst: 1000, rate_bps: 8_000_000 }.into();
    let mut shaper = Shaper::new(&curve, Some(QueueLimits { packets: 2, bytes: 1500 })).unwrap();
    let mut at = |ms: u64, len| shaper.arrive(Nanos::from_millis(ms), len).map(|leaves| leaves.0 / 1_000_000);
    assert_eq!([at(0, 1000), at(0, 1000), at(0, 1000), at(0, 400)], [Ok(0), Ok(1), Err(Lost::NoRoom), Ok(1)]);
    assert_eq!([at(0, 1), at(1, 1000), at(9, 1001)], [Err(Lost::NoRoom), Ok(2), Err(Lost::TooLong)]);
    assert_eq!((shaper.lost().packets, shaper.lost().bytes), (3, 2002));
}

#[test]
fn what_a_policer_lets_through_keeps_the_curve_and_uses_it_up() {
    for limits in curves() {
        let mut policer = Policer::new(&ArrivalCurve::new(&limits).unwrap()).unwrap();
        let all: Sent = arrivals(11, 100_000).collect();
        let passed: Sent = all.iter().filter(|&&(at, len)| policer.arrive(at, len).is_some()).copied().collect();
        assert_eq!(passed.len() as u64 + policer.dropped().packets, all.len() as u64);
        assert!(passed.len() > 5_000, "{limits:?}: {}", passed.len());
        for &limit in &limits {
            assert_eq!(breaks(&passed, limit), None, "{limit:?} of {limits:?}");
        }
        // It drops no packet that would have conformed.
        let (mut passed, mut policer) = (Sent::new(), Policer::new(&ArrivalCurve::new(&limits).unwrap()).unwrap());
        for &(at, len) in &all[..250] {
            passed.push((at, len));
            let kept = limits.iter().all(|&limit| breaks_by_definition(&passed, limit).is_none());
            assert_eq!(policer.arrive(at, len).is_some(), kept, "{limits:?} at {at}");
            if !kept {
                passed.pop();
            }
        }
    }
}

#[test]
fn a_window_remembers_no_more_instants_than_it_says() {
    let curve = ArrivalCurve::from(Window { amount: PerWindow::Bytes(u64::MAX), every: Nanos(10_000_000) });
    let mut shaper = Shaper::new(&curve, None).unwrap();
    for at in 0..(MAX_REMEMBERED as u64 + 1000) {
        let leaves = shaper.arrive(Nanos(at), 1).unwrap();
        assert_eq!(leaves.0, if at < MAX_REMEMBERED as u64 { at } else { 10_000_000 + at - MAX_REMEMBERED as u64 });
    }
    assert!(shaper.remembered() <= MAX_REMEMBERED);
}

#[test]
fn a_curve_that_lets_nothing_pass_is_no_shaper() {
    let dry = ArrivalCurve::from(Bucket { burst: 1000, rate_bps: 0 });
    assert!(Shaper::new(&dry, None).is_err() && Meter::new(&dry).is_err() && Policer::new(&dry).is_err());
}
