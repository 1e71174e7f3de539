//! Converts tc commands to a link file and back: HTB, CBQ, HFSC, prio, cake, the queues below them, and filters that
//! are expressible as matches.
//!
//! `docs/tc.md` is the users' reference. Source of the required commands: \[htb\], whose lines are of 2001; source of
//! units and defaults: tc(8), tc-htb(8), tc-cbq-details(7), tc-u32(8).
//!
//! * [`import`]: text of tc commands to the text of a link file, by the reader in `commands`.
//! * [`export`]: a link file to tc commands.
//!
//! Both report losses and changes of meaning, with places.

mod export;
#[cfg(test)]
mod tests;

pub use crate::commands::convert::{ImportOptions, Imported};
pub use crate::link::KERNEL_HTB_LEVELS;
pub use export::{Exported, export};

use crate::commands::convert;
use crate::link::{LinkFile, ReadOptions};
use crate::problem::{Problems, Source, SourceText};

/// Reads a text of tc commands; `name` is its name in errors.
///
/// # Errors
/// Everything that is wrong with it, at its place; or what [`LinkFile::parse`] refuses, at its place in the text that
/// was made.
pub fn import(name: &str, text: impl Into<String>, options: &ImportOptions) -> Result<Imported, Problems> {
    import_source(&SourceText::new(name, text.into()), options)
}

/// Reads a file of tc commands.
///
/// # Errors
/// As [`import`].
pub fn import_source(source: &Source, options: &ImportOptions) -> Result<Imported, Problems> {
    let made = convert::read(source, options)?;
    LinkFile::parse(&made.name, made.text.clone(), &ReadOptions::default())?;
    Ok(made)
}
