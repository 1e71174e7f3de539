//! The keys of `[link]` and `[[class]]`: one line each in [`CLASS`] and [`LINK`].
//!
//! A key that is a field of [`ClassConfig`] or [`LinkConfig`](fairlink_core::LinkConfig) has functions that get and set
//! it. The others (names, matches) have hand-written readers. So have rules on two keys: a guarantee excludes a weight,
//! `hosts` needs `per`.

mod class;
#[cfg(feature = "text")]
mod link;
#[cfg(feature = "text")]
mod text;

#[cfg(feature = "text")]
use fairlink_core::Feature;
use fairlink_core::{ClassConfig, Contract, Hosts, LeakyBuckets, Nanos, QueueLimits, Rate, ServiceCurve};

pub use class::{CLASS, DEFAULT_HOSTS, HOST_KEYS};
#[cfg(feature = "text")]
pub use link::{LINK, MAX_MEMORY, MAX_OVERHEAD, OVERHEADS};
#[cfg(feature = "text")]
pub use text::markdown;

/// The value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A rate.
    Rate(Rate),
    /// Bytes.
    Bytes(u64),
    /// A number without unit.
    Number(u64),
    /// A time.
    Time(Nanos),
    /// True or false.
    Flag(bool),
    /// One of the words of [`Kind::Word`], by its position.
    Word(u8),
    /// Packets.
    Packets(u32),
    /// A contract of DRR+.
    Contract(Contract),
    /// A service curve.
    Curve(ServiceCurve),
    /// Leaky buckets; at least one.
    Buckets(LeakyBuckets),
    /// Limits of a queue.
    Limits(QueueLimits),
    /// Hosts that share a leaf.
    Hosts(Hosts),
}

/// The form of a value, in files and in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A rate, or a share of the link's.
    Rate,
    /// Bytes with a unit, from 1.
    Size {
        /// The largest value.
        max: u64,
    },
    /// A whole number without unit.
    Number {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// True or false.
    Flag,
    /// A time of at least a nanosecond.
    Time,
    /// One of a few words.
    Word {
        /// The name of the choice in messages.
        #[cfg(feature = "text")]
        what: &'static str,
        /// The words; the bytes have their positions.
        words: &'static [&'static str],
    },
    /// A contract of DRR+.
    Contract,
    /// A service curve.
    Curve {
        /// The name of its slopes in messages.
        slope: &'static str,
    },
    /// Up to [`MAX_LEAKY_BUCKETS`](fairlink_core::MAX_LEAKY_BUCKETS) leaky buckets.
    Buckets,
    /// The length of a leaf's queue.
    Buffer,
    /// The word for the key of hosts; the bytes have its number, too.
    Per,
    /// A number of packets.
    Packets {
        /// The largest number.
        max: u32,
    },
    /// A word or a size: the bytes that a link adds to a frame.
    Overhead,
    /// A word or a time: the treatment of super-frames.
    Gso,
    /// One match of frames, or a list.
    Matches,
    /// The name of a scheduler.
    Scheduler,
    /// A name or number in quotes.
    Text {
        /// A regular expression that holds for it.
        #[cfg(feature = "text")]
        pattern: &'static str,
    },
}

impl Kind {
    /// Makes a choice among `words`, which messages call `what`.
    #[cfg_attr(not(feature = "text"), expect(unused_variables, reason = "for people"))]
    const fn word(what: &'static str, words: &'static [&'static str]) -> Self {
        Self::Word {
            #[cfg(feature = "text")]
            what,
            words,
        }
    }

    /// Makes the kind of text that matches the regular expression `pattern`.
    #[cfg_attr(not(feature = "text"), expect(unused_variables, reason = "for people"))]
    const fn text(pattern: &'static str) -> Self {
        Self::Text {
            #[cfg(feature = "text")]
            pattern,
        }
    }
}

/// The classes that may have a key.
#[cfg(feature = "text")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All.
    Any,
    /// Classes without children.
    Leaf,
}

/// A key of a table whose configuration is `C`.
#[derive(Debug)]
pub struct Key<C: 'static> {
    /// The name in files.
    pub name: &'static str,
    /// The form of its value.
    pub kind: Kind,
    /// The classes that may have it.
    #[cfg(feature = "text")]
    pub place: Place,
    /// Its bit in the bytes of the kernel module, 0 to 31; `None` if it is not among them, or at a fixed place.
    pub bit: Option<u8>,
    /// Returns the value if it is not the default. `None` for a key that is not a field of `C`.
    pub get: Option<fn(&C) -> Option<Value>>,
    /// Sets the value; a value of another kind has no effect.
    pub set: Option<fn(&mut C, Value)>,
    /// The features that it asks a scheduler for.
    #[cfg(feature = "text")]
    pub features: &'static [Feature],
    /// The default, in Markdown; empty if there is none.
    #[cfg(feature = "text")]
    pub default: &'static str,
    /// The description, in Markdown.
    #[cfg(feature = "text")]
    pub doc: &'static str,
}

/// A key of `[[class]]`.
pub type ClassKey = Key<ClassConfig>;
/// A key of `[link]`.
#[cfg(feature = "text")]
pub type LinkKey = Key<fairlink_core::LinkConfig>;

impl<C> Key<C> {
    /// Returns the value in a configuration if it is not the default.
    #[must_use]
    pub fn value(&self, config: &C) -> Option<Value> {
        self.get.and_then(|get| get(config))
    }
}

/// A key that differs between two configurations.
#[derive(Debug)]
pub struct Difference<C: 'static> {
    /// The key.
    pub key: &'static Key<C>,
    /// The first value; `None` for the default.
    pub old: Option<Value>,
    /// The second value; `None` for the default.
    pub new: Option<Value>,
}

/// Returns the keys that differ, in the order of the table.
pub fn difference<C>(keys: &'static [Key<C>], old: &C, new: &C) -> impl Iterator<Item = Difference<C>> {
    keys.iter().filter_map(move |key| {
        let (old, new) = (key.value(old), key.value(new));
        (old != new).then_some(Difference { key, old, new })
    })
}

/// Declares a table of keys. A line is place, bit, name, kind, features, access to the field, default, description.
macro_rules! keys {
    ($config:ty; $($place:ident $bit:tt $name:literal $kind:expr, $features:tt $access:tt, $default:expr, $doc:expr;)*) => {
        [$($crate::keys::Key {
            name: $name,
            kind: $kind,
            #[cfg(feature = "text")]
            place: $crate::keys::Place::$place,
            bit: $crate::keys::keys!(@bit $bit),
            get: $crate::keys::keys!(@get $config, $access),
            set: $crate::keys::keys!(@set $config, $access),
            #[cfg(feature = "text")]
            features: &$features,
            #[cfg(feature = "text")]
            default: $default,
            #[cfg(feature = "text")]
            doc: $doc,
        }),*]
    };
    (@bit -) => { None };
    (@bit $bit:literal) => { Some($bit) };
    (@get $config:ty, -) => { None };
    (@get $config:ty, (flag $field:ident)) => {
        Some(|config: &$config| config.$field.then_some(Value::Flag(true)))
    };
    (@get $config:ty, (narrow $field:ident $value:ident $type:ty)) => {
        Some(|config: &$config| config.$field.map(|value| Value::$value(value.into())))
    };
    (@get $config:ty, (option $field:ident $value:ident)) => { Some(|config: &$config| config.$field.map(Value::$value)) };
    (@get $config:ty, ($get:expr, $set:expr)) => { Some($get) };
    (@set $config:ty, -) => { None };
    (@set $config:ty, (flag $field:ident)) => {
        Some(|config: &mut $config, value| config.$field = value == Value::Flag(true))
    };
    (@set $config:ty, (narrow $field:ident $value:ident $type:ty)) => {
        Some(|config: &mut $config, value| {
            if let Value::$value(value) = value {
                config.$field = <$type>::try_from(value).ok();
            }
        })
    };
    (@set $config:ty, (option $field:ident $value:ident)) => {
        Some(|config: &mut $config, value| {
            if let Value::$value(value) = value {
                config.$field = Some(value);
            }
        })
    };
    (@set $config:ty, ($get:expr, $set:expr)) => { Some($set) };
}

use keys;

#[cfg(all(test, feature = "text"))]
mod tests;
