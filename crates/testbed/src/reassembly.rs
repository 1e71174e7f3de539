//! Reassembles datagrams from their fragments, as far as a measurement needs: it tracks which parts have arrived, never
//! their content.
//!
//! A datagram is identified by source, destination, protocol and identification (RFC 791, RFC 8200). It is complete
//! when its last missing fragment arrives. It counts as incomplete if that does not happen within [`TIMEOUT_NS`], if
//! [`MAX_DATAGRAMS`] newer ones have arrived since its first fragment, or at the end of the run. A complete datagram is
//! remembered as long, so that a repeated fragment is refused.
//!
//! Fragments are refused if they are repeated, overlap others, or contradict earlier fragments of the datagram. An
//! overlap invalidates the datagram (RFC 5722), because the correct one of the two is unknown.
//!
//! Frames are never trusted: memory is at most 1.2 kB for each datagram, under 6 MB in all, for any sender.

use std::collections::{BTreeMap, HashMap, VecDeque};

use fairlink_config::matching::{self, FrameKey, IpVersion, UDP, frame_headers};
use fairlink_core::ClassId;
use schemars::JsonSchema;
use serde::Serialize;

use fairlink_net::Stamp;

/// Maximum number of datagrams that are remembered.
pub(crate) const MAX_DATAGRAMS: usize = 4096;
/// Maximum time of a datagram from its first fragment to its last, in ns.
pub(crate) const TIMEOUT_NS: u64 = 10_000_000_000;
/// Longest datagram content, in units of 8 B.
const MAX_UNITS: usize = 1 << 13;
/// Length of a UDP header in bytes.
const UDP_HEADER: usize = 8;

/// Identity of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: [u8; 16],
    destination: [u8; 16],
    version: Option<IpVersion>,
    proto: u8,
    id: u32,
}

/// A fragment in a frame.
#[derive(Clone, Copy, Debug)]
struct Fragment {
    key: Key,
    /// Its units of 8 B in the datagram; the last one may be partial.
    units: (usize, usize),
    more: bool,
    /// Stamp in the first fragment of a generator's datagram.
    stamp: Option<Stamp>,
}

/// Result for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is no fragment.
    Whole,
    /// An accepted fragment; its datagram is incomplete so far.
    Waiting,
    /// A fragment that was refused.
    Refused,
    /// The datagram's last missing fragment.
    Complete(Datagram),
}

/// A finished datagram, complete or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Datagram {
    /// The stamp, if the first fragment arrived and came from a generator.
    pub stamp: Option<Stamp>,
    /// Fragments that were taken.
    pub fragments: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// Counters of one class's fragmented datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ClassDatagrams {
    /// Its name, or its number if it has none.
    pub name: String,
    /// Its number.
    pub class: u32,
    /// Completely received datagrams. They count among the received packets, with the bytes of all their fragments and
    /// the delay of the last.
    pub whole: u64,
    /// Datagrams whose first fragment arrived but another one did not, or whose fragments overlapped. They do not count
    /// among the received packets.
    pub incomplete: u64,
    /// Fragments of both.
    pub fragments: u64,
}

/// Counters of fragmented datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Datagrams {
    /// Per class, in the order of their numbers.
    pub classes: Vec<ClassDatagrams>,
    /// Incomplete datagrams whose first fragment, which has the stamp, did not arrive or is not a generator's.
    pub incomplete_of_unknown_class: u64,
    /// All fragments that came.
    pub fragments: u64,
    /// Refused fragments: repeated, overlapping, or contradicting earlier ones of their datagram.
    pub refused_fragments: u64,
}

/// Datagrams by class, of as many classes as a receiver measures.
#[derive(Debug, Default)]
pub(crate) struct DatagramCounts {
    classes: BTreeMap<ClassId, ClassDatagrams>,
    unknown: u64,
}

impl DatagramCounts {
    /// Counts a datagram as complete or incomplete. Classes that are not measured are left out: numbers that are not in
    /// `names`, if it has any, and classes beyond `limit`.
    pub(crate) fn count(&mut self, datagram: &Datagram, whole: bool, names: &BTreeMap<ClassId, String>, limit: usize) {
        let Some(class) = datagram.stamp.map(|stamp| stamp.class) else {
            self.unknown += u64::from(!whole);
            return;
        };
        let has_room = self.classes.len() < limit || self.classes.contains_key(&class);
        if has_room && (names.is_empty() || names.contains_key(&class)) {
            let counts = self.classes.entry(class).or_default();
            counts.whole += u64::from(whole);
            counts.incomplete += u64::from(!whole);
            counts.fragments += datagram.fragments;
        }
    }

    /// Builds the report, if there were fragments.
    pub(crate) fn report(
        self,
        (fragments, refused_fragments): (u64, u64),
        names: &BTreeMap<ClassId, String>,
    ) -> Option<Datagrams> {
        let named = |(class, counts): (ClassId, ClassDatagrams)| ClassDatagrams {
            name: names.get(&class).cloned().unwrap_or_else(|| class.0.to_string()),
            class: class.0,
            ..counts
        };
        (fragments > 0).then(|| Datagrams {
            classes: self.classes.into_iter().map(named).collect(),
            incomplete_of_unknown_class: self.unknown,
            fragments,
            refused_fragments,
        })
    }
}

/// State of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Fragments overlapped.
    Spoiled,
    Whole,
}

#[derive(Debug)]
struct Pieces {
    state: State,
    first_ns: u64,
    datagram: Datagram,
    /// Units of the whole datagram, after its last fragment has arrived.
    total: Option<usize>,
    /// Received units: their number, the end of the highest one, and a bit for each.
    count: usize,
    reach: usize,
    seen: Box<[u64; MAX_UNITS / 64]>,
}

/// Datagrams under way.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    datagrams: HashMap<Key, Pieces>,
    /// In the order of their first fragments.
    order: VecDeque<Key>,
    fragments: u64,
    refused: u64,
}

impl Reassembly {
    /// Number of received fragments, including refused ones, and of refused ones.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.fragments, self.refused)
    }

    /// Processes a frame of `bytes` bytes that begins with `frame` and arrived at `now_ns`. Passes every datagram that
    /// has become incomplete to `incomplete`.
    pub(crate) fn record(
        &mut self,
        frame: &[u8],
        bytes: u64,
        now_ns: u64,
        mut incomplete: impl FnMut(Datagram),
    ) -> Outcome {
        let headers = frame_headers(frame);
        let Some(fragment) = headers.fragment else { return Outcome::Whole };
        self.fragments += 1;
        let outcome = match Fragment::new(&headers.key, &fragment, frame, bytes) {
            Some(fragment) => {
                self.make_room(&fragment.key, now_ns, &mut incomplete);
                self.take(&fragment, bytes, now_ns)
            }
            None => Outcome::Refused,
        };
        self.refused += u64::from(outcome == Outcome::Refused);
        outcome
    }

    /// Ends the run: passes every incomplete datagram to `incomplete`.
    pub(crate) fn end(&mut self, mut incomplete: impl FnMut(Datagram)) {
        while self.forget_oldest(&mut incomplete) {}
    }

    /// Forgets datagrams that are too old, and the oldest if a new datagram finds no room.
    fn make_room(&mut self, key: &Key, now_ns: u64, incomplete: &mut impl FnMut(Datagram)) {
        let is_old = |pieces: &Pieces| now_ns.saturating_sub(pieces.first_ns) > TIMEOUT_NS;
        while self.order.front().and_then(|oldest| self.datagrams.get(oldest)).is_some_and(is_old) {
            self.forget_oldest(incomplete);
        }
        if self.datagrams.len() >= MAX_DATAGRAMS && !self.datagrams.contains_key(key) {
            self.forget_oldest(incomplete);
        }
    }

    fn forget_oldest(&mut self, incomplete: &mut impl FnMut(Datagram)) -> bool {
        let Some(oldest) = self.order.pop_front() else { return false };
        if let Some(pieces) = self.datagrams.remove(&oldest)
            && pieces.state != State::Whole
        {
            incomplete(pieces.datagram);
        }
        true
    }

    fn take(&mut self, fragment: &Fragment, bytes: u64, now_ns: u64) -> Outcome {
        let order = &mut self.order;
        let pieces = self.datagrams.entry(fragment.key).or_insert_with(|| {
            order.push_back(fragment.key);
            Pieces::new(now_ns)
        });
        pieces.take(fragment, bytes)
    }
}

impl Pieces {
    fn new(first_ns: u64) -> Self {
        let seen = Box::new([0; MAX_UNITS / 64]);
        Self { state: State::Open, first_ns, datagram: Datagram::default(), total: None, count: 0, reach: 0, seen }
    }

    fn take(&mut self, fragment: &Fragment, bytes: u64) -> Outcome {
        let (from, to) = fragment.units;
        if self.state != State::Open {
            return Outcome::Refused;
        }
        let known = (from..to).filter(|&unit| self.has(unit)).count();
        let beyond = self.total.is_some_and(|total| to > total || (!fragment.more && to != total));
        if known == to - from || beyond || (!fragment.more && self.reach > to) {
            // Repeated, or behind the end: the state stays.
            return Outcome::Refused;
        }
        if known > 0 {
            self.state = State::Spoiled;
            return Outcome::Refused;
        }
        for unit in from..to {
            self.seen[unit / 64] |= 1 << (unit % 64);
        }
        self.count += to - from;
        self.reach = self.reach.max(to);
        self.datagram.fragments += 1;
        self.datagram.bytes += bytes;
        self.datagram.stamp = self.datagram.stamp.or(fragment.stamp);
        if !fragment.more {
            self.total = Some(to);
        }
        if self.total != Some(self.count) {
            return Outcome::Waiting;
        }
        self.state = State::Whole;
        Outcome::Complete(self.datagram)
    }

    fn has(&self, unit: usize) -> bool {
        self.seen[unit / 64] & 1 << (unit % 64) != 0
    }
}

impl Fragment {
    /// Parses the fragment in a frame of `bytes` bytes that begins with `frame`; `None` if no datagram can have such a
    /// fragment.
    fn new(key: &FrameKey, header: &matching::Fragment, frame: &[u8], bytes: u64) -> Option<Self> {
        let matching::Fragment { id, proto, offset, more, content, end } = *header;
        let length = end.checked_sub(content).filter(|&length| length > 0)?;
        let from = usize::from(offset);
        let to = from + length.div_ceil(8);
        // Cut by the link, cut in the middle of a unit, or beyond the limit of a datagram.
        if end as u64 > bytes || (more && !length.is_multiple_of(8)) || to > MAX_UNITS {
            return None;
        }
        let key = Key { source: key.src, destination: key.dst, version: key.version, proto, id };
        let payload = frame.get(content + UDP_HEADER..end.min(frame.len()));
        let stamp = payload.filter(|_| from == 0 && proto == UDP).and_then(Stamp::from_bytes);
        Some(Self { key, units: (from, to), more, stamp })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use fairlink_net::{Addresses, FrameTemplate, Headers, MAX_HEADERS};

    /// The frames of a datagram of 15,000 B as far as the receiver keeps them, with their lengths.
    fn datagram(v6: bool, id: u32, sequence: u32) -> Vec<(Vec<u8>, u64)> {
        let mut headers = Headers::udp(5001);
        if v6 {
            headers.addresses = Addresses::V6(Ipv6Addr::from(5), Ipv6Addr::from(6));
        }
        let template = FrameTemplate::new(&headers);
        let stamp = Stamp { run: 1, class: ClassId(3), sequence, monotonic_ns: 100, realtime_us: 0 };
        let mut slots = vec![0; 20 * 1600];
        let mut lengths = Vec::new();
        let cut = template.cut(1500).unwrap();
        template.write_fragments((15_000, cut), id, &stamp, (&mut slots, 1600), |len| lengths.push(len));
        let frames = slots.chunks(1600).zip(lengths);
        frames.map(|(slot, len)| (slot[..len.min(MAX_HEADERS)].to_vec(), len as u64)).collect()
    }

    /// Returns the result of these frames at these times, how often each sequence number was completed, and the
    /// datagrams that ended incomplete.
    fn play<'a>(frames: impl IntoIterator<Item = (&'a (Vec<u8>, u64), u64)>) -> (Reassembly, Vec<u32>, Vec<Datagram>) {
        let (mut reassembly, mut whole, mut incomplete) = (Reassembly::default(), Vec::new(), Vec::new());
        for ((frame, bytes), at) in frames {
            if let Outcome::Complete(datagram) = reassembly.record(frame, *bytes, at, |lost| incomplete.push(lost)) {
                whole.push(datagram.stamp.unwrap().sequence);
            }
        }
        reassembly.end(|lost| incomplete.push(lost));
        (reassembly, whole, incomplete)
    }

    #[test]
    fn a_datagram_is_whole_with_its_last_missing_fragment_whatever_their_order() {
        for v6 in [false, true] {
            let frames = datagram(v6, 9, 7);
            assert_eq!(frames.len(), 11);
            for turn in 0..frames.len() {
                let turned: Vec<_> =
                    frames[turn..].iter().chain(&frames[..turn]).rev().map(|frame| (frame, 0)).collect();
                let (reassembly, whole, incomplete) = play(turned);
                assert_eq!((whole, incomplete, reassembly.counts()), (vec![7], vec![], (11, 0)));
            }
            for missing in 0..frames.len() {
                let rest = frames.iter().enumerate().filter(|(n, _)| *n != missing).map(|(_, frame)| (frame, 0));
                let (_, whole, incomplete) = play(rest);
                assert_eq!((whole.len(), incomplete.len(), incomplete[0].fragments), (0, 1, 10));
                assert_eq!(incomplete[0].stamp.map(|stamp| stamp.class), (missing > 0).then_some(ClassId(3)));
            }
        }
    }

    #[test]
    fn datagrams_are_told_apart_by_identification_version_and_addresses() {
        let sets = [datagram(false, 9, 1), datagram(false, 10, 2), datagram(true, 9, 3), datagram(true, 9 << 16, 4)];
        let mixed = (0..11).flat_map(|n| sets.iter().map(move |set| (&set[n], 0)));
        let (reassembly, whole, incomplete) = play(mixed);
        assert_eq!((whole, incomplete, reassembly.counts()), (vec![1, 2, 3, 4], vec![], (44, 0)));
    }

    #[test]
    fn fragments_that_come_again_are_refused_also_after_the_datagram_was_whole() {
        let frames = datagram(false, 9, 7);
        let twice = frames.iter().flat_map(|frame| [(frame, 0), (frame, 0)]);
        let (reassembly, whole, incomplete) = play(twice);
        assert_eq!((whole, incomplete, reassembly.counts()), (vec![7], vec![], (22, 11)));
    }

    /// The frame with another place in its datagram, IPv4.
    fn moved((frame, bytes): &(Vec<u8>, u64), units: u16, more: bool) -> (Vec<u8>, u64) {
        let mut frame = frame.clone();
        frame[20..22].copy_from_slice(&(units | if more { 0x2000 } else { 0 }).to_be_bytes());
        (frame, *bytes)
    }

    #[test]
    fn overlaps_spoil_a_datagram_and_contradictions_are_refused() {
        let frames = datagram(false, 9, 7);
        // The second fragment once more, a unit further on: over itself and over the third.
        let overlap = moved(&frames[1], 186, true);
        let (reassembly, whole, incomplete) =
            play(frames[..2].iter().chain([&overlap]).chain(&frames[2..]).map(|f| (f, 0)));
        assert_eq!((whole.len(), incomplete.len(), reassembly.counts()), (0, 1, (12, 10)));
        // Beyond the end given by the last fragment; another end; an end before bytes that have arrived.
        for stranger in [moved(&frames[1], 4000, true), moved(&frames[1], 4000, false), moved(&frames[10], 200, false)]
        {
            let (reassembly, whole, incomplete) =
                play(frames[10..].iter().chain([&stranger]).chain(&frames[..10]).map(|f| (f, 0)));
            assert_eq!((whole, incomplete, reassembly.counts()), (vec![7], vec![], (12, 1)));
        }
        let early_end = moved(&frames[1], 100, false);
        let (reassembly, whole, _) = play([&frames[2], &early_end].map(|frame| (frame, 0)));
        assert_eq!((whole.len(), reassembly.counts()), (0, (2, 1)));
        // Longer than the frame that it came in, no whole units, and beyond 65,535 B.
        let cut = (frames[1].0.clone(), frames[1].1 - 1);
        let mut odd = frames[1].clone();
        odd.0[16..18].copy_from_slice(&1499u16.to_be_bytes());
        let (reassembly, whole, incomplete) =
            play([&cut, &odd, &moved(&frames[1], 8191, true)].map(|frame| (frame, 0)));
        assert_eq!((whole.len(), incomplete.len(), reassembly.counts()), (0, 0, (3, 3)));
    }

    #[test]
    fn time_and_memory_are_bounded_whatever_comes() {
        let frames = datagram(false, 9, 7);
        let late = frames.iter().enumerate().map(|(n, frame)| (frame, if n < 10 { 0 } else { TIMEOUT_NS + 1 }));
        let (_, whole, incomplete) = play(late);
        // The last fragment begins a datagram of its own.
        assert_eq!((whole.len(), incomplete.iter().map(|lost| lost.fragments).collect::<Vec<_>>()), (0, vec![10, 1]));
        let mut reassembly = Reassembly::default();
        let mut lost = 0;
        for id in 0..20_000 {
            let frame = &datagram(true, id, 0)[0];
            reassembly.record(&frame.0, frame.1, 0, |_| lost += 1);
        }
        assert_eq!(
            (reassembly.datagrams.len(), reassembly.order.len(), lost),
            (MAX_DATAGRAMS, MAX_DATAGRAMS, 20_000 - MAX_DATAGRAMS)
        );
        let each = size_of::<Key>() * 2 + size_of::<Pieces>() + MAX_UNITS / 8;
        assert!(each < 1300 && each * MAX_DATAGRAMS < 6_000_000, "{each}");
    }

    #[test]
    fn frames_cut_or_damaged_anywhere_are_refused_or_wait_and_never_panic() {
        for v6 in [false, true] {
            for (frame, bytes) in datagram(v6, 9, 7) {
                let mut reassembly = Reassembly::default();
                for len in 0..frame.len() {
                    reassembly.record(&frame[..len], bytes, 0, |_| ());
                }
                for at in 0..frame.len() {
                    for with in [0, 0x20, 0x80, 0xff] {
                        let mut damaged = frame.clone();
                        damaged[at] = with;
                        reassembly.record(&damaged, bytes, 0, |_| ());
                    }
                }
                assert!(reassembly.datagrams.len() <= MAX_DATAGRAMS);
            }
        }
    }
}
