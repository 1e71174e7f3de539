//! A link that was read, and stays read.

use std::sync::Arc;

use fairlink_api::{
    CheckOptions, Each, Fluid, Load, OnCores, ProblemReport, check, demand, demand_of, diff, expand, explain_link,
    json, parent_name, read_tree,
};
use fairlink_config::demand::Asked;
use fairlink_config::{LinkFile, Problem};
use fairlink_core::ClassId;
use fairlink_sim::CoreModel;
use fairlink_theory::ideal::{NotComputed, Parameters, Rule, Traffic};
use fairlink_theory::request::Request;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMapping, PySequence, PyString, PyType};

use crate::error::{Failed, problems_json};
use crate::input::{Quantity, Source, rate};

/// From so many classes on the interpreter's lock is released while rates are computed: below, that takes longer than
/// the rates.
const LONG: usize = 500;

/// A link file.
#[pyclass(frozen, module = "fairlink._engine")]
pub(crate) struct Link {
    source: fairlink_config::Source,
    file: Arc<LinkFile>,
    warnings: Vec<Problem>,
    /// Every leaf without limit.
    busy: Arc<Demands>,
    rule: Result<Parameters, NotComputed>,
}

/// The demands of the leaves of a link.
#[pyclass(frozen, module = "fairlink._engine")]
pub(crate) struct Demand(Arc<Demands>, Arc<LinkFile>);

type Demands = fairlink_theory::request::Demand;

/// A class: its name, its parent, and whether it is a leaf.
type ClassRow<'a> = (&'a str, Option<&'a str>, bool);

#[pymethods]
impl Link {
    #[new]
    fn new(py: Python<'_>, source: &Source) -> Result<Self, Failed> {
        let source = Arc::clone(&source.0);
        py.detach(|| {
            let (file, warnings) = read_tree(&source)?;
            let busy = Arc::new(demand(&file, None)?);
            let rule = Rule::for_scheduler(file.info(), &file.tree, Traffic::unknown()).map(Rule::keep);
            Ok(Self { source, file: Arc::new(file), warnings, busy, rule })
        })
    }

    #[getter]
    fn name(&self) -> Option<&str> {
        self.file.name.as_deref()
    }

    #[getter]
    fn scheduler(&self) -> &str {
        &self.file.scheduler
    }

    #[getter]
    fn rate_bps(&self) -> u64 {
        self.file.tree.link().rate.bps()
    }

    /// All classes in the order of the file.
    fn classes(&self) -> Vec<ClassRow<'_>> {
        let row = |class| (self.file.names.name(class), parent_name(&self.file, class), self.file.tree.is_leaf(class));
        (1..self.file.tree.len()).map(|class| row(ClassId(class as u32))).collect()
    }

    fn __len__(&self) -> usize {
        self.file.tree.len() - 1
    }

    /// Warnings as JSON.
    fn warnings(&self) -> String {
        problems_json(&self.warnings.iter().map(ProblemReport::from).collect::<Vec<_>>())
    }

    /// The text with its templates and tables of classes written out.
    fn expanded(&self, py: Python<'_>) -> Result<String, Failed> {
        py.detach(|| Ok(expand(&self.source)?.content.text))
    }

    #[pyo3(signature = (scheduler, lenient, gateway, demand, packet))]
    fn check(
        &self,
        py: Python<'_>,
        scheduler: Option<&str>,
        lenient: bool,
        gateway: bool,
        demand: Option<&str>,
        packet: Option<&str>,
    ) -> Result<String, Failed> {
        py.detach(|| {
            let options = CheckOptions { scheduler, lenient, gateway, load: Load { demand, packet } };
            let mut checked = check(&self.source, &options)?;
            let cores = checked.link.cores;
            if !cores.is_one() {
                checked.on_cores = Some(OnCores::new(&checked.link, cores, CoreModel::LAG, None)?);
            }
            Ok(json(&checked.document(checked.all_classes())))
        })
    }

    fn fluid(&self, py: Python<'_>, demand: Option<&Bound<'_, PyAny>>, fair: bool) -> PyResult<String> {
        let demand = self.demanded(demand)?;
        Ok(py.detach(|| {
            let solved = Fluid::solve(Arc::clone(&self.file), self.warnings.clone(), &demand, fair);
            let classes = Each { len: self.file.tree.len() - 1, item: |row| solved.class(ClassId(row as u32 + 1)) };
            json(&solved.document(classes))
        }))
    }

    fn explain(
        &self,
        py: Python<'_>,
        class: &str,
        demand: Option<&Bound<'_, PyAny>>,
        step: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let demand = self.demanded(demand)?;
        let step = step.map(|step| rate("step", step)).transpose()?;
        let explained = py.detach(|| explain_link(&self.file, self.warnings.clone(), class, &demand, step));
        Ok(json(&explained.map_err(Failed::from)?.document))
    }

    /// Rates of all classes in bit/s, in the order of the file, as `array.array('d')`.
    fn rates<'py>(&self, py: Python<'py>, demand: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let demand = self.demanded(demand)?;
        let solve = || match &self.rule {
            Ok(rule) => Rule::kept(rule, &self.file.tree).rates(&demand),
            Err(why) => Err(why.clone()),
        };
        let solved = if self.file.tree.len() > LONG { py.detach(solve) } else { solve() };
        let rates = solved.map_err(|why| {
            let why = why.named(|class| self.file.names.name(class).to_owned());
            Failed::because(format!("the rates that {} gives are {why}", self.scheduler()))
        })?;
        // The link itself comes first.
        let bytes: Vec<u8> = rates.iter().skip(1).flat_map(|bps| bps.to_ne_bytes()).collect();
        ARRAY.import(py, "array", "array")?.call1(("d", PyBytes::new(py, &bytes)))
    }

    /// Reads demands once, for many calls.
    fn demand(&self, demand: Option<&Bound<'_, PyAny>>) -> PyResult<Demand> {
        Ok(Demand(self.demanded(demand)?, Arc::clone(&self.file)))
    }

    fn diff(&self, py: Python<'_>, other: &Self) -> Result<String, Failed> {
        py.detach(|| Ok(json(&diff(&self.source, &other.source)?.0)))
    }
}

impl Link {
    /// Reads demands: none (every leaf without limit), those that were read, a text, rates by name, or a rate for each
    /// leaf in the order of the file.
    fn demanded(&self, value: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<Demands>> {
        let Some(value) = value else { return Ok(Arc::clone(&self.busy)) };
        if let Ok(read) = value.cast::<Demand>() {
            return match Arc::ptr_eq(&read.get().1, &self.file) {
                true => Ok(Arc::clone(&read.get().0)),
                false => {
                    Err(Failed::argument("demand", "it was read for another link; read it again for this one").into())
                }
            };
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Arc::new(demand(&self.file, Some(text.to_str()?)).map_err(Failed::from)?));
        }
        if let Ok(by_name) = value.cast::<PyDict>() {
            return self.by_name(by_name.iter().map(Ok));
        }
        if let Ok(by_name) = value.cast::<PyMapping>() {
            let items = by_name.items()?;
            return self.by_name(items.iter().map(|item| item.extract()));
        }
        if let Ok(rates) = value.cast::<PySequence>() {
            return self.in_order(rates);
        }
        let kind = value.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "demand: a text such as \"a=inf,b=3mbit\", a dict, a Demand or a number for each leaf is needed, not {kind}"
        )))
    }

    fn by_name<'py>(
        &self,
        items: impl Iterator<Item = PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)>>,
    ) -> PyResult<Arc<Demands>> {
        let mut read: Vec<(String, Quantity)> = Vec::new();
        for item in items {
            let (name, value) = item?;
            let name =
                name.cast::<PyString>().map_err(|_| PyTypeError::new_err("demand: names of classes are texts"))?;
            let value = Quantity::of("demand", &value).map_err(|error| named(value.py(), error, &name.to_string()))?;
            read.push((name.to_str()?.to_owned(), value));
        }
        let asked = |value| match value {
            &Quantity::Number(bps) => Asked::Bps(bps.round() as u64),
            Quantity::Unlimited => Asked::Unlimited,
            Quantity::Text(text) => Asked::Text(text),
        };
        let items = read.iter().map(|(name, value)| (name.as_str(), asked(value)));
        Ok(Arc::new(demand_of(&self.file, items).map_err(Failed::from)?))
    }

    fn in_order(&self, rates: &Bound<'_, PySequence>) -> PyResult<Arc<Demands>> {
        let (given, leaves) = (rates.len()?, self.file.tree.leaves());
        if given != leaves.len() {
            let message = format!("{given} rates, and the link has {} leaves; give one for each", leaves.len());
            return Err(Failed::argument("demand", message).into());
        }
        let mut demand = Demands::clone(&self.busy);
        for (&leaf, value) in leaves.iter().zip(rates.try_iter()?) {
            let request = match Quantity::of("demand", &value?)? {
                Quantity::Number(bps) => Request::Rate(bps.round() as u64),
                Quantity::Unlimited => Request::Unlimited,
                Quantity::Text(text) => {
                    return Err(Failed::argument("demand", format!("{text:?} is a text; use a dict for those")).into());
                }
            };
            demand.set(&self.file.tree, leaf, request).map_err(|error| Failed::argument("demand", error))?;
        }
        Ok(Arc::new(demand))
    }
}

/// Adds the name of the class to the type error of its demand.
fn named(py: Python<'_>, error: PyErr, name: &str) -> PyErr {
    match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(format!("{} (of class {name:?})", error.value(py))),
        false => error,
    }
}
