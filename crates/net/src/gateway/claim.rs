//! Exclusive claims on the received frames of an interface, one gateway at a time. Another gateway may request the
//! interface.
//!
//! A claim is a socket with an abstract name. A name is unique in a network namespace, as an interface is, and the
//! kernel frees it with the process, however that ends. A gateway requests an interface by a message to that socket.
//! The message counts if it comes from the same user, or from root.
//!
//! Any user may bind any abstract name, so a name alone proves nothing. It counts only if its holder may be a gateway
//! by the kernel's report: root, the own user, or a user with a packet socket at the interface (CAP_NET_RAW). The name
//! of any other holder is skipped: the claim gets a spare name with a random number, which cannot be bound beforehand.
//! Gateways find each other in the kernel's list of sockets, whatever their names are.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::gateway::open_error::{ClaimHolder, OpenError};
use crate::io::interface::Interface;
use crate::io::sock_diag::{self, NamedSocket};
use crate::io::sys;

/// Time for which a gateway that was asked to leave may send queued packets before it must free its claims.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of checks while waiting for that.
const NAP: Duration = Duration::from_millis(1);
/// Maximum number of messages read at a time. It exceeds the default queue length (`net.unix.max_dgram_qlen`), so that
/// messages of others do not delay a gateway's request for long.
const MOST_MESSAGES: usize = 16;
/// The message.
const LEAVE: &[u8] = b"leave";

/// While it exists, no other gateway receives from the interface.
#[derive(Debug)]
pub(super) struct Claim(OwnedFd);

/// Result of an attempt to claim an interface.
enum Attempt {
    /// The interface is claimed. The second value is a stranger that holds the plain name, if any.
    Made(Claim, Option<NamedSocket>),
    /// Another gateway has it; the holder, if the kernel reports it.
    Taken(Option<NamedSocket>),
}

impl Claim {
    /// Claims the received frames of the interface with this index.
    fn on(index: i32) -> io::Result<Attempt> {
        let socket = sys::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
        let on: libc::c_int = 1;
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_PASSCRED, &on)?;
        let plain = plain_name(index);
        if bind(&socket, &plain)? {
            // A gateway may have a spare name from a time when a stranger had the plain one.
            let rival = holders(index, &plain).ok().and_then(|all| gateway_among(&all, index).cloned());
            return Ok(match rival {
                Some(rival) => Attempt::Taken(Some(rival)),
                None => Attempt::Made(Self(socket), None),
            });
        }
        // If the kernel does not list the holder, it may be a gateway.
        let Ok(all) = holders(index, "") else { return Ok(Attempt::Taken(None)) };
        let rival = gateway_among(&all, index).cloned();
        let stranger = all.into_iter().find(|holder| holder.name == plain.as_bytes());
        let spare = spare_name(index);
        if rival.is_some() || stranger.is_none() || !bind(&socket, &spare)? {
            return Ok(Attempt::Taken(rival));
        }
        // Of two gateways that skip a stranger at the same time, each sees the other, because both bind before they
        // look.
        let Ok(all) = holders(index, &spare) else { return Ok(Attempt::Taken(None)) };
        Ok(match gateway_among(&all, index).cloned() {
            Some(rival) => Attempt::Taken(Some(rival)),
            None => Attempt::Made(Self(socket), stranger),
        })
    }

    /// Returns true if another gateway of this user, or of root, has requested the interface. Reads up to
    /// [`MOST_MESSAGES`] messages.
    pub(super) fn is_asked_for(&self) -> bool {
        (0..MOST_MESSAGES).map_while(|_| self.receive()).any(|asks| asks)
    }

    /// Reads one message. Returns whether it requests the interface, or `None` if no message waits.
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
        // SAFETY: the message points to one vector and to a control buffer, both writable for the lengths given during
        // the call.
        let received =
            unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut message, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
        let length = usize::try_from(received).ok()?;
        // A gateway sends no ancillary data of its own, so a truncated message is not from a gateway.
        let whole = message.msg_flags & (libc::MSG_CTRUNC | libc::MSG_TRUNC) == 0;
        Some(whole && &text[..length] == LEAVE && control.sender().is_some_and(may_ask))
    }
}

/// Buffer for the credentials of a sender, and for nothing else: the kernel closes descriptors for which there is no
/// room. In a larger buffer it would install them in this process, where they would stay open.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    credentials: libc::ucred,
}

impl Control {
    /// Returns the user who sent the message, as reported by the kernel.
    fn sender(&self) -> Option<libc::uid_t> {
        let header = &self.header;
        let needed = std::mem::offset_of!(Self, credentials) + size_of::<libc::ucred>();
        let are_credentials = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS);
        (are_credentials && header.cmsg_len >= needed as _).then_some(self.credentials.uid)
    }
}

/// Returns true if this user may take a gateway's place.
fn may_ask(user: libc::uid_t) -> bool {
    // SAFETY: takes nothing and cannot fail.
    user == 0 || user == unsafe { libc::geteuid() }
}

/// Sockets with a name for a claim on the interface with this index, except the one with the name `own`.
fn holders(index: i32, own: &str) -> io::Result<Vec<NamedSocket>> {
    let plain = plain_name(index);
    let spare = format!("{plain}.");
    let mut sockets = sock_diag::named_sockets()?;
    sockets.retain(|NamedSocket { name, .. }| {
        name != own.as_bytes() && (name == plain.as_bytes() || name.starts_with(spare.as_bytes()))
    });
    Ok(sockets)
}

/// The first of `holders` that may be a gateway's.
fn gateway_among(holders: &[NamedSocket], index: i32) -> Option<&NamedSocket> {
    holders.iter().find(|holder| may_be_gateway(holder, index))
}

/// Returns true if the holder of a name may be a gateway, or if the kernel does not report it.
fn may_be_gateway(holder: &NamedSocket, index: i32) -> bool {
    holder.user.is_none_or(|user| may_ask(user) || sock_diag::has_packet_socket(user, index).unwrap_or(true))
}

/// An interface that another gateway has.
struct Rival {
    interface: String,
    socket: Option<NamedSocket>,
}

impl Rival {
    /// Looks up the process, which may take milliseconds.
    fn holder(&self) -> Option<ClaimHolder> {
        self.socket.as_ref().and_then(holder_of)
    }
}

fn holder_of(socket: &NamedSocket) -> Option<ClaimHolder> {
    socket.user.map(|user| ClaimHolder { user, process: socket.process() })
}

/// Claims the received frames of each of `interfaces`. With `force`, an interface that another gateway has gives a note
/// instead of an error.
///
/// # Errors
/// [`OpenError::Taken`]: another gateway has one of them.
pub(super) fn claim(interfaces: &[&Interface], force: bool, notes: &mut Vec<String>) -> Result<Vec<Claim>, OpenError> {
    claim_all(interfaces, force, notes).map_err(|rival| taken(&rival))
}

fn taken(rival: &Rival) -> OpenError {
    OpenError::Taken { name: rival.interface.clone(), holder: rival.holder() }
}

fn claim_all(interfaces: &[&Interface], force: bool, notes: &mut Vec<String>) -> Result<Vec<Claim>, Rival> {
    let mut claims = Vec::new();
    for interface in interfaces {
        match Claim::on(interface.index) {
            Ok(Attempt::Made(claim, stranger)) => {
                notes.extend(stranger.map(|stranger| passed_over(&stranger, interface)));
                claims.push(claim);
            }
            Ok(Attempt::Taken(socket)) => {
                let rival = Rival { interface: interface.name.clone(), socket };
                if !force {
                    return Err(rival);
                }
                notes.push(format!("as you wish (--force): {}", taken(&rival)));
            }
            Err(error) => notes.push(format!("{}: cannot check for another gateway: {error}", interface.name)),
        }
    }
    Ok(claims)
}

/// The note about a foreign holder of a claim's plain name.
fn passed_over(stranger: &NamedSocket, interface: &Interface) -> String {
    let holder = holder_of(stranger).map_or_else(|| "an unknown process".to_owned(), |holder| holder.to_string());
    format!(
        "{}: {holder} holds the socket name @{} of a gateway but receives no packets there, so the name is ignored; check what that process is for, and end it",
        interface.name,
        plain_name(interface.index)
    )
}

/// Asks the holders of claims on `interfaces` to leave, and claims the interfaces as soon as they are free.
///
/// # Errors
/// [`OpenError::NotLeft`] if they are not free within 10 s.
pub(super) fn take_over(interfaces: &[&Interface], notes: &mut Vec<String>) -> Result<Vec<Claim>, OpenError> {
    let mut unasked = interfaces.to_vec();
    let until = Instant::now() + PATIENCE;
    loop {
        // Messages of others may fill a gateway's queue for a moment.
        unasked.retain(|interface| ask(interface.index).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        let mut said = Vec::new();
        match claim_all(interfaces, false, &mut said) {
            Ok(claims) => {
                let names: Vec<_> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
                notes.append(&mut said);
                notes.push(format!("took over {} from the running gateway", names.join(" and ")));
                return Ok(claims);
            }
            Err(rival) if Instant::now() >= until => {
                let holder = rival.holder();
                return Err(OpenError::NotLeft { name: rival.interface, holder, waited: PATIENCE });
            }
            Err(_) => std::thread::sleep(NAP),
        }
    }
}

/// Asks each gateway that has a claim on the interface with this index to leave.
///
/// # Errors
/// The error of the first failed message. `WouldBlock`: the receiver's queue is full.
fn ask(index: i32) -> io::Result<()> {
    let names = match holders(index, "") {
        Ok(all) => all.into_iter().filter(|holder| may_be_gateway(holder, index)).map(|holder| holder.name).collect(),
        Err(_) => vec![plain_name(index).into_bytes()],
    };
    let socket = sys::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
    let mut outcome = Ok(());
    for name in &names {
        outcome = outcome.and(send(&socket, name));
    }
    outcome
}

fn send(socket: &OwnedFd, name: &[u8]) -> io::Result<()> {
    let (address, length) = address(name);
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

/// Returns true if a gateway has a claim on the interface with this index.
pub(super) fn is_claimed(index: i32) -> bool {
    match holders(index, "") {
        Ok(all) => gateway_among(&all, index).is_some(),
        Err(_) => matches!(Claim::on(index), Ok(Attempt::Taken(_))),
    }
}

/// The abstract name of the claim on the interface with this index.
fn plain_name(index: i32) -> String {
    format!("fairlink-gateway-{index}")
}

/// A random name for the claim on the interface with this index, which cannot have been bound beforehand.
fn spare_name(index: i32) -> String {
    format!("{}.{:016x}", plain_name(index), RandomState::new().hash_one(index))
}

/// Binds `socket` to an abstract name. Returns true if the name was free.
fn bind(socket: &OwnedFd, name: &str) -> io::Result<bool> {
    let (address, length) = address(name.as_bytes());
    // SAFETY: `address` is readable for `length` bytes during the call.
    match sys::check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The address of an abstract name of at most 107 bytes.
fn address(name: &[u8]) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: a `sockaddr_un` is integers, for which all zeros is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let path = &mut address.sun_path[1..];
    let length = name.len().min(path.len());
    for (to, from) in path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    (address, (std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + length) as libc::socklen_t)
}
