//! Configuration of a gateway: interfaces, classes and policies. Opening the gateway checks them.

use std::sync::Arc;

use fairlink_config::link::{DEFAULT_MEMORY, Gso, LinkFile};
use fairlink_config::matching::Match;
use fairlink_config::problem::Problems;
use fairlink_core::{ClassId, Cores, Hierarchy, Leniency, LinkConfig, Nanos, Overhead, SchedulerInfo};

use crate::gateway::cable;
use crate::gateway::data_path::Lengths;
use crate::gateway::fail_open::FailOpen;
use crate::gateway::liveness::DEFAULT_STALL;
use crate::gateway::pools::Pools;
use crate::gateway::workers::{self, Sortings};
use crate::io::af_packet::AfPacketOptions;
use crate::io::backend::BackendKind;
use crate::io::pacing::{DEFAULT_CATCH_UP, Pacing};

/// Policy for offloads that join packets (GRO, LRO). The gateway splits joined packets, but only if the kernel
/// describes them ([`AfPacketOptions::split`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffloadPolicy {
    /// Refuse to start if joined packets cannot be split.
    #[default]
    Refuse,
    /// Turn them off, and on again at the end.
    Fix,
    /// Start anyway; joined packets that cannot be split are dropped and counted.
    Ignore,
}

/// Policy for interfaces that carry longer frames than the link file's `mtu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongFrames {
    /// Accept them: the scheduler's largest packet is raised, and with it the bounds that `check` printed.
    #[default]
    Accept,
    /// Drop them as too long.
    Drop,
}

/// Backend that moves frames between the interfaces and the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// AF_XDP sockets if the drivers of both interfaces offer zero-copy, else packet sockets.
    #[default]
    Auto,
    /// Packet sockets.
    AfPacket,
    /// AF_XDP sockets, or packet sockets with a note if the interfaces or the kernel cannot use AF_XDP.
    AfXdp,
}

impl BackendChoice {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Auto, Self::AfPacket, Self::AfXdp];

    /// Its name in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::AfPacket => BackendKind::AfPacket.name(),
            Self::AfXdp => BackendKind::AfXdp.name(),
        }
    }

    /// The choice of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }
}

/// Processor of the data thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processor {
    /// The last processor that this process may use.
    #[default]
    Last,
    /// The processor at this distance before the last, wrapping around: one for each of several gateways.
    BeforeLast(usize),
    /// On this one.
    Number(usize),
    /// Wherever the kernel puts it.
    Any,
}

/// Configuration of a gateway. Start from [`GatewayConfig::new`].
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Name of the link in a process with several links; by default the output's name.
    pub link_name: Option<String>,
    /// Input of the shared direction. For the host's own traffic, the end of a cable that the gateway creates.
    pub input: String,
    /// Output of the shared direction: the link.
    pub output: String,
    /// True to share the host's own frames for `output`. See [`GatewayConfig::for_own_traffic`].
    pub own_traffic: bool,
    /// The classes.
    pub tree: Hierarchy,
    /// Names of the classes by id, including the root. A class without a name is named by its number.
    pub names: Vec<String>,
    /// The scheduler.
    pub scheduler: &'static SchedulerInfo,
    /// Policy for settings that the scheduler does not support.
    pub leniency: Leniency,
    /// Matches and their classes; the first match counts.
    pub matches: Vec<(ClassId, Match)>,
    /// The class of all other frames; a leaf.
    pub default_class: ClassId,
    /// Accounted length of a frame on the link.
    pub overhead: Overhead,
    /// Longest frame, in accounted bytes. The tree's largest packet is this, or the longest piece of a super-frame.
    pub longest_frame: u32,
    /// Treatment of super-frames.
    pub gso: Gso,
    /// Maximum number of bytes for the scheduler, its queues and the packet pool together.
    pub memory_limit: u64,
    /// Backend.
    pub backend: BackendChoice,
    /// Waiting mode of the data thread.
    pub pacing: Pacing,
    /// True to time every turn, so that statistics have the cost of each stage.
    pub profile: bool,
    /// Limit of lost time that the gateway makes up for; 20 ms when absent.
    pub catch_up: Option<Nanos>,
    /// Processor of the data thread.
    pub processor: Processor,
    /// Cores that share the link, one or by a hub: one has the scheduler, the others receive and send.
    pub cores: Cores,
    /// True if `cores` overrides the link file's, also after a reload.
    pub cores_asked: bool,
    /// Time without a turn of the data thread after which workers forward by themselves. By default as long as lost time is
    /// made up for.
    pub worker_patience: Option<Nanos>,
    /// True if frames from the output are forwarded to the input, unshaped.
    pub reverse: bool,
    /// Start even if frames may be doubled or loop. Ports may be in use by another gateway, a bridge or the kernel's
    /// own addresses, or be both ends of one cable.
    pub force: bool,
    /// Policy of fail-open.
    pub fail_open: FailOpen,
    /// True to ask a running gateway on the same interfaces to leave, and to take its place.
    pub take_over: bool,
    /// True to wait for an interface that goes down or disappears during the run. Else it ends the run.
    pub wait_for_interfaces: bool,
    /// Time without progress, though frames could be sent, after which a direction has stalled.
    pub stall_after: Nanos,
    /// Policy for offloads that join packets.
    pub offloads: OffloadPolicy,
    /// Policy for frames longer than the link's largest.
    pub long_frames: LongFrames,
    /// True to drop frames of classes with long queues in the kernel, before they are copied, while load is shed, if the
    /// kernel allows that. Packet sockets between two interfaces only.
    pub shed_in_kernel: bool,
    /// The sockets.
    pub sockets: AfPacketOptions,
    /// Number of frames in the packet pool; by default the maximum need.
    pub pool_frames: Option<u32>,
    /// Time for which the gateway sends queued packets after a stop. Packets left after that are counted. Default: 2 s
    /// if it fails open, so that none are lost, otherwise zero.
    pub drain: Option<Nanos>,
    /// Pools of the process. Links share pools if they have the same value.
    pub pools: Pools,
    /// The link file of this configuration, if any. A reload reads it again.
    pub link: Option<Arc<LinkFile>>,
    /// Scheduler that overrides the link file's, also after a reload.
    pub scheduler_asked: Option<String>,
}

impl GatewayConfig {
    /// Configures a gateway from `input` to `output` that shares its link by `scheduler` among the classes of `tree`.
    /// All frames belong to `default_class` until `matches` are set.
    #[must_use]
    pub fn new(
        input: &str,
        output: &str,
        scheduler: &'static SchedulerInfo,
        tree: Hierarchy,
        default_class: ClassId,
    ) -> Self {
        Self {
            link_name: None,
            input: input.to_owned(),
            output: output.to_owned(),
            own_traffic: false,
            longest_frame: tree.link().max_packet,
            tree,
            names: Vec::new(),
            scheduler,
            leniency: Leniency::Refuse,
            matches: Vec::new(),
            default_class,
            overhead: Overhead::NONE,
            gso: Gso::Split,
            memory_limit: DEFAULT_MEMORY,
            backend: BackendChoice::default(),
            pacing: Pacing::default(),
            profile: false,
            catch_up: None,
            processor: Processor::default(),
            cores: Cores::ONE,
            cores_asked: false,
            worker_patience: None,
            reverse: true,
            force: false,
            fail_open: FailOpen::default(),
            take_over: false,
            wait_for_interfaces: false,
            stall_after: DEFAULT_STALL,
            offloads: OffloadPolicy::default(),
            long_frames: LongFrames::default(),
            shed_in_kernel: true,
            sockets: AfPacketOptions::default(),
            pool_frames: None,
            drain: None,
            pools: Pools::default(),
            link: None,
            scheduler_asked: None,
        }
    }

    /// Configures a gateway from `input` to `output` by the link file, otherwise with the defaults of
    /// [`GatewayConfig::new`].
    ///
    /// # Errors
    /// [`Problems`] if the file has no class for frames that match nothing.
    pub fn from_link_file(link: &LinkFile, input: &str, output: &str) -> Result<Self, Problems> {
        let default_class = link.require_default()?;
        let mut config = Self::new(input, output, link.info(), link.tree.clone(), default_class);
        config.take_link(&Arc::new(link.clone()))?;
        config.link_name.clone_from(&link.name);
        Ok(config)
    }

    /// Configures a gateway that shares the host's own frames for `output` by the link file. The gateway creates a
    /// cable for these frames, and removes it at its end. Frames that the interface receives are unaffected, and so are
    /// its addresses.
    ///
    /// # Errors
    /// As [`GatewayConfig::from_link_file`].
    pub fn for_own_traffic(link: &LinkFile, output: &str) -> Result<Self, Problems> {
        let [_, input] = cable::names(output);
        Ok(Self { own_traffic: true, reverse: false, ..Self::from_link_file(link, &input, output)? })
    }

    /// Describes the path of its frames.
    #[must_use]
    pub fn way(&self) -> String {
        match self.own_traffic {
            true => format!("this host's traffic on {}", self.output),
            false => format!("{} to {}", self.input, self.output),
        }
    }

    /// Replaces link, scheduler and classes by those of the link file; the rest stays.
    ///
    /// # Errors
    /// As [`GatewayConfig::from_link_file`]; nothing has changed then.
    pub(crate) fn take_link(&mut self, link: &Arc<LinkFile>) -> Result<(), Problems> {
        link.require_hub("the gateway")?;
        if !self.cores_asked {
            self.cores = link.cores;
        }
        self.default_class = link.require_default()?;
        self.scheduler = link.info();
        self.tree = link.tree.clone();
        self.names = link.names.iter().map(str::to_owned).collect();
        self.matches.clone_from(&link.matches);
        self.overhead = link.overhead;
        self.longest_frame = link.longest_frame();
        self.gso = link.gso;
        self.memory_limit = link.memory_limit;
        self.link = Some(Arc::clone(link));
        Ok(())
    }

    /// Threads besides the data thread that receive and send.
    pub(crate) fn workers(&self) -> usize {
        if self.cores.is_one() { 0 } else { usize::from(self.cores.count) - 1 }
    }

    /// Time without a turn of the data thread after which workers forward by themselves. A thread that shares its
    /// processor loses it for some milliseconds now and then; packets that pass it meanwhile change their order. One that
    /// never sleeps has its processor alone.
    pub(crate) fn patience(&self) -> Nanos {
        let has_its_own = self.pacing == Pacing::Busy && self.processor != Processor::Any;
        let lost = || self.catch_up.unwrap_or(DEFAULT_CATCH_UP);
        let unasked = || if has_its_own { workers::PATIENCE } else { lost() };
        self.worker_patience.unwrap_or_else(unasked).max(workers::PATIENCE)
    }

    /// Prepares the classes for the workers, with the number of their generation; `None` without workers.
    pub(crate) fn sortings(&self, generation: u32) -> Option<Sortings> {
        let rules = (&self.matches[..], self.default_class);
        let lengths = (self.overhead, self.longest_frame);
        let workers = self.workers();
        (workers > 0).then(|| Sortings::new(workers, &self.tree, rules, lengths, generation))
    }

    /// Lengths on its link.
    pub(crate) fn lengths(&self) -> Lengths {
        let LinkConfig { rate, max_packet, .. } = self.tree.link();
        let piece = self.gso.longest_piece(rate, self.longest_frame).min(max_packet);
        Lengths { frame: self.longest_frame, piece }
    }

    /// Name of the link.
    #[must_use]
    pub fn link_name(&self) -> &str {
        self.link_name.as_deref().unwrap_or(&self.output)
    }

    /// Returns the name of `class`, or its number if it has none.
    pub(crate) fn name(&self, class: ClassId) -> String {
        self.names.get(class.index()).cloned().unwrap_or_else(|| class.0.to_string())
    }
}
