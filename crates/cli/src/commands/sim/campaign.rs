//! `fairlink sim --shard`: a campaign, whose results are files that several processes write together.

use std::path::Path;

use anyhow::anyhow;
use fairlink_campaign::{Campaign, CampaignError, Directory, Format, Shard, Whole};
use fairlink_config::SourceText;
use fairlink_config::sweep::Template;
use fairlink_core::Nanos;
use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use super::load;
use super::watch::Progress;
use super::{Args, threads};
use crate::failure::CliError;
use crate::out::{Out, note};

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

impl From<CampaignError> for CliError {
    fn from(error: CampaignError) -> Self {
        match error {
            CampaignError::Refused(refused) => refused.into(),
            CampaignError::File { .. } | CampaignError::Stopped => Self::failed(error),
            CampaignError::Other { .. } | CampaignError::None { .. } | CampaignError::Manifest { .. } => {
                Self::wrong(error)
            }
        }
    }
}

/// Parses `--format`.
pub(super) fn format(text: &str) -> Result<Format, String> {
    Format::named(text).ok_or_else(|| format!("write {}", Format::ALL.map(Format::name).join(" or ")))
}

/// Does a share of the campaign, and prints how far all of it is.
pub(super) fn run(args: &Args, shard: Shard, dir: &Path, out: &mut Out) -> Result<(), CliError> {
    if load::is_script(&args.scenario) {
        return Err(load::script_has_no_keys());
    }
    let template = Template::read(&SourceText::read(&args.scenario)?)?;
    let campaign = Campaign::new(template, args.sweeps.clone(), args.schedulers.clone(), args.runs)?;
    let campaign = Directory::begin(dir, campaign, args.format.unwrap_or_default())?;
    let missing = campaign.missing(shard);
    let jobs: u64 = missing.iter().map(|&part| count(&campaign, part)).sum();
    let progress = Progress::new(jobs)?;
    let outcome = {
        let watch = progress.stops();
        let done = |part| progress.add_runs(count(&campaign, part));
        campaign.work(shard, threads(args), &|_, _: Nanos| watch(), &done)
    };
    progress.end();
    let outcome = outcome?;
    let whole = campaign.whole()?;
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
        failed => Err(CliError::Failed(anyhow!("{failed} of the runs failed: the column `error` has the reasons"))),
    }
}

fn count(campaign: &Directory, part: u64) -> u64 {
    let jobs = campaign.jobs_of(part);
    jobs.end - jobs.start
}

fn show(content: &CampaignContent, out: &mut Out) -> Result<(), CliError> {
    let CampaignContent { dir, jobs, parts, jobs_per_part, written_parts, present_parts, .. } = content;
    out.line(format!(
        "{dir}: {jobs} runs in {parts} files of up to {jobs_per_part}; {written_parts} written now, {present_parts} there"
    ))?;
    match (&content.digest, content.rows) {
        (Some(digest), Some(rows)) => out.line(format!("complete: {rows} rows, digest {digest}")),
        _ => out.line("not complete: the same command with the other shares does the rest, in any order"),
    }
}
