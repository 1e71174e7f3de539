//! Threads under a model checker, which chooses their order at every access to shared memory.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p fairlink-core --features shared --lib --release models
//! RUSTFLAGS="--cfg shuttle" cargo test -p fairlink-core --features shared --lib --release models
//! ```

/// All orders of a writer and a reader, with all values that the memory model lets them see.
#[cfg(loom)]
#[test]
fn a_reader_sees_a_record_as_one_writer_left_it() {
    use std::sync::Arc;

    use super::node::Node;
    use super::record::Record;

    let record = |of: u64| {
        let wide = u128::from(of) << 64 | u128::from(of);
        Record { v: wide, parent: wide, pending: wide as i128, weight: of, inverse: of }
    };
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let node = Arc::new(Node::new(0, 0));
        let writer = Arc::clone(&node);
        let writer = loom::thread::spawn(move || {
            if writer.lock() {
                writer.store(&record(1));
                writer.unlock();
            }
        });
        if let Some(seen) = node.read() {
            assert_eq!(seen, record(seen.weight));
        }
        writer.join().unwrap();
        assert_eq!(node.read(), Some(record(1)));
    });
}

/// Two writers each add to a record; nothing is lost.
#[cfg(loom)]
#[test]
fn writers_exclude_each_other() {
    use std::sync::Arc;

    use super::node::Node;

    loom::model(|| {
        let node = Arc::new(Node::new(0, 0));
        let add = |node: &Node| {
            let locked = node.lock();
            if locked {
                let mut record = node.load();
                (record.v, record.weight) = (record.v + 1, record.weight + 1);
                node.store(&record);
                node.unlock();
            }
            u64::from(locked)
        };
        let other = Arc::clone(&node);
        let other = loom::thread::spawn(move || add(&other));
        let mine = add(&node);
        let all = mine + other.join().unwrap();
        let record = node.load();
        assert_eq!((record.v, record.weight), (all.into(), all));
    });
}

/// Random orders of three workers on a small tree: leaves that come and go, packets out of turn, classes that go on and
/// off.
#[cfg(shuttle)]
#[test]
fn workers_in_any_order_neither_lose_nor_make_credit() {
    use std::vec::Vec;

    use super::{SharedConfig, SharedTree};
    use crate::contract::{
        BatchEnd, ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, Packet, Rate, Scheduler, Share,
    };

    const WORKERS: usize = 3;
    let orders = std::env::var("FAIRLINK_ORDERS").map_or(2000, |orders| orders.parse().unwrap());
    shuttle::check_random(
        || {
            let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000_000).unwrap()));
            let weight = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
            let class = tree.add(ClassId::ROOT, weight(3)).unwrap();
            let inner = tree.add(class, weight(2)).unwrap();
            let mut leaves: Vec<ClassId> = [(ClassId::ROOT, 1), (class, 1), (inner, 5), (inner, 7)]
                .map(|(parent, of)| tree.add(parent, weight(of)).unwrap())
                .to_vec();
            leaves.truncate(4);
            let config = SharedConfig { mark: 4000, credit: 9000, stored: 6000, ahead: 3000 };
            let shared = SharedTree::new(tree.build().unwrap(), config).unwrap();
            let threads: Vec<_> = (0..WORKERS)
                .map(|number| {
                    let (mut worker, leaves) = (shared.worker().unwrap(), leaves.clone());
                    shuttle::thread::spawn(move || {
                        use shuttle::rand::Rng;
                        let mut random = shuttle::rand::thread_rng();
                        let (mut came, mut went) = (0, 0);
                        let mut out = Vec::with_capacity(8);
                        let mut drops = |_, packet: Packet, _| panic!("{packet:?}");
                        for turn in 0..8u64 {
                            let now = Nanos(turn * 9000 + number as u64);
                            for _ in 0..random.gen_range(0..3) {
                                let class = leaves[random.gen_range(0..leaves.len())];
                                let packet = Packet { handle: 0, len: random.gen_range(64..1500), class };
                                worker.enqueue(now, packet, &mut drops);
                                came += 1;
                            }
                            let _ = worker.dequeue_batch(now, random.gen_range(1..6), u64::MAX, &mut out, &mut drops);
                            went += out.drain(..).count();
                        }
                        (worker, came - went)
                    })
                })
                .collect();
            let mut workers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            shared.check_invariants().unwrap();
            // And all of it leaves.
            let mut out = Vec::with_capacity(64);
            let mut now = Nanos(100_000);
            for turn in 0.. {
                let mut idle = 0;
                for (worker, left) in &mut workers {
                    now = now.saturating_add(Nanos(7000));
                    let end = worker
                        .dequeue_batch(now, 64, u64::MAX, &mut out, &mut |_, packet: Packet, _| panic!("{packet:?}"));
                    *left -= out.drain(..).count();
                    idle += usize::from(end == BatchEnd::Idle);
                }
                if idle == WORKERS {
                    break;
                }
                assert!(turn < 1000, "packets or leaves stay");
            }
            assert!(workers.iter().all(|&(_, left)| left == 0));
            shared.check_invariants().unwrap();
            assert!(leaves.iter().all(|&leaf| !shared.is_on(leaf)));
        },
        orders,
    );
}
