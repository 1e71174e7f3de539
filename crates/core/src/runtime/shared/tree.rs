//! The shared tree: virtual times of all classes, and the changes that workers make to them.

use alloc::boxed::Box;

use super::node::{Child, Node};
use super::pace::Pace;
use super::record::{BITS, Record, units, whole_debt};
use crate::contract::{ClassId, Hierarchy, OutOfMemory};
use crate::parts::memory::{bytes_of, filled, slice};
use crate::parts::virtual_time::child_weights;

pub(super) const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;

/// All that workers share.
#[derive(Debug)]
pub(super) struct Classes {
    /// Inner classes; the root is the first.
    pub(super) nodes: Box<[Node]>,
    /// By class.
    pub(super) children: Box<[Child]>,
    pub(super) pace: Pace,
    /// [`SharedConfig::ahead`](super::SharedConfig::ahead), in units.
    ahead: i128,
}

/// The whole queue of a leaf that is off, which might be sent out of turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) bytes: u64,
    pub(super) is_single: bool,
    /// The number of its worker.
    pub(super) worker: u32,
}

/// The result of an attempt to serve a leaf out of turn, or to put it on, while its parent is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Its queue was sent and charged.
    Lone,
    /// It is on, and so are the classes above it.
    On,
    /// Not before R has grown by so many bytes.
    Wait(u64),
}

impl Classes {
    pub(super) fn new(tree: &Hierarchy, pace: Pace, ahead: u64) -> Result<Self, OutOfMemory> {
        let is_inner = |class: ClassId| !tree.is_leaf(class);
        let all = || core::iter::once(ClassId::ROOT).chain(tree.classes());
        let mut node_of = filled(tree.len(), NONE)?;
        for (node, class) in all().filter(|&class| is_inner(class)).enumerate() {
            node_of[class.index()] = node as u32;
        }
        let mut weight_of = filled(tree.len(), 0u64)?;
        for class in all().filter(|&class| is_inner(class)) {
            let weights = child_weights(tree, class)?;
            for (child, &weight) in tree.children(class).iter().zip(&weights) {
                weight_of[child.index()] = weight;
            }
        }
        let parent = |class: ClassId| tree.parent(class).map_or(ROOT, |parent| node_of[parent.index()]);
        let mut inner = all().filter(|&class| is_inner(class));
        let nodes = slice(tree.len() - tree.leaves().len(), |_| {
            let class = inner.next().unwrap_or(ClassId::ROOT);
            Node::new(parent(class), class.0)
        })?;
        let children = slice(tree.len(), |index| Child::new(weight_of[index], parent(ClassId(index as u32))))?;
        Ok(Self { nodes, children, pace, ahead: units(ahead) })
    }

    /// Bytes that [`Classes::new`] takes for `tree`. It frees those of the nodes and weights by class.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        let by_class = bytes_of::<Child>(tree.len()) + bytes_of::<u32>(tree.len()) + bytes_of::<u64>(tree.len());
        bytes_of::<Node>(tree.len() - tree.leaves().len()) + by_class
    }

    #[inline(always)]
    pub(super) fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    /// The node `at` as a child.
    #[inline(always)]
    pub(super) fn as_child(&self, at: u32) -> &Child {
        &self.children[self.node(at).class as usize]
    }

    /// Returns the units that the node `at` got since `record`, whose parent is now at `clock`.
    #[inline(always)]
    pub(super) fn inflow(&self, at: u32, record: &Record, clock: u128) -> i128 {
        let rise = clock.wrapping_sub(record.parent) as i128;
        if rise <= 0 {
            return 0;
        }
        if at == ROOT { rise >> 64 << BITS } else { rise.wrapping_mul(self.as_child(at).weight.into()) }
    }

    /// Returns what moves the virtual time of the node `at`: that of its parent, or R.
    #[inline(always)]
    fn clock(&self, at: u32) -> Option<u128> {
        if at == ROOT { Some(u128::from(self.pace.given()) << 64) } else { self.time(self.node(at).parent) }
    }

    /// Returns the virtual time of the node `at`, or an older one; `None` if writers keep it busy. The parent is read
    /// first: its time is then at most what belongs to the record, and virtual times only grow.
    #[inline(always)]
    pub(super) fn time(&self, at: u32) -> Option<u128> {
        let clock = self.clock(at)?;
        let record = self.node(at).read()?;
        Some(record.after(self.inflow(at, &record, clock)))
    }

    /// Returns the record of the node `at` as of now, for the holder of its lock; `None` if classes above are kept
    /// busy.
    pub(super) fn now(&self, at: u32) -> Option<Record> {
        let clock = self.clock(at)?;
        let mut record = self.node(at).load();
        let inflow = self.inflow(at, &record, clock);
        record.distribute(inflow);
        // A parent that was read too early is not ahead.
        if clock.wrapping_sub(record.parent) as i128 > 0 {
            record.parent = clock;
        }
        if at == ROOT && record.weight == 0 {
            self.limit_idle(&mut record);
        }
        Some(record)
    }

    /// Drops what the link had to give for longer than its interface has room for, while no class is on.
    fn limit_idle(&self, root: &mut Record) {
        let beyond = (root.pending - units(self.pace.mark)) >> BITS;
        if beyond > 0 {
            root.pending -= beyond << BITS;
            self.pace.drop_credit(0, beyond as u64);
        }
    }

    /// Locks the classes above the node `at`, whose lock the caller holds, up to the first for which `is_last` holds.
    /// Returns it. Without all locks it has none but `at`'s.
    fn lock_above(&self, at: u32, mut is_last: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut top = at;
        while top != ROOT && !is_last(top) {
            let parent = self.node(top).parent;
            if !self.node(parent).lock() {
                self.unlock_above(at, top);
                return None;
            }
            top = parent;
        }
        Some(top)
    }

    /// Releases the locks above the node `at`, up to `top`.
    pub(super) fn unlock_above(&self, at: u32, top: u32) {
        let mut last = at;
        while last != top {
            last = self.node(last).parent;
            self.node(last).unlock();
        }
    }

    /// Locks what is above the node `at`, which the caller has locked and which is off, up to the first class that is
    /// on, or the root.
    pub(super) fn lock_to_on(&self, at: u32) -> Option<u32> {
        self.lock_above(at, |node| self.node(node).load().weight > 0)
    }

    /// Locks what is above the node `at`, which the caller has locked, up to the first class that stays on when `at`
    /// goes off, or the root.
    fn lock_to_rest(&self, at: u32) -> Option<u32> {
        let mut leaves = None;
        self.lock_above(at, |node| {
            let rests = leaves.is_some_and(|weight| self.node(node).load().weight > weight);
            leaves = Some(self.as_child(node).weight);
            rests
        })
    }

    /// Returns true unless another waits until `child`, which is off, may be on: then `offer` may not leave out of
    /// turn.
    pub(super) fn is_free(&self, child: &Child, offer: Offer, is_leaf: bool) -> bool {
        let wanted = child.wanted_by();
        // Who waits for an inner class is perhaps another leaf.
        wanted == 0 || is_leaf && wanted == offer.worker
    }

    /// Returns true if `offer` may leave out of turn: its class has `credit`, and the parent has `pending` units. A
    /// single packet may if the class does not owe. More may as long as neither owes more than `ahead` then.
    pub(super) fn may_pass(&self, offer: Offer, (credit, pending): (i128, i128)) -> bool {
        let owes = (-credit).max(-pending).max(0);
        offer.is_single && credit >= 0 || owes + units(offer.bytes) <= self.ahead
    }

    /// Returns the units that a class and its parent may owe before `offer` leaves out of turn.
    pub(super) fn room_for(&self, offer: Offer) -> i128 {
        (self.ahead - units(offer.bytes)).max(0)
    }

    /// Serves `leaf` below the node `at`, which is off, as are all classes below `top`; all of them are locked up to
    /// `top`. `offer` is its queue, which `send` sends and returns the bytes of. `None` if classes above are kept busy.
    pub(super) fn start(
        &self,
        leaf: u32,
        (at, top): (u32, u32),
        worker: u32,
        offer: Option<Offer>,
        send: impl FnOnce() -> u64,
    ) -> Option<Start> {
        let mut record = self.now(top)?;
        // The highest class on the path that is off.
        let mut below = at;
        let first = if at == top {
            &self.children[leaf as usize]
        } else {
            while self.node(below).parent != top {
                below = self.node(below).parent;
            }
            self.as_child(below)
        };
        // While no child is on, the credit of the link itself decides.
        let is_idle = record.weight == 0;
        let credit = if is_idle { record.pending } else { first.credit(record.v) };
        let is_free = |offer: &Offer| self.is_free(first, *offer, at == top);
        let result = if offer.filter(is_free).is_some_and(|offer| self.may_pass(offer, (credit, record.pending))) {
            let bytes = send();
            record.pending -= units(bytes);
            first.count_lone(record.v, if is_idle { 0 } else { credit }, bytes);
            Start::Lone
        } else if credit < 0 {
            first.want(worker);
            let wait = if is_idle { -credit } else { missing(&record, rise_for(-credit, first.weight)) };
            Start::Wait(self.bytes(top, wait))
        } else {
            self.put_on(leaf, at, top, &mut record);
            Start::On
        };
        self.node(top).store(&record);
        Some(result)
    }

    /// Puts `leaf` on, and the nodes from `at` up to below `top`, whose record this is.
    fn put_on(&self, leaf: u32, at: u32, top: u32, record: &mut Record) {
        let mut below = at;
        let mut child = &self.children[leaf as usize];
        while below != top {
            let node = self.node(below);
            let mut inner = node.load();
            inner.set_weight(child.weight);
            child.set(inner.v, 0);
            child.hold(1);
            // What moves it from now on is not known yet: see below.
            node.store(&inner);
            child = self.as_child(below);
            below = node.parent;
        }
        let v = record.v;
        child.set(v, 0);
        child.hold(1);
        record.set_weight(record.weight + child.weight);
        record.distribute(0);
        // From the top down: each is at rest where it stands, and is moved by its parent from where that stands.
        let mut clock = v;
        let mut upper = top;
        while upper != at {
            let mut lower = at;
            while self.node(lower).parent != upper {
                lower = self.node(lower).parent;
            }
            let mut inner = self.node(lower).load();
            inner.parent = clock;
            clock = inner.v;
            self.node(lower).store(&inner);
            upper = lower;
        }
    }

    /// Takes `leaf` off, the last that is on below the node `at`, and the node with it. This is the node's record, the
    /// caller holds its lock, and the leaf does not owe. Returns false, without a change, if others hold locks above
    /// it.
    pub(super) fn rest(&self, leaf: u32, at: u32, record: &mut Record) -> bool {
        let leaf = &self.children[leaf as usize];
        let give_back = |record: &mut Record| {
            let credit = leaf.credit(record.v);
            record.pending += credit;
            leaf.set(record.v, whole_debt(credit));
            leaf.hold(0);
            record.set_weight(0);
        };
        if at == ROOT {
            give_back(record);
            self.limit_idle(record);
            return true;
        }
        let Some(top) = self.lock_to_rest(at) else { return false };
        // Times from the top down, as all these classes are still on. Only those above `top` can be kept busy by
        // others.
        let mut from = top;
        let Some(mut upper) = self.now(top) else {
            self.unlock_above(at, top);
            return false;
        };
        self.node(top).store(&upper);
        while from != at {
            let mut lower = at;
            while self.node(lower).parent != from {
                lower = self.node(lower).parent;
            }
            let mut inner = if lower == at { *record } else { self.node(lower).load() };
            let inflow = self.inflow(lower, &inner, upper.v);
            inner.distribute(inflow);
            inner.parent = upper.v;
            if lower == at {
                *record = inner;
            } else {
                self.node(lower).store(&inner);
            }
            (from, upper) = (lower, inner);
        }
        // And off, from the bottom up.
        give_back(record);
        let mut pending = core::mem::take(&mut record.pending);
        let mut below = at;
        loop {
            let child = self.as_child(below);
            let parent = self.node(below).parent;
            let mut inner = self.node(parent).load();
            child.set(inner.v, whole_debt(pending));
            child.hold(0);
            inner.pending += pending;
            inner.set_weight(inner.weight - child.weight);
            if parent == top {
                inner.distribute(0);
                if top == ROOT && inner.weight == 0 {
                    self.limit_idle(&mut inner);
                }
                self.node(parent).store(&inner);
                break;
            }
            pending = core::mem::take(&mut inner.pending);
            self.node(parent).store(&inner);
            below = parent;
        }
        self.unlock_above(at, top);
        true
    }

    /// Bytes that R must grow by until the node `at` has got so many units more; 0 if it cannot be said.
    pub(super) fn bytes(&self, at: u32, units: i128) -> u64 {
        if at != ROOT {
            return self.bytes_until(self.node(at).parent, rise_for(units, self.as_child(at).weight));
        }
        u64::try_from((units + (1 << BITS) - 1) >> BITS).unwrap_or(if units < 0 { 0 } else { u64::MAX })
    }

    /// Bytes that R must grow by until the virtual time of the node `at` has risen by `rise`; 0 if it cannot be said.
    pub(super) fn bytes_until(&self, at: u32, rise: u128) -> u64 {
        let Some(record) = self.node(at).read() else { return 0 };
        if record.weight == 0 {
            return 0;
        }
        let Some(clock) = self.clock(at) else { return 0 };
        // What it owes is paid first.
        let pending = (record.pending + self.inflow(at, &record, clock)).min(0);
        self.bytes(at, missing(&Record { pending, ..record }, rise))
    }
}

/// Returns the virtual time in which a child of `weight` gets `units`.
pub(super) const fn rise_for(units: i128, weight: u64) -> u128 {
    if units > 0 { (units as u128).div_ceil(weight as u128) } else { 0 }
}

/// Units that a class with this record must get until its virtual time has risen by `rise`.
pub(super) fn missing(record: &Record, rise: u128) -> i128 {
    let all = i128::try_from(rise.saturating_mul(record.weight.into())).unwrap_or(i128::MAX / 2);
    all.min(i128::MAX / 2).saturating_sub(record.pending)
}
