//! The scheduler's invariants, as checks.

use alloc::format;
use alloc::string::String;

use super::list::{Entry, Item};
use super::place::{LEAF, Place, State};
use super::queues::Queues;
use super::{Hvt, Member, NIL};

/// Checks all invariants.
///
/// # Errors
/// The broken one, in words.
pub(super) fn all(hvt: &Hvt) -> Result<(), String> {
    let mut waiting = alloc::vec![0u32; hvt.queues.nodes.len()];
    let mut queued = alloc::vec![0u32; hvt.queues.nodes.len()];
    let leaves = (0u32..).zip(hvt.queues.leaves.iter()).map(|(id, leaf)| (id | LEAF, leaf.member));
    let nodes = (0u32..).zip(hvt.queues.nodes.iter()).skip(1).map(|(at, node)| (at, node.member));
    for (child, member) in leaves.chain(nodes).filter(|(_, member)| !member.place.is_any(Place::INNER)) {
        let parent = member.place.parent() as usize;
        standing(hvt, child, member)?;
        match member.place.state() {
            State::Queued => {
                queued[parent] += 1;
                tag(hvt, child, member)?;
            }
            State::Waiting => waiting[parent] += 1,
            State::Held | State::Off => {}
        }
    }
    for (at, node) in (0u32..).zip(hvt.queues.nodes.iter()) {
        if node.waiting != waiting[at as usize] {
            return Err(format!(
                "inner class {at}: {} waiting children, {} counted",
                waiting[at as usize], node.waiting
            ));
        }
        let listed = listed(hvt, at)?;
        if listed != queued[at as usize] {
            return Err(format!("inner class {at}: {} children in the queue, {listed} listed", queued[at as usize]));
        }
    }
    let bytes: u64 = hvt.queues.leaves.iter().map(|leaf| leaf.queue.backlog(&hvt.slab).bytes).sum();
    if bytes != hvt.slab.backlog().bytes {
        return Err(format!("leaves have {bytes} B, {} B are counted", hvt.slab.backlog().bytes));
    }
    Ok(())
}

/// A child is in the queue, waits, or is idle, as what is queued below it says.
fn standing(hvt: &Hvt, child: u32, member: Member) -> Result<(), String> {
    let (ready, waits) = if child & LEAF != 0 {
        (hvt.is_ready(child), false)
    } else {
        let node = &hvt.queues.nodes[child as usize];
        (node.on != 0, node.waiting > 0)
    };
    let blocked = member.place.is_any(Place::BLOCKED);
    if blocked != hvt.ceilings.waits_for(child) {
        return Err(format!("class {child:x}: blocked {blocked}, and its ceiling differs"));
    }
    let holds = match member.place.state() {
        // Blocked by an urgent packet while it was in the queue, and found when it is chosen.
        State::Queued => ready,
        State::Waiting => waits || ready && blocked,
        State::Held => !ready && hvt.last != NIL,
        State::Off => !ready && !waits,
    };
    if holds {
        return Ok(());
    }
    Err(format!("class {child:x}: {:?}, ready {ready}, waits {waits}, blocked {blocked}", member.place))
}

/// The tag of a queued child is near the clock.
fn tag(hvt: &Hvt, child: u32, member: Member) -> Result<(), String> {
    let node = &hvt.queues.nodes[member.place.parent() as usize];
    let distance = member.distance(hvt.queues.max_packet);
    let packet = hvt.queues.sums[member.place.parent() as usize].least * hvt.queues.max_packet;
    let (most, width) = if node.is_wheel {
        let entry = Queues::entry(node, &hvt.queues.entries, member.place.group());
        let group = &hvt.queues.groups[entry.base as usize];
        (group.distance, group.width())
    } else {
        (distance, 0)
    };
    let ahead = member.tag.wrapping_sub(node.v) as i64;
    if hvt.urgent.is_for_any() || (-(most as i64)..=(distance + width - packet) as i64).contains(&ahead) {
        return Ok(());
    }
    Err(format!("class {child:x}: its tag is {ahead} ahead, with a distance of {distance}"))
}

/// Counts the children that are in the queue of `at`.
fn listed(hvt: &Hvt, at: u32) -> Result<u32, String> {
    let node = &hvt.queues.nodes[at as usize];
    let mut count = 0;
    for index in (0..64).filter(|index| node.on >> index & 1 != 0) {
        let entry = Queues::entry(node, &hvt.queues.entries, index);
        if !node.is_wheel {
            count += ordered(hvt, at, entry)?;
            continue;
        }
        let group = &hvt.queues.groups[entry.base as usize];
        if group.full == 0 {
            return Err(format!("group {index} of inner class {at} is empty and listed"));
        }
        for (_, first) in group.firsts() {
            count += list(hvt, at, first)?;
        }
    }
    Ok(count)
}

/// Counts the children of a wheel from `child` on.
fn list(hvt: &Hvt, at: u32, mut child: u32) -> Result<u32, String> {
    let mut count = 0;
    while child != NIL {
        queued(hvt, at, child)?;
        count += 1;
        child = hvt.queues.member(child).link;
    }
    Ok(count)
}

fn queued(hvt: &Hvt, at: u32, child: u32) -> Result<(), String> {
    let place = hvt.queues.member(child).place;
    if place.state() == State::Queued && place.parent() == at {
        return Ok(());
    }
    Err(format!("class {child:x} is in the queue of inner class {at}: {place:?}"))
}

/// Counts the children of a list, which is in the order of tags, and whose entry says who is first.
fn ordered(hvt: &Hvt, at: u32, entry: &Entry) -> Result<u32, String> {
    let mut before = None;
    let mut count = 0;
    for Item { tag, child, .. } in entry.list(&hvt.queues.items) {
        let member = hvt.queues.member(child);
        queued(hvt, at, child)?;
        let is_late = before.is_some_and(|before| (tag.wrapping_sub(before) as i64) < 0);
        let is_first = before.is_some() || (tag, child) == (entry.start, entry.first);
        if member.tag != tag || member.distance(hvt.queues.max_packet) != entry.distance || is_late || !is_first {
            return Err(format!("class {child:x} is not as its list says: {member:?}, {entry:?}"));
        }
        before = Some(tag);
        count += 1;
    }
    if before != Some(entry.last()) {
        return Err(format!("the last of a list of inner class {at} is not {}", entry.last()));
    }
    Ok(count)
}
