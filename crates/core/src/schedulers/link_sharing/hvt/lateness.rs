//! Terms that urgent packets add to the bounds: `docs/hvt.md`, "Latency-critical leaves".
//!
//! | docs/hvt.md | here | unit |
//! | --- | --- | --- |
//! | g_j of a contract, and g^_b, their sum at or below b | `Class::rate` | bit/s |
//! | sum of sigma_j at or below b | `Class::burst` | byte |
//! | sigma''_b | `Class::ahead` | [`PARTS`] of a byte of b |
//! | E_q | `Class::late` | the same, of q |
//! | K_b | `Class::lag` | the same, of b |
//!
//! Everything is rounded up, and shares down. What does not fit is not known: then no bound is printed.

use alloc::boxed::Box;

use super::scale::{Scale, parents};
use super::urgent;
use super::wheel::Groups;
use crate::contract::{ClassId, Hierarchy, OutOfMemory};
use crate::parts::memory::{bytes_of, filled};

/// Amounts are counted in this part of a byte.
pub(super) const PARTS: u128 = 1 << 24;
/// Shares of the link in this part, and other fractions.
const SHARES: u32 = 62;
const FRACTION: u128 = 1 << 40;
/// Larger amounts, and differences of tags, are not known.
const MOST: u128 = 1 << 80;
const MOST_UNITS: u128 = 1 << 60;
/// Attempts to widen the slots of a wheel.
const TRIALS: usize = 24;

#[derive(Clone, Copy, Debug)]
struct Class {
    share: u64,
    rate: u64,
    burst: u64,
    /// True if a leaf at or below it is not latency-critical.
    has_others: bool,
    ahead: u128,
    late: Option<u128>,
    lag: Option<u128>,
    /// Of an inner class: at least E in units of its clock, and the most that a tag is ahead of it.
    room: u64,
    reach: u64,
}

impl Class {
    const NONE: Self =
        Self { share: 0, rate: 0, burst: 0, has_others: false, ahead: 0, late: Some(0), lag: None, room: 0, reach: 0 };
}

/// The added terms of each class of a tree.
#[derive(Debug)]
pub(super) struct Lateness {
    /// By class; empty if no leaf is latency-critical.
    classes: Box<[Class]>,
    /// True if the contracts fit the shares as run.
    fits: bool,
}

/// Returns `amount` times a fraction, rounded up.
fn times(amount: u128, fraction: u128) -> Option<u128> {
    Some(amount.checked_mul(fraction)?.div_ceil(FRACTION)).filter(|&amount| amount <= MOST)
}

/// The children of one class.
struct Siblings<'a> {
    tree: &'a Hierarchy,
    class: ClassId,
    scale: Scale,
    groups: Groups,
    /// Bytes of the link for which an urgent packet waits at most.
    wait: u128,
}

impl Siblings<'_> {
    fn members(&self) -> impl Iterator<Item = (ClassId, u64)> {
        self.tree.children(self.class).iter().copied().zip(self.scale.inverse.iter().copied())
    }

    /// Returns D + h - L v of a child, and d, in units.
    fn distances(&self, inverse: u64) -> (u128, u128) {
        let largest = u64::from(self.tree.link().max_packet);
        let (width, of_group) = self.groups.of(inverse * largest);
        (u128::from((inverse - self.scale.rate) * largest) + u128::from(width), of_group.into())
    }

    /// Returns the contracts of a child, as a fraction of `share` of the link.
    fn part(&self, child: &Class, share: u64) -> u128 {
        let of_link = (u128::from(child.rate) << SHARES).div_ceil(self.tree.link().rate.bps().into());
        (of_link * FRACTION).div_ceil(u128::from(share).max(1))
    }

    /// Returns sigma'' of a child.
    fn ahead(&self, all: &[Class], child: ClassId) -> Option<u128> {
        let (own, child) = (&all[self.class.index()], &all[child.index()]);
        if child.rate == 0 {
            return Some(0);
        }
        let rate = u128::from(self.tree.link().rate.bps());
        let waits = u128::from(child.rate).checked_mul(self.wait)?.checked_mul(PARTS)?;
        let contracts = u128::from(child.burst) * PARTS + waits.div_ceil(rate);
        Some(contracts + times(own.lag?, self.part(child, own.share))?).filter(|&ahead| ahead <= MOST)
    }

    /// Returns E: (sum of sigma'' + r (D + h - L) of the children with contracts) / (1 - g^ / g).
    fn late(&self, all: &[Class]) -> Option<u128> {
        let own = &all[self.class.index()];
        let (mut sum, mut parts) = (0, 0);
        for (child, inverse) in self.members().filter(|(child, _)| all[child.index()].rate > 0) {
            let (ahead, _) = self.distances(inverse);
            let class = &all[child.index()];
            // No contract exceeds the share of its class.
            let part = self.part(class, class.share).min(FRACTION);
            sum += self.ahead(all, child)? + times((ahead * PARTS).div_ceil(inverse.into()), part)?;
            parts += self.part(class, own.share);
        }
        let rest = FRACTION.checked_sub(parts).filter(|&rest| rest > 0)?;
        Some(sum.checked_mul(FRACTION)?.div_ceil(rest)).filter(|&late| late <= MOST)
    }

    /// Returns E in units, rounded up.
    fn units(&self, late: u128) -> u128 {
        (late * u128::from(self.scale.rate)).div_ceil(PARTS)
    }

    /// Returns the most that a tag is ahead of the clock, in units, if E is `late`. `None` if tags may be too far apart.
    fn reach(&self, all: &[Class], late: u128) -> Option<u64> {
        let mut reach = 0;
        for (child, inverse) in self.members() {
            let (ahead, behind) = self.distances(inverse);
            let ahead = ahead + self.ahead(all, child)?.checked_mul(inverse.into())?.div_ceil(PARTS);
            if ahead + behind + self.units(late) > MOST_UNITS {
                return None;
            }
            reach = reach.max(ahead as u64);
        }
        Some(reach)
    }

    /// Widens the slots of a wheel until its ring has room for children that are late by E. Wider slots make them later. Returns
    /// E, also in the units that the ring has room for, and the most that a tag is ahead.
    fn widened(&mut self, all: &[Class]) -> Option<(u128, u64, u64)> {
        let mut room = 0;
        for _ in 0..TRIALS {
            let late = self.late(all)?;
            let reach = self.reach(all, late)?;
            let units = self.units(late) as u64;
            if units <= room {
                return Some((late, room, reach));
            }
            room = units + units / 16;
            self.groups = self.scale.groups(self.tree.link().max_packet.into(), room);
        }
        None
    }

    /// Returns K of a child.
    fn lag(&self, all: &[Class], child: ClassId, inverse: u64, late: u128) -> Option<u128> {
        let (ahead, behind) = self.distances(inverse);
        let own = ((ahead + behind) * PARTS).div_ceil(inverse.into());
        let phi = (u128::from(self.scale.rate) * FRACTION).div_ceil(inverse.into());
        Some(times(all[self.class.index()].lag? + late, phi)? + own + self.ahead(all, child)?)
    }
}

impl Lateness {
    /// Computes them for `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(super) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let any = urgent::leaves(tree).next().is_some();
        let mut lateness = Self { classes: filled(if any { tree.len() } else { 0 }, Class::NONE)?, fits: true };
        if any {
            lateness.take_contracts(tree)?;
            for class in parents(tree) {
                lateness.take_class(tree, class)?;
            }
        }
        Ok(lateness)
    }

    /// Bytes that it takes.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        bytes_of::<Class>(if urgent::leaves(tree).next().is_some() { tree.len() } else { 0 })
    }

    /// Computes the shares of all classes, and the contracts at or below them. Contracts of siblings have no more than the share of
    /// their parent, as all are rounded down.
    fn take_contracts(&mut self, tree: &Hierarchy) -> Result<(), OutOfMemory> {
        let classes = &mut self.classes;
        classes[ClassId::ROOT.index()].share = 1 << SHARES;
        for class in parents(tree) {
            let (scale, share) = (Scale::new(tree, class)?, classes[class.index()].share);
            for (child, inverse) in tree.children(class).iter().zip(&scale.inverse) {
                let share = u128::from(share) * u128::from(scale.rate) / u128::from(*inverse);
                classes[child.index()].share = share as u64;
            }
        }
        for &leaf in tree.leaves() {
            let class = &mut classes[leaf.index()];
            if urgent::is_critical(tree, leaf) {
                let rate = (u128::from(class.share) * u128::from(tree.link().rate.bps())) >> SHARES;
                self.fits &= rate > 0;
                (class.rate, class.burst) = (rate.max(1) as u64, urgent::burst(tree, leaf));
            } else {
                class.has_others = true;
            }
        }
        for class in tree.classes().rev() {
            let Class { rate, burst, has_others, .. } = classes[class.index()];
            let parent = &mut classes[tree.parent(class).unwrap_or(ClassId::ROOT).index()];
            parent.rate += rate;
            parent.burst = parent.burst.saturating_add(burst);
            parent.has_others |= has_others;
        }
        let waits = self.wait(tree) - u128::from(self.classes[ClassId::ROOT.index()].burst);
        self.classes[ClassId::ROOT.index()].lag = Some(waits * PARTS).filter(|_| self.fits);
        Ok(())
    }

    /// Bytes of the link for which an urgent packet waits at most, itself included: the bursts, a packet in transmission, and
    /// those in the transmit queue.
    fn wait(&self, tree: &Hierarchy) -> u128 {
        let link = tree.link();
        let packets = 1 + link.transmit_queue.map_or(0, |queue| u128::from(queue.packets));
        u128::from(self.classes[ClassId::ROOT.index()].burst) + packets * u128::from(link.max_packet)
    }

    /// Computes E of `class`, and sigma'' and K of its children. All of them stay unknown if `class` has no K, as below a
    /// ceiling, or no leaf that is not latency-critical.
    fn take_class(&mut self, tree: &Hierarchy, class: ClassId) -> Result<(), OutOfMemory> {
        let Class { rate, has_others, .. } = self.classes[class.index()];
        if rate == 0 {
            return Ok(());
        }
        let scale = Scale::new(tree, class)?;
        let groups = scale.groups(tree.link().max_packet.into(), 0);
        let mut siblings = Siblings { tree, class, scale, groups, wait: self.wait(tree) };
        let found = if has_others { siblings.widened(&self.classes) } else { None };
        self.classes[class.index()].late = found.map(|(late, ..)| late);
        let Some((late, room, reach)) = found else { return Ok(()) };
        (self.classes[class.index()].room, self.classes[class.index()].reach) = (room, reach);
        for (child, inverse) in siblings.members() {
            let ahead = siblings.ahead(&self.classes, child).unwrap_or(0);
            let lag = siblings.lag(&self.classes, child, inverse, late);
            let is_free = tree.config(child).ceiling.is_none();
            let child = &mut self.classes[child.index()];
            (child.ahead, child.lag) = (ahead, lag.filter(|_| is_free));
        }
        Ok(())
    }

    fn class(&self, class: ClassId) -> &Class {
        self.classes.get(class.index()).unwrap_or(&Class::NONE)
    }

    /// Returns the rate of the contract of a latency-critical leaf, in bit/s: its share as run, rounded down, at least 1.
    pub(super) fn contract(&self, leaf: ClassId) -> u64 {
        self.class(leaf).rate
    }

    /// Returns true if all contracts fit the shares as run.
    pub(super) fn fits(&self) -> bool {
        self.fits
    }

    /// Returns E of the inner class `class`, in [`PARTS`]; `None` if it is not known.
    pub(super) fn late(&self, class: ClassId) -> Option<u128> {
        self.class(class).late
    }

    /// Returns sigma'' of `class`, in [`PARTS`], if E of its parent is known.
    pub(super) fn ahead(&self, class: ClassId) -> u128 {
        self.class(class).ahead
    }

    /// Returns the units by which children of `class` may be later than their deadlines; 0 if E is not known.
    pub(super) fn room(&self, class: ClassId) -> u64 {
        self.class(class).room
    }

    /// Returns the most units by which a tag of a child of `class` is ahead of its clock; 0 if E is 0 or not known.
    pub(super) fn reach(&self, class: ClassId) -> u64 {
        self.class(class).reach
    }
}
