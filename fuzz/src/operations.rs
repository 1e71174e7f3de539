//! Trees and sequences of calls made from the fuzzer's bytes, on every scheduler, with all checks of the contract suite.

use crate::checks::{CHECKS, Case, Op};
use crate::trees::{ClassSpec, FIFO, Shape, TreeSpec};
use fairlink_core::{Feature, HostKey, Hosts, QueueKind, QueueLimits, TransmitQueue, registry::SCHEDULERS};

/// Steps before and after the turning point of a check, packets that a step brings, and packets that the check of liveness sends, at most.
/// A fault shows within a few steps: many short runs find more than few long ones.
const OPS: usize = 24;
const PACKETS: u8 = 12;
const LIVENESS_STEPS: usize = 200;

/// The fuzzer's bytes, and zeros after them.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let [first, rest @ ..] = self.0 else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// Mostly a packet's, sometimes any.
    fn len(&mut self) -> u32 {
        let len = u32::from(self.byte()) << 8 | u32::from(self.byte());
        if len > 65_000 { u32::MAX - (len - 65_000) } else { len % 1600 }
    }

    fn power_of_ten(&mut self, most: u8) -> u64 {
        10u64.pow(u32::from(self.byte() % (most + 1)))
    }

    /// One time in four, where the scheduler honours `feature`.
    fn sets(&mut self, shape: Shape, feature: Feature) -> bool {
        shape.features.contains(&feature) && self.byte().is_multiple_of(4)
    }

    fn class(&mut self, shape: Shape, quanta: bool) -> ClassSpec {
        let bytes = if self.byte().is_multiple_of(4) { 1 + u32::from(self.byte()) * 64 } else { u32::MAX };
        let latency_critical = self.sets(shape, Feature::LatencyCritical);
        let of_guarantee = if latency_critical { Feature::LatencyBurst } else { Feature::Burst };
        let queue = if self.sets(shape, Feature::ActiveQueue) { self.active_queue() } else { FIFO };
        ClassSpec {
            parent: None,
            weight: self.power_of_ten(11) * u64::from(1 + self.byte() % 9),
            limits: QueueLimits { packets: 1 + u32::from(self.byte() % 20), bytes },
            ceiling: self.sets(shape, Feature::Ceiling).then(|| self.power_of_ten(11) * 7),
            quantum: quanta.then(|| self.number().max(1)),
            bursts: [of_guarantee, Feature::CeilingBurst]
                .map(|feature| self.sets(shape, feature).then(|| u64::from(self.number().max(1)))),
            priority: self.sets(shape, Feature::Priority).then(|| self.byte() % 8),
            latency_critical,
            queue,
        }
    }

    fn active_queue(&mut self) -> (QueueKind, bool, Option<Hosts>) {
        let kind = [QueueKind::CoDel, QueueKind::FqCoDel][usize::from(self.byte() % 2)];
        (kind, self.byte().is_multiple_of(2), Hosts::new(u16::from(self.byte() % 6), HostKey::SourceIp))
    }

    fn tree(&mut self, shape: Shape) -> TreeSpec {
        let quanta = shape.features.contains(&Feature::Quantum) && self.byte().is_multiple_of(2);
        let max_packet = if self.byte().is_multiple_of(4) { 1 + self.number() % (1 << 20) } else { 1500 };
        let (rate, max_queued) = (self.power_of_ten(12), 1 + u32::from(self.byte()));
        let transmit_queue = (self.byte().is_multiple_of(4)).then(|| TransmitQueue {
            packets: 1 + u32::from(self.byte() % 8),
            priority: self.byte().is_multiple_of(2),
        });
        let push_out = transmit_queue.is_none() && self.sets(shape, Feature::PushOut);
        let mut first = self.class(shape, quanta);
        if transmit_queue.is_some() || push_out {
            first.queue = FIFO;
        }
        let long_rounds = self.sets(shape, Feature::LongRounds);
        let mut spec =
            TreeSpec { rate, max_packet, max_queued, transmit_queue, push_out, long_rounds, classes: vec![first] };
        for _ in 0..self.byte() % 12 {
            let (below, mut class) = (self.byte(), self.class(shape, quanta));
            if below % 4 == 0 {
                if spec.has_fifos_only() {
                    class.queue = FIFO;
                }
                spec.classes.push(class);
            } else {
                spec = spec.with_class(below.into(), class, shape.levels).0;
            }
        }
        spec
    }

    fn op(&mut self, shape: Shape) -> Op {
        match self.byte() % 24 {
            0..=7 => Op::Enqueue(vec![(self.byte().into(), self.len())]),
            8 | 9 => Op::Enqueue((0..self.byte() % PACKETS).map(|_| (self.byte().into(), self.len())).collect()),
            10 => Op::EnqueueAnywhere(self.number(), self.len()),
            11..=14 => Op::Dequeue,
            15 => Op::DequeueBatch(usize::from(self.byte() % 40), u64::from(self.number() >> 16)),
            16 => Op::WaitOut,
            17 => Op::Advance(self.number().into()),
            18 => Op::JumpAYear,
            19 => Op::GoBack(self.number().into()),
            20 => Op::Purge,
            21 => Op::Add(self.byte().into(), self.class(shape, false)),
            22 => Op::Change(self.byte().into(), self.power_of_ten(11), 1 + u32::from(self.byte() % 20)),
            _ => Op::Remove(self.byte().into()),
        }
    }

    /// Those of the bytes up to the last `until`, and no more than [`OPS`].
    fn ops(&mut self, shape: Shape, until: usize) -> Vec<Op> {
        let mut ops = Vec::new();
        while self.0.len() > until && ops.len() < OPS {
            ops.push(self.op(shape));
        }
        ops
    }
}

/// Tries one input.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let info = &SCHEDULERS[usize::from(bytes.byte()) % SCHEDULERS.len()];
    let (name, check) = CHECKS[usize::from(bytes.byte()) % CHECKS.len()];
    let shape = Shape::of(info, 20);
    let spec = bytes.tree(shape);
    let traffic = (0..20).map(|_| (bytes.len().min(1500), bytes.byte().into())).collect();
    let before = bytes.ops(shape, bytes.0.len() / 2);
    let case = Case { before, after: bytes.ops(shape, 0), traffic, liveness_steps: LIVENESS_STEPS };
    if let Err(error) = check(info, &spec, &case) {
        panic!("{}: {name}: {error}\n{spec:#?}\n{case:#?}", info.name);
    }
}
