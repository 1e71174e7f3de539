//! Maintains the fail-open arrangement of a gateway. Most of it belongs to no process, so that an administrator can
//! remove it: `tc qdisc del dev IN clsact`, `nft flush ruleset`, `bpftool link detach`. That would show only after the
//! gateway ends, when nothing passes.
//!
//! A thread of the process ([`Fleet`](crate::gateway::Fleet)) checks it every [`EVERY`], installs missing parts, counts
//! these repairs and logs them.
//!
//! | part | checks |
//! | --- | --- |
//! | the wire | its filter leads to the other interface; the interface is promiscuous |
//! | the wire by nf_tables | its table has the rule that forwards; the interface is promiscuous |
//! | guards, the redirection, the stopper | each program is attached to its interface |
//!
//! The tables that keep wires of nf_tables idle belong to the gateway's socket; the kernel refuses changes by others.
//! The program of AF_XDP in the driver is not checked: without it frames pass unshaped, which the counters show.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::place::{Place, is_there};
use super::{table, wire};
use crate::gateway::log::LogEvent;
use crate::io::interface::Interface;
use crate::io::sys;

/// Interval between checks of the arrangement.
pub(in crate::gateway) const EVERY: Duration = Duration::from_secs(1);

/// The kernel's own path from one interface to another.
#[derive(Debug)]
pub(super) struct Way {
    from: (String, i32),
    to: (String, i32),
    /// True if it is a table of nf_tables, and not a filter.
    by_table: bool,
}

impl Way {
    pub(super) fn new(from: &Interface, to: &Interface, by_table: bool) -> Self {
        let [from, to] = [from, to].map(|interface| (interface.name.clone(), interface.index));
        Self { from, to, by_table }
    }

    /// Returns the missing part, or `None` if it is complete.
    fn fault(&self) -> io::Result<Option<String>> {
        let ((from, index), (to, target)) = (&self.from, &self.to);
        let fault = if self.by_table {
            (!table::is_laid(from)?).then(|| format!("the nftables rule that forwards from {from} to {to} was missing"))
        } else {
            match wire::target(*index)? {
                Some(Some(found)) if found == *target => None,
                Some(Some(_)) => Some(format!("the filter of {from} forwarded to an interface other than {to}")),
                Some(None) | None => Some(format!("the filter that forwards from {from} to {to} was missing")),
            }
        };
        Ok(match fault {
            None if sys::interface_flags(from)? & libc::IFF_PROMISC == 0 => {
                Some(format!("{from} was no longer promiscuous"))
            }
            fault => fault,
        })
    }

    fn restore(&self) -> io::Result<()> {
        let ((from, index), (_, target)) = (&self.from, &self.to);
        if self.by_table { table::lay(from, *target) } else { wire::lay((from, *index), *target).map(|_| ()) }
    }

    fn is_possible(&self) -> bool {
        [&self.from, &self.to].into_iter().all(is_there)
    }
}

/// All parts of one gateway's arrangement.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) ways: Vec<Way>,
    pub(super) places: Vec<Place>,
}

impl Parts {
    /// Checks and repairs. Passes each fault with the result of its repair to `found`.
    fn look(&mut self, mut found: impl FnMut(String, Result<(), String>)) {
        // The guard is before the wire in every arrangement: with the wire alone each frame would pass twice.
        for place in &mut self.places {
            if let Some(fault) = place.fault() {
                found(fault, place.restore().map_err(|error| error.to_string()));
            }
        }
        for way in &self.ways {
            // A failed query is repeated after a second.
            if let Ok(Some(fault)) = way.fault()
                && way.is_possible()
            {
                found(fault, way.restore().map_err(|error| error.to_string()));
            }
        }
    }
}

/// The parts, shared by their owner and the keeper.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedParts(Arc<Mutex<Parts>>);

impl SharedParts {
    pub(super) fn new(parts: Parts) -> Self {
        Self(Arc::new(Mutex::new(parts)))
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State of the arrangement at the last check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upkeep {
    /// Parts that were installed again.
    pub(crate) repairs: u64,
    /// True while a part is missing that could not be installed again.
    pub(crate) broken: bool,
}

#[derive(Debug, Default)]
struct Shared {
    /// `None` while there is nothing to maintain: before the first heartbeat, without an interface, and after the
    /// gateway's end.
    parts: Mutex<Option<SharedParts>>,
    repairs: AtomicU64,
    broken: AtomicBool,
    /// The failures reported last.
    told: Mutex<Vec<String>>,
}

/// Maintains the arrangement of one gateway, whatever its [`Hold`](super::Hold) is at the moment.
#[derive(Clone, Debug, Default)]
pub(in crate::gateway) struct Keeper(Arc<Shared>);

impl Keeper {
    pub(super) fn begin(&self, parts: &SharedParts) {
        *self.0.parts.lock().unwrap_or_else(PoisonError::into_inner) = Some(parts.clone());
    }

    /// Stops maintaining. A check in progress ends before this returns.
    pub(in crate::gateway) fn end(&self) {
        *self.0.parts.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Checks the arrangement and repairs it. Returns one message for each repair, and for each new failure.
    pub(in crate::gateway) fn look(&self) -> Vec<LogEvent> {
        let Shared { parts, repairs, broken, told } = &*self.0;
        // Held to the end, so that nothing is installed after the gateway has ended.
        let parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(shared) = &*parts else { return Vec::new() };
        let (mut news, mut failures) = (Vec::new(), Vec::new());
        shared.lock().look(|fault, done| match done {
            Ok(()) => {
                repairs.fetch_add(1, Ordering::Relaxed);
                news.push(LogEvent::warn(format!("fail-open repaired: {fault}; it was installed again")));
            }
            Err(why) => failures.push(format!(
                "fail-open is broken: {fault}, and reinstalling failed: {why}; until it is repaired, frames may not pass when this gateway ends"
            )),
        });
        broken.store(!failures.is_empty(), Ordering::Relaxed);
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        news.extend(failures.iter().filter(|failure| !told.contains(failure)).map(LogEvent::error));
        *told = failures;
        news
    }

    pub(in crate::gateway) fn upkeep(&self) -> Upkeep {
        Upkeep { repairs: self.0.repairs.load(Ordering::Relaxed), broken: self.0.broken.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::fail_open::programs::Programs;
    use crate::io::bpf::tests::{allowed, detach};

    #[test]
    fn a_guard_that_is_detached_is_attached_again_once_and_not_at_an_interface_that_is_another() {
        let Some(programs) = allowed(Programs::load(None)) else { return };
        let loopback = ("lo".to_owned(), sys::interface_index("lo").unwrap());
        let Some(place) = allowed(programs.guard((&loopback.0, loopback.1))) else { return };
        let parts = SharedParts::new(Parts { ways: Vec::new(), places: vec![place] });
        let keeper = Keeper::default();
        assert!(keeper.look().is_empty(), "there is nothing to keep yet");
        keeper.begin(&parts);
        assert!(keeper.look().is_empty(), "it is whole");
        detach(&parts.lock().places[0].link);
        let news = keeper.look();
        assert!(news.len() == 1 && news[0].message.contains("was no longer attached to lo"), "{news:?}");
        assert!(parts.lock().places[0].link.is_attached().unwrap());
        assert!(keeper.look().is_empty());
        assert_eq!(keeper.upkeep(), Upkeep { repairs: 1, broken: false });
        // The data thread waits for a lost interface and rebuilds its arrangement.
        detach(&parts.lock().places[0].link);
        parts.lock().places[0].interface.0 = "gone0".to_owned();
        assert!(keeper.look().is_empty());
        keeper.end();
        parts.lock().places[0].interface.0 = "lo".to_owned();
        assert!(keeper.look().is_empty(), "nothing is repaired after the end");
        assert!(!parts.lock().places[0].link.is_attached().unwrap());
    }
}
