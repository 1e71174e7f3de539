//! The measured object.

use fairlink_core::{Hierarchy, SchedulerInfo, registry};

use crate::error::WorkloadError;

/// The measured object.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// The workload itself, without any queue. Its cost is to be subtracted.
    Harness,
    /// A bare ring for each leaf and one for the order of arrival: the least that queues can do, and no scheduling.
    Rings,
    /// A scheduler.
    Scheduler(&'static SchedulerInfo),
}

impl Subject {
    /// Returns the scheduler of that name, or `harness`, or `rings`.
    ///
    /// # Errors
    /// [`WorkloadError::Unknown`].
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        match name {
            "harness" => Ok(Self::Harness),
            "rings" => Ok(Self::Rings),
            _ => match registry::find(name) {
                Some(info) => Ok(Self::Scheduler(info)),
                None => Err(WorkloadError::Unknown { name: name.to_owned() }),
            },
        }
    }

    /// Returns true if it honours all that the classes of `tree` set.
    #[must_use]
    pub fn takes(self, tree: &Hierarchy) -> bool {
        match self {
            Self::Harness | Self::Rings => true,
            Self::Scheduler(info) => info.unsupported(tree).next().is_none(),
        }
    }

    /// Its name in arguments and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Harness => "harness",
            Self::Rings => "rings",
            Self::Scheduler(info) => info.name,
        }
    }
}
