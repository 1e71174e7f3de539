//! `hrr`: Hierarchical Round Robin, as described in \[drrpp\] Section 2.4.2. Flat classes in a hierarchy of service
//! lists. Not work-conserving.
//!
//! Each list has its own frame length. The topmost list has the shortest, for the highest rates. A class in a list may
//! send a fixed number of packets in each frame, and no more even if the link is idle. Its packets are sent by the end
//! of the frame, even if the link is busy. The lists are served from the top to the bottom.
//!
//! | text | here | unit |
//! | --- | --- | --- |
//! | service list | `Level::ready`, and `Level::spent` for those that have had their slots | |
//! | frame | `Level::frame`: `TOP` slots for the top, each below `RATIO` times as long | ns |
//! | slot | the time of a largest packet on the link | |
//! | slots per frame | `Slots::per_frame` | packets |
//!
//! **Order.** Classes of a list take turns packet by packet. A class goes to the end of its list, or leaves it, when its
//! packet has been sent, as in [`drr`](crate::schedulers::drr): behind those that came meanwhile.
//!
//! **Slots.** A class is in the topmost list in which its share of a frame is at least `FEWEST` slots. It has the whole
//! slots of that share, so it loses less than one in `FEWEST`. In the bottom list, below 2^-40 of the link, it has at
//! least one. A slot is for a packet of any length up to the largest. So bandwidth that classes of small packets leave
//! unused goes to no other class.
//!
//! **Cost per packet.** O(`LEVELS`). **Invariants.** A class with packets is in the `ready` ring of its level exactly
//! while it has slots left in this frame; so is the one whose packet is in transmission. **Bounds.** No class sends
//! more than its slots in a frame. A class that has packets throughout a frame has sent its slots at most one slot
//! after the frame's end. Frames are multiples of one another and begin together. So serving shorter ones first meets
//! all frame ends, as long as the total demand fits the link. The one slot is for a packet in transmission. So a packet
//! that finds no other of its class leaves within two frames and a slot, for any traffic of the others. So does every
//! packet of a class that sends one packet less than its slots in any frame's time: one of the frame before may be left
//! over. **Overflow budget.** Frames are below 2^46 slots of below 2^53 ns; lengths in ns saturate at "never".
//! **Validation.** Both bounds are property tests.
//!
//! DIFFERENCE: lists take turns by the packet as their frames allow, instead of handing a fixed number of slots of each frame down
//! to the next list. A class's slots per frame are the same, and no list has slots that fall to the wrong classes.
//! DIFFERENCE: the bottom list for best-effort traffic is left out: every class here has a share.
//! DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::flows::{Chain, Flows, backlog_of_flows};
use crate::contract::{
    Amount, ClassId, Delay, Dequeued, DropSink, Feature, Hierarchy, Nanos, OutOfMemory, Packet, PerWindow, Promises,
    Scheduler, SchedulerInfo, Sharing, Windowed, WorkConserving, boxed,
};

#[cfg(test)]
mod tests;

/// Registry entry of `hrr`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "hrr",
    aliases: &[],
    paper: "drrpp",
    summary: "hierarchical round robin: flat, a fixed number of packets per frame and never more",
    features: &[Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Never,
    cost: "O(1)",
    sharing: Sharing::Never(
        "hrr gives packets per frame and not bytes: a class of small packets gets less than its share",
    ),
    promises: Promises { delay: Some(Delay::Windows(delays)), ..Promises::NONE },
    memory: Flows::<Slots>::memory,
    build: |tree, _| boxed(Hrr::new(tree)?),
};

/// Slots of a frame of the topmost list.
pub(crate) const TOP: u64 = 64;
/// Number of frames of a list per frame of the list below it.
pub(crate) const RATIO: u64 = 8;
/// Slots that a class has in a frame at least, but in the bottom list.
pub(crate) const FEWEST: u64 = 32;
/// Number of lists.
pub(crate) const LEVELS: usize = 14;

#[derive(Debug)]
struct Slots {
    per_frame: u64,
    /// Slots left in the frame of that number.
    left: u64,
    frame: u64,
    level: u8,
}

#[derive(Debug)]
struct Level {
    /// Length of a frame.
    frame: u64,
    /// Number of the current frame.
    number: u64,
    /// Classes with packets and slots.
    ready: Chain,
    /// Classes with packets and no slot left.
    spent: Chain,
}

impl Level {
    fn ends(&self) -> Nanos {
        Nanos((self.number + 1).saturating_mul(self.frame))
    }
}

/// Hierarchical round robin over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct Hrr {
    flows: Flows<Slots>,
    levels: [Level; LEVELS],
    /// The level whose first ready class has the packet in transmission.
    sending: Option<u8>,
    now: Nanos,
}

/// Returns the level and the slots per frame of a class with this share, in 2^-64 of the link.
fn slots(share: u128) -> (u8, u64) {
    let mut frame = u128::from(TOP);
    let mut level = 0;
    // Below 2^64 * 2^46.
    while (share * frame) >> 64 < u128::from(FEWEST) && level + 1 < LEVELS as u8 {
        frame *= u128::from(RATIO);
        level += 1;
    }
    (level, ((share * frame) >> 64).max(1) as u64)
}

/// The bound of the module's documentation, if a frame has two slots of the class.
fn delays(tree: &Hierarchy) -> Vec<Option<Windowed>> {
    let slot = slot(tree);
    let server = |class: ClassId| {
        let (level, per_frame) = slots(tree.share_all_busy(class));
        let every = frame(slot, level.into());
        let amount = PerWindow::Packets(per_frame.checked_sub(1).filter(|&packets| packets > 0)?);
        let delay = every.checked_mul(2)?.checked_add(slot)?;
        tree.is_leaf(class).then_some(Windowed { amount, every: Nanos(every), delay: Nanos(delay) })
    };
    (0..tree.len()).map(|index| server(ClassId(index as u32))).collect()
}

/// Returns the time of a largest packet, in ns.
fn slot(tree: &Hierarchy) -> u64 {
    tree.link().rate.time_for(tree.link().max_packet).0
}

/// Returns the length of a frame of a level, in ns.
fn frame(slot: u64, level: u32) -> u64 {
    slot.saturating_mul(TOP * RATIO.pow(level))
}

impl Hrr {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let slot = slot(tree);
        let level = |index: usize| Level {
            frame: frame(slot, index as u32),
            number: 0,
            ready: Chain::default(),
            spent: Chain::default(),
        };
        let flows = Flows::new(tree, |class| {
            let (level, per_frame) = if tree.is_leaf(class) { slots(tree.share_all_busy(class)) } else { (0, 0) };
            Slots { per_frame, left: per_frame, frame: 0, level }
        })?;
        Ok(Self { flows, levels: core::array::from_fn(level), sending: None, now: Nanos::ZERO })
    }

    /// Brings the frames up to `now`: in a new one all classes have slots again.
    fn turn(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        for level in &mut self.levels {
            let number = self.now.0 / level.frame;
            if number > level.number {
                level.number = number;
                level.ready.append(&mut self.flows, &mut level.spent);
            }
        }
    }

    /// Returns the class whose packet is in transmission.
    fn sending(&self) -> Option<u32> {
        self.levels[usize::from(self.sending?)].ready.first(&self.flows)
    }

    /// Ends the transmission: moves its class to the end of the list where it belongs now.
    fn settle(&mut self) {
        let Some(level) = self.sending.take() else { return };
        let Some(flow) = self.levels[usize::from(level)].ready.pop(&mut self.flows) else { return };
        if !self.flows.is_empty(flow) {
            self.list(flow);
        }
    }

    /// Appends a class with packets that is in no ring to the right one.
    fn list(&mut self, flow: u32) {
        let left = self.left(flow);
        let level = &mut self.levels[usize::from(self.flows.state(flow).level)];
        let ring = if left > 0 { &mut level.ready } else { &mut level.spent };
        ring.push(&mut self.flows, flow);
    }

    /// Remaining slots of a class in the current frame.
    fn left(&self, flow: u32) -> u64 {
        let slots = self.flows.state(flow);
        if slots.frame == self.levels[usize::from(slots.level)].number { slots.left } else { slots.per_frame }
    }
}

impl Scheduler for Hrr {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.turn(now);
        let flow = packet.class.0;
        if self.flows.push(now, packet, drops) == Some(true) && self.sending() != Some(flow) {
            self.list(flow);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.turn(now);
        self.settle();
        if self.flows.backlog().packets == 0 {
            return Dequeued::Idle;
        }
        for index in 0..LEVELS as u8 {
            let level = &self.levels[usize::from(index)];
            let Some(flow) = level.ready.first(&self.flows) else { continue };
            let (left, number) = (self.left(flow) - 1, level.number);
            let slots = self.flows.state_mut(flow);
            (slots.left, slots.frame) = (left, number);
            let Some(packet) = self.flows.pop(flow, now, drops) else {
                unreachable!("class {flow} is ready and empty")
            };
            self.sending = Some(index);
            return Dequeued::Packet(packet);
        }
        let waiting = self.levels.iter().filter(|level| !level.spent.is_empty());
        Dequeued::WaitUntil(waiting.map(Level::ends).min().unwrap_or(Nanos::MAX))
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.turn(now);
        self.sending = None;
        self.flows.purge(now, drops);
        for slots in self.flows.states_mut() {
            (slots.left, slots.frame) = (slots.per_frame, 0);
        }
        for level in &mut self.levels {
            (level.ready, level.spent) = (Chain::default(), Chain::default());
        }
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let rings: [&Chain; 2 * LEVELS] = core::array::from_fn(|at| {
            let level = &self.levels[at / 2];
            if at % 2 == 0 { &level.ready } else { &level.spent }
        });
        let sending = self.sending();
        self.flows.check_with(rings.into_iter().flat_map(|ring| ring.iter(&self.flows)), 0, sending)?;
        for (index, level) in self.levels.iter().enumerate() {
            for (ring, ready) in [(&level.ready, true), (&level.spent, false)] {
                for flow in ring.iter(&self.flows).filter(|&flow| sending != Some(flow)) {
                    let (left, slots) = (self.left(flow), self.flows.state(flow));
                    if (left > 0) != ready || left > slots.per_frame || usize::from(slots.level) != index {
                        return Err(format!("class {flow} has {left} slots left, {slots:?}; listed in {index}"));
                    }
                }
            }
        }
        Ok(())
    }
}
