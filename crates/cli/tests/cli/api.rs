//! The functions of `fairlink-api` without a file system return the output of the command line, byte for byte.

use std::sync::Arc;

use fairlink_api::{
    CheckOptions, FluidOptions, ImportDoc, Refused, RefusedDoc, SimOptions, check, diff, expand, explain, fluid,
    import, json, keys, schedulers, simulate,
};
use fairlink_config::import::{Options, find};
use fairlink_config::{Files, Memory, Source, SourceText};
use fairlink_core::Nanos;

use fairlink_figures::measure::SETTLE;

use crate::{fairlink, scenario};

/// The file of `scenarios` with this name, and all that it names, in memory under the path that the command line is
/// given.
fn held(name: &str, beside: &[&str]) -> (String, Source) {
    let path = scenario(name);
    let all = beside.iter().map(|other| scenario(other)).chain([path.clone()]);
    let files = all.map(|path| (path.clone(), std::fs::read(&path).expect("the scenario")));
    let files: Arc<dyn Files> = Arc::new(Memory::new(files));
    let source = SourceText::read_from(&files, &path).expect("a text");
    (path, source)
}

/// Returns the output of the command line.
fn printed(args: &[&str]) -> String {
    fairlink(&[args, &["--json"]].concat()).stdout
}

#[test]
fn check_fluid_explain_and_expand_print_the_documents_of_the_library() {
    let tables = ["subscribers.csv"];
    for (name, beside) in
        [("fig1.toml", &[][..]), ("provider.toml", &tables), ("hfsc-fig10.toml", &[]), ("htb/cbq.tc", &[])]
    {
        let (path, source) = held(name, beside);
        let checked = check(&source, &CheckOptions::default()).expect("it is sound");
        assert_eq!(json(&checked.document(checked.all_classes())) + "\n", printed(&["check", &path]), "{name}");
        let solved = fluid(&source, &FluidOptions { demand: None, fair: true }).expect("it is sound");
        assert_eq!(json(&solved.document(solved.all_classes())) + "\n", printed(&["fluid", &path, "--fair"]), "{name}");
        let written = expand(&source).expect("it is sound");
        assert_eq!(json(&written) + "\n", printed(&["expand", &path]), "{name}");
    }
    let (path, source) = held("fig1.toml", &[]);
    let options = FluidOptions { demand: Some("A1=inf,C=100mbit"), fair: false };
    let solved = fluid(&source, &options).expect("it is sound");
    let args = ["fluid", &path, "--demand", "A1=inf,C=100mbit"];
    assert_eq!(json(&solved.document(solved.all_classes())) + "\n", printed(&args));
    let found = explain(&source, "A1", Some("A1=inf,B2=inf"), None).expect("it is sound");
    let args = ["explain", &path, "--class", "A1", "--demand", "A1=inf,B2=inf"];
    assert_eq!(json(&found.document) + "\n", printed(&args));
}

#[test]
fn schedulers_and_what_is_refused_are_the_same_documents_too() {
    assert_eq!(json(&schedulers(&[]).expect("all")) + "\n", printed(&["schedulers"]));
    let found = schedulers(&["tree", "curves"]).expect("known words");
    assert_eq!(json(&found) + "\n", printed(&["schedulers", "--for", "tree,curves"]));
    let text = "[link]\nrate = \"1mbit\"\n[[class]]\nname = \"a\"\ngarantee = \"1mbit\"\n";
    let dir = crate::Scratch::new();
    let path = dir.write("wrong.toml", text);
    let refused = check(&SourceText::new(&path, text), &CheckOptions::default()).expect_err("a key is misspelt");
    let Refused::Text(problems) = &refused else { panic!("{refused:?}") };
    assert_eq!(json(&RefusedDoc::new(problems, None)) + "\n", printed(&["check", &path]));
    let problem = &refused.problems()[0];
    assert_eq!((problem.code.as_str(), problem.line, problem.length), ("unknown_key", Some(5), Some(8)));
}

#[test]
fn keys_are_the_document_of_the_library_and_a_table() {
    let document = keys();
    assert_eq!(json(&document) + "\n", printed(&["schema", "keys"]));
    let text = fairlink(&["schema", "keys"]).quiet().stdout;
    for key in document.content.link.iter().chain(&document.content.class) {
        assert!(text.lines().any(|line| line.split(' ').next() == Some(key.name)), "{}: {text}", key.name);
        // A key that no scheduler honours could not be used.
        assert!(key.schedulers.as_ref().is_none_or(|names| !names.is_empty()), "{key:?}");
    }
}

#[test]
fn diff_prints_the_document_of_the_library() {
    let (old, before) = held("simple.toml", &[]);
    for name in ["simple-after.toml", "fig1.toml", "simple.toml"] {
        let (new, after) = held(name, &[]);
        let (document, _) = diff(&before, &after).expect("both are sound");
        assert_eq!(json(&document) + "\n", printed(&["diff", &old, &new]), "{name}");
        assert_eq!(document.content.same, name == "simple.toml");
    }
    let wrong = diff(&before, &SourceText::new("wrong.toml", "[link]\n")).expect_err("a link without a rate");
    assert_eq!(wrong.problems()[0].file.as_deref(), Some("wrong.toml"));
}

#[test]
fn an_import_is_the_document_of_the_command_line_and_has_its_link_files() {
    let (path, source) = held("htb/htb.tc", &[]);
    let tool = find("tc").expect("an import");
    let made = import(tool, &[source], &Options::default().with("rate", "10mbit")).expect("it is sound");
    for compare in [true, false] {
        let document = ImportDoc::new(tool, &made, compare).expect("a tree for HTB");
        let mut command = vec!["import", "tc", &path, "--rate", "10mbit", "--allow-unmatched"];
        command.extend((!compare).then_some("--no-compare"));
        assert_eq!(json(&document) + "\n", printed(&command));
        assert_eq!(document.content.files[0].text, fairlink(&command).stdout);
        assert_eq!(document.content.links[0].cases.is_empty(), !compare);
    }
}

#[test]
fn a_simulation_step_by_step_is_the_run_of_the_command_line() {
    let (path, source) = held("exp1.toml", &["fig1.toml"]);
    // The command line leaves out so much at the beginning of each phase.
    let options = SimOptions { settle: SETTLE, ..SimOptions::default() };
    let mut simulation = simulate(&source, &options).expect("it is sound");
    while !simulation.done() {
        simulation.step_until(simulation.now() + Nanos::from_millis(777)).expect("it runs");
    }
    let run: serde_json::Value = serde_json::from_str(&json(&simulation.report().expect("a report"))).expect("JSON");
    let printed: serde_json::Value = serde_json::from_str(&printed(&["sim", &path])).expect("JSON");
    assert_eq!(run, printed["runs"][0]);
    let refused = simulation.offer("nobody", 100, Nanos::ZERO).expect_err("no such class");
    assert!(refused.to_string().contains("there is no class \"nobody\""), "{refused}");
}
