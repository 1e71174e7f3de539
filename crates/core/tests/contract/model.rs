//! A scheduler and a model of its contents by the contract. Every call is checked against the model.

use std::collections::VecDeque;

use fairlink_core::{
    Amount, BatchEnd, Change, ClassId, Dequeued, DropReason, DropSink, ECN_CAPABLE, Hierarchy, Leniency, Members,
    Nanos, Packet, QueueKind, Scheduler, SchedulerInfo, WorkConserving, flow_bits, prepare, with_host,
};

use crate::trees::{Survivors, TreeSpec};

/// An action of a scheduler, as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Sent(u64, ClassId),
    Dropped(u64, ClassId, DropReason),
    Marked(u64, ClassId),
    WaitUntil(Nanos),
    Idle,
}

/// Packets that a scheduler dropped or marked during one call, in order.
#[derive(Debug, Default)]
struct Drops {
    dropped: Vec<(Packet, DropReason)>,
    marked: Vec<(u64, ClassId)>,
}

impl DropSink for Drops {
    fn dropped(&mut self, _: Nanos, packet: Packet, reason: DropReason) {
        self.dropped.push((packet, reason));
    }

    fn marked(&mut self, _: Nanos, packet: &Packet) {
        self.marked.push((packet.handle, packet.class));
    }
}

/// The handle of packet `number`: it is of one of four hosts and belongs to one of five flows, and every third understands ECN.
pub(crate) fn handle(number: u64) -> u64 {
    with_host(number | flow_bits(number as u32 % 5), number as u16 % 4)
        | if number.is_multiple_of(3) { ECN_CAPABLE } else { 0 }
}

fn flow(handle: u64) -> u64 {
    (handle & !ECN_CAPABLE) >> 32
}

pub(crate) type Broken = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err(format!($($what)*));
        }
    };
}
pub(crate) use ensure;

/// The frequency of checks of a scheduler's own invariants, which take O(classes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invariants {
    AfterEveryCall,
    /// With every class's backlog, after every [`EVERYTHING`]th call: for long runs that are about something else.
    WithEverything,
}

/// Number of calls per complete check.
const EVERYTHING: u64 = 16;

pub(crate) struct Model {
    scheduler: Box<dyn Scheduler>,
    tree: Hierarchy,
    spec: TreeSpec,
    work_conserving: WorkConserving,
    queues: Vec<VecDeque<(u64, u32)>>,
    /// Classes with packets that were queued by flow, now or before a change: these keep their order within the flow only.
    by_flow: Vec<bool>,
    /// Sum of `queues`.
    total: Amount,
    next_handle: u64,
    now: Nanos,
    calls: u64,
    invariants: Invariants,
    pub(crate) events: Vec<Event>,
}

impl Model {
    pub(crate) fn new(scheduler: Box<dyn Scheduler>, spec: &TreeSpec, work_conserving: WorkConserving) -> Self {
        let tree = spec.build();
        let queues = vec![VecDeque::new(); tree.len()];
        let by_flow = vec![false; tree.len()];
        let now = Nanos(1);
        let spec = spec.clone();
        Self {
            scheduler,
            tree,
            spec,
            work_conserving,
            queues,
            by_flow,
            total: Amount::default(),
            next_handle: 0,
            now,
            calls: 0,
            invariants: Invariants::AfterEveryCall,
            events: Vec::new(),
        }
    }

    pub(crate) fn spec(&self) -> &TreeSpec {
        &self.spec
    }

    pub(crate) fn leaves(&self) -> &[ClassId] {
        self.tree.leaves()
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Numbers the next packets from here on, for comparison with a scheduler that has seen more.
    pub(crate) fn skip_handles(&mut self, handles: u64) {
        self.next_handle += handles;
    }

    pub(crate) fn check_invariants(&mut self, invariants: Invariants) {
        self.invariants = invariants;
    }

    pub(crate) fn backlog(&self) -> Amount {
        self.total
    }

    fn count(&self) -> Amount {
        let mut all = Amount::default();
        for &(_, len) in self.queues.iter().flatten() {
            all.packets += 1;
            all.bytes += u64::from(len);
        }
        all
    }

    /// Removes a packet from its queue.
    fn remove(&mut self, class: ClassId, place: usize) -> Option<(u64, u32)> {
        let removed = self.queues[class.index()].remove(place)?;
        self.total.packets -= 1;
        self.total.bytes -= u64::from(removed.1);
        Some(removed)
    }

    pub(crate) fn queued(&self, class: ClassId) -> usize {
        self.queues[class.index()].len()
    }

    /// Returns true if a ceiling may keep `leaf` from sending: its own, or that of a class above it.
    fn has_ceiling(&self, leaf: ClassId) -> bool {
        let mut path = std::iter::successors(Some(leaf), |&class| self.tree.parent(class));
        path.any(|class| self.tree.config(class).ceiling.is_some())
    }

    fn class_backlog(&self, class: usize) -> Amount {
        let packets = self.queues[class].len() as u64;
        Amount { packets, bytes: self.queues[class].iter().map(|&(_, len)| u64::from(len)).sum() }
    }

    /// Returns the reasons to drop a packet on arrival. It must be dropped if there is any.
    fn reasons(&self, class: ClassId, len: u32) -> Vec<DropReason> {
        if !self.tree.is_leaf(class) {
            return vec![DropReason::NotALeaf];
        }
        let limits = self.tree.config(class).limits;
        let queued = self.class_backlog(class.index());
        let mut reasons = Vec::new();
        if len > self.tree.link().max_packet {
            reasons.push(DropReason::TooLong);
        }
        if queued.packets >= u64::from(limits.packets) {
            reasons.push(DropReason::QueuePackets);
        }
        if queued.bytes + u64::from(len) > u64::from(limits.bytes) {
            reasons.push(DropReason::QueueBytes);
        }
        if self.backlog().packets >= u64::from(self.tree.link().max_queued) {
            reasons.push(DropReason::TotalPackets);
        }
        reasons
    }

    /// `packet` has to be the second of one of the longest queues, longer than that of `class`, to which another arrives.
    fn is_pushed_out(&mut self, packet: &Packet, class: ClassId) -> Broken {
        let longest = self.queues.iter().map(VecDeque::len).max().unwrap_or(0);
        let queue = &self.queues[packet.class.index()];
        let second = queue.get(1) == Some(&(packet.handle, packet.len));
        let right = self.spec.push_out && second && queue.len() == longest && longest > self.queued(class);
        ensure!(right, "{packet:?} pushed out for one of {class:?}: second {second}, {} of {longest}", queue.len());
        self.remove(packet.class, 1);
        Ok(())
    }

    /// Returns true if enough of the packets may be in the transmit queue that their classes have room for another.
    fn may_be_behind(&self, class: ClassId) -> bool {
        let link = self.tree.link();
        let behind = link.transmit_queue.map_or(0, |queue| queue.packets);
        let queued = self.class_backlog(class.index()).packets;
        behind > 0
            && self.tree.is_leaf(class)
            && queued < u64::from(self.tree.config(class).limits.packets) + u64::from(behind)
            && self.backlog().packets < u64::from(link.max_queued) + u64::from(behind)
    }

    /// Enqueues the packets in one call, or in one each. A call ends with a packet that may evict others: otherwise the
    /// victim could not be attributed.
    pub(crate) fn enqueue(&mut self, packets: &[(ClassId, u32)], batch: bool) -> Broken {
        let evicting: Vec<bool> = packets.iter().map(|&(class, _)| self.is_fair(class)).collect();
        let mut rest = packets;
        for end in evicting.split_inclusive(|&evicts| evicts).map(<[bool]>::len) {
            let (call, later) = rest.split_at(end);
            self.enqueue_call(call, batch)?;
            rest = later;
        }
        Ok(())
    }

    fn enqueue_call(&mut self, packets: &[(ClassId, u32)], batch: bool) -> Broken {
        let first = self.next_handle;
        let mut arrivals: Vec<Packet> = Vec::new();
        for (&(class, len), number) in packets.iter().zip(first..) {
            arrivals.push(Packet { handle: handle(number), len, class });
        }
        self.next_handle += packets.len() as u64;
        let mut drops = Drops::default();
        if batch {
            self.scheduler.enqueue_batch(self.now, &mut arrivals, &mut drops);
            ensure!(arrivals.is_empty(), "enqueue_batch left {arrivals:?}");
        } else {
            arrivals.into_iter().for_each(|packet| self.scheduler.enqueue(self.now, packet, &mut drops));
        }
        self.note_drops(&drops);
        ensure!(drops.marked.is_empty(), "marked on arrival: {:?}", drops.marked);
        let mut drops = drops.dropped.into_iter().peekable();
        for (&(class, len), number) in packets.iter().zip(first..) {
            let handle = handle(number);
            let mut reasons = self.reasons(class, len);
            // Several may give way at once, more than it takes.
            let (evicts, given) = (self.is_fair(class), reasons.clone());
            while let Some((packet, reason)) = drops.next_if(|(packet, _)| evicts && self.is_queued(class, packet)) {
                ensure!(given.contains(&reason), "dropped {packet:?} as {reason:?} for {handle}; there was {given:?}");
                self.give_way(&packet)?;
                reasons = self.reasons(class, len);
            }
            if reasons == [DropReason::TotalPackets]
                && let Some((packet, _)) = drops.next_if(|(_, reason)| *reason == DropReason::PushedOut)
            {
                self.is_pushed_out(&packet, class)?;
                reasons = self.reasons(class, len);
            } else if reasons == [DropReason::TotalPackets] && self.spec.push_out {
                let own = self.queued(class).max(1);
                ensure!(self.queues.iter().all(|queue| queue.len() <= own), "{handle} of {class:?} pushed nothing out");
            }
            // One that others of this call push out has been taken in before.
            let dropped = drops.next_if(|(packet, reason)| packet.handle == handle && *reason != DropReason::PushedOut);
            match dropped {
                Some((packet, reason)) => {
                    ensure!((packet.class, packet.len) == (class, len), "dropped {packet:?}, was {class:?}, {len} B");
                    ensure!(reasons.contains(&reason), "dropped {packet:?} as {reason:?}; there was {reasons:?}");
                }
                None => {
                    let has_room = reasons.is_empty() || self.may_be_behind(class);
                    ensure!(has_room, "took packet {handle} of {class:?}, {len} B, in spite of {reasons:?}");
                    self.queues[class.index()].push_back((handle, len));
                    self.total.packets += 1;
                    self.total.bytes += u64::from(len);
                }
            }
        }
        ensure!(drops.peek().is_none(), "dropped {:?}, which did not arrive", drops.peek());
        self.check(packets.first().map(|packet| packet.0))
    }

    fn kind(&self, class: ClassId) -> QueueKind {
        if self.tree.is_leaf(class) { self.tree.config(class).queue } else { QueueKind::Fifo }
    }

    /// Returns true if flows or hosts take turns in its queue, and give way to others.
    fn is_fair(&self, class: ClassId) -> bool {
        let hosts = self.tree.is_leaf(class) && self.tree.config(class).hosts.is_some();
        hosts || self.kind(class) == QueueKind::FqCoDel
    }

    /// Removes `packet` from its queue, in which it must be the first, or the first of its flow.
    fn leave(&mut self, packet: &Packet) -> Broken {
        let is_fair = self.is_fair(packet.class);
        let index = packet.class.index();
        let Some(queue) = self.queues.get(index) else { return Err(format!("{packet:?} of no class")) };
        let by_flow = is_fair || self.by_flow[index];
        let first = queue.iter().position(|&(handle, _)| !by_flow || flow(handle) == flow(packet.handle));
        let first = first.and_then(|place| self.remove(packet.class, place));
        self.by_flow[index] &= !self.queues[index].is_empty();
        ensure!(first == Some((packet.handle, packet.len)), "{packet:?} left; its queue has {first:?} first");
        Ok(())
    }

    fn is_queued(&self, class: ClassId, packet: &Packet) -> bool {
        packet.class == class && self.queues[class.index()].contains(&(packet.handle, packet.len))
    }

    /// `packet` is dropped to make room: the first of its flow behind the head, which stays the head.
    fn give_way(&mut self, packet: &Packet) -> Broken {
        let queue = &self.queues[packet.class.index()];
        let same = |(_, (handle, _)): &(usize, &(u64, u32))| flow(*handle) == flow(packet.handle);
        let mut places = queue.iter().enumerate().filter(same).take(2).map(|(place, _)| place);
        let place = places.find(|&place| queue[place] == (packet.handle, packet.len));
        let removed = place.and_then(|place| self.remove(packet.class, place));
        ensure!(removed.is_some(), "{packet:?} gave way out of turn");
        Ok(())
    }

    fn note_drops(&mut self, drops: &Drops) {
        self.events.extend(drops.marked.iter().map(|&(handle, class)| Event::Marked(handle, class)));
        self.events.extend(drops.dropped.iter().map(|(p, reason)| Event::Dropped(p.handle, p.class, *reason)));
    }

    /// Drops out of the queues: only an active queue discipline may do that when packets leave.
    fn settle_drops(&mut self, drops: Drops) -> Broken {
        self.note_drops(&drops);
        for (handle, class) in drops.marked {
            let may = self.kind(class).is_active() && self.tree.config(class).ecn && handle & ECN_CAPABLE != 0;
            ensure!(may, "marked packet {handle:#x} of {class:?}");
            let queued = self.queues[class.index()].iter().any(|&(queued, _)| queued == handle);
            ensure!(queued, "marked packet {handle:#x}, which is not queued");
        }
        for (packet, reason) in drops.dropped {
            let active = self.kind(packet.class).is_active();
            ensure!(active && reason == DropReason::Congestion, "dequeue dropped {packet:?} as {reason:?}");
            let may = !self.tree.config(packet.class).ecn || packet.handle & ECN_CAPABLE == 0;
            ensure!(may, "dropped {packet:?}, which could have been marked");
            // The head is behind the packets that are dropped for it, or has just been sent.
            let queue = &self.queues[packet.class.index()];
            let place = queue.iter().position(|&queued| queued == (packet.handle, packet.len));
            let removed = place.and_then(|place| self.remove(packet.class, place));
            ensure!(removed.is_some(), "dropped {packet:?}, which was not queued");
            let left = self.class_backlog(packet.class.index()).bytes;
            let largest = self.tree.link().max_packet;
            ensure!(
                left > u64::from(largest),
                "dropped {packet:?} with {left} B behind it; the largest packet is {largest} B"
            );
        }
        Ok(())
    }

    fn settle_sent(&mut self, packet: &Packet) -> Broken {
        self.events.push(Event::Sent(packet.handle, packet.class));
        self.leave(packet).map_err(|error| format!("sent: {error}"))
    }

    fn settle_end(&mut self, end: &Event) -> Broken {
        let backlog = self.backlog();
        match *end {
            Event::Idle => ensure!(backlog.packets == 0, "idle with {backlog:?}"),
            Event::WaitUntil(t) => {
                ensure!(backlog.packets > 0, "waits until {t} without backlog");
                ensure!(t > self.now, "waits until {t} at {}", self.now);
                let waiting = |leaf: &&ClassId| self.queued(**leaf) > 0;
                let limited = self.leaves().iter().filter(waiting).all(|&leaf| self.has_ceiling(leaf));
                let may = match self.work_conserving {
                    WorkConserving::Always => false,
                    WorkConserving::UnlessLimited => limited,
                    WorkConserving::Never => true,
                };
                ensure!(may, "waits until {t} with {backlog:?} and nothing to wait for");
            }
            Event::Sent(..) | Event::Dropped(..) | Event::Marked(..) => {}
        }
        self.events.push(end.clone());
        Ok(())
    }

    /// One call of dequeue; returns the class that sent.
    pub(crate) fn dequeue(&mut self) -> Result<Option<Packet>, String> {
        let mut drops = Drops::default();
        let dequeued = self.scheduler.dequeue(self.now, &mut drops);
        let sent = match dequeued {
            Dequeued::Packet(packet) => {
                self.settle_sent(&packet)?;
                self.settle_drops(drops)?;
                Some(packet)
            }
            _ if !drops.dropped.is_empty() || !drops.marked.is_empty() => {
                return Err(format!("{drops:?}, {dequeued:?}"));
            }
            Dequeued::WaitUntil(t) => self.settle_end(&Event::WaitUntil(t)).map(|()| None)?,
            Dequeued::Idle => self.settle_end(&Event::Idle).map(|()| None)?,
        };
        self.check(sent.as_ref().map(|packet| packet.class))?;
        Ok(sent)
    }

    /// One call of dequeue_batch, or the equivalent single calls.
    pub(crate) fn dequeue_batch(&mut self, max_packets: usize, max_bytes: u64, batch: bool) -> Broken {
        if !batch {
            let mut bytes = 0;
            for _ in 0..max_packets {
                if bytes >= max_bytes {
                    break;
                }
                let Some(packet) = self.dequeue()? else { break };
                bytes += u64::from(packet.len);
            }
            return Ok(());
        }
        let mut drops = Drops::default();
        let mut sent = Vec::with_capacity(max_packets);
        let end = self.scheduler.dequeue_batch(self.now, max_packets, max_bytes, &mut sent, &mut drops);
        self.settle_drops(drops)?;
        let mut bytes = 0;
        for (count, packet) in sent.iter().enumerate() {
            ensure!(
                count < max_packets && bytes < max_bytes,
                "{packet:?} is beyond {max_packets} packets, {max_bytes} B"
            );
            bytes += u64::from(packet.len);
            self.settle_sent(packet)?;
        }
        let full = sent.len() >= max_packets || bytes >= max_bytes;
        match end {
            BatchEnd::Full => {
                ensure!(full, "full with {} packets, {bytes} B of {max_packets}, {max_bytes}", sent.len())
            }
            BatchEnd::WaitUntil(t) => self.settle_end(&Event::WaitUntil(t))?,
            BatchEnd::Idle => self.settle_end(&Event::Idle)?,
        }
        ensure!(full == (end == BatchEnd::Full), "{end:?} after {} packets of {max_packets}", sent.len());
        self.check(sent.last().map(|packet| packet.class))
    }

    /// One call of dequeue. If the scheduler is not work-conserving, repeats it at each announced time until a packet
    /// leaves.
    pub(crate) fn send(&mut self) -> Result<Option<Packet>, String> {
        for _ in 0..200 {
            let sent = self.dequeue()?;
            match self.events.last() {
                Some(&Event::WaitUntil(t)) if self.work_conserving == WorkConserving::Never && t < Nanos::MAX => {
                    self.now = t;
                }
                _ => return Ok(sent),
            }
        }
        Err(format!("200 waits and no packet, at {}", self.now))
    }

    /// Dequeues until a packet leaves or there is none, jumping to each announced time.
    pub(crate) fn wait_out(&mut self) -> Broken {
        for _ in 0..200 {
            if self.dequeue()?.is_some() {
                return Ok(());
            }
            match self.events.last() {
                Some(&Event::WaitUntil(t)) if t == Nanos::MAX => return Ok(()),
                Some(&Event::WaitUntil(t)) => {
                    let before = Nanos(t.0 - 1);
                    if before > self.now {
                        self.now = before;
                        ensure!(self.dequeue()?.is_none(), "a packet was sent before {t}, when it was said to wait");
                    }
                    self.now = t;
                }
                _ => return Ok(()),
            }
        }
        Err(format!("200 waits and no packet, at {}", self.now))
    }

    pub(crate) fn purge(&mut self) -> Broken {
        let mut drops = Drops::default();
        self.scheduler.purge(self.now, &mut drops);
        self.note_drops(&drops);
        ensure!(drops.marked.is_empty(), "purge marked {:?}", drops.marked);
        for (packet, reason) in drops.dropped {
            ensure!(reason == DropReason::Purged, "purged {packet:?} as {reason:?}");
            self.leave(&packet).map_err(|error| format!("purged: {error}"))?;
        }
        let left = self.backlog();
        ensure!(left.packets == 0, "purge kept {left:?}");
        self.check_everything()
    }

    /// Changes classes. Returns true if the change was accepted; otherwise nothing may have changed.
    pub(crate) fn reconfigure(
        &mut self,
        info: &'static SchedulerInfo,
        (spec, survivors): (TreeSpec, Survivors),
    ) -> Result<bool, String> {
        let tree = spec.build();
        let change = Change { scheduler: info, tree: &tree, leniency: Leniency::Refuse, survivors: &survivors };
        let mut drops = Drops::default();
        let prepared = prepare(&change, Members::new());
        // Nothing has changed yet, even if preparation failed.
        self.check_everything()?;
        let Ok(prepared) = prepared else { return Ok(false) };
        drop(prepared.commit(&mut self.scheduler, self.now, &mut drops));
        self.note_drops(&drops);
        let mut old = std::mem::replace(&mut self.queues, vec![VecDeque::new(); tree.len()]);
        let fair = |class: u32| self.is_fair(ClassId(class)) || self.by_flow[class as usize];
        let by_flow: Vec<bool> = (0..old.len() as u32).map(fair).collect();
        self.by_flow = vec![false; tree.len()];
        (self.tree, self.spec) = (tree, spec);
        for (packet, reason) in &drops.dropped {
            let (handle, len) = (packet.handle, packet.len);
            let from = old.iter().position(|queue| queue.contains(&(handle, len)));
            let Some(from) = from else { return Err(format!("dropped {packet:?}, which was not queued")) };
            let new = survivors.get(from).copied().flatten();
            let right = match (new, reason) {
                (None, DropReason::ClassRemoved) => packet.class.index() == from,
                (
                    Some(new),
                    DropReason::QueuePackets
                    | DropReason::QueueBytes
                    | DropReason::TotalPackets
                    | DropReason::PushedOut,
                ) => packet.class == new,
                _ => false,
            };
            ensure!(right, "dropped {packet:?} of old class {from} as {reason:?}; its heir is {new:?}");
            old[from].retain(|queued| queued.0 != handle);
        }
        for (from, queue) in old.into_iter().enumerate().filter(|(_, queue)| !queue.is_empty()) {
            let Some(new) = survivors[from] else { return Err(format!("packets of removed class {from}: {queue:?}")) };
            self.by_flow[new.index()] |= by_flow[from];
            self.queues[new.index()].extend(queue);
        }
        self.total = self.count();
        self.check_everything()?;
        Ok(true)
    }

    /// Retunes the scheduler to `with`, which was made for the same tree. Returns true if it could.
    pub(crate) fn retune(&mut self, mut with: Box<dyn Scheduler>) -> Result<bool, String> {
        let retuned = self.scheduler.retune(self.now, &mut *with);
        self.check_everything()?;
        Ok(retuned)
    }

    fn check(&mut self, touched: Option<ClassId>) -> Broken {
        self.calls += 1;
        if self.calls.is_multiple_of(EVERYTHING) {
            return self.check_everything();
        }
        let (is, should) = (self.scheduler.backlog(), self.backlog());
        ensure!(is == should, "backlog {is:?}, should be {should:?}");
        if let Some(class) = touched.filter(|class| class.index() < self.queues.len()) {
            self.check_class(class)?;
        }
        match self.invariants {
            Invariants::AfterEveryCall => self.scheduler.check_invariants(),
            Invariants::WithEverything => Ok(()),
        }
    }

    fn check_class(&self, class: ClassId) -> Broken {
        let (is, should) = (self.scheduler.class_backlog(class), self.class_backlog(class.index()));
        ensure!(is == should, "{class:?}: backlog {is:?}, should be {should:?}");
        Ok(())
    }

    pub(crate) fn check_everything(&self) -> Broken {
        assert_eq!(self.total, self.count(), "the model itself");
        let (is, should) = (self.scheduler.backlog(), self.backlog());
        ensure!(is == should, "backlog {is:?}, should be {should:?}");
        for index in 0..self.queues.len() {
            self.check_class(ClassId(index as u32))?;
        }
        for beyond in [self.queues.len() as u32, u32::MAX] {
            let is = self.scheduler.class_backlog(ClassId(beyond));
            ensure!(is == Amount::default(), "class {beyond} does not exist and has {is:?}");
        }
        self.scheduler.check_invariants()
    }
}
