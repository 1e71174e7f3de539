//! A link: a scheduler, its pace, and what its classes are called.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::fmt;

use fairlink_core::{
    BuildError, ClassId, Counters, Driver, DropReason, DropSink, Framing, Members, Metered, MeteredChange,
    MeteredRetired, Nanos, Next, OutOfMemory, Pacer, Packet, ReconfigureError, Scheduler, Wake,
};
use fairlink_qdisc::{Config, Labels, ReadError};

use crate::{Facts, Stats, platform};

/// Bytes of a slot of the C side's table of packets.
const SLOT: u64 = 12;

/// Why there is no link.
#[derive(Debug)]
pub enum Failure {
    /// The bytes.
    Read(ReadError),
    /// The scheduler.
    Build(BuildError),
    /// It would take too much memory.
    Memory {
        /// Bytes that it would take.
        needs: u64,
        /// Bytes that it may take.
        limit: u64,
    },
    /// There is none.
    OutOfMemory(OutOfMemory),
    /// A class cannot go on as it was.
    Change(ReconfigureError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Build(error) => error.fmt(f),
            Self::Memory { needs, limit } => {
                write!(f, "needs {needs} B; the limit is {limit}: see memory_limit, buffer")
            }
            Self::OutOfMemory(error) => error.fmt(f),
            Self::Change(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// Whether it is for want of memory.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::Read(error) => error.is_out_of_memory(),
            Self::Build(BuildError::OutOfMemory { .. })
            | Self::Change(ReconfigureError::Build(BuildError::OutOfMemory { .. }))
            | Self::OutOfMemory(_) => true,
            Self::Build(_) | Self::Memory { .. } | Self::Change(_) => false,
        }
    }
}

impl From<OutOfMemory> for Failure {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

/// Hands drops and marks to the C side.
pub(crate) struct Sink(pub(crate) *mut c_void);

impl DropSink for Sink {
    fn dropped(&mut self, _: Nanos, packet: Packet, reason: DropReason) {
        platform::dropped(self.0, packet.handle, packet.len, packet.class.0, reason.index() as u32);
    }

    fn marked(&mut self, _: Nanos, packet: &Packet) {
        platform::marked(self.0, packet.handle);
    }
}

/// A box that may be refused.
fn boxed<T>(value: T) -> Result<Box<[T; 1]>, OutOfMemory> {
    let refused = || OutOfMemory { bytes: size_of::<T>() as u64 };
    let mut one = Vec::new();
    one.try_reserve_exact(1).map_err(|_| refused())?;
    one.push(value);
    <Box<[T; 1]>>::try_from(one.into_boxed_slice()).map_err(|_| refused())
}

/// Reads a configuration that fits into the memory that it may take.
fn read(bytes: &[u8], memory_limit: u64) -> Result<Config, Failure> {
    let config = Config::read(bytes).map_err(Failure::Read)?;
    let slots = SLOT.saturating_mul(packets(&config).into());
    let needs =
        config.scheduler.memory_for(&config.tree).saturating_add(Counters::memory(&config.tree)).saturating_add(slots);
    // What a scheduler says that could not even be planned for want of memory: more than any machine has.
    if needs > 1 << 62 {
        return Err(OutOfMemory { bytes: needs }.into());
    }
    if needs > memory_limit {
        return Err(Failure::Memory { needs, limit: memory_limit });
    }
    Ok(config)
}

/// Most packets that a link ever holds: those that are queued, those behind the scheduler, and one that arrives.
fn packets(config: &Config) -> u32 {
    let link = config.tree.link();
    link.max_queued.saturating_add(link.transmit_queue.map_or(0, |queue| queue.packets)).saturating_add(1)
}

fn facts(config: &Config) -> Facts {
    let any_active = config.tree.leaves().iter().any(|&leaf| config.tree.config(leaf).queue.is_active());
    Facts {
        packets: packets(config),
        classes: config.tree.len() as u32,
        max_packet: config.tree.link().max_packet,
        default_class: config.default.map_or(0, |class| class.0),
        active_queues: any_active.into(),
        overhead_bytes: config.overhead.bytes,
        overhead_min: config.overhead.min,
        framing: match config.overhead.framing {
            Framing::Plain => 0,
            Framing::Ptm => 1,
            Framing::Atm => 2,
        },
        reserved: 0,
        slack: config.slack.0,
    }
}

/// What the C side is told of a class.
pub(crate) struct Known<'a> {
    pub(crate) minor: u16,
    pub(crate) parent_minor: u16,
    pub(crate) leaf: bool,
    pub(crate) stats: Stats,
    pub(crate) name: &'a [u8],
    pub(crate) scheduler: &'static str,
}

/// A link that is shared.
pub struct Link {
    driver: Driver<Metered<Box<dyn Scheduler>>>,
    config: Config,
}

impl Link {
    /// The link that `bytes` describe.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn new(bytes: &[u8], memory_limit: u64) -> Result<Box<[Self; 1]>, Failure> {
        let config = read(bytes, memory_limit)?;
        let scheduler =
            config.scheduler.build(&config.tree, config.leniency, Members::new()).map_err(Failure::Build)?;
        let metered = Metered::new(scheduler, &config.tree)?;
        let driver = Driver::new(metered, Pacer::new(config.tree.link().rate, config.catch_up))?;
        Ok(boxed(Self { driver, config })?)
    }

    pub(crate) fn facts(&self) -> Facts {
        facts(&self.config)
    }

    pub(crate) fn enqueue(&mut self, now: Nanos, handle: u64, len: u32, class: ClassId, sink: &mut Sink) {
        self.driver.enqueue(now, Packet { handle, len, class }, sink);
    }

    /// The packet to send now, or when to ask again.
    pub(crate) fn dequeue(&mut self, now: Nanos, sink: &mut Sink) -> Result<Packet, Nanos> {
        match self.driver.next(now, sink) {
            Next::Packet { packet, .. } => Ok(packet),
            Next::Wait(Wake::At(at)) => Err(at),
            Next::Wait(Wake::OnArrival) => Err(Nanos::MAX),
        }
    }

    pub(crate) fn reset(&mut self, now: Nanos, sink: &mut Sink) {
        self.driver.scheduler_mut().purge(now, sink);
    }

    pub(crate) fn commit(&mut self, change: &mut Change, now: Nanos, sink: &mut Sink) {
        let Some(ready) = change.ready.take() else { return };
        change.retired = Some(self.driver.scheduler_mut().commit(ready, now, sink));
        core::mem::swap(&mut self.config, &mut change.config);
        // DIFFERENCE: the catch-up stays what it was made with; a pacer has no other way.
        self.driver.set_rate(self.config.tree.link().rate);
    }

    pub(crate) fn find(&self, minor: u16) -> Option<ClassId> {
        self.config.labels.class(minor)
    }

    pub(crate) fn about(&self, class: ClassId) -> Option<Known<'_>> {
        let Config { tree, labels, scheduler, .. } = &self.config;
        if class.index() >= tree.len() {
            return None;
        }
        let metered = self.driver.scheduler();
        let counters = if class == ClassId::ROOT { metered.total() } else { metered.counters(class) };
        let queued = if class == ClassId::ROOT { metered.backlog() } else { metered.class_backlog(class) };
        let mut lent_bytes = u64::MAX;
        metered.for_each_counter(class.index()..class.index() + 1, &mut |of, what, value| {
            if of == class && matches!(what, "borrowed_bytes" | "lent_bytes") {
                lent_bytes = value;
            }
        });
        let pair = |amount: fairlink_core::Amount| [amount.packets, amount.bytes];
        Some(Known {
            minor: labels.minor(class),
            parent_minor: tree.parent(class).map_or(0, |parent| labels.minor(parent)),
            leaf: tree.is_leaf(class),
            stats: Stats {
                rate: tree.rate_all_busy(class),
                received: pair(counters.received),
                sent: pair(counters.sent),
                dropped: pair(counters.dropped_total()),
                marked: pair(counters.marked),
                queued: pair(queued),
                lent_bytes,
            },
            name: labels.name(class),
            scheduler: scheduler.name,
        })
    }
}

/// What a link is to change to; afterwards, what it was.
pub struct Change {
    ready: Option<MeteredChange>,
    retired: Option<MeteredRetired>,
    config: Config,
}

impl Change {
    /// Makes what `link` is to change to. Classes with the minor number of an old one take over its packets.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn new(link: &Link, bytes: &[u8], memory_limit: u64) -> Result<Box<[Self; 1]>, Failure> {
        let config = read(bytes, memory_limit)?;
        let labels: &Labels = &link.config.labels;
        let survivors = labels.survivors(&config.labels, |_, new| config.tree.is_leaf(new))?;
        let change = fairlink_core::Change {
            scheduler: config.scheduler,
            tree: &config.tree,
            leniency: config.leniency,
            survivors: &survivors,
        };
        let ready = MeteredChange::prepare(&change, Members::new()).map_err(Failure::Change)?;
        Ok(boxed(Self { ready: Some(ready), retired: None, config })?)
    }

    pub(crate) fn facts(&self) -> Facts {
        facts(&self.config)
    }
}
