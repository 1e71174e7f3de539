//! Sections 1, 2.1 and 6.1: mean delay as a goal of priority, and the number of packets that compete when the on-off
//! session is active.

use fairlink_sim::statistics::Estimate;

use super::watch::{Record, largest, mean, record};
use crate::claims::laboratory::mean_of;
use crate::claims::words::ABOUT;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};

/// Sections 1 and 2.1: delays, mean and longest, apart from rates.
pub(super) fn average(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const SECONDS: f64 = 20.0;
    let text = include_str!("../../../../../scenarios/hfsc/priority.toml");
    let priority = Workload::new("priority.toml", text);
    let line = "real_time = { rate = \"1mbit\" }";
    let coupled = Workload::new(
        "priority-lines.toml",
        text.replace("real_time = { burst = \"500B\", delay = \"1ms\", rate = \"1mbit\" }", line),
    );
    if coupled.text == priority.text {
        return Err(ClaimError::other("priority.toml has no curve for audio"));
    }
    let phases: u64 = lab.by_effort(5, 20);
    let runs = |workload: &Workload| -> Result<Vec<Record>, ClaimError> {
        (0..phases).map(|phase| record(lab, &workload.clone().in_phase(phase), "hfsc", workload)).collect()
    };
    let (curves, lines) = (runs(&priority)?, runs(&coupled)?);
    let delay = |run: &Record, class: &str| mean(&run.delays(class, 0.5, SECONDS));
    let rate = |run: &Record, class: &str| 8.0 * run.bytes(&[class], 0.5, SECONDS) / (SECONDS - 0.5);
    let ratio_of_delays = over(&curves, |run| delay(run, "cmu-data") / delay(run, "cmu-audio"))?;
    let pairs = curves.iter().zip(&lines);
    let by_line = mean_of("audio", pairs.map(|(own, line)| delay(line, "cmu-audio") / delay(own, "cmu-audio")))?;
    // One session beside a download, with each shape of the same rate.
    let shapes = [
        ("concave", "{ m1 = \"6.6mbit\", d = \"10ms\", m2 = \"2mbit\" }"),
        ("line", "{ rate = \"2mbit\" }"),
        ("convex", "{ m1 = \"0bit\", d = \"20ms\", m2 = \"2mbit\" }"),
    ];
    let base = include_str!("../../../../../scenarios/hfsc/fig2-curves.toml");
    let mut table = Table::new("One session by the shape of its curve, in ms", &["curve", "mean delay", "longest"]);
    let mut of_shapes = Vec::new();
    for (name, shape) in shapes {
        let text = base
            .replace("{ m1 = \"6.6mbit\", d = \"10ms\", m2 = \"2mbit\" }", shape)
            .replace("duration = \"500ms\"", "duration = \"10s\"")
            .replace("packets_per_second = 30", "packets_per_second = 29.7");
        let workload = Workload::new(format!("{name}.toml"), text);
        let delays = record(lab, &workload, "sced", &workload)?.delays("video", 0.0, 10.0);
        let (mean, longest) = (mean(&delays), largest(&delays));
        table.row([name.to_owned(), format!("{:.2}", mean * 1e3), format!("{:.2}", longest * 1e3)]);
        of_shapes.push((mean, longest));
    }
    let [concave, straight, convex] = [of_shapes[0], of_shapes[1], of_shapes[2]];
    let ratio = |what: &str, a: f64, b: f64| {
        Row::new(what, Unit::Times, Expected::AtLeast(1.0), a / b).judging(
            "In general, a concave service curve will result in a lower average and worst case delay for a session than a linear or convex service curve with the same guaranteed rate.",
        )
    };
    let rows = vec![
        Row::new(
            "CMU audio with a curve of its own: mean delay of data over that of audio",
            Unit::Times,
            Expected::AtLeast(1.0),
            ratio_of_delays,
        ),
        Row::new("the same: what audio gets of the 800 kbit/s that it sends", Unit::Part, Expected::AtLeast(0.98), over(&curves, |run| rate(run, "cmu-audio") / 0.8e6)?),
        Row::new("the same: what data gets of the 12 Mbit/s that it sends", Unit::Part, Expected::AtLeast(0.98), over(&curves, |run| rate(run, "cmu-data") / 12e6)?),
        Row::new(
            "audio: mean delay with a line of the same rate, over that with the curve",
            Unit::Times,
            Expected::AtLeast(1.0),
            by_line,
        )
        .judging("Finally, we would like to support priority service in the sense that delay (both average delay and delay bound) and bandwidth allocations are decoupled."),
        ratio("a session by sced: mean delay, line over concave", straight.0, concave.0),
        ratio("a session by sced: longest delay, line over concave", straight.1, concave.1),
        ratio("a session by sced: mean delay, convex over concave", convex.0, concave.0),
        ratio("a session by sced: longest delay, convex over concave", convex.1, concave.1),
    ];
    let mut classes = Table::new(
        "Figure 1: mean delay in ms and rate in Mbit/s, with a curve for audio and with lines alone",
        &["class", "delay, curve", "delay, lines", "rate, curve", "rate, lines"],
    );
    for class in ["cmu-audio", "cmu-data", "pitt-data"] {
        let cells = [
            over(&curves, |run| delay(run, class) * 1e3)?.mean,
            over(&lines, |run| delay(run, class) * 1e3)?.mean,
            over(&curves, |run| rate(run, class) / 1e6)?.mean,
            over(&lines, |run| rate(run, class) / 1e6)?.mean,
        ];
        classes.row(std::iter::once(class.to_owned()).chain(cells.map(|cell| format!("{cell:.2}"))));
    }
    let note = "The tree of Figure 1 with its 45 Mbit/s: CMU's audio sends 800 kbit/s in packets of 500 B and its data 12 Mbit/s in packets of 1500 B, audio evenly \
                and data at random; all other classes always have packets. Audio has 1 Mbit/s and 1 ms for a packet, or 1 Mbit/s alone; that is all that differs. The session by its shape is the \
                video of Figure 2 beside the download of 2(b): 29.7 frames a second.";
    Ok(Finding::new(note, rows)
        .with_table(classes)
        .with_table(table)
        .with_rerun(priority.rerun(""))
        .with_rerun(coupled.rerun("")))
}

/// Returns the mean of a quantity over runs in different phases.
fn over(runs: &[Record], value: impl Fn(&Record) -> f64) -> Result<Estimate, ClaimError> {
    mean_of("a phase", runs.iter().map(value))
}

const FIG10: &str = include_str!("../../../../../scenarios/hfsc-fig10.toml");
/// When the on-off source of the scenario is on, and off, without the first 0.2 s, in seconds.
const ON: [(f64, f64); 3] = [(2.2, 4.0), (6.2, 8.0), (10.2, 12.0)];
const OFF: [(f64, f64); 3] = [(0.2, 2.0), (4.2, 6.0), (8.2, 10.0)];

/// Deadlines of the packets of one class by its rate alone, as H-PFQ counts: a packet is due L / r after it came, or after the last was due.
fn deadlines(run: &Record, class: &str, bps: f64) -> Vec<f64> {
    let names = [class];
    let mut due = 0.0f64;
    let mut all: Vec<f64> = Vec::new();
    for packet in run.of(&names) {
        due = due.max(packet.arrived) + 8.0 * packet.len / bps;
        all.push(due);
    }
    all
}

/// Packets of others whose first bit left while a packet of the class waited, in the mean of the packets that came in these times.
fn competing(run: &Record, class: &str, times: &[(f64, f64)]) -> f64 {
    let (mut waits, mut others) = (0.0, 0.0);
    let names = [class];
    let own: Vec<(f64, f64)> = run.of(&names).map(|packet| (packet.arrived, packet.start)).collect();
    let starts: Vec<f64> = run.packets.iter().map(|packet| packet.start).collect();
    for (arrived, start) in own {
        if times.iter().any(|&(from, to)| arrived >= from && arrived < to) {
            let between = |from: f64, to: f64| {
                starts.partition_point(|&at| at < to).saturating_sub(starts.partition_point(|&at| at <= from))
            };
            waits += 1.0;
            // One on the link when it came counts, too.
            others += between(arrived, start) as f64 + 1.0;
        }
    }
    others / waits
}

/// Tests Section 6.1, footnote 3.
pub(super) fn footnote(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = Workload::new("hfsc-fig10.toml", FIG10);
    let phases: u64 = lab.by_effort(5, 20);
    let play = |workload: &Workload, scheduler: &str| -> Result<Vec<Record>, ClaimError> {
        (0..phases).map(|phase| record(lab, &workload.clone().in_phase(phase), scheduler, workload)).collect()
    };
    let (hfsc, pfq) = (play(&workload, "hfsc")?, play(&workload, "hpfq")?);
    let sessions = [("audio", 64e3), ("video", 2e6), ("on-off", 1.8e6), ("other-a", 636e3)];
    let length = |times: &[(f64, f64)]| times.iter().map(|(from, to)| to - from).sum::<f64>();
    let due = |run: &Record, class: &str, bps: f64, times: &[(f64, f64)]| {
        let within = |&&at: &&f64| times.iter().any(|&(from, to)| at >= from && at < to);
        deadlines(run, class, bps).iter().filter(within).count() as f64 / length(times)
    };
    let all = |run: &Record, times: &[(f64, f64)]| {
        sessions.map(|(class, bps)| due(run, class, bps, times)).iter().sum::<f64>()
    };
    let own = over(&pfq, |run| due(run, "on-off", 1.8e6, &ON) / all(run, &ON))?;
    let more = over(&pfq, |run| all(run, &ON) / all(run, &OFF) - 1.0)?;
    let rise =
        |runs: &[Record], class: &str| over(runs, |run| competing(run, class, &ON) / competing(run, class, &OFF));
    let doubles = |class: &str| -> Result<Row, ClaimError> {
        Ok(Row::new(
            format!("H-WF2Q+: packets of others that a packet of {class} waits for, on over off"),
            Unit::Times,
            Expected::Near(2.0, ABOUT),
            rise(&pfq, class)?,
        )
        .judging("when the ON-OFF source becomes active, the number of packets from competing sessions that an audio or video packet has to wait before receiving service almost doubles and the delay increases accordingly.")
        .departing(
            2.0,
            // From one packet, the one on the link, to one of each session of class A.
            4.0,
            "Class A's other session is missing from the text. With one that sends 636 kbit/s an off on-off session leaves audio and video nearly alone in class A, \
             so that they wait for little: the table has less of a rise the more that session sends.",
        ))
    };
    let rows = vec![
        Row::new("packets of class A that have deadlines in an interval: part that is the on-off session's", Unit::Part, Expected::Near(0.4, ABOUT), own)
            .judging("Because the bandwidth of the ON-OFF session accounts for 40 % of the total bandwidth of class A (footnote 3)"),
        Row::new("the same: increase when the on-off session becomes active", Unit::Part, Expected::Near(0.4, ABOUT), more).departing(
            0.5,
            0.67,
            "40 % of what there is with the on-off session are 67 % of what there was without it, in bytes. In packets they are 55 % here, because audio has 50 small ones a second. \
             The text's \"also increases by approximately 40 %\" counts the session's part of class A, which the first row has.",
        ),
        doubles("audio")?,
        doubles("video")?,
        Row::new("H-FSC: packets of others that an audio packet waits for, on over off", Unit::Times, Expected::AtMost(1.2), rise(&hfsc, "audio")?)
            .judging("when the ON-OFF session becomes active, the number of additional packets from competing sessions an audio or video packet has to wait before being transmitted increases by less than 20 %"),
        Row::new("H-FSC: packets of others that a video packet waits for, on over off", Unit::Times, Expected::AtMost(1.2), rise(&hfsc, "video")?)
            .judging("when the ON-OFF session becomes active, the number of additional packets from competing sessions an audio or video packet has to wait before being transmitted increases by less than 20 %"),
    ];
    let mut table = Table::new("Deadlines a second by session of class A", &["session", "off", "on"]);
    for (class, bps) in sessions {
        let cell = |times| Ok::<_, ClaimError>(format!("{:.1}", over(&pfq, |run| due(run, class, bps, times))?.mean));
        table.row([class.to_owned(), cell(&OFF)?, cell(&ON)?]);
    }
    let mut waits =
        Table::new("Packets of others that one waits for, in the mean", &["scheduler, session", "off", "on"]);
    let other = "class = \"other-a\"\nmodel = \"cbr\"\npacket = \"4096B\"\nrate = \"636kbit\"";
    let always = "class = \"other-a\"\nmodel = \"greedy\"\npacket = \"4096B\"";
    let busy = Workload::new("hfsc-fig10-busy.toml", FIG10.replace(other, always));
    if busy.text == FIG10 {
        return Err(ClaimError::other("hfsc-fig10.toml has another source of other-a"));
    }
    let (hfsc_busy, pfq_busy) = (play(&busy, "hfsc")?, play(&busy, "hpfq")?);
    let runs = [
        ("hfsc", &hfsc),
        ("hpfq", &pfq),
        ("hfsc, other-a always sends", &hfsc_busy),
        ("hpfq, other-a always sends", &pfq_busy),
    ];
    for (name, runs) in runs {
        for class in ["audio", "video"] {
            let cells = [over(runs, |run| competing(run, class, &OFF))?, over(runs, |run| competing(run, class, &ON))?];
            waits.row(std::iter::once(format!("{name}, {class}")).chain(cells.map(|cell| format!("{:.2}", cell.mean))));
        }
    }
    let note = "The scenario of Figure 10, whose sources begin at random instants of their periods. A deadline is when the session's rate alone has sent a packet, counted from when it came or the last was due. A packet waits for \
                the one on the link when it comes and for all others that begin before it.";
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_table(waits)
        .with_rerun(workload.rerun("--scheduler hfsc --scheduler hpfq")))
}
