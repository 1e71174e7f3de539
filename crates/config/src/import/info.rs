//! An entry of the table of imports: name, files, options, reader. Every face is made of it.

use fairlink_core::Rate;

use super::{Direction, Imported, Weights, recognise};
use crate::problem::{Log, ProblemKind, Problems, Source};
use crate::units::parse_rate;

/// An import: a tool whose configuration becomes link files.
#[derive(Debug)]
pub struct ImportInfo {
    /// Its name, which no other import has: `fairlink import NAME`.
    pub name: &'static str,
    /// The tool in prose, such as `RouterOS`.
    pub tool: &'static str,
    /// The tool and its files, as help texts have it: without a full stop.
    pub help: &'static str,
    /// Its files in order. The first is required.
    pub files: &'static [FileInfo],
    /// Its options in the order of help texts.
    pub options: &'static [OptionInfo],
    /// Options of other imports that have no meaning here, each with the reason.
    pub without: &'static [(&'static str, &'static str)],
    /// True if ceilings are the plans of subscribers.
    pub has_plans: bool,
    /// The remedy for classes that no frame can reach.
    pub unmatched: &'static str,
    /// Returns true if a text is probably the first file. A text that is clearly of another tool must give false.
    pub(super) sign: fn(&str) -> bool,
    /// Reads sources in the declared number, with options that are declared.
    pub(super) reader: fn(&[Source], &Options) -> Result<Imported, Problems>,
}

/// A file of an import, or several of one kind.
#[derive(Debug)]
pub struct FileInfo {
    /// The name of the argument; that of the option, if the file may be absent.
    pub key: &'static str,
    /// The placeholder in help texts.
    pub placeholder: &'static str,
    /// Its content, without a full stop.
    pub help: &'static str,
    /// How many there are.
    pub number: Number,
    /// A usual name, for a text without a name.
    pub name: &'static str,
    /// Endings of names without the dot; any name if empty.
    pub endings: &'static [&'static str],
}

/// Number of files of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Exactly one.
    One,
    /// One or none.
    Optional,
    /// At least one. It is the last kind of an import.
    Many,
}

/// An option of an import.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Its name: `--key` of the command.
    pub key: &'static str,
    /// The placeholder of its value in help texts; empty for a flag.
    pub placeholder: &'static str,
    /// Its effect, without a full stop.
    pub help: &'static str,
    /// The form of its value.
    pub kind: OptionKind,
    /// The default: a word of a choice, else in words. `None` if absence needs no explanation.
    pub default: Option<&'static str>,
    /// True if it must be given.
    pub required: bool,
}

/// The form of an option's value.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A rate.
    Rate,
    /// A name of the configuration.
    Name,
    /// One of these words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// Given or not.
    Flag,
}

impl OptionInfo {
    /// The rate of the link, with its default in words.
    pub(super) const fn rate(default: &'static str) -> Self {
        Self {
            key: "rate",
            placeholder: "RATE",
            help: "Rate of the link",
            kind: OptionKind::Rate,
            default: Some(default),
            required: false,
        }
    }

    /// A name of the configuration.
    pub(super) const fn name(key: &'static str, placeholder: &'static str, help: &'static str) -> Self {
        Self { key, placeholder, help, kind: OptionKind::Name, default: None, required: false }
    }

    /// The directions to import; [`Options::directions`] has them.
    pub(super) const fn direction(help: &'static str) -> Self {
        let kind =
            OptionKind::Choice(&[("down", "To users of the link"), ("up", "From them"), ("both", "A link for each")]);
        Self { key: "direction", placeholder: "DIRECTION", help, kind, default: Some("down"), required: false }
    }

    /// Returns what is wrong with a value, with the expected form.
    fn refusal(&self, value: &str) -> Option<String> {
        match self.kind {
            OptionKind::Rate => parse_rate(value, None).err().map(|error| format!("{error}; {}", error.help())),
            OptionKind::Choice(words) if words.iter().all(|(word, _)| *word != value) => {
                Some(format!("{value:?} is not one of {}", listed(words.iter().map(|(word, _)| *word))))
            }
            OptionKind::Flag if value != "true" => Some(format!("{value:?} is not \"true\"; leave it out otherwise")),
            OptionKind::Name | OptionKind::Choice(_) | OptionKind::Flag => None,
        }
    }
}

/// Keep the tool's lending rule.
pub const AS_IS: OptionInfo = OptionInfo {
    key: "as-is",
    placeholder: "",
    help: "Keep the tool's lending rule, with its quanta, bursts and priorities, instead of the scheduler hls",
    kind: OptionKind::Flag,
    default: None,
    required: false,
};

/// The weights by which spare bandwidth is shared.
pub(super) const WEIGHTS: OptionInfo = OptionInfo {
    key: "weights",
    placeholder: "WEIGHTS",
    help: "Share spare bandwidth in proportion to the minimum rates, the maximum rates, or equally",
    kind: OptionKind::Choice(&[
        ("guarantee", "The minimum rates, which are guaranteed"),
        ("ceiling", "The maximum rates"),
        ("equal", "Nothing: all have equal parts"),
    ]),
    default: Some("guarantee"),
    required: false,
};

/// Values of options by their keys, as a command line has them; the value of a flag is `true`. [`ImportInfo::read`]
/// checks them.
///
/// ```
/// use fairlink_config::import::Options;
///
/// let options = Options::default().with("rate", "10mbit").with("as-is", true);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    values: Vec<(String, String)>,
}

impl Options {
    /// Adds a value, in place of an earlier one of the same key.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.values.retain(|(known, _)| known != key);
        self.values.push((key.to_owned(), value.to_string()));
        self
    }

    /// Returns the value of an option, if it was given.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Returns the requested rate of the link, if there is one.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.get("rate").and_then(|rate| parse_rate(rate, None).ok())
    }

    /// Returns the requested directions, at least one.
    pub(super) fn directions(&self) -> &'static [Direction] {
        match self.get("direction") {
            Some("up") => &[Direction::Up],
            Some("both") => &[Direction::Down, Direction::Up],
            _ => &[Direction::Down],
        }
    }

    /// Returns the requested weights.
    pub(super) fn weights(&self) -> Weights {
        match self.get(WEIGHTS.key) {
            Some("ceiling") => Weights::Ceiling,
            Some("equal") => Weights::Equal,
            _ => Weights::Guarantee,
        }
    }

    /// Returns true if the tool's lending rule is kept.
    pub(super) fn as_is(&self) -> bool {
        self.get(AS_IS.key).is_some()
    }
}

/// Why a configuration was not imported.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ImportError {
    /// Errors in a text, with their places.
    #[error(transparent)]
    Text(#[from] Problems),
    /// The tool, the number of sources or an option is wrong.
    #[error("{name}: {message}")]
    Argument {
        /// `tool`, `sources`, or the key of the option.
        name: String,
        /// The value, the known ones and the action.
        message: String,
    },
}

impl ImportError {
    pub(super) fn argument(name: &str, message: String) -> Self {
        Self::Argument { name: name.to_owned(), message }
    }
}

impl ImportInfo {
    /// Returns the option with this key.
    #[must_use]
    pub fn option(&self, key: &str) -> Option<&'static OptionInfo> {
        self.options.iter().find(|option| option.key == key)
    }

    /// Reads a configuration, whole or not at all. Sources are in the order of [`ImportInfo::files`].
    ///
    /// # Errors
    /// Everything that is wrong with a text, at its place; too few or too many sources; an option that the import does
    /// not have, a value that an option does not have, a required option that is missing.
    pub fn read(&self, sources: &[Source], options: &Options) -> Result<Imported, ImportError> {
        self.check(options)?;
        let least = self.files.iter().filter(|file| file.number != Number::Optional).count();
        let is_many = self.files.iter().any(|file| file.number == Number::Many);
        if sources.len() < least || (sources.len() > self.files.len() && !is_many) {
            let texts = match (least, self.files.len()) {
                _ if is_many => "at least one text",
                (1, 1) => "one text",
                _ => "one or two texts",
            };
            let message = format!("{} of them, and {} takes {texts}", sources.len(), self.name);
            return Err(ImportError::argument("sources", message));
        }
        Ok((self.reader)(sources, options).map_err(|problems| self.or_another(&sources[0], problems))?)
    }

    /// Checks options. [`ImportInfo::read`] does the same; a caller that has work to do before asks here.
    ///
    /// # Errors
    /// An option or a value that the import does not have, a required option that is missing, two that exclude each other.
    pub fn check(&self, options: &Options) -> Result<(), ImportError> {
        for (key, value) in &options.values {
            let option = self.option(key).ok_or_else(|| ImportError::argument(key, self.why_without(key)))?;
            option.refusal(value).map_or(Ok(()), |why| Err(ImportError::argument(key, why)))?;
        }
        if let Some(missing) = self.options.iter().find(|option| option.required && options.get(option.key).is_none()) {
            let message = format!("{} needs it: {}", self.name, missing.help);
            return Err(ImportError::argument(missing.key, message));
        }
        if options.as_is() && options.weights() != Weights::Guarantee {
            let why = "it changes how bandwidth is lent, and --as-is keeps it: leave one of them out";
            return Err(ImportError::argument(WEIGHTS.key, why.to_owned()));
        }
        Ok(())
    }

    fn why_without(&self, key: &str) -> String {
        let known = listed(self.options.iter().map(|option| option.key));
        match self.without.iter().find(|(other, _)| *other == key) {
            Some((_, why)) => format!("{} has no such option: {why}", self.name),
            None => format!("{} has no such option; it has {known}", self.name),
        }
    }

    /// Adds the tool that a refused text probably is of, if that is another one.
    fn or_another(&self, source: &Source, problems: Problems) -> Problems {
        let other = recognise(source.inner()).filter(|other| other.name != self.name && !(self.sign)(source.inner()));
        let Some(other) = other else { return problems };
        let mut log = Log::new(source);
        let what = format!("this looks like a file of {}, not of {}", other.tool, self.tool);
        log.error(0..0, ProblemKind::Import { what, help: format!("import it as {}", other.name) });
        log.add_all(problems);
        log.into_errors()
    }
}

pub(super) fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
