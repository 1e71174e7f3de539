//! Texts with their files, and quantities: numbers in base units, or texts with a unit.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairlink_api::Refused;
use fairlink_config::units::{UnitError, parse_rate, parse_time};
use fairlink_config::{Disk, Memory, NoFiles, SourceText};
use fairlink_core::{NANOS_PER_SEC, Nanos, Rate};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use crate::error::Failed;

/// A named text, and the files that it may name.
#[pyclass(frozen, module = "fairlink._engine")]
pub(crate) struct Source(pub(crate) fairlink_config::Source);

#[pymethods]
impl Source {
    /// Reads the file at `path`; it may name other files of the disk.
    #[staticmethod]
    fn read(py: Python<'_>, path: String) -> Result<Self, Failed> {
        let read = py.detach(|| SourceText::read(&path));
        Ok(Self(read.map_err(Refused::from)?))
    }

    /// A text that may name files of the disk beside `name`.
    #[staticmethod]
    fn beside(name: &str, text: &str) -> Self {
        Self(SourceText::among(name, text, Arc::new(Disk)))
    }

    /// A text that may name these files.
    #[staticmethod]
    fn among(name: &str, text: &str, files: BTreeMap<String, Vec<u8>>) -> Self {
        if files.is_empty() {
            return Self(SourceText::among(name, text, Arc::new(NoFiles)));
        }
        Self(SourceText::among(name, text, Arc::new(Memory::new(files))))
    }

    /// Its name in messages.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The text as it was read.
    #[getter]
    fn text(&self) -> &str {
        self.0.inner()
    }
}

/// A quantity as Python has it.
pub(crate) enum Quantity {
    /// In its base unit; not negative, and not infinite.
    Number(f64),
    /// Infinite.
    Unlimited,
    /// With a unit.
    Text(String),
}

impl Quantity {
    /// Reads a quantity that messages call `name`.
    pub(crate) fn of(name: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Self::Text(text.to_str()?.to_owned()));
        }
        let number = match value.is_instance_of::<PyBool>() {
            true => None,
            false => value.extract::<f64>().ok(),
        };
        match number {
            None => {
                let kind = value.get_type().name()?;
                Err(PyTypeError::new_err(format!("{name}: a number or a text with a unit is needed, not {kind}")))
            }
            Some(number) if number == f64::INFINITY => Ok(Self::Unlimited),
            Some(number) if number >= 0.0 => Ok(Self::Number(number)),
            Some(number) => Err(Failed::argument(name, format!("{number} is not a quantity; write 0 or more")).into()),
        }
    }
}

fn refused(name: &'static str, error: &UnitError) -> Failed {
    Failed::argument(name, format!("{error}; {}", error.help()))
}

/// A rate: a number in bit/s, or a text such as `"10mbit"`.
pub(crate) fn rate(name: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Rate> {
    Ok(match Quantity::of(name, value)? {
        Quantity::Text(text) => parse_rate(&text, None).map_err(|error| refused(name, &error))?,
        Quantity::Number(bps) => Rate::from_bps(bps.round() as u64)
            .map_err(|error| Failed::argument(name, format!("{bps} bit/s: {error}")))?,
        Quantity::Unlimited => return Err(Failed::argument(name, "it must be finite").into()),
    })
}

/// A time: a number in seconds, or a text such as `"100ms"`.
pub(crate) fn time(name: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Nanos> {
    Ok(match Quantity::of(name, value)? {
        Quantity::Text(text) => parse_time(&text).map_err(|error| refused(name, &error))?,
        Quantity::Number(seconds) => Nanos((seconds * NANOS_PER_SEC as f64).round() as u64),
        Quantity::Unlimited => Nanos(u64::MAX),
    })
}
