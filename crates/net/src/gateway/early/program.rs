//! The program, in the kernel's instructions. It computes the place of a flow as [`super::table`] does.

use std::os::fd::AsFd;

use super::table::{
    CLASS, ETHERNET, FRAGMENT, ICMP6, IP, KEY, SET, TAG, V4_BYTES, V4_MASKS, V6_BYTES, V6_MASK, VLAN, WAYS,
};
use super::{
    ADDED, ANY, BYTES, CALM, CLASSES, DROPPED, FREELY, HEAD, LENGTHS, Maps, PACKETS, ROOM, SINCE, WAITING, WORDS,
};
use crate::io::bpf::assembler::{Assembler, Function, Register::*, When, Width};
use fairlink_config::matching::{TCP, UDP};

// Members of `struct __sk_buff`.
const LENGTH: i16 = 0;
const TAGGED: i16 = 20;
const TAG_CONTROL: i16 = 24;
const TAG_PROTOCOL: i16 = 28;
const INTERFACE: i16 = 40;
const SEGMENTS: i16 = 164;

/// Result of a filter for a whole frame.
const ALL_OF_IT: i32 = -1;
/// The key on the stack.
const STACK: i16 = -(8 * KEY as i16);

/// Appends the program to others.
#[derive(Debug)]
pub(crate) struct Dropper<'a> {
    pub(super) maps: &'a Maps,
    /// Index of the interface whose frames may be dropped; all if absent.
    pub(super) input: Option<i32>,
}

impl Dropper<'_> {
    /// The whole program of a filter.
    pub(super) fn alone(&self) -> Assembler {
        let mut code = Assembler::new();
        code.copy(R9, R1);
        self.append(&mut code);
        code
    }

    /// Appends the end of a filter that would accept the frame. `R9` has the context.
    pub(crate) fn append(&self, code: &mut Assembler) {
        let Maps { flows, control, lengths, secret } = self.maps;
        let (accept, admit, look, decide, hash) =
            (code.label(), code.label(), code.label(), code.label(), code.label());
        let (v4, v6) = (code.label(), code.label());
        let word_at = |word: usize| 8 * word as i16;
        let word = |bytes: [u8; 8]| u64::from_ne_bytes(bytes);
        let at = |place: usize| STACK + place as i16;
        if let Some(input) = self.input {
            code.load(Width::Four, R1, R9, INTERFACE).jump(When::NotEqual, R1, input, accept);
        }
        code.map_value(R7, control.fd.as_fd());
        code.load(Width::Eight, R1, R7, word_at(ANY)).jump(When::NotEqual, R1, 0, look);
        code.load(Width::Eight, R2, R7, word_at(WAITING)).load(Width::Eight, R3, R7, word_at(FREELY));
        code.jump_registers(When::Greater, R2, R3, look).go(admit);
        // Super-frames cost little before they are split.
        code.here(look);
        code.load(Width::Four, R1, R9, SEGMENTS).jump(When::Greater, R1, 1, admit);

        // The key. R8 is the offset of the class among the classes: at first that of unknown flows.
        for word in 0..KEY {
            code.store_number(Width::Eight, R10, at(8 * word), 0);
        }
        code.set(R8, 0);
        let read = |code: &mut Assembler, offset: usize, to: usize, bytes: usize| {
            code.copy(R1, R9).set(R2, offset as i32).copy(R3, R10).add(R3, at(to).into()).set(R4, bytes as i32);
            code.call(Function::LoadBytes).jump(When::NotEqual, R0, 0, decide);
        };
        let mask = |code: &mut Assembler, place: usize, mask: [u8; 8]| {
            code.load(Width::Eight, R1, R10, at(place)).set_wide(R2, word(mask)).and(R1, R2);
            code.store(Width::Eight, R10, at(place), R1);
        };
        let kind = |bytes: [u8; 2]| i32::from(u16::from_ne_bytes(bytes));
        read(code, 0, 0, ETHERNET);
        code.load(Width::Two, R1, R10, at(12));
        code.jump(When::Equal, R1, kind([0x08, 0x00]), v4).jump(When::Equal, R1, kind([0x86, 0xdd]), v6).go(decide);

        code.here(v4);
        read(code, ETHERNET, IP, V4_BYTES);
        code.load(Width::One, R1, R10, at(IP)).jump(When::NotEqual, R1, 0x45, decide);
        code.load(Width::Two, R1, R10, at(IP + 6)).and_number(R1, kind(FRAGMENT)).jump(When::NotEqual, R1, 0, decide);
        mask(code, IP, V4_MASKS[0]);
        mask(code, IP + 8, V4_MASKS[1]);
        code.load(Width::One, R1, R10, at(IP + 9));
        code.jump(When::Equal, R1, TCP.into(), hash).jump(When::Equal, R1, UDP.into(), hash);
        code.store_number(Width::Four, R10, at(IP + 20), 0).go(hash);

        code.here(v6);
        read(code, ETHERNET, IP, V6_BYTES);
        mask(code, IP, V6_MASK);
        code.load(Width::One, R1, R10, at(IP + 6));
        code.jump(When::Equal, R1, TCP.into(), hash).jump(When::Equal, R1, UDP.into(), hash);
        code.jump(When::NotEqual, R1, ICMP6.into(), decide);
        code.store_number(Width::Four, R10, at(IP + 40), 0);

        code.here(hash);
        let (untagged, found) = (code.label(), code.label());
        code.load(Width::Four, R1, R9, TAGGED).jump(When::Equal, R1, 0, untagged);
        code.load(Width::Four, R1, R9, TAG_CONTROL).load(Width::Four, R2, R9, TAG_PROTOCOL);
        code.shift_left(R2, 16).or(R1, R2).store(Width::Four, R10, at(VLAN), R1);
        code.here(untagged);
        for pair in 0..KEY / 2 {
            for (register, place) in [(R1, 2 * pair), (R3, 2 * pair + 1)] {
                code.load(Width::Eight, register, R10, at(8 * place));
                code.set_wide(R2, secret.0[place]).add_register(register, R2);
            }
            code.multiply(R1, R3).add_register(R8, R1);
        }
        code.copy(R1, R8).shift_right(R1, 32).xor(R8, R1).set_wide(R2, secret.0[KEY]).multiply(R8, R2);
        code.copy(R6, R8).shift_left(R6, 16).shift_right(R6, 32).or_number(R6, 1);
        code.shift_right(R8, SET as i32).shift_left(R8, (8 * WAYS).ilog2() as i32);
        code.map_value(R0, flows.fd.as_fd()).add_register(R0, R8).set(R8, 0);
        for way in 0..WAYS {
            code.load(Width::Eight, R1, R0, 8 * way as i16).copy(R2, R1).shift_right(R2, TAG as i32);
            code.jump_registers(When::Equal, R2, R6, found);
        }
        code.go(decide);
        code.here(found);
        code.shift_right(R1, CLASS as i32).and_number(R1, CLASSES as i32 - 1);
        code.shift_left(R1, (8 * WORDS).ilog2() as i32).copy(R8, R1);

        code.here(decide);
        let (drop, known, room) = (code.label(), code.label(), code.label());
        let (without_tag, short) = (code.label(), code.label());
        code.copy(R1, R7).add_register(R1, R8).add(R1, 8 * HEAD as i32).copy(R8, R1);
        code.load(Width::Eight, R1, R8, word_at(DROPPED)).jump(When::NotEqual, R1, 0, drop);
        code.load(Width::Eight, R2, R7, word_at(WAITING)).load(Width::Eight, R3, R7, word_at(FREELY));
        code.jump_registers(When::Greater, R2, R3, room).go(admit);
        code.here(room);
        code.load(Width::Eight, R1, R7, word_at(CALM)).load(Width::Eight, R3, R8, word_at(SINCE));
        code.jump_registers(When::Equal, R1, R3, known);
        code.store(Width::Eight, R8, word_at(SINCE), R1).store_number(Width::Eight, R8, word_at(ADDED), 0);
        code.here(known);
        code.load(Width::Eight, R1, R7, word_at(ROOM)).load(Width::Eight, R3, R8, word_at(ADDED));
        // It has less than the room that is left.
        code.add_register(R3, R2);
        let adds = code.label();
        code.jump_registers(When::Greater, R1, R3, adds).go(drop);
        code.here(adds);
        code.set(R1, 1).add_atomically(R8, word_at(ADDED), R1);
        code.here(admit);
        code.set(R1, 1).add_atomically(R7, word_at(WAITING), R1);
        code.here(accept).set(R0, ALL_OF_IT).exit();

        code.here(drop);
        code.load(Width::Four, R2, R9, LENGTH).load(Width::Four, R3, R9, TAGGED);
        code.jump(When::Equal, R3, 0, without_tag).add(R2, 4).here(without_tag);
        code.jump(When::Greater, R2, LENGTHS as i32 - 1, short);
        code.shift_left(R2, 2).map_value(R0, lengths.fd.as_fd()).add_register(R0, R2);
        code.load(Width::Four, R2, R0, 0).add_atomically(R8, word_at(BYTES), R2);
        code.here(short);
        code.set(R1, 1).add_atomically(R8, word_at(PACKETS), R1);
        code.set(R0, 0).exit();
    }
}
