//! Workers on threads of their own, more than there are processors, so that each may lose its processor at any place.

use std::sync::Barrier;
use std::time::Instant;

use super::*;

/// Sums over the threads of a run, between two rests.
struct Totals {
    /// By class: bytes sent below it.
    below: Vec<AtomicU64>,
    came: AtomicU64,
    went: AtomicU64,
}

/// A worker's loop until the next rest: its own leaves, some greedy, some that come and go.
fn play(
    worker: &mut Worker,
    own: &[(ClassId, bool)],
    random: &mut Random,
    start: Instant,
    until: u128,
    totals: &Totals,
) {
    let tree = Arc::clone(worker.tree());
    let mut out = Vec::with_capacity(32);
    while start.elapsed().as_nanos() < until {
        let now = Nanos(start.elapsed().as_nanos() as u64);
        for &(leaf, is_greedy) in own {
            let queued = worker.class_backlog(leaf).packets;
            let arriving =
                if is_greedy { 64u64.saturating_sub(queued) } else { u64::from(random.one_in(4)) * random.below(3) };
            for _ in 0..if queued < 500 { arriving } else { 0 } {
                let len = 64 + random.below(1437) as u32;
                worker.enqueue(now, Packet { handle: 0, len, class: leaf }, &mut no_drops);
                totals.came.fetch_add(1, Ordering::Relaxed);
            }
        }
        let _ = worker.dequeue_batch(now, 32, u64::MAX, &mut out, &mut no_drops);
        for packet in out.drain(..) {
            totals.went.fetch_add(1, Ordering::Relaxed);
            let mut class = Some(packet.class);
            while let Some(at) = class {
                totals.below[at.index()].fetch_add(packet.len.into(), Ordering::Relaxed);
                class = tree.hierarchy().parent(at);
            }
        }
    }
}

/// Runs `threads` workers. At each of `rests` rests the invariants hold, and all siblings that have been on since an
/// earlier rest are within Theorem V. Returns the worst ratio in thousandths.
fn run(threads: usize, rests: u64, seed: u64) -> i128 {
    let random = &mut Random::new(seed);
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10_000_000_000).unwrap()));
    let weight = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
    let mut own: Vec<Vec<(ClassId, bool)>> = std::vec![Vec::new(); threads];
    for class in 1..=3 {
        let class = tree.add(ClassId::ROOT, weight(class)).unwrap();
        for at in 0..threads as u64 + 2 {
            let leaf = tree.add(class, weight(1 + random.below(3))).unwrap();
            // One of two has a second core.
            let (one, other, is_greedy) =
                (at as usize % threads, random.below(threads as u64) as usize, !random.one_in(3));
            own[one].push((leaf, is_greedy));
            if other != one && random.one_in(2) {
                own[other].push((leaf, is_greedy));
            }
        }
    }
    let tree = tree.build().unwrap();
    let config = SharedConfig { stored: 1 << 40, ..SharedConfig::for_link(&tree.link()) };
    let slack = slack(&tree, config);
    let pairs: Vec<(ClassId, ClassId)> = core::iter::once(ClassId::ROOT)
        .chain(tree.classes())
        .flat_map(|class| {
            let children = tree.children(class).to_vec();
            (1..children.len()).map(move |at| (children[at - 1], children[at]))
        })
        .collect();
    let shared = SharedTree::new(tree, config).unwrap();
    let zeros = |len| (0..len).map(|_| AtomicU64::new(0)).collect();
    let totals = Totals { below: zeros(shared.hierarchy().len()), came: AtomicU64::new(0), went: AtomicU64::new(0) };
    let barrier = Barrier::new(threads + 1);
    let start = Instant::now();
    let (mut worst, mut compared) = (0, 0);
    std::thread::scope(|scope| {
        for (number, own) in own.iter().enumerate() {
            let (shared, totals, barrier) = (&shared, &totals, &barrier);
            scope.spawn(move || {
                let mut worker = shared.worker().unwrap();
                let mut random = Random::new(seed ^ (number as u64 + 1) << 32);
                for rest in 1..=rests {
                    play(&mut worker, own, &mut random, start, u128::from(rest) * 4_000_000, totals);
                    barrier.wait();
                    barrier.wait();
                }
                totals.went.fetch_add(worker.backlog().packets, Ordering::Relaxed);
            });
        }
        // For each pair: when both went on, and the range of the difference of their service.
        let mut seen = std::vec![(None, (0, 0)); pairs.len()];
        for _ in 0..rests {
            barrier.wait();
            shared.check_invariants().unwrap();
            let most = i128::from(shared.credit(ClassId::ROOT)).max(config.credit.into());
            for (&(a, b), (since, range)) in pairs.iter().zip(&mut seen) {
                let child = |class: ClassId| &shared.classes.children[class.index()];
                let sent = |class: ClassId| i128::from(totals.below[class.index()].load(Ordering::Relaxed));
                if !shared.is_on(a) || !shared.is_on(b) {
                    *since = None;
                    continue;
                }
                let (wa, wb) = (i128::from(child(a).weight), i128::from(child(b).weight));
                let apart = sent(a) * wb - sent(b) * wa;
                let now = Some((child(a).base(), child(b).base(), most));
                let same = |one: (u128, u128, i128), other: (u128, u128, i128)| (one.0, one.1) == (other.0, other.1);
                match *since {
                    Some(one) if now.is_some_and(|now| same(one, now)) => {
                        *since = Some((one.0, one.1, one.2.max(most)));
                        *range = (apart.min(range.0), apart.max(range.1));
                        let bound = (one.2.max(most) + slack[0]) * (wa + wb);
                        worst = worst.max((range.1 - range.0) * 1000 / bound);
                        compared += 1;
                    }
                    _ => (*since, *range) = (now, (apart, apart)),
                }
            }
            barrier.wait();
        }
    });
    assert_eq!(totals.came.load(Ordering::Relaxed), totals.went.load(Ordering::Relaxed), "each packet leaves once");
    // The workers have ended, and taken their leaves off.
    shared.check_invariants().unwrap();
    assert!(shared.hierarchy().leaves().iter().all(|&leaf| !shared.is_on(leaf)));
    std::println!(
        "{threads} threads: {} packets, {compared} pairs compared, worst ratio {worst} of 1000",
        totals.came.load(Ordering::Relaxed)
    );
    assert!(compared > 0);
    worst
}

#[test]
fn threads_that_lose_their_processors_stay_within_the_theorem() {
    let rests = std::env::var("FAIRLINK_RESTS").map_or(60, |rests| rests.parse().unwrap());
    for threads in [2, 4, 8, 16] {
        let worst = run(threads, rests, threads as u64);
        assert!(worst <= 1000, "{threads} threads: {worst} of 1000");
    }
}
