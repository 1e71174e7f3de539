//! The admission test of service curves, as `check` prints it.

use fairlink_config::LinkFile;
use fairlink_theory::promises::admission;
use fairlink_theory::to_f64;
use schemars::JsonSchema;
use serde::Serialize;

/// True if the link can guarantee the service curves that its classes ask for, \[hfsc\] Section 2.1.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Admission {
    /// True if it can.
    pub admitted: bool,
    /// After how many seconds all classes together ask for more than the link carries, if all become backlogged at
    /// once; `null` for never.
    pub fails_at_s: Option<f64>,
}

impl Admission {
    /// Makes the admission test, if the link's scheduler guarantees curves and a class has one.
    #[must_use]
    pub fn for_link(link: &LinkFile) -> Option<Self> {
        let fails_at = admission(link.info(), &link.tree)?;
        Some(Self { admitted: fails_at.is_none(), fails_at_s: fails_at.as_ref().map(to_f64) })
    }
}
