//! Servers whose virtual time is a tag of the packet that is being sent: its finish tag for
//! [`scfq`](crate::schedulers::scfq), its start tag for [`sfq`](crate::schedulers::sfq). The packet with the smallest
//! such tag is sent next. Both files have the papers' symbols, bounds and differences.
//!
//! **Cost per packet.** O(log n) of the active children. **Invariants.** No backlogged child has a tag below the virtual
//! time. **Overflow budget.** As in [`crate::parts::virtual_time`].

#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use super::composed::Discipline;
use crate::contract::OutOfMemory;
use crate::parts::{
    heap::{AHEAD, Heap},
    virtual_time::{Sessions, Tags, lower_by},
};

/// A self-clocked server: by finish tags if `FINISH`, else by start tags.
#[derive(Debug)]
pub(crate) struct SelfClocked<const FINISH: bool> {
    sessions: Sessions,
    /// Backlogged children by that tag.
    active: Heap,
}

impl<const FINISH: bool> Discipline for SelfClocked<FINISH> {
    fn new(weights: &[u64]) -> Result<Self, OutOfMemory> {
        Ok(Self { sessions: Sessions::new(weights)?, active: Heap::knowing(weights.len(), AHEAD)? })
    }

    fn memory(children: usize) -> u64 {
        Sessions::memory(children) + Heap::memory_knowing(children, AHEAD)
    }

    fn activate(&mut self, child: u32, len: u32, _progress: u32) {
        let Tags { start, finish } = self.sessions.begin(child, len, self.sessions.v);
        if FINISH {
            self.active.set_by(child, finish, finish - start);
        } else {
            // Those that start now come in the order of the virtual time.
            self.active.set_by(child, start, start - self.sessions.v);
        }
    }

    fn select(&mut self) -> Option<u32> {
        let Some((child, tag)) = self.active.pop() else {
            if !FINISH {
                self.sessions.v = self.sessions.last_finish();
            }
            return None;
        };
        self.sessions.v = tag;
        let by = lower_by(tag, [self.active.first()]);
        if by > 0 {
            self.active.lower(by);
            self.sessions.lower(by);
        }
        Some(child)
    }

    fn complete(&mut self, child: u32, _len: u32, next: Option<u32>) {
        if let Some(len) = next {
            let Tags { start, finish } = self.sessions.next(child, len);
            if FINISH {
                self.active.set_by(child, finish, finish - start);
            } else {
                self.active.set(child, start);
            }
        }
    }

    #[inline(always)]
    fn ahead(&self, by: u32) -> Option<u32> {
        self.active.ahead(by)
    }

    #[inline(always)]
    fn prefetch(&self, child: u32) {
        self.sessions.prefetch(child);
        self.active.prefetch(child);
    }

    fn retune(&mut self, with: &Self) {
        self.sessions.retune(&with.sessions);
    }

    fn reset(&mut self) {
        self.sessions.reset();
        self.active.clear();
    }

    #[cfg(feature = "invariants")]
    fn check(&self) -> Result<(), String> {
        self.active.check()?;
        match self.active.first() {
            Some((child, tag)) if tag < self.sessions.v => {
                Err(format!("child {child} has the tag {tag}, before {}", self.sessions.v))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
impl<const FINISH: bool> SelfClocked<FINISH> {
    pub(crate) fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.sessions
    }
}
