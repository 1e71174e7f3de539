//! Envelopes that fit: straight ones to cut a run into parts, parabolas for the parts.

use std::ops::Range;

use super::hull::{Point, Span, keep_hull, push};
use super::{MAX_DRIFT, MAX_SKEW};

/// Fewest spans with packets.
const FEWEST: usize = 16;
/// Most blocks that the first pass cuts between, and fewest in a part.
const BLOCKS: usize = 256;
const SHORTEST: usize = 6;
/// Stamps are not better than this, in seconds. It keeps logarithms finite.
pub(super) const RESOLUTION: f64 = 1e-8;
/// A cut costs this many times the logarithm of the number of blocks: two or three parameters and a place.
const CUT: f64 = 4.0;

/// Returns the edge of a hull above `at`: its ends, or an end twice if the hull does not reach that far.
fn edge(hull: &[Point], at: f64) -> (Point, Point) {
    let behind = hull.partition_point(|point| point.0 <= at).clamp(1, hull.len().max(2) - 1);
    (hull[behind - 1], hull[behind.min(hull.len() - 1)])
}

/// Returns slope and value, at `middle`, of the straight line below a hull that has the highest value there, with a
/// slope of `slopes`. That value is concave in the slope, so that a slope beyond the limit is best at the limit.
fn line(hull: &[Point], middle: f64, slopes: (f64, f64)) -> (f64, f64) {
    let (a, b) = edge(hull, middle);
    let free = if b.0 > a.0 { (b.1 - a.1) / (b.0 - a.0) } else { 0.0 };
    let slope = free.clamp(slopes.0, slopes.1);
    if slope == free {
        return (slope, a.1 + slope * (middle - a.0));
    }
    // The corner at which the slopes of the edges pass this one.
    let rises = |pair: &[Point]| (pair[1].1 - pair[0].1) > slope * (pair[1].0 - pair[0].0);
    let corner = hull[hull.windows(2).position(rises).unwrap_or(hull.len() - 1)];
    (slope, corner.1 + slope * (middle - corner.0))
}

/// An envelope: value, slope and half the second derivative at a middle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve {
    middle: f64,
    value: f64,
    slope: f64,
    pub(super) bend: f64,
}

impl Curve {
    pub(super) fn at(&self, at: f64) -> f64 {
        let from = at - self.middle;
        self.value + from * (self.slope + from * self.bend)
    }

    pub(super) fn slope_at(&self, at: f64) -> f64 {
        self.slope + 2.0 * self.bend * (at - self.middle)
    }

    /// Returns the highest curve of this `bend` below all points, by the mean over the time from `start` to `end`.
    /// Returns the change of that mean with the bend too.
    fn with_bend(points: &[Point], start: f64, end: f64, bend: f64) -> (Self, f64, f64) {
        let (middle, half) = ((start + end) / 2.0, (end - start) / 2.0);
        let mut hull: Vec<Point> =
            points.iter().map(|&(t, d)| (t - middle, d - bend * (t - middle) * (t - middle))).collect();
        keep_hull(&mut hull);
        let (a, b) = edge(&hull, 0.0);
        let slope = if b.0 > a.0 { (b.1 - a.1) / (b.0 - a.0) } else { 0.0 };
        let value = a.1 - slope * a.0;
        let part = if b.0 > a.0 { (-a.0 / (b.0 - a.0)).clamp(0.0, 1.0) } else { 0.0 };
        let square = half * half / 3.0;
        let mean = value + bend * square;
        let change = square - (1.0 - part) * a.0 * a.0 - part * b.0 * b.0;
        (Self { middle, value, slope, bend }, mean, change)
    }

    /// Returns the highest curve below all points by the mean over the time: straight, or with the best bend. The mean
    /// is concave in the bend and made of straight pieces. So tangents from both sides close in on its top in few
    /// steps.
    pub(super) fn below(points: &[Point], start: f64, end: f64, bent: bool) -> Self {
        let straight = Self::with_bend(points, start, end, 0.0);
        let half = (end - start) / 2.0;
        if !bent || half <= 0.0 || straight.2 == 0.0 {
            return straight.0;
        }
        let side = straight.2.signum();
        // A bend that lifts the ends by the range of the values is more than any that fits.
        let range = points.iter().fold((f64::MAX, f64::MIN), |(low, high), p| (low.min(p.1), high.max(p.1)));
        let most = 8.0 * (range.1 - range.0 + RESOLUTION) / (half * half);
        let (mut near, mut far) = (straight, Self::with_bend(points, start, end, side * most));
        if far.2 * side > 0.0 {
            return far.0;
        }
        for _ in 0..60 {
            let (gain, gap) = (near.2 - far.2, far.0.bend - near.0.bend);
            if gain * side <= 0.0 || gap == 0.0 {
                break;
            }
            // Intersection of the tangents at both ends.
            let bend = (far.1 - near.1 + near.2 * near.0.bend - far.2 * far.0.bend) / gain;
            let bound = near.1 + near.2 * (bend - near.0.bend);
            let found = Self::with_bend(points, start, end, bend);
            let done = bound - found.1 <= 1e-13 + 1e-9 * (found.1 - straight.1).abs();
            if found.2 * side > 0.0 {
                near = found
            } else {
                far = found
            }
            if done {
                break;
            }
        }
        if near.1 >= far.1 { near.0 } else { far.0 }
    }

    /// Returns the highest straight line below all points whose slope clocks can have, by its value in the middle.
    pub(super) fn of_clocks(points: &[Point], start: f64, end: f64) -> Self {
        let middle = (start + end) / 2.0;
        let mut hull = points.to_vec();
        keep_hull(&mut hull);
        let (slope, value) = line(&hull, middle, (-MAX_SKEW, MAX_SKEW));
        Self { middle, value, slope, bend: 0.0 }
    }

    /// Returns true if clocks can move so from `start` to `end`.
    fn can_be_clocks(&self, start: f64, end: f64) -> bool {
        let steepest = self.slope_at(start).abs().max(self.slope_at(end).abs());
        steepest < MAX_SKEW && 2.0 * self.bend.abs() <= MAX_DRIFT
    }
}

/// Spans with packets, and which of them make a block.
pub(super) struct Seen<'a> {
    pub(super) spans: Vec<(usize, &'a Span)>,
    /// Borders of blocks as places in `spans`.
    blocks: Vec<usize>,
    length: f64,
    end: f64,
}

/// A part: the blocks from `first` to `last`, the last not included, and its time.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Places in `Seen::spans`.
    pub(super) spans: Range<usize>,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) curve: Curve,
    cost: f64,
    /// Spans with a standing queue, which its cost leaves out.
    queues: Vec<Range<usize>>,
}

impl Part {
    /// Returns true if clocks can move as its envelope does.
    pub(super) fn can_be_clocks(&self) -> bool {
        self.curve.can_be_clocks(self.start, self.end)
    }
}

impl Seen<'_> {
    pub(super) fn points(&self, spans: Range<usize>) -> Vec<Point> {
        self.spans[spans].iter().flat_map(|(_, span)| span.hull.iter().copied()).collect()
    }

    pub(super) fn start_of(&self, place: usize) -> f64 {
        if place == 0 { 0.0 } else { self.spans.get(place).map_or(self.end, |&(n, _)| n as f64 * self.length) }
    }

    /// Returns the cost of a curve over spans, and its blocks: n ln(mean distance), with the distances taken as
    /// exponential.
    fn cost(&self, curve: &Curve, spans: &Range<usize>, without: &[Range<usize>]) -> f64 {
        let (mut n, mut sum) = (0.0f64, 0.0);
        for block in self.blocks.windows(2) {
            let of = block[0].max(spans.start)..block[1].min(spans.end);
            if of.is_empty() || without.iter().any(|queue| queue.contains(&of.start)) {
                continue;
            }
            let points = self.spans[of].iter().flat_map(|(_, span)| &span.hull);
            let least = points.map(|&(t, d)| d - curve.at(t)).fold(f64::MAX, f64::min);
            sum += least.max(0.0);
            n += 1.0;
        }
        n * ((sum + RESOLUTION * n) / (n - 2.0).max(1.0)).ln()
    }

    pub(super) fn part(&self, spans: Range<usize>, queues: Vec<Range<usize>>) -> Part {
        let (start, end) = (self.start_of(spans.start), self.start_of(spans.end));
        let kept: Vec<Point> = (spans.clone())
            .filter(|place| !queues.iter().any(|queue| queue.contains(place)))
            .flat_map(|place| self.spans[place].1.hull.iter().copied())
            .collect();
        let straight = Curve::of_clocks(&kept, start, end);
        let bent = Curve::below(&kept, start, end, true);
        let costs = [&straight, &bent].map(|curve| self.cost(curve, &spans, &queues));
        let worth = 1.5 * (self.blocks.len() as f64).ln();
        let is_bent = costs[1] + worth < costs[0] && bent.can_be_clocks(start, end);
        let (curve, cost) = if is_bent { (bent, costs[1] + worth) } else { (straight, costs[0]) };
        Part { spans, start, end, curve, cost, queues }
    }

    fn cut(&self) -> f64 {
        CUT * (self.blocks.len() as f64).ln()
    }
}

/// Fits envelopes to spans of `length` seconds; the last packet was at `end`. Returns the spans with packets and their
/// parts; `None` if there are too few.
pub(super) fn fit(spans: &[Span], length: f64, end: f64) -> Option<(Seen<'_>, Vec<Part>)> {
    let spans: Vec<(usize, &Span)> = spans.iter().enumerate().filter(|(_, span)| span.packets > 0).collect();
    if spans.len() < FEWEST {
        return None;
    }
    let per_block = spans.len().div_ceil(BLOCKS);
    let mut blocks: Vec<usize> = (0..spans.len()).step_by(per_block).collect();
    blocks.push(spans.len());
    let seen = Seen { spans, blocks, length, end };
    let borders = straight_parts(&seen);
    let mut parts: Vec<Part> = borders.windows(2).map(|pair| seen.part(pair[0]..pair[1], Vec::new())).collect();
    join(&seen, &mut parts);
    refine(&seen, &mut parts);
    join(&seen, &mut parts);
    Some((seen, parts))
}

/// Borders of parts as places of spans: the best cuts for straight envelopes.
fn straight_parts(seen: &Seen<'_>) -> Vec<usize> {
    let count = seen.blocks.len() - 1;
    let slope = median_slope(seen);
    let lowest = |block: usize| {
        let points = seen.points(seen.blocks[block]..seen.blocks[block + 1]);
        let least = points.into_iter().min_by(|a, b| (a.1 - slope * a.0).total_cmp(&(b.1 - slope * b.0)));
        let (t, d) = least.unwrap_or_default();
        (t, d - slope * t)
    };
    let points: Vec<Point> = (0..count).map(lowest).collect();
    let mut best = vec![(f64::MAX, 0); count + 1];
    best[0].0 = 0.0;
    let mut hull = vec![(0.0, 0.0); count + 1];
    for from in 0..count {
        if best[from].0 == f64::MAX {
            continue;
        }
        let (mut kept, mut time, mut sum) = (0, 0.0, 0.0);
        for to in from + 1..=count {
            let point = points[to - 1];
            kept = push(&mut hull, kept, point);
            time += point.0;
            sum += point.1;
            if to - from < SHORTEST {
                continue;
            }
            let n = (to - from) as f64;
            let (_, value) = line(&hull[..kept], time / n, (-MAX_SKEW - slope, MAX_SKEW - slope));
            let distance = (sum - n * value).max(0.0);
            let cost = best[from].0 + n * ((distance + RESOLUTION * n) / (n - 2.0)).ln() + seen.cut();
            if cost < best[to].0 {
                best[to] = (cost, from);
            }
        }
    }
    let mut borders = vec![seen.spans.len()];
    let mut at = count;
    while at > 0 {
        at = best[at].1;
        borders.push(seen.blocks[at]);
    }
    borders.reverse();
    borders
}

/// Returns the median of the slopes between the lowest points of blocks an eighth of the run apart. Jumps and queues
/// change it little.
fn median_slope(seen: &Seen<'_>) -> f64 {
    let lowest = |pair: &[usize]| {
        seen.points(pair[0]..pair[1]).into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
    };
    let points: Vec<Point> = seen.blocks.windows(2).map(lowest).collect();
    let apart = (points.len() / 8).max(1);
    let pairs = points.iter().zip(&points[apart..]).filter(|(a, b)| b.0 > a.0);
    let mut slopes: Vec<f64> = pairs.map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0).clamp(-MAX_SKEW, MAX_SKEW)
}

/// Joins neighbours as long as one envelope for both costs no more, and the two sides of a queue.
fn join(seen: &Seen<'_>, parts: &mut Vec<Part>) {
    loop {
        let mut best: Option<(f64, usize, usize, Part)> = None;
        for at in 0..parts.len().saturating_sub(1) {
            let (a, b) = (&parts[at], &parts[at + 1]);
            let queues = [a.queues.clone(), b.queues.clone()].concat();
            let joined = seen.part(a.spans.start..b.spans.end, queues);
            let gain = a.cost + b.cost + seen.cut() - joined.cost;
            if gain > 0.0 && best.as_ref().is_none_or(|best| gain > best.0) {
                best = Some((gain, at, 2, joined));
            }
            let Some(c) = parts.get(at + 2) else { continue };
            let queues = [a.queues.clone(), vec![b.spans.clone()], c.queues.clone()].concat();
            let joined = seen.part(a.spans.start..c.spans.end, queues);
            let above = seen.points(b.spans.clone()).iter().all(|&(t, d)| d >= joined.curve.at(t));
            let gain = a.cost + c.cost + seen.cut() - joined.cost;
            if above && gain > 0.0 && best.as_ref().is_none_or(|best| gain > best.0) {
                best = Some((gain, at, 3, joined));
            }
        }
        let Some((_, at, count, joined)) = best else { return };
        parts.splice(at..at + count, [joined]);
    }
}

/// Moves borders between parts to the spans of the jumps. A block may have points of both sides of a jump, so the
/// deciding curves leave out a block at each border.
fn refine(seen: &Seen<'_>, parts: &mut [Part]) {
    let block = seen.spans.len().div_ceil(seen.blocks.len() - 1);
    let trimmed: Vec<Curve> = parts
        .iter()
        .map(|part| {
            let inner = (part.spans.start + block)..part.spans.end.saturating_sub(block).max(part.spans.start + block);
            if inner.len() < 3 * block { part.curve } else { seen.part(inner, part.queues.clone()).curve }
        })
        .collect();
    for at in 1..parts.len() {
        let (left, right) = (&trimmed[at - 1], &trimmed[at]);
        let border = parts[at].spans.start;
        let reach = (parts[at - 1].spans.len() / 2).min(parts[at].spans.len() / 2).min(2 * block);
        // A point below its envelope is stronger evidence against it than one above, which may have met a queue.
        let misfit = |curve: &Curve, place: usize| {
            let points = seen.spans[place].1.hull.iter();
            let least = points.map(|&(t, d)| d - curve.at(t)).fold(f64::MAX, f64::min);
            if least < 0.0 { -8.0 * least } else { least }
        };
        let mut cost: f64 = (border - reach..border + reach).map(|place| misfit(right, place)).sum();
        let mut best = (cost, border - reach);
        for place in border - reach..border + reach {
            cost += misfit(left, place) - misfit(right, place);
            if cost < best.0 {
                best = (cost, place + 1);
            }
        }
        let spans = [parts[at - 1].spans.start..best.1, best.1..parts[at].spans.end];
        for (index, spans) in [at - 1, at].into_iter().zip(spans) {
            parts[index] = seen.part(spans, parts[index].queues.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Points in the time from 0 to 10, both ends included.
    fn points(random: &mut Random, count: usize, scale: f64) -> Vec<Point> {
        let mut point = |place: usize| {
            let time = if place < 2 { place as f64 } else { random.unit() };
            (10.0 * time, scale * random.unit())
        };
        let mut points: Vec<Point> = (0..count).map(&mut point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    #[test]
    fn the_straight_envelope_is_that_of_the_linear_program_with_the_limit_of_the_skew() {
        let mut random = Random::new(1, 0);
        for round in 0..2000 {
            let points = points(&mut random, 2 + round % 12, [1e-4, 5e-3, 1.0][round % 3]);
            let found = Curve::of_clocks(&points, 0.0, 10.0);
            // By brute force: the best of all lines through two points, and of the steepest through one.
            let pairs = points.iter().flat_map(|a| points.iter().map(move |b| (b.1 - a.1) / (b.0 - a.0)));
            let slopes = pairs.filter(|slope| slope.abs() < MAX_SKEW).chain([-MAX_SKEW, MAX_SKEW, 0.0]);
            let value = |slope: f64| points.iter().map(|p| p.1 + slope * (5.0 - p.0)).fold(f64::MAX, f64::min);
            let best = slopes.map(value).fold(f64::MIN, f64::max);
            assert!((found.at(5.0) - best).abs() < 1e-12, "{} for {best}: {points:?}", found.at(5.0));
            assert!(found.slope.abs() <= MAX_SKEW);
            assert!(points.iter().all(|&(t, d)| d >= found.at(t) - 1e-12), "{found:?}: {points:?}");
        }
    }

    #[test]
    fn the_bent_envelope_has_the_highest_mean_of_all_bends() {
        let mut random = Random::new(2, 0);
        for _ in 0..100 {
            let points = points(&mut random, 20, 1e-3);
            let found = Curve::below(&points, 0.0, 10.0, true);
            let mean = |bend: f64| Curve::with_bend(&points, 0.0, 10.0, bend).1;
            let best = mean(found.bend);
            for step in -200..=200 {
                let other = found.bend + f64::from(step) * 1e-7;
                assert!(mean(other) <= best + 1e-9, "{other} is better than {found:?}: {points:?}");
            }
        }
    }
}
