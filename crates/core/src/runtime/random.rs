//! Random numbers for the tests of several cores.

/// xorshift64*.
pub(super) struct Random(u64);

impl Random {
    /// Returns the sequence of `seed`.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD134_2543_DE82_EF95);
        (0..8).for_each(|_| _ = random.below(2));
        random
    }

    /// Returns a number below `limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a place among `limit`.
    #[cfg(feature = "hub")]
    pub(super) fn place(&mut self, limit: usize) -> usize {
        self.below(limit as u64) as usize
    }

    /// Returns true once in `n` times.
    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
