//! Access to the control socket: its mode and its group, which are set before it accepts connections.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use thiserror::Error;

use super::ControlError;
use crate::io::sys;

/// Mode and group of a socket. By default only its owner may open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    mode: u32,
    group: Option<u32>,
}

impl Default for Access {
    fn default() -> Self {
        Self { mode: Self::OWNER, group: None }
    }
}

/// Errors of the access to a control socket.
#[derive(Debug, Error)]
pub enum AccessError {
    /// The text is not a mode.
    #[error("{text:?} is not a mode: write it in octal, 0000 to 0777, such as 0660 for owner and group")]
    NotAMode {
        /// The text.
        text: String,
    },
    /// The mode excludes the owner.
    #[error(
        "the mode {mode:04o} lets nobody in who may not do so anyway: the owner needs to read and write, such as 0600 or 0660"
    )]
    WithoutOwner {
        /// The mode.
        mode: u32,
    },
    /// The group does not exist.
    #[error("there is no group {name:?}; `getent group` lists those that there are, and a number is taken as it is")]
    NoGroup {
        /// The name given.
        name: String,
    },
    /// The user is not a member of the group and may not enter it.
    #[error(
        "the control socket cannot be given to group {group}, which this user is not in: {source}; add the user to it (`usermod -aG`), give \
         the service that group (`SupplementaryGroups=`), or start as root"
    )]
    NotAMember {
        /// Its number.
        group: u32,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Access {
    /// The owner alone; the owner and the group.
    const OWNER: u32 = 0o600;
    const OWNER_AND_GROUP: u32 = 0o660;

    /// Parses `mode`, in octal, and `group`, a name or a number. Without a mode, the owner may open the socket, and the group if one is given.
    ///
    /// # Errors
    /// [`AccessError`]: text that is not a mode, a mode without the owner, an unknown group.
    pub fn new(mode: Option<&str>, group: Option<&str>) -> Result<Self, AccessError> {
        let default = if group.is_some() { Self::OWNER_AND_GROUP } else { Self::OWNER };
        let mode = match mode {
            None => default,
            Some(text) => u32::from_str_radix(text, 8)
                .ok()
                .filter(|mode| *mode <= 0o777 && text.bytes().all(|byte| byte.is_ascii_digit()))
                .ok_or_else(|| AccessError::NotAMode { text: text.to_owned() })?,
        };
        if mode & Self::OWNER != Self::OWNER {
            return Err(AccessError::WithoutOwner { mode });
        }
        Ok(Self { mode, group: group.map(find_group).transpose()? })
    }

    /// Enters the group, so that a socket can be given to it after the right to change groups is dropped. Applies to all later threads.
    ///
    /// # Errors
    /// [`AccessError::NotAMember`].
    pub fn join_group(&self) -> Result<(), AccessError> {
        let Some(group) = self.group else { return Ok(()) };
        let failed = |source| AccessError::NotAMember { group, source };
        let mut groups = groups().map_err(failed)?;
        // SAFETY: takes nothing and cannot fail.
        if groups.contains(&group) || group == unsafe { libc::getegid() } {
            return Ok(());
        }
        groups.push(group);
        // SAFETY: the list is as long as is said and alive for the call.
        sys::check(unsafe { libc::setgroups(groups.len() as _, groups.as_ptr()) }).map_err(failed)?;
        Ok(())
    }

    /// Binds `socket`, so that the file has its mode from the start, independent of the process's umask.
    pub(super) fn bind(self, socket: &OwnedFd, address: &libc::sockaddr_un, length: libc::socklen_t) -> io::Result<()> {
        let mode = self.mode;
        let bind = move || {
            // SAFETY: takes no pointers. From here on the mask is that of this thread alone.
            sys::check(unsafe { libc::unshare(libc::CLONE_FS) })?;
            // SAFETY: takes no pointers and cannot fail.
            unsafe { libc::umask(0) };
            // SAFETY: takes no pointers. The file that `bind` makes inherits the socket's mode.
            sys::check(unsafe { libc::fchmod(socket.as_raw_fd(), mode) })?;
            // SAFETY: `address` is readable for `length` bytes during the call, and its path ends with a zero.
            sys::check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(address).cast(), length) })?;
            Ok(())
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("fairlink-bind".to_owned()).spawn_scoped(scope, bind)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Gives the socket at `path`, to which no client can connect yet, to its group, and checks its mode and group.
    pub(super) fn give(self, path: &Path) -> Result<(), ControlError> {
        let system = |source| ControlError::System { path: path.to_owned(), source };
        if let Some(group) = self.group {
            let name =
                CString::new(path.as_os_str().as_bytes()).map_err(|_| system(io::ErrorKind::InvalidInput.into()))?;
            let (same, flags) = (libc::uid_t::MAX, libc::AT_SYMLINK_NOFOLLOW);
            // SAFETY: `name` ends with a zero and lives for the call.
            sys::check(unsafe { libc::fchownat(libc::AT_FDCWD, name.as_ptr(), same, group, flags) }).map_err(system)?;
        }
        let found = std::fs::symlink_metadata(path).map_err(system)?;
        let got = (found.mode() & 0o7777, found.gid());
        let wanted = (self.mode, self.group.unwrap_or(got.1));
        if got == wanted { Ok(()) } else { Err(ControlError::Access { path: path.to_owned(), got, wanted }) }
    }
}

/// Returns the number of the group with this name or number.
fn find_group(name: &str) -> Result<u32, AccessError> {
    // The highest number means none.
    if let Ok(number) = name.parse::<u32>()
        && number != u32::MAX
    {
        return Ok(number);
    }
    let missing = || AccessError::NoGroup { name: name.to_owned() };
    let text = CString::new(name).map_err(|_| missing())?;
    // Long enough for the names of a group with many thousand members.
    let mut buffer = vec![0; 1 << 20];
    // SAFETY: a `group` is pointers and a number, for which all zeros is valid.
    let mut group: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to memory of the lengths given, alive for the call.
    unsafe { libc::getgrnam_r(text.as_ptr(), &mut group, buffer.as_mut_ptr(), buffer.len(), &mut found) };
    if found.is_null() { Err(missing()) } else { Ok(group.gr_gid) }
}

/// Returns the supplementary groups of the process.
fn groups() -> io::Result<Vec<libc::gid_t>> {
    // SAFETY: with a length of zero nothing is written.
    let count = sys::check(unsafe { libc::getgroups(0, std::ptr::null_mut()) })?;
    let mut groups = vec![0; count as usize];
    // SAFETY: the list has room for as many as are said.
    let count = sys::check(unsafe { libc::getgroups(count, groups.as_mut_ptr()) })?;
    groups.truncate(count as usize);
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_and_let_the_owner_in() {
        let mode = |text| Access::new(Some(text), None).map(|access| access.mode);
        for (text, value) in [("0660", 0o660), ("600", 0o600), ("0666", 0o666), ("0777", 0o777)] {
            assert_eq!(mode(text).unwrap(), value);
        }
        for text in ["", "0o660", "rw", "8", "0680", "1777", "+660", "-1"] {
            assert!(matches!(mode(text), Err(AccessError::NotAMode { .. })), "{text}");
        }
        for text in ["0", "0060", "0400", "0200", "77"] {
            assert!(matches!(mode(text), Err(AccessError::WithoutOwner { .. })), "{text}");
        }
    }

    #[test]
    fn a_socket_has_its_mode_from_its_first_moment_and_takes_nobody_in_before_it_listens() {
        let path = std::env::temp_dir().join(format!("fairlink-access-{}.sock", std::process::id()));
        for mode in ["0600", "0660", "0666"] {
            let access = Access::new(Some(mode), None).unwrap();
            let socket = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).unwrap();
            let (address, length) = crate::gateway::control::address(&path).unwrap();
            access.bind(&socket, &address, length).unwrap();
            let found = std::fs::symlink_metadata(&path).unwrap();
            let refused = std::os::unix::net::UnixStream::connect(&path).unwrap_err();
            std::fs::remove_file(&path).unwrap();
            // The umask of tests is rarely zero.
            assert_eq!(found.mode() & 0o7777, access.mode, "{mode}");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn a_group_goes_by_name_or_number_and_may_open_it_where_no_mode_is_given() {
        assert_eq!(Access::new(None, None).unwrap(), Access { mode: 0o600, group: None });
        assert_eq!(Access::new(None, Some("7")).unwrap(), Access { mode: 0o660, group: Some(7) });
        assert_eq!(Access::new(Some("0600"), Some("root")).unwrap(), Access { mode: 0o600, group: Some(0) });
        for name in ["no-such-group-here", "4294967295", "-1", "a\0b"] {
            assert!(matches!(Access::new(None, Some(name)), Err(AccessError::NoGroup { .. })), "{name}");
        }
    }
}
