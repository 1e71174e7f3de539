//! Virtual cables: pairs of virtual Ethernet interfaces.

use std::io;

use fairlink_net::system as sys;
use fairlink_net::system::{Pair, wait_until_running};
use fairlink_net::{Offload, set_offload, system as ethtool};

/// Both ends have the mtu and the queue length of an Ethernet interface.
const CABLE: Pair<'static> = Pair { mtu: 1500, queue: 1000, alias: "" };
/// Offloads with which an end would deliver frames that a wire cannot carry: unfinished, or longer than its mtu.
const OFFLOADS: [Offload; 6] =
    [Offload::RxChecksum, Offload::TxChecksum, Offload::ScatterGather, Offload::Tso, Offload::Gso, Offload::Gro];

/// Creates virtual cables, each between two new interfaces of these names, and returns when all of them carry frames.
/// Each end has one queue in each direction, so that frames stay in order, and no offloads.
///
/// # Errors
/// The kernel's answer: a name that exists (`EEXIST`), no permission (`EPERM`), a kernel without veth (`EOPNOTSUPP`);
/// `TimedOut` if a cable is not in service after 10 s. Cables that were created before stay.
pub fn lay_cables(pairs: &[(&str, &str)]) -> io::Result<()> {
    for (name, peer) in pairs {
        CABLE.create(name, peer)?;
        [name, peer].into_iter().try_for_each(|name| ethtool::turn_off(name, &OFFLOADS))?;
        sys::set_interface_up(name, true)?;
        sys::set_interface_up(peer, true)?;
    }
    pairs.iter().flat_map(|&(name, peer)| [name, peer]).try_for_each(wait_until_running)
}

/// Turns on the default offloads of a virtual cable at these ends: segmentation and checksums are left to others.
///
/// # Errors
/// The kernel's answer, with the interface and the offload.
pub fn default_offloads(names: &[&str]) -> io::Result<()> {
    for name in names {
        for offload in OFFLOADS {
            set_offload(name, offload, true)
                .map_err(|error| io::Error::new(error.kind(), format!("{name}: {offload:?}: {error}")))?;
        }
    }
    Ok(())
}
