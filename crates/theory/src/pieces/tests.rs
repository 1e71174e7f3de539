use super::*;
use fairlink_core::Nanos;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn curve(m1: u64, d: u64, m2: u64) -> ServiceCurve {
    ServiceCurve { m1: Rate::from_bps(m1).ok(), d: Nanos(d), m2: Rate::from_bps(m2).ok() }
}

/// S(t) by its definition, `t` in half nanoseconds.
fn service(curve: &ServiceCurve, half_ns: i128) -> i128 {
    let bps = |rate: Option<Rate>| i128::from(rate.map_or(0, Rate::bps));
    let (t, d) = (half_ns.max(0), 2 * i128::from(curve.d.0));
    bps(curve.m1) * t.min(d) + bps(curve.m2) * (t - d).max(0)
}

#[test]
fn the_minimum_is_that_of_all_starts_point_by_point() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..500 {
        let shape = curve(random.random_range(0..9), random.random_range(0..40), random.random_range(1..9));
        let mut starts = vec![(0i128, 0i128)];
        let mut lower = Pieces::from_curve(&shape, 0, 0);
        let mut at = 0;
        for _ in 0..random.random_range(0..6) {
            let (x, y) = (at + random.random_range(0..50), starts.last().unwrap().1 + random.random_range(0..150));
            (at, _) = (x, starts.push((x, y)));
            lower.lower_to(&Pieces::from_curve(&shape, x, y));
        }
        for half in 2 * at..2 * at + 300 {
            let least = starts.iter().map(|&(x, y)| 2 * y + service(&shape, half - 2 * x)).min().unwrap();
            let t = Ratio::new(half, 2);
            assert_eq!(lower.scaled(&t) * 2, least * t.denom(), "{shape:?} {starts:?} at {half}");
        }
        let y = lower.scaled(&Ratio::from_integer(at)) + random.random_range(0..200);
        if let Some(t) = lower.time_of(y) {
            assert!(lower.scaled(&t) >= y * t.denom());
            let before = t - Ratio::new(1, 1000);
            assert!(before < Ratio::from_integer(at) || lower.scaled(&before) < y * before.denom());
        }
    }
}

#[test]
fn concave_curves_and_those_that_start_flat_stay_two_pieces_and_no_other_convex_curve() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut most = [0; 3];
    for case in 0..3_000 {
        let (low, high, d) =
            (random.random_range(1..500), random.random_range(500..1_000), random.random_range(1..1_000));
        let shape = [curve(high, d, low), curve(0, d, high), curve(low, d, high)][case % 3];
        let mut deadlines = Pieces::from_curve(&shape, 0, 0);
        let (mut now, mut served) = (0, 0);
        for _ in 0..10 {
            now += random.random_range(0..2_000);
            served += random.random_range(0..900_000);
            deadlines.lower_to(&Pieces::from_curve(&shape, now, served));
            most[case % 3] = most[case % 3].max(deadlines.count_above(served));
        }
    }
    assert_eq!(most[..2], [2, 2]);
    assert!(most[2] > 2, "{most:?}");
}
