//! Packet marks of `/ip firewall mangle`, as a list of frames and marks in which the first match applies.
//!
//! A packet passes the chains, and each of them rule by rule. A marked packet continues, so that a later rule may mark
//! it again, unless `passthrough=no` ends the chain. Marks of connections persist: a packet begins with the mark that
//! earlier packets gave its connection.
//!
//! Frames are divided into regions, each with the marks of its packets so far. A frame belongs to the first region in
//! the list whose match it meets. A rule adds a region before each region that it changes: the intersection of both
//! matches, with the new marks. The rules are evaluated once for the first packet of a connection and [`LATER`] times
//! for later packets.

mod conditions;

use std::collections::HashMap;

use self::conditions::Condition;
use super::router::Router;
use super::words::Command;
use crate::matching::{Match, Reach};
use crate::problem::Span;

/// Frames with the mark that they get; an empty one for none.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    pub(super) mark: String,
    pub(super) is: Match,
}

/// A rule that cannot be imported, or only in part.
#[derive(Debug)]
pub(super) struct Untold {
    pub(super) at: Span,
    /// The mark that it gives packets; empty for a rule that moves them between chains.
    pub(super) mark: String,
    pub(super) why: String,
    pub(super) is_partial: bool,
}

/// Effect of the rules on the frames at a place.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// In the order in which the first that matches counts.
    pub(super) marked: Vec<Marked>,
    pub(super) untold: Vec<Untold>,
    /// Conditions that were taken for others, in words.
    pub(super) taken: Vec<(Span, String)>,
}

/// Place at which frames are observed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place<'a> {
    /// The interface that all of them leave by.
    pub(super) out: Option<&'a str>,
    /// The interface that all of them came in by.
    pub(super) into: Option<&'a str>,
}

/// The order in which a packet passes the chains.
const CHAINS: [&str; 5] = ["prerouting", "input", "forward", "output", "postrouting"];
/// Passes of later packets of a connection, after which a mark that still changes is one that never settles.
const LATER: usize = 3;
/// Most regions.
const MAX_REGIONS: usize = 20_000;
/// Regions that are not worth looking for those that others cover.
const FEW: usize = 64;
/// Deepest nesting of jumps.
const MAX_JUMPS: u8 = 8;

/// A mark, by its position in the list of marks; `None` for none.
type Mark = Option<usize>;

/// State of a packet in the chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    connection: Mark,
    packet: Mark,
    /// No further rule of the chain sees it.
    has_ended: bool,
    /// In how many chains by jumps it is.
    level: u8,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    is: Match,
    state: State,
}

/// A mark that a rule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Any,
    Is(Mark),
    IsNot(Mark),
}

impl Asked {
    fn holds(self, mark: Mark) -> bool {
        match self {
            Self::Any => true,
            Self::Is(wanted) => mark == wanted,
            Self::IsNot(unwanted) => mark != unwanted,
        }
    }
}

/// Action of a rule.
#[derive(Clone, Copy, Debug)]
enum Action<'c> {
    Connection(Mark),
    Packet(Mark),
    Jump(&'c str),
    Return,
    /// Something that no mark depends on.
    Other,
}

#[derive(Debug)]
struct Rule<'c> {
    connection: Asked,
    packet: Asked,
    /// The packets of a connection that it sees: the first, those that follow.
    sees: [bool; 2],
    matches: Vec<Match>,
    action: Action<'c>,
    /// Packets that meet it leave the chain.
    ends: bool,
}

/// Reads the rules that mark packets at `place`. A condition that frames do not carry is assumed true only for marks
/// for which `is_used` is true.
pub(super) fn read(
    commands: &[Command],
    router: &Router<'_>,
    place: Place<'_>,
    is_used: &dyn Fn(&str) -> bool,
) -> Marks {
    let mut walk =
        Walk { marks: Vec::new(), chains: HashMap::new(), made: Marks::default(), prune_at: FEW, is_too_much: false };
    let rules: Vec<&Command> = commands
        .iter()
        .filter(|rule| rule.section == "ip firewall mangle" && rule.verb == "add" && !rule.is_on("disabled"))
        .collect();
    for &rule in &rules {
        if let Some(made) = walk.rule(rule, &rules, router, place, is_used) {
            walk.chains.entry(rule.get("chain")).or_default().push(made);
        }
    }
    walk.run();
    walk.made
}

struct Walk<'c> {
    marks: Vec<&'c str>,
    chains: HashMap<&'c str, Vec<Rule<'c>>>,
    made: Marks,
    /// Regions to have before those that others cover are taken out again.
    prune_at: usize,
    is_too_much: bool,
}

impl<'c> Walk<'c> {
    fn mark(&mut self, name: &'c str) -> Mark {
        if ["", "no-mark"].contains(&name) {
            return None;
        }
        Some(self.marks.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.marks.push(name);
            self.marks.len() - 1
        }))
    }

    fn asked(&mut self, text: &'c str) -> Asked {
        match text.strip_prefix('!') {
            _ if text.is_empty() => Asked::Any,
            Some(name) => Asked::IsNot(self.mark(name)),
            None => Asked::Is(self.mark(text)),
        }
    }

    /// Reads a rule; `None` if it is not expressible or no packet meets it.
    fn rule(
        &mut self,
        rule: &'c Command,
        all: &[&'c Command],
        router: &Router<'_>,
        place: Place<'_>,
        is_used: &dyn Fn(&str) -> bool,
    ) -> Option<Rule<'c>> {
        let action = match rule.get("action") {
            "mark-connection" => Action::Connection(self.mark(rule.get("new-connection-mark"))),
            "mark-packet" => Action::Packet(self.mark(rule.get("new-packet-mark"))),
            "jump" => Action::Jump(rule.get("jump-target")),
            "return" => Action::Return,
            _ => Action::Other,
        };
        // `accept` is the default action.
        let ends = ["", "accept"].contains(&rule.get("action")) || rule.get("passthrough") == "no";
        if let (Action::Other, false) = (action, ends) {
            return None;
        }
        let sees = match rule.get("connection-state") {
            "" => [true, true],
            states => {
                let has = |state: &str| states.split(',').any(|one| one == state);
                [has("new"), has("established") || has("related")]
            }
        };
        let is_connection = matches!(action, Action::Connection(_));
        let sets = |mark: &str| {
            all.iter().any(|other| other.get("action") == "mark-connection" && other.get("new-connection-mark") == mark)
        };
        let asked = rule.get("connection-mark").trim_start_matches('!');
        let why = match rule.get("connection-state") {
            state if state.starts_with('!') => Some(format!("connection-state={state}")),
            state if sees == [false, false] || sees == [true, false] && !is_connection => {
                Some(format!("connection-state={state}"))
            }
            _ if !["", "no-mark"].contains(&asked) && !sets(asked) => {
                Some(format!("connection-mark={asked}, which no rule of this file sets"))
            }
            _ => None,
        };
        let marks = told_marks(rule, all);
        let tell = |made: &mut Marks, why: &str, is_partial: bool| {
            let untold = marks.iter().map(|mark| Untold {
                at: rule.at.clone(),
                mark: mark.clone(),
                why: why.to_owned(),
                is_partial,
            });
            made.untold.extend(untold);
        };
        let condition = match why {
            Some(why) => Err(why),
            None if is_connection => conditions::both_ways(rule, router, place),
            None => conditions::of(rule, router, place),
        };
        match condition {
            Err(why) => {
                tell(&mut self.made, &why, false);
                None
            }
            Ok(Condition { assumes: true, .. }) if !marks.iter().any(|mark| is_used(mark)) => None,
            Ok(Condition { matches, lacks, taken, .. }) => {
                if let Some(lacks) = lacks {
                    tell(&mut self.made, &lacks, true);
                }
                self.made.taken.extend(taken.into_iter().map(|taken| (rule.at.clone(), taken)));
                let (connection, packet) =
                    (self.asked(rule.get("connection-mark")), self.asked(rule.get("packet-mark")));
                (!matches.is_empty()).then_some(Rule { connection, packet, sees, matches, action, ends })
            }
        }
    }

    fn run(&mut self) {
        let chains = std::mem::take(&mut self.chains);
        let mut regions = vec![Region { is: Match::ANY, state: State::default() }];
        let all = || chains.values().flatten();
        let lasts = all().any(|rule| matches!(rule.action, Action::Connection(_)));
        let differ = all().any(|rule| rule.sees[0] != rule.sees[1]);
        for pass in 0..=if lasts { LATER } else { usize::from(differ) } {
            regions.iter_mut().for_each(|region| region.state.packet = None);
            for chain in CHAINS {
                for region in &mut regions {
                    region.state = State { has_ended: false, level: 0, ..region.state };
                }
                self.chain(&chains, chain, 0, usize::from(pass > 0), &mut regions);
            }
        }
        prune(&mut regions);
        if self.is_too_much {
            let why = format!("rules that divide packets into more than {MAX_REGIONS} sets");
            self.made.untold.push(Untold { at: 0..0, mark: String::new(), why, is_partial: false });
        }
        let name = |mark: Mark| mark.map_or(String::new(), |mark| self.marks[mark].to_owned());
        self.made.marked =
            regions.iter().map(|region| Marked { mark: name(region.state.packet), is: region.is }).collect();
    }

    fn chain(
        &mut self,
        chains: &HashMap<&'c str, Vec<Rule<'c>>>,
        name: &str,
        level: u8,
        seen: usize,
        regions: &mut Vec<Region>,
    ) {
        for rule in chains.get(name).into_iter().flatten().filter(|rule| rule.sees[seen]) {
            self.apply(rule, level, regions);
            if let (Action::Jump(target), true) = (rule.action, level < MAX_JUMPS) {
                self.chain(chains, target, level + 1, seen, regions);
                for region in regions.iter_mut().filter(|region| region.state.level == level + 1) {
                    region.state.level = level;
                }
            }
        }
    }

    /// Adds before each region its intersection with the rule, with the new marks.
    fn apply(&mut self, rule: &Rule<'_>, level: u8, regions: &mut Vec<Region>) {
        let mut made: Vec<Region> = Vec::with_capacity(regions.len());
        for &Region { is, state } in regions.iter() {
            let meets = !state.has_ended
                && state.level == level
                && rule.connection.holds(state.connection)
                && rule.packet.holds(state.packet);
            let mut new = state;
            match rule.action {
                Action::Connection(mark) => new.connection = mark,
                Action::Packet(mark) => new.packet = mark,
                Action::Jump(_) => new.level += 1,
                Action::Return if level > 0 => new.level = level - 1,
                Action::Return | Action::Other => {}
            }
            new.has_ended |= rule.ends && !matches!(rule.action, Action::Jump(_) | Action::Return)
                || level == 0 && matches!(rule.action, Action::Return);
            let parts = if meets && new != state { &rule.matches[..] } else { &[] };
            let whole = parts.iter().any(|part| part.covers(&is));
            if whole {
                made.push(Region { is, state: new });
                continue;
            }
            made.extend(parts.iter().filter_map(|part| Some(Region { is: is.both(part)?, state: new })));
            made.push(Region { is, state });
        }
        if made.len() > self.prune_at {
            prune(&mut made);
            self.prune_at = 2 * made.len() + FEW;
        }
        match made.len() > MAX_REGIONS {
            true => self.is_too_much = true,
            false => *regions = made,
        }
    }
}

/// Takes out regions that earlier ones cover.
fn prune(regions: &mut Vec<Region>) {
    let mut reach = Reach::default();
    regions.retain(|region| reach.add(&region.is).is_none());
}

/// The packet marks that a rule gives, or that depend on the mark of connections that it gives. One empty mark for a
/// rule that gives none.
fn told_marks(rule: &Command, all: &[&Command]) -> Vec<String> {
    let mark = rule.get("new-connection-mark");
    match rule.get("action") {
        "mark-packet" => vec![rule.get("new-packet-mark").to_owned()],
        "mark-connection" => all
            .iter()
            .filter(|other| other.get("action") == "mark-packet" && other.get("connection-mark") == mark)
            .map(|other| other.get("new-packet-mark").to_owned())
            .collect(),
        _ => vec![String::new()],
    }
}
