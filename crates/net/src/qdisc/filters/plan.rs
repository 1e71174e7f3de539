//! Filters by priority.

use std::collections::{HashMap, HashSet};

use fairlink_config::LinkFile;
use fairlink_config::matching::Match;
use fairlink_core::ClassId;

use super::{Filter, Unspoken, of_match};
use crate::qdisc::QdiscPlan;

/// Most priorities that the matches of a file may take.
pub(crate) const MOST_PRIORITIES: usize = 8192;
/// Most kinds of filters of one priority, which are asked one after the other.
const MOST_KINDS: usize = 64;

/// A match that is no filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its class.
    pub class: ClassId,
    /// The match.
    pub made: Match,
    /// Why.
    pub why: Unspoken,
}

/// The matches of a link file, ready for the kernel.
#[derive(Clone, Debug, Default)]
pub struct QdiscFilters {
    /// Filters by priority, with the minor numbers of their classes, in the order in which they are added.
    pub(crate) priorities: Vec<Vec<(Filter, u16)>>,
    /// What cannot be said.
    pub left_out: Vec<LeftOut>,
}

impl QdiscFilters {
    /// How many filters there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.priorities.iter().map(Vec::len).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.priorities.is_empty()
    }
}

/// The filters for the matches of `link`, whose classes have the numbers of `plan`.
#[must_use]
pub fn filters(link: &LinkFile, plan: &QdiscPlan) -> QdiscFilters {
    let mut matches = link.matches.as_slice();
    // What matches nothing is of that class anyway.
    if let Some(((class, made), before)) = matches.split_last()
        && made.is_any()
        && Some(*class) == link.default_class
    {
        matches = before;
    }
    let minor = |class: ClassId| plan.minors.get(class.index()).copied().unwrap_or(0);
    of_matches(matches, minor)
}

/// The same for any list of matches.
pub(crate) fn of_matches(matches: &[(ClassId, Match)], minor: impl Fn(ClassId) -> u16) -> QdiscFilters {
    let mut made = QdiscFilters::default();
    let mut priority = Priority::default();
    for &(class, ref one) in matches {
        let added = of_match(one).and_then(|filters| {
            for filter in filters {
                if !priority.takes(&filter, class) {
                    if made.priorities.len() + 2 > MOST_PRIORITIES {
                        return Err(Unspoken::Priorities);
                    }
                    made.priorities.push(std::mem::take(&mut priority).filters);
                }
                priority.add(filter, class, minor(class));
            }
            Ok(())
        });
        made.left_out.extend(added.err().map(|why| LeftOut { class, made: *one, why }));
    }
    made.priorities.push(priority.filters);
    made.priorities.retain(|filters| !filters.is_empty());
    made
}

/// The priority that is being filled.
#[derive(Default)]
struct Priority {
    filters: Vec<(Filter, u16)>,
    /// Kinds in the order in which they came, with the class of all filters of a kind where it is one.
    kinds: Vec<Option<ClassId>>,
    places: HashMap<Filter, usize>,
    /// Those that are there.
    known: HashSet<Filter>,
}

impl Priority {
    /// Whether a filter of `class` may follow: those that it would be asked before are of the same class, or it is asked last.
    fn takes(&self, filter: &Filter, class: ClassId) -> bool {
        // Those of another classifier have priorities of their own.
        if self.filters.first().is_some_and(|(first, _)| matches!(first, Filter::All) != matches!(filter, Filter::All))
        {
            return false;
        }
        match self.places.get(&filter.kind()) {
            Some(&place) => self.kinds.iter().skip(place + 1).all(|of| *of == Some(class)),
            None => self.kinds.len() < MOST_KINDS,
        }
    }

    fn add(&mut self, filter: Filter, class: ClassId, minor: u16) {
        // The same filter twice: the first one counts.
        if !self.known.insert(filter) {
            return;
        }
        match self.places.get(&filter.kind()) {
            Some(&place) => {
                if self.kinds[place] != Some(class) {
                    self.kinds[place] = None;
                }
            }
            None => {
                self.places.insert(filter.kind(), self.kinds.len());
                self.kinds.push(Some(class));
            }
        }
        self.filters.push((filter, minor));
    }
}
