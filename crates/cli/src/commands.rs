//! The commands, one file each: command-line arguments (`Args`), and `run`, which calls the libraries and prints the
//! results.

pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod expand;
pub(crate) mod explain;
pub(crate) mod fluid;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod schedulers;
pub(crate) mod schema;
pub(crate) mod sim;
pub(crate) mod tc;

#[cfg(target_os = "linux")]
pub(crate) mod ctl;
#[cfg(target_os = "linux")]
pub(crate) mod gateway;
#[cfg(target_os = "linux")]
pub(crate) mod generate;
#[cfg(target_os = "linux")]
pub(crate) mod qdisc;
#[cfg(target_os = "linux")]
pub(crate) mod receive;
