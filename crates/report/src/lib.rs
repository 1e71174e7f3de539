//! The vocabulary of a measurement: counts, delays, rates, terms and bounds of a link and its classes.
//!
//! The simulator, the gateway, the reader of the kernel module and the planner fill these types, so that their JSON
//! documents have the same keys. This crate counts and measures nothing: the types are filled from snapshots.
//!
//! **Rules of the JSON.**
//!
//! * A [`Document`] begins with `document`, its kind, and `version`, a number that grows when a key changes its meaning
//!   or is removed.
//! * A key ends in its unit: `_bps` (bit/s of accounted bytes), `_s` (seconds), `_bytes`, `_packets`. Keys of an object of seconds, such as
//!   those of `delay_s`, have the object's unit. An [`Amount`] is `{"packets": .., "bytes": ..}`.
//! * An absent key was not measured or is unknown. `null` means a known absence, such as no ceiling.
//! * New keys may appear in the same version. A reader ignores keys that it does not know.
#![forbid(unsafe_code)]

mod buckets;
mod cause;
mod counts;
mod delay;
mod document;
mod link;
mod measures;
mod span;
mod terms;

pub use buckets::{Buckets, Histogram, Tally};
pub use cause::{ByCause, DropCause};
pub use counts::Counts;
pub use delay::Delay;
pub use document::{Content, Document, document_schema};
pub use fairlink_core::Amount;
pub use link::{ClassReport, LinkReport, NoExtension};
pub use measures::{Kind, MEASURES, Measure, Measured, Unit, Value, columns, measure};
pub use span::{ClassSpan, Limit, LimitCause, QueueLength, Rates, Span, SpanKind};
pub use terms::{ClassBounds, Ideal, LinkBounds, Terms, TrafficLimit};
