//! The claims of \[drrpp\]: delays of a latency-critical flow under DRR+ and DRR++, simulated as the thesis measured them.

use super::{Claim, Paper};

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "drrpp",
    authors: "C. Zhang",
    title: "A Measurement Study on Scheduling Latency-Critical Traffic",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[];
