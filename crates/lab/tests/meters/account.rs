//! Account and order: every arrival was sent, dropped or is queued, once; classes are first in, first out; the link
//! sends one packet after the other at its rate, without a pause while there is something to send.

use std::collections::{BTreeMap, HashMap, VecDeque};

use fairlink_core::{DropReason, Nanos, Rate, WhenFull};

use crate::judge::{Judge, ensure};
use crate::trace::{Event, Seen, Stage, Told, What};

/// The queues, as seen from outside.
struct Queues {
    /// Packets that came and neither left nor were dropped: class, length, source, arrival.
    live: HashMap<u64, (usize, u32, u32, Nanos)>,
    /// By class and flow, numbers in the order of arrival.
    lines: HashMap<(usize, u32), VecDeque<u64>>,
    packets: Vec<u64>,
    bytes: Vec<u64>,
}

/// Judges the account of a link.
pub(crate) fn account(seen: &Seen, judge: &mut Judge) {
    let classes = seen.names.len();
    let mut queues =
        Queues { live: HashMap::new(), lines: HashMap::new(), packets: vec![0; classes], bytes: vec![0; classes] };
    let mut sums = vec![Told::default(); classes];
    let (mut next, mut now) = (0, Nanos::ZERO);
    for event in &seen.events {
        judge.count("account");
        ensure!(judge, "account", event.at >= now, "{event:?} comes after {now}");
        if event.at > now {
            room(seen, &queues, now, judge);
        }
        now = event.at;
        let sum = &mut sums[event.class];
        let kind = match event.what {
            What::Came => 0,
            What::Sent { .. } => 1,
            What::Dropped(_) => 2,
        };
        sum.packets[kind] += 1;
        sum.bytes[kind] += u64::from(event.len);
        if let What::Dropped(reason) = event.what {
            *sum.drops.entry(reason.into()).or_default() += 1;
        }
        if event.what == What::Came {
            ensure!(judge, "account", event.number == next, "{event:?} is not packet {next}");
            next += 1;
            come(seen, &mut queues, event);
        } else {
            go(seen, &mut queues, event, judge);
        }
    }
    for (class, sum) in sums.iter_mut().enumerate() {
        let Some(told) = &seen.told[class] else {
            ensure!(judge, "account", sum.packets[0] == 0, "{} is no leaf and has packets", seen.names[class]);
            continue;
        };
        (sum.packets[3], sum.bytes[3]) = (queues.packets[class], queues.bytes[class]);
        let drops: BTreeMap<_, _> = told.drops.iter().filter(|(_, count)| **count > 0).map(|(k, v)| (*k, *v)).collect();
        let name = &seen.names[class];
        ensure!(
            judge,
            "account",
            sum.packets == told.packets && sum.bytes == told.bytes && sum.drops == drops,
            "{name}: came, sent, dropped, queued were {:?} packets, {:?} B, {:?}; reported are {:?}, {:?}, {drops:?}",
            sum.packets,
            sum.bytes,
            sum.drops,
            told.packets,
            told.bytes
        );
    }
}

fn line(seen: &Seen, event: &Event) -> (usize, u32) {
    (event.class, if seen.by_flow(event.class) { event.source } else { 0 })
}

fn come(seen: &Seen, queues: &mut Queues, event: &Event) {
    queues.live.insert(event.number, (event.class, event.len, event.source, event.at));
    queues.lines.entry(line(seen, event)).or_default().push_back(event.number);
    queues.packets[event.class] += 1;
    queues.bytes[event.class] += u64::from(event.len);
}

/// A packet leaves or is dropped.
fn go(seen: &Seen, queues: &mut Queues, event: &Event, judge: &mut Judge) {
    let known = queues.live.remove(&event.number);
    let Some((class, len, source, arrived)) = known else {
        return judge.broken("account", format!("{event:?} is not queued"));
    };
    ensure!(
        judge,
        "account",
        (class, len, source) == (event.class, event.len, event.source) && event.at >= arrived,
        "{event:?} came as a packet of class {class} with {len} B at {arrived}"
    );
    queues.packets[class] -= 1;
    queues.bytes[class] -= u64::from(len);
    let stage = seen.stage(event.at);
    let line = queues.lines.entry(line(seen, event)).or_default();
    match event.what {
        What::Sent { done } => {
            judge.count("order");
            let first = line.front().copied();
            ensure!(
                judge,
                "order",
                first == Some(event.number),
                "{event:?} is sent before packet {first:?} of its line"
            );
            ensure!(judge, "account", done > event.at, "{event:?} takes no time");
            let largest = stage.tree.link().max_packet;
            ensure!(judge, "account", len <= largest || seen.stages.len() > 1, "{event:?} is longer than {largest} B");
        }
        What::Dropped(reason) => {
            ensure!(judge, "account", is_possible(seen, stage, event, reason), "{event:?}: not a reason here");
        }
        What::Came => {}
    }
    if let Some(place) = line.iter().position(|&number| number == event.number) {
        line.remove(place);
    }
}

/// Returns true if a packet may be dropped for this.
fn is_possible(seen: &Seen, stage: &Stage, event: &Event, reason: DropReason) -> bool {
    let link = stage.tree.link();
    let config = stage.leaf(event.class).map(|leaf| *stage.tree.config(leaf));
    let at_change = seen.stages.iter().skip(1).any(|stage| stage.start == event.at);
    match reason {
        DropReason::TooLong => event.len > link.max_packet,
        DropReason::QueuePackets | DropReason::QueueBytes => {
            config.is_some_and(|config| config.limits.bytes < u32::MAX || config.limits.packets < u32::MAX)
        }
        DropReason::TotalPackets => true,
        DropReason::PushedOut => link.when_full == WhenFull::PushOut,
        DropReason::Congestion => config.is_some_and(|config| config.queue.is_active()) || at_change,
        DropReason::ClassRemoved => at_change,
        DropReason::NotALeaf | DropReason::Purged => false,
    }
}

/// No queue is longer than its limit between two instants, except for packets in the transmit queue.
fn room(seen: &Seen, queues: &Queues, now: Nanos, judge: &mut Judge) {
    let stage = seen.stage(now);
    let link = stage.tree.link();
    let total: u64 = queues.packets.iter().sum();
    let most = u64::from(link.max_queued) + stage.behind();
    ensure!(judge, "account", total <= most, "at {now}: {total} packets are queued, and there is room for {most}");
    for (class, &packets) in queues.packets.iter().enumerate().filter(|(_, packets)| **packets > 0) {
        let Some(leaf) = stage.leaf(class) else { continue };
        let limits = stage.tree.config(leaf).limits;
        let bytes = u64::from(limits.bytes).saturating_add(stage.behind() * u64::from(link.max_packet));
        ensure!(
            judge,
            "account",
            packets <= u64::from(limits.packets) + stage.behind() && queues.bytes[class] <= bytes,
            "at {now}: {} has {packets} packets, {} B queued; {limits:?}",
            seen.names[class],
            queues.bytes[class]
        );
    }
}

/// Maximum error of a time that was rounded twice, in ns.
const ROUNDING: u64 = 2;

/// Judges the link: packets follow each other at its rate, and none waits needlessly while the link is idle.
pub(crate) fn serial(seen: &Seen, judge: &mut Judge) {
    let mut free = Nanos::ZERO;
    // Packets that may not wait: their number, and the time since when there have been some.
    let mut waiting = vec![0u64; seen.names.len()];
    let mut since: Option<Nanos> = None;
    // The start of a busy period, and the bits sent in it at one rate.
    let mut busy: Option<(Nanos, u128, Rate)> = None;
    let mut stages = seen.stages.iter().skip(1).map(|stage| stage.start).peekable();
    for event in &seen.events {
        if let Some(change) = stages.next_if(|&change| change <= event.at) {
            // The packets that may wait are different now, and a packet may be on the link at the old rate.
            (since, busy) = (None, None);
            free = free.max(change);
        }
        let stage = seen.stage(event.at);
        if event.what == What::Came {
            waiting[event.class] += 1;
        }
        if let What::Sent { done } = event.what {
            judge.count("link");
            let rate = stage.tree.link().rate;
            ensure!(judge, "link", event.at >= free, "{event:?} starts before the packet ahead has left at {free}");
            let due = since.filter(|_| seen.stages.len() == 1 || stage.start < event.at);
            if let Some(since) = due {
                let due = free.max(since);
                let late = event.at.0.saturating_sub(due.0);
                ensure!(
                    judge,
                    "link",
                    late <= ROUNDING,
                    "{event:?}: the link was idle for {late} ns, with packets that need not wait since {since}"
                );
            }
            // If no packet waits, or only those that may, the shortest pause ends a busy period.
            let goes_on = event.at == free || due.is_some_and(|since| since <= free) && event.at.0 <= free.0 + ROUNDING;
            let (start, bits) = match busy {
                Some((start, bits, old)) if goes_on && old == rate => (start, bits),
                _ => (event.at, 0),
            };
            let bits = bits + 8 * u128::from(event.len);
            let ideal = (bits * 1_000_000_000 / u128::from(rate.bps())) as u64;
            let took = (done - start).0;
            let crosses = seen.stages.iter().skip(1).any(|stage| (event.at.0..=done.0).contains(&stage.start.0));
            ensure!(
                judge,
                "link",
                crosses || took.abs_diff(ideal) <= ROUNDING,
                "{event:?}: {bits} bits since {start} take {ideal} ns at {rate:?} and took {took} ns"
            );
            (busy, free) = (Some((start, bits, rate)), done);
        }
        if event.what != What::Came {
            waiting[event.class] = waiting[event.class].saturating_sub(1);
        }
        let mut may_not = waiting.iter().enumerate().filter(|(_, count)| **count > 0);
        let need_not =
            may_not.any(|(class, _)| stage.leaf(class).is_some_and(|leaf| !stage.may_wait(leaf, &seen.pooled)));
        since = match (need_not, since) {
            (false, _) => None,
            (true, known) => known.or(Some(event.at)),
        };
    }
    if let Some(since) = since {
        let due = free.max(since);
        ensure!(
            judge,
            "link",
            due.0 + ROUNDING >= seen.duration.0,
            "idle from {due} to the end at {}, with packets that need not wait",
            seen.duration
        );
    }
}
