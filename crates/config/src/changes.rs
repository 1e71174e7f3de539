//! `[[change]]` of a scenario file: changes of its link during the run, and the times at which classes of its sources
//! exist.

use std::collections::HashMap;

use fairlink_core::{ClassId, Nanos, SchedulerInfo, Share};
use fairlink_traffic::Interval;

use crate::link::{LinkFile, ReadOptions, leaf, scheduler_named};
use crate::problem::{Log, ProblemKind, Span};
use crate::reader::{Table, Value};
use crate::units::show_time;

const PLACE: &str = "[[change]]";
pub(crate) const KEYS: [&str; 4] = ["at", "link", "class", "scheduler"];
/// Most changes of a scenario.
pub const MAX_CHANGES: usize = 100;

/// Another link from some time on.
#[derive(Clone, Debug)]
pub struct Change {
    /// When: after the start of the run and after the change before it, and before the end of the run.
    pub at: Nanos,
    /// The file as the scenario names it; `[[change]]` if the link is in the scenario itself.
    pub name: String,
    /// Scheduler from then on, if the scenario names one. The scheduler of the link's own file is ignored.
    pub scheduler: Option<&'static SchedulerInfo>,
    /// The link and its classes from then on, read for the scheduler that is to run.
    pub link: LinkFile,
    /// By class id of the link: which of the scenario's classes it is. Classes of one name are one class.
    pub classes: Vec<ClassId>,
}

/// Reads the changes of the scenario's own link, `first`; invalid ones are skipped.
pub(crate) fn changes(
    document: &Table<'_, '_>,
    first: &LinkFile,
    options: &ReadOptions<'_>,
    duration: Option<Nanos>,
    log: &mut Log,
) -> Vec<Change> {
    const EXPECTED: &str = "a table for each change: [[change]], in double brackets";
    let Some(value) = document.get("change") else { return Vec::new() };
    let refuse = |why: String, help, log: &mut Log| {
        log.error(document.key_span("change"), ProblemKind::Misplaced { key: "change", why, help });
    };
    if document.get("peer").is_some() || document.get("pool").is_some() {
        let why = "needs a single link, and this scenario has [[peer]] or [[pool]]".to_owned();
        refuse(why, "remove one of them", log);
        return Vec::new();
    }
    let tables = value.list(EXPECTED, log).unwrap_or_default();
    if tables.len() > MAX_CHANGES {
        refuse(format!("is given {} times; the limit is {MAX_CHANGES}", tables.len()), "remove some", log);
        return Vec::new();
    }
    let mut numbers: HashMap<String, ClassId> = HashMap::new();
    for (id, name) in first.names.iter().enumerate() {
        numbers.insert(name.to_owned(), ClassId(id as u32));
    }
    let mut changes = Vec::with_capacity(tables.len());
    let (mut runs, mut before) = (first.info(), None);
    for value in tables {
        let Some(table) = value.table(PLACE, EXPECTED, log) else { continue };
        table.only(&KEYS, log);
        let at = table.need("at", "at = \"10s\"", log).and_then(|value| time(value, &mut before, duration, log));
        let named = table.get("scheduler").map(|value| scheduler(value, log));
        // With an unknown scheduler, later checks would use the wrong one.
        let Some(scheduler) = named.map_or(Some(None), |known| known.map(Some)) else { continue };
        runs = scheduler.unwrap_or(runs);
        let options = ReadOptions { leniency: options.leniency, scheduler: Some(runs.name) };
        let link = match LinkFile::inline_or_named(&table, &options, log) {
            Ok(Some(link)) => link,
            Ok(None) => continue,
            Err(problems) => {
                log.add_all(problems);
                continue;
            }
        };
        let mut number = |name: &str| {
            let next = ClassId(numbers.len() as u32);
            *numbers.entry(name.to_owned()).or_insert(next)
        };
        let classes = link.names.iter().map(&mut number).collect();
        let name = table.get("link").and_then(|value| value.value.get_ref().as_str()).unwrap_or(PLACE).to_owned();
        changes.extend(at.map(|at| Change { at, name, scheduler, link, classes }));
    }
    changes
}

/// The time of a change, which is later than `before`.
fn time(value: Value<'_, '_>, before: &mut Option<Nanos>, duration: Option<Nanos>, log: &mut Log) -> Option<Nanos> {
    let at = value.some_time(log)?;
    if let Some(duration) = duration.filter(|&duration| at >= duration) {
        log.error(value.span(), ProblemKind::BeyondEnd { time: at, duration });
        return None;
    }
    if let Some(before) = before.replace(at).filter(|&before| at <= before) {
        log.error(value.span(), ProblemKind::ChangeOrder { at, before });
        return None;
    }
    Some(at)
}

fn scheduler(value: Value<'_, '_>, log: &mut Log) -> Option<&'static SchedulerInfo> {
    let name = value.string("the name of a scheduler in quotes", log)?;
    scheduler_named(name).map_err(|kind| log.error(value.span(), kind)).ok()
}

/// Names by class of the scenario: those of `first` by their ids, then those that only `changes` bring.
pub(crate) fn names(first: &LinkFile, changes: &[Change]) -> Vec<String> {
    let mut names: Vec<String> = first.names.iter().map(str::to_owned).collect();
    for change in changes {
        for (class, name) in change.classes.iter().zip(change.link.names.iter()) {
            if class.index() == names.len() {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// A link and its changes, as seen by its sources.
#[derive(Clone, Copy)]
pub(crate) struct Course<'a> {
    pub(crate) first: &'a LinkFile,
    pub(crate) changes: &'a [Change],
    pub(crate) duration: Option<Nanos>,
}

impl<'a> Course<'a> {
    /// The smallest mtu that the link ever has, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.changes.iter().map(|change| change.link.mtu).fold(self.first.mtu, u32::min)
    }

    /// The leaf of that name, be it a leaf only for a while.
    pub(crate) fn leaf(&self, name: &str, span: Span, log: &mut Log) -> Option<ClassId> {
        let is_leaf = |link: &LinkFile| link.names.id(name).filter(|&id| link.tree.is_leaf(id));
        if let Some(id) = is_leaf(self.first) {
            return Some(id);
        }
        let later = self.changes.iter().find_map(|change| Some(change.classes[is_leaf(&change.link)?.index()]));
        later.or_else(|| leaf(&self.first.tree, &self.first.names, name, span, log))
    }

    /// Rate of the class in bit/s while all classes send; 0 for a class that only a change adds.
    pub(crate) fn share(&self, class: ClassId) -> u64 {
        let tree = &self.first.tree;
        if class.index() < tree.len() { tree.rate_all_busy(class) } else { 0 }
    }

    /// Guarantee of the class in bit/s; without one, its rate while all classes send.
    pub(crate) fn guarantee(&self, class: ClassId) -> u64 {
        let trees = std::iter::once((&self.first.tree, class)).chain(self.changes.iter().filter_map(|change| {
            let id = change.classes.iter().position(|&other| other == class)?;
            Some((&change.link.tree, ClassId(id as u32)))
        }));
        let mut there = trees.filter(|(tree, id)| id.index() < tree.len());
        there.next().map_or(0, |(tree, id)| match tree.config(id).share {
            Some(Share::Guarantee(rate)) => rate.bps(),
            _ => tree.rate_all_busy(id),
        })
    }

    /// Reports an error at `span` if a source is active while its class does not exist.
    pub(crate) fn check_active(&self, class: ClassId, name: &str, active: &[Interval], span: Span, log: &mut Log) {
        let Some(duration) = self.duration.filter(|_| !self.changes.is_empty()) else { return };
        let whole = [Interval { start: Nanos::ZERO, end: duration }];
        let active = if active.is_empty() { &whole[..] } else { active };
        let stages: Vec<(Interval, bool)> = self.stages(duration, class).collect();
        let missing = |stage: &Interval| {
            let starts = active.iter().filter(|active| active.start < stage.end && stage.start < active.end);
            starts.map(|active| active.start.max(stage.start)).next()
        };
        let gone = stages.iter().enumerate().filter(|(_, (_, there))| !there);
        let Some((stage, at)) = gone.filter_map(|(n, (stage, _))| Some((n, missing(stage)?))).next() else { return };
        let mut there: Vec<Interval> = Vec::new();
        for &(stage, _) in stages.iter().filter(|(_, there)| *there) {
            match there.last_mut() {
                Some(last) if last.end == stage.start => last.end = stage.end,
                _ => there.push(stage),
            }
        }
        let time = |time: Nanos| if time == Nanos::ZERO { "0s".to_owned() } else { show_time(time).replace(' ', "") };
        let written = |&Interval { start, end }: &Interval| format!("\"{}..{}\"", time(start), time(end));
        let there = there.iter().map(written).collect::<Vec<_>>().join(", ");
        let file = match stage.checked_sub(1) {
            None => self.first.source().name().to_owned(),
            Some(change) => self.changes[change].name.clone(),
        };
        log.error(span, ProblemKind::NoLeafThen { name: name.to_owned(), at, file, there });
    }

    /// Each link in its time, and whether the class is a leaf of it.
    fn stages(&self, duration: Nanos, class: ClassId) -> impl Iterator<Item = (Interval, bool)> + use<'a> {
        let Self { first, changes, .. } = *self;
        let ends = changes.iter().map(|change| change.at).chain([duration]);
        let known = class.index() < first.tree.len() && first.tree.is_leaf(class);
        let later = changes.iter().map(move |change| {
            let id = change.classes.iter().position(|&other| other == class);
            (change.at, id.is_some_and(|id| change.link.tree.is_leaf(ClassId(id as u32))))
        });
        let starts = std::iter::once((Nanos::ZERO, known)).chain(later);
        starts.zip(ends).map(|((start, there), end)| (Interval { start, end }, there))
    }
}
