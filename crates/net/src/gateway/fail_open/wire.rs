//! The wire: the kernel's own path from one interface to another. Frames that the first receives leave by the second,
//! unless they are dropped or redirected before. It is a filter of the interface's `clsact` queueing discipline, which
//! `tc` shows and removes:
//!
//! ```text
//! ip link set IN promisc on
//! tc qdisc add dev IN clsact
//! tc filter add dev IN ingress pref 64017 protocol all u32 match u32 0 0 action mirred egress redirect dev OUT
//! ```
//!
//! It belongs to no process, so it stays when a process ends. It is not a bridge. A bridge keeps frames for link-local
//! groups to itself (LACP, LLDP, 802.1X). It hands IP packets to the host's firewall if `br_netfilter` is on, learns
//! addresses, and takes over interfaces. The interface is promiscuous for the sake of frames to other stations, which
//! its hardware would drop.

use std::io;

use crate::io::netlink::{
    NETLINK_HEADER, acknowledgement, address, attribute_of, dump, nested, number32, push_attribute, request,
};
use crate::io::sys;

/// The filter's `pref`: behind other filters that may exist. A filter with this number is ours.
const PRIORITY: u32 = 64_017;

/// Length of `struct tcmsg`, and offsets of its members.
const HEADER: usize = 20;
const INDEX: usize = 4;
const HANDLE: usize = 8;
const PARENT: usize = 12;
const INFO: usize = 16;

/// Parent handle and name of `clsact`, and the parents of its filters for received and sent frames.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_ACT: u16 = 7;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
/// `TC_ACT_STOLEN`: the host's own stack does not see the frame.
const STOLEN: i32 = 4;
/// `TCA_EGRESS_REDIR`
const REDIRECT: i32 = 1;
/// `TC_U32_TERMINAL`: the selector decides.
const TERMINAL: u8 = 1;
/// Offset of the interface, the last member of `struct tc_mirred`.
const MIRRED_TARGET: usize = 24;

/// Creates the wire from the interface `from` (name and index) to that with the index `to`. Returns true if it did not
/// exist.
///
/// # Errors
/// The kernel's answer: no permission (`EPERM`), a kernel without one of the parts (`ENOENT`, `EOPNOTSUPP`).
pub(super) fn lay(from: (&str, i32), to: i32) -> io::Result<bool> {
    let (name, index) = from;
    let found = target(index)?;
    sys::set_interface_flag(name, libc::IFF_PROMISC, true)?;
    if found == Some(Some(to)) {
        return Ok(false);
    }
    if found.is_some() {
        delete_filter(index)?;
    }
    match acknowledgement(&request(&discipline(index, libc::RTM_NEWQDISC))?) {
        Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return Err(error),
        _ => {}
    }
    acknowledgement(&request(&redirection(index, to))?)?;
    Ok(true)
}

/// Removes the wire from the interface `from` (name and index), and `clsact` if nothing else uses that. Returns true if
/// there was one.
///
/// # Errors
/// The kernel's answer.
pub(super) fn take_up(from: (&str, i32)) -> io::Result<bool> {
    let (name, index) = from;
    if target(index)?.is_none() {
        return Ok(false);
    }
    delete_filter(index)?;
    if filters(index, INGRESS)?.is_empty() && filters(index, EGRESS)?.is_empty() {
        // Fails if a new filter uses it meanwhile.
        let _ = request(&discipline(index, libc::RTM_DELQDISC));
    }
    sys::set_interface_flag(name, libc::IFF_PROMISC, false)?;
    Ok(true)
}

/// Returns the target of the wire from the interface with this index. `None`: there is no wire. `Some(None)`: it has no
/// target, because the other interface has gone.
pub(super) fn target(index: i32) -> io::Result<Option<Option<i32>>> {
    let ours = |filter: &&Vec<u8>| number32(filter, INFO).is_some_and(|info| info >> 16 == PRIORITY);
    let filters = filters(index, INGRESS)?;
    let mut found = None;
    for filter in filters.iter().filter(ours) {
        found = Some(mirrored_to(filter.get(HEADER..).unwrap_or_default()).or(found.flatten()));
    }
    Ok(found)
}

/// Returns the target interface of a filter with these attributes.
fn mirrored_to(attributes: &[u8]) -> Option<i32> {
    let actions = attribute_of(attribute_of(attributes, TCA_OPTIONS)?, TCA_U32_ACT)?;
    let action = attribute_of(attribute_of(actions, 1)?, TCA_ACT_OPTIONS)?;
    let target = number32(attribute_of(action, TCA_MIRRED_PARMS)?, MIRRED_TARGET)? as i32;
    Some(target).filter(|&target| target > 0)
}

/// A message of traffic control about the interface with this index, without its attributes.
fn message(index: i32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut message = vec![0; NETLINK_HEADER + HEADER];
    let mut put = |offset: usize, value: u32| {
        message[NETLINK_HEADER + offset..NETLINK_HEADER + offset + 4].copy_from_slice(&value.to_ne_bytes());
    };
    put(INDEX, index as u32);
    put(HANDLE, handle);
    put(PARENT, parent);
    put(INFO, info);
    message
}

fn discipline(index: i32, what: u16) -> Vec<u8> {
    let mut message = message(index, CLSACT_HANDLE, CLSACT, 0);
    push_attribute(&mut message, TCA_KIND, b"clsact\0");
    let new = if what == libc::RTM_NEWQDISC { libc::NLM_F_CREATE | libc::NLM_F_EXCL } else { 0 };
    address(&mut message, what, libc::NLM_F_REQUEST | libc::NLM_F_ACK | new);
    message
}

/// Our priority, and all protocols.
fn info() -> u32 {
    PRIORITY << 16 | u32::from((libc::ETH_P_ALL as u16).to_be())
}

fn redirection(index: i32, to: i32) -> Vec<u8> {
    let mut message = message(index, 0, INGRESS, info());
    push_attribute(&mut message, TCA_KIND, b"u32\0");
    nested(&mut message, TCA_OPTIONS, |message| {
        // A `struct tc_u32_sel` without keys, which matches any frame, however short.
        let mut selector = [0; 16];
        selector[0] = TERMINAL;
        push_attribute(message, TCA_U32_SEL, &selector);
        nested(message, TCA_U32_ACT, |message| {
            nested(message, 1, |message| {
                push_attribute(message, TCA_ACT_KIND, b"mirred\0");
                nested(message, TCA_ACT_OPTIONS, |message| {
                    // index, capab, action, refcnt, bindcnt, eaction, ifindex
                    let parameters = [0, 0, STOLEN, 0, 0, REDIRECT, to];
                    push_attribute(message, TCA_MIRRED_PARMS, &parameters.map(i32::to_ne_bytes).concat());
                });
            });
        });
    });
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    address(&mut message, libc::RTM_NEWTFILTER, flags);
    message
}

fn delete_filter(index: i32) -> io::Result<()> {
    let mut message = message(index, 0, INGRESS, info());
    push_attribute(&mut message, TCA_KIND, b"u32\0");
    address(&mut message, libc::RTM_DELTFILTER, libc::NLM_F_REQUEST | libc::NLM_F_ACK);
    acknowledgement(&request(&message)?)
}

/// Returns the filters of the interface with this index; none without `clsact`.
fn filters(index: i32, parent: u32) -> io::Result<Vec<Vec<u8>>> {
    let mut message = message(index, 0, parent, 0);
    address(&mut message, libc::RTM_GETTFILTER, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    match dump(&message) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => Ok(Vec::new()),
        listed => listed,
    }
}
