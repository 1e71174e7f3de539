//! `[[expect]]` of a scenario file: expectations about its runs.

use fairlink_core::{Nanos, Rate, SchedulerInfo};

use crate::link::scheduler_named;
use crate::names::UnknownClass;
use crate::problem::{Log, ProblemKind};
use crate::reader::{Table, Value};

const PLACE: &str = "[[expect]]";
pub(super) const KEYS: [&str; 8] = ["class", "value", "at", "scheduler", "at_least", "at_most", "equals", "within"];
/// Most expectations of a scenario.
pub const MAX_EXPECTATIONS: usize = 10_000;

/// A quantity that runs measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Mean rate in bit/s: after the warmup, or in a phase without its first half second.
    Rate,
    /// Relative deviation of the rate from the scheduler's ideal. In a phase.
    OffBy,
    /// Mean delay in seconds.
    DelayMean,
    /// Median of the delay.
    DelayP50,
    /// 99th percentile of the delay.
    DelayP99,
    /// 99.9th percentile of the delay.
    DelayP999,
    /// Longest delay.
    DelayMax,
    /// Dropped packets as a part of the offered ones.
    Loss,
    /// Dropped packets.
    Dropped,
    /// Packets that the link sent.
    Sent,
    /// The part of the time in which the link sends.
    Utilisation,
}

/// The unit in which a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// bit/s.
    Rate,
    /// Seconds.
    Time,
    /// A part of a whole.
    Part,
    /// Packets.
    Packets,
}

impl Quantity {
    /// Names in files.
    pub(super) const NAMES: [(&'static str, Self); 11] = [
        ("rate", Self::Rate),
        ("off_by", Self::OffBy),
        ("delay_mean", Self::DelayMean),
        ("delay_p50", Self::DelayP50),
        ("delay_p99", Self::DelayP99),
        ("delay_p999", Self::DelayP999),
        ("delay_max", Self::DelayMax),
        ("loss", Self::Loss),
        ("dropped", Self::Dropped),
        ("sent", Self::Sent),
        ("utilisation", Self::Utilisation),
    ];

    /// Its name in files.
    #[must_use]
    pub fn key(self) -> &'static str {
        Self::NAMES.iter().find(|&&(_, quantity)| quantity == self).map_or("", |&(name, _)| name)
    }

    /// Its unit.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Rate => Unit::Rate,
            Self::DelayMean | Self::DelayP50 | Self::DelayP99 | Self::DelayP999 | Self::DelayMax => Unit::Time,
            Self::OffBy | Self::Loss | Self::Utilisation => Unit::Part,
            Self::Dropped | Self::Sent => Unit::Packets,
        }
    }

    /// Returns true if inner classes have it, too.
    const fn is_of_inner_classes(self) -> bool {
        matches!(self, Self::Rate | Self::OffBy)
    }
}

/// An expectation about a run.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The class, `LINK:CLASS` for one of a peer; `None` for [`Quantity::Utilisation`], which is the link's.
    pub class: Option<String>,
    /// Measured quantity.
    pub quantity: Quantity,
    /// A time in the phase that is meant; without one the whole run.
    pub at: Option<Nanos>,
    /// Scheduler of the runs; all runs without one.
    pub scheduler: Option<&'static SchedulerInfo>,
    /// The least that is right, in the quantity's unit.
    pub at_least: Option<f64>,
    /// The most that is right.
    pub at_most: Option<f64>,
    /// Its line in the file, from 1.
    pub line: usize,
}

/// The names that an expectation may have.
pub(super) struct Known<'a> {
    /// Leaves of the scenario's link, of those that changes bring, and of peers.
    pub(super) leaves: Vec<String>,
    /// Classes with children, alike.
    pub(super) inner: Vec<String>,
    /// The rate of the link.
    pub(super) link: Rate,
    pub(super) duration: Option<Nanos>,
    pub(super) text: &'a str,
}

/// Reads all valid expectations.
pub(super) fn expectations(document: &Table<'_, '_>, known: &Known<'_>, log: &mut Log) -> Vec<Expectation> {
    const EXPECTED: &str = "a table for each expectation: [[expect]], in double brackets";
    let Some(value) = document.get("expect") else { return Vec::new() };
    let tables = value.list(EXPECTED, log).unwrap_or_default();
    if tables.len() > MAX_EXPECTATIONS {
        let why = format!("is given {} times; the limit is {MAX_EXPECTATIONS}", tables.len());
        let kind = ProblemKind::Misplaced { key: "expect", why, help: "remove some" };
        log.error(document.key_span("expect"), kind);
        return Vec::new();
    }
    let tables = tables.into_iter().filter_map(|value| Some((value, value.table(PLACE, EXPECTED, log)?)));
    let tables: Vec<_> = tables.collect();
    tables.into_iter().filter_map(|(value, table)| expectation(value, &table, known, log)).collect()
}

fn expectation(value: Value<'_, '_>, table: &Table<'_, '_>, known: &Known<'_>, log: &mut Log) -> Option<Expectation> {
    table.only(&KEYS, log);
    let quantity = table.need("value", "value = \"delay_max\"", log)?.word("quantity", &Quantity::NAMES, log);
    let class = table.get("class").map(|value| class(value, quantity, known, log));
    let scheduler = table.get("scheduler").map(|value| {
        let name = value.string("the name of a scheduler in quotes", log)?;
        scheduler_named(name).map_err(|kind| log.error(value.span(), kind)).ok()
    });
    let at = table.get("at").map(|value| {
        let at = value.time(log)?;
        match known.duration {
            Some(duration) if at >= duration => {
                log.error(value.span(), ProblemKind::BeyondEnd { time: at, duration });
                None
            }
            _ => Some(at),
        }
    });
    let quantity = quantity?;
    let (class, scheduler, at) = (none_or(class)?, none_or(scheduler)?, none_or(at)?);
    let misplaced = |key: &'static str, why: &str, help: &'static str, log: &mut Log| {
        log.error(table.key_span(key), ProblemKind::Misplaced { key, why: why.to_owned(), help });
    };
    match (quantity, &class, at) {
        (Quantity::Utilisation, Some(_), _) => {
            misplaced("class", "does not apply to \"utilisation\", which is of the link", "remove it", log);
        }
        (Quantity::Utilisation, None, _) => {}
        (_, None, _) => {
            table.need("class", "class = \"voice\"", log);
            return None;
        }
        (Quantity::OffBy, _, None) => {
            table.need("at", "at = \"3s\", a time in the phase to compare with", log);
        }
        (Quantity::Rate | Quantity::OffBy, ..) => {}
        (_, _, Some(_)) => {
            let why = "does not apply to this value, which is measured over the whole run";
            misplaced("at", why, "remove it, or expect a rate", log);
        }
        _ => {}
    }
    let mut bound = |key: &str| table.get(key).map(|value| amount(value, quantity, known.link, log));
    let (at_least, at_most, equals) = (bound("at_least"), bound("at_most"), bound("equals"));
    let within = table.get("within").map(|value| part(value, log));
    let (mut at_least, mut at_most) = (none_or(at_least)?, none_or(at_most)?);
    let (equals, within) = (none_or(equals)?, none_or(within)?);
    match (equals, within) {
        (Some(equals), within) => {
            if at_least.is_some() || at_most.is_some() {
                misplaced("equals", "excludes at_least and at_most", "write either it, or at_least and at_most", log);
            }
            let off = equals * within.unwrap_or(0.0);
            (at_least, at_most) = (Some(equals - off), Some(equals + off));
        }
        (None, Some(_)) => misplaced("within", "is the tolerance of equals, which is missing", "add equals", log),
        (None, None) if at_least.is_none() && at_most.is_none() => {
            table.need("at_most", "at_most, at_least or equals", log);
        }
        (None, None) => {}
    }
    if let (Some(least), Some(most)) = (at_least, at_most)
        && least > most
    {
        misplaced("at_least", "exceeds at_most", "exchange them", log);
    }
    let line = 1 + known.text[..value.span().start.min(known.text.len())].matches('\n').count();
    Some(Expectation { class, quantity, at, scheduler, at_least, at_most, line })
}

/// Returns `None` if a value is present and invalid, which has been reported.
#[expect(clippy::option_option, reason = "absent, wrong, right")]
fn none_or<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        None => Some(None),
        Some(None) => None,
        Some(right) => Some(right),
    }
}

fn class(value: Value<'_, '_>, quantity: Option<Quantity>, known: &Known<'_>, log: &mut Log) -> Option<String> {
    let name = value.string("the name of a class in quotes", log)?;
    if known.leaves.iter().any(|leaf| leaf == name) {
        return Some(name.to_owned());
    }
    if known.inner.iter().any(|class| class == name) {
        if quantity.is_none_or(Quantity::is_of_inner_classes) {
            return Some(name.to_owned());
        }
        let why = format!("names {name}, an inner class, of which only rates are measured");
        log.error(value.span(), ProblemKind::Misplaced { key: "class", why, help: "name a leaf below it" });
        return None;
    }
    let all = known.leaves.iter().chain(&known.inner).map(String::as_str);
    let all: Vec<&str> = all.collect();
    let UnknownClass { name, suggestion, .. } = UnknownClass::among(name, all.iter().copied());
    log.error(value.span(), ProblemKind::UnknownClass { name, suggestion });
    None
}

/// A value of the quantity, in its unit.
fn amount(value: Value<'_, '_>, quantity: Quantity, link: Rate, log: &mut Log) -> Option<f64> {
    match quantity.unit() {
        Unit::Rate => {
            let is_nothing = value.value.get_ref().as_str().is_some_and(|text| ["0", "0bit"].contains(&text.trim()));
            if is_nothing { Some(0.0) } else { value.rate(Some(link), log).map(|rate| rate.bps() as f64) }
        }
        Unit::Time => value.time(log).map(|time| time.0 as f64 / 1e9),
        Unit::Part => part(value, log),
        Unit::Packets => value.integer(0, 1 << 53, log).map(|packets| packets as f64),
    }
}

/// A part of a whole, such as `"1%"`.
fn part(value: Value<'_, '_>, log: &mut Log) -> Option<f64> {
    let text = value.string("a part such as \"1%\", in quotes", log)?;
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let part = number.filter(|number| number.is_finite() && *number >= 0.0).map(|number| number / 100.0);
    if part.is_none() {
        let message =
            format!("\"{}\" is \"{text}\"; write a part of at least 0, such as \"1%\" or \"0.5%\"", value.key);
        log.error(value.span(), ProblemKind::Refused { message });
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::ReadOptions;
    use crate::scenario::Scenario;

    const SCENARIO: &str = r#"duration = "10s"
[link]
rate = "100mbit"
[[class]]
name = "A"
guarantee = "60mbit"
[[class]]
name = "A1"
parent = "A"
[[class]]
name = "B"
guarantee = "40mbit"
[[source]]
class = "A1"
model = "cbr"
rate = "10mbit"
packet = "1000B"
"#;

    fn read(expectation: &str) -> Result<Vec<Expectation>, String> {
        let text = format!("{SCENARIO}[[expect]]\n{expectation}\n");
        let scenario = Scenario::parse("a.toml", text, &ReadOptions::default());
        scenario.map(|scenario| scenario.expectations).map_err(|problems| problems.lines())
    }

    #[test]
    fn values_are_read_in_their_units() {
        for (text, quantity, least, most) in [
            ("class = \"A1\"\nvalue = \"rate\"\nat_least = \"9mbit\"", Quantity::Rate, Some(9e6), None),
            ("class = \"A\"\nvalue = \"rate\"\nat_most = \"10%\"", Quantity::Rate, None, Some(1e7)),
            ("class = \"B\"\nvalue = \"rate\"\nequals = \"0bit\"", Quantity::Rate, Some(0.0), Some(0.0)),
            ("class = \"A1\"\nvalue = \"delay_max\"\nat_most = \"5ms\"", Quantity::DelayMax, None, Some(0.005)),
            ("class = \"A1\"\nvalue = \"loss\"\nat_most = \"0.5%\"", Quantity::Loss, None, Some(0.005)),
            ("class = \"A1\"\nvalue = \"sent\"\nat_least = 7\nat_most = 9", Quantity::Sent, Some(7.0), Some(9.0)),
            ("value = \"utilisation\"\nat_least = \"50 %\"", Quantity::Utilisation, Some(0.5), None),
        ] {
            let read = read(text).unwrap();
            let [one] = &read[..] else { panic!("{read:?}") };
            assert_eq!((one.quantity, one.at_least, one.at_most, one.line), (quantity, least, most, 18), "{text}");
        }
        let near = read(
            "class = \"A1\"\nvalue = \"rate\"\nequals = \"10mbit\"\nwithin = \"1%\"\nat = \"3s\"\nscheduler = \"htb\"",
        );
        let near = near.unwrap().remove(0);
        assert_eq!((near.at_least, near.at_most, near.at), (Some(9.9e6), Some(10.1e6), Some(Nanos(3_000_000_000))));
        assert_eq!(near.scheduler.map(|scheduler| scheduler.name), Some("htb"));
    }

    #[test]
    fn what_is_wrong_is_said_at_its_place() {
        for (text, says) in [
            ("class = \"A2\"\nvalue = \"rate\"\nat_least = \"9mbit\"", "there is no class \"A2\""),
            ("class = \"A\"\nvalue = \"delay_max\"\nat_most = \"9ms\"", "an inner class"),
            ("class = \"A1\"\nvalue = \"delay\"\nat_most = \"9ms\"", "there is no quantity \"delay\""),
            ("class = \"A1\"\nvalue = \"delay_max\"\nat_most = 9", "at_most"),
            ("class = \"A1\"\nvalue = \"delay_max\"\nat_most = \"9ms\"\nat = \"2s\"", "over the whole run"),
            ("class = \"A1\"\nvalue = \"rate\"\nat_most = \"9mbit\"\nat = \"10s\"", "10 s"),
            ("class = \"A1\"\nvalue = \"off_by\"\nat_most = \"1%\"", "at = \"3s\""),
            ("class = \"A1\"\nvalue = \"loss\"\nat_most = \"-1%\"", "write a part of at least 0"),
            ("class = \"A1\"\nvalue = \"loss\"", "at_most, at_least or equals"),
            ("class = \"A1\"\nvalue = \"rate\"\nat_least = \"2mbit\"\nat_most = \"1mbit\"", "exceeds at_most"),
            ("class = \"A1\"\nvalue = \"rate\"\nequals = \"2mbit\"\nat_most = \"3mbit\"", "excludes at_least"),
            ("class = \"A1\"\nvalue = \"rate\"\nat_most = \"3mbit\"\nwithin = \"1%\"", "add equals"),
            ("class = \"A1\"\nvalue = \"utilisation\"\nat_most = \"3%\"", "which is of the link"),
            ("value = \"rate\"\nat_most = \"3mbit\"", "class = \"voice\""),
            ("class = \"A1\"\nvalue = \"rate\"\nat_most = \"3mbit\"\nscheduler = \"htp\"", "htp"),
            ("class = \"A1\"\nvalue = \"rate\"\natmost = \"3mbit\"", "atmost"),
        ] {
            let lines = read(text).unwrap_err();
            assert!(
                lines.contains(says)
                    && ["a.toml:18", "a.toml:19", "a.toml:2"].iter().any(|place| lines.contains(place)),
                "{text}: {lines}"
            );
        }
    }
}
