//! The jobs of a campaign, and how each is done.

use std::ops::ControlFlow;

use fairlink_api::{Grid, Refused, links_of, schedulers_of};
use fairlink_config::sweep::{Sweep, Template};
use fairlink_config::{ReadOptions, Scenario};
use fairlink_core::{Leniency, Nanos, SchedulerInfo, registry};
use fairlink_sim::{Job, Links, Options, SimError, run_jobs};

use crate::rows::{Cell, Column, Named, columns, failed, rows};

/// Most settings of a campaign.
pub const MAX_SETTINGS: usize = 1_000_000;
/// Most jobs of a campaign.
pub const MAX_JOBS: u64 = 10_000_000;

/// A scenario with all combinations of other values, schedulers and seeds. A *job* is one simulation. Jobs have the numbers
/// from 0 on: setting by setting, scheduler by scheduler, seed by seed.
#[derive(Debug)]
pub struct Campaign {
    template: Template,
    grid: Grid,
    /// Empty for that of the scenario.
    schedulers: Vec<String>,
    runs: u32,
    columns: Vec<Column>,
}

/// A setting that was read: the scenario, and each scheduler or why it cannot be used.
#[derive(Debug)]
struct Point {
    file: Scenario,
    links: Links,
    schedulers: Vec<Result<&'static SchedulerInfo, String>>,
}

/// Does jobs, and keeps the setting of the last one.
#[derive(Debug)]
pub struct Doer<'a> {
    campaign: &'a Campaign,
    read: Option<(usize, Result<Box<Point>, String>)>,
}

/// The work was to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl Campaign {
    /// Plans the jobs of a scenario: each setting of `sweeps`, with each of `schedulers` once, by whatever name and however
    /// often it is named, or that of the scenario if there is none, `runs` times with seeds from the scenario's own upwards.
    ///
    /// # Errors
    /// [`Refused`], before any job: an unknown key, with the nearest name; an unknown scheduler; a scenario that cannot be
    /// read with the values of the first setting; too many jobs. A later setting that cannot be read is a failure of its
    /// jobs.
    pub fn new(template: Template, sweeps: Vec<Sweep>, schedulers: Vec<String>, runs: u32) -> Result<Self, Refused> {
        let grid = Grid::new(&template, sweeps, MAX_SETTINGS)?;
        let columns = columns(&grid);
        let mut each: Vec<String> = Vec::with_capacity(schedulers.len());
        for name in schedulers {
            // An unknown name is refused below.
            let name = registry::find(&name).map_or(name, |info| info.name.to_owned());
            if !each.contains(&name) {
                each.push(name);
            }
        }
        let schedulers = each;
        let campaign = Self { template, grid, schedulers, runs: runs.max(1), columns };
        if campaign.jobs() > MAX_JOBS {
            let message =
                format!("{} jobs (settings times schedulers times runs); the limit is {MAX_JOBS}", campaign.jobs());
            return Err(Refused::Argument { name: "runs".into(), message });
        }
        let file = campaign.scenario(0)?;
        schedulers_of(&file, &campaign.schedulers, campaign.leniency())?;
        Ok(campaign)
    }

    /// Number of jobs.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        self.grid.len() as u64 * self.schedulers.len().max(1) as u64 * u64::from(self.runs)
    }

    /// The columns of the rows.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Text of the scenario, with the link file that it names.
    #[must_use]
    pub fn text(&self) -> String {
        self.template.with(&[])
    }

    /// Name of the scenario.
    #[must_use]
    pub fn name(&self) -> &str {
        self.template.name()
    }

    /// The swept keys with their values as written.
    #[must_use]
    pub fn sweeps(&self) -> &[Sweep] {
        self.grid.sweeps()
    }

    /// The schedulers; empty for that of the scenario.
    #[must_use]
    pub fn schedulers(&self) -> &[String] {
        &self.schedulers
    }

    /// Number of seeds of each setting and scheduler.
    #[must_use]
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Returns one that does jobs.
    #[must_use]
    pub fn doer(&self) -> Doer<'_> {
        Doer { campaign: self, read: None }
    }

    /// Settings that a scheduler does not support are ignored if there are several, so that they can be compared.
    fn leniency(&self) -> Leniency {
        if self.schedulers.len() > 1 { Leniency::Ignore } else { Leniency::Refuse }
    }

    fn scenario(&self, setting: usize) -> Result<Scenario, Refused> {
        let scheduler = self.schedulers.first().map(String::as_str);
        let options = ReadOptions { leniency: self.leniency(), scheduler };
        Ok(Scenario::parse(self.template.name(), self.template.with(&self.grid.texts(setting)), &options)?)
    }

    fn point(&self, setting: usize) -> Result<Box<Point>, String> {
        let file = self.scenario(setting).map_err(|refused| in_words(&refused))?;
        let one = |names: &[String]| {
            let found = schedulers_of(&file, names, self.leniency()).map_err(|refused| in_words(&refused))?;
            found.first().copied().ok_or_else(|| "there is no scheduler".to_owned())
        };
        let schedulers = match self.schedulers.is_empty() {
            true => vec![one(&[])],
            false => self.schedulers.chunks(1).map(one).collect(),
        };
        Ok(Box::new(Point { links: links_of(&file), file, schedulers }))
    }
}

/// All problems in one line each, as in a log.
fn in_words(refused: &Refused) -> String {
    match refused {
        Refused::Text(problems) | Refused::NotAdmitted { problems, .. } => problems.lines().trim_end().to_owned(),
        other => other.to_string(),
    }
}

impl Doer<'_> {
    /// Does job number `job`, and returns its rows: one for each class, or one with the reason why it failed. `watch` is
    /// called with the simulated time and says whether to continue.
    ///
    /// # Errors
    /// [`Stopped`] by `watch`.
    pub fn run(
        &mut self,
        job: u64,
        watch: &(dyn Fn(Nanos) -> ControlFlow<()> + Sync),
    ) -> Result<Vec<Vec<Cell>>, Stopped> {
        let campaign = self.campaign;
        let (runs, schedulers) = (u64::from(campaign.runs), campaign.schedulers.len().max(1) as u64);
        let (repetition, rest) = (job % runs, job / runs);
        let (scheduler, setting) = ((rest % schedulers) as usize, (rest / schedulers) as usize);
        if self.read.as_ref().is_none_or(|&(read, _)| read != setting) {
            self.read = Some((setting, campaign.point(setting)));
        }
        let point = self.read.as_ref().map(|(_, point)| point);
        let mut named = Named {
            job,
            scheduler: campaign.schedulers.get(scheduler).cloned(),
            seed: None,
            set: campaign.grid.settings(setting).map(|(_, value)| value.clone()).collect(),
        };
        let columns = &campaign.columns;
        let fails = |named: &Named, why: &str| Ok(vec![failed(named, why, columns)]);
        let point = match point {
            Some(Ok(point)) => point,
            Some(Err(why)) => return fails(&named, why),
            None => return fails(&named, "it was not read"),
        };
        named.seed = Some(point.file.seed.wrapping_add(repetition));
        let info = match &point.schedulers[scheduler] {
            Ok(info) => *info,
            Err(why) => return fails(&named, why),
        };
        named.scheduler = Some(info.name.to_owned());
        let job = Job {
            links: &point.links,
            scheduler: info,
            leniency: campaign.leniency(),
            repetition,
            warmup: None,
            sweep: &Default::default(),
            observers: None,
        };
        let options = Options { window: None, settle: Nanos::ZERO, metrics: false };
        match run_jobs(&[job], &options, 1, &|_, now| watch(now)) {
            Ok(done) => match done.first() {
                Some(run) => Ok(rows(&named, run, columns)),
                None => fails(&named, "the simulation gave no result"),
            },
            Err((_, SimError::Stopped { .. })) => Err(Stopped),
            Err((_, error)) => fails(&named, &in_words(&Refused::of_run(error, &point.file))),
        }
    }
}
