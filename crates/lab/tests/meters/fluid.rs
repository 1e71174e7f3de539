//! Fluid shares by the definition of max-min fairness: water rises in all siblings in proportion to their weights, and
//! a satisfied class takes no more (progressive filling, Bertsekas and Gallager, Data Networks, 6.5.2; in a tree from
//! the top down, \[hls\] Section IV). Independent of `fairlink_theory`.

use fairlink_core::{ClassId, Hierarchy};

/// Divides `capacity` among several; bisection finds the water level.
pub(crate) fn filled(capacity: f64, asks: &[f64], weights: &[f64]) -> Vec<f64> {
    let at =
        |level: f64| -> Vec<f64> { asks.iter().zip(weights).map(|(ask, weight)| ask.min(level * weight)).collect() };
    if asks.iter().sum::<f64>() <= capacity {
        return asks.to_vec();
    }
    let (mut low, mut high) = (0.0f64, capacity / weights.iter().copied().fold(f64::INFINITY, f64::min));
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if at(middle).iter().sum::<f64>() > capacity { high = middle } else { low = middle }
    }
    at(low)
}

/// Returns the rates of all classes for these requests of the leaves: siblings share by weight, and no class gets more
/// than its ceiling.
pub(crate) fn shares(tree: &Hierarchy, asks: &[f64], weight: impl Fn(ClassId) -> f64, ceilings: bool) -> Vec<f64> {
    let mut wanted = asks.to_vec();
    for class in tree.classes().rev() {
        if let Some(ceiling) = tree.config(class).ceiling.filter(|_| ceilings) {
            wanted[class.index()] = wanted[class.index()].min(ceiling.bps() as f64);
        }
        let parent = tree.parent(class).unwrap_or(ClassId::ROOT);
        wanted[parent.index()] += wanted[class.index()];
    }
    let mut gets = vec![0.0; tree.len()];
    gets[0] = wanted[0].min(tree.link().rate.bps() as f64);
    for class in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
        let children = tree.children(class);
        let asks: Vec<f64> = children.iter().map(|child| wanted[child.index()]).collect();
        let weights: Vec<f64> = children.iter().map(|&child| weight(child)).collect();
        for (child, got) in children.iter().zip(filled(gets[class.index()], &asks, &weights)) {
            gets[child.index()] = got;
        }
    }
    gets
}

#[test]
fn water_fills_what_asks_for_little_first() {
    let close = |found: Vec<f64>, wanted: &[f64]| {
        assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-9), "{found:?}");
    };
    close(filled(10.0, &[1.0, 20.0, 20.0], &[1.0, 1.0, 2.0]), &[1.0, 3.0, 6.0]);
    close(filled(10.0, &[f64::INFINITY, f64::INFINITY], &[4.0, 1.0]), &[8.0, 2.0]);
    close(filled(10.0, &[2.0, 3.0], &[1.0, 1.0]), &[2.0, 3.0]);
}
