//! A simulation that runs step by step: events before an instant, a report of them, packets and changes from outside,
//! and so on.
//!
//! A run from the start to the end is one step. However it is cut into steps, the same happens.

use std::sync::{Arc, OnceLock};

use fairlink_core::{Amount, ClassId, Feature, Leniency, NANOS_PER_SEC, Nanos, Rate, Scheduler, SchedulerInfo};
use fairlink_theory::ideal::NotComputed;
use fairlink_traffic::{Interval, Model, Pace, PacketSize, SourceSpec};

use crate::change::Change;
use crate::cores;
use crate::ideals::Ideals;
use crate::links::{LinkPool, Links};
use crate::observe::{Observer, Watching};
use crate::port::{Delivered, LinkPort};
use crate::prepared::{Prepared, check_changes, measure, not_computed, notes, of_link};
use crate::report::Run;
use crate::routes::{self, Coming};
use crate::running::{Rules, RunningLink};
use crate::scenario::{Options, Scenario, SimError};

/// Number of progress calls to an observer, evenly over the simulated time.
const PROGRESS_CALLS: u64 = 200;

/// Calls of the driver and packets between progress calls at most: a 200th of a long run is too long to wait after
/// Ctrl-C.
const PROGRESS_WORK: u64 = 1 << 17;

/// One run of a scenario under one scheduler, made step by step.
///
/// ```
/// # use fairlink_core::{ClassConfig, ClassId, Hierarchy, Leniency, LinkConfig, Nanos, Overhead, Rate, registry::find};
/// use fairlink_sim::{CoreModel, Links, Options, Scenario, Simulation};
///
/// let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(8_000_000)?));
/// let voice = tree.add(ClassId::ROOT, ClassConfig::default())?;
/// let scenario = Scenario {
///     tree: tree.build()?,
///     names: vec!["link".into(), "voice".into()],
///     overhead: Overhead::NONE,
///     propagation: Nanos::ZERO,
///     sources: Vec::new(),
///     duration: Nanos::from_millis(100),
///     warmup: Nanos::ZERO,
///     seed: 1,
///     changes: Vec::new(),
///     cores: CoreModel::ONE,
/// };
/// let hls = find("hls").ok_or("no hls")?;
/// let mut simulation = Simulation::new(&Links::alone(scenario), hls, Leniency::Refuse, &Options::default())?;
/// simulation.offer(0, voice, 1000, Nanos::from_millis(20))?;
/// simulation.step_until(Nanos::from_millis(50))?;
/// assert_eq!((simulation.now(), simulation.done()), (Nanos::from_millis(50), false));
/// assert_eq!(simulation.report()?.duration_s, 0.05);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation<'o> {
    prepared: Prepared,
    /// The scheduler at the start; absent if it was passed ready-made.
    info: Option<&'static SchedulerInfo>,
    name: String,
    running: Vec<RunningLink<'o>>,
    /// By link: worked out for the first report, and again after a change.
    ideals: OnceLock<Result<Vec<Ideals>, SimError>>,
    /// Number of packets offered from outside so far.
    offered: u64,
    now: Nanos,
    progress_at: Nanos,
    work: u64,
}

impl Simulation<'static> {
    /// Makes a run of `links` without observers, at its start.
    ///
    /// # Errors
    /// The first [`SimError`]; of a further link as [`SimError::Further`].
    pub fn new(
        links: &Links,
        scheduler: &'static SchedulerInfo,
        leniency: Leniency,
        options: &Options,
    ) -> Result<Self, SimError> {
        Self::observed(links, scheduler, leniency, options, Vec::new())
    }

    /// Like [`Simulation::new`], with observers of the links, in their order. Links without one are not watched;
    /// further observers are ignored.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn observed(
        links: &Links,
        scheduler: &'static SchedulerInfo,
        leniency: Leniency,
        options: &Options,
        mut observers: Vec<Box<dyn Observer>>,
    ) -> Result<Self, SimError> {
        let prepared = Prepared::new(links, options)?;
        prepared.check(scheduler, leniency)?;
        observers.resize_with(prepared.scenarios.len(), || Box::new(()));
        Self::start(prepared, scheduler, leniency, observers.into_iter().map(Watching::Owned).collect())
    }
}

impl<'o> Simulation<'o> {
    /// Starts a run of `prepared`, with an observer for each link.
    pub(crate) fn start(
        prepared: Prepared,
        info: &'static SchedulerInfo,
        leniency: Leniency,
        observers: Vec<Watching<'o>>,
    ) -> Result<Self, SimError> {
        let Prepared { scenarios, names, pools, phases, routes, options } = &prepared;
        let members = Links::members(pools, scenarios.len())?;
        let mut running = Vec::with_capacity(scenarios.len());
        for (link, ((scenario, members), observer)) in scenarios.iter().zip(members).zip(observers).enumerate() {
            let start = || {
                let scheduler = cores::build(info, scenario, leniency, members)?;
                let mut port = LinkPort::new(scenario, phases, options, (routes, link), observer)?;
                // No bound covers bandwidth borrowed from a pool.
                measure(
                    &mut port,
                    scenario,
                    options,
                    (Some(info), info.name),
                    pools.is_empty() && scenario.cores.cores.is_one(),
                )?;
                RunningLink::new(port, scheduler, Rules { info: Some(info), leniency })
            };
            running.push(start().map_err(|error| of_link(names, link, error))?);
        }
        let name = prepared.scenarios[0].cores.name(info.name);
        Ok(Self::at_the_start(prepared, Some(info), &name, running))
    }

    /// Makes a run of one link under a given scheduler.
    pub(crate) fn under(
        prepared: Prepared,
        name: &str,
        scheduler: Box<dyn Scheduler>,
        observer: &'o mut dyn Observer,
    ) -> Result<Self, SimError> {
        let Prepared { scenarios, phases, routes, options, .. } = &prepared;
        if !scenarios[0].cores.cores.is_one() {
            return Err(cores::refused(scenarios[0].cores, "the scheduler was built for one core"));
        }
        let rules = Rules { info: None, leniency: Leniency::Refuse };
        check_changes(&scenarios[0], rules)?;
        let mut port = LinkPort::new(&scenarios[0], phases, options, (routes, 0), Watching::Borrowed(observer))?;
        measure(&mut port, &scenarios[0], options, (None, name), false)?;
        let running = vec![RunningLink::new(port, scheduler, rules)?];
        Ok(Self::at_the_start(prepared, None, name, running))
    }

    fn at_the_start(
        prepared: Prepared,
        info: Option<&'static SchedulerInfo>,
        name: &str,
        running: Vec<RunningLink<'o>>,
    ) -> Self {
        let mut simulation = Self {
            prepared,
            info,
            name: name.to_owned(),
            running,
            ideals: OnceLock::new(),
            offered: 0,
            now: Nanos::ZERO,
            progress_at: Nanos::ZERO,
            work: 0,
        };
        simulation.progress_at = simulation.progress_step();
        simulation
    }

    /// Length of the run.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        self.prepared.scenarios[0].duration
    }

    /// Returns the time up to which everything has happened.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns true if the run has ended.
    #[must_use]
    pub fn done(&self) -> bool {
        self.now >= self.duration()
    }

    /// The names of the classes of a link, by their ids in [`Simulation::offer`]; the link comes first. A change may
    /// add some.
    #[must_use]
    pub fn names(&self, link: usize) -> &[String] {
        self.prepared.scenarios.get(link).map_or(&[], |scenario| &scenario.names)
    }

    /// Current scheduler of the first link; `None` if it was passed ready-made.
    #[must_use]
    pub fn scheduler(&self) -> Option<&'static SchedulerInfo> {
        self.running[0].rules().info
    }

    fn progress_step(&self) -> Nanos {
        Nanos((self.duration().0 / PROGRESS_CALLS).max(1))
    }

    /// Processes all events before `end`, or until the run has ended. All links share one clock: events are in time
    /// order, and at one instant the links are in their order. An `end` that is not after [`Simulation::now`] has no
    /// effect.
    ///
    /// # Errors
    /// The first error; of a further link as [`SimError::Further`]. The simulation cannot continue then.
    pub fn step_until(&mut self, end: Nanos) -> Result<(), SimError> {
        self.step_for(end, u64::MAX)
    }

    /// Like [`Simulation::step_until`], but ends as soon as `work` calls of the driver and packets were processed:
    /// [`Simulation::now`] is before `end` then, and the next call continues. The work of one call is exceeded by that
    /// of one turn of a link, at most 2^20 packets. However a run is cut, the same happens.
    ///
    /// # Errors
    /// As [`Simulation::step_until`].
    pub fn step_for(&mut self, end: Nanos, work: u64) -> Result<(), SimError> {
        let end = end.min(self.duration());
        if end <= self.now {
            return Ok(());
        }
        let step = self.progress_step();
        let mut done = 0;
        loop {
            let next = match &self.running[..] {
                [alone] => alone.next().map(|at| (at, 0)),
                links => links.iter().enumerate().filter_map(|(number, link)| Some((link.next()?, number))).min(),
            };
            let Some((now, number)) = next.filter(|&(at, _)| at < end) else { break };
            if done >= work {
                self.now = now;
                return Ok(());
            }
            let link = &mut self.running[number];
            let moved = link.port().moved();
            link.turn(now).map_err(|error| of_link(&self.prepared.names, number, error))?;
            // A turn may take in very many packets.
            let more = 1 + link.port().moved() - moved;
            self.work += more;
            done += more;
            if link.port().has_messages() {
                exchange(&mut self.running, number);
            }
            if now >= self.progress_at || self.work >= PROGRESS_WORK {
                self.work = 0;
                self.running[0].progress(now)?;
                self.progress_at = Nanos((now.0 / step.0).saturating_add(1).saturating_mul(step.0));
            }
        }
        self.now = end;
        Ok(())
    }

    /// Offers a packet of `frame` bytes from outside at `at`, to a leaf of link number `link`. It is treated like all
    /// other packets; all offered ones are one flow.
    ///
    /// # Errors
    /// [`SimError::Offer`]: a time that has passed or is not before the end, a class that does not exist or is not a
    /// leaf in the latest known state of the link, zero bytes.
    pub fn offer(&mut self, link: usize, class: ClassId, frame: u32, at: Nanos) -> Result<(), SimError> {
        let refused = |what: String| Err(SimError::Offer { at, what });
        let Some(scenario) = self.prepared.scenarios.get(link) else {
            return refused(format!("there is no link {link}; there are {}", self.running.len()));
        };
        if at < self.now || at >= self.duration() {
            return refused(format!(
                "it must not come before {} and must come before the end at {}",
                self.now,
                self.duration()
            ));
        }
        let stages = scenario.stages();
        let there =
            stages.iter().rev().find(|stage| stage.start <= at).is_some_and(|stage| {
                stage.leaf_ids(scenario.names.len()).get(class.index()).is_some_and(Option::is_some)
            });
        if !there {
            return refused(format!("class {} is not a leaf then", class.0));
        }
        if frame == 0 {
            return refused("it has 0 B; the smallest is 1 B".to_owned());
        }
        self.running[link].port_mut().expect(Coming::offered(at, self.offered, link, class, frame));
        self.offered += 1;
        self.ideals = OnceLock::new();
        Ok(())
    }

    /// Changes the link now, like a [`Change`] of the scenario: `change.at` is set to [`Simulation::now`]. `new`
    /// contains the names of classes that the scenario does not have yet. `change.classes` numbers them behind the
    /// existing ones.
    ///
    /// # Errors
    /// As for a change of the scenario: [`SimError::ChangeTime`] at the start and twice at one instant, a link that
    /// shares pools or has routes, a change that the scheduler refuses, sources that continue to send to a removed
    /// class. [`SimError::ChangeOfMeasured`], if windows are recorded or promises are measured. On error the simulation
    /// is unchanged.
    pub fn change(&mut self, mut change: Change, new: &[String]) -> Result<(), SimError> {
        let at = self.now;
        change.at = at;
        if !self.prepared.pools.is_empty() {
            return Err(SimError::ChangeOfPool { at });
        }
        if self.running.len() > 1 {
            return Err(SimError::ChangeOfRoute { at });
        }
        if self.prepared.options.window.is_some() || self.prepared.options.metrics {
            return Err(SimError::ChangeOfMeasured { at });
        }
        let mut scenario = Scenario::clone(&self.prepared.scenarios[0]);
        scenario.names.extend_from_slice(new);
        scenario.changes.insert(self.running[0].changed(), change);
        let mut phases = self.prepared.phases.to_vec();
        if let Some(place) = phases.iter().position(|phase| phase.start < at && at < phase.end) {
            let later = Interval { start: at, end: std::mem::replace(&mut phases[place].end, at) };
            phases.insert(place + 1, later);
        }
        scenario.check(&phases, &self.prepared.options)?;
        let rules = Rules { info: self.info, ..self.running[0].rules() };
        check_changes(&scenario, rules)?;
        let (scenario, phases) = (Arc::new(scenario), Arc::from(phases));
        self.running[0].replan(at, &scenario, &phases, &self.prepared.options);
        (self.prepared.scenarios[0], self.prepared.phases) = (scenario, phases);
        self.ideals = OnceLock::new();
        Ok(())
    }

    /// Returns the measurements until [`Simulation::now`]: at the end, the report of the run. Rates of a phase that is
    /// not over are those until now; incomplete windows are left out.
    ///
    /// # Errors
    /// [`SimError::NoTime`] during the warm-up; packets that the scheduler has lost.
    pub fn report(&self) -> Result<Run, SimError> {
        let ideals = self.ideals.get_or_init(|| self.ideals());
        self.report_beside(ideals.as_ref().map_err(Clone::clone)?)
    }

    /// Returns the report with `ideals`, by link.
    pub(crate) fn report_beside(&self, ideals: &[Ideals]) -> Result<Run, SimError> {
        let Prepared { scenarios, names, pools, routes, options, .. } = &self.prepared;
        let warmup = scenarios[0].warmup;
        if self.now <= warmup {
            return Err(SimError::NoTime { duration: self.now, warmup });
        }
        let mut merged: Option<Run> = None;
        for (link, (running, ideals)) in self.running.iter().zip(ideals).enumerate() {
            let summary = running.summary(&self.name, options, ideals, self.now);
            let mut one = summary.map_err(|error| of_link(names, link, error))?;
            if let Some(info) = self.info {
                one.notes.splice(0..0, notes(info, &scenarios[link]));
                one.notes.extend(not_computed(info, ideals));
            }
            match &mut merged {
                None => merged = Some(one),
                Some(run) => run.join(&names[link], one),
            }
        }
        let mut run = merged.expect("there is a first link");
        let visits: Vec<_> = self.running.iter().map(|running| running.port().visits()).collect();
        run.routes = routes::runs(routes, scenarios, names, &visits);
        if let Some(info) = self.info.filter(|info| !info.supports(Feature::Pool)) {
            let ignored = |pool: &LinkPool| format!("{} ignores the pool {}", info.name, pool.name);
            run.notes.extend(pools.iter().map(ignored));
        }
        Ok(run)
    }

    /// By link, the ideal rates for the demand of the sources and of offered packets.
    fn ideals(&self) -> Result<Vec<Ideals>, SimError> {
        let offered: Vec<_> = self.running.iter().map(|running| running.port().offered()).collect();
        let mut asked = self.prepared.clone();
        for (scenario, offered) in asked.scenarios.iter_mut().zip(&offered).filter(|(_, offered)| !offered.is_empty()) {
            let phase = |start: Nanos| self.prepared.phases.iter().find(|phase| phase.start == start).copied();
            // A source that asks for as much, over the same time.
            let source = |(&(start, class), amount): (&(Nanos, ClassId), &Amount)| {
                let phase = phase(start)?;
                let time = phase.end.min(self.now).saturating_sub(start);
                let bps = u128::from(amount.bytes) * 8 * u128::from(NANOS_PER_SEC) / u128::from(time.0.max(1));
                let rate = Rate::from_bps(u64::try_from(bps).ok()?).ok()?;
                let packet = PacketSize::Fixed((amount.bytes / amount.packets.max(1)) as u32);
                Some(SourceSpec { class, model: Model::Poisson(Pace::Rate(rate)), packet, active: vec![phase] })
            };
            Arc::make_mut(scenario).sources.extend(offered.iter().filter_map(source));
        }
        let fair = asked.fair()?;
        let Some(info) = self.info else {
            let unknown = NotComputed::because("the scheduler is not in the registry");
            let own = || vec![Err(unknown.clone()); self.prepared.phases.len()];
            return Ok(fair.into_iter().map(|fair| Ideals { fair, own: own() }).collect());
        };
        let mut ideals = asked.ideals(info, &fair)?;
        for (ideals, offered) in ideals.iter_mut().zip(&offered) {
            for (own, phase) in ideals.own.iter_mut().zip(self.prepared.phases.iter()) {
                if offered.keys().any(|&(start, _)| start == phase.start) {
                    *own = Err(NotComputed::because("packets were offered that no source describes"));
                }
            }
        }
        Ok(ideals)
    }
}

/// Moves packets that left link `number` to their next links, where they arrive later than now, and notifies sources of
/// deliveries.
fn exchange(links: &mut [RunningLink<'_>], number: usize) {
    let going: Vec<Coming> = links[number].port_mut().going().collect();
    for coming in going {
        links[coming.link].port_mut().expect(coming);
    }
    let heard: Vec<Delivered> = links[number].port_mut().deliveries().collect();
    for heard in heard {
        links[heard.link].port_mut().on_delivery(heard);
    }
}
