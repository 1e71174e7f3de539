use super::*;
use crate::length::PacketSize;
use crate::models::Model;
use fairlink_core::{ClassId, NANOS_PER_SEC, Rate};
use proptest::prelude::*;

const FIXED: PacketSize = PacketSize::Fixed(1000);

fn source(model: Model, packet: PacketSize, seed: u64, index: u32, end: Nanos) -> Source {
    let spec = SourceSpec { class: ClassId(1), model, packet, active: Vec::new() };
    Source::new(&spec, seed, index, end).unwrap()
}

#[test]
fn a_saturating_source_keeps_its_mean_rate_and_no_step_with_another() {
    let rate = Rate::from_bps(3_000_000).unwrap();
    let arrivals = |index| {
        let mut source = source(Model::Saturating(rate), FIXED, 1, index, Nanos::MAX);
        (0..100_000).map(|_| source.next().unwrap().at).collect::<Vec<_>>()
    };
    let (one, other) = (arrivals(0), arrivals(1));
    let gap = 8_000_000_000_000 / 3_000_000;
    assert_eq!((one[0], other[0]), (Nanos::ZERO, Nanos::ZERO));
    assert!(one.windows(2).all(|two| (gap / 2..=gap * 3 / 2 + 1).contains(&(two[1] - two[0]).0)));
    // A hundred thousand gaps, each off by 0.29 of a gap on the root of the mean square.
    assert!(one[99_999].0.abs_diff(99_999 * gap) < 400 * gap, "{}", one[99_999]);
    assert!(one.iter().zip(&other).filter(|(one, other)| one == other).count() < 10);
}

#[test]
fn a_constant_rate_does_not_drift_over_ten_million_packets() {
    // 3 packets per second: a spacing of 333,333,333 and a third nanoseconds.
    let mut three = source(Model::cbr_packets(3000), FIXED, 1, 0, Nanos::MAX);
    let mut last = Nanos::ZERO;
    for k in 0..10_000_000u64 {
        last = three.next().unwrap().at;
        assert_eq!(last.0, (k * NANOS_PER_SEC).div_ceil(3));
    }
    assert_eq!(last.0, (9_999_999 * NANOS_PER_SEC).div_ceil(3));
}

proptest! {
    #[test]
    fn a_constant_rate_of_packets_of_any_size_is_exact(
        bps in 1_000_000u64..1_000_000_000_000, min in 64u32..1500, more in 0u32..9000, seed: u64
    ) {
        let packet = PacketSize::Uniform { min, max: min + more, header: 14 };
        let cbr = source(Model::cbr(Rate::from_bps(bps).unwrap()), packet, seed, 3, Nanos::MAX);
        let mut bits = 0u128;
        for arrival in cbr.take(2000) {
            prop_assert_eq!(u128::from(arrival.at.0), (bits * 1_000_000_000).div_ceil(u128::from(bps)));
            bits += u128::from(arrival.len) * 8;
        }
    }
}

#[test]
fn poisson_gaps_have_the_mean_and_the_variance_of_the_exponential() {
    let mut last = 0;
    let gaps: Vec<f64> = source(Model::poisson_packets(1_000_000), FIXED, 7, 0, Nanos::MAX)
        .take(400_000)
        .map(|arrival| {
            let gap = arrival.at.0 - last;
            last = arrival.at.0;
            gap as f64 / 1e6
        })
        .collect();
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / (n - 1.0);
    // Standard errors of the mean and of the variance of exponential gaps: 1 / sqrt(n) and sqrt(8 / n).
    assert!((mean - 1.0).abs() < 4.0 / n.sqrt(), "{mean}");
    assert!((variance - 1.0).abs() < 4.0 * (8.0 / n).sqrt(), "{variance}");
    let beyond = gaps.iter().filter(|&&gap| gap > 2.0).count() as f64 / n;
    assert!((beyond - (-2.0f64).exp()).abs() < 4.0 * (beyond / n).sqrt(), "{beyond}");
}

#[test]
fn a_poisson_rate_in_bits_counts_the_mean_packet() {
    let packet = PacketSize::Uniform { min: 40, max: 700, header: 40 };
    let poisson = source(Model::poisson(Rate::from_bps(1_000_000).unwrap()), packet, 3, 0, Nanos::MAX);
    let (mut bytes, mut last) = (0, Nanos::ZERO);
    for arrival in poisson.take(200_000) {
        assert!((80..=740).contains(&arrival.len));
        bytes += u64::from(arrival.len);
        last = arrival.at;
    }
    let bps = bytes as f64 * 8.0 / (last.0 as f64 / 1e9);
    assert!((bps / 1e6 - 1.0).abs() < 0.015, "{bps}");
    assert!((bytes as f64 / 200_000.0 / 410.0 - 1.0).abs() < 0.01, "{bytes}");
}

#[test]
fn a_source_restarts_at_each_interval_and_is_silent_between() {
    let interval = |start, end| Interval { start: Nanos::from_secs(start), end: Nanos::from_secs(end) };
    let active = vec![interval(1, 2), interval(4, 6), interval(9, 20)];
    let spec = |model| SourceSpec { class: ClassId(1), model, packet: FIXED, active: active.clone() };
    let end = Nanos::from_secs(10);
    let cbr = Source::new(&spec(Model::cbr_packets(3000)), 1, 0, end).unwrap();
    let times: Vec<u64> = cbr.map(|arrival| arrival.at.0 / 1_000_000).collect();
    assert_eq!(times, [1000, 1333, 1666, 4000, 4333, 4666, 5000, 5333, 5666, 9000, 9333, 9666]);
    let poisson = Source::new(&spec(Model::poisson_packets(1_000_000)), 1, 0, end).unwrap();
    let times: Vec<Nanos> = poisson.map(|arrival| arrival.at).collect();
    assert!(times.is_sorted());
    assert!(
        times.iter().all(|&at| { active.iter().any(|interval| interval.start <= at && at < interval.end.min(end)) })
    );
    let in_last = times.iter().filter(|&&at| at >= Nanos::from_secs(9)).count() as f64;
    assert!((in_last - 1000.0).abs() < 4.0 * 1000f64.sqrt(), "{in_last}");
}

#[test]
fn packets_depend_on_seed_and_index_and_on_nothing_else() {
    let model = Model::poisson_packets(5_000_000);
    let packet = PacketSize::Uniform { min: 40, max: 700, header: 40 };
    let run = |seed, index| -> Vec<Arrival> {
        source(model.clone(), packet.clone(), seed, index, Nanos::from_secs(100)).take(100).collect()
    };
    assert_eq!(run(1, 0), run(1, 0));
    assert_ne!(run(1, 0), run(1, 1));
    assert_ne!(run(1, 0), run(2, 0));
    // The numbers themselves: another machine or a newer library must give the same.
    let first: Vec<(u64, u32)> = run(1, 0).iter().take(3).map(|arrival| (arrival.at.0, arrival.len)).collect();
    assert_eq!(first, [(192_735, 274), (237_801, 685), (268_934, 172)]);
}

#[test]
fn a_greedy_source_has_no_arrivals_of_its_own() {
    let mut greedy = source(Model::Greedy, FIXED, 1, 0, Nanos::from_secs(1));
    assert!(greedy.is_greedy());
    assert_eq!(greedy.next(), None);
    assert_eq!(greedy.next_len(), 1000);
    assert_eq!(greedy.interval(), Some(Interval { start: Nanos::ZERO, end: Nanos::from_secs(1) }));
}

fn held(model: Model, limit: crate::ArrivalLimit, excess: Excess) -> Model {
    Model::Shaped(Box::new(crate::Shaped { model, curve: limit.into(), excess }))
}

/// 8 Mbit/s behind a burst of 3000 B: a packet of 1000 B each millisecond.
const BUCKET: crate::ArrivalLimit = crate::ArrivalLimit::Bucket { burst: 3000, rate_bps: 8_000_000 };

#[test]
fn a_shaped_source_sends_what_its_model_sends_as_soon_as_the_curve_lets_it() {
    let ms = |model: Model, active: &[(u64, u64)], end: u64| -> Vec<u64> {
        let interval = |&(start, end)| Interval { start: Nanos::from_millis(start), end: Nanos::from_millis(end) };
        let spec =
            SourceSpec { class: ClassId(1), model, packet: FIXED, active: active.iter().map(interval).collect() };
        let source = Source::new(&spec, 1, 0, Nanos::from_millis(end)).unwrap();
        source.map(|arrival| arrival.at.0 / 1_000_000).collect()
    };
    // Five at once in every 20 ms.
    let bursts = Model::Cbr { pace: crate::Pace::Packets { per_1000_s: 250_000 }, burst: 5 };
    let shaped = held(bursts.clone(), BUCKET, Excess::Waits(None));
    assert_eq!(ms(shaped.clone(), &[], 40), [0, 0, 0, 1, 2, 20, 20, 20, 21, 22]);
    // Packets that wait when the interval ends still come, but not after the run.
    assert_eq!(ms(shaped.clone(), &[(0, 1), (2, 3)], 40), [0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(ms(shaped, &[(0, 1), (2, 3)], 5), [0, 0, 0, 1, 2, 3, 4]);
    let room = fairlink_core::QueueLimits { packets: 1, bytes: u32::MAX };
    assert_eq!(ms(held(bursts.clone(), BUCKET, Excess::Waits(Some(room))), &[], 40), [0, 0, 0, 1, 20, 20, 20, 21]);
    assert_eq!(ms(held(bursts, BUCKET, Excess::Drops), &[], 40), [0, 0, 0, 20, 20, 20]);
    // A greedy source sends as fast as the shaper lets it.
    let greedy = held(Model::Greedy, BUCKET, Excess::Waits(Some(room)));
    assert_eq!(ms(greedy, &[(0, 3), (9, 10)], 40), [0, 0, 0, 1, 2, 3, 9, 9, 9, 10]);
}

#[test]
fn what_a_source_loses_at_its_own_curve_is_counted() {
    let bursts = Model::Cbr { pace: crate::Pace::Packets { per_1000_s: 250_000 }, burst: 5 };
    let policed = held(bursts, BUCKET, Excess::Drops);
    let mut source = source(policed, FIXED, 1, 0, Nanos::from_millis(40));
    assert_eq!(source.by_ref().count(), 6);
    assert_eq!((source.lost().packets, source.lost().bytes), (4, 4000));
}

#[test]
fn a_source_that_its_curve_cannot_hold_is_refused_with_value_and_limit() {
    let error = |model, packet| {
        let spec = SourceSpec { class: ClassId(1), model, packet, active: Vec::new() };
        spec.validate().unwrap_err().to_string()
    };
    let long = error(held(Model::Greedy, BUCKET, Excess::Waits(None)), PacketSize::Fixed(3001));
    assert!(long.contains("3001 B") && long.contains("has 3000 B"), "{long}");
    let room = fairlink_core::QueueLimits { packets: 9, bytes: 999 };
    assert!(error(held(Model::Greedy, BUCKET, Excess::Waits(Some(room))), FIXED).contains("holds 999 B"));
    assert!(error(held(Model::Greedy, BUCKET, Excess::Drops), FIXED).contains("cannot be policed"));
    let twice = held(held(Model::Greedy, BUCKET, Excess::Waits(None)), BUCKET, Excess::Waits(None));
    assert!(error(twice, FIXED).contains("one curve"));
    let dry = crate::ArrivalLimit::Bucket { burst: 9000, rate_bps: 0 };
    assert!(error(held(Model::Greedy, dry, Excess::Waits(None)), FIXED).contains("0 bit/s"));
}

#[test]
fn the_mean_rate_of_a_shaped_source_is_at_most_that_of_its_curve() {
    let rate = |model| {
        let spec = SourceSpec { class: ClassId(1), model, packet: FIXED, active: Vec::new() };
        (spec.mean_rate(|len| len), spec.mean_rate(|len| len + 250))
    };
    let waits = Excess::Waits(None);
    assert_eq!(rate(held(Model::Greedy, BUCKET, waits)), (Some(8_000_000), Some(10_000_000)));
    let cbr = |bps| Model::cbr(Rate::from_bps(bps).unwrap());
    assert_eq!(rate(held(cbr(9_000_000), BUCKET, waits)), (Some(8_000_000), Some(10_000_000)));
    assert_eq!(rate(held(cbr(4_000_000), BUCKET, waits)), (Some(4_000_000), Some(5_000_000)));
}
