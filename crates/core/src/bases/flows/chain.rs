//! Lists of leaves that are linked through the leaves.

use super::{Flows, NIL};

/// A list of leaves that is linked through the leaves, so that many such lists need no further memory. The links are in
/// a [`Flows`], the same one in every call.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The last; the first is the one after it.
    tail: u32,
    len: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { tail: NIL, len: 0 }
    }
}

impl Chain {
    /// Returns true if the list is empty.
    #[must_use]
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the leaf of the next visit.
    #[must_use]
    #[inline]
    pub(crate) fn first<S>(&self, flows: &Flows<S>) -> Option<u32> {
        if self.len == 0 { None } else { Some(flows.flows[self.tail as usize].next) }
    }

    /// Appends a leaf that is in no ring.
    #[inline]
    pub(crate) fn push<S>(&mut self, flows: &mut Flows<S>, flow: u32) {
        let flows = &mut flows.flows;
        debug_assert_eq!(flows[flow as usize].next, NIL, "class {flow} is in a list already");
        let first = if self.len == 0 { flow } else { flows[self.tail as usize].next };
        flows[flow as usize].next = first;
        if self.len > 0 {
            flows[self.tail as usize].next = flow;
        }
        self.tail = flow;
        self.len += 1;
    }

    /// Removes and returns the first leaf.
    #[inline]
    pub(crate) fn pop<S>(&mut self, flows: &mut Flows<S>) -> Option<u32> {
        let first = self.first(flows)?;
        let next = core::mem::replace(&mut flows.flows[first as usize].next, NIL);
        self.len -= 1;
        if self.len == 0 {
            self.tail = NIL;
        } else {
            flows.flows[self.tail as usize].next = next;
        }
        Some(first)
    }

    /// Moves all of `other` to the end, in their order.
    pub(crate) fn append<S>(&mut self, flows: &mut Flows<S>, other: &mut Self) {
        let other = core::mem::take(other);
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            let first = flows.flows[other.tail as usize].next;
            flows.flows[other.tail as usize].next = flows.flows[self.tail as usize].next;
            flows.flows[self.tail as usize].next = first;
            self.tail = other.tail;
            self.len += other.len;
        }
    }

    /// Returns the leaves of the chain, from the first on.
    #[cfg(any(test, feature = "invariants"))]
    pub(crate) fn iter<S>(&self, flows: &Flows<S>) -> impl Iterator<Item = u32> {
        let next = |&flow: &u32| flows.flows.get(flow as usize).map(|flow| flow.next);
        core::iter::successors(self.first(flows), next).take(self.len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bases::flows::tests::flows;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chains_are_lists_that_each_leaf_is_in_once(steps in prop::collection::vec((0u8..4, 0usize..2, 1u32..=6), 1..200)) {
            let mut flows = flows(6);
            let mut chains = [Chain::default(), Chain::default()];
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (what, which, flow) in steps {
                let free = model.iter().all(|list| !list.contains(&flow));
                let (chain, list) = (&mut chains[which], &mut model[which]);
                match what {
                    0 | 1 if free => {
                        chain.push(&mut flows, flow);
                        list.push_back(flow);
                    }
                    0..=2 => prop_assert_eq!(chain.pop(&mut flows), list.pop_front()),
                    _ => {
                        let [one, other] = &mut chains;
                        one.append(&mut flows, other);
                        let [one, other] = &mut model;
                        one.append(other);
                    }
                }
                for (chain, list) in chains.iter().zip(&model) {
                    prop_assert!(chain.iter(&flows).eq(list.iter().copied()), "{:?}, {:?}", chain, list);
                    prop_assert_eq!(chain.is_empty(), list.is_empty());
                    prop_assert_eq!(chain.first(&flows), list.front().copied());
                }
                #[cfg(feature = "invariants")]
                {
                    let complete = model.iter().map(VecDeque::len).sum::<usize>() == 6;
                    let listed = chains.iter().flat_map(|chain| chain.iter(&flows));
                    prop_assert_eq!(flows.check(listed, 0).is_ok(), complete);
                }
            }
        }
    }
}
