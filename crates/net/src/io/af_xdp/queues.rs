//! Receive queues of an interface that one thread fetches from, with a socket for each. The first one also sends.
//!
//! A driver spreads flows over its queues, each flow always to the same one. So frames of a flow stay in order.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fairlink_core::Nanos;

use crate::io::af_xdp::custody::{Custody, SENDING, receiving};
use crate::io::af_xdp::socket::{Mode, Refused, Socket, Statistics};
use crate::io::backend::{Arrival, BackendCounters};
use crate::io::bpf::{BpfError, Map};
use crate::io::frame_pool::FramePool;
use crate::io::sys;

/// Parts of a queue, in the order in which they are closed.
#[derive(Debug)]
pub(super) struct Queue {
    /// Its number at the interface.
    number: u32,
    pub(super) custody: Custody,
    pub(super) socket: Socket,
}

/// Progress of the kernel with submitted frames.
#[derive(Debug)]
pub(super) enum Took {
    /// It took all.
    All,
    /// It took this number and has no room for more.
    Some(usize),
    /// It took this number, and the driver has dropped the last one.
    Dropped(usize),
    /// It took this number, then failed with this error.
    Failed(usize, io::Error),
}

impl Queue {
    /// Has the kernel send the `count` frames that were submitted last, in this thread's own calls.
    pub(super) fn drive(&self, count: usize) -> Took {
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
    pub(super) fn withdraw(&mut self, pool: &mut FramePool, frames: &[u32]) {
        self.custody.withdraw(pool, frames);
        // The kernel skips one entry in each call, and reports it in the next one.
        for _ in 0..frames.len() + 2 {
            if self.custody.rings.transmission.pending() == 0 {
                break;
            }
            let _ = self.socket.kick();
        }
    }

    fn waiting(&self) -> u32 {
        self.custody.rings.reception.waiting()
    }
}

fn is_drop(outcome: &io::Result<()>) -> bool {
    outcome.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// See the module.
#[derive(Debug)]
pub(super) struct Queues {
    sender: Queue,
    others: Vec<Queue>,
    /// Frames that each has room for.
    slots: u32,
    /// Becomes readable when a frame has arrived in any of several.
    any: Option<OwnedFd>,
    /// The queue whose frames are taken first.
    first: usize,
}

impl Queues {
    /// Opens sockets for the queues `numbers`, one at least, of the interface `index`, which receives from `all` queues.
    /// See [`Socket::open`] for the others.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub(super) fn open(
        index: i32,
        (numbers, all): (&[u32], u32),
        pool: &mut FramePool,
        owner: Option<BorrowedFd<'_>>,
        mode: Mode,
    ) -> Result<Self, Refused> {
        let slots = receiving(all);
        let open = |number, pool: &mut FramePool, owner| {
            let (socket, rings) = Socket::open((index, number), slots, pool, owner, mode)?;
            Ok(Queue { number, custody: Custody::new(rings, pool, slots), socket })
        };
        let sender = open(numbers[0], pool, owner)?;
        let owner = owner.unwrap_or(sender.socket.fd.as_fd());
        let others: Vec<Queue> =
            numbers[1..].iter().map(|&number| open(number, pool, Some(owner))).collect::<Result<_, _>>()?;
        let any = match others.is_empty() {
            true => None,
            false => {
                let sockets = std::iter::once(&sender).chain(&others).map(|queue| &queue.socket.fd);
                let what = "waiting for several receive queues";
                Some(sys::any_readable(sockets).map_err(|source| Refused { what, source })?)
            }
        };
        Ok(Self { sender, others, slots, any, first: 0 })
    }

    /// The socket that has registered the pool, or shares it.
    pub(super) fn owner(&self) -> BorrowedFd<'_> {
        self.sender.socket.fd.as_fd()
    }

    /// The queue that sends.
    pub(super) fn sender(&mut self) -> &mut Queue {
        &mut self.sender
    }

    fn all(&self) -> impl Iterator<Item = &Queue> {
        std::iter::once(&self.sender).chain(&self.others)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Queue> {
        std::iter::once(&mut self.sender).chain(&mut self.others)
    }

    /// Returns true if the driver itself reads and writes frames of the pool.
    pub(super) fn is_zero_copy(&self) -> bool {
        self.all().all(|queue| queue.socket.zero_copy)
    }

    /// Frames that each queue has room for.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// Bytes of the kernel's memory for all rings: for each queue two of descriptors, two of addresses. The last one has
    /// twice the entries that it needs.
    pub(super) fn ring_bytes(&self) -> u32 {
        self.all().count() as u32 * (self.slots * (16 + 8) + SENDING * (16 + 2 * 8))
    }

    /// Enters each socket in `sockets` at the number of its queue, so that it receives.
    ///
    /// # Errors
    /// [`BpfError`].
    pub(super) fn enter(&self, sockets: &Map) -> Result<(), BpfError> {
        self.all().try_for_each(|queue| sockets.set_socket(queue.number, &queue.socket.fd))
    }

    /// Gives the kernel frames for reception.
    pub(super) fn refill(&mut self, pool: &mut FramePool) {
        for queue in self.all_mut() {
            queue.custody.refill(pool);
            if queue.custody.rings.fill.wants_waking() {
                queue.socket.wake_reception();
            }
        }
    }

    /// Appends up to `max` received frames to `out`, those of each queue oldest first. If more wait, each queue has its
    /// part; then those have the rest that come first, which is another queue each time.
    pub(super) fn take_in(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
        out: &mut Vec<Arrival>,
        counters: &mut BackendCounters,
    ) {
        if self.others.is_empty() {
            return self.sender.custody.take_in(pool, now, max, out, counters);
        }
        let count = 1 + self.others.len();
        let all = out.len() + max;
        self.first = (self.first + 1) % count;
        for most in [max.div_ceil(count), max] {
            for at in 0..count {
                let queue = match (self.first + at) % count {
                    0 => &mut self.sender,
                    other => &mut self.others[other - 1],
                };
                queue.custody.take_in(pool, now, most.min(all - out.len()), out, counters);
            }
        }
    }

    /// Received frames of the queue that has most of them.
    pub(super) fn fullest(&self) -> u32 {
        self.all().map(Queue::waiting).max().unwrap_or(0)
    }

    /// Frames held for reception.
    pub(super) fn receiving(&self) -> usize {
        self.all().map(|queue| queue.custody.receiving()).sum()
    }

    /// Frames held for sending.
    pub(super) fn sending(&self) -> usize {
        self.sender.custody.sending()
    }

    /// The descriptor that becomes readable when a frame has arrived.
    pub(super) fn readable(&self) -> BorrowedFd<'_> {
        self.any.as_ref().unwrap_or(&self.sender.socket.fd).as_fd()
    }

    /// Frames that the kernel has dropped because there was no room for them.
    pub(super) fn dropped(&self) -> u64 {
        let dropped = |Statistics { dropped, ring_full, .. }| dropped + ring_full;
        self.all().map(|queue| dropped(queue.socket.statistics())).sum()
    }

    /// Closes all sockets and returns their frames to `pool`.
    pub(super) fn release(self, pool: &mut FramePool) {
        let Self { sender, others, any, .. } = self;
        drop(any);
        // The kernel uses the frames until the socket is closed and its rings are unmapped.
        for Queue { custody, socket, .. } in others.into_iter().chain([sender]) {
            drop(socket);
            // SAFETY: the only descriptor was just closed.
            unsafe { custody.release(pool) };
        }
    }
}
