//! Link files and demands on the command line, for the commands that take them.

use std::path::PathBuf;

use fairlink_config::LinkFile;
#[cfg(target_os = "linux")]
use fairlink_config::Problem;
use fairlink_core::ClassId;

/// Returns a warning about unreachable leaves, if frames are classified by matches only.
#[cfg(target_os = "linux")]
pub(crate) fn reach_warning(link: &LinkFile) -> Option<Problem> {
    link.unreachable_warning(link.unreachable())
}

/// The name of a class, set in by its depth.
pub(crate) fn indented(link: &LinkFile, class: ClassId) -> String {
    format!("{}{}", "  ".repeat(link.tree.depth(class) - 1), link.names.name(class))
}

/// A link file and the demands of its leaves.
#[derive(Debug, clap::Args)]
pub(crate) struct FluidArgs {
    /// The link file.
    pub(crate) link: PathBuf,
    /// Demands of the leaves, such as A1=inf,C=300mbit. `inf` means as much as possible; a leaf that is not named has
    /// no demand [default: every leaf inf].
    #[arg(long, value_name = "LEAF=RATE,...")]
    pub(crate) demand: Option<String>,
}
