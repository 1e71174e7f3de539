//! Builds a [`Hierarchy`] of classes in any order. Its ids follow file order with parents before children.

use fairlink_core::{ClassId, Hierarchy, HierarchyError, LinkConfig};

use crate::class::RawClasses;
use crate::names::{LINK, Names};
use crate::problem::{Log, ProblemKind, Span};
use crate::reader::closest;

/// Most names of a cycle that are shown.
const MAX_CYCLE: usize = 8;

/// A tree with the origin of each class.
pub(crate) struct Built {
    pub(crate) tree: Hierarchy,
    pub(crate) names: Names,
    /// By position in the file.
    pub(crate) ids: Vec<ClassId>,
}

/// Builds the tree; `None` if there is an error, which is in the log. `link_span` is the place of the link's rate.
pub(crate) fn build(classes: &mut RawClasses, link: LinkConfig, link_span: Span, log: &mut Log) -> Option<Built> {
    let parents = parents(classes, log)?;
    let order = parents_first(classes, &parents, log)?;
    let mut builder = Hierarchy::builder(link);
    let mut ids = vec![ClassId::ROOT; classes.all.len()];
    for (place, &index) in order.iter().enumerate() {
        let id = ClassId(place as u32 + 1);
        ids[index as usize] = id;
        let parent = match parents[index as usize] {
            NO_PARENT => ClassId::ROOT,
            parent => ids[parent as usize],
        };
        if let Err(error) = builder.add(parent, classes.all[index as usize].config) {
            explain(error, classes, &order, Some(id), link_span, log);
            return None;
        }
    }
    match builder.build() {
        Ok(tree) => {
            let in_order = order.iter().enumerate().all(|(place, &index)| place == index as usize);
            let names = if in_order {
                std::mem::replace(&mut classes.names, Names::new(0))
            } else {
                let mut names = Names::new(order.len());
                for &index in &order {
                    names.push(classes.name(index as usize)).expect("duplicates were reported");
                }
                names
            };
            Some(Built { tree, names, ids })
        }
        Err(error) => {
            explain(error, classes, &order, None, link_span, log);
            None
        }
    }
}

/// Reports duplicate names, unknown parents and cycles only.
pub(crate) fn check_names(classes: &RawClasses, log: &mut Log) {
    if let Some(parents) = parents(classes, log) {
        parents_first(classes, &parents, log);
    }
}

/// The parent of a class that hangs off the link.
const NO_PARENT: u32 = u32::MAX;

/// Each class's parent as a position; duplicates and unknown parents are reported.
fn parents(classes: &RawClasses, log: &mut Log) -> Option<Vec<u32>> {
    let mut sound = classes.duplicates.is_empty();
    for &(position, first) in &classes.duplicates {
        let kind = ProblemKind::DuplicateName { name: classes.name(position).to_owned() };
        let [again, first] = [position, first].map(|position| classes.all[position].name_at.span());
        log.error_also(again, kind, first, "first here");
    }
    let mut parents = Vec::with_capacity(classes.all.len());
    for position in 0..classes.all.len() {
        let parent = match classes.parent(position) {
            Some((name, span)) if name != LINK => match classes.names.id(name) {
                Some(id) => id.0 - 1,
                None => {
                    let own = classes.name(position);
                    let all = || classes.names.iter().skip(1).filter(|&other| other != own);
                    let suggestion = if log.is_full() { None } else { closest(name, all()).map(str::to_owned) };
                    log.error(span, ProblemKind::UnknownClass { name: name.to_owned(), suggestion });
                    sound = false;
                    NO_PARENT
                }
            },
            _ => NO_PARENT,
        };
        parents.push(parent);
    }
    sound.then_some(parents)
}

/// Orders positions by the file. Only a class whose parent comes later in the file is deferred.
fn parents_first(classes: &RawClasses, parents: &[u32], log: &mut Log) -> Option<Vec<u32>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Waiting,
        OnPath,
        Placed,
        Circular,
    }
    let mut state = vec![State::Waiting; parents.len()];
    let mut order = Vec::with_capacity(parents.len());
    let mut path = Vec::new();
    let mut sound = true;
    for start in 0..parents.len() {
        let mut at = start as u32;
        while at != NO_PARENT {
            let index = at as usize;
            match state[index] {
                State::Waiting => {
                    state[index] = State::OnPath;
                    path.push(at);
                    at = parents[index];
                }
                State::OnPath => {
                    let first = path.iter().position(|&on_path| on_path == at).unwrap_or(0);
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
            state[index as usize] = if sound { State::Placed } else { State::Circular };
            order.push(index);
        }
    }
    sound.then_some(order)
}

fn cycle(classes: &RawClasses, members: &[u32], log: &mut Log) {
    let name = |&position: &u32| classes.name(position as usize);
    let mut path: Vec<&str> = members.iter().take(MAX_CYCLE).map(name).collect();
    if members.len() > MAX_CYCLE {
        path.push("...");
    }
    path.extend(members.first().map(name));
    let span = members.first().and_then(|&first| classes.parent(first as usize)).map_or(0..0, |(_, span)| span);
    log.error(span, ProblemKind::Cycle { path: path.join(" -> ") });
}

/// Reports the core's error with names and places. `added` is the class that was being added.
fn explain(
    error: HierarchyError,
    classes: &RawClasses,
    order: &[u32],
    added: Option<ClassId>,
    link_span: Span,
    log: &mut Log,
) {
    let position = |class: ClassId| order[class.index() - 1] as usize;
    let raw = |class: ClassId| &classes.all[position(class)];
    let name = |class: ClassId| classes.name(position(class)).to_owned();
    let place = |class: ClassId| if class == ClassId::ROOT { link_span.clone() } else { raw(class).share_at.span() };
    match (error, added) {
        (HierarchyError::TooDeep { .. }, Some(class)) => {
            log.error(raw(class).name_at.span(), ProblemKind::TooDeep { name: name(class) });
        }
        (HierarchyError::TooManyLeaves { leaves }, _) => {
            log.error(link_span, ProblemKind::TooManyLeaves { leaves });
        }
        (HierarchyError::TooManyClasses { classes }, _) => {
            log.error(link_span, ProblemKind::TooManyClasses { classes });
        }
        (HierarchyError::MixedShares { class, sibling }, _) => {
            let kind = ProblemKind::MixedShares { name: name(class), sibling: name(sibling) };
            log.error_also(place(class), kind, place(sibling), "its sibling");
        }
        (HierarchyError::GuaranteesExceedParent { parent, children_bps, parent_bps }, _) => {
            let name = if parent == ClassId::ROOT { "the link".to_owned() } else { format!("\"{}\"", name(parent)) };
            let kind = ProblemKind::GuaranteesExceedParent { parent: name, children_bps, parent_bps };
            log.error(place(parent), kind);
        }
        (error, added) => {
            let span = place(added.unwrap_or(ClassId::ROOT));
            log.error(span, ProblemKind::Refused { message: error.to_string() });
        }
    }
}
