//! The external view of a case: arrivals, departures and drops of all packets in their order, and the report of the
//! run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fairlink_api::links_of;
use fairlink_core::{
    ClassId, DropReason, Hierarchy, HostKey, Leniency, Nanos, QueueKind, SchedulerInfo, WorkConserving,
};
use fairlink_report::DropCause;
use fairlink_sim::{Fate, Observer, Options, PacketSeen, Run, SimError, compare_links};

use crate::case::{Case, scheduler};

/// An event of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    Came,
    Sent { done: Nanos },
    Dropped(DropReason),
}

/// Something that happened at a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Event {
    /// When; of a packet that is sent, when its first bit leaves.
    pub(crate) at: Nanos,
    pub(crate) number: u64,
    /// Class of the scenario.
    pub(crate) class: usize,
    pub(crate) len: u32,
    pub(crate) source: u32,
    pub(crate) what: What,
}

/// A link from a time on.
pub(crate) struct Stage {
    pub(crate) start: Nanos,
    pub(crate) info: &'static SchedulerInfo,
    pub(crate) tree: Hierarchy,
    /// By class of the scenario.
    ids: Vec<Option<ClassId>>,
}

impl Stage {
    /// The class of the tree, if it is a leaf there.
    pub(crate) fn leaf(&self, class: usize) -> Option<ClassId> {
        self.ids.get(class).copied().flatten().filter(|&id| self.tree.is_leaf(id))
    }

    /// Packets that a transmit queue holds.
    pub(crate) fn behind(&self) -> u64 {
        self.tree.link().transmit_queue.map_or(0, |queue| queue.packets.into())
    }

    /// Returns true if the packets of a leaf may wait while the link is idle.
    pub(crate) fn may_wait(&self, leaf: ClassId, pooled: &[ClassId]) -> bool {
        let all = || self.tree.classes().map(|class| self.tree.config(class));
        let limited = |class: ClassId| {
            let config = self.tree.config(class);
            config.ceiling.is_some()
                || config.upper_limit.is_some()
                || config.bounded
                || pooled.contains(&class)
                || config.real_time.is_some() && config.link_share.is_none() && config.share.is_none()
        };
        match self.info.work_conserving {
            WorkConserving::Always => false,
            WorkConserving::Never => true,
            WorkConserving::UnlessLimited => path(&self.tree, leaf).any(limited) || all().any(|config| config.isolated),
        }
    }
}

/// The class and those above it, without the link.
pub(crate) fn path(tree: &Hierarchy, class: ClassId) -> impl Iterator<Item = ClassId> {
    std::iter::successors(Some(class), |&class| tree.parent(class)).filter(|&class| class != ClassId::ROOT)
}

/// A link's report of a leaf: packets and bytes that arrived, were sent, were dropped and are queued, and drops by
/// reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) packets: [u64; 4],
    pub(crate) bytes: [u64; 4],
    pub(crate) drops: BTreeMap<DropCause, u64>,
}

/// The record of one link.
pub(crate) struct Seen {
    pub(crate) events: Vec<Event>,
    pub(crate) names: Vec<String>,
    pub(crate) duration: Nanos,
    pub(crate) stages: Vec<Stage>,
    /// Classes that share a pool.
    pub(crate) pooled: Vec<ClassId>,
    /// By class of the scenario; leaves only.
    pub(crate) told: Vec<Option<Told>>,
    /// By class of the scenario: the printed ideal of the only phase, if the case is steady.
    pub(crate) ideal: Vec<Option<f64>>,
    /// By class of the scenario: true if a source always has another packet, in steady cases.
    pub(crate) greedy: Vec<bool>,
}

impl Seen {
    pub(crate) fn stage(&self, at: Nanos) -> &Stage {
        self.stages.iter().rfind(|stage| stage.start <= at).unwrap_or(&self.stages[0])
    }

    /// Returns true if packets of a class keep their order within a source only.
    pub(crate) fn by_flow(&self, class: usize) -> bool {
        let fair = |stage: &Stage| {
            let config = stage.leaf(class).map(|leaf| stage.tree.config(leaf));
            config.is_some_and(|config| config.queue == QueueKind::FqCoDel || config.hosts.is_some())
        };
        self.stages.iter().any(fair)
    }

    /// The one stage of a link that does not change and borrows from no pool.
    pub(crate) fn alone(&self) -> Option<&Stage> {
        match &self.stages[..] {
            [stage] if self.pooled.is_empty() => Some(stage),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Watch {
    events: Arc<Mutex<Vec<Event>>>,
    further: Vec<Arc<Mutex<Vec<Event>>>>,
}

impl Watch {
    fn note(&self, packet: &PacketSeen, at: Nanos, what: What) {
        let PacketSeen { number, class, len, source, .. } = *packet;
        self.events.lock().unwrap().push(Event { at, number, class: class.index(), len, source, what });
    }
}

impl Observer for Watch {
    fn came(&mut self, packet: &PacketSeen) {
        self.note(packet, packet.arrived, What::Came);
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        match fate {
            Fate::Sent { start, done } => self.note(packet, start, What::Sent { done }),
            Fate::Dropped { at, reason } => self.note(packet, at, What::Dropped(reason)),
        }
    }

    fn further(&mut self) -> Vec<Box<dyn Observer>> {
        let watch = |events: &Arc<Mutex<Vec<Event>>>| {
            Box::new(Self { events: Arc::clone(events), further: Vec::new() }) as Box<dyn Observer>
        };
        self.further.iter().map(watch).collect()
    }
}

/// The reason why a case cannot be judged.
pub(crate) enum NotRun {
    /// The file or the scheduler refuses it, with a reason.
    Refused(String),
    /// The run failed.
    Failed(String),
}

/// Runs a case and watches its links.
pub(crate) fn run(case: &Case) -> Result<Vec<Seen>, NotRun> {
    let file = case.read().map_err(NotRun::Refused)?;
    let links = links_of(&file);
    let mut watch = Watch::default();
    watch.further.resize_with(links.further.len(), Arc::default);
    let info = scheduler(case.scheduler);
    let settle = Nanos(file.duration.0 / 5);
    let options = Options { settle, ..Options::default() };
    let report = compare_links(&links, &[info], Leniency::Refuse, 1, &options, &mut watch);
    let run = match report {
        Ok(mut report) => report.runs.remove(0),
        Err(error) if is_refusal(&error) => return Err(NotRun::Refused(error.to_string())),
        Err(error) => return Err(NotRun::Failed(error.to_string())),
    };
    let scenarios = std::iter::once(("", &links.first)).chain(links.further.iter().map(|(name, one)| (&**name, one)));
    let events = std::iter::once(&watch.events).chain(&watch.further);
    let mut seen = Vec::new();
    for (place, ((name, scenario), events)) in scenarios.zip(events).enumerate() {
        let names: Vec<String> = scenario
            .names
            .iter()
            .map(|class| if name.is_empty() { class.clone() } else { format!("{name}:{class}") })
            .collect();
        let first = Stage {
            start: Nanos::ZERO,
            info,
            ids: (0..scenario.tree.len()).map(|id| Some(ClassId(id as u32))).collect(),
            tree: scenario.tree.clone(),
        };
        let mut stages = vec![first];
        for change in &scenario.changes {
            let mut ids = vec![None; names.len()];
            change.classes.iter().enumerate().for_each(|(id, class)| ids[class.index()] = Some(ClassId(id as u32)));
            let info = change.scheduler.unwrap_or(stages[0].info);
            stages.push(Stage { start: change.at, info, tree: change.tree.clone(), ids });
        }
        let members = links.pools.iter().flat_map(|pool| &pool.members).filter(|member| member.0 == place);
        let greedy = |class: usize| {
            let mut own = scenario.sources.iter().filter(|source| source.class.index() == class);
            own.any(|source| source.model == fairlink_traffic::Model::Greedy)
        };
        seen.push(Seen {
            events: std::mem::take(&mut *events.lock().unwrap()),
            duration: file.duration,
            stages,
            pooled: members.map(|&(_, class, _)| class).collect(),
            told: names.iter().map(|name| told(&run, name)).collect(),
            ideal: names.iter().map(|name| ideal(&run, name)).collect(),
            greedy: (0..names.len()).map(greedy).collect(),
            names,
        });
    }
    Ok(seen)
}

/// Returns true if a scheduler may refuse the case with this.
fn is_refusal(error: &SimError) -> bool {
    match error {
        SimError::Build { .. } | SimError::Change { .. } | SimError::Source(_) => true,
        SimError::Further { error, .. } => is_refusal(error),
        _ => false,
    }
}

fn told(run: &Run, name: &str) -> Option<Told> {
    let class = run.classes.iter().find(|class| class.name == name)?;
    let counts = class.counts();
    let amounts = [counts.received, counts.sent, counts.dropped, counts.queued];
    let causes = counts.dropped_by?;
    Some(Told {
        packets: amounts.map(|amount| amount.packets),
        bytes: amounts.map(|amount| amount.bytes),
        drops: causes.iter().map(|(cause, amount)| (cause, amount.packets)).collect(),
    })
}

fn ideal(run: &Run, name: &str) -> Option<f64> {
    let [phase] = &run.phases[..] else { return None };
    phase.classes.iter().chain(&phase.inner_classes).find(|class| class.name == name)?.rates.ideal_bps
}

/// The host of a packet, if hosts are kept apart: each source is one, as long as there are slots.
pub(crate) fn host(stage: &Stage, leaf: ClassId, source: u32) -> u32 {
    match stage.tree.config(leaf).hosts {
        Some(hosts) if matches!(hosts.by, HostKey::Flow | HostKey::DestinationIp) => {
            source % u32::from(hosts.most.get())
        }
        _ => 0,
    }
}
