//! `network.json`: the tree of sites and access points.

use std::collections::HashMap;

use super::super::Direction;
use super::super::notes::{Notes, Tally, wrong, wrong_also};
use crate::json::{Json, parse};
use crate::problem::{Log, Problems, Source, Span};

/// All nodes, parents before their children.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) source: Option<Source>,
    pub(super) nodes: Vec<Node>,
    by_name: HashMap<String, usize>,
    by_id: HashMap<String, usize>,
}

/// A site, an access point or a group of them.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    /// Place of its name.
    pub(super) at: Span,
    /// Position of the nearest real node above it; for a virtual node, the parent of its children.
    pub(super) parent: Option<usize>,
    /// True if it only groups others, and limits nothing.
    pub(super) is_virtual: bool,
    /// Type of the node: Site, AP or any other.
    pub(super) kind: String,
    /// In bit/s, down and up; the largest number if neither it nor a node above it has one.
    rates: [u64; 2],
}

impl Node {
    /// Returns the capacity in bit/s: its own, or that of the nearest node above with one. `None` if there is none.
    pub(super) fn capacity(&self, direction: Direction) -> Option<u64> {
        Some(self.rates[direction as usize]).filter(|&rate| rate < u64::MAX)
    }
}

/// Maximum capacity in Mbit/s: that of a link.
const MAX_MBPS: f64 = 1_000_000.0;

impl Network {
    /// Reads the file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) fn read(source: &Source, notes: &mut Notes) -> Result<Self, Problems> {
        let mut log = Log::new(source);
        let mut network = Self { source: Some(source.clone()), ..Self::default() };
        if let Some(document) = parse(source.inner(), &mut log) {
            let mut reading = Reading {
                text: source.inner(),
                from: 0,
                network: &mut network,
                log: &mut log,
                unknown: 0,
                without_rate: Tally::default(),
            };
            reading.children(&document, None, "the file", 0..0);
            let (unknown, without_rate) = (reading.unknown, std::mem::take(&mut reading.without_rate));
            if let Some(nodes) = without_rate.some("node has", "nodes have") {
                let what =
                    format!("{nodes} no capacity, or 0: the capacity of the parent node applies, as in LibreQoS");
                notes.changed(source, without_rate.first.clone(), what);
            }
            if unknown > 0 {
                notes.left_out(source, None, format!("{unknown} keys of nodes that are not rates"));
            }
        }
        if log.has_errors() { Err(log.into_errors()) } else { Ok(network) }
    }

    /// Finds the position of the node of circuits by name or id: `None` if there is no such node, and within it `None`
    /// for the link itself.
    pub(super) fn find(&self, id: &str, name: &str) -> Option<Option<usize>> {
        let place = self.by_id.get(id).filter(|_| !id.is_empty()).or_else(|| self.by_name.get(name))?;
        let node = &self.nodes[*place];
        Some(if node.is_virtual { node.parent } else { Some(*place) })
    }

    /// These nodes and those above them.
    pub(super) fn used(&self, nodes: impl Iterator<Item = usize>) -> Vec<bool> {
        let mut used = vec![false; self.nodes.len()];
        nodes.for_each(|node| used[node] = true);
        for at in (0..self.nodes.len()).rev() {
            if let (true, Some(parent)) = (used[at], self.nodes[at].parent) {
                used[parent] = true;
            }
        }
        used
    }

    /// Names of the nodes, for suggestions.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }
}

struct Reading<'a> {
    text: &'a str,
    /// Names of nodes further on stand behind this.
    from: usize,
    network: &'a mut Network,
    log: &'a mut Log,
    unknown: usize,
    without_rate: Tally,
}

impl Reading<'_> {
    fn children(&mut self, value: &Json, parent: Option<usize>, of: &str, at: Span) {
        if !matches!(value, Json::Object(_)) {
            let what = format!("the nodes of {of} are {}, not an object", value.kind());
            wrong(at, what, "write {\"NAME\": {\"downloadBandwidthMbps\": 100, ...}}", self.log);
            return;
        }
        for (name, node) in value.entries() {
            let at = self.place(name);
            self.node(name, node, parent, at);
        }
    }

    fn node(&mut self, name: &str, value: &Json, parent: Option<usize>, at: Span) {
        if !matches!(value, Json::Object(_)) {
            let what = format!("the node \"{name}\" is {}, not an object", value.kind());
            wrong(at, what, "write {\"downloadBandwidthMbps\": 100, \"uploadBandwidthMbps\": 100}", self.log);
            return;
        }
        // LibreQoS takes the last of them, so that nodes of the others vanish without a word.
        let twice = |key: &str| value.entries().iter().filter(|(known, _)| known == key).count() > 1;
        if let Some((key, _)) = value.entries().iter().find(|(key, _)| twice(key)) {
            let what = format!("\"{key}\" is given twice in the node \"{name}\"; LibreQoS reads only the last one");
            wrong(at, what, "merge both into one", self.log);
            return;
        }
        let is_virtual = value.get("virtual") == Some(&Json::Bool(true));
        let mut missing = 0;
        let rates = ["downloadBandwidthMbps", "uploadBandwidthMbps"].map(|key| {
            let found = value.get(key).filter(|found| **found != Json::Null && **found != Json::Number(0.0));
            let Some(found) = found else {
                missing += usize::from(!is_virtual);
                return None;
            };
            let rate = found.number().or_else(|| found.text()?.trim().parse().ok());
            let rate = rate.filter(|&mbps| (1e-6..=MAX_MBPS).contains(&mbps));
            if rate.is_none() && !is_virtual {
                let shown = found.number().map_or_else(|| found.kind().to_owned(), |number| number.to_string());
                let what = format!("\"{key}\" of the node \"{name}\" is {shown}");
                wrong(at.clone(), what, "write a number of Mbit/s above 0, at most 1000000", self.log);
            }
            rate.map(|mbps| (mbps * 1e6).round() as u64)
        });
        if missing > 0 {
            self.without_rate.add(&at);
        }
        let known = ["downloadBandwidthMbps", "uploadBandwidthMbps", "children", "virtual", "type", "id"];
        self.unknown += value.entries().iter().filter(|(key, _)| !known.contains(&key.as_str())).count();
        let place = self.network.nodes.len();
        if let Some(&first) = self.network.by_name.get(name) {
            let first = self.network.nodes[first].at.clone();
            let help = "circuits refer to nodes by name: rename one of them";
            wrong_also(at, format!("there are two nodes named \"{name}\""), help, first, "first here", self.log);
            return;
        }
        self.network.by_name.insert(name.to_owned(), place);
        if let Some(id) = value.get("id").and_then(Json::text).filter(|id| !id.is_empty()) {
            self.network.by_id.entry(id.to_owned()).or_insert(place);
        }
        let kind = value.get("type").and_then(Json::text).unwrap_or_default().to_owned();
        let above = parent.map_or([u64::MAX; 2], |parent| self.network.nodes[parent].rates);
        let rates = [0, 1].map(|way| rates[way].unwrap_or(above[way]));
        self.network.nodes.push(Node { name: name.to_owned(), at: at.clone(), parent, is_virtual, kind, rates });
        if let Some(children) = value.get("children").filter(|children| **children != Json::Null) {
            let below = if is_virtual { parent } else { Some(place) };
            self.children(children, below, &format!("\"{name}\""), at);
        }
    }

    /// Returns the place of the next node of this name.
    fn place(&mut self, name: &str) -> Span {
        let quoted = serde_json::Value::from(name).to_string();
        let mut from = self.from;
        while let Some(found) = self.text[from..].find(&quoted) {
            let span = from + found..from + found + quoted.len();
            if self.text[span.end..].trim_start().starts_with(':') {
                self.from = span.end;
                return span;
            }
            from = span.end;
        }
        0..0
    }
}
