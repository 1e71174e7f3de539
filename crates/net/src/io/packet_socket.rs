//! Packet sockets (packet(7)) of the gateway, the generator and the receiver.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::io::sys;

/// Opens a packet socket that receives nothing until it is bound, so that no frame of another interface gets in.
pub fn open() -> io::Result<OwnedFd> {
    sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
}

/// Binds `socket` to the interface with this index. With a `protocol` (`ETH_P_...`) it receives from then on; with 0 it
/// only sends.
pub fn bind(socket: &OwnedFd, index: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: a `sockaddr_ll` is plain integers for which all zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is readable for `length` bytes during the call.
    sys::check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) })?;
    Ok(())
}

/// Restricts `socket` to frames with this mark (`skb->mark`); `None`: no frame at all.
pub fn accept_marked(socket: &OwnedFd, mark: Option<u32>) -> io::Result<()> {
    /// `SKF_AD_OFF + SKF_AD_MARK`: offset of the mark for a filter.
    const MARK: u32 = (-0x1000_i32 + 20) as u32;
    // Classic BPF, which needs no rights: load the mark, compare, return the number of bytes to keep.
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let nothing = step(libc::BPF_RET | libc::BPF_K, 0, 0, 0);
    let mut filter = match mark {
        Some(mark) => vec![
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, MARK),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, mark),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
            nothing,
        ],
        None => vec![nothing],
    };
    attach(socket, &mut filter)
}

/// Removes the filter of `socket`.
pub fn accept_all(socket: &OwnedFd) -> io::Result<()> {
    sys::set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// Sockets of one interface that share its frames by the hash of their flow (`PACKET_FANOUT_HASH`).
#[derive(Clone, Copy, Debug)]
pub enum Group {
    /// The next socket makes it.
    New,
    /// The one with this number.
    Number(u16),
}

impl Group {
    /// Adds `socket`, which is bound, and returns the group that it is in.
    pub fn join(self, socket: &OwnedFd) -> io::Result<Self> {
        /// `PACKET_FANOUT_HASH`, without outgoing frames.
        const SHARE: u32 = 0x4000;
        /// `PACKET_FANOUT_FLAG_UNIQUEID`.
        const NEW: u32 = 0x2000;
        let (number, flags) = match self {
            Self::New => (0, SHARE | NEW),
            Self::Number(number) => (number, SHARE),
        };
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &(u32::from(number) | flags << 16))?;
        let answer: libc::c_int = sys::option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        Ok(Self::Number(answer as u16))
    }
}

/// Restricts `socket` to UDP over IPv4 from this port, in frames without VLAN tag and packets without options.
pub fn accept_udp_from(socket: &OwnedFd, port: u16) -> io::Result<()> {
    /// Ethernet type and protocol, which are followed by the port at the offset of a header of 20 B.
    const FIELDS: [(u32, u32, u32); 4] = [
        (libc::BPF_H, 12, libc::ETH_P_IP as u32),
        (libc::BPF_B, 14, 0x45),
        (libc::BPF_B, 23, libc::IPPROTO_UDP as u32),
        (libc::BPF_H, 34, 0),
    ];
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = Vec::new();
    for (left, (size, offset, value)) in (0..FIELDS.len() as u8).rev().zip(FIELDS) {
        let value = if left == 0 { u32::from(port) } else { value };
        filter.push(step(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, offset));
        // Past the remaining pairs and the verdict for a match.
        filter.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 2 * left + 1, value));
    }
    filter.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX));
    filter.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, 0));
    attach(socket, &mut filter)
}

/// Attaches a filter of classic BPF.
fn attach(socket: &OwnedFd, filter: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = Program { length: filter.len() as libc::c_ushort, filter: filter.as_mut_ptr() };
    // The kernel has copied the filter when this returns.
    sys::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// `struct sock_fprog` of linux/filter.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Program {
    length: libc::c_ushort,
    filter: *mut libc::sock_filter,
}

/// Keeps the interface with this index promiscuous while `socket` is open, so that frames to other stations arrive,
/// too.
pub fn make_promiscuous(socket: &OwnedFd, index: i32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Requests a receive buffer of `bytes`; returns the size that the kernel granted.
pub fn set_receive_buffer(socket: &OwnedFd, bytes: u32) -> io::Result<u32> {
    set_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
}

/// Requests a send buffer of `bytes`; returns the size that the kernel granted.
pub fn set_send_buffer(socket: &OwnedFd, bytes: u32) -> io::Result<u32> {
    set_buffer(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
}

fn set_buffer(socket: &OwnedFd, force: libc::c_int, plain: libc::c_int, bytes: u32) -> io::Result<u32> {
    let value = i32::try_from(bytes).unwrap_or(i32::MAX);
    // The first option exceeds the system's limit and needs more rights than the root of a user namespace has.
    if sys::set_option(socket, libc::SOL_SOCKET, force, &value).is_err() {
        sys::set_option(socket, libc::SOL_SOCKET, plain, &value)?;
    }
    let actual: libc::c_int = sys::option(socket, libc::SOL_SOCKET, plain)?;
    Ok(u32::try_from(actual).unwrap_or(0))
}

/// Bytes of frames that wait in the kernel for `socket`, and their limit, as the kernel accounts for them.
pub fn waiting(socket: &OwnedFd) -> io::Result<(u32, u32)> {
    let MemoryInfo([waiting, limit, ..]) = sys::option(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    Ok((waiting, limit))
}

/// Result of `SO_MEMINFO` (linux/sock_diag.h): first the memory allocated for reception, then its limit.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MemoryInfo([u32; 9]);

// SAFETY: any bytes are integers.
unsafe impl sys::Plain for MemoryInfo {}

/// Frames that the kernel dropped since the last call because the buffer was full.
pub fn take_drops(socket: &OwnedFd) -> io::Result<u64> {
    // Reading resets the kernel's counter.
    let statistics: PacketStatistics = sys::option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    Ok(u64::from(statistics.drops))
}

/// `struct tpacket_stats` of linux/if_packet.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PacketStatistics {
    packets: libc::c_uint,
    drops: libc::c_uint,
}

// SAFETY: any bytes are two integers.
unsafe impl sys::Plain for PacketStatistics {}
