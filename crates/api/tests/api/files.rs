//! Random link files with all keys that concern rates.

use std::fmt::Write as _;

use fairlink_api::{Fluid, FluidOptions, fluid};
use fairlink_config::{LinkFile, ReadOptions, SourceText};
use fairlink_core::registry::SCHEDULERS;
use fairlink_core::{Feature, Leniency, SchedulerInfo, Sharing};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) const LINK_BPS: u64 = 10_000_000;

/// A class of a link file. Rates are in bit/s, curves are lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Class {
    pub(crate) parent: Option<usize>,
    pub(crate) guarantee: Option<u64>,
    pub(crate) weight: Option<u64>,
    pub(crate) ceiling: Option<u64>,
    pub(crate) link_share: Option<u64>,
    pub(crate) real_time: Option<u64>,
    pub(crate) upper_limit: Option<u64>,
    pub(crate) bounded: bool,
    pub(crate) isolated: bool,
    /// Further keys as they are written.
    others: Vec<String>,
}

/// A link file. Class `n` is called `cn`.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) scheduler: &'static str,
    pub(crate) rate: u64,
    pub(crate) classes: Vec<Class>,
}

impl File {
    pub(crate) fn random(info: &SchedulerInfo, rng: &mut ChaCha8Rng) -> Self {
        let mut file = Self { scheduler: info.name, rate: LINK_BPS, classes: Vec::new() };
        let deep = info.supports(Feature::Hierarchy);
        // The class, its depth, and its unassigned rate.
        let mut inner = vec![(None, 0, LINK_BPS)];
        let mut real_time_left = LINK_BPS * 9 / 10;
        let some = |rng: &mut ChaCha8Rng, feature: Feature| info.supports(feature) && rng.random_range(0..3) == 0;
        for _ in 0..if deep { rng.random_range(1..4) } else { 1 } {
            if inner.is_empty() {
                break;
            }
            let at = rng.random_range(0..inner.len());
            let (parent, depth, has) = inner.swap_remove(at);
            let children = rng.random_range(1..5);
            let guaranteed = rng.random_range(0..3) > 0;
            let full = rng.random_range(0..2) == 0;
            let bare = some(rng, Feature::LinkCurves);
            for _ in 0..children {
                let part = if full { has / children } else { has / children / 5 * rng.random_range(2..5) }.max(2);
                let mut class = Class { parent, ..Class::default() };
                match (bare, guaranteed) {
                    (true, _) => class.link_share = Some(LINK_BPS / 8 * rng.random_range(1..8)),
                    (_, true) => class.guarantee = Some(part),
                    (_, false) => class.weight = Some(rng.random_range(2..40)),
                }
                if some(rng, Feature::Ceiling) {
                    class.ceiling = Some(part + has * rng.random_range(0..40) / 50);
                    if some(rng, Feature::CeilingBurst) {
                        class.others.push(format!("ceiling_burst = '{}B'", rng.random_range(100..20_000)));
                    }
                } else if some(rng, Feature::LinkCurves) {
                    class.upper_limit = Some(has * rng.random_range(5..40) / 50);
                }
                if some(rng, Feature::Priority) {
                    class.others.push(format!("priority = {}", rng.random_range(0..3)));
                }
                if some(rng, Feature::Borrowing) {
                    (class.bounded, class.isolated) = (rng.random_range(0..2) == 0, rng.random_range(0..3) == 0);
                }
                let index = file.classes.len();
                if deep && depth < 2 && rng.random_range(0..3) == 0 {
                    inner.push((Some(index), depth + 1, part));
                }
                file.classes.push(class);
            }
        }
        for index in 0..file.classes.len() {
            if !file.is_leaf(index) {
                continue;
            }
            let class = &mut file.classes[index];
            if some(rng, Feature::Quantum) {
                class.others.push(format!("quantum = '{}B'", rng.random_range(1_500..6_000)));
            }
            if some(rng, Feature::LatencyCritical) {
                class.others.push("latency_critical = true".to_owned());
            }
            if some(rng, Feature::Contract) {
                let (bytes, tenths) = (rng.random_range(20_000..100_000), rng.random_range(1..5));
                class.others.push(format!("contract = {{ bytes = '{bytes}B', every = '{}ms' }}", tenths * 100));
            }
            if info.supports(Feature::LinkCurves) && some(rng, Feature::ServiceCurves) {
                let slope = (LINK_BPS / 50 * rng.random_range(1..12)).min(real_time_left);
                if slope > LINK_BPS / 50 {
                    real_time_left -= slope;
                    class.real_time = Some(slope);
                    if class.link_share.is_some() && rng.random_range(0..2) == 0 {
                        class.link_share = None;
                    }
                }
            }
        }
        file
    }

    pub(crate) fn is_leaf(&self, index: usize) -> bool {
        self.classes.iter().all(|class| class.parent != Some(index))
    }

    pub(crate) fn leaves(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.classes.len()).filter(|&index| self.is_leaf(index))
    }

    /// The leaves at or below a class.
    pub(crate) fn leaves_below(&self, class: usize) -> Vec<usize> {
        let up = |leaf| std::iter::successors(Some(leaf), |&at: &usize| self.classes[at].parent);
        self.leaves().filter(|&leaf| up(leaf).any(|at| at == class)).collect()
    }

    pub(crate) fn siblings(&self, class: usize) -> Vec<usize> {
        let parent = self.classes[class].parent;
        (0..self.classes.len()).filter(|&other| other != class && self.classes[other].parent == parent).collect()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("[link]\nrate = '{}bit'\nscheduler = '{}'\n", self.rate, self.scheduler);
        for (index, class) in self.classes.iter().enumerate() {
            let _ = writeln!(text, "[[class]]\nname = 'c{index}'");
            if let Some(parent) = class.parent {
                let _ = writeln!(text, "parent = 'c{parent}'");
            }
            for (key, rate) in [("guarantee", class.guarantee), ("ceiling", class.ceiling)] {
                let _ = rate.map(|rate| writeln!(text, "{key} = '{rate}bit'"));
            }
            let _ = class.weight.map(|weight| writeln!(text, "weight = {weight}"));
            let curves =
                [("link_share", class.link_share), ("real_time", class.real_time), ("upper_limit", class.upper_limit)];
            for (key, rate) in curves {
                let _ = rate.map(|rate| writeln!(text, "{key} = {{ rate = '{rate}bit' }}"));
            }
            for (key, set) in [("bounded", class.bounded), ("isolated", class.isolated)] {
                let _ = set.then(|| writeln!(text, "{key} = true"));
            }
            class.others.iter().for_each(|other| {
                let _ = writeln!(text, "{other}");
            });
        }
        text
    }

    pub(crate) fn read(&self) -> Option<LinkFile> {
        LinkFile::parse("file.toml", self.text(), &ReadOptions::default()).ok()
    }

    pub(crate) fn fluid(&self, demand: &Demand) -> Fluid {
        let text = demand.text();
        let options = FluidOptions { demand: Some(&text), fair: false };
        fluid(&SourceText::new("file.toml", self.text()), &options)
            .unwrap_or_else(|why| panic!("{why}:\n{}", self.text()))
    }
}

/// The demand of leaves in bit/s; `None` for as much as possible.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand(pub(crate) Vec<(usize, Option<u64>)>);

impl Demand {
    pub(crate) fn text(&self) -> String {
        let ask = |&(leaf, bps): &(usize, Option<u64>)| {
            bps.map_or_else(|| format!("c{leaf}=inf"), |bps| format!("c{leaf}={bps}bit"))
        };
        self.0.iter().map(ask).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn set(&mut self, leaf: usize, bps: Option<u64>) {
        self.0.retain(|&(other, _)| other != leaf);
        self.0.push((leaf, bps));
    }
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Calls `one` with random files of each scheduler that would run.
pub(crate) fn for_each_file(
    trees: u64,
    mut one: impl FnMut(&'static SchedulerInfo, &File, &LinkFile, &mut ChaCha8Rng),
) {
    let trees: u64 = setting("FAIRLINK_TREES").map_or(trees, |trees| trees.parse().unwrap());
    let first: u64 = setting("FAIRLINK_SEED").map_or(1000, |seed| seed.parse().unwrap());
    let only = setting("FAIRLINK_SCHEDULER");
    for info in SCHEDULERS.iter().filter(|info| only.as_ref().is_none_or(|only| info.name == only)) {
        // Rates of these come from runs.
        let runs = matches!(info.sharing, Sharing::Allotted | Sharing::ByPackets(_));
        let trees = if runs { trees.div_ceil(6) } else { trees };
        let mut sound = 0;
        for seed in first..first + trees {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let file = File::random(info, &mut rng);
            let Some(link) = file.read() else { continue };
            if info.build(&link.tree, Leniency::Ignore, Vec::new()).is_ok() {
                sound += 1;
                one(info, &file, &link, &mut rng);
            }
        }
        assert!(sound * 3 > trees, "{}: {sound} of {trees} files are sound", info.name);
    }
}
