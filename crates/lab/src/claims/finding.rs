//! The finding on a claim: quantities beside the paper's, tables, figures, and commands to repeat it.

use std::borrow::Cow;

use fairlink_sim::statistics::Estimate;
use schemars::JsonSchema;
use serde::Serialize;

use fairlink_figures::figure::Figure;
use fairlink_figures::human;

/// The unit of a number. JSON has it in the base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bits per second.
    #[serde(rename = "bit/s")]
    Rate,
    /// Packets.
    #[serde(rename = "packets")]
    Packets,
    /// A part of something: 0.02 is 2 %.
    #[serde(rename = "part")]
    Part,
    /// A number of times: one quantity over another.
    #[serde(rename = "times")]
    Times,
    /// A number of things.
    #[serde(rename = "count")]
    Count,
    /// A number without unit.
    #[serde(rename = "")]
    Number,
}

impl Unit {
    /// Formats a value for readers.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Bytes => human::bytes(value),
            Self::Seconds => human::time(value),
            Self::Rate => human::rate(value),
            Self::Packets => format!("{} packets", human::digits(value)),
            Self::Part => human::percent(value),
            Self::Times => format!("{} times", human::digits(value)),
            Self::Count | Self::Number => human::digits(value),
        }
    }
}

/// The result for one quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The number, or the mean of several runs.
    pub mean: f64,
    /// The ends of the 95 % confidence interval by Student's t, of several runs.
    pub interval: Option<(f64, f64)>,
}

impl Value {
    /// Returns the value that `change`, which never decreases or never increases, makes of this one and of its
    /// interval: `f64::exp` for a mean of logarithms.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        let ordered = |(low, high): (f64, f64)| {
            let (one, other) = (change(low), change(high));
            (one.min(other), one.max(other))
        };
        Self { mean: change(self.mean), interval: self.interval.map(ordered) }
    }

    /// Returns half of the width of the interval.
    #[must_use]
    pub fn ci95(self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / 2.0)
    }
}

impl From<f64> for Value {
    fn from(mean: f64) -> Self {
        Self { mean, interval: None }
    }
}

impl From<Estimate> for Value {
    fn from(Estimate { mean, ci95, .. }: Estimate) -> Self {
        Self { mean, interval: ci95.map(|width| (mean - width, mean + width)) }
    }
}

/// A paper's statement on a quantity, and the accepted deviation: the criterion of a row. Our confidence interval does
/// not widen it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// This value, within a part of it: 0.05 for 5 %.
    Near(f64, f64),
    /// This value, within a tolerance in the same unit.
    Within(f64, f64),
    /// From the first to the second.
    Between(f64, f64),
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// The paper gives this value, but does not claim it for our case: ours is shown beside it unjudged.
    Beside(f64),
    /// The paper gives no value: ours is shown unjudged.
    Nothing,
}

impl Expected {
    /// Returns true if `value` is as expected; `None` if it is not judged. NaN is never accepted.
    #[must_use]
    pub fn accepts(self, value: f64) -> Option<bool> {
        // A last digit of a float is not a disagreement.
        let slack = |bound: f64| 1e-12 * bound.abs();
        match self {
            Self::Near(paper, part) => Some((value - paper).abs() <= part * paper.abs() + slack(paper)),
            Self::Within(paper, most) => Some((value - paper).abs() <= most + slack(paper)),
            Self::Between(low, high) => Some(value >= low - slack(low) && value <= high + slack(high)),
            Self::AtMost(bound) => Some(value <= bound + slack(bound)),
            Self::AtLeast(bound) => Some(value >= bound - slack(bound)),
            Self::Beside(_) | Self::Nothing => None,
        }
    }

    /// Returns the number that the paper gives, if any.
    #[must_use]
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Near(value, _) | Self::Within(value, _) | Self::Beside(value) => Some(value),
            Self::AtMost(value) | Self::AtLeast(value) => Some(value),
            Self::Between(..) | Self::Nothing => None,
        }
    }

    /// Formats the value, such as `103.5 B +-2 %`.
    #[must_use]
    pub fn show(self, unit: Unit) -> String {
        let show = |value| unit.show(value);
        match self {
            Self::Near(value, 0.0) | Self::Within(value, 0.0) | Self::Beside(value) => show(value),
            Self::Near(value, part) => format!("{} ±{}", show(value), human::percent(part)),
            Self::Within(value, most) => format!("{} ±{}", show(value), show(most)),
            Self::Between(low, high) => format!("{} to {}", show(low), show(high)),
            Self::AtMost(bound) => format!("at most {}", show(bound)),
            Self::AtLeast(bound) => format!("at least {}", show(bound)),
            Self::Nothing => String::new(),
        }
    }
}

/// The verdict on a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No claim: shown for the reader.
    Shown,
    /// Agrees with the paper.
    Agrees,
    /// Differs from the paper, for the row's reason, by the amount that the reason predicts.
    Explained,
    /// The direction is the paper's, but the size is less than in its sentence.
    #[serde(rename = "weaker")]
    WeakerThanText,
    /// The confidence interval of the quantity spans its criterion: values at its ends would be judged otherwise.
    Undecided,
    /// Disagrees with the paper.
    Disagrees,
}

impl Verdict {
    /// All verdicts, the mildest first.
    pub const ALL: [Self; 6] =
        [Self::Shown, Self::Agrees, Self::Explained, Self::WeakerThanText, Self::Undecided, Self::Disagrees];

    /// Returns the verdict as text for users.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::Agrees => "agrees",
            Self::Explained => "explained",
            Self::WeakerThanText => "weaker",
            Self::Undecided => "undecided",
            Self::Disagrees => "disagrees",
        }
    }

    /// Formats a number of claims with this verdict.
    #[must_use]
    pub fn counted(self, claims: usize) -> String {
        match self {
            Self::Shown => format!("{claims} not judged"),
            Self::Agrees => format!("{claims} as the text says"),
            Self::Explained => format!("{claims} with a reason for what differs"),
            Self::WeakerThanText => format!("{claims} weaker than the text"),
            Self::Undecided => format!("{claims} undecided"),
            Self::Disagrees => format!("{claims} not as the text says"),
        }
    }
}

/// An explained deviation from the paper: its range, its verdict, and the reason.
#[derive(Clone, Debug, PartialEq)]
struct Departure {
    least: f64,
    most: f64,
    verdict: Verdict,
    reason: String,
}

/// One quantity of a claim: the paper's and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The compared quantity, in words: `growth of the mean delay from 0 to 20 packets/s`. Unique among the rows of the
    /// claim.
    pub what: String,
    /// Its unit.
    pub unit: Unit,
    /// The paper's statement.
    pub paper: Expected,
    /// Our result.
    pub ours: Value,
    /// The judged sentence of the paper, if it differs from the claim's.
    pub sentence: Option<&'static str>,
    departure: Option<Departure>,
    /// The reason why it could not be judged.
    unfit: Option<String>,
}

impl Row {
    /// Ours beside the paper's.
    #[must_use]
    pub fn new(what: impl Into<String>, unit: Unit, paper: Expected, ours: impl Into<Value>) -> Self {
        Self { what: what.into(), unit, paper, ours: ours.into(), sentence: None, departure: None, unfit: None }
    }

    /// Makes a row for an invariant; ours is the number of violations.
    #[must_use]
    pub fn never(what: impl Into<String>, violations: usize) -> Self {
        Self::new(what, Unit::Count, Expected::AtMost(0.0), violations as f64)
    }

    /// Makes a row for a quantity without a statement in the paper.
    #[must_use]
    pub fn shown(what: impl Into<String>, unit: Unit, ours: impl Into<Value>) -> Self {
        Self::new(what, unit, Expected::Nothing, ours)
    }

    /// Accepts a known departure from the paper, for this reason: the verdict is [`Verdict::Explained`] while ours is
    /// from `least` to `most`, and [`Verdict::Disagrees`] elsewhere, so that a reason does not excuse anything else.
    #[must_use]
    pub fn departing(self, least: f64, most: f64, reason: impl Into<String>) -> Self {
        Self { departure: Some(Departure { least, most, verdict: Verdict::Explained, reason: reason.into() }), ..self }
    }

    /// Accepts the direction of the paper's sentence without its size: the verdict is [`Verdict::WeakerThanText`] while
    /// ours is from `least` to `most`, and [`Verdict::Disagrees`] beyond. `reason` is the known cause.
    #[must_use]
    pub fn or_weaker(self, least: f64, most: f64, reason: impl Into<String>) -> Self {
        let verdict = Verdict::WeakerThanText;
        Self { departure: Some(Departure { least, most, verdict, reason: reason.into() }), ..self }
    }

    /// Leaves it without a judgement, for this reason: the measurement itself failed, and says nothing of the paper.
    #[must_use]
    pub fn not_judged(self, reason: impl Into<String>) -> Self {
        Self { unfit: Some(reason.into()), ..self }
    }

    /// Judges this sentence of the paper instead of the claim's: a quotation, with its place if that differs from the
    /// claim's.
    #[must_use]
    pub fn judging(self, sentence: &'static str) -> Self {
        Self { sentence: Some(sentence), ..self }
    }

    /// Returns the verdict on it: that on the mean, if both ends of the interval have the same one.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.unfit.is_some() {
            return Verdict::Shown;
        }
        let Value { mean, interval } = self.ours;
        let verdict = self.verdict_on(mean);
        let spans = interval.is_some_and(|(low, high)| [low, high].map(|end| self.verdict_on(end)) != [verdict; 2]);
        if spans { Verdict::Undecided } else { verdict }
    }

    fn verdict_on(&self, value: f64) -> Verdict {
        match self.paper.accepts(value) {
            None => Verdict::Shown,
            Some(true) => Verdict::Agrees,
            Some(false) => self.departed(value).map_or(Verdict::Disagrees, |departure| departure.verdict),
        }
    }

    /// Returns the departure that covers this value, if it differs from the paper.
    fn departed(&self, value: f64) -> Option<&Departure> {
        let within = |departure: &&Departure| (departure.least..=departure.most).contains(&value);
        self.departure.as_ref().filter(within).filter(|_| self.paper.accepts(value) == Some(false))
    }

    /// Returns the reason for which the row is not judged or undecided, or that for a departure that covers our value.
    #[must_use]
    pub fn reason(&self) -> Option<Cow<'_, str>> {
        if let Some(unfit) = &self.unfit {
            return Some(Cow::Borrowed(unfit));
        }
        if let (Verdict::Undecided, Some((low, high))) = (self.verdict(), self.ours.interval) {
            let [low, high] =
                [low, high].map(|end| format!("{} {}", self.unit.show(end), self.verdict_on(end).as_str()));
            return Some(Cow::Owned(format!("Undecided: of the interval of \"{}\", {low} and {high}.", self.what)));
        }
        self.departed(self.ours.mean).map(|departure| Cow::Borrowed(departure.reason.as_str()))
    }

    /// Formats the paper's value.
    #[must_use]
    pub fn show_paper(&self) -> String {
        self.paper.show(self.unit)
    }

    /// Ours with its interval, in words.
    #[must_use]
    pub fn show_ours(&self) -> String {
        let Value { mean, interval } = self.ours;
        let show = |value| self.unit.show(value);
        match interval {
            // A last digit of a float does not make an interval one-sided.
            Some((low, high)) if ((high - mean) - (mean - low)).abs() <= 1e-9 * (high - low) => {
                format!("{} ±{}", show(mean), show((high - low) / 2.0))
            }
            Some((low, high)) => format!("{} ({} to {})", show(mean), show(low), show(high)),
            None => show(mean),
        }
    }
}

/// A table of the report: a table of the paper, or the sensitivity to an open choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its content.
    pub title: String,
    /// The heads of its columns. The first column has words, the others numbers.
    pub head: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without rows.
    #[must_use]
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        Self { title: title.into(), head: head.iter().map(|&title| title.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

/// A command to repeat a run without the laboratory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rerun {
    /// The scenario file's name.
    pub file: String,
    /// Its text.
    pub text: String,
    /// Arguments of `fairlink`, including the file's name.
    pub command: String,
}

/// All that was found of a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// Quantities; the first one represents the claim in short summaries.
    pub rows: Vec<Row>,
    /// Description of the run in a few sentences, with the choices made where the text is open.
    pub note: String,
    /// Tables.
    pub tables: Vec<Table>,
    /// Plots, the one shaped like the paper's first.
    pub figures: Vec<Figure>,
    /// Scenarios to run again.
    pub reruns: Vec<Rerun>,
}

impl Finding {
    /// Makes a finding of these quantities, described by `note`.
    #[must_use]
    pub fn new(note: impl Into<String>, rows: Vec<Row>) -> Self {
        Self { rows, note: note.into(), ..Self::default() }
    }

    /// Adds this plot.
    #[must_use]
    pub fn with_figure(mut self, figure: Figure) -> Self {
        self.figures.push(figure);
        self
    }

    /// Adds this table.
    #[must_use]
    pub fn with_table(mut self, table: Table) -> Self {
        self.tables.push(table);
        self
    }

    /// Adds this scenario.
    #[must_use]
    pub fn with_rerun(mut self, rerun: Rerun) -> Self {
        self.reruns.push(rerun);
        self
    }

    /// Returns the worst verdict of its rows. A claim without any judged row does not agree: nothing was checked.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.rows.iter().map(Row::verdict).max() {
            None | Some(Verdict::Shown) => Verdict::Disagrees,
            Some(verdict) => verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_can_fail_on_both_sides() {
        use Expected::*;
        let judged = |expected: Expected, values: [f64; 3]| values.map(|value| expected.accepts(value));
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(judged(Near(100.0, 0.02), [97.9, 102.0, 102.1]), [no, yes, no]);
        assert_eq!(judged(Within(-1.0, 0.5), [-1.6, -0.5, 0.0]), [no, yes, no]);
        assert_eq!(judged(Between(1.0, 2.0), [0.9, 1.0, 2.1]), [no, yes, no]);
        assert_eq!(judged(AtMost(0.0), [-1.0, 0.0, 1.0]), [yes, yes, no]);
        assert_eq!(judged(AtLeast(1.0), [0.9, 1.0, 2.0]), [no, yes, yes]);
        assert_eq!(judged(Beside(1.0), [0.0, 1.0, f64::NAN]), [None; 3]);
        assert_eq!(judged(AtMost(1.0), [f64::NAN, f64::INFINITY, f64::NEG_INFINITY]), [no, no, yes]);
    }

    #[test]
    fn a_departure_is_explained_only_while_it_is_what_its_reason_says() {
        let row = |ours: f64| {
            Row::new("growth", Unit::Times, Expected::AtLeast(1.0), ours).departing(0.4, 0.6, "the residual of a visit")
        };
        assert_eq!(
            [1.1, 0.5, 0.3, 0.7].map(|ours| row(ours).verdict()),
            [Verdict::Agrees, Verdict::Explained, Verdict::Disagrees, Verdict::Disagrees]
        );
        assert_eq!(row(0.5).reason().as_deref(), Some("the residual of a visit"));
        assert_eq!([row(1.1).reason(), row(0.3).reason()], [None, None]);
    }

    #[test]
    fn what_could_not_be_measured_is_not_judged_whatever_its_value() {
        let row = |ours: f64| Row::new("share", Unit::Part, Expected::AtMost(0.05), ours).not_judged("a busy machine");
        for ours in [0.01, 0.9, f64::NAN] {
            assert_eq!((row(ours).verdict(), row(ours).reason().as_deref()), (Verdict::Shown, Some("a busy machine")));
        }
        let judged = Row::never("late", 0);
        assert_eq!(Finding::new("", vec![judged, row(0.9)]).verdict(), Verdict::Agrees);
    }

    #[test]
    fn what_has_the_direction_without_the_size_is_weaker_than_the_text() {
        let row = |ours: f64| Row::new("ratio", Unit::Times, Expected::AtLeast(100.0), ours).or_weaker(2.0, 100.0, "");
        assert_eq!(
            [120.0, 71.0, 1.5].map(|ours| row(ours).verdict()),
            [Verdict::Agrees, Verdict::WeakerThanText, Verdict::Disagrees]
        );
        let explained = Row::never("late", 1).departing(1.0, 1.0, "a reason");
        assert_eq!(Finding::new("", vec![explained, row(71.0)]).verdict(), Verdict::WeakerThanText);
    }

    #[test]
    fn an_interval_that_spans_the_criterion_decides_nothing() {
        let row = |mean: f64, width: f64| {
            let ours = Value { mean, interval: Some((mean - width, mean + width)) };
            Row::new("ratio", Unit::Times, Expected::AtLeast(2.0), ours).or_weaker(1.0, 2.0, "small buffers")
        };
        assert_eq!(
            [(3.0, 0.9), (3.0, 1.1), (1.5, 0.4), (1.5, 0.6), (0.5, 0.4)]
                .map(|(mean, width)| row(mean, width).verdict()),
            [Verdict::Agrees, Verdict::Undecided, Verdict::WeakerThanText, Verdict::Undecided, Verdict::Disagrees]
        );
        assert_eq!(
            row(1.5, 1.0).reason().as_deref(),
            Some("Undecided: of the interval of \"ratio\", 0.5 times disagrees and 2.5 times agrees.")
        );
        // A statistic that does not exist without one of the runs has no end.
        assert_eq!(
            row(3.0, f64::INFINITY).reason().as_deref(),
            Some("Undecided: of the interval of \"ratio\", -infinity times disagrees and infinity times agrees.")
        );
        // Both ends are outside, on either side.
        let wide = Value { mean: 1.0, interval: Some((0.8, 1.2)) };
        assert_eq!(Row::new("", Unit::Times, Expected::Near(1.0, 0.1), wide).verdict(), Verdict::Undecided);
        assert_eq!(Row::shown("", Unit::Times, wide).verdict(), Verdict::Shown);
        assert_eq!(Finding::new("", vec![row(3.0, 1.1), row(1.5, 0.1)]).verdict(), Verdict::Undecided);
    }

    #[test]
    fn a_mean_of_logarithms_keeps_its_interval() {
        let value = Value { mean: 0.0, interval: Some((-1.0, 2.0)) }.map(f64::exp);
        assert_eq!(value, Value { mean: 1.0, interval: Some(((-1f64).exp(), 2f64.exp())) });
        assert_eq!(Row::shown("", Unit::Times, value).show_ours(), "1 times (0.368 times to 7.389 times)");
        let falls = Value { mean: 2.0, interval: Some((1.0, 3.0)) }.map(|value| -value);
        assert_eq!((falls.interval, falls.ci95()), (Some((-3.0, -1.0)), Some(1.0)));
    }

    #[test]
    fn a_finding_is_as_bad_as_its_worst_row_and_shows_of_nothing_when_nothing_was_judged() {
        let agrees = Row::never("bound exceeded", 0);
        let shown = Row::shown("delay", Unit::Seconds, 0.01);
        let broken = Row::never("bound exceeded too", 1);
        assert_eq!(Finding::new("", vec![shown.clone()]).verdict(), Verdict::Disagrees);
        assert_eq!(Finding::new("", vec![shown.clone(), agrees.clone()]).verdict(), Verdict::Agrees);
        assert_eq!(Finding::new("", vec![agrees, broken, shown]).verdict(), Verdict::Disagrees);
    }

    #[test]
    fn quantities_are_shown_with_their_units() {
        let row = Row::new("alpha", Unit::Bytes, Expected::Near(103.5, 0.02), 103.5);
        assert_eq!((row.show_paper(), row.show_ours()), ("103.5 B ±2 %".into(), "103.5 B".into()));
        let estimate = Estimate::from_values(&[0.015, 0.017]).unwrap();
        let row = Row::new("delay", Unit::Seconds, Expected::Between(0.0135, 0.0165), estimate);
        assert_eq!(row.show_paper(), "13.5 ms to 16.5 ms");
        assert!(row.show_ours().starts_with("16 ms ±"), "{}", row.show_ours());
    }
}
