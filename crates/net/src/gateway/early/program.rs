//! The program, in the kernel's instructions. It computes the place of a flow as [`super::table`] does.

use std::os::fd::AsFd;

use super::table::{
    CLASS, ETHERNET, FRAGMENT, ICMP6, IP, KEY, SET, TAG, V4_BYTES, V4_MASKS, V6_BYTES, V6_MASK, VLAN, WAYS,
};
use super::{
    ADDED, ADMITTED, ANY, BYTES, CALM, COUNTED, DROPPED, FETCHED, FREELY, HEAD, LENGTHS, MARK, Maps, PACKETS, ROOM,
    SINCE, WORDS,
};
use crate::io::bpf::assembler::{Assembler, Function, Register::*, When, Width};
use fairlink_config::matching::{TCP, UDP};

// Members of `struct __sk_buff`.
const LENGTH: i16 = 0;
const FRAME_MARK: i16 = 8;
const TAGGED: i16 = 20;
const TAG_CONTROL: i16 = 24;
const TAG_PROTOCOL: i16 = 28;
const INTERFACE: i16 = 40;
const SEGMENTS: i16 = 164;

/// Results of a filter: the whole frame, or nothing of it.
const ALL_OF_IT: i32 = -1;
const NOTHING: i32 = 0;
/// Verdict of a program in the driver: `XDP_DROP`.
const DROP: i32 = 1;
/// The key on the stack.
const STACK: i16 = -(8 * KEY as i16);

/// Place of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The filter of a packet socket. The kernel has taken the first VLAN tag out.
    Socket,
    /// XDP. Tags are in the frame, and there are no super-frames.
    Driver,
}

/// Appends the program to others.
#[derive(Debug)]
pub(crate) struct Dropper<'a> {
    pub(super) maps: &'a Maps,
    pub(super) place: Place,
    /// Index of the interface whose frames may be dropped; all if absent.
    pub(super) input: Option<i32>,
}

impl Dropper<'_> {
    /// Appends the end of a filter that would accept the frame. `R9` has the context.
    pub(crate) fn end_filter(&self, code: &mut Assembler) {
        self.append(code);
        code.set(R0, ALL_OF_IT).exit();
    }

    /// Appends the program. It ends for frames that are dropped, and continues behind it for others. `R9` has the context.
    pub(crate) fn append(&self, code: &mut Assembler) {
        let Maps { flows, control, lengths, secret } = self.maps;
        let in_driver = self.place == Place::Driver;
        let (accept, admit, look, decide, hash, refuse) =
            (code.label(), code.label(), code.label(), code.label(), code.label(), code.label());
        let (v4, v6) = (code.label(), code.label());
        let word_at = |word: usize| 8 * word as i16;
        let word = |bytes: [u8; 8]| u64::from_ne_bytes(bytes);
        let at = |place: usize| STACK + place as i16;
        if let Some(input) = self.input {
            code.load(Width::Four, R1, R9, INTERFACE).jump(When::NotEqual, R1, input, accept);
        }
        // Loads the number of waiting frames into R2 and that up to which all may come into R3. The counter of fetched frames
        // is read first; if it were newer than the other one, the difference may be negative.
        let waiting = |code: &mut Assembler| {
            code.load(Width::Eight, R3, R7, word_at(FETCHED)).load(Width::Eight, R2, R7, word_at(ADMITTED));
            code.subtract(R2, R3).load(Width::Eight, R3, R7, word_at(FREELY));
        };
        code.map_value(R7, control.fd.as_fd());
        if !in_driver {
            let any_mark = code.label();
            code.load(Width::Eight, R1, R7, word_at(MARK)).jump(When::Equal, R1, 0, any_mark);
            code.load(Width::Four, R2, R9, FRAME_MARK).jump_registers(When::NotEqual, R1, R2, refuse).here(any_mark);
        }
        code.load(Width::Eight, R1, R7, word_at(ANY)).jump(When::NotEqual, R1, 0, look);
        waiting(code);
        code.jump_registers(When::GreaterSigned, R2, R3, look).go(admit);
        code.here(look);
        if !in_driver {
            // Super-frames cost little before they are split.
            code.load(Width::Four, R1, R9, SEGMENTS).jump(When::Greater, R1, 1, admit);
        }

        // The key. R8 is the offset of the class among the classes: at first that of unknown flows. R6 is the offset of IP.
        for word in 0..KEY {
            code.store_number(Width::Eight, R10, at(8 * word), 0);
        }
        code.set(R8, 0);
        let read = |code: &mut Assembler, to: usize, bytes: usize| {
            code.copy(R1, R9).copy(R2, R6).copy(R3, R10).add(R3, at(to).into()).set(R4, bytes as i32);
            let function = if in_driver { Function::LoadFrameBytes } else { Function::LoadBytes };
            code.call(function).jump(When::NotEqual, R0, 0, decide);
        };
        let mask = |code: &mut Assembler, place: usize, mask: [u8; 8]| {
            code.load(Width::Eight, R1, R10, at(place)).set_wide(R2, word(mask)).and(R1, R2);
            code.store(Width::Eight, R10, at(place), R1);
        };
        let kind = |bytes: [u8; 2]| i32::from(u16::from_ne_bytes(bytes));
        code.set(R6, 0);
        read(code, 0, ETHERNET);
        code.set(R6, ETHERNET as i32).load(Width::Two, R1, R10, at(12));
        if in_driver {
            let (tagged, untagged) = (code.label(), code.label());
            code.jump(When::Equal, R1, kind([0x81, 0x00]), tagged).jump(
                When::NotEqual,
                R1,
                kind([0x88, 0xa8]),
                untagged,
            );
            code.here(tagged);
            // The tag's value and the type behind it, in the place of the tag.
            read(code, VLAN, 4);
            code.load(Width::Two, R1, R10, at(VLAN)).big_endian16(R1);
            code.load(Width::Two, R2, R10, at(12)).shift_left(R2, 16).or(R2, R1);
            code.load(Width::Two, R1, R10, at(VLAN + 2)).store(Width::Two, R10, at(12), R1);
            code.store(Width::Four, R10, at(VLAN), R2).add(R6, 4).here(untagged);
        }
        code.jump(When::Equal, R1, kind([0x08, 0x00]), v4).jump(When::Equal, R1, kind([0x86, 0xdd]), v6).go(decide);

        code.here(v4);
        read(code, IP, V4_BYTES);
        code.load(Width::One, R1, R10, at(IP)).jump(When::NotEqual, R1, 0x45, decide);
        code.load(Width::Two, R1, R10, at(IP + 6)).and_number(R1, kind(FRAGMENT)).jump(When::NotEqual, R1, 0, decide);
        mask(code, IP, V4_MASKS[0]);
        mask(code, IP + 8, V4_MASKS[1]);
        code.load(Width::One, R1, R10, at(IP + 9));
        code.jump(When::Equal, R1, TCP.into(), hash).jump(When::Equal, R1, UDP.into(), hash);
        code.store_number(Width::Four, R10, at(IP + 20), 0).go(hash);

        code.here(v6);
        read(code, IP, V6_BYTES);
        mask(code, IP, V6_MASK);
        code.load(Width::One, R1, R10, at(IP + 6));
        code.jump(When::Equal, R1, TCP.into(), hash).jump(When::Equal, R1, UDP.into(), hash);
        code.jump(When::NotEqual, R1, ICMP6.into(), decide);
        code.store_number(Width::Four, R10, at(IP + 40), 0);

        code.here(hash);
        let found = code.label();
        if !in_driver {
            let untagged = code.label();
            code.load(Width::Four, R1, R9, TAGGED).jump(When::Equal, R1, 0, untagged);
            code.load(Width::Four, R1, R9, TAG_CONTROL).load(Width::Four, R2, R9, TAG_PROTOCOL);
            code.shift_left(R2, 16).or(R1, R2).store(Width::Four, R10, at(VLAN), R1);
            code.here(untagged);
        }
        for word in 0..KEY {
            for (register, half) in [(R1, 2 * word), (R3, 2 * word + 1)] {
                code.load(Width::Four, register, R10, at(4 * half));
                code.set_wide(R2, secret.halves[half].into()).add_register(register, R2);
                code.shift_left(register, 32).shift_right(register, 32);
            }
            code.multiply(R1, R3).add_register(R8, R1);
        }
        code.copy(R1, R8).shift_right(R1, 32).xor(R8, R1).set_wide(R2, secret.factor).multiply(R8, R2);
        code.copy(R6, R8).shift_left(R6, 16).shift_right(R6, 32).or_number(R6, 1);
        code.shift_right(R8, SET as i32).shift_left(R8, (8 * WAYS).ilog2() as i32);
        code.map_value(R0, flows.fd.as_fd()).add_register(R0, R8).set(R8, 0);
        for way in 0..WAYS {
            code.load(Width::Eight, R1, R0, 8 * way as i16).copy(R2, R1).shift_right(R2, TAG as i32);
            code.jump_registers(When::Equal, R2, R6, found);
        }
        code.go(decide);
        code.here(found);
        code.shift_right(R1, CLASS as i32).and_number(R1, COUNTED as i32 - 1);
        code.shift_left(R1, (8 * WORDS).ilog2() as i32).copy(R8, R1);

        code.here(decide);
        let (drop, known, room, long, fills) = (code.label(), code.label(), code.label(), code.label(), code.label());
        code.copy(R1, R7).add_register(R1, R8).add(R1, 8 * HEAD as i32).copy(R8, R1);
        code.load(Width::Eight, R1, R7, word_at(ANY)).jump(When::Equal, R1, 0, fills);
        code.load(Width::Eight, R1, R8, word_at(DROPPED)).jump(When::NotEqual, R1, 0, drop);
        code.here(fills);
        waiting(code);
        code.jump_registers(When::GreaterSigned, R2, R3, room).go(admit);
        code.here(room);
        code.load(Width::Eight, R1, R7, word_at(CALM)).load(Width::Eight, R3, R8, word_at(SINCE));
        code.jump_registers(When::Equal, R1, R3, known);
        code.store(Width::Eight, R8, word_at(SINCE), R1).store_number(Width::Eight, R8, word_at(ADDED), 0);
        code.here(known);
        code.load(Width::Eight, R1, R7, word_at(ROOM)).load(Width::Eight, R3, R8, word_at(ADDED));
        // It has less than the room that is left.
        code.add_register(R3, R2);
        let adds = code.label();
        code.jump_registers(When::GreaterSigned, R1, R3, adds).go(drop);
        code.here(adds);
        code.set(R1, 1).add_atomically(R8, word_at(ADDED), R1).go(admit);

        code.here(drop);
        if in_driver {
            code.copy(R1, R9).call(Function::FrameLength).copy(R2, R0);
        } else {
            let without_tag = code.label();
            code.load(Width::Four, R2, R9, LENGTH).load(Width::Four, R3, R9, TAGGED);
            code.jump(When::Equal, R3, 0, without_tag).add(R2, 4).here(without_tag);
        }
        code.jump(When::Greater, R2, LENGTHS as i32 - 1, long);
        code.shift_left(R2, 2).map_value(R0, lengths.fd.as_fd()).add_register(R0, R2);
        code.load(Width::Four, R2, R0, 0).add_atomically(R8, word_at(BYTES), R2);
        code.here(long);
        code.set(R1, 1).add_atomically(R8, word_at(PACKETS), R1);
        code.here(refuse).set(R0, if in_driver { DROP } else { NOTHING }).exit();

        code.here(admit);
        code.set(R1, 1).add_atomically(R7, word_at(ADMITTED), R1);
        code.here(accept);
    }
}
