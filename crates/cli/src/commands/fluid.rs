//! `fairlink fluid`: what the classes should get, exactly.

use fairlink_config::link::LinkFile;
use fairlink_core::ClassId;
use fairlink_theory::hmm::{Allocation, ClassAllocation};
use fairlink_theory::to_f64;
use serde::Serialize;

use crate::failure::Failure;
use crate::human;
use crate::link::{FluidArgs, in_text, indented, parent_name};
use crate::out::Out;

#[derive(Serialize)]
struct Document<'a> {
    link_bps: u64,
    classes: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    parent: Option<&'a str>,
    leaf: bool,
    request_bps: Option<u128>,
    allocation_bps: f64,
    /// The same without rounding, as a fraction of whole numbers.
    allocation_exact_bps: String,
    satisfied: bool,
    limited_by: Option<&'a str>,
}

/// Solves and prints.
pub(crate) fn run(args: &FluidArgs, out: &mut Out) -> Result<(), Failure> {
    let (link, demand) = args.read()?;
    let allocation = Allocation::solve(&link.tree, &demand);
    if out.json {
        return out.document(&document(&link, &allocation));
    }
    let head = ["class", "asks for", "gets", "of the link", "is limited by"];
    let capacity = link.tree.link().rate.bps() as f64;
    let rows = link.tree.classes().map(|class| {
        let ClassAllocation { request, allocation, limited_by, .. } = allocation.class(class);
        let gets = to_f64(allocation);
        vec![
            indented(&link, class),
            request.map_or_else(|| "all it can get".to_owned(), |bps| human::rate(bps as f64)),
            human::rate(gets),
            human::percent(gets / capacity),
            limited_by.map_or_else(|| "-".to_owned(), |by| limiter(&link, class, by)),
        ]
    });
    out.table(&head, rows.collect(), 1..4)
}

fn limiter(link: &LinkFile, class: ClassId, by: ClassId) -> String {
    if by == class { "its own ceiling".to_owned() } else { in_text(link, by) }
}

fn document<'a>(link: &'a LinkFile, allocation: &Allocation) -> Document<'a> {
    let tree = &link.tree;
    let entry = |class: ClassId| {
        let found = allocation.class(class);
        Entry {
            name: link.names.name(class),
            parent: parent_name(link, class),
            leaf: tree.is_leaf(class),
            request_bps: found.request,
            allocation_bps: to_f64(&found.allocation),
            allocation_exact_bps: found.allocation.to_string(),
            satisfied: found.satisfied,
            limited_by: found.limited_by.map(|by| link.names.name(by)),
        }
    };
    Document { link_bps: tree.link().rate.bps(), classes: tree.classes().map(entry).collect() }
}
