//! The counters of \[drrpp\] Section 5.1.2 for DRR+ and DRR++, plotted in Figures 5.4, 5.5, 5.8 and 5.9.
//!
//! | text | here | counted |
//! | --- | --- | --- |
//! | TotalRounds | `total_rounds` of the link | passes over all best-effort classes that have packets when the pass begins |
//! | LCService | `services` of a class | visits: how often the class got its quantum |
//! | LCBacklog | `backlogs` of a class | visits after which the class has a packet that its deficit does not cover |
//!
//! DIFFERENCE: the text defines a round as "a period in which there is at least one queue to be served when the scheduler scans all the
//! queues". DRR++ has no such scan: its own round (Definition 4) serves one best-effort class. The text's LCService is above its
//! TotalRounds in DRR++, "because DRR++ may serve the LC queue more than once per round". So a round is one in which all best-effort
//! classes are visited, as in DRR. Passes over latency-critical classes alone are not counted: the text finds that TotalRounds does not
//! change with Q_LC in DRR++. A class that DRR+ has demoted is a best-effort class.
//! DIFFERENCE: counted of every class, best-effort ones too.

use alloc::boxed::Box;
use core::ops::Range;

use super::drr::Tally;
use crate::contract::{ClassId, Hierarchy, OutOfMemory};
use crate::parts::memory::{bytes_of, filled};

/// Numbers of visits, and of visits that left packets.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    services: u64,
    backlogs: u64,
}

/// The counters of DRR+ or DRR++.
#[derive(Debug)]
pub(crate) struct Visits {
    /// Counts by class id.
    counts: Box<[Count]>,
    is_leaf: Box<[bool]>,
    rounds: u64,
    /// Visits that are left of the round.
    left: u64,
}

impl Visits {
    /// Counters for the classes of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let mut is_leaf = filled(tree.len(), false)?;
        tree.leaves().iter().for_each(|leaf| is_leaf[leaf.index()] = true);
        Ok(Self { counts: filled(tree.len(), Count::default())?, is_leaf, rounds: 0, left: 0 })
    }

    /// Bytes that those of `tree` take.
    pub(crate) fn memory(tree: &Hierarchy) -> u64 {
        bytes_of::<(Count, bool)>(tree.len())
    }

    /// Sets all counters to zero.
    pub(crate) fn reset(&mut self) {
        self.counts.fill(Count::default());
        (self.rounds, self.left) = (0, 0);
    }

    /// Returns the tally for the classes that make up rounds.
    pub(crate) fn of_rounds(&mut self) -> impl Tally {
        OfRounds(self)
    }

    /// Counts `times` visits of the classes of a round. A round that begins has `ring` of them.
    fn pass(&mut self, times: u64, ring: u32) {
        let ring = u64::from(ring.max(1));
        if times <= self.left {
            self.left -= times;
            return;
        }
        let beyond = times - self.left;
        let begun = beyond.div_ceil(ring);
        self.rounds += begun;
        // Below `ring`.
        self.left = (ring - beyond % ring) % ring;
    }

    /// Like [`Scheduler::for_each_counter`](crate::contract::Scheduler::for_each_counter).
    pub(crate) fn report(&self, classes: Range<usize>, visit: &mut dyn FnMut(ClassId, &'static str, u64)) {
        if classes.contains(&ClassId::ROOT.index()) {
            visit(ClassId::ROOT, "total_rounds", self.rounds);
        }
        let asked = self.counts.iter().enumerate().take(classes.end).skip(classes.start);
        for (index, Count { services, backlogs }) in asked.filter(|&(at, _)| self.is_leaf[at]) {
            visit(ClassId(index as u32), "services", *services);
            visit(ClassId(index as u32), "backlogs", *backlogs);
        }
    }
}

/// Visits that do not count in a round's length.
impl Tally for Visits {
    #[inline]
    fn begins(&mut self, flow: u32, times: u64, _: u32) {
        self.counts[flow as usize].services += times;
    }

    #[inline]
    fn exhausts(&mut self, flow: u32, times: u64) {
        self.counts[flow as usize].backlogs += times;
    }
}

/// Visits that rounds are made of.
struct OfRounds<'a>(&'a mut Visits);

impl Tally for OfRounds<'_> {
    #[inline]
    fn begins(&mut self, flow: u32, times: u64, ring: u32) {
        self.0.begins(flow, times, ring);
        self.0.pass(times, ring);
    }

    #[inline]
    fn exhausts(&mut self, flow: u32, times: u64) {
        self.0.exhausts(flow, times);
    }
}
