//! `fairlink ctl`: talks to a running gateway.

use std::path::PathBuf;

use clap::Subcommand;
use fairlink_net::{ControlError, control};

use crate::commands::gateway;
use crate::failure::Failure;
use crate::out::Out;

/// What to ask whom.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    request: Request,
    /// Path of the gateway's control socket [default: that of the one gateway that runs].
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, Subcommand)]
enum Request {
    /// Packets and bytes received, sent, dropped and queued, and delays, by class.
    Stats,
}

/// Asks and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let path = match &args.control {
        Some(path) => path.clone(),
        None => control::find().map_err(Failure::wrong)?,
    };
    match args.request {
        Request::Stats => {
            let stats = control::stats(&path).map_err(|error| match error {
                ControlError::NoAnswer { .. } => Failure::failed(error),
                other => Failure::wrong(other),
            })?;
            gateway::show(&stats, out)
        }
    }
}
