//! The committed seeds of the fuzz targets, each tried once. `scripts/fuzz` starts from them, and takes minutes to build.
//! The contract suite of the core tries the seeds of `operations`.
#![forbid(unsafe_code)]

#[path = "../../../fuzz/src/config.rs"]
mod config;
#[path = "../../../fuzz/src/frame.rs"]
mod frame;
#[path = "../../../fuzz/src/qdisc.rs"]
mod qdisc;
#[path = "../../../fuzz/src/segments.rs"]
mod segments;
#[path = "../../../fuzz/src/texts.rs"]
mod texts;

use std::path::Path;

/// Tries all files of this directory of the repository.
fn try_all(directory: &str, run: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    let mut tried = 0;
    for entry in std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
        let path = entry.unwrap().path();
        if path.is_file() {
            println!("{}", path.display());
            run(&std::fs::read(path).unwrap());
            tried += 1;
        }
    }
    assert!(tried > 0, "there are no seeds in {}", directory.display());
}

#[test]
fn seeds_of_config_and_all_scenarios() {
    try_all("fuzz/seeds/config", config::run);
    try_all("scenarios", config::run);
}

#[test]
fn seeds_of_frame() {
    try_all("fuzz/seeds/frame", frame::run);
}

#[test]
fn seeds_of_qdisc() {
    try_all("fuzz/seeds/qdisc", qdisc::run);
}

#[test]
fn seeds_of_segments() {
    try_all("fuzz/seeds/segments", segments::run);
}

#[test]
fn seeds_of_texts() {
    try_all("fuzz/seeds/texts", texts::run);
}
