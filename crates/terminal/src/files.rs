//! Link files, scenario files, and scripts with their links, that are named on the command line.

use std::path::{Path, PathBuf};

use fairlink_config::sweep::Template;
use fairlink_config::{LinkFile, ReadOptions, Scenario, SourceText};
use fairlink_core::Rate;
use fairlink_traffic::Script;

use crate::args;
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

/// A scenario file, or a script and its link.
#[derive(Debug, clap::Args)]
pub struct ScenarioArgs {
    /// The scenario file, or, with --link, a script for the generator of the HTB text.
    pub scenario: PathBuf,
    /// The link of a script: a link file, or a file of tc commands that ends with .tc. The run ends with the script.
    #[arg(long, value_name = "FILE")]
    pub link: Option<PathBuf>,
    /// Rate of the links, for a file of tc commands that does not give it.
    #[arg(long, value_name = "RATE", value_parser = args::rate, requires = "link")]
    link_rate: Option<Rate>,
}

impl ScenarioArgs {
    /// Reads the scenario.
    ///
    /// # Errors
    /// An unreadable file, or what is wrong in it, with places; a script without a link.
    pub fn read(&self, options: &ReadOptions<'_>) -> Result<Scenario, CliError> {
        match &self.link {
            None => scenario(&self.scenario, options),
            Some(link) => script(&self.scenario, link, self.link_rate, options),
        }
    }

    /// Reads the scenario as text, for other values of its keys.
    ///
    /// # Errors
    /// As [`template`]; a script.
    pub fn template(&self) -> Result<Template, CliError> {
        if self.link.is_some() { Err(script_has_no_keys()) } else { template(&self.scenario) }
    }
}

/// Reads a scenario file as text, for other values of its keys.
///
/// # Errors
/// An unreadable file; a script.
pub fn template(path: &Path) -> Result<Template, CliError> {
    if text(path).is_some_and(|text| Script::is_one(&text)) {
        return Err(script_has_no_keys());
    }
    Ok(Template::read(&SourceText::read(path)?)?)
}

/// Reads a scenario file.
///
/// # Errors
/// An unreadable file, or what is wrong in it, with places.
fn scenario(path: &Path, options: &ReadOptions<'_>) -> Result<Scenario, CliError> {
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
fn script(path: &Path, link: &Path, rate: Option<Rate>, options: &ReadOptions<'_>) -> Result<Scenario, CliError> {
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

/// The text of an ordinary file. A pipe is read once, elsewhere.
fn text(path: &Path) -> Option<String> {
    path.is_file().then(|| std::fs::read_to_string(path).ok()).flatten()
}

/// Returns the error of a sweep over a script.
fn script_has_no_keys() -> CliError {
    CliError::wrong(
        "this is a script, which has no keys to sweep; write a scenario file over its link, with model = \"script\" and file = \"...\", and \
         name that",
    )
}
