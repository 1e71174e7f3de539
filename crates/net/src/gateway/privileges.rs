//! Drops the privileges of a gateway process that it does not need after its interfaces are open.
//!
//! Three kinds of privileges are dropped, each for all threads, including later ones:
//!
//! | kind | kept | since |
//! | --- | --- | --- |
//! | [`capabilities`] | those that reopen an interface, write heartbeats and answer on the sockets | always |
//! | [`files`] | the link files and their directories, the control socket's directory, some settings of the network (landlock) | Linux 5.13 |
//! | [`calls`] | the system calls of the threads as they run; others are refused with `EPERM` and logged (seccomp) | Linux 4.14 |
//!
//! An older kernel drops fewer, and a note says which. None of this ends a gateway: a refused operation is an ordinary
//! error.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod calls;
mod capabilities;
mod files;

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::gateway::choice::Choice;
use crate::gateway::config::GatewayConfig;
use crate::gateway::fail_open::FailOpen;

/// Needs of a process after its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// Files that a reload reads again.
    files: BTreeSet<PathBuf>,
    /// Path of the control socket, present or future.
    control: Option<PathBuf>,
    /// Addresses of the servers of metrics and page.
    addresses: Vec<SocketAddr>,
    /// True if programs in the kernel are attached again when an interface comes back.
    programs: bool,
    /// True if memory is registered with the kernel again when an interface comes back, as AF_XDP does.
    pinned: bool,
    /// True if a cable for the host's own traffic may be recreated.
    cables: bool,
}

impl Privileges {
    /// Returns the needs of these gateways, with a control socket at `control` and servers at `addresses`.
    #[must_use]
    pub fn for_gateways<'a>(
        configs: impl IntoIterator<Item = &'a GatewayConfig>,
        control: &Path,
        addresses: &[SocketAddr],
    ) -> Self {
        let mut needs = Self { control: Some(control.to_owned()), addresses: addresses.to_vec(), ..Self::default() };
        for config in configs {
            for source in config.link.iter().map(|link| link.source()) {
                needs.files.extend(std::iter::once(source.name()).chain(source.included()).map(PathBuf::from));
            }
            needs.pinned |= Choice::may_be_af_xdp(config);
            needs.programs |= needs.pinned || config.own_traffic || config.fail_open != FailOpen::Never;
            needs.cables |= config.own_traffic;
        }
        needs
    }

    /// Drops all other privileges of this process. Call it after the interfaces are open and before any thread is
    /// started: running threads keep their capabilities and their files.
    #[must_use]
    pub fn drop_others(&self) -> Dropped {
        let mut dropped = Dropped::default();
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads > 1 {
            dropped.notes.push(format!("{} threads were already running and keep their rights", threads - 1));
        }
        // In this order, because the last step forbids the others.
        match capabilities::keep(self) {
            Ok(kept) => dropped.kept = Some(kept),
            Err(why) => dropped.notes.push(format!("capabilities were not dropped: {why}")),
        }
        match files::close_others(self) {
            Ok(None) => dropped.files = true,
            Ok(Some(part)) => {
                dropped.files = true;
                dropped.notes.push(part);
            }
            Err(why) => dropped.notes.push(format!("file access is not restricted: {why}")),
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
        let refused = calls::refuse_others(self);
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        let refused = Err(format!("those of {} are not known here", std::env::consts::ARCH));
        match refused {
            Ok(()) => dropped.calls = true,
            Err(why) => dropped.notes.push(format!("system calls are not restricted: {why}")),
        }
        dropped
    }

    /// The directory of the control socket.
    fn control_directory(&self) -> Option<PathBuf> {
        self.control.as_deref().map(directory)
    }
}

/// The directory of the file at `path`.
fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Result of dropping privileges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Names of the capabilities that were kept; `None` if none could be dropped.
    pub kept: Option<Vec<String>>,
    /// True if only named files can be opened.
    pub files: bool,
    /// True if only named system calls can be made.
    pub calls: bool,
    /// Privileges that could not be dropped, with the reasons, one sentence each.
    pub notes: Vec<String>,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match self.kept.as_deref() {
            None => "all capabilities".to_owned(),
            Some([]) => "no capabilities".to_owned(),
            Some(kept) => format!("capabilities {}", kept.join(", ")),
        };
        write!(f, "sandboxed: {kept}")?;
        if self.files {
            write!(f, "; no other files")?;
        }
        if self.calls {
            write!(f, "; syscall filter on")?;
        }
        Ok(())
    }
}
