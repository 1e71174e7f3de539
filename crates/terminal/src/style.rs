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
    text.trim_start_matches('\n').lines().map(|line| flush(line) + "\n").collect()
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
