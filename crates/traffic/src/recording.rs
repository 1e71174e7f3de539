//! Packets of a link written to a file, each with its outcome: CSV, or pcapng for capture viewers. Simulations and
//! gateways write the same two formats, and [`read_trace`](crate::read_trace) reads both.
//!
//! The columns of the CSV: `packet` (from 1, by arrival), `class`, `arrival_s`, `start_s` and `departure_s` (its
//! transmission begins and ends), `bytes` (of the frame), `accounted_bytes` (as the link counts them),
//! `queueing_delay_s` (start minus arrival), `dropped_s` and `dropped` (time and reason). Columns of events that did
//! not occur are empty. A packet that is still queued at the end has neither times nor a reason.
//!
//! A packet of a capture has the time of its arrival; its outcome is in its comment. Times count from 1 January 1970,
//! which is time 0 of a simulation.

mod csv;
mod pcapng;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use fairlink_core::Nanos;

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It was sent.
    Sent {
        /// Start of its transmission.
        start: Nanos,
        /// End of its transmission.
        done: Nanos,
    },
    /// It was dropped.
    Dropped {
        /// When.
        at: Nanos,
        /// Reason of the drop.
        reason: &'a str,
    },
    /// It was still queued when the recording ended.
    Queued,
}

/// A packet to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord<'a> {
    /// Its place in the order of arrival, from 0.
    pub number: u64,
    /// The name of its class.
    pub class: &'a str,
    /// Arrival time.
    pub arrived: Nanos,
    /// Length of its frame in bytes.
    pub len: u32,
    /// The same with the link's overhead.
    pub accounted: u32,
    /// Its outcome.
    pub outcome: Outcome<'a>,
    /// The first bytes of its frame, or all of them if it was kept whole. CSV does not use them.
    pub bytes: &'a [u8],
}

/// The two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingFormat {
    /// A line for each packet.
    Csv,
    /// A capture.
    Pcapng,
}

impl RecordingFormat {
    /// Returns the format for the ending of a name: `.csv` or `.pcapng`, in capitals or not.
    ///
    /// # Errors
    /// Description of the fault of the name.
    pub fn from_path(file: &Path) -> Result<Self, &'static str> {
        if file.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err("a directory, by the / at its end; name a file that ends with .csv or .pcapng");
        }
        let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        if ending.eq_ignore_ascii_case("csv") {
            Ok(Self::Csv)
        } else if ending.eq_ignore_ascii_case("pcapng") {
            Ok(Self::Pcapng)
        } else {
            Err("the ending says what is written; it is .csv or .pcapng")
        }
    }

    /// Begins a file of this format. `interface` is the link's name in a capture.
    ///
    /// # Errors
    /// The first bytes could not be written. They are flushed, so that an unwritable target is detected at once.
    pub fn begin(self, file: impl Write + Send + 'static, interface: &str) -> io::Result<Box<dyn PacketSink>> {
        Ok(match self {
            Self::Csv => Box::new(csv::Csv::new(file)?),
            Self::Pcapng => Box::new(pcapng::Pcapng::new(file, interface)?),
        })
    }
}

/// A file that packets are written to. [`RecordingFormat::begin`] makes those of fairlink's two formats.
///
/// ```
/// use std::io;
///
/// use fairlink_core::Nanos;
/// use fairlink_traffic::recording::{Outcome, PacketRecord, PacketSink};
///
/// /// Adds up the bytes of what passes.
/// #[derive(Default)]
/// struct Total(u64);
///
/// impl PacketSink for Total {
///     fn packet(&mut self, packet: &PacketRecord<'_>) -> io::Result<()> {
///         self.0 += u64::from(packet.accounted);
///         Ok(())
///     }
///
///     fn flush(&mut self) -> io::Result<()> {
///         Ok(())
///     }
/// }
///
/// let record = PacketRecord {
///     number: 0,
///     class: "voice",
///     arrived: Nanos::ZERO,
///     len: 200,
///     accounted: 224,
///     outcome: Outcome::Queued,
///     bytes: &[],
/// };
/// let mut total = Total::default();
/// total.packet(&record)?;
/// total.packet(&PacketRecord { number: 1, ..record })?;
/// assert_eq!(total.0, 448);
/// # Ok::<(), io::Error>(())
/// ```
pub trait PacketSink: Send {
    /// Writes a packet.
    ///
    /// # Errors
    /// The file could not be written. It may end within the packet then.
    fn packet(&mut self, packet: &PacketRecord<'_>) -> io::Result<()>;

    /// Hands over all that is written.
    ///
    /// # Errors
    /// The file could not be written.
    fn flush(&mut self) -> io::Result<()>;
}

#[cfg(test)]
mod tests;
