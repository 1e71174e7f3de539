//! The rows of a campaign: one for each class of each job, in base units.

use std::fmt::Write as _;

use fairlink_api::{Grid, SweptKey};
use fairlink_report::{ClassReport, MEASURES, Measured, Unit, Value};
use fairlink_sim::{Run, Setting};

/// The type of a column. Every column may have empty cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers from 0.
    Whole,
    /// Numbers.
    Number,
    /// `true` or `false`.
    Flag,
    /// Texts.
    Text,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, which ends in its unit: `_bps`, `_s`, `_bytes`, `_packets`.
    pub name: String,
    /// Its type.
    pub kind: Kind,
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Not known, or nothing of the kind.
    Empty,
    /// Of [`Kind::Whole`].
    Whole(u64),
    /// Of [`Kind::Number`].
    Number(f64),
    /// Of [`Kind::Flag`].
    Flag(bool),
    /// Of [`Kind::Text`].
    Text(String),
}

impl Cell {
    fn number(number: Option<f64>) -> Self {
        number.map_or(Self::Empty, Self::Number)
    }

    /// Appends it as a field of a line of CSV. Numbers have as many digits as another program needs to read the same one.
    fn write(&self, line: &mut String) {
        let _ = match self {
            Self::Empty => Ok(()),
            Self::Whole(number) => write!(line, "{number}"),
            Self::Number(number) => write!(line, "{number:?}"),
            Self::Flag(flag) => write!(line, "{flag}"),
            Self::Text(text) => write!(line, "{}", field(text)),
        };
    }
}

/// A text as a field of CSV. An empty text is quoted, so that it differs from an empty cell.
fn field(text: &str) -> String {
    match text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Returns a row as a line of CSV, with its end.
pub(crate) fn line(row: &[Cell]) -> String {
    let mut line = String::new();
    for (place, cell) in row.iter().enumerate() {
        if place > 0 {
            line.push(',');
        }
        cell.write(&mut line);
    }
    line.push('\n');
    line
}

/// Returns the names of columns as a line of CSV.
pub(crate) fn head(columns: &[Column]) -> String {
    let names: Vec<String> = columns.iter().map(|column| field(&column.name)).collect();
    names.join(",") + "\n"
}

/// Statistics of a delay, as columns behind `delay_`.
const DELAYS: [&str; 5] = ["mean_s", "p50_s", "p99_s", "p999_s", "max_s"];

/// Returns the columns of a campaign over `grid`.
pub(crate) fn columns(grid: &Grid) -> Vec<Column> {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    let mut columns = vec![column("job", Kind::Whole), column("scheduler", Kind::Text), column("seed", Kind::Whole)];
    for (SweptKey { name, quantity }, values) in grid.keys().iter().zip(grid.values()) {
        let kind = match values {
            values if values.iter().all(|value| matches!(value, Setting::Whole(_))) => Kind::Whole,
            values if values.iter().all(|value| value.number().is_some()) => Kind::Number,
            _ => Kind::Text,
        };
        columns.push(Column { name: format!("set.{name}{}", quantity.suffix()), kind });
    }
    columns.extend([
        column("duration_s", Kind::Number),
        column("warmup_s", Kind::Number),
        column("link_bps", Kind::Number),
        column("link_utilisation", Kind::Number),
        column("class", Kind::Text),
        column("parent", Kind::Text),
        column("leaf", Kind::Flag),
    ]);
    for measure in MEASURES.iter().filter(|measure| is_measured(measure.object)) {
        match measure.unit {
            Unit::Amount => {
                columns.extend(["packets", "bytes"].map(|unit| column(&format!("{}_{unit}", measure.key), Kind::Whole)))
            }
            unit => columns.push(column(&format!("{}{}", measure.key, unit.key()), Kind::Number)),
        }
    }
    columns.push(column("delay_packets", Kind::Whole));
    columns.extend(DELAYS.map(|end| column(&format!("delay_{end}"), Kind::Number)));
    columns.push(column("error", Kind::Text));
    columns
}

/// Measures of a run: those of objects that a simulation has.
fn is_measured(object: &str) -> bool {
    matches!(object, "counts" | "rates" | "terms")
}

/// A job, as its rows name it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) job: u64,
    /// `None` if the scenario could not be read, which names it.
    pub(crate) scheduler: Option<String>,
    pub(crate) seed: Option<u64>,
    /// Values of the swept keys, in their order.
    pub(crate) set: Vec<Setting>,
}

impl Named {
    /// The beginning of its rows.
    fn cells(&self, columns: &[Column]) -> Vec<Cell> {
        let mut row = Vec::with_capacity(columns.len());
        row.push(Cell::Whole(self.job));
        row.push(self.scheduler.clone().map_or(Cell::Empty, Cell::Text));
        row.push(self.seed.map_or(Cell::Empty, Cell::Whole));
        for value in &self.set {
            row.push(match (columns[row.len()].kind, value) {
                (Kind::Whole, Setting::Whole(whole)) => Cell::Whole(*whole),
                (Kind::Number, value) => Cell::number(value.number()),
                (_, Setting::Whole(whole)) => Cell::Text(whole.to_string()),
                (_, Setting::Number(number)) => Cell::Text(number.to_string()),
                (_, Setting::Text(text)) => Cell::Text(text.clone()),
            });
        }
        row
    }
}

/// Returns the rows of a job.
pub(crate) fn rows(named: &Named, run: &Run, columns: &[Column]) -> Vec<Vec<Cell>> {
    let mut begin = named.cells(columns);
    begin.extend([run.duration_s, run.warmup_s, run.link_bps, run.link_utilisation].map(Cell::Number));
    // In the order of the document of the run.
    run.document(false).link.classes.iter().map(|class| of_class(begin.clone(), class)).collect()
}

/// Returns the row of a job that failed for this reason.
pub(crate) fn failed(named: &Named, why: &str, columns: &[Column]) -> Vec<Cell> {
    let mut row = named.cells(columns);
    row.resize(columns.len() - 1, Cell::Empty);
    // A row is a line.
    row.push(Cell::Text(why.lines().map(str::trim).collect::<Vec<_>>().join("; ")));
    row
}

fn of_class(mut row: Vec<Cell>, class: &ClassReport) -> Vec<Cell> {
    row.push(Cell::Text(class.name.clone()));
    row.push(class.parent.clone().map_or(Cell::Empty, Cell::Text));
    row.push(Cell::Flag(class.leaf));
    let measured = Measured {
        counts: class.counts.as_ref(),
        rates: Some(&class.rates),
        terms: class.terms.as_ref(),
        delay_bound_s: None,
    };
    for measure in MEASURES.iter().filter(|measure| is_measured(measure.object)) {
        match (measure.unit, (measure.get)(&measured)) {
            (Unit::Amount, Some(Value::Amount(amount))) => {
                row.extend([Cell::Whole(amount.packets), Cell::Whole(amount.bytes)]);
            }
            (Unit::Amount, _) => row.extend([Cell::Empty, Cell::Empty]),
            (_, Some(Value::Number(number))) => row.push(Cell::Number(number)),
            (_, _) => row.push(Cell::Empty),
        }
    }
    let delay = class.delay_s.unwrap_or_default();
    row.push(class.delay_s.map_or(Cell::Empty, |delay| Cell::Whole(delay.packets)));
    row.extend([delay.mean, delay.p50, delay.p99, delay.p999, delay.max].map(Cell::number));
    row.push(Cell::Empty);
    row
}
