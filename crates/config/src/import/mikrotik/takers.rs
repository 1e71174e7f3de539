//! Assigns frames to queues, in an order in which the matches of a queue are together.
//!
//! A packet has one mark. A queue tree gives it to the queue of this mark. Simple queues are tried in order, by target
//! and by mark; those without marks take any. Packets without a queue are not limited.

use std::collections::{HashMap, HashSet};

use super::mangle::{self, Marked, Marks, Place};
use super::words::marks;
use super::{Queue, Reading};
use crate::classid::Classid;
use crate::commands::order::{self, Order};
use crate::commands::setup::Filter;
use crate::import::Direction;
use crate::matching::{Match, Reach};

/// A queue by its position, or `None` for traffic without a queue.
pub(super) type Taker = Option<usize>;

/// The matches of each queue that has some.
pub(super) struct Taken {
    /// In the order in which the first match counts.
    pub(super) by_taker: Vec<(Taker, Vec<String>)>,
    /// The queue of frames without a match; `None` if there is none.
    pub(super) default: Taker,
}

/// Most pairs of frames and queues of which those without an effect are taken out.
const MAX_PRUNED: usize = 2048;

impl<'a> Reading<'a> {
    /// Returns the matches of the leaves of these queues for frames at `place`.
    pub(super) fn takers(
        &mut self,
        place: Place<'_>,
        queues: &[&Queue<'a>],
        inner: &[bool],
        direction: Direction,
        simple: bool,
    ) -> Taken {
        let leaves: Vec<usize> = (0..queues.len()).filter(|&at| !inner[at]).collect();
        let used: HashSet<&str> = queues.iter().flat_map(|queue| marks(queue.command)).collect();
        let has_marks = !used.is_empty();
        let marked = match has_marks {
            true => self.marked(place, &used),
            false => vec![Marked { mark: String::new(), is: Match::ANY }],
        };
        let asks = |at: usize, mark: &str| {
            let wanted = if mark.is_empty() { "no-mark" } else { mark };
            marks(queues[at].command).any(|own| own == wanted)
        };
        let mut all: Vec<(Match, Taker)> = Vec::new();
        let mut without = None;
        if simple {
            let targets: Vec<Option<Vec<Match>>> = leaves
                .iter()
                .map(|&at| {
                    let texts = self.target(queues[at].command, direction)?;
                    Some(texts.iter().filter_map(|text| Match::parse(text).ok()).collect())
                })
                .collect();
            for Marked { mark, is } in &marked {
                let mut is_taken = false;
                for (&at, targets) in leaves.iter().zip(&targets) {
                    let takes_any = marks(queues[at].command).next().is_none();
                    match targets {
                        // A queue without an expressible target takes no unmarked frames.
                        None if takes_any || is_taken || !asks(at, mark) => {}
                        None => {
                            all.push((*is, Some(at)));
                            is_taken = true;
                        }
                        Some(targets) if takes_any || asks(at, mark) => {
                            all.extend(targets.iter().filter_map(|target| Some((is.both(target)?, Some(at)))));
                            is_taken |= targets.iter().any(|target| target.covers(is));
                        }
                        Some(_) => {}
                    }
                }
                if !is_taken {
                    all.push((*is, None));
                }
            }
        } else {
            without = leaves.iter().copied().find(|&at| asks(at, ""));
            let mut by_mark: HashMap<&str, usize> = HashMap::new();
            for &at in &leaves {
                marks(queues[at].command).for_each(|mark| _ = by_mark.entry(mark).or_insert(at));
            }
            for Marked { mark, is } in &marked {
                let taker = if mark.is_empty() { without } else { by_mark.get(mark.as_str()).copied() };
                all.push((*is, taker));
            }
        }
        let all = self.first_come(all, queues, has_marks);
        self.in_order(all, queues, without, has_marks)
    }

    /// Returns the marks of the frames at a place, and adds notes on rules for marks with a queue.
    fn marked(&mut self, place: Place<'_>, used: &HashSet<&str>) -> Vec<Marked> {
        let Marks { marked, untold, taken } =
            mangle::read(self.commands, &self.router, place, &|mark| used.contains(mark));
        for rule in untold.iter().filter(|rule| rule.mark.is_empty() || used.contains(rule.mark.as_str())) {
            let whose = match rule.mark.as_str() {
                "" => "a rule that ends a chain or leads to another".to_owned(),
                mark => format!("a rule that marks packets as \"{mark}\""),
            };
            let what = match rule.is_partial {
                true => format!("a part of {whose}: {}", rule.why),
                false => format!("{whose}: not expressible as a match: {}", rule.why),
            };
            self.notes.left_out(self.source, Some(rule.at.clone()), what);
        }
        let mut said = HashSet::new();
        for (at, what) in taken {
            if said.insert(what.clone()) {
                self.notes.changed(self.source, Some(at), what);
            }
        }
        marked
    }

    /// Removes targets that earlier ones cover, with notes.
    fn first_come(&mut self, all: Vec<(Match, Taker)>, queues: &[&Queue<'_>], has_marks: bool) -> Vec<(Match, Taker)> {
        let mut reach = Reach::default();
        let mut kept: Vec<(Match, Taker)> = Vec::new();
        for (is, taker) in all {
            let Some(earlier) = reach.add(&is) else {
                kept.push((is, taker));
                continue;
            };
            let queue = taker
                .map(|at| queues[at])
                .filter(|_| !has_marks && kept.get(earlier).is_none_or(|kept| kept.1 != taker));
            if let Some(queue) = queue {
                let what =
                    format!("\"{is}\" of the queue \"{}\": an earlier queue takes all of its frames", queue.name);
                self.notes.left_out(self.source, Some(queue.command.at.clone()), what);
            }
        }
        kept
    }

    /// Puts the matches of each queue together.
    fn in_order(
        &mut self,
        mut all: Vec<(Match, Taker)>,
        queues: &[&Queue<'_>],
        without: Taker,
        has_marks: bool,
    ) -> Taken {
        let any = all.iter().find(|(is, taker)| is.is_any() && taker.is_some()).and_then(|(_, taker)| *taker);
        if has_marks && all.len() <= MAX_PRUNED {
            all = needed(&all, without);
        }
        while all.last().is_some_and(|(_, taker)| *taker == without && (without.is_some() || any.is_none())) {
            all.pop();
        }
        let id = |taker: Taker| {
            let number = taker.map_or(0, |at| at + 1) as u32;
            Classid::new(1 + (number / 60_000) as u16, 1 + (number % 60_000) as u16)
        };
        let at_of = |taker: Taker| taker.map_or(0..0, |at| queues[at].command.at.clone());
        let filters: Vec<Filter> = all
            .iter()
            .filter_map(|&(made, taker)| Some(Filter { at: at_of(taker), preference: 0, class: id(taker)?, made }))
            .collect();
        let default = without.or(any);
        let refs: Vec<&Filter> = filters.iter().collect();
        let Order { classes, overtaken, is_compared } = order::by_class(&refs, id(default));
        let name = |taker: Taker| taker.map_or("others", |at| queues[at].name);
        if !is_compared {
            let what = format!(
                "WARNING: the order of {} matches of alternating queues was not compared: a frame that matches several may get another class",
                all.len()
            );
            self.notes.changed(self.source, None, what);
        }
        for (earlier, later) in overtaken {
            let ((earlier, first), (later, second)) = (all[earlier], all[later]);
            let what = format!(
                "WARNING: \"{later}\" of \"{}\" now precedes \"{earlier}\" of \"{}\"; a frame that matches both gets \"{}\"",
                name(second),
                name(first),
                name(second)
            );
            self.notes.changed(self.source, Some(at_of(second)), what);
        }
        let taker_of = |class: Classid| {
            let number = usize::from(class.major() - 1) * 60_000 + usize::from(class.minor() - 1);
            number.checked_sub(1)
        };
        let by_taker = classes
            .into_iter()
            .map(|(class, parts)| (taker_of(class), texts(parts.into_iter().map(|(_, made)| made).collect())))
            .filter(|(taker, matches)| taker.is_some() || !matches.is_empty())
            .collect();
        Taken { by_taker, default }
    }
}

/// Matches as texts, without those that another of the same class covers.
fn texts(all: Vec<Match>) -> Vec<String> {
    let is_covered = |at: usize| {
        let others = all.iter().enumerate().filter(|(other, _)| *other != at);
        // Of two that are the same, the first stays.
        others.into_iter().any(|(other, made)| made.covers(&all[at]) && (!all[at].covers(made) || other < at))
    };
    let is_few = all.len() <= MAX_PRUNED;
    (0..all.len()).filter(|&at| !is_few || !is_covered(at)).map(|at| all[at].to_string()).collect()
}

/// Frames without which some frame would go elsewhere.
fn needed(all: &[(Match, Taker)], default: Taker) -> Vec<(Match, Taker)> {
    let mut kept: Vec<(Match, Taker)> = Vec::new();
    for &(is, taker) in all.iter().rev() {
        let behind = kept.iter().rev().find_map(|(later, other)| {
            let ends = later.both(&is).is_some() && (*other != taker || later.covers(&is));
            ends.then_some(*other)
        });
        if behind.unwrap_or(default) != taker {
            kept.push((is, taker));
        }
    }
    kept.reverse();
    kept
}
