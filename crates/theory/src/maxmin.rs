//! Weighted max-min fair sharing among siblings, \[hls\] Section III-A and Algorithm 1, exact.
//!
//! | paper | here |
//! | --- | --- |
//! | r_i, infinity allowed | [`Claim::request`], `None` |
//! | w_i | [`Claim::weight`] |
//! | C | `capacity` |
//! | f, equation (1) | [`fair_share`], `None` for infinity |
//! | a_i = min(r_i, w_i f) | [`share_of`] |
//!
//! DIFFERENCE: Algorithm 1 repeats passes over all classes until f is stable, which may take as many passes as there
//! are classes. Here the classes are sorted by r_i / w_i, and a binary search finds the same f: a class is satisfied
//! exactly if all classes with a smaller r / w are, and it fits.
//!
//! Cost: O(n log n), in machine integers except for O(log n) products.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

/// One class among siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Request in whole bit/s; `None` for an unlimited one.
    pub request: Option<u128>,
    /// Its weight; at least 1.
    pub weight: u64,
}

/// Returns the fair share f in bit/s per unit of weight; `None` (infinity) if the capacity covers all requests.
///
/// The capacity is below 2^127 bit/s; a larger one would be taken for one that no request reaches.
///
/// # Panics
/// When a weight is zero.
#[must_use]
pub fn fair_share(capacity: &BigRational, claims: &[Claim]) -> Option<BigRational> {
    let claims = claims.iter().map(|claim| (claim.request.unwrap_or(UNLIMITED), claim.weight));
    fair_share_of(capacity, claims, &mut Vec::new())
}

/// A request that no capacity meets.
pub(crate) const UNLIMITED: u128 = u128::MAX;

/// Like [`fair_share`], for requests and weights; [`UNLIMITED`] exceeds any capacity. `finite` is reusable scratch
/// space.
///
/// Sums of requests and of weights are computed once, in 128 bits. One exact comparison then decides if the class at a
/// position is satisfied. The satisfied ones are a prefix of the order: if r_k / w_k is above the fair share that
/// remains when all before it are satisfied, then that of the next is lower and r / w of the next is higher. So a
/// binary search finds the end of the prefix, with O(log n) products of long numbers instead of one per class.
pub(crate) fn fair_share_of(
    capacity: &BigRational,
    claims: impl Iterator<Item = (u128, u64)>,
    finite: &mut Vec<(u128, u64)>,
) -> Option<BigRational> {
    let whole = capacity.floor().to_integer().to_u128().unwrap_or(UNLIMITED - 1);
    finite.clear();
    let (mut weights, mut requests, mut all_fit) = (0u128, 0u128, true);
    for (request, weight) in claims {
        assert!(weight > 0, "a weight of zero");
        weights += u128::from(weight);
        // Requests are whole. One above the capacity is never met, and comes after all that are: w f is at most the capacity.
        if request > whole {
            all_fit = false;
        } else {
            // Above the capacity, the sum need not be right.
            requests = requests.saturating_add(request);
            finite.push((request, weight));
        }
    }
    if all_fit && requests <= whole {
        return None;
    }
    finite.sort_unstable_by(by_request_per_weight);
    let (numerator, denominator) = (capacity.numer(), capacity.denom());
    let (mut requests, mut weights) = (0u128, BigInt::from(weights));
    let mut start = 0;
    let mut step = finite.len();
    // Claims before `start` are satisfied, those from `start + step` on are not.
    while step > 0 {
        let half = step / 2;
        let (mut before, mut light) = (requests, 0u128);
        for &(request, weight) in &finite[start..start + half] {
            before = before.saturating_add(request);
            light += u128::from(weight);
        }
        let (request, weight) = finite[start + half];
        let left = numerator - BigInt::from(before) * denominator;
        let heavy = &weights - BigInt::from(light);
        // r / w against left / weights: the fair share if this and all later classes stay unsatisfied.
        if BigInt::from(request) * denominator * &heavy <= left * weight {
            start += half + 1;
            step -= half + 1;
            requests = before.saturating_add(request);
            weights = heavy - weight;
        } else {
            step = half;
        }
    }
    let left = numerator - BigInt::from(requests) * denominator;
    (!weights.is_zero()).then(|| BigRational::new(left, weights * denominator))
}

/// Like [`fair_share_of`], with a floor for each class before any share: a_i = max(l_i, min(r_i, w_i f)) for requests
/// r_i, weights w_i and floors l_i of at most r_i. A class without weight gets its floor.
///
/// The total rate grows with f in straight pieces, which begin where w_i f reaches a floor or a request. Requests and
/// weights are summed up once in that order, and a binary search finds the piece with O(log n) products of long
/// numbers.
///
/// The floors add up to no more than the capacity.
pub(crate) fn fair_share_over_floors(
    capacity: &BigRational,
    claims: impl Iterator<Item = (u128, u64, u128)>,
) -> Option<BigRational> {
    let whole = capacity.floor().to_integer().to_u128().unwrap_or(UNLIMITED - 1);
    // Starts of pieces, as a rate per weight, and true if a class stops there.
    let mut begins: Vec<(u128, u64, bool)> = Vec::new();
    let (mut fixed, mut all_fit, mut requests) = (0u128, true, 0u128);
    for (request, weight, floor) in claims {
        fixed = fixed.saturating_add(floor);
        if request > whole {
            all_fit = false;
        }
        requests = requests.saturating_add(request);
        if weight == 0 || request <= floor {
            continue;
        }
        begins.push((floor, weight, false));
        if request <= whole {
            begins.push((request, weight, true));
        }
    }
    if all_fit && requests <= whole {
        return None;
    }
    begins.sort_unstable_by(|&(x, v, _), &(y, w, _)| by_request_per_weight(&(x, v), &(y, w)));
    // By piece: the fixed part, and the growing weights. A class that grows from its floor on has left the fixed part.
    let mut pieces = Vec::with_capacity(begins.len());
    let mut growing = 0u128;
    for &(rate, weight, stops) in &begins {
        if stops {
            fixed = fixed.saturating_add(rate);
            growing -= u128::from(weight);
        } else {
            fixed = fixed.saturating_sub(rate);
            growing += u128::from(weight);
        }
        pieces.push((fixed, growing));
    }
    let (numerator, denominator) = (capacity.numer(), capacity.denom());
    // True if the total at the start of a piece fits the capacity.
    let fits = |at: usize| {
        let ((rate, weight, _), (fixed, growing)) = (begins[at], pieces[at]);
        let given = BigInt::from(fixed) * weight + BigInt::from(growing) * BigInt::from(rate);
        given * denominator <= numerator * weight
    };
    let (mut first, mut after) = (0, begins.len());
    while first < after {
        let middle = first + (after - first) / 2;
        if fits(middle) { first = middle + 1 } else { after = middle }
    }
    let (fixed, growing) = pieces[first.checked_sub(1)?];
    (growing > 0).then(|| {
        let left = numerator - BigInt::from(fixed) * denominator;
        BigRational::new(left, BigInt::from(growing) * denominator)
    })
}

/// Returns the rate of a class at the fair share `fair_share`: min(r, w f), in bit/s.
///
/// # Panics
/// When both the request and the fair share are infinite, which [`fair_share`] rules out.
#[must_use]
pub fn share_of(claim: &Claim, fair_share: Option<&BigRational>) -> BigRational {
    let request = claim.request.map(|request| BigRational::from_integer(request.into()));
    let by_weight = fair_share.map(|share| share * BigInt::from(claim.weight));
    match (request, by_weight) {
        (Some(request), Some(by_weight)) => request.min(by_weight),
        (Some(request), None) => request,
        (None, Some(by_weight)) => by_weight,
        (None, None) => panic!("an unlimited request at an infinite fair share"),
    }
}

/// Returns the rates of all classes, in bit/s: rules (R1) and (R2) of \[hls\] Section III-A.
///
/// # Panics
/// When a weight is zero.
#[must_use]
pub fn allocate(capacity: &BigRational, claims: &[Claim]) -> Vec<BigRational> {
    let fair_share = fair_share(capacity, claims);
    claims.iter().map(|claim| share_of(claim, fair_share.as_ref())).collect()
}

/// Orders by request / weight, exactly and without overflow.
fn by_request_per_weight(&(x, v): &(u128, u64), &(y, w): &(u128, u64)) -> Ordering {
    let (v, w) = (u128::from(v), u128::from(w));
    match (u64::try_from(x), u64::try_from(y)) {
        (Ok(x), Ok(y)) => (u128::from(x) * w).cmp(&(u128::from(y) * v)),
        // Whole parts first; the remainders are below 2^64, so that their products fit.
        _ => (x / v).cmp(&(y / w)).then_with(|| (x % v * w).cmp(&(y % w * v))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_traits::One;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn ratio(numerator: i64, denominator: i64) -> BigRational {
        BigRational::new(numerator.into(), denominator.into())
    }

    /// Computes Algorithm 1 in the form of the paper.
    fn algorithm_1(capacity: &BigRational, claims: &[Claim]) -> Option<BigRational> {
        let total: Option<u128> = claims.iter().map(|claim| claim.request).sum();
        if total.is_some_and(|total| BigRational::from_integer(total.into()) <= *capacity) {
            return None;
        }
        let mut f = BigRational::zero();
        loop {
            let satisfied = |claim: &&Claim| {
                let by_weight = &f * BigInt::from(claim.weight);
                claim.request.is_some_and(|request| BigRational::from_integer(request.into()) <= by_weight)
            };
            let used: u128 = claims.iter().filter(satisfied).filter_map(|claim| claim.request).sum();
            let weights: u128 =
                claims.iter().filter(|claim| !satisfied(claim)).map(|claim| u128::from(claim.weight)).sum();
            let next = (capacity - BigRational::from_integer(used.into())) / BigInt::from(weights);
            if next == f {
                return Some(f);
            }
            f = next;
        }
    }

    #[test]
    fn the_fair_share_is_that_of_algorithm_1() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..300 {
            let claims: Vec<Claim> = (0..rng.random_range(1..30))
                .map(|_| Claim {
                    request: (rng.random_range(0..8) > 0).then(|| rng.random_range(0..200)),
                    weight: rng.random_range(1..20),
                })
                .collect();
            let capacity = ratio(rng.random_range(1..4000), rng.random_range(1..5));
            assert_eq!(fair_share(&capacity, &claims), algorithm_1(&capacity, &claims), "{capacity} {claims:?}");
        }
    }

    #[test]
    fn a_class_that_asks_for_exactly_its_fair_share_is_satisfied() {
        let claims = [Claim { request: Some(25), weight: 1 }, Claim { request: None, weight: 3 }];
        let capacity = ratio(100, 1);
        assert_eq!(fair_share(&capacity, &claims), Some(ratio(25, 1)));
        assert_eq!(allocate(&capacity, &claims), [ratio(25, 1), ratio(75, 1)]);
        // Requests that add up to exactly the capacity are all met.
        assert_eq!(fair_share(&capacity, &claims[..1]), None);
        assert_eq!(fair_share(&ratio(25, 1), &claims[..1]), None);
    }

    #[test]
    fn requests_and_weights_at_their_limits_do_not_overflow() {
        let claims = [
            Claim { request: Some(u128::MAX), weight: u64::MAX },
            Claim { request: Some(u128::MAX), weight: u64::MAX - 1 },
            Claim { request: Some(1), weight: 1 },
        ];
        let pair = |at: usize| (claims[at].request.unwrap(), claims[at].weight);
        assert_eq!(by_request_per_weight(&pair(0), &pair(1)), Ordering::Less);
        let capacity = BigRational::from_integer(BigInt::from(u64::MAX) * 2) - BigRational::one();
        assert_eq!(fair_share(&capacity, &claims), Some(capacity / (BigInt::from(u64::MAX) * 2)));
    }
}
