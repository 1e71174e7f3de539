//! Why the links of a process were not reloaded.

use thiserror::Error;

use crate::gateway::reload::ReloadError;

/// Why the links of a process were not reloaded. Nothing has changed then, but for [`FleetError::Half`].
#[derive(Debug, Error)]
pub enum FleetError {
    /// Somebody else reloads.
    #[error("another reload is under way; try again")]
    Busy,
    /// The process ends.
    #[error("the gateway ends; nothing has changed")]
    Ending,
    /// The files are wrong, or their links cannot be together.
    #[error("{0}")]
    Plan(String),
    /// There would be no link.
    #[error("there is no link in it; to end the gateway, stop it (Ctrl-C, SIGTERM)")]
    NoLinks,
    /// A link that stays refuses its change.
    #[error("{link}{source}")]
    Link {
        /// Its name and a colon, where there are several.
        link: String,
        /// Why.
        source: ReloadError,
    },
    /// A link that comes cannot be opened.
    #[error("{0}")]
    Open(String),
    /// A link failed when others had changed already.
    #[error("{why}; this has changed all the same: {changed}")]
    Half {
        /// What failed.
        why: String,
        /// Which links are not as before.
        changed: String,
    },
}
