//! Explains the rate of a class: reasons, changes that raise it, and the gain of false demands and rearranged
//! guarantees.

use fairlink_config::{LinkFile, Problem, Source};
use fairlink_core::{ClassId, Rate};
use fairlink_report::{Content, Document, Ideal, Terms};
use fairlink_theory::changes::NoChanges;
use fairlink_theory::explain::{Explanation, Step};
use fairlink_theory::ideal::{self, Rule, Traffic};
use fairlink_theory::request::Demand;
use fairlink_theory::to_f64;
use schemars::JsonSchema;
use serde::Serialize;

use crate::fluid::ideal_of;
use crate::refused::{ProblemReport, Refused};
use crate::tree::{demand, in_text, read_tree, terms};

mod changes;
mod strategy;

/// The document of [`explain`]. If the scheduler's rule gives no rates, it has only notes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ExplainDoc {
    /// The class.
    pub class: String,
    /// From the link to the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepReport>>,
    /// The class that limits it, the one that limits that one, and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Vec<String>>,
    /// Changes that raise its rate. Absent if no formula has its rate: `notes` give the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<changes::Entry>,
    /// Gain of false demands and rearranged guarantees. Absent for the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) strategy: Option<strategy::Entry>,
    /// Reasons for absent values.
    pub notes: Vec<String>,
    /// All of it in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Warnings.
    pub problems: Vec<ProblemReport>,
}

impl Content for ExplainDoc {
    const KIND: &'static str = "explain";
}

/// A class on the way from the link to the class that is explained.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StepReport {
    /// Its name.
    pub name: String,
    /// The terms that it is configured with.
    pub terms: Terms,
    /// Its part of the weights of all that share with it. Absent if the scheduler shares by the weights of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_part: Option<f64>,
    /// Limit of its rate in bit/s, regardless of the link; `null` without a limit.
    pub limit_bps: Option<u64>,
    /// The setting that gives this limit.
    pub limit: Option<&'static str>,
    /// Demand of the leaves below it together in bit/s; `null` for as much as possible.
    pub wants_bps: Option<u128>,
    /// Its request and its allocation.
    pub ideal: Ideal,
    /// Of its parent: bit/s per unit of weight. If weights are guarantees in bit/s, it is a dimensionless factor of
    /// guarantees.
    pub fair_share_per_weight: Option<f64>,
    /// Rate that its weight alone gives, in bit/s: its weight times the fair share per weight.
    pub entitled_bps: Option<f64>,
    /// The classes that it shares with.
    pub siblings: Siblings,
}

/// Classes that share with another.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Siblings {
    /// Siblings that get their whole request.
    pub satisfied: Vec<String>,
    /// Siblings that get less.
    pub unsatisfied: Vec<String>,
    /// Siblings without a request.
    pub idle: Vec<String>,
}

/// The explanation of a class.
#[derive(Debug)]
pub struct Explained {
    /// Warnings.
    pub warnings: Vec<Problem>,
    /// The document.
    pub document: Document<ExplainDoc>,
}

/// Explains the rate of `class` for a demand (see [`FluidOptions`](crate::FluidOptions)). Changes that are tried are of
/// `step`, without it of a tenth of the link.
///
/// ```
/// use fairlink_config::SourceText;
///
/// let text = "[link]\nrate = \"9mbit\"\n[[class]]\nname = \"a\"\nguarantee = \"6mbit\"\n[[class]]\nname = \"b\"\nguarantee = \"3mbit\"\n";
/// let found = fairlink_api::explain(&SourceText::new("a.toml", text), "b", None, None)?.document.content;
/// let step = &found.steps.unwrap()[1];
/// assert_eq!((step.name.as_str(), step.ideal.allocation_bps), ("b", 3e6));
/// # Ok::<(), fairlink_api::Refused>(())
/// ```
///
/// # Errors
/// [`Refused`]: errors in the text, an unknown class, a wrong demand.
pub fn explain(source: &Source, class: &str, asked: Option<&str>, step: Option<Rate>) -> Result<Explained, Refused> {
    let (link, warnings) = read_tree(source)?;
    let demand = demand(&link, asked)?;
    explain_link(&link, warnings, class, &demand, step)
}

/// Like [`explain`], of a link that [`read_tree`](crate::read_tree) has read with `warnings`.
///
/// # Errors
/// [`Refused`]: an unknown class.
///
/// # Panics
/// If the demand was made for a tree of another size.
pub fn explain_link(
    link: &LinkFile,
    warnings: Vec<Problem>,
    class: &str,
    demand: &Demand,
    step: Option<Rate>,
) -> Result<Explained, Refused> {
    let id = link.names.find(class).map_err(|error| Refused::argument("class", error))?;
    let problems: Vec<ProblemReport> = warnings.iter().map(ProblemReport::from).collect();
    let mut found = ExplainDoc {
        class: class.to_owned(),
        steps: None,
        limited_by: None,
        changes: None,
        strategy: None,
        notes: Vec::new(),
        text: None,
        problems,
    };
    let rule = Rule::for_scheduler(link.info(), &link.tree, Traffic::unknown());
    let ideal = match rule.and_then(|rule| rule.solve(demand)) {
        Ok(ideal) => ideal,
        Err(why) => {
            let why = why.named(|class| link.names.name(class).to_owned());
            found.notes = vec![format!("what {} gives {class} is {why}", link.info().name)];
            return Ok(Explained { warnings, document: Document::new(found) });
        }
    };
    let explanation = Explanation::new(&link.tree, &ideal, id).map_err(Refused::failed)?;
    let step = step.map_or(link.tree.link().rate.bps() / 10, Rate::bps).max(1);
    let mut notes = ideal.notes(link.info());
    found.changes = match changes::Entry::for_class(link, demand, id, step) {
        Err(NoChanges::NotComputed(why)) => {
            notes.push(format!("changes are {why}"));
            None
        }
        other => Some(other.map_err(Refused::failed)?),
    };
    found.strategy = (id != ClassId::ROOT).then(|| strategy::Entry::for_class(link, demand, id)).transpose()?;
    let mut text = explanation.text(|class| in_text(link, class));
    text += &found.changes.as_ref().map(changes::Entry::text).unwrap_or_default();
    text += &found.strategy.as_ref().map(strategy::Entry::text).unwrap_or_default();
    for note in &notes {
        text += &format!("\n{note}\n");
    }
    found.steps = Some(explanation.steps.iter().map(|step| report(link, &ideal, step)).collect());
    found.limited_by = Some(names(link, &explanation.limited_by));
    (found.notes, found.text) = (notes, Some(text));
    Ok(Explained { warnings, document: Document::new(found) })
}

fn report(link: &LinkFile, solved: &ideal::Ideal, step: &Step) -> StepReport {
    StepReport {
        name: link.names.name(step.class).to_owned(),
        terms: terms(link, step.class),
        weight_part: step.weight_part,
        limit_bps: step.limit.map(|limit| limit.bps),
        limit: step.limit.map(|limit| limit.kind.as_str()),
        wants_bps: step.allocation.wanted,
        ideal: ideal_of(link, solved, step.class),
        fair_share_per_weight: step.fair_share.as_ref().map(to_f64),
        entitled_bps: step.entitled.as_ref().map(to_f64),
        siblings: Siblings {
            satisfied: names(link, &step.satisfied_siblings),
            unsatisfied: names(link, &step.unsatisfied_siblings),
            idle: names(link, &step.idle_siblings),
        },
    }
}

fn names(link: &LinkFile, classes: &[ClassId]) -> Vec<String> {
    classes.iter().map(|&class| link.names.name(class).to_owned()).collect()
}
