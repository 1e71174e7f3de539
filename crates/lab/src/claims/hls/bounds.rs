//! Bounds that are computed from a tree: Theorems 3 to 6, Corollary 1, Table II. All in rational numbers.

use fairlink_config::{LinkFile, ReadOptions};
use fairlink_core::{ClassConfig, ClassId, Hierarchy, HierarchyBuilder, LinkConfig, Rate, Share};
use fairlink_theory::bounds::{HdrrBounds, HlsBounds};
use fairlink_theory::to_f64;
use fairlink_theory::weights::Weights;
use num_rational::BigRational;

use crate::claims::finding::Rerun;
use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};

/// Figure 1 with weights as the paper has them.
const FIGURE_1: &str = include_str!("../../../../../scenarios/fig1-weights.toml");
/// The largest packet of the paper's examples, and the quantum of HDRR there.
const LARGEST: u32 = 1500;
/// Table II: levels, and the gaps of HLS and of HDRR in ms as the paper prints them.
const TABLE_2: [(usize, &str, &str); 8] = [
    (4, "0.096", "12"),
    (5, "0.19", "120"),
    (6, "0.39", "1,200"),
    (7, "0.77", "12,000"),
    (8, "1.55", "120,002"),
    (9, "3.09", "1,200,003"),
    (10, "6.18", "12,000,006"),
    (11, "12.37", "120,000,012"),
];

/// Makes a rerun that checks a link file and does not simulate it.
fn rerun(arguments: &str) -> Rerun {
    let file = "fig1-weights.toml".to_owned();
    Rerun { text: FIGURE_1.into(), command: format!("check {file}{arguments}"), file }
}

fn figure_1() -> Result<Hierarchy, ClaimError> {
    Ok(LinkFile::parse("fig1-weights.toml", FIGURE_1, &ReadOptions::default())?.tree)
}

fn written(tree: &Hierarchy) -> Result<Weights, ClaimError> {
    Weights::as_written(tree, 1).map_err(ClaimError::other)
}

fn hls<'a>(tree: &'a Hierarchy, weights: &'a Weights) -> Result<HlsBounds<'a>, ClaimError> {
    HlsBounds::new(tree, weights, 1, |_| LARGEST).map_err(ClaimError::other)
}

fn hdrr<'a>(tree: &'a Hierarchy, weights: &'a Weights) -> Result<HdrrBounds<'a>, ClaimError> {
    HdrrBounds::new(tree, weights, u64::from(LARGEST), |_| LARGEST).map_err(ClaimError::other)
}

fn none() -> ClaimError {
    ClaimError::other("the tree has no siblings")
}

/// Tests Theorem 3 on Figure 1.
pub(super) fn alpha(_: &Lab<'_>) -> Result<Finding, ClaimError> {
    let tree = figure_1()?;
    let weights = written(&tree)?;
    let worst = hls(&tree, &weights)?.alpha().ok_or_else(none)?;
    let row = Row::new("fairness bound", Unit::Bytes, Expected::Within(103.5, 0.0), to_f64(&worst.value));
    let note = "Theorem 3 over all pairs of siblings, in rational numbers; the worst pair are A1 and A2.";
    Ok(Finding::new(note, vec![row]).with_rerun(rerun("")))
}

/// Tests Theorem 4 on Figure 1.
pub(super) fn alpha_hdrr(_: &Lab<'_>) -> Result<Finding, ClaimError> {
    let tree = figure_1()?;
    let weights = written(&tree)?;
    let worst = hdrr(&tree, &weights)?.alpha().ok_or_else(none)?;
    let row = Row::new("fairness bound", Unit::Bytes, Expected::Within(1522.5, 0.0), to_f64(&worst.value));
    let note = "Theorem 4 as printed, over all pairs of siblings. It holds for leaves; for inner classes it does not, and a \
                test has the counterexample.";
    Ok(Finding::new(note, vec![row]).with_rerun(rerun(" --scheduler hdrr")))
}

/// Tests Corollary 1 against Theorem 3.
pub(super) fn alpha_flat(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases = lab.by_effort(200, 2_000);
    let (mut pairs, mut different, mut above) = (0u64, 0usize, 0usize);
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(1, case);
        let leaves = dice.between(2, 40);
        let mut tree = Hierarchy::builder(link()?);
        for _ in 0..leaves {
            add(&mut tree, ClassId::ROOT, dice.between(1, 1_000_000))?;
        }
        let tree = tree.build().map_err(ClaimError::other)?;
        let packets: Vec<u64> = (0..tree.len()).map(|_| dice.between(1, 9000)).collect();
        let weights = written(&tree)?;
        let bounds = HlsBounds::new(&tree, &weights, 1, |class| packets[class.index()] as u32);
        let bounds = bounds.map_err(ClaimError::other)?;
        // Corollary 1 in units of a credit over the weight: (L_i - 1) / w_i + (L_j - 1) / w_j + 2 + 2 max (L - 1) / w.
        let term = |class: ClassId| num(packets[class.index()] - 1) / weights.bytes(class);
        let largest = tree.leaves().iter().map(|&leaf| term(leaf)).max().ok_or_else(none)?;
        for (place, &i) in tree.leaves().iter().enumerate() {
            for &j in &tree.leaves()[place + 1..] {
                let corollary = term(i) + term(j) + num(2) + num(2) * &largest;
                pairs += 1;
                different += usize::from(bounds.alpha_between(i, j) != Some(corollary));
            }
        }
        // The quantum of DRR with which the corollary says that its bound is the same.
        let longest = tree.leaves().iter().map(|&leaf| packets[leaf.index()]).max().ok_or_else(none)?;
        above += usize::from(num(2) + num(2) * &largest > num(2) * num(longest));
    }
    let note = format!(
        "Both formulas in rational numbers for {pairs} pairs of leaves in {cases} random flat trees with 2 to 40 leaves, weights from \
         1 to 1,000,000 and largest packets from 1 to 9000 B."
    );
    let rows = vec![
        Row::never("pairs for which the two formulas differ", different),
        Row::never("trees in which the quantum of DRR with the same bound, 2 + 2 max (L_k - 1) / w_k, is above 2 L_max", above)
            .judging("This bound is identical to the bound for the non-hierarchical DRR scheduler with quantum 2 + 2 max (L_k - 1)/w_k bytes [8], which is no greater than 2 L_max"),
    ];
    Ok(Finding::new(note, rows))
}

/// Tests which of the two fairness bounds is lower in deep trees.
pub(super) fn alpha_deep(_: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut table =
        Table::new("Fairness bounds in bytes, binary trees with weights 3 and 7", &["levels", "HLS", "HDRR"]);
    let mut found = Vec::new();
    for (levels, ..) in TABLE_2 {
        let tree = binary(levels)?;
        let weights = written(&tree)?;
        let [hls, hdrr] = [hls(&tree, &weights)?.alpha(), hdrr(&tree, &weights)?.alpha()]
            .map(|worst| worst.map(|w| to_f64(&w.value)));
        let (hls, hdrr) = (hls.ok_or_else(none)?, hdrr.ok_or_else(none)?);
        table.row([levels.to_string(), format!("{hls:.1}"), format!("{hdrr:.1}")]);
        found.push(hdrr / hls);
    }
    let (first, last) = (found[0], found[found.len() - 1]);
    let rows = vec![
        Row::new("11 levels: bound of HDRR over that of HLS", Unit::Times, Expected::AtMost(1.0), last),
        Row::shown("4 levels: the same", Unit::Times, first),
    ];
    let note = "Theorems 3 and 4 on the trees of Table II. The bound of HLS grows with the number of levels, that of HDRR, as printed, does not.";
    Ok(Finding::new(note, rows).with_table(table))
}

fn num(value: u64) -> BigRational {
    BigRational::from_integer(value.into())
}

fn link() -> Result<LinkConfig, ClaimError> {
    Ok(LinkConfig::new(Rate::from_bps(1_000_000_000).map_err(ClaimError::other)?))
}

fn add(tree: &mut HierarchyBuilder, parent: ClassId, weight: u64) -> Result<ClassId, ClaimError> {
    let share = Some(Share::Weight(weight));
    tree.add(parent, ClassConfig { share, ..ClassConfig::default() }).map_err(ClaimError::other)
}

/// Tests Theorem 5 on Figure 1.
pub(super) fn gap(_: &Lab<'_>) -> Result<Finding, ClaimError> {
    let tree = figure_1()?;
    let weights = written(&tree)?;
    let (bounds, link) = (hls(&tree, &weights)?, tree.link().rate);
    let gap = to_f64(&bounds.transmission_gap(link));
    let round = to_f64(&bounds.longest_round(link));
    let note = "Theorem 5 has 2 (sum of weights + sum of largest packets) / C, and the paper's 0.146 ms is that, rounded. Its Table II has \
                half of it, the longest round of equation (25): both are shown.";
    Ok(Finding::new(
        note,
        vec![
            Row::new("transmission gap by Theorem 5", Unit::Seconds, Expected::Within(0.146e-3, 0.5e-6), gap),
            Row::shown("longest round, as Table II counts", Unit::Seconds, round),
        ],
    )
    .with_rerun(rerun("")))
}

/// Tests Theorem 6 on Figure 1.
pub(super) fn gap_hdrr(_: &Lab<'_>) -> Result<Finding, ClaimError> {
    let tree = figure_1()?;
    let weights = written(&tree)?;
    let gap = to_f64(&hdrr(&tree, &weights)?.transmission_gap(tree.link().rate));
    let row = Row::new("transmission gap by Theorem 6", Unit::Seconds, Expected::Within(3.6, 0.5e-3), gap);
    let note = "Theorem 6 gives 3600.048 ms; the paper prints 3600 ms. The quantum is the largest packet.";
    Ok(Finding::new(note, vec![row]).with_rerun(rerun(" --scheduler hdrr")))
}

/// Makes a complete binary tree of `levels` levels, including the root's, with weights 3 and 7.
fn binary(levels: usize) -> Result<Hierarchy, ClaimError> {
    let mut tree = Hierarchy::builder(link()?);
    let mut parents = vec![ClassId::ROOT];
    for _ in 1..levels {
        let mut children = Vec::new();
        for parent in parents {
            for weight in [3, 7] {
                children.push(add(&mut tree, parent, weight)?);
            }
        }
        parents = children;
    }
    tree.build().map_err(ClaimError::other)
}

/// Tests Table II, entry by entry.
pub(super) fn table2(_: &Lab<'_>) -> Result<Finding, ClaimError> {
    let head = ["levels", "leaves", "paper: HLS", "one round", "Theorem 5", "paper: HDRR", "Theorem 6"];
    let mut table = Table::new("Transmission gaps in ms, 1 Gbit/s, binary trees with weights 3 and 7", &head);
    let mut rows = Vec::new();
    for (levels, paper_hls, paper_hdrr) in TABLE_2 {
        let tree = binary(levels)?;
        let weights = written(&tree)?;
        let (bounds, link) = (hls(&tree, &weights)?, tree.link().rate);
        let ms = |seconds| 1e3 * to_f64(&seconds);
        let (round, two) = (ms(bounds.longest_round(link)), ms(bounds.transmission_gap(link)));
        let gap = ms(hdrr(&tree, &weights)?.transmission_gap(link));
        let cells = [round, two, gap].map(|value| format!("{value:.3}"));
        let (levels_text, leaves) = (levels.to_string(), tree.leaves().len().to_string());
        table.row([&*levels_text, &leaves, paper_hls, &cells[0], &cells[1], paper_hdrr, &cells[2]]);
        for (name, printed, ours) in [("HLS, one round", paper_hls, round), ("HDRR", paper_hdrr, gap)] {
            let paper: f64 = printed.replace(',', "").parse().map_err(ClaimError::other)?;
            let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            // Two entries are cut off and not rounded, so that a whole unit of the last digit is accepted.
            let digit = 10f64.powi(-(decimals as i32));
            let what = format!("{name}, {levels} levels");
            let expected = Expected::Within(paper * 1e-3, digit * 1e-3);
            rows.push(Row::new(what, Unit::Seconds, expected, ours * 1e-3));
        }
    }
    let note = "All 16 entries, each within a unit of its last digit. The row of HLS is one round, (sum of weights + sum of largest \
                packets) / C; Theorem 5 has twice that.";
    Ok(Finding::new(note, rows).with_table(table))
}
