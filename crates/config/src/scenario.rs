//! Scenario files: a link, its sources and their times. `docs/link-files.md` is the users' reference.

use std::path::Path;
use std::sync::Arc;

mod editor;
mod expect;
mod model;
mod packet;
mod route;
mod script;
mod shape;
mod source;
mod trace;

pub use editor::schema;
pub use expect::{Expectation, MAX_EXPECTATIONS, Quantity, Unit};
pub use route::RouteSpec;
pub use script::{ScriptRun, read_script};

use fairlink_core::Nanos;
#[cfg(feature = "tools")]
use fairlink_core::Rate;
use fairlink_traffic::SourceSpec;

use self::expect::Known;
use self::route::Network;
use crate::changes::{self, Change, Course};
use crate::document;
#[cfg(feature = "tools")]
use crate::files::is_tc_file;
use crate::link::pools::{self, PoolSpec};
use crate::link::{DOCUMENT_KEYS, LinkFile, ReadOptions};
use crate::peers::{self, Peer};
use crate::problem::{Log, Problem, ProblemKind, Problems, Source, SourceText};
use crate::reader::{Table, Value, unknown_word};
#[cfg(feature = "tools")]
use crate::tc::{self, ImportOptions};
#[cfg(feature = "tools")]
use crate::toml_text::quoted;
use crate::units::show_time;

const PLACE: &str = "[[source]]";

/// A scenario file that was read and found sound.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The link.
    pub link: LinkFile,
    /// Length of the run; not zero.
    pub duration: Nanos,
    /// Time at the start that averages exclude; shorter than the run.
    pub warmup: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Sources in file order. All are valid by [`SourceSpec::validate`], and their packets are no longer than the
    /// link's mtu. Classes are numbered as in [`Scenario::names`].
    pub sources: Vec<SourceSpec>,
    /// Names of all classes: those of the link by their ids, then those that only changes bring.
    pub names: Vec<String>,
    /// Changes of the link during the run, by time. Empty if there are peers or pools.
    pub changes: Vec<Change>,
    /// Scripts of the HTB text's generator; their flows are among the sources.
    pub scripts: Vec<ScriptRun>,
    /// Links that run beside it.
    pub peers: Vec<Peer>,
    /// Pools shared by classes of all links.
    pub pools: Vec<PoolSpec>,
    /// Propagation delay of the scenario's own link, for packets that continue to another.
    pub propagation: Nanos,
    /// Time until a core sees what others have done, if the file says; see [`LinkFile::cores`].
    pub lag: Option<Nanos>,
    /// Sources whose packets cross several links.
    pub routes: Vec<RouteSpec>,
    /// Expectations about the runs.
    pub expectations: Vec<Expectation>,
    /// Warnings of the scenario only; [`LinkFile::warnings`] has the link's.
    pub warnings: Vec<Problem>,
}

impl Scenario {
    /// Reads a scenario file. The link file that it names is looked for beside it.
    ///
    /// # Errors
    /// Everything that is wrong with it, as far as one thing does not hide another.
    pub fn read(path: impl AsRef<Path>, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        Self::from_source(&SourceText::read(path)?, options)
    }

    /// Makes the scenario of a script of the HTB text's generator on a link: that of a link file, or of a file of tc
    /// commands (`.tc`), whose further devices become peers. `rate` is the rate of tc's links, which may not be in the
    /// commands.
    ///
    /// # Errors
    /// Errors of either file, or a mismatch between them.
    #[cfg(feature = "tools")]
    pub fn of_script(
        script: &Path,
        link: &Path,
        rate: Option<Rate>,
        options: &ReadOptions<'_>,
    ) -> Result<(Self, Vec<Problem>), Problems> {
        let mut notes = Vec::new();
        let head = if is_tc_file(link) {
            let made = tc::import_source(&SourceText::read(link)?, &ImportOptions { rate, device: None })?;
            notes = made.notes;
            made.text
        } else {
            format!("link = {}\n", quoted(&link.display().to_string()))
        };
        let file = quoted(&script.display().to_string());
        // Without a directory in its name, paths are looked for where the caller is.
        let text = format!("{head}\n[[source]]\nmodel = \"script\"\nfile = {file}\n");
        Ok((Self::parse("the script and its link", text, options)?, notes))
    }

    /// Reads a scenario file's text; `name` is its name in errors, and the path relative to which a link file is found.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn parse(name: &str, text: impl Into<String>, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        Self::from_source(&SourceText::new(name, text.into()), options)
    }

    /// Reads a scenario file's text. Files that it names are relative to the source of the text.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn from_source(source: &Source, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        document::read(source, "a scenario file", |table, log| Self::from_table(table, options, log))
    }

    fn from_table(table: &Table<'_, '_>, options: &ReadOptions<'_>, mut log: Log) -> Result<Self, Problems> {
        table.only(&DOCUMENT_KEYS, &mut log);
        let duration = match table.get("duration") {
            None => script::latest_end(table, &log),
            Some(_) => None,
        };
        let duration = duration.or_else(|| {
            let duration = table.need("duration", "duration = \"10s\"", &mut log);
            duration.and_then(|value| value.some_time(&mut log))
        });
        let warmup = warmup(table, duration, &mut log);
        let seed = table.get("seed").and_then(|value| value.integer(0, u64::MAX, &mut log));
        let Some(mut link) = LinkFile::inline_or_named(table, options, &mut log)? else {
            return Err(log.into_errors());
        };
        let mut peers = peers::peers(table, &link, options, &mut log);
        let links: Vec<&LinkFile> = std::iter::once(&link).chain(peers.iter().map(|peer| &peer.link)).collect();
        let pools = pools::read(table, &links, &mut log);
        let changes = changes::changes(table, &link, options, duration, &mut log);
        let course = Course { first: &link, changes: &changes, duration };
        let Senders { sources, routes, scripts } = senders(table, course, &mut peers, &mut log);
        let propagation = table.get("propagation").and_then(|value| value.time(&mut log)).unwrap_or(Nanos::ZERO);
        let lag = table.get("lag").and_then(|value| lag(value, &mut log));
        let expectations = {
            let source = Arc::clone(log.source());
            let (leaves, inner) = classes(&link, &changes, &peers);
            let known = Known { leaves, inner, link: link.tree.link().rate, duration, text: source.inner() };
            expect::expectations(table, &known, &mut log)
        };
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
            scripts,
            peers,
            pools,
            propagation,
            lag,
            routes,
            expectations,
            warnings,
        })
    }
}

/// Names of leaves and of classes with children: of the link, of those that changes bring, and of peers (`LINK:CLASS`).
fn classes(link: &LinkFile, changes: &[Change], peers: &[Peer]) -> (Vec<String>, Vec<String>) {
    let own = std::iter::once(link).chain(changes.iter().map(|change| &change.link)).map(|link| (None, link));
    let all = own.chain(peers.iter().map(|peer| (Some(&peer.name), &peer.link)));
    let (mut leaves, mut inner) = (Vec::new(), Vec::new());
    for (peer, link) in all {
        for class in link.tree.classes() {
            let name = link.names.name(class);
            let name = peer.map_or_else(|| name.to_owned(), |peer| format!("{peer}:{name}"));
            if link.tree.is_leaf(class) { &mut leaves } else { &mut inner }.push(name);
        }
    }
    (leaves, inner)
}

/// Range of `lag`.
pub const LAG: [Nanos; 2] = [Nanos(100), Nanos::from_secs(1)];

fn lag(value: Value<'_, '_>, log: &mut Log) -> Option<Nanos> {
    let lag = value.time(log)?;
    if lag < LAG[0] || lag > LAG[1] {
        value.out_of_range(show_time(lag), show_time(LAG[0]), show_time(LAG[1]), log);
        return None;
    }
    Some(lag)
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

/// Sources of the scenario's own link; those of a peer are added to the peer.
#[derive(Default)]
struct Senders {
    sources: Vec<SourceSpec>,
    /// Of all links.
    routes: Vec<RouteSpec>,
    scripts: Vec<ScriptRun>,
}

fn senders(document: &Table<'_, '_>, own: Course<'_>, peers: &mut [Peer], log: &mut Log) -> Senders {
    const EXPECTED: &str = "a table for each source: [[source]], in double brackets";
    let Some(value) = document.need("source", "[[source]] and below it class = \"...\"", log) else {
        return Senders::default();
    };
    let tables = value.list(EXPECTED, log).unwrap_or_default();
    let mut senders = Senders::default();
    for value in tables {
        if let Some(table) = value.table(PLACE, EXPECTED, log) {
            if script::is_script(&table) {
                senders.sources.extend(script::sources(&table, own, peers, &mut senders.scripts, log));
                continue;
            }
            let place = match table.get("link") {
                None => Some(0),
                Some(value) => {
                    let Some(name) = value.string("the name of a [[peer]] in quotes", log) else { continue };
                    let place = peers.iter().position(|peer| peer.name == name);
                    if place.is_none() {
                        let names = peers.iter().map(|peer| peer.name.as_str());
                        log.error(value.span(), unknown_word("[[peer]]", name, names));
                    }
                    place.map(|place| place + 1)
                }
            };
            let Some(place) = place else { continue };
            let course = match place.checked_sub(1) {
                None => own,
                Some(peer) => Course { first: &peers[peer].link, changes: &[], duration: own.duration },
            };
            let Some(spec) = source::source(&table, course, log) else { continue };
            let count = place.checked_sub(1).map_or(senders.sources.len(), |peer| peers[peer].sources.len());
            let network = Network { own: own.first, peers };
            senders.routes.extend(route::route(&table, &network, ((place, count), &spec), &senders.routes, log));
            match place.checked_sub(1) {
                None => senders.sources.push(spec),
                Some(peer) => peers[peer].sources.push(spec),
            }
        }
    }
    senders
}
