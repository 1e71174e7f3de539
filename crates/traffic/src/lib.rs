#![doc = include_str!("../README.md")]
//!
//! # Types
//! A [`SourceSpec`] describes a source. It is plain data, read from scenario files. A [`Source`] runs one of them, a
//! [`TrafficMix`] runs all in time order. Neither depends on the use of the packets.
//!
//! # Determinism
//! The packets of a source depend only on its spec, the seed and the source's index. They do not depend on other
//! sources or on the scheduler. Random numbers are ChaCha8 keyed by the seed, one stream for each source. Logarithms
//! are taken by `libm`, which gives the same bits on every machine.
//!
//! # Lengths and rates
//! Lengths and rates here are those of the frames themselves, without the link's overhead.
//!
//! # Features
//! * `recordings` (on by default): captures and trace files can be read, written and compared.
//!
//! # Errors and panics
//! A source that cannot run is a [`SourceError`] with the value and the limit. A panic is a bug of the calling program,
//! documented at the function.
#![forbid(unsafe_code)]

#[cfg(feature = "recordings")]
pub mod between;
mod burstiness;
#[cfg(feature = "recordings")]
mod capture;
pub mod clocks;
mod closed;
mod curve;
mod error;
mod fine;
mod interval;
mod length;
pub mod measure;
mod mix;
mod models;
mod random;
#[cfg(feature = "recordings")]
pub mod recording;
pub mod script;
pub mod shaping;
mod source;
mod spec;

pub use burstiness::{Burstiness, BurstinessCurve};
#[cfg(feature = "recordings")]
pub use capture::{Accept, CaptureError, MAX_TRACE_PACKETS, Recorded, read_trace};
pub use closed::{ClosedReport, CongestionControl, Flow, RequestResponse, Tcp, Transactions};
pub use curve::{ArrivalCurve, ArrivalLimit, CurveError, MAX_LIMITS};
pub use error::SourceError;
pub use interval::Interval;
pub use length::{IMIX, MAX_MIX, PacketSize};
pub use mix::{Event, MixError, TrafficMix, What};
pub use models::{
    Arrival, Dar1, Excess, MAX_BURST, MAX_FRAME_PACKETS, MAX_PICTURES, MAX_STATES, Marginal, MmppState, Model, Mpeg,
    OnTime, Pace, Picture, Shaped, Trace,
};
pub use script::{Script, ScriptError};
pub use source::Source;
pub use spec::{MAX_PACKETS_PER_SECOND, SourceSpec};
