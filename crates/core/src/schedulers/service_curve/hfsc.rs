//! `hfsc`: the Hierarchical Fair Service Curve scheduler, as \[hfsc\] Sections 3 and 4 give it, with upper limits as later
//! practice added them.
//!
//! Two criteria choose the next packet. The *real-time* criterion selects the head with the smallest deadline, of the
//! leaves whose head is eligible. A head is eligible if its leaf's service curve could otherwise be violated later. If
//! none is eligible, the *link-sharing* criterion chooses: from the root down, the child with the smallest virtual
//! time. That is its service so far on the scale of its link-sharing curve.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | S_i of a leaf | `real_time` of the class | |
//! | S_i of any class | `link_share` of the class | |
//! | D_i, E_i, equations (7), (10) | `RealTime::deadlines`, `Curve::eligible_at` | |
//! | c_i | `RealTime::served` | bytes |
//! | e_i, d_i | keys of `asleep` and of `eligible` | 2^-12 ns |
//! | V_i, equation (11) | `Class::virtual_curve` | |
//! | w_i | `Class::served` | bytes |
//! | v_i | `Class::virtual_time`, key in `Children::ready` | 2^-12 ns of virtual time |
//! | v^s_p = (v_min + v_max) / 2 | `Hfsc::system_time` | 2^-12 ns of virtual time |
//! | A | leaves with packets, and the classes above them | |
//! | (upper limit) fit time | `Hfsc::fit`, key in `Children::held` | 2^-12 ns |
//!
//! **Curves.** Only `real_time` guarantees a leaf's service. Without one, it has no guarantee in time. The link-sharing
//! curve is `link_share`. If that is absent, it is a line with the slope of the class's guarantee or weight. If a
//! sibling has a curve and the class has a weight or no share, the slope is the class's rate when all are busy. A leaf
//! that has `real_time` and neither `link_share` nor a guarantee or weight takes no part in link-sharing: it gets only
//! its real-time curve.
//!
//! **Upper limits.** `upper_limit` (or `ceiling`, which is a line) keeps a class out of link-sharing until its fit
//! time. That is when its limit curve has reached its service (`limit.rs`). A class that becomes active starts without
//! savings. While it is active and waits for others, it saves up to a *burst*: `ceiling_burst`, or the yield of the
//! limit in its longest expected wait while there is room for it. Without that, each wait behind another packet would
//! be lost, and the class would never reach its limit. So over any interval W(s, t] <= U(t - s) + burst + L_max by
//! link-sharing. The fit time of an inner class is the later of its own and the earliest of its children's. Real-time
//! service counts and is not blocked: a guarantee goes first.
//!
//! **When it waits.** Only while each class with packets is above an upper limit, its own or that of a class above it, or is
//! of real-time only and not eligible.
//!
//! **Cost per packet.** O(levels * log n): on each level of the path, a look at one queue and a change in one. A leaf
//! that becomes eligible, or a class that becomes fit, moves from one heap to another, at most once for each of its
//! packets. One call may move all that have become so since the last.
//!
//! **Invariants.** A leaf with packets and a real-time curve is in exactly one of `asleep` and `eligible`. A class that
//! has packets below it to share for is in exactly one of its parent's `ready` and `held`. Any other class is in neither.
//!
//! **Errors and overflow budget.** Those of `parts::curve`. A deadline and an eligible time are less than a
//! picosecond late. A virtual time grows by at most 2^20 bytes at 1 bit/s a packet, 2^65; 2^60 of them fit.
//!
//! **Validation.** Figures 2, 3, 4 and 12; Theorem 2 by equation (1) as an oracle over random curves that fit and random
//! trees; the bound behind Theorem 3; lines as w_i / r_i; upper limits as token buckets; the HLS paper's Experiment 2.
//!
//! DIFFERENCE: v^s of a class with no child active is the largest virtual time that a child of it had when it last
//! stopped. The paper does not define it. So service before the parent was idle neither benefits nor harms a child.
//! DIFFERENCE: v_min and v_max are taken over children that no limit blocks. A child that comes back from its limit is
//! moved up to at most one packet of the slowest sibling behind v_min. Otherwise it would pull v^s down forever.
//! DIFFERENCE: leaves of real-time only and upper limits are not in the paper. DIFFERENCE: a class without `link_share`
//! shares by a line. The paper has it share by the curve of its guarantee, `real_time`.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use core::any::Any;

use crate::bases::batches::{LOOK_AHEAD_FROM, PlainIn, push_behind, push_runs};
use crate::contract::{
    Amount, BuildError, ClassId, Delay, Dequeued, DropReason, DropSink, Fairness, Feature, Hierarchy, Nanos, Packet,
    Promises, Scheduler, SchedulerInfo, Share, Sharing, WorkConserving, boxed, same_kind,
};
use crate::parts::{
    curve::{Curve, SLOPE_BITS, Shape, admit, curves_memory, nanos_up, real_time_shapes, ticks},
    heap::{Also, Heap},
    memory::{Stack, bytes_of, filled, slice},
};
use crate::queue::{LeafQueue, PacketSlab};

pub use crate::parts::work::{Counted, Work};

use ahead::Asked;
use limit::{Limit, limits_of};

/// Registry entry of `hfsc`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "hfsc",
    aliases: &[],
    paper: "hfsc",
    summary: "hierarchical fair service curve: delay apart from rate, fair link-sharing, upper limits",
    features: &[
        Feature::Hierarchy,
        Feature::Ceiling,
        Feature::CeilingBurst,
        Feature::ServiceCurves,
        Feature::LinkCurves,
        Feature::ActiveQueue,
        Feature::PushOut,
    ],
    work_conserving: WorkConserving::UnlessLimited,
    cost: "O(levels * log children)",
    sharing: Sharing::Curves(slopes),
    promises: Promises {
        fairness: Some(Fairness::VirtualTimes),
        delay: Some(Delay::Curves { lines: false }),
        ..Promises::NONE
    },
    memory: Hfsc::memory,
    build: |tree, _| boxed(Hfsc::new(tree)?),
};

const NONE: u32 = u32::MAX;
const ROOT: u32 = ClassId::ROOT.0;
/// Marks a class as a leaf among its siblings, so that the class itself need not be read.
const LEAF: u32 = 1 << 31;
/// Queries on the classes that are ready: v_max as well.
const READY: Also = Also { last: true, ahead: true };

#[derive(Debug)]
#[repr(align(64))]
struct Class {
    queue: LeafQueue,
    parent: u32,
    /// Index of the parent's children, itself among them, into `Hfsc::children`.
    siblings: u32,
    /// Place among the siblings: its id in the parent's heaps.
    place: u32,
    /// Index into `Hfsc::real_time`.
    real_time: u32,
    /// Index into `Hfsc::limits`.
    limit: u32,
    /// Index into `Hfsc::children`; [`NONE`] for a leaf.
    children: u32,
    /// True if it takes part in link-sharing.
    shares: bool,
    virtual_curve: Curve,
    virtual_time: u128,
    served: u64,
}

/// A leaf's real-time curve.
#[derive(Debug)]
struct RealTime {
    leaf: u32,
    deadlines: Curve,
    served: u64,
}

/// The children of one class that have packets to share for.
#[derive(Debug)]
#[repr(align(64))]
struct Children<W> {
    /// The class whose children these are.
    parent: u32,
    /// The children by place, in the order of the hierarchy: a leaf with [`LEAF`] set, or else the index of the class's
    /// own children.
    below: Box<[u32]>,
    /// Children by virtual time, with both ends.
    ready: Heap<W>,
    /// Above an upper limit, by fit time.
    held: Heap<W>,
    /// The largest virtual time that a child had when it left `ready`.
    level: u128,
    /// Maximum change of a child's virtual time per packet: the lag behind v_min of one that was held.
    step: u128,
}

impl<W: Work> Children<W> {
    #[inline(always)]
    fn is_active(&self) -> bool {
        !self.ready.is_empty() || !self.held.is_empty()
    }

    fn contains(&self, place: u32) -> bool {
        self.ready.contains(place) || self.held.contains(place)
    }

    fn take_from_ready(&mut self, place: u32) {
        if let Some(virtual_time) = self.ready.remove(place) {
            self.level = self.level.max(virtual_time);
        }
    }

    fn take(&mut self, place: u32) {
        self.take_from_ready(place);
        self.held.remove(place);
    }
}

/// H-FSC over a hierarchy. `W` counts its steps, for experiments: [`Counted`], or `()` for no count.
#[derive(Debug)]
pub struct Hfsc<W = ()> {
    classes: Stack<Class>,
    children: Stack<Children<W>>,
    real_time: Stack<RealTime>,
    limits: Stack<Limit>,
    slab: PacketSlab,
    /// Leaves with packets that are not eligible, by eligible time. Ids index `real_time`, here and in `eligible`.
    asleep: Heap<W>,
    /// Eligible leaves, by deadline.
    eligible: Heap<W>,
    max_packet: u32,
    now: Nanos,
    /// True if there are enough classes for prefetching.
    looks_ahead: bool,
    asked: Asked,
    joins: Joins,
    /// Classes that were updated.
    updated: W,
}

/// The start of a child that becomes active: v^s of its parent, between the least and the largest virtual time of its
/// siblings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joins {
    /// (v_min + v_max) / 2, as in \[hfsc\]; all uses except experiments.
    #[default]
    Between,
    /// v_min alone: the same if sessions of a packet each come one by one, beside one that waits and one that real time
    /// serves.
    Least,
    /// v_max alone: "results in a discrepancy proportional to the number of sessions" (Section 3.3).
    Most,
}

/// Work of a scheduler that counts it. Of priority queues it counts entries, and nodes of their tournaments, that are changed or compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Classes whose curves or virtual times were brought up to date.
    pub classes: u64,
    /// Steps in the queues of real-time requests: eligible times and deadlines.
    pub requests: u64,
    /// Steps in the queues of link-sharing requests: virtual times, and fit times of upper limits.
    pub sharing: u64,
}

impl Steps {
    /// Returns the steps since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            classes: self.classes - before.classes,
            requests: self.requests - before.requests,
            sharing: self.sharing - before.sharing,
        }
    }

    /// Steps in queues of both kinds.
    #[must_use]
    pub fn entries(self) -> u64 {
        self.requests + self.sharing
    }
}

/// The link-sharing curve of `class`; `None` for a leaf of real-time only. `beside_curves` is true if a sibling sets a
/// curve.
fn link_share(tree: &Hierarchy, class: ClassId, beside_curves: bool) -> Result<Option<Shape>, BuildError> {
    let config = tree.config(class);
    if let Some(curve) = config.link_share {
        let shape = Shape::from_curve(&curve).map_err(|what| BuildError::Curve { class, what })?;
        if shape.ends_flat() {
            return Err(BuildError::Curve { class, what: "a link-sharing curve that ends flat (m2 = 0)" });
        }
        return Ok(Some(shape));
    }
    let rate = match config.share {
        None if config.real_time.is_some() => return Ok(None),
        Some(Share::Guarantee(rate)) => rate.bps(),
        _ if beside_curves => tree.rate_all_busy(class).max(1),
        _ => tree.weight(class),
    };
    Ok(Some(Shape::line(rate << SLOPE_BITS)))
}

/// True by class id if a child of the class sets a link-sharing curve.
fn curves_below(tree: &Hierarchy) -> Result<Box<[bool]>, BuildError> {
    let mut curves = filled(tree.len(), false)?;
    for class in tree.classes().filter(|&class| tree.config(class).link_share.is_some()) {
        curves[tree.parent(class).map_or(0, ClassId::index)] = true;
    }
    Ok(curves)
}

/// Long-run slope of the class's link-sharing curve by class id, in bit/s or relative weights.
fn slopes(tree: &Hierarchy) -> Result<Vec<Option<u64>>, BuildError> {
    let curves_below = curves_below(tree)?;
    let slope = |class: ClassId| match tree.parent(class) {
        Some(parent) => {
            Ok(link_share(tree, class, curves_below[parent.index()])?.map(|shape| shape.slope() >> SLOPE_BITS))
        }
        None => Ok(None),
    };
    (0..tree.len()).map(|index| slope(ClassId(index as u32))).collect()
}

/// Number of inner classes, including the root.
fn inner_classes(tree: &Hierarchy) -> usize {
    tree.len() - tree.leaves().len()
}

impl Hfsc {
    /// Makes a scheduler for `tree`.
    ///
    /// # Errors
    /// [`BuildError::Curve`]; [`BuildError::NotAdmitted`] if the leaves' real-time curves do not fit the link.
    pub fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        Self::working(tree)
    }

    fn memory(tree: &Hierarchy) -> u64 {
        let curves = tree.leaves().iter().filter(|&&leaf| tree.config(leaf).real_time.is_some()).count();
        let limits = limits_of(tree);
        let all = core::iter::once(ClassId::ROOT).chain(tree.classes()).map(|class| tree.children(class).len());
        let held = |children| Heap::memory(if limits > 0 { children } else { 0 });
        let lists = |children| bytes_of::<u32>(children) + Heap::memory_knowing(children, READY) + held(children);
        let below: u64 = all.filter(|&children| children > 0).map(lists).sum();
        PacketSlab::memory(tree)
            + bytes_of::<(Class, bool)>(tree.len())
            + bytes_of::<Children<()>>(inner_classes(tree))
            + below
            + bytes_of::<RealTime>(curves)
            + 2 * Heap::memory(curves)
            + bytes_of::<Limit>(limits)
            + curves_memory(tree, curves)
    }
}

impl<W: Work> Hfsc<W> {
    /// Makes a scheduler for `tree` that counts its steps by `W`.
    ///
    /// # Errors
    /// As [`Hfsc::new`].
    pub fn working(tree: &Hierarchy) -> Result<Self, BuildError> {
        let asked = real_time_shapes(tree)?;
        admit(asked.iter().copied().flatten(), tree.link().rate)?;
        let mut slab = PacketSlab::for_tree(tree)?;
        let mut classes: Stack<Class> = Stack::with_room(tree.len())?;
        let mut children = Stack::with_room(inner_classes(tree))?;
        let curves = asked.iter().flatten().count();
        let (mut real_time, mut limits) = (Stack::with_room(curves)?, Stack::with_room(limits_of(tree))?);
        let curves_below = curves_below(tree)?;
        // Without limits, no class is ever held.
        let limited = limits_of(tree) > 0;
        for index in 0..tree.len() as u32 {
            let class = ClassId(index);
            let leaf = tree.is_leaf(class);
            let mut of = Class {
                queue: slab.queue_for(tree, class),
                parent: tree.parent(class).map_or(NONE, |parent| parent.0),
                siblings: tree.parent(class).map_or(NONE, |parent| classes[parent.index()].children),
                place: NONE,
                real_time: NONE,
                limit: NONE,
                children: NONE,
                shares: false,
                virtual_curve: Curve::new(Shape::line(1)),
                virtual_time: 0,
                served: 0,
            };
            if let Some(shape) = asked[class.index()] {
                of.real_time = real_time.len() as u32;
                real_time.push(RealTime { leaf: index, deadlines: Curve::new(shape), served: 0 });
            }
            if let Some(parent) = tree.parent(class) {
                if let Some(shape) = link_share(tree, class, curves_below[parent.index()])? {
                    of.shares = true;
                    of.virtual_curve = Curve::new(shape);
                }
                if let Some(limit) = Limit::for_class(tree, class)? {
                    of.limit = limits.len() as u32;
                    limits.push(limit);
                }
            }
            if !leaf {
                of.children = children.len() as u32;
                // Inner classes are set below, when they have their index.
                let below = slice(tree.children(class).len(), |place| tree.children(class)[place].0 | LEAF)?;
                let ready = Heap::knowing(below.len(), READY)?;
                let held = Heap::new(if limited { below.len() } else { 0 })?;
                children.push(Children { parent: index, below, ready, held, level: 0, step: 0 });
            }
            classes.push(of);
        }
        let link = tree.link();
        for of in children.iter_mut() {
            for (place, child) in of.below.iter_mut().enumerate() {
                let class = &mut classes[(*child & !LEAF) as usize];
                class.place = place as u32;
                if class.children != NONE {
                    *child = class.children;
                }
                if class.shares {
                    of.step = of.step.max(class.virtual_curve.shape().largest_step(link.max_packet));
                }
            }
        }
        let (asleep, eligible) = (Heap::new(real_time.len())?, Heap::new(real_time.len())?);
        Ok(Self {
            joins: Joins::default(),
            updated: W::default(),
            classes,
            children,
            real_time,
            limits,
            slab,
            asleep,
            eligible,
            max_packet: link.max_packet,
            now: Nanos::ZERO,
            looks_ahead: tree.len() >= LOOK_AHEAD_FROM,
            asked: Asked::NOBODY,
        })
    }

    /// Returns the smallest and the largest virtual time of the active children of `parent` that no upper limit blocks,
    /// in 2^-12 ns. `None` if there are none. \[hfsc\] Theorem 3 bounds their difference.
    #[must_use]
    pub fn virtual_times(&self, parent: ClassId) -> Option<(u128, u128)> {
        let children = self.children.get(self.classes.get(parent.index())?.children as usize)?;
        let ((_, least), most) = (children.ready.first()?, children.ready.last_key()?);
        Some((least, most))
    }

    /// Replaces the system virtual time, for experiments.
    #[must_use]
    pub fn with_joins(mut self, joins: Joins) -> Self {
        self.joins = joins;
        self
    }

    /// Returns the steps of all calls so far; 0 if they are not counted.
    #[must_use]
    pub fn steps(&self) -> Steps {
        let sharing = self.children.iter().flat_map(|children| [&children.ready, &children.held]);
        Steps {
            classes: self.updated.steps(),
            requests: self.asleep.steps() + self.eligible.steps(),
            sharing: sharing.map(Heap::steps).sum(),
        }
    }

    /// Returns the service of `leaf` by the real-time criterion, c_i, in bytes modulo 2^64; `None` if it has no
    /// real-time curve.
    #[must_use]
    pub fn served_in_time(&self, leaf: ClassId) -> Option<u64> {
        let of = self.classes.get(leaf.index())?;
        self.real_time.get(of.real_time as usize).map(|of| of.served)
    }

    #[inline(always)]
    fn children(&mut self, class: u32) -> &mut Children<W> {
        let children = self.classes[class as usize].children;
        &mut self.children[children as usize]
    }

    /// v^s of `parent`: the start of a child that becomes active.
    fn system_time(&self, parent: u32) -> u128 {
        match self.virtual_times(ClassId(parent)) {
            Some((least, most)) => match self.joins {
                Joins::Between => least + (most - least) / 2,
                Joins::Least => least,
                Joins::Most => most,
            },
            None => self.children[self.classes[parent as usize].children as usize].level,
        }
    }

    /// Returns the time from which an upper limit holds back neither `class` nor all classes with packets below it.
    fn fit(&self, class: u32) -> u128 {
        let of = &self.classes[class as usize];
        let own = self.limits.get(of.limit as usize).map_or(0, |limit| limit.fit_time(of.served));
        let below = match self.children.get(of.children as usize) {
            Some(children) if children.ready.is_empty() => children.held.first().map_or(0, |(_, fit)| fit),
            _ => 0,
        };
        own.max(below)
    }

    /// Lists `class`, which has packets to share for, with its parent under its virtual time or its fit time.
    fn list(&mut self, class: u32) {
        let of = &self.classes[class as usize];
        let (siblings, place, virtual_time) = (of.siblings as usize, of.place, of.virtual_time);
        if self.limits.is_empty() {
            return self.children[siblings].ready.set(place, virtual_time);
        }
        let (fit, now) = (self.fit(class), ticks(self.now));
        let children = &mut self.children[siblings];
        if fit > now {
            children.take_from_ready(place);
            children.held.set(place, fit);
        } else if children.held.contains(place) {
            self.release(class);
        } else {
            children.ready.set(place, virtual_time);
        }
    }

    /// Makes `class`, which was held, share again.
    fn release(&mut self, class: u32) {
        let of = &self.classes[class as usize];
        let (parent, place, mut virtual_time) = (of.parent, of.place, of.virtual_time);
        let children = self.children(parent);
        let least = children.ready.first().map_or(0, |(_, least)| least.saturating_sub(children.step));
        if virtual_time < least {
            let of = &mut self.classes[class as usize];
            of.virtual_curve.delay(least - virtual_time);
            of.virtual_time = least;
            virtual_time = least;
        }
        let children = self.children(parent);
        children.held.remove(place);
        children.ready.set(place, virtual_time);
    }

    /// Releases the children of `parent` that have become fit.
    fn release_fit(&mut self, parent: u32) {
        let now = ticks(self.now);
        while let Some((place, _)) = self.children(parent).held.first().filter(|&(_, fit)| fit <= now) {
            let child = self.children(parent).below[place as usize];
            let class = if child & LEAF == 0 { self.children[child as usize].parent } else { child & !LEAF };
            self.release(class);
        }
    }

    /// Wakes the leaves that have become eligible.
    fn wake_eligible(&mut self) {
        let now = ticks(self.now);
        while let Some((id, _)) = self.asleep.first().filter(|&(_, eligible)| eligible <= now) {
            self.asleep.remove(id);
            self.eligible.set(id, self.deadline(id));
        }
    }

    /// Returns the deadline of the head packet of a leaf with a real-time curve.
    fn deadline(&self, id: u32) -> u128 {
        let of = &self.real_time[id as usize];
        let len = self.classes[of.leaf as usize].queue.head_len().unwrap_or(0);
        of.deadlines.time_of(of.served.wrapping_add(u64::from(len)))
    }

    /// Lists a leaf with packets by its eligible time.
    fn list_real_time(&mut self, id: u32) {
        let of = &self.real_time[id as usize];
        let eligible_at = of.deadlines.eligible_at(of.served);
        if eligible_at <= ticks(self.now) {
            self.asleep.remove(id);
            self.eligible.set(id, self.deadline(id));
        } else {
            self.eligible.remove(id);
            self.asleep.set(id, eligible_at);
        }
    }

    /// Handles the first packet of a leaf: `update_ed` and `update_v` of Figures 6 and 7 for a class that becomes
    /// active.
    fn activate(&mut self, leaf: u32) {
        let id = self.classes[leaf as usize].real_time;
        if let Some(of) = self.real_time.get_mut(id as usize) {
            of.deadlines.lower_to(ticks(self.now), of.served);
            self.list_real_time(id);
        }
        if !self.classes[leaf as usize].shares {
            return;
        }
        let mut class = leaf;
        while class != ROOT {
            self.updated.add(1);
            let Class { parent, siblings, place, .. } = self.classes[class as usize];
            let siblings = &self.children[siblings as usize];
            if siblings.contains(place) {
                // Active before: only its fit time may have changed, and only if there are limits.
                if self.limits.is_empty() {
                    return;
                }
            } else {
                let system_time = self.system_time(parent);
                let now = ticks(self.now);
                let of = &mut self.classes[class as usize];
                if let Some(limit) = self.limits.get_mut(of.limit as usize) {
                    limit.begin(now, of.served);
                }
                of.virtual_curve.lower_to(system_time, of.served);
                of.virtual_time = of.virtual_curve.time_of(of.served).max(system_time);
            }
            self.list(class);
            class = parent;
        }
    }

    /// Sends the head packet of `leaf`, which has one, and brings everything on the way to the root up to date.
    fn send(&mut self, leaf: u32, by_real_time: bool, drops: &mut dyn DropSink) -> Option<Packet> {
        let of = &mut self.classes[leaf as usize];
        let packet = of.queue.dequeue(&mut self.slab, ClassId(leaf), self.now, drops)?;
        let len = u64::from(packet.len);
        let is_empty = of.queue.is_empty();
        let id = of.real_time;
        if let Some(real_time) = self.real_time.get_mut(id as usize) {
            if by_real_time {
                real_time.served = real_time.served.wrapping_add(len);
            }
            if is_empty {
                self.asleep.remove(id);
                self.eligible.remove(id);
            } else {
                self.list_real_time(id);
            }
        }
        self.charge(leaf, len, !is_empty);
        Some(packet)
    }

    /// Charges `len` sent bytes of `leaf` to it and to the classes above. `active` is true if it still has packets.
    #[inline(always)]
    fn charge(&mut self, leaf: u32, len: u64, mut active: bool) {
        let limited = !self.limits.is_empty();
        let now = ticks(self.now);
        let mut class = leaf;
        while class != ROOT {
            self.updated.add(1);
            let of = &mut self.classes[class as usize];
            if limited && let Some(limit) = self.limits.get_mut(of.limit as usize) {
                limit.send(now, of.served);
            }
            of.served = of.served.wrapping_add(len);
            let (at, place, parent) = (of.siblings as usize, of.place, of.parent);
            let siblings = &mut self.children[at];
            if siblings.ready.contains(place) || limited && siblings.held.contains(place) {
                let virtual_time = of.virtual_curve.time_of(of.served);
                of.virtual_time = virtual_time;
                if !active {
                    // The level counts the packet with which it stops.
                    siblings.level = siblings.level.max(virtual_time);
                    siblings.take(place);
                } else if limited {
                    self.list(class);
                } else {
                    siblings.ready.set(place, virtual_time);
                }
            }
            active = self.children[at].is_active();
            class = parent;
        }
    }

    /// Returns the leaf that link-sharing chooses.
    fn by_link_sharing(&mut self) -> Option<u32> {
        // The root is the first that has children.
        let mut at = 0;
        while at & LEAF == 0 {
            if !self.limits.is_empty() {
                self.release_fit(self.children[at as usize].parent);
            }
            let children = &self.children[at as usize];
            let (place, _) = children.ready.first()?;
            at = children.below[place as usize];
        }
        Some(at & !LEAF)
    }
}

impl<W: Work> PlainIn for Hfsc<W> {
    #[inline(always)]
    fn push_plain(&mut self, batch: &[Packet]) -> usize {
        push_behind(&mut self.classes, |class| &mut class.queue, &mut self.slab, self.max_packet, batch)
    }

    #[inline(always)]
    fn push_any(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue(now, packet, drops);
    }
}

impl<W: Work> Scheduler for Hfsc<W> {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let leaf = packet.class.0;
        let Some(of) = self.classes.get_mut(packet.class.index()).filter(|of| of.children == NONE) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        let was_empty = of.queue.is_empty();
        if of.queue.enqueue(&mut self.slab, now, packet, drops) && was_empty {
            self.activate(leaf);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        if self.slab.queued() == 0 {
            return Dequeued::Idle;
        }
        if self.looks_ahead {
            self.look_ahead();
        }
        if !self.real_time.is_empty() {
            self.wake_eligible();
        }
        let sent = match self.eligible.first() {
            Some((id, _)) => self.send(self.real_time[id as usize].leaf, true, drops),
            None => self.by_link_sharing().and_then(|leaf| self.send(leaf, false, drops)),
        };
        sent.map_or_else(
            || {
                let held = self.children(ROOT).held.first();
                let until = held.into_iter().chain(self.asleep.first()).map(|(_, time)| time).min();
                Dequeued::WaitUntil(nanos_up(until.unwrap_or(u128::MAX)))
            },
            Dequeued::Packet,
        )
    }

    fn enqueue_batch(&mut self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
        if self.looks_ahead {
            self.look_ahead_of(batch);
        }
        self.now = self.now.max(now);
        push_runs(self, now, batch, drops);
    }

    fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.classes.get(class.index()).map_or(Amount::default(), |class| class.queue.backlog(&self.slab))
    }

    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        let place = |of: &Class| (of.parent, of.place, of.real_time, of.limit, of.children, of.shares);
        let same = |(mine, theirs): (&Class, &Class)| place(mine) == place(theirs) && mine.queue.fits(&theirs.queue);
        if self.classes.len() != with.classes.len()
            || self.max_packet != with.max_packet
            || !self.slab.fits(&with.slab)
            || !self.classes.iter().zip(with.classes.iter()).all(same)
        {
            return false;
        }
        self.now = self.now.max(now);
        let now = ticks(self.now);
        self.slab.retune(&mut with.slab);
        let mut limits_differ = false;
        for (mine, theirs) in self.classes.iter_mut().zip(with.classes.iter()) {
            mine.queue.retune(&theirs.queue);
            // The virtual time stays and continues at another pace.
            mine.virtual_curve.retune(&theirs.virtual_curve, mine.virtual_time, mine.served);
            if let (Some(limit), Some(theirs)) =
                (self.limits.get_mut(mine.limit as usize), with.limits.get(theirs.limit as usize))
            {
                limits_differ |= limit.retune(theirs, now, mine.served);
            }
        }
        for (mine, theirs) in self.children.iter_mut().zip(with.children.iter()) {
            mine.step = theirs.step;
        }
        for (id, theirs) in (0u32..).zip(with.real_time.iter()) {
            let mine = &mut self.real_time[id as usize];
            let differs = mine.deadlines.retune(&theirs.deadlines, now, mine.served);
            if differs && (self.asleep.contains(id) || self.eligible.contains(id)) {
                self.list_real_time(id);
            }
        }
        // Children before their parents, whose fit times depend on theirs.
        let listed = if limits_differ { self.classes.len() as u32 } else { 0 };
        for class in (1..listed).rev() {
            let Class { parent, place, .. } = self.classes[class as usize];
            if self.children(parent).contains(place) {
                self.list(class);
            }
        }
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for (index, of) in self.classes.iter_mut().enumerate() {
            of.queue.purge(&mut self.slab, ClassId(index as u32), now, drops);
            of.virtual_curve = Curve::new(of.virtual_curve.shape());
            (of.virtual_time, of.served) = (0, 0);
        }
        for of in self.real_time.iter_mut() {
            (of.deadlines, of.served) = (Curve::new(of.deadlines.shape()), 0);
        }
        for limit in self.limits.iter_mut() {
            limit.reset();
        }
        for children in self.children.iter_mut() {
            [&mut children.ready, &mut children.held].into_iter().for_each(Heap::clear);
            children.level = 0;
        }
        self.asleep.clear();
        self.eligible.clear();
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        check::all(self)
    }
}

mod ahead;
#[cfg(feature = "invariants")]
mod check;
mod limit;
#[cfg(test)]
mod tests;
