//! Arrival curves: the maximum traffic of a class or a source in any time. One type for shapers, policers, meters and
//! delay bounds.
//!
//! A curve is the least of its limits. Each is one of the models of \[drrpp\] Section 4.4.3, after Zhang:
//!
//! | paper | here |
//! | --- | --- |
//! | (sigma, rho) | [`ArrivalLimit::Bucket`]: at most sigma + rho t in any time t |
//! | (r, T) | [`ArrivalLimit::Window`]: at most r T in every interval of length T |
//! | (Xmin, Xave, I, Smax) | [`ArrivalLimit::Spacing`]: no two packets closer than Xmin, on average Xave apart in every interval of length I, none longer than Smax |
//! | an access line (\[sds\] Section IV) | [`ArrivalLimit::Line`]: a packet's last bit is a whole packet's time behind the one before |
//!
//! A packet arrives in whole, with its last bit. Intervals of a bucket are closed: arrivals at both of their ends
//! count. Those of a length, of [`ArrivalLimit::Window`] and [`ArrivalLimit::Spacing`], are half open: of two packets
//! exactly T apart each has an interval of its own.
//!
//! Everything is counted in whole bytes and nanoseconds. Only the instant of a last bit on a line is rounded, up to the
//! next nanosecond. So the excess is at most the line's bytes in a nanosecond.

use fairlink_core::{NANOS_PER_SEC, Nanos, PerWindow, Rate, Ratio};

/// Most limits of one curve.
pub const MAX_LIMITS: usize = 16;

/// One limit on arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalLimit {
    /// A token bucket: at most `burst` plus the yield of the rate, in any time.
    Bucket {
        /// sigma, in bytes.
        burst: u64,
        /// rho, in bit/s. Zero is a bucket that is never filled again.
        rate_bps: u64,
    },
    /// A limited amount in every interval of a length.
    Window {
        /// The amount.
        amount: PerWindow,
        /// The length of the intervals.
        every: Nanos,
    },
    /// Packets at a distance from each other.
    Spacing {
        /// Xmin: the least time between two packets; may be zero.
        min_gap: Nanos,
        /// Xave: the mean time between packets in every interval of the length `over`.
        mean_gap: Nanos,
        /// I.
        over: Nanos,
        /// Smax, in bytes.
        largest: u32,
    },
    /// A line of this rate before it: a packet is behind the one before it by its own time on the line, at least.
    Line {
        /// The line's rate.
        rate: Rate,
    },
}

/// A limit that only silence conforms to, or a curve without limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CurveError {
    /// No limit.
    #[error("no limit; a curve has at least one")]
    Empty,
    /// Too many limits.
    #[error("{limits} limits; the maximum is {MAX_LIMITS}")]
    TooMany {
        /// Number of limits in the input.
        limits: usize,
    },
    /// A bucket without depth.
    #[error("a burst of 0 B, which no packet fits into; the least is the longest packet")]
    NoBurst,
    /// A bucket that is never filled again.
    #[error("a rate of 0 bit/s; the least is 1 bit/s")]
    NoRate,
    /// A window without length.
    #[error("an interval of 0 ns; the shortest is 1 ns")]
    NoInterval,
    /// A window with room for no packet.
    #[error("less than 1 B in {} ns, which no packet fits into; the least is the longest packet", .every.0)]
    EmptyWindow {
        /// The length of the window.
        every: Nanos,
    },
    /// A mean gap longer than the interval that it is taken over.
    #[error("a mean gap of {} ns in every {} ns, which leaves no room for a packet; the longest mean gap is the interval", .mean_gap.0, .over.0)]
    NoPacket {
        /// Mean gap of the input.
        mean_gap: Nanos,
        /// Averaging time of the input.
        over: Nanos,
    },
    /// A mean gap below the least one.
    #[error("a mean gap of {} ns below the least gap of {} ns; the shortest mean gap is the least gap", .mean_gap.0, .min_gap.0)]
    MeanBelowLeast {
        /// Mean gap of the input.
        mean_gap: Nanos,
        /// Minimum gap of the input.
        min_gap: Nanos,
    },
    /// Packets of no bytes.
    #[error("a largest packet of 0 B; the least is 1 B")]
    NoLength,
}

impl ArrivalLimit {
    /// Makes a limit of r T in every interval of the length T, in whole bytes.
    #[must_use]
    pub fn rate_in(rate: Rate, every: Nanos) -> Self {
        Self::Window { amount: PerWindow::Bytes(rate.bytes_in(every)), every }
    }

    /// Checks that packets can pass indefinitely.
    fn check(self) -> Result<(), CurveError> {
        match self {
            Self::Bucket { burst: 0, .. } => Err(CurveError::NoBurst),
            Self::Bucket { rate_bps: 0, .. } => Err(CurveError::NoRate),
            Self::Window { every: Nanos::ZERO, .. } | Self::Spacing { over: Nanos::ZERO, .. } => {
                Err(CurveError::NoInterval)
            }
            Self::Window { amount: PerWindow::Bytes(0) | PerWindow::Packets(0), every } => {
                Err(CurveError::EmptyWindow { every })
            }
            Self::Spacing { mean_gap, over, .. } if mean_gap > over => Err(CurveError::NoPacket { mean_gap, over }),
            Self::Spacing { min_gap, mean_gap, .. } if mean_gap < min_gap || mean_gap == Nanos::ZERO => {
                Err(CurveError::MeanBelowLeast { mean_gap, min_gap: min_gap.max(Nanos(1)) })
            }
            Self::Spacing { largest: 0, .. } => Err(CurveError::NoLength),
            _ => Ok(()),
        }
    }

    /// Returns the longest conforming packet, in bytes.
    fn longest(self) -> u64 {
        match self {
            Self::Bucket { burst, .. } => burst,
            Self::Window { amount: PerWindow::Bytes(bytes), .. } => bytes,
            Self::Spacing { largest, .. } => largest.into(),
            Self::Window { .. } | Self::Line { .. } => u64::MAX,
        }
    }

    /// Returns the most bytes in a closed interval of the length `span`, with packets of at most `largest` bytes.
    fn most_in(self, span: Nanos, largest: u32) -> u128 {
        let steps = |each: u128, every: Nanos| each.saturating_mul(u128::from(span.0 / every.0.max(1)) + 1);
        let filled = |rate: u64| u128::from(rate) * u128::from(span.0) / u128::from(8 * NANOS_PER_SEC);
        match self {
            Self::Bucket { burst, rate_bps } => u128::from(burst) + filled(rate_bps),
            Self::Window { amount, every } => steps(in_bytes(amount, largest), every),
            Self::Spacing { min_gap, mean_gap, over, largest: own } => {
                let packet = u128::from(own.min(largest));
                let average = steps(u128::from(over.0 / mean_gap.0.max(1)) * packet, over);
                if min_gap == Nanos::ZERO { average } else { average.min(steps(packet, min_gap)) }
            }
            Self::Line { rate } => {
                u128::from(largest) + u128::from(rate.bps()) * (u128::from(span.0) + 1) / u128::from(8 * NANOS_PER_SEC)
            }
        }
    }

    /// Straight lines that are never below the permitted arrivals: a burst in bytes, and a rate in bit/s. If the limit
    /// rises in steps, they touch it at each.
    fn lines(self, largest: u32) -> [Option<(u128, Ratio)>; 2] {
        let steps = |bytes: u128, every: Nanos| {
            let bits = bytes.saturating_mul(8 * u128::from(NANOS_PER_SEC));
            Some((bytes, Ratio { numerator: bits, denominator: every.0.max(1).into() }))
        };
        match self {
            Self::Bucket { burst, rate_bps } => [Some((burst.into(), Ratio::whole(rate_bps.into()))), None],
            Self::Window { amount, every } => [steps(in_bytes(amount, largest), every), None],
            Self::Spacing { min_gap, mean_gap, over, largest: own } => {
                let packet = u128::from(own.min(largest));
                let average = steps(u128::from(over.0 / mean_gap.0.max(1)) * packet, over);
                [average, if min_gap == Nanos::ZERO { None } else { steps(packet, min_gap) }]
            }
            Self::Line { rate } => {
                let nanosecond = rate.bps().div_ceil(8 * NANOS_PER_SEC);
                [Some((u128::from(largest) + u128::from(nanosecond), Ratio::whole(rate.bps().into()))), None]
            }
        }
    }
}

fn in_bytes(amount: PerWindow, largest: u32) -> u128 {
    match amount {
        PerWindow::Bytes(bytes) => bytes.into(),
        PerWindow::Packets(packets) => u128::from(packets) * u128::from(largest),
    }
}

/// The maximum arrivals in any time: the least of some limits, all of which hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalCurve(Limits);

/// Most curves have one limit, and there may be a million of them: those need no memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Limits {
    One(ArrivalLimit),
    Several(Box<[ArrivalLimit]>),
}

impl From<ArrivalLimit> for ArrivalCurve {
    /// Makes the curve of one limit, without a check: that of a class with a rate of zero is valid here.
    fn from(limit: ArrivalLimit) -> Self {
        Self(Limits::One(limit))
    }
}

impl ArrivalCurve {
    /// Makes the minimum of `limits`, each of which lets packets pass indefinitely.
    ///
    /// # Errors
    /// No limit, more than [`MAX_LIMITS`], or the first that passes nothing.
    pub fn new(limits: &[ArrivalLimit]) -> Result<Self, CurveError> {
        if limits.len() > MAX_LIMITS {
            return Err(CurveError::TooMany { limits: limits.len() });
        }
        limits.iter().try_for_each(|limit| limit.check())?;
        match limits {
            [] => Err(CurveError::Empty),
            &[limit] => Ok(limit.into()),
            several => Ok(Self(Limits::Several(several.into()))),
        }
    }

    /// Checks that packets can pass indefinitely, which holds for a curve from [`ArrivalCurve::new`].
    ///
    /// # Errors
    /// The first limit that passes nothing.
    pub fn check(&self) -> Result<(), CurveError> {
        self.limits().iter().try_for_each(|limit| limit.check())
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &[ArrivalLimit] {
        match &self.0 {
            Limits::One(limit) => std::slice::from_ref(limit),
            Limits::Several(limits) => limits,
        }
    }

    /// Returns burst in bytes and rate in bit/s of a curve that is one token bucket.
    #[must_use]
    pub fn as_bucket(&self) -> Option<(u64, u64)> {
        match *self.limits() {
            [ArrivalLimit::Bucket { burst, rate_bps }] => Some((burst, rate_bps)),
            _ => None,
        }
    }

    /// The longest packet that conforms to the curve, in bytes; `u64::MAX` if every packet does.
    #[must_use]
    pub fn longest_packet(&self) -> u64 {
        self.limits().iter().map(|limit| limit.longest()).min().unwrap_or(u64::MAX)
    }

    /// Returns the long-term rate in bit/s, with packets of at most `largest` bytes.
    #[must_use]
    pub fn long_run_bps(&self, largest: u32) -> f64 {
        let rate = |(_, rate): (u128, Ratio)| rate.numerator as f64 / rate.denominator as f64;
        self.lines(largest).map(rate).fold(f64::INFINITY, f64::min)
    }

    /// Returns the most bytes that arrive in a closed interval of the length `span`, in packets of at most `largest`
    /// bytes. It is exact for each limit, and the least of them.
    #[must_use]
    pub fn most_in(&self, span: Nanos, largest: u32) -> u128 {
        self.limits().iter().map(|limit| limit.most_in(span, largest)).min().unwrap_or(u128::MAX)
    }

    /// Straight lines that are never below the curve for packets of at most `largest` bytes: a burst in bytes, and a
    /// rate in bit/s. The least of them is the curve if its limits are buckets and lines. A window and a spacing rise
    /// in steps, and their line touches each step at its beginning.
    pub fn lines(&self, largest: u32) -> impl Iterator<Item = (u128, Ratio)> {
        self.limits().iter().flat_map(move |limit| limit.lines(largest)).flatten()
    }
}

#[cfg(test)]
mod tests;
