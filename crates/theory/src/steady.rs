//! Rates of leaves that always have packets, measured with the scheduler itself in virtual time until they are stable.

use fairlink_core::{BuildError, ClassId, Hierarchy, Leniency, Scheduler, SchedulerInfo};

use crate::play::{Play, Source, Start, with_plain_queues};

/// Maximum relative difference of a leaf's stable rates in two stretches.
const STANDS: f64 = 0.02;

/// Rates in the last stretch of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    /// Rates by class id, in bit/s.
    pub rates_bps: Vec<f64>,
    /// Packets of the whole run.
    pub packets: u64,
    /// Largest difference between a leaf's rates in the last two stretches, as a part of the larger. Above 0.02 the run
    /// ended before its rates were stable.
    pub apart: f64,
}

/// Runs `info` on packets of `length` bytes at the leaves `busy`, the others idle. A run consists of stretches, each as
/// long as all before it, the first of at least `first` packets. It ends when each leaf's rate equals that of the
/// stretch before to 2 %, or when `most` packets were sent.
///
/// An initial burst does not count in a stable rate, if the first stretch outlasts it. Queues are plain ones: a leaf
/// that always has packets loses none.
///
/// # Errors
/// [`BuildError`] if the scheduler cannot be made for this tree.
pub fn steady(
    info: &SchedulerInfo,
    tree: &Hierarchy,
    busy: &[ClassId],
    length: u32,
    [first, most]: [u64; 2],
) -> Result<Steady, BuildError> {
    let plain = with_plain_queues(tree);
    let tree = plain.as_ref().unwrap_or(tree);
    let mut scheduler = info.build(tree, Leniency::Ignore, Vec::new())?;
    settle(&mut *scheduler, tree, busy, length, [first, most])
}

/// As [`steady`], with a scheduler for the classes of `tree`, whose link carries the packets.
pub(crate) fn settle(
    scheduler: &mut dyn Scheduler,
    tree: &Hierarchy,
    busy: &[ClassId],
    length: u32,
    [first, most]: [u64; 2],
) -> Result<Steady, BuildError> {
    let sources: Vec<Source> = busy.iter().map(|&leaf| Source { leaf, length, bps: None }).collect();
    let mut play = Play::new(tree, scheduler, &sources, Start::APART);
    let (mut bytes, mut packets) = (first.max(1) * u64::from(length.max(1)), 0);
    let mut before: Option<Vec<f64>> = None;
    loop {
        let (sent, span) = play.run(bytes);
        packets += sent[ClassId::ROOT.index()] / u64::from(length.max(1));
        let rates_bps: Vec<f64> = sent.iter().map(|&sent| sent as f64 * 8e9 / (span.0 as f64).max(1.0)).collect();
        if let Some(before) = before.replace(rates_bps.clone()) {
            let apart = |leaf: &ClassId| {
                let (one, other) = (before[leaf.index()], rates_bps[leaf.index()]);
                if one == other { 0.0 } else { (one - other).abs() / one.max(other) }
            };
            let apart = busy.iter().map(apart).fold(0.0, f64::max);
            if apart <= STANDS || packets >= most {
                return Ok(Steady { rates_bps, packets, apart });
            }
            bytes *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use fairlink_core::{ClassConfig, LinkConfig, Rate, Share, registry};

    use super::*;

    fn mbit(rate: u64) -> Rate {
        Rate::from_bps(rate * 1_000_000).unwrap()
    }

    /// Makes a link of 100 Mbit/s with these guarantees, quanta and bursts.
    fn tree(classes: &[(u64, u32, u64)]) -> Hierarchy {
        let mut tree = Hierarchy::builder(LinkConfig::new(mbit(100)));
        for &(guarantee, quantum, burst) in classes {
            let (share, quantum, burst) = (Some(Share::Guarantee(mbit(guarantee))), Some(quantum), Some(burst));
            tree.add(ClassId::ROOT, ClassConfig { share, quantum, burst, ..ClassConfig::default() }).unwrap();
        }
        tree.build().unwrap()
    }

    #[test]
    fn a_run_goes_on_until_what_a_burst_brought_is_behind() {
        let htb = registry::find("htb").unwrap();
        // The first has 60 Mbit/s, 10 of them out of its burst, for 1.6 s and 13,300 packets; then both borrow the 10.
        let tree = tree(&[(50, 10_000, 2_000_000), (40, 40_000, 2000)]);
        let run = steady(htb, &tree, tree.leaves(), 1500, [12_000, 1_000_000]).unwrap();
        assert!(run.apart <= STANDS && run.packets > 13_300, "{run:?}");
        assert!(
            (run.rates_bps[1] / 52e6 - 1.0).abs() < 0.02 && (run.rates_bps[2] / 48e6 - 1.0).abs() < 0.02,
            "{run:?}"
        );
        // An early end is reported.
        let cut = steady(htb, &tree, tree.leaves(), 1500, [200, 1]).unwrap();
        assert!(cut.packets <= 400 && cut.rates_bps[1] > 56e6, "{cut:?}");
    }

    #[test]
    fn leaves_that_are_not_busy_have_nothing() {
        let tree = tree(&[(10, 2000, 3000), (90, 18_000, 3000)]);
        let run = steady(registry::find("hls").unwrap(), &tree, &[ClassId(1)], 1500, [200, 10_000]).unwrap();
        assert_eq!((run.rates_bps[1].round(), run.rates_bps[2]), (100e6, 0.0));
        let none = steady(registry::find("hls").unwrap(), &tree, &[], 1500, [200, 10_000]).unwrap();
        assert_eq!((none.packets, none.apart), (0, 0.0));
    }
}
