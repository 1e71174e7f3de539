//! `fairlink qdisc` without the kernel: its messages, and errors before them.

use std::fs;

use crate::{Scratch, fairlink};

#[test]
fn add_and_change_ask_for_an_interface_or_a_file_and_name_both() {
    for what in ["add", "change"] {
        let none = fairlink(&["qdisc", what, "link.toml"]);
        assert_eq!(none.code, 2, "{}", none.stderr);
        assert!(none.stderr.contains("--dev <IF>|--out <FILE>"), "{}", none.stderr);
        let both = fairlink(&["qdisc", what, "link.toml", "--dev", "lo", "--out", "file"]);
        assert_eq!(both.code, 2, "{}", both.stderr);
        assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
    }
}

#[test]
fn more_classes_than_a_message_holds_are_written_and_more_than_tc_has_numbers_for_are_refused() {
    let scratch = Scratch::new();
    let config = |classes: usize| {
        let rows: String = (1..=classes).map(|number| format!("s{number}\n")).collect();
        scratch.write("many.csv", &format!("name\n{rows}"));
        let link =
            "[link]\nrate = \"10gbit\"\nbuffer = \"1000p\"\n[[classes]]\nfrom = \"many.csv\"\nbuffer = \"10p\"\n";
        let link = scratch.write("many.toml", link);
        let out = scratch.path("many");
        let run = fairlink(&["qdisc", "add", &link, "--out", &out]);
        (run, out)
    };
    let (run, out) = config(6000);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(fs::metadata(out).unwrap().len() > 65_535, "it is longer than an attribute");
    let (run, _) = config(65_535);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("65534"), "{}", run.stderr);
}

#[test]
fn a_parent_and_a_handle_are_read_as_tc_writes_them_and_go_with_an_interface() {
    let scratch = Scratch::new();
    let link = scratch.write("link.toml", "link.rate = \"1mbit\"\n[[class]]\nname = \"a\"\n");
    for (option, wrong, says) in [
        ("--parent", "2:", "is not a class of a queueing discipline"),
        ("--parent", "0:1", "is not a class of a queueing discipline"),
        ("--parent", "2:g", "is not a class of a queueing discipline"),
        ("--handle", "0:", "is not a handle of a queueing discipline"),
        ("--handle", "ffff:", "is not a handle of a queueing discipline"),
        ("--handle", "2:1", "is not a handle of a queueing discipline"),
    ] {
        let run = fairlink(&["qdisc", "add", &link, "--dev", "lo", option, wrong]);
        assert_eq!(run.code, 2, "{option} {wrong}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{option} {wrong}: {}", run.stderr);
    }
    for option in [["--parent", "2:1"], ["--handle", "20:"]] {
        let run = fairlink(&["qdisc", "add", &link, "--out", &scratch.path("out"), option[0], option[1]]);
        assert_eq!(run.code, 2, "{option:?}");
        assert!(run.stderr.contains("cannot be used with"), "{}", run.stderr);
    }
    // The parent's own number, by default and as given, before the kernel is called.
    for handle in [&[][..], &["--handle", "1:"], &["--handle", "1"]] {
        let run = fairlink(&[&["qdisc", "add", &link, "--dev", "lo", "--parent", "1:10"], handle].concat());
        assert_eq!(run.code, 2, "{handle:?}: {}", run.stderr);
        assert!(
            run.stderr.contains("the handle 1: is that of the queueing discipline of the parent 1:10"),
            "{}",
            run.stderr
        );
    }
    let run = fairlink(&["qdisc", "show", "--dev", "lo", "--parent", "2:1"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("lo has no queueing discipline \"fairlink\" below the class 2:1"), "{}", run.stderr);
}
