//! Upper limits of classes under H-FSC: the time until which a class is blocked, and its savings meanwhile.
//!
//! The limit curve U starts anew when the class becomes active, so an idle class saves nothing. A class is fit once U
//! has reached its service. While it is fit and waits for its turn, U grows, up to the service and a burst B. So for
//! any interval
//!
//! > W(s, t] <= U(t - s) + B + L_max
//!
//! for service by link-sharing.

use crate::contract::{BuildError, ClassId, Hierarchy};
use crate::parts::curve::{Curve, SLOPE_BITS, Shape};

/// The upper limit of one class.
#[derive(Debug)]
pub(super) struct Limit {
    /// It starts at the service of the class, or above by the rest of the burst.
    curve: Curve,
    /// Burst in bytes.
    burst: u64,
}

/// Classes that have an upper limit.
pub(super) fn limits_of(tree: &Hierarchy) -> usize {
    let limited = |class: &ClassId| {
        let config = tree.config(*class);
        config.ceiling.is_some() || config.upper_limit.is_some()
    };
    tree.classes().filter(limited).count()
}

/// Returns the curve of `class`, and its largest slope in bit/s.
fn shape(tree: &Hierarchy, class: ClassId) -> Result<Option<(Shape, u64)>, BuildError> {
    let config = tree.config(class);
    let refused = |what| BuildError::Curve { class, what };
    match (config.upper_limit, config.ceiling) {
        (None, None) => Ok(None),
        (None, Some(ceiling)) => Ok(Some((Shape::line(ceiling.bps() << SLOPE_BITS), ceiling.bps()))),
        (Some(_), Some(_)) => Err(refused("a ceiling and an upper limit; one of them is enough")),
        (Some(curve), None) => {
            let shape = Shape::from_curve(&curve).map_err(refused)?;
            if shape.is_convex() || shape.ends_flat() {
                return Err(refused("an upper limit that is flat somewhere"));
            }
            let bps = curve.m1.max(curve.m2).map_or(0, |rate| rate.bps());
            Ok(Some((shape, bps)))
        }
    }
}

/// Yield of a limit of `bps` in the longest expected wait of `class` for its turn while there is room for it to send at
/// its limit: two largest packets of each child of every class above it, at that class's rate; and two packets. The
/// rate is that when all are busy, or `bps` if that is more, as the class above must get that much for the room to
/// exist. So the burst is at most two packets for each of these children, even for a tiny share. A class makes up for
/// no more than that after others kept it from its limit for long.
fn default_burst(tree: &Hierarchy, class: ClassId, bps: u64) -> u64 {
    let largest = u128::from(tree.link().max_packet);
    let (mut burst, mut at) = (2 * largest, class);
    while let Some(parent) = tree.parent(at) {
        let packets = 2 * tree.children(parent).len() as u128 * largest;
        burst += packets * u128::from(bps) / u128::from(tree.rate_all_busy(parent).max(bps).max(1));
        at = parent;
    }
    u64::try_from(burst).unwrap_or(u64::MAX).min(LARGEST_BURST)
}

/// Services are compared as numbers that may wrap: a burst is far below half of their range.
const LARGEST_BURST: u64 = 1 << 62;

impl Limit {
    /// Returns the limit of `class`, if it has one.
    ///
    /// # Errors
    /// [`BuildError::Curve`].
    pub(super) fn for_class(tree: &Hierarchy, class: ClassId) -> Result<Option<Self>, BuildError> {
        let Some((shape, bps)) = shape(tree, class)? else { return Ok(None) };
        let burst = tree.config(class).ceiling_burst.map(|burst| burst.min(LARGEST_BURST));
        let burst = burst.unwrap_or_else(|| default_burst(tree, class, bps));
        Ok(Some(Self { curve: Curve::new(shape), burst }))
    }

    /// Adopts the limit of `with` from `now` on, after `served` bytes of the class. Returns true if it changed.
    pub(super) fn retune(&mut self, with: &Self, now: u128, served: u64) -> bool {
        self.burst = with.burst;
        self.curve.retune(&with.curve, now, served)
    }

    /// Activates the class, with `served` bytes sent so far, at `now`, a time in the curve's unit.
    pub(super) fn begin(&mut self, now: u128, served: u64) {
        self.curve.lower_below(now, served);
    }

    /// Called when a packet of the class is about to be sent at `now`.
    pub(super) fn send(&mut self, now: u128, served: u64) {
        self.curve.lower_to(now, served.wrapping_add(self.burst));
    }

    /// Returns the time from which the class is fit.
    pub(super) fn fit_time(&self, served: u64) -> u128 {
        if self.saved(served) > 0 { 0 } else { self.curve.time_of(served) }
    }

    /// Resets to the state before the first packet.
    pub(super) fn reset(&mut self) {
        self.curve = Curve::new(self.curve.shape());
    }

    /// Bytes by which the curve starts above `service`, which may wrap.
    fn saved(&self, service: u64) -> u64 {
        let above = self.curve.start_service().wrapping_sub(service);
        if above >> 63 == 0 { above } else { 0 }
    }
}
