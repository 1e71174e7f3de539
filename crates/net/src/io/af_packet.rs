//! The default backend: packet sockets (packet(7)). `recvmmsg` fills frames of the pool, `sendmmsg` reads them; nothing is copied
//! in between. It works on every Ethernet interface, and without root inside a user namespace.
//!
//! Each direction has a socket of its own. The receiving socket takes all protocols of its interface, sees no outgoing frames,
//! and makes the interface promiscuous while it is open. The sending socket receives nothing.
//!
//! What the kernel changes on the way is changed back. A VLAN tag that the kernel took out is put in again. A checksum that the
//! sender left to hardware, as is usual on veth, is computed.
//!
//! The memory-mapped ring TPACKET_V3 is not used, because it hands frames over by blocks, which adds half a millisecond.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use fairlink_config::matching::ethernet;
use fairlink_core::Nanos;

use crate::io::backend::{Arrival, BATCH, Backend, BackendCounters, BackendError, Condition, Rest, Sent};
use crate::io::bpf::Program;
use crate::io::frame_pool::{FrameInfo, FramePool, HEADROOM};
use crate::io::interface::Interface;
use crate::io::packet_socket;
use crate::io::sys;
use crate::io::tagged_sender::TaggedSender;
use crate::wire::checksum;

/// How the sockets are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfPacketOptions {
    /// Bytes asked for as the kernel's buffer of frames not yet fetched. The kernel may allow less.
    pub receive_buffer: u32,
    /// Bytes asked for as the kernel's buffer of frames not yet sent. The kernel may allow less.
    pub send_buffer: u32,
    /// Whether frames are handed to the driver past the interface's queueing discipline.
    pub qdisc_bypass: bool,
}

impl Default for AfPacketOptions {
    fn default() -> Self {
        Self { receive_buffer: 4 << 20, send_buffer: 1 << 20, qdisc_bypass: true }
    }
}

/// `struct virtio_net_hdr` of linux/virtio_net.h, in the machine's byte order: what is left to be done to a frame.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct VirtioHeader {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const VIRTIO_HEADER: usize = size_of::<VirtioHeader>();

/// Room for one `tpacket_auxdata` control message, aligned as control messages are.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

// SAFETY: CMSG_SPACE only computes.
const _: () =
    assert!(size_of::<Control>() >= unsafe { libc::CMSG_SPACE(size_of::<libc::tpacket_auxdata>() as u32) } as usize);

/// What one `recvmmsg` fills beside the frames. Lives on the heap, at a fixed place, because the messages point into it.
struct ReceiveArrays {
    messages: [libc::mmsghdr; BATCH],
    vectors: [[libc::iovec; 2]; BATCH],
    headers: [VirtioHeader; BATCH],
    controls: [Control; BATCH],
}

/// What one `sendmmsg` reads beside the frames.
struct SendArrays {
    messages: [libc::mmsghdr; BATCH],
    vectors: [libc::iovec; BATCH],
}

/// Two packet sockets on one interface.
pub struct AfPacket {
    name: String,
    receiver: OwnedFd,
    sender: OwnedFd,
    /// For frames that `sender` refuses as too long though they are so only by VLAN tags. `None` where this kernel has none.
    tagged_sender: Option<TaggedSender>,
    /// Longest frame that the interface carries, with two VLAN tags.
    longest: usize,
    /// Frames waiting to be filled by the next call, in the order of its messages.
    armed: Vec<u32>,
    /// Frames that the kernel has copied and the pool has not got back yet; at most [`BATCH`].
    left: Vec<u32>,
    receive_arrays: Box<ReceiveArrays>,
    send_arrays: Box<SendArrays>,
    counters: BackendCounters,
    buffers: (u32, u32),
}

// SAFETY: the pointers in the message arrays are written and used only within one call of `receive` or `send`, which have
// exclusive access; between calls nobody follows them, so the whole may move to another thread.
unsafe impl Send for AfPacket {}

impl AfPacket {
    /// Opens `interface` for receiving and sending.
    ///
    /// # Errors
    /// [`BackendError::Permission`] without CAP_NET_RAW, [`BackendError::System`] for all else.
    pub fn open(interface: &Interface, options: &AfPacketOptions) -> Result<Self, BackendError> {
        Self::behind(interface, options, None)
    }

    /// As [`AfPacket::open`]. With a `gate` the socket receives, from its first frame on, what that program gives it.
    ///
    /// # Errors
    /// As [`AfPacket::open`].
    pub(crate) fn behind(
        interface: &Interface,
        options: &AfPacketOptions,
        gate: Option<&Program>,
    ) -> Result<Self, BackendError> {
        let failed = |what| {
            let interface = interface.name.clone();
            move |source: io::Error| match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => BackendError::Permission { interface },
                Some(libc::ENODEV | libc::ENETDOWN | libc::ENXIO) => BackendError::Gone { interface, source },
                _ => BackendError::System { interface, what, source },
            }
        };
        let receiver = packet_socket::open().map_err(failed("opening a packet socket"))?;
        let on: libc::c_int = 1;
        for (option, what) in [
            (libc::PACKET_IGNORE_OUTGOING, "leaving out outgoing frames (Linux 4.20 and later)"),
            (libc::PACKET_AUXDATA, "asking for VLAN tags"),
            (libc::PACKET_VNET_HDR, "asking for unfinished checksums"),
        ] {
            sys::set_option(&receiver, libc::SOL_PACKET, option, &on).map_err(failed(what))?;
        }
        let received = packet_socket::set_receive_buffer(&receiver, options.receive_buffer)
            .map_err(failed("sizing the receive buffer"))?;
        if let Some(gate) = gate {
            gate.filter(&receiver)
                .map_err(|error| error.source)
                .map_err(failed("putting a filter before its socket"))?;
        }
        packet_socket::bind(&receiver, interface.index, libc::ETH_P_ALL as u16)
            .map_err(failed("binding the receiving socket"))?;
        packet_socket::make_promiscuous(&receiver, interface.index).map_err(failed("making it promiscuous"))?;

        let sender = packet_socket::open().map_err(failed("opening a packet socket"))?;
        if options.qdisc_bypass {
            sys::set_option(&sender, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)
                .map_err(failed("bypassing the queueing discipline"))?;
        }
        let sending =
            packet_socket::set_send_buffer(&sender, options.send_buffer).map_err(failed("sizing the send buffer"))?;
        packet_socket::bind(&sender, interface.index, 0).map_err(failed("binding the sending socket"))?;

        Ok(Self {
            name: interface.name.clone(),
            receiver,
            sender,
            tagged_sender: TaggedSender::open(
                interface.index,
                interface.largest_frame() as usize,
                options.qdisc_bypass,
            )
            .ok(),
            longest: interface.largest_frame() as usize,
            armed: Vec::with_capacity(BATCH),
            left: Vec::with_capacity(BATCH),
            // SAFETY: both are plain data (integers and pointers) for which all zeros is valid.
            receive_arrays: unsafe { Box::<ReceiveArrays>::new_zeroed().assume_init() },
            // SAFETY: as above.
            send_arrays: unsafe { Box::<SendArrays>::new_zeroed().assume_init() },
            counters: BackendCounters::default(),
            buffers: (received, sending),
        })
    }

    /// Sizes of the kernel's receive and send buffers of this interface in bytes, as the kernel accounts for them.
    #[must_use]
    pub(crate) fn kernel_buffer_bytes(&self) -> (u32, u32) {
        self.buffers
    }

    /// Whether the kernel has no frames that were not fetched yet.
    pub(crate) fn is_empty(&self) -> bool {
        // A socket that cannot be asked gives nothing more either.
        packet_socket::waiting(&self.receiver).map_or(true, |(waiting, _)| waiting == 0)
    }

    /// Goes on with the counters of `before`, whose place this takes.
    pub(crate) fn inherit(&mut self, before: &mut Self) {
        self.counters = before.counters();
    }

    fn error(&self, what: &'static str, source: io::Error) -> BackendError {
        let interface = self.name.clone();
        match source.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => BackendError::Gone { interface, source },
            _ => BackendError::System { interface, what, source },
        }
    }

    /// The arrival that message `index` has put into `frame`.
    fn arrival(&mut self, pool: &mut FramePool, now: Nanos, index: usize, frame: u32) -> Arrival {
        let message = &self.receive_arrays.messages[index];
        // With MSG_TRUNC the kernel says how long the packet really is.
        let wire = (message.msg_len as usize).saturating_sub(VIRTIO_HEADER);
        let mut held = wire.min(pool.frame_bytes() - HEADROOM);
        let mut start = HEADROOM;
        let header = self.receive_arrays.headers[index];
        let mut condition = Condition::Whole;
        if header.gso_type != GSO_NONE {
            self.counters.super_packets += 1;
            condition = Condition::TooLong;
        } else if wire > held {
            condition = Condition::TooLong;
        } else if header.flags & NEEDS_CHECKSUM != 0 {
            let bytes = &mut pool.frame_mut(frame)[HEADROOM..HEADROOM + held];
            if checksum::complete(bytes, header.checksum_start, header.checksum_offset) {
                self.counters.checksums_completed += 1;
            } else {
                condition = Condition::Checksum;
            }
        }
        let mut len = wire;
        if let Some(tag) = vlan_tag(&message.msg_hdr)
            && held >= 12
        {
            start -= 4;
            let bytes = pool.frame_mut(frame);
            bytes.copy_within(HEADROOM..HEADROOM + 12, start);
            bytes[start + 12..start + 16].copy_from_slice(&tag);
            held += 4;
            len += 4;
            self.counters.vlan_tags_restored += 1;
        }
        pool.set_info(frame, FrameInfo { start: start as u32, len: held as u32, received: now });
        Arrival { frame, len: len as u32, condition }
    }
}

impl std::fmt::Debug for AfPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AfPacket").field("name", &self.name).field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl Backend for AfPacket {
    /// The kernel has copied a frame when `sendmmsg` returns.
    const MOST_OWNED: u32 = 0;

    fn receive(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
        out: &mut Vec<Arrival>,
    ) -> Result<(), BackendError> {
        let max = max.min(BATCH);
        while self.armed.len() < max
            && let Some(frame) = pool.take()
        {
            self.armed.push(frame);
        }
        let count = self.armed.len().min(max);
        if count == 0 {
            return Ok(());
        }
        let frame_bytes = pool.frame_bytes();
        let base = pool.as_mut_ptr();
        let arrays = &mut *self.receive_arrays;
        for (index, &frame) in self.armed[..count].iter().enumerate() {
            // SAFETY: `frame` was taken from this pool, so the result is inside its memory.
            let at = unsafe { base.add(frame as usize * frame_bytes + HEADROOM) };
            arrays.vectors[index] = [
                libc::iovec { iov_base: std::ptr::from_mut(&mut arrays.headers[index]).cast(), iov_len: VIRTIO_HEADER },
                libc::iovec { iov_base: at.cast(), iov_len: frame_bytes - HEADROOM },
            ];
            let message = &mut arrays.messages[index].msg_hdr;
            message.msg_iov = arrays.vectors[index].as_mut_ptr();
            message.msg_iovlen = 2;
            message.msg_control = arrays.controls[index].0.as_mut_ptr().cast();
            message.msg_controllen = size_of::<Control>() as _;
            message.msg_flags = 0;
        }
        let mut unreadable = 0;
        let received = loop {
            // SAFETY: the first `count` messages were just set to point to a header, a control buffer and a frame each, all
            // alive and not otherwise borrowed until the call returns; `armed` holds each frame once, so no two overlap. A
            // call that fails leaves them as they are.
            let received = unsafe {
                libc::recvmmsg(
                    self.receiver.as_raw_fd(),
                    arrays.messages.as_mut_ptr(),
                    count as _,
                    (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                    std::ptr::null_mut(),
                )
            };
            if received >= 0 {
                break Ok(received as usize);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // The frame in front was joined by an offload that a `virtio_net_hdr` cannot describe, such as the UDP
                // fragmentation of a guest behind a tap. The kernel has thrown it away, and the next one is in front.
                Some(libc::EINVAL) => {
                    unreadable += 1;
                    if unreadable == BATCH {
                        break Ok(0);
                    }
                }
                // Nothing there, or the kernel was out of memory for a moment.
                Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => break Ok(0),
                _ => break Err(error),
            }
        };
        self.counters.unreadable += unreadable as u64;
        let received = received.map_err(|error| self.error("receiving", error))?;
        for index in 0..received {
            let frame = self.armed[index];
            let arrival = self.arrival(pool, now, index, frame);
            out.push(arrival);
        }
        self.armed.drain(..received);
        Ok(())
    }

    fn is_flooded(&self) -> bool {
        // A quarter is many milliseconds of what this machine can fetch, so that there is time to act.
        packet_socket::waiting(&self.receiver).is_ok_and(|(waiting, limit)| waiting > limit / 4)
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError> {
        let frames = &frames[..frames.len().min(BATCH - self.left.len())];
        let frame_bytes = pool.frame_bytes();
        let arrays = &mut *self.send_arrays;
        for (index, &frame) in frames.iter().enumerate() {
            let info = pool.info(frame);
            let offset = frame as usize * frame_bytes + info.start as usize;
            // SAFETY: `frame` is one of this pool's, and the pool has checked that the packet lies within it.
            let at = unsafe { pool.as_mut_ptr().add(offset) };
            arrays.vectors[index] = libc::iovec { iov_base: at.cast(), iov_len: info.len as usize };
            let message = &mut arrays.messages[index].msg_hdr;
            message.msg_iov = &mut arrays.vectors[index];
            message.msg_iovlen = 1;
        }
        let mut accepted = 0;
        let rest = loop {
            if accepted == frames.len() {
                break Rest::Busy;
            }
            // SAFETY: the messages up to the number of frames were just set to point to one packet each, all alive until the
            // call returns; the kernel only reads them.
            let sent = unsafe {
                libc::sendmmsg(
                    self.sender.as_raw_fd(),
                    arrays.messages[accepted..].as_mut_ptr(),
                    (frames.len() - accepted) as _,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if sent > 0 {
                accepted += sent as usize;
                continue;
            }
            let mut error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EMSGSIZE)
                && let Some(tagged_sender) = &mut self.tagged_sender
                && let frame = pool.packet(frames[accepted])
                && frame.len() <= self.longest
                && ethernet::be16(frame, 12).is_some_and(ethernet::is_vlan)
            {
                match tagged_sender.send(frame) {
                    Ok(()) => {
                        accepted += 1;
                        continue;
                    }
                    Err(why) => error = why,
                }
            }
            match error.raw_os_error() {
                // The socket's own buffer is full of frames that are still on their way out.
                Some(libc::EAGAIN | libc::EINTR) => break Rest::Busy,
                Some(libc::ENOBUFS | libc::ENOMEM) => break Rest::Unwilling(error),
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) if accepted == 0 => {
                    return Err(self.error("sending", error));
                }
                // Frames before this one were accepted. The next call meets the same error and reports it.
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => break Rest::Busy,
                _ => break Rest::Refused(error),
            }
        };
        self.left.extend_from_slice(&frames[..accepted]);
        Ok(Sent { accepted, rest })
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        self.left.drain(..).for_each(|frame| pool.give_back(frame));
    }

    fn has_carrier(&self) -> bool {
        // An interface that cannot be asked is gone, which the next call of `send` reports.
        sys::interface_flags(&self.name).is_ok_and(|flags| flags & libc::IFF_RUNNING != 0)
    }

    fn owned(&self) -> usize {
        self.left.len()
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }

    fn held(&self) -> usize {
        self.armed.len()
    }

    fn release(&mut self, pool: &mut FramePool) {
        self.armed.drain(..).chain(self.left.drain(..)).for_each(|frame| pool.give_back(frame));
    }

    fn counters(&mut self) -> BackendCounters {
        // The socket is open, so that this does not fail; nothing is added if it did.
        self.counters.kernel_dropped += packet_socket::take_drops(&self.receiver).unwrap_or(0);
        self.counters
    }
}

/// The VLAN tag that the kernel took out of the frame of this message, as it stood in the frame.
fn vlan_tag(message: &libc::msghdr) -> Option<[u8; 4]> {
    // SAFETY: the kernel has filled `msg_control`, of the length it has set, with whole control messages.
    let control = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    let needed = size_of::<libc::cmsghdr>() + size_of::<libc::tpacket_auxdata>();
    if control.cmsg_level != libc::SOL_PACKET
        || control.cmsg_type != libc::PACKET_AUXDATA
        || (control.cmsg_len as usize) < needed
    {
        return None;
    }
    // SAFETY: the message is of this kind and was checked to be at least this long; it may be unaligned for the type.
    let aux = unsafe { libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>().read_unaligned() };
    if aux.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { aux.tp_vlan_tpid } else { ethernet::VLAN };
    let [a, b] = tpid.to_be_bytes();
    let [c, d] = aux.tp_vlan_tci.to_be_bytes();
    Some([a, b, c, d])
}
