//! `fairlink fluid`: what the classes get in the long run by the rule of their scheduler, or by hierarchical max-min fairness.

use fairlink_config::link::LinkFile;
use fairlink_core::ClassId;
use fairlink_theory::hmm::{Allocation, ClassAllocation};
use fairlink_theory::ideal::{Ideal, NotComputed, Rule, Traffic};
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
    /// Compute hierarchical max-min fairness instead of the sharing rule of the link's scheduler.
    #[arg(long)]
    fair: bool,
    #[command(flatten)]
    rows: RowArgs,
}

#[derive(Serialize)]
struct Document<'a, C> {
    link_bps: u64,
    /// By whose rule.
    rule: &'a str,
    classes: C,
    /// Why a number is not there.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    parent: Option<&'a str>,
    leaf: bool,
    #[serde(flatten)]
    found: Option<Found<'a>>,
}

/// The rates of a class, where the rule gives them.
#[derive(Serialize)]
struct Found<'a> {
    request_bps: Option<u128>,
    allocation_bps: f64,
    /// The same without rounding, as a fraction of whole numbers. Absent where rates are computed in floating point.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation_exact_bps: Option<String>,
    satisfied: bool,
    limited_by: Option<&'a str>,
}

/// Solves and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let (link, demand) = args.fluid.read()?;
    let (rule, solved): (&str, Result<Ideal, NotComputed>) = match args.fair {
        true => ("max-min fairness", Ok(Allocation::solve(&link.tree, &demand).into())),
        false => {
            let rule = Rule::of(link.info(), &link.tree, Traffic::unknown());
            (link.info().name, rule.and_then(|rule| rule.solve(&demand)))
        }
    };
    let notes = |ideal: &Ideal| if args.fair { Vec::new() } else { ideal.notes(link.info()) };
    if out.json {
        let rows = args.rows.in_json(&link)?;
        let solved = solved.as_ref();
        let item = |row| entry(&link, solved.ok(), rows.at(row));
        let classes = Each { len: rows.len(), item };
        let notes = match solved {
            Ok(ideal) => notes(ideal),
            Err(why) => vec![told(rule, why)],
        };
        return out.document(&Document { link_bps: link.tree.link().rate.bps(), rule, classes, notes });
    }
    let solved = match solved {
        Ok(solved) => solved,
        Err(why) => {
            out.paragraph(&told(rule, &why), 2)?;
            return out.paragraph("--fair computes hierarchical max-min fairness instead", 2);
        }
    };
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
    for note in notes(&solved) {
        out.paragraph(&note, 2)?;
    }
    if rows.summarised { summary(&link, &rows, "rate", |class| Some(solved.floor_bps(class)), out) } else { Ok(()) }
}

fn told(rule: &str, why: &NotComputed) -> String {
    format!("the rates that {rule} gives are {why}")
}

fn limiter(link: &LinkFile, allocation: &Ideal, class: ClassId, by: ClassId) -> String {
    match allocation.limit(class) {
        Some(limit) if by == class => format!("its own {}", limit.kind.as_str()),
        _ => in_text(link, by),
    }
}

fn entry<'a>(link: &'a LinkFile, ideal: Option<&Ideal>, class: ClassId) -> Entry<'a> {
    let found = |ideal: &Ideal| {
        let found = ideal.class(class);
        Found {
            request_bps: found.request,
            allocation_bps: ideal.bps(class),
            allocation_exact_bps: ideal.is_exact().then(|| found.allocation.to_string()),
            satisfied: found.satisfied,
            limited_by: found.limited_by.map(|by| link.names.name(by)),
        }
    };
    Entry {
        name: link.names.name(class),
        parent: parent_name(link, class),
        leaf: link.tree.is_leaf(class),
        found: ideal.map(found),
    }
}
