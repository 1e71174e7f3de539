//! Lists the sockets of this network namespace with their owners, by sock_diag(7). Any user may do so. Layouts are in
//! `linux/unix_diag.h` and `linux/packet_diag.h`.

use std::io;

use crate::io::netlink::{self, NETLINK_HEADER, attribute_of, number32};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// Length of `struct unix_diag_msg` and of `struct packet_diag_msg`, before their attributes.
const HEADER: usize = 16;
/// Position of the socket's inode in both layouts.
const INODE: usize = 4;

// Of `linux/unix_diag.h`.
const UDIAG_SHOW_NAME: u32 = 0x01;
const UDIAG_SHOW_UID: u32 = 0x40;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_UID: u16 = 7;

// Of `linux/packet_diag.h`.
const PACKET_SHOW_INFO: u32 = 0x01;
const PACKET_DIAG_INFO: u16 = 0;
const PACKET_DIAG_UID: u16 = 5;

/// A datagram socket that has an abstract name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedSocket {
    /// The name, without the zero before it.
    pub(crate) name: Vec<u8>,
    /// The user who opened it, in this user namespace. `None` if the kernel does not report it (before Linux 5.3).
    pub(crate) user: Option<libc::uid_t>,
    inode: u32,
}

impl NamedSocket {
    /// Reads `struct unix_diag_msg` with its attributes. `None` if it is another kind of socket, or has no abstract
    /// name.
    fn from_message(body: &[u8]) -> Option<Self> {
        let attributes = body.get(HEADER..)?;
        if i32::from(*body.get(1)?) != libc::SOCK_DGRAM {
            return None;
        }
        let name = attribute_of(attributes, UNIX_DIAG_NAME)?.strip_prefix(&[0])?.to_vec();
        let user = attribute_of(attributes, UNIX_DIAG_UID).and_then(|user| number32(user, 0));
        Some(Self { name, user, inode: number32(body, INODE)? })
    }

    /// Searches for a process that has the socket. Returns `None` if this process may not see the owner.
    pub(crate) fn process(&self) -> Option<u32> {
        let link = format!("socket:[{}]", self.inode);
        let has_it = |process: &u32| {
            let mut files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
            files.any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == link.as_str()))
        };
        let entries = std::fs::read_dir("/proc").ok()?.flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(has_it)
    }
}

/// Lists the datagram sockets with abstract names in this network namespace.
///
/// # Errors
/// The kernel's answer, such as that of a kernel without `CONFIG_UNIX_DIAG`.
pub(crate) fn named_sockets() -> io::Result<Vec<NamedSocket>> {
    // `struct unix_diag_req`: family, protocol, padding, states, inode, attributes to show, cookie.
    let numbers = [libc::AF_UNIX as u32, u32::MAX, 0, UDIAG_SHOW_NAME | UDIAG_SHOW_UID, 0, 0];
    Ok(dump(&numbers)?.iter().filter_map(|body| NamedSocket::from_message(body)).collect())
}

/// Returns true if `user` has a packet socket at the interface with this index. Opening one needs CAP_NET_RAW in this
/// network namespace.
///
/// # Errors
/// The kernel's answer, such as that of a kernel without `CONFIG_PACKET_DIAG`.
pub(crate) fn has_packet_socket(user: libc::uid_t, index: i32) -> io::Result<bool> {
    // `struct packet_diag_req`: family, protocol, padding, inode, attributes to show, cookie.
    let numbers = [libc::AF_PACKET as u32, 0, PACKET_SHOW_INFO, 0, 0];
    Ok(dump(&numbers)?.iter().any(|body| is_packet_socket(body, user, index).unwrap_or(false)))
}

/// Returns true if `struct packet_diag_msg` with its attributes describes a socket of this user at this interface.
fn is_packet_socket(body: &[u8], user: libc::uid_t, index: i32) -> Option<bool> {
    let attributes = body.get(HEADER..)?;
    let at = number32(attribute_of(attributes, PACKET_DIAG_INFO)?, 0)?;
    let of = number32(attribute_of(attributes, PACKET_DIAG_UID)?, 0)?;
    Some(at == index as u32 && of == user)
}

/// Requests all sockets of a family with `numbers` as the request, the first of which is the family (in its lowest
/// byte).
fn dump(numbers: &[u32]) -> io::Result<Vec<Vec<u8>>> {
    let mut message = vec![0; NETLINK_HEADER];
    message.push(numbers[0] as u8);
    message.extend([0; 3]);
    message.extend(numbers[1..].iter().flat_map(|number| number.to_ne_bytes()));
    netlink::address(&mut message, BY_FAMILY, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    netlink::dump_of(libc::NETLINK_SOCK_DIAG, &message)
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

    use super::*;

    #[test]
    fn a_datagram_socket_with_an_abstract_name_is_listed_with_its_user_and_process() {
        let name = format!("fairlink-sock-diag-{}", std::process::id());
        let found = || named_sockets().unwrap().into_iter().filter(|socket| socket.name == name.as_bytes());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        // Stream sockets have a separate name space.
        let _stream = UnixListener::bind_addr(&address).unwrap();
        match named_sockets() {
            Err(error) => {
                println!("SKIPPED: the kernel lists no sockets: {error}");
                return;
            }
            Ok(_) => assert_eq!(found().count(), 0),
        }
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let all: Vec<_> = found().collect();
        // SAFETY: takes nothing and cannot fail.
        assert_eq!(all.iter().map(|found| found.user).collect::<Vec<_>>(), [Some(unsafe { libc::geteuid() })]);
        assert_eq!(all[0].process(), Some(std::process::id()));
        drop(socket);
        assert_eq!(found().count(), 0);
        assert_eq!(all[0].process(), None);
    }

    #[test]
    fn messages_that_are_cut_short_are_passed_over() {
        let mut body = vec![1, libc::SOCK_DGRAM as u8, 7, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        netlink::push_attribute(&mut body, UNIX_DIAG_NAME, b"\0name");
        netlink::push_attribute(&mut body, UNIX_DIAG_UID, &9u32.to_ne_bytes());
        let whole = NamedSocket { name: b"name".to_vec(), user: Some(9), inode: 5 };
        assert_eq!(NamedSocket::from_message(&body), Some(whole));
        for length in 0..HEADER + 9 {
            assert_eq!(NamedSocket::from_message(&body[..length]), None, "{length}");
            assert_eq!(is_packet_socket(&body[..length], 9, 0), None, "{length}");
        }
    }
}
