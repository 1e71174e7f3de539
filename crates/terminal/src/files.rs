//! Link files, scenario files, and scripts with their links, that are named on the command line.

use std::path::Path;

use fairlink_config::{LinkFile, ReadOptions, Scenario, SourceText};
use fairlink_core::Rate;
use fairlink_traffic::Script;

use crate::failure::CliError;
use crate::style::warn;

/// Reads a link file for a computation that no scheduler takes part in, and shows warnings about its tree.
///
/// # Errors
/// An unreadable file, or what is wrong in it, with places.
pub fn read_tree(path: &Path) -> Result<LinkFile, CliError> {
    let (link, warnings) = fairlink_api::read_tree(&SourceText::read(path)?)?;
    warn(warnings);
    Ok(link)
}

/// Reads a scenario file.
///
/// # Errors
/// An unreadable file, or what is wrong in it, with places.
pub fn scenario(path: &Path, options: &ReadOptions<'_>) -> Result<Scenario, CliError> {
    // A script alone is not TOML, and needs a link.
    Scenario::read(path, options).map_err(|problems| match text(path) {
        Some(text) if Script::is_one(&text) => {
            CliError::wrong(format!("{}: this is a script; name its link with --link FILE", path.display()))
        }
        _ => problems.into(),
    })
}

/// Reads a script and its link, and adds values that its tc commands do not give.
///
/// # Errors
/// An unreadable file, or what is wrong in it, with places; a scenario instead of a script.
pub fn script(path: &Path, link: &Path, rate: Option<Rate>, options: &ReadOptions<'_>) -> Result<Scenario, CliError> {
    // A scenario file names its link itself.
    if text(path).is_some_and(|text| text.lines().any(|line| line.trim_start().starts_with('['))) {
        let path = path.display();
        return Err(CliError::wrong(format!(
            "{path}: this is a scenario file, which names its own link; remove --link, which is for scripts"
        )));
    }
    let (file, notes) = Scenario::of_script(path, link, rate, options)?;
    warn(notes);
    Ok(file)
}

/// Returns true if the file is a script for the generator of the HTB text.
#[must_use]
pub fn is_script(path: &Path) -> bool {
    text(path).is_some_and(|text| Script::is_one(&text))
}

/// The text of an ordinary file. A pipe is read once, elsewhere.
fn text(path: &Path) -> Option<String> {
    path.is_file().then(|| std::fs::read_to_string(path).ok()).flatten()
}

/// Returns the error of a sweep over a script.
#[must_use]
pub fn script_has_no_keys() -> CliError {
    CliError::wrong(
        "this is a script, which has no keys to sweep; write a scenario file over its link, with model = \"script\" and file = \"...\", and \
         name that",
    )
}
