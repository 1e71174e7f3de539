//! The fast backend: AF_XDP sockets. A program in the driver gives frames to the socket before the kernel makes packets
//! of them. The kernel writes them into the gateway's packet pool and reads them from there, so that a frame leaves
//! without having moved. One system call hands over many frames; fetching needs none.
//!
//! The pool is registered with the kernel once, for both interfaces (`XDP_SHARED_UMEM`). Each receive queue of an interface
//! has a socket with its own four rings ([`queues`], [`custody`]). Several threads may have queues of their own, each with
//! its view of the pool. The driver copies, or uses the pool's memory itself if it
//! can (zero-copy).
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
mod queues;
mod ring;
mod socket;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlink_core::Nanos;
use thiserror::Error;

use crate::io::af_xdp::custody::SENDING;
use crate::io::af_xdp::program::Redirection;
use crate::io::af_xdp::queues::{Queues, Took};
use crate::io::af_xdp::socket::Refused;
use crate::io::backend::{Arrival, BATCH, Backend, BackendCounters, BackendError, Rest, Sent};
use crate::io::bpf::BpfError;
use crate::io::bpf::assembler::Part;
use crate::io::frame_pool::FramePool;
use crate::io::interface::{self, Interface};
use crate::io::{packet_socket, sys};
use crate::wire::segments::Segments;

pub(crate) use crate::io::af_xdp::fitness::Fit;
pub(crate) use crate::io::af_xdp::life::Life;
pub(crate) use crate::io::af_xdp::program::Beat;
pub(crate) use crate::io::af_xdp::socket::Mode;

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
    /// `None` if it receives nothing. The program is that of all threads.
    redirection: Option<Arc<Redirection>>,
    queues: Queues,
    /// Keeps the interface promiscuous, and reports when it goes down or disappears.
    watch: OwnedFd,
}

/// The sockets of one thread on one interface.
#[derive(Debug)]
pub(crate) struct AfXdp {
    name: String,
    /// Longest packet of the interface, its Ethernet header not counted.
    mtu: usize,
    /// `None` once it was released.
    parts: Option<Parts>,
    /// Frames that a receive queue has room for.
    slots: u32,
    zero_copy: bool,
    /// Frames handed over in one call: fewer after the interface did not accept all.
    burst: usize,
    next_look: Nanos,
    counters: BackendCounters,
}

/// Settings for opening a pair of interfaces.
pub(crate) struct Opening<'a> {
    /// The interfaces' needs.
    pub(crate) fit: Fit,
    /// Modes to try, in this order.
    pub(crate) modes: &'static [Mode],
    /// If present, the programs redirect frames only while it is fresh.
    pub(crate) beat: Option<Beat<'a>>,
    /// Appended to the program of the first interface where it would redirect a frame. `R9` has the context.
    pub(crate) before: Option<Part<'a>>,
    /// Maximum time for which another socket or program may have an interface.
    pub(crate) patience: Duration,
}

impl AfXdp {
    /// Opens both interfaces for each of the threads of `opening.fit`, which have these pools: one, or views of one.
    ///
    /// # Errors
    /// [`Unfit`]; nothing has changed then.
    pub(crate) fn open_pairs(
        interfaces: [&Interface; 2],
        pools: &mut [FramePool],
        opening: &Opening<'_>,
    ) -> Result<Vec<[Self; 2]>, Unfit> {
        let Opening { fit, modes, beat, before, patience } = opening;
        let queues = fit.queues;
        let until = Instant::now() + *patience;
        let [input, output] = interfaces;
        let program = |interface: &Interface, queues, before| match queues {
            0 => Ok(None),
            _ => redirect(interface, queues, *beat, before, until).map(|program| Some(Arc::new(program))),
        };
        let programs = [program(input, queues[0], *before)?, program(output, queues[1], None)?];
        let open = |pools: &mut [FramePool], mode| {
            let until = until.max(Instant::now() + FREED);
            let mut pairs: Vec<[Queues; 2]> = Vec::new();
            for (thread, pool) in (0..).zip(pools) {
                let [of_input, of_output] = fit.queues_of(thread);
                let mut one = |interface: &Interface, mine: (&[u32], u32), owner| {
                    patiently(until, || Queues::open(interface.index, mine, pool, owner, mode), |error| &error.source)
                        .map_err(|error| explain(interface, &error))
                };
                let owner = pairs.first().map(|[first, _]| first.owner());
                let first = one(input, (&of_input, queues[0]), owner)?;
                let owner = owner.or(Some(first.owner()));
                let second = one(output, (&of_output, queues[1]), owner)?;
                pairs.push([first, second]);
            }
            Ok(pairs)
        };
        let mut sockets = Err(Unfit(String::new()));
        for &mode in *modes {
            sockets = open(pools, mode);
            if sockets.is_ok() {
                break;
            }
        }
        let mut pairs: Vec<[Self; 2]> = Vec::new();
        for (sockets, pool) in sockets?.into_iter().zip(pools.iter_mut()) {
            match Self::pair(interfaces, sockets, &programs, pool) {
                Ok(pair) => pairs.push(pair),
                Err(error) => {
                    let opened = pairs.iter_mut().zip(pools);
                    opened.for_each(|(pair, pool)| pair.iter_mut().for_each(|port| port.release(pool)));
                    return Err(error);
                }
            }
        }
        Ok(pairs)
    }

    /// Makes a pair of these sockets.
    fn pair(
        [input, output]: [&Interface; 2],
        [first, second]: [Queues; 2],
        [input_program, output_program]: &[Option<Arc<Redirection>>; 2],
        pool: &mut FramePool,
    ) -> Result<[Self; 2], Unfit> {
        let mut first = Self::with(input, first, input_program.clone(), pool)?;
        match Self::with(output, second, output_program.clone(), pool) {
            Ok(second) => Ok([first, second]),
            Err(error) => {
                first.release(pool);
                Err(error)
            }
        }
    }

    fn with(
        interface: &Interface,
        mut queues: Queues,
        redirection: Option<Arc<Redirection>>,
        pool: &mut FramePool,
    ) -> Result<Self, Unfit> {
        let failed = |what: &'static str| move |source| explain(interface, &Refused { what, source });
        let watch = packet_socket::open().map_err(failed("opening a packet socket"))?;
        packet_socket::bind(&watch, interface.index, NEVER).map_err(failed("binding a packet socket"))?;
        packet_socket::make_promiscuous(&watch, interface.index).map_err(failed("making it promiscuous"))?;
        if let Some(redirection) = &redirection {
            queues.refill(pool);
            if let Err(error) = queues.enter(&redirection.sockets) {
                queues.release(pool);
                return Err(Unfit(format!("{}: {error}", interface.name)));
            }
        }
        Ok(Self {
            name: interface.name.clone(),
            mtu: interface.mtu as usize,
            slots: queues.slots(),
            zero_copy: queues.is_zero_copy(),
            parts: Some(Parts { redirection, queues, watch }),
            burst: BATCH,
            next_look: Nanos::ZERO,
            counters: BackendCounters::default(),
        })
    }

    /// Returns true if the driver itself reads and writes frames of the pool.
    pub(crate) fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Frames that a receive queue has room for; `None` if nothing is received.
    pub(crate) fn ring_slots(&self) -> Option<usize> {
        let receives = self.parts.as_ref().is_some_and(|parts| parts.redirection.is_some());
        receives.then_some(self.slots as usize)
    }

    /// Bytes of the kernel's memory for its rings.
    pub(crate) fn ring_bytes(&self) -> u32 {
        self.parts.as_ref().map_or(0, |parts| parts.queues.ring_bytes())
    }

    /// Returns true if no received frame waits to be handed over.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_more()
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
fn redirect(
    interface: &Interface,
    queues: u32,
    beat: Option<Beat<'_>>,
    before: Option<Part<'_>>,
    until: Instant,
) -> Result<Redirection, Unfit> {
    let tags = fitness::takes_tags_out(interface);
    let name = &interface.name;
    let attach = || Redirection::new((interface.index, queues), beat, tags, before);
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
        let Some(Parts { redirection: Some(_), queues, .. }) = &mut self.parts else { return Ok(()) };
        queues.take_in(pool, now, max.min(BATCH), out, &mut self.counters);
        queues.refill(pool);
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.queues.fullest() > 0)
    }

    fn segments(&self, number: u8) -> &Segments {
        unreachable!("super-frame {number} was not announced")
    }

    fn fetch(&mut self, _: &FramePool, _: u32, number: u8, _: &mut [u8]) -> Result<bool, BackendError> {
        unreachable!("super-frame {number} was not announced")
    }

    fn is_flooded(&self) -> bool {
        // A quarter lasts some milliseconds at the rate at which this machine fetches, so that there is time to act.
        self.parts.as_ref().is_some_and(|parts| parts.queues.fullest() > self.slots / 4)
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError> {
        let fit = frames.iter().position(|&frame| !interface::carries(self.mtu, pool.packet(frame)));
        let Some(parts) = &mut self.parts else { return Err(self.gone(io::Error::from_raw_os_error(libc::ENODEV))) };
        let (counters, burst, queue) = (&mut self.counters, &mut self.burst, parts.queues.sender());
        queue.custody.complete(pool);
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
            let count = queue.custody.submit(pool, batch, counters);
            if count == 0 {
                break Rest::Busy;
            }
            let batch = &batch[..count];
            if self.zero_copy {
                accepted += count;
                if queue.custody.rings.transmission.wants_waking()
                    && let Err(error) = queue.socket.kick()
                    && is_gone(&error)
                {
                    // The next look finds it.
                    break Rest::Busy;
                }
                continue;
            }
            match queue.drive(count) {
                Took::All => {
                    accepted += count;
                    *burst = (*burst * 2).min(BATCH);
                }
                Took::Some(taken) => {
                    queue.withdraw(pool, &batch[taken..]);
                    accepted += taken;
                    *burst = taken.max(1);
                    break Rest::Busy;
                }
                Took::Dropped(taken) => {
                    queue.withdraw(pool, &batch[taken..]);
                    accepted += taken - 1;
                    *burst = 1;
                    // Its bytes are free once it has come back from the kernel.
                    if queue.custody.complete_but(pool, batch[taken - 1]) {
                        break Rest::Unwilling(io::Error::from_raw_os_error(libc::ENOBUFS));
                    }
                    accepted += 1;
                    break Rest::Busy;
                }
                Took::Failed(taken, error) => {
                    queue.withdraw(pool, &batch[taken..]);
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
            parts.queues.sender().custody.complete(pool);
        }
    }

    fn has_carrier(&self) -> bool {
        // If the query fails, the interface is gone, which is noticed soon.
        sys::interface_flags(&self.name).is_ok_and(|flags| flags & libc::IFF_RUNNING != 0)
    }

    fn owned(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.queues.sending())
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        let parts = self.parts.as_ref()?;
        parts.redirection.as_ref().map(|_| parts.queues.readable())
    }

    fn held(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.queues.receiving())
    }

    fn release(&mut self, pool: &mut FramePool) {
        self.counters = self.counters();
        if let Some(Parts { redirection, queues, watch }) = self.parts.take() {
            drop((redirection, watch));
            queues.release(pool);
        }
    }

    fn counters(&mut self) -> BackendCounters {
        let mut counters = self.counters;
        if let Some(parts) = &self.parts {
            counters.kernel_dropped += parts.queues.dropped();
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
