//! The programs that keep the wire idle while the gateway lives, and only then.
//!
//! There are three, each for all directions:
//!
//! * The *gate* is the filter of the receiving sockets. It continues with the tap by a tail call through a program
//!   array, and accepts nothing if the array is empty. When a process ends, the kernel empties the array as soon as it
//!   closes the descriptor, for all directions at once. Closing the sockets takes some milliseconds each. The array has
//!   one entry, because the kernel waits for all processors after each removal.
//! * The *tap* reads the heartbeat. If it is older than [`STALE`], or zero, the tap accepts nothing. Otherwise it
//!   accepts the frame, and notes its interface and length for this processor.
//! * The *guard* sees each frame next, on the same processor, before the wire does. It drops the frame whose note it
//!   finds, and lets all others pass. It is a link, which ends with the process at the latest.
//!
//! Only the tap decides, so a frame is accepted or passed, and never both or neither. If both read the clock, some
//! frames would be doubled when the heartbeat turns stale between them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairlink_core::Nanos;

use crate::gateway::fail_open::place::Place;
use crate::io::bpf::assembler::{Assembler, Function, Part, Register::*, When, Width};
use crate::io::bpf::{self, Attachment, BpfError, Map, MapKind, Program, ProgramKind, SharedWords};

/// Age of the heartbeat from which the gateway counts as stalled. The data thread runs a turn at least every 50 ms.
pub(crate) const STALE: Nanos = Nanos::from_millis(300);

/// Members of `struct __sk_buff`, a program's view of a frame.
const FRAME_LENGTH: i16 = 0;
const FRAME_INTERFACE: i16 = 40;
/// Verdicts of the guard: `TCX_DROP`, and `TCX_NEXT` for the programs behind it, the wire last.
const DROP: i32 = 2;
const NEXT: i32 = -1;
/// Result of the tap for a whole frame.
const ALL_OF_IT: i32 = -1;

/// All programs of one gateway.
#[derive(Debug)]
pub(super) struct Programs {
    beat: SharedWords,
    /// Closed first when the process ends: it has the highest number.
    #[cfg_attr(not(test), expect(dead_code, reason = "held, not read"))]
    array: OwnedFd,
    gate: Program,
    guard: Arc<Program>,
}

impl Programs {
    /// Loads the programs. The heartbeat is zero: nothing is accepted. `end` ends the tap where it would accept a frame, with
    /// the context in `R9`. A frame that it rejects does not pass either.
    ///
    /// # Errors
    /// [`BpfError`].
    pub(super) fn load(end: Option<Part<'_>>) -> Result<Self, BpfError> {
        let beat = Map::shared_array("fairlink_beat", 1, 8)?;
        let notes = Map::new(MapKind::PerProcessorArray, "fairlink_notes", 1, 8)?;
        let array = Map::new(MapKind::Programs, "fairlink_taps", 1, 4)?;
        let tap = Program::load(ProgramKind::SocketFilter, "fairlink_tap", None, tap(&beat, &notes, end))?;
        array.set_program(0, &tap)?;
        let gate = Program::load(ProgramKind::SocketFilter, "fairlink_gate", None, gate(&array))?;
        let place = Some(Attachment::TcxIngress);
        let guard = Program::load(ProgramKind::Classifier, "fairlink_guard", place, guard(&notes))?;
        let beat = beat.share(1)?;
        let array = bpf::move_up(array.fd).map_err(BpfError::while_doing("moving a descriptor above the others"))?;
        Ok(Self { beat, array, gate, guard: Arc::new(guard) })
    }

    /// The filter of receiving sockets.
    pub(super) fn gate(&self) -> &Program {
        &self.gate
    }

    /// Attaches the guard before the wire from the interface `from` (name and index).
    ///
    /// # Errors
    /// [`BpfError`].
    pub(super) fn guard(&self, from: (&str, i32)) -> Result<Place, BpfError> {
        Place::new("that keeps frames from passing twice", &self.guard, Attachment::TcxIngress, from, false)
    }

    /// Sets the heartbeat to `now`, in ns of the machine's monotonic clock. Zero: accept nothing.
    #[inline]
    pub(super) fn beat(&self, now: u64) {
        self.beat.first().store(now, Ordering::Release);
    }
}

/// Continues with the tap, if there is one.
fn gate(array: &Map) -> Assembler {
    let mut code = Assembler::new();
    code.map(R2, array.fd.as_fd()).set(R3, 0).call(Function::TailCall);
    code.set(R0, 0).exit();
    code
}

/// Sets `R6` to the interface and length of the frame. They distinguish it from frames of other turns that may have
/// left a note.
fn name_frame(code: &mut Assembler) {
    code.load(Width::Four, R6, R1, FRAME_INTERFACE).shift_left(R6, 32);
    code.load(Width::Four, R2, R1, FRAME_LENGTH).or(R6, R2);
}

/// Sets `R0` to the address of this processor's note, or zero.
fn find_note(code: &mut Assembler, notes: &Map) {
    code.store_number(Width::Four, R10, -4, 0);
    code.map(R1, notes.fd.as_fd()).copy(R2, R10).add(R2, -4).call(Function::MapLookup);
}

fn tap(beat: &Map, notes: &Map, end: Option<Part<'_>>) -> Assembler {
    let mut code = Assembler::new();
    let nothing = code.label();
    code.copy(R9, R1);
    name_frame(&mut code);
    // Read the heartbeat before the clock, so that it is never ahead of it.
    code.map_value(R1, beat.fd.as_fd()).load(Width::Eight, R7, R1, 0);
    code.jump(When::Equal, R7, 0, nothing);
    code.call(Function::Clock).subtract(R0, R7);
    code.jump(When::Greater, R0, STALE.0 as i32, nothing);
    find_note(&mut code, notes);
    code.jump(When::Equal, R0, 0, nothing);
    code.store(Width::Eight, R0, 0, R6);
    if let Some(end) = end {
        end(&mut code);
    } else {
        code.set(R0, ALL_OF_IT).exit();
    }
    code.here(nothing).set(R0, 0).exit();
    code
}

fn guard(notes: &Map) -> Assembler {
    let mut code = Assembler::new();
    let next = code.label();
    name_frame(&mut code);
    find_note(&mut code, notes);
    code.jump(When::Equal, R0, 0, next);
    code.load(Width::Eight, R7, R0, 0).jump_registers(When::NotEqual, R7, R6, next);
    code.store_number(Width::Eight, R0, 0, 0);
    code.set(R0, DROP).exit();
    code.here(next).set(R0, NEXT).exit();
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::bpf::tests::{allowed, run};
    use crate::io::clock::{Clock, MonotonicClock};
    use crate::io::sys;

    /// Length of an Ethernet header: the kernel runs a classifier on a whole frame, and a socket's filter on the bytes
    /// behind that header.
    const HEADER: usize = 14;

    /// Returns whether a frame of `length` is accepted, and whether it passes.
    fn offer(programs: &Programs, length: usize) -> (bool, bool) {
        let taken = run(&programs.gate, &vec![0; length + HEADER]).unwrap() != 0;
        (taken, passes(programs, length))
    }

    fn passes(programs: &Programs, length: usize) -> bool {
        run(&programs.guard, &vec![0; length]).unwrap() != DROP as u32
    }

    #[test]
    fn a_frame_is_taken_while_the_heartbeat_is_fresh_and_else_it_passes_and_never_both() {
        // Notes are of one processor.
        sys::pin_thread(sys::allowed_processors()[0]).unwrap();
        let Some(programs) = allowed(Programs::load(None)) else { return };
        let now = || MonotonicClock::SHARED.now().0;
        assert_eq!(offer(&programs, 100), (false, true), "it has not begun");
        for length in [60, 1514] {
            programs.beat(now());
            assert_eq!(offer(&programs, length), (true, false), "it is alive");
            programs.beat(now() - STALE.0 - 1);
            assert_eq!(offer(&programs, length), (false, true), "it has stalled");
        }
        programs.beat(now());
        assert_eq!(offer(&programs, 60), (true, false), "it continues");
        programs.beat(0);
        assert_eq!(offer(&programs, 60), (false, true), "it ends");
        // A heartbeat from far in the future would accept frames that are never fetched.
        programs.beat(now() + 10 * STALE.0);
        assert_eq!(offer(&programs, 60), (false, true));
    }

    #[test]
    fn the_guard_drops_the_frame_that_was_noted_and_no_other() {
        sys::pin_thread(sys::allowed_processors()[0]).unwrap();
        let Some(programs) = allowed(Programs::load(None)) else { return };
        programs.beat(MonotonicClock::SHARED.now().0);
        assert_ne!(run(&programs.gate, &[0; 100 + HEADER]).unwrap(), 0);
        assert!(passes(&programs, 99), "another length");
        assert!(!passes(&programs, 100), "the one");
        assert!(passes(&programs, 100), "the next one");
    }

    #[test]
    fn nothing_is_taken_once_the_array_is_closed_however_fresh_the_heartbeat() {
        sys::pin_thread(sys::allowed_processors()[0]).unwrap();
        let Some(programs) = allowed(Programs::load(None)) else { return };
        let Programs { beat, array, gate, guard: _guard } = programs;
        beat.first().store(MonotonicClock::SHARED.now().0, Ordering::Release);
        drop(array);
        while run(&gate, &[0; 100]).unwrap() != 0 {
            beat.first().store(MonotonicClock::SHARED.now().0, Ordering::Release);
        }
    }
}
