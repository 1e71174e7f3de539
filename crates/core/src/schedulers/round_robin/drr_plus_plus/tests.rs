//! DRR++ in the modified form against \[drrpp\] Sections 3.1.2 and 3.4.

use super::*;
use crate::contract::ClassConfig;
use crate::test_link::{Arrival, L_MAX, NS_PER_BYTE, Served, Wire, flat, order, pairs_within, run, traffic, weighted};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::prelude::*;

pub(crate) fn configs(critical: &[u32], best_effort: &[u32]) -> Vec<ClassConfig> {
    let with =
        |latency_critical, &quantum: &u32| ClassConfig { quantum: Some(quantum), latency_critical, ..weighted(1) };
    critical.iter().map(|q| with(true, q)).chain(best_effort.iter().map(|q| with(false, q))).collect()
}

/// Latency-critical classes first, each with its quantum in bytes.
fn drr(critical: &[u32], best_effort: &[u32]) -> DrrPlusPlus {
    DrrPlusPlus::new(&flat(configs(critical, best_effort))).unwrap()
}

#[test]
fn shortfalls_are_what_visits_of_latency_critical_classes_cost_guarantees() {
    let tree = |critical: bool| {
        let part = |thousandths: u64, latency_critical| {
            let link = crate::contract::LinkConfig::new(crate::contract::Rate::from_bps(4_000_000).unwrap());
            let guarantee = crate::contract::Rate::from_bps(link.rate.bps() / 1000 * thousandths).unwrap();
            ClassConfig { share: Some(Share::Guarantee(guarantee)), latency_critical, ..ClassConfig::default() }
        };
        let mut tree =
            Hierarchy::builder(crate::contract::LinkConfig::new(crate::contract::Rate::from_bps(4_000_000).unwrap()));
        for (thousandths, is_critical) in [(421, false), (210, false), (210, critical)] {
            assert!(tree.add(ClassId::ROOT, part(thousandths, is_critical)).is_ok());
        }
        tree.build().unwrap()
    };
    assert_eq!(shortfalls(&tree(false)).unwrap(), []);
    let said = shortfalls(&tree(true)).unwrap();
    // By a run in which all classes have packets throughout: the bytes of the first class in 1,500 packets.
    let packets: Vec<_> = (0..900).flat_map(|_| [1, 2, 3].map(|class| (class, 500))).collect();
    let sent = order(&mut DrrPlusPlus::new(&tree(true)).unwrap(), &packets);
    let rate = |class| sent[..1_500].iter().filter(|&&other| other == class).count() as u64 * 4_000_000 / 1_500;
    assert_eq!(said.iter().map(|short| short.leaf).collect::<Vec<_>>(), [ClassId(1), ClassId(2)]);
    assert_eq!(said.iter().map(|short| short.guarantee.bps()).collect::<Vec<_>>(), [1_684_000, 840_000]);
    for short in said {
        assert!(short.gets.abs_diff(rate(short.leaf.0)) < 10_000, "{short:?} {}", rate(short.leaf.0));
    }
    assert!(rate(3) > 1_500_000, "{}", rate(3));
}

#[test]
fn table_3_5_credits_q_lc_before_each_best_effort_class() {
    // Two packets of 100 bytes each are a quantum, and all classes are backlogged.
    let packets: Vec<_> = (0..12).flat_map(|_| [1, 2, 3, 4].map(|class| (class, 100))).collect();
    let sent = order(&mut drr(&[200], &[200, 200, 200]), &packets);
    assert_eq!(
        sent[..24],
        [[1, 1, 2, 2], [1, 1, 3, 3], [1, 1, 4, 4], [1, 1, 2, 2], [1, 1, 3, 3], [1, 1, 4, 4]].concat()
    );
}

#[test]
fn what_is_more_than_a_quantum_waits_for_one_best_effort_visit_and_keeps_its_place() {
    let mut drr = drr(&[1_000], &[1_500, 1_500]);
    let packets = [(2, 1_500), (3, 1_500), (1, 800), (1, 800), (2, 1_500), (1, 400), (3, 1_500)];
    // 200 bytes of credit are kept for the second round, which then covers both.
    assert_eq!(order(&mut drr, &packets), [1, 2, 1, 1, 3, 2, 3]);
}

#[test]
fn several_best_effort_classes_that_carry_deficits_exceed_theorem_2() {
    // All quanta are 1,500 bytes. A best-effort class that has sent 1 byte, and has 1,499 left that do not cover its next packet,
    // sends 2,999 bytes in its next visit. Eight of them do so between the visits of class 1.
    let mut drr = drr(&[1_500], &[1_500; 8]);
    let mut arrivals = Vec::new();
    for class in 2..=9 {
        arrivals.extend([1, 1_500, 1_499].map(|len| Arrival { at: 0, class, len }));
    }
    // It comes when the first of those visits has begun.
    let sigma = 8 * 1_500;
    arrivals.extend((0..8).map(|_| Arrival { at: 8 * NS_PER_BYTE + 1, class: 1, len: 1_500 }));
    let served = run(&mut drr, &arrivals);
    let last = served.iter().rfind(|packet| packet.class == 1).unwrap();
    let delay = (last.end - last.arrival).div_ceil(NS_PER_BYTE);
    // In bytes on the wire: sigma / rho + Q_LC + 3 Q_BE, and sigma / rho + Theta.
    let theorem_2 = 2 * sigma + 4 * 1_500;
    assert_eq!(delay, 8 * (1_500 + 2_999));
    assert!(delay > theorem_2 && delay <= 2 * sigma + 2 * 1_500 + 9 * 1_500, "{delay}, {theorem_2}");
}

/// Tables 3.1 and 3.2 with the turns of Definition 4, in bytes. The first `number` classes are latency-critical.
struct Paper<'a> {
    wire: Wire<'a>,
    /// Lists of the latency-critical and of the best-effort classes.
    lists: [VecDeque<usize>; 2],
    credits: Vec<u64>,
    quanta: &'a [u32],
    number: usize,
    visited: usize,
}

impl Paper<'_> {
    fn take_in(&mut self) {
        while let Some((class, was_empty)) = self.wire.take_in() {
            if was_empty && class != self.visited {
                self.lists[usize::from(class > self.number)].push_back(class);
            }
        }
    }

    /// Serves the first class of a list once.
    fn serve(&mut self, list: usize) {
        let Some(class) = self.lists[list].pop_front() else { return };
        self.visited = class;
        self.credits[class] += u64::from(self.quanta[class - 1]);
        while let Some(len) = self.wire.head(class).filter(|&len| len <= self.credits[class]) {
            self.credits[class] -= len;
            self.wire.send(class);
            self.take_in();
        }
        self.visited = 0;
        if self.wire.head(class).is_some() {
            self.lists[list].push_back(class);
        } else {
            self.credits[class] = 0;
        }
    }

    fn run(mut self) -> Vec<Served> {
        while !self.wire.is_empty() || self.wire.wait() {
            self.take_in();
            (0..self.lists[0].len()).for_each(|_| self.serve(0));
            self.serve(1);
        }
        self.wire.into_served()
    }
}

proptest! {
    #[test]
    fn packets_leave_in_the_order_of_tables_3_1_and_3_2(
        (critical, best_effort, arrivals) in
            (prop::collection::vec(prop_oneof![1u32..50, 50u32..4_000], 0..4), prop::collection::vec(prop_oneof![1u32..50, 50u32..4_000], 1..6))
                .prop_flat_map(|(critical, best_effort)| {
                    let classes = (critical.len() + best_effort.len()) as u32;
                    (Just(critical), Just(best_effort), traffic(classes, 200))
                }),
    ) {
        let quanta: Vec<u32> = critical.iter().chain(&best_effort).copied().collect();
        let paper = Paper {
            wire: Wire::new(quanta.len(), &arrivals),
            lists: Default::default(),
            credits: alloc::vec![0; quanta.len() + 1],
            quanta: &quanta,
            number: critical.len(),
            visited: 0,
        };
        prop_assert_eq!(run(&mut drr(&critical, &best_effort), &arrivals), paper.run());
    }
}

/// Maximum lateness of a packet of class 1, compared with a private link of the rate r Q_1 / (sum of Q_LC + Q_BE); in
/// units of ns / Q_1.
fn latest(served: &[Served], own: u32, round: u64) -> i128 {
    let (own, mut alone, mut latest) = (i128::from(own), 0, 0);
    for packet in served.iter().filter(|packet| packet.class == 1) {
        let time = i128::from(packet.len) * i128::from(NS_PER_BYTE) * i128::from(round);
        alone = i128::max(alone, i128::from(packet.arrival) * own) + time;
        latest = i128::max(latest, i128::from(packet.end) * own - alone);
    }
    latest
}

fn quanta(count: core::ops::Range<usize>) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![Just(L_MAX), L_MAX..3 * L_MAX], count)
}

/// Delays class 1's packets so that its traffic is within `sigma` bytes and `rho` bytes per second; sorted again.
fn shaped(mut arrivals: Vec<Arrival>, sigma: u64, rho: u64) -> Vec<Arrival> {
    // Tokens in bytes times 10^9.
    let (mut tokens, mut last) = (sigma * 1_000_000_000, 0);
    for arrival in arrivals.iter_mut().filter(|arrival| arrival.class == 1) {
        arrival.at = arrival.at.max(last);
        tokens = (tokens + (arrival.at - last) * rho).min(sigma * 1_000_000_000);
        let needed = u64::from(arrival.len) * 1_000_000_000;
        let wait = needed.saturating_sub(tokens).div_ceil(rho);
        tokens = tokens + wait * rho - needed;
        arrival.at += wait;
        last = arrival.at;
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// Best-effort classes from 2 on that are backlogged while `arrivals` last, with packets of lengths that `len` makes.
fn with_background(classes: u32, mut arrivals: Vec<Arrival>, len: impl Fn(u32, u64) -> u32) -> Vec<Arrival> {
    let bytes = arrivals.last().unwrap().at / NS_PER_BYTE;
    for class in 2..2 + classes {
        let (mut sum, mut k) = (0, 0);
        while sum < bytes && k < 900 {
            arrivals.push(Arrival { at: 0, class, len: len(class, k) });
            sum += u64::from(len(class, k));
            k += 1;
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn service_of_a_latency_critical_class_lags_its_rate_by_theta_at_most(
        (critical, best_effort, arrivals) in (quanta(1..4), quanta(1..9)).prop_flat_map(|(critical, best_effort)| {
            let classes = (critical.len() + best_effort.len()) as u32;
            (Just(critical), Just(best_effort), traffic(classes, 250))
        }),
        busy in any::<bool>(),
    ) {
        let number = (critical.len() + best_effort.len()) as u64;
        let (n, m) = (best_effort.len() as u32, critical.len());
        let arrivals = if busy && m == 1 {
            let own = arrivals.into_iter().map(|arrival| Arrival { class: 1, at: arrival.at * 4, ..arrival }).collect();
            with_background(n, own, |class, k| 700 + (u64::from(class) * 7_919 + k * 977) as u32 % 801)
        } else {
            arrivals
        };
        let served = run(&mut drr(&critical, &best_effort), &arrivals);
        let (own, l_max) = (u64::from(critical[0]), u64::from(L_MAX));
        let round = u64::from(critical.iter().sum::<u32>() + best_effort.iter().max().unwrap());
        // Theta times r Q_1.
        let theta = (round - own) * (own + l_max) + number * l_max * own;
        let late = latest(&served, critical[0], round);
        prop_assert!(late <= i128::from(theta * NS_PER_BYTE), "{late} ns / {own}");
    }

    #[test]
    fn delay_never_exceeds_theorem_2_where_best_effort_classes_carry_nothing_over(
        own in quanta(1..2), other in L_MAX..3 * L_MAX, classes in 1u32..9, parts in 3u32..9,
        sigma in u64::from(L_MAX)..20_000, part in 1u64..=10, mut arrivals in traffic(1, 250),
    ) {
        // The only one may carry over a deficit; several have packets that divide their quantum.
        let (own, other) = (own[0], if classes == 1 { other } else { other / parts * parts });
        let rho = 1_000_000_000 / NS_PER_BYTE * u64::from(own) / u64::from(own + other) * part / 10;
        arrivals.iter_mut().for_each(|arrival| arrival.class = 1);
        let len = |_, k| if classes == 1 { 700 + (k * 977 % 801) as u32 } else { other / parts };
        let all = with_background(classes, shaped(arrivals, sigma, rho), len);
        let served = run(&mut drr(&[own], &alloc::vec![other; classes as usize]), &all);
        let bound = sigma * 1_000_000_000 / rho + u64::from(own + 3 * other) * NS_PER_BYTE + 1;
        for packet in served.iter().filter(|packet| packet.class == 1) {
            prop_assert!(packet.end - packet.arrival <= bound, "{packet:?}, bound {bound}");
        }
    }

    #[test]
    fn latency_critical_classes_send_a_quantum_each_between_best_effort_visits_and_pairs_of_those_stay_fair(
        critical in quanta(1..3), best_effort in quanta(2..5), lens in prop::collection::vec(1u32..=L_MAX, 400)
    ) {
        let mut arrivals = Vec::new();
        for (index, &len) in lens.iter().enumerate() {
            let classes = (critical.len() + best_effort.len()) as u32;
            arrivals.push(Arrival { at: 0, class: 1 + index as u32 % classes, len });
        }
        let served = run(&mut drr(&critical, &best_effort), &arrivals);
        let number = critical.len() as u32;
        // All are backlogged until the first has sent its last packet.
        let last = |class| served.iter().rposition(|packet| packet.class == class).unwrap();
        let busy = &served[..(1..=number + best_effort.len() as u32).map(last).min().unwrap()];
        for run in busy.chunk_by(|one, next| (one.class <= number) == (next.class <= number)) {
            let bytes: u32 = run.iter().map(|packet| packet.len).sum();
            if run[0].class <= number {
                let most: u32 = critical.iter().map(|quantum| quantum + L_MAX).sum();
                prop_assert!(bytes <= most, "{bytes} of {most}");
            } else {
                let quantum = best_effort[(run[0].class - number - 1) as usize];
                prop_assert!(run.iter().all(|packet| packet.class == run[0].class));
                prop_assert!(bytes <= quantum + L_MAX);
            }
        }
        // |sent_i / f_i - sent_j / f_j| <= 2 L_max + Q_min, as under DRR.
        let (q1, q2) = (best_effort[0], best_effort[1]);
        let bound = (2 * u128::from(L_MAX) + u128::from(q1.min(q2))) * u128::from(q1) * u128::from(q2);
        prop_assert!(pairs_within(busy, (number + 1, q1), (number + 2, q2), bound / u128::from(q1.min(q2))));
    }
}
