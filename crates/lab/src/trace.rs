//! Every packet of a simulation in a file, written while the simulation runs: CSV, or pcapng for programs that show captures.
//!
//! Packets stand in the order of their arrival, so that a file can be replayed as a source (`model = "trace"`). A packet is written once
//! it is known what became of it. Later ones are kept until then, at most [`MAX_KEPT`] of them: a packet that waits while more of them
//! come is written when it leaves, out of the order of arrival, and counted in [`Written::late`]. So memory does not grow with the
//! run: [`MAX_KEPT`] packets and those that are queued.
//!
//! The columns of the CSV: `packet` (from 1, by arrival), `class`, `arrival_s`, `start_s` and `departure_s` (its first and its last bit leave),
//! `bytes` (of the frame), `accounted_bytes` (as the link counts them), `queueing_delay_s` (start less arrival), `dropped_s` and
//! `dropped` (when, and why). What did not happen is empty. A packet that is still queued at the end has neither times nor a reason.
//!
//! A packet of a capture has the time of its arrival; what became of it stands in its comment. Time 0 of the simulation is 1 January 1970.

mod csv;
mod pcapng;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::{ClassId, Nanos};
use fairlink_sim::{Fate, Observer, PacketSeen};

/// Most packets that are kept until an earlier one is written; 64 bytes each.
pub const MAX_KEPT: usize = 1 << 18;

/// Writes the frame of a packet of a class over a buffer of its length that holds zeros.
pub type WriteFrame = Arc<dyn Fn(ClassId, &mut [u8]) + Send + Sync>;

/// What a file is written as.
#[derive(Clone)]
pub enum Format {
    /// A line for each packet.
    Csv,
    /// A capture whose frames are made by this.
    Pcapng(WriteFrame),
}

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", .path.display())]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub error: io::Error,
}

/// What a file has come to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Packets in it.
    pub packets: u64,
    /// Packets among them that stand behind later ones.
    pub late: u64,
    /// When the last one arrived.
    pub until: Nanos,
}

/// The packets of one link.
trait Sink: Send {
    fn packet(&mut self, packet: &PacketSeen, fate: Option<Fate>) -> io::Result<()>;

    fn flush(&mut self) -> io::Result<()>;
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
        let sink = sink(file, names.to_vec(), format).map_err(failed)?;
        Ok(Self { path: path.to_owned(), recorder: Arc::new(Mutex::new(Recorder::new(sink, MAX_KEPT))) })
    }

    /// Writes what is left, packets that are still queued among it.
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

/// An observer that records the packets of a run: `traces` has one for each link, in their order. It ends the run where a file cannot be written.
#[must_use]
pub fn observer(traces: &[Trace]) -> Box<dyn Observer> {
    let mut recorders = traces.iter().map(|trace| Arc::clone(&trace.recorder));
    match recorders.next() {
        Some(first) => Box::new(Tracer { first, further: recorders.collect() }),
        None => Box::new(()),
    }
}

fn sink(file: impl Write + Send + 'static, names: Vec<String>, format: &Format) -> io::Result<Box<dyn Sink>> {
    Ok(match format {
        Format::Csv => Box::new(csv::Csv::new(file, names)?),
        Format::Pcapng(frame) => Box::new(pcapng::Pcapng::new(file, names, Arc::clone(frame))?),
    })
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

/// Puts packets in the order of their arrival.
struct Recorder {
    sink: Box<dyn Sink>,
    most: usize,
    /// Packets from number `begin` on, and what became of them.
    kept: VecDeque<(PacketSeen, Option<Fate>)>,
    begin: u64,
    /// Packets before `begin` that are still under way: they are queued, so that the link's buffer bounds them.
    waiting: BTreeMap<u64, PacketSeen>,
    packets: u64,
    late: u64,
    until: Nanos,
    error: Option<io::Error>,
}

impl Recorder {
    fn new(sink: Box<dyn Sink>, most: usize) -> Self {
        let (kept, waiting) = (VecDeque::new(), BTreeMap::new());
        Self { sink, most, kept, begin: 0, waiting, packets: 0, late: 0, until: Nanos::ZERO, error: None }
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

    /// Writes packets up to the first that is under way.
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
        match self.sink.packet(packet, fate) {
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
