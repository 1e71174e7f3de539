//! Video of conferences as a discrete autoregressive process of the first order, DAR(1) ([sds] section IV, equation (8)).
//!
//! A frame is as long as the previous one with probability rho, and otherwise drawn from the marginal distribution. So
//! the autocorrelation at a lag of n frames is rho^n. The packets of a frame are spread evenly over its time. The start
//! of a source within a frame's time is random.

use fairlink_core::{Nanos, Rate};

use super::{Arrival, Process};
use crate::error::SourceError;
use crate::fine::Fine;
use crate::length::PacketSize;
use crate::random::Random;

/// Most packets of a frame.
pub const MAX_FRAME_PACKETS: u32 = 1 << 16;

/// Largest correlation, and fewest packets of a mean frame: drawing one packet takes as many frames as the inverses of
/// their distances from one and from zero.
const MAX_RHO: f64 = 0.9999;
const MIN_PACKETS: f64 = 0.01;

/// Video of a conference (\[sds\] equation (8)): a frame is as long as the previous one with probability `rho`, and
/// otherwise drawn again.
#[derive(Clone, Debug, PartialEq)]
pub struct Dar1 {
    /// Mean rate without the cut at the peak.
    pub rate: Rate,
    /// Frames in 1000 s.
    pub frames_per_1000_s: u64,
    /// Correlation of a frame with the next; from 0 to 0.9999.
    pub rho: f64,
    /// Distribution of the lengths of frames.
    pub marginal: Marginal,
    /// Longest frame, as a multiple of the mean. Longer ones are cut to this length.
    pub peak_to_mean: f64,
    /// Standard deviation of the lengths, as a multiple of the mean.
    pub deviation_to_mean: f64,
}

/// Distribution of the lengths of video frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marginal {
    /// Negative binomial, in packets of the source's length.
    NegativeBinomial,
    /// Gamma, in bytes; frames are cut into packets.
    Gamma,
}

impl Dar1 {
    /// Bytes per second that a link accounts for.
    pub(crate) fn bytes_per_second(&self, packet: &PacketSize, accounted: impl Fn(u32) -> u32) -> f64 {
        let Ok(frames) = Dar1Frames::new(self, packet) else { return 0.0 };
        let longest = frames.longest;
        let frame = match &frames.sizes {
            Sizes::Packets { sums } => {
                let above = sums.iter().map(|sum| 1.0 - sum).sum::<f64>();
                above * f64::from(accounted(longest))
            }
            Sizes::Bytes { shape, scale, peak } => {
                // The mean of the distribution cut off at the peak: in full below it, and the peak itself for values
                // above.
                let (mean, peak) = (shape * scale, *peak as f64);
                let bytes =
                    mean * gamma_cdf(shape + 1.0, peak / scale) + peak * (1.0 - gamma_cdf(*shape, peak / scale));
                let packets = bytes / f64::from(longest) + 0.5;
                bytes + packets * (f64::from(accounted(longest)) - f64::from(longest))
            }
        };
        frame * self.frames_per_1000_s as f64 / 1000.0
    }
}

/// The distribution of frame sizes.
#[derive(Clone, Debug)]
enum Sizes {
    /// In packets: rising sums of the probabilities of 0, 1, 2 ... packets.
    Packets { sums: Vec<f64> },
    /// In bytes: gamma distributed, cut off at the peak.
    Bytes { shape: f64, scale: f64, peak: u64 },
}

/// Frames as they come.
#[derive(Clone, Debug)]
pub(crate) struct Dar1Frames {
    sizes: Sizes,
    rho: f64,
    /// Longest packet.
    longest: u32,
    frame_time: Fine,
    /// Start of the frame that is sent.
    start: Fine,
    /// Its length in bytes.
    len: u64,
    /// Its packets, the number of sent ones, and the time between two.
    packets: u32,
    sent: u32,
    gap: Fine,
}

impl Dar1Frames {
    pub(super) fn new(dar1: &Dar1, packet: &PacketSize) -> Result<Self, SourceError> {
        let refused = |what, value, must| Err(SourceError::Parameter { what, value, must });
        if !(0.0..=MAX_RHO).contains(&dar1.rho) {
            return refused("rho", dar1.rho, "from 0 to 0.9999");
        }
        if !(dar1.peak_to_mean >= 1.0 && dar1.peak_to_mean <= 1e6) {
            return refused("peak_to_mean", dar1.peak_to_mean, "from 1 to 10^6");
        }
        if !(dar1.deviation_to_mean > 0.0 && dar1.deviation_to_mean <= 100.0) {
            return refused("deviation_to_mean", dar1.deviation_to_mean, "above 0 and at most 100");
        }
        if dar1.frames_per_1000_s == 0 {
            return Err(SourceError::NoPackets);
        }
        let longest = packet.range().map_or(1, |(_, longest)| longest.max(1));
        let mean = dar1.rate.bps() as f64 / 8.0 * 1000.0 / dar1.frames_per_1000_s as f64;
        let peak = mean * dar1.peak_to_mean;
        let packets = libm::ceil(peak / f64::from(longest)) as u64;
        if mean / f64::from(longest) < MIN_PACKETS {
            return refused("packets of a frame", mean / f64::from(longest), "a hundredth at least, on average");
        }
        if packets > u64::from(MAX_FRAME_PACKETS) {
            return Err(SourceError::FramePackets { packets, limit: MAX_FRAME_PACKETS });
        }
        let sizes = match dar1.marginal {
            Marginal::Gamma => {
                let shape = 1.0 / (dar1.deviation_to_mean * dar1.deviation_to_mean);
                Sizes::Bytes { shape, scale: mean / shape, peak: libm::floor(peak) as u64 }
            }
            Marginal::NegativeBinomial => {
                let mean = mean / f64::from(longest);
                Sizes::Packets { sums: negative_binomial(mean, mean * dar1.deviation_to_mean, packets as usize)? }
            }
        };
        Ok(Self {
            sizes,
            rho: dar1.rho,
            longest,
            frame_time: Fine::from_ratio(1000, dar1.frames_per_1000_s.into()),
            start: Fine::default(),
            len: 0,
            packets: 0,
            sent: 0,
            gap: Fine::default(),
        })
    }

    /// Advances to the next frame.
    pub(super) fn next_frame(&mut self, random: &mut Random) {
        self.start = self.start.after(self.frame_time);
        self.sent = 0;
        if random.unit() > self.rho {
            self.draw(random);
        }
    }

    /// Returns the length of this frame in bytes.
    #[cfg(test)]
    pub(super) fn frame_len(&self) -> f64 {
        self.len as f64
    }

    fn draw(&mut self, random: &mut Random) {
        self.len = match &self.sizes {
            Sizes::Packets { sums } => random.place(sums) as u64 * u64::from(self.longest),
            Sizes::Bytes { shape, scale, peak } => (libm::round(random.gamma(*shape) * scale) as u64).min(*peak),
        };
        // At most MAX_FRAME_PACKETS.
        self.packets = self.len.div_ceil(self.longest.into()) as u32;
        self.gap = self.frame_time.part(1.0 / f64::from(self.packets.max(1)));
    }
}

impl Process for Dar1Frames {
    fn start(&mut self, start: Nanos, random: &mut Random) {
        self.start = Fine::from_nanos(start).after(self.frame_time.part(random.unit()));
        self.sent = 0;
        self.draw(random);
    }

    fn next(&mut self, random: &mut Random) -> Option<Arrival> {
        // A frame without packets is as likely as in the distribution.
        while self.sent == self.packets {
            self.next_frame(random);
        }
        let at = self.start.after(self.gap.times(self.sent.into())).ceil();
        let len = (self.len - u64::from(self.sent) * u64::from(self.longest)).min(self.longest.into()) as u32;
        self.sent += 1;
        Some(Arrival { at, len })
    }
}

/// Cumulative probabilities of 0 .. `most` of the negative binomial distribution with this mean and standard deviation.
/// Values above `most` count as `most`, as F_K in the text.
fn negative_binomial(mean: f64, deviation: f64, most: usize) -> Result<Vec<f64>, SourceError> {
    let variance = deviation * deviation;
    if variance <= mean {
        return Err(SourceError::Variance { mean, variance });
    }
    let (r, p) = (mean * mean / (variance - mean), mean / variance);
    let mut sum = 0.0;
    let probability = |k: usize| {
        let k = k as f64;
        let ways = libm::lgamma(k + r) - libm::lgamma(r) - libm::lgamma(k + 1.0);
        libm::exp(ways + r * libm::log(p) + k * libm::log1p(-p))
    };
    let mut sums: Vec<f64> = (0..most)
        .map(|k| {
            sum += probability(k);
            f64::min(sum, 1.0)
        })
        .collect();
    sums.push(1.0);
    Ok(sums)
}

/// Returns the distribution function of the gamma distribution of scale one, by its power series.
fn gamma_cdf(shape: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0 / shape, 1.0 / shape, 0.0);
    while term > sum * 1e-16 && n < 1e6 {
        n += 1.0;
        term *= x / (shape + n);
        sum += term;
    }
    (sum * libm::exp(shape * libm::log(x) - x - libm::lgamma(shape))).min(1.0)
}
