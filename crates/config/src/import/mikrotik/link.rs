//! A link of queues: its rate, its classes, and their matches.

use std::collections::{HashMap, HashSet};

use fairlink_core::Rate;

use super::takers::Taker;
use super::words::{Command, Property};
use super::{FRAME, HTB, MAX_LEVELS, OTHERS, Queue, Reading, Root};
use crate::commands::setup::UNASSURED;
use crate::import::plan::{Before, Class, ClassNames, Plan};
use crate::import::{Direction, Draft, prefixes, write};
use crate::units::show_bps;

impl<'a> Reading<'a> {
    /// The link of these queues, of which parents may come after their children.
    pub(super) fn link(
        &mut self,
        root: &Root<'a>,
        queues: &[&Queue<'a>],
        direction: Direction,
        simple: bool,
    ) -> Option<Draft> {
        let parents: HashSet<&str> = queues.iter().map(|queue| queue.parent).collect();
        let inner: Vec<bool> = queues.iter().map(|queue| parents.contains(queue.name)).collect();
        let (top, rate_why) = self.rate(root, queues)?;
        let taken = self.takers(root.place, queues, &inner, direction, simple);
        let (inner_order, leaves): (Vec<usize>, Vec<usize>) = (0..queues.len()).partition(|&at| inner[at]);
        let mut names = ClassNames::default();
        let mut plan = Plan {
            name: root.name.clone(),
            rate: top,
            rate_why: rate_why.to_owned(),
            mtu: FRAME as u32,
            classes: Vec::new(),
            default: 0,
            lending: Some(HTB),
        };
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        // Leaves in the order in which matches count, behind all inner queues.
        let mut order: Vec<(Taker, Vec<String>)> =
            parents_first(queues, &inner_order).into_iter().map(|at| (Some(at), Vec::new())).collect();
        order.extend(taken.by_taker);
        let rest: Vec<usize> =
            leaves.into_iter().filter(|&at| order.iter().all(|(taker, _)| *taker != Some(at))).collect();
        order.extend(rest.into_iter().map(|at| (Some(at), Vec::new())));
        if taken.default.is_none() && order.iter().all(|(taker, _)| taker.is_some()) {
            order.push((None, Vec::new()));
        }
        let mut others = None;
        for (taker, matches) in order {
            let place = plan.classes.len();
            let Some(at) = taker else {
                others = Some(place);
                plan.classes.push(rest_class(&mut names, top, matches));
                continue;
            };
            let queue = queues[at];
            if inner[at] && simple && !queue.command.get("target").is_empty() {
                self.tallies.silent.add(&queue.command.at);
            }
            if !inner[at] {
                self.tallies.priorities.push(queue.priority);
                if matches.is_empty() && taken.default != Some(at) {
                    let what = format!(
                        "WARNING: class of queue \"{}\" has no match and receives no traffic; write a match",
                        queue.name
                    );
                    self.notes.left_out(self.source, Some(queue.command.at.clone()), what);
                }
            }
            if taken.default == Some(at) {
                plan.default = place;
            }
            by_name.insert(queue.name, place);
            plan.classes.push(Class {
                name: names.make(queue.name),
                parent: by_name.get(queue.parent).copied().filter(|_| queue.parent != queue.name),
                remark: queue.command.get("comment").to_owned(),
                floor: queue.limit_at,
                ceiling: queue.max_limit,
                queue: queue.kind.filter(|_| !inner[at]),
                per: queue.per.filter(|_| !inner[at]),
                matches,
                before: Before {
                    floor: Some(queue.limit_at.unwrap_or(if inner[at] { 0 } else { UNASSURED })),
                    ceiling: queue.max_limit,
                    quantum: Some(FRAME),
                    priority: queue.priority - 1,
                    ..Before::default()
                },
            });
        }
        if let (None, Some(others)) = (taken.default, others) {
            plan.default = others;
        }
        if let Some(floor) = others.and_then(|at| plan.classes[at].floor) {
            let what = format!(
                "traffic of no queue: RouterOS sends it unqueued; here it is the class \"others\", guaranteed {}",
                show_bps(floor)
            );
            self.notes.changed(self.source, None, what);
        }
        plan.weigh(self.options.weights());
        if let Some(what) = self.options.weights().meaning() {
            self.notes.changed(self.source, None, what.to_owned());
        }
        let (link, fitted) = write::link(&plan, "mikrotik", self.source.name(), self.options.as_is());
        for over in &fitted.over {
            let whose = over
                .parent
                .map_or_else(|| "at the top".to_owned(), |at| format!("below \"{}\"", plan.classes[at].name));
            let asked = show_bps(u64::try_from(over.asked).unwrap_or(u64::MAX));
            let what = format!(
                "the limit-at of the queues {whose} add up to {asked}, more than {}: they are scaled down in proportion",
                show_bps(over.has)
            );
            self.notes.changed(self.source, None, what);
        }
        Some(link)
    }

    /// Returns the rate of the link of these queues in bit/s, and its source. `None` if it is unknown; the log has the
    /// error.
    fn rate(&mut self, root: &Root<'_>, queues: &[&Queue<'a>]) -> Option<(u64, &'static str)> {
        let whose = &root.whose;
        if let Some(rate) = self.options.rate() {
            return Some((rate.bps(), "as asked for"));
        }
        if let Some(limit) = root.limit {
            return Some((limit, "the queue's max-limit"));
        }
        let names: HashSet<&str> = queues.iter().map(|queue| queue.name).collect();
        let mut at_top = queues.iter().filter(|queue| !names.contains(queue.parent));
        let sum = at_top.try_fold(0u64, |sum, queue| sum.checked_add(queue.max_limit?));
        let Some(sum) = sum.filter(|&sum| sum <= Rate::MAX.bps()) else {
            let what = format!("the rate of {whose} is unknown: a topmost queue has no max-limit");
            self.wrong(&(0..0), what, "pass --rate 100mbit");
            return None;
        };
        let what = format!(
            "the rate of {whose} is not given; assumed: {}, the sum of the topmost queues; set it with --rate",
            show_bps(sum)
        );
        self.notes.changed(self.source, None, what);
        Some((sum, "the sum of the topmost queues"))
    }

    /// Returns matches of target and destination of a simple queue; `None` if there are none.
    pub(super) fn target(&mut self, command: &Command, direction: Direction) -> Option<Vec<String>> {
        let there = |names: &[&str]| {
            names.iter().find_map(|name| command.find(name)).filter(|property| !property.value.is_empty())
        };
        let targets = there(&["target", "target-addresses", "target-address"]);
        let others = there(&["dst", "dst-address"]);
        let (to, from) = match direction {
            Direction::Down => ("dst", "src"),
            Direction::Up => ("src", "dst"),
        };
        let targets = targets.and_then(|property| self.nets(property, to));
        let others = others.and_then(|property| self.nets(property, from));
        match (targets, others) {
            (Some(targets), Some(others)) => Some(
                targets.iter().flat_map(|target| others.iter().map(move |other| format!("{target} {other}"))).collect(),
            ),
            (targets, others) => targets.or(others),
        }
    }

    /// Returns matches of a list of addresses; `None` for interfaces, with a note. If the queues of a router name a
    /// single interface, it matches all traffic.
    fn nets(&mut self, property: &Property, side: &str) -> Option<Vec<String>> {
        let mut all = Vec::new();
        for part in property.value.split(',') {
            match prefixes::parse(part.trim()) {
                Some((prefix, _)) if prefix.is_all() => all.push("any".to_owned()),
                Some((prefix, _)) => all.push(format!("{side} net {prefix}")),
                None if self.only_interface == Some(part.trim()) => {
                    let what = format!(
                        "\"{}={part}\": read as all traffic that no earlier queue takes; run the gateway at that interface",
                        property.name
                    );
                    self.notes.changed(self.source, Some(property.at.clone()), what);
                    all.push("any".to_owned());
                }
                None if self.router.nets_at(&[part.trim()]).is_some() => {
                    let nets = self.router.nets_at(&[part.trim()]).unwrap_or_default();
                    all.extend(nets.iter().map(|net| format!("{side} net {net}")));
                    let what = format!(
                        "\"{}={part}\": read as its network (/ip address), without networks routed behind it",
                        property.name
                    );
                    self.notes.changed(self.source, Some(property.at.clone()), what);
                }
                None => {
                    let what = format!(
                        "\"{}={part}\": an interface, which frames do not carry; pass the gateway's own interfaces to fairlink gateway",
                        property.name
                    );
                    self.notes.left_out(self.source, Some(property.at.clone()), what);
                }
            }
        }
        (!all.is_empty()).then_some(all)
    }
}

/// Makes the class of traffic without a queue: a hundredth of the link, of `top` bit/s.
fn rest_class(names: &mut ClassNames, top: u64, matches: Vec<String>) -> Class {
    let floor = Some((top / 100).max(1));
    Class {
        name: names.make("others"),
        remark: OTHERS.to_owned(),
        floor,
        matches,
        before: Before { floor, quantum: Some(FRAME), ..Before::default() },
        ..Class::default()
    }
}

/// These queues, parents before their children.
fn parents_first(queues: &[&Queue<'_>], wanted: &[usize]) -> Vec<usize> {
    let places: HashMap<&str, usize> = queues.iter().enumerate().map(|(at, queue)| (queue.name, at)).collect();
    let depth = |&at: &usize| {
        let path = std::iter::successors(Some(at), |&at| places.get(queues[at].parent).copied());
        path.take(MAX_LEVELS + 1).count()
    };
    let mut order = wanted.to_vec();
    order.sort_by_cached_key(depth);
    order
}
