//! Sections II, III and IX on class trees and allocations: the superadditive property, guarantees and weights, observations O1 and O2. All exact.

use fairlink_core::{ClassConfig, ClassId, Hierarchy, HierarchyError, LinkConfig, Rate, Share};
use fairlink_theory::hmm::Allocation;
use fairlink_theory::request::{Demand, Request};
use num_rational::BigRational;
use num_traits::Zero;

use crate::claims::random::{RandomClass, SeededRng, classes};
use crate::claims::{ClaimError, Finding, Lab, Row};

/// The link of the random trees, in bit/s.
const LINK: u64 = 1_000_000_000;

fn link() -> Result<LinkConfig, ClaimError> {
    Ok(LinkConfig::new(Rate::from_bps(LINK).map_err(ClaimError::other)?))
}

fn add(
    tree: &mut fairlink_core::HierarchyBuilder,
    made: &[ClassId],
    class: &RandomClass,
    share: Share,
) -> Result<ClassId, HierarchyError> {
    let parent = class.parent.map_or(ClassId::ROOT, |parent| made[parent]);
    tree.add(parent, ClassConfig { share: Some(share), ..ClassConfig::default() })
}

/// Makes a tree with these shares, in the order of the classes.
fn build(
    classes: &[RandomClass],
    share: impl Fn(usize) -> Share,
) -> Result<Result<Hierarchy, HierarchyError>, ClaimError> {
    let mut tree = Hierarchy::builder(link()?);
    let mut made = Vec::new();
    for (place, class) in classes.iter().enumerate() {
        match add(&mut tree, &made, class, share(place)) {
            Ok(id) => made.push(id),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(tree.build())
}

fn guarantee(bps: u64) -> Result<Share, ClaimError> {
    Ok(Share::Guarantee(Rate::from_bps(bps).map_err(ClaimError::other)?))
}

/// Guarantees in bit/s by class: a random part of the parent's for each, all of them within it.
fn superadditive_guarantees(dice: &mut SeededRng, classes: &[RandomClass]) -> Vec<u64> {
    let mut guarantees: Vec<u64> = Vec::new();
    for class in classes {
        let room = class.parent.map_or(LINK, |parent| guarantees[parent]);
        let siblings: u64 = classes.iter().filter(|other| other.parent == class.parent).map(|other| other.weight).sum();
        let part = dice.between(50, 100);
        guarantees.push((room / 100 * part / siblings * class.weight).max(1));
    }
    guarantees
}

fn whole(value: u64) -> BigRational {
    BigRational::from_integer(value.into())
}

/// Tests the superadditive property: kept trees are accepted, broken ones refused.
pub(super) fn superadditive(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(300, 5_000);
    let (mut refused, mut taken, mut elsewhere) = (0usize, 0usize, 0usize);
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(21, case);
        let classes = classes(&mut dice, 20, 4);
        let mut guarantees = superadditive_guarantees(&mut dice, &classes);
        let shares = |guarantees: &[u64]| -> Result<Vec<Share>, ClaimError> {
            guarantees.iter().map(|&bps| guarantee(bps)).collect()
        };
        let kept = shares(&guarantees)?;
        refused += usize::from(build(&classes, |place| kept[place])?.is_err());
        // One class is raised until it and its siblings exceed the parent's guarantee by one bit/s.
        let raised = dice.below(classes.len() as u64) as usize;
        let parent = classes[raised].parent;
        let room = parent.map_or(LINK, |parent| guarantees[parent]);
        let others: u64 = (0..classes.len())
            .filter(|&at| at != raised && classes[at].parent == parent)
            .map(|at| guarantees[at])
            .sum();
        guarantees[raised] = room + 1 - others;
        let broken = shares(&guarantees)?;
        match build(&classes, |place| broken[place])? {
            Ok(_) => taken += 1,
            Err(HierarchyError::GuaranteesExceedParent { parent: at, children_bps, parent_bps }) => {
                let place = parent.map_or(ClassId::ROOT, |parent| ClassId(parent as u32 + 1));
                elsewhere += usize::from(at != place || children_bps != room + 1 || parent_bps != room);
            }
            Err(_) => elsewhere += 1,
        }
    }
    let note = format!(
        "{cases} random trees of 2 to 20 classes on up to four levels, each with guarantees that keep the property, and with one class raised until it and its \
         siblings are guaranteed one bit/s more than their parent."
    );
    Ok(Finding::new(
        note,
        vec![
            Row::never("trees that break the property by 1 bit/s and are taken", taken),
            Row::never("refusals that name another parent or other sums", elsewhere),
            Row::never("trees that keep the property and are refused", refused),
        ],
    ))
}

/// Weights as guarantees: the product formula of Section II.
pub(super) fn weights(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(200, 5_000);
    let (mut compared, mut different, mut unlike) = (0usize, 0usize, 0usize);
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(22, case);
        let classes = classes(&mut dice, 20, 5);
        let tree = build(&classes, |place| Share::Weight(classes[place].weight))?.map_err(ClaimError::other)?;
        let all = Allocation::solve(&tree, &Demand::uniform(&tree, Request::Unlimited));
        let mut product = vec![whole(LINK)];
        for (place, class) in classes.iter().enumerate() {
            let siblings: u64 =
                classes.iter().filter(|other| other.parent == class.parent).map(|other| other.weight).sum();
            let above = product[class.parent.map_or(0, |parent| parent + 1)].clone();
            product.push(above * whole(class.weight) / whole(siblings));
            compared += 1;
            different += usize::from(all.rate(ClassId(place as u32 + 1)) != product[place + 1]);
        }
        // In another unit.
        let scale = 1u64 << 20;
        let by = |place: usize| Share::Weight(classes[place].weight * scale);
        let scaled = build(&classes, by)?.map_err(ClaimError::other)?;
        let again = Allocation::solve(&scaled, &Demand::uniform(&scaled, Request::Unlimited));
        unlike += tree.classes().filter(|&class| again.rate(class) != all.rate(class)).count();
    }
    let note = format!(
        "{cases} random trees of 2 to 20 classes on up to five levels with weights, {compared} classes. What a class gets when all leaves send, by the fluid ideal, beside the product of \
         its own and its ancestors' parts of their siblings' weights. The unit of weights changes nothing: multiplied by 2^20 they give the same."
    );
    let rows = vec![
        Row::never("classes whose rate is not the product of the formula", different),
        Row::never("classes whose rate depends on the unit of weights", unlike),
    ];
    Ok(Finding::new(note, rows))
}

fn random_demand(dice: &mut SeededRng, tree: &Hierarchy) -> Result<(Demand, Vec<Option<u64>>), ClaimError> {
    let mut asked = vec![Some(0); tree.len()];
    let mut requests = Vec::new();
    for &leaf in tree.leaves() {
        let request = match dice.below(4) {
            0 => Request::Rate(0),
            1 => Request::Unlimited,
            _ => Request::Rate(dice.below(LINK / 2)),
        };
        asked[leaf.index()] = match request {
            Request::Rate(bps) => Some(bps),
            Request::Unlimited => None,
        };
        requests.push((leaf, request));
    }
    for class in tree.classes().rev() {
        let Some(parent) = tree.parent(class) else { continue };
        let sum = asked[parent.index()].zip(asked[class.index()]).map(|(above, own)| above + own);
        asked[parent.index()] = sum;
    }
    Ok((Demand::new(tree, requests).map_err(ClaimError::other)?, asked))
}

/// Observations O1 and O2.
pub(super) fn observations(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(500, 10_000);
    let (mut first, mut second, mut unsatisfied, mut satisfied) = (0usize, 0usize, 0u64, 0u64);
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(23, case);
        let classes = classes(&mut dice, 20, 5);
        let tree = build(&classes, |place| Share::Weight(classes[place].weight))?.map_err(ClaimError::other)?;
        let (demand, asked) = random_demand(&mut dice, &tree)?;
        let hmm = Allocation::solve(&tree, &demand);
        // a_i < r_i, from the sums of equation (2).
        let is_short =
            |class: usize| asked[class].is_none_or(|request| hmm.rate(ClassId(class as u32)) < whole(request));
        let short: Vec<bool> = (0..tree.len()).map(is_short).collect();
        for class in tree.classes() {
            let Some(parent) = tree.parent(class) else { continue };
            // Step by step: a property of each parent holds for all ancestors and descendants.
            if short[class.index()] {
                unsatisfied += 1;
                first += usize::from(!short[parent.index()]);
            }
            if !short[parent.index()] {
                satisfied += 1;
                second += usize::from(short[class.index()]);
            }
        }
    }
    let note = format!(
        "{cases} random trees of 2 to 20 classes on up to five levels, random demands, solved exactly: {unsatisfied} classes with a_i < r_i, and {satisfied} children of \
         classes with a_i = r_i."
    );
    let rows = vec![
        Row::never("O1: classes with a_i < r_i below one with a_j = r_j", first),
        Row::never("O2: classes with a_j < r_j below one with a_i = r_i", second)
            .judging("(O2) If a_i = r_i then a_j = r_j for all j ∈ desc(i)."),
    ];
    Ok(Finding::new(note, rows))
}

/// Guarantees that are given only as weights are kept (Section IX, against \[18\]).
pub(super) fn sufficient(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(500, 10_000);
    let (mut compared, mut short, mut flat_short) = (0u64, 0usize, 0usize);
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(24, case);
        let classes = classes(&mut dice, 20, 4);
        let guarantees = superadditive_guarantees(&mut dice, &classes);
        let tree = build(&classes, |place| Share::Weight(guarantees[place]))?.map_err(ClaimError::other)?;
        let (demand, asked) = random_demand(&mut dice, &tree)?;
        let hmm = Allocation::solve(&tree, &demand);
        let missing = |rate: BigRational, request: Option<u64>, guarantee: u64| {
            rate < whole(request.map_or(guarantee, |request| request.min(guarantee)))
        };
        for (place, &bps) in guarantees.iter().enumerate() {
            let class = ClassId(place as u32 + 1);
            compared += 1;
            short += usize::from(missing(hmm.rate(class), asked[class.index()], bps));
        }
        // The same leaves side by side, by the same weights: the guarantee of a class with others below it is lost.
        let mut flat = Hierarchy::builder(link()?);
        let mut requests = Vec::new();
        for &leaf in tree.leaves() {
            let share = Some(Share::Weight(guarantees[leaf.index() - 1]));
            let id =
                flat.add(ClassId::ROOT, ClassConfig { share, ..ClassConfig::default() }).map_err(ClaimError::other)?;
            requests.push((id, demand.get(leaf).unwrap_or(Request::Rate(0))));
        }
        let flat = flat.build().map_err(ClaimError::other)?;
        let flat_demand = Demand::new(&flat, requests).map_err(ClaimError::other)?;
        let rates = Allocation::solve(&flat, &flat_demand);
        let mut sums = vec![BigRational::zero(); tree.len()];
        for (place, &leaf) in tree.leaves().iter().enumerate() {
            let mut class = Some(leaf);
            while let Some(at) = class {
                sums[at.index()] += rates.rate(ClassId(place as u32 + 1));
                class = tree.parent(at);
            }
        }
        flat_short += (0..guarantees.len())
            .filter(|&place| missing(sums[place + 1].clone(), asked[place + 1], guarantees[place]))
            .count();
    }
    let note = format!(
        "{cases} random trees whose guarantees keep the superadditive property, with the guarantees as weights and nothing else, and random demands: {compared} classes. \
         Each gets its guarantee or all that it asks for. Without the tree, by the weights of leaves alone, {flat_short} of the same classes get less: it is the \
         tree that keeps what inner classes are guaranteed."
    );
    Ok(Finding::new(note, vec![Row::never("classes that get less than their request and their guarantee", short)]))
}
