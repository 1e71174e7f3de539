//! Theorem 1: the mean delay of the latency-critical flow.

use super::flows::{LINK_BPS, PACKET};

/// Equation (3.1): 0.5 Q / (BNBW - Q lambda / nu) in seconds, with Q = Q_LC + Q_BE in bytes, nu = floor(Q_LC / mean length), on the link of
/// the exponential runs. `None` where a round cannot carry the flow.
pub(super) fn theorem_1(lambda: f64, quantum_lc: u32, quantum_be: u32) -> Option<f64> {
    let round = f64::from(quantum_lc + quantum_be) * 8.0;
    let packets = (f64::from(quantum_lc) / PACKET).floor();
    let left = LINK_BPS - round * lambda / packets;
    (packets > 0.0 && left > 0.0).then(|| 0.5 * round / left)
}
