//! The used part of a curve's limits.
//!
//! Each limit has a state that gives the time from which a packet conforms. A packet that conforms also conforms at any
//! later time, if nothing is sent between. So the first time at which all limits pass it is the latest of theirs.

use std::collections::VecDeque;

use fairlink_core::{NANOS_PER_SEC, Nanos, PerWindow};

use crate::curve::{ArrivalCurve, ArrivalLimit};

/// Most instants that a window remembers: 16 MiB.
pub const MAX_REMEMBERED: usize = 1 << 20;

/// Tokens per byte: a rate of 1 bit/s yields one in 1 ns.
const TOKENS_PER_BYTE: u128 = 8 * NANOS_PER_SEC as u128;

/// The state of one limit.
#[derive(Clone, Debug)]
enum State {
    /// A token bucket.
    Bucket { level: u128, depth: u128, rate: u128, counted: Nanos },
    /// Packets sent in the last interval: times and amounts.
    Window { sent: VecDeque<(Nanos, u64)>, sum: u128, most: u64, every: Nanos, by_packets: bool },
    /// The least distance of two packets, and when the last one was sent.
    Gap { least: Nanos, last: Option<Nanos> },
    /// The longest packet.
    Largest { bytes: u32 },
    /// When the line is done with the last packet, in units of (1 / rate) ns.
    Line { done: u128, rate: u128 },
}

/// A curve, and its used part.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    states: Vec<State>,
    /// Time at which the last packet was sent.
    last: Nanos,
}

impl Gate {
    pub(super) fn new(curve: &ArrivalCurve) -> Self {
        let window = |amount, every| {
            let (most, by_packets) = match amount {
                PerWindow::Packets(packets) => (packets, true),
                PerWindow::Bytes(bytes) => (bytes, false),
            };
            State::Window { sent: VecDeque::new(), sum: 0, most, every, by_packets }
        };
        let mut states = Vec::new();
        for &limit in curve.limits() {
            match limit {
                ArrivalLimit::Bucket { burst, rate_bps } => {
                    let depth = u128::from(burst) * TOKENS_PER_BYTE;
                    states.push(State::Bucket { level: depth, depth, rate: rate_bps.into(), counted: Nanos::ZERO });
                }
                ArrivalLimit::Window { amount, every } => states.push(window(amount, every)),
                ArrivalLimit::Spacing { min_gap, mean_gap, over, largest } => states.extend([
                    State::Largest { bytes: largest },
                    State::Gap { least: min_gap, last: None },
                    window(PerWindow::Packets(over.0 / mean_gap.0.max(1)), over),
                ]),
                ArrivalLimit::Line { rate } => states.push(State::Line { done: 0, rate: rate.bps().into() }),
            }
        }
        Self { states, last: Nanos::ZERO }
    }

    /// Returns true if a packet of `len` bytes conforms at `at`, which is not before the last packet.
    pub(super) fn conforms(&mut self, at: Nanos, len: u32) -> bool {
        self.states.iter_mut().all(|state| state.conforms(at, len))
    }

    /// Sends a packet of `len` bytes that arrives at `at` as soon as it conforms, behind the last one. Returns that
    /// time; `None` for never.
    pub(super) fn pass(&mut self, at: Nanos, len: u32) -> Option<Nanos> {
        // A line keeps the order, and has the end of a packet to a fraction of a nanosecond.
        let on_a_line = self.states.iter().any(|state| matches!(state, State::Line { .. }));
        let mut earliest = if on_a_line { at } else { at.max(self.last) };
        for state in &mut self.states {
            earliest = earliest.max(state.earliest(at, len)?);
        }
        // A line sends it from then on, and it is there with its last bit.
        let done = |state: &State| match *state {
            State::Line { done, rate } => Some((done.max(u128::from(earliest.0) * rate) + cost(len), rate)),
            _ => None,
        };
        let last_bit = |(done, rate): (u128, u128)| whole(done.div_ceil(rate));
        let sent = self.states.iter().filter_map(done).map(last_bit).fold(earliest, Nanos::max);
        for state in &mut self.states {
            match (done(state), &mut *state) {
                (Some((exactly, _)), State::Line { done, .. }) => *done = exactly,
                _ => state.send(sent, len),
            }
        }
        self.last = sent;
        Some(sent)
    }

    /// Records a conforming packet of `len` bytes that is sent at `at`.
    pub(super) fn send(&mut self, at: Nanos, len: u32) {
        for state in &mut self.states {
            state.send(at, len);
        }
    }

    /// Instants that are remembered.
    pub(super) fn remembered(&self) -> usize {
        let one = |state: &State| if let State::Window { sent, .. } = state { sent.len() } else { 0 };
        self.states.iter().map(one).sum()
    }
}

fn whole(ns: u128) -> Nanos {
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Tokens that a packet takes.
fn cost(len: u32) -> u128 {
    u128::from(len) * TOKENS_PER_BYTE
}

impl State {
    fn conforms(&mut self, at: Nanos, len: u32) -> bool {
        match self {
            Self::Window { sent, sum, most, every, by_packets } => {
                forget(sent, sum, *every, at);
                *sum + units(len, *by_packets) <= u128::from(*most) && sent.len() < MAX_REMEMBERED
            }
            Self::Line { done, rate } => *done == 0 || *done + cost(len) <= u128::from(at.0) * *rate,
            _ => self.earliest(at, len).is_some_and(|earliest| earliest <= at),
        }
    }

    /// Returns the time from which the limit lets a packet of `len` bytes through, at `at` or later. A line always
    /// does, and takes its time then.
    fn earliest(&mut self, at: Nanos, len: u32) -> Option<Nanos> {
        match self {
            Self::Bucket { level, depth, rate, counted } => {
                let missing = cost(len).saturating_sub(*level);
                (cost(len) <= *depth).then(|| whole(u128::from(counted.0) + missing.div_ceil(*rate)))
            }
            Self::Window { sent, sum, most, every, by_packets } => {
                forget(sent, sum, *every, at);
                let (own, most) = (units(len, *by_packets), u128::from(*most));
                if own > most {
                    return None;
                }
                let (mut earliest, mut left) = (at, *sum);
                for (gone, &(sent_at, amount)) in sent.iter().enumerate() {
                    if left + own <= most && sent.len() - gone < MAX_REMEMBERED {
                        break;
                    }
                    left -= u128::from(amount);
                    earliest = sent_at.saturating_add(*every);
                }
                Some(earliest)
            }
            Self::Gap { least, last } => Some(last.map_or(at, |last| last.saturating_add(*least))),
            Self::Largest { bytes } => (len <= *bytes).then_some(at),
            Self::Line { .. } => Some(at),
        }
    }

    fn send(&mut self, at: Nanos, len: u32) {
        match self {
            Self::Bucket { level, depth, rate, counted } => {
                let span = u128::from(at.saturating_sub(*counted).0);
                *level = level.saturating_add(rate.saturating_mul(span)).min(*depth).saturating_sub(cost(len));
                *counted = at;
            }
            Self::Window { sent, sum, every, by_packets, .. } => {
                forget(sent, sum, *every, at);
                let own = units(len, *by_packets);
                *sum += own;
                match sent.back_mut() {
                    Some((last, amount)) if *last == at => *amount += own as u64,
                    _ => sent.push_back((at, own as u64)),
                }
            }
            Self::Gap { last, .. } => *last = Some(at),
            Self::Largest { .. } => {}
            Self::Line { done, rate } => {
                // Times are rounded up, so that it was done less than a nanosecond before, and not sooner than the line allows.
                let sooner = u128::from(at.0.saturating_sub(1)) * *rate;
                *done = if *done == 0 { sooner } else { (*done + cost(len)).max(sooner) }.max(1);
            }
        }
    }
}

/// Units of a packet in a window.
fn units(len: u32, by_packets: bool) -> u128 {
    if by_packets { 1 } else { len.into() }
}

/// Removes packets that have left a window by `now`.
fn forget(sent: &mut VecDeque<(Nanos, u64)>, sum: &mut u128, every: Nanos, now: Nanos) {
    while let Some(&(at, amount)) = sent.front()
        && at.saturating_add(every) <= now
    {
        sent.pop_front();
        *sum -= u128::from(amount);
    }
}
