//! Errors of a reload of the links of a process.

use thiserror::Error;

use crate::gateway::reload::ReloadError;

/// Reason why the links of a process were not reloaded. Nothing has changed then, except for [`FleetError::Half`].
#[derive(Debug, Error)]
pub enum FleetError {
    /// Another reload is in progress.
    #[error("another reload is in progress; try again")]
    Busy,
    /// The process ends.
    #[error("the gateway is stopping; nothing has changed")]
    Ending,
    /// The files are wrong, or their links conflict.
    #[error("{0}")]
    Plan(String),
    /// There would be no link.
    #[error("the configuration has no link; to end the gateway, stop it (Ctrl-C, SIGTERM)")]
    NoLinks,
    /// A remaining link refuses its change.
    #[error("{link}{source}")]
    Link {
        /// Its name and a colon, if there are several.
        link: String,
        /// The reason.
        source: ReloadError,
    },
    /// A new link cannot be opened.
    #[error("{0}")]
    Open(String),
    /// A link failed after others had changed already.
    #[error("{why}; these changes were already made: {changed}")]
    Half {
        /// The failure.
        why: String,
        /// The changed links.
        changed: String,
    },
}
