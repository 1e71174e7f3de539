//! Evaluation of a scenario's expectations (`[[expect]]`).

use fairlink_config::human;
use fairlink_config::scenario::{Expectation, Quantity, Unit};
use fairlink_report::{ClassReport, ClassSpan};
use fairlink_sim::{Phase, Run};
use schemars::JsonSchema;
use serde::Serialize;

/// An expectation of one run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Judged {
    /// Its line in the scenario file.
    pub line: usize,
    /// The class; `None` for a quantity of the link.
    pub class: Option<String>,
    /// The quantity, by its name in files.
    pub value: &'static str,
    /// Start and end of the phase, in seconds; `None` for the whole run.
    pub phase_s: Option<[f64; 2]>,
    /// The scheduler of the run.
    pub scheduler: String,
    /// The seed of the run.
    pub seed: u64,
    /// The measurement, in bit/s, seconds, packets or as a part; `None` if there is none, such as the delay without
    /// packets.
    pub measured: Option<f64>,
    /// The least that is expected, in the unit of `measured`.
    pub at_least: Option<f64>,
    /// The most that is expected, in the unit of `measured`.
    pub at_most: Option<f64>,
    /// True if the expectation is met. False without a measurement.
    pub met: bool,
    #[serde(skip)]
    unit: Unit,
}

impl Judged {
    /// Returns the text without the name of the file: `12: rate of A1 in 2.5 .. 5 s under htb, seed 1, is ...`.
    #[must_use]
    pub fn text(&self) -> String {
        let shown = |value: f64| match self.unit {
            Unit::Rate => human::rate(value),
            Unit::Time => human::time(value),
            Unit::Part => human::percent(value),
            Unit::Packets => human::count(value as usize, "packet", "packets"),
        };
        let of = self.class.as_ref().map_or_else(|| "of the link".to_owned(), |class| format!("of {class}"));
        let phase = self
            .phase_s
            .map_or_else(String::new, |[start, end]| format!(" in {} .. {}", human::time(start), human::time(end)));
        let measured =
            self.measured.map_or_else(|| "was not measured".to_owned(), |value| format!("is {}", shown(value)));
        let expected = match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least == most => format!("exactly {}", shown(least)),
            (Some(least), Some(most)) => format!("from {} to {}", shown(least), shown(most)),
            (Some(least), None) => format!("at least {}", shown(least)),
            (None, Some(most)) => format!("at most {}", shown(most)),
            (None, None) => "anything".to_owned(),
        };
        let Self { line, value, scheduler, seed, .. } = self;
        format!("{line}: {value} {of}{phase} under {scheduler}, seed {seed}, {measured}; expected is {expected}")
    }
}

/// Judges all runs, run by run. An expectation for another scheduler does not apply to a run.
#[must_use]
pub fn judge(expectations: &[Expectation], runs: &[Run]) -> Vec<Judged> {
    let of_run = |run| {
        let own = expectations.iter().filter(move |&one: &&Expectation| is_for(one, run));
        own.map(move |expectation| judged(expectation, run))
    };
    runs.iter().flat_map(of_run).collect()
}

fn is_for(expectation: &Expectation, run: &Run) -> bool {
    expectation.scheduler.is_none_or(|scheduler| scheduler.name == run.scheduler)
}

fn judged(expectation: &Expectation, run: &Run) -> Judged {
    let Expectation { quantity, at_least, at_most, line, .. } = *expectation;
    let phase = expectation.at.and_then(|at| {
        let at = at.0 as f64 / 1e9;
        run.phases.iter().find(|phase| (phase.start_s..phase.end_s).contains(&at))
    });
    let measured = match (expectation.at, phase) {
        (Some(_), None) => None,
        _ => measured(quantity, expectation.class.as_deref(), phase, run),
    };
    let met = measured
        .is_some_and(|value| at_least.is_none_or(|least| value >= least) && at_most.is_none_or(|most| value <= most));
    Judged {
        line,
        class: expectation.class.clone(),
        value: quantity.key(),
        phase_s: phase.map(|phase| [phase.start_s, phase.end_s]),
        scheduler: run.scheduler.clone(),
        seed: run.seed,
        measured,
        at_least,
        at_most,
        met,
        unit: quantity.unit(),
    }
}

fn measured(quantity: Quantity, class: Option<&str>, phase: Option<&Phase>, run: &Run) -> Option<f64> {
    let Some(name) = class else { return Some(run.link_utilisation) };
    let leaf = run.classes.iter().find(|class| class.name == name);
    let of_leaf = |get: fn(&ClassReport) -> Option<f64>| leaf.and_then(get);
    let in_phase = || {
        let phase = phase?;
        phase.classes.iter().chain(&phase.inner_classes).find(|class| class.name == name)
    };
    match quantity {
        Quantity::Rate if phase.is_some() => in_phase()?.rates.settled_bps,
        Quantity::Rate => {
            let inner = || run.inner_classes.iter().find(|class| class.name == name).map(|class| class.rates.rate());
            leaf.map(|class| class.rates.rate()).or_else(inner)
        }
        Quantity::OffBy => off_by(in_phase()?),
        Quantity::DelayMean => of_leaf(|class| class.delay().mean),
        Quantity::DelayP50 => of_leaf(|class| class.delay().p50),
        Quantity::DelayP99 => of_leaf(|class| class.delay().p99),
        Quantity::DelayP999 => of_leaf(|class| class.delay().p999),
        Quantity::DelayMax => of_leaf(|class| class.delay().max),
        Quantity::Loss => of_leaf(|class| class.counts().lost()),
        Quantity::Dropped => of_leaf(|class| Some(class.counts().dropped.packets as f64)),
        Quantity::Sent => of_leaf(|class| Some(class.counts().sent.packets as f64)),
        Quantity::Utilisation => Some(run.link_utilisation),
    }
}

/// `None` if the ideal is not computed, or is zero and the class got something.
fn off_by(class: &ClassSpan) -> Option<f64> {
    let ideal = class.rates.ideal_bps?;
    let off = (class.rates.settled() - ideal).abs();
    if off == 0.0 { Some(0.0) } else { (ideal > 0.0).then(|| off / ideal) }
}
