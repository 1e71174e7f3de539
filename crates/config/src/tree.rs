//! From classes in any order to a [`Hierarchy`], whose ids follow file order with parents before children.

use std::collections::HashMap;

use fairlink_core::{ClassId, Hierarchy, HierarchyError, LinkConfig};

use crate::class::RawClass;
use crate::names::{LINK, Names};
use crate::problem::{Log, ProblemKind, Span};
use crate::reader::closest;

/// Most names of a cycle that are shown.
const MAX_CYCLE: usize = 8;

/// A tree and where each of its classes came from.
pub(crate) struct Built {
    pub(crate) tree: Hierarchy,
    pub(crate) names: Names,
    /// By id less one: the position in the file.
    pub(crate) order: Vec<usize>,
}

/// Builds the tree; `None` where something is wrong, which is then in the log. `link_span` is the place of the link's rate.
pub(crate) fn build(classes: &[RawClass<'_>], link: LinkConfig, link_span: Span, log: &mut Log) -> Option<Built> {
    let parents = parents(classes, log)?;
    let order = parents_first(classes, &parents, log)?;
    let mut names = Names::new(classes.len());
    let mut builder = Hierarchy::builder(link);
    let mut ids = vec![ClassId::ROOT; classes.len()];
    for &index in &order {
        let class = &classes[index];
        let parent = parents[index].map_or(ClassId::ROOT, |parent| ids[parent]);
        let id = names.push(class.name);
        ids[index] = id;
        if let Err(error) = builder.add(parent, class.config) {
            explain(error, classes, &order, &names, Some(id), link_span, log);
            return None;
        }
    }
    match builder.build() {
        Ok(tree) => Some(Built { tree, names, order }),
        Err(error) => {
            explain(error, classes, &order, &names, None, link_span, log);
            None
        }
    }
}

/// Reports duplicate names, unknown parents and cycles only.
pub(crate) fn check_names(classes: &[RawClass<'_>], log: &mut Log) {
    if let Some(parents) = parents(classes, log) {
        parents_first(classes, &parents, log);
    }
}

/// Each class's parent as a position; duplicates and unknown parents are reported.
fn parents(classes: &[RawClass<'_>], log: &mut Log) -> Option<Vec<Option<usize>>> {
    let mut by_name = HashMap::with_capacity(classes.len());
    let mut sound = true;
    for (index, class) in classes.iter().enumerate() {
        if let Some(first) = by_name.get(class.name) {
            let first: &RawClass<'_> = &classes[*first];
            let kind = ProblemKind::DuplicateName { name: class.name.to_owned() };
            log.error_also(class.name_span.clone(), kind, first.name_span.clone(), "first here");
            sound = false;
        } else {
            by_name.insert(class.name, index);
        }
    }
    let mut parents = Vec::with_capacity(classes.len());
    for class in classes {
        let parent = match &class.parent {
            Some((name, span)) if *name != LINK => {
                let found = by_name.get(name).copied();
                if found.is_none() {
                    let all = || classes.iter().map(|class| class.name).filter(|&other| other != class.name);
                    let suggestion = if log.is_full() { None } else { closest(name, all()).map(str::to_owned) };
                    log.error(span.clone(), ProblemKind::UnknownClass { name: (*name).to_owned(), suggestion });
                    sound = false;
                }
                found
            }
            _ => None,
        };
        parents.push(parent);
    }
    sound.then_some(parents)
}

/// Positions in file order. Only a class whose parent comes later in the file waits for it.
fn parents_first(classes: &[RawClass<'_>], parents: &[Option<usize>], log: &mut Log) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Waiting,
        OnPath,
        Placed,
        Circular,
    }
    let mut state = vec![State::Waiting; classes.len()];
    let mut order = Vec::with_capacity(classes.len());
    let mut path = Vec::new();
    let mut sound = true;
    for start in 0..classes.len() {
        let mut at = Some(start);
        while let Some(index) = at {
            match state[index] {
                State::Waiting => {
                    state[index] = State::OnPath;
                    path.push(index);
                    at = parents[index];
                }
                State::OnPath => {
                    let first = path.iter().position(|&on_path| on_path == index).unwrap_or(0);
                    cycle(classes, &path[first..], log);
                    sound = false;
                    break;
                }
                State::Placed => break,
                State::Circular => {
                    sound = false;
                    break;
                }
            }
        }
        for index in path.drain(..).rev() {
            state[index] = if sound { State::Placed } else { State::Circular };
            order.push(index);
        }
    }
    sound.then_some(order)
}

fn cycle(classes: &[RawClass<'_>], members: &[usize], log: &mut Log) {
    let mut path: Vec<&str> = members.iter().take(MAX_CYCLE).map(|&index| classes[index].name).collect();
    if members.len() > MAX_CYCLE {
        path.push("...");
    }
    path.push(classes[members[0]].name);
    let span = classes[members[0]].parent.as_ref().map_or(0..0, |(_, span)| span.clone());
    log.error(span, ProblemKind::Cycle { path: path.join(" -> ") });
}

/// Reports the core's error with names and places. `added` is the class that was being added.
fn explain(
    error: HierarchyError,
    classes: &[RawClass<'_>],
    order: &[usize],
    names: &Names,
    added: Option<ClassId>,
    link_span: Span,
    log: &mut Log,
) {
    let raw = |class: ClassId| &classes[order[class.index() - 1]];
    let place = |class: ClassId| if class == ClassId::ROOT { link_span.clone() } else { raw(class).share_span.clone() };
    match (error, added) {
        (HierarchyError::TooDeep { .. }, Some(class)) => {
            log.error(raw(class).name_span.clone(), ProblemKind::TooDeep { name: raw(class).name.to_owned() });
        }
        (HierarchyError::TooManyLeaves { leaves }, _) => {
            log.error(link_span, ProblemKind::TooManyLeaves { leaves });
        }
        (HierarchyError::MixedShares { class, sibling }, _) => {
            let kind =
                ProblemKind::MixedShares { name: raw(class).name.to_owned(), sibling: raw(sibling).name.to_owned() };
            log.error_also(place(class), kind, place(sibling), "its sibling");
        }
        (HierarchyError::GuaranteesExceedParent { parent, children_bps, parent_bps }, _) => {
            let name =
                if parent == ClassId::ROOT { "the link".to_owned() } else { format!("\"{}\"", names.name(parent)) };
            let kind = ProblemKind::GuaranteesExceedParent { parent: name, children_bps, parent_bps };
            log.error(place(parent), kind);
        }
        (error, added) => {
            let span = place(added.unwrap_or(ClassId::ROOT));
            log.error(span, ProblemKind::Refused { message: error.to_string() });
        }
    }
}
