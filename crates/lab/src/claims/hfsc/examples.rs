//! The examples of Section 2: Figures 2, 3 and 4.

use fairlink_theory::inner_curves::InnerCurves;
use fairlink_theory::to_f64;

use super::watch::{Record, largest, mean, record};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// Bits of an 8 KB packet.
const PACKET_BITS: f64 = 8.0 * 8192.0;
/// Duration of such a packet at 10 Mbit/s, in seconds.
const PACKET_S: f64 = PACKET_BITS / 10e6;

/// Session 2 of Figure 3 and session 1 of Figure 4 come then, in seconds. The text gives no number.
const JOINS: f64 = 1.0;

/// Section 1, Figure 1: unused bandwidth of one organisation's classes goes to its other classes.
pub(super) fn fig1(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const FROM: f64 = 0.5;
    const TO: f64 = 2.0;
    let idle = Workload::new("fig1.toml", include_str!("../../../../../scenarios/hfsc/fig1.toml"));
    let data = "\n[[source]]\nclass = \"cmu-data\"\nmodel = \"greedy\"\npacket = \"1500B\"\n";
    let busy = Workload::new("fig1-data.toml", idle.text.clone() + data);
    let [without, with] = [record(lab, &idle, "hfsc", &idle)?, record(lab, &busy, "hfsc", &busy)?];
    let rate = |run: &Record, classes: &[&str]| 8.0 * run.bytes(classes, FROM, TO) / (TO - FROM);
    let rows = vec![
        Row::new(
            "CMU without data: audio and video together",
            Unit::Rate,
            Expected::Near(25e6, 0.01),
            rate(&without, &["cmu-audio", "cmu-video"]),
        ),
        Row::new(
            "CMU with data: all of CMU",
            Unit::Rate,
            Expected::Near(25e6, 0.01),
            rate(&with, &["cmu-audio", "cmu-video", "cmu-data"]),
        )
        .judging("CMU's traffic should receive at least 25 Mbps bandwidth during a period when the aggregate traffic from CMU has a higher arrival rate."),
        Row::new(
            "CMU with data: video",
            Unit::Rate,
            Expected::AtLeast(0.99 * 10e6),
            rate(&with, &["cmu-video"]),
        )
        .judging("Similarly, if there are resource contentions between traffic classes within CMU, the video traffic should get at least 10 Mbps."),
    ];
    let note = "All classes that send always have packets of 1500 B. Figure 1 is missing from the text, which gives 45, 25 and 10 Mbit/s; audio has 1 \
                and data 14 here, U. Pitt 8 for video and 12 for data.";
    Ok(Finding::new(note, rows).with_rerun(idle.rerun("")).with_rerun(busy.rerun("")))
}

/// Tests Figure 2: SCED with lines and with curves.
pub(super) fn fig2(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let lines = Workload::new("fig2-lines.toml", include_str!("../../../../../scenarios/hfsc/fig2-lines.toml"));
    let curves = Workload::new("fig2-curves.toml", include_str!("../../../../../scenarios/hfsc/fig2-curves.toml"));
    let coupled = record(lab, &lines, "sced", &lines)?;
    let decoupled = record(lab, &curves, "sced", &curves)?;
    // Both are backlogged for long enough that one packet does not matter.
    let greedy = lines.text.replace("model = \"cbr\"", "model = \"greedy\"").replace("packets_per_second = 30\n", "");
    let greedy = greedy.replace("duration = \"500ms\"", "duration = \"20s\"");
    let greedy = Workload::new("fig2-saturated.toml", greedy);
    let saturated = record(lab, &greedy, "sced", &greedy)?;
    let delays = [&coupled, &decoupled].map(|run| run.delays("video", 0.0, 0.5));
    let first = |points: &[(f64, f64)]| points.first().map_or(f64::NAN, |point| point.1);
    let download = |run: &Record| first(&run.delays("ftp", 0.0, 0.5));
    let rows = vec![
        Row::new(
            "lines: delay of the first video frame",
            Unit::Seconds,
            Expected::Near(0.026, 0.05),
            first(&delays[0]),
        ),
        Row::new("lines: mean delay of video", Unit::Seconds, Expected::Near(0.026, 0.1), mean(&delays[0])),
        Row::new(
            "curves: longest delay of video, 10 ms and a packet",
            Unit::Seconds,
            Expected::AtMost(0.010 + PACKET_S),
            largest(&delays[1]),
        ),
        Row::new(
            "lines: from one video deadline to the next",
            Unit::Seconds,
            Expected::Near(0.033, 0.02),
            spacing(&saturated, "video"),
        )
        .judging("the deadlines of the video packets occur every 33 ms, while the deadlines of the FTP packets occur every 8.2 ms"),
        Row::new(
            "lines: from one FTP deadline to the next",
            Unit::Seconds,
            Expected::Near(0.0082, 0.01),
            spacing(&saturated, "ftp"),
        )
        .judging("the deadlines of the video packets occur every 33 ms, while the deadlines of the FTP packets occur every 8.2 ms"),
        Row::new(
            "mean delay of video, lines over curves",
            Unit::Times,
            Expected::AtLeast(2.0),
            mean(&delays[0]) / mean(&delays[1]),
        ),
        Row::new(
            "delay of the first FTP packet, curves over lines",
            Unit::Times,
            Expected::AtLeast(1.5),
            download(&decoupled) / download(&coupled),
        )
        .judging("the reduction in the delays for video packets does not come for free: as a result, the delays for FTP packets increase"),
        Row::new(
            "worst miss of a deadline, either way",
            Unit::Seconds,
            Expected::AtMost(PACKET_S),
            coupled.worst_miss().max(decoupled.worst_miss()),
        ),
    ];
    let mut phases = Table::new(
        "Delay of video in ms by when its first frame comes",
        &["first frame", "lines, first", "lines, mean", "lines, longest", "curves, longest"],
    );
    for start in [0, 2, 4, 6, 8] {
        let later = |workload: &Workload| Workload {
            text: workload.text.replace(
                "packets_per_second = 30",
                &format!("packets_per_second = 30\nactive = [\"{start}ms..500ms\"]"),
            ),
            ..workload.clone()
        };
        let (lines, curves) = (later(&lines), later(&curves));
        let [lines, curves] = [record(lab, &lines, "sced", &lines)?, record(lab, &curves, "sced", &curves)?]
            .map(|run| run.delays("video", 0.0, 0.5));
        let cells = [first(&lines), mean(&lines), largest(&lines), largest(&curves)];
        phases.row(std::iter::once(format!("{start} ms")).chain(cells.map(|delay| format!("{:.1}", delay * 1e3))));
    }
    let panel = |title: &str, run: &Record, service: Vec<(f64, f64)>| {
        let arrivals = (0..4).flat_map(|n| {
            let at = f64::from(n) / 30.0 * 1e3;
            [(at, 8.192 * f64::from(n)), (at, 8.192 * f64::from(n + 1))]
        });
        let sent = run.course(&["video"], 0.0, 0.12).into_iter().map(|(at, bytes)| (at * 1e3, bytes / 1e3));
        let mut panel =
            Panel::new(title, Axis::linear("time in ms", 0.0, 120.0), Axis::linear("video in kB", 0.0, 35.0))
                .high(230.0);
        panel.series.push(Series::line(
            "arrived",
            arrivals.chain([(120.0, 32.768)]).collect(),
            SeriesStyle::background(0),
        ));
        panel.series.push(Series::line("curve of the video", service, SeriesStyle::reference()));
        panel.series.push(Series::line("sent", sent.collect(), SeriesStyle::nth(0).without_marker()));
        panel
    };
    // 2 Mbit/s are a quarter of a kilobyte a millisecond.
    let figure = Figure::new(
        "Figure 2: what the video is owed, and what it gets",
        vec![
            panel("(a) lines: 2 Mbit/s", &coupled, vec![(0.0, 0.0), (120.0, 30.0)]),
            panel("(b) 6.6 Mbit/s for 10 ms, then 2", &decoupled, vec![(0.0, 0.0), (10.0, 8.25), (120.0, 35.75)]),
        ],
    );
    let note = "Half a second under SCED on a link of 10 Mbit/s, every packet of 8192 B; both sessions begin together, as in the text. 26 ms is \
                the delay of a frame that meets an idle download's first deadlines: three packets of 8.2 ms each go first. The curve of the \
                download in (b) is 10 Mbit/s less the video's in the text, convex with a first slope above zero. Such curves do not stay two \
                pieces (Section 4); ours is zero for 5.75 ms, then 8 Mbit/s: the same line from 10 ms on. The table shows what the delays \
                become where the video begins later than the download. From one deadline to the next is measured: both sessions \
                always have packets for 20 s, and packets leave as their deadlines come.";
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(phases)
        .with_rerun(lines.rerun(""))
        .with_rerun(curves.rerun("")))
}

/// Returns the mean time from one packet of a class to the next, in seconds, in a run in which both always have
/// packets. SCED serves by deadlines, and the two lines together are the link, so packets leave at their deadlines.
fn spacing(run: &Record, class: &str) -> f64 {
    let done: Vec<f64> = run.of(&[class]).map(|packet| packet.done).collect();
    match done[..] {
        [first, .., last] => (last - first) / (done.len() - 1) as f64,
        _ => f64::NAN,
    }
}

/// Numbers of Figure 3, which the text gives as letters: a link of 8 Mbit/s, alpha and beta as parts of it, T in seconds.
#[derive(Clone, Copy, Debug)]
struct Letters {
    alpha: f64,
    beta: f64,
    t: f64,
    /// Length of the flat part of session 1's curve, in seconds.
    flat: f64,
}

/// Those of the scenario. DIFFERENCE: the text has alpha for session 1 until T; that curve does not stay two pieces (Section 4). Ours is flat
/// until T (1 - alpha / beta), and meets the paper's in T.
const LETTERS: Letters = Letters { alpha: 0.25, beta: 0.625, t: 0.1, flat: 0.06 };
const LINK: f64 = 8e6;
const THOUSAND: f64 = 8000.0 / LINK;

impl Letters {
    fn workload(self) -> Workload {
        let text = include_str!("../../../../../scenarios/hfsc/fig3.toml");
        let rate = |part: f64| format!("\"{}kbit\"", part * LINK / 1e3);
        let text = text
            .replace("\"60ms\", m2 = \"5mbit\"", &format!("\"{}us\", m2 = {}", self.flat * 1e6, rate(self.beta)))
            .replace(
                "m1 = \"5mbit\", d = \"100ms\", m2 = \"2mbit\"",
                &format!("m1 = {}, d = \"{}us\", m2 = {}", rate(self.beta), self.t * 1e6, rate(self.alpha)),
            );
        Workload::new("fig3.toml", text)
    }

    /// t1 - t0 in seconds: session 2 is served alone until S_2(x) = R (t1 - t0), where x is the time from t0 to the
    /// last deadline of session 1.
    fn starves(self) -> f64 {
        let ahead = self.flat + JOINS / self.beta - JOINS;
        let owed = self.beta * ahead.min(self.t) + self.alpha * (ahead - self.t).max(0.0);
        owed.min(ahead)
    }
}

/// The runs of the three schedulers in Figure 3.
struct Played {
    sced: Record,
    shared: Record,
    hfsc: Record,
}

impl Played {
    fn play(lab: &Lab<'_>, workload: &Workload) -> Result<Self, ClaimError> {
        // S_2(t - d_0) in place of S_2(t - t_0): by virtual times alone.
        let lines = workload.text.lines().filter(|line| !line.starts_with("real_time"));
        let shared = Workload::new("fig3-shared.toml", lines.map(|line| format!("{line}\n")).collect::<String>());
        Ok(Self {
            sced: record(lab, workload, "sced", workload)?,
            shared: record(lab, &shared, "hfsc", workload)?,
            hfsc: record(lab, workload, "hfsc", workload)?,
        })
    }

    fn all(&self) -> [(&'static str, &Record); 3] {
        [("sced", &self.sced), ("virtual times alone", &self.shared), ("hfsc", &self.hfsc)]
    }
}

/// Figure 3: punishment for the use of excess bandwidth.
pub(super) fn fig3(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = Workload::new("fig3.toml", include_str!("../../../../../scenarios/hfsc/fig3.toml"));
    let played = Played::play(lab, &workload)?;
    let Letters { alpha, beta, t, .. } = LETTERS;
    let gap = |run: &Record| run.longest_gap("1", JOINS, JOINS + 0.5);
    let left = (1.0 - beta) * t * LINK / 8.0;
    let mut rows = vec![
        Row::new(
            "sced: session 1 gets nothing for, beside t1 - t0 of the curves",
            Unit::Seconds,
            Expected::Within(LETTERS.starves(), 3.0 * THOUSAND),
            gap(&played.sced),
        ),
        Row::new(
            "hfsc: the longest that session 1 gets nothing",
            Unit::Seconds,
            Expected::AtMost(4.0 * THOUSAND),
            gap(&played.hfsc),
        ),
        Row::new(
            "hfsc: what session 1 gets in T after t0, over what the curve of session 2 leaves",
            Unit::Times,
            Expected::AtLeast((left - 2000.0) / left),
            played.hfsc.bytes(&["1"], JOINS, JOINS + t) / left,
        ),
        Row::new(
            "virtual times alone: the longest that session 1 gets nothing",
            Unit::Seconds,
            Expected::AtMost(4.0 * THOUSAND),
            gap(&played.shared),
        ),
        Row::new(
            "virtual times alone: worst miss of a deadline of session 2",
            Unit::Seconds,
            Expected::AtLeast(5.0 * THOUSAND),
            played.shared.miss("2")?,
        ),
    ];
    for (name, run) in [("sced", &played.sced), ("hfsc", &played.hfsc)] {
        for session in ["1", "2"] {
            rows.push(Row::new(
                format!("{name}: worst miss of a deadline of session {session}"),
                Unit::Seconds,
                Expected::AtMost(THOUSAND),
                run.miss(session)?,
            ));
        }
    }
    let mut table = Table::new(
        "By the letters and the form of session 1's curve: the longest that session 1 gets nothing, and the worst miss of session 2, in ms",
        &["alpha, beta, T, flat for", "t1 - t0", "sced", "hfsc", "hfsc, miss", "virtual times alone, miss"],
    );
    let forms = [
        LETTERS,
        Letters { flat: 0.1, ..LETTERS },
        Letters { alpha: 0.125, flat: 0.08, ..LETTERS },
        Letters { alpha: 0.375, flat: 0.04, ..LETTERS },
        Letters { alpha: 0.125, beta: 0.75, t: 0.06, flat: 0.05 },
        Letters { t: 0.2, flat: 0.12, ..LETTERS },
    ];
    for letters in forms {
        let played = Played::play(lab, &letters.workload())?;
        let cells =
            [letters.starves(), gap(&played.sced), gap(&played.hfsc), played.hfsc.miss("2")?, played.shared.miss("2")?];
        let Letters { alpha, beta, t, flat } = letters;
        let head = format!("{alpha}, {beta}, {:.0} ms, {:.0} ms", t * 1e3, flat * 1e3);
        table.row(std::iter::once(head).chain(cells.map(|cell| format!("{:.1}", cell * 1e3))));
    }
    let (from, to) = (JOINS - 0.05, JOINS + 0.4);
    let mut panels = Vec::new();
    for (name, run) in played.all() {
        let x = Axis::linear("time in s", from, to);
        let mut panel = Panel::new(name, x, Axis::linear("kB since 0.95 s", 0.0, 350.0)).high(190.0);
        let owed = [0.0, t, to - JOINS].map(|y| (JOINS + y, (beta * y.min(t) + alpha * (y - t).max(0.0)) * LINK / 8e3));
        panel.series.push(Series::line("curve of session 2", owed.to_vec(), SeriesStyle::reference()));
        for (place, session) in ["1", "2"].into_iter().enumerate() {
            let points = run.course(&[session], from, to).into_iter().map(|(at, bytes)| (at, bytes / 1e3));
            panel.series.push(Series::line(
                format!("session {session}"),
                points.collect(),
                SeriesStyle::nth(place).without_marker(),
            ));
        }
        panel.borders.push(JOINS);
        panels.push(panel);
    }
    let note = "Session 1 has the link alone from 0, session 2 comes at t0 = 1 s; both always have packets, of 1000 B; 8 Mbit/s, alpha = 1/4 and \
                beta = 5/8 of it, T = 100 ms: the text has letters only, and 2 beta > 1 as it asks. Its curve of session 1 has the slope alpha until T. \
                Section 4 says that such a curve does not stay two pieces; in its place is one that is flat for T (1 - alpha / beta) = 60 ms, then \
                beta, and meets the paper's in T. The table has others, flat until T among them. Section 2.2 says that SCED punishes session 2; \
                it is session 1. \"Virtual times alone\" is S_2(t - d_0) in place of S_2(t - t_0): H-FSC without real-time curves.";
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Figure 3: service of both sessions, of which the second comes at 1 s", panels))
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler sced --scheduler hfsc --metrics")))
}

/// Tests Figure 4: curves of inner classes that cannot be met.
pub(super) fn fig4(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const PACKET: f64 = 500.0;
    /// In seconds.
    const END: f64 = 2.0;
    const B_RATE: f64 = 4e6;
    let text = include_str!("../../../../../scenarios/hfsc/fig4.toml");
    let workload = Workload::new("fig4.toml", text);
    // Maximum shortfall of B below the yield of its curve, 4 Mbit/s, from `from` on; it peaks just before one of its
    // packets has left.
    let lacks = |run: &Record, from: f64, to: f64| {
        let mut sent = 0.0;
        let mut worst = 0.0f64;
        for packet in run.of(&["3", "4"]).filter(|packet| packet.done > from && packet.done <= to) {
            worst = worst.max(B_RATE / 8.0 * (packet.done - from) - sent);
            sent += packet.len;
        }
        worst
    };
    let computed = |workload: &Workload| -> Result<(f64, f64, f64), ClaimError> {
        let file = workload.read("hfsc")?;
        let b = file.names.iter().position(|name| name == "B").ok_or_else(|| ClaimError::other("no B"))?;
        let inner = InnerCurves::for_tree(&file.link.tree).ok_or_else(|| ClaimError::other("too many classes"))?;
        let short = inner.short.iter().find(|short| short.class.index() == b);
        let short = short.ok_or_else(|| ClaimError::other("the curve of B is said to be met"))?;
        let bytes = short.bytes.as_ref().map_or(f64::INFINITY, to_f64);
        Ok((bytes, to_f64(&short.from), to_f64(&short.at)))
    };
    // Session 3 never comes: until then B gets exactly its curve.
    let silent = |workload: &Workload| {
        let source = "[[source]]\nclass = \"3\"\nmodel = \"greedy\"\npacket = \"500B\"\n";
        Workload::new(workload.name.replace(".toml", "-silent.toml"), workload.text.replace(source, ""))
    };
    let run = record(lab, &workload, "hfsc", &workload)?;
    let alone = silent(&workload);
    let without = record(lab, &alone, "hfsc", &alone)?;
    let (bytes, from, at) = computed(&workload)?;
    let lack = lacks(&run, JOINS, END);
    let broken = lacks(&without, 0.0, END);
    let rows = vec![
        Row::new(
            "worst miss of a deadline of any leaf: a packet at most",
            Unit::Seconds,
            Expected::AtMost(8.0 * PACKET / LINK),
            run.worst_miss().max(without.worst_miss()),
        ),
        Row::new(
            "what B gets less than its curve brings from when session 1 comes",
            Unit::Bytes,
            Expected::AtLeast(10.0 * PACKET),
            lack,
        ),
        Row::new("that, over what is computed from the curves", Unit::Times, Expected::Between(0.1, 1.0), lack / bytes),
        Row::new(
            "session 3 silent: by how much the curve of B is broken, over what is computed",
            Unit::Times,
            Expected::Within(1.0, 6.0 * PACKET / bytes),
            broken / bytes,
        ),
        Row::new(
            "session 3 silent: by how much it is broken before session 1 comes",
            Unit::Bytes,
            Expected::AtMost(3.0 * PACKET),
            lacks(&without, 0.0, JOINS),
        ),
        Row::shown("computed: B may fall short from, after it gets packets", Unit::Seconds, from),
        Row::shown("computed: at worst after", Unit::Seconds, at),
        Row::shown("computed: by at most", Unit::Bytes, bytes),
    ];
    let mut table = Table::new(
        "By how long the first pieces last",
        &["first pieces", "computed, kB", "B lacks, kB", "session 3 silent, kB", "worst miss of a leaf, us"],
    );
    for ms in [25, 50, 100, 200, 400] {
        let workload = Workload::new(format!("fig4-{ms}.toml"), text.replace("\"100ms\"", &format!("\"{ms}ms\"")));
        let alone = silent(&workload);
        let (run, without) = (record(lab, &workload, "hfsc", &workload)?, record(lab, &alone, "hfsc", &alone)?);
        let (bytes, ..) = computed(&workload)?;
        let miss = run.worst_miss().max(without.worst_miss());
        let cells = [bytes / 1e3, lacks(&run, JOINS, END) / 1e3, lacks(&without, 0.0, END) / 1e3, miss * 1e6];
        table.row(std::iter::once(format!("{ms} ms")).chain(cells.map(|cell| format!("{cell:.1}"))));
    }
    let (from, to) = (JOINS - 0.1, JOINS + 0.4);
    let mut panel =
        Panel::new("", Axis::linear("time in s", from, to), Axis::linear("kB since 0.9 s", 0.0, 280.0)).high(330.0);
    let line = vec![(from, 0.0), (to, B_RATE / 8e3 * (to - from))];
    panel.series.push(Series::line("curves of A and B", line, SeriesStyle::reference()));
    let shown: [(&str, &[&str]); 6] =
        [("A", &["1", "2"]), ("B", &["3", "4"]), ("1", &["1"]), ("2", &["2"]), ("3", &["3"]), ("4", &["4"])];
    for (place, (name, leaves)) in shown.into_iter().enumerate() {
        // One point in many: packets are short on the scale of the plot.
        let points = run.course(leaves, from, to).into_iter().step_by(20).map(|(at, bytes)| (at, bytes / 1e3));
        panel.series.push(Series::line(name, points.collect(), SeriesStyle::nth(place)));
    }
    panel.borders.push(JOINS);
    let note = "The figure has no numbers. Ours: a link of 8 Mbit/s and packets of 500 B; sessions 1 and 3 have 4 Mbit/s for 100 ms, then 0.8; 2 and 4 nothing \
                for 100 ms, then 3.2; A and B have the sum, 4 Mbit/s each. Sessions 2, 3 and 4 always have packets from 0 on, session 1 from 1 s on. \
                Until then A's half goes to 2. Then session 1's steep piece and the slopes of 2, 3 and 4 come to more than the link: the leaves' curves \
                are met, and B gets 2.4 of its 4 Mbit/s. In all B still has what its curve asks for by equation (1), because the steep piece of 3 put \
                it ahead at the start. Where 3 is silent nothing does, and the curve of B is broken by as much as is computed from the curves alone, \
                which `check` prints.";
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new(
            "Figure 4: service of sessions and classes, of which session 1 comes at 1 s",
            vec![panel],
        ))
        .with_table(table)
        .with_rerun(workload.rerun("--metrics")))
}
