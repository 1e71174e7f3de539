//! Meters and policers: conforming and excess packets.

use fairlink_core::{Amount, Nanos};

use super::gate::Gate;
use crate::curve::{ArrivalCurve, CurveError};

/// Separates packets that conform to a curve from excess ones, and counts both. Excess packets use up no allowance: the
/// rest without them conforms to the curve.
#[derive(Clone, Debug)]
pub struct Meter {
    gate: Gate,
    now: Nanos,
    conforming: Amount,
    excess: Amount,
}

impl Meter {
    /// Makes a meter for `curve`.
    ///
    /// # Errors
    /// Fails if the curve passes nothing.
    pub fn new(curve: &ArrivalCurve) -> Result<Self, CurveError> {
        curve.check()?;
        Ok(Self { gate: Gate::new(curve), now: Nanos::ZERO, conforming: Amount::default(), excess: Amount::default() })
    }

    /// Returns true if a packet of `len` bytes that comes at `at` conforms. Times that go back count as the last one.
    pub fn arrive(&mut self, at: Nanos, len: u32) -> bool {
        self.now = self.now.max(at);
        let conforms = self.gate.conforms(self.now, len);
        if conforms {
            self.gate.send(self.now, len);
        }
        let count = if conforms { &mut self.conforming } else { &mut self.excess };
        count.packets += 1;
        count.bytes += u64::from(len);
        conforms
    }

    /// Packets and bytes that conformed.
    #[must_use]
    pub fn conforming(&self) -> Amount {
        self.conforming
    }

    /// Packets and bytes that did not.
    #[must_use]
    pub fn excess(&self) -> Amount {
        self.excess
    }
}

/// Drops packets that do not conform to a curve.
#[derive(Clone, Debug)]
pub struct Policer(Meter);

impl Policer {
    /// Makes a policer for `curve`.
    ///
    /// # Errors
    /// Fails if the curve passes nothing.
    pub fn new(curve: &ArrivalCurve) -> Result<Self, CurveError> {
        Meter::new(curve).map(Self)
    }

    /// Returns the time at which a packet of `len` bytes that arrives at `at` passes, which is at once; `None` if it is
    /// dropped.
    pub fn arrive(&mut self, at: Nanos, len: u32) -> Option<Nanos> {
        self.0.arrive(at, len).then_some(at)
    }

    /// Packets and bytes that were dropped.
    #[must_use]
    pub fn dropped(&self) -> Amount {
        self.0.excess()
    }
}
