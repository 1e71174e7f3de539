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

    /// Checks a value.
    ///
    /// # Errors
    /// The value, and the expected form.
    fn checked(&self, value: &Value) -> Result<Value, String> {
        match (self.kind, value) {
            (OptionKind::Rate, Value::Word(text)) => {
                parse_rate(text, None).map(Value::Rate).map_err(|error| format!("{error}; {}", error.help()))
            }
            (OptionKind::Choice(words), Value::Word(word)) if words.iter().all(|(known, _)| known != word) => {
                Err(format!("{word:?} is not one of {}", listed(words.iter().map(|(word, _)| *word))))
            }
            (OptionKind::Flag, Value::Flag(_))
            | (OptionKind::Rate, Value::Rate(_))
            | (OptionKind::Name | OptionKind::Choice(_), Value::Word(_)) => Ok(value.clone()),
            (OptionKind::Flag, _) => Err("it has no value: write true or false".to_owned()),
            (OptionKind::Rate, Value::Flag(_)) => Err("it needs a rate, such as 10mbit".to_owned()),
            (OptionKind::Name, _) => Err("it needs a name".to_owned()),
            (OptionKind::Choice(words), _) => {
                Err(format!("it needs one of {}", listed(words.iter().map(|(word, _)| *word))))
            }
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

/// Value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A rate.
    Rate(Rate),
    /// A word, a name, or a rate with its unit.
    Word(String),
    /// A flag.
    Flag(bool),
}

impl From<Rate> for Value {
    fn from(rate: Rate) -> Self {
        Self::Rate(rate)
    }
}

impl From<&str> for Value {
    fn from(word: &str) -> Self {
        Self::Word(word.to_owned())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// Values of options by their keys. [`ImportInfo::read`] checks them.
///
/// ```
/// use fairlink_config::import::Options;
///
/// let options = Options::default().with("rate", "10mbit").with("as-is", true);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    values: Vec<(String, Value)>,
}

impl Options {
    /// Adds a value, in place of an earlier one of the same key. A flag that is false says nothing.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.values.retain(|(known, _)| known != key);
        if value != Value::Flag(false) {
            self.values.push((key.to_owned(), value));
        }
        self
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Returns the requested rate of the link, if there is one.
    pub(super) fn rate(&self) -> Option<Rate> {
        match self.get("rate") {
            Some(Value::Rate(rate)) => Some(*rate),
            _ => None,
        }
    }

    /// Returns the word or name of an option, if it was given.
    pub(super) fn word(&self, option: &OptionInfo) -> Option<&str> {
        match self.get(option.key) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Returns the requested directions, at least one.
    pub(super) fn directions(&self) -> &'static [Direction] {
        match self.word(&OptionInfo::direction("")) {
            Some("up") => &[Direction::Up],
            Some("both") => &[Direction::Down, Direction::Up],
            _ => &[Direction::Down],
        }
    }

    /// Returns the requested weights.
    pub(super) fn weights(&self) -> Weights {
        match self.word(&WEIGHTS) {
            Some("ceiling") => Weights::Ceiling,
            Some("equal") => Weights::Equal,
            _ => Weights::Guarantee,
        }
    }

    /// Returns true if the tool's lending rule is kept.
    pub(super) fn as_is(&self) -> bool {
        self.get(AS_IS.key) == Some(&Value::Flag(true))
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
        let options = self.check(options)?;
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
        Ok((self.reader)(sources, &options).map_err(|problems| self.or_another(&sources[0], problems))?)
    }

    /// Returns the options with rates as numbers. [`ImportInfo::read`] does the same; a caller that has work to do before
    /// asks here.
    ///
    /// # Errors
    /// An option or a value that the import does not have, a required option that is missing, two that exclude each other.
    pub fn check(&self, options: &Options) -> Result<Options, ImportError> {
        let mut checked = Options::default();
        for (key, value) in &options.values {
            let refused = |message: String| ImportError::argument(key, message);
            let option = self.option(key).ok_or_else(|| refused(self.why_without(key)))?;
            checked = checked.with(key, option.checked(value).map_err(refused)?);
        }
        if let Some(missing) = self.options.iter().find(|option| option.required && options.get(option.key).is_none()) {
            let message = format!("{} needs it: {}", self.name, missing.help);
            return Err(ImportError::argument(missing.key, message));
        }
        if checked.as_is() && checked.weights() != Weights::Guarantee {
            let why = "it changes how bandwidth is lent, and --as-is keeps it: leave one of them out";
            return Err(ImportError::argument(WEIGHTS.key, why.to_owned()));
        }
        Ok(checked)
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
