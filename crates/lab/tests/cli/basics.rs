//! What every command of the program has in common.

use crate::{PROGRAM, lab};

#[test]
fn the_help_names_the_commands_and_where_links_are_shared() {
    let help = lab(&["--help"]).quiet().stdout;
    for name in ["reproduce", "bench", "campaign", "traffic", "clock", "between", "pdf", "schema", "completions", "man"]
    {
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{name} "))), "{name}: {help}");
    }
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("simulated by the program fairlink.") && words.contains("Examples:"), "{help}");
    // Without a command, the same goes to standard error.
    let bare = lab(&[]);
    assert!(bare.code == 2 && bare.stdout.is_empty() && bare.stderr.contains("reproduce"), "{}", bare.stderr);
}

#[test]
fn the_schema_has_every_kind_of_document_and_no_kind_of_the_other_program() {
    let schema = lab(&["schema", "documents"]).quiet().json();
    let documents = schema["anyOf"].as_array().unwrap();
    let kind =
        |document: &'_ serde_json::Value| document["properties"]["document"]["const"].as_str().unwrap().to_owned();
    let kinds: Vec<String> = documents.iter().map(kind).collect();
    for document in documents {
        assert_eq!(document["title"], format!("fairlink-lab {}", kind(document)));
    }
    for kind in ["bench", "between", "campaign", "clock", "reproduce", "traffic"] {
        assert!(kinds.iter().any(|known| known == kind), "{kind}: {kinds:?}");
    }
    assert!(!kinds.iter().any(|kind| kind == "check") && schema["title"] == "Documents of fairlink-lab");
}

#[test]
fn a_closed_pipe_ends_it_without_noise() {
    let line = format!("{} reproduce --help | head -1", env!("CARGO_BIN_EXE_fairlink-lab"));
    let run = PROGRAM.run(std::process::Command::new("sh").args(["-c", &line]));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn a_command_that_only_the_program_for_links_has_is_said_to_be_there_in_one_line() {
    let run = lab(&["check", "link.toml"]);
    let says = "error: `check` is a command of fairlink: write `fairlink check`\n";
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (2, "", says));
    let run = lab(&["chek", "link.toml"]);
    assert!(run.code == 2 && run.stderr.contains("unrecognized subcommand 'chek'"), "{}", run.stderr);
}

#[test]
fn completions_know_the_words_that_options_take() {
    let offered = |words: &[&str]| PROGRAM.offered("fairlink-lab", "/", words);
    assert_eq!(offered(&["campaign", "s.toml", "--format", ""]), ["csv", "parquet"]);
    assert_eq!(offered(&["clock", "stamps.csv", "--make", "--queueing", "e"]), ["exponential"]);
    let wrong = lab(&["campaign", "s.toml", "--out", "d", "--format", "json"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("[possible values: csv, parquet]"), "{}", wrong.stderr);
}

#[test]
fn every_command_has_a_manual_page_that_leads_to_the_others() {
    PROGRAM.check_manual("fairlink-lab", "fairlink");
}

#[test]
fn an_option_of_a_feature_has_a_default_only_where_the_feature_is_built_in() {
    let help = lab(&["reproduce", "--help"]).quiet().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("--page-files <DIR> Directory with the files of the page"), "{help}");
    assert_eq!(help.contains("[default: those in the program"), cfg!(feature = "page"), "{help}");
    assert_eq!(help.contains("built without the feature `page`"), !cfg!(feature = "page"), "{help}");
}
