//! Drops capabilities (capabilities(7)) of this thread and of those that it starts.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use caps::{CapSet, Capability, CapsHashSet};

use super::Privileges;

/// Capabilities that override file modes.
const PAST_MODES: [Capability; 2] = [Capability::CAP_DAC_OVERRIDE, Capability::CAP_DAC_READ_SEARCH];
/// Ports below this one need a capability.
const FIRST_FREE_PORT: u16 = 1024;

/// Keeps the needed capabilities, as far as the process has them, and drops all others permanently. Returns their
/// names, in order.
///
/// # Errors
/// The kernel's answer, as text.
pub(super) fn keep(needs: &Privileges) -> Result<Vec<String>, String> {
    let in_words = |error: caps::errors::CapsError| error.to_string();
    let permitted = caps::read(None, CapSet::Permitted).map_err(in_words)?;
    let mut kept: Vec<Capability> = vec![
        // For packet sockets, also when an interface comes back or a link is added.
        Capability::CAP_NET_RAW,
        // For heartbeats by nftables, wires, cables, offloads and buffers.
        Capability::CAP_NET_ADMIN,
    ];
    if needs.programs {
        kept.push(Capability::CAP_BPF);
    }
    if needs.pinned {
        kept.push(Capability::CAP_IPC_LOCK);
    }
    if needs.addresses.iter().any(|address| (1..FIRST_FREE_PORT).contains(&address.port())) {
        // A gateway whose place is taken frees the port later.
        kept.push(Capability::CAP_NET_BIND_SERVICE);
    }
    kept.extend(past_modes(needs, &permitted).map_err(in_words)?);
    kept.retain(|capability| permitted.contains(capability));
    kept.sort_by_key(|capability| capability.index());
    kept.dedup();

    // Without the right to do so (a program with its own capabilities may lack it), a new program could gain nothing
    // anyway.
    if permitted.contains(&Capability::CAP_SETPCAP) {
        let mut others: Vec<_> =
            caps::runtime::thread_all_supported().into_iter().filter(|one| !kept.contains(one)).collect();
        others.sort_by_key(|capability| capability.index());
        for capability in others {
            caps::drop(None, CapSet::Bounding, capability).map_err(in_words)?;
        }
    }
    // Kernels before 4.3 have none.
    let _ = caps::clear(None, CapSet::Ambient);
    caps::clear(None, CapSet::Inheritable).map_err(in_words)?;
    let set: CapsHashSet = kept.iter().copied().collect();
    caps::set(None, CapSet::Effective, &set).map_err(in_words)?;
    caps::set(None, CapSet::Permitted, &set).map_err(in_words)?;
    Ok(kept.iter().map(|capability| capability.to_string().to_lowercase()).collect())
}

/// The capabilities of [`PAST_MODES`] that are needed to read a file again, or to create and remove the control socket.
fn past_modes(needs: &Privileges, permitted: &CapsHashSet) -> Result<Vec<Capability>, caps::errors::CapsError> {
    let before = caps::read(None, CapSet::Effective)?;
    let without: CapsHashSet = before.iter().copied().filter(|one| !PAST_MODES.contains(one)).collect();
    caps::set(None, CapSet::Effective, &without)?;
    // A file that cannot be opened for other reasons is no reason to keep a capability.
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let unread = needs.files.iter().any(|file| std::fs::File::open(file).is_err_and(|error| refused(&error)));
    let unwritten = needs.control_directory().is_some_and(|directory| !may_change(&directory));
    caps::set(None, CapSet::Effective, &before)?;
    let mut kept = Vec::new();
    if unwritten {
        kept.push(Capability::CAP_DAC_OVERRIDE);
    } else if unread {
        kept.push(match permitted.contains(&Capability::CAP_DAC_READ_SEARCH) {
            true => Capability::CAP_DAC_READ_SEARCH,
            false => Capability::CAP_DAC_OVERRIDE,
        });
    }
    Ok(kept)
}

/// Returns true if files can be created in and removed from this directory.
fn may_change(directory: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(directory.as_os_str().as_bytes()) else { return false };
    // SAFETY: `path` ends with a zero and lives for the call.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) == 0 }
}
