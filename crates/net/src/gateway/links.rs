//! The links of a process, for its servers: the control socket, the metrics and the page.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::gateway::liveness::Vitals;
use crate::gateway::log::LogEvent;
use crate::gateway::reload::{ReloadError, ReloadRequest, ReloadedLink, ReloadedLinks, Request};
use crate::gateway::remote::Remote;

/// The links that a process serves, by name, in their order. Links may open and close while it runs; clones share the list.
#[derive(Clone, Debug, Default)]
pub struct Links(Arc<Inner>);

/// Reloads all links.
pub(super) type Reload = dyn Fn(&ReloadRequest) -> Result<ReloadedLinks, String> + Send + Sync;

#[derive(Default)]
struct Inner {
    list: Mutex<Vec<(String, Remote)>>,
    /// Opens and closes links on a reload; absent if the links are fixed.
    reload: OnceLock<Box<Reload>>,
    /// The data threads, by the names of their links.
    vitals: Mutex<Vec<(String, Vitals)>>,
    reloads: Mutex<Reloads>,
    /// Messages of the servers that are not logged yet.
    news: Mutex<Vec<LogEvent>>,
}

/// Reloads of all links so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) last: Option<LastReload>,
}

/// The last reload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastReload {
    pub(crate) done: bool,
    pub(crate) at: SystemTime,
    pub(crate) took: Duration,
}

/// Most messages that are kept until they are logged; later ones are lost.
const MOST_NEWS: usize = 64;

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("list", &self.list).finish_non_exhaustive()
    }
}

impl Links {
    /// Makes the list.
    #[must_use]
    pub fn new(links: Vec<(String, Remote)>) -> Self {
        Self(Arc::new(Inner { list: Mutex::new(links), ..Inner::default() }))
    }

    /// Returns the current links.
    #[must_use]
    pub fn list(&self) -> Vec<(String, Remote)> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the links.
    pub fn set(&self, links: Vec<(String, Remote)>) {
        let before = std::mem::replace(&mut *self.0.list.lock().unwrap_or_else(PoisonError::into_inner), links);
        drop(before);
    }

    /// Replaces the data threads.
    pub(super) fn set_vitals(&self, vitals: Vec<(String, Vitals)>) {
        *self.0.vitals.lock().unwrap_or_else(PoisonError::into_inner) = vitals;
    }

    /// Returns the reasons why a link is not well, a line each. A link is well while its data thread turns and no direction has stalled.
    #[must_use]
    pub fn ailing(&self) -> Vec<String> {
        self.of_vitals(|vitals| {
            (!vitals.is_well()).then_some("does not work: its data thread does not turn, or a direction has stalled")
        })
    }

    /// Returns the reasons why a link is not ready, a line each. A link is ready while it is well and has its interfaces.
    #[must_use]
    pub fn unready(&self) -> Vec<String> {
        let mut why = self.ailing();
        why.extend(self.of_vitals(|vitals| match vitals.since_turn() {
            None => Some("does not run"),
            Some(_) if vitals.is_without_interface() => Some("waits for an interface"),
            Some(_) => None,
        }));
        if self.list().is_empty() {
            why.push("no link is served".to_owned());
        }
        why
    }

    fn of_vitals(&self, why: impl Fn(&Vitals) -> Option<&'static str>) -> Vec<String> {
        let vitals = self.0.vitals.lock().unwrap_or_else(PoisonError::into_inner);
        vitals.iter().filter_map(|(name, vitals)| Some(format!("link {name} {}", why(vitals)?))).collect()
    }

    /// Counts a reload that began at `began`. Dry runs do not count.
    pub(super) fn reloaded(&self, done: bool, began: Instant) {
        let mut reloads = self.0.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        *(if done { &mut reloads.done } else { &mut reloads.refused }) += 1;
        reloads.last = Some(LastReload { done, at: SystemTime::now(), took: began.elapsed() });
    }

    pub(crate) fn reloads(&self) -> Reloads {
        self.0.reloads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Queues a message for the log. At most 64 wait; more are lost.
    pub fn say(&self, event: LogEvent) {
        let mut news = self.0.news.lock().unwrap_or_else(PoisonError::into_inner);
        if news.len() < MOST_NEWS {
            news.push(event);
        }
    }

    /// Returns the messages of the servers since the last call.
    #[must_use]
    pub fn news(&self) -> Vec<LogEvent> {
        std::mem::take(&mut *self.0.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the function that reloads all links.
    pub(super) fn reload_by(&self, reload: Box<Reload>) {
        // Set once, by the fleet.
        let _ = self.0.reload.set(reload);
    }

    /// Reloads the link that `asked` names, or all of them: a [`Fleet`](crate::Fleet) opens and closes links, too; without one, each link
    /// takes its change, or none does.
    ///
    /// # Errors
    /// The reason, for the user.
    pub fn reload(&self, asked: &ReloadRequest) -> Result<ReloadedLinks, String> {
        match (&asked.link, self.0.reload.get()) {
            (None, Some(reload)) => reload(asked),
            (None, None) => reload_each(&self.list(), asked),
            (Some(name), _) => reload_each(&[(name.clone(), self.find(Some(name))?)], asked),
        }
    }

    /// Returns the link called `name`, or the only link without a name.
    ///
    /// # Errors
    /// As text, with the names of the existing links.
    pub fn find(&self, name: Option<&str>) -> Result<Remote, String> {
        let mut links = self.list();
        let names = || links.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        match name {
            None if links.len() == 1 => Ok(links.remove(0).1),
            None if links.is_empty() => Err("no link is served now".to_owned()),
            None => Err(format!("there are several links; name one: {}", names())),
            Some(name) => match links.iter().position(|(link, _)| link == name) {
                Some(at) => Ok(links.remove(at).1),
                None => Err(format!("there is no link {name:?}; there are: {}", names())),
            },
        }
    }
}

/// Reads, prepares and commits the change of each link. No link changes if one change cannot be prepared.
fn reload_each(links: &[(String, Remote)], asked: &ReloadRequest) -> Result<ReloadedLinks, String> {
    let of_link = |name: &String, error: &dyn std::fmt::Display| match links.len() {
        1 => error.to_string(),
        _ => format!("link {name}: {error}"),
    };
    let remotes: Vec<&Remote> = links.iter().map(|(_, remote)| remote).collect();
    let moves = moves_by_link(&remotes, &asked.moves).map_err(|error| error.to_string())?;
    let mut files = Vec::with_capacity(links.len());
    for (name, remote) in links {
        files.push(remote.read(asked.text.as_ref()).map_err(|error| of_link(name, &error))?);
    }
    let mut prepared = Vec::with_capacity(links.len());
    for (((name, remote), link), moves) in links.iter().zip(&files).zip(&moves) {
        prepared.push(remote.prepare(Request::Link { link, moves }).map_err(|error| of_link(name, &error))?);
    }
    let mut reloaded = ReloadedLinks { committed: !asked.dry_run, ..ReloadedLinks::default() };
    for ((name, _), change) in links.iter().zip(prepared) {
        let done = match asked.dry_run {
            true => Ok(change.foreseen()),
            false => change.commit(),
        }
        .map_err(|error| {
            let changed: Vec<&str> = reloaded.links.iter().map(|link| link.link.as_str()).collect();
            match changed.is_empty() {
                true => of_link(name, &error),
                false => format!("{}; changed before it: {}", of_link(name, &error), changed.join(", ")),
            }
        })?;
        reloaded.links.push(ReloadedLink { link: name.clone(), was: None, reloaded: done });
    }
    Ok(reloaded)
}

/// Returns for each of `gateways` those of `moves` whose class it has. A single gateway gets all of them, because its own error lists its
/// classes.
///
/// # Errors
/// [`ReloadError::NoClass`] if no gateway has a class.
pub(super) fn moves_by_link(
    gateways: &[&Remote],
    moves: &[(String, String)],
) -> Result<Vec<Vec<(String, String)>>, ReloadError> {
    if gateways.len() == 1 {
        return Ok(vec![moves.to_vec()]);
    }
    let names: Vec<Vec<String>> = gateways.iter().map(|gateway| gateway.generation().names.clone()).collect();
    if let Some((name, _)) = moves.iter().find(|(old, _)| !names.iter().any(|names| names.contains(old))) {
        return Err(ReloadError::NoClass { name: name.clone(), when: "before", classes: names.concat() });
    }
    let of = |names: &Vec<String>| moves.iter().filter(|(old, _)| names.contains(old)).cloned().collect();
    Ok(names.iter().map(of).collect())
}

/// A process with one link, under the link's own name.
impl From<Remote> for Links {
    fn from(remote: Remote) -> Self {
        Self::new(vec![(remote.generation().link.clone(), remote)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::account::Generation;
    use crate::gateway::remote::Publisher;

    #[test]
    fn a_link_is_found_by_its_name_and_the_only_one_without() {
        let publisher = Publisher::new(Generation::flat(1));
        let one = Links::from(publisher.remote());
        assert!(one.find(None).is_ok() && one.find(Some("out")).is_ok());
        assert_eq!(one.find(Some("up")).unwrap_err(), "there is no link \"up\"; there are: out");
        let clone = one.clone();
        one.set(vec![("up".to_owned(), publisher.remote()), ("down".to_owned(), publisher.remote())]);
        assert_eq!(clone.find(None).unwrap_err(), "there are several links; name one: up, down");
        assert!(clone.find(Some("down")).is_ok());
        one.set(Vec::new());
        assert_eq!(clone.find(None).unwrap_err(), "no link is served now");
    }
    #[test]
    fn health_is_that_of_the_data_threads_and_readiness_asks_for_interfaces_too() {
        use crate::gateway::liveness::Liveness;
        let links = Links::default();
        assert!(links.ailing().is_empty());
        assert_eq!(links.unready(), ["no link is served"]);
        let publisher = Publisher::new(Generation::flat(2));
        let mut liveness = Liveness::new(fairlink_core::Nanos::from_secs(1));
        links.set(vec![("wan".to_owned(), publisher.remote())]);
        links.set_vitals(vec![("wan".to_owned(), liveness.vitals())]);
        assert_eq!(links.unready(), ["link wan does not run"], "it has not begun");
        let now = || crate::io::clock::Clock::now(&crate::io::clock::MonotonicClock::SHARED);
        liveness.turn(now(), now().0 + 3_600_000_000_000);
        assert!(links.unready().is_empty());
        liveness.lost("gone".to_owned());
        assert!(links.ailing().is_empty(), "it works, and waits");
        assert_eq!(links.unready(), ["link wan waits for an interface"]);
        liveness.turn(now(), 1);
        let ailing = links.ailing();
        assert!(ailing.len() == 1 && ailing[0].starts_with("link wan does not work"), "its last turn is long ago");
    }
}
