//! Measurements in each window of time: bytes sent, delays, the length of the queue, drops, leaf by leaf. Memory is
//! bounded by leaves times windows, for any traffic.

use fairlink_core::Nanos;

use crate::measure::Spans;

/// Measurements of a leaf in one window. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    delay_sum: u64,
    pub(crate) delay_max: u64,
    /// Packets times nanoseconds.
    queue_sum: u64,
    /// The longest queue that lasted: a packet that is refused at once, or sent at once, does not count.
    pub(crate) queue_max: u32,
    /// Packets whose last bit left in the window.
    pub(crate) left: u32,
    pub(crate) dropped: u32,
}

/// The queue of a leaf, and since when it is that long.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    packets: u32,
    since: Nanos,
}

/// Windows of a run, and their measurements. Functions called for each packet are not inlined: most runs have no
/// windows, and should not pay for them.
#[derive(Debug)]
pub(crate) struct Series {
    /// Bytes by window.
    pub(crate) spans: Spans,
    cuts: Vec<Nanos>,
    /// One row of leaves for each window.
    cells: Vec<Cell>,
    queues: Vec<Queue>,
    /// The window that was accessed last.
    current: usize,
}

impl Series {
    /// Windows between `cuts`, which are in order, distinct and at least two.
    pub(crate) fn new(cuts: Vec<Nanos>, leaves: usize) -> Self {
        Self {
            cells: vec![Cell::default(); (cuts.len() - 1) * leaves],
            queues: vec![Queue::default(); leaves],
            spans: Spans::new(cuts.clone(), leaves),
            cuts,
            current: 0,
        }
    }

    /// Returns the memory of the series, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let own = self.cells.len() * size_of::<Cell>()
            + self.cuts.len() * size_of::<Nanos>()
            + self.queues.len() * size_of::<Queue>();
        self.spans.memory() + own as u64
    }

    /// Records a queued packet.
    #[inline(never)]
    pub(crate) fn arrived(&mut self, now: Nanos, leaf: usize) {
        let packets = self.queues[leaf].packets.saturating_add(1);
        self.becomes(now, leaf, packets);
    }

    /// Records a packet dropped from the queue.
    #[inline(never)]
    pub(crate) fn dropped(&mut self, now: Nanos, leaf: usize) {
        let packets = self.queues[leaf].packets.saturating_sub(1);
        self.becomes(now, leaf, packets);
        if let Some(cell) = self.cell(now, leaf) {
            cell.dropped = cell.dropped.saturating_add(1);
        }
    }

    /// Records a packet of `len` bytes that arrived at `arrived`. It left its queue at `now` and is on the link from
    /// `start` to `done`.
    #[inline(never)]
    pub(crate) fn sent(&mut self, now: Nanos, leaf: usize, arrived: Nanos, start: Nanos, done: Nanos, len: u32) {
        let packets = self.queues[leaf].packets.saturating_sub(1);
        self.becomes(now, leaf, packets);
        self.spans.add(leaf, start, done, len);
        let delay = done.saturating_sub(arrived).0;
        if let Some(cell) = self.cell(done, leaf) {
            cell.delay_sum = cell.delay_sum.saturating_add(delay);
            cell.delay_max = cell.delay_max.max(delay);
            cell.left = cell.left.saturating_add(1);
        }
    }

    /// Returns the windows: start, end, bytes by leaf, cells by leaf.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Nanos, Nanos, &[u64], Vec<Cell>)> {
        let leaves = self.queues.len();
        self.spans.rows().enumerate().map(move |(window, (start, end, bytes))| {
            let mut cells = self.cells[window * leaves..(window + 1) * leaves].to_vec();
            for (cell, queue) in cells.iter_mut().zip(&self.queues) {
                // Packets that are still queued count as if they left at the end.
                cell.queued(*queue, start, end, Nanos::MAX);
            }
            (start, end, bytes, cells)
        })
    }

    /// Sets the length of the queue of `leaf` from now on.
    fn becomes(&mut self, now: Nanos, leaf: usize, packets: u32) {
        let before = self.queues[leaf];
        let last = self.find(now);
        if before.packets > 0 && now > before.since {
            // Back to the time at which the queue got that length. Each window of each leaf is visited once for this
            // and once per packet.
            let mut window = last.min(self.cuts.len() - 2);
            loop {
                let (start, end) = (self.cuts[window], self.cuts[window + 1]);
                self.cells[window * self.queues.len() + leaf].queued(before, start, end, now);
                if start <= before.since || window == 0 {
                    break;
                }
                window -= 1;
            }
        }
        self.queues[leaf] = Queue { packets, since: now.max(before.since) };
    }

    /// Returns the window of an instant; beyond the last if it is later than all.
    fn find(&mut self, at: Nanos) -> usize {
        while self.current + 1 < self.cuts.len() && self.cuts[self.current + 1] <= at {
            self.current += 1;
        }
        while self.current > 0 && self.cuts[self.current] > at {
            self.current -= 1;
        }
        self.current
    }

    fn cell(&mut self, at: Nanos, leaf: usize) -> Option<&mut Cell> {
        let window = self.find(at);
        if window + 1 < self.cuts.len() { self.cells.get_mut(window * self.queues.len() + leaf) } else { None }
    }
}

impl Cell {
    /// Accounts for the length of `queue` in the part of `start .. end` between `queue.since` and `until`.
    fn queued(&mut self, queue: Queue, start: Nanos, end: Nanos, until: Nanos) {
        let (from, until) = (start.max(queue.since), end.min(until));
        if queue.packets > 0 && until > from {
            let sum = u64::from(queue.packets).saturating_mul((until - from).0);
            self.queue_sum = self.queue_sum.saturating_add(sum);
            self.queue_max = self.queue_max.max(queue.packets);
        }
    }

    /// Mean delay in nanoseconds of the packets that left; `None` if none did.
    pub(crate) fn delay_mean(&self) -> Option<f64> {
        (self.left > 0).then(|| self.delay_sum as f64 / f64::from(self.left))
    }

    /// Returns the mean length of the queue over a window of this length.
    pub(crate) fn queue_mean(&self, window: Nanos) -> f64 {
        self.queue_sum as f64 / window.0.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_queue_that_lasts_over_windows_counts_in_each() {
        let mut series = Series::new([0, 10, 20, 30].map(Nanos).to_vec(), 1);
        series.arrived(Nanos(5), 0);
        series.arrived(Nanos(5), 0);
        series.dropped(Nanos(12), 0);
        series.sent(Nanos(24), 0, Nanos(5), Nanos(24), Nanos(26), 100);
        series.arrived(Nanos(28), 0);
        let cells: Vec<Cell> = series.rows().map(|(.., cells)| cells[0]).collect();
        let means: Vec<f64> = cells.iter().map(|cell| cell.queue_mean(Nanos(10))).collect();
        assert_eq!(means, [1.0, 1.2, 0.6]);
        assert_eq!(cells.iter().map(|cell| cell.queue_max).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(cells.iter().map(|cell| cell.dropped).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!((cells[2].left, cells[2].delay_mean(), cells[2].delay_max), (1, Some(21.0), 21));
        assert_eq!(cells[0].delay_mean(), None);
    }

    proptest! {
        #[test]
        fn the_area_below_the_queue_is_the_time_that_packets_spent_in_it(
            cuts in proptest::collection::btree_set(1u64..500, 1..20),
            events in proptest::collection::vec((0u64..40, 0usize..3, any::<bool>()), 0..80),
        ) {
            let end = cuts.last().unwrap() + 4_000;
            let mut cuts: Vec<Nanos> = cuts.into_iter().map(Nanos).collect();
            cuts.insert(0, Nanos(0));
            cuts.push(Nanos(end));
            let mut series = Series::new(cuts, 3);
            let (mut now, mut queues, mut area) = (0, [const { Vec::new() }; 3], [0u64; 3]);
            let mut most = [0usize; 3];
            for (gap, leaf, arrives) in events {
                now += gap;
                if gap > 0 {
                    (0..3).for_each(|leaf| most[leaf] = most[leaf].max(queues[leaf].len()));
                }
                if arrives {
                    series.arrived(Nanos(now), leaf);
                    queues[leaf].push(now);
                } else if !queues[leaf].is_empty() {
                    let arrived: u64 = queues[leaf].remove(0);
                    area[leaf] += now - arrived;
                    series.sent(Nanos(now), leaf, Nanos(arrived), Nanos(now), Nanos(now + 3), 1);
                }
            }
            for (leaf, queue) in queues.iter().enumerate() {
                area[leaf] += queue.iter().map(|arrived| end - arrived).sum::<u64>();
                let cells: Vec<Cell> = series.rows().map(|(.., cells)| cells[leaf]).collect();
                prop_assert_eq!(cells.iter().map(|cell| cell.queue_sum).sum::<u64>(), area[leaf]);
                most[leaf] = most[leaf].max(queue.len());
                let highest = cells.iter().map(|cell| cell.queue_max).max().unwrap_or(0);
                prop_assert_eq!(highest as usize, most[leaf]);
            }
        }
    }
}
