//! `fairlink fluid`: long-run rates of classes by the rule of their scheduler, or by hierarchical max-min fairness.

use fairlink_api::{Each, FluidOptions, fluid, in_text};
use fairlink_config::SourceText;
use fairlink_config::link::LinkFile;
use fairlink_core::ClassId;
use fairlink_report::Ideal;
use fairlink_theory::ideal;

use crate::link::{FluidArgs, indented};
use crate::rows::{RowArgs, summary};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::Out;
use fairlink_terminal::style::warn;

/// Link and demand.
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

/// Solves and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let options = FluidOptions { demand: args.fluid.demand.as_deref(), fair: args.fair };
    let mut found = fluid(&SourceText::read(&args.fluid.link)?, &options)?;
    if out.json {
        let rows = args.rows.in_json(&found.link)?;
        let classes = Each { len: rows.len(), item: |row| found.class(rows.at(row)) };
        let document = found.document(classes);
        warn(found.warnings.clone());
        return out.document(&document);
    }
    warn(std::mem::take(&mut found.warnings));
    let solved = match &found.solved {
        Ok(solved) => solved,
        Err(_) => {
            found.notes.iter().try_for_each(|note| out.paragraph(note, 2))?;
            return out.paragraph("use --fair for hierarchical max-min fairness", 2);
        }
    };
    let link = &found.link;
    let head = ["class", "demand", "rate", "of link", "limited by"];
    let capacity = link.tree.link().rate.bps() as f64;
    let rows = args.rows.in_text(link)?;
    let row = |row: usize| {
        let class = rows.at(row);
        let by = solved.class(class).limited_by;
        let Some(Ideal { request_bps, allocation_bps, .. }) = found.class(class).ideal else { return Vec::new() };
        vec![
            indented(link, class),
            request_bps.map_or_else(|| "unlimited".to_owned(), |bps| human::rate(bps as f64)),
            human::rate(allocation_bps),
            human::percent(allocation_bps / capacity),
            by.map_or_else(|| "-".to_owned(), |by| limiter(link, solved, class, by)),
        ]
    };
    out.rows(&head, rows.len(), row, 1..4)?;
    for note in &found.notes {
        out.paragraph(note, 2)?;
    }
    if rows.summarised { summary(link, &rows, "rate", |class| Some(solved.floor_bps(class)), out) } else { Ok(()) }
}

fn limiter(link: &LinkFile, allocation: &ideal::Ideal, class: ClassId, by: ClassId) -> String {
    match allocation.limit(class) {
        Some(limit) if by == class => format!("own {}", limit.kind.as_str()),
        _ => in_text(link, by),
    }
}
