//! Lenders and borrowers in a tree of classes, kept so that the next leaf that may send is found without a walk over
//! all of them.
//!
//! A class *lends* to the backlogged leaves below it, *borrows* from its parent, *stays* for itself, or *stops* all
//! below it. The lender of a leaf is the first class that lends on the way up from it, the leaf included. A leaf has no
//! lender if a class on that way stays for itself, or if any class up to the root stops it. The level of the lender is
//! the level that the leaf *offers* at: 0 for a leaf, else one more than the children's largest.
//!
//! **Sets.** Each class that is not a leaf has a set of its children for each priority and each level up to its own.
//! The set of a level below its own holds the children through which a lender of that level is reached. The set of its
//! own level holds the children that borrow from it. A leaf that gets or loses backlog, or a class that changes its
//! standing, moves between two sets of its parent, with all leaves below it. A class whose set became empty leaves its
//! parent's.
//!
//! **Turns** belong to the caller. [`BorrowingTree::next_in_turn`] takes turns over all leaves under a limit of levels.
//! [`BorrowingTree::children`] takes them within a level, going down from the root; the caller keeps a state by number
//! for each class, level of lenders and priority.
//!
//! **Cost.** A change: O(levels) steps of O(log n) to the base 64, for each set that is not empty. A search over all
//! leaves: the same, times the number of searched levels. Nothing is allocated after construction. Memory: one bit per
//! child for each set; there are as many sets as levels times priorities in use.
//!
//! **Invariants.** A child is in a set exactly when its standing and its own sets say so ([`BorrowingTree::check`]).

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::ops::Range;

use crate::contract::{BuildError, ClassId, Hierarchy, OutOfMemory};
use crate::parts::{
    bitset,
    memory::{Stack, bytes_of, filled},
    prefetch::prefetch,
};

mod plan;

pub use plan::Plan;

const ROOT: u32 = ClassId::ROOT.0;

/// The relation of a class to the leaves below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The class lends. For a leaf: it sends on its own account.
    Lends,
    /// The class passes requests to its parent.
    Borrows,
    /// The class neither lends nor borrows. Classes below it may lend.
    Stays,
    /// No class below it may send, regardless of lenders.
    Stops,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    /// Position among the parent's children.
    position: u32,
    /// The children, in `BorrowingTree::children`.
    first_child: u32,
    children: u32,
    /// The number of its first turn, the start of its first set in `BorrowingTree::words`, and the words of each.
    first_turn: u32,
    first_word: usize,
    words: u32,
    level: u8,
    /// Priority of a leaf.
    priority: u8,
    standing: Standing,
    /// True if a leaf has packets.
    backlogged: bool,
}

/// The children of a class through which lenders of one level are reached, for one priority.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildSet<'a> {
    /// Number of the caller's state for the requested lenders, below [`BorrowingTree::turns`].
    pub(crate) number: u32,
    /// True if the set is of the level of its class, which then lends.
    pub(crate) is_own: bool,
    words: &'a [u64],
    children: &'a [u32],
}

impl ChildSet<'_> {
    /// Returns the position of the set's first child from position `from` on.
    #[must_use]
    #[inline(always)]
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        bitset::next(self.words, self.children.len(), from)
    }

    /// Returns the positions in the set that are less than 64 behind `position`.
    #[inline(always)]
    pub(crate) fn near(&self, position: usize) -> impl Iterator<Item = usize> {
        let start = position + 1;
        let word = |at: usize| if at * 64 < self.children.len() { u128::from(self.words[at]) } else { 0 };
        let both = word(start / 64) | word(start / 64 + 1) << 64;
        let mut members = (both >> (start % 64)) as u64;
        core::iter::from_fn(move || {
            let next = (members != 0).then(|| start + members.trailing_zeros() as usize);
            members &= members.wrapping_sub(1);
            next
        })
    }

    /// Returns the child of the class at `position`.
    #[must_use]
    #[inline(always)]
    pub(crate) fn child(&self, position: usize) -> u32 {
        self.children[position]
    }
}

/// The sets of a tree.
#[derive(Debug)]
pub(crate) struct BorrowingTree {
    nodes: Stack<Node>,
    children: Stack<u32>,
    words: Box<[u64]>,
    /// The root's sets that are not empty, in the order of their numbers.
    ready: Box<[u64]>,
    /// Cached result of [`BorrowingTree::lowest`], which is read for each packet.
    lowest: Option<(u8, u8)>,
    /// Number of changes of sets.
    changes: u64,
    /// Number of turns of all classes.
    turns: u32,
    /// One more than the largest priority of a leaf.
    priorities: u8,
}

impl BorrowingTree {
    /// Makes the sets of `tree` without backlog. Every class borrows. `priorities` are those of the classes by id; only
    /// those of leaves matter.
    ///
    /// # Errors
    /// [`BuildError::Parameter`] for a tree whose turns are too many to count in 32 bits.
    pub(crate) fn new(tree: &Hierarchy, priorities: &[u8]) -> Result<Self, BuildError> {
        let levels = levels(tree)?;
        let count = tree.leaves().iter().map(|leaf| priorities[leaf.index()]).max().unwrap_or(0) + 1;
        let mut borrowing = Self {
            nodes: Stack::with_room(tree.len())?,
            children: Stack::with_room(tree.len())?,
            words: Box::default(),
            ready: Box::default(),
            lowest: None,
            changes: 0,
            turns: 0,
            priorities: count,
        };
        let (mut turns, mut words) = (0u64, 0);
        // A class below a lender has one for each level that the lender may have.
        let each = (u64::from(levels[0]) + 1) * u64::from(count);
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            let level = levels[class.index()];
            let children = tree.children(class);
            let own_words = if level == 0 { 0 } else { bitset::words(children.len()) };
            let own_sets = if level == 0 { 0 } else { (usize::from(level) + 1) * usize::from(count) };
            borrowing.nodes.push(Node {
                parent: tree.parent(class).map_or(ROOT, |parent| parent.0),
                position: 0,
                first_child: borrowing.children.len() as u32,
                children: children.len() as u32,
                first_turn: turns as u32,
                first_word: words,
                words: own_words as u32,
                level,
                priority: priorities[class.index()],
                standing: Standing::Lends,
                backlogged: false,
            });
            children.iter().for_each(|child| borrowing.children.push(child.0));
            turns += if level == 0 { 0 } else { each };
            words += own_sets * own_words;
            if turns > u64::from(u32::MAX) {
                let max = u64::from(u32::MAX);
                return Err(BuildError::Parameter { class, what: "number of turns", value: turns, min: 0, max });
            }
        }
        for parent in 0..borrowing.nodes.len() {
            let Node { first_child, children, .. } = borrowing.nodes[parent];
            for position in 0..children {
                let child = borrowing.children[(first_child + position) as usize];
                borrowing.nodes[child as usize].position = position;
            }
        }
        borrowing.words = filled(words, 0)?;
        borrowing.ready = filled(bitset::words(borrowing.root_sets()), 0)?;
        borrowing.turns = turns as u32;
        Ok(borrowing)
    }

    /// Memory of an instance for `tree`, in bytes, including construction, and the number of its turns; the maximum if
    /// there is no memory to compute it.
    pub(crate) fn memory(tree: &Hierarchy) -> (u64, u64) {
        let Ok(levels) = levels(tree) else { return (u64::MAX / 4, u64::MAX / 16) };
        let priorities = usize::from(Plan::priorities(tree));
        let each = (usize::from(levels[0]) + 1) * priorities;
        let (mut words, mut turns) = (bitset::words(each), 0);
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()).filter(|&class| !tree.is_leaf(class)) {
            let own = (usize::from(levels[class.index()]) + 1) * priorities;
            words += own * bitset::words(tree.children(class).len());
            turns += each as u64;
        }
        let nodes = bytes_of::<Node>(tree.len()) + bytes_of::<u32>(tree.len()) + bytes_of::<u8>(tree.len());
        (nodes + bytes_of::<u64>(words), turns)
    }

    /// Returns a number that grows whenever a set changes.
    #[must_use]
    #[inline(always)]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Prefetches the state of `class`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, class: u32) {
        prefetch(&self.nodes, class as usize);
    }

    /// Returns one more than the largest priority of a leaf.
    #[must_use]
    pub(crate) fn priorities(&self) -> u8 {
        self.priorities
    }

    /// Returns the parent. The root is its own parent.
    #[must_use]
    #[inline(always)]
    pub(crate) fn parent(&self, class: u32) -> u32 {
        self.nodes[class as usize].parent
    }

    /// Returns the level: 0 for a leaf, else one more than the largest level of the children.
    #[must_use]
    #[inline(always)]
    pub(crate) fn level(&self, class: u32) -> u8 {
        self.nodes[class as usize].level
    }

    /// Returns the standing last set for `class`.
    #[must_use]
    #[inline(always)]
    pub(crate) fn standing(&self, class: u32) -> Standing {
        self.nodes[class as usize].standing
    }

    /// Returns the parent, the level and the standing.
    #[must_use]
    #[inline(always)]
    pub(crate) fn place_of(&self, class: u32) -> (u32, u8, Standing) {
        let Node { parent, level, standing, .. } = self.nodes[class as usize];
        (parent, level, standing)
    }

    /// Sets the standing of `class`.
    pub(crate) fn stand(&mut self, class: u32, standing: Standing) {
        let Node { standing: old, level, .. } = self.nodes[class as usize];
        if old == standing {
            return;
        }
        // Entries below its own level pass through it unless it stops them.
        let lowest = if old == Standing::Stops || standing == Standing::Stops { 0 } else { level };
        for turn in [Self::unlink, Self::link] {
            for at in lowest..=level {
                for priority in 0..self.priorities {
                    if self.offers(class, at, priority) {
                        turn(self, class, at, priority);
                    }
                }
            }
            self.nodes[class as usize].standing = standing;
        }
        if class == ROOT {
            self.note_lowest();
        }
    }

    /// Records that `leaf` got its first packet or sent its last one.
    pub(crate) fn set_backlogged(&mut self, leaf: u32, backlogged: bool) {
        let Node { priority, backlogged: before, .. } = self.nodes[leaf as usize];
        if before == backlogged {
            return;
        }
        self.nodes[leaf as usize].backlogged = backlogged;
        if backlogged {
            self.link(leaf, 0, priority);
        } else {
            self.unlink(leaf, 0, priority);
        }
    }

    /// Returns true if it is of the same tree, with the same priorities.
    pub(crate) fn fits(&self, with: &Self) -> bool {
        let place = |node: &Node| (node.parent, node.position, node.children, node.level, node.priority);
        self.nodes.len() == with.nodes.len()
            && self.nodes.iter().map(place).eq(with.nodes.iter().map(place))
            && self.priorities == with.priorities
    }

    /// Removes all backlog.
    pub(crate) fn clear(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.backlogged = false);
        self.words.fill(0);
        self.ready.fill(0);
        self.lowest = None;
        self.changes += 1;
    }

    /// Number of turns: one for each class with children, level of lenders and priority.
    #[must_use]
    pub(crate) fn turns(&self) -> usize {
        self.turns as usize
    }

    /// Returns the set of `class`, which is not a leaf, for `level` and `priority`. A class below the lender uses the
    /// set of its own level, with separate turns for each level `lender`.
    #[must_use]
    #[inline(always)]
    pub(crate) fn children(&self, class: u32, level: u8, priority: u8, lender: u8) -> ChildSet<'_> {
        let node = &self.nodes[class as usize];
        let within = self.within(level, priority);
        ChildSet {
            number: node.first_turn + self.within(lender, priority) as u32,
            is_own: level == node.level,
            words: &self.words[node.first_word + within * node.words as usize..][..node.words as usize],
            children: &self.children[node.first_child as usize..][..node.children as usize],
        }
    }

    /// Returns the number of a set among those of its class.
    fn within(&self, level: u8, priority: u8) -> usize {
        usize::from(level) * usize::from(self.priorities) + usize::from(priority)
    }

    /// Returns the sets of the root.
    fn root_sets(&self) -> usize {
        (usize::from(self.nodes[ROOT as usize].level) + 1) * usize::from(self.priorities)
    }

    /// Range of the words of a set.
    fn set(&self, class: u32, level: u8, priority: u8) -> Range<usize> {
        let node = &self.nodes[class as usize];
        let start = node.first_word + self.within(level, priority) * node.words as usize;
        start..start + node.words as usize
    }

    /// Returns the level of the parent's set that contains `class` for its entries at `level`; `None` if there is none.
    fn place(&self, class: u32, level: u8) -> Option<u8> {
        let node = &self.nodes[class as usize];
        match node.standing {
            Standing::Stops => None,
            _ if level < node.level => Some(level),
            Standing::Lends => Some(level),
            Standing::Borrows => Some(self.nodes[node.parent as usize].level),
            Standing::Stays => None,
        }
    }

    /// Inserts `class`, which has an entry at `level` and `priority`, into its parent's set, and so on upwards.
    fn link(&mut self, mut class: u32, mut level: u8, priority: u8) {
        self.changes += 1;
        while class != ROOT
            && let Some(above) = self.place(class, level)
        {
            let Node { parent, position, .. } = self.nodes[class as usize];
            let (set, size) = (self.set(parent, above, priority), self.nodes[parent as usize].children as usize);
            if !bitset::insert(&mut self.words[set], size, position as usize) {
                return;
            }
            if parent == ROOT {
                let (root_sets, number) = (self.root_sets(), self.within(above, priority));
                bitset::insert(&mut self.ready, root_sets, number);
                self.note_lowest();
            }
            (class, level) = (parent, above);
        }
    }

    /// Reverses [`BorrowingTree::link`].
    fn unlink(&mut self, mut class: u32, mut level: u8, priority: u8) {
        self.changes += 1;
        while class != ROOT
            && let Some(above) = self.place(class, level)
        {
            let Node { parent, position, .. } = self.nodes[class as usize];
            let (set, size) = (self.set(parent, above, priority), self.nodes[parent as usize].children as usize);
            if !bitset::remove(&mut self.words[set], size, position as usize) {
                return;
            }
            if parent == ROOT {
                let (root_sets, number) = (self.root_sets(), self.within(above, priority));
                bitset::remove(&mut self.ready, root_sets, number);
                self.note_lowest();
            }
            (class, level) = (parent, above);
        }
    }

    /// Returns true if `class` has something at `level` and `priority`.
    fn offers(&self, class: u32, level: u8, priority: u8) -> bool {
        let node = &self.nodes[class as usize];
        if node.level == 0 {
            return node.backlogged && node.priority == priority;
        }
        !bitset::is_empty(&self.words[self.set(class, level, priority)])
    }

    /// Returns the lowest level of a lender of any backlogged leaf, and the smallest priority among the leaves with it.
    #[must_use]
    #[inline(always)]
    pub(crate) fn lowest(&self) -> Option<(u8, u8)> {
        self.lowest
    }

    fn note_lowest(&mut self) {
        self.lowest = bitset::next(&self.ready, self.root_sets(), 0).and_then(|number| {
            let priorities = usize::from(self.priorities);
            let (level, priority) = ((number / priorities) as u8, (number % priorities) as u8);
            let Node { level: top, standing, .. } = self.nodes[ROOT as usize];
            let open = match standing {
                Standing::Lends => true,
                Standing::Borrows | Standing::Stays => level < top,
                Standing::Stops => false,
            };
            open.then_some((level, priority))
        });
    }

    /// Returns the level of the lender of `leaf`, if it has one.
    #[cfg(test)]
    pub(crate) fn lender_level(&self, leaf: u32) -> Option<u8> {
        let (mut class, mut asks, mut lender) = (leaf, true, None);
        loop {
            let node = &self.nodes[class as usize];
            match node.standing {
                Standing::Lends if asks => (asks, lender) = (false, Some(node.level)),
                Standing::Lends | Standing::Borrows => {}
                Standing::Stays => asks = false,
                Standing::Stops => return None,
            }
            if class == ROOT {
                return lender;
            }
            class = node.parent;
        }
    }

    /// Returns the backlogged leaf of `priority` whose turn it is, among those with a lender at `highest` or below, and
    /// true if that turn begins now. The leaves take turns in the order of the tree. A turn lasts until
    /// [`BorrowingTree::end_turn`].
    ///
    /// `turns` holds the position of the turns among a class's children, by class; all 0 at first. The caller has one
    /// for each `priority` and `highest`. Turns below a class that cannot send for a while resume later where they
    /// were. Otherwise its first leaf would have a turn each time that the class becomes able to send.
    #[must_use]
    pub(crate) fn next_in_turn(&self, priority: u8, highest: u8, turns: &mut [u32]) -> Option<(u32, bool)> {
        self.lowest()?;
        let search = Search { borrowing: self, priority, highest };
        search.descend(turns, ROOT, search.own(ROOT, false), true)
    }

    /// Ends the turn of `leaf`, which was found last.
    pub(crate) fn end_turn(&self, leaf: u32, turns: &mut [u32]) {
        let Node { parent, position, .. } = self.nodes[leaf as usize];
        turns[parent as usize] = (position + 1) << 1;
    }

    /// Checks that every class is in exactly the right sets of its parent.
    ///
    /// # Errors
    /// The class and the set, in words.
    #[cfg(feature = "invariants")]
    pub(crate) fn check(&self) -> Result<(), String> {
        for level in 0..=self.level(ROOT) {
            for priority in 0..self.priorities {
                let is = bitset::contains(&self.ready, self.within(level, priority));
                if is != self.offers(ROOT, level, priority) {
                    return Err(format!("the root's set of level {level}, priority {priority}, is ready: {is}"));
                }
            }
        }
        for class in 1..self.nodes.len() as u32 {
            let Node { parent, position, level, .. } = self.nodes[class as usize];
            for priority in 0..self.priorities {
                for above in 0..=self.nodes[parent as usize].level {
                    let is = bitset::contains(&self.words[self.set(parent, above, priority)], position as usize);
                    let offers = |at: u8| self.place(class, at) == Some(above) && self.offers(class, at, priority);
                    if is != (0..=level).any(offers) {
                        return Err(format!("class {class} in the set of level {above}, priority {priority}: {is}"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the level of each class by id: 0 for a leaf, else one more than the largest level of the children.
fn levels(tree: &Hierarchy) -> Result<Box<[u8]>, OutOfMemory> {
    let mut levels = filled(tree.len(), 0u8)?;
    for class in tree.classes().rev() {
        if let Some(parent) = tree.parent(class) {
            levels[parent.index()] = levels[parent.index()].max(levels[class.index()] + 1);
        }
    }
    Ok(levels)
}

/// One search for a leaf.
struct Search<'a> {
    borrowing: &'a BorrowingTree,
    priority: u8,
    highest: u8,
}

impl Search<'_> {
    /// Returns true if entries of `class` at its own level may be served, given `above`, the same for its parent.
    fn own(&self, class: u32, above: bool) -> bool {
        let node = &self.borrowing.nodes[class as usize];
        match node.standing {
            Standing::Lends => node.level <= self.highest,
            Standing::Borrows => above,
            Standing::Stays | Standing::Stops => false,
        }
    }

    /// Returns the position of the first child from `from` on through which a leaf can be reached.
    fn next_child(&self, class: u32, own: bool, from: usize) -> Option<usize> {
        let level = self.borrowing.level(class);
        let below = 0..level.min(self.highest.saturating_add(1));
        let levels = below.chain(own.then_some(level));
        levels.filter_map(|level| self.borrowing.children(class, level, self.priority, level).next(from)).min()
    }

    /// Returns the leaf below `class` whose turn it is, and true if its turn begins. `fresh` is true if `class` newly
    /// gets its parent's turn. If not, it has nothing to send once each of its children has had a turn.
    ///
    /// A turn is twice the position of the child from which on to look, and one more if that child has its turn.
    fn descend(&self, turns: &mut [u32], class: u32, own: bool, fresh: bool) -> Option<(u32, bool)> {
        let mut wraps = fresh && turns[class as usize] > 0;
        loop {
            let turn = turns[class as usize];
            let Some(position) = self.next_child(class, own, turn as usize >> 1) else {
                turns[class as usize] = 0;
                if !core::mem::replace(&mut wraps, false) {
                    return None;
                }
                continue;
            };
            let under_way = (position as u32) << 1 | 1;
            let begins = turn != under_way;
            let child = self.borrowing.children(class, 0, self.priority, 0).child(position);
            let found = match self.borrowing.level(child) {
                0 => Some((child, begins)),
                _ => self.descend(turns, child, self.own(child, own), begins),
            };
            turns[class as usize] = under_way + u32::from(found.is_none());
            if found.is_some() {
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ClassConfig, LinkConfig, Rate};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn tree(parents: &[u32]) -> Hierarchy {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::MAX));
        for (index, &parent) in parents.iter().enumerate() {
            tree.add(ClassId(parent % (index as u32 + 1)), ClassConfig::default()).unwrap();
        }
        tree.build().unwrap()
    }

    proptest! {
        #[test]
        fn in_turn_every_leaf_that_may_send_has_one_turn_before_any_has_another(
            parents in prop::collection::vec(any::<u32>(), 1..40),
            steps in prop::collection::vec((any::<u32>(), 0u8..6, any::<u32>()), 1..80),
            begun in prop::collection::vec(any::<u8>(), 40),
        ) {
            let tree = tree(&parents);
            let priorities: Vec<_> = (0..tree.len()).map(|class| (class % 3) as u8).collect();
            let mut borrowing = BorrowingTree::new(&tree, &priorities).unwrap();
            let leaves: Vec<u32> = tree.leaves().iter().map(|leaf| leaf.0).collect();
            let mut backlogged = alloc::vec![false; tree.len()];
            // Turns at arbitrary positions.
            let limits = 6;
            let turns = |class: usize| {
                let children = tree.children(ClassId(class as u32)).len() as u32;
                u32::from(begun[class % begun.len()]) % (2 * children + 1)
            };
            let start: Vec<u32> = (0..tree.len()).map(turns).collect();
            let mut turns: Vec<_> = (0..limits * 3).map(|_| start.clone()).collect();
            for (class, what, from) in steps {
                let class = class % tree.len() as u32;
                match what {
                    0 => borrowing.stand(class, Standing::Lends),
                    1 => borrowing.stand(class, Standing::Borrows),
                    2 => borrowing.stand(class, Standing::Stays),
                    3 => borrowing.stand(class, Standing::Stops),
                    _ => {
                        let leaf = leaves[class as usize % leaves.len()];
                        backlogged[leaf as usize] = what == 4 || from > u32::MAX / 2;
                        borrowing.set_backlogged(leaf, backlogged[leaf as usize]);
                    }
                }
                #[cfg(feature = "invariants")]
                borrowing.check().unwrap();
                for (place, turns) in turns.iter_mut().enumerate() {
                    let (priority, highest) = ((place % 3) as u8, (place / 3) as u8);
                    let mut may: Vec<u32> = leaves.iter().copied().filter(|&leaf| {
                        backlogged[leaf as usize]
                            && priorities[leaf as usize] == priority
                            && borrowing.lender_level(leaf).is_some_and(|level| level <= highest)
                    }).collect();
                    if priority >= borrowing.priorities() || may.is_empty() {
                        prop_assert!(priority >= borrowing.priorities() || borrowing.next_in_turn(priority, highest, turns).is_none());
                        continue;
                    }
                    // Turns that had begun below some class may end first.
                    let mut next = |ends: bool| {
                        let (leaf, _) = borrowing.next_in_turn(priority, highest, turns).unwrap();
                        assert_eq!(borrowing.next_in_turn(priority, highest, turns), Some((leaf, false)));
                        if ends { borrowing.end_turn(leaf, turns) }
                        leaf
                    };
                    (0..2 * may.len()).for_each(|_| { next(true); });
                    for _ in 0..2 {
                        let mut round: Vec<_> = (0..may.len()).map(|_| next(true)).collect();
                        round.sort_unstable();
                        may.sort_unstable();
                        prop_assert_eq!(&round, &may);
                    }
                    next(false);
                }
                let waiting = leaves.iter().filter(|&&leaf| backlogged[leaf as usize]);
                let offers = waiting.filter_map(|&leaf| Some((borrowing.lender_level(leaf)?, priorities[leaf as usize])));
                prop_assert_eq!(borrowing.lowest(), offers.min());
            }
        }
    }
}
