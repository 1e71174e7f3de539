//! The directory of a campaign: what it is, in `campaign.json`, and the parts that are there.

use std::fs;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fairlink_api::Refused;
use fairlink_config::sweep::{Sweep, Template};
use fairlink_core::Nanos;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::part::Format;
use crate::plan::{Campaign, Stopped};
use crate::rows::Cell;

/// Time that the jobs of a part take, about.
const PART: Duration = Duration::from_secs(1);
/// Most jobs of a part.
const MOST: u64 = 10_000;
/// Parts of a campaign of short jobs, at least, so that there is something to share.
const PARTS: u64 = 64;
/// The file that says what a campaign is.
const MANIFEST: &str = "campaign.json";
/// Version of the files: another one has other columns or another order of jobs.
const VERSION: u32 = 1;

/// Why a campaign cannot be begun or continued.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The scenario or the sweep is wrong.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A file cannot be read or written.
    #[error("{}: {what}: {source}; what is done stays: run the same again to go on", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operation.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A part is not as it was written.
    #[error("{}: the file is damaged: {why}; remove it and run the same command again, which makes this file anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The part of the file that cannot be read, and the reason.
        why: String,
    },
    /// The directory has another campaign.
    #[error("{}: this directory has another campaign, with {what}; use another directory, or remove this one", dir.display())]
    Other {
        /// The directory.
        dir: PathBuf,
        /// The difference.
        what: &'static str,
    },
    /// The directory has no campaign.
    #[error("{}: there is no campaign here: {MANIFEST} is missing", dir.display())]
    None {
        /// The directory.
        dir: PathBuf,
    },
    /// The description cannot be understood.
    #[error("{}: {why}; remove the directory to begin anew", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The work was to stop.
    #[error("interrupted; what is done stays: run the same again to go on")]
    Stopped,
}

fn failed<'a>(path: &'a Path, what: &'static str) -> impl FnOnce(io::Error) -> CampaignError + use<'a> {
    move |source| CampaignError::File { path: path.to_owned(), what, source }
}

/// Description of a campaign. A process on another machine needs nothing else but the recordings that the scenario names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    version: u32,
    /// The program that began it.
    fairlink: String,
    scenario: String,
    text: String,
    sweep: Vec<(String, Vec<String>)>,
    schedulers: Vec<String>,
    runs: u32,
    jobs: u64,
    format: Format,
    jobs_per_part: u64,
}

/// A campaign in its directory.
#[derive(Debug)]
pub struct Directory {
    dir: PathBuf,
    campaign: Campaign,
    manifest: Manifest,
}

/// A share of the parts, for one of several processes: number `number` of `of`, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its number, from 1 on.
    pub number: u64,
    /// Number of shares.
    pub of: u64,
}

impl Shard {
    /// All parts.
    pub const ALL: Self = Self { number: 1, of: 1 };

    /// Parses `NUMBER/OF`.
    ///
    /// # Errors
    /// In words, with the form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not NUMBER/OF; write e.g. 1/4 for the first of four shares");
        let (number, of) = text.split_once('/').ok_or_else(form)?;
        let (number, of) = (number.trim().parse().map_err(|_| form())?, of.trim().parse().map_err(|_| form())?);
        if of < 1 {
            return Err(format!("there is at least 1 share, not {of}; write e.g. 1/4 for the first of four"));
        }
        if number < 1 || number > of {
            return Err(format!("share {number} of {of}: shares are counted from 1 to {of}"));
        }
        Ok(Self { number, of })
    }
}

/// The outcome of work on a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Parts that were written now.
    pub written: u64,
    /// Jobs in them that failed.
    pub failed: u64,
}

/// All results of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// SHA-256 of all rows as lines of CSV, in the order of the jobs, in hexadecimal digits. It does not depend on who wrote
    /// which part, on the format, or on the number of jobs of a part.
    pub digest: String,
    /// Rows.
    pub rows: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// The first of them with its reason.
    pub failure: Option<String>,
}

impl Directory {
    /// Begins `campaign` in `dir`, which is made if it is missing, or goes on with it. Several processes may do so at the same
    /// time. The first one does a job to find how many make a part.
    ///
    /// # Errors
    /// [`CampaignError`]: another campaign is there, or a file cannot be written.
    pub fn begin(dir: &Path, campaign: Campaign, format: Format) -> Result<Self, CampaignError> {
        fs::create_dir_all(dir).map_err(failed(dir, "creating the directory"))?;
        let path = dir.join(MANIFEST);
        if !path.exists() {
            let manifest = describe(&campaign, format);
            let text = serde_json::to_string_pretty(&manifest).expect("texts and numbers can be written") + "\n";
            let draft = dir.join(format!("{MANIFEST}.{}", std::process::id()));
            fs::write(&draft, text).map_err(failed(&draft, "writing"))?;
            // The first one counts: a link is not made over a file that is there.
            let linked = fs::hard_link(&draft, &path);
            fs::remove_file(&draft).map_err(failed(&draft, "removing"))?;
            match linked {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(&path, "creating")(error));
                }
                _ => {}
            }
        }
        let manifest = read(&path)?;
        let expected = describe_with(&campaign, format, manifest.jobs_per_part);
        let differs = [
            (manifest.version != expected.version, "files of another version of fairlink"),
            (manifest.text != expected.text, "another scenario"),
            (manifest.sweep != expected.sweep, "other values of the swept keys"),
            (manifest.schedulers != expected.schedulers, "other schedulers"),
            (manifest.runs != expected.runs, "another number of runs"),
            (manifest.format != expected.format, "another format"),
        ];
        if let Some(&(_, what)) = differs.iter().find(|(differs, _)| *differs) {
            return Err(CampaignError::Other { dir: dir.to_owned(), what });
        }
        Ok(Self { dir: dir.to_owned(), campaign, manifest })
    }

    /// Opens the campaign in `dir`.
    ///
    /// # Errors
    /// [`CampaignError`]: there is none, or it cannot be understood.
    pub fn open(dir: &Path) -> Result<Self, CampaignError> {
        let path = dir.join(MANIFEST);
        if !path.exists() {
            return Err(CampaignError::None { dir: dir.to_owned() });
        }
        let manifest = read(&path)?;
        if manifest.version != VERSION {
            return Err(CampaignError::Other { dir: dir.to_owned(), what: "files of another version of fairlink" });
        }
        let template = Template::parse(&manifest.scenario, manifest.text.clone()).map_err(Refused::from)?;
        let sweeps = manifest.sweep.iter().map(|(key, values)| Sweep { key: key.clone(), values: values.clone() });
        let campaign = Campaign::new(template, sweeps.collect(), manifest.schedulers.clone(), manifest.runs)?;
        Ok(Self { dir: dir.to_owned(), campaign, manifest })
    }

    /// The campaign.
    #[must_use]
    pub fn campaign(&self) -> &Campaign {
        &self.campaign
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Format of the files.
    #[must_use]
    pub fn format(&self) -> Format {
        self.manifest.format
    }

    /// Number of parts.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.campaign.jobs().div_ceil(self.manifest.jobs_per_part)
    }

    /// Number of jobs of a part; the last one may have fewer.
    #[must_use]
    pub fn jobs_per_part(&self) -> u64 {
        self.manifest.jobs_per_part
    }

    /// The jobs of a part.
    #[must_use]
    pub fn jobs_of(&self, part: u64) -> Range<u64> {
        let first = part * self.manifest.jobs_per_part;
        first..(first + self.manifest.jobs_per_part).min(self.campaign.jobs())
    }

    /// The file of a part.
    #[must_use]
    pub fn file_of(&self, part: u64) -> PathBuf {
        self.dir.join(format!("part-{part:07}.{}", self.manifest.format.name()))
    }

    /// Parts of a share that are not there.
    #[must_use]
    pub fn missing(&self, shard: Shard) -> Vec<u64> {
        (shard.number - 1..self.parts())
            .step_by(shard.of as usize)
            .filter(|&part| !self.file_of(part).exists())
            .collect()
    }

    /// Does the jobs of a part and writes it. `watch` is called with a job and its simulated time, and says whether to
    /// continue. Returns the number of jobs that failed.
    ///
    /// # Errors
    /// [`CampaignError::Stopped`], [`CampaignError::File`]; then the part is absent.
    pub fn write(
        &self,
        part: u64,
        watch: &(dyn Fn(u64, Nanos) -> ControlFlow<()> + Sync),
    ) -> Result<u64, CampaignError> {
        let mut doer = self.campaign.doer();
        let (mut rows, mut failures) = (Vec::new(), 0);
        for job in self.jobs_of(part) {
            let of_job = doer.run(job, &|now| watch(job, now)).map_err(|Stopped| CampaignError::Stopped)?;
            failures += u64::from(has_failed(&of_job));
            rows.extend(of_job);
        }
        let path = self.file_of(part);
        // Others may write the same part: each under a name of its own.
        let draft = path.with_extension(format!("{}.{}", std::process::id(), unique()));
        let written = self.manifest.format.write(&draft, self.campaign.columns(), &rows);
        written.and_then(|()| fs::rename(&draft, &path)).map_err(|error| {
            let _ = fs::remove_file(&draft);
            failed(&path, "writing")(error)
        })?;
        Ok(failures)
    }

    /// Writes all missing parts of a share on `threads` threads. `done` is called after each part.
    ///
    /// # Errors
    /// The first error of a part, after the others that were begun have ended.
    pub fn work(
        &self,
        shard: Shard,
        threads: usize,
        watch: &(dyn Fn(u64, Nanos) -> ControlFlow<()> + Sync),
        done: &(dyn Fn(u64) + Sync),
    ) -> Result<Outcome, CampaignError> {
        let missing = self.missing(shard);
        let (next, written, failures) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let error = Mutex::new(None);
        let work = || {
            while let Some(&part) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.write(part, watch) {
                    Ok(failed) => {
                        written.fetch_add(1, Ordering::Relaxed);
                        failures.fetch_add(failed, Ordering::Relaxed);
                        done(part);
                    }
                    Err(why) => {
                        next.store(missing.len(), Ordering::Relaxed);
                        error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                        return;
                    }
                }
            }
        };
        thread::scope(|scope| (0..threads.clamp(1, missing.len().max(1))).for_each(|_| drop(scope.spawn(work))));
        match error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(Outcome { written: written.into_inner(), failed: failures.into_inner() }),
        }
    }

    /// Reads all parts; `None` if some are missing.
    ///
    /// # Errors
    /// [`CampaignError::File`]: a part cannot be read; [`CampaignError::Damaged`]: it is not as it was written.
    pub fn whole(&self) -> Result<Option<Whole>, CampaignError> {
        if !self.missing(Shard::ALL).is_empty() {
            return Ok(None);
        }
        let mut hash = Sha256::new();
        let (mut rows, mut failures, mut failure) = (0, 0, None);
        for part in 0..self.parts() {
            let path = self.file_of(part);
            let jobs = self.jobs_of(part);
            let (mut next, mut is_whole) = (jobs.start, true);
            let mut each = |line: &str| {
                hash.update(line.as_bytes());
                rows += 1;
                // Each job has one row or several.
                let job: Option<u64> = line.split(',').next().and_then(|job| job.parse().ok());
                is_whole &= line.ends_with('\n') && job.is_some_and(|job| job == next || job + 1 == next);
                next = job.map_or(next, |job| next.max(job + 1));
                // The last field is the reason of a failure.
                if !line.ends_with(",\n") {
                    failures += 1;
                    failure.get_or_insert_with(|| line.trim_end().to_owned());
                }
            };
            let columns = self.campaign.columns();
            self.manifest.format.read(&path, columns, &mut each).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => CampaignError::Damaged { path: path.clone(), why: error.to_string() },
                _ => failed(&path, "reading")(error),
            })?;
            if !is_whole || next != jobs.end {
                let why = format!("it has not all rows of the jobs {} to {}", jobs.start, jobs.end - 1);
                return Err(CampaignError::Damaged { path, why });
            }
        }
        let digest = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(Whole { digest, rows, failed: failures, failure }))
    }
}

/// A number that this process gives once.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn has_failed(rows: &[Vec<Cell>]) -> bool {
    rows.first().and_then(|row| row.last()).is_some_and(|cell| *cell != Cell::Empty)
}

fn read(path: &Path) -> Result<Manifest, CampaignError> {
    let text = fs::read_to_string(path).map_err(failed(path, "reading"))?;
    let why = |error: serde_json::Error| CampaignError::Manifest { path: path.to_owned(), why: error.to_string() };
    serde_json::from_str(&text).map_err(why)
}

/// Describes a campaign, after a job has shown how many make a part.
fn describe(campaign: &Campaign, format: Format) -> Manifest {
    let began = Instant::now();
    let _ = campaign.doer().run(0, &|_| match began.elapsed() < PART {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    });
    let took = began.elapsed().max(Duration::from_micros(1));
    let fit = (PART.as_nanos() / took.as_nanos()) as u64;
    describe_with(campaign, format, fit.clamp(1, MOST).min(campaign.jobs().div_ceil(PARTS)))
}

fn describe_with(campaign: &Campaign, format: Format, jobs_per_part: u64) -> Manifest {
    Manifest {
        version: VERSION,
        fairlink: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: campaign.name().to_owned(),
        text: campaign.text(),
        sweep: campaign.sweeps().iter().map(|sweep| (sweep.key.clone(), sweep.values.clone())).collect(),
        schedulers: campaign.schedulers().to_vec(),
        runs: campaign.runs(),
        jobs: campaign.jobs(),
        format,
        jobs_per_part,
    }
}
