//! Queues of tags beside the queues of packets, for schedulers that tag a packet on arrival and not when it becomes the
//! head.

use super::memory::{Stack, bytes_of};
use crate::contract::OutOfMemory;

const NIL: u32 = u32::MAX;

#[derive(Debug)]
struct Node {
    tag: u128,
    next: u32,
}

/// Storage for the tags of all queues of one scheduler, bounded at construction.
#[derive(Debug)]
pub(crate) struct TagSlab {
    nodes: Stack<Node>,
    free: u32,
}

impl TagSlab {
    /// Makes room for `limit` tags in all queues together.
    pub(crate) fn new(limit: u32) -> Result<Self, OutOfMemory> {
        Ok(Self { nodes: Stack::with_room(limit as usize)?, free: NIL })
    }

    /// Bytes that one for `limit` tags takes.
    pub(crate) const fn memory(limit: u32) -> u64 {
        bytes_of::<Node>(limit as usize)
    }

    /// Takes at least the room of `with`, which was never used.
    pub(crate) fn retune(&mut self, with: &mut Self) {
        self.nodes.take_room(&mut with.nodes);
    }

    /// Lowers all tags, to no less than zero.
    #[cold]
    pub(crate) fn lower(&mut self, by: u128) {
        for node in self.nodes.iter_mut() {
            node.tag = node.tag.saturating_sub(by);
        }
    }

    fn insert(&mut self, tag: u128) -> u32 {
        let node = Node { tag, next: NIL };
        if self.free == NIL {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        }
        let index = self.free;
        self.free = core::mem::replace(&mut self.nodes[index as usize], node).next;
        index
    }
}

/// A queue of tags. Belongs to exactly one [`TagSlab`], which every call is handed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagQueue {
    head: u32,
    tail: u32,
}

impl Default for TagQueue {
    fn default() -> Self {
        Self { head: NIL, tail: NIL }
    }
}

impl TagQueue {
    /// Returns the first tag.
    #[must_use]
    pub(crate) fn first(&self, slab: &TagSlab) -> Option<u128> {
        slab.nodes.get(self.head as usize).map(|node| node.tag)
    }

    /// Appends a tag. The slab's limit is the caller's to keep.
    pub(crate) fn push(&mut self, slab: &mut TagSlab, tag: u128) {
        let node = slab.insert(tag);
        if self.head == NIL {
            self.head = node;
        } else {
            slab.nodes[self.tail as usize].next = node;
        }
        self.tail = node;
    }

    /// Lowers all its tags, to no less than zero.
    #[cold]
    pub(crate) fn lower(&self, slab: &mut TagSlab, by: u128) {
        let mut at = self.head;
        while let Some(node) = slab.nodes.get_mut(at as usize) {
            node.tag = node.tag.saturating_sub(by);
            at = node.next;
        }
    }

    /// Removes all tags.
    pub(crate) fn clear(&mut self, slab: &mut TagSlab) {
        while self.pop(slab).is_some() {}
    }

    /// Removes and returns the first tag.
    pub(crate) fn pop(&mut self, slab: &mut TagSlab) -> Option<u128> {
        let index = self.head;
        let node = slab.nodes.get_mut(index as usize)?;
        let tag = node.tag;
        self.head = core::mem::replace(&mut node.next, slab.free);
        slab.free = index;
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn queues_of_tags_over_one_slab_are_separate(
            steps in proptest::collection::vec((0usize..3, any::<bool>(), 0u128..100), 1..200)
        ) {
            let mut slab = TagSlab::new(200).unwrap();
            let mut queues = [TagQueue::default(); 3];
            let mut model: [VecDeque<u128>; 3] = Default::default();
            for (which, push, tag) in steps {
                if push {
                    queues[which].push(&mut slab, tag);
                    model[which].push_back(tag);
                } else {
                    prop_assert_eq!(queues[which].pop(&mut slab), model[which].pop_front());
                }
                prop_assert_eq!(queues[which].first(&slab), model[which].front().copied());
                prop_assert!(slab.nodes.len() <= 200);
            }
        }
    }
}
