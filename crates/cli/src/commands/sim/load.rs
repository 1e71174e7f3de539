//! Reads scenarios, and applies sweeps.

use std::collections::BTreeMap;

use fairlink_api::{Grid, links_of, scenario_warnings, schedulers_of};
use fairlink_config::sweep::Sweep;
use fairlink_config::{ReadOptions, Scenario};
use fairlink_core::{Leniency, Nanos, SchedulerInfo};
use fairlink_figures::sweep::Key;
use fairlink_sim::{Links, Setting};

use crate::cores::CoreArgs;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::files::ScenarioArgs;
use fairlink_terminal::style::warn;

/// Most settings of a sweep.
pub(super) const MAX_SETTINGS: usize = 10_000;

/// A scenario with one setting of the swept keys.
#[derive(Clone)]
pub(super) struct Point {
    /// Swept keys with their values. Empty without a sweep.
    pub(super) sweep: BTreeMap<String, Setting>,
    pub(super) file: Scenario,
    pub(super) links: Links,
    pub(super) schedulers: Vec<&'static SchedulerInfo>,
}

/// Options for reading scenarios.
pub(super) struct Reading<'a> {
    pub(super) leniency: Leniency,
    pub(super) schedulers: &'a [String],
}

impl Reading<'_> {
    fn options(&self) -> ReadOptions<'_> {
        ReadOptions { leniency: self.leniency, scheduler: self.schedulers.first().map(String::as_str) }
    }

    /// Reads the scenario as it is.
    pub(super) fn alone(&self, file: &ScenarioArgs) -> Result<Point, CliError> {
        self.point(file.read(&self.options())?, BTreeMap::new(), true)
    }

    /// The scenario with every combination of values, the last key changing fastest, and the keys.
    pub(super) fn swept(&self, file: &ScenarioArgs, sweeps: &[Sweep]) -> Result<(Vec<Key>, Vec<Point>), CliError> {
        let template = file.template()?;
        let grid = Grid::new(&template, sweeps.to_vec(), MAX_SETTINGS)?;
        let mut points = Vec::with_capacity(grid.len());
        for number in 0..grid.len() {
            let read = Scenario::parse(template.name(), template.with(&grid.texts(number)), &self.options());
            let point = read
                .map_err(CliError::from)
                .and_then(|file| {
                    let settings = grid.settings(number).map(|(key, value)| (key.name.clone(), value.clone()));
                    self.point(file, settings.collect(), number == 0)
                })
                .map_err(|failure| failure.within(format!("with {}", grid.describe(number))))?;
            points.push(point);
        }
        Ok((grid.keys().to_vec(), points))
    }

    fn point(&self, file: Scenario, sweep: BTreeMap<String, Setting>, first: bool) -> Result<Point, CliError> {
        let warnings = scenario_warnings(&file)?;
        if first {
            warn(warnings);
        }
        let schedulers = schedulers_of(&file, self.schedulers, self.leniency)?;
        Ok(Point { sweep, links: links_of(&file), file, schedulers })
    }
}

/// Returns `points` with the cores of the arguments: each once for each way in which they share the link.
pub(super) fn on_cores(points: Vec<Point>, args: &CoreArgs, lag: Option<Nanos>) -> Result<Vec<Point>, CliError> {
    let mut all = Vec::with_capacity(points.len());
    for point in points {
        let ways = args.of(point.file.link.cores).map_err(CliError::wrong)?.len();
        for way in 0..ways {
            let mut point = point.clone();
            let links = &mut point.links;
            for link in std::iter::once(&mut links.first).chain(links.further.iter_mut().map(|(_, link)| link)) {
                link.cores.cores = args.of(link.cores.cores).map_err(CliError::wrong)?[way.min(ways - 1)];
                link.cores.lag = lag.unwrap_or(link.cores.lag);
            }
            all.push(point);
        }
    }
    Ok(all)
}
