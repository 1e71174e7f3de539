//! Bounds that are computed from a tree: Theorems 3 to 6, Corollary 1, Table II.

use fairlink_core::Hierarchy;
use fairlink_theory::bounds::{HdrrBounds, HlsBounds};
use fairlink_theory::to_f64;
use fairlink_theory::weights::Weights;

use crate::claims::finding::Rerun;
use crate::claims::{Expected, Finding, Lab, Row, Trouble, Unit};

/// Figure 1 with weights as the paper has them.
const FIGURE_1: &str = include_str!("../../../../../scenarios/fig1-weights.toml");
/// The largest packet of the paper's examples, and the quantum of HDRR there.
const LARGEST: u32 = 1500;

/// A link file is checked, not simulated.
fn rerun(arguments: &str) -> Rerun {
    Rerun {
        file: "fig1-weights.toml".into(),
        text: FIGURE_1.into(),
        command: format!("check fig1-weights.toml{arguments}"),
    }
}

fn figure_1() -> Result<Hierarchy, Trouble> {
    Ok(fairlink_config::LinkFile::parse("fig1-weights.toml", FIGURE_1, &fairlink_config::ReadOptions::default())?.tree)
}

/// Theorem 3 on Figure 1.
pub(super) fn alpha(_: &Lab<'_>) -> Result<Finding, Trouble> {
    let tree = figure_1()?;
    let weights = Weights::as_written(&tree, 1).map_err(Trouble::other)?;
    let bounds = HlsBounds::new(&tree, &weights, 1, |_| LARGEST).map_err(Trouble::other)?;
    let worst = bounds.alpha().ok_or_else(|| Trouble::other("no siblings"))?;
    let row = Row::new("fairness bound", Unit::Bytes, Expected::Within(103.5, 0.0), to_f64(&worst.value));
    let note = "Theorem 3 over all pairs of siblings, in rational numbers; the worst pair are A1 and A2.";
    Ok(Finding::new(note, vec![row]).with_rerun(rerun("")))
}

/// Theorem 4 on Figure 1.
pub(super) fn alpha_hdrr(_: &Lab<'_>) -> Result<Finding, Trouble> {
    let tree = figure_1()?;
    let weights = Weights::as_written(&tree, 1).map_err(Trouble::other)?;
    let bounds = HdrrBounds::new(&tree, &weights, u64::from(LARGEST), |_| LARGEST).map_err(Trouble::other)?;
    let worst = bounds.alpha().ok_or_else(|| Trouble::other("no siblings"))?;
    let row = Row::new("fairness bound", Unit::Bytes, Expected::Within(1522.5, 0.0), to_f64(&worst.value));
    let note = "Theorem 4 as printed, over all pairs of siblings. It holds for leaves; for inner classes it does not \
                (see the papers' page).";
    Ok(Finding::new(note, vec![row]).with_rerun(rerun(" --scheduler hdrr")))
}
