//! The one style of errors and warnings: `error:` and `WARNING:`, as the command line and the run have it.

use std::io::{self, Write};

use fairlink_config::Problem;
use miette::{GraphicalTheme, MietteHandlerOpts};
use supports_unicode::Stream;

/// Makes findings in files begin as all other messages do: `error:`, and `WARNING:`.
pub fn set() {
    // Only a second call fails.
    let _ = miette::set_hook(Box::new(|_| {
        let mut theme = match (supports_unicode::on(Stream::Stderr), console::colors_enabled_stderr()) {
            (true, true) => GraphicalTheme::unicode(),
            (true, false) => GraphicalTheme::unicode_nocolor(),
            (false, true) => GraphicalTheme::ascii(),
            (false, false) => GraphicalTheme::none(),
        };
        theme.characters.error = "error:".to_owned();
        theme.characters.warning = "WARNING:".to_owned();
        Box::new(MietteHandlerOpts::new().graphical_theme(theme).build())
    }));
}

/// Formats a finding in a file; the excerpt is drawn on capable terminals.
pub fn shown(report: &miette::Report) -> String {
    // The message is indented by two blanks, like the excerpt below it.
    let text = format!("{report:?}");
    let lines = text.trim_start_matches('\n').lines().filter(|line| !is_empty_head(line));
    lines.map(|line| flush(line) + "\n").collect()
}

/// Returns true for the line that the excerpts of several findings are parted by: it names a severity, and the next line
/// says it again.
fn is_empty_head(line: &str) -> bool {
    ["Error:", "Warning:", "Advice:"].contains(&console::strip_ansi_codes(line).trim_end())
}

/// Removes the indentation of a message's first line.
fn flush(line: &str) -> String {
    let bare = console::strip_ansi_codes(line.trim_start());
    let begins = ["error:", "WARNING:"].iter().any(|word| bare.starts_with(word));
    if begins { line.trim_start().to_owned() } else { line.to_owned() }
}

/// Prints warnings to standard error.
pub fn warn(warnings: impl IntoIterator<Item = Problem>) {
    warnings.into_iter().for_each(|warning| report(&miette::Report::new(warning)));
}

/// The same, to standard error.
pub fn report(report: &miette::Report) {
    let _ = io::stderr().lock().write_all(format!("{}\n", shown(report)).as_bytes());
}

#[cfg(test)]
mod tests {
    use fairlink_config::{LinkFile, ReadOptions};

    use super::*;

    #[test]
    fn several_findings_have_a_head_each_and_no_empty_one() {
        set();
        let text = "[link]\nrate = \"1mbitt\"\n[[class]]\nname = \"a\"\nguarante = \"1mbit\"\n";
        let problems = LinkFile::parse("a.toml", text, &ReadOptions::default()).unwrap_err();
        let shown = shown(&miette::Report::new(problems));
        let plain = console::strip_ansi_codes(&shown);
        let heads: Vec<&str> = plain.lines().filter(|line| line.to_lowercase().starts_with("error:")).collect();
        assert_eq!(
            heads,
            [
                "error: 2 errors in a.toml",
                "error: \"rate\": \"mbitt\" is no unit of a rate",
                "error: [[class]] has an unknown key \"guarante\"",
            ],
            "{plain}"
        );
    }
}
