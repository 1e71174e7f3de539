//! The rates that classes with a small explicit `ceiling_burst` reach under `hls`: less than their ceilings.
//!
//! A full token bucket loses the yield of its ceiling. Under `hls` the bucket is checked when the class is visited, so
//! that it fills between the end of its debt and the next visit. [`CeilingDepths`] derives a burst that loses nothing
//! for any traffic of the others; it is the default. A smaller one is kept as written, and may lose much of the
//! ceiling.
//!
//! The loss depends on the positions of visits in rounds, for which there is no closed formula: the same burst reaches
//! 54 % of its ceiling beside 17 busy siblings and all of it beside one. So it is measured: the scheduler itself runs
//! on the tree in virtual time. Leaves that the fluid ideal does not satisfy always have packets; the others get
//! packets at a constant rate. The accuracy depends on the length of the run: a few hundred cycles of the slowest
//! bucket, up to [`MAX_PACKETS`] packets. With packets of other lengths a class may reach a few percent more or less;
//! lengths that divide its burst can make more of a difference. So an ideal takes the rate only if runs with other
//! phases agree on it ([`crate::ideal`]).
//!
//! ```
//! use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Rate};
//! use fairlink_theory::reach::small_bursts;
//! use fairlink_theory::request::{Demand, Request};
//!
//! let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(100_000_000).unwrap()));
//! let ceiling = Rate::from_bps(20_000_000).ok();
//! let x = ClassConfig { ceiling, ceiling_burst: Some(100), ..ClassConfig::default() };
//! tree.add(ClassId::ROOT, x).unwrap();
//! for _ in 0..3 {
//!     tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
//! }
//! let tree = tree.build().unwrap();
//! let demand = Demand::uniform(&tree, Request::Unlimited);
//! let small = small_bursts(&tree, &demand, |_| 1500)?;
//! assert!(small[0].reached_bps < 19_000_000 && small[0].enough > 1500);
//! # Ok::<(), fairlink_core::BuildError>(())
//! ```

use std::fmt;

use fairlink_core::schedulers::hls::{CeilingDepths, Hls};
use fairlink_core::{BuildError, ClassId, Feature, Hierarchy, Rate, SchedulerInfo, Sharing};

use crate::hmm::Allocation;
use crate::play::{Play, Source, Start, with_plain_queues};
use crate::request::{Demand, Request};
use crate::turns::{enough_in_words, in_words};

/// Maximum number of packets in a run, after a tenth of this number as a warm-up; takes a fraction of a second.
pub const MAX_PACKETS: u64 = 1_500_000;
/// Number of cycles of the slowest bucket in a run if [`MAX_PACKETS`] suffice: one cycle more or less is half a
/// percent.
const CYCLES: u64 = 100;
/// A class that reaches at least this part of its ceiling has a negligible loss.
const ENOUGH: f64 = 0.99;
/// Returns true if explicit bursts may keep classes from their ceilings under this scheduler: `hls`, which shares among siblings and has
/// bursts at ceilings.
#[must_use]
pub fn may_lose(info: &SchedulerInfo) -> bool {
    matches!(info.sharing, Sharing::Siblings) && info.supports(Feature::CeilingBurst)
}

/// A class whose explicit `ceiling_burst` costs it a part of its ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallBurst {
    /// The class.
    pub class: ClassId,
    /// Its `ceiling_burst` in bytes.
    pub burst: u64,
    /// Burst in bytes that loses nothing for any traffic of the others: the smallest that [`CeilingDepths`] derives.
    pub enough: u64,
    /// Its ceiling in bit/s.
    pub ceiling_bps: u64,
    /// Reached rate, in bit/s.
    pub reached_bps: u64,
    /// Number of busy leaves while it is limited to that rate.
    pub busy: usize,
}

/// Classes for which [`all_small_bursts`] looks for a demand of their own.
pub const MAX_SEARCHED: usize = 16;

/// Like [`small_bursts`] while all leaves are busy. Classes whose share is then below their ceiling are run again, each
/// while as many others are busy as leave it its ceiling, and three quarters, a half and a quarter of these: the leaves
/// that get most are removed first. The first [`MAX_SEARCHED`] of them.
///
/// # Errors
/// Those of [`small_bursts`].
pub fn all_small_bursts(tree: &Hierarchy) -> Result<Vec<SmallBurst>, BuildError> {
    let length = |_| tree.link().max_packet;
    let greedy = Demand::uniform(tree, Request::Unlimited);
    let mut found = small_bursts(tree, &greedy, length)?;
    let suspects = suspects(tree)?;
    if suspects.len() == found.len() {
        return Ok(found);
    }
    let ideal = Allocation::solve(tree, &greedy);
    let held = |&Suspect { class, ceiling, .. }: &Suspect| {
        ideal.floor_bps(class) < ceiling.bps() - ceiling.bps() / 1000 && found.iter().all(|burst| burst.class != class)
    };
    let held: Vec<Suspect> = suspects.into_iter().filter(held).take(MAX_SEARCHED).collect();
    for Suspect { class, ceiling, .. } in held {
        let below = |mut at: ClassId| {
            while at.0 > class.0 {
                at = tree.parent(at).unwrap_or(ClassId::ROOT);
            }
            at == class
        };
        let (inside, mut outside): (Vec<ClassId>, Vec<ClassId>) = tree.leaves().iter().partition(|&&leaf| below(leaf));
        outside.sort_by_key(|&leaf| ideal.floor_bps(leaf));
        let demand = |others: usize| {
            let busy = inside.iter().chain(&outside[..others]);
            Demand::new(tree, busy.map(|&leaf| (leaf, Request::Unlimited))).unwrap_or_else(|_| greedy.clone())
        };
        let (mut fits, mut too_many) = (0, outside.len());
        while too_many - fits > 1 {
            let others = usize::midpoint(fits, too_many);
            let has_it = Allocation::solve(tree, &demand(others)).floor_bps(class) + 1 >= ceiling.bps();
            *(if has_it { &mut fits } else { &mut too_many }) = others;
        }
        // A class that has just its ceiling for a share is seldom held back, and one beside few others is visited soon.
        let mut worst: Option<SmallBurst> = None;
        for quarters in 1..=4 {
            let small = small_bursts(tree, &demand(fits * quarters / 4), length)?;
            let small = small.into_iter().filter(|burst| burst.class == class);
            worst = worst.into_iter().chain(small).min_by_key(|burst| burst.reached_bps);
        }
        found.extend(worst);
    }
    found.sort_by_key(|burst| burst.class.0);
    Ok(found)
}

/// A class with an explicit burst below the smallest one that is known to lose nothing.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    class: ClassId,
    ceiling: Rate,
    burst: u64,
    enough: u64,
    /// Maximum debt of its bucket, in bytes.
    debt: u64,
}

fn suspects(tree: &Hierarchy) -> Result<Vec<Suspect>, BuildError> {
    let explicit = |class: ClassId| tree.config(class).ceiling.zip(tree.config(class).ceiling_burst);
    if !tree.classes().any(|class| explicit(class).is_some()) {
        return Ok(Vec::new());
    }
    let depths = CeilingDepths::for_tree(tree)?;
    let suspect = |class: ClassId| {
        let (ceiling, burst) = explicit(class)?;
        let (enough, debt) = (depths.bytes(tree, class, ceiling), depths.debt(class));
        (burst < enough).then_some(Suspect { class, ceiling, burst, enough, debt })
    };
    Ok(tree.classes().filter_map(suspect).collect())
}

/// Returns the classes of `tree` that reach less than 0.99 of their fluid ideal within their ceilings under `hls`, in
/// order, because their `ceiling_burst` is small. The leaves request `demand` in packets of `length` bytes, at most the
/// largest packet. Empty, without a run, if no `ceiling_burst` is below the default.
///
/// # Errors
/// Those of [`Hls::new`].
///
/// # Panics
/// When `demand` was made for a tree of another size.
pub fn small_bursts(
    tree: &Hierarchy,
    demand: &Demand,
    length: impl Fn(ClassId) -> u32,
) -> Result<Vec<SmallBurst>, BuildError> {
    let suspects = suspects(tree)?;
    if suspects.is_empty() {
        return Ok(Vec::new());
    }
    let ideal = Allocation::solve(tree, demand);
    Ok(measured(tree, demand, length, &ideal, suspects)?.0)
}

/// A burst that may keep a class from the rate that the fluid ideal gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CostlyCeiling {
    pub(crate) class: ClassId,
    burst: u64,
    enough: u64,
}

impl fmt::Display for CostlyCeiling {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { burst, enough, .. } = self;
        write!(
            out,
            "how much of its ceiling it reaches with a ceiling_burst of {} follows from the lengths and times of packets; {} are always enough",
            in_words(*burst),
            enough_in_words(*enough),
        )
    }
}

/// Returns the class whose `ceiling_burst` may cost it more than a hundredth of its fluid ideal, the one that loses most;
/// `None` if there is none. If packets do not come evenly, no run tells, and any burst below what is always enough counts
/// while the class has its ceiling.
///
/// # Errors
/// Those of [`Hls::new`].
pub(crate) fn burst_may_cost(
    tree: &Hierarchy,
    demand: &Demand,
    length: impl Fn(ClassId) -> u32,
    is_even: bool,
) -> Result<Option<CostlyCeiling>, BuildError> {
    let suspects = suspects(tree)?;
    if suspects.is_empty() {
        return Ok(None);
    }
    let ideal = Allocation::solve(tree, demand);
    let held = |one: &Suspect| ideal.floor_bps(one.class) >= one.ceiling.bps() - one.ceiling.bps() / 1000;
    let costly = |&Suspect { class, burst, enough, .. }: &Suspect| CostlyCeiling { class, burst, enough };
    if !is_even && let Some(first) = suspects.iter().find(|one| held(one)) {
        return Ok(Some(costly(first)));
    }
    let (small, not_judged) = measured(tree, demand, length, &ideal, suspects)?;
    let worst = small.into_iter().min_by(|one, other| {
        let part = |small: &SmallBurst| small.reached_bps as f64 / small.ceiling_bps as f64;
        part(one).total_cmp(&part(other))
    });
    let worst = worst.map(|SmallBurst { class, burst, enough, .. }| CostlyCeiling { class, burst, enough });
    Ok(worst.or_else(|| not_judged.iter().find(|one| held(one)).map(costly)))
}

/// Returns those of `suspects` that reach less than 0.99 of `ideal` in a run, and those whose buckets are too slow for one.
fn measured(
    tree: &Hierarchy,
    demand: &Demand,
    length: impl Fn(ClassId) -> u32,
    ideal: &Allocation,
    suspects: Vec<Suspect>,
) -> Result<(Vec<SmallBurst>, Vec<Suspect>), BuildError> {
    // Bytes of the link while a class sends the yield and the debt of its bucket.
    let link = u128::from(tree.link().rate.bps());
    let cycle = |&Suspect { class, enough, debt, .. }: &Suspect| {
        u128::from(enough + debt) * link / u128::from(ideal.floor_bps(class).max(1))
    };
    let most = u128::from(MAX_PACKETS) * u128::from(tree.link().max_packet.min(1500));
    // A class with too few observations is not judged.
    let (judged, not_judged): (Vec<Suspect>, Vec<Suspect>) =
        suspects.into_iter().partition(|suspect| u128::from(CYCLES) / 2 * cycle(suspect) <= most);
    let Some(slowest) = judged.iter().map(cycle).max() else { return Ok((Vec::new(), not_judged)) };
    let bytes = (u128::from(CYCLES) * slowest).min(most) as u64;
    let reached = play(tree, demand, ideal, length, (bytes / 10, bytes))?;
    let busy = tree.leaves().iter().filter(|&&leaf| demand.get(leaf).is_some_and(|asked| asked != Request::Rate(0)));
    let busy = busy.count();
    let loses = |Suspect { class, ceiling, burst, enough, .. }: Suspect| {
        let (reached_bps, given) = (reached[class.index()], ideal.floor_bps(class));
        let loses = (reached_bps as f64) < ENOUGH * given as f64;
        let ceiling_bps = ceiling.bps();
        loses.then_some(SmallBurst { class, burst, enough, ceiling_bps, reached_bps, busy })
    };
    Ok((judged.into_iter().filter_map(loses).collect(), not_judged))
}

/// Measures the rate of each class in bit/s while the link sends `bytes`, after a warm-up of `before` bytes. A leaf
/// that `ideal` satisfies sends packets at its requested rate, any other always has some.
fn play(
    tree: &Hierarchy,
    demand: &Demand,
    ideal: &Allocation,
    length: impl Fn(ClassId) -> u32,
    (before, bytes): (u64, u64),
) -> Result<Vec<u64>, BuildError> {
    // The same tree with plain queues can be built if the tree could.
    let tree = &with_plain_queues(tree).unwrap_or_else(|_| tree.clone());
    let source = |&leaf: &ClassId| {
        let bps = match demand.get(leaf)? {
            Request::Rate(0) => return None,
            Request::Rate(bps) if ideal.class(leaf).satisfied => Some(bps),
            _ => None,
        };
        Some(Source { leaf, length: length(leaf).clamp(1, tree.link().max_packet), bps })
    };
    let sources: Vec<Source> = tree.leaves().iter().filter_map(source).collect();
    let mut hls = Hls::new(tree)?;
    let mut play = Play::new(tree, &mut hls, &sources, Start::APART);
    play.run(before);
    let (sent, span) = play.run(bytes);
    let span = u128::from(span.0).max(1);
    Ok(sent.iter().map(|&bytes| (u128::from(bytes) * 8_000_000_000 / span) as u64).collect())
}

#[cfg(test)]
mod tests;
