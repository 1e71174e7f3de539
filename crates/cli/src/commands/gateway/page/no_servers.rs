//! No servers, in a build without the feature `http`.

use std::net::SocketAddr;
use std::path::Path;

use fairlink_net::{Links, LogEvent};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::program::needs_feature;

use super::PageArgs;

/// The configuration of the servers: there are none.
pub(in super::super) struct Config;

/// A server, which there cannot be.
pub(in super::super) enum Server {}

impl PageArgs {
    /// Refuses the options of servers.
    pub(in super::super) fn config(&self, metrics: Option<SocketAddr>, _: &Path) -> Result<Config, CliError> {
        let asked = [("--metrics", metrics), ("--page", self.page)];
        match asked.into_iter().find_map(|(flag, address)| address.map(|_| flag)) {
            Some(flag) => Err(needs_feature(flag, "fairlink", "http")),
            None => Ok(Config),
        }
    }
}

/// Returns no address.
pub(in super::super) fn addresses(_: &Config) -> Vec<SocketAddr> {
    Vec::new()
}

/// Starts nothing.
pub(in super::super) fn start(_: &Config, _: &Links) -> Result<Option<Server>, std::convert::Infallible> {
    Ok(None)
}

/// Returns nothing.
pub(in super::super) fn said(server: &Server, _: &Config) -> Vec<LogEvent> {
    match *server {}
}
