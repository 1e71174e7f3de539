//! Ceilings under a clock: they do not cost the classes below them, and limit the wait of a leaf.

use alloc::vec::Vec;

use super::super::tests::*;
use crate::contract::{ClassConfig, ClassId, Dequeued, Hierarchy, LatencyRate, Nanos, Packet, Rate, Ratio, Scheduler};
use crate::schedulers::hls::urgent::delays;
use crate::schedulers::hls::{Advances, CREDITS_PER_BYTE, Hls, RunWeights};
use crate::test_link::invariants;
use alloc::collections::VecDeque;
use proptest::prelude::*;

/// Packets that arrive at one time, `after` nanoseconds after those before: leaf, length, number.
#[derive(Clone, Debug)]
struct Arrivals {
    after: u64,
    packets: Vec<(usize, u32, u32)>,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrivals>> {
    let len = prop_oneof![Just(1000u32), 1u32..=1000];
    let packets = proptest::collection::vec((0usize..1 << 20, len, 1u32..6), 0..5);
    let after = prop_oneof![6 => 0u64..10_000, 2 => 0u64..200_000, 1 => 0u64..2_000_000];
    proptest::collection::vec((after, packets).prop_map(|(after, packets)| Arrivals { after, packets }), 1..200)
}

/// An event of a run.
enum Seen<'a> {
    Arrived(ClassId),
    /// The first bit of the packet leaves.
    Started(&'a Packet),
}

/// Plays `steps` on a link of 1 Gbit/s, on which a byte takes 8 ns; then until `rest` later.
fn play(tree: &Hierarchy, steps: &[Arrivals], rest: Nanos, each: impl FnMut(&mut Hls, Nanos, Seen)) {
    play_admitted(tree, steps, rest, |_, _, _| true, each);
}

/// [`play`] with those packets only that `admit` takes.
fn play_admitted(
    tree: &Hierarchy,
    steps: &[Arrivals],
    rest: Nanos,
    mut admit: impl FnMut(ClassId, Nanos, u32) -> bool,
    mut each: impl FnMut(&mut Hls, Nanos, Seen),
) {
    let mut hls = Hls::new(tree).unwrap();
    let leaves = tree.leaves();
    // The link is busy until `free`, or the scheduler has nothing to send before `wake`.
    let (mut now, mut free, mut wake) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
    let last = Arrivals { after: rest.0, packets: Vec::new() };
    for step in steps.iter().chain([&last]) {
        let until = now.saturating_add(Nanos(step.after));
        loop {
            let at = now.max(free).max(wake);
            if at > until {
                break;
            }
            now = at;
            match hls.dequeue(now, &mut no_drops) {
                Dequeued::Packet(packet) => {
                    each(&mut hls, now, Seen::Started(&packet));
                    free = now.saturating_add(Nanos(8 * u64::from(packet.len)));
                }
                Dequeued::WaitUntil(later) => {
                    assert!(later > now, "waits for the past");
                    assert!(hls.backlog().packets > 0, "waits with nothing queued");
                    wake = later;
                }
                Dequeued::Idle => {
                    assert_eq!(hls.backlog().packets, 0, "idle with packets queued");
                    break;
                }
            }
            invariants(&hls).unwrap();
        }
        now = until;
        for &(leaf, len, count) in &step.packets {
            let class = leaves[leaf % leaves.len()];
            for _ in 0..count {
                if hls.class_backlog(class).packets < 50 && admit(class, now, len) {
                    hls.enqueue(now, packet(class.0, len), &mut no_drops);
                    each(&mut hls, now, Seen::Arrived(class));
                    wake = now;
                }
            }
            invariants(&hls).unwrap();
        }
    }
}

/// One class in `one_in` has a ceiling, one leaf in five is latency-critical.
fn some_limits(one_in: u32) -> impl Strategy<Value = ClassConfig> {
    let ceiling = prop_oneof![Just(8u64), 1_000_000u64..1_000_000_000, 50_000_000u64..300_000_000];
    let depth = proptest::option::of(0u64..20_000);
    (0..one_in, ceiling, depth, 0u32..5, proptest::option::of(1u64..5000)).prop_map(
        |(limited, bps, ceiling_burst, critical, burst)| ClassConfig {
            ceiling: (limited == 0).then(|| Rate::from_bps(bps).unwrap()),
            ceiling_burst: ceiling_burst.filter(|_| limited == 0),
            latency_critical: critical == 0,
            burst: burst.filter(|_| critical == 0),
            ..ClassConfig::default()
        },
    )
}

/// Returns true if `class` or a class below it has a ceiling.
fn limited_at_or_below(tree: &Hierarchy) -> Vec<bool> {
    let mut limited: Vec<bool> = (0..tree.len()).map(|at| tree.config(ClassId(at as u32)).ceiling.is_some()).collect();
    for class in tree.classes().rev() {
        let parent = tree.parent(class).unwrap();
        limited[parent.index()] |= limited[class.index()];
    }
    limited
}

fn ahead_below(tree: &Hierarchy) -> Vec<u64> {
    let advances = Advances::for_tree(tree, &RunWeights::for_tree(tree).unwrap()).unwrap();
    let mut ahead: Vec<u64> = (0..tree.len()).map(|at| advances.bytes(ClassId(at as u32))).collect();
    for class in tree.classes().rev() {
        ahead[tree.parent(class).unwrap().index()] += ahead[class.index()];
    }
    ahead
}

/// A class with a ceiling, up to ten classes without one below it, and a class beside it.
fn trees_below_a_ceiling() -> impl Strategy<Value = Hierarchy> {
    let below = proptest::collection::vec((0usize..1 << 20, 100u64..1000, 0u32..6), 2..10);
    (50u64..400, below).prop_map(|(ceiling, below)| {
        let mut tree = builder(1000);
        let mut parents = alloc::vec![tree.add(ClassId::ROOT, ceiled(1000, ceiling)).unwrap()];
        tree.add(ClassId::ROOT, weighted(1000)).unwrap();
        for (parent, weight, critical) in below {
            let config = ClassConfig { latency_critical: critical == 0, ..weighted(weight) };
            parents.push(tree.add(parents[parent % parents.len()], config).unwrap());
        }
        tree.build().unwrap()
    })
}

/// Keeps some leaves backlogged for `packets` packets, the others never; checks Theorem 3 as the test below does.
fn check_greedy(tree: &Hierarchy, greedy: u32, packets: usize) {
    let (limited, ahead) = (limited_at_or_below(tree), ahead_below(tree));
    let mut watch = FairnessWatch::new(tree, |class| !limited[class.index()], |class| ahead[class.index()]);
    let mut hls = Hls::new(tree).unwrap();
    let mut now = Nanos::ZERO;
    let mut seed = greedy;
    for _ in 0..packets {
        for (at, &leaf) in tree.leaves().iter().enumerate() {
            while greedy >> (at % 8) & 1 == 1 && hls.class_backlog(leaf).packets < 4 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let len = if at % 3 == 0 { 1000 } else { 1 + (seed >> 16) % 1000 };
                hls.enqueue(now, packet(leaf.0, len), &mut no_drops);
                watch.arrived(leaf);
            }
        }
        match hls.dequeue(now, &mut no_drops) {
            Dequeued::Packet(packet) => {
                watch.sent(&packet);
                now = now.saturating_add(Nanos(8 * u64::from(packet.len)));
            }
            Dequeued::WaitUntil(wake) => now = wake,
            Dequeued::Idle => return,
        }
        invariants(&hls).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Losses at each wait for a ceiling would add up.
    #[test]
    fn siblings_below_a_ceiling_do_not_drift_apart(
        tree in prop_oneof![trees_of(12, some_limits(8)), trees_below_a_ceiling()], greedy in any::<u32>()
    ) {
        check_greedy(&tree, greedy, 20_000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Theorem 3 for siblings that have no ceiling, nor any class below them, wherever ceilings are above and beside them.
    #[test]
    fn siblings_below_a_ceiling_keep_to_theorem_3(tree in trees_of(40, some_limits(4)), steps in arrivals()) {
        let (limited, ahead) = (limited_at_or_below(&tree), ahead_below(&tree));
        let mut watch = FairnessWatch::new(&tree, |class| !limited[class.index()], |class| ahead[class.index()]);
        play(&tree, &steps, Nanos::from_millis(5), |_, _, seen| match seen {
            Seen::Arrived(class) => watch.arrived(class),
            Seen::Started(packet) => watch.sent(packet),
        });
    }
}

/// A counterexample from review: c may have 100 of 1000 Mbit/s; a and b share it as 1 : 1, and a1 and a2 share the rate
/// of a.
fn a_and_b_below_a_ceiling() -> (Hierarchy, [ClassId; 5]) {
    let mut tree = builder(1500);
    let c = tree.add(ClassId::ROOT, ceiled(1000, 100)).unwrap();
    let o = tree.add(ClassId::ROOT, weighted(1000)).unwrap();
    let a = tree.add(c, weighted(750)).unwrap();
    let b = tree.add(c, weighted(750)).unwrap();
    let a1 = tree.add(a, weighted(499)).unwrap();
    let a2 = tree.add(a, weighted(499)).unwrap();
    (tree.build().unwrap(), [o, a, b, a1, a2])
}

#[test]
fn a_class_whose_leaves_all_wait_for_a_ceiling_loses_nothing_to_its_sibling() {
    let (tree, [o, a, b, a1, a2]) = a_and_b_below_a_ceiling();
    let sent = saturate(&tree, &[o, b, a1, a2]);
    for (class, expected) in [(a, 50), (b, 50), (a1, 25), (a2, 25), (o, 900)] {
        assert_mbps(&sent, class, expected);
    }
}

/// Traffic within a burst and a part of the link, of which a byte takes 8 ns; tokens are bits times the denominator of
/// that part.
struct Envelope {
    tokens: u128,
    burst: u128,
    part: Ratio,
    filled: Nanos,
}

impl Envelope {
    fn new(burst: u64, part: Ratio) -> Self {
        let burst = u128::from(burst) * 8 * part.denominator;
        Self { tokens: burst, burst, part, filled: Nanos::ZERO }
    }

    fn takes(&mut self, now: Nanos, len: u32) -> bool {
        let brought = self.part.numerator * u128::from((now - self.filled).0);
        (self.tokens, self.filled) = ((self.tokens + brought).min(self.burst), now);
        let cost = u128::from(len) * 8 * self.part.denominator;
        let fits = cost <= self.tokens;
        self.tokens -= if fits { cost } else { 0 };
        fits
    }
}

/// The longest delay in ns, rounded up.
fn delay(server: &LatencyRate, burst: u64) -> u128 {
    let at_rate = (u128::from(burst) * 8 * server.share.denominator).div_ceil(server.share.numerator);
    at_rate + (server.late.numerator * 8).div_ceil(server.late.denominator)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// The promised delay of a leaf holds while it conforms to its traffic, for any traffic and ceilings of the others.
    /// A third of those leaves do not conform.
    #[test]
    fn packets_leave_within_the_delay_that_is_promised(
        tree in prop_oneof![trees_of(40, some_limits(12)), trees_of(6, some_limits(12))], steps in arrivals()
    ) {
        let servers = delays(&tree);
        let burst = |leaf: ClassId| tree.config(leaf).burst.unwrap_or(tree.link().max_packet.into());
        let mut kept: Vec<Option<Envelope>> = servers
            .iter()
            .enumerate()
            .map(|(at, server)| {
                let server = server.as_ref().filter(|_| at % 3 != 0)?;
                Some(Envelope::new(burst(ClassId(at as u32)), server.traffic))
            })
            .collect();
        let mut waiting: Vec<VecDeque<Nanos>> = alloc::vec![VecDeque::new(); tree.len()];
        let admit = |class: ClassId, now: Nanos, len: u32| {
            kept[class.index()].as_mut().is_none_or(|envelope| envelope.takes(now, len))
        };
        play_admitted(&tree, &steps, Nanos::from_millis(5), admit, |_, now, seen| match seen {
            Seen::Arrived(class) => waiting[class.index()].push_back(now),
            Seen::Started(packet) => {
                let index = packet.class.index();
                let arrived = waiting[index].pop_front().unwrap();
                if let Some(server) = servers[index].as_ref().filter(|_| index % 3 != 0) {
                    let took = u128::from((now - arrived).0) + 8 * u128::from(packet.len);
                    let bound = delay(server, burst(packet.class));
                    assert!(took <= bound, "{:?}: {took} of {bound} ns", packet.class);
                }
            }
        });
    }

    /// Theorem 5, and its extension to leaves with ceilings at them or above them.
    #[test]
    fn a_leaf_is_visited_again_in_time_however_many_ceilings_it_waits_for(
        tree in trees_of(15, some_limits(4)), steps in arrivals()
    ) {
        let run = RunWeights::for_tree(&tree).unwrap();
        let ahead = ahead_below(&tree);
        let weights: u64 = tree.classes().map(|class| run.credits(class)).sum();
        let round = weights.div_ceil(CREDITS_PER_BYTE) + 1000 * tree.leaves().len() as u64;
        let turn = 8 * u128::from(2 * round + ahead[0]);
        let mut bounds = alloc::vec![0u128; tree.len()];
        for class in tree.classes() {
            let parent = tree.parent(class).unwrap();
            let above = if parent == ClassId::ROOT { turn } else { bounds[parent.index()] };
            let own = tree.config(class).ceiling.map_or(0, |ceiling| {
                let most = u128::try_from(a_bar(&tree, &run, class)).unwrap().div_ceil(CREDITS_PER_BYTE.into());
                let debt = (most + u128::from(ahead[class.index()])) * 8_000_000_000;
                // A nanosecond for the time to wake up, which is rounded up.
                turn + 1 + debt.div_ceil(ceiling.bps().into())
            });
            bounds[class.index()] = above + own;
        }
        let mut since: Vec<Option<Nanos>> = alloc::vec![None; tree.len()];
        play(&tree, &steps, Nanos::from_secs(10_000_000), |hls, now, seen| match seen {
            Seen::Arrived(class) => {
                since[class.index()].get_or_insert(now);
            }
            Seen::Started(packet) => {
                for class in hls.visits.drain(..) {
                    // A leaf that only owes is visited, too.
                    let Some(since) = &mut since[class.index()] else { continue };
                    let (gap, bound) = (u128::from((now.max(*since) - *since).0), bounds[class.index()]);
                    assert!(gap <= bound, "{class:?}: {gap} of {bound} ns");
                    *since = now;
                }
                let end = now.saturating_add(Nanos(8 * u64::from(packet.len)));
                let is_left = hls.class_backlog(packet.class).packets > 0;
                since[packet.class.index()] = is_left.then_some(end);
            }
        });
    }
}

#[test]
fn leaves_that_were_due_before_a_change_return_by_when_they_were_due_and_not_by_their_numbers() {
    // The first is the slower: it is due after the second.
    let ceiling = |bps: u64| ClassConfig {
        ceiling: Some(Rate::from_bps(bps).unwrap()),
        ceiling_burst: Some(1),
        ..ClassConfig::default()
    };
    let mut builder = builder(1000);
    let slow = builder.add(ClassId::ROOT, ceiling(1_000_000)).unwrap();
    let fast = builder.add(ClassId::ROOT, ceiling(2_000_000)).unwrap();
    let tree = builder.build().unwrap();
    let sent = |retuned: bool| -> Vec<ClassId> {
        let mut hls = Hls::new(&tree).unwrap();
        for class in [slow, slow, fast, fast] {
            hls.enqueue(Nanos::ZERO, packet(class.0, 1000), &mut no_drops);
        }
        let mut sent = Vec::new();
        for now in [0, 0, 0, 1_000_000_000, 1_000_000_000] {
            if retuned && now > 0 {
                assert!(hls.retune(Nanos(now), &mut Hls::new(&tree).unwrap()));
            }
            if let Dequeued::Packet(packet) = hls.dequeue(Nanos(now), &mut no_drops) {
                sent.push(packet.class);
            }
        }
        sent
    };
    assert_eq!(sent(false), [slow, fast, fast, slow]);
    assert_eq!(sent(true), sent(false));
}
