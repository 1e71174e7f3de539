//! Starts a gateway. All checks are made here, before a frame moves, and all memory is reserved.

use std::sync::Arc;

use fairlink_config::matching::Classifier;
use fairlink_core::{Cores, Driver, Members, Metered, Pacer, Split};

use crate::gateway::account::{DelayTable, Generation, MAX_HISTOGRAMS};
use crate::gateway::choice::Choice;
use crate::gateway::claim;
use crate::gateway::config::{GatewayConfig, Processor};
use crate::gateway::data_path::RealPath;
use crate::gateway::early::{Early, OLDER};
use crate::gateway::fail_open::keep::Keeper;
use crate::gateway::liveness::Liveness;
use crate::gateway::needs::{Needs, check_classes, fit_largest_packet, fit_pieces, has_room};
use crate::gateway::open_error::OpenError;
use crate::gateway::ports::{Looked, Ports, WhyNot, Within};
use crate::gateway::queue_lengths::QueueLengths;
use crate::gateway::reload::RunningConfig;
use crate::gateway::remote::Publisher;
use crate::gateway::run::Gateway;
use crate::gateway::splitter::Splitter;
use crate::gateway::stats::{EdgeCounters, MemoryBound};
use crate::gateway::workers::{Desk, DeskEnd, Sortings};
use crate::io::af_xdp::Fit;
use crate::io::backend::BackendKind;
use crate::io::bpf::BpfError;
use crate::io::clock::MonotonicClock;
use crate::io::frame_pool::{FramePool, HEADROOM};
use crate::io::hub::MOST_UNSETTLED;
use crate::io::interface::Interface;
use crate::io::pacing::DEFAULT_CATCH_UP;
use crate::io::packet_ring::SLOT_ALIGNMENT;
use crate::io::port::Footprint;
use crate::io::sys;
use crate::wire::labels::Labels;

impl Gateway {
    /// Checks the configuration and the interfaces, opens both, and reserves all memory. Frames that arrive from now on
    /// wait in the kernel's buffers until [`Gateway::run`].
    ///
    /// # Errors
    /// [`OpenError`], each with the action to take. Nothing is changed on the interfaces then.
    pub fn open(mut config: GatewayConfig) -> Result<Self, OpenError> {
        let mut notes = Vec::new();
        let looked = examine(&mut config, &mut notes)?;
        let input = looked.input.clone();
        let clock = MonotonicClock::start();
        let (members, _) = config.pools.members(config.link.as_deref(), &config.tree, &clock, true)?;
        let scheduler = config.scheduler.build(&config.tree, config.leniency, members)?;
        let processor = pick(config.processor)?;
        let mut choice = Choice::of(&config, [&looked.input, &looked.output], &mut notes);
        let workers = config.workers();
        let desk = (workers > 0).then(|| Desk::new(workers, config.patience()));
        let within = Within { clock, desk: desk.clone() };
        let Opened { footprint, needs, pool, ports, early } =
            Opened::ports(&config, &mut choice, looked, &within, &mut notes)?;
        let mut sortings = config.sortings(0);
        let Ports { input: from, output: to, held } = ports;

        let classifier = Classifier::new(&config.matches, config.default_class);
        let delays = DelayTable::new(&config.tree);
        let counters = EdgeCounters::new(delays.clone());
        let queues = QueueLengths::new(&config.tree, config.longest_frame);
        let splitter = Splitter::new(config.tree.len());
        // The other direction has one, too, with a single class.
        let splitters = if config.reverse { 2 } else { 1 };
        let without_delays = DelayTable::without(&config.tree);
        if without_delays > 0 {
            notes.push(format!(
                "only the first {MAX_HISTOGRAMS} leaves have their own delay histogram; delays of the other {without_delays} count only in the link's"
            ));
        }
        let counted = counters.memory_bytes() + queues.memory_bytes();
        let labels = Labels::new(&config.tree)?;
        let memory = MemoryBound {
            classifier_bytes: (classifier.memory_bytes()
                + labels.memory_bytes()
                + sortings.as_ref().map_or(0, Sortings::memory_bytes)) as u64,
            split_bytes: (from.memory_bytes() + to.memory_bytes() + splitters * splitter.memory_bytes()) as u64,
            kernel_bytes: from.kernel_bytes() + to.kernel_bytes() + early.as_ref().map_or(0, |_| Early::KERNEL_BYTES),
            ..needs.bound(&config.tree, pool.frame_bytes() as u32, counted)
        };
        let catch_up = config.catch_up.unwrap_or(DEFAULT_CATCH_UP);
        let pacer = Pacer::new(config.tree.link().rate, catch_up);
        let driver = Driver::new(Metered::new(scheduler, &config.tree)?, pacer)?;
        let generation = Arc::new(Generation::new(&config, delays, memory, needs.frames, 0));
        let present = RunningConfig::new(&config, input, footprint, &pool, Arc::clone(&generation), &labels, clock);
        let mut data_path = RealPath::new(
            pool,
            from,
            to,
            clock,
            classifier,
            labels,
            config.overhead,
            config.lengths(),
            counters,
            queues,
            splitter,
            config.reverse,
        );
        if config.profile {
            data_path.sample_every = 1;
        }
        data_path.expect_under_way(workers * MOST_UNSETTLED);
        data_path.desk = desk.zip(sortings.as_mut()).map(|(desk, sortings)| DeskEnd::new(desk, sortings));
        // Without a ring the kernel counts bytes, and more frames than this fit.
        let room = data_path.input.ring_slots().unwrap_or(1024);
        let drops = |early: &Early| {
            if let Some(end) = &data_path.desk {
                end.desk.relieve_by(early.relief()?);
            }
            early.drops(config.tree.len(), &config.overhead, room)
        };
        match early.as_ref().map(drops) {
            Some(Ok(drops)) => data_path.early = Some(drops),
            Some(Err(error)) => notes.push(not_early(&error)),
            None => {}
        }
        config.take_over = false;
        let keeper = Keeper::default();
        if let Some(hold) = &held.hold {
            hold.keep_by(&keeper);
        }
        Ok(Self {
            keeper,
            liveness: Liveness::new(config.stall_after),
            config,
            footprint,
            choice,
            driver,
            data_path,
            held,
            early,
            leaving: false,
            notes,
            processor,
            publisher: Publisher::from_config(present, generation),
        })
    }
}

/// Memory for opening that does not grow with the classes: buffers for super-frames, rings and maps shared with the kernel,
/// the classifier, threads.
const BESIDE: u64 = 40 << 20;

/// Makes all checks that are possible before anything is opened.
fn examine(config: &mut GatewayConfig, notes: &mut Vec<String>) -> Result<Looked, OpenError> {
    if config.input == config.output {
        return Err(OpenError::SameInterface { name: config.input.clone() });
    }
    check_classes(config)?;
    check_cores(config, notes)?;
    let looked = Looked::up(config)?;
    looked.check(config.force, notes)?;
    let (input, output) = (&looked.input, &looked.output);
    if input.mtu > output.mtu {
        notes.push(format!(
            "{} carries packets of up to {} B, {} only of {} B: longer ones are dropped as too long",
            input.name, input.mtu, output.name, output.mtu
        ));
    }
    fit_largest_packet(config, input, notes)?;
    fit_pieces(config)?;
    // Check before the scheduler allocates. Other backends need more, and fall back to packet sockets if that is too
    // much.
    let footprint = Footprint::of_packet_sockets(frame_bytes([input, output])).with_workers(config.workers());
    let needs = Needs::for_config(config, footprint)?;
    has_room(needs.to_prepare(&config.tree) + BESIDE)?;
    Ok(looked)
}

/// Checks for errors of [`Gateway::open`] without opening anything. Interfaces in `ours` are already claimed by this
/// process.
///
/// # Errors
/// As [`Gateway::open`].
pub(super) fn probe(mut config: GatewayConfig, ours: &[String]) -> Result<(), OpenError> {
    let mut notes = Vec::new();
    let Looked { input, output, .. } = &examine(&mut config, &mut notes)?;
    config.scheduler.build(&config.tree, config.leniency, Members::new())?;
    let mut receiving = vec![input];
    receiving.extend(config.reverse.then_some(output));
    receiving.retain(|interface| !ours.contains(&interface.name));
    claim::claim(&receiving, config.force, &mut notes)?;
    pick(config.processor).map(|_| ())
}

/// Open interfaces, and the pool for their frames.
struct Opened {
    footprint: Footprint,
    needs: Needs,
    pool: FramePool,
    ports: Ports,
    /// Loaded if the kernel allows it.
    early: Option<Early>,
}

/// Why the kernel does not drop by class.
fn not_early(error: &BpfError) -> String {
    format!(
        "if frames arrive faster than they are fetched, the kernel drops frames of all classes alike, because it has no program that drops by class: {}",
        error.explain(OLDER)
    )
}

impl Opened {
    /// Opens the ports with the chosen backend, or with packet sockets and a note if that is impossible.
    fn ports(
        config: &GatewayConfig,
        choice: &mut Choice,
        looked: Looked,
        within: &Within,
        notes: &mut Vec<String>,
    ) -> Result<Self, OpenError> {
        if choice.backend == BackendKind::AfXdp {
            let noted = notes.len();
            match Self::with_af_xdp(config, choice, [&looked.input, &looked.output], within, notes) {
                Ok(opened) => return Ok(opened),
                Err(WhyNot::Refused(error)) => return Err(error),
                Err(WhyNot::Unfit(why)) => {
                    notes.truncate(noted);
                    notes.push(format!("falls back to AF_PACKET: {why}"));
                    choice.reason = None;
                }
            }
        }
        Self::with_packet_sockets(config, looked, within, notes)
    }

    fn with_af_xdp(
        config: &GatewayConfig,
        choice: &Choice,
        interfaces: [&Interface; 2],
        within: &Within,
        notes: &mut Vec<String>,
    ) -> Result<Self, WhyNot> {
        let unfit = |error: OpenError| WhyNot::Unfit(error.to_string());
        let workers = config.workers();
        let fit = Fit::of(interfaces, config.reverse, workers)?;
        let footprint = Footprint::of_af_xdp(&fit).with_workers(workers);
        let needs = Needs::for_config(config, footprint).map_err(unfit)?;
        // The whole pool is registered with the kernel, and registered memory cannot grow.
        let mut pool = FramePool::new(needs.frames, fit.frame_bytes).map_err(|error| unfit(error.into()))?;
        // Its filter is for packet sockets, if an interface that comes back cannot use AF_XDP.
        let early = load_early(config, |early| early.try_in_driver().map(drop), notes);
        let with = (&mut pool, within);
        let ports = Ports::open_xdp(config, interfaces, (fit, choice.modes), with, early.as_ref(), notes)?;
        Ok(Self { footprint, needs, pool, ports, early })
    }

    fn with_packet_sockets(
        config: &GatewayConfig,
        looked: Looked,
        within: &Within,
        notes: &mut Vec<String>,
    ) -> Result<Self, OpenError> {
        let frame_bytes = frame_bytes([&looked.input, &looked.output]);
        let footprint = Footprint::of_packet_sockets(frame_bytes).with_workers(config.workers());
        let needs = Needs::for_config(config, footprint)?;
        // Room for longer queues after a reload.
        let room = config.memory_limit / FramePool::memory(1, frame_bytes);
        let pool = FramePool::with_room(needs.frames, u32::try_from(room).unwrap_or(u32::MAX), frame_bytes)?;
        let early = load_early(config, |_| Ok(()), notes);
        let ports = Ports::open(config, early.as_ref(), looked, (&pool, within), notes)?;
        Ok(Self { footprint, needs, pool, ports, early })
    }
}

/// Loads the program that drops by class, and checks it with `check`; a failure is a note.
fn load_early(
    config: &GatewayConfig,
    check: impl FnOnce(&Early) -> Result<(), BpfError>,
    notes: &mut Vec<String>,
) -> Option<Early> {
    if !config.shed_in_kernel {
        return None;
    }
    let loaded = Early::load().and_then(|early| check(&early).map(|()| early));
    loaded.map_err(|error| notes.push(not_early(&error))).ok()
}

/// Size of the pool's frames for packet sockets.
fn frame_bytes(interfaces: [&Interface; 2]) -> u32 {
    let longest = interfaces.map(Interface::largest_frame).into_iter().max().unwrap_or(0);
    // A slot of a receive ring may have room for a few bytes more, by its alignment; they fit here, too.
    longest.saturating_add((HEADROOM + SLOT_ALIGNMENT) as u32)
}

/// Several cores share a link by a hub, and each has a processor, unless the user insists.
fn check_cores(config: &GatewayConfig, notes: &mut Vec<String>) -> Result<(), OpenError> {
    let Cores { count: cores, split, .. } = config.cores;
    let link = config.link_name().to_owned();
    let refuse = |why| Err(OpenError::Split { link: link.clone(), cores, split: split.name(), why });
    if config.cores.is_one() {
        return Ok(());
    }
    if split != Split::Hub {
        return refuse("a gateway shares a link among cores by a hub; write split = \"hub\"");
    }
    if config.cores.has_hubs() {
        return refuse("a gateway has 1 hub; remove hubs and --hubs; `fairlink sim` models several");
    }
    let processors = sys::allowed_processors();
    if usize::from(cores) <= processors.len() {
        return Ok(());
    }
    match (OpenError::Cores { link, cores, processors }, config.force) {
        (error, true) => notes.push(format!("as you wish (--force): {error}")),
        (error, false) => return Err(error),
    }
    Ok(())
}

impl GatewayConfig {
    /// Processors of the workers: all that the process may use but that of the data thread. None if threads run anywhere.
    pub(super) fn processors_of_workers(&self) -> Vec<usize> {
        let Ok(Some(own)) = pick(self.processor) else { return Vec::new() };
        sys::allowed_processors().into_iter().rev().filter(|&processor| processor != own).collect()
    }
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
