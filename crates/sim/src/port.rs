//! The driver's port of the link: sources in front, measurements behind, packets in flight between.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use fairlink_core::{
    Amount, ClassId, DropReason, DropSink, ECN_CAPABLE, Hierarchy, Nanos, Overhead, Packet, Port, flow_bits, with_host,
};
use fairlink_traffic::{ClosedReport, Interval, Model, SourceSpec, TrafficMix, What};

use crate::change::Stage;
use crate::measure::{Delays, Spans};
use crate::metrics::Metrics;
use crate::misplaced::MisplacedMeter;
use crate::observe::{Fate, PacketSeen, Watching};
use crate::routes::{Coming, Journey, Routes, Visits};
use crate::scenario::{Options, Scenario, SimError};
use crate::series::Series;

/// Packets that a greedy source keeps in its queue: enough that the class never looks idle to a scheduler, few enough
/// that it is silent soon after it stops. Fewer if the queues hold less.
const GREEDY_PACKETS: u32 = 8;

/// Packets taken in at a time. More that come at one instant, from a shaper of a huge burst, come in several turns: memory does not
/// grow with them, and the run can be stopped between them.
const MAX_ARRIVALS: usize = 1 << 20;

/// A packet between its source and the end of the link. Its class is the scenario's.
#[derive(Clone, Copy, Debug)]
struct Flight {
    arrived: Nanos,
    class: ClassId,
    len: u32,
    /// Its length as its source sent it.
    frame: u32,
    /// Its place in the order of arrival.
    number: u64,
    source: u32,
    /// Index of its journey; [`NO_JOURNEY`] if its route ends here.
    journey: u32,
    /// Identifies the packet to a source that receives feedback on its packets.
    tag: u32,
    marked: bool,
    under_way: bool,
}

impl Flight {
    fn packet(&self) -> PacketSeen {
        let Self { number, class, arrived, frame, len, source, .. } = *self;
        PacketSeen { number, class, arrived, frame, len, source }
    }
}

/// Maximum number of packets between a scheduler and its link: those no longer keep a class from looking idle.
fn behind(tree: &Hierarchy) -> u32 {
    tree.link().transmit_queue.map_or(0, |queue| queue.packets)
}

/// The journey of a packet without one.
const NO_JOURNEY: u32 = u32::MAX;
/// The tag of a packet whose source does not ask for it.
pub(crate) const NO_TAG: u32 = u32::MAX;

/// A packet that reached its receiver and whose source receives feedback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    /// The link of the source, and its index there.
    pub(crate) link: usize,
    pub(crate) source: u32,
    pub(crate) tag: u32,
    pub(crate) at: Nanos,
    pub(crate) marked: bool,
}

/// The port's state of a source, with the scenario's class. Timed sources do not use it.
#[derive(Clone, Copy, Debug, Default)]
struct Greedy {
    class: Option<ClassId>,
    active: bool,
    queued: u32,
    most: u32,
}

/// The link, its sources and its measurements, as the driver's port. [`fairlink_core::Metered`] counts packets and
/// bytes by class at the scheduler.
pub(crate) struct LinkPort<'a> {
    scenario: Arc<Scenario>,
    phases: Arc<[Interval]>,
    observer: Watching<'a>,
    mix: TrafficMix,
    greedy: Vec<Greedy>,
    /// Greedy sources that may add packets, and the number of packets of each.
    refill: VecDeque<(u32, u32)>,
    /// Greedy sources whose packets were all refused; one tries again whenever a packet leaves.
    refused: VecDeque<u32>,
    flights: Vec<Flight>,
    free: Vec<usize>,
    routes: Arc<Routes>,
    /// Index of this link.
    link: usize,
    /// By source: the number of its route. Empty if there are no routes.
    routed: Vec<Option<u32>>,
    journeys: Vec<Journey>,
    free_journeys: Vec<u32>,
    /// Packets on the way to this link, the first to come on top.
    coming: BinaryHeap<Reverse<Coming>>,
    /// Packets that continue to other links.
    going: Vec<Coming>,
    /// Packets whose sources are to be notified of the delivery.
    heard: Vec<Delivered>,
    visits: Visits,
    overhead: Overhead,
    /// By id in the tree that is in force: the scenario's class.
    classes: Vec<ClassId>,
    /// By class of the scenario: its id in the tree that is in force. The root if it does not exist there; no source
    /// sends then.
    ids: Vec<ClassId>,
    /// By class of the scenario; leaves have a place in `delays`, in their order.
    place: Vec<usize>,
    delays: Vec<Delays>,
    spans: Spans,
    windows: Option<Series>,
    metrics: Option<Box<Metrics>>,
    misplaced: Option<Box<MisplacedMeter>>,
    free_at: Nanos,
    /// The packet that was sent last, whose last bit leaves at `free_at`: its place, when its first bit left, its length.
    last: (usize, Nanos, u32),
    busy: Nanos,
    /// Packets that were offered from outside and their bytes without the link's overhead, by the start of the phase
    /// and the class.
    offered: BTreeMap<(Nanos, ClassId), Amount>,
    /// Packets taken in or sent.
    moved: u64,
    /// Packets taken in.
    taken: u64,
    /// By class of the scenario, packets that a shaper released after the class was removed.
    too_late: Vec<u64>,
    error: Option<SimError>,
}

impl<'a> LinkPort<'a> {
    /// Makes link number `link`, ready to start. Averages cover each of `phases`.
    pub(crate) fn new(
        scenario: &Arc<Scenario>,
        phases: &Arc<[Interval]>,
        options: &Options,
        (routes, link): (&Arc<Routes>, usize),
        observer: Watching<'a>,
    ) -> Result<Self, SimError> {
        scenario.check(phases, options)?;
        let stages = scenario.stages();
        let classes = scenario.names.len();
        let mix = TrafficMix::new(&scenario.sources, scenario.seed, scenario.duration)?;
        let (leaves, _) = scenario.roles();
        let count = leaves.len();
        let place = places(&leaves, classes);
        let windows = options.window.map(|window| {
            let cuts = (0..scenario.duration.0.div_ceil(window.0)).map(|n| Nanos(n * window.0));
            let mut cuts: Vec<_> = cuts.chain(stages.iter().map(|stage| stage.end)).collect();
            cuts.sort_unstable();
            cuts.dedup();
            Series::new(cuts, count)
        });
        let greedy = |source: &SourceSpec| match source.model {
            Model::Greedy => Greedy { class: Some(source.class), ..Greedy::default() },
            _ => Greedy::default(),
        };
        let mut port = Self {
            scenario: Arc::clone(scenario),
            phases: Arc::clone(phases),
            observer,
            mix,
            // Packets of other links count as a source for each route, and those that are offered from outside as one more.
            greedy: scenario.sources.iter().map(greedy).chain((0..=routes.len()).map(|_| Greedy::default())).collect(),
            refill: VecDeque::new(),
            refused: VecDeque::new(),
            flights: Vec::new(),
            free: Vec::new(),
            link,
            routed: if routes.is_empty() { Vec::new() } else { routes.of_link(link, scenario.sources.len()) },
            journeys: Vec::new(),
            free_journeys: Vec::new(),
            coming: BinaryHeap::new(),
            going: Vec::new(),
            heard: Vec::new(),
            visits: Visits::new(routes, link),
            routes: Arc::clone(routes),
            offered: BTreeMap::new(),
            last: (0, Nanos::ZERO, 0),
            overhead: scenario.overhead,
            classes: Vec::new(),
            ids: Vec::new(),
            place,
            delays: (0..count).map(|_| Delays::new(count)).collect(),
            spans: Spans::new(cuts(scenario, phases, options), count),
            windows,
            metrics: None,
            misplaced: None,
            free_at: Nanos::ZERO,
            busy: Nanos::ZERO,
            moved: 0,
            taken: 0,
            too_late: vec![0; classes],
            error: None,
        };
        port.enter(&stages[0]);
        Ok(port)
    }

    /// Measures the scheduler's promises, from the start on.
    pub(crate) fn measure(&mut self, metrics: Metrics) {
        self.metrics = Some(Box::new(metrics));
    }

    /// Measures the traffic of the wrong leaves, from the start on.
    pub(crate) fn measure_misplaced(&mut self) {
        let Scenario { tree, warmup, duration, .. } = &*self.scenario;
        self.misplaced = MisplacedMeter::new(tree, *warmup, *duration).map(Box::new);
    }

    /// Returns the measurement of the traffic of the wrong leaves.
    pub(crate) fn misplaced(&self) -> Option<&MisplacedMeter> {
        self.misplaced.as_deref()
    }

    /// Returns the measurements of the scheduler's promises.
    pub(crate) fn metrics(&self) -> Option<&Metrics> {
        self.metrics.as_deref()
    }

    /// By class of the scenario, packets that shapers and policers of its sources have dropped, and those that were
    /// held until the class was removed.
    pub(crate) fn lost_at_sources(&self) -> Vec<u64> {
        let mut lost = self.too_late.clone();
        for (index, source) in (0..).zip(&self.scenario.sources) {
            lost[source.class.index()] += self.mix.lost(index).packets;
        }
        lost
    }

    /// Starts another stage. The change `lost` these packets: those of removed classes under their old id, others under
    /// the new one.
    pub(crate) fn change(&mut self, now: Nanos, stage: &Stage<'_>, lost: Vec<(Packet, DropReason)>) {
        let removed = |lost: &(Packet, DropReason)| lost.1 == DropReason::ClassRemoved;
        let (removed, unfit): (Vec<_>, Vec<_>) = lost.into_iter().partition(removed);
        removed.into_iter().for_each(|(packet, reason)| self.dropped(now, packet, reason));
        self.enter(stage);
        unfit.into_iter().for_each(|(packet, reason)| self.dropped(now, packet, reason));
    }

    /// Replaces the scenario from now on. The new one has one more change, at `at`, and maybe more classes. Averages
    /// cover each of `phases`.
    pub(crate) fn replan(&mut self, at: Nanos, scenario: &Arc<Scenario>, phases: &Arc<[Interval]>, options: &Options) {
        let classes = scenario.names.len();
        let (leaves, _) = scenario.roles();
        let from: Vec<Option<usize>> = leaves
            .iter()
            .map(|class| self.place.get(class.index()).copied().filter(|&place| place < self.delays.len()))
            .collect();
        let mut known: Vec<Option<Delays>> = std::mem::take(&mut self.delays).into_iter().map(Some).collect();
        self.delays = from
            .iter()
            .map(|&place| known[place?].take())
            .map(|delays| delays.unwrap_or_else(|| Delays::new(leaves.len())))
            .collect();
        if let Some(place) = from.iter().position(|&place| place == Some(self.last.0)) {
            self.last.0 = place;
        }
        self.spans.arrange(&from);
        self.place = places(&leaves, classes);
        (self.scenario, self.phases) = (Arc::clone(scenario), Arc::clone(phases));
        self.ids.resize(classes, ClassId::ROOT);
        self.too_late.resize(classes, 0);
        for cut in cuts(scenario, phases, options).into_iter().filter(|&cut| cut >= at) {
            self.spans.cut(cut, Some(self.on_the_link()));
        }
    }

    /// Ids are those of `stage` from now on, and greedy sources keep as many packets as its queues have room for.
    fn enter(&mut self, stage: &Stage<'_>) {
        self.overhead = stage.overhead;
        self.classes = stage.classes();
        let ids = stage.leaf_ids(self.scenario.names.len());
        let sources = self.greedy.iter().filter(|greedy| greedy.class.is_some()).count();
        let room = stage.tree.link().max_queued / u32::try_from(sources.max(1)).unwrap_or(u32::MAX);
        for (greedy, source) in self.greedy.iter_mut().zip(&self.scenario.sources) {
            let Some(class) = greedy.class else { continue };
            let Some(id) = ids[class.index()] else {
                // The class is removed before its source is stopped.
                greedy.active = false;
                continue;
            };
            let limits = stage.tree.config(id).limits;
            let accounted = |len: u32| stage.overhead.accounted(len).max(1);
            let (shortest, longest) =
                source.packet.range().map_or((1, u32::MAX), |(one, other)| (accounted(one), accounted(other)));
            let most = GREEDY_PACKETS.saturating_add(self.scenario.cores.behind(stage.tree, shortest));
            greedy.most = room.min(limits.packets).min(limits.bytes / longest).clamp(1, most) + behind(stage.tree);
        }
        self.ids = ids.into_iter().map(|id| id.unwrap_or(ClassId::ROOT)).collect();
    }

    /// Maximum memory of packets in flight and measurements, in bytes.
    pub(crate) fn memory_bound(&self) -> u64 {
        let most_of = |stage: &Stage<'_>| u64::from(stage.tree.link().max_queued) + u64::from(behind(stage.tree));
        let queued = self.scenario.stages().iter().map(most_of).max().unwrap_or(0);
        let behind = self.scenario.stages().iter().map(|stage| behind(stage.tree)).max().unwrap_or(0);
        // A greedy source may keep more after a change than it keeps now.
        let most = |greedy: &Greedy| match (greedy.class, self.scenario.changes.is_empty()) {
            (Some(_), false) => GREEDY_PACKETS + behind,
            _ => greedy.most,
        };
        let greedy: u64 = self.greedy.iter().map(|greedy| u64::from(most(greedy))).sum();
        // Packets offered from outside belong to no source.
        let flights = queued + greedy + (self.greedy.len() - 1) as u64;
        // A vector that grew by doubling may have room for twice its contents.
        let flights = 2 * flights * (size_of::<Flight>() + size_of::<usize>()) as u64;
        let delays = self.delays.len() as u64 * Delays::memory(self.delays.len());
        flights + delays + self.visits.memory() + self.spans.memory() + self.windows.as_ref().map_or(0, Series::memory)
    }

    /// Returns the time of the next event of a source.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let own = self.mix.peek();
        match self.coming.peek() {
            None => own,
            Some(Reverse(coming)) => Some(own.map_or(coming.at, |own| own.min(coming.at))),
        }
    }

    /// Drains the packets that continue to other links since the last call.
    pub(crate) fn going(&mut self) -> std::vec::Drain<'_, Coming> {
        self.going.drain(..)
    }

    /// Returns true if a packet continues to another link, or a source is to be notified.
    pub(crate) fn has_messages(&self) -> bool {
        !self.going.is_empty() || !self.heard.is_empty()
    }

    /// Drains the deliveries that sources are to be notified of since the last call.
    pub(crate) fn deliveries(&mut self) -> std::vec::Drain<'_, Delivered> {
        self.heard.drain(..)
    }

    /// Notifies a source of this link of a delivery.
    pub(crate) fn on_delivery(&mut self, heard: Delivered) {
        self.mix.arrived(heard.source, heard.tag, heard.at, heard.marked);
    }

    /// Returns the report of a source of this link that receives feedback.
    pub(crate) fn closed(&self, source: u32) -> Option<ClosedReport> {
        self.mix.closed(source)
    }

    /// Adds a packet that is on its way here.
    pub(crate) fn expect(&mut self, coming: Coming) {
        self.coming.push(Reverse(coming));
    }

    /// Returns the counts for each route at this link.
    pub(crate) fn visits(&self) -> &Visits {
        &self.visits
    }

    /// Returns true if a greedy source has a packet to add at once.
    pub(crate) fn wants_to_refill(&self) -> bool {
        !self.refill.is_empty()
    }

    /// Returns the number of packets enqueued or sent so far.
    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    /// Returns the scheduler's first violation, if any.
    pub(crate) fn check(&mut self) -> Result<(), SimError> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Reports progress to the observer, which may stop the run.
    pub(crate) fn progress(&mut self, now: Nanos) -> Result<(), SimError> {
        match self.observer.observer().progress(now) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(SimError::Stopped { at: now }),
        }
    }

    /// Returns the simulated scenario.
    pub(crate) fn scenario(&self) -> &Arc<Scenario> {
        &self.scenario
    }

    /// Returns the intervals of the averages.
    pub(crate) fn phases(&self) -> &Arc<[Interval]> {
        &self.phases
    }

    /// Delays of the packets of each leaf, in the order of [`Scenario::roles`].
    pub(crate) fn delays(&self) -> &[Delays] {
        &self.delays
    }

    /// Returns the place of a leaf in delays and spans, by class of the scenario.
    pub(crate) fn place(&self) -> &[usize] {
        &self.place
    }

    /// Bytes by leaf between all instants that matter to an average, the end of the report among them.
    pub(crate) fn spans(&self, end: Nanos) -> Cow<'_, Spans> {
        if end >= self.scenario.duration {
            return Cow::Borrowed(&self.spans);
        }
        let mut spans = self.spans.clone();
        spans.cut(end, Some(self.on_the_link()));
        Cow::Owned(spans)
    }

    /// Returns the last sent packet: leaf, first and last bit, length.
    fn on_the_link(&self) -> (usize, Nanos, Nanos, u32) {
        let (place, start, len) = self.last;
        (place, start, self.free_at, len)
    }

    /// Packets that were offered from outside and their bytes without the link's overhead, by the start of the phase
    /// and the class.
    pub(crate) fn offered(&self) -> &BTreeMap<(Nanos, ClassId), Amount> {
        &self.offered
    }

    /// Returns the measurements in windows of equal length.
    pub(crate) fn windows(&self) -> Option<&Series> {
        self.windows.as_ref()
    }

    /// Time that the link was sending after the warmup, until `end`.
    pub(crate) fn busy(&self, end: Nanos) -> Nanos {
        self.busy - self.free_at.min(self.scenario.duration).saturating_sub(end)
    }

    /// Sends a packet of a source of this link.
    fn emit(&mut self, now: Nanos, source: u32, class: ClassId, len: u32, tag: u32, batch: &mut Vec<Packet>) {
        if self.ids[class.index()] == ClassId::ROOT {
            self.too_late[class.index()] += 1;
            return;
        }
        let journey = match self.routed.get(source as usize).copied().flatten() {
            None => NO_JOURNEY,
            Some(route) => {
                self.begin(Journey { route, hop: 0, born: now, eligible: now, frame: len, tag, marked: false })
            }
        };
        self.offer(now, source, class, len, (journey, tag), batch);
    }

    /// Handles a packet from another link, or from outside.
    fn arrive(&mut self, coming: Coming, batch: &mut Vec<Packet>) {
        let Some(journey) = coming.journey() else {
            let source = (self.greedy.len() - 1) as u32;
            let phase = self.phases.iter().rev().find(|phase| phase.start <= coming.at);
            let phase = phase.map_or(Nanos::ZERO, |phase| phase.start);
            *self.offered.entry((phase, coming.class)).or_default() +=
                Amount { packets: 1, bytes: coming.frame().into() };
            return self.emit(coming.at, source, coming.class, coming.frame(), NO_TAG, batch);
        };
        let source = (self.scenario.sources.len() + journey.route as usize) as u32;
        let place = self.begin(journey);
        self.offer(coming.at, source, coming.class, journey.frame, (place, journey.tag), batch);
    }

    fn begin(&mut self, journey: Journey) -> u32 {
        if let Some(visit) = &mut self.visits.routes[journey.route as usize] {
            visit.arrived += 1;
        }
        match self.free_journeys.pop() {
            Some(place) => {
                self.journeys[place as usize] = journey;
                place
            }
            None => {
                self.journeys.push(journey);
                (self.journeys.len() - 1) as u32
            }
        }
    }

    /// Handles a packet on a route that leaves at `done`: forwards it, or records its arrival.
    fn go_on(&mut self, flight: &Flight, done: Nanos) {
        let mut journey = self.journeys[flight.journey as usize];
        journey.marked |= flight.marked;
        self.free_journeys.push(flight.journey);
        // Links are few, and each numbers its departing packets.
        let number = (self.moved << 16) | self.link as u64 & 0xffff;
        let onward = self.routes.onward(journey, self.link, done, number);
        let end = self.routes.end(self.link, done);
        if let Some(visit) = &mut self.visits.routes[journey.route as usize] {
            visit.sent += 1;
            if done > self.scenario.warmup {
                visit.delays.record(done - flight.arrived);
                if let (None, Some(through)) = (&onward, &mut visit.through) {
                    through.record(end - journey.born);
                }
            }
        }
        if onward.is_none() && flight.tag != NO_TAG {
            let (link, source) = self.routes.source(journey.route);
            self.heard.push(Delivered {
                link,
                source: source as u32,
                tag: flight.tag,
                at: end,
                marked: journey.marked,
            });
        }
        self.going.extend(onward);
    }

    /// Called when a greedy source of `class` begins or ends.
    fn turn_greedy(&mut self, now: Nanos, class: ClassId, active: bool) {
        let Some(misplaced) = &mut self.misplaced else { return };
        let of_class = self.greedy.iter().filter(|greedy| greedy.active && greedy.class == Some(class)).count();
        if of_class == usize::from(active) {
            misplaced.greedy(now, class, active);
        }
    }

    fn offer(
        &mut self,
        now: Nanos,
        source: u32,
        class: ClassId,
        len: u32,
        (journey, tag): (u32, u32),
        batch: &mut Vec<Packet>,
    ) {
        let frame = len;
        let len = self.overhead.accounted(frame);
        self.observer.observer().arrived(now, class, len);
        self.moved += 1;
        if let Some(metrics) = &mut self.metrics {
            metrics.arrived(now, class, len);
        }
        if let Some(misplaced) = &mut self.misplaced {
            misplaced.arrived(now, class, len);
        }
        if let Some(windows) = &mut self.windows {
            windows.arrived(now, self.place[class.index()]);
        }
        let number = self.taken;
        self.taken += 1;
        let flight =
            Flight { arrived: now, class, len, frame, number, source, journey, tag, marked: false, under_way: true };
        self.observer.observer().came(&flight.packet());
        let handle = match self.free.pop() {
            Some(handle) => {
                self.flights[handle] = flight;
                handle
            }
            None => {
                self.flights.push(flight);
                self.flights.len() - 1
            }
        };
        let handle = handle as u64 | label(source);
        batch.push(Packet { handle, len, class: self.ids[class.index()] });
    }

    /// Makes the greedy sources that have room add packets.
    fn refill(&mut self, now: Nanos, batch: &mut Vec<Packet>) {
        while let Some((source, most)) = self.refill.pop_front() {
            let Greedy { class: Some(class), active: true, queued, .. } = self.greedy[source as usize] else {
                continue;
            };
            for _ in queued..most.max(queued) {
                let len = self.mix.greedy_len(source);
                self.greedy[source as usize].queued += 1;
                self.emit(now, source, class, len, NO_TAG, batch);
            }
        }
    }

    /// Returns the flight that belongs to `packet` from the scheduler, or `None` for a packet that the scheduler
    /// invented.
    fn land(&mut self, packet: &Packet) -> Option<Flight> {
        let handle = packet.handle as u32 as usize;
        let flight = self.flights.get_mut(handle).filter(|flight| {
            let told = label(flight.source) == packet.handle & !u64::from(u32::MAX);
            let class = self.classes.get(packet.class.index()) == Some(&flight.class);
            told && flight.under_way && class && flight.len == packet.len
        });
        let Some(flight) = flight else {
            self.error.get_or_insert(SimError::ForeignPacket {
                handle: u64::from(packet.handle as u32),
                class: packet.class,
            });
            return None;
        };
        flight.under_way = false;
        let flight = *flight;
        self.free.push(handle);
        if let Greedy { class: Some(_), queued, .. } = &mut self.greedy[flight.source as usize] {
            *queued -= 1;
        }
        Some(flight)
    }
}

impl DropSink for LinkPort<'_> {
    fn marked(&mut self, _now: Nanos, packet: &Packet) {
        if let Some(flight) = self.flights.get_mut(packet.handle as u32 as usize) {
            flight.marked = true;
        }
    }

    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        let Some(flight) = self.land(&packet) else { return };
        if flight.journey != NO_JOURNEY {
            let route = self.journeys[flight.journey as usize].route;
            self.free_journeys.push(flight.journey);
            if let Some(visit) = &mut self.visits.routes[route as usize] {
                visit.dropped += 1;
            }
        }
        self.observer.observer().dropped(now, flight.class, flight.len, reason);
        self.observer.observer().went(&flight.packet(), Fate::Dropped { at: now, reason });
        if let Some(metrics) = &mut self.metrics {
            metrics.dropped(now, flight.class, flight.len);
        }
        if let Some(misplaced) = &mut self.misplaced {
            misplaced.dropped(now, flight.class, flight.len);
        }
        if let Some(windows) = &mut self.windows {
            windows.dropped(now, self.place[flight.class.index()]);
        }
        let greedy = self.greedy[flight.source as usize];
        if reason == DropReason::Congestion {
            self.refill.push_back((flight.source, greedy.most));
        } else if greedy.active && greedy.queued == 0 {
            self.refused.push_back(flight.source);
        }
    }
}

impl Port for LinkPort<'_> {
    fn receive(&mut self, now: Nanos, batch: &mut Vec<Packet>) {
        // Packets that have left made room before anything that happens now.
        self.refill(now, batch);
        while batch.len() < MAX_ARRIVALS
            && let Some(next) = self.next_event().filter(|&at| at <= now)
        {
            if self.coming.peek().is_some_and(|Reverse(coming)| coming.at == next) {
                if let Some(Reverse(coming)) = self.coming.pop() {
                    self.arrive(coming, batch);
                }
                continue;
            }
            let Some(event) = self.mix.next() else { break };
            let source = event.source;
            match event.what {
                What::Packet { len } => {
                    self.emit(now, source, event.class, len, event.tag.unwrap_or(NO_TAG), batch);
                }
                What::Nothing => {}
                What::GreedyStart => {
                    let greedy = &mut self.greedy[source as usize];
                    greedy.active = true;
                    self.refill.push_back((source, greedy.most));
                    self.turn_greedy(now, event.class, true);
                }
                What::GreedyStop => {
                    self.greedy[source as usize].active = false;
                    self.turn_greedy(now, event.class, false);
                }
            }
        }
        self.refill(now, batch);
    }

    fn transmit(&mut self, now: Nanos, packet: Packet, done: Nanos) {
        let Some(flight) = self.land(&packet) else { return };
        self.observer.observer().sent(now, done, flight.class, flight.len);
        self.moved += 1;
        let start = now.max(self.free_at);
        let done = done.max(start);
        self.free_at = done;
        self.observer.observer().went(&flight.packet(), Fate::Sent { start, done });
        if let Some(metrics) = &mut self.metrics {
            metrics.sent(flight.arrived, start, done, flight.class, flight.len);
        }
        if let Some(misplaced) = &mut self.misplaced {
            misplaced.sent(start, flight.class, flight.len);
        }
        let place = self.place[flight.class.index()];
        let (warm, end) = (self.scenario.warmup, self.scenario.duration);
        if done > warm {
            self.delays[place].record(done - flight.arrived);
        }
        if flight.journey != NO_JOURNEY {
            self.go_on(&flight, done);
        } else if flight.tag != NO_TAG {
            let Flight { source, tag, marked, .. } = flight;
            let at = done.saturating_add(self.scenario.propagation);
            self.heard.push(Delivered { link: self.link, source, tag, at, marked });
        }
        self.busy += done.min(end).saturating_sub(start.max(warm));
        self.spans.add(place, start, done, flight.len);
        self.last = (place, start, flight.len);
        if let Some(windows) = &mut self.windows {
            windows.sent(now, place, flight.arrived, start, done, flight.len);
        }
        let greedy = self.greedy[flight.source as usize];
        if greedy.active {
            self.refill.push_back((flight.source, greedy.most));
        }
        if let Some(source) = self.refused.pop_front() {
            self.refill.push_back((source, 1));
        }
    }

    fn flush(&mut self, _now: Nanos) {}
}

/// Label of a packet for active queues: a source is a flow and a host. All sources are ECN-capable, so that the class
/// decides.
const fn label(source: u32) -> u64 {
    with_host(flow_bits(source), source as u16) | ECN_CAPABLE
}

/// By class, its index in `leaves`, if it is one.
fn places(leaves: &[ClassId], classes: usize) -> Vec<usize> {
    let mut place = vec![usize::MAX; classes];
    leaves.iter().enumerate().for_each(|(index, class)| place[class.index()] = index);
    place
}

/// Borders of the spans from which every average of the report is made.
fn cuts(scenario: &Scenario, phases: &[Interval], options: &Options) -> Vec<Nanos> {
    let mut cuts = vec![Nanos::ZERO, scenario.warmup, scenario.duration];
    cuts.extend(scenario.changes.iter().map(|change| change.at));
    for phase in phases {
        cuts.extend([phase.start, settled(phase.start, phase.end, options)]);
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Start of the settled part of a phase.
pub(crate) fn settled(start: Nanos, end: Nanos, options: &Options) -> Nanos {
    let settled = start.saturating_add(options.settle);
    if settled < end { settled } else { start }
}
