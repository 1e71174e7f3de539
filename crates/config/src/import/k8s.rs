//! Kubernetes: the bandwidth annotations of pods, as `kubectl get pods -A -o json` prints them.
//!
//! Source: the documentation of Kubernetes (network plugins, support of traffic shaping) and of the CNI plugin `bandwidth`, which limits each pod by a token
//! bucket of its own. Values are quantities of Kubernetes in bit/s: `10M`, `1Gi`.
//!
//! Nothing shares out a node's link among its pods there. Here a pod's limit is its ceiling, and all pods of a node have equal shares of its link.

#[cfg(test)]
mod tests;

use std::path::Path;

use fairlink_core::Rate;

use super::notes::{Notes, Tally, wrong};
use super::plan::{Class, ClassNames, Plan};
use super::prefixes::{self, Conflict, minimal, order};
use super::{Direction, Imported, sound, write};
use crate::json::{Json, parse};
use crate::matching::Prefix;
use crate::problem::{Log, Problems, Source, SourceText};
use crate::reader;
use crate::units::show_bps;

/// What the pods leave open.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the node's link carries, in each direction.
    pub rate: Rate,
    /// The node whose pods are meant, where there are several.
    pub node: Option<String>,
    /// Which directions; down (ingress) alone when empty.
    pub directions: Vec<Direction>,
}

/// Reads a file.
///
/// # Errors
/// Everything that is wrong with it.
pub fn import_file(path: &Path, options: &Options) -> Result<Imported, Problems> {
    read(&reader::open(path)?, options)
}

/// Reads a text; `name` is what errors call it.
///
/// # Errors
/// As [`import_file`].
pub fn import(name: &str, text: impl Into<String>, options: &Options) -> Result<Imported, Problems> {
    read(&SourceText::new(name, text.into()), options)
}

/// A pod of the node.
struct Pod {
    name: String,
    prefixes: Vec<Prefix>,
    /// In bit/s, down and up.
    limits: [Option<u64>; 2],
}

fn read(source: &Source, options: &Options) -> Result<Imported, Problems> {
    let mut log = Log::new(source);
    let mut notes = Notes::default();
    let text = source.inner().trim_start_matches('\u{feff}').trim_start();
    let is_yaml = !text.starts_with('{');
    let document = if is_yaml {
        let what = "this is not JSON, which begins with {";
        wrong(0..0, what, "print the pods as JSON: kubectl get pods -A -o json > pods.json", &mut log);
        None
    } else {
        parse(source.inner(), &mut log)
    };
    let pods = document.map(|document| pods(&document, options, source, &mut notes, &mut log)).unwrap_or_default();
    if log.has_errors() {
        return Err(log.into_errors());
    }
    let mut links = Vec::new();
    let directions = if options.directions.is_empty() { &[Direction::Down][..] } else { &options.directions };
    for &direction in directions {
        let plan = plan(&pods, options, direction);
        links.push(write::link(&plan, "k8s", source.name(), false).0);
    }
    let limited = pods.iter().filter(|pod| pod.limits.iter().any(Option::is_some)).count();
    let kept = vec![format!("{} pods with their addresses, {limited} of them with limits", pods.len())];
    let what = "limits: each pod has a token bucket of its own there, and nothing shares out the node's link; here the limit is a ceiling, and pods have equal shares of the link";
    notes.changed(source, None, what.to_owned());
    sound(links, kept, notes.all)
}

/// The pods of the node that have addresses, those with longer prefixes first.
fn pods(document: &Json, options: &Options, source: &Source, notes: &mut Notes, log: &mut Log) -> Vec<Pod> {
    let kind = document.get("kind").and_then(Json::text).unwrap_or_default();
    let items: Vec<&Json> = match kind {
        "Pod" => vec![document],
        _ if matches!(document.get("items"), Some(Json::List(_))) => {
            document.get("items").map(Json::items).unwrap_or_default().iter().collect()
        }
        _ => {
            let what = format!(
                "this is {}, and neither a pod nor a list of pods",
                if kind.is_empty() { "of no kind" } else { kind }
            );
            wrong(0..0, what, "give what kubectl get pods -A -o json prints", log);
            return Vec::new();
        }
    };
    let text = |pod: &Json, path: [&str; 2]| {
        pod.get(path[0]).and_then(|part| part.get(path[1])).and_then(Json::text).unwrap_or_default().to_owned()
    };
    let mut nodes: Vec<String> =
        items.iter().map(|pod| text(pod, ["spec", "nodeName"])).filter(|node| !node.is_empty()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    match &options.node {
        Some(node) if !nodes.contains(node) => {
            let what = format!("there is no pod on the node \"{node}\"");
            wrong(0..0, what, format!("there are pods on: {}", nodes.join(", ")), log);
            return Vec::new();
        }
        None if nodes.len() > 1 => {
            let what = format!("these are pods of {} nodes, and each node has a link of its own", nodes.len());
            wrong(0..0, what, format!("choose one with --node: {}", nodes.join(", ")), log);
            return Vec::new();
        }
        _ => {}
    }
    let (mut no_address, mut host, mut ended) = (Tally::default(), Tally::default(), Tally::default());
    let mut pods = Vec::new();
    for pod in items {
        if options.node.as_ref().is_some_and(|node| text(pod, ["spec", "nodeName"]) != *node) {
            continue;
        }
        let (space, own) = (text(pod, ["metadata", "namespace"]), text(pod, ["metadata", "name"]));
        let name = if space.is_empty() { own } else { format!("{space}/{own}") };
        if pod.get("spec").and_then(|spec| spec.get("hostNetwork")) == Some(&Json::Bool(true)) {
            host.add(&(0..0));
            continue;
        }
        // Its address may be another pod's by now.
        if ["Succeeded", "Failed"].contains(&text(pod, ["status", "phase"]).as_str()) {
            ended.add(&(0..0));
            continue;
        }
        let annotations = pod.get("metadata").and_then(|data| data.get("annotations"));
        let limits = ["ingress", "egress"].map(|way| {
            let found = annotations?.get(&format!("kubernetes.io/{way}-bandwidth"))?;
            let limit = found.text().and_then(quantity);
            if limit.is_none() {
                let shown = found.text().unwrap_or(found.kind());
                let what = format!("kubernetes.io/{way}-bandwidth of the pod {name} is \"{shown}\"");
                wrong(0..0, what, "write a quantity of bit/s from 1 to 1T, such as 10M", log);
            }
            limit
        });
        let status = pod.get("status");
        let several = status.and_then(|status| status.get("podIPs")).map(Json::items).unwrap_or_default();
        let several = several.iter().filter_map(|one| one.get("ip")?.text());
        let one = status.and_then(|status| status.get("podIP")?.text());
        let prefixes: Vec<Prefix> = several.chain(one).filter_map(|text| Some(prefixes::parse(text)?.0)).collect();
        if prefixes.is_empty() {
            no_address.add(&(0..0));
            continue;
        }
        pods.push(Pod { name, prefixes, limits });
    }
    for (tally, what) in [
        (ended, "that have ended (Succeeded or Failed)"),
        (no_address, "without an address, which do not run"),
        (host, "in the network of the host, whose address is the node's"),
    ] {
        if let Some(pods) = tally.some("pod", "pods") {
            notes.left_out(source, None, format!("{pods} {what}"));
        }
    }
    if pods.is_empty() && !log.has_errors() {
        wrong(0..0, "no pod is left to import", "give pods that run, and have an address", log);
    }
    match order(&pods.iter().map(|pod| pod.prefixes.clone()).collect::<Vec<_>>()) {
        Ok(order) => {
            let mut all: Vec<Option<Pod>> = pods.into_iter().map(Some).collect();
            let mut pods: Vec<Pod> = order.into_iter().filter_map(|at| all[at].take()).collect();
            pods.iter_mut().for_each(|pod| minimal(&mut pod.prefixes));
            pods
        }
        Err(Conflict::Same { first, second, prefix } | Conflict::Crossed { first, second, prefix }) => {
            let what = format!("the pods {} and {} both have {prefix}", pods[first].name, pods[second].name);
            wrong(0..0, what, "give pods of one cluster that run now", log);
            Vec::new()
        }
    }
}

fn plan(pods: &[Pod], options: &Options, direction: Direction) -> Plan {
    let mut names = ClassNames::default();
    let mut classes: Vec<Class> = pods
        .iter()
        .map(|pod| Class {
            name: names.make(&pod.name),
            ceiling: pod.limits[direction as usize].map(|limit| limit.min(options.rate.bps())),
            matches: pod.prefixes.iter().map(|prefix| format!("{}{prefix}", direction.net())).collect(),
            ..Class::default()
        })
        .collect();
    classes.push(Class { name: names.make("others"), remark: "what is no pod's".to_owned(), ..Class::default() });
    Plan {
        name: direction.as_str().to_owned(),
        rate: options.rate.bps(),
        rate_why: format!("as asked for: {}", show_bps(options.rate.bps())),
        mtu: 1514,
        default: classes.len() - 1,
        classes,
        lending: None,
    }
}

/// A quantity of Kubernetes as a whole number from 1 to 10^12; what is behind the point is cut off.
fn quantity(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let factor = match unit {
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        exponent => 10f64.powi(exponent.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?.clamp(-20, 20)),
    };
    let bps = number * factor;
    (1.0..=1e12).contains(&bps).then_some(bps as u64)
}
