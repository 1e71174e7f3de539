//! Rates of an interval as a table that fits a terminal: the link, and its classes as a tree below it.

use std::collections::HashMap;

use console::{measure_text_width, truncate_str};
use fairlink_net::GatewayStats;
use fairlink_report::{ClassReport, ClassSpan, Delay, Limit, LimitCause, Rates};

use fairlink_terminal::human;

/// Classes to show, and the available space.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// Only this class, with its descendants.
    pub(super) class: Option<String>,
    /// Columns of the terminal.
    pub(super) width: usize,
    /// Maximum number of lines; unlimited if absent.
    pub(super) lines: Option<usize>,
}

/// Minimum width of the terminal for more columns.
const WIDE: usize = 120;
/// Minimum width for the columns with the limiting class and its duration.
const WIDEST: usize = 140;
/// Minimum width for two spaces between columns.
const AIRY: usize = 84;
/// Relative error of the longest delay, 1.6 %: it may be smaller than reported by this factor.
const LONGEST_ERROR: f64 = 1.016;
/// Classes that are named with a delay above their bound.
const ABOVE_SHOWN: usize = 3;
/// Minimum width of a class name in columns, on any terminal.
const SHORTEST_NAME: usize = 8;

/// A column of numbers: title, width, and cell.
type Column<'a> = (&'static str, usize, Box<dyn Fn(&Row<'_>) -> String + 'a>);

/// One line: the link or a class.
#[derive(Default)]
struct Row<'a> {
    name: String,
    rates: Rates,
    delay: Delay,
    dropped: Option<u64>,
    limit: Option<&'a Limit>,
    queued: u64,
    /// The rate that is its own, in bit/s: its guarantee, or the link's rate.
    own_bps: u64,
    delay_bound_s: Option<f64>,
}

/// The classes of the interval by name.
fn measured(stats: &GatewayStats) -> HashMap<&str, &ClassSpan> {
    let classes = stats.interval().map_or(&[][..], |span| &span.classes);
    classes.iter().map(|class| (class.name.as_str(), class)).collect()
}

fn delay_bound_s(class: &ClassReport) -> Option<f64> {
    class.bounds.as_ref()?.delay_bound_s
}

/// Returns the lines: the gateway, the table, and the number of omitted classes.
pub(super) fn lines(stats: &GatewayStats, view: &View) -> Vec<String> {
    let gateway = stats.gateway();
    let span = stats.interval().map_or_else(String::new, |span| format!("; the last {}", human::time(span.seconds())));
    let head = format!(
        "{}: {} to {} at {} by {}, up {}{span}",
        stats.name.as_deref().unwrap_or("-"),
        gateway.input,
        gateway.output,
        human::rate(stats.capacity_bps.unwrap_or(0) as f64),
        stats.scheduler.as_deref().unwrap_or("-"),
        human::time(gateway.uptime_s)
    );
    let mut lines = vec![cut(&head, view.width)];
    let all = chosen(stats, view.class.as_deref());
    let above = above_bounds(stats, &all);
    // Lines for the head, the titles, the link, and omitted classes; and for delays above their bounds.
    let most = view.lines.map_or(usize::MAX, |lines| lines.saturating_sub(4 + above.len()).max(1));
    let shown = fitting(stats, &all, most);
    lines.extend(table(stats, &shown, view.width));
    if shown.len() < all.len() {
        let more = human::count(all.len() - shown.len(), "class more", "classes more");
        lines.push(cut(&format!("{more}: enlarge the window, or pass --class NAME"), view.width));
    }
    lines.extend(above.iter().map(|line| cut(line, view.width)));
    lines
}

/// A line for each class of which a packet took longer than its bound, and one that says whether the processor was
/// late.
fn above_bounds(stats: &GatewayStats, all: &[(usize, usize)]) -> Vec<String> {
    let measured = measured(stats);
    let above = |&(index, _): &(usize, usize)| {
        let class = &stats.classes[index];
        let (longest, bound) = (measured.get(class.name.as_str())?.delay_s?.max?, delay_bound_s(class)?);
        (longest / LONGEST_ERROR > bound).then(|| {
            let (longest, bound) = (human::time(longest), human::time(human::up(bound)));
            format!("! {}: maximum delay {longest}, bound {bound}", class.name)
        })
    };
    let mut lines: Vec<String> = all.iter().filter_map(above).collect();
    if lines.is_empty() {
        return lines;
    }
    let more = lines.len().saturating_sub(ABOVE_SHOWN);
    lines.truncate(ABOVE_SHOWN);
    if more > 0 {
        lines
            .push(format!("! {}", human::count(more, "more class above its bound", "more classes above their bounds")));
    }
    let late = stats.interval().and_then(|span| Some((span.forfeited_s?, span.pauses?)));
    let (forfeited_s, pauses) = late.unwrap_or_default();
    lines.push(match (forfeited_s > 0.0 || pauses > 0, late.is_some()) {
        (true, _) => format!(
            "! the processor or the output was late: {} of link time lost, {}",
            human::time(forfeited_s),
            human::count(pauses as usize, "pause", "pauses")
        ),
        (false, true) => "! no link time was lost (no wake-up later than --catch-up): the class exceeded its burst or rate, or its queue was not empty".to_owned(),
        (false, false) => "! this gateway does not report late wake-ups".to_owned(),
    });
    lines
}

/// The classes below and at `class`, or all, with their depths: 1 below the link.
fn chosen(stats: &GatewayStats, class: Option<&str>) -> Vec<(usize, usize)> {
    let mut path: Vec<&str> = Vec::new();
    let mut within = None;
    let mut chosen = Vec::new();
    for (index, each) in stats.classes.iter().enumerate() {
        while path.last().is_some_and(|&last| Some(last) != each.parent.as_deref()) {
            path.pop();
        }
        path.push(&each.name);
        let depth = path.len();
        if class == Some(&each.name) {
            within = Some(depth);
        } else if within.is_some_and(|top| depth <= top) {
            within = None;
        }
        if class.is_none() || within.is_some() {
            chosen.push((index, depth));
        }
    }
    chosen
}

/// Returns the upper levels of these classes that fit; if not even the first does, its classes with the largest demand.
fn fitting(stats: &GatewayStats, all: &[(usize, usize)], most: usize) -> Vec<(usize, usize)> {
    if all.len() <= most {
        return all.to_vec();
    }
    let first = all.iter().map(|&(_, depth)| depth).min().unwrap_or(1);
    let up_to = |depth: usize| all.iter().filter(move |&&(_, own)| own <= depth);
    let deepest = (first..).take_while(|&depth| up_to(depth).count() <= most).take(all.len()).last();
    if let Some(depth) = deepest {
        return up_to(depth).copied().collect();
    }
    let measured = measured(stats);
    let demand = |index: usize| {
        measured.get(stats.classes[index].name.as_str()).and_then(|class| class.rates.demand_bps).unwrap_or(0.0)
    };
    let mut busiest: Vec<_> = up_to(first).copied().collect();
    busiest.sort_by(|&(a, _), &(b, _)| demand(b).total_cmp(&demand(a)).then(a.cmp(&b)));
    busiest.truncate(most);
    busiest.sort_unstable();
    busiest
}

/// The table, its titles first.
fn table(stats: &GatewayStats, shown: &[(usize, usize)], width: usize) -> Vec<String> {
    let capacity_bps = stats.capacity_bps.unwrap_or(0);
    let (unit, size) = match capacity_bps {
        10_000_000.. => ("Mbit/s", 1e6),
        10_000.. => ("kbit/s", 1e3),
        _ => ("bit/s", 1.0),
    };
    let span = stats.interval();
    let link = Row {
        name: "link".to_owned(),
        rates: span.map(|span| span.rates).unwrap_or_default(),
        delay: span.and_then(|span| span.delay_s).unwrap_or_default(),
        dropped: span.and_then(|span| span.counts).map(|counts| counts.dropped.packets),
        limit: span.and_then(|span| span.limit.as_ref()),
        queued: stats.counts().queued.packets,
        own_bps: capacity_bps,
        delay_bound_s: None,
    };
    let measured = measured(stats);
    let above = shown.iter().map(|&(_, depth)| depth).min().unwrap_or(1) - 1;
    let rows: Vec<Row<'_>> = std::iter::once(link)
        .chain(shown.iter().map(|&(index, depth)| {
            let class = &stats.classes[index];
            let span = measured.get(class.name.as_str());
            Row {
                name: format!("{}{}", "  ".repeat(depth - above - 1), class.name),
                rates: span.map(|span| span.rates).unwrap_or_default(),
                delay: span.and_then(|span| span.delay_s).unwrap_or_default(),
                dropped: span.and_then(|span| span.counts).map(|counts| counts.dropped.packets),
                limit: span.and_then(|span| span.limit.as_ref()),
                queued: class.counts().queued.packets,
                own_bps: class.terms.map_or(0, |terms| terms.own_bps()),
                delay_bound_s: delay_bound_s(class),
            }
        }))
        .collect();
    let columns = columns(unit, size, width);
    let gap = if width < AIRY || (WIDE..WIDEST).contains(&width) { 1 } else { 2 };
    let numbers: usize = columns.iter().map(|(_, width, _)| width + gap).sum();
    let longest = rows.iter().map(|row| measure_text_width(&row.name)).max().unwrap_or(0);
    let names = longest.max("class".len()).min(width.saturating_sub(numbers)).max(SHORTEST_NAME);
    let line = |name: &str, cells: Vec<String>| {
        let name = cut(name, names);
        let mut text = format!("{name}{}", " ".repeat(names - measure_text_width(&name)));
        for (cell, (_, width, _)) in cells.into_iter().zip(&columns) {
            text.push_str(&format!("{}{cell:>width$}", " ".repeat(gap)));
        }
        cut(text.trim_end(), width)
    };
    let titles = columns.iter().map(|(title, ..)| (*title).to_owned()).collect();
    let mut lines = vec![line("class", titles)];
    lines.extend(rows.iter().map(|row| line(&row.name, columns.iter().map(|(_, _, cell)| cell(row)).collect())));
    lines
}

/// The columns behind the name. Rates are in `unit`s of `size` bit/s.
fn columns(unit: &'static str, size: f64, width: usize) -> Vec<Column<'static>> {
    let rate = move |of: fn(&Rates) -> Option<f64>| {
        move |row: &Row<'_>| told(of(&row.rates).map(|bps| human::digits(bps / size)))
    };
    let delay = |of: fn(&Delay) -> Option<f64>| move |row: &Row<'_>| human::known_time(of(&row.delay));
    let mut columns: Vec<Column<'static>> = Vec::new();
    if width >= WIDE {
        columns.push(("demand", 8, Box::new(rate(|rates| rates.demand_bps))));
    }
    columns.push((unit, 7, Box::new(rate(|rates| rates.rate_bps))));
    columns.push(("ideal", 7, Box::new(rate(|rates| rates.ideal_bps))));
    if width >= WIDE {
        columns.push(("guarantee", 9, Box::new(move |row| human::digits(row.own_bps as f64 / size))));
    }
    columns.push((
        "of guar.",
        8,
        Box::new(|row| told(row.rates.rate_bps.map(|bps| human::percent(bps / row.own_bps.max(1) as f64)))),
    ));
    columns.push(("p50", 8, Box::new(delay(|delay| delay.p50))));
    columns.push(("p99", 8, Box::new(delay(|delay| delay.p99))));
    if width >= WIDE {
        columns.push(("longest", 8, Box::new(delay(|delay| delay.max))));
        columns.push(("bound", 8, Box::new(|row| told(row.delay_bound_s.map(|bound| human::time(human::up(bound)))))));
    }
    columns.push(("dropped", 7, Box::new(|row| told(row.dropped.map(packets)))));
    columns.push(("queued", 6, Box::new(|row| packets(row.queued))));
    columns.push(match width >= WIDEST {
        true => ("limited by", 16, Box::new(|row| told(row.limit.map(limited_by)))),
        false => ("limit", 9, Box::new(|row| told(row.limit.map(|limit| limit.cause.key().to_owned())))),
    });
    columns
}

/// Returns the limit of a class and how long it has lasted, in 16 columns: the name of the class above it, else the
/// kind of limit.
fn limited_by(limited: &Limit) -> String {
    let by = match (&limited.limited_by, limited.cause) {
        (Some(parent), LimitCause::Parent) => parent,
        (_, cause) => cause.key(),
    };
    let since = human::time(limited.limited_for_s.floor());
    let room = 16_usize.saturating_sub(since.len() + 1);
    format!("{} {since}", cut(by, room))
}

fn told(what: Option<String>) -> String {
    what.unwrap_or_else(|| "-".to_owned())
}

/// A number of packets in six columns.
fn packets(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        1_000_000..1_000_000_000 => format!("{}M", human::digits(number as f64 / 1e6)),
        _ => format!("{}G", human::digits(number as f64 / 1e9)),
    }
}

/// Truncates `text` to this number of columns.
fn cut(text: &str, width: usize) -> String {
    truncate_str(text, width, "…").into_owned()
}

#[cfg(test)]
mod tests;
