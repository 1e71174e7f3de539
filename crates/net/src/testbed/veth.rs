//! Pairs of virtual Ethernet interfaces and their settings, without any external program.
//!
//! One rtnetlink message is all that is needed, so it is written by hand here (layout: rtnetlink(7), `linux/if_link.h`)
//! rather than through a netlink library; the rest are the classic interface requests of netdevice(7).

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::io::sys;

/// Settings of both ends of a new pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VethOptions {
    /// Largest IP packet in bytes; the Ethernet header comes on top.
    pub mtu: u32,
    /// Packets that a queueing discipline without a limit of its own may hold.
    pub tx_queue_len: u32,
}

impl Default for VethOptions {
    fn default() -> Self {
        Self { mtu: 1500, tx_queue_len: 1000 }
    }
}

const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_QDISC: u16 = 6;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

const NETLINK_HEADER: usize = 16;
const INTERFACE_HEADER: usize = 16;

/// Creates the interfaces `name` and `peer`, joined by a virtual cable, down, with one queue each way (so that frames stay
/// in order), without offloads.
///
/// # Errors
/// The kernel's answer: a name that exists (`EEXIST`), no permission (`EPERM`), a kernel without veth (`EOPNOTSUPP`).
pub fn create_pair(name: &str, peer: &str, options: &VethOptions) -> io::Result<()> {
    for name in [name, peer] {
        if name.is_empty() || name.len() > sys::MAX_NAME || name.bytes().any(|byte| byte == 0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("not an interface name: {name:?}")));
        }
    }
    acknowledgement(&request(&new_pair_message(name, peer, options))?)?;
    for name in [name, peer] {
        disable_offloads(name)?;
    }
    Ok(())
}

fn new_pair_message(name: &str, peer: &str, options: &VethOptions) -> Vec<u8> {
    let mut message = vec![0; NETLINK_HEADER + INTERFACE_HEADER];
    push_interface(&mut message, name, options);
    nested(&mut message, IFLA_LINKINFO, |message| {
        push_attribute(message, IFLA_INFO_KIND, b"veth\0");
        nested(message, IFLA_INFO_DATA, |message| {
            nested(message, VETH_INFO_PEER, |message| {
                message.extend([0; INTERFACE_HEADER]);
                push_interface(message, peer, options);
            });
        });
    });
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    address(&mut message, libc::RTM_NEWLINK, flags);
    message
}

/// Fills in the header of a message that is otherwise complete.
fn address(message: &mut [u8], kind: u16, flags: libc::c_int) {
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
}

fn push_interface(message: &mut Vec<u8>, name: &str, options: &VethOptions) {
    let mut text = name.as_bytes().to_vec();
    text.push(0);
    push_attribute(message, IFLA_IFNAME, &text);
    push_attribute(message, IFLA_MTU, &options.mtu.to_ne_bytes());
    push_attribute(message, IFLA_TXQLEN, &options.tx_queue_len.to_ne_bytes());
    push_attribute(message, IFLA_NUM_TX_QUEUES, &1u32.to_ne_bytes());
    push_attribute(message, IFLA_NUM_RX_QUEUES, &1u32.to_ne_bytes());
}

fn push_attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    nested(message, kind, |message| message.extend(value));
}

/// An attribute whose value `body` appends; padded to four bytes as all are.
fn nested(message: &mut Vec<u8>, kind: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = message.len();
    message.extend([0, 0]);
    message.extend(kind.to_ne_bytes());
    body(message);
    let length = (message.len() - start) as u16;
    message[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Sends one rtnetlink request and waits for the answer.
fn request(message: &[u8]) -> io::Result<Vec<u8>> {
    let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    // SAFETY: the buffer is readable for its length; an unbound netlink socket sends to the kernel.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    // More than all attributes of one interface take; what is cut off is not read.
    let mut answer = vec![0u8; 32_768];
    // SAFETY: the buffer is writable for its length.
    let received = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    answer.truncate(received as usize);
    Ok(answer)
}

/// What an `NLMSG_ERROR` message says: its code is 0 for success and a negative error number otherwise.
fn acknowledgement(answer: &[u8]) -> io::Result<()> {
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

/// Sets the interface up.
///
/// # Errors
/// The kernel's answer: no such interface (`ENODEV`), no permission (`EPERM`).
pub fn set_up(name: &str) -> io::Result<()> {
    let answer = sys::interface_request(libc::SIOCGIFFLAGS, name, |_| ())?;
    // SAFETY: the kernel has written the flags into this field of the union.
    let flags = unsafe { answer.ifr_ifru.ifru_flags };
    sys::interface_request(libc::SIOCSIFFLAGS, name, |message| {
        message.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    })?;
    Ok(())
}

/// Waits until the interface carries frames: after it and its peer were set up, the kernel still drops what is sent until it
/// has noticed the cable, a few milliseconds later.
///
/// # Errors
/// `TimedOut` where that takes longer than `limit`, as it does while the peer is down; else as [`set_up`].
pub fn wait_until_running(name: &str, limit: Duration) -> io::Result<()> {
    let begin = Instant::now();
    while queueing_discipline(name)? == b"noop" {
        if begin.elapsed() >= limit {
            let message = format!("interface {name} carries nothing after {} ms", limit.as_millis());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // Waits for the lock under which the kernel is still starting the interface.
    set_up(name)
}

/// Name of the interface's queueing discipline: `noop` as long as it drops everything.
fn queueing_discipline(name: &str) -> io::Result<Vec<u8>> {
    let mut message = vec![0; NETLINK_HEADER + INTERFACE_HEADER];
    message[NETLINK_HEADER + 4..NETLINK_HEADER + 8].copy_from_slice(&sys::interface_index(name)?.to_ne_bytes());
    address(&mut message, libc::RTM_GETLINK, libc::NLM_F_REQUEST);
    let answer = request(&message)?;
    attribute(&answer, IFLA_QDISC)
        .map(|value| value.strip_suffix(b"\0").unwrap_or(value).to_vec())
        .ok_or_else(|| acknowledgement(&answer).err().unwrap_or_else(|| io::Error::from(io::ErrorKind::InvalidData)))
}

/// The value of the attribute `kind` of a message about an interface.
fn attribute(message: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = message.get(NETLINK_HEADER + INTERFACE_HEADER..)?;
    loop {
        let (&length, tail) = rest.split_first_chunk::<2>()?;
        let (&found, _) = tail.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_ne_bytes(length));
        let value = rest.get(4..length)?;
        if u16::from_ne_bytes(found) == kind {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

/// Turns IPv6 off for all interfaces of this thread's network namespace, present and to come, so that the kernel sends no
/// neighbour discovery of its own. A kernel without IPv6 is fine.
///
/// # Errors
/// Where the setting exists and cannot be written.
pub(crate) fn disable_ipv6() -> io::Result<()> {
    for which in ["all", "default"] {
        // These files show the settings of the namespace of the thread that opens them.
        match std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The switches of `linux/ethtool.h` that make an interface hand over frames that no wire would carry, with partial
/// checksums or larger than the MTU: receive and transmit checksums, scatter-gather, TCP segmentation, generic
/// segmentation, generic receive merging.
const OFFLOADS: [u32; 6] = [0x15, 0x17, 0x19, 0x1f, 0x24, 0x2c];

#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Turns the interface's offloads off. One that the interface does not have, or that is fixed, is left as it is.
///
/// # Errors
/// The kernel's answer: no such interface (`ENODEV`), no permission (`EPERM`).
pub(crate) fn disable_offloads(name: &str) -> io::Result<()> {
    for command in OFFLOADS {
        let mut value = EthtoolValue { command, data: 0 };
        // `value` outlives the request, and is what SIOCETHTOOL expects for these commands.
        let result = sys::interface_request(libc::SIOCETHTOOL, name, |message| {
            message.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
        });
        match result {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
