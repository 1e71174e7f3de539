//! Simulated machines: additional network namespaces, each with an interface and an address.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use crate::netns::{NamespaceError, PrivateNamespace, enter_private_namespace};
use crate::threads::join;
use fairlink_net::system as sys;
use fairlink_net::system::{NETLINK_HEADER, acknowledgement, address, push_attribute, request};
use fairlink_net::system::{move_to, wait_until_running};

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Length of `struct ifaddrmsg`.
const ADDRESS_HEADER: usize = 8;
/// Prefix length of the machines' common network.
const PREFIX: u8 = 24;

/// A network namespace that exists as long as this value, with IPv6 off.
#[derive(Debug)]
pub(crate) struct Machine {
    namespace: File,
}

impl Machine {
    /// Creates a machine without interfaces. As root of its user namespace this thread may create any number.
    ///
    /// # Errors
    /// [`NamespaceError`].
    pub(crate) fn new(_: &PrivateNamespace) -> Result<Self, NamespaceError> {
        let made = || {
            enter_private_namespace()?;
            let namespace = File::open("/proc/thread-self/ns/net")
                .map_err(|source| NamespaceError::Prepare { what: "open its file", source })?;
            Ok(Self { namespace })
        };
        std::thread::scope(|scope| join(scope.spawn(made)))
    }

    /// Runs `work` on a thread in the machine's namespace. Sockets that it opens stay there, whichever thread uses
    /// them.
    ///
    /// # Errors
    /// The kernel's answer if the namespace cannot be entered.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let entered = || {
            // SAFETY: the call takes no pointers; the file is open, and only this thread moves.
            sys::check(unsafe { libc::setns(self.namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
            Ok(work())
        };
        std::thread::scope(|scope| join(scope.spawn(entered)))
    }

    /// Moves the interface `name` of this thread's namespace into the machine, gives it `address`/24 and sets it up.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(crate) fn take(&self, name: &str, address: Ipv4Addr) -> io::Result<()> {
        move_to(name, &self.namespace)?;
        self.within(|| {
            add_address(name, address)?;
            sys::set_interface_up(name, true)
        })?
    }

    /// Waits until the machine's interface `name` carries frames.
    ///
    /// # Errors
    /// The kernel's answer; `TimedOut` after 10 s.
    pub(crate) fn wait_until_running(&self, name: &str) -> io::Result<()> {
        self.within(|| wait_until_running(name))?
    }
}

/// Gives the interface `name` of this thread's namespace an address.
fn add_address(name: &str, ip: Ipv4Addr) -> io::Result<()> {
    let index = sys::interface_index(name)?;
    let mut message = vec![0; NETLINK_HEADER + ADDRESS_HEADER];
    message[NETLINK_HEADER] = libc::AF_INET as u8;
    message[NETLINK_HEADER + 1] = PREFIX;
    message[NETLINK_HEADER + 4..].copy_from_slice(&index.to_ne_bytes());
    push_attribute(&mut message, IFA_LOCAL, &ip.octets());
    push_attribute(&mut message, IFA_ADDRESS, &ip.octets());
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    address(&mut message, libc::RTM_NEWADDR, flags);
    acknowledgement(&request(&message)?)
}
