//! The fast backend: AF_XDP sockets. A program in the driver gives frames to the socket before the kernel makes packets
//! of them. The kernel writes them into the gateway's packet pool and reads them from there, so that a frame leaves
//! without having moved. One system call hands over many frames; fetching needs none.
//!
//! The pool is registered with the kernel once, for both interfaces (`XDP_SHARED_UMEM`); each interface has its own
//! four rings ([`custody`]). The driver copies, or uses the pool's memory itself if it can (zero-copy).
//!
//! This backend does the work that XDP does not do, or rejects the interface ([`fitness`]). It finds and computes
//! checksums that a sender on the same machine has left to hardware ([`crate::wire::unfinished`]). The program puts
//! back VLAN tags that a driver takes out ([`program`]). Super-frames do not arrive: with XDP in its driver an
//! interface joins nothing, and a sender into a veth splits.
//!
//! Without zero-copy the kernel takes frames from the ring in this thread's own calls and reports which one the driver
//! has dropped. So nothing stays in the ring: frames that were not taken return to the caller, in order, as with any
//! other backend.

mod custody;
mod fitness;
mod life;
mod program;
mod ring;
mod socket;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fairlink_core::Nanos;
use thiserror::Error;

use crate::io::af_xdp::custody::{Custody, RECEIVING, SENDING};
use crate::io::af_xdp::program::Redirection;
use crate::io::af_xdp::socket::{Mode, Refused, Socket};
use crate::io::backend::{Arrival, BATCH, Backend, BackendCounters, BackendError, Rest, Sent};
use crate::io::bpf::BpfError;
use crate::io::frame_pool::FramePool;
use crate::io::interface::{self, Interface};
use crate::io::{packet_socket, sys};
use crate::wire::segments::Segments;

pub(crate) use crate::io::af_xdp::fitness::frame_bytes;
pub(crate) use crate::io::af_xdp::life::Life;
pub(crate) use crate::io::af_xdp::program::Beat;

/// Maximum number of pool frames that both interfaces own.
pub(crate) const RESERVE: u32 = 2 * (RECEIVING + SENDING);
/// Bytes of an interface's rings: two of descriptors, two of addresses. The last one has twice the entries that it
/// needs.
const RING_BYTES: u32 = RECEIVING * (16 + 8) + SENDING * (16 + 2 * 8);
/// Interval between checks that the interface exists.
const LOOK: Nanos = Nanos::from_millis(10);
/// Pause between two attempts while another gateway is about to leave.
const NAP: Duration = Duration::from_millis(1);
/// Maximum time that the kernel needs to free the interface of a closed socket, which it does later in its own thread.
const FREED: Duration = Duration::from_millis(200);
/// An Ethernet type that does not occur on Ethernet (`ETH_P_LOCALTALK`).
const NEVER: u16 = 0x0009;

/// Reason why AF_XDP cannot be used here, with the action to take.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Unfit(pub(crate) String);

/// Parts of an open socket, in the order in which they are closed.
#[derive(Debug)]
struct Parts {
    /// `None` if it receives nothing.
    redirection: Option<Redirection>,
    custody: Custody,
    socket: Socket,
    /// Keeps the interface promiscuous, and reports when it goes down or disappears.
    watch: OwnedFd,
}

/// A socket on queue 0 of one interface.
#[derive(Debug)]
pub(crate) struct AfXdp {
    name: String,
    /// Longest packet of the interface, its Ethernet header not counted.
    mtu: usize,
    /// `None` once it was released.
    parts: Option<Parts>,
    zero_copy: bool,
    /// Frames handed over in one call: fewer after the interface did not accept all.
    burst: usize,
    next_look: Nanos,
    counters: BackendCounters,
}

/// Progress of the kernel with submitted frames.
#[derive(Debug)]
enum Took {
    /// It took all.
    All,
    /// It took this number and has no room for more.
    Some(usize),
    /// It took this number, and the driver has dropped the last one.
    Dropped(usize),
    /// It took this number, then failed with this error.
    Failed(usize, io::Error),
}

impl AfXdp {
    /// Opens both interfaces; the flag of each says whether it receives. With a `beat`, the program redirects frames
    /// only while that is fresh. Retries for up to `patience` if another socket or program has an interface.
    ///
    /// # Errors
    /// [`Unfit`]; nothing has changed then.
    pub(crate) fn open_pair(
        interfaces: [(&Interface, bool); 2],
        pool: &mut FramePool,
        beat: Option<Beat<'_>>,
        patience: Duration,
    ) -> Result<[Self; 2], Unfit> {
        let until = Instant::now() + patience;
        let [(input, input_receives), (output, output_receives)] = interfaces;
        let program = |interface: &Interface, receives: bool| match receives {
            true => redirect(interface, beat, until).map(Some),
            false => Ok(None),
        };
        let programs = [program(input, input_receives)?, program(output, output_receives)?];
        let open = |pool: &mut FramePool, mode| {
            let until = until.max(Instant::now() + FREED);
            let first = patiently(until, || Socket::open(input.index, pool, None, mode), |error| &error.source)
                .map_err(|error| (input, error))?;
            let second =
                patiently(until, || Socket::open(output.index, pool, Some(&first.0), mode), |error| &error.source)
                    .map_err(|error| (output, error))?;
            Ok([first, second])
        };
        // If only the first driver supports zero-copy, both copy.
        let sockets = open(pool, Mode::Best)
            .or_else(|_| open(pool, Mode::Copy))
            .map_err(|(interface, error)| explain(interface, &error))?;
        let [first, second] = sockets;
        let [input_program, output_program] = programs;
        let mut first = Self::with(input, first, input_program, pool)?;
        match Self::with(output, second, output_program, pool) {
            Ok(second) => Ok([first, second]),
            Err(error) => {
                first.release(pool);
                Err(error)
            }
        }
    }

    fn with(
        interface: &Interface,
        (socket, rings): (Socket, custody::Rings),
        redirection: Option<Redirection>,
        pool: &mut FramePool,
    ) -> Result<Self, Unfit> {
        let failed = |what: &'static str| move |source| explain(interface, &Refused { what, source });
        let watch = packet_socket::open().map_err(failed("opening a packet socket"))?;
        packet_socket::bind(&watch, interface.index, NEVER).map_err(failed("binding a packet socket"))?;
        packet_socket::make_promiscuous(&watch, interface.index).map_err(failed("making it promiscuous"))?;
        let mut custody = Custody::new(rings, pool);
        if let Some(redirection) = &redirection {
            custody.refill(pool);
            if let Err(error) = redirection.sockets.set_socket(0, &socket.fd) {
                drop(socket);
                // SAFETY: the socket's only descriptor is closed.
                unsafe { custody.release(pool) };
                return Err(Unfit(format!("{}: {error}", interface.name)));
            }
        }
        Ok(Self {
            name: interface.name.clone(),
            mtu: interface.mtu as usize,
            zero_copy: socket.zero_copy,
            parts: Some(Parts { redirection, custody, socket, watch }),
            burst: BATCH,
            next_look: Nanos::ZERO,
            counters: BackendCounters::default(),
        })
    }

    /// Returns true if the driver itself reads and writes frames of the pool.
    pub(crate) fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Bytes of the kernel's memory for its rings.
    pub(crate) fn ring_bytes(&self) -> u32 {
        RING_BYTES
    }

    /// Returns true if no received frame waits to be handed over.
    pub(crate) fn is_empty(&self) -> bool {
        self.arrived() == 0
    }

    fn arrived(&self) -> u32 {
        self.parts.as_ref().map_or(0, |parts| parts.custody.rings.reception.waiting())
    }

    fn gone(&self, source: io::Error) -> BackendError {
        BackendError::Gone { interface: self.name.clone(), source }
    }

    /// Checks periodically that the interface still exists.
    fn look(&mut self, now: Nanos) -> Result<(), BackendError> {
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now.saturating_add(LOOK);
        let watch = self.parts.as_ref().map(|parts| &parts.watch);
        let error = watch.map(|watch| sys::option::<libc::c_int>(watch, libc::SOL_SOCKET, libc::SO_ERROR));
        match error {
            Some(Ok(0)) => Ok(()),
            Some(Ok(number)) => Err(self.gone(io::Error::from_raw_os_error(number))),
            Some(Err(error)) => Err(self.gone(error)),
            None => Err(self.gone(io::Error::from_raw_os_error(libc::ENODEV))),
        }
    }
}

impl Parts {
    /// Has the kernel send the `count` frames that were submitted last, in this thread's own calls.
    fn drive(&self, count: usize) -> Took {
        let mut taken = 0;
        loop {
            let outcome = self.socket.kick();
            let left = self.custody.rings.transmission.pending() as usize;
            let seen = count.saturating_sub(left);
            let moved = seen > taken;
            taken = taken.max(seen);
            match outcome {
                Ok(()) | Err(_) if taken == count && !is_drop(&outcome) => return Took::All,
                // The kernel takes a limited number of frames in each call.
                Ok(()) if moved => {}
                Ok(()) => return Took::Some(taken),
                Err(error) => match error.raw_os_error() {
                    // The kernel shows its progress only if it has sent something before.
                    Some(libc::EBUSY) => return Took::Dropped(if moved { taken } else { taken + 1 }.min(count)),
                    Some(libc::EAGAIN) if moved => {}
                    Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => return Took::Some(taken),
                    _ => return Took::Failed(taken, error),
                },
            }
        }
    }

    /// Takes back the submitted frames that the kernel has not taken, and empties the ring.
    fn withdraw(&mut self, pool: &mut FramePool, frames: &[u32]) {
        self.custody.withdraw(pool, frames);
        // The kernel skips one entry in each call, and reports it in the next one.
        for _ in 0..frames.len() + 2 {
            if self.custody.rings.transmission.pending() == 0 {
                break;
            }
            let _ = self.socket.kick();
        }
    }
}

fn is_drop(outcome: &io::Result<()>) -> bool {
    outcome.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// Calls `attempt` and retries it while the result is `EBUSY`, until the time `until`.
fn patiently<T, E>(
    until: Instant,
    mut attempt: impl FnMut() -> Result<T, E>,
    source: impl Fn(&E) -> &io::Error,
) -> Result<T, E> {
    loop {
        match attempt() {
            Err(error) if source(&error).raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(NAP);
            }
            outcome => return outcome,
        }
    }
}

/// Attaches the program to `interface`, with restoration of VLAN tags if needed.
fn redirect(interface: &Interface, beat: Option<Beat<'_>>, until: Instant) -> Result<Redirection, Unfit> {
    let tags = fitness::takes_tags_out(interface);
    let name = &interface.name;
    let attach = || Redirection::new(interface.index, beat, tags);
    patiently(until, attach, |error: &BpfError| &error.source).map_err(|error| {
        let hint = match error.source.raw_os_error() {
            Some(libc::EPERM) => {
                "; XDP needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW in the machine's first user namespace, which root has".to_owned()
            }
            Some(libc::EBUSY) => format!(
                "; another XDP program is attached: `ip link show {name}` shows it, `ip link set dev {name} xdp off` removes it"
            ),
            Some(libc::EOPNOTSUPP) if !tags => format!("; the driver {:?} has no native XDP", interface.driver),
            Some(libc::EOPNOTSUPP | libc::ENOENT | libc::EINVAL) if tags => format!(
                "; VLAN tags that the driver takes out on receive would be lost: `ethtool -K {name} rxvlan off`, or Linux 6.8"
            ),
            _ => String::new(),
        };
        Unfit(format!("{name}: {error}{hint}"))
    })
}

/// Explains the kernel's refusal.
fn explain(interface: &Interface, Refused { what, source }: &Refused) -> Unfit {
    let hint = match source.raw_os_error() {
        Some(libc::EPERM) => "; AF_XDP needs CAP_NET_RAW",
        Some(libc::EAFNOSUPPORT) => "; this kernel is built without AF_XDP (CONFIG_XDP_SOCKETS)",
        Some(libc::ENOBUFS) => {
            "; the pool exceeds this process's limit of locked memory: raise `ulimit -l`, give it CAP_IPC_LOCK, or lower buffer in [link]"
        }
        Some(libc::EBUSY) => {
            "; another AF_XDP socket has this interface, such as that of the link in the other direction"
        }
        _ => "",
    };
    Unfit(format!("{}: {what}: {source}{hint}", interface.name))
}

impl Backend for AfXdp {
    const MOST_OWNED: u32 = SENDING;

    fn receive(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
        out: &mut Vec<Arrival>,
    ) -> Result<(), BackendError> {
        self.look(now)?;
        let Some(Parts { redirection: Some(_), custody, socket, .. }) = &mut self.parts else { return Ok(()) };
        custody.take_in(pool, now, max.min(BATCH), out, &mut self.counters);
        custody.refill(pool);
        if custody.rings.fill.wants_waking() {
            socket.wake_reception();
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.arrived() > 0
    }

    fn segments(&self, number: u8) -> &Segments {
        unreachable!("super-frame {number} was not announced")
    }

    fn fetch(&mut self, _: &FramePool, _: u32, number: u8, _: &mut [u8]) -> Result<bool, BackendError> {
        unreachable!("super-frame {number} was not announced")
    }

    fn is_flooded(&self) -> bool {
        // A quarter lasts some milliseconds at the rate at which this machine fetches, so that there is time to act.
        self.arrived() > RECEIVING / 4
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError> {
        let fit = frames.iter().position(|&frame| !interface::carries(self.mtu, pool.packet(frame)));
        let Some(parts) = &mut self.parts else { return Err(self.gone(io::Error::from_raw_os_error(libc::ENODEV))) };
        let (counters, burst) = (&mut self.counters, &mut self.burst);
        parts.custody.complete(pool);
        let mut accepted = 0;
        let last = fit.unwrap_or(frames.len());
        let rest = loop {
            if accepted == last {
                break match fit {
                    Some(_) => Rest::Refused(io::Error::from_raw_os_error(libc::EMSGSIZE)),
                    None => Rest::Busy,
                };
            }
            let batch = &frames[accepted..last.min(accepted + *burst)];
            let count = parts.custody.submit(pool, batch, counters);
            if count == 0 {
                break Rest::Busy;
            }
            let batch = &batch[..count];
            if self.zero_copy {
                accepted += count;
                if parts.custody.rings.transmission.wants_waking()
                    && let Err(error) = parts.socket.kick()
                    && is_gone(&error)
                {
                    // The next look finds it.
                    break Rest::Busy;
                }
                continue;
            }
            match parts.drive(count) {
                Took::All => {
                    accepted += count;
                    *burst = (*burst * 2).min(BATCH);
                }
                Took::Some(taken) => {
                    parts.withdraw(pool, &batch[taken..]);
                    accepted += taken;
                    *burst = taken.max(1);
                    break Rest::Busy;
                }
                Took::Dropped(taken) => {
                    parts.withdraw(pool, &batch[taken..]);
                    accepted += taken - 1;
                    *burst = 1;
                    // Its bytes are free once it has come back from the kernel.
                    if parts.custody.complete_but(pool, batch[taken - 1]) {
                        break Rest::Unwilling(io::Error::from_raw_os_error(libc::ENOBUFS));
                    }
                    accepted += 1;
                    break Rest::Busy;
                }
                Took::Failed(taken, error) => {
                    parts.withdraw(pool, &batch[taken..]);
                    accepted += taken;
                    *burst = 1;
                    match is_gone(&error) {
                        true if accepted == 0 => return Err(self.gone(error)),
                        // The next call meets the same error and reports it.
                        true => break Rest::Busy,
                        false => break Rest::Unwilling(error),
                    }
                }
            }
        };
        Ok(Sent { accepted, rest })
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        if let Some(parts) = &mut self.parts {
            parts.custody.complete(pool);
        }
    }

    fn has_carrier(&self) -> bool {
        // If the query fails, the interface is gone, which is noticed soon.
        sys::interface_flags(&self.name).is_ok_and(|flags| flags & libc::IFF_RUNNING != 0)
    }

    fn owned(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.custody.sending())
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        let parts = self.parts.as_ref()?;
        parts.redirection.as_ref().map(|_| parts.socket.fd.as_fd())
    }

    fn held(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.custody.receiving())
    }

    fn release(&mut self, pool: &mut FramePool) {
        self.counters = self.counters();
        if let Some(Parts { redirection, custody, socket, watch }) = self.parts.take() {
            // The kernel uses the frames until the socket is closed and the rings are unmapped.
            drop((redirection, socket, watch));
            // SAFETY: the only descriptor was just closed.
            unsafe { custody.release(pool) };
        }
    }

    fn counters(&mut self) -> BackendCounters {
        let mut counters = self.counters;
        if let Some(parts) = &self.parts {
            let told = parts.socket.statistics();
            counters.kernel_dropped += told.dropped + told.ring_full;
        }
        counters
    }
}

impl AfXdp {
    /// Continues the counters of `before`, the predecessor of this backend.
    pub(crate) fn inherit(&mut self, before: BackendCounters) {
        self.counters = before;
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}
