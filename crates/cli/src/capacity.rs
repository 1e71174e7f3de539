//! Compares the rate of a link with the gateway's capacity on this machine. A measurement needs a separate network
//! namespace, which a process cannot leave again. So a child process measures: the hidden command `fairlink capacity`.

use std::process::{Command, Stdio};
use std::time::Duration;

use fairlink_config::link::LinkFile;
use fairlink_config::problem::Problem;
use fairlink_core::SchedulerInfo;
use fairlink_report::{Content, Document};
use fairlink_terminal::args::scheduler;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::Out;
use fairlink_testbed::{GatewayThroughput, enter_private_namespace, gateway_throughput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Links up to this rate, in bit/s, are not measured: every machine that was measured moves more, and the measurement
/// takes half a second.
const UNASKED_BPS: u64 = 1_000_000_000;

/// The rate of a link compared with the capacity of a gateway on one processor of this machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Capacity {
    /// The link is slow enough not to ask.
    Unasked,
    /// Bits per second of full frames.
    Moves(f64),
    /// Not measured, and why.
    Unknown(String),
}

/// Time to measure.
const SPAN: Duration = Duration::from_millis(300);

/// The scheduler to measure with.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scheduler.
    #[arg(long, value_name = "NAME", value_parser = scheduler)]
    scheduler: &'static SchedulerInfo,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct CapacityDoc {
    scheduler: &'static str,
    #[serde(flatten)]
    throughput: GatewayThroughput,
}

impl Content for CapacityDoc {
    const KIND: &'static str = "capacity";
}

/// Measures and prints a document.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let namespace = enter_private_namespace().map_err(CliError::wrong)?;
    let throughput = gateway_throughput(&namespace, args.scheduler, SPAN).map_err(CliError::failed)?;
    out.document(&Document::new(CapacityDoc { scheduler: args.scheduler.name, throughput }))
}

/// The part of the answer that is used.
#[derive(Deserialize)]
struct Answer {
    bps: f64,
}

impl Capacity {
    /// Measures for half a second if the link has more than 1 Gbit/s. [`Self::Unknown`] if that is impossible on this
    /// machine.
    pub(crate) fn of(link: &LinkFile) -> Self {
        if link.tree.link().rate.bps() <= UNASKED_BPS {
            return Self::Unasked;
        }
        match measured(&link.scheduler) {
            Ok(bps) => Self::Moves(bps),
            Err(why) => Self::Unknown(why),
        }
    }

    /// Measured capacity in bit/s, if there is one.
    pub(crate) fn bps(&self) -> Option<u64> {
        match self {
            Self::Moves(bps) => Some(*bps as u64),
            Self::Unasked | Self::Unknown(_) => None,
        }
    }

    /// The warning that is due for this link.
    pub(crate) fn warning(&self, link: &LinkFile) -> Option<Problem> {
        let wanted = link.tree.link().rate.bps() as f64;
        let rate = human::rate(wanted);
        let why = match self {
            Self::Unasked => return None,
            Self::Moves(bps) if *bps >= wanted => return None,
            Self::Moves(bps) => format!(
                "of {rate} exceeds the measured capacity of the gateway{} on this machine: {} with frames of 1514 B, less with shorter ones",
                if cfg!(debug_assertions) { " of a debug build" } else { "" },
                human::rate(*bps)
            ),
            Self::Unknown(why) => {
                format!(
                    "of {rate} may exceed the capacity of the gateway on this machine, which was not measured: {why}"
                )
            }
        };
        Some(link.rate_warning(why))
    }
}

/// Bits per second that one processor moves; in words why that is not known.
fn measured(scheduler: &str) -> Result<f64, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
    let done = Command::new(own)
        .args(["capacity", "--scheduler", scheduler])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("the measurement cannot be started: {error}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.lines().last().unwrap_or_default();
        return Err(last.strip_prefix("error: ").unwrap_or(last).to_owned());
    }
    let answer: Answer = serde_json::from_slice(&done.stdout).map_err(|error| format!("its answer: {error}"))?;
    Ok(answer.bps)
}

#[cfg(test)]
mod tests {
    use fairlink_config::link::ReadOptions;

    use super::*;

    fn link(rate: &str) -> LinkFile {
        let text = format!("[link]\nrate = \"{rate}\"\n[[class]]\nname = \"a\"\n");
        LinkFile::parse("fast.toml", &text, &ReadOptions::default()).expect("a link")
    }

    #[test]
    fn a_link_is_warned_of_where_it_is_faster_than_the_gateway_or_the_gateway_was_not_measured() {
        let said = |capacity: Capacity, rate: &str| capacity.warning(&link(rate)).map(|warning| warning.to_string());
        assert_eq!(said(Capacity::Moves(6e9), "6gbit"), None);
        assert_eq!(said(Capacity::Unasked, "6gbit"), None);
        let both = said(Capacity::Moves(5.9e9), "6gbit").expect("a warning");
        assert!(both.starts_with("\"rate\" of 6 Gbit/s exceeds") && both.contains("5.9 Gbit/s"), "{both}");
        let unknown = said(Capacity::Unknown("no namespaces".to_owned()), "6gbit").expect("a warning");
        assert!(unknown.contains("not measured: no namespaces"), "{unknown}");
        assert_eq!(Capacity::of(&link("1gbit")), Capacity::Unasked);
    }
}
