//! Section 4's mapping of requirements to curves, and the admission of a set of curves.

use fairlink_core::registry::find;
use fairlink_core::{BuildError, Leniency, Members, ServiceCurve};
use fairlink_theory::curves::service;
use fairlink_theory::promises::admission;
use fairlink_theory::to_f64;
use num_rational::BigRational;

use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// Requirements of a session: bytes, nanoseconds, bit/s.
#[derive(Clone, Copy, Debug)]
struct Asked {
    burst: u64,
    delay: u64,
    rate: u64,
}

impl Asked {
    /// The curve by Figure 8: first slope, length of the first piece in nanoseconds, second slope; before rounding.
    fn as_printed(self) -> (f64, f64, f64) {
        let (bits, delay, rate) = (8.0 * self.burst as f64, self.delay as f64, self.rate as f64);
        let steep = bits * 1e9 / delay;
        if steep > rate { (steep, delay, rate) } else { (0.0, delay - bits * 1e9 / rate, rate) }
    }

    /// Converts to the form of a link file.
    fn curve(self) -> Result<ServiceCurve, ClaimError> {
        let Self { burst, delay, rate } = self;
        let text = format!(
            "duration = \"1s\"\n[link]\nrate = \"1tbit\"\nmtu = \"1500B\"\n[[class]]\nname = \"a\"\n\
             real_time = {{ burst = \"{burst}B\", delay = \"{delay}ns\", rate = \"{rate}bit\" }}\n\
             [[source]]\nclass = \"a\"\nmodel = \"greedy\"\npacket = \"100B\"\n"
        );
        let tree = Workload::new("map.toml", text).read("hfsc")?.link.tree;
        let curve = tree.leaves().first().and_then(|&leaf| tree.config(leaf).real_time);
        curve.ok_or_else(|| ClaimError::other("no curve"))
    }
}

fn slopes(curve: &ServiceCurve) -> (f64, f64, f64) {
    let slope = |rate: Option<fairlink_core::Rate>| rate.map_or(0.0, |rate| rate.bps() as f64);
    (slope(curve.m1), curve.d.0 as f64, slope(curve.m2))
}

/// The sessions of Section 6.1.
const SESSIONS: [(&str, Asked); 3] = [
    ("audio", Asked { burst: 160, delay: 5_000_000, rate: 64_000 }),
    ("video", Asked { burst: 8192, delay: 10_000_000, rate: 2_000_000 }),
    ("ftp", Asked { burst: 4096, delay: 16_250_000, rate: 5_000_000 }),
];

/// Tests the map of (u, d, r) to (m1, x, m2).
pub(super) fn map(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(1_000, 20_000);
    let (mut concave, mut wrong, mut late) = (0usize, 0usize, 0usize);
    let (mut slope_off, mut knee_off) = (0.0f64, 0.0f64);
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(21, case);
        let exponent = |dice: &mut SeededRng, most: u32| 10u64.pow(dice.below(u64::from(most)) as u32);
        let burst = dice.between(1, 65_535);
        let delay = dice.between(100, 999) * exponent(&mut dice, 7) * 10;
        let rate = dice.between(1_000, 9_999) * exponent(&mut dice, 6);
        let asked = Asked { burst, delay, rate };
        let printed = asked.as_printed();
        if printed.0 > 1e12 {
            // Refused: steeper than any link.
            continue;
        }
        let curve = asked.curve()?;
        let found = slopes(&curve);
        concave += usize::from(printed.0 > 0.0);
        // Whole bit/s and nanoseconds: up and down by less than one.
        slope_off = slope_off.max((found.0 - printed.0).abs());
        knee_off = knee_off.max((found.1 - printed.1).abs());
        let alike = (found.0 > 0.0) == (printed.0 > 0.0) && found.2 == printed.2;
        let near = (found.0 - printed.0).abs() < 1.001 && (found.1 - printed.1).abs() < 1.001;
        wrong += usize::from(!alike || !near);
        let at = BigRational::new(delay.into(), 1_000_000_000.into());
        late += usize::from(service(&curve, &at) < BigRational::from_integer((8 * burst).into()));
    }
    let mut rows = vec![
        Row::never("curves that are not those of Figure 8, to a bit/s and a nanosecond", wrong),
        Row::never("curves by which the burst is not served within the delay", late),
        Row::new(
            "part of the cases that are concave",
            Unit::Part,
            Expected::Between(0.2, 0.8),
            concave as f64 / cases as f64,
        ),
        Row::new("farthest first slope, by rounding up", Unit::Rate, Expected::AtMost(1.001), slope_off),
        Row::new(
            "farthest end of a first piece, by rounding down",
            Unit::Seconds,
            Expected::AtMost(1.001e-9),
            knee_off / 1e9,
        ),
    ];
    let mut table = Table::new("The sessions of Section 6.1", &["session", "m1 in kbit/s", "x in ms", "m2 in kbit/s"]);
    let mut panels = Vec::new();
    for (name, asked) in SESSIONS {
        let (m1, x, m2) = slopes(&asked.curve()?);
        let (first, knee, _) = asked.as_printed();
        rows.push(Row::new(format!("{name}: first slope"), Unit::Rate, Expected::Within(first, 1.0), m1));
        rows.push(Row::new(format!("{name}: x"), Unit::Seconds, Expected::Within(knee / 1e9, 1e-9), x / 1e9));
        table.row([name.to_owned(), format!("{}", m1 / 1e3), format!("{}", x / 1e6), format!("{}", m2 / 1e3)]);
        let end = 25.0;
        // In kilobytes after `y` seconds.
        let at = |y: f64| (m1 * y.min(x / 1e9) + m2 * (y - x / 1e9).max(0.0)) / 8e3;
        let x_axis = Axis::linear("time in ms", 0.0, end);
        let top = (at(end / 1e3) * 1.2).max(asked.burst as f64 * 1.2e-3);
        let mut panel = Panel::new(name, x_axis, Axis::linear("kB", 0.0, top)).high(170.0);
        let points = [0.0, x / 1e6, end].map(|ms| (ms, at(ms / 1e3)));
        panel.series.push(Series::line("service curve", points.to_vec(), SeriesStyle::nth(0).without_marker()));
        let line = vec![(0.0, 0.0), (end, asked.rate as f64 * end / 8e6)];
        panel.series.push(Series::line("line of slope r", line, SeriesStyle::reference()));
        let corner = vec![(asked.delay as f64 / 1e6, asked.burst as f64 / 1e3)];
        panel.series.push(Series::points("(d, u)", corner, SeriesStyle::nth(1)));
        panels.push(panel);
    }
    let note = format!(
        "{cases} random requirements: bursts of 1 to 65,535 B, delays of a microsecond to ten seconds, rates of 1 kbit/s to 10 Gbit/s, read from link \
         files and held against Figure 8 computed in floating point. Slopes are whole bit/s, rounded up, and times whole nanoseconds, \
         rounded down, so that the burst is still in time: that is checked in rational numbers. The text's KB is taken as 1024 B."
    );
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Figure 8: the curves of audio and video are concave, that of FTP is convex", panels))
        .with_table(table))
}

const FIG10: &str = include_str!("../../../../../scenarios/hfsc-fig10.toml");

/// The set of Figure 10 with another delay of FTP, and the sizes that the text calls 8 KB and 4 KB.
fn figure_10(ftp_us: f64, [video, ftp]: [u32; 2]) -> Workload {
    let text = FIG10
        .replace("\"16.25ms\"", &format!("\"{}ns\"", (ftp_us * 1e3).round()))
        .replace("8192B", &format!("{video}B"))
        .replace("4096B", &format!("{ftp}B"));
    Workload::new("hfsc-fig10.toml", text)
}

/// Time at which the set exceeds the link, in seconds, by the theory and by the scheduler; `None` if it is admitted.
type Verdicts = (Option<f64>, Option<f64>);

fn admitted(workload: &Workload) -> Result<Verdicts, ClaimError> {
    let tree = workload.read("hfsc")?.link.tree;
    let info = find("hfsc").ok_or_else(|| ClaimError::other("no hfsc"))?;
    let exact = admission(info, &tree).ok_or_else(|| ClaimError::other("no curves"))?;
    let built = match info.build(&tree, Leniency::Refuse, Members::new()) {
        Ok(_) => None,
        Err(BuildError::NotAdmitted { fails_at }) => Some(fails_at.0 as f64 / 1e9),
        Err(other) => return Err(ClaimError::other(other)),
    };
    Ok((exact.as_ref().map(to_f64), built))
}

/// Returns the shortest delay of FTP with which the set is admitted, in microseconds, to a nanosecond.
fn shortest(sizes: [u32; 2]) -> Result<f64, ClaimError> {
    let (mut fails, mut fits) = (1_000_000u64, 40_000_000u64);
    while fits - fails > 1 {
        let middle = fails.midpoint(fits);
        match admitted(&figure_10(middle as f64 / 1e3, sizes))?.0 {
            None => fits = middle,
            Some(_) => fails = middle,
        }
    }
    Ok(fits as f64 / 1e3)
}

/// Tests Section 2.1's condition on the set of Figure 10.
pub(super) fn admission_of_figure_10(_: &Lab<'_>) -> Result<Finding, ClaimError> {
    const SIZES: [u32; 2] = [8192, 4096];
    const FTP_US: f64 = 16_250.0;
    let asked = admitted(&figure_10(FTP_US, SIZES))?;
    let shortest_us = shortest(SIZES)?;
    let delays = [8_000.0, 10_000.0, 12_000.0, 14_000.0, 15_000.0, shortest_us - 0.001, shortest_us, FTP_US, 20_000.0];
    let (mut disagree, mut unnamed) = (0, 0);
    let mut table = Table::new(
        "The set of Figure 10 by the delay of FTP",
        &["delay of FTP", "fails after, ms", "the scheduler says, ms"],
    );
    for us in delays {
        let (exact, built) = admitted(&figure_10(us, SIZES))?;
        // The scheduler names the whole nanosecond before.
        let alike = match (exact, built) {
            (None, None) => true,
            (Some(exact), Some(built)) => (exact - built).abs() <= 1e-9 + 1e-15,
            _ => false,
        };
        disagree += usize::from(!alike);
        unnamed += usize::from(us < shortest_us && exact.is_none());
        let cell = |at: Option<f64>| at.map_or_else(|| "admitted".to_owned(), |at| format!("{:.6}", at * 1e3));
        table.row([format!("{:.6} ms", us / 1e3), cell(exact), cell(built)]);
    }
    let fails = admitted(&figure_10(shortest_us - 0.001, SIZES))?.0;
    // Audio, video and the lines have requested 96496 b of 100000 by 10 ms, where the video's first piece ends; 3504 b
    // at 5 Mbit/s take 0.7008 ms.
    let by_hand = 0.010 - (0.010 * 10e6 - (960.0 + 640.0 + 65_536.0 + 0.010 * 2_936_000.0)) / 5e6 + 4096.0 * 8.0 / 5e6;
    let rows = vec![
        Row::never(
            "the set as printed, FTP within 16.25 ms: refused",
            usize::from(asked.0.is_some() || asked.1.is_some()),
        ),
        Row::new(
            "the shortest delay of FTP with which it is admitted",
            Unit::Seconds,
            Expected::Near(by_hand, 1e-6),
            shortest_us / 1e6,
        ),
        Row::new("spare in the printed delay of FTP", Unit::Part, Expected::AtLeast(0.0), 1.0 - shortest_us / FTP_US),
        Row::new(
            "a nanosecond less: the time after which the set asks for more than the link",
            Unit::Seconds,
            Expected::Near(0.010, 1e-3),
            fails.unwrap_or(f64::NAN),
        ),
        Row::never("shorter delays that name no time", unnamed),
        Row::never("delays of which theory and scheduler disagree", disagree),
    ];
    let mut sizes = Table::new("By what KB means", &["8 KB and 4 KB", "shortest delay of FTP, ms", "16.25 ms"]);
    for (name, of) in [("8192 and 4096 B", [8192, 4096]), ("8000 and 4000 B", [8000, 4000])] {
        let verdict = if admitted(&figure_10(FTP_US, of))?.0.is_none() { "admitted" } else { "refused" };
        sizes.row([name.to_owned(), format!("{:.4}", shortest(of)? / 1e3), verdict.to_owned()]);
    }
    let axis = || (Axis::linear("time in ms", 0.0, 20.0), Axis::linear("asked for less carried, in kbit", -5.0, 25.0));
    let mut panel = Panel::new("", axis().0, axis().1);
    for (place, us) in [12_000.0, 14_000.0, FTP_US].into_iter().enumerate() {
        let tree = figure_10(us, SIZES).read("hfsc")?.link.tree;
        let curves: Vec<ServiceCurve> = tree.leaves().iter().filter_map(|&leaf| tree.config(leaf).real_time).collect();
        let over = |quarter: u32| {
            let t = BigRational::new(quarter.into(), 4_000.into());
            let asked: BigRational = curves.iter().map(|curve| service(curve, &t)).sum();
            (f64::from(quarter) / 4.0, to_f64(&asked) / 1e3 - 10.0 * f64::from(quarter) / 4.0)
        };
        let look = SeriesStyle::nth(place).without_marker();
        panel.series.push(Series::line(format!("FTP within {} ms", us / 1e3), (0..=80).map(over).collect(), look));
    }
    panel.series.push(Series::line("the link", vec![(0.0, 0.0), (20.0, 0.0)], SeriesStyle::reference()));
    let note = "The leaves' curves of scenarios/hfsc-fig10.toml on 10 Mbit/s: audio, video and FTP as printed, all others lines of their rates, which \
                fill up the link. Exact, in rational numbers; the scheduler decides in integers and names the same time. The tightest instant is \
                10 ms, where the first piece of the video ends: the delay of FTP must leave what the others have not asked for by then.";
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("What the curves of Figure 10 ask for together", vec![panel]))
        .with_table(table)
        .with_table(sizes)
        .with_rerun(crate::claims::finding::Rerun {
            file: "hfsc-fig10.toml".into(),
            text: FIG10.into(),
            command: "check hfsc-fig10.toml".into(),
        }))
}
