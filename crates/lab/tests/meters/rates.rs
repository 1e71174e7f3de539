//! Shares and ideals: guarantees are got, ceilings are not exceeded, and rates in the long run are those that are printed and those of an own model.

use fairlink_core::schedulers::hls::CeilingDepths;
use fairlink_core::{ClassId, Feature, Hierarchy, Nanos, Share, Sharing};
use fairlink_theory::ideal::{Rule, Traffic};
use fairlink_theory::request::{Demand, Request};

use crate::fluid;
use crate::judge::{Judge, ensure};
use crate::trace::{Seen, Stage, What, path};

/// Maximum relative deviation of a rate from its ideal.
const TOLERANCE: f64 = 0.02;
/// Maximum relative deviation of a rate from progressive filling, which these schedulers follow except for packets at
/// the edges.
const EXACT: f64 = 0.003;

/// The traffic of classes from a time on.
struct Window {
    seconds: f64,
    /// By class, those with children too, in bit/s.
    sent: Vec<f64>,
    came: Vec<f64>,
    /// True if a leaf had packets all along.
    busy: Vec<bool>,
    /// Rate equivalent of packets at both ends of the window, in bit/s.
    edge: f64,
}

impl Window {
    fn of(seen: &Seen, stage: &Stage) -> Self {
        let (start, end) = (Nanos(seen.duration.0 / 5), seen.duration);
        let seconds = (end - start).0 as f64 / 1e9;
        let classes = stage.tree.len();
        let (mut sent, mut came) = (vec![0.0; classes], vec![0.0; classes]);
        let (mut queued, mut busy) = (vec![0u64; classes], vec![true; classes]);
        let mut empty = vec![Nanos::ZERO; classes];
        for event in &seen.events {
            let class = event.class;
            if event.what == What::Came {
                if queued[class] == 0 && event.at > start && event.at > empty[class] {
                    busy[class] = false;
                }
                queued[class] += 1;
                if event.at >= start {
                    came[class] += f64::from(event.len) * 8.0 / seconds;
                }
                continue;
            }
            queued[class] = queued[class].saturating_sub(1);
            if queued[class] == 0 {
                empty[class] = event.at;
            }
            if let What::Sent { done } = event.what {
                let within = done.0.min(end.0).saturating_sub(event.at.0.max(start.0));
                let part = within as f64 / (done - event.at).0.max(1) as f64;
                for above in path(&stage.tree, ClassId(class as u32)) {
                    sent[above.index()] += part * f64::from(event.len) * 8.0 / seconds;
                }
            }
        }
        for class in 0..classes {
            busy[class] &= queued[class] > 0;
        }
        let packets = 2.0 * (stage.tree.leaves().len() + 4) as f64 + 2.0 * stage.behind() as f64;
        let edge = packets * f64::from(stage.tree.link().max_packet) * 8.0 / seconds;
        Self { seconds, sent, came, busy, edge }
    }

    /// Returns true if a rate deviates from another by more than the tolerance, packets at the edges left out.
    fn is_off(&self, tree: &Hierarchy, rate: f64, ideal: f64, part: f64) -> bool {
        let off = ((rate - ideal).abs() - self.edge).max(0.0);
        off > part * ideal.max(tree.link().rate.bps() as f64 / 1000.0)
    }
}

/// Judges rates of a steady case. `edges`: the part of the effect of packets at the edges that is allowed.
pub(crate) fn steady(seen: &Seen, edges: f64, judge: &mut Judge) {
    let [stage] = &seen.stages[..] else { return };
    let tree = &stage.tree;
    let mut window = Window::of(seen, stage);
    window.edge *= edges;
    for class in tree.classes() {
        let (name, rate) = (&seen.names[class.index()], window.sent[class.index()]);
        if let Some(ideal) = seen.ideal[class.index()] {
            judge.count("ideal");
            ensure!(
                judge,
                "ideal",
                !window.is_off(tree, rate, ideal, TOLERANCE),
                "{name} got {rate:.0} bit/s; printed is {ideal:.0}"
            );
        }
        if let Some(ceiling) = tree.config(class).ceiling.filter(|_| stage.info.supports(Feature::Ceiling)) {
            judge.count("shares");
            let most = ceiling.bps() as f64;
            let real_time = tree.classes().any(|class| tree.config(class).real_time.is_some());
            ensure!(
                judge,
                "shares",
                real_time || rate <= most * (1.0 + TOLERANCE) + window.edge,
                "{name} got {rate:.0} bit/s in {} s and has a ceiling of {most:.0}",
                window.seconds
            );
        }
    }
    if seen.pooled.is_empty() {
        guarantees(seen, stage, &window, judge);
        own_model(seen, stage, &window, judge);
    }
}

/// The rate guaranteed to a class: its guarantee, if all classes above it have one, and no ceiling is below it.
fn guarantee(tree: &Hierarchy, leaf: ClassId) -> Option<f64> {
    let mut least = f64::INFINITY;
    for class in path(tree, leaf) {
        let Some(Share::Guarantee(rate)) = tree.config(class).share else { return None };
        let ceiling = tree.config(class).ceiling.map_or(f64::INFINITY, |ceiling| ceiling.bps() as f64);
        least = least.min(rate.bps() as f64).min(ceiling);
    }
    Some(least)
}

/// A leaf that has packets all along gets its guarantee.
fn guarantees(seen: &Seen, stage: &Stage, window: &Window, judge: &mut Judge) {
    let (tree, info) = (&stage.tree, stage.info);
    // Settings overruled by other keys, and schedulers without shares.
    let overruled = |class: ClassId| {
        let config = tree.config(class);
        config.quantum.is_some() && !matches!(info.sharing, Sharing::Lenders | Sharing::Allotted)
            || config.real_time.is_some()
            || config.link_share.is_some()
            || config.upper_limit.is_some()
            || config.ceiling_burst.is_some()
            || config.contract.is_some()
    };
    // wrr and corr give each class its part of the packets.
    let none = ["fifo", "lqf", "hrr", "wrr", "corr", "pifo-tree", "cbq-ancestor-only", "cbq-top-level"];
    if none.contains(&info.name) || tree.classes().any(overruled) {
        return;
    }
    // The share while all are busy, as printed by `check`, may be less.
    let all_busy = Rule::for_scheduler(info, tree, Traffic::unknown())
        .and_then(|rule| rule.rates(&Demand::uniform(tree, Request::Unlimited)));
    for &leaf in tree.leaves().iter().filter(|leaf| window.busy[leaf.index()]) {
        let Some(least) = guarantee(tree, leaf) else { continue };
        let asked = if seen.greedy[leaf.index()] { f64::INFINITY } else { window.came[leaf.index()] };
        let printed = all_busy.as_ref().map_or(f64::INFINITY, |rates| rates[leaf.index()]);
        let least = least.min(asked).min(printed);
        judge.count("shares");
        let rate = window.sent[leaf.index()];
        ensure!(
            judge,
            "shares",
            rate >= least * (1.0 - TOLERANCE) - window.edge,
            "{} always had packets and got {rate:.0} bit/s; its guarantee is {least:.0}",
            seen.names[leaf.index()]
        );
    }
}

/// Schedulers whose rule the papers state as weighted sharing among all leaves, and in a tree.
const FLAT: [&str; 9] = ["drr", "scfq", "sfq", "wfq", "wf2q+", "qfq", "virtual-clock", "sced", "hdrr"];
const TREES: [&str; 3] = ["hls", "hvt", "hpfq"];

/// Judges rates against progressive filling, if that is the rule of the scheduler.
fn own_model(seen: &Seen, stage: &Stage, window: &Window, judge: &mut Judge) {
    let (tree, info) = (&stage.tree, stage.info);
    let all = || tree.classes().map(|class| tree.config(class));
    let known = TREES.contains(&info.name) || FLAT.contains(&info.name) && tree.levels() == 1 && info.name != "hdrr";
    let quanta = all().filter(|config| config.quantum.is_some()).count();
    if !known
        || quanta != 0 && quanta != tree.len() - 1
        || all().any(|config| config.ceiling_burst.is_some() || config.real_time.is_some())
    {
        return;
    }
    let weight = |class: ClassId| match tree.config(class).quantum {
        Some(quantum) => f64::from(quantum),
        None => tree.weight(class) as f64,
    };
    let asks: Vec<f64> =
        (0..tree.len()).map(|class| if seen.greedy[class] { f64::INFINITY } else { window.came[class] }).collect();
    let model = fluid::shares(tree, &asks, weight, info.supports(Feature::Ceiling));
    for class in tree.classes() {
        judge.count("model");
        let (rate, ideal) = (window.sent[class.index()], model[class.index()]);
        ensure!(
            judge,
            "model",
            !window.is_off(tree, rate, ideal, EXACT),
            "{} got {rate:.0} bit/s; progressive filling gives {ideal:.0}",
            seen.names[class.index()]
        );
    }
}

/// Maximum burst of a class with a ceiling beyond it, in bytes, if it is printed or documented.
fn depth(stage: &Stage, class: ClassId) -> Option<u64> {
    let (tree, config) = (&stage.tree, stage.tree.config(class));
    let largest = u64::from(tree.link().max_packet);
    let ceiling = config.ceiling?;
    match stage.info.name {
        // docs/link-files.md: deep enough if it is absent; a class sends its whole allotment of a cycle.
        "hls" => {
            let depths = CeilingDepths::for_tree(tree).ok()?;
            Some(config.ceiling_burst.unwrap_or_else(|| depths.bytes(tree, class, ceiling)) + depths.debt(class))
        }
        // docs/hvt.md: blocked as soon as it is in debt.
        "hvt" => {
            let least = largest * (4 * tree.depth(class) as u64 + 1);
            Some(config.ceiling_burst.unwrap_or(least) + largest)
        }
        "htb" | "htb-common-deficit" => Some(config.ceiling_burst? + largest),
        // Two largest frames, and two for each child of each class above it at most. Real-time service is not held back.
        "hfsc" if tree.classes().all(|class| tree.config(class).real_time.is_none()) => {
            let children: usize =
                path(tree, class).filter_map(|at| tree.parent(at)).map(|at| tree.children(at).len()).sum();
            Some(config.ceiling_burst.unwrap_or(2 * largest * (1 + children as u64)) + largest)
        }
        _ => None,
    }
}

/// No class sends more than its ceiling and its burst in any time.
pub(crate) fn ceilings(seen: &Seen, judge: &mut Judge) {
    let Some(stage) = seen.alone() else { return };
    if !stage.info.supports(Feature::Ceiling) {
        return;
    }
    for class in stage.tree.classes() {
        let (Some(ceiling), Some(depth)) = (stage.tree.config(class).ceiling, depth(stage, class)) else { continue };
        let most = depth + stage.behind() * u64::from(stage.tree.link().max_packet);
        let (mut held, mut last, mut worst) = (0.0f64, Nanos::ZERO, 0.0f64);
        for event in seen.events.iter().filter(|event| matches!(event.what, What::Sent { .. })) {
            if path(&stage.tree, ClassId(event.class as u32)).all(|above| above != class) {
                continue;
            }
            held = (held - (event.at - last).0 as f64 * ceiling.bps() as f64 / 8e9).max(0.0) + f64::from(event.len);
            (last, worst) = (event.at, worst.max(held));
        }
        judge.count("ceiling");
        ensure!(
            judge,
            "ceiling",
            worst <= most as f64 + 1.0,
            "{} sent {worst:.0} B beyond what its ceiling brings; {most} B may be",
            seen.names[class.index()]
        );
    }
}
