//! `fairlink check`: is the link file sound, and what does its scheduler promise?

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use fairlink_config::link::{LinkFile, ReadOptions};
use fairlink_config::problem::Problems;
use fairlink_config::units::show_memory;
use fairlink_core::{BuildError, ClassId, Leniency, Members, Share};
use fairlink_lab::figures::tree;
use fairlink_theory::ideal::{Ideal, NotComputed, Rule, Traffic};
use fairlink_theory::promises::{Promised, promised};
use fairlink_theory::request::{Demand, Request};
use serde::Serialize;

#[cfg(target_os = "linux")]
use crate::capacity::Capacity;
use crate::failure::Failure;
use crate::human;
use crate::link::{Finding, indented, parent_name, share_warnings, warn};
#[cfg(target_os = "linux")]
use crate::out::note;
use crate::out::{self, Out};
use crate::rows::{Each, RowArgs, Rows, summary};

mod bounds;
mod theorems;

use bounds::{Admission, Bounds, ClassBounds};
use theorems::{Load, Theorems};

/// Which file, for which scheduler.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The link file.
    link: PathBuf,
    /// Check for this scheduler instead of the file's own.
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// Warn about settings that the scheduler does not support instead of refusing the file.
    #[arg(long)]
    lenient: bool,
    /// Also check what a gateway between interfaces with an mtu of 1500 requires.
    #[cfg(target_os = "linux")]
    #[arg(long)]
    gateway: bool,
    /// Write a drawing of the tree and its shares to this file (SVG).
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    rows: RowArgs,
}

impl Args {
    /// Returns true where a gateway is to run the file. There is none but on Linux.
    fn is_for_gateway(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.gateway;
        #[cfg(not(target_os = "linux"))]
        return false;
    }
}

#[derive(Serialize)]
struct Sound<'a, C> {
    valid: bool,
    scheduler: &'a str,
    link_bps: u64,
    classes: C,
    bounds: Bounds<'a>,
    /// What texts print beside them, and what depends on curves and load.
    theorems: Theorems<'a>,
    /// Bytes that the scheduler with its queues takes at most.
    memory_bytes: u64,
    /// Absent where no service curves are to be guaranteed.
    #[serde(skip_serializing_if = "Option::is_none")]
    admission: Option<Admission>,
    /// The leaves that no frame can reach; the shares are those while they are idle.
    unreachable: Vec<&'a str>,
    /// Bits per second that the gateway moves on this machine. Absent where it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway_bps: Option<u64>,
    /// Why a number is not there.
    notes: Vec<String>,
    warnings: Vec<Finding>,
}

/// The ideal of the scheduler while every leaf is greedy.
type Busy = Result<Ideal, NotComputed>;

/// The notes on the column of shares.
fn shares_notes(link: &LinkFile, busy: &Busy, unreachable: &[ClassId]) -> Vec<String> {
    let mut notes = match busy {
        Ok(ideal) => ideal.notes(link.info()),
        Err(why) => vec![not_computed(why)],
    };
    if !unreachable.is_empty() {
        notes.push("share, all busy: classes that no frame can reach are idle".to_owned());
    }
    notes
}

fn not_computed(why: &NotComputed) -> String {
    format!("share, all busy: {why}")
}

#[derive(Serialize)]
struct Unsound {
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    admission: Option<Admission>,
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
    /// Ideal rate while every leaf is greedy, by the scheduler's own rule, rounded down. Absent where it is not computed: `notes`
    /// give the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_all_busy_bps: Option<u64>,
    #[serde(flatten)]
    bounds: ClassBounds,
}

/// Checks and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let leniency = if args.lenient { Leniency::Ignore } else { Leniency::Refuse };
    let options = ReadOptions { leniency, scheduler: args.scheduler.as_deref() };
    let mut link = match LinkFile::read(&args.link, &options) {
        Ok(link) => link,
        Err(problems) => return refuse(problems, None, out),
    };
    let memory_bytes = match link.check_memory(link.info()) {
        Ok(bytes) => bytes,
        Err(problems) => return refuse(problems, None, out),
    };
    if let Err(error) = link.info().build(&link.tree, leniency, Members::new()) {
        let admission = matches!(error, BuildError::NotAdmitted { .. }).then(|| Admission::of(&link)).flatten();
        return refuse(link.explain(&error), admission, out);
    }
    let mut warnings = std::mem::take(&mut link.warnings);
    warnings.extend(share_warnings(&link)?);
    warnings.extend(link.overruled_warnings());
    let unreachable = unreachable(&link, args);
    warnings.extend(link.unreachable_warning(&unreachable));
    #[cfg(target_os = "linux")]
    let gateway_bps = if args.gateway {
        if let Err(problems) = for_gateway(&link, leniency)? {
            return refuse(problems, None, out);
        }
        let capacity = Capacity::of(&link);
        warnings.extend(capacity.warning(&link));
        capacity.bps()
    } else {
        None
    };
    #[cfg(not(target_os = "linux"))]
    let gateway_bps = None;
    let promised = promised(link.info(), &link.tree).map_err(Failure::failed)?;
    warnings.extend(bounds::unproven(link.info(), &link.tree, &promised).map(|what| link.transmit_warning(&what)));
    let theorems = Theorems::of(&link, &args.load)?;
    let rule = Rule::of(link.info(), &link.tree, Traffic::unknown());
    let mut demand = Demand::uniform(&link.tree, Request::Unlimited);
    unreachable.iter().try_for_each(|&leaf| demand.set(&link.tree, leaf, Request::Rate(0))).map_err(Failure::failed)?;
    let busy: Busy = rule.and_then(|rule| rule.solve(&demand));
    if let Some(file) = &args.svg {
        draw(&link, &busy, &args.rows, file)?;
    }
    if out.json {
        let rows = args.rows.in_json(&link)?;
        return out.document(&Sound {
            valid: true,
            scheduler: &link.scheduler,
            link_bps: link.tree.link().rate.bps(),
            classes: Each { len: rows.len(), item: |row| entry(&link, &promised, &busy, rows.at(row)) },
            bounds: Bounds::of(&promised, &link),
            theorems,
            memory_bytes,
            admission: Admission::of(&link),
            unreachable: unreachable.iter().map(|&leaf| link.names.name(leaf)).collect(),
            gateway_bps,
            notes: shares_notes(&link, &busy, &unreachable),
            warnings: warnings.iter().map(Finding::from).collect(),
        });
    }
    warn(warnings);
    let notes = shares_notes(&link, &busy, &unreachable);
    text(&link, &promised, &theorems, (&busy, &notes), memory_bytes, &args.rows, out)
}

/// The leaves that no frame can reach. Without matches the file is not about frames, unless a gateway is asked for. Only the kernel can
/// choose a class by its number.
fn unreachable(link: &LinkFile, args: &Args) -> Vec<ClassId> {
    if args.is_for_gateway() {
        return link.unreachable().to_vec();
    }
    if link.matches.is_empty() {
        return Vec::new();
    }
    let numbered: HashSet<ClassId> = link.classids.iter().map(|&(_, class)| class).collect();
    let mut unreachable = link.unreachable().to_vec();
    unreachable.retain(|leaf| !numbered.contains(leaf));
    unreachable
}

/// The longest frame of an Ethernet interface with an mtu of 1500, in bytes: 14 more, and two VLAN tags.
#[cfg(target_os = "linux")]
const ETHERNET_FRAME: u32 = 1500 + 14 + 2 * 4;

/// Whether a gateway could run this file.
#[cfg(target_os = "linux")]
fn for_gateway(link: &LinkFile, leniency: Leniency) -> Result<Result<(), Problems>, Failure> {
    let mut config = match fairlink_net::GatewayConfig::from_link_file(link, "", "") {
        Ok(config) => config,
        Err(problems) => return Ok(Err(problems)),
    };
    config.leniency = leniency;
    config.check(ETHERNET_FRAME.max(link.mtu)).map_err(Failure::wrong)?;
    if link.mtu < ETHERNET_FRAME {
        note(format!(
            "note: an interface with an mtu of 1500 carries frames of 1514 B, with two VLAN tags of {ETHERNET_FRAME} B; the gateway takes \
             them, and the bounds here are for {} B: write mtu = \"{ETHERNET_FRAME}B\" into [link]",
            link.mtu
        ));
    }
    Ok(Ok(()))
}

/// The classes that text would have, drawn.
fn draw(link: &LinkFile, busy: &Busy, rows: &RowArgs, file: &Path) -> Result<(), Failure> {
    let rows = rows.in_text(link)?;
    let node = |class: ClassId| {
        let config = link.tree.config(class);
        tree::Node {
            name: link.names.name(class),
            depth: link.tree.depth(class),
            guarantee_bps: match config.share {
                Some(Share::Guarantee(rate)) => Some(rate.bps() as f64),
                _ => None,
            },
            ceiling_bps: config.ceiling.map(|rate| rate.bps() as f64),
            share_bps: busy.as_ref().ok().map(|busy| busy.floor_bps(class) as f64),
        }
    };
    let nodes: Vec<_> = tree_order(link, &rows).into_iter().map(node).collect();
    if nodes.is_empty() {
        return Err(Failure::wrong("--svg: there is no class to draw"));
    }
    let link_bps = link.tree.link().rate.bps() as f64;
    let title = format!("{} shared by {}", human::rate(link_bps), link.info().name);
    out::write_file(file, tree::svg(&title, link_bps, &nodes).as_bytes())
}

/// The classes of `rows`, each after its parent and all that is below its elder siblings.
fn tree_order(link: &LinkFile, rows: &Rows) -> Vec<ClassId> {
    let mut shown = vec![false; link.tree.len()];
    (0..rows.len()).for_each(|row| shown[rows.at(row).index()] = true);
    let mut order = Vec::with_capacity(rows.len());
    let mut next: Vec<ClassId> = link.tree.children(ClassId::ROOT).iter().rev().copied().collect();
    while let Some(class) = next.pop() {
        if shown[class.index()] {
            order.push(class);
            next.extend(link.tree.children(class).iter().rev());
        }
    }
    order
}

/// The name of each class of `order` as a table has it: with the branches of the tree, where somebody looks at it on a terminal that
/// can show them, else set in.
fn names_as_tree<'a>(link: &'a LinkFile, order: &'a [ClassId], out: &Out) -> impl Fn(usize) -> String + use<'a> {
    let drawn = out.is_terminal() && out.canvas().blocks;
    let depths: Vec<usize> = order.iter().map(|&class| link.tree.depth(class)).collect();
    let branches = if drawn { tree::branches(&depths) } else { Vec::new() };
    move |row| match branches.get(row) {
        Some(branch) => format!("{branch}{}", link.names.name(order[row])),
        None => indented(link, order[row]),
    }
}

fn refuse(problems: Problems, admission: Option<Admission>, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        let errors = problems.all().iter().map(Finding::from).collect();
        out.document(&Unsound { valid: false, admission, errors })?;
        out.flush()?;
    }
    Err(problems.into())
}

fn entry<'a>(link: &'a LinkFile, promised: &Promised, busy: &Busy, class: ClassId) -> Entry<'a> {
    let config = link.tree.config(class);
    let weight = promised.weights[class.index()];
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
        share_all_busy_bps: busy.as_ref().ok().map(|busy| busy.floor_bps(class)),
        bounds: ClassBounds::of(promised, &link.tree, class),
    }
}

fn text(
    link: &LinkFile,
    promised: &Promised,
    theorems: &Theorems<'_>,
    (busy, notes): (&Busy, &[String]),
    memory_bytes: u64,
    rows: &RowArgs,
    out: &mut Out,
) -> Result<(), Failure> {
    let rows = rows.in_text(link)?;
    let info = link.info();
    let head = link.tree.link();
    out.paragraph(&format!("{} shared by {}, {}", human::rate(head.rate.bps() as f64), info.name, info.summary), 2)?;
    let size = format!(
        "{}, {}, {}; frames up to {} B; at most {} packets queued; memory at most {}",
        human::count(link.tree.len() - 1, "class", "classes"),
        human::count(link.tree.leaves().len(), "leaf", "leaves"),
        human::count(link.tree.levels(), "level", "levels"),
        link.mtu,
        head.max_queued,
        show_memory(memory_bytes)
    );
    out.paragraph(&size, 2)?;
    out.line("")?;
    let weights = promised.weights.iter().any(Option::is_some);
    let mut columns = vec!["class", "guarantee", "ceiling", "share, all busy"];
    if weights {
        columns.extend(["weight as run", "its error"]);
    }
    let order = tree_order(link, &rows);
    let names = names_as_tree(link, &order, out);
    let row = |row: usize| {
        let class = order[row];
        let config = link.tree.config(class);
        let share = match config.share {
            Some(Share::Guarantee(rate)) => human::rate(rate.bps() as f64),
            Some(Share::Weight(weight)) => format!("weight {weight}"),
            None => "-".to_owned(),
        };
        let ceiling = config.ceiling.map_or_else(|| "-".to_owned(), |rate| human::rate(rate.bps() as f64));
        let busy = busy.as_ref().map_or_else(|_| "-".to_owned(), |busy| human::rate(busy.floor_bps(class) as f64));
        let mut row = vec![names(row), share, ceiling, busy];
        let weight = promised.weights[class.index()];
        row.extend(weight.into_iter().flat_map(|weight| [bounds::weight(weight), human::tiny(weight.error)]));
        row
    };
    out.rows(&columns, rows.len(), row, 1..columns.len())?;
    if rows.summarised {
        let of = |class| Some(busy.as_ref().ok()?.floor_bps(class));
        summary(link, &rows, "share", of, out)?;
    }
    out.line("")?;
    for note in notes {
        out.paragraph(note, 2)?;
        out.line("")?;
    }
    let bounds = bounds::columns(promised, &link.tree);
    if !bounds.is_empty() {
        out.line("At most:")?;
        let titles: Vec<&str> = std::iter::once("class").chain(bounds.iter().map(|(title, _)| *title)).collect();
        let row = |row: usize| {
            let class = order[row];
            let of_class = ClassBounds::of(promised, &link.tree, class);
            let cells = bounds.iter().map(|(_, cell)| cell(&of_class).unwrap_or_else(|| "-".to_owned()));
            std::iter::once(names(row)).chain(cells).collect()
        };
        out.rows(&titles, rows.len(), row, 1..titles.len())?;
        out.line("")?;
    }
    let in_words = Bounds::of(promised, link);
    bounds::lines(promised, &in_words, info, &link.tree, theorems.says_fairness())
        .iter()
        .try_for_each(|line| out.paragraph(line, 18))?;
    theorems.lines().iter().try_for_each(|line| out.paragraph(line, 18))?;
    if Admission::of(link).is_some() {
        let admitted = "admission         the service curves of all classes together stay below what the link carries, at all times";
        out.paragraph(admitted, 18)?;
    }
    Ok(())
}
