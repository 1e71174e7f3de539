//! Construction of a scheduler for a caller: refuses unsupported settings, and adds the transmit queue of the link.

use alloc::boxed::Box;

use super::transmit_queue::Transmitting;
use crate::contract::{BuildError, Feature, Hierarchy, Leniency, Members, Scheduler, SchedulerInfo, boxed};

impl SchedulerInfo {
    /// Makes one for `tree`, with the [transmit queue](crate::TransmitQueue) of the tree's link behind it if there is one. Each class of
    /// `members`, a child of the root, borrows from its lender instead of the link.
    ///
    /// # Errors
    /// Under [`Leniency::Refuse`], [`BuildError::Unsupported`] for the first setting that it cannot honour. Other
    /// [`BuildError`]s as documented for the scheduler.
    pub fn build(
        &self,
        tree: &Hierarchy,
        leniency: Leniency,
        members: Members,
    ) -> Result<Box<dyn Scheduler>, BuildError> {
        if leniency == Leniency::Refuse {
            let pooled = members.iter().map(|&(class, _)| (class, Feature::Pool));
            let mut refused = pooled.filter(|&(_, feature)| !self.supports(feature)).chain(self.unsupported(tree));
            if let Some((class, feature)) = refused.next() {
                return Err(BuildError::Unsupported { scheduler: self.name, class, feature });
            }
        }
        let scheduler = (self.build)(tree, members)?;
        match tree.link().transmit_queue {
            Some(queue) => boxed(Transmitting::new(scheduler, queue, tree)?),
            None => Ok(scheduler),
        }
    }

    /// Upper bound, in bytes, of the memory that [`SchedulerInfo::build`] uses for `tree` and keeps; boxes are not
    /// counted.
    #[must_use]
    pub fn memory_for(&self, tree: &Hierarchy) -> u64 {
        (self.memory)(tree) + Transmitting::memory(tree)
    }
}
