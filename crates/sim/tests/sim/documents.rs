//! The JSON of a run, as it was reviewed.

use crate::common::{rate, run, scenario, source};
use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, QueueLimits, Share};
use fairlink_traffic::Model;

#[test]
fn the_report_of_a_run_is_as_it_was_reviewed() {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(8_000_000)));
    let guarantee = |bps, packets| ClassConfig {
        share: Some(Share::Guarantee(rate(bps))),
        limits: QueueLimits { packets, bytes: u32::MAX },
        ..ClassConfig::default()
    };
    let inner = tree.add(ClassId::ROOT, guarantee(6_000_000, 10)).unwrap();
    tree.add(inner, guarantee(4_000_000, 10)).unwrap();
    tree.add(inner, guarantee(2_000_000, 10)).unwrap();
    tree.add(ClassId::ROOT, guarantee(2_000_000, 10)).unwrap();
    let sources = vec![source(2, Model::Greedy, 1000, &[]), source(3, Model::cbr(rate(3_000_000)), 500, &[(0, 500)])];
    let run = run(&scenario(tree.build().unwrap(), sources, Nanos::from_secs(1)), "hls").unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&run).unwrap());
}
