//! The `fairlink` binary as its users see it: output, JSON as documented, exit codes. One module per group of commands.

mod basics;
mod bench;

use std::process::{Command, Output, Stdio};

/// What a run of the binary left behind.
pub(crate) struct Run {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Run {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in: {}", self.stdout))
    }

    /// Asserts that it ended well and said nothing on standard error.
    pub(crate) fn quiet(self) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self
    }
}

/// The binary with these arguments, without colour or terminal.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlink"));
    command.args(args).stdin(Stdio::null()).env_remove("CLICOLOR_FORCE");
    command
}

/// Runs it to its end.
pub(crate) fn fairlink(args: &[&str]) -> Run {
    let Output { status, stdout, stderr } = command(args).output().expect("the binary starts");
    Run {
        code: status.code().expect("it exits by itself"),
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}
