//! What a process of gateways keeps of its rights once its interfaces are open, and how it gives up the rest.
//!
//! Three things are taken away, each for all threads, those to come included:
//!
//! | | what is kept | since |
//! | --- | --- | --- |
//! | [`capabilities`] | those that reopen an interface, write heartbeats and answer on the sockets | always |
//! | [`files`] | the link files and those beside them, the control socket's directory, some settings of the network (landlock) | Linux 5.13 |
//! | [`calls`] | the system calls of the threads as they run; others are refused with `EPERM` and logged (seccomp) | Linux 4.14 |
//!
//! A kernel that has less takes away less, and a note says what. Nothing here ends a gateway: what is refused is an error like any other.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod calls;
mod capabilities;
mod files;

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::gateway::config::{BackendChoice, GatewayConfig};
use crate::gateway::fail_open::FailOpen;

/// What a process goes on needing after its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// Files that are read again by a reload.
    files: BTreeSet<PathBuf>,
    /// Where the control socket is, or is to be.
    control: Option<PathBuf>,
    /// Where metrics are served.
    metrics: Option<SocketAddr>,
    /// True if programs in the kernel are put in place again when an interface comes back.
    programs: bool,
    /// True if memory is registered with the kernel again when an interface comes back, as AF_XDP does.
    pinned: bool,
    /// True if a cable for the host's own traffic is made again.
    cables: bool,
}

impl Privileges {
    /// What these gateways need, with a control socket at `control` and metrics at `metrics`.
    #[must_use]
    pub fn of<'a>(
        configs: impl IntoIterator<Item = &'a GatewayConfig>,
        control: &Path,
        metrics: Option<SocketAddr>,
    ) -> Self {
        let mut needs = Self { control: Some(control.to_owned()), metrics, ..Self::default() };
        for config in configs {
            for source in config.link.iter().map(|link| link.source()) {
                needs.files.extend(std::iter::once(source.name()).chain(source.included()).map(PathBuf::from));
            }
            needs.pinned |= config.backend == BackendChoice::AfXdp;
            needs.programs |= needs.pinned || config.own_traffic || config.fail_open != FailOpen::Never;
            needs.cables |= config.own_traffic;
        }
        needs
    }

    /// Gives up whatever else this process may do. It is for a process that has opened its interfaces and has started no thread yet:
    /// threads that run keep their capabilities and their files.
    #[must_use]
    pub fn drop_others(&self) -> Dropped {
        let mut dropped = Dropped::default();
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads > 1 {
            dropped.notes.push(format!("{} threads that run already keep their rights", threads - 1));
        }
        // In this order: the last one forbids what the others do.
        match capabilities::keep(self) {
            Ok(kept) => dropped.kept = Some(kept),
            Err(why) => dropped.notes.push(format!("capabilities are kept: {why}")),
        }
        match files::close_others(self) {
            Ok(None) => dropped.files = true,
            Ok(Some(part)) => {
                dropped.files = true;
                dropped.notes.push(part);
            }
            Err(why) => dropped.notes.push(format!("all files may be opened: {why}")),
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
        let refused = calls::refuse_others(self);
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        let refused = Err(format!("those of {} are not known here", std::env::consts::ARCH));
        match refused {
            Ok(()) => dropped.calls = true,
            Err(why) => dropped.notes.push(format!("all system calls may be made: {why}")),
        }
        dropped
    }

    /// The directory that the control socket is in.
    fn control_directory(&self) -> Option<PathBuf> {
        self.control.as_deref().map(directory)
    }
}

/// The directory that the file at `path` is in.
fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The capabilities that are left, by name; `None` where they could not be dropped.
    pub kept: Option<Vec<String>>,
    /// True if only named files can be opened.
    pub files: bool,
    /// True if only named system calls can be made.
    pub calls: bool,
    /// What could not be taken away, and why, a sentence each.
    pub notes: Vec<String>,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match self.kept.as_deref() {
            None => "all capabilities".to_owned(),
            Some([]) => "no capabilities".to_owned(),
            Some(kept) => kept.join(", "),
        };
        write!(f, "keeps {kept}")?;
        if self.files {
            write!(f, "; other files than its own are closed to it")?;
        }
        if self.calls {
            write!(f, "; other system calls than its own are refused")?;
        }
        Ok(())
    }
}
