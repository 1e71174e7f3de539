//! `fairlink ctl`: talks to a running gateway.

pub(crate) mod change;
mod limits;
mod rates;
pub(crate) mod stats;
pub(crate) mod trace;
mod watch;

use std::path::PathBuf;

use clap::Subcommand;
use fairlink_net::{ControlError, control};

use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;

/// Request and gateway.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    request: Request,
    /// Path of the gateway's control socket [default: that of the one gateway that runs].
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
}

/// Requests to a gateway.
#[derive(Clone, Debug, Subcommand)]
enum Request {
    /// Show packets and bytes received, sent, dropped and queued, delays, and the limit of each class; with --interval
    /// also rates beside their ideals.
    Stats(stats::Args),
    /// Show rate, fluid ideal, share of the guarantee, delays and drops of each class at intervals, until Ctrl-C.
    ///
    /// On a terminal the table is drawn in place; in a pipe tables are appended, with --json one line each. After the
    /// end of the gateway, the command waits for the next one.
    Watch(watch::Args),
    /// Record packets into a file, until Ctrl-C or a limit: each with its class and its queueing delay or drop reason.
    ///
    /// The file is written by this process, with its rights, in its working directory. `sim` and `generate` replay
    /// it (`model = "trace"`). The direction that is not shaped is not recorded. A record costs the gateway's
    /// data thread a copy of the packet and no waiting: packets that the writer is too slow for are missing in the
    /// file, and counted.
    Trace(trace::Args),
    /// Load another link file, or the same one again: rates, classes, matches and scheduler change between two packets.
    ///
    /// A class is identified by its name: packets of a leaf that remains stay queued in order. A file that is refused
    /// changes nothing.
    Reload(change::ReloadArgs),
    /// Change a class's guarantee or ceiling, or the link's rate, until the next reload.
    ///
    /// If the link rate falls below the sum of the guarantees, all guarantees are scaled down in proportion.
    Rate(change::RateArgs),
    /// Change the scheduler and keep the classes.
    Scheduler(change::SchedulerArgs),
}

/// Asks and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    // Errors of a file are reported even without a running gateway.
    let format = match &args.request {
        Request::Trace(args) => Some(args.format()?),
        _ => None,
    };
    let path = match &args.control {
        Some(path) => path.clone(),
        None => control::find().map_err(CliError::wrong)?,
    };
    match (&args.request, format) {
        (Request::Trace(args), Some(format)) => trace::run(args, format, &path, out),
        (Request::Watch(args), _) => watch::run(args, &path, out),
        (Request::Stats(args), _) => stats::run(args, &path, out),
        (Request::Reload(args), _) => change::reload(args, &path, args.link.as_deref(), out),
        (Request::Rate(args), _) => change::set_rate(args, &path, args.link.as_deref(), out),
        (Request::Scheduler(args), _) => change::set_scheduler(args, &path, args.link.as_deref(), out),
        (Request::Trace(_), None) => Ok(()),
    }
}

/// A gateway that does not answer has failed; anything else is wrong with the command line.
fn unanswered(error: ControlError) -> CliError {
    match error {
        ControlError::NoAnswer { .. } | ControlError::Cut { .. } => CliError::failed(error),
        other => CliError::wrong(other),
    }
}
