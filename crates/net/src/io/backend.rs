//! Interface between the gateway and a network interface: receiving, sending and waiting for frames. `af_packet` and
//! `af_xdp` are the backends for real interfaces, `virtual_link` is the one for tests.

use std::io;
use std::ops::Add;
use std::os::fd::BorrowedFd;

use fairlink_config::matching::ethernet;
use fairlink_core::{ClassId, Nanos};
use thiserror::Error;

use crate::io::frame_pool::FramePool;
use crate::wire::segments::{LONGEST, Segments, Unsplittable};

/// Maximum number of frames received or sent with one system call.
pub(crate) const BATCH: usize = 64;

/// Maximum length of a super-frame in bytes, with its VLAN tags.
pub const LONGEST_SUPER_FRAME: usize = LONGEST + ethernet::VLAN_TAG;

/// Kinds of backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// Packet sockets.
    #[default]
    AfPacket,
    /// AF_XDP sockets.
    AfXdp,
}

impl BackendKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::AfPacket, Self::AfXdp];

    /// Its name in commands and statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AfPacket => "af_packet",
            Self::AfXdp => "af_xdp",
        }
    }
}

/// Description of an interface's backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackendInfo {
    pub(crate) backend: BackendKind,
    /// True if the driver itself reads and writes frames of the pool.
    pub(crate) zero_copy: bool,
}

/// Condition of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Complete; may be sent on.
    Whole,
    /// Longer than the pool's frames. Its first bytes are there.
    TooLong,
    /// A super-frame, which an offload has joined from several packets: the one with this number of its reception. Its
    /// first bytes are there, all headers among them.
    Super(u8),
    /// Joined by an offload in a way that cannot be split here. Its first bytes are there.
    Joined,
    /// Its checksum was left to hardware and cannot be computed here.
    Checksum,
}

/// A received frame. The pool has the position of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The frame in the pool, owned by the holder of this arrival.
    pub frame: u32,
    /// Length on the wire in bytes, with VLAN tags and without frame check sequence. If it is too long, the pool has
    /// less of it.
    pub len: u32,
    /// Usability of the frame.
    pub condition: Condition,
    /// Its class, if another thread has found it.
    pub sorted: Option<Sorted>,
}

/// Class of a frame, by the matches of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorted {
    /// The class.
    pub class: ClassId,
    /// The last 16 bits of the number of the generation.
    pub generation: u16,
}

/// Result of [`Backend::send`].
#[must_use]
#[derive(Debug, Default)]
pub struct Sent {
    /// Number of accepted frames, from the front. The backend owns them now.
    pub accepted: usize,
    /// The obstacle for the next frame, if there is one.
    pub rest: Rest,
}

/// Reason why an interface has not accepted a frame.
#[derive(Debug, Default)]
pub enum Rest {
    /// No room for any frame now.
    #[default]
    Busy,
    /// The backend keeps as many frames as it may. It has room for more after [`Backend::reclaim`].
    Full,
    /// This frame was not accepted now. The interface may be full, or never accept this one; the kernel does not
    /// distinguish the two.
    Unwilling(io::Error),
    /// It will never take this frame.
    Refused(io::Error),
}

/// Outcome of an accepted frame of a backend that knows it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The interface accepted it at this time.
    Accepted(Nanos),
    /// The interface never accepts it.
    Refused {
        /// True if the reason is its length.
        too_long: bool,
    },
}

impl Settled {
    /// The outcome of a frame that the interface never accepts for this reason.
    pub(crate) fn refused(reason: &io::Error) -> Self {
        Self::Refused { too_long: reason.raw_os_error() == Some(libc::EMSGSIZE) }
    }
}

/// Error after which an interface can no longer be used.
#[derive(Debug, Error)]
pub enum BackendError {
    /// It was taken down or removed.
    #[error("interface {interface} went down or disappeared: {source}")]
    Gone {
        /// The interface.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No permission to open it.
    #[error(
        "no permission to open interface {interface} for raw packets: run as root, give the program CAP_NET_RAW and \
         CAP_NET_ADMIN (`setcap cap_net_raw,cap_net_admin+ep`), or use a private network namespace"
    )]
    Permission {
        /// The interface.
        interface: String,
    },
    /// The kernel refused something else.
    #[error("interface {interface}: {what}: {source}")]
    System {
        /// The interface.
        interface: String,
        /// The failed operation.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Counters of a backend since it was opened, besides moved frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendCounters {
    /// Frames that the kernel dropped because the gateway did not fetch them in time.
    pub kernel_dropped: u64,
    /// Frames whose checksum the sender left to hardware and the backend computed.
    pub checksums_completed: u64,
    /// Frames whose checksum the sender left to hardware and the backend leaves to the output.
    pub checksums_passed_on: u64,
    /// VLAN tags that the kernel took out and that were put back.
    pub vlan_tags_restored: u64,
    /// Super-frames that could not be split, by [`Unsplittable`].
    pub unsplittable: [u64; Unsplittable::ALL.len()],
    /// Frames that the kernel discarded because it cannot describe how an offload has joined them. They never arrive.
    pub unreadable: u64,
}

impl BackendCounters {
    /// Number of super-frames that could not be split.
    #[must_use]
    pub fn super_packets(&self) -> u64 {
        self.unsplittable.iter().sum()
    }
}

impl Add for BackendCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            kernel_dropped: self.kernel_dropped + other.kernel_dropped,
            checksums_completed: self.checksums_completed + other.checksums_completed,
            checksums_passed_on: self.checksums_passed_on + other.checksums_passed_on,
            vlan_tags_restored: self.vlan_tags_restored + other.vlan_tags_restored,
            unsplittable: std::array::from_fn(|why| self.unsplittable[why] + other.unsplittable[why]),
            unreadable: self.unreadable + other.unreadable,
        }
    }
}

/// One interface, both ways. Never blocks.
///
/// Each frame of the pool has one owner. A backend owns the frames that it holds ready for reception until it appends
/// them to the arrivals. It owns the frames that it accepted for sending until it gives them back to the pool, because
/// an interface may fetch the bytes long after [`Backend::send`] has returned. Only the backend changes or gives back a
/// frame that it owns.
pub trait Backend {
    /// Maximum number of accepted frames that [`Backend::reclaim`] leaves with the backend. The pool needs this many
    /// additional frames.
    const MOST_OWNED: u32;

    /// Appends received frames to `out`, oldest first, in frames taken from `pool`. It appends up to `max` and never
    /// more than 64; fewer if the pool has no more. The caller owns the appended frames. `now` is recorded as the time
    /// of reception.
    ///
    /// # Errors
    /// [`BackendError`] if the interface can no longer be used; frames appended before that are valid.
    fn receive(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
        out: &mut Vec<Arrival>,
    ) -> Result<(), BackendError>;

    /// Returns how to split super-frame `number` of the last [`Backend::receive`].
    ///
    /// # Panics
    /// If no super-frame of that number was announced ([`Condition::Super`]).
    fn segments(&self, number: u8) -> &Segments;

    /// Copies super-frame `number` of the last [`Backend::receive`], whose first bytes are in `frame`, to the beginning of
    /// `into`, which has room for [`LONGEST_SUPER_FRAME`] bytes. Super-frames are copied in the order of their arrival,
    /// each at most once; those that are not copied before the next reception are gone. Returns false if the kernel has
    /// lost it.
    ///
    /// # Errors
    /// [`BackendError`] if the interface can no longer be used; the super-frame is lost then.
    fn fetch(&mut self, pool: &FramePool, frame: u32, number: u8, into: &mut [u8]) -> Result<bool, BackendError>;

    /// Returns true if it has fetched more than it has handed over, so that [`Backend::receive`] has arrivals though
    /// nothing becomes readable.
    fn has_more(&self) -> bool {
        false
    }

    /// Returns true if the kernel's buffer is about to overflow, because frames arrive faster than they are fetched.
    fn is_flooded(&self) -> bool;

    /// Accepts `frames` for sending, in order, as many as the interface has room for now. The backend owns the accepted
    /// frames from then on. The caller keeps the others.
    ///
    /// # Errors
    /// [`BackendError`] if the interface can no longer be used; none of the frames was accepted then.
    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError>;

    /// Returns accepted frames that have left the machine to `pool`, each once.
    fn reclaim(&mut self, pool: &mut FramePool);

    /// Returns true if an accepted frame may still be refused: its outcome comes by [`Backend::settle`].
    fn settles_later(&self) -> bool {
        false
    }

    /// Appends the outcomes that became known since the last call, in the order in which the frames were accepted. The
    /// caller may read a frame until it has called `FramePool::end_reading` for it, and calls that for each.
    fn settle(&mut self, _out: &mut Vec<Settled>) {}

    /// Begins to find out whether all frames that are in the kernel now were handed over ([`Backend::is_drained`]).
    fn begin_drain(&mut self) {}

    /// Ends that.
    fn end_drain(&mut self) {}

    /// Returns true if all frames that were in the kernel at the last [`Backend::begin_drain`] were handed over. For a
    /// backend that fetches by itself that is so when it has no more.
    fn is_drained(&self) -> bool {
        true
    }

    /// Returns how many of the frames that a program in the kernel has let through were handed over for certain, after a
    /// reception that had room for more. The program had let `admitted` through before.
    fn drained(&mut self, admitted: u64) -> Option<u64> {
        Some(admitted)
    }

    /// Returns a failure of the interface since the last call that neither receiving nor sending reported: it went down
    /// or disappeared.
    fn failure(&self) -> Option<BackendError> {
        None
    }

    /// Returns true if the interface has carrier: the other end of its cable is connected.
    fn has_carrier(&self) -> bool;

    /// Number of accepted frames that were not given back yet.
    fn owned(&self) -> usize;

    /// The descriptor that becomes readable when a frame has arrived.
    fn readable(&self) -> Option<BorrowedFd<'_>>;

    /// Frames held ready for reception.
    fn held(&self) -> usize;

    /// Ends receiving and sending, and returns all frames that it owns to `pool`. Accepted frames that have not left
    /// yet are lost.
    fn release(&mut self, pool: &mut FramePool);

    /// Counters since the backend was opened.
    fn counters(&mut self) -> BackendCounters;

    /// Returns a message for the user, once.
    fn take_note(&mut self) -> Option<String> {
        None
    }
}
