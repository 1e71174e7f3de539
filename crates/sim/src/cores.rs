//! A model of several cores that share a link. It is a scheduler for the link's driver: the cores put packets into a
//! queue of the network interface, and the link takes them from there at its rate.
//!
//! | split | cores | a core sends |
//! | --- | --- | --- |
//! | `hub` | one has the scheduler; a packet comes to it `lag` after its arrival | in the order of the scheduler |
//! | `shared` | leaf queues of its own; the core looks at them each `lag` | what shared virtual times let it send |
//! | `equal` | a scheduler of its own | at an equal part of the link's rate |
//! | `cake-mq` | the same | at a part for each core that had packets; a core looks at the others each 200 us |
//! | `per-core` | the same, for some of the classes directly below the link | at the sum of the shares of these classes |
//!
//! The hash of its flow selects the core of a packet, except with `per-core`. A source is a flow. Each core has queues for
//! all classes, with their limits. `cores.md` of the manual has more.

use fairlink_core::{Cores, Hierarchy, Leniency, Members, Nanos, Scheduler, SchedulerInfo, Split};

use crate::scenario::{Scenario, SimError};

#[cfg(feature = "cores")]
mod several;

/// Most packets that a core sends in one go.
const BATCH: usize = 32;

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
            Cores { split: Split::Shared, .. } => Split::Shared.name().to_owned(),
            Cores { split, .. } => format!("{scheduler}-{}", split.name()),
        }
    }

    /// Makes the error for `what`.
    pub(crate) fn refused(&self, what: &str) -> SimError {
        let Cores { count, split } = self.cores;
        SimError::Cores { cores: count, split, what: what.to_owned() }
    }

    /// Packets that may be between the queues of classes and the link: a greedy source keeps as many more.
    pub(crate) fn behind(&self, tree: &Hierarchy) -> u32 {
        if self.cores.is_one() {
            return 0;
        }
        let link = tree.link();
        let bytes = link.rate.bytes_in(Nanos(self.lag.0.saturating_mul(4).saturating_add(60_000)));
        let packets = bytes / u64::from(link.max_packet.max(1)) + 2 * BATCH as u64;
        u32::try_from(packets).unwrap_or(u32::MAX)
    }
}

/// Builds the scheduler of `scenario`.
///
/// # Errors
/// [`SimError::Build`], or [`SimError::Cores`] if the cores cannot share this link.
pub(crate) fn build(
    info: &'static SchedulerInfo,
    scenario: &Scenario,
    leniency: Leniency,
    members: Members,
) -> Result<Box<dyn Scheduler>, SimError> {
    let model = scenario.cores;
    if model.cores.is_one() {
        let built = info.build(&scenario.tree, leniency, members);
        return built.map_err(|error| SimError::Build { scheduler: info.name, error });
    }
    if !members.is_empty() {
        return Err(model.refused("pools are shared by links with one core only"));
    }
    if let Some(change) = scenario.changes.first() {
        return Err(model.refused(&format!("a change of the link at {} is modelled for one core only", change.at)));
    }
    if model.lag == Nanos::ZERO {
        return Err(model.refused("a lag of 0 is that of one core"));
    }
    #[cfg(feature = "cores")]
    return several::build(info, scenario, leniency);
    #[cfg(not(feature = "cores"))]
    Err(model.refused("this program was built without models of several cores"))
}
