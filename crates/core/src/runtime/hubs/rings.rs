//! The ends of the rings: threads that receive and threads that send.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Plan;
use crate::contract::{ClassId, OutOfMemory, Packet};
use crate::parts::memory::slice;
use crate::runtime::hub::{Consumer, NOTE, Producer};

/// Returns the note that `top` moves to the hub `to`, for rings from receivers. In rings between hubs, a note ends what
/// is handed over.
pub(super) const fn note(top: u32, to: u32) -> Packet {
    Packet { handle: (to as u64) << 32 | top as u64, len: 0, class: NOTE }
}

/// Returns the class and the hub of a note.
pub(super) const fn noted(note: &Packet) -> (u32, u32) {
    (note.handle as u32, (note.handle >> 32) as u32)
}

/// A thread that receives, with a ring to each hub.
#[derive(Debug)]
pub struct Receiver {
    plan: Arc<Plan>,
    rings: Vec<Producer<Packet>>,
    /// By number of a class directly below the link: its hub, as of `seen` moves.
    home: Box<[u32]>,
    seen: u64,
    /// The class of which the next move is not noted yet, for want of room in the ring to its old hub.
    unnoted: Option<u32>,
}

impl Receiver {
    pub(super) fn new(plan: &Arc<Plan>, rings: Vec<Producer<Packet>>, home: &[u32]) -> Result<Self, OutOfMemory> {
        let home = slice(home.len(), |top| home[top])?;
        Ok(Self { plan: Arc::clone(plan), rings, home, seen: 0, unnoted: None })
    }

    /// Pushes `packet` into the ring to the hub of its class.
    ///
    /// # Errors
    /// The packet, if the ring is full, or if its class moves and the ring to the old hub has no room for a note.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        self.poll();
        // The hub drops a packet of a class that is none, or of the link; a packet is never taken for a note.
        let packet = if packet.class == NOTE { Packet { class: ClassId::ROOT, ..packet } } else { packet };
        let top = self.plan.top(packet.class);
        if top.is_some() && top == self.unnoted {
            return Err(packet);
        }
        let hub = top.map_or(0, |top| self.home[top as usize]);
        self.rings[hub as usize].push(packet).map_err(|rtrb::PushError::Full(packet)| packet)
    }

    /// Takes part in a move, if one was announced. [`Receiver::push`] calls it. A thread without packets has to call it
    /// from time to time, because moves wait for it.
    #[inline]
    pub fn poll(&mut self) {
        if let Some((top, to)) = self.plan.move_after(self.seen) {
            self.note(top, to);
        }
    }

    #[cold]
    fn note(&mut self, top: u32, to: u32) {
        let from = core::mem::replace(&mut self.home[top as usize], to);
        if self.rings[from as usize].push(note(top, to)).is_err() {
            self.home[top as usize] = from;
            self.unnoted = Some(top);
            return;
        }
        self.unnoted = None;
        // The next move is not announced before this one has ended, for which it waits for this note.
        self.seen += 1;
    }
}

/// A thread that sends, with a ring from each hub.
#[derive(Debug)]
pub struct Transmitter {
    rings: Vec<Consumer<Packet>>,
    /// The ring whose turn it is.
    next: usize,
}

impl Transmitter {
    pub(super) const fn new(rings: Vec<Consumer<Packet>>) -> Self {
        Self { rings, next: 0 }
    }

    /// Takes packets of all rings in turn, as many as `out` has room for without growing. They have to be sent in their
    /// order, and before those of the next call. Returns their number.
    pub fn take(&mut self, out: &mut Vec<Packet>) -> usize {
        let before = out.len();
        for _ in 0..self.rings.len() {
            let ring = &mut self.rings[self.next];
            let packets = ring.slots().min(out.capacity() - out.len());
            if let Ok(chunk) = ring.read_chunk(packets) {
                out.extend(chunk);
            }
            self.next = if self.next + 1 < self.rings.len() { self.next + 1 } else { 0 };
        }
        out.len() - before
    }
}
