//! Sign of life for programs in the kernel: a map entry that the kernel removes as soon as this process closes its
//! files, before anything slow.
//!
//! The entry is an AF_XDP socket without an interface. To close a socket with an interface, the kernel waits for all
//! processors. The direction closed last would then be without traffic for some 20 ms after kill -9. The kernel closes
//! the highest descriptor first.

use std::io;
use std::os::fd::OwnedFd;

use crate::io::bpf::{self, Map, MapKind};
use crate::io::sys::{self, Region};

/// Memory that a socket needs before it may be in a map: one frame.
const BYTES: usize = 4096;

/// See the module. Dropping it removes the sign of life.
#[derive(Debug)]
pub(crate) struct Life {
    #[expect(dead_code, reason = "held, not read")]
    socket: OwnedFd,
    /// Its entry 0 exists as long as this process lives.
    pub(crate) map: Map,
    #[expect(dead_code, reason = "held, not read")]
    memory: Region,
}

impl Life {
    /// # Errors
    /// The refused operation, and the kernel's answer.
    pub(crate) fn begin() -> Result<Self, String> {
        let map = Map::new(MapKind::XdpSockets, "fairlink_life", 1, 4).map_err(|error| error.to_string())?;
        let socket = || -> io::Result<_> {
            let socket = bpf::move_up(sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?)?;
            let memory = Region::reserve(BYTES)?;
            let region = libc::xdp_umem_reg {
                addr: memory.as_mut_ptr().expose_provenance() as u64,
                len: BYTES as u64,
                chunk_size: BYTES as u32,
                headroom: 0,
                flags: 0,
                tx_metadata_len: 0,
            };
            sys::set_option(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &region)?;
            Ok((socket, memory))
        };
        let (socket, memory) = socket().map_err(|error| format!("an AF_XDP socket: {error}"))?;
        map.set_socket(0, &socket).map_err(|error| error.to_string())?;
        Ok(Self { socket, map, memory })
    }
}
