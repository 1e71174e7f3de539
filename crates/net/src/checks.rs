//! What the gateway looks at before a frame moves.

use fairlink_core::Hierarchy;

use crate::gateway::{GatewayConfig, LongFrames, OffloadPolicy, OpenError, Processor};
use crate::interface::{ETHERNET_HEADER, Interface, OffloadsOff};
use crate::sys;

/// Notes on an interface that works but may surprise.
pub(crate) fn look_at(interface: &Interface, notes: &mut Vec<String>) {
    let name = &interface.name;
    if interface.has_address {
        notes.push(format!(
            "{name} has an IP address: the kernel also answers what the gateway forwards; a gateway's interfaces should \
             have none (`ip address flush dev {name}`)"
        ));
    }
    if interface.driver == "veth" && (interface.offloads.tso || interface.offloads.gso) {
        notes.push(format!(
            "{name} is a veth: if its other end has tso or gso on, whole segments of up to 64 kB arrive as one frame and \
             are dropped as too long; turn them off there (`ethtool -K PEER tso off gso off`)"
        ));
    }
}

/// Raises the link's largest packet to the input's frames, where they are longer and that is wanted.
pub(crate) fn fit_largest_packet(
    config: &mut GatewayConfig,
    input: &Interface,
    notes: &mut Vec<String>,
) -> Result<(), OpenError> {
    let untagged = config.overhead.accounted(input.mtu.saturating_add(ETHERNET_HEADER));
    let limit = config.tree.link().max_packet;
    if untagged <= limit {
        return Ok(());
    }
    match config.long_frames {
        LongFrames::Accept => {
            let tagged = config.overhead.accounted(input.largest_frame());
            config.tree = config.tree.clone().with_max_packet(tagged)?;
            notes.push(format!(
                "{} carries frames of up to {} B, which with VLAN tags count up to {tagged} B on the link, more than the \
                 link file's largest of {limit} B; they are accepted, and bounds printed for {limit} B grow with them: \
                 set mtu = \"{}B\" to have those printed",
                input.name,
                input.mtu + ETHERNET_HEADER,
                input.largest_frame()
            ));
        }
        LongFrames::Drop => notes.push(format!(
            "{} carries frames of up to {} B; those that count more than {limit} B on the link are dropped as too long",
            input.name,
            input.mtu + ETHERNET_HEADER
        )),
    }
    Ok(())
}

/// Most packets that all queues together may hold.
pub(crate) fn most_queued(tree: &Hierarchy) -> u32 {
    let limits: u64 = tree.leaves().iter().map(|&leaf| u64::from(tree.config(leaf).limits.packets)).sum();
    limits.min(u64::from(tree.link().max_queued)) as u32
}

pub(crate) fn offloads(
    policy: OffloadPolicy,
    interfaces: [&Interface; 2],
    notes: &mut Vec<String>,
) -> Result<Vec<OffloadsOff>, OpenError> {
    let mut off = Vec::new();
    for interface in interfaces {
        let harmful = interface.offloads.harmful();
        if harmful.is_empty() {
            continue;
        }
        let name = interface.name.clone();
        match policy {
            OffloadPolicy::Refuse => return Err(OpenError::Offloads { name, offloads: harmful }),
            OffloadPolicy::Fix => {
                if let Some(turned_off) = OffloadsOff::new(interface)? {
                    notes.push(format!("{name}: turned off {}, until the gateway ends", turned_off.names().join(", ")));
                    off.push(turned_off);
                }
            }
            OffloadPolicy::Ignore => notes
                .push(format!("{name}: {} is on; packets that it joins are dropped as too long", harmful.join(", "))),
        }
    }
    Ok(off)
}

/// The processor to run on, checked.
pub(crate) fn pick(processor: Processor) -> Result<Option<usize>, OpenError> {
    match processor {
        Processor::Any => Ok(None),
        Processor::Last => Ok(sys::allowed_processors().last().copied()),
        Processor::Number(number) if sys::allowed_processors().contains(&number) => Ok(Some(number)),
        Processor::Number(processor) => {
            let source = std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                format!("this process may use {:?}", sys::allowed_processors()),
            );
            Err(OpenError::Processor { processor, source })
        }
    }
}
