//! The claim of a gateway against other users of its network namespace, who can send to every abstract name and bind
//! every free one.

use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::process::ExitCode;
use std::time::Duration;

use fairlink_net::{AfPacket, AfPacketOptions, ClaimHolder, Control, Gateway, GatewayConfig, Interface, OpenError};
use fairlink_testbed::PrivateNamespace;

use crate::cables::{cables, config};
use crate::support;
use crate::through::{through, until};

/// A user other than root and other than the user who runs the tests.
const STRANGER: libc::uid_t = 54_321;
/// Number of times that the stranger passes descriptors.
const TIMES: usize = 400;
/// Number of descriptors passed with one message.
const AT_ONCE: usize = 8;

pub(crate) fn main() -> ExitCode {
    support::main(&[
        ("descriptors_passed_to_a_claim_are_not_installed", descriptors_passed_to_a_claim),
        ("descriptors_passed_to_a_control_socket_are_not_installed", descriptors_passed_to_a_control_socket),
        ("a_stranger_who_holds_the_names_keeps_no_gateway_out", a_stranger_who_holds_the_names),
        ("another_user_who_receives_from_the_interface_keeps_gateways_out", another_user_who_receives),
    ])
}

/// The abstract name of the claim on the interface `name`.
fn claim_of(name: &str) -> SocketAddr {
    let index = Interface::open(name).unwrap().index;
    SocketAddr::from_abstract_name(format!("fairlink-gateway-{index}")).unwrap()
}

/// Runs `act` in a thread of another user, without any rights. Returns `None` if this process cannot become another
/// user.
fn as_stranger<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            // SAFETY: takes no pointers. The bare call changes this thread only; libc's changes all.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, STRANGER, STRANGER, STRANGER) };
            if changed != 0 {
                println!("SKIPPED: no other user here: {}", io::Error::last_os_error());
                return None;
            }
            Some(act())
        });
        other.join().unwrap()
    })
}

/// Number of descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Control data that passes [`AT_ONCE`] descriptors.
#[repr(C)]
struct Passed {
    header: libc::cmsghdr,
    descriptors: [RawFd; AT_ONCE],
}

/// Sends `text` from `socket`, with several copies of a descriptor.
fn pass(socket: &impl AsRawFd, text: &[u8], descriptor: RawFd) -> io::Result<()> {
    // SAFETY: integers and pointers, for which all zeros is valid.
    let (mut passed, mut message): (Passed, libc::msghdr) = unsafe { std::mem::zeroed() };
    let length = std::mem::offset_of!(Passed, descriptors) + size_of::<[RawFd; AT_ONCE]>();
    passed.header.cmsg_len = length as _;
    (passed.header.cmsg_level, passed.header.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    passed.descriptors = [descriptor; AT_ONCE];
    let mut vector = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    message.msg_control = std::ptr::from_mut(&mut passed).cast();
    message.msg_controllen = length as _;
    // SAFETY: the message points to one vector and to control data, readable for the lengths given during the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn descriptors_passed_to_a_claim(_: &PrivateNamespace) {
    cables();
    through(config(20_000_000, "hls"), |remote| {
        until(remote, |_| true);
        for text in [&b"leave"[..], b"", &[7; 100]] {
            let before = descriptors();
            // A send waits while the claim's queue is full, so all but the last few have been read when this ends.
            let passed = as_stranger(|| {
                let socket = UnixDatagram::unbound().unwrap();
                socket.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
                socket.connect_addr(&claim_of("in")).unwrap();
                (0..TIMES).try_for_each(|_| pass(&socket, text, socket.as_raw_fd()))
            });
            let Some(passed) = passed else { return };
            passed.unwrap();
            assert_eq!(descriptors(), before);
            until(remote, |_| true);
        }
        // Descriptors of the own user are not installed either, and the message that passes them is not a gateway's.
        let socket = UnixDatagram::unbound().unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.connect_addr(&claim_of("in")).unwrap();
        let before = descriptors();
        (0..TIMES).try_for_each(|_| pass(&socket, b"leave", socket.as_raw_fd())).unwrap();
        assert_eq!(descriptors(), before);
        until(remote, |_| true);
    });
}

fn descriptors_passed_to_a_control_socket(_: &PrivateNamespace) {
    cables();
    let path = std::env::temp_dir().join(format!("fairlink-claims-{}.sock", std::process::id()));
    through(config(20_000_000, "hls"), |remote| {
        let control = Control::start(&path, remote.clone()).unwrap();
        let mut stream = BufReader::new(UnixStream::connect(control.path()).unwrap());
        let mut ask = |passes: usize| {
            let to = stream.get_ref();
            (0..passes).try_for_each(|_| pass(to, b" ", to.as_raw_fd())).unwrap();
            pass(to, b"{\"cmd\": \"stats\"}\n", to.as_raw_fd()).unwrap();
            let mut answer = String::new();
            stream.read_line(&mut answer).unwrap();
            assert!(answer.starts_with("{\"ok\":true"), "{answer}");
            descriptors()
        };
        let before = ask(0);
        for _ in 0..TIMES / 8 {
            assert_eq!(ask(8), before);
        }
    });
}

/// The expected holder when this process holds a claim's name as `user`.
fn this_process(user: libc::uid_t) -> ClaimHolder {
    ClaimHolder { user, process: Some(std::process::id()) }
}

/// Asserts that another gateway is refused the interface `name`, because of this holder.
fn assert_taken(name: &str, holder: ClaimHolder) {
    let error = Gateway::open(config(20_000_000, "hls")).unwrap_err();
    let wanted = Some(holder);
    assert!(matches!(&error, OpenError::Taken { name: of, holder } if of == name && *holder == wanted), "{error:?}");
    assert!(error.to_string().contains(&format!("{name} ({holder}):")), "{error}");
}

fn a_stranger_who_holds_the_names(_: &PrivateNamespace) {
    cables();
    let Some(squatted) = as_stranger(|| ["in", "out"].map(|name| UnixDatagram::bind_addr(&claim_of(name)).unwrap()))
    else {
        return;
    };
    // SAFETY: takes nothing and cannot fail.
    let own = this_process(unsafe { libc::geteuid() });
    let passed_over = |gateway: &Gateway| {
        let stranger = this_process(STRANGER).to_string();
        let notes = gateway.notes().iter();
        notes.filter(|note| note.contains("so the name is ignored") && note.contains(&stranger)).count()
    };
    let first = Gateway::open(config(20_000_000, "hls")).unwrap();
    assert_eq!(passed_over(&first), 2, "{:?}", first.notes());
    assert_taken("in", own);
    drop(first);

    through(config(20_000_000, "hls"), |_| {
        assert_taken("in", own);
        let second = Gateway::open(GatewayConfig { take_over: true, ..config(20_000_000, "hls") }).unwrap();
        assert!(second.notes().iter().any(|note| note.starts_with("took over in and out")), "{:?}", second.notes());
        assert_eq!(passed_over(&second), 2, "{:?}", second.notes());
        // Its spare names still count after the plain ones are free again.
        drop(squatted);
        assert_taken("in", own);
        drop(second);
        assert_eq!(passed_over(&Gateway::open(config(20_000_000, "hls")).unwrap()), 0);
    });
}

fn another_user_who_receives(_: &PrivateNamespace) {
    cables();
    let open = |receives: bool| {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                // SAFETY: takes no pointers. Sockets that this thread opens belong to that user; its rights over
                // networks stay.
                unsafe { libc::syscall(libc::SYS_setfsuid, STRANGER) };
                let interface = Interface::open("in").unwrap();
                let socket = receives.then(|| AfPacket::open(&interface, &AfPacketOptions::default()).unwrap());
                (UnixDatagram::bind_addr(&claim_of("in")).unwrap(), socket)
            });
            other.join().unwrap()
        })
    };
    if as_stranger(|| ()).is_none() {
        return;
    }
    let gateway = open(true);
    assert_taken("in", this_process(STRANGER));
    drop(gateway);
    let _stranger = open(false);
    Gateway::open(config(20_000_000, "hls")).unwrap();
}
