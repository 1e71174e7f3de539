//! `drr`: Deficit Round Robin of Shreedhar and Varghese, as described in \[drrpp\] Sections 2.4.4 and 3.1.1. Flat.
//!
//! Each class with packets is visited once per round. A visit adds the class's quantum to its deficit and sends packets
//! as long as the deficit covers them. The rest is kept for the next round. It is forgotten when the class has become
//! empty.
//!
//! A visit ends when its last packet *has been sent*, as in the loop of \[drr\], where `Send` takes the time of the
//! packet. Only then does the class move to the end of the list, behind those that came meanwhile, or leave it because
//! it is empty. Here that is the next call of `dequeue`. So a packet that arrives for a class during the transmission
//! of its last one is still a packet of that visit.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | Q_i, quantum | `Deficit::quantum` | 2^-16 byte |
//! | D_i, deficit (credit) | `Deficit::credit` | 2^-16 byte |
//! | active flow list | `Turns::ring` | |
//! | F = sum of Q_i, the round | bounded by `quanta` | |
//!
//! **Quanta.** A quantum set by the user is kept. If some classes set one, the others follow from the first of those in
//! proportion to the shares. If none does, the quanta are in proportion to the shares, as \[drrpp\] Section 3.1.1
//! requires. The smallest is then the largest packet, which makes the work per packet O(1). With shares as far apart as
//! 1 : 10^9 a round would then last for hours, and every class but one would be silent that long. So a round is never
//! longer than one largest packet per leaf plus the bytes that the link carries in one second (`ROUND`). If that limit
//! applies, the quanta of the smallest classes fall below a packet, and these classes collect credit over several
//! rounds. Quanta are rounded to the nearest 2^-16 byte.
//!
//! **Cost per packet.** O(1) if every quantum is at least the largest packet. Otherwise there are at most three walks
//! over the active classes per call: one in which no class can send, one that credits all such rounds, and one that is
//! sure to send.
//!
//! **Invariants.** The ring holds exactly the classes with packets, and the one whose packet is in transmission. The
//! deficit of a class is below its head packet between its visits, so 0 <= D_i < L_max, and 0 while it is empty. So
//! over m visits in which a class stays backlogged it sends between m Q_i - L_max and m Q_i + L_max.
//!
//! **Overflow budget.** Quanta are below 2^41 bytes (10^6 leaves of 2^20 bytes and 2^37 bytes of link time; a user's are
//! below 2^32), deficits below that plus 2^20: 2^58 units. Shares (2^64) times a round (2^41) in units of 2^-16 fit 128 bits.
//!
//! **Validation.** The pseudo-code of \[drr\] on a link in virtual time is the oracle for the order of packets. The bounds above
//! and the pairwise fairness bound of \[drr\] are property tests.
//!
//! DIFFERENCE: quanta and deficits count 2^-16 bytes. The paper counts bytes, which would round small shares away.
//! DIFFERENCE: a class that is being visited counts as being in the active list. The pseudo-code has taken it out, and would
//! list a class twice that gets a packet then.
//! DIFFERENCE: rounds in which no class can send are credited at once and not walked one by one. The order is the same.
//! DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use core::any::Any;

use crate::bases::batches::{PlainIn, PlainOut, fill, pop_all, push_all};
use crate::bases::flows::{Flows, Ring, Turn, backlog_of_flows, batches_of_flows};
use crate::contract::{
    Amount, BatchEnd, BuildError, ClassId, Delay, Dequeued, DropSink, Fairness, Feature, Hierarchy, LatencyRate, Nanos,
    OutOfMemory, Packet, Promises, Ratio, Scheduler, SchedulerInfo, Sharing, TransmissionGap, Visit, WorkConserving,
    boxed, same_kind,
};
use crate::parts::memory::{bytes_of, filled};

#[cfg(test)]
mod tests;

/// Registry entry of `drr`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "drr",
    aliases: &[],
    paper: "drrpp",
    summary: "deficit round robin: flat, a quantum of bytes per class and round",
    features: &[Feature::Quantum, Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(1); O(leaves) where a quantum is below the largest packet",
    sharing: Sharing::Leaves(quanta),
    promises: Promises {
        fairness: Some(Fairness::Quanta),
        transmission_gap: Some(TransmissionGap::Quanta),
        delay: Some(Delay::LatencyRate(delays)),
        delay_in_order: true,
        visit: Some(Visit::Bytes(quanta)),
        ..Promises::NONE
    },
    memory: |tree| memory(tree, 1),
    build: |tree, _| boxed(Drr::new(tree)?),
};

/// Quanta and deficits count this fraction of a byte: 2^-16.
pub const FRACTION_BITS: u32 = 16;

/// A round lasts at most this long beyond one largest packet per leaf, unless the user sets quanta.
pub(crate) const ROUND: Nanos = Nanos::from_secs(1);

/// Returns the effective quantum of each class of `tree`, in units of 2^-[`FRACTION_BITS`] bytes, by class id; 0 for
/// the root and inner classes. See the module's documentation for the choice.
///
/// # Errors
/// [`BuildError::Parameter`] for a quantum of zero, or for one outside 2^-16 .. 2^32 bytes that would have to follow from
/// the first one that was set.
pub fn quanta(tree: &Hierarchy) -> Result<Box<[u64]>, BuildError> {
    // A leaf deep in a lopsided tree may have less than 2^-64 of the link; it counts as that much.
    let share = |leaf: ClassId| tree.share_all_busy(leaf).max(1);
    let set = |leaf: ClassId| tree.config(leaf).quantum;
    let outside =
        |class, value| BuildError::Parameter { class, what: "quantum", value, min: 1, max: u64::from(u32::MAX) };

    if let Some(&zero) = tree.leaves().iter().find(|&&leaf| set(leaf) == Some(0)) {
        return Err(outside(zero, 0));
    }
    let largest = u128::from(tree.link().max_packet);
    let first_set = tree.leaves().iter().find_map(|&leaf| Some((leaf, set(leaf)?)));
    // All quanta are `share * bytes / of`.
    let (bytes, of) = if let Some((leaf, quantum)) = first_set {
        (u128::from(quantum), share(leaf))
    } else {
        let smallest = tree.leaves().iter().map(|&leaf| share(leaf)).min().unwrap_or(1);
        let round = tree.leaves().len() as u128 * largest + u128::from(tree.link().rate.bytes_in(ROUND));
        let whole = 1 << 64;
        if largest * whole <= round * smallest { (largest, smallest) } else { (round, whole) }
    };
    let mut quanta = filled(tree.len(), 0)?;
    for &leaf in tree.leaves() {
        quanta[leaf.index()] = match set(leaf) {
            Some(quantum) => u64::from(quantum) << FRACTION_BITS,
            None => {
                let quantum = (((share(leaf) * bytes) << FRACTION_BITS) + of / 2) / of;
                if first_set.is_some() && (quantum == 0 || quantum >> FRACTION_BITS > u128::from(u32::MAX)) {
                    return Err(outside(leaf, u64::try_from(quantum >> FRACTION_BITS).unwrap_or(u64::MAX)));
                }
                quantum.max(1) as u64
            }
        };
    }
    Ok(quanta)
}

/// The quantum and the credit of one class, in units of 2^-[`FRACTION_BITS`] byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deficit {
    /// Q_i; not 0 for a leaf.
    pub quantum: u64,
    /// D_i.
    pub credit: u64,
}

impl Turn for Deficit {
    #[inline(always)]
    fn begin(&mut self, len: u32) -> bool {
        let credit = self.credit + self.quantum;
        if need(len) > credit {
            return false;
        }
        self.credit = credit;
        true
    }

    #[inline(always)]
    fn covers(&self, len: u32) -> bool {
        need(len) <= self.credit
    }

    #[inline(always)]
    fn pay(&mut self, len: u32) {
        self.credit -= need(len);
    }

    #[inline(always)]
    fn end(&mut self, empty: bool) {
        if empty {
            self.credit = 0;
        }
    }
}

/// Credit that a packet of `len` bytes needs.
#[must_use]
#[inline]
pub(crate) const fn need(len: u32) -> u64 {
    (len as u64) << FRACTION_BITS
}

/// Returns the leaves of `tree` with their quanta.
///
/// # Errors
/// As [`quanta`].
pub(crate) fn flows(tree: &Hierarchy) -> Result<Flows<Deficit>, BuildError> {
    let quanta = quanta(tree)?;
    Ok(Flows::new(tree, |class| Deficit { quantum: quanta[class.index()], credit: 0 })?)
}

/// Adopts the quanta and limits of `with`. A class that is being visited keeps at most the maximum rest of a visit.
pub(crate) fn retune(flows: &mut Flows<Deficit>, with: &mut Flows<Deficit>) {
    let largest = need(flows.max_packet());
    flows.retune(with, |mine, theirs| {
        mine.quantum = theirs.quantum;
        mine.credit = mine.credit.min((mine.quantum + largest).saturating_sub(1));
    });
}

/// Memory of [`flows`] for `tree`, in bytes, including construction, plus `rings` rings of them.
pub(crate) fn memory(tree: &Hierarchy, rings: u64) -> u64 {
    Flows::<Deficit>::memory(tree) + bytes_of::<u64>(tree.len()) + rings * Ring::memory(tree)
}

/// An optional counter of visits.
pub(crate) trait Tally {
    /// Called when `flow` gets its quantum `times` times; `ring` is the number of its classes, this one included.
    fn begins(&mut self, flow: u32, times: u64, ring: u32);
    /// Records that the credit of `flow` did not cover its first packet `times` times.
    fn exhausts(&mut self, flow: u32, times: u64);
}

/// No-op tally.
impl Tally for () {
    #[inline(always)]
    fn begins(&mut self, _: u32, _: u64, _: u32) {}
    #[inline(always)]
    fn exhausts(&mut self, _: u32, _: u64) {}
}

/// Classes with packets that take turns by the rules of this module: all or some of those of a [`Flows`].
#[derive(Debug)]
pub(crate) struct Turns {
    /// The first is visited next, or is being visited; then it may have no packet except the one in transmission.
    pub ring: Ring,
    /// True if the first is being visited: it has been given its quantum, and sent a packet.
    visiting: bool,
}

impl Turns {
    /// Empty turns for the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        Ok(Self { ring: Ring::new(tree)?, visiting: false })
    }

    /// Removes all classes.
    pub(crate) fn clear(&mut self) {
        self.ring.clear();
        self.visiting = false;
    }

    /// Appends a class that has just got its first packet, unless it is the one being visited. A class that comes while
    /// another is being visited comes after it: the first stays the first.
    #[inline]
    pub(crate) fn push(&mut self, flow: u32) {
        if self.visited() != Some(flow) {
            self.ring.push(flow);
        }
    }

    /// Removes a class at any position, and its credit; returns true if it was in. O(n).
    pub(crate) fn remove(&mut self, flows: &mut Flows<Deficit>, flow: u32) -> bool {
        if self.ring.first() == Some(flow) {
            self.visiting = false;
        }
        let was_in = self.ring.remove(flow);
        if was_in {
            flows.state_mut(flow).credit = 0;
        }
        was_in
    }

    /// Removes and returns the next packet; `None` if no class has packets.
    #[inline(always)]
    pub(crate) fn next(
        &mut self,
        flows: &mut Flows<Deficit>,
        now: Nanos,
        drops: &mut dyn DropSink,
        tally: &mut impl Tally,
    ) -> Option<Packet> {
        self.settle(flows, tally);
        for pass in 0..2 {
            for _ in 0..self.ring.len() {
                if let Some(packet) = self.visit(flows, now, drops, tally) {
                    return Some(packet);
                }
            }
            if pass == 0 && !self.ring.is_empty() {
                self.skip_rounds(flows, tally);
            }
        }
        assert!(self.ring.is_empty(), "some class can send after the rounds in which none can");
        None
    }

    /// Gives every class the quanta of the rounds in which no class could send. No visit may be in progress.
    fn skip_rounds(&self, flows: &mut Flows<Deficit>, tally: &mut impl Tally) {
        let mut rounds = u64::MAX;
        self.ring.for_each(flows, |_, deficit, len| {
            rounds = rounds.min((need(len) - deficit.credit).div_ceil(deficit.quantum));
        });
        // Below the class's need, as `rounds - 1` quanta are not enough for it.
        self.ring.for_each(flows, |flow, deficit, _| {
            deficit.credit += (rounds - 1) * deficit.quantum;
            tally.begins(flow, rounds - 1, self.ring.len());
            tally.exhausts(flow, rounds - 1);
        });
    }

    /// Returns the class whose visit has begun and not ended.
    #[must_use]
    #[inline]
    pub(crate) fn visited(&self) -> Option<u32> {
        if self.visiting { self.ring.first() } else { None }
    }

    /// Ends the transmission. Also ends the visit in progress if its class has no packet that its credit covers;
    /// returns true if it did.
    #[inline(always)]
    pub(crate) fn settle(&mut self, flows: &mut Flows<Deficit>, tally: &mut impl Tally) -> bool {
        let Some(flow) = self.visited() else { return false };
        match flows.head_len(flow) {
            Some(len) if need(len) <= flows.state(flow).credit => return false,
            Some(_) => {
                self.ring.rotate();
                tally.exhausts(flow, 1);
            }
            None => {
                flows.state_mut(flow).credit = 0;
                self.ring.pop();
            }
        }
        self.visiting = false;
        true
    }

    /// Begins or continues the visit of the first class, after [`Turns::settle`]. Returns its next packet, or nothing
    /// if its credit does not cover it, which ends the visit.
    #[inline(always)]
    pub(crate) fn visit(
        &mut self,
        flows: &mut Flows<Deficit>,
        now: Nanos,
        drops: &mut dyn DropSink,
        tally: &mut impl Tally,
    ) -> Option<Packet> {
        let flow = self.ring.first()?;
        let need_now = need(flows.head_len(flow)?);
        let deficit = flows.state_mut(flow);
        if !self.visiting {
            deficit.credit += deficit.quantum;
            tally.begins(flow, 1, self.ring.len());
        }
        if need_now > deficit.credit {
            self.ring.rotate();
            tally.exhausts(flow, 1);
            return None;
        }
        deficit.credit -= need_now;
        self.visiting = true;
        flows.pop(flow, now, drops)
    }

    /// Checks the credits of the classes in it.
    ///
    /// # Errors
    /// The broken invariant, in words.
    #[cfg(feature = "invariants")]
    pub(crate) fn check(&self, flows: &Flows<Deficit>) -> Result<(), String> {
        let largest = need(flows.max_packet()).max(1);
        for (place, flow) in self.ring.iter().enumerate() {
            let Deficit { quantum, credit } = *flows.state(flow);
            let need = need(flows.head_len(flow).unwrap_or(0));
            let holds =
                if self.visiting && place == 0 { credit < quantum + largest } else { credit < need || credit == 0 };
            if !holds {
                return Err(format!("class {flow}: a credit of {credit} for {need}"));
            }
        }
        Ok(())
    }
}

/// A latency of (3 F - 2 phi) / r at the rate r phi / F, where F is the sum of all quanta and phi that of the class.
/// This rate is not the class's guarantee if quanta are set out of proportion. None if a quantum is below the largest
/// packet: a class then waits for several rounds.
fn delays(tree: &Hierarchy) -> Vec<Option<LatencyRate>> {
    let Ok(quanta) = quanta(tree) else { return alloc::vec![None; tree.len()] };
    let largest = u64::from(tree.link().max_packet);
    let covers = tree.leaves().iter().all(|leaf| quanta[leaf.index()] >> FRACTION_BITS >= largest);
    let round: u128 = quanta.iter().copied().map(u128::from).sum();
    let server = |index: usize| {
        let quantum = u128::from(quanta[index]);
        let share = Ratio { numerator: quantum, denominator: round };
        let late = Ratio { numerator: 3 * round - 2 * quantum, denominator: 1 << FRACTION_BITS };
        (covers && tree.is_leaf(ClassId(index as u32))).then_some(LatencyRate::new(share, late))
    };
    (0..tree.len()).map(server).collect()
}

/// Checks that the classes without packets have no credit, except `visited`.
///
/// # Errors
/// The broken invariant, in words.
#[cfg(feature = "invariants")]
pub(crate) fn check_idle(flows: &Flows<Deficit>, visited: Option<u32>) -> Result<(), String> {
    let idle = |&flow: &u32| flows.is_empty(flow) && visited != Some(flow);
    match flows.leaves().find(|flow| idle(flow) && flows.state(*flow).credit != 0) {
        Some(flow) => Err(format!("class {flow} is empty with a credit of {}", flows.state(flow).credit)),
        None => Ok(()),
    }
}

/// Deficit Round Robin over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct Drr {
    flows: Flows<Deficit>,
    turns: Turns,
}

impl Drr {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// As [`quanta`].
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        Ok(Self { flows: flows(tree)?, turns: Turns::new(tree)? })
    }
}

impl PlainIn for Drr {
    #[inline(always)]
    fn push_plain(&mut self, batch: &[Packet]) -> usize {
        let visited = self.turns.visited();
        self.flows.push_plain(&mut self.turns.ring, visited, batch)
    }

    #[inline(always)]
    fn push_any(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue(now, packet, drops);
    }
}

impl PlainOut for Drr {
    #[inline(always)]
    fn pop_plain(&mut self, slots: &mut [Packet]) -> (usize, u64) {
        self.flows.serve_plain(&mut self.turns.ring, &mut self.turns.visiting, slots)
    }

    /// Removes and returns the next packet, if the first class is not a FIFO or its quantum has to add up.
    #[inline(always)]
    fn pop_any(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.turns.next(&mut self.flows, now, drops, &mut ())
    }
}

impl Scheduler for Drr {
    #[inline]
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let flow = packet.class.0;
        if self.flows.push(now, packet, drops) == Some(true) {
            self.turns.push(flow);
        }
    }

    #[inline(always)]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.turns.next(&mut self.flows, now, drops, &mut ()).map_or(Dequeued::Idle, Dequeued::Packet)
    }

    batches_of_flows!();

    backlog_of_flows!();

    fn retune(&mut self, _now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        if !self.flows.fits(&with.flows) {
            return false;
        }
        retune(&mut self.flows, &mut with.flows);
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|deficit| deficit.credit = 0);
        self.turns.clear();
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let visited = self.turns.visited();
        self.flows.check_with(self.turns.ring.iter(), 0, visited)?;
        self.turns.check(&self.flows)?;
        check_idle(&self.flows, visited)
    }
}
