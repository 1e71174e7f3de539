//! The scheduler's invariants, as checks.

use alloc::format;
use alloc::string::String;

use super::place::{LEAF, Place, State};
use super::{Entry, Hvt, Member, NIL, ROOT};

/// Checks all invariants.
///
/// # Errors
/// The broken one, in words.
pub(super) fn all(hvt: &Hvt) -> Result<(), String> {
    let mut waiting = alloc::vec![0u32; hvt.nodes.len()];
    let mut queued = alloc::vec![0u32; hvt.nodes.len()];
    let leaves = (0u32..).zip(hvt.leaves.iter()).map(|(id, leaf)| (id | LEAF, leaf.member));
    let nodes = (0u32..).zip(hvt.nodes.iter()).skip(1).map(|(at, node)| (at, node.member));
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
    for (at, node) in (0u32..).zip(hvt.nodes.iter()) {
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
    let bytes: u64 = hvt.leaves.iter().map(|leaf| leaf.queue.backlog(&hvt.slab).bytes).sum();
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
        let node = &hvt.nodes[child as usize];
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
    let node = &hvt.nodes[member.place.parent() as usize];
    let distance = member.distance(hvt.max_packet.into());
    let packet = node.rate * u64::from(hvt.max_packet);
    let (most, width) = if node.wheel == NIL {
        (distance, 0)
    } else {
        let index = hvt.wheels.group_of(node.wheel, distance);
        let group = &hvt.wheels.groups[hvt.behind[(node.entries + index) as usize] as usize];
        (group.distance, group.width())
    };
    let ahead = member.tag.wrapping_sub(node.v) as i64;
    if hvt.urgent.is_for_any() || (-((most + packet) as i64)..=(distance + width) as i64).contains(&ahead) {
        return Ok(());
    }
    Err(format!("class {child:x}: its tag is {ahead} ahead, with a distance of {distance}"))
}

/// Counts the children that are in the queue of `at`.
fn listed(hvt: &Hvt, at: u32) -> Result<u32, String> {
    let node = &hvt.nodes[at as usize];
    if node.wheel == NIL {
        for slot in (0..64).filter(|slot| node.on >> slot & 1 != 0) {
            let entry = (node.entries + slot) as usize;
            let member = hvt.member(hvt.behind[entry]);
            let Entry { start, finish } = hvt.entries[entry];
            let due = member.tag.wrapping_add(member.distance(hvt.max_packet.into()));
            if member.place.state() != State::Queued || (start, finish) != (member.tag, due) {
                return Err(format!("class {:x} is not as its entry says", hvt.behind[entry]));
            }
        }
        return Ok(node.on.count_ones());
    }
    let mut count = 0;
    for index in 0..64 {
        let entry = (node.entries + index) as usize;
        if node.on >> index & 1 == 0 {
            continue;
        }
        let group = &hvt.wheels.groups[hvt.behind[entry] as usize];
        if group.full == 0 {
            return Err(format!("group {index} of inner class {at} is empty and listed"));
        }
        for (_, first) in group.firsts() {
            let mut child = first;
            while child != NIL {
                let member = hvt.member(child);
                if member.place.state() != State::Queued || member.place.parent() != at {
                    return Err(format!("class {child:x} is in the wheel of inner class {at}"));
                }
                count += 1;
                child = member.link;
            }
        }
    }
    if at == ROOT && count == 0 && node.on != 0 {
        return Err("the root has a group without children".into());
    }
    Ok(count)
}
