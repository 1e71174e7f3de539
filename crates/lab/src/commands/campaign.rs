//! `fairlink-lab campaign`: a campaign, whose results are files that several processes write together.

use std::path::PathBuf;

use anyhow::anyhow;
use fairlink_campaign::{Campaign, CampaignError, Directory, Format, Shard, Whole};
use fairlink_core::Nanos;
use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use fairlink_terminal::args::{JobArgs, SweepArgs, one_of};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::files::template;
use fairlink_terminal::human;
use fairlink_terminal::out::{Out, make_directory, note};
use fairlink_terminal::program::needs_feature;
use fairlink_terminal::progress::Progress;

/// Runs, and the directory of their files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario file.
    scenario: PathBuf,
    #[command(flatten)]
    sweep: SweepArgs,
    /// Runs of each scheduler, with seeds from the scenario's own upwards.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// The directory, which is made if it is missing: a file of results for each range of runs. The same command goes on
    /// where it stopped. At most 10,000,000 runs.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The share of this process, such as 1/4; others with the other shares write into the same directory.
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, default_value = "1/1")]
    shard: Shard,
    /// Format of the files.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(Format::ALL.map(|format| (format.name(), format))), default_value = "csv")]
    format: Format,
    #[command(flatten)]
    jobs: JobArgs,
}

/// The content of the document `campaign`: how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct CampaignContent {
    /// The directory.
    dir: String,
    /// Simulations in all.
    jobs: u64,
    /// Files in all.
    parts: u64,
    /// Simulations of a file; the last one may have fewer.
    jobs_per_part: u64,
    /// Files that were written now.
    written_parts: u64,
    /// Files that are there.
    present_parts: u64,
    /// Simulations that failed: of all, once all files are there, before that of those that were made now. Their rows
    /// have the reason.
    failed_jobs: u64,
    /// Rows in all. Absent while files are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    /// SHA-256 of all rows in the order of the jobs. It does not depend on shares, threads, format or interruptions. Absent
    /// while files are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

impl Content for CampaignContent {
    const KIND: &'static str = "campaign";
}

fn failure(error: CampaignError) -> CliError {
    match error {
        CampaignError::Refused(refused) => refused.into(),
        CampaignError::File { .. } | CampaignError::Damaged { .. } | CampaignError::Stopped => CliError::failed(error),
        CampaignError::Other { .. } | CampaignError::None { .. } | CampaignError::Manifest { .. } => {
            CliError::wrong(error)
        }
    }
}

/// Does a share of the campaign, and prints how far all of it is.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    make_directory(&args.out)?;
    let template = template(&args.scenario)?;
    let (shard, dir) = (args.shard, &args.out);
    if !args.format.is_built_in() {
        return Err(needs_feature("--format parquet", "fairlink-lab", "parquet"));
    }
    let SweepArgs { sweeps, schedulers } = &args.sweep;
    let campaign = Campaign::new(template, sweeps.clone(), schedulers.clone(), args.runs)?;
    let campaign = Directory::begin(dir, campaign, args.format).map_err(failure)?;
    let missing = campaign.missing(shard);
    let jobs: u64 = missing.iter().map(|&part| count(&campaign, part)).sum();
    let progress = Progress::new(jobs)?;
    let outcome = {
        let watch = progress.stops();
        let done = |part| progress.add_runs(count(&campaign, part));
        campaign.work(shard, args.jobs.threads(), &|_, _: Nanos| watch(), &done)
    };
    progress.end();
    let outcome = outcome.map_err(failure)?;
    let whole = campaign.whole().map_err(failure)?;
    let content = CampaignContent {
        dir: dir.display().to_string(),
        jobs: campaign.campaign().jobs(),
        parts: campaign.parts(),
        jobs_per_part: campaign.jobs_per_part(),
        written_parts: outcome.written,
        present_parts: campaign.parts() - campaign.missing(Shard::ALL).len() as u64,
        failed_jobs: whole.as_ref().map_or(outcome.failed, |whole| whole.failed),
        rows: whole.as_ref().map(|whole| whole.rows),
        digest: whole.as_ref().map(|whole| whole.digest.clone()),
    };
    let failed = content.failed_jobs;
    match out.json {
        true => out.document(&Document::new(content))?,
        false => show(&content, out)?,
    }
    if let Some(Whole { failure: Some(failure), .. }) = &whole {
        note(format!("the first row of a failed run: {failure}"));
    }
    match failed {
        0 => Ok(()),
        failed => {
            let (failed, jobs) = (counted(failed, "run", "runs"), campaign.campaign().jobs());
            Err(CliError::Failed(anyhow!("{failed} of {jobs} failed: the column `error` says why")))
        }
    }
}

fn count(campaign: &Directory, part: u64) -> u64 {
    let jobs = campaign.jobs_of(part);
    jobs.end - jobs.start
}

/// A number of things in words. There are far fewer than a processor can count.
fn counted(number: u64, one: &str, several: &str) -> String {
    human::count(number as usize, one, several)
}

fn show(content: &CampaignContent, out: &mut Out) -> Result<(), CliError> {
    let CampaignContent { dir, jobs, parts, jobs_per_part, written_parts, present_parts, .. } = content;
    let (jobs, parts) = (counted(*jobs, "run", "runs"), counted(*parts, "file", "files"));
    out.line(format!(
        "{dir}: {jobs} in {parts} of up to {jobs_per_part}; {written_parts} written now, {present_parts} there"
    ))?;
    match (&content.digest, content.rows) {
        (Some(digest), Some(rows)) => out.line(format!("complete: {}, digest {digest}", counted(rows, "row", "rows"))),
        _ => out.line("not complete: the same command with the other shares does the rest, in any order"),
    }
}
