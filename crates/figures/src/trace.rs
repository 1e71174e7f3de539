//! Every packet of a simulation in a file, written while the simulation runs: CSV, or pcapng for programs that show captures.
//!
//! Packets are in the order of their arrival, so that a file can be replayed as a source (`model = "trace"`). A packet
//! is written once its outcome is known. Later ones are kept until then, at most [`MAX_KEPT`] of them. A packet that
//! waits while more of them come is written when it leaves, out of the order of arrival, and counted in
//! [`Written::late`]. So memory does not grow with the run: [`MAX_KEPT`] packets and those that are queued.
//!
//! See [`fairlink_traffic::recording`] for the contents of the file.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::{ClassId, Nanos};
use fairlink_sim::{Fate, Observer, PacketSeen};
use fairlink_traffic::recording::{Outcome, PacketRecord, PacketSink, RecordingFormat};

/// Most packets that are kept until an earlier one is written; 64 bytes each.
pub const MAX_KEPT: usize = 1 << 18;

/// Writes the frame of a packet of a class over a buffer of its length that holds zeros.
pub type WriteFrame = Arc<dyn Fn(ClassId, &mut [u8]) + Send + Sync>;

/// The format of a file.
#[derive(Clone)]
pub enum Format {
    /// A line for each packet.
    Csv,
    /// A capture whose frames are made by this.
    Pcapng(WriteFrame),
}

/// The reason for which a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", .path.display())]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// Reason of the failure.
    #[source]
    pub error: io::Error,
}

/// A summary of a written file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Packets in it.
    pub packets: u64,
    /// Packets among them that are behind later ones.
    pub late: u64,
    /// Arrival time of the last one.
    pub until: Nanos,
}

/// The trace of one link of one run.
pub struct Trace {
    path: PathBuf,
    recorder: Arc<Mutex<Recorder>>,
}

impl Trace {
    /// Begins a file at `path`, which is written over. Classes are called by `names`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(path: &Path, names: &[String], format: &Format) -> Result<Self, TraceError> {
        let failed = |error| TraceError { path: path.to_owned(), error };
        let file = BufWriter::with_capacity(1 << 16, File::create(path).map_err(failed)?);
        let interface = names.first().map_or("link", String::as_str);
        let (format, write_frame) = match format {
            Format::Csv => (RecordingFormat::Csv, None),
            Format::Pcapng(write_frame) => (RecordingFormat::Pcapng, Some(Arc::clone(write_frame))),
        };
        let sink = format.begin(file, interface).map_err(failed)?;
        let recorder = Recorder::new(sink, names.to_vec(), write_frame, MAX_KEPT);
        Ok(Self { path: path.to_owned(), recorder: Arc::new(Mutex::new(recorder)) })
    }

    /// Writes the rest, including packets that are still queued.
    ///
    /// # Errors
    /// The file could not be written, now or before. It ends within a packet then.
    pub fn end(self) -> Result<Written, TraceError> {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        recorder.end();
        match recorder.error.take() {
            Some(error) => Err(TraceError { path: self.path, error }),
            None => {
                let Recorder { packets, late, until, .. } = *recorder;
                Ok(Written { path: self.path, packets, late, until })
            }
        }
    }
}

/// Makes an observer that records the packets of a run: `traces` has one for each link, in their order. It stops the
/// run if a file cannot be written.
#[must_use]
pub fn observer(traces: &[Trace]) -> Box<dyn Observer> {
    let mut recorders = traces.iter().map(|trace| Arc::clone(&trace.recorder));
    match recorders.next() {
        Some(first) => Box::new(Tracer { first, further: recorders.collect() }),
        None => Box::new(()),
    }
}

struct Tracer {
    first: Arc<Mutex<Recorder>>,
    further: Vec<Arc<Mutex<Recorder>>>,
}

impl Tracer {
    fn recorder(&self) -> std::sync::MutexGuard<'_, Recorder> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Tracer {
    fn came(&mut self, packet: &PacketSeen) {
        self.recorder().came(packet);
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        self.recorder().went(packet, fate);
    }

    fn further(&mut self) -> Vec<Box<dyn Observer>> {
        let observer = |recorder| Box::new(Self { first: recorder, further: Vec::new() }) as Box<dyn Observer>;
        std::mem::take(&mut self.further).into_iter().map(observer).collect()
    }

    fn progress(&mut self, _now: Nanos) -> ControlFlow<()> {
        if self.recorder().error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A recorder that sorts packets by their arrival.
struct Recorder {
    sink: Box<dyn PacketSink>,
    names: Vec<String>,
    write_frame: Option<WriteFrame>,
    /// Room for a frame.
    frame: Vec<u8>,
    most: usize,
    /// Packets from number `begin` on, and their outcomes.
    kept: VecDeque<(PacketSeen, Option<Fate>)>,
    begin: u64,
    /// Packets before `begin` without an outcome: they are queued, so that the link's buffer bounds them.
    waiting: BTreeMap<u64, PacketSeen>,
    packets: u64,
    late: u64,
    until: Nanos,
    error: Option<io::Error>,
}

impl Recorder {
    fn new(sink: Box<dyn PacketSink>, names: Vec<String>, write_frame: Option<WriteFrame>, most: usize) -> Self {
        Self {
            sink,
            names,
            write_frame,
            frame: Vec::new(),
            most,
            kept: VecDeque::new(),
            begin: 0,
            waiting: BTreeMap::new(),
            packets: 0,
            late: 0,
            until: Nanos::ZERO,
            error: None,
        }
    }

    fn came(&mut self, packet: &PacketSeen) {
        self.kept.push_back((*packet, None));
        if self.kept.len() > self.most {
            if let Some((first, None)) = self.kept.pop_front() {
                self.waiting.insert(first.number, first);
            }
            self.begin += 1;
            self.write_known();
        }
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        if self.waiting.remove(&packet.number).is_some() {
            self.late += 1;
            self.write(packet, Some(fate));
            return;
        }
        let place = packet.number.checked_sub(self.begin).and_then(|place| usize::try_from(place).ok());
        if let Some((_, known)) = place.and_then(|place| self.kept.get_mut(place)) {
            *known = Some(fate);
        }
        self.write_known();
    }

    /// Writes packets up to the first without an outcome.
    fn write_known(&mut self) {
        while let Some(&(packet, Some(fate))) = self.kept.front() {
            self.kept.pop_front();
            self.begin += 1;
            self.write(&packet, Some(fate));
        }
    }

    fn write(&mut self, packet: &PacketSeen, fate: Option<Fate>) {
        if self.error.is_some() {
            return;
        }
        let PacketSeen { number, class, arrived, frame, len, .. } = *packet;
        if let Some(write_frame) = &self.write_frame {
            self.frame.clear();
            self.frame.resize(frame as usize, 0);
            write_frame(class, &mut self.frame);
        }
        let outcome = match fate {
            Some(Fate::Sent { start, done }) => Outcome::Sent { start, done },
            Some(Fate::Dropped { at, reason }) => Outcome::Dropped { at, reason: reason.as_str() },
            None => Outcome::Queued,
        };
        let class = self.names.get(class.index()).map_or("", String::as_str);
        let record = PacketRecord { number, class, arrived, len: frame, accounted: len, outcome, bytes: &self.frame };
        match self.sink.packet(&record) {
            Ok(()) => {
                self.packets += 1;
                self.until = self.until.max(packet.arrived);
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn end(&mut self) {
        for (packet, fate) in std::mem::take(&mut self.kept) {
            self.write(&packet, fate);
        }
        for packet in std::mem::take(&mut self.waiting).into_values() {
            self.late += 1;
            self.write(&packet, None);
        }
        if self.error.is_none() {
            self.error = self.sink.flush().err();
        }
    }
}

#[cfg(test)]
mod tests;
