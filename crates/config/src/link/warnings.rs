//! Warnings about a valid link, because of the scheduler, the gateway or the traffic.

use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{ClassId, Feature, Nanos, Rate, Sharing};
use miette::Severity;

use super::LinkFile;
use crate::human;
use crate::problem::{Problem, ProblemKind};
use crate::units::{show_rate, show_size};

/// Most classes that a warning lists by name.
const MAX_LISTED: usize = 10;
/// Longest wait for the bursts of higher priorities without a warning.
const LONG_WAIT: Nanos = Nanos::from_secs(1);

impl LinkFile {
    /// A warning that the scheduler gives `class` a share among its siblings that is off the one written by `error`,
    /// relative to it.
    #[must_use]
    pub fn share_warning(&self, class: ClassId, error: f64) -> Problem {
        let kind = ProblemKind::ShareError {
            name: self.names.name(class).to_owned(),
            scheduler: self.scheduler.clone(),
            percent: format!("{:+.1}", error * 100.0),
        };
        Problem::new(Severity::Warning, &self.source, self.span(class), kind)
    }

    /// A warning that `class` has a `ceiling_burst` with which it reaches `reached_bps` only while `busy` leaves are
    /// busy; `enough` bytes lose nothing.
    #[must_use]
    pub fn small_burst_warning(&self, class: ClassId, enough: u64, reached_bps: u64, busy: usize) -> Problem {
        let config = self.tree.config(class);
        let kind = ProblemKind::SmallBurst {
            name: self.names.name(class).to_owned(),
            burst: config.ceiling_burst.unwrap_or_default(),
            enough,
            ceiling_bps: config.ceiling.map_or(0, Rate::bps),
            reached_bps,
            busy,
            leaves: self.tree.leaves().len(),
        };
        Problem::new(Severity::Warning, &self.source, self.feature_span(class, Feature::CeilingBurst), kind)
    }

    /// A warning that the burst of `class` (`feature`: [`Feature::Burst`] or [`Feature::CeilingBurst`]) is too small:
    /// while all leaves are busy the class gets `with_bps` where default bursts give `without_bps`. `enough` bytes lose
    /// nothing, where that is known.
    #[must_use]
    pub fn costly_burst_warning(
        &self,
        (class, feature, burst): (ClassId, Feature, u64),
        enough: Option<u64>,
        (with_bps, without_bps): (f64, f64),
    ) -> Problem {
        let key = if feature == Feature::CeilingBurst { "ceiling_burst" } else { "burst" };
        let enough = enough.map_or_else(String::new, |enough| format!("; {} would be enough", show_size(enough)));
        let why = format!(
            "of {} at class {:?} is too small: the class gets {} instead of {} while all leaves are busy{enough}",
            show_size(burst),
            self.names.name(class),
            human::rate(with_bps),
            human::rate(without_bps),
        );
        self.class_warning((class, feature, key), why, "raise it, or remove the key for the default")
    }

    /// A warning of the `key` of a class, which sets `feature`.
    fn class_warning(
        &self,
        (class, feature, key): (ClassId, Feature, &'static str),
        why: String,
        help: &'static str,
    ) -> Problem {
        let kind = ProblemKind::Misplaced { key, why, help };
        Problem::new(Severity::Warning, &self.source, self.feature_span(class, feature), kind)
    }

    /// A warning that the queue of `class` holds only `holds` bytes, and loses packets within its share because of the
    /// turns of others; `enough` bytes lose nothing.
    #[must_use]
    pub fn short_queue_warning(&self, class: ClassId, holds: u64, enough: u64) -> Problem {
        let why = format!(
            "of {} at class {:?} is too short for the rounds of {}: a class that sends at its share loses packets while all others have their turns; {} would be enough",
            human::size(holds as f64),
            self.names.name(class),
            self.scheduler,
            human::size(human::up(enough as f64)),
        );
        let help = "raise it, or lower the quanta or weights of the others if they may be";
        let kind = ProblemKind::Misplaced { key: "buffer", why, help };
        Problem::new(Severity::Warning, &self.source, self.span(class), kind)
    }

    /// Returns warnings of limits and quanta that the scheduler cannot keep as written: an upper limit (or a ceiling)
    /// below real-time curves, which take precedence, and quanta below the largest packet if all are scaled up then.
    #[must_use]
    pub fn overruled_warnings(&self) -> Vec<Problem> {
        let (info, tree) = (self.info(), &self.tree);
        let mut warnings = Vec::new();
        if info.supports(Feature::ServiceCurves) && info.supports(Feature::LinkCurves) {
            // By class: the real-time rates at it and below it, in bit/s.
            let mut first = vec![0u64; tree.len()];
            for class in tree.classes().rev() {
                let config = tree.config(class);
                let own = config.real_time.and_then(|curve| curve.m2).map_or(0, Rate::bps);
                first[class.index()] = first[class.index()].saturating_add(own);
                let above = tree.parent(class).unwrap_or(ClassId::ROOT).index();
                first[above] = first[above].saturating_add(first[class.index()]);
            }
            for class in tree.classes() {
                let config = tree.config(class);
                let curve = config.upper_limit.map(|curve| (Feature::LinkCurves, "upper_limit", curve.m2));
                let ceiling = config.ceiling.map(|ceiling| (Feature::Ceiling, "ceiling", Some(ceiling)));
                let Ok(most) = Rate::from_bps(first[class.index()]) else { continue };
                for (feature, key, limit) in [curve, ceiling].into_iter().flatten() {
                    if let Some(limit) = limit.filter(|limit| limit.bps() < most.bps()) {
                        let why = format!(
                            "of {} at class {:?} does not limit real-time curves of {}, which take precedence",
                            show_rate(limit),
                            self.names.name(class),
                            show_rate(most)
                        );
                        warnings.push(self.class_warning(
                            (class, feature, key),
                            why,
                            "raise the limit, or lower the real-time curves",
                        ));
                    }
                }
            }
        }
        if let Sharing::Lenders | Sharing::Allotted = info.sharing {
            let largest = tree.link().max_packet;
            let quantum = |leaf: ClassId| Some((leaf, tree.config(leaf).quantum.filter(|&quantum| quantum > 0)?));
            let smallest = tree.leaves().iter().filter_map(|&leaf| quantum(leaf)).min_by_key(|&(_, quantum)| quantum);
            if let Some((leaf, quantum)) = smallest.filter(|&(_, quantum)| quantum < largest) {
                let why = format!(
                    "of {quantum} B at class {:?} is below the largest packet, {largest} B: all quanta are scaled up until the smallest covers it",
                    self.names.name(leaf)
                );
                warnings.push(self.class_warning(
                    (leaf, Feature::Quantum, "quantum"),
                    why,
                    "write quanta of at least the largest packet in the same proportions",
                ));
            }
        }
        warnings
    }

    /// Returns warnings of quanta whose rounds are too long for default buckets, and of priorities that wait long while
    /// others spend their bursts; none if the scheduler does not lend as \[htb\] does.
    #[must_use]
    pub fn lending_warnings(&self) -> Vec<Problem> {
        let tree = &self.tree;
        let (Sharing::Lenders, Ok(plan)) = (self.info().sharing, Plan::for_tree(tree)) else { return Vec::new() };
        let mut warnings = Vec::new();
        let largest = tree.leaves().iter().filter_map(|&leaf| Some((tree.config(leaf).quantum?, leaf))).max();
        let times = plan.long_rounds(tree);
        if let Some((quantum, leaf)) = largest.filter(|_| times > 1) {
            let why = format!(
                "of {} at class {:?}: the quanta make rounds {times} times as long as default buckets last, so that classes may stay below their ceilings and lend less than their guarantees; quanta of 1/{times} do not",
                show_size(quantum.into()),
                self.names.name(leaf),
            );
            let help = "write smaller quanta in the same proportions, or a larger burst and ceiling_burst";
            warnings.push(self.class_warning((leaf, Feature::Quantum, "quantum"), why, help));
        }
        let mut seen = Vec::new();
        for &leaf in tree.leaves() {
            let priority = plan.priorities[leaf.index()];
            if seen.contains(&priority) {
                continue;
            }
            seen.push(priority);
            let wait = plan.burst_wait(tree, priority);
            if wait > LONG_WAIT {
                let why = format!(
                    "of {priority} at class {:?}: it waits up to {} while classes of higher priority spend their bursts, also within its guarantee; with the same priority it does not",
                    self.names.name(leaf),
                    human::time(human::up(wait.0 as f64 / 1e9)),
                );
                let help = "give it the priority of the others, or these smaller guarantees or a smaller burst";
                warnings.push(self.class_warning((leaf, Feature::Priority, "priority"), why, help));
            }
        }
        warnings
    }

    /// Returns a warning that `what` is not proven behind the link's transmit queue.
    #[must_use]
    pub fn transmit_warning(&self, what: &str) -> Problem {
        let why = format!("follows {}: {what}", self.scheduler);
        let help = "remove transmit_queue to get the scheduler's own bounds";
        let span = self.link_key(|key| key.name == "transmit_queue").or_else(|| self.span(ClassId::ROOT));
        Problem::new(Severity::Warning, &self.source, span, ProblemKind::Misplaced { key: "transmit_queue", why, help })
    }

    /// Returns a warning that the link's rate exceeds, or may exceed, the gateway's capacity on this machine: `why`
    /// follows "\"rate\"".
    #[must_use]
    pub fn rate_warning(&self, why: String) -> Problem {
        let help = "for TCP, set gso = \"auto\"; else use the kernel module, or several links on separate processors; `fairlink-lab bench --gateway` also measures short frames";
        let kind = ProblemKind::Misplaced { key: "rate", why, help };
        Problem::new(Severity::Warning, &self.source, self.span(ClassId::ROOT), kind)
    }

    /// Returns a warning of unreachable leaves, at the first of them; `None` if there are none. See
    /// [`LinkFile::unreachable`].
    #[must_use]
    pub fn unreachable_warning(&self, leaves: &[ClassId]) -> Option<Problem> {
        let first = leaves.first()?;
        let listed = leaves.len().min(MAX_LISTED);
        let kind = ProblemKind::NoMatch {
            names: leaves[..listed].iter().map(|&leaf| self.names.name(leaf).to_owned()).collect(),
            more: leaves.len() - listed,
            covered: self.matches.iter().any(|(class, _)| leaves.contains(class)),
        };
        Some(Problem::new(Severity::Warning, &self.source, self.span(*first), kind))
    }
}
