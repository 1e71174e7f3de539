//! The gateway's ports: whether two interfaces may be, and how they are opened. Nobody else may forward what they receive, and what
//! leaves must not come back. Otherwise frames would be doubled or go round for ever, and nothing would say so.

use std::sync::Arc;

use crate::gateway::claim::{self, Claim};
use crate::gateway::config::{GatewayConfig, OffloadPolicy};
use crate::gateway::fail_open::{self, FailOpen, FailOpenStats, Hold};
use crate::gateway::open_error::OpenError;
use crate::io::af_packet::AfPacket;
use crate::io::interface::{Interface, OffloadsOff};
use crate::io::port::RealPort;

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

/// Both interfaces, opened, and what goes with that.
pub(super) struct Ports {
    pub(super) input: RealPort,
    pub(super) output: RealPort,
    pub(super) held: Held,
}

/// What a gateway has of its interfaces beside their sockets.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// What keeps the kernel from forwarding too while the gateway lives. `None`: nothing passes while it does not.
    pub(super) hold: Option<Hold>,
    pub(super) fail_open: Arc<FailOpenStats>,
    /// Dropping them turns the offloads on again.
    #[expect(dead_code, reason = "held, not read")]
    pub(super) offloads: Vec<OffloadsOff>,
    /// As long as they are kept, no other gateway receives from the same interfaces.
    pub(super) claims: Vec<Claim>,
}

impl Ports {
    /// Opens both interfaces with packet sockets as `config` says, in an order in which no frame is lost or doubled: the kernel's own way, what keeps it
    /// idle, the sockets, and last the place of a gateway that still runs.
    ///
    /// # Errors
    /// [`OpenError`]. Nothing is changed on the interfaces then.
    pub(super) fn open(
        config: &GatewayConfig,
        [input, output]: [&Interface; 2],
        notes: &mut Vec<String>,
    ) -> Result<Self, OpenError> {
        let forth = (input, output);
        let directions = if config.reverse { vec![forth, (output, input)] } else { vec![forth] };
        let receiving: Vec<_> = directions.iter().map(|&(from, _)| from).collect();
        let mut claims = match claim::claim(&receiving, config.force, notes) {
            Err(OpenError::Taken { .. }) if config.take_over => None,
            claims => Some(claims?),
        };
        // Beside one that does not fail open, the kernel's own way would double what it forwards.
        if claims.is_none() && (config.fail_open == FailOpen::Never || !fail_open::are_laid(&directions)) {
            claims = Some(claim::take_over(&receiving, notes)?);
        }
        let (hold, fail_open) =
            match (Hold::prepare(config.fail_open, &directions, claims.is_some(), notes)?, claims.is_some()) {
                ((None, stats), false) => {
                    claims = Some(claim::take_over(&receiving, notes)?);
                    Hold::without(&directions, notes);
                    (None, stats)
                }
                (prepared, _) => prepared,
            };
        let gate = hold.as_ref().and_then(Hold::gate);
        let open = |interface| AfPacket::behind(interface, &config.sockets, gate).map_err(OpenError::from);
        let open_output = || match config.reverse {
            true => open(output),
            false => AfPacket::sending_only(output, &config.sockets).map_err(OpenError::from),
        };
        let opened = open(input).and_then(|from| Ok((from, open_output()?))).and_then(|(from, to)| {
            let offloads = offloads(config.offloads, [(input, &from), (output, &to)], notes)?;
            let claims = match claims {
                Some(claims) => claims,
                None => claim::take_over(&receiving, notes)?,
            };
            Ok((offloads, from, to, claims))
        });
        match opened {
            Ok((offloads, from, to, claims)) => {
                for socket in [(input, &from), (output, &to)] {
                    note_short_buffer(config, socket, notes);
                }
                let (input, output) = (RealPort::Packet(from), RealPort::Packet(to));
                Ok(Self { input, output, held: Held { hold, fail_open: Arc::new(fail_open), offloads, claims } })
            }
            Err(error) => {
                if let Some(hold) = hold {
                    hold.undo();
                }
                Err(error)
            }
        }
    }
}

/// Says where the kernel allows less than was asked for.
fn note_short_buffer(config: &GatewayConfig, (interface, socket): (&Interface, &AfPacket), notes: &mut Vec<String>) {
    let (received, _) = socket.kernel_buffer_bytes();
    let asked = config.sockets.receive_buffer;
    if received < asked {
        notes.push(format!(
            "{}: the kernel allows a receive buffer of {received} B, {asked} were asked for; `sysctl net.core.rmem_max` is \
             the limit without CAP_NET_ADMIN",
            interface.name
        ));
    }
}

/// Does about offloads that join packets what `policy` says. Where joined packets are split, they do no harm.
fn offloads(
    policy: OffloadPolicy,
    interfaces: [(&Interface, &AfPacket); 2],
    notes: &mut Vec<String>,
) -> Result<Vec<OffloadsOff>, OpenError> {
    let mut off = Vec::new();
    for (interface, socket) in interfaces {
        let name = interface.name.clone();
        if let Some(why) = socket.undescribed() {
            notes.push(format!(
                "{name}: the kernel does not describe frames ({why}): those that an offload has joined are dropped as too \
                 long, and checksums that the sender left to hardware stay unfinished; turn that off where they come from, \
                 which for a veth is its other end (`ethtool -K PEER tso off gso off tx off`)"
            ));
        }
        let harmful = interface.offloads.harmful();
        if harmful.is_empty() {
            continue;
        }
        match policy {
            OffloadPolicy::Fix => {
                if let Some(turned_off) = OffloadsOff::new(interface)? {
                    notes.push(format!("{name}: turned off {}, until the gateway ends", turned_off.names().join(", ")));
                    off.push(turned_off);
                }
            }
            _ if socket.undescribed().is_none() => {
                if interface.offloads.lro {
                    notes.push(format!(
                        "{name}: lro is on; what it joins is split again only if its driver says how it was joined, and is \
                         lost as unreadable_packets if not; --fix-offloads turns it off"
                    ));
                }
            }
            OffloadPolicy::Refuse => return Err(OpenError::Offloads { name, offloads: harmful }),
            OffloadPolicy::Ignore => notes
                .push(format!("{name}: {} is on; packets that it joins are dropped as too long", harmful.join(", "))),
        }
    }
    Ok(off)
}

mod xdp;

pub(super) use xdp::WhyNot;
