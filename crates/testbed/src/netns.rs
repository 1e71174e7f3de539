//! Private network namespaces. Such a network belongs to the process and vanishes with it: no cleanup is needed, and
//! nothing outside is affected. If the kernel allows it, no root is needed.

use std::io;
use std::marker::PhantomData;
use std::path::Path;

use fairlink_net::system as sys;

/// Proof that this thread is in a private network namespace. Threads that it starts are in it, too.
#[derive(Debug)]
pub struct PrivateNamespace {
    /// The namespace belongs to the thread that entered it.
    not_send: PhantomData<*const ()>,
}

/// Reason why there is no private network namespace.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// Only a process with one thread can enter a user namespace.
    #[error("this process has {threads} threads, and without root a namespace can only be entered with 1")]
    Threads {
        /// Number of threads.
        threads: usize,
    },
    /// The kernel refused the namespace.
    #[error("no private network namespace: {what}: {source}{hint}")]
    Refused {
        /// The step that failed.
        what: &'static str,
        /// The likely reason on this system, in parentheses and after a space; empty if unknown.
        hint: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The namespace exists but could not be prepared.
    #[error("the private network namespace could not be prepared: {what}: {source}")]
    Prepare {
        /// The step that failed.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Moves the calling thread into a new network namespace, with the loopback interface up and IPv6 off (so that the
/// kernel itself sends nothing on new interfaces).
///
/// As root only the calling thread moves. Without root this must be called before any other thread exists. There is no
/// way back.
///
/// # Errors
/// [`NamespaceError`]: which step failed, the kernel's answer, and the setting that is the likely reason.
pub fn enter_private_namespace() -> Result<PrivateNamespace, NamespaceError> {
    match unshare(libc::CLONE_NEWNET) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => enter_user_namespace()?,
        Err(source) => return Err(refused("unshare(CLONE_NEWNET)", source)),
    }
    disable_ipv6().map_err(|source| NamespaceError::Prepare { what: "disable IPv6", source })?;
    sys::set_interface_up("lo", true)
        .map_err(|source| NamespaceError::Prepare { what: "loopback interface up", source })?;
    Ok(PrivateNamespace { not_send: PhantomData })
}

fn enter_user_namespace() -> Result<(), NamespaceError> {
    // SAFETY: both calls take no arguments and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    if let Ok(tasks) = std::fs::read_dir("/proc/self/task") {
        let threads = tasks.count();
        if threads > 1 {
            return Err(NamespaceError::Threads { threads });
        }
    }
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)
        .map_err(|source| refused("unshare(CLONE_NEWUSER | CLONE_NEWNET)", source))?;
    // This user may write a group map only after setgroups was disabled.
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {uid} 1")),
        ("/proc/self/gid_map", format!("0 {gid} 1")),
    ] {
        std::fs::write(path, text).map_err(|source| refused(path, source))?;
    }
    Ok(())
}

/// Turns IPv6 off for all present and future interfaces of this thread's network namespace, so that the kernel itself
/// sends no neighbour discovery. A kernel without IPv6 is fine.
fn disable_ipv6() -> io::Result<()> {
    for which in ["all", "default"] {
        // These files show the settings of the namespace of the thread that opens them.
        match std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: `unshare` takes no pointers; these flags change only the credentials and the network of this thread.
    sys::check(unsafe { libc::unshare(flags) })?;
    Ok(())
}

fn refused(what: &'static str, source: io::Error) -> NamespaceError {
    NamespaceError::Refused { what, hint: hint(&source, Path::new("/proc/sys")), source }
}

/// Lists the settings below `sysctl` that forbid namespaces.
fn hint(error: &io::Error, sysctl: &Path) -> String {
    let value = |name: &str| std::fs::read_to_string(sysctl.join(name)).map(|text| text.trim().to_owned()).ok();
    let mut reasons = Vec::new();
    if value("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        reasons.push("kernel.unprivileged_userns_clone is 0");
    }
    if value("user/max_user_namespaces").as_deref() == Some("0") {
        reasons.push("user.max_user_namespaces is 0");
    }
    if value("user/max_net_namespaces").as_deref() == Some("0") {
        reasons.push("user.max_net_namespaces is 0");
    }
    if value("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        reasons.push("kernel.apparmor_restrict_unprivileged_userns is 1");
    }
    if reasons.is_empty() {
        match error.raw_os_error() {
            Some(libc::EPERM) => reasons.push("a container's seccomp filter often forbids it"),
            Some(libc::EINVAL | libc::ENOSYS) => reasons.push("this kernel may be built without namespaces"),
            Some(libc::ENOSPC) => reasons.push("a limit on the number of namespaces is reached"),
            _ => {}
        }
    }
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_that_forbids_it() {
        let dir = std::env::temp_dir().join(format!("fairlink-netns-hint-{}", std::process::id()));
        for (name, text) in [
            ("kernel/unprivileged_userns_clone", "1\n"),
            ("user/max_user_namespaces", "0\n"),
            ("kernel/apparmor_restrict_unprivileged_userns", "1\n"),
        ] {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let hint = hint(&io::Error::from_raw_os_error(libc::EPERM), &dir);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(hint, " (user.max_user_namespaces is 0; kernel.apparmor_restrict_unprivileged_userns is 1)");
    }

    #[test]
    fn a_refusal_without_a_setting_says_what_is_likely() {
        let nowhere = Path::new("/nonexistent");
        let text = |code| hint(&io::Error::from_raw_os_error(code), nowhere);
        assert_eq!(text(libc::EPERM), " (a container's seccomp filter often forbids it)");
        assert_eq!(text(libc::ENOSPC), " (a limit on the number of namespaces is reached)");
        assert_eq!(text(libc::EIO), "");
    }
}
