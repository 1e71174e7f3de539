//! The programs that give the gateway its own host's frames for an interface, while the gateway lives, and only then.
//!
//! There are two:
//!
//! * The *redirection* sees each frame that the interface is about to send, before its queueing discipline does (tcx).
//!   While the heartbeat is fresh it marks the frame and sends it into the gateway's cable instead. When the heartbeat
//!   is older than [`STALE`], or zero, it lets the frame pass, unshaped. It is a link, which ends with the process at
//!   the latest.
//! * The *stopper* drops frames that come out of the cable, after the gateway's socket has received them. The host's
//!   own stack would otherwise see its own broadcasts as received ones.
//!
//! Frames that the gateway sends by the interface bypass the queueing discipline, and with it this program. They still
//! have a mark ([`Marks::sent`]), which the redirection lets pass, so that no frame can loop.
//!
//! A frame is redirected or passes, and never both, so nothing is doubled. The mark ([`Marks::taken`]) distinguishes
//! frames of this gateway from those redirected by its predecessor, and from frames that the kernel itself sends into
//! the cable.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::gateway::fail_open::place::Place;
use crate::gateway::fail_open::programs::STALE;
use crate::io::bpf::assembler::{Assembler, Function, Register::*, When, Width};
use crate::io::bpf::{Attachment, BpfError, Map, Program, ProgramKind, SharedWords};

/// Offset of a frame's mark in `struct __sk_buff`.
const MARK: i16 = 8;
/// Verdicts: `TCX_NEXT` passes the frame, `TCX_DROP` drops it.
const NEXT: i32 = -1;
const DROP: i32 = 2;

/// Marks of frames (`SO_MARK`, `skb->mark`). None has the highest bit, so that each compares as a number with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Marks {
    /// Mark of frames sent by the interface, of any gateway. Frames that a gateway sends by another interface, such as
    /// a VLAN on top of this one, do not have it.
    pub(in crate::gateway) sent: u32,
    /// Mark of frames that this process redirects.
    pub(in crate::gateway) taken: u32,
}

impl Marks {
    /// Returns the marks for the interface with this index.
    pub(in crate::gateway) fn for_interface(index: i32) -> Self {
        let low = |number: u32| number & 0x00ff_ffff;
        Self { sent: 0x7100_0000 | low(index as u32), taken: 0x7200_0000 | low(std::process::id()) }
    }
}

/// The heartbeat of both.
#[derive(Debug)]
pub(super) struct Redirection {
    beat: SharedWords,
}

impl Redirection {
    /// Attaches the programs at the sending interface (name and index), and at the gateway's end of the cable, whose
    /// other end has the index `host_end`. They stay as long as the places live. The heartbeat is zero: nothing is
    /// redirected.
    ///
    /// # Errors
    /// [`BpfError`].
    pub(super) fn begin(
        from: (&str, i32),
        host_end: i32,
        gateway_end: (&str, i32),
        marks: Marks,
    ) -> Result<(Self, Vec<Place>), BpfError> {
        let beat = Map::shared_array("fairlink_beat", 1, 8)?;
        let load = |name, place, code| Program::load(ProgramKind::Classifier, name, Some(place), code).map(Arc::new);
        let stopper = load("fairlink_stop", Attachment::TcxIngress, stopper())?;
        let redirection = load("fairlink_own", Attachment::TcxEgress, redirection(&beat, host_end, marks))?;
        let stopper = Place::new("that ends the cable", &stopper, Attachment::TcxIngress, gateway_end, false)?;
        // The redirection is closed first when the process ends.
        let redirection =
            Place::new("that redirects this host's traffic", &redirection, Attachment::TcxEgress, from, true)?;
        Ok((Self { beat: beat.share(1)? }, vec![redirection, stopper]))
    }

    /// Sets the heartbeat to `now`, in ns of the machine's monotonic clock. Zero: redirect nothing.
    #[inline]
    pub(super) fn beat(&self, now: u64) {
        self.beat.first().store(now, Ordering::Release);
    }
}

fn redirection(beat: &Map, host_end: i32, marks: Marks) -> Assembler {
    let mut code = Assembler::new();
    let next = code.label();
    code.copy(R6, R1).load(Width::Four, R2, R6, MARK);
    code.jump(When::Equal, R2, marks.sent as i32, next);
    // Read the heartbeat before the clock, so that it is never ahead of it.
    code.map_value(R1, beat.fd.as_fd()).load(Width::Eight, R7, R1, 0);
    code.jump(When::Equal, R7, 0, next);
    code.call(Function::Clock).subtract(R0, R7);
    code.jump(When::Greater, R0, STALE.0 as i32, next);
    code.set(R2, marks.taken as i32).store(Width::Four, R6, MARK, R2);
    code.set(R1, host_end).set(R2, 0).call(Function::Redirect).exit();
    code.here(next).set(R0, NEXT).exit();
    code
}

fn stopper() -> Assembler {
    let mut code = Assembler::new();
    code.set(R0, DROP).exit();
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::bpf::tests::{allowed, run};
    use crate::io::clock::{Clock, MonotonicClock};

    /// `TCX_REDIRECT`
    const REDIRECTED: u32 = 7;

    #[test]
    fn a_frame_is_redirected_while_the_heartbeat_is_fresh_and_else_it_goes_on() {
        let Some(beat) = allowed(Map::shared_array("beat", 1, 8)) else { return };
        let code = redirection(&beat, 1, Marks::for_interface(7));
        let place = Some(Attachment::TcxEgress);
        let Some(program) = allowed(Program::load(ProgramKind::Classifier, "own", place, code)) else { return };
        let page = beat.share(1).unwrap();
        let now = || MonotonicClock::SHARED.now().0;
        for (beat, answer) in [
            (0, NEXT as u32),
            (now(), REDIRECTED),
            (now() - STALE.0 - 1, NEXT as u32),
            // A heartbeat from far in the future would redirect frames that are never fetched.
            (now() + 10 * STALE.0, NEXT as u32),
        ] {
            page.first().store(beat, Ordering::Release);
            assert_eq!(run(&program, &[0; 100]).unwrap(), answer, "{beat}");
        }
    }

    #[test]
    fn marks_differ_by_what_they_say_and_compare_as_they_are() {
        let Marks { sent, taken } = Marks::for_interface(7);
        assert!(sent != taken && sent as i32 > 0 && taken as i32 > 0);
        assert_ne!(sent, Marks::for_interface(8).sent);
    }
}
