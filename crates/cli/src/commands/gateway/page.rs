//! The servers of metrics and page, from the command line. They are the feature `http`; without it the options are
//! refused.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

#[cfg(not(feature = "http"))]
mod no_servers;
#[cfg(feature = "http")]
mod servers;

#[cfg(not(feature = "http"))]
pub(super) use no_servers::{Config, addresses, said, start};
#[cfg(feature = "http")]
pub(super) use servers::{Config, addresses, said, start};

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
    /// Directory with the files of the page
    #[cfg_attr(feature = "page", doc = "[default: those in the program, or in share/fairlink/page].")]
    #[cfg_attr(not(feature = "page"), doc = "[default: those in share/fairlink/page; none are in this program].")]
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
