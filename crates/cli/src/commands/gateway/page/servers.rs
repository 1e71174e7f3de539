//! The servers, in a build with the feature `http`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use fairlink_http::{Http, HttpConfig, HttpError, PageConfig, PageFiles, Token};
use fairlink_net::{Links, LogEvent};
use fairlink_terminal::failure::CliError;

use super::PageArgs;
use crate::log;

/// The configuration of the servers.
pub(in super::super) type Config = HttpConfig;

impl PageArgs {
    /// Returns what is to be served, for a gateway with its control socket at `control`. The token is written beside it.
    pub(in super::super) fn config(&self, metrics: Option<SocketAddr>, control: &Path) -> Result<HttpConfig, CliError> {
        let Some(address) = self.page else { return Ok(HttpConfig { metrics, ..HttpConfig::default() }) };
        let files = match PageFiles::find(self.page_files.as_deref()) {
            Ok(files) => Some(files),
            Err(error) if self.page_files.is_some() => return Err(CliError::wrong(format!("--page-files: {error}"))),
            Err(error) => {
                log::write(&LogEvent::warn(format!("{error}. Only the interface for programs is served")));
                None
            }
        };
        let token = Arc::new(Token::create(&control.with_extension("token")).map_err(CliError::failed)?);
        let page = PageConfig { address, files, token, hosts: self.page_host.clone() };
        Ok(HttpConfig { metrics, page: Some(page), ..HttpConfig::default() })
    }
}

/// Returns the addresses of the servers.
pub(in super::super) fn addresses(config: &HttpConfig) -> Vec<SocketAddr> {
    config.metrics.into_iter().chain(config.page.as_ref().map(|page| page.address)).collect()
}

/// Starts the servers, if there are any.
pub(in super::super) fn start(config: &HttpConfig, links: &Links) -> Result<Option<Http>, HttpError> {
    if addresses(config).is_empty() {
        return Ok(None);
    }
    Http::start(config, links.clone()).map(Some)
}

/// Returns what the log says of the servers.
pub(in super::super) fn said(server: &Http, config: &HttpConfig) -> Vec<LogEvent> {
    let metrics = server.metrics().map(|address| format!("metrics at http://{address}/metrics"));
    let page = server.page().zip(config.page.as_ref()).map(|(address, page)| {
        format!("page at http://{address}/; the token for changes is in {}", page.token.path().display())
    });
    metrics.into_iter().chain(page).map(LogEvent::info).collect()
}
