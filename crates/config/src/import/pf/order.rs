//! Matches in the order in which they count, as a file of classes, of which the first match counts.

use super::Reading;
use super::queues::Tree;
use super::rules::Found;
use crate::import::notes::wrong_also;
use crate::matching::{Match, PortRange, Prefix, Reach};

/// Assigns matches to the classes of a tree, and sorts the classes so that each frame gets the same class as in the
/// order of `found`. `None` if there is no such order; the log has the error.
pub(super) fn into_file_order(tree: &mut Tree, found: Vec<Found>, reading: &mut Reading<'_>) -> Option<()> {
    let mut reach = Reach::default();
    let mut kept: Vec<Found> = Vec::new();
    for found in found {
        match reach.add(&found.is) {
            None => kept.push(found),
            Some(_) if found.class == tree.default => {}
            Some(earlier) => {
                // Not news where the same queue takes it.
                let same = kept.get(earlier).is_some_and(|kept| kept.class == found.class);
                if !same {
                    let name = &tree.classes[found.class].name;
                    let what =
                        format!("\"{}\" of the queue \"{name}\": another rule takes all of its frames", found.text);
                    reading.notes.left_out(reading.source, Some(found.at), what);
                }
            }
        }
    }
    // Trailing matches of the default queue are redundant.
    while kept.last().is_some_and(|last| last.class == tree.default) {
        kept.pop();
    }
    let order = order(tree, &kept, reading)?;
    for found in kept {
        tree.classes[found.class].matches.push(found.text);
    }
    for class in &tree.classes {
        let is_default = tree.classes[tree.default].name == class.name;
        if !class.inner && !is_default && class.matches.is_empty() {
            let what = format!(
                "WARNING: class of queue \"{}\" has no rule and receives no traffic; write a match",
                class.name
            );
            reading.notes.left_out(reading.source, Some(class.at.clone()), what);
        }
    }
    reorder(tree, &order);
    Some(())
}

/// The positions of all classes in their new order: parents before children, and leaves as their matches need.
fn order(tree: &Tree, kept: &[Found], reading: &mut Reading<'_>) -> Option<Vec<usize>> {
    let count = tree.classes.len();
    // By class: those that have to stand before it, each with the places of both matches.
    let mut before: Vec<Vec<(usize, usize, usize)>> = vec![Vec::new(); count];
    for (later, found) in kept.iter().enumerate() {
        for (earlier, other) in kept[..later].iter().enumerate() {
            let known = before[found.class].iter().any(|&(class, ..)| class == other.class);
            if other.class != found.class && !known && may_meet(&other.is, &found.is) {
                before[found.class].push((other.class, earlier, later));
            }
        }
    }
    let mut order: Vec<usize> = (0..count).filter(|&at| tree.classes[at].inner).collect();
    let mut left: Vec<usize> = (0..count).filter(|&at| !tree.classes[at].inner).collect();
    while !left.is_empty() {
        let free = |class: &usize| before[*class].iter().all(|(earlier, ..)| !left.contains(earlier));
        let Some(place) = left.iter().position(free) else {
            let of = |class: &usize| before[*class].iter().find(|(earlier, ..)| left.contains(earlier));
            if let Some((class, &(other, earlier, later))) = left.iter().find_map(|class| Some((*class, of(class)?))) {
                let what = format!(
                    "the rules of the queues \"{}\" and \"{}\" alternate, and a link file has the matches of a class together",
                    tree.classes[other].name, tree.classes[class].name
                );
                let help = "group the rules of each queue, or avoid overlaps";
                wrong_also(
                    kept[later].at.clone(),
                    what,
                    help,
                    kept[earlier].at.clone(),
                    "the other rule",
                    &mut reading.log,
                );
            }
            return None;
        };
        order.push(left.remove(place));
    }
    Some(order)
}

/// Puts classes into this order.
fn reorder(tree: &mut Tree, order: &[usize]) {
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| places[old] = new);
    let mut all: Vec<_> = std::mem::take(&mut tree.classes).into_iter().enumerate().collect();
    all.sort_by_key(|&(old, _)| places[old]);
    tree.classes = all.into_iter().map(|(_, class)| class).collect();
    for class in &mut tree.classes {
        class.parent = class.parent.map(|parent| places[parent]);
    }
    tree.default = places[tree.default];
}

/// Returns true if a frame may meet both, by a simple test.
fn may_meet(one: &Match, other: &Match) -> bool {
    fn same<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
        one.zip(other).is_none_or(|(one, other)| one == other)
    }
    let ports = |one: Option<PortRange>, other: Option<PortRange>| {
        one.zip(other).is_none_or(|(one, other)| one.first <= other.last && other.first <= one.last)
    };
    let nets = |one: Option<Prefix>, other: Option<Prefix>| {
        one.zip(other).is_none_or(|(one, other)| one.covers(&other) || other.covers(&one))
    };
    same(one.version, other.version)
        && same(one.proto, other.proto)
        && nets(one.src, other.src)
        && nets(one.dst, other.dst)
        && ports(one.sport, other.sport)
        && ports(one.dport, other.dport)
}
