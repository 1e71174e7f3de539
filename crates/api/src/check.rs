//! Checks a link file and computes the promises of its scheduler.

#[cfg(feature = "cores")]
pub(crate) mod cores;
pub(crate) mod network;
pub(crate) mod theorems;

use std::collections::HashSet;

use fairlink_config::{LinkFile, Problem, Problems, ReadOptions, Source};
use fairlink_core::{BuildError, ClassId, Hierarchy, Hosts, Leniency, Members, Nanos, PerWindow, SchedulerInfo};
use fairlink_report::{ClassBounds, ClassReport, Content, Document, LinkBounds, LinkReport, TrafficLimit};
use fairlink_theory::bursts::{CostlyBurst, costly_bursts};
use fairlink_theory::ideal::{Ideal, NotComputed, Rule, Traffic};
use fairlink_theory::latency::DelayBound;
use fairlink_theory::promises::{GapBound, Promised, largest_share_error, promised, shorter_delays};
use fairlink_theory::reach::{all_small_bursts, may_lose};
use fairlink_theory::request::{Demand, Request};
use fairlink_theory::to_f64;
use fairlink_theory::turns::short_queues;
use fairlink_traffic::{ArrivalCurve, ArrivalLimit};
use schemars::JsonSchema;
use serde::Serialize;

use crate::admission::Admission;
use crate::refused::{ProblemReport, Refused};
use crate::rows::Each;
use crate::tree::{class_report, terms};
#[cfg(feature = "cores")]
use cores::OnCores;
use network::NetworkReport;
use theorems::{Load, Theorems};

/// A bound beyond this time is of no use to anybody: 1 minute, in seconds.
pub const USEFUL_S: f64 = 60.0;

/// A share that comes out wrong by more than this, relative to it, is worth a warning.
const WRONG_SHARE: f64 = 0.01;

/// Scheduler, strictness and load of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions<'a> {
    /// The scheduler, instead of the file's own.
    pub scheduler: Option<&'a str>,
    /// Warns of unsupported settings instead of refusing them.
    pub lenient: bool,
    /// A gateway is to run the file: every leaf that no frame can reach is named, also one that the kernel could choose
    /// by its number.
    pub gateway: bool,
    /// Traffic of latency-critical classes, for their mean delay.
    pub load: Load<'a>,
}

/// The document of [`check`].
#[derive(Debug, JsonSchema, Serialize)]
pub struct CheckDoc<C = Vec<ClassReport>> {
    /// True; that of a file that is refused is [`RefusedDoc`].
    #[schemars(extend("const" = true))]
    pub valid: bool,
    /// The link with its bounds; its notes give the reasons for absent numbers.
    pub link: LinkReport<C>,
    /// Theorems as the texts print them, and values that depend on curves and load.
    pub theorems: Theorems,
    /// Absent if no service curves are to be guaranteed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// The leaves that no frame can reach; the shares are those while they are idle.
    pub unreachable: Vec<String>,
    /// Capacity of the gateway on this machine in bit/s. Absent if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_bps: Option<u64>,
    /// Delay of a frame in the gateway while other frames flood it. Absent without `--gateway`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flood: Option<Flood>,
    /// Longest piece of a super-frame that is scheduled as one packet, in accounted bytes. Bounds are for packets of this
    /// length. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_piece_bytes: Option<u32>,
    /// A scheduler with the same shares and shorter delay bounds, if those of some leaves are long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shorter_delays: Option<ShorterDelays>,
    /// Bounds over several links, of a scenario with routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkReport>,
    /// The bounds on several cores, if several share the link.
    #[cfg(feature = "cores")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_cores: Option<OnCores>,
    /// Warnings.
    pub problems: Vec<ProblemReport>,
}

/// A scheduler that shares as the link's does, and has shorter delay bounds.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ShorterDelays {
    /// Its name.
    pub scheduler: String,
    /// Leaves with a delay bound of more than three of the link's largest packets at their rates, and a shorter one under it.
    pub leaves: usize,
    /// Of these, the leaf whose bound becomes shortest in proportion.
    pub class: String,
    /// Its delay bound in seconds.
    pub delay_bound_s: f64,
    /// That under the other scheduler.
    pub shorter_s: f64,
}

/// Limits of what a flood does to a frame of another class in the gateway.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Flood {
    /// Number of frames that may be in front of it until it is classified.
    pub frames: u64,
    /// Time for these at the measured capacity, in seconds. Absent if that was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<f64>,
    /// True if the kernel drops by class what is more than the gateway fetches; else it drops frames of any class.
    pub by_class: bool,
    /// The reason, if it does not drop by class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl<C> Content for CheckDoc<C> {
    const KIND: &'static str = "check";
}

/// The document of a link file that is refused.
#[derive(Debug, JsonSchema, Serialize)]
pub struct RefusedDoc {
    /// False.
    #[schemars(extend("const" = false))]
    pub valid: bool,
    /// Absent if service curves are not the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// The reasons.
    pub problems: Vec<ProblemReport>,
}

impl Content for RefusedDoc {
    const KIND: &'static str = "check";
}

impl RefusedDoc {
    /// Makes the document of a file that was refused for `problems`.
    #[must_use]
    pub fn new(problems: &Problems, admission: Option<Admission>) -> Document<Self> {
        let problems = problems.all().iter().map(ProblemReport::from).collect();
        Document::new(Self { valid: false, admission, problems })
    }
}

/// A sound link file, and the results of its check.
#[derive(Debug)]
pub struct Checked {
    /// The link.
    pub link: LinkFile,
    /// Promises of its scheduler, computed for its tree.
    pub promised: Promised,
    /// The ideal of the scheduler while every leaf is greedy.
    pub busy: Result<Ideal, NotComputed>,
    /// Theorems beside the bounds.
    pub theorems: Theorems,
    /// Bytes that the scheduler with its queues takes at most.
    pub memory_bytes: u64,
    /// The leaves that no frame can reach.
    pub unreachable: Vec<ClassId>,
    /// Capacity of the gateway on this machine in bit/s, if it was measured.
    pub gateway_bps: Option<u64>,
    /// Effect of a flood on the gateway on this machine, if it was requested.
    pub flood: Option<Flood>,
    /// Bounds over several links, of a scenario with routes.
    pub network: Option<NetworkReport>,
    /// The bounds on several cores, if they were computed.
    #[cfg(feature = "cores")]
    pub on_cores: Option<OnCores>,
    /// Warnings.
    pub warnings: Vec<Problem>,
}

/// Checks a link file and computes the bounds that its scheduler promises.
///
/// ```
/// use fairlink_api::{CheckOptions, check};
/// use fairlink_config::SourceText;
///
/// let refused = check(&SourceText::new("a.toml", "[link]\nrate = \"9mbit\"\n[[class]]\nname = \"a\"\nprioritty = 1\n"), &CheckOptions::default()).unwrap_err();
/// let problem = &refused.problems()[0];
/// assert_eq!((problem.code.as_str(), problem.line, problem.column, problem.length), ("unknown_key", Some(5), Some(1), Some(9)));
/// ```
///
/// # Errors
/// [`Refused`]: errors in the text, settings that the scheduler does not support, more memory than the file allows, a wrong load.
pub fn check(source: &Source, options: &CheckOptions<'_>) -> Result<Checked, Refused> {
    let leniency = if options.lenient { Leniency::Ignore } else { Leniency::Refuse };
    let reading = ReadOptions { leniency, scheduler: options.scheduler };
    let mut link = LinkFile::from_source(source, &reading)?;
    let memory_bytes = link.check_memory(link.info())?;
    if let Err(error) = link.info().build(&link.tree, leniency, Members::new()) {
        if matches!(error, BuildError::NotAdmitted { .. })
            && let Some(admission) = Admission::for_link(&link)
        {
            return Err(Refused::NotAdmitted { problems: link.explain(&error), admission });
        }
        return Err(link.explain(&error).into());
    }
    let mut warnings = std::mem::take(&mut link.warnings);
    warnings.extend(share_warnings(&link)?);
    warnings.extend(link.overruled_warnings());
    warnings.extend(link.lending_warnings());
    let unreachable = unreachable(&link, options.gateway);
    warnings.extend(link.unreachable_warning(&unreachable));
    let promised = promised(link.info(), &link.tree).map_err(Refused::failed)?;
    warnings.extend(unproven(link.info(), &link.tree, &promised).map(|what| link.transmit_warning(&what)));
    let theorems = Theorems::for_link(&link, &options.load)?;
    let busy = busy(&link, &unreachable);
    if let Ok(ideal) = &busy {
        let short = short_queues(link.info(), &link.tree, |leaf| ideal.bps(leaf));
        warnings.extend(short.iter().map(|short| link.short_queue_warning(short.leaf, short.holds, short.enough)));
    }
    Ok(Checked {
        link,
        promised,
        busy,
        theorems,
        memory_bytes,
        unreachable,
        gateway_bps: None,
        flood: None,
        network: NetworkReport::for_source(source, &reading),
        #[cfg(feature = "cores")]
        on_cores: None,
        warnings,
    })
}

impl Checked {
    /// A class with its terms and bounds.
    #[must_use]
    pub fn class(&self, class: ClassId) -> ClassReport {
        let mut terms = terms(&self.link, class);
        terms.share_all_busy_bps = self.busy.as_ref().ok().map(|busy| busy.floor_bps(class));
        let bounds = class_bounds(&self.promised, &self.link.tree, class);
        ClassReport { terms: Some(terms), bounds: Some(bounds), ..class_report(&self.link, class) }
    }

    /// All classes.
    pub fn all_classes(&self) -> Each<impl Fn(usize) -> ClassReport> {
        Each { len: self.link.tree.len() - 1, item: |row| self.class(ClassId(row as u32 + 1)) }
    }

    /// Notes on the shares while all are busy.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = match &self.busy {
            Ok(ideal) => ideal.notes(self.link.info()),
            Err(why) => vec![format!("share, all busy: {why}")],
        };
        if !self.unreachable.is_empty() {
            notes.push("share, all busy: classes that no frame can reach count as idle".to_owned());
        }
        notes
    }

    /// Returns a scheduler with the same shares and shorter delay bounds, if those of some leaves are long.
    #[must_use]
    pub fn shorter_delays(&self) -> Option<ShorterDelays> {
        let shorter = shorter_delays(self.link.info(), &self.link.tree, &self.promised.delays)?;
        let [delay_bound_s, shorter_s] = shorter.seconds;
        Some(ShorterDelays {
            scheduler: shorter.scheduler.name.to_owned(),
            leaves: shorter.leaves,
            class: self.link.names.name(shorter.leaf).to_owned(),
            delay_bound_s,
            shorter_s,
        })
    }

    /// Returns the bounds of the whole link; absent if the scheduler does not promise them.
    #[must_use]
    pub fn bounds(&self) -> LinkBounds {
        let (promised, link) = (&self.promised, &self.link);
        let name = |class: ClassId| link.names.name(class).to_owned();
        let fairness = promised.fairness.as_ref();
        let gap = promised.transmission_gap.as_ref();
        let next = gap.and_then(GapBound::next_packet);
        LinkBounds {
            fairness_bytes: fairness.map(|fairness| to_f64(&fairness.bytes_per_weight.value)),
            fairness_s: fairness.map(|fairness| to_f64(&fairness.seconds.value)),
            fairness_between: fairness.map(|fairness| <[ClassId; 2]>::from(fairness.seconds.classes).map(name)),
            transmission_gap_s: gap.map(|gap| to_f64(&gap.seconds)),
            next_packet_s: next.map(|(seconds, _)| seconds),
            next_packet_of: next.map(|(_, leaf)| name(leaf)),
            longest_round_s: gap.and_then(|gap| gap.longest_round.as_ref()).map(to_f64),
        }
    }

    /// The document with these classes.
    pub fn document<C>(&self, classes: C) -> Document<CheckDoc<C>> {
        let link = LinkReport {
            name: self.link.name.clone(),
            scheduler: Some(self.link.scheduler.clone()),
            capacity_bps: Some(self.link.tree.link().rate.bps()),
            memory_bytes: Some(self.memory_bytes),
            bounds: Some(self.bounds()),
            notes: self.notes(),
            ..LinkReport::of_classes(classes)
        };
        Document::new(CheckDoc {
            valid: true,
            link,
            theorems: self.theorems.clone(),
            admission: Admission::for_link(&self.link),
            unreachable: self.unreachable.iter().map(|&leaf| self.link.names.name(leaf).to_owned()).collect(),
            gateway_bps: self.gateway_bps,
            flood: self.flood.clone(),
            longest_piece_bytes: Some(self.link.longest_piece()).filter(|&bytes| bytes > 0),
            shorter_delays: self.shorter_delays(),
            network: self.network.clone(),
            #[cfg(feature = "cores")]
            on_cores: self.on_cores.clone(),
            problems: self.warnings.iter().map(ProblemReport::from).collect(),
        })
    }
}

/// Returns warnings if the link's scheduler gives a class another share than the one written, or less than its ceiling
/// because its burst is too small.
pub fn share_warnings(link: &LinkFile) -> Result<Vec<Problem>, Refused> {
    let error = largest_share_error(link.info(), &link.tree).map_err(Refused::failed)?;
    let wrong = error.filter(|(_, error)| error.abs() > WRONG_SHARE);
    let mut warnings: Vec<Problem> = wrong.map(|(class, error)| link.share_warning(class, error)).into_iter().collect();
    if may_lose(link.info()) {
        let small = all_small_bursts(&link.tree).map_err(|error| link.explain(&error))?;
        warnings.extend(
            small
                .iter()
                .map(|small| link.small_burst_warning(small.class, small.enough, small.reached_bps, small.busy)),
        );
    }
    let costly = costly_bursts(link.info(), &link.tree).map_err(|error| link.explain(&error))?;
    warnings.extend(costly.iter().map(|costly| {
        let CostlyBurst { class, feature, burst, enough, with_bps, without_bps } = *costly;
        link.costly_burst_warning((class, feature, burst), enough, (with_bps, without_bps))
    }));
    Ok(warnings)
}

/// Solves the ideal of the link's scheduler while every leaf is greedy, except those of `idle`.
pub(crate) fn busy(link: &LinkFile, idle: &[ClassId]) -> Result<Ideal, NotComputed> {
    let mut demand = Demand::uniform(&link.tree, Request::Unlimited);
    idle.iter().for_each(|&leaf| demand.set(&link.tree, leaf, Request::Rate(0)).expect("a leaf of this tree"));
    let solved = Rule::for_scheduler(link.info(), &link.tree, Traffic::unknown())?.solve(&demand);
    solved.map_err(|why| why.named(|class| link.names.name(class).to_owned()))
}

/// Returns the leaves that no frame can reach. Without matches the file is not about frames, unless a gateway is asked
/// for. Only the kernel can choose a class by its number.
pub(crate) fn unreachable(link: &LinkFile, gateway: bool) -> Vec<ClassId> {
    if gateway {
        return link.unreachable().to_vec();
    }
    if link.matches.is_empty() {
        return Vec::new();
    }
    let numbered: HashSet<ClassId> = link.classids.iter().map(|&(_, class)| class).collect();
    let mut unreachable = link.unreachable().to_vec();
    unreachable.retain(|leaf| !numbered.contains(leaf));
    unreachable
}

/// Names, in words, the promises of the scheduler that are not proven behind the transmit queue of `tree`; `None` if
/// all are.
fn unproven(info: &SchedulerInfo, tree: &Hierarchy, promised: &Promised) -> Option<String> {
    tree.link().transmit_queue?;
    let mut kinds: Vec<&str> = info.promises.names().filter(|&name| name != "delay").collect();
    let with_delay = tree.leaves().iter().filter(|leaf| promised.delays[leaf.index()].is_some()).count();
    let of_some = match with_delay {
        _ if info.promises.delay.is_none() => None,
        0 => Some("delay"),
        all if all == tree.leaves().len() => None,
        _ => Some("delay of some classes"),
    };
    kinds.extend(of_some);
    let hosts = tree.classes().any(|class| tree.config(class).hosts.is_some());
    kinds.extend(hosts.then_some("hosts that share a class"));
    if kinds.is_empty() {
        return None;
    }
    Some(format!(
        "promises of {} are not proven behind a transmit queue and are not printed",
        kinds.join(", ").replace('_', " ")
    ))
}

/// Returns the bounds of one class.
#[must_use]
pub fn class_bounds(promised: &Promised, tree: &Hierarchy, class: ClassId) -> ClassBounds {
    let index = class.index();
    let of_rounds = promised.fairness.as_ref().and_then(|fairness| *fairness.of_classes.get(index)?);
    let fairness = of_rounds.or_else(|| *promised.siblings.get(index)?);
    let delay = promised.delays[index].as_ref();
    let weight = promised.weights[index];
    ClassBounds {
        weight: weight.map(|weight| weight.as_run),
        weight_error: weight.map(|weight| weight.error),
        fairness_bytes: fairness.map(|fairness| fairness.bytes),
        fairness_s: fairness.map(|fairness| fairness.seconds),
        worst_case_bytes: promised.worst_case[index].as_ref().map(to_f64),
        transmission_gap_s: promised.transmission_gap.as_ref().and_then(|gap| gap.below_ceilings[index]),
        // Behind a transmit queue all packets of a host may already be scheduled.
        hosts_apart_bytes: tree
            .config(class)
            .hosts
            .filter(|_| tree.link().transmit_queue.is_none())
            .map(|_| Hosts::apart(tree.link().max_packet)),
        delay_bound_s: delay.map(DelayBound::seconds_in_floats),
        delay_bound_for: delay.map(|bound| limits(&bound.traffic)).unwrap_or_default(),
    }
}

fn limits(traffic: &ArrivalCurve) -> Vec<TrafficLimit> {
    let seconds = |time: Nanos| time.0 as f64 / 1e9;
    let limit = |limit: &ArrivalLimit| match *limit {
        ArrivalLimit::Bucket { burst, rate_bps } => TrafficLimit::Bucket { burst_bytes: burst, rate_bps },
        ArrivalLimit::Window { amount: PerWindow::Bytes(bytes), every } => {
            TrafficLimit::Bytes { bytes, every_s: seconds(every) }
        }
        ArrivalLimit::Window { amount: PerWindow::Packets(packets), every } => {
            TrafficLimit::Packets { packets, every_s: seconds(every) }
        }
        ArrivalLimit::Spacing { min_gap, mean_gap, over, largest } => TrafficLimit::Spacing {
            min_gap_s: seconds(min_gap),
            mean_gap_s: seconds(mean_gap),
            every_s: seconds(over),
            largest_bytes: largest,
        },
        ArrivalLimit::Line { rate } => TrafficLimit::Line { line_bps: rate.bps() },
    };
    traffic.limits().iter().map(limit).collect()
}
