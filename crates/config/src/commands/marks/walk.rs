//! Traverses the chains for all frames at once.
//!
//! Frames are divided into regions. As in a link file, a frame belongs to the first region in the list whose match it
//! meets. A rule changes the regions of its frames, and splits regions that it matches in part.

use std::collections::HashSet;

use super::bits::Mark;
use super::{Action, ChainName, Firewall, MAX_MATCHES, Rule};
use crate::classid::Classid;
use crate::matching::{Match, Reach};
use crate::problem::Span;

/// Deepest jump.
const MAX_JUMPS: usize = 16;

/// Place of the frames of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the next rule.
    Here,
    /// They continue when the chain that was called at this depth ends.
    Until(usize),
    /// They are through with this hook.
    Done,
}

/// The marks and the class of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) mark: Mark,
    /// Of the connection.
    pub(super) connection: Mark,
    /// The class that a rule names.
    pub(super) class: Option<Classid>,
    place: Place,
}

const START: State = State { mark: Mark::ZERO, connection: Mark::ZERO, class: None, place: Place::Here };

/// Frames with one state.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) made: Match,
    pub(super) state: State,
    /// The last rule that set a mark or a class.
    pub(super) at: Option<Span>,
}

/// The outcome of a walk.
pub(super) struct Walk<'f> {
    firewall: &'f Firewall,
    family: &'static str,
    device: &'f str,
    /// Frames come in at the device, instead of leaving it.
    incoming: bool,
    pub(super) regions: Vec<Region>,
    /// Rules that are not followed: place, reason, and rule.
    pub(super) untold: Vec<(Span, String, &'f Rule)>,
    pub(super) assumed: Vec<(Span, String)>,
    pruned: usize,
}

impl<'f> Walk<'f> {
    /// Follows all frames of a family that leave a device. Packets of a connection have its mark if rules restore it,
    /// including replies.
    pub(super) fn leaving(firewall: &'f Firewall, family: &'static str, device: &'f str) -> Self {
        let base = Match::parse(family).expect("the name of a family is a match");
        let start = Region { made: base, state: START, at: None };
        let mut walk = Self::new(firewall, family, device, false, vec![start.clone()]);
        walk.run();
        if !firewall.restores(family) {
            return walk;
        }
        if walk.regions.iter().any(|region| ![Mark::ZERO, region.state.mark].contains(&region.state.connection)) {
            // The packets behind the first one have the mark that it left.
            let later = walk.regions.iter().map(|region| again(region, region.made)).collect();
            let mut second = Self::new(firewall, family, device, false, later);
            second.run();
            walk.regions = second.regions;
        }
        let mut requests = Self::new(firewall, family, device, true, vec![start]);
        requests.run();
        let marked = |region: &&Region| region.state.connection != Mark::ZERO;
        let last = requests.regions.iter().rposition(|region| marked(&region)).map_or(0, |last| last + 1);
        let replies: Vec<Region> =
            requests.regions[..last].iter().map(|region| again(region, region.made.turned())).collect();
        let mut replies = Self::new(firewall, family, device, false, replies);
        replies.run();
        // A frame carries neither its direction nor its connection: rules for the frame itself take precedence over rules
        // for its requests.
        let needed = walk.regions.iter().rposition(|region| region.is_set()).map_or(0, |last| last + 1);
        walk.regions.truncate(needed);
        walk.regions.append(&mut replies.regions);
        walk
    }

    /// Follows all frames of a family that a device receives with the marks of their connections (`action connmark`),
    /// before any chain: replies to frames that left the device, and then later packets of connections that began
    /// outside.
    pub(super) fn redirected(firewall: &'f Firewall, family: &'static str, device: &'f str) -> Self {
        let base = Match::parse(family).expect("the name of a family is a match");
        let start = vec![Region { made: base, state: START, at: None }];
        let mut walk = Self::new(firewall, family, device, false, start.clone());
        walk.run();
        let mut outside = Self::new(firewall, family, device, true, start);
        outside.run();
        let marked = |regions: &[Region], turns: bool| -> Vec<Region> {
            let last = regions.iter().rposition(|region| region.state.connection != Mark::ZERO);
            let of = |region: &Region| {
                let made = if turns { region.made.turned() } else { region.made };
                Region { made, state: State { mark: region.state.connection, ..START }, at: region.at.clone() }
            };
            regions[..last.map_or(0, |last| last + 1)].iter().map(of).collect()
        };
        let mut regions = marked(&walk.regions, true);
        regions.extend(marked(&outside.regions, false));
        walk.regions = regions;
        walk
    }

    fn new(
        firewall: &'f Firewall,
        family: &'static str,
        device: &'f str,
        incoming: bool,
        regions: Vec<Region>,
    ) -> Self {
        let (untold, assumed) = (Vec::new(), Vec::new());
        Self { firewall, family, device, incoming, regions, untold, assumed, pruned: 0 }
    }

    fn run(&mut self) {
        for name in self.firewall.bases(self.family, self.device, self.incoming) {
            self.chain(name, 0, 0);
            // The next hook sees all of them.
            self.regions.iter_mut().for_each(|region| region.state.place = Place::Here);
        }
    }

    /// Follows a chain; frames that return from it continue when the chain of depth `back` ends.
    fn chain(&mut self, name: &ChainName, depth: usize, back: usize) {
        let firewall = self.firewall;
        for rule in firewall.chains.get(name).into_iter().flatten() {
            if rule.actions.is_empty() || !self.is_on_the_way(rule) {
                continue;
            }
            let (matches, except) = match rule.frames(self.family) {
                Ok(found) => found,
                Err(why) => {
                    if firewall.matters(rule, name) {
                        self.untold.push((rule.at.clone(), format!("not expressible as a match: {why}"), rule));
                    }
                    continue;
                }
            };
            if matches.is_empty() {
                continue;
            }
            for action in &rule.actions {
                self.action(rule, action, name, (depth, back), (&matches, &except));
                if self.regions.len() > MAX_MATCHES {
                    self.prune();
                }
                if self.regions.len() > MAX_MATCHES {
                    let why =
                        format!("the rules become {} matches here; the limit is {MAX_MATCHES}", self.regions.len());
                    self.untold.push((rule.at.clone(), why, rule));
                    self.regions.truncate(MAX_MATCHES);
                    return;
                }
            }
        }
    }

    fn action(
        &mut self,
        rule: &'f Rule,
        action: &Action,
        name: &ChainName,
        (depth, back): (usize, usize),
        frames: (&[Match], &[Match]),
    ) {
        match action {
            Action::Jump(to) | Action::Goto(to) => {
                if depth >= MAX_JUMPS {
                    self.untold.push((rule.at.clone(), format!("more than {MAX_JUMPS} jumps"), rule));
                    return;
                }
                let to = ChainName { chain: to.clone(), ..name.clone() };
                let inner = depth + 1;
                // Frames that do not take the jump wait for those that do.
                self.part(rule, frames, |state| state, Some(inner));
                let goes = matches!(action, Action::Goto(_));
                self.chain(&to, inner, if goes { back } else { inner });
                for region in &mut self.regions {
                    region.state.place = match region.state.place {
                        Place::Here if goes => Place::Until(back),
                        Place::Until(at) if at == inner => Place::Here,
                        other => other,
                    };
                }
            }
            Action::Return => self.part(rule, frames, |state| State { place: Place::Until(back), ..state }, None),
            Action::Accept => self.part(rule, frames, |state| State { place: Place::Done, ..state }, None),
            Action::Class(class) => self.part(rule, frames, |state| State { class: *class, ..state }, None),
            Action::Mark(change) => {
                self.part(rule, frames, |state| State { mark: change.of(state.mark), ..state }, None);
            }
            Action::Unknown => self.part(rule, frames, |state| State { mark: Mark::UNKNOWN, ..state }, None),
            Action::Connection(change) => {
                self.part(rule, frames, |state| State { connection: change.of(state.connection), ..state }, None);
            }
            Action::Save { frame, connection } => {
                let saved = |state: State| state.connection.under(!connection).xor(state.mark.under(*frame));
                self.part(rule, frames, |state| State { connection: saved(state), ..state }, None);
            }
            Action::Restore { frame, connection } => {
                let restored = |state: State| state.mark.under(!frame).xor(state.connection.under(*connection));
                self.part(rule, frames, |state| State { mark: restored(state), ..state }, None);
            }
        }
    }

    /// Gives frames that the rule takes another state. With `calls`, a jump to that depth: they keep it, and all others
    /// wait.
    fn part(
        &mut self,
        rule: &'f Rule,
        (matches, except): (&[Match], &[Match]),
        change: impl Fn(State) -> State,
        calls: Option<usize>,
    ) {
        let all = except.is_empty() && matches.iter().any(is_family);
        let sets = rule.sets();
        let taken = |region: &Region, made: Match| {
            let state = if calls.is_some() { region.state } else { change(region.state) };
            Region { made, state, at: if sets { Some(rule.at.clone()) } else { region.at.clone() } }
        };
        let passed = |region: &Region, made: Match| {
            let place = match (calls, region.state.place) {
                (Some(depth), Place::Here) => Place::Until(depth),
                (_, place) => place,
            };
            Region { made, state: State { place, ..region.state }, at: region.at.clone() }
        };
        let holds: Vec<Option<bool>> =
            self.regions.iter().map(|region| rule.holds(region.state.mark, region.state.connection)).collect();
        // If the last regions, which are all other frames, get the same state, the rule is placed once before them.
        let last = self.regions.last().filter(|region| is_family(&region.made));
        let last = last.map(|region| (region.state, taken(region, region.made).state));
        let tail = self.regions.iter().zip(&holds).rposition(|(region, holds)| {
            let same = last.is_some_and(|(before, after)| {
                taken(region, region.made).state == after && (except.is_empty() || region.state == before)
            });
            region.state.place != Place::Here || *holds != Some(true) || !same
        });
        let tail = tail.map_or(0, |at| at + 1);
        let mut made: Vec<Region> = Vec::new();
        let mut known: HashSet<Match> = HashSet::new();
        let mut add = |region: Region| {
            if known.insert(region.made) {
                made.push(region);
            }
        };
        let mut doubtful = false;
        for (region, holds) in self.regions[..tail].iter().zip(&holds) {
            match holds {
                _ if region.state.place != Place::Here => add(region.clone()),
                Some(false) => add(passed(region, region.made)),
                Some(true) if all => add(taken(region, region.made)),
                Some(true) => {
                    for one in matches.iter().filter_map(|one| one.both(&region.made)) {
                        except.iter().filter_map(|not| not.both(&one)).for_each(|not| add(passed(region, not)));
                        add(taken(region, one));
                    }
                    add(passed(region, region.made));
                }
                None => {
                    doubtful = true;
                    for one in matches.iter().filter_map(|one| one.both(&region.made)) {
                        let state = State { mark: Mark::UNKNOWN, ..region.state };
                        add(passed(&Region { state, ..region.clone() }, one));
                    }
                    add(passed(region, region.made));
                }
            }
        }
        if let (Some(region), true) = (self.regions.last(), tail < self.regions.len()) {
            for &one in matches {
                except.iter().filter_map(|not| not.both(&one)).for_each(|not| add(passed(region, not)));
                add(taken(region, one));
            }
            if !all {
                self.regions[tail..].iter().for_each(|region| add(passed(region, region.made)));
            }
        }
        self.regions = made;
        if doubtful {
            self.untold.push((rule.at.clone(), "it tests unknown bits of the mark".to_owned(), rule));
        }
        if self.regions.len() > 2 * self.pruned + 64 {
            self.prune();
        }
    }

    /// Takes out regions that no frame is left for.
    fn prune(&mut self) {
        let mut reach = Reach::default();
        self.regions.retain(|region| reach.add(&region.made).is_none());
        self.pruned = self.regions.len();
    }

    /// Returns true if frames on this path can have passed the rule, by its interfaces.
    fn is_on_the_way(&mut self, rule: &Rule) -> bool {
        let (own, other) = if self.incoming { (&rule.input, &rule.output) } else { (&rule.output, &rule.input) };
        // A frame does not leave by the interface that it came in by.
        let is = |name: &super::Interface| name.names.iter().any(|pattern| is_interface(pattern, self.device));
        if own.as_ref().is_some_and(|name| is(name) == name.negated) {
            return false;
        }
        let Some(other) = other else { return true };
        if is(other) {
            return other.negated;
        }
        // Frames that leave arrived at some interface, but hardly at one of each wildcard in the rules.
        let is_kind = other.names.iter().all(|pattern| pattern.len() > 1 && pattern.ends_with(['+', '*']));
        if is_kind && !self.incoming {
            let not = if other.negated { "! " } else { "" };
            let names = other.names.join(",");
            let truth = other.negated;
            let why = format!("{not}-i {names}: assumed {truth} for all traffic that leaves {}", self.device);
            self.assumed.push((rule.at.clone(), why));
            return truth;
        }
        if !self.incoming {
            let not = if other.negated { "! " } else { "" };
            let why =
                format!("{not}-i {}: assumed true for all traffic that leaves {}", other.names.join(","), self.device);
            self.assumed.push((rule.at.clone(), why));
        }
        true
    }
}

impl Region {
    /// Returns true for frames that a rule gave a mark or a class.
    pub(super) fn is_set(&self) -> bool {
        self.state.mark != Mark::ZERO || self.state.class.is_some()
    }
}

/// The region of later packets of its connections.
fn again(region: &Region, made: Match) -> Region {
    let state = State { connection: region.state.connection, ..START };
    Region { made, state, at: region.at.clone() }
}

/// Returns true for the match of all frames of a family.
fn is_family(made: &Match) -> bool {
    Match { version: None, ..*made }.is_any()
}

fn is_interface(pattern: &str, name: &str) -> bool {
    let head = pattern.strip_suffix('+').or_else(|| pattern.strip_suffix('*'));
    head.map_or(pattern == name, |head| name.starts_with(head))
}
