//! The claims of \[htb\]: sharing by rates, ceilings and priorities, one device or several, and the generator that showed it.

use super::{Claim, Paper};

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "htb",
    authors: "M. Devera",
    title: "HTB Linux queuing discipline: what is HTB (September 2001)",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[];
