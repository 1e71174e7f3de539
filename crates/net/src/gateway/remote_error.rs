//! Errors of requests to a running gateway.

use std::time::Duration;

use thiserror::Error;

/// Reason why a [`Remote`](crate::Remote) got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RemoteError {
    /// The gateway was dropped without having run.
    #[error("the gateway never ran")]
    NeverRan,
    /// The data thread did not answer in time.
    #[error("the data thread did not answer within {} ms", .waited.as_millis())]
    Timeout {
        /// Time waited.
        waited: Duration,
    },
    /// The gateway has ended.
    #[error("the gateway has ended")]
    Ended,
    /// Another trace is being recorded.
    #[error("another trace is in progress; one at a time, end it first (Ctrl-C in its terminal)")]
    Tracing,
}
