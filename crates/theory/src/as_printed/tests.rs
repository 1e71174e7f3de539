use super::*;
use crate::to_f64;
use fairlink_core::{ClassConfig, LinkConfig};

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

#[test]
fn hdrr_on_figure_1_has_the_numbers_that_the_paper_prints() {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1500, ..LinkConfig::new(rate(1_000_000_000)) });
    for (parent, mbps) in [(0, 300), (0, 300), (0, 400), (1, 100), (1, 200), (2, 100), (2, 200)] {
        let share = Some(Share::Guarantee(rate(mbps * 1_000_000)));
        tree.add(ClassId(parent), ClassConfig { share, ..ClassConfig::default() }).unwrap();
    }
    let tree = tree.build().unwrap();
    let printed = as_printed(&hdrr::INFO, &tree);
    assert_eq!(printed.len(), 2);
    assert_eq!((printed[0].quantity, to_f64(&printed[0].value)), (Quantity::Fairness, 1522.5));
    assert_eq!(printed[1].quantity, Quantity::TransmissionGap);
    // 1000 times 300 visits, less one, and the packets of five leaves.
    assert_eq!(to_f64(&printed[1].value), (299_999.0 * 1500.0 + 5.0 * 1500.0) * 8e-9);
    assert!((to_f64(&printed[1].value) - 3.6).abs() < 1e-4);
    assert_eq!(as_printed(&fairlink_core::schedulers::hls::INFO, &tree), []);
}

/// The bottleneck of \[drrpp\] Section 5.1: 250 kbit/s, one latency-critical class of 2000 B and `others` of 1500 B.
fn thesis(others: u32) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 740, ..LinkConfig::new(rate(250_000)) });
    let class =
        |quantum, latency_critical| ClassConfig { quantum: Some(quantum), latency_critical, ..ClassConfig::default() };
    tree.add(ClassId::ROOT, class(2_000, true)).unwrap();
    (0..others).for_each(|_| assert!(tree.add(ClassId::ROOT, class(1_500, false)).is_ok()));
    tree.build().unwrap()
}

#[test]
fn theorem_1_is_the_formula_of_the_thesis() {
    let tree = thesis(3);
    // 15 packets a second of 410 B: 4 fit into 2000 B.
    let found = MeanDelay::for_class(&tree, ClassId(1), Arrivals { rate_bps: 49_200, mean_packet: 410 }).unwrap();
    assert_eq!((found.packets, to_f64(&found.round)), (4, 3_500.0));
    // 0.5 * 28000 / (250000 - 28000 * 15 / 4).
    assert!((to_f64(found.seconds.as_ref().unwrap()) - 14_000.0 / 145_000.0).abs() < 1e-12);
    // More than four packets in each round.
    let more = Arrivals { rate_bps: 130_000, mean_packet: 410 };
    assert_eq!(MeanDelay::for_class(&tree, ClassId(1), more).unwrap().seconds, None);
    assert_eq!(MeanDelay::for_class(&tree, ClassId(2), more), None);
    assert_eq!(MeanDelay::for_class(&tree, ClassId(1), Arrivals { rate_bps: 1, mean_packet: 2_001 }), None);
}

#[test]
fn theorem_2_does_not_know_how_many_best_effort_classes_there_are_and_the_bound_that_holds_does() {
    let of = |others| {
        let tree = thesis(others);
        let printed = as_printed(&drr_plus_plus::INFO, &tree);
        assert_eq!((printed.len(), printed[0].class), (1, Some(ClassId(1))));
        let holds = delay_bounds(&drr_plus_plus::INFO, &tree)[1].as_ref().unwrap().seconds();
        (to_f64(&printed[0].value), to_f64(&holds))
    };
    // A burst of a largest packet at 2000 / 3500 of the link, and 2000 + 4500 B.
    let expected = 740.0 * 8.0 / (250_000.0 * 2_000.0 / 3_500.0) + 6_500.0 * 8.0 / 250_000.0;
    assert!([of(3).0, of(8).0].iter().all(|printed| (printed - expected).abs() < 1e-12));
    // 1500 (1 + 740 / 2000) + 4 * 740 B for three, five packets more for eight.
    assert!(of(3).1 < expected && expected < of(8).1, "{:?}", of(8));
}
