//! Bytes to a configuration.

use core::fmt;

use fairlink_core::{
    ClassConfig, ClassId, Contract, Framing, Hierarchy, HierarchyError, Hosts, LeakyBucket, LeakyBuckets, Leniency,
    LinkConfig, MAX_LEAKY_BUCKETS, Nanos, Overhead, QueueLimits, Rate, RoundLength, SchedulerInfo, ServiceCurve,
    TransmitQueue, WhenFull, pause, registry,
};

use super::labels::{LabelError, Labels};
use super::{ALL_FIELDS, Config, HEADER, MAGIC, MAX_CATCH_UP, MODULE_HOST_KEYS, SHARES, VERSION, width};
use crate::keys::{CLASS, ClassKey, HOST_KEYS, Kind, Value};

/// The reason why bytes are not a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The bytes do not begin with [`MAGIC`].
    Magic,
    /// The bytes are of another version.
    Version {
        /// The version.
        version: u16,
    },
    /// Their number differs from the one in the header.
    Length {
        /// Length in the header.
        said: u64,
        /// Actual length.
        got: u64,
    },
    /// A record that does not end with its fields.
    Record {
        /// The class, [`ClassId::ROOT`] for the link.
        class: ClassId,
    },
    /// No scheduler has this name.
    Scheduler,
    /// A value outside its limits.
    Value {
        /// The class, [`ClassId::ROOT`] for the link.
        class: ClassId,
        /// The field.
        what: &'static str,
        /// The value.
        value: u64,
        /// The smallest value taken.
        min: u64,
        /// The largest value taken.
        max: u64,
    },
    /// The class of unclassified packets is not a leaf.
    Default {
        /// The class.
        class: ClassId,
    },
    /// Numbers or names of classes.
    Label(LabelError),
    /// The tree.
    Hierarchy(HierarchyError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Magic => f.write_str("this is no configuration of fairlink; make it with `fairlink qdisc`"),
            Self::Version { version } => {
                write!(f, "the configuration has version {version}, and this module takes {VERSION}")
            }
            Self::Length { said, got } => write!(f, "the configuration has {got} bytes and says that it has {said}"),
            Self::Record { class } => write!(f, "class {}: the record does not end where its fields do", class.0),
            Self::Scheduler => f.write_str("there is no scheduler of this name; `fairlink schedulers` lists them"),
            Self::Value { class, what, value, min, max } => {
                write!(f, "class {}: {what} of {value} is outside {min} .. {max}", class.0)
            }
            Self::Default { class } => write!(f, "the default class {} is not a leaf", class.0),
            Self::Label(error) => error.fmt(f),
            Self::Hierarchy(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReadError {}

impl From<LabelError> for ReadError {
    fn from(error: LabelError) -> Self {
        Self::Label(error)
    }
}

impl From<HierarchyError> for ReadError {
    fn from(error: HierarchyError) -> Self {
        Self::Hierarchy(error)
    }
}

impl ReadError {
    /// Returns true if it is for want of memory.
    #[must_use]
    pub const fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Label(LabelError::OutOfMemory(_)) | Self::Hierarchy(HierarchyError::OutOfMemory { .. }))
    }
}

/// The least that a class takes: the length of its record, its parent, its number, the length of its name, and its fields.
const SHORTEST: usize = 13;

/// A record of one class.
struct Record<'a> {
    class: ClassId,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads the next record and removes it from `bytes`.
    fn next(class: ClassId, bytes: &mut &'a [u8]) -> Result<Self, ReadError> {
        let (len, rest) = bytes.split_first_chunk::<2>().ok_or(ReadError::Record { class })?;
        let len = usize::from(u16::from_le_bytes(*len));
        let (record, rest) = rest.split_at_checked(len).ok_or(ReadError::Record { class })?;
        *bytes = rest;
        Ok(Self { class, bytes: record })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(ReadError::Record { class: self.class })?;
        self.bytes = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, ReadError> {
        Ok(u8::from_le_bytes(self.take()?))
    }

    fn u16(&mut self) -> Result<u16, ReadError> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    fn u32(&mut self) -> Result<u32, ReadError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn text(&mut self) -> Result<&'a [u8], ReadError> {
        let len = usize::from(self.u8()?);
        let (text, rest) = self.bytes.split_at_checked(len).ok_or(ReadError::Record { class: self.class })?;
        self.bytes = rest;
        Ok(text)
    }

    fn end(&self) -> Result<(), ReadError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(ReadError::Record { class: self.class }) }
    }

    fn within(&self, what: &'static str, value: u64, min: u64, max: u64) -> Result<u64, ReadError> {
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            Err(ReadError::Value { class: self.class, what, value, min, max })
        }
    }

    /// Reads one byte that is at most `max`.
    fn choice(&mut self, what: &'static str, max: u8) -> Result<u8, ReadError> {
        let value = self.u8()?;
        self.within(what, value.into(), 0, max.into())?;
        Ok(value)
    }

    fn rate(&mut self, what: &'static str) -> Result<Rate, ReadError> {
        let bps = self.u64()?;
        let (min, max) = (Rate::MIN.bps(), Rate::MAX.bps());
        Rate::from_bps(bps).map_err(|_| ReadError::Value { class: self.class, what, value: bps, min, max })
    }

    /// Reads a slope, 0 for none.
    fn slope(&mut self, what: &'static str) -> Result<Option<Rate>, ReadError> {
        match self.u64()? {
            0 => Ok(None),
            bps => Ok(Some(Rate::from_bps(self.within(what, bps, 0, Rate::MAX.bps())?).unwrap_or(Rate::MAX))),
        }
    }

    /// Reads the field of a class.
    fn value(&mut self, key: &ClassKey) -> Result<Value, ReadError> {
        Ok(match key.kind {
            Kind::Rate => Value::Rate(self.rate(key.name)?),
            Kind::Size { .. } => Value::Bytes(self.number(key.kind)?),
            Kind::Number { .. } => Value::Number(self.number(key.kind)?),
            Kind::Time => Value::Time(Nanos(self.u64()?)),
            Kind::Word { words, .. } => Value::Word(self.choice(key.name, words.len().saturating_sub(1) as u8)?),
            Kind::Packets { .. } => Value::Packets(self.u32()?),
            Kind::Contract => {
                let (bytes, every) = (self.u64()?, self.u64()?);
                self.within("interval of the contract", every, 1, u64::MAX)?;
                Value::Contract(Contract { bytes, every: Nanos(every) })
            }
            Kind::Curve { slope } => {
                Value::Curve(ServiceCurve { m1: self.slope(slope)?, d: Nanos(self.u64()?), m2: self.slope(slope)? })
            }
            Kind::Buckets => Value::Buckets(leaky_buckets(self)?),
            Kind::Buffer => Value::Limits(QueueLimits { packets: self.u32()?, bytes: self.u32()? }),
            Kind::Per => {
                let most = self.u16()?;
                self.within("hosts", most.into(), 1, u16::MAX.into())?;
                let word = self.choice(key.name, MODULE_HOST_KEYS as u8 - 1)?;
                let by = HOST_KEYS.get(usize::from(word)).map(|&(_, by)| by);
                let hosts = by.and_then(|by| Hosts::new(most, by));
                Value::Hosts(hosts.ok_or(ReadError::Record { class: self.class })?)
            }
            // The value of a flag is its bit; the others have no bit.
            Kind::Flag | Kind::Overhead | Kind::Gso | Kind::Matches | Kind::Scheduler | Kind::Text { .. } => {
                Value::Flag(true)
            }
        })
    }

    /// Reads a number of the width that its limit needs.
    fn number(&mut self, kind: Kind) -> Result<u64, ReadError> {
        Ok(match width(kind) {
            1 => self.u8()?.into(),
            4 => self.u32()?.into(),
            _ => self.u64()?,
        })
    }

    fn nanos(&mut self, what: &'static str) -> Result<Nanos, ReadError> {
        let value = self.u64()?;
        self.within(what, value, 0, MAX_CATCH_UP.0).map(Nanos)
    }
}

/// The link's record.
struct Link {
    scheduler: &'static SchedulerInfo,
    config: LinkConfig,
    overhead: Overhead,
    leniency: Leniency,
    default: ClassId,
    catch_up: Nanos,
    slack: Nanos,
}

impl Link {
    fn read(record: &mut Record<'_>) -> Result<Self, ReadError> {
        let name = core::str::from_utf8(record.text()?).map_err(|_| ReadError::Scheduler)?;
        let scheduler = registry::find(name).ok_or(ReadError::Scheduler)?;
        let mut config = LinkConfig::new(record.rate("rate")?);
        config.max_packet = record.u32()?;
        config.max_queued = record.u32()?;
        config.when_full = [WhenFull::DropArrival, WhenFull::PushOut][usize::from(record.choice("when_full", 1)? & 1)];
        config.rounds = [RoundLength::Short, RoundLength::Long][usize::from(record.choice("rounds", 1)? & 1)];
        let packets = record.u32()?;
        let priority = record.choice("transmit_priority", 1)? == 1;
        config.transmit_queue = (packets > 0).then_some(TransmitQueue { packets, priority });
        let (bytes, min) = (record.u16()?, record.u16()?);
        let framing = match record.choice("framing", 2)? {
            0 => Framing::Plain,
            1 => Framing::Ptm,
            _ => Framing::Atm,
        };
        let leniency = if record.choice("leniency", 1)? == 1 { Leniency::Ignore } else { Leniency::Refuse };
        let link = Self {
            scheduler,
            config,
            overhead: Overhead { bytes, min, framing },
            leniency,
            default: ClassId(record.u32()?),
            catch_up: record.nanos("catch_up")?,
            slack: record.nanos("slack")?,
        };
        record.end()?;
        Ok(link)
    }
}

fn class(record: &mut Record<'_>) -> Result<ClassConfig, ReadError> {
    let bits = record.u32()?;
    record.within("fields", bits.into(), 0, ALL_FIELDS.into())?;
    if bits & SHARES == SHARES {
        return Err(ReadError::Record { class: record.class });
    }
    let mut config = ClassConfig::default();
    for key in CLASS.iter().filter(|key| key.bit.is_some_and(|bit| bits & 1 << bit != 0)) {
        let value = record.value(key)?;
        if let Some(set) = key.set {
            set(&mut config, value);
        }
    }
    record.end()?;
    Ok(config)
}

fn leaky_buckets(record: &mut Record<'_>) -> Result<LeakyBuckets, ReadError> {
    let none = LeakyBucket { burst: 0, peak: Rate::MIN, rate: Rate::MIN };
    let mut buckets = [none; MAX_LEAKY_BUCKETS];
    let count = record.u8()?;
    let count = record.within("leaky buckets", count.into(), 1, MAX_LEAKY_BUCKETS as u64)? as usize;
    for bucket in buckets.iter_mut().take(count) {
        let burst = record.u64()?;
        *bucket = LeakyBucket { burst, peak: record.rate("peak rate")?, rate: record.rate("rate")? };
    }
    Ok(LeakyBuckets::new(buckets.get(..count).unwrap_or_default()).unwrap_or_default())
}

impl Config {
    /// Reads the configuration in `bytes`.
    ///
    /// # Errors
    /// [`ReadError`], the first one found.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        let (header, mut rest) = bytes.split_first_chunk::<HEADER>().ok_or(ReadError::Magic)?;
        let &[a, b, c, d, v, w, _, _, k, l, m, n, p, q, r, s] = header;
        if [a, b, c, d] != MAGIC {
            return Err(ReadError::Magic);
        }
        let version = u16::from_le_bytes([v, w]);
        if version != VERSION {
            return Err(ReadError::Version { version });
        }
        let said = u32::from_le_bytes([p, q, r, s]);
        if said as usize != bytes.len() {
            return Err(ReadError::Length { said: said.into(), got: bytes.len() as u64 });
        }
        let classes = u32::from_le_bytes([k, l, m, n]) as usize;

        if classes > rest.len() / SHORTEST {
            return Err(ReadError::Length { said: (SHORTEST * classes) as u64, got: rest.len() as u64 });
        }
        let link = Link::read(&mut Record::next(ClassId::ROOT, &mut rest)?)?;
        let mut tree = Hierarchy::builder_with_room(link.config, classes)?;
        let mut labels = Labels::new(classes)?;
        for index in 1..=classes {
            pause(index);
            let mut record = Record::next(ClassId(index as u32), &mut rest)?;
            let parent = ClassId(record.u32()?);
            let minor = record.u16()?;
            labels.add(minor, record.text()?)?;
            tree.add(parent, class(&mut record)?)?;
        }
        if !rest.is_empty() {
            return Err(ReadError::Length { said: (bytes.len() - rest.len()) as u64, got: bytes.len() as u64 });
        }
        let tree = tree.build()?;
        let default = (link.default != ClassId::ROOT).then_some(link.default);
        if let Some(class) = default.filter(|&class| !tree.is_leaf(class)) {
            return Err(ReadError::Default { class });
        }
        Ok(Self {
            scheduler: link.scheduler,
            tree,
            overhead: link.overhead,
            leniency: link.leniency,
            default,
            catch_up: link.catch_up,
            slack: link.slack,
            labels: labels.sorted()?,
        })
    }
}
