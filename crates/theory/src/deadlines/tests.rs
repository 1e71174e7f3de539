use super::*;
use fairlink_core::{ClassConfig, LinkConfig};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn tree(curve: ServiceCurve) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10_000_000).unwrap()));
    tree.add(ClassId::ROOT, ClassConfig { real_time: Some(curve), ..ClassConfig::default() }).unwrap();
    tree.build().unwrap()
}

/// S(t) in bits times 10^9.
fn service(curve: &ServiceCurve, t: u64) -> u128 {
    let rate = |rate: Option<Rate>| u128::from(rate.map_or(0, Rate::bps));
    let first = t.min(curve.d.0);
    rate(curve.m1) * u128::from(first) + rate(curve.m2) * u128::from(t - first)
}

#[test]
fn a_packet_is_due_when_the_lowest_curve_of_any_start_reaches_it() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let leaf = ClassId(1);
    let (mut missed, mut convex) = (0, 0);
    for _ in 0..400 {
        let mut bps = || Rate::from_bps(random.random_range(100_000..4_000_000)).ok();
        let (m1, m2) = (bps(), bps());
        let curve = ServiceCurve {
            m1: m1.filter(|_| random.random_bool(0.8)),
            d: Nanos(random.random_range(1..9_000_000)),
            m2,
        };
        convex += u32::from(curve.m1 < curve.m2);
        let mut meter = DeadlineMeter::new(&tree(curve), false);
        let (mut now, mut queued) = (0u64, 0u64);
        let mut starts: Vec<(u64, u128)> = Vec::new();
        let (mut served, mut worst) = (0u128, 0u64);
        for _ in 0..60 {
            now += random.random_range(0..3_000_000);
            if queued == 0 || random.random_bool(0.4) {
                if queued == 0 {
                    starts.push((now, served));
                }
                meter.arrived(Nanos(now), leaf);
                queued += 1;
                continue;
            }
            let len = random.random_range(40..1500);
            queued -= 1;
            served += u128::from(len) * 8_000_000_000;
            now += u64::from(len) * 800;
            meter.sent(Nanos(now), leaf, len);
            // The first nanosecond at which every start's curve has reached the service.
            let reached = |t: u64| starts.iter().all(|&(a, w)| t >= a && w + service(&curve, t - a) >= served);
            let (mut low, mut high) = (0u64, 1 << 40);
            while low < high {
                let middle = low.midpoint(high);
                if reached(middle) { high = middle } else { low = middle + 1 }
            }
            worst = worst.max(now.saturating_sub(low));
        }
        assert!(meter.is_exact());
        assert_eq!(meter.worst(leaf), Some(Nanos(worst)), "{curve:?}");
        missed += u32::from(worst > 0);
    }
    assert!(missed > 50 && convex > 100, "{missed} {convex}");
}
