//! Configurations of other tools as link files.

mod comparison;
mod plans;

use fairlink_config::import::{Direction, Imported, ImportedLink, Weights, k8s, libreqos, libvirt, mikrotik, pf, tc};
use fairlink_config::problem::ProblemKind;
use fairlink_config::{Problem, Source};
use fairlink_core::{BuildError, Rate};
use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use crate::refused::{ProblemReport, Refused};

pub use comparison::{Case, Share, Simulated};
pub use plans::PlanShare;

/// Tool whose configuration is imported.
#[derive(Clone, Debug)]
pub enum Tool {
    /// LibreQoS: `ShapedDevices.csv`, and `network.json` where there is one.
    Libreqos,
    /// tc commands or tc's output. `device` is the only one to import.
    Tc {
        /// The only device to import.
        device: Option<String>,
    },
    /// An export of RouterOS.
    Mikrotik {
        /// Kind of queues, where the file has both.
        queues: Option<mikrotik::Queues>,
        /// The queues of the tree below this.
        parent: Option<String>,
    },
    /// Bandwidth annotations of Kubernetes pods; needs a rate.
    K8s {
        /// Node of the pods.
        node: Option<String>,
    },
    /// XML of libvirt's domains and networks.
    Libvirt,
    /// pf.conf with ALTQ.
    Pf {
        /// The only interface to import.
        interface: Option<String>,
    },
}

impl Tool {
    /// Its name, as the subcommand of `fairlink import` has it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Libreqos => "libreqos",
            Self::Tc { .. } => "tc",
            Self::Mikrotik { .. } => "mikrotik",
            Self::K8s { .. } => "k8s",
            Self::Libvirt => "libvirt",
            Self::Pf { .. } => "pf",
        }
    }

    /// Returns true if ceilings are the plans of subscribers.
    const fn has_plans(&self) -> bool {
        matches!(self, Self::Libreqos | Self::Mikrotik { .. })
    }
}

/// Options common to all tools.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Rate of the link, if the configuration does not give it.
    pub rate: Option<Rate>,
    /// Directions to import; down only when empty.
    pub directions: Vec<Direction>,
    /// Keeps the tool's own way of lending.
    pub as_is: bool,
    /// The weights by which spare bandwidth is shared.
    pub weights: Weights,
}

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
    /// The scheduler that models the tool; `null` if the tool has no rule.
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
    fn new(tool: &Tool, link: &ImportedLink, compare: bool) -> Result<Self, BuildError> {
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
            before: link.link_before.as_ref().map(|before| before.scheduler.clone()),
            unreachable: file.unreachable().iter().map(|&leaf| file.names.name(leaf).to_owned()).collect(),
            gateway_bps: None,
            problems: Vec::new(),
            plans: if tool.has_plans() { plans::plans(link, &cases) } else { Vec::new() },
            cases,
        })
    }
}

/// Reads the configuration of another tool, whole or not at all. The first source is its file; LibreQoS' second is
/// `network.json`, and libvirt's are files of domains and networks.
///
/// ```
/// use fairlink_api::{ImportOptions, Tool, import};
/// use fairlink_config::SourceText;
///
/// let script = "tc qdisc add dev eth0 root handle 1: htb default 2\n\
///     tc class add dev eth0 parent 1: classid 1:2 htb rate 3mbit ceil 9mbit\n";
/// let options = ImportOptions { rate: Some(fairlink_core::Rate::from_bps(9_000_000).expect("a rate")), ..ImportOptions::default() };
/// let made = import(&Tool::Tc { device: None }, &[SourceText::new("up.tc", script)], &options)?;
/// assert!(made.links[0].text.contains("guarantee = "));
/// # Ok::<(), fairlink_api::Refused>(())
/// ```
///
/// # Errors
/// Everything that is wrong with a text, at its place; a source too few or too many; options that mean nothing for the
/// tool.
pub fn import(tool: &Tool, sources: &[Source], options: &ImportOptions) -> Result<Imported, Refused> {
    let ImportOptions { rate, directions, as_is, weights } = options.clone();
    if as_is && weights != Weights::Guarantee {
        let why = "it changes how bandwidth is lent, and --as-is keeps it: leave one of them out";
        return Err(Refused::argument("weights", why));
    }
    let (most, texts) = match tool {
        Tool::Libreqos => (2, "one or two texts"),
        Tool::Libvirt => (usize::MAX, "at least one text"),
        _ => (1, "one text"),
    };
    let Some(first) = sources.first().filter(|_| sources.len() <= most) else {
        let message = format!("{} of them, and {} takes {texts}", sources.len(), tool.name());
        return Err(Refused::argument("sources", message));
    };
    Ok(match tool {
        Tool::Libreqos => {
            let options = libreqos::Options { directions, rate, as_is, weights };
            libreqos::read(first, sources.get(1), &options)?
        }
        Tool::Tc { device } => tc::read(first, &tc::Options { rate, device: device.clone(), as_is })?,
        Tool::Mikrotik { queues, parent } => {
            let (queues, parent) = (*queues, parent.clone());
            mikrotik::read(first, &mikrotik::Options { rate, queues, parent, directions, as_is, weights })?
        }
        Tool::K8s { node } => {
            if as_is {
                let why = "pods are limited one by one, and there is no lending to keep";
                return Err(Refused::argument("as-is", why));
            }
            let rate = rate.ok_or_else(|| Refused::argument("rate", "write that of the node's link"))?;
            k8s::read(first, &k8s::Options { rate, node: node.clone(), directions })?
        }
        Tool::Libvirt => libvirt::read(sources, &libvirt::Options { rate, directions, as_is })?,
        Tool::Pf { interface } => pf::read(first, &pf::Options { rate, interface: interface.clone(), as_is })?,
    })
}

impl ImportDoc {
    /// Makes the document of an import from `tool`, with link files class by class.
    pub fn new(tool: &Tool, imported: &Imported, compare: bool) -> Result<Document<Self>, Refused> {
        let file = |link: &ImportedLink| ImportedFile { name: format!("{}.toml", link.name), text: link.text.clone() };
        let notes = |changed: bool| {
            let is = move |note: &&Problem| matches!(note.kind(), ProblemKind::Changed { .. }) == changed;
            imported.notes.iter().filter(is).map(ProblemReport::from).collect()
        };
        let links = imported.links.iter().map(|link| ImportedLinkReport::new(tool, link, compare));
        Ok(Document::new(Self {
            tool: tool.name(),
            files: imported.links.iter().map(file).collect(),
            links: links.collect::<Result<_, _>>().map_err(Refused::failed)?,
            kept: imported.kept.clone(),
            ran: Vec::new(),
            changed: notes(true),
            left_out: notes(false),
        }))
    }
}
