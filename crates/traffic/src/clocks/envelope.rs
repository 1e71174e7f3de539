//! The lower envelope of points that arrive one by one, in constant memory.
//!
//! Invariants: a span's points are a lower convex hull in time order, at most [`VERTICES`](super::hull::VERTICES) of
//! them; spans are equally long, and there are at most [`SPANS`]. For a later point, spans are joined in pairs.

use super::hull::Span;
use super::{Clocks, Known, decide, fit};

/// Most spans of time.
pub(super) const SPANS: usize = 1024;
/// The length of a span at the start, in ns.
const FIRST_SPAN: u64 = 1_000_000;

/// Watches the one-way delays between two clocks. It keeps at most 8192 points, some 200 kB.
#[derive(Clone, Debug, Default)]
pub struct OneWay {
    /// Time and difference of the first packet, in ns.
    first: Option<(u64, i64)>,
    last: u64,
    /// Length of a span in ns.
    length: u64,
    spans: Vec<Span>,
}

impl OneWay {
    /// Adds a packet at `at_ns` by the reference clock. `difference_ns` is its receiving stamp minus its sending stamp.
    /// Times before the first packet's count as that.
    pub fn record(&mut self, at_ns: u64, difference_ns: i64) {
        let (first, base) = *self.first.get_or_insert((at_ns, difference_ns));
        let at = at_ns.saturating_sub(first);
        self.length = self.length.max(FIRST_SPAN);
        while at / self.length >= SPANS as u64 {
            self.length = self.length.saturating_mul(2);
            self.spans = std::mem::take(&mut self.spans)
                .chunks_mut(2)
                .map(|pair| {
                    let mut joined = std::mem::take(&mut pair[0]);
                    pair.get_mut(1).map(std::mem::take).into_iter().for_each(|other| joined.join(other));
                    joined
                })
                .collect();
        }
        self.last = self.last.max(at);
        let index = (at / self.length) as usize;
        if self.spans.len() <= index {
            self.spans.resize_with(index + 1, Span::default);
        }
        let span = &mut self.spans[index];
        span.packets += 1;
        span.add((at as f64 / 1e9, (i128::from(difference_ns) - i128::from(base)) as f64 / 1e9));
    }

    /// Number of packets.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.spans.iter().map(|span| span.packets).sum()
    }

    #[cfg(test)]
    pub(super) fn corners(&self) -> usize {
        self.spans.iter().map(|span| span.hull.len()).sum()
    }

    /// Time of the first packet, in ns by the reference clock.
    #[must_use]
    pub fn first_ns(&self) -> Option<u64> {
        self.first.map(|(at, _)| at)
    }

    /// Estimates the clocks from the packets so far; `None` if fewer than 16 spans of time have packets. Takes some
    /// milliseconds.
    #[must_use]
    pub fn clocks(&self) -> Option<Clocks> {
        let (_, base) = self.first?;
        let base = base as f64 / 1e9;
        let length = self.length as f64 / 1e9;
        let end = self.last as f64 / 1e9;
        let (seen, parts) = fit::fit(&self.spans, length, end)?;
        let mut clocks = decide::decide(&seen, parts);
        for stretch in &mut clocks.stretches {
            for known in [&mut stretch.offset_s, &mut stretch.end_offset_s] {
                *known = Known { value: known.value + base, within: known.within };
            }
        }
        clocks.points.iter_mut().for_each(|point| point.1 += base);
        Some(clocks)
    }
}
