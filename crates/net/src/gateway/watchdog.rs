//! Watches gateways from outside of their data threads: reports events, and notifies a service manager while all of
//! them are alive.

use fairlink_core::Nanos;

use crate::gateway::fail_open::STALE;
use crate::gateway::liveness::{Vitals, time};
use crate::gateway::log::LogEvent;
use crate::gateway::service::Service;

/// Watches the gateways of a process.
#[derive(Debug)]
pub struct Watchdog {
    gateways: Vec<Watched>,
    service: Service,
}

#[derive(Debug)]
struct Watched {
    name: String,
    vitals: Vitals,
    /// True if it was reported that its data thread does not run.
    pausing: bool,
}

impl Watchdog {
    /// Watches `gateways`, by their names, for `service`.
    #[must_use]
    pub fn new(gateways: Vec<(String, Vitals)>, service: Service) -> Self {
        let gateways = gateways.into_iter();
        Self { gateways: gateways.map(|(name, vitals)| Watched { name, vitals, pausing: false }).collect(), service }
    }

    /// Replaces the watched gateways. Events of one that continues are not reported again.
    pub fn set(&mut self, gateways: Vec<(String, Vitals)>) {
        let before = std::mem::take(&mut self.gateways);
        let pauses = |vitals: &Vitals| before.iter().any(|watched| watched.pausing && watched.vitals.is_same(vitals));
        let watch = |(name, vitals)| Watched { name, pausing: pauses(&vitals), vitals };
        self.gateways = gateways.into_iter().map(watch).collect();
    }

    /// Checks all gateways. Call it several times a second. Returns the messages since the last call.
    pub fn look(&mut self) -> Vec<LogEvent> {
        let mut news = Vec::new();
        for Watched { name, vitals, pausing } in &mut self.gateways {
            let since = vitals.since_turn().unwrap_or_default();
            let stale = since.as_nanos() > u128::from(STALE.0);
            if stale && !*pausing {
                let text = format!("the data thread has not run for {}", time(Nanos(since.as_nanos() as u64)));
                news.push(LogEvent::warn(text).of_link(name.as_str()));
            }
            *pausing = stale;
            news.extend(vitals.messages().into_iter().map(|event| event.of_link(name.as_str())));
        }
        if self.gateways.iter().all(|gateway| gateway.vitals.is_well()) {
            self.service.well();
        }
        if let Some(last) = news.last() {
            self.service.status(&last.to_string());
        }
        news
    }

    /// The service manager.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }
}
