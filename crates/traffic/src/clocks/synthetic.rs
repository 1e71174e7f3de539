//! Stamps of two clocks with a known offset, to test [`super::OneWay`].

use crate::random::Random;

/// Delays beyond the shortest one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Queueing {
    /// No jump.
    None,
    /// Exponential with this mean in seconds.
    Exponential(f64),
    /// Pareto with this mean in seconds and tail index 1.5: finite mean, infinite variance.
    HeavyTailed(f64),
    /// A FIFO link of this rate in bit/s, that the packets alone load. They are of 40 B and 40 to 700 B, uniform, as in
    /// Chapter 5 of \[drrpp\].
    Link(f64),
}

/// Header, and shortest and longest data of the packets of [`Queueing::Link`], in bytes.
const HEADER: f64 = 40.0;
const DATA: (f64, f64) = (40.0, 700.0);

impl Queueing {
    /// Returns the queueing behind a link that so many packets per second load by this part of its rate.
    #[must_use]
    pub fn link(packets_per_second: f64, load: f64) -> Self {
        Self::Link(packets_per_second * (HEADER + (DATA.0 + DATA.1) / 2.0) * 8.0 / load)
    }
}

/// Two clocks and the packets between them. Times are in seconds of the sender's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// Offset of the receiver's clock at the start, in seconds.
    pub offset_s: f64,
    /// First derivative of the offset at the start, in seconds per second.
    pub skew: f64,
    /// Second derivative, in 1/s.
    pub drift: f64,
    /// Times and sizes of the offset's jumps, in seconds.
    pub jumps: Vec<(f64, f64)>,
    /// Shortest delay in seconds.
    pub shortest_s: f64,
    /// Delays beyond that.
    pub queueing: Queueing,
    /// Packets per second; they are sent at random (Poisson).
    pub packets_per_second: f64,
}

impl Synthetic {
    /// Returns the offset of the receiver's clock at `at`, in seconds.
    #[must_use]
    pub fn offset_at(&self, at: f64) -> f64 {
        let jumped: f64 = self.jumps.iter().filter(|&&(when, _)| when <= at).map(|&(_, size)| size).sum();
        self.offset_s + at * (self.skew + at * self.drift / 2.0) + jumped
    }

    /// Returns the sending stamp and the receiving stamp of each packet of `duration` seconds, in ns since an origin of
    /// their own. They are in the order of sending. The same seed gives the same stamps.
    pub fn stamps(&self, duration: f64, seed: u64) -> impl Iterator<Item = (u64, i64)> {
        let mut random = Random::new(seed, 0);
        let (mut at, mut free) = (0.0f64, 0.0f64);
        std::iter::from_fn(move || {
            at += random.exponential() / self.packets_per_second;
            let queueing = match self.queueing {
                Queueing::Link(bps) => {
                    let bytes = HEADER + DATA.0 + random.unit() * (DATA.1 - DATA.0);
                    free = free.max(at) + bytes * 8.0 / bps;
                    free - at - (HEADER + DATA.0) * 8.0 / bps
                }
                Queueing::None => 0.0,
                Queueing::Exponential(mean) => mean * random.exponential(),
                // From zero on, so that the shortest delay is the one stated.
                Queueing::HeavyTailed(mean) => (random.pareto(1.5) - 1.0 / 3.0) * mean * 1.5,
            };
            let received = at + self.shortest_s + queueing + self.offset_at(at);
            (at < duration).then_some(((at * 1e9) as u64, (received * 1e9) as i64))
        })
    }
}
