//! A link with one thread that schedules, the *hub*, and other threads that receive and send.
//!
//! Threads that receive push packets into rings with one producer and one consumer each. The hub takes them, schedules,
//! and pushes what leaves into rings to the threads that send. A ring carries [`Packet`]s of 16 bytes; frames stay
//! where they are. So the shares are those of the scheduler, and the delay grows by the time in the rings: see
//! `docs/cores.md`.
//!
//! | step | rule |
//! | --- | --- |
//! | receive | the rings in turn, up to [`PART`] packets of each |
//! | order | [`FlowOrder`], for flows that move from one ring to another |
//! | schedule | any [`Scheduler`], at the pace of a [`Driver`] |
//! | transmit | the hash of the flow selects the ring, whichever ring the packet came from |
//! | no room | packets wait here, at most [`Driver::BATCH`]; nothing is dequeued until they have left |
//!
//! # Limits
//! * 1 to [`FlowOrder::MAX_RINGS`] rings of each kind. The number of transmit rings must not change while packets are
//!   queued: flows would change their ring.
//! * One full transmit ring stops the link. The turns of other packets would be lost otherwise.
//! * Rings allocate when they are made, and end the program if there is no memory. A [`HubPort`] reports missing memory
//!   as an error, and allocates nothing afterwards.
//! * The hub polls: rings wake no thread.
//! * Dropped packets go to a [`DropSink`] of the user, in the hub's thread. The handle says who owns the frame; a sink
//!   can push it into a ring to its owner.
//!
//! # Example
//! Two threads receive, one sends.
//!
//! ```
//! use fairlink_core::{
//!     ClassConfig, ClassId, Driver, DropReason, Hierarchy, HubPort, Leniency, LinkConfig, Members, Nanos, Pacer, Packet,
//!     Rate, flow_bits, hub, registry,
//! };
//!
//! let link = LinkConfig::new(Rate::from_bps(10_000_000_000)?);
//! let mut tree = Hierarchy::builder(link);
//! let class = tree.add(ClassId::ROOT, ClassConfig::default())?;
//! let hls = registry::find("hls").expect("it is registered").build(&tree.build()?, Leniency::Refuse, Members::new())?;
//! let mut driver = Driver::new(hls, Pacer::new(link.rate, Nanos::from_micros(10)))?;
//!
//! let ((mut left, from_left), (mut right, from_right)) = (hub::ring(256), hub::ring(256));
//! let (out, mut sent) = hub::ring(256);
//! let drops = |_: Nanos, packet: Packet, why: DropReason| panic!("{packet:?}: {}", why.as_str());
//! let mut port = HubPort::new(vec![from_left, from_right], vec![out], Packet::flow, drops)?;
//!
//! std::thread::scope(|scope| {
//!     for (receiver, flow) in [(&mut left, 1), (&mut right, 2)] {
//!         scope.spawn(move || {
//!             for number in 0..100 {
//!                 receiver.push(Packet { handle: flow_bits(flow) | number, len: 1000, class }).expect("it has room");
//!             }
//!         });
//!     }
//!     let sender = scope.spawn(move || {
//!         let mut next = [0, 0, 0];
//!         while next != [0, 100, 100] {
//!             let Ok(packet) = sent.pop() else { continue };
//!             let flow = packet.flow() as usize;
//!             assert_eq!(packet.handle & 0xffff_ffff, next[flow]);
//!             next[flow] += 1;
//!         }
//!     });
//!     let start = std::time::Instant::now();
//!     while !sender.is_finished() {
//!         let _ = port.turn(Nanos(start.elapsed().as_nanos() as u64), &mut driver);
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

pub use rtrb::{Consumer, Producer};

use crate::contract::{ClassId, DropReason, DropSink, Nanos, OutOfMemory, Packet, Scheduler};
use crate::parts::memory::room;
use crate::runtime::driver::{BATCH, Driver, Port, Wake};

mod order;
#[cfg(test)]
mod tests;

pub use order::FlowOrder;

/// Makes a ring with room for `packets` packets: one thread has the producer, another the consumer.
#[must_use]
pub fn ring(packets: usize) -> (Producer<Packet>, Consumer<Packet>) {
    rtrb::RingBuffer::new(packets)
}

/// The class of a packet that is none, but says something to who takes it from a ring. It belongs to no flow.
pub(crate) const NOTE: ClassId = ClassId(u32::MAX);

/// Most packets of a receive ring in its turn: half of [`Driver::BATCH`].
pub const PART: usize = BATCH / 2;

/// Returns the most packets that a hub with so many receive rings handles from the time at which a packet is pushed
/// into a receive ring to the time at which it is in a transmit ring, without its wait in the scheduler. It holds while
/// the hub keeps up: a ring has at most [`PART`] packets when its turn comes, no flow changes its ring, no transmit
/// ring is full.
///
/// *Proof.* A turn of the hub takes the parts of at least two rings, because two parts fit into a batch. So a ring has
/// its turn again after half as many turns as there are rings, rounded up. The packet that came just after it has been
/// looked at waits for these. In one more turn it is queued, or in a later one sent, and pushed at the end. A turn
/// handles at most a batch. ∎
#[must_use]
pub const fn turnaround(rings: usize) -> u64 {
    ((rings.div_ceil(2) + 1) * BATCH) as u64
}

/// The reason for which a [`HubPort`] cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubError {
    /// No rings, or too many.
    Rings {
        /// Number of rings.
        count: usize,
        /// Most rings.
        max: usize,
    },
    /// No memory.
    OutOfMemory(OutOfMemory),
}

impl fmt::Display for HubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rings { count, max } => write!(f, "{count} rings; a hub has 1 to {max} of each kind"),
            Self::OutOfMemory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for HubError {}

impl From<OutOfMemory> for HubError {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

/// A receive ring.
#[derive(Debug)]
struct Intake {
    ring: Consumer<Packet>,
    /// Packets taken so far.
    taken: u64,
    /// The ring that must be emptied before the packet at its head.
    behind: Option<Behind>,
}

/// The packets of another ring that are taken first.
#[derive(Clone, Copy, Debug)]
struct Behind {
    /// Flow of the packet that waits.
    flow: u32,
    ring: usize,
    /// The wait ends when so many packets of that ring have been taken.
    until: u64,
}

/// A transmit ring.
#[derive(Debug)]
struct Outlet {
    ring: Producer<Packet>,
    /// Packets on their way to it, at most [`HubPort::WAITING`].
    staged: Vec<Packet>,
    /// Packets pushed so far.
    pushed: u64,
    /// The number of the first packet after the mark of [`HubPort::mark`].
    #[cfg(feature = "shared")]
    mark: u64,
}

/// Rings to and from other threads as the [`Port`] of a [`Driver`]. `H` returns the hash of a packet's flow, of which
/// [`FlowOrder`] takes the lowest 12 bits. `D` takes dropped packets.
///
/// The packet at the head of a ring may have to wait until another ring is emptied, and the head of that one as well.
/// If such waits make a circle, each ring waits no longer than for the last packet of the group of its own head. *Then
/// there is no circle.* Let x be at the head of a ring that waits for a packet p of its group. By the conditions of
/// [`FlowOrder`] p was pushed before x, and the head of the ring of p no later than p. So each wait leads to a head
/// that was pushed earlier. ∎ If the conditions do not hold, there may be a circle even so; then one packet leaves out
/// of turn, and [`HubPort::unordered`] counts it.
#[derive(Debug)]
pub struct HubPort<H, D> {
    intakes: Box<[Intake]>,
    /// The receive ring whose turn it is.
    next: usize,
    order: FlowOrder,
    outlets: Box<[Outlet]>,
    hash: H,
    drops: D,
    unordered: u64,
}

impl<H: Fn(&Packet) -> u32, D: DropSink> HubPort<H, D> {
    /// Most packets that wait for room in a transmit ring.
    const WAITING: usize = BATCH;

    /// Makes a port of these rings.
    ///
    /// # Errors
    /// [`HubError`].
    pub fn new(
        receive: Vec<Consumer<Packet>>,
        transmit: Vec<Producer<Packet>>,
        hash: H,
        drops: D,
    ) -> Result<Self, HubError> {
        let max = FlowOrder::MAX_RINGS;
        if let Some(count) = [receive.len(), transmit.len()].into_iter().find(|count| !(1..=max).contains(count)) {
            return Err(HubError::Rings { count, max });
        }
        let mut intakes = room(receive.len())?;
        intakes.extend(receive.into_iter().map(|ring| Intake { ring, taken: 0, behind: None }));
        let mut outlets = room(transmit.len())?;
        for ring in transmit {
            outlets.push(Outlet {
                ring,
                staged: room(Self::WAITING)?,
                pushed: 0,
                #[cfg(feature = "shared")]
                mark: 0,
            });
        }
        Ok(Self {
            intakes: intakes.into_boxed_slice(),
            next: 0,
            order: FlowOrder::new()?,
            outlets: outlets.into_boxed_slice(),
            hash,
            drops,
            unordered: 0,
        })
    }

    /// Queues arrivals and sends what is due, as [`Driver::turn`] does. While packets wait for room in a transmit ring,
    /// it only queues arrivals, and returns that it should be called again at once.
    pub fn turn<S: Scheduler>(&mut self, now: Nanos, driver: &mut Driver<S>) -> Wake {
        if self.waiting() > 0 {
            self.publish();
            if self.waiting() > 0 {
                driver.accept(now, self);
                return Wake::At(now);
            }
        }
        driver.turn(now, self)
    }

    /// Number of packets that wait for room in a transmit ring.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.outlets.iter().map(|outlet| outlet.staged.len()).sum()
    }

    /// Number of packets taken from the receive rings since construction.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.intakes.iter().map(|intake| intake.taken).sum()
    }

    /// Number of packets pushed into the transmit rings since construction.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.outlets.iter().map(|outlet| outlet.pushed).sum()
    }

    /// Number of packets that were taken although earlier packets of their flow may be in another ring: 0 while the
    /// conditions of [`FlowOrder`] hold.
    #[must_use]
    pub fn unordered(&self) -> u64 {
        self.unordered
    }

    /// Returns the sink of dropped packets.
    pub fn drops_mut(&mut self) -> &mut D {
        &mut self.drops
    }

    /// Moves staged packets to the transmit rings, as far as these have room.
    fn publish(&mut self) {
        for Outlet { ring, staged, pushed, .. } in &mut self.outlets {
            if staged.is_empty() {
                continue;
            }
            let packets = staged.len().min(ring.slots());
            if let Ok(chunk) = ring.write_chunk_uninit(packets) {
                *pushed += chunk.fill_from_iter(staged.drain(..packets)) as u64;
            }
        }
    }

    /// Marks the end of each transmit ring, with the packets that wait for it.
    #[cfg(feature = "shared")]
    pub(crate) fn mark(&mut self) {
        for outlet in &mut self.outlets {
            outlet.mark = outlet.pushed + outlet.staged.len() as u64;
        }
    }

    /// Returns true if all packets before the last mark have been taken from the transmit rings.
    #[cfg(feature = "shared")]
    pub(crate) fn has_passed_mark(&self) -> bool {
        self.outlets.iter().all(|outlet| {
            let queued = outlet.ring.buffer().capacity() - outlet.ring.slots();
            outlet.pushed - queued as u64 >= outlet.mark
        })
    }

    /// Takes up to `most` packets of `ring`. Stops at one that must wait for another ring. Returns the number taken.
    fn take(&mut self, ring: usize, most: usize, batch: &mut Vec<Packet>) -> usize {
        let Self { intakes, order, hash, .. } = self;
        let mut got = 0;
        while got < most {
            let intake = &mut intakes[ring];
            let packets = intake.ring.slots().min(most - got);
            let Ok(chunk) = intake.ring.read_chunk(packets) else { break };
            let (mut free, mut stop) = (0, None);
            let (one, two) = chunk.as_slices();
            for packet in one.iter().chain(two) {
                let flow = hash(packet);
                let before = if packet.class == NOTE { None } else { order.came(flow, ring) };
                if let Some(before) = before {
                    stop = Some((flow, before));
                    break;
                }
                free += 1;
            }
            batch.extend(chunk.into_iter().take(free));
            intake.taken += free as u64;
            got += free;
            let Some((flow, before)) = stop else { break };
            // Read after the head was seen: all that was pushed before it is there.
            let Intake { ring: other, taken, .. } = &intakes[before];
            let until = taken + other.slots() as u64;
            if until > *taken {
                intakes[ring].behind = Some(Behind { flow, ring: before, until });
                break;
            }
            order.moved(flow, ring);
        }
        got
    }

    /// Lets the head of `ring` go.
    fn release(&mut self, ring: usize) {
        if let Some(behind) = self.intakes[ring].behind.take() {
            self.order.moved(behind.flow, ring);
        }
    }

    /// Returns a ring whose head may be taken, and how many of its packets: `ring` itself, or one that it waits for.
    /// `None` if the rings wait in a circle.
    fn first_before(&mut self, ring: usize) -> Option<(usize, u64)> {
        let (mut at, mut most) = (ring, u64::MAX);
        for _ in 0..=self.intakes.len() {
            let Some(behind) = self.intakes[at].behind else { return Some((at, most)) };
            let left = behind.until.saturating_sub(self.intakes[behind.ring].taken);
            if left == 0 {
                self.release(at);
                return Some((at, most));
            }
            (at, most) = (behind.ring, left);
        }
        None
    }

    /// As [`HubPort::first_before`], for rings that wait in a circle: they wait only for packets of the group of their
    /// head.
    fn untangle(&mut self, ring: usize) -> (usize, u64) {
        for at in 0..self.intakes.len() {
            let Some(behind) = self.intakes[at].behind else { continue };
            let Self { intakes, hash, .. } = self;
            let before = &mut intakes[behind.ring];
            let left = behind.until.saturating_sub(before.taken);
            let Ok(chunk) = before.ring.read_chunk(left as usize) else { continue };
            let (one, two) = chunk.as_slices();
            let group = FlowOrder::group(behind.flow);
            let is_before = |packet: &Packet| FlowOrder::group(hash(packet)) == group;
            let last = match two.iter().rposition(is_before) {
                Some(last) => one.len() + last + 1,
                None => one.iter().rposition(is_before).map_or(0, |last| last + 1),
            };
            let until = before.taken + last as u64;
            intakes[at].behind = Some(Behind { until, ..behind });
        }
        self.first_before(ring).unwrap_or_else(|| {
            self.unordered += 1;
            self.release(ring);
            (ring, u64::MAX)
        })
    }

    /// Returns the transmit ring of a flow.
    fn outlet(&self, flow: u32) -> usize {
        // All bits of the hash count, so that the choice does not depend on the bits that select the receive ring.
        let mixed = u64::from(flow.wrapping_mul(0x9E37_79B1));
        ((mixed * self.outlets.len() as u64) >> 32) as usize
    }
}

impl<H, D: DropSink> DropSink for HubPort<H, D> {
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        self.drops.dropped(now, packet, reason);
    }
}

impl<H: Fn(&Packet) -> u32, D: DropSink> Port for HubPort<H, D> {
    /// Takes the rings in turn, up to [`PART`] packets of each, until `batch` has no room or each had its turn. Never
    /// lets `batch` grow.
    fn receive(&mut self, _: Nanos, batch: &mut Vec<Packet>) {
        for _ in 0..self.intakes.len() {
            let ring = self.next;
            let mut left = self.intakes[ring].ring.slots().min(PART);
            while left > 0 {
                let room = batch.capacity() - batch.len();
                // A part is not divided, unless even an empty batch has no room for it.
                if room == 0 || (room < left && !batch.is_empty()) {
                    return;
                }
                let (first, most) = match self.first_before(ring) {
                    Some(found) => found,
                    None => self.untangle(ring),
                };
                let most = if first == ring { left } else { most.min(room as u64) as usize };
                let took = self.take(first, most.min(room), batch);
                if first == ring {
                    left -= took;
                }
            }
            self.next = if ring + 1 < self.intakes.len() { ring + 1 } else { 0 };
        }
    }

    fn transmit(&mut self, now: Nanos, packet: Packet, _: Nanos) {
        let at = self.outlet((self.hash)(&packet));
        if self.outlets[at].staged.len() == Self::WAITING {
            self.publish();
        }
        let staged = &mut self.outlets[at].staged;
        if staged.len() < Self::WAITING {
            staged.push(packet);
        } else {
            // Only if `Driver::turn` is called while packets wait; `HubPort::turn` does not.
            self.drops.dropped(now, packet, DropReason::TotalPackets);
        }
    }

    fn flush(&mut self, _: Nanos) {
        self.publish();
    }
}
