//! Each model against the theory of its process, over long runs.

use fairlink_core::{ClassId, NANOS_PER_SEC, Nanos, Rate};

use super::*;
use crate::source::Source;
use crate::spec::SourceSpec;

const PACKET: PacketSize = PacketSize::Fixed(500);

fn spec(model: Model, packet: PacketSize) -> SourceSpec {
    SourceSpec { class: ClassId(1), model, packet, active: Vec::new() }
}

fn run(model: &Model, packet: &PacketSize, index: u32, seconds: u64) -> Source {
    Source::new(&spec(model.clone(), packet.clone()), 17, index, Nanos::from_secs(seconds)).unwrap()
}

/// Bytes in each window of this length.
fn windows(source: Source, window: Nanos, seconds: u64) -> Vec<f64> {
    let mut bytes = vec![0.0; (seconds * NANOS_PER_SEC / window.0) as usize];
    source.for_each(|arrival| bytes[(arrival.at.0 / window.0) as usize] += f64::from(arrival.len));
    bytes
}

fn mean_and_variance(numbers: &[f64]) -> (f64, f64) {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    (mean, numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0))
}

fn autocorrelation(numbers: &[f64], lag: usize) -> f64 {
    let (mean, variance) = mean_and_variance(numbers);
    let products = numbers.iter().zip(&numbers[lag..]).map(|(x, y)| (x - mean) * (y - mean));
    products.sum::<f64>() / (numbers.len() - lag) as f64 / variance
}

/// The mean of `numbers`, which are correlated, and its standard error from the means of 20 batches.
fn mean_and_error(numbers: &[f64]) -> (f64, f64) {
    let batches: Vec<f64> = numbers.chunks(numbers.len() / 20).map(|batch| mean_and_variance(batch).0).collect();
    let (mean, variance) = mean_and_variance(&batches[..20]);
    (mean, (variance / 20.0).sqrt())
}

fn millis(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn dar1(marginal: Marginal, rho: f64) -> Model {
    Model::Dar1(Dar1 {
        rate: Rate::from_bps(1_500_000).unwrap(),
        frames_per_1000_s: 25_000,
        rho,
        marginal,
        peak_to_mean: 5.0,
        deviation_to_mean: 0.57,
    })
}

fn mpeg(whole_frames: bool) -> Model {
    use Picture::{B, I, P};
    Model::Mpeg(Mpeg {
        pattern: vec![I, P, B, B, P, B, B, P, B, B],
        groups_per_1000_s: 3000,
        lengths: [
            PacketSize::Uniform { min: 15_000, max: 17_000, header: 0 },
            PacketSize::Exponential { mean: 2100, min: 512, max: 17_000 },
            PacketSize::Exponential { mean: 550, min: 256, max: 17_000 },
        ],
        whole_frames,
    })
}

#[test]
fn long_runs_have_the_mean_rate_that_is_stated() {
    let pace = Pace::Rate(Rate::from_bps(400_000).unwrap());
    let state = |per_1000_s, ms| MmppState { per_1000_s, mean: millis(ms), next: Vec::new() };
    let models = [
        (Model::OnOff { pace, on: OnTime::Exponential { mean: millis(40) }, off: millis(60) }, 160_000.0),
        (Model::OnOff { pace, on: OnTime::Exponential { mean: millis(3) }, off: millis(6) }, 400_000.0 / 3.0),
        (Model::OnOff { pace, on: OnTime::Pareto { mean: millis(40), k: 3.5 }, off: millis(60) }, 160_000.0),
        // Shares of time 1/5 and 4/5.
        (Model::Mmpp(vec![state(100_000, 10), state(5_000, 40)]), (100.0 / 5.0 + 5.0 * 4.0 / 5.0) * 4000.0),
        (Model::Mmpp(vec![state(100_000, 10), state(0, 30), state(50_000, 60)]), 40.0 * 4000.0),
        (mpeg(false), 3.0 * (16_000.0 + 3.0 * 2100.0 + 6.0 * 550.0) * 8.0),
        (mpeg(true), 614_400.0),
        (dar1(Marginal::NegativeBinomial, 0.5), 1_500_000.0),
        (dar1(Marginal::Gamma, 0.5), 1_500_000.0),
    ];
    for (number, (model, expected)) in models.iter().enumerate() {
        let stated = spec(model.clone(), PACKET).mean_rate(|len| len).unwrap() as f64;
        assert!((stated / expected - 1.0).abs() < 2e-3, "{model:?}: states {stated}, {expected}");
        let (mean, error) = mean_and_error(&windows(run(model, &PACKET, number as u32, 2000), millis(1000), 2000));
        assert!((mean * 8.0 - expected).abs() < 4.0 * error * 8.0, "{model:?}: {} +- {}", mean * 8.0, error * 8.0);
        assert!(error < 0.02 * mean, "{model:?}: {error} of {mean}");
    }
}

#[test]
fn the_share_of_a_state_follows_its_weights() {
    // From 0 always to 1, from 1 to 0 or 2 at 1 : 3, from 2 always to 1: visits 1 : 4 : 3, times 1 : 8 : 9.
    let state = |per_1000_s, ms, next: [u32; 3]| MmppState { per_1000_s, mean: millis(ms), next: next.to_vec() };
    let states = [state(18_000, 1, [0, 7, 0]), state(0, 2, [1, 0, 3]), state(0, 3, [0, 2, 0])];
    assert!((packets_per_second(&states) - 1.0).abs() < 1e-9, "{}", packets_per_second(&states));
}

#[test]
fn two_states_have_the_dispersion_of_theory() {
    // Counts of a long time: variance / mean = 1 + 2 (l1 - l2)^2 r1 r2 / ((r1 + r2)^2 (l1 r2 + l2 r1)) (Fischer, Meier-Hellstern 1993).
    let states = [(100_000, 50), (10_000, 100)];
    let [(l1, r1), (l2, r2)] = states.map(|(rate, ms)| (f64::from(rate) / 1000.0, 1000.0 / f64::from(ms)));
    let sum: f64 = r1 + r2;
    let expected = 1.0 + 2.0 * (l1 - l2) * (l1 - l2) * r1 * r2 / (sum * sum * (l1 * r2 + l2 * r1));
    let state =
        |(rate, ms): (i32, i32)| MmppState { per_1000_s: rate as u64, mean: millis(ms as u64), next: Vec::new() };
    let model = Model::Mmpp(states.map(state).to_vec());
    let counts: Vec<f64> =
        windows(run(&model, &PACKET, 0, 40_000), millis(5000), 40_000).iter().map(|bytes| bytes / 500.0).collect();
    let (mean, variance) = mean_and_variance(&counts);
    // 8000 counts: the standard error of a variance of nearly normal numbers is sqrt(2 / 8000) of it.
    let dispersion = variance / mean;
    assert!((dispersion / expected - 1.0).abs() < 0.08, "{dispersion}, {expected}");
}

#[test]
fn frames_of_a_conference_have_the_correlation_and_the_marginal_of_theory() {
    for marginal in [Marginal::NegativeBinomial, Marginal::Gamma] {
        let Model::Dar1(video) = dar1(marginal, 0.9) else { unreachable!() };
        let mut frames = Dar1Frames::new(&video, &PACKET).unwrap();
        let mut random = Random::new(1, 1);
        frames.start(Nanos::ZERO, &mut random);
        let lengths: Vec<f64> = (0..400_000)
            .map(|_| {
                let bytes = frames.frame_len();
                frames.next_frame(&mut random);
                bytes
            })
            .collect();
        let (mean, variance) = mean_and_variance(&lengths);
        assert!((mean / 7500.0 - 1.0).abs() < 0.02, "{marginal:?}: {mean}");
        assert!((variance.sqrt() / mean / 0.57 - 1.0).abs() < 0.02, "{marginal:?}: {}", variance.sqrt() / mean);
        assert!(lengths.iter().all(|&len| len <= 5.0 * 7500.0));
        for lag in [1, 2, 10] {
            let expected = 0.9f64.powi(lag);
            let found = autocorrelation(&lengths, lag as usize);
            assert!((found - expected).abs() < 0.02, "{marginal:?}: lag {lag}: {found}, {expected}");
        }
    }
}

#[test]
fn a_frame_of_a_conference_is_spread_over_its_time() {
    let model = dar1(Marginal::Gamma, 0.98);
    let arrivals: Vec<Arrival> = run(&model, &PACKET, 0, 100).collect();
    let longest = arrivals.windows(2).map(|two| two[1].at - two[0].at).max().unwrap();
    // 25 frames a second; the last packet of one is at most a frame before the first of the next.
    assert!(longest <= millis(41), "{longest}");
    assert!(arrivals.iter().all(|arrival| arrival.len <= 500));
}

#[test]
fn pictures_come_in_their_pattern_and_are_cut_at_the_longest_packet() {
    let whole: Vec<Arrival> = run(&mpeg(true), &PACKET, 0, 100).collect();
    // Only I pictures have 15,000 bytes or more, except for one P picture in several thousand.
    let first = whole.iter().position(|arrival| arrival.len >= 15_000).unwrap();
    for (number, arrival) in whole[first..].iter().enumerate() {
        assert_eq!((15_000..=17_000).contains(&arrival.len), number % 10 == 0, "{number}: {arrival:?}");
        let after = (arrival.at - whole[first].at).0;
        assert!(after.abs_diff(number as u64 * NANOS_PER_SEC / 30) <= 1);
    }
    let cut: Vec<Arrival> = run(&mpeg(false), &PACKET, 0, 100).collect();
    let mut together = Vec::new();
    for packets in cut.chunk_by(|one, next| one.at == next.at) {
        assert!(packets[..packets.len() - 1].iter().all(|packet| packet.len == 500));
        together.push(Arrival { at: packets[0].at, len: packets.iter().map(|packet| packet.len).sum() });
    }
    assert_eq!(together, whole);
}

#[test]
fn bursts_come_together_and_keep_the_rate() {
    let rate = Rate::from_bps(1_000_000).unwrap();
    let arrivals: Vec<Arrival> = run(&Model::Cbr { pace: Pace::Rate(rate), burst: 3 }, &PACKET, 0, 1).collect();
    assert_eq!(arrivals.len(), 252);
    for (number, arrival) in arrivals.iter().enumerate() {
        assert_eq!(arrival.at, millis(number as u64 / 3 * 12));
    }
}

#[test]
fn the_sum_of_pareto_sources_is_self_similar_and_that_of_exponential_ones_is_not() {
    // The aggregated variance over m windows falls as m^(2H - 2); with a tail index of 1.4 theory has H = (3 - 1.4) / 2 = 0.8.
    let hurst = |on: OnTime| {
        let model = Model::OnOff { pace: Pace::Packets { per_1000_s: 100_000 }, on, off: millis(200) };
        let mut sum = vec![0.0; 1 << 17];
        for index in 0..32 {
            let one = windows(run(&model, &PACKET, index, (1 << 17) / 5 + 1), millis(200), (1 << 17) / 5 + 1);
            sum.iter_mut().zip(one).for_each(|(sum, bytes)| *sum += bytes);
        }
        let points: Vec<(f64, f64)> = (3..10)
            .map(|power| {
                let blocks: Vec<f64> = sum.chunks(1 << power).map(|block| mean_and_variance(block).0).collect();
                (f64::from(power), mean_and_variance(&blocks).1.log2())
            })
            .collect();
        let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / 7.0, y + point.1 / 7.0));
        let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>()
            / points.iter().map(|point| (point.0 - x) * (point.0 - x)).sum::<f64>();
        1.0 + slope / 2.0
    };
    let pareto = hurst(OnTime::Pareto { mean: millis(60), k: 2.4 });
    assert!((0.70..0.90).contains(&pareto), "{pareto}");
    let exponential = hurst(OnTime::Exponential { mean: millis(60) });
    assert!((0.42..0.58).contains(&exponential), "{exponential}");
}

#[test]
fn a_trace_keeps_its_distances_and_repeats_by_the_mean_one() {
    let packets = [(50, 3), (10, 1), (20, 2)].map(|(at, len)| Arrival { at: Nanos(at), len });
    let trace = |repeat| Model::Trace(Trace::new(packets.to_vec(), repeat).unwrap());
    let seen = |repeat, take| -> Vec<(u64, u32)> {
        run(&trace(repeat), &PACKET, 0, 1).take(take).map(|arrival| (arrival.at.0, arrival.len)).collect()
    };
    assert_eq!(seen(false, 10), [(0, 1), (10, 2), (40, 3)]);
    assert_eq!(seen(true, 7), [(0, 1), (10, 2), (40, 3), (60, 1), (70, 2), (100, 3), (120, 1)]);
    assert_eq!(spec(trace(false), PACKET).lengths(), Some((1, 3)));
    assert_eq!(Trace::new(Vec::new(), true), Err(SourceError::EmptyTrace));
    assert_eq!(Trace::new(vec![Arrival { at: Nanos(1), len: 0 }], true), Err(SourceError::EmptyPacket));
}

#[test]
fn impossible_parameters_are_refused_with_value_and_limit() {
    let refused = |model: Model| spec(model, PACKET).validate().unwrap_err().to_string();
    let pace = Pace::Packets { per_1000_s: 1000 };
    assert_eq!(refused(Model::Cbr { pace, burst: 0 }), "a burst of 0; it must be 1 to 1024 packets");
    let pareto = |k| Model::OnOff { pace, on: OnTime::Pareto { mean: millis(10), k }, off: millis(1) };
    assert_eq!(refused(pareto(2.0)), "a Pareto k of 2; it must be above 2 and at most 1000");
    assert!(refused(pareto(f64::NAN)).contains("NaN"));
    assert_eq!(
        refused(pareto(2.000_01)),
        "a Pareto k of 2.00001; it must be so far above 2 that the shortest on time has a millionth of a packet at least"
    );
    assert_eq!(spec(pareto(2.001), PACKET).validate(), Ok(()));
    let short = Model::OnOff { pace, on: OnTime::Exponential { mean: Nanos(1000) }, off: millis(1) };
    assert!(refused(short).starts_with("a mean on time in seconds of 0.000001; it must be such that"));
    assert_eq!(refused(Model::Mmpp(Vec::new())), "0 states; there can be 1 to 64");
    let state = |per_1000_s, next: &[u32]| MmppState { per_1000_s, mean: millis(1), next: next.to_vec() };
    let wrong = Model::Mmpp(vec![state(1, &[]), state(1, &[1])]);
    assert_eq!(refused(wrong), "state 2: 1 weights of next states; write one for each of the 2, not all zero");
    assert_eq!(refused(Model::Mmpp(vec![state(0, &[])])), "0 packets per second; leave the source out instead");
    let Model::Dar1(video) = dar1(Marginal::NegativeBinomial, 0.5) else { unreachable!() };
    let small = Dar1 { deviation_to_mean: 0.1, ..video.clone() };
    assert!(refused(Model::Dar1(small)).contains("above its mean"));
    assert_eq!(refused(Model::Dar1(Dar1 { rho: 1.0, ..video.clone() })), "rho of 1; it must be from 0 to 0.9999");
    let long = Dar1 { rate: Rate::MAX, ..video };
    assert!(refused(Model::Dar1(long)).contains("the limit is 65536: write longer packets"));
    let Model::Mpeg(pictures) = mpeg(true) else { unreachable!() };
    assert_eq!(
        refused(Model::Mpeg(Mpeg { pattern: Vec::new(), ..pictures })),
        "a group of 0 pictures; there can be 1 to 1024"
    );
}
