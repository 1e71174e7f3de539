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
use crate::rows::{Each, RowArgs, summary};

/// Which link, for which demand.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    fluid: FluidArgs,
    #[command(flatten)]
    rows: RowArgs,
}

#[derive(Serialize)]
struct Document<C> {
    link_bps: u64,
    classes: C,
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
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let (link, demand) = args.fluid.read()?;
    let solved = Allocation::solve(&link.tree, &demand);
    if out.json {
        let rows = args.rows.in_json(&link)?;
        let classes = Each { len: rows.len(), item: |row| entry(&link, &solved, rows.at(row)) };
        return out.document(&Document { link_bps: link.tree.link().rate.bps(), classes });
    }
    let head = ["class", "asks for", "gets", "of the link", "is limited by"];
    let capacity = link.tree.link().rate.bps() as f64;
    let rows = args.rows.in_text(&link)?;
    let row = |row: usize| {
        let class = rows.at(row);
        let ClassAllocation { request, allocation, limited_by, .. } = solved.class(class);
        let gets = to_f64(&allocation);
        vec![
            indented(&link, class),
            request.map_or_else(|| "all it can get".to_owned(), |bps| human::rate(bps as f64)),
            human::rate(gets),
            human::percent(gets / capacity),
            limited_by.map_or_else(|| "-".to_owned(), |by| limiter(&link, &solved, class, by)),
        ]
    };
    out.rows(&head, rows.len(), row, 1..4)?;
    if rows.summarised { summary(&link, &rows, "rate", |class| solved.floor_bps(class), out) } else { Ok(()) }
}

fn limiter(link: &LinkFile, allocation: &Allocation, class: ClassId, by: ClassId) -> String {
    match allocation.limit(class) {
        Some(limit) if by == class => format!("its own {}", limit.kind.as_str()),
        _ => in_text(link, by),
    }
}

fn entry<'a>(link: &'a LinkFile, allocation: &Allocation, class: ClassId) -> Entry<'a> {
    let found = allocation.class(class);
    Entry {
        name: link.names.name(class),
        parent: parent_name(link, class),
        leaf: link.tree.is_leaf(class),
        request_bps: found.request,
        allocation_bps: to_f64(&found.allocation),
        allocation_exact_bps: found.allocation.to_string(),
        satisfied: found.satisfied,
        limited_by: found.limited_by.map(|by| link.names.name(by)),
    }
}
