//! `fairlink explain`: why a class gets what it gets, what would get it more, and what lies and rearrangements gain.

use fairlink_config::LinkFile;
use fairlink_core::{ClassId, Rate};
use fairlink_theory::changes::NoChanges;
use fairlink_theory::explain::{Explanation, Step};
use fairlink_theory::ideal::{Rule, Traffic};
use fairlink_theory::to_f64;
use serde::Serialize;

use crate::args;
use crate::failure::Failure;
use crate::link::{FluidArgs, in_text};
use crate::out::Out;

mod changes;
mod strategy;

/// Which class, of which link, for which demand.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    fluid: FluidArgs,
    /// The class to explain.
    #[arg(long, value_name = "NAME")]
    class: String,
    /// Size of the changes that are tried [default: a tenth of the link].
    #[arg(long, value_name = "RATE", value_parser = args::rate)]
    step: Option<Rate>,
}

#[derive(Serialize)]
struct Document<'a> {
    class: &'a str,
    /// From the link to the class.
    steps: Vec<Entry<'a>>,
    /// The class that limits it, the one that limits that one, and so on.
    limited_by: Vec<&'a str>,
    /// Changes that would get it more. Absent where no formula has its rate: `notes` give the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<changes::Entry<'a>>,
    /// What lies and rearrangements gain; null for the link.
    strategy: Option<strategy::Entry<'a>>,
    notes: Vec<String>,
    text: String,
}

/// Where the scheduler's rule gives no rates.
#[derive(Serialize)]
struct NotExplained<'a> {
    class: &'a str,
    /// Why there is nothing to explain.
    notes: [String; 1],
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    /// The guarantee in bit/s where `guaranteed`.
    weight: u64,
    guaranteed: bool,
    /// Its part of the weights of all that share with it, where the scheduler does not share by the weights of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight_part: Option<f64>,
    /// The most that it gets, whatever the link has left, and what sets it; null where nothing does.
    ceiling_bps: Option<u64>,
    limit: Option<&'static str>,
    wants_bps: Option<u128>,
    request_bps: Option<u128>,
    allocation_bps: f64,
    satisfied: bool,
    /// Of its parent: bit/s per unit of weight. Where weights are guarantees, which are in bit/s, it is a plain number, which
    /// guarantees are multiplied by.
    fair_share_per_weight: Option<f64>,
    /// What its weight alone entitles it to: its weight times that.
    entitled_bps: Option<f64>,
    satisfied_siblings: Vec<&'a str>,
    unsatisfied_siblings: Vec<&'a str>,
    idle_siblings: Vec<&'a str>,
}

/// Explains and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let (link, demand) = args.fluid.read()?;
    let class = link.names.find(&args.class).map_err(|error| Failure::wrong(format!("--class: {error}")))?;
    let rule = Rule::of(link.info(), &link.tree, Traffic::unknown());
    let ideal = match rule.and_then(|rule| rule.solve(&demand)) {
        Ok(ideal) => ideal,
        Err(why) => {
            let note = format!("what {} gives {} is {why}", link.info().name, args.class);
            if out.json {
                return out.document(&NotExplained { class: &args.class, notes: [note] });
            }
            return out.paragraph(&note, 2);
        }
    };
    let explanation = Explanation::new(&link.tree, &ideal, class).map_err(Failure::failed)?;
    let step = args.step.map_or(link.tree.link().rate.bps() / 10, Rate::bps).max(1);
    let changes = match changes::Entry::of(&link, &demand, class, step) {
        Err(NoChanges::NotComputed(why)) => Err(why),
        other => Ok(other.map_err(Failure::failed)?),
    };
    let unchanged = changes
        .as_ref()
        .err()
        .map(|_| "changes are not computed: rates from a run are too coarse for the effect of a change".to_owned());
    let notes: Vec<String> = ideal.notes(link.info()).into_iter().chain(unchanged).collect();
    let strategy = (class != ClassId::ROOT).then(|| strategy::Entry::of(&link, &demand, class)).transpose()?;
    let mut text = explanation.text(|class| in_text(&link, class));
    text += &changes.as_ref().map(changes::Entry::text).unwrap_or_default();
    text += &strategy.as_ref().map(strategy::Entry::text).unwrap_or_default();
    for note in &notes {
        text += &format!("\n{note}\n");
    }
    if !out.json {
        let indent = |line: &str| line.len() - line.trim_start().len();
        return text.lines().try_for_each(|line| out.paragraph(line, indent(line) + 4));
    }
    out.document(&Document {
        class: &args.class,
        steps: explanation.steps.iter().map(|step| entry(&link, step)).collect(),
        limited_by: names(&link, &explanation.limited_by),
        changes: changes.ok(),
        strategy,
        notes,
        text,
    })
}

fn entry<'a>(link: &'a LinkFile, step: &Step) -> Entry<'a> {
    Entry {
        name: link.names.name(step.class),
        weight: step.weight,
        guaranteed: step.guaranteed,
        weight_part: step.weight_part,
        ceiling_bps: step.limit.map(|limit| limit.bps),
        limit: step.limit.map(|limit| limit.kind.as_str()),
        wants_bps: step.allocation.wanted,
        request_bps: step.allocation.request,
        allocation_bps: to_f64(&step.allocation.allocation),
        satisfied: step.allocation.satisfied,
        fair_share_per_weight: step.fair_share.as_ref().map(to_f64),
        entitled_bps: step.entitled.as_ref().map(to_f64),
        satisfied_siblings: names(link, &step.satisfied_siblings),
        unsatisfied_siblings: names(link, &step.unsatisfied_siblings),
        idle_siblings: names(link, &step.idle_siblings),
    }
}

fn names<'a>(link: &'a LinkFile, classes: &[ClassId]) -> Vec<&'a str> {
    classes.iter().map(|&class| link.names.name(class)).collect()
}
