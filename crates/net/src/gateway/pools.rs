//! Pools of bandwidth that links of one process share.
//!
//! A pool is identified by its name, its rule and its members, as in the files. So links that are opened one after the
//! other find the same pool. A change of rates preserves it: allocations, debts and measurements of members continue. A
//! pool with other members is a new one and starts from zero.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_config::{LinkFile, PoolSpec};
use fairlink_core::{ClassId, Hierarchy, Lender, Member, Members, Nanos, Pool, PoolError, PoolRule, Rate, Share};

use crate::gateway::open_error::OpenError;
use crate::io::clock::MonotonicClock;

/// The pools of a process. Clones share them: all links that are to share pools have one each.
#[derive(Clone, Debug, Default)]
pub struct Pools(Arc<Mutex<Vec<Known>>>);

/// A pool and its identity.
#[derive(Debug)]
struct Known {
    name: String,
    rule: PoolRule,
    /// The file, and of each member the place of its link and the class there.
    file: String,
    members: Vec<(usize, ClassId)>,
    ends: Vec<Member>,
}

/// New parameters of a pool, in effect when a change is committed.
#[derive(Debug)]
pub(super) struct Tuned {
    pool: Arc<Pool>,
    rate: Rate,
    burst: u64,
    bases: Vec<Rate>,
}

impl Tuned {
    pub(super) fn take_effect(&self) {
        // They were checked before. If another link's change came in between, that one counts.
        let _ = self.pool.retune(self.rate, self.burst, &self.bases);
    }
}

/// A member's end for a link whose clock is zero at the kernel's time `zero`: all links of a pool count time from the
/// same moment.
#[derive(Debug)]
struct Shifted {
    end: Member,
    zero: Nanos,
}

impl Lender for Shifted {
    fn may_borrow(&mut self, now: Nanos) -> Result<(), Nanos> {
        self.end.may_borrow(now.saturating_add(self.zero)).map_err(|again| again.saturating_sub(self.zero))
    }

    fn sent(&mut self, now: Nanos, bytes: u32, more: bool) {
        self.end.sent(now.saturating_add(self.zero), bytes, more);
    }
}

/// The members' guarantees in the file.
fn bases_of(spec: &PoolSpec) -> Vec<Rate> {
    spec.members.iter().map(|&(.., base)| base).collect()
}

fn refused(spec: &PoolSpec, error: PoolError) -> OpenError {
    OpenError::Pool { pool: spec.name.clone(), error }
}

impl Pools {
    /// Returns the members among the classes of `tree`, the tree of `link` run by `clock`, with their pools, and the
    /// tuning of the pools. With `is_new`, the classes of other links have the guarantees of the file; else they have
    /// their present ones.
    ///
    /// # Errors
    /// [`OpenError::Pool`] if guarantees that were changed since the file was read exceed a pool's rate.
    pub(super) fn members(
        &self,
        link: Option<&LinkFile>,
        tree: &Hierarchy,
        clock: &MonotonicClock,
        is_new: bool,
    ) -> Result<(Members, Vec<Tuned>), OpenError> {
        let (mut members, mut tuned) = (Members::new(), Vec::new());
        let Some(link) = link else { return Ok((members, tuned)) };
        let zero = Nanos(clock.shared(Nanos::ZERO));
        for spec in link.shared.iter() {
            let own = || (0..spec.members.len()).filter(|&index| spec.members[index].0 == link.place);
            if own().next().is_none() {
                continue;
            }
            let ends = self.ends(link.source().name(), spec).map_err(|error| refused(spec, error))?;
            let Some(pool) = ends.first().map(|end| Arc::clone(end.pool())) else { continue };
            let mut bases = if is_new { bases_of(spec) } else { pool.bases() };
            for index in own() {
                let (_, class, _) = spec.members[index];
                if let Some(Share::Guarantee(base)) = tree.config(class).share {
                    bases[index] = base;
                }
                members.push((class, Box::new(Shifted { end: ends[index].clone(), zero })));
            }
            pool.check(spec.rate, &bases).map_err(|error| refused(spec, error))?;
            tuned.push(Tuned { pool, rate: spec.rate, burst: spec.burst, bases });
        }
        Ok((members, tuned))
    }

    /// Returns the ends of the pool of `spec`, which may exist already.
    fn ends(&self, file: &str, spec: &PoolSpec) -> Result<Vec<Member>, PoolError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Pools that only this list holds are unused.
        known.retain(|known| known.ends.first().is_some_and(|end| Arc::strong_count(end.pool()) > known.ends.len()));
        let members: Vec<(usize, ClassId)> = spec.members.iter().map(|&(place, class, _)| (place, class)).collect();
        let is_same = |known: &&Known| {
            (&known.name, known.rule, known.file.as_str(), &known.members) == (&spec.name, spec.rule, file, &members)
        };
        if let Some(known) = known.iter().find(is_same) {
            return Ok(known.ends.clone());
        }
        let ends = Pool::share(spec.rule, spec.rate, spec.burst, &bases_of(spec))?;
        known.push(Known {
            name: spec.name.clone(),
            rule: spec.rule,
            file: file.to_owned(),
            members,
            ends: ends.clone(),
        });
        Ok(ends)
    }
}
