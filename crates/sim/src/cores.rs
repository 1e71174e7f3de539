//! A model of several cores that share a link. It is a scheduler for the link's driver: the cores put packets into a
//! queue of the network interface, and the link takes them from there at its rate.
//!
//! | split | cores | a core sends |
//! | --- | --- | --- |
//! | `hub` | one has the scheduler; a packet comes to it `lag` after its arrival | in the order of the scheduler |
//! | several hubs | some classes directly below the link, each 10 ms others; a look each `lag` | as with `shared` |
//! | `shared` | leaf queues of its own; the core looks at them each `lag` | what shared virtual times let it send |
//! | `equal` | a scheduler of its own | at an equal part of the link's rate |
//! | `cake-mq` | the same | at a part for each core that had packets; a core looks at the others each 200 us |
//! | `per-core` | the same, for some of the classes directly below the link | at the sum of the shares of these classes |
//!
//! The hash of its flow selects the core of a packet, except with `per-core`. A source is a flow. Each core has queues for
//! all classes, with their limits. `cores.md` of the manual has more.

use fairlink_core::{Cores, Leniency, Members, Nanos, Scheduler, SchedulerInfo};

use crate::core_model::CoreModel;
use crate::scenario::{Scenario, SimError};

#[cfg(feature = "cores")]
mod hubs;
#[cfg(feature = "cores")]
mod several;

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
        return Err(refused(model, "pools are shared by links with one core only"));
    }
    if let Some(change) = scenario.changes.first() {
        return Err(refused(model, &format!("a change of the link at {} is modelled for one core only", change.at)));
    }
    if model.lag == Nanos::ZERO {
        return Err(refused(model, "a lag of 0 is that of one core"));
    }
    #[cfg(feature = "cores")]
    if model.cores.has_hubs() {
        return hubs::build(scenario);
    }
    #[cfg(feature = "cores")]
    return several::build(info, scenario, leniency);
    #[cfg(not(feature = "cores"))]
    Err(refused(model, "this program was built without models of several cores"))
}

/// Makes the error for cores that cannot share a link.
pub(crate) fn refused(model: CoreModel, what: &str) -> SimError {
    let Cores { count, split, .. } = model.cores;
    SimError::Cores { cores: count, split, what: what.to_owned() }
}
