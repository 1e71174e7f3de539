//! Assembles the kernel's instructions (RFC 9669). Each method appends one; jumps go forward to a [`Label`] that is set
//! later.

use std::os::fd::BorrowedFd;

use crate::io::bpf::number;

/// A register. `R0` holds the result of a function and of the program. `R1` to `R5` hold arguments and are lost in a
/// call. `R6` to `R9` are preserved. `R10` points to the end of 512 bytes of stack. A program starts with its context
/// in `R1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6,
    R7,
    R8,
    R9,
    R10,
}

impl Register {
    fn bits(self) -> u8 {
        match self {
            Self::R0 => 0,
            Self::R1 => 1,
            Self::R2 => 2,
            Self::R3 => 3,
            Self::R4 => 4,
            Self::R6 => 6,
            Self::R7 => 7,
            Self::R8 => 8,
            Self::R9 => 9,
            Self::R10 => 10,
        }
    }
}

/// Functions of the kernel that programs may call, by their numbers (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// `R1` a map, `R2` points to a key: `R0` points to the value, or is zero.
    MapLookup = 1,
    /// `R0` is CLOCK_MONOTONIC in ns.
    Clock = 5,
    /// `R1` the context, `R2` a program array, `R3` a number: continues with that program and does not return. It
    /// returns if there is no such program.
    TailCall = 12,
    /// `R1` the index of an interface, `R2` zero: `R0` is the verdict of a classifier that has this interface send the
    /// frame instead.
    Redirect = 23,
    /// `R1` the context, `R2` an offset in the frame, `R3` a place, `R4` a number of bytes: copies them. `R0` is zero, or
    /// an error if the frame is too short.
    LoadBytes = 26,
    /// `R1` the context, `R2` a number: moves the beginning of an XDP program's frame by this number of bytes; earlier
    /// if negative. `R0` is zero, or an error if there is no room.
    AdjustHead = 44,
    /// `R1` a map, `R2` a number, `R3` the verdict if the map has no such entry: the frame goes to the entry's target.
    /// `R0` is the program's verdict.
    RedirectMap = 51,
    /// `R1` the context: `R0` is the length of an XDP program's frame (Linux 5.18).
    FrameLength = 188,
    /// As [`Function::LoadBytes`], for an XDP program (Linux 5.18).
    LoadFrameBytes = 189,
}

/// Number of bytes that an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    One,
    Two,
    Four,
    Eight,
}

impl Width {
    fn bits(self) -> u8 {
        match self {
            Self::One => 0x10,
            Self::Two => 0x08,
            Self::Four => 0x00,
            Self::Eight => 0x18,
        }
    }
}

/// Condition of a jump; numbers are compared without sign, if it does not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Equal,
    NotEqual,
    Greater,
    GreaterSigned,
}

impl When {
    fn bits(self) -> u8 {
        match self {
            Self::Equal => 0x10,
            Self::Greater => 0x20,
            Self::NotEqual => 0x50,
            Self::GreaterSigned => 0x60,
        }
    }
}

/// Target of jumps in a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

/// Appends a part of a program.
pub(crate) type Part<'a> = &'a dyn Fn(&mut Assembler);

/// A program under construction.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<u64>,
    /// Position of each label.
    labels: Vec<Option<usize>>,
    /// Jumps and their labels.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    // Classes and sources of instructions.
    const LOAD: u8 = 0x61;
    const STORE: u8 = 0x63;
    const STORE_NUMBER: u8 = 0x62;
    const LOAD_WIDE: u8 = 0x18;
    const ALU64: u8 = 0x07;
    const REGISTER: u8 = 0x08;
    const JUMP: u8 = 0x05;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const TO_BIG_ENDIAN: u8 = 0xdc;
    const ADD_ATOMICALLY: u8 = 0xdb;
    // Operations of `ALU64`.
    const ADD: u8 = 0x00;
    const SUB: u8 = 0x10;
    const MULTIPLY: u8 = 0x20;
    const OR: u8 = 0x40;
    const AND: u8 = 0x50;
    const SHIFT_LEFT: u8 = 0x60;
    const SHIFT_RIGHT: u8 = 0x70;
    const XOR: u8 = 0xa0;
    const MOVE: u8 = 0xb0;
    // In the source register of a wide load: its number is a map.
    const A_MAP: u8 = 1;
    const A_VALUE: u8 = 2;
    // In the source register of a call: its number is a kernel function.
    const A_KERNEL_FUNCTION: u8 = 2;

    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn push(&mut self, code: u8, to: u8, from: u8, offset: i16, number: i32) -> &mut Self {
        let [low, high] = offset.to_ne_bytes();
        let [a, b, c, d] = number.to_ne_bytes();
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        self.code.push(u64::from_ne_bytes([code, registers, low, high, a, b, c, d]));
        self
    }

    /// `to = from`
    pub(crate) fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(Self::ALU64 | Self::REGISTER | Self::MOVE, to.bits(), from.bits(), 0, 0)
    }

    /// `to = number`, with its sign.
    pub(crate) fn set(&mut self, to: Register, number: i32) -> &mut Self {
        self.push(Self::ALU64 | Self::MOVE, to.bits(), 0, 0, number)
    }

    /// `to` becomes the map.
    pub(crate) fn map(&mut self, to: Register, map: BorrowedFd<'_>) -> &mut Self {
        self.push(Self::LOAD_WIDE, to.bits(), Self::A_MAP, 0, number(map));
        self.push(0, 0, 0, 0, 0)
    }

    /// Loads the address of an array's first value into `to`.
    pub(crate) fn map_value(&mut self, to: Register, map: BorrowedFd<'_>) -> &mut Self {
        self.push(Self::LOAD_WIDE, to.bits(), Self::A_VALUE, 0, number(map));
        self.push(0, 0, 0, 0, 0)
    }

    /// `to = *(from + offset)`
    pub(crate) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) -> &mut Self {
        self.push(Self::LOAD | width.bits(), to.bits(), from.bits(), offset, 0)
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) -> &mut Self {
        self.push(Self::STORE | width.bits(), to.bits(), from.bits(), offset, 0)
    }

    /// `*(to + offset) = number`
    pub(crate) fn store_number(&mut self, width: Width, to: Register, offset: i16, number: i32) -> &mut Self {
        self.push(Self::STORE_NUMBER | width.bits(), to.bits(), 0, offset, number)
    }

    /// `to += number`
    pub(crate) fn add(&mut self, to: Register, number: i32) -> &mut Self {
        self.push(Self::ALU64 | Self::ADD, to.bits(), 0, 0, number)
    }

    /// `to -= from`
    pub(crate) fn subtract(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(Self::ALU64 | Self::REGISTER | Self::SUB, to.bits(), from.bits(), 0, 0)
    }

    /// `to = number`, of 64 bits.
    pub(crate) fn set_wide(&mut self, to: Register, number: u64) -> &mut Self {
        self.push(Self::LOAD_WIDE, to.bits(), 0, 0, number as u32 as i32);
        self.push(0, 0, 0, 0, (number >> 32) as u32 as i32)
    }

    /// `to += from`
    pub(crate) fn add_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(Self::ALU64 | Self::REGISTER | Self::ADD, to.bits(), from.bits(), 0, 0)
    }

    /// `to *= from`
    pub(crate) fn multiply(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(Self::ALU64 | Self::REGISTER | Self::MULTIPLY, to.bits(), from.bits(), 0, 0)
    }

    /// `to &= from`
    pub(crate) fn and(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(Self::ALU64 | Self::REGISTER | Self::AND, to.bits(), from.bits(), 0, 0)
    }

    /// `to &= number`, with its sign.
    pub(crate) fn and_number(&mut self, to: Register, number: i32) -> &mut Self {
        self.push(Self::ALU64 | Self::AND, to.bits(), 0, 0, number)
    }

    /// `to ^= from`
    pub(crate) fn xor(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(Self::ALU64 | Self::REGISTER | Self::XOR, to.bits(), from.bits(), 0, 0)
    }

    /// `to |= number`, with its sign.
    pub(crate) fn or_number(&mut self, to: Register, number: i32) -> &mut Self {
        self.push(Self::ALU64 | Self::OR, to.bits(), 0, 0, number)
    }

    /// `to >>= bits`, filled with zeros.
    pub(crate) fn shift_right(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(Self::ALU64 | Self::SHIFT_RIGHT, to.bits(), 0, 0, bits)
    }

    /// `*(to + offset) += from`, eight bytes, as one operation for all processors.
    pub(crate) fn add_atomically(&mut self, to: Register, offset: i16, from: Register) -> &mut Self {
        self.push(Self::ADD_ATOMICALLY, to.bits(), from.bits(), offset, 0)
    }

    /// Jumps to `label`.
    pub(crate) fn go(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(Self::JUMP, 0, 0, 0, 0)
    }

    /// `to |= from`
    pub(crate) fn or(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(Self::ALU64 | Self::REGISTER | Self::OR, to.bits(), from.bits(), 0, 0)
    }

    /// `to <<= bits`
    pub(crate) fn shift_left(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(Self::ALU64 | Self::SHIFT_LEFT, to.bits(), 0, 0, bits)
    }

    /// Calls a function of the kernel.
    pub(crate) fn call(&mut self, function: Function) -> &mut Self {
        self.push(Self::CALL, 0, 0, 0, function as i32)
    }

    /// Calls the kernel's function with this number among its types ([`super::types`]).
    pub(crate) fn call_kernel(&mut self, number: u32) -> &mut Self {
        self.push(Self::CALL, 0, Self::A_KERNEL_FUNCTION, 0, number as i32)
    }

    /// Converts the lower 16 bits of `to` to network byte order and clears the others.
    pub(crate) fn big_endian16(&mut self, to: Register) -> &mut Self {
        self.push(Self::TO_BIG_ENDIAN, to.bits(), 0, 0, 16)
    }

    /// Ends the program; `R0` is its result.
    pub(crate) fn exit(&mut self) -> &mut Self {
        self.push(Self::EXIT, 0, 0, 0, 0)
    }

    /// A label that is set later.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Sets `label` here.
    pub(crate) fn here(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.code.len());
        self
    }

    /// Jumps to `label` if the comparison of `a` with the number holds.
    pub(crate) fn jump(&mut self, when: When, a: Register, number: i32, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(Self::JUMP | when.bits(), a.bits(), 0, 0, number)
    }

    /// Jumps to `label` if the comparison of `a` with `b` holds.
    pub(crate) fn jump_registers(&mut self, when: When, a: Register, b: Register, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(Self::JUMP | Self::REGISTER | when.bits(), a.bits(), b.bits(), 0, 0)
    }

    /// Returns the instructions, with every jump resolved. A label that was never set is a bug of this project; its
    /// jumps go to the next instruction.
    pub(crate) fn finish(mut self) -> Vec<u64> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0];
            debug_assert!(to.is_some(), "a label was never set");
            // Counted from the instruction behind the jump.
            let distance = to.map_or(0, |to| to as i64 - from as i64 - 1) as i16;
            let mut bytes = self.code[from].to_ne_bytes();
            bytes[2..4].copy_from_slice(&distance.to_ne_bytes());
            self.code[from] = u64::from_ne_bytes(bytes);
        }
        self.code
    }
}
