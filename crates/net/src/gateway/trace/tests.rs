//! Both ends of a trace, without a gateway.

use fairlink_core::{ClassId, Nanos};

use super::record::SHORT_WORDS;
use super::*;
use fairlink_report::DropCause;

const FRAMES: usize = 8;

/// Both ends, with room for `words` words besides the reserve.
fn ends(words: u64, snap: u32) -> (TraceWriter, TraceReader) {
    let ring = Arc::new(Ring::new(words + SHORT_WORDS * FRAMES as u64));
    (TraceWriter::new(Arc::clone(&ring), FRAMES, 0, snap), TraceReader::new(ring))
}

fn items(bytes: &[u8]) -> Vec<Item> {
    let (mut at, mut all) = (0, Vec::new());
    while let Some((item, length)) = decode(&bytes[at..]).unwrap() {
        all.push(item);
        at += length;
    }
    assert_eq!(at, bytes.len(), "whole records");
    all
}

/// A packet of `len` bytes that identify it.
fn bytes(which: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (which * 31 + at) as u8).collect()
}

fn packet(bytes: &[u8], received: u64) -> Passing<'_> {
    let len = bytes.len() as u32;
    Passing { class: ClassId(3), len, accounted: len + 24, received: Nanos(received), bytes }
}

/// A simple random generator.
struct SeededRng(u64);

impl SeededRng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn every_number_comes_out_once_with_its_packet_or_as_missed_however_little_room_there_is() {
    for (seed, words) in (0..60).zip([0, 16, 64, 500, 100_000].into_iter().cycle()) {
        let (mut tap, mut feed) = ends(words, 40);
        let mut dice = SeededRng(seed);
        let (mut taken, mut came, mut read) = (Vec::new(), 0, Vec::new());
        for _ in 0..2000 {
            match dice.below(5) {
                0 | 1 if taken.len() < FRAMES => {
                    let frame = (0..FRAMES as u32).find(|frame| !taken.iter().any(|&(used, _)| used == *frame));
                    let frame = frame.unwrap();
                    tap.came(frame);
                    taken.push((frame, came));
                    came += 1;
                }
                2 | 3 if !taken.is_empty() => {
                    let (frame, which) = taken.swap_remove(dice.below(taken.len() as u64) as usize);
                    let bytes = bytes(which, which as usize % 60);
                    tap.gone(frame, packet(&bytes, which), Gone::Sent(Nanos(which + 5)));
                }
                _ => while dice.below(3) == 0 && feed.read(&mut read, 128) {},
            }
        }
        let under_way = taken.len() as u64;
        drop(tap);
        while feed.read(&mut read, 128) {}
        assert!(feed.is_over());
        let (mut numbers, mut seen, mut missed_numbers) = (Vec::new(), 0, 0);
        let items = items(&read);
        let (last, items) = items.split_last().unwrap();
        for item in items {
            match item {
                Item::Packet(Traced { number, arrived, len, accounted, class, bytes: kept, fate }) => {
                    let which = arrived.0;
                    let whole = bytes(which, which as usize % 60);
                    assert_eq!(kept[..], whole[..whole.len().min(40)]);
                    assert_eq!((*len as usize, *accounted, *class), (whole.len(), *len + 24, ClassId(3)));
                    assert!(matches!(fate, Fate::Sent { done, .. } if done.0 == which + 5));
                    numbers.push(*number);
                    seen += 1;
                }
                Item::Missed { number } => {
                    numbers.push(*number);
                    missed_numbers += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        let Item::End { missed, unfinished } = *last else { panic!("{last:?}") };
        assert_eq!(seen + missed + unfinished, came, "seed {seed}");
        assert!(unfinished <= under_way && missed >= missed_numbers);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len() as u64, seen + missed_numbers, "each number once");
        // Without gaps, except packets in the gateway at the end.
        assert!(numbers.last().is_none_or(|&last| last < numbers.len() as u64 + unfinished));
        assert_eq!(words == 100_000, missed == 0, "seed {seed}: {missed}");
    }
}

#[test]
fn records_cross_threads_whole_and_in_order() {
    let (mut tap, mut feed) = ends(1 << 10, u32::MAX);
    let total = 50_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for which in 0..total {
                let bytes = bytes(which, which as usize % 100);
                tap.came(0);
                tap.left(0, Nanos(which + 1));
                tap.gone(0, packet(&bytes, which), Gone::Sent(Nanos(which + 2)));
            }
        });
        let (mut read, mut next, mut missing) = (Vec::new(), 0, 0);
        while !feed.is_over() {
            feed.read(&mut read, 4096);
            let (mut at, mut end) = (0, false);
            while let Some((item, length)) = decode(&read[at..]).unwrap() {
                at += length;
                match item {
                    Item::Packet(packet) => {
                        assert_eq!(packet.number, next);
                        let which = packet.arrived.0;
                        assert_eq!(packet.bytes, bytes(which, which as usize % 100));
                        let fate = Fate::Sent { start: Nanos(which + 1), done: Nanos(which + 2) };
                        assert_eq!(packet.fate, fate);
                        next += 1;
                    }
                    Item::Missed { number } => {
                        assert_eq!(number, next);
                        (next, missing) = (next + 1, missing + 1);
                    }
                    Item::End { missed, unfinished } => {
                        assert_eq!((next - missing + missed, unfinished), (total, 0));
                        end = true;
                    }
                    Item::Begin => panic!("unexpected beginning"),
                }
            }
            assert_eq!(end, feed.is_over());
            read.drain(..at);
        }
    });
}

#[test]
fn a_trace_that_nobody_wants_any_more_waits_a_second_for_packets_under_way_and_takes_no_new_ones() {
    let (mut tap, feed) = ends(1 << 10, 0);
    tap.came(0);
    tap.came(1);
    assert!(!tap.is_over(Nanos(5)));
    drop(feed);
    assert!(!tap.is_over(Nanos(10)));
    tap.came(2);
    tap.gone(0, packet(&[], 0), Gone::Queued);
    assert!(!tap.is_over(Nanos(1_000_000_009)));
    assert!(tap.is_over(Nanos(1_000_000_010)));
    tap.gone(1, packet(&[], 0), Gone::Queued);
    assert!(tap.is_over(Nanos(11)), "all that were under way have ended");
}

#[test]
fn records_are_recognised_only_whole_and_nonsense_is_refused() {
    let (mut tap, mut feed) = ends(1 << 10, u32::MAX);
    tap.start(1_000);
    tap.came(4);
    tap.gone(4, packet(&[7; 13], 1), Gone::Dropped(Nanos(9), DropCause::Shed));
    drop(tap);
    let mut read = Vec::new();
    while feed.read(&mut read, 4096) {}
    let all = items(&read);
    let Item::Packet(packet) = &all[1] else { panic!("{all:?}") };
    assert_eq!((packet.arrived, packet.bytes.len()), (Nanos(1_001), 13));
    assert_eq!(packet.fate, Fate::Dropped { at: Nanos(1_009), reason: "shed" });
    assert_eq!((&all[0], &all[2]), (&Item::Begin, &Item::End { missed: 0, unfinished: 0 }));
    for end in 0..read.len() {
        let mut part = &read[..end];
        while let Some((_, length)) = decode(part).unwrap() {
            part = &part[length..];
        }
        assert!(part.len() < 8 * (record::HEAD_WORDS as usize + 2));
    }
    assert!(decode(&[9; 16]).is_err(), "an unknown kind");
    let mut long = read[16..].to_vec();
    long[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(decode(&long).is_err(), "a length beyond any frame");
}
