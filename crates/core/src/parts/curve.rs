//! Two-piece linear service curves in integers, as \[hfsc\] Section 4 computes with them. They are the one kind of
//! curve that stays two pieces when it is updated.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | m^1, m^2: slopes | `Shape::m1`, `Shape::m2` | 2^-16 bit/s |
//! | x of a service curve | `Shape::d` | 2^-12 ns |
//! | start of a curve | `Curve::x`, `Curve::y` | 2^-12 ns, bytes |
//! | x_i, y_i: the knee | `Curve::dx`, `Curve::dy`, from the start on | 2^-12 ns, slope times time |
//! | X^-1(y) | [`Curve::time_of`] | 2^-12 ns |
//! | X = min(X, S(t - t_a) + c) | [`Curve::lower_to`] | |
//! | E^-1(c) | [`Curve::eligible_at`] | 2^-12 ns |
//!
//! Times may be virtual; nothing here depends on it.
//!
//! **Errors.** Service is counted in products of a slope and a time. A byte is exactly [`BYTE`] of them, so a value of
//! a curve has no error. A time from a division is rounded up, by less than one unit (a quarter of a picosecond). It is
//! always computed from the start of the curve, so such errors do not accumulate from packet to packet. An update puts
//! the new knee exactly on the old curve's second piece. So the second piece, the class's long-run rate, never drifts.
//! Only the end of the first piece may then be late, by up to one unit of time.
//!
//! **Overflow budget.** Slopes are below 2^56. The length of a first piece is cut to 2^58 ns (9 years), which is 2^70
//! units. So their product is below 2^126. A byte is below 2^61 units, so 2^64 bytes are below 2^125. Other products
//! saturate, which puts a deadline at "never". A count of bytes may wrap, because only differences count. These are
//! below 2^64 for 4.7 years of one backlogged period at 1 Tbit/s.
//!
//! **Validation.** `update_is_the_minimum_of_both_curves` compares with the definition, point by point.
//!
//! DIFFERENCE: a convex curve starts flat (m1 = 0), or is refused. The paper says that others do not stay two pieces.

use alloc::boxed::Box;

use super::memory::{Stack, bytes_of, filled};
use crate::contract::{BuildError, Hierarchy, NANOS_PER_SEC, Nanos, OutOfMemory, Rate, ServiceCurve};

/// Times count this fraction of a nanosecond: 2^-12.
pub(crate) const TIME_BITS: u32 = 12;
/// Slopes count this fraction of a bit per second: 2^-16.
pub(crate) const SLOPE_BITS: u32 = 16;
/// A byte of service, in units of a slope times a time.
pub(crate) const BYTE: u128 = (8 * NANOS_PER_SEC as u128) << (TIME_BITS + SLOPE_BITS);
/// Longest first piece, in nanoseconds.
const LONGEST: u64 = 1 << 58;

/// Converts `now` to the unit of times.
#[must_use]
pub(crate) const fn ticks(now: Nanos) -> u128 {
    (now.0 as u128) << TIME_BITS
}

/// Converts a time to whole nanoseconds, rounded up; [`Nanos::MAX`] if it does not fit.
#[must_use]
pub(crate) const fn nanos_up(ticks: u128) -> Nanos {
    let ns = ticks.div_ceil(1 << TIME_BITS);
    if ns > u64::MAX as u128 { Nanos::MAX } else { Nanos(ns as u64) }
}

/// A service curve S: slope `m1` for the time `d`, then slope `m2`. Concave if m1 > m2; a line if they are equal and
/// `d` is 0; convex if m1 = 0 < m2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    m1: u64,
    m2: u64,
    d: u128,
}

impl Shape {
    /// Makes a straight line of `slope` units.
    #[must_use]
    pub(crate) const fn line(slope: u64) -> Self {
        Self { m1: slope, m2: slope, d: 0 }
    }

    /// Converts the curve of a user.
    ///
    /// # Errors
    /// Describes the fault in words: the curve is convex and does not start flat, or has no slope at all.
    pub(crate) fn from_curve(curve: &ServiceCurve) -> Result<Self, &'static str> {
        let slope = |rate: Option<Rate>| rate.map_or(0, |rate| rate.bps() << SLOPE_BITS);
        let (m1, m2) = (slope(curve.m1), slope(curve.m2));
        match curve.d {
            _ if m1 == m2 && m2 > 0 => Ok(Self::line(m2)),
            Nanos::ZERO if m2 > 0 => Ok(Self::line(m2)),
            Nanos::ZERO => Err("a service curve without slope"),
            _ if m1 == 0 && m2 == 0 => Err("a service curve without slope"),
            _ if m1 < m2 && m1 > 0 => Err("a service curve that becomes steeper and does not start flat (0 < m1 < m2)"),
            d => Ok(Self { m1, m2, d: ticks(Nanos(d.0.min(LONGEST))) }),
        }
    }

    /// Returns true if it starts flat and becomes steep.
    #[must_use]
    pub(crate) const fn is_convex(&self) -> bool {
        self.m1 < self.m2
    }

    /// Returns true if the second piece is flat: total service is limited to the first piece.
    #[must_use]
    pub(crate) const fn ends_flat(&self) -> bool {
        self.m2 == 0
    }

    /// Returns the slope of the second piece, which is the long-term slope.
    #[must_use]
    pub(crate) const fn slope(&self) -> u64 {
        self.m2
    }

    /// Maximum change, by `len` bytes, of the time at which the curve reaches a class's service. It must not end flat.
    #[must_use]
    pub(crate) const fn largest_step(&self, len: u32) -> u128 {
        let flat = if self.is_convex() { self.d } else { 0 };
        flat + (len as u128 * BYTE).div_ceil(self.m2 as u128)
    }

    const fn knee(&self) -> u128 {
        self.m1 as u128 * self.d
    }
}

/// A deadline, virtual or upper-limit curve: a [`Shape`] that starts somewhere, or the minimum of several of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve {
    shape: Shape,
    x: u128,
    y: u64,
    dx: u128,
    dy: u128,
}

impl Curve {
    /// Makes the curve through time 0 and 0 bytes: that of a class that was never active.
    #[must_use]
    pub(crate) const fn new(shape: Shape) -> Self {
        Self { shape, x: 0, y: 0, dx: shape.d, dy: shape.knee() }
    }

    /// Moves the whole shape to time `x` and service `y` (bytes).
    pub(crate) const fn start(&mut self, x: u128, y: u64) {
        *self = Self { shape: self.shape, x, y, dx: self.shape.d, dy: self.shape.knee() };
    }

    /// Adopts the shape of `with` from time `x` and service `y` on. Returns true if the shape changed.
    pub(crate) fn retune(&mut self, with: &Self, x: u128, y: u64) -> bool {
        let differs = self.shape != with.shape;
        if differs {
            self.shape = with.shape;
            self.start(x, y);
        }
        differs
    }

    /// Returns the service at the start of the curve, in bytes.
    #[must_use]
    pub(crate) const fn start_service(&self) -> u64 {
        self.y
    }

    /// Its shape.
    #[must_use]
    pub(crate) const fn shape(&self) -> Shape {
        self.shape
    }

    /// Delays the curve by `time`.
    pub(crate) const fn delay(&mut self, time: u128) {
        self.x = self.x.saturating_add(time);
    }

    /// Returns the service from the curve's start on; 0 before it.
    fn value(&self, x: u128) -> u128 {
        let time = x.saturating_sub(self.x);
        if time < self.dx {
            // The first piece may end below m1 dx, by less than one unit of time.
            (u128::from(self.shape.m1).saturating_mul(time)).min(self.dy)
        } else {
            u128::from(self.shape.m2).saturating_mul(time - self.dx).saturating_add(self.dy)
        }
    }

    const fn service(&self, y: u64) -> u128 {
        y.wrapping_sub(self.y) as u128 * BYTE
    }

    /// Returns the earliest time at which the curve is at least `y` bytes, or `u128::MAX` for never. `y` must not be
    /// less than the service at the start.
    #[must_use]
    pub(crate) fn time_of(&self, y: u64) -> u128 {
        let service = self.service(y);
        if service == 0 {
            return self.x;
        }
        if service <= self.dy {
            return self.x.saturating_add(service.div_ceil(u128::from(self.shape.m1)));
        }
        self.on_second_piece(service)
    }

    fn on_second_piece(&self, service: u128) -> u128 {
        if self.shape.m2 == 0 {
            return u128::MAX;
        }
        let more = (service - self.dy).div_ceil(u128::from(self.shape.m2));
        self.x.saturating_add(self.dx).saturating_add(more)
    }

    /// Time at which the packet after `y` bytes of a class with this deadline curve becomes eligible, \[hfsc\] equation
    /// (10): the time at which the deadline curve reaches `y`. If that curve is convex, it is the line from its start
    /// with the slope of its second piece that must reach it.
    #[must_use]
    pub(crate) fn eligible_at(&self, y: u64) -> u128 {
        if self.shape.is_convex() {
            self.x.saturating_add(self.service(y).div_ceil(u128::from(self.shape.m2)))
        } else {
            self.time_of(y)
        }
    }

    /// Lowers the curve to its minimum with the shape that starts at time `x` with service `y`, as far as it is above
    /// `y`: \[hfsc\] equations (3), (7) and (11).
    pub(crate) fn lower_to(&mut self, x: u128, y: u64) {
        let below = self.service(y);
        if self.shape.is_convex() {
            // Both end in lines of the same slope, and only those lines are above `y`: the later one is lower.
            if x.saturating_add(self.shape.d) >= self.on_second_piece(below) {
                self.start(x, y);
            }
            return;
        }
        self.lower_concave_to(x, y, |curve, x| curve.value(x), below);
    }

    /// [`Curve::lower_to`] for a concave curve, if `y` may be below the service at the curve's start.
    pub(crate) fn lower_below(&mut self, x: u128, y: u64) {
        let above = self.y.wrapping_sub(y);
        if above >> 63 == 0 {
            let above = u128::from(above) * BYTE;
            self.lower_concave_to(x, y, |curve, x| curve.value(x).saturating_add(above), 0);
        } else {
            self.lower_to(x, y);
        }
    }

    /// Lowers the concave curve to the new one from `x` and `y` on. `value` and `below` are the curve and `y` above the
    /// same service.
    fn lower_concave_to(&mut self, x: u128, y: u64, value: impl Fn(&Self, u128) -> u128, below: u128) {
        // Concave: from `x` on, the old curve is never steeper than the new one, so that they cross at most once.
        if value(self, x) <= below {
            return;
        }
        let knee = self.shape.knee();
        if value(self, x.saturating_add(self.shape.d)) >= below.saturating_add(knee) {
            self.start(x, y);
            return;
        }
        // They cross within the new first piece, while the old curve is on its second: w + m1 k = D(from) + m2 (x + k -
        // from).
        let from = x.max(self.x.saturating_add(self.dx));
        let flat = u128::from(self.shape.m2);
        let gap = (value(self, from) - below).saturating_sub(flat * (from - x));
        let k = gap.div_ceil(u128::from(self.shape.m1 - self.shape.m2)).max(from - x);
        let dy = value(self, x + k) - below;
        *self = Self { shape: self.shape, x, y, dx: k, dy };
    }
}

/// Returns the real-time curves of the leaves of `tree`, by class id.
///
/// # Errors
/// [`BuildError::Curve`] for a curve of a kind that cannot be computed with, and for one at a class that is not a leaf.
pub(crate) fn real_time_shapes(tree: &Hierarchy) -> Result<Box<[Option<Shape>]>, BuildError> {
    let mut shapes = filled(tree.len(), None)?;
    for class in tree.classes() {
        let Some(curve) = tree.config(class).real_time else { continue };
        if !tree.is_leaf(class) {
            let what = "a real-time curve, which only a class without classes below it can have";
            return Err(BuildError::Curve { class, what });
        }
        shapes[class.index()] = Some(Shape::from_curve(&curve).map_err(|what| BuildError::Curve { class, what })?);
    }
    Ok(shapes)
}

/// Returns the line that each leaf has by its share of the link, by class id; 0 for the others. Rounded down to 2^-16
/// bit/s, the minimum for a leaf.
///
/// # Errors
/// [`OutOfMemory`] if the lines do not fit.
pub(crate) fn lines(tree: &Hierarchy) -> Result<Box<[u64]>, OutOfMemory> {
    let mut slopes = filled(tree.len(), 0)?;
    let link = u128::from(tree.link().rate.bps());
    for &leaf in tree.leaves() {
        slopes[leaf.index()] = ((link * tree.share_all_busy(leaf)) >> (64 - SLOPE_BITS)).max(1) as u64;
    }
    Ok(slopes)
}

/// Bytes that [`real_time_shapes`], [`lines`] and [`admit`] take together for `tree` while a scheduler is built.
pub(crate) const fn planning_memory(tree: &Hierarchy) -> u64 {
    let classes = tree.len();
    curves_memory(tree, classes) + bytes_of::<u64>(classes)
}

/// Memory of [`real_time_shapes`] and [`admit`] together, in bytes, if `curves` leaves of `tree` have such a curve.
pub(crate) const fn curves_memory(tree: &Hierarchy, curves: usize) -> u64 {
    bytes_of::<Option<Shape>>(tree.len()) + bytes_of::<(u128, u64, u64)>(curves)
}

/// Checks that `shapes` together stay below the capacity of the link, S(t) = R t, at every t \[hfsc\] Section 2.1.
///
/// # Errors
/// [`BuildError::NotAdmitted`] with the time after which they do not; [`BuildError::OutOfMemory`].
pub(crate) fn admit(shapes: impl Iterator<Item = Shape> + Clone, link: Rate) -> Result<(), BuildError> {
    let mut slope = 0u128;
    let mut knees = Stack::with_room(shapes.clone().count())?;
    for shape in shapes {
        if shape.d == 0 {
            slope += u128::from(shape.m2);
        } else {
            slope += u128::from(shape.m1);
            knees.push((shape.d, shape.m1, shape.m2));
        }
    }
    let link = u128::from(link.bps()) << SLOPE_BITS;
    // Service of the link minus the curves' requests; below 2^56 slopes times 2^70 times.
    let (mut spare, mut at) = (0u128, 0u128);
    for (d, m1, m2) in knees.into_sorted().into_iter().chain([(u128::MAX, 0, 0)]) {
        if slope > link && spare / (slope - link) < d - at {
            let fails_at = Nanos(((at + spare / (slope - link)) >> TIME_BITS) as u64);
            return Err(BuildError::NotAdmitted { fails_at });
        }
        if d < u128::MAX {
            spare = if slope > link { spare - (slope - link) * (d - at) } else { spare + (link - slope) * (d - at) };
            (slope, at) = (slope - u128::from(m1) + u128::from(m2), d);
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
