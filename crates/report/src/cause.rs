//! Reasons for dropping a packet: key in JSON, text, and amounts by reason.

use std::borrow::Cow;
use std::fmt;
use std::ops::{AddAssign, Index, IndexMut};

use fairlink_core::{Amount, DropReason};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// A reason for dropping a packet, anywhere on its way: by the scheduler, or at the edges of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DropCause {
    /// The queue of the class holds its limit of packets.
    QueuePackets,
    /// The queue of the class holds its limit of bytes.
    QueueBytes,
    /// All queues together hold the limit of packets.
    TotalPackets,
    /// The packet was in the longest queue when another arrived and all queues together held the limit of packets.
    PushedOut,
    /// The packet is longer than the link's largest packet, or than a frame buffer or the output takes.
    TooLong,
    /// The packet names a class that does not exist or is not a leaf.
    NotALeaf,
    /// The active queue dropped it to signal congestion.
    Congestion,
    /// The queues were emptied.
    Purged,
    /// A reload removed the class.
    ClassRemoved,
    /// The frame has no whole Ethernet header.
    Runt,
    /// The checksum was left to hardware and cannot be computed here.
    Checksum,
    /// An offload joined it from packets that it cannot be split into here.
    Joined,
    /// Frames arrived faster than the data thread fetches them, and the class had a long queue.
    Shed,
    /// The packet was held while the data thread paused, and later packets have passed it.
    Stale,
    /// The kernel refused it at the output.
    RefusedByInterface,
    /// As [`DropCause::Shed`], in the kernel, before it was fetched.
    ShedEarly,
}

impl DropCause {
    /// Number of causes.
    pub const COUNT: usize = 16;

    /// All causes, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::QueuePackets,
        Self::QueueBytes,
        Self::TotalPackets,
        Self::PushedOut,
        Self::TooLong,
        Self::NotALeaf,
        Self::Congestion,
        Self::Purged,
        Self::ClassRemoved,
        Self::Runt,
        Self::Checksum,
        Self::Joined,
        Self::Shed,
        Self::Stale,
        Self::RefusedByInterface,
        Self::ShedEarly,
    ];

    /// Returns the key in JSON, in metrics and in traces, and the text for people.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::QueuePackets => ("queue_packets", DropReason::QueuePackets.as_str()),
            Self::QueueBytes => ("queue_bytes", DropReason::QueueBytes.as_str()),
            Self::TotalPackets => ("total_packets", DropReason::TotalPackets.as_str()),
            Self::PushedOut => ("pushed_out", DropReason::PushedOut.as_str()),
            Self::TooLong => ("too_long", DropReason::TooLong.as_str()),
            Self::NotALeaf => ("not_a_leaf", DropReason::NotALeaf.as_str()),
            Self::Congestion => ("congestion", DropReason::Congestion.as_str()),
            Self::Purged => ("purged", DropReason::Purged.as_str()),
            Self::ClassRemoved => ("class_removed", DropReason::ClassRemoved.as_str()),
            Self::Runt => ("runt", "no whole Ethernet header"),
            Self::Checksum => ("checksum", "checksum cannot be computed"),
            Self::Joined => ("joined", "joined by an offload and cannot be split"),
            Self::Shed => ("shed", "shed: arrivals faster than the processor"),
            Self::Stale => ("stale", "held while the gateway paused"),
            Self::RefusedByInterface => ("refused_by_interface", "refused by the interface"),
            Self::ShedEarly => ("shed_early", "shed before they were fetched"),
        }
    }

    /// Returns the key in JSON, in metrics and in traces.
    #[must_use]
    pub const fn key(self) -> &'static str {
        self.words().0
    }

    /// Returns the cause in a few words, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.words().1
    }

    /// Returns the cause with this number, `cause as u8`.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Returns the cause with this key.
    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.key() == key)
    }

    /// Returns true if no scheduler could have sent the packet.
    #[must_use]
    pub const fn is_unfit(self) -> bool {
        matches!(self, Self::TooLong | Self::Runt | Self::Checksum | Self::Joined | Self::RefusedByInterface)
    }

    /// Returns true if the packet was dropped because the data thread was late.
    #[must_use]
    pub const fn is_late(self) -> bool {
        matches!(self, Self::Shed | Self::ShedEarly | Self::Stale)
    }
}

impl From<DropReason> for DropCause {
    fn from(reason: DropReason) -> Self {
        match reason {
            DropReason::QueuePackets => Self::QueuePackets,
            DropReason::QueueBytes => Self::QueueBytes,
            DropReason::TotalPackets => Self::TotalPackets,
            DropReason::PushedOut => Self::PushedOut,
            DropReason::TooLong => Self::TooLong,
            DropReason::NotALeaf => Self::NotALeaf,
            DropReason::Congestion => Self::Congestion,
            DropReason::Purged => Self::Purged,
            DropReason::ClassRemoved => Self::ClassRemoved,
        }
    }
}

/// Dropped packets and bytes by cause. In JSON: an object with a key for each cause that has occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByCause([Amount; DropCause::COUNT]);

impl ByCause {
    /// Returns the sum over all causes.
    #[must_use]
    pub fn total(&self) -> Amount {
        self.0.iter().copied().sum()
    }

    /// Returns the sum over the causes that `take` accepts.
    pub fn sum_of(&self, take: impl Fn(DropCause) -> bool) -> Amount {
        self.iter().filter(|&(cause, _)| take(cause)).map(|(_, amount)| amount).sum()
    }

    /// Iterates over the causes that have occurred, in the order of [`DropCause::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (DropCause, Amount)> + '_ {
        DropCause::ALL.into_iter().zip(self.0).filter(|(_, amount)| amount.packets > 0)
    }

    /// Returns the amounts counted since `earlier`; `None` if `earlier` has more of a cause.
    #[must_use]
    pub fn checked_sub(&self, earlier: &Self) -> Option<Self> {
        let mut since = *self;
        for (amount, &earlier) in since.0.iter_mut().zip(&earlier.0) {
            *amount = amount.checked_sub(earlier)?;
        }
        Some(since)
    }
}

impl Index<DropCause> for ByCause {
    type Output = Amount;
    fn index(&self, cause: DropCause) -> &Amount {
        &self.0[cause as usize]
    }
}

impl IndexMut<DropCause> for ByCause {
    fn index_mut(&mut self, cause: DropCause) -> &mut Amount {
        &mut self.0[cause as usize]
    }
}

impl AddAssign<&Self> for ByCause {
    fn add_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, &amount)| *sum += amount);
    }
}

/// The counters of a scheduler, by [`DropReason::index`].
impl From<&[Amount; DropReason::ALL.len()]> for ByCause {
    fn from(dropped: &[Amount; DropReason::ALL.len()]) -> Self {
        let mut causes = Self::default();
        for (reason, &amount) in DropReason::ALL.into_iter().zip(dropped) {
            causes[reason.into()] = amount;
        }
        causes
    }
}

impl JsonSchema for ByCause {
    fn schema_name() -> Cow<'static, str> {
        "ByCause".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut described = |cause: DropCause| {
            let mut amount = generator.subschema_for::<Amount>();
            amount.insert("description".into(), format!("Dropped: {}.", cause.text()).into());
            (cause.key().to_owned(), amount.into())
        };
        let causes: serde_json::Map<String, serde_json::Value> =
            DropCause::ALL.into_iter().map(&mut described).collect();
        json_schema!({
            "type": "object",
            "description": "Dropped packets and bytes by cause; only causes that have occurred.",
            "properties": causes,
        })
    }
}

impl Serialize for ByCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(cause, amount)| (cause.key(), amount)))
    }
}

/// Skips causes that this version does not know.
impl<'de> Deserialize<'de> for ByCause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Causes;
        impl<'de> Visitor<'de> for Causes {
            type Value = ByCause;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of amounts by drop cause")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ByCause, A::Error> {
                let mut causes = ByCause::default();
                while let Some((key, amount)) = map.next_entry::<String, Amount>()? {
                    if let Some(cause) = DropCause::from_key(&key) {
                        causes[cause] = amount;
                    }
                }
                Ok(causes)
            }
        }
        deserializer.deserialize_map(Causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_number_and_a_key_of_its_own() {
        for (number, cause) in DropCause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
            assert_eq!(DropCause::from_code(number as u8), Some(cause));
            assert_eq!(DropCause::from_key(cause.key()), Some(cause));
        }
        assert_eq!(DropCause::from_code(DropCause::COUNT as u8), None);
        for reason in DropReason::ALL {
            assert_eq!(DropCause::from(reason) as usize, reason.index(), "the scheduler's causes come first");
        }
    }

    #[test]
    fn only_causes_that_have_occurred_are_written() {
        let mut causes = ByCause::default();
        assert_eq!(serde_json::to_string(&causes).unwrap(), "{}");
        causes[DropCause::Shed].count(100u32);
        causes[DropCause::QueueBytes].count(60u32);
        causes[DropCause::QueueBytes].count(40u32);
        let json = serde_json::to_string(&causes).unwrap();
        assert_eq!(json, r#"{"queue_bytes":{"packets":2,"bytes":100},"shed":{"packets":1,"bytes":100}}"#);
        assert_eq!(serde_json::from_str::<ByCause>(&json).unwrap(), causes);
        assert_eq!(causes.total(), Amount { packets: 3, bytes: 200 });
        assert_eq!(causes.sum_of(DropCause::is_late), Amount { packets: 1, bytes: 100 });
    }

    #[test]
    fn a_cause_of_a_later_version_is_skipped() {
        let json = r#"{"solar_flare":{"packets":2,"bytes":9},"runt":{"packets":1,"bytes":7}}"#;
        let causes: ByCause = serde_json::from_str(json).unwrap();
        assert_eq!(causes.total(), Amount { packets: 1, bytes: 7 });
    }
}
