//! Features of network drivers, by generic netlink (the family `netdev`, Linux 6.3).

use std::io;

use crate::io::netlink::{self, NETLINK_HEADER};

/// Length of the header of a generic netlink message in bytes: command, version and two of padding.
const GENERIC_HEADER: usize = 4;
/// The controller, which tells the numbers of other families, and its command.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The command of `netdev`, and attributes of its answer.
const GET_DEVICE: u8 = 1;
const INDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;

/// The driver can read and write frames in memory of AF_XDP sockets (`NETDEV_XDP_ACT_XSK_ZEROCOPY`).
pub(crate) const ZERO_COPY: u64 = 8;

/// Returns what the driver of the interface with this index offers for XDP (`enum netdev_xdp_act`).
///
/// # Errors
/// The kernel's answer: no such interface (`ENODEV`), no such family before Linux 6.3 (`ENOENT`).
pub(crate) fn xdp_features(index: i32) -> io::Result<u64> {
    let answer = ask(CONTROLLER, GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
    let family = value(&answer, FAMILY_ID).map(u16::from_ne_bytes).ok_or_else(unreadable)?;
    let answer = ask(family, GET_DEVICE, INDEX, &index.to_ne_bytes())?;
    value(&answer, XDP_FEATURES).map(u64::from_ne_bytes).ok_or_else(unreadable)
}

/// Sends a request with one attribute, and returns the attributes of the answer.
fn ask(family: u16, command: u8, attribute: u16, value: &[u8]) -> io::Result<Vec<u8>> {
    let mut message = vec![0; NETLINK_HEADER];
    message.extend([command, 1, 0, 0]);
    netlink::push_attribute(&mut message, attribute, value);
    netlink::address(&mut message, family, libc::NLM_F_REQUEST);
    let mut answer = netlink::request_of(libc::NETLINK_GENERIC, &message)?;
    match answer.get(4..6) {
        Some(kind) if kind == family.to_ne_bytes() => {
            Ok(answer.split_off((NETLINK_HEADER + GENERIC_HEADER).min(answer.len())))
        }
        _ => Err(netlink::acknowledgement(&answer).err().unwrap_or_else(unreadable)),
    }
}

fn value<const N: usize>(attributes: &[u8], kind: u16) -> Option<[u8; N]> {
    netlink::attribute_of(attributes, kind)?.first_chunk().copied()
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its answer cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_driver_offers_nothing_and_one_that_there_is_not_is_an_error() {
        // The loopback device of each network namespace.
        match xdp_features(1) {
            Ok(features) => assert_eq!(features & ZERO_COPY, 0, "{features}"),
            Err(error) => return println!("SKIPPED: {error}"),
        }
        assert_eq!(xdp_features(i32::MAX).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
