//! The commit that is built, for reports: `FAIRLINK_COMMIT`, empty if there is no repository. `FAIRLINK_CHANGED` is
//! empty if the files of the crates are those of the commit.
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
    // All that is built into the program.
    for path in ["build.rs", "../../crates", "../../scenarios", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let changed = git(&["status", "--porcelain", "--", "../../crates", "../../scenarios", "../../Cargo.lock"]);
    let is_changed = changed.is_some_and(|changed| !changed.is_empty());
    println!("cargo::rustc-env=FAIRLINK_CHANGED={}", if is_changed { "yes" } else { "" });
    println!("cargo::rustc-env=FAIRLINK_COMMIT={}", git(&["rev-parse", "--short", "HEAD"]).unwrap_or_default());
}
