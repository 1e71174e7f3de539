//! The objects of a file: running pods, and the pods of manifests.
//!
//! A manifest is an object without the status that the cluster gives. Objects with a pod template (Deployment,
//! StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob) ask for as many pods as they have replicas.
//! Where the file has running pods of such an object, these count.

use std::collections::BTreeMap;

use super::quantity;
use crate::import::notes::{Notes, Tally, wrong};
use crate::import::prefixes;
use crate::matching::Prefix;
use crate::problem::{Log, Source, Span};
use crate::yaml::{Node, Value};

/// Most replicas of all objects together.
const MAX_REPLICAS: u64 = 10_000;
/// The annotations, down and up.
const ANNOTATIONS: [&str; 2] = ["kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"];
/// Objects with a pod template.
const WORKLOADS: [&str; 7] =
    ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob"];

/// A pod of the node.
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) at: Span,
    /// Name of an object that does not run.
    pub(super) remark: String,
    /// Empty for a pod of a manifest.
    pub(super) prefixes: Vec<Prefix>,
    /// In bit/s, down and up.
    pub(super) limits: [Option<u64>; 2],
}

/// Pods and objects of a file.
#[derive(Default)]
pub(super) struct Objects {
    /// Pods with addresses.
    pub(super) pods: Vec<Pod>,
    /// Pods of manifests, which have limits and no address.
    pub(super) templates: Vec<Pod>,
}

impl Objects {
    /// Reads all documents; of running pods, those of `node`. Errors are in the log.
    pub(super) fn read(
        documents: &[Node],
        node: Option<&str>,
        source: &Source,
        notes: &mut Notes,
        log: &mut Log,
    ) -> Self {
        let mut all: Vec<&Node> = Vec::new();
        for document in documents.iter().filter(|document| document.value != Value::Null) {
            match document.get("items") {
                Some(items) if matches!(items.value, Value::List(_)) => all.extend(items.items()),
                _ if kind(document).is_empty() => {
                    let help =
                        "pass the output of kubectl get pods -A -o json or -o yaml, or manifests with their kind";
                    let what = "this has no kind and is neither a pod nor a list of pods";
                    wrong(line_of(document), what, help, log);
                    return Self::default();
                }
                _ => all.push(document),
            }
        }
        // Items of `kubectl get pods -o json` may come without their kind.
        let (pods, others): (Vec<&Node>, Vec<&Node>) =
            all.into_iter().partition(|object| ["Pod", ""].contains(&kind(object)));
        let (workloads, others): (Vec<&Node>, Vec<&Node>) =
            others.into_iter().partition(|object| WORKLOADS.contains(&kind(object)));
        if pods.is_empty() && workloads.is_empty() {
            let what = match others.first() {
                Some(first) => format!("this is {}, not a pod or a list of pods", kind(first)),
                None => "there is no object in this file".to_owned(),
            };
            let at = others.first().map_or(0..0, |first| line_of(first));
            wrong(at, what, "pass the output of kubectl get pods -A -o json or -o yaml, or manifests of pods", log);
            return Self::default();
        }
        if !is_one_node(&pods, node, log) {
            return Self::default();
        }
        let mut reading = Reading { node, source, notes, log, made: Self::default(), tallies: Tallies::default() };
        for pod in &pods {
            reading.pod(pod);
        }
        for workload in &workloads {
            reading.workload(workload, &workloads, &pods);
        }
        for other in &others {
            reading.other(other);
        }
        reading.finish()
    }
}

/// Reports pods of several nodes without a choice, and a choice that no pod is on.
fn is_one_node(pods: &[&Node], chosen: Option<&str>, log: &mut Log) -> bool {
    let mut nodes: Vec<&str> = pods.iter().filter_map(|pod| pod.path(&["spec", "nodeName"])?.text()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let (what, help) = match chosen {
        Some(node) if !nodes.contains(&node) => (
            format!("there is no pod on the node \"{node}\""),
            match nodes.is_empty() {
                true => "remove --node: no object here names a node".to_owned(),
                false => format!("there are pods on: {}", nodes.join(", ")),
            },
        ),
        None if nodes.len() > 1 => (
            format!("these are pods of {} nodes, and each node has its own link", nodes.len()),
            format!("choose one with --node: {}", nodes.join(", ")),
        ),
        _ => return true,
    };
    wrong(0..0, what, help, log);
    false
}

/// Counts of findings that many objects have in common.
#[derive(Default)]
struct Tallies {
    no_address: Tally,
    host: Tally,
    ended: Tally,
    unlimited: Tally,
    /// By kind: objects without pods.
    others: BTreeMap<String, usize>,
}

struct Reading<'a> {
    node: Option<&'a str>,
    source: &'a Source,
    notes: &'a mut Notes,
    log: &'a mut Log,
    made: Objects,
    tallies: Tallies,
}

impl Reading<'_> {
    fn pod(&mut self, pod: &Node) {
        let text = |keys: &[&str]| pod.path(keys).and_then(Node::text).unwrap_or_default();
        let on = text(&["spec", "nodeName"]);
        let is_elsewhere = self.node.is_some_and(|node| on != node && !(on.is_empty() && is_manifest(pod)));
        if is_elsewhere {
            return;
        }
        let Some(name) = self.name(pod) else { return };
        if is_of_host(pod.get("spec")) {
            self.tallies.host.add(&line_of(pod));
            return;
        }
        // Its address may be another pod's by now.
        if ["Succeeded", "Failed"].contains(&text(&["status", "phase"])) {
            self.tallies.ended.add(&line_of(pod));
            return;
        }
        let limits = self.limits(pod.get("metadata"), &format!("the pod {name}"));
        let several = pod.path(&["status", "podIPs"]).map(Node::items).unwrap_or_default();
        let several = several.iter().filter_map(|one| one.get("ip")?.text());
        let one = pod.path(&["status", "podIP"]).and_then(Node::text);
        let prefixes: Vec<Prefix> = several.chain(one).filter_map(|text| Some(prefixes::parse(text)?.0)).collect();
        let at = line_of(pod);
        if !prefixes.is_empty() {
            self.made.pods.push(Pod { name, at, remark: String::new(), prefixes, limits });
        } else if !is_manifest(pod) {
            self.tallies.no_address.add(&at);
        } else if limits == [None, None] {
            self.tallies.unlimited.add(&at);
        } else {
            self.without_address(&at, &format!("the pod {name}"));
            let remark = "a pod of a manifest".to_owned();
            self.made.templates.push(Pod { name, at, remark, prefixes, limits });
        }
    }

    fn workload(&mut self, workload: &Node, all: &[&Node], pods: &[&Node]) {
        let kind = kind(workload);
        let Some(name) = self.name(workload) else { return };
        let whose = format!("the {kind} {name}");
        if has_limits(workload.get("metadata")) {
            let what = format!(
                "the bandwidth annotations of {whose} itself: Kubernetes reads only those of its pod template (spec.template.metadata)"
            );
            self.notes.left_out(self.source, Some(line_of(workload)), what);
        }
        let spec = match kind {
            "CronJob" => workload.path(&["spec", "jobTemplate", "spec"]),
            _ => workload.get("spec"),
        };
        let template = spec.and_then(|spec| spec.get("template"));
        let limits = self.limits(template.and_then(|template| template.get("metadata")), &whose);
        let is_counted = all.iter().any(|owner| owns(owner, workload)) || pods.iter().any(|pod| runs(workload, pod));
        if is_counted {
            return;
        }
        let at = line_of(workload);
        let template_spec = template.and_then(|template| template.get("spec"));
        let on = template_spec.and_then(|spec| spec.get("nodeName")?.text());
        if self.node.is_some_and(|node| on.is_some_and(|on| on != node)) {
            return;
        }
        if is_of_host(template_spec) {
            self.tallies.host.add(&at);
            return;
        }
        if limits == [None, None] {
            self.tallies.unlimited.add(&at);
            return;
        }
        let key = if ["Job", "CronJob"].contains(&kind) { "parallelism" } else { "replicas" };
        let replicas = match spec.and_then(|spec| spec.get(key)).filter(|found| found.value != Value::Null) {
            None => 1,
            Some(found) => match found.count().filter(|&replicas| replicas <= MAX_REPLICAS) {
                Some(replicas) => replicas,
                None => {
                    let what = format!("\"{key}\" of {whose} is not a whole number from 0 to {MAX_REPLICAS}");
                    wrong(found.at.clone(), what, "write the number of pods, such as 3", self.log);
                    return;
                }
            },
        };
        if self.made.templates.len() as u64 + replicas > MAX_REPLICAS {
            let what = format!("more than {MAX_REPLICAS} replicas with limits, including those of {whose}");
            wrong(at, what, "export the pods of one node: kubectl get pods -A -o yaml", self.log);
            return;
        }
        if replicas == 0 {
            self.notes.left_out(self.source, Some(at), format!("{whose}: no pods requested ({key}: 0)"));
            return;
        }
        self.without_address(&at, &whose);
        for replica in 1..=replicas {
            let name = if replicas == 1 { name.clone() } else { format!("{name} {replica} of {replicas}") };
            let pod = Pod { name, at: at.clone(), remark: format!("a pod of a {kind}"), prefixes: Vec::new(), limits };
            self.made.templates.push(pod);
        }
    }

    /// An object that has no pods. Nothing that asks for bandwidth is passed over without a word.
    fn other(&mut self, object: &Node) {
        if asks_somewhere(object) {
            let what = format!(
                "{} of {}, {}, whose bandwidth annotations are not read: export its pods",
                object.path(&["metadata", "name"]).and_then(Node::text).unwrap_or("an object"),
                kind(object),
                "an unknown kind"
            );
            self.notes.left_out(self.source, Some(line_of(object)), what);
        } else {
            *self.tallies.others.entry(kind(object).to_owned()).or_default() += 1;
        }
    }

    fn without_address(&mut self, at: &Span, whose: &str) {
        let what = format!(
            "the address of {whose}: pods get one when they run, so its class has no match; export running pods (kubectl get pods -A -o yaml), or write the match"
        );
        self.notes.left_out(self.source, Some(at.clone()), what);
    }

    /// Namespace and name. An object without a name is an error, as in Kubernetes.
    fn name(&mut self, object: &Node) -> Option<String> {
        let text = |key: &str| object.path(&["metadata", key]).and_then(Node::text).filter(|text| !text.is_empty());
        let Some(own) = text("name").or_else(|| text("generateName")) else {
            let what = format!("this {} has no name", if kind(object).is_empty() { "pod" } else { kind(object) });
            wrong(line_of(object), what, "write metadata: name: ..., which Kubernetes requires", self.log);
            return None;
        };
        Some(text("namespace").map_or_else(|| own.to_owned(), |space| format!("{space}/{own}")))
    }

    /// The limits in this metadata, in bit/s.
    fn limits(&mut self, metadata: Option<&Node>, whose: &str) -> [Option<u64>; 2] {
        let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
        ANNOTATIONS.map(|name| {
            let found = annotations?.get(name)?;
            let limit = found.text().and_then(quantity);
            if limit.is_none() {
                let what = match &found.value {
                    Value::Text(text) => format!("{name} of {whose} is \"{text}\""),
                    Value::Number(number) => {
                        format!("{name} of {whose} is the number {number}; annotations are strings")
                    }
                    _ => format!("{name} of {whose} is {}", found.kind()),
                };
                wrong(
                    found.at.clone(),
                    what,
                    "write a quantity of bit/s from 1 to 1T, such as 10M or \"1000000\"",
                    self.log,
                );
            }
            limit
        })
    }

    fn finish(self) -> Objects {
        let Tallies { no_address, host, ended, unlimited, others } = self.tallies;
        for (tally, what) in [
            (ended, "that have ended (Succeeded or Failed)"),
            (no_address, "without an address (not running)"),
            (host, "in the host network, which has the node's address"),
        ] {
            if let Some(pods) = tally.some("pod", "pods") {
                self.notes.left_out(self.source, None, format!("{pods} {what}"));
            }
        }
        if let Some(manifests) = unlimited.some("manifest", "manifests") {
            self.notes.left_out(self.source, unlimited.first.clone(), format!("{manifests} without limits"));
        }
        if !others.is_empty() {
            let kinds: Vec<String> = others.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            self.notes.left_out(self.source, None, format!("objects without pods: {}", kinds.join(", ")));
        }
        self.made
    }
}

fn kind(object: &Node) -> &str {
    object.get("kind").and_then(Node::text).unwrap_or_default()
}

/// The beginning of an object.
fn line_of(object: &Node) -> Span {
    object.at.start..object.at.start
}

/// Returns true for an object that no cluster has given a status.
fn is_manifest(object: &Node) -> bool {
    object.get("status").is_none()
}

fn is_of_host(spec: Option<&Node>) -> bool {
    spec.and_then(|spec| spec.get("hostNetwork")).is_some_and(|host| host.value == Value::Bool(true))
}

fn has_limits(metadata: Option<&Node>) -> bool {
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    annotations.is_some_and(|annotations| ANNOTATIONS.iter().any(|name| annotations.get(name).is_some()))
}

fn asks_somewhere(node: &Node) -> bool {
    node.entries().iter().any(|(key, value)| ANNOTATIONS.contains(&key.as_str()) || asks_somewhere(value))
        || node.items().iter().any(asks_somewhere)
}

fn is_same_namespace(one: &Node, other: &Node) -> bool {
    let space = |object: &Node| object.path(&["metadata", "namespace"]).and_then(Node::text).map(str::to_owned);
    space(one) == space(other)
}

/// Returns true if `object` names `owner` among its owners.
fn owns(owner: &Node, object: &Node) -> bool {
    let name = owner.path(&["metadata", "name"]).and_then(Node::text);
    let owners = object.path(&["metadata", "ownerReferences"]).map(Node::items).unwrap_or_default();
    let is_owner =
        |reference: &Node| kind(reference) == kind(owner) && reference.get("name").and_then(Node::text) == name;
    name.is_some() && is_same_namespace(owner, object) && owners.iter().any(is_owner)
}

/// Returns true for a pod of this object that the cluster runs: it is owned by it, or has the labels by which the
/// object selects its pods.
fn runs(workload: &Node, pod: &Node) -> bool {
    if is_manifest(pod) || !is_same_namespace(workload, pod) {
        return false;
    }
    let selector = match kind(workload) {
        "ReplicationController" => workload.path(&["spec", "selector"]),
        _ => workload.path(&["spec", "selector", "matchLabels"]),
    };
    let wanted = selector.map(Node::entries).unwrap_or_default();
    let labels = pod.path(&["metadata", "labels"]);
    let has = |(key, value): &(String, Node)| {
        labels.and_then(|labels| labels.get(key)).is_some_and(|own| own.value == value.value)
    };
    let by_job = || {
        // A CronJob owns jobs, which own the pods and have its name before a number.
        let name = workload.path(&["metadata", "name"]).and_then(Node::text).unwrap_or_default();
        let owners = pod.path(&["metadata", "ownerReferences"]).map(Node::items).unwrap_or_default();
        let is_job = |owner: &Node| {
            let job = owner.get("name").and_then(Node::text).unwrap_or_default();
            kind(owner) == "Job" && job.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
        };
        kind(workload) == "CronJob" && owners.iter().any(is_job)
    };
    owns(workload, pod) || !wanted.is_empty() && wanted.iter().all(has) || by_job()
}
