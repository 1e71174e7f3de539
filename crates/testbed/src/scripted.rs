//! Sends a [script](fairlink_traffic::script) of the HTB text's generator: each flow out of its interface, with its
//! priority, as frames with a separate EtherType.

use std::sync::atomic::AtomicBool;

use fairlink_config::matching::SCRIPT_TYPE;
use fairlink_core::{ClassId, Nanos, Rate};
use fairlink_traffic::Script;
use schemars::JsonSchema;
use serde::Serialize;

use crate::generator::{Generator, GeneratorConfig, GeneratorError, GeneratorProgress, GeneratorReport, Lanes};
use fairlink_net::Headers;
use fairlink_net::{Clock, MonotonicClock};

/// Time between opening and the start, so that all interfaces start together.
const LEAD: Nanos = Nanos::from_millis(100);

/// A flow of a script has no interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow {flow} has no interface; write \"0 i {flow} eth0\" into the script, or give one for all flows without")]
pub struct NoInterface {
    /// The flow.
    pub flow: u32,
}

/// Report of one sending interface.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct InterfaceReport {
    /// The interface.
    pub interface: String,
    /// Flows as classes, by their numbers.
    #[serde(flatten)]
    pub report: GeneratorReport,
}

/// Generators for the flows of a script, one for each interface; `otherwise` is for flows that name none. Each flow is
/// a class with its number, called `flow 0`. Frames carry `run`.
///
/// # Errors
/// [`NoInterface`].
pub fn script_generators(
    script: &Script,
    otherwise: Option<&str>,
    run: u8,
    duration: Option<Nanos>,
) -> Result<Vec<GeneratorConfig>, NoInterface> {
    let start_ns = MonotonicClock::SHARED.now().0 + LEAD.0;
    let mut configs: Vec<GeneratorConfig> = Vec::new();
    for flow in &script.flows {
        let interface = flow.interface.as_deref().or(otherwise).ok_or(NoInterface { flow: flow.number })?;
        let class = ClassId(flow.number);
        let index = configs.iter().position(|config| config.interface == interface).unwrap_or_else(|| {
            configs.push(GeneratorConfig {
                interface: interface.to_owned(),
                classes: Vec::new(),
                names: Default::default(),
                sources: Vec::new(),
                seed: 1,
                greedy_rate: Rate::MAX,
                duration: duration.map_or(script.end, |duration| duration.min(script.end)),
                start_ns: Some(start_ns),
                run,
                lanes: Lanes::ByPriority(Vec::new()),
                fragment: false,
                kernel_stamps: false,
                cpu: None,
            });
            configs.len() - 1
        });
        let config = &mut configs[index];
        config.classes.push((class, Headers { bare: Some(SCRIPT_TYPE), ..Headers::udp(0) }));
        config.names.insert(class, format!("flow {}", flow.number));
        config.sources.extend(flow.sources(class));
        if let Lanes::ByPriority(priorities) = &mut config.lanes {
            priorities.push((class, flow.priority.unwrap_or(0)));
        }
    }
    Ok(configs)
}

/// Runs several generators at once. `progress` gets the first one's progress.
///
/// # Errors
/// The first [`GeneratorError`]; the others end at `stop`, which is set then.
pub fn run_together(
    generators: Vec<(String, Generator)>,
    stop: &AtomicBool,
    mut progress: impl FnMut(&GeneratorProgress),
) -> Result<Vec<InterfaceReport>, GeneratorError> {
    std::thread::scope(|scope| {
        let mut generators = generators.into_iter();
        let first = generators.next();
        let others: Vec<_> = generators
            .map(|(interface, generator)| {
                let run = move || {
                    let report = generator.run(stop, |_| ());
                    if report.is_err() {
                        stop.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                    report.map(|report| InterfaceReport { interface, report })
                };
                scope.spawn(run)
            })
            .collect();
        let first = first.map(|(interface, generator)| {
            let report = generator.run(stop, &mut progress);
            if report.is_err() {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            report.map(|report| InterfaceReport { interface, report })
        });
        let others = others.into_iter().map(|thread| thread.join().expect("a generator does not panic"));
        first.into_iter().chain(others).collect()
    })
}
