//! Checks that AF_XDP can use an interface; errors name the action to take.

use crate::io::af_xdp::Unfit;
use crate::io::ethtool::{self, Offload, ReceiveQueues};
use crate::io::interface::Interface;

/// Bytes that the kernel keeps free in front of a received frame (`XDP_PACKET_HEADROOM`).
const KEPT_FREE: u32 = 256;
/// Possible sizes of pool frames, so that none crosses a page boundary.
const SIZES: [u32; 2] = [2048, 4096];

/// Returns the size of the pool's frames for these two interfaces.
///
/// # Errors
/// [`Unfit`]: AF_XDP cannot use one of them; the text names the action to take.
pub(crate) fn frame_bytes(interfaces: [&Interface; 2]) -> Result<u32, Unfit> {
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
        one_queue(name)?;
    }
    Ok(all)
}

/// Checks that there is one receive queue, because each socket serves one.
fn one_queue(name: &str) -> Result<(), Unfit> {
    match ethtool::receive_queues(name) {
        Ok(ReceiveQueues { alone, combined }) if alone + combined == 1 => Ok(()),
        Ok(ReceiveQueues { alone, combined: 0 }) => Err(Unfit(format!(
            "{name} has {alone} receive queues, and a socket serves only one: `ethtool -L {name} rx 1`"
        ))),
        Ok(ReceiveQueues { alone, combined }) => Err(Unfit(format!(
            "{name} has {} receive queues, and a socket serves only one: `ethtool -L {name} combined 1`",
            alone + combined
        ))),
        Err(error) => Err(Unfit(format!(
            "{name}: its driver does not report its number of receive queues ({error}), and a socket serves only one"
        ))),
    }
}

/// Returns true if VLAN tags may arrive beside a frame instead of in it. A veth hands over what its other end sent,
/// whatever its own settings are; only that end knows.
pub(super) fn takes_tags_out(interface: &Interface) -> bool {
    interface.driver == "veth" || ethtool::is_on(&interface.name, Offload::RxVlan).unwrap_or(true)
}
