//! The gateway's ports: checks and opens two interfaces. Nothing else may forward the frames that they receive, and
//! sent frames must not come back. Otherwise frames would be doubled or loop for ever, without a report.

use std::sync::Arc;

use crate::gateway::cable::{self, Cable};
use crate::gateway::claim::{self, Claim};
use crate::gateway::config::{GatewayConfig, OffloadPolicy};
use crate::gateway::early::Early;
use crate::gateway::fail_open::redirect::Marks;
use crate::gateway::fail_open::{self, FailOpen, FailOpenStats, Hold};
use crate::gateway::open_error::OpenError;
use crate::gateway::workers::{self, Common, Desk, Staff};
use crate::io::af_packet::{AfPacket, AfPacketOptions, RxFilter};
use crate::io::backend::{Backend, BackendInfo, BackendKind};
use crate::io::bpf::assembler::{Assembler, Part};
use crate::io::clock::MonotonicClock;
use crate::io::frame_pool::FramePool;
use crate::io::hub::{self, Sockets};
use crate::io::interface::{Interface, OffloadsOff};
use crate::io::port::RealPort;

/// The two interfaces of a gateway, looked up. For the host's own traffic the cable is created first.
pub(super) struct Looked {
    pub(super) input: Interface,
    pub(super) output: Interface,
    cable: Option<Cable>,
}

impl Looked {
    /// # Errors
    /// [`OpenError`]: an interface that cannot be used, a cable that cannot be created.
    pub(super) fn up(config: &GatewayConfig) -> Result<Self, OpenError> {
        if !config.own_traffic {
            let input = Interface::open(&config.input)?;
            return Ok(Self { input, output: Interface::open(&config.output)?, cable: None });
        }
        let output = Interface::open(&config.output)?;
        let cable = Cable::lay(&output.name)?;
        Ok(Self { input: cable::input(&output)?, output, cable: Some(cable) })
    }

    /// Rejects configurations that would double frames or loop them, as [`check`] does. The host's own frames cannot.
    pub(super) fn check(&self, force: bool, notes: &mut Vec<String>) -> Result<(), OpenError> {
        match self.cable {
            Some(_) => Ok(()),
            None => check([&self.input, &self.output], force, notes),
        }
    }
}

/// Rejects configurations that would double frames or loop them. With `force`, adds a note instead.
fn check([input, output]: [&Interface; 2], force: bool, notes: &mut Vec<String>) -> Result<(), OpenError> {
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
                "the kernel answers ARP requests at {name} for this host's other addresses; to prevent that: `sysctl -w \
                 net.ipv4.conf.{name}.arp_ignore=1`"
            ));
        }
    }
    Ok(())
}

/// Both open interfaces, and the resources that belong to them.
pub(super) struct Ports {
    pub(super) input: RealPort,
    pub(super) output: RealPort,
    pub(super) held: Held,
}

/// Parts that the workers of a gateway share with its data thread besides the pool.
#[derive(Clone, Debug)]
pub(crate) struct Within {
    pub(crate) clock: MonotonicClock,
    /// `None` without workers.
    pub(crate) desk: Option<Arc<Desk>>,
}

/// Resources of a gateway at its interfaces, besides sockets.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Keeps the kernel from forwarding, too, while the gateway lives. `None`: nothing passes while the gateway does
    /// not run.
    pub(super) hold: Option<Hold>,
    pub(super) fail_open: Arc<FailOpenStats>,
    /// Dropping them turns the offloads on again.
    #[expect(dead_code, reason = "held, not read")]
    pub(super) offloads: Vec<OffloadsOff>,
    /// While they exist, no other gateway receives from the same interfaces.
    pub(super) claims: Vec<Claim>,
    /// The cable for the host's own frames. It is dropped last.
    cable: Option<Cable>,
}

impl Held {
    /// Leaves the cable to another gateway, which takes the place of this one.
    pub(super) fn give_way(&mut self) {
        if let Some(cable) = &mut self.cable {
            cable.leave();
        }
    }
}

impl Ports {
    /// Opens both interfaces with packet sockets by `config`, the input with the filter of `early`. Workers share `pool`
    /// and `within`. The order ensures that no frame is lost or doubled: the kernel's own path, its hold, the sockets, and
    /// last the place of a running gateway.
    ///
    /// # Errors
    /// [`OpenError`]. Nothing is changed on the interfaces then.
    pub(super) fn open(
        config: &GatewayConfig,
        early: Option<&Early>,
        looked: Looked,
        within: (&FramePool, &Within),
        notes: &mut Vec<String>,
    ) -> Result<Self, OpenError> {
        let Looked { input, output, cable } = looked;
        match cable {
            None => Self::between(config, early, [&input, &output], within, notes),
            Some(cable) => Self::of_the_host(config, early, [&input, &output], (cable, within), notes),
        }
    }

    /// Opens the ports for the host's frames for `output`, which come out of the cable at `input`. All is ready before
    /// the place of a running gateway is taken; frames redirected by that one have another mark.
    fn of_the_host(
        config: &GatewayConfig,
        early: Option<&Early>,
        [input, output]: [&Interface; 2],
        (cable, within): (Cable, (&FramePool, &Within)),
        notes: &mut Vec<String>,
    ) -> Result<Self, OpenError> {
        let claims = match claim::claim(&[input], config.force, notes) {
            Err(OpenError::Taken { .. }) if config.take_over => None,
            Err(OpenError::Taken { holder, .. }) => {
                return Err(OpenError::OwnTrafficTaken { name: output.name.clone(), holder });
            }
            claims => Some(claims?),
        };
        let marks = Marks::for_interface(output.index);
        let (hold, fail_open) = Hold::redirect(output, cable.host_end, input, notes)?;
        let early = early.filter(|early| early.take_only(marks.taken).is_ok());
        let count = config.workers().max(1);
        let taken = RxFilter::Marked(marks.taken, early.map(Early::filter));
        let from = AfPacket::group(input, &config.sockets, taken, count)?;
        let sockets = AfPacketOptions { mark: marks.sent, ..config.sockets };
        let to = AfPacket::group(output, &sockets, RxFilter::Nothing, count)?;
        let offloads = offloads(config.offloads, &[(input, &from[0])], notes)?;
        let claims = match claims {
            Some(claims) => claims,
            None => claim::take_over(&[input], notes)?,
        };
        let (hold, fail_open, cable) = (Some(hold), Arc::new(fail_open), Some(cable));
        note_limits(config, (input, &from[0]), notes);
        let [input, output] = real_ports(config, from, to, within)?;
        Ok(Self { input, output, held: Held { hold, fail_open, offloads, claims, cable } })
    }

    fn between(
        config: &GatewayConfig,
        early: Option<&Early>,
        [input, output]: [&Interface; 2],
        within: (&FramePool, &Within),
        notes: &mut Vec<String>,
    ) -> Result<Self, OpenError> {
        let directions = directions(config, [input, output]);
        let receiving: Vec<_> = directions.iter().map(|&(from, _)| from).collect();
        let mut claims = match claim::claim(&receiving, config.force, notes) {
            Err(OpenError::Taken { .. }) if config.take_over => None,
            claims => Some(claims?),
        };
        // Together with a gateway without fail-open, the kernel's own path would double the frames that it forwards.
        if claims.is_none() && (config.fail_open == FailOpen::Never || !fail_open::are_laid(&directions)) {
            claims = Some(claim::take_over(&receiving, notes)?);
        }
        let drops = early.map(|early| {
            let dropper = early.dropper(input.index);
            move |code: &mut Assembler| dropper.end_filter(code)
        });
        let end = drops.as_ref().map(|drops| drops as Part<'_>);
        let (hold, fail_open) =
            match (Hold::prepare(config.fail_open, &directions, claims.is_some(), end, notes)?, claims.is_some()) {
                ((None, stats), false) => {
                    claims = Some(claim::take_over(&receiving, notes)?);
                    Hold::without(&directions, notes);
                    (None, stats)
                }
                (prepared, _) => prepared,
            };
        let gate = hold.as_ref().and_then(Hold::gate);
        let intake = gate.map_or(RxFilter::All, RxFilter::Gated);
        // The gate drops frames early, too.
        let shared = gate.or(early.map(Early::filter)).map_or(RxFilter::All, RxFilter::Gated);
        let sockets = config.workers().max(1);
        let open =
            |interface, intake| AfPacket::group(interface, &config.sockets, intake, sockets).map_err(OpenError::from);
        // A socket whose frames are never fetched would count all of them as lost.
        let back = if config.reverse { intake } else { RxFilter::Nothing };
        let opened = open(input, shared).and_then(|from| Ok((from, open(output, back)?))).and_then(|(from, to)| {
            // All sockets of an interface are alike.
            let offloads = offloads(config.offloads, &[(input, &from[0]), (output, &to[0])], notes)?;
            let claims = match claims {
                Some(claims) => claims,
                None => claim::take_over(&receiving, notes)?,
            };
            for (interface, sockets) in [(input, &from), (output, &to)] {
                note_limits(config, (interface, &sockets[0]), notes);
            }
            Ok((offloads, real_ports(config, from, to, within)?, claims))
        });
        match opened {
            Ok((offloads, [input, output], claims)) => {
                let held = Held { hold, fail_open: Arc::new(fail_open), offloads, claims, cable: None };
                Ok(Self { input, output, held })
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

/// Makes ports of the sockets on the input and on the output: for this thread, or one pair for each worker.
fn real_ports(
    config: &GatewayConfig,
    mut from: Vec<AfPacket>,
    mut to: Vec<AfPacket>,
    (pool, within): (&FramePool, &Within),
) -> Result<[RealPort; 2], OpenError> {
    let Some(desk) = &within.desk else {
        let (from, to) = (from.swap_remove(0), to.swap_remove(0));
        return Ok([RealPort::Packet(from), RealPort::Packet(to)]);
    };
    let sockets = [&from, &to].map(|sockets| Sockets {
        backend: BackendInfo { backend: BackendKind::AfPacket, zero_copy: false },
        kernel_bytes: sockets.iter().map(AfPacket::kernel_bytes).sum(),
        slots: sockets[0].ring_slots(),
        memory_bytes: sockets.iter().map(AfPacket::memory_bytes).sum(),
    });
    let view = || pool.view(hub::OF_WORKER as usize);
    let staff = from.into_iter().zip(to).map(|(from, to)| Staff { view: view(), backends: [from, to] }).collect();
    behind_workers(config, staff, sockets, (within.clock, desk))
}

/// Makes ports behind workers of `staff`, whose interfaces have these sockets in all.
fn behind_workers<B: Backend + Send + 'static>(
    config: &GatewayConfig,
    staff: Vec<Staff<B>>,
    [of_input, of_output]: [Sockets; 2],
    (clock, desk): (MonotonicClock, &Arc<Desk>),
) -> Result<[RealPort; 2], OpenError> {
    let views: usize = staff.iter().map(|staff| staff.view.view_bytes()).sum();
    let memory_bytes = of_input.memory_bytes + hub::memory_bytes(staff.len()) + views;
    let common = Common { clock, desk: Arc::clone(desk), pacing: config.pacing, reverse: config.reverse };
    let [mut input, mut output] =
        workers::hire(staff, &common, config.processors_of_workers()).map_err(OpenError::Workers)?;
    input.set_sockets(Sockets { memory_bytes, ..of_input });
    output.set_sockets(of_output);
    Ok([RealPort::Crew(input), RealPort::Crew(output)])
}

/// Describes the path of frames.
fn directions<'a>(config: &GatewayConfig, [input, output]: [&'a Interface; 2]) -> Vec<(&'a Interface, &'a Interface)> {
    let mut directions = vec![(input, output)];
    directions.extend(config.reverse.then_some((output, input)));
    directions
}

/// Turns off the offloads of `interface` that join packets, if any is on, and adds a note.
fn turn_off(interface: &Interface, notes: &mut Vec<String>) -> Result<Option<OffloadsOff>, OpenError> {
    let turned_off = OffloadsOff::new(interface)?;
    if let Some(off) = &turned_off {
        let names = off.names().join(", ");
        notes.push(format!("{}: turned off {names}, until the gateway ends", interface.name));
    }
    Ok(turned_off)
}

/// Adds notes if the kernel gives no rings or a smaller buffer than requested.
fn note_limits(config: &GatewayConfig, (interface, socket): (&Interface, &AfPacket), notes: &mut Vec<String>) {
    let (received, _) = socket.kernel_buffer_bytes();
    let asked = config.sockets.receive_buffer;
    if let Some(why) = socket.ringless() {
        notes.push(format!(
            "{}: falls back to system calls for frames, because the kernel gives no ring ({why}): they take more time for each",
            interface.name
        ));
    }
    // A socket that receives nothing needs no buffer.
    if received > 0 && received < asked {
        notes.push(format!(
            "{}: the kernel allows a receive buffer of {received} B instead of {asked} B; without CAP_NET_ADMIN the limit is `sysctl net.core.rmem_max`",
            interface.name
        ));
    }
}

/// Applies `policy` to offloads that join packets. If joined packets are split, they do no harm.
fn offloads(
    policy: OffloadPolicy,
    interfaces: &[(&Interface, &AfPacket)],
    notes: &mut Vec<String>,
) -> Result<Vec<OffloadsOff>, OpenError> {
    let mut off = Vec::new();
    for &(interface, socket) in interfaces {
        let name = interface.name.clone();
        if let Some(why) = socket.undescribed() {
            notes.push(format!(
                "{name}: the kernel does not describe frames ({why}): those that an offload has joined are dropped as too long, and checksums left to hardware stay unfinished; turn that off at the sender, for a veth at its other end (`ethtool -K PEER tso off gso off tx off`)"
            ));
        }
        let harmful = interface.offloads.harmful();
        if harmful.is_empty() {
            continue;
        }
        match policy {
            OffloadPolicy::Fix => off.extend(turn_off(interface, notes)?),
            _ if socket.undescribed().is_none() => {
                if interface.offloads.lro {
                    notes.push(format!(
                        "{name}: lro is on; joined packets are split only if the driver reports how they were joined, and are otherwise lost as unreadable_packets; --fix-offloads turns it off"
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
