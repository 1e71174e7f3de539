//! Delay bounds of the flat schedulers, and of service curves: exact.
//!
//! A latency-rate server gives a class of rate rho at least rho (t - tau - Theta) of service within a busy period that began at
//! tau; then a packet of traffic that never exceeds sigma + rho t in any time t is delayed by at most sigma / rho + Theta
//! (\[drrpp\] Section 2.2; latencies as \[drrpp\] Table 2.1 has them). Where a packet leaves within a certain time of when a link of
//! the rate rho alone would have sent it, that lateness takes the place of Theta: Theta less the time L_i / rho that a
//! class's own packet takes there, which sigma / rho counts already.
//!
//! | here | meaning |
//! | --- | --- |
//! | rho | share of the link when all are busy |
//! | r, L, V | rate of the link, its largest packet, number of leaves |
//! | F, phi | sum of all quanta, quantum of the class |

use fairlink_core::{
    ClassId, Delay, Hierarchy, LatencyRate, NANOS_PER_SEC, Nanos, PerWindow, QueueKind, Rate, Ratio, SchedulerInfo,
    ServiceCurve, late_by,
};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use crate::to_f64;

/// The longest delay in seconds, its own transmission included, of a packet of a class that `server` serves, on a link of rate `link`,
/// if the class's traffic never exceeds `burst` bytes and the server's `traffic`.
#[must_use]
pub fn latency_rate_delay(server: &LatencyRate, burst: u64, link: Rate) -> BigRational {
    seconds(whole(burst) / exact(server.share) + exact(server.late), link)
}

/// The longest delay in seconds of a packet of a class with the service curve `curve`, if its traffic never exceeds `burst` bytes
/// at once and the curve's slope in the long run, and no deadline is missed by more than a packet of `largest` bytes on `link`:
/// \[hfsc\] Theorem 2. `None` where the curve never gets to the burst.
#[must_use]
pub fn curve_delay(curve: &ServiceCurve, burst: u64, largest: u32, link: Rate) -> Option<BigRational> {
    let slope = |rate: Option<Rate>| whole(rate.map_or(0, Rate::bps));
    let d = BigRational::new(curve.d.0.into(), 1_000_000_000.into());
    let (first, bits) = (slope(curve.m1) * &d, whole(burst) * BigInt::from(8));
    let second = slope(curve.m2);
    // Traffic of the rate m2 after the burst catches up with a first piece that is less steep: the curve is latest at the knee.
    let reached = if bits <= first && curve.m1 >= curve.m2 {
        bits / slope(curve.m1)
    } else if second.is_zero() {
        return None;
    } else {
        // What the second piece carries beyond the knee, or what the first one has ahead of the traffic there.
        d + (bits - first) / second
    };
    Some(reached + seconds(whole(largest), link))
}

/// What a class may send at most for its delay bound to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Never more than a burst and a rate.
    Bucket {
        /// In bytes.
        burst: u64,
        /// In bit/s, rounded down.
        rate_bps: u64,
    },
    /// So much in every interval of a length.
    Window {
        /// How much.
        amount: PerWindow,
        /// The length of the intervals.
        every: Nanos,
    },
}

/// A delay bound, and the traffic that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayBound {
    /// What the class may send.
    pub traffic: Traffic,
    late: Late,
}

/// What a delay bound is computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Late {
    Server { server: LatencyRate, burst: u64, link: Rate },
    Seconds(BigRational),
}

impl DelayBound {
    /// No packet's last bit leaves later after the packet's arrival, in seconds.
    #[must_use]
    pub fn seconds(&self) -> BigRational {
        match &self.late {
            Late::Server { server, burst, link } => latency_rate_delay(server, *burst, *link),
            Late::Seconds(seconds) => seconds.clone(),
        }
    }

    /// The same in floating point, of which there may be a million.
    #[must_use]
    pub fn seconds_in_floats(&self) -> f64 {
        match &self.late {
            Late::Server { server, burst, link } => {
                let part = |ratio: Ratio| ratio.numerator as f64 / ratio.denominator as f64;
                (*burst as f64 / part(server.share) + part(server.late)) * 8.0 / link.bps() as f64
            }
            Late::Seconds(seconds) => to_f64(seconds),
        }
    }
}

/// What a scheduler serves a class as.
enum Server {
    Rate(LatencyRate),
    Curve(ServiceCurve),
    Window(fairlink_core::Windowed),
}

impl Server {
    /// The bound for traffic with `burst`, where the class states one.
    fn bound(self, burst: Option<u64>, largest: u32, link: Rate) -> Option<DelayBound> {
        let packet = || u64::from(largest);
        match self {
            Self::Rate(server) => {
                let burst = burst.unwrap_or_else(packet);
                let rate_bps = floor_of(server.traffic, link);
                let late = Late::Server { server, burst, link };
                Some(DelayBound { traffic: Traffic::Bucket { burst, rate_bps }, late })
            }
            Self::Curve(curve) => {
                let burst = burst.or_else(|| first_piece(&curve)).unwrap_or_else(packet);
                let rate_bps = curve.m2.map_or(0, Rate::bps);
                let late = Late::Seconds(curve_delay(&curve, burst, largest, link)?);
                Some(DelayBound { traffic: Traffic::Bucket { burst, rate_bps }, late })
            }
            Self::Window(server) => {
                let traffic = Traffic::Window { amount: server.amount, every: server.every };
                let late = Late::Seconds(BigRational::new(server.delay.0.into(), NANOS_PER_SEC.into()));
                Some(DelayBound { traffic, late })
            }
        }
    }
}

/// The delay bound of every class of `tree`, by class id, under the scheduler `info`: `None` where it promises none or where the
/// bound is not known here. The traffic is that of the class's `burst`; where that is absent, of the first piece of a
/// concave real-time curve, or of a largest packet at once. A class whose queue does not keep its packets in their order has no bound.
#[must_use]
pub fn delay_bounds(info: &SchedulerInfo, tree: &Hierarchy) -> Vec<Option<DelayBound>> {
    let link = tree.link();
    let as_rates = |servers: Vec<Option<LatencyRate>>| -> Vec<Option<Server>> {
        servers.into_iter().map(|server| server.map(Server::Rate)).collect()
    };
    let none = || (0..tree.len()).map(|_| None).collect();
    let mut servers: Vec<Option<Server>> = match info.promises.delay {
        Some(Delay::LatencyRate(servers)) => as_rates(servers(tree)),
        Some(Delay::Curves { lines: true }) => as_rates(late_by(tree, link.max_packet.into())),
        Some(Delay::Windows(servers)) => servers(tree).into_iter().map(|server| server.map(Server::Window)).collect(),
        Some(Delay::Curves { lines: false }) | None => none(),
    };
    if matches!(info.promises.delay, Some(Delay::Curves { .. })) {
        for &leaf in tree.leaves() {
            if let Some(curve) = tree.config(leaf).real_time {
                servers[leaf.index()] = Some(Server::Curve(curve));
            }
        }
    }
    let bound = |(index, server): (usize, Option<Server>)| {
        let config = tree.config(ClassId(index as u32));
        let in_order = config.queue != QueueKind::FqCoDel;
        server.filter(|_| in_order)?.bound(config.burst, link.max_packet, link.rate)
    };
    servers.into_iter().enumerate().map(bound).collect()
}

/// So much of the rate of `link`, in bit/s rounded down.
fn floor_of(part: Ratio, link: Rate) -> u64 {
    let bits = match part.numerator.checked_mul(link.bps().into()) {
        Some(bits) => u64::try_from(bits / part.denominator).ok(),
        None => u64::try_from((exact(part) * BigInt::from(link.bps())).floor().to_integer()).ok(),
    };
    bits.unwrap_or(u64::MAX)
}

/// What a concave curve serves in its first piece, in whole bytes rounded down; `None` for another curve.
fn first_piece(curve: &ServiceCurve) -> Option<u64> {
    let bytes = u128::from(curve.m1?.bps()) * u128::from(curve.d.0) / (8 * u128::from(NANOS_PER_SEC));
    (curve.m1 > curve.m2 && bytes > 0).then(|| u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// A ratio as an exact number.
pub(crate) fn exact(Ratio { numerator, denominator }: Ratio) -> BigRational {
    BigRational::new(numerator.into(), denominator.into())
}

fn whole(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}

fn seconds(bytes: BigRational, link: Rate) -> BigRational {
    bytes * BigInt::from(8) / BigInt::from(link.bps())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Nanos, Share};

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
                let Traffic::Bucket { burst, rate_bps: 2_000_000 } = bound.traffic else { panic!("{bound:?}") };
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
        // All of one priority: a packet of each, and one under way.
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
        assert_eq!(first.traffic, Traffic::Bucket { burst: 1000, rate_bps: 3_200_000 });
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
        // Convex: nothing for 10 ms, then 5 Mbit/s.
        let late = ServiceCurve { m1: None, d: Nanos::from_millis(10), m2: Some(rate(5_000_000)) };
        assert_eq!(ms(late, 5000), Some(21_200.into()));
        let ends = ServiceCurve { m1: Some(rate(256_000)), d: Nanos::from_millis(5), m2: None };
        assert_eq!((ms(ends, 160), ms(ends, 161)), (Some(8_200.into()), None));
    }
}
