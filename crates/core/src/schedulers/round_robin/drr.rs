//! `drr`: Deficit Round Robin of Shreedhar and Varghese, as \[drrpp\] Sections 2.4.4 and 3.1.1 tell it. Flat.
//!
//! Each class with packets is visited once per round. A visit adds the class's quantum to its deficit and sends packets
//! as long as the deficit covers them. What is left is kept for the next round. It is forgotten when the class has
//! become empty.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | Q_i, quantum | `Deficit::quantum` | 2^-16 byte |
//! | D_i, deficit (credit) | `Deficit::credit` | 2^-16 byte |
//! | active flow list | `Turns::ring` | |
//! | F = sum of Q_i, the round | bounded by `quanta` | |
//!
//! **Quanta.** A class's quantum is what the user set. Where some classes set one, the others follow from the first of
//! those in proportion to the shares. Where none does, the quanta are in proportion to the shares, as \[drrpp\] Section
//! 3.1.1 wants them. They are then as small as they can be with the smallest at least the largest packet, which makes
//! the work per packet O(1). With shares as far apart as 1 : 10^9 a round would then last for hours, and every class
//! but one would be silent that long. So a round is never longer than one largest packet per leaf plus what the link
//! carries in one second (`ROUND`). Where that binds, the quanta of the smallest classes fall below a packet, and
//! these classes collect credit over several rounds. Quanta are rounded to the nearest 2^-16 byte.
//!
//! **Cost per packet.** O(1) where every quantum is at least the largest packet. Otherwise there are at most three
//! walks over the active classes per call: one in which nobody can send, one that credits all the rounds in which
//! nobody could, and one that is sure to send.
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
//! DIFFERENCE: quanta and deficits count 2^-16 bytes. The paper counts bytes, which would round small shares away.
//! DIFFERENCE: rounds in which no class can send are credited at once and not walked one by one. The order is the same.
//! DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::flows::{Flows, Ring};
use crate::contract::{
    Amount, BuildError, ClassId, Delay, Dequeued, DropSink, Fairness, Feature, Hierarchy, LatencyRate, Nanos, Packet,
    Promises, Ratio, Scheduler, SchedulerInfo, TransmissionGap, WorkConserving, boxed,
};
use crate::parts::memory::{bytes_of, filled};

/// What `drr` is and supports.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "drr",
    aliases: &[],
    paper: "drrpp",
    summary: "deficit round robin: flat, a quantum of bytes per class and round",
    features: &[Feature::Quantum, Feature::ActiveQueue],
    work_conserving: WorkConserving::Always,
    cost: "O(1); O(leaves) where a quantum is below the largest packet",
    promises: Promises {
        fairness: Some(Fairness::Quanta),
        transmission_gap: Some(TransmissionGap::Quanta),
        delay: Some(Delay::LatencyRate(delays)),
    },
    memory,
    build: |tree, _| boxed(Drr::new(tree)?),
};

/// Quanta and deficits count this fraction of a byte: 2^-16.
pub(crate) const FRACTION_BITS: u32 = 16;

/// A round lasts at most this long beyond one largest packet per leaf, unless the user sets quanta.
pub(crate) const ROUND: Nanos = Nanos::from_secs(1);

/// The quantum that each class of `tree` runs with, in units of 2^-[`FRACTION_BITS`] bytes, by class id; 0 for the root and
/// inner classes. The module's page says how they are chosen.
///
/// # Errors
/// [`BuildError::Parameter`] for a quantum of zero, or for one outside 2^-16 .. 2^32 bytes that would have to follow from
/// the first one that was set.
pub(crate) fn quanta(tree: &Hierarchy) -> Result<Box<[u64]>, BuildError> {
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

/// What a packet of `len` bytes takes of a credit.
#[must_use]
#[inline]
pub(crate) const fn need(len: u32) -> u64 {
    (len as u64) << FRACTION_BITS
}

/// The leaves of `tree` with their quanta.
///
/// # Errors
/// As [`quanta`].
pub(crate) fn flows(tree: &Hierarchy) -> Result<Flows<Deficit>, BuildError> {
    let quanta = quanta(tree)?;
    Ok(Flows::new(tree, |class| Deficit { quantum: quanta[class.index()], credit: 0 })?)
}

/// Bytes that [`flows`] take for `tree`, with what it takes to make them.
pub(crate) fn memory(tree: &Hierarchy) -> u64 {
    Flows::<Deficit>::memory(tree) + bytes_of::<u64>(tree.len())
}

/// Classes with packets that take turns as this page tells, all or some of those of a [`Flows`].
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The first is visited next.
    pub ring: Ring,
    /// Whether the first has been given its quantum, and its next packet is covered.
    credited: bool,
}

impl Turns {
    /// Puts a class that has just got its first packet at the end. A class that comes while another is being visited comes
    /// after it: the first stays the first.
    #[inline]
    pub(crate) fn push(&mut self, flows: &mut Flows<Deficit>, flow: u32) {
        self.ring.push(flows, flow);
    }

    /// Takes a class out, wherever it is, and its credit away; whether it was in. O(n).
    pub(crate) fn remove(&mut self, flows: &mut Flows<Deficit>, flow: u32) -> bool {
        if self.ring.first(flows) == Some(flow) {
            self.credited = false;
        }
        let was_in = self.ring.remove(flows, flow);
        if was_in {
            flows.state_mut(flow).credit = 0;
        }
        was_in
    }

    /// Takes out the packet that is next; nothing where no class is in.
    #[inline(always)]
    pub(crate) fn next(&mut self, flows: &mut Flows<Deficit>, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        for pass in 0..2 {
            for _ in 0..self.ring.len() {
                if let Some(packet) = self.visit(flows, now, drops) {
                    return Some(packet);
                }
            }
            if pass == 0 && !self.ring.is_empty() {
                self.skip_rounds(flows);
            }
        }
        assert!(self.ring.is_empty(), "after the rounds in which nobody can send, somebody can");
        None
    }

    /// Gives every class the quanta of the rounds in which none of them could send. No class has a visit under way.
    fn skip_rounds(&self, flows: &mut Flows<Deficit>) {
        let mut rounds = u64::MAX;
        self.ring.for_each(flows, |deficit, len| {
            rounds = rounds.min((need(len) - deficit.credit).div_ceil(deficit.quantum));
        });
        // Below the class's need, as `rounds - 1` quanta are not enough for it.
        self.ring.for_each(flows, |deficit, _| deficit.credit += (rounds - 1) * deficit.quantum);
    }

    /// Whether the visit of the first class has begun and not ended.
    #[must_use]
    #[inline]
    pub(crate) fn is_visiting(&self) -> bool {
        self.credited
    }

    /// Begins or continues the visit of the first class. Returns its next packet, or nothing where its credit does not
    /// cover it. The visit ends here if the packet after that is not covered either.
    #[inline]
    pub(crate) fn visit(&mut self, flows: &mut Flows<Deficit>, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let flow = self.ring.first(flows)?;
        let need_now = need(flows.head_len(flow)?);
        let deficit = flows.state_mut(flow);
        if !self.credited {
            deficit.credit += deficit.quantum;
        }
        if need_now > deficit.credit {
            self.ring.rotate(flows);
            return None;
        }
        deficit.credit -= need_now;
        let packet = flows.pop(flow, now, drops)?;
        match flows.head_len(flow) {
            None => {
                flows.state_mut(flow).credit = 0;
                self.ring.pop(flows);
                self.credited = false;
            }
            Some(len) => {
                self.credited = need(len) <= flows.state(flow).credit;
                if !self.credited {
                    self.ring.rotate(flows);
                }
            }
        }
        Some(packet)
    }

    /// Checks the credits of the classes in it.
    ///
    /// # Errors
    /// The broken invariant, in words.
    #[cfg(feature = "invariants")]
    pub(crate) fn check(&self, flows: &Flows<Deficit>) -> Result<(), String> {
        let largest = need(flows.max_packet()).max(1);
        for (place, flow) in self.ring.iter(flows).enumerate() {
            let Deficit { quantum, credit } = *flows.state(flow);
            let need = need(flows.head_len(flow).unwrap_or(0));
            let holds = if self.credited && place == 0 {
                credit >= need && credit < quantum + largest
            } else {
                credit < need || credit == 0
            };
            if !holds {
                return Err(format!("class {flow}: a credit of {credit} for {need}"));
            }
        }
        Ok(())
    }
}

/// A latency of (3 F - 2 phi) / r at the rate r phi / F, where F is the sum of all quanta and phi that of the class. This rate is not
/// the class's guarantee where quanta are set that are not in proportion. None where a quantum is below the largest packet: a class
/// then waits for several rounds.
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

/// Checks that the classes without packets have no credit.
///
/// # Errors
/// The broken invariant, in words.
#[cfg(feature = "invariants")]
pub(crate) fn check_idle(flows: &Flows<Deficit>) -> Result<(), String> {
    match flows.leaves().find(|&flow| flows.is_empty(flow) && flows.state(flow).credit != 0) {
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
    /// A scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// As [`quanta`].
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        Ok(Self { flows: flows(tree)?, turns: Turns::default() })
    }
}

impl Scheduler for Drr {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let flow = packet.class.0;
        if self.flows.push(now, packet, drops) == Some(true) {
            self.turns.push(&mut self.flows, flow);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.turns.next(&mut self.flows, now, drops).map_or(Dequeued::Idle, Dequeued::Packet)
    }

    fn backlog(&self) -> Amount {
        self.flows.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.flows.class_backlog(class)
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|deficit| deficit.credit = 0);
        self.turns = Turns::default();
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.flows.check(&[&self.turns.ring], 0)?;
        self.turns.check(&self.flows)?;
        check_idle(&self.flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ClassConfig, DropReason, LinkConfig, NANOS_PER_SEC, Rate, Share};
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
            let q = |class: usize| i128::from(drr.flows.state(class as u32).quantum);
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
                    let Deficit { quantum, credit } = *drr.flows.state(class as u32);
                    let credited = ((sent[class] as u64) << FRACTION_BITS) + credit;
                    prop_assert_eq!(credited % quantum, 0);
                    visits[class] = (credited / quantum) as i64;
                    let visited = drr.turns.credited && drr.turns.ring.first(&drr.flows) == Some(class as u32);
                    prop_assert!(visited || credit < u64::from(L_MAX) << FRACTION_BITS);
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
            // (3 F - 2 phi) / r at the rate r Q_1 / F. W counts bits as they are sent, so that it lags most when a packet of the
            // class starts.
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
                if step >= start && class != 1 {
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
