//! Virtual cables: pairs of virtual Ethernet interfaces, laid without any external program.
//!
//! Two rtnetlink messages are all that is needed.

use std::io;
use std::time::Duration;

use fairlink_core::Nanos;

use crate::io::clock::{Clock, MonotonicClock};
use crate::io::ethtool::{self, Offload};
use crate::io::netlink::{
    INTERFACE_HEADER, NETLINK_HEADER, acknowledgement, address, attribute, nested, push_attribute, request,
};
use crate::io::{netlink, sys};

/// Largest IP packet of both ends in bytes; the Ethernet header comes on top.
const MTU: u32 = 1500;
/// Packets that a queueing discipline without a limit of its own may hold at either end.
const QUEUE: u32 = 1000;
/// How long the kernel may take to bring a cable into service.
const PATIENCE: Nanos = Nanos::from_secs(10);
/// Offloads that make an end hand over frames that no wire would carry, unfinished or longer than its mtu.
const OFFLOADS: [Offload; 6] =
    [Offload::RxChecksum, Offload::TxChecksum, Offload::ScatterGather, Offload::Tso, Offload::Gso, Offload::Gro];

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

/// Lays virtual cables, each between two new interfaces of these names, and returns when all of them carry frames. Each end
/// has one queue each way, so that frames stay in order, and no offloads.
///
/// # Errors
/// The kernel's answer: a name that exists (`EEXIST`), no permission (`EPERM`), a kernel without veth (`EOPNOTSUPP`);
/// `TimedOut` where a cable is not in service after 10 s. Cables that were laid before stay.
pub fn lay_cables(pairs: &[(&str, &str)]) -> io::Result<()> {
    for (name, peer) in pairs {
        create_pair(name, peer)?;
        sys::set_interface_up(name, true)?;
        sys::set_interface_up(peer, true)?;
    }
    pairs.iter().flat_map(|&(name, peer)| [name, peer]).try_for_each(wait_until_running)
}

/// Creates the interfaces `name` and `peer`, joined by a virtual cable, down.
fn create_pair(name: &str, peer: &str) -> io::Result<()> {
    for name in [name, peer] {
        if !sys::is_interface_name(name) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("not an interface name: {name:?}")));
        }
    }
    acknowledgement(&request(&new_pair_message(name, peer))?)?;
    [name, peer].into_iter().try_for_each(|name| ethtool::turn_off(name, &OFFLOADS))
}

fn new_pair_message(name: &str, peer: &str) -> Vec<u8> {
    let mut message = vec![0; NETLINK_HEADER + INTERFACE_HEADER];
    push_interface(&mut message, name);
    nested(&mut message, IFLA_LINKINFO, |message| {
        push_attribute(message, IFLA_INFO_KIND, b"veth\0");
        nested(message, IFLA_INFO_DATA, |message| {
            nested(message, VETH_INFO_PEER, |message| {
                message.extend([0; INTERFACE_HEADER]);
                push_interface(message, peer);
            });
        });
    });
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    address(&mut message, libc::RTM_NEWLINK, flags);
    message
}

fn push_interface(message: &mut Vec<u8>, name: &str) {
    let mut text = name.as_bytes().to_vec();
    text.push(0);
    push_attribute(message, IFLA_IFNAME, &text);
    push_attribute(message, IFLA_MTU, &MTU.to_ne_bytes());
    push_attribute(message, IFLA_TXQLEN, &QUEUE.to_ne_bytes());
    push_attribute(message, IFLA_NUM_TX_QUEUES, &1u32.to_ne_bytes());
    push_attribute(message, IFLA_NUM_RX_QUEUES, &1u32.to_ne_bytes());
}

/// Waits until the interface carries frames: after it and its peer were set up, the kernel still drops what is sent until it
/// has noticed the cable, a few milliseconds later.
fn wait_until_running(name: &str) -> io::Result<()> {
    let clock = MonotonicClock::start();
    while queueing_discipline(name)? == b"noop" {
        if clock.now() >= PATIENCE {
            let message = format!("interface {name} carries nothing after {PATIENCE}");
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
