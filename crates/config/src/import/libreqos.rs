//! LibreQoS: `ShapedDevices.csv` and `network.json`.
//!
//! Source: the project's documentation (configuration, advanced configuration, backend architecture) and the example
//! files that it publishes, in the variants of versions 1.1 to 2.0. LibreQoS' lending is that of its documentation and
//! its `tc` commands:
//!
//! | LibreQoS | meaning |
//! | --- | --- |
//! | a node | a class of HTB whose rate and ceil are its capacity, or its parent's where that is less |
//! | a circuit | rate and ceil are minimum and maximum, no more than the node's; `prio 3` |
//! | quantum | the maximum in bytes per second / r2q, at least 1522 B; r2q is the smallest from 10 for which the link's own is at most 60,000 B |
//! | minimums of a node's circuits above its capacity | 1 Mbit/s for all of them, or 10 kbit/s where that is too much |
//! | traffic of no circuit | a class of a quarter of the link, `prio 5` |
//!
//! Here a node is guaranteed the sum of its circuits, and its capacity is its ceiling. So subscribers share a site as
//! if they were siblings, in proportion to their minimums; an access point gets more because it has more subscribers,
//! not because its radio is faster.

mod devices;
mod network;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use fairlink_core::Rate;

use self::devices::Circuit;
use self::network::{Network, Node};
use super::info::{AS_IS, WEIGHTS};
use super::notes::{Notes, wrong, wrong_also};
use super::plan::{Before, Class, ClassNames, Plan};
use super::prefixes::{Conflict, minimal, order};
use super::{Direction, FileInfo, ImportInfo, Imported, MEND, Number, OptionInfo, Options, sound, write};
use crate::fit::Over;
use crate::matching::{IpVersion, Prefix};
use crate::problem::{Log, Problems, Source};
use crate::units::show_bps;

pub(super) const INFO: ImportInfo = ImportInfo {
    name: "libreqos",
    tool: "LibreQoS",
    help: "LibreQoS: ShapedDevices.csv and network.json",
    files: &[
        FileInfo {
            key: "devices",
            placeholder: "DEVICES",
            help: "ShapedDevices.csv",
            number: Number::One,
            name: "ShapedDevices.csv",
            endings: &["csv"],
        },
        FileInfo {
            key: "network",
            placeholder: "FILE",
            help: "network.json, with the nodes of the circuits",
            number: Number::Optional,
            name: "network.json",
            endings: &["json"],
        },
    ],
    options: &[
        OptionInfo::rate("the sum of the topmost nodes"),
        OptionInfo::direction("To the subscribers, from them, or a link for each; both need --out"),
        WEIGHTS,
        AS_IS,
    ],
    without: &[],
    has_plans: true,
    unmatched: MEND,
    sign: |text| {
        let begins = |line: &str| {
            line.trim_start_matches('\u{feff}').to_ascii_lowercase().replace('"', "").starts_with("circuit id,")
        };
        text.lines().any(begins)
    },
    reader: |sources, options| read(&sources[0], sources.get(1), options),
};

/// LibreQoS' smallest quantum, in bytes.
const MIN_QUANTUM: u64 = 1522;
/// The largest quantum that LibreQoS wants the whole link to have, in bytes.
const LINK_QUANTUM: u64 = 60_000;
/// A frame with two VLAN tags, in bytes.
const MTU: u32 = 1522;

fn read(devices: &Source, network: Option<&Source>, options: &Options) -> Result<Imported, Problems> {
    let mut notes = Notes::default();
    // {} is a network without nodes: all circuits are directly below the link.
    let network = network.map(|source| Network::read(source, &mut notes)).transpose()?;
    let network = network.filter(|network| !network.nodes.is_empty());
    let mut log = Log::new(devices);
    let mut circuits = devices::read(devices, network.as_ref(), &mut notes, &mut log);
    if !log.has_errors() {
        once_each(devices, &mut circuits, &mut notes, &mut log);
    }
    if !log.has_errors() {
        in_order(&mut circuits, &mut log);
    }
    let top = || network.iter().flat_map(|network| &network.nodes).filter(|node| node.parent.is_none());
    let both = [Direction::Down, Direction::Up];
    let unsaid = |node: &Node| !node.is_virtual && both.iter().any(|&direction| node.capacity(direction).is_none());
    let says = top().any(|node| !node.is_virtual) && !top().any(unsaid);
    if options.rate().is_none() && !says && !log.has_errors() {
        let help = "pass --rate 1gbit, or the nodes of the network with --network network.json";
        wrong(0..0, "the rate of the link is unknown", help, &mut log);
    }
    if log.has_errors() {
        return Err(log.into_errors());
    }
    let network = network.unwrap_or_default();
    let origin = match &network.source {
        Some(source) => format!("{} and {}", devices.name(), source.name()),
        None => devices.name().to_owned(),
    };
    let mut links = Vec::new();
    for &direction in options.directions() {
        let made = Made { devices, network: &network, circuits: &circuits, options, direction };
        links.push(made.link(&origin, &mut notes));
    }
    let nodes =
        network.used(circuits.iter().filter_map(|circuit| circuit.parent)).into_iter().filter(|&used| used).count();
    let addresses: usize = circuits.iter().map(|circuit| circuit.prefixes.len()).sum();
    let kept = vec![format!(
        "{} circuits with {addresses} addresses and prefixes, {nodes} nodes: rates, capacities and the tree",
        circuits.len()
    )];
    sound(links, kept, notes.all)
}

/// Takes an address from all circuits but the first that has it. LibreQoS warns of IPv4 addresses that two have, as its
/// own example does, and refuses such prefixes of IPv6.
fn once_each(source: &Source, circuits: &mut Vec<Circuit>, notes: &mut Notes, log: &mut Log) {
    let mut owners: HashMap<Prefix, usize> = HashMap::new();
    for at in 0..circuits.len() {
        let prefixes = std::mem::take(&mut circuits[at].prefixes);
        for prefix in prefixes {
            let owner = *owners.entry(prefix).or_insert(at);
            if owner == at {
                circuits[at].prefixes.push(prefix);
                continue;
            }
            let (here, first) = (circuits[at].at.clone(), circuits[owner].at.clone());
            if prefix.version() == IpVersion::V6 {
                let what = format!("{prefix} belongs to two circuits");
                wrong_also(here, what, "remove it from one of them", first, "and here", log);
            } else {
                let line = 1 + source.inner()[..first.start].matches('\n').count();
                let what = format!(
                    "{prefix} belongs to circuit \"{}\" of line {line}; it is removed from \"{}\"",
                    circuits[owner].name, circuits[at].name
                );
                notes.changed(source, Some(here), what);
            }
        }
    }
    circuits.retain(|circuit| !circuit.prefixes.is_empty());
}

/// Sorts circuits with longer prefixes before those whose prefixes contain them.
fn in_order(circuits: &mut Vec<Circuit>, log: &mut Log) {
    let prefixes: Vec<_> = circuits.iter().map(|circuit| circuit.prefixes.clone()).collect();
    match order(&prefixes) {
        Ok(order) => {
            let mut all: Vec<Option<Circuit>> = std::mem::take(circuits).into_iter().map(Some).collect();
            circuits.extend(order.into_iter().filter_map(|at| all[at].take()));
            circuits.iter_mut().for_each(|circuit| minimal(&mut circuit.prefixes));
        }
        Err(conflict) => {
            let (first, second, what, help) = match conflict {
                Conflict::Same { first, second, prefix } => {
                    (first, second, format!("{prefix} belongs to two circuits"), "remove it from one of them")
                }
                Conflict::Crossed { first, second, prefix } => (
                    first,
                    second,
                    format!("prefixes of two circuits contain each other, {prefix} among them"),
                    "give each prefix its own circuit",
                ),
            };
            wrong_also(circuits[second].at.clone(), what, help, circuits[first].at.clone(), "and here", log);
        }
    }
}

/// One direction.
struct Made<'a> {
    devices: &'a Source,
    network: &'a Network,
    circuits: &'a [Circuit],
    options: &'a Options,
    direction: Direction,
}

impl Made<'_> {
    fn link(&self, origin: &str, notes: &mut Notes) -> super::Draft {
        let (rate, rate_why) = self.rate(notes);
        let mut plan = Plan {
            name: self.direction.as_str().to_owned(),
            rate,
            rate_why,
            mtu: MTU,
            classes: Vec::new(),
            default: 0,
            lending: Some("HTB as LibreQoS sets it up"),
        };
        let mut names = ClassNames::default();
        let nodes = self.nodes(&mut plan, &mut names, notes);
        let r2q = (rate / 8).div_ceil(LINK_QUANTUM).max(10);
        let minimums = self.minimums(&nodes, &plan);
        for (circuit, minimum) in self.circuits.iter().zip(minimums) {
            let parent = circuit.parent.and_then(|node| nodes[node]);
            let [floor, ceiling] = circuit.rates(self.direction);
            let most = ceiling.min(parent.map_or(rate, |parent| plan.classes[parent].before.ceiling.unwrap_or(rate)));
            plan.classes.push(Class {
                name: names.make(&circuit.name),
                parent,
                remark: circuit.remark.clone(),
                floor: Some(floor),
                ceiling: Some(ceiling),
                queue: Some(circuit.queue(self.direction)),
                per: None,
                matches: circuit.prefixes.iter().map(|prefix| format!("{}{prefix}", self.direction.net())).collect(),
                before: Before {
                    floor: Some(minimum.min(most)),
                    ceiling: Some(most),
                    quantum: Some((most / 8 / r2q).max(MIN_QUANTUM)),
                    priority: 3,
                    ..Before::default()
                },
            });
        }
        plan.default = plan.classes.len();
        let share = (rate / 100).max(1);
        plan.classes.push(Class {
            name: names.make("others"),
            remark: "traffic of no circuit".to_owned(),
            floor: Some(share),
            before: Before {
                // A quarter there, which would leave the nodes less than they have while nothing comes.
                floor: Some(share),
                quantum: Some((rate / 8 / r2q).max(MIN_QUANTUM)),
                priority: 5,
                ..Before::default()
            },
            ..Class::default()
        });
        plan.weigh(self.options.weights());
        if let Some(what) = self.options.weights().meaning() {
            notes.changed(self.devices, None, format!("{}: {what}", self.direction.as_str()));
        }
        let (link, fitted) = write::link(&plan, "libreqos", origin, self.options.as_is());
        if !self.options.as_is() {
            for over in &fitted.over {
                self.scaled(over, &plan, notes);
            }
            self.meanings(&plan, share, r2q, notes);
        }
        link
    }

    fn rate(&self, notes: &mut Notes) -> (u64, String) {
        let at = self.network.source.as_ref();
        if let Some(rate) = self.options.rate() {
            return (rate.bps(), "as asked for".to_owned());
        }
        // Without --rate they all have a capacity, which was checked.
        let top = self.network.nodes.iter().filter(|node| node.parent.is_none() && !node.is_virtual);
        let sum = top.filter_map(|node| node.capacity(self.direction)).fold(0, u64::saturating_add);
        let sum = sum.clamp(1, Rate::MAX.bps());
        if let Some(source) = at {
            let what = format!(
                "the rate of the link {} is not given; assumed: {}, the sum of the topmost nodes; set it with --rate",
                self.direction.as_str(),
                show_bps(sum)
            );
            notes.changed(source, None, what);
        }
        (sum, "the sum of the topmost nodes".to_owned())
    }

    /// Adds the nodes that have circuits, and gives the position of each node's class.
    fn nodes(&self, plan: &mut Plan, names: &mut ClassNames, notes: &mut Notes) -> Vec<Option<usize>> {
        let all = &self.network.nodes;
        let used = self.network.used(self.circuits.iter().filter_map(|circuit| circuit.parent));
        let mut places = vec![None; all.len()];
        let mut empty = Vec::new();
        for (at, node) in all.iter().enumerate().filter(|(_, node)| !node.is_virtual) {
            if !used[at] {
                empty.push(node);
                continue;
            }
            let parent = node.parent.and_then(|parent| places[parent]);
            let capacity = node.capacity(self.direction);
            let above: u64 =
                parent.map_or(plan.rate, |parent: usize| plan.classes[parent].before.ceiling.unwrap_or(u64::MAX));
            let own = capacity.unwrap_or(above).min(above);
            places[at] = Some(plan.classes.len());
            plan.classes.push(Class {
                name: names.make(&node.name),
                parent,
                remark: node.kind.clone(),
                ceiling: capacity,
                before: Before { floor: Some(own), ceiling: Some(own), ..Before::default() },
                ..Class::default()
            });
        }
        if let (Some(first), Some(source)) = (empty.first(), &self.network.source) {
            let what = match empty.len() {
                1 => format!("the node \"{}\" has no circuit", first.name),
                count => format!("{count} nodes have no circuit, the first of them \"{}\"", first.name),
            };
            if self.direction == self.options.directions()[0] {
                notes.left_out(source, Some(first.at.clone()), what);
            }
        }
        places
    }

    /// Computes the minimums as LibreQoS does: all minimums of a node are replaced if they exceed its capacity, in
    /// either direction.
    fn minimums(&self, nodes: &[Option<usize>], plan: &Plan) -> Vec<u64> {
        const MBIT: u64 = 1_000_000;
        // By node: the sums of both directions, and how many circuits.
        let mut sums: HashMap<usize, ([u128; 2], u128)> = HashMap::new();
        let both = [Direction::Down, Direction::Up];
        for circuit in self.circuits {
            let Some(node) = circuit.parent else { continue };
            let (sum, count) = sums.entry(node).or_default();
            both.iter().zip(sum).for_each(|(&direction, sum)| *sum += u128::from(circuit.rates(direction)[0]));
            *count += 1;
        }
        let has = |node: usize, direction: Direction| -> u128 {
            let own = self.network.nodes[node].capacity(direction);
            let path = std::iter::successors(self.network.nodes[node].parent, |&at| self.network.nodes[at].parent);
            let all = path.filter_map(|at| self.network.nodes[at].capacity(direction)).chain(own);
            all.min().unwrap_or(u64::MAX).into()
        };
        let minimum = |circuit: &Circuit| {
            let own = circuit.rates(self.direction)[0];
            let Some(node) = circuit.parent.filter(|&node| nodes[node].is_some()) else { return own };
            let (sum, count) = sums[&node];
            let over = |need: [u128; 2]| both.iter().zip(need).any(|(&direction, need)| need > has(node, direction));
            if !over(sum) {
                own
            } else if !over([count * u128::from(MBIT); 2]) {
                MBIT
            } else {
                MBIT / 100
            }
        };
        debug_assert!(plan.classes.len() <= nodes.len());
        self.circuits.iter().map(minimum).collect()
    }

    /// Minimums that do not fit.
    fn scaled(&self, over: &Over, plan: &Plan, notes: &mut Notes) {
        let whose = match over.parent {
            None => "the link".to_owned(),
            Some(parent) => format!("\"{}\"", plan.classes[parent].name),
        };
        let asked = show_bps(u64::try_from(over.asked).unwrap_or(u64::MAX));
        let what = format!(
            "{}: the minimums below {whose} add up to {asked}, more than its {}: they are scaled down in proportion; LibreQoS sets all minimums of a node to 1 Mbit/s or 10 kbit/s",
            self.direction.as_str(),
            show_bps(over.has)
        );
        let node = over.parent.and_then(|parent| {
            let name = &plan.classes[parent].name;
            self.network.nodes.iter().find(|node| node.name == *name)
        });
        match (node, &self.network.source) {
            (Some(node), Some(source)) => notes.changed(source, Some(node.at.clone()), what),
            _ => notes.changed(self.devices, None, what),
        }
    }

    /// Adds the notes that apply to every class.
    fn meanings(&self, plan: &Plan, share: u64, r2q: u64, notes: &mut Notes) {
        let first = self.options.directions()[0];
        if self.direction != first {
            return;
        }
        let mut say = |what: String| notes.changed(self.devices, None, what);
        say(format!(
            "quanta: LibreQoS shares the spare bandwidth of a node by maximum rates (quantum = maximum / {r2q}, at least {MIN_QUANTUM} B); here it is shared in proportion to the minimums, max-min fair"
        ));
        if plan.classes.iter().any(|class| class.parent.is_some() && class.floor.is_none())
            || !self.network.nodes.is_empty()
        {
            say("nodes: LibreQoS guarantees each node its full capacity, even if the nodes of a site exceed the site; here a node is guaranteed the minimums below it, and its capacity is its ceiling".to_owned());
        }
        say(format!(
            "traffic of no circuit: LibreQoS gives it a quarter of the link at a lower priority; here it is the class \"{}\", guaranteed {}",
            plan.classes[plan.default].name,
            show_bps(share)
        ));
        let cake = self.circuits.iter().filter(|circuit| circuit.has_cake(self.direction)).count();
        if cake > 0 {
            let circuits = if cake == 1 { "1 circuit".to_owned() } else { format!("{cake} circuits") };
            say(format!(
                "cake, of {circuits}: fq_codel instead, without tins and without fairness between the hosts of a circuit"
            ));
        }
    }
}
