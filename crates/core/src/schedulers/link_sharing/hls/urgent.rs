//! Latency-critical leaves: packets that are sent ahead of the leaf's turn, and paid for when it comes.
//!
//! # The rule
//!
//! A latency-critical leaf takes part in the rounds like any other, but its packets do not wait for them. An arriving
//! packet is sent next, and its length is added to the leaf's *debt*. When the leaf is visited, its quota pays the debt
//! off. As long as there is debt the leaf counts as backlogged, even if no packet is queued. For all others the effect
//! is the same as if the packet left when it was paid. A leaf may be ahead by at most its *advance*. Further packets
//! wait until debt is paid. When no packet is queued in the whole scheduler, the rounds that would pay all debt take no
//! time, so the debt is gone.
//!
//! # Names
//!
//! | here | meaning |
//! | --- | --- |
//! | debt | bytes that a leaf has sent and not paid for |
//! | A_i, `advance` | the most that leaf i may owe |
//! | E | the sum of all advances |
//! | sigma_i | `burst` of the leaf, a largest packet where absent |
//! | s_i | share of the link when all are busy, with the weights as run |
//! | C, L | rate of the link, its largest packet |
//! | Q | sum of all weights and of the largest packets of all leaves: the largest Q* of Theorem 2 |
//!
//! # Bounds
//!
//! *Fairness.* The rounds see payments in place of packets. For them this is HLS, so Theorem 3 holds for payments. The
//! sent bytes differ from the paid bytes by the change of the debt, which is between 0 and A_i. So siblings i, j that
//! stay backlogged differ by at most alpha_ij + E_i / w_i + E_j / w_j, where E_i is the sum of the advances of the
//! latency-critical leaves in the subtree of i. In the same way Theorem 5's gap grows by the sum of all advances over
//! C.
//!
//! *Payment.* Let leaf i owe or have packets queued all through (s, t], which may begin amid a backlog, and let the
//! rounds spend S bytes in that time. Spent credit returns to the root. The *reserve* U is Q - Q*. The sum of the
//! root's credit and the reserve only grows between two distributions, and it is never negative. With the credit of all
//! others it adds up to Q. So the bytes spent up to the first distribution after s, plus the credit of all others then,
//! are at most Q. From there on at most the root's distributions plus the others' credit is spent. After the last
//! distribution at most Q is spent. The leaf takes part from the first distribution on; what it and the classes above
//! it have at s is not negative, and adds to what it gets. The root's credit reaches it in proportion s_i, except for
//! an amount that each class a on the path, the root left out, may keep. That is less than the weight W_a of its
//! children. So
//!
//! > paid >= s_i (S - 2 Q) - sum over a of W_a s_i / s_a.
//!
//! The link is busy all that time: C (t - s) <= S + E + L. If at most sigma_i + s_i C (t - s) bytes arrive in any (s,
//! t], the owed or queued bytes of the leaf are therefore at most
//!
//! > A_i = sigma_i + s_i (2 Q + L + E) + sum over a of W_a s_i / s_a.
//!
//! Advances are set to that, or to L if that is more: a leaf without debt may send any packet. This is an equation in
//! E, their sum. So such traffic is never delayed by the advance.
//!
//! *Delay of a latency-critical leaf.* While a latency-critical packet is to be sent, no leaf is visited and no debt is
//! paid. So a packet of such traffic waits for the packet being sent, for at most the advances of the others, and for
//! its own leaf's packets before it:
//!
//! > delay <= (L + sigma_i + sum of A_j over the other latency-critical leaves j) / C, its own transmission included,
//!
//! for any traffic of the others. `DIFFERENCE`: the last term of A's equation needs sum of s_j < 1. Above 7/8 the
//! advances are those of 7/8, and there is no such bound. Nor is there one for a leaf that has a ceiling at it or above
//! it.
//!
//! *Delay of any other leaf.* In the same way such a leaf sends at least s_i (C (t - s) - 2 Q - L - E) - L - sum over a of W_a s_i / s_a
//! bytes in (s, t]. So a packet of traffic of at most sigma_i + s_i C (t - s) bytes has left after
//!
//! > delay <= (sigma_i + L) / (s_i C) + sum over a of W_a / (s_a C) + (2 Q + L + E) / C, its own transmission included.
//!
//! This holds without a ceiling at the leaf or above it; ceilings of others do not matter.
//!
//! *Next packet.* From any instant at which a leaf is backlogged, its next packet has left after
//!
//! > ((L + sum over a of W_a s_i / s_a) / s_i + 2 Q + 2 L + E - A_i) / C
//!
//! also of a latency-critical leaf that sends more than its contract: it pays for less than a packet until it may send.
//! `docs/hls.md` has the proof.
//!
//! # Cost
//!
//! O(1) per packet. A main round may now pay debt and send nothing. Every round distributes the rest of Q*. So debts of
//! a few packets' length are gone after a few rounds.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{CREDITS_PER_BYTE, RunWeights};
use crate::contract::{ClassId, Hierarchy, LatencyRate, OutOfMemory, Ratio, RoundTerms, SiblingShares};
use crate::parts::memory::{self, Queue, Stack, filled, slice};

#[cfg(test)]
mod tests;

/// Shares are counted in 2^-32 of the link, rounded up.
const WHOLE: u128 = 1 << 32;
/// Latency-critical leaves with more than this of the link have no delay bound.
const MOST: u128 = WHOLE / 8 * 7;
/// The longest advance in bytes: debts are counted in credits, and fit as the round does.
const LONGEST: u128 = 1 << 38;
/// Maximum number of iterations for the sum of all advances; the third nearly always finds it.
const TRIES: usize = 64;

/// Advances of the latency-critical leaves of a tree.
#[derive(Clone, Debug)]
pub struct Advances {
    /// By class; empty if no leaf is latency-critical.
    bytes: Box<[u64]>,
    total: u64,
    bounded: bool,
}

impl Advances {
    /// Makes the advances for `tree` with the weights `run`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn for_tree(tree: &Hierarchy, run: &RunWeights) -> Result<Self, OutOfMemory> {
        let urgent = || tree.leaves().iter().copied().filter(|&leaf| tree.config(leaf).latency_critical);
        let count = urgent().count();
        if count == 0 {
            return Ok(Self { bytes: Box::default(), total: 0, bounded: true });
        }
        let bytes_of = |credits: u128| credits.div_ceil(u128::from(CREDITS_PER_BYTE));
        let weight = |class: ClassId| u128::from(run.credits(class));
        let largest = u128::from(tree.link().max_packet);
        let ahead = 2 * longest_round(tree, run) + largest;
        // By leaf: sigma plus the amounts that the classes on its path may keep, and its share.
        let need = |leaf: ClassId| {
            let (mut kept, mut share, mut at) = (0, WHOLE, leaf);
            while let Some(parent) = tree.parent(at) {
                let all: u128 = tree.children(parent).iter().map(|&child| weight(child)).sum();
                share = (share * weight(at)).div_ceil(all);
                if parent != ClassId::ROOT {
                    kept += (bytes_of(all) * share).div_ceil(WHOLE);
                }
                at = parent;
            }
            let burst = tree.config(leaf).burst.map_or(largest, u128::from);
            Need { own: burst + kept + (share * ahead).div_ceil(WHOLE) + 1, share }
        };
        let mut needs = Stack::with_room(count)?;
        urgent().for_each(|leaf| needs.push(need(leaf)));
        let sum = sum_of_advances(&needs, largest);
        let mut bounded = needs.iter().map(|need| need.share).sum::<u128>() <= MOST;
        let mut bytes = filled(tree.len(), 0)?;
        for (leaf, need) in urgent().zip(needs.iter()) {
            let advance = need.advance(sum).max(largest);
            bounded &= advance <= LONGEST;
            bytes[leaf.index()] = advance.min(LONGEST) as u64;
        }
        let total = bytes.iter().sum();
        Ok(Self { bytes, total, bounded })
    }

    /// Returns the advance of `class`, in bytes; 0 for a class that is not a latency-critical leaf.
    #[must_use]
    pub fn bytes(&self, class: ClassId) -> u64 {
        self.bytes.get(class.index()).copied().unwrap_or(0)
    }

    /// Returns the sum of all advances, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Upper bound on the bytes ahead of a packet of `leaf`, packets of `leaf` itself left out. It holds if the leaf's
    /// traffic never exceeds its burst and its share of the link when all are busy, and no ceiling is at it or above
    /// it. The sum of it and the burst, over the link's rate, is the delay bound. `None` for a class that is not a
    /// latency-critical leaf, and if such leaves have more than 7/8 of the link.
    fn bytes_late(&self, tree: &Hierarchy, leaf: ClassId) -> Option<u64> {
        let own = self.bytes(leaf);
        (own > 0 && self.bounded).then(|| u64::from(tree.link().max_packet) + (self.total - own))
    }
}

/// Returns the terms by which HLS serves `tree`, for its theorems.
pub(super) fn round_terms(tree: &Hierarchy) -> Result<RoundTerms, OutOfMemory> {
    let run = RunWeights::for_tree(tree)?;
    let advances = Advances::for_tree(tree, &run)?.bytes;
    Ok(RoundTerms { weights: run.into_credits(), units_per_byte: CREDITS_PER_BYTE, advances })
}

/// The inputs of a leaf's advance.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// All but its share of the sum of all advances, in bytes.
    own: u128,
    share: u128,
}

impl Need {
    /// A_i without the lower limit L, if all advances add up to `sum`.
    fn advance(&self, sum: u128) -> u128 {
        self.own + self.share * sum / WHOLE
    }
}

/// Returns a sum that the resulting advances do not exceed: the least, if [`TRIES`] suffice. Each leaf's advance is at
/// least `largest`.
fn sum_of_advances(needs: &[Need], largest: u128) -> u128 {
    let solve = |own: u128, shares: u128| (own * WHOLE).div_ceil(WHOLE - shares.min(MOST));
    // The sum is a convex function of itself. So the leaves above `largest` become more from try to try, until they stay.
    let mut sum = 0;
    for _ in 0..TRIES {
        let (mut own, mut shares) = (0, 0);
        for need in needs {
            let above = need.advance(sum) > largest;
            own += if above { need.own } else { largest };
            shares += if above { need.share } else { 0 };
        }
        let next = solve(own, shares);
        if next == sum {
            return sum;
        }
        sum = next;
    }
    solve(needs.iter().map(|need| need.own.max(largest)).sum(), needs.iter().map(|need| need.share).sum())
}

/// Returns Q in bytes: the longest round, of all weights and of a largest packet per leaf.
fn longest_round(tree: &Hierarchy, run: &RunWeights) -> u128 {
    let weights: u128 = tree.classes().map(|class| u128::from(run.credits(class))).sum();
    weights.div_ceil(CREDITS_PER_BYTE.into()) + u128::from(tree.link().max_packet) * tree.leaves().len() as u128
}

/// Returns the delays of the leaves of `tree` without a ceiling at or above them. A latency-critical leaf has the whole
/// link, late by a largest packet and the advances of the others. Any other has its share.
pub(super) fn delays(tree: &Hierarchy) -> Vec<Option<LatencyRate>> {
    let none = || alloc::vec![None; tree.len()];
    let Ok(run) = RunWeights::for_tree(tree) else { return none() };
    let Ok(advances) = Advances::for_tree(tree, &run) else { return none() };
    // The share of the link, and the sum of W_a / s_a in bytes, rounded up.
    let mut paths = alloc::vec![Some((Ratio::whole(1), 0u128)); tree.len()];
    let mut servers = none();
    let largest = u128::from(tree.link().max_packet);
    let late = 2 * longest_round(tree, &run) + largest + u128::from(advances.total());
    for class in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
        let limited = tree.config(class).ceiling.is_some();
        let Some((share, kept)) = paths[class.index()].filter(|_| !limited) else {
            tree.children(class).iter().for_each(|child| paths[child.index()] = None);
            continue;
        };
        // Time to get `bytes`, in bytes of the link.
        let time = |bytes: u128| (bytes * share.denominator).div_ceil(share.numerator.max(1));
        // Weights of siblings add up to less than 2^62 credits, which are 2^38 bytes.
        let children: u64 = tree.children(class).iter().map(|&child| run.credits(child)).sum();
        let kept = if class == ClassId::ROOT { kept } else { kept + time(children.div_ceil(CREDITS_PER_BYTE).into()) };
        let mut siblings = SiblingShares::new(share, children.max(1));
        for &child in tree.children(class) {
            paths[child.index()] = Some((siblings.of(run.credits(child)), kept));
        }
        if !tree.is_leaf(class) || share.numerator == 0 {
            continue;
        }
        servers[class.index()] = if tree.config(class).latency_critical {
            let late = advances.bytes_late(tree, class).map(|late| Ratio::whole(late.into()));
            late.map(|late| LatencyRate { share: Ratio::whole(1), late, traffic: share })
        } else {
            Some(LatencyRate::new(share, Ratio::whole(time(largest) + kept + late)))
        };
    }
    servers
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    debt: i64,
    advance: i64,
}

/// Debts of latency-critical leaves, and the leaves among them that may send.
#[derive(Debug)]
pub(super) struct Urgent {
    /// By class; empty if no leaf is latency-critical.
    accounts: Box<[Account]>,
    /// Leaves that may send ahead of their turn, each at most once.
    ready: Queue<u32>,
    in_debt: u32,
}

impl Urgent {
    pub(super) fn new(tree: &Hierarchy, run: &RunWeights) -> Result<Self, OutOfMemory> {
        let advances = Advances::for_tree(tree, run)?;
        let account = |class: usize| Account { debt: 0, advance: (advances.bytes[class] * CREDITS_PER_BYTE) as i64 };
        let urgent = advances.bytes.iter().filter(|&&bytes| bytes > 0).count();
        let accounts = slice(advances.bytes.len(), account)?;
        Ok(Self { accounts, ready: Queue::with_room(urgent)?, in_debt: 0 })
    }

    /// Memory of the accounts of `tree`, in bytes, including the computation of their advances.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        let urgent = tree.leaves().iter().filter(|&&leaf| tree.config(leaf).latency_critical).count();
        if urgent == 0 {
            return 0;
        }
        memory::bytes_of::<(Account, u64)>(tree.len()) + memory::bytes_of::<(u128, u128)>(urgent)
    }

    /// Returns true if a leaf may send ahead of its turn.
    #[inline(always)]
    pub(super) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns true if any leaf has debt.
    #[inline(always)]
    pub(super) fn any_debt(&self) -> bool {
        self.in_debt > 0
    }

    pub(super) fn debt(&self, leaf: u32) -> i64 {
        self.accounts.get(leaf as usize).map_or(0, |account| account.debt)
    }

    /// Returns true if a packet of `len` bytes is within the leaf's advance. Without debt, any packet is.
    pub(super) fn is_within_advance(&self, leaf: u32, len: u32) -> bool {
        let Account { debt, advance } = self.accounts[leaf as usize];
        debt == 0 || debt + cost(len) <= advance
    }

    /// Makes `leaf` ready to send. It is not ready yet.
    pub(super) fn push_ready(&mut self, leaf: u32) {
        self.ready.push(leaf);
    }

    /// Removes and returns the next leaf to send ahead.
    pub(super) fn pop_ready(&mut self) -> Option<u32> {
        self.ready.pop()
    }

    /// Records that `leaf` sent `len` bytes ahead of its turn.
    pub(super) fn owe(&mut self, leaf: u32, len: u32) {
        let debt = &mut self.accounts[leaf as usize].debt;
        self.in_debt += u32::from(*debt == 0);
        *debt += cost(len);
    }

    /// Pays with up to `balance` credits; returns the paid amount.
    pub(super) fn pay(&mut self, leaf: u32, balance: i64) -> i64 {
        let debt = &mut self.accounts[leaf as usize].debt;
        let paid = balance.min(*debt);
        *debt -= paid;
        self.in_debt -= u32::from(paid > 0 && *debt == 0);
        paid
    }

    pub(super) fn reset(&mut self) {
        self.ready.clear();
        self.in_debt = 0;
        self.accounts.iter_mut().for_each(|account| account.debt = 0);
    }

    /// Checks the invariants, for a largest packet of `largest` credits.
    #[cfg(feature = "invariants")]
    pub(super) fn check(&self, largest: i64) -> Result<(), &'static str> {
        if self.accounts.iter().filter(|account| account.debt != 0).count() != self.in_debt as usize {
            return Err("the number of leaves in debt is wrong");
        }
        let over = |account: &Account| account.debt < 0 || account.debt > account.advance.max(largest);
        if self.accounts.iter().any(over) { Err("a leaf owes more than its advance") } else { Ok(()) }
    }
}

/// Debt for a packet of `bytes`. One of no length is paid for, too: the leaf counts as backlogged until then.
fn cost(bytes: u32) -> i64 {
    (i64::from(bytes) * CREDITS_PER_BYTE as i64).max(1)
}
