//! Frames as they are, past the kernel's protocols: out of an interface, or from a virtual machine behind a tap.
#![allow(dead_code, reason = "not every suite needs all of it")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use fairlink_net::{Interface, VirtioHeader, interface};

/// A tap whose writer says how its frames are to be finished, as a virtual machine does.
pub(crate) fn tap(name: &str) -> File {
    let tap = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: an `ifreq` is integers, for which all zeros is valid.
    let mut message: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in message.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    message.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: `message` is a valid `ifreq` for the call.
    let result = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &mut message) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    interface::set_up(name).unwrap();
    tap
}

/// A packet socket that sends out of the interface `name`.
fn sender(name: &str, described: bool) -> OwnedFd {
    let index = Interface::open(name).unwrap().index;
    // SAFETY: no pointers; the descriptor is new and owned here alone.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)) };
    // SAFETY: a `sockaddr_ll` is integers, for which all zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index;
    let on = libc::c_int::from(described);
    // SAFETY: each pointer is to memory of the length given, alive for the call.
    let results = unsafe {
        let option = std::ptr::from_ref(&on).cast();
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        let to = std::ptr::from_ref(&address).cast();
        [
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_VNET_HDR, option, length),
            libc::bind(socket.as_raw_fd(), to, size_of::<libc::sockaddr_ll>() as libc::socklen_t),
        ]
    };
    assert_eq!(results, [0, 0], "{}", io::Error::last_os_error());
    socket
}

fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer is to memory of the length given, alive for the call.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent == message.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends `frame` out of the interface `name` as it is.
pub(crate) fn send_raw(name: &str, frame: &[u8]) {
    send(&sender(name, false), frame).unwrap();
}

/// The bytes of `header` as the kernel reads them.
pub(crate) fn bytes(header: VirtioHeader) -> [u8; VirtioHeader::LEN] {
    let VirtioHeader { flags, kind, header_len, segment, checksum_start, checksum_offset } = header;
    let mut bytes = [0; VirtioHeader::LEN];
    bytes[..2].copy_from_slice(&[flags, kind]);
    for (place, number) in [header_len, segment, checksum_start, checksum_offset].into_iter().enumerate() {
        bytes[2 + 2 * place..4 + 2 * place].copy_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// Sends `frame` out of the interface `name`, with what `header` says is left to be done to it.
pub(crate) fn send_described(name: &str, header: VirtioHeader, frame: &[u8]) -> io::Result<()> {
    send(&sender(name, true), &[&bytes(header)[..], frame].concat())
}
