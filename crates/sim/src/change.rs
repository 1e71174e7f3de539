//! A link that becomes another while it runs, and which class is which before and after.
//!
//! A scenario numbers its classes once: those of its first tree by their ids there, then those that only a change adds.
//! Each tree has its own ids. Sources, observers and reports use the scenario's ids, schedulers those of their tree.

use fairlink_core::{ClassId, Hierarchy, Nanos, Overhead, SchedulerInfo};

/// The link from some time on: its rate, its classes, and possibly its scheduler.
///
/// A leaf takes over the packets of the leaf that was the same class before. The packets of other leaves are dropped.
#[derive(Clone, Debug)]
pub struct Change {
    /// When: after the start of the run and after the change before it, and before the end of the run.
    pub at: Nanos,
    /// Its name in notes.
    pub name: String,
    /// The new scheduler. If absent, the current one stays.
    pub scheduler: Option<&'static SchedulerInfo>,
    /// The link and its classes from then on.
    pub tree: Hierarchy,
    /// Overhead that the link adds to each frame that arrives from then on.
    pub overhead: Overhead,
    /// By class id of `tree`: its class of the scenario. The link comes first; no class occurs twice.
    pub classes: Vec<ClassId>,
}

/// The state of the link for a while: from the start of the run or from a change on, until the next change or the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) tree: &'a Hierarchy,
    pub(crate) overhead: Overhead,
    /// Absent if ids of the tree are those of the scenario.
    classes: Option<&'a [ClassId]>,
}

impl<'a> Stage<'a> {
    /// Makes the stage before the first change.
    pub(crate) fn first(tree: &'a Hierarchy, overhead: Overhead, end: Nanos) -> Self {
        Self { start: Nanos::ZERO, end, tree, overhead, classes: None }
    }

    /// Makes the stage after `change`.
    pub(crate) fn after(change: &'a Change, end: Nanos) -> Self {
        let Change { at, tree, overhead, classes, .. } = change;
        Self { start: *at, end, tree, overhead: *overhead, classes: Some(classes) }
    }

    /// Returns the scenario's class by id in the tree, the link first.
    pub(crate) fn classes(&self) -> Vec<ClassId> {
        match self.classes {
            Some(classes) => classes.to_vec(),
            None => (0..self.tree.len()).map(|id| ClassId(id as u32)).collect(),
        }
    }

    /// Ids in the tree by class of the scenario, which has `count`; `None` if it does not exist there.
    pub(crate) fn ids(&self, count: usize) -> Vec<Option<ClassId>> {
        let mut ids = vec![None; count];
        for (id, class) in self.classes().into_iter().enumerate() {
            if let Some(place) = ids.get_mut(class.index()) {
                *place = Some(ClassId(id as u32));
            }
        }
        ids
    }

    /// Ids in the tree by class of the scenario, which has `count`; `None` if it is not a leaf there.
    pub(crate) fn leaf_ids(&self, count: usize) -> Vec<Option<ClassId>> {
        let mut ids = self.ids(count);
        ids.iter_mut().for_each(|id| *id = id.filter(|&id| self.tree.is_leaf(id)));
        ids
    }
}
