//! A configuration to bytes.

use alloc::vec::Vec;
use core::fmt;

use fairlink_core::{ClassId, Framing, Leniency, OutOfMemory, Rate, RoundLength, ServiceCurve, WhenFull};

use super::labels::room;
use super::{Config, HEADER, MAGIC, MAX_BYTES, MAX_RECORD, MODULE_HOST_KEYS, VERSION, width};
use crate::keys::{CLASS, HOST_KEYS, Kind, Value};

/// The reason for which a configuration was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// It takes more than [`MAX_BYTES`].
    TooLong {
        /// Classes beside the link.
        classes: usize,
    },
    /// Labels and tree differ in the number of classes.
    Labels {
        /// Classes of the tree, including the link.
        classes: usize,
        /// Classes of the labels.
        labels: usize,
    },
    /// A class keeps flows apart (`per = "flow"`), which the kernel module does not support.
    FlowsApart {
        /// The class.
        class: ClassId,
    },
    /// A record does not fit.
    NoRoom {
        /// Bytes that there is room for.
        room: usize,
    },
    /// Not enough memory.
    OutOfMemory(OutOfMemory),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooLong { classes } => write!(
                f,
                "the link with its {classes} classes takes more than the {MAX_BYTES} bytes that a configuration may have"
            ),
            Self::Labels { classes, labels } => write!(f, "{classes} classes have {labels} numbers"),
            Self::FlowsApart { class: ClassId(class) } => write!(
                f,
                "class {class} has per = \"flow\", which the kernel module does not have; use queue = \"fq_codel\" without per, which keeps flows apart by a hash"
            ),
            Self::NoRoom { room } => write!(f, "a record takes more than {room} bytes"),
            Self::OutOfMemory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for WriteError {}

/// A destination of bytes.
trait Sink {
    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError>;
}

/// Bytes that grow as far as there is memory.
impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        room(self, bytes.len()).map_err(WriteError::OutOfMemory)?;
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// A fixed buffer, and its written length.
struct Fixed<'a> {
    place: &'a mut [u8],
    len: usize,
}

impl Sink for Fixed<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let end = self.len.saturating_add(bytes.len());
        let room = self.place.len();
        self.place.get_mut(self.len..end).ok_or(WriteError::NoRoom { room })?.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }
}

/// Writes numbers and texts.
struct Writer<S>(S);

impl<S: Sink> Writer<S> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.0.put(bytes)
    }

    fn u8(&mut self, value: u8) -> Result<(), WriteError> {
        self.put(&[value])
    }

    fn u16(&mut self, value: u16) -> Result<(), WriteError> {
        self.put(&value.to_le_bytes())
    }

    fn u32(&mut self, value: u32) -> Result<(), WriteError> {
        self.put(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> Result<(), WriteError> {
        self.put(&value.to_le_bytes())
    }

    /// Writes at most 255 bytes, with their length.
    fn text(&mut self, text: &[u8]) -> Result<(), WriteError> {
        self.u8(text.len() as u8)?;
        self.put(text)
    }

    /// Writes the bytes of a field. `class` is for the error.
    fn value(&mut self, kind: Kind, value: Value, class: ClassId) -> Result<(), WriteError> {
        match value {
            Value::Flag(_) => Ok(()),
            Value::Word(word) => self.u8(word),
            Value::Packets(packets) => self.u32(packets),
            Value::Rate(rate) => self.u64(rate.bps()),
            Value::Time(time) => self.u64(time.0),
            Value::Bytes(number) | Value::Number(number) => match width(kind) {
                1 => self.u8(number as u8),
                4 => self.u32(number as u32),
                _ => self.u64(number),
            },
            Value::Contract(contract) => {
                self.u64(contract.bytes)?;
                self.u64(contract.every.0)
            }
            Value::Curve(ServiceCurve { m1, d, m2 }) => {
                self.u64(m1.map_or(0, Rate::bps))?;
                self.u64(d.0)?;
                self.u64(m2.map_or(0, Rate::bps))
            }
            Value::Buckets(buckets) => {
                self.u8(buckets.iter().count() as u8)?;
                for bucket in buckets.iter() {
                    self.u64(bucket.burst)?;
                    self.u64(bucket.peak.bps())?;
                    self.u64(bucket.rate.bps())?;
                }
                Ok(())
            }
            Value::Limits(limits) => {
                self.u32(limits.packets)?;
                self.u32(limits.bytes)
            }
            Value::Hosts(hosts) => {
                self.u16(hosts.most.get())?;
                let known = HOST_KEYS.iter().take(MODULE_HOST_KEYS).position(|&(_, by)| by == hosts.by);
                self.u8(known.ok_or(WriteError::FlowsApart { class })? as u8)
            }
        }
    }
}

impl Writer<Vec<u8>> {
    /// Writes a record, with its length in front.
    fn record(&mut self, fill: impl FnOnce(&mut Self) -> Result<(), WriteError>) -> Result<(), WriteError> {
        let start = self.0.len();
        self.u16(0)?;
        fill(self)?;
        // At most MAX_RECORD.
        let len = (self.0.len() - start - 2) as u16;
        if let Some(place) = self.0.get_mut(start..start + 2) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        Ok(())
    }
}

impl Config {
    /// Returns the bytes.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write(&self) -> Result<Vec<u8>, WriteError> {
        let classes = self.tree.len() - 1;
        if self.labels.len() != self.tree.len() {
            return Err(WriteError::Labels { classes: self.tree.len(), labels: self.labels.len() });
        }
        let mut out = Writer(Vec::new());
        out.put(&MAGIC)?;
        out.u16(VERSION)?;
        out.u16(0)?;
        out.u32(classes as u32)?;
        out.u32(0)?;
        out.record(|out| self.write_link(out))?;
        for class in self.tree.classes() {
            out.record(|out| self.write_class(class, out))?;
            if out.0.len() > MAX_BYTES {
                return Err(WriteError::TooLong { classes });
            }
        }
        Ok(sealed(out.0))
    }

    /// Writes the record of `class`, or that of the link for [`ClassId::ROOT`], into `place` and returns its length: at
    /// most [`MAX_RECORD`]. Allocates nothing. [`assemble`] makes a configuration from records.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`], and [`WriteError::Labels`] for a class that does not exist.
    pub fn write_record(&self, class: ClassId, place: &mut [u8]) -> Result<usize, WriteError> {
        if class.index() >= self.tree.len() {
            return Err(WriteError::Labels { classes: self.tree.len(), labels: self.labels.len() });
        }
        let mut out = Writer(Fixed { place, len: 0 });
        if class == ClassId::ROOT {
            self.write_link(&mut out)?
        } else {
            self.write_class(class, &mut out)?
        }
        Ok(out.0.len)
    }

    fn write_link<S: Sink>(&self, out: &mut Writer<S>) -> Result<(), WriteError> {
        let link = self.tree.link();
        out.text(self.scheduler.name.as_bytes())?;
        out.u64(link.rate.bps())?;
        out.u32(link.max_packet)?;
        out.u32(link.max_queued)?;
        out.u8(u8::from(link.when_full == WhenFull::PushOut))?;
        out.u8(u8::from(link.rounds == RoundLength::Long))?;
        out.u32(link.transmit_queue.map_or(0, |queue| queue.packets))?;
        out.u8(u8::from(link.transmit_queue.is_some_and(|queue| queue.priority)))?;
        out.u16(self.overhead.bytes)?;
        out.u16(self.overhead.min)?;
        out.u8(match self.overhead.framing {
            Framing::Plain => 0,
            Framing::Ptm => 1,
            Framing::Atm => 2,
        })?;
        out.u8(u8::from(self.leniency == Leniency::Ignore))?;
        out.u32(self.default.map_or(0, |class| class.0))?;
        out.u64(self.catch_up.0)?;
        out.u64(self.slack.0)
    }

    fn write_class<S: Sink>(&self, class: ClassId, out: &mut Writer<S>) -> Result<(), WriteError> {
        let config = self.tree.config(class);
        out.u32(self.tree.parent(class).map_or(0, |parent| parent.0))?;
        out.u16(self.labels.minor(class))?;
        out.text(self.labels.name(class))?;
        let fields = || CLASS.iter().filter_map(|key| Some((key, key.bit?, key.value(config)?)));
        out.u32(fields().fold(0, |all, (_, bit, _)| all | 1 << bit))?;
        for (key, _, value) in fields() {
            out.value(key.kind, value, class)?;
        }
        Ok(())
    }
}

/// Writes the total length.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.len() as u32;
    if let Some(place) = bytes.get_mut(HEADER - 4..HEADER) {
        place.copy_from_slice(&len.to_le_bytes());
    }
    bytes
}

/// Makes the bytes of a configuration from the records of [`Config::write_record`]: the link's, and those of the
/// classes in their order. The contents are not checked; [`Config::read`] does that.
///
/// # Errors
/// [`WriteError::TooLong`], [`WriteError::OutOfMemory`]; [`WriteError::NoRoom`] for a record above
/// [`MAX_RECORD`].
pub fn assemble<'a>(link: &'a [u8], classes: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Vec<u8>, WriteError> {
    let count = classes.len();
    let mut out = Writer(Vec::new());
    out.put(&MAGIC)?;
    out.u16(VERSION)?;
    out.u16(0)?;
    out.u32(count as u32)?;
    out.u32(0)?;
    for record in core::iter::once(link).chain(classes) {
        if record.len() > MAX_RECORD {
            return Err(WriteError::NoRoom { room: MAX_RECORD });
        }
        out.u16(record.len() as u16)?;
        out.put(record)?;
        if out.0.len() > MAX_BYTES {
            return Err(WriteError::TooLong { classes: count });
        }
    }
    Ok(sealed(out.0))
}
