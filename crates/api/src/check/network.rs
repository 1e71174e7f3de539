//! Bounds over several links, for the routes of a scenario.

use std::collections::HashMap;

use fairlink_config::{LinkFile, ReadOptions, Scenario, Source};
use fairlink_core::{ClassId, Leniency, Members};
use fairlink_theory::latency::services;
use fairlink_theory::network::{Bucket, Flow, FlowBound, Hop, Method, Network, Server, Service, Unbounded};
use fairlink_traffic::{Model, SourceSpec};
use schemars::JsonSchema;
use serde::Serialize;

/// The classes that a scenario's sources cross, and bounds over all links of each source's route. By network calculus:
/// `fairlink_theory::network`.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct NetworkReport {
    /// Classes on links, in the order of the links.
    pub servers: Vec<ServerReport>,
    /// Sources, in the order of their links; those without a route cross one class.
    pub flows: Vec<FlowReport>,
}

/// A class on a link as a server.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServerReport {
    /// Its name as in routes: `CLASS` of the scenario's own link, `PEER:CLASS` of another.
    pub name: String,
    /// Rate of the link in bit/s.
    pub link_bps: u64,
    /// Propagation delay of the link in seconds.
    pub propagation_s: f64,
    /// Largest packet of its flows in accounted bytes.
    pub largest_bytes: u32,
    /// Guaranteed rate in bit/s, with `latency_s`: the n-th packet of l bits leaves by f_n + latency, where f_n is
    /// max(arrival, f_(n-1)) + l / rate. Absent if the scheduler promises none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<f64>,
    /// Latency at that rate in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_s: Option<f64>,
    /// Traffic that rate and latency hold for, if they hold for no other: a packet then leaves within burst / rate +
    /// latency. Absent if they hold for all traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conforming: Option<Conforming>,
    /// Longest delay of a packet here in seconds, for the traffic that arrives. Absent if there is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_bound_s: Option<f64>,
}

/// A token bucket in accounted bytes.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Conforming {
    /// Largest burst in bytes.
    pub burst_bytes: f64,
    /// Highest rate in bit/s.
    pub rate_bps: f64,
}

/// A source and its route.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FlowReport {
    /// The classes of its route, as in the report of a simulation; one class if it has no route.
    pub name: String,
    /// Burst of its arrival curve in bytes of frames without overhead. Absent if no curve limits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<f64>,
    /// Rate of that curve in bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<f64>,
    /// The servers that it crosses, in order.
    pub path: Vec<HopReport>,
    /// Longest time in seconds from the arrival at the first link to that at the far end of the last, with the
    /// propagation of all links, while no packet is dropped. Absent if there is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_bound_s: Option<f64>,
    /// `bursts_once` if the service of all links together gives the bound, `each_link` if it is the sum of the bounds
    /// of the links. Absent without a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<MethodReport>,
    /// The reason, if there is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// A server on the path of a flow.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HopReport {
    /// Name of the server.
    pub server: String,
    /// Accounted bytes for each byte of a frame; 1 without an overhead.
    pub ratio: f64,
    /// Largest packet of the flow in accounted bytes.
    pub largest_bytes: u32,
    /// Burst of the flow as it arrives here, in accounted bytes. Absent if it is not bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<f64>,
}

/// The analysis that gives a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodReport {
    /// The sum of the delay bounds of the links.
    EachLink,
    /// The service of all links together, where the burst counts once.
    BurstsOnce,
}

/// A link of a scenario.
struct Place<'a> {
    /// Name of a peer.
    peer: Option<&'a str>,
    link: &'a LinkFile,
    sources: &'a [SourceSpec],
    propagation_s: f64,
}

impl Place<'_> {
    fn name(&self, class: ClassId) -> String {
        let name = self.link.names.name(class);
        self.peer.map_or_else(|| name.to_owned(), |peer| format!("{peer}:{name}"))
    }
}

impl NetworkReport {
    /// Returns the bounds of the scenario in `source`; `None` if it is no scenario, has no route, or has errors.
    #[must_use]
    pub(crate) fn for_source(source: &Source, options: &ReadOptions<'_>) -> Option<Self> {
        if !source.inner().contains("route") {
            return None;
        }
        let scenario = Scenario::from_source(source, options).ok()?;
        (!scenario.routes.is_empty()).then(|| Self::for_scenario(&scenario, options.leniency))
    }

    /// Returns the bounds of a scenario.
    fn for_scenario(file: &Scenario, leniency: Leniency) -> Self {
        let seconds = |time: fairlink_core::Nanos| time.0 as f64 / 1e9;
        let own =
            Place { peer: None, link: &file.link, sources: &file.sources, propagation_s: seconds(file.propagation) };
        let peers = file.peers.iter().map(|peer| Place {
            peer: Some(&peer.name),
            link: &peer.link,
            sources: &peer.sources,
            propagation_s: seconds(peer.propagation),
        });
        let places: Vec<Place<'_>> = std::iter::once(own).chain(peers).collect();
        let mut made = Made::new(file, &places);
        let services: Vec<Vec<Option<Service>>> = places.iter().map(|place| served(place.link, leniency)).collect();
        let service = |&(link, class): &(usize, ClassId)| Server {
            service: services[link][class.index()],
            propagation_s: places[link].propagation_s,
        };
        made.network.servers = made.servers.iter().map(service).collect();
        made.report(&places, (!file.pools.is_empty()).then_some("links with pools have no bounds over several links"))
    }
}

/// The services of a link's classes; none if the scheduler refuses the link, or if several cores share it.
fn served(link: &LinkFile, leniency: Leniency) -> Vec<Option<Service>> {
    let refused = link.info().build(&link.tree, leniency, Members::new()).is_err();
    if refused || !link.cores.is_one() {
        return vec![None; link.tree.len()];
    }
    services(link.info(), &link.tree)
}

/// A network with what its numbers stand for.
struct Made {
    network: Network,
    /// Link and class of each server.
    servers: Vec<(usize, ClassId)>,
    /// Largest packet of each server in accounted bytes.
    largest: Vec<u32>,
    names: Vec<String>,
    /// By flow, the reason why it has no bucket or no bound.
    why: Vec<Option<String>>,
    /// By flow, its largest packet at each hop.
    largest_of: Vec<Vec<u32>>,
}

impl Made {
    /// Makes the flows, and the servers without their services.
    fn new(file: &Scenario, places: &[Place<'_>]) -> Self {
        let mut paths = Vec::new();
        for (link, place) in places.iter().enumerate() {
            for (number, spec) in place.sources.iter().enumerate() {
                let route = file.routes.iter().find(|route| route.source == (link, number));
                let hops = route.map(|route| &route.hops[..]).unwrap_or_default();
                let path: Vec<(usize, ClassId)> =
                    std::iter::once((link, spec.class)).chain(hops.iter().copied()).collect();
                paths.push((spec, path, route.is_some_and(|route| route.regulated.is_some())));
            }
        }
        let mut servers: Vec<(usize, ClassId)> = paths.iter().flat_map(|(_, path, _)| path).copied().collect();
        servers.sort_unstable();
        servers.dedup();
        let numbers: HashMap<(usize, ClassId), usize> =
            servers.iter().enumerate().map(|(number, &server)| (server, number)).collect();
        let mut made = Self {
            network: Network::default(),
            largest: vec![0; servers.len()],
            servers,
            names: Vec::new(),
            why: Vec::new(),
            largest_of: Vec::new(),
        };
        for (spec, path, is_regulated) in paths {
            let names: Vec<String> = path.iter().map(|&(link, class)| places[link].name(class)).collect();
            made.names.push(names.join(" > "));
            let hop = |&(link, class): &(usize, ClassId)| {
                let (ratio, largest) = accounted(spec, places[link].link)?;
                Ok(Hop { server: numbers[&(link, class)], ratio, largest: f64::from(largest) })
            };
            let hops: Result<Vec<Hop>, String> = path.iter().map(hop).collect();
            let plain = |&(link, class): &(usize, ClassId)| {
                let largest = f64::from(places[link].link.tree.link().max_packet);
                Hop { server: numbers[&(link, class)], ratio: 1.0, largest }
            };
            let bucket = bucket(spec).filter(|_| hops.is_ok() && !is_regulated);
            made.why.push(match (&hops, bucket) {
                (Err(why), _) => Some(why.clone()),
                _ if is_regulated => Some("it has a regulator between links".to_owned()),
                (_, None) => Some("no arrival curve limits it: add shape or police to the source".to_owned()),
                (Ok(_), Some(_)) => None,
            });
            let hops = hops.unwrap_or_else(|_| path.iter().map(plain).collect());
            for hop in &hops {
                made.largest[hop.server] = made.largest[hop.server].max(hop.largest as u32);
            }
            made.largest_of.push(hops.iter().map(|hop| hop.largest as u32).collect());
            made.network.flows.push(Flow { bucket, path: hops });
        }
        made
    }

    fn report(&self, places: &[Place<'_>], none: Option<&str>) -> NetworkReport {
        let bounds = self.network.bounds();
        let name = |server: usize| places[self.servers[server].0].name(self.servers[server].1);
        let server = |number: usize| {
            let place = &places[self.servers[number].0];
            let service = self.network.servers[number].service.filter(|_| none.is_none());
            let (rate_bps, latency_s, conforming) = match service {
                None => (None, None, None),
                Some(Service::Rate { bps, latency_s }) => (Some(bps), Some(latency_s), None),
                Some(Service::Conforming { bps, latency_s, burst, rate_bps }) => {
                    (Some(bps), Some(latency_s), Some(Conforming { burst_bytes: burst, rate_bps }))
                }
            };
            ServerReport {
                name: name(number),
                link_bps: place.link.tree.link().rate.bps(),
                propagation_s: place.propagation_s,
                largest_bytes: self.largest[number],
                rate_bps,
                latency_s,
                conforming,
                delay_bound_s: bounds.servers[number].as_ref().ok().copied().filter(|_| none.is_none()),
            }
        };
        let flow = |number: usize| {
            let flow = &self.network.flows[number];
            let bound = match (&bounds.flows[number], none) {
                (_, Some(none)) => Err(none.to_owned()),
                (Ok(bound), None) => Ok(bound),
                (Err(why), None) => Err(self.why[number].clone().unwrap_or_else(|| self.reason(why, places))),
            };
            let burst = |place: usize| bound.as_ref().ok().map(|bound: &&FlowBound| bound.bursts[place]);
            let hop = |(place, hop): (usize, &Hop)| HopReport {
                server: name(hop.server),
                ratio: hop.ratio,
                largest_bytes: self.largest_of[number][place],
                burst_bytes: burst(place),
            };
            FlowReport {
                name: self.names[number].clone(),
                burst_bytes: flow.bucket.map(|bucket| bucket.burst),
                rate_bps: flow.bucket.map(|bucket| bucket.bps),
                path: flow.path.iter().enumerate().map(hop).collect(),
                delay_bound_s: bound.as_ref().ok().map(|bound| bound.seconds),
                method: bound.as_ref().ok().map(|bound| match bound.method {
                    Method::EachLink => MethodReport::EachLink,
                    Method::BurstsOnce => MethodReport::BurstsOnce,
                }),
                why_not: bound.err(),
            }
        };
        NetworkReport {
            servers: (0..self.servers.len()).map(server).collect(),
            flows: (0..self.network.flows.len()).map(flow).collect(),
        }
    }

    fn reason(&self, why: &Unbounded, places: &[Place<'_>]) -> String {
        let name = |server: usize| places[self.servers[server].0].name(self.servers[server].1);
        let link = |server: usize| places[self.servers[server].0].link;
        match *why {
            Unbounded::NoLimit { flow } => {
                let why = self.why[flow].as_deref().unwrap_or("its traffic has no limit");
                format!("it meets the source of {}, which has no bound: {why}", self.names[flow])
            }
            Unbounded::NoService { server } if !link(server).cores.is_one() => {
                format!("several cores share the link of {}", name(server))
            }
            Unbounded::NoService { server } => {
                format!("{} promises {} no rate with a latency", link(server).scheduler, name(server))
            }
            Unbounded::Overload { server, asked_bps, bps } => {
                format!("the sources of {} send {asked_bps:.0} bit/s, and {bps:.0} bit/s are guaranteed", name(server))
            }
            Unbounded::Burst { server, arriving, burst } => format!(
                "the burst of {} is {burst:.0} B, and {arriving:.0} B may arrive at once: set burst = \"{:.0}B\"",
                name(server),
                arriving.ceil()
            ),
            Unbounded::Circle => "its links form a circle with other routes".to_owned(),
        }
    }
}

/// The token bucket of a source that a curve limits: the limit of the least rate.
fn bucket(spec: &SourceSpec) -> Option<Bucket> {
    let Model::Shaped(shaped) = &spec.model else { return None };
    let (_, largest) = spec.lengths()?;
    let lines = shaped.curve.lines(largest);
    let buckets =
        lines.map(|(burst, rate)| Bucket { burst: burst as f64, bps: rate.numerator as f64 / rate.denominator as f64 });
    buckets.min_by(|one, other| one.bps.total_cmp(&other.bps).then(one.burst.total_cmp(&other.burst)))
}

/// Returns the accounted bytes of a link for each byte of a source's frames, and its largest accounted packet.
fn accounted(spec: &SourceSpec, link: &LinkFile) -> Result<(f64, u32), String> {
    let Some((shortest, longest)) = spec.lengths() else {
        return Err("the lengths of its packets are unknown".to_owned());
    };
    let largest = link.overhead.accounted(longest);
    if link.overhead == fairlink_core::Overhead::NONE {
        Ok((1.0, largest))
    } else if shortest == longest {
        Ok((f64::from(largest) / f64::from(longest), largest))
    } else {
        Err("its packets have several lengths, and a link has an overhead".to_owned())
    }
}
