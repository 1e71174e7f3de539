use proptest::prelude::*;

use super::*;
use crate::wire::virtio::{JOINED_UDP, VirtioHeader};

const FRAME: u32 = 1600;

/// A super-frame of UDP whose packets carry the numbers from `first` on, and how to split it.
fn joined(count: u32, first: u32) -> (Vec<u8>, Segments) {
    let mut frame = vec![2; 12];
    let payload = 4 * count as usize;
    let total = ((28 + payload) as u16).to_be_bytes();
    frame.extend([8, 0, 0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x13, 0x88, 0x13, 0x89]);
    frame.extend(((8 + payload) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((first..first + count).flat_map(u32::to_be_bytes));
    let header = VirtioHeader { kind: JOINED_UDP, segment: 4, ..VirtioHeader::default() };
    let segments = Segments::from_frame(&frame, &header, 1500).unwrap();
    (frame, segments)
}

fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[42..46].try_into().unwrap())
}

/// Lines of some classes, and the numbers of packets that went in and came out, by class.
struct Model {
    splitter: Splitter,
    pool: FramePool,
    entered: Vec<Vec<u32>>,
    left: Vec<Vec<u32>>,
    /// Packets that are scheduled as one, at most.
    piece: usize,
}

impl Model {
    fn new(classes: usize) -> Self {
        Self {
            splitter: Splitter::new(classes),
            pool: FramePool::new(1000, FRAME).unwrap(),
            entered: vec![Vec::new(); classes],
            left: vec![Vec::new(); classes],
            piece: 1,
        }
    }

    /// Returns false if there is no buffer.
    fn push(&mut self, class: usize, count: u32) -> bool {
        let first = self.entered[class].len() as u32;
        let (bytes, segments) = joined(count, first);
        let id = ClassId(class as u32);
        let Some(buffer) = self.splitter.buffer(id) else { return false };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.splitter.push(SuperFrame::new(id, 7 << 32, segments, bytes.len(), Nanos(5)));
        self.entered[class].extend(first..first + count);
        true
    }

    /// Returns false if there is no room.
    fn follow(&mut self, class: usize) -> bool {
        let first = self.entered[class].len() as u32;
        let (bytes, _) = joined(1, first);
        let frame = self.pool.take().unwrap();
        self.pool.frame_mut(frame)[..bytes.len()].copy_from_slice(&bytes);
        self.pool.set_info(frame, FrameInfo { len: bytes.len() as u32, ..FrameInfo::default() });
        let packet =
            Packet { handle: u64::from(frame) | 7 << 32, len: bytes.len() as u32, class: ClassId(class as u32) };
        if !self.splitter.is_waiting(packet.class) || !self.splitter.follow(packet) {
            self.pool.give_back(frame);
            return false;
        }
        self.entered[class].push(first);
        true
    }

    /// Returns the number of packets of each class.
    fn turn(&mut self, most: usize) -> Vec<usize> {
        let Self { splitter, pool, left, piece, .. } = self;
        let before: Vec<_> = left.iter().map(Vec::len).collect();
        splitter.turn(
            pool,
            most,
            left,
            |_, _| None,
            |_, _| *piece,
            |left, pool, out, _| {
                let Out::Packet(packet, count) = out else { panic!("nothing is dropped") };
                assert_eq!((packet.len, packet.handle >> 32), (46, 7));
                let mut next = Some(packet.handle as u32);
                let before = left[packet.class.index()].len();
                while let Some(frame) = next {
                    assert_eq!(pool.packet(frame).len(), 46);
                    left[packet.class.index()].push(number(pool.packet(frame)));
                    next = pool.unchain(frame);
                    pool.give_back(frame);
                }
                assert_eq!(left[packet.class.index()].len() - before, count as usize);
            },
        );
        std::iter::zip(&self.left, before).map(|(left, before)| left.len() - before).collect()
    }
}

proptest! {
    /// For any super-frames, frames behind them and turns: each class's packets come in order, each once, no class has
    /// more than its part of a turn, and none that waits is passed over twice.
    #[test]
    fn packets_come_in_order_and_no_class_gets_more_than_its_part(
        steps in proptest::collection::vec((0usize..5, 0u8..10, 1u32..600, 0usize..400), 1..200),
        piece in prop_oneof![Just(1), 1usize..=MOST_IN_PIECE, Just(usize::MAX)],
    ) {
        let mut model = Model { piece, ..Model::new(5) };
        for (class, kind, count, most) in steps {
            match kind {
                0..=2 => {
                    model.push(class, count);
                }
                3..=6 => {
                    model.follow(class);
                }
                _ => {
                    let waiting: Vec<_> = (0..5).filter(|&class| model.splitter.is_waiting(ClassId(class))).collect();
                    let got = model.turn(most);
                    let per = if piece > 1 { OF_PIECE } else { 1 };
                    prop_assert!(got.iter().all(|&got| got <= per * OF_CLASS));
                    prop_assert!(got.iter().sum::<usize>() <= per * most);
                    if most >= 5 * OF_CLASS {
                        prop_assert!(waiting.iter().all(|&class| got[class as usize] > 0));
                    }
                }
            }
            let behind = model.splitter.frames();
            prop_assert_eq!(model.pool.frames() - model.pool.free(), behind);
        }
        while !model.splitter.is_empty() {
            model.turn(OF_TURN);
        }
        prop_assert_eq!(&model.left, &model.entered);
        prop_assert_eq!(model.splitter.free.len(), BUFFERS);
        prop_assert_eq!(model.splitter.free_nodes.len(), BUFFERS + FOLLOWERS);
    }
}

#[test]
fn a_class_gets_at_most_half_of_the_buffers_and_two_a_third_each() {
    let mut model = Model::new(3);
    assert_eq!((0..).take_while(|_| model.push(0, 100)).count(), BUFFERS / 2);
    let mut model = Model::new(3);
    let mut counts = [0; 2];
    loop {
        let pushed = [model.push(0, 100), model.push(1, 100)];
        std::iter::zip(&mut counts, pushed).for_each(|(count, pushed)| *count += usize::from(pushed));
        if pushed == [false; 2] {
            break;
        }
    }
    assert!(counts.iter().all(|count| count.abs_diff(BUFFERS / 3) <= 1), "{counts:?}");
    assert!(model.push(2, 100), "there are some left for another");
}

#[test]
fn rotation_goes_on_where_a_turn_was_full() {
    let mut model = Model::new(10);
    (0..10).for_each(|class| assert!(model.push(class, 1000)));
    let mut total = vec![0; 10];
    for _ in 0..5 {
        total = std::iter::zip(total, model.turn(OF_TURN)).map(|(a, b)| a + b).collect();
    }
    assert_eq!(total, [2 * OF_CLASS; 10]);
}

#[test]
fn a_pool_without_frames_makes_packets_wait_and_loses_none() {
    let mut model = Model::new(2);
    assert!(model.push(1, 300));
    let taken: Vec<_> = std::iter::from_fn(|| model.pool.take()).collect();
    assert_eq!(model.turn(OF_TURN), [0, 0]);
    taken.into_iter().for_each(|frame| model.pool.give_back(frame));
    while !model.splitter.is_empty() {
        model.turn(OF_TURN);
    }
    assert_eq!(model.left, model.entered);
}

#[test]
fn lines_of_classes_that_continue_are_kept_and_those_of_removed_ones_go_where_they_now_belong() {
    let mut model = Model::new(4);
    for class in [1, 2, 3] {
        assert!(model.push(class, 100) && model.follow(class));
    }
    model.turn(30);
    let mut next = Splitter::to_inherit(3);
    let map = [Some(ClassId(0)), Some(ClassId(2)), None, Some(ClassId(1))];
    next.inherit(&mut model.splitter, &model.pool, &map, |heir, bytes| {
        assert!(number(bytes) < 101);
        (heir.unwrap_or(ClassId(0)), 7 << 32)
    });
    model.splitter = next;
    let entered = std::mem::take(&mut model.entered);
    let before = std::mem::replace(&mut model.left, vec![Vec::new(); 3]);
    while !model.splitter.is_empty() {
        model.turn(OF_TURN);
    }
    for (old, new) in [(1, 2), (2, 0), (3, 1)] {
        assert_eq!([&before[old][..], &model.left[new]].concat(), entered[old]);
    }
    assert_eq!((model.pool.free(), model.splitter.frames()), (model.pool.frames(), 0));
    assert_eq!(model.splitter.splits(), Splits { frames: 3, packets: 300 });
}

#[test]
fn what_is_left_of_a_super_frame_can_be_dropped() {
    let mut model = Model::new(2);
    assert!(model.push(1, 100) && model.follow(1));
    model.turn(10);
    let mut seen = Vec::new();
    let Model { splitter, pool, .. } = &mut model;
    splitter.turn(
        pool,
        OF_TURN,
        &mut seen,
        |_, _| Some(DropCause::Shed),
        |_, _| 1,
        |seen, pool, out, bytes| match out {
            Out::Dropped(frame, cause) => seen.push((frame.left(), cause, number(bytes))),
            Out::Packet(packet, _) => pool.give_back(packet.handle as u32),
        },
    );
    assert_eq!(seen, [(10..100, DropCause::Shed, 0)]);
    assert!(splitter.is_empty() && pool.free() == pool.frames());
}

#[test]
fn a_piece_waits_for_a_turn_that_has_room_for_all_of_it() {
    let mut model = Model { piece: 40, ..Model::new(3) };
    assert!((0..3).all(|class| model.push(class, 400)));
    // Each counts as 10 of the 64 of a class.
    assert_eq!(model.turn(OF_TURN), [240, 240, 240]);
    // Four of the first class leave room for half a piece of the second, which is the first in the next turn.
    assert_eq!(model.turn(45), [160, 0, 0]);
    assert_eq!(model.turn(45), [0, 160, 0]);
    assert_eq!(model.turn(OF_TURN), [0, 0, 160]);
    assert_eq!(model.left, model.entered);
}

#[test]
fn a_pool_with_few_frames_makes_pieces_shorter() {
    let mut model = Model { piece: 50, ..Model::new(1) };
    assert!(model.push(0, 100));
    let taken: Vec<_> = std::iter::from_fn(|| model.pool.take()).collect();
    taken[..3].iter().for_each(|&frame| model.pool.give_back(frame));
    let Model { splitter, pool, .. } = &mut model;
    let mut counts = Vec::new();
    splitter.turn(
        pool,
        OF_TURN,
        &mut counts,
        |_, _| None,
        |_, _| 50,
        |counts, _, out, _| {
            let Out::Packet(packet, count) = out else { panic!("nothing is dropped") };
            counts.push((packet, count));
        },
    );
    assert_eq!(counts.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [3]);
    assert_eq!(pool.chained(counts[0].0.handle as u32).count(), 3);
    assert_eq!(pool.free(), 0);
}
