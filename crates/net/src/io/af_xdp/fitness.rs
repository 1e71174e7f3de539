//! Checks that AF_XDP can use an interface; errors name the action to take.

use crate::io::af_xdp::Unfit;
use crate::io::af_xdp::custody::{SENDING, receiving};
use crate::io::ethtool::{self, Offload, Queues};
use crate::io::interface::Interface;

/// Bytes that the kernel keeps free in front of a received frame (`XDP_PACKET_HEADROOM`).
const KEPT_FREE: u32 = 256;
/// Possible sizes of pool frames, so that none crosses a page boundary.
const SIZES: [u32; 2] = [2048, 4096];

/// Most receive queues of an interface: each has frames of its own.
const MOST_QUEUES: u32 = 16;

/// Needs of two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Size of the pool's frames.
    pub(crate) frame_bytes: u32,
    /// Receive queues of each; 0 if it does not receive.
    pub(crate) queues: [u32; 2],
    /// Threads that receive and send, each by queues of its own.
    pub(crate) threads: u32,
}

impl Fit {
    /// Returns the needs of an input and an output, and of this many workers; with `reverse`, the output receives, too.
    ///
    /// # Errors
    /// [`Unfit`]: AF_XDP cannot use one of them; the text names the action to take.
    pub(crate) fn of(interfaces: [&Interface; 2], reverse: bool, workers: usize) -> Result<Self, Unfit> {
        let [input, output] = interfaces;
        let of_input = receive_queues(&input.name, workers)?;
        let queues = [of_input, if reverse { receive_queues(&output.name, workers)? } else { 0 }];
        let threads = workers.max(1) as u32;
        if workers > 0 {
            interfaces.into_iter().try_for_each(|interface| has_transmit_queues(&interface.name, threads))?;
        }
        Ok(Self { frame_bytes: frame_bytes(interfaces)?, queues, threads })
    }

    /// Maximum number of pool frames that both interfaces own.
    pub(crate) fn owned(&self) -> u32 {
        self.queues.iter().map(|&queues| queues * receiving(queues) + self.threads * SENDING).sum()
    }

    /// Returns the queues of `thread` on both interfaces. It sends by the first one of each.
    pub(crate) fn queues_of(&self, thread: u32) -> [Vec<u32>; 2] {
        // An interface that does not receive has a queue of each thread even so.
        self.queues.map(|queues| (thread..queues.max(self.threads)).step_by(self.threads as usize).collect())
    }

    /// Returns the number of pool frames that `thread` has for reception from both interfaces.
    pub(crate) fn receiving_of(&self, thread: u32) -> u32 {
        let of = |(mine, all): (Vec<u32>, u32)| if all == 0 { 0 } else { mine.len() as u32 * receiving(all) };
        self.queues_of(thread).into_iter().zip(self.queues).map(of).sum()
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

/// Returns the numbers of queues.
fn queues(name: &str) -> Result<Queues, Unfit> {
    ethtool::queues(name).map_err(|error| {
        Unfit(format!(
            "{name}: its driver does not report its number of receive queues ({error}), and each needs a socket"
        ))
    })
}

/// Checks that the interface has enough transmit queues for `threads` workers.
fn has_transmit_queues(name: &str, threads: u32) -> Result<(), Unfit> {
    let Queues { transmit, combined, .. } = queues(name)?;
    match transmit.saturating_add(combined) {
        queues if queues < threads => Err(too_few(name, ("transmit", "tx"), queues, (combined, threads as usize))),
        _ => Ok(()),
    }
}

/// Each worker has a queue of its own; `kind` is named in messages and for ethtool.
fn too_few(name: &str, (kind, option): (&str, &str), queues: u32, (combined, workers): (u32, usize)) -> Unfit {
    let option = if combined == 0 { option } else { "combined" };
    Unfit(format!(
        "{name} has {queues} {kind} queue{}, and with AF_XDP each of {workers} workers needs its own: `ethtool -L {name} {option} {workers}`, or fewer cores",
        if queues == 1 { "" } else { "s" }
    ))
}

/// Returns the number of receive queues, at least one for each of `workers`.
fn receive_queues(name: &str, workers: usize) -> Result<u32, Unfit> {
    let Queues { receive, combined, .. } = queues(name)?;
    let kind = if combined == 0 { "rx" } else { "combined" };
    match receive.saturating_add(combined) {
        queues @ 1..=MOST_QUEUES if (queues as usize) < workers => {
            Err(too_few(name, ("receive", "rx"), queues, (combined, workers)))
        }
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
