//! `fairlink schedulers`: the features of each scheduler, from the code itself.

use anyhow::anyhow;
use fairlink_api::{NEEDS, Nearest, SchedulersDoc, schedulers};
use fairlink_core::{Feature, registry::SCHEDULERS};

use fairlink_terminal::args::choice;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;

/// Required features.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only schedulers with all of these, the best choice first, such as latency,ceilings. Words: tree, ceilings,
    /// priorities, curves, latency, quanta, bursts, active-queues, hosts, push-out, pools, fairness-bound, gap-bound,
    /// delay-bound, work-conserving, constant-cost.
    #[arg(long = "for", value_name = "WORD,...", value_delimiter = ',', value_parser = need)]
    needs: Vec<String>,
}

/// A word of `--for`, which people write in the singular as well.
fn need(text: &str) -> Result<String, String> {
    match schedulers(&[text]) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(choice(NEEDS.iter().map(|(word, _)| *word))),
    }
}

/// Lists them.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let needs: Vec<&str> = args.needs.iter().map(String::as_str).collect();
    let document = schedulers(&needs)?;
    if out.json {
        out.document(&document)?;
    }
    if !needs.is_empty() {
        return answer(&document.content, out);
    }
    if out.json {
        return Ok(());
    }
    let head = COLUMNS.iter().map(|&(title, _)| title);
    let head: Vec<_> = ["name"].into_iter().chain(head).collect();
    let rows = SCHEDULERS.iter().map(|info| {
        let mut row = vec![info.name.to_owned()];
        row.extend(COLUMNS.iter().map(|&(_, feature)| if info.supports(feature) { "yes" } else { "-" }.to_owned()));
        row
    });
    out.table(&head, rows.collect(), 0..0)?;
    for info in SCHEDULERS {
        let others = info.features.iter().filter(|&feature| COLUMNS.iter().all(|(_, shown)| shown != feature));
        let others: Vec<_> = others.map(|feature| feature.as_str()).collect();
        let also = if others.is_empty() { String::new() } else { format!("; also supports {}", others.join(", ")) };
        let paper = if info.paper.is_empty() { String::new() } else { format!(" [{}]", info.paper) };
        let promises = info.promises.names().collect::<Vec<_>>().join(", ").replace('_', " ");
        let promises = if promises.is_empty() { "none".to_owned() } else { promises };
        out.line("")?;
        out.paragraph(&format!("{}{paper}: {}{also}", info.name, info.summary), 4)?;
        let more = format!(
            "    work-conserving: {}; bounds: {promises}; cost per packet: {}",
            info.work_conserving.as_str(),
            info.cost
        );
        out.paragraph(&more, 4)?;
    }
    Ok(())
}

/// Prints the schedulers that support all required features.
fn answer(SchedulersDoc { wanted, schedulers, nearest }: &SchedulersDoc, out: &mut Out) -> Result<(), CliError> {
    let none = || Err(CliError::Failed(anyhow!("no scheduler supports all of this")));
    let Some(first) = schedulers.first() else {
        if !out.json {
            out.paragraph(&format!("No scheduler supports all of {}. Nearest:", wanted.join(", ")), 2)?;
            for Nearest { name, lacks } in nearest {
                out.paragraph(&format!("  {name}: all but {}", lacks.join(", ")), 2)?;
            }
        }
        out.flush()?;
        return none();
    };
    if out.json {
        return Ok(());
    }
    let rows = schedulers.iter().map(|info| {
        let bounds = info.bounds.join(", ").replace('_', " ");
        vec![info.name.to_owned(), if bounds.is_empty() { "none".to_owned() } else { bounds }, info.cost.to_owned()]
    });
    out.table(&["name", "bounds", "cost per packet"], rows.collect(), 0..0)?;
    out.line("")?;
    out.paragraph(&format!("{}: {}", first.name, first.summary), 4)?;
    out.paragraph(&format!("Set it in [link]: scheduler = \"{}\".", first.name), 2)
}

/// The most important features; a column each.
const COLUMNS: [(&str, Feature); 5] = [
    ("tree", Feature::Hierarchy),
    ("ceiling", Feature::Ceiling),
    ("priority", Feature::Priority),
    ("curves", Feature::ServiceCurves),
    ("latency", Feature::LatencyCritical),
];
