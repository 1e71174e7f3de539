//! The invariants of H-FSC, written down apart from the code that keeps them.

use alloc::vec::Vec;

use super::{Hfsc, NONE, String, Work, format, ticks};

fn children<W: Work>(hfsc: &Hfsc<W>, class: usize) -> Result<bool, String> {
    let of = &hfsc.classes[class];
    let Some(children) = hfsc.children.get(of.children as usize) else { return Ok(!of.queue.is_empty()) };
    children.ready.check()?;
    children.held.check()?;
    Ok(children.is_active())
}

/// Checks everything.
pub(super) fn all<W: Work>(hfsc: &Hfsc<W>) -> Result<(), String> {
    hfsc.asleep.check()?;
    hfsc.eligible.check()?;
    let active = (0..hfsc.classes.len()).map(|class| children(hfsc, class)).collect::<Result<Vec<_>, _>>()?;
    let (mut packets, mut bytes) = (0, 0);
    for (index, of) in hfsc.classes.iter().enumerate() {
        let backlog = of.queue.backlog(&hfsc.slab);
        packets += backlog.packets;
        bytes += backlog.bytes;
        if of.real_time != NONE {
            let id = of.real_time;
            let real_time = &hfsc.real_time[id as usize];
            let (asleep, eligible) = (hfsc.asleep.key(id), hfsc.eligible.key(id));
            let holds = match (asleep, eligible) {
                (None, None) => of.queue.is_empty(),
                (Some(at), None) => !of.queue.is_empty() && at == real_time.deadlines.eligible_at(real_time.served),
                (None, Some(deadline)) => !of.queue.is_empty() && deadline == hfsc.deadline(id),
                _ => false,
            };
            if !holds {
                return Err(format!("leaf {index} with {backlog:?}: eligible {asleep:?}, deadline {eligible:?}"));
            }
        }
        if of.parent == NONE {
            continue;
        }
        let siblings = &hfsc.children[hfsc.classes[of.parent as usize].children as usize];
        let (ready, held) = (siblings.ready.key(of.place), siblings.held.key(of.place));
        let holds = match (ready, held) {
            (None, None) => !(active[index] && of.shares),
            (Some(time), None) => {
                let fits = hfsc.fit(index as u32) <= ticks(hfsc.now);
                active[index] && of.shares && fits && time == of.virtual_time
            }
            (None, Some(fit)) => active[index] && of.shares && fit == hfsc.fit(index as u32),
            _ => false,
        };
        if !holds {
            let active = active[index];
            return Err(format!("class {index}, active: {active}: ready {ready:?}, held {held:?}"));
        }
    }
    let counted = hfsc.slab.backlog();
    if (packets, bytes) != (counted.packets, counted.bytes) {
        return Err(format!("{packets} packets of {bytes} B are queued, {counted:?} is counted"));
    }
    Ok(())
}
