//! Log messages of a gateway. The data thread writes none itself, because a terminal or a pipe may block. Messages wait
//! in short queues; the main thread of the process takes them out and writes them.

use std::fmt;

use serde::Serialize;

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The gateway, or one of its links, does not work.
    Error,
    /// It works, but not as configured: the user has to act.
    Warn,
    /// A state has changed.
    Info,
    /// Details of how it works.
    Debug,
}

/// A message for the log, one sentence or more in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// Severity.
    pub severity: Severity,
    /// Name of the link, if the message concerns one.
    pub link: Option<String>,
    /// Name of the class, if the message concerns one.
    pub class: Option<String>,
    /// The text, without link, time and severity.
    pub message: String,
}

impl LogEvent {
    /// A message of this severity.
    #[must_use]
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self { severity, link: None, class: None, message: message.into() }
    }

    /// An error.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    /// A warning.
    #[must_use]
    pub fn warn(message: impl Into<String>) -> Self {
        Self::new(Severity::Warn, message)
    }

    /// A change of state.
    #[must_use]
    pub fn info(message: impl Into<String>) -> Self {
        Self::new(Severity::Info, message)
    }

    /// Returns the message with the name of a link.
    #[must_use]
    pub fn of_link(mut self, link: impl Into<String>) -> Self {
        self.link = Some(link.into());
        self
    }

    /// Returns the message with the name of a class.
    #[must_use]
    pub fn of_class(mut self, class: impl Into<String>) -> Self {
        self.class = Some(class.into());
        self
    }
}

/// In one line: link, then text.
impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.link {
            Some(link) => write!(f, "{link}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
