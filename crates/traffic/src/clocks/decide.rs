//! The evidence that an envelope is one of clocks and not one of a queue, and the numbers that follow from it.
//!
//! # Evidence
//! A queue shows the clocks only while it is empty. Whatever it does, it leaves the shortest delay and returns to it
//! again and again. Delays that never met an empty queue have a lower envelope, too. But it touches them in a few
//! places only, at every scale: a random walk above its own hull is near it at the corners and nowhere else. So
//! [`returns`] counts, at the scale that gives the most, how often the delays leave the envelope and come back. A part
//! with [`RETURNS`] of them, and an envelope that clocks can have, is a stretch; the others are undecided. Where the
//! delays do not come back at an end of a part for longer than between, that end is undecided, because a clock may have
//! been set there.
//!
//! The time from one return to the next is a cycle. Cycles are independent of each other, whatever the memory of the
//! queue is, so the uncertainty comes from envelopes of groups of cycles.

use std::ops::Range;

use super::fit::{Curve, Part, RESOLUTION, Seen};
use super::hull::Point;
use super::{Because, Change, Clocks, Known, MAX_DRIFT, MAX_SKEW, RETURNS, Stretch, Undecided};

/// Envelopes that are compared for the uncertainty, and Student's t for 95 % with one degree of freedom less.
const GROUPS: [(usize, f64); 2] = [(8, 2.365), (4, 3.182)];
/// Longest mean cycle, in spans, of independent ones: 5 for exponential distances.
const SHORT: usize = 8;
/// Cycles of a group, at least.
const CYCLES: usize = 2;
/// Maximum rounding error of whole nanoseconds, in seconds.
const STAMP: f64 = 2e-9;
/// The probability that a queue comes back to an envelope by chance as often as counts for the time of a jump.
const UNLIKELY: f64 = 0.01;
/// A jump is more than this many times its uncertainty, and so is what contradicts a stretch.
const SURE: f64 = 2.0;
/// A part ends with its last return if none follows for this many times the mean between two.
const ABSENT: f64 = 4.0;
/// Maximum number of times that a part is made shorter.
const TRIMS: usize = 8;

/// The places at which delays come back to an envelope.
#[derive(Clone, Debug, Default)]
struct Returns {
    /// At most this distance from the envelope counts as being back, in seconds.
    level: f64,
    places: Vec<usize>,
}

impl Returns {
    /// Returns true if the spans of a part come back as often as independent ones do. Each is as good as a cycle then.
    fn are_independent(&self, part: &Part) -> bool {
        part.spans.len() <= SHORT * self.places.len()
    }
}

/// Returns the places at which the distances come back to at most some level from more than twice of it, for the level
/// with the most. A distance that the stamps do not resolve counts each time: no queue repeats a delay so exactly.
fn returns(distances: &[f64]) -> Returns {
    let most = distances.iter().copied().fold(0.0, f64::max);
    let mut best = Returns::default();
    let mut level = RESOLUTION;
    loop {
        let (mut away, mut places) = (true, Vec::new());
        for (place, &distance) in distances.iter().enumerate() {
            if distance <= level {
                if away || distance <= RESOLUTION {
                    places.push(place);
                }
                away = false;
            } else if distance > 2.0 * level {
                away = true;
            }
        }
        if places.len() > best.places.len() {
            best = Returns { level, places };
        }
        level *= 1.5;
        if level >= most {
            return best;
        }
    }
}

/// A part whose envelope is one of clocks.
#[derive(Clone, Debug)]
struct Proven {
    part: Part,
    returns: Returns,
    stretch: Stretch,
}

/// Spans, and the clocks there or the reason why they are undecided.
type Tile = (Range<usize>, Option<Proven>);

/// Distance of the shortest delay of each span of a part from its envelope.
fn distances(seen: &Seen<'_>, spans: &Range<usize>, curve: &Curve) -> Vec<f64> {
    let least = |place: usize| {
        let points = seen.spans[place].1.hull.iter();
        points.map(|&(t, d)| d - curve.at(t)).fold(f64::MAX, f64::min).max(0.0)
    };
    spans.clone().map(least).collect()
}

/// Returns the part of `spans` from the first return to the last, where the clocks beyond may be others: it is longer
/// without a return at an end of the run than between two, or it ends where something else begins.
fn trimmed(seen: &Seen<'_>, part: &Part, returns: &Returns) -> Range<usize> {
    let spans = &part.spans;
    let at = |place: usize| seen.start_of(spans.start + place);
    let (Some(&first), Some(&last)) = (returns.places.first(), returns.places.last()) else { return spans.clone() };
    let between = returns.places.windows(2).map(|pair| at(pair[1]) - at(pair[0]));
    let longest = between.fold(0.0, f64::max);
    let mean = (at(last) - at(first)) / (returns.places.len() - 1).max(1) as f64;
    let limit = |is_end: bool| match (returns.are_independent(part), is_end) {
        (true, _) => longest.max(ABSENT * mean),
        (false, true) => longest.min(ABSENT * mean),
        (false, false) => 0.0,
    };
    let is_late = at(first) - at(0) > limit(spans.start == 0);
    let is_early = at(spans.len()) - at(last + 1) > limit(spans.end == seen.spans.len());
    let begin = if is_late { spans.start + first } else { spans.start };
    let end = if is_early { spans.start + last + 1 } else { spans.end };
    begin..end
}

/// Returns the clocks of a part, shorter where it does not end with returns; or the reason why they are undecided. Its
/// envelope has a drift if that is more than its uncertainty, or if no straight one proves as much.
fn prove(seen: &Seen<'_>, part: Part) -> Result<Proven, Because> {
    let drifts = |proven: &Proven| proven.stretch.drift.value.abs() > proven.stretch.drift.within;
    let is_bent = part.curve.bend != 0.0;
    let bent = if is_bent { prove_as(seen, part.clone(), true) } else { Err(Because::TooFast) };
    if bent.as_ref().is_ok_and(drifts) {
        return bent;
    }
    match (prove_as(seen, part.clone(), false), bent) {
        (Ok(straight), Ok(bent)) => Ok(if straight.part.spans.len() < bent.part.spans.len() { bent } else { straight }),
        (Err(because), Err(_)) if !is_bent => prove_as(seen, part, true).ok().filter(drifts).ok_or(because),
        (straight, bent) => bent.or(straight),
    }
}

/// Proves a part by a straight envelope, or by one with a drift.
fn prove_as(seen: &Seen<'_>, mut part: Part, is_bent: bool) -> Result<Proven, Because> {
    let mut trims = 0;
    loop {
        let all = points(seen, &part, |_| true);
        part.curve = if is_bent {
            Curve::below(&all, part.start, part.end, true)
        } else {
            Curve::of_clocks(&all, part.start, part.end)
        };
        if !part.can_be_clocks() {
            return Err(Because::TooFast);
        }
        let found = returns(&distances(seen, &part.spans, &part.curve));
        if found.places.len() < RETURNS {
            return Err(Because::FewReturns { returns: found.places.len() });
        }
        let spans = trimmed(seen, &part, &found);
        if spans != part.spans && trims < TRIMS {
            part = seen.part(spans, Vec::new());
            trims += 1;
            continue;
        }
        let stretch = stretch(seen, &part, &found);
        if stretch.skew.within > MAX_SKEW {
            return Err(Because::Vague);
        }
        return Ok(Proven { part, returns: found, stretch });
    }
}

/// Points of a part, of the places for which `wanted`. Those of queues are above its envelope.
fn points(seen: &Seen<'_>, part: &Part, wanted: impl Fn(usize) -> bool) -> Vec<Point> {
    let places = part.spans.clone().filter(|&place| wanted(place));
    places.flat_map(|place| seen.spans[place].1.hull.iter().copied()).collect()
}

/// Returns value, slope and drift of a part's envelope at start, middle and end, with their uncertainty.
fn stretch(seen: &Seen<'_>, part: &Part, returns: &Returns) -> Stretch {
    let numbers = |curve: &Curve| {
        let middle = (part.start + part.end) / 2.0;
        [curve.at(part.start), curve.at(part.end), curve.slope_at(middle), 2.0 * curve.bend]
    };
    let are_independent = returns.are_independent(part);
    let cycle = |place: usize| match are_independent {
        true => place,
        false => returns.places.partition_point(|&back| part.spans.start + back <= place),
    };
    let is_enough = |(groups, _): &&(usize, f64)| are_independent || returns.places.len() >= CYCLES * groups;
    let &(number, student) = GROUPS.iter().find(is_enough).unwrap_or(&GROUPS[1]);
    let group = |group: usize| points(seen, part, |place| cycle(place) % number == group);
    let groups: Vec<Vec<Point>> = (0..number).map(group).filter(|points| points.len() >= 3).collect();
    let known = |bent: bool, whole: &Curve| {
        let whole = numbers(whole);
        let of_groups: Vec<[f64; 4]> =
            groups.iter().map(|points| numbers(&Curve::below(points, part.start, part.end, bent))).collect();
        // A stamp is a whole number of nanoseconds, and two of them make a difference.
        let length = (part.end - part.start).max(STAMP);
        let least = [STAMP, STAMP, 2.0 * STAMP / length, 8.0 * STAMP / (length * length)];
        [0, 1, 2, 3].map(|index| {
            let n = of_groups.len() as f64;
            if of_groups.len() < number {
                return Known { value: whole[index], within: f64::INFINITY };
            }
            let mean = of_groups.iter().map(|group| group[index]).sum::<f64>() / n;
            let square = of_groups.iter().map(|group| (group[index] - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let bias = (mean - whole[index]).abs() / (n - 1.0);
            Known { value: whole[index], within: student * (square / n).sqrt() + bias + least[index] }
        })
    };
    let bent = part.curve.bend != 0.0;
    let [offset_s, end_offset_s, skew, mut drift] = known(bent, &part.curve);
    if !bent {
        // No drift is detected; it may be as large as that of the best parabola.
        let unseen = known(true, &Curve::below(&points(seen, part, |_| true), part.start, part.end, true))[3];
        drift.within = unseen.value.abs() + unseen.within;
    }
    drift.within = drift.within.min(MAX_DRIFT + drift.value.abs());
    Stretch {
        start_s: part.start,
        end_s: part.end,
        packets: seen.spans[part.spans.clone()].iter().map(|(_, span)| span.packets).sum(),
        offset_s,
        end_offset_s,
        skew,
        drift,
    }
}

/// Splits a part into the tile that is proven and those that are not.
fn tiles(spans: Range<usize>, proven: Option<Proven>) -> Vec<Tile> {
    let Some(proven) = proven else { return vec![(spans, None)] };
    let inner = proven.part.spans.clone();
    let sides = [(spans.start..inner.start, None), (inner.clone(), Some(proven)), (inner.end..spans.end, None)];
    sides.into_iter().filter(|(spans, _)| !spans.is_empty()).collect()
}

/// Returns the clocks of neighbouring tiles as one part. `None` if they are not proven, prove no more than one of the
/// tiles does, or contradict one.
fn joined(seen: &Seen<'_>, of: &[Tile]) -> Option<Proven> {
    let spans = of.first()?.0.start..of.last()?.0.end;
    let known = || of.iter().filter_map(|(_, proven)| proven.as_ref());
    if known().next().is_none() {
        // This takes less time than the rest, and there may be many.
        let (start, end) = (seen.start_of(spans.start), seen.start_of(spans.end));
        let straight = Curve::of_clocks(&seen.points(spans.clone()), start, end);
        if returns(&distances(seen, &spans, &straight)).places.len() < RETURNS {
            return None;
        }
    }
    let found = prove(seen, seen.part(spans, Vec::new())).ok()?;
    let within = &found.part.spans;
    let agrees = |proven: &Proven| {
        let stretch = &proven.stretch;
        let ends = [(stretch.start_s, stretch.offset_s), (stretch.end_s, stretch.end_offset_s)];
        let is_inside = within.start <= proven.part.spans.start && proven.part.spans.end <= within.end;
        is_inside
            && proven.part.spans != *within
            && ends.iter().all(|(at, known)| (found.part.curve.at(*at) - known.value).abs() <= SURE * known.within)
    };
    known().all(agrees).then_some(found)
}

/// Decides what of the parts are clocks.
pub(super) fn decide(seen: &Seen<'_>, parts: Vec<Part>) -> Clocks {
    let decided = |part: Part| tiles(part.spans.clone(), prove(seen, part).ok());
    let mut all: Vec<Tile> = parts.into_iter().flat_map(decided).collect();
    loop {
        let mut best: Option<(Range<usize>, Proven)> = None;
        for first in 0..all.len() {
            for end in first + 2..=all.len() {
                let Some(found) = joined(seen, &all[first..end]) else { continue };
                if best.as_ref().is_none_or(|(_, best)| found.returns.places.len() > best.returns.places.len()) {
                    best = Some((first..end, found));
                }
            }
        }
        let Some((place, found)) = best else { break };
        let spans = all[place.start].0.start..all[place.end - 1].0.end;
        all.splice(place, tiles(spans, Some(found)));
    }
    for at in 1..all.len() {
        clean(seen, &mut all, at);
    }
    report(seen, &all)
}

/// Takes cycles beside the border of two tiles away from each, as long as that moves an envelope by more than its
/// uncertainty: packets from before a jump may be among those after it. Between independent spans the border is exact.
fn clean(seen: &Seen<'_>, all: &mut [Tile], at: usize) {
    let (left, right) = all.split_at_mut(at);
    let (Some((_, Some(left))), Some((_, Some(right)))) = (left.last_mut(), right.first_mut()) else { return };
    for _ in 0..TRIMS {
        let (part, places) = (&right.part, &right.returns.places);
        if right.returns.are_independent(part) {
            break;
        }
        let shorter = seen.part(part.spans.start + places[1]..part.spans.end, Vec::new());
        let Ok(found) = prove(seen, shorter) else { break };
        let moved = found.stretch.offset_s.value - right.part.curve.at(found.stretch.start_s);
        if found.part.spans.end != right.part.spans.end || moved.abs() <= found.stretch.offset_s.within {
            break;
        }
        *right = found;
    }
    for _ in 0..TRIMS {
        let (part, places) = (&left.part, &left.returns.places);
        if left.returns.are_independent(part) {
            break;
        }
        let shorter = seen.part(part.spans.start..part.spans.start + places[places.len() - 1], Vec::new());
        let Ok(found) = prove(seen, shorter) else { break };
        let moved = found.stretch.end_offset_s.value - left.part.curve.at(found.stretch.end_s);
        if found.part.spans.start != left.part.spans.start || moved.abs() <= found.stretch.end_offset_s.within {
            break;
        }
        *left = found;
    }
}

fn report(seen: &Seen<'_>, all: &[Tile]) -> Clocks {
    let (mut clocks, mut before) = (Clocks::default(), None);
    for tiles in all.chunk_by(|a, b| a.1.is_none() && b.1.is_none()) {
        let spans = tiles[0].0.start..tiles[tiles.len() - 1].0.end;
        let proven = tiles[0].1.as_ref();
        let curve = match proven {
            Some(proven) => {
                if let Some(before) = before.replace(proven) {
                    let change = change(seen, before, proven);
                    // What is between two stretches is the time in which it happened.
                    if change.is_jump {
                        clocks.undecided.pop_if(|part| part.start_s >= before.part.end);
                    }
                    clocks.changes.push(change);
                }
                clocks.stretches.push(proven.stretch);
                proven.part.curve
            }
            None => {
                let part = seen.part(spans.clone(), Vec::new());
                let (start_s, end_s, curve) = (part.start, part.end, part.curve);
                let because = prove(seen, part).err().unwrap_or(Because::FewReturns { returns: 0 });
                clocks.undecided.push(Undecided { start_s, end_s, because });
                curve
            }
        };
        for place in spans {
            let hull = seen.spans[place].1.hull.iter();
            let distance = |point: &&Point| point.1 - curve.at(point.0);
            let Some(&least) = hull.min_by(|a, b| distance(a).total_cmp(&distance(b))) else { continue };
            clocks.points.push(least);
            clocks.roughness_s += distance(&&least).max(0.0);
        }
    }
    clocks.roughness_s /= clocks.points.len().max(1) as f64;
    clocks
}

/// Returns the change between two stretches.
fn change(seen: &Seen<'_>, left: &Proven, right: &Proven) -> Change {
    let (before, after) = (&left.stretch, &right.stretch);
    let middle = (before.end_s + after.start_s) / 2.0;
    let beyond = (after.start_s - before.end_s) / 2.0;
    let at = |stretch: &Stretch, known: Known| {
        // Without a jump, the drift may have been any other in between.
        let drift = (stretch.drift.value.abs() + stretch.drift.within).min(MAX_DRIFT);
        let within = known.within + stretch.skew.within * beyond + drift * beyond * beyond;
        Known { value: stretch.offset_at(middle), within }
    };
    let (a, b) = (at(before, before.end_offset_s), at(after, after.offset_s));
    let jump = Known { value: b.value - a.value, within: a.within + b.within };
    // Between the last packet of one side and the first of the other.
    let (last, first) = (left.part.spans.end, right.part.spans.start);
    let mut from = seen.spans[last - 1].1.hull.first().map_or(before.end_s, |point| point.0);
    let mut to = seen.spans[first].1.hull.last().map_or(after.start_s, |point| point.0);
    // A delay is never below the shortest. So a packet below the later envelope was sent before a jump forwards, and
    // one below the earlier envelope after a jump back. On the other side a return is evidence: a queue as long as the
    // jump is not likely.
    let points = |places: Range<usize>| places.flat_map(|place| seen.spans[place].1.hull.iter());
    let (early, late) = (left.part.spans.start..first, last..right.part.spans.end);
    let mut early = points(early).rev();
    let mut late = points(late);
    let below = |point: &&Point, proven: &Proven, within: f64| point.1 < proven.part.curve.at(point.0) - within;
    // The part of a queue's delays that are as near to an envelope by chance is this or less.
    let chance = (2.0 * left.returns.level.max(right.returns.level) / jump.value.abs()).min(0.9);
    let needed = UNLIKELY.ln() / chance.ln();
    let needed = if needed <= 1.0 { 0 } else { needed.ceil() as usize };
    let back = |proven: &Proven, place: usize| seen.start_of(proven.part.spans.start + place);
    let (earliest, latest) = if jump.value > 0.0 {
        let nth =
            right.returns.places.get(needed.saturating_sub(1)).map_or(after.end_s, |&place| back(right, place + 1));
        (early.find(|point| below(point, right, b.within)).map(|point| point.0), (needed > 0).then_some(nth))
    } else {
        let nth = left
            .returns
            .places
            .iter()
            .rev()
            .nth(needed.saturating_sub(1))
            .map_or(before.start_s, |&place| back(left, place));
        ((needed > 0).then_some(nth), late.find(|point| below(point, left, a.within)).map(|point| point.0))
    };
    from = earliest.map_or(from, |at| from.min(at));
    to = latest.map_or(to, |at| to.max(at));
    Change {
        at_s: Known { value: middle, within: (middle - from).max(to - middle) },
        jump_s: jump,
        is_jump: jump.value.abs() > SURE * jump.within,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clocks::hull::keep_hull;
    use crate::random::Random;

    #[test]
    fn a_return_comes_from_more_than_twice_the_level_down_to_it() {
        let of = |distances: &[f64]| {
            let distances: Vec<f64> = distances.iter().map(|distance| distance * 1e-6).collect();
            returns(&distances).places
        };
        // Of 1, 2 and 1 again the second is not away at any level that has both.
        assert_eq!(of(&[1.0, 9.0, 1.0, 9.0, 1.0]), [0, 2, 4]);
        assert_eq!(of(&[1.0, 1.5, 1.0, 1.5, 1.0]), [0]);
        assert_eq!(of(&[9.0, 9.0, 1.0]), [2]);
        // Below the resolution each counts.
        assert_eq!(of(&[0.0, 0.001, 0.0, 0.002]), [0, 1, 2, 3]);
        assert_eq!(of(&[]), [0usize; 0]);
    }

    /// Distances of a random walk from its own lower hull, by the line below it that is highest in the middle.
    fn walk(random: &mut Random, steps: usize) -> Vec<f64> {
        let mut at = 0.0;
        let points: Vec<Point> = (0..steps)
            .map(|step| {
                at += random.normal();
                (step as f64, at)
            })
            .collect();
        let mut hull = points.clone();
        keep_hull(&mut hull);
        let behind = hull.partition_point(|point| point.0 <= steps as f64 / 2.0).clamp(1, hull.len() - 1);
        let (a, b) = (hull[behind - 1], hull[behind]);
        points.iter().map(|point| point.1 - a.1 - (b.1 - a.1) / (b.0 - a.0) * (point.0 - a.0)).collect()
    }

    #[test]
    fn delays_that_never_met_an_empty_queue_touch_their_envelope_in_few_places() {
        let mut random = Random::new(3, 0);
        for steps in [100, 1000] {
            let many = (0..200).filter(|_| returns(&walk(&mut random, steps)).places.len() >= RETURNS).count();
            assert!(many <= 10, "{many} of 200 walks of {steps} steps");
        }
        // Those that did come back as often as an eighth of them.
        for spans in [100, 1000] {
            for _ in 0..200 {
                let distances: Vec<f64> = (0..spans).map(|_| 1e-5 * random.exponential()).collect();
                let count = returns(&distances).places.len();
                assert!(count >= RETURNS && spans <= SHORT * count, "{count} of {spans}");
            }
        }
    }
}
