//! What a scheduler promises for a link: the bounds that `fairlink check` prints.

use fairlink_config::link::LinkFile;
use fairlink_core::{
    ClassId, Feature,
    schedulers::hls::{Advances, CREDITS_PER_BYTE, RunWeights},
};
use fairlink_theory::bounds::{HdrrBounds, HlsBounds};
use fairlink_theory::curves::{flat_excess, real_time_excess};
use fairlink_theory::latency::delay_bounds;
use fairlink_theory::to_f64;
use fairlink_theory::weights::Weights;
use serde::Serialize;

use crate::failure::Failure;
use crate::human;

/// The weight of a class as its scheduler runs with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    /// In bytes, or in visits.
    pub(crate) as_run: f64,
    /// In which of them.
    pub(crate) visits: bool,
    /// How far the share it gives among the siblings is from the one written, relative to it.
    pub(crate) error: f64,
}

/// Promises for the whole link; what the scheduler does not promise is left out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Bounds<'a> {
    /// Definition 1 of \[hls\] with the weights as run.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_bytes: Option<f64>,
    /// The same as time at the guarantee, free of the unit of weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_s: Option<f64>,
    /// The siblings for which it is the largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_between: Option<[&'a str; 2]>,
    /// Theorem 5 of \[hls\]: two rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    transmission_gap_s: Option<f64>,
    /// One round, which is what Table II of \[hls\] prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_round_s: Option<f64>,
}

/// What is promised.
pub(crate) struct Promises<'a> {
    /// For the whole link.
    pub(crate) bounds: Bounds<'a>,
    weights: Vec<Option<Weight>>,
    delays: Vec<Option<f64>>,
}

impl Weight {
    /// With its unit, as people read it.
    pub(crate) fn text(self) -> String {
        if self.visits { format!("{} visits", self.as_run) } else { human::size(self.as_run) }
    }
}

impl Promises<'_> {
    /// The weight that the scheduler runs with, where it runs with weights.
    pub(crate) fn weight(&self, class: ClassId) -> Option<Weight> {
        self.weights[class.index()]
    }

    /// The longest delay in seconds of a packet of `class`, its transmission included, if the traffic of the class never exceeds
    /// its burst and its share of the link when all are busy.
    pub(crate) fn delay(&self, class: ClassId) -> Option<f64> {
        self.delays[class.index()]
    }
}

/// The promises of the link's scheduler.
pub(crate) fn of(link: &LinkFile) -> Result<Promises<'_>, Failure> {
    match link.scheduler.as_str() {
        "hls" => hls(link),
        "hdrr" => hdrr(link),
        _ => {
            let bounds = Bounds::default();
            Ok(Promises { bounds, weights: vec![None; link.tree.len()], delays: delays(link) })
        }
    }
}

/// Whether the link can guarantee the service curves that its classes ask for, \[hfsc\] Section 2.1.
#[derive(Debug, Serialize)]
pub(crate) struct Admission {
    admitted: bool,
    /// After how long all classes together ask for more than the link carries, if all become backlogged at once.
    fails_at_s: Option<f64>,
}

/// The admission test, where the link's scheduler guarantees curves and a class has one.
pub(crate) fn admission(link: &LinkFile) -> Option<Admission> {
    let asks = link.tree.leaves().iter().any(|&leaf| link.tree.config(leaf).real_time.is_some());
    if !asks || !link.info().supports(Feature::ServiceCurves) {
        return None;
    }
    let excess = if link.info().name == "hfsc" { real_time_excess(&link.tree) } else { flat_excess(&link.tree) };
    Some(Admission { admitted: excess.is_none(), fails_at_s: excess.as_ref().map(to_f64) })
}

fn delays(link: &LinkFile) -> Vec<Option<f64>> {
    let bounds = delay_bounds(link.info(), &link.tree);
    bounds.iter().map(|bound| bound.as_ref().map(|bound| to_f64(&bound.seconds))).collect()
}

fn hls(link: &LinkFile) -> Result<Promises<'_>, Failure> {
    let tree = &link.tree;
    let run = RunWeights::of(tree);
    let credits: Vec<u64> = (0..tree.len()).map(|index| run.credits(ClassId(index as u32))).collect();
    let mut weights = vec![None; tree.len()];
    for parent in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
        let children = tree.children(parent);
        let written: u128 = children.iter().map(|&child| u128::from(tree.weight(child))).sum();
        let as_run: u128 = children.iter().map(|&child| u128::from(credits[child.index()])).sum();
        for &child in children {
            let own = credits[child.index()];
            // Subtracted before it becomes a float: the error is a few parts in 10^9 of the share.
            let exact = i128::try_from(u128::from(tree.weight(child)) * as_run).map_err(Failure::failed)?;
            let given = i128::try_from(u128::from(own) * written).map_err(Failure::failed)?;
            let error = (given - exact) as f64 / exact as f64;
            weights[child.index()] =
                Some(Weight { as_run: own as f64 / CREDITS_PER_BYTE as f64, visits: false, error });
        }
    }
    let units = Weights::new(tree, credits, CREDITS_PER_BYTE).map_err(Failure::failed)?;
    let packet = |_| tree.link().max_packet;
    let bounds = HlsBounds::new(tree, &units, CREDITS_PER_BYTE, packet).map_err(Failure::failed)?;
    let advances = Advances::of(tree, &run);
    let bounds = bounds.with_advances(|leaf| advances.bytes(leaf));
    let rate = tree.link().rate;
    let fairness = bounds.fairness_seconds(rate);
    let bounds = Bounds {
        fairness_bytes: bounds.alpha().map(|worst| to_f64(&worst.value)),
        fairness_s: fairness.as_ref().map(|worst| to_f64(&worst.value)),
        fairness_between: fairness.map(|worst| [worst.classes.0, worst.classes.1].map(|class| link.names.name(class))),
        transmission_gap_s: Some(to_f64(&bounds.transmission_gap(rate))),
        longest_round_s: Some(to_f64(&bounds.longest_round(rate))),
    };
    Ok(Promises { bounds, weights, delays: delays(link) })
}

/// HDRR's, for the smallest whole weights and a quantum of a largest frame, which is how ours runs.
fn hdrr(link: &LinkFile) -> Result<Promises<'_>, Failure> {
    let (tree, head) = (&link.tree, link.tree.link());
    let visits = Weights::smallest_whole(tree);
    let bounds =
        HdrrBounds::new(tree, &visits, head.max_packet.into(), |_| head.max_packet).map_err(Failure::failed)?;
    let weight = |class| Weight { as_run: visits.units(class) as f64, visits: true, error: 0.0 };
    let weights = std::iter::once(None).chain(tree.classes().map(|class| Some(weight(class)))).collect();
    let fairness = bounds.alpha_of_leaves(head.rate);
    let (seconds, bytes) = fairness.map_or((None, None), |(seconds, bytes)| (Some(seconds), Some(bytes)));
    let bounds = Bounds {
        fairness_bytes: bytes.map(|worst| to_f64(&worst.value)),
        fairness_s: seconds.as_ref().map(|worst| to_f64(&worst.value)),
        fairness_between: seconds.map(|worst| [worst.classes.0, worst.classes.1].map(|class| link.names.name(class))),
        transmission_gap_s: Some(to_f64(&bounds.transmission_gap(head.rate))),
        longest_round_s: None,
    };
    Ok(Promises { bounds, weights, delays: delays(link) })
}

impl Bounds<'_> {
    /// The bounds in words, one a line; `promised` is what the scheduler promises by name.
    pub(crate) fn lines(&self, promised: &[&str], delays: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if let (Some(bytes), Some(seconds)) = (self.fairness_bytes, self.fairness_s) {
            let between = self.fairness_between.map_or_else(String::new, |[a, b]| format!(" ({a} and {b})"));
            lines.push(format!(
                "fairness          {} that stay backlogged are never further apart than {} of service at their guarantee{between};",
                if self.longest_round_s.is_some() { "siblings" } else { "sibling leaves" },
                human::time(seconds)
            ));
            let unit = if self.longest_round_s.is_some() { "byte" } else { "visit" };
            lines.push(format!("                  {} per {unit} of weight as run", human::size(bytes)));
        }
        if let Some(gap) = self.transmission_gap_s {
            let rounds = self.longest_round_s.map_or_else(String::new, |one| {
                let more =
                    if gap > one * 2.000_001 { ", and what latency-critical classes may be ahead by" } else { "" };
                format!(" (two rounds of {}{more})", human::time(one))
            });
            lines.push(format!(
                "transmission gap  a backlogged leaf waits at most {} for its next visit{rounds}",
                human::time(gap)
            ));
        }
        if delays {
            let which = "for traffic within the class's rate and burst: what it sets, its curve's first piece, or a largest frame";
            lines.push(format!("delay             {which}"));
        }
        let computed = [("fairness", self.fairness_s.is_some()), ("delay", delays)];
        let computed = |name: &&&str| !computed.contains(&(**name, true)) && self.transmission_gap_s.is_none();
        let names: Vec<&str> = promised.iter().filter(computed).copied().collect();
        if promised.is_empty() {
            lines.push("This scheduler promises no bounds.".to_owned());
        } else if !names.is_empty() {
            let names = names.join(", ").replace('_', " ");
            lines.push(format!("This scheduler also promises {names}; how much is not computed here."));
        }
        lines
    }
}
