//! All kinds of problems of a file: message, remedy, and label of the place.

use fairlink_core::{MAX_CLASSES, MAX_DEPTH, MAX_LEAVES, Nanos, Rate};
use thiserror::Error;

use crate::human;
use crate::matching::MatchError;
use crate::units::{UnitError, show_bps, show_rate, show_size, show_time};

/// The kind of a problem, with the offending value and the limit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProblemKind {
    /// The file cannot be read.
    #[error("the file cannot be read: {reason}")]
    Unreadable {
        /// The system's reason.
        reason: String,
    },
    /// A file that another one names as a link file, and that is none. Nothing of it is quoted.
    #[error("{by} names this file, which is not a link file: no line begins with [link], and line {line} is invalid")]
    NotALinkFile {
        /// The file that names it.
        by: String,
        /// The first line that is wrong, from 1.
        line: usize,
    },
    /// A file of another kind than the file that names it says. Nothing of it is quoted.
    #[error("{by} names this file, which is not a {what}: line {line} is invalid")]
    NotSuchAFile {
        /// The file that names it.
        by: String,
        /// Expected kind of file.
        what: &'static str,
        /// The first line that is wrong, from 1.
        line: usize,
    },
    /// The file holds bytes that are not text.
    #[error("this is not UTF-8 text: the byte {byte:#04x} in line {line}, column {column} (byte {at} of the file)")]
    NotText {
        /// Position of the first such byte.
        at: usize,
        /// Its line, from 1.
        line: usize,
        /// Its place in the line, in bytes from 1.
        column: usize,
        /// The byte.
        byte: u8,
    },
    /// Not TOML.
    #[error("this is not TOML: {message}")]
    Toml {
        /// The parser's reason.
        message: String,
    },
    /// A table lacks a key.
    #[error("{place} has no \"{key}\"")]
    MissingKey {
        /// The table.
        place: &'static str,
        /// The key.
        key: &'static str,
        /// Example of the key.
        example: &'static str,
    },
    /// A key that the table does not have.
    #[error("{place} has an unknown key \"{key}\"")]
    UnknownKey {
        /// The table.
        place: &'static str,
        /// As written.
        key: String,
        /// The closest known key.
        suggestion: Option<String>,
        /// Keys that exist.
        known: String,
    },
    /// A key of a class as another tool calls it.
    #[error("{place} has an unknown key \"{key}\"")]
    ForeignKey {
        /// The table.
        place: &'static str,
        /// As written.
        key: String,
        /// The tool.
        tool: &'static str,
        /// Name of the key in link files.
        ours: &'static str,
    },
    /// A value of another type.
    #[error("\"{key}\" must be {expected}, not {found}")]
    WrongType {
        /// The key.
        key: String,
        /// Expected value.
        expected: &'static str,
        /// TOML's name of the type found.
        found: &'static str,
    },
    /// A quantity.
    #[error("\"{key}\": {error}")]
    Unit {
        /// The key.
        key: String,
        /// The reason.
        error: UnitError,
    },
    /// A number outside its limits.
    #[error("\"{key}\" of {value} is outside {min} .. {max}")]
    OutOfRange {
        /// The key.
        key: String,
        /// As written.
        value: String,
        /// The smallest value.
        min: String,
        /// The largest value.
        max: String,
    },
    /// A word that is not one of a few.
    #[error("there is no {what} \"{word}\"")]
    UnknownWord {
        /// Kind of the word.
        what: &'static str,
        /// As written.
        word: String,
        /// The closest known word.
        suggestion: Option<String>,
        /// All of them.
        known: String,
    },
    /// A scheduler that is not there.
    #[error("there is no scheduler \"{name}\"")]
    NoScheduler {
        /// As written.
        name: String,
        /// The nearest there is.
        help: String,
    },
    /// Two keys that exclude each other.
    #[error("{place} takes \"{one}\" or \"{other}\", not both")]
    Both {
        /// The table.
        place: &'static str,
        /// One key.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// Neither of two keys, of which one is needed.
    #[error("{place} needs \"{one}\" or \"{other}\"")]
    Neither {
        /// The table.
        place: &'static str,
        /// One key.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// A key that has no meaning without, or with, something else.
    #[error("\"{key}\" {why}")]
    Misplaced {
        /// The key.
        key: &'static str,
        /// The reason.
        why: String,
        /// The remedy.
        help: &'static str,
    },
    /// An error in a row of a table of classes, or in a reference to a row.
    #[error("{why}")]
    Row {
        /// The reason.
        why: String,
        /// The remedy.
        help: String,
    },
    /// A name that cannot be used.
    #[error("a class cannot be named {name:?}: {why}")]
    BadName {
        /// As written.
        name: String,
        /// The rule.
        why: &'static str,
    },
    /// Two classes of one name.
    #[error("there are two classes named \"{name}\"")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A class that is named and does not exist.
    #[error("there is no class \"{name}\"")]
    UnknownClass {
        /// As written.
        name: String,
        /// The closest name.
        suggestion: Option<String>,
    },
    /// A class is its own ancestor.
    #[error("these classes form a cycle of parents: {path}")]
    Cycle {
        /// Their names, the first repeated at the end.
        path: String,
    },
    /// A class that is nested too deep.
    #[error("class \"{name}\" is too deep; the limit is {MAX_DEPTH} levels below the link")]
    TooDeep {
        /// The class.
        name: String,
    },
    /// Too many leaves.
    #[error("{leaves} leaf classes; the limit is {MAX_LEAVES}")]
    TooManyLeaves {
        /// Number of leaves.
        leaves: usize,
    },
    /// Too many classes.
    #[error("{classes} classes; the limit is {MAX_CLASSES}")]
    TooManyClasses {
        /// Number of classes, up to the first above the limit.
        classes: usize,
    },
    /// More classes than can be read in this place.
    #[error("the file has {classes} classes; up to {limit} can be read here")]
    TooManyHere {
        /// Number of classes.
        classes: usize,
        /// Most classes.
        limit: usize,
    },
    /// Siblings that share in different ways.
    #[error("\"{name}\" and its sibling \"{sibling}\" must both have a guarantee, both a weight, or both neither")]
    MixedShares {
        /// The class.
        name: String,
        /// The sibling.
        sibling: String,
    },
    /// Children are guaranteed more than their parent.
    #[error("the guarantees below {parent} add up to {}, more than its {}", show_bps(*children_bps), show_bps(*parent_bps))]
    GuaranteesExceedParent {
        /// The parent in words: `"A"` or `the link`.
        parent: String,
        /// The children's, in bit/s.
        children_bps: u64,
        /// The parent's, in bit/s.
        parent_bps: u64,
    },
    /// A ceiling below the guarantee.
    #[error("the ceiling of {} is below the guarantee of {}: the ceiling wins", show_rate(*ceiling), show_rate(*guarantee))]
    CeilingBelowGuarantee {
        /// The ceiling.
        ceiling: Rate,
        /// The guarantee.
        guarantee: Rate,
    },
    /// A setting that only leaves have.
    #[error("\"{key}\" is for classes without children, and \"{name}\" has some")]
    LeafOnly {
        /// The key.
        key: &'static str,
        /// The class.
        name: String,
    },
    /// A setting that the scheduler cannot honour.
    #[error(
        "\"{name}\"{} {what}, which {scheduler} does not support",
        if *more > 0 { format!(" (and {more} more)") } else { String::new() }
    )]
    Unsupported {
        /// The first class that does.
        name: String,
        /// The setting in words, with its verb.
        what: String,
        /// The scheduler.
        scheduler: String,
        /// Those that can.
        able: String,
        /// True if it is ignored instead.
        ignored: bool,
        /// Number of further classes that set it.
        more: usize,
    },
    /// A tree that the kernel's HTB would refuse.
    #[error(
        "class \"{name}\" becomes level {levels} in tc, including the link's own class; the limit of the kernel's HTB is {most}"
    )]
    TooDeepForKernel {
        /// The deepest class, the first of them.
        name: String,
        /// Its level in tc, the link's own class at level 1.
        levels: usize,
        /// The most that the kernel takes.
        most: usize,
    },
    /// A scheduler under which a class loses its guarantee.
    #[error(
        "under {scheduler}, \"{name}\" gets {} of its {} while all classes are busy{}",
        if *gets > 0 { show_bps(*gets) } else { "nothing".to_owned() }, show_rate(*guarantee),
        if *more > 0 { format!("; {more} more fall short") } else { String::new() }
    )]
    Shortfall {
        /// The class that loses most.
        name: String,
        /// The scheduler.
        scheduler: &'static str,
        /// Its guarantee, or its share by weight.
        guarantee: Rate,
        /// Its rate in bit/s.
        gets: u64,
        /// Number of further classes.
        more: usize,
    },
    /// A scheduler and its queues would take more memory than is allowed.
    #[error("{scheduler} needs {} of memory for this tree; the limit is {}", crate::units::show_memory(*needed), crate::units::show_memory(*limit))]
    TooLarge {
        /// The scheduler.
        scheduler: &'static str,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are allowed.
        limit: u64,
    },
    /// A scheduler's own reason to refuse the tree.
    #[error("{message}")]
    Refused {
        /// Its reason.
        message: String,
    },
    /// Weights too far apart for the scheduler's arithmetic.
    #[error(
        "{scheduler} rounds the share of \"{name}\" by {percent} %, because the weights of its siblings differ too much"
    )]
    ShareError {
        /// The class.
        name: String,
        /// The scheduler.
        scheduler: String,
        /// Relative rounding error of the share.
        percent: String,
    },
    /// A `ceiling_burst` that is too small for the ceiling.
    #[error(
        "\"{name}\" has a ceiling_burst of {} and reaches {} of its ceiling of {} while {busy} of {leaves} leaves are busy",
        show_size(*.burst), human::rate(*.reached_bps as f64), show_bps(*.ceiling_bps)
    )]
    SmallBurst {
        /// The class.
        name: String,
        /// The burst in bytes.
        burst: u64,
        /// The smallest burst in bytes that is known to lose nothing.
        enough: u64,
        /// The ceiling in bit/s.
        ceiling_bps: u64,
        /// The rate that is reached in bit/s.
        reached_bps: u64,
        /// Number of busy leaves.
        busy: usize,
        /// Number of leaves.
        leaves: usize,
    },
    /// A problem in a file of tc commands, or a loss in its conversion.
    #[error("{what}")]
    Tc {
        /// The message.
        what: String,
        /// The remedy.
        help: Option<&'static str>,
    },
    /// An error in the configuration of another tool.
    #[error("{what}")]
    Import {
        /// The message.
        what: String,
        /// The remedy.
        help: String,
    },
    /// An imported setting that changed in meaning.
    #[error("{what}")]
    Changed {
        /// The message.
        what: String,
    },
    /// A setting that was not imported.
    #[error("{what}")]
    LeftOut {
        /// The message.
        what: String,
    },
    /// An error in a script of the traffic generator.
    #[error("{error}")]
    Script {
        /// The reason.
        error: fairlink_traffic::script::ScriptErrorKind,
    },
    /// A match that cannot be read.
    #[error("invalid match: {error}")]
    Match {
        /// The reason.
        error: MatchError,
    },
    /// A match that is never the first to match.
    #[error("no frame reaches this match: the earlier \"{earlier}\" of class \"{name}\" takes all of its frames")]
    Unreachable {
        /// The earlier match.
        earlier: String,
        /// Its class.
        name: String,
    },
    /// Frames may match nothing.
    #[error("there is no default class for frames that no class matches")]
    NoDefault,
    /// Leaves that no frame reaches: they have no match, or earlier matches take all of theirs.
    #[error("no frame can reach {}: {}", show_names(names, *more), match (names.len() + more, *covered) {
        (1, false) => "it has no match and is not the default",
        (1, true) => "earlier matches take all of its frames",
        (_, false) => "they have no match and none is the default",
        (_, true) => "they have no match, or earlier matches take all of their frames",
    })]
    NoMatch {
        /// The first of them.
        names: Vec<String>,
        /// The number of the others.
        more: usize,
        /// True if one of them has a match.
        covered: bool,
    },
    /// A class that traffic is to be sent to and that has children.
    #[error("\"{name}\" has classes below it; traffic needs a leaf")]
    NotALeaf {
        /// The class.
        name: String,
        /// A leaf below it.
        leaf: String,
    },
    /// A packet longer than the link takes.
    #[error("a packet of {bytes} B is longer than the link's mtu of {mtu} B")]
    AboveMtu {
        /// The longest packet.
        bytes: u64,
        /// The link's.
        mtu: u32,
    },
    /// An interval that ends before it starts.
    #[error("the interval {} .. {} is empty", show_time(*start), show_time(*end))]
    EmptyInterval {
        /// Start.
        start: Nanos,
        /// End.
        end: Nanos,
    },
    /// Intervals that overlap or are out of order.
    #[error("the interval starts at {}, before the previous one ends at {}", show_time(*start), show_time(*before))]
    Overlap {
        /// Start of the later one.
        start: Nanos,
        /// End of the earlier one.
        before: Nanos,
    },
    /// A change that does not come after the one before it.
    #[error("the change at {} is not after the previous one, at {}", show_time(*at), show_time(*before))]
    ChangeOrder {
        /// Its time.
        at: Nanos,
        /// The time of the one before it.
        before: Nanos,
    },
    /// A source that sends while its class is not there.
    #[error("this source sends at {}, when {file} has no leaf \"{name}\"", show_time(*at))]
    NoLeafThen {
        /// The class.
        name: String,
        /// The first such time.
        at: Nanos,
        /// The link file that is in force then.
        file: String,
        /// When the class is there, as intervals in quotes.
        there: String,
    },
    /// A time beyond the end of the run.
    #[error("{} is beyond the end of the run at {}", show_time(*time), show_time(*duration))]
    BeyondEnd {
        /// The time.
        time: Nanos,
        /// The run's duration.
        duration: Nanos,
    },
}

/// `class "a"`, or `classes "a", "b" and 3 more`.
fn show_names(names: &[String], more: usize) -> String {
    let listed: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let listed = listed.join(", ");
    match (names.len() + more, more) {
        (1, _) => format!("class {listed}"),
        (_, 0) => format!("classes {listed}"),
        (_, more) => format!("classes {listed} and {more} more"),
    }
}

impl ProblemKind {
    /// Returns its name for programs: that of the variant, such as `unknown_key`.
    #[must_use]
    pub fn code(&self) -> String {
        let shown = format!("{self:?}");
        let mut code = String::new();
        for letter in shown.chars().take_while(|letter| letter.is_ascii_alphanumeric()) {
            if letter.is_ascii_uppercase() && !code.is_empty() {
                code.push('_');
            }
            code.push(letter.to_ascii_lowercase());
        }
        code
    }

    /// Returns the remedy, if the message alone does not give it.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        let did_you_mean = |suggestion: &Option<String>, known: &str| match suggestion {
            Some(suggestion) => format!("did you mean \"{suggestion}\"?"),
            None => format!("there are: {known}"),
        };
        Some(match self {
            Self::ShareError { .. } => "keep the weights or guarantees of siblings within 1 : 100,000,000".to_owned(),
            Self::SmallBurst { enough, .. } => {
                format!(
                    "ceiling_burst = \"{enough}B\" is always enough; remove the key for the default"
                )
            }
            Self::Unreadable { .. } => "check the path and the permissions".to_owned(),
            Self::NotALinkFile { .. } => "check the path in link = \"...\"".to_owned(),
            Self::NotSuchAFile { .. } => "check the path that is written there".to_owned(),
            Self::NotText { .. } => "save the file as UTF-8; of one in Latin-1: iconv -f latin1 -t utf-8 FILE".to_owned(),
            Self::MissingKey { example, .. } => format!("write {example}"),
            Self::UnknownKey { suggestion, known, .. } | Self::UnknownWord { suggestion, known, .. } => {
                did_you_mean(suggestion, known)
            }
            Self::ForeignKey { key, tool: "tc", .. } if ["rate", "ceil"].contains(&key.as_str()) => {
                "the keys for tc's \"rate\" and \"ceil\" are \"guarantee\" and \"ceiling\"".to_owned()
            }
            Self::ForeignKey { key, tool, ours, .. } => format!("the key for \"{key}\" of {tool} is \"{ours}\""),
            Self::Unit { error, .. } => error.help(),
            Self::Tc { help, .. } => return help.map(str::to_owned),
            Self::Misplaced { help, .. } => (*help).to_owned(),
            Self::Row { help, .. } | Self::Import { help, .. } | Self::NoScheduler { help, .. } => help.clone(),
            Self::TooManyHere { .. } => {
                format!("use the command line, which reads up to {MAX_LEAVES} leaves, or read a part of the file")
            }
            Self::DuplicateName { .. } => "rename one of them".to_owned(),
            Self::UnknownClass { suggestion, .. } => match suggestion {
                Some(suggestion) => format!("did you mean \"{suggestion}\"?"),
                None => "add a [[class]] of that name".to_owned(),
            },
            Self::Cycle { .. } => "give one of them another parent".to_owned(),
            Self::GuaranteesExceedParent { .. } => "lower some of them, or raise that of the parent".to_owned(),
            Self::LeafOnly { .. } => "set it at the classes below".to_owned(),
            Self::Unsupported { ignored: true, .. } => "it is ignored".to_owned(),
            Self::Unsupported { able, ignored: false, .. } if able.is_empty() => {
                "no scheduler does; remove it, or use --lenient to ignore it".to_owned()
            }
            Self::Unsupported { able, ignored: false, .. } => {
                format!("supported by: {able}; or use --lenient to ignore it")
            }
            Self::Unreachable { .. } => "move it above that one, or remove it".to_owned(),
            Self::NoMatch { .. } => "write match = [\"...\"] at the class, or name it as default in [link]".to_owned(),
            Self::TooLarge { needed, .. } => format!(
                "lower buffer in [link], or the number of classes, or raise memory in [link] (memory = \"{}\")",
                crate::units::memory_key(*needed)
            ),
            Self::Shortfall { .. } => {
                "it lets all classes borrow at all times, by priority and quantum only: use equal priorities and no quanta, or choose cbq-formal or cbq-top-level"
                    .to_owned()
            }
            Self::TooDeepForKernel { .. } => {
                "fairlink supports it; for the kernel's HTB remove classes with a single child, or use hls in the kernel module".to_owned()
            }
            Self::NoDefault => {
                "write default = \"NAME\" into [link], or match = [\"any\"] into the last class".to_owned()
            }
            Self::NotALeaf { leaf, .. } => format!("name one of them, such as \"{leaf}\""),
            Self::AboveMtu { .. } => "shorten the packets, or raise mtu in [link]".to_owned(),
            Self::EmptyInterval { .. } => "write it as \"START..END\" with the end after the start".to_owned(),
            Self::Overlap { .. } => "write the intervals in order, or join them".to_owned(),
            Self::ChangeOrder { .. } => "write changes in the order of time, each at a different time".to_owned(),
            Self::NoLeafThen { there, .. } => {
                format!(
                    "write active = [{there}] or a part of it, when the class exists; or add the class to that link"
                )
            }
            Self::BeyondEnd { .. } => "lengthen the duration, or remove it".to_owned(),
            Self::Toml { message } if !message.contains("quoted") => return None,
            Self::Toml { .. } => "put values with letters in quotes: rate = \"100mbit\"".to_owned(),
            Self::WrongType { .. }
            | Self::OutOfRange { .. }
            | Self::Both { .. }
            | Self::Neither { .. }
            | Self::BadName { .. }
            | Self::TooDeep { .. }
            | Self::TooManyLeaves { .. }
            | Self::TooManyClasses { .. }
            | Self::MixedShares { .. }
            | Self::CeilingBelowGuarantee { .. }
            | Self::Refused { .. }
            | Self::Changed { .. }
            | Self::LeftOut { .. }
            | Self::Script { .. }
            | Self::Match { .. } => return None,
        })
    }

    /// Label of the place in an excerpt.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::MissingKey { .. } | Self::Neither { .. } | Self::NoDefault => "in this table",
            Self::UnknownKey { .. }
            | Self::ForeignKey { .. }
            | Self::UnknownWord { .. }
            | Self::NoScheduler { .. }
            | Self::UnknownClass { .. } => "not known",
            Self::WrongType { .. } => "of the wrong type",
            Self::OutOfRange { .. } | Self::AboveMtu { .. } => "outside the limits",
            Self::DuplicateName { .. } => "again here",
            Self::Unreachable { .. } => "never reached",
            Self::Both { .. } => "and this",
            _ => "here",
        }
    }
}
