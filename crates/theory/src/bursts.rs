//! Rates that explicit bursts cost while all leaves are busy, under schedulers with token buckets at guarantees or ceilings (\[htb\], \[cbq\]). Those
//! of `hls` are in [`crate::reach`].
//!
//! A full bucket loses the yield of its rate until the class has its next turn. So the scheduler runs with the
//! configured bursts and with its own defaults. If a class with an explicit burst gets less with it, the burst is too
//! small.

use fairlink_core::{BuildError, ClassConfig, ClassId, Feature, Hierarchy, SchedulerInfo};

use crate::play::{Source, Start};
use crate::played::settled;
use crate::reach::may_lose;
use crate::variant::variant;

/// A class that gets at least this part of its rate with default bursts has a negligible loss.
const ENOUGH: f64 = 0.99;
/// Doublings of a burst that are tried.
const DOUBLINGS: u32 = 16;

/// An explicit burst that costs its class a part of its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostlyBurst {
    /// The class.
    pub class: ClassId,
    /// [`Feature::Burst`] or [`Feature::CeilingBurst`].
    pub feature: Feature,
    /// The burst in bytes.
    pub burst: u64,
    /// Burst in bytes with which all such classes lose nothing, if one was found: theirs times a power of two.
    pub enough: Option<u64>,
    /// The rate of the class in bit/s while all leaves are busy.
    pub with_bps: f64,
    /// The same with default bursts.
    pub without_bps: f64,
}

/// Returns the explicit bursts of `tree` that cost their classes more than 1 % of their rates under `info` while all
/// leaves always have packets of the largest length. Empty for `hls`, for schedulers without bursts, and if a run does
/// not settle.
///
/// # Errors
/// Those of building the scheduler.
pub fn costly_bursts(info: &SchedulerInfo, tree: &Hierarchy) -> Result<Vec<CostlyBurst>, BuildError> {
    let explicit = |class: ClassId| explicit(info, tree.config(class));
    if may_lose(info) || !tree.classes().any(|class| explicit(class).is_some()) {
        return Ok(Vec::new());
    }
    drop((info.build)(tree, Vec::new())?);
    let Some(with) = greedy(info, tree, |_, _| {}) else { return Ok(Vec::new()) };
    let none = |_: ClassId, config: &mut ClassConfig| (config.burst, config.ceiling_burst) = (None, None);
    let Some(without) = greedy(info, tree, none) else { return Ok(Vec::new()) };
    let keeps = |rates: &[f64], class: ClassId| rates[class.index()] >= ENOUGH * without[class.index()];
    let costly: Vec<ClassId> =
        tree.classes().filter(|&class| explicit(class).is_some() && !keeps(&with, class)).collect();
    if costly.is_empty() {
        return Ok(Vec::new());
    }
    let suffices = |factor: u64| {
        let more = |class: ClassId, config: &mut ClassConfig| {
            if costly.contains(&class) {
                let times = |burst: u64| burst.saturating_mul(factor);
                (config.burst, config.ceiling_burst) = (config.burst.map(times), config.ceiling_burst.map(times));
            }
        };
        greedy(info, tree, more).is_some_and(|rates| costly.iter().all(|&class| keeps(&rates, class)))
    };
    let factor = (1..=DOUBLINGS).map(|power| 1u64 << power).find(|&factor| suffices(factor));
    let of = |class: ClassId| {
        let (feature, burst) = explicit(class)?;
        let enough = factor.map(|factor| burst.saturating_mul(factor));
        let (with_bps, without_bps) = (with[class.index()], without[class.index()]);
        Some(CostlyBurst { class, feature, burst, enough, with_bps, without_bps })
    };
    Ok(costly.into_iter().filter_map(of).collect())
}

/// Returns the burst that a class sets and `info` honours; that of its ceiling if it has both.
fn explicit(info: &SchedulerInfo, config: &ClassConfig) -> Option<(Feature, u64)> {
    let honoured = |feature, burst: Option<u64>| burst.filter(|_| info.supports(feature)).map(|burst| (feature, burst));
    let ceiling = config.ceiling_burst.filter(|_| config.ceiling.is_some());
    honoured(Feature::CeilingBurst, ceiling).or_else(|| honoured(Feature::Burst, config.burst))
}

/// Rates by class id while all leaves always have packets, after `change` of the classes.
fn greedy(info: &SchedulerInfo, tree: &Hierarchy, change: impl Fn(ClassId, &mut ClassConfig)) -> Option<Vec<f64>> {
    let tree = variant(tree, tree.link(), change).ok()?;
    let length = tree.link().max_packet;
    let sources: Vec<Source> = tree.leaves().iter().map(|&leaf| Source { leaf, length, bps: None }).collect();
    settled(info, &tree, &sources, Start::APART)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{LinkConfig, Rate, Share, registry};

    fn flat(classes: &[ClassConfig]) -> Hierarchy {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10_000_000).unwrap()));
        classes.iter().for_each(|&config| assert!(tree.add(ClassId::ROOT, config).is_ok()));
        tree.build().unwrap()
    }

    fn guarantee(mbps: u64, burst: Option<u64>) -> ClassConfig {
        let share = Some(Share::Guarantee(Rate::from_bps(mbps * 1_000_000).unwrap()));
        ClassConfig { share, burst, ..ClassConfig::default() }
    }

    #[test]
    fn a_burst_below_what_a_round_brings_costs_its_class_and_only_then_is_named() {
        let htb = registry::find("htb").unwrap();
        let tree = |burst| flat(&[guarantee(6, burst), guarantee(1, None), guarantee(1, None), guarantee(1, None)]);
        let found = costly_bursts(htb, &tree(Some(100))).unwrap();
        let [costly] = found[..] else { panic!("{found:?}") };
        assert_eq!((costly.class, costly.feature, costly.burst), (ClassId(1), Feature::Burst, 100));
        assert!(costly.with_bps < 0.99 * costly.without_bps, "{costly:?}");
        // The suggested burst costs nothing, by the run and by the formula for the class's rate.
        let enough = tree(costly.enough);
        assert_eq!(costly_bursts(htb, &enough).unwrap(), []);
        assert_eq!(costly_bursts(htb, &tree(None)).unwrap(), []);
        assert_eq!(costly_bursts(registry::find("hls").unwrap(), &tree(Some(100))).unwrap(), []);
    }
}
