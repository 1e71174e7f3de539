//! Rates of classes, from samples of their counters about a second apart. There is no cost per packet.
//!
//! | here | meaning |
//! | --- | --- |
//! | rate | what was sent between two samples, averaged: each sample counts a quarter, those before the rest, as by the kernel's own estimators with `est 1sec 4sec` |
//! | demand | likewise, what was queued at the first of two samples and what arrived until the second, without packets that are too long for the link |
//! | borrowed | of each sample, what was sent beyond the class's guarantee for the time between the two, added up |
//!
//! An inner class has the sums of its leaves. The first sample of a class is its start.

use alloc::boxed::Box;
use alloc::vec::Vec;

use fairlink_core::{
    Amount, ClassId, DropReason, Hierarchy, Metered, Nanos, OutOfMemory, Rate, Scheduler, Share, pause,
};

/// Classes that are sampled in one call, which the C side makes with a lock held.
const AT_ONCE: usize = 256;

/// The reported rates of a class.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Number of samples; below 2 the following fields are unknown.
    pub samples: u64,
    /// Bytes sent in a second, averaged.
    pub bytes: u64,
    /// Packets sent in a second, averaged.
    pub packets: u64,
    /// Requested bytes per second, averaged.
    pub demand: u64,
    /// Bytes sent beyond the guarantee in all samples.
    pub borrowed: u64,
}

/// Between two samples.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    sent: Amount,
    demand: u64,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    guarantee: Rate,
    /// Time of the last sample.
    at: Nanos,
    /// For a leaf: its counters then.
    sent: Amount,
    arrived: u64,
    queued: u64,
    /// For an inner class: the sum of its children since the last sample.
    below: Span,
    told: Sampled,
}

/// Samples of all classes of a tree.
#[derive(Debug)]
pub(crate) struct Rates {
    classes: Box<[Class]>,
    /// Classes that are still to be sampled in this pass: those below this index.
    left: usize,
}

impl Rates {
    /// Makes the rates of the classes of a tree, including the link.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let mut all = Vec::new();
        all.try_reserve_exact(tree.len()).map_err(|_| OutOfMemory { bytes: Self::memory(tree.len()) })?;
        all.extend((0..tree.len()).map(|index| {
            pause(index);
            Class::new(guarantee(tree, ClassId(index as u32)))
        }));
        Ok(Self { classes: all.into_boxed_slice(), left: 0 })
    }

    /// Bytes that it takes.
    pub(crate) const fn memory(classes: usize) -> u64 {
        (classes * size_of::<Class>()) as u64
    }

    /// Samples the next few classes, children before parents. Returns true if there are more in this pass.
    pub(crate) fn sample<S: Scheduler>(&mut self, now: Nanos, tree: &Hierarchy, metered: &Metered<S>) -> bool {
        if self.left == 0 {
            self.left = self.classes.len();
        }
        let end = self.left;
        self.left = end.saturating_sub(AT_ONCE);
        for index in (self.left..end).rev() {
            let id = ClassId(index as u32);
            let Some(class) = self.classes.get_mut(index) else { continue };
            if tree.is_leaf(id) {
                class.measure(metered, id);
            }
            let span = class.below;
            class.end(now);
            if let Some(parent) = tree.parent(id).and_then(|parent| self.classes.get_mut(parent.index())) {
                parent.below.sent += span.sent;
                parent.below.demand = parent.below.demand.saturating_add(span.demand);
            }
        }
        self.left > 0
    }

    /// Returns the rates of a class.
    pub(crate) fn told(&self, class: ClassId) -> Sampled {
        self.classes.get(class.index()).map(|class| class.told).unwrap_or_default()
    }

    /// Takes over the rates `before` a change of the tree, by the new ids of the classes.
    pub(crate) fn inherit(&mut self, before: &Self, went: &[Option<ClassId>]) {
        for (old, went) in before.classes.iter().zip(went) {
            if let Some(new) = went.and_then(|class| self.classes.get_mut(class.index())) {
                *new = Class { guarantee: new.guarantee, ..*old };
            }
        }
    }
}

impl Class {
    fn new(guarantee: Rate) -> Self {
        Self {
            guarantee,
            at: Nanos::ZERO,
            sent: Amount::ZERO,
            arrived: 0,
            queued: 0,
            below: Span::default(),
            told: Sampled::default(),
        }
    }

    /// Measures a leaf's traffic since the last sample.
    fn measure<S: Scheduler>(&mut self, metered: &Metered<S>, id: ClassId) {
        let counters = metered.counters(id);
        let arrived = counters.received.bytes.saturating_sub(counters.dropped_for(DropReason::TooLong).bytes);
        if self.told.samples > 0 {
            self.below = Span {
                sent: counters.sent.checked_sub(self.sent).unwrap_or_default(),
                demand: self.queued.saturating_add(arrived.saturating_sub(self.arrived)),
            };
        }
        (self.sent, self.arrived, self.queued) = (counters.sent, arrived, metered.class_backlog(id).bytes);
    }

    /// Ends the time since the sample before.
    fn end(&mut self, now: Nanos) {
        let span = core::mem::take(&mut self.below);
        let time = now.saturating_sub(core::mem::replace(&mut self.at, now));
        self.told.samples += 1;
        // In microseconds a second of a link of 1 Tbit/s times 10^6 fits into 64 bits.
        let micros = time.0 / 1000;
        if self.told.samples < 2 || micros == 0 {
            return;
        }
        let in_a_second = |amount: u64| amount.saturating_mul(1_000_000) / micros;
        let first = self.told.samples == 2;
        let averaged = |old: u64, amount: u64| {
            let new = in_a_second(amount);
            if first { new } else { old - old / 4 + new / 4 }
        };
        self.told.bytes = averaged(self.told.bytes, span.sent.bytes);
        self.told.packets = averaged(self.told.packets, span.sent.packets);
        self.told.demand = averaged(self.told.demand, span.demand);
        let beyond = span.sent.bytes.saturating_sub(self.guarantee.bytes_in(time));
        self.told.borrowed = self.told.borrowed.saturating_add(beyond);
    }
}

/// Guaranteed rate of a class: from its configuration, or else its rate if all are backlogged.
pub(crate) fn guarantee(tree: &Hierarchy, class: ClassId) -> Rate {
    match tree.config(class).share {
        Some(Share::Guarantee(rate)) => rate,
        _ => Rate::from_bps(tree.rate_all_busy(class)).unwrap_or(Rate::MIN),
    }
}
