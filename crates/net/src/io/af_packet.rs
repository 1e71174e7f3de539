//! The default backend: packet sockets (packet(7)). `recvmmsg` fills frames of the pool, `sendmmsg` reads them; nothing
//! is copied in between. It works on every Ethernet interface, and without root inside a user namespace.
//!
//! Each direction has its own socket. The receiving socket receives all protocols of its interface and no outgoing
//! frames, and makes the interface promiscuous while it is open. The sending socket receives nothing.
//!
//! Each frame has a header that describes it (`PACKET_VNET_HDR`). So a super-frame, which an offload has joined from
//! several packets, arrives in one piece and is split ([`Reception`]). A checksum that the sender left to hardware is
//! left to hardware again: the kernel computes it if the output cannot.
//!
//! The memory-mapped ring TPACKET_V3 is not used: it hands over frames in blocks, which adds half a millisecond.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use fairlink_config::matching::ethernet;
use fairlink_core::Nanos;

use crate::io::backend::{Arrival, BATCH, Backend, BackendCounters, BackendError, Rest, Sent};
use crate::io::bpf::Program;
use crate::io::frame_pool::FramePool;
use crate::io::interface::Interface;
use crate::io::packet_socket;
use crate::io::reception::Reception;
use crate::io::sys;
use crate::io::tagged_sender::TaggedSender;
use crate::wire::virtio::VirtioHeader;

/// Options of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfPacketOptions {
    /// Requested size in bytes of the kernel's receive buffer. The kernel may allow less.
    pub receive_buffer: u32,
    /// Requested size in bytes of the kernel's send buffer. The kernel may allow less.
    pub send_buffer: u32,
    /// True if frames bypass the interface's queueing discipline.
    pub qdisc_bypass: bool,
    /// True if the kernel shall describe frames, so that super-frames can be split.
    pub split: bool,
    /// Mark of sent frames (`SO_MARK`), for filters on their way; 0 for none.
    pub mark: u32,
}

/// Filter of the receiving socket, in effect from the first frame on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RxFilter<'a> {
    /// All that arrive at the interface.
    All,
    /// Frames that this program permits.
    Gated(&'a Program),
    /// Those that have this mark.
    Marked(u32),
    /// No frames. The socket only reports that the interface goes down or disappears ([`Backend::failure`]).
    Nothing,
}

/// An Ethernet type for local experiments (IEEE 802), bound by a socket that shall receive nothing.
const LOCAL_EXPERIMENT: u16 = 0x88b5;

impl Default for AfPacketOptions {
    fn default() -> Self {
        Self { receive_buffer: 4 << 20, send_buffer: 1 << 20, qdisc_bypass: true, split: true, mark: 0 }
    }
}

/// Arguments of one `sendmmsg` besides the frames.
struct SendArrays {
    messages: [libc::mmsghdr; BATCH],
    vectors: [[libc::iovec; 2]; BATCH],
    headers: [VirtioHeader; BATCH],
}

/// Two packet sockets on one interface.
pub struct AfPacket {
    name: String,
    receiver: OwnedFd,
    sender: OwnedFd,
    /// For frames that `sender` refuses as too long only because of VLAN tags. `None` if this kernel does not support
    /// it.
    tagged_sender: Option<TaggedSender>,
    /// Longest frame that the interface carries, with two VLAN tags.
    longest: usize,
    /// Frames received and not handed over yet.
    reception: Reception,
    /// Reason why the kernel does not describe frames; `None` if it does.
    undescribed: Option<io::Error>,
    /// Frames that the kernel has copied and that are not back in the pool yet; at most [`BATCH`].
    left: Vec<u32>,
    send_arrays: Box<SendArrays>,
    counters: BackendCounters,
    buffers: (u32, u32),
}

// SAFETY: the pointers in the message arrays are written and used only within one call of `receive` or `send`, which
// have exclusive access. Between calls nothing dereferences them, so that the whole may move to another thread.
unsafe impl Send for AfPacket {}

impl AfPacket {
    /// Opens `interface` for receiving and sending.
    ///
    /// # Errors
    /// [`BackendError::Permission`] without CAP_NET_RAW, [`BackendError::System`] otherwise.
    pub fn open(interface: &Interface, options: &AfPacketOptions) -> Result<Self, BackendError> {
        Self::taking(interface, options, RxFilter::All)
    }

    /// As [`AfPacket::open`], with the receive filter `intake`.
    ///
    /// # Errors
    /// As [`AfPacket::open`].
    pub(crate) fn taking(
        interface: &Interface,
        options: &AfPacketOptions,
        intake: RxFilter<'_>,
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
            (libc::PACKET_IGNORE_OUTGOING, "ignoring outgoing frames (Linux 4.20 and later)"),
            (libc::PACKET_AUXDATA, "requesting VLAN tags"),
        ] {
            sys::set_option(&receiver, libc::SOL_PACKET, option, &on).map_err(failed(what))?;
        }
        let describe = |socket| match options.split {
            true => sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "not requested")),
        };
        let undescribed = describe(&receiver).err();
        let received = match intake {
            RxFilter::Nothing => 0,
            _ => packet_socket::set_receive_buffer(&receiver, options.receive_buffer)
                .map_err(failed("sizing the receive buffer"))?,
        };
        match intake {
            RxFilter::All => Ok(()),
            RxFilter::Gated(gate) => gate.filter(&receiver).map_err(|error| error.source),
            RxFilter::Marked(mark) => packet_socket::accept_marked(&receiver, Some(mark)),
            RxFilter::Nothing => packet_socket::accept_marked(&receiver, None),
        }
        .map_err(failed("attaching a filter to its socket"))?;
        let protocol = if matches!(intake, RxFilter::Nothing) { LOCAL_EXPERIMENT } else { libc::ETH_P_ALL as u16 };
        packet_socket::bind(&receiver, interface.index, protocol).map_err(failed("binding the receiving socket"))?;
        if matches!(intake, RxFilter::All | RxFilter::Gated(_)) {
            packet_socket::make_promiscuous(&receiver, interface.index).map_err(failed("making it promiscuous"))?;
        }

        let sender = packet_socket::open().map_err(failed("opening a packet socket"))?;
        if options.qdisc_bypass {
            sys::set_option(&sender, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)
                .map_err(failed("bypassing the queueing discipline"))?;
        }
        if options.mark != 0 {
            sys::set_option(&sender, libc::SOL_SOCKET, libc::SO_MARK, &options.mark)
                .map_err(failed("marking sent frames"))?;
        }
        if undescribed.is_none() {
            describe(&sender).map_err(failed("requesting headers that describe frames, for the sending socket"))?;
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
                options.mark,
            )
            .ok(),
            longest: interface.largest_frame() as usize,
            reception: Reception::new(undescribed.is_none()),
            undescribed,
            left: Vec::with_capacity(BATCH),
            // SAFETY: plain data (integers and pointers) for which all zeros is valid.
            send_arrays: unsafe { Box::<SendArrays>::new_zeroed().assume_init() },
            counters: BackendCounters::default(),
            buffers: (received, sending),
        })
    }

    /// Sizes of the kernel's receive and send buffers of this interface in bytes, as the kernel accounts for them. The
    /// first is 0 if nothing is received.
    #[must_use]
    pub(crate) fn kernel_buffer_bytes(&self) -> (u32, u32) {
        self.buffers
    }

    /// Reason why super-frames are not split and unfinished checksums stay unfinished; `None` if both work.
    #[must_use]
    pub(crate) fn undescribed(&self) -> Option<&io::Error> {
        self.undescribed.as_ref()
    }

    /// Memory for reception in bytes, besides the pool; it never grows.
    #[must_use]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.reception.memory_bytes()
    }

    /// Returns true if neither the kernel nor this backend has frames that were not handed over yet.
    pub(crate) fn is_empty(&self) -> bool {
        // If the query fails, the socket delivers nothing more either.
        !self.reception.has_more() && packet_socket::waiting(&self.receiver).map_or(true, |(waiting, _)| waiting == 0)
    }

    /// Continues the counters of `before`, the predecessor of this backend.
    pub(crate) fn inherit(&mut self, before: BackendCounters) {
        self.counters = before;
    }

    fn error(&self, what: &'static str, source: io::Error) -> BackendError {
        let interface = self.name.clone();
        match source.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => BackendError::Gone { interface, source },
            _ => BackendError::System { interface, what, source },
        }
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
        let end = out.len() + max.min(BATCH);
        self.reception.hand_over(pool, end, out, &mut self.counters);
        if self.reception.has_more() || out.len() == end {
            return Ok(());
        }
        for _ in 0..BATCH {
            let Err(error) = self.reception.fill(&self.receiver, pool, now, end - out.len()) else { break };
            match error.raw_os_error() {
                // An offload had joined the frame in front in a way that a `virtio_net_hdr` cannot describe, such as
                // the UDP fragmentation of a guest behind a tap. The kernel has discarded it, and the next one is in
                // front.
                Some(libc::EINVAL) => self.counters.unreadable += 1,
                // No frame, or the kernel was out of memory for a moment.
                Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => break,
                _ => return Err(self.error("receiving", error)),
            }
        }
        self.reception.hand_over(pool, end, out, &mut self.counters);
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.reception.has_more()
    }

    fn is_flooded(&self) -> bool {
        // A quarter lasts many milliseconds at the rate at which this machine fetches, so that there is time to act.
        packet_socket::waiting(&self.receiver).is_ok_and(|(waiting, limit)| waiting > limit / 4)
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError> {
        let frames = &frames[..frames.len().min(BATCH - self.left.len())];
        let frame_bytes = pool.frame_bytes();
        let header_bytes = if self.undescribed.is_none() { VirtioHeader::LEN } else { 0 };
        let arrays = &mut *self.send_arrays;
        for (index, &frame) in frames.iter().enumerate() {
            let info = pool.info(frame);
            let offset = frame as usize * frame_bytes + info.start as usize;
            // SAFETY: `frame` is one of this pool's, and the pool has checked that the packet lies within it.
            let at = unsafe { pool.as_mut_ptr().add(offset) };
            arrays.headers[index] = VirtioHeader::to_send(info.len, info.unfinished);
            let header = std::ptr::from_mut(&mut arrays.headers[index]).cast();
            arrays.vectors[index] = [
                libc::iovec { iov_base: header, iov_len: header_bytes },
                libc::iovec { iov_base: at.cast(), iov_len: info.len as usize },
            ];
            let message = &mut arrays.messages[index].msg_hdr;
            message.msg_iov = arrays.vectors[index].as_mut_ptr();
            message.msg_iovlen = 2;
        }
        let mut accepted = 0;
        let rest = loop {
            if accepted == frames.len() {
                break Rest::Busy;
            }
            // SAFETY: the messages up to the number of frames were just set to point to a header and a packet each, all
            // alive until the call returns; the kernel only reads them.
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
                pool.finish_checksum(frames[accepted]);
                match tagged_sender.send(pool.packet(frames[accepted])) {
                    Ok(()) => {
                        accepted += 1;
                        continue;
                    }
                    Err(why) => error = why,
                }
            }
            match error.raw_os_error() {
                // The socket's own buffer is full of frames that have not left yet.
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

    fn failure(&self) -> Option<BackendError> {
        let error: libc::c_int = sys::option(&self.receiver, libc::SOL_SOCKET, libc::SO_ERROR).ok()?;
        (error != 0).then(|| self.error("listening", io::Error::from_raw_os_error(error)))
    }

    fn has_carrier(&self) -> bool {
        // If the query fails, the interface is gone; the next call of `send` reports that.
        sys::interface_flags(&self.name).is_ok_and(|flags| flags & libc::IFF_RUNNING != 0)
    }

    fn owned(&self) -> usize {
        self.left.len()
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }

    fn held(&self) -> usize {
        self.reception.held()
    }

    fn release(&mut self, pool: &mut FramePool) {
        self.reception.release(pool);
        self.left.drain(..).for_each(|frame| pool.give_back(frame));
    }

    fn counters(&mut self) -> BackendCounters {
        // The socket is open, so that this does not fail; on an error nothing is added.
        self.counters.kernel_dropped += packet_socket::take_drops(&self.receiver).unwrap_or(0);
        self.counters
    }
}
