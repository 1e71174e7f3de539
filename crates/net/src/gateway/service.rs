//! Notifications to a service manager (sd_notify(3)): ready, alive, stopping. A message is a datagram of lines to the
//! socket that `NOTIFY_SOCKET` names. Without it no message is sent, and nothing fails.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use crate::io::clock::{Clock, MonotonicClock};

/// A service manager, if there is one.
#[derive(Debug, Default)]
pub struct Service {
    socket: Option<UnixDatagram>,
    /// Watchdog interval of the manager.
    every: Option<Duration>,
    told: Option<Instant>,
}

impl Service {
    /// Reads the manager's socket and watchdog interval from the environment.
    ///
    /// # Errors
    /// `NOTIFY_SOCKET` names a socket that cannot be used. [`Service::default`] sends no messages.
    pub fn from_environment() -> io::Result<Self> {
        let Some(name) =
            env::var_os("NOTIFY_SOCKET").and_then(|name| name.into_string().ok()).filter(|name| !name.is_empty())
        else {
            return Ok(Self::default());
        };
        let mut service = Self::at(&name)?;
        let number = |variable| env::var(variable).ok()?.parse::<u64>().ok();
        // The interval may be meant for another process.
        let ours = number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
        // By convention, twice as often as requested.
        service.every = number("WATCHDOG_USEC")
            .filter(|&micros| ours && micros > 0)
            .map(|micros| Duration::from_micros(micros / 2));
        Ok(service)
    }

    /// The manager that listens at `name`: a path, or `@` and an abstract name.
    fn at(name: &str) -> io::Result<Self> {
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect_addr(&address)?;
        Ok(Self { socket: Some(socket), ..Self::default() })
    }

    /// Reports that the gateway runs, with a short status text.
    pub fn ready(&self, status: &str) {
        self.notify(&format!("READY=1\nSTATUS={status}"));
    }

    /// Sends a short status text.
    pub fn status(&self, status: &str) {
        self.notify(&format!("STATUS={status}"));
    }

    /// Reports that the configuration is being read again; [`Service::ready`] reports the end of that.
    pub fn reloading(&self) {
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", MonotonicClock::SHARED.now().0 / 1000));
    }

    /// The gateway ends.
    pub fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    /// Sends a watchdog message, at most as often as needed, however often this is called.
    pub fn well(&mut self) {
        let now = Instant::now();
        if let Some(every) = self.every
            && self.told.is_none_or(|told| now - told >= every)
        {
            self.told = Some(now);
            self.notify("WATCHDOG=1");
        }
    }

    fn notify(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // Does not wait for a manager that does not listen.
            let _ = socket.send(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_hears_of_each_state_and_of_being_well_as_often_as_it_asks() {
        let name = format!("fairlink-service-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        manager.set_nonblocking(true).unwrap();
        let heard = || {
            let mut text = [0; 256];
            let length = manager.recv(&mut text).ok()?;
            Some(String::from_utf8_lossy(&text[..length]).into_owned())
        };
        let mut service = Service::at(&format!("@{name}")).unwrap();
        service.ready("in to out");
        assert_eq!(heard().unwrap(), "READY=1\nSTATUS=in to out");
        service.well();
        assert_eq!(heard(), None, "it was not requested");
        service.every = Some(Duration::from_secs(3600));
        service.well();
        service.well();
        assert_eq!((heard().as_deref(), heard()), (Some("WATCHDOG=1"), None));
        service.reloading();
        assert!(heard().unwrap().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        service.stopping();
        assert_eq!(heard().unwrap(), "STOPPING=1");
        drop(manager);
        service.stopping();
        assert!(Service::at("@fairlink-nobody-listens-here").is_err());
        Service::default().ready("there is no listener");
    }
}
