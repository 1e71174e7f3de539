//! The demand of the leaves: one [`Request`] per leaf, together a [`Demand`].
//!
//! Source: the rate request r_i of \[hls\] Section III-A. Only leaves have requests; those of inner classes follow from
//! them.

use fairlink_core::{ClassId, Hierarchy};

/// Rate of a leaf if it were alone on an infinitely fast link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A rate in bit/s; 0 for a leaf that is idle.
    Rate(u64),
    /// More than any link can carry: a leaf that is always backlogged.
    Unlimited,
}

/// The reason for which a demand was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DemandError {
    /// The class does not exist.
    #[error("class {} does not exist; there are {classes} classes, the link included", class.0)]
    UnknownClass {
        /// The class named.
        class: ClassId,
        /// Number of classes in the tree, the root included.
        classes: usize,
    },
    /// The class is the root or has children.
    #[error("class {} has {children} children; only a leaf can have a demand", class.0)]
    NotALeaf {
        /// The class named.
        class: ClassId,
        /// Number of its children.
        children: usize,
    },
    /// The class was named twice.
    #[error("class {} has two demands", class.0)]
    Twice {
        /// The class named.
        class: ClassId,
    },
}

/// A request for every leaf of one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Requests by class id; `None` at the root and at inner classes.
    requests: Vec<Option<Request>>,
}

impl Demand {
    /// Makes the same request at every leaf.
    #[must_use]
    pub fn uniform(tree: &Hierarchy, request: Request) -> Self {
        let mut requests = vec![None; tree.len()];
        for leaf in tree.leaves() {
            requests[leaf.index()] = Some(request);
        }
        Self { requests }
    }

    /// Makes the named requests. Every other leaf is idle.
    ///
    /// # Errors
    /// [`DemandError`] for the first class that is unknown, not a leaf, or named twice.
    pub fn new(tree: &Hierarchy, requests: impl IntoIterator<Item = (ClassId, Request)>) -> Result<Self, DemandError> {
        let mut demand = Self::uniform(tree, Request::Rate(0));
        let mut named = vec![false; tree.len()];
        for (class, request) in requests {
            demand.set(tree, class, request)?;
            if std::mem::replace(&mut named[class.index()], true) {
                return Err(DemandError::Twice { class });
            }
        }
        Ok(demand)
    }

    /// Replaces the request of one leaf.
    ///
    /// # Errors
    /// [`DemandError::UnknownClass`], [`DemandError::NotALeaf`]; the demand is then unchanged.
    ///
    /// # Panics
    /// When the demand was made for a tree of another size.
    pub fn set(&mut self, tree: &Hierarchy, class: ClassId, request: Request) -> Result<(), DemandError> {
        self.assert_for(tree.len());
        match self.requests.get_mut(class.index()) {
            None => Err(DemandError::UnknownClass { class, classes: tree.len() }),
            Some(None) => Err(DemandError::NotALeaf { class, children: tree.children(class).len() }),
            Some(Some(old)) => {
                *old = request;
                Ok(())
            }
        }
    }

    /// Returns the request of a leaf; `None` for any other class.
    #[must_use]
    pub fn get(&self, class: ClassId) -> Option<Request> {
        self.requests.get(class.index()).copied().flatten()
    }

    /// The request of a leaf in bit/s, infinite if it is unlimited; 0 for any other class.
    pub(crate) fn bps(&self, class: ClassId) -> f64 {
        match self.get(class) {
            Some(Request::Rate(bps)) => bps as f64,
            Some(Request::Unlimited) => f64::INFINITY,
            None => 0.0,
        }
    }

    /// Panics unless the demand was made for a tree of `classes` classes.
    pub(crate) fn assert_for(&self, classes: usize) {
        assert_eq!(self.requests.len(), classes, "a demand made for another tree");
    }
}

/// Returns the leaves at or below `class`, in the order of the tree. Cost: O(leaves x levels).
pub(crate) fn leaves_below(tree: &Hierarchy, class: ClassId) -> impl Iterator<Item = ClassId> + '_ {
    let is_below = move |leaf: ClassId| std::iter::successors(Some(leaf), |&at| tree.parent(at)).any(|at| at == class);
    tree.leaves().iter().copied().filter(move |&leaf| is_below(leaf))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Rate};

    #[test]
    fn only_leaves_have_a_demand_and_each_has_one() {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10).unwrap()));
        let a = tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
        let a1 = tree.add(a, ClassConfig::default()).unwrap();
        let a2 = tree.add(a, ClassConfig::default()).unwrap();
        let tree = tree.build().unwrap();
        let demand = Demand::new(&tree, [(a2, Request::Unlimited)]).unwrap();
        assert_eq!(demand.get(a1), Some(Request::Rate(0)));
        assert_eq!(demand.get(a2), Some(Request::Unlimited));
        assert_eq!((demand.get(a), demand.get(ClassId(9))), (None, None));
        let refused = |class| Demand::new(&tree, [(class, Request::Rate(1))]).unwrap_err();
        assert_eq!(refused(a), DemandError::NotALeaf { class: a, children: 2 });
        assert_eq!(refused(ClassId::ROOT), DemandError::NotALeaf { class: ClassId::ROOT, children: 1 });
        assert_eq!(refused(ClassId(9)), DemandError::UnknownClass { class: ClassId(9), classes: 4 });
        let twice = Demand::new(&tree, [(a1, Request::Rate(1)), (a1, Request::Rate(1))]);
        assert_eq!(twice.unwrap_err(), DemandError::Twice { class: a1 });
    }
}
