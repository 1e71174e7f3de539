//! Firewall marks: the frames that get each mark, by rules of iptables, ip6tables and nft.
//!
//! A packet passes the chains in the order of [`HOOKS`], and each of them rule by rule. A rule that sets a mark lets it
//! continue, so a later rule overrides; verdicts end a chain. In a link file the first match applies: [`walk`] makes
//! such a list. Bits of a mark that rules leave unknown are tracked as unknown. Sources: iptables(8),
//! iptables-extensions(8), nft(8), tc-fw(8), xt_mark.c.

mod bits;
mod iptables;
mod nft;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use crate::classid::Classid;
use crate::commands::findings::{changed, left_out};
use crate::commands::setup::{Device, Filter, MarkFilter};
use crate::commands::words::Word;
use crate::matching::{Match, MatchErrorKind};
use crate::problem::{Log, Problem, Span};

use bits::{Change, Mark};
use walk::{Region, State, Walk};

/// The hooks that traffic has passed before it leaves an interface, in order; the second applies only to received
/// frames.
const HOOKS: [&str; 6] = ["prerouting", "input", "forward", "output", "postrouting", "egress"];
/// Most matches that all rules of a device may become.
const MAX_MATCHES: usize = 4096;
/// Maximum number of rules whose loss is reported one by one.
const MAX_TOLD: usize = 200;

/// The rules of the firewall.
#[derive(Debug, Default)]
pub(super) struct Firewall {
    chains: BTreeMap<ChainName, Vec<Rule>>,
    /// Chains of nft that packets enter, and the sets of nft.
    nft: nft::Tables,
}

/// Name of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChainName {
    /// `ip`, `ip6`, `inet` (both) or `netdev`.
    family: String,
    /// Tables of iptables begin with `-t`.
    table: String,
    chain: String,
}

#[derive(Debug)]
struct Rule {
    at: Span,
    /// The rule as written, without the command.
    text: String,
    /// Conditions on frames, or the part that is not expressible as a match.
    conditions: Result<Conditions, String>,
    input: Option<Interface>,
    output: Option<Interface>,
    /// All have to hold.
    tests: Vec<Test>,
    /// In order.
    actions: Vec<Action>,
}

#[derive(Clone, Debug, Default)]
struct Conditions {
    /// Of each list one has to hold.
    lists: Vec<Vec<String>>,
    /// None may hold.
    not: Vec<String>,
}

/// Interfaces that a rule asks for.
#[derive(Clone, Debug)]
struct Interface {
    names: Vec<String>,
    negated: bool,
}

/// A question about the mark of a frame, or of its connection.
#[derive(Clone, Copy, Debug)]
struct Test {
    of_connection: bool,
    value: u32,
    mask: u32,
    negated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Mark(Change),
    /// The mark becomes one that is not known.
    Unknown,
    /// The mark of the connection.
    Connection(Change),
    /// The bits `frame` of the mark are put into the bits `connection` of the connection's.
    Save {
        frame: u32,
        connection: u32,
    },
    Restore {
        frame: u32,
        connection: u32,
    },
    Class(Option<Classid>),
    /// Ends this chain.
    Return,
    /// Ends all chains of the hook and the table.
    Accept,
    Jump(String),
    /// A jump after which frames return to the caller of this chain.
    Goto(String),
}

impl Rule {
    /// Returns true if it sets a mark or a class.
    fn sets(&self) -> bool {
        self.actions.iter().any(|action| match action {
            Action::Mark(_) | Action::Unknown | Action::Connection(_) | Action::Restore { .. } | Action::Class(_) => {
                true
            }
            Action::Save { .. } | Action::Return | Action::Accept | Action::Jump(_) | Action::Goto(_) => false,
        })
    }

    /// Returns true if the marks meet it; `None` if that is unknown.
    fn holds(&self, mark: Mark, connection: Mark) -> Option<bool> {
        let each = self.tests.iter().map(|test| {
            let of = if test.of_connection { connection } else { mark };
            of.is(test.value, test.mask).map(|is| is != test.negated)
        });
        let all: Vec<Option<bool>> = each.collect();
        if all.contains(&Some(false)) {
            return Some(false);
        }
        (!all.contains(&None)).then_some(true)
    }

    /// The matches of the frames of a family that it takes, and the matches among them that it does not.
    fn frames(&self, family: &str) -> Result<(Vec<Match>, Vec<Match>), String> {
        let conditions = self.conditions.as_ref().map_err(Clone::clone)?;
        let base = Match::parse(family).map_err(|error| error.to_string())?;
        let parsed = |condition: &String| match Match::parse(&format!("{family} {condition}")) {
            _ if ["ip", "ip6"].contains(&condition.as_str()) => Ok((condition == family).then_some(base)),
            Ok(made) => Ok(Some(made)),
            // No frame of this family.
            Err(error) if is_impossible(&error.kind) => Ok(None),
            Err(error) => Err(format!("\"{condition}\": {error}")),
        };
        let mut all = vec![base];
        for list in &conditions.lists {
            let list: Vec<Match> = list.iter().filter_map(|one| parsed(one).transpose()).collect::<Result<_, _>>()?;
            if all.len() * list.len() > MAX_MATCHES {
                return Err(format!("more than {MAX_MATCHES} combinations"));
            }
            all = all.iter().flat_map(|head| list.iter().filter_map(move |last| head.both(last))).collect();
        }
        let not = conditions.not.iter().filter_map(|one| parsed(one).transpose()).collect::<Result<_, _>>()?;
        Ok((all, not))
    }
}

impl Firewall {
    /// Reads a command of `iptables`, `ip6tables` or `nft`.
    pub(super) fn read(&mut self, words: &[Word], log: &Log, notes: &mut Vec<Problem>) {
        let at = words[0].at.start..words[words.len() - 1].at.end.max(words[0].at.end);
        let program = words[0].text.rsplit('/').next().unwrap_or_default();
        let texts: Vec<&str> = words[1..].iter().map(|word| word.text.as_str()).collect();
        let found = if program == "nft" {
            nft::command(self, &texts, &at)
        } else {
            let family = if program.starts_with("ip6") { "ip6" } else { "ip" };
            iptables::command(self, &texts, family, &at).into_iter().collect()
        };
        found.into_iter().for_each(|why| left_out(&at, why, log, notes));
    }

    /// The chains that frames enter which leave or come in at a device, in order.
    fn bases(&self, family: &str, device: &str, incoming: bool) -> Vec<&ChainName> {
        let mut found: Vec<(usize, i64, &ChainName)> = Vec::new();
        for name in self.chains.keys().filter(|name| [family, "inet", "netdev"].contains(&name.family.as_str())) {
            let place = match name.table.strip_prefix("-t ") {
                Some(table) => iptables::priority(table).map(|priority| (name.chain.to_ascii_lowercase(), priority)),
                None => self.nft.base(name, device),
            };
            let Some((hook, priority)) = place.filter(|(hook, _)| incoming || hook != "input") else { continue };
            found.extend(HOOKS.iter().position(|known| *known == hook).map(|hook| (hook, priority, name)));
        }
        found.sort();
        found.into_iter().map(|(.., name)| name).collect()
    }

    /// Returns true if packets get the marks of their connections.
    fn restores(&self, family: &str) -> bool {
        let of = |name: &ChainName| [family, "inet"].contains(&name.family.as_str());
        let restores = |rule: &Rule| {
            rule.actions.iter().any(|action| matches!(action, Action::Restore { .. }))
                || rule.tests.iter().any(|test| test.of_connection)
        };
        self.chains.iter().any(|(name, rules)| of(name) && rules.iter().any(restores))
    }

    /// Returns true if marks or classes of frames depend on a rule of a chain.
    fn matters(&self, rule: &Rule, name: &ChainName) -> bool {
        rule.sets()
            || rule.actions.iter().any(|action| match action {
                Action::Return | Action::Accept => self.sets(name, 0),
                Action::Jump(to) | Action::Goto(to) => self.sets(&ChainName { chain: to.clone(), ..name.clone() }, 0),
                _ => false,
            })
    }

    /// Returns true for a chain that sets marks or classes, or one that it calls.
    fn sets(&self, name: &ChainName, depth: usize) -> bool {
        depth < 16
            && self.chains.get(name).into_iter().flatten().any(|rule| {
                rule.sets()
                    || rule.actions.iter().any(|action| match action {
                        Action::Jump(to) | Action::Goto(to) => {
                            self.sets(&ChainName { chain: to.clone(), ..name.clone() }, depth + 1)
                        }
                        _ => false,
                    })
            })
    }

    /// Makes filters with matches of a device's filters by mark and of rules that name a class.
    pub(super) fn resolve(&self, device: &mut Device, log: &Log, notes: &mut Vec<Problem>) {
        let mut by_mark = std::mem::take(&mut device.by_mark);
        by_mark.sort_by_key(|filter| filter.preference);
        let name = device.name.clone();
        let mut targets = Targets { used: vec![false; by_mark.len()], by_mark, default: default_class(device) };
        let first = targets.by_mark.first().map_or(0, |filter| filter.preference);
        let mut made: Vec<Filter> = Vec::new();
        for family in ["ip", "ip6"] {
            let walk = match &device.source {
                Some((from, true)) => Walk::redirected(self, family, from),
                _ => Walk::leaving(self, family, &name),
            };
            self.tell(&walk, &targets, device, family, log, notes);
            for classes in [true, false] {
                let is_set = |region: &Region| match classes {
                    true => region.state.class.is_some_and(|class| device.class(class).is_some()),
                    false => !targets.by_mark.is_empty() && region.state.mark != Mark::ZERO,
                };
                // Frames that nothing behind them would take need no entry.
                let needed = walk.regions.iter().rposition(is_set).map_or(0, |last| last + 1);
                for region in &walk.regions[..needed] {
                    let preference = if classes { 0 } else { first };
                    made.extend(targets.filter(region, family, preference, device, log, notes));
                }
            }
        }
        if made.len() > MAX_MATCHES {
            let at = made[0].at.clone();
            left_out(&at, format!("the rules become {} matches; the limit is {MAX_MATCHES}", made.len()), log, notes);
            made.truncate(MAX_MATCHES);
        }
        let Targets { by_mark, used, .. } = targets;
        for (filter, _) in by_mark.iter().zip(&used).filter(|(_, used)| !**used) {
            let mark = filter.mark.map_or_else(|| "no mark of its own".to_owned(), |mark| format!("mark {mark:#x}"));
            let why = match self.chains.is_empty() {
                true => "not expressible as a match: a firewall mark, which frames do not carry".to_owned(),
                false => format!("no readable rule sets it ({mark})"),
            };
            left_out(&filter.at, format!("a filter to {} is left out: {why}", filter.class), log, notes);
        }
        let mut known = HashSet::new();
        made.retain(|filter| known.insert(filter.made));
        let last = by_mark.last().map_or(0, |filter| filter.preference);
        if device.filters.iter().any(|filter| filter.preference > first && filter.preference < last) {
            let why = "filters by mark are tried in order here, before others of a later preference".to_owned();
            changed(&by_mark[0].at, why, log, notes);
        }
        made.append(&mut device.filters);
        device.filters = made;
    }

    /// Says which rules are not followed, and which class they would have given frames to.
    fn tell(
        &self,
        walk: &Walk<'_>,
        targets: &Targets,
        device: &Device,
        family: &str,
        log: &Log,
        notes: &mut Vec<Problem>,
    ) {
        let mut told = HashSet::new();
        for (at, why, rule) in &walk.untold {
            if targets.by_mark.is_empty() && !self.names_class(rule, device) {
                continue;
            }
            if !told.insert((at.start, why)) || told.len() > MAX_TOLD {
                continue;
            }
            let classes = targets.of_rule(rule, family, device);
            let warning = if rule.sets() { "WARNING: " } else { "" };
            let lost = match classes.as_slice() {
                [] => String::new(),
                classes => format!("; its frames for {} get another class", classes.join(", ")),
            };
            left_out(at, format!("{warning}a rule is left out: {why}{lost}"), log, notes);
        }
        for (at, why) in &walk.assumed {
            if !targets.by_mark.is_empty() && told.insert((at.start, why)) {
                changed(at, why.clone(), log, notes);
            }
        }
    }

    fn names_class(&self, rule: &Rule, device: &Device) -> bool {
        let is_here = |class: &Classid| device.class(*class).is_some();
        rule.actions.iter().any(|action| matches!(action, Action::Class(Some(class)) if is_here(class)))
    }
}

/// The classes of a device by mark.
struct Targets {
    /// In the order in which they are tried.
    by_mark: Vec<MarkFilter>,
    used: Vec<bool>,
    default: Option<Classid>,
}

/// The outcome of the filters by mark.
enum Found {
    /// The position of the filter that takes the frames.
    Filter(usize),
    Nothing,
    /// Bits that are not known decide between these filters.
    Unknown(Vec<usize>),
}

impl Targets {
    fn find(&self, mark: Mark, family: &str) -> Found {
        let mut unknown = Vec::new();
        for (place, filter) in self.by_mark.iter().enumerate() {
            let Some(wanted) = filter.mark.filter(|_| filter.family.is_none_or(|of| of == family)) else { continue };
            match mark.is(wanted, filter.mask) {
                Some(true) if unknown.is_empty() => return Found::Filter(place),
                Some(false) => {}
                found => {
                    unknown.push(place);
                    if found.is_some() {
                        break;
                    }
                }
            }
        }
        if unknown.is_empty() { Found::Nothing } else { Found::Unknown(unknown) }
    }

    /// Makes the filter of a region, or notes why that is impossible.
    fn filter(
        &mut self,
        region: &Region,
        family: &str,
        preference: u64,
        device: &Device,
        log: &Log,
        notes: &mut Vec<Problem>,
    ) -> Option<Filter> {
        let at = region.at.clone().or_else(|| self.by_mark.first().map(|filter| filter.at.clone())).unwrap_or(0..0);
        let State { mark, class, .. } = region.state;
        let here = class.filter(|&class| device.class(class).is_some());
        let class = match (here, self.find(mark, family)) {
            (Some(class), _) => Some(class),
            (None, Found::Filter(place)) => {
                self.used[place] = true;
                Some(self.by_mark[place].class)
            }
            (None, Found::Nothing) => {
                if !device.filters.is_empty() {
                    let why = "frames that this rule excludes from a mark get the default class; other filters do not apply to them";
                    changed(&at, why.to_owned(), log, notes);
                }
                self.default
            }
            (None, Found::Unknown(places)) => {
                let classes: Vec<String> = places.iter().map(|&place| self.by_mark[place].class.to_string()).collect();
                let why = format!(
                    "WARNING: frames \"{}\" may have the mark of {}, depending on unknown bits; they get the default class",
                    region.made,
                    classes.join(", ")
                );
                left_out(&at, why, log, notes);
                self.default
            }
        };
        let Some(class) = class else {
            let why = format!(
                "WARNING: \"{}\" sets a mark that no filter uses, and there is no default class: such frames get the class of a later match",
                region.made
            );
            left_out(&at, why, log, notes);
            return None;
        };
        Some(Filter { at, preference, class, made: region.made })
    }

    /// The classes to which a rule gives frames without a mark.
    fn of_rule(&self, rule: &Rule, family: &str, device: &Device) -> Vec<String> {
        let (mut mark, mut class) = (Mark::ZERO, None);
        for action in &rule.actions {
            match action {
                Action::Mark(change) | Action::Connection(change) => mark = change.of(mark),
                Action::Class(named) => class = named.filter(|&class| device.class(class).is_some()),
                _ => {}
            }
        }
        let by_mark = || match self.find(mark, family) {
            Found::Filter(place) => Some(self.by_mark[place].class),
            _ => None,
        };
        class.or_else(by_mark).into_iter().map(|class| class.to_string()).collect()
    }
}

/// Returns true if no frame meets the conditions of two rules.
fn is_impossible(kind: &MatchErrorKind) -> bool {
    match kind {
        MatchErrorKind::Contradiction { .. } => true,
        MatchErrorKind::Twice { what } => *what == "the protocol",
        _ => false,
    }
}

/// The leaf of frames without a filter.
fn default_class(device: &Device) -> Option<Classid> {
    let root = device.root.as_ref()?;
    Classid::new(root.major, root.kind.default()?)
        .filter(|&class| device.class(class).is_some() && device.is_leaf(class))
}
