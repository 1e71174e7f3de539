//! `fairlink qdisc show` and `watch`: the kernel's counters and rates, with the ideals beside them.

use std::time::Duration;

use fairlink_core::Nanos;
use fairlink_figures::table::fitted;
use fairlink_net::{QdiscClass, QdiscContent, QdiscState};
use fairlink_report::Document;

use super::AtArgs;
use crate::commands::ctl::stats::{interval, pause};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::{Out, wrapped};

/// Interface and interval.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    at: AtArgs,
    /// Measure rates and ideals for this time, such as 1s; by default they are the kernel's averages of some seconds.
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Nanos>,
}

/// Interface, interval and number of tables.
#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    at: AtArgs,
    /// Interval of the tables and of their rates.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Nanos,
    /// End after this number of tables.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

/// Reads once, or twice with an interval between, and prints.
pub(super) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let place = args.at.place()?;
    let mut state = place.show().map_err(CliError::wrong)?;
    let mut interval_s = None;
    if let Some(span) = args.interval {
        // Ctrl-C ends the interval, and what there is until then is shown.
        pause(Duration::from_nanos(span.0), &*stop_flag()?);
        let earlier = std::mem::replace(&mut state, place.show().map_err(CliError::wrong)?);
        interval_s = Some(state.measure_since(&earlier));
    }
    if out.json {
        return out.document(&document(&args.at.dev, &state, interval_s));
    }
    lines(&args.at.dev, &state, interval_s, out.width()).iter().try_for_each(|line| out.line(line))
}

/// Reads again and again, and prints each interval.
pub(super) fn watch(args: &WatchArgs, out: &mut Out) -> Result<(), CliError> {
    let place = args.at.place()?;
    let stop = stop_flag()?;
    let mut earlier = place.show().map_err(CliError::wrong)?;
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        if pause(Duration::from_nanos(args.interval.0), &stop) {
            break;
        }
        let now = place.show().map_err(CliError::wrong)?;
        let mut told = now.clone();
        let interval_s = Some(told.measure_since(&earlier));
        earlier = now;
        if out.json {
            out.json_line(&document(&args.at.dev, &told, interval_s))?;
        } else if out.is_terminal() {
            out.redraw(&lines(&args.at.dev, &told, interval_s, out.width()))?;
        } else {
            lines(&args.at.dev, &told, interval_s, out.width()).iter().try_for_each(|line| out.line(line))?;
            out.line("")?;
        }
        out.flush()?;
    }
    Ok(())
}

/// The document of a link.
fn document(interface: &str, state: &QdiscState, interval_s: Option<f64>) -> Document<QdiscContent> {
    Document::new(QdiscContent { links: vec![state.report(interface, interval_s)] })
}

/// The same to be read by people.
fn lines(interface: &str, state: &QdiscState, interval_s: Option<f64>, width: Option<usize>) -> Vec<String> {
    let QdiscState { sent, dropped, queued, .. } = state;
    let head = match (&state.broken, state.scheduler, state.rate_bps) {
        (Some(why), ..) => format!(
            "{interface}: broken, {why}. Packets pass through a FIFO; run `fairlink qdisc del` and `add` to start again."
        ),
        (None, Some(scheduler), Some(bps)) => format!("{interface}: {scheduler} shares {}", human::rate(bps as f64)),
        (None, ..) => format!("{interface}: no state from the kernel: its module is of another version"),
    };
    let span = interval_s.map_or_else(String::new, |seconds| format!("; rates of the last {}", human::time(seconds)));
    let paragraph = |text: String| width.map_or_else(|| vec![text.clone()], |width| wrapped(&text, width, 2));
    let mut lines = paragraph(format!("{head}{span}"));
    let rate = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), human::rate);
    let all = state.rates.map_or_else(String::new, |rates| format!(", {} now", human::rate(rates.rate())));
    lines.extend(paragraph(format!(
        "sent {} packets of {} B{all}, dropped {dropped}, queued {} of {} B",
        sent.packets, sent.bytes, queued.packets, queued.bytes
    )));
    if state.classes.is_empty() {
        return lines;
    }
    let head =
        ["class", "classid", "rate", "ideal", "guarantee", "sent", "sent bytes", "borrowed", "dropped", "queued"];
    let row = |class: &QdiscClass| {
        vec![
            class.name.clone(),
            format!("{:x}:{:x}", state.major, class.minor),
            rate(class.rates.and_then(|rates| rates.rate_bps)),
            rate(class.rates.and_then(|rates| rates.ideal_bps)),
            rate(Some(class.guarantee_bps as f64)),
            class.counts.sent.packets.to_string(),
            class.counts.sent.bytes.to_string(),
            class.borrowed_bytes.to_string(),
            class.counts.dropped.packets.to_string(),
            class.counts.queued.packets.to_string(),
        ]
    };
    let rows: Vec<_> = state.classes.iter().map(row).collect();
    lines.extend(fitted(&head, &rows, 2..10, width).into_iter().map(|line| line.text));
    lines
}
