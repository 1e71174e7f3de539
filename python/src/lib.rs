//! The engine of the Python package `fairlink`: what `fairlink_api` computes, as functions and classes of CPython.
//!
//! Documents cross the border as JSON, rates and packets as arrays. Everything that may take long runs without the
//! interpreter's lock. Errors are `fairlink.Refused`. The classes that people use are Python's, in `python/fairlink`;
//! they add files, views, tables and pictures.
#![deny(unsafe_code)]

mod campaign;
mod claims;
mod configurations;
mod error;
mod input;
mod link;
mod simulation;
mod trace;

use fairlink_api::{json, keys, schedulers};
use fairlink_schema::human;
use fairlink_schema::keys::{CLASS, Key, Kind, LINK};
use pyo3::prelude::*;

use crate::error::Failed;

/// The document of the schedulers that have all `needs`.
#[pyfunction]
fn schedulers_json(needs: Vec<String>) -> Result<String, Failed> {
    let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
    Ok(json(&schedulers(&needs)?))
}

/// The document of the keys of link files.
#[pyfunction]
fn keys_json() -> String {
    json(&keys())
}

/// The keys of `[link]` and of `[[class]]`, each with the word for the unit of a number: `rate`, `size`, `time`,
/// `packets`, or an empty one.
#[pyfunction]
fn key_units() -> [Vec<(&'static str, &'static str)>; 2] {
    fn unit<C>(key: &Key<C>) -> (&'static str, &'static str) {
        let unit = match key.kind {
            Kind::Rate => "rate",
            Kind::Size { .. } | Kind::Overhead => "size",
            Kind::Time | Kind::Gso => "time",
            Kind::Packets { .. } | Kind::Buffer => "packets",
            _ => "",
        };
        (key.name, unit)
    }
    [LINK.iter().map(unit).collect(), CLASS.iter().map(unit).collect()]
}

/// A rate in bit/s as people read it, like the command's tables.
#[pyfunction]
fn show_rate(bps: f64) -> String {
    human::rate(bps)
}

/// A time in seconds as people read it.
#[pyfunction]
fn show_time(seconds: f64) -> String {
    human::time(seconds)
}

/// The engine of the package `fairlink`.
#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("MAX_TRACED", trace::MAX_TRACED)?;
    module.add("IMPORTS", configurations::imports())?;
    module.add_class::<input::Source>()?;
    module.add_class::<campaign::Campaign>()?;
    module.add_class::<claims::Trial>()?;
    module.add_class::<link::Link>()?;
    module.add_class::<link::Demand>()?;
    module.add_class::<simulation::Simulation>()?;
    module.add_class::<trace::Trace>()?;
    module.add_function(wrap_pyfunction!(schedulers_json, module)?)?;
    module.add_function(wrap_pyfunction!(claims::claims_json, module)?)?;
    module.add_function(wrap_pyfunction!(keys_json, module)?)?;
    module.add_function(wrap_pyfunction!(key_units, module)?)?;
    module.add_function(wrap_pyfunction!(show_rate, module)?)?;
    module.add_function(wrap_pyfunction!(show_time, module)?)?;
    module.add_function(wrap_pyfunction!(configurations::import_configuration, module)?)
}
