//! Bounds on delay and the distance from them: FQ-SDS over several links, FIFO against the bound of GPS, data among
//! real-time kinds, and video from a recording.

use std::fmt::Write as _;
use std::sync::Arc;

use fairlink_core::Nanos;
use fairlink_sim::{Options, Run};
use fairlink_traffic::Source;

use super::losses::VOICE;
use super::sources::{
    CELL, Compared, FRAMES, LINK, PAIR, Sources, VIDEO, VIDEO_PACKET, Voice, data_rate, lost, mean_delay, of_kind, p99,
};
use crate::claims::finding::Rerun;
use crate::claims::random::SeededRng;
use crate::claims::words::MUCH;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};
use fairlink_figures::human;

/// Rate of each link of a path in bit/s.
const PATH_LINK: f64 = 10e6;
/// Classes of each link, the one on the path among them.
const LOCAL: u64 = 4;

/// A session within a leaky bucket over some links, each with others that send as much as they can.
struct Path {
    workload: Workload,
    links: u64,
    /// Bytes, bit/s, bytes.
    sigma: u64,
    rate: u64,
    longest: u64,
}

impl Path {
    fn random(dice: &mut SeededRng) -> Self {
        let links = dice.between(2, 5);
        let rate = dice.between(300, 4000) * 1000;
        let longest = dice.between(40, 1500);
        let sigma = longest + dice.between(0, 20_000);
        let mut text = format!(
            "# A session within a leaky bucket over {links} links, with the same guarantee at each; behind an access line.\nduration = \"400ms\"\nseed = {}\n",
            dice.below(1 << 30)
        );
        let (mut peers, mut sources) = (String::new(), String::new());
        for link in 0..links {
            let parts: Vec<u64> = (0..LOCAL).map(|_| dice.between(1, 20)).collect();
            let left = PATH_LINK as u64 - rate;
            let guarantee = |part: u64| left / parts.iter().sum::<u64>() * part;
            let mut classes = vec![format!("{{ name = \"path\", guarantee = \"{rate}bit\", buffer = \"100000p\" }}")];
            for (n, &part) in parts.iter().enumerate() {
                let buffer = "buffer = \"1000p\"";
                classes.push(format!("{{ name = \"x{n}\", guarantee = \"{}bit\", {buffer} }}", guarantee(part)));
                let model = match dice.below(3) {
                    0 => "model = \"greedy\"".to_owned(),
                    1 => format!(
                        "model = \"cbr\"\nrate = \"{}bit\"\nburst = \"{}p\"",
                        guarantee(part).max(1000),
                        dice.between(1, 12)
                    ),
                    _ => format!(
                        "model = \"on_off\"\nrate = \"{}bit\"\non = \"{}ms\"\noff = \"{}ms\"",
                        3 * guarantee(part).max(1000),
                        dice.between(1, 30),
                        dice.between(1, 30)
                    ),
                };
                let at = if link > 0 { format!("link = \"l{link}\"\n") } else { String::new() };
                let _ = write!(
                    sources,
                    "\n[[source]]\n{at}class = \"x{n}\"\n{model}\npacket = \"{}B\"\n",
                    dice.between(40, 1500)
                );
            }
            let classes = classes.join(", ");
            if link == 0 {
                let _ = write!(text, "class = [{classes}]\n\n[link]\nrate = \"{PATH_LINK:.0}bit\"\nmtu = \"1500B\"\n");
            } else {
                let _ = write!(
                    peers,
                    "\n[[peer]]\nname = \"l{link}\"\nlink = {{ rate = \"{PATH_LINK:.0}bit\", mtu = \"1500B\" }}\nclass = [{classes}]\n"
                );
            }
        }
        let hops = (1..links).map(|link| format!("\"l{link}:path\"")).collect::<Vec<_>>().join(", ");
        let model = if dice.one_in(2) {
            "model = \"greedy\"".to_owned()
        } else {
            format!("model = \"poisson\"\nrate = \"{}bit\"", rate * 2)
        };
        let _ = write!(
            peers,
            "\n[[source]]\nclass = \"path\"\nroute = [{hops}]\n{model}\npacket = {{ uniform = [\"40B\", \"{longest}B\"] }}\n\
             shape = [{{ burst = \"{sigma}B\", rate = \"{rate}bit\" }}, {{ line = \"{PATH_LINK:.0}bit\" }}]\n"
        );
        Self { workload: Workload::new("path.toml", text + &peers + &sources), links, sigma, rate, longest }
    }

    /// The bound of PGPS over all links: sigma / g + (K - 1) L_i / g + K L_max / r, in seconds.
    fn bound(&self) -> f64 {
        let own = self.sigma as f64 + (self.links - 1) as f64 * self.longest as f64;
        own * 8.0 / self.rate as f64 + self.links as f64 * 1500.0 * 8.0 / PATH_LINK
    }
}

/// Tests FQ-SDS over several links.
pub(super) fn path(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const SCHEDULERS: [&str; 4] = ["fq-ldf", "fq-lto", "fq-lto-lb", "wfq"];
    let cases = lab.by_effort(60, 1000);
    let mut table = Table::new(
        "A session within (sigma, g) over 2 to 5 links: its longest delay as a part of what PGPS promises",
        &["scheduler", "cases", "exceeded", "largest part", "mean part"],
    );
    let mut rows = Vec::new();
    for scheduler in SCHEDULERS {
        let (mut exceeded, mut most, mut sum, mut carried) = (0usize, 0.0f64, 0.0, 0u64);
        for case in 0..cases {
            lab.go_on()?;
            let path = Path::random(&mut SeededRng::new(17, case));
            for run in lab.watched(&path.workload, &[scheduler], 1, &Options::default(), None)? {
                let route = run.routes.first().ok_or_else(|| ClaimError::other("no route"))?;
                carried += route.received_packets;
                let part = route.delay_s.max.unwrap_or(0.0) / path.bound();
                exceeded += usize::from(part > 1.0 + 1e-6);
                most = most.max(part);
                sum += part / cases as f64;
            }
        }
        table.row([
            scheduler.to_owned(),
            cases.to_string(),
            exceeded.to_string(),
            format!("{most:.3}"),
            format!("{sum:.3}"),
        ]);
        rows.push(Row::never(
            format!("{scheduler}: cases in which the end-to-end bound of PGPS is exceeded, of {cases}"),
            exceeded,
        ));
        rows.push(Row::new(
            format!("{scheduler}: the largest part of it that was used"),
            Unit::Part,
            Expected::Between(0.3, 1.0),
            most,
        ));
        if carried == 0 {
            return Err(ClaimError::other("nothing came through"));
        }
    }
    let note = format!(
        "{cases} random paths of 2 to 5 links of 10 Mbit/s. A session of at most sigma + g t, which is its guarantee at each link, comes behind an access line as fast as a link; {LOCAL} local sessions at each link have the rest \
         and send without end, in bursts, on and off. The bound is that of PGPS with rate-proportional guarantees: sigma/g + (K - 1) L_i/g + K L_max/r for K links."
    );
    let example = Path::random(&mut SeededRng::new(17, 0));
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(example.workload.rerun("--scheduler fq-ldf --scheduler fq-lto --scheduler pgps")))
}

/// Leaky buckets of the sources behind a FIFO: bursts in packets and rate over the mean rate.
const BURST: u32 = 100;
const RATE: f64 = 1.1;
const FIFO_BUSY: f64 = 0.85;

fn shaped(seconds: f64) -> Workload {
    let mut sources = Sources::new(
        "32 exponential on-off sources, each behind a leaky bucket and an access line",
        LINK,
        CELL,
        seconds,
    );
    let mean = FIFO_BUSY * LINK / 32.0;
    for n in 0..32 {
        sources.voice(
            &format!("voice {n}"),
            "weight = 1\nbuffer = \"100000p\"",
            mean,
            Voice { peak_to_mean: 4.0, burst: 118.0 },
        );
        sources.shaped(&format!(
            "[{{ burst = \"{}B\", rate = \"{:.0}bit\" }}, {{ line = \"{:.0}bit\" }}]",
            BURST * CELL,
            RATE * mean,
            LINK / 4.0
        ));
    }
    sources.workload("fifo.toml")
}

/// Tests FIFO tails against the bound of GPS.
pub(super) fn fifo(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (seeds, seconds) = lab.by_effort((5, 3.0), (10, 60.0));
    let workload = shaped(seconds);
    // The bound of GPS for a connection with a 32nd of the link: it sends sigma at that rate.
    let bound = f64::from(BURST * CELL) * 8.0 / (LINK / 32.0);
    let mut table = Table::new(
        "Delays as parts of the bound of GPS, mean of the connections",
        &["scheduler", "mean", "99th percentile", "longest"],
    );
    let mut parts = Vec::new();
    for (words, scheduler) in [("FIFO", "fifo"), ("PGPS", "wfq"), ("FQ-LDF", "fq-ldf")] {
        let played = Compared::play(lab, &workload, &[scheduler], seeds)?;
        let of = |value: fn(&Run, &str) -> Option<f64>| -> Result<Value, ClaimError> {
            Ok(Value::from(played.mean(0, |run| value(run, ""))?).map(|delay| delay / bound))
        };
        let all = [of(mean_delay)?, of(p99)?, of(super::sources::max_delay)?];
        let mut cells = vec![words.to_owned()];
        cells.extend(all.map(|part| human::percent(part.mean)));
        table.row(cells);
        parts.push(all);
    }
    let lossless = Compared::play(lab, &workload, &["fifo"], seeds)?.mean(0, lost)?.mean;
    let rows = vec![
        Row::new("mean delay under FIFO as a part of the bound of GPS", Unit::Part, Expected::AtMost(1.0 / MUCH), parts[0][0]),
        Row::new("99th percentile under FIFO as a part of the bound of GPS", Unit::Part, Expected::AtMost(1.0 / MUCH), parts[0][1]),
        Row::new("longest delay under PGPS as a part of its bound", Unit::Part, Expected::AtMost(1.0), parts[1][2])
            .judging("However, to guarantee worst case delay bounds the scheduler merely needs to isolate flows so that each flow receives its guaranteed share of the link bandwidth [1], [19]."),
        Row::shown("longest delay under FIFO as a part of the bound of GPS", Unit::Part, parts[0][2]),
        Row::never("packets lost", usize::from(lossless > 0.0)),
    ];
    let note = format!(
        "32 exponential on-off sources of four times their mean rate while on, each behind a leaky bucket of {BURST} packets and {RATE} of its mean rate and an access line of a quarter of the link, at a utilisation of {FIFO_BUSY}. GPS promises \
         {}: sigma over a 32nd of the link. The text cites others and gives no numbers. {seeds} runs of {seconds} s.",
        human::time(bound)
    );
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler fifo --scheduler pgps --scheduler fq-ldf --runs 5")))
}

/// A link on which the guarantees of the mixture fit, and the burst of data, in packets.
const MIXED_LINK: f64 = 110e6;
const DATA_BURST: u32 = 2000;
const EACH: u32 = 8;

/// Makes the four kinds of Figure 4, each behind a leaky bucket of its guarantee: data is guaranteed more than its
/// mean.
fn bounded(seconds: f64) -> (Workload, Vec<(&'static str, f64, u32)>) {
    let mut sources = Sources::new(
        "8 sources each of voice, video, CBR and data, all behind leaky buckets of their guarantees",
        MIXED_LINK,
        CELL,
        seconds,
    );
    let kinds = vec![
        ("voice", MIXED_LINK / 32.0, 1200),
        ("video", 2.0 * VIDEO, 6000),
        ("CBR", MIXED_LINK / 32.0, 5),
        ("data", 1.15 * data_rate(MIXED_LINK), DATA_BURST),
    ];
    for &(kind, guarantee, burst) in &kinds {
        for n in 0..EACH {
            let (name, keys) =
                (format!("{kind} {n}"), format!("guarantee = \"{guarantee:.0}bit\"\nbuffer = \"{burst}p\""));
            match kind {
                "voice" => sources.voice(&name, &keys, 0.97 * guarantee, VOICE),
                "video" => sources.video(&name, &keys),
                "CBR" => sources.cbr(&name, &keys, guarantee),
                _ => sources.data(&name, &keys),
            }
            sources.shaped(&format!("{{ burst = \"{}B\", rate = \"{guarantee:.0}bit\" }}", burst * CELL));
        }
    }
    (sources.workload("bounded.toml"), kinds)
}

/// Tests worst case bounds among kinds.
pub(super) fn bounds(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (seeds, seconds) = lab.by_effort((4, 5.0), (10, 60.0));
    let (workload, kinds) = bounded(seconds);
    let mut rows = Vec::new();
    let mut table = Table::new(
        "Longest delay of any connection over its bound sigma/g + L_i/g + L_max/r",
        &["scheduler", "voice", "video", "CBR", "data"],
    );
    for scheduler in ["fq-lto", "fq-ldf", "wfq"] {
        let played = Compared::play(lab, &workload, &[scheduler], seeds)?;
        let mut cells = vec![scheduler.to_owned()];
        for &(kind, guarantee, burst) in &kinds {
            let bound = f64::from((burst + 1) * CELL) * 8.0 / guarantee + f64::from(CELL) * 8.0 / MIXED_LINK;
            let longest = played
                .of(0)
                .flat_map(|run| of_kind(run, kind))
                .filter_map(|class| class.delay().max)
                .fold(0.0, f64::max);
            cells.push(format!("{:.3}", longest / bound));
            if scheduler == "fq-lto" {
                rows.push(Row::new(
                    format!("{kind}: longest delay over its bound"),
                    Unit::Part,
                    Expected::AtMost(1.0),
                    longest / bound,
                ));
            }
        }
        table.row(cells);
        if scheduler == "fq-lto" {
            let dropped: u64 =
                played.of(0).flat_map(|run| &run.classes).map(|class| class.counts().dropped.packets).sum();
            rows.push(Row::never("packets of all kinds lost", dropped as usize).judging("Note that if data traffic losses must be prevented, this can be done by giving those connections an appropriate weight."));
        }
    }
    let note = format!(
        "The mixture of Figure 4 on 110 Mbit/s, where the guarantees fit, with data guaranteed 1.15 of its mean, which is the appropriate rate that the sentence asks for, and each source behind a leaky bucket of its guarantee; buffers hold a burst: 1200, 6000, 5 \
         and {DATA_BURST} packets. {seeds} runs of {seconds} s."
    );
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler fq-lto --scheduler fq-ldf --scheduler pgps --runs 4")))
}

/// Length of the recorded video in seconds, and the delay in seconds of each of the 28 connections after the previous
/// one.
const RECORDED: u64 = 300;
const LATER: u64 = 10;
/// The file of the recording.
const RECORDING: &str = "video.csv";

/// Makes one source of video, whose packets are recorded.
fn recorder() -> Workload {
    let mut sources = Sources::new(
        "Video to be recorded: fairlink sim record.toml --trace video.csv",
        100e6,
        VIDEO_PACKET,
        RECORDED as f64,
    );
    sources.video("video", "buffer = \"100000p\"");
    sources.workload("record.toml")
}

/// Returns the recording as the lines of a trace file.
fn recording() -> Result<String, ClaimError> {
    let scenario = recorder().read("fifo")?;
    let spec = scenario.sources.first().ok_or_else(|| ClaimError::other("no source"))?;
    let mut text = "arrival_s,bytes,class\n".to_owned();
    for packet in Source::new(spec, scenario.seed, 0, scenario.duration).map_err(ClaimError::other)? {
        let Nanos(at) = packet.at;
        let _ = writeln!(text, "{}.{:09},{},video", at / 1_000_000_000, at % 1_000_000_000, packet.len);
    }
    Ok(text)
}

/// Makes 28 connections that play the recording `video.csv`, each from another place of it.
fn replay(recording: &Arc<str>, buffer: &str, rate: f64, seconds: u64) -> Workload {
    let comment = "28 connections that play one recording, each later than the one before";
    let mut sources = Sources::new(comment, rate, VIDEO_PACKET, seconds as f64);
    for n in 0..28u64 {
        let start = n * LATER;
        sources.recorded(
            &format!("video {n}"),
            &format!("weight = 1\nbuffer = \"{buffer}\""),
            RECORDING,
            start,
            seconds,
        );
    }
    sources.workload("trace.toml").beside(RECORDING, recording)
}

/// Tests trace-driven simulation.
pub(super) fn trace(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const LESS: &str = "The LDF policy uses excess bandwidth to reduce the variance of the delay distribution. This has the benefit of reducing the playout buffer for voice and video sources. Simulations with video traces and with voice traffic show that indeed this policy performs better than PGPS without any sacrifice of worst case guarantees.";
    let text = recording()?;
    let (packets, bytes) = (text.lines().count() - 1, VIDEO_PACKET);
    let mean = packets as f64 * f64::from(bytes) * 8.0 / RECORDED as f64;
    let text = Arc::from(text);
    let link = 28.0 * mean / 0.95;
    let seconds = RECORDED * lab.by_effort(2, 6);
    let large = replay(&text, "1000000p", link, seconds);
    let played = Compared::play(lab, &large, &PAIR, 1)?;
    let exceeded = |n: usize, part: f64| played.delays(n, "").quantile(1.0 - part).unwrap_or(f64::NAN);
    let spread = |n: usize| {
        let all: Vec<f64> =
            played.of(n).flat_map(|run| of_kind(run, "")).filter_map(|class| class.delay().p99).collect();
        all.iter().copied().fold(0.0, f64::max)
    };
    let mut rows = Vec::new();
    let mut table = Table::new(
        "Delay of all packets of 28 connections, and loss with short buffers",
        &["", "PGPS", "FQ-LDF", "ratio"],
    );
    for part in [1e-2, 1e-3, 1e-4] {
        let [pgps, ldf] = [exceeded(0, part), exceeded(1, part)];
        table.row([
            format!("delay exceeded by {part:e}"),
            human::time(pgps),
            human::time(ldf),
            format!("{:.2}", ldf / pgps),
        ]);
        rows.push(
            Row::new(
                format!("delay exceeded by {part:e} of the packets: FQ-LDF over PGPS"),
                Unit::Part,
                Expected::AtMost(1.0),
                ldf / pgps,
            )
            .judging(LESS),
        );
    }
    rows.push(
        Row::new(
            "largest of the connections' 99th percentiles: FQ-LDF over PGPS",
            Unit::Part,
            Expected::AtMost(1.0),
            spread(1) / spread(0),
        )
        .judging(LESS),
    );
    for buffer in [50u32, 100] {
        let short = replay(&text, &format!("{buffer}p"), link, seconds);
        let of = Compared::play(lab, &short, &PAIR, 1)?;
        let [pgps, ldf] = [of.mean(0, lost)?.mean, of.mean(1, lost)?.mean];
        table.row([
            format!("lost with {buffer} packets"),
            format!("{pgps:.2e}"),
            format!("{ldf:.2e}"),
            format!("{:.2}", ldf / pgps),
        ]);
        rows.push(
            Row::new(format!("loss with {buffer} packets: FQ-LDF over PGPS"), Unit::Part, Expected::AtMost(1.0), ldf / pgps)
                .judging("We find similar results of lower loss rates for FQ-LDF with video sources as well. [with a recording in place of sources]"),
        );
    }
    let note = format!(
        "The text's traces are lost. Ours is a recording of {RECORDED} s of one DAR(1) source of {FRAMES} frames/s ({packets} packets), made by this project's generator with its seed and the same each time. 28 connections play it again and \
         again, each {LATER} s later than the one before, for {seconds} s at a utilisation of 0.95. Alone: the first command makes the recording, the second plays it."
    );
    let again = replay(&text, "1000000p", link, seconds);
    let command = "sim record.toml --trace video.csv";
    let record = Rerun { file: "record.toml".to_owned(), text: recorder().text, command: command.to_owned() };
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(record)
        .with_rerun(again.rerun("--scheduler pgps --scheduler fq-ldf")))
}
