//! Import of other tools' configurations as link files, all or nothing.
//!
//! `docs/import.md` is the users' reference. An import is a file or folder with a constant `INFO`, an [`ImportInfo`], and
//! a line of [`IMPORTS`]. Its file names the source of the format. The command, the library, the package for Python, the
//! page and the fuzzer are made of the table.
//!
//! Each returns links in order, and notes with places about changes of meaning and losses. If the tool has a lending
//! rule of its own, each link file comes with the same tree under that rule: HTB with the tool's rates, quanta, bursts
//! and priorities. So the two can be compared before a migration.

mod info;
mod k8s;
mod libreqos;
mod libvirt;
mod mikrotik;
mod notes;
mod pf;
mod plan;
mod prefixes;
mod tc;
#[cfg(test)]
mod tests;
mod write;

pub use info::{AS_IS, FileInfo, ImportError, ImportInfo, Number, OptionInfo, OptionKind, Options};

use crate::link::{LinkFile, ReadOptions};
use crate::problem::{Problem, Problems};

/// All imports.
pub static IMPORTS: &[ImportInfo] = &[libreqos::INFO, tc::INFO, mikrotik::INFO, k8s::INFO, libvirt::INFO, pf::INFO];

/// Returns the import with this name.
///
/// # Errors
/// There is none; the message has the names.
pub fn find(name: &str) -> Result<&'static ImportInfo, ImportError> {
    IMPORTS.iter().find(|info| info.name == name).ok_or_else(|| {
        let known = info::listed(IMPORTS.iter().map(|info| info.name));
        ImportError::argument("tool", format!("{name:?} is not one of {known}"))
    })
}

/// Returns the import whose first file a text probably is; `None` for a link file.
#[must_use]
pub fn recognise(text: &str) -> Option<&'static ImportInfo> {
    let is_link = text.lines().any(|line| line.trim_start().starts_with("[link]"));
    IMPORTS.iter().find(|info| !is_link && (info.sign)(text))
}

/// The usual remedy for classes that no frame can reach.
const MEND: &str = "mend the configuration";

/// Links made of another tool's configuration.
#[derive(Clone, Debug)]
pub struct Imported {
    /// In the order of the configuration; at least one.
    pub links: Vec<ImportedLink>,
    /// Settings kept unchanged, in words.
    pub kept: Vec<String>,
    /// Settings that changed in meaning ([`ProblemKind::Changed`](crate::problem::ProblemKind::Changed)) or were left
    /// out ([`ProblemKind::LeftOut`](crate::problem::ProblemKind::LeftOut)).
    pub notes: Vec<Problem>,
}

/// One link.
#[derive(Clone, Debug)]
pub struct ImportedLink {
    /// A name for its files, without ending.
    pub name: String,
    /// The link file, class by class.
    pub text: String,
    /// The same with its classes in tables, if there are many.
    pub tabled: Option<Tabled>,
    /// The same classes under the other tool's lending rule: a link file for `htb` or CBQ. `None` if the tool has no
    /// rule.
    pub before: Option<String>,
    /// Classes for traffic that the tool did not share out. They are not compared.
    pub idle: Vec<String>,
    /// The link file of `text`.
    pub link: LinkFile,
    /// The link file of `before`.
    pub link_before: Option<LinkFile>,
}

/// A link that was written and not read yet.
#[derive(Debug)]
struct Draft {
    name: String,
    text: String,
    tabled: Option<Tabled>,
    before: Option<String>,
    idle: Vec<String>,
}

/// A link file with its classes in tables.
#[derive(Clone, Debug)]
pub struct Tabled {
    /// The link file.
    pub text: String,
    /// Tables by their names, which the link file names.
    pub tables: Vec<(String, String)>,
}

/// Direction of a link's packets, as seen by the users of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// To them: matched by destination.
    #[default]
    Down,
    /// From them: matched by source.
    Up,
}

impl Direction {
    /// `down` or `up`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }

    /// The beginning of a match for addresses.
    fn net(self) -> &'static str {
        match self {
            Self::Down => "dst net ",
            Self::Up => "src net ",
        }
    }
}

/// Weights for sharing spare bandwidth while all are busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// The minimum rates of the configuration, which are guaranteed.
    #[default]
    Guarantee,
    /// Maximum rates. Guarantees are proportional to them, and the minimum rates are ignored.
    Ceiling,
    /// Nothing: all leaves are guaranteed the same.
    Equal,
}

impl Weights {
    /// Returns the change in meaning; `None` if minimum rates stay.
    fn meaning(self) -> Option<&'static str> {
        match self {
            Self::Guarantee => None,
            Self::Ceiling => Some(
                "weights: guarantees are proportional to the maximum rates (--weights ceiling); minimum rates are ignored",
            ),
            Self::Equal => Some("weights: all guarantees are equal (--weights equal); minimum rates are ignored"),
        }
    }
}

/// A name for files out of one of another tool: letters, digits and a few signs, so that it is in no other directory.
fn file_stem(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-@".contains(c) { c } else { '_' };
    let stem: String = name.chars().take(60).map(plain).collect();
    if stem.is_empty() { "link".to_owned() } else { stem }
}

/// Reads everything that was made, so that only valid link files are returned that a gateway accepts.
///
/// # Errors
/// Errors of a link file, with places in the generated text.
fn sound(drafts: Vec<Draft>, kept: Vec<String>, notes: Vec<Problem>) -> Result<Imported, Problems> {
    let read = |name: String, text: &str| LinkFile::parse(&name, text, &ReadOptions::default());
    let one = |draft: Draft| {
        let Draft { name, text, tabled, before, idle } = draft;
        let link = read(format!("{name} as imported"), &text)?;
        link.require_default()?;
        let link_before = before.as_ref().map(|before| read(format!("{name} as it was"), before)).transpose()?;
        Ok(ImportedLink { name, text, tabled, before, idle, link, link_before })
    };
    let links = drafts.into_iter().map(one).collect::<Result<_, Problems>>()?;
    Ok(Imported { links, kept, notes })
}
