//! The program that gives an interface's frames to its AF_XDP socket, or lets them pass.
//!
//! ```text
//! the heartbeat is stale, or zero               -> pass, to the kernel's own path, if the gateway fails open
//! the process has ended                         -> pass
//! no socket for this queue of the interface     -> pass
//! the driver has taken a VLAN tag out           -> put it in again
//! the gateway has the kernel drop its class     -> drop it
//! otherwise                                     -> to the socket
//! ```
//!
//! A frame goes one way or the other, and never both, because only this program decides. When the process ends, the
//! kernel at once removes its sign of life from a map ([`super::life`]), then its sockets, and then the link that holds
//! the program.
//!
//! VLAN tags: a driver that strips them hands them over beside the frame, where a socket does not see them. So does a
//! veth whose other end leaves them to hardware. A program for one device may ask the driver
//! (`bpf_xdp_metadata_rx_vlan_tag`, Linux 6.8).

use std::os::fd::AsFd;

use fairlink_core::Nanos;

use crate::io::bpf::assembler::{Assembler, Function, Part, Register::*, When, Width};
use crate::io::bpf::types;
use crate::io::bpf::{Attachment, BpfError, Link, Map, MapKind, Program, ProgramKind};

/// Verdict of the program: `XDP_PASS`.
const PASS: i32 = 2;
/// Members of `struct xdp_md`, the program's view of a frame: start, end and receive queue.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;
/// The driver's function that returns a VLAN tag.
const TAG_FUNCTION: &str = "bpf_xdp_metadata_rx_vlan_tag";
/// Length in bytes of the addresses at the beginning of a frame, and of a tag.
const ADDRESSES: i16 = 12;
const TAG: i16 = 4;
/// Variables of the program, as offsets from the end of its stack.
const TAG_KIND: i16 = -8;
const TAG_VALUE: i16 = -16;
const KEY: i16 = -24;

/// A heartbeat for the program: a time in ns of the machine's monotonic clock, in a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat<'a> {
    /// Its first value.
    pub(crate) map: &'a Map,
    /// Age from which the gateway counts as stalled.
    pub(crate) stale: Nanos,
    /// Its entry 0 exists as long as the process lives ([`Life`](crate::io::af_xdp::Life)).
    pub(crate) life: &'a Map,
}

/// The program in its place.
#[derive(Debug)]
pub(super) struct Redirection {
    #[expect(dead_code, reason = "held, not read")]
    link: Link,
    pub(super) sockets: Map,
}

impl Redirection {
    /// Attaches the program to the interface with this index and this number of receive queues. With a `beat` it redirects
    /// only while that is fresh. With `tags` it reads VLAN tags from the driver. `before` is
    /// appended where it would redirect a frame.
    ///
    /// # Errors
    /// [`BpfError`]; `EBUSY` if another program is attached.
    pub(super) fn new(
        (index, queues): (i32, u32),
        beat: Option<Beat<'_>>,
        tags: bool,
        before: Option<Part<'_>>,
    ) -> Result<Self, BpfError> {
        let sockets = Map::new(MapKind::XdpSockets, "fairlink_xsks", queues, 4)?;
        let function = match tags {
            true => Some(types::function(TAG_FUNCTION).map_err(|source| BpfError {
                what: "finding the function that returns VLAN tags (Linux 6.8, CONFIG_DEBUG_INFO_BTF)".to_owned(),
                source,
                log: String::new(),
            })?),
            false => None,
        };
        let code = redirect(beat, &sockets, function, before);
        let place = Attachment::Xdp;
        let program = Program::load_for(ProgramKind::Xdp, "fairlink_xdp", Some(place), function.map(|_| index), code)?;
        Ok(Self { link: program.attach(place, index)?, sockets })
    }
}

fn redirect(beat: Option<Beat<'_>>, sockets: &Map, tag_function: Option<u32>, before: Option<Part<'_>>) -> Assembler {
    let mut code = Assembler::new();
    let [pass, to_socket] = [code.label(), code.label()];
    code.copy(R9, R1);
    if let Some(Beat { map, stale, life }) = beat {
        // Read the heartbeat before the clock, so that it is never ahead of it.
        code.map_value(R1, map.fd.as_fd()).load(Width::Eight, R7, R1, 0);
        code.jump(When::Equal, R7, 0, pass);
        code.call(Function::Clock).subtract(R0, R7);
        code.jump(When::Greater, R0, stale.0 as i32, pass);
        code.store_number(Width::Four, R10, KEY, 0);
        code.map(R1, life.fd.as_fd()).copy(R2, R10).add(R2, i32::from(KEY)).call(Function::MapLookup);
        code.jump(When::Equal, R0, 0, pass);
    }
    code.load(Width::Four, R2, R9, QUEUE).store(Width::Four, R10, KEY, R2);
    code.map(R1, sockets.fd.as_fd()).copy(R2, R10).add(R2, i32::from(KEY)).call(Function::MapLookup);
    code.jump(When::Equal, R0, 0, pass);
    if let Some(function) = tag_function {
        code.store_number(Width::Eight, R10, TAG_KIND, 0).store_number(Width::Eight, R10, TAG_VALUE, 0);
        code.copy(R1, R9);
        code.copy(R2, R10).add(R2, i32::from(TAG_KIND)).copy(R3, R10).add(R3, i32::from(TAG_VALUE));
        code.call_kernel(function).jump(When::NotEqual, R0, 0, to_socket);
        code.copy(R1, R9).set(R2, i32::from(-TAG)).call(Function::AdjustHead).jump(When::NotEqual, R0, 0, pass);
        code.load(Width::Four, R2, R9, DATA).load(Width::Four, R3, R9, DATA_END);
        code.copy(R4, R2).add(R4, i32::from(ADDRESSES + TAG)).jump_registers(When::Greater, R4, R3, pass);
        for at in (0..ADDRESSES).step_by(4) {
            code.load(Width::Four, R4, R2, at + TAG).store(Width::Four, R2, at, R4);
        }
        code.load(Width::Two, R4, R10, TAG_KIND).store(Width::Two, R2, ADDRESSES, R4);
        code.load(Width::Two, R4, R10, TAG_VALUE).big_endian16(R4).store(Width::Two, R2, ADDRESSES + 2, R4);
    }
    code.here(to_socket);
    if let Some(before) = before {
        before(&mut code);
    }
    code.map(R1, sockets.fd.as_fd()).load(Width::Four, R2, R9, QUEUE).set(R3, PASS);
    code.call(Function::RedirectMap).exit();
    code.here(pass).set(R0, PASS).exit();
    code
}
