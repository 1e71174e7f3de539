//! Seeded random numbers and the distributions that sources draw from.
//!
//! Logarithms and powers are taken by `libm`, which gives the same bits on every machine. So the same seed gives the same packets
//! everywhere.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The random numbers of one source.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// Makes the random numbers of source number `index` in a run with this `seed`: one stream of ChaCha8 for each
    /// source.
    pub(crate) fn new(seed: u64, index: u32) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut random = ChaCha8Rng::from_seed(key);
        random.set_stream(u64::from(index));
        Self(random)
    }

    /// Draws uniformly from all whole numbers of 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws uniformly from (0, 1], in steps of 2^-53.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Draws uniformly from `0 .. span`. The bias is below `span` / 2^64.
    pub(crate) fn below(&mut self, span: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(span)) >> 64) as u64
    }

    /// Draws an exponential number with mean one.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Draws a Pareto number with this tail `index` and mean one: P(X > x) = (a / x)^index from a = (index - 1) / index
    /// on. The index is above one.
    pub(crate) fn pareto(&mut self, index: f64) -> f64 {
        (index - 1.0) / index * libm::pow(self.unit(), -1.0 / index)
    }

    /// Standard normal, by the polar method of Marsaglia. The second number of each pair is discarded.
    pub(crate) fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * libm::sqrt(-2.0 * libm::log(s) / s);
            }
        }
    }

    /// Draws a gamma number with this `shape` and scale one, by the method of Marsaglia and Tsang (ACM TOMS 26, 2000).
    pub(crate) fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            // G(shape) = G(shape + 1) * U^(1 / shape).
            return self.gamma(shape + 1.0) * libm::pow(self.unit(), 1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            if libm::log(self.unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v;
            }
        }
    }

    /// Returns the place of a number drawn uniformly from (0, 1] in a row of rising sums of probabilities that ends
    /// with one.
    pub(crate) fn place(&mut self, sums: &[f64]) -> usize {
        let unit = self.unit();
        sums.partition_point(|&sum| sum < unit).min(sums.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mean and variance of 200,000 numbers.
    fn moments(mut draw: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
        let mut random = Random::new(11, 3);
        let numbers: Vec<f64> = (0..200_000).map(|_| draw(&mut random)).collect();
        let n = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        (mean, numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0))
    }

    fn near((mean, variance): (f64, f64), expected: (f64, f64), fourth: f64) {
        // Standard errors: of the mean sqrt(variance / n), of the variance sqrt((fourth - variance^2) / n).
        let n = 200_000.0;
        assert!((mean - expected.0).abs() < 4.0 * f64::sqrt(expected.1 / n), "mean {mean}, {}", expected.0);
        let error = f64::sqrt((fourth - expected.1 * expected.1) / n);
        assert!((variance - expected.1).abs() < 4.0 * error, "variance {variance}, {}", expected.1);
    }

    #[test]
    fn distributions_have_the_moments_of_theory() {
        near(moments(Random::normal), (0.0, 1.0), 3.0);
        near(moments(Random::exponential), (1.0, 1.0), 9.0);
        near(moments(Random::unit), (0.5, 1.0 / 12.0), 1.0 / 80.0);
        for shape in [0.3, 1.0, 3.067, 50.0] {
            // Fourth central moment of the gamma distribution: 3 k^2 + 6 k.
            near(moments(|random| random.gamma(shape)), (shape, shape), 3.0 * shape * shape + 6.0 * shape);
        }
    }

    #[test]
    fn pareto_has_its_tail_and_its_mean() {
        let mut random = Random::new(5, 0);
        let numbers: Vec<f64> = (0..400_000).map(|_| random.pareto(1.5)).collect();
        let a = 0.5 / 1.5;
        assert!(numbers.iter().all(|&x| x >= a * 0.999_999));
        for x in [0.5, 1.0, 4.0, 30.0] {
            let expected = (a / x).powf(1.5);
            let share = numbers.iter().filter(|&&number| number > x).count() as f64 / 4e5;
            assert!((share - expected).abs() < 4.0 * (expected / 4e5).sqrt(), "{x}: {share}, {expected}");
        }
        // With a tail index of 2.5 the variance is finite: 1 / (index (index - 2)) for a mean of one.
        let (mean, _) = moments(|random| random.pareto(2.5));
        assert!((mean - 1.0).abs() < 4.0 * (0.8f64 / 2e5).sqrt(), "{mean}");
    }

    #[test]
    fn a_place_is_drawn_with_its_probability() {
        let mut random = Random::new(5, 0);
        let mut counts = [0u32; 3];
        (0..100_000).for_each(|_| counts[random.place(&[0.2, 0.2, 1.0])] += 1);
        assert_eq!(counts[1], 0);
        assert!((f64::from(counts[0]) - 20_000.0).abs() < 4.0 * 127.0, "{counts:?}");
        assert_eq!(random.place(&[1.0]), 0);
    }
}
