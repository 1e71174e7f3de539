//! One table of all measures of a class and a link: key, unit, kind, meaning, and value. It makes the metrics of the gateway, columns on
//! terminals, and the table in `docs/measuring.md`.

use fairlink_core::Amount;

use crate::counts::Counts;
use crate::span::Rates;
use crate::terms::Terms;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// The key in JSON without its unit, and the name in metrics.
    pub key: &'static str,
    /// The object of a report that has it in JSON.
    pub object: &'static str,
    /// The unit.
    pub unit: Unit,
    /// True if tables of classes on a terminal have a column of it.
    pub column: bool,
    /// The kind of the metric.
    pub kind: Kind,
    /// True if the link has it, too, and not only its classes.
    pub of_link: bool,
    /// The meaning, for people.
    pub help: &'static str,
    /// Returns the value; `None` if it is unknown or absent.
    pub get: fn(&Measured<'_>) -> Option<Value>,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It grows and shrinks.
    Gauge,
}

/// The unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets and accounted bytes: two metrics.
    Amount,
    /// Bit/s of accounted bytes.
    BitsPerSecond,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// Returns the ends of the names of its metrics, after `_`.
    #[must_use]
    pub const fn metrics(self) -> &'static [&'static str] {
        match self {
            Self::Amount => &["bytes", "packets"],
            Self::BitsPerSecond => &["bits_per_second"],
            Self::Seconds => &["seconds"],
        }
    }

    /// Returns the end of the key in JSON.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Amount => "",
            Self::BitsPerSecond => "_bps",
            Self::Seconds => "_s",
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Packets and bytes.
    Amount(Amount),
    /// A number in the unit of the measure.
    Number(f64),
}

impl Value {
    /// Returns the whole number for the metric of a counter whose name ends in `metric`.
    #[must_use]
    pub fn count(self, metric: &str) -> u64 {
        match self {
            Self::Amount(amount) if metric == "packets" => amount.packets,
            Self::Amount(amount) => amount.bytes,
            Self::Number(number) => number as u64,
        }
    }

    /// Returns the number for the metric whose name ends in `metric`, one of [`Unit::metrics`].
    #[must_use]
    pub fn number(self, metric: &str) -> f64 {
        match self {
            Self::Amount(amount) if metric == "packets" => amount.packets as f64,
            Self::Amount(amount) => amount.bytes as f64,
            Self::Number(number) => number,
        }
    }
}

/// The sources of a measure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured<'a> {
    /// Packets and bytes.
    pub counts: Option<&'a Counts>,
    /// Rates.
    pub rates: Option<&'a Rates>,
    /// Configured terms.
    pub terms: Option<&'a Terms>,
    /// Bound on the delay.
    pub delay_bound_s: Option<f64>,
}

macro_rules! amount {
    ($key:literal, $kind:ident, $column:literal, $help:literal, $field:ident) => {
        Measure {
            key: $key,
            object: "counts",
            unit: Unit::Amount,
            column: $column,
            kind: Kind::$kind,
            of_link: true,
            help: $help,
            get: |measured| measured.counts.map(|counts| Value::Amount(counts.$field)),
        }
    };
}

macro_rules! gauge {
    ($object:literal, $key:literal, $unit:ident, $of_link:literal, $help:literal, $get:expr) => {
        Measure {
            key: $key,
            object: $object,
            unit: Unit::$unit,
            column: false,
            kind: Kind::Gauge,
            of_link: $of_link,
            help: $help,
            get: $get,
        }
    };
}

/// Returns a number as a value.
fn number(number: Option<f64>) -> Option<Value> {
    number.map(Value::Number)
}

/// All measures, in the order in which they are shown. Delays (a histogram), drops by cause and limits have labels or buckets of their own, and are
/// written beside the table.
pub static MEASURES: &[Measure] = &[
    amount!("received", Counter, true, "Arrived", received),
    amount!("sent", Counter, true, "Sent", sent),
    amount!("dropped", Counter, true, "Dropped; of a class for each cause that has occurred", dropped),
    amount!("marked", Counter, false, "Marked as having met congestion", marked),
    amount!("queued", Gauge, true, "Queued", queued),
    gauge!("rates", "demand", BitsPerSecond, true, "Waited or arrived, in an interval", |measured| {
        number(measured.rates?.demand_bps)
    }),
    gauge!("rates", "rate", BitsPerSecond, true, "Sent, in an interval", |measured| number(measured.rates?.rate_bps)),
    gauge!(
        "rates",
        "ideal",
        BitsPerSecond,
        true,
        "Rate by the scheduler's own rule for the demand in the same time, where it is computed",
        |measured| number(measured.rates?.ideal_bps)
    ),
    gauge!(
        "terms",
        "guarantee",
        BitsPerSecond,
        false,
        "Guarantee; in metrics the share while all are busy where there is none",
        |measured| number(Some(measured.terms?.own_bps() as f64))
    ),
    gauge!("terms", "ceiling", BitsPerSecond, false, "Ceiling, where the class has one", |measured| {
        number(Some(measured.terms?.ceiling_bps? as f64))
    }),
    gauge!(
        "bounds",
        "delay_bound",
        Seconds,
        false,
        "Longest delay of a packet, for the traffic that `fairlink check` prints",
        |measured| number(measured.delay_bound_s)
    ),
];

/// Iterates over the columns that tables of classes on a terminal have, in their order.
pub fn columns() -> impl Iterator<Item = &'static Measure> {
    MEASURES.iter().filter(|measure| measure.column)
}

/// Returns the row with this key.
#[must_use]
pub fn measure(key: &str) -> Option<&'static Measure> {
    MEASURES.iter().find(|measure| measure.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a row of the manual.
    fn row(measure: &Measure) -> String {
        let unit = measure.unit;
        let metrics = match unit.metrics() {
            [one] => (*one).to_owned(),
            several => format!("{{{}}}", several.join(",")),
        };
        let total = if measure.kind == Kind::Counter { "_total" } else { "" };
        let of = if measure.of_link { "link, class" } else { "class" };
        let levels = if measure.of_link { "{link,class}" } else { "class" };
        format!(
            "| `{}.{}{}` | `fairlink_{levels}_{}_{metrics}{total}` | {of} | {} |",
            measure.object,
            measure.key,
            unit.key(),
            measure.key,
            measure.help
        )
    }

    #[test]
    fn the_manual_has_the_table() {
        let manual = include_str!("../../../docs/measuring.md");
        let rows: Vec<String> = MEASURES.iter().map(row).collect();
        assert!(manual.contains(&rows.join("\n")), "docs/measuring.md is to have:\n{}", rows.join("\n"));
    }

    #[test]
    fn each_measure_is_found_by_its_key_and_a_key_in_json_is_that_of_a_report() {
        let counts = serde_json::to_value(Counts::default()).unwrap();
        for measure in MEASURES {
            assert_eq!(super::measure(measure.key).map(|found| found.key), Some(measure.key));
            assert!(measure.object != "counts" || counts.get(measure.key).is_some(), "{}", measure.key);
        }
        let (rates, terms) = (Rates { rate_bps: Some(1.5), ..Rates::default() }, Terms::default());
        let measured = Measured { rates: Some(&rates), terms: Some(&terms), ..Measured::default() };
        let value = |key: &str| (super::measure(key).unwrap().get)(&measured);
        assert_eq!(value("rate"), Some(Value::Number(1.5)));
        assert_eq!([value("ideal"), value("ceiling"), value("sent")], [None; 3]);
        let amount = Value::Amount(Amount { packets: 3, bytes: 1 << 60 });
        assert_eq!([amount.count("packets"), amount.count("bytes")], [3, 1 << 60]);
    }
}
