use super::*;
use fairlink_core::Amount;
use serde_json::json;

/// Statistics of a link of 100 Mbit/s with classes `(name, parent)`, of which the n-th is guaranteed n Mbit/s, asks for
/// as much, and gets half.
fn stats(classes: &[(&str, Option<&str>)]) -> GatewayStats {
    let amount = Amount { packets: 1234, bytes: 5678 };
    let counts =
        |dropped| json!({"received": amount, "sent": amount, "dropped": dropped, "marked": amount, "queued": amount});
    let span = |number: usize| {
        let bps = number as f64 * 1e6;
        let delay = json!({ "packets": 7, "mean": 1e-4, "p50": 1e-4, "p99": 0.0104, "p999": 0.02, "max": 0.03 });
        json!({
            "counts": counts(Amount { packets: 5_400_000, bytes: 0 }),
            "limit": if number == 3 { "demand" } else { "parent" }, "limited_by": if number == 3 { json!(null) } else { json!("Customers-of-the-east") },
            "limited_for_s": 12.5, "rates": {"demand_bps": bps, "rate_bps": bps / 2.0, "ideal_bps": bps},
            "delay_s": if number == 2 { json!({"packets": 0}) } else { delay },
        })
    };
    let class = |(at, &(name, parent)): (usize, &(&str, Option<&str>))| {
        json!({
            "name": name, "parent": parent, "leaf": true, "counts": counts(amount),
            "terms": {"guarantee_bps": 1_000_000 * (at as u64 + 1), "weight": null, "ceiling_bps": null},
            "bounds": {"delay_bound_s": if name == "late" { 0.00123456 } else { 0.0312345 }},
        })
    };
    let named = |(at, &(name, _)): (usize, &(&str, Option<&str>))| {
        let mut span = span(at + 1);
        span["name"] = name.into();
        span
    };
    let mut link = span(100);
    (link["kind"], link["start_s"], link["end_s"]) = ("interval".into(), 60.5.into(), 61.5.into());
    link["classes"] = classes.iter().enumerate().map(named).collect();
    let zero = json!({
        "idle": 0.0, "receive": 0.0, "classify": 0.0, "scheduler": 0.0, "send": 0.0, "reverse": 0.0, "sampled_turns": 0,
    });
    let memory = json!({
        "pool_frames": 0, "frame_bytes": 0, "pool_bytes": 0, "queue_packets": 0, "classifier_bytes": 0, "counters_bytes": 0, "kernel_bytes": 0,
    });
    let stats = json!({
        "name": "eth0", "scheduler": "hls", "capacity_bps": 100_000_000u64, "counts": counts(amount),
        "classes": classes.iter().enumerate().map(class).collect::<Vec<_>>(), "spans": [link],
        "gateway": {
            "generation": 0, "input": "eth1", "output": "eth0", "uptime_s": 61.5, "balanced": true, "kernel_dropped_packets": 0,
            "super_packets": 0, "checksums_completed": 0, "vlan_tags_restored": 0, "output_busy": 0, "reverse": null, "time": zero,
            "memory": memory, "pool_most_used": 0,
        },
    });
    serde_json::from_value(stats).unwrap()
}

fn view(width: usize) -> View {
    View { width, ..View::default() }
}

#[test]
fn at_80_columns_a_table_has_all_that_matters_and_no_line_is_longer() {
    let tree = [("A", None), ("A1", Some("A")), ("A2", Some("A")), ("a-class-with-quite-a-long-name", None)];
    let lines = lines(&stats(&tree), &view(80));
    let expected = [
        "eth0: eth1 to eth0 at 100 Mbit/s by hls, up 61.5 s; the last 1 s",
        "class              Mbit/s   ideal of guar.      p50      p99 dropped queued    limit",
        "link                   50     100     50 %   100 us  10.4 ms    5.4M   1234   parent",
        "A                     0.5       1     50 %   100 us  10.4 ms    5.4M   1234   parent",
        "  A1                    1       2     50 %        -        -    5.4M   1234   parent",
        "  A2                  1.5       3     50 %   100 us  10.4 ms    5.4M   1234   demand",
        "a-class-wit…  2       4     50 %   100 us  10.4 ms    5.4M   1234   parent",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
    }
    assert_eq!(lines.len(), expected.len());
    let width = measure_text_width(&lines[1]);
    assert!(width <= 80 && lines[1..].iter().all(|line| measure_text_width(line) == width), "{lines:#?}");
}

#[test]
fn a_wide_terminal_has_demand_guarantee_and_bound_too() {
    let lines = lines(&stats(&[("A", None)]), &view(200));
    assert!(lines[3].ends_with("Customers-… 12 s"), "{lines:#?}");
    for title in ["demand", "guarantee", "bound", "longest", "limited by"] {
        assert!(lines[1].contains(title), "{lines:#?}");
    }
    let narrower = self::lines(&stats(&[("a-class", None)]), &view(120));
    assert!(narrower[3].ends_with(" parent") && narrower[3].starts_with("a-class "), "{narrower:#?}");
    // A bound is rounded up.
    assert!(lines[3].contains("31.24 ms"), "{lines:#?}");
}

#[test]
fn however_narrow_the_terminal_is_no_line_is_longer() {
    for width in 1..200 {
        for line in lines(&stats(&[("A", None), ("日本語の名前", Some("A"))]), &view(width)) {
            assert!(measure_text_width(&line) <= width, "{width}: {line}");
        }
    }
}

#[test]
fn where_not_all_classes_fit_there_are_the_upper_levels_or_those_that_ask_for_most() {
    let names: Vec<String> = (0..50).map(|number| format!("c{number}")).collect();
    let mut tree = vec![("A", None), ("B", None)];
    tree.extend(names.iter().map(|name| (name.as_str(), Some("B"))));
    let short = |tree: &[(&str, Option<&str>)], rows| lines(&stats(tree), &View { lines: Some(rows), ..view(80) });
    let upper = short(&tree, 24);
    let first: Vec<_> = upper.iter().skip(2).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(first, ["link", "A", "B", "50"]);
    assert!(upper[5].starts_with("50 classes more"), "{upper:#?}");
    let flat: Vec<_> = names.iter().map(|name| (name.as_str(), None)).collect();
    let busiest = short(&flat, 24);
    assert_eq!(busiest.len(), 24);
    assert!(busiest[3].starts_with("c30") && busiest[22].starts_with("c49"), "{busiest:#?}");
    // All where they fit to the line.
    assert_eq!(short(&flat[..20], 24).len(), 23);
}

#[test]
fn one_class_is_shown_with_those_below_it() {
    let tree = [("A", None), ("A1", Some("A")), ("B", None), ("B1", Some("B")), ("B2", Some("B1")), ("C", None)];
    let view = View { class: Some("B".to_owned()), ..view(80) };
    let lines = lines(&stats(&tree), &view);
    let names: Vec<&str> =
        lines.iter().skip(2).map(|line| line.split("  ").find(|part| !part.is_empty()).unwrap_or("")).collect();
    assert_eq!(lines.len(), 6, "{names:?}");
    assert!(lines[3].starts_with("B ") && lines[4].starts_with("  B1") && lines[5].starts_with("    B2"), "{lines:#?}");
}

#[test]
fn a_delay_above_its_bound_is_marked_and_it_is_said_whether_the_processor_was_late() {
    let mut stats = stats(&[("A", None), ("on-time", None), ("late", None)]);
    (stats.0.spans[0].forfeited_s, stats.0.spans[0].pauses) = (Some(0.0), Some(0));
    let last = |stats: &GatewayStats| {
        let lines = lines(stats, &view(200));
        [&lines[lines.len() - 2], &lines[lines.len() - 1]].map(String::clone)
    };
    let [class, processor] = last(&stats);
    assert_eq!(class, "! late: maximum delay 30 ms, bound 1.235 ms");
    assert!(processor.starts_with("! no link time was lost (no wake-up later"), "{processor}");
    (stats.0.spans[0].forfeited_s, stats.0.spans[0].pauses) = (Some(0.02), Some(1));
    assert_eq!(last(&stats)[1], "! the processor or the output was late: 20 ms of link time lost, 1 pause");
    // No class exceeds its bound: no line is printed.
    stats.0.classes.truncate(2);
    assert!(!last(&stats)[1].starts_with('!'));
}
