//! Drops by class in the kernel, before a frame is copied.
//!
//! If frames arrive faster than the data thread fetches them, the kernel's buffer overflows, and the kernel drops frames
//! of all classes alike. A program at the socket prevents that by two rules:
//!
//! * While load is shed, it drops frames of classes with long queues, so that the data thread need not fetch them. If that
//!   thread stands still, and workers forward by themselves, these drops end ([`Relief`]).
//! * While more than half of the buffer is filled, a class may add as many frames as there is room for at that time
//!   (Choudhury and Hahne, 1998). So one class fills at most half of the rest, two a third each, and so on, and some is left
//!   for others. This rule needs no decision of the data thread, which may be without a processor.
//!
//! The program does not classify. It looks a frame's flow up in a table of flows that the data thread has fetched and
//! classified ([`FlowTable`]). Flows that are not in the table are a class of their own, *unknown*. If most of the frames
//! that are fetched while load is shed are of unknown flows, as in a flood from random addresses, unknown flows are
//! dropped, too, in slices of some milliseconds. A flow is known for certain from its second packet on. It stays for
//! [`KEPT`] seconds without packets, and no other flow takes its place meanwhile. A flow with a single packet gives way to
//! any other.
//!
//! A flow has the same addresses, tag, code point, protocol and ports. Those of frames with several tags, PPPoE, IPv4
//! options, fragments and most IPv6 extension headers are unknown. Super-frames are never dropped here: they cost little
//! before they are split.

mod program;
mod table;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use fairlink_core::{Amount, ClassId, Nanos, Overhead};

use crate::gateway::queue_lengths::QueueLengths;
use crate::gateway::splitter::OF_TURN;
use crate::gateway::stats::EdgeCounters;
use crate::io::af_packet::AfPacketOptions;
use crate::io::backend::BATCH;
use crate::io::bpf::assembler::{Assembler, Register::*};
use crate::io::bpf::{BpfError, Map, Program, ProgramKind, SharedWords};
use crate::io::packet_ring::receive_slots;

pub(crate) use program::Dropper;
use program::Place;
use table::{FlowTable, KEY, SETS, WAYS};

/// Classes that are told apart: numbers from 1. Flows of the others are unknown.
const CLASSES: usize = 4096;
/// Counters: two for each class, in two halves. A change of the classes takes the other half, so that drops that the program
/// counts during the change are known as those of the old classes.
const COUNTED: usize = 2 * CLASSES;
/// Frames longer than this are accounted as frames of this length; no Ethernet frame is.
const LENGTHS: usize = 1 << 16;
/// The first words of the control map: whether a class is dropped, frames that were put into the buffer, the number of times
/// that it was seen at most half filled, its room and half of that in frames, frames that left it, and the mark of the
/// frames that are received, if not all are.
const HEAD: usize = 8;
const ANY: usize = 0;
const ADMITTED: usize = 1;
const CALM: usize = 2;
const ROOM: usize = 3;
const FREELY: usize = 4;
const FETCHED: usize = 5;
const MARK: usize = 6;
/// Words of a class behind these: whether it is dropped, packets and bytes dropped, frames added to a buffer that is more
/// than half filled, and the number of times at the first of them.
const WORDS: usize = 8;
const DROPPED: usize = 0;
const PACKETS: usize = 1;
const BYTES: usize = 2;
const ADDED: usize = 3;
const SINCE: usize = 4;
/// The class of unknown flows.
const UNKNOWN: usize = 0;
/// Verdict of a program in the driver: `XDP_PASS`.
const PASS: i32 = 2;
/// Hint for older kernels.
pub(super) const OLDER: &str = "maps in shared memory came with Linux 5.5";
/// Seconds for which a known flow keeps its place without packets.
const KEPT: u16 = 8;
/// Shortest time for which unknown flows are dropped.
const SLICE: Nanos = Nanos::from_millis(10);

/// Secret keys of the flow hash. A sender that does not know them cannot choose flows that share a place.
#[derive(Clone, Copy, Debug)]
struct Secret {
    /// One for each half of a word of a flow's key.
    halves: [u32; 2 * KEY],
    /// Odd.
    factor: u64,
}

impl Secret {
    fn new() -> Self {
        let state = RandomState::new();
        let halves = std::array::from_fn(|place| state.hash_one(place) as u32);
        Self { halves, factor: state.hash_one(halves) | 1 }
    }
}

/// The maps of the program.
#[derive(Debug)]
pub(crate) struct Maps {
    flows: Map,
    control: Map,
    lengths: Map,
    secret: Secret,
}

impl Maps {
    fn new() -> Result<Self, BpfError> {
        let bytes = |words: usize| (words * size_of::<u64>()) as u32;
        Ok(Self {
            flows: Map::shared_array("fairlink_flows", 1, bytes(SETS * WAYS))?,
            control: Map::shared_array("fairlink_drops", 1, bytes(HEAD + COUNTED * WORDS))?,
            lengths: Map::shared_array("fairlink_lens", 1, bytes(LENGTHS / 2))?,
            secret: Secret::new(),
        })
    }
}

/// Returns whether the kernel lets this process drop frames by class before they are copied.
///
/// # Errors
/// The reason why not, in words.
pub fn drops_by_class() -> Result<(), String> {
    Early::load().map(|_| ()).map_err(|error| error.explain(OLDER))
}

/// Number of frames that may be in front of another one in a gateway with packet sockets, from its arrival at the input
/// until it is classified: those of a full receive ring of the default length, for frames of up to `longest` bytes, and
/// the packets that a turn splits and sends before it fetches. A super-frame counts as one.
#[must_use]
pub fn frames_in_front(longest: u32) -> usize {
    let bytes = 2 * AfPacketOptions::default().receive_buffer as usize;
    receive_slots(longest as usize, bytes) + OF_TURN + BATCH
}

/// The program, and its maps.
#[derive(Debug)]
pub(crate) struct Early {
    maps: Maps,
    filter: Program,
}

impl Early {
    /// Bytes of its maps.
    pub(crate) const KERNEL_BYTES: u64 = (8 * (SETS * WAYS + HEAD + COUNTED * WORDS + LENGTHS / 2)) as u64;

    /// Loads the program.
    ///
    /// # Errors
    /// [`BpfError`]: no permission, or not in this kernel.
    pub(crate) fn load() -> Result<Self, BpfError> {
        let maps = Maps::new()?;
        let mut code = Assembler::new();
        code.copy(R9, R1);
        Dropper { maps: &maps, place: Place::Socket, input: None }.end_filter(&mut code);
        let filter = Program::load(ProgramKind::SocketFilter, "fairlink_early", None, code)?;
        Ok(Self { maps, filter })
    }

    /// A filter for a socket that receives frames of one interface.
    pub(crate) fn filter(&self) -> &Program {
        &self.filter
    }

    /// Has the filter accept frames with this mark alone.
    ///
    /// # Errors
    /// [`BpfError`]: the map cannot be mapped.
    pub(crate) fn take_only(&self, mark: u32) -> Result<(), BpfError> {
        let control = self.maps.control.share(HEAD + COUNTED * WORDS)?;
        control.words()[MARK].store(mark.into(), Relaxed);
        Ok(())
    }

    /// The end of another filter, for the frames of the interface `input` (index).
    pub(crate) fn dropper(&self, input: i32) -> Dropper<'_> {
        Dropper { maps: &self.maps, place: Place::Socket, input: Some(input) }
    }

    /// A part of a program in the driver of the input.
    pub(crate) fn in_driver(&self) -> Dropper<'_> {
        Dropper { maps: &self.maps, place: Place::Driver, input: None }
    }

    /// Checks that the kernel accepts [`Early::in_driver`].
    ///
    /// # Errors
    /// [`BpfError`]: not in this kernel.
    pub(crate) fn try_in_driver(&self) -> Result<Program, BpfError> {
        let mut code = Assembler::new();
        code.copy(R9, R1);
        self.in_driver().append(&mut code);
        code.set(R0, PASS).exit();
        Program::load(ProgramKind::Xdp, "fairlink_early", None, code)
    }

    /// The data thread's end, for `classes` classes and a buffer with room for `room` frames.
    ///
    /// # Errors
    /// [`BpfError`]: the maps cannot be mapped.
    pub(crate) fn drops(&self, classes: usize, overhead: &Overhead, room: usize) -> Result<EarlyDrops, BpfError> {
        EarlyDrops::new(&self.maps, classes, overhead, room)
    }

    /// The workers' end.
    ///
    /// # Errors
    /// [`BpfError`]: the map cannot be mapped.
    pub(crate) fn relief(&self) -> Result<Relief, BpfError> {
        Ok(Relief { control: self.maps.control.share(HEAD)? })
    }
}

/// The workers' end. They take over while the data thread stands still: it decides nothing then, and fetches nothing.
#[derive(Debug)]
pub(crate) struct Relief {
    control: SharedWords,
}

impl Relief {
    /// Notes that a worker has fetched `count` frames to forward them by itself. No class is dropped for the length of its
    /// queue, until the data thread fetches frames again.
    pub(crate) fn fetched(&self, count: usize) {
        let head = self.control.words();
        head[ANY].store(0, Relaxed);
        let fetched = head[FETCHED].fetch_add(count as u64, Relaxed).saturating_add(count as u64);
        look_for_calm(head, fetched);
    }
}

/// Counts in the `head` of the control map if at most half of the buffer is filled now that `fetched` frames left it.
fn look_for_calm(head: &[AtomicU64], fetched: u64) {
    if head[ADMITTED].load(Relaxed).saturating_sub(fetched) <= head[FREELY].load(Relaxed) {
        head[CALM].fetch_add(1, Relaxed);
    }
}

/// The data thread's end.
#[derive(Debug)]
pub(crate) struct EarlyDrops {
    flows: FlowTable,
    control: SharedWords,
    lengths: SharedWords,
    /// Classes that are dropped now.
    flagged: Vec<ClassId>,
    /// When the drops of unknown flows may end; `None` if they are not dropped.
    unknown_until: Option<Nanos>,
    /// The half of the counters in use.
    half: usize,
    /// Drops of each class that are counted already, and of each class before the last change.
    now: Counted,
    before: Counted,
    /// Drops of unknown flows that are counted already.
    counted_unknown: Amount,
    /// Frames of unknown flows that were dropped.
    unknown: Amount,
    /// The overhead that the program counts with.
    overhead: Overhead,
}

impl EarlyDrops {
    fn new(maps: &Maps, classes: usize, overhead: &Overhead, room: usize) -> Result<Self, BpfError> {
        let drops = Self {
            flows: FlowTable::new(maps.flows.share(SETS * WAYS)?, maps.secret),
            control: maps.control.share(HEAD + COUNTED * WORDS)?,
            lengths: maps.lengths.share(LENGTHS / 2)?,
            flagged: Vec::with_capacity(CLASSES),
            unknown_until: None,
            half: 0,
            now: Counted::for_classes(classes),
            before: Counted::default(),
            counted_unknown: Amount::ZERO,
            unknown: Amount::ZERO,
            overhead: *overhead,
        };
        drops.account();
        let head = drops.control.words();
        head[FREELY].store(room as u64 / 2, Relaxed);
        head[ROOM].store(room as u64, Relaxed);
        Ok(drops)
    }

    /// Gives the program the accounted bytes of frames, two lengths in a word.
    fn account(&self) {
        for (at, word) in self.lengths.words().iter().enumerate() {
            let both = [2 * at, 2 * at + 1].map(|length| self.overhead.accounted(length as u32).to_ne_bytes());
            let &[a, b, c, d, e, f, g, h] = both.as_flattened() else { continue };
            word.store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Relaxed);
        }
    }

    /// Notes that the frame in `bytes` belongs to `class`. Returns true if its flow was known.
    #[inline]
    pub(crate) fn saw(&mut self, now: Nanos, bytes: &[u8], class: ClassId) -> bool {
        class.index() < CLASSES && self.flows.saw(now, bytes, (self.half * CLASSES + class.index()) as u16)
    }

    /// Frames that the program has let into the buffer.
    #[inline]
    pub(crate) fn admitted(&self) -> u64 {
        self.control.words()[ADMITTED].load(Relaxed)
    }

    /// Notes that `count` frames were fetched. If that emptied the buffer, `drained` is what was admitted before.
    #[inline]
    pub(crate) fn fetched(&mut self, count: usize, drained: Option<u64>) {
        let head = self.control.words();
        // Frames that the kernel has dropped behind the program are never fetched. Frames that came before the program was
        // attached were not admitted.
        let fetched = head[FETCHED].load(Relaxed).saturating_add(count as u64);
        let fetched = fetched.max(drained.unwrap_or(0)).min(self.admitted());
        head[FETCHED].store(fetched, Relaxed);
        look_for_calm(head, fetched);
        // Workers may have ended all drops.
        self.set_any();
    }

    fn set(&self, counters: usize, dropped: bool) {
        self.control.words()[HEAD + counters * WORDS + DROPPED].store(u64::from(dropped), Relaxed);
    }

    fn set_any(&self) {
        self.control.words()[ANY].store(u64::from(self.is_dropping()), Relaxed);
    }

    /// Has the kernel drop frames of `class`, until its queue is short.
    pub(crate) fn drop_class(&mut self, class: ClassId) {
        if class.index() < self.now.amounts.len() && !self.flagged.contains(&class) {
            self.flagged.push(class);
            self.set(self.half * CLASSES + class.index(), true);
            self.set_any();
        }
    }

    /// Has the kernel drop frames of unknown flows for a while.
    pub(crate) fn drop_unknown(&mut self, now: Nanos) {
        if self.unknown_until.is_none() {
            self.unknown_until = Some(now.saturating_add(SLICE));
            self.set(UNKNOWN, true);
            self.set_any();
        }
    }

    /// Ends the drops of classes whose queues are no longer long, and of unknown flows. The buffer is drained: while frames
    /// wait, more would only make it overflow.
    pub(crate) fn relax(&mut self, now: Nanos, queues: &QueueLengths) {
        let mut place = 0;
        while let Some(&class) = self.flagged.get(place) {
            match queues.is_half_long(class) {
                true => place += 1,
                false => {
                    self.flagged.swap_remove(place);
                    self.set(self.half * CLASSES + class.index(), false);
                }
            }
        }
        if self.unknown_until.is_some_and(|until| now >= until) {
            self.unknown_until = None;
            self.set(UNKNOWN, false);
        }
        self.set_any();
    }

    /// Returns true if a class or unknown flows are dropped.
    #[inline]
    pub(crate) fn is_dropping(&self) -> bool {
        !self.flagged.is_empty() || self.unknown_until.is_some()
    }

    fn read(&self, counters: usize) -> Amount {
        let word = |word: usize| self.control.words()[HEAD + counters * WORDS + word].load(Relaxed);
        Amount { packets: word(PACKETS), bytes: word(BYTES) }
    }

    /// Counts the drops of all classes since the last call. The program counts by itself, so that this is due before
    /// counters are read, and before classes change.
    pub(crate) fn count_all(&mut self, counters: &mut EdgeCounters) {
        let more = |before: &mut Amount, now: Amount| {
            let before = std::mem::replace(before, now);
            now.checked_sub(before).unwrap_or_default()
        };
        let unknown = self.read(UNKNOWN);
        self.unknown += more(&mut self.counted_unknown, unknown);
        for class in 1..self.now.amounts.len() {
            let read = self.read(self.half * CLASSES + class);
            counters.dropped_early(ClassId(class as u32), more(&mut self.now.amounts[class], read));
        }
        for class in 1..self.before.amounts.len() {
            let read = self.read((1 - self.half) * CLASSES + class);
            let amount = more(&mut self.before.amounts[class], read);
            match self.before.heirs.get(class).copied().flatten() {
                Some(heir) => counters.dropped_early(heir, amount),
                None => self.unknown += amount,
            }
        }
    }

    /// Frames of unknown flows that were dropped.
    pub(crate) fn unknown(&self) -> Amount {
        self.unknown
    }

    /// Continues with other classes: `class_map` maps each old class to its successor. What was dropped before is counted
    /// already. `room` is for the new classes. Does not allocate.
    pub(crate) fn exchange(&mut self, class_map: &[Option<ClassId>], overhead: &Overhead, room: &mut Counted) {
        while let Some(class) = self.flagged.pop() {
            self.set(self.half * CLASSES + class.index(), false);
        }
        self.set_any();
        self.half = 1 - self.half;
        for class in 0..room.amounts.len() {
            room.amounts[class] = self.read(self.half * CLASSES + class);
        }
        self.flows.exchange(class_map, self.half);
        std::mem::swap(&mut self.before, &mut self.now);
        std::mem::swap(&mut self.now, room);
        let heirs = &mut self.before.heirs;
        heirs.clear();
        heirs.extend(class_map.iter().copied().take(heirs.capacity()));
        if self.overhead != *overhead {
            self.overhead = *overhead;
            self.account();
        }
    }
}

/// Drops of classes that are counted already.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    amounts: Vec<Amount>,
    /// Room for the successor of each, once there are others.
    heirs: Vec<Option<ClassId>>,
}

impl Counted {
    /// Room for `classes` classes.
    pub(crate) fn for_classes(classes: usize) -> Self {
        let classes = classes.clamp(1, CLASSES);
        Self { amounts: vec![Amount::ZERO; classes], heirs: Vec::with_capacity(classes) }
    }
}

#[cfg(test)]
mod tests;
