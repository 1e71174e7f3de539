//! Behaviour common to all commands: help, completions, manual pages, usage errors, closed pipes.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::{FAIRLINK, Scratch, command, fairlink, scenario};

/// Every command but `help`, as `--help` lists them.
fn commands() -> Vec<String> {
    let help = fairlink(&["--help"]).quiet().stdout;
    let listed = help.split("Commands:").nth(1).expect("a list").split("Options:").next().expect("its end");
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|&name| name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_help_text_and_takes_json() {
    let commands = commands();
    assert!(commands.contains(&"schedulers".to_owned()), "{commands:?}");
    for name in &commands {
        let help = fairlink(&[name, "--help"]).quiet().stdout;
        assert!(help.contains("Usage: fairlink") && help.contains("--json"), "{name}: {help}");
        assert!(help.contains("Examples:\n  fairlink "), "{name}: {help}");
    }
}

#[test]
fn completions_know_commands_schedulers_kinds_and_files_of_the_right_kind() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = fairlink(&["completions", shell]).quiet().stdout;
        assert!(script.contains("FAIRLINK_COMPLETE") && script.contains("fairlink"), "{shell}: {script}");
    }
    assert_eq!(fairlink(&["completions", "cmd.exe"]).code, 2);
    let dir = Scratch::new();
    fs::create_dir(dir.path("below")).unwrap();
    for file in ["home.toml", "old.tc", "notes.txt", "pods.json", "router.rsc", "below/x.toml"] {
        dir.write(file, "");
    }
    let offered = |words: &[&str]| FAIRLINK.offered("fairlink", &dir.path(""), words);
    let all = offered(&[""]);
    assert!(commands().iter().all(|name| all.contains(name)), "{all:?}");
    assert_eq!(offered(&["init", "--kind", ""]), ["home", "office", "provider", "tenants", "lab"]);
    assert_eq!(offered(&["init", "--line", "ad"]), ["adsl"]);
    assert_eq!(offered(&["init", "--toward", ""]), ["internet", "users"]);
    assert_eq!(offered(&["sim", "home.toml", "--scheduler", "hf"]), ["hfsc"]);
    assert_eq!(offered(&["check", ""])[..3], ["home.toml", "old.tc", "below/"]);
    assert_eq!(offered(&["import", "k8s", "p"]), ["pods.json"]);
    assert_eq!(offered(&["import", "mikrotik", "r"]), ["router.rsc"]);
    #[cfg(target_os = "linux")]
    assert!(offered(&["gateway", "home.toml", "--in", ""]).iter().all(|name| !name.contains('/')));
}

#[test]
fn every_command_has_a_manual_page_that_leads_to_the_others() {
    FAIRLINK.check_manual("fairlink", "fairlink-lab");
}

#[test]
fn a_format_without_a_campaign_says_what_to_write() {
    let run = fairlink(&["sim", &scenario("exp2-H.toml"), "--format", "csv"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    for says in
        ["error: --format csv: ", "`fairlink-lab campaign SCENARIO --out DIR --format csv`", "`fairlink sim --out DIR`"]
    {
        assert!(run.stderr.contains(says), "{}", run.stderr);
    }
}

#[test]
fn what_is_no_document_refuses_json() {
    for (args, says) in [
        (&["man", "--json"][..], "error: --json: a manual page is no document; leave --json out\n"),
        (&["--json", "completions", "bash"], "error: --json: a completion script is no document; leave --json out\n"),
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (2, "", says));
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let run = fairlink(&["man", "--out", "/dev/null/pages"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("/dev/null/pages"), "{}", run.stderr);
    let sim = scenario("exp2-H.toml");
    for args in [&["man", "--out", "/etc/passwd"][..], &["sim", &sim, "--out", "/etc/passwd"]] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""));
        assert!(run.stderr.contains("--out /etc/passwd: this is a file; name a directory"), "{}", run.stderr);
    }
}

#[test]
fn a_wrong_command_line_exits_with_2_and_says_what_is_wrong() {
    for (args, says) in [
        (&["sheduler"][..], "schedulers"),
        (&["schedulers", "--jason"], "'--json'"),
        (&["schedulers", "extra"], "'extra'"),
        (&["completions"], "<SHELL>"),
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_command_that_only_the_laboratory_has_is_said_to_be_there_in_one_line() {
    for args in [&["campaign"][..], &["--json", "campaign", "x.toml", "--out", "y"], &["help", "campaign"]] {
        let run = fairlink(args);
        let says = "error: `campaign` is a command of fairlink-lab: write `fairlink-lab campaign`\n";
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (2, "", says), "{args:?}");
    }
    for (args, says) in
        [(["pdf", "--help"], "write `fairlink-lab pdf`"), (["help", "bench"], "write `fairlink-lab bench`")]
    {
        let run = fairlink(&args);
        assert!(run.code == 2 && run.stderr.contains(says), "{}", run.stderr);
    }
    // As a word of another command it is no command of the laboratory.
    let run = fairlink(&["schema", "pdf"]);
    assert!(run.code == 2 && !run.stderr.contains("fairlink-lab"), "{}", run.stderr);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    for args in [&["schedulers"][..], &["schedulers", "--json"], &["completions", "bash"], &["man"]] {
        let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
        let status = child.wait().expect("it ends");
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn schedulers_are_listed_with_what_they_support() {
    let text = fairlink(&["schedulers"]).quiet().stdout;
    let json = fairlink(&["schedulers", "--json"]).quiet().json();
    let list = json["schedulers"].as_array().expect("a list");
    // A row in the table, and two lines behind an empty one.
    assert_eq!(text.lines().count(), 4 * list.len() + 1);
    assert!(list.iter().any(|entry| entry["name"] == "fifo"));
    for entry in list {
        let keys = ["hierarchy", "ceiling", "priority", "service_curves", "latency_class"];
        assert!(keys.iter().all(|&key| entry[key].is_boolean()), "{entry}");
        let keys = ["name", "paper", "work_conserving", "cost"];
        assert!(keys.iter().all(|&key| entry[key].is_string()), "{entry}");
        assert!(entry["bounds"].is_array(), "{entry}");
        assert!(text.contains(entry["name"].as_str().expect("text")));
    }
}

#[test]
fn only_those_who_have_frames_are_warned_of_a_default_that_is_never_used() {
    let dir = Scratch::new();
    let link = dir.write(
        "link.toml",
        "[link]\nrate = \"1gbit\"\ndefault = \"b\"\n[[class]]\nname = \"a\"\nmatch = \"any\"\n[[class]]\nname = \"b\"\n",
    );
    let text =
        "link = \"link.toml\"\nduration = \"1ms\"\n[[source]]\nclass = \"a\"\nmodel = \"greedy\"\npacket = \"1000B\"\n";
    let scenario = dir.write("scenario.toml", text);
    fairlink(&["fluid", &link]).quiet();
    fairlink(&["explain", &link, "--class", "a"]).quiet();
    fairlink(&["sim", &scenario]).quiet();
    let run = fairlink(&["check", &link]);
    assert!(run.code == 0 && run.stderr.contains("is never used"), "{}", run.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn a_cause_is_said_once() {
    for args in [&["receive", "--in", "no-such"][..], &["generate", &scenario("exp2-H.toml"), "--out", "no-such"]] {
        let run = fairlink(args);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert_eq!(run.stderr.matches("(os error").count(), 1, "{}", run.stderr);
    }
}

/// The program alone in a directory, with a `fairlink-lab` beside it that prints its arguments and exits with 7, if any.
#[cfg(target_os = "linux")]
fn without_laboratory(dir: &Scratch, beside: bool) -> impl Fn(&[&str]) -> crate::Run {
    use std::os::unix::fs::PermissionsExt;
    let (own, lab) = (dir.path("fairlink"), dir.path("fairlink-lab"));
    std::fs::copy(env!("CARGO_BIN_EXE_fairlink"), &own).unwrap();
    if beside {
        std::fs::write(&lab, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
        std::fs::set_permissions(&lab, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    move |args| {
        let output = std::process::Command::new(&own).args(args).env("PATH", "/nowhere").output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        crate::Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// An old command line, and that of the laboratory.
#[cfg(target_os = "linux")]
const MOVED: [(&[&str], &str); 9] = [
    (&["reproduce", "--help"], "reproduce --help"),
    (&["--json", "sim", "sim", "--shard=2/2", "--out", "d"], "campaign --json sim --shard=2/2 --out d"),
    (&["reproduce", "hls", "--quick", "--out", "report"], "reproduce hls --quick --out report"),
    (&["bench"], "bench"),
    (&["bench", "--gateway", "--quick", "--json"], "bench --gateway --quick --json"),
    (&["clock", "stamps.csv", "--make", "--skew", "-5"], "clock stamps.csv --make --skew -5"),
    (&["--json", "between", "a.pcap", "b.pcap"], "between --json a.pcap b.pcap"),
    (&["traffic", "s.toml", "--help"], "traffic s.toml --help"),
    (
        &["sim", "s.toml", "--sweep", "seed=1,2", "--out", "d", "--shard", "1/4", "--format", "parquet", "--json"],
        "campaign s.toml --sweep seed=1,2 --out d --shard 1/4 --format parquet --json",
    ),
];

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_moved_says_so_in_a_line_and_runs_where_the_laboratory_is() {
    let dir = Scratch::new();
    let alone = without_laboratory(&dir, false);
    for (old, _) in MOVED {
        let run = alone(old);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{old:?}");
        assert!(run.stderr.starts_with("error: fairlink ") && run.stderr.lines().count() == 1, "{}", run.stderr);
        assert!(
            run.stderr.contains("is now `fairlink-lab ") && run.stderr.contains("not installed here"),
            "{}",
            run.stderr
        );
    }
    // Another name for the program itself, and a file that is no program.
    std::os::unix::fs::symlink(dir.path("fairlink"), dir.path("fairlink-lab")).unwrap();
    let run = alone(&["bench"]);
    assert!(run.code == 2 && run.stderr.contains("it leads back here"), "{}", run.stderr);
    fs::remove_file(dir.path("fairlink-lab")).unwrap();
    dir.write("fairlink-lab", "no program");
    let run = alone(&["bench"]);
    assert!(run.code == 2 && run.stderr.contains("not installed here"), "{}", run.stderr);
    let dir = Scratch::new();
    let beside = without_laboratory(&dir, true);
    for (old, new) in MOVED {
        let run = beside(old);
        assert_eq!((run.code, run.stdout.trim_end()), (7, new), "{old:?}: {}", run.stderr);
        assert!(run.stderr.starts_with("NOTE: fairlink ") && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
}

#[test]
fn the_help_has_no_command_that_moved_and_names_the_program_that_has_it() {
    let help = fairlink(&["--help"]).quiet().stdout;
    for name in ["reproduce", "bench", "clock", "between", "traffic", "capacity"] {
        assert!(!help.lines().any(|line| line.trim_start().starts_with(&format!("{name} "))), "{name}: {help}");
    }
    assert!(help.contains("fairlink-lab"), "{help}");
}
