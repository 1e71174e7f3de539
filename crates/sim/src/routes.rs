//! Packets that cross several links in sequence: their sources, and their routes.
//!
//! A packet arrives at the next link when its last bit has left the one before and has travelled along it (store and forward). The
//! graph of links that routes make has no circle, so that the fluid ideal of a link depends only on links before it.
//!
//! A route may have a *delay-jitter regulator* in front of each link after the first ([drrpp] Section 2.3.5): it holds
//! a packet until ET_j = ET_(j-1) + d_(j-1) + p_(j-1), where d is the promised delay bound of the previous link, p its
//! propagation, and ET at the first link the arrival. So each link sees the pattern in which the source sends.

use std::sync::Arc;

use fairlink_core::{ClassId, Hierarchy, Nanos};
use fairlink_theory::ideal::NotComputed;
use fairlink_theory::request::{Demand, Request};
use fairlink_traffic::{Interval, SourceSpec};

use crate::measure::Delays;
use crate::report::{HopRun, RouteRun};
use crate::scenario::{Scenario, SimError};
use crate::shares::{EXACT_CELLS, Rates};

/// Computes the rates of each class of a link in each phase, from a link's number, its tree, the phases, the exactness,
/// and its demand at an instant.
pub(crate) type Solve<'s> = dyn Fn(usize, &Hierarchy, &[Interval], bool, &dyn Fn(Nanos) -> Demand) -> Vec<Rates> + 's;

/// Most links of a route after its first.
pub const MAX_HOPS: usize = 1000;

/// The path of a source's packets after its own link.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Its name in a report.
    pub name: String,
    /// The link of the source (0 is the first), and the source's index among those of that link.
    pub source: (usize, usize),
    /// The links after that one, in order, with the leaf there. At least one.
    pub hops: Vec<Hop>,
    /// The promised delay bound of each link except the last, if a delay-jitter regulator holds packets in front of the
    /// next.
    pub regulated: Option<Vec<Nanos>>,
}

/// A link on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The link; 0 is the first.
    pub link: usize,
    /// The leaf there.
    pub class: ClassId,
}

/// A packet on its route, between two links or on one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Journey {
    pub(crate) route: u32,
    /// Index in the route of its current or next link; 0 is the source's own.
    pub(crate) hop: u32,
    /// Arrival time at the first link.
    pub(crate) born: Nanos,
    /// Earliest time at which it counts as arrived at this link, regardless of earlier links.
    pub(crate) eligible: Nanos,
    /// Its length without the link's overhead, in bytes.
    pub(crate) frame: u32,
    /// Identifies it to its source.
    pub(crate) tag: u32,
    /// True if it has met congestion at a link before.
    pub(crate) marked: bool,
}

/// A packet on its way to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Coming {
    pub(crate) at: Nanos,
    /// Order among those that come at one instant.
    pub(crate) number: u64,
    pub(crate) link: usize,
    pub(crate) class: ClassId,
    route: u32,
    hop: u32,
    born: Nanos,
    eligible: Nanos,
    frame: u32,
    tag: u32,
    marked: bool,
}

/// Placeholder for a route: a packet from outside.
const OFFERED: u32 = u32::MAX;

impl Coming {
    /// Makes a packet of `frame` bytes from outside.
    pub(crate) fn offered(at: Nanos, number: u64, link: usize, class: ClassId, frame: u32) -> Self {
        let (route, hop, born, eligible, tag, marked) = (OFFERED, 0, at, at, OFFERED, false);
        Self { at, number, link, class, route, hop, born, eligible, frame, tag, marked }
    }

    /// Its journey so far; `None` if it comes from outside.
    pub(crate) fn journey(&self) -> Option<Journey> {
        let Self { route, hop, born, eligible, frame, tag, marked, .. } = *self;
        (route != OFFERED).then_some(Journey { route, hop, born, eligible, frame, tag, marked })
    }

    /// Its length without the link's overhead, in bytes.
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }
}

/// All routes of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    routes: Vec<Route>,
    /// Propagation delay by link.
    propagation: Vec<Nanos>,
}

impl Routes {
    /// Makes the routes over these links.
    ///
    /// # Errors
    /// A link or a leaf that is not there, a source with two routes, a circle.
    pub(crate) fn new(routes: Vec<Route>, scenarios: &[Arc<Scenario>]) -> Result<Self, SimError> {
        let refused = |route: &Route, what: String| SimError::Route { route: route.name.clone(), what };
        let mut taken = Vec::new();
        for route in &routes {
            let (link, source) = route.source;
            if scenarios.get(link).is_none_or(|scenario| source >= scenario.sources.len()) {
                return Err(refused(route, format!("there is no source {source} of link {link}")));
            }
            if taken.contains(&route.source) {
                return Err(refused(route, format!("source {source} of link {link} has another route")));
            }
            taken.push(route.source);
            if route.hops.is_empty() || route.hops.len() > MAX_HOPS {
                let count = route.hops.len();
                return Err(refused(route, format!("{count} links after the first; there can be 1 to {MAX_HOPS}")));
            }
            for &Hop { link, class } in &route.hops {
                let leaf =
                    |scenario: &Arc<Scenario>| class.index() < scenario.tree.len() && scenario.tree.is_leaf(class);
                if !scenarios.get(link).is_some_and(leaf) {
                    return Err(refused(route, format!("class {} of link {link} is no leaf", class.0)));
                }
            }
            if route.regulated.as_ref().is_some_and(|bounds| bounds.len() != route.hops.len()) {
                return Err(refused(
                    route,
                    format!("{} delays; write one for each link but the last", route.hops.len()),
                ));
            }
        }
        if !routes.is_empty()
            && let Some(change) = scenarios.iter().flat_map(|scenario| &scenario.changes).next()
        {
            return Err(SimError::ChangeOfRoute { at: change.at });
        }
        let routes = Self { routes, propagation: scenarios.iter().map(|scenario| scenario.propagation).collect() };
        routes.order(scenarios.len())?;
        Ok(routes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Links of all routes, each as often as a route has it.
    pub(crate) fn visits(&self) -> usize {
        self.routes.iter().map(|route| route.hops.len() + 1).sum()
    }

    /// Returns the number of the route by source of `link`.
    pub(crate) fn of_link(&self, link: usize, sources: usize) -> Vec<Option<u32>> {
        let mut by_source = vec![None; sources];
        for (number, route) in self.routes.iter().enumerate().filter(|(_, route)| route.source.0 == link) {
            by_source[route.source.1] = Some(number as u32);
        }
        by_source
    }

    /// Returns the next stop of a packet that leaves a link at `done`; `None` if its route ends.
    pub(crate) fn onward(&self, journey: Journey, link: usize, done: Nanos, number: u64) -> Option<Coming> {
        let Journey { route, hop, born, eligible, frame, tag, marked } = journey;
        let path = &self.routes[route as usize];
        let next = path.hops.get(hop as usize)?;
        let arrives = done.saturating_add(self.propagation[link]);
        let expected = path.regulated.as_ref().map_or(Nanos::ZERO, |bounds| {
            eligible.saturating_add(bounds[hop as usize]).saturating_add(self.propagation[link])
        });
        let at = arrives.max(expected);
        let (link, class) = (next.link, next.class);
        Some(Coming { at, number, link, class, route, hop: hop + 1, born, eligible: at, frame, tag, marked })
    }

    /// Returns the link of a route's source, and the source's index there.
    pub(crate) fn source(&self, route: u32) -> (usize, usize) {
        self.routes[route as usize].source
    }

    /// Returns the arrival time at the far end of `link` of a packet that leaves at `done`.
    pub(crate) fn end(&self, link: usize, done: Nanos) -> Nanos {
        done.saturating_add(self.propagation[link])
    }

    /// Returns the links in an order in which each route visits them.
    ///
    /// # Errors
    /// [`SimError::Circle`].
    fn order(&self, links: usize) -> Result<Vec<usize>, SimError> {
        let mut after = vec![Vec::new(); links];
        let mut before = vec![0usize; links];
        for route in &self.routes {
            let mut from = route.source.0;
            for hop in &route.hops {
                after[from].push(hop.link);
                before[hop.link] += 1;
                from = hop.link;
            }
        }
        let mut order: Vec<usize> = (0..links).filter(|&link| before[link] == 0).collect();
        let mut next = 0;
        while let Some(&link) = order.get(next) {
            next += 1;
            for &later in &after[link] {
                before[later] -= 1;
                if before[later] == 0 {
                    order.push(later);
                }
            }
        }
        match (0..links).find(|&link| before[link] > 0) {
            None => Ok(order),
            Some(link) => Err(SimError::Circle { link }),
        }
    }

    /// Returns the rates by `solve`, by link, phase and class, link by link in the order of the routes: a source
    /// requests its rate on one link from the next.
    // DIFFERENCE: no text has routes. Max-min fairness over all links at once would not charge losses at a later link
    // to any source.
    pub(crate) fn ideals(
        &self,
        scenarios: &[Arc<Scenario>],
        phases: &[Interval],
        solve: &Solve<'_>,
    ) -> Result<Vec<Vec<Rates>>, SimError> {
        let mut ideals = vec![Vec::new(); scenarios.len()];
        // By phase and route: true if its traffic is unknown, because a previous link has no ideal.
        let mut unknown = vec![vec![false; self.routes.len()]; phases.len()];
        // By phase and route: its rate into its next link, in bit/s of frames; unlimited if absent.
        let asks = |route: &Route, phase: &Interval| {
            let scenario = &scenarios[route.source.0];
            let source = &scenario.sources[route.source.1];
            if source.is_active(phase.start, scenario.duration) {
                source.mean_rate(|len| len).map(|bps| bps as f64)
            } else {
                Some(0.0)
            }
        };
        let mut flows: Vec<Vec<Option<f64>>> =
            phases.iter().map(|phase| self.routes.iter().map(|route| asks(route, phase)).collect()).collect();
        for link in self.order(scenarios.len())? {
            let scenario = &scenarios[link];
            let visiting = self.visiting(link, scenarios);
            let source_of = |route: usize| {
                let (link, source) = self.routes[route].source;
                &scenarios[link].sources[source]
            };
            let accounted = |source: &SourceSpec| {
                source.packet.mean_accounted(|len| scenario.overhead.accounted(len)) / source.packet.mean().max(1.0)
            };
            let exact = scenario.tree.len() * phases.len() <= EXACT_CELLS;
            let place = |at: Nanos| phases.iter().position(|phase| phase.start == at).unwrap_or(0);
            let demand = |at: Nanos| {
                let mut demand = self.own_demand(link, scenario, at);
                for &(route, class) in &visiting {
                    let more = flows[place(at)][route].map(|bps| bps * accounted(source_of(route)));
                    let request = match (demand.get(class), more) {
                        (Some(Request::Rate(rate)), Some(more)) => {
                            Request::Rate(rate.saturating_add(more.round() as u64))
                        }
                        _ => Request::Unlimited,
                    };
                    let _ = demand.set(&scenario.tree, class, request);
                }
                demand
            };
            let mut solved = solve(link, &scenario.tree, phases, exact, &demand);
            let mut classes: Vec<ClassId> = visiting.iter().map(|&(_, class)| class).collect();
            classes.sort_unstable();
            classes.dedup();
            for (phase, solved) in solved.iter_mut().enumerate() {
                if visiting.iter().any(|&(route, _)| unknown[phase][route]) {
                    *solved = Err(NotComputed::because("the traffic of a link before it is unknown"));
                }
                let Ok(shares) = solved else {
                    visiting.iter().for_each(|&(route, _)| unknown[phase][route] = true);
                    continue;
                };
                let own = self.own_demand(link, scenario, phases[phase].start);
                for &class in &classes {
                    let members = visiting.iter().filter(|&&(_, other)| other == class).map(|&(route, _)| route);
                    let members: Vec<usize> = members.collect();
                    let local = match own.get(class) {
                        Some(Request::Rate(rate)) => Some(rate as f64),
                        _ => None,
                    };
                    let asked = |&route: &usize| flows[phase][route].map(|bps| bps * accounted(source_of(route)));
                    let asked: Vec<Option<f64>> = members.iter().map(asked).chain([local]).collect();
                    for (&route, part) in members.iter().zip(divided(shares[class.index()], &asked)) {
                        flows[phase][route] = Some(part / accounted(source_of(route)));
                    }
                }
            }
            ideals[link] = solved;
        }
        Ok(ideals)
    }

    /// The sources whose packets reach `link` by routes, and their classes there.
    pub(crate) fn visitors<'s>(&self, link: usize, scenarios: &'s [Arc<Scenario>]) -> Vec<(ClassId, &'s SourceSpec)> {
        let source = |(route, class): (usize, ClassId)| {
            let (first, source) = self.routes[route].source;
            (class, &scenarios[first].sources[source])
        };
        self.visiting(link, scenarios).into_iter().map(source).collect()
    }

    /// Returns the routes that use `link`, and their classes.
    fn visiting(&self, link: usize, scenarios: &[Arc<Scenario>]) -> Vec<(usize, ClassId)> {
        let mut visiting = Vec::new();
        for (number, route) in self.routes.iter().enumerate() {
            let (first, source) = route.source;
            let start = Hop { link: first, class: scenarios[first].sources[source].class };
            let here = std::iter::once(start).chain(route.hops.iter().copied()).filter(|hop| hop.link == link);
            visiting.extend(here.map(|hop| (number, hop.class)));
        }
        visiting
    }

    /// Demand of the sources of `link` without a route.
    fn own_demand(&self, link: usize, scenario: &Scenario, at: Nanos) -> Demand {
        let routed = self.of_link(link, scenario.sources.len());
        let sources = scenario.sources.iter().zip(routed).filter(|(_, route)| route.is_none());
        scenario.demand_of(sources.map(|(source, _)| source), at)
    }
}

/// Divides `total` equally, with each part limited to its request (`None` is unlimited).
fn divided(total: f64, asked: &[Option<f64>]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..asked.len()).collect();
    let ask = |member: usize| asked[member].unwrap_or(f64::INFINITY);
    order.sort_by(|&one, &other| ask(one).total_cmp(&ask(other)));
    let mut parts = vec![0.0; asked.len()];
    let mut left = total;
    for (done, &member) in order.iter().enumerate() {
        parts[member] = ask(member).min(left / (asked.len() - done) as f64);
        left -= parts[member];
    }
    parts
}

/// The counts of the routes at one link.
#[derive(Debug)]
pub(crate) struct Visits {
    /// By route: the counts of its packets here. Absent if the route does not include this link.
    pub(crate) routes: Vec<Option<Visit>>,
}

/// The counts of a route's packets at one of its links.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) arrived: u64,
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
    /// Delays from the arrival at this link to the departure of the last bit.
    pub(crate) delays: Delays,
    /// Delays from the arrival at the first link to the end of the last; only if this is the last.
    pub(crate) through: Option<Delays>,
}

impl Visits {
    /// Empty counts at `link`.
    pub(crate) fn new(routes: &Routes, link: usize) -> Self {
        let histograms = routes.visits() + routes.len();
        let visit = |route: &Route| {
            let here = route.source.0 == link || route.hops.iter().any(|hop| hop.link == link);
            let last = route.hops.last().is_some_and(|hop| hop.link == link);
            here.then(|| Visit {
                arrived: 0,
                sent: 0,
                dropped: 0,
                delays: Delays::new(histograms),
                through: last.then(|| Delays::new(histograms)),
            })
        };
        Self { routes: routes.routes.iter().map(visit).collect() }
    }

    /// Returns the maximum memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let of = |visit: &Visit| 1 + u64::from(visit.through.is_some());
        let histograms: u64 = self.routes.iter().flatten().map(of).sum();
        histograms * Delays::memory(histograms as usize)
    }
}

/// Returns the results of each route: `visits` are those of all links.
pub(crate) fn runs(
    routes: &Routes,
    scenarios: &[Arc<Scenario>],
    names: &[String],
    visits: &[&Visits],
) -> Vec<RouteRun> {
    let run = |(number, route): (usize, &Route)| {
        let (first, source) = route.source;
        let start = Hop { link: first, class: scenarios[first].sources[source].class };
        let hops: Vec<Hop> = std::iter::once(start).chain(route.hops.iter().copied()).collect();
        let visit = |hop: &Hop| visits[hop.link].routes[number].as_ref();
        let hop_run = |hop: &Hop| {
            let visit = visit(hop)?;
            Some(HopRun {
                link: names[hop.link].clone(),
                class: scenarios[hop.link].names[hop.class.index()].clone(),
                arrived_packets: visit.arrived,
                sent_packets: visit.sent,
                dropped_packets: visit.dropped,
                delay_s: visit.delays.summary(),
            })
        };
        let last = hops.last().and_then(visit);
        RouteRun {
            name: route.name.clone(),
            offered_packets: visit(&start).map_or(0, |visit| visit.arrived),
            received_packets: last.map_or(0, |visit| visit.sent),
            dropped_packets: hops.iter().filter_map(visit).map(|visit| visit.dropped).sum(),
            delay_s: last.and_then(|visit| visit.through.as_ref()).map(Delays::summary).unwrap_or_default(),
            hops: hops.iter().filter_map(hop_run).collect(),
        }
    };
    routes.routes.iter().enumerate().map(run).collect()
}
