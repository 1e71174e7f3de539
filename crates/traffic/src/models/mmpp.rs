//! The Markov-modulated Poisson process with n states ([drrpp] section 4.4.4).
//!
//! The source starts in a state drawn with the share of time that it spends there.

use fairlink_core::Nanos;

use super::{Arrival, Process};
use crate::error::SourceError;
use crate::fine::{Fine, seconds};
use crate::length::{Lengths, sums};
use crate::random::Random;

/// Most states.
pub const MAX_STATES: usize = 64;

/// Fewest packets of a mean stay in a state: drawing one packet takes as many stays as its inverse.
const MIN_PACKETS: f64 = 1e-3;

/// Steps of the chain after which the shares of its states are taken.
const STEPS: usize = 4096;

/// A state of [`Model::Mmpp`](crate::Model::Mmpp).
#[derive(Clone, Debug, PartialEq)]
pub struct MmppState {
    /// Packets per 1000 s in it; may be zero.
    pub per_1000_s: u64,
    /// Mean time in it, exponentially distributed.
    pub mean: Nanos,
    /// By state, the weight with which it comes next. If empty, all others are equally likely.
    pub next: Vec<u32>,
}

#[derive(Clone, Debug)]
struct State {
    per_second: f64,
    mean_s: f64,
    /// Rising sums of the probabilities of the next state.
    next: Vec<f64>,
}

/// A running process.
#[derive(Clone, Debug)]
pub(crate) struct Mmpp {
    lengths: Lengths,
    states: Vec<State>,
    /// Rising sums of the shares of time spent in the states.
    first: Vec<f64>,
    now: usize,
    at: Fine,
    /// Rest of the stay in this state, in seconds.
    left_s: f64,
}

/// Returns the mean packets per second of a process with these `states`, which were checked.
pub(crate) fn packets_per_second(states: &[MmppState]) -> f64 {
    let rate = |(state, share): (&MmppState, f64)| state.per_1000_s as f64 / 1000.0 * share;
    states.iter().zip(shares(states)).map(rate).sum()
}

impl Mmpp {
    pub(super) fn new(states: &[MmppState], lengths: Lengths) -> Result<Self, SourceError> {
        let count = states.len();
        if count == 0 || count > MAX_STATES {
            return Err(SourceError::States { count, limit: MAX_STATES });
        }
        for (state, MmppState { mean, next, .. }) in states.iter().enumerate() {
            if *mean == Nanos::ZERO {
                let (what, must) = ("a mean time in a state, in seconds", "above 0");
                return Err(SourceError::Parameter { what, value: 0.0, must });
            }
            if !next.is_empty() && (next.len() != count || next.iter().all(|&weight| weight == 0)) {
                return Err(SourceError::NextStates { state, count: next.len(), states: count });
            }
        }
        let shares = shares(states);
        let per_second = packets_per_second(states);
        if per_second <= 0.0 {
            return Err(SourceError::NoPackets);
        }
        let mean_stay = 1.0 / shares.iter().zip(states).map(|(share, state)| share / seconds(state.mean)).sum::<f64>();
        if mean_stay * per_second < MIN_PACKETS {
            let must = "such that it has a thousandth of a packet at least";
            return Err(SourceError::Parameter { what: "a mean time in a state, in seconds", value: mean_stay, must });
        }
        let state = |(state, spec): (usize, &MmppState)| State {
            per_second: spec.per_1000_s as f64 / 1000.0,
            mean_s: seconds(spec.mean),
            next: sums(weights(spec, state, count).into_iter()),
        };
        Ok(Self {
            lengths,
            states: states.iter().enumerate().map(state).collect(),
            first: sums(shares.into_iter()),
            now: 0,
            at: Fine::default(),
            left_s: 0.0,
        })
    }

    fn enter(&mut self, state: usize, random: &mut Random) {
        self.now = state;
        self.left_s = self.states[state].mean_s * random.exponential();
    }

    fn step(&mut self, random: &mut Random) {
        // A Poisson process of any rate is one of rate 1 on a clock that runs at that rate.
        let mut work = random.exponential();
        loop {
            let State { per_second, ref next, .. } = self.states[self.now];
            let possible = per_second * self.left_s;
            if work <= possible {
                let gap = work / per_second;
                self.left_s -= gap;
                self.at = self.at.after(Fine::from_secs(gap));
                return;
            }
            work -= possible;
            self.at = self.at.after(Fine::from_secs(self.left_s));
            let next = random.place(next);
            self.enter(next, random);
        }
    }
}

impl Process for Mmpp {
    fn start(&mut self, start: Nanos, random: &mut Random) {
        self.at = Fine::from_nanos(start);
        let first = random.place(&self.first);
        self.enter(first, random);
        self.step(random);
    }

    fn next(&mut self, random: &mut Random) -> Option<Arrival> {
        let arrival = Arrival { at: self.at.ceil(), len: self.lengths.draw(random) };
        self.step(random);
        Some(arrival)
    }
}

/// Returns the weight with which each state comes after `state`.
fn weights(spec: &MmppState, state: usize, count: usize) -> Vec<f64> {
    if !spec.next.is_empty() {
        return spec.next.iter().map(|&weight| f64::from(weight)).collect();
    }
    (0..count).map(|other| if other != state || count == 1 { 1.0 } else { 0.0 }).collect()
}

/// The share of time spent in each state. If not all states can be reached from each other, it is that of a process
/// that starts in each state equally likely.
fn shares(states: &[MmppState]) -> Vec<f64> {
    let count = states.len();
    let rows: Vec<Vec<f64>> = states.iter().enumerate().map(|(state, spec)| weights(spec, state, count)).collect();
    let totals: Vec<f64> = rows.iter().map(|row| row.iter().sum()).collect();
    let mut visits = vec![1.0 / count as f64; count];
    for _ in 0..STEPS {
        // The lazy chain stays in its state in half of its steps. It has the same shares, and no period.
        let mut next: Vec<f64> = visits.iter().map(|visits| visits / 2.0).collect();
        for ((row, total), visits) in rows.iter().zip(&totals).zip(&visits) {
            for (next, weight) in next.iter_mut().zip(row) {
                *next += visits / 2.0 * weight / total;
            }
        }
        visits = next;
    }
    let times: Vec<f64> = visits.iter().zip(states).map(|(visits, state)| visits * seconds(state.mean)).collect();
    let total: f64 = times.iter().sum();
    times.into_iter().map(|time| time / total).collect()
}
