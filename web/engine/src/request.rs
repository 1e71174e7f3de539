//! Requests and their answers.

use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "plan")]
use fairlink_api::{
    CheckOptions, FluidOptions, Planned, PlannedKey, SimOptions, Simulation, check, explain, fluid, schedulers,
    simulate,
};
#[cfg(feature = "import")]
use fairlink_api::{ImportDoc, import};
use fairlink_api::{ProblemReport, Refused};
#[cfg(feature = "import")]
use fairlink_config::import::{Options, find, recognise};
use fairlink_config::{Files, Limits, NoFiles, SourceText};
#[cfg(feature = "plan")]
use fairlink_core::{NANOS_PER_SEC, Nanos};
use serde::{Deserialize, Serialize};

/// Longest text of a request, in bytes. A longer link file is for the command line.
const LONGEST: usize = 16 << 20;

/// Most classes of a text: they need about 0.3 GB, and a few seconds for each answer.
const MOST_CLASSES: usize = 100_000;

/// A page has no files, and less memory than a machine.
#[derive(Debug)]
struct InPage;

impl Files for InPage {
    fn open(&self, path: &Path) -> Result<Box<dyn Read>, String> {
        NoFiles.open(path)
    }

    fn limits(&self) -> Limits {
        Limits { classes: MOST_CLASSES, bytes: 4 * LONGEST }
    }
}

/// One request, such as `{"check": {"link": "..."}}`: a tag within would take 30 kB of the module. Texts are link files, or
/// scenarios: link files with sources.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    /// Bounds and warnings.
    #[cfg(feature = "plan")]
    Check { link: String, scheduler: Option<String> },
    /// Shares for a demand, such as `a=inf,b=3mbit`; every leaf as much as possible without one.
    #[cfg(feature = "plan")]
    Fluid { link: String, demand: Option<String> },
    /// Why a class has its share, and what would give it more.
    #[cfg(feature = "plan")]
    Explain { link: String, class: String, demand: Option<String> },
    /// Keeps a link read, for changes of single numbers.
    #[cfg(feature = "plan")]
    Plan { link: String, demand: Option<String> },
    /// Changes a number of a class of it, and returns the rates of all classes in bit/s.
    #[cfg(feature = "plan")]
    Set { class: String, key: String, value: u64 },
    /// All schedulers.
    #[cfg(feature = "plan")]
    Schedulers {},
    /// Reads the configuration of another tool, the text of one file. `rate_bps` is that of the link, if the file has none.
    #[cfg(feature = "import")]
    Import { tool: String, name: String, text: String, rate_bps: Option<u64> },
    /// Returns the tool whose configuration a text probably is; `null` if it is of none.
    #[cfg(feature = "import")]
    Recognise { text: String },
    /// Starts a simulation, in place of one that has this name.
    #[cfg(feature = "plan")]
    Start { name: String, scenario: String, scheduler: Option<String>, seed: Option<u64> },
    /// Continues it until a time in seconds, and reports.
    #[cfg(feature = "plan")]
    Step { name: String, until_s: f64 },
    /// Replaces its link by that of another text, now.
    #[cfg(feature = "plan")]
    Change { name: String, link: String, scheduler: Option<String> },
}

/// A step of a simulation.
#[cfg(feature = "plan")]
#[derive(Serialize)]
struct Step<'a> {
    now_s: f64,
    done: bool,
    /// Absent while nothing is measured yet.
    run: Option<&'a fairlink_sim::Run>,
}

/// Answers requests, and has the simulations that were started.
#[derive(Default)]
pub struct Engine {
    #[cfg(feature = "plan")]
    runs: Vec<(String, Simulation)>,
    #[cfg(feature = "plan")]
    planned: Option<Planned>,
}

impl Engine {
    /// Returns the answer to a request: `{"answer": ...}`, or `{"problems": [...]}` with what is wrong, at its place.
    pub fn answer(&mut self, request: &str) -> String {
        let outcome = match request.len() {
            0..=LONGEST => self.outcome(request),
            longer => {
                let classes = request.matches("[[class]]").count();
                Err(vec![problem(format!(
                    "the text has {longer} B and {classes} tables [[class]]; the page takes up to {LONGEST} B and {MOST_CLASSES} \
                     classes: use the command line, or a part of the file"
                ))])
            }
        };
        match outcome {
            Ok(document) => format!("{{\"answer\":{document}}}"),
            Err(problems) => {
                let mut text = String::from("{\"problems\":");
                let list = serde_json::to_string(&problems).unwrap_or_else(|_| "[]".to_owned());
                let _ = write!(text, "{list}}}");
                text
            }
        }
    }

    fn outcome(&mut self, request: &str) -> Result<String, Vec<ProblemReport>> {
        let request = serde_json::from_str(request).map_err(|error| vec![problem(format!("the request: {error}"))])?;
        self.run(request).map_err(|refused| refused.problems())
    }

    fn run(&mut self, request: Request) -> Result<String, Refused> {
        let named = |name: &str, text: &str| SourceText::among(name, text, Arc::new(InPage));
        #[cfg(feature = "plan")]
        let file = |text: &str| named("link.toml", text);
        match request {
            #[cfg(feature = "plan")]
            Request::Check { link, scheduler } => {
                let options = CheckOptions { scheduler: scheduler.as_deref(), ..CheckOptions::default() };
                let checked = check(&file(&link), &options)?;
                Ok(text(&checked.document(checked.all_classes())))
            }
            #[cfg(feature = "plan")]
            Request::Fluid { link, demand } => {
                let options = FluidOptions { demand: demand.as_deref(), ..FluidOptions::default() };
                let solved = fluid(&file(&link), &options)?;
                Ok(text(&solved.document(solved.all_classes())))
            }
            #[cfg(feature = "plan")]
            Request::Explain { link, class, demand } => {
                Ok(text(&explain(&file(&link), &class, demand.as_deref(), None)?.document))
            }
            #[cfg(feature = "plan")]
            Request::Plan { link, demand } => {
                self.planned = Some(Planned::read(&file(&link), demand.as_deref())?);
                Ok("null".to_owned())
            }
            #[cfg(feature = "plan")]
            Request::Set { class, key, value } => {
                let planned = self.planned.as_mut().ok_or_else(|| Refused::Failed("no link is planned".to_owned()))?;
                let key = PlannedKey::named(&key).ok_or_else(|| argument("key", format!("{key:?} is none")))?;
                planned.set(&class, key, value)?;
                let rates = planned.rates().map_err(|why| Refused::Failed(why.0.to_string()))?;
                Ok(text(&rates.iter().map(|bps| bps.round()).collect::<Vec<f64>>()))
            }
            #[cfg(feature = "plan")]
            Request::Schedulers {} => Ok(text(&schedulers(&[])?)),
            #[cfg(feature = "import")]
            Request::Import { tool, name, text: other, rate_bps } => {
                let tool = find(&tool)?;
                let rate = |bps: u64| Options::default().with("rate", format!("{bps}bit"));
                let options = rate_bps.map(rate).unwrap_or_default();
                let imported = import(tool, &[named(&name, &other)], &options)?;
                Ok(text(&ImportDoc::new(tool, &imported, false)?))
            }
            #[cfg(feature = "import")]
            Request::Recognise { text: other } => Ok(text(&recognise(&other).map(|info| info.name))),
            #[cfg(feature = "plan")]
            Request::Start { name, scenario, scheduler, seed } => {
                let options = SimOptions { scheduler: scheduler.as_deref(), seed, ..SimOptions::default() };
                let started = simulate(&file(&scenario), &options)?;
                self.runs.retain(|(known, _)| *known != name);
                self.runs.push((name, started));
                Ok("null".to_owned())
            }
            #[cfg(feature = "plan")]
            Request::Step { name, until_s } => {
                let simulation = self.find(&name)?;
                simulation.step_until(Nanos((until_s.max(0.0) * NANOS_PER_SEC as f64) as u64))?;
                let run = simulation.report().ok();
                let (now_s, done) = (simulation.now().0 as f64 / NANOS_PER_SEC as f64, simulation.done());
                Ok(text(&Step { now_s, done, run: run.as_ref() }))
            }
            #[cfg(feature = "plan")]
            Request::Change { name, link, scheduler } => {
                self.find(&name)?.change(&file(&link), scheduler.as_deref())?;
                Ok("null".to_owned())
            }
        }
    }

    #[cfg(feature = "plan")]
    fn find(&mut self, name: &str) -> Result<&mut Simulation, Refused> {
        let run = self.runs.iter_mut().find(|(known, _)| known == name).map(|(_, run)| run);
        run.ok_or_else(|| Refused::Failed(format!("there is no simulation {name:?}: start it first")))
    }
}

#[cfg(feature = "plan")]
fn argument(name: &'static str, message: impl ToString) -> Refused {
    Refused::Argument { name: name.into(), message: message.to_string() }
}

fn text(document: &impl Serialize) -> String {
    serde_json::to_string(document).unwrap_or_else(|_| "null".to_owned())
}

/// A problem that is in no text.
fn problem(message: String) -> ProblemReport {
    Refused::Failed(message).problems().remove(0)
}
