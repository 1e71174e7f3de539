//! Packets and bytes of a class or a link.

use std::ops::AddAssign;

use fairlink_core::{Amount, Counters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cause::{ByCause, DropCause};

/// Packets and accounted bytes of a class or a link: received = sent + dropped + queued.
///
/// In a [`Span`](crate::Span) all but `queued` are those of the span, and `queued` is the queue at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Arrived.
    pub received: Amount,
    /// Given to the link.
    pub sent: Amount,
    /// Dropped, for all causes.
    pub dropped: Amount,
    /// Dropped, by cause. Absent if the causes are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_by: Option<ByCause>,
    /// Marked as having met congestion (CE). These are also sent, dropped or queued.
    pub marked: Amount,
    /// Queued.
    pub queued: Amount,
}

impl Counts {
    /// Makes counts from the counters and the backlog of a scheduler.
    #[must_use]
    pub fn of_scheduler(counters: &Counters, queued: Amount) -> Self {
        let counts = Self {
            received: counters.received,
            sent: counters.sent,
            marked: counters.marked,
            queued,
            ..Self::default()
        };
        counts.with_causes((&counters.dropped).into())
    }

    /// Sets the drops by cause, and their sum.
    #[must_use]
    pub fn with_causes(self, causes: ByCause) -> Self {
        Self { dropped: causes.total(), dropped_by: Some(causes), ..self }
    }

    /// Returns the drops for `cause`; zero if causes are not counted.
    #[must_use]
    pub fn dropped_for(&self, cause: DropCause) -> Amount {
        self.dropped_by.map_or(Amount::ZERO, |causes| causes[cause])
    }

    /// Returns true if received = sent + dropped + queued.
    #[must_use]
    pub fn balances(&self) -> bool {
        self.received == self.sent + self.dropped + self.queued
    }

    /// Returns the counts of the time since `earlier`, with the current queue; `None` if a counter is lower than in
    /// `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let causes = self.dropped_by.zip(earlier.dropped_by);
        Some(Self {
            received: self.received.checked_sub(earlier.received)?,
            sent: self.sent.checked_sub(earlier.sent)?,
            dropped: self.dropped.checked_sub(earlier.dropped)?,
            dropped_by: match causes {
                Some((now, earlier)) => Some(now.checked_sub(&earlier)?),
                None => None,
            },
            marked: self.marked.checked_sub(earlier.marked)?,
            queued: self.queued,
        })
    }

    /// Returns the part of the received packets that was dropped; `None` if none was received.
    #[must_use]
    pub fn lost(&self) -> Option<f64> {
        (self.received.packets > 0).then(|| self.dropped.packets as f64 / self.received.packets as f64)
    }
}

/// Adds another class. The sum has causes if both have them.
impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        self.received += other.received;
        self.sent += other.sent;
        self.dropped += other.dropped;
        self.dropped_by = self.dropped_by.zip(other.dropped_by).map(|(mut sum, other)| {
            sum += &other;
            sum
        });
        self.marked += other.marked;
        self.queued += other.queued;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(packets: u64) -> Amount {
        Amount { packets, bytes: packets * 100 }
    }

    fn counts(sent: u64, shed: u64, queued: u64) -> Counts {
        let mut causes = ByCause::default();
        causes[DropCause::Shed] = amount(shed);
        let counts = Counts { received: amount(sent + shed + queued), sent: amount(sent), ..Counts::default() };
        Counts { queued: amount(queued), ..counts }.with_causes(causes)
    }

    #[test]
    fn sums_and_differences_keep_the_account() {
        let (earlier, later) = (counts(3, 1, 2), counts(7, 2, 1));
        let since = later.since(&earlier).unwrap();
        assert_eq!(
            (since.received, since.sent, since.dropped, since.queued),
            (amount(4), amount(4), amount(1), amount(1))
        );
        assert_eq!(since.dropped_by.unwrap()[DropCause::Shed], amount(1));
        assert_eq!(earlier.since(&later), None);
        let mut sum = earlier;
        sum += &later;
        assert!(sum.balances() && sum == counts(10, 3, 3));
        sum.queued = amount(4);
        assert!(!sum.balances());
    }

    #[test]
    fn a_sum_with_unknown_causes_has_none() {
        let mut sum = counts(3, 1, 2);
        sum += &Counts { dropped_by: None, ..counts(1, 1, 0) };
        assert_eq!((sum.dropped, sum.dropped_by), (amount(2), None));
        let json = serde_json::to_value(sum).unwrap();
        assert!(json.get("dropped_by").is_none(), "{json}");
        assert_eq!(serde_json::from_value::<Counts>(json).unwrap(), sum);
    }
}
