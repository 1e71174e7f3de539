//! Delay bounds of the flat schedulers, and of service curves: exact.
//!
//! A latency-rate server gives a class of rate rho at least rho (t - tau - Theta) of service within a busy period that
//! began at tau. Then a packet of traffic that never exceeds sigma + rho t in any time t is delayed by at most sigma /
//! rho + Theta (\[drrpp\] Section 2.2; latencies as in \[drrpp\] Table 2.1). If a packet leaves within a certain time
//! of its departure from a private link of the rate rho, that lateness replaces Theta: Theta minus the time L_i / rho
//! of a class's own packet there, which sigma / rho already counts.
//!
//! | here | meaning |
//! | --- | --- |
//! | rho | share of the link when all are busy |
//! | r, L, V | rate of the link, its largest packet, number of leaves |
//! | F, phi | sum of all quanta, quantum of the class |

use fairlink_core::{
    ClassConfig, ClassId, Delay, Feature, Hierarchy, LatencyRate, NANOS_PER_SEC, Nanos, QueueKind, Rate, Ratio,
    SchedulerInfo, ServiceCurve, late_by,
};
use fairlink_traffic::{ArrivalCurve, ArrivalLimit};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use crate::network::Service;
use crate::to_f64;

/// Returns the longest delay of a packet of a class in seconds, with its own transmission. `server` serves the class on
/// a link of rate `link`. The traffic of the class never exceeds `burst` bytes and the `traffic` of the server.
#[must_use]
pub fn latency_rate_delay(server: &LatencyRate, burst: u64, link: Rate) -> BigRational {
    seconds(whole(burst) / exact(server.share) + exact(server.late), link)
}

/// Returns the longest delay in seconds of a packet of a class with the service curve `curve`: \[hfsc\] Theorem 2. Its
/// traffic must never exceed `burst` bytes at once and the curve's slope in the long run, and no deadline may be missed
/// by more than a packet of `largest` bytes on `link`. `None` if the curve never reaches the burst.
#[must_use]
pub fn curve_delay(curve: &ServiceCurve, burst: u64, largest: u32, link: Rate) -> Option<BigRational> {
    let traffic = ArrivalLimit::Bucket { burst, rate_bps: curve.m2.map_or(0, Rate::bps) }.into();
    Some(horizontal(&traffic, largest, &Served::from_curve(curve))? + seconds(whole(largest), link))
}

/// The minimum service of a server: a line up to a time, and another beyond. Rates are in bit/s, the time in seconds.
struct Served {
    first: BigRational,
    until: BigRational,
    then: BigRational,
}

impl Served {
    fn from_curve(curve: &ServiceCurve) -> Self {
        let slope = |rate: Option<Rate>| whole(rate.map_or(0, Rate::bps));
        Self { first: slope(curve.m1), until: seconds_of(curve.d), then: slope(curve.m2) }
    }

    fn at(rate: BigRational) -> Self {
        Self { first: rate.clone(), until: BigRational::zero(), then: rate }
    }

    /// Time at which it has served `bits`; `None` for never.
    fn time_of(&self, bits: &BigRational) -> Option<BigRational> {
        let knee = &self.first * &self.until;
        if *bits <= knee && !self.first.is_zero() {
            Some(bits / &self.first)
        } else if self.then.is_zero() {
            None
        } else {
            Some(&self.until + (bits - knee) / &self.then)
        }
    }
}

/// The horizontal deviation of `traffic` and `served`, in seconds: the maximum time from the arrival of a packet of at
/// most `largest` bytes to the service of its last bit. `None` if it is unbounded.
///
/// Both consist of straight lines, so that the largest distance is at a corner of one of them. Exact if the traffic's
/// limits are token buckets and lines; an upper bound if they rise in steps ([`ArrivalCurve::lines`]).
fn horizontal(traffic: &ArrivalCurve, largest: u32, served: &Served) -> Option<BigRational> {
    let line = |(bytes, rate): (u128, Ratio)| (whole(bytes) * BigInt::from(8), exact(rate));
    let lines: Vec<(BigRational, BigRational)> = traffic.lines(largest).map(line).collect();
    let slowest = lines.iter().map(|(_, rate)| rate).min()?;
    if *slowest > served.then {
        return None;
    }
    let mut corners = vec![BigRational::zero()];
    // Time at which the line of a burst and a rate is at a height.
    let mut meet = |above: BigRational, rate: BigRational| {
        if !rate.is_zero() {
            let at = above / rate;
            if at > BigRational::zero() {
                corners.push(at);
            }
        }
    };
    for (place, (burst, rate)) in lines.iter().enumerate() {
        meet(&served.first * &served.until - burst, rate.clone());
        for (other_burst, other_rate) in &lines[place + 1..] {
            meet(other_burst - burst, rate - other_rate);
        }
    }
    let mut longest = BigRational::zero();
    for at in corners {
        let arrived = lines.iter().map(|(burst, rate)| burst + rate * &at).min()?;
        longest = longest.max(served.time_of(&arrived)? - at);
    }
    Some(longest)
}

/// A delay bound, and the traffic that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayBound {
    /// Traffic of the class for which the bound holds, in bytes as the link counts them.
    pub traffic: ArrivalCurve,
    late: Late,
}

/// The inputs of a delay bound.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Late {
    Server { server: LatencyRate, burst: u64, link: Rate },
    Seconds(BigRational),
}

impl DelayBound {
    /// Returns the delay bound of the last bit of any packet after its arrival, in seconds.
    #[must_use]
    pub fn seconds(&self) -> BigRational {
        match &self.late {
            Late::Server { server, burst, link } => latency_rate_delay(server, *burst, *link),
            Late::Seconds(seconds) => seconds.clone(),
        }
    }

    /// The bound in floating point, as there may be a million.
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

/// The service model of a class.
enum Server {
    Rate(LatencyRate),
    Curve(ServiceCurve),
    Window(fairlink_core::Windowed),
}

impl Server {
    /// Adds a transmit queue of `packets` packets of `largest` bytes; `None` if the effect is unknown.
    fn behind(self, packets: u32, largest: u32) -> Option<Self> {
        let Self::Rate(server) = self else { return None };
        let Ratio { numerator, denominator } = server.late;
        let more = denominator.checked_mul(u128::from(packets) * u128::from(largest))?;
        let late = Ratio { numerator: numerator.checked_add(more)?, denominator };
        Some(Self::Rate(LatencyRate { late, ..server }))
    }

    /// Computes the bound for the traffic of a class with this `config`: that of its leaky buckets if they are
    /// `honoured` and the server carries it, else for its burst.
    fn bound(self, config: &ClassConfig, honoured: bool, largest: u32, link: Rate) -> Option<DelayBound> {
        let packet = || u64::from(largest);
        if honoured && let Some(bound) = self.bound_for_buckets(config, largest, link) {
            return Some(bound);
        }
        let bucket = |burst, rate_bps| ArrivalLimit::Bucket { burst, rate_bps }.into();
        match self {
            Self::Rate(server) => {
                let burst = config.burst.unwrap_or_else(packet);
                let rate_bps = floor_of(server.traffic, link);
                Some(DelayBound { traffic: bucket(burst, rate_bps), late: Late::Server { server, burst, link } })
            }
            Self::Curve(curve) => {
                let burst = config.burst.or_else(|| first_piece(&curve)).unwrap_or_else(packet);
                let late = Late::Seconds(curve_delay(&curve, burst, largest, link)?);
                Some(DelayBound { traffic: bucket(burst, curve.m2.map_or(0, Rate::bps)), late })
            }
            Self::Window(server) => {
                let traffic = ArrivalLimit::Window { amount: server.amount, every: server.every }.into();
                let late = Late::Seconds(seconds_of(server.delay));
                Some(DelayBound { traffic, late })
            }
        }
    }

    /// Returns the bound for traffic that conforms to the class's leaky buckets, with a packet at once at their peak
    /// rates, and to its burst if it has one. `None` without leaky buckets, and if the server does not carry such
    /// traffic.
    fn bound_for_buckets(&self, config: &ClassConfig, largest: u32, link: Rate) -> Option<DelayBound> {
        let (served, carried, late) = match self {
            Self::Rate(server) => {
                let rate = exact(server.share) * BigInt::from(link.bps());
                (Served::at(rate), floor_of(server.traffic, link), seconds(exact(server.late), link))
            }
            Self::Curve(curve) => {
                (Served::from_curve(curve), curve.m2.map_or(0, Rate::bps), seconds(whole(largest), link))
            }
            Self::Window(_) => return None,
        };
        let bucket = |burst, rate_bps| ArrivalLimit::Bucket { burst, rate_bps };
        let buckets = || config.leaky_buckets.iter();
        let mut limits: Vec<ArrivalLimit> = buckets().map(|own| bucket(own.burst, own.rate.bps())).collect();
        let slowest = buckets().map(|own| own.rate.bps()).min()?;
        limits.extend(buckets().map(|own| own.peak).min().map(|peak| bucket(largest.into(), peak.bps())));
        match config.burst {
            Some(burst) => limits.push(bucket(burst, carried)),
            None if slowest > carried => return None,
            None => {}
        }
        let traffic = ArrivalCurve::new(&limits).ok()?;
        Some(DelayBound { late: Late::Seconds(horizontal(&traffic, largest, &served)? + late), traffic })
    }
}

/// Returns the delay bound of every class of `tree`, by class id, under the scheduler `info`; `None` if it promises
/// none or if the bound is unknown. The traffic is that of the class's leaky buckets if the scheduler honours them and
/// the class's rate carries it. Otherwise it is that of its `burst`, or else of the first piece of a concave real-time
/// curve, or of a largest packet at once. A class whose queue reorders its packets has no bound. Behind a transmit
/// queue of n packets the bounds that follow from the order of packets grow by n largest packets on the link, and there
/// are no others.
#[must_use]
pub fn delay_bounds(info: &SchedulerInfo, tree: &Hierarchy) -> Vec<Option<DelayBound>> {
    let link = tree.link();
    let honoured = info.supports(Feature::LeakyBucket);
    let bound = |(index, server): (usize, Option<Server>)| {
        server?.bound(tree.config(ClassId(index as u32)), honoured, link.max_packet, link.rate)
    };
    servers(info, tree).into_iter().enumerate().map(bound).collect()
}

/// Returns the service of every class of `tree` for [`network`](crate::network), by class id, under the scheduler
/// `info`. `None` where [`delay_bounds`] has none, and for bounds of an amount of traffic per interval.
///
/// Latency-rate servers are guaranteed-rate servers: either a backlogged class is served at its rate after the latency,
/// or its packets leave so much after their departure from a private link. Those for traffic of a lower rate than their
/// own are for [conforming](Service::Conforming) traffic. A service curve counts with its second slope: from d on if
/// the first slope is lower, and otherwise at once, without the advantage of the first.
#[must_use]
pub fn services(info: &SchedulerInfo, tree: &Hierarchy) -> Vec<Option<Service>> {
    let (rate, largest) = (tree.link().rate.bps() as f64, tree.link().max_packet);
    let part = |ratio: Ratio| ratio.numerator as f64 / ratio.denominator as f64;
    let service = |(index, server): (usize, Option<Server>)| match server? {
        Server::Rate(server) => {
            let (bps, latency_s) = (rate * part(server.share), 8.0 * part(server.late) / rate);
            if server.traffic == server.share {
                return Some(Service::Rate { bps, latency_s });
            }
            let burst = tree.config(ClassId(index as u32)).burst.unwrap_or_else(|| largest.into()) as f64;
            Some(Service::Conforming { bps, latency_s, burst, rate_bps: rate * part(server.traffic) })
        }
        Server::Curve(curve) => {
            let bps = curve.m2?.bps() as f64;
            let before = curve.m1.map_or(0.0, |slope| slope.bps() as f64);
            let flat = curve.d.0 as f64 / NANOS_PER_SEC as f64 * (1.0 - before / bps).max(0.0);
            Some(Service::Rate { bps, latency_s: flat + 8.0 * f64::from(largest) / rate })
        }
        Server::Window(_) => None,
    };
    servers(info, tree).into_iter().enumerate().map(service).collect()
}

/// Returns the service model of every class of `tree` whose queue keeps the order of packets, by class id.
fn servers(info: &SchedulerInfo, tree: &Hierarchy) -> Vec<Option<Server>> {
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
    for (index, server) in servers.iter_mut().enumerate() {
        let class = ClassId(index as u32);
        let config = tree.config(class);
        let in_order = config.queue != QueueKind::FqCoDel && config.hosts.is_none();
        *server = server.take().filter(|_| in_order);
        if let Some(queue) = link.transmit_queue {
            let passes = queue_is_passed(info, tree, class);
            *server = server.take().filter(|_| passes).and_then(|server| server.behind(queue.packets, link.max_packet));
        }
    }
    servers
}

/// Returns true if the delay bound of `class` under `info` holds behind the transmit queue of `tree`, and grows by at
/// most that queue's contents: if it follows from the order of packets, and others do not overtake those of the class
/// in the queue.
fn queue_is_passed(info: &SchedulerInfo, tree: &Hierarchy, class: ClassId) -> bool {
    let is_critical = |class: ClassId| tree.config(class).latency_critical;
    let overtakes = tree.link().transmit_queue.is_some_and(|queue| queue.priority)
        && info.supports(Feature::LatencyCritical)
        && tree.leaves().iter().any(|&leaf| is_critical(leaf));
    info.promises.delay_in_order && (!overtakes || is_critical(class))
}

/// The part of the rate of `link`, in bit/s rounded down.
fn floor_of(part: Ratio, link: Rate) -> u64 {
    let bits = match part.numerator.checked_mul(link.bps().into()) {
        Some(bits) => u64::try_from(bits / part.denominator).ok(),
        None => u64::try_from((exact(part) * BigInt::from(link.bps())).floor().to_integer()).ok(),
    };
    bits.unwrap_or(u64::MAX)
}

/// Service of the first piece of a concave curve, in whole bytes rounded down; `None` for another curve.
fn first_piece(curve: &ServiceCurve) -> Option<u64> {
    let bytes = u128::from(curve.m1?.bps()) * u128::from(curve.d.0) / (8 * u128::from(NANOS_PER_SEC));
    (curve.m1 > curve.m2 && bytes > 0).then(|| u64::try_from(bytes).unwrap_or(u64::MAX))
}

fn seconds_of(time: Nanos) -> BigRational {
    BigRational::new(time.0.into(), NANOS_PER_SEC.into())
}

/// Converts a ratio to an exact number.
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
mod tests;
