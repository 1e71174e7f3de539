//! Properties of an interface that the gateway checks before it uses it: existence, state, Ethernet, frame length, and
//! offloads that join several packets into one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::io::ethtool::{self, Offload};
use crate::io::{netlink, sys};
use fairlink_config::matching::ethernet;

/// Properties of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index in this network namespace.
    pub index: i32,
    /// Largest packet in bytes, the Ethernet header not counted.
    pub mtu: u32,
    /// Its IP addresses, for which the kernel also answers; IPv6 link-local addresses (fe80::/10), which every
    /// interface has, are omitted.
    pub addresses: Vec<IpAddr>,
    /// True if the host answers ARP requests that arrive here for addresses of its other interfaces.
    pub answers_for_others: bool,
    /// The bridge, bond or the like that it is a port of.
    pub master: Option<String>,
    /// Index of the related interface in this network namespace: the other end of a veth, or the parent of a VLAN.
    pub joined_to: Option<i32>,
    /// The driver, such as `veth`; empty if it is not reported.
    pub driver: String,
    /// Enabled offloads.
    pub offloads: Offloads,
}

/// Reason why an interface cannot be used.
#[derive(Debug, Error)]
pub enum InterfaceError {
    /// There is none of that name.
    #[error("interface {name} does not exist in this network namespace; `ip link` lists those that do")]
    Missing {
        /// The name given.
        name: String,
    },
    /// It is administratively down.
    #[error("interface {name} is down; bring it up with `ip link set {name} up`")]
    Down {
        /// The interface.
        name: String,
    },
    /// Its frames are not Ethernet frames.
    #[error("interface {name} is not Ethernet (hardware type {hardware_type}, Ethernet is 1)")]
    NotEthernet {
        /// The interface.
        name: String,
        /// Its `ARPHRD_` number.
        hardware_type: u16,
    },
    /// The kernel refused a request.
    #[error("interface {name}: {what}: {source}")]
    Request {
        /// The interface.
        name: String,
        /// The failed request.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Offloads of an interface. One that the driver lacks counts as off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Generic receive offload: received packets are joined into one of up to 64 kB.
    pub gro: bool,
    /// Large receive offload: the same, by the hardware, beyond recovery.
    pub lro: bool,
    /// Generic segmentation offload of this machine's own packets.
    pub gso: bool,
    /// TCP segmentation offload of this machine's own packets.
    pub tso: bool,
    /// Checksums of this machine's own packets are left to the hardware.
    pub tx_checksum: bool,
}

impl Offloads {
    /// Names of the enabled offloads that join packets before the gateway gets them. The other offloads only concern
    /// this machine's own packets.
    #[must_use]
    pub(crate) fn harmful(&self) -> Vec<&'static str> {
        [(self.gro, "gro"), (self.lro, "lro")].into_iter().filter_map(|(on, name)| on.then_some(name)).collect()
    }
}

impl Interface {
    /// Looks up the interface `name` and checks that it can carry traffic.
    ///
    /// # Errors
    /// [`InterfaceError`].
    pub fn open(name: &str) -> Result<Self, InterfaceError> {
        let missing = || InterfaceError::Missing { name: name.to_owned() };
        let failed = |what| {
            move |source: io::Error| match source.raw_os_error() {
                Some(libc::ENODEV | libc::ENXIO) => InterfaceError::Missing { name: name.to_owned() },
                _ => InterfaceError::Request { name: name.to_owned(), what, source },
            }
        };
        if !sys::is_interface_name(name) {
            return Err(missing());
        }
        let index = sys::interface_index(name).map_err(failed("its index"))?;
        let hardware = sys::interface_request(libc::SIOCGIFHWADDR, name, |_| ()).map_err(failed("its type"))?;
        // SAFETY: the kernel has written a sockaddr into this field of the union.
        let hardware_type = unsafe { hardware.ifr_ifru.ifru_hwaddr.sa_family };
        if hardware_type != libc::ARPHRD_ETHER {
            return Err(InterfaceError::NotEthernet { name: name.to_owned(), hardware_type });
        }
        let flags = sys::interface_flags(name).map_err(failed("its flags"))?;
        if flags & libc::IFF_UP == 0 {
            return Err(InterfaceError::Down { name: name.to_owned() });
        }
        let mtu = sys::interface_mtu(name).map_err(failed("its mtu"))?;
        let relations = netlink::relations(index).map_err(failed("its relations"))?;
        let (addresses, others): (Vec<_>, Vec<_>) = addresses().into_iter().partition(|(owner, _)| owner == name);
        Ok(Self {
            name: name.to_owned(),
            index,
            mtu,
            addresses: addresses.into_iter().map(|(_, address)| address).collect(),
            answers_for_others: others.iter().any(|(_, address)| address.is_ipv4()) && !ignores_arp(name),
            master: relations.master.map(|master| sys::interface_name(master).unwrap_or_else(|_| master.to_string())),
            joined_to: relations.link,
            driver: ethtool::driver(name),
            offloads: offloads(name).map_err(failed("its offloads"))?,
        })
    }

    /// The longest frame without VLAN tags that it carries, in bytes, with its header.
    pub(crate) fn untagged_frame(&self) -> u32 {
        self.mtu.saturating_add(ethernet::HEADER as u32)
    }

    /// The longest frame it carries in bytes, with header and two VLAN tags.
    #[must_use]
    pub(crate) fn largest_frame(&self) -> u32 {
        self.untagged_frame().saturating_add(2 * ethernet::VLAN_TAG as u32)
    }
}

/// Returns true if an interface with this `mtu` carries `frame`: a packet of that length, in up to two VLAN tags.
pub(crate) fn carries(mtu: usize, frame: &[u8]) -> bool {
    let mut header = ethernet::HEADER;
    for _ in 0..2 {
        if frame.len() > mtu + header && ethernet::be16(frame, header - 2).is_some_and(ethernet::is_vlan) {
            header += ethernet::VLAN_TAG;
        }
    }
    frame.len() <= mtu + header
}

/// Addresses of this host that others may ask for, with the names of their interfaces: all except loopback and
/// fe80::/10.
fn addresses() -> Vec<(String, IpAddr)> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is a valid place for the list's head; on failure nothing is to be freed.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: `at` is a node of the list that getifaddrs made, not freed before the end of this function.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        if entry.ifa_addr.is_null() {
            continue;
        }
        // SAFETY: a non-null `ifa_addr` points to a sockaddr, which starts with its family.
        let address = match libc::c_int::from(unsafe { (*entry.ifa_addr).sa_family }) {
            libc::AF_INET => {
                // SAFETY: the family says that this sockaddr is a sockaddr_in; it may be unaligned for one.
                let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
                IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)))
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that this sockaddr is a sockaddr_in6; it may be unaligned for one.
                let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
                IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr))
            }
            _ => continue,
        };
        let local = matches!(address, IpAddr::V6(address) if address.segments()[0] & 0xffc0 == 0xfe80);
        if !local && !address.is_loopback() {
            // SAFETY: `ifa_name` is a string ended by zero that lives as long as the list.
            let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
            found.push((name.to_string_lossy().into_owned(), address));
        }
    }
    // SAFETY: the list was made by getifaddrs and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// Returns true if `name` does not answer ARP requests for addresses of other interfaces. The kernel uses the larger of
/// two settings.
fn ignores_arp(name: &str) -> bool {
    ["all", name].into_iter().any(|which| {
        let setting = std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{which}/arp_ignore"));
        setting.ok().and_then(|value| value.trim().parse::<u32>().ok()).is_some_and(|value| value > 0)
    })
}

fn offloads(name: &str) -> io::Result<Offloads> {
    Ok(Offloads {
        gro: ethtool::is_on(name, Offload::Gro)?,
        lro: ethtool::is_on(name, Offload::Lro)?,
        gso: ethtool::is_on(name, Offload::Gso)?,
        tso: ethtool::is_on(name, Offload::Tso)?,
        tx_checksum: ethtool::is_on(name, Offload::TxChecksum)?,
    })
}

/// Brings the interface `name` up.
///
/// # Errors
/// The kernel's answer: no such interface (`ENODEV`), no permission (`EPERM`).
pub fn set_up(name: &str) -> io::Result<()> {
    sys::set_interface_up(name, true)
}

/// Sets the interface `name` down.
///
/// # Errors
/// As [`set_up`].
pub fn set_down(name: &str) -> io::Result<()> {
    sys::set_interface_up(name, false)
}

/// Harmful offloads of one interface that were turned off; dropping this turns them on again.
#[derive(Debug)]
pub struct OffloadsOff {
    name: String,
    before: Offloads,
}

impl OffloadsOff {
    /// Turns the harmful offloads of `interface` off. Returns `None` if none is on.
    ///
    /// # Errors
    /// [`InterfaceError::Request`] if the kernel refuses; changes so far are undone.
    pub fn new(interface: &Interface) -> Result<Option<Self>, InterfaceError> {
        if interface.offloads.harmful().is_empty() {
            return Ok(None);
        }
        // Constructed before the changes, so that a failure half-way restores.
        let off = Self { name: interface.name.clone(), before: interface.offloads };
        off.apply(false).map_err(|source| InterfaceError::Request {
            name: interface.name.clone(),
            what: "turning offloads off",
            source,
        })?;
        Ok(Some(off))
    }

    /// Names of the offloads that were turned off.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.before.harmful()
    }

    fn apply(&self, on: bool) -> io::Result<()> {
        for (was_on, offload) in [(self.before.gro, Offload::Gro), (self.before.lro, Offload::Lro)] {
            if was_on {
                ethtool::set_offload(&self.name, offload, on)?;
            }
        }
        Ok(())
    }
}

impl Drop for OffloadsOff {
    fn drop(&mut self) {
        // An error means that the interface is gone, so that there is nothing to restore.
        let _ = self.apply(true);
    }
}
