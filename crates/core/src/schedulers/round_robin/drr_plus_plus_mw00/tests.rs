//! DRR++ in its first form against \[drrpp\] Tables 3.3 to 3.5.

use super::*;
use crate::schedulers::drr_plus_plus::tests::configs;
use crate::test_link::{L_MAX, flat, never, order};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Latency-critical classes first, each with its quantum in bytes.
fn mw00(critical: &[u32], best_effort: &[u32]) -> Mw00 {
    Mw00::new(&flat(configs(critical, best_effort))).unwrap()
}

fn take(mw00: &mut Mw00) -> Option<(usize, u32)> {
    let dequeued = mw00.dequeue(Nanos::ZERO, &mut never);
    mw00.check_invariants().unwrap();
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

/// The algorithm written down in the plainest way, in bytes, one round after another.
#[derive(Debug, Default)]
struct Plain {
    ready: VecDeque<usize>,
    waiting: VecDeque<usize>,
    best_effort: VecDeque<usize>,
    queues: Vec<VecDeque<u32>>,
    credits: Vec<u64>,
    quanta: Vec<u64>,
    left: usize,
    visiting: bool,
    /// The first `number` classes are latency-critical.
    number: usize,
}

impl Plain {
    fn covered(&self, class: usize) -> bool {
        self.queues[class].front().is_some_and(|&len| u64::from(len) <= self.credits[class])
    }

    fn put(&mut self, class: usize, len: u32) {
        self.queues[class].push_back(len);
        if self.queues[class].len() > 1 {
            return;
        }
        if class > self.number {
            return self.best_effort.push_back(class);
        }
        if self.left == 0 {
            self.credits[class] = 0;
        }
        let list = if self.covered(class) { &mut self.ready } else { &mut self.waiting };
        list.push_back(class);
    }

    fn take(&mut self) -> Option<(usize, u32)> {
        while self.queues.iter().any(|queue| !queue.is_empty()) {
            if let Some(class) = self.ready.pop_front() {
                let len = self.queues[class].pop_front().unwrap();
                self.credits[class] -= u64::from(len);
                if self.covered(class) {
                    self.ready.push_back(class);
                } else if !self.queues[class].is_empty() {
                    self.waiting.push_back(class);
                }
                return Some((class, len));
            }
            if self.left == 0 {
                self.left = self.best_effort.len();
                for class in 1..=self.number {
                    let quanta = self.quanta[class] * self.left.max(1) as u64;
                    self.credits[class] = quanta + if self.queues[class].is_empty() { 0 } else { self.credits[class] };
                }
                for class in core::mem::take(&mut self.waiting) {
                    let list = if self.covered(class) { &mut self.ready } else { &mut self.waiting };
                    list.push_back(class);
                }
                continue;
            }
            let class = self.best_effort[0];
            if !core::mem::replace(&mut self.visiting, true) {
                self.credits[class] += self.quanta[class];
            }
            let mut sent = None;
            if self.covered(class) {
                sent = self.queues[class].pop_front();
                self.credits[class] -= u64::from(sent.unwrap());
            }
            if !self.covered(class) {
                self.visiting = false;
                self.left -= 1;
                self.best_effort.pop_front();
                if self.queues[class].is_empty() {
                    self.credits[class] = 0;
                } else {
                    self.best_effort.push_back(class);
                }
            }
            if let Some(len) = sent {
                return Some((class, len));
            }
        }
        None
    }
}

proptest! {
    #[test]
    fn packets_leave_in_the_order_of_tables_3_3_and_3_4(
        critical in prop::collection::vec(prop_oneof![1u32..50, 50u32..4_000], 0..4),
        best_effort in prop::collection::vec(prop_oneof![1u32..50, 50u32..4_000], 0..6),
        steps in prop::collection::vec((any::<prop::sample::Index>(), 0u32..3, 0u32..=L_MAX), 1..200),
    ) {
        let quanta: Vec<u32> = critical.iter().chain(&best_effort).copied().collect();
        prop_assume!(!quanta.is_empty());
        let mut real = mw00(&critical, &best_effort);
        let mut plain = Plain {
            queues: alloc::vec![VecDeque::new(); quanta.len() + 1],
            credits: alloc::vec![0; quanta.len() + 1],
            quanta: core::iter::once(0).chain(quanta.iter().map(|&quantum| u64::from(quantum))).collect(),
            number: critical.len(),
            ..Plain::default()
        };
        for (class, what, len) in steps {
            if what == 0 {
                prop_assert_eq!(take(&mut real), plain.take());
            } else {
                let class = 1 + class.index(quanta.len());
                put(&mut real, class, len);
                plain.put(class, len);
            }
        }
        while let Some(sent) = plain.take() {
            prop_assert_eq!(take(&mut real), Some(sent));
        }
        prop_assert_eq!(take(&mut real), None);
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
                // The class has sent what it could.
                let all = rounds * i128::from(own) * best_effort.len() as i128;
                prop_assert!(sent <= all && sent > all - i128::from(L_MAX), "{sent} of {all} in {rounds} rounds");
            }
        }
    }
}
