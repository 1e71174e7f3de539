use super::*;
use crate::experiments::hls;
use crate::figure::Panel;
use crate::measure::OPTIONS;
use fairlink_core::{Leniency, Nanos, Rate, registry::find};
use fairlink_sim::{Options, Report, compare};

fn report(options: &Options, runs: u32) -> Report {
    let rate = Rate::from_bps(10_000_000).unwrap();
    let scenario = hls::EXP2.script("H").unwrap().scenario(rate, Some(Nanos::from_millis(1100))).unwrap();
    let schedulers = ["fifo", "hls"].map(|name| find(name).unwrap());
    compare(&scenario, &schedulers, Leniency::Ignore, runs, options, &mut ()).unwrap()
}

#[test]
fn the_csv_of_rates_has_a_row_for_each_window_and_a_column_for_each_class() {
    let report = report(&OPTIONS, 1);
    let csv = over_time::rates_csv(report.runs[1].windows.as_ref().unwrap());
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "start_s,end_s,A_bps,A1_bps,A2_bps,B_bps,B1_bps,B2_bps,C_bps");
    assert_eq!(lines.len(), 1 + 17);
    assert_eq!(lines[2], "0.2,0.4,3000000,3000000,0,3000000,0,3000000,4000000");
    assert!(lines[17].starts_with("3.2,3.3,"), "{}", lines[17]);
    assert_eq!(crate::field("a,\"b\""), "\"a,\"\"b\"\"\"");
}

#[test]
fn the_csv_of_series_adds_up_to_the_counters_of_the_run() {
    let report = report(&OPTIONS, 1);
    for run in &report.runs {
        let csv = over_time::series_csv(run.windows.as_ref().unwrap());
        let mut lines = csv.lines();
        let head: Vec<&str> = lines.next().unwrap().split(',').collect();
        let column = |name: &str| head.iter().position(|title| *title == name).unwrap();
        for class in &run.classes {
            let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>()).filter(|row| row[2] == class.name);
            let (mut sent, mut dropped, mut longest, mut delays) = (0u64, 0u64, 0.0f64, 0.0);
            for row in rows {
                let packets: u64 = row[column("sent_packets")].parse().unwrap();
                sent += packets;
                dropped += row[column("dropped_packets")].parse::<u64>().unwrap();
                if packets > 0 {
                    delays += packets as f64 * row[column("delay_mean_s")].parse::<f64>().unwrap();
                    longest = longest.max(row[column("delay_max_s")].parse().unwrap());
                }
            }
            // The packet that is on the link at the end leaves after it.
            assert!(class.counts().sent.packets - sent <= 1, "{} {sent}", class.counts().sent.packets);
            assert_eq!(dropped, class.counts().dropped.packets);
            if sent > 0 {
                assert!((delays / sent as f64 / class.delay().mean.unwrap() - 1.0).abs() < 1e-2);
                assert_eq!(Some(longest), class.delay().max);
            }
        }
    }
}

#[test]
fn the_drawing_of_rates_has_each_busy_class_its_ideal_and_the_phases() {
    let mut report = report(&OPTIONS, 1);
    let run = &mut report.runs[1];
    let windows = run.windows.as_mut().unwrap();
    windows.names[1] = "A<1".into();
    run.phases.iter_mut().for_each(|phase| phase.classes[0].name = "A<1".into());
    let figure = over_time::rates(run, run.windows.as_ref().unwrap(), "hls & co");
    let svg = figure.svg();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for text in ["hls &amp; co", ">A&lt;1<", ">B2<", ">time (s)<", ">rate (Mbit/s)<", ">the ideal<"] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains(">A2<"), "A2 never sends");
    assert!(!svg.contains("more in the CSV"));
    // A and B in grey, then A1, B2 and C, the first the widest, and all with different dashes.
    let series: Vec<_> = figure.panels[0].series.iter().filter(|series| series.name != "the ideal").collect();
    assert_eq!(series.iter().map(|series| &series.name[..]).collect::<Vec<_>>(), ["A", "B", "A<1", "B2", "C"]);
    assert_eq!(figure.panels[0].series.len() - series.len(), 8);
    assert_eq!(figure.panels[0].borders.len(), 2);
}

#[test]
fn the_tail_of_delays_falls_and_the_boxes_are_in_order() {
    let report = report(&OPTIONS, 2);
    let runs: Vec<&Run> = report.runs.iter().filter(|run| run.scheduler == "fifo").collect();
    let delays = delays::of_runs(&runs);
    assert_eq!(delays.iter().map(|delays| &delays.class[..]).collect::<Vec<_>>(), ["A1", "B2", "C"]);
    let sent: u64 = runs.iter().map(|run| run.classes[0].counts().sent.packets).sum();
    assert_eq!(delays[0].distribution.count(), sent);
    let figure = delays::distributions(&delays, "");
    for series in &figure.panels[1].series {
        assert!(series.points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 >= pair[1].1));
        assert!(series.points.iter().all(|point| point.1 > 0.0));
    }
    for spread in &delays::boxes(&[("fifo".to_owned(), delays)], "").panels[0].spreads {
        let order =
            [spread.whiskers.0, spread.quartiles.0, spread.median, spread.quartiles.1, spread.whiskers.1, spread.max];
        assert!(order.windows(2).all(|pair| pair[0] <= pair[1]), "{order:?}");
    }
}

#[test]
fn each_run_is_written_under_its_own_name() {
    let dir = std::env::temp_dir().join(format!("fairlink-plot-{}", std::process::id()));
    for (runs, expected) in [
        (
            1,
            vec![
                "fifo.csv",
                "hls.svg",
                "hls-series.csv",
                "schedulers.svg",
                "hls-delays.svg",
                "delays.svg",
                "delays.csv",
            ],
        ),
        (2, vec!["fifo-seed1.csv", "hls-seed2.svg", "hls-seed2-series.svg", "schedulers-seed2.svg", "hls-delays.svg"]),
    ] {
        let written = write_runs(&report(&OPTIONS, runs).runs, &Marks::default(), &dir).unwrap();
        // Of each run two figures and two tables, of each seed two figures of both schedulers, of both schedulers delays, and of all together delays and a table.
        assert_eq!(written.len(), (2 * (2 + 2) + 2) * runs as usize + 2 + 1 + 1);
        let names: Vec<_> = written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
        assert!(written.iter().all(|path| fs::metadata(path).unwrap().len() > 100));
    }
    assert_eq!(write_runs(&report(&Options::default(), 1).runs, &Marks::default(), &dir).unwrap(), [] as [PathBuf; 0]);
    let file = dir.join("fifo.csv");
    let error = write_runs(&report(&OPTIONS, 1).runs, &Marks::default(), &file).unwrap_err();
    assert_eq!(error.path, file);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn schedulers_stand_in_one_figure_with_the_same_axes_and_one_legend() {
    let report = report(&OPTIONS, 1);
    let runs: Vec<_> = report.runs.iter().map(|run| (run, run.windows.as_ref().unwrap())).collect();
    let figure = over_time::compared(&runs, "exp2-H.toml: rates by scheduler");
    let panels = &figure.panels;
    assert_eq!(panels.iter().map(|panel| panel.title.as_str()).collect::<Vec<_>>(), ["fifo", "hls"]);
    assert_eq!(panels[0].y, panels[1].y);
    assert_eq!((panels[0].x.label.as_str(), panels[1].x.label.as_str()), ("", "time (s)"));
    let looks = |panel: &Panel| -> Vec<_> {
        let lines = panel.series.iter().filter(|series| series.name != "the ideal");
        lines.map(|series| (series.name.clone(), series.look)).collect()
    };
    assert_eq!(looks(&panels[0]), looks(&panels[1]));
    assert_eq!(looks(&panels[0]).len(), 3);
    // The drawing shows the measurements: in the second window A2 is absent, and B2 and C get 3 and 4 Mbit/s under HLS.
    let points: Vec<f64> = panels[1].series.iter().take(3).map(|series| series.points[1].1).collect();
    assert_eq!(points, [3.0, 3.0, 4.0]);
    let longest = |run: &Run| run.classes.iter().filter_map(|class| class.delay().max).fold(0.0, f64::max);
    let delays = over_time::compared_delays(&runs, "");
    for (panel, run) in delays.panels.iter().zip(&report.runs) {
        let points = panel.series.iter().flat_map(|series| &series.points).map(|point| point.1);
        assert_eq!(points.filter(|delay| delay.is_finite()).fold(0.0, f64::max), longest(run));
    }
    assert_eq!(delays.panels[0].y, delays.panels[1].y);
    let svg = figure.svg();
    assert_eq!((svg.matches(">C<").count(), svg.matches(">time (s)<").count()), (1, 1), "{svg}");
}

#[test]
fn on_paper_no_text_is_smaller_than_7_points_or_beyond_the_edge_and_titles_name_the_scenario() {
    let dir = std::env::temp_dir().join(format!("fairlink-paper-{}", std::process::id()));
    let report = report(&OPTIONS, 1);
    for (width, points) in [(Width::Column, 240.0), (Width::Page, 504.0)] {
        let scenario = "a-scenario-with-a-name-as-long-as-some-are.toml".to_owned();
        let marks =
            Marks { scenario, width, note: "A sentence that is longer than a column. ".repeat(4), ..Marks::default() };
        let written = write_runs(&report.runs, &marks, &dir).unwrap();
        let drawn: Vec<_> = written.iter().filter(|path| path.extension().is_some_and(|end| end == "svg")).collect();
        assert_eq!(drawn.len(), 2 * 3 + 3, "{written:?}");
        assert!(drawn.iter().any(|path| path.ends_with("schedulers.svg")));
        for path in drawn {
            let svg = fs::read_to_string(path).unwrap();
            assert!(svg.contains(&format!("width=\"{points}pt\"")) && svg.contains("<title>a-scenario-with"), "{svg}");
            let value = |line: &str, key: &str| -> f64 {
                line.split(&format!(" {key}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
            };
            let wide: f64 = svg.split("viewBox=\"0 0 ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
            for line in svg.lines().filter(|line| line.starts_with("<text")) {
                assert!(value(line, "font-size") * points / wide >= 7.0, "{}: {line}", path.display());
                let text = line.split('>').nth(1).unwrap().split('<').next().unwrap();
                let (x, half) = (value(line, "x"), text.chars().count() as f64 * value(line, "font-size") * 0.6 / 2.0);
                let (left, right) = match line {
                    _ if line.contains("rotate") => (x, x),
                    _ if line.contains("\"middle\"") => (x - half, x + half),
                    _ if line.contains("\"end\"") => (x - 2.0 * half, x),
                    _ => (x, x + 2.0 * half),
                };
                assert!(left >= 0.0 && right <= wide, "{}: {line}: {left} .. {right} of {wide}", path.display());
            }
        }
    }
    fs::remove_dir_all(dir).unwrap();
}
