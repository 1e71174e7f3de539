//! Section 4: the structures that real-time requests may be kept in, compared by counted work on the requests of running schedulers.

use std::time::Instant;

use fairlink_core::schedulers::hfsc::{Counted, Hfsc, Steps};
use fairlink_core::{ClassId, Hierarchy};

use super::cost::{Call, FROM, Made, Meter, TO, arrivals, backlog, run, tree_of};
use super::requests::{Plain, Request, Requests, structures};
use crate::bench::machine;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};

/// Numbers of sessions.
const SESSIONS: [usize; 4] = [10, 100, 1000, 10_000];
/// Maximum number of sessions for the pass over all requests; more take too long.
const MOST_PLAIN: usize = 1000;
/// Times of requests are in parts of a nanosecond, as the scheduler has them.
const TICKS: u64 = 1 << 12;
/// Maximum lateness of a deadline of the scheduler, in these units.
const ROUNDING: u64 = 4;

/// Keeps the requests of a running scheduler in a structure, and compares its choices.
struct Kept {
    requests: Box<dyn Requests>,
    enqueue: u64,
    dequeue: u64,
    /// Choices that are not those of the first structure, and those that the scheduler did not make.
    other: usize,
}

/// The deadline curve of a session, in ticks: equation (7) of a line, and packets of one length.
#[derive(Clone, Copy)]
struct Line {
    begins: u64,
    packets: u64,
    /// In bit/s.
    rate: u64,
}

impl Line {
    /// Returns the time at which as many packets and `more` are due.
    fn due(self, more: u64) -> u64 {
        let bits = u128::from(self.packets + more) * u128::from(super::cost::BYTES) * 8;
        self.begins + (bits * u128::from(TICKS) * 1_000_000_000).div_ceil(u128::from(self.rate)) as u64
    }

    fn request(self) -> Request {
        Request { eligible: self.due(0), deadline: self.due(1) }
    }
}

/// Follows a scheduler.
struct Follower {
    kept: Vec<Kept>,
    /// By session: its last request, and the number of its packets.
    last: Vec<Request>,
    queued: Vec<u32>,
    /// By session: its curve, a line that begins with its last late backlog, and the number of its packets by the
    /// real-time criterion since.
    lines: Vec<Line>,
    packets: u64,
    /// Steps of the scheduler itself in its queues of real-time requests.
    own: [u64; 2],
}

impl Follower {
    fn new(tree: &Hierarchy, kept: Vec<Box<dyn Requests>>) -> Self {
        let line = |class: usize| Line { begins: 0, packets: 0, rate: tree.weight(ClassId(class as u32)) };
        let kept = kept.into_iter().map(|requests| Kept { requests, enqueue: 0, dequeue: 0, other: 0 });
        Self {
            kept: kept.collect(),
            last: vec![Request { eligible: 0, deadline: 0 }; tree.len()],
            queued: vec![0; tree.len()],
            lines: (0..tree.len()).map(line).collect(),
            packets: 0,
            own: [0; 2],
        }
    }

    /// Inserts the request of the head packet.
    fn request(&mut self, session: usize, measured: bool, enqueue: bool) {
        let request = self.lines[session].request();
        self.last[session] = request;
        self.each(measured, enqueue, |requests| requests.add(session, request));
    }

    fn each(&mut self, measured: bool, enqueue: bool, mut change: impl FnMut(&mut dyn Requests)) {
        for kept in &mut self.kept {
            let before = kept.requests.steps();
            change(kept.requests.as_mut());
            let steps = if measured { kept.requests.steps() - before } else { 0 };
            *(if enqueue { &mut kept.enqueue } else { &mut kept.dequeue }) += steps;
        }
    }

    /// Removes a packet of `session`, chosen by the real-time criterion or not.
    fn leave(&mut self, session: usize, now: u64, in_time: bool, measured: bool) {
        let mut chosen = Vec::new();
        self.each(measured, false, |requests| chosen.push(requests.first(now * TICKS)));
        for (kept, choice) in self.kept.iter_mut().zip(&chosen) {
            // Of equal deadlines the scheduler takes that which was eligible first, and the others the smaller session.
            let as_scheduler = match choice {
                Some(choice) => in_time && self.last[*choice].deadline.abs_diff(self.last[session].deadline) < ROUNDING,
                None => !in_time,
            };
            kept.other += usize::from(*choice != chosen[0]) + usize::from(!as_scheduler);
        }
        self.queued[session] -= 1;
        if in_time || self.queued[session] == 0 {
            self.each(measured, false, |requests| requests.remove(session));
            // Packets sent by the other criterion do not change the deadline.
            self.lines[session].packets += u64::from(in_time);
            if self.queued[session] > 0 {
                self.request(session, measured, false);
            }
        }
    }
}

impl Meter<Counted> for Follower {
    type Mark = Steps;
    type Took = Steps;

    fn begin(&self, hfsc: &Hfsc<Counted>) -> Steps {
        hfsc.steps()
    }

    fn took(&self, mark: Steps, hfsc: &Hfsc<Counted>) -> Steps {
        hfsc.steps().since(mark)
    }

    fn add(&mut self, made: Made, took: Steps) {
        let session = made.class.index();
        match made.call {
            Call::First => {
                let line = &mut self.lines[session];
                if made.now * TICKS > line.due(0) {
                    (line.begins, line.packets) = (made.now * TICKS, 0);
                }
                self.request(session, made.measured, true);
                self.queued[session] = 1;
            }
            Call::Behind => self.queued[session] += 1,
            Call::RealTime | Call::Sharing => {
                self.packets += u64::from(made.measured);
                self.leave(session, made.now, made.call == Call::RealTime, made.measured);
            }
        }
        if made.measured {
            let enqueue = matches!(made.call, Call::First | Call::Behind);
            self.own[usize::from(!enqueue)] += took.requests;
        }
    }
}

/// Thousandths of an equal part of the link that a session has: from about half to one and a half, in pairs that have 99 % of two parts together, no
/// two alike among a thousand neighbours.
pub(super) fn unequal(session: usize) -> u64 {
    let some = (session as u64 / 2 * 7919) % 499;
    if session.is_multiple_of(2) { 490 + some } else { 1490 - some }
}

/// The measurements for a number of sessions: steps for a packet by structure, of enqueue and dequeue, and the
/// scheduler's own.
struct Found {
    steps: Vec<(&'static str, [f64; 2])>,
    other: usize,
}

const OWN: &str = "the scheduler's own";

fn follow(lab: &Lab<'_>, sessions: usize, backlogged: bool) -> Result<Found, ClaimError> {
    lab.go_on()?;
    let tree = tree_of(&[sessions], unequal)?;
    let from = FROM.max(2 * sessions as u64);
    let span = from..from + (TO - FROM);
    let comes = if backlogged { backlog(&tree, span.end) } else { arrivals(&tree, 2 * span.end) };
    let named = structures(tree.len());
    let names = named.each_ref().map(|(name, _)| *name);
    let mut kept: Vec<Box<dyn Requests>> = Vec::new();
    if sessions <= MOST_PLAIN {
        kept.push(Box::new(Plain::new(tree.len())));
    }
    let plain = kept.len();
    kept.extend(named.into_iter().map(|(_, requests)| requests));
    let mut follower = Follower::new(&tree, kept);
    run(&tree, &comes, span, &mut follower)?;
    let part = |steps: u64| steps as f64 / follower.packets as f64;
    let steps = names.into_iter().zip(&follower.kept[plain..]);
    let steps = steps.map(|(name, kept)| (name, [part(kept.enqueue), part(kept.dequeue)]));
    let own = (OWN, follower.own.map(part));
    Ok(Found { steps: steps.chain([own]).collect(), other: follower.kept.iter().map(|kept| kept.other).sum() })
}

/// Tests Section 4.
pub(super) fn structures_of_section_4(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut table = Table::new(
        "Steps for a packet: entries, nodes and days that are changed or compared, at enqueue and at dequeue",
        &[
            "sessions",
            "structure",
            "enqueue, two-state",
            "dequeue, two-state",
            "enqueue, backlogged",
            "dequeue, backlogged",
        ],
    );
    let mut found = Vec::new();
    let mut other = 0;
    for sessions in SESSIONS {
        let [usual, busy] = [follow(lab, sessions, false)?, follow(lab, sessions, true)?];
        other += usual.other + busy.other;
        for ((name, usual), (_, busy)) in usual.steps.iter().zip(&busy.steps) {
            let cells = usual.iter().chain(busy).map(|steps| format!("{steps:.2}"));
            table.row([sessions.to_string(), (*name).to_owned()].into_iter().chain(cells));
        }
        found.push((usual.steps, busy.steps));
    }
    // By structure: the steps of all calls, and those of dequeue alone, of the `at`th number of sessions.
    let all = |at: usize, structure: usize| {
        let (usual, busy): &(Vec<_>, Vec<_>) = &found[at];
        [usual, busy].map(|steps: &Vec<(&str, [f64; 2])>| steps[structure].1)
    };
    let total = |at, structure| all(at, structure).map(|[enqueue, dequeue]| enqueue + dequeue);
    let mut rows = vec![
        Row::never("choices that differ between the structures, looking at all requests, and the scheduler", other)
            .judging("For maintaining the realtime requests we can use either an augmented binary tree data structure as the one described in [13], or a calendar queue [3] for keeping track of the eligible times in conjunction with a heap for maintaining the requests' deadlines."),
    ];
    for (load, at) in [("two-state sources", 0), ("all backlogged", 1)] {
        let growth = total(3, 1)[at] / total(1, 1)[at];
        rows.push(if at == 0 {
            // The number of active sessions, the subject of the sentence, is a different part of both.
            Row::shown(format!("{load}: steps of the tree for 10,000 sessions over those for 100"), Unit::Times, growth)
        } else {
            Row::new(
                format!("{load}: steps of the tree for 10,000 sessions over those for 100: the ratio of logarithms is 2"),
                Unit::Times,
                Expected::AtMost(2.0),
                growth,
            )
            .judging("While the former method makes possible to perform insertion and deletion (of the eligible request with the minimum deadline) in O(log n), where n is the number of active sessions")
        });
        for (place, sessions) in SESSIONS.into_iter().enumerate().skip(1) {
            rows.push(Row::new(
                format!("{load}, {sessions} sessions: steps of calendar queue and heap over those of the tree"),
                Unit::Times,
                Expected::AtMost(1.0),
                total(place, 0)[at] / total(place, 1)[at],
            ));
            rows.push(Row::shown(
                format!("{load}, {sessions} sessions: steps of the scheduler's own queues over those of calendar queue and heap"),
                Unit::Times,
                total(place, 3)[at] / total(place, 0)[at],
            ));
        }
    }
    let note = format!(
        "Each structure follows the same run of the scheduler that the gateway runs: it gets the request of each session that becomes active, and says at each departure what the real-time criterion chooses. \
         Up to {MOST_PLAIN} sessions they are compared with looking at all requests, and always with each other and with the scheduler. Sessions are unequal, so that no order of theirs is known beforehand. \
         The scheduler's own are two queues, one by eligible time and one by deadline, each a sorted list of up to 64 sessions or sorted lists under a tournament. A step is not the same work in all of them; hfsc.fig13 shows the times of the text's structures beside."
    );
    Ok(Finding::new(note, rows).with_table(table))
}

/// Follows requests alone, without a scheduler, for times.
fn timed(requests: &mut dyn Requests, packets: &[f64], count: u64) -> f64 {
    let sessions = packets.len();
    let mut deadlines: Vec<f64> = packets.to_vec();
    for (session, &deadline) in deadlines.iter().enumerate() {
        requests.add(session, Request { eligible: 0, deadline: deadline as u64 });
    }
    let each = packets.iter().sum::<f64>() / (sessions * sessions) as f64;
    let start = Instant::now();
    for packet in 0..count {
        let now = (packet as f64 * each) as u64;
        if let Some(session) = requests.first(now) {
            requests.remove(session);
            let eligible = deadlines[session];
            deadlines[session] += packets[session];
            requests.add(session, Request { eligible: eligible as u64, deadline: deadlines[session] as u64 });
        }
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Times of the structures on this machine, of a thousand sessions that are always busy: for Figure 13.
pub(super) fn times() -> Vec<Row> {
    let sessions = 1000;
    let packets: Vec<f64> = (0..sessions).map(|session| 1e9 / unequal(session) as f64).collect();
    structures(sessions)
        .into_iter()
        .map(|(name, mut requests)| {
            let ns = timed(requests.as_mut(), &packets, 50_000);
            Row::shown(format!("1000 requests in {name} (Section 4), a choice and a new one"), Unit::Seconds, ns / 1e9)
        })
        .collect()
}

/// Section 6.3: the text's forecast from its times, and the same from ours.
pub(super) fn forecast(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    // The text's: about 9 us for queueing and 3 us for classification.
    let forecast = 1.0 / (9e-6 + 3e-6);
    let passes = lab.by_effort(3, 15);
    let ours = super::cost::total(lab, 1000, passes)?;
    let found = super::classifier::time(lab, 1000, passes)?;
    let rows = vec![
        Row::new(
            "packets in a second of our times in the scheduler and in the classifier",
            Unit::Number,
            Expected::AtLeast(83_000.0),
            1e9 / (ours + found),
        ),
        Row::shown("the division itself: packets in a second of the text's 9 us and 3 us", Unit::Number, forecast),
        Row::shown("ours: time in the scheduler for a packet, 1000 sessions", Unit::Seconds, ours / 1e9),
        Row::shown("packets in a second of our time in the scheduler alone", Unit::Number, 1e9 / ours),
        Row::new(
            "packets in a second of our time in the scheduler and the text's 3 us",
            Unit::Number,
            Expected::Beside(83_000.0),
            1.0 / (ours / 1e9 + 3e-6),
        ),
        Row::new(
            "ours: time to find the class of a packet, 1000 classes with a prefix each",
            Unit::Seconds,
            Expected::Beside(3e-6),
            found / 1e9,
        )
        .judging("the average time to classify a packet based on hashing is about 3 μs"),
    ];
    let note = format!(
        "The text adds two times that it measured and takes the reciprocal; it leaves out the rest of forwarding (its footnote 4). A division proves nothing, so that the same of our times in the scheduler and in the classifier is judged, on {}; hfsc.classifier counts the steps of the latter. \
         fairlink-lab bench --gateway measures what the gateway forwards, with everything.",
        machine()
    );
    Ok(Finding::new(note, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::hfsc::cost::tree;

    #[test]
    fn structures_choose_as_the_scheduler_does_with_equal_and_with_unequal_sessions() {
        let never = || false;
        let lab = Lab::new(crate::claims::Effort::Quick, 1, &never);
        for backlogged in [false, true] {
            let found = follow(&lab, 100, backlogged).unwrap();
            assert_eq!(found.other, 0);
            assert!(found.steps.iter().all(|(_, steps)| steps[1] > 1.0), "{:?}", found.steps);
        }
        let tree = tree(&[10, 10]).unwrap();
        let mut follower = Follower::new(&tree, vec![Box::new(Plain::new(tree.len()))]);
        run(&tree, &arrivals(&tree, 2 * TO), FROM..TO, &mut follower).unwrap();
        assert_eq!((follower.kept[0].other, follower.packets), (0, TO - FROM));
    }
}
