//! Link files: a link, its scheduler and its tree of classes. `docs/link-files.md` is the users' reference.

mod commands;
mod gso;
mod head;
pub(crate) mod pools;
mod several;
mod steep;
#[cfg(test)]
mod tests;
mod warnings;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use fairlink_core::{
    BuildError, ClassId, Cores, Feature, Hierarchy, Leniency, LinkConfig, Nanos, Overhead, QueueLimits, Rate,
    SchedulerInfo, Shortfall, Split, WhenFull, registry,
};
use fairlink_schema::keys::LinkKey;
pub use fairlink_schema::keys::{MAX_MEMORY, MAX_OVERHEAD};
use fairlink_theory::ideal::highest;
use miette::Severity;

use crate::class::{self, LinkFacts, Place, RawClasses, default_limits};
use crate::classid::Classid;
use crate::document;
use crate::files::is_tc_file;
use crate::link::head::Head;
use crate::matching::{Budget, Classifier, FrameKey, Match, Reach, Witness};
use crate::names::Names;
use crate::problem::{Log, Problem, ProblemKind, Problems, Source, SourceText, Span};
use crate::reader::{Table, Value, closest};
use crate::tree::{self, Built};
use crate::units::{show_bps, show_rate, show_size, show_time};

use commands::{TcLink, TcOptions};
pub use gso::Gso;
use pools::PoolSpec;
pub use several::MAX_LINKS;

/// The scheduler of a file that names none.
pub const DEFAULT_SCHEDULER: &str = "hls";
/// Largest frame of a file that says nothing of it, in bytes.
pub const DEFAULT_MTU: u32 = 1500;
/// Default limit of packets queued in all classes together, for files with few classes.
pub const DEFAULT_QUEUED: u32 = 65_536;

/// Levels of classes that the kernel's HTB takes, from a class below the qdisc to the leaves (`TC_HTB_MAXDEPTH`).
pub const KERNEL_HTB_LEVELS: usize = 8;

/// Default memory limit of a scheduler with its queues, in bytes: 4 GiB.
pub const DEFAULT_MEMORY: u64 = 4 << 30;

/// Keys of a document: a link file or a scenario.
pub(crate) const DOCUMENT_KEYS: [&str; 12] =
    ["link", "class", "duration", "warmup", "seed", "source", "change", "peer", "pool", "propagation", "expect", "lag"];

/// Strictness and scheduler for reading a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions<'a> {
    /// Treatment of unsupported settings: errors or warnings.
    pub leniency: Leniency,
    /// The scheduler to read it for, instead of the file's own.
    pub scheduler: Option<&'a str>,
}

impl Default for ReadOptions<'_> {
    /// Refuses settings that the file's own scheduler does not support.
    fn default() -> Self {
        Self { leniency: Leniency::Refuse, scheduler: None }
    }
}

/// A link file that was read and found sound.
#[derive(Clone, Debug)]
pub struct LinkFile {
    /// Name of the link, if the file has one.
    pub name: Option<String>,
    /// Input and output interface, if the file names them.
    pub ports: [Option<String>; 2],
    /// Interface on which the machine sends, if the link shapes the machine's own traffic.
    pub egress: Option<String>,
    /// Name of the scheduler, one of [`registry::SCHEDULERS`].
    pub scheduler: String,
    /// The link and its classes. Ids follow file order, parents first.
    pub tree: Hierarchy,
    /// Names of the classes.
    pub names: Names,
    /// Longest frame accepted, in bytes before [`LinkFile::overhead`]. `tree.link().max_packet` is its accounted length, or
    /// that of the longest piece of a super-frame that is scheduled as one.
    pub mtu: u32,
    /// Treatment of super-frames.
    pub gso: Gso,
    /// The cores that share the link.
    pub cores: Cores,
    /// Overhead of each frame on the link.
    pub overhead: Overhead,
    /// The most bytes that a scheduler for this file, with its queues, may take; see [`LinkFile::check_memory`].
    pub memory_limit: u64,
    /// Matches in file order with their leaves; the first match that applies decides.
    pub matches: Vec<(ClassId, Match)>,
    /// The leaf of frames that match nothing: the one named by `default`, else the leaf of a match `any`, else the only
    /// leaf without a match. See [`LinkFile::require_default`].
    pub default_class: Option<ClassId>,
    /// Classes directly below the link, with the pools that they borrow from.
    pub pools: Vec<(ClassId, String)>,
    /// Pools of its file, if the file has several links.
    pub shared: Arc<[PoolSpec]>,
    /// Its place among the links of its file.
    pub place: usize,
    /// Numbers of classes as in tc, each once and all of one major number, in the order of [`Classid`].
    pub classids: Vec<(Classid, ClassId)>,
    /// Warnings.
    pub warnings: Vec<Problem>,
    /// Cached result of [`LinkFile::unreachable`].
    unreachable: OnceLock<Vec<ClassId>>,
    /// By id: the file says nothing of the queue of this class.
    default_queues: Box<[bool]>,
    source: Source,
    /// By id; of the link, its table.
    places: Vec<Place>,
    /// In the order of ids.
    features: Vec<(ClassId, Feature, Place)>,
    /// The keys of the link that the file has, and the places of their values.
    link_keys: Vec<(&'static LinkKey, Place)>,
    /// True if the options name the scheduler, and not the file.
    scheduler_chosen: bool,
}

impl LinkFile {
    /// Reads a link file. A scenario file is accepted too; its traffic is ignored.
    ///
    /// # Errors
    /// All errors that do not hide each other.
    pub fn read(path: impl AsRef<Path>, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        Self::from_source(&SourceText::read(path)?, options)
    }

    /// Reads a link file's text; `name` is its name in errors.
    ///
    /// # Errors
    /// As [`LinkFile::read`].
    pub fn parse(name: &str, text: impl Into<String>, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        Self::from_toml(&SourceText::new(name, text.into()), options)
    }

    /// Reads the text of the file at `path` as [`LinkFile::read`] would: also one of tc commands, by the end of its
    /// name.
    ///
    /// # Errors
    /// As [`LinkFile::read`].
    pub fn from_text(path: &str, text: impl Into<String>, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        Self::from_source(&SourceText::new(path, text.into()), options)
    }

    /// Reads a file's text as [`LinkFile::read`] would: also one of tc commands, by the end of its name.
    ///
    /// # Errors
    /// As [`LinkFile::read`].
    pub fn from_source(source: &Source, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        if is_tc_file(Path::new(source.name())) {
            return Self::from_tc(source, &TcOptions::default(), options);
        }
        Self::from_toml(source, options)
    }

    fn from_toml(source: &Source, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        document::read(source, "a link file", |table, mut log| {
            table.only(&DOCUMENT_KEYS, &mut log);
            if let Some(links) = table.get("link").filter(|value| value.is_list()) {
                several::refuse(links, &mut log);
                return Err(log.into_errors());
            }
            match table.get("link").and_then(|value| value.value.get_ref().as_str()) {
                Some(path) if !log.has_errors() => Self::read_from(source, path, options),
                None if TcLink::is_in(table) => match Self::read_tc(table, options, &mut log) {
                    Ok(Some(file)) if !log.has_errors() => Ok(file),
                    Ok(_) => Err(log.into_errors()),
                    Err(problems) => Err(problems),
                },
                _ => Self::from_table(table, options, log),
            }
        })
    }

    /// Reads the link of a scenario or of one of its peers: inline, or in the file that `link` names. `None` if it is
    /// invalid; the log has the errors.
    ///
    /// # Errors
    /// Errors of the named file.
    pub(crate) fn inline_or_named(
        table: &Table<'_, '_>,
        options: &ReadOptions<'_>,
        log: &mut Log,
    ) -> Result<Option<Self>, Problems> {
        let Some(value) = table.need("link", "link = \"FILE\", or [link] and [[class]] as in a link file", log) else {
            return Ok(None);
        };
        if let Some(path) = value.value.get_ref().as_str() {
            if let Some(span) = table.first_class() {
                let why = "belong in the link file that is named here".to_owned();
                let help = "move them there, or write [link] here";
                log.error(span, ProblemKind::Misplaced { key: "class", why, help });
            }
            return Self::read_from(log.source(), path, options).map(Some);
        }
        if TcLink::is_in(table) {
            return Self::read_tc(table, options, log);
        }
        match Self::from_table(table, options, Log::new(log.source())) {
            Ok(link) => Ok(Some(link)),
            Err(problems) => {
                log.add_all(problems);
                Ok(None)
            }
        }
    }

    /// Reads the link file that another file names. That one has to have a `[link]` of its own, so that files cannot
    /// name each other in circles.
    ///
    /// # Errors
    /// As [`LinkFile::read`].
    fn read_from(other: &Source, path: &str, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        let path = other.beside(path);
        let source = other.open(&path)?;
        if is_tc_file(&path) {
            return Self::from_named_tc(other, &source, &TcOptions::default(), options);
        }
        let read = document::read(&source, "a link file", |table, mut log| {
            table.only(&DOCUMENT_KEYS, &mut log);
            Self::from_table(table, options, log)
        });
        // The author of the file name may not have the right to read that file, while the user of this program has. So
        // text of another file is quoted only if it looks like a link file.
        let begins = |line: &str| ["[link]", "link =", "link=", "link."].iter().any(|start| line.starts_with(start));
        let ours = || source.inner().lines().any(begins);
        match read {
            Err(problems) if !ours() => {
                let place = problems.all().first().map(Problem::location);
                let line = place.map_or(1, |place| place.line);
                let empty = SourceText::new(source.name(), String::new());
                let kind = ProblemKind::NotALinkFile { by: other.name().to_owned(), line };
                Err(Problems::one(Problem::error(&empty, None, kind)))
            }
            read => read,
        }
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

    /// Assembles a link; `None` if there is an error, which is in the log.
    fn assemble(document: &Table<'_, '_>, options: &ReadOptions<'_>, log: &mut Log) -> Option<Self> {
        let head = Head::read(document, options, log)?;
        Self::assemble_of(head, document, options, log)
    }

    /// Assembles a link whose classes are in `document`.
    fn assemble_of(head: Head<'_>, document: &Table<'_, '_>, options: &ReadOptions<'_>, log: &mut Log) -> Option<Self> {
        let source = Arc::clone(log.source());
        let mut classes = classes(document, head.rate, log);
        check_reach(&classes, log);
        check_classids(&classes, log);
        if log.has_errors() {
            // Guarantees are not added up then: some may be missing because they could not be read.
            tree::check_names(&classes, log);
            return None;
        }
        let (rate, info) = (head.rate?, head.scheduler?);
        let max_queued = head.max_queued.unwrap_or_else(|| default_queued(classes.all.len()));
        let longest_frame = head.overhead.accounted(head.mtu);
        let (when_full, transmit_queue, rounds) = (head.when_full, head.transmit_queue, head.rounds);
        let link = LinkConfig { rate, max_packet: longest_frame, max_queued, when_full, transmit_queue, rounds };
        let Built { tree, names, ids } = tree::build(&mut classes, link, head.rate_span.clone(), log)?;
        let mut places = vec![Place::from(head.span.clone()); tree.len()];
        let mut default_queues = vec![false; tree.len()].into_boxed_slice();
        for (class, &id) in classes.all.iter().zip(&ids) {
            places[id.index()] = class.name_at;
            default_queues[id.index()] = class.default_queue;
        }
        let queues = queues_of(info, &tree, link, &default_queues);
        let tree = tree
            .rebuilt(tree.link(), |class, config| config.limits = queues[class.index()].unwrap_or(config.limits))
            .expect("default queues are not empty, and nothing else changes");
        for (class, &id) in classes.all.iter().zip(&ids) {
            check_buffer(id, class.name_at, &tree, log);
            check_push_out(id, class.name_at, &tree, log);
        }
        let id = |position: u32| ids[position as usize];
        let named = |position: u32| names.name(id(position)).to_owned();
        for &(position, key, place) in &classes.leaf_only {
            if !tree.is_leaf(id(position)) {
                log.error(place.span(), ProblemKind::LeafOnly { key, name: named(position) });
            }
        }
        for &(position, _, place) in &classes.pools {
            check_pool(id(position), place, &tree, log);
        }
        let mut features: Vec<_> =
            classes.features.iter().map(|&(position, feature, place)| (id(position), feature, place)).collect();
        // Ids may be in another order than the file; the first of a class counts.
        features.sort_by_key(|&(class, ..)| class);
        let pools = classes.pools.iter().map(|(position, pool, _)| (id(*position), pool.clone())).collect();
        let mut classids: Vec<_> =
            classes.classids.iter().map(|&(position, number, _)| (number, id(position))).collect();
        classids.sort_unstable();
        // The first match of the file counts.
        let matches = classes.matches.iter().map(|&(position, made, _)| (id(position), made)).collect();
        // Queues are long enough for frames: pieces of super-frames are made as short as their queue.
        let longest = longest_frame.max(head.gso.longest_piece(rate, longest_frame));
        let tree = tree.with_max_packet(longest).expect("a piece is shorter than the longest packet of a link");
        let mut file = Self {
            name: head.name,
            ports: [head.input, head.output],
            egress: head.egress,
            scheduler: info.name.to_owned(),
            tree,
            names,
            mtu: head.mtu,
            gso: head.gso,
            cores: head.cores,
            overhead: head.overhead,
            memory_limit: head.memory_limit,
            matches,
            default_class: None,
            pools,
            shared: Arc::default(),
            place: 0,
            classids,
            warnings: Vec::new(),
            source,
            places,
            features,
            link_keys: head.places,
            scheduler_chosen: options.scheduler.is_some(),
            unreachable: OnceLock::new(),
            default_queues,
        };
        file.default_class = file.find_default(head.default, log);
        file.warn_of_priority_of_nobody(log);
        match file.unsupported(info, options.leniency) {
            Ok(notes) => notes.into_iter().for_each(|note| log.add(note)),
            Err(problems) => log.add_all(problems),
        }
        Some(file)
    }

    /// By id: the limits that the queues of which this file says nothing have at the rates of `tree`, which has the
    /// same classes as
    /// [`LinkFile::tree`]; `None` for other queues and for inner classes.
    #[must_use]
    pub fn default_queues(&self, tree: &Hierarchy) -> Vec<Option<QueueLimits>> {
        let link = LinkConfig { max_packet: self.longest_frame(), ..tree.link() };
        queues_of(self.info(), tree, link, &self.default_queues)
    }

    /// Longest frame in accounted bytes.
    #[must_use]
    pub fn longest_frame(&self) -> u32 {
        self.overhead.accounted(self.mtu)
    }

    /// Longest piece of a super-frame that the gateway schedules as one packet, in accounted bytes; 0 if there is none.
    #[must_use]
    pub fn longest_piece(&self) -> u32 {
        self.gso.longest_piece(self.tree.link().rate, self.longest_frame())
    }

    /// Returns the tree for a scheduler that never gets a piece of a super-frame: its largest packet is the longest frame.
    #[must_use]
    pub fn tree_of_frames(&self) -> Hierarchy {
        let tree = self.tree.clone().with_max_packet(self.longest_frame());
        tree.expect("the length was checked when the file was read")
    }

    /// Returns true if the file does not set the queue limit of this class.
    #[must_use]
    pub fn has_default_queue(&self, class: ClassId) -> bool {
        self.default_queues.get(class.index()) == Some(&true)
    }

    /// The scheduler's entry in the registry.
    ///
    /// # Panics
    /// When [`LinkFile::scheduler`] was changed to a name that is not there.
    #[must_use]
    pub fn info(&self) -> &'static SchedulerInfo {
        registry::find(&self.scheduler).expect("the scheduler was looked up when the file was read")
    }

    /// Looks up another scheduler for this file, and the file's settings that it does not support (as warnings, if
    /// lenient).
    ///
    /// # Errors
    /// An unknown scheduler; or, if not lenient, unsupported settings.
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

    /// Returns the memory that `info` needs for this file, in bytes, and compares it with the file's limit before
    /// anything is built.
    ///
    /// # Errors
    /// Both numbers, if it exceeds [`LinkFile::memory_limit`].
    pub fn check_memory(&self, info: &SchedulerInfo) -> Result<u64, Problems> {
        let needed = info.memory_for(&self.tree);
        if needed <= self.memory_limit {
            return Ok(needed);
        }
        let kind = ProblemKind::TooLarge { scheduler: info.name, needed, limit: self.memory_limit };
        let span = self.link_key(|key| key.name == "buffer").unwrap_or_else(|| self.places[0].span());
        Err(Problems::one(Problem::error(&self.source, Some(span), kind)))
    }

    /// The class that frames of no match go to; a gateway cannot do without.
    ///
    /// # Errors
    /// Says how to name one.
    pub fn require_default(&self) -> Result<ClassId, Problems> {
        self.default_class.ok_or_else(|| {
            let span = Some(self.places[0].span());
            Problems::one(Problem::error(&self.source, span, ProblemKind::NoDefault))
        })
    }

    /// Refuses several cores, for `what`, which has one scheduler for each link.
    ///
    /// # Errors
    /// Says what the file asks for.
    pub fn require_one_core(&self, what: &str) -> Result<(), Problems> {
        let (why, help) = (
            "runs each link on one core",
            "remove cores and split, or write several links; `fairlink sim` models several cores",
        );
        if self.cores.is_one() { Ok(()) } else { Err(self.misplaced_cores(what, why, help)) }
    }

    /// Refuses several cores in another way than by one hub, for `what`, which knows that one.
    ///
    /// # Errors
    /// Says what the file asks for.
    pub fn require_hub(&self, what: &str) -> Result<(), Problems> {
        let (why, help) = (
            "shares a link among cores by a hub",
            "write split = \"hub\", or remove cores and split; `fairlink sim` models the other ways",
        );
        if self.cores.has_hubs() {
            let why = format!("is {}; {what} has 1 hub", self.cores.hubs);
            let help = "remove hubs; `fairlink sim` models several hubs, and the library has them";
            let span = self.link_key(|key| key.name == "hubs");
            let kind = ProblemKind::Misplaced { key: "hubs", why, help };
            return Err(Problems::one(Problem::error(&self.source, span, kind)));
        }
        let fits = self.cores.is_one() || self.cores.split == Split::Hub;
        if fits { Ok(()) } else { Err(self.misplaced_cores(what, why, help)) }
    }

    /// Describes cores that `what` cannot have, because it does `why`.
    fn misplaced_cores(&self, what: &str, why: &str, help: &'static str) -> Problems {
        let Cores { count, split, .. } = self.cores;
        let why = format!("is {count}, with split = \"{}\"; {what} {why}", split.name());
        let span = self.link_key(|key| matches!(key.name, "cores" | "split"));
        Problems::one(Problem::error(&self.source, span, ProblemKind::Misplaced { key: "cores", why, help }))
    }

    /// Describes a scheduler's refusal of this file's tree, with the name and the place of the class.
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
            BuildError::Curve { class, .. } if let Some(problem) = self.steep_curve(class) => {
                return Problems::one(problem);
            }
            BuildError::Curve { class, what } => (class, format!("\"{}\" has {what}", self.names.name(class))),
            BuildError::NotAdmitted { fails_at } => return self.not_admitted(fails_at),
            BuildError::OutOfMemory { .. } => (ClassId::ROOT, error.to_string()),
        };
        Problems::one(Problem::error(&self.source, self.span(class), ProblemKind::Refused { message }))
    }

    /// Describes a refusal of this link by its user, such as the gateway: `message` with the place of the link.
    #[must_use]
    pub fn refused(&self, message: String) -> Problems {
        Problems::one(Problem::error(&self.source, self.span(ClassId::ROOT), ProblemKind::Refused { message }))
    }

    /// Reports service curves that exceed the link from `fails_at` after all start, with the class whose curve is
    /// steepest at that time.
    fn not_admitted(&self, fails_at: Nanos) -> Problems {
        let slope = |class: ClassId| {
            let config = self.tree.config(class);
            let slope = match config.real_time {
                Some(curve) if fails_at < curve.d => curve.m1,
                Some(curve) => curve.m2,
                None => None,
            };
            slope.map_or(0, Rate::bps)
        };
        // The first of the steepest.
        let steepest =
            self.tree.leaves().iter().copied().rev().max_by_key(|&leaf| slope(leaf)).unwrap_or(ClassId::ROOT);
        let from =
            if fails_at == Nanos::ZERO { "at once".to_owned() } else { format!("from {} on", show_time(fails_at)) };
        let message = format!(
            "the sum of the real-time curves exceeds the link's {}, {from} when all start together; the largest is that of \"{}\", {}",
            show_rate(self.tree.link().rate),
            self.names.name(steepest),
            show_bps(slope(steepest))
        );
        let span = self.feature_span(steepest, Feature::ServiceCurves);
        Problems::one(Problem::error(&self.source, span, ProblemKind::Refused { message }))
    }

    /// The class that has this number in tc.
    #[must_use]
    pub fn class_numbered(&self, number: Classid) -> Option<ClassId> {
        let at = self.classids.binary_search_by_key(&number, |&(known, _)| known).ok()?;
        Some(self.classids[at].1)
    }

    /// The number that a class has in tc.
    #[must_use]
    pub fn number_of(&self, class: ClassId) -> Option<Classid> {
        self.classids.iter().find(|&&(_, owner)| owner == class).map(|&(number, _)| number)
    }

    /// The place of a class's name in the file, in bytes; of the link, its table.
    #[must_use]
    pub fn span(&self, class: ClassId) -> Option<Span> {
        self.places.get(class.index()).map(|place| place.span())
    }

    /// The file's name and text.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the place of the value of a key of the link, if the file has the key.
    fn link_key(&self, is_it: impl Fn(&LinkKey) -> bool) -> Option<Span> {
        self.link_keys.iter().find(|(key, _)| is_it(key)).map(|(_, place)| place.span())
    }

    pub(crate) fn feature_span(&self, class: ClassId, feature: Feature) -> Option<Span> {
        let first = self.features.partition_point(|&(other, ..)| other < class);
        self.features[first..]
            .iter()
            .take_while(|&&(other, ..)| other == class)
            .find(|&&(_, other, _)| other == feature)
            .map(|&(.., place)| place.span())
            .or_else(|| self.link_key(|key| key.features.contains(&feature)))
            .or_else(|| self.span(class))
    }

    /// `transmit_priority` has no effect without a latency-critical class.
    fn warn_of_priority_of_nobody(&self, log: &mut Log) {
        let tree = &self.tree;
        let critical = |&leaf: &ClassId| tree.config(leaf).latency_critical;
        if let Some(span) = self.link_key(|key| key.name == "transmit_priority")
            && tree.link().transmit_queue.is_some_and(|queue| queue.priority)
            && !tree.leaves().iter().any(critical)
        {
            let why = "sends latency-critical classes first, and no class is latency_critical".to_owned();
            let help = "set latency_critical = true at these classes, or remove it";
            log.warn(span, ProblemKind::Misplaced { key: "transmit_priority", why, help });
        }
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
            log.add(match self.link_key(|key| key.name == "scheduler") {
                Some(span) if !self.scheduler_chosen && info.name == self.scheduler => {
                    problem.also(&self.source, span, "chosen here")
                }
                _ => problem,
            });
        }
        self.warn_of_shortfalls(info, &mut log);
        self.warn_of_depth(info, &mut log);
        log.finish()
    }

    /// Says that the kernel's HTB would refuse a tree that ours takes.
    fn warn_of_depth(&self, info: &SchedulerInfo, log: &mut Log) {
        // tc has a class for the link.
        let levels = self.tree.levels() + 1;
        if !info.name.starts_with("htb") || levels <= KERNEL_HTB_LEVELS {
            return;
        }
        let Some(deepest) = self.tree.classes().find(|&class| self.tree.depth(class) + 1 == levels) else { return };
        let name = self.names.name(deepest).to_owned();
        let kind = ProblemKind::TooDeepForKernel { name, levels, most: KERNEL_HTB_LEVELS };
        log.add(Problem::new(Severity::Warning, &self.source, self.span(deepest), kind));
    }

    /// Warns of the leaf that loses most of its guarantee, under a scheduler that does not keep all guarantees. A link
    /// that cannot be built is refused elsewhere.
    fn warn_of_shortfalls(&self, info: &SchedulerInfo, log: &mut Log) {
        let Some(shortfalls) = info.promises.shortfalls else { return };
        let shortfalls = shortfalls(&self.tree).unwrap_or_default();
        let lost = |short: &Shortfall| (short.guarantee.bps() - short.gets, Reverse(short.leaf));
        let Some(&Shortfall { leaf, guarantee, gets }) = shortfalls.iter().max_by_key(|short| lost(short)) else {
            return;
        };
        let name = self.names.name(leaf).to_owned();
        let (scheduler, more) = (info.name, shortfalls.len() - 1);
        let kind = ProblemKind::Shortfall { name, scheduler, guarantee, gets, more };
        log.add(Problem::new(Severity::Warning, &self.source, self.span(leaf), kind));
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
                    let why = "is never used, because a match \"any\" takes every frame".to_owned();
                    log.warn(span, ProblemKind::Misplaced { key: "default", why, help: "remove one of the two" });
                }
                Some(class)
            }
            None => None,
        };
        let only = match self.leaves_without_match()[..] {
            [only] => Some(only),
            _ => None,
        };
        named.or(any).or(only)
    }

    fn leaves_without_match(&self) -> Vec<ClassId> {
        let mut matched = vec![false; self.tree.len()];
        self.matches.iter().for_each(|&(class, _)| matched[class.index()] = true);
        self.tree.leaves().iter().copied().filter(|class| !matched[class.index()]).collect()
    }

    /// Returns the leaves that no frame reaches by matches: those without a match that are not the default, and those
    /// whose frames earlier matches take, alone or together. Such a class may still be selected in another way, such as
    /// by its number in the kernel.
    ///
    /// Each other leaf was found by classifying a frame that reaches it. A leaf counts as reached if the search for a
    /// frame was given up, which takes thousands of overlapping matches.
    ///
    /// The result is computed on the first call, by a temporary classifier of the file's matches. Later calls return
    /// the same result, even if `matches` has changed.
    #[must_use]
    pub fn unreachable(&self) -> &[ClassId] {
        self.unreachable.get_or_init(|| self.find_unreachable())
    }

    fn find_unreachable(&self) -> Vec<ClassId> {
        let mut reached = vec![false; self.tree.len()];
        let mut budget = Budget::default();
        // Frames of no match go to the link itself where there is no default.
        let default = self.default_class.unwrap_or(ClassId::ROOT);
        let mut classifier = Classifier::new(&self.matches, default);
        let ways = self.matches.iter().enumerate().map(|(place, (class, made))| (*class, *made, place));
        for (class, made, before) in ways.chain([(default, Match::ANY, self.matches.len())]) {
            if reached[class.index()] {
                continue;
            }
            let earlier = self.matches[..before].iter().map(|(_, earlier)| earlier);
            let mut is_left = |frame: &FrameKey| classifier.classify(frame) == class;
            let found = Witness::search(&made, earlier, &mut is_left, &mut budget);
            reached[class.index()] = found != Witness::None;
        }
        self.tree.leaves().iter().copied().filter(|leaf| !reached[leaf.index()]).collect()
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
    let lower = name.to_lowercase();
    let nearest = NEAREST.iter().find(|(others, _)| others.contains(&lower.as_str()));
    let help = match (nearest, closest(name, registry::SCHEDULERS.iter().map(|info| info.name))) {
        (Some((_, nearest)), _) => format!("closest equivalent: {nearest}"),
        (None, Some(closest)) => format!("did you mean \"{closest}\"?"),
        (None, None) => format!("\"{DEFAULT_SCHEDULER}\" suits most links; `fairlink schedulers` lists all"),
    };
    ProblemKind::NoScheduler { name: name.to_owned(), help }
}

/// Names of queueing disciplines that users look for, with the closest equivalents.
const NEAREST: [(&[&str], &str); 7] = [
    (
        &["cake"],
        "\"hls\", and at each leaf queue = \"fq_codel\", ecn = true and per = \"src-ip\" or \"dst-ip\": hosts share a class equally and then their \
         connections, as under cake; cake's overhead is `overhead` in [link]",
    ),
    (
        &["fq_codel", "codel", "pie", "fq_pie", "red", "sfb", "choke"],
        "\"hls\", and queue = \"fq_codel\" or \"codel\" at the leaves: those manage a single queue; a scheduler selects between queues",
    ),
    (&["fq"], "\"hls\", and per = \"flow\" at a leaf: its connections share it equally"),
    (&["tbf"], "\"fifo\": one queue at the rate of the link"),
    (
        &["prio", "priq", "sp", "pfifo_fast"],
        "\"htb\" with `priority` at the leaves, or \"hls\" with latency_critical = true at the delay-sensitive class, within its share",
    ),
    (&["cbq"], "\"cbq-top-level\", like the kernel's CBQ; its formal rule is \"cbq-formal\""),
    (&["ets"], "\"drr\", with `quantum` at the leaves, or \"hls\" with weights"),
];

/// Four packets for each class of a large tree.
fn default_queued(classes: usize) -> u32 {
    u32::try_from(classes.saturating_mul(4)).unwrap_or(u32::MAX).max(DEFAULT_QUEUED)
}

fn classes(document: &Table<'_, '_>, rate: Option<Rate>, log: &mut Log) -> RawClasses {
    const EXPECTED: &str = "a table for each class: [[class]], in double brackets";
    // Without a rate, shares of the link are read as if it had the largest, so that other errors are still found.
    let facts = LinkFacts { rate: rate.or(Some(Rate::MAX)) };
    let limit = log.source().limits().classes;
    let mut tables = 0;
    let mut read = |value: Value<'_, '_>, classes: &mut RawClasses, log: &mut Log| {
        tables += 1;
        if let Some(table) = value.table(class::PLACE, EXPECTED, log) {
            class::read(&table, facts, classes, log);
        }
    };
    let classes = match document.pieces() {
        Some(pieces) if pieces.estimate() > limit => {
            let mut classes = 0;
            pieces.each(|_, _| classes += 1);
            log.error(pieces.first(), ProblemKind::TooManyHere { classes, limit });
            return RawClasses::with_room(0);
        }
        Some(pieces) => {
            let mut classes = RawClasses::with_room(pieces.estimate());
            pieces.each(|class, at| read(Value::at("class", class, at), &mut classes, log));
            classes
        }
        None => {
            let value = document.need("class", "[[class]] and below it name = \"...\"", log);
            let values = value.and_then(|value| value.list(EXPECTED, log)).unwrap_or_default();
            if let (true, Some(first)) = (values.len() > limit, values.first()) {
                log.error(first.span(), ProblemKind::TooManyHere { classes: values.len(), limit });
                return RawClasses::with_room(0);
            }
            let mut classes = RawClasses::with_room(values.len());
            values.into_iter().for_each(|value| read(value, &mut classes, log));
            classes
        }
    };
    // A class without a usable name leaves its children without a parent: errors that follow from it are not reported.
    if classes.all.len() < tables { RawClasses::with_room(0) } else { classes }
}

/// Reports matches that are never the first to apply; for a text with ranges, all of its matches.
fn check_reach(classes: &RawClasses, log: &mut Log) {
    let mut reach = Reach::default();
    for text in classes.matches.chunk_by(|(_, _, one), (_, _, other)| one == other) {
        let covered: Vec<Option<usize>> = text.iter().map(|(_, made, _)| reach.add(made)).collect();
        if let Some(earlier) = covered.iter().copied().collect::<Option<Vec<usize>>>() {
            let (by, earlier, first) = &classes.matches[earlier[0]];
            let name = classes.name(*by as usize).to_owned();
            let kind = ProblemKind::Unreachable { earlier: earlier.to_string(), name };
            log.error_also(text[0].2.span(), kind, first.span(), "this comes first");
        }
    }
}

/// Reports numbers of classes that two have, and those of another major number than the first: one link is one queueing
/// discipline.
fn check_classids(classes: &RawClasses, log: &mut Log) {
    let mut seen: HashMap<Classid, Place> = HashMap::new();
    for &(_, number, place) in &classes.classids {
        let (_, first, first_place) = classes.classids[0];
        if number.major() != first.major() {
            let why = format!("of {number} and {first} have different major numbers, and a link has one");
            let help = "give all classes of a link the same number before the colon";
            let kind = ProblemKind::Misplaced { key: "classid", why, help };
            log.error_also(place.span(), kind, first_place.span(), "the first");
        }
        if let Some(first) = seen.insert(number, place) {
            let why = format!("of {number} is already used");
            let kind = ProblemKind::Misplaced { key: "classid", why, help: "give each class its own number" };
            log.error_also(place.span(), kind, first.span(), "first here");
        }
    }
}

/// A pool is for several links, and for classes that hang off one.
fn check_pool(id: ClassId, place: Place, tree: &Hierarchy, log: &mut Log) {
    if tree.parent(id) == Some(ClassId::ROOT) {
        let why = "is shared by several links, and this link runs alone".to_owned();
        let help = "remove it, unless other links name the pool";
        log.warn(place.span(), ProblemKind::Misplaced { key: "pool", why, help });
    } else {
        let why = "is only for classes directly below the link".to_owned();
        let help = "set it at the topmost ancestor";
        log.error(place.span(), ProblemKind::Misplaced { key: "pool", why, help });
    }
}

/// Only FIFOs support push-out: an active queue chooses its own drops.
fn check_push_out(id: ClassId, name_at: Place, tree: &Hierarchy, log: &mut Log) {
    if tree.is_leaf(id) && tree.link().when_full == WhenFull::PushOut && tree.config(id).has_active_queue() {
        let why = "is an AQM, which chooses its own drops, and the link has when_full = \"push_out\"".to_owned();
        let help = "remove one of the two";
        log.error(name_at.span(), ProblemKind::Misplaced { key: "queue", why, help });
    }
}

/// Returns the limits of the queues of `tree` whose class has `default` set, by class id.
fn queues_of(info: &SchedulerInfo, tree: &Hierarchy, link: LinkConfig, default: &[bool]) -> Vec<Option<QueueLimits>> {
    if !tree.leaves().iter().any(|leaf| default[leaf.index()]) {
        return vec![None; tree.len()];
    }
    let limits = |(class, most): (ClassId, Rate)| {
        let is_default = tree.is_leaf(class) && default[class.index()];
        is_default.then(|| default_limits(most, &link, tree.leaves().len()))
    };
    (0..).map(ClassId).zip(highest(info, tree)).map(limits).collect()
}

/// A leaf's buffer should hold a packet of the longest length.
fn check_buffer(id: ClassId, name_at: Place, tree: &Hierarchy, log: &mut Log) {
    let limits = tree.config(id).limits;
    let longest = tree.link().max_packet;
    if tree.is_leaf(id) && limits.bytes < longest {
        let [held, longest] = [limits.bytes, longest].map(|bytes| show_size(u64::from(bytes)));
        let why = format!("of {held} is shorter than a maximum-length packet, {longest}");
        let help = "such packets are dropped; increase it, or lower the mtu";
        log.warn(name_at.span(), ProblemKind::Misplaced { key: "buffer", why, help });
    }
}
