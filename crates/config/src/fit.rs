//! Fits minimum rates into guarantees that hold.
//!
//! Other tools accept minimum rates that add up to more than the link. Guarantees must hold, so rates that do not fit
//! are scaled down in proportion: a class with twice the rate of another still gets twice as much.

/// The request of a class in a tree, in bit/s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Position of the parent, which comes first.
    pub(crate) parent: Option<usize>,
    pub(crate) floor: Option<u64>,
    pub(crate) ceiling: Option<u64>,
}

/// Guarantees that can be kept.
#[derive(Debug)]
pub(crate) struct Fitted {
    /// By position, in bit/s; `None` for all siblings if none of them, and nothing below them, has a request.
    pub(crate) guarantees: Vec<Option<u64>>,
    /// Parents whose children ask for more than the parent has.
    pub(crate) over: Vec<Over>,
}

/// Children that ask for more than their parent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    /// Its position; `None` for the link.
    pub(crate) parent: Option<usize>,
    /// Sum of the requests, in bit/s.
    pub(crate) asked: u128,
    /// Available rate in bit/s: the parent's ceiling, or the link's rate.
    pub(crate) has: u64,
}

/// Need of a class without a request whose siblings have one, in bit/s.
const LEAST: u64 = 1000;

/// Fits the requests into a link of `link` bit/s.
///
/// A class needs its request, at least the sum of its children, and at most its ceiling. A class without a request
/// whose siblings have one gets what borrowing would give it if all were busy: an equal part of the rest. It must not
/// get nothing, because siblings all have a guarantee or none has.
pub(crate) fn fit(classes: &[Asked], link: u64) -> Fitted {
    let mut needs: Vec<u64> = vec![0; classes.len()];
    let mut below: Vec<u128> = vec![0; classes.len()];
    let mut silent: Vec<u128> = vec![0; classes.len()];
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); classes.len() + 1];
    let group = |parent: Option<usize>| parent.map_or(0, |parent| parent + 1);
    for (at, class) in classes.iter().enumerate() {
        children[group(class.parent)].push(at);
    }
    for (at, class) in classes.iter().enumerate().rev() {
        if below[at] > 0 {
            below[at] += silent[at] * u128::from(LEAST);
        }
        let wanted = below[at].max(class.floor.unwrap_or(0).into());
        needs[at] = u64::try_from(wanted).unwrap_or(u64::MAX).min(class.ceiling.unwrap_or(u64::MAX));
        if let Some(parent) = class.parent {
            below[parent] += u128::from(needs[at]);
            silent[parent] += u128::from(needs[at] == 0);
        }
    }
    let mut fitted = Fitted { guarantees: vec![None; classes.len()], over: Vec::new() };
    for (place, siblings) in children.iter().enumerate() {
        let parent = place.checked_sub(1);
        let has = match parent {
            None => link,
            Some(parent) => match fitted.guarantees[parent] {
                Some(guarantee) => guarantee,
                None => continue,
            },
        };
        share(siblings, has, parent, classes, &mut needs, &mut fitted);
    }
    fitted
}

fn share(
    siblings: &[usize],
    has: u64,
    parent: Option<usize>,
    classes: &[Asked],
    needs: &mut [u64],
    fitted: &mut Fitted,
) {
    let asked: u128 = siblings.iter().map(|&at| u128::from(needs[at])).sum();
    if asked == 0 {
        return;
    }
    let silent: Vec<usize> = siblings.iter().copied().filter(|&at| needs[at] == 0).collect();
    let left = u128::from(has).saturating_sub(asked);
    let part = u64::try_from(left / siblings.len() as u128).unwrap_or(u64::MAX);
    for at in silent {
        let part = if part > 0 { part } else { LEAST };
        needs[at] = part.min(classes[at].ceiling.unwrap_or(u64::MAX)).max(1);
    }
    let wanted: u128 = siblings.iter().map(|&at| u128::from(needs[at])).sum();
    // A deficit because the parent itself was scaled down has been reported above.
    let capacity = parent.map_or(has, |parent| needs[parent]);
    if asked > u128::from(capacity) {
        fitted.over.push(Over { parent, asked, has: capacity });
    }
    for &at in siblings {
        let need = u128::from(needs[at]);
        let given = if wanted > u128::from(has) { need * u128::from(has) / wanted } else { need };
        fitted.guarantees[at] = Some(u64::try_from(given).unwrap_or(u64::MAX).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(rows: &[(Option<usize>, Option<u64>, Option<u64>)]) -> Vec<Asked> {
        rows.iter().map(|&(parent, floor, ceiling)| Asked { parent, floor, ceiling }).collect()
    }

    #[test]
    fn what_fits_is_kept_and_inner_classes_need_what_those_below_them_need() {
        let tree = asked(&[
            (None, None, Some(900)),
            (Some(0), Some(100), None),
            (Some(0), Some(200), Some(150)),
            (None, Some(50), None),
        ]);
        let fitted = fit(&tree, 1000);
        assert_eq!(fitted.guarantees, [Some(250), Some(100), Some(150), Some(50)]);
        assert_eq!(fitted.over, []);
    }

    #[test]
    fn what_does_not_fit_is_scaled_down_in_proportion_and_said_with_both_numbers() {
        let tree = asked(&[(None, None, Some(90)), (Some(0), Some(100), None), (Some(0), Some(200), None)]);
        let fitted = fit(&tree, 1000);
        assert_eq!(fitted.guarantees, [Some(90), Some(30), Some(60)]);
        assert_eq!(fitted.over, [Over { parent: Some(0), asked: 300, has: 90 }]);
        let fitted = fit(&asked(&[(None, Some(3000), None), (None, Some(1000), None)]), 1000);
        assert_eq!(fitted.guarantees, [Some(750), Some(250)]);
        assert_eq!(fitted.over, [Over { parent: None, asked: 4000, has: 1000 }]);
    }

    #[test]
    fn what_is_scaled_down_because_of_a_class_above_is_said_there_alone() {
        let tree = asked(&[(None, None, None), (Some(0), Some(3000), None), (Some(0), Some(1000), None)]);
        let fitted = fit(&tree, 1000);
        assert_eq!(fitted.guarantees, [Some(1000), Some(750), Some(250)]);
        assert_eq!(fitted.over, [Over { parent: None, asked: 4000, has: 1000 }]);
    }

    #[test]
    fn a_class_that_asks_for_nothing_shares_what_is_left_and_siblings_that_all_do_are_equal() {
        let fitted = fit(&asked(&[(None, Some(10_000), None), (None, None, None), (None, None, Some(2_000))]), 40_000);
        assert_eq!(fitted.guarantees, [Some(10_000), Some(10_000), Some(2_000)]);
        // Nothing is left for it.
        let fitted = fit(&asked(&[(None, Some(40_000), None), (None, None, None)]), 40_000);
        assert_eq!(fitted.guarantees, [Some(39_024), Some(975)]);
        assert_eq!(fitted.over, []);
        // Nor below a class that asks for no more than those below it.
        let fitted = fit(&asked(&[(None, None, None), (Some(0), Some(5_000), None), (Some(0), None, None)]), 40_000);
        assert_eq!(fitted.guarantees, [Some(6_000), Some(5_000), Some(500)]);
        let fitted = fit(&asked(&[(None, None, None), (Some(0), None, None), (None, None, None)]), 40_000);
        assert_eq!(fitted.guarantees, [None; 3]);
    }

    #[test]
    fn guarantees_never_add_up_to_more_than_their_parent_has() {
        // Every shape of three levels with numbers of a fixed sequence.
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let mut tree: Vec<Asked> = Vec::new();
            for at in 0..1 + next(12) as usize {
                let parent = (at > 0 && next(3) > 0).then(|| next(at as u64) as usize);
                let floor = (next(4) > 0).then(|| next(1_000_000_000));
                tree.push(Asked { parent, floor, ceiling: (next(2) > 0).then(|| 1 + next(1_000_000_000)) });
            }
            let link = 1_000_000 + next(1_000_000_000);
            let fitted = fit(&tree, link);
            for parent in (0..tree.len()).map(Some).chain([None]) {
                let siblings = || (0..tree.len()).filter(|&at| tree[at].parent == parent);
                let sum: u128 = siblings().filter_map(|at| fitted.guarantees[at]).map(u128::from).sum();
                let has = parent.map_or(Some(link), |parent| fitted.guarantees[parent]);
                assert!(sum <= has.unwrap_or(0).into(), "{tree:?} {fitted:?}");
                let with = siblings().filter(|&at| fitted.guarantees[at].is_some()).count();
                assert!(with == 0 || with == siblings().count(), "{tree:?} {fitted:?}");
            }
        }
    }
}
