//! Long-run rates of all classes under a scheduler, by the rule that it declares ([`Sharing`]): its own fluid ideal.
//!
//! | rule | schedulers | how it is computed |
//! | --- | --- | --- |
//! | siblings share by weight | hls, hpfq | [`crate::hmm`], exact; a run where a `ceiling_burst` is small ([`crate::reach`]) |
//! | siblings share visits by weight | hdrr | the same in visits, with a bisection for how many there are |
//! | all leaves share by weight | drr, wrr, corr, fair queueing, sced | the same in a tree of one level |
//! | real time first, siblings share the rest by slopes | hfsc | the same above floors |
//! | level by level of lenders | htb | [`crate::htb_fluid`] in `f64`, where the order of packets does not decide |
//! | own rates first, the rest by quanta | cbq-formal | a bisection at each class |
//! | a visit for each visit of others | drr++, drr++-mw00 | a bisection for the length of the round |
//! | first while a contract is kept | drr+ | both ends of what may be; computed where they agree |
//! | its own share at most | rcsp | at once |
//! | shares first, the rest by the states of queues | fq-sds | where nothing is left to the states |
//! | by packets | cbq-ancestor-only, cbq-top-level, htb-common-deficit | where all that is asked for fits, else by a run |
//! | none | all others | where all that is asked for fits |
//!
//! Limits are those that the scheduler honours. If a rule gives no rates because packets decide, and sources are
//! steady, the scheduler itself is run ([`Ideal::run_because`]). If runs with other phases and lengths of packets do
//! not agree, [`NotComputed`] has the reason, and no rates may be printed. So it does if the queues of leaves do not hold
//! what comes between two of their turns ([`crate::turns`]).
//!
//! ```
//! use fairlink_core::{registry, ClassConfig, ClassId, Hierarchy, LinkConfig, Rate};
//! use fairlink_theory::ideal::{Rule, Traffic};
//! use fairlink_theory::request::{Demand, Request};
//!
//! let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10_000_000).unwrap()));
//! let quantum = |bytes| ClassConfig { quantum: Some(bytes), ..ClassConfig::default() };
//! let [a, b] = [8_000, 2_000].map(|bytes| tree.add(ClassId::ROOT, quantum(bytes)).unwrap());
//! let tree = tree.build().unwrap();
//! let rule = Rule::for_scheduler(registry::find("drr").unwrap(), &tree, Traffic::unknown()).unwrap();
//! let ideal = rule.solve(&Demand::uniform(&tree, Request::Unlimited)).unwrap();
//! assert_eq!((ideal.floor_bps(a), ideal.floor_bps(b)), (8_000_000, 2_000_000));
//! ```

use std::borrow::Cow;

use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{
    ClassId, Contract, Feature, Hierarchy, LinkConfig, NANOS_PER_SEC, SchedulerInfo, Sharing, WhenFull,
};
use num_bigint::BigInt;
use num_rational::BigRational;

use crate::allotted::Allotted;
use crate::floats::{CLOSE, SAME, add_up, agree, within};
use crate::hmm::{Allocation, ClassAllocation};
use crate::lenders::Lenders;
use crate::limits::{Limit, Limits};
use crate::played;
use crate::reach;
use crate::request::{Demand, Request};
use crate::terms::Terms;
use crate::turns;
use crate::visits::{self, RARE, Visited};

pub use most::{Most, highest};

mod most;

/// Packets that a source that always has another may send at once.
const AHEAD: f64 = 16.0;
/// Reason for missing rates if lengths of packets decide.
const UNKNOWN_LENGTHS: &str = "shares follow from the lengths of packets, which are not known";
/// Reason for missing rates if contracts decide.
const UNKNOWN_CONTRACT: &str = "the conformance of a class to its contract depends on the arrivals of its packets";
/// Reason for missing rates if \[hfsc\] puts a returning class into the middle of the virtual times of its siblings. A
/// class that gets more in real time than its share is permanently far ahead of them, so that siblings that come and go
/// beside it start far ahead of those that stay.
const PUSHED_BACK: &str = "a class whose real-time rate is above its share puts siblings back that are not always busy, by how their packets come";

/// The reason why there is no ideal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not computed: {why}")]
pub struct NotComputed {
    why: String,
    /// The class that prevents it, if there is one.
    class: Option<ClassId>,
}

impl NotComputed {
    /// Makes a reason that holds for the whole link.
    #[must_use]
    pub fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), class: None }
    }

    /// Makes a reason that lies in one class.
    #[must_use]
    pub const fn because_of(class: ClassId, why: String) -> Self {
        Self { why, class: Some(class) }
    }

    /// Names the class that prevents the ideal, if there is one. `name` returns the name of a class of the tree.
    #[must_use]
    pub fn named(self, name: impl Fn(ClassId) -> String) -> Self {
        match self.class {
            Some(class) => Self::because(format!("{}: {}", name(class), self.why)),
            None => self,
        }
    }

    /// Returns the reason in words.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }
}

/// Known properties of the traffic of leaves beside their rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Mean lengths of packets in bytes by class id; all unknown if it is empty.
    packets: Vec<Option<f64>>,
    /// True if packets of unknown length may be assumed equally long.
    equal: bool,
    /// True if every leaf sends at a constant rate.
    steady: bool,
}

impl Traffic {
    /// Only rates are known. Packets that count by number are assumed equally long, and rates constant, as those of
    /// fluids are.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { packets: Vec::new(), equal: true, steady: true }
    }

    /// Traffic with the mean lengths of packets in bytes by class id, `None` for a class that sends none. `steady` is
    /// true if every leaf sends at a constant rate. An empty list means unknown lengths; results that depend on them
    /// are not computed.
    #[must_use]
    pub const fn new(packets: Vec<Option<f64>>, steady: bool) -> Self {
        Self { packets, equal: false, steady }
    }

    /// Marks the rates as long-run averages only.
    #[must_use]
    pub fn bursty(mut self) -> Self {
        self.steady = false;
        self
    }

    /// Returns the mean length of the packets of a class in bytes, if it is known.
    #[must_use]
    pub fn packet(&self, class: ClassId) -> Option<f64> {
        self.packets.get(class.index()).copied().flatten()
    }
}

/// The sharing rule of one scheduler for one tree, with its parameters.
#[derive(Clone, Debug)]
pub struct Rule<'a> {
    tree: &'a Hierarchy,
    own: Cow<'a, Parameters>,
}

/// The parameters of a [`Rule`], which are kept for many demands of one tree: [`Rule::keep`].
#[derive(Clone, Debug)]
pub struct Parameters {
    info: SchedulerInfo,
    kind: Kind,
    traffic: Traffic,
    /// True if the scheduler is run on the traffic if no formula has the rates ([`crate::played`]).
    plays: bool,
    /// True if explicit bursts may keep classes from their ceilings ([`crate::reach`]).
    small_bursts: bool,
    /// True if queues may overflow between two turns of their leaves ([`crate::turns`]), and are looked at.
    short_queues: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Shares(Terms),
    SiblingVisits { terms: Terms, traffic: Traffic },
    Lenders(Lenders),
    Allotted(Allotted),
    Visits { quanta: Box<[u64]>, traffic: Traffic },
    Contracts { by_quanta: Terms, contracts: Box<[Option<Contract>]>, certain: (u64, u64), traffic: Traffic },
    OwnShare,
    SharesFirst { guarantees: Box<[u64]>, why: &'static str },
    Unknown { limits: Limits, why: &'static str },
    Never { why: &'static str },
}

impl<'a> Rule<'a> {
    /// Makes the rule of `info` for `tree`. If lengths of packets or contracts decide, those of `traffic` are used.
    ///
    /// # Errors
    /// [`NotComputed`] if the scheduler cannot be built for the tree.
    pub fn for_scheduler(info: &SchedulerInfo, tree: &'a Hierarchy, traffic: Traffic) -> Result<Self, NotComputed> {
        let refused =
            |error: fairlink_core::BuildError| NotComputed::because(format!("the scheduler refuses the tree: {error}"));
        let limits = Limits::honoured_by(info, tree);
        let leaves = |weights: Box<[u64]>, limits| Kind::Shares(Terms::leaves(weights.into_vec(), limits));
        let small_bursts = reach::may_lose(info)
            && tree.classes().any(|class| tree.config(class).ceiling.and(tree.config(class).ceiling_burst).is_some());
        // For the others, rates depend on the past or on states of queues: a run would be valid only for itself.
        let plays = matches!(
            info.sharing,
            Sharing::SiblingVisits
                | Sharing::Allotted
                | Sharing::Lenders
                | Sharing::CriticalVisits(_)
                | Sharing::ByPackets(_)
        );
        // Close to a ceiling that it reaches now and then, rates by a common deficit drift for minutes after runs have
        // agreed.
        let drifts = matches!(info.sharing, Sharing::ByPackets(_))
            && info.supports(Feature::Ceiling)
            && tree.classes().any(|class| tree.config(class).ceiling.is_some());
        let plays = plays && !drifts;
        let plays = (plays || small_bursts) && traffic.steady;
        let known = traffic.clone();
        let kind = match info.sharing {
            Sharing::Siblings => Kind::Shares(Terms::siblings(tree, limits)),
            Sharing::Leaves(weights) => leaves(weights(tree).map_err(refused)?, limits),
            Sharing::LeavesByPackets(packets) => {
                let mut weights = packets(tree).map_err(refused)?;
                by_length(tree, &mut weights, &traffic)?;
                leaves(weights, limits)
            }
            Sharing::Curves(slopes) => Kind::Shares(Terms::curves(tree, &slopes(tree).map_err(refused)?, limits)),
            Sharing::SiblingVisits => Kind::SiblingVisits { terms: Terms::siblings(tree, limits), traffic },
            Sharing::Allotted => Kind::Allotted(Allotted::new(Plan::for_tree(tree).map_err(refused)?, limits)),
            Sharing::Lenders => Kind::Lenders(Lenders::new(tree, Plan::for_tree(tree).map_err(refused)?, limits)),
            Sharing::CriticalVisits(quanta) => Kind::Visits { quanta: quanta(tree).map_err(refused)?, traffic },
            Sharing::Contracts { quanta, contracts, certain } => {
                let quanta = quanta(tree).map_err(refused)?.into_vec();
                let by_quanta = Terms::leaves(quanta, limits);
                let contracts = contracts(tree).map_err(refused)?;
                Kind::Contracts { by_quanta, contracts, certain, traffic }
            }
            Sharing::OwnShare => Kind::OwnShare,
            Sharing::SharesFirst(guarantees, why) => {
                Kind::SharesFirst { guarantees: guarantees(tree).map_err(refused)?, why }
            }
            Sharing::Unknown(why) | Sharing::ByPackets(why) => Kind::Unknown { limits, why },
            Sharing::Never(why) => Kind::Never { why },
        };
        let own = Parameters { info: *info, kind, traffic: known, plays, small_bursts, short_queues: true };
        Ok(Self { tree, own: Cow::Owned(own) })
    }

    /// Returns the parameters, for further calls on the same tree.
    #[must_use]
    pub fn keep(self) -> Parameters {
        self.own.into_owned()
    }

    /// Makes the rule of parameters that were kept of `tree`. Nothing is computed.
    ///
    /// # Panics
    /// If they were kept of a tree of another size, at the latest when rates are computed.
    #[must_use]
    pub const fn kept(parameters: &'a Parameters, tree: &'a Hierarchy) -> Self {
        Self { tree, own: Cow::Borrowed(parameters) }
    }

    /// Returns the limits of its classes; none if the rule has no limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        match &self.own.kind {
            Kind::Shares(terms) => terms.limits().clone(),
            Kind::Lenders(lenders) => lenders.limits().clone(),
            Kind::Allotted(allotted) => allotted.limits().clone(),
            _ => Limits::none(self.tree),
        }
    }

    /// Returns true if the scheduler may be run, to find rates or to confirm those of a formula.
    pub(crate) fn runs(&self) -> bool {
        self.own.plays
    }

    /// Disables runs: only rates from formulas remain. Rates from a run are known to about 1 %, which is too coarse for
    /// differences.
    #[must_use]
    pub fn by_formula_only(mut self) -> Self {
        let own = self.own.to_mut();
        (own.plays, own.short_queues) = (false, false);
        self
    }

    /// Computes the rates of all classes for `demand`.
    ///
    /// # Errors
    /// [`NotComputed`].
    ///
    /// # Panics
    /// When `demand` was made for a tree of another size.
    pub fn solve(&self, demand: &Demand) -> Result<Ideal, NotComputed> {
        demand.assert_for(self.tree.len());
        if let Kind::Shares(terms) = &self.own.kind
            && (!terms.has_floors() || terms.rates(self.tree, demand).is_some())
        {
            let ideal = Ideal::from(Allocation::by(terms.clone(), self.tree, demand));
            if !self.own.small_bursts {
                self.check_queues(demand, |leaf| ideal.bps(leaf))?;
                return Ok(ideal);
            }
            return Ok(match self.find(demand)? {
                (_, None) => ideal,
                (rates, run_because) => self.ideal_of(demand, rates, run_because),
            });
        }
        let (rates, run_because) = self.find(demand)?;
        Ok(self.ideal_of(demand, rates, run_because))
    }

    fn ideal_of(&self, demand: &Demand, rates: Vec<f64>, run_because: Option<String>) -> Ideal {
        Ideal(Solved::Rates(Rates::new(self.tree, demand, rates, self.limits(), run_because)))
    }

    /// Computes the rates of all classes for `demand` in bit/s, by class id, the root first; with the errors of `f64`.
    ///
    /// # Errors
    /// [`NotComputed`].
    ///
    /// # Panics
    /// When `demand` was made for a tree of another size.
    pub fn rates(&self, demand: &Demand) -> Result<Vec<f64>, NotComputed> {
        demand.assert_for(self.tree.len());
        Ok(self.find(demand)?.0)
    }

    /// Computes the rates; second, the reason for running the scheduler, if it was run.
    fn find(&self, demand: &Demand) -> Result<(Vec<f64>, Option<String>), NotComputed> {
        let run = |why: NotComputed| {
            if !self.own.plays {
                return Err(why);
            }
            let played = played::rates(&self.own.info, self.tree, demand, |leaf| self.own.traffic.packet(leaf));
            played.map(|rates| (rates, Some(why.why.clone()))).ok_or(why)
        };
        let found = match (self.by_formula(demand), self.may_miss(demand)) {
            (Ok(rates), None) => (rates, None),
            (Ok(rates), Some(why)) => {
                let (played, why) = run(why)?;
                let agree = within(2.0 * CLOSE, &rates, &played, self.capacity());
                if agree { (rates, None) } else { (played, why) }
            }
            (Err(why), _) => run(why)?,
        };
        self.check_queues(demand, |leaf| found.0[leaf.index()])?;
        Ok(found)
    }

    /// Returns the reason why the formula's rates may be wrong, if they may be.
    fn may_miss(&self, demand: &Demand) -> Option<NotComputed> {
        let Parameters { traffic, plays, small_bursts, .. } = &*self.own;
        if *small_bursts {
            let largest = self.tree.link().max_packet;
            let length = |leaf: ClassId| traffic.packet(leaf).map_or(largest, |bytes| bytes.round() as u32);
            return match reach::burst_may_cost(self.tree, demand, length, traffic.steady) {
                Ok(burst) => burst.map(|burst| NotComputed::because_of(burst.class, burst.to_string())),
                Err(error) => Some(NotComputed::because(format!("the scheduler refuses the tree: {error}"))),
            };
        }
        if !plays {
            return None;
        }
        let some_rate =
            || self.tree.leaves().iter().any(|&leaf| (f64::MIN_POSITIVE..f64::MAX).contains(&demand.bps(leaf)));
        match self.own.kind {
            Kind::Allotted(_) => Some(NotComputed::because("estimators let classes exceed their own rates")),
            Kind::Visits { .. } | Kind::SiblingVisits { .. } if some_rate() && self.all(demand, "").is_err() => {
                Some(NotComputed::because(
                    "the number of packets that a visit finds of a class that is not always busy depends on their arrivals",
                ))
            }
            _ => None,
        }
    }

    /// Checks that leaves that get what they ask for lose no packets: neither for lack of room in a shared buffer, nor
    /// at queues that are too short for the turns of others.
    fn check_queues(&self, demand: &Demand, rate: impl Fn(ClassId) -> f64) -> Result<(), NotComputed> {
        self.check_buffer(demand, &rate)?;
        let Parameters { info, traffic, short_queues, .. } = &*self.own;
        if !short_queues {
            return Ok(());
        }
        let length = |leaf: ClassId| traffic.packet(leaf);
        match turns::too_short(info, self.tree, demand, rate, length, traffic.steady) {
            Some(short) => Err(NotComputed::because_of(short.leaf, short.to_string())),
            None => Ok(()),
        }
    }

    /// Checks that a shared buffer does not fill up, because no rule applies then: drops depend on the time of arrival,
    /// and not on the rates of classes. Leaves with unmet demand fill their queues. One that always has packets waits
    /// for room.
    fn check_buffer(&self, demand: &Demand, rate: impl Fn(ClassId) -> f64) -> Result<(), NotComputed> {
        let LinkConfig { max_queued, when_full, .. } = self.tree.link();
        let full = |&&leaf: &&ClassId| {
            let asked = demand.bps(leaf);
            asked.is_finite() && rate(leaf) < asked * (1.0 - CLOSE)
        };
        let room = |leaf: &ClassId| u64::from(self.tree.config(*leaf).limits.packets);
        let queued: u64 = self.tree.leaves().iter().filter(full).map(room).sum();
        if when_full == WhenFull::PushOut || queued < u64::from(max_queued) {
            return Ok(());
        }
        Err(NotComputed::because(format!(
            "classes with more demand than rate fill the shared buffer of {max_queued} packets, so that packets of others are dropped"
        )))
    }

    /// Computes the rates if a formula has them.
    fn by_formula(&self, demand: &Demand) -> Result<Vec<f64>, NotComputed> {
        let tree = self.tree;
        let leaves = match &self.own.kind {
            Kind::Shares(terms) => {
                let rates = terms.rates(tree, demand);
                return rates.ok_or_else(|| NotComputed::because(PUSHED_BACK.to_owned()));
            }
            Kind::Lenders(lenders) => {
                let why = "how much classes that are held by a ceiling, a small burst or what they ask for borrow from a class between them and the \
                           link, which others use up, follows from packets and buckets";
                return lenders.rates(tree, demand).ok_or_else(|| NotComputed::because(why.to_owned()));
            }
            Kind::Allotted(allotted) => {
                let why = "own rates use up the link; the rates of the others depend on how far estimators let classes exceed them";
                return allotted.rates(tree, demand).ok_or_else(|| NotComputed::because(why.to_owned()));
            }
            Kind::SiblingVisits { terms, traffic } => return self.by_visits(demand, terms, traffic),
            Kind::Visits { quanta, traffic } => self.visited(demand, quanta, traffic)?,
            Kind::Contracts { by_quanta, contracts, certain, traffic } => {
                return self.contracts(demand, by_quanta, contracts, *certain, traffic);
            }
            Kind::OwnShare => {
                let share = |leaf: ClassId| tree.rate_all_busy(leaf) as f64;
                tree.leaves().iter().map(|&leaf| demand.bps(leaf).min(share(leaf))).collect()
            }
            Kind::SharesFirst { guarantees, why } => self.guaranteed(demand, guarantees, why)?,
            Kind::Unknown { limits, why } => {
                let rates = self.summed(&self.all(demand, why)?);
                let beyond =
                    |class: ClassId| limits.get(class).is_some_and(|limit| rates[class.index()] > limit.bps as f64);
                // The reservation of an isolated class may be requested by others.
                let kept = |class: ClassId| limits.kept(class).is_some();
                if tree.classes().any(|class| beyond(class) || kept(class)) {
                    return Err(NotComputed::because((*why).to_owned()));
                }
                return Ok(rates);
            }
            Kind::Never { why } => return Err(NotComputed::because((*why).to_owned())),
        };
        Ok(self.summed(&leaves))
    }

    /// Returns the rates of all classes for these rates of the leaves, in the order of [`Hierarchy::leaves`].
    fn summed(&self, leaves: &[f64]) -> Vec<f64> {
        let mut rates = vec![0.0; self.tree.len()];
        for (leaf, &rate) in self.tree.leaves().iter().zip(leaves) {
            rates[leaf.index()] = rate;
        }
        add_up(self.tree, &mut rates);
        rates
    }

    fn capacity(&self) -> f64 {
        self.tree.link().rate.bps() as f64
    }

    /// Returns the demand of the leaves, if it fits the link.
    fn all(&self, demand: &Demand, why: &str) -> Result<Vec<f64>, NotComputed> {
        let asked: Vec<f64> = self.tree.leaves().iter().map(|&leaf| demand.bps(leaf)).collect();
        if asked.iter().sum::<f64>() <= self.capacity() { Ok(asked) } else { Err(NotComputed::because(why.to_owned())) }
    }

    fn visited(&self, demand: &Demand, quanta: &[u64], traffic: &Traffic) -> Result<Vec<f64>, NotComputed> {
        let leaf = |&leaf: &ClassId| Visited {
            demand: demand.bps(leaf),
            // Quanta are in 2^-16 bytes.
            quantum: quanta[leaf.index()] as f64 / 8192.0,
            packet: traffic.packet(leaf).map(|bytes| bytes * 8.0),
            critical: self.tree.config(leaf).latency_critical,
        };
        let leaves: Vec<Visited> = self.tree.leaves().iter().map(leaf).collect();
        // Without latency-critical leaves it is DRR, and visits do not count.
        if !leaves.iter().any(|leaf| leaf.critical && leaf.demand > 0.0) {
            let terms = Terms::leaves(quanta.to_vec(), Limits::none(self.tree));
            let wanted: Vec<f64> = (0..self.tree.len()).map(|index| demand.bps(ClassId(index as u32))).collect();
            let rates = terms.shared(self.tree, self.capacity(), &wanted);
            return Ok(self.tree.leaves().iter().map(|leaf| rates[leaf.index()]).collect());
        }
        visits::rates(self.capacity(), &leaves).ok_or_else(|| {
            NotComputed::because(
                "how often a best-effort class is visited follows from the lengths of its packets, which are not known",
            )
        })
    }

    /// Siblings share visits. A leaf that always has packets sends a largest packet in each; any other needs one visit
    /// per packet for its demand.
    fn by_visits(&self, demand: &Demand, terms: &Terms, traffic: &Traffic) -> Result<Vec<f64>, NotComputed> {
        let tree = self.tree;
        let all = tree.leaves().iter().map(|&leaf| demand.bps(leaf));
        if all.sum::<f64>() <= self.capacity() {
            return Ok(self.summed(&tree.leaves().iter().map(|&leaf| demand.bps(leaf)).collect::<Vec<_>>()));
        }
        let quantum = f64::from(tree.link().max_packet) * 8.0;
        // By class id, visits per second.
        let [mut each, mut joined] = [vec![0.0; tree.len()], vec![0.0; tree.len()]];
        for &leaf in tree.leaves() {
            let asked = demand.bps(leaf);
            let packet = match traffic.packet(leaf) {
                Some(bytes) => bytes * 8.0,
                None if traffic.equal || asked == 0.0 || asked == f64::INFINITY => quantum,
                None => return Err(NotComputed::because(UNKNOWN_LENGTHS.to_owned())),
            };
            each[leaf.index()] = asked / packet;
            joined[leaf.index()] = asked / quantum;
        }
        let (could, most) = self.sent_in_visits(demand, terms, quantum, &each);
        // A visit that comes late finds several packets, and may send as many as fit. So there are fewer of them.
        let fewer = |index: usize| {
            let rare = RARE * could[index];
            if each[index] == f64::INFINITY || each[index] <= rare {
                each[index]
            } else {
                joined[index].max(rare).min(each[index])
            }
        };
        let fewer: Vec<f64> = (0..tree.len()).map(fewer).collect();
        let (_, least) = self.sent_in_visits(demand, terms, quantum, &fewer);
        if agree(&most, &least, self.capacity()) {
            return Ok(self.summed(&most));
        }
        Err(NotComputed::because(
            "the number of packets that a visit finds of a class that is not always busy depends on their arrivals"
                .to_owned(),
        ))
    }

    /// Returns the visits that each class could have with unlimited demand, and the traffic in requested visits, by
    /// leaf.
    fn sent_in_visits(&self, demand: &Demand, terms: &Terms, quantum: f64, wanted: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let tree = self.tree;
        let sent = |visits: f64| -> Vec<f64> {
            let visits = terms.shared(tree, visits, wanted);
            tree.leaves().iter().map(|&leaf| demand.bps(leaf).min(quantum * visits[leaf.index()])).collect()
        };
        // A visit of the smallest packet there is takes a bit at least.
        let (mut low, mut high) = (0.0, self.capacity());
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if sent(middle).iter().sum::<f64>() > self.capacity() { high = middle } else { low = middle }
        }
        let all: Vec<f64> = (0..tree.len())
            .map(|index| if tree.is_leaf(ClassId(index as u32)) { f64::INFINITY } else { 0.0 })
            .collect();
        (terms.shared(tree, low, &all), sent(low))
    }

    /// Classes that are certain to break their contract share by quanta. Each of the others may come first or not.
    fn contracts(
        &self,
        demand: &Demand,
        by_quanta: &Terms,
        contracts: &[Option<Contract>],
        (numerator, denominator): (u64, u64),
        traffic: &Traffic,
    ) -> Result<Vec<f64>, NotComputed> {
        let bytes_of = |rate: f64, contract: &Contract| rate * contract.every.0 as f64 / (8.0 * NANOS_PER_SEC as f64);
        // At first all keep their contracts. A broken one leaves more to the others, so that one that breaks then
        // breaks in the end.
        let all = self.tree.leaves().iter().filter_map(|&leaf| Some((leaf, contracts[leaf.index()]?)));
        let mut kept: Vec<(ClassId, Contract)> = all.collect();
        let rates = loop {
            let leaves: Vec<ClassId> = kept.iter().map(|&(leaf, _)| leaf).collect();
            let rates = self.in_order(demand, by_quanta, &leaves);
            // Traffic of a leaf: one that always has packets sends at its allocated rate.
            let sends = |leaf: ClassId| match demand.bps(leaf) {
                asked if asked == f64::INFINITY => rates[leaf.index()],
                asked => asked,
            };
            let before = kept.len();
            kept.retain(|&(leaf, contract)| {
                bytes_of(sends(leaf), &contract) * numerator as f64 <= contract.bytes as f64 * denominator as f64
            });
            if kept.len() == before {
                break rates;
            }
        };
        // Of the remaining ones, those that may break it nevertheless, by the pattern of their packets.
        let max_packet = f64::from(self.tree.link().max_packet);
        let certain = |&(leaf, contract): &(ClassId, Contract)| {
            let greedy = demand.bps(leaf) == f64::INFINITY;
            let rate = if greedy { rates[leaf.index()] } else { demand.bps(leaf) };
            let ahead = if greedy { AHEAD } else { 1.0 };
            traffic.steady
                && bytes_of(rate, &contract) + ahead * traffic.packet(leaf).unwrap_or(max_packet)
                    <= contract.bytes as f64
        };
        let sure: Vec<ClassId> = kept.iter().filter(|kept| certain(kept)).map(|&(leaf, _)| leaf).collect();
        if sure.len() < kept.len() {
            let without = self.in_order(demand, by_quanta, &sure);
            if rates.iter().zip(&without).any(|(one, other)| (one - other).abs() > SAME * self.capacity()) {
                return Err(NotComputed::because(UNKNOWN_CONTRACT.to_owned()));
            }
        }
        Ok(rates)
    }

    /// Returns the rates of all classes if the leaves `first` go before all others, each kind by its quanta.
    fn in_order(&self, demand: &Demand, by_quanta: &Terms, first: &[ClassId]) -> Vec<f64> {
        let tree = self.tree;
        let mut is_first = vec![false; tree.len()];
        first.iter().for_each(|leaf| is_first[leaf.index()] = true);
        let wanted = |which: bool| -> Vec<f64> {
            let of = |index: usize| {
                let class = ClassId(index as u32);
                if tree.is_leaf(class) && is_first[index] == which { demand.bps(class) } else { 0.0 }
            };
            (0..tree.len()).map(of).collect()
        };
        let before = by_quanta.shared(tree, self.capacity(), &wanted(true));
        let after = by_quanta.shared(tree, (self.capacity() - before[0]).max(0.0), &wanted(false));
        before.iter().zip(after).map(|(before, after)| before + after).collect()
    }

    fn guaranteed(&self, demand: &Demand, guarantees: &[u64], why: &str) -> Result<Vec<f64>, NotComputed> {
        if let Ok(all) = self.all(demand, why) {
            return Ok(all);
        }
        let whole = (1u64 << 62) as f64;
        let share = |leaf: ClassId| guarantees[leaf.index()] as f64 / whole * self.capacity();
        let leaves = self.tree.leaves();
        let mut rates: Vec<f64> = leaves.iter().map(|&leaf| demand.bps(leaf).min(share(leaf))).collect();
        let left = self.capacity() - rates.iter().sum::<f64>();
        let wants = |at: &usize| demand.bps(leaves[*at]) > rates[*at];
        let wanting: Vec<usize> = (0..leaves.len()).filter(wants).collect();
        match wanting[..] {
            // Guarantees are cut off to parts of the link.
            _ if left <= 1e-6 * self.capacity() => {}
            [only] => rates[only] += left,
            _ => return Err(NotComputed::because(why.to_owned())),
        }
        Ok(rates)
    }
}

/// Converts weights in packets to weights in bytes for packets of these lengths.
fn by_length(tree: &Hierarchy, weights: &mut [u64], traffic: &Traffic) -> Result<(), NotComputed> {
    if traffic.packets.is_empty() && !traffic.equal {
        return Err(NotComputed::because(UNKNOWN_LENGTHS.to_owned()));
    }
    // In 2^-8 bytes; a weight beyond 2^64 is rounded.
    let known: Vec<f64> = tree.leaves().iter().filter_map(|&leaf| traffic.packet(leaf)).collect();
    if known.is_empty() {
        return Ok(());
    }
    let longest = known.iter().copied().fold(1.0, f64::max);
    let largest = weights.iter().copied().max().unwrap_or(1);
    let fine = (u64::MAX as f64 / largest as f64 / longest).min(256.0);
    for &leaf in tree.leaves() {
        let bytes = traffic.packet(leaf).unwrap_or(longest);
        weights[leaf.index()] = ((weights[leaf.index()] as f64 * bytes * fine) as u64).max(1);
    }
    Ok(())
}

/// The ideal rates of all classes of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Ideal(Solved);

#[derive(Clone, Debug, PartialEq)]
enum Solved {
    Shares(Allocation),
    Rates(Rates),
}

/// Rates without fair shares behind them.
#[derive(Clone, Debug, PartialEq)]
struct Rates {
    rates: Vec<f64>,
    /// Demand without its own limit, by class id.
    wanted: Vec<Option<u128>>,
    parents: Vec<ClassId>,
    limits: Limits,
    capacity: f64,
    /// Reason for running the scheduler; the rates are then known to [`CLOSE`].
    run_because: Option<String>,
}

impl Rates {
    fn new(tree: &Hierarchy, demand: &Demand, rates: Vec<f64>, limits: Limits, run_because: Option<String>) -> Self {
        let mut wanted: Vec<Option<u128>> = vec![Some(0); tree.len()];
        for index in (0..tree.len()).rev() {
            let class = ClassId(index as u32);
            match demand.get(class) {
                Some(Request::Rate(bps)) => wanted[index] = Some(bps.into()),
                Some(Request::Unlimited) => wanted[index] = None,
                None => {}
            }
            let request = limited(wanted[index], limits.get(class));
            if let Some(parent) = tree.parent(class) {
                let above = &mut wanted[parent.index()];
                *above = above.zip(request).map(|(above, request)| above + request);
            }
        }
        let parent = |index: usize| tree.parent(ClassId(index as u32)).unwrap_or(ClassId::ROOT);
        let parents = (0..tree.len()).map(parent).collect();
        Self { rates, wanted, parents, limits, capacity: tree.link().rate.bps() as f64, run_because }
    }

    fn gets(&self, class: ClassId, rate: u128) -> bool {
        let error = if self.run_because.is_some() { CLOSE * rate as f64 } else { SAME * self.capacity };
        self.rates[class.index()] >= rate as f64 - error
    }

    fn limited_by(&self, class: ClassId) -> Option<ClassId> {
        if self.wanted[class.index()].is_some_and(|wanted| self.gets(class, wanted)) {
            None
        } else if class == ClassId::ROOT
            || self.limits.get(class).is_some_and(|limit| self.gets(class, limit.bps.into()))
        {
            Some(class)
        } else {
            Some(self.parents[class.index()])
        }
    }
}

fn limited(wanted: Option<u128>, limit: Option<Limit>) -> Option<u128> {
    match (wanted, limit.map(|limit| u128::from(limit.bps))) {
        (Some(wanted), Some(limit)) => Some(wanted.min(limit)),
        (wanted, limit) => wanted.or(limit),
    }
}

impl Ideal {
    /// Returns demand and rate of `class`; the root (the link) included. There are no fair shares if the rule has none.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn class(&self, class: ClassId) -> ClassAllocation {
        let rates = match &self.0 {
            Solved::Shares(allocation) => return allocation.class(class),
            Solved::Rates(rates) => rates,
        };
        let wanted = rates.wanted[class.index()];
        let request = limited(wanted, rates.limits.get(class));
        ClassAllocation {
            wanted,
            request,
            allocation: self.rate(class),
            fair_share: None,
            satisfied: request.is_some_and(|request| rates.gets(class, request)),
            limited_by: rates.limited_by(class),
        }
    }

    /// Returns the rate of `class`, in bit/s; exact if the rule is one of shares, else with the errors of `f64`.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn rate(&self, class: ClassId) -> BigRational {
        match &self.0 {
            Solved::Shares(allocation) => allocation.rate(class),
            Solved::Rates(rates) => near(rates.rates[class.index()]),
        }
    }

    /// Returns the rate in `f64`.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn bps(&self, class: ClassId) -> f64 {
        match &self.0 {
            Solved::Shares(allocation) => crate::to_f64(&allocation.rate(class)),
            Solved::Rates(rates) => rates.rates[class.index()],
        }
    }

    /// Returns the rate of `class`, in whole bit/s rounded down.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn floor_bps(&self, class: ClassId) -> u64 {
        match &self.0 {
            Solved::Shares(allocation) => allocation.floor_bps(class),
            Solved::Rates(_) => crate::floor_bps(&self.rate(class)),
        }
    }

    /// Returns the limit of `class` that does not depend on the rates of others; `None` at the link.
    #[must_use]
    pub fn limit(&self, class: ClassId) -> Option<Limit> {
        match &self.0 {
            Solved::Shares(allocation) => allocation.limit(class),
            Solved::Rates(rates) => rates.limits.get(class),
        }
    }

    /// Returns the reason for running the scheduler on steady traffic, if no formula has the rates. They are then known
    /// to about 1 %.
    #[must_use]
    pub fn run_because(&self) -> Option<&str> {
        match &self.0 {
            Solved::Shares(_) => None,
            Solved::Rates(rates) => rates.run_because.as_deref(),
        }
    }

    /// Returns the notes for its rates: they come from a run, or hold for packets of one length only. `info` is the
    /// scheduler of the computation.
    #[must_use]
    pub fn notes(&self, info: &SchedulerInfo) -> Vec<String> {
        let name = info.name;
        let ran = self.run_because().map(|why| {
            format!("rates from a run of {name} on steady traffic, to about 1 %, because no formula has them: {why}")
        });
        let by_packets = matches!(info.sharing, Sharing::LeavesByPackets(_)).then(|| {
            format!(
                "{name} counts packets and not bytes: guarantees and shares hold where packets of all classes have one length; a class with packets \
                 half as long as those of the others gets half"
            )
        });
        ran.into_iter().chain(by_packets).collect()
    }

    /// Returns true if rates are exact.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        matches!(self.0, Solved::Shares(_))
    }

    /// Returns [`ClassAllocation::limited_by`].
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn limited_by(&self, class: ClassId) -> Option<ClassId> {
        match &self.0 {
            Solved::Shares(allocation) => allocation.limited_by(class),
            Solved::Rates(rates) => rates.limited_by(class),
        }
    }

    /// Returns the chain of reasons for unmet demand of `class`, up to the class whose own limit binds, or the link:
    /// see [`Allocation::limiting_chain`].
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn limiting_chain(&self, class: ClassId) -> Vec<ClassId> {
        crate::hmm::chain(class, |class| self.limited_by(class))
    }

    /// Returns the class of which `class` has a share, its weight there, and the classes that share it; `None` for the
    /// link, and if the rule has no weights.
    #[must_use]
    pub fn sharing<'a>(&self, tree: &'a Hierarchy, class: ClassId) -> Option<(ClassId, u64, &'a [ClassId])> {
        let Solved::Shares(allocation) = &self.0 else { return None };
        let terms = allocation.terms();
        let of = terms.shares_in(tree, class)?;
        Some((of, terms.weight(class), terms.sharers(tree, of)))
    }
}

impl From<Allocation> for Ideal {
    fn from(allocation: Allocation) -> Self {
        Self(Solved::Shares(allocation))
    }
}

/// Rounds a rate in `f64` to the thousandth of a bit/s.
fn near(bps: f64) -> BigRational {
    BigRational::new(BigInt::from((bps * 1000.0).round() as i128), BigInt::from(1000))
}

#[cfg(test)]
mod tests;
