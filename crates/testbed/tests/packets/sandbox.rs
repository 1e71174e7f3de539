//! Actions that a script in the sandbox cannot do, each tried in a process of its own.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use fairlink_net::{SANDBOX_USER, Sandbox};
use fairlink_testbed::PrivateNamespace;

use crate::support;

pub(crate) fn main() -> ExitCode {
    support::main(&[("what_reaches_beyond_the_sandbox_is_refused", what_reaches_out_is_refused)])
}

/// Has a program remove a path after this process, which may not do so by then, has ended and its pipe is closed.
fn remove_at_the_end(path: &Path) {
    let mut remover = Command::new("/bin/sh");
    remover.args(["-c", "cat; rm -rf \"$0\""]).arg(path).stdin(Stdio::piped());
    std::mem::forget(remover.spawn().unwrap());
}

/// Enters a sandbox and returns its directory. Returns `None`, with a message, if the system provides none.
fn enter() -> Option<PathBuf> {
    let scratch = std::env::temp_dir().join(format!("fairlink-sandbox-{}", std::process::id()));
    fs::create_dir(&scratch).unwrap();
    remove_at_the_end(&scratch);
    // As root. Without it, the user stays the same.
    let _ = chown(&scratch, Some(SANDBOX_USER), Some(SANDBOX_USER));
    match (Sandbox { scratch: scratch.clone(), seconds: 10 }).enter() {
        Ok(()) => Some(scratch),
        Err(error) => {
            println!("SKIPPED: {error}");
            None
        }
    }
}

/// The error of a system call.
fn error_of(result: libc::c_long) -> Option<i32> {
    (result < 0).then(|| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn what_reaches_out_is_refused(_: &PrivateNamespace) {
    let outside = std::env::temp_dir().join(format!("fairlink-outside-{}", std::process::id()));
    File::create(&outside).unwrap().set_permissions(Permissions::from_mode(0o666)).unwrap();
    remove_at_the_end(&outside);
    let Some(scratch) = enter() else { return };

    // Files: all can be read, and those of the directory can be written.
    fs::write(scratch.join("own"), "x").unwrap();
    assert!(fs::read("/etc/passwd").is_ok());
    for refused in [fs::write(&outside, "x"), fs::remove_file(&outside), fs::write(outside.with_extension("new"), "x")]
    {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
    // All sets of capabilities are empty: inheritable, permitted, effective, bounding, ambient.
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let sets: Vec<&str> = status.lines().filter(|line| line.starts_with("Cap")).collect();
    assert_eq!(sets.len(), 5);
    assert!(sets.iter().all(|set| set.ends_with("\t0000000000000000")), "{sets:?}");

    // SAFETY: pointers are null, and none of these calls is carried out.
    let tried = unsafe {
        [
            ("socket", error_of(libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_DGRAM, 0))),
            ("socket of netlink", error_of(libc::syscall(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, 0))),
            ("ptrace", error_of(libc::syscall(libc::SYS_ptrace, libc::PTRACE_ATTACH, 1, 0, 0))),
            ("mount", error_of(libc::syscall(libc::SYS_mount, 0, 0, 0, 0, 0))),
            ("bpf", error_of(libc::syscall(libc::SYS_bpf, 0, 0, 0))),
            ("io_uring", error_of(libc::syscall(libc::SYS_io_uring_setup, 1, 0))),
            ("kill", error_of(libc::syscall(libc::SYS_kill, 1, 0))),
            ("a session of its own", error_of(libc::syscall(libc::SYS_setsid))),
            ("a group of its own", error_of(libc::syscall(libc::SYS_setpgid, 0, 0))),
            ("a namespace", error_of(libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER))),
            #[cfg(target_arch = "x86_64")]
            ("getpid of x32", error_of(libc::syscall(0x4000_0000 | libc::SYS_getpid))),
            #[cfg(target_arch = "x86_64")]
            (
                "socket of x32",
                error_of(libc::syscall(0x4000_0000 | libc::SYS_socket, libc::AF_INET, libc::SOCK_DGRAM, 0)),
            ),
        ]
    };
    for (what, error) in tried {
        assert_eq!(error, Some(libc::EPERM), "{what}");
    }
    // A program that is started is confined as well.
    let child = Command::new("/bin/sh").args(["-c", "echo x > /etc/fairlink-test"]).output().unwrap();
    assert!(!child.status.success(), "{child:?}");
}
