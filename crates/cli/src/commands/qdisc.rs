//! `fairlink qdisc`: the kernel module, told what a link file says, and asked what has passed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use fairlink_config::problem::ProblemKind;
use fairlink_config::units::show_bps;
use fairlink_config::{LinkFile, Problem, ReadOptions};
use fairlink_core::{Amount, Leniency, Members, Nanos};
use fairlink_net::{QDISC_CATCH_UP, QDISC_SLACK, QdiscClass, QdiscError, QdiscPlan, QdiscRoot, QdiscState, qdisc_plan};
use serde::Serialize;

use crate::args::time;
use crate::failure::Failure;
use crate::link::warn;
use crate::out::{Out, note};

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Share what an interface sends as a link file says, in the kernel.
    Add(SetArgs),
    /// Change the classes, the scheduler or the rate while packets are queued. Classes of the same name keep theirs.
    Change(SetArgs),
    /// Show what has passed the link and its classes.
    Show(AtArgs),
    /// Take the link away: the interface has its default queueing discipline again, and what waits is dropped.
    Del(AtArgs),
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// The link file.
    link: PathBuf,
    /// The interface that sends.
    #[arg(long, value_name = "IF", required_unless_present = "out")]
    dev: Option<String>,
    /// Lateness that the link makes up for, to 1 s.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = short_time)]
    catch_up: Nanos,
    /// By how much its timer may be late, to 1 s. More saves interrupts.
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = short_time)]
    slack: Nanos,
    /// Write what the kernel would be told into this file instead.
    #[arg(long, value_name = "FILE", conflicts_with = "dev")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct AtArgs {
    /// The interface.
    #[arg(long, value_name = "IF")]
    dev: String,
}

/// A time that the module takes.
fn short_time(text: &str) -> Result<Nanos, String> {
    let nanos = time(text)?;
    if nanos > Nanos::from_secs(1) { Err(format!("{text} is more than 1s")) } else { Ok(nanos) }
}

impl From<QdiscError> for Failure {
    fn from(error: QdiscError) -> Self {
        Self::wrong(error)
    }
}

const _: () = assert!(QDISC_CATCH_UP.0 == 1_000_000 && QDISC_SLACK.0 == 10_000);

/// Does it.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    match &args.what {
        What::Add(args) => set(args, false, out),
        What::Change(args) => set(args, true, out),
        What::Show(args) => show(&args.dev, out),
        What::Del(args) => Ok(QdiscRoot::of(&args.dev)?.delete()?),
    }
}

/// Reads a link file and has its scheduler built, so that whatever is wrong with it is said here with its place.
fn read(path: &Path) -> Result<LinkFile, Failure> {
    let mut link = LinkFile::read(path, &ReadOptions { leniency: Leniency::Refuse, scheduler: None })?;
    let concerns_matches = |warning: &Problem| matches!(warning.kind(), ProblemKind::NoMatch { .. });
    warn(std::mem::take(&mut link.warnings).into_iter().filter(|warning| !concerns_matches(warning)));
    if let Some((class, pool)) = link.pools.first() {
        let class = link.names.name(*class);
        return Err(Failure::wrong(format!(
            "class \"{class}\" borrows from the pool \"{pool}\": links of the kernel share nothing; take the pool out, or use the gateway"
        )));
    }
    link.check_memory(link.info())?;
    link.info().build(&link.tree, Leniency::Refuse, Members::new()).map_err(|error| link.explain(&error))?;
    Ok(link)
}

fn set(args: &SetArgs, change: bool, out: &mut Out) -> Result<(), Failure> {
    let link = read(&args.link)?;
    let Some(interface) = &args.dev else {
        let plan = qdisc_plan(&link, None, args.catch_up, args.slack)?;
        let Some(path) = &args.out else { return Ok(()) };
        return fs::write(path, &plan.bytes)
            .map_err(|error| Failure::wrong(format!("cannot write {}: {error}", path.display())));
    };
    let root = QdiscRoot::of(interface)?;
    let running = if change { Some(root.show()?) } else { None };
    let plan = qdisc_plan(&link, running.as_ref(), args.catch_up, args.slack)?;
    if change {
        root.change(&plan)?
    } else {
        root.add(&plan)?
    }
    told(&link, &plan, interface, out)
}

#[derive(Serialize)]
struct Told<'a> {
    interface: &'a str,
    handle: String,
    classes: Vec<Numbered<'a>>,
}

#[derive(Serialize)]
struct Numbered<'a> {
    name: &'a str,
    classid: String,
    /// The SO_PRIORITY of its packets.
    priority: u32,
}

/// Says how packets get into their classes.
fn told(link: &LinkFile, plan: &QdiscPlan, interface: &str, out: &mut Out) -> Result<(), Failure> {
    let major = plan.major;
    let numbered = |class: &fairlink_core::ClassId| {
        let minor = plan.minors[class.index()];
        let priority = u32::from(major) << 16 | u32::from(minor);
        Numbered { name: link.names.name(*class), classid: format!("{major:x}:{minor:x}"), priority }
    };
    let classes: Vec<_> = link.tree.leaves().iter().map(numbered).collect();
    if out.json {
        return out.document(&Told { interface, handle: format!("{major:x}:"), classes });
    }
    let ignored = link.matches.iter().filter(|(class, _)| Some(*class) != link.default_class).count();
    if ignored > 0 {
        note(format!(
            "{ignored} matches of the file are not looked at: in the kernel, tc filters say which packets are whose. For each, e.g.\n  tc filter add dev {interface} parent {major:x}: protocol ip u32 match ip dport 5001 0xffff flowid {}",
            classes.first().map_or("1:1", |class| &class.classid)
        ));
    }
    if link.default_class.is_none() {
        note("packets that no filter takes are dropped; name a `default` class in [link] to keep them");
    }
    Ok(())
}

#[derive(Serialize)]
struct Shown<'a> {
    interface: &'a str,
    handle: String,
    scheduler: &'a str,
    broken: Option<&'a str>,
    rate_bps: u64,
    sent: Amount,
    dropped_packets: u64,
    queued: Amount,
    super_frames: u64,
    classes: Vec<ShownClass<'a>>,
}

#[derive(Serialize)]
struct ShownClass<'a> {
    name: &'a str,
    classid: String,
    parent: Option<String>,
    leaf: bool,
    rate_bps: u64,
    received: Amount,
    sent: Amount,
    dropped: Amount,
    marked: Amount,
    queued: Amount,
    lent_bytes: Option<u64>,
}

fn show(interface: &str, out: &mut Out) -> Result<(), Failure> {
    let state = QdiscRoot::of(interface)?.show()?;
    let number = |minor: u16| format!("{:x}:{minor:x}", state.major);
    if out.json {
        let class = |class: &'_ QdiscClass| (class.clone(), number(class.minor), number(class.parent));
        let numbered: Vec<_> = state.classes.iter().map(class).collect();
        let classes = numbered.iter().map(|(class, classid, parent)| ShownClass {
            name: &class.name,
            classid: classid.clone(),
            parent: (class.parent != 0).then(|| parent.clone()),
            leaf: class.leaf,
            rate_bps: class.rate_bps,
            received: class.received,
            sent: class.sent,
            dropped: class.dropped,
            marked: class.marked,
            queued: class.queued,
            lent_bytes: class.lent_bytes,
        });
        return out.document(&Shown {
            interface,
            handle: format!("{:x}:", state.major),
            scheduler: &state.scheduler,
            broken: state.broken.as_deref(),
            rate_bps: state.rate_bps,
            sent: state.sent,
            dropped_packets: state.dropped,
            queued: state.queued,
            super_frames: state.super_frames,
            classes: classes.collect(),
        });
    }
    let QdiscState { scheduler, rate_bps, sent, dropped, queued, .. } = &state;
    match &state.broken {
        Some(why) => out.line(format!(
            "{interface}: broken, {why}. Packets pass through a FIFO; `fairlink qdisc del` and `add` begin anew."
        ))?,
        None => out.line(format!("{interface}: {scheduler} shares {}", show_bps(*rate_bps)))?,
    }
    out.line(format!(
        "sent {} packets of {} B, dropped {dropped}, queued {} of {} B",
        sent.packets, sent.bytes, queued.packets, queued.bytes
    ))?;
    if state.classes.is_empty() {
        return Ok(());
    }
    let head = ["class", "classid", "all busy", "sent", "sent bytes", "dropped", "queued", "lent bytes"];
    let rows = state.classes.iter().map(|class| {
        vec![
            class.name.clone(),
            number(class.minor),
            show_bps(class.rate_bps),
            class.sent.packets.to_string(),
            class.sent.bytes.to_string(),
            class.dropped.packets.to_string(),
            class.queued.packets.to_string(),
            class.lent_bytes.map_or("-".to_owned(), |bytes| bytes.to_string()),
        ]
    });
    out.table(&head, rows.collect(), 2..8)
}
