//! DRR++ in its first form against \[drrpp\] Tables 3.3 to 3.5.

use super::*;
use crate::schedulers::drr_plus_plus::tests::configs;
use crate::test_link::{L_MAX, Served, Wire, flat, invariants, never, order, run, traffic};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Latency-critical classes first, each with its quantum in bytes.
fn mw00(critical: &[u32], best_effort: &[u32]) -> Mw00 {
    Mw00::new(&flat(configs(critical, best_effort))).unwrap()
}

fn take(mw00: &mut Mw00) -> Option<(usize, u32)> {
    let dequeued = mw00.dequeue(Nanos::ZERO, &mut never);
    invariants(mw00).unwrap();
    match dequeued {
        Dequeued::Packet(packet) => Some((packet.class.index(), packet.len)),
        _ => None,
    }
}

fn put(mw00: &mut Mw00, class: usize, len: u32) {
    mw00.enqueue(Nanos::ZERO, Packet { handle: 0, len, class: ClassId(class as u32) }, &mut never);
}

#[test]
fn table_3_5_credits_n_q_lc_once_per_n_best_effort_classes() {
    // Two packets of 100 bytes each are a quantum, and all classes are backlogged.
    let packets: Vec<_> = (0..12).flat_map(|_| [1, 2, 3, 4].map(|class| (class, 100))).collect();
    let sent = order(&mut mw00(&[200], &[200, 200, 200]), &packets);
    assert_eq!(sent[..24], [[1; 6], [2, 2, 3, 3, 4, 4], [1; 6], [2, 2, 3, 3, 4, 4]].concat());
}

#[test]
fn a_packet_with_credit_is_sent_next_also_in_the_middle_of_a_visit() {
    let mut mw00 = mw00(&[500], &[4_000, 4_000]);
    for class in [2, 2, 2, 3, 3] {
        put(&mut mw00, class, 1_000);
    }
    assert_eq!(take(&mut mw00), Some((2, 1_000)));
    for len in [600, 400, 300] {
        put(&mut mw00, 1, len);
    }
    // Twice 500 bytes for this round; the 300 have to wait for the next one.
    let rest: Vec<_> = core::iter::from_fn(|| take(&mut mw00)).collect();
    assert_eq!(rest, [(1, 600), (1, 400), (2, 1_000), (2, 1_000), (3, 1_000), (3, 1_000), (1, 300)]);
}

/// Tables 3.3 and 3.4 without the transmit queue of best-effort packets, in bytes. The first `number` classes are
/// latency-critical.
struct Paper<'a> {
    wire: Wire<'a>,
    ready: VecDeque<usize>,
    waiting: VecDeque<usize>,
    best_effort: VecDeque<usize>,
    credits: Vec<u64>,
    quanta: &'a [u32],
    number: usize,
    /// The class whose packet is in transmission, and the best-effort class that is being visited.
    sending: usize,
    visited: usize,
    /// Visits left in this round.
    left: usize,
}

impl Paper<'_> {
    fn covered(&self, class: usize) -> bool {
        self.wire.head(class).is_some_and(|len| len <= self.credits[class])
    }

    fn take_in(&mut self) {
        while let Some((class, was_empty)) = self.wire.take_in() {
            if was_empty && class != self.sending && class != self.visited {
                if self.left == 0 && class <= self.number {
                    self.credits[class] = 0;
                }
                self.list(class);
            }
        }
    }

    fn list(&mut self, class: usize) {
        let list = match (class <= self.number, self.covered(class)) {
            (false, _) => &mut self.best_effort,
            (true, true) => &mut self.ready,
            (true, false) => &mut self.waiting,
        };
        list.push_back(class);
    }

    fn send(&mut self, class: usize) {
        self.credits[class] -= self.wire.head(class).unwrap();
        self.sending = class;
        self.wire.send(class);
        self.take_in();
        self.sending = 0;
    }

    fn send_critical(&mut self) {
        while let Some(class) = self.ready.pop_front() {
            self.send(class);
            if self.wire.head(class).is_some() {
                self.list(class);
            }
        }
    }

    fn visit(&mut self) {
        self.send_critical();
        let Some(class) = self.best_effort.pop_front() else { return };
        self.visited = class;
        self.credits[class] += u64::from(self.quanta[class - 1]);
        while self.covered(class) {
            self.send_critical();
            self.send(class);
        }
        (self.visited, self.left) = (0, self.left - 1);
        if self.wire.head(class).is_some() {
            self.best_effort.push_back(class);
        } else {
            self.credits[class] = 0;
        }
    }

    fn run(mut self) -> Vec<Served> {
        loop {
            if self.wire.is_empty() {
                if !self.wire.wait() {
                    return self.wire.into_served();
                }
                self.take_in();
            }
            let visits = self.best_effort.len();
            self.left = visits;
            for class in 1..=self.number {
                let quanta = u64::from(self.quanta[class - 1]) * visits.max(1) as u64;
                self.credits[class] = quanta + if self.wire.head(class).is_none() { 0 } else { self.credits[class] };
            }
            core::mem::take(&mut self.waiting).into_iter().for_each(|class| self.list(class));
            (0..visits).for_each(|_| self.visit());
            self.send_critical();
        }
    }
}

proptest! {
    #[test]
    fn packets_leave_in_the_order_of_tables_3_3_and_3_4(
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
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            best_effort: VecDeque::new(),
            credits: alloc::vec![0; quanta.len() + 1],
            quanta: &quanta,
            number: critical.len(),
            sending: 0,
            visited: 0,
            left: 0,
        };
        prop_assert_eq!(run(&mut mw00(&critical, &best_effort), &arrivals), paper.run());
    }

    #[test]
    fn a_latency_critical_class_sends_n_quanta_per_round_within_a_packet(
        own in L_MAX..4_000, best_effort in prop::collection::vec(L_MAX..4_000, 1..6), lens in prop::collection::vec(1u32..=L_MAX, 400)
    ) {
        // All are backlogged, and class 2 is the first in each round.
        let mut mw00 = mw00(&[own], &best_effort);
        let classes = 1 + best_effort.len();
        for (index, &len) in lens.iter().enumerate() {
            put(&mut mw00, 1 + index % classes, len);
        }
        let (mut sent, mut rounds, mut before) = (0, 1, 1);
        while let Some((class, len)) = take(&mut mw00) {
            if class == 1 {
                sent += i128::from(len);
            }
            rounds += i128::from(class == 1 && before > 1);
            before = class;
            if (1..=classes).any(|class| mw00.flows.is_empty(class as u32)) {
                break;
            }
            if class == 2 {
                // The class has sent as much as it could.
                let all = rounds * i128::from(own) * best_effort.len() as i128;
                prop_assert!(sent <= all && sent > all - i128::from(L_MAX), "{sent} of {all} in {rounds} rounds");
            }
        }
    }
}
