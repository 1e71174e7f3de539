//! Section 4: data structures for real-time requests. A session with packets has one request: from its eligible time on
//! it may be chosen, and the one with the least deadline is.
//!
//! The text has two structures, implemented here with counters: a calendar queue of eligible times with a heap of
//! deadlines, and a binary tree by eligible time with the least deadline below each node. Sources: R. Brown, "Calendar
//! queues", CACM 31(10), 1988; I. Stoica and H. Abdel-Wahab's tree is the text's \[13\]; random priorities keep the
//! tree balanced (a treap).

use crate::claims::random::SeededRng;

/// A request: its eligible time and deadline in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) eligible: u64,
    pub(super) deadline: u64,
}

/// Requests by session, each once. Of equal deadlines the smaller session comes first.
pub(super) trait Requests {
    /// Inserts the request of a session without one.
    fn add(&mut self, session: usize, request: Request);

    /// Returns the session whose request has the least deadline of those that are eligible at `now`, which never
    /// decreases.
    fn first(&mut self, now: u64) -> Option<usize>;

    /// Removes the request of a session that has one.
    fn remove(&mut self, session: usize);

    /// Returns the entries, nodes and days of the calendar that were changed or compared so far.
    fn steps(&self) -> u64;
}

/// A pass over all requests: the reference for the others.
pub(super) struct Plain(Vec<Option<Request>>);

impl Plain {
    pub(super) fn new(sessions: usize) -> Self {
        Self(vec![None; sessions])
    }
}

impl Requests for Plain {
    fn add(&mut self, session: usize, request: Request) {
        self.0[session] = Some(request);
    }

    fn first(&mut self, now: u64) -> Option<usize> {
        let eligible = self.0.iter().enumerate().filter_map(|(session, request)| Some((session, (*request)?)));
        let eligible = eligible.filter(|(_, request)| request.eligible <= now);
        eligible.min_by_key(|&(session, request)| (request.deadline, session)).map(|(session, _)| session)
    }

    fn remove(&mut self, session: usize) {
        self.0[session] = None;
    }

    fn steps(&self) -> u64 {
        0
    }
}

const ABSENT: usize = usize::MAX;

/// A binary heap of sessions by key, with the position of each session.
struct Heap {
    order: Vec<(u64, usize)>,
    /// By session: its place.
    places: Vec<usize>,
    steps: u64,
}

impl Heap {
    fn new(sessions: usize) -> Self {
        Self { order: Vec::with_capacity(sessions), places: vec![ABSENT; sessions], steps: 0 }
    }

    fn first(&self) -> Option<(u64, usize)> {
        self.order.first().copied()
    }

    fn push(&mut self, key: u64, session: usize) {
        self.order.push((key, session));
        self.rise(self.order.len() - 1);
    }

    fn remove(&mut self, session: usize) {
        let place = std::mem::replace(&mut self.places[session], ABSENT);
        self.order.swap_remove(place);
        if place < self.order.len() {
            let place = self.rise(place);
            self.sink(place);
        }
    }

    /// Moves the entry at `place` up to its position, and returns that.
    fn rise(&mut self, mut place: usize) -> usize {
        self.steps += 1;
        while place > 0 && self.order[place] < self.order[(place - 1) / 2] {
            self.steps += 1;
            self.order.swap(place, (place - 1) / 2);
            self.places[self.order[place].1] = place;
            place = (place - 1) / 2;
        }
        self.places[self.order[place].1] = place;
        place
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2].into_iter().filter(|&child| child < self.order.len());
            let Some(least) = below.min_by_key(|&child| self.order[child]) else { break };
            self.steps += 1;
            if self.order[place] <= self.order[least] {
                break;
            }
            self.order.swap(place, least);
            self.places[self.order[place].1] = place;
            place = least;
        }
        if let Some(&(_, session)) = self.order.get(place) {
            self.places[session] = place;
        }
    }
}

/// Two heaps: of those that are not eligible by eligible time, of the others by deadline.
pub(super) struct TwoHeaps {
    asleep: Heap,
    eligible: Heap,
    deadlines: Vec<u64>,
}

impl TwoHeaps {
    pub(super) fn new(sessions: usize) -> Self {
        Self { asleep: Heap::new(sessions), eligible: Heap::new(sessions), deadlines: vec![0; sessions] }
    }
}

impl Requests for TwoHeaps {
    fn add(&mut self, session: usize, request: Request) {
        self.deadlines[session] = request.deadline;
        self.asleep.push(request.eligible, session);
    }

    fn first(&mut self, now: u64) -> Option<usize> {
        while let Some((_, session)) = self.asleep.first().filter(|&(eligible, _)| eligible <= now) {
            self.asleep.remove(session);
            self.eligible.push(self.deadlines[session], session);
        }
        self.eligible.first().map(|(_, session)| session)
    }

    fn remove(&mut self, session: usize) {
        let heap = if self.asleep.places[session] == ABSENT { &mut self.eligible } else { &mut self.asleep };
        heap.remove(session);
    }

    fn steps(&self) -> u64 {
        self.asleep.steps + self.eligible.steps
    }
}

/// A calendar queue: days of equal length, in a cyclic year; a day has the requests of all years, in order.
struct Calendar {
    /// A power of two of them.
    days: Vec<Vec<(u64, usize)>>,
    /// Length of a day, in nanoseconds.
    day: u64,
    count: usize,
    /// All before this time was taken out.
    from: u64,
    steps: u64,
}

impl Calendar {
    const FEWEST: usize = 2;

    fn new() -> Self {
        Self { days: vec![Vec::new(); Self::FEWEST], day: 1, count: 0, from: 0, steps: 0 }
    }

    fn place(&self, at: u64) -> usize {
        (at / self.day) as usize & (self.days.len() - 1)
    }

    /// Inserts a request, under its time or, if that has passed, under the last queried one. Returns that.
    fn add(&mut self, at: u64, session: usize) -> u64 {
        let at = at.max(self.from);
        self.put(at, session);
        self.count += 1;
        if self.count > 2 * self.days.len() {
            self.resize(2 * self.days.len());
        }
        at
    }

    fn put(&mut self, at: u64, session: usize) {
        let place = self.place(at);
        let day = &mut self.days[place];
        // From the end: requests come late in the day more often than not.
        let behind = day.iter().rev().take_while(|&&entry| entry > (at, session)).count();
        self.steps += 1 + behind as u64;
        day.insert(day.len() - behind, (at, session));
    }

    fn remove(&mut self, at: u64, session: usize) {
        let place = self.place(at);
        let day = &mut self.days[place];
        if let Some(found) = day.iter().position(|&entry| entry == (at, session)) {
            self.steps += 1 + found as u64;
            day.remove(found);
            self.removed();
        }
    }

    fn removed(&mut self) {
        self.count -= 1;
        if self.count < self.days.len() / 2 && self.days.len() > Self::FEWEST {
            self.resize(self.days.len() / 2);
        }
    }

    /// Removes and returns a request whose time is at most `now`, if there is one.
    fn pop(&mut self, now: u64) -> Option<usize> {
        // No request is before `from`: the days from then to now have all that is wanted, and a year has all days.
        for _ in 0..self.days.len() {
            let place = self.place(self.from);
            self.steps += 1;
            if let Some(&(_, session)) = self.days[place].first().filter(|&&(at, _)| at <= now) {
                self.days[place].remove(0);
                self.removed();
                return Some(session);
            }
            let next = (self.from / self.day + 1).saturating_mul(self.day);
            if next > now {
                break;
            }
            self.from = next;
        }
        self.from = self.from.max(now);
        None
    }

    /// Changes the number of days, each of three times the mean distance of the requests to come.
    fn resize(&mut self, days: usize) {
        let mut all: Vec<(u64, usize)> = self.days.iter_mut().flat_map(std::mem::take).collect();
        all.sort_unstable();
        // As many as in Brown's method; distant ones carry no information on the next.
        let sample = &all[..all.len().min(25)];
        let span = sample.last().map_or(0, |&(last, _)| last - sample[0].0);
        self.day = (3 * span / sample.len().max(1) as u64).max(1);
        self.days = vec![Vec::new(); days];
        for (at, session) in all {
            self.put(at, session);
        }
    }
}

/// The text's first structure: a calendar queue of eligible times with a heap of deadlines.
pub(super) struct CalendarAndHeap {
    calendar: Calendar,
    eligible: Heap,
    requests: Vec<Request>,
}

impl CalendarAndHeap {
    pub(super) fn new(sessions: usize) -> Self {
        let requests = vec![Request { eligible: 0, deadline: 0 }; sessions];
        Self { calendar: Calendar::new(), eligible: Heap::new(sessions), requests }
    }
}

impl Requests for CalendarAndHeap {
    fn add(&mut self, session: usize, request: Request) {
        let eligible = self.calendar.add(request.eligible, session);
        self.requests[session] = Request { eligible, ..request };
    }

    fn first(&mut self, now: u64) -> Option<usize> {
        while let Some(session) = self.calendar.pop(now) {
            self.eligible.push(self.requests[session].deadline, session);
        }
        self.eligible.first().map(|(_, session)| session)
    }

    fn remove(&mut self, session: usize) {
        if self.eligible.places[session] == ABSENT {
            self.calendar.remove(self.requests[session].eligible, session);
        } else {
            self.eligible.remove(session);
        }
    }

    fn steps(&self) -> u64 {
        self.calendar.steps + self.eligible.steps
    }
}

/// A node of the tree is a session.
#[derive(Clone, Copy)]
struct Node {
    request: Request,
    priority: u64,
    below: [usize; 2],
    /// The session with the least deadline at or below.
    least: usize,
}

/// The text's second structure: a binary tree by eligible time, each node with the least deadline below it.
pub(super) struct Tree {
    nodes: Vec<Node>,
    root: usize,
    dice: SeededRng,
    steps: u64,
}

impl Tree {
    pub(super) fn new(sessions: usize) -> Self {
        let node =
            Node { request: Request { eligible: 0, deadline: 0 }, priority: 0, below: [ABSENT; 2], least: ABSENT };
        Self { nodes: vec![node; sessions], root: ABSENT, dice: SeededRng::new(13, sessions as u64), steps: 0 }
    }

    fn key(&self, node: usize) -> (u64, usize) {
        (self.nodes[node].request.eligible, node)
    }

    /// Returns the one of two sessions, each of which may be absent, that has the lesser deadline.
    fn sooner(&self, one: usize, other: usize) -> usize {
        let key = |session: usize| {
            self.nodes.get(session).map_or((u64::MAX, ABSENT), |node| (node.request.deadline, session))
        };
        if key(other) < key(one) { other } else { one }
    }

    fn least(&self, node: usize) -> usize {
        self.nodes.get(node).map_or(ABSENT, |node| node.least)
    }

    fn update(&mut self, node: usize) {
        self.steps += 1;
        let [left, right] = self.nodes[node].below;
        let below = self.sooner(self.least(left), self.least(right));
        self.nodes[node].least = self.sooner(node, below);
    }

    /// Returns the tree of the entries below `key`, and that of the rest.
    fn split(&mut self, node: usize, key: (u64, usize)) -> [usize; 2] {
        if node == ABSENT {
            return [ABSENT; 2];
        }
        let side = usize::from(self.key(node) < key);
        let mut parts = self.split(self.nodes[node].below[side], key);
        self.nodes[node].below[side] = parts[1 - side];
        self.update(node);
        parts[1 - side] = node;
        parts
    }

    /// Joins two trees, the first of which is before the other.
    fn merge(&mut self, first: usize, second: usize) -> usize {
        if first == ABSENT || second == ABSENT {
            return if first == ABSENT { second } else { first };
        }
        if self.nodes[first].priority > self.nodes[second].priority {
            let below = self.nodes[first].below[1];
            self.nodes[first].below[1] = self.merge(below, second);
            self.update(first);
            first
        } else {
            let below = self.nodes[second].below[0];
            self.nodes[second].below[0] = self.merge(first, below);
            self.update(second);
            second
        }
    }
}

impl Requests for Tree {
    fn add(&mut self, session: usize, request: Request) {
        let priority = self.dice.below(u64::MAX);
        self.nodes[session] = Node { request, priority, below: [ABSENT; 2], least: session };
        let [before, behind] = self.split(self.root, self.key(session));
        let before = self.merge(before, session);
        self.root = self.merge(before, behind);
    }

    fn first(&mut self, now: u64) -> Option<usize> {
        let (mut at, mut found) = (self.root, ABSENT);
        while at != ABSENT {
            self.steps += 1;
            let Node { request, below, .. } = self.nodes[at];
            if request.eligible <= now {
                found = self.sooner(found, self.sooner(at, self.least(below[0])));
                at = below[1];
            } else {
                at = below[0];
            }
        }
        (found != ABSENT).then_some(found)
    }

    fn remove(&mut self, session: usize) {
        let key = self.key(session);
        let [before, rest] = self.split(self.root, key);
        let [_, behind] = self.split(rest, (key.0, key.1 + 1));
        self.root = self.merge(before, behind);
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}

/// Returns the structures that are compared, by name.
pub(super) fn structures(sessions: usize) -> [(&'static str, Box<dyn Requests>); 3] {
    [
        ("calendar queue and heap", Box::new(CalendarAndHeap::new(sessions))),
        ("binary tree with least deadlines", Box::new(Tree::new(sessions))),
        ("two heaps", Box::new(TwoHeaps::new(sessions))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_structures_choose_what_looking_at_all_requests_chooses() {
        for case in 0..200 {
            let mut dice = SeededRng::new(5, case);
            let mut plain = Plain::new(40);
            let mut tried = structures(40);
            let mut now = 0;
            for _ in 0..400 {
                // Now and then a long time, in which the calendar's years pass.
                now += dice.below(900) * if dice.below(20) == 0 { 100 } else { 1 };
                let session = dice.below(40) as usize;
                if plain.0[session].is_none() {
                    // Some are eligible before they are put in.
                    let eligible = (now + dice.below(5_000)).saturating_sub(1_000);
                    let request = Request { eligible, deadline: eligible + dice.below(2_000) };
                    plain.add(session, request);
                    tried.iter_mut().for_each(|(_, requests)| requests.add(session, request));
                    continue;
                }
                // The chosen one leaves, or else one that sleeps.
                let chosen = plain.first(now);
                for (name, requests) in &mut tried {
                    assert_eq!(requests.first(now), chosen, "{name} at {now}, case {case}");
                }
                let leaves = chosen.unwrap_or(session);
                plain.remove(leaves);
                tried.iter_mut().for_each(|(_, requests)| requests.remove(leaves));
            }
        }
    }
}
