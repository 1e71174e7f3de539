//! Traffic source models: when packets arrive and how long they are.
//!
//! A [`SourceSpec`] says what a source does; it is plain data, read from scenario files. A [`Source`] runs one, a
//! [`TrafficMix`] runs them all in the order of time. Neither knows what the packets are for: the simulator reads them on a
//! virtual clock, the real-packet generator on the machine's.
//!
//! # Determinism
//! The packets of a source depend on its spec, the seed and the source's index, and on nothing else: not on the other
//! sources, not on the scheduler. Random numbers are ChaCha8 keyed by the seed, one stream per source; logarithms are taken
//! by `libm`, which gives the same bits on every machine.
//!
//! # Lengths and rates
//! Lengths and rates here are those of the frames themselves. What a link adds to each frame when it accounts for it is
//! added by whoever hands the packets to a scheduler.

mod mix;
mod source;
mod spec;

pub use mix::{Event, MixError, TrafficMix, What};
pub use source::{Arrival, Source};
pub use spec::{Interval, MAX_PACKETS_PER_SECOND, Model, PacketSize, SourceError, SourceSpec};
