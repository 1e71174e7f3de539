use super::*;

fn panel() -> Panel {
    Panel::new("a panel", Axis::linear("time (s)", 0.0, 10.0), Axis::linear("packets", 0.0, 5.0))
}

/// All numbers of the points of lines and polygons.
fn coordinates(svg: &str) -> Vec<f64> {
    let lists = svg.split("points=\"").skip(1).filter_map(|rest| rest.split('"').next());
    lists.flat_map(|list| list.split([' ', ','])).map(|number| number.parse().unwrap()).collect()
}

#[test]
fn looks_differ_in_more_than_colour() {
    for (n, m) in (0..7).flat_map(|n| (0..n).map(move |m| (n, m))) {
        let (one, other) = (SeriesStyle::nth(n), SeriesStyle::nth(m));
        assert!(one.colour != other.colour && one.marker != other.marker, "{n} {m}");
    }
    let all: Vec<SeriesStyle> = (0..12).map(SeriesStyle::nth).collect();
    for (n, m) in (0..12).flat_map(|n| (0..n).map(move |m| (n, m))) {
        assert!((all[n].dash, all[n].marker) != (all[m].dash, all[m].marker), "{n} {m}");
    }
}

#[test]
fn lines_that_coincide_have_their_markers_at_different_places_and_the_first_is_the_widest() {
    let points: Vec<(f64, f64)> = (0..100).map(|n| (f64::from(n) / 10.0, 2.0)).collect();
    let mut panel = panel();
    panel.series =
        (0..3).map(|n| Series::steps(format!("s{n}"), points.clone(), SeriesStyle::nth(n).layered(n, 3))).collect();
    let widths: Vec<f64> = panel.series.iter().map(|series| series.look.width).collect();
    assert!(widths[0] > widths[1] && widths[1] > widths[2], "{widths:?}");
    let svg = Figure::new("", vec![panel]).svg();
    // Circles are the markers of the first: its nine on the line and one in the legend.
    assert!((8..=11).contains(&svg.matches("<circle").count()), "{}", svg.matches("<circle").count());
}

#[test]
fn the_legend_stands_below_all_panels_and_names_each_series_once() {
    let mut one = panel();
    one.series = vec![Series::line("A", vec![(0.0, 1.0), (9.0, 2.0)], SeriesStyle::nth(0))];
    let svg = Figure::new("title", vec![one.clone(), one]).svg();
    assert_eq!(svg.matches(">A</text>").count(), 1);
    let y = |text: &str| -> f64 {
        let before = svg.rfind(text).unwrap();
        let line = &svg[svg[..before].rfind("<text").unwrap()..before];
        line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    assert!(y(">A<") > y(">time (s)<"));
}

#[test]
fn labels_that_are_longer_than_a_panel_are_broken_on_paper_and_stay_inside() {
    let label = "what is counted on this axis, with a long unit";
    let axis = || Axis::linear(label, 0.0, 1.0);
    let svg = Figure::new("", vec![Panel::new("", axis(), axis())]).svg_for(Width::Column);
    let number = |line: &str, key: &str| -> f64 {
        line.split(&format!(" {key}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    let lines: Vec<&str> = svg.lines().filter(|line| line.contains("\"middle\"") && line.contains(' ')).collect();
    let (upright, level): (Vec<&str>, Vec<&str>) = lines.into_iter().partition(|line| line.contains("rotate"));
    let text = |line: &str| line.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
    assert_eq!(upright.iter().map(|line| text(line)).collect::<Vec<_>>().join(" "), label);
    let words = level.iter().filter(|line| text(line).parse::<f64>().is_err());
    assert_eq!((words.count(), upright.len()), (2, 2), "{svg}");
    for line in level {
        let half = text(line).chars().count() as f64 * 14.0 * 0.6 / 2.0;
        assert!(number(line, "x") - half >= 0.0 && number(line, "x") + half <= 240.0 * 1.54, "{line}");
    }
    for line in upright {
        let half = text(line).chars().count() as f64 * 14.0 * 0.6 / 2.0;
        assert!(number(line, "y") - half >= 0.0, "{line}");
    }
}

#[test]
fn nothing_is_drawn_outside_whatever_the_values() {
    let mut panel = panel();
    let wild = vec![(-1e9, 1e300), (0.0, f64::NAN), (3.0, -5.0), (f64::INFINITY, 1.0), (1e9, 1e9)];
    panel.series =
        vec![Series::line("wild", wild.clone(), SeriesStyle::nth(0)), Series::points("", wild, SeriesStyle::nth(1))];
    panel.borders = vec![-1.0, f64::NAN, 99.0];
    panel.events = (0..40).map(|n| Event { x: f64::from(n) / 4.0, text: "R 100000".into() }).collect();
    let svg = Figure::new("", vec![panel]).svg();
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    assert!(coordinates(&svg).iter().all(|value| (0.0..=960.0).contains(value)));
}

#[test]
fn events_stand_below_the_axis_in_rows_that_do_not_run_into_each_other() {
    let mut panel = panel();
    panel.events = vec![
        Event { x: 1.0, text: "R flow 1".into() },
        Event { x: 1.2, text: "R flow 2".into() },
        Event { x: 9.0, text: "X".into() },
    ];
    let svg = Figure::new("", vec![panel]).svg();
    let y = |text: &str| {
        let line = svg.lines().find(|line| line.contains(&format!(">{text}<"))).unwrap();
        line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(y("R flow 2") > y("R flow 1") && y("X") == y("R flow 1") && y("time (s)") > y("R flow 2"));
}
