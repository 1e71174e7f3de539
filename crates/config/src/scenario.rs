//! Scenario files: a link, and who sends what over it when. `docs/link-files.md` is the users' reference.

use std::path::Path;

use fairlink_core::Nanos;
use fairlink_traffic::{Interval, MAX_PACKETS_PER_SECOND, Model, PacketSize, SourceSpec};
use miette::NamedSource;
use toml::de::DeValue;

use crate::changes::{self, Change, Course};
use crate::link::{DOCUMENT_KEYS, LinkFile, ReadOptions};
use crate::peers::{self, Peer, PoolSpec};
use crate::problem::{Log, Problem, ProblemKind, Problems, Source};
use crate::reader::{self, Table, Value, unknown_word};
use crate::units::{parse_thousandths, parse_time, show_bps, show_rate};

const PLACE: &str = "[[source]]";
const KEYS: [&str; 10] =
    ["class", "link", "model", "packet", "active", "rate", "packets_per_second", "on", "off", "shape"];

/// The models that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Greedy,
    Saturating,
    Cbr,
    Poisson,
}

const MODELS: [(&str, Kind); 4] =
    [("greedy", Kind::Greedy), ("saturating", Kind::Saturating), ("cbr", Kind::Cbr), ("poisson", Kind::Poisson)];
/// Models of the format that cannot be run here.
const OTHER_MODELS: [&str; 7] = ["on_off", "mmpp", "pareto_on_off", "mpeg", "dar1", "trace", "script"];
/// Lengths of packets of the format that cannot be made here.
const OTHER_PACKETS: [&str; 2] = ["exponential", "imix"];

/// A scenario file that was read and found sound.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The link.
    pub link: LinkFile,
    /// Length of the run; not zero.
    pub duration: Nanos,
    /// What is left out of the averages at the beginning; shorter than the run.
    pub warmup: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Who sends, in file order; all sound by [`SourceSpec::validate`] and with packets no longer than the link's mtu. Classes
    /// are numbered as in [`Scenario::names`].
    pub sources: Vec<SourceSpec>,
    /// Names of all classes: those of the link by their ids, then those that only changes bring.
    pub names: Vec<String>,
    /// What becomes of the link while it runs, in the order of time. There are none where there are peers or pools.
    pub changes: Vec<Change>,
    /// Links that run beside it.
    pub peers: Vec<Peer>,
    /// What classes of all of them share.
    pub pools: Vec<PoolSpec>,
    /// What is doubtful but usable, of the scenario alone; [`LinkFile::warnings`] has the link's.
    pub warnings: Vec<Problem>,
}

impl Scenario {
    /// Reads a scenario file. The link file that it names is looked for beside it.
    ///
    /// # Errors
    /// Everything that is wrong with it, as far as one thing does not hide another.
    pub fn read(path: impl AsRef<Path>, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        Self::from_source(&reader::open(path.as_ref())?, options)
    }

    /// Reads a scenario file's text; `name` is what errors call it, and the path beside which a link file is looked for.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn parse(name: &str, text: impl Into<String>, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        Self::from_source(&Source::new(NamedSource::new(name, text.into())), options)
    }

    fn from_source(source: &Source, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        reader::document(source, "a scenario file", |table, log| Self::from_table(table, options, log))
    }

    fn from_table(table: &Table<'_, '_>, options: &ReadOptions<'_>, mut log: Log) -> Result<Self, Problems> {
        table.only(&DOCUMENT_KEYS, &mut log);
        let duration = table.need("duration", "duration = \"10s\"", &mut log);
        let duration = duration.and_then(|value| value.some_time(&mut log));
        let warmup = warmup(table, duration, &mut log);
        let seed = table.get("seed").and_then(|value| value.integer(0, u64::MAX, &mut log));
        let Some(mut link) = LinkFile::inline_or_named(table, options, &mut log)? else {
            return Err(log.into_errors());
        };
        let mut peers = peers::peers(table, &link, options, &mut log);
        let links: Vec<&LinkFile> = std::iter::once(&link).chain(peers.iter().map(|peer| &peer.link)).collect();
        let pools = peers::pools(table, &links, &mut log);
        let changes = changes::changes(table, &link, options, duration, &mut log);
        let course = Course { first: &link, changes: &changes, duration };
        let sources = sources(table, course, &mut peers, &mut log);
        // Here a link is not alone.
        let alone = |problem: &Problem| matches!(problem.kind(), ProblemKind::Misplaced { key: "pool", .. });
        for link in std::iter::once(&mut link).chain(peers.iter_mut().map(|peer| &mut peer.link)) {
            link.warnings.retain(|warning| !alone(warning));
        }
        let warnings = log.finish()?;
        Ok(Self {
            names: changes::names(&link, &changes),
            link,
            duration: duration.expect("its absence is an error"),
            warmup,
            seed: seed.unwrap_or(1),
            sources,
            changes,
            peers,
            pools,
            warnings,
        })
    }
}

fn warmup(table: &Table<'_, '_>, duration: Option<Nanos>, log: &mut Log) -> Nanos {
    let Some(value) = table.get("warmup") else { return Nanos::ZERO };
    let warmup = value.time(log).unwrap_or(Nanos::ZERO);
    if let Some(duration) = duration
        && warmup >= duration
    {
        log.error(value.span(), ProblemKind::BeyondEnd { time: warmup, duration });
    }
    warmup
}

/// The sources of the scenario's own link; those of a peer go there.
fn sources(document: &Table<'_, '_>, own: Course<'_>, peers: &mut [Peer], log: &mut Log) -> Vec<SourceSpec> {
    const EXPECTED: &str = "a table for each source: [[source]], in double brackets";
    let Some(value) = document.need("source", "[[source]] and below it class = \"...\"", log) else {
        return Vec::new();
    };
    let tables = value.list(EXPECTED, log).unwrap_or_default();
    let mut sources = Vec::with_capacity(tables.len());
    for value in tables {
        if let Some(table) = value.table(PLACE, EXPECTED, log) {
            let Some(value) = table.get("link") else {
                sources.extend(source(&table, own, log));
                continue;
            };
            let Some(name) = value.string("the name of a [[peer]] in quotes", log) else { continue };
            if let Some(peer) = peers.iter_mut().find(|peer| peer.name == name) {
                let course = Course { first: &peer.link, changes: &[], duration: own.duration };
                peer.sources.extend(source(&table, course, log));
            } else {
                let names = peers.iter().map(|peer| peer.name.as_str());
                log.error(value.span(), unknown_word("[[peer]]", name, names));
            }
        }
    }
    sources
}

fn source(table: &Table<'_, '_>, course: Course<'_>, log: &mut Log) -> Option<SourceSpec> {
    let Course { first, duration, .. } = course;
    table.only(&KEYS, log);
    if table.get("shape").is_some() {
        let why = "cannot be run yet".to_owned();
        log.error(table.key_span("shape"), ProblemKind::Misplaced { key: "shape", why, help: "leave it out" });
    }
    let class = table.need("class", "class = \"...\"", log).and_then(|value| {
        let name = value.string("the name of a class in quotes", log)?;
        Some((course.leaf(name, value.span(), log)?, name, value.span()))
    });
    let model = table.need("model", "model = \"greedy\"", log).and_then(|value| model(table, value, first, log));
    let packet = table.need("packet", "packet = \"1000B\"", log).and_then(|value| packet(value, course.mtu(), log));
    let active = match table.get("active") {
        Some(value) => active(value, duration, log),
        None => Some(Vec::new()),
    };
    if let (Some((class, name, _)), Some(&Model::Saturating(rate))) = (&class, model.as_ref()) {
        // A class that only a change brings has a share then.
        let share = if class.index() < first.tree.len() { first.tree.rate_all_busy(*class) } else { 0 };
        if rate.bps() < share {
            let (key, help) = ("rate", "write more than the class can get, or use model = \"cbr\"");
            let why =
                format!("of {} does not saturate \"{name}\", whose share is {}", show_rate(rate), show_bps(share));
            log.error(table.key_span(key), ProblemKind::Misplaced { key, why, help });
        }
    }
    if let (Some((class, name, span)), Some(active)) = (&class, &active) {
        let span = table.get("active").map_or_else(|| span.clone(), Value::span);
        course.check_active(*class, name, active, span, log);
    }
    let spec = SourceSpec { class: class?.0, model: model?, packet: packet?, active: active? };
    if let Err(error) = spec.validate() {
        log.error(table.span.clone(), ProblemKind::Refused { message: error.to_string() });
        return None;
    }
    Some(spec)
}

fn model(table: &Table<'_, '_>, value: Value<'_, '_>, link: &LinkFile, log: &mut Log) -> Option<Model> {
    let word = value.string("the name of a model in quotes", log)?;
    let names = MODELS.iter().map(|&(name, _)| name);
    if OTHER_MODELS.contains(&word) {
        let known = names.collect::<Vec<_>>().join(", ");
        log.error(value.span(), ProblemKind::ModelNotHere { what: "source model", model: word.to_owned(), known });
        return None;
    }
    let Some(&(_, kind)) = MODELS.iter().find(|&&(name, _)| name == word) else {
        log.error(value.span(), unknown_word("source model", word, names));
        return None;
    };
    for key in ["on", "off"] {
        if table.get(key).is_some() {
            let why = format!("says nothing to the model {word}");
            log.error(table.key_span(key), ProblemKind::Misplaced { key, why, help: "leave it out" });
        }
    }
    if kind == Kind::Greedy {
        for key in ["rate", "packets_per_second"] {
            if table.get(key).is_some() {
                let why = "says nothing to the model greedy, which always has another packet".to_owned();
                let help = "leave it out, or use model = \"cbr\"";
                log.error(table.key_span(key), ProblemKind::Misplaced { key, why, help });
            }
        }
        return Some(Model::Greedy);
    }
    if kind == Kind::Saturating {
        if table.get("packets_per_second").is_some() {
            let why = "says nothing to the model saturating".to_owned();
            let (key, help) = ("packets_per_second", "write rate, above what the class can get");
            log.error(table.key_span(key), ProblemKind::Misplaced { key, why, help });
        }
        let value = table.need("rate", "rate = \"110mbit\"", log)?;
        return Some(Model::Saturating(value.rate(Some(link.tree.link().rate), log)?));
    }
    table.not_both("rate", "packets_per_second", log);
    if let Some(value) = table.get("rate") {
        let rate = value.rate(Some(link.tree.link().rate), log)?;
        return Some(if kind == Kind::Cbr { Model::CbrRate(rate) } else { Model::PoissonRate(rate) });
    }
    let Some(value) = table.get("packets_per_second") else {
        let kind = ProblemKind::Neither { place: PLACE, one: "rate", other: "packets_per_second" };
        log.error(table.span.clone(), kind);
        return None;
    };
    let per_1000_s = packets_per_1000_s(value, log)?;
    Some(if kind == Kind::Cbr { Model::CbrPackets { per_1000_s } } else { Model::PoissonPackets { per_1000_s } })
}

/// A whole number or a decimal of at most three places, without unit.
fn packets_per_1000_s(value: Value<'_, '_>, log: &mut Log) -> Option<u64> {
    let text = match value.value.get_ref() {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => {
            value.wrong_type("a number such as 15 or 0.5", log);
            return None;
        }
    };
    let found = parse_thousandths(text).filter(|found| (1..=MAX_PACKETS_PER_SECOND * 1000).contains(found));
    if found.is_none() {
        let min = "0.001 (and no finer)".to_owned();
        value.out_of_range(text.to_owned(), min, MAX_PACKETS_PER_SECOND.to_string(), log);
    }
    found
}

fn packet(value: Value<'_, '_>, mtu: u32, log: &mut Log) -> Option<PacketSize> {
    const EXPECTED: &str = "a size such as \"1000B\", or { uniform = [\"40B\", \"700B\"], header = \"40B\" }";
    let not_here = |word: &str, log: &mut Log| {
        let known = "a size, and { uniform, header }".to_owned();
        let model = word.to_owned();
        log.error(value.span(), ProblemKind::ModelNotHere { what: "length of packets", model, known });
    };
    let max = u64::from(u32::MAX);
    let size = match value.value.get_ref() {
        DeValue::Table(_) => {
            let table = value.table("packet", EXPECTED, log)?;
            if let Some(word) = OTHER_PACKETS.into_iter().find(|word| table.get(word).is_some()) {
                not_here(word, log);
                return None;
            }
            table.only(&["uniform", "header"], log);
            let ends = table.need("uniform", "uniform = [\"40B\", \"700B\"]", log)?;
            let ends = ends.list("the shortest and the longest: [\"40B\", \"700B\"]", log)?;
            let &[min, longest] = &ends[..] else {
                value.wrong_type("the shortest and the longest: uniform = [\"40B\", \"700B\"]", log);
                return None;
            };
            let min = min.size(max, log);
            let longest = longest.size(max, log);
            let header = table.get("header").map_or(Some(0), |value| value.size(max, log));
            PacketSize::Uniform { min: min? as u32, max: longest? as u32, header: header? as u32 }
        }
        DeValue::String(word) if OTHER_PACKETS.contains(&word.as_ref()) => {
            not_here(word, log);
            return None;
        }
        _ => {
            value.quantity(EXPECTED, log)?;
            PacketSize::Fixed(value.some_size(max, log)? as u32)
        }
    };
    let longest = match size {
        PacketSize::Fixed(len) => u64::from(len),
        PacketSize::Uniform { max, header, .. } => u64::from(max) + u64::from(header),
    };
    if longest > u64::from(mtu) {
        log.error(value.span(), ProblemKind::AboveMtu { bytes: longest, mtu });
        return None;
    }
    Some(size)
}

fn active(value: Value<'_, '_>, duration: Option<Nanos>, log: &mut Log) -> Option<Vec<Interval>> {
    let all = match value.value.get_ref().as_str() {
        Some(_) => vec![value],
        None => value.list("a list of intervals such as [\"0s..10s\", \"20s..25s\"]", log)?,
    };
    if all.is_empty() {
        let why = "has no interval".to_owned();
        let help = "leave the source out; or leave active out, and it sends all the time";
        log.error(value.span(), ProblemKind::Misplaced { key: "active", why, help });
        return None;
    }
    let mut intervals: Vec<Interval> = Vec::with_capacity(all.len());
    let mut sound = true;
    for value in all {
        let Some(interval) = interval(value, log) else {
            sound = false;
            continue;
        };
        let before = intervals.last().map_or(Nanos::ZERO, |interval| interval.end);
        if interval.start < before {
            log.error(value.span(), ProblemKind::Overlap { start: interval.start, before });
            sound = false;
        }
        if let Some(duration) = duration.filter(|&duration| interval.end > duration) {
            log.warn(value.span(), ProblemKind::BeyondEnd { time: interval.end, duration });
        }
        intervals.push(interval);
    }
    sound.then_some(intervals)
}

fn interval(value: Value<'_, '_>, log: &mut Log) -> Option<Interval> {
    const EXPECTED: &str = "an interval such as \"0s..10s\"";
    let text = value.string(EXPECTED, log)?;
    let Some((start, end)) = text.split_once("..") else {
        value.wrong_type(EXPECTED, log);
        return None;
    };
    let start = value.unit(parse_time(start), log)?;
    let end = value.unit(parse_time(end), log)?;
    if start >= end {
        log.error(value.span(), ProblemKind::EmptyInterval { start, end });
        return None;
    }
    Some(Interval { start, end })
}
