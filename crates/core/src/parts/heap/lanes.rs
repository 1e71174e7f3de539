//! A priority queue for many ids, as sorted lists under a tournament.
//!
//! **Lanes.** The ids are in *lanes*, sorted lists. The heads of the lanes play a tournament: a binary tree in which
//! each node names the smaller of the two below it. Schedulers mostly put an id back under its last key plus a step,
//! and ids with the same step return in the order in which they left. So an id goes to the end of the lane that the
//! last id with its step went to, if it fits there. Otherwise it goes to the front, if it fits, or into a new lane. If
//! all ids have one step, there is one lane, and the cost of a change is independent of the number of ids. If all steps
//! differ, each id is in its own lane, which makes this a plain tournament. Lanes affect only the cost, never the
//! order.
//!
//! **The other end.** The last of all ids is the tail of a lane. If it is queried, the tails play a separate
//! tournament, over the same places and below the same top. A single lane has neither.
//!
//! **Cost.** O(log lanes) for each change; there are never more lanes than ids. O(1) to read the first, O(log lanes)
//! for the second. Nothing is allocated after construction.
//!
//! **Invariants.** A lane is sorted by key and then by age. All lanes in use are nonempty and below the *top* node. The
//! top and each node below it name the first of the heads of all lanes below them. A node that is neither below the top
//! nor above it is empty.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::hint::select_unpredictable;

use super::Also;
use crate::contract::OutOfMemory;
use crate::parts::memory::{bytes_of, filled};
use crate::parts::{prefetch::prefetch, work::Work};

/// Marks a number as that of a lane, in places for ids, or as free.
const LANE: u32 = 1 << 31;
/// Stands before an id that is not in the queue.
const ABSENT: u32 = u32::MAX;
/// Ends the list of free lanes.
const NONE: u32 = LANE - 1;
/// Most lanes that are found by a step.
const STEPS: usize = 32;
/// Minimum number of ids for the `ahead` query. Unit tests use it in small queues, too.
const LOG_FROM: usize = if cfg!(test) { 4 } else { 1 << 11 };

#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Entry {
    key: u128,
    sequence: u64,
    /// The id before it in its lane; at the head the lane, with [`LANE`] set.
    before: u32,
    /// The id behind it; at the end the lane, with [`LANE`] set.
    behind: u32,
}

impl Entry {
    const NEVER: Self = Self { key: u128::MAX, sequence: u64::MAX, before: ABSENT, behind: ABSENT };

    fn precedes(&self, other: &Self) -> bool {
        (self.key, self.sequence) < (other.key, other.sequence)
    }
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    /// The last id; of a free lane the next free one, with [`LANE`] set.
    tail: u32,
    /// The step of the id that went to it last, as [`step_mark`] has it.
    mark: u32,
}

/// Two nodes that meet: the ids that they name, and the ranks of their keys.
#[derive(Clone, Copy, Debug)]
struct Pair {
    ranks: [u64; 2],
    ids: [u32; 2],
}

/// A queue whose first id is the one with the smallest key, of these the one that got its key first.
#[derive(Debug)]
pub(crate) struct Lanes<W = ()> {
    /// Entries by id, plus a sentinel that comes after all others, which empty places name.
    entries: Box<[Entry]>,
    lanes: Box<[Lane]>,
    /// The nodes of the tournament: the children of node `i` are `2 i` and `2 i + 1`. Node `leaves + lane` is the head of a lane.
    nodes: Box<[Pair]>,
    /// By step: the lane of the last id with that step.
    by_step: Box<[u32]>,
    /// Only with two ends: by node above the leaves, the lane whose tail is the last below it, or [`NONE`].
    latest: Box<[u32]>,
    /// By number of the change, modulo its length: the id that went to the end of a lane with it. A single lane has its ids in the order of
    /// these numbers, so that the one that comes some places after the first is found without a walk along the lane.
    log: Box<[u32]>,
    /// A power of two.
    leaves: u32,
    /// The lowest node that all lanes in use are below, and its height above the leaves.
    top: u32,
    height: u32,
    first: u32,
    /// Lanes that were in use and are free, and the first that was not since the queue was empty.
    free: u32,
    fresh: u32,
    sequence: u64,
    /// Lanes and nodes that were changed or compared.
    work: W,
}

/// Lanes that are found by a step, of a queue for `ids` ids.
const fn steps(ids: usize) -> usize {
    let all = ids.next_power_of_two();
    if all < STEPS { all } else { STEPS }
}

/// Pairs of nodes of a queue for `ids` ids.
const fn pairs(ids: usize) -> usize {
    (ids.next_power_of_two() + ids) / 2 + 1
}

/// Changes of a queue for `ids` ids that it has the ids of.
const fn log(ids: usize, also: Also) -> usize {
    if ids < LOG_FROM || !also.ahead { 0 } else { ids.next_power_of_two() }
}

/// Hash of a step; mostly distinct for different steps, except for rounding.
#[inline(always)]
fn step_mark(step: u128) -> u32 {
    let rounded = (step >> 3) as u64;
    (rounded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// Returns a key in 64 bits, so that most matches need only the nodes. Of two keys the smaller one never has the larger
/// rank. The rank is a number with a mantissa of 57 bits. It is exact near zero, and mirrored so that it is also exact
/// near the largest key.
#[inline(always)]
pub(super) fn rank(key: u128) -> u64 {
    let mirror = (key.cast_signed() >> 127).cast_unsigned();
    let key = key ^ mirror;
    let shift = 71u32.saturating_sub(key.leading_zeros());
    // Below 73 * 2^56, which is below 2^63.
    ((u64::from(shift) << 56) + (key >> shift) as u64) ^ mirror as u64
}

impl Lanes {
    /// Bytes that one for `ids` ids takes.
    pub(super) const fn memory(ids: usize, also: Also) -> u64 {
        let latest = if also.last { bytes_of::<u32>(ids.next_power_of_two()) } else { 0 };
        let nodes = bytes_of::<Pair>(pairs(ids)) + latest + bytes_of::<u32>(log(ids, also));
        bytes_of::<Entry>(ids + 1) + bytes_of::<Lane>(ids) + nodes + bytes_of::<u32>(steps(ids))
    }
}

impl<W: Work> Lanes<W> {
    /// Makes an empty queue for the ids `0..ids`, below 2^31 - 1.
    pub(super) fn new(ids: usize, also: Also) -> Result<Self, OutOfMemory> {
        let leaves = ids.next_power_of_two() as u32;
        Ok(Self {
            entries: filled(ids + 1, Entry::NEVER)?,
            lanes: filled(ids, Lane { tail: LANE | NONE, mark: 0 })?,
            nodes: filled(pairs(ids), Pair { ranks: [u64::MAX; 2], ids: [ids as u32; 2] })?,
            by_step: filled(steps(ids), 0)?,
            latest: filled(if also.last { leaves as usize } else { 0 }, NONE)?,
            log: filled(log(ids, also), 0)?,
            leaves,
            top: leaves,
            height: 0,
            first: ids as u32,
            free: NONE,
            fresh: 0,
            sequence: 0,
            work: W::default(),
        })
    }

    /// Ids in it.
    #[must_use]
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn len(&self) -> usize {
        self.entries.iter().filter(|entry| entry.before != ABSENT).count()
    }

    /// Steps so far.
    pub(super) fn steps(&self) -> u64 {
        self.work.steps()
    }

    /// Number of ids that the queue was made for.
    #[must_use]
    #[inline(always)]
    pub(super) fn ids(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// Returns true if the queue is empty.
    #[must_use]
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.ids()
    }

    /// Returns true if `id` is in it.
    #[must_use]
    #[inline]
    pub(super) fn contains(&self, id: u32) -> bool {
        self.entries.get(id as usize).is_some_and(|entry| entry.before != ABSENT)
    }

    /// Returns the key of `id`, if the queue contains it.
    #[must_use]
    #[inline]
    pub(super) fn key(&self, id: u32) -> Option<u128> {
        self.entries.get(id as usize).filter(|entry| entry.before != ABSENT).map(|entry| entry.key)
    }

    /// Returns the first id and its key.
    #[must_use]
    #[inline]
    pub(super) fn first(&self) -> Option<(u32, u128)> {
        if self.is_empty() { None } else { Some((self.first, self.entries[self.first as usize].key)) }
    }

    /// Returns the second id and its key: the first one without the first.
    #[must_use]
    pub(super) fn second(&self) -> Option<(u32, u128)> {
        let nobody = self.ids();
        if self.is_empty() {
            return None;
        }
        let Entry { before, behind, .. } = self.entries[self.first as usize];
        let mut second = if behind & LANE == 0 { behind } else { nobody };
        let mut at = self.leaves + (before & !LANE);
        while at != self.top {
            self.work.add(1);
            second = self.earlier(second, self.node(at ^ 1));
            at >>= 1;
        }
        (second != nobody).then(|| (second, self.entries[second as usize].key))
    }

    /// Returns the largest key of a queue with two ends.
    #[must_use]
    #[inline(always)]
    pub(super) fn last_key(&self) -> Option<u128> {
        debug_assert!(!self.latest.is_empty(), "a queue without a known end");
        if self.is_empty() { None } else { Some(self.tail_key(self.last_lane(self.top))) }
    }

    /// Returns the id that is probably `by` places after the first, if it is known.
    #[must_use]
    #[inline(always)]
    pub(super) fn ahead(&self, by: u32) -> Option<u32> {
        if self.height > 0 || self.is_empty() || self.log.is_empty() {
            return None;
        }
        let number = self.entries[self.first as usize].sequence + u64::from(by);
        (number < self.sequence).then(|| self.log[number as usize & (self.log.len() - 1)])
    }

    /// Prefetches the state of `id`.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: u32) {
        prefetch(&self.entries, id as usize);
    }

    /// Inserts `id` under `key`, or moves it there, behind the ids that have that key already.
    #[inline(always)]
    pub(super) fn set(&mut self, id: u32, key: u128) {
        let old = self.entries[id as usize].key;
        self.set_by(id, key, key.wrapping_sub(old));
    }

    /// Like `set`, into the lane for this `step`.
    #[inline(always)]
    pub(super) fn set_by(&mut self, id: u32, key: u128, step: u128) {
        self.work.add(1);
        let before = self.entries[id as usize].before;
        let mark = step_mark(step);
        let slot = ((u64::from(mark) * self.by_step.len() as u64) >> 32) as usize;
        let lane = self.by_step[slot];
        // Most packets only return an id to its lane; only this path is inlined.
        if before != ABSENT {
            self.move_to(id, key, mark, slot);
        } else if !self.append(lane, id, key, mark) {
            self.insert(id, key, mark, slot);
        }
    }

    /// Removes and returns the first id with its key.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u32, u128)> {
        let first = self.first()?;
        self.work.add(1);
        let Entry { before, behind, .. } = self.entries[first.0 as usize];
        if self.height == 0 && behind & LANE == 0 {
            self.entries[first.0 as usize].before = ABSENT;
            self.entries[behind as usize].before = before;
            self.name_alone(behind);
        } else {
            self.unlink(first.0);
        }
        Some(first)
    }

    /// Removes `id`. Returns its key, if it was in the queue.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<u128> {
        let key = self.key(id)?;
        self.work.add(1);
        self.unlink(id);
        Some(key)
    }

    /// Removes everything, and resets the sequence numbers.
    pub(super) fn clear(&mut self) {
        let nobody = self.ids();
        self.entries.fill(Entry::NEVER);
        self.lanes.fill(Lane { tail: LANE | NONE, mark: 0 });
        self.nodes.fill(Pair { ranks: [u64::MAX; 2], ids: [nobody; 2] });
        self.latest.fill(NONE);
        (self.top, self.height, self.first) = (self.leaves, 0, nobody);
        (self.free, self.fresh, self.sequence) = (NONE, 0, 0);
    }

    /// Lowers every key by the lesser of `amount` and the smallest key; returns the amount.
    pub(super) fn lower(&mut self, amount: u128) -> u128 {
        let amount = self.first().map_or(amount, |(_, smallest)| smallest.min(amount));
        for entry in self.entries.iter_mut().filter(|entry| entry.before != ABSENT) {
            entry.key -= amount;
        }
        for pair in &mut self.nodes {
            pair.ranks = pair.ids.map(|id| rank(self.entries[id as usize].key));
        }
        amount
    }

    #[inline(always)]
    fn node(&self, at: u32) -> u32 {
        self.nodes[(at >> 1) as usize].ids[(at & 1) as usize]
    }

    /// Has a node name `id`, whose rank is `rank`.
    #[inline(always)]
    fn name(&mut self, at: u32, id: u32, rank: u64) {
        let pair = &mut self.nodes[(at >> 1) as usize];
        let side = (at & 1) as usize;
        (pair.ids[side], pair.ranks[side]) = (id, rank);
    }

    /// Returns the earlier of two ids; either may be the sentinel.
    #[inline(always)]
    fn earlier(&self, one: u32, other: u32) -> u32 {
        if self.entries[other as usize].precedes(&self.entries[one as usize]) { other } else { one }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    #[inline(always)]
    fn note_change(&mut self, number: u64, id: u32) {
        let place = number as usize & self.log.len().wrapping_sub(1);
        if let Some(place) = self.log.get_mut(place) {
            *place = id;
        }
    }

    /// Appends `id`, which is not in the queue, to `lane`, if its last id had a step of this mark and `id` belongs
    /// there.
    #[inline(always)]
    fn append(&mut self, lane: u32, id: u32, key: u128, mark: u32) -> bool {
        let Lane { tail, mark: last } = self.lanes[lane as usize];
        if tail & LANE != 0 || last != mark || self.entries[tail as usize].key > key {
            return false;
        }
        self.entries[tail as usize].behind = id;
        self.lanes[lane as usize].tail = id;
        let sequence = self.next_sequence();
        self.entries[id as usize] = Entry { key, sequence, before: tail, behind: LANE | lane };
        self.note_change(sequence, id);
        self.note_tail(lane);
        true
    }

    /// Inserts `id`, which is not in the queue and belongs at the end of no lane, at the start of one or into its own.
    #[inline(never)]
    fn insert(&mut self, id: u32, key: u128, mark: u32, slot: usize) {
        let lane = self.by_step[slot];
        let Lane { tail, mark: last } = self.lanes[lane as usize];
        if tail & LANE == 0 && last == mark {
            let head = self.node(self.leaves + lane);
            let start = &mut self.entries[head as usize];
            if key < start.key {
                start.before = id;
                let sequence = self.next_sequence();
                self.entries[id as usize] = Entry { key, sequence, before: LANE | lane, behind: head };
                return self.rise(lane, id);
            }
        }
        self.open(id, key, mark, slot);
    }

    /// Moves `id`, which is in.
    #[inline(never)]
    fn move_to(&mut self, id: u32, key: u128, mark: u32, slot: usize) {
        let Entry { key: old, before, behind, .. } = self.entries[id as usize];
        let lane = self.by_step[slot];
        if before != behind {
            self.unlink(id);
            if !self.append(lane, id, key, mark) {
                self.insert(id, key, mark, slot);
            }
            return;
        }
        // Alone in its lane: it stays there, unless it belongs at the end of another.
        let own = before & !LANE;
        let Lane { tail, mark: last } = self.lanes[lane as usize];
        if own != lane && tail & LANE == 0 && last == mark && self.entries[tail as usize].key <= key {
            self.unlink(id);
            self.append(lane, id, key, mark);
            return;
        }
        let sequence = self.next_sequence();
        let entry = &mut self.entries[id as usize];
        (entry.key, entry.sequence) = (key, sequence);
        self.lanes[own as usize].mark = mark;
        self.by_step[slot] = own;
        self.note_tail(own);
        if key < old {
            self.rise(own, id);
        } else {
            self.sink(own, id, id);
        }
    }

    /// Inserts `id`, which is absent, into a new lane.
    fn open(&mut self, id: u32, key: u128, mark: u32, slot: usize) {
        let sequence = self.next_sequence();
        let lane = if self.free == NONE { self.fresh } else { self.free };
        if lane == self.fresh {
            self.fresh += 1;
        } else {
            self.free = self.lanes[lane as usize].tail & !LANE;
        }
        self.lanes[lane as usize] = Lane { tail: id, mark };
        self.by_step[slot] = lane;
        self.entries[id as usize] = Entry { key, sequence, before: LANE | lane, behind: LANE | lane };
        self.note_change(sequence, id);
        while (self.leaves + lane) >> self.height != self.top {
            self.work.add(1);
            // All beside the top is empty.
            let first = rank(self.entries[self.first as usize].key);
            self.name(self.top, self.first, first);
            let last = self.last_lane(self.top);
            self.height += 1;
            self.top >>= 1;
            self.name(self.top, self.first, first);
            if let Some(latest) = self.latest.get_mut(self.top as usize) {
                *latest = last;
            }
        }
        self.note_tail(lane);
        self.rise(lane, id);
    }

    /// Removes `id` from its lane.
    #[inline]
    fn unlink(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        let (before, behind) = (entry.before, entry.behind);
        entry.before = ABSENT;
        // A lane in the place of a neighbour is handed on to the other.
        if before & LANE == 0 {
            self.entries[before as usize].behind = behind;
        }
        if behind & LANE == 0 {
            self.entries[behind as usize].before = before;
        }
        if before & LANE == 0 {
            if behind & LANE != 0 {
                self.lanes[(behind & !LANE) as usize].tail = before;
                self.note_tail(behind & !LANE);
            }
            return;
        }
        let lane = before & !LANE;
        if behind & LANE == 0 {
            return self.sink(lane, id, behind);
        }
        self.lanes[lane as usize].tail = LANE | self.free;
        self.free = lane;
        self.note_tail(lane);
        self.sink(lane, id, self.ids());
        if self.is_empty() && self.fresh > 1 {
            self.start_over();
        }
    }

    /// Lanes are taken from the first again, so that those in use stay side by side. All nodes are empty but those above the top.
    fn start_over(&mut self) {
        while self.top > 0 {
            self.work.add(1);
            self.name(self.top, self.ids(), u64::MAX);
            if let Some(latest) = self.latest.get_mut(self.top as usize) {
                *latest = NONE;
            }
            self.top >>= 1;
        }
        (self.free, self.fresh, self.top, self.height) = (NONE, 0, self.leaves, 0);
    }

    /// Makes `id` the head of the only lane, without a rank. An empty place has the last rank. A lane gets a rank with
    /// the second lane.
    #[inline(always)]
    fn name_alone(&mut self, id: u32) {
        self.name(self.top, id, u64::MAX);
        self.first = id;
    }

    /// Returns true if `rival` comes before `id`, which has the same rank.
    #[inline(never)]
    fn beats(&self, rival: u32, id: u32) -> bool {
        self.entries[rival as usize].precedes(&self.entries[id as usize])
    }

    /// Moves `lane` up after `id` has become its head with a smaller key.
    #[inline(always)]
    fn rise(&mut self, lane: u32, id: u32) {
        if self.height == 0 {
            self.name_alone(id);
        } else {
            self.replay_up(lane, id);
        }
    }

    fn replay_up(&mut self, lane: u32, id: u32) {
        let mut at = self.leaves + lane;
        let rank = rank(self.entries[id as usize].key);
        loop {
            self.work.add(1);
            let pair = &mut self.nodes[(at >> 1) as usize];
            let side = (at & 1) as usize;
            (pair.ids[side], pair.ranks[side]) = (id, rank);
            if at == self.top {
                self.first = id;
                return;
            }
            let (rival, other) = (pair.ids[side ^ 1], pair.ranks[side ^ 1]);
            if other < rank || other == rank && self.beats(rival, id) {
                return;
            }
            at >>= 1;
        }
    }

    /// Replaces `old` as the head of `lane` by `new`: another id, the same id with a larger key, or the sentinel.
    #[inline(always)]
    fn sink(&mut self, lane: u32, old: u32, new: u32) {
        if self.height == 0 {
            self.name_alone(new);
        } else {
            self.replay(lane, old, new);
        }
    }

    fn replay(&mut self, lane: u32, old: u32, new: u32) {
        let mut at = self.leaves + lane;
        let (mut winner, mut rank) = (new, rank(self.entries[new as usize].key));
        loop {
            self.work.add(1);
            let pair = &mut self.nodes[(at >> 1) as usize];
            let side = (at & 1) as usize;
            if pair.ids[side] != old {
                return;
            }
            (pair.ids[side], pair.ranks[side]) = (winner, rank);
            if at == self.top {
                break;
            }
            let (rival, other) = (pair.ids[side ^ 1], pair.ranks[side ^ 1]);
            if other == rank {
                winner = if self.beats(rival, winner) { rival } else { winner };
            } else {
                // The winner is unpredictable: choose it without a branch.
                winner = select_unpredictable(other < rank, rival, winner);
                rank = select_unpredictable(other < rank, other, rank);
            }
            at >>= 1;
        }
        self.first = winner;
        while self.height > 0 {
            self.work.add(1);
            let [left, right] = self.nodes[self.top as usize].ids.map(|id| id != self.ids());
            if left && right {
                break;
            }
            self.height -= 1;
            self.top = 2 * self.top + u32::from(right);
        }
    }

    /// Key of the last id of `lane`; the minimum if the lane is empty.
    #[inline(always)]
    fn tail_key(&self, lane: u32) -> u128 {
        let tail = self.lanes.get(lane as usize).map_or(LANE, |lane| lane.tail);
        if tail & LANE == 0 { self.entries[tail as usize].key } else { 0 }
    }

    /// Returns the lane with the last tail at or below node `at`, or [`NONE`].
    #[inline(always)]
    fn last_lane(&self, at: u32) -> u32 {
        if at < self.leaves {
            return self.latest.get(at as usize).copied().unwrap_or(NONE);
        }
        let lane = at - self.leaves;
        let used = self.lanes.get(lane as usize).is_some_and(|lane| lane.tail & LANE == 0);
        if used { lane } else { NONE }
    }

    /// Updates the nodes after the tail of `lane` has changed.
    #[inline(always)]
    fn note_tail(&mut self, lane: u32) {
        if self.height > 0 && !self.latest.is_empty() {
            self.replay_tails(lane);
        }
    }

    #[inline(never)]
    fn replay_tails(&mut self, lane: u32) {
        let mut at = self.leaves + lane;
        let mut winner = self.last_lane(at);
        let mut most = self.tail_key(winner);
        while at != self.top {
            self.work.add(1);
            let rival = self.last_lane(at ^ 1);
            let other = self.tail_key(rival);
            if winner == NONE || rival != NONE && other > most {
                (winner, most) = (rival, other);
            }
            at >>= 1;
            if self.latest[at as usize] == winner && winner != lane {
                // Neither that lane nor its tail has changed.
                return;
            }
            self.latest[at as usize] = winner;
        }
    }

    /// Checks the queue's invariants.
    ///
    /// # Errors
    /// The broken one, in words.
    #[cfg(feature = "invariants")]
    pub(super) fn check(&self) -> Result<(), String> {
        let nobody = self.ids();
        let (mut listed, mut used) = (0, 0);
        for lane in 0..self.ids() {
            let (head, tail) = (self.node(self.leaves + lane), self.lanes[lane as usize].tail);
            if (head == nobody) != (tail & LANE != 0)
                || (head != nobody && (self.leaves + lane) >> self.height != self.top)
            {
                return Err(format!("lane {lane} from {head} to {tail} under a height of {}", self.height));
            }
            let (mut at, mut before) = (head, LANE | lane);
            while at & LANE == 0 && at != nobody {
                let entry = &self.entries[at as usize];
                let sorted = self.entries.get(before as usize).is_none_or(|last| last.precedes(entry));
                if entry.before != before || !sorted {
                    return Err(format!("id {at} under {} behind {before:#x} in lane {lane}", entry.key));
                }
                (before, at) = (at, entry.behind);
                listed += 1;
            }
            if head != nobody && (before != tail || at != LANE | lane) {
                return Err(format!("lane {lane} ends with {before} and {at:#x}, not with {tail}"));
            }
            used += usize::from(head != nobody);
        }
        let mut free = self.free;
        while free != NONE {
            (free, used) = (self.lanes[free as usize].tail & !LANE, used + 1);
        }
        if listed != self.len() || used != self.fresh as usize {
            return Err(format!("{} ids, {listed} in lanes; {used} lanes of {}", self.len(), self.fresh));
        }
        // Lanes beyond the last have no nodes.
        let exists = |at: &u32| (*at as usize) < self.nodes.len();
        for at in (0..self.height).flat_map(|level| self.top << level..(self.top + 1) << level).filter(exists) {
            let below = self.nodes[at as usize];
            if self.node(at) != self.earlier(below.ids[0], below.ids[1]) {
                return Err(format!("node {at} names {}", self.node(at)));
            }
            if below.ranks != below.ids.map(|id| rank(self.entries[id as usize].key)) {
                return Err(format!("below node {at}: {below:?}"));
            }
        }
        if !self.latest.is_empty() {
            let last = self.entries.iter().filter(|entry| entry.before != ABSENT).map(|entry| entry.key).max();
            if self.last_key() != last {
                return Err(format!("the last key is {last:?}, and {:?} is said to be", self.last_key()));
            }
        }
        if self.first != self.node(self.top) {
            return Err(format!("{} is first, the tournament is won by {}", self.first, self.node(self.top)));
        }
        Ok(())
    }
}
