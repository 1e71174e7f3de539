//! Purposes of the policies: longest queue first as the baseline, kinds with very different limits of delay, known
//! leaky buckets, and policing.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_sim::statistics::Estimate;
use fairlink_sim::{Distribution, Fate, Observer, PacketSeen, Run};

use super::losses::{BUSY, VOICE, voices};
use super::sources::{CELL, Compared, LINK, OPTIONS, Sources, VIDEO, Voice, lost, of_kind};
use crate::claims::words::{MUCH, SIGNIFICANTLY, VERY};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};
use fairlink_figures::human;

/// Returns the part of the packets of a kind that was dropped.
fn lost_of(run: &Run, kind: &str) -> Option<f64> {
    let sum = |of: fn(&fairlink_report::ClassReport) -> u64| of_kind(run, kind).map(of).sum::<u64>() as f64;
    Some(sum(|class| class.counts().dropped.packets) / sum(|class| class.counts().received.packets).max(1.0))
}

/// The most bytes that any class has queued at a time.
struct Longest {
    queued: Vec<u64>,
    most: u64,
    found: Arc<Mutex<u64>>,
}

impl Observer for Longest {
    fn came(&mut self, packet: &PacketSeen) {
        let class = packet.class.index();
        if self.queued.len() <= class {
            self.queued.resize(class + 1, 0);
        }
        self.queued[class] += u64::from(packet.len);
        self.most = self.most.max(self.queued[class]);
    }

    fn went(&mut self, packet: &PacketSeen, _: Fate) {
        self.queued[packet.class.index()] -= u64::from(packet.len);
    }
}

impl Drop for Longest {
    fn drop(&mut self) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        *found = self.most.max(*found);
    }
}

/// Returns the longest queue of any class in runs without losses, in packets.
fn longest_queue(lab: &Lab<'_>, workload: &Workload, scheduler: &str, seeds: u64) -> Result<f64, ClaimError> {
    let found = Arc::new(Mutex::new(0));
    let observer =
        || -> Box<dyn Observer> { Box::new(Longest { queued: Vec::new(), most: 0, found: Arc::clone(&found) }) };
    lab.watched(workload, &[scheduler], seeds, &OPTIONS, Some(&observer))?;
    let most = *found.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(most as f64 / f64::from(CELL))
}

/// Rate of a CBR source beside bursty ones, in bit/s.
const SLOW: f64 = 64e3;

/// Makes 31 voice sources and a slow CBR source within its guarantee.
fn beside_slow(seconds: f64) -> Workload {
    let mut sources = Sources::new("31 bursty sources, and a slow CBR source with a guarantee", LINK, CELL, seconds);
    sources.cbr("slow", &format!("guarantee = \"{:.0}bit\"\nbuffer = \"5p\"", 2.0 * SLOW), SLOW);
    let guarantee = (LINK - 2.0 * SLOW) / 31.0 - 1.0;
    for n in 0..31 {
        let keys = format!("guarantee = \"{guarantee:.0}bit\"\nbuffer = \"150p\"");
        sources.voice(&format!("voice {n}"), &keys, BUSY * LINK / 32.0, VOICE);
    }
    sources.workload("slow.toml")
}

/// Tests longest queue first.
pub(super) fn lqf(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const STARVE: &str = "However, such disciplines by themselves cannot provide any bandwidth guarantees. Actually, low bandwidth constant bit rate connections are likely to starve for long intervals of time …";
    const SPACE: &str = "Furthermore, a policy that simply serves the longest queue has been shown to require less buffer space to prevent buffer losses than FIFO or other per-flow disciplines [6], [13].";
    const OTHERS: [&str; 6] = ["fifo", "drr", "scfq", "wfq", "fq-ldf", "fq-lto"];
    let (seeds, seconds) = lab.by_effort((3, 2.0), (10, 30.0));
    let mut rows = Vec::new();
    let mut table = Table::new(
        "Loss with equal buffers, and the longest queue where nothing is lost",
        &["scheduler", "75 packets", "150 packets", "longest queue, packets"],
    );
    let short = [75, 150].map(|buffer| voices(VOICE, &format!("{buffer}p"), seconds));
    let large = voices(VOICE, "1000000p", seconds);
    let own_queue = longest_queue(lab, &large, "lqf", seeds)?;
    let mut cells = vec!["lqf".to_owned()];
    for workload in &short {
        cells.push(format!("{:.2e}", Compared::play(lab, workload, &["lqf"], seeds)?.mean(0, lost)?.mean));
    }
    cells.push(human::digits(own_queue));
    table.row(cells);
    let mut most_space = 0.0f64;
    for other in OTHERS {
        let mut cells = vec![other.to_owned()];
        for (workload, buffer) in short.iter().zip([75, 150]) {
            let played = Compared::play(lab, workload, &[other, "lqf"], seeds)?;
            cells.push(format!("{:.2e}", played.mean(0, lost)?.mean));
            let worse =
                played.each(0, lost).iter().zip(played.each(1, lost)).filter(|(other, own)| own > other).count();
            rows.push(Row::never(format!("{buffer} packets: runs in which lqf loses more than {other}"), worse));
        }
        let queue = longest_queue(lab, &large, other, seeds)?;
        most_space = most_space.max(own_queue / queue);
        cells.push(human::digits(queue));
        table.row(cells);
    }
    rows.push(
        Row::new(
            "longest queue of any class, lqf over the least of the others",
            Unit::Part,
            Expected::AtMost(1.0),
            most_space,
        )
        .judging(SPACE),
    );
    let slow = beside_slow(seconds);
    let waits = |run: &Run| of_kind(run, "slow").next().and_then(|class| class.delay().max);
    let played = Compared::play(lab, &slow, &["lqf", "wfq"], seeds)?;
    let guarded = Compared::play(lab, &slow, &["fq-ldf"], seeds)?;
    let starved = played.mean(0, waits)?;
    // A run with one long burst would outweigh all others: ratios are averaged as logarithms.
    let over_pgps = |which: &Compared| -> Result<Value, ClaimError> {
        let logarithms = |runs: &Compared, n| runs.each(n, |run| waits(run).map(f64::ln));
        let ratio = Estimate::of_differences(&logarithms(which, 0), &logarithms(&played, 1));
        Ok(Value::from(ratio.ok_or_else(|| ClaimError::other("no run has a value"))?).map(f64::exp))
    };
    rows.push(
        Row::new(
            "slow CBR source within its guarantee: longest delay under lqf over that under PGPS, geometric mean of the runs",
            Unit::Times,
            Expected::AtLeast(10.0),
            over_pgps(&played)?,
        )
        .judging(STARVE),
    );
    rows.push(
        Row::new("the same, under FQ-LDF", Unit::Times, Expected::AtMost(2.0), over_pgps(&guarded)?)
            .judging("We propose three modified fair queueing schemes that adaptively redistribute excess bandwidth while, like fair queueing, guaranteeing each flow its specified share of the link bandwidth."),
    );
    rows.push(Row::shown("longest delay of the slow source under lqf", Unit::Seconds, starved));
    let note = format!(
        "`lqf` serves the leaf with most bytes queued and knows no guarantees. The sources of Table I with equal buffers of 75 and 150 packets, {seeds} runs of {seconds} s on the same arrivals; with buffers that lose nothing \
         the longest queue is the space that would have been needed. The slow source sends 64 kbit/s, two packets at a time, with 128 kbit/s guaranteed and a buffer of 5 packets, beside 31 \
         of Table I's sources. The text cites others for both results and gives no numbers."
    );
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(slow.rerun("--scheduler lqf --scheduler pgps --scheduler fq-ldf --runs 5"))
        .with_rerun(short[0].rerun("--scheduler lqf --scheduler fifo --scheduler pgps --scheduler fq-ldf --runs 5")))
}

/// The link of the mixtures without data in bit/s, and sources of each kind.
const MIX_LINK: f64 = 40e6;
const EACH: u32 = 8;
/// Kinds, the one with the smallest limit of delay first.
const KINDS: [&str; 3] = ["CBR", "voice", "video"];

/// CBR, voice and video with limits of delay that are far apart.
#[derive(Clone, Copy)]
struct Mix {
    /// Used part of the link.
    busy: f64,
    /// Guarantees of the kinds as parts of their mean rates.
    assigned: [f64; 3],
    /// Buffers of the kinds in packets.
    buffers: [u32; 3],
}

/// Video has a guarantee above its mean, as in Figure 4, and the others slightly less, so that they may lose as well.
const UNEVEN: Mix = Mix { busy: 0.85, assigned: [0.9, 0.9, 1.5], buffers: [5, 150, 1000] };
/// The same with buffers that hardly lose anything.
const LARGE: Mix = Mix { buffers: [50, 1200, 12_000], ..UNEVEN };
/// The guarantees are slightly too small and the link is congested for long.
const CONGESTED: Mix = Mix { busy: 0.97, assigned: [0.95; 3], buffers: [5, 150, 3000] };

impl Mix {
    /// Returns the mean rates of the kinds in bit/s.
    fn means(self) -> [f64; 3] {
        let voice = MIX_LINK / 32.0;
        [self.busy * MIX_LINK / f64::from(EACH) - voice - VIDEO, voice, VIDEO]
    }

    fn workload(self, seconds: f64) -> Workload {
        let comment = "8 sources each of CBR, voice and video, with limits of delay from a millisecond on";
        let mut sources = Sources::new(comment, MIX_LINK, CELL, seconds);
        for (at, kind) in KINDS.into_iter().enumerate() {
            let (buffer, mean) = (self.buffers[at], self.means()[at]);
            for n in 0..EACH {
                let keys = format!("guarantee = \"{:.0}bit\"\nbuffer = \"{buffer}p\"", self.assigned[at] * mean);
                let name = format!("{kind} {n}");
                match kind {
                    "CBR" => sources.cbr(&name, &keys, mean),
                    "voice" => sources.voice(&name, &keys, mean, VOICE),
                    _ => sources.video(&name, &keys),
                }
            }
        }
        sources.workload("mix.toml")
    }

    fn described(self, seeds: u64, seconds: f64) -> String {
        let drain =
            |at: usize| human::time(f64::from(self.buffers[at] * CELL) * 8.0 / (self.assigned[at] * self.means()[at]));
        let limits = [drain(0), drain(1), drain(2)];
        let Mix { busy, assigned, buffers: [cbr, voice, video] } = self;
        format!(
            "8 sources each of CBR, voice and video on {:.0} Mbit/s, {busy} of which they use, with guarantees of {assigned:?} of their mean rates. Buffers of {cbr}, {voice} and {video} cells make D_i {}. The text \
             gives no numbers of this mixture. {seeds} runs of {seconds} s on the same arrivals.",
            MIX_LINK / 1e6,
            limits.join(", ")
        )
    }
}

/// Returns the standard deviation of delays in seconds.
fn deviation(delays: &Distribution) -> f64 {
    let (mut before, mut sum, mut squares) = (0, 0.0, 0.0);
    for &(delay, count) in delays.points() {
        let more = (count - before) as f64;
        before = count;
        sum += more * delay;
        squares += more * delay * delay;
    }
    let all = (before as f64).max(1.0);
    (squares / all - (sum / all).powi(2)).max(0.0).sqrt()
}

/// Losses and deviations of each kind under all that are compared.
fn mix_table(lab: &Lab<'_>, workload: &Workload, seeds: u64) -> Result<Table, ClaimError> {
    let mut table = Table::new(
        "By kind: part of the packets lost, and standard deviation of the delay",
        &["scheduler", "CBR: lost", "deviation", "voice: lost", "deviation", "video: lost", "deviation"],
    );
    for (words, scheduler) in [("PGPS", "wfq"), ("FQ-LDF", "fq-ldf"), ("FQ-LTO", "fq-lto"), ("lqf", "lqf")] {
        let played = Compared::play(lab, workload, &[scheduler], seeds)?;
        let mut cells = vec![words.to_owned()];
        for kind in KINDS {
            cells.push(format!("{:.1e}", played.mean(0, |run| lost_of(run, kind))?.mean));
            cells.push(human::time(deviation(&played.delays(0, kind))));
        }
        table.row(cells);
    }
    Ok(table)
}

/// Tests FQ-LTO on kinds with very different limits.
pub(super) fn lto(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (seeds, seconds) = lab.by_effort((8, 20.0), (20, 60.0));
    let workload = UNEVEN.workload(seconds);
    // FQ-LDF does not know how different the limits are.
    let played = Compared::play(lab, &workload, &["wfq", "fq-lto", "fq-ldf"], seeds)?;
    let calm = Compared::play(lab, &LARGE.workload(seconds), &["wfq", "fq-lto"], seeds)?;
    let mut rows = Vec::new();
    for kind in KINDS {
        let row = Row::new(
            format!("{kind}: loss under PGPS less that under FQ-LTO"),
            Unit::Part,
            Expected::AtLeast(0.0),
            played.gain(|run| lost_of(run, kind))?,
        );
        rows.push(if kind == "CBR" {
            row.departing(
                -2e-3,
                0.0,
                "CBR loses nothing under PGPS, and a few packets of a hundred thousand under FQ-LTO: with a buffer of five packets it is a millisecond from its limit, and a queue of voice \
                 or video that is closer to its own is served first.",
            )
        } else {
            row.or_weaker(-2e-3, 0.0, "Not less beyond the interval of these runs: losses come in a few long scenes.")
        });
    }
    for kind in KINDS {
        rows.push(Row::new(
            format!("{kind}: standard deviation of the delay, FQ-LTO over PGPS, larger buffers"),
            Unit::Part,
            Expected::AtMost(1.0),
            calm.estimate(|runs| Ok(deviation(&runs.delays(1, kind)) / deviation(&runs.delays(0, kind))))?,
        ));
    }
    rows.push(
        Row::new("all kinds: loss under PGPS less that under FQ-LTO", Unit::Part, Expected::AtLeast(0.0), played.gain(lost)?)
            .or_weaker(-2e-3, 0.0, "Not less beyond the interval of these runs.")
            .judging("The LTO policy tries to minimize packet losses by assigning excess bandwidth under the assumption that the flow which is likely to overflow the quickest has the most instantaneous bandwidth need."),
    );
    rows.push(
        Row::new(
            "all kinds: loss under FQ-LDF less that under FQ-LTO",
            Unit::Part,
            Expected::AtLeast(0.0),
            played.difference([2, 1], lost)?,
        )
        .judging("An enhancement to FQ-LDF is to explicitly take into account the different delay requirements that applications may have."),
    );
    let table = mix_table(lab, &workload, seeds)?;
    Ok(Finding::new(UNEVEN.described(seeds, seconds), rows)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler pgps --scheduler fq-lto --runs 5")))
}

/// Tests FQ-LDF on the same.
pub(super) fn ldf(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const MENDS: &str =
        "In doing so, it takes into account the current deviation of each flow from its maximum allowed delay. [LTO]";
    const ALMOST: &str = "Since the deviation from the maximum allowed delay is not taken into account, flows with small delay bounds (like voice) get almost no excess bandwidth in the presence of flows with large delay bounds.";
    let (seeds, seconds) = lab.by_effort((8, 20.0), (20, 60.0));
    let workload = CONGESTED.workload(seconds);
    let played = Compared::play(lab, &workload, &["fq-ldf", "fq-lto"], seeds)?;
    let times = |n: usize, kind: &str| {
        played.estimate(|runs| {
            Ok(runs.mean(n, |run| lost_of(run, kind))?.mean / runs.mean(n, |run| lost_of(run, "video"))?.mean)
        })
    };
    let [cbr, voice, _] = CONGESTED.means();
    let assigned = CONGESTED.assigned[0];
    // Service of a kind beyond its guarantees, as a part of its need beyond them.
    let beyond = |n: usize, kind: &str, mean: f64| {
        let rate = move |run: &Run| {
            let guaranteed = f64::from(EACH) * assigned * mean;
            let rate: f64 = of_kind(run, kind).map(|class| class.rates.rate()).sum();
            Some((rate - guaranteed) / (f64::from(EACH) * (1.0 - assigned) * mean))
        };
        played.mean(n, rate)
    };
    let rows = vec![
        Row::new("CBR: loss under FQ-LDF over that of video", Unit::Times, Expected::AtLeast(MUCH), times(0, "CBR")?),
        Row::new(
            "voice: loss under FQ-LDF over that of video",
            Unit::Times,
            Expected::AtLeast(MUCH),
            times(0, "voice")?,
        ),
        Row::new(
            "CBR: part of what it needs beyond its guarantee that it gets under FQ-LDF",
            Unit::Part,
            Expected::AtMost(1.0 / VERY),
            beyond(0, "CBR", cbr)?,
        )
        .judging(ALMOST)
        .or_weaker(
            1.0 / VERY,
            1.0,
            "Less than it needs, and more than almost nothing: while no other queue is long, it gets what there is.",
        ),
        Row::shown("the same, under FQ-LTO", Unit::Part, beyond(1, "CBR", cbr)?),
        Row::shown(
            "voice: part of what it needs beyond its guarantee that it gets under FQ-LDF",
            Unit::Part,
            beyond(0, "voice", voice)?,
        ),
        Row::new(
            "CBR: loss under FQ-LTO over that under FQ-LDF",
            Unit::Part,
            Expected::AtMost(0.5),
            played.ratio(|run| lost_of(run, "CBR"))?,
        )
        .judging(MENDS),
        Row::new(
            "voice: loss under FQ-LTO over that under FQ-LDF",
            Unit::Part,
            Expected::AtMost(0.5),
            played.ratio(|run| lost_of(run, "voice"))?,
        )
        .judging(MENDS),
    ];
    let table = mix_table(lab, &workload, seeds)?;
    Ok(Finding::new(CONGESTED.described(seeds, seconds), rows)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler fq-ldf --scheduler fq-lto --runs 5")))
}

/// Sources of leaky buckets: rates while on over the mean of the calm and of the wild ones, and their buffers in packets.
const PEAKS: [f64; 2] = [1.5, 8.0];
const BUCKET_BUFFER: u32 = 100;

/// Sources behind leaky buckets that the scheduler knows: half of them may send fast, the others hardly faster than
/// their mean.
fn buckets(seconds: f64) -> Workload {
    let mut sources =
        Sources::new("32 sources behind two leaky buckets each, which the scheduler knows", LINK, CELL, seconds);
    let mean = BUSY * LINK / 32.0;
    for n in 0..32u32 {
        let peak = PEAKS[n as usize % 2];
        // Two buckets: one for the peak rate, and one for the long run.
        let burst = 300 * CELL;
        let (fast, slow) = (peak * mean, 1.02 * mean);
        let keys = format!(
            "weight = 1\nbuffer = \"{BUCKET_BUFFER}p\"\nleaky_bucket = [{{ burst = \"{CELL}B\", peak = \"{fast:.0}bit\", rate = \"{fast:.0}bit\" }}, \
             {{ burst = \"{burst}B\", peak = \"{fast:.0}bit\", rate = \"{slow:.0}bit\" }}]"
        );
        sources.voice(&format!("voice {n}"), &keys, mean, Voice { peak_to_mean: peak, burst: 118.0 });
        sources.shaped(&format!(
            "[{{ burst = \"{CELL}B\", rate = \"{fast:.0}bit\" }}, {{ burst = \"{burst}B\", rate = \"{slow:.0}bit\" }}]"
        ));
    }
    sources.workload("buckets.toml")
}

/// Tests FQ-LTO.LB.
pub(super) fn lb(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const SIGNIFICANT: &str = "Note, that since the system is only distributing the instantaneous available bandwidth in a state dependent manner …, such an approach may lead to significant improvements in maximum delays or packet losses.";
    let (seeds, seconds) = lab.by_effort((5, 3.0), (20, 60.0));
    let workload = buckets(seconds);
    let played = Compared::play(lab, &workload, &["wfq", "fq-lto-lb"], seeds)?;
    let mut table = Table::new(
        "Loss of sources behind leaky buckets",
        &["scheduler", "all", "99th percentile of the delay", "longest delay"],
    );
    for (words, scheduler) in
        [("PGPS", "wfq"), ("FQ-LDF", "fq-ldf"), ("FQ-LTO", "fq-lto"), ("FQ-LTO.LB", "fq-lto-lb"), ("lqf", "lqf")]
    {
        let of = Compared::play(lab, &workload, &[scheduler], seeds)?;
        table.row([
            words.to_owned(),
            format!("{:.2e}", of.mean(0, lost)?.mean),
            human::time(of.mean(0, |run| super::sources::p99(run, ""))?.mean),
            human::time(of.mean(0, |run| super::sources::max_delay(run, ""))?.mean),
        ]);
    }
    let plain = Compared::play(lab, &workload, &["fq-lto", "fq-lto-lb"], seeds)?;
    let rows = vec![
        Row::new(
            "loss under FQ-LTO.LB over that under PGPS",
            Unit::Part,
            Expected::AtMost(1.0 / SIGNIFICANTLY),
            played.ratio(lost)?,
        )
        .judging(SIGNIFICANT),
        Row::new("loss under PGPS less that under FQ-LTO.LB", Unit::Part, Expected::AtLeast(0.0), played.gain(lost)?)
            .judging(SIGNIFICANT),
        Row::new("loss under FQ-LTO.LB over that under FQ-LTO", Unit::Part, Expected::AtMost(1.0), plain.ratio(lost)?),
    ];
    let note = format!(
        "32 sources of equal weights and buffers of {BUCKET_BUFFER} packets at a utilisation of {BUSY}, each behind two leaky buckets: its peak, {} or {} times its mean, and 300 packets at 1.02 times the mean. FQ-LTO.LB is told both (B_i is the \
         least of them). The text has no simulation of this policy; its sentence says \"may\". {seeds} runs of {seconds} s on the same arrivals.",
        PEAKS[0], PEAKS[1]
    );
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler pgps --scheduler fq-lto --scheduler fq-lto-lb --runs 5 --lenient")))
}

/// Makes a source that sends four times its guarantee, with a policer of its guarantee before it or without, beside 15
/// voice sources.
fn policed(police: bool, seconds: f64) -> Workload {
    let mut sources =
        Sources::new("15 voice sources, and one that sends four times its guarantee", LINK, CELL, seconds);
    let guarantee = LINK / 16.0;
    // Two lengths of buffers, so that LTO is not LDF.
    for n in 0..15 {
        let keys = format!("weight = 1\nbuffer = \"{}p\"", [75, 225][n % 2]);
        sources.voice(&format!("voice {n}"), &keys, 0.8 * guarantee, VOICE);
    }
    sources.cbr("greedy", "weight = 1\nbuffer = \"150p\"", 4.0 * guarantee);
    if police {
        sources.policed(&format!("{{ burst = \"{}B\", rate = \"{guarantee:.0}bit\" }}", 10 * CELL));
    }
    sources.workload("policed.toml")
}

/// Tests policing.
pub(super) fn police(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (seeds, seconds) = lab.by_effort((4, 3.0), (10, 30.0));
    let (with, without) = (policed(true, seconds), policed(false, seconds));
    let guarantee = LINK / 16.0;
    let rate = |run: &Run| of_kind(run, "greedy").next().map(|class| class.rates.rate() / guarantee);
    let waits = |run: &Run| super::sources::p99(run, "voice");
    let mut rows = Vec::new();
    let mut table = Table::new(
        "A source of four times its guarantee",
        &["scheduler", "its rate, policed", "not", "99th percentile of the others, policed", "not"],
    );
    for scheduler in ["fq-ldf", "fq-lto", "wfq"] {
        let [policed, free] = [&with, &without].map(|workload| Compared::play(lab, workload, &[scheduler], seeds));
        let (policed, free) = (policed?, free?);
        let [own, others] = [policed.mean(0, rate)?, policed.mean(0, waits)?];
        table.row([
            scheduler.to_owned(),
            format!("{:.2}", own.mean),
            format!("{:.2}", free.mean(0, rate)?.mean),
            human::time(others.mean),
            human::time(free.mean(0, waits)?.mean),
        ]);
        if scheduler == "wfq" {
            continue;
        }
        rows.push(Row::new(
            format!("{scheduler}: rate of the policed source over its guarantee"),
            Unit::Times,
            Expected::AtMost(1.01),
            own,
        ));
        rows.push(Row::new(
            format!("{scheduler}: 99th percentile of the delay of the others, policed over not"),
            Unit::Part,
            Expected::AtMost(0.5),
            policed.estimate(|runs| Ok(runs.mean(0, waits)?.mean / free.without(runs).mean(0, waits)?.mean))?,
        ));
        rows.push(
            Row::new(
                format!("{scheduler}: rate of the source without a policer over its guarantee"),
                Unit::Times,
                Expected::AtLeast(1.5),
                free.mean(0, rate)?,
            )
            .judging("An argument that can be made against the above adaptive policies, is that a greedy user will always receive more bandwidth."),
        );
    }
    let note = format!(
        "15 voice sources at 0.8 of their guarantees, and a CBR source that sends four times its own, behind a policer of its guarantee with a burst of ten packets, or without. {seeds} runs of {seconds} s on the same \
         arrivals. The text has no numbers of this."
    );
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(with.rerun("--scheduler fq-ldf --scheduler fq-lto --scheduler pgps --runs 4")))
}
