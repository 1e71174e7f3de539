//! Why a workload could not be made or went wrong.

use fairlink_core::{BuildError, HierarchyError};

/// The reason for which a workload could not be made or failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// Neither a scheduler nor one of the two that measure the workload itself.
    #[error("there is no scheduler {name:?}; give one of `fairlink schedulers`, or harness, or rings")]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// An unknown word in a workload.
    #[error(
        "{word:?} is no part of a workload; it takes backlogged, sparse, churn, batches, single, ceilings, record, \
         leaves=N, levels=N, len=BYTES, max=BYTES and weights=N"
    )]
    Word {
        /// The word.
        word: String,
    },
    /// A tree that cannot be.
    #[error("{leaves} leaves in {levels} levels: {source}")]
    Tree {
        /// Requested leaves.
        leaves: usize,
        /// Requested levels.
        levels: usize,
        /// Reason of the refusal.
        source: HierarchyError,
    },
    /// A scheduler that cannot be made for the tree.
    #[error("{scheduler}: {source}")]
    Build {
        /// The scheduler.
        scheduler: &'static str,
        /// Reason of the refusal.
        source: BuildError,
    },
    /// A scheduler that dropped a packet, or sent none although there were some.
    #[error("{scheduler} with {leaves} leaves {what}")]
    Misbehaved {
        /// The scheduler.
        scheduler: &'static str,
        /// Leaves of the tree.
        leaves: usize,
        /// Description of the misbehaviour.
        what: &'static str,
    },
}
