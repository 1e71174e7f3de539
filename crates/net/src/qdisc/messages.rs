//! Netlink messages: building requests and parsing answers.

use fairlink_core::Amount;

use crate::io::netlink::{NETLINK_HEADER, address, attribute_of, nested, number32, push_attribute};
use crate::qdisc::{BROKEN, QDISC};

/// `struct tcmsg`: family, padding, interface, handle, parent, info.
pub(crate) const TC_HEADER: usize = 20;
pub(crate) const NESTED: u16 = 1 << 15;
/// The parent of the queueing discipline at the root.
pub(crate) const TC_ROOT: u32 = u32::MAX;

pub(crate) const TCA_KIND: u16 = 1;
pub(crate) const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
/// The bytes of a configuration.
const TCA_FAIRLINK_CONFIG: u16 = 1;
/// Descriptor of a memory file with the configuration.
const TCA_FAIRLINK_FILE: u16 = 2;
/// The version of the module's statistics.
const XSTATS: u32 = 2;
/// The text in an extended acknowledgement.
const NLMSGERR_ATTR_MSG: u16 = 1;

/// Builds a message with a `struct tcmsg`; the recipient's address is written later.
pub(crate) fn header(index: i32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut message = vec![0; NETLINK_HEADER + 4];
    message.extend(index.to_ne_bytes());
    for number in [handle, parent, info] {
        message.extend(number.to_ne_bytes());
    }
    message
}

fn message(index: i32, handle: u32, parent: u32) -> Vec<u8> {
    header(index, handle, parent, 0)
}

/// Location of a configuration for the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handed<'a> {
    /// In the message.
    Bytes(&'a [u8]),
    /// In the memory file with this descriptor.
    File(i32),
}

/// Builds a request that adds or changes the queueing discipline below `parent`. `flags` (rtnetlink(7)) are added to
/// those of a request.
pub(crate) fn set(index: i32, parent: u32, major: u16, config: Handed<'_>, flags: libc::c_int) -> Vec<u8> {
    let mut message = message(index, u32::from(major) << 16, parent);
    push_attribute(&mut message, TCA_KIND, format!("{QDISC}\0").as_bytes());
    nested(&mut message, TCA_OPTIONS | NESTED, |message| match config {
        Handed::Bytes(bytes) => push_attribute(message, TCA_FAIRLINK_CONFIG, bytes),
        Handed::File(fd) => push_attribute(message, TCA_FAIRLINK_FILE, &fd.to_ne_bytes()),
    });
    address(&mut message, libc::RTM_NEWQDISC, libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags);
    message
}

/// Builds a request that deletes the queueing discipline below `parent`.
pub(crate) fn delete(index: i32, parent: u32, major: u16) -> Vec<u8> {
    let mut message = message(index, u32::from(major) << 16, parent);
    address(&mut message, libc::RTM_DELQDISC, libc::NLM_F_REQUEST | libc::NLM_F_ACK);
    message
}

/// Builds a request for all queueing disciplines.
pub(crate) fn disciplines(index: i32) -> Vec<u8> {
    let mut message = message(index, 0, 0);
    address(&mut message, libc::RTM_GETQDISC, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    message
}

/// Builds a request for all classes of an interface.
pub(crate) fn classes(index: i32) -> Vec<u8> {
    let mut message = message(index, 0, 0);
    address(&mut message, libc::RTM_GETTCLASS, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    message
}

/// Returns the text of an error (extended ack), which follows the code and the header of the refused request.
pub(crate) fn said(answer: &[u8]) -> Option<String> {
    let text = attribute_of(answer.get(NETLINK_HEADER + 4 + NETLINK_HEADER..)?, NLMSGERR_ATTR_MSG)?;
    Some(String::from_utf8_lossy(text.strip_suffix(b"\0").unwrap_or(text)).into_owned())
}

fn number64(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn amount(bytes: &[u8], offset: usize) -> Option<Amount> {
    Some(Amount { packets: number64(bytes, offset)?, bytes: number64(bytes, offset + 8)? })
}

/// Reads a text that ends at a zero or with the buffer.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The module's rate estimates: `struct fl_sampled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sampled {
    pub(crate) samples: u64,
    /// Bytes/s sent, packets/s sent, bytes/s of demand.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) demand: u64,
    /// Bytes beyond the guarantee.
    pub(crate) borrowed: u64,
}

impl Sampled {
    fn at(app: &[u8], offset: usize) -> Option<Self> {
        let number = |place: usize| number64(app, offset + 8 * place);
        let (samples, bytes, packets) = (number(0)?, number(1)?, number(2)?);
        Some(Self { samples, bytes, packets, demand: number(3)?, borrowed: number(4)? })
    }
}

/// A queueing discipline as the kernel reports it: `struct fl_xstats` and the statistics of all queueing disciplines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discipline {
    pub(crate) major: u16,
    pub(crate) broken: Option<String>,
    pub(crate) generation: u64,
    pub(crate) super_frames: u64,
    pub(crate) sampled: Sampled,
    pub(crate) sent: Amount,
    pub(crate) dropped: u64,
    pub(crate) queued: Amount,
    pub(crate) record: Vec<u8>,
}

/// A class as the kernel reports it: `struct fl_class_xstats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) minor: u16,
    pub(crate) parent: u16,
    pub(crate) index: u32,
    pub(crate) leaf: bool,
    pub(crate) generation: u64,
    pub(crate) guarantee_bps: u64,
    pub(crate) received: Amount,
    pub(crate) sent: Amount,
    pub(crate) dropped: Amount,
    pub(crate) marked: Amount,
    pub(crate) queued: Amount,
    pub(crate) too_long_bytes: u64,
    pub(crate) lent_bytes: Option<u64>,
    pub(crate) sampled: Sampled,
    pub(crate) record: Vec<u8>,
}

/// Returns attributes and statistics of a message about this interface and our kind.
fn ours(body: &[u8], index: i32) -> Option<(&[u8], &[u8])> {
    let attributes = body.get(TC_HEADER..)?;
    let kind = text(attribute_of(attributes, TCA_KIND)?);
    let same = number32(body, 4) == Some(index as u32) && (kind == QDISC || kind == BROKEN);
    let stats = attribute_of(attributes, TCA_STATS2)?;
    same.then_some((stats, attribute_of(stats, TCA_STATS_APP)?)).filter(|(_, app)| number32(app, 0) == Some(XSTATS))
}

/// Reads the record of `len` bytes at `offset`.
fn record(app: &[u8], offset: usize, len: u32) -> Option<Vec<u8>> {
    Some(app.get(offset..offset.checked_add(len as usize)?)?.to_vec())
}

/// Reads a queueing discipline of ours below `parent` from the body of a message.
pub(crate) fn discipline(body: &[u8], index: i32, parent: u32) -> Option<Discipline> {
    let (stats, app) = ours(body, index)?;
    if number32(body, 12) != Some(parent) {
        return None;
    }
    let (basic, queue) = (attribute_of(stats, TCA_STATS_BASIC)?, attribute_of(stats, TCA_STATS_QUEUE)?);
    let broken = number32(app, 4)? != 0;
    Some(Discipline {
        major: (number32(body, 8)? >> 16) as u16,
        broken: broken.then(|| text(app.get(80..208).unwrap_or_default())),
        generation: number64(app, 8)?,
        super_frames: number64(app, 24)?,
        sampled: Sampled::at(app, 32)?,
        sent: Amount { packets: number32(basic, 8)?.into(), bytes: number64(basic, 0)? },
        dropped: number32(queue, 8)?.into(),
        queued: Amount { packets: number32(queue, 0)?.into(), bytes: number32(queue, 4)?.into() },
        record: record(app, 208, number32(app, 76)?)?,
    })
}

/// Reads a class of ours from the body of a message.
pub(crate) fn class(body: &[u8], index: i32, major: u16) -> Option<Class> {
    let (_, app) = ours(body, index)?;
    let handle = number32(body, 8)?;
    if handle >> 16 != u32::from(major) {
        return None;
    }
    Some(Class {
        minor: handle as u16,
        parent: u16::try_from(number32(app, 164)?).ok()?,
        index: number32(app, 160)?,
        leaf: number32(app, 4)? != 0,
        generation: number64(app, 8)?,
        guarantee_bps: number64(app, 16)?,
        received: amount(app, 24)?,
        sent: amount(app, 40)?,
        dropped: amount(app, 56)?,
        marked: amount(app, 72)?,
        queued: amount(app, 88)?,
        too_long_bytes: number64(app, 104)?,
        lent_bytes: number64(app, 112).filter(|&bytes| bytes != u64::MAX),
        sampled: Sampled::at(app, 120)?,
        record: record(app, 176, number32(app, 168)?)?,
    })
}
