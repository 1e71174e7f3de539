//! Starting a gateway. Everything that can be checked is checked here, before a frame moves, and all memory is reserved.

use std::sync::Arc;

use fairlink_core::{Counters, Driver, Hierarchy, Members, Metered, Pacer};

use crate::gateway::account::{DelayTable, MAX_HISTOGRAMS, Passage, Snapshot};
use crate::gateway::config::{GatewayConfig, LongFrames, Processor};
use crate::gateway::liveness::Liveness;
use crate::gateway::open_error::OpenError;
use crate::gateway::ports::{self, Ports};
use crate::gateway::queue_lengths::QueueLengths;
use crate::gateway::reload::Present;
use crate::gateway::remote::Publisher;
use crate::gateway::run::{Gateway, RealPath};
use crate::gateway::stats::{EdgeCounters, MemoryBound};
use crate::io::af_packet::AfPacket;
use crate::io::clock::MonotonicClock;
use crate::io::frame_pool::{FramePool, HEADROOM};
use crate::io::interface::Interface;
use crate::io::pacing::DEFAULT_CATCH_UP;
use crate::io::sys;
use crate::wire::classify::Classifier;
use crate::wire::labels::Labels;

/// Copies of its counters that a gateway has at most, as far as their number is not that of those who read them.
pub(super) const SNAPSHOTS: usize = 4;

impl Gateway {
    /// Checks the configuration and the interfaces, opens both, and reserves all memory. Frames that arrive from now on wait
    /// in the kernel's buffers until [`Gateway::run`].
    ///
    /// # Errors
    /// [`OpenError`], each with what to do about it. Nothing is changed on the interfaces then.
    pub fn open(mut config: GatewayConfig) -> Result<Self, OpenError> {
        if config.input == config.output {
            return Err(OpenError::SameInterface { name: config.input });
        }
        check_classes(&config)?;
        let input = Interface::open(&config.input)?;
        let output = Interface::open(&config.output)?;
        let mut notes = Vec::new();
        ports::check([&input, &output], config.force, &mut notes)?;
        if input.mtu > output.mtu {
            notes.push(format!(
                "{} carries packets of up to {} B, {} only of {} B: longer ones are dropped as too long",
                input.name, input.mtu, output.name, output.mtu
            ));
        }
        fit_largest_packet(&mut config, &input, &mut notes)?;
        let frame_bytes = input.largest_frame().max(output.largest_frame()).saturating_add(HEADROOM as u32);
        let Needs { queued, frames, scheduler_bytes } = Needs::of(&config, frame_bytes)?;
        let scheduler = config.scheduler.build(&config.tree, config.leniency, Members::new())?;
        // What queues may need that are longer later on.
        let room = config.memory_limit / FramePool::memory(1, frame_bytes);
        let pool = FramePool::with_room(frames, u32::try_from(room).unwrap_or(u32::MAX), frame_bytes)?;
        let processor = pick(config.processor)?;

        let Ports { input: from, output: to, held } = Ports::open(&config, [&input, &output], &mut notes)?;
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
        let delays = DelayTable::new(&config.tree);
        let counters = EdgeCounters::new(delays.clone());
        let queues = QueueLengths::new(&config.tree);
        let without_delays = DelayTable::without(&config.tree);
        if without_delays > 0 {
            notes.push(format!(
                "delays are measured one by one for the first {MAX_HISTOGRAMS} leaves; those of the other {without_delays} count \
                 only in the link's"
            ));
        }
        let kernel = [&from, &to].map(AfPacket::kernel_buffer_bytes).map(|(a, b)| u64::from(a) + u64::from(b));
        let memory = MemoryBound {
            pool_frames: u64::from(frames),
            frame_bytes: pool.frame_bytes() as u64,
            pool_bytes: pool.memory_bytes() as u64,
            queue_packets: u64::from(queued),
            scheduler_bytes,
            classifier_bytes: classifier.memory_bytes() as u64,
            counters_bytes: (counters.memory_bytes()
                + queues.memory_bytes()
                + SNAPSHOTS * Snapshot::memory(&config.tree)) as u64
                + Counters::memory(&config.tree),
            split_bytes: (from.memory_bytes() + to.memory_bytes()) as u64,
            kernel_bytes: kernel.iter().sum(),
        };
        let catch_up = config.catch_up.unwrap_or(DEFAULT_CATCH_UP);
        let pacer = Pacer::new(config.tree.link().rate, catch_up);
        let driver = Driver::new(Metered::new(scheduler, &config.tree)?, pacer)?;
        let labels = Labels::new(&config.tree);
        let passage = Arc::new(Passage::of(&config, delays, memory, frames, 0));
        let present = Present::new(&config, input, &pool, Arc::clone(&passage), &labels);
        let data_path = RealPath::new(
            pool,
            from,
            to,
            MonotonicClock::start(),
            classifier,
            labels,
            config.overhead,
            counters,
            queues,
            config.reverse,
        );
        config.take_over = false;
        Ok(Self {
            liveness: Liveness::new(config.stall_after),
            config,
            driver,
            data_path,
            held,
            leaving: false,
            notes,
            processor,
            publisher: Publisher::of(present, passage),
        })
    }
}

impl GatewayConfig {
    /// Finds out what [`Gateway::open`] would refuse whatever the interfaces are: classes that are not leaves, a packet pool that is too
    /// small, too much memory, a tree that the scheduler refuses. `largest_frame` is the longest frame that the interfaces carry, in
    /// bytes.
    ///
    /// # Errors
    /// As [`Gateway::open`].
    pub fn check(&self, largest_frame: u32) -> Result<(), OpenError> {
        check_classes(self)?;
        Needs::of(self, largest_frame.saturating_add(HEADROOM as u32))?;
        self.scheduler.build(&self.tree, self.leniency, Members::new())?;
        Ok(())
    }
}

/// Frames belong to leaves.
pub(super) fn check_classes(config: &GatewayConfig) -> Result<(), OpenError> {
    let mut classes = config.matches.iter().map(|&(class, _)| class).chain([config.default_class]);
    match classes.find(|&class| !config.tree.is_leaf(class)) {
        Some(class) => Err(OpenError::NotALeaf { name: config.name(class) }),
        None => Ok(()),
    }
}

/// What a gateway takes at most.
pub(super) struct Needs {
    /// Packets in all queues.
    pub(super) queued: u32,
    /// Frames in the packet pool.
    pub(super) frames: u32,
    /// Of the scheduler.
    pub(super) scheduler_bytes: u64,
}

impl Needs {
    /// Those for frames that take `frame_bytes` in the pool.
    ///
    /// # Errors
    /// Where they are more than the pool, or all together, may be.
    pub(super) fn of(config: &GatewayConfig, frame_bytes: u32) -> Result<Self, OpenError> {
        let queued = most_queued(&config.tree);
        let needed = queued.saturating_add(RealPath::RESERVE);
        let frames = config.pool_frames.unwrap_or(needed);
        if frames < needed {
            return Err(OpenError::PoolTooSmall { frames, queued, needed });
        }
        let scheduler_bytes = config.scheduler.memory_for(&config.tree);
        let needed = scheduler_bytes.saturating_add(FramePool::memory(frames, frame_bytes));
        if needed > config.memory_limit {
            let (scheduler, limit) = (config.scheduler.name, config.memory_limit);
            return Err(OpenError::TooMuchMemory { scheduler, frames, needed, limit });
        }
        Ok(Self { queued, frames, scheduler_bytes })
    }
}

/// Raises the link's largest packet to the length of the input's frames, if they are longer and the policy allows it.
pub(super) fn fit_largest_packet(
    config: &mut GatewayConfig,
    input: &Interface,
    notes: &mut Vec<String>,
) -> Result<(), OpenError> {
    let untagged = config.overhead.accounted(input.untagged_frame());
    let limit = config.tree.link().max_packet;
    if untagged <= limit {
        return Ok(());
    }
    match config.long_frames {
        LongFrames::Accept => {
            let tagged = config.overhead.accounted(input.largest_frame());
            config.tree = config.tree.clone().with_max_packet(tagged)?;
            notes.push(format!(
                "{} carries frames of up to {} B, which with VLAN tags count up to {tagged} B on the link, more than the \
                 link file's largest of {limit} B; they are accepted, and bounds printed for {limit} B grow with them: \
                 set mtu = \"{}B\" to have those printed",
                input.name,
                input.untagged_frame(),
                input.largest_frame()
            ));
        }
        LongFrames::Drop => notes.push(format!(
            "{} carries frames of up to {} B; those that count more than {limit} B on the link are dropped as too long",
            input.name,
            input.untagged_frame()
        )),
    }
    Ok(())
}

/// Most packets that all queues together may hold, the one behind the scheduler included.
fn most_queued(tree: &Hierarchy) -> u32 {
    let limits: u64 = tree.leaves().iter().map(|&leaf| u64::from(tree.config(leaf).limits.packets)).sum();
    let behind = tree.link().transmit_queue.map_or(0, |queue| queue.packets);
    (limits.min(u64::from(tree.link().max_queued)) as u32).saturating_add(behind)
}

/// The processor to run on, checked.
fn pick(processor: Processor) -> Result<Option<usize>, OpenError> {
    match processor {
        Processor::Any => Ok(None),
        Processor::Last => Ok(sys::allowed_processors().last().copied()),
        Processor::BeforeLast(places) => {
            let allowed = sys::allowed_processors();
            Ok(allowed.iter().rev().cycle().nth(places % allowed.len().max(1)).copied())
        }
        Processor::Number(number) if sys::allowed_processors().contains(&number) => Ok(Some(number)),
        Processor::Number(processor) => {
            let source = std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                format!("this process may use {:?}", sys::allowed_processors()),
            );
            Err(OpenError::Processor { processor, source })
        }
    }
}
