//! The few messages of nf_tables (linux/netfilter/nf_tables.h) that the gateway needs, built by hand. Several messages
//! make a batch, which the kernel executes as a whole or not at all. Tables are of the family `netdev`, whose chains
//! see the frames that an interface receives or is about to send.

use std::io;
use std::os::fd::OwnedFd;

use crate::io::netlink::{self, NETLINK_HEADER, acknowledgement, nested, push_attribute};
use crate::io::sys;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// `NFPROTO_NETDEV`
const NETDEV: u8 = 5;

// Messages of the subsystem.
const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const GET_RULE: u16 = 7;
const NEW_SET: u16 = 9;
const NEW_ELEMENT: u16 = 12;

/// `NFT_TABLE_F_OWNER`: the table vanishes with the socket that made it, and only that socket can change it.
const OWNED: u32 = 2;
/// `NFT_SET_TIMEOUT`
const WITH_TIMEOUT: u32 = 0x10;
/// `NFTA_LIST_ELEM`, `NFTA_DATA_VALUE`, `NFTA_DATA_VERDICT`, `NFTA_VERDICT_CODE`
const ELEMENT: u16 = 1;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
/// `NFT_META_MARK`, `NFT_META_IIF`, `NFT_META_OIF`
const META_MARK: u32 = 3;
const META_INPUT: u32 = 4;
const META_OUTPUT: u32 = 5;
/// `NFT_CMP_EQ`
const EQUAL: u32 = 0;
/// `NFT_REG_VERDICT`, and the first data register.
const VERDICT: u32 = 0;
const REGISTER: u32 = 1;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;

/// Hook of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Received frames of an interface.
    Ingress = 0,
    /// Frames that an interface is about to send (Linux 5.17).
    Egress = 1,
}

/// A batch of messages.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Beginning of the last message.
    last: usize,
}

impl Batch {
    pub(crate) fn new() -> Self {
        let mut batch = Self { bytes: Vec::new(), last: 0 };
        batch.message(BATCH_BEGIN, 0, SUBSYSTEM.to_be(), 0, |_| ());
        batch
    }

    fn message(&mut self, kind: u16, family: u8, resource: u16, flags: libc::c_int, body: impl FnOnce(&mut Vec<u8>)) {
        let mut message = vec![0; NETLINK_HEADER];
        message.extend([family, 0]);
        message.extend(resource.to_ne_bytes());
        body(&mut message);
        netlink::address(&mut message, kind, libc::NLM_F_REQUEST | flags);
        self.last = self.bytes.len();
        self.bytes.extend(message);
    }

    fn add(&mut self, kind: u16, flags: libc::c_int, body: impl FnOnce(&mut Vec<u8>)) {
        self.message(SUBSYSTEM << 8 | kind, NETDEV, 0, flags, body);
    }

    /// Adds a table if it does not exist; an `owned` one belongs to the socket.
    pub(crate) fn table(&mut self, name: &str, owned: bool) {
        self.add(NEW_TABLE, libc::NLM_F_CREATE, |message| {
            string(message, 1, name);
            if owned {
                number(message, 2, OWNED);
            }
        });
    }

    pub(crate) fn delete_table(&mut self, name: &str) {
        self.add(DELETE_TABLE, 0, |message| string(message, 1, name));
    }

    /// Adds a chain for the frames that `interface` receives, with the interface's name; lower priorities see frames
    /// first.
    pub(crate) fn chain(&mut self, table: &str, interface: &str, priority: i32) {
        self.base_chain(table, interface, (Hook::Ingress, interface, priority), NF_ACCEPT);
    }

    /// Adds a chain for the frames that `interface` is about to send, with the interface's name.
    pub(crate) fn egress_chain(&mut self, table: &str, interface: &str) {
        self.base_chain(table, interface, (Hook::Egress, interface, 0), NF_ACCEPT);
    }

    /// Adds a chain that drops the frames that `interface` receives, with the interface's name.
    pub(crate) fn closed_chain(&mut self, table: &str, interface: &str) {
        self.base_chain(table, interface, (Hook::Ingress, interface, 0), NF_DROP);
    }

    fn base_chain(&mut self, table: &str, name: &str, (hook, interface, priority): (Hook, &str, i32), policy: u32) {
        self.add(NEW_CHAIN, libc::NLM_F_CREATE, |message| {
            string(message, 1, table);
            string(message, 3, name);
            nested(message, 4 | NESTED, |message| {
                number(message, 1, hook as u32);
                number(message, 2, priority as u32);
                string(message, 3, interface);
            });
            number(message, 5, policy);
            string(message, 7, "filter");
        });
    }

    /// Adds a set of interfaces with timeouts.
    pub(crate) fn set_of_interfaces(&mut self, table: &str, name: &str, id: u32) {
        self.add(NEW_SET, libc::NLM_F_CREATE, |message| {
            string(message, 1, table);
            string(message, 2, name);
            number(message, 3, WITH_TIMEOUT);
            number(message, 4, 0);
            number(message, 5, 4);
            number(message, 10, id);
        });
    }

    /// Adds interfaces to a set, for `millis` ms.
    pub(crate) fn put(&mut self, table: &str, set: &str, interfaces: &[i32], millis: u64) {
        self.add(NEW_ELEMENT, libc::NLM_F_CREATE, |message| {
            string(message, 1, table);
            string(message, 2, set);
            nested(message, 3 | NESTED, |message| {
                for interface in interfaces {
                    nested(message, ELEMENT | NESTED, |message| {
                        nested(message, 1 | NESTED, |message| {
                            push_attribute(message, DATA_VALUE, &interface.to_ne_bytes());
                        });
                        push_attribute(message, 4, &millis.to_be_bytes());
                    });
                }
            });
        });
    }

    /// Adds a rule: drop frames of an interface in the set.
    pub(crate) fn drop_members(&mut self, table: &str, chain: &str, set: &str, id: u32) {
        self.rule(table, chain, |rule| {
            is_member(rule, META_INPUT, set, id);
            verdict(rule, NF_DROP);
        });
    }

    /// Adds a rule: accept frames with this mark.
    pub(crate) fn pass_marked(&mut self, table: &str, chain: &str, mark: u32) {
        self.rule(table, chain, |rule| {
            load_meta(rule, META_MARK);
            expression(rule, "cmp", |data| {
                number(data, 1, REGISTER);
                number(data, 2, EQUAL);
                nested(data, 3 | NESTED, |data| push_attribute(data, DATA_VALUE, &mark.to_ne_bytes()));
            });
            verdict(rule, NF_ACCEPT);
        });
    }

    /// Adds a rule: mark frames that an interface in the set is about to send, and send them by the interface with this
    /// index instead.
    pub(crate) fn redirect_members(&mut self, table: &str, chain: &str, set: (&str, u32), mark: u32, index: i32) {
        self.rule(table, chain, |rule| {
            is_member(rule, META_OUTPUT, set.0, set.1);
            load_number(rule, mark);
            expression(rule, "meta", |data| {
                number(data, 2, META_MARK);
                number(data, 3, REGISTER);
            });
            send_by(rule, index);
        });
    }

    /// Adds a rule: send all frames by the interface with this index.
    pub(crate) fn forward(&mut self, table: &str, chain: &str, index: i32) {
        self.rule(table, chain, |rule| send_by(rule, index));
    }

    fn rule(&mut self, table: &str, chain: &str, body: impl FnOnce(&mut Vec<u8>)) {
        self.add(NEW_RULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND, |message| {
            string(message, 1, table);
            string(message, 2, chain);
            nested(message, 4 | NESTED, body);
        });
    }

    fn finish(mut self) -> Vec<u8> {
        // The last message is acknowledged; of the others only failures are reported.
        let at = self.last + 6;
        let flags = u16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]) | libc::NLM_F_ACK as u16;
        self.bytes[at..at + 2].copy_from_slice(&flags.to_ne_bytes());
        self.message(BATCH_END, 0, SUBSYSTEM.to_be(), 0, |_| ());
        self.bytes
    }
}

/// Returns true if this chain of this table has a rule. A missing table or chain has none.
///
/// # Errors
/// The kernel's answer.
pub(crate) fn has_rule(table: &str, chain: &str) -> io::Result<bool> {
    let mut message = vec![0; NETLINK_HEADER];
    message.extend([NETDEV, 0, 0, 0]);
    string(&mut message, 1, table);
    string(&mut message, 2, chain);
    netlink::address(&mut message, SUBSYSTEM << 8 | GET_RULE, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    match netlink::dump_of(libc::NETLINK_NETFILTER, &message) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        rules => Ok(!rules?.is_empty()),
    }
}

/// `NLA_F_NESTED`
const NESTED: u16 = 0x8000;

fn string(message: &mut Vec<u8>, kind: u16, text: &str) {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    push_attribute(message, kind, &bytes);
}

fn number(message: &mut Vec<u8>, kind: u16, value: u32) {
    push_attribute(message, kind, &value.to_be_bytes());
}

fn expression(rule: &mut Vec<u8>, name: &str, data: impl FnOnce(&mut Vec<u8>)) {
    nested(rule, ELEMENT | NESTED, |element| {
        string(element, 1, name);
        nested(element, 2 | NESTED, data);
    });
}

/// Continues the rule only if the frame's interface, read by `key`, is in the set.
fn is_member(rule: &mut Vec<u8>, key: u32, set: &str, id: u32) {
    load_meta(rule, key);
    expression(rule, "lookup", |data| {
        string(data, 1, set);
        number(data, 2, REGISTER);
        number(data, 4, id);
    });
}

/// Loads the frame's metadata `key` into the register.
fn load_meta(rule: &mut Vec<u8>, key: u32) {
    expression(rule, "meta", |data| {
        number(data, 1, REGISTER);
        number(data, 2, key);
    });
}

fn load_number(rule: &mut Vec<u8>, value: u32) {
    expression(rule, "immediate", |data| {
        number(data, 1, REGISTER);
        nested(data, 2 | NESTED, |data| push_attribute(data, DATA_VALUE, &value.to_ne_bytes()));
    });
}

/// Sends the frame by the interface with this index.
fn send_by(rule: &mut Vec<u8>, index: i32) {
    load_number(rule, index as u32);
    expression(rule, "fwd", |data| number(data, 1, REGISTER));
}

fn verdict(rule: &mut Vec<u8>, code: u32) {
    expression(rule, "immediate", |data| {
        number(data, 1, VERDICT);
        nested(data, 2 | NESTED, |data| {
            nested(data, DATA_VERDICT | NESTED, |data| number(data, VERDICT_CODE, code));
        });
    });
}

/// A connection to nf_tables.
#[derive(Debug)]
pub(crate) struct Nftables {
    socket: OwnedFd,
}

impl Nftables {
    /// # Errors
    /// The kernel's answer: no netfilter (`EPROTONOSUPPORT`).
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { socket: sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)? })
    }

    /// The same connection by another descriptor.
    pub(crate) fn moved(self, to: impl FnOnce(OwnedFd) -> io::Result<OwnedFd>) -> io::Result<Self> {
        Ok(Self { socket: to(self.socket)? })
    }

    /// Executes `batch` and waits for the result.
    ///
    /// # Errors
    /// The kernel's answer to the first message that fails; nothing has changed then.
    pub(crate) fn run(&self, batch: Batch) -> io::Result<()> {
        netlink::send(&self.socket, &batch.finish())?;
        acknowledgement(&netlink::receive(&self.socket)?)
    }
}
