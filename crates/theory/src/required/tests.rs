use super::*;
use fairlink_core::{Nanos, Rate};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::curves::first_excess;

/// Slopes and times are small, so that every instant can be tried.
const LINK: u64 = 60;

fn curve(m1: u64, d: u64, m2: u64) -> ServiceCurve {
    ServiceCurve { m1: Rate::from_bps(m1).ok(), d: Nanos(d), m2: Rate::from_bps(m2).ok() }
}

/// Sets of curves that fit the link. If `concave`, only the third is convex.
fn fitting(random: &mut ChaCha8Rng, concave: bool) -> Vec<ServiceCurve> {
    loop {
        let curves: Vec<ServiceCurve> = (0..random.random_range(2..5))
            .map(|_| {
                let (low, high, d) =
                    (random.random_range(1..20), random.random_range(20..40), random.random_range(1..60));
                match random.random_range(0..if concave { 2 } else { 4 }) {
                    0 => curve(0, 0, low),
                    1 => curve(high, d, low),
                    2 => curve(0, d, low),
                    _ => curve(low / 2, d, low),
                }
            })
            .collect();
        if first_excess(&curves, Rate::from_bps(LINK).unwrap()).is_none() {
            return curves;
        }
    }
}

/// D by its definition, in bits times 10^9, at whole nanoseconds.
fn lowest(curve: &ServiceCurve, starts: &[(i128, i128)], t: i128) -> i128 {
    let bps = |rate: Option<Rate>| i128::from(rate.map_or(0, Rate::bps));
    let d = i128::from(curve.d.0);
    let from = |&(x, y): &(i128, i128)| y + bps(curve.m1) * (t - x).clamp(0, d) + bps(curve.m2) * (t - x - d).max(0);
    starts.iter().map(from).min().unwrap()
}

/// Starts of deadline curves: nanoseconds, and the service.
type Starts = Vec<(i128, i128)>;

/// Sessions in some state, with the starts of their deadline curves, and the time.
fn some_state(random: &mut ChaCha8Rng, concave: bool) -> (Vec<Session>, Vec<Starts>, i128) {
    let mut sessions: Vec<Session> = fitting(random, concave).into_iter().map(Session::new).collect();
    let mut starts = vec![Vec::new(); sessions.len()];
    let mut now = 0;
    for _ in 0..random.random_range(1..12) {
        now += random.random_range(0..40);
        let at = random.random_range(0..sessions.len());
        let session = &mut sessions[at];
        if session.active && random.random_range(0..2) == 0 {
            session.active = false;
        } else if session.active {
            session.served += random.random_range(0..600);
        } else {
            starts[at].push((now, session.served));
            session.activate(now);
        }
    }
    (sessions, starts, now)
}

#[test]
fn equation_8_is_the_largest_of_what_is_asked_at_every_instant() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..400 {
        let (sessions, starts, now) = some_state(&mut random, false);
        for below in [Below::Served, Below::Curve] {
            let exact = required(&sessions, LINK, now, below).unwrap();
            let at = |t: i128| {
                let asked = sessions.iter().zip(&starts).map(|(session, starts)| {
                    let mut starts = starts.clone();
                    if !session.active {
                        starts.push((now, session.served));
                        return lowest(&session.curve, &starts, t).max(session.served) - session.served;
                    }
                    let least = if below == Below::Served { session.served } else { i128::MIN };
                    lowest(&session.curve, &starts, t).max(least)
                });
                asked.sum::<i128>() - i128::from(LINK) * (t - now)
            };
            // Curves have no knee after 60 ns, nor cross after 200.
            let most = (now..now + 400).map(at).max().unwrap();
            let most = Ratio::from_integer(most);
            // Knees between whole nanoseconds: no slope is above 160.
            assert!(most <= exact && exact < most + Ratio::from_integer(160), "{exact} and {most}");
        }
    }
}

#[test]
fn the_sum_of_e_i_is_never_below_e_and_equal_for_concave_curves() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let mut above = 0;
    for case in 0..2_000 {
        let concave = case % 2 == 0;
        let (sessions, starts, now) = some_state(&mut random, concave);
        let both = |below| (required(&sessions, LINK, now, below).unwrap(), estimated(&sessions, now, below));
        let (least, served) = both(Below::Served);
        assert!(served >= least, "{served} and {least}");
        let (exact, sum) = both(Below::Curve);
        assert!(sum >= exact, "{sum} and {exact}");
        if concave {
            assert_eq!(served, least);
            // E_i = D_i, and E is the sum of them.
            for (session, starts) in sessions.iter().zip(&starts).filter(|(session, _)| session.active) {
                assert_eq!(session.eligible(now), Ratio::from_integer(lowest(&session.curve, starts, now)));
            }
            assert_eq!(sum, exact);
        }
        above += usize::from(sum > exact);
    }
    assert!(above > 100, "{above}");
}
