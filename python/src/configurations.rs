//! Configurations of other tools.

use std::sync::Arc;

use fairlink_api::{ImportDoc, ImportOptions, Tool, import, json};
use fairlink_config::import::{Direction, Weights, mikrotik};
use pyo3::prelude::*;

use crate::error::Failed;
use crate::input::{Source, rate};

/// Imports a configuration; the document has the link files.
#[pyfunction]
#[pyo3(signature = (tool, sources, *, rate_of_link, direction, weights, as_is, part, queues, compare))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn import_configuration(
    py: Python<'_>,
    tool: &str,
    sources: Vec<PyRef<'_, Source>>,
    rate_of_link: Option<&Bound<'_, PyAny>>,
    direction: &str,
    weights: &str,
    as_is: bool,
    part: Option<String>,
    queues: Option<&str>,
    compare: bool,
) -> PyResult<String> {
    let unknown = |name, value: &str, known: &str| Failed::argument(name, format!("{value:?} is not one of {known}"));
    let queues = match queues {
        None => None,
        Some("tree") => Some(mikrotik::Queues::Tree),
        Some("simple") => Some(mikrotik::Queues::Simple),
        Some(other) => return Err(unknown("queues", other, "tree, simple").into()),
    };
    let tool = match tool {
        "libreqos" => Tool::Libreqos,
        "tc" => Tool::Tc { device: part },
        "mikrotik" => Tool::Mikrotik { queues, parent: part },
        "k8s" => Tool::K8s { node: part },
        "libvirt" => Tool::Libvirt,
        "pf" => Tool::Pf { interface: part },
        other => return Err(unknown("tool", other, "libreqos, tc, mikrotik, k8s, libvirt, pf").into()),
    };
    let options = ImportOptions {
        rate: rate_of_link.map(|value| rate("rate", value)).transpose()?,
        directions: match direction {
            "down" => vec![Direction::Down],
            "up" => vec![Direction::Up],
            "both" => vec![Direction::Down, Direction::Up],
            other => return Err(unknown("direction", other, "down, up, both").into()),
        },
        as_is,
        weights: match weights {
            "guarantee" => Weights::Guarantee,
            "ceiling" => Weights::Ceiling,
            "equal" => Weights::Equal,
            other => return Err(unknown("weights", other, "guarantee, ceiling, equal").into()),
        },
    };
    let sources: Vec<_> = sources.iter().map(|source| Arc::clone(&source.0)).collect();
    let made: Result<String, Failed> = py.detach(|| {
        let imported = import(&tool, &sources, &options)?;
        Ok(json(&ImportDoc::new(&tool, &imported, compare)?))
    });
    Ok(made?)
}
