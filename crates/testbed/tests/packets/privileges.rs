//! Remaining rights of a process after it has dropped its privileges, each test in a process of its own.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use fairlink_net::{Dropped, Privileges};
use fairlink_testbed::{PrivateNamespace, lay_cables};

use crate::support;

pub(crate) fn main() -> ExitCode {
    support::main(&[
        ("what_a_gateway_does_not_need_is_refused_and_ends_nothing", what_is_not_needed_is_refused),
        ("what_a_gateway_needs_goes_on", what_is_needed_goes_on),
    ])
}

/// Drops the privileges that a gateway does not need. The path is that of its control socket. Returns `None`, with a
/// message, if this kernel restricts less.
fn drop_others() -> Option<(Dropped, PathBuf)> {
    let socket = std::env::temp_dir().join(format!("fairlink-privileges-{}.sock", std::process::id()));
    let dropped = Privileges::for_gateways([], &socket, &[]).drop_others();
    println!("{dropped}");
    if !(dropped.files && dropped.calls && dropped.notes.is_empty()) {
        println!("SKIPPED: this kernel does not take all away: {:?}", dropped.notes);
        return None;
    }
    Some((dropped, socket))
}

/// The error of a system call without pointers.
fn error_of(result: libc::c_long) -> Option<i32> {
    (result < 0).then(|| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn what_is_not_needed_is_refused(_: &PrivateNamespace) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let Some((dropped, socket)) = drop_others() else { return };
    assert_eq!(dropped.kept.as_deref(), Some(&["cap_net_admin".to_owned(), "cap_net_raw".to_owned()][..]));

    let refused = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    refused(File::open("/etc/passwd").unwrap_err());
    refused(File::open(std::env::current_exe().unwrap()).unwrap_err());
    refused(File::create(socket).unwrap_err());
    refused(Command::new("true").spawn().unwrap_err());
    refused(TcpStream::connect(address).unwrap_err());
    refused(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap_err());
    // SAFETY: these calls take no pointers that are dereferenced; none of them is executed.
    unsafe {
        let none = std::ptr::null_mut::<libc::c_void>();
        let executable = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        assert_eq!(libc::mmap(none, 4096, executable, private, -1, 0), libc::MAP_FAILED);
        assert_eq!(error_of(-1), Some(libc::EPERM));
        for (what, result) in [
            ("fork", libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0)),
            ("a namespace", libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER)),
            ("another family", libc::syscall(libc::SYS_socket, libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
            ("a program", libc::syscall(libc::SYS_bpf, 0, 0, 0)),
            ("a trace", libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0)),
            ("another user", libc::syscall(libc::SYS_setuid, 1)),
        ] {
            assert_eq!(error_of(result), Some(libc::EPERM), "{what}");
        }
    }
}

fn what_is_needed_goes_on(_: &PrivateNamespace) {
    let Some((_, socket)) = drop_others() else { return };
    std::thread::spawn(|| assert!(File::open("/etc/passwd").is_err(), "threads to come as well")).join().unwrap();
    lay_cables(&[("a", "b")]).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::os::unix::net::UnixStream::connect(&socket).unwrap();
    drop(listener);
    std::fs::remove_file(&socket).unwrap();
    assert!(std::fs::read_to_string("/proc/sys/net/ipv4/conf/all/arp_ignore").is_ok());
}
