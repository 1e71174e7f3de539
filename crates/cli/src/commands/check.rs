//! `fairlink check`: is the link file sound, and what does its scheduler promise?

use std::path::PathBuf;

use fairlink_config::link::{LinkFile, ReadOptions};
use fairlink_config::problem::Problems;
use fairlink_core::{BuildError, ClassId, Leniency, Share, registry};
use serde::Serialize;

use crate::failure::Failure;
use crate::link::{Finding, indented, parent_name, warn};
use crate::out::Out;
use crate::{human, promises};

/// Which file, for which scheduler.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The link file.
    link: PathBuf,
    /// Check it for this scheduler instead of the file's own.
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// Warn of what the scheduler cannot honour instead of refusing it.
    #[arg(long)]
    lenient: bool,
}

#[derive(Serialize)]
struct Sound<'a> {
    valid: bool,
    scheduler: &'a str,
    link_bps: u64,
    classes: Vec<Entry<'a>>,
    bounds: promises::Bounds<'a>,
    /// Absent where no service curves are to be guaranteed.
    #[serde(skip_serializing_if = "Option::is_none")]
    admission: Option<promises::Admission>,
    warnings: Vec<Finding>,
}

#[derive(Serialize)]
struct Unsound {
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    admission: Option<promises::Admission>,
    errors: Vec<Finding>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    parent: Option<&'a str>,
    leaf: bool,
    guarantee_bps: Option<u64>,
    /// The weight that the scheduler runs with, in its own unit; bytes for hls.
    weight: Option<f64>,
    /// How far the share that this weight gives is from the one written, relative to it.
    weight_error: Option<f64>,
    ceiling_bps: Option<u64>,
    share_all_busy_bps: u64,
    /// For traffic of the class that never exceeds its burst (a largest frame where absent) and its share.
    delay_bound_s: Option<f64>,
}

/// Checks and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let leniency = if args.lenient { Leniency::Ignore } else { Leniency::Refuse };
    let options = ReadOptions { leniency, scheduler: args.scheduler.as_deref() };
    let mut link = match LinkFile::read(&args.link, &options) {
        Ok(link) => link,
        Err(problems) => return refuse(problems, None, out),
    };
    if let Err(error) = registry::build(link.info(), &link.tree, leniency) {
        let admission = matches!(error, BuildError::NotAdmitted { .. }).then(|| promises::admission(&link)).flatten();
        return refuse(link.explain(&error), admission, out);
    }
    let warnings = std::mem::take(&mut link.warnings);
    let promised = promises::of(&link)?;
    if out.json {
        return out.document(&Sound {
            valid: true,
            scheduler: &link.scheduler,
            link_bps: link.tree.link().rate.bps(),
            classes: link.tree.classes().map(|class| entry(&link, &promised, class)).collect(),
            bounds: promised.bounds,
            admission: promises::admission(&link),
            warnings: warnings.iter().map(Finding::from).collect(),
        });
    }
    warn(warnings);
    text(&link, &promised, out)
}

fn refuse(problems: Problems, admission: Option<promises::Admission>, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        let errors = problems.all().iter().map(Finding::from).collect();
        out.document(&Unsound { valid: false, admission, errors })?;
        out.flush()?;
    }
    Err(problems.into())
}

fn entry<'a>(link: &'a LinkFile, promised: &promises::Promises<'_>, class: ClassId) -> Entry<'a> {
    let config = link.tree.config(class);
    let weight = promised.weight(class);
    Entry {
        name: link.names.name(class),
        parent: parent_name(link, class),
        leaf: link.tree.is_leaf(class),
        guarantee_bps: match config.share {
            Some(Share::Guarantee(rate)) => Some(rate.bps()),
            _ => None,
        },
        weight: weight.map(|weight| weight.as_run),
        weight_error: weight.map(|weight| weight.error),
        ceiling_bps: config.ceiling.map(|rate| rate.bps()),
        share_all_busy_bps: link.tree.rate_all_busy(class),
        delay_bound_s: promised.delay(class),
    }
}

fn text(link: &LinkFile, promised: &promises::Promises<'_>, out: &mut Out) -> Result<(), Failure> {
    let info = link.info();
    let head = link.tree.link();
    out.line(format!("{} shared by {}, {}", human::rate(head.rate.bps() as f64), info.name, info.summary))?;
    out.line(format!(
        "{} classes, {} leaves, {} levels; frames up to {} B; at most {} packets queued",
        link.tree.len() - 1,
        link.tree.leaves().len(),
        link.tree.levels(),
        link.mtu,
        head.max_queued
    ))?;
    out.line("")?;
    let weights = link.tree.classes().any(|class| promised.weight(class).is_some());
    let mut columns = vec!["class", "guarantee", "ceiling", "share, all busy"];
    if weights {
        columns.extend(["weight as run", "its error"]);
    }
    let delays = link.tree.classes().any(|class| promised.delay(class).is_some());
    if delays {
        columns.push("delay at most");
    }
    let rows = link.tree.classes().map(|class| {
        let config = link.tree.config(class);
        let share = match config.share {
            Some(Share::Guarantee(rate)) => human::rate(rate.bps() as f64),
            Some(Share::Weight(weight)) => format!("weight {weight}"),
            None => "-".to_owned(),
        };
        let ceiling = config.ceiling.map_or_else(|| "-".to_owned(), |rate| human::rate(rate.bps() as f64));
        let busy = human::rate(link.tree.rate_all_busy(class) as f64);
        let mut row = vec![indented(link, class), share, ceiling, busy];
        row.extend(promised.weight(class).into_iter().flat_map(|weight| [weight.text(), human::tiny(weight.error)]));
        if delays {
            row.push(promised.delay(class).map_or_else(|| "-".to_owned(), human::time));
        }
        row
    });
    out.table(&columns, rows.collect(), 1..columns.len())?;
    out.line("")?;
    promised.bounds.lines(info.bounds, delays).iter().try_for_each(|line| out.line(line))?;
    if promises::admission(link).is_some() {
        out.line("admission         the service curves of all classes together stay below what the link carries, at all times")?;
    }
    Ok(())
}
