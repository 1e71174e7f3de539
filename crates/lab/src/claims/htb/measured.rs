//! The text's own set-ups and scripts as scenarios, and measurements of a run: rates and delays of flows between two
//! instants.

use fairlink_config::tc::{ImportOptions, import};
use fairlink_core::Rate;
use std::sync::Arc;

use fairlink_sim::Run;
use fairlink_sim::statistics::Estimate;

use crate::claims::{ClaimError, Lab, Value, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Event, Figure, Panel, Series, SeriesStyle};
use fairlink_figures::measure::OPTIONS;

/// The set-up for HTB on one device.
pub(super) const HTB: &str = include_str!("../../../../../scenarios/htb/htb.tc");
/// The same, with 1:3 raised.
pub(super) const HTB_PRIO: &str = include_str!("../../../../../scenarios/htb/htb-prio.tc");
/// The set-up for CBQ.
pub(super) const CBQ: &str = include_str!("../../../../../scenarios/htb/cbq.tc");
/// The same, with 1:3 raised.
pub(super) const CBQ_PRIO: &str = include_str!("../../../../../scenarios/htb/cbq-prio.tc");
/// The set-up of two devices and a slot.
pub(super) const SLOTS: &str = include_str!("../../../../../scenarios/htb/slots.tc");
/// The script for one device.
pub(super) const ONE_DEVICE: &str = include_str!("../../../../../scenarios/htb/one-device.script");
/// The script of 9.9.2001.
pub(super) const TWO_DEVICES: &str = include_str!("../../../../../scenarios/htb/two-devices.script");

/// Bit/s of a kilobyte per second, the unit of the text: tc writes it as `kbps`.
pub(super) const KB: f64 = 8e3;
/// The text's cards had 10 Mbit/s; its tc lines for HTB do not say it.
const CARD: u64 = 10_000_000;

/// Makes a scenario of these tc lines and this script, both unchanged.
pub(super) fn scenario(name: &str, tc: &str, script: &str) -> Result<Workload, ClaimError> {
    let rate = Some(Rate::from_bps(CARD).map_err(ClaimError::other)?);
    let link = import(name, tc, &ImportOptions { rate, device: None })?;
    let text = format!("{}\n[[source]]\nmodel = \"script\"\nscript = '''\n{script}'''\n", link.text);
    Ok(Workload::new(name, text).in_any_phase())
}

/// Runs of each scenario: each with phases of its own.
pub(super) fn play(lab: &Lab<'_>, workload: &Workload, scheduler: &str) -> Result<Arc<Vec<Run>>, ClaimError> {
    lab.play(workload, &[scheduler], lab.by_effort(20, 100), &OPTIONS)
}

/// Returns the mean of a quantity over runs, with its interval.
pub(super) fn mean(runs: &[Run], of: impl Fn(&Run) -> f64) -> Value {
    of_values(runs.iter().map(of))
}

/// Returns the mean of a value of each run, with its interval; NaN of none.
pub(super) fn of_values(values: impl Iterator<Item = f64>) -> Value {
    Estimate::from_values(&values.collect::<Vec<f64>>()).map_or(f64::NAN.into(), Value::from)
}

/// The same of a quantity of two runs with the same phases.
pub(super) fn of_pairs(one: &[Run], other: &[Run], of: impl Fn(&Run, &Run) -> f64) -> Value {
    of_values(one.iter().zip(other).map(|(one, other)| of(one, other)))
}

/// Returns the values of windows of a class between two instants in seconds, each with the packets that left in it.
fn windows<'r>(run: &'r Run, class: &str, (from, to): (f64, f64)) -> Option<impl Iterator<Item = Seen> + 'r> {
    let windows = run.windows.as_ref()?;
    let column = windows.names.iter().position(|name| name == class)?;
    let within = move |start: f64, end: f64| start >= from - 1e-9 && end <= to + 1e-9;
    let rows = windows.rows.iter().filter(move |row| within(row.start_s, row.end_s));
    Some(rows.map(move |row| {
        let leaf = row.leaves[column];
        let (packets, mean_s, max_s) = (f64::from(leaf.sent_packets), leaf.delay_mean_s, leaf.delay_max_s);
        Seen { seconds: row.end_s - row.start_s, bps: row.rates_bps[column], packets, mean_s, max_s }
    }))
}

struct Seen {
    seconds: f64,
    bps: f64,
    packets: f64,
    mean_s: Option<f64>,
    max_s: Option<f64>,
}

/// Returns the mean rate of a class between two instants, in bit/s.
pub(super) fn rate(run: &Run, class: &str, span: (f64, f64)) -> f64 {
    let Some(windows) = windows(run, class, span) else { return f64::NAN };
    let (bits, seconds) =
        windows.fold((0.0, 0.0), |(bits, seconds), seen| (bits + seen.bps * seen.seconds, seconds + seen.seconds));
    bits / seconds
}

/// Returns the mean and longest delay in seconds of a class's packets that left between two instants.
pub(super) fn delay(run: &Run, class: &str, span: (f64, f64)) -> (f64, f64) {
    let Some(windows) = windows(run, class, span) else { return (f64::NAN, f64::NAN) };
    let (mut sum, mut packets, mut max) = (0.0, 0.0, 0.0f64);
    for seen in windows {
        sum += seen.mean_s.unwrap_or(0.0) * seen.packets;
        packets += seen.packets;
        max = max.max(seen.max_s.unwrap_or(0.0));
    }
    (sum / packets, max)
}

/// Draws rate and delay of flows against time, with the script's `R` below the x axis, like the text's plots: a panel
/// of rates and one of delays for the first run of each kind.
pub(super) fn plot(
    title: &str,
    workload: &Workload,
    runs: &[(&str, &[Run])],
    flows: &[(&str, &str)],
) -> Result<Figure, ClaimError> {
    let scripts = workload.read("htb")?.scripts;
    let events = scripts.iter().flat_map(|script| &script.script.rates);
    let events: Vec<Event> = events.map(|rate| Event { x: rate.at.0 as f64 / 1e9, text: rate.to_string() }).collect();
    let mut panels = Vec::new();
    for (words, runs) in runs {
        let Some(run) = runs.first() else { continue };
        let Some(windows) = &run.windows else { continue };
        let x = || Axis::linear("time in s", 0.0, run.duration_s);
        let mut rates = Panel::new(format!("{words}: rate"), x(), Axis::linear("rate in kB/s", 0.0, 105.0)).high(200.0);
        let mut delays = Vec::new();
        let mut longest = 0.01f64;
        for (n, (class, flow)) in flows.iter().enumerate() {
            let Some(column) = windows.names.iter().position(|name| name == class) else { continue };
            let look = SeriesStyle::nth(n);
            let middle = |row: &fairlink_sim::Window| (row.start_s + row.end_s) / 2.0;
            let points = windows.rows.iter().map(|row| (middle(row), row.rates_bps[column] / KB));
            rates.series.push(Series::line(*flow, points.collect(), look));
            let of = |row: &fairlink_sim::Window| row.leaves[column].delay_mean_s.map_or(f64::NAN, |delay| delay * 1e3);
            let points: Vec<(f64, f64)> = windows.rows.iter().map(|row| (middle(row), of(row))).collect();
            longest = points.iter().map(|point| point.1).filter(|delay| delay.is_finite()).fold(longest, f64::max);
            delays.push(Series::line(*flow, points, look));
        }
        let mut panel =
            Panel::new(format!("{words}: delay"), x(), Axis::linear("delay in ms", 0.0, longest * 1.1)).high(150.0);
        panel.series = delays;
        panel.events.clone_from(&events);
        panels.extend([rates, panel]);
    }
    let mut figure = Figure::new(title, panels);
    figure.notes.push("Below the axis: each R of the script, as flow: new rate.".to_owned());
    Ok(figure)
}
