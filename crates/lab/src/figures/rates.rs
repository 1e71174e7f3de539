//! Rates against time, as CSV for programs and SVG for people: one file of each for each run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fairlink_sim::{Phase, Report, Run, Windows};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::rate_unit::RateUnit;

/// Most leaves drawn in one plot: those with the highest ideal or measured rate in some phase. The CSV has all.
pub const MAX_DRAWN: usize = 12;

const SIZE: (u32, u32) = (960, 480);
/// Where the plot ends and the legend begins.
const LEGEND_FROM: u32 = 790;
const FONT: (&str, i32) = ("sans-serif", 14);

/// Colours that remain distinct for most colour-blind readers (Okabe and Ito), without the yellow that white paper swallows.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
const GREY: RGBColor = RGBColor(160, 160, 160);

/// Why there is no plot.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The run was made without [`fairlink_sim::Options::window`].
    #[error("no rates against time were recorded")]
    NoWindows,
    /// The drawing library refused.
    #[error("drawing: {0}")]
    Drawing(String),
    /// A file could not be written.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// Writes the CSV and the SVG of every run of `report` into `dir`, which is made if it is not there, and returns the paths.
/// The files are named after the scheduler, and after the seed where there are several.
///
/// # Errors
/// [`PlotError`]; files written before it stay.
pub fn write(report: &Report, dir: &Path) -> Result<Vec<PathBuf>, PlotError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| PlotError::File { path, error }
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    let several_seeds = report.runs.windows(2).any(|pair| pair[0].seed != pair[1].seed);
    let mut written = Vec::new();
    for run in &report.runs {
        let (stem, title) = match several_seeds {
            true => (format!("{}-seed{}", run.scheduler, run.seed), format!("{}, seed {}", run.scheduler, run.seed)),
            false => (run.scheduler.clone(), run.scheduler.clone()),
        };
        for (suffix, text) in [("csv", csv(run)?), ("svg", svg(run, &title)?)] {
            let path = dir.join(format!("{stem}.{suffix}"));
            fs::write(&path, text).map_err(failed(&path))?;
            written.push(path);
        }
    }
    Ok(written)
}

/// One row for each window, one column for each class, inner classes included; the head names the units.
///
/// # Errors
/// [`PlotError::NoWindows`].
pub fn csv(run: &Run) -> Result<String, PlotError> {
    let windows = run.windows.as_ref().ok_or(PlotError::NoWindows)?;
    let mut text = String::from("start_s,end_s");
    for name in &windows.names {
        text.push(',');
        text.push_str(&field(&format!("{name}_bps")));
    }
    text.push('\n');
    for row in &windows.rows {
        text.push_str(&format!("{},{}", row.start_s, row.end_s));
        for rate in &row.rates_bps {
            text.push_str(&format!(",{rate:.0}"));
        }
        text.push('\n');
    }
    Ok(text)
}

/// A field of a CSV file (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// One line of a plot: a column of the windows, and how it is drawn.
struct Line<'a> {
    name: &'a str,
    column: usize,
    colour: RGBColor,
    width: u32,
    leaf: bool,
}

/// A drawing of the rates of the leaves that are ever busy (in colour) and of inner classes (in grey) against time, the ideal
/// of each leaf as a dashed line of a darker shade, and the borders of phases.
///
/// # Errors
/// [`PlotError::NoWindows`], [`PlotError::Drawing`].
pub fn svg(run: &Run, title: &str) -> Result<String, PlotError> {
    let windows = run.windows.as_ref().ok_or(PlotError::NoWindows)?;
    let mut text = String::new();
    draw(run, windows, title, &mut text).map_err(|error| PlotError::Drawing(error.to_string()))?;
    Ok(text)
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw<'a>(run: &Run, windows: &Windows, title: &str, text: &'a mut String) -> Drawn<'a> {
    let unit = RateUnit::for_link(run.link_bps);
    let (lines, left_out) = lines(run, windows);
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (plot, legend) = root.split_horizontally(LEGEND_FROM);
    let fastest = run.changes.iter().map(|change| change.link_bps).fold(run.link_bps, f64::max);
    let top = fastest / unit.bps * 1.05;
    let mut chart = ChartBuilder::on(&plot)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..run.duration_s, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("time (s)")
        .y_desc(format!("rate ({})", unit.name))
        .label_style(FONT)
        .draw()?;
    for phase in run.phases.iter().skip(1) {
        let border = [(phase.start_s, 0.0), (phase.start_s, top)];
        chart.draw_series(DashedLineSeries::new(border, 2, 4, GREY.stroke_width(1)))?;
    }
    for line in &lines {
        let step = |row: &fairlink_sim::Window| {
            let rate = row.rates_bps[line.column] / unit.bps;
            [(row.start_s, rate), (row.end_s, rate)]
        };
        chart.draw_series(LineSeries::new(windows.rows.iter().flat_map(step), line.colour.stroke_width(line.width)))?;
    }
    for line in lines.iter().filter(|line| line.leaf) {
        for phase in &run.phases {
            draw_ideal(&mut chart, phase, line, unit)?;
        }
    }
    for (row, line) in lines.iter().enumerate() {
        let y = 44 + 20 * row as i32;
        legend.draw(&PathElement::new([(4, y), (28, y)], line.colour.stroke_width(line.width)))?;
        legend.draw(&Text::new(line.name.to_owned(), (34, y - 7), FONT))?;
    }
    let below = 44 + 20 * lines.len() as i32;
    if left_out > 0 {
        legend.draw(&Text::new(format!("{left_out} more in the CSV"), (4, below - 7), FONT))?;
    }
    legend.draw(&Text::new("dashed: the ideal", (4, below + 13), FONT))?;
    root.present()
}

fn draw_ideal<'a>(
    chart: &mut ChartContext<'_, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>,
    phase: &Phase,
    line: &Line<'_>,
    unit: RateUnit,
) -> Drawn<'a> {
    let ideal = phase.classes.iter().find(|class| class.name == line.name).map(|class| class.ideal_bps / unit.bps);
    if let Some(ideal) = ideal.filter(|&ideal| ideal > 0.0) {
        let points = [(phase.start_s, ideal), (phase.end_s, ideal)];
        // Darker than the line that it should lie on.
        let RGBColor(red, green, blue) = line.colour;
        let dark = RGBColor(red / 2, green / 2, blue / 2);
        chart.draw_series(DashedLineSeries::new(points, 8, 6, dark.stroke_width(1)))?;
    }
    Ok(())
}

/// What is drawn: inner classes first, so that leaves lie on top of them, and how many leaves are not.
fn lines<'a>(run: &Run, windows: &'a Windows) -> (Vec<Line<'a>>, usize) {
    let columns = |leaf| (0..windows.names.len()).filter(move |&column| windows.leaf[column] == leaf);
    let highest = |column: usize| {
        let of_phase = |phase: &Phase| {
            let class = phase.classes.iter().find(|class| class.name == windows.names[column]);
            class.map_or(0.0, |class| class.rate_bps.max(class.ideal_bps))
        };
        run.phases.iter().map(of_phase).fold(0.0, f64::max)
    };
    let busy = columns(true).map(|column| (column, highest(column))).filter(|&(_, highest)| highest > 0.0);
    let mut leaves: Vec<(usize, f64)> = busy.collect();
    let all = leaves.len();
    leaves.sort_by(|a, b| b.1.total_cmp(&a.1));
    leaves.truncate(MAX_DRAWN);
    leaves.sort_by_key(|&(column, _)| column);
    let inner: Vec<usize> = columns(false).take(MAX_DRAWN).collect();
    let grey = inner.into_iter().map(|column| Line {
        name: &windows.names[column],
        column,
        colour: GREY,
        width: 1,
        leaf: false,
    });
    let drawn = leaves.len();
    let coloured = leaves.iter().zip(COLOURS.iter().cycle()).enumerate().map(|(n, (&(column, _), &colour))| Line {
        name: &windows.names[column],
        column,
        colour,
        // Lines that lie on each other are all seen, as each is narrower than the one below.
        width: (drawn - n + 1).min(6) as u32,
        leaf: true,
    });
    (grey.chain(coloured).collect(), all - leaves.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::hls;
    use crate::measure::OPTIONS;
    use fairlink_core::{Leniency, Nanos, Rate, registry::find};
    use fairlink_sim::{Options, compare};

    fn report(options: &Options, runs: u32) -> Report {
        let rate = Rate::from_bps(10_000_000).unwrap();
        let scenario = hls::EXP2.script("H").unwrap().scenario(rate, Some(Nanos::from_millis(1100))).unwrap();
        let schedulers = ["fifo", "hls"].map(|name| find(name).unwrap());
        compare(&scenario, &schedulers, Leniency::Ignore, runs, options, &mut ()).unwrap()
    }

    #[test]
    fn the_csv_has_a_row_for_each_window_and_a_column_for_each_class() {
        let report = report(&OPTIONS, 1);
        let csv = csv(&report.runs[1]).unwrap();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0], "start_s,end_s,A_bps,A1_bps,A2_bps,B_bps,B1_bps,B2_bps,C_bps");
        assert_eq!(lines.len(), 1 + 17);
        assert_eq!(lines[2], "0.2,0.4,3000000,3000000,0,3000000,0,3000000,4000000");
        assert!(lines[17].starts_with("3.2,3.3,"), "{}", lines[17]);
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn the_svg_draws_each_class_its_ideal_and_the_phases() {
        let mut report = report(&OPTIONS, 1);
        let run = &mut report.runs[1];
        let windows = run.windows.as_mut().unwrap();
        windows.names[1] = "A<1".into();
        run.phases.iter_mut().for_each(|phase| phase.classes[0].name = "A<1".into());
        let svg = svg(run, "hls & co").unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["hls &amp; co", "A&lt;1", "B2", "time (s)", "rate (Mbit/s)", "dashed: the ideal"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("\nA2\n"), "A2 never sends");
        assert!(!svg.contains("more in the CSV"));
        // A line of a class has two points for each window; the dashes of ideals and borders have two or three.
        let points = |line: &str| {
            let list = line.split_once("points=\"").and_then(|(_, rest)| rest.split_once('"'));
            list.map_or(0, |(list, _)| list.split_whitespace().count())
        };
        let lines = svg.lines().filter(|line| points(line) >= 34).count();
        // A, B, A1, B2 and C.
        assert_eq!(lines, 5);
        let dashes = |colour| svg.lines().filter(|line| line.contains(colour) && points(line) < 34).count();
        // The darker shade of A1's blue, and the grey of the borders.
        assert!(dashes("stroke=\"#003959\"") > 40 && dashes("stroke=\"#A0A0A0\"") > 40);
    }

    #[test]
    fn a_run_without_windows_has_no_plot() {
        let report = report(&Options::default(), 1);
        assert!(matches!(svg(&report.runs[0], ""), Err(PlotError::NoWindows)));
    }

    #[test]
    fn each_run_is_written_under_its_own_name() {
        let dir = std::env::temp_dir().join(format!("fairlink-plot-{}", std::process::id()));
        for (runs, expected) in [(1, vec!["fifo.csv", "hls.svg"]), (2, vec!["fifo-seed1.csv", "hls-seed2.svg"])] {
            let written = write(&report(&OPTIONS, runs), &dir).unwrap();
            assert_eq!(written.len(), 4 * runs as usize);
            let names: Vec<_> = written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
            assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
            assert!(written.iter().all(|path| fs::metadata(path).unwrap().len() > 100));
        }
        let file = dir.join("fifo.csv");
        let error = write(&report(&OPTIONS, 1), &file).unwrap_err();
        assert!(matches!(&error, PlotError::File { path, .. } if *path == file), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }
}
