//! Traffic of the wrong leaves: what the link sent of them in a window beyond the fluid ideal.

use fairlink_core::{ClassId, Hierarchy, NANOS_PER_SEC, Nanos};
use fairlink_theory::fluid::HmmMeter;
use schemars::JsonSchema;
use serde::Serialize;

/// Lengths of the windows: 1, 10 and 100 ms.
const WINDOWS: [Nanos; 3] = [Nanos::from_millis(1), Nanos::from_millis(10), Nanos::from_millis(100)];

/// Measures what leaves got beyond hierarchical max-min sharing of the same arrivals.
pub(crate) struct MisplacedMeter {
    hmm: HmmMeter,
    leaves: Vec<ClassId>,
    /// End of the warmup.
    from: Nanos,
    /// Time of the next sample.
    next: Nanos,
    /// More bits than the link sends in the whole run.
    endless: f64,
    /// Bits sent since `from`.
    sent: f64,
    /// By leaf: bits ahead of the ideal, the least and the most since `from`.
    range: Vec<(f64, f64)>,
    windows: [Window; WINDOWS.len()],
}

/// Windows of one length.
struct Window {
    /// At the start of the current one: bits ahead of the ideal by leaf, and bits sent.
    start: Vec<f64>,
    sent: f64,
    count: u64,
    /// Sums over all: bits beyond the ideal, and bits sent.
    beyond: f64,
    all: f64,
    worst: f64,
}

/// Traffic of the wrong leaves: bytes of leaves beyond the fluid max-min ideal of the same arrivals, as a part of what the
/// link sent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Misplaced {
    /// In windows of 1, 10 and 100 ms, as far as the run has complete ones.
    pub windows: Vec<MisplacedIn>,
    /// The leaf that was farthest from the ideal in a window of any length.
    pub class: String,
    /// Its distance there, in bytes.
    pub farthest_bytes: f64,
}

/// The same in windows of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MisplacedIn {
    /// The length in seconds.
    pub window_s: f64,
    /// Mean over all windows, as a part of the traffic.
    pub mean: f64,
    /// The part in the worst window.
    pub worst: f64,
}

impl MisplacedMeter {
    /// Makes a meter of an empty link for a run of `duration`; `None` for a tree with more classes than the ideal is
    /// computed for.
    pub(crate) fn new(tree: &Hierarchy, warmup: Nanos, duration: Nanos) -> Option<Self> {
        let leaves = tree.leaves().to_vec();
        let window = || Window { start: Vec::new(), sent: 0.0, count: 0, beyond: 0.0, all: 0.0, worst: 0.0 };
        let seconds = duration.0 as f64 / NANOS_PER_SEC as f64;
        Some(Self {
            hmm: HmmMeter::new(tree)?,
            range: vec![(0.0, 0.0); leaves.len()],
            leaves,
            from: warmup,
            next: warmup,
            endless: 2.0 * seconds * tree.link().rate.bps() as f64 + 1e9,
            sent: 0.0,
            windows: std::array::from_fn(|_| window()),
        })
    }

    /// Records a packet handed to the scheduler.
    pub(crate) fn arrived(&mut self, now: Nanos, leaf: ClassId, len: u32) {
        self.sample(now);
        self.hmm.arrived(now, leaf, len);
    }

    /// Records a dropped packet.
    pub(crate) fn dropped(&mut self, now: Nanos, leaf: ClassId, len: u32) {
        self.sample(now);
        self.hmm.dropped(now, leaf, len);
    }

    /// Records the first bit of a packet that leaves.
    pub(crate) fn sent(&mut self, start: Nanos, leaf: ClassId, len: u32) {
        self.sample(start);
        self.hmm.advance_to(start);
        self.look(leaf);
        self.hmm.sent(start, leaf, len);
        self.look(leaf);
        if start >= self.from {
            self.sent += 8.0 * f64::from(len);
        }
    }

    /// Records that a source begins, or ends, to keep its class busy.
    pub(crate) fn greedy(&mut self, now: Nanos, leaf: ClassId, active: bool) {
        self.sample(now);
        if active {
            self.hmm.begin_endless(now, leaf, self.endless);
        } else {
            self.hmm.end_endless(now, leaf);
        }
    }

    /// A leaf's distance from the ideal is largest just before or after a packet of it.
    fn look(&mut self, leaf: ClassId) {
        if let Ok(place) = self.leaves.binary_search(&leaf) {
            let (ahead, (least, most)) = (self.hmm.ahead(leaf), &mut self.range[place]);
            (*least, *most) = (least.min(ahead), most.max(ahead));
        }
    }

    /// Takes all samples that are due by `now`.
    fn sample(&mut self, now: Nanos) {
        while self.next <= now {
            let at = self.next;
            self.next = at.saturating_add(WINDOWS[0]);
            self.hmm.advance_to(at);
            let ahead: Vec<f64> = self.leaves.iter().map(|&leaf| self.hmm.ahead(leaf)).collect();
            if at == self.from {
                self.range = ahead.iter().map(|&ahead| (ahead, ahead)).collect();
            }
            for (window, length) in self.windows.iter_mut().zip(WINDOWS) {
                if (at - self.from).0.is_multiple_of(length.0) {
                    window.cut(&ahead, self.sent);
                }
            }
        }
    }

    /// Returns the measurements until `end`. The classes have these names.
    pub(crate) fn report(&self, names: &[String]) -> Misplaced {
        let part = |(window, length): (&Window, Nanos)| MisplacedIn {
            window_s: length.0 as f64 / NANOS_PER_SEC as f64,
            mean: window.beyond / window.all.max(1.0),
            worst: window.worst,
        };
        let complete = self.windows.iter().zip(WINDOWS).filter(|(window, _)| window.count > 1);
        let far = |&(least, most): &(f64, f64)| most - least;
        let farthest = (0..self.leaves.len()).max_by(|&a, &b| far(&self.range[a]).total_cmp(&far(&self.range[b])));
        Misplaced {
            windows: complete.map(part).collect(),
            class: farthest.map_or_else(String::new, |place| names[self.leaves[place].index()].clone()),
            farthest_bytes: farthest.map_or(0.0, |place| far(&self.range[place]) / 8.0),
        }
    }
}

impl Window {
    /// Ends the current window and begins another.
    fn cut(&mut self, ahead: &[f64], sent: f64) {
        if self.count > 0 {
            let beyond: f64 = ahead.iter().zip(&self.start).map(|(now, start)| (now - start).max(0.0)).sum();
            let all = sent - self.sent;
            if all > 0.0 {
                self.beyond += beyond;
                self.all += all;
                self.worst = self.worst.max(beyond / all);
            }
        }
        self.count += 1;
        self.start = ahead.to_vec();
        self.sent = sent;
    }
}
