//! Verdicts of meters on a case.

use std::collections::BTreeMap;

/// The faults, and the number of judgements.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// The first finding of each meter.
    pub(crate) found: BTreeMap<&'static str, String>,
    /// Number of judgements of each meter.
    pub(crate) judged: BTreeMap<&'static str, u64>,
}

impl Judge {
    /// Something is wrong.
    pub(crate) fn broken(&mut self, meter: &'static str, what: String) {
        self.found.entry(meter).or_insert(what);
    }

    /// Counts a judgement of the meter.
    pub(crate) fn count(&mut self, meter: &'static str) {
        *self.judged.entry(meter).or_default() += 1;
    }
}

macro_rules! ensure {
    ($judge:expr, $meter:expr, $holds:expr, $($what:tt)*) => {
        let holds: bool = $holds;
        if !holds {
            $judge.broken($meter, format!($($what)*));
        }
    };
}
pub(crate) use ensure;
