//! A random tree that 1 to 4 workers share, and a random order of their calls. After each call all credit is
//! accounted for to the unit, and each packet is queued, was sent or was dropped, once and in its order. In the end
//! all is sent and all leaves go off.

use std::collections::VecDeque;
use std::sync::Arc;

use fairlink_core::{
    Amount, BatchEnd, ClassConfig, ClassId, DropReason, Hierarchy, LinkConfig, Nanos, Packet, QueueKind, QueueLimits,
    Rate, Scheduler, Share, SharedConfig, SharedTree, Worker,
};

const LARGEST: u32 = 1500;
/// Calls for which all packets must have left after the last arrival.
const PATIENCE: usize = 100_000;

/// The fuzzer's bytes, and zeros after them.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u64 {
        let [first, rest @ ..] = self.0 else { return 0 };
        self.0 = rest;
        u64::from(*first)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.byte() % limit
    }

    fn word(&mut self) -> u64 {
        self.byte() << 8 | self.byte()
    }

    fn power_of_ten(&mut self, most: u64) -> u64 {
        10u64.pow(self.below(most + 1) as u32)
    }

    fn tree(&mut self) -> Hierarchy {
        // From 1 Mbit/s to 1 Tbit/s.
        let rate = Rate::from_bps(1_000_000 * self.power_of_ten(6)).expect("a rate");
        let link =
            LinkConfig { max_packet: LARGEST, max_queued: 1 + self.word() as u32 % 500, ..LinkConfig::new(rate) };
        let mut tree = Hierarchy::builder(link);
        let mut inner = vec![(ClassId::ROOT, 0)];
        for class in 0..1 + self.below(20) {
            let (parent, depth) = inner[self.byte() as usize % inner.len()];
            let config = ClassConfig {
                share: Some(Share::Weight(self.power_of_ten(9) * (1 + self.below(9)))),
                ceiling: (self.below(8) == 0)
                    .then(|| Rate::from_bps(1_000_000 * self.power_of_ten(6)).expect("a rate")),
                queue: [QueueKind::Fifo, QueueKind::Fifo, QueueKind::Fifo, QueueKind::CoDel][self.below(4) as usize],
                limits: QueueLimits { packets: 1 + self.below(64) as u32, ..QueueLimits::default() },
                ..ClassConfig::default()
            };
            let id = tree.add(parent, config).expect("a class");
            if depth < 4 && (class == 0 || self.below(3) == 0) {
                inner.push((id, depth + 1));
            }
        }
        tree.build().expect("a tree")
    }

    fn config(&mut self) -> SharedConfig {
        let mut bytes = || u64::from(LARGEST) + self.word() * self.below(4);
        let (mark, credit, stored, ahead) = (bytes(), bytes(), bytes(), bytes());
        SharedConfig { mark, credit, stored, ahead: ahead - u64::from(LARGEST) }
    }
}

/// The workers, and what they have by their calls.
struct Run {
    shared: Arc<SharedTree>,
    workers: Vec<Worker>,
    /// By worker and class: handles and lengths in their order.
    queued: Vec<Vec<VecDeque<(u64, u32)>>>,
    now: Nanos,
    handle: u64,
    sent: u64,
}

impl Run {
    fn new(tree: Hierarchy, config: SharedConfig, workers: usize) -> Self {
        let queued = vec![vec![VecDeque::new(); tree.len()]; workers];
        let shared = SharedTree::new(tree, config).expect("a tree that several cores can share");
        let workers = (0..workers).map(|_| shared.worker().expect("memory")).collect();
        Self { shared, workers, queued, now: Nanos(1), handle: 0, sent: 0 }
    }

    /// Makes a call of a worker, settles what it dropped, and checks what holds after each call.
    fn call<T>(
        &mut self,
        worker: usize,
        call: impl FnOnce(&mut Worker, &mut Vec<Packet>, &mut Vec<Dropped>) -> T,
    ) -> T {
        let (mut out, mut drops) = (Vec::with_capacity(64), Vec::new());
        let result = call(&mut self.workers[worker], &mut out, &mut drops);
        let queued = &mut self.queued[worker];
        // An active queue drops heads, before it sends the next.
        for (packet, reason) in drops {
            let place = queued
                .get(packet.class.index())
                .and_then(|queue| queue.iter().position(|&(handle, len)| (handle, len) == (packet.handle, packet.len)));
            let place = place.unwrap_or_else(|| panic!("{packet:?} was dropped as {reason:?}, and is not queued"));
            queued[packet.class.index()].remove(place);
        }
        for packet in out {
            let first = queued[packet.class.index()].pop_front();
            assert_eq!(first, Some((packet.handle, packet.len)), "{packet:?} left out of its order");
            self.sent += u64::from(packet.len);
        }
        self.check(worker);
        result
    }

    fn check(&self, worker: usize) {
        if let Err(broken) = self.shared.check_invariants() {
            panic!("{broken} at {}", self.now);
        }
        assert_eq!(self.shared.sent(), self.sent, "bytes sent");
        let mut all = Amount::ZERO;
        for (class, queue) in self.queued[worker].iter().enumerate() {
            let mut amount = Amount::ZERO;
            queue.iter().for_each(|&(_, len)| amount.count(len));
            assert_eq!(self.workers[worker].class_backlog(ClassId(class as u32)), amount, "class {class}");
            queue.iter().for_each(|&(_, len)| all.count(len));
        }
        assert_eq!(self.workers[worker].backlog(), all);
    }

    fn enqueue(&mut self, worker: usize, class: ClassId, len: u32) {
        let packet = Packet { handle: self.handle, len, class };
        self.handle += 1;
        let Some(queue) = self.queued[worker].get_mut(class.index()) else { return };
        queue.push_back((packet.handle, len));
        let now = self.now;
        self.call(worker, |worker, _, drops| worker.enqueue(now, packet, &mut sink(drops)));
    }

    fn dequeue(&mut self, worker: usize, packets: usize, bytes: u64) -> BatchEnd {
        let now = self.now;
        let end =
            self.call(worker, |worker, out, drops| worker.dequeue_batch(now, packets, bytes, out, &mut sink(drops)));
        match end {
            BatchEnd::Idle => assert_eq!(self.workers[worker].backlog(), Amount::ZERO, "idle with packets"),
            BatchEnd::WaitUntil(at) => assert!(at > now, "waits until {at} at {now}"),
            BatchEnd::Full => {}
        }
        end
    }

    /// Sends all, at the times that the workers ask for.
    fn drain(&mut self) {
        for _ in 0..PATIENCE {
            let mut next = None;
            for worker in 0..self.workers.len() {
                match self.dequeue(worker, 64, u64::MAX) {
                    BatchEnd::Idle => {}
                    BatchEnd::Full => next = Some(self.now),
                    BatchEnd::WaitUntil(at) => next = Some(next.map_or(at, |next: Nanos| next.min(at))),
                }
            }
            let Some(next) = next else { return };
            self.now = next.max(self.now);
        }
        panic!("packets or leaves stay");
    }
}

type Dropped = (Packet, DropReason);

fn sink(drops: &mut Vec<Dropped>) -> impl FnMut(Nanos, Packet, DropReason) {
    |_, packet, reason| drops.push((packet, reason))
}

/// Tries one input.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let tree = bytes.tree();
    let (classes, leaves) = (tree.len() as u64, tree.leaves().to_vec());
    let config = bytes.config();
    let workers = 1 + bytes.below(4) as usize;
    let mut run = Run::new(tree, config, workers);
    while !bytes.0.is_empty() {
        let call = bytes.byte();
        let worker = (call >> 4) as usize % workers;
        match call % 16 {
            0..=4 => {
                let leaf = leaves[bytes.byte() as usize % leaves.len()];
                run.enqueue(worker, leaf, bytes.word() as u32 % (LARGEST + 1));
            }
            5 => {
                let leaf = leaves[bytes.byte() as usize % leaves.len()];
                for _ in 0..bytes.below(16) {
                    run.enqueue(worker, leaf, LARGEST);
                }
            }
            // Any class, and any length.
            6 => run.enqueue(worker, ClassId(bytes.below(classes) as u32), bytes.word() as u32),
            7..=9 => _ = run.dequeue(worker, 64, u64::MAX),
            10 => _ = run.dequeue(worker, 1, u64::MAX),
            11 => _ = run.dequeue(worker, bytes.below(64) as usize, bytes.word()),
            12 | 13 => run.now = run.now.saturating_add(Nanos(bytes.word() * 16)),
            14 => run.now = run.now.saturating_add(Nanos(bytes.word() * 1_000_000)),
            _ => {
                let now = run.now;
                if bytes.below(2) == 0 {
                    run.call(worker, |worker, _, drops| worker.purge(now, &mut sink(drops)));
                } else {
                    // A worker ends, and another takes its place. What was queued is lost to the caller.
                    run.workers[worker] = run.shared.worker().expect("memory");
                    run.queued[worker].iter_mut().for_each(VecDeque::clear);
                    run.check(worker);
                }
            }
        }
    }
    run.drain();
    assert!(leaves.iter().all(|&leaf| !run.shared.is_on(leaf)), "a leaf is on without packets");
}
