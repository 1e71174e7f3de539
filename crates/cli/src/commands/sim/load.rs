//! Reads scenarios, and applies sweeps.

use std::collections::BTreeMap;
use std::path::Path;

use fairlink_api::{links_of, scenario_warnings};
use fairlink_config::sweep::{Sweep, Template};
use fairlink_config::units::{parse_rate, parse_size, parse_time};
use fairlink_config::{ReadOptions, Scenario, SourceText};
use fairlink_core::{Leniency, Nanos, Rate, SchedulerInfo};
use fairlink_lab::figures::sweep::{Key, Quantity};
use fairlink_sim::{Links, Setting};

use fairlink_traffic::Script;

use crate::cores::CoreArgs;
use crate::failure::CliError;
use crate::link::warn;

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

/// Reads a scenario file.
pub(in crate::commands) fn scenario(path: &Path, options: &ReadOptions<'_>) -> Result<Scenario, CliError> {
    // A script alone is not TOML, and needs a link.
    Scenario::read(path, options).map_err(|problems| match text(path) {
        Some(text) if Script::is_one(&text) => {
            CliError::wrong(format!("{}: this is a script; name its link with --link FILE", path.display()))
        }
        _ => problems.into(),
    })
}

/// A sweep over a script.
pub(super) fn script_has_no_keys() -> CliError {
    CliError::wrong(
        "--sweep: a script has no keys to sweep; write a scenario file with model = \"script\" and file = \"...\" over the link, and sweep \
         that without --link",
    )
}

/// Reads a script and its link, and adds values that its tc commands do not give.
pub(in crate::commands) fn script(
    path: &Path,
    link: &Path,
    rate: Option<Rate>,
    options: &ReadOptions<'_>,
) -> Result<Scenario, CliError> {
    // A scenario file names its link itself.
    if text(path).is_some_and(|text| text.lines().any(|line| line.trim_start().starts_with('['))) {
        let path = path.display();
        return Err(CliError::wrong(format!(
            "{path}: this is a scenario file, which names its own link; remove --link, which is for scripts"
        )));
    }
    let (file, notes) = Scenario::of_script(path, link, rate, options)?;
    warn(notes);
    Ok(file)
}

/// The text of an ordinary file. A pipe is read once, elsewhere.
fn text(path: &Path) -> Option<String> {
    path.is_file().then(|| std::fs::read_to_string(path).ok()).flatten()
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
    pub(super) fn alone(&self, path: &Path) -> Result<Point, CliError> {
        self.point(scenario(path, &self.options())?, BTreeMap::new(), true)
    }

    /// A script over a link.
    pub(super) fn script(&self, path: &Path, link: &Path, rate: Option<Rate>) -> Result<Point, CliError> {
        self.point(script(path, link, rate, &self.options())?, BTreeMap::new(), true)
    }

    /// The scenario with every combination of values, the last key changing fastest, and the keys.
    pub(super) fn swept(&self, path: &Path, sweeps: &[Sweep]) -> Result<(Vec<Key>, Vec<Point>), CliError> {
        if text(path).is_some_and(|text| Script::is_one(&text)) {
            return Err(script_has_no_keys());
        }
        let template = Template::read(&SourceText::read(path)?)?;
        template.check(sweeps).map_err(|error| CliError::wrong(format!("--sweep: {error}")))?;
        let settings = sweeps.iter().map(|sweep| sweep.values.len()).try_fold(1usize, usize::checked_mul);
        let settings = settings.filter(|&settings| settings <= MAX_SETTINGS).ok_or_else(|| {
            let counts: Vec<String> = sweeps.iter().map(|sweep| sweep.values.len().to_string()).collect();
            let counts = counts.join(" times ");
            CliError::wrong(format!("--sweep: {counts} settings; the limit is {MAX_SETTINGS}; use fewer values"))
        })?;
        let mut keys = Vec::with_capacity(sweeps.len());
        let mut known: Vec<Vec<Setting>> = Vec::with_capacity(sweeps.len());
        for Sweep { key, values } in sweeps {
            let read: Vec<(Setting, Quantity)> = values.iter().map(|value| setting(value)).collect();
            for (n, (value, _)) in read.iter().enumerate() {
                if read[..n].iter().any(|(other, _)| other == value) {
                    return Err(CliError::wrong(format!("--sweep: {key}: the value {} is given twice", values[n])));
                }
            }
            let first = read[0].1;
            let quantity = if read.iter().all(|&(_, other)| other == first) { first } else { Quantity::Number };
            keys.push(Key { name: key.clone(), quantity });
            known.push(read.into_iter().map(|(value, _)| value).collect());
        }
        let mut points = Vec::with_capacity(settings);
        for number in 0..settings {
            let mut rest = number;
            let mut chosen = vec![0; sweeps.len()];
            for (place, sweep) in chosen.iter_mut().zip(sweeps).rev() {
                *place = rest % sweep.values.len();
                rest /= sweep.values.len();
            }
            let texts: Vec<(&str, &str)> =
                sweeps.iter().zip(&chosen).map(|(sweep, &n)| (sweep.key.as_str(), sweep.values[n].as_str())).collect();
            let set = |((sweep, known), &n): ((&Sweep, &Vec<Setting>), &usize)| (sweep.key.clone(), known[n].clone());
            let sweep = sweeps.iter().zip(&known).zip(&chosen).map(set).collect();
            let with = || texts.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ");
            let read = Scenario::parse(template.name(), template.with(&texts), &self.options());
            let point = read.map_err(CliError::from).and_then(|file| self.point(file, sweep, number == 0));
            points.push(point.map_err(|failure| failure.within(format!("with {}", with())))?);
        }
        Ok((keys, points))
    }

    fn point(&self, file: Scenario, sweep: BTreeMap<String, Setting>, first: bool) -> Result<Point, CliError> {
        let warnings = scenario_warnings(&file)?;
        if first {
            warn(warnings);
        }
        let schedulers = schedulers(self.schedulers, &file, self.leniency)?;
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

/// Returns a value in JSON's form, and its quantity.
fn setting(text: &str) -> (Setting, Quantity) {
    if let Ok(whole) = text.parse() {
        return (Setting::Whole(whole), Quantity::Number);
    }
    if let Some(number) = text.parse().ok().filter(|number: &f64| number.is_finite()) {
        return (Setting::Number(number), Quantity::Number);
    }
    if let Ok(rate) = parse_rate(text, None) {
        return (Setting::Number(rate.bps() as f64), Quantity::Rate);
    }
    if let Ok(bytes) = parse_size(text, u64::MAX) {
        return (Setting::Number(bytes as f64), Quantity::Size);
    }
    if let Some(packets) = text.strip_suffix('p').and_then(|count| count.trim().parse().ok()) {
        return (Setting::Whole(packets), Quantity::Packets);
    }
    match parse_time(text) {
        Ok(time) => (Setting::Number(time.0 as f64 / 1e9), Quantity::Time),
        Err(_) => (Setting::Text(text.to_owned()), Quantity::Number),
    }
}

fn schedulers(names: &[String], file: &Scenario, leniency: Leniency) -> Result<Vec<&'static SchedulerInfo>, CliError> {
    let mut found: Vec<&'static SchedulerInfo> = Vec::new();
    for name in names {
        let (info, _) = file.link.for_scheduler(name, leniency)?;
        for peer in &file.peers {
            peer.link.for_scheduler(name, leniency)?;
        }
        for change in file.changes.iter().take_while(|change| change.scheduler.is_none()) {
            change.link.for_scheduler(name, leniency)?;
        }
        if found.iter().all(|other| other.name != info.name) {
            found.push(info);
        }
    }
    if found.is_empty() {
        found.push(file.link.info());
    }
    for info in &found {
        file.link.check_memory(info)?;
        file.peers.iter().try_for_each(|peer| peer.link.check_memory(info).map(|_| ()))?;
        let mut runs = *info;
        for change in &file.changes {
            runs = change.scheduler.unwrap_or(runs);
            change.link.check_memory(runs)?;
        }
    }
    Ok(found)
}
