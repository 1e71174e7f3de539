//! Departure times of frames: from due time to stamp, and from stamp to the handover to the driver.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use fairlink_report::{Buckets, Delay, Histogram};

use fairlink_net as clock;
use fairlink_net::system as sys;
use fairlink_net::{MAX_HEADERS, Stamp};

/// Longest time that is distinguished, in ns.
const LONGEST_NS: u64 = 10_000_000_000;
/// Maximum number of stamps read from the kernel at once.
const AT_ONCE: usize = 4096;
/// Buffer for the kernel's ancillary data of a frame.
const CONTROL: usize = 256;

/// Quantiles are exact to 1 % of the value or 1 ns, whichever is larger.
const BUCKETS: Buckets = Buckets::new(7, 0);

/// Distribution of times in ns. It takes up to 30 kB.
#[derive(Debug)]
pub(crate) struct Times(Histogram);

impl Times {
    pub(crate) fn new() -> Self {
        Self(Histogram::new(BUCKETS, LONGEST_NS))
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.0.record(ns);
    }

    /// Summarises the times; `None` if there are none.
    pub(crate) fn summary(&self) -> Option<Delay> {
        (self.0.tally().count > 0).then(|| self.0.delay())
    }
}

/// Requests the time at which each frame sent through `socket` is handed to the driver.
pub(crate) fn ask_for_stamps(socket: &OwnedFd) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    sys::set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
}

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Reads the kernel's stamps. The kernel returns each frame with its time, so that no state is needed.
pub(crate) fn take_stamps(socket: &OwnedFd, times: &mut Times) -> io::Result<()> {
    let offset = clock::realtime_offset_ns();
    for _ in 0..AT_ONCE {
        let mut frame = [0u8; MAX_HEADERS];
        let mut control = Control([0; CONTROL]);
        let mut vector = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: MAX_HEADERS };
        // SAFETY: all zeros is a valid `msghdr`: no name, no buffers.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        // SAFETY: the message points to the vector, that to the frame, and to the control buffer, with their lengths;
        // all live.
        let received =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        let Ok(length) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            };
        };
        if let (Some(sent), Some(at)) = (Stamp::read(&frame[..length.min(MAX_HEADERS)]), software_ns(&message)) {
            times.record(at.saturating_sub(offset).saturating_sub(sent.monotonic_ns));
        }
    }
    Ok(())
}

/// The kernel's time stamp, in ns since 1970.
fn software_ns(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: `message` was filled by recvmsg: its control pointer and length describe what the kernel has written,
    // within which CMSG_FIRSTHDR and CMSG_NXTHDR stay.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: `header` is null or points to a header inside the control buffer.
    while let Some(found) = unsafe { header.as_ref() } {
        if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_TIMESTAMPING {
            // SAFETY: the kernel puts three timespecs behind such a header, the first by software; they may not be
            // aligned.
            let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            let ns = u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?;
            return (ns > 0).then_some(ns);
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}
