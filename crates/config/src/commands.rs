//! The reader of tc commands: their text to the text of a link file.
//!
//! It stands below link files, which read tc commands themselves, and does not know them. What needs both is in
//! [`tc`](crate::tc), which has the sources, too.

mod cake;
pub(crate) mod convert;
mod filter;
mod findings;
pub(crate) mod kernel;
mod marks;
mod options;
pub(crate) mod order;
mod read;
pub(crate) mod setup;
mod show;
mod units;
mod words;
