//! The default backend: packet sockets (packet(7)). It works on every Ethernet interface, and without root inside a user
//! namespace.
//!
//! Each direction has its own socket. The receiving socket receives all protocols of its interface and no outgoing
//! frames, and makes the interface promiscuous while it is open. The sending socket receives nothing.
//!
//! Frames are in rings shared with the kernel, one for each socket ([`packet_ring`]). If a socket cannot have one,
//! `recvmmsg` and `sendmmsg` move frames between the kernel and the pool ([`Reception`], [`MessageSender`]), which takes
//! more time for each frame.
//!
//! Each frame has a header that describes it (`PACKET_VNET_HDR`). So a super-frame, which an offload has joined from
//! several packets, arrives in one piece and is split. A checksum that the sender left to hardware is left to hardware
//! again: the kernel computes it if the output cannot.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fairlink_config::matching::ethernet;
use fairlink_core::Nanos;

use crate::io::backend::{Arrival, BATCH, Backend, BackendCounters, BackendError, Rest, Sent};
use crate::io::bpf::Program;
use crate::io::frame_pool::FramePool;
use crate::io::interface::{self, Interface};
use crate::io::joined_sender::{self, JoinedSender};
use crate::io::message_sender::MessageSender;
use crate::io::packet_ring::{self, RingReception, RingSender};
use crate::io::packet_socket;
use crate::io::reception::Reception;
use crate::io::sys;
use crate::wire::segments::Segments;

/// Options of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfPacketOptions {
    /// Requested size in bytes of the kernel's receive buffer, and half of the size of the receive ring. The kernel may
    /// allow less for the former, which holds all frames without a ring, and super-frames with one.
    pub receive_buffer: u32,
    /// Requested size in bytes of the kernel's send buffer, and half of the size of the transmit ring. The kernel may
    /// allow less for the former.
    pub send_buffer: u32,
    /// True if frames shall be in rings shared with the kernel, where it has them.
    pub rings: bool,
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
    /// Those that have this mark, by this program if there is one.
    Marked(u32, Option<&'a Program>),
    /// No frames. The socket only reports that the interface goes down or disappears ([`Backend::failure`]).
    Nothing,
}

/// An Ethernet type for local experiments (IEEE 802), bound by a socket that shall receive nothing.
const LOCAL_EXPERIMENT: u16 = 0x88b5;

impl Default for AfPacketOptions {
    fn default() -> Self {
        Self { receive_buffer: 4 << 20, send_buffer: 1 << 20, rings: true, qdisc_bypass: true, split: true, mark: 0 }
    }
}

/// Time between looks at the socket's error while nothing arrives, and at the mtu while frames are sent.
const LOOK: Nanos = Nanos::from_millis(1);
const LOOK_AT_MTU: Nanos = Nanos::from_millis(100);
/// Time without joined frames after the output has refused one.
const JOIN_AGAIN: Nanos = Nanos::from_secs(1);

/// Maximum number of frames accepted before [`Backend::reclaim`].
const LEFT: usize = 4 * BATCH;

/// The way of received frames.
enum Receiving {
    Ring(RingReception),
    Messages(Box<Reception>),
}

/// The way of sent frames.
enum Sending {
    Ring(RingSender),
    Messages(MessageSender),
}

/// Two packet sockets on one interface.
pub struct AfPacket {
    name: String,
    receiver: OwnedFd,
    sender: OwnedFd,
    receiving: Receiving,
    sending: Sending,
    /// Sender of packets that are joined again, if the kernel reads descriptions; and when it is used again after the
    /// output has refused a joined frame.
    joining: Option<JoinedSender>,
    joins_from: Nanos,
    /// Reason why a socket has no ring; `None` if both have one.
    ringless: Option<io::Error>,
    /// The interface's largest packet, and when it is asked for again.
    mtu: usize,
    next_look_at_mtu: Nanos,
    /// When the receiving socket is looked at again, its drops since the last look, and whether no frame has come since.
    next_look: Nanos,
    fresh_drops: u64,
    is_quiet: bool,
    /// A message for the user, until it is taken.
    note: Option<String>,
    /// Reason why the kernel does not describe frames; `None` if it does.
    undescribed: Option<io::Error>,
    /// Frames that the kernel has copied and that are not back in the pool yet; at most [`LEFT`].
    left: Vec<u32>,
    counters: BackendCounters,
    buffers: (u32, u32),
}

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
        Self::sharing(interface, options, intake, None)
    }

    /// As [`AfPacket::open`], `count` times. The kernel gives each frame to one of them, by the hash of its flow.
    ///
    /// # Errors
    /// As [`AfPacket::open`]; or the kernel does not share frames among sockets.
    pub(crate) fn group(
        interface: &Interface,
        options: &AfPacketOptions,
        intake: RxFilter<'_>,
        count: usize,
    ) -> Result<Vec<Self>, BackendError> {
        if count < 2 || matches!(intake, RxFilter::Nothing) {
            return (0..count).map(|_| Self::taking(interface, options, intake)).collect();
        }
        let mut group = packet_socket::Group::New;
        (0..count).map(|_| Self::sharing(interface, options, intake, Some(&mut group))).collect()
    }

    fn sharing(
        interface: &Interface,
        options: &AfPacketOptions,
        intake: RxFilter<'_>,
        group: Option<&mut packet_socket::Group>,
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
        let describe = |socket: &OwnedFd| match options.split {
            true => sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "not requested")),
        };
        let undescribed = describe(&receiver).err();
        let longest = interface.largest_frame() as usize;
        let mut ringless = None;
        let received = match intake {
            RxFilter::Nothing => 0,
            _ => packet_socket::set_receive_buffer(&receiver, options.receive_buffer)
                .map_err(failed("sizing the receive buffer"))?,
        };
        let receiving = match intake {
            RxFilter::Nothing => Err(None),
            _ if !options.rings => Err(None),
            _ => RingReception::new(&receiver, undescribed.is_none(), longest, 2 * options.receive_buffer as usize)
                .map_err(Some),
        };
        let receiving = receiving.map_or_else(
            |why| {
                ringless = why;
                Receiving::Messages(Box::new(Reception::new(undescribed.is_none())))
            },
            Receiving::Ring,
        );
        let shares = group.is_some();
        let filter = || match intake {
            RxFilter::All if !shares => Ok(()),
            RxFilter::All => packet_socket::accept_all(&receiver),
            RxFilter::Gated(program) | RxFilter::Marked(_, Some(program)) => {
                program.filter(&receiver).map_err(|error| error.source)
            }
            RxFilter::Marked(mark, None) => packet_socket::accept_marked(&receiver, Some(mark)),
            RxFilter::Nothing => packet_socket::accept_marked(&receiver, None),
        };
        match shares {
            false => filter(),
            // Until it is in the group, it would get frames that another one has, too.
            true => packet_socket::accept_marked(&receiver, None),
        }
        .map_err(failed("attaching a filter to its socket"))?;
        let protocol = if matches!(intake, RxFilter::Nothing) { LOCAL_EXPERIMENT } else { libc::ETH_P_ALL as u16 };
        packet_socket::bind(&receiver, interface.index, protocol).map_err(failed("binding the receiving socket"))?;
        if let Some(group) = group {
            *group = group.join(&receiver).map_err(failed(
                "sharing frames among sockets by the hash of their flow (PACKET_FANOUT, Linux 6.0 and later)",
            ))?;
            filter().map_err(failed("attaching a filter to its socket"))?;
        }
        if matches!(intake, RxFilter::All | RxFilter::Gated(_)) {
            packet_socket::make_promiscuous(&receiver, interface.index).map_err(failed("making it promiscuous"))?;
        }

        let open_sender = || {
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
            let bytes = packet_socket::set_send_buffer(&sender, options.send_buffer)
                .map_err(failed("sizing the send buffer"))?;
            Ok((sender, bytes))
        };
        let bind =
            |sender| packet_socket::bind(sender, interface.index, 0).map_err(failed("binding the sending socket"));
        let (sender, mut send_buffer) = open_sender()?;
        let sending = match options.rings && undescribed.is_none() {
            true => RingSender::new(&sender, longest, 2 * options.send_buffer as usize).map_err(Some),
            false => Err(None),
        };
        let sending = sending.map_or_else(
            |why| {
                ringless = ringless.take().or(why);
                Sending::Messages(MessageSender::new(undescribed.is_none()))
            },
            Sending::Ring,
        );
        bind(&sender)?;
        let joining = match undescribed {
            None => {
                let (socket, bytes) = open_sender()?;
                bind(&socket)?;
                send_buffer = send_buffer.saturating_add(bytes);
                Some(JoinedSender::new(socket))
            }
            Some(_) => None,
        };

        Ok(Self {
            name: interface.name.clone(),
            receiver,
            sender,
            receiving,
            sending,
            joining,
            joins_from: Nanos::ZERO,
            ringless,
            mtu: interface.mtu as usize,
            next_look_at_mtu: Nanos::ZERO,
            next_look: Nanos::ZERO,
            fresh_drops: 0,
            is_quiet: false,
            note: None,
            undescribed,
            left: Vec::with_capacity(LEFT),
            counters: BackendCounters::default(),
            buffers: (received, send_buffer),
        })
    }

    /// Sizes of the kernel's receive and send buffers of this interface in bytes, as the kernel accounts for them. The
    /// first is 0 if nothing is received.
    #[must_use]
    pub(crate) fn kernel_buffer_bytes(&self) -> (u32, u32) {
        self.buffers
    }

    /// Bytes of the kernel's memory for frames not fetched or not sent yet.
    pub(crate) fn kernel_bytes(&self) -> u64 {
        let (received, sending) = self.buffers;
        u64::from(received) + u64::from(sending) + self.ring_bytes() as u64
    }

    /// Reason why super-frames are not split and unfinished checksums stay unfinished; `None` if both work.
    #[must_use]
    pub(crate) fn undescribed(&self) -> Option<&io::Error> {
        self.undescribed.as_ref()
    }

    /// Reason why a socket has no ring though one was requested; `None` if it has.
    #[must_use]
    pub(crate) fn ringless(&self) -> Option<&io::Error> {
        self.ringless.as_ref()
    }

    /// Bytes of the rings.
    #[must_use]
    pub(crate) fn ring_bytes(&self) -> usize {
        let received = match &self.receiving {
            Receiving::Ring(ring) => ring.ring_bytes(),
            Receiving::Messages(_) => 0,
        };
        let sent = match &self.sending {
            Sending::Ring(ring) => ring.ring_bytes(),
            Sending::Messages(_) => 0,
        };
        received + sent
    }

    /// Frames that its receive ring has room for; `None` without one.
    pub(crate) fn ring_slots(&self) -> Option<usize> {
        match &self.receiving {
            Receiving::Ring(ring) => Some(ring.slots()),
            Receiving::Messages(_) => None,
        }
    }

    /// Memory for reception in bytes, besides the pool and the rings; it never grows.
    #[must_use]
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.receiving {
            Receiving::Ring(_) => 0,
            Receiving::Messages(messages) => messages.memory_bytes(),
        }
    }

    /// Returns true if neither the kernel nor this backend has frames that were not handed over yet.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_more()
            && match &self.receiving {
                Receiving::Ring(_) => true,
                // If the query fails, the socket delivers nothing more either.
                Receiving::Messages(_) => {
                    packet_socket::waiting(&self.receiver).map_or(true, |(waiting, _)| waiting == 0)
                }
            }
    }

    /// Continues the counters of `before`, the predecessor of this backend.
    pub(crate) fn inherit(&mut self, before: BackendCounters) {
        self.counters = before;
    }

    /// Looks at the receiving socket while its ring is empty.
    ///
    /// A kernel may leave the ring's next slot reserved for a frame that it cannot describe (seen with Linux 6.18), and
    /// then drops all that follow. So if frames were dropped and none has come, the socket continues without a ring. If
    /// there were only frames that cannot be described, that does no harm.
    fn look(&mut self, now: Nanos) -> Result<(), BackendError> {
        self.next_look = now.saturating_add(LOOK);
        self.take_drops();
        let is_stuck = self.fresh_drops > 0 && self.is_quiet;
        (self.fresh_drops, self.is_quiet) = (0, true);
        if is_stuck {
            self.leave_ring()?;
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// Continues to receive with system calls.
    fn leave_ring(&mut self) -> Result<(), BackendError> {
        let described = self.undescribed.is_none();
        // The kernel frees a ring that is no longer mapped.
        self.receiving = Receiving::Messages(Box::new(Reception::new(described)));
        packet_ring::free_receive_ring(&self.receiver)
            .map_err(|error| self.error("leaving its receive ring", error))?;
        self.note = Some(format!(
            "{}: the kernel drops frames and puts none into its ring, as it does after a frame that it cannot describe: frames are received with system calls from now on, which take more time for each",
            self.name
        ));
        Ok(())
    }

    fn take_drops(&mut self) {
        // The socket is open, so that this does not fail; on an error nothing is added.
        let drops = packet_socket::take_drops(&self.receiver).unwrap_or(0);
        self.counters.kernel_dropped += drops;
        self.fresh_drops += drops;
    }

    /// Number of `frames` that the interface carries, from the front. For a ring with descriptions, and for a joined frame,
    /// the kernel leaves this decision to the interface, which drops a frame that is too long in silence.
    fn fitting(&mut self, pool: &FramePool, frames: &[u32]) -> usize {
        let Some(&last) = frames.last() else { return 0 };
        let now = pool.info(last).received;
        if now >= self.next_look_at_mtu {
            self.next_look_at_mtu = now.saturating_add(LOOK_AT_MTU);
            self.look_at_mtu();
        }
        let count = |mtu| frames.iter().take_while(|&&frame| interface::carries(mtu, pool.packet(frame))).count();
        let fit = count(self.mtu);
        if fit == frames.len() {
            return fit;
        }
        self.look_at_mtu();
        count(self.mtu)
    }

    /// Sends `frames`: consecutive packets of a super-frame joined, if the output takes that, and others one by one. Returns
    /// how many were accepted, from the front, and the kernel's answer to the next one.
    fn send_fitting(&mut self, pool: &mut FramePool, frames: &[u32]) -> (usize, Option<io::Error>) {
        let mut done = 0;
        while let Some(&first) = frames.get(done) {
            let rest = &frames[done..];
            let now = pool.info(first).received;
            let pairs = || rest.windows(2).map(|pair| are_consecutive(pool, pair[0], pair[1]));
            let mut alone = rest.len();
            if let Some(joining) = &mut self.joining
                && now >= self.joins_from
            {
                let run = 1 + pairs().take(joined_sender::MOST - 1).take_while(|&joinable| joinable).count();
                alone = pairs().position(|joinable| joinable).unwrap_or(alone);
                if run > 1 {
                    match joining.send(pool, &rest[..run]) {
                        Ok(()) => {
                            done += run;
                            continue;
                        }
                        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                            return (done, Some(error));
                        }
                        // The packets may be accepted one by one. If not, they meet the same error.
                        Err(_) => {
                            self.joins_from = now.saturating_add(JOIN_AGAIN);
                            alone = rest.len();
                        }
                    }
                }
            }
            let (accepted, error) = match &mut self.sending {
                Sending::Messages(sender) => sender.send(&self.sender, pool, &rest[..alone]),
                Sending::Ring(ring) => ring.send(&self.sender, pool, &rest[..alone]),
            };
            done += accepted;
            if error.is_some() || accepted == 0 {
                return (done, error);
            }
        }
        (done, None)
    }

    fn look_at_mtu(&mut self) {
        // If the query fails, the interface is gone; the kernel reports that when it sends.
        if let Ok(mtu) = sys::interface_mtu(&self.name) {
            let longest = match &self.sending {
                Sending::Ring(ring) => ring.longest() - (ethernet::HEADER + 2 * ethernet::VLAN_TAG),
                Sending::Messages(_) => usize::MAX,
            };
            self.mtu = longest.min(mtu as usize);
        }
    }

    fn accept(&mut self, frames: &[u32], rest: Rest) -> Sent {
        self.left.extend_from_slice(frames);
        Sent { accepted: frames.len(), rest }
    }

    fn error(&self, what: &'static str, source: io::Error) -> BackendError {
        let interface = self.name.clone();
        match source.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => BackendError::Gone { interface, source },
            _ => BackendError::System { interface, what, source },
        }
    }
}

/// Returns true if the packet in `next` comes directly behind that in `frame` in one super-frame.
fn are_consecutive(pool: &FramePool, frame: u32, next: u32) -> bool {
    match [frame, next].map(|frame| pool.info(frame).origin) {
        [Some(origin), Some(next)] => origin.precedes(next),
        _ => false,
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
        let before = out.len();
        let end = before + max.min(BATCH);
        let reception = match &mut self.receiving {
            Receiving::Ring(ring) => {
                let received = ring.receive(&self.receiver, pool, now, end, out, &mut self.counters);
                // A pool without frames leaves the ring filled.
                let is_empty = out.len() == before && !ring.has_more();
                received.map_err(|error| self.error("receiving", error))?;
                self.is_quiet &= is_empty;
                return match is_empty && now >= self.next_look {
                    true => self.look(now),
                    false => Ok(()),
                };
            }
            Receiving::Messages(reception) => reception,
        };
        reception.hand_over(pool, end, out, &mut self.counters);
        if reception.has_more() || out.len() == end {
            return Ok(());
        }
        for _ in 0..BATCH {
            let Err(error) = reception.fill(&self.receiver, pool, now, end - out.len()) else { break };
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
        reception.hand_over(pool, end, out, &mut self.counters);
        Ok(())
    }

    fn segments(&self, number: u8) -> &Segments {
        match &self.receiving {
            Receiving::Ring(ring) => ring.segments(number),
            Receiving::Messages(messages) => messages.segments(number),
        }
    }

    fn fetch(&mut self, pool: &FramePool, frame: u32, number: u8, into: &mut [u8]) -> Result<bool, BackendError> {
        match &mut self.receiving {
            Receiving::Ring(ring) => {
                let fetched = ring.fetch(&self.receiver, pool, frame, number, into);
                let is_lost = !matches!(fetched, Ok(true));
                self.counters.kernel_dropped += u64::from(is_lost);
                fetched.map_err(|error| self.error("receiving", error))
            }
            Receiving::Messages(messages) => {
                messages.fetch(pool, frame, number, into);
                Ok(true)
            }
        }
    }

    fn has_more(&self) -> bool {
        match &self.receiving {
            Receiving::Ring(ring) => ring.has_more(),
            Receiving::Messages(messages) => messages.has_more(),
        }
    }

    fn is_flooded(&self) -> bool {
        // A quarter lasts many milliseconds at the rate at which this machine fetches, so that there is time to act.
        match &self.receiving {
            Receiving::Ring(ring) => ring.is_flooded(),
            Receiving::Messages(_) => {
                packet_socket::waiting(&self.receiver).is_ok_and(|(waiting, limit)| waiting > limit / 4)
            }
        }
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError> {
        let all = frames.len();
        let frames = &frames[..all.min(LEFT - self.left.len())];
        // Without descriptions the kernel checks the length.
        let fit = if self.joining.is_some() { self.fitting(pool, frames) } else { frames.len() };
        let (accepted, error) = self.send_fitting(pool, &frames[..fit]);
        let too_long = accepted == fit && fit < frames.len();
        let error = error.or_else(|| too_long.then(|| io::Error::from_raw_os_error(libc::EMSGSIZE)));
        let Some(error) = error else {
            let is_full = accepted == frames.len() && accepted < all;
            return Ok(self.accept(&frames[..accepted], if is_full { Rest::Full } else { Rest::Busy }));
        };
        let rest = match error.raw_os_error() {
            // The socket's own buffer is full of frames that have not left yet.
            Some(libc::EAGAIN | libc::EINTR) => Rest::Busy,
            Some(libc::ENOBUFS | libc::ENOMEM) => Rest::Unwilling(error),
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) if accepted == 0 => {
                return Err(self.error("sending", error));
            }
            // Frames before this one were accepted. The next call meets the same error and reports it.
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Rest::Busy,
            _ => Rest::Refused(error),
        };
        Ok(self.accept(&frames[..accepted], rest))
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
        match &self.receiving {
            Receiving::Ring(_) => 0,
            Receiving::Messages(messages) => messages.held(),
        }
    }

    fn release(&mut self, pool: &mut FramePool) {
        match &mut self.receiving {
            Receiving::Ring(_) => {}
            Receiving::Messages(messages) => messages.release(pool),
        }
        self.left.drain(..).for_each(|frame| pool.give_back(frame));
    }

    fn counters(&mut self) -> BackendCounters {
        self.take_drops();
        self.counters
    }

    fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }
}
