//! The servers of metrics and page, from the command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairlink_http::{Http, HttpConfig, HttpError, PageConfig, PageFiles, Token};
use fairlink_net::{Links, LogEvent};

use crate::log;
use fairlink_terminal::failure::CliError;

/// Port of the page where none is given.
const PORT: u16 = 9480;

/// Options of the page.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PageArgs {
    /// Serve the live page and the interface for programs at this address [default: 127.0.0.1:9480]. Anyone who can
    /// reach it can read; a change needs the token in the file fairlink-IF.token beside the control socket.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "9480", value_parser = address)]
    page: Option<SocketAddr>,
    /// A name of this machine by which browsers may ask for the page, besides localhost and addresses. May be given
    /// several times.
    #[arg(long, value_name = "NAME", requires = "page")]
    page_host: Vec<String>,
    /// Directory with the files of the page [default: those in the program, or in share/fairlink/page].
    #[arg(long, value_name = "DIR", requires = "page")]
    page_files: Option<PathBuf>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let here = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let with_port = |address: IpAddr| SocketAddr::new(address, PORT);
    text.parse()
        .or_else(|_| text.parse().map(here))
        .or_else(|_| text.parse().map(with_port))
        .map_err(|_| "write an IP address, a port, or both, such as 127.0.0.1:9480, 9480, or [::1]:9480".to_owned())
}

impl PageArgs {
    /// Returns what is to be served, for a gateway with its control socket at `control`. The token is written beside it.
    pub(super) fn config(&self, metrics: Option<SocketAddr>, control: &Path) -> Result<HttpConfig, CliError> {
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
pub(super) fn addresses(config: &HttpConfig) -> Vec<SocketAddr> {
    config.metrics.into_iter().chain(config.page.as_ref().map(|page| page.address)).collect()
}

/// Starts the servers, if there are any.
pub(super) fn start(config: &HttpConfig, links: &Links) -> Result<Option<Http>, HttpError> {
    if addresses(config).is_empty() {
        return Ok(None);
    }
    Http::start(config, links.clone()).map(Some)
}

/// Returns what the log says of the servers.
pub(super) fn said(server: &Http, config: &HttpConfig) -> Vec<LogEvent> {
    let metrics = server.metrics().map(|address| format!("metrics at http://{address}/metrics"));
    let page = server.page().zip(config.page.as_ref()).map(|(address, page)| {
        format!("page at http://{address}/; the token for changes is in {}", page.token.path().display())
    });
    metrics.into_iter().chain(page).map(LogEvent::info).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_port_or_lack_one() {
        for (text, address_of) in [
            ("8080", "127.0.0.1:8080"),
            ("0.0.0.0", "0.0.0.0:9480"),
            ("::1", "[::1]:9480"),
            ("[::]:80", "[::]:80"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), address_of);
        }
        assert!(address("gateway").is_err() && address("99999").is_err());
    }
}
