//! `drr`: Deficit Round Robin of Shreedhar and Varghese, as \[drrpp\] Sections 2.4.4 and 3.1.1 tell it. Flat.
//!
//! Each class with packets is visited once per round. A visit adds the class's quantum to its deficit and sends packets as
//! long as the deficit covers them; what is left is kept for the next round, or forgotten when the class has become empty.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | Q_i, quantum | `Leaf::quantum` | 2^-16 byte |
//! | D_i, deficit (credit) | `Leaf::deficit` | 2^-16 byte |
//! | active flow list | `tail`, `Leaf::next`: a ring whose head is after its tail | |
//! | F = sum of Q_i, the round | bounded by [`quanta`] | |
//!
//! **Quanta.** A class's quantum is what the user set. Where some classes set one, the others follow from the first of
//! those in proportion to the shares; where none does, the quanta are in proportion to the shares, as \[drrpp\] Section
//! 3.1.1 wants them, and as small as they can be with the smallest at least the largest packet, which makes the work per
//! packet O(1). With shares as far apart as 1 : 10^9 a round would then last for hours, and every class but one would be
//! silent that long. So a round is never longer than one largest packet per leaf plus what the link carries in one second
//! ([`ROUND`]): where that binds, the quanta of the smallest classes fall below a packet, and they collect credit over
//! several rounds. Quanta are rounded to the nearest 2^-16 byte.
//!
//! **Cost per packet.** O(1) where every quantum is at least the largest packet. Otherwise at most three walks over the
//! active classes per call: one in which nobody can send, one that credits all the rounds in which nobody could, one more
//! that is sure to send.
//!
//! **Invariants.** The ring holds exactly the classes with packets. The deficit of a class is below its head packet between
//! its visits, so 0 <= D_i < L_max, and 0 while it is empty. So over m visits in which a class stays backlogged it sends
//! between m Q_i - L_max and m Q_i + L_max.
//!
//! **Overflow budget.** Quanta are below 2^41 bytes (10^6 leaves of 2^20 bytes and 2^37 bytes of link time; a user's are
//! below 2^32), deficits below that plus 2^20: 2^58 units. Shares (2^64) times a round (2^41) in units of 2^-16 fit 128 bits.
//!
//! **Validation.** The bounds above and the pairwise fairness bound of the original paper are property tests below.
//!
//! DIFFERENCE: quanta and deficits count 2^-16 bytes; the paper counts bytes. Else small shares would be rounded away.
//! DIFFERENCE: rounds in which no class can send are credited at once and not walked one by one. The order is the same.
//! DIFFERENCE: under [`Leniency::Ignore`](crate::registry::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::hierarchy::{Feature, Hierarchy, QueueLimits};
use crate::packet::{ClassId, Packet};
use crate::queue::{LeafQueue, PacketSlab};
use crate::registry::{BuildError, SchedulerInfo, WorkConserving};
use crate::scheduler::{Backlog, Dequeued, DropReason, DropSink, Scheduler};
use crate::units::Nanos;

/// What `drr` is and supports.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "drr",
    paper: "drrpp",
    summary: "deficit round robin: flat, a quantum of bytes per class and round",
    features: &[Feature::Quantum],
    work_conserving: WorkConserving::Always,
    cost: "O(1); O(leaves) where a quantum is below the largest packet",
    bounds: &["fairness", "transmission_gap", "delay"],
    build: |tree| Ok(Box::new(Drr::new(tree)?)),
};

/// Quanta and deficits count this fraction of a byte: 2^-16.
pub const FRACTION_BITS: u32 = 16;

/// A round lasts at most this long beyond one largest packet per leaf, unless the user sets quanta.
pub const ROUND: Nanos = Nanos::from_secs(1);

const NIL: u32 = u32::MAX;

/// The quantum that each class of `tree` runs with, in units of 2^-[`FRACTION_BITS`] bytes, by class id; 0 for the root and
/// inner classes. The module's page says how they are chosen.
///
/// # Errors
/// [`BuildError::Parameter`] for a quantum of zero, or for one outside 2^-16 .. 2^32 bytes that would have to follow from
/// the first one that was set.
pub fn quanta(tree: &Hierarchy) -> Result<Vec<u64>, BuildError> {
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
    let mut quanta = alloc::vec![0; tree.len()];
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

/// One class, on one cache line. A class that is not a leaf has no quantum.
#[derive(Debug)]
#[repr(align(64))]
struct Leaf {
    queue: LeafQueue,
    quantum: u64,
    deficit: u64,
    next: u32,
}

const _: () = assert!(size_of::<Leaf>() == 64);

impl Leaf {
    /// What the deficit must reach for the head packet to be sent. Only asked of a class with packets.
    fn need(&self) -> u64 {
        u64::from(self.queue.head_len().unwrap_or(0)) << FRACTION_BITS
    }
}

/// Deficit Round Robin over the leaves of a hierarchy.
#[derive(Debug)]
pub struct Drr {
    leaves: Vec<Leaf>,
    slab: PacketSlab,
    bytes: u64,
    max_packet: u32,
    /// Classes in the ring.
    active: u32,
    /// The last class of the ring; its head, the class that is visited next, is the one after it.
    tail: u32,
    /// Whether the head has been given its quantum, and its next packet is covered.
    credited: bool,
}

impl Drr {
    /// A scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// As [`quanta`].
    pub fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        let closed = QueueLimits { packets: 0, bytes: 0 };
        let leaves = quanta(tree)?
            .into_iter()
            .enumerate()
            .map(|(index, quantum)| {
                let limits = if quantum == 0 { closed } else { tree.config(ClassId(index as u32)).limits };
                Leaf { queue: LeafQueue::new(limits), quantum, deficit: 0, next: NIL }
            })
            .collect();
        let link = tree.link();
        Ok(Self {
            leaves,
            slab: PacketSlab::new(link.max_queued),
            bytes: 0,
            max_packet: link.max_packet,
            active: 0,
            tail: NIL,
            credited: false,
        })
    }

    fn head(&self) -> Option<u32> {
        if self.active == 0 { None } else { Some(self.leaves[self.tail as usize].next) }
    }

    /// Puts a class that has just got its first packet at the end of the ring.
    fn activate(&mut self, index: u32) {
        if self.active == 0 {
            self.leaves[index as usize].next = index;
        } else {
            let tail = &mut self.leaves[self.tail as usize];
            let head = core::mem::replace(&mut tail.next, index);
            self.leaves[index as usize].next = head;
        }
        // A class that arrives while another is being visited comes after it: the head stays the head.
        self.tail = index;
        self.active += 1;
    }

    /// Takes the head, which has become empty, out of the ring and ends its visit.
    fn deactivate_head(&mut self) {
        let head = self.leaves[self.tail as usize].next;
        let leaf = &mut self.leaves[head as usize];
        leaf.deficit = 0;
        let next = core::mem::replace(&mut leaf.next, NIL);
        self.active -= 1;
        if self.active == 0 {
            self.tail = NIL;
        } else {
            self.leaves[self.tail as usize].next = next;
        }
        self.credited = false;
    }

    /// Gives every active class the quanta of the rounds in which none of them could send. No class has a visit under way.
    fn skip_rounds(&mut self) {
        let mut rounds = u64::MAX;
        let mut index = self.tail;
        for _ in 0..self.active {
            let leaf = &self.leaves[index as usize];
            rounds = rounds.min((leaf.need() - leaf.deficit).div_ceil(leaf.quantum));
            index = leaf.next;
        }
        for _ in 0..self.active {
            let leaf = &mut self.leaves[index as usize];
            // Below the class's need, as `rounds - 1` quanta are not enough for it.
            leaf.deficit += (rounds - 1) * leaf.quantum;
            index = leaf.next;
        }
    }

    /// Begins or continues the visit of the head class: its next packet, or nothing where its credit does not cover it. The
    /// visit ends here if the packet after that is not covered either. Only asked while a class is active.
    #[inline]
    fn visit(&mut self) -> Option<Packet> {
        let index = self.head()?;
        let leaf = &mut self.leaves[index as usize];
        if !self.credited {
            leaf.deficit += leaf.quantum;
        }
        let need = leaf.need();
        if need > leaf.deficit {
            self.tail = index;
            return None;
        }
        leaf.deficit -= need;
        let packet = leaf.queue.pop(&mut self.slab, ClassId(index))?;
        self.bytes -= u64::from(packet.len);
        if leaf.queue.is_empty() {
            self.deactivate_head();
        } else {
            self.credited = leaf.need() <= leaf.deficit;
            if !self.credited {
                self.tail = index;
            }
        }
        Some(packet)
    }
}

impl Scheduler for Drr {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let index = packet.class.0;
        let Some(leaf) = self.leaves.get_mut(packet.class.index()).filter(|leaf| leaf.quantum > 0) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        let len = packet.len;
        let was_empty = leaf.queue.is_empty();
        if let Err((packet, reason)) = leaf.queue.push(&mut self.slab, packet) {
            return drops.dropped(now, packet, reason);
        }
        self.bytes += u64::from(len);
        if was_empty {
            self.activate(index);
        }
    }

    fn dequeue(&mut self, _now: Nanos, _drops: &mut dyn DropSink) -> Dequeued {
        for pass in 0..2 {
            for _ in 0..self.active {
                if let Some(packet) = self.visit() {
                    return Dequeued::Packet(packet);
                }
            }
            if pass == 0 && self.active > 0 {
                self.skip_rounds();
            }
        }
        assert!(self.active == 0, "after the rounds in which nobody can send, somebody can");
        Dequeued::Idle
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: u64::from(self.slab.queued()), bytes: self.bytes }
    }

    fn class_backlog(&self, class: ClassId) -> Backlog {
        self.leaves.get(class.index()).map_or(Backlog::default(), |leaf| leaf.queue.backlog())
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        while let Some(index) = self.head() {
            while let Some(packet) = self.leaves[index as usize].queue.pop(&mut self.slab, ClassId(index)) {
                self.bytes -= u64::from(packet.len);
                drops.dropped(now, packet, DropReason::Purged);
            }
            self.deactivate_head();
        }
    }

    fn check_invariants(&self) -> Result<(), String> {
        let largest = u64::from(self.max_packet) << FRACTION_BITS;
        let mut index = self.tail;
        for place in 0..self.active {
            let Some(leaf) = self.leaves.get(index as usize) else { return Err(format!("the ring leads to {index}")) };
            let need = leaf.need();
            let holds = if self.credited && place == 1 % self.active {
                leaf.deficit >= need && leaf.deficit < leaf.quantum + largest.max(1)
            } else {
                leaf.deficit < need || leaf.deficit == 0
            };
            if leaf.queue.is_empty() || !holds {
                return Err(format!("class {index}: deficit {} for {need}, {:?}", leaf.deficit, leaf.queue.backlog()));
            }
            index = leaf.next;
        }
        if self.active > 0 && index != self.tail {
            return Err(format!("a ring of {} classes does not close", self.active));
        }
        let mut bytes = 0;
        let mut active = 0;
        for (index, leaf) in self.leaves.iter().enumerate() {
            if leaf.queue.is_empty() && leaf.deficit != 0 {
                return Err(format!("class {index} is empty with a deficit of {}", leaf.deficit));
            }
            active += u32::from(!leaf.queue.is_empty());
            bytes += leaf.queue.backlog().bytes;
        }
        if (active, bytes) != (self.active, self.bytes) {
            return Err(format!("{active} classes with {bytes} B, counted {} and {}", self.active, self.bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::{ClassConfig, LinkConfig, Share};
    use crate::units::{NANOS_PER_SEC, Rate};
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    const L_MAX: u32 = 1500;

    fn flat(rate: u64, configs: impl IntoIterator<Item = ClassConfig>) -> Hierarchy {
        let link = LinkConfig { max_packet: L_MAX, ..LinkConfig::new(Rate::from_bps(rate).unwrap()) };
        let mut tree = Hierarchy::builder(link);
        for config in configs {
            tree.add(ClassId::ROOT, config).unwrap();
        }
        tree.build().unwrap()
    }

    fn weighted(weight: u64) -> ClassConfig {
        ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() }
    }

    fn quantum(quantum: u32) -> ClassConfig {
        ClassConfig { quantum: Some(quantum), ..ClassConfig::default() }
    }

    fn never(_: Nanos, packet: Packet, reason: DropReason) {
        panic!("{packet:?} dropped: {reason:?}");
    }

    fn put(drr: &mut Drr, class: usize, len: u32) {
        drr.enqueue(Nanos::ZERO, Packet { handle: 0, len, class: ClassId(class as u32) }, &mut never);
    }

    fn take(drr: &mut Drr) -> Option<(usize, u32)> {
        let got = match drr.dequeue(Nanos::ZERO, &mut never) {
            Dequeued::Packet(packet) => Some((packet.class.index(), packet.len)),
            Dequeued::Idle => None,
            Dequeued::WaitUntil(_) => panic!("drr never waits"),
        };
        drr.check_invariants().unwrap();
        got
    }

    #[test]
    fn quanta_follow_the_shares_with_the_smallest_a_largest_packet() {
        let tree = flat(NANOS_PER_SEC, [weighted(3), weighted(2), weighted(5)]);
        let bytes: Vec<u64> = quanta(&tree).unwrap().iter().map(|quantum| quantum >> FRACTION_BITS).collect();
        assert_eq!(bytes, [0, 2250, 1500, 3750]);
    }

    #[test]
    fn quanta_that_are_not_set_follow_the_first_that_is() {
        let with = |weight, quantum| ClassConfig { quantum, ..weighted(weight) };
        let tree = flat(NANOS_PER_SEC, [with(4, None), with(2, Some(100)), with(1, Some(7)), with(1, None)]);
        let bytes: Vec<u64> = quanta(&tree).unwrap().iter().map(|quantum| quantum >> FRACTION_BITS).collect();
        assert_eq!(bytes, [0, 200, 100, 7, 50]);
    }

    #[test]
    fn a_quantum_of_zero_or_beyond_32_bits_is_refused() {
        let tree = flat(NANOS_PER_SEC, [quantum(1), quantum(0)]);
        let zero = BuildError::Parameter { class: ClassId(2), what: "quantum", value: 0, min: 1, max: u32::MAX.into() };
        assert_eq!(Drr::new(&tree).unwrap_err(), zero);
        let set = ClassConfig { quantum: Some(u32::MAX), ..weighted(1) };
        let tree = flat(NANOS_PER_SEC, [set, weighted(1)]);
        assert!(Drr::new(&tree).is_ok());
        let tree = flat(NANOS_PER_SEC, [set, weighted(2)]);
        assert!(matches!(Drr::new(&tree), Err(BuildError::Parameter { class: ClassId(2), value: 8_589_934_590, .. })));
        let set = ClassConfig { quantum: Some(1), ..weighted(1_000_000) };
        assert!(matches!(
            Drr::new(&flat(NANOS_PER_SEC, [set, weighted(1)])),
            Err(BuildError::Parameter { class: ClassId(2), value: 0, .. })
        ));
    }

    #[test]
    fn one_part_in_a_billion_gets_its_share_and_rounds_last_a_second() {
        let tree = flat(NANOS_PER_SEC, [weighted(1_000_000_000), weighted(1)]);
        let quanta = quanta(&tree).unwrap();
        let round = (quanta[1] + quanta[2]) >> FRACTION_BITS;
        assert!(round <= 125_000_000 + 2 * 1500, "{round}");
        let ratio = quanta[1] / quanta[2];
        assert!(ratio.abs_diff(1_000_000_000) < 1_000_000_000 / 1_000, "{ratio}");
    }

    #[test]
    fn a_class_that_comes_back_while_another_is_served_starts_without_credit() {
        let mut drr = Drr::new(&flat(NANOS_PER_SEC, [quantum(1000), quantum(1500)])).unwrap();
        put(&mut drr, 1, 600);
        put(&mut drr, 1, 600);
        put(&mut drr, 2, 100);
        assert_eq!(take(&mut drr), Some((1, 600)));
        assert_eq!(take(&mut drr), Some((2, 100)));
        assert_eq!(take(&mut drr), Some((1, 600)), "400 of credit and another 1000");
        put(&mut drr, 1, 1200);
        put(&mut drr, 2, 1500);
        assert_eq!(take(&mut drr), Some((2, 1500)), "the credit of 800 was forgotten, 1000 do not cover 1200");
        assert_eq!(take(&mut drr), Some((1, 1200)));
        assert_eq!(take(&mut drr), None);
    }

    /// The paper's algorithm written down in the plainest way, in bytes, one round after another.
    #[derive(Default)]
    struct Plain {
        active: VecDeque<usize>,
        queues: Vec<VecDeque<u32>>,
        deficits: Vec<u64>,
        quanta: Vec<u64>,
        visiting: bool,
    }

    impl Plain {
        fn put(&mut self, class: usize, len: u32) {
            if self.queues[class].is_empty() {
                self.active.push_back(class);
            }
            self.queues[class].push_back(len);
        }

        fn take(&mut self) -> Option<(usize, u32)> {
            while let Some(&class) = self.active.front() {
                if !self.visiting {
                    self.deficits[class] += self.quanta[class];
                }
                let head = self.queues[class][0];
                if u64::from(head) > self.deficits[class] {
                    self.active.rotate_left(1);
                    continue;
                }
                self.deficits[class] -= u64::from(head);
                self.queues[class].pop_front();
                match self.queues[class].front() {
                    Some(&next) if u64::from(next) <= self.deficits[class] => self.visiting = true,
                    Some(_) => {
                        self.visiting = false;
                        self.active.rotate_left(1);
                    }
                    None => {
                        self.visiting = false;
                        self.deficits[class] = 0;
                        self.active.pop_front();
                    }
                }
                return Some((class, head));
            }
            None
        }
    }

    fn some_quantum() -> impl Strategy<Value = u32> {
        prop_oneof![1u32..50, 50u32..1500, 1500u32..6000, Just(u32::MAX)]
    }

    proptest! {
        #[test]
        fn packets_leave_in_the_order_of_the_papers_algorithm(
            sizes in proptest::collection::vec(some_quantum(), 1..8),
            steps in proptest::collection::vec((any::<prop::sample::Index>(), 0u32..3, 0u32..=L_MAX), 1..300),
        ) {
            let mut drr = Drr::new(&flat(NANOS_PER_SEC, sizes.iter().map(|&size| quantum(size)))).unwrap();
            let mut plain = Plain {
                queues: alloc::vec![VecDeque::new(); sizes.len() + 1],
                deficits: alloc::vec![0; sizes.len() + 1],
                quanta: core::iter::once(0).chain(sizes.iter().map(|&size| u64::from(size))).collect(),
                ..Plain::default()
            };
            for (class, what, len) in steps {
                if what == 0 {
                    prop_assert_eq!(take(&mut drr), plain.take());
                } else {
                    let class = 1 + class.index(sizes.len());
                    put(&mut drr, class, len);
                    plain.put(class, len);
                }
            }
            while let Some(got) = plain.take() {
                prop_assert_eq!(take(&mut drr), Some(got));
            }
            prop_assert_eq!(take(&mut drr), None);
        }

        #[test]
        fn over_m_visits_a_class_sends_m_quanta_within_a_packet_and_pairs_stay_fair(
            sizes in proptest::collection::vec(prop_oneof![1u32..1500, 1500u32..9000], 2..7),
            lens in proptest::collection::vec(1u32..=L_MAX, 400),
            busy in proptest::collection::vec(any::<bool>(), 400),
        ) {
            let mut drr = Drr::new(&flat(NANOS_PER_SEC, sizes.iter().map(|&size| quantum(size)))).unwrap();
            // Classes 1 and 2 stay backlogged; the others come and go.
            for class in (1..=sizes.len()).chain([1, 2]) {
                put(&mut drr, class, L_MAX);
            }
            let mut sent = [0i128; 3];
            let mut unfairness = (0i128, 0i128);
            let q = |class: usize| i128::from(drr.leaves[class].quantum);
            let (q1, q2) = (q(1), q(2));
            for (&len, &busy) in lens.iter().zip(&busy) {
                let (class, bytes) = take(&mut drr).unwrap();
                if class <= 2 {
                    sent[class] += i128::from(bytes);
                    put(&mut drr, class, len);
                }
                if busy && sizes.len() > 2 {
                    put(&mut drr, 3 + len as usize % (sizes.len() - 2), len);
                }
                let mut visits = [0; 3];
                for class in [1, 2] {
                    let leaf = &drr.leaves[class];
                    let credit = ((sent[class] as u64) << FRACTION_BITS) + leaf.deficit;
                    prop_assert_eq!(credit % leaf.quantum, 0);
                    visits[class] = (credit / leaf.quantum) as i64;
                    let visited = drr.credited && drr.head() == Some(class as u32);
                    prop_assert!(visited || leaf.deficit < u64::from(L_MAX) << FRACTION_BITS);
                }
                prop_assert!((visits[1] - visits[2]).abs() <= 1, "{} and {} visits", visits[1], visits[2]);
                let ahead = sent[1] * q2 - sent[2] * q1;
                unfairness = (unfairness.0.min(ahead), unfairness.1.max(ahead));
            }
            // |sent_1 / f_1 - sent_2 / f_2| <= 2 L_max + Q_min over every interval, with f_i = Q_i / Q_min.
            let q_min = q1.min(q2);
            let bound = (2 * (i128::from(L_MAX) << FRACTION_BITS) + q_min) * q1 * q2;
            prop_assert!(((unfairness.1 - unfairness.0) * q_min) << FRACTION_BITS <= bound);
        }

        #[test]
        fn service_never_lags_its_rate_by_more_than_the_latency_of_drr(
            sizes in proptest::collection::vec(L_MAX..9000, 1..7),
            lens in proptest::collection::vec(1u32..=L_MAX, 500),
            start in 0usize..50,
        ) {
            // W >= (Q_1 / F) (B - (3 F - 2 Q_1)) once the link has sent B bytes since class 1 became backlogged: a latency of
            // (3 F - 2 phi) / r at the rate r Q_1 / F.
            let mut drr = Drr::new(&flat(NANOS_PER_SEC, sizes.iter().map(|&size| quantum(size)))).unwrap();
            let round: i128 = sizes.iter().map(|&size| i128::from(size)).sum();
            let own = i128::from(sizes[0]);
            for class in (2..=sizes.len()).chain(2..=sizes.len()) {
                put(&mut drr, class, L_MAX);
            }
            let (mut all, mut served, mut last) = (0, 0, 0);
            for (step, &len) in lens.iter().enumerate() {
                if step == start {
                    put(&mut drr, 1, len);
                    put(&mut drr, 1, len);
                    // The packet that the link is sending when class 1 arrives has yet to end.
                    all = last;
                }
                let Some((class, bytes)) = take(&mut drr) else { continue };
                last = i128::from(bytes);
                put(&mut drr, class, len);
                all += i128::from(bytes);
                if step >= start {
                    prop_assert!(served * round >= own * (all - (3 * round - 2 * own)), "{served} of {all}");
                }
                served += if class == 1 { i128::from(bytes) } else { 0 };
            }
        }

        #[test]
        fn a_round_is_a_packet_per_leaf_and_a_second_of_the_link_at_most(
            weights in proptest::collection::vec((0u32..=9).prop_map(|digits| 10u64.pow(digits)), 1..50),
            rate in (0u32..=12).prop_map(|digits| 10u64.pow(digits)),
        ) {
            let tree = flat(rate, weights.iter().map(|&weight| weighted(weight)));
            let quanta = quanta(&tree).unwrap();
            let round: u64 = quanta.iter().sum::<u64>() >> FRACTION_BITS;
            prop_assert!(round <= weights.len() as u64 * u64::from(L_MAX) + rate / 8 + 1);
            let smallest = quanta[1..].iter().min().unwrap() >> FRACTION_BITS;
            let least = *weights.iter().min().unwrap();
            let parts = weights.iter().sum::<u64>() / least;
            prop_assert!(smallest >= u64::from(L_MAX) - 1 || parts * u64::from(L_MAX) > rate / 8, "{smallest} B");
        }
    }
}
