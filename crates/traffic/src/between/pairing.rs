//! Packets of two recordings, paired in order of time.
//!
//! Packets stay in two queues for the longest delay after their time. Then a packet of the first recording is found or
//! lost, and one of the second is counted, in the order of the second recording. So reordering and jitter are those
//! behind the device.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::spread::Spread;
use super::{Between, BetweenConfig, BetweenError, MAX_SPREADS, MAX_WAITING, Passage};

/// No packet.
const NONE: u64 = u64::MAX;

/// A packet of the first recording.
#[derive(Clone, Copy, Debug)]
struct Before {
    content: u128,
    at: u64,
    /// When it was recorded behind the device, by that clock; [`NONE`] while it was not.
    received: u64,
    class: u32,
    /// The next equal packet that is not found either.
    next: u64,
}

/// The classification of a packet of the second recording.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Not in the first recording, so far.
    Alone,
    /// A packet of this number in the first recording.
    Found { number: u64, class: u32, delay_ns: i64 },
    /// Another copy of a packet of this class.
    Copy { class: u32 },
}

/// A packet of the second recording.
#[derive(Clone, Copy, Debug)]
struct After {
    content: u128,
    /// By the first clock.
    at: i128,
    received: u64,
    kind: Kind,
    /// The next equal packet that is alone.
    next: u64,
}

/// Equal packets in both queues.
#[derive(Clone, Copy, Debug)]
struct Equal {
    /// Packets in the first and in the second queue.
    count: [u32; 2],
    /// First and last of those that wait for their other half, in each queue.
    waiting: [(u64, u64); 2],
    /// Class of the last one found, and true if its delay was negative.
    found: Option<(u32, bool)>,
}

/// A queue of packets by their numbers.
#[derive(Debug)]
struct Queue<T> {
    packets: VecDeque<T>,
    /// Number of the first.
    first: u64,
}

impl<T> Queue<T> {
    fn new() -> Self {
        Self { packets: VecDeque::new(), first: 0 }
    }

    fn push(&mut self, packet: T) -> u64 {
        self.packets.push_back(packet);
        self.first + self.packets.len() as u64 - 1
    }

    fn get(&mut self, number: u64) -> Option<&mut T> {
        self.packets.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn pop_if(&mut self, is_over: impl FnOnce(&T) -> bool) -> Option<T> {
        let packet = self.packets.pop_front_if(|packet| is_over(packet))?;
        self.first += 1;
        Some(packet)
    }
}

/// Counts of one class.
#[derive(Debug)]
struct Class {
    passage: Passage,
    delays: Spread,
    /// One more than the highest number found so far behind the device.
    expected: u64,
}

/// Both recordings, as far as they have been read.
pub(super) struct Pairing<F> {
    within: i128,
    pair: F,
    before: Queue<Before>,
    after: Queue<After>,
    equal: HashMap<u128, Equal>,
    classes: BTreeMap<u32, Class>,
    total: Class,
    report: Between,
    /// Time of the first packet before the device, and of the last behind it, by the first clock.
    start: Option<i128>,
    end: Option<i128>,
    /// True if the last one is known to be final.
    ended: bool,
}

impl<E: From<BetweenError>, F: FnMut(u64, u64) -> Result<(), E>> Pairing<F> {
    pub(super) fn new(config: BetweenConfig, pair: F) -> Self {
        let total = Class { passage: Passage::default(), delays: Spread::new(true), expected: 0 };
        Self {
            within: config.within.0.into(),
            pair,
            before: Queue::new(),
            after: Queue::new(),
            equal: HashMap::new(),
            classes: BTreeMap::new(),
            total,
            report: Between::default(),
            start: None,
            end: None,
            ended: false,
        }
    }

    /// Adds a packet of the first recording. Returns true if there was room for it.
    pub(super) fn before(&mut self, content: u128, at: u64, class: u32) -> Result<bool, E> {
        self.expire(at.into())?;
        if self.before.packets.len() >= MAX_WAITING {
            return Ok(false);
        }
        self.start.get_or_insert(at.into());
        let with_percentiles = self.classes.len() < MAX_SPREADS;
        let new = || Class { passage: Passage::default(), delays: Spread::new(with_percentiles), expected: 0 };
        let number = self.before.push(Before { content, at, received: NONE, class, next: NONE });
        let equal = Equal::of(&mut self.equal, content);
        for class in [&mut self.total, self.classes.entry(class).or_insert_with(new)] {
            class.passage.packets += 1;
            class.passage.equal += u64::from(equal.count[0] > 0);
        }
        equal.count[0] += 1;
        let (alone, _) = equal.waiting[1];
        if alone == NONE {
            equal.wait(0, number, |last| self.before.get(last).map(|packet| &mut packet.next));
        } else {
            self.join(content, number, alone);
        }
        Ok(true)
    }

    /// Adds a packet of the second recording: its time by the first clock, and as recorded. Returns true if there was
    /// room for it.
    pub(super) fn after(&mut self, content: u128, (at, received): (i128, u64)) -> Result<bool, E> {
        self.expire(at)?;
        if self.after.packets.len() >= MAX_WAITING {
            return Ok(false);
        }
        self.report.after_packets += 1;
        self.end = Some(at);
        let number = self.after.push(After { content, at, received, kind: Kind::Alone, next: NONE });
        let equal = Equal::of(&mut self.equal, content);
        equal.count[1] += 1;
        let (waiting, _) = equal.waiting[0];
        match equal.found {
            _ if waiting != NONE => self.join(content, waiting, number),
            // If the clocks disagree, the matching packet may still come.
            Some((class, false)) => {
                if let Some(packet) = self.after.get(number) {
                    packet.kind = Kind::Copy { class };
                }
            }
            _ => equal.wait(1, number, |last| self.after.get(last).map(|packet| &mut packet.next)),
        }
        Ok(true)
    }

    /// Pairs packet `number` of the first recording with packet `other` of the second; each is the first waiting one of
    /// its content, or does not wait.
    fn join(&mut self, content: u128, number: u64, other: u64) {
        let Some(equal) = self.equal.get_mut(&content) else { return };
        let (Some(before), Some(after)) = (self.before.get(number), self.after.get(other)) else { return };
        before.received = after.received;
        // Within the longest delay, which 64 bits hold.
        let delay_ns = (after.at - i128::from(before.at)) as i64;
        after.kind = Kind::Found { number, class: before.class, delay_ns };
        equal.found = Some((before.class, delay_ns < 0));
        equal.take(0, number, before.next);
        equal.take(1, other, after.next);
    }

    /// Records that the second recording has no more packets.
    pub(super) fn after_ended(&mut self) {
        self.ended = true;
    }

    /// Removes all packets that are older than the longest delay at `now`, by the first clock.
    fn expire(&mut self, now: i128) -> Result<(), E> {
        let within = self.within;
        while let Some(packet) = self.before.pop_if(|packet| i128::from(packet.at) + within < now) {
            self.settle_before(packet)?;
        }
        while let Some(packet) = self.after.pop_if(|packet| packet.at + within < now) {
            self.settle_after(packet);
        }
        Ok(())
    }

    fn settle_before(&mut self, packet: Before) -> Result<(), E> {
        let number = self.before.first - 1;
        Equal::leave(&mut self.equal, packet.content, 0, (number, packet.next));
        let beyond = self.ended && self.end.is_none_or(|end| end < packet.at.into());
        let lost = packet.received == NONE;
        for class in [Some(&mut self.total), self.classes.get_mut(&packet.class)].into_iter().flatten() {
            let passage = &mut class.passage;
            passage.found += u64::from(!lost);
            passage.lost += u64::from(lost);
            passage.lost_after_the_end += u64::from(lost && beyond);
        }
        if lost { Ok(()) } else { (self.pair)(packet.at, packet.received) }
    }

    fn settle_after(&mut self, packet: After) {
        let number = self.after.first - 1;
        Equal::leave(&mut self.equal, packet.content, 1, (number, packet.next));
        match packet.kind {
            Kind::Alone => {
                self.report.only_after += 1;
                let early = self.start.is_none_or(|start| packet.at < start);
                self.report.only_after_from_before_the_start += u64::from(early);
            }
            Kind::Copy { class } => {
                self.total.passage.doubled += 1;
                if let Some(class) = self.classes.get_mut(&class) {
                    class.passage.doubled += 1;
                }
            }
            Kind::Found { number, class, delay_ns } => {
                for class in [Some(&mut self.total), self.classes.get_mut(&class)].into_iter().flatten() {
                    class.passage.negative += u64::from(delay_ns < 0);
                    class.passage.out_of_order += u64::from(number < class.expected);
                    class.expected = class.expected.max(number + 1);
                    class.delays.record(delay_ns);
                }
            }
        }
    }

    /// Ends both recordings.
    pub(super) fn end(mut self) -> Result<Between, E> {
        self.ended = true;
        self.expire(i128::MAX)?;
        let passage = |class: &Class| Passage { delay: class.delays.report(), ..class.passage };
        let classes = self.classes.iter().map(|(&number, class)| (number, passage(class))).collect();
        Ok(Between { classes, total: passage(&self.total), ..self.report })
    }
}

impl Equal {
    fn of(all: &mut HashMap<u128, Self>, content: u128) -> &mut Self {
        all.entry(content).or_insert(Self { count: [0; 2], waiting: [(NONE, NONE); 2], found: None })
    }

    /// Makes packet `number` of a queue wait, behind the last waiting one. `next` returns the link field of that one.
    fn wait<'a>(&mut self, side: usize, number: u64, next: impl FnOnce(u64) -> Option<&'a mut u64>) {
        let (first, last) = &mut self.waiting[side];
        if *first == NONE {
            *first = number;
        } else if let Some(next) = next(*last) {
            *next = number;
        }
        *last = number;
    }

    /// Removes packet `number` of a queue from the waiting ones, if it waits. `next` waits behind it.
    fn take(&mut self, side: usize, number: u64, next: u64) {
        if self.waiting[side].0 == number {
            self.waiting[side].0 = next;
        }
    }

    /// Removes packet `number`, the first of a queue.
    fn leave(all: &mut HashMap<u128, Self>, content: u128, side: usize, (number, next): (u64, u64)) {
        let Some(equal) = all.get_mut(&content) else { return };
        equal.take(side, number, next);
        equal.count[side] -= 1;
        if equal.count == [0; 2] {
            all.remove(&content);
        }
    }
}
