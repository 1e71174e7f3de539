//! Plans as link files: class by class, with the classes in tables, and as the HTB that the other tool sets up.

use std::fmt::Write as _;

use csv::WriterBuilder;

use super::plan::{Class, Plan};
use super::{Draft, Tabled};
use crate::fit::{Asked, Fitted, fit};
use crate::toml_text::{DEFAULT_LEAF, comment, line, quoted};
use crate::units::{rate_key, size_key};

/// Minimum number of leaves for tables; fewer are written class by class.
const FEW: usize = 30;

/// Returns the link file and the parents that the guarantees did not fit below.
pub(super) fn link(plan: &Plan, tool: &str, origin: &str, as_is: bool) -> (Draft, Fitted) {
    let asked = |floor: fn(&Class) -> Option<u64>, ceiling: fn(&Class) -> Option<u64>| {
        let one = |class| Asked { parent: class_parent(class), floor: floor(class), ceiling: ceiling(class) };
        plan.classes.iter().map(one).collect::<Vec<_>>()
    };
    let fitted = fit(&asked(|class| class.floor, |class| class.ceiling), plan.rate);
    let head = format!("From {origin} by `fairlink import {tool}`.");
    let before = plan.lending.map(|lending| {
        let lent = fit(&asked(|class| class.before.floor, |class| class.before.ceiling), plan.rate);
        htb(plan, &lent, &format!("{head} {lending}."), as_is)
    });
    let (text, tabled) = match before.clone().filter(|_| as_is) {
        Some(text) => (text, None),
        None => {
            let writer = Writer { plan, fitted: &fitted, head: &head };
            (writer.written_out(), writer.tabled())
        }
    };
    let idle = vec![plan.classes[plan.default].name.clone()];
    (Draft { name: plan.name.clone(), text, tabled, before, idle }, fitted)
}

fn class_parent(class: &Class) -> Option<usize> {
    class.parent
}

struct Writer<'p> {
    plan: &'p Plan,
    fitted: &'p Fitted,
    head: &'p str,
}

impl Writer<'_> {
    fn link(&self, scheduler: &str, text: &mut String) {
        link_table(self.plan, self.head, scheduler, true, text);
    }

    fn written_out(&self) -> String {
        let mut text = String::new();
        self.link("hls", &mut text);
        for (at, inner) in self.plan.inner().into_iter().enumerate() {
            self.class(at, inner, &mut text);
        }
        text
    }

    fn class(&self, at: usize, inner: bool, text: &mut String) {
        let class = &self.plan.classes[at];
        class_head(&class.remark, text);
        line(text, "name", &class.name);
        if let Some(parent) = class.parent {
            line(text, "parent", &self.plan.classes[parent].name);
        }
        if let Some(guarantee) = self.fitted.guarantees[at] {
            line(text, "guarantee", &rate_key(guarantee));
        }
        if let Some(ceiling) = class.ceiling {
            line(text, "ceiling", &rate_key(ceiling));
        }
        if !inner {
            line(text, "queue", queue(class));
        }
        if let Some(per) = class.per {
            line(text, "per", per);
        }
        matches(&class.matches, text);
    }

    /// Writes inner classes in one table and leaves in another, if there are many.
    fn tabled(&self) -> Option<Tabled> {
        let inner = self.plan.inner();
        let leaves = |at: &usize| !inner[*at] && *at != self.plan.default;
        let places: Vec<usize> = (0..self.plan.classes.len()).collect();
        let rows: Vec<usize> = places.iter().copied().filter(leaves).collect();
        if rows.len() < FEW {
            return None;
        }
        let nodes: Vec<usize> = places.into_iter().filter(|&at| inner[at]).collect();
        let mut text = String::new();
        self.link("hls", &mut text);
        let mut tables = Vec::new();
        if !nodes.is_empty() {
            let name = format!("{}-nodes.csv", self.plan.name);
            writeln!(text, "\n[[classes]]               # those that have others below them").expect(WRITING);
            line(&mut text, "from", &name);
            tables.push((name, self.table(&nodes, "")));
        }
        let name = format!("{}.csv", self.plan.name);
        writeln!(text, "\n[[classes]]").expect(WRITING);
        line(&mut text, "from", &name);
        let common = self.common_match(&rows);
        if !common.is_empty() {
            writeln!(text, "match = [{}]", quoted(&format!("{common}{{addresses}}"))).expect(WRITING);
        }
        if let Some(queue) = self.common_queue(&rows) {
            line(&mut text, "queue", queue);
        }
        tables.push((name, self.table(&rows, common)));
        self.class(self.plan.default, false, &mut text);
        Some(Tabled { text, tables })
    }

    /// The common beginning of all matches of the rows, which the section then has.
    fn common_match(&self, rows: &[usize]) -> &'static str {
        let all = |start: &str| {
            let starts = |at: &usize| self.plan.classes[*at].matches.iter().all(|text| text.starts_with(start));
            rows.iter().all(starts) && rows.iter().all(|&at| !self.plan.classes[at].matches.is_empty())
        };
        ["dst net ", "src net "].into_iter().find(|start| all(start)).unwrap_or("")
    }

    /// The queue of all rows, so that the table need not say it.
    fn common_queue(&self, rows: &[usize]) -> Option<&'static str> {
        let mut queues = rows.iter().map(|&at| queue(&self.plan.classes[at]));
        let first = queues.next()?;
        queues.all(|queue| queue == first).then_some(first)
    }

    fn table(&self, rows: &[usize], common: &str) -> String {
        let mut writer = WriterBuilder::new().comment(Some(b'#')).from_writer(Vec::new());
        let nodes = rows.iter().all(|&at| self.plan.classes[at].matches.is_empty());
        let of_matches = match (nodes, common.is_empty()) {
            (true, _) => None,
            (false, true) => Some("match"),
            (false, false) => Some("addresses"),
        };
        let queues = !nodes && self.common_queue(rows).is_none();
        let columns = ["name", "parent", "guarantee", "ceiling"].into_iter();
        let hosts = rows.iter().any(|&at| self.plan.classes[at].per.is_some());
        let columns = columns
            .chain(queues.then_some("queue"))
            .chain(hosts.then_some("per"))
            .chain(of_matches)
            .chain(["original"]);
        writer.write_record(columns).expect(WRITING);
        for &at in rows {
            let class = &self.plan.classes[at];
            let parent = class.parent.map_or("", |parent| self.plan.classes[parent].name.as_str());
            let mut fields = vec![class.name.clone(), parent.to_owned()];
            fields.push(self.fitted.guarantees[at].map(rate_key).unwrap_or_default());
            fields.push(class.ceiling.map(rate_key).unwrap_or_default());
            if queues {
                fields.push(queue(class).to_owned());
            }
            if hosts {
                fields.push(class.per.unwrap_or_default().to_owned());
            }
            if of_matches.is_some() {
                let parts: Vec<&str> = class.matches.iter().map(|text| &text[common.len()..]).collect();
                fields.push(parts.join(";"));
            }
            fields.push(plain(&class.remark));
            writer.write_record(&fields).expect(WRITING);
        }
        let bytes = writer.into_inner().expect(WRITING);
        String::from_utf8(bytes).expect("made of texts")
    }
}

/// The queue of a leaf: the tool's own choice, else one in which connections do not wait for each other.
fn queue(class: &Class) -> &'static str {
    class.queue.unwrap_or(DEFAULT_LEAF)
}

const WRITING: &str = "writing to memory does not fail";

fn link_table(plan: &Plan, head: &str, scheduler: &str, with_default: bool, text: &mut String) {
    text.push_str(&comment(head));
    text.push_str("[link]\n");
    let rate = format!("rate = {}", quoted(&rate_key(plan.rate)));
    writeln!(text, "{rate:<26}# {}", plain(&plan.rate_why)).expect(WRITING);
    line(text, "scheduler", scheduler);
    let mtu = format!("mtu = \"{}B\"", plan.mtu);
    writeln!(text, "{mtu:<26}# a frame with its Ethernet header").expect(WRITING);
    if with_default {
        line(text, "default", &plan.classes[plan.default].name);
    }
}

fn class_head(remark: &str, text: &mut String) {
    text.push('\n');
    match plain(remark) {
        remark if remark.is_empty() => text.push_str("[[class]]\n"),
        remark => writeln!(text, "{:<26}# {remark}", "[[class]]").expect(WRITING),
    }
}

/// On one line, as comments and tables need it.
fn plain(text: &str) -> String {
    text.split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn matches(matches: &[String], text: &mut String) {
    let matches: Vec<String> = matches.iter().map(|text| quoted(text)).collect();
    if !matches.is_empty() {
        writeln!(text, "match = [{}]", matches.join(", ")).expect(WRITING);
    }
}

/// Writes the HTB of the other tool. Matches are omitted if only the simulator reads it.
fn htb(plan: &Plan, lent: &Fitted, head: &str, with_frames: bool) -> String {
    let inner = plan.inner();
    let mut text = String::new();
    link_table(plan, head, "htb", with_frames, &mut text);
    for (at, class) in plan.classes.iter().enumerate() {
        class_head(if with_frames { &class.remark } else { "" }, &mut text);
        line(&mut text, "name", &class.name);
        if let Some(parent) = class.parent {
            line(&mut text, "parent", &plan.classes[parent].name);
        }
        if let Some(guarantee) = lent.guarantees[at] {
            line(&mut text, "guarantee", &rate_key(guarantee));
        }
        if let Some(ceiling) = class.before.ceiling {
            line(&mut text, "ceiling", &rate_key(ceiling));
        }
        for (key, size) in [("burst", class.before.burst), ("ceiling_burst", class.before.ceiling_burst)] {
            if let Some(size) = size {
                line(&mut text, key, &size_key(size));
            }
        }
        if !inner[at] {
            writeln!(text, "priority = {}", class.before.priority).expect(WRITING);
            if let Some(quantum) = class.before.quantum {
                line(&mut text, "quantum", &size_key(quantum));
            }
            if with_frames {
                if let Some(queue) = class.queue {
                    line(&mut text, "queue", queue);
                }
                matches(&class.matches, &mut text);
            }
        }
    }
    text
}
