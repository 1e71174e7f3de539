//! A reload of all links: prepared, then committed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairlink_config::link::LinkFile;

use super::compare::{Present, Steps, compare, receiving};
use super::{FleetError, Running, Shared, State};
use crate::gateway::config::{GatewayConfig, Processor};
use crate::gateway::links::moves_by_link;
use crate::gateway::open::probe;
use crate::gateway::open_error::OpenError;
use crate::gateway::reload::{LinkChange, ReloadError, ReloadRequest, ReloadedLink, ReloadedLinks, Request};
use crate::gateway::remote::Remote;
use crate::gateway::run::Gateway;

/// State of a link when the reload began.
struct Before {
    config: GatewayConfig,
    remote: Remote,
    serves: bool,
}

/// An opened link that does not run yet. Dropping it leaves nothing behind.
struct Opened(Option<(GatewayConfig, Gateway)>);

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some((_, gateway)) = self.0.take() {
            gateway.abandon();
        }
    }
}

impl Shared {
    /// Changes the links to `plan`, or reports what a reload would change.
    pub(super) fn reload(
        &self,
        mut plan: Vec<GatewayConfig>,
        asked: &ReloadRequest,
    ) -> Result<ReloadedLinks, FleetError> {
        if plan.is_empty() {
            return Err(FleetError::NoLinks);
        }
        let before: Vec<Before> = {
            let state = self.lock();
            let links = state.running.iter().filter(|running| !running.thread.is_finished());
            let seen = |running: &Running| Before {
                config: running.config.clone(),
                remote: running.remote.clone(),
                serves: running.serves(),
            };
            links.map(seen).collect()
        };
        let present: Vec<Present<'_>> =
            before.iter().map(|link| Present { config: &link.config, serves: link.serves }).collect();
        let steps = compare(&present, &plan).map_err(FleetError::Plan)?;
        place_threads(&mut plan, &before, &steps);
        let mut reloaded = report(&plan, &before, &steps);

        // Each of the following steps may be refused, and has changed nothing then.
        let kept: Vec<&Remote> = steps.kept.iter().map(|&(at, _)| &before[at].remote).collect();
        let moves =
            moves_by_link(&kept, &asked.moves).map_err(|source| FleetError::Link { link: String::new(), source })?;
        let mut prepared = Vec::with_capacity(steps.kept.len());
        for (&(at, place), moves) in steps.kept.iter().zip(&moves) {
            let link = plan[place].link.clone().ok_or(FleetError::NoLinks)?;
            let change = before[at].remote.prepare(Request::Link { link: &link, moves });
            prepared.push(change.map_err(|source| of_link(&plan, place, source))?);
        }
        let ours: Vec<String> = before.iter().flat_map(|link| receiving(&link.config)).cloned().collect();
        for &place in steps.free.iter().chain(&steps.replacing) {
            probe(plan[place].clone(), &ours).map_err(|error| refused(&plan[place], &error))?;
        }
        if asked.dry_run {
            let foreseen = prepared.into_iter().map(|change| change.foreseen());
            reloaded.links.iter_mut().zip(foreseen).for_each(|(link, change)| link.reloaded = change);
            return Ok(reloaded);
        }
        let mut opened = Vec::with_capacity(steps.free.len());
        for &place in &steps.free {
            let gateway = Gateway::open(plan[place].clone()).map_err(|error| refused(&plan[place], &error))?;
            reloaded.note(&plan[place], gateway.notes());
            opened.push(Opened(Some((plan[place].clone(), gateway))));
        }

        // From here on the reload has effects.
        if self.lock().ending {
            return Err(FleetError::Ending);
        }
        let mut changed: Vec<String> = Vec::new();
        let half = |why: String, changed: &[String]| match changed {
            [] => FleetError::Open(why),
            changed => FleetError::Half { why, changed: changed.join(", ") },
        };
        for &place in &steps.replacing {
            match self.replace(&plan[place]) {
                Ok(notes) => {
                    reloaded.note(&plan[place], &notes);
                    changed.push(format!("{} is open", plan[place].link_name()));
                }
                Err(error) => {
                    let why = refused(&plan[place], &error).to_string();
                    let restored = self.restore(&plan[place], &before);
                    self.list(&mut self.lock());
                    return Err(half(format!("{why}{restored}"), &changed));
                }
            }
        }
        for ((change, link), &(at, place)) in prepared.into_iter().zip(&mut reloaded.links).zip(&steps.kept) {
            match change.commit() {
                Ok(done) => {
                    link.reloaded = done;
                    changed.push(format!("{} was changed", link.link));
                    self.rename(&before[at].config, &plan[place]);
                }
                Err(error) => {
                    self.list(&mut self.lock());
                    return Err(half(of_link(&plan, place, error.into()).to_string(), &changed));
                }
            }
        }
        for mut link in opened {
            let Some((config, gateway)) = link.0.take() else { continue };
            let name = config.link_name().to_owned();
            self.run(gateway, config).map_err(|error| half(format!("link {name}: {error}"), &changed))?;
            changed.push(format!("{name} is open"));
        }
        let mut state = self.lock();
        for (at, _) in &steps.gone {
            state.close(&before[*at].config);
        }
        // Links that have ended by themselves are no longer in the files, or have been reopened.
        state.running.iter_mut().filter(|running| running.thread.is_finished()).for_each(Running::close);
        state.running.sort_by_key(|running| {
            plan.iter().position(|config| !running.closing && is_of(running, config)).unwrap_or(usize::MAX)
        });
        self.list(&mut state);
        reloaded.committed = true;
        Ok(reloaded)
    }

    /// Opens a link in the place of those that have its interfaces, and runs it.
    fn replace(&self, config: &GatewayConfig) -> Result<Vec<String>, OpenError> {
        let gateway = Gateway::open(GatewayConfig { take_over: true, ..config.clone() })?;
        let notes = gateway.notes().to_vec();
        let mut state = self.lock();
        let theirs: BTreeSet<&String> = receiving(config).collect();
        for running in state.running.iter_mut().filter(|running| running.serves()) {
            if receiving(&running.config).any(|interface| theirs.contains(interface)) {
                running.close();
            }
        }
        drop(state);
        self.run(gateway, config.clone())?;
        Ok(notes)
    }

    /// Reopens the links that `failed` was to replace. Returns the text for the error.
    fn restore(&self, failed: &GatewayConfig, before: &[Before]) -> String {
        let theirs: BTreeSet<&String> = receiving(failed).collect();
        let mut said = String::new();
        for link in before.iter().filter(|link| link.serves) {
            if !receiving(&link.config).any(|interface| theirs.contains(interface)) {
                continue;
            }
            self.lock().close(&link.config);
            let config = GatewayConfig { take_over: true, ..link.config.clone() };
            let again = Gateway::open(config).and_then(|gateway| self.run(gateway, link.config.clone()));
            said += &match again {
                Ok(()) => format!("; {} was reopened unchanged", link.config.link_name()),
                Err(error) => format!("; {} is closed and cannot be reopened: {error}", link.config.link_name()),
            };
        }
        said
    }

    /// Runs an opened gateway, unless the process is stopping.
    fn run(&self, gateway: Gateway, config: GatewayConfig) -> Result<(), OpenError> {
        let mut state = self.lock();
        let running = Running::start(gateway, config)?;
        if state.ending {
            running.stop.store(true, Ordering::Relaxed);
        }
        let (vitals, stop) = (running.vitals.clone(), Arc::clone(&running.stop));
        state.running.push(running);
        drop(state);
        Self::wait_for_turn(&vitals, || stop.load(Ordering::Relaxed));
        Ok(())
    }

    /// Updates a link that continues to its configuration in `plan`.
    fn rename(&self, before: &GatewayConfig, plan: &GatewayConfig) {
        let mut state = self.lock();
        let goes_on = |running: &&mut Running| running.serves() && is_of(running, before);
        if let Some(running) = state.running.iter_mut().find(goes_on) {
            running.name = plan.link_name().to_owned();
            running.config = plan.clone();
        }
    }

    /// Publishes the list of links.
    pub(super) fn list(&self, state: &mut State) {
        state.generation += 1;
        let served = state.running.iter().filter(|running| !running.closing);
        self.links.set_vitals(served.clone().map(|running| (running.name.clone(), running.vitals.clone())).collect());
        self.links.set(served.map(|running| (running.name.clone(), running.remote.clone())).collect());
    }
}

impl Running {
    /// Ends it, because the files no longer contain it.
    fn close(&mut self) {
        self.closing = true;
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl State {
    /// Ends the link that runs between these interfaces, or keeps the account of one that has ended.
    fn close(&mut self, config: &GatewayConfig) {
        if let Some(running) = self.running.iter_mut().find(|running| !running.closing && is_of(running, config)) {
            running.close();
        }
    }
}

fn is_of(running: &Running, config: &GatewayConfig) -> bool {
    let key = |config: &GatewayConfig| (config.input.clone(), config.output.clone(), config.reverse);
    key(&running.config) == key(config)
}

/// The error of a link that cannot be opened, with its place in the file.
fn refused(config: &GatewayConfig, error: &OpenError) -> FleetError {
    let message = format!("link {}: {error}", config.link_name());
    let place = |link: &Arc<LinkFile>| link.refused(message.clone()).lines().trim_end().to_owned();
    FleetError::Open(config.link.as_ref().map(place).unwrap_or(message))
}

/// The error of a link that refuses its change.
fn of_link(plan: &[GatewayConfig], place: usize, source: ReloadError) -> FleetError {
    // A finding has its own place.
    let named = plan.len() > 1 && !matches!(source, ReloadError::File(_));
    FleetError::Link { link: if named { format!("link {}: ", plan[place].link_name()) } else { String::new() }, source }
}

/// Gives each new link the processor with the fewest others, if each was to have its own.
fn place_threads(plan: &mut [GatewayConfig], before: &[Before], steps: &Steps) {
    let mut used: Vec<usize> = Vec::new();
    for &(at, place) in &steps.kept {
        plan[place].processor = before[at].config.processor;
        used.extend(place_of(&plan[place]));
    }
    for &place in steps.free.iter().chain(&steps.replacing) {
        if place_of(&plan[place]).is_some() {
            let free = (0..).find(|place| !used.contains(place)).unwrap_or(0);
            plan[place].processor = Processor::BeforeLast(free);
            used.push(free);
        }
    }
}

fn place_of(config: &GatewayConfig) -> Option<usize> {
    match config.processor {
        Processor::BeforeLast(place) => Some(place),
        _ => None,
    }
}

/// Lists the links that start, stay and end; changes of those that stay are not known yet.
fn report(plan: &[GatewayConfig], before: &[Before], steps: &Steps) -> ReloadedLinks {
    let change = |config: &GatewayConfig, why: Option<String>| LinkChange {
        link: config.link_name().to_owned(),
        input: config.input.clone(),
        output: config.output.clone(),
        why,
        notes: Vec::new(),
    };
    let mut coming: Vec<usize> = steps.free.iter().chain(&steps.replacing).copied().collect();
    coming.sort_unstable();
    ReloadedLinks {
        links: steps
            .kept
            .iter()
            .map(|&(at, place)| {
                let [was, link] = [&before[at].config, &plan[place]].map(|config| config.link_name().to_owned());
                ReloadedLink { was: (was != link).then_some(was), link, ..ReloadedLink::default() }
            })
            .collect(),
        opened: coming
            .into_iter()
            .map(|place| {
                let notes = plan[place].link.iter().flat_map(|link| &link.warnings).map(|warning| warning.line());
                LinkChange { notes: notes.collect(), ..change(&plan[place], None) }
            })
            .collect(),
        closed: steps.gone.iter().map(|(at, why)| change(&before[*at].config, why.clone())).collect(),
        committed: false,
    }
}

impl ReloadedLinks {
    /// Adds notes of a new link.
    fn note(&mut self, config: &GatewayConfig, notes: &[String]) {
        let of_it = |link: &&mut LinkChange| (&link.input, &link.output) == (&config.input, &config.output);
        if let Some(link) = self.opened.iter_mut().find(of_it) {
            link.notes.extend_from_slice(notes);
        }
    }
}
