//! Disturbances of the machine while it sends real packets, and the limits beyond which these are not judged.
//!
//! The direct effects are measured: for how long a thread that was ready did not run, and which part of the link's time
//! the gateway lost while packets were queued, for whatever cause, such as another program or the hypervisor. What other
//! programs used is told beside them. It has no limit, because a machine with a free processor is not disturbed by it.

use std::fmt::Write as _;

use fairlink_testbed::{LIMIT_FOR_FRAMES, LostProcessor};

use fairlink_terminal::human;

/// The largest part of the link's time that may be lost. Shares are judged within 5 %.
const LIMIT_OF_LINK: f64 = 0.01;

/// The worst of all runs of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Disturbance {
    /// Of any thread.
    pub(super) lost: LostProcessor,
    /// The part of the link's time that was lost while packets were queued.
    pub(super) link: f64,
    /// The mean number of processors that other programs used, where that is known.
    pub(super) others: Option<f64>,
}

impl Disturbance {
    /// Adds what disturbed a further run.
    pub(super) fn add(&mut self, other: Self) {
        self.lost = LostProcessor { longest: self.lost.longest.max(other.lost.longest) };
        self.link = self.link.max(other.link);
        self.others = self.others.into_iter().chain(other.others).reduce(f64::max);
    }

    /// Returns the reason why what was measured is not judged; `None` if it can be.
    pub(super) fn reason(&self) -> Option<String> {
        let mut effects = Vec::new();
        if self.lost.longest > LIMIT_FOR_FRAMES {
            let [lost, limit] = [self.lost.longest, LIMIT_FOR_FRAMES].map(|time| human::time(time.as_secs_f64()));
            effects.push(format!("a thread waited for a processor for {lost} of half a second (limit {limit})"));
        }
        if self.link > LIMIT_OF_LINK {
            let [link, limit] = [self.link, LIMIT_OF_LINK].map(human::percent);
            effects.push(format!("{link} of the link's time were lost while packets were queued (limit {limit})"));
        }
        if effects.is_empty() {
            return None;
        }
        let mut text = format!("not judged, because the machine was disturbed: {}", effects.join("; "));
        if let Some(others) = self.others {
            let _ = write!(text, "; other programs used {others:.1} processors");
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn disturbance(lost_ms: u64, link: f64, others: Option<f64>) -> Disturbance {
        Disturbance { lost: LostProcessor { longest: Duration::from_millis(lost_ms) }, link, others }
    }

    #[test]
    fn a_machine_is_disturbed_beyond_either_limit_and_not_at_it() {
        assert_eq!(disturbance(100, 0.01, Some(2.0)).reason(), None);
        assert_eq!(
            disturbance(230, 0.01, None).reason().as_deref(),
            Some(
                "not judged, because the machine was disturbed: a thread waited for a processor for 230 ms of half a second (limit 100 ms)"
            )
        );
        assert_eq!(
            disturbance(230, 0.034, Some(1.25)).reason().as_deref(),
            Some(
                "not judged, because the machine was disturbed: a thread waited for a processor for 230 ms of half a second (limit 100 ms); \
                 3.4 % of the link's time were lost while packets were queued (limit 1 %); other programs used 1.2 processors"
            )
        );
        assert!(disturbance(0, 0.0101, None).reason().is_some());
    }

    #[test]
    fn the_worst_of_several_runs_counts() {
        let mut worst = Disturbance::default();
        for run in [disturbance(20, 0.0, None), disturbance(150, 0.002, Some(0.5)), disturbance(30, 0.02, Some(0.1))] {
            worst.add(run);
        }
        assert_eq!(worst, disturbance(150, 0.02, Some(0.5)));
    }
}
