//! `fairlink ctl stats`: counters of a running gateway, or of an interval.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlink_core::Nanos;
use fairlink_net::{ControlError, GatewayStats, Watch};

use super::limits;
use super::rates::{self, View};
use super::unanswered;
use crate::gateway_stats::{Classes, MOST, document, show};
use fairlink_terminal::args;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::Out;

/// Gateway and interval.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure for this time, such as 1s: rate, fluid ideal, share of the guarantee and delays of each class. By
    /// default 250 ms are measured, for the limit of each class; `--interval 0s` answers at once, without limits.
    #[arg(long, value_name = "TIME", value_parser = interval_or_none)]
    interval: Option<Nanos>,
    /// Only this link, of a gateway with several links.
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// All classes. By default, of more than 64 classes, those that received most. JSON always has all.
    #[arg(long)]
    all: bool,
}

/// Default measuring interval for the limits of classes: a short wait, but long compared with bursts.
const GLANCE: Duration = Duration::from_millis(250);
/// The shortest interval.
const SHORTEST: Nanos = Nanos::from_millis(10);
/// The longest, for which the gateway keeps a connection.
const LONGEST: Nanos = Nanos::from_millis(3_600_000);
/// Interval of polling for the end.
const NAP: Duration = Duration::from_millis(50);

/// A time between two statistics.
pub(crate) fn interval(text: &str) -> Result<Nanos, String> {
    let time = args::time(text)?;
    if (SHORTEST..=LONGEST).contains(&time) {
        Ok(time)
    } else {
        Err("write at least 10ms and at most 3600s".to_owned())
    }
}

/// The same, or 0s.
fn interval_or_none(text: &str) -> Result<Nanos, String> {
    match args::time(text) {
        Ok(Nanos::ZERO) => Ok(Nanos::ZERO),
        _ => interval(text).map_err(|error| format!("{error}, or 0s")),
    }
}

/// Waits, unless `stop` is set before. Returns whether it is.
pub(crate) fn pause(span: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + span;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return stop.load(Ordering::Relaxed);
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// The statistics of each link, or of `link` alone.
pub(super) fn of_links(
    watch: &mut Watch,
    link: Option<&str>,
    next: Option<Duration>,
) -> Result<Vec<GatewayStats>, ControlError> {
    let names = match link {
        Some(name) => vec![name.to_owned()],
        None => watch.links()?,
    };
    names.iter().map(|name| watch.stats(Some(name), next)).collect()
}

/// Reason for missing limits without a measuring interval.
const NO_LIMITS: &str = "limit, limited_by and limited_for_s need a measuring interval: omit `--interval 0s`";

/// Reason for missing limits if the gateway closed the connection meanwhile.
const CUT_OFF: &str =
    "limits of classes were not measured: the gateway closed the connection (too many clients, or it is ending)";

fn note_each(stats: &mut [GatewayStats], note: &str) {
    stats.iter_mut().for_each(|stats| stats.0.notes.push(note.to_owned()));
}

/// Asks once, or twice with an interval between, and prints.
pub(super) fn run(args: &Args, socket: &Path, out: &mut Out) -> Result<(), CliError> {
    let mut watch = Watch::connect(socket).map_err(unanswered)?;
    let span = args.interval.map_or(GLANCE, |time| Duration::from_nanos(time.0));
    let next = (!span.is_zero()).then_some(span);
    let mut stats = of_links(&mut watch, args.link.as_deref(), next).map_err(unanswered)?;
    if let Some(span) = next {
        // Ctrl-C ends the interval, and what there is until then is shown.
        let stop = stop_flag()?;
        pause(span, &stop);
        match of_links(&mut watch, args.link.as_deref(), next) {
            Ok(later) => stats = later,
            // With many clients, one that is silent between two requests is disconnected. The first answer is complete.
            Err(_) if args.interval.is_none() => note_each(&mut stats, CUT_OFF),
            Err(error) => return Err(unanswered(error)),
        }
    } else {
        note_each(&mut stats, NO_LIMITS);
    }
    if out.json {
        return out.document(&document(&stats));
    }
    for (at, stats) in stats.iter().enumerate() {
        if at > 0 {
            out.line("")?;
        }
        let classes = if args.all { Classes::All } else { Classes::Busiest };
        show(stats, classes, out)?;
        // Rates of so short an interval are omitted unless requested.
        if args.interval.is_none_or(|interval| interval == Nanos::ZERO) {
            let limits = stats.interval().map_or_else(Vec::new, |span| limits::lines(&stats.classes, span));
            limits.iter().try_for_each(|line| out.paragraph(line, 2))?;
            stats.notes.iter().try_for_each(|text| out.paragraph(&format!("note: {text}"), 2))?;
        } else if stats.interval().is_some() {
            out.line("")?;
            let few = args.all || stats.classes.len() <= MOST;
            let lines = (!few).then_some(MOST);
            let view = View { class: None, width: out.width().unwrap_or(100).max(80), lines };
            rates::lines(stats, &view).iter().try_for_each(|line| out.line(line))?;
        }
    }
    Ok(())
}
