//! The messages: what is sent, and what is read out of the answers.

use fairlink_core::Amount;

use crate::io::netlink::{NETLINK_HEADER, address, attribute_of, nested, number32, push_attribute};
use crate::qdisc::{BROKEN, QDISC, QdiscClass, QdiscState};

/// `struct tcmsg`: family, padding, interface, handle, parent, info.
const TC_HEADER: usize = 20;
const NESTED: u16 = 1 << 15;
const TC_ROOT: u32 = u32::MAX;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
/// The only option: the bytes of a configuration.
const TCA_FAIRLINK_CONFIG: u16 = 1;
/// The text in an extended acknowledgement.
const NLMSGERR_ATTR_MSG: u16 = 1;

fn message(index: i32, handle: u32, parent: u32) -> Vec<u8> {
    let mut message = vec![0; NETLINK_HEADER + TC_HEADER];
    message[NETLINK_HEADER + 4..NETLINK_HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    message[NETLINK_HEADER + 8..NETLINK_HEADER + 12].copy_from_slice(&handle.to_ne_bytes());
    message[NETLINK_HEADER + 12..NETLINK_HEADER + 16].copy_from_slice(&parent.to_ne_bytes());
    message
}

/// Adds or changes the root, with the flags of rtnetlink(7) beside those of a request.
pub(crate) fn set(index: i32, major: u16, config: Option<&[u8]>, flags: libc::c_int) -> Vec<u8> {
    let mut message = message(index, u32::from(major) << 16, TC_ROOT);
    push_attribute(&mut message, TCA_KIND, format!("{QDISC}\0").as_bytes());
    if let Some(config) = config {
        nested(&mut message, TCA_OPTIONS | NESTED, |message| push_attribute(message, TCA_FAIRLINK_CONFIG, config));
    }
    address(&mut message, libc::RTM_NEWQDISC, libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags);
    message
}

/// Takes the root away.
pub(crate) fn delete(index: i32, major: u16) -> Vec<u8> {
    let mut message = message(index, u32::from(major) << 16, TC_ROOT);
    address(&mut message, libc::RTM_DELQDISC, libc::NLM_F_REQUEST | libc::NLM_F_ACK);
    message
}

/// Asks for all queueing disciplines.
pub(crate) fn disciplines(index: i32) -> Vec<u8> {
    let mut message = message(index, 0, 0);
    address(&mut message, libc::RTM_GETQDISC, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    message
}

/// Asks for all classes of an interface.
pub(crate) fn classes(index: i32) -> Vec<u8> {
    let mut message = message(index, 0, 0);
    address(&mut message, libc::RTM_GETTCLASS, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    message
}

/// What the kernel said of an error, after its code and the header of what it refuses.
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

/// A text that ends at a zero or with its place.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The attributes and the statistics of ours, of a message about one of this interface and kind.
fn ours(body: &[u8], index: i32) -> Option<(&[u8], &[u8])> {
    let attributes = body.get(TC_HEADER..)?;
    let kind = text(attribute_of(attributes, TCA_KIND)?);
    let same = number32(body, 4) == Some(index as u32) && (kind == QDISC || kind == BROKEN);
    let stats = attribute_of(attributes, TCA_STATS2)?;
    same.then_some((stats, attribute_of(stats, TCA_STATS_APP)?)).filter(|(_, app)| number32(app, 0) == Some(1))
}

/// A queueing discipline of ours at the root, out of the body of a message: `struct fl_xstats`.
pub(crate) fn discipline(body: &[u8], index: i32) -> Option<QdiscState> {
    let (stats, app) = ours(body, index)?;
    if number32(body, 12) != Some(TC_ROOT) {
        return None;
    }
    let (basic, queue) = (attribute_of(stats, TCA_STATS_BASIC)?, attribute_of(stats, TCA_STATS_QUEUE)?);
    let broken = number32(app, 4)? != 0;
    Some(QdiscState {
        major: (number32(body, 8)? >> 16) as u16,
        scheduler: text(app.get(32..64)?),
        broken: broken.then(|| app.get(64..).map_or(String::new(), text)),
        rate_bps: number64(app, 8)?,
        default: u16::try_from(number32(app, 28)?).ok().filter(|&minor| minor != 0),
        sent: Amount { packets: number32(basic, 8)?.into(), bytes: number64(basic, 0)? },
        dropped: number32(queue, 8)?.into(),
        queued: Amount { packets: number32(queue, 0)?.into(), bytes: number32(queue, 4)?.into() },
        super_frames: number64(app, 192)?,
        classes: Vec::new(),
    })
}

/// A class of ours, out of the body of a message: `struct fl_class_xstats`.
pub(crate) fn class(body: &[u8], index: i32, major: u16) -> Option<QdiscClass> {
    let (_, app) = ours(body, index)?;
    let handle = number32(body, 8)?;
    if handle >> 16 != u32::from(major) {
        return None;
    }
    let name_len = number32(app, 108)? as usize;
    Some(QdiscClass {
        minor: handle as u16,
        parent: number32(app, 104)? as u16,
        name: String::from_utf8_lossy(app.get(112..112 + name_len)?).into_owned(),
        leaf: number32(app, 4)? != 0,
        rate_bps: number64(app, 8)?,
        received: amount(app, 16)?,
        sent: amount(app, 32)?,
        dropped: amount(app, 48)?,
        marked: amount(app, 64)?,
        queued: amount(app, 80)?,
        lent_bytes: number64(app, 96).filter(|&bytes| bytes != u64::MAX),
    })
}
