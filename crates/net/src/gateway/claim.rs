//! Who forwards what an interface receives: one gateway at a time. Another one may ask it to leave.
//!
//! A claim is a socket with an abstract name. A network namespace has each name once, as it has each interface, and the kernel frees it
//! with the process, however that ends. Whoever wants the interface sends a message there. It counts if it comes from the same user, or
//! from root.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::gateway::open_error::OpenError;
use crate::io::interface::Interface;
use crate::io::sys;

/// How long a gateway that was asked to leave may go on sending what it has queued before it frees its claims.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How often whoever waits for that looks.
const NAP: Duration = Duration::from_millis(1);
/// Most messages that a gateway reads at a time. More than wait by default (`net.unix.max_dgram_qlen`), so that the messages of others do
/// not keep a gateway's request out for long.
const MOST_MESSAGES: usize = 16;
/// The message.
const LEAVE: &[u8] = b"leave";

/// As long as it is kept, no other gateway receives from the interface.
#[derive(Debug)]
pub(super) struct Claim(OwnedFd);

impl Claim {
    /// Claims what the interface with this index receives. `None`: another gateway has it.
    fn on(index: i32) -> io::Result<Option<Self>> {
        let socket = sys::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
        let on: libc::c_int = 1;
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_PASSCRED, &on)?;
        let (address, length) = address(index);
        // SAFETY: `address` is readable for `length` bytes during the call.
        let bound = sys::check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) });
        match bound {
            Ok(_) => Ok(Some(Self(socket))),
            Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether another gateway of this user, or of root, has asked for the interface. Reads up to [`MOST_MESSAGES`] messages.
    pub(super) fn is_asked_for(&self) -> bool {
        (0..MOST_MESSAGES).map_while(|_| self.receive()).any(|asks| asks)
    }

    /// Reads one message. Returns whether it asks for the interface, `None` if no message waits.
    fn receive(&self) -> Option<bool> {
        let mut text = [0u8; 16];
        let mut vector = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
        // SAFETY: integers, for which all zeros is valid.
        let mut control: Control = unsafe { std::mem::zeroed() };
        // SAFETY: a `msghdr` is integers and pointers, for which all zeros is valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        message.msg_control = std::ptr::from_mut(&mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        // SAFETY: the message points to one vector and to a control buffer, both writable for the lengths given during the call.
        let received =
            unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut message, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
        let length = usize::try_from(received).ok()?;
        // A gateway passes nothing beside its message, so one that was cut is not from a gateway.
        let whole = message.msg_flags & (libc::MSG_CTRUNC | libc::MSG_TRUNC) == 0;
        Some(whole && &text[..length] == LEAVE && control.sender().is_some_and(may_ask))
    }
}

/// Room for the credentials of a sender, and for nothing else: the kernel closes descriptors that it has no room for. In a larger buffer it
/// would install them in this process, where nothing closes them.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    credentials: libc::ucred,
}

impl Control {
    /// Returns the user who sent the message, by the kernel's word.
    fn sender(&self) -> Option<libc::uid_t> {
        let header = &self.header;
        let needed = std::mem::offset_of!(Self, credentials) + size_of::<libc::ucred>();
        let are_credentials = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS);
        (are_credentials && header.cmsg_len as usize >= needed).then_some(self.credentials.uid)
    }
}

/// Whether this user may take a gateway's place.
fn may_ask(user: libc::uid_t) -> bool {
    // SAFETY: takes nothing and cannot fail.
    user == 0 || user == unsafe { libc::geteuid() }
}

/// Claims what each of `interfaces` receives. With `force` an interface that another gateway has gets a note. `None`: one is taken.
pub(super) fn claim(interfaces: &[&Interface], force: bool, notes: &mut Vec<String>) -> Result<Vec<Claim>, OpenError> {
    let mut claims = Vec::new();
    for interface in interfaces {
        match Claim::on(interface.index) {
            Ok(Some(claim)) => claims.push(claim),
            Ok(None) => {
                let taken = OpenError::Taken { name: interface.name.clone() };
                if !force {
                    return Err(taken);
                }
                notes.push(format!("as you wish (--force): {taken}"));
            }
            Err(error) => notes
                .push(format!("{}: it is not known whether another gateway is running there: {error}", interface.name)),
        }
    }
    Ok(claims)
}

/// Asks whoever has claims on `interfaces` to leave, and claims them as soon as they are free.
///
/// # Errors
/// [`OpenError::NotLeft`] where they are not within 10 s.
pub(super) fn take_over(interfaces: &[&Interface], notes: &mut Vec<String>) -> Result<Vec<Claim>, OpenError> {
    for interface in interfaces {
        // One that nobody has is simply free.
        let _ = ask(interface);
    }
    let until = Instant::now() + PATIENCE;
    loop {
        match claim(interfaces, false, &mut Vec::new()) {
            Ok(claims) => {
                let names: Vec<_> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
                notes.push(format!("took over {} from the gateway that ran", names.join(" and ")));
                return Ok(claims);
            }
            Err(OpenError::Taken { name }) if Instant::now() >= until => {
                return Err(OpenError::NotLeft { name, waited: PATIENCE });
            }
            Err(OpenError::Taken { .. }) => std::thread::sleep(NAP),
            Err(error) => return Err(error),
        }
    }
}

fn ask(interface: &Interface) -> io::Result<()> {
    let socket = sys::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
    let (address, length) = address(interface.index);
    // SAFETY: message and address are readable for their lengths during the call.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            LEAVE.as_ptr().cast(),
            LEAVE.len(),
            libc::MSG_DONTWAIT,
            std::ptr::from_ref(&address).cast(),
            length,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether a gateway has what the interface with this index receives.
pub(super) fn is_claimed(index: i32) -> bool {
    matches!(Claim::on(index), Ok(None))
}

/// The abstract name of the claim on the interface with this index.
fn address(index: i32) -> (libc::sockaddr_un, libc::socklen_t) {
    let name = format!("fairlink-gateway-{index}");
    // SAFETY: a `sockaddr_un` is integers, for which all zeros is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    (address, (std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len()) as libc::socklen_t)
}
