//! The sending side of one interface: when it retries after the interface accepted nothing, and when it gives up a
//! frame.
//!
//! The kernel returns `ENOBUFS` in two cases: an interface is full for a moment, or its driver will never accept this
//! frame. The frame may be too long for the other end of a cable. A full interface is worth waiting for. One frame that
//! is never accepted must not stop those behind it. Time and later results distinguish the two cases:
//!
//! * A frame that is refused is tried again for the patience, [`PATIENCE`] at first. Then it is dropped and counted.
//! * If the interface accepted other frames since the last drop, the cause was that frame and not the interface. The
//!   patience for the next one is a quarter, and none once that is less than [`BUSY_RETRY`]. So a stream of such frames
//!   costs the others little.
//! * If a refused frame is accepted later, or more than [`ROW`] frames in a row are given up, the cause was the
//!   interface. The patience is reset.
//! * Most frames that are never accepted are too long for the other end. Let L be the length of the shortest frame
//!   given up. If shorter frames have been accepted but none of length L or more, frames of length L or more are given
//!   up at once, in a row or not.
//!
//! An interface without carrier, such as one with an unplugged cable, accepts nothing. No frame is given up for that:
//! frames wait until there is carrier, and the queues behind them fill.

use std::io;
use std::ops::Range;

use fairlink_core::Nanos;

use crate::io::backend::{Backend, BackendError, Rest, Sent};
use crate::io::frame_pool::FramePool;

/// First pause before a retry of a busy interface; it doubles with each retry.
pub(crate) const BUSY_RETRY: Nanos = Nanos::from_micros(50);
/// Longest pause between attempts at an interface with carrier.
const LONGEST_RETRY: Nanos = Nanos::from_millis(1);
/// Longest pause between attempts at an interface without carrier.
const LONGEST_CARRIER_RETRY: Nanos = Nanos::from_millis(20);
/// Longest time for which a refused frame holds up those behind it.
pub(crate) const PATIENCE: Nanos = Nanos::from_millis(5);

/// Number of frames given up in a row beyond which the interface is the cause.
const ROW: u32 = 8;

/// Results for frames that were offered to an interface, by their positions.
pub(crate) enum Outcome {
    /// It has accepted these.
    Accepted(Range<usize>),
    /// The interface never accepts this frame, which returns to the pool.
    Refused(usize, io::Error),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// Time of the first refusal of the frame in front.
    refused_since: Option<Nanos>,
    patience: Nanos,
    /// Frames given up since one was accepted.
    row: u32,
    /// The shortest frame given up, in bytes, while no frame of that length or longer has been accepted.
    too_long: Option<u32>,
    /// True if shorter ones have been accepted since.
    proved: bool,
    pause: Nanos,
    retry_at: Nanos,
    carrier: bool,
    /// True if frames wait though the interface is not busy.
    has_more: bool,
    /// Times that frames had to wait for the interface.
    pub(crate) busy: u64,
    /// Frames that were accepted, or given up.
    pub(crate) moved: u64,
}

impl Default for Outlet {
    fn default() -> Self {
        Self {
            refused_since: None,
            patience: PATIENCE,
            row: 0,
            too_long: None,
            proved: false,
            pause: BUSY_RETRY,
            retry_at: Nanos::ZERO,
            carrier: true,
            has_more: false,
            busy: 0,
            moved: 0,
        }
    }
}

impl Outlet {
    /// Resets the state for a new interface.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self { busy: self.busy, moved: self.moved, ..Self::default() };
    }

    /// Time of the next attempt. It is in the past if nothing waits.
    pub(crate) fn retry_at(&self) -> Nanos {
        self.retry_at
    }

    /// Returns true if frames wait because the backend takes no more at once. They need not wait for a time.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns true if frames wait because the interface has no carrier.
    pub(crate) fn waits_for_carrier(&self) -> bool {
        !self.carrier
    }

    /// Offers `frames` to `backend` in order, until it is busy or gone, and reports results to `account`. Returns the
    /// number of accepted or refused frames.
    pub(crate) fn offer(
        &mut self,
        now: Nanos,
        backend: &mut impl Backend,
        pool: &mut FramePool,
        frames: &[u32],
        mut account: impl FnMut(&FramePool, Outcome),
    ) -> (usize, Option<BackendError>) {
        let mut done = 0;
        let mut gone = None;
        self.retry_at = Nanos::ZERO;
        self.has_more = false;
        while done < frames.len() {
            let Sent { accepted, rest } = match backend.send(pool, &frames[done..]) {
                Ok(sent) => sent,
                Err(error) => {
                    gone = Some(error);
                    break;
                }
            };
            if accepted > 0 {
                account(pool, Outcome::Accepted(done..done + accepted));
                let longest = frames[done..done + accepted].iter().map(|&frame| pool.info(frame).len).max();
                done += accepted;
                self.took(longest.unwrap_or(0));
                // The frames that have left are used first for the next arrivals, while they are still in the
                // processor's cache.
                backend.reclaim(pool);
            }
            if done == frames.len() {
                break;
            }
            let reason = match rest {
                // The rest is offered in the next turn, after more frames were fetched.
                Rest::Full if accepted > 0 => {
                    self.has_more = true;
                    break;
                }
                Rest::Full | Rest::Busy => {
                    self.pause(now, LONGEST_RETRY);
                    break;
                }
                Rest::Unwilling(reason) => {
                    let since = *self.refused_since.get_or_insert(now);
                    let len = pool.info(frames[done]).len;
                    self.carrier = backend.has_carrier();
                    if !self.carrier || now.saturating_sub(since) < self.patience(len) {
                        self.pause(now, if self.carrier { LONGEST_RETRY } else { LONGEST_CARRIER_RETRY });
                        break;
                    }
                    self.give_up(len);
                    reason
                }
                Rest::Refused(reason) => reason,
            };
            self.refused_since = None;
            account(pool, Outcome::Refused(done, reason));
            pool.give_back(frames[done]);
            done += 1;
        }
        self.moved += done as u64;
        (done, gone)
    }

    fn patience(&self, len: u32) -> Nanos {
        if self.proved && self.too_long.is_some_and(|shortest| len >= shortest) {
            Nanos::ZERO
        } else if self.row >= ROW {
            PATIENCE
        } else {
            self.patience
        }
    }

    fn took(&mut self, longest: u32) {
        if self.refused_since.take().is_some() {
            self.patience = PATIENCE;
        }
        match self.too_long {
            Some(shortest) if longest < shortest => self.proved = true,
            _ => (self.too_long, self.proved) = (None, false),
        }
        self.row = 0;
        self.carrier = true;
        self.pause = BUSY_RETRY;
    }

    fn give_up(&mut self, len: u32) {
        self.patience = match Nanos(self.patience.0 / 4) {
            _ if self.row >= ROW => PATIENCE,
            _ if self.row > 0 => self.patience,
            shorter if shorter < BUSY_RETRY => Nanos::ZERO,
            shorter => shorter,
        };
        self.row += 1;
        if self.too_long.is_none_or(|shortest| len < shortest) {
            (self.too_long, self.proved) = (Some(len), false);
        }
    }

    fn pause(&mut self, now: Nanos, longest: Nanos) {
        self.busy += 1;
        self.pause = self.pause.min(longest);
        self.retry_at = now.saturating_add(self.pause);
        self.pause = Nanos(self.pause.0 * 2).min(longest);
    }
}

#[cfg(test)]
mod tests;
