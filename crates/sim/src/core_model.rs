//! The cores of a scenario's link, as a model.

use fairlink_core::{Cores, Hierarchy, Nanos, SharedConfig, Split};

/// Most packets that a core sends in one go.
pub(crate) const BATCH: usize = 32;

/// The cores that share a link, as a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreModel {
    /// Their number, and the way in which they share it.
    pub cores: Cores,
    /// Time until a core sees what others have done; not 0.
    pub lag: Nanos,
}

impl CoreModel {
    /// The time between two looks of a core that polls, with the work of a batch: 10 us.
    pub const LAG: Nanos = Nanos::from_micros(10);
    /// One core.
    pub const ONE: Self = Self { cores: Cores::ONE, lag: Self::LAG };

    /// Returns the name of a run under `scheduler`.
    pub(crate) fn name(&self, scheduler: &str) -> String {
        match self.cores {
            cores if cores.is_one() => scheduler.to_owned(),
            cores if cores.has_hubs() => "hubs".to_owned(),
            Cores { split: Split::Shared, .. } => Split::Shared.name().to_owned(),
            Cores { split, .. } => format!("{scheduler}-{}", split.name()),
        }
    }

    /// Packets of `shortest` bytes that may be between the queues of classes and the link: a greedy source keeps as many
    /// more.
    pub(crate) fn behind(&self, tree: &Hierarchy, shortest: u32) -> u32 {
        if self.cores.is_one() {
            return 0;
        }
        // What stands in the interface, and the credit that a leaf may have when its core looks at it.
        let SharedConfig { mark, stored, .. } = SharedConfig::for_passes(&tree.link(), self.lag);
        let packets = (mark + stored) / u64::from(shortest.max(1)) + 2 * BATCH as u64;
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// Time for which the queue of a leaf must hold its rate, or its core finds it empty in every other pass. The packets
    /// of a source that is `greedy` also stand in the interface.
    pub(crate) fn pass(&self, greedy: bool) -> Nanos {
        let looks = match self.cores {
            cores if cores.is_one() => 0,
            cores if cores.split == Split::Shared || cores.has_hubs() => 2 + 2 * u64::from(greedy),
            cores => u64::from(greedy && cores.split == Split::Hub),
        };
        Nanos(self.lag.0.saturating_mul(looks))
    }
}
