//! Service curves, exact: \[hfsc\] Section 2.1.
//!
//! A set of curves can be guaranteed if and only if their sum stays below the capacity of the link, sum S_i(t) <= R t
//! for every t >= 0. [`first_excess`] computes the first violation; the schedulers refuse the same sets, in integers.

use fairlink_core::{ClassId, Hierarchy, NANOS_PER_SEC, Nanos, Rate, ServiceCurve};
use num_rational::BigRational;
use num_traits::Zero;

fn seconds(ns: u64) -> BigRational {
    BigRational::new(ns.into(), NANOS_PER_SEC.into())
}

fn slope(rate: Option<Rate>) -> BigRational {
    BigRational::from_integer(rate.map_or(0, Rate::bps).into())
}

/// Returns S(t) in bits, with `t` in seconds; 0 before time 0.
#[must_use]
pub fn service(curve: &ServiceCurve, t: &BigRational) -> BigRational {
    let d = seconds(curve.d.0);
    if *t <= BigRational::zero() {
        BigRational::zero()
    } else if *t <= d {
        slope(curve.m1) * t
    } else {
        slope(curve.m1) * &d + slope(curve.m2) * (t - d)
    }
}

/// Returns the time in seconds after which `curves` together exceed the capacity of a link of rate `link`, counted from
/// when all classes become backlogged at once. `None` if they never do, that is, if they are admitted.
#[must_use]
pub fn first_excess(curves: &[ServiceCurve], link: Rate) -> Option<BigRational> {
    let link = slope(Some(link));
    let mut knees: Vec<u64> = curves.iter().map(|curve| curve.d.0).filter(|&d| d > 0).collect();
    knees.sort_unstable();
    knees.dedup();
    // Between two knees the sum is a line: slopes change at knees only.
    for (place, from) in std::iter::once(0).chain(knees.iter().copied()).enumerate() {
        let at = seconds(from);
        let piece = |curve: &ServiceCurve| slope(if from < curve.d.0 { curve.m1 } else { curve.m2 });
        let excess = curves.iter().map(piece).sum::<BigRational>() - &link;
        if excess <= BigRational::zero() {
            continue;
        }
        let asked: BigRational = curves.iter().map(|curve| service(curve, &at)).sum();
        let crossing = &at + (&link * &at - asked) / excess;
        if knees.get(place).is_none_or(|&to| crossing < seconds(to)) {
            return Some(crossing);
        }
    }
    None
}

/// Returns [`first_excess`] of the real-time curves of the leaves of `tree`: the guarantee of `hfsc`.
#[must_use]
pub fn real_time_excess(tree: &Hierarchy) -> Option<BigRational> {
    let curves: Vec<ServiceCurve> = tree.leaves().iter().filter_map(|&leaf| tree.config(leaf).real_time).collect();
    first_excess(&curves, tree.link().rate)
}

/// Returns [`first_excess`] of the leaves of `tree`, with the line of its share for a leaf without a curve: the
/// guarantee of `sced` and the schedulers over it. Shares in whole bit/s, rounded down.
#[must_use]
pub fn flat_excess(tree: &Hierarchy) -> Option<BigRational> {
    let line = |leaf| {
        let rate = Rate::from_bps(tree.rate_all_busy(leaf)).ok();
        ServiceCurve { m1: rate, d: Nanos::ZERO, m2: rate }
    };
    let curve = |&leaf: &ClassId| tree.config(leaf).real_time.unwrap_or_else(|| line(leaf));
    first_excess(&tree.leaves().iter().map(curve).collect::<Vec<_>>(), tree.link().rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{BuildError, ClassConfig, Leniency, LinkConfig, Members, schedulers::sced};
    use rand::{Rng, SeedableRng};

    fn curve(m1: u64, ns: u64, m2: u64) -> ServiceCurve {
        ServiceCurve { m1: Rate::from_bps(m1).ok(), d: Nanos(ns), m2: Rate::from_bps(m2).ok() }
    }

    /// Makes the leaves of Figure 10: audio, video, FTP with the given delay in microseconds, and the rest as a line.
    fn figure_10(ftp_us: u64) -> Hierarchy {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10_000_000).unwrap()));
        let ftp = curve(0, ftp_us * 1_000 - 6_553_600, 5_000_000);
        let rest = curve(0, 0, 2_936_000);
        for curve in [curve(256_000, 5_000_000, 64_000), curve(6_553_600, 10_000_000, 2_000_000), ftp, rest] {
            tree.add(ClassId::ROOT, ClassConfig { real_time: Some(curve), ..ClassConfig::default() }).unwrap();
        }
        tree.build().unwrap()
    }

    #[test]
    fn figure_10_is_admitted_and_a_shorter_delay_names_when_it_fails() {
        assert_eq!(real_time_excess(&figure_10(16_250)), None);
        // From 7.4464 ms on the slopes are 64 k + 6.5536 M + 5 M + 2.936 M; 960 b were ahead through audio's first piece.
        let t = real_time_excess(&figure_10(14_000)).unwrap();
        let spare = |t: &BigRational| {
            let asked: BigRational = figure_10(14_000)
                .leaves()
                .iter()
                .map(|&leaf| service(&figure_10(14_000).config(leaf).real_time.unwrap(), t))
                .sum();
            BigRational::from_integer(10_000_000.into()) * t - asked
        };
        assert_eq!(spare(&t), BigRational::zero());
        assert!(spare(&(&t + seconds(1))) < BigRational::zero());
        assert!(seconds(7_446_400) < t && t < seconds(10_000_000));
    }

    #[test]
    fn the_schedulers_refuse_exactly_what_exceeds_the_link_and_name_the_same_time() {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        let (mut admitted, mut refused) = (0, 0);
        for _ in 0..2_000 {
            let curves: Vec<ServiceCurve> = (0..random.random_range(1..8))
                .map(|_| {
                    let (a, b) = (random.random_range(1..1_000_000), random.random_range(1..1_000_000));
                    let d = random.random_range(1..1_000_000_000);
                    if a < b { curve(0, d, b) } else { curve(a, d, b) }
                })
                .collect();
            let link = Rate::from_bps(random.random_range(1..4_000_000)).unwrap();
            let exact = first_excess(&curves, link);
            let mut tree = Hierarchy::builder(LinkConfig { max_queued: 1, ..LinkConfig::new(link) });
            for &curve in &curves {
                tree.add(ClassId::ROOT, ClassConfig { real_time: Some(curve), ..ClassConfig::default() }).unwrap();
            }
            match sced::INFO.build(&tree.build().unwrap(), Leniency::Refuse, Members::new()) {
                Ok(_) => {
                    admitted += 1;
                    assert_eq!(exact, None, "{curves:?} on {link}");
                }
                Err(BuildError::NotAdmitted { fails_at }) => {
                    refused += 1;
                    let t = exact.unwrap();
                    assert!(seconds(fails_at.0) <= t && t < seconds(fails_at.0 + 1), "{fails_at} and {t} s");
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(admitted > 100 && refused > 100, "{admitted} and {refused}");
    }
}
