//! A bridge of the kernel between two interfaces, created and removed by rtnetlink: what a gateway is compared with.

use std::io;

use fairlink_net::system as sys;
use fairlink_net::system::{NETLINK_HEADER, acknowledgement, address, push_attribute, request};

/// Length of `struct ifinfomsg`.
const INTERFACE_HEADER: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
/// Settings of this network namespace by which a bridge passes packets through iptables and arptables. They are on where
/// the module `br_netfilter` is loaded.
const FILTERS: [&str; 3] = ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables"];

/// A bridge, without spanning tree, snooping and packet filters. It is removed when this is dropped; its ports stay.
#[derive(Debug)]
pub struct Bridge {
    name: String,
}

impl Bridge {
    /// Creates the bridge `name` with these ports, which are up. It forwards from then on.
    ///
    /// # Errors
    /// The kernel's answer: a kernel without bridges (`EOPNOTSUPP`), a name that exists (`EEXIST`), no permission
    /// (`EPERM`).
    pub fn create(name: &str, ports: [&str; 2]) -> io::Result<Self> {
        for filter in FILTERS {
            // A kernel without `br_netfilter` has no such file, and an old one shows it to the first namespace only.
            let _ = std::fs::write(format!("/proc/sys/net/bridge/{filter}"), "0");
        }
        acknowledgement(&request(&creation(name))?)?;
        // Constructed before the rest, so that a failure half-way removes the bridge.
        let bridge = Self { name: name.to_owned() };
        let master = sys::interface_index(name)?;
        for port in ports {
            let mut message = about(sys::interface_index(port)?);
            push_attribute(&mut message, IFLA_MASTER, &master.to_ne_bytes());
            address(&mut message, libc::RTM_NEWLINK, libc::NLM_F_REQUEST | libc::NLM_F_ACK);
            acknowledgement(&request(&message)?)?;
        }
        sys::set_interface_up(name, true)?;
        Ok(bridge)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It vanishes with the namespace at the latest, and an error could not be reported.
        let _ = sys::interface_index(&self.name).and_then(|index| {
            let mut message = about(index);
            address(&mut message, libc::RTM_DELLINK, libc::NLM_F_REQUEST | libc::NLM_F_ACK);
            acknowledgement(&request(&message)?)
        });
    }
}

/// Builds a message about the interface with this index, without attributes.
fn about(index: i32) -> Vec<u8> {
    let mut message = vec![0; NETLINK_HEADER + INTERFACE_HEADER];
    message[NETLINK_HEADER + 4..NETLINK_HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    message
}

/// Builds the message that creates the bridge.
fn creation(name: &str) -> Vec<u8> {
    let (mut data, mut info, mut text) = (Vec::new(), Vec::new(), name.as_bytes().to_vec());
    text.push(0);
    push_attribute(&mut data, IFLA_BR_STP_STATE, &0u32.to_ne_bytes());
    push_attribute(&mut data, IFLA_BR_MCAST_SNOOPING, &[0]);
    push_attribute(&mut info, IFLA_INFO_KIND, b"bridge\0");
    push_attribute(&mut info, IFLA_INFO_DATA, &data);
    let mut message = about(0);
    push_attribute(&mut message, IFLA_IFNAME, &text);
    push_attribute(&mut message, IFLA_LINKINFO, &info);
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    address(&mut message, libc::RTM_NEWLINK, flags);
    message
}
