//! One link whose tree of classes several cores share, without a scheduler that all of them enter.
//!
//! Each core has a [`Worker`] with leaf queues of its own. The classes' virtual times are shared: the leaves that are
//! on get their fair shares as time passes, and a worker sends from its own leaves what they have got. `docs/cores.md`
//! has the algorithm, the theorems and their proofs.
//!
//! # Names
//!
//! | docs/cores.md | here | unit |
//! | --- | --- | --- |
//! | R | `Pace::given` | byte |
//! | V_a, P0, W_a | `Record::v`, `parent`, `weight` | 2^-56 byte per weight |
//! | I_a, what is not distributed; -I_a is owed | `Record::pending` | 2^-56 byte |
//! | w_c | `Child::weight` | |
//! | S_c = base + sent / w_c | `Child::base`, `sent` | 2^-56 byte per weight, byte |
//!
//! # Choices
//!
//! * W adds up the weights of the children that are *on*, and a child that goes off gives back what it has. With the
//!   weights of all children, as in [`hvt`](crate::schedulers::hvt), the clock of a class would have to jump over what
//!   idle children do not use. Someone would have to know when no child is left that may send: a queue of all children,
//!   shared by all cores.
//! * Virtual times never fall. A packet out of turn makes its class owe, and a class that owes stands still. If virtual
//!   times fell, a leaf that is alone at a bad time would pay for all its siblings, again and again.
//! * Tags are kept as bytes since a virtual time. So weights are exact, nothing is divided per packet, and a leaf that
//!   is on writes one number.
//!
//! Latency-critical leaves are not supported: see [`SharedError::Unsupported`].
//!
//! # Example
//! Two cores share a link of 8 Mbit/s. The classes have weights of 1 and 3.
//!
//! ```
//! use fairlink_core::{
//!     BatchEnd, ClassConfig, ClassId, DropReason, Hierarchy, LinkConfig, Nanos, Packet, Rate, Scheduler, Share,
//!     SharedConfig, SharedTree,
//! };
//!
//! let link = LinkConfig::new(Rate::from_bps(8_000_000)?);
//! let mut tree = Hierarchy::builder(link);
//! let mut leaf = |weight| tree.add(ClassId::ROOT, ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() });
//! let leaves = [leaf(1)?, leaf(3)?];
//! let shared = SharedTree::new(tree.build()?, SharedConfig::for_link(&link))?;
//! let mut workers = [shared.worker()?, shared.worker()?];
//! let mut drops = |_, packet: Packet, why: DropReason| panic!("{packet:?}: {}", why.as_str());
//! for (worker, &class) in workers.iter_mut().zip(&leaves) {
//!     (0..1000).for_each(|handle| worker.enqueue(Nanos::ZERO, Packet { handle, len: 1000, class }, &mut drops));
//! }
//! // A second, in which the link carries 1000 packets. Each core looks every millisecond.
//! let mut sent = [0, 0];
//! for ms in 0..1000 {
//!     for (core, worker) in workers.iter_mut().enumerate() {
//!         let mut out = Vec::with_capacity(32);
//!         let _ = worker.dequeue_batch(Nanos::from_millis(ms), 32, u64::MAX, &mut out, &mut drops);
//!         sent[core] += out.len();
//!     }
//! }
//! assert!((245..=260).contains(&sent[0]) && (740..=770).contains(&sent[1]), "{sent:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use alloc::sync::Arc;
use core::fmt;

use crate::contract::{ClassId, Feature, Hierarchy, LinkConfig, Nanos, OutOfMemory};
use crate::parts::memory::{bytes_of, room};

mod atomics;
mod ceilings;
#[cfg(feature = "invariants")]
mod check;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod node;
mod pace;
mod passes;
mod record;
mod ring;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod tree;
mod worker;

use ceilings::Ceilings;
use pace::Pace;
use tree::Classes;
pub use worker::Worker;

/// The limits of a [`SharedTree`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedConfig {
    /// Bytes that should stand in the network interface while packets are queued. Below it, a worker that has packets
    /// without credit makes time pass three times as fast, and below half of it as fast as needed. Above it, time
    /// passes by an eighth slower. It should be at least what the link carries between two calls of a worker: else the
    /// link stands still in between. More of it adds to all delays.
    pub mark: u64,
    /// The credit that all classes together may have. More of it lets a core catch up after a delay, and adds to the
    /// bursts on the wire.
    pub credit: u64,
    /// The credit that one leaf may have when its worker looks at it; the rest is dropped, and others use the link
    /// meanwhile. With little of it, the leaves of a core that has lost its processor lose the share of that time. With
    /// more of it they catch up afterwards, and as much stands in the interface at once.
    pub stored: u64,
    /// Bytes that a class may owe for packets that leave out of turn, beyond one packet of each child. A leaf within
    /// its fair share, of which several packets come between two calls, sends them at once with it. Without it, such a
    /// leaf takes its place among its siblings at each call, which costs a lock, and holds its share until the next.
    /// More of it lets siblings wait for longer. It may be 0.
    pub ahead: u64,
}

impl SharedConfig {
    /// Returns the defaults: 20 us of the link as `mark`, 50 us as `credit` and as `stored`, 2.5 us as `ahead`, and at
    /// least 4, 8, 8 and 4 largest packets. A core that polls has its next pass within 20 us. A leaf that is late by 50
    /// us is late because its core has no processor: what it could catch up with would delay all others.
    #[must_use]
    pub fn for_link(link: &LinkConfig) -> Self {
        let of = |nanos, packets| link.rate.bytes_in(Nanos(nanos)).max(packets * u64::from(link.max_packet));
        Self { mark: of(20_000, 4), credit: of(50_000, 8), stored: of(50_000, 8), ahead: of(2_500, 4) }
    }

    /// Returns the limits for workers with up to `pass` from one pass to the next: the defaults, and as `mark` at least what
    /// the link carries in two passes, as `credit` and as `stored` in five.
    #[must_use]
    pub fn for_passes(link: &LinkConfig, pass: Nanos) -> Self {
        let Self { mark, credit, stored, ahead } = Self::for_link(link);
        let least = |passes: u64| link.rate.bytes_in(Nanos(pass.0.saturating_mul(passes)));
        Self { mark: mark.max(least(2)), credit: credit.max(least(5)), stored: stored.max(least(5)), ahead }
    }
}

/// The reason for which a tree cannot be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedError {
    /// A class sets something that cannot be honoured.
    Unsupported {
        /// The class.
        class: ClassId,
        /// The feature that the class sets.
        feature: Feature,
        /// The reason.
        reason: &'static str,
    },
    /// A limit below a largest packet.
    TooSmall {
        /// The limit.
        what: &'static str,
        /// The value given, in bytes.
        value: u64,
        /// The smallest value taken.
        min: u64,
    },
    /// Not enough memory.
    OutOfMemory {
        /// Size of the refused allocation, in bytes.
        bytes: u64,
    },
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unsupported { class, feature, reason } => {
                write!(f, "class {} sets {}, which several cores cannot honour: {reason}", class.0, feature.as_str())
            }
            Self::TooSmall { what, value, min } => write!(f, "{what} of {value} B is below the smallest, {min} B"),
            Self::OutOfMemory { bytes } => OutOfMemory { bytes }.fmt(f),
        }
    }
}

impl core::error::Error for SharedError {}

impl From<OutOfMemory> for SharedError {
    fn from(OutOfMemory { bytes }: OutOfMemory) -> Self {
        Self::OutOfMemory { bytes }
    }
}

/// Returns the reason for which `feature` is refused; `None` if it is honoured.
const fn refusal(feature: Feature) -> Option<&'static str> {
    match feature {
        Feature::Hierarchy | Feature::ActiveQueue | Feature::Ceiling | Feature::CeilingBurst => None,
        Feature::LatencyCritical | Feature::LatencyBurst => Some(
            "a packet ahead of its turn would have to pass those that other cores have put into the interface, and no \
             core can recall them",
        ),
        Feature::PushOut => Some("the longest queue may be that of another core"),
        _ => Some("it is not part of sharing by weights"),
    }
}

/// Bytes that an `Arc` allocates for `T`, at least.
type ArcOf<T> = ([usize; 2], T);

/// A tree of classes that several [workers](Worker) share.
#[derive(Debug)]
pub struct SharedTree {
    hierarchy: Hierarchy,
    classes: Classes,
    ceilings: Ceilings,
    config: SharedConfig,
    /// [`SharedConfig::stored`].
    stored: i64,
}

impl SharedTree {
    /// Makes the shared part for `tree`.
    ///
    /// # Errors
    /// [`SharedError`].
    pub fn new(tree: Hierarchy, config: SharedConfig) -> Result<Arc<Self>, SharedError> {
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            for feature in tree.features(class) {
                if let Some(reason) = refusal(feature) {
                    return Err(SharedError::Unsupported { class, feature, reason });
                }
            }
        }
        let min = u64::from(tree.link().max_packet);
        for (what, value) in [("mark", config.mark), ("credit", config.credit), ("stored", config.stored)] {
            if value < min {
                return Err(SharedError::TooSmall { what, value, min });
            }
        }
        // Sums of three of them do not overflow.
        let most = |bytes: u64| bytes.min(1 << 50);
        let pace = Pace::new(tree.link().rate, most(config.mark), most(config.credit))?;
        let classes = Classes::new(&tree, pace, most(config.ahead))?;
        let ceilings = Ceilings::new(&tree)?;
        // An `Arc` cannot be refused. So its memory is asked for before.
        drop(room::<ArcOf<Self>>(1)?);
        Ok(Arc::new(Self { hierarchy: tree, classes, ceilings, config, stored: most(config.stored) as i64 }))
    }

    /// Upper bound, in bytes, of the memory that [`SharedTree::new`] uses for `tree` and keeps, without that of `tree`
    /// itself. A worker takes [`Worker::memory_for`] besides.
    #[must_use]
    pub fn memory_for(tree: &Hierarchy) -> u64 {
        Classes::memory(tree) + Pace::memory() + Ceilings::memory(tree) + bytes_of::<ArcOf<Self>>(1)
    }

    /// Makes a worker, with queues for all leaves of the tree.
    ///
    /// # Errors
    /// [`SharedError::OutOfMemory`].
    pub fn worker(self: &Arc<Self>) -> Result<Worker, SharedError> {
        Worker::new(self)
    }

    /// Returns the limits.
    #[must_use]
    pub const fn config(&self) -> SharedConfig {
        self.config
    }

    /// Returns the tree.
    #[must_use]
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// Returns true if `class` is on: it is the link, or workers have put leaves on that are it or below it, and have
    /// not taken all of them off. While a class is on, it gets its share of its parent's service.
    #[must_use]
    pub fn is_on(&self, class: ClassId) -> bool {
        class == ClassId::ROOT || self.classes.children.get(class.index()).is_some_and(|child| child.holders() > 0)
    }

    /// Returns the bytes that all workers have sent. It wraps after 2^64. A worker counts them at the end of a call.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.classes.pace.totals().0
    }

    /// Returns the bytes of credit that were dropped: of leaves with more than [`SharedConfig::stored`], and of the
    /// link while no class had packets for long.
    #[must_use]
    pub fn dropped_credit(&self) -> u64 {
        self.classes.pace.totals().1
    }

    /// Returns the bytes in the network interface as computed when time last passed.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.classes.pace.unsent()
    }
}
