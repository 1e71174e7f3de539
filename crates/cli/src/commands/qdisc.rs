//! `fairlink qdisc`: configures the kernel module by a link file, and shows its statistics.

mod show;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Subcommand};
use fairlink_api::share_warnings;
use fairlink_config::{Classid, LinkFile, ReadOptions};
use fairlink_core::{Leniency, Members, Nanos};
use fairlink_net::{
    LeftOut, QDISC_CATCH_UP, QDISC_SLACK, QdiscFilters, QdiscPlace, QdiscPlan, qdisc_filters, qdisc_plan,
};
use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use fairlink_terminal::args::time;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::{Out, note};
use fairlink_terminal::style::warn;

/// Action on the queueing discipline.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Shape an interface by a link file, in the kernel.
    Add(AddArgs),
    /// Change the classes, the scheduler or the rate while packets are queued. Classes of the same name keep theirs.
    Change(SetArgs),
    /// Show counters and rates of the link and its classes, and the fluid ideal.
    Show(show::Args),
    /// Show rate, fluid ideal, share of the guarantee, drops and backlog of each class at intervals, until Ctrl-C.
    Watch(show::WatchArgs),
    /// Remove the link: the interface gets its default queueing discipline again, and queued packets are dropped.
    Del(AtArgs),
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    #[command(flatten)]
    set: SetArgs,
    /// The number of the queueing discipline, such as 20: (hexadecimal). Without it, that of the file's classids, or
    /// 1:.
    #[arg(long, value_name = "HANDLE", conflicts_with = "out", value_parser = handle)]
    handle: Option<u16>,
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("where").args(["dev", "out"]).required(true))]
struct SetArgs {
    /// The link file.
    link: PathBuf,
    /// The interface that sends.
    #[arg(long, value_name = "IF")]
    dev: Option<String>,
    /// Parent class of another queueing discipline, such as 2:1; without it, this is the interface's root.
    #[arg(long, value_name = "CLASSID", conflicts_with = "out", value_parser = parent)]
    parent: Option<Classid>,
    /// Maximum lost time that is caught up, up to 1 s.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = short_time)]
    catch_up: Nanos,
    /// Slack of the timer, up to 1 s. More slack saves interrupts.
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = short_time)]
    slack: Nanos,
    /// Make no filters of the file's matches. Existing filters stay.
    #[arg(long)]
    no_filters: bool,
    /// Skip matches that the kernel's classifiers do not support, with a note, instead of refusing the file.
    #[arg(long)]
    lenient: bool,
    /// Write the message for the kernel into this file instead.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct AtArgs {
    /// The interface.
    #[arg(long, value_name = "IF")]
    dev: String,
    /// Parent class of another queueing discipline, such as 2:1; without it, this is the interface's root.
    #[arg(long, value_name = "CLASSID", value_parser = parent)]
    parent: Option<Classid>,
}

impl AtArgs {
    fn place(&self) -> Result<QdiscPlace, CliError> {
        QdiscPlace::find(&self.dev, self.parent).map_err(CliError::wrong)
    }
}

/// A class of another queueing discipline.
fn parent(text: &str) -> Result<Classid, String> {
    Classid::parse(text).ok_or_else(|| {
        format!("{text:?} is not a class of a queueing discipline: two hexadecimal numbers from 1 to ffff, such as 2:1")
    })
}

/// The number of a queueing discipline, with or without the colon. The last one is that of arriving packets.
fn handle(text: &str) -> Result<u16, String> {
    Classid::parse(&format!("{}:1", text.strip_suffix(':').unwrap_or(text)))
        .map(Classid::major)
        .filter(|&major| major != u16::MAX)
        .ok_or_else(|| {
            format!(
                "{text:?} is not a handle of a queueing discipline: a hexadecimal number from 1 to fffe, such as 20:"
            )
        })
}

/// A time that the module takes.
fn short_time(text: &str) -> Result<Nanos, String> {
    let nanos = time(text)?;
    if nanos > Nanos::from_secs(1) { Err(format!("{text} exceeds the limit of 1s")) } else { Ok(nanos) }
}

const _: () = assert!(QDISC_CATCH_UP.0 == 1_000_000 && QDISC_SLACK.0 == 10_000);

/// Does it.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    match &args.what {
        What::Add(args) => set(&args.set, Some(args.handle), out),
        What::Change(args) => set(args, None, out),
        What::Show(args) => show::run(args, out),
        What::Watch(args) => show::watch(args, out),
        What::Del(args) => args.place()?.delete().map_err(CliError::wrong),
    }
}

/// Reads a link file and builds its scheduler, so that errors are reported here with places.
fn read(path: &Path) -> Result<LinkFile, CliError> {
    let mut link = LinkFile::read(path, &ReadOptions { leniency: Leniency::Refuse, scheduler: None })?;
    warn(std::mem::take(&mut link.warnings));
    warn(share_warnings(&link)?);
    if let Some((class, pool)) = link.pools.first() {
        let class = link.names.name(*class);
        return Err(CliError::wrong(format!(
            "class \"{class}\" borrows from the pool \"{pool}\": links of the kernel cannot share a pool; remove the pool, or use the gateway"
        )));
    }
    link.check_memory(link.info())?;
    link.info().build(&link.tree, Leniency::Refuse, Members::new()).map_err(|error| link.explain(&error))?;
    Ok(link)
}

/// Adds a link, with the given handle if any; without `add`, changes the existing one.
fn set(args: &SetArgs, add: Option<Option<u16>>, out: &mut Out) -> Result<(), CliError> {
    let link = read(&args.link)?;
    let Some(interface) = &args.dev else {
        link.require_one_core("the kernel module")?;
        let plan = qdisc_plan(&link, None, args.catch_up, args.slack).map_err(CliError::wrong)?;
        let Some(path) = &args.out else { return Ok(()) };
        return fs::write(path, &plan.bytes)
            .map_err(|error| CliError::wrong(format!("cannot write {}: {error}", path.display())));
    };
    let place = QdiscPlace::find(interface, args.parent).map_err(CliError::wrong)?;
    let running = if add.is_none() { Some(place.show().map_err(CliError::wrong)?) } else { None };
    link.require_one_core("the kernel module")?;
    let mut plan = qdisc_plan(&link, running.as_ref(), args.catch_up, args.slack).map_err(CliError::wrong)?;
    plan.major = add.flatten().unwrap_or(plan.major);
    let filters = if args.no_filters { None } else { Some(filters(&link, &plan, args.lenient)?) };
    if add.is_some() {
        place.add(&plan, filters.as_ref()).map_err(CliError::wrong)?
    } else {
        place.change(&plan, filters.as_ref()).map_err(CliError::wrong)?
    }
    told(&link, &plan, filters.as_ref(), interface, out)
}

/// The matches as filters; those that cannot be are an error, or a note each.
fn filters(link: &LinkFile, plan: &QdiscPlan, lenient: bool) -> Result<QdiscFilters, CliError> {
    let filters = qdisc_filters(link, plan);
    let texts: Vec<_> = filters.left_out.iter().map(|left| left_out(link, left)).collect();
    if !lenient && !texts.is_empty() {
        return Err(CliError::wrong(format!(
            "{}; --lenient skips such matches, and --no-filters all of them",
            texts.join("\n")
        )));
    }
    texts.into_iter().for_each(note);
    Ok(filters)
}

fn left_out(link: &LinkFile, left: &LeftOut) -> String {
    let LeftOut { class, made, why } = left;
    format!("class \"{}\": the match \"{made}\" cannot become a kernel filter: {why}", link.names.name(*class))
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct QdiscSetDoc<'a> {
    interface: &'a str,
    handle: String,
    /// Filters made of the file's matches; absent with --no-filters.
    filters: Option<usize>,
    /// Matches that are none.
    left_out: Vec<String>,
    classes: Vec<Numbered<'a>>,
}

impl Content for QdiscSetDoc<'_> {
    const KIND: &'static str = "qdisc_set";
}

#[derive(JsonSchema, Serialize)]
struct Numbered<'a> {
    name: &'a str,
    classid: String,
    /// The SO_PRIORITY of its packets.
    priority: u32,
}

/// Says how packets get into their classes.
fn told(
    link: &LinkFile,
    plan: &QdiscPlan,
    filters: Option<&QdiscFilters>,
    interface: &str,
    out: &mut Out,
) -> Result<(), CliError> {
    let major = plan.major;
    let numbered = |class: &fairlink_core::ClassId| {
        let minor = plan.minors[class.index()];
        let priority = u32::from(major) << 16 | u32::from(minor);
        Numbered { name: link.names.name(*class), classid: format!("{major:x}:{minor:x}"), priority }
    };
    let classes: Vec<_> = link.tree.leaves().iter().map(numbered).collect();
    if out.json {
        let left_out = filters.iter().flat_map(|filters| &filters.left_out).map(|left| left_out(link, left));
        return out.document(&Document::new(QdiscSetDoc {
            interface,
            handle: format!("{major:x}:"),
            filters: filters.map(QdiscFilters::len),
            left_out: left_out.collect(),
            classes,
        }));
    }
    let ignored = link.matches.iter().filter(|(class, _)| Some(*class) != link.default_class).count();
    if ignored > 0 && filters.is_none() {
        note(format!(
            "{ignored} matches of the file are ignored: in the kernel, tc filters classify packets. Add a filter for each, e.g.\n  tc filter add dev {interface} parent {major:x}: protocol ip u32 match ip dport 5001 0xffff flowid {}",
            classes.first().map_or("1:1", |class| &class.classid)
        ));
    }
    if link.default_class.is_none() {
        note("packets that no filter matches are dropped; set `default` in [link] to keep them");
    }
    Ok(())
}
