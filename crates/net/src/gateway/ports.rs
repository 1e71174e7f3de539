//! Whether two interfaces may be a gateway's ports: that nobody else forwards what they receive, and that what leaves does not come
//! back. Otherwise frames would be doubled or go round for ever, and nothing would say so.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::gateway::open_error::OpenError;
use crate::io::interface::Interface;
use crate::io::sys;

/// Refuses what would double frames or send them in a circle. With `force` it is a note.
pub(super) fn check([input, output]: [&Interface; 2], force: bool, notes: &mut Vec<String>) -> Result<(), OpenError> {
    let mut refuse = |error: OpenError| match force {
        true => {
            notes.push(format!("as you wish (--force): {error}"));
            Ok(())
        }
        false => Err(error),
    };
    if input.joined_to == Some(output.index) && input.driver == "veth" {
        refuse(OpenError::SameCable { input: input.name.clone(), output: output.name.clone() })?;
    }
    for Interface { name, master, addresses, .. } in [input, output] {
        if let Some(master) = master {
            refuse(OpenError::Bridged { name: name.clone(), master: master.clone() })?;
        }
        if !addresses.is_empty() {
            let addresses = addresses.iter().map(ToString::to_string).collect();
            refuse(OpenError::Addressed { name: name.clone(), addresses })?;
        }
    }
    for Interface { name, answers_for_others, .. } in [input, output] {
        if *answers_for_others {
            notes.push(format!(
                "the kernel answers ARP requests at {name} for this host's other addresses; to have it silent there: `sysctl -w \
                 net.ipv4.conf.{name}.arp_ignore=1`"
            ));
        }
    }
    Ok(())
}

/// Makes the gateway the only one that forwards what `interface` receives, until the result is dropped or the process ends. With
/// `force` a second one gets a note.
pub(super) fn claim(interface: &Interface, force: bool, notes: &mut Vec<String>) -> Result<Option<OwnedFd>, OpenError> {
    match bind_name(&format!("fairlink-gateway-{}", interface.index)) {
        Ok(claim) => Ok(Some(claim)),
        Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => {
            let taken = OpenError::Taken { name: interface.name.clone() };
            if !force {
                return Err(taken);
            }
            notes.push(format!("as you wish (--force): {taken}"));
            Ok(None)
        }
        Err(error) => {
            notes
                .push(format!("{}: it is not known whether another gateway is running there: {error}", interface.name));
            Ok(None)
        }
    }
}

/// A socket with an abstract name. A network namespace has each name once, as it has each interface, and the kernel frees it with
/// the process, however that ends.
fn bind_name(name: &str) -> std::io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
    // SAFETY: a `sockaddr_un` is integers, for which all zeros is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let length = (std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len()) as libc::socklen_t;
    // SAFETY: `address` is readable for `length` bytes during the call.
    sys::check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) })?;
    Ok(socket)
}
