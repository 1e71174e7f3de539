//! The hubs of classes: at the beginning, by their shares, and later by their packets.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::Ordering;

use super::Plan;
use crate::contract::{ClassId, Hierarchy, OutOfMemory};
use crate::parts::memory::{filled, room};

/// The part of the busiest hub's packets by which a move must lower the most packets of both hubs.
const GAIN: u64 = 8;
/// Fewest packets of the busiest hub since the last look: fewer say little.
const FEWEST: u64 = 1024;

/// The reason for which a class cannot be moved now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    /// Another move has not ended.
    Busy,
    /// The class is not directly below the link.
    NotBelowLink {
        /// The class.
        class: ClassId,
    },
    /// There is no such hub.
    NoHub {
        /// The hub.
        hub: usize,
        /// Number of hubs.
        hubs: usize,
    },
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => write!(f, "another class moves; try again when it has moved"),
            Self::NotBelowLink { class } => {
                write!(f, "class {} is not directly below the link; only such classes move", class.0)
            }
            Self::NoHub { hub, hubs } => write!(f, "there is no hub {hub}; the link has {hubs}, the first is 0"),
        }
    }
}

impl core::error::Error for MoveError {}

/// Returns the hub of each class directly below the link, in their order, by shares: the largest chooses first, the hub
/// with the least. Equal ones are taken in their order.
///
/// # Errors
/// [`OutOfMemory`].
pub fn homes(tree: &Hierarchy, hubs: usize) -> Result<Box<[u32]>, OutOfMemory> {
    let tops = tree.children(ClassId::ROOT);
    let mut order = room(tops.len())?;
    order.extend(0..tops.len());
    let weight = |top: usize| tree.weight(tops[top]);
    order.sort_unstable_by_key(|&top| (core::cmp::Reverse(weight(top)), top));
    let (mut home, mut sums) = (filled(tops.len(), 0u32)?, filled(hubs, 0u128)?);
    for top in order {
        let hub = (0..hubs).min_by_key(|&hub| sums[hub]).unwrap_or(0);
        home[top] = hub as u32;
        sums[hub] += u128::from(weight(top));
    }
    Ok(home)
}

/// Proposes a move: a class, as its place in `packets`, and its new hub. `packets` are those of each class in the same
/// time, `home` is the hub of each class. `sums` has an entry for each hub and is overwritten.
///
/// From the busiest hub to the least busy one moves the class after which the busier of both has the fewest packets, if
/// that is at least an eighth less than before. Equal ones are taken in their order. So there are no moves forth and
/// back: each move with the same packets lowers the sum of the squares of `sums`.
#[must_use]
pub fn propose(packets: &[u64], home: &[u32], sums: &mut [u64]) -> Option<(usize, usize)> {
    sums.fill(0);
    for (&packets, &hub) in packets.iter().zip(home) {
        sums[hub as usize] = sums[hub as usize].saturating_add(packets);
    }
    let from = (0..sums.len()).max_by_key(|&hub| (sums[hub], core::cmp::Reverse(hub)))?;
    let to = (0..sums.len()).min_by_key(|&hub| (sums[hub], hub))?;
    let (most, least) = (sums[from], sums[to]);
    if most < FEWEST {
        return None;
    }
    let after = |packets: u64| (most - packets).max(least.saturating_add(packets));
    let own = (0..packets.len()).filter(|&class| home[class] as usize == from && packets[class] > 0);
    let class = own.min_by_key(|&class| (after(packets[class]), class))?;
    (after(packets[class]) <= most - most / GAIN).then_some((class, to))
}

/// Moves classes between hubs.
#[derive(Debug)]
pub struct Balancer {
    plan: Arc<Plan>,
    /// By number of a class directly below the link: its hub, or the one to which it moves.
    home: Box<[u32]>,
    /// Moves announced.
    announced: u64,
    /// By number: packets up to the last look, and since then.
    before: Box<[u64]>,
    packets: Box<[u64]>,
    sums: Box<[u64]>,
}

impl Balancer {
    pub(super) fn new(plan: &Arc<Plan>, home: Box<[u32]>) -> Result<Self, OutOfMemory> {
        let zeros = |len| filled(len, 0u64);
        let (before, packets, sums) = (zeros(home.len())?, zeros(home.len())?, zeros(plan.taken.len())?);
        Ok(Self { plan: Arc::clone(plan), home, announced: 0, before, packets, sums })
    }

    /// Returns the hub of a class, or the one to which it moves; `None` of the link.
    #[must_use]
    pub fn home(&self, class: ClassId) -> Option<usize> {
        self.plan.top(class).map(|top| self.home[top as usize] as usize)
    }

    /// Returns true while a class moves.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        // `Acquire`: all parts have read what the last move was.
        self.plan.moves.done.load(Ordering::Acquire) != self.announced
    }

    /// Returns the number of moves so far, with the one that runs.
    #[must_use]
    pub const fn moves(&self) -> u64 {
        self.announced
    }

    /// Begins to move `class`, which is directly below the link, to `hub`. A move to where it is does nothing.
    ///
    /// # Errors
    /// [`MoveError`]; nothing changes then.
    pub fn start(&mut self, class: ClassId, hub: usize) -> Result<(), MoveError> {
        let top = self.plan.top(class).filter(|&top| self.plan.tops[top as usize] == class);
        let Some(top) = top else { return Err(MoveError::NotBelowLink { class }) };
        if hub >= self.sums.len() {
            return Err(MoveError::NoHub { hub, hubs: self.sums.len() });
        }
        if self.is_moving() {
            return Err(MoveError::Busy);
        }
        if self.home[top as usize] as usize == hub {
            return Ok(());
        }
        self.home[top as usize] = hub as u32;
        self.announced += 1;
        let moves = &self.plan.moves;
        moves.top.store(top, Ordering::Relaxed);
        moves.to.store(hub as u32, Ordering::Relaxed);
        // `Release`: who sees the number sees the rest.
        moves.announced.store(self.announced, Ordering::Release);
        Ok(())
    }

    /// Looks at the packets since the last look, and begins the move that [`propose`] returns. Returns the class and
    /// its new hub. While a class moves, it does nothing. It should be called at times at which the load may have
    /// changed, such as each 10 ms.
    pub fn balance(&mut self) -> Option<(ClassId, usize)> {
        if self.is_moving() {
            return None;
        }
        for (top, (before, packets)) in self.before.iter_mut().zip(&mut self.packets).enumerate() {
            let all = self.plan.taken.iter().map(|taken| taken[top].load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
            (*packets, *before) = (all.wrapping_sub(*before), all);
        }
        let (top, hub) = propose(&self.packets, &self.home, &mut self.sums)?;
        let class = self.plan.tops[top];
        self.start(class, hub).ok().map(|()| (class, hub))
    }
}
