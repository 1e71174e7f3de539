//! Statistics of arrival processes: their rate, its variation in time, and their burstiness. One pass over the packets,
//! and memory that grows only with the logarithm of the time.
//!
//! | quantity | computed as |
//! | --- | --- |
//! | mean rate | bytes over the length of the run |
//! | index of dispersion | variance over mean of the packets in windows of one length; 1 for Poisson arrivals |
//! | autocorrelation | of the bytes in a window with those of the next |
//! | Hurst parameter H | from windows that double: the variance of their mean falls as m^(2H - 2) with their length m (aggregated variance); 0.5 without long-range dependence |
//! | sigma | [`Burstiness`](crate::Burstiness) |

use fairlink_core::Nanos;

/// Fewest windows of a length for its variance to count in the Hurst parameter.
const FEWEST_WINDOWS: u64 = 32;
/// Most doublings of the window.
const MOST_DOUBLINGS: usize = 40;

/// Online mean and variance (Welford's method, which does not cancel).
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }
}

/// Windows of one length, and the first half of a window of the double length.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    bytes: Moments,
    half: Option<f64>,
}

/// Products of neighbours, of numbers taken less the first of them.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbours {
    first: Option<f64>,
    last: f64,
    count: u64,
    sum: f64,
    squares: f64,
    products: f64,
}

impl Neighbours {
    fn add(&mut self, value: f64) {
        let value = value - *self.first.get_or_insert(value);
        if self.count > 0 {
            self.products += self.last * value;
        }
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
        self.last = value;
    }

    fn correlation(&self) -> Option<f64> {
        if self.count < 3 {
            return None;
        }
        let mean = self.sum / self.count as f64;
        let variance = self.squares - mean * self.sum;
        // The first is zero here.
        let ends = 2.0 * self.sum - self.last;
        let products = self.products - mean * ends + (self.count - 1) as f64 * mean * mean;
        (variance > 0.0).then(|| products / variance)
    }
}

/// Statistics of an arrival process.
#[derive(Clone, Debug)]
pub struct Arrivals {
    window: Nanos,
    /// The current window: its number, packets and bytes.
    number: u64,
    packets: u64,
    bytes: u64,
    in_windows: Moments,
    neighbours: Neighbours,
    levels: Vec<Level>,
    total_packets: u64,
    total_bytes: u64,
    longest: u32,
}

/// The statistics. A value is `None` if the run is too short for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// The longest packet in bytes.
    pub longest: u32,
    /// Bytes over the length of the run, in bit/s.
    pub rate_bps: f64,
    /// Standard deviation of the rate in windows, in bit/s.
    pub deviation_bps: Option<f64>,
    /// Variance over mean of the packets in windows.
    pub dispersion: Option<f64>,
    /// Correlation of the bytes in neighbouring windows.
    pub autocorrelation: Option<f64>,
    /// The Hurst parameter.
    pub hurst: Option<f64>,
}

impl Arrivals {
    /// Makes empty statistics with windows of this length.
    ///
    /// # Panics
    /// When `window` is zero.
    #[must_use]
    pub fn new(window: Nanos) -> Self {
        assert!(window > Nanos::ZERO, "a window lasts some time");
        Self {
            window,
            number: 0,
            packets: 0,
            bytes: 0,
            in_windows: Moments::default(),
            neighbours: Neighbours::default(),
            levels: vec![Level::default()],
            total_packets: 0,
            total_bytes: 0,
            longest: 0,
        }
    }

    /// Records a packet of `len` bytes that arrives at `at`, not before the previous one.
    pub fn arrive(&mut self, at: Nanos, len: u32) {
        self.until(at);
        self.packets += 1;
        self.bytes += u64::from(len);
        self.total_packets += 1;
        self.total_bytes += u64::from(len);
        self.longest = self.longest.max(len);
    }

    /// Returns the statistics of a run that ends at `end`. The incomplete window at the end is left out.
    #[must_use]
    pub fn finish(mut self, end: Nanos) -> Seen {
        self.until(end);
        let per_second = 1e9 / self.window.0 as f64;
        let deviation = self.levels[0].bytes.variance().map(|variance| variance.sqrt() * 8.0 * per_second);
        let packets = self.in_windows;
        Seen {
            packets: self.total_packets,
            bytes: self.total_bytes,
            longest: self.longest,
            rate_bps: self.total_bytes as f64 * 8e9 / (end.0.max(1)) as f64,
            deviation_bps: deviation,
            dispersion: packets.variance().filter(|_| packets.mean > 0.0).map(|variance| variance / packets.mean),
            autocorrelation: self.neighbours.correlation(),
            hurst: self.hurst(),
        }
    }

    /// Closes the windows that have ended by `now`.
    fn until(&mut self, now: Nanos) {
        while self.number < now.0 / self.window.0 {
            self.in_windows.add(self.packets as f64);
            self.neighbours.add(self.bytes as f64);
            let mut sum = self.bytes as f64;
            for level in 0..MOST_DOUBLINGS {
                if level == self.levels.len() {
                    self.levels.push(Level::default());
                }
                let Level { bytes, half } = &mut self.levels[level];
                bytes.add(sum);
                match half.take() {
                    None => {
                        *half = Some(sum);
                        break;
                    }
                    Some(first) => sum += first,
                }
            }
            (self.number, self.packets, self.bytes) = (self.number + 1, 0, 0);
        }
    }

    /// Computes the Hurst parameter from the slope of log variance against log length, by least squares.
    fn hurst(&self) -> Option<f64> {
        let points: Vec<(f64, f64)> = (0i32..)
            .zip(&self.levels)
            .filter(|(_, level)| level.bytes.count >= FEWEST_WINDOWS)
            .filter_map(|(doublings, level)| {
                let m = 2f64.powi(doublings);
                let variance = level.bytes.variance()? / (m * m);
                (variance > 0.0).then(|| (m.ln(), variance.ln()))
            })
            .collect();
        if points.len() < 3 {
            return None;
        }
        let count = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
        let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), point| {
            (above + (point.0 - x) * (point.1 - y), below + (point.0 - x) * (point.0 - x))
        });
        Some(1.0 + above / below / 2.0)
    }
}

#[cfg(test)]
mod tests;
