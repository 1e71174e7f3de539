//! Minimum service of H-FSC by the real-time criterion: \[hfsc\] Section 3.2, equation (8), exact, and the sum of
//! equation (10). H-FSC uses the sum instead because it is computed class by class.
//!
//! E(t) is the least service that active sessions must have had by t, so that the curves never exceed the capacity of
//! the link over any (t, t'], for any arrivals. With all passive sessions active from t on,
//!
//! E(t) = max over t' >= t of: sum over active i of D_i(t') + sum over passive j of (D*_j(t') - c_j) - R (t' - t).
//!
//! **Start of D_i.** The text defines D_i only "for all t > D_i^-1(c_i)". Below it, c_i was served. So D_i(t) is at
//! least c_i here ([`Below::Served`]): E(t) is never below sum c_i, and equal to it as long as the service still due by
//! any t' fits between t and t'. With the previous curve ([`Below::Curve`]), E(t) does not depend on the service. But
//! then one session's advance service hides another's shortfall, and SCED does not keep all curves with exactly E(t):
//! the claim `hfsc.eligible` has an example.
//!
//! **Cost.** A look at every piece of every curve for each t. The text calls this "difficult to compute efficiently", which is why H-FSC does not.

use fairlink_core::ServiceCurve;
use num_rational::Ratio;

use crate::pieces::{Exact, Pieces};

/// The real-time criterion's state of a session.
#[derive(Clone, Debug)]
pub struct Session {
    /// S_i.
    pub curve: ServiceCurve,
    /// D_i; `None` before its first activity.
    pub deadlines: Option<Pieces>,
    /// c_i: its service by the real-time criterion, in bits times 10^9.
    pub served: i128,
    /// True if it has packets.
    pub active: bool,
}

/// The value of D_i for times before D_i^-1(c_i).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// c_i.
    Served,
    /// The previous curve.
    Curve,
}

impl Session {
    /// Makes a session that was never active.
    #[must_use]
    pub fn new(curve: ServiceCurve) -> Self {
        Self { curve, deadlines: None, served: 0, active: false }
    }

    /// Returns D_i if it becomes active at `now` (ns): equation (7).
    #[must_use]
    pub fn if_active(&self, now: i128) -> Pieces {
        let start = Pieces::from_curve(&self.curve, now, self.served);
        match &self.deadlines {
            Some(known) => {
                let mut lower = known.clone();
                lower.lower_to(&start);
                lower
            }
            None => start,
        }
    }

    /// Activates the session at `now` (ns).
    pub fn activate(&mut self, now: i128) {
        self.deadlines = Some(self.if_active(now));
        self.active = true;
    }

    /// The deadline of a packet with which the session's service has grown by `more` (bits times 10^9), equation (4);
    /// `None` for never.
    #[must_use]
    pub fn deadline(&self, more: i128) -> Option<Exact> {
        self.deadlines.as_ref()?.time_of(self.served + more)
    }

    /// Returns E_i(`now`) by equation (10), for an active session: the largest of D_i(t') - S_i(t' - now), and no less
    /// than D_i(now). Bits times 10^9.
    #[must_use]
    pub fn eligible(&self, now: i128) -> Exact {
        let Some(deadlines) = &self.deadlines else { return Ratio::from_integer(0) };
        let own = Pieces::from_curve(&self.curve, now, 0);
        let from = Ratio::from_integer(now);
        // Behind the last knee of both, they are parallel.
        let times = deadlines.knees(&from).chain(own.knees(&from)).chain([from]);
        let most = times.map(|t| Ratio::new_raw(deadlines.scaled(&t) - own.scaled(&t), *t.denom())).max();
        most.map_or(Ratio::from_integer(0), |most| Ratio::new(*most.numer(), *most.denom()))
    }
}

/// Returns sum c_i over active sessions, in bits times 10^9.
#[must_use]
pub fn served(sessions: &[Session]) -> i128 {
    sessions.iter().filter(|session| session.active).map(|session| session.served).sum()
}

/// E(`now`) by equation (8), in bits times 10^9, for a link of `link` bit/s; `None` if the curves exceed the link in
/// the long run, so that no service is enough.
#[must_use]
pub fn required(sessions: &[Session], link: u64, now: i128, below: Below) -> Option<Exact> {
    let link = i128::from(link);
    // The curve, its minimum, and the part that is not counted.
    let curves: Vec<(Pieces, i128, i128)> = sessions
        .iter()
        .filter_map(|session| match (session.active, &session.deadlines) {
            (true, deadlines) => {
                let least = if below == Below::Served { session.served } else { i128::MIN };
                deadlines.clone().map(|deadlines| (deadlines, least, 0))
            }
            (false, _) => Some((session.if_active(now), session.served, session.served)),
        })
        .collect();
    if curves.iter().map(|(curve, ..)| curve.slope()).sum::<i128>() > link {
        return None;
    }
    let from = Ratio::from_integer(now);
    let mut times: Vec<Exact> = curves.iter().flat_map(|(curve, ..)| curve.knees(&from)).collect();
    times.push(from);
    times.sort_unstable();
    times.dedup();
    // Between knees the sum is a line, or bends upwards where a curve reaches the service: its maximum is at a knee.
    let asked = |t: Exact| {
        let of = |(curve, least, less): &(Pieces, i128, i128)| {
            curve.scaled(&t).max(least.saturating_mul(*t.denom())) - less * t.denom()
        };
        let all: i128 = curves.iter().map(of).sum();
        Ratio::new_raw(all - link * (t.numer() - now * t.denom()), *t.denom())
    };
    times.into_iter().map(asked).max()
}

/// Returns the sum over active sessions of E_i(`now`), equation (10), in bits times 10^9. With [`Below::Served`] each
/// counts with no less than c_i.
#[must_use]
pub fn estimated(sessions: &[Session], now: i128, below: Below) -> Exact {
    let of = |session: &Session| {
        let eligible = session.eligible(now);
        if below == Below::Served { eligible.max(Ratio::from_integer(session.served)) } else { eligible }
    };
    sessions.iter().filter(|session| session.active).map(of).sum()
}

#[cfg(test)]
mod tests;
