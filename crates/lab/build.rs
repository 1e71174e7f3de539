//! The commit that is built, for reports: `FAIRLINK_COMMIT`, empty if there is no repository.
#![forbid(unsafe_code)]

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn main() {
    // Each commit and each change of the branch writes a line there.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=FAIRLINK_COMMIT={}", git(&["rev-parse", "--short", "HEAD"]).unwrap_or_default());
}
