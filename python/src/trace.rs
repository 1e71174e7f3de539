//! Packets of a run in columns, and as a stream of Arrow. Columns and units are those of the command's `--trace`
//! (`fairlink_traffic::recording`), in the order of arrival.
//!
//! A column of a full part is handed over as it is: the consumer reads the memory that the simulation wrote. Only the
//! part that still grows is copied.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, PrimitiveArray, RecordBatch, RecordBatchIterator, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, ffi::FFI_ArrowSchema};
use fairlink_core::{NANOS_PER_SEC, Nanos};
use fairlink_sim::{Fate, Observer, PacketSeen};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::Failed;

/// Most packets of a recording unless another limit is given: 66 bytes each, 2.2 GB.
pub(crate) const MAX_TRACED: u64 = 1 << 25;

/// Packets of a part.
const PART: usize = 1 << 16;

/// Outcomes of a packet. Those from [`DROPPED`] on are reasons of drops.
const QUEUED: i8 = 0;
const SENT: i8 = 1;
const DROPPED: i8 = 2;

/// Columns of up to [`PART`] packets. Times are in seconds; those of events that did not occur are 0 and hidden.
#[derive(Clone, Default)]
struct Part {
    class: Vec<i32>,
    arrival: Vec<f64>,
    start: Vec<f64>,
    departure: Vec<f64>,
    bytes: Vec<u32>,
    accounted: Vec<u32>,
    delay: Vec<f64>,
    dropped_at: Vec<f64>,
    outcome: Vec<i8>,
    /// Packets without an outcome.
    queued: usize,
}

impl Part {
    fn with_room() -> Self {
        fn room<T>() -> Vec<T> {
            Vec::with_capacity(PART)
        }
        Self {
            class: room(),
            arrival: room(),
            start: room(),
            departure: room(),
            bytes: room(),
            accounted: room(),
            delay: room(),
            dropped_at: room(),
            outcome: room(),
            queued: 0,
        }
    }

    fn push(&mut self, packet: &PacketSeen) {
        self.class.push(packet.class.0 as i32);
        self.arrival.push(seconds(packet.arrived));
        self.start.push(0.0);
        self.departure.push(0.0);
        self.bytes.push(packet.frame);
        self.accounted.push(packet.len);
        self.delay.push(0.0);
        self.dropped_at.push(0.0);
        self.outcome.push(QUEUED);
        self.queued += 1;
    }

    /// Moves the columns to Arrow.
    fn columns(self, first: u64) -> Columns {
        let packets = (0..self.outcome.len() as u64).map(|row| first + row + 1);
        let hidden = |shown: &dyn Fn(i8) -> bool| {
            NullBuffer::new(BooleanBuffer::collect_bool(self.outcome.len(), |row| shown(self.outcome[row])))
        };
        let (sent, dropped) = (hidden(&|outcome| outcome == SENT), hidden(&|outcome| outcome >= DROPPED));
        let reasons: Vec<i8> = self.outcome.iter().map(|&outcome| (outcome - DROPPED).max(0)).collect();
        Columns {
            packet: packets.collect::<Vec<_>>().into(),
            class: self.class.into(),
            arrival: self.arrival.into(),
            start: self.start.into(),
            departure: self.departure.into(),
            bytes: self.bytes.into(),
            accounted: self.accounted.into(),
            delay: self.delay.into(),
            dropped_at: self.dropped_at.into(),
            reasons: reasons.into(),
            sent,
            dropped,
        }
    }
}

/// The same, in shared memory.
#[derive(Clone)]
struct Columns {
    packet: ScalarBuffer<u64>,
    class: ScalarBuffer<i32>,
    arrival: ScalarBuffer<f64>,
    start: ScalarBuffer<f64>,
    departure: ScalarBuffer<f64>,
    bytes: ScalarBuffer<u32>,
    accounted: ScalarBuffer<u32>,
    delay: ScalarBuffer<f64>,
    dropped_at: ScalarBuffer<f64>,
    reasons: ScalarBuffer<i8>,
    sent: NullBuffer,
    dropped: NullBuffer,
}

impl Columns {
    fn batch(&self, schema: &SchemaRef, classes: &ArrayRef, reasons: &ArrayRef) -> Result<RecordBatch, ArrowError> {
        let always = |values: &ScalarBuffer<f64>| Arc::new(Float64Array::new(values.clone(), None)) as ArrayRef;
        let of = |values: &ScalarBuffer<f64>, shown: &NullBuffer| {
            Arc::new(Float64Array::new(values.clone(), Some(shown.clone()))) as ArrayRef
        };
        let class = PrimitiveArray::<Int32Type>::new(self.class.clone(), None);
        let reason = PrimitiveArray::<Int8Type>::new(self.reasons.clone(), Some(self.dropped.clone()));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::new(self.packet.clone(), None)),
            Arc::new(DictionaryArray::try_new(class, Arc::clone(classes))?),
            always(&self.arrival),
            of(&self.start, &self.sent),
            of(&self.departure, &self.sent),
            Arc::new(UInt32Array::new(self.bytes.clone(), None)),
            Arc::new(UInt32Array::new(self.accounted.clone(), None)),
            of(&self.delay, &self.sent),
            of(&self.dropped_at, &self.dropped),
            Arc::new(DictionaryArray::try_new(reason, Arc::clone(reasons))?),
        ];
        RecordBatch::try_new(Arc::clone(schema), columns)
    }
}

/// A part that may grow, or one that is complete.
enum Stored {
    Open(Part),
    Complete(Columns),
}

/// The packets of a link.
pub(crate) struct Recording {
    parts: Vec<Stored>,
    packets: u64,
    limit: u64,
    full: bool,
    reasons: Vec<&'static str>,
}

impl Recording {
    pub(crate) fn new(limit: u64) -> Self {
        Self { parts: Vec::new(), packets: 0, limit, full: false, reasons: Vec::new() }
    }

    /// Returns the limit if there were more packets.
    pub(crate) fn full(&self) -> Option<u64> {
        self.full.then_some(self.limit)
    }

    fn came(&mut self, packet: &PacketSeen) {
        if self.packets >= self.limit {
            self.full = true;
            return;
        }
        if self.packets.is_multiple_of(PART as u64) {
            self.parts.push(Stored::Open(Part::with_room()));
        }
        self.packets += 1;
        if let Some(Stored::Open(part)) = self.parts.last_mut() {
            part.push(packet);
        }
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        let (place, row) = ((packet.number / PART as u64) as usize, (packet.number % PART as u64) as usize);
        let Some(Stored::Open(part)) = self.parts.get_mut(place) else { return };
        let Some(outcome) = part.outcome.get_mut(row) else { return };
        match fate {
            Fate::Sent { start, done } => {
                *outcome = SENT;
                part.start[row] = seconds(start);
                part.departure[row] = seconds(done);
                part.delay[row] = seconds(start.saturating_sub(packet.arrived));
            }
            Fate::Dropped { at, reason } => {
                let reason = reason.as_str();
                let known = self.reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
                    self.reasons.push(reason);
                    self.reasons.len() - 1
                });
                *outcome = DROPPED + known as i8;
                part.dropped_at[row] = seconds(at);
            }
        }
        part.queued -= 1;
        if part.queued == 0 && part.outcome.len() == PART {
            let part = std::mem::take(part);
            self.parts[place] = Stored::Complete(part.columns((place * PART) as u64));
        }
    }

    /// The packets so far. Classes are called by `names`.
    pub(crate) fn trace(&mut self, names: &[String]) -> Result<Trace, ArrowError> {
        let schema = schema();
        let classes: ArrayRef = Arc::new(StringArray::from_iter_values(names));
        let reasons: ArrayRef = Arc::new(StringArray::from_iter_values(&self.reasons));
        let mut batches = Vec::with_capacity(self.parts.len());
        for (place, part) in self.parts.iter().enumerate() {
            let columns = match part {
                Stored::Complete(columns) => columns.clone(),
                Stored::Open(part) => part.clone().columns((place * PART) as u64),
            };
            batches.push(columns.batch(&schema, &classes, &reasons)?);
        }
        Ok(Trace { schema, batches, rows: self.packets })
    }
}

/// Records what passes a link.
pub(crate) struct Recorder(pub(crate) Arc<Mutex<Recording>>);

impl Recorder {
    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Recorder {
    fn came(&mut self, packet: &PacketSeen) {
        self.recording().came(packet);
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        self.recording().went(packet, fate);
    }

    fn progress(&mut self, _now: Nanos) -> ControlFlow<()> {
        if self.recording().full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn schema() -> SchemaRef {
    let field = |name: &str, kind: DataType, nullable: bool, unit: &str| {
        Field::new(name, kind, nullable).with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())]))
    };
    let words = |key: DataType| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
    let time = |name: &str, nullable: bool| field(name, DataType::Float64, nullable, "s");
    Arc::new(Schema::new(vec![
        field("packet", DataType::UInt64, false, "1"),
        field("class", words(DataType::Int32), false, ""),
        time("arrival_s", false),
        time("start_s", true),
        time("departure_s", true),
        field("bytes", DataType::UInt32, false, "B"),
        field("accounted_bytes", DataType::UInt32, false, "B"),
        time("queueing_delay_s", true),
        time("dropped_s", true),
        field("dropped", words(DataType::Int8), true, ""),
    ]))
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / NANOS_PER_SEC as f64
}

/// Packets of a link as an Arrow stream.
#[pyclass(frozen, module = "fairlink._engine")]
pub(crate) struct Trace {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: u64,
}

#[pymethods]
impl Trace {
    fn __len__(&self) -> usize {
        self.rows as usize
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The schema, by the Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(Failed::because)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The packets, by the Arrow PyCapsule interface. The schema is always that of `__arrow_c_schema__`.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }
}
