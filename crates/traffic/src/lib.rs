//! Traffic source models: when packets arrive and how long they are.
//!
//! A [`SourceSpec`] says what a source does; it is plain data, read from scenario files. The same sources feed the simulator
//! and the real-packet generator.

pub mod spec;
pub use spec::{Interval, Model, PacketSize, SourceSpec};
