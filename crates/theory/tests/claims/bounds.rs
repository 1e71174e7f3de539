//! The figures that the HLS paper gives for its bounds and HDRR's.

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Rate, Share};
use fairlink_theory::bounds::{BoundsError, HdrrBounds, HlsBounds};
use fairlink_theory::to_f64;
use fairlink_theory::weights::Weights;
use num_rational::BigRational;
use rand::Rng;

use crate::random::{CLAIMED, Plan, Shape, figure_1, rng, whole};

const GBIT: Rate = match Rate::from_bps(1_000_000_000) {
    Ok(rate) => rate,
    Err(_) => Rate::MIN,
};

fn ratio(numerator: i64, denominator: i64) -> BigRational {
    BigRational::new(numerator.into(), denominator.into())
}

#[test]
fn figure_1_has_an_alpha_of_103_5_bytes_under_hls() {
    let (tree, [a, b, c, a1, a2, b1, b2]) = figure_1();
    let weights = Weights::as_written(&tree, 1_000_000).unwrap();
    let bounds = HlsBounds::new(&tree, &weights, 1, |_| 1500).unwrap();
    let worst = bounds.alpha().unwrap();
    assert_eq!((worst.classes, worst.value), ((a1, a2), ratio(207, 2)));
    assert_eq!(bounds.aggregate_at_round_start(a), whole(3300));
    assert_eq!(bounds.aggregate_at_round_start(c), whole(1499));
    assert_eq!(bounds.aggregate(b1), whole(6900));
    // 6900 / 300 + (1499 + 400 * 12) / 400
    assert_eq!(bounds.alpha_between(b, c), Some(ratio(15499, 400)));
    assert_eq!(bounds.alpha_between(a1, b2), None);
    assert_eq!(bounds.alpha_between(a1, a1), None);
    // At the guarantee of 1 Mbit/s per unit of weight.
    assert_eq!(bounds.fairness_seconds(GBIT).unwrap().value, ratio(828, 1_000_000));
}

#[test]
fn a_leaf_that_may_be_ahead_of_its_turn_adds_that_to_its_own_bounds_and_to_those_above_it() {
    let (tree, [a, b, c, a1, a2, b1, b2]) = figure_1();
    let weights = Weights::as_written(&tree, 1_000_000).unwrap();
    let plain = HlsBounds::new(&tree, &weights, 1, |_| 1500).unwrap();
    let ahead = plain.clone().with_advances(|leaf| if leaf == b2 { 6000 } else { 0 });
    let grown = |i, j| ahead.alpha_between(i, j).unwrap() - plain.alpha_between(i, j).unwrap();
    assert_eq!((grown(b1, b2), grown(a, b), grown(b, c)), (ratio(6000, 200), ratio(6000, 300), ratio(6000, 300)));
    assert_eq!((grown(a1, a2), grown(a, c)), (whole(0), whole(0)));
    let worst = ahead.alpha().unwrap();
    assert_eq!((worst.classes, worst.value), ((b1, b2), ratio(207, 2) + whole(30)));
    assert_eq!(ahead.transmission_gap(GBIT) - plain.transmission_gap(GBIT), ratio(6000 * 8, 1_000_000_000));
    // At the root it is the one that may be ahead that is worst.
    let ahead = plain.clone().with_advances(|leaf| if leaf == c { 1_000_000 } else { 0 });
    assert_eq!(ahead.alpha().unwrap().classes.0, c);
}

#[test]
fn figure_1_has_an_alpha_of_1522_5_bytes_under_hdrr() {
    let (tree, [a, _, _, a1, a2, _, b2]) = figure_1();
    let weights = Weights::as_written(&tree, 1_000_000).unwrap();
    let bounds = HdrrBounds::new(&tree, &weights, 1500, |_| 1500).unwrap();
    let worst = bounds.alpha().unwrap();
    assert_eq!((worst.classes, worst.value), ((a1, a2), ratio(3045, 2)));
    assert_eq!((bounds.alpha_between(a1, b2), bounds.alpha_between(a, a)), (None, None));
    assert_eq!(bounds.visits(a1), whole(300_000));
}

#[test]
fn figure_1_has_gaps_of_0_1456_ms_under_hls_and_3600_ms_under_hdrr() {
    let (tree, _) = figure_1();
    let weights = Weights::as_written(&tree, 1_000_000).unwrap();
    let hls = HlsBounds::new(&tree, &weights, 1, |_| 1500).unwrap();
    assert_eq!(hls.transmission_gap(GBIT), ratio(1456, 10_000_000));
    assert_eq!(hls.longest_round(GBIT), ratio(728, 10_000_000));
    let hdrr = HdrrBounds::new(&tree, &weights, 1500, |_| 1500).unwrap();
    assert_eq!(hdrr.transmission_gap(GBIT), ratio(3_600_048, 1_000_000));
}

#[test]
fn corollary_1_is_theorem_3_on_flat_trees() {
    let flat = Shape { levels: 1..=1, leaves: 2..=40, ..CLAIMED };
    for seed in 0..100 {
        let mut rng = rng(seed);
        let tree = Plan::random(&mut rng, &flat).build();
        let weights = Weights::as_written(&tree, rng.random_range(1..1000)).unwrap();
        let packets: Vec<u32> = (0..tree.len()).map(|_| rng.random_range(1..9000)).collect();
        let bounds = HlsBounds::new(&tree, &weights, 1, |class| packets[class.index()]).unwrap();
        // (L - 1) / w
        let term = |class: ClassId| whole(packets[class.index()] - 1) / weights.bytes(class);
        let largest = tree.leaves().iter().map(|&leaf| term(leaf)).max().unwrap();
        let mut alpha = whole(0);
        for &i in tree.leaves() {
            for &j in tree.leaves().iter().filter(|&&j| j != i) {
                let corollary = term(i) + term(j) + whole(2) + whole(2) * &largest;
                assert_eq!(bounds.alpha_between(i, j).as_ref(), Some(&corollary), "seed {seed}");
                alpha = alpha.max(corollary);
            }
        }
        assert_eq!(bounds.alpha().unwrap().value, alpha, "seed {seed}");
    }
}

#[test]
fn the_worst_pair_is_the_worst_of_all_pairs() {
    let shape = Shape { leaves: 2..=30, ..CLAIMED };
    for seed in 0..60 {
        let mut rng = rng(seed);
        let tree = Plan::random(&mut rng, &shape).build();
        let weights = Weights::as_written(&tree, 1000).unwrap();
        let hls = HlsBounds::new(&tree, &weights, 1 << 24, |leaf| 64 + leaf.0).unwrap();
        let hdrr = HdrrBounds::new(&tree, &weights, 700, |leaf| 64 + leaf.0).unwrap();
        let pairs = || tree.classes().flat_map(|i| tree.classes().map(move |j| (i, j)));
        assert_eq!(hls.alpha().map(|pair| pair.value), pairs().filter_map(|(i, j)| hls.alpha_between(i, j)).max());
        assert_eq!(hdrr.alpha().map(|pair| pair.value), pairs().filter_map(|(i, j)| hdrr.alpha_between(i, j)).max());
        // As time at the guarantee: alpha w_i / g_i, where g_i is the product of the shares on the path times C.
        let seconds = pairs().filter_map(|(i, j)| {
            let mut share = whole(1);
            let mut at = i;
            while let Some(parent) = tree.parent(at) {
                let siblings: BigRational = tree.children(parent).iter().map(|&child| weights.bytes(child)).sum();
                share *= weights.bytes(at) / siblings;
                at = parent;
            }
            Some(hls.alpha_between(i, j)? * whole(8) * weights.bytes(i) / (share * whole(1_000_000_000)))
        });
        assert_eq!(hls.fairness_seconds(GBIT).map(|pair| pair.value), seconds.max());
        // The largest product of Lemma 9 over all leaves is the one that Theorem 6 uses.
        let most = tree.leaves().iter().map(|&leaf| hdrr.visits(leaf)).max().unwrap();
        let packets: u32 = tree.leaves().iter().map(|leaf| 64 + leaf.0).sum();
        let bytes = (most - whole(1)) * whole(700) + whole(packets);
        assert_eq!(hdrr.transmission_gap(GBIT), bytes * whole(8) / whole(1_000_000_000));
    }
}

#[test]
fn weights_in_fractions_of_a_byte_change_nothing_but_the_credit() {
    let (tree, [_, _, _, a1, a2, ..]) = figure_1();
    // Weights in units of 2^-24 byte that are the same number of bytes: the same bounds except for the smaller credit.
    let bytes = Weights::as_written(&tree, 1_000_000).unwrap();
    let units: Vec<u64> = (0..tree.len()).map(|class| (bytes.units(ClassId(class as u32)) / 1_000_000) << 24).collect();
    let fine = Weights::new(&tree, units, 1 << 24).unwrap();
    assert_eq!(bytes.bytes(a1), fine.bytes(a1));
    let coarse = HlsBounds::new(&tree, &bytes, 1, |_| 1500).unwrap();
    let fine = HlsBounds::new(&tree, &fine, 1 << 24, |_| 1500).unwrap();
    // A~_A and with it the root's largest quota has no term of a credit, so that A1 and A2 keep their bound ...
    assert_eq!(coarse.alpha_between(a1, a2), fine.alpha_between(a1, a2));
    // ... and C has one credit less to subtract.
    let c = ClassId(3);
    assert_eq!(fine.aggregate(c) - coarse.aggregate(c), whole(1) - ratio(1, 1 << 24));
}

/// A complete binary tree of `levels` levels, the root's included, with weights 3 and 7.
fn binary(levels: usize) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(GBIT));
    let mut parents = vec![ClassId::ROOT];
    for _ in 1..levels {
        let mut children = Vec::new();
        for parent in parents {
            for weight in [3, 7] {
                let share = Some(Share::Weight(weight));
                children.push(tree.add(parent, ClassConfig { share, ..ClassConfig::default() }).unwrap());
            }
        }
        parents = children;
    }
    tree.build().unwrap()
}

/// Table II: levels, leaves, gap of HLS, gap of HDRR in ms, as printed; and the unit of the last digit of each.
const TABLE_2: [(usize, usize, f64, f64, f64, f64); 8] = [
    (4, 8, 0.096, 0.001, 12.0, 1.0),
    (5, 16, 0.19, 0.01, 120.0, 1.0),
    (6, 32, 0.39, 0.01, 1200.0, 1.0),
    (7, 64, 0.77, 0.01, 12_000.0, 1.0),
    (8, 128, 1.55, 0.01, 120_002.0, 1.0),
    (9, 256, 3.09, 0.01, 1_200_003.0, 1.0),
    (10, 512, 6.18, 0.01, 12_000_006.0, 1.0),
    (11, 1024, 12.37, 0.01, 120_000_012.0, 1.0),
];

#[test]
fn all_entries_of_table_2_agree_within_a_unit_of_their_last_digit() {
    let mut rounded = 0;
    for (levels, leaves, hls_ms, hls_unit, hdrr_ms, hdrr_unit) in TABLE_2 {
        let tree = binary(levels);
        assert_eq!(tree.leaves().len(), leaves);
        let weights = Weights::as_written(&tree, 1).unwrap();
        let hls = HlsBounds::new(&tree, &weights, 1, |_| 1500).unwrap();
        let hdrr = HdrrBounds::new(&tree, &weights, 1500, |_| 1500).unwrap();
        let hls = to_f64(&hls.longest_round(GBIT)) * 1e3;
        let hdrr = to_f64(&hdrr.transmission_gap(GBIT)) * 1e3;
        assert!((hls - hls_ms).abs() < hls_unit, "{levels} levels: {hls} ms under HLS");
        assert!((hdrr - hdrr_ms).abs() < hdrr_unit, "{levels} levels: {hdrr} ms under HDRR");
        rounded += usize::from((hls - hls_ms).abs() <= hls_unit / 2.0);
        rounded += usize::from((hdrr - hdrr_ms).abs() <= hdrr_unit / 2.0);
    }
    // 0.09656 and 12000.756 are printed as 0.096 and 12,000.
    assert_eq!(rounded, 14);
}

#[test]
fn bounds_without_packets_credits_or_quantum_are_refused() {
    let (tree, _) = figure_1();
    let weights = Weights::as_written(&tree, 1_000_000).unwrap();
    let no_packet = HlsBounds::new(&tree, &weights, 1, |leaf| leaf.0 - 3).unwrap_err();
    assert_eq!(no_packet, BoundsError::EmptyPacket { class: ClassId(3) });
    assert_eq!(HlsBounds::new(&tree, &weights, 0, |_| 1).unwrap_err(), BoundsError::NoCredits);
    assert_eq!(HdrrBounds::new(&tree, &weights, 0, |_| 1).unwrap_err(), BoundsError::NoQuantum);
}

#[test]
fn a_million_leaves_are_no_trouble_and_one_leaf_has_no_pair() {
    let mut tree = Hierarchy::builder(LinkConfig::new(GBIT));
    for _ in 0..1_000_000 {
        tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    }
    let tree = tree.build().unwrap();
    let weights = Weights::as_written(&tree, 1).unwrap();
    let bounds = HlsBounds::new(&tree, &weights, 1, |_| 1500).unwrap();
    assert_eq!(bounds.alpha().unwrap().value, whole(4 * 1500 - 2));
    let mut one = Hierarchy::builder(LinkConfig::new(GBIT));
    one.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    let one = one.build().unwrap();
    let weights = Weights::as_written(&one, 1).unwrap();
    let bounds = HlsBounds::new(&one, &weights, 1, |_| 1500).unwrap();
    assert_eq!((bounds.alpha(), bounds.fairness_seconds(GBIT)), (None, None));
}
