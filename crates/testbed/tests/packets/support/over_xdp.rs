//! Suites of the gateway that run over AF_XDP as well.

use crate::cables;
use crate::support::Also;

/// A second run of these tests, with gateways that use AF_XDP.
pub(crate) fn over_af_xdp(tests: &'static [&'static str]) -> Option<Also> {
    Some(Also { over: "af_xdp", variable: cables::BACKEND, why_not: cables::why_no_af_xdp, tests })
}
