//! Pairs of virtual Ethernet interfaces (veth(4)): created, queried and removed by rtnetlink, without external
//! programs.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use fairlink_core::Nanos;

use crate::io::clock::{Clock, MonotonicClock};
use crate::io::netlink::{
    INTERFACE_HEADER, NETLINK_HEADER, acknowledgement, address, attribute, nested, push_attribute, request,
};
use crate::io::{netlink, sys};

/// Maximum time for the kernel to bring a pair into service.
const PATIENCE: Nanos = Nanos::from_secs(10);

const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_QDISC: u16 = 6;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

/// Settings of both ends of a pair.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Largest IP packet in bytes, without the Ethernet header.
    pub mtu: u32,
    /// Packets that a queueing discipline without a limit of its own may hold at either end.
    pub queue: u32,
    /// The `alias` that `ip link` shows; empty for none.
    pub alias: &'a str,
}

impl Pair<'_> {
    /// Creates the interfaces `name` and `peer`, joined and down. Each end has one queue in each direction, so that
    /// frames stay in order.
    ///
    /// # Errors
    /// The kernel's answer: a name that exists (`EEXIST`), no permission (`EPERM`), a kernel without veth
    /// (`EOPNOTSUPP`).
    pub fn create(&self, name: &str, peer: &str) -> io::Result<()> {
        for name in [name, peer] {
            if !sys::is_interface_name(name) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("not an interface name: {name:?}")));
            }
        }
        acknowledgement(&request(&self.message(name, peer))?)?;
        if self.alias.is_empty() {
            return Ok(());
        }
        // The kernel does not accept an alias when it creates an interface.
        [name, peer].into_iter().try_for_each(|name| set_alias(name, self.alias)).inspect_err(|_| {
            let _ = sys::interface_index(name).and_then(remove);
        })
    }

    fn message(&self, name: &str, peer: &str) -> Vec<u8> {
        let mut message = vec![0; NETLINK_HEADER + INTERFACE_HEADER];
        self.push(&mut message, name);
        nested(&mut message, IFLA_LINKINFO, |message| {
            push_attribute(message, IFLA_INFO_KIND, b"veth\0");
            nested(message, IFLA_INFO_DATA, |message| {
                nested(message, VETH_INFO_PEER, |message| {
                    message.extend([0; INTERFACE_HEADER]);
                    self.push(message, peer);
                });
            });
        });
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        address(&mut message, libc::RTM_NEWLINK, flags);
        message
    }

    fn push(&self, message: &mut Vec<u8>, name: &str) {
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        push_attribute(message, IFLA_IFNAME, &text);
        push_attribute(message, IFLA_MTU, &self.mtu.to_ne_bytes());
        push_attribute(message, IFLA_TXQLEN, &self.queue.to_ne_bytes());
        push_attribute(message, IFLA_NUM_TX_QUEUES, &1u32.to_ne_bytes());
        push_attribute(message, IFLA_NUM_RX_QUEUES, &1u32.to_ne_bytes());
    }
}

/// Builds a message about the interface with this index, without attributes.
fn about(index: i32) -> Vec<u8> {
    let mut message = vec![0; NETLINK_HEADER + INTERFACE_HEADER];
    message[NETLINK_HEADER + 4..NETLINK_HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    message
}

fn set_alias(name: &str, alias: &str) -> io::Result<()> {
    let mut message = about(sys::interface_index(name)?);
    push_attribute(&mut message, IFLA_IFALIAS, alias.as_bytes());
    address(&mut message, libc::RTM_NEWLINK, libc::NLM_F_REQUEST | libc::NLM_F_ACK);
    acknowledgement(&request(&message)?)
}

/// Moves the interface `name` into a network namespace, where it is initially down and without address.
///
/// # Errors
/// The kernel's answer: a name that the namespace has already (`EEXIST`), no permission (`EPERM`).
pub fn move_to(name: &str, namespace: &File) -> io::Result<()> {
    let mut message = about(sys::interface_index(name)?);
    push_attribute(&mut message, IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
    address(&mut message, libc::RTM_NEWLINK, libc::NLM_F_REQUEST | libc::NLM_F_ACK);
    acknowledgement(&request(&message)?)
}

/// Returns the `alias` of the interface with this index, as `ip link` shows it, or `None` if it has none.
pub(crate) fn alias(index: i32) -> io::Result<Option<String>> {
    let answer = netlink::link(index)?;
    let text = attribute(&answer, IFLA_IFALIAS).map(|value| value.strip_suffix(b"\0").unwrap_or(value));
    Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()))
}

/// Removes the interface with this index and its peer.
///
/// # Errors
/// The kernel's answer.
pub(crate) fn remove(index: i32) -> io::Result<()> {
    let mut message = about(index);
    address(&mut message, libc::RTM_DELLINK, libc::NLM_F_REQUEST | libc::NLM_F_ACK);
    acknowledgement(&request(&message)?)
}

/// Waits until the interface carries frames. After it and its peer were set up, the kernel drops frames until it has
/// noticed the cable, a few milliseconds later.
///
/// # Errors
/// The kernel's answer; `TimedOut` after 10 s.
pub fn wait_until_running(name: &str) -> io::Result<()> {
    let clock = MonotonicClock::start();
    while queueing_discipline(name)? == b"noop" {
        if clock.now() >= PATIENCE {
            let message = format!("interface {name} carries no frames after {PATIENCE}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // Waits for the lock under which the kernel is still starting the interface.
    sys::set_interface_up(name, true)
}

/// Name of the interface's queueing discipline: `noop` as long as it drops everything.
fn queueing_discipline(name: &str) -> io::Result<Vec<u8>> {
    let answer = netlink::link(sys::interface_index(name)?)?;
    attribute(&answer, IFLA_QDISC)
        .map(|value| value.strip_suffix(b"\0").unwrap_or(value).to_vec())
        .ok_or_else(|| acknowledgement(&answer).err().unwrap_or_else(|| io::Error::from(io::ErrorKind::InvalidData)))
}
