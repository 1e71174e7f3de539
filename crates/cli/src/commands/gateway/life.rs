//! Life cycle of a gateway: forwarding while it is not running, take-over, waiting for interfaces, and the watchdog.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use fairlink_core::Nanos;
use fairlink_net::control::Access;
use fairlink_net::{
    Control, ControlError, FailOpen, Gateway, GatewayConfig, InterfaceError, InterfaceStats, Links, LogEvent,
    OpenError, Service, Vitals, Watchdog, close_wires, remove_cables,
};

use crate::log;
use fairlink_terminal::args::{one_of, time};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::note;

/// Interval of polling for a missing interface at the start.
const NAP: Duration = Duration::from_millis(100);
/// Time for a replaced gateway to release its control socket and metrics port.
const PATIENCE: Duration = Duration::from_secs(10);

/// Behaviour without a running gateway, and conditions to wait for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Life {
    /// The kernel forwards frames, unshaped, while the gateway is not running: auto (if possible), require, never.
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = one_of(FailOpen::ALL.map(|mode| (mode.name(), mode))), conflicts_with = "no_fail_open")]
    fail_open: FailOpen,
    /// No frame passes while the gateway is not running; the same as --fail-open never.
    #[arg(long)]
    no_fail_open: bool,
    /// Replace a gateway that runs on the same interfaces; it ends. No frame is lost if both fail open.
    #[arg(long)]
    take_over: bool,
    /// Wait for interfaces that do not exist or are down at the start.
    #[arg(long)]
    wait_for_interface: bool,
    /// End with exit code 1 when an interface goes down or is removed, instead of waiting for it.
    #[arg(long)]
    exit_when_gone: bool,
    /// Report a stall when queued frames make no progress for this long [default: 500ms].
    #[arg(long, value_name = "TIME", value_parser = time)]
    stall_after: Option<Nanos>,
    /// Do not start: remove the programs and rules that a gateway with fail-open left on these interfaces, so that no
    /// frame passes, and the cable that a killed gateway with --egress left.
    #[arg(long, value_name = "IF", num_args = 1..)]
    close: Vec<String>,
}

impl Life {
    /// Returns true if nothing is to be started.
    pub(super) fn closes(&self) -> bool {
        !self.close.is_empty()
    }

    /// Removes the remains of gateways.
    pub(super) fn close(&self) -> Result<(), CliError> {
        let names = || self.close.iter().map(String::as_str);
        let closed = close_wires(names()).map_err(CliError::wrong)?;
        let removed = remove_cables(names()).map_err(CliError::wrong)?;
        if !closed.is_empty() {
            note(format!("the kernel no longer forwards frames received on {}", closed.join(" or ")));
        }
        if !removed.is_empty() {
            note(format!("removed the virtual cable for traffic sent on {}", removed.join(" and ")));
        }
        if closed.is_empty() && removed.is_empty() {
            note("nothing to remove: no gateway left anything on these interfaces");
        }
        Ok(())
    }

    pub(super) fn apply(&self, config: &mut GatewayConfig) {
        config.fail_open = if self.no_fail_open { FailOpen::Never } else { self.fail_open };
        config.take_over = self.take_over;
        config.wait_for_interfaces = !self.exit_when_gone;
        config.stall_after = self.stall_after.unwrap_or(config.stall_after);
    }

    /// Opens the gateway; if requested, waits for missing interfaces.
    pub(super) fn open(&self, config: GatewayConfig, stop: &AtomicBool) -> Result<Gateway, CliError> {
        let mut told = false;
        loop {
            match Gateway::open(config.clone()) {
                Err(OpenError::Interface(why @ (InterfaceError::Missing { .. } | InterfaceError::Down { .. })))
                    if self.wait_for_interface =>
                {
                    if stop.load(Ordering::Relaxed) {
                        return Err(CliError::Failed(anyhow!("stopped while waiting: {why}")));
                    }
                    if !std::mem::replace(&mut told, true) {
                        log::write(&LogEvent::warn(format!("{why}; waiting for it")).of_link(config.link_name()));
                    }
                    std::thread::sleep(NAP);
                }
                opened => return opened.map_err(CliError::wrong),
            }
        }
    }

    /// Calls `start`. If this gateway replaces another, retries until the other has ended.
    pub(super) fn patiently<T, E>(&self, start: impl Fn() -> Result<T, E>) -> Result<T, E> {
        let until = Instant::now() + PATIENCE;
        loop {
            match start() {
                Err(_) if self.take_over && Instant::now() < until => std::thread::sleep(NAP),
                started => return started,
            }
        }
    }

    /// Serves the control socket at `path`; if this gateway replaces another, as soon as that one has released it.
    pub(super) fn control(&self, path: &Path, access: Access, links: &Links) -> Result<Desk, CliError> {
        match Control::start_for(path, access, links.clone()) {
            Err(ControlError::InUse { .. }) if self.take_over => {
                Ok(Desk { path: path.to_owned(), access, control: None, until: Some(Instant::now() + PATIENCE) })
            }
            control => {
                let control = control.map_err(CliError::wrong)?;
                Ok(Desk { path: path.to_owned(), access, control: Some(control), until: None })
            }
        }
    }
}

/// A control socket, perhaps one that another gateway still has.
#[derive(Debug)]
pub(super) struct Desk {
    path: PathBuf,
    access: Access,
    control: Option<Control>,
    /// End of the retries; `None` after it.
    until: Option<Instant>,
}

impl Desk {
    /// Retries if there is no socket yet.
    pub(super) fn look(&mut self, links: &Links) {
        let Some(until) = self.until else { return };
        match Control::start_for(&self.path, self.access, links.clone()) {
            Ok(control) => (self.control, self.until) = (Some(control), None),
            Err(error) if Instant::now() >= until => {
                log::write(&LogEvent::error(format!("no control socket: {error}")));
                self.until = None;
            }
            Err(_) => {}
        }
    }
}

/// Describes the backends of the interfaces.
pub(super) fn backends(gateway: &Gateway) -> String {
    let told = gateway.interfaces().into_iter().map(|InterfaceStats { name, backend, zero_copy }| {
        let how = match (backend.as_str(), zero_copy) {
            ("af_xdp", true) => " (zero-copy)",
            ("af_xdp", false) => " (copies)",
            _ => "",
        };
        format!("{name} by {backend}{how}")
    });
    let why = gateway.backend_reason().map_or(String::new(), |why| format!(" (auto: {why})"));
    format!("backends: {}{why}", told.collect::<Vec<_>>().join(", "))
}

/// Describes the configuration of a gateway.
pub(super) fn details(config: &GatewayConfig) -> String {
    format!(
        "scheduler {}, {}, {}, pacing {}, data thread on processor {:?}",
        config.scheduler.name,
        human::count(config.tree.classes().len(), "class", "classes"),
        human::count(config.matches.len(), "match", "matches"),
        config.pacing.name(),
        config.processor
    )
}

/// Describes the forwarding while the gateway is not running.
pub(super) fn fail_open(gateway: &Gateway, own_traffic: bool) -> String {
    match &gateway.fail_open().by {
        Some(by) if own_traffic => {
            format!(
                "shapes traffic that this host sends (by {by}); while the gateway is not running, it leaves unshaped"
            )
        }
        Some(by) => format!(
            "fail-open (by {by}): while the gateway is not running, also after a clean end, the kernel forwards frames unshaped; `fairlink gateway --close IF IF` undoes this"
        ),
        None => "not fail-open: while the gateway is not running, no frame passes".to_owned(),
    }
}

/// Monitors these gateways for the service manager.
pub(super) fn watchdog(gateways: Vec<(String, Vitals)>) -> Watchdog {
    let service = Service::from_environment().unwrap_or_else(|error| {
        let text = format!("cannot notify the service manager at NOTIFY_SOCKET: {error}");
        log::write(&LogEvent::warn(text));
        Service::default()
    });
    Watchdog::new(gateways, service)
}
