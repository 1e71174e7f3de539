//! The `fairlink-lab` command: the laboratory beside `fairlink`.
//!
//! The command line is a type in `commands.rs`; each command has a file in `commands/`; what it has in common with
//! `fairlink` is in `fairlink-terminal`.
//!
//! Data goes to standard output, messages to standard error. Exit code 0: done; 1: the claim or the run failed; 2: the
//! command line or a file is wrong.
#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

/// Commands that ask for them have huge pages behind large memory.
#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: fairlink_net::HugePages = fairlink_net::HugePages;

fn main() -> ExitCode {
    commands::main()
}
