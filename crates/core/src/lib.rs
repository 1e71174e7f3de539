//! Packet schedulers that share a link among a tree of traffic classes, so that the outcome can be predicted.
//!
//! A [`Hierarchy`] holds the classes and their guarantees. A [`Scheduler`] queues the packets of the classes and
//! decides which packet the link sends next. A [`Driver`] calls it at the pace of the link.
//!
//! # Example
//! Three classes share 100 Mbit/s under [`hls`](schedulers::hls).
//!
//! ```
//! use fairlink_core::schedulers::hls::Hls;
//! use fairlink_core::{ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, LinkConfig, Nanos, Packet, Rate, Scheduler, Share};
//!
//! let mbit = |n: u64| Rate::from_bps(n * 1_000_000);
//! let mut tree = Hierarchy::builder(LinkConfig::new(mbit(100)?));
//! for guarantee in [50, 30, 20] {
//!     let share = Some(Share::Guarantee(mbit(guarantee)?));
//!     tree.add(ClassId::ROOT, ClassConfig { share, ..ClassConfig::default() })?;
//! }
//! let tree = tree.build()?;
//! let mut hls = Hls::new(&tree)?;
//!
//! // Every class has 500 packets of 1000 bytes. The link has sent 500 packets when we look.
//! let (now, mut sent) = (Nanos::ZERO, vec![0; tree.len()]);
//! let mut drops = |_, packet: Packet, why: DropReason| panic!("{packet:?}: {}", why.as_str());
//! for handle in 0..500 {
//!     tree.leaves().iter().for_each(|&class| hls.enqueue(now, Packet { handle, len: 1000, class }, &mut drops));
//! }
//! for _ in 0..500 {
//!     let Dequeued::Packet(packet) = hls.dequeue(now, &mut drops) else { panic!("hls is work-conserving") };
//!     sent[packet.class.index()] += 1;
//! }
//! assert_eq!(sent, [0, 250, 150, 100]); // The link itself is class 0.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//! Start with [`mod@scheduler`], which defines a scheduler: the file `contract/scheduler.rs`. Then read the page of one
//! scheduler, such as [`schedulers::drr`]. Modules that the manual does not show are private.
//!
//! | room | what is in it | pages |
//! | --- | --- | --- |
//! | `contract` | what a scheduler is | [`mod@scheduler`], [`packet`], [`amount`], [`units`], [`overhead`] |
//! | | what it is built from | [`hierarchy`], [`class`], [`lender`] |
//! | | what it says of itself | [`info`], [`promises`] |
//! | `queue` | the queue of a leaf; CoDel and FQ-CoDel | |
//! | `parts` | heaps, bit sets, token buckets, curves, virtual time, memory that may be refused | |
//! | `bases` | what several schedulers have in common | |
//! | `schedulers` | the schedulers by family, a file or a folder each | [`schedulers`] |
//! | `runtime` | all schedulers by name | [`registry`] |
//! | | the pace of a link, counters, changes of a running scheduler | [`Driver`], [`Metered`], [`prepare`] |
//! | | bandwidth that several links share | [`pool`] |
//! | | one link whose classes several cores serve | `shared`, with the feature of that name |
//! | | one core that schedules, and others that receive and send | `hub`, with the feature of that name |
//!
//! | to | use |
//! | --- | --- |
//! | describe a link and its classes | [`Hierarchy::builder`], [`LinkConfig`], [`ClassConfig`] |
//! | find a scheduler by its name | [`registry::find`] |
//! | know what a scheduler honours and promises, and how much memory it takes | [`SchedulerInfo`] |
//! | make a scheduler | [`SchedulerInfo::build`], or its own `INFO`, such as [`schedulers::hls::INFO`] |
//! | move packets | [`Scheduler`] at your own pace; [`Driver::next`] or [`Driver::turn`] at the link's |
//! | count what passes | [`Metered`] |
//! | count the steps of a data structure, for experiments | [`Counted`], [`Work`] |
//! | number the hosts that share a leaf | [`HostTables`], [`with_host`] |
//! | change classes or scheduler while packets are queued | [`prepare`], [`Prepared::commit`] |
//!
//! # What this crate does not do
//! It reads no clock, does no I/O, draws no random numbers, uses no floating point, and sees no packet contents. Its
//! only `unsafe` is an instruction that prefetches a cache line, in a separate module. The caller owns time and
//! packets.
//!
//! # Errors and panics
//! Mistakes of a caller are a `Result`: [`RateOutOfRange`], [`HierarchyError`], [`BuildError`], [`PoolError`],
//! [`ReconfigureError`]. An error contains the refused value, and the limit if there is one. No packet makes a
//! scheduler panic: a packet that cannot be queued goes to the [`DropSink`] with a [`DropReason`]. A panic is a bug of
//! this crate.
//!
//! All memory is allocated when a scheduler is made; the allocation can fail with [`BuildError::OutOfMemory`].
//! [`SchedulerInfo::memory`] gives the size beforehand. Afterwards a scheduler allocates nothing.
//!
//! # Features
//! * `invariants` (on by default): `Scheduler::check_invariants` describes the violated invariant. Without the feature
//!   the method does not exist, and no text formatting is linked for it.
//! * `serde`: [`Amount`] can be written and read by serde.
//! * `schema`: [`Amount`] has a JSON schema.
//! * `shared`: one tree of classes on several cores. It needs atomics of 64 bits.
//! * `hub`: one core schedules, others receive and send, with rings of the crate `rtrb` between them.
//!
//! # One scheduler alone
//! Only [`registry`] names all schedulers. A program that names one, as the example does, links no other. This holds
//! for [`schedulers::hls::INFO`] as well, because an `INFO` refers to its own scheduler only.
//!
//! Keys in brackets, such as \[hls\], are explained in `docs/papers.md`.
#![no_std]
#![deny(unsafe_code)] // Only `parts/prefetch.rs` has some.

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bases;
mod contract;
mod parts;
mod queue;
mod runtime;
pub mod schedulers;
#[cfg(test)]
mod test_link;

pub use contract::*;
pub use parts::memory::pause;
pub use parts::work::{Counted, Work};
pub use runtime::driver::{Driver, Next, Pacer, Port, Wake};
pub use runtime::hosts::{HostTable, HostTables};
#[cfg(feature = "hub")]
pub use runtime::hub::{self, FlowOrder, HubError, HubPort};
#[cfg(all(feature = "hub", feature = "shared"))]
pub use runtime::hubs::{self, Hubs, HubsConfig, HubsError, MoveError};
pub use runtime::metered::{Counters, Metered, MeteredChange, MeteredRetired};
pub use runtime::pool::{Member, Pool, PoolError, PoolRule};
pub use runtime::reconfigure::{Change, Prepared, ReconfigureError, Retired, prepare};
#[cfg(feature = "shared")]
pub use runtime::shared::{self, SharedConfig, SharedError, SharedTree, Worker};
pub use runtime::split::{Cores, MAX_CORES, Split};
pub use runtime::{pool, registry};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
