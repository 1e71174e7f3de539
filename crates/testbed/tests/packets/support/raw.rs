//! Raw frames, past the kernel's protocols: out of an interface, or from a virtual machine behind a tap.
#![allow(dead_code, reason = "not every suite needs all of it")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_net::{Interface, VirtioHeader, interface};

/// Creates a tap whose writer describes the pending work on its frames, as a virtual machine does.
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

/// Opens a packet socket that sends out of the interface `name`.
pub(crate) fn sender(name: &str, described: bool) -> OwnedFd {
    socket(name, 0, (libc::PACKET_VNET_HDR, described))
}

/// Opens a packet socket for frames that arrive at the interface `name`.
pub(crate) fn listener(name: &str) -> OwnedFd {
    socket(name, libc::ETH_P_ALL as u16, (libc::PACKET_IGNORE_OUTGOING, true))
}

/// Opens a packet socket at the interface `name` that receives frames of this protocol.
fn socket(name: &str, protocol: u16, (option, on): (libc::c_int, bool)) -> OwnedFd {
    let index = Interface::open(name).unwrap().index;
    // SAFETY: no pointers; the descriptor is new and owned here alone.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)) };
    // SAFETY: a `sockaddr_ll` is integers, for which all zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let on = libc::c_int::from(on);
    // SAFETY: each pointer is to memory of the length given, alive for the call.
    let results = unsafe {
        let value = std::ptr::from_ref(&on).cast();
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        let to = std::ptr::from_ref(&address).cast();
        [
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, length),
            libc::bind(socket.as_raw_fd(), to, size_of::<libc::sockaddr_ll>() as libc::socklen_t),
        ]
    };
    assert_eq!(results, [0, 0], "{}", io::Error::last_os_error());
    socket
}

/// As [`listener`], for frames of `len` bytes alone.
pub(crate) fn listener_of(name: &str, len: u32) -> OwnedFd {
    let socket = listener(name);
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, len),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_mut_ptr() };
    // SAFETY: the program points to four steps, which the kernel has copied when the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            std::ptr::from_ref(&program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    socket
}

/// Receives a frame into `into` within this time. Returns true if one came.
pub(crate) fn receive(socket: &OwnedFd, into: &mut [u8], within: Duration) -> bool {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry, for the call.
    if unsafe { libc::poll(&mut poll, 1, within.as_millis() as libc::c_int) } < 1 {
        return false;
    }
    // SAFETY: `into` is writable for its length.
    let received = unsafe { libc::recv(socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) };
    received == into.len() as isize
}

/// Sends a frame, or one behind its description.
pub(crate) fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer is to memory of the length given, alive for the call.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent == message.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends `frame` out of the interface `name` unchanged.
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

/// Sends `frame` out of the interface `name`, with the pending work described by `header`.
pub(crate) fn send_described(name: &str, header: VirtioHeader, frame: &[u8]) -> io::Result<()> {
    send(&sender(name, true), &[&bytes(header)[..], frame].concat())
}

/// Records frames that arrive at the interface `name` until `done`, each with the kernel's stamp in ns since 1970.
pub(crate) fn record(socket: &OwnedFd, done: &AtomicBool) -> Vec<(u64, Vec<u8>)> {
    let mut frames = Vec::new();
    let mut bytes = vec![0; 2048];
    while !done.load(Ordering::Relaxed) {
        let mut control = [0u64; 8];
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: all zeros is a valid `msghdr`: no name, no buffers.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the message points to the vector, that to the bytes, and to the control buffer, with their lengths;
        // all live.
        let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
        if length <= 0 {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        }
        // SAFETY: recvmsg has filled the message; the header is null or inside the control buffer.
        let header = unsafe { libc::CMSG_FIRSTHDR(&message).as_ref() }.expect("a stamp");
        assert_eq!((header.cmsg_level, header.cmsg_type), (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS));
        // SAFETY: the kernel puts a whole timespec behind the header of such a message; it may not be aligned.
        let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
        frames.push((time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64, bytes[..length as usize].to_vec()));
    }
    frames
}

/// Opens a packet socket for frames that arrive at the interface `name`, with stamps and a large buffer, for
/// [`record`].
pub(crate) fn recorder(name: &str) -> OwnedFd {
    let socket = listener(name);
    for (option, value) in [(libc::SO_TIMESTAMPNS, 1), (libc::SO_RCVBUFFORCE, 64 << 20)] {
        let value: libc::c_int = value;
        // SAFETY: the value is readable for the length given.
        let result = unsafe {
            let length = size_of::<libc::c_int>() as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, std::ptr::from_ref(&value).cast(), length)
        };
        assert!(result == 0 || option == libc::SO_RCVBUFFORCE, "{}", io::Error::last_os_error());
    }
    socket
}
