//! A link with several threads that schedule, the *hubs*, and other threads that receive and send.
//!
//! Each class directly below the link belongs to one hub at a time, with all leaves below it. A hub is a [`Worker`] of
//! a [`SharedTree`] behind rings: so hubs share only the virtual time of the link, and no two of them write the record
//! of another class. A packet goes from the thread that receives it into the ring of the hub that its class belongs to,
//! and from there into the ring of that hub to a thread that sends, by the hash of its flow. `docs/cores.md` has the
//! rule, the proofs and the costs.
//!
//! | part | thread | it has |
//! | --- | --- | --- |
//! | [`Receiver`] | one that receives | a ring to each hub, and its own list of the hubs of the classes |
//! | [`Hub`] | a hub | a [`Worker`], a [`HubPort`], a ring to each other hub |
//! | [`Transmitter`] | one that sends | a ring from each hub |
//! | [`Balancer`] | any | the packets of each class since it last looked |
//!
//! # A move
//! The balancer moves a class from one hub to another, one class at a time:
//!
//! 1. It announces the move. Each receiver pushes a note into its ring to the old hub, behind all packets of the class
//!    that it has pushed there, and pushes later ones to the new hub. The new hub *holds* them.
//! 2. When the old hub has the notes of all receivers, it has all packets of the class but those at the new hub. It
//!    takes the leaves of the class off, and waits until its transmit rings have been emptied up to where they end now.
//! 3. It hands the queued packets of the class to the new hub, leaf by leaf in their order, and a note behind them. The
//!    new hub queues them, and behind that note those that it has held.
//!
//! No packet is lost, doubled, or passed by a later one of its flow: `docs/cores.md` has the proof. No step waits for a
//! lock. Each thread has to call its part from time to time, also a receiver without packets ([`Receiver::poll`]): a
//! move waits for all receivers, for all threads that send, and for both hubs. Other classes wait for none of them.
//!
//! # Limits
//! * A full transmit ring stops its hub, as in [`HubPort`]; other hubs go on. A full receive ring refuses the packet,
//!   and so does a receiver that has no room for its note, for packets of the class that moves.
//! * The new hub holds [`HubsConfig::held`] packets. More of them are dropped, as
//!   [`TotalPackets`](crate::DropReason::TotalPackets).
//! * While a class moves, receive hashing must not move its flows from one receiver to another. [`FlowOrder`] knows
//!   only the packets of its own hub.
//! * The hubs poll; rings wake no thread.
//!
//! # Example
//! Two hubs, one thread that receives and one that sends, here in one.
//!
//! ```
//! use fairlink_core::{
//!     ClassConfig, ClassId, DropReason, Hierarchy, Hubs, HubsConfig, LinkConfig, Nanos, Packet, Rate, SharedConfig,
//!     SharedTree, flow_bits,
//! };
//!
//! let link = LinkConfig::new(Rate::from_bps(10_000_000_000)?);
//! let mut tree = Hierarchy::builder(link);
//! let classes = [tree.add(ClassId::ROOT, ClassConfig::default())?, tree.add(ClassId::ROOT, ClassConfig::default())?];
//! let shared = SharedTree::new(tree.build()?, SharedConfig::for_link(&link))?;
//! let drops = |_: usize| |_: Nanos, packet: Packet, why: DropReason| panic!("{packet:?}: {}", why.as_str());
//! let config = HubsConfig { hubs: 2, receivers: 1, transmitters: 1, ..HubsConfig::default() };
//! let Hubs { mut receivers, mut hubs, mut transmitters, mut balancer } =
//!     Hubs::new(&shared, config, Packet::flow, drops)?;
//!
//! // Both classes move to the first hub, while packets pass.
//! let (mut out, mut next, mut turn) = (Vec::with_capacity(64), [0, 0], 0);
//! while next != [1000, 1000] {
//!     for (flow, &class) in classes.iter().enumerate().filter(|_| turn < 1000) {
//!         let packet = Packet { handle: flow_bits(flow as u32) | turn, len: 1000, class };
//!         receivers[0].push(packet).expect("it has room");
//!     }
//!     if turn == 500 {
//!         balancer.start(classes[1], 0)?;
//!     }
//!     turn += 1;
//!     for hub in &mut hubs {
//!         let _ = hub.turn(Nanos::from_micros(2 * turn));
//!     }
//!     transmitters[0].take(&mut out);
//!     for packet in out.drain(..) {
//!         let flow = packet.flow() as usize;
//!         assert_eq!(packet.handle & 0xffff_ffff, next[flow], "in their order");
//!         next[flow] += 1;
//!     }
//! }
//! assert!(!balancer.is_moving() && balancer.home(classes[1]) == Some(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::contract::{ClassId, DropSink, Hierarchy, OutOfMemory, Packet};
use crate::parts::memory::{Queue, bytes_of, filled, room, slice};
use crate::runtime::driver::BATCH;
use crate::runtime::hub::{Consumer, FlowOrder, HubError, HubPort, Producer, ring};
use crate::runtime::shared::{SharedError, SharedTree, Worker};
use crate::runtime::split::MAX_CORES;

mod balance;
mod rings;
#[cfg(test)]
mod tests;
mod turn;

pub use balance::{Balancer, MoveError, homes, propose};
pub use rings::{Receiver, Transmitter};
pub use turn::Hub;

/// The threads and rings of a link with several hubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubsConfig {
    /// Number of hubs, 1 to [`MAX_CORES`].
    pub hubs: usize,
    /// Number of threads that receive, 1 to [`FlowOrder::MAX_RINGS`].
    pub receivers: usize,
    /// Number of threads that send, 1 to [`FlowOrder::MAX_RINGS`].
    pub transmitters: usize,
    /// Packets that a ring has room for, at least 1. There is a ring from each receiver to each hub, from each hub to
    /// each thread that sends, and from each hub to each other one.
    pub ring: usize,
    /// Packets of a class that moves, for which its new hub has room until the old one has handed over its own.
    pub held: usize,
}

impl Default for HubsConfig {
    /// One thread of each kind, rings for 256 packets, and room for 4,096 that are held.
    fn default() -> Self {
        Self { hubs: 1, receivers: 1, transmitters: 1, ring: 256, held: 4096 }
    }
}

/// The reason for which hubs cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubsError {
    /// No hub, or too many.
    Hubs {
        /// Number of hubs.
        count: usize,
        /// Most hubs.
        max: usize,
    },
    /// Rings for no packet.
    NoRoom,
    /// The rings of a hub cannot be made.
    Rings(HubError),
    /// A worker of the tree cannot be made.
    Shared(SharedError),
}

impl fmt::Display for HubsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hubs { count, max } => write!(f, "{count} hubs; a link has 1 to {max}"),
            Self::NoRoom => write!(f, "a ring has no room for a packet; it needs room for at least 1"),
            Self::Rings(error) => error.fmt(f),
            Self::Shared(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for HubsError {}

impl From<HubError> for HubsError {
    fn from(error: HubError) -> Self {
        Self::Rings(error)
    }
}

impl From<SharedError> for HubsError {
    fn from(error: SharedError) -> Self {
        Self::Shared(error)
    }
}

impl From<OutOfMemory> for HubsError {
    fn from(error: OutOfMemory) -> Self {
        Self::Rings(error.into())
    }
}

/// The parts of a link with several hubs, each for a thread.
#[derive(Debug)]
pub struct Hubs<H, D> {
    /// One for each thread that receives.
    pub receivers: Vec<Receiver>,
    /// One for each thread that schedules.
    pub hubs: Vec<Hub<H, D>>,
    /// One for each thread that sends.
    pub transmitters: Vec<Transmitter>,
    /// Moves classes.
    pub balancer: Balancer,
}

impl<H: Fn(&Packet) -> u32 + Clone, D: DropSink> Hubs<H, D> {
    /// Makes the parts for a shared tree without workers. `hash` returns the hash of a packet's flow, as of
    /// [`HubPort`]; `drops` makes the sink of a hub. Classes begin at the hubs that [`homes`] gives them.
    ///
    /// # Errors
    /// [`HubsError`].
    pub fn new(
        shared: &Arc<SharedTree>,
        config: HubsConfig,
        hash: H,
        mut drops: impl FnMut(usize) -> D,
    ) -> Result<Self, HubsError> {
        let max = usize::from(MAX_CORES);
        if !(1..=max).contains(&config.hubs) {
            return Err(HubsError::Hubs { count: config.hubs, max });
        }
        for count in [config.receivers, config.transmitters] {
            if !(1..=FlowOrder::MAX_RINGS).contains(&count) {
                return Err(HubError::Rings { count, max: FlowOrder::MAX_RINGS }.into());
            }
        }
        if config.ring == 0 {
            return Err(HubsError::NoRoom);
        }
        let plan = Arc::new(Plan::new(shared.hierarchy(), config)?);
        let home = homes(shared.hierarchy(), config.hubs)?;
        let (to_hubs, from_receivers) = crossed(config.receivers, config.hubs, config.ring)?;
        let (to_senders, from_hubs) = crossed(config.hubs, config.transmitters, config.ring)?;
        let (to_others, from_others) = crossed(config.hubs, config.hubs, config.ring)?;
        let mut hubs = room(config.hubs)?;
        let rings = from_receivers.into_iter().zip(to_senders).zip(to_others.into_iter().zip(from_others));
        for (index, ((receive, transmit), others)) in rings.enumerate() {
            let port = HubPort::new(receive, transmit, hash.clone(), drops(index))?;
            hubs.push(Hub::new(&plan, (index, shared.worker()?), port, others, (&home, config.held))?);
        }
        let mut receivers = room(config.receivers)?;
        for rings in to_hubs {
            receivers.push(Receiver::new(&plan, rings, &home)?);
        }
        let mut transmitters = room(config.transmitters)?;
        transmitters.extend(from_hubs.into_iter().map(Transmitter::new));
        Ok(Self { receivers, hubs, transmitters, balancer: Balancer::new(&plan, home)? })
    }

    /// Upper bound, in bytes, of the memory that [`Hubs::new`] uses for `tree` and keeps, without that of the shared
    /// tree.
    #[must_use]
    pub fn memory_for(tree: &Hierarchy, config: HubsConfig) -> u64 {
        let HubsConfig { hubs, receivers, transmitters, ring, held } = config;
        let tops = tree.children(ClassId::ROOT).len();
        let rings = hubs * (receivers + transmitters + hubs);
        // A ring is its packets, and two indices on cache lines of their own.
        let by_ring = bytes_of::<Packet>(ring) + 1024;
        let by_hub = Worker::memory_for(tree)
            + FlowOrder::GROUPS as u64
            + bytes_of::<Packet>(held + BATCH * (1 + transmitters))
            + bytes_of::<u64>(2 * tops)
            + 1024;
        let plan = bytes_of::<u32>(2 * tree.len() + tops + 1) + bytes_of::<ClassId>(tree.len());
        let others = bytes_of::<u64>((receivers + 4) * (tops + hubs));
        rings as u64 * by_ring + hubs as u64 * by_hub + plan + others
    }
}

/// The producers of each of several users, and the consumers of each of several others.
type Crossed = (Vec<Vec<Producer<Packet>>>, Vec<Vec<Consumer<Packet>>>);

/// Makes a ring from each of `from` producers to each of `to` consumers.
fn crossed(from: usize, to: usize, slots: usize) -> Result<Crossed, OutOfMemory> {
    let (mut producers, mut consumers) = (room(from)?, room(to)?);
    for _ in 0..to {
        consumers.push(room(from)?);
    }
    for _ in 0..from {
        let mut row = room(to)?;
        for column in &mut consumers {
            let (producer, consumer) = ring(slots);
            row.push(producer);
            column.push(consumer);
        }
        producers.push(row);
    }
    Ok((producers, consumers))
}

/// No class directly below the link.
const NONE: u32 = u32::MAX;

/// All that the parts share: which class is where in the tree, the move that runs, and counts.
#[derive(Debug)]
struct Plan {
    /// By class: the number of the class directly below the link that it is or is below; [`NONE`] of the link.
    top_of: Box<[u32]>,
    /// The classes directly below the link, by number.
    tops: Box<[ClassId]>,
    /// The leaves, by the number of their class, and where those of a number begin.
    leaves: Box<[ClassId]>,
    first: Box<[u32]>,
    /// Packets that each hub has taken from its rings, by number of the class. One thread writes those of a hub.
    taken: Box<[Box<[AtomicU64]>]>,
    moves: Moves,
    receivers: usize,
}

/// The moves. Their number orders the other fields: they do not change until `done` has reached it.
#[derive(Debug)]
#[repr(align(128))]
struct Moves {
    /// Moves announced so far.
    announced: AtomicU64,
    /// Of the last one: the class and its new hub.
    top: AtomicU32,
    to: AtomicU32,
    /// Moves ended so far.
    done: AtomicU64,
}

impl Plan {
    fn new(tree: &Hierarchy, config: HubsConfig) -> Result<Self, OutOfMemory> {
        let mut top_of = filled(tree.len(), NONE)?;
        let tops = tree.children(ClassId::ROOT);
        for (number, class) in tops.iter().enumerate() {
            top_of[class.index()] = number as u32;
        }
        // Parents come before their children.
        for class in tree.classes() {
            if let Some(parent) = tree.parent(class).filter(|&parent| parent != ClassId::ROOT) {
                top_of[class.index()] = top_of[parent.index()];
            }
        }
        let mut first = filled(tops.len() + 1, 0u32)?;
        for leaf in tree.leaves() {
            first[top_of[leaf.index()] as usize + 1] += 1;
        }
        for number in 0..tops.len() {
            first[number + 1] += first[number];
        }
        let mut next = slice(tops.len(), |number| first[number])?;
        let mut leaves = filled(tree.leaves().len(), ClassId::ROOT)?;
        // In the order of their numbers.
        for class in tree.classes().filter(|&class| tree.is_leaf(class)) {
            let at = &mut next[top_of[class.index()] as usize];
            leaves[*at as usize] = class;
            *at += 1;
        }
        let mut taken = room(config.hubs)?;
        for _ in 0..config.hubs {
            taken.push(slice(tops.len(), |_| AtomicU64::new(0))?);
        }
        Ok(Self {
            top_of,
            tops: slice(tops.len(), |number| tops[number])?,
            leaves,
            first,
            taken: taken.into_boxed_slice(),
            moves: Moves {
                announced: AtomicU64::new(0),
                top: AtomicU32::new(0),
                to: AtomicU32::new(0),
                done: AtomicU64::new(0),
            },
            receivers: config.receivers,
        })
    }

    /// Returns the number of the class directly below the link that `class` belongs to.
    #[inline(always)]
    fn top(&self, class: ClassId) -> Option<u32> {
        self.top_of.get(class.index()).copied().filter(|&top| top != NONE)
    }

    /// Returns the leaves of the class with this number.
    fn leaves(&self, top: u32) -> &[ClassId] {
        &self.leaves[self.first[top as usize] as usize..self.first[top as usize + 1] as usize]
    }

    /// Returns the class that moves and its new hub, if `seen` moves have been seen and another was announced.
    #[inline(always)]
    fn move_after(&self, seen: u64) -> Option<(u32, u32)> {
        // `Acquire`: the other fields are those of this move.
        let is_new = self.moves.announced.load(Ordering::Acquire) != seen;
        is_new.then(|| (self.moves.top.load(Ordering::Relaxed), self.moves.to.load(Ordering::Relaxed)))
    }
}

/// A queue of packets with a limit.
type Held = Queue<Packet>;
