//! Ceilings: maximum rates of classes under HLS, which its paper names as future work.
//!
//! Each class with a ceiling has a token bucket that is charged for every packet sent below it. A class is *blocked*
//! while its bucket is in debt. This is decided once per *cycle*, which is a main round and the surplus rounds after
//! it. So a class sends all that a cycle gives it, or nothing.
//!
//! A leaf that is visited while a class above it is blocked is *parked*: it leaves the active set as if it had gone
//! idle, and others get its share of further rounds at once. It returns at the first round that starts after the bucket
//! is out of debt. A class with parked leaves stays blocked until then. So all leaves below it miss the same rounds,
//! and they share by their weights also while the ceiling blocks them.
//!
//! The following must not be lost meanwhile, or shares would drift by a little each time:
//!
//! * A leaf returns with the balance that it had. Without that, a leaf whose quota is just below its packet would never send.
//! * An inner class of which all backlogged leaves are parked also returns with its balance and residual, up to less
//!   than its children's weight. This is the amount that it may keep between cycles. The rest goes to its siblings as
//!   before.
//! * The classes above the topmost blocked one take their quota before a leaf is parked, as another leaf below them may
//!   wait for the next round. The blocked class and those below it take none.
//!
//! The root keeps these balances meanwhile. They never exceed the part of parked leaves and classes in Q*. So the bytes
//! sent between two distributions of the root are still at most Q*, the weights and packets of parked classes included.
//!
//! Bound: W(s, t] <= ceiling (t - s) + depth + A for every interval. A is the maximum that a class sends in one cycle:
//! A-bar of Lemma 7 in \[hls\], plus the advances of its latency-critical leaves.
//!
//! **Pools.** A class with a ceiling may be a member of a [pool](crate::runtime::pool) that several links share. It is
//! then blocked also while its own rate does not cover another packet and the pool lends nothing. This is decided once
//! per cycle, with another bucket that fills at its guarantee. So members of a pool may each be ahead by A.
//!
//! Cost: a walk over the ceilings above a leaf per visit that sends, and per inner class and round, and O(log n) in the number of ceilings each time
//! one blocks and frees its leaves. Leaves without a ceiling above them pay for one test of a bit.

use alloc::boxed::Box;

use super::{Advances, CREDITS_PER_BYTE, NIL, RunWeights};
use crate::contract::{BuildError, ClassId, Hierarchy, Lender, LinkConfig, Members, Nanos, OutOfMemory, Rate, Share};
use crate::parts::{
    bucket::Bucket,
    heap::Heap,
    memory::{Stack, bytes_of, filled},
    prefetch::prefetch,
};

#[cfg(test)]
mod tests;

/// The last decision on a ceiling: its cycle, and true if it is blocked in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict(u64);

impl Verdict {
    /// Undecided.
    const NONE: Self = Self(u64::MAX - 1);
    /// It is blocked until the leaves that wait for it return.
    const PARKED: Self = Self(u64::MAX);

    #[inline(always)]
    const fn new(cycle: u64, blocked: bool) -> Self {
        Self(cycle << 1 | blocked as u64)
    }

    /// Returns true if it is a decision on `cycle`.
    #[inline(always)]
    const fn is_of(self, cycle: u64) -> bool {
        self.0 >> 1 == cycle || self.0 == Self::PARKED.0
    }

    #[inline(always)]
    const fn is_blocked(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A ceiling, on one cache line: all that a visit needs of it.
#[derive(Debug)]
#[repr(align(64))]
struct Limiter {
    bucket: Bucket,
    verdict: Verdict,
    /// The next ceiling on the way to the root.
    above: u32,
    /// Its index in `Ceilings::pooled`; `NIL` if its class borrows from no pool.
    pooled: u32,
}

const _: () = assert!(size_of::<Limiter>() == 64);

impl Limiter {
    /// Returns true if its bucket lets packets through in `cycle`: decided once. That it does need not be noted before something is taken.
    #[inline(always)]
    fn is_open(&mut self, cycle: u64, now: Nanos) -> bool {
        if self.verdict.is_of(cycle) {
            return !self.verdict.is_blocked();
        }
        let open = self.bucket.is_ready_by(now);
        if !open {
            self.verdict = Verdict::new(cycle, true);
        }
        open
    }

    /// Removes `bytes` from its bucket, in a `cycle` in which it is open.
    #[inline(always)]
    fn take(&mut self, bytes: u64, cycle: u64, now: Nanos) {
        self.bucket.refill(now);
        self.bucket.take(bytes);
        self.verdict = Verdict::new(cycle, false);
    }
}

/// The class of a ceiling, and the classes that wait for it.
#[derive(Debug)]
struct Waiting {
    /// The parent of the class.
    parent: u32,
    first: u32,
    last: u32,
}

/// The additional state of a member of a pool.
#[derive(Debug)]
struct Pooled {
    lender: Box<dyn Lender>,
    /// Its own rate, within which it sends without asking.
    own: Bucket,
    /// Time at which its own rate or the pool may let it send.
    ready_at: Nanos,
}

impl Pooled {
    /// Returns true if it may send, with `ready_at` brought up to date.
    fn is_ready(&mut self, now: Nanos) -> bool {
        self.own.refill(now);
        if self.own.is_ready() {
            return true;
        }
        match self.lender.may_borrow(now) {
            Ok(()) => true,
            Err(again) => {
                self.ready_at = again.min(self.own.ready_at());
                false
            }
        }
    }
}

/// The state of a class that is blocked by a ceiling.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The balance to return with.
    balance: i64,
    /// Maximum balance of a returning inner class: one credit less than its children's weight.
    most: i64,
    /// For a leaf: the leaf that was parked after it at the same ceiling.
    next: u32,
    /// For an inner class: children that are parked, or have a parked leaf below them.
    parked_children: u32,
}

/// The ceilings that block a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocked {
    /// The nearest one, which the leaf waits for. Farther ones come after it: while it waits for them, no packet is taken from the
    /// nearer ones.
    nearest: u32,
    /// The parent of the topmost one.
    pub(super) above: u32,
}

/// All ceilings of a tree, and the leaves that they hold back.
#[derive(Debug)]
pub(super) struct Ceilings {
    limiters: Stack<Limiter>,
    /// Waiting leaves by ceiling.
    waiting: Stack<Waiting>,
    pooled: Stack<Pooled>,
    /// By class: the nearest ceiling at it or above it.
    nearest: Box<[u32]>,
    /// Parked leaves by class.
    held: Box<[Held]>,
    /// Ceilings that leaves wait for, by when they are out of debt; equal times by their numbers.
    waits: Heap,
}

/// Classes with a ceiling.
fn ceilings(tree: &Hierarchy) -> usize {
    tree.classes().filter(|&class| tree.config(class).ceiling.is_some()).count()
}

/// The smallest depths of buckets that cost no class its ceiling.
///
/// A bucket loses tokens only while it is full: when the yield of its ceiling c exceeds its depth since it was last
/// empty. So it must hold the yield of the ceiling in the longest time that a class with its ceiling as its share takes
/// to send again.
///
/// # Names
///
/// | here | meaning |
/// | --- | --- |
/// | C, L | rate of the link, its largest packet |
/// | Q, E | longest round (Theorem 2); sum of the advances of all latency-critical leaves |
/// | A-tilde_a | weights of the classes below class a and largest packets of the leaves at or below it (Lemma 6) |
/// | A-bar_a | the bound of Lemma 7 |
/// | D_a | the most that leaves of class a send in a cycle: min(A-bar_a, Q), and the advances below a |
///
/// # The longest wait
///
/// *A visit.* A backlogged leaf that no ceiling blocks is visited within a turn of (2 Q + E) / C: Theorem 5, plus the
/// packets sent ahead between two visits. The ceiling yields c (2 Q + E) / C.
///
/// *Other ceilings.* A leaf that returns from one ceiling may find the next one above it, of class a, blocked, and
/// waits for that one, too: until its debt, at most D_a, is paid at its ceiling c_a, and for a turn more. If c is more
/// than c_a, class a is the limit, and c is not reached for that reason; the reached rate is at most c_a. So the useful
/// yield of a ceiling in that time is c (2 Q + E) / C + D_a c / max(c_a, c).
///
/// *Quotas.* A visit sends nothing without a quota. Each class x above or at this one, of which the parent is not the
/// root, waits until its parent has a credit for each credit of the weights of its active children. The parent gets it
/// at a rate of which the part of x is c or more, or x would have less than c for its share. The ceiling yields at most
/// w_x in that time. In the same way the classes below wait for quotas and the leaves for their largest packets, at
/// most A-tilde of this class, while they get c or more together.
///
/// > depth = A-tilde + sum over x of w_x + c (2 Q + E) / C + sum over a of (c (2 Q + E) / C + D_a c / max(c_a, c)).
///
/// Such a bucket does not limit a class with a share below its ceiling either: its traffic in any time exceeds its
/// share by at most the first three terms. Test: `every_ceiling_is_reached_without_an_explicit_burst` in
/// `fairlink-theory` runs random trees.
#[derive(Debug)]
pub struct CeilingDepths {
    link: LinkConfig,
    /// 2 Q + E in bytes.
    turn: u128,
    /// Terms of the depth by class, in bytes.
    terms: Box<[DepthTerms]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct DepthTerms {
    /// A-tilde, and the weights of classes whose parent is not the root, from this one up.
    quotas: u64,
    /// D_a.
    most: u64,
    /// Advances of the latency-critical leaves at or below it.
    ahead: u64,
}

impl CeilingDepths {
    /// Makes the ceilings of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn for_tree(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let weights = RunWeights::for_tree(tree)?;
        Self::new(tree, &weights, &Advances::for_tree(tree, &weights)?)
    }

    fn new(tree: &Hierarchy, weights: &RunWeights, advances: &Advances) -> Result<Self, OutOfMemory> {
        let link = tree.link();
        let largest = u64::from(link.max_packet);
        let weight = |class: ClassId| weights.credits(class).div_ceil(CREDITS_PER_BYTE);
        let mut terms = filled(tree.len(), DepthTerms::default())?;
        for class in tree.classes().rev() {
            let above = tree.parent(class).unwrap_or(ClassId::ROOT).index();
            let own = &mut terms[class.index()];
            own.quotas += if tree.is_leaf(class) { largest } else { 0 };
            own.ahead += advances.bytes(class);
            let DepthTerms { quotas, ahead, .. } = *own;
            terms[above].quotas += quotas + weight(class);
            terms[above].ahead += ahead;
        }
        // Rounds are below 2^38 bytes, weights below 2^62 credits.
        let round = terms[ClassId::ROOT.index()].quotas;
        // The largest (w_j + A-tilde_j) / w_j.
        let (mut bytes, mut credits) = (0u128, 1u128);
        for &top in tree.children(ClassId::ROOT) {
            let (more, of) =
                (u128::from(weight(top) + terms[top.index()].quotas), u128::from(weights.credits(top).max(1)));
            if more * credits > bytes * of {
                (bytes, credits) = (more, of);
            }
        }
        for class in tree.classes() {
            let above = tree.parent(class).unwrap_or(ClassId::ROOT);
            let own = terms[class.index()];
            let most = if above == ClassId::ROOT {
                let shared = (u128::from(weights.credits(class)) * bytes).div_ceil(credits);
                let bar = u128::from(own.quotas) + shared;
                bar.min(round.into()) as u64
            } else {
                terms[above.index()].most - terms[above.index()].ahead
            };
            terms[class.index()].most = most + own.ahead;
        }
        // The weights above come last: children of the root have none.
        let mut path = filled(tree.len(), 0u64)?;
        for class in tree.classes() {
            let above = tree.parent(class).unwrap_or(ClassId::ROOT);
            if above != ClassId::ROOT {
                path[class.index()] = path[above.index()] + weight(class);
            }
            terms[class.index()].quotas += path[class.index()];
        }
        Ok(Self { link, turn: 2 * u128::from(round) + u128::from(advances.total()), terms })
    }

    /// Returns D_a of `class`: the largest debt of its bucket, in bytes.
    #[must_use]
    pub fn debt(&self, class: ClassId) -> u64 {
        self.terms[class.index()].most
    }

    /// Returns the depth in bytes for the maximum rate `ceiling` of `class`.
    #[must_use]
    pub fn bytes(&self, tree: &Hierarchy, class: ClassId, ceiling: Rate) -> u64 {
        let own = u128::from(ceiling.bps());
        // Rates are at most 10^12 bit/s, and the bytes of a turn are below 2^41.
        let turn = (self.turn * own).div_ceil(self.link.rate.bps().into());
        let (mut depth, mut at) = (u128::from(self.terms[class.index()].quotas) + turn, class);
        while let Some(parent) = tree.parent(at) {
            if let Some(above) = tree.config(parent).ceiling {
                let debt = u128::from(self.terms[parent.index()].most);
                depth += turn + (debt * own).div_ceil(u128::from(above.bps()).max(own));
            }
            at = parent;
        }
        u64::try_from(depth).unwrap_or(u64::MAX / 2).min(u64::MAX / 2)
    }
}

impl Ceilings {
    /// Makes the ceilings of `tree`. The classes `members` borrow from their lenders.
    ///
    /// # Errors
    /// [`BuildError::OutOfMemory`]; [`BuildError::Parameter`] for a member that is not a child of the root, is named twice, or has no ceiling.
    pub(super) fn new(tree: &Hierarchy, weights: &RunWeights, members: Members) -> Result<Self, BuildError> {
        let count = ceilings(tree);
        let classes = if count > 0 || !members.is_empty() { tree.len() } else { 0 };
        let (mut limiters, mut waiting) = (Stack::with_room(count)?, Stack::with_room(count)?);
        let none = Held { balance: 0, most: -1, next: NIL, parked_children: 0 };
        let (mut nearest, mut held) = (filled(classes, NIL)?, filled(classes, none)?);
        let waits = Heap::new(count)?;
        let mut pooled = Stack::with_room(members.len())?;
        if count == 0 && members.is_empty() {
            return Ok(Self { limiters, waiting, pooled, nearest, held, waits });
        }
        let depths = CeilingDepths::new(tree, weights, &Advances::for_tree(tree, weights)?)?;
        for class in tree.classes() {
            let parent = tree.parent(class).unwrap_or(ClassId::ROOT);
            held[parent.index()].most += weights.credits(class) as i64;
            let (above, config) = (nearest[parent.index()], tree.config(class));
            nearest[class.index()] = above;
            if let Some(ceiling) = config.ceiling {
                nearest[class.index()] = limiters.len() as u32;
                let depth = config.ceiling_burst.unwrap_or_else(|| depths.bytes(tree, class, ceiling));
                limiters.push(Limiter {
                    bucket: Bucket::new(ceiling, depth),
                    verdict: Verdict::NONE,
                    above,
                    pooled: NIL,
                });
                waiting.push(Waiting { parent: parent.0, first: NIL, last: NIL });
            }
        }
        for (class, lender) in members {
            let (value, max) = (u64::from(class.0), tree.len() as u64 - 1);
            let refused = BuildError::Parameter { class, what: "member of a pool", value, min: 1, max };
            if class.index() >= tree.len() || tree.parent(class) != Some(ClassId::ROOT) {
                return Err(refused);
            }
            let config = tree.config(class);
            let Some(limiter) = limiters.get_mut(nearest[class.index()] as usize) else {
                let (what, max) = ("the ceiling of a member of a pool", tree.link().rate.bps());
                return Err(BuildError::Parameter { class, what, value: 0, min: 1, max });
            };
            if limiter.pooled != NIL {
                return Err(refused);
            }
            limiter.pooled = pooled.len() as u32;
            let rate = match config.share {
                Some(Share::Guarantee(rate)) => rate,
                _ => Rate::from_bps(tree.rate_all_busy(class).max(1)).unwrap_or(tree.link().rate),
            };
            let depth = config.ceiling_burst.unwrap_or_else(|| depths.bytes(tree, class, rate));
            pooled.push(Pooled { lender, own: Bucket::new(rate, depth), ready_at: Nanos::ZERO });
        }
        Ok(Self { limiters, waiting, pooled, nearest, held, waits })
    }

    /// Returns true if [`Ceilings::retune`] can be done: the same classes have ceilings.
    pub(super) fn fits(&self, with: &Self) -> bool {
        let same = |(mine, theirs): (&Limiter, &Limiter)| (mine.pooled == NIL) == (theirs.pooled == NIL);
        self.nearest == with.nearest
            && self.limiters.len() == with.limiters.len()
            && self.limiters.iter().zip(with.limiters.iter()).all(same)
    }

    /// Adopts the rates and depths of `with` from `now` on. Debts of classes and waiting leaves stay. Members of pools
    /// borrow from the lenders of `with`.
    pub(super) fn retune(&mut self, with: &mut Self, now: Nanos) {
        for (id, theirs) in (0u32..).zip(with.limiters.iter()) {
            let mine = &mut self.limiters[id as usize];
            mine.bucket.retune(now, &theirs.bucket);
            if let Some(pooled) = self.pooled.get_mut(mine.pooled as usize) {
                let theirs = &mut with.pooled[theirs.pooled as usize];
                core::mem::swap(&mut pooled.lender, &mut theirs.lender);
                pooled.own.retune(now, &theirs.own);
                pooled.ready_at = now;
            }
            // A class that is due keeps its turn by the time it became so; with `now` as the key, all would be ordered
            // by their numbers.
            if self.waits.key(id).is_some_and(|key| key >> u32::BITS > u128::from(now.0)) {
                self.wait(id);
            }
        }
        for (mine, theirs) in self.held.iter_mut().zip(&with.held) {
            mine.most = theirs.most;
        }
    }

    /// Bytes that those of `tree` take.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        let count = ceilings(tree);
        if count == 0 {
            return 0;
        }
        let members =
            tree.children(ClassId::ROOT).iter().filter(|&&class| tree.config(class).ceiling.is_some()).count();
        bytes_of::<Limiter>(count)
            + bytes_of::<Waiting>(count)
            + bytes_of::<Pooled>(members)
            + bytes_of::<u32>(tree.len())
            + bytes_of::<Held>(tree.len())
            + Heap::memory(count)
            + bytes_of::<(DepthTerms, u64)>(tree.len())
    }

    /// Returns true if packets of `class` count against a ceiling.
    pub(super) fn is_limited(&self, class: ClassId) -> bool {
        self.nearest.get(class.index()).is_some_and(|&limiter| limiter != NIL)
    }

    /// Returns the ceilings at or above `leaf` that are blocked in `cycle`, if there are any.
    pub(super) fn blocks(&mut self, leaf: u32, cycle: u64, now: Nanos) -> Option<Blocked> {
        let mut blocked = None::<Blocked>;
        let mut at = self.nearest[leaf as usize];
        while at != NIL {
            let limiter = &mut self.limiters[at as usize];
            if !limiter.verdict.is_of(cycle) {
                let is_blocked = !limiter.bucket.is_ready_by(now)
                    || self.pooled.get_mut(limiter.pooled as usize).is_some_and(|pooled| !pooled.is_ready(now));
                limiter.verdict = Verdict::new(cycle, is_blocked);
            }
            if limiter.verdict.is_blocked() {
                let nearest = blocked.map_or(at, |blocked| blocked.nearest);
                blocked = Some(Blocked { nearest, above: self.waiting[at as usize].parent });
            }
            at = limiter.above;
        }
        blocked
    }

    /// Returns true if only buckets block classes: no class borrows from a pool. [`Ceilings::is_open`],
    /// [`Ceilings::are_open`] and [`Ceilings::take`] are for such trees only.
    pub(super) fn are_buckets(&self) -> bool {
        self.pooled.is_empty()
    }

    /// Returns true if the own ceiling of `leaf` is open in `cycle`; second, true if its bucket is still in debt.
    pub(super) fn is_open(&mut self, leaf: u32, cycle: u64, now: Nanos) -> (bool, bool) {
        let nearest = self.nearest[leaf as usize];
        let limiter = &mut self.limiters[nearest as usize];
        (limiter.is_open(cycle, now), !limiter.bucket.is_ready())
    }

    /// Returns true if the ceilings at `class` and above it are all open in `cycle`: [`Ceilings::blocks`] finds none.
    #[inline(always)]
    pub(super) fn are_open(&mut self, class: u32, cycle: u64, now: Nanos) -> bool {
        let mut at = self.nearest[class as usize];
        while let Some(limiter) = self.limiters.get_mut(at as usize) {
            if !limiter.is_open(cycle, now) {
                return false;
            }
            at = limiter.above;
        }
        true
    }

    /// Returns true if the ceilings at `class` and above it stay open during the whole `cycle`.
    pub(super) fn stay_open(&self, class: u32, cycle: u64) -> bool {
        let mut at = self.nearest.get(class as usize).copied().unwrap_or(NIL);
        while let Some(Limiter { bucket, verdict, above, pooled }) = self.limiters.get(at as usize) {
            let open = if verdict.is_of(cycle) { !verdict.is_blocked() } else { bucket.is_ready() && *pooled == NIL };
            if !open {
                return false;
            }
            at = *above;
        }
        true
    }

    /// Returns the ceiling that is nearest to `leaf`.
    #[inline(always)]
    pub(super) fn nearest(&self, leaf: u32) -> u32 {
        self.nearest[leaf as usize]
    }

    /// Prefetches the line of a ceiling.
    #[inline(always)]
    pub(super) fn prefetch(&self, ceiling: u32) {
        prefetch(&self.limiters, ceiling as usize);
    }

    /// Like [`Ceilings::sent`], for `bytes` that left below the ceiling `nearest` at `now` in `cycle`. Returns true if
    /// it is now in debt.
    #[inline(always)]
    pub(super) fn take(&mut self, nearest: u32, bytes: u64, cycle: u64, now: Nanos) -> bool {
        let Some(limiter) = self.limiters.get_mut(nearest as usize) else { return false };
        limiter.take(bytes, cycle, now);
        let (in_debt, mut at) = (!limiter.bucket.is_ready(), limiter.above);
        while let Some(limiter) = self.limiters.get_mut(at as usize) {
            limiter.take(bytes, cycle, now);
            at = limiter.above;
        }
        in_debt
    }

    /// Records a sent packet of `leaf`; `more` is true if others wait below the child of the root above it.
    pub(super) fn sent(&mut self, leaf: u32, bytes: u32, now: Nanos, more: bool) {
        let mut at = self.nearest[leaf as usize];
        while at != NIL {
            let limiter = &mut self.limiters[at as usize];
            limiter.bucket.refill(now);
            limiter.bucket.take(bytes);
            if let Some(pooled) = self.pooled.get_mut(limiter.pooled as usize) {
                pooled.own.refill(now);
                pooled.own.take(bytes);
                pooled.lender.sent(now, bytes, more);
            }
            at = limiter.above;
        }
    }

    /// Parks `leaf` until the nearest ceiling of `blocked` is out of debt. It will return with `balance`.
    pub(super) fn park(&mut self, leaf: u32, balance: i64, blocked: Blocked) {
        let limiter = blocked.nearest;
        let held = &mut self.held[leaf as usize];
        (held.balance, held.next) = (balance, NIL);
        let waiting = &mut self.waiting[limiter as usize];
        if waiting.last == NIL {
            waiting.first = leaf;
        } else {
            self.held[waiting.last as usize].next = leaf;
        }
        waiting.last = leaf;
        self.limiters[limiter as usize].verdict = Verdict::PARKED;
        if !self.waits.contains(limiter) {
            self.wait(limiter);
        }
    }

    /// Notes when `limiter` may have its leaves back.
    fn wait(&mut self, limiter: u32) {
        let entry = &self.limiters[limiter as usize];
        let lent_at = self.pooled.get(entry.pooled as usize).map_or(Nanos::ZERO, |pooled| pooled.ready_at);
        let at = entry.bucket.ready_at().max(lent_at);
        self.waits.set(limiter, u128::from(at.0) << u32::BITS | u128::from(limiter));
    }

    /// Called when a child of the inner class `class` is parked, or gets its first parked leaf below it. Returns true
    /// for the first such child.
    pub(super) fn child_parked(&mut self, class: u32) -> bool {
        let held = &mut self.held[class as usize];
        held.parked_children += 1;
        held.parked_children == 1
    }

    /// Called when a child of the inner class `class` is no longer parked and has no parked leaf below it. Returns true
    /// for the last such child.
    pub(super) fn child_returned(&mut self, class: u32) -> bool {
        let held = &mut self.held[class as usize];
        held.parked_children -= 1;
        held.parked_children == 0
    }

    /// Returns the part of the remaining credits that the inner class `class` keeps, now that no leaf below it is
    /// active.
    pub(super) fn keep(&mut self, class: u32, credits: i64) -> i64 {
        match self.held.get_mut(class as usize) {
            Some(held) if held.parked_children > 0 => {
                held.balance = credits.min(held.most);
                held.balance
            }
            _ => 0,
        }
    }

    /// Wakes a ceiling that is out of debt by `now`. Returns its first parked leaf; [`Ceilings::next_parked`] returns
    /// the others.
    pub(super) fn wake(&mut self, now: Nanos) -> Option<u32> {
        if self.next_wake()? > now {
            return None;
        }
        let (limiter, _) = self.waits.pop()?;
        self.limiters[limiter as usize].verdict = Verdict::NONE;
        let waiting = &mut self.waiting[limiter as usize];
        waiting.last = NIL;
        Some(core::mem::replace(&mut waiting.first, NIL))
    }

    /// Returns the leaf that was parked after `leaf` at the same ceiling.
    pub(super) fn next_parked(&self, leaf: u32) -> Option<u32> {
        let next = self.held[leaf as usize].next;
        (next != NIL).then_some(next)
    }

    /// Removes and returns the credits that `class` kept when it was parked.
    pub(super) fn take_balance(&mut self, class: u32) -> i64 {
        self.held.get_mut(class as usize).map_or(0, |held| core::mem::take(&mut held.balance))
    }

    /// Returns the time at which the next ceiling is out of debt, if leaves wait for one.
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        self.waits.first().map(|(_, key)| Nanos((key >> u32::BITS) as u64))
    }

    pub(super) fn reset(&mut self) {
        self.waits.clear();
        for held in self.held.iter_mut() {
            (held.balance, held.next, held.parked_children) = (0, NIL, 0);
        }
        for limiter in self.limiters.iter_mut() {
            limiter.bucket.reset();
            if let Some(pooled) = self.pooled.get_mut(limiter.pooled as usize) {
                pooled.own.reset();
            }
            limiter.verdict = Verdict::NONE;
        }
        for waiting in self.waiting.iter_mut() {
            (waiting.first, waiting.last) = (NIL, NIL);
        }
    }
}
