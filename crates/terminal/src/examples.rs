//! Examples of every command, which its help and its manual page end with.

use std::fmt::Write as _;

use clap::Command;

/// Examples of each command, subcommands with both names: a command line and its effect.
pub type Examples = &'static [(&'static str, &'static [(&'static str, &'static str)])];

fn of(examples: Examples, command: &str) -> &'static [(&'static str, &'static str)] {
    examples.iter().find(|(name, _)| *name == command).map_or(&[], |(_, examples)| examples)
}

/// The command line with examples at the end of each help text.
#[must_use]
pub fn in_help(command: Command, examples: Examples) -> Command {
    let name = command.get_name().to_owned();
    below(command, examples, &name, "")
}

/// The same for a command that is called so, below the program with these names before its own.
fn below(command: Command, examples: Examples, name: &str, above: &str) -> Command {
    let mut text = String::from("Examples:");
    for (line, what) in of(examples, name) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {line}\n      {what}");
    }
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = if of(examples, name).is_empty() { command } else { command.after_help(text) };
    names.iter().fold(command, |command, own| {
        let path = format!("{above}{own}");
        command.mut_subcommand(own, |command| below(command, examples, &path, &format!("{path} ")))
    })
}

/// Returns the section of a manual page.
#[must_use]
pub fn in_manual(command: &str, examples: Examples) -> String {
    // In roff, a hyphen that is typed is a minus, and a line must not begin with a dot or a quote.
    let roff = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    let mut text = String::new();
    for (line, what) in of(examples, command) {
        let _ = write!(text, ".TP\n\\fB{}\\fR\n\\&{}\n", roff(line), roff(what));
    }
    if text.is_empty() { text } else { format!(".SH EXAMPLES\n{text}") }
}
