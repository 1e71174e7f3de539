//! Checks that AF_XDP can use an interface; errors name the action to take.

use crate::io::af_xdp::Unfit;
use crate::io::af_xdp::custody::{SENDING, receiving};
use crate::io::ethtool::{self, Offload, ReceiveQueues};
use crate::io::interface::Interface;

/// Bytes that the kernel keeps free in front of a received frame (`XDP_PACKET_HEADROOM`).
const KEPT_FREE: u32 = 256;
/// Possible sizes of pool frames, so that none crosses a page boundary.
const SIZES: [u32; 2] = [2048, 4096];

/// Most receive queues of an interface: the data thread fetches from all, and each has frames of its own.
const MOST_QUEUES: u32 = 16;

/// Needs of two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Size of the pool's frames.
    pub(crate) frame_bytes: u32,
    /// Receive queues of each; 0 if it does not receive.
    pub(crate) queues: [u32; 2],
}

impl Fit {
    /// Returns the needs of an input and an output; with `reverse`, the output receives, too.
    ///
    /// # Errors
    /// [`Unfit`]: AF_XDP cannot use one of them; the text names the action to take.
    pub(crate) fn of(interfaces: [&Interface; 2], reverse: bool) -> Result<Self, Unfit> {
        let [input, output] = interfaces;
        let back = if reverse { receive_queues(&output.name)? } else { 0 };
        Ok(Self { frame_bytes: frame_bytes(interfaces)?, queues: [receive_queues(&input.name)?, back] })
    }

    /// Maximum number of pool frames that both interfaces own.
    pub(crate) fn owned(&self) -> u32 {
        self.queues.iter().map(|&queues| queues * receiving(queues) + SENDING).sum()
    }
}

/// Returns the size of the pool's frames.
fn frame_bytes(interfaces: [&Interface; 2]) -> Result<u32, Unfit> {
    let mut all = SIZES[0];
    for interface in interfaces {
        let Interface { name, driver, offloads, .. } = interface;
        let longest = interface.largest_frame().saturating_add(KEPT_FREE);
        let Some(size) = SIZES.into_iter().find(|&size| longest <= size) else {
            let most = SIZES[1] - KEPT_FREE - (interface.largest_frame() - interface.mtu);
            return Err(Unfit(format!(
                "{name}: a frame of AF_XDP lies within one page, which limits the mtu to {most}, but it is {}: `ip link set {name} mtu {most}`",
                interface.mtu
            )));
        };
        all = all.max(size);
        if driver == "tun" {
            return Err(Unfit(format!(
                "{name} is a tap: super-frames of a virtual machine do not reach an XDP program whole"
            )));
        }
        if offloads.lro {
            return Err(Unfit(format!("{name}: lro joins packets before XDP sees them: `ethtool -K {name} lro off`")));
        }
    }
    Ok(all)
}

/// Returns the number of receive queues.
fn receive_queues(name: &str) -> Result<u32, Unfit> {
    let ReceiveQueues { alone, combined } = ethtool::receive_queues(name).map_err(|error| {
        Unfit(format!(
            "{name}: its driver does not report its number of receive queues ({error}), and each needs a socket"
        ))
    })?;
    let kind = if combined == 0 { "rx" } else { "combined" };
    match alone.saturating_add(combined) {
        queues @ 1..=MOST_QUEUES => Ok(queues),
        queues => Err(Unfit(format!(
            "{name} has {queues} receive queues, and AF_XDP fetches from up to {MOST_QUEUES} here: `ethtool -L {name} {kind} {MOST_QUEUES}`"
        ))),
    }
}

/// Returns true if VLAN tags may arrive beside a frame instead of in it. A veth hands over what its other end sent,
/// whatever its own settings are; only that end knows.
pub(super) fn takes_tags_out(interface: &Interface) -> bool {
    interface.driver == "veth" || ethtool::is_on(&interface.name, Offload::RxVlan).unwrap_or(true)
}
