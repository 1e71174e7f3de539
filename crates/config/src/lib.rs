#![doc = include_str!("../README.md")]
//!
//! # Modules
//! * [`link`]: link files.
//! * [`scenario`]: scenario files.
//! * [`import`]: configurations of other tools as link files.
//! * [`tc`]: commands of tc to a link file and back.
//! * [`demand`]: demands of classes on a command line.
//! * [`sweep`]: scenario files with other numbers.
//! * [`files`]: access to the files that a text names.
//! * [`problem`]: problems of a file, with places.
//! * [`names`]: names of classes.
//! * [`units`]: rates, sizes and times.
//! * [`matching`]: the match language, which assigns frames to classes.
//!
//! # Features
//! * `tools` (on by default): [`import`], and commands of tc as link files ([`tc`]).
//! * `recordings` (on by default): sources can replay recordings.
//!
//! # Errors and panics
//! Reading a file of any bytes gives a value or an error; a panic is a bug.
#![forbid(unsafe_code)]
// Parts of matches and sections that only imports use.
#![cfg_attr(not(feature = "tools"), allow(dead_code))]

mod changes;
mod class;
mod classid;
#[cfg(feature = "tools")]
mod commands;
pub mod demand;
mod document;
mod expand;
pub mod files;
mod fit;
mod hosts;
#[cfg(feature = "tools")]
pub mod import;
#[cfg(feature = "tools")]
mod json;
pub mod link;
pub mod names;
mod peers;
mod pieces;
pub mod problem;
mod reader;
pub mod scenario;
mod services;
pub mod sweep;
#[cfg(feature = "tools")]
pub mod tc;
mod toml_text;
mod tree;
#[cfg(feature = "tools")]
mod yaml;

pub use fairlink_matching as matching;
pub use fairlink_schema::{human, units};

pub use changes::{Change, MAX_CHANGES};
pub use classid::Classid;
pub use expand::written_out;
pub use files::{Disk, Files, Limits, Memory, NoFiles};
pub use hosts::host_of;
pub use link::pools::PoolSpec;
pub use link::{LinkFile, ReadOptions};
pub use peers::Peer;
pub use problem::{Problem, Problems, Source, SourceText};
pub use scenario::{RouteSpec, Scenario};
