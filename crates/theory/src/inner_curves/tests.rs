use super::*;
use crate::to_f64;
use fairlink_core::{ClassConfig, LinkConfig};

fn curve(m1: u64, ms: u64, m2: u64) -> ServiceCurve {
    ServiceCurve { m1: Rate::from_bps(m1).ok(), d: Nanos::from_millis(ms), m2: Rate::from_bps(m2).ok() }
}

fn inner(curve: ServiceCurve) -> ClassConfig {
    ClassConfig { link_share: Some(curve), ..ClassConfig::default() }
}

fn leaf(curve: ServiceCurve) -> ClassConfig {
    ClassConfig { real_time: Some(curve), ..inner(curve) }
}

fn tree(classes: &[(u32, ClassConfig)]) -> Hierarchy {
    let link = LinkConfig { max_packet: 500, ..LinkConfig::new(Rate::from_bps(8_000_000).unwrap()) };
    let mut tree = Hierarchy::builder(link);
    classes.iter().for_each(|&(parent, config)| assert!(tree.add(ClassId(parent), config).is_ok()));
    tree.build().unwrap()
}

fn figure_4(half: ServiceCurve) -> Hierarchy {
    let (steep, late) = (curve(4_000_000, 100, 800_000), curve(0, 100, 3_200_000));
    tree(&[(0, inner(half)), (0, inner(half)), (1, leaf(steep)), (1, leaf(late)), (2, leaf(steep)), (2, leaf(late))])
}

#[test]
fn in_figure_4_each_inner_class_falls_short_at_once_and_by_what_a_steep_leaf_takes() {
    let found = InnerCurves::for_tree(&figure_4(curve(4_000_000, 0, 4_000_000))).unwrap();
    // 1 and 2 take 7.2 of 8 Mbit/s for 100 ms, where B should have 4: 3.2 Mbit/s are missing, 40 kB.
    let expected = |class| Shortfall {
        class: ClassId(class),
        from: BigRational::zero(),
        bytes: Some(whole(40_000)),
        at: BigRational::new(1.into(), 10.into()),
    };
    assert_eq!(found.short, [expected(1), expected(2)]);
    let at_most = found.at_most[1].as_ref().unwrap();
    assert!(*at_most > whole(40_000), "{}", to_f64(at_most));
    assert_eq!(found.at_most[3], None);
}

#[test]
fn curves_that_fit_at_their_steepest_are_met_and_lines_always_are() {
    // The inner curves equal the rest of the link beside the others at their steepest.
    assert_eq!(InnerCurves::for_tree(&figure_4(curve(800_000, 0, 800_000))).unwrap().short, []);
    let lines = curve(2_000_000, 0, 2_000_000);
    let half = curve(4_000_000, 0, 4_000_000);
    let lines = tree(&[
        (0, inner(half)),
        (0, inner(half)),
        (1, leaf(lines)),
        (1, leaf(lines)),
        (2, leaf(lines)),
        (2, leaf(lines)),
    ]);
    assert_eq!(InnerCurves::for_tree(&lines).unwrap().short, []);
}

#[test]
fn the_instant_is_where_the_sum_crosses_the_link() {
    // B requests nothing for 50 ms, then 6 Mbit/s; outside 4 Mbit/s for 200 ms, then 2: 8 Mbit/s t = 4 t + 6 (t - 0.05)
    // at 150 ms.
    let late = tree(&[
        (0, inner(curve(0, 50, 6_000_000))),
        (0, leaf(curve(4_000_000, 200, 2_000_000))),
        (1, inner(curve(1, 0, 1))),
    ]);
    let found = InnerCurves::for_tree(&late).unwrap().short;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].from, BigRational::new(3.into(), 20.into()));
    // At 200 ms 800 + 900 - 1600 kbit.
    assert_eq!((found[0].bytes.clone(), to_f64(&found[0].at)), (Some(whole(12_500)), 0.2));
    // One more of outside, and it never ends.
    let more = tree(&[
        (0, inner(curve(0, 50, 7_000_000))),
        (0, leaf(curve(4_000_000, 200, 2_000_000))),
        (1, inner(curve(1, 0, 1))),
    ]);
    assert_eq!(InnerCurves::for_tree(&more).unwrap().short[0].bytes, None);
}
