//! `fairlink init`: files to begin with.

use std::fs;

use crate::{Scratch, fairlink, fairlink_on_a_full_disk, scenario};

#[test]
fn a_file_that_cannot_be_written_whole_is_not_written_at_all() {
    let dir = Scratch::new();
    let file = dir.path("home.toml");
    let args = ["init", "--kind", "provider", "--egress", "lo", "--rate", "40mbit", "--file", &file];
    let run = fairlink_on_a_full_disk(&args);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert!(run.stderr.contains("--file: ") && run.stderr.contains("home.toml cannot be written: "), "{}", run.stderr);
    assert!(fs::metadata(&file).is_err(), "a part of it stays");
    assert_eq!(fairlink(&args).code, 0);
    let whole = fs::read(&file).unwrap();
    assert!(whole.len() > 1024, "it is longer than what fits: {}", whole.len());

    let again = fairlink(&args);
    assert_eq!((again.code, again.stdout.as_str()), (2, ""));
    assert!(again.stderr.contains("home.toml is there already and is kept"), "{}", again.stderr);
    assert_eq!(fs::read(&file).unwrap(), whole);
}

#[test]
fn of_several_files_that_do_not_all_fit_none_is_written() {
    let dir = Scratch::new();
    let (devices, network) = (scenario("import/ShapedDevices.csv"), scenario("import/network.json"));
    let out = dir.path("made");
    let args = ["import", "libreqos", &devices, "--network", &network, "--direction", "both", "--out", &out];
    let run = fairlink_on_a_full_disk(&args);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert!(run.stderr.contains(" cannot be written: "), "{}", run.stderr);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{}", run.stderr);
    assert_eq!(fairlink(&args).code, 0);
    assert!(fs::read_dir(&out).unwrap().count() > 1);
}
