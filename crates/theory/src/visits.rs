//! Rates of leaves that are visited once for each visit of another leaf: DRR++ as a fluid, \[drrpp\] Section 3.1.2.
//!
//! | text | here |
//! | --- | --- |
//! | Q_i | `quantum` |
//! | LC, BE flow | `critical` |
//! | round | 1 / kappa: the time between two visits of a best-effort leaf that always has packets |
//!
//! A best-effort leaf that always has packets is visited kappa times a second and gets Q_j kappa. One that requests d_j
//! in packets of l_j gets d_j while that is less. It is then visited for each of its packets (for each quantum, if that
//! is less), at most kappa times. A latency-critical leaf may send Q_i at each of these visits, so that it gets
//! min(d_i, Q_i sum of visits). kappa is the value that uses up the link. If best-effort leaves get their whole
//! requests and more is left, latency-critical leaves share it by their quanta, as they are visited when no other leaf
//! is.
//!
//! Cost: O(n) for each of a hundred steps of a bisection.

use crate::floats::agree;

/// While packets of a leaf come at less than this part of kappa, a visit finds one of them.
pub(crate) const RARE: f64 = 0.4;
/// A leaf: its demand and its kind of service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited {
    /// Demand in bit/s; infinite for a leaf that always has packets.
    pub(crate) demand: f64,
    /// Quantum in bits.
    pub(crate) quantum: f64,
    /// Its mean packet in bits, if it is known.
    pub(crate) packet: Option<f64>,
    /// Visited with each visit of others.
    pub(crate) critical: bool,
}

/// Computes the rate of each leaf out of `capacity`, in bit/s; `None` if it depends on an unknown packet length, or on
/// the number of packets that a visit finds.
pub(crate) fn rates(capacity: f64, leaves: &[Visited]) -> Option<Vec<f64>> {
    let most = rates_with(capacity, leaves, |each, _, kappa| each.min(kappa))?;
    let least = rates_with(capacity, leaves, |each, joined, kappa| {
        if each <= kappa * RARE { each } else { joined.max(kappa * RARE).min(each).min(kappa) }
    })?;
    agree(&most, &least, capacity).then_some(most)
}

/// The same, with `turns(each, joined, kappa)` visits of a leaf whose demand is met: at most `each` if each of its
/// packets needs a visit, `joined` if each visit sends its whole quantum.
fn rates_with(capacity: f64, leaves: &[Visited], turns_of: impl Fn(f64, f64, f64) -> f64) -> Option<Vec<f64>> {
    let asked: f64 = leaves.iter().map(|leaf| leaf.demand).sum();
    if asked <= capacity {
        return Some(leaves.iter().map(|leaf| leaf.demand).collect());
    }
    let visits = |kappa: f64| -> Option<f64> {
        let of = |leaf: &Visited| match leaf.demand {
            demand if demand == f64::INFINITY => Some(kappa),
            0.0 => Some(0.0),
            demand => {
                let each = demand / leaf.packet?.min(leaf.quantum);
                Some(turns_of(each, demand / leaf.quantum, kappa))
            }
        };
        leaves.iter().filter(|leaf| !leaf.critical).map(of).sum()
    };
    let given = |kappa: f64| -> Option<Vec<f64>> {
        let visits = visits(kappa)?;
        let turns = |leaf: &Visited| if leaf.critical { visits } else { kappa };
        Some(leaves.iter().map(|leaf| leaf.demand.min(leaf.quantum * turns(leaf))).collect())
    };
    let smallest = leaves.iter().map(|leaf| leaf.quantum).fold(f64::INFINITY, f64::min);
    // At this one each best-effort leaf could use the whole link.
    let (mut low, mut high) = (0.0, 2.0 * capacity / smallest);
    let most = given(high)?;
    let used: f64 = most.iter().sum();
    if used <= capacity {
        return Some(share_rest(capacity, leaves, most));
    }
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if given(middle)?.iter().sum::<f64>() > capacity {
            high = middle;
        } else {
            low = middle;
        }
    }
    given(low)
}

/// Latency-critical leaves share the rest of all others by their quanta.
fn share_rest(capacity: f64, leaves: &[Visited], mut rates: Vec<f64>) -> Vec<f64> {
    let claims = leaves.iter().zip(&rates).map(|(leaf, &rate)| match leaf.critical {
        true => (leaf.demand, leaf.quantum, rate),
        false => (rate, 0.0, rate),
    });
    let share = crate::terms::share_of(capacity, claims, &mut Vec::new());
    for (leaf, rate) in leaves.iter().zip(&mut rates).filter(|(leaf, _)| leaf.critical) {
        *rate = leaf.demand.min(leaf.quantum * share).max(*rate);
    }
    rates
}
