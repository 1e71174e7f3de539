//! Kubernetes: the bandwidth annotations of pods, from the output of `kubectl get pods -A -o json` or `-o yaml`, and of
//! manifests.
//!
//! Source: the documentation of Kubernetes (network plugins, support of traffic shaping) and of the CNI plugin
//! `bandwidth`, which polices each pod with its own token bucket. Values are Kubernetes quantities in bit/s: `10M`,
//! `1Gi`.
//!
//! Kubernetes does not share a node's link among its pods. Here a pod's limit is its ceiling, and all pods of a node
//! have equal shares of its link.
//!
//! A manifest has no address: its pods get one when they run. So its classes have no match, with a note.

mod objects;
#[cfg(test)]
mod tests;

use fairlink_core::Rate;

use self::objects::{Objects, Pod};
use super::notes::{Notes, wrong};
use super::plan::{Class, ClassNames, Plan};
use super::prefixes::{Conflict, minimal, order};
use super::{Direction, FileInfo, ImportInfo, Imported, Number, OptionInfo, Options, sound, write};
use crate::json;
use crate::problem::{Log, Problems, Source};
use crate::units::show_bps;
use crate::yaml::{self, Node};

const NODE: OptionInfo = OptionInfo::name("node", "NAME", "The pods of this node, where there are several");

pub(super) const INFO: ImportInfo = ImportInfo {
    name: "k8s",
    tool: "Kubernetes",
    help: "Kubernetes: bandwidth annotations of pods, from `kubectl get pods -A -o json` or `-o yaml`, and of manifests",
    files: &[FileInfo {
        key: "file",
        placeholder: "FILE",
        help: "The pods: output of `kubectl get pods -A -o json` or `-o yaml`, or manifests of pods, Deployments and other objects, which have no addresses",
        number: Number::One,
        name: "pods.yaml",
        endings: &["json", "yaml", "yml"],
    }],
    options: &[
        OptionInfo { help: "Rate of the node's link", default: None, required: true, ..OptionInfo::rate("") },
        NODE,
        OptionInfo::direction("To the pods (ingress), from them (egress), or a link for each; both need --out"),
    ],
    without: &[("as-is", "pods are limited one by one, and there is no lending to keep")],
    has_plans: false,
    unmatched: "export the pods that run, which have addresses: kubectl get pods -A -o yaml > pods.yaml",
    sign: |text| ["ingress", "egress"].iter().any(|way| text.contains(&format!("kubernetes.io/{way}-bandwidth"))),
    reader: |sources, options| read(&sources[0], options),
};

fn read(source: &Source, options: &Options) -> Result<Imported, Problems> {
    let rate = options.rate().expect("it is a required option");
    let mut log = Log::new(source);
    let mut notes = Notes::default();
    let is_json = source.inner().trim_start_matches('\u{feff}').trim_start().starts_with('{');
    let documents = match is_json {
        true => json::parse(source.inner(), &mut log).map(|document| vec![Node::from_json(document)]),
        false => yaml::documents(source.inner(), &mut log),
    };
    let mut all = Vec::new();
    let mut templates = 0;
    if let Some(documents) = documents {
        let objects = Objects::read(&documents, options.get(NODE.key), source, &mut notes, &mut log);
        templates = objects.templates.len();
        if objects.pods.len() + templates == 0 && !log.has_errors() {
            wrong(0..0, "there is no pod to import", "export running pods, which have addresses", &mut log);
        }
        all = in_order(objects.pods, &mut log);
        all.extend(objects.templates);
    }
    if log.has_errors() {
        return Err(log.into_errors());
    }
    let mut links = Vec::new();
    for &direction in options.directions() {
        let plan = plan(&all, rate, direction);
        links.push(write::link(&plan, "k8s", source.name(), false).0);
    }
    let with_address = all.len() - templates;
    let limited = all[..with_address].iter().filter(|pod| pod.limits.iter().any(Option::is_some)).count();
    let mut kept = vec![format!("{with_address} pods with their addresses, {limited} of them with limits")];
    if templates > 0 {
        kept.push(format!("{templates} pods of manifests with their limits, without addresses"));
    }
    let what = "limits: Kubernetes polices each pod with its own token bucket and does not share the node's link; here the limit is a ceiling, and pods have equal shares of the link";
    notes.changed(source, None, what.to_owned());
    sound(links, kept, notes.all)
}

/// Sorts pods with longer prefixes before those whose prefixes contain them.
fn in_order(pods: Vec<Pod>, log: &mut Log) -> Vec<Pod> {
    match order(&pods.iter().map(|pod| pod.prefixes.clone()).collect::<Vec<_>>()) {
        Ok(order) => {
            let mut all: Vec<Option<Pod>> = pods.into_iter().map(Some).collect();
            let mut pods: Vec<Pod> = order.into_iter().filter_map(|at| all[at].take()).collect();
            pods.iter_mut().for_each(|pod| minimal(&mut pod.prefixes));
            pods
        }
        Err(Conflict::Same { first, second, prefix } | Conflict::Crossed { first, second, prefix }) => {
            let what = format!("the pods {} and {} both have {prefix}", pods[first].name, pods[second].name);
            wrong(pods[second].at.clone(), what, "export the running pods of a single cluster", log);
            Vec::new()
        }
    }
}

fn plan(pods: &[Pod], rate: Rate, direction: Direction) -> Plan {
    let mut names = ClassNames::default();
    let mut classes: Vec<Class> = pods
        .iter()
        .map(|pod| Class {
            name: names.make(&pod.name),
            remark: pod.remark.clone(),
            ceiling: pod.limits[direction as usize].map(|limit| limit.min(rate.bps())),
            matches: pod.prefixes.iter().map(|prefix| format!("{}{prefix}", direction.net())).collect(),
            ..Class::default()
        })
        .collect();
    classes.push(Class { name: names.make("others"), remark: "traffic of no pod".to_owned(), ..Class::default() });
    Plan {
        name: direction.as_str().to_owned(),
        rate: rate.bps(),
        rate_why: format!("as asked for: {}", show_bps(rate.bps())),
        mtu: 1514,
        default: classes.len() - 1,
        classes,
        lending: None,
    }
}

/// Parses a Kubernetes quantity as a whole number from 1 to 10^12; the fraction is truncated.
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
