//! Link files: a link, its scheduler and its tree of classes. `docs/link-files.md` is the users' reference.

mod head;

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use fairlink_core::schedulers::cbq::{self, Shortfall};
use fairlink_core::{
    BuildError, ClassId, Feature, Hierarchy, Leniency, LinkConfig, Overhead, Rate, SchedulerInfo, registry,
};
use miette::{NamedSource, Severity};

use crate::class::{self, LinkFacts, RawClass};
use crate::link::head::Head;
use crate::matching::{Match, Reach};
use crate::names::Names;
use crate::problem::{Log, Problem, ProblemKind, Problems, Source, Span};
use crate::reader::{self, Table, unknown_word};
use crate::tree::{self, Built};
use crate::units::show_size;

/// The scheduler of a file that names none.
pub const DEFAULT_SCHEDULER: &str = "hls";
/// Largest frame of a file that says nothing of it, in bytes.
pub const DEFAULT_MTU: u32 = 1500;
/// Largest overhead that may be given in bytes.
pub const MAX_OVERHEAD: u64 = 1024;
/// Most packets queued in all classes together, where a file says nothing of it and has few classes.
pub const DEFAULT_QUEUED: u32 = 65_536;

/// The most memory that a scheduler with its queues may take where a file says nothing of it, in bytes: 4 GiB.
pub const DEFAULT_MEMORY: u64 = 4 << 30;
/// The most that a file may allow, in bytes: 1 TiB.
pub const MAX_MEMORY: u64 = 1 << 40;

/// What a file may hold, be it about a link or about traffic on it.
pub(crate) const DOCUMENT_KEYS: [&str; 9] =
    ["link", "class", "duration", "warmup", "seed", "source", "change", "peer", "pool"];

/// How strictly a file is read, and for which scheduler.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions<'a> {
    /// Whether what the scheduler cannot honour is an error or a warning.
    pub leniency: Leniency,
    /// The scheduler to read it for, instead of the file's own.
    pub scheduler: Option<&'a str>,
}

impl Default for ReadOptions<'_> {
    /// Refuse what the file's own scheduler cannot honour.
    fn default() -> Self {
        Self { leniency: Leniency::Refuse, scheduler: None }
    }
}

/// A link file that was read and found sound.
#[derive(Clone, Debug)]
pub struct LinkFile {
    /// Name of the scheduler, one of [`registry::SCHEDULERS`].
    pub scheduler: String,
    /// The link and its classes. Ids follow file order, parents first.
    pub tree: Hierarchy,
    /// Names of the classes.
    pub names: Names,
    /// Longest frame accepted, in bytes before [`LinkFile::overhead`]; `tree.link().max_packet` is its accounted length.
    pub mtu: u32,
    /// What a frame costs beyond its length.
    pub overhead: Overhead,
    /// The most bytes that a scheduler for this file, with its queues, may take; see [`LinkFile::check_memory`].
    pub memory_limit: u64,
    /// Which frames belong to which leaf; the first that matches counts.
    pub matches: Vec<(ClassId, Match)>,
    /// The leaf of frames that match nothing: the one named by `default`, else the leaf of a match `any`, else the only leaf
    /// without a match. See [`LinkFile::require_default`].
    pub default_class: Option<ClassId>,
    /// Which root-level class borrows from which pool.
    pub pools: Vec<(ClassId, String)>,
    /// What is doubtful but usable.
    pub warnings: Vec<Problem>,
    source: Source,
    /// By id; of the link, its table.
    spans: Vec<Span>,
    /// In the order of ids.
    features: Vec<(ClassId, Feature, Span)>,
    /// The place of the scheduler's name where the file has it.
    scheduler_span: Option<Span>,
    /// The place of the link's `buffer` where the file has it.
    buffer_span: Option<Span>,
}

impl LinkFile {
    /// Reads a link file. A scenario file serves as well: what it says of traffic is left aside.
    ///
    /// # Errors
    /// Everything that is wrong with it, as far as one thing does not hide another.
    pub fn read(path: impl AsRef<Path>, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        Self::from_source(reader::open(path.as_ref())?, options)
    }

    /// Reads a link file's text; `name` is what errors call it.
    ///
    /// # Errors
    /// As [`LinkFile::read`].
    pub fn parse(name: &str, text: impl Into<String>, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        Self::from_source(Source::new(NamedSource::new(name, text.into())), options)
    }

    fn from_source(source: Source, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        let mut log = Log::new(&source);
        let document = reader::parse(source.inner(), &mut log)?;
        let table = Table { place: "a link file", table: document.get_ref(), span: 0..0 };
        table.only(&DOCUMENT_KEYS, &mut log);
        match table.get("link").and_then(|value| value.value.get_ref().as_str()) {
            Some(path) if !log.has_errors() => Self::read_from(&source, path, options),
            _ => Self::from_table(&table, options, log),
        }
    }

    /// Reads the link of a scenario or of one of its peers: written there, or in the file that `link` names. `None` where it is
    /// wrong and the log says so.
    ///
    /// # Errors
    /// What is wrong with the file named.
    pub(crate) fn inline_or_named(
        table: &Table<'_, '_>,
        options: &ReadOptions<'_>,
        log: &mut Log,
    ) -> Result<Option<Self>, Problems> {
        let Some(value) = table.need("link", "link = \"FILE\", or [link] and [[class]] as in a link file", log) else {
            return Ok(None);
        };
        if let Some(path) = value.value.get_ref().as_str() {
            if table.get("class").is_some() {
                let why = "stand in the link file, which is named here".to_owned();
                let help = "move them there, or write [link] here";
                log.error(table.key_span("class"), ProblemKind::Misplaced { key: "class", why, help });
            }
            return Self::read_from(log.source(), path, options).map(Some);
        }
        match Self::from_table(table, options, Log::new(log.source())) {
            Ok(link) => Ok(Some(link)),
            Err(problems) => {
                log.add_all(problems);
                Ok(None)
            }
        }
    }

    /// Reads the link file that another file names. That one has to have a `[link]` of its own, so that files cannot name
    /// each other in circles.
    ///
    /// # Errors
    /// As [`LinkFile::read`].
    fn read_from(other: &Source, path: &str, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        let path = Path::new(other.name()).parent().unwrap_or(Path::new("")).join(path);
        let source = reader::open(&path)?;
        let mut log = Log::new(&source);
        let document = reader::parse(source.inner(), &mut log)?;
        let table = Table { place: "a link file", table: document.get_ref(), span: 0..0 };
        table.only(&DOCUMENT_KEYS, &mut log);
        Self::from_table(&table, options, log)
    }

    /// Reads `[link]` and `[[class]]` of a document.
    ///
    /// # Errors
    /// As [`LinkFile::read`], after what `log` has already.
    fn from_table(document: &Table<'_, '_>, options: &ReadOptions<'_>, mut log: Log) -> Result<Self, Problems> {
        match Self::assemble(document, options, &mut log) {
            Some(mut file) => {
                file.warnings = log.finish()?;
                Ok(file)
            }
            None => Err(log.into_errors()),
        }
    }

    /// `None` where something is wrong, which is then in the log.
    fn assemble(document: &Table<'_, '_>, options: &ReadOptions<'_>, log: &mut Log) -> Option<Self> {
        let source = Arc::clone(log.source());
        let head = Head::read(document, options, log)?;
        let classes = classes(document, head.rate, log);
        check_reach(&classes, log);
        if log.has_errors() {
            // Guarantees are not added up then: some may be missing because they could not be read.
            tree::check_names(&classes, log);
            return None;
        }
        let (rate, info) = (head.rate?, head.scheduler?);
        let max_queued = head.max_queued.unwrap_or_else(|| default_queued(classes.len()));
        let link = LinkConfig { rate, max_packet: head.overhead.accounted(head.mtu), max_queued };
        let Built { tree, names, order } = tree::build(&classes, link, head.rate_span.clone(), log)?;
        let mut spans = vec![head.span.clone()];
        let mut features = Vec::new();
        let mut matches = Vec::new();
        let mut pools = Vec::new();
        for (id, &index) in tree.classes().zip(&order) {
            let class = &classes[index];
            spans.push(class.name_span.clone());
            features.extend(class.features.iter().map(|(feature, span)| (id, *feature, span.clone())));
            check_class(id, class, &tree, log);
            pools.extend(class.pool.iter().map(|&(name, _)| (id, name.to_owned())));
        }
        // The first match of the file counts, and ids may be in another order than the file.
        let mut ids = vec![ClassId::ROOT; classes.len()];
        order.iter().zip(tree.classes()).for_each(|(&index, id)| ids[index] = id);
        for (class, &id) in classes.iter().zip(&ids) {
            matches.extend(class.matches.iter().map(|&(made, _)| (id, made)));
        }
        let mut file = Self {
            scheduler: info.name.to_owned(),
            tree,
            names,
            mtu: head.mtu,
            overhead: head.overhead,
            memory_limit: head.memory_limit,
            matches,
            default_class: None,
            pools,
            warnings: Vec::new(),
            source,
            spans,
            features,
            scheduler_span: head.scheduler_span,
            buffer_span: head.buffer_span,
        };
        file.default_class = file.find_default(head.default, log);
        match file.unsupported(info, options.leniency) {
            Ok(notes) => notes.into_iter().for_each(|note| log.add(note)),
            Err(problems) => log.add_all(problems),
        }
        Some(file)
    }

    /// The scheduler's entry in the registry.
    ///
    /// # Panics
    /// When [`LinkFile::scheduler`] was changed to a name that is not there.
    #[must_use]
    pub fn info(&self) -> &'static SchedulerInfo {
        registry::find(&self.scheduler).expect("the scheduler was looked up when the file was read")
    }

    /// Looks up another scheduler for this file, and what of the file it cannot honour (as warnings, if lenient).
    ///
    /// # Errors
    /// No such scheduler; or, if not lenient, what it cannot honour.
    pub fn for_scheduler(
        &self,
        name: &str,
        leniency: Leniency,
    ) -> Result<(&'static SchedulerInfo, Vec<Problem>), Problems> {
        let Some(info) = registry::find(name) else {
            return Err(Problems::one(Problem::error(&self.source, None, no_scheduler(name))));
        };
        Ok((info, self.unsupported(info, leniency)?))
    }

    /// How many bytes building `info` for this file takes, compared with the file's limit before anything is built.
    ///
    /// # Errors
    /// Both numbers, where it is more than [`LinkFile::memory_limit`].
    pub fn check_memory(&self, info: &SchedulerInfo) -> Result<u64, Problems> {
        let needed = (info.memory)(&self.tree);
        if needed <= self.memory_limit {
            return Ok(needed);
        }
        let kind = ProblemKind::TooLarge { scheduler: info.name, needed, limit: self.memory_limit };
        let span = self.buffer_span.clone().unwrap_or_else(|| self.spans[0].clone());
        Err(Problems::one(Problem::error(&self.source, Some(span), kind)))
    }

    /// The class that frames of no match go to; a gateway cannot do without.
    ///
    /// # Errors
    /// Says how to name one.
    pub fn require_default(&self) -> Result<ClassId, Problems> {
        self.default_class.ok_or_else(|| {
            let span = Some(self.spans[0].clone());
            Problems::one(Problem::error(&self.source, span, ProblemKind::NoDefault))
        })
    }

    /// What to tell the user when a scheduler refuses this file's tree: the refusal, with the name and the place of the class.
    #[must_use]
    pub fn explain(&self, error: &BuildError) -> Problems {
        let (class, message) = match *error {
            BuildError::Unsupported { scheduler, class, feature } => {
                let kind = self.unsupported_kind(scheduler, class, feature, 0, false);
                let span = self.feature_span(class, feature);
                return Problems::one(Problem::error(&self.source, span, kind));
            }
            BuildError::Parameter { class, what, value, min, max } => {
                (class, format!("\"{}\": {what} of {value} is outside {min} .. {max}", self.names.name(class)))
            }
            BuildError::Curve { class, what } => (class, format!("\"{}\" has {what}", self.names.name(class))),
            BuildError::NotAdmitted { .. } | BuildError::OutOfMemory { .. } => (ClassId::ROOT, error.to_string()),
        };
        Problems::one(Problem::error(&self.source, self.span(class), ProblemKind::Refused { message }))
    }

    /// The place of a class's name in the file, in bytes; of the link, its table.
    #[must_use]
    pub fn span(&self, class: ClassId) -> Option<Span> {
        self.spans.get(class.index()).cloned()
    }

    /// The file's name and text.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn feature_span(&self, class: ClassId, feature: Feature) -> Option<Span> {
        let first = self.features.partition_point(|&(other, ..)| other < class);
        self.features[first..]
            .iter()
            .take_while(|&&(other, ..)| other == class)
            .find(|&&(_, other, _)| other == feature)
            .map(|(.., span)| span.clone())
            .or_else(|| self.span(class))
    }

    /// One finding for each feature that `info` cannot honour.
    fn unsupported(&self, info: &SchedulerInfo, leniency: Leniency) -> Result<Vec<Problem>, Problems> {
        let mut all: Vec<_> = info.unsupported(&self.tree).collect();
        if !info.supports(Feature::Pool) {
            all.extend(self.pools.iter().map(|&(class, _)| (class, Feature::Pool)));
        }
        let ignore = leniency == Leniency::Ignore;
        let severity = if ignore { Severity::Warning } else { Severity::Error };
        let mut log = Log::new(&self.source);
        let mut seen: Vec<Feature> = Vec::new();
        for &(class, feature) in &all {
            if seen.contains(&feature) {
                continue;
            }
            seen.push(feature);
            let more = all.iter().filter(|&&(_, other)| other == feature).count() - 1;
            let kind = self.unsupported_kind(info.name, class, feature, more, ignore);
            let problem = Problem::new(severity, &self.source, self.feature_span(class, feature), kind);
            log.add(match &self.scheduler_span {
                Some(span) if info.name == self.scheduler => problem.also(span.clone(), "chosen here"),
                _ => problem,
            });
        }
        if info.name == cbq::ANCESTOR_ONLY.name {
            self.warn_of_shortfalls(&mut log);
        }
        log.finish()
    }

    /// Says which leaf loses most of its guarantee under `cbq-ancestor-only`. What cannot be built is refused elsewhere.
    fn warn_of_shortfalls(&self, log: &mut Log) {
        let shortfalls = cbq::shortfalls(&self.tree).unwrap_or_default();
        let lost = |short: &Shortfall| (short.guarantee.bps() - short.gets, Reverse(short.leaf));
        let Some(&Shortfall { leaf, guarantee, gets }) = shortfalls.iter().max_by_key(|short| lost(short)) else {
            return;
        };
        let name = self.names.name(leaf).to_owned();
        let (scheduler, more) = (cbq::ANCESTOR_ONLY.name, shortfalls.len() - 1);
        let kind = ProblemKind::Shortfall { name, scheduler, guarantee, gets, more };
        log.warn(self.spans[leaf.index()].clone(), kind);
    }

    fn unsupported_kind(
        &self,
        scheduler: &str,
        class: ClassId,
        feature: Feature,
        more: usize,
        ignored: bool,
    ) -> ProblemKind {
        let able: Vec<&str> = registry::able(feature).map(|info| info.name).collect();
        ProblemKind::Unsupported {
            name: self.names.name(class).to_owned(),
            what: match feature {
                Feature::Hierarchy => "has classes below it".to_owned(),
                other => format!("sets {}", other.as_str()),
            },
            scheduler: scheduler.to_owned(),
            able: able.join(", "),
            ignored,
            more,
        }
    }

    fn find_default(&self, named: Option<(&str, Span)>, log: &mut Log) -> Option<ClassId> {
        let any = self.matches.iter().find(|(_, made)| made.is_any()).map(|&(class, _)| class);
        let named = match named {
            Some((name, span)) => {
                let class = leaf(&self.tree, &self.names, name, span.clone(), log)?;
                if any.is_some() {
                    let why = "is never used, since a match \"any\" takes every frame".to_owned();
                    log.warn(span, ProblemKind::Misplaced { key: "default", why, help: "keep one of the two" });
                }
                Some(class)
            }
            None => None,
        };
        let mut unmatched = self.leaves_without_match();
        let only = match unmatched.len() {
            1 => Some(unmatched[0]),
            _ => None,
        };
        let default = named.or(any).or(only);
        unmatched.retain(|&class| Some(class) != default);
        if let (Some(&first), false) = (unmatched.first(), self.matches.is_empty()) {
            let kind = ProblemKind::NoMatch { name: self.names.name(first).to_owned(), more: unmatched.len() - 1 };
            log.warn(self.spans[first.index()].clone(), kind);
        }
        default
    }

    fn leaves_without_match(&self) -> Vec<ClassId> {
        let mut matched = vec![false; self.tree.len()];
        self.matches.iter().for_each(|&(class, _)| matched[class.index()] = true);
        self.tree.leaves().iter().copied().filter(|class| !matched[class.index()]).collect()
    }
}

/// The leaf of that name; anything else is reported at `span`.
pub(crate) fn leaf(tree: &Hierarchy, names: &Names, name: &str, span: Span, log: &mut Log) -> Option<ClassId> {
    let Some(class) = names.id(name) else {
        let suggestion = if log.is_full() { None } else { names.closest(name).map(str::to_owned) };
        log.error(span, ProblemKind::UnknownClass { name: name.to_owned(), suggestion });
        return None;
    };
    if tree.is_leaf(class) {
        return Some(class);
    }
    let kind = ProblemKind::NotALeaf { name: name.to_owned(), leaf: names.name(first_leaf(tree, class)).to_owned() };
    log.error(span, kind);
    None
}

/// The first leaf below a class.
pub(crate) fn first_leaf(tree: &Hierarchy, mut class: ClassId) -> ClassId {
    while let Some(&child) = tree.children(class).first() {
        class = child;
    }
    class
}

/// The scheduler that has that name, or has it as another name.
///
/// # Errors
/// [`ProblemKind::UnknownWord`] with the nearest name and all of them.
pub fn scheduler_named(name: &str) -> Result<&'static SchedulerInfo, ProblemKind> {
    registry::find(name).ok_or_else(|| no_scheduler(name))
}

fn no_scheduler(name: &str) -> ProblemKind {
    unknown_word("scheduler", name, registry::SCHEDULERS.iter().map(|info| info.name))
}

/// Four packets for each class of a large tree.
fn default_queued(classes: usize) -> u32 {
    u32::try_from(classes.saturating_mul(4)).unwrap_or(u32::MAX).max(DEFAULT_QUEUED)
}

fn classes<'a>(document: &Table<'a, '_>, rate: Option<Rate>, log: &mut Log) -> Vec<RawClass<'a>> {
    const EXPECTED: &str = "a table for each class: [[class]], in double brackets";
    let Some(value) = document.need("class", "[[class]] and below it name = \"...\"", log) else { return Vec::new() };
    // Without a rate, shares of the link are read as if it had the largest, so that other errors are still found.
    let facts = LinkFacts { rate: rate.or(Some(Rate::MAX)) };
    let tables = value.list(EXPECTED, log).unwrap_or_default();
    let mut classes = Vec::with_capacity(tables.len());
    for value in &tables {
        if let Some(table) = value.table(class::PLACE, EXPECTED, log) {
            classes.extend(class::read(&table, facts, log));
        }
    }
    // A class without a usable name leaves its children without a parent: errors that follow from it are not reported.
    if classes.len() < tables.len() { Vec::new() } else { classes }
}

/// Reports matches that are never the first to match.
fn check_reach(classes: &[RawClass<'_>], log: &mut Log) {
    let mut reach = Reach::default();
    let mut seen: Vec<(&RawClass<'_>, &(Match, Span))> = Vec::new();
    for class in classes {
        for made in &class.matches {
            if let Some(earlier) = reach.add(&made.0) {
                let (by, (earlier, span)) = seen[earlier];
                let kind = ProblemKind::Unreachable { earlier: earlier.to_string(), name: by.name.to_owned() };
                log.error_also(made.1.clone(), kind, span.clone(), "this comes first");
            }
            seen.push((class, made));
        }
    }
}

/// What can only be said of a class once its place in the tree is known.
fn check_class(id: ClassId, class: &RawClass<'_>, tree: &Hierarchy, log: &mut Log) {
    if let Some((key, span)) = &class.leaf_only
        && !tree.is_leaf(id)
    {
        log.error(span.clone(), ProblemKind::LeafOnly { key, name: class.name.to_owned() });
    }
    if let Some((_, span)) = &class.pool {
        if tree.parent(id) == Some(ClassId::ROOT) {
            let why =
                "is for several links that share; a link that runs alone has nothing to borrow from it".to_owned();
            log.warn(
                span.clone(),
                ProblemKind::Misplaced { key: "pool", why, help: "leave it out, unless other links name the pool" },
            );
        } else {
            let why = "is for classes that hang off the link".to_owned();
            log.error(
                span.clone(),
                ProblemKind::Misplaced { key: "pool", why, help: "set it at the ancestor that does" },
            );
        }
    }
    let limits = tree.config(id).limits;
    let longest = tree.link().max_packet;
    if tree.is_leaf(id) && limits.bytes < longest {
        let [held, longest] = [limits.bytes, longest].map(|bytes| show_size(u64::from(bytes)));
        let why = format!("of {held} holds no packet of the longest length, {longest}");
        let help = "such packets are dropped; make it longer, or lower the mtu";
        log.warn(class.name_span.clone(), ProblemKind::Misplaced { key: "buffer", why, help });
    }
}
