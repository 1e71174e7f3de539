//! Configurations of other tools as link files.

mod comparison;
mod plans;

use fairlink_config::import::{ImportError, ImportInfo, Imported, ImportedLink, Options};
use fairlink_config::problem::ProblemKind;
use fairlink_config::{Problem, Source};
use fairlink_core::BuildError;
use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use crate::refused::{ProblemReport, Refused};

pub use comparison::{Case, Share, Simulated};
pub use plans::PlanShare;

/// The document of [`import`]. The command line has a document of its own, which also compares what classes get before
/// and after.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ImportDoc {
    /// The tool.
    pub tool: &'static str,
    /// Link files.
    pub files: Vec<ImportedFile>,
    /// The links, in the same order.
    pub links: Vec<ImportedLinkReport>,
    /// Settings kept unchanged, in words.
    pub kept: Vec<String>,
    /// Messages about a script that was run. Absent if none was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<String>,
    /// Settings that changed in meaning.
    pub changed: Vec<ProblemReport>,
    /// Settings that were left out.
    pub left_out: Vec<ProblemReport>,
}

impl Content for ImportDoc {
    const KIND: &'static str = "import";
}

/// A file that was made.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ImportedFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A link that was made.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ImportedLinkReport {
    /// Its name.
    pub name: String,
    /// Its rate in bit/s.
    pub capacity_bps: u64,
    /// Number of its classes.
    pub classes: usize,
    /// Its scheduler.
    pub scheduler: String,
    /// The scheduler that models the tool, `kernel-htb` for the kernel's HTB; `null` if the tool has no rule.
    pub before: Option<String>,
    /// Classes that no frame can reach.
    pub unreachable: Vec<String>,
    /// Bits per second that the gateway moves on this machine. Absent if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_bps: Option<u64>,
    /// Warnings of the link as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemReport>,
    /// Rates of the classes before and after the import; none if they were not compared.
    pub cases: Vec<Case>,
    /// Rates by plan. Absent if the tool has no plans, or nothing was compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<PlanShare>,
}

impl ImportedLinkReport {
    fn new(tool: &ImportInfo, link: &ImportedLink, compare: bool) -> Result<Self, BuildError> {
        let file = &link.link;
        let cases = match compare {
            true => comparison::compared(link.link_before.as_ref(), file, &link.idle, file.unreachable())?,
            false => Vec::new(),
        };
        Ok(Self {
            name: link.name.clone(),
            capacity_bps: file.tree.link().rate.bps(),
            classes: file.tree.len() - 1,
            scheduler: file.scheduler.clone(),
            before: link.link_before.as_ref().map(|before| comparison::model(before).to_owned()),
            unreachable: file.unreachable().iter().map(|&leaf| file.names.name(leaf).to_owned()).collect(),
            gateway_bps: None,
            problems: Vec::new(),
            plans: if tool.has_plans { plans::plans(link, &cases) } else { Vec::new() },
            cases,
        })
    }
}

/// Reads the configuration of another tool, whole or not at all.
///
/// ```
/// use fairlink_api::import;
/// use fairlink_config::SourceText;
/// use fairlink_config::import::{Options, find};
///
/// let script = "tc qdisc add dev eth0 root handle 1: htb default 2\n\
///     tc class add dev eth0 parent 1: classid 1:2 htb rate 3mbit ceil 9mbit\n";
/// let options = Options::default().with("rate", "9mbit");
/// let made = import(find("tc")?, &[SourceText::new("up.tc", script)], &options)?;
/// assert!(made.links[0].text.contains("guarantee = "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`ImportInfo::read`].
pub fn import(tool: &ImportInfo, sources: &[Source], options: &Options) -> Result<Imported, Refused> {
    Ok(tool.read(sources, options)?)
}

impl From<ImportError> for Refused {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Text(problems) => Self::Text(problems),
            ImportError::Argument { name, message } => Self::Argument { name: name.into(), message },
        }
    }
}

impl ImportDoc {
    /// Makes the document of an import from `tool`, with link files class by class.
    pub fn new(tool: &ImportInfo, imported: &Imported, compare: bool) -> Result<Document<Self>, Refused> {
        let file = |link: &ImportedLink| ImportedFile { name: format!("{}.toml", link.name), text: link.text.clone() };
        let notes = |changed: bool| {
            let is = move |note: &&Problem| matches!(note.kind(), ProblemKind::Changed { .. }) == changed;
            imported.notes.iter().filter(is).map(ProblemReport::from).collect()
        };
        let links = imported.links.iter().map(|link| ImportedLinkReport::new(tool, link, compare));
        Ok(Document::new(Self {
            tool: tool.name,
            files: imported.links.iter().map(file).collect(),
            links: links.collect::<Result<_, _>>().map_err(Refused::failed)?,
            kept: imported.kept.clone(),
            ran: Vec::new(),
            changed: notes(true),
            left_out: notes(false),
        }))
    }
}

#[cfg(test)]
mod tests {
    use fairlink_config::SourceText;
    use fairlink_config::import::find;

    use super::*;

    #[test]
    fn rates_before_of_quanta_below_a_packet_are_those_of_the_kernel() {
        let script = |parent: &str, rates: [&str; 2]| {
            format!(
                "tc qdisc add dev eno1 root handle 1: htb\n\
                 tc class add dev eno1 parent 1: classid 1:1 htb rate {parent} ceil {parent}\n\
                 tc class add dev eno1 parent 1:1 classid 1:10 htb rate {} ceil {parent}\n\
                 tc class add dev eno1 parent 1:1 classid 1:20 htb rate {} ceil {parent}\n\
                 tc filter add dev eno1 protocol ip parent 1:0 prio 1 u32 match ip dport 8000 0xffff flowid 1:10\n\
                 tc filter add dev eno1 protocol ip parent 1:0 prio 1 u32 match ip dport 8001 0xffff flowid 1:20\n",
                rates[0], rates[1]
            )
        };
        // By real packets of 1514 B on Linux 6.18. With the turns of our htb: 256 and 1,744, 200.2 and 599.8 kbit/s.
        for (text, seen) in [
            (script("2mbit", ["64kbit", "512kbit"]), [336e3, 1_664e3]),
            (script("100kbps", ["10kbps", "30kbps"]), [241.6e3, 559.6e3]),
        ] {
            let tool = find("tc").unwrap();
            let made = import(tool, &[SourceText::new("up.tc", text)], &Options::default()).unwrap();
            let document = ImportDoc::new(tool, &made, true).unwrap();
            let link = &document.content.links[0];
            assert_eq!(link.before.as_deref(), Some("kernel-htb"));
            for (name, seen) in ["1:10", "1:20"].iter().zip(seen) {
                let share = link.cases[0].classes.iter().find(|share| share.name == *name).unwrap();
                let before = share.before_bps.unwrap();
                assert!((before / seen - 1.0).abs() < 0.02, "{name}: {before} and {seen}");
            }
        }
    }
}
