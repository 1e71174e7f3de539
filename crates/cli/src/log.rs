//! The log of a long-running process: a line for each message on standard error, with time, level and fields, as text
//! or JSON.
//!
//! Text for the journal has no time, because the journal stamps each line, and begins with the priority in the form
//! that the journal parses (`<4>`). JSON always has the time, so that each line is complete.

use std::fmt::{self, Write};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use clap::ValueEnum;
use fairlink_config::Problems;
use fairlink_net::{LogEvent, Severity};
use fairlink_terminal::failure::{CliError, chain};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The form of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Time, level, message, fields as name=value.
    Text,
    /// An object in each line: timestamp, level, message, and fields.
    Json,
}

/// The least severe level that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Least {
    Error,
    Warn,
    Info,
    Debug,
}

impl From<Least> for Level {
    fn from(least: Least) -> Self {
        match least {
            Least::Error => Self::ERROR,
            Least::Warn => Self::WARN,
            Least::Info => Self::INFO,
            Least::Debug => Self::DEBUG,
        }
    }
}

/// Level and format of log messages.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Form of the messages on standard error: text (time, level, message, fields; in the journal without the time,
    /// which it adds itself), json (an object in each line).
    #[arg(long = "log", value_name = "FORM", default_value = "text", hide_possible_values = true)]
    format: Format,
    /// Minimum level of messages: error, warn, info, debug.
    #[arg(long = "log-level", value_name = "LEVEL", default_value = "info", hide_possible_values = true)]
    least: Least,
}

impl LogArgs {
    /// Writes this process's log as asked from now on.
    pub(crate) fn start(self) {
        let builder = tracing_subscriber::fmt().with_max_level(Level::from(self.least)).with_writer(io::stderr);
        // A closed standard error is no reason to panic.
        let builder = builder.log_internal_errors(false);
        // Only a second call fails, and the first holds.
        let _ = match self.format {
            Format::Text => builder.event_format(Lines { journal: is_journal() }).try_init(),
            Format::Json => builder.json().flatten_event(true).with_target(false).with_current_span(false).try_init(),
        };
    }

    /// Returns true if each line is an object.
    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }
}

/// Writes a message.
pub(crate) fn write(event: &LogEvent) {
    let LogEvent { severity, link, class, message } = event;
    let (link, class) = (link.as_deref(), class.as_deref());
    match severity {
        Severity::Error => tracing::error!(link, class, "{message}"),
        Severity::Warn => tracing::warn!(link, class, "{message}"),
        Severity::Info => tracing::info!(link, class, "{message}"),
        Severity::Debug => tracing::debug!(link, class, "{message}"),
    }
}

/// Writes the reason of a failure into the log. One that shows its place in a file stays as it is in a log for people.
pub(crate) fn logged(failure: CliError, as_json: bool) -> CliError {
    let (text, code) = match &failure {
        CliError::Failed(error) => (chain(error), 1),
        CliError::Wrong(error) => (chain(error), 2),
        CliError::File(report) if as_json => {
            let problems = report.downcast_ref::<Problems>();
            (problems.map_or_else(|| report.to_string(), Problems::lines), 2)
        }
        _ => return failure,
    };
    write(&LogEvent::error(text));
    CliError::Said(code)
}

/// Returns true if standard error is the journal stream that the service manager names, and not a file that it was
/// redirected to.
fn is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let own = io::stderr().as_fd().try_clone_to_owned().map(std::fs::File::from).and_then(|file| file.metadata());
    own.is_ok_and(|own| named == format!("{}:{}", own.dev(), own.ino()))
}

/// Text, a line for each message.
struct Lines {
    journal: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = *event.metadata().level();
        if self.journal {
            write!(out, "<{}>", priority(level))?;
        } else {
            SystemTime.format_time(&mut out)?;
            out.write_char(' ')?;
        }
        let mut parts = Parts::default();
        event.record(&mut parts);
        writeln!(out, "{level:5} {}{}", parts.message, parts.fields)
    }
}

/// The priority of a message in the journal.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// Message and fields of an event, in one line.
#[derive(Default)]
struct Parts {
    message: String,
    fields: String,
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        let plain =
            !value.is_empty() && value.chars().all(|letter| letter.is_alphanumeric() || "-_.:/".contains(letter));
        let value = if plain { value.to_owned() } else { format!("{value:?}") };
        // Writing into a text never fails.
        let _ = write!(self.fields, " {}={value}", field.name());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = in_one_line(&format!("{value:?}"));
        } else {
            self.record_str(field, &format!("{value:?}"));
        }
    }
}

/// A text without line ends and other control characters, which a name from outside could use to forge a line.
fn in_one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let escape = |letter: char| match letter.is_control() {
        true => letter.escape_debug().collect::<String>(),
        false => letter.to_string(),
    };
    lines.join("; ").chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps the bytes of a log for a test.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Seen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines_of(journal: bool, events: &[LogEvent]) -> Vec<String> {
        let seen = Seen::default();
        let to = seen.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(Level::INFO).with_writer(move || to.clone());
        let subscriber = subscriber.event_format(Lines { journal }).finish();
        tracing::subscriber::with_default(subscriber, || events.iter().for_each(write));
        String::from_utf8(seen.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_has_its_time_level_message_and_fields_and_the_journal_adds_the_time_itself() {
        let events = [
            LogEvent::warn("vb is gone").of_link("down"),
            LogEvent::info("so\nit is").of_link("a b").of_class("x"),
            LogEvent::new(Severity::Debug, "not asked for"),
        ];
        let lines = lines_of(false, &events);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let (time, rest) = lines[0].split_once(' ').unwrap();
        assert_eq!(rest, "WARN  vb is gone link=down");
        // The form of RFC 3339, digit by digit.
        let form: String = time.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
        assert_eq!(form, "0000-00-00T00:00:00.000000Z", "{time}");
        assert_eq!(lines[1].split_once(' ').unwrap().1, "INFO  so; it is link=\"a b\" class=x");
        assert_eq!(
            lines_of(true, &events),
            ["<4>WARN  vb is gone link=down", "<6>INFO  so; it is link=\"a b\" class=x"]
        );
    }

    #[test]
    fn a_name_from_outside_forges_no_line_and_no_colour() {
        let event = LogEvent::error("\u{1b}[31mred\r\n2026-01-01T00:00:00Z INFO all is well").of_link("x\ny");
        let lines = lines_of(true, &[event]);
        assert_eq!(lines, ["<3>ERROR \\u{1b}[31mred; 2026-01-01T00:00:00Z INFO all is well link=\"x\\ny\""]);
    }
}
