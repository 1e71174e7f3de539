//! The invariants of a shared tree between calls of its workers.

use alloc::format;
use alloc::string::String;

use super::SharedTree;
use super::record::{BITS, Record, units};
use super::tree::{Classes, ROOT};
use crate::contract::{ClassId, Hierarchy};

impl Classes {
    /// Returns the record of the node `at` as of now, exactly.
    fn exact(&self, at: u32) -> Record {
        let mut record = self.node(at).load();
        if at != ROOT && record.weight == 0 {
            return record;
        }
        let inflow = self.inflow(at, &record, self.exact_clock(at));
        record.distribute(inflow);
        record
    }

    fn exact_clock(&self, at: u32) -> u128 {
        if at == ROOT { u128::from(self.pace.given()) << 64 } else { self.exact(self.node(at).parent).v }
    }
}

impl SharedTree {
    /// Returns X, the units of credit below the node of `class`: what leaves have and what is not distributed.
    fn credit_units(&self, class: ClassId) -> i128 {
        let children = self.hierarchy.children(class);
        let at = (0..self.classes.nodes.len()).find(|&at| self.classes.nodes[at].class == class.0).unwrap_or(0) as u32;
        let record = self.classes.exact(at);
        let below = children.iter().filter(|child| self.classes.children[child.index()].holders() > 0).map(|&child| {
            if self.hierarchy.is_leaf(child) {
                self.classes.children[child.index()].credit(record.v)
            } else {
                self.credit_units(child)
            }
        });
        record.pending + below.sum::<i128>()
    }

    /// Returns X_a, the credit of all leaves below the inner class `a`, in whole bytes, rounded down. For use while no
    /// worker is in a call.
    #[must_use]
    pub fn credit(&self, class: ClassId) -> i64 {
        (self.credit_units(class) >> BITS) as i64
    }

    /// Checks the invariants. For use while no worker is in a call.
    ///
    /// # Errors
    /// The broken invariant, in words.
    pub fn check_invariants(&self) -> Result<(), String> {
        let (sent, dropped) = self.classes.pace.totals();
        let given = self.classes.pace.given();
        let (due, credit) = (given.wrapping_sub(sent).wrapping_sub(dropped) as i64, self.credit_units(ClassId::ROOT));
        if i128::from(due) << BITS != credit {
            return Err(format!("R = {given} B, sent {sent} B, dropped {dropped} B, but X = {credit} of 2^-56 B"));
        }
        for at in 0..self.classes.nodes.len() as u32 {
            self.check_node(at)?;
        }
        Ok(())
    }

    fn check_node(&self, at: u32) -> Result<(), String> {
        let node = self.classes.node(at);
        let class = ClassId(node.class);
        let child = |class: &ClassId| &self.classes.children[class.index()];
        let (record, largest) = (self.classes.exact(at), self.hierarchy.link().max_packet);
        let children = self.hierarchy.children(class);
        let on: u64 = children.iter().map(child).filter(|child| child.holders() > 0).map(|child| child.weight).sum();
        if on != record.weight {
            return Err(format!("class {}: W = {}, but the children that are on weigh {on}", class.0, record.weight));
        }
        if at != ROOT && (self.classes.as_child(at).holders() > 0) != (on > 0) {
            return Err(format!("class {}: W = {on} does not agree with its state in its parent", class.0));
        }
        if at != ROOT && on == 0 && record.pending != 0 {
            return Err(format!("class {}: off, and has {} of 2^-56 B", class.0, record.pending));
        }
        let (off, inner) = below(&self.hierarchy, self, class);
        let least = -units(u64::from(largest) * off + self.config.ahead * inner);
        if record.pending < least {
            return Err(format!("class {}: owes {} of 2^-56 B, more than {}", class.0, -record.pending, -least));
        }
        for leaf in children.iter().filter(|&&class| self.hierarchy.is_leaf(class)) {
            let credit = child(leaf).credit(record.v);
            if child(leaf).holders() > 0 && credit < -units(largest.into()) {
                return Err(format!("leaf {}: owes {} of 2^-56 B", leaf.0, -credit));
            }
        }
        Ok(())
    }
}

/// Returns the number of leaves below `class` that are off, and that of inner classes from it down.
fn below(tree: &Hierarchy, shared: &SharedTree, class: ClassId) -> (u64, u64) {
    let of = |&child: &ClassId| match tree.is_leaf(child) {
        true => (u64::from(shared.classes.children[child.index()].holders() == 0), 0),
        false => below(tree, shared, child),
    };
    tree.children(class).iter().map(of).fold((0, 1), |all, one| (all.0 + one.0, all.1 + one.1))
}
