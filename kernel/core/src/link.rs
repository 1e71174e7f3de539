//! A link: a scheduler, its pace, and the labels of its classes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::fmt;

use fairlink_core::{
    Amount, BuildError, ClassConfig, ClassId, Counters, Driver, DropReason, DropSink, Framing, Hierarchy, HostKey,
    HostTables, Members, Metered, MeteredChange, MeteredRetired, Nanos, Next, OutOfMemory, Pacer, Packet,
    ReconfigureError, Scheduler, Wake, with_host,
};
use fairlink_schema::qdisc::{Config, Labels, ReadError};

use crate::rates::{Rates, Sampled, guarantee};
use crate::{Call, Facts, Host, Stats, platform};

/// Bytes of a slot of the C side's table of packets.
const SLOT: u64 = 12;
/// Bytes of its tables of classes: for each number that tc has, and for each class.
const NUMBERS: u64 = 4 << 16;
const CLASS: u64 = 5;

/// The reason why there is no link.
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
    /// Not enough memory.
    OutOfMemory(OutOfMemory),
    /// A class cannot survive the change.
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
    /// Returns true if it is for want of memory.
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

/// Passes them on while packets move to other queues, which may need values that the previous queues did not.
struct Moving<'a> {
    sink: &'a mut Sink,
    hosts: &'a mut HostTables,
}

impl DropSink for Moving<'_> {
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        self.sink.dropped(now, packet, reason);
    }

    fn marked(&mut self, now: Nanos, packet: &Packet) {
        self.sink.marked(now, packet);
    }

    fn moved(&mut self, packet: &mut Packet) {
        let mut call = Call::of(u64::from(packet.handle as u32), packet.class);
        let mut host = Host::default();
        let has_host = platform::moved(self.sink.0, &mut call, &mut host);
        packet.handle = labelled(call.handle, packet.class, has_host.then_some(&host), self.hosts);
    }
}

/// Returns the handle of a packet of `class`, with the slot of its host if the class keeps hosts apart.
fn labelled(handle: u64, class: ClassId, host: Option<&Host>, hosts: &mut HostTables) -> u64 {
    match host.and_then(|host| Some((host, hosts.of(class)?))) {
        Some((host, table)) => with_host(handle, table.place(host.address, host.hash)),
        None => handle,
    }
}

/// Makes a box, unless there is not enough memory.
fn boxed<T>(value: T) -> Result<Box<[T; 1]>, OutOfMemory> {
    let refused = || OutOfMemory { bytes: size_of::<T>() as u64 };
    let mut one = Vec::new();
    one.try_reserve_exact(1).map_err(|_| refused())?;
    one.push(value);
    <Box<[T; 1]>>::try_from(one.into_boxed_slice()).map_err(|_| refused())
}

/// Memory that a link may take.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Most bytes.
    pub limit: u64,
    /// Slots of the C side's table that it has in any case, for packets that are queued.
    pub slots: u64,
}

/// Reads a configuration that fits into the memory that it may take.
fn read(bytes: &[u8], room: Room) -> Result<Config, Failure> {
    let config = Config::read(bytes).map_err(Failure::Read)?;
    platform::pause();
    let slots = SLOT.saturating_mul(room.slots.max(packets(&config).into()));
    let tables = NUMBERS + CLASS * config.tree.len() as u64;
    let counters = Counters::memory(&config.tree).saturating_add(Rates::memory(config.tree.len()));
    let known = counters.saturating_add(HostTables::memory(&config.tree));
    let needs =
        config.scheduler.memory_for(&config.tree).saturating_add(known).saturating_add(slots).saturating_add(tables);
    // The result of a scheduler that could not even be planned for lack of memory: more than any machine has.
    if needs > 1 << 62 {
        return Err(OutOfMemory { bytes: needs }.into());
    }
    platform::pause();
    if needs > room.limit {
        return Err(Failure::Memory { needs, limit: room.limit });
    }
    Ok(config)
}

/// Maximum number of packets that a link holds: queued ones, those behind the scheduler, and one that arrives.
fn packets(config: &Config) -> u32 {
    let link = config.tree.link();
    link.max_queued.saturating_add(link.transmit_queue.map_or(0, |queue| queue.packets)).saturating_add(1)
}

fn facts(config: &Config) -> Facts {
    let any = |is: fn(&ClassConfig) -> bool| config.tree.leaves().iter().any(|&leaf| is(config.tree.config(leaf)));
    Facts {
        packets: packets(config),
        classes: config.tree.len() as u32,
        max_packet: config.tree.link().max_packet,
        default_class: config.default.map_or(0, |class| class.0),
        active_queues: any(|leaf| leaf.queue.is_active()).into(),
        overhead_bytes: config.overhead.bytes,
        overhead_min: config.overhead.min,
        framing: match config.overhead.framing {
            Framing::Plain => 0,
            Framing::Ptm => 1,
            Framing::Atm => 2,
        },
        hosts: any(|leaf| leaf.hosts.is_some()).into(),
        slack: config.slack.0,
    }
}

/// Classes whose counters are added up in one call.
const ADDED_AT_ONCE: usize = 1024;

/// The data of a class beside its counters.
pub(crate) struct Known {
    pub(crate) minor: u16,
    pub(crate) parent_minor: u16,
    pub(crate) leaf: bool,
    pub(crate) sampled: Sampled,
    /// Bytes of the record that was written.
    pub(crate) record: usize,
}

/// A shared link: a configuration, which only a commit changes, and the running part. Calls with packets borrow the
/// second part and read the first. So the first may be read meanwhile, without the lock, by a thread that excludes
/// commits.
pub struct Link {
    pub(crate) config: Config,
    pub(crate) running: Running,
}

/// The part of a link that packets change.
pub(crate) struct Running {
    driver: Driver<Metered<Box<dyn Scheduler>>>,
    rates: Rates,
    hosts: HostTables,
    /// Number of changes.
    generation: u64,
}

impl Link {
    /// Makes the link that `bytes` describe.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn new(bytes: &[u8], room: Room) -> Result<Box<[Self; 1]>, Failure> {
        let config = read(bytes, room)?;
        let scheduler =
            config.scheduler.build(&config.tree, config.leniency, Members::new()).map_err(Failure::Build)?;
        platform::pause();
        let metered = Metered::new(scheduler, &config.tree)?;
        let rates = Rates::new(&config.tree)?;
        let hosts = HostTables::new(&config.tree)?;
        let driver = Driver::new(metered, Pacer::new(config.tree.link().rate, config.catch_up))?;
        Ok(boxed(Self { config, running: Running { driver, rates, hosts, generation: 0 } })?)
    }

    pub(crate) fn facts(&self) -> Facts {
        facts(&self.config)
    }

    pub(crate) fn commit(&mut self, change: &mut Change, now: Nanos, sink: &mut Sink) {
        let Self { config, running } = self;
        let Some(ready) = change.ready.take() else { return };
        core::mem::swap(&mut running.hosts, &mut change.hosts);
        running.hosts.inherit(&mut change.hosts, &change.went);
        let mut moving = Moving { sink, hosts: &mut running.hosts };
        change.retired = Some(running.driver.scheduler_mut().commit(ready, now, &mut moving));
        core::mem::swap(config, &mut change.config);
        core::mem::swap(&mut running.rates, &mut change.rates);
        running.rates.inherit(&change.rates, &change.went);
        running.generation += 1;
        running.driver.set_rate(config.tree.link().rate);
        running.driver.set_catch_up(config.catch_up);
    }
}

impl Running {
    /// Records that nothing was queued until now, even if the C side has not asked for packets.
    pub(crate) fn rested(&mut self, now: Nanos) {
        self.driver.rested(now);
    }

    /// Queues a packet, which is of `host` if its class keeps hosts apart.
    pub(crate) fn enqueue(
        &mut self,
        now: Nanos,
        Packet { handle, len, class }: Packet,
        host: Option<&Host>,
        sink: &mut Sink,
    ) {
        let handle = labelled(handle, class, host, &mut self.hosts);
        self.driver.enqueue(now, Packet { handle, len, class }, sink);
    }

    /// Returns the packet to send now, or the time of the next attempt.
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

    /// Samples the counters of some classes of `tree`. Returns true if there are more.
    pub(crate) fn sample(&mut self, now: Nanos, tree: &Hierarchy) -> bool {
        self.rates.sample(now, tree, self.driver.scheduler())
    }

    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the data of `class`, and writes its record to `place`.
    pub(crate) fn about(&self, config: &Config, class: ClassId, place: &mut [u8]) -> Option<Known> {
        let Config { tree, labels, .. } = config;
        if class.index() >= tree.len() {
            return None;
        }
        Some(Known {
            minor: labels.minor(class),
            parent_minor: tree.parent(class).map_or(0, |parent| labels.minor(parent)),
            leaf: tree.is_leaf(class),
            sampled: self.rates.told(class),
            record: config.write_record(class, place).unwrap_or(0),
        })
    }

    /// Adds up the counters of the leaves at and below `class`, from the class `from` on, a limited number per call.
    /// Returns the class to continue with.
    pub(crate) fn add_up(&self, tree: &Hierarchy, class: ClassId, from: ClassId, stats: &mut Stats) -> Option<ClassId> {
        let metered = self.driver.scheduler();
        stats.guarantee = guarantee(tree, class).bps();
        stats.lent_bytes = u64::MAX;
        metered.for_each_counter(class.index()..class.index() + 1, &mut |of, what, value| {
            if of == class && matches!(what, "borrowed_bytes" | "lent_bytes") {
                stats.lent_bytes = value;
            }
        });
        if class == ClassId::ROOT {
            // Including removed classes.
            stats.add(&metered.total(), metered.backlog());
            return None;
        }
        let mut at = from;
        for _ in 0..ADDED_AT_ONCE {
            if tree.is_leaf(at) {
                stats.add(&metered.counters(at), metered.class_backlog(at));
            }
            at = after(tree, class, at)?;
        }
        Some(at)
    }
}

/// Returns the class behind `at` among those at and below `top`, parents before children.
fn after(tree: &Hierarchy, top: ClassId, mut at: ClassId) -> Option<ClassId> {
    if let Some(&first) = tree.children(at).first() {
        return Some(first);
    }
    while at != top {
        let parent = tree.parent(at)?;
        // In the order of their numbers.
        let siblings = tree.children(parent);
        let next = siblings.binary_search(&at).map_or(siblings.len(), |place| place + 1);
        if let Some(&next) = siblings.get(next) {
            return Some(next);
        }
        at = parent;
    }
    None
}

/// Numbers of the classes, for the C side's tables.
pub(crate) struct Numbers<'a>(pub(crate) &'a Config);

impl Numbers<'_> {
    /// Writes the minor number of each class to `minors`, that of its parent to `parents`, and the key of its hosts to
    /// `hosts`. Writes the class to `classes` at that number, with `inner` added if it is not a leaf.
    pub(crate) fn write(
        &self,
        minors: &mut [u16],
        parents: &mut [u16],
        hosts: &mut [u8],
        classes: &mut [u32],
        inner: u32,
    ) {
        let Config { tree, labels, .. } = self.0;
        let places = minors.iter_mut().zip(parents).zip(hosts).skip(1);
        for (class, ((own, parent), hosts)) in tree.classes().zip(places) {
            *own = labels.minor(class);
            *parent = tree.parent(class).map_or(0, |parent| labels.minor(parent));
            *hosts = told_apart_by(tree, class);
            if let Some(of) = classes.get_mut(usize::from(*own)) {
                *of = class.0 | if tree.is_leaf(class) { 0 } else { inner };
            }
        }
    }
}

/// Key of a class's hosts in the numbering of the C side; 0 if they are not kept apart.
fn told_apart_by(tree: &Hierarchy, class: ClassId) -> u8 {
    match tree.config(class).hosts.filter(|_| tree.is_leaf(class)).map(|hosts| hosts.by) {
        None => 0,
        Some(HostKey::SourceIp) => 1,
        Some(HostKey::DestinationIp) => 2,
        Some(HostKey::SourceMac) => 3,
        Some(HostKey::DestinationMac) => 4,
        // A configuration that was read has none: it cannot be written.
        Some(HostKey::Flow) => 0,
    }
}

impl Stats {
    fn add(&mut self, counters: &Counters, queued: Amount) {
        let amounts = [
            (&mut self.received, counters.received),
            (&mut self.sent, counters.sent),
            (&mut self.dropped, counters.dropped_total()),
            (&mut self.marked, counters.marked),
            (&mut self.queued, queued),
        ];
        for ([packets, bytes], amount) in amounts {
            *packets += amount.packets;
            *bytes += amount.bytes;
        }
        self.too_long += counters.dropped_for(DropReason::TooLong).bytes;
    }
}

/// The new state of a link; after the commit, the old one.
pub struct Change {
    ready: Option<MeteredChange>,
    retired: Option<MeteredRetired>,
    config: Config,
    rates: Rates,
    hosts: HostTables,
    /// By old class, its new id.
    went: Box<[Option<ClassId>]>,
}

impl Change {
    /// Prepares the change of a link to this configuration. Classes with the minor number of an old one take over its
    /// packets.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) fn new(old: &Config, bytes: &[u8], room: Room) -> Result<Box<[Self; 1]>, Failure> {
        let config = read(bytes, room)?;
        let labels: &Labels = &old.labels;
        let survivors = labels.survivors(&config.labels, |_, new| config.tree.is_leaf(new))?;
        let change = fairlink_core::Change {
            scheduler: config.scheduler,
            tree: &config.tree,
            leniency: config.leniency,
            survivors: &survivors,
        };
        let ready = MeteredChange::prepare(&change, Members::new()).map_err(Failure::Change)?;
        let rates = Rates::new(&config.tree)?;
        let hosts = HostTables::new(&config.tree)?;
        let alike = |before, new| old.tree.is_leaf(before) == config.tree.is_leaf(new);
        let went = labels.survivors(&config.labels, alike)?;
        Ok(boxed(Self { ready: Some(ready), retired: None, config, rates, hosts, went })?)
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn facts(&self) -> Facts {
        facts(&self.config)
    }
}
