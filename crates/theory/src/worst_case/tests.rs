use super::*;
use fairlink_core::{ClassConfig, LinkConfig, Rate, Share};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// By the definition: every interval in which a class stays backlogged, from one event to another.
#[test]
fn it_is_the_most_that_any_interval_shows() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    for _ in 0..60 {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10_000_000).unwrap()));
        for _ in 0..3 {
            let share = Some(Share::Weight(random.random_range(1..9)));
            let class = tree.add(ClassId::ROOT, ClassConfig { share, ..ClassConfig::default() }).unwrap();
            if random.random_bool(0.5) {
                tree.add(class, ClassConfig::default()).unwrap();
                tree.add(class, ClassConfig::default()).unwrap();
            }
        }
        let tree = tree.build().unwrap();
        let mut meter = WorstCaseMeter::new(&tree);
        let mut queue: Vec<ClassId> = Vec::new();
        // By event and class: bytes sent, and backlog after the event.
        let mut history: Vec<Vec<(u64, bool)>> = vec![vec![(0, false); tree.len()]];
        let path = |leaf| std::iter::successors(Some(leaf), |&class| tree.parent(class));
        for _ in 0..80 {
            let mut state = history.last().unwrap().clone();
            if queue.is_empty() || random.random_bool(0.5) {
                let leaf = tree.leaves()[random.random_range(0..tree.leaves().len())];
                meter.arrived(leaf);
                queue.push(leaf);
            } else {
                let (leaf, len) =
                    (queue.swap_remove(random.random_range(0..queue.len())), random.random_range(40..1500));
                meter.sent(leaf, len);
                path(leaf).for_each(|class| state[class.index()].0 += u64::from(len));
            }
            for (class, (_, backlogged)) in state.iter_mut().enumerate() {
                *backlogged = queue.iter().any(|&leaf| path(leaf).any(|at| at.index() == class));
            }
            history.push(state);
        }
        meter.end();
        for class in tree.classes() {
            let (index, share) = (class.index(), tree.share_all_busy(class) as f64 / (1u128 << 64) as f64);
            let mut worst = 0.0f64;
            for from in 0..history.len() {
                for to in from..history.len() {
                    // Backlogged before each event of the interval but the last.
                    if to > from && !history[to - 1][index].1 {
                        break;
                    }
                    let sent = |class: usize| (history[to][class].0 - history[from][class].0) as f64;
                    worst = worst.max(share * sent(0) - sent(index));
                }
            }
            assert!((meter.worst(class) - worst).abs() < 1e-6, "{} and {worst}", meter.worst(class));
        }
    }
}
