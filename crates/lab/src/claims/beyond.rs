//! What no paper has: every scheduler on every paper's workload.

use super::{Claim, Paper};

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "beyond",
    authors: "fairlink",
    title: "Beyond the papers: every scheduler on every paper's workload",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[];
