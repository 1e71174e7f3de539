#![doc = include_str!("../README.md")]
//!
//! A text comes as a [`Source`](fairlink_config::Source), which carries its name and the files that it may name. Each
//! function returns what it has found, which makes its document for all classes or some, or [`Refused`]: what is wrong,
//! at its place. [`json`] writes a document as the command line does.
//!
//! ```
//! use fairlink_api::{CheckOptions, check, json};
//! use fairlink_config::SourceText;
//!
//! let link = "[link]\nrate = \"10mbit\"\n[[class]]\nname = \"voice\"\nguarantee = \"2mbit\"\n[[class]]\nname = \"data\"\nguarantee = \"8mbit\"\n";
//! let checked = check(&SourceText::new("link.toml", link), &CheckOptions::default())?;
//! let document = json(&checked.document(checked.all_classes()));
//! assert!(document.starts_with("{\n  \"document\": \"check\",\n  \"version\": 1,\n  \"valid\": true"));
//! # Ok::<(), fairlink_api::Refused>(())
//! ```
#![forbid(unsafe_code)]

mod admission;
mod check;
mod diff;
mod expand;
mod expect;
mod explain;
mod fluid;
#[cfg(feature = "import")]
mod import;
mod keys;
mod links;
mod planned;
mod refused;
mod rows;
mod schedulers;
mod simulate;
mod sweep;
mod tree;

pub use admission::Admission;
#[cfg(feature = "cores")]
pub use check::cores::{ClassOnCores, OnCores};
pub use check::network::{Conforming, FlowReport, HopReport, MethodReport, NetworkReport, ServerReport};
pub use check::theorems::{AsPrinted, InnerCurve, Load, MeanDelayEstimate, Theorems, VirtualTimes};
pub use check::{
    CheckDoc, CheckOptions, Checked, Flood, RefusedDoc, ShorterDelays, USEFUL_S, check, class_bounds, share_warnings,
};
pub use diff::{ClassDiff, DiffDoc, DiffKind, KeyDiff, LinkDiff, ValueDiff, diff};
pub use expand::{ExpandDoc, expand};
pub use expect::{Judged, judge};
pub use explain::{ExplainDoc, Explained, Siblings, StepReport, explain, explain_link};
pub use fluid::{Fluid, FluidDoc, FluidOptions, fluid};
#[cfg(feature = "import")]
pub use import::{Case, ImportDoc, ImportedFile, ImportedLinkReport, PlanShare, Share, Simulated, import};
pub use keys::{KeyReport, KeysDoc, keys};
pub use links::{links_of, schedulers_of};
pub use planned::{Planned, PlannedKey};
pub use refused::{ProblemReport, Refused, Severity};
pub use rows::Each;
pub use schedulers::{NEEDS, Nearest, SchedulerReport, SchedulersDoc, schedulers};
pub use simulate::{SETTLE, SimDoc, SimOptions, Simulation, scenario_warnings, simulate, simulate_observed};
pub use sweep::{Grid, SweptKey, SweptQuantity};
pub use tree::{concerns_frames, demand, demand_of, in_text, parent_name, read_tree};

/// A document as text, indented, as `--json` prints it.
///
/// # Panics
/// Never: keys of documents are strings, and nothing in them refuses to be written.
#[must_use]
pub fn json(document: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(document).expect("a document can be written")
}
