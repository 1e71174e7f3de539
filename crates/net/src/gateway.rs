//! The gateway: one link between two interfaces, shared by a scheduler on one data thread.
//!
//! [`Gateway::open`] checks everything that can be checked before a frame moves, [`Gateway::run`] moves frames on the calling
//! thread until it is told to stop, and a [`Remote`] asks for statistics from other threads meanwhile. `docs/gateway.md` is
//! the users' page.

use std::sync::atomic::{AtomicBool, Ordering};

use fairlink_config::link::LinkFile;
use fairlink_config::matching::Match;
use fairlink_config::problem::Problems;
use fairlink_core::{
    BuildError, ClassId, Driver, Hierarchy, HierarchyError, Leniency, Nanos, Overhead, Pacer, Scheduler, SchedulerInfo,
    Wake, registry,
};
use thiserror::Error;

use crate::active::Labels;
use crate::af_packet::{AfPacket, AfPacketOptions};
use crate::backend::{Backend, BackendError};
use crate::checks;
use crate::classify::Classifier;
use crate::interface::{Interface, InterfaceError, OffloadsOff};
use crate::pacing::{self, Clock, Pacing, Until, WallClock};
use crate::plane::{BUSY_RETRY, Plane, RESERVE};
use crate::pool::{HEADROOM, Pool, PoolError};
use crate::remote::{Publisher, Remote};
use crate::stats::{Counters, GatewayStats, MemoryBound, TimeShares};
use crate::sys;

/// What to do about offloads that join packets (GRO, LRO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffloadPolicy {
    /// Refuse to start.
    #[default]
    Refuse,
    /// Turn them off, and on again at the end.
    Fix,
    /// Start all the same; joined packets are dropped as too long, and counted.
    Ignore,
}

/// What to do where the interfaces carry longer frames than the link file's `mtu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongFrames {
    /// Accept them: the scheduler's largest packet is raised, and with it the bounds that `check` printed.
    #[default]
    Accept,
    /// Drop them as too long.
    Drop,
}

/// Where the data thread runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processor {
    /// On the last processor that this process may use.
    #[default]
    Last,
    /// On this one.
    Number(usize),
    /// Wherever the kernel puts it.
    Any,
}

/// What a gateway does. Start from [`GatewayConfig::new`].
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Interface that the shared direction comes from.
    pub input: String,
    /// Interface that it goes to: the link.
    pub output: String,
    /// The classes.
    pub tree: Hierarchy,
    /// Their names by id, the root's included; a class without is called by its number.
    pub names: Vec<String>,
    /// The scheduler.
    pub scheduler: &'static SchedulerInfo,
    /// What to do with what the scheduler cannot honour.
    pub leniency: Leniency,
    /// Which frames belong to which class; the first that matches.
    pub matches: Vec<(ClassId, Match)>,
    /// The class of all other frames; a leaf.
    pub default_class: ClassId,
    /// What a frame counts on the link.
    pub overhead: Overhead,
    /// How the data thread waits.
    pub pacing: Pacing,
    /// Lost time that is made up for; the mode's default when absent.
    pub catch_up: Option<Nanos>,
    /// Where the data thread runs.
    pub processor: Processor,
    /// Whether frames from the output are forwarded to the input, unshaped.
    pub reverse: bool,
    /// What to do about offloads.
    pub offloads: OffloadPolicy,
    /// What to do about frames longer than the link's largest.
    pub long_frames: LongFrames,
    /// The sockets.
    pub sockets: AfPacketOptions,
    /// Frames in the packet pool; just enough when absent.
    pub pool_frames: Option<u32>,
    /// How long to go on sending what is queued after a stop; what is left then is counted.
    pub drain: Nanos,
}

impl GatewayConfig {
    /// A gateway from `input` to `output` with the defaults of a bridge that shares its link by `scheduler` among the classes
    /// of `tree`; all frames belong to `default_class` until `matches` are set.
    #[must_use]
    pub fn new(
        input: &str,
        output: &str,
        scheduler: &'static SchedulerInfo,
        tree: Hierarchy,
        default_class: ClassId,
    ) -> Self {
        Self {
            input: input.to_owned(),
            output: output.to_owned(),
            tree,
            names: Vec::new(),
            scheduler,
            leniency: Leniency::Refuse,
            matches: Vec::new(),
            default_class,
            overhead: Overhead::NONE,
            pacing: Pacing::default(),
            catch_up: None,
            processor: Processor::default(),
            reverse: true,
            offloads: OffloadPolicy::default(),
            long_frames: LongFrames::default(),
            sockets: AfPacketOptions::default(),
            pool_frames: None,
            drain: Nanos::ZERO,
        }
    }

    /// A gateway from `input` to `output` as the link file says, otherwise with the defaults of [`GatewayConfig::new`].
    ///
    /// # Errors
    /// [`Problems`] where the file names no class for frames that match nothing.
    pub fn from_link_file(link: &LinkFile, input: &str, output: &str) -> Result<Self, Problems> {
        let default_class = link.require_default()?;
        Ok(Self {
            names: link.names.iter().map(str::to_owned).collect(),
            matches: link.matches.clone(),
            overhead: link.overhead,
            ..Self::new(input, output, link.info(), link.tree.clone(), default_class)
        })
    }

    fn name(&self, class: ClassId) -> String {
        self.names.get(class.index()).cloned().unwrap_or_else(|| class.0.to_string())
    }
}

/// Why a gateway cannot start: something the user can set right.
#[derive(Debug, Error)]
pub enum OpenError {
    /// An interface cannot be used.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// An interface cannot be opened.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Input and output are the same.
    #[error("input and output are both {name}; a gateway goes between two interfaces")]
    SameInterface {
        /// The name given twice.
        name: String,
    },
    /// Offloads that join packets are on.
    #[error(
        "interface {name} joins packets before the gateway sees them ({}); turn that off with `ethtool -K {name} {}`, or \
         let the gateway do it while it runs (--fix-offloads)",
        .offloads.join(", "),
        .offloads.iter().map(|name| format!("{name} off")).collect::<Vec<_>>().join(" ")
    )]
    Offloads {
        /// The interface.
        name: String,
        /// Those that are on.
        offloads: Vec<&'static str>,
    },
    /// The scheduler cannot run with these classes.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A class that gets frames is not a leaf.
    #[error("class {name} gets frames but is not a leaf; only classes without children have queues")]
    NotALeaf {
        /// Its name.
        name: String,
    },
    /// The interfaces' frames are longer than any link may carry.
    #[error("the interfaces' frames do not fit: {0}; lower their mtu")]
    Frames(#[from] HierarchyError),
    /// The packet pool is out of range.
    #[error("{0}; lower the queue limits, or the interfaces' mtu")]
    Pool(#[from] PoolError),
    /// The packet pool is smaller than what the queues may hold.
    #[error("a packet pool of {frames} frames is too small: queues of up to {queued} packets need {needed}")]
    PoolTooSmall {
        /// The number asked for.
        frames: u32,
        /// Most packets that the queues may hold.
        queued: u32,
        /// The least number of frames.
        needed: u32,
    },
    /// There is no such processor, or this process may not use it.
    #[error("processor {processor} cannot be used: {source}")]
    Processor {
        /// The number given.
        processor: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

/// A gateway that had to end: an interface went away.
#[derive(Debug, Error)]
#[error("{source}")]
pub struct RunError {
    /// What happened.
    pub source: BackendError,
    /// The statistics up to there; every packet is accounted for here too.
    pub stats: Box<GatewayStats>,
}

type BoxedScheduler = Box<dyn Scheduler>;

/// A gateway ready to run.
pub struct Gateway {
    config: GatewayConfig,
    driver: Driver<BoxedScheduler>,
    plane: Plane<AfPacket, WallClock>,
    /// Held for what dropping them does.
    offloads: Vec<OffloadsOff>,
    memory: MemoryBound,
    notes: Vec<String>,
    processor: Option<usize>,
    publisher: Publisher,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Checks the configuration and the interfaces, opens them, and reserves all memory. Frames that arrive from now on wait
    /// in the kernel's buffers until [`Gateway::run`].
    ///
    /// # Errors
    /// [`OpenError`], each with what to do about it. Nothing is changed on the interfaces then.
    pub fn open(mut config: GatewayConfig) -> Result<Self, OpenError> {
        if config.input == config.output {
            return Err(OpenError::SameInterface { name: config.input });
        }
        let classes = config.matches.iter().map(|&(class, _)| class).chain([config.default_class]);
        if let Some(class) = classes.into_iter().find(|&class| !config.tree.is_leaf(class)) {
            return Err(OpenError::NotALeaf { name: config.name(class) });
        }
        let input = Interface::open(&config.input)?;
        let output = Interface::open(&config.output)?;
        let mut notes = Vec::new();
        for interface in [&input, &output] {
            checks::look_at(interface, &mut notes);
        }
        if input.mtu > output.mtu {
            notes.push(format!(
                "{} carries packets of up to {} B, {} only of {} B: longer ones are dropped as too long",
                input.name, input.mtu, output.name, output.mtu
            ));
        }
        checks::fit_largest_packet(&mut config, &input, &mut notes)?;
        let scheduler = registry::build(config.scheduler, &config.tree, config.leniency)?;

        let queued = checks::most_queued(&config.tree);
        let needed = queued.saturating_add(RESERVE);
        let frames = config.pool_frames.unwrap_or(needed);
        if frames < needed {
            return Err(OpenError::PoolTooSmall { frames, queued, needed });
        }
        let frame_bytes = input.largest_frame().max(output.largest_frame()).saturating_add(HEADROOM as u32);
        let pool = Pool::new(frames, frame_bytes)?;
        let processor = checks::pick(config.processor)?;

        let offloads = checks::offloads(config.offloads, [&input, &output], &mut notes)?;
        let from = AfPacket::open(&input, &config.sockets)?;
        let to = AfPacket::open(&output, &config.sockets)?;
        for (name, socket) in [(&input.name, &from), (&output.name, &to)] {
            let (received, _) = socket.kernel_buffer_bytes();
            if received < config.sockets.receive_buffer {
                notes.push(format!(
                    "{name}: the kernel allows a receive buffer of {received} B, {} were asked for; `sysctl \
                     net.core.rmem_max` is the limit without CAP_NET_ADMIN",
                    config.sockets.receive_buffer
                ));
            }
        }

        let classifier = Classifier::new(&config.matches, config.default_class);
        let counters = Counters::new(config.tree.len(), config.tree.leaves());
        let kernel = [&from, &to].map(AfPacket::kernel_buffer_bytes).map(|(a, b)| u64::from(a) + u64::from(b));
        let memory = MemoryBound {
            pool_frames: u64::from(frames),
            frame_bytes: pool.frame_bytes() as u64,
            pool_bytes: pool.memory_bytes() as u64,
            queue_packets: u64::from(queued),
            classifier_bytes: classifier.memory_bytes() as u64,
            counters_bytes: counters.memory_bytes() as u64,
            kernel_bytes: kernel.iter().sum(),
        };
        let catch_up = config.catch_up.unwrap_or(config.pacing.default_catch_up());
        let driver = Driver::new(scheduler, Pacer::new(config.tree.link().rate, catch_up));
        let plane = Plane::new(
            pool,
            from,
            to,
            WallClock::start(),
            classifier,
            Labels::new(&config.tree),
            config.overhead,
            counters,
            config.reverse,
        );
        Ok(Self { config, driver, plane, offloads, memory, notes, processor, publisher: Publisher::default() })
    }

    /// What the user should know, a sentence each: what was changed, what may go wrong.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The most memory that this gateway takes.
    #[must_use]
    pub fn memory(&self) -> MemoryBound {
        self.memory
    }

    /// Asks this gateway for statistics from another thread while it runs.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.publisher.remote()
    }

    /// Moves frames on this thread, which is put on the configured processor, until `stop` is set (seen within 50 ms) or an
    /// interface goes away. Offloads that were turned off are turned on again before it returns.
    ///
    /// # Errors
    /// [`RunError`] where an interface went down or away.
    pub fn run(mut self, stop: &AtomicBool) -> Result<GatewayStats, RunError> {
        if let Some(processor) = self.processor {
            // The processor was checked at start; should it have gone since, the thread runs elsewhere.
            let _ = sys::pin_thread(processor);
        }
        pacing::wake_punctually();
        let mut time = Time { start: self.plane.clock.now(), idle: 0 };
        let ended = self.forward(stop, &mut time);
        let stats = self.close(&time);
        self.publisher.publish(&stats);
        drop(self.offloads);
        match ended {
            Ok(()) => Ok(stats),
            Err(source) => Err(RunError { source, stats: Box::new(stats) }),
        }
    }

    fn forward(&mut self, stop: &AtomicBool, time: &mut Time) -> Result<(), BackendError> {
        let mut now = time.start;
        let mut deadline = None;
        loop {
            if deadline.is_none() && stop.load(Ordering::Relaxed) {
                self.plane.receiving = false;
                deadline = Some(now.saturating_add(self.config.drain));
            }
            if let Some(deadline) = deadline {
                let empty = self.driver.scheduler().backlog().packets == 0 && self.plane.is_flushed();
                if empty || now >= deadline {
                    return Ok(());
                }
            }
            if self.publisher.is_asked() {
                let stats = self.stats(time);
                self.publisher.publish(&stats);
                now = self.plane.clock.now();
            }
            let (moved, wake) = self.plane.turn(now, &mut self.driver)?;
            let end = self.plane.clock.now();
            if !moved {
                time.idle += end.saturating_sub(now).0;
            }
            let retry = self.plane.is_back_waiting().then(|| end.saturating_add(BUSY_RETRY));
            let until = match wake {
                _ if !self.plane.is_flushed() => Until::TimeOnly(end.saturating_add(BUSY_RETRY)),
                Wake::At(at) if at <= end => {
                    now = end;
                    continue;
                }
                Wake::At(at) => Until::Time(retry.map_or(at, |retry| at.min(retry))),
                Wake::OnArrival => retry.map_or(Until::Arrival, Until::Time),
            };
            let input = self.plane.receiving.then(|| self.plane.input.readable()).flatten();
            let output = self.plane.takes_reverse().then(|| self.plane.output.readable()).flatten();
            pacing::wait(self.config.pacing, &self.plane.clock, until, [input, output])
                .map_err(|source| BackendError::System { interface: String::new(), what: "waiting", source })?;
            now = self.plane.clock.now();
            time.idle += now.saturating_sub(end).0;
        }
    }

    /// Counts what is left, takes everything out of the queues, and checks that it is what was counted.
    fn close(&mut self, time: &Time) -> GatewayStats {
        let mut stats = self.stats(time);
        let Self { driver, plane, .. } = self;
        let mut purged = 0;
        driver.scheduler_mut().purge(Nanos::MAX, &mut |_, packet: fairlink_core::Packet, _| {
            plane.pool.give_back(packet.handle as u32);
            purged += 1;
        });
        plane.input.release(&mut plane.pool);
        plane.output.release(&mut plane.pool);
        stats.balanced &= purged + plane.outgoing_packets() == stats.queued.packets && plane.pool_agrees(0);
        stats
    }

    fn stats(&mut self, time: &Time) -> GatewayStats {
        let Self { config, driver, plane, memory, .. } = self;
        let scheduler = driver.scheduler();
        let queued = |class| {
            let queued = scheduler.class_backlog(class);
            let waiting = plane.outgoing(class);
            queued + waiting
        };
        let classes = plane.counters.report(config.tree.leaves(), |class| config.name(class), queued);
        let ([received, sent, dropped, queued], balanced) = GatewayStats::total(&classes);
        let pool_agrees = plane.pool_agrees(scheduler.backlog().packets);
        let [input, output] = [plane.input.counters(), plane.output.counters()];
        let uptime = plane.clock.now().saturating_sub(time.start);
        GatewayStats {
            input: config.input.clone(),
            output: config.output.clone(),
            scheduler: config.scheduler.name.to_owned(),
            link_bps: config.tree.link().rate.bps(),
            uptime_s: uptime.0 as f64 / 1e9,
            received,
            sent,
            dropped,
            queued,
            balanced: balanced && pool_agrees,
            kernel_dropped_packets: input.kernel_dropped + output.kernel_dropped,
            super_packets: input.super_packets + output.super_packets,
            checksums_completed: input.checksums_completed + output.checksums_completed,
            vlan_tags_restored: input.vlan_tags_restored + output.vlan_tags_restored,
            output_busy: plane.output_busy,
            delay_s: plane.counters.delay(),
            reverse: plane.reverse_stats(),
            time: time.shares(uptime, plane),
            memory: *memory,
            pool_most_used: plane.pool.most_used() as u64,
            classes,
        }
    }
}

/// Since when the thread runs, and how long of it there was nothing to do, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Time {
    start: Nanos,
    idle: u64,
}

impl Time {
    fn shares<B: Backend, C: Clock>(&self, uptime: Nanos, plane: &Plane<B, C>) -> TimeShares {
        if uptime == Nanos::ZERO {
            return TimeShares::default();
        }
        let idle = (self.idle as f64 / uptime.0 as f64).min(1.0);
        let sampled = plane.sampled;
        let parts = sampled.receive + sampled.classify + sampled.send + sampled.reverse;
        // Time of turns that is none of the others'.
        let scheduler = sampled.total.saturating_sub(parts);
        let all = (parts + scheduler).max(1) as f64;
        let share = |part: u64| (1.0 - idle) * part as f64 / all;
        TimeShares {
            idle,
            receive: share(sampled.receive),
            classify: share(sampled.classify),
            scheduler: share(scheduler),
            send: share(sampled.send),
            reverse: share(sampled.reverse),
            sampled_turns: sampled.turns,
        }
    }
}
