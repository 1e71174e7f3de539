//! Delays that formulas and figures give.

use super::*;
use fairlink_core::{ClassConfig, LeakyBucket, LeakyBuckets, LinkConfig, Nanos, Share};

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

/// 8 Mbit/s, so that a byte takes 1 us; weights 1, 2, 5.
fn tree(quantum: Option<u32>) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1000, ..LinkConfig::new(rate(8_000_000)) });
    for weight in [1, 2, 5] {
        let share = Some(Share::Weight(weight));
        let quantum = quantum.filter(|_| weight == 1);
        tree.add(ClassId::ROOT, ClassConfig { share, quantum, ..ClassConfig::default() }).unwrap();
    }
    tree.build().unwrap()
}

#[test]
fn delays_are_what_the_formulas_say() {
    let us = |name: &str, class: usize, tree: &Hierarchy| {
        let info = fairlink_core::registry::find(name).unwrap();
        delay_bounds(info, tree)[class].as_ref().map(|bound| {
            let Some((burst, 2_000_000)) = bound.traffic.as_bucket() else { panic!("{bound:?}") };
            let more = whole(500 - i64::try_from(burst).unwrap()) * BigInt::from(4);
            (bound.seconds() * BigInt::from(1_000_000) + more).to_integer()
        })
    };
    let plain = tree(None);
    // The second has a quarter: 500 B take 2000 us.
    for name in ["wfq", "wf2q+", "virtual-clock", "sced", "fq-ldf", "fq-lto-second", "fq-lto-lb-sced"] {
        assert_eq!(us(name, 2, &plain), Some(3000.into()), "{name}");
    }
    assert_eq!(us("scfq", 2, &plain), Some(4000.into()));
    assert_eq!(us("sfq", 2, &plain), Some(5000.into()));
    // Quanta of 1000, 2000 and 5000 B.
    assert_eq!(us("drr", 2, &plain), Some((2000 + 24_000 - 4000).into()));
    assert_eq!(us("drr", 2, &tree(Some(999))), None);
    assert_eq!((us("wfq", 0, &plain), us("fifo", 2, &plain)), (None, None));
    // All of one priority: a packet of each, and one in transmission.
    assert_eq!(us("rcsp", 2, &plain), Some((2000 + 4000).into()));
}

#[test]
fn drr_plus_plus_has_a_bound_for_latency_critical_classes() {
    let mut classes = Hierarchy::builder(LinkConfig { max_packet: 1000, ..LinkConfig::new(rate(8_000_000)) });
    for (quantum, latency_critical) in [(2000, true), (1000, false), (3000, false)] {
        let config = ClassConfig { quantum: Some(quantum), latency_critical, ..ClassConfig::default() };
        classes.add(ClassId::ROOT, config).unwrap();
    }
    let info = fairlink_core::registry::find("drr++").unwrap();
    let bounds = delay_bounds(info, &classes.build().unwrap());
    // R = 5000: 1000 B at 2/5 of the link, and 3000 * 1.5 + 3 * 1000 bytes.
    let first = bounds[1].as_ref().unwrap();
    assert_eq!(first.traffic.as_bucket(), Some((1000, 3_200_000)));
    assert_eq!(first.seconds() * BigInt::from(1_000_000), whole(2_500 + 4_500 + 3_000));
    assert_eq!(bounds[2..], [None, None]);
}

#[test]
fn the_curves_of_figure_10_of_hfsc_have_the_delays_that_they_are_made_for() {
    let link = rate(10_000_000);
    let ms = |curve: ServiceCurve, burst| {
        curve_delay(&curve, burst, 4000, link).map(|delay| (delay * BigInt::from(1_000_000)).to_integer())
    };
    // Audio: 160 B in 5 ms, 64 kbit/s; and a packet of 4000 B, 3.2 ms.
    let audio = ServiceCurve { m1: Some(rate(256_000)), d: Nanos::from_millis(5), m2: Some(rate(64_000)) };
    assert_eq!(ms(audio, 160), Some(8_200.into()));
    assert_eq!(ms(audio, 80), Some(5_700.into()));
    assert_eq!(ms(audio, 320), Some(28_200.into()));
    // Convex: no service for 10 ms, then 5 Mbit/s.
    let late = ServiceCurve { m1: None, d: Nanos::from_millis(10), m2: Some(rate(5_000_000)) };
    assert_eq!(ms(late, 5000), Some(21_200.into()));
    let ends = ServiceCurve { m1: Some(rate(256_000)), d: Nanos::from_millis(5), m2: None };
    assert_eq!((ms(ends, 160), ms(ends, 161)), (Some(8_200.into()), None));
}

fn bucket(burst: u64, rate_bps: u64) -> ArrivalLimit {
    ArrivalLimit::Bucket { burst, rate_bps }
}

#[test]
fn traffic_of_a_peak_and_a_long_run_rate_has_the_delay_of_the_closed_form() {
    // M + p t and b + r t through a server of the rate R: (M + (b - M) (p - R) / (p - r)) / R if p is above R, else M /
    // R (Le Boudec and Thiran, Network Calculus, Proposition 1.4.1 with T-SPEC).
    for (m, p, b, r, service) in [
        (1000, 10_000_000, 20_000, 1_000_000, 2_000_000),
        (1000, 10_000_000, 20_000, 1_000_000, 1_000_000),
        (1500, 3_000_001, 99_999, 700_001, 777_777),
        (1000, 1_500_000, 20_000, 1_000_000, 2_000_000),
    ] {
        let traffic = ArrivalCurve::new(&[bucket(m, p), bucket(b, r)]).unwrap();
        let beyond = if p > service {
            BigRational::new(BigInt::from((b - m) * 8) * BigInt::from(p - service), BigInt::from(p - r))
        } else {
            BigRational::zero()
        };
        let expected = (whole(m * 8) + beyond) / BigInt::from(service);
        assert_eq!(horizontal(&traffic, 1500, &Served::at(whole(service))), Some(expected));
    }
    let traffic = ArrivalCurve::new(&[bucket(1000, 9_000_000), bucket(5000, 1_000_001)]).unwrap();
    assert_eq!(horizontal(&traffic, 1500, &Served::at(whole(1_000_000u64))), None);
}

#[test]
fn the_horizontal_deviation_is_the_largest_distance_at_any_time() {
    let line = ArrivalLimit::Line { rate: rate(8_000_000) };
    let window = ArrivalLimit::rate_in(rate(400_000), Nanos::from_millis(100));
    let served =
        [(Some(3_000_000), 20, Some(500_000)), (None, 15, Some(600_000)), (Some(100_000), 30, Some(2_000_000))];
    for limits in [
        vec![bucket(9_000, 400_000)],
        vec![bucket(9_000, 400_000), bucket(3_000, 1_000_000), line],
        vec![bucket(20_000, 500_000), bucket(9_000, 900_000), bucket(4_000, 2_000_000), line],
        vec![window, line],
    ] {
        let traffic = ArrivalCurve::new(&limits).unwrap();
        for (m1, ms, m2) in served {
            let curve = ServiceCurve { m1: m1.map(rate), d: Nanos::from_millis(ms), m2: m2.map(rate) };
            let served = Served::from_curve(&curve);
            let exact = horizontal(&traffic, 1500, &served).unwrap();
            // Every millisecond, after the yield of the traffic's lines until then.
            let mut longest = BigRational::zero();
            for at in (0..400).map(|ms| BigRational::new(ms.into(), 1000.into())) {
                let value = |(bytes, rate): (u128, Ratio)| whole(bytes) * BigInt::from(8) + super::exact(rate) * &at;
                let arrived = traffic.lines(1500).map(value).min().unwrap();
                longest = longest.max(served.time_of(&arrived).unwrap() - at);
            }
            let gap = to_f64(&(&exact - &longest));
            assert!((0.0..0.01).contains(&gap), "{limits:?} by {curve:?}: {exact} and {longest}");
        }
    }
}

#[test]
fn a_class_with_leaky_buckets_has_the_delay_of_its_own_traffic() {
    let with = |buckets: &[(u64, u64, u64)], burst| {
        let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1000, ..LinkConfig::new(rate(8_000_000)) });
        let bucket = |&(burst, peak, bps)| LeakyBucket { burst, peak: rate(peak), rate: rate(bps) };
        let leaky_buckets = LeakyBuckets::new(&buckets.iter().map(bucket).collect::<Vec<_>>()).unwrap();
        let share = |bps| Some(Share::Guarantee(rate(bps)));
        tree.add(
            ClassId::ROOT,
            ClassConfig { share: share(2_000_000), leaky_buckets, burst, ..ClassConfig::default() },
        )
        .unwrap();
        tree.add(ClassId::ROOT, ClassConfig { share: share(6_000_000), ..ClassConfig::default() }).unwrap();
        let tree = tree.build().unwrap();
        ["fq-lto-lb", "fq-lto-lb-sced", "fq-ldf"].map(|name| {
            let bounds = delay_bounds(fairlink_core::registry::find(name).unwrap(), &tree);
            let bound = bounds[1].as_ref().unwrap();
            (bound.traffic.limits().to_vec(), (bound.seconds() * BigInt::from(1_000_000)).to_integer())
        })
    };
    // A largest packet at once at 2 Mbit/s takes 4 ms, and the one in transmission 1 ms.
    let one_packet = (vec![bucket(1000, 2_000_000)], BigInt::from(5_000));
    assert_eq!(with(&[], None), [one_packet.clone(), one_packet.clone(), one_packet.clone()]);
    // 10 kB at 8 Mbit/s: 1000 + (10000 - 1000) * 6 / 7 bytes are waiting at the worst.
    let [plain, sced, other] = with(&[(10_000, 8_000_000, 1_000_000)], None);
    assert_eq!(plain, (vec![bucket(10_000, 1_000_000), bucket(1000, 8_000_000)], BigInt::from(34_857 + 1_000)));
    assert_eq!((sced, other), (plain.clone(), one_packet.clone()));
    // A second bucket of 4 kB and 1.5 Mbit/s holds it back sooner.
    let [plain, ..] = with(&[(10_000, 8_000_000, 1_000_000), (4_000, 8_000_000, 1_500_000)], None);
    assert_eq!(plain.1, BigInt::from((1000 * 4 + 3000 * 4 * 60 / 65) + 1_000));
    assert_eq!(plain.0.len(), 3);
    // Traffic that the guarantee does not carry has no bound: the result is that of a packet at once at the guarantee,
    // or of the burst.
    assert_eq!(with(&[(10_000, 8_000_000, 3_000_000)], None)[0], one_packet);
    let [plain, ..] = with(&[(10_000, 8_000_000, 3_000_000)], Some(2_500));
    assert_eq!(plain.0, [bucket(10_000, 3_000_000), bucket(1000, 8_000_000), bucket(2_500, 2_000_000)]);
    assert_eq!(plain.1, BigInt::from(1000 * 4 + 1500 * 4 + 1_000));
}
