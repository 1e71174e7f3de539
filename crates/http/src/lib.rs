//! The HTTP servers of a running gateway, on one thread beside the data thread.
//!
//! | server | paths |
//! | --- | --- |
//! | `--metrics ADDR` | `/metrics`, `/healthz`, `/readyz` |
//! | `--page ADDR` | the same, the page, and the interface below `/api/v1` that `/api/v1/openapi.json` describes |
//!
//! Anyone who can reach the address can read. A change needs the [`Token`]. Requests to the page with the
//! name of another host are refused, so that a site that makes its own name point here learns nothing.
//!
//! * A connection has 5 s to send the head of its request, of at most 8 KiB, and 30 s for all. A stream of events has no
//!   end, but a client that takes nothing for 30 s is disconnected.
//! * At most [`MAX_CONNECTIONS`] connections are served at once. A further one replaces the oldest that is no stream and
//!   makes no change. At most [`MAX_STREAMS`] are streams.
//! * An answer of `/metrics` is computed once and kept for 200 ms, so that simultaneous clients share it, and frequent
//!   requests cost no more.
#![cfg(target_os = "linux")]

mod connections;
mod files;
mod guard;
mod history;
mod live;
mod moments;
mod open_api;
mod routes;
mod server;
mod token;

pub use connections::{MAX_CONNECTIONS, MAX_STREAMS};
pub use files::{FilesError, PageFiles};
pub use history::HistoryContent;
pub use live::{MomentContent, TreeContent};
pub use server::{Http, HttpConfig, HttpError, PageConfig};
pub use token::{Token, TokenError};
