//! Splits super-frames into their packets, a few in each turn, so that the work for one class does not hold up another.
//!
//! A super-frame may have two thousand packets. Each class with super-frames has a line. The packets of its super-frames
//! and the frames of the class that came after them leave it in order. In each turn, each line gives at most
//! [`OF_CLASS`] packets, and all together at most [`OF_TURN`], in rotation. Frames of a class without a line pass by.
//!
//! Packets that follow each other in a super-frame may leave as one piece: a chain of frames of the pool that is
//! scheduled as one. It takes less work than its packets one by one, so [`OF_PIECE`] of its packets count as one. A piece
//! is never cut at the end of a turn.
//!
//! Buffers are given by a dynamic threshold (Choudhury and Hahne, 1998): a class may have as many as are free. So one
//! class gets at most half of them, two a third each, and so on.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use fairlink_core::{ClassId, Nanos, Packet};
use fairlink_report::DropCause;

use crate::io::backend::{BATCH, LONGEST_SUPER_FRAME};
use crate::io::frame_pool::{FrameInfo, FramePool, HEADROOM};
use crate::wire::segments::{Origin, Segments};

/// Super-frames that are being split, at most.
pub(crate) const BUFFERS: usize = 64;
/// Frames behind them, at most.
pub(crate) const FOLLOWERS: usize = 4 * BATCH;
/// Packets that one class gets in a turn, at most.
pub(crate) const OF_CLASS: usize = BATCH;
/// Packets of all classes in a turn, at most.
pub(crate) const OF_TURN: usize = 4 * BATCH;
/// Packets of a piece that count as one in a turn: each is written, and all are scheduled and sent as one.
pub(crate) const OF_PIECE: usize = 4;
/// Packets in a piece, at most.
pub(crate) const MOST_IN_PIECE: usize = 64;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// A super-frame on its way into the queue of its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuperFrame {
    pub(crate) class: ClassId,
    /// Upper half of the handles of its packets.
    pub(crate) label: u64,
    pub(crate) segments: Segments,
    pub(crate) len: usize,
    pub(crate) received: Nanos,
    /// Hash of its flow.
    flow: u32,
    number: NonZeroU32,
    /// The next packet.
    next: usize,
}

impl SuperFrame {
    pub(crate) fn new(class: ClassId, label: u64, segments: Segments, len: usize, received: Nanos) -> Self {
        Self { class, label, segments, len, received, flow: 0, number: NonZeroU32::MIN, next: 0 }
    }

    /// With the hash of its flow.
    pub(crate) fn of_flow(self, flow: u32) -> Self {
        Self { flow, ..self }
    }

    /// Numbers of the packets that are left.
    pub(crate) fn left(&self) -> std::ops::Range<usize> {
        self.next..self.segments.count()
    }
}

#[derive(Debug)]
enum Entry {
    /// The super-frame in this buffer.
    Super(u32),
    /// A frame behind one.
    Frame(Packet),
}

#[derive(Debug)]
struct Node {
    /// `None` if the node is free.
    entry: Option<Entry>,
    next: u32,
}

/// The entries of a class, from `head` to `tail`, and the super-frames among them.
#[derive(Clone, Copy, Debug)]
struct Line {
    head: u32,
    tail: u32,
    supers: u32,
}

impl Line {
    const EMPTY: Self = Self { head: NONE, tail: NONE, supers: 0 };
}

/// Results of a turn for a line.
pub(crate) enum Out {
    /// A packet for the scheduler, in a frame of the pool; or a piece of this number of packets, in a chain of frames. The
    /// length is that of the first on the wire.
    Packet(Packet, u32),
    /// A super-frame whose remaining packets are dropped for this cause.
    Dropped(SuperFrame, DropCause),
}

/// Super-frames that were split, as far as their class's queue had room, and their packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Splits {
    pub(crate) frames: u64,
    pub(crate) packets: u64,
}

/// See the module. It allocates nothing after construction.
#[derive(Debug)]
pub(crate) struct Splitter {
    buffers: Vec<u8>,
    supers: Vec<Option<SuperFrame>>,
    free: Vec<u32>,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    lines: Vec<Line>,
    /// Classes with entries, the next one in front.
    active: VecDeque<ClassId>,
    /// Frames of the pool in the lines.
    frames: usize,
    /// Number of the last super-frame.
    last: NonZeroU32,
    splits: Splits,
}

impl Splitter {
    /// Creates a splitter for `classes` classes.
    pub(crate) fn new(classes: usize) -> Self {
        let nodes = BUFFERS + FOLLOWERS;
        Self {
            buffers: vec![0; BUFFERS * LONGEST_SUPER_FRAME],
            supers: vec![None; BUFFERS],
            free: (0..BUFFERS as u32).rev().collect(),
            nodes: (0..nodes).map(|_| Node { entry: None, next: NONE }).collect(),
            free_nodes: (0..nodes as u32).rev().collect(),
            lines: vec![Line::EMPTY; classes],
            active: VecDeque::with_capacity(classes.min(nodes)),
            frames: 0,
            last: NonZeroU32::MIN,
            splits: Splits::default(),
        }
    }

    /// Creates one for `classes` classes that will take over another ([`Splitter::inherit`]), with its buffers.
    pub(crate) fn to_inherit(classes: usize) -> Self {
        Self {
            buffers: Vec::new(),
            supers: Vec::new(),
            free: Vec::new(),
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            lines: vec![Line::EMPTY; classes],
            active: VecDeque::with_capacity(classes.min(BUFFERS + FOLLOWERS)),
            frames: 0,
            last: NonZeroU32::MIN,
            splits: Splits::default(),
        }
    }

    /// Memory in bytes; it never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffers.capacity()
            + size_of_val(&self.supers[..])
            + size_of_val(&self.nodes[..])
            + size_of_val(&self.lines[..])
            + (self.free.capacity() + self.free_nodes.capacity() + self.active.capacity()) * size_of::<u32>()
    }

    pub(crate) fn splits(&self) -> Splits {
        self.splits
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Frames of the pool that wait behind super-frames.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Returns true if frames of `class` have to wait behind a super-frame.
    #[inline]
    pub(crate) fn is_waiting(&self, class: ClassId) -> bool {
        self.lines[class.index()].head != NONE
    }

    /// Returns a buffer for a super-frame of `class`; `None` if the class has as many as are free.
    pub(crate) fn buffer(&mut self, class: ClassId) -> Option<&mut [u8]> {
        let &number = self.free.last()?;
        if self.lines[class.index()].supers as usize >= self.free.len() || self.free_nodes.is_empty() {
            return None;
        }
        let start = number as usize * LONGEST_SUPER_FRAME;
        Some(&mut self.buffers[start..start + LONGEST_SUPER_FRAME])
    }

    /// Puts the super-frame that was copied to [`Splitter::buffer`] into the line of its class.
    ///
    /// # Panics
    /// If there is no buffer.
    pub(crate) fn push(&mut self, frame: SuperFrame) {
        let number = self.free.pop().expect("a buffer that was given");
        self.last = self.last.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.supers[number as usize] = Some(SuperFrame { number: self.last, ..frame });
        self.lines[frame.class.index()].supers += 1;
        self.append(frame.class, Entry::Super(number));
        self.splits.frames += 1;
    }

    /// Puts a frame into the line of its class. Returns false if there is no room for it.
    pub(crate) fn follow(&mut self, packet: Packet) -> bool {
        // A node for each buffer stays free.
        if self.free_nodes.len() <= self.free.len() {
            return false;
        }
        self.append(packet.class, Entry::Frame(packet));
        self.frames += 1;
        true
    }

    fn append(&mut self, class: ClassId, entry: Entry) {
        let node = self.free_nodes.pop().expect("a free node");
        self.nodes[node as usize] = Node { entry: Some(entry), next: NONE };
        let line = &mut self.lines[class.index()];
        match line.tail {
            NONE => {
                line.head = node;
                self.active.push_back(class);
            }
            tail => self.nodes[tail as usize].next = node,
        }
        self.lines[class.index()].tail = node;
    }

    /// The buffer of the super-frame in front of the line of `class`; `None` if there is a frame.
    fn front(&self, class: ClassId) -> Option<u32> {
        match self.nodes[self.lines[class.index()].head as usize].entry {
            Some(Entry::Super(number)) => Some(number),
            _ => None,
        }
    }

    /// Takes the entry in front out of the line of `class`, which has one. Returns the frame if it is one.
    fn pop(&mut self, class: ClassId) -> Option<Packet> {
        let line = &mut self.lines[class.index()];
        let node = line.head;
        let Node { entry, next } = &mut self.nodes[node as usize];
        line.head = *next;
        if line.head == NONE {
            line.tail = NONE;
        }
        self.free_nodes.push(node);
        match entry.take()? {
            Entry::Super(number) => {
                line.supers -= 1;
                self.supers[number as usize] = None;
                self.free.push(number);
                None
            }
            Entry::Frame(packet) => {
                self.frames -= 1;
                Some(packet)
            }
        }
    }

    /// Gives the packets of one turn to `out`, at most `most`, and the bytes of a super-frame that is dropped. `drops`
    /// returns the cause for which the packets that are left of a super-frame of this class shall be dropped, if there is
    /// one; `piece` the number of its next packets that are scheduled as one, from 1 to [`MOST_IN_PIECE`]. All get `context`.
    /// It ends early if the pool has no more frames.
    pub(crate) fn turn<T>(
        &mut self,
        pool: &mut FramePool,
        most: usize,
        context: &mut T,
        drops: impl Fn(&T, ClassId) -> Option<DropCause>,
        piece: impl Fn(&T, &SuperFrame) -> usize,
        out: impl Fn(&mut T, &mut FramePool, Out, &[u8]),
    ) {
        let mut left = most;
        for _ in 0..self.active.len() {
            let Some(class) = self.active.pop_front() else { break };
            let part = OF_CLASS.min(left);
            let mut of_class = part;
            while of_class > 0 && self.is_waiting(class) {
                let Some(number) = self.front(class) else {
                    if let Some(packet) = self.pop(class) {
                        out(context, pool, Out::Packet(packet, 1), &[]);
                    }
                    of_class -= 1;
                    continue;
                };
                let start = number as usize * LONGEST_SUPER_FRAME;
                let frame = self.supers[number as usize].as_mut().expect("a super-frame in its buffer");
                let bytes = &self.buffers[start..start + frame.len];
                if let Some(cause) = drops(context, class) {
                    out(context, pool, Out::Dropped(*frame, cause), bytes);
                    self.pop(class);
                    continue;
                }
                let count = piece(context, frame).clamp(1, MOST_IN_PIECE).min(frame.left().len());
                if count.div_ceil(OF_PIECE) > of_class {
                    // It waits for a turn that has room for all of it.
                    break;
                }
                let Some((packet, count)) = frame.write(pool, bytes, count) else {
                    self.active.push_front(class);
                    return;
                };
                self.splits.packets += u64::from(count);
                let is_done = frame.left().is_empty();
                out(context, pool, Out::Packet(packet, count), &[]);
                if is_done {
                    self.pop(class);
                }
                of_class -= (count as usize).div_ceil(OF_PIECE);
            }
            left -= part - of_class;
            if !self.is_waiting(class) {
                continue;
            }
            if part == of_class {
                // The turn has too little room for its next piece: it is the first in the next turn.
                self.active.push_front(class);
                return;
            }
            self.active.push_back(class);
            if left == 0 {
                return;
            }
        }
    }

    /// Takes over the lines of `old`; `class_map` maps old classes to new ones. `place` returns the class and the label for
    /// the bytes of a frame whose class has this successor, or none.
    pub(crate) fn inherit(
        &mut self,
        old: &mut Self,
        pool: &FramePool,
        class_map: &[Option<ClassId>],
        mut place: impl FnMut(Option<ClassId>, &[u8]) -> (ClassId, u64),
    ) {
        std::mem::swap(&mut self.buffers, &mut old.buffers);
        std::mem::swap(&mut self.supers, &mut old.supers);
        std::mem::swap(&mut self.free, &mut old.free);
        std::mem::swap(&mut self.nodes, &mut old.nodes);
        std::mem::swap(&mut self.free_nodes, &mut old.free_nodes);
        (self.splits, self.last) = (old.splits, old.last);
        while let Some(class) = old.active.pop_front() {
            let mut node = std::mem::replace(&mut old.lines[class.index()], Line::EMPTY).head;
            let heir = class_map.get(class.index()).copied().flatten();
            while node != NONE {
                let Node { entry, next } = &mut self.nodes[node as usize];
                let entry = entry.take();
                self.free_nodes.push(std::mem::replace(&mut node, *next));
                match entry {
                    None => {}
                    Some(Entry::Frame(mut packet)) => {
                        let frame = packet.handle as u32;
                        let (class, label) = place(heir, pool.packet(frame));
                        (packet.class, packet.handle) = (class, u64::from(frame) | label);
                        self.append(class, Entry::Frame(packet));
                        self.frames += 1;
                    }
                    Some(Entry::Super(number)) => {
                        let start = number as usize * LONGEST_SUPER_FRAME;
                        let frame = self.supers[number as usize].as_mut().expect("a super-frame in its buffer");
                        let (class, label) = place(heir, &self.buffers[start..start + frame.len]);
                        (frame.class, frame.label) = (class, label);
                        self.lines[class.index()].supers += 1;
                        self.append(class, Entry::Super(number));
                    }
                }
            }
        }
        old.frames = 0;
    }

    /// Empties all lines for `cause`: gives the super-frames to `out`, with their bytes, and the frames behind them, each
    /// as a packet.
    pub(crate) fn clear(&mut self, cause: DropCause, mut out: impl FnMut(Out, &[u8])) {
        while let Some(class) = self.active.pop_front() {
            while self.is_waiting(class) {
                if let Some(number) = self.front(class) {
                    let start = number as usize * LONGEST_SUPER_FRAME;
                    let frame = self.supers[number as usize].expect("a super-frame in its buffer");
                    out(Out::Dropped(frame, cause), &self.buffers[start..start + frame.len]);
                }
                if let Some(packet) = self.pop(class) {
                    out(Out::Packet(packet, 1), &[]);
                }
            }
        }
    }
}

impl SuperFrame {
    /// Writes its next packets, at most `most`, into a chain of frames of the pool, as many as are free. Returns the
    /// first and their number; `None` if no frame is free.
    pub(crate) fn write(&mut self, pool: &mut FramePool, bytes: &[u8], most: usize) -> Option<(Packet, u32)> {
        let first = pool.take()?;
        let len = self.write_next(pool, first, bytes);
        let (mut last, mut count) = (first, 1);
        while count < most
            && let Some(place) = pool.take()
        {
            self.write_next(pool, place, bytes);
            pool.chain(last, place);
            last = place;
            count += 1;
        }
        Some((Packet { handle: u64::from(first) | self.label, len, class: self.class }, count as u32))
    }

    /// Writes the next packet into frame `place` of the pool. Returns its length.
    fn write_next(&mut self, pool: &mut FramePool, place: u32, bytes: &[u8]) -> u32 {
        let len = self.segments.write(bytes, self.next, &mut pool.frame_mut(place)[HEADROOM..]) as u32;
        let unfinished = self.segments.unfinished();
        let origin = unfinished.map(|_| Origin::new(self.number, self.next as u16));
        pool.set_info(
            place,
            FrameInfo { start: HEADROOM as u32, len, received: self.received, unfinished, origin, flow: self.flow },
        );
        self.next += 1;
        len
    }
}

#[cfg(test)]
mod tests;
