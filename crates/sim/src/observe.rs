//! Observers of a running simulation.

use std::ops::ControlFlow;

use fairlink_core::{ClassId, DropReason, Nanos};

/// Receives every event of a simulation in order. Lengths are in bytes as the link accounts for them. Classes are those of the
/// scenario: a [`Change`](crate::Change) keeps their numbers. A simulation can move to another thread, and its observers with
/// it.
///
/// ```
/// use fairlink_core::{ClassConfig, ClassId, Hierarchy, Leniency, LinkConfig, Nanos, Overhead, Rate, Share, registry};
/// use fairlink_sim::{CoreModel, Observer, Options, Scenario, compare};
/// use fairlink_traffic::{Model, PacketSize, SourceSpec};
///
/// /// Counts the packets that each of two classes sent.
/// #[derive(Default)]
/// struct Sent([u64; 2]);
///
/// impl Observer for Sent {
///     fn sent(&mut self, _: Nanos, _: Nanos, class: ClassId, _: u32) {
///         self.0[class.index() - 1] += 1;
///     }
/// }
///
/// // Two greedy classes of weights 3 and 1 on a link of 8 Mbit/s: a packet of 1000 B takes a millisecond.
/// let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(8_000_000)?));
/// for weight in [3, 1] {
///     tree.add(ClassId::ROOT, ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() })?;
/// }
/// let packet = PacketSize::Fixed(1000);
/// let greedy = |class| SourceSpec { class: ClassId(class), model: Model::Greedy, packet: packet.clone(), active: Vec::new() };
/// let scenario = Scenario {
///     tree: tree.build()?,
///     names: ["link", "a", "b"].map(String::from).to_vec(),
///     overhead: Overhead::NONE,
///     propagation: Nanos::ZERO,
///     sources: vec![greedy(1), greedy(2)],
///     duration: Nanos::from_secs(1),
///     warmup: Nanos::ZERO,
///     changes: Vec::new(),
///     cores: CoreModel::ONE,
///     seed: 1,
/// };
/// let mut seen = Sent::default();
/// let hls = registry::find("hls").expect("hls is a scheduler");
/// compare(&scenario, &[hls], Leniency::Refuse, 1, &Options::default(), &mut seen)?;
/// assert!(seen.0[0].abs_diff(750) < 5 && seen.0[1].abs_diff(250) < 5, "{:?}", seen.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer: Send {
    /// Reports a packet of `len` bytes handed to the scheduler. The scheduler may still drop it.
    fn arrived(&mut self, now: Nanos, class: ClassId, len: u32) {
        let _ = (now, class, len);
    }

    /// Reports a dropped packet.
    fn dropped(&mut self, now: Nanos, class: ClassId, len: u32, reason: DropReason) {
        let _ = (now, class, len, reason);
    }

    /// Reports a packet given to the link at `now`. Its last bit leaves at `done`.
    fn sent(&mut self, now: Nanos, done: Nanos, class: ClassId, len: u32) {
        let _ = (now, done, class, len);
    }

    /// Called after [`Observer::arrived`], when a packet is enqueued in the scheduler.
    fn came(&mut self, packet: &PacketSeen) {
        let _ = packet;
    }

    /// Reports a packet that has left the scheduler. Packets that never leave are queued at the end.
    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        let _ = (packet, fate);
    }

    /// Observers of the further links, in their order; links beyond them are not watched. Asked once before each run.
    fn further(&mut self) -> Vec<Box<dyn Observer>> {
        Vec::new()
    }

    /// Reports progress about two hundred times in a run, evenly over its simulated time, and more often in long runs.
    /// For progress bars. [`ControlFlow::Break`] ends the run with [`SimError::Stopped`](crate::SimError::Stopped).
    fn progress(&mut self, now: Nanos) -> ControlFlow<()> {
        let _ = now;
        ControlFlow::Continue(())
    }
}

/// A packet at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSeen {
    /// Its place in the order of arrival at the link, from 0.
    pub number: u64,
    /// Its class.
    pub class: ClassId,
    /// Time at which it was handed to the scheduler.
    pub arrived: Nanos,
    /// Its length in bytes as its source sent it.
    pub frame: u32,
    /// Its length in bytes as the link accounts for it.
    pub len: u32,
    /// Its source: the index among those of the link's scenario; packets of routes from other links have numbers behind those.
    pub source: u32,
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The link sent it.
    Sent {
        /// Time at which its first bit left.
        start: Nanos,
        /// Time at which its last bit left.
        done: Nanos,
    },
    /// It was dropped.
    Dropped {
        /// When.
        at: Nanos,
        /// Reason of the drop.
        reason: DropReason,
    },
}

/// Ignores every event.
impl Observer for () {}

/// The observer of a link: the caller's, or the link's own. A second trait object around a borrowed one would cost a
/// second virtual call for each event, this costs a branch.
pub(crate) enum Watching<'o> {
    Borrowed(&'o mut dyn Observer),
    Owned(Box<dyn Observer>),
}

impl<'o> Watching<'o> {
    pub(crate) fn observer(&mut self) -> &mut (dyn Observer + 'o) {
        match self {
            Self::Borrowed(observer) => *observer,
            Self::Owned(observer) => &mut **observer,
        }
    }
}
