//! Plays a demo on real packets. The stage is two virtual cables. The gateway joins them, or the kernel's HTB is at the
//! start of the second. A generator sends, a receiver measures.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fairlink_core::{ClassId, Hierarchy, HierarchyError, Leniency, NANOS_PER_SEC, Nanos, Rate, SchedulerInfo};
use fairlink_report::{Rates, Span, SpanKind};
use fairlink_traffic::{Interval, Model, SourceSpec};

use crate::addressing::{AddressingError, default_matches, headers_for};
use crate::demo::{Accounting, DemoOutcome, DemoPlan, DemoProgress, DemoRun, KERNEL_HTB, LiveRate, Skipped, demo_rate};
use crate::generator::{Generator, GeneratorConfig, GeneratorError, GeneratorReport, Lanes};
use crate::kernel_htb::{KernelHtb, TcError};
use crate::netns::PrivateNamespace;
use crate::receiver::{Receiver, ReceiverConfig, ReceiverError, Window};
use crate::tally::ReceiverReport;
use crate::veth;
use fairlink_net::GatewayStats;
use fairlink_net::Pacing;
use fairlink_net::{Clock, MonotonicClock};
use fairlink_net::{Gateway, GatewayConfig, OpenError, Remote, RunError};

/// The generator's end of the first cable.
const SOURCE: &str = "fl-source";
/// The gateway's end of the first cable.
const INPUT: &str = "fl-in";
/// The gateway's end of the second cable, where the link is shared.
const OUTPUT: &str = "fl-out";
/// The receiver's end of the second cable.
const SINK: &str = "fl-sink";

/// Total offered load of all greedy sources, in percent of the link's rate. They all offer the same, so that no
/// scheduler looks fair because of the offered load.
const GREEDY_PERCENT: u64 = 330;
/// Maximum load of one greedy source: more than its class can ever get.
const ONE_GREEDY_PERCENT: u64 = 110;
/// Minimum load of one greedy source, in percent of the largest ideal rate: enough to stay backlogged.
const IDEAL_PERCENT: f64 = 150.0;
/// Queue limit of a leaf in a demo, in packets. It is large enough to stay backlogged while the generator's processor
/// is busy elsewhere for a while. It is small enough that the packets of one phase are gone when the next is measured.
const QUEUE_PACKETS: u32 = 250;
/// Time for all threads to start before the first packet.
const LEAD: Nanos = Nanos::from_millis(30);
/// Time for frames in transit to arrive after the generator has ended.
const DRAIN: Nanos = Nanos::from_millis(100);
/// Maximum time for frames to get from one thread to the next on an overloaded machine, after which they are given up.
const LONGEST_WAY: Duration = Duration::from_secs(5);
/// Lost time that the gateway makes up for. It is long, because three threads may share two busy processors.
const CATCH_UP: Nanos = Nanos::from_millis(25);

/// Scheduler of the link.
#[derive(Clone, Copy, Debug)]
pub enum Shaper {
    /// The gateway with this scheduler.
    Gateway(&'static SchedulerInfo),
    /// The kernel's HTB.
    KernelHtb,
}

impl Shaper {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Gateway(info) => info.name,
            Self::KernelHtb => KERNEL_HTB,
        }
    }
}

/// Reason why an experiment could not be played.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The cables could not be laid.
    #[error("virtual interfaces: {0}")]
    Cables(#[source] io::Error),
    /// The tree cannot be used.
    #[error(transparent)]
    Tree(#[from] HierarchyError),
    /// A class cannot be sent to.
    #[error(transparent)]
    Addressing(#[from] AddressingError),
    /// The generator could not start, or failed.
    #[error("generator: {0}")]
    Generator(#[from] GeneratorError),
    /// The receiver could not start, or failed.
    #[error("receiver: {0}")]
    Receiver(#[from] ReceiverError),
    /// The gateway could not start.
    #[error("gateway: {0}")]
    Open(#[from] OpenError),
    /// The gateway failed.
    #[error("gateway: {0}")]
    Gateway(#[from] RunError),
    /// The kernel's HTB could not be set up or read.
    #[error("the kernel's HTB: {0}")]
    Htb(#[from] TcError),
}

/// Two virtual cables in a private network namespace.
#[derive(Debug)]
pub struct Stage {
    /// Number of the next run, which its frames carry.
    run: u8,
}

/// Reports of generator, receiver and gateway.
struct Played {
    sent: GeneratorReport,
    received: ReceiverReport,
    gateway: Option<GatewayStats>,
    quanta: Option<Vec<(ClassId, u64)>>,
    /// Time after which it was stopped; `None` if it was not.
    stopped_after: Option<Nanos>,
}

impl Stage {
    /// Creates the cables. They vanish with the process.
    ///
    /// # Errors
    /// [`DemoError::Cables`].
    pub fn new(_: &PrivateNamespace) -> Result<Self, DemoError> {
        veth::lay_cables(&[(SOURCE, INPUT), (OUTPUT, SINK)]).map_err(DemoError::Cables)?;
        Ok(Self { run: 0 })
    }

    /// Plays `plan` with each of `sharers` in turn, until `stop` is set. The kernel's HTB is skipped, with the reason,
    /// if it is not available.
    ///
    /// # Errors
    /// [`DemoError`]: the error of the first sharer that failed otherwise.
    pub fn play_all(
        &mut self,
        plan: &DemoPlan,
        sharers: &[Shaper],
        stop: &AtomicBool,
        mut progress: impl FnMut(&DemoProgress<'_>),
    ) -> Result<DemoOutcome, DemoError> {
        let mut outcome = DemoOutcome {
            real: true,
            why_simulated: None,
            experiments: Vec::new(),
            skipped: Vec::new(),
            stopped: false,
        };
        for sharer in sharers {
            match self.play(plan, *sharer, stop, &mut progress) {
                Ok(run) => outcome.experiments.push(run),
                Err(DemoError::Htb(error)) => {
                    outcome.skipped.push(Skipped { scheduler: sharer.name().to_owned(), why: error.to_string() });
                }
                Err(error) => return Err(error),
            }
            outcome.stopped = stop.load(Ordering::Relaxed);
            if outcome.stopped {
                break;
            }
        }
        Ok(outcome)
    }

    /// Plays `plan` with one sharer, until `stop` is set, which takes effect within 0.2 s. Calls `progress` five times
    /// a second, on this thread.
    ///
    /// # Errors
    /// [`DemoError`].
    pub fn play(
        &mut self,
        plan: &DemoPlan,
        sharer: Shaper,
        stop: &AtomicBool,
        mut progress: impl FnMut(&DemoProgress<'_>),
    ) -> Result<DemoRun, DemoError> {
        self.run = self.run.wrapping_add(1);
        let tree = with_short_queues(&plan.tree)?;
        let matches = default_matches(tree.leaves())?;
        let classes = plan.sources.iter().map(|source| Ok((source.class, headers_for(source.class, &matches, None)?)));
        let classes: BTreeMap<_, _> = classes.collect::<Result<_, AddressingError>>()?;

        let (gateway, htb) = match sharer {
            Shaper::Gateway(info) => {
                // A tree has at least one leaf.
                let default = tree.leaves().last().copied().unwrap_or(ClassId::ROOT);
                let mut config = GatewayConfig::new(INPUT, OUTPUT, info, tree.clone(), default);
                // Flat schedulers shall be compared with the others.
                config.leniency = Leniency::Ignore;
                config.names.clone_from(&plan.names);
                config.matches = matches;
                // A thread that sleeps more gets a busy processor sooner. The delay of sleeping is not shown.
                config.pacing = Pacing::Eco;
                config.catch_up = Some(CATCH_UP);
                config.drain = Some(DRAIN);
                (Some(Gateway::open(config)?), None)
            }
            Shaper::KernelHtb => (None, Some(KernelHtb::install(OUTPUT, &tree)?)),
        };
        let start_ns = MonotonicClock::SHARED.now().saturating_add(LEAD).0;
        let mut receiver = ReceiverConfig::new(SINK);
        receiver.start_ns = Some(start_ns);
        receiver.spans = plan.spans(start_ns);
        let receiver = Receiver::open(receiver)?;
        let generator = Generator::open(GeneratorConfig {
            interface: if htb.is_some() { OUTPUT } else { SOURCE }.to_owned(),
            classes: classes.into_iter().collect(),
            names: BTreeMap::new(),
            sources: offered(plan, tree.link().rate),
            seed: 1,
            // None is greedy any more.
            greedy_rate: tree.link().rate,
            duration: plan.duration(),
            start_ns: Some(start_ns),
            run: self.run,
            lanes: htb.as_ref().map_or(Lanes::Shared, |htb| Lanes::ByPriority(htb.priorities())),
            // The gateway uses the last processor.
            fragment: false,
            kernel_stamps: false,
            cpu: Some(0),
        })?;
        let (windows, told) = mpsc::channel();
        let mut tell = |window: Window| progress(&live(plan, &tree, sharer, &window));
        let mut played = perform(generator, gateway, receiver, stop, start_ns, windows, &told, &mut tell)?;
        played.quanta = htb.map(|htb| htb.quanta().to_vec());
        Ok(report(plan, &tree, sharer, &played))
    }
}

/// Runs everything on separate threads and reports windows on this one.
#[expect(clippy::too_many_arguments, reason = "the players of one run, each used once")]
fn perform(
    generator: Generator,
    gateway: Option<Gateway>,
    receiver: Receiver,
    stop: &AtomicBool,
    start_ns: u64,
    windows: mpsc::Sender<Window>,
    told: &mpsc::Receiver<Window>,
    tell: &mut impl FnMut(Window),
) -> Result<Played, DemoError> {
    let (stop_gateway, stop_receiver) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // If this thread fails, stop the others, because the scope waits for them.
        let _guard = StopAll([&stop_gateway, &stop_receiver]);
        // The receiver must never wait for the listener: the channel has no limit, at five windows a second.
        let receiving = scope.spawn(|| {
            receiver.run(&stop_receiver, move |window| {
                // The listener may be gone while the run is being stopped.
                let _ = windows.send(window.clone());
            })
        });
        let remote = gateway.as_ref().map(Gateway::remote);
        let forwarding = gateway.map(|gateway| scope.spawn(|| gateway.run(&stop_gateway)));
        let sending = scope.spawn(|| generator.run(stop, |_| ()));
        let is_broken =
            || receiving.is_finished() || forwarding.as_ref().is_some_and(std::thread::ScopedJoinHandle::is_finished);
        let arrived = Cell::new(0);
        let mut tell = |window: Window| {
            arrived.set(arrived.get() + window.classes.values().map(|seen| seen.amount.packets).sum::<u64>());
            tell(window);
        };
        while !sending.is_finished() && !is_broken() {
            if let Ok(window) = told.recv_timeout(Duration::from_millis(20)) {
                tell(window);
            }
        }
        let stopped = stop.load(Ordering::Relaxed);
        let stopped_after =
            (stopped || is_broken()).then(|| MonotonicClock::SHARED.now().saturating_sub(Nanos(start_ns)));
        if is_broken() {
            // The generator has no receiver any more. Its own error or report does not matter.
            stop.store(true, Ordering::Relaxed);
        }
        let sent = join(sending)?;
        if let Some(remote) = &remote {
            let offered: u64 = sent.classes.iter().map(|class| class.sent_packets).sum();
            let until = Instant::now() + LONGEST_WAY;
            // Frames that are in transit, or in the socket, would not be counted.
            while !is_broken() && Instant::now() < until && fetched(remote) < offered {
                if let Ok(window) = told.recv_timeout(Duration::from_millis(5)) {
                    tell(window);
                }
            }
        }
        stop_gateway.store(true, Ordering::Relaxed);
        let gateway = forwarding.map(join).transpose()?;
        std::thread::sleep(Duration::from_nanos(DRAIN.0));
        if let Some(gateway) = &gateway {
            let until = Instant::now() + LONGEST_WAY;
            let (mut before, mut quiet) = (0, 0);
            // After two windows without a packet, no more will arrive: missing packets were lost elsewhere.
            while !receiving.is_finished()
                && Instant::now() < until
                && arrived.get() < gateway.counts().sent.packets
                && quiet < 2
            {
                let Ok(window) = told.recv_timeout(LONGEST_WAY) else { break };
                tell(window);
                quiet = if arrived.get() == before { quiet + 1 } else { 0 };
                before = arrived.get();
            }
        }
        stop_receiver.store(true, Ordering::Relaxed);
        let received = join(receiving)?;
        told.try_iter().for_each(tell);
        Ok(Played { sent, received, gateway, quanta: None, stopped_after })
    })
}

/// Number of frames that a gateway has fetched, and that the kernel lost before.
fn fetched(remote: &Remote) -> u64 {
    // A gateway that does not answer has no time to fetch either.
    remote.stats(LONGEST_WAY).map_or(0, |stats| stats.counts().received.packets + stats.gateway().unreceived_packets())
}

struct StopAll<'a>([&'a AtomicBool; 2]);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
    }
}

fn join<T, E: Into<DemoError>>(handle: std::thread::ScopedJoinHandle<'_, Result<T, E>>) -> Result<T, DemoError> {
    match handle.join() {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// `tree` with queues of at most [`QUEUE_PACKETS`].
fn with_short_queues(tree: &Hierarchy) -> Result<Hierarchy, HierarchyError> {
    let mut short = Hierarchy::builder(tree.link());
    for class in tree.classes() {
        let mut config = *tree.config(class);
        config.limits.packets = config.limits.packets.min(QUEUE_PACKETS);
        short.add(tree.parent(class).unwrap_or(ClassId::ROOT), config)?;
    }
    short.build()
}

/// Returns the plan's sources, with each greedy source replaced by a constant-rate source in each phase. The more of
/// them send, the less each has to offer to stay backlogged. They offer no more than that, because dropped packets cost
/// processor time, too.
fn offered(plan: &DemoPlan, link: Rate) -> Vec<SourceSpec> {
    let is_greedy = |source: &&SourceSpec| source.model == Model::Greedy;
    let mut sources: Vec<SourceSpec> = plan.sources.iter().filter(|source| !is_greedy(source)).cloned().collect();
    for (index, phase) in plan.phases.iter().enumerate() {
        let sends = |source: &&SourceSpec| {
            let all = Interval { start: Nanos::ZERO, end: Nanos::MAX };
            let active = if source.active.is_empty() { &[all][..] } else { &source.active };
            active.iter().any(|interval| interval.start < phase.end && phase.start < interval.end)
        };
        let greedy: Vec<&SourceSpec> = plan.sources.iter().filter(is_greedy).filter(sends).collect();
        let share = link.bps() * GREEDY_PERCENT / 100 / greedy.len().max(1) as u64;
        let ideal = greedy.iter().map(|source| plan.ideal_bps(index, source.class)).fold(0.0, f64::max);
        let bps = share.max((ideal * IDEAL_PERCENT / 100.0) as u64).min(link.bps() * ONE_GREEDY_PERCENT / 100);
        let model = Model::cbr(Rate::from_bps(bps.max(1)).unwrap_or(Rate::MAX));
        let active = vec![Interval { start: phase.start, end: phase.end }];
        sources.extend(greedy.into_iter().map(|source| SourceSpec {
            model: model.clone(),
            active: active.clone(),
            ..source.clone()
        }));
    }
    sources
}

/// `span` in seconds.
fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / NANOS_PER_SEC as f64
}

fn live<'a>(plan: &DemoPlan, tree: &Hierarchy, sharer: Shaper, window: &Window) -> DemoProgress<'a> {
    let middle = Nanos(((window.start_s + window.end_s) / 2.0 * 1e9).max(0.0) as u64);
    let phase = plan.phase_at(middle);
    let length = window.end_s - window.start_s;
    let rate = |class: &ClassId| window.classes.get(class).map_or(0.0, |seen| Rates::bps(seen.amount, length));
    DemoProgress {
        scheduler: sharer.name(),
        elapsed_s: window.end_s,
        duration_s: seconds(plan.duration()),
        phase,
        classes: tree
            .leaves()
            .iter()
            .map(|class| LiveRate { class: *class, rate_bps: rate(class), ideal_bps: plan.ideal_bps(phase, *class) })
            .collect(),
    }
}

fn report(plan: &DemoPlan, tree: &Hierarchy, sharer: Shaper, played: &Played) -> DemoRun {
    let measured = plan.spans(0).into_iter().zip(&played.received.spans);
    let phases = plan.phases.iter().zip(measured).enumerate();
    let phases = phases
        // For a stopped run, the phases that were finished.
        .filter(|(_, (phase, _))| played.stopped_after.is_none_or(|after| phase.end <= after))
        .map(|(index, (phase, ((start, end), counts)))| {
            let rate = |&class: &ClassId| {
                let bps = counts.get(&class).map_or(0.0, |&amount| Rates::bps(amount, seconds(Nanos(end - start))));
                demo_rate(&plan.name(class), bps, plan.ideal_bps(index, class))
            };
            let classes = tree.leaves().iter().map(rate).collect();
            Span { classes, ..Span::new(SpanKind::Phase, seconds(phase.start), seconds(phase.end)) }
        })
        .collect();
    DemoRun {
        experiment: plan.experiment,
        scenario: plan.scenario.clone(),
        scheduler: sharer.name().to_owned(),
        link_bps: tree.link().rate.bps() as f64,
        phases,
        quanta_bytes: played
            .quanta
            .as_ref()
            .map(|quanta| quanta.iter().map(|&(class, quantum)| (plan.name(class), quantum)).collect()),
        accounting: Some(accounting(plan, tree, played)),
        forfeited_s: played.gateway.as_ref().map(|gateway| gateway.gateway().forfeited_s),
    }
}

fn accounting(plan: &DemoPlan, tree: &Hierarchy, played: &Played) -> Accounting {
    let Played { sent, received, gateway, .. } = played;
    let mut accounting = Accounting {
        sent_packets: sent.classes.iter().map(|class| class.sent_packets).sum(),
        received_packets: received.classes.iter().map(|class| class.received_packets).sum(),
        kernel_dropped_packets: received.socket_drops,
        reordered_packets: received.classes.iter().map(|class| class.reordered_packets).sum(),
        duplicate_packets: received.classes.iter().map(|class| class.duplicate_packets).sum(),
        ..Accounting::default()
    };
    if let Some(gateway) = gateway {
        accounting.dropped_packets = gateway.counts().dropped.packets;
        accounting.left_packets = gateway.counts().queued.packets;
        accounting.kernel_dropped_packets += gateway.gateway().unreceived_packets();
        // Both ends count the class's frames. If neither lost any, a difference is a frame in another class.
        for &class in tree.leaves() {
            let sent = sent.class(class).map_or(0, |sent| sent.sent_packets);
            let name = plan.name(class);
            let arrived = gateway.classes.iter().find(|class| class.name == name);
            let arrived = arrived.map_or(0, |class| class.counts().received.packets);
            accounting.misplaced_packets += arrived.saturating_sub(sent);
        }
    }
    accounting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::PlanPhase;
    use fairlink_core::{ClassConfig, LinkConfig};
    use fairlink_traffic::{Pace, PacketSize};

    #[test]
    fn queues_are_shortened_and_nothing_else_is_changed() {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(100).unwrap()));
        let a = tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
        tree.add(a, ClassConfig::default()).unwrap();
        let tree = tree.build().unwrap();
        let short = with_short_queues(&tree).unwrap();
        assert_eq!((short.len(), short.leaves(), short.parent(ClassId(2))), (3, tree.leaves(), Some(ClassId(1))));
        assert_eq!(short.config(ClassId(2)).limits.packets, QUEUE_PACKETS);
    }

    #[test]
    fn greedy_sources_offer_alike_and_more_than_their_classes_can_get() {
        let link = Rate::from_bps(100_000_000).unwrap();
        let mut tree = Hierarchy::builder(LinkConfig::new(link));
        for _ in 0..8 {
            tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
        }
        let second = Nanos::from_secs(1);
        let phase = |index: u64, ideal: &[f64]| PlanPhase {
            start: Nanos(index * second.0),
            end: Nanos((index + 1) * second.0),
            ideal_bps: std::iter::once(0.0).chain(ideal.iter().copied()).collect(),
        };
        let source = |class: u32, model, seconds: std::ops::Range<u64>| SourceSpec {
            class: ClassId(class),
            model,
            packet: PacketSize::Fixed(1000),
            active: vec![Interval { start: Nanos::from_secs(seconds.start), end: Nanos::from_secs(seconds.end) }],
        };
        let cbr = source(8, Model::cbr(Rate::from_bps(5).unwrap()), 0..3);
        let mut sources: Vec<SourceSpec> = (2..=5).map(|class| source(class, Model::Greedy, 0..1)).collect();
        sources.extend([source(1, Model::Greedy, 0..3), cbr.clone(), source(7, Model::Greedy, 2..3)]);
        // One that is always there.
        sources[4].active.clear();
        let plan = DemoPlan {
            experiment: 1,
            scenario: None,
            tree: tree.build().unwrap(),
            names: Vec::new(),
            sources,
            phases: vec![phase(0, &[40e6]), phase(1, &[100e6]), phase(2, &[60e6, 0.0, 0.0, 0.0, 0.0, 0.0, 40e6])],
            settle: Nanos::ZERO,
        };
        let all = offered(&plan, link);
        assert_eq!(all[0], cbr);
        let seen: Vec<(u64, u32, u64)> = all[1..]
            .iter()
            .map(|source| match source.model {
                Model::Cbr { pace: Pace::Rate(rate), .. } => {
                    (source.active[0].start.0 / second.0, source.class.0, rate.bps() / 1_000_000)
                }
                _ => panic!("{source:?}"),
            })
            .collect();
        let expected =
            [(0, 2, 66), (0, 3, 66), (0, 4, 66), (0, 5, 66), (0, 1, 66), (1, 1, 110), (2, 1, 110), (2, 7, 110)];
        assert_eq!(seen, expected);
        // Many small ones and one large one: the large one's share counts.
        let mut plan = plan;
        plan.sources.extend((0..95).map(|_| source(6, Model::Greedy, 0..1)));
        let first = &offered(&plan, link)[1];
        assert_eq!(first.model, Model::cbr(Rate::from_bps(60_000_000).unwrap()));
    }
}
