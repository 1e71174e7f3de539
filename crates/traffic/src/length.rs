//! Lengths of packets and frames.

use fairlink_core::MAX_PACKET;

use crate::error::SourceError;
use crate::random::Random;

/// Most lengths in a [`PacketSize::Mix`].
pub const MAX_MIX: usize = 256;

/// Lengths in bytes and their weights: the usual simple internet mix, in lengths of IP packets.
pub const IMIX: [(u32, u32); 3] = [(40, 7), (576, 4), (1500, 1)];

/// Least part of a lognormal distribution that has to lie between the shortest and the longest length: lengths outside are drawn
/// again.
const MIN_INSIDE: f64 = 0.01;

/// The distribution of lengths of packets or frames, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum PacketSize {
    /// Always the same.
    Fixed(u32),
    /// Uniform between `min` and `max`, both included, plus a fixed `header`.
    Uniform {
        /// Shortest payload.
        min: u32,
        /// Longest payload.
        max: u32,
        /// Added to every payload.
        header: u32,
    },
    /// Exponential above `min` and cut off at `max`. The mean is that of the drawn values; it lies in the lower half of
    /// the range.
    Exponential {
        /// Mean length.
        mean: u32,
        /// Shortest.
        min: u32,
        /// Longest.
        max: u32,
    },
    /// Lognormal between `min` and `max`: values outside are drawn again. Mean and standard deviation are those without
    /// these limits.
    Lognormal {
        /// Mean length.
        mean: u32,
        /// Standard deviation.
        deviation: u32,
        /// Shortest.
        min: u32,
        /// Longest.
        max: u32,
    },
    /// Some lengths, each with its weight.
    Mix(Vec<(u32, u32)>),
}

impl PacketSize {
    /// Shortest and longest packet, in bytes; `None` if a length does not fit 32 bits or there is none.
    #[must_use]
    pub fn range(&self) -> Option<(u32, u32)> {
        match self {
            Self::Fixed(len) => Some((*len, *len)),
            Self::Uniform { min, max, header } => Some((min.checked_add(*header)?, max.checked_add(*header)?)),
            Self::Exponential { min, max, .. } | Self::Lognormal { min, max, .. } => Some((*min, *max)),
            Self::Mix(mix) => {
                let lengths = mix.iter().map(|&(len, _)| len);
                Some((lengths.clone().min()?, lengths.max()?))
            }
        }
    }

    /// Checks the lengths.
    pub(crate) fn validate(&self) -> Result<(), SourceError> {
        match self {
            Self::Uniform { min, max, .. } | Self::Exponential { min, max, .. } | Self::Lognormal { min, max, .. }
                if min > max =>
            {
                return Err(SourceError::EmptyRange { min: *min, max: *max });
            }
            Self::Mix(mix) if mix.is_empty() || mix.len() > MAX_MIX => {
                return Err(SourceError::Lengths { count: mix.len(), limit: MAX_MIX });
            }
            Self::Mix(mix) if mix.iter().any(|&(_, weight)| weight == 0) => return Err(SourceError::NoWeight),
            _ => {}
        }
        match self.range() {
            None => Err(SourceError::PacketTooLong { len: u64::from(u32::MAX) + 1, limit: MAX_PACKET }),
            Some((_, max)) if max > MAX_PACKET => {
                Err(SourceError::PacketTooLong { len: u64::from(max), limit: MAX_PACKET })
            }
            Some((0, _)) => Err(SourceError::EmptyPacket),
            Some(_) => Lengths::new(self).map(drop),
        }
    }

    /// Returns the mean length in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(len) => f64::from(*len),
            Self::Uniform { min, max, header } => (f64::from(*min) + f64::from(*max)) / 2.0 + f64::from(*header),
            Self::Exponential { mean, .. } => f64::from(*mean),
            Self::Lognormal { min, max, .. } => {
                let Ok(Lengths::Lognormal { mu, sigma, .. }) = Lengths::new(self) else { return 0.0 };
                let place = |len: u32, shift: f64| normal_cdf((libm::log(f64::from(len)) - mu) / sigma - shift);
                let inside = |shift| place(*max, shift) - place(*min, shift);
                libm::exp(mu + sigma * sigma / 2.0) * inside(sigma) / inside(0.0)
            }
            Self::Mix(mix) => {
                let weights: f64 = mix.iter().map(|&(_, weight)| f64::from(weight)).sum();
                mix.iter().map(|&(len, weight)| f64::from(len) * f64::from(weight)).sum::<f64>() / weights.max(1.0)
            }
        }
    }

    /// Mean of the link's accounted lengths: `accounted` maps a length, both in bytes. If the number of lengths is
    /// unlimited, the overhead is averaged over 4096 samples.
    #[must_use]
    pub fn mean_accounted(&self, accounted: impl Fn(u32) -> u32) -> f64 {
        match self {
            Self::Fixed(len) => f64::from(accounted(*len)),
            Self::Uniform { .. } => {
                let Some((min, max)) = self.range().filter(|(min, max)| min <= max) else { return 0.0 };
                let sum: u64 = (min..=max).map(|len| u64::from(accounted(len))).sum();
                sum as f64 / (f64::from(max - min) + 1.0)
            }
            Self::Mix(mix) => {
                let weights: f64 = mix.iter().map(|&(_, weight)| f64::from(weight)).sum();
                let sum = mix.iter().map(|&(len, weight)| f64::from(accounted(len)) * f64::from(weight)).sum::<f64>();
                sum / weights.max(1.0)
            }
            Self::Exponential { .. } | Self::Lognormal { .. } => {
                const DRAWN: u32 = 4096;
                let Ok(lengths) = Lengths::new(self) else { return 0.0 };
                let mut random = Random::new(0, 0);
                let added = |_| {
                    let len = lengths.draw(&mut random);
                    f64::from(accounted(len)) - f64::from(len)
                };
                self.mean() + (0..DRAWN).map(added).sum::<f64>() / f64::from(DRAWN)
            }
        }
    }
}

/// A generator of lengths.
#[derive(Clone, Debug)]
pub(crate) enum Lengths {
    Fixed(u32),
    Uniform { shortest: u32, span: u64 },
    Exponential { min: u32, max: u32, theta: f64, inside: f64 },
    Lognormal { min: u32, max: u32, mu: f64, sigma: f64 },
    Mix { lengths: Vec<u32>, sums: Vec<f64> },
}

impl Lengths {
    /// Draws lengths of this distribution, whose range was checked.
    pub(crate) fn new(size: &PacketSize) -> Result<Self, SourceError> {
        Ok(match *size {
            PacketSize::Fixed(len) => Self::Fixed(len),
            PacketSize::Uniform { min, max, header } => {
                Self::Uniform { shortest: min.saturating_add(header), span: u64::from(max.saturating_sub(min)) + 1 }
            }
            PacketSize::Exponential { mean, min, max } => {
                let theta =
                    exponential_scale(f64::from(mean), f64::from(min), f64::from(max)).ok_or(SourceError::Mean {
                        mean,
                        least: min.saturating_add(1),
                        most: min + (max.saturating_sub(min)) / 2,
                    })?;
                Self::Exponential { min, max, theta, inside: -libm::expm1(-f64::from(max - min) / theta) }
            }
            PacketSize::Lognormal { mean, deviation, min, max } => {
                let ratio = f64::from(deviation) / f64::from(mean.max(1));
                let sigma = libm::sqrt(libm::log1p(ratio * ratio));
                let mu = libm::log(f64::from(mean.max(1))) - sigma * sigma / 2.0;
                let place = |len: u32| normal_cdf((libm::log(f64::from(len)) - mu) / sigma);
                let inside = place(max) - place(min);
                if inside.is_nan() || inside < MIN_INSIDE {
                    return Err(SourceError::HardlyInside { mean, deviation, min, max });
                }
                Self::Lognormal { min, max, mu, sigma }
            }
            PacketSize::Mix(ref mix) => Self::Mix {
                lengths: mix.iter().map(|&(len, _)| len).collect(),
                sums: sums(mix.iter().map(|&(_, weight)| f64::from(weight))),
            },
        })
    }

    /// Draws the next length.
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        match self {
            Self::Fixed(len) => *len,
            Self::Uniform { shortest, span } => shortest + random.below(*span) as u32,
            Self::Exponential { min, max, theta, inside } => {
                let more = -theta * libm::log1p(-(1.0 - random.unit()) * inside);
                min.saturating_add(libm::round(more) as u32).min(*max)
            }
            Self::Lognormal { min, max, mu, sigma } => loop {
                let len = libm::round(libm::exp(mu + sigma * random.normal())) as u32;
                if (*min..=*max).contains(&len) {
                    return len;
                }
            },
            Self::Mix { lengths, sums } => lengths[random.place(sums)],
        }
    }
}

/// Returns rising sums of `weights`, as parts of their total.
pub(crate) fn sums(weights: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let total: f64 = weights.clone().sum();
    let mut sum = 0.0;
    let sums = weights.map(|weight| {
        sum += weight;
        sum / total
    });
    sums.collect()
}

/// Returns the scale of the exponential distribution with this mean, above `min` and cut off at `max`; `None` if there
/// is none.
fn exponential_scale(mean: f64, min: f64, max: f64) -> Option<f64> {
    let (span, above) = (max - min, mean - min);
    if above <= 0.0 || above > span / 2.0 {
        return None;
    }
    // Rises with the scale, from 0 to half the span.
    let mean_of = |theta: f64| theta - span / libm::expm1(span / theta);
    let (mut low, mut high) = (0.0, above);
    while mean_of(high) < above {
        high *= 2.0;
        // The mean is so near to the middle that the difference is lost: a uniform distribution.
        if high > span * 1e6 {
            break;
        }
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if mean_of(middle) < above { low = middle } else { high = middle }
    }
    Some(high)
}

/// Returns the distribution function of the standard normal distribution.
fn normal_cdf(x: f64) -> f64 {
    libm::erfc(-x / std::f64::consts::SQRT_2) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(size: &PacketSize) -> (f64, f64, u32, u32) {
        let lengths = Lengths::new(size).unwrap();
        let mut random = Random::new(3, 9);
        let all: Vec<u32> = (0..200_000).map(|_| lengths.draw(&mut random)).collect();
        let n = all.len() as f64;
        let mean = all.iter().map(|&len| f64::from(len)).sum::<f64>() / n;
        let variance = all.iter().map(|&len| (f64::from(len) - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, (variance / n).sqrt(), *all.iter().min().unwrap(), *all.iter().max().unwrap())
    }

    #[test]
    fn drawn_lengths_have_the_stated_mean_and_stay_in_range() {
        let sizes = [
            PacketSize::Fixed(7),
            PacketSize::Uniform { min: 40, max: 700, header: 40 },
            // P and B frames of the DRR++ thesis, section 4.4.3.
            PacketSize::Exponential { mean: 2100, min: 512, max: 17_000 },
            PacketSize::Exponential { mean: 550, min: 256, max: 17_000 },
            PacketSize::Exponential { mean: 140, min: 100, max: 200 },
            PacketSize::Lognormal { mean: 2100, deviation: 900, min: 1, max: 1 << 20 },
            PacketSize::Lognormal { mean: 2100, deviation: 900, min: 1500, max: 3000 },
            PacketSize::Mix(IMIX.to_vec()),
        ];
        for size in sizes {
            let (mean, error, shortest, longest) = drawn(&size);
            assert!((mean - size.mean()).abs() <= 4.0 * error + 0.1, "{size:?}: {mean}, {}", size.mean());
            let (min, max) = size.range().unwrap();
            assert!(min <= shortest && longest <= max, "{size:?}: {shortest} to {longest}");
            let more = size.mean_accounted(|len| len + 38);
            assert!((more - size.mean() - 38.0).abs() < 1e-6, "{size:?}: {more}");
        }
        // A lognormal distribution without limits that matter has the mean that it is given.
        let wide = PacketSize::Lognormal { mean: 2100, deviation: 900, min: 1, max: 1 << 20 };
        assert!((wide.mean() - 2100.0).abs() < 1e-6);
        assert!((PacketSize::Mix(IMIX.to_vec()).mean() - (7.0 * 40.0 + 4.0 * 576.0 + 1500.0) / 12.0).abs() < 1e-9);
    }

    #[test]
    fn impossible_lengths_are_refused_with_value_and_limit() {
        let refused = |size: PacketSize| size.validate().unwrap_err().to_string();
        let exponential = |mean| PacketSize::Exponential { mean, min: 100, max: 200 };
        let mean = "an exponential mean of 100 B; between its limits it can have 101 to 150 B";
        assert_eq!(refused(exponential(100)), mean);
        assert_eq!(refused(exponential(151)), mean.replace("of 100 B", "of 151 B"));
        let far = PacketSize::Lognormal { mean: 100, deviation: 10, min: 200, max: 300 };
        assert_eq!(
            refused(far),
            "lognormal lengths of 100 B with a deviation of 10 B hardly ever lie between 200 and 300 B"
        );
        assert_eq!(PacketSize::Lognormal { mean: 100, deviation: 0, min: 1, max: 300 }.validate(), Ok(()));
        assert_eq!(refused(PacketSize::Mix(Vec::new())), "0 lengths of packets; there can be 1 to 256");
        assert_eq!(refused(PacketSize::Mix(vec![(5, 0)])), "a length of weight 0; leave it out");
        assert_eq!(refused(PacketSize::Mix(vec![(0, 1)])), "a packet of 0 B; the shortest packet has 1 B");
    }
}
