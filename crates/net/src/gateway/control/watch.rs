//! Repeated requests for statistics on one connection, whose answers cover the intervals in between.

use std::path::Path;
use std::time::Duration;

use super::{Connection, ControlError, LONGEST_WAIT, Reply, Request};
use crate::gateway::stats::GatewayStats;

/// A connection to a gateway. It ends when the gateway ends; another one can be made then.
#[derive(Debug)]
pub struct Watch {
    connection: Connection,
    /// True if the gateway has a last answer, from which the next interval counts.
    told: bool,
}

impl Watch {
    /// Connects to the gateway whose socket is at `path`.
    ///
    /// # Errors
    /// [`ControlError`]: no gateway, no permission, or no free connection in time.
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        Connection::open(path, LONGEST_WAIT).map(|connection| Self { connection, told: false })
    }

    /// Returns the names of the links that the gateway serves.
    ///
    /// # Errors
    /// [`ControlError`], as in [`Watch::stats`].
    pub fn links(&mut self) -> Result<Vec<String>, ControlError> {
        match self.ask(&Request { cmd: "links".to_owned(), ..Request::default() })? {
            Reply { links: Some(links), .. } => Ok(links),
            Reply { error, .. } => Err(ControlError::Refused { message: error.unwrap_or_default() }),
        }
    }

    /// Returns the statistics of `link`, or of the only link, within 4 s. With `next_within` they cover the interval since the last call for the
    /// link, and the connection stays open for that time without another request, an hour at most.
    ///
    /// # Errors
    /// [`ControlError`]: the gateway has ended, does not answer in time, or has no such link.
    pub fn stats(&mut self, link: Option<&str>, next_within: Option<Duration>) -> Result<GatewayStats, ControlError> {
        let request = Request {
            cmd: "stats".to_owned(),
            link: link.map(str::to_owned),
            interval_ms: next_within.map(|next| u64::try_from(next.as_millis()).unwrap_or(u64::MAX)),
            ..Request::default()
        };
        match self.ask(&request)? {
            Reply { stats: Some(stats), .. } => Ok(stats),
            Reply { error, .. } => Err(ControlError::Refused { message: error.unwrap_or_default() }),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, ControlError> {
        let path = self.connection.path.clone();
        let not_an_answer = |source| ControlError::NotAnAnswer { path: path.clone(), source };
        let mut line = serde_json::to_vec(request).map_err(not_an_answer)?;
        line.push(b'\n');
        let line = if self.told { self.connection.ask(&line) } else { self.connection.ask_again(&line) }?;
        self.told |= request.interval_ms.is_some();
        serde_json::from_slice(&line).map_err(not_an_answer)
    }
}
