//! The links of a process, each a gateway with its own thread. A reload of their files adds and removes links.
//!
//! A link is identified by its two interfaces, in the shared direction. If a gateway serves a link of the file already,
//! it continues, possibly under a new name, and is changed as in [`crate::gateway::reload`]. A link without a gateway
//! is opened; one that is no longer in the file is closed, as at any other end. A link is closed and reopened if it
//! begins or ceases to forward the other direction, because another link begins or ceases to share that.
//!
//! ```text
//! plan:     read the files, compare with what runs                            refused: nothing has changed
//! prepare:  each link that stays: its change, with the gateway's lock held     "
//!           each link that comes: all checks; opened where its interfaces are free     "
//! commit:   links that come on interfaces of links that go take their places, as --take-over does
//!           links that stay: each change between two packets
//!           links that come run, links that go end
//! ```
//!
//! After the first step of the commit, only two failures are possible: the kernel has no memory for a system call, or a
//! data thread does not answer. The error then names the changed links.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::gateway::config::GatewayConfig;
use crate::gateway::fail_open::keep::{self, Keeper};
use crate::gateway::links::Links;
use crate::gateway::liveness::Vitals;
use crate::gateway::log::LogEvent;
use crate::gateway::open_error::OpenError;
use crate::gateway::reload::{ReloadRequest, ReloadedLinks};
use crate::gateway::remote::Remote;
use crate::gateway::run::{Gateway, RunError};
use crate::gateway::stats::GatewayStats;
use crate::gateway::strays::Strays;

mod compare;
mod error;
mod reload;

pub use error::FleetError;

/// Number of removed links whose final statistics are kept; of earlier ones only the messages at their end are kept.
const ACCOUNTS: usize = 64;
/// Time for the first turn of an opened link before the reload continues.
const FIRST_TURN: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(1);

/// Reads the configuration of all links of a process, for [`Fleet::reload`].
///
/// ```no_run
/// use fairlink_config::link::{LinkFile, ReadOptions};
/// use fairlink_net::{Fleet, Gateway, GatewayConfig, Planner, ReloadRequest};
///
/// /// One link between two interfaces, by a file.
/// struct OneFile(&'static str);
///
/// impl Planner for OneFile {
///     fn plan(&self, text: Option<&(String, String)>) -> Result<Vec<GatewayConfig>, String> {
///         let link = match text {
///             Some((name, text)) => LinkFile::from_text(name, text.clone(), &ReadOptions::default()),
///             None => LinkFile::read(self.0, &ReadOptions::default()),
///         };
///         let link = link.map_err(|problems| problems.to_string())?;
///         let config = GatewayConfig::from_link_file(&link, "lan0", "wan0").map_err(|problems| problems.to_string())?;
///         Ok(vec![config])
///     }
///
///     fn taken(&mut self, _: Option<&(String, String)>) {}
/// }
///
/// let planner = OneFile("link.toml");
/// let config = planner.plan(None)?.remove(0);
/// let gateway = Gateway::open(config.clone())?;
/// let fleet = Fleet::start(vec![(config, gateway)], Box::new(planner))?;
/// // The file has changed: classes and rates follow, packets stay queued.
/// fleet.reload(&ReloadRequest::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Planner: Send {
    /// Returns the configurations of all links: from this file, given by name and text, or from the process's own
    /// files.
    ///
    /// # Errors
    /// The faults and their places, for the user.
    fn plan(&self, text: Option<&(String, String)>) -> Result<Vec<GatewayConfig>, String>;

    /// Called after the links were changed to this file.
    fn taken(&mut self, text: Option<&(String, String)>);
}

/// The end of a link.
#[derive(Debug)]
pub struct LinkEnd {
    /// Its name.
    pub link: String,
    /// True if a reload removed it.
    pub removed: bool,
    /// Its last statistics, or the failure that ended it.
    pub outcome: Result<GatewayStats, RunError>,
}

/// The links of a process; clones are the same.
#[derive(Clone, Debug)]
pub struct Fleet(Arc<Shared>);

struct Shared {
    links: Links,
    planner: Mutex<Box<dyn Planner>>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("links", &self.links).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    running: Vec<Running>,
    ended: Vec<LinkEnd>,
    /// True during a reload; others are refused then.
    reloading: bool,
    /// True when the process ends: no link is opened any more.
    ending: bool,
    /// Events of links, until they are read.
    news: Vec<LogEvent>,
    /// Counts changes of the list of links.
    generation: u64,
}

/// A gateway at work.
struct Running {
    name: String,
    /// The configuration that it was opened with.
    config: GatewayConfig,
    remote: Remote,
    vitals: Vitals,
    keeper: Keeper,
    /// For the maintenance thread.
    strays: Arc<Mutex<Strays>>,
    stop: Arc<AtomicBool>,
    /// True if a reload removes it.
    closing: bool,
    thread: JoinHandle<Result<GatewayStats, RunError>>,
}

impl Running {
    /// Runs it on a new thread.
    fn start(gateway: Gateway, config: GatewayConfig) -> Result<Self, OpenError> {
        let (remote, vitals, stop) = (gateway.remote(), gateway.vitals(), Arc::new(AtomicBool::new(false)));
        let keeper = gateway.keeper.clone();
        let name = config.link_name().to_owned();
        let thread = std::thread::Builder::new()
            .name(format!("link {name}"))
            .spawn({
                let stop = Arc::clone(&stop);
                move || gateway.run(&stop)
            })
            .map_err(OpenError::Thread)?;
        Ok(Self { name, config, remote, vitals, keeper, strays: Arc::default(), stop, closing: false, thread })
    }

    /// Returns true if it serves a link of the files.
    fn serves(&self) -> bool {
        !self.closing && !self.thread.is_finished()
    }

    fn end(self) -> LinkEnd {
        let outcome = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        LinkEnd { link: self.name, removed: self.closing, outcome }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the data thread of this gateway runs, or has ended.
    fn wait_for_turn(vitals: &Vitals, finished: impl Fn() -> bool) {
        let until = Instant::now() + FIRST_TURN;
        while vitals.since_turn().is_none() && !finished() && Instant::now() < until {
            std::thread::sleep(NAP);
        }
    }
}

/// Maintains the fail-open arrangements of the gateways and watches for unmatched frames, until the fleet is dropped or
/// all links have ended.
fn keep_whole(fleet: &Weak<Shared>) {
    loop {
        std::thread::sleep(keep::EVERY);
        let Some(shared) = fleet.upgrade() else { return };
        let state = shared.lock();
        let over = state.ending && state.running.iter().all(|running| running.thread.is_finished());
        let kept: Vec<(Keeper, Vitals)> =
            state.running.iter().map(|running| (running.keeper.clone(), running.vitals.clone())).collect();
        let watched: Vec<_> = state
            .running
            .iter()
            .map(|running| (running.remote.clone(), running.vitals.clone(), Arc::clone(&running.strays)))
            .collect();
        drop(state);
        // The kernel may answer slowly; requests for the state must not wait for it.
        for (keeper, vitals) in kept {
            keeper.look().into_iter().for_each(|event| vitals.say(event));
        }
        for (remote, vitals, strays) in watched {
            let mut strays = strays.lock().unwrap_or_else(PoisonError::into_inner);
            strays.look(&remote).into_iter().for_each(|event| vitals.say(event));
        }
        if over {
            return;
        }
    }
}

/// The right to reload, until this is dropped.
struct Turn<'a>(&'a Shared);

impl<'a> Turn<'a> {
    fn begin(shared: &'a Shared) -> Result<Self, FleetError> {
        let mut state = shared.lock();
        match (state.ending, state.reloading) {
            (true, _) => Err(FleetError::Ending),
            (_, true) => Err(FleetError::Busy),
            (false, false) => {
                state.reloading = true;
                Ok(Self(shared))
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().reloading = false;
    }
}

impl Fleet {
    /// Runs these gateways, each opened with the configuration beside it. A reload calls `planner`. Returns when all
    /// data threads run.
    ///
    /// # Errors
    /// [`OpenError::Thread`].
    pub fn start(gateways: Vec<(GatewayConfig, Gateway)>, planner: Box<dyn Planner>) -> Result<Self, OpenError> {
        let fleet = Self(Arc::new(Shared {
            links: Links::default(),
            planner: Mutex::new(planner),
            state: Mutex::new(State::default()),
        }));
        let mut state = fleet.0.lock();
        for (config, gateway) in gateways {
            match Running::start(gateway, config) {
                Ok(running) => state.running.push(running),
                Err(error) => {
                    state.end();
                    return Err(error);
                }
            }
        }
        for running in &state.running {
            Shared::wait_for_turn(&running.vitals, || running.thread.is_finished());
        }
        fleet.0.list(&mut state);
        drop(state);
        let weak = Arc::downgrade(&fleet.0);
        fleet.0.links.reload_by(Box::new(move |asked| {
            let shared = weak.upgrade().ok_or_else(|| FleetError::Ending.to_string())?;
            Self(shared).reload(asked).map_err(|error| error.to_string())
        }));
        let weak = Arc::downgrade(&fleet.0);
        std::thread::Builder::new()
            .name("fail-open".to_owned())
            .spawn(move || keep_whole(&weak))
            .map_err(OpenError::Thread)?;
        Ok(fleet)
    }

    /// The list of links, for the control socket and the metrics.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.0.links
    }

    /// Describes each link by its interfaces, with its name if there are several.
    #[must_use]
    pub fn ways(&self) -> Vec<String> {
        self.0.lock().ways().map(|(way, _)| way).collect()
    }

    /// Returns what a watchdog checks, by the links' names, and a number that changes with the links.
    #[must_use]
    pub fn vitals(&self) -> (u64, Vec<(String, Vitals)>) {
        let state = self.0.lock();
        let vitals = state.ways().map(|(_, running)| (running.name.clone(), running.vitals.clone())).collect();
        (state.generation, vitals)
    }

    /// Returns the messages about links that started or ended since the last call.
    #[must_use]
    pub fn news(&self) -> Vec<LogEvent> {
        let mut state = self.0.lock();
        state.settle();
        std::mem::take(&mut state.news)
    }

    /// Ends all links.
    pub fn end(&self) {
        self.0.lock().end();
    }

    /// Returns true if all links have ended, and none is about to start.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let state = self.0.lock();
        !state.reloading && state.running.iter().all(|running| running.thread.is_finished())
    }

    /// Ends all links and waits for that. Returns the accounts: those of links that ended before (the last 64), then
    /// the others in order.
    #[must_use]
    pub fn join(&self) -> Vec<LinkEnd> {
        self.end();
        let (running, ended) = loop {
            let mut state = self.0.lock();
            // The reloading thread sees that it ends, and finishes soon.
            if !state.reloading {
                break (std::mem::take(&mut state.running), std::mem::take(&mut state.ended));
            }
            drop(state);
            std::thread::sleep(NAP);
        };
        ended.into_iter().chain(running.into_iter().map(Running::end)).collect()
    }

    /// Reloads all links: changes those that stay, starts new ones and ends removed ones. A dry run only reports the
    /// changes.
    ///
    /// # Errors
    /// [`FleetError`]. Nothing has changed then, except for [`FleetError::Half`].
    pub fn reload(&self, asked: &ReloadRequest) -> Result<ReloadedLinks, FleetError> {
        let began = Instant::now();
        let reloaded = self.reload_once(asked);
        if !asked.dry_run {
            self.0.links.reloaded(reloaded.is_ok(), began);
        }
        reloaded
    }

    fn reload_once(&self, asked: &ReloadRequest) -> Result<ReloadedLinks, FleetError> {
        let _turn = Turn::begin(&self.0)?;
        let mut planner = self.0.planner.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = planner.plan(asked.text.as_ref()).map_err(FleetError::Plan)?;
        let reloaded = self.0.reload(plan, asked)?;
        if reloaded.committed {
            planner.taken(asked.text.as_ref());
        }
        Ok(reloaded)
    }
}

impl State {
    fn ways(&self) -> impl Iterator<Item = (String, &Running)> {
        let served = self.running.iter().filter(|running| !running.closing);
        let several = served.clone().count() > 1;
        served.map(move |running| {
            let way = running.config.way();
            (if several { format!("{}: {way}", running.name) } else { way }, running)
        })
    }

    fn end(&mut self) {
        self.ending = true;
        self.running.iter().for_each(|running| running.stop.store(true, Ordering::Relaxed));
    }

    /// Keeps the accounts of links that a reload has removed.
    fn settle(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].closing && self.running[at].thread.is_finished() {
                let end = self.running.remove(at).end();
                self.keep(end);
            } else {
                at += 1;
            }
        }
    }

    fn keep(&mut self, end: LinkEnd) {
        let event = match &end.outcome {
            Ok(stats) => LogEvent::info(format!("link {} has ended: {stats}", end.link)),
            Err(error) => LogEvent::error(format!("link {} has ended: {error}; {}", end.link, error.stats)),
        };
        self.news.push(event.of_link(end.link.as_str()));
        if self.ended.len() >= ACCOUNTS {
            self.ended.remove(0);
        }
        self.ended.push(end);
    }
}

#[cfg(test)]
mod tests;
