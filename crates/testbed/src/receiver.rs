//! Receives the frames of the [generator](crate::generator), and measures rate, delay, loss, duplicates and order of
//! each class.
//!
//! The kernel records the time of arrival when a frame enters the receiving interface. So a receiver that wakes late
//! does not measure its own delay. Only the first [`MAX_HEADERS`] bytes of a frame are copied.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::ClassId;

use crate::tally::{DelayClock, ReceiverReport, Seen, Tally};
use fairlink_net::MAX_HEADERS;
use fairlink_net::system as sys;
use fairlink_net::system::packet_socket;
use fairlink_net::{self as clock, Clock, MonotonicClock};

/// Frames taken in one system call.
const BATCH: usize = 64;
/// Requested size of the kernel's receive buffer in bytes.
const BUFFER: u32 = 8 << 20;
/// Buffer for the kernel's time stamp of a frame.
const CONTROL: usize = 64;
/// Longest wait before the stop flag is checked again, in ms.
const WAIT_MS: i32 = 20;
/// Pause after a batch that was not full, so that a receiver does not wake for each frame. It is short enough that an
/// unprivileged receive buffer (208 KiB, about 90 frames of 1000 B) does not overflow at 30,000 frames/s.
const PAUSE: Duration = Duration::from_micros(500);

/// Configuration of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// The interface to listen at.
    pub interface: String,
    /// Names of classes, for the report. With names, only these classes are measured. Without, classes are shown by
    /// their numbers, and the first 65,536 are measured.
    pub names: BTreeMap<ClassId, String>,
    /// Clock for delays.
    pub clock: DelayClock,
    /// Flows of each class, as many as the generator's classes have headers; with 1, flows are not distinguished.
    pub flows: u32,
    /// Length of the windows in which rates are reported during the run.
    pub window: Duration,
    /// Start of the windows, by this machine's `CLOCK_MONOTONIC` in ns; the start of the run when absent.
    pub start_ns: Option<u64>,
    /// Spans of `CLOCK_MONOTONIC` in ns, in order and disjoint, in each of which packets and bytes are counted
    /// separately.
    pub spans: Vec<(u64, u64)>,
    /// Duration of the run; until stopped when absent.
    pub duration: Option<Duration>,
    /// Processor to keep the receiving thread on; any when absent.
    pub cpu: Option<usize>,
    /// If present, only UDP over IPv4 from this port, without VLAN tags and IP options, is received. The kernel discards
    /// the other frames before it copies them.
    pub from_port: Option<u16>,
}

impl ReceiverConfig {
    /// A receiver at `interface` that runs until it is stopped, with windows of 0.2 s.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            names: BTreeMap::new(),
            clock: DelayClock::Monotonic,
            flows: 1,
            window: Duration::from_millis(200),
            start_ns: None,
            spans: Vec::new(),
            duration: None,
            cpu: None,
            from_port: None,
        }
    }
}

/// Reason why a receiver cannot run, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// The interface does not exist.
    #[error("interface {interface}: {source}")]
    Interface {
        /// Its name.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No permission for packet sockets.
    #[error("no permission to receive frames at {interface}: run as root or with the capability CAP_NET_RAW")]
    Permission {
        /// The interface.
        interface: String,
    },
    /// A system call failed.
    #[error("receiving at {interface}: {what}: {source}")]
    System {
        /// The interface.
        interface: String,
        /// The call.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// A window that has passed.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its start, in seconds from the receiver's start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Received frames by class. Classes without frames are left out.
    pub classes: BTreeMap<ClassId, Seen>,
    /// Arrival of the very first frame, in seconds from the receiver's start.
    pub first_s: Option<f64>,
}

/// A listening receiver. Frames that arrive from now on are kept for [`Receiver::run`], up to the size of the socket's
/// buffer.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    socket: OwnedFd,
}

impl Receiver {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`ReceiverError`]: no such interface, no permission.
    pub fn open(config: ReceiverConfig) -> Result<Self, ReceiverError> {
        let interface = &config.interface;
        let system =
            |what| move |source: io::Error| ReceiverError::System { interface: interface.clone(), what, source };
        let index = sys::interface_index(interface)
            .map_err(|source| ReceiverError::Interface { interface: interface.clone(), source })?;
        let socket = packet_socket::open().map_err(|source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => ReceiverError::Permission { interface: interface.clone() },
            _ => system("socket")(source),
        })?;
        packet_socket::set_receive_buffer(&socket, BUFFER).map_err(system("SO_RCVBUF"))?;
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32).map_err(system("SO_TIMESTAMPNS"))?;
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)
            .map_err(system("PACKET_IGNORE_OUTGOING"))?;
        if let Some(port) = config.from_port {
            packet_socket::accept_udp_from(&socket, port).map_err(system("SO_ATTACH_FILTER"))?;
        }
        // Frames to other stations are measured, too.
        packet_socket::make_promiscuous(&socket, index).map_err(system("PACKET_ADD_MEMBERSHIP"))?;
        packet_socket::bind(&socket, index, libc::ETH_P_ALL as u16).map_err(system("bind"))?;
        Ok(Self { config, socket })
    }

    /// Receives until `stop` is set or the configured time is over. It calls `progress` at the end of each window.
    ///
    /// # Errors
    /// [`ReceiverError::System`] if the interface disappears or goes down.
    pub fn run(self, stop: &AtomicBool, mut progress: impl FnMut(&Window)) -> Result<ReceiverReport, ReceiverError> {
        let system = |what, source| ReceiverError::System { interface: self.config.interface.clone(), what, source };
        if let Some(cpu) = self.config.cpu {
            sys::pin_thread(cpu).map_err(|source| system("sched_setaffinity", source))?;
        }
        let begin = MonotonicClock::SHARED.now().0;
        let start = self.config.start_ns.unwrap_or(begin);
        let length = u64::try_from(self.config.window.as_nanos()).unwrap_or(u64::MAX).max(1_000_000);
        let end = self.config.duration.map(|duration| begin.saturating_add(duration.as_nanos() as u64));
        let mut window = start;
        let mut tally = Tally::new(self.config.clock, &self.config.spans, self.config.names.clone(), self.config.flows);
        let mut buffers = Buffers::new();
        loop {
            let now = MonotonicClock::SHARED.now().0;
            if now >= window.saturating_add(length) {
                // If this thread slept through several windows, they are reported as one.
                let until = now - (now - window) % length;
                let seconds = |at: u64| at.saturating_sub(start) as f64 / 1e9;
                let classes = tally.take_window();
                let first_s = tally.since_first_ns(now).map(|ago| seconds(now.saturating_sub(ago)));
                progress(&Window { start_s: seconds(window), end_s: seconds(until), classes, first_s });
                window = until;
            }
            if stop.load(Ordering::Relaxed) || end.is_some_and(|end| now >= end) {
                break;
            }
            if !sys::wait_readable(&self.socket, WAIT_MS).map_err(|source| system("poll", source))? {
                continue;
            }
            let received = buffers.receive(&self.socket, &mut tally).map_err(|source| system("recvmmsg", source))?;
            if received < BATCH {
                std::thread::sleep(PAUSE);
            }
        }
        let drops = packet_socket::take_drops(&self.socket).map_err(|source| system("PACKET_STATISTICS", source))?;
        let duration_s = (MonotonicClock::SHARED.now().0 - begin) as f64 / 1e9;
        Ok(tally.report(duration_s, drops))
    }
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// Buffers of one batch, made once.
struct Buffers {
    frames: Vec<[u8; MAX_HEADERS]>,
    controls: Vec<Control>,
    vectors: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

impl Buffers {
    fn new() -> Self {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Self {
            frames: vec![[0; MAX_HEADERS]; BATCH],
            controls: vec![Control([0; CONTROL]); BATCH],
            vectors: vec![empty; BATCH],
            messages: Vec::with_capacity(BATCH),
        }
    }

    /// Receives pending frames, at most [`BATCH`]. Returns their number.
    fn receive(&mut self, socket: &OwnedFd, tally: &mut Tally) -> io::Result<usize> {
        self.messages.clear();
        for ((frame, control), vector) in
            self.frames.iter_mut().zip(self.controls.iter_mut()).zip(self.vectors.iter_mut())
        {
            *vector = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: MAX_HEADERS };
            // SAFETY: all zeros is a valid `mmsghdr`: no name, no buffers.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL as _;
            self.messages.push(message);
        }
        // SAFETY: the messages point to the frames, controls and vectors of `self`, which live, do not move and are not
        // otherwise used during the call. MSG_TRUNC makes `msg_len` the length of the whole frame.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        let received = match sys::check(received) {
            Ok(received) => received as usize,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            Err(error) => return Err(error),
        };
        if received == 0 {
            return Ok(0);
        }
        let (offset, now) = (clock::realtime_offset_ns(), clock::realtime_ns());
        for (message, frame) in self.messages[..received].iter().zip(&self.frames) {
            let arrived = arrival_ns(&message.msg_hdr).unwrap_or(now);
            let length = message.msg_len as usize;
            tally.record(&frame[..length.min(MAX_HEADERS)], length as u64, arrived.saturating_sub(offset), arrived);
        }
        Ok(received)
    }
}

/// The kernel's time stamp of a message, in ns since 1970.
fn arrival_ns(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: `message` was filled by recvmmsg: its control pointer and length describe the part of our buffer that the
    // kernel has written, within which CMSG_FIRSTHDR stays.
    let header = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    // SO_TIMESTAMPNS is the only option set that adds a control message.
    if header.cmsg_level != libc::SOL_SOCKET || header.cmsg_type != libc::SCM_TIMESTAMPNS {
        return None;
    }
    // SAFETY: the kernel puts a whole timespec behind the header of such a message; it may not be aligned.
    let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
    Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}
