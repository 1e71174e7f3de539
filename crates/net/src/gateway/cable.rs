//! The cable that brings a host's own frames for an interface to the gateway (`--egress`): a veth pair that the gateway
//! creates and removes.
//!
//! The host's frames for IF are redirected into `fl0-IF` ([`fail_open`](crate::gateway::fail_open)) and arrive at
//! `fl1-IF`, the gateway's input. Neither end has an address, no route leads there, and the host's own stack drops all
//! frames that arrive.
//!
//! A killed gateway leaves the cable behind, unused. The next gateway takes it over; the alias of both ends identifies
//! it as one of ours.

use std::io;

use crate::gateway::claim::is_claimed;
use crate::gateway::open_error::OpenError;
use crate::io::ethtool;
use crate::io::interface::Interface;
use crate::io::veth::{self, Pair};
use crate::io::{netlink, sys};

/// Longest packet of the veth. Frames that the gateway cannot hold are dropped and counted by the gateway, not silently
/// here.
const MTU: u32 = 65_535;
/// Queue length, for a queueing discipline that an administrator may add to an end.
const QUEUE: u32 = 1000;
/// Longest name that fits behind `fl0-` into 15 bytes.
const LONGEST: usize = 11;

/// A cable, removed on drop unless another gateway continues to use it.
#[derive(Debug)]
pub(super) struct Cable {
    /// Index of the end that the host's frames enter.
    pub(super) host_end: i32,
    /// And comes out here.
    gateway_end: i32,
    stays: bool,
}

/// Names of the two ends for the interface `of`: entry and exit of frames.
pub(super) fn names(of: &str) -> [String; 2] {
    let tail = match of.len() {
        ..=LONGEST => format!("-{of}"),
        // FNV-1a, so that the name is the same after a restart.
        _ => format!(
            "~{:08x}",
            of.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
        ),
    };
    ["fl0", "fl1"].map(|end| format!("{end}{tail}"))
}

/// Alias of both ends of our cables.
fn alias(of: &str) -> String {
    format!("fairlink --egress {of}")
}

impl Cable {
    /// Creates the cable for the host's frames for `of`, or reuses that of an earlier gateway. Returns when it carries
    /// frames.
    ///
    /// # Errors
    /// [`OpenError::InTheWay`] if a foreign interface has that name, [`OpenError::Cable`] with the kernel's answer.
    pub(super) fn lay(of: &str) -> Result<Self, OpenError> {
        let ends = names(of);
        let failed = |source| OpenError::Cable { ends: ends.clone(), source };
        if Self::find(of)?.is_none() {
            for end in &ends {
                if sys::interface_index(end).is_ok() {
                    return Err(OpenError::InTheWay { name: end.clone(), of: of.to_owned() });
                }
            }
            Pair { mtu: MTU, queue: QUEUE, alias: &alias(of) }.create(&ends[0], &ends[1]).map_err(failed)?;
        }
        let Some([host_end, gateway_end]) = Self::find(of)? else {
            return Err(failed(io::Error::from_raw_os_error(libc::ENODEV)));
        };
        // From here on a failure removes it.
        let cable = Self { host_end, gateway_end, stays: false };
        for end in &ends {
            // A host without IPv6 has no such file. If it is not writable, frames that the kernel itself sends there
            // are still ignored, because they have no mark.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
            sys::set_interface_up(end, true).map_err(failed)?;
        }
        ends.iter().try_for_each(|end| veth::wait_until_running(end)).map_err(failed)?;
        Ok(cable)
    }

    /// Returns the ends of our cable for `of`, if it exists.
    fn find(of: &str) -> Result<Option<[i32; 2]>, OpenError> {
        let ends = names(of);
        let Ok(indices) = ends.iter().map(|end| sys::interface_index(end)).collect::<io::Result<Vec<_>>>() else {
            return Ok(None);
        };
        let [host, gateway] = [indices[0], indices[1]];
        let ours = |index: i32, name: &str, other: i32| {
            veth::alias(index).is_ok_and(|found| found.as_deref() == Some(&alias(of)))
                && ethtool::driver(name) == "veth"
                && netlink::relations(index).is_ok_and(|relations| relations.link == Some(other))
        };
        for (index, name, other) in [(host, &ends[0], gateway), (gateway, &ends[1], host)] {
            if !ours(index, name, other) {
                return Err(OpenError::InTheWay { name: name.clone(), of: of.to_owned() });
            }
        }
        Ok(Some([host, gateway]))
    }

    /// Leaves the cable to the successor of this gateway.
    pub(super) fn leave(&mut self) {
        self.stays = true;
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // A cable that was removed externally is gone already.
        if !self.stays && !is_claimed(self.gateway_end) {
            let _ = veth::remove(self.gateway_end);
        }
    }
}

/// Removes the unused cables of killed gateways for the interfaces `names`. Returns the names of the interfaces that
/// had one.
///
/// # Errors
/// [`OpenError::Cable`]: the kernel's answer, such as no permission.
pub fn remove_cables<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, OpenError> {
    let mut removed = Vec::new();
    for of in names {
        // Leave foreign interfaces of that name alone.
        let Ok(Some([_, gateway_end])) = Cable::find(of) else { continue };
        if !is_claimed(gateway_end) {
            veth::remove(gateway_end).map_err(|source| OpenError::Cable { ends: self::names(of), source })?;
            removed.push(of.to_owned());
        }
    }
    Ok(removed)
}

/// The gateway's input: the end of the cable, with the mtu of the interface that its frames are for.
pub(super) fn input(of: &Interface) -> Result<Interface, OpenError> {
    let [_, gateway_end] = names(&of.name);
    Ok(Interface { mtu: of.mtu, ..Interface::open(&gateway_end)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_names_that_interfaces_may_have_and_that_differ() {
        assert_eq!(names("eth0"), ["fl0-eth0", "fl1-eth0"]);
        assert_eq!(names("abcdefghijk"), ["fl0-abcdefghijk", "fl1-abcdefghijk"]);
        let long = ["abcdefghijkl", "abcdefghijkm", "enx001122334455"].map(names);
        assert!(long.iter().flatten().all(|name| sys::is_interface_name(name)), "{long:?}");
        assert!(long[0] != long[1] && long[0][0] != long[0][1], "{long:?}");
        assert_eq!(long[0], names("abcdefghijkl"));
    }
}
