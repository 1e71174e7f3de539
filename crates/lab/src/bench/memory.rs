//! Memory of a scheduler per leaf and per packet, by its own declaration, which the contract suite of the core checks.

use fairlink_core::SchedulerInfo;
use fairlink_workload::{Shape, Subject, WorkloadError};
use schemars::JsonSchema;
use serde::Serialize;

/// The memory of a scheduler per leaf and per packet.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Memory {
    /// The scheduler.
    pub scheduler: &'static str,
    /// Leaves of the tree.
    pub leaves: usize,
    /// Levels of the tree.
    pub levels: usize,
    /// Bytes for a leaf without packets; inner classes and the link are shared out among the leaves.
    pub bytes_per_idle_leaf: f64,
    /// Bytes for each packet that the link's buffer may hold.
    pub bytes_per_queued_packet: f64,
}

/// Returns the memory of `info` for a tree of `leaves` leaves in `levels` levels; `None` if it does not support the
/// tree.
///
/// # Errors
/// [`WorkloadError::Tree`].
pub fn memory(info: &'static SchedulerInfo, leaves: usize, levels: usize) -> Result<Option<Memory>, WorkloadError> {
    let shape = Shape { leaves, levels, ..Shape::default() };
    if !Subject::Scheduler(info).takes(&shape.tree()?) {
        return Ok(None);
    }
    // With a buffer for each of these numbers of packets: the increment is for packets, and the rest for leaves.
    let [few, many] = [leaves.max(1), 2 * leaves.max(1)];
    let bytes = |queued: usize| Ok(info.memory_for(&shape.tree_holding(queued)?) as f64);
    let (with_few, with_many) = (bytes(few)?, bytes(many)?);
    let per_packet = (with_many - with_few) / (many - few) as f64;
    let bytes_per_idle_leaf = (with_few - per_packet * few as f64) / leaves as f64;
    Ok(Some(Memory { scheduler: info.name, leaves, levels, bytes_per_idle_leaf, bytes_per_queued_packet: per_packet }))
}
