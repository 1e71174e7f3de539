//! Configurations of other tools.

use std::sync::Arc;

use fairlink_api::{ImportDoc, Refused, import, json};
use fairlink_config::import::{IMPORTS, OptionKind, Options, find};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::error::Failed;
use crate::input::{Source, rate};

/// Returns the names of the imports, each with usual names of its files.
pub(crate) fn imports() -> Vec<(&'static str, Vec<&'static str>)> {
    IMPORTS.iter().map(|info| (info.name, info.files.iter().map(|file| file.name).collect())).collect()
}

/// Imports a configuration; the document has the link files. Options are those of the command, with `_` for `-`.
#[pyfunction]
pub(crate) fn import_configuration(
    py: Python<'_>,
    tool: &str,
    sources: Vec<PyRef<'_, Source>>,
    options: &Bound<'_, PyDict>,
    compare: bool,
) -> PyResult<String> {
    let info = find(tool).map_err(Refused::from).map_err(Failed::from)?;
    let mut values = Options::default();
    for (key, value) in options.iter().filter(|(_, value)| !value.is_none()) {
        let key = key.extract::<String>()?.replace('_', "-");
        let option = info.option(&key).filter(|option| matches!(option.kind, OptionKind::Rate));
        values = if let Some(option) = option {
            values.with(&key, format!("{}bit", rate(option.key, &value)?.bps()))
        } else if let Ok(text) = value.cast::<PyString>() {
            values.with(&key, text.to_str()?)
        } else if let Ok(flag) = value.cast::<PyBool>() {
            if flag.is_true() { values.with(&key, true) } else { values }
        } else {
            let kind = value.get_type().name()?;
            return Err(PyTypeError::new_err(format!("{key}: a text or a bool is needed, not {kind}")));
        };
    }
    let sources: Vec<_> = sources.iter().map(|source| Arc::clone(&source.0)).collect();
    let made: Result<String, Failed> = py.detach(|| {
        let imported = import(info, &sources, &values)?;
        Ok(json(&ImportDoc::new(info, &imported, compare)?))
    });
    Ok(made?)
}
