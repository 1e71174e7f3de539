//! Service curves of any number of straight pieces, exact: those of \[hfsc\] equations (1) to (11), before Section 4
//! restricts curves to two pieces that stay two.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | S_i(t - t_a) + c | [`Pieces::from_curve`] | |
//! | D_i, V_i | [`Pieces`] | bits times 10^9 over nanoseconds |
//! | min(D_i, S_i(t - t_a) + c), equations (3), (7), (11) | [`Pieces::lower_to`] | |
//! | D_i^-1(y), "the smallest value x such that D_i(x) = y" | [`Pieces::time_of`] | ns, exact |
//!
//! **Numbers.** A piece is a line through whole nanoseconds and whole bits times 10^9; the intersection of two pieces
//! is a fraction of integers. Nothing is rounded. Values fit for links up to 1 Tbit/s and an hour of time.

use fairlink_core::{NANOS_PER_SEC, Rate, ServiceCurve};
use num_rational::Ratio;

/// An exact time in nanoseconds, or an exact amount in bits times 10^9.
pub type Exact = Ratio<i128>;

/// Bits of `bytes` times 10^9: the unit of curves.
#[must_use]
pub fn service_of(bytes: u64) -> i128 {
    i128::from(bytes) * 8 * i128::from(NANOS_PER_SEC)
}

/// A line through a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    x: i128,
    y: i128,
    bps: i128,
}

impl Line {
    /// Returns the value at `t` times the denominator of `t`.
    fn scaled(&self, t: &Exact) -> i128 {
        self.y * t.denom() + self.bps * (t.numer() - self.x * t.denom())
    }

    /// Time of its intersection with a less steep line.
    fn meets(&self, other: &Self) -> Exact {
        let (own, its) = (self.y - self.bps * self.x, other.y - other.bps * other.x);
        Ratio::new(its - own, self.bps - other.bps)
    }
}

/// A curve that does not fall, from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Each piece with the time at which it begins, in order.
    pieces: Vec<(Exact, Line)>,
}

impl Pieces {
    /// Makes the shape of `curve` from time `x` in nanoseconds and service `y` in bits times 10^9 on. Accepts any
    /// slopes.
    #[must_use]
    pub fn from_curve(curve: &ServiceCurve, x: i128, y: i128) -> Self {
        let bps = |rate: Option<Rate>| i128::from(rate.map_or(0, Rate::bps));
        let (m1, m2, d) = (bps(curve.m1), bps(curve.m2), i128::from(curve.d.0));
        let start = Ratio::from_integer(x);
        if d == 0 || m1 == m2 {
            return Self { pieces: vec![(start, Line { x, y, bps: m2 })] };
        }
        let knee = Line { x: x + d, y: y + m1 * d, bps: m2 };
        Self { pieces: vec![(start, Line { x, y, bps: m1 }), (Ratio::from_integer(x + d), knee)] }
    }

    /// Number of its straight pieces.
    #[must_use]
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Number of its straight pieces above the service `y`: later times use only these.
    #[must_use]
    pub fn count_above(&self, y: i128) -> usize {
        let Some(from) = self.time_of(y) else { return 0 };
        self.pieces.iter().filter(|(start, _)| *start > from).count() + 1
    }

    /// Starts of the pieces that are later than `t`.
    pub fn knees(&self, t: &Exact) -> impl Iterator<Item = Exact> + use<'_> {
        let t = *t;
        self.pieces.iter().map(|piece| piece.0).filter(move |from| *from > t)
    }

    fn line(&self, t: &Exact) -> &Line {
        let behind = self.pieces.partition_point(|(from, _)| from <= t);
        &self.pieces[behind.saturating_sub(1)].1
    }

    /// Returns the value at `t`, which is not before its start, times the denominator of `t`: bits times 10^9.
    #[must_use]
    pub fn scaled(&self, t: &Exact) -> i128 {
        self.line(t).scaled(t)
    }

    /// Returns the long-term slope, in bit/s.
    #[must_use]
    pub fn slope(&self) -> i128 {
        self.pieces.last().map_or(0, |piece| piece.1.bps)
    }

    /// Returns the earliest time from its start on at which it is at least `y`, or `None` for never.
    #[must_use]
    pub fn time_of(&self, y: i128) -> Option<Exact> {
        for (place, (from, line)) in self.pieces.iter().enumerate() {
            if line.scaled(from) >= y * from.denom() {
                return Some(*from);
            }
            if line.bps > 0 {
                let at = Ratio::new(line.x * line.bps + (y - line.y), line.bps);
                if self.pieces.get(place + 1).is_none_or(|(next, _)| at <= *next) {
                    return Some(at);
                }
            }
        }
        None
    }

    /// Lowers the curve to its minimum with `other` from the start of `other` on, and discards earlier parts.
    pub fn lower_to(&mut self, other: &Self) {
        let start = other.pieces[0].0;
        let mut cuts: Vec<Exact> = self.knees(&start).chain(other.knees(&start)).collect();
        cuts.push(start);
        cuts.sort_unstable();
        cuts.dedup();
        let mut lower: Vec<(Exact, Line)> = Vec::with_capacity(cuts.len() + 2);
        let mut push = |from: Exact, line: Line| {
            let goes_on = |last: &(Exact, Line)| last.1.bps == line.bps && last.1.scaled(&from) == line.scaled(&from);
            if !lower.last().is_some_and(goes_on) {
                lower.push((from, line));
            }
        };
        for (place, cut) in cuts.iter().enumerate() {
            let (own, its) = (*self.line(cut), *other.line(cut));
            let [low, high] = match (own.scaled(cut), own.bps).cmp(&(its.scaled(cut), its.bps)) {
                std::cmp::Ordering::Greater => [its, own],
                _ => [own, its],
            };
            push(*cut, low);
            if low.bps > high.bps {
                let cross = low.meets(&high);
                if cross > *cut && cuts.get(place + 1).is_none_or(|next| cross < *next) {
                    push(cross, high);
                }
            }
        }
        self.pieces = lower;
    }
}

#[cfg(test)]
mod tests;
