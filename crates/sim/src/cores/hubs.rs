//! Several hubs, with the rings, the moves and the balancer of the library, under a virtual clock.

use std::collections::VecDeque;

use fairlink_core::{
    Amount, ClassId, Dequeued, DropReason, DropSink, Hubs, HubsConfig, Nanos, Packet, Scheduler, hubs,
};

use super::several::{Queued, mixed, share};
use crate::core_model::BATCH;
use crate::scenario::{Scenario, SimError};

/// Time between two looks of the balancer.
const BALANCE: Nanos = Nanos::from_millis(10);
/// Packets that a ring has room for. What finds none waits for it in the interface.
const RING: usize = 1024;

/// The packets that a hub has dropped.
#[derive(Default)]
struct Lost(Vec<(Nanos, Packet, DropReason)>);

impl DropSink for Lost {
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        self.0.push((now, packet, reason));
    }
}

type Hub = hubs::Hub<fn(&Packet) -> u32, Lost>;

/// Builds the hubs of `scenario`.
///
/// # Errors
/// [`SimError::Cores`] if they cannot share this link.
pub(super) fn build(scenario: &Scenario) -> Result<Box<dyn Scheduler>, SimError> {
    let (model, shared) = (scenario.cores, share(scenario)?);
    let cores = model.cores;
    let receivers = usize::from(cores.count.saturating_sub(cores.hubs)).max(1);
    let config = HubsConfig { hubs: cores.hubs.into(), receivers, transmitters: 1, ring: RING, held: 1 << 16 };
    let parts = Hubs::new(&shared, config, Packet::flow as fn(&Packet) -> u32, |_| Lost::default());
    let parts = parts.map_err(|error| super::refused(model, &error.to_string()))?;
    let next = (0..u64::from(cores.hubs)).map(|hub| Nanos(model.lag.0 * hub / u64::from(cores.hubs))).collect();
    Ok(Box::new(HubCores {
        waiting: parts.receivers.iter().map(|_| VecDeque::new()).collect(),
        parts,
        next,
        lag: model.lag,
        look: BALANCE,
        interface: VecDeque::new(),
        queued: Queued::new(&scenario.tree),
        out: Vec::with_capacity(2 * BATCH),
    }))
}

/// Cores that receive, and hubs.
struct HubCores {
    parts: Hubs<fn(&Packet) -> u32, Lost>,
    /// By core that receives: packets for which a ring had no room.
    waiting: Vec<VecDeque<Packet>>,
    /// By hub: its next look.
    next: Vec<Nanos>,
    lag: Nanos,
    /// The next look of the balancer.
    look: Nanos,
    /// Packets that the hubs have sent and the link has not.
    interface: VecDeque<Packet>,
    /// All packets here.
    queued: Queued,
    /// Room for the packets of a step.
    out: Vec<Packet>,
}

impl HubCores {
    /// Makes the steps of all hubs before `end`, in the order of time.
    fn advance(&mut self, end: Nanos, drops: &mut dyn DropSink) {
        while let Some((at, hub)) = self.due().filter(|&(at, _)| at < end) {
            self.step(at, hub, drops);
        }
    }

    /// Returns the next step: its time and hub; `None` while there is nothing to do.
    fn due(&self) -> Option<(Nanos, usize)> {
        let inside = self.queued.all.packets > self.interface.len() as u64 || self.parts.balancer.is_moving();
        let next = || self.next.iter().enumerate().map(|(hub, &at)| (at, hub)).min();
        if inside { next() } else { None }
    }

    fn step(&mut self, at: Nanos, hub: usize, drops: &mut dyn DropSink) {
        if at >= self.look {
            self.look = at.saturating_add(BALANCE);
            self.parts.balancer.balance();
        }
        for (receiver, waiting) in self.parts.receivers.iter_mut().zip(&mut self.waiting) {
            receiver.poll();
            while let Some(packet) = waiting.pop_front() {
                if let Err(packet) = receiver.push(packet) {
                    waiting.push_front(packet);
                    break;
                }
            }
        }
        let one: &mut Hub = &mut self.parts.hubs[hub];
        let taken = one.port().taken();
        let _ = one.turn(at);
        let taken = one.port().taken() - taken;
        for (at, packet, reason) in one.port_mut().drops_mut().0.drain(..) {
            self.queued.remove(&packet);
            drops.dropped(at, packet, reason);
        }
        let sent = self.parts.transmitters[0].take(&mut self.out);
        self.interface.extend(self.out.drain(..));
        // A hub with a full batch has more to do at once.
        let more = sent >= 2 * BATCH || taken >= BATCH as u64;
        self.next[hub] = at.saturating_add(if more { Nanos(1) } else { self.lag });
    }
}

impl Scheduler for HubCores {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.advance(now, drops);
        let is_idle = self.due().is_none();
        self.queued.add(&packet);
        if is_idle {
            // The first looks at or after now.
            for next in &mut self.next {
                let late = now.saturating_sub(*next).0;
                *next = next.saturating_add(Nanos(late.div_ceil(self.lag.0) * self.lag.0));
            }
        }
        let hash = u64::from(mixed(packet.flow()));
        let core = ((hash * self.waiting.len() as u64) >> 32) as usize;
        let waiting = &mut self.waiting[core];
        if !waiting.is_empty() {
            waiting.push_back(packet);
        } else if let Err(packet) = self.parts.receivers[core].push(packet) {
            waiting.push_back(packet);
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.advance(now.saturating_add(Nanos(1)), drops);
        if let Some(packet) = self.interface.pop_front() {
            self.queued.remove(&packet);
            return Dequeued::Packet(packet);
        }
        self.due().map_or(Dequeued::Idle, |(at, _)| Dequeued::WaitUntil(at))
    }

    fn backlog(&self) -> Amount {
        self.queued.all
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.queued.of(class)
    }

    /// Drops all packets. What is in the rings first comes to the hubs.
    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        let mut at = now;
        while self.queued.all.packets > self.interface.len() as u64 {
            for hub in 0..self.next.len() {
                self.step(at, hub, drops);
            }
            at = at.saturating_add(self.lag);
        }
        for packet in self.interface.drain(..) {
            self.queued.remove(&packet);
            drops.dropped(now, packet, DropReason::Purged);
        }
    }
}
