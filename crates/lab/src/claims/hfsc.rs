//! The claims of \[hfsc\]: delays under service curves, what is guaranteed and to whom, admission, and what it costs.

use super::{Claim, Paper};

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "hfsc",
    authors: "I. Stoica, H. Zhang, T. S. E. Ng",
    title: "A Hierarchical Fair Service Curve Algorithm for Link-Sharing, Real-Time and Priority Services",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[];
