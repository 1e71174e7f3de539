//! `fairlink-lab schema`: the JSON schema of its documents.

use clap::Subcommand;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;
use fairlink_terminal::schema::Kinds;

use super::{between, campaign, clock, pdf, traffic};

/// Schema to print.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    of: Of,
}

/// The schemas.
#[derive(Debug, Subcommand)]
enum Of {
    /// Print the JSON schema of the documents of --json: reproduce, bench, campaign and others (2020-12).
    Documents,
}

/// Prints the schema. It is JSON with and without `--json`.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let Of::Documents = args.of;
    let mut kinds = Kinds::of_program("fairlink-lab");
    kinds.add::<fairlink_lab::bench::Report>();
    kinds.add::<fairlink_lab::claims::ReproduceDoc>();
    kinds.add::<between::BetweenDoc>();
    kinds.add::<campaign::CampaignContent>();
    kinds.add::<clock::ClockDoc>();
    kinds.add::<pdf::PdfDoc>();
    kinds.add::<traffic::TrafficDoc<'static>>();
    #[cfg(target_os = "linux")]
    {
        kinds.add::<fairlink_lab::bench::CoresReport>();
        kinds.add::<super::bench::real::GatewayBenchDoc>();
        kinds.add::<super::bench::real::ThroughputDoc>();
    }
    out.raw_json(&kinds.schemas())
}
