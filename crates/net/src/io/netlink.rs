//! Reads properties of interfaces by rtnetlink. The few messages are built by hand here, without a netlink library.
//! Their layout is in rtnetlink(7) and `linux/if_link.h`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::io::sys;

/// Length of the header of a netlink message in bytes.
pub const NETLINK_HEADER: usize = 16;
pub(crate) const INTERFACE_HEADER: usize = 16;

/// The part of an attribute's kind that is not a flag.
const ATTRIBUTE_KIND: u16 = 0x3fff;

const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINK_NETNSID: u16 = 37;

/// Relations of an interface to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relations {
    /// Index of the bridge, bond or the like that it is a port of.
    pub(crate) master: Option<i32>,
    /// Index of the related interface in this network namespace: the other end of a veth, or the parent of a VLAN.
    pub(crate) link: Option<i32>,
}

/// Returns the relations of the interface with this index.
pub(crate) fn relations(index: i32) -> io::Result<Relations> {
    let answer = link(index)?;
    let number = |kind| Some(i32::from_ne_bytes(*attribute(&answer, kind)?.first_chunk()?)).filter(|&index| index > 0);
    // With a namespace id, the index belongs to that namespace.
    let elsewhere = attribute(&answer, IFLA_LINK_NETNSID).is_some();
    Ok(Relations { master: number(IFLA_MASTER), link: number(IFLA_LINK).filter(|_| !elsewhere) })
}

/// Returns the kernel's message about the interface with this index.
pub(crate) fn link(index: i32) -> io::Result<Vec<u8>> {
    let mut message = vec![0; NETLINK_HEADER + INTERFACE_HEADER];
    message[NETLINK_HEADER + 4..NETLINK_HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    address(&mut message, libc::RTM_GETLINK, libc::NLM_F_REQUEST);
    request(&message)
}

/// Fills in the header of a message that is otherwise complete.
pub fn address(message: &mut [u8], kind: u16, flags: libc::c_int) {
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
}

/// Sends one rtnetlink request and waits for the answer.
pub fn request(message: &[u8]) -> io::Result<Vec<u8>> {
    request_of(libc::NETLINK_ROUTE, message)
}

/// As [`request`], with another netlink protocol.
pub(crate) fn request_of(protocol: libc::c_int, message: &[u8]) -> io::Result<Vec<u8>> {
    let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
    send(&socket, message)?;
    receive(&socket)
}

/// Sends `message` to the kernel.
pub(crate) fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer is readable for its length; an unbound netlink socket sends to the kernel.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives the next datagram of the kernel: one message or several.
pub(crate) fn receive(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    // Larger than all attributes of one interface; truncated bytes are not read.
    let mut answer = vec![0u8; 32_768];
    // SAFETY: the buffer is writable for its length.
    let received = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    answer.truncate(received as usize);
    Ok(answer)
}

/// Reads the code of an `NLMSG_ERROR` message: 0 for success, otherwise a negative error number.
pub fn acknowledgement(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(kind), Some(0)) if kind == libc::NLMSG_ERROR as u16 => Ok(()),
        (Some(kind), Some(code)) if kind == libc::NLMSG_ERROR as u16 => {
            Err(io::Error::from_raw_os_error(code.saturating_neg()))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "rtnetlink gave no acknowledgement")),
    }
}

/// Returns the attribute `kind` of a message about an interface.
pub(crate) fn attribute(message: &[u8], kind: u16) -> Option<&[u8]> {
    attribute_of(message.get(NETLINK_HEADER + INTERFACE_HEADER..)?, kind)
}

/// Returns the attribute `kind` among these.
pub(crate) fn attribute_of(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    loop {
        let (&length, tail) = rest.split_first_chunk::<2>()?;
        let (&found, _) = tail.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_ne_bytes(length));
        let value = rest.get(4..length)?;
        if u16::from_ne_bytes(found) & ATTRIBUTE_KIND == kind {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

/// Appends an attribute with this value.
pub fn push_attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    nested(message, kind, |message| message.extend(value));
}

/// Appends an attribute whose value `body` appends; padded to four bytes.
pub(crate) fn nested(message: &mut Vec<u8>, kind: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = message.len();
    message.extend([0, 0]);
    message.extend(kind.to_ne_bytes());
    body(message);
    let length = (message.len() - start) as u16;
    message[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Sends an rtnetlink request for a list, with `NLM_F_DUMP` among its flags. Returns the bodies of the answers, without
/// their headers.
pub(crate) fn dump(message: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    dump_of(libc::NETLINK_ROUTE, message)
}

/// As [`dump`], with another netlink protocol.
pub(crate) fn dump_of(protocol: libc::c_int, message: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
    send(&socket, message)?;
    let mut bodies = Vec::new();
    loop {
        let answer = receive(&socket)?;
        let mut rest = &answer[..];
        while let (Some(length), Some(kind)) = (number32(rest, 0), rest.get(4..6)) {
            let length = length as usize;
            let Some(body) = rest.get(NETLINK_HEADER..length) else { return Err(io::ErrorKind::InvalidData.into()) };
            match i32::from(u16::from_ne_bytes([kind[0], kind[1]])) {
                libc::NLMSG_DONE => return Ok(bodies),
                libc::NLMSG_ERROR => return acknowledgement(rest).map(|()| bodies),
                _ => bodies.push(body.to_vec()),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// Reads a 32-bit number in native byte order at `offset`.
pub(crate) fn number32(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}
