//! An order of classes in which the matches of a class stand together, and frames still find the class that they find
//! in the order of the filters.

use std::collections::BTreeMap;

use crate::classid::Classid;
use crate::commands::setup::Filter;
use crate::matching::{Match, Reach};

/// Maximum number of filters that are compared in pairs. More filters keep the order of the first filters of their
/// classes, and [`Order::is_compared`] is false if that may change the class of a frame.
const MAX_PAIRS: usize = 2048;

/// Most matches that one filter may be parted into.
const MAX_PARTS: usize = 64;

/// A filter, or a part of one: its position in the list that was given, and its match.
type Part = (usize, Match);

/// Classes with their parts.
type Classes = Vec<(Classid, Vec<Part>)>;

/// Positions of a filter, and of a later one that comes before it.
type Pairs = Vec<(usize, usize)>;

/// Filters by class.
pub(crate) struct Order {
    pub(crate) classes: Classes,
    /// A filter, and a later one of the list that comes before it now and takes some of its frames.
    pub(crate) overtaken: Pairs,
    /// False if there were too many filters to find those that are overtaken.
    pub(crate) is_compared: bool,
}

/// Sorts filters, of which the first match applies, by classes. `default` is the class of frames without a filter.
pub(crate) fn by_class(filters: &[&Filter], default: Option<Classid>) -> Order {
    let all: Vec<usize> = (0..filters.len()).collect();
    let classes = first_come(filters, &all);
    let written: Vec<&Part> = classes.iter().flat_map(|(_, parts)| parts).collect();
    if filters.len() > MAX_PAIRS {
        let is_compared = written.is_sorted_by_key(|part| part.0);
        return Order { classes, overtaken: Vec::new(), is_compared };
    }
    let keeps_order = written
        .iter()
        .enumerate()
        .all(|(at, part)| written[..at].iter().all(|other| other.0 < part.0 || other.1.both(&part.1).is_none()));
    if keeps_order {
        return Order { classes, overtaken: Vec::new(), is_compared: true };
    }
    let (classes, overtaken) = sorted(first_come(filters, &needed(filters, default)));
    Order { classes: reachable(classes), overtaken, is_compared: true }
}

/// Classes in the order of their first filters.
fn first_come(filters: &[&Filter], places: &[usize]) -> Classes {
    let mut made: Vec<(Classid, Vec<Part>)> = Vec::new();
    let mut known: BTreeMap<Classid, usize> = BTreeMap::new();
    for &place in places {
        let at = *known.entry(filters[place].class).or_insert_with(|| {
            made.push((filters[place].class, Vec::new()));
            made.len() - 1
        });
        made[at].1.push((place, filters[place].made));
    }
    made
}

/// Filters without which some frame would find another class.
fn needed(filters: &[&Filter], default: Option<Classid>) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for (place, filter) in filters.iter().enumerate().rev() {
        let behind = kept.iter().rev().find_map(|&later| {
            let later = filters[later];
            let meets = later.made.both(&filter.made).is_some();
            let ends = meets && (later.class != filter.class || later.made.covers(&filter.made));
            ends.then_some(later.class)
        });
        if behind.or(default) != Some(filter.class) {
            kept.push(place);
        }
    }
    kept.reverse();
    kept
}

/// Moves each class so that its filters precede no earlier filter with which they share frames, and splits filters if
/// there is no such place.
fn sorted(mut left: Classes) -> (Classes, Pairs) {
    let (mut made, mut overtaken) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        let tried: Vec<(Vec<Part>, Pairs)> = (0..left.len()).map(|at| before_others(&left, at)).collect();
        let next = (0..left.len())
            .min_by_key(|&at| (tried[at].1.len(), tried[at].0.len() - left[at].1.len().min(tried[at].0.len())));
        let next = next.unwrap_or(0);
        let (class, _) = left.remove(next);
        let (parts, lost) = tried.into_iter().nth(next).unwrap_or_default();
        made.push((class, parts));
        overtaken.extend(lost);
    }
    overtaken.sort_unstable();
    overtaken.dedup_by_key(|pair| pair.0);
    (made, overtaken)
}

/// The parts of a class that is put before all others, and the pairs of filters that stand the other way round then.
fn before_others(left: &[(Classid, Vec<Part>)], at: usize) -> (Vec<Part>, Pairs) {
    let others = || left.iter().enumerate().filter(|(other, _)| *other != at).flat_map(|(_, (_, parts))| parts);
    let (mut made, mut lost) = (Vec::new(), Vec::new());
    for &(place, whole) in &left[at].1 {
        let mut parts = vec![whole];
        for &(earlier, ref other) in others().filter(|(earlier, _)| *earlier < place) {
            // The intersection does not belong to another if an own filter takes it before both.
            let is_own = |both: Match| left[at].1.iter().any(|(first, own)| *first < earlier && own.covers(&both));
            if parts.iter().all(|part| part.both(other).is_none_or(is_own)) {
                continue;
            }
            let less: Option<Vec<Match>> =
                parts.iter().map(|part| part.minus(other)).collect::<Option<Vec<_>>>().map(|all| all.concat());
            match less.filter(|less| less.len() <= MAX_PARTS) {
                Some(less) => parts = less,
                None => lost.push((earlier, place)),
            }
        }
        made.extend(parts.into_iter().map(|part| (place, part)));
    }
    (made, lost)
}

/// Takes out filters that have no frames left.
fn reachable(classes: Classes) -> Classes {
    let mut reach = Reach::default();
    let mut keep = |parts: Vec<Part>| parts.into_iter().filter(|(_, made)| reach.add(made).is_none()).collect();
    classes.into_iter().map(|(class, parts)| (class, keep(parts))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{IpVersion, Prefix};

    fn order(all: &[(&str, u16)], default: u16) -> (Vec<(u16, Vec<usize>)>, Pairs) {
        let filters: Vec<Filter> = all
            .iter()
            .map(|(text, minor)| Filter {
                at: 0..0,
                preference: 0,
                class: Classid::new(1, *minor).unwrap(),
                made: Match::parse(text).unwrap(),
            })
            .collect();
        let refs: Vec<&Filter> = filters.iter().collect();
        let Order { classes, overtaken, .. } = by_class(&refs, Classid::new(1, default));
        let places = |parts: Vec<Part>| parts.into_iter().map(|(place, _)| place).collect();
        (classes.into_iter().map(|(class, parts)| (class.minor(), places(parts))).collect(), overtaken)
    }

    #[test]
    fn too_many_filters_are_said_to_be_not_compared_where_classes_take_turns() {
        let filter = |place: u32, minor: u16| Filter {
            at: 0..0,
            preference: 0,
            class: Classid::new(1, minor).unwrap(),
            made: Match { dst: Some(Prefix::v4(place.into(), 32)), version: Some(IpVersion::V4), ..Match::ANY },
        };
        let compared = |class: fn(u32) -> u16, count: u32| {
            let filters: Vec<Filter> = (0..count).map(|place| filter(place, class(place))).collect();
            by_class(&filters.iter().collect::<Vec<_>>(), None).is_compared
        };
        let most = MAX_PAIRS as u32;
        assert!(compared(|place| 1 + place as u16 % 2, 9));
        assert!(!compared(|place| 1 + place as u16 % 2, most + 1));
        assert!(compared(|place| 1 + (place / 100) as u16, most + 1), "no class has a filter behind another's");
    }

    #[test]
    fn classes_stand_so_that_no_filter_is_overtaken_where_that_can_be() {
        // They take turns: of the last filter, port 80 is left out, so that the class 1 can be first.
        let all = [("src net 10.0.0.1/32", 1), ("dst port 80", 2), ("tcp", 1)];
        assert_eq!(order(&all, 9), (vec![(1, vec![0, 2, 2]), (2, vec![1])], vec![]));
        // No match says "any protocol but tcp".
        let all = [("dscp ef", 1), ("tcp", 2), ("ip", 1), ("dscp af11", 2)];
        assert_eq!(order(&all, 9).1.len(), 1);
        let all = [("udp dst port 53", 1), ("tcp dst port 80", 2), ("tcp", 1)];
        assert_eq!(order(&all, 9), (vec![(2, vec![1]), (1, vec![0, 2])], vec![]));
        // Frames that the default class gets anyway do not matter.
        let all = [("dst port 80", 1), ("tcp", 2), ("ip", 1)];
        assert_eq!(order(&all, 1), (vec![(1, vec![0]), (2, vec![1])], vec![]));
    }
}
