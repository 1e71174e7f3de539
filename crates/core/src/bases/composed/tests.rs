//! Tests of the disciplines without a fluid system: self-clocked, start-time, WF2Q+, and WF2Q+ over a tree.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::Composed;
use crate::contract::{ClassId, Hierarchy, Leniency, LinkConfig, Members};
use crate::parts::virtual_time::HIGH;
use crate::runtime::registry;
use crate::schedulers::{hpfq, scfq::Scfq, sfq::Sfq, wf2q_plus::Wf2qPlus};
use crate::test_link::{
    Arrival, L_MAX, LINK, NS_PER_BYTE, Served, Step, delays_are_bounded, figure_2_1, flat, flat_traffic, order,
    pairs_are_fair, run, service_is_worst_case_fair, traffic, weighted,
};

fn tree_of(weights: &[u64]) -> Hierarchy {
    flat(weights.iter().map(|&weight| weighted(weight)))
}

fn largest(served: &[Served]) -> i128 {
    served.iter().map(|packet| i128::from(packet.len)).max().unwrap_or(0)
}

/// A random tree: parent (or none) and weight of every class.
fn trees() -> impl Strategy<Value = Vec<(Option<usize>, u64)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0u8..3, 1u64..=5), 1..12).prop_map(|list| {
        let mut classes: Vec<(Option<usize>, u64)> = Vec::new();
        for (below, how, weight) in list {
            let parent = if classes.is_empty() || how == 0 { None } else { Some(below.index(classes.len())) };
            classes.push((parent, weight));
        }
        classes
    })
}

fn build(classes: &[(Option<usize>, u64)]) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(LINK));
    for &(parent, weight) in classes {
        let parent = parent.map_or(ClassId::ROOT, |index| ClassId(index as u32 + 1));
        tree.add(parent, weighted(weight)).unwrap();
    }
    tree.build().unwrap()
}

fn path(tree: &Hierarchy, leaf: ClassId, served: &[Served]) -> Vec<Step> {
    let up = |class: &ClassId| tree.parent(*class).filter(|&parent| parent != ClassId::ROOT);
    let below = |class: ClassId, leaf: u32| {
        core::iter::successors(Some(ClassId(leaf)), |&at| tree.parent(at)).any(|at| at == class)
    };
    core::iter::successors(Some(leaf), up)
        .map(|class| Step {
            weight: tree.weight(class),
            siblings: tree.children_weight(tree.parent(class).unwrap()),
            largest: served.iter().filter(|packet| below(class, packet.class)).map(|p| p.len).max().unwrap_or(0),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn scfq_serves_backlogged_pairs_within_a_packet_of_each((weights, arrivals) in flat_traffic(200)) {
        let served = run(&mut Composed::<Scfq>::flat(&tree_of(&weights)).unwrap(), &arrivals);
        pairs_are_fair(&weights, &served)?;
    }

    #[test]
    fn sfq_serves_backlogged_pairs_within_a_packet_of_each((weights, arrivals) in flat_traffic(200)) {
        let served = run(&mut Composed::<Sfq>::flat(&tree_of(&weights)).unwrap(), &arrivals);
        pairs_are_fair(&weights, &served)?;
    }

    #[test]
    fn scfq_delay_is_within_one_largest_packet_of_every_other_class((weights, arrivals) in flat_traffic(200)) {
        let served = run(&mut Composed::<Scfq>::flat(&tree_of(&weights)).unwrap(), &arrivals);
        let others = (weights.len() as i128 - 1) * largest(&served) * i128::from(NS_PER_BYTE);
        // Of a class that is alone the link's own rate is the class's.
        delays_are_bounded(&weights, &served, |class, _| others * i128::from(weights[class]))?;
    }

    #[test]
    fn sfq_delay_is_within_one_packet_of_every_class_after_its_start_alone((weights, arrivals) in flat_traffic(200)) {
        let served = run(&mut Composed::<Sfq>::flat(&tree_of(&weights)).unwrap(), &arrivals);
        let all: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
        let largest = |class: usize| {
            let own = served.iter().filter(|packet| packet.class as usize == class + 1);
            own.map(|packet| i128::from(packet.len)).max().unwrap_or(0)
        };
        let each: i128 = (0..weights.len()).map(largest).sum();
        // From its expected arrival, which is its own time before the end alone.
        delays_are_bounded(&weights, &served, |class, len| {
            let own = i128::from(weights[class]);
            ((each - largest(class) + i128::from(len)) * own - i128::from(len) * all) * i128::from(NS_PER_BYTE)
        })?;
    }

    #[test]
    fn wf2q_plus_service_is_worst_case_fair((weights, arrivals) in flat_traffic(200)) {
        let tree = tree_of(&weights);
        let served = run(&mut Composed::<Wf2qPlus>::flat(&tree).unwrap(), &arrivals);
        for &leaf in tree.leaves() {
            service_is_worst_case_fair(&served, leaf.0, &path(&tree, leaf, &served))?;
        }
    }

    #[test]
    fn wf2q_plus_delay_is_within_a_largest_packet((weights, arrivals) in flat_traffic(200)) {
        let served = run(&mut Composed::<Wf2qPlus>::flat(&tree_of(&weights)).unwrap(), &arrivals);
        let largest = largest(&served) * i128::from(NS_PER_BYTE);
        delays_are_bounded(&weights, &served, |class, _| largest * i128::from(weights[class]))?;
    }

    #[test]
    fn hpfq_service_is_worst_case_fair_summed_over_the_path(
        (classes, arrivals) in trees().prop_flat_map(|classes| (Just(classes), traffic(20, 250)))
    ) {
        let tree = build(&classes);
        let leaves = tree.leaves();
        let arrivals: Vec<_> = arrivals
            .into_iter()
            .map(|arrival| Arrival { class: leaves[arrival.class as usize % leaves.len()].0, ..arrival })
            .collect();
        let served = run(&mut Composed::<Wf2qPlus>::hierarchical(&tree).unwrap(), &arrivals);
        for &leaf in leaves {
            service_is_worst_case_fair(&served, leaf.0, &path(&tree, leaf, &served))?;
        }
    }

    #[test]
    fn hpfq_over_one_level_is_wf2q_plus((weights, arrivals) in flat_traffic(150)) {
        let tree = tree_of(&weights);
        let one = run(&mut Composed::<Wf2qPlus>::hierarchical(&tree).unwrap(), &arrivals);
        prop_assert_eq!(one, run(&mut Composed::<Wf2qPlus>::flat(&tree).unwrap(), &arrivals));
    }

    #[test]
    fn a_virtual_time_that_is_lowered_does_not_change_the_order((weights, arrivals) in flat_traffic(100)) {
        let tree = tree_of(&weights);
        // The first packet of 1500 bytes, or the tenth, brings it there.
        for before in [1u128, 12_000_000_000_000, 120_000_000_000_000] {
            let mut high = Composed::<Scfq>::flat(&tree).unwrap();
            high.root_mut().sessions_mut().skip_to(HIGH - before);
            prop_assert_eq!(run(&mut Composed::<Scfq>::flat(&tree).unwrap(), &arrivals), run(&mut high, &arrivals));
            let mut high = Composed::<Sfq>::flat(&tree).unwrap();
            high.root_mut().sessions_mut().skip_to(HIGH - before);
            prop_assert_eq!(run(&mut Composed::<Sfq>::flat(&tree).unwrap(), &arrivals), run(&mut high, &arrivals));
            let mut high = Composed::<Wf2qPlus>::flat(&tree).unwrap();
            high.root_mut().sessions_mut().skip_to(HIGH - before);
            prop_assert_eq!(run(&mut Composed::<Wf2qPlus>::flat(&tree).unwrap(), &arrivals), run(&mut high, &arrivals));
        }
    }
}

#[test]
fn scfq_alternates_in_the_example_of_figure_2_1() {
    let sent = figure_2_1(&mut Composed::<Scfq>::flat(&tree_of(&[1, 1])).unwrap());
    let alternates = sent.iter().take(90).zip(sent.iter().skip(1)).all(|(one, next)| one != next);
    assert!(alternates && sent.len() >= 98, "{sent:?}");
}

/// The example with which the WF2Q papers begin: a class with half of the link and eleven packets, ten with a twentieth and one.
#[test]
fn wf2q_plus_does_not_run_ahead_where_wfq_does() {
    let tree = tree_of(&[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    let mut packets = alloc::vec![(1, L_MAX); 11];
    packets.extend((2..=11).map(|class| (class, L_MAX)));
    let sent = order(&mut Composed::<Wf2qPlus>::flat(&tree).unwrap(), &packets);
    // Then the last four finish at the same time in the fluid system.
    let every_other = (0..18).all(|place| (sent[place] == 1) == (place % 2 == 0));
    assert!(every_other, "{sent:?}");
    let mut wfq = registry::find("wfq").unwrap().build(&tree, Leniency::Refuse, Members::new()).unwrap();
    assert_eq!(order(&mut wfq, &packets)[..9], [1; 9]);
}

#[test]
fn a_branch_without_packets_leaves_its_share_to_its_siblings_and_not_to_its_cousins() {
    // A 1 {A1 1, A2 1}, B 1: with A2 idle, A1 gets the whole rate of A.
    let tree = build(&[(None, 1), (None, 1), (Some(0), 1), (Some(0), 1)]);
    let mut packets = alloc::vec![(3, 1000); 50];
    packets.extend([(2, 1000); 50]);
    let sent = order(&mut hpfq::INFO.build(&tree, Leniency::Refuse, Members::new()).unwrap(), &packets);
    assert_eq!(sent[..60].iter().filter(|&&class| class == 3).count(), 30);
    // Flat, with the leaves' shares of 1/4 and 1/2, it has a third.
    let sent = order(
        &mut crate::schedulers::wf2q_plus::INFO.build(&tree, Leniency::Ignore, Members::new()).unwrap(),
        &packets,
    );
    assert_eq!(sent[..60].iter().filter(|&&class| class == 3).count(), 20);
}
