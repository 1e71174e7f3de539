//! The claims of \[sds\]: what is gained when excess bandwidth goes where it helps most.

use super::{Claim, Paper};

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "sds",
    authors: "N. G. Duffield, T. V. Lakshman, D. Stiliadis",
    title: "On Adaptive Bandwidth Sharing with Rate Guarantees",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[];
