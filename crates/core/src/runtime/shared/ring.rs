//! The leaves of a worker, and the order in which it looks at those of a class that are not off.
//!
//! # The order
//! A leaf that is on and has no credit waits in a *wheel* until the virtual time at which it has a byte of it, and so
//! does one that is off and owes, while its class is on. All others are *ready*: those that had credit when the call
//! was full, and those that are to go on or off. A pass looks at what is ready, and at what the virtual time has
//! reached in the wheel.
//!
//! The wheel has three rings of slots. A slot of the first is 2^`shift` units of virtual time, between an eighth and
//! a sixteenth of what a largest packet takes of the heaviest leaf; one of the others is 16 times as much as one of
//! the ring before. A leaf is in the first ring that reaches as far as its time. It leaves when the virtual time has
//! reached the begin of its slot, and is looked at once more if it is too early. A leaf with less than about a 300th
//! of the heaviest one's weight is in no ring at first: such leaves are looked at when the first of them has credit.
//! So a leaf is looked at a few times for each of its packets, and such a one up to once for each packet of them all.
//! An early look costs time, but has no other effect: whether a leaf may send, its tag decides.

use crate::queue::LeafQueue;

pub(super) const NIL: u32 = u32::MAX;

/// The rings: the first slot of each, their number, and the binary places of a slot beyond those of the first ring.
const RINGS: [(u32, u32, u32); 3] = [(0, 32, 0), (32, 16, 4), (48, 16, 8)];
const SLOTS: usize = 64;

/// The state of a leaf on this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has no packets here, and is in no list.
    Off,
    /// It has packets and is not on, as far as this worker is concerned. It is ready.
    Pending,
    /// The same in the wheel, until it owes so little that it may go on or send out of turn.
    Waiting,
    /// It is on and ready.
    On,
    /// It is on and in the wheel, and has packets that it might send with credit.
    Lacking,
    /// It is on and in the wheel, without packets, or a ceiling holds it back.
    Resting,
}

impl State {
    /// Returns true in the wheel, if it has packets that it might send with credit.
    const fn lacks(self) -> bool {
        matches!(self, Self::Lacking | Self::Waiting)
    }

    /// Returns the state of a leaf that leaves the wheel.
    const fn ready(self) -> Self {
        if matches!(self, Self::Waiting) { Self::Pending } else { Self::On }
    }
}

/// A leaf as this worker has it, on one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Own {
    pub(super) queue: LeafQueue,
    pub(super) base: [u64; 2],
    pub(super) next: u32,
    pub(super) state: State,
}

const _: () = assert!(size_of::<Own>() == 64);

impl Own {
    pub(super) const fn base(&self) -> u128 {
        self.base[0] as u128 | (self.base[1] as u128) << 64
    }

    pub(super) const fn set_base(&mut self, base: u128) {
        self.base = [base as u64, (base >> 64) as u64];
    }
}

/// The own leaves of an inner class that are not off.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// The leaves that are ready, in order.
    head: u32,
    tail: u32,
    ready: u32,
    /// Ready leaves that the current visit has still to look at; 0 between visits.
    pub(super) left: u32,
    /// Leaves that are ready or in the wheel.
    pub(super) len: u32,
    /// Leaves that are [`State::Lacking`] or [`State::Waiting`].
    pub(super) lacking: u32,
    /// Virtual time as read last.
    pub(super) v: u128,
    /// Virtual time of the wheel.
    time: u128,
    /// No leaf in the wheel has credit before the virtual time has risen by so much from `time`.
    rise: u128,
    shift: u32,
    /// Slots with leaves.
    full: u64,
    /// First leaf of each slot; undefined while it has none.
    slots: [u32; SLOTS],
    /// First leaf of those beyond all slots, and the least virtual time for which one of them waits.
    far: u32,
    far_time: u128,
}

/// Returns the lower `size` bits of `ring`, the bit `begin` as the first.
const fn turned(ring: u64, begin: u32, size: u32) -> u64 {
    let ones = (1 << size) - 1;
    let ring = ring & ones;
    (ring >> begin | ring << (size - begin)) & ones
}

impl Ring {
    /// Makes one for leaves of which the heaviest takes the virtual time `packet` for a largest packet.
    pub(super) const fn new(packet: u128) -> Self {
        let eighth = packet / 8;
        Self {
            head: NIL,
            tail: NIL,
            ready: 0,
            left: 0,
            len: 0,
            lacking: 0,
            v: 0,
            time: 0,
            rise: u128::MAX,
            shift: if eighth > 1 { eighth.ilog2() } else { 0 },
            full: 0,
            slots: [NIL; SLOTS],
            far: NIL,
            far_time: 0,
        }
    }

    /// Puts `leaf` behind those that are ready.
    pub(super) fn push_back(&mut self, leaves: &mut [Own], leaf: u32) {
        leaves[leaf as usize].next = NIL;
        match self.tail {
            NIL => self.head = leaf,
            tail => leaves[tail as usize].next = leaf,
        }
        self.tail = leaf;
        self.ready += 1;
        self.len += 1;
    }

    /// Puts `leaf` before those that are ready.
    pub(super) fn push_front(&mut self, leaves: &mut [Own], leaf: u32) {
        leaves[leaf as usize].next = self.head;
        if self.head == NIL {
            self.tail = leaf;
        }
        self.head = leaf;
        self.ready += 1;
        self.len += 1;
    }

    /// Returns the first leaf that is ready; [`NIL`] if none is.
    #[inline(always)]
    pub(super) const fn first(&self) -> u32 {
        self.head
    }

    /// Takes the first leaf that is ready. There is one.
    pub(super) fn pop(&mut self, leaves: &[Own]) -> u32 {
        let leaf = self.head;
        self.head = leaves[leaf as usize].next;
        if self.head == NIL {
            self.tail = NIL;
        }
        self.ready -= 1;
        self.len -= 1;
        leaf
    }

    /// Begins a visit at the virtual time `v`: what it has reached in the wheel is ready. Returns true if any leaf is.
    pub(super) fn begin(&mut self, leaves: &mut [Own], v: u128) -> bool {
        if !self.has_waiting() {
            (self.v, self.time) = (v, v);
        } else if v.wrapping_sub(self.v) as i128 > 0 {
            self.v = v;
        }
        if self.v.wrapping_sub(self.time) >= self.rise {
            self.turn(leaves);
        }
        self.left = self.ready;
        self.ready > 0
    }

    /// Returns true if a leaf is in the wheel.
    const fn has_waiting(&self) -> bool {
        self.full != 0 || self.far != NIL
    }

    /// Turns the wheel to the virtual time `v`.
    fn turn(&mut self, leaves: &mut [Own]) {
        let (from, to) = (self.time, self.v);
        for (first, size, places) in RINGS {
            let shift = self.shift + places;
            let of = |time: u128| (time >> shift) as u32;
            let passed = if to.wrapping_sub(from) >> shift < size.into() {
                of(to).wrapping_sub(of(from)).min(size - 1)
            } else {
                size - 1
            };
            // Slots in their order, from that of the wheel's time on.
            let begin = of(from) % size;
            let mut reached = turned(self.full >> first, begin, size) & (u64::MAX >> (63 - passed));
            while reached != 0 {
                let slot = first + (begin + reached.trailing_zeros()) % size;
                reached &= reached - 1;
                self.full &= !(1 << slot);
                self.make_ready(leaves, self.slots[slot as usize]);
            }
        }
        if self.far != NIL && to.wrapping_sub(self.far_time) as i128 >= 0 {
            let first = core::mem::replace(&mut self.far, NIL);
            self.make_ready(leaves, first);
        }
        self.time = to;
        self.rise = self.until_next();
    }

    /// Makes the leaves of a slot ready, of which `leaf` is the first.
    fn make_ready(&mut self, leaves: &mut [Own], mut leaf: u32) {
        while leaf != NIL {
            let own = &mut leaves[leaf as usize];
            let next = own.next;
            self.lacking -= u32::from(own.state.lacks());
            own.state = own.state.ready();
            self.len -= 1;
            self.push_back(leaves, leaf);
            leaf = next;
        }
    }

    /// Returns the virtual time from that of the wheel to the begin of the first slot with leaves, or to the first leaf
    /// beyond.
    fn until_next(&self) -> u128 {
        let mut least = if self.far == NIL { u128::MAX } else { self.far_time.wrapping_sub(self.time) };
        for (first, size, places) in RINGS {
            let shift = self.shift + places;
            let now = (self.time >> shift) as u32 % size;
            let full = self.full >> first & ((1 << size) - 1);
            if full != 0 {
                let ahead = turned(full, now, size).trailing_zeros();
                let past = self.time & ((1u128 << shift) - 1);
                least = least.min((u128::from(ahead) << shift).saturating_sub(past));
            }
        }
        least
    }

    /// Puts `leaf` where it waits for the virtual time `at`, in this state.
    pub(super) fn wait(&mut self, leaves: &mut [Own], leaf: u32, at: u128, state: State) {
        if at.wrapping_sub(self.v) as i128 <= 0 {
            leaves[leaf as usize].state = state.ready();
            self.push_back(leaves, leaf);
            return;
        }
        let rise = at.wrapping_sub(self.time);
        self.rise = self.rise.min(rise);
        let mut found = None;
        for (first, size, places) in RINGS {
            let shift = self.shift + places;
            let ahead = ((self.time & ((1u128 << shift) - 1)) + rise) >> shift;
            if ahead < size.into() {
                found = Some(first + ((self.time >> shift) as u32).wrapping_add(ahead as u32) % size);
                break;
            }
        }
        let next = match found {
            Some(slot) => {
                let next = if self.full >> slot & 1 != 0 { self.slots[slot as usize] } else { NIL };
                self.slots[slot as usize] = leaf;
                self.full |= 1 << slot;
                next
            }
            None => {
                if self.far == NIL || at.wrapping_sub(self.far_time) as i128 <= 0 {
                    self.far_time = at;
                }
                core::mem::replace(&mut self.far, leaf)
            }
        };
        let own = &mut leaves[leaf as usize];
        (own.next, own.state) = (next, state);
        self.lacking += u32::from(state.lacks());
        self.len += 1;
    }

    /// Makes all leaves ready.
    pub(super) fn make_all_ready(&mut self, leaves: &mut [Own]) {
        while self.full != 0 {
            let slot = self.full.trailing_zeros();
            self.full &= self.full - 1;
            self.make_ready(leaves, self.slots[slot as usize]);
        }
        let first = core::mem::replace(&mut self.far, NIL);
        self.make_ready(leaves, first);
        (self.left, self.rise) = (0, u128::MAX);
    }

    /// Returns by how much the virtual time must rise until a leaf in the wheel may have credit: more than 0; `None` if
    /// there is none.
    pub(super) fn rise_to_next(&self) -> Option<u128> {
        self.has_waiting().then(|| self.rise.saturating_sub(self.v.wrapping_sub(self.time)).max(1))
    }
}
