//! One link of queues: what it carries, its classes, and which frames are theirs.

use std::collections::{HashMap, HashSet};

use fairlink_core::Rate;

use super::mangle::{self, Marked};
use super::words::{Command, Property};
use super::{FRAME, GLOBAL, HTB, MAX_LEVELS, OTHERS, Queue, Reading, UNASSURED};
use crate::import::plan::{Before, Class, ClassNames, Plan};
use crate::import::{Direction, Draft, prefixes, write};
use crate::matching::{Match, Reach};
use crate::units::show_bps;

impl<'a> Reading<'a> {
    /// The link of these queues, of which parents may come after their children.
    pub(super) fn link(
        &mut self,
        (name, root, root_limit): (&str, &str, Option<u64>),
        queues: &[&Queue<'a>],
        direction: Direction,
        simple: bool,
    ) -> Option<Draft> {
        let parents: HashSet<&str> = queues.iter().map(|queue| queue.parent).collect();
        let inner: Vec<bool> = queues.iter().map(|queue| parents.contains(queue.name)).collect();
        let (top, rate_why) = self.rate(root, root_limit, queues)?;
        let (marked, untold) = mangle::read(self.commands, root);
        let used: Vec<&str> = queues.iter().flat_map(|queue| marks(queue.command)).collect();
        for rule in untold.iter().filter(|rule| used.contains(&rule.mark.as_str())) {
            let what = format!(
                "a rule that marks packets as \"{}\": the match language has nothing like {}",
                rule.mark, rule.why
            );
            self.notes.left_out(self.source, Some(rule.at.clone()), what);
        }
        let from_elsewhere = |rule: &&Command| {
            let from = rule.get("in-interface");
            !from.is_empty() && from != root && used.contains(&rule.get("new-packet-mark")) && !rule.is_on("disabled")
        };
        if let Some(rule) = self.commands.iter().find(from_elsewhere).filter(|_| root != GLOBAL) {
            let from = rule.get("in-interface");
            let what = format!(
                "in-interface={from}: taken as true of all that leaves {root}, since no frame shows where it came in; so run the gateway between the two"
            );
            self.notes.changed(self.source, Some(rule.at.clone()), what);
        }
        // Leaves in the order in which matches count, behind all inner queues.
        let mut order: Vec<usize> = (0..queues.len()).collect();
        let first = |at: usize| {
            let own: Vec<&str> = marks(queues[at].command).collect();
            marked.iter().position(|rule| own.contains(&rule.mark.as_str())).unwrap_or(usize::MAX)
        };
        if !simple {
            order.sort_by_key(|&at| first(at));
        }
        let (inner_order, leaves): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|&at| inner[at]);
        let places = parents_first(queues, &inner_order);
        let mut names = ClassNames::default();
        let mut plan = Plan {
            name: name.to_owned(),
            rate: top,
            rate_why: rate_why.to_owned(),
            mtu: FRAME as u32,
            classes: Vec::new(),
            default: 0,
            lending: Some(HTB),
        };
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        let mut reach = Reach::default();
        let mut default = None;
        // Packets that get a mark of no queue, before a rule that has one: no queue takes them.
        let is_used = |rule: &Marked| used.contains(&rule.mark.as_str());
        let last_used = marked.iter().rposition(is_used).unwrap_or(0);
        let passed_by = marked[..last_used].iter().position(|rule| !is_used(rule)).filter(|_| !simple);
        let mut others = None;
        for at in places.into_iter().chain(leaves) {
            if let Some(place) = passed_by.filter(|&place| others.is_none() && !inner[at] && first(at) > place) {
                let unused = marked[place..last_used].iter().filter(|rule| !is_used(rule));
                let texts = unused.flat_map(|rule| rule.matches.iter());
                let taken = |text: &&String| Match::parse(text).is_ok_and(|made| reach.add(&made).is_none());
                let matches = texts.filter(taken).cloned().collect();
                others = Some(plan.classes.len());
                plan.classes.push(rest(&mut names, top, matches));
            }
            let queue = queues[at];
            let mut matches = Vec::new();
            if inner[at] {
                if simple && !queue.command.get("target").is_empty() {
                    self.tallies.silent.add(&queue.command.at);
                }
            } else {
                if !simple && marks(queue.command).any(|mark| mark == "no-mark") {
                    default = Some(plan.classes.len());
                }
                matches = self.matches(queue, &marked, direction, simple, &mut reach);
            }
            if !inner[at] {
                self.tallies.priorities.push(queue.priority);
            }
            by_name.insert(queue.name, plan.classes.len());
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
        // Where a queue takes whatever comes to it, nothing is left for others.
        let default =
            default.or_else(|| plan.classes.iter().position(|class| class.matches.iter().any(|text| text == "any")));
        let default = default.or(others);
        plan.default = default.unwrap_or(plan.classes.len());
        if default.is_none() {
            others = Some(plan.classes.len());
            plan.classes.push(rest(&mut names, top, Vec::new()));
        }
        if let Some(floor) = others.and_then(|at| plan.classes[at].floor) {
            let what = format!(
                "what no queue takes: RouterOS sends it at once; here it is the class \"others\", guaranteed {}",
                show_bps(floor)
            );
            self.notes.changed(self.source, None, what);
        }
        plan.weigh(self.options.weights);
        if let Some(what) = self.options.weights.meaning() {
            self.notes.changed(self.source, None, what.to_owned());
        }
        let (link, fitted) = write::link(&plan, "mikrotik", self.source.name(), self.options.as_is);
        for over in &fitted.over {
            let whose = over
                .parent
                .map_or_else(|| "at the top".to_owned(), |at| format!("below \"{}\"", plan.classes[at].name));
            let asked = show_bps(u64::try_from(over.asked).unwrap_or(u64::MAX));
            let what = format!(
                "the queues {whose} have a limit-at of {asked} together, and there are {}: they are scaled down in proportion",
                show_bps(over.has)
            );
            self.notes.changed(self.source, None, what);
        }
        Some(link)
    }

    /// What the link of these queues carries in bit/s, and how that is known. `None` where it is not, and the log says so.
    fn rate(&mut self, root: &str, root_limit: Option<u64>, queues: &[&Queue<'a>]) -> Option<(u64, &'static str)> {
        let whose = if root.is_empty() { "the link" } else { root };
        if let Some(rate) = self.options.rate {
            return Some((rate.bps(), "as asked for"));
        }
        if let Some(limit) = root_limit {
            return Some((limit, "the queue's max-limit"));
        }
        let names: HashSet<&str> = queues.iter().map(|queue| queue.name).collect();
        let mut at_top = queues.iter().filter(|queue| !names.contains(queue.parent));
        let sum = at_top.try_fold(0u64, |sum, queue| sum.checked_add(queue.max_limit?));
        let Some(sum) = sum.filter(|&sum| sum <= Rate::MAX.bps()) else {
            let what = format!("nothing says what {whose} carries: a queue at the top has no max-limit");
            self.wrong(&(0..0), what, "name it with --rate 100mbit");
            return None;
        };
        let what = format!(
            "nothing says what {whose} carries; taken for it: {}, what the queues at the top may send together; --rate says it",
            show_bps(sum)
        );
        self.notes.changed(self.source, None, what);
        Some((sum, "what the queues at the top may send together"))
    }

    /// What a leaf takes, less what earlier ones do.
    fn matches(
        &mut self,
        queue: &Queue<'_>,
        marked: &[Marked],
        direction: Direction,
        simple: bool,
        reach: &mut Reach,
    ) -> Vec<String> {
        let command = queue.command;
        let own: Vec<&str> = marks(command).collect();
        let of_marks: Option<Vec<String>> = (!own.is_empty()).then(|| {
            marked
                .iter()
                .filter(|rule| own.contains(&rule.mark.as_str()))
                .flat_map(|rule| rule.matches.iter().cloned())
                .collect()
        });
        let of_target = if simple { self.target(command, direction) } else { None };
        let texts: Vec<String> = match (of_marks, of_target) {
            (Some(marks), Some(targets)) => marks
                .iter()
                .flat_map(|mark| {
                    targets
                        .iter()
                        .map(move |target| if mark == "any" { target.clone() } else { format!("{mark} {target}") })
                })
                .collect(),
            (Some(all), None) | (None, Some(all)) => all,
            (None, None) => Vec::new(),
        };
        let mut kept = Vec::new();
        for text in texts {
            match Match::parse(&text) {
                Ok(made) if reach.add(&made).is_none() => kept.push(text),
                Ok(_) => {
                    let what = format!("\"{text}\" of the queue \"{}\": an earlier queue takes all of it", queue.name);
                    self.notes.left_out(self.source, Some(command.at.clone()), what);
                }
                Err(error) => {
                    let what = format!("\"{text}\" of the queue \"{}\": {error}", queue.name);
                    self.notes.left_out(self.source, Some(command.at.clone()), what);
                }
            }
        }
        if kept.is_empty() && !own.contains(&"no-mark") {
            let what = format!(
                "what the queue \"{}\" takes: no match was found for it, so that nothing reaches its class until one is written",
                queue.name
            );
            self.notes.left_out(self.source, Some(command.at.clone()), what);
        }
        kept
    }

    /// Matches of target and destination of a simple queue; `None` where there are none.
    fn target(&mut self, command: &Command, direction: Direction) -> Option<Vec<String>> {
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

    /// Matches of a list of addresses; `None` where it is of interfaces, which a note says. Of a router whose queues name one interface alone, that is whatever
    /// comes.
    fn nets(&mut self, property: &Property, side: &str) -> Option<Vec<String>> {
        let mut all = Vec::new();
        for part in property.value.split(',') {
            match prefixes::parse(part.trim()) {
                Some((prefix, _)) if prefix.is_all() => all.push("any".to_owned()),
                Some((prefix, _)) => all.push(format!("{side} net {prefix}")),
                None if self.only_interface == Some(part.trim()) => {
                    let what = format!(
                        "\"{}={part}\": taken for all that no queue before it takes; run the gateway at that interface",
                        property.name
                    );
                    self.notes.changed(self.source, Some(property.at.clone()), what);
                    all.push("any".to_owned());
                }
                None => {
                    let what = format!(
                        "\"{}={part}\": an interface, which no frame shows; the gateway's own interfaces are given to fairlink gateway",
                        property.name
                    );
                    self.notes.left_out(self.source, Some(property.at.clone()), what);
                }
            }
        }
        (!all.is_empty()).then_some(all)
    }
}

/// The class of what no queue takes: a hundredth of the link, of `top` bit/s.
fn rest(names: &mut ClassNames, top: u64, matches: Vec<String>) -> Class {
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

/// The packet marks that a queue takes.
fn marks(command: &Command) -> impl Iterator<Item = &str> {
    let all = ["packet-mark", "packet-marks", "flow"].into_iter().find_map(|name| command.find(name));
    all.map_or("", |property| &property.value).split(',').map(str::trim).filter(|mark| !mark.is_empty())
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
