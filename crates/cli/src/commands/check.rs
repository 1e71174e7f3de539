//! `fairlink check`: validates a link file and prints the bounds of its scheduler.

use std::path::{Path, PathBuf};

use fairlink_api::{
    Admission, CheckOptions, Checked, Each, Flood, Load, OnCores, Refused, RefusedDoc, check, class_bounds,
};
use fairlink_config::link::LinkFile;
use fairlink_config::problem::{Problems, SourceText};
use fairlink_config::units::show_memory;
#[cfg(target_os = "linux")]
use fairlink_core::Leniency;
use fairlink_core::{ClassId, Nanos, Split};
use fairlink_figures::tree;

#[cfg(target_os = "linux")]
use crate::capacity::Capacity;
use crate::cores::{self, CoreArgs};
use crate::link::indented;
use crate::rows::{RowArgs, Rows, summary};
use fairlink_terminal::args;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
#[cfg(target_os = "linux")]
use fairlink_terminal::out::note;
use fairlink_terminal::out::{self, Out};
use fairlink_terminal::style::warn;

mod bounds;
mod network;
mod on_cores;
mod theorems;

/// File and scheduler to check.
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
    /// Also check the requirements of a gateway between interfaces with an mtu of 1500.
    #[cfg(target_os = "linux")]
    #[arg(long)]
    gateway: bool,
    /// Write a drawing of the tree and its shares to this file (SVG).
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    cores: CoreArgs,
    /// Longest time between two looks of a core at its queues, for --split shared.
    #[arg(long, value_name = "TIME", value_parser = cores::lag, default_value = "10us")]
    lag: Nanos,
    /// Processor time of a hub for a packet, as `fairlink-lab bench --cores` measures it, for --split hub and shared: it says
    /// whether one hub is enough for the link.
    #[arg(long, value_name = "TIME", value_parser = args::time)]
    hub_packet: Option<Nanos>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    rows: RowArgs,
}

impl Args {
    /// Returns true if the file is for a gateway, which exists only on Linux.
    fn is_for_gateway(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.gateway;
        #[cfg(not(target_os = "linux"))]
        return false;
    }
}

/// Traffic of the latency-critical classes.
#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// Mean rates of latency-critical classes, such as voice=64kbit, for the mean delay under drr++ (Theorem 1 of its
    /// text).
    #[arg(long, value_name = "LEAF=RATE,...")]
    demand: Option<String>,
    /// Mean packet length of these classes [default: the mtu].
    #[arg(long, value_name = "SIZE", requires = "demand")]
    packet: Option<String>,
}

/// Checks and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let options = CheckOptions {
        scheduler: args.scheduler.as_deref(),
        lenient: args.lenient,
        gateway: args.is_for_gateway(),
        load: Load { demand: args.load.demand.as_deref(), packet: args.load.packet.as_deref() },
    };
    let read = SourceText::read(&args.link).map_err(Refused::from);
    let mut checked = match read.and_then(|source| check(&source, &options)) {
        Ok(checked) => checked,
        Err(Refused::Text(problems)) => return refuse(problems, None, out),
        Err(Refused::NotAdmitted { problems, admission }) => return refuse(problems, Some(admission), out),
        Err(other) => return Err(other.into()),
    };
    #[cfg(target_os = "linux")]
    if args.gateway {
        let leniency = if args.lenient { Leniency::Ignore } else { Leniency::Refuse };
        if let Err(problems) = for_gateway(&checked.link, leniency)? {
            return refuse(problems, None, out);
        }
        let capacity = Capacity::of(&checked.link);
        checked.warnings.extend(capacity.warning(&checked.link));
        checked.gateway_bps = capacity.bps();
        checked.flood = Some(flood(&checked.link, capacity.bps()));
    }
    let cores = args.cores.only(checked.link.cores).map_err(CliError::wrong)?;
    if args.hub_packet.is_some() && !matches!(cores.split, Split::Hub | Split::Shared) {
        return Err(CliError::wrong(
            "--hub-packet: no hub is looked at; add --cores N --split hub, or --split shared to compare with one",
        ));
    }
    if !cores.is_one() {
        checked.on_cores = Some(OnCores::new(&checked.link, cores, args.lag, args.hub_packet)?);
    }
    if let Some(file) = &args.svg {
        draw(&checked, &args.rows, file)?;
    }
    if out.json {
        let rows = args.rows.in_json(&checked.link)?;
        let classes = Each { len: rows.len(), item: |row| checked.class(rows.at(row)) };
        return out.document(&checked.document(classes));
    }
    warn(std::mem::take(&mut checked.warnings));
    text(&checked, &args.rows, out)
}

/// The longest frame of an Ethernet interface with an mtu of 1500, in bytes: 14 more, and two VLAN tags.
#[cfg(target_os = "linux")]
const ETHERNET_FRAME: u32 = 1500 + 14 + 2 * 4;
/// The length of the frames that the capacity is measured with.
#[cfg(target_os = "linux")]
const FULL_FRAME: u32 = 1514;

/// Returns true if a gateway could run this file.
#[cfg(target_os = "linux")]
fn for_gateway(link: &LinkFile, leniency: Leniency) -> Result<Result<(), Problems>, CliError> {
    let mut config = match fairlink_net::GatewayConfig::from_link_file(link, "", "") {
        Ok(config) => config,
        Err(problems) => return Ok(Err(problems)),
    };
    config.leniency = leniency;
    config.check(ETHERNET_FRAME.max(link.mtu)).map_err(CliError::wrong)?;
    if link.overhead.accounted(ETHERNET_FRAME) > link.tree.link().max_packet {
        note(format!(
            "note: an interface with an mtu of 1500 carries frames of up to {ETHERNET_FRAME} B (1514 B and two VLAN tags), and these bounds are for {} B: set mtu = \"{ETHERNET_FRAME}B\" in [link]",
            link.mtu
        ));
    }
    Ok(Ok(()))
}

/// Computes what a flood does to the gateway on this machine.
#[cfg(target_os = "linux")]
fn flood(link: &LinkFile, bps: Option<u64>) -> Flood {
    let frames = fairlink_net::frames_in_front(ETHERNET_FRAME.max(link.mtu)) as u64;
    // It was measured with full frames, which take the longest.
    let delay_s = bps.map(|bps| frames as f64 * 8.0 * f64::from(FULL_FRAME) / bps as f64);
    let why_not = fairlink_net::drops_by_class().err();
    Flood { frames, delay_s, by_class: why_not.is_none(), why_not }
}

/// The classes that text would have, drawn.
fn draw(checked: &Checked, rows: &RowArgs, file: &Path) -> Result<(), CliError> {
    let link = &checked.link;
    let rows = rows.in_text(link)?;
    let node = |class: ClassId| {
        let terms = checked.class(class).terms.unwrap_or_default();
        let rate = |bps: Option<u64>| bps.map(|bps| bps as f64);
        tree::Node {
            name: link.names.name(class),
            depth: link.tree.depth(class),
            guarantee_bps: rate(terms.guarantee_bps),
            ceiling_bps: rate(terms.ceiling_bps),
            share_bps: rate(terms.share_all_busy_bps),
        }
    };
    let nodes: Vec<_> = tree_order(link, &rows).into_iter().map(node).collect();
    if nodes.is_empty() {
        return Err(CliError::wrong("--svg: there is no class to draw"));
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

/// Returns the names of the classes of `order` for a table: with branches of the tree on a capable terminal, else
/// indented.
fn names_as_tree<'a>(link: &'a LinkFile, order: &'a [ClassId], out: &Out) -> impl Fn(usize) -> String + use<'a> {
    let drawn = out.is_terminal() && out.blocks();
    let depths: Vec<usize> = order.iter().map(|&class| link.tree.depth(class)).collect();
    let branches = if drawn { tree::branches(&depths) } else { Vec::new() };
    move |row| match branches.get(row) {
        Some(branch) => format!("{branch}{}", link.names.name(order[row])),
        None => indented(link, order[row]),
    }
}

fn refuse(problems: Problems, admission: Option<Admission>, out: &mut Out) -> Result<(), CliError> {
    if out.json {
        out.document(&RefusedDoc::new(&problems, admission))?;
        out.flush()?;
    }
    Err(problems.into())
}

/// Formats the length of super-frames that are scheduled as one, if there are any.
fn pieces(link: &LinkFile) -> String {
    match link.longest_piece() {
        0 => String::new(),
        longest => format!(
            ", super-frames in pieces of up to {longest} B ({}), for which all bounds are",
            human::time(f64::from(longest) * 8.0 / link.tree.link().rate.bps() as f64)
        ),
    }
}

/// Formats what a flood does to the gateway.
fn in_a_flood(Flood { frames, delay_s, why_not, .. }: &Flood) -> String {
    let time = match delay_s {
        Some(delay_s) => format!("{} at the measured capacity if none is a super-frame, while its thread has its processor", human::time(*delay_s)),
        None => "their time is not computed, because the capacity is measured for links above 1 Gbit/s only (`fairlink-lab bench --gateway`)".to_owned(),
    };
    let more = match why_not {
        None => "of more, the kernel drops those of classes above their share and of unknown flows".to_owned(),
        Some(why) => format!("of more, the kernel drops frames of all classes alike: {why}"),
    };
    format!("in a flood, up to {frames} frames are in front of another in the gateway: {time}; {more}")
}

fn text(checked: &Checked, rows: &RowArgs, out: &mut Out) -> Result<(), CliError> {
    let Checked { link, promised, theorems, .. } = checked;
    let (rows_asked, rows) = (rows, rows.in_text(link)?);
    let info = link.info();
    let head = link.tree.link();
    out.paragraph(&format!("{} shared by {}, {}", human::rate(head.rate.bps() as f64), info.name, info.summary), 2)?;
    let size = format!(
        "{}, {}, {}; frames up to {} B{}; at most {} packets queued; memory at most {}",
        human::count(link.tree.len() - 1, "class", "classes"),
        human::count(link.tree.leaves().len(), "leaf", "leaves"),
        human::count(link.tree.levels(), "level", "levels"),
        link.mtu,
        pieces(link),
        head.max_queued,
        show_memory(checked.memory_bytes)
    );
    out.paragraph(&size, 2)?;
    if let Some(flood) = &checked.flood {
        out.paragraph(&in_a_flood(flood), 2)?;
    }
    out.line("")?;
    let weights = promised.weights.iter().any(Option::is_some);
    let mut columns = vec!["class", "guarantee", "ceiling", "share, all busy"];
    if weights {
        columns.extend(["effective weight", "rounding error"]);
    }
    let order = tree_order(link, &rows);
    let names = names_as_tree(link, &order, out);
    let row = |row: usize| {
        let class = order[row];
        let terms = checked.class(class).terms.unwrap_or_default();
        let rate = |bps: Option<u64>| bps.map_or_else(|| "-".to_owned(), |bps| human::rate(bps as f64));
        let share = terms.weight.map_or_else(|| rate(terms.guarantee_bps), |weight| format!("weight {weight}"));
        let mut row = vec![names(row), share, rate(terms.ceiling_bps), rate(terms.share_all_busy_bps)];
        let weight = promised.weights[class.index()];
        row.extend(weight.into_iter().flat_map(|weight| [bounds::weight(weight), human::tiny(weight.error)]));
        row
    };
    out.rows(&columns, rows.len(), row, 1..columns.len())?;
    if rows.summarised {
        let of = |class| Some(checked.busy.as_ref().ok()?.floor_bps(class));
        summary(link, &rows, "share", of, out)?;
    }
    out.line("")?;
    for note in checked.notes() {
        out.paragraph(&note, 2)?;
        out.line("")?;
    }
    let bounds = bounds::columns(promised, &link.tree);
    if !bounds.is_empty() {
        out.line("Worst case:")?;
        let titles: Vec<&str> = std::iter::once("class").chain(bounds.iter().map(|(title, _)| *title)).collect();
        let row = |row: usize| {
            let class = order[row];
            let of_class = class_bounds(promised, &link.tree, class);
            let cells = bounds.iter().map(|(_, cell)| cell(&of_class).unwrap_or_else(|| "-".to_owned()));
            std::iter::once(names(row)).chain(cells).collect()
        };
        out.rows(&titles, rows.len(), row, 1..titles.len())?;
        out.line("")?;
    }
    let says_fairness = theorems.virtual_times.is_some();
    let lines = bounds::lines(link, promised, &checked.bounds(), says_fairness);
    lines.iter().try_for_each(|line| out.paragraph(line, 18))?;
    theorems::lines(theorems).iter().try_for_each(|line| out.paragraph(line, 18))?;
    if let Some(shorter) = checked.shorter_delays() {
        out.paragraph(&bounds::shorter_delays(&shorter), 18)?;
    }
    if Admission::for_link(link).is_some() {
        let admitted = "admission         the sum of all service curves never exceeds the link's capacity";
        out.paragraph(admitted, 18)?;
    }
    if let Some(network) = &checked.network {
        network::print(network, out)?;
    }
    if let Some(on) = &checked.on_cores {
        on_cores::print(on, head.rate.bps() as f64, rows_asked, out)?;
    }
    Ok(())
}
