//! Commands of tc to a link file and back: HTB, CBQ, the queues below them, and filters as far as the match language reaches.
//!
//! `docs/tc.md` is the users' reference. Source of the commands that must be read: \[htb\], whose lines are of 2001; source of units
//! and defaults: tc(8), tc-htb(8), tc-cbq-details(7), tc-u32(8).
//!
//! * [`import`]: text of tc commands to the text of a link file.
//! * [`export`]: a link file to tc commands.
//!
//! Both name what is lost or changes its meaning, at its place.

pub(crate) mod export;
mod filter;
pub(crate) mod import;
mod options;
mod read;
mod setup;
#[cfg(test)]
mod tests;
mod toml_text;
mod units;
mod words;

pub use export::{Exported, export};
pub use import::{ImportOptions, Imported, import, import_file};

/// Default of HTB's `r2q`: a class's quantum is its rate in bytes per second divided by it.
pub(crate) const R2Q: u64 = 10;
/// Smallest quantum that the kernel chooses itself, in bytes.
pub(crate) const MIN_QUANTUM: u64 = 1_000;
/// Largest quantum that the kernel chooses itself, in bytes.
pub(crate) const MAX_QUANTUM: u64 = 200_000;
/// HTB and its filters count a frame with its Ethernet header, so that the usual mtu is this, in bytes.
pub(crate) const FRAME: u32 = 1514;
/// HTB has priorities 0 to 7.
pub(crate) const MAX_PRIORITY: u64 = 7;
