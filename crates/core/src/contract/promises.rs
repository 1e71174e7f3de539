//! Guarantees of a scheduler, as values that a planner computes with. A value names the applicable theorem, or has a
//! function that computes the theorem's parameters for a tree. `fairlink-theory` computes the bounds that follow,
//! exactly.
//!
//! | symbol | meaning |
//! | --- | --- |
//! | r, L | rate of the link, its largest packet |
//! | rho_i, L_i | the class's rate when all are busy, its largest packet |
//! | W_i(t1, t2), W(t1, t2) | what is sent of class i, and in all, from t1 to t2 |

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::error::BuildError;
use super::hierarchy::Hierarchy;
use super::memory::OutOfMemory;
use super::packet::ClassId;
use super::sharing::LeafWeights;
use super::units::{Nanos, Rate};

/// A fraction of two whole numbers; the denominator is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Above the line.
    pub numerator: u128,
    /// Below it.
    pub denominator: u128,
}

impl Ratio {
    /// Returns `value` itself.
    #[must_use]
    pub const fn whole(value: u128) -> Self {
        Self { numerator: value, denominator: 1 }
    }

    /// Returns `part / whole` of it, a part of 1 itself. Exact if its denominator is below 2^64, else rounded down.
    #[must_use]
    fn part(self, part: u64, whole: u64) -> Self {
        let lowest = |one: u128, other: u128| {
            let divisor = gcd(one, other);
            (one / divisor, other / divisor)
        };
        // Both denominators are below 2^64.
        let (part, denominator) = lowest(part.into(), self.denominator);
        let (numerator, whole) = lowest(self.numerator, whole.into());
        let (numerator, denominator) = lowest(numerator * part, denominator * whole);
        if denominator >> 64 == 0 {
            return Self { numerator, denominator };
        }
        // Long division, to 63 bits; the remainder is below the denominator.
        let (mut quotient, mut rest) = (numerator / denominator, numerator % denominator);
        for _ in 0..63 {
            let carry = rest >> 127;
            rest <<= 1;
            quotient <<= 1;
            if carry == 1 || rest >= denominator {
                rest = rest.wrapping_sub(denominator);
                quotient += 1;
            }
        }
        Self { numerator: quotient, denominator: 1 << 63 }
    }
}

/// Returns the greatest common divisor. `other` is not 0.
fn gcd(mut one: u128, mut other: u128) -> u128 {
    while one >> 64 != 0 || other >> 64 != 0 {
        if one == 0 {
            return other;
        }
        (one, other) = (other % one, one);
    }
    // Both fit in 64 bits, in which a division takes a fraction of the time.
    let (mut one, mut other) = (one as u64, other as u64);
    while one != 0 {
        (one, other) = (other % one, one);
    }
    other.into()
}

/// The shares of siblings. Many have the same weight, one after the other, and a share takes a while.
pub(crate) struct SiblingShares {
    parent: Ratio,
    all: u64,
    last: (u64, Ratio),
}

impl SiblingShares {
    /// Makes the shares of siblings. Their parent has `parent` of the link, and their weights add up to `all`.
    pub(crate) fn new(parent: Ratio, all: u64) -> Self {
        Self { parent, all, last: (all, parent) }
    }

    /// Returns the share of a sibling of `weight`.
    pub(crate) fn of(&mut self, weight: u64) -> Ratio {
        if self.last.0 != weight {
            self.last = (weight, self.parent.part(weight, self.all));
        }
        self.last.1
    }
}

/// The guarantees of a scheduler. `None` means no guarantee of that kind.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    /// Bound on the difference in service of backlogged classes.
    pub fairness: Option<Fairness>,
    /// Bound on the wait of a backlogged leaf for its next visit.
    pub transmission_gap: Option<TransmissionGap>,
    /// Bound on the delay of a packet, if its class conforms to its traffic specification.
    pub delay: Option<Delay>,
    /// \[pgps\] Theorem 2: true if no leaf is ever more than one largest packet behind its service under fluid GPS.
    pub follows_gps: bool,
    /// True if that follows from the order of packets alone: the bytes ahead of a packet since its class began to wait
    /// are bounded, and the link is busy until then. The bound then also holds behind a [transmit
    /// queue](crate::contract::TransmitQueue), and grows by that queue's limit.
    pub delay_in_order: bool,
    /// Leaves that get less than their guarantees while all classes are backlogged; `None` if every leaf gets its
    /// guarantee.
    pub shortfalls: Option<Shortfalls>,
    /// The turns of a round robin that visits each leaf at most once between two visits of another.
    pub visit: Option<Visit>,
    /// True if a backlogged leaf may wait without bound while leaves of its own priority are served. The contract suite
    /// requires all other schedulers to serve every backlogged leaf in bounded time, in proportion to the shares of
    /// their rule.
    pub starves: bool,
}

/// The shortfalls of a tree.
///
/// # Errors
/// As building the scheduler.
pub type Shortfalls = fn(&Hierarchy) -> Result<Vec<Shortfall>, BuildError>;

/// A leaf that gets less than its guarantee while all classes have packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The leaf.
    pub leaf: ClassId,
    /// Its guarantee, or its share by weight.
    pub guarantee: Rate,
    /// Rate that it gets, bits/s; 0 for none.
    pub gets: u64,
}

impl Promises {
    /// No guarantees.
    pub const NONE: Self = Self {
        fairness: None,
        transmission_gap: None,
        delay: None,
        follows_gps: false,
        delay_in_order: false,
        shortfalls: None,
        visit: None,
        starves: false,
    };

    /// Returns the names of the kinds of promise, as users read them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let kinds = [
            ("fairness", self.fairness.is_some()),
            ("transmission_gap", self.transmission_gap.is_some()),
            ("delay", self.delay.is_some()),
        ];
        kinds.into_iter().filter_map(|(name, promised)| promised.then_some(name))
    }
}

/// Mean service of a leaf that always has packets in one visit, by class id. A latency-critical
/// leaf under [`Sharing::CriticalVisits`](super::sharing::Sharing::CriticalVisits) has a visit for each of a best-effort
/// leaf.
#[derive(Clone, Copy, Debug)]
pub enum Visit {
    /// Quanta in 2^-16 bytes.
    Bytes(LeafWeights),
    /// Packets of any length.
    Packets(LeafWeights),
}

/// The kind of fairness bound between backlogged classes.
#[derive(Clone, Copy, Debug)]
pub enum Fairness {
    /// \[hls\] Theorem 3, with the weights as run and the bytes that leaves may be ahead by.
    Rounds(fn(&Hierarchy) -> Result<RoundTerms, OutOfMemory>),
    /// \[hls\] Theorem 4, between siblings that are leaves: visits by the smallest whole weights, a largest packet each.
    Visits,
    /// |W_i / rho_i - W_j / rho_j| <= L_i / rho_i + L_j / rho_j while both are backlogged.
    PacketEach,
    /// |sent_i / f_i - sent_j / f_j| <= 2 L + Q_min while both are backlogged, f_i being Q_i / Q_min.
    Quanta,
    /// W_i(t1, t2) >= (rho_i / r) W(t1, t2) - index_i while class i is backlogged: the worst-case fairness index in
    /// bytes, by class id; `None` for classes without one.
    WorstCase(fn(&Hierarchy) -> Vec<Option<Ratio>>),
    /// |W_i / w_i - W_j / w_j| <= x_i / w_i + x_j / w_j - 2 L / W while both are backlogged with packets that are not sent ahead
    /// of others, and no ceiling holds them back. W is the sum of the weights of all siblings, and x is in bytes, by class id;
    /// `None` for classes without one.
    Clocks(fn(&Hierarchy) -> Result<Vec<Option<Ratio>>, OutOfMemory>),
    /// The virtual times of siblings that are active differ by a constant (\[hfsc\] Theorem 3), which is not computed.
    VirtualTimes,
}

/// The terms of a scheduler that serves in rounds.
#[derive(Clone, Debug)]
pub struct RoundTerms {
    /// By class id, the weight as run, in units of `units_per_byte`; 0 for the root.
    pub weights: Box<[u64]>,
    /// Units of weight in a byte.
    pub units_per_byte: u64,
    /// Bytes by which a leaf may be ahead of its turn, by class id; empty if no leaf may be ahead.
    pub advances: Box<[u64]>,
}

/// The kind of bound on the wait of a backlogged leaf for its next visit.
#[derive(Clone, Copy, Debug)]
pub enum TransmissionGap {
    /// \[hls\] Theorem 5: two rounds, plus the advances of latency-critical leaves.
    TwoRounds,
    /// \[hls\] Theorem 6: the longest round of visits.
    LongestRound,
    /// A round of the quanta of all classes, which is not computed.
    Quanta,
}

/// The kind of delay bound, including the packet's own transmission, for a class that conforms to a burst and a rate.
#[derive(Clone, Copy, Debug)]
pub enum Delay {
    /// Latency-rate servers by class id; `None` for classes without one.
    LatencyRate(fn(&Hierarchy) -> Vec<Option<LatencyRate>>),
    /// A packet of a class with a service curve leaves at most L / r after the curve has served it (\[hfsc\] Theorem
    /// 2). The curves must fit the link.
    Curves {
        /// True if a class without a curve has the line of its share.
        lines: bool,
    },
    /// Bounds by class id, for a limited amount of traffic in every interval of a given length; `None` for classes
    /// without one.
    Windows(fn(&Hierarchy) -> Vec<Option<Windowed>>),
}

/// A server of the rate rho, which is `share` of the link. If the traffic never exceeds sigma bytes and `traffic` of the link in
/// any time, its packets leave within sigma / rho + late / r of their arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyRate {
    /// rho / r.
    pub share: Ratio,
    /// Latency of the server, in bytes of the link.
    pub late: Ratio,
    /// The rate of the traffic that this holds for, over r; rho / r at most.
    pub traffic: Ratio,
}

impl LatencyRate {
    /// Makes a server for traffic of its own rate.
    #[must_use]
    pub const fn new(share: Ratio, late: Ratio) -> Self {
        Self { share, late, traffic: share }
    }
}

/// A server for a limited amount of traffic in every interval of a given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windowed {
    /// The most traffic that it holds for.
    pub amount: PerWindow,
    /// The length of the intervals.
    pub every: Nanos,
    /// No packet leaves later after its arrival.
    pub delay: Nanos,
}

/// An amount of traffic per interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerWindow {
    /// An amount in packets of any length.
    Packets(u64),
    /// An amount in bytes.
    Bytes(u64),
}

/// Returns the servers of all leaves with their rates when all are busy. Each is `late` bytes of the link late.
#[must_use]
pub fn late_by(tree: &Hierarchy, late: u64) -> Vec<Option<LatencyRate>> {
    let mut servers = alloc::vec![None; tree.len()];
    let mut shares = alloc::vec![Ratio::whole(1); tree.len()];
    for parent in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
        let mut siblings = SiblingShares::new(shares[parent.index()], tree.children_weight(parent).max(1));
        for &child in tree.children(parent) {
            let share = siblings.of(tree.weight(child));
            shares[child.index()] = share;
            if tree.is_leaf(child) && share.numerator > 0 {
                servers[child.index()] = Some(LatencyRate::new(share, Ratio::whole(late.into())));
            }
        }
    }
    servers
}
