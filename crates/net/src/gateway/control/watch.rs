//! Asking for statistics again and again on one connection, so that the answers have what happened in between.

use std::path::Path;
use std::time::Duration;

use super::{Connection, ControlError, Reply};
use crate::gateway::stats::GatewayStats;

/// A connection to a gateway. It ends where the gateway ends, and another can be made then.
#[derive(Debug)]
pub struct Watch(Connection);

impl Watch {
    /// Connects to the gateway whose socket is at `path`.
    ///
    /// # Errors
    /// [`ControlError`]: nobody there, no permission, or so many others that there is no room in time.
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        Connection::open(path).map(Self)
    }

    /// The names of the links that the gateway serves.
    ///
    /// # Errors
    /// [`ControlError`], as in [`Watch::stats`].
    pub fn links(&mut self) -> Result<Vec<String>, ControlError> {
        match self.ask("{\"cmd\":\"links\"}\n".to_owned())? {
            Reply { links: Some(links), .. } => Ok(links),
            Reply { error, .. } => Err(ControlError::Refused { message: error.unwrap_or_default() }),
        }
    }

    /// Statistics of `link`, or of the only link, within 4 s. With `next_within` they have what happened since the last call for the link that
    /// had it, and the connection stays for so long without another question, an hour at most.
    ///
    /// # Errors
    /// [`ControlError`]: the gateway has ended, does not answer in time, or has no such link.
    pub fn stats(&mut self, link: Option<&str>, next_within: Option<Duration>) -> Result<GatewayStats, ControlError> {
        let link = link.map_or_else(|| serde_json::Value::Null, serde_json::Value::from);
        let interval = next_within.map(|next| next.as_millis().min(u128::from(u32::MAX)) as u64);
        let request = serde_json::json!({ "cmd": "stats", "link": link, "interval_ms": interval });
        match self.ask(format!("{request}\n"))? {
            Reply { stats: Some(stats), .. } => Ok(stats),
            Reply { error, .. } => Err(ControlError::Refused { message: error.unwrap_or_default() }),
        }
    }

    fn ask(&mut self, request: String) -> Result<Reply, ControlError> {
        let line = self.0.ask(request.as_bytes())?;
        serde_json::from_slice(&line).map_err(|source| ControlError::NotAnAnswer { path: self.0.path.clone(), source })
    }
}
