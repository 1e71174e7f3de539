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
    // All that is built into the program. Tests are not.
    let crates = std::fs::read_dir("../../crates").into_iter().flatten().flatten();
    let sources = crates.map(|of| of.path().join("src").display().to_string());
    let others = ["build.rs", "../../scenarios", "../../Cargo.lock"].map(str::to_owned);
    for path in sources.chain(others) {
        println!("cargo::rerun-if-changed={path}");
    }
    let built = [":(top,glob)crates/*/src/**", ":(top)scenarios", ":(top)Cargo.lock"];
    let changed = git(&[&["status", "--porcelain", "--"], &built[..]].concat());
    let is_changed = changed.is_some_and(|changed| !changed.is_empty());
    println!("cargo::rustc-env=FAIRLINK_CHANGED={}", if is_changed { "yes" } else { "" });
    println!("cargo::rustc-env=FAIRLINK_COMMIT={}", git(&["rev-parse", "--short", "HEAD"]).unwrap_or_default());
}
