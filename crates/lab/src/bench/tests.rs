use super::*;
use fairlink_core::registry;

fn plan(leaves: &[usize], levels: &[usize]) -> Plan {
    Plan {
        schedulers: registry::SCHEDULERS.iter().collect(),
        leaves: leaves.to_vec(),
        levels: levels.to_vec(),
        patterns: Pattern::ALL.to_vec(),
        packet_bytes: vec![64],
        calls: Calls::Batches,
        ceilings: false,
        record: false,
        time: Duration::ZERO,
    }
}

#[test]
fn every_scheduler_is_measured_under_every_workload_it_takes() {
    let mut announced = Vec::new();
    let report = run(&plan(&[1, 40], &[1, 3]), &mut |point| announced.push(point)).unwrap();
    let mut measured: Vec<Point> = report.results.iter().chain(&report.baselines).map(|cost| cost.point).collect();
    let order = |point: &Point| announced.iter().position(|other| other == point);
    measured.sort_by_key(order);
    assert_eq!(measured, announced);
    for info in registry::SCHEDULERS {
        let flat = announced.iter().filter(|point| point.scheduler == info.name && point.levels == 1).count();
        assert_eq!(flat, 6, "{}", info.name);
    }
    assert!(report.results.iter().all(|cost| cost.ns_per_packet > 0.0));
    for cost in &report.results {
        assert!((0.0..=cost.ns_per_packet).contains(&cost.net_ns_per_packet), "{cost:?}");
    }
}

#[test]
fn the_harness_and_bare_rings_stand_beside_every_workload() {
    let plan =
        Plan { schedulers: Vec::new(), calls: Calls::Single, ceilings: true, record: true, ..plan(&[8, 40], &[1, 6]) };
    let report = run(&plan, &mut |_| ()).unwrap();
    assert_eq!(report.baselines.len(), 2 * 3 * 2 * 2);
    assert!(
        report.baselines.iter().all(|cost| cost.point.calls == "single" && cost.point.ceilings && cost.point.record)
    );
    assert!(report.calibration.clock_ghz > 0.0 && report.calibration.loads.iter().all(|load| load.ns > 0.0));
}

#[test]
fn memory_of_leaves_and_packets_adds_up_to_what_a_scheduler_says() {
    for info in registry::SCHEDULERS {
        for levels in [1, 3] {
            let Some(memory) = memory(info, 1000, levels).unwrap() else { continue };
            let shape = Shape { leaves: 1000, levels, ..Shape::default() };
            let says = info.memory_for(&shape.tree_holding(5000).unwrap()) as f64;
            let sum = 1000.0 * memory.bytes_per_idle_leaf + 5000.0 * memory.bytes_per_queued_packet;
            assert!((sum / says - 1.0).abs() < 0.1, "{}: {sum} and {says}", info.name);
            assert!(memory.bytes_per_idle_leaf > 0.0 && memory.bytes_per_queued_packet >= 16.0, "{memory:?}");
        }
    }
}

#[test]
fn trees_that_cannot_be_are_named() {
    let error = run(&plan(&[8], &[1000]), &mut |_| ()).unwrap_err();
    assert!(error.to_string().starts_with("8 leaves in 1000 levels: "), "{error}");
}

#[test]
fn tables_have_before_and_now_and_the_figure_has_every_line() {
    let schedulers = ["hls", "wf2q+"].map(|name| registry::find(name).unwrap()).to_vec();
    let plan = Plan { schedulers, packet_bytes: vec![64, 1500], ..plan(&[8, 1024], &[1, 3]) };
    let mut report = run(&plan, &mut |_| ()).unwrap();
    report.results.iter_mut().chain(&mut report.baselines).for_each(|cost| cost.reference_ns_per_packet = 30.4);
    let earlier = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    report.results.iter_mut().for_each(|cost| cost.reference_ns_per_packet = 10.3);
    let text = page::markdown(&report, &earlier, &[]);
    let row = |start: &str| text.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    assert_eq!(row("| backlogged, 1500 B |"), ["| backlogged, 1500 B | 8 in 1 | 1,024 in 1 | 8 in 3 | 1,024 in 3 |"]);
    assert_eq!(row("| `hls` | 30 → 10 | 30 → 10 | 30 → 10 | 30 → 10 |").len(), 6, "{text}");
    assert_eq!(row("| `wf2q+` | 30 → 10 | 30 → 10 | - | - |").len(), 6, "{text}");
    assert_eq!(row("| `rings` | 30 → 30").len(), 6, "{text}");
    let alone = page::markdown(&report, &page::Other::default(), &[]);
    assert!(alone.contains("| `hls` | 10 | 10 | 10 | 10 |") && alone.contains("| `hls` | 1 | 1,024 |"), "{alone}");
    let svg = page::figure(&report, &[]).svg();
    for name in ["hls, flat", "hls, 3 levels", "wf2q+, flat", "bare rings", "Every leaf backlogged"] {
        assert!(svg.contains(name), "{name}");
    }
}

#[test]
fn figures_of_others_stand_beside_ours_in_tables_and_plot() {
    let plan = Plan { schedulers: vec![registry::find("hls").unwrap()], ..plan(&[8, 64], &[3]) };
    let report = run(&plan, &mut |_| ()).unwrap();
    let other = r#"{ "results": [
        { "scheduler": "theirs", "pattern": "churn", "leaves": 64, "levels": 3, "packet_bytes": 64, "calls": "batches", "ceilings": false,
          "record": false, "reference_ns_per_packet": 77.7 },
        { "scheduler": "hls", "pattern": "churn", "leaves": 512, "levels": 3, "packet_bytes": 64, "calls": "batches", "ceilings": true,
          "record": false, "reference_ns_per_packet": 55.5 } ] }"#;
    let other: page::Other = serde_json::from_str(other).unwrap();
    let text = page::markdown(&report, &page::Other::default(), std::slice::from_ref(&other));
    let of_churn: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("| churn, 64 B |")).collect();
    assert_eq!(of_churn[0], "| churn, 64 B | 8 in 3 | 64 in 3 | 512 in 3 |");
    assert!(of_churn.contains(&"| `theirs` | - | 78 | - |"), "{text}");
    assert!(of_churn.contains(&"| `hls`, ceilings | - | - | 56 |"), "{text}");
    assert_eq!(text.matches("theirs").count(), 1);
    let svg = page::figure(&report, &[other]).svg();
    for name in ["hls, 3 levels", "theirs, 3 levels", "hls, ceilings, 3 levels"] {
        assert!(svg.contains(name), "{name}");
    }
}
