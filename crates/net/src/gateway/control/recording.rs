//! The client's end of a trace: writes the packets that pass a running gateway to a file.
//!
//! The client writes the file, with its own rights. The gateway only sends records over the control socket.
//!
//! Packets stand in the order of their arrival. A packet is written when the fate of all earlier ones is known. Later ones are kept until
//! then, up to [`MAX_KEPT`] bytes: a packet that waits longer is written when it leaves, behind later ones, and counted in
//! [`Recorded::late`].

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlink_traffic::recording::{Outcome, PacketRecord, PacketSink, RecordingFormat};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use super::{ANSWER, ControlError, PATIENCE, Reply, TRACE_PATIENCE, ask};
use crate::gateway::trace::{Fate, Item, Traced as TracedPacket, decode};

/// Most bytes of packets that are kept while an earlier one is undecided.
pub const MAX_KEPT: usize = 64 << 20;
/// Memory of a kept packet beside its bytes.
const KEPT_OVERHEAD: usize = 128;
/// Time between two checks of the end.
const NAP: Duration = Duration::from_millis(50);
/// Time limit for the gateway to send the rest. It waits a second for packets that are under way.
const REST: Duration = TRACE_PATIENCE;

/// Limits at which a recording ends; the first one reached counts.
#[derive(Clone, Copy, Debug)]
pub struct RecordingLimits {
    /// Number of packets in the file.
    pub packets: u64,
    /// Number of bytes in the file; the last packet may exceed it.
    pub bytes: u64,
    /// Duration.
    pub duration: Duration,
}

/// Reason for the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The caller ended it.
    Asked,
    /// [`RecordingLimits::packets`].
    Packets,
    /// [`RecordingLimits::bytes`].
    Bytes,
    /// [`RecordingLimits::duration`].
    Duration,
    /// The gateway ended.
    Gateway,
}

/// Contents of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Packets in the file.
    pub packets: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Packets in the file that were dropped.
    pub dropped: u64,
    /// Packets in the file that stand behind later ones.
    pub late: u64,
    /// Packets that are missing because the client read too slowly.
    pub missed: u64,
    /// Packets that are missing because they were still queued a second after the end.
    pub unfinished: u64,
    /// Reason for the end.
    pub ended: Ended,
}

/// Errors of a recording.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The gateway does not answer, or refuses.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The file could not be written. It may end within a packet.
    #[error("{0}")]
    File(io::Error),
    /// The gateway ended without an end of the trace.
    #[error(
        "{path}: the gateway was killed, or closed the connection because nothing was taken for {} s; the {} packets until then are in the file",
        TRACE_PATIENCE.as_secs(),
        .recorded.packets
    )]
    Cut {
        /// The control socket.
        path: PathBuf,
        /// The recording up to then.
        recorded: Recorded,
    },
}

/// A gateway that is traced.
pub struct Recording {
    path: PathBuf,
    stream: UnixStream,
    /// Input that is not decoded yet.
    input: Vec<u8>,
    traced: super::Traced,
}

impl Recording {
    /// Requests a trace from the gateway whose socket is at `path`: up to `snap` bytes of each packet from now on, all if it is absent.
    ///
    /// # Errors
    /// [`ControlError`]: no gateway, no permission, no answer in time, not a gateway, or another trace is running.
    pub fn begin(path: &Path, snap: Option<u32>) -> Result<Self, ControlError> {
        let request = match snap {
            Some(snap) => format!("{{\"cmd\":\"trace\",\"snap_bytes\":{snap}}}\n"),
            None => "{\"cmd\":\"trace\"}\n".to_owned(),
        };
        let (line, input, stream) = ask(path, request.as_bytes())?;
        let reply: Reply = serde_json::from_slice(&line)
            .map_err(|source| ControlError::NotAnAnswer { path: path.to_owned(), source })?;
        match reply {
            Reply { trace: Some(traced), .. } => Ok(Self { path: path.to_owned(), stream, input, traced }),
            Reply { error, .. } => Err(ControlError::Refused { message: error.unwrap_or_default() }),
        }
    }

    /// The interfaces that the gateway forwards from and to.
    #[must_use]
    pub fn interfaces(&self) -> [&str; 2] {
        [&self.traced.input, &self.traced.output]
    }

    /// Writes packets to `file` until `stop` is set or a limit is reached. Calls `begun` when the gateway has begun.
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn write(
        mut self,
        file: impl Write + Send + 'static,
        format: RecordingFormat,
        limits: RecordingLimits,
        stop: &AtomicBool,
        begun: impl FnOnce(),
    ) -> Result<Recorded, RecordingError> {
        let written = Arc::new(AtomicU64::new(0));
        let file = Counting { file: BufWriter::with_capacity(1 << 16, file), written: Arc::clone(&written) };
        let sink = format.begin(file, &self.traced.input).map_err(RecordingError::File)?;
        let names = std::mem::take(&mut self.traced.classes);
        let mut page = Page { sink, names, limits, written, recorded: NOTHING, end: false };
        let (mut in_order, mut begun) = (InOrder::default(), Some(begun));
        let failed = |path: &Path, source| ControlError::System { path: path.to_owned(), source };
        self.stream.set_read_timeout(Some(NAP)).map_err(|error| failed(&self.path, error))?;
        let (mut since, mut ending) = (Instant::now(), None);
        let mut part = vec![0; 256 * 1024];
        while !page.end {
            let mut at = 0;
            while let Some((item, length)) = decode(&self.input[at..]).map_err(|why| self.nonsense(why))? {
                at += length;
                match item {
                    Item::Begin => {
                        since = Instant::now();
                        begun.take().into_iter().for_each(|begun| begun());
                    }
                    Item::Packet(packet) => in_order.put(packet.number, Some(packet), &mut page)?,
                    Item::Missed { number } => in_order.put(number, None, &mut page)?,
                    Item::End { missed, unfinished } => {
                        (page.recorded.missed, page.recorded.unfinished) = (missed, unfinished);
                        page.end = true;
                    }
                }
            }
            self.input.drain(..at);
            if page.end {
                break;
            }
            match ending {
                None if begun.is_some() && since.elapsed() > ANSWER + PATIENCE => {
                    return Err(ControlError::NoAnswer { path: self.path, waited: ANSWER + PATIENCE }.into());
                }
                None => {
                    let late = (begun.is_none() && since.elapsed() >= limits.duration).then_some(Ended::Duration);
                    let asked = stop.load(Ordering::Relaxed).then_some(Ended::Asked);
                    if let Some(why) = page.full().or(asked).or(late) {
                        page.recorded.ended = why;
                        ending = Some(Instant::now() + REST);
                        // Fails if the gateway has ended, which the loop finds below.
                        let _ = self.stream.shutdown(Shutdown::Write);
                    }
                }
                Some(until) if Instant::now() >= until => break,
                Some(_) => {}
            }
            match self.stream.read(&mut part) {
                Ok(0) => break,
                Ok(length) => self.input.extend_from_slice(&part[..length]),
                // No input for a while: flush for those who read the file meanwhile.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    page.sink.flush().map_err(RecordingError::File)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => return Err(failed(&self.path, error).into()),
            }
        }
        in_order.end(&mut page)?;
        page.sink.flush().map_err(RecordingError::File)?;
        let recorded = Recorded { bytes: page.written.load(Ordering::Relaxed), ..page.recorded };
        if page.end { Ok(recorded) } else { Err(RecordingError::Cut { path: self.path, recorded }) }
    }

    fn nonsense(&self, why: &'static str) -> ControlError {
        let source = io::Error::new(io::ErrorKind::InvalidData, why);
        ControlError::System { path: self.path.clone(), source }
    }
}

/// An empty recording. It ends with the gateway, unless a limit or the caller ends it first.
const NOTHING: Recorded =
    Recorded { packets: 0, bytes: 0, dropped: 0, late: 0, missed: 0, unfinished: 0, ended: Ended::Gateway };

/// The file and its contents.
struct Page {
    sink: Box<dyn PacketSink>,
    names: Vec<String>,
    limits: RecordingLimits,
    written: Arc<AtomicU64>,
    recorded: Recorded,
    /// True if the gateway has sent the end of the trace.
    end: bool,
}

impl Page {
    /// Returns the limit that is reached.
    fn full(&self) -> Option<Ended> {
        if self.recorded.packets >= self.limits.packets {
            Some(Ended::Packets)
        } else if self.written.load(Ordering::Relaxed) >= self.limits.bytes {
            Some(Ended::Bytes)
        } else {
            None
        }
    }

    /// Writes a packet, unless a limit is reached.
    fn write(&mut self, packet: &TracedPacket, late: bool) -> Result<(), RecordingError> {
        if self.full().is_some() {
            return Ok(());
        }
        let TracedPacket { number, class, arrived, len, accounted, fate, ref bytes } = *packet;
        let outcome = match fate {
            Fate::Sent { start, done } => Outcome::Sent { start, done },
            Fate::Dropped { at, reason } => Outcome::Dropped { at, reason },
            Fate::Queued => Outcome::Queued,
        };
        let class = self.names.get(class.index()).map_or("", String::as_str);
        let record = PacketRecord { number, class, arrived, len, accounted, outcome, bytes };
        self.sink.packet(&record).map_err(RecordingError::File)?;
        self.recorded.packets += 1;
        self.recorded.dropped += u64::from(matches!(fate, Fate::Dropped { .. }));
        self.recorded.late += u64::from(late);
        Ok(())
    }
}

/// Puts packets in the order of their numbers.
#[derive(Default)]
struct InOrder {
    /// The first number that is neither written nor known to be missing.
    next: u64,
    /// The packets from that number on; `None` is missing.
    kept: BTreeMap<u64, Option<TracedPacket>>,
    bytes: usize,
}

impl InOrder {
    fn put(&mut self, number: u64, packet: Option<TracedPacket>, page: &mut Page) -> Result<(), RecordingError> {
        if number < self.next {
            return packet.map_or(Ok(()), |packet| page.write(&packet, true));
        }
        self.bytes += size(packet.as_ref());
        self.kept.insert(number, packet);
        while let Some(first) = self.kept.first_entry()
            && (*first.key() == self.next || self.bytes > MAX_KEPT)
        {
            let (number, packet) = first.remove_entry();
            self.next = number + 1;
            self.bytes -= size(packet.as_ref());
            packet.map_or(Ok(()), |packet| page.write(&packet, false))?;
        }
        Ok(())
    }

    fn end(&mut self, page: &mut Page) -> Result<(), RecordingError> {
        std::mem::take(&mut self.kept).into_values().flatten().try_for_each(|packet| page.write(&packet, false))
    }
}

fn size(packet: Option<&TracedPacket>) -> usize {
    KEPT_OVERHEAD + packet.map_or(0, |packet| packet.bytes.len())
}

/// A writer that counts bytes.
struct Counting<W> {
    file: W,
    written: Arc<AtomicU64>,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.file.write(bytes)?;
        self.written.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests;
