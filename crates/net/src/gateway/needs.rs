//! Resource needs of a gateway that follow from its configuration and the frame lengths of its interfaces. Checked at
//! the start and at each change.

use fairlink_core::{Counters, Hierarchy, LinkConfig, Members, OutOfMemory};

use crate::gateway::account::{DelayCounts, MAX_HISTOGRAMS, Snapshot};
use crate::gateway::config::{GatewayConfig, LongFrames};
use crate::gateway::data_path::{MOST_OUTGOING, RealPath};
use crate::gateway::open_error::OpenError;
use crate::gateway::splitter::{OF_PIECE, OF_TURN};
use crate::gateway::stats::MemoryBound;
use crate::io::backend::BackendKind;
use crate::io::frame_pool::{FramePool, HEADROOM};
use crate::io::interface::Interface;
use crate::io::port::Footprint;

/// Maximum number of snapshots of a gateway, not counting those that clients hold.
const SNAPSHOTS: usize = 4;

impl GatewayConfig {
    /// Checks for errors of [`Gateway::open`](crate::Gateway::open) that do not depend on the interfaces. These are
    /// classes that are not leaves, a packet pool that is too small, too much memory, and a tree that the scheduler
    /// refuses. `largest_frame` is the longest frame that the interfaces carry, in bytes.
    ///
    /// # Errors
    /// As [`Gateway::open`](crate::Gateway::open).
    pub fn check(&self, largest_frame: u32) -> Result<(), OpenError> {
        check_classes(self)?;
        Needs::for_config(self, Footprint::of_packet_sockets(largest_frame.saturating_add(HEADROOM as u32)))?;
        self.scheduler.build(&self.tree, self.leniency, Members::new())?;
        Ok(())
    }
}

/// Checks that the process can get `bytes` more memory. Not every allocation can fail gracefully, and a process whose
/// allocation fails there ends. If the machine itself has too little, the kernel may still kill it.
pub(super) fn has_room(bytes: u64) -> Result<(), OutOfMemory> {
    let mut room: Vec<u8> = Vec::new();
    let whole = usize::try_from(bytes).unwrap_or(usize::MAX);
    room.try_reserve_exact(whole).map_err(|_| OutOfMemory { bytes })
}

/// Frames belong to leaves.
pub(super) fn check_classes(config: &GatewayConfig) -> Result<(), OpenError> {
    let mut classes = config.matches.iter().map(|&(class, _)| class).chain([config.default_class]);
    match classes.find(|&class| !config.tree.is_leaf(class)) {
        Some(class) => Err(OpenError::NotALeaf { name: config.name(class) }),
        None => Ok(()),
    }
}

/// Maximum needs of a gateway.
pub(super) struct Needs {
    /// Packets in all queues.
    pub(super) queued: u32,
    /// Frames in the packet pool.
    pub(super) frames: u32,
    /// Of the scheduler.
    pub(super) scheduler_bytes: u64,
}

impl Needs {
    /// Returns the needs with interfaces that need this of the pool.
    ///
    /// # Errors
    /// If they exceed the limits of the pool or of the memory.
    pub(super) fn for_config(config: &GatewayConfig, footprint: Footprint) -> Result<Self, OpenError> {
        let Footprint { backend, frame_bytes, owned } = footprint;
        let queued = most_queued(&config.tree);
        // A piece is one packet for the limits of the scheduler. Its other packets fill queues to their limits once more.
        let pieces = match backend {
            BackendKind::AfPacket if config.lengths().piece > 0 => {
                queued.saturating_add((MOST_OUTGOING + (OF_PIECE - 1) * OF_TURN) as u32)
            }
            _ => 0,
        };
        let needed = queued.saturating_add(RealPath::RESERVE + owned).saturating_add(pieces);
        let frames = config.pool_frames.unwrap_or(needed);
        if frames < needed {
            return Err(OpenError::PoolTooSmall { frames, queued, needed });
        }
        let scheduler_bytes = config.scheduler.memory_for(&config.tree);
        let needed = scheduler_bytes.saturating_add(FramePool::memory(frames, frame_bytes));
        if needed > config.memory_limit {
            let (scheduler, limit) = (config.scheduler.name, config.memory_limit);
            return Err(OpenError::TooMuchMemory { scheduler, frames, needed, limit });
        }
        Ok(Self { queued, frames, scheduler_bytes })
    }

    /// Maximum memory for preparing a change to `tree`, without the scheduler: counters and delays of the classes, and
    /// the pool's bookkeeping.
    pub(super) fn to_prepare(&self, tree: &Hierarchy) -> u64 {
        let delays = (tree.leaves().len().min(MAX_HISTOGRAMS) * size_of::<DelayCounts>()) as u64;
        let counted = (SNAPSHOTS * Snapshot::memory(tree)) as u64 + Counters::memory(tree);
        self.scheduler_bytes + delays + 2 * counted + FramePool::memory(self.frames, 0)
    }

    /// The memory bound of a gateway for `tree` whose frames take `frame_bytes` in the pool and whose counters take
    /// `counted` bytes, without classifier and sockets.
    pub(super) fn bound(&self, tree: &Hierarchy, frame_bytes: u32, counted: usize) -> MemoryBound {
        MemoryBound {
            pool_frames: u64::from(self.frames),
            frame_bytes: u64::from(frame_bytes),
            pool_bytes: FramePool::memory(self.frames, frame_bytes),
            queue_packets: u64::from(self.queued),
            scheduler_bytes: self.scheduler_bytes,
            counters_bytes: (counted + SNAPSHOTS * Snapshot::memory(tree)) as u64 + Counters::memory(tree),
            ..MemoryBound::default()
        }
    }
}

/// Raises the link's largest packet to the length of the input's frames, if they are longer and the policy allows it.
pub(super) fn fit_largest_packet(
    config: &mut GatewayConfig,
    input: &Interface,
    notes: &mut Vec<String>,
) -> Result<(), OpenError> {
    let name = if config.own_traffic { &config.output } else { &input.name };
    let untagged = config.overhead.accounted(input.untagged_frame());
    let limit = config.longest_frame;
    if untagged <= limit {
        return Ok(());
    }
    match config.long_frames {
        LongFrames::Accept => {
            let tagged = config.overhead.accounted(input.largest_frame());
            config.longest_frame = tagged;
            let printed = config.tree.link().max_packet;
            let mut note = format!(
                "{name} carries frames of up to {} B, up to {tagged} B on the link with VLAN tags, above the link file's maximum of {limit} B; they are accepted",
                input.untagged_frame()
            );
            if tagged > printed {
                config.tree = config.tree.clone().with_max_packet(tagged)?;
                let mtu = input.largest_frame();
                note += &format!(", but bounds are printed for {printed} B: set mtu = \"{mtu}B\" to print larger ones");
            }
            notes.push(note);
        }
        LongFrames::Drop => notes.push(format!(
            "{name} carries frames of up to {} B; those above {limit} B on the link are dropped as too long",
            input.untagged_frame()
        )),
    }
    Ok(())
}

/// Raises the link's largest packet to the longest piece of a super-frame. A link file has done that already.
pub(super) fn fit_pieces(config: &mut GatewayConfig) -> Result<(), OpenError> {
    let LinkConfig { rate, max_packet, .. } = config.tree.link();
    let piece = config.gso.longest_piece(rate, config.longest_frame);
    if piece > max_packet {
        config.tree = config.tree.clone().with_max_packet(piece)?;
    }
    Ok(())
}

/// Maximum number of packets that all queues together may hold, the one behind the scheduler included.
fn most_queued(tree: &Hierarchy) -> u32 {
    let limits: u64 = tree.leaves().iter().map(|&leaf| u64::from(tree.config(leaf).limits.packets)).sum();
    let behind = tree.link().transmit_queue.map_or(0, |queue| queue.packets);
    (limits.min(u64::from(tree.link().max_queued)) as u32).saturating_add(behind)
}
