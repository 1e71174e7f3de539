//! Rates of the classes in the long run, by the rule of their scheduler or by hierarchical max-min fairness.

use std::sync::Arc;

use fairlink_config::{LinkFile, Problem, Source};
use fairlink_core::ClassId;
use fairlink_report::{ClassReport, Content, Document, Ideal, LinkReport};
use fairlink_theory::hmm::{Allocation, ClassAllocation};
use fairlink_theory::ideal::{self, NotComputed, Rule, Traffic};
use fairlink_theory::request::Demand;
use schemars::JsonSchema;
use serde::Serialize;

use crate::refused::{ProblemReport, Refused};
use crate::rows::Each;
use crate::tree::{class_report, demand, read_tree};

/// Demand and sharing rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct FluidOptions<'a> {
    /// Demands of the leaves, such as `A1=inf,C=300mbit`; without it `inf` for every leaf.
    pub demand: Option<&'a str>,
    /// Shares by hierarchical max-min fairness instead of the link's scheduler.
    pub fair: bool,
}

/// The document of [`fluid`].
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FluidDoc<C = Vec<ClassReport>> {
    /// The rule: a scheduler, or `max-min fairness`.
    pub rule: String,
    /// The link; its notes give the reasons for absent numbers.
    pub link: LinkReport<C>,
    /// Warnings.
    pub problems: Vec<ProblemReport>,
}

impl<C> Content for FluidDoc<C> {
    const KIND: &'static str = "fluid";
}

/// The rates of a link for a demand.
#[derive(Debug)]
pub struct Fluid {
    /// The link.
    pub link: Arc<LinkFile>,
    /// The rule.
    pub rule: &'static str,
    /// The rates, or why the rule gives none.
    pub solved: Result<ideal::Ideal, NotComputed>,
    /// Warnings.
    pub warnings: Vec<Problem>,
    /// Reasons for absent numbers.
    pub notes: Vec<String>,
}

/// Solves the fluid ideal of a link file for a demand.
///
/// ```
/// use fairlink_api::{FluidOptions, fluid};
/// use fairlink_config::SourceText;
///
/// let text = "[link]\nrate = \"9mbit\"\n[[class]]\nname = \"a\"\nweight = 2\n[[class]]\nname = \"b\"\nweight = 1\n";
/// let solved = fluid(&SourceText::new("a.toml", text), &FluidOptions::default())?;
/// let a = solved.class(solved.link.names.find("a").unwrap());
/// assert_eq!(a.ideal.unwrap().allocation_bps, 6e6);
/// # Ok::<(), fairlink_api::Refused>(())
/// ```
///
/// # Errors
/// [`Refused`]: errors in the text or the demand. A rule that gives no rates is no error: the notes give the reason.
pub fn fluid(source: &Source, options: &FluidOptions<'_>) -> Result<Fluid, Refused> {
    let (link, warnings) = read_tree(source)?;
    let demand = demand(&link, options.demand)?;
    Ok(Fluid::solve(Arc::new(link), warnings, &demand, options.fair))
}

impl Fluid {
    /// Solves the fluid ideal of a link that [`read_tree`](crate::read_tree) has read with `warnings`; `fair` as in
    /// [`FluidOptions`].
    ///
    /// # Panics
    /// If the demand was made for a tree of another size.
    #[must_use]
    pub fn solve(link: Arc<LinkFile>, warnings: Vec<Problem>, demand: &Demand, fair: bool) -> Self {
        let (rule, solved) = match fair {
            true => ("max-min fairness", Ok(Allocation::solve(&link.tree, demand).into())),
            false => {
                let rule = Rule::for_scheduler(link.info(), &link.tree, Traffic::unknown());
                let solved = rule.and_then(|rule| rule.solve(demand));
                (link.info().name, solved.map_err(|why| why.named(|class| link.names.name(class).to_owned())))
            }
        };
        let notes = match &solved {
            Ok(_) if fair => Vec::new(),
            Ok(ideal) => ideal.notes(link.info()),
            Err(why) => vec![format!("the rates that {rule} gives are {why}")],
        };
        Self { link, rule, solved, warnings, notes }
    }

    /// A class with its ideal.
    #[must_use]
    pub fn class(&self, class: ClassId) -> ClassReport {
        let ideal = self.solved.as_ref().ok().map(|solved| ideal_of(&self.link, solved, class));
        ClassReport { ideal, ..class_report(&self.link, class) }
    }

    /// All classes.
    pub fn all_classes(&self) -> Each<impl Fn(usize) -> ClassReport> {
        Each { len: self.link.tree.len() - 1, item: |row| self.class(ClassId(row as u32 + 1)) }
    }

    /// The document with these classes.
    pub fn document<C>(&self, classes: C) -> Document<FluidDoc<C>> {
        let link = LinkReport {
            scheduler: Some(self.link.scheduler.clone()),
            capacity_bps: Some(self.link.tree.link().rate.bps()),
            notes: self.notes.clone(),
            ..LinkReport::of_classes(classes)
        };
        let problems = self.warnings.iter().map(ProblemReport::from).collect();
        Document::new(FluidDoc { rule: self.rule.to_owned(), link, problems })
    }
}

/// The ideal of a class.
pub(crate) fn ideal_of(link: &LinkFile, solved: &ideal::Ideal, class: ClassId) -> Ideal {
    let ClassAllocation { request, allocation, satisfied, limited_by, .. } = solved.class(class);
    Ideal {
        request_bps: request.map(|bps| u64::try_from(bps).unwrap_or(u64::MAX)),
        allocation_bps: solved.bps(class),
        exact_bps: solved.is_exact().then(|| allocation.to_string()),
        satisfied,
        limited_by: limited_by.map(|by| link.names.name(by).to_owned()),
    }
}
