//! Deadline misses of service curves: \[hfsc\] Sections 2.1 and 2.2 (SCED), measured online.
//!
//! A class with the curve S is guaranteed that at any time t there is a start a of one of its backlogged periods with
//! w(t) >= w(a) + S(t - a), where w is its service. So a packet with which w reaches W is due when D(t) = min over a of
//! w(a) + S(t - a) reaches W.
//!
//! A period starts when a packet comes to an empty queue, and packets count as served when they have left the queue, as
//! in the schedulers. Exact, in bits times 10^9 and whole nanoseconds; deadlines are rounded up.
//!
//! **Memory.** For a concave curve, D is the smaller of two lines. For a convex one it may consist of many starts; the
//! latest 256 are kept, and [`DeadlineMeter::is_exact`] is false if more were needed.

use std::collections::VecDeque;

use fairlink_core::{ClassId, Hierarchy, NANOS_PER_SEC, Nanos, Rate, ServiceCurve};

const MOST_STARTS: usize = 256;

/// A line through a point: nanoseconds, and bits times 10^9.
#[derive(Clone, Copy, Debug)]
struct Line {
    x: u64,
    y: i128,
    bps: u64,
}

impl Line {
    fn at(&self, x: u64) -> i128 {
        self.y + i128::from(self.bps) * (i128::from(x) - i128::from(self.x))
    }

    /// Time at which it reaches `y`, rounded up; `None` for never.
    fn reaches(&self, y: i128) -> Option<i128> {
        if y <= self.y && self.bps == 0 {
            return Some(i128::MIN);
        }
        let bps = (self.bps > 0).then_some(i128::from(self.bps))?;
        let up = y - self.y;
        Some(i128::from(self.x) + up.div_euclid(bps) + i128::from(up.rem_euclid(bps) > 0))
    }

    /// Returns the lower of two parallel lines.
    fn lower(self, other: Self) -> Self {
        if other.at(self.x) < self.y { other } else { self }
    }
}

#[derive(Clone, Debug)]
struct Leaf {
    curve: ServiceCurve,
    concave: bool,
    /// The two pieces of the curve from each start that may matter; one pair for a concave curve.
    starts: VecDeque<(Line, Line)>,
    /// Service so far, in bits times 10^9.
    served: i128,
    queued: u64,
    /// A start without any service since.
    since: Option<Nanos>,
    worst: Nanos,
    seen: bool,
}

/// Measures the worst deadline miss of each leaf with a curve.
#[derive(Clone, Debug)]
pub struct DeadlineMeter {
    /// Leaves by class.
    leaves: Vec<Option<Leaf>>,
    exact: bool,
}

impl DeadlineMeter {
    /// Makes a meter of an empty link. With `lines`, leaves without a curve have the line of their share.
    #[must_use]
    pub fn new(tree: &Hierarchy, lines: bool) -> Self {
        let mut leaves: Vec<Option<Leaf>> = (0..tree.len()).map(|_| None).collect();
        for &leaf in tree.leaves() {
            let line = || {
                let rate = Rate::from_bps(tree.rate_all_busy(leaf)).ok();
                lines.then_some(ServiceCurve { m1: rate, d: Nanos::ZERO, m2: rate })
            };
            leaves[leaf.index()] = tree.config(leaf).real_time.or_else(line).map(Leaf::new);
        }
        Self { leaves, exact: true }
    }

    /// Records the arrival of a packet at the queue of a leaf.
    ///
    /// # Panics
    /// If there is no such class, as in the other methods.
    pub fn arrived(&mut self, now: Nanos, leaf: ClassId) {
        let Some(leaf) = &mut self.leaves[leaf.index()] else { return };
        if leaf.queued == 0 {
            leaf.since = Some(now);
        }
        leaf.queued += 1;
    }

    /// Records a packet dropped from its queue.
    pub fn dropped(&mut self, leaf: ClassId) {
        let Some(leaf) = &mut self.leaves[leaf.index()] else { return };
        leaf.queued = leaf.queued.saturating_sub(1);
        if leaf.queued == 0 {
            // A period without service does not count.
            leaf.since = None;
        }
    }

    /// Records that a packet of `len` bytes has left its queue. Its last bit leaves at `done`.
    pub fn sent(&mut self, done: Nanos, leaf: ClassId, len: u32) {
        let Some(leaf) = &mut self.leaves[leaf.index()] else { return };
        if let Some(since) = leaf.since.take() {
            self.exact &= leaf.start(since);
        }
        leaf.queued = leaf.queued.saturating_sub(1);
        leaf.served += i128::from(len) * 8 * i128::from(NANOS_PER_SEC);
        leaf.seen = true;
        if let Some(due) = leaf.due() {
            let late = (i128::from(done.0) - due).clamp(0, i128::from(u64::MAX));
            leaf.worst = leaf.worst.max(Nanos(late as u64));
        }
    }

    /// Returns the largest miss of a leaf so far; `None` if it has no curve, or if nothing was sent.
    #[must_use]
    pub fn worst(&self, leaf: ClassId) -> Option<Nanos> {
        self.leaves[leaf.index()].as_ref().filter(|leaf| leaf.seen).map(|leaf| leaf.worst)
    }

    /// Returns true if all relevant starts were kept. Otherwise a reported miss may be false.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.exact
    }
}

impl Leaf {
    fn new(curve: ServiceCurve) -> Self {
        let concave = curve.m1 >= curve.m2;
        let (starts, worst) = (VecDeque::new(), Nanos::ZERO);
        Self { curve, concave, starts, served: 0, queued: 0, since: None, worst, seen: false }
    }

    /// Starts a period; returns true if all relevant starts are kept.
    fn start(&mut self, at: Nanos) -> bool {
        let rate = |rate: Option<Rate>| rate.map_or(0, Rate::bps);
        let first = Line { x: at.0, y: self.served, bps: rate(self.curve.m1) };
        let knee = at.0.saturating_add(self.curve.d.0);
        let second = Line { x: knee, y: first.at(knee), bps: rate(self.curve.m2) };
        if self.concave {
            let lower = match self.starts.pop_front() {
                Some((one, other)) => (first.lower(one), second.lower(other)),
                None => (first, second),
            };
            self.starts.push_back(lower);
            return true;
        }
        let height = |(one, other): &(Line, Line)| one.at(at.0).max(other.at(at.0));
        if self.starts.iter().all(|start| self.served <= height(start)) {
            // It rises less steeply than all others from here on, and stays below them.
            self.starts.clear();
        } else if self.starts.iter().any(|(_, other)| other.at(knee) <= second.y) {
            // One that is lower now and in the end is lower between: the distance to it only falls.
            let above = |start: &(Line, Line)| start.1.at(knee) <= second.y && height(start) <= self.served;
            if self.starts.iter().any(above) {
                return true;
            }
        }
        self.starts.push_back((first, second));
        if self.starts.len() > MOST_STARTS {
            self.starts.pop_front();
            return false;
        }
        true
    }

    /// Time at which D reaches the service; `None` for never.
    fn due(&self) -> Option<i128> {
        let due = |(one, other): &(Line, Line)| {
            let (one, other) = (one.reaches(self.served), other.reaches(self.served));
            match self.concave {
                true => Some(one?.max(other?)),
                false => [one, other].into_iter().flatten().min(),
            }
        };
        self.starts.iter().map(due).try_fold(i128::MIN, |latest, due| Some(latest.max(due?)))
    }
}

#[cfg(test)]
mod tests;
