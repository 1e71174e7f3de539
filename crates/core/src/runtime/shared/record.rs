//! The virtual time of one inner class in exact integers.
//!
//! # Units
//! Service is counted in units of 2^-56 byte, virtual time in units per weight. A class of weight w whose parent's
//! virtual time rises by d gets w d units. It distributes I units among children of the weight W: its own virtual time
//! rises by floor(I / W), and I mod W units stay in `pending`. So no unit is ever lost or made, whatever the order of
//! changes.
//!
//! # Overflow budget
//! Weights of siblings add up to less than 2^41, so that a distribution never fails to raise virtual time by more than
//! 2^-15 byte per weight. A class that is on has at most the weight of its siblings that are on. So w d is at most the
//! growth of R in units: below 2^120, as R counts bytes in 64 bits. Virtual time has 128 bits and may wrap. Only
//! differences are used, of two times that are less than 2^127 units apart. At 1 Tbit/s and with the least weight alone
//! the time of 2^127 units is more than 50 years. A leaf that stays on for longer is still exact: the product w d is
//! needed modulo 2^120 only, because its credit is a small difference of two numbers of 64 bits.

/// Binary places of a byte.
pub(super) const BITS: u32 = 56;

/// Units of `bytes`.
#[inline(always)]
pub(super) const fn units(bytes: u64) -> i128 {
    (bytes as i128) << BITS
}

/// Returns the bytes that a class owes with `credit` units, rounded up.
pub(super) const fn whole_debt(credit: i128) -> u64 {
    if credit < 0 { ((-credit + units(1) - 1) >> BITS) as u64 } else { 0 }
}

/// The shared state of an inner class, as one writer or reader has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// V0: virtual time at the last change.
    pub(super) v: u128,
    /// P0: the parent's virtual time then; of the root: R, shifted by 64.
    pub(super) parent: u128,
    /// Units that the class has and has not distributed: below W, or negative while it owes.
    pub(super) pending: i128,
    /// W: weights of the children that are on.
    pub(super) weight: u64,
    /// floor(2^(63 + b) / W), where 2^b <= W < 2^(b + 1).
    pub(super) inverse: u64,
}

impl Record {
    /// Sets W.
    pub(super) const fn set_weight(&mut self, weight: u64) {
        self.weight = weight;
        if weight > 1 {
            self.inverse = ((1u128 << (63 + weight.ilog2())) / weight as u128) as u64;
        }
    }

    /// Returns floor(`units` / W), or a little less: by 2^-62 of it, and 1. W is not 0.
    #[inline(always)]
    const fn about(&self, units: u128) -> u128 {
        if self.weight == 1 {
            return units;
        }
        let low = units as u64 as u128 * self.inverse as u128;
        let high = (units >> 64) * self.inverse as u128;
        (high + (low >> 64)) >> (self.weight.ilog2() - 1)
    }

    /// Returns the virtual time after `inflow` more units: at most the exact one.
    #[inline(always)]
    pub(super) const fn after(&self, inflow: i128) -> u128 {
        let all = self.pending + inflow;
        if self.weight == 0 || all <= 0 { self.v } else { self.v.wrapping_add(self.about(all as u128)) }
    }

    /// Adds `inflow` units and distributes what there is.
    pub(super) const fn distribute(&mut self, inflow: i128) {
        self.pending += inflow;
        if self.weight == 0 || self.pending < self.weight as i128 {
            return;
        }
        let (all, weight) = (self.pending as u128, self.weight as u128);
        let mut rise = self.about(all);
        let mut rest = all - rise * weight;
        if rest >= weight {
            rise += rest / weight;
            rest %= weight;
        }
        self.v = self.v.wrapping_add(rise);
        self.pending = rest as i128;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_unit_is_lost_or_made(
            weights in proptest::collection::vec(1u64..1 << 41, 1..20),
            inflow in proptest::collection::vec(-(1i128 << 80)..1 << 112, 20),
            v in any::<u128>(),
        ) {
            let mut record = Record { v, ..Record::default() };
            for (weight, inflow) in weights.into_iter().zip(inflow) {
                record.set_weight(weight);
                let before = record;
                let read = record.after(inflow);
                record.distribute(inflow);
                let rise = record.v.wrapping_sub(before.v);
                prop_assert_eq!(rise as i128 * i128::from(weight) + record.pending, before.pending + inflow);
                prop_assert!(record.pending < i128::from(weight));
                // A reader is never ahead, and no more than 2^-60 of the rise behind.
                let read = read.wrapping_sub(before.v);
                prop_assert!(read <= rise && rise - read <= (rise >> 60) + 1, "{} {}", read, rise);
            }
        }
    }
}
