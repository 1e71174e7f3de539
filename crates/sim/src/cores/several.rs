//! The cores: one behind rings, or several with schedulers of their own.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use fairlink_core::{
    Amount, ClassId, Cores, Dequeued, DropReason, DropSink, Hierarchy, Leniency, Members, Nanos, Pacer, Packet, Rate,
    Scheduler, SchedulerInfo, SharedConfig, SharedError, SharedTree, Split,
};
use fairlink_theory::hmm::Allocation;
use fairlink_theory::request::{Demand, Request};

use crate::core_model::BATCH;
use crate::scenario::{Scenario, SimError};

/// Time after which a core of cake_mq looks at the others again (`CAKE_SYNC_TIME`, 200 us by default).
const SYNC: Nanos = Nanos::from_micros(200);

/// Builds the cores of `scenario`.
///
/// # Errors
/// [`SimError::Build`], or [`SimError::Cores`] if they cannot share this link.
pub(super) fn build(
    info: &'static SchedulerInfo,
    scenario: &Scenario,
    leniency: Leniency,
) -> Result<Box<dyn Scheduler>, SimError> {
    let (tree, model) = (&scenario.tree, scenario.cores);
    let Cores { count, split, .. } = model.cores;
    let refused = |what: String| super::refused(model, &what);
    let failed = |error| SimError::Build { scheduler: info.name, error };
    let one = || info.build(tree, leniency, Members::new()).map_err(failed);
    if split == Split::Hub {
        return Ok(Box::new(Hub {
            scheduler: one()?,
            coming: VecDeque::new(),
            queued: Queued::new(tree),
            lag: model.lag,
        }));
    }
    let rate = tree.link().rate;
    let part = |bps: u64| Rate::from_bps(bps.max(1)).map_err(|error| refused(error.to_string()));
    let mut cores = Vec::with_capacity(count.into());
    let mut rule = Rule::Equal;
    match split {
        Split::Shared => {
            let shared = share(scenario)?;
            for core in 0..u64::from(count) {
                let worker = shared.worker().map_err(|error| refused(error.to_string()))?;
                let first = Nanos(model.lag.0 * core / u64::from(count));
                cores.push(Core::new(Box::new(worker), rate, Some(first)));
            }
            rule = Rule::Looks(model.lag);
        }
        Split::PerCore => {
            let (home, rates) = homes(tree, count.into());
            for rate in rates {
                cores.push(Core::new(one()?, part(rate)?, None));
            }
            rule = Rule::Homes(home);
        }
        _ => {
            for _ in 0..count {
                cores.push(Core::new(one()?, part(rate.bps() / u64::from(count))?, None));
            }
            if split == Split::CakeMq {
                rule = Rule::Active(rate);
            }
        }
    }
    Ok(Box::new(Several {
        cores,
        rule,
        interface: VecDeque::new(),
        queued: Queued::new(tree),
        out: Vec::with_capacity(BATCH),
    }))
}

/// Makes the tree of `scenario` for workers that look at it each lag.
///
/// # Errors
/// [`SimError::Cores`], with the name of the class that cannot be shared.
pub(super) fn share(scenario: &Scenario) -> Result<Arc<SharedTree>, SimError> {
    let (tree, model) = (&scenario.tree, scenario.cores);
    let shared = SharedTree::new(tree.clone(), SharedConfig::for_passes(&tree.link(), model.lag));
    shared.map_err(|error| match error {
        SharedError::Unsupported { class, feature, reason } => {
            let (name, what) = (&scenario.names[class.index()], feature.as_str());
            let what = format!("class {name} has {what}, which several cores cannot honour: {reason}");
            super::refused(model, &what)
        }
        other => super::refused(model, &other.to_string()),
    })
}

/// Returns the core of each class, and the sum of the shares of each core in bit/s. The largest classes directly below the
/// link choose first, the core with the least.
fn homes(tree: &Hierarchy, cores: usize) -> (Vec<usize>, Vec<u64>) {
    let shares = Allocation::solve(tree, &Demand::uniform(tree, Request::Unlimited));
    let mut top: Vec<ClassId> = tree.children(ClassId::ROOT).to_vec();
    let share = |class: ClassId| shares.floor_bps(class);
    top.sort_by_key(|&class| std::cmp::Reverse(share(class)));
    let (mut home, mut rates) = (vec![0; tree.len()], vec![0u64; cores]);
    for class in top {
        let core = (0..cores).min_by_key(|&core| rates[core]).unwrap_or(0);
        home[class.index()] = core;
        rates[core] += share(class);
    }
    // Parents come before their children.
    for class in tree.classes() {
        if let Some(parent) = tree.parent(class).filter(|&parent| parent != ClassId::ROOT) {
            home[class.index()] = home[parent.index()];
        }
    }
    (home, rates)
}

/// Packets outside of schedulers, by class.
pub(super) struct Queued {
    pub(super) all: Amount,
    by_class: Vec<Amount>,
}

impl Queued {
    pub(super) fn new(tree: &Hierarchy) -> Self {
        Self { all: Amount::default(), by_class: vec![Amount::default(); tree.len()] }
    }

    fn clear(&mut self) {
        self.all = Amount::ZERO;
        self.by_class.fill(Amount::ZERO);
    }

    pub(super) fn of(&self, class: ClassId) -> Amount {
        self.by_class.get(class.index()).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, packet: &Packet) {
        self.all.count(packet.len);
        if let Some(amount) = self.by_class.get_mut(packet.class.index()) {
            amount.count(packet.len);
        }
    }

    pub(super) fn remove(&mut self, packet: &Packet) {
        for amount in std::iter::once(&mut self.all).chain(self.by_class.get_mut(packet.class.index())) {
            amount.packets -= 1;
            amount.bytes -= u64::from(packet.len);
        }
    }
}

/// One scheduler, to which packets come through rings.
struct Hub {
    scheduler: Box<dyn Scheduler>,
    /// With the times at which they come.
    coming: VecDeque<(Nanos, Packet)>,
    queued: Queued,
    lag: Nanos,
}

impl Hub {
    fn take_in(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        while let Some((at, _)) = self.coming.front().filter(|(at, _)| *at <= now) {
            let at = *at;
            let Some((_, packet)) = self.coming.pop_front() else { return };
            self.queued.remove(&packet);
            self.scheduler.enqueue(at, packet, drops);
        }
    }
}

impl Scheduler for Hub {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.take_in(now, drops);
        if self.queued.by_class.len() <= packet.class.index() {
            return self.scheduler.enqueue(now, packet, drops);
        }
        self.queued.add(&packet);
        self.coming.push_back((now.saturating_add(self.lag), packet));
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.take_in(now, drops);
        let next = self.coming.front().map(|&(at, _)| at);
        match (self.scheduler.dequeue(now, drops), next) {
            (Dequeued::Idle, Some(at)) => Dequeued::WaitUntil(at),
            (Dequeued::WaitUntil(until), Some(at)) => Dequeued::WaitUntil(until.min(at)),
            (other, _) => other,
        }
    }

    fn backlog(&self) -> Amount {
        self.scheduler.backlog() + self.queued.all
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.scheduler.class_backlog(class) + self.queued.of(class)
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.take_in(Nanos::MAX, drops);
        self.scheduler.purge(now, drops);
    }

    fn for_each_counter(&self, classes: Range<usize>, visit: &mut dyn FnMut(ClassId, &'static str, u64)) {
        self.scheduler.for_each_counter(classes, visit);
    }
}

/// A core with a scheduler of its own.
struct Core {
    scheduler: Box<dyn Scheduler>,
    /// The rate at which it sends, unless virtual times say.
    pacer: Pacer,
    /// Its next step; `None` without packets.
    due: Option<Nanos>,
    /// Of a core that looks at times: one of them.
    phase: Nanos,
    /// When it last had a packet, and when it last looked at the others.
    active: Nanos,
    looked: Nanos,
}

impl Core {
    fn new(scheduler: Box<dyn Scheduler>, rate: Rate, phase: Option<Nanos>) -> Self {
        let (phase, active, looked) = (phase.unwrap_or(Nanos::ZERO), Nanos::ZERO, Nanos::ZERO);
        Self { scheduler, pacer: Pacer::new(rate, Nanos(1)), due: None, phase, active, looked }
    }

    fn has_packets(&self) -> bool {
        self.scheduler.backlog().packets > 0
    }
}

/// Spreads flows evenly and without an order, as network interfaces do with a hash of addresses and ports: the end of
/// MurmurHash3. The first two, three or four sources of a scenario are on as many cores.
pub(super) const fn mixed(flow: u32) -> u32 {
    let mut flow = flow.wrapping_add(43);
    flow ^= flow >> 16;
    flow = flow.wrapping_mul(0x85eb_ca6b);
    flow ^= flow >> 13;
    flow = flow.wrapping_mul(0xc2b2_ae35);
    flow ^ flow >> 16
}

/// The rule by which cores share the link, and by which a core gets a packet.
enum Rule {
    Equal,
    /// Parts of this rate for those that are active.
    Active(Rate),
    /// Each looks at its queues once in this time.
    Looks(Nanos),
    /// By class, its core.
    Homes(Vec<usize>),
}

/// Cores with schedulers of their own.
struct Several {
    cores: Vec<Core>,
    rule: Rule,
    /// Packets that the cores have sent and the link has not.
    interface: VecDeque<Packet>,
    queued: Queued,
    /// Room for the packets of a step.
    out: Vec<Packet>,
}

impl Several {
    /// Returns the core of a packet.
    fn core_of(&self, packet: &Packet) -> usize {
        if let Rule::Homes(home) = &self.rule {
            return home.get(packet.class.index()).copied().unwrap_or(0);
        }
        let hash = u64::from(mixed((packet.handle >> 32) as u32 & 0x7fff_ffff));
        ((hash * self.cores.len() as u64) >> 32) as usize
    }

    /// Makes the steps of all cores before `end`, in the order of time.
    fn advance(&mut self, end: Nanos, drops: &mut dyn DropSink) {
        let next = |cores: &[Core]| {
            let due = cores.iter().enumerate().filter_map(|(core, one)| Some((one.due?, core)));
            due.min().filter(|&(at, _)| at < end)
        };
        while let Some((at, core)) = next(&self.cores) {
            if let Rule::Active(rate) = self.rule {
                self.look_at_others(at, core, rate);
            }
            self.step(at, core, drops);
        }
    }

    fn step(&mut self, at: Nanos, core: usize, drops: &mut dyn DropSink) {
        let one = &mut self.cores[core];
        one.active = at;
        if let Rule::Looks(lag) = self.rule {
            let _ = one.scheduler.dequeue_batch(at, BATCH, u64::MAX, &mut self.out, drops);
            // A core with a full batch has more to do at once.
            let next = if self.out.len() == BATCH { Nanos(1) } else { lag };
            one.due = one.has_packets().then(|| at.saturating_add(next));
        } else {
            one.due = match one.scheduler.dequeue(at, drops) {
                Dequeued::Packet(packet) => {
                    one.pacer.charge(at, packet.len);
                    self.out.push(packet);
                    Some(one.pacer.free_at())
                }
                Dequeued::WaitUntil(until) => Some(until.max(at.saturating_add(Nanos(1)))),
                Dequeued::Idle => None,
            };
        }
        for packet in self.out.drain(..) {
            self.queued.add(&packet);
            self.interface.push_back(packet);
        }
    }

    /// Sets the rate of a core by the number of others that have had packets since it last looked.
    fn look_at_others(&mut self, at: Nanos, core: usize, rate: Rate) {
        let looked = self.cores[core].looked;
        if at < looked.saturating_add(SYNC) {
            return;
        }
        let is_active = |other: &Core| other.has_packets() || other.active > looked;
        let others = self.cores.iter().enumerate().filter(|&(other, one)| other != core && is_active(one)).count();
        let one = &mut self.cores[core];
        one.looked = at;
        if let Ok(part) = Rate::from_bps((rate.bps() / (1 + others as u64)).max(1)) {
            one.pacer.set_rate(part);
        }
    }
}

impl Scheduler for Several {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.advance(now, drops);
        let core = self.core_of(&packet);
        let one = &mut self.cores[core];
        one.scheduler.enqueue(now, packet, drops);
        if !one.has_packets() {
            return;
        }
        let next = match self.rule {
            // The first look at or after now.
            Rule::Looks(lag) => Nanos(one.phase.0 + now.0.saturating_sub(one.phase.0).div_ceil(lag.0) * lag.0),
            _ => one.pacer.free_at().max(now),
        };
        one.due = Some(one.due.map_or(next, |due| due.min(next)));
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.advance(now.saturating_add(Nanos(1)), drops);
        if let Some(packet) = self.interface.pop_front() {
            self.queued.remove(&packet);
            return Dequeued::Packet(packet);
        }
        self.cores.iter().filter_map(|core| core.due).min().map_or(Dequeued::Idle, Dequeued::WaitUntil)
    }

    fn backlog(&self) -> Amount {
        self.cores.iter().fold(self.queued.all, |sum, core| sum + core.scheduler.backlog())
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.cores.iter().fold(self.queued.of(class), |sum, core| sum + core.scheduler.class_backlog(class))
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        for packet in self.interface.drain(..) {
            drops.dropped(now, packet, DropReason::Purged);
        }
        self.queued.clear();
        for core in &mut self.cores {
            core.scheduler.purge(now, drops);
            core.due = None;
        }
    }
}
