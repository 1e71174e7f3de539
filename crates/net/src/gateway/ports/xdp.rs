//! Opens both interfaces with AF_XDP sockets. Any obstacle is a reason to use packet sockets.

use std::sync::Arc;
use std::time::Duration;

use super::{Held, Ports, Within, behind_workers, directions, turn_off};
use crate::gateway::claim;
use crate::gateway::config::{GatewayConfig, OffloadPolicy};
use crate::gateway::early::Early;
use crate::gateway::fail_open::{FailOpen, FailOpenStats, Hold};
use crate::gateway::open_error::OpenError;
use crate::gateway::workers::{Desk, Staff};
use crate::io::af_xdp::{AfXdp, Fit, Mode, Opening, Unfit};
use crate::io::backend::{BackendInfo, BackendKind};
use crate::io::bpf::assembler::{Assembler, Part};
use crate::io::clock::MonotonicClock;
use crate::io::frame_pool::{FramePool, Use};
use crate::io::hub::{OF_WORKER, Sockets};
use crate::io::interface::{Interface, OffloadsOff};
use crate::io::port::RealPort;

/// Reason why the interfaces were not opened with AF_XDP sockets.
pub(in crate::gateway) enum WhyNot {
    /// The interfaces or the kernel cannot use it, with the reason.
    Unfit(String),
    /// They cannot be opened at all.
    Refused(OpenError),
}

impl From<Unfit> for WhyNot {
    fn from(Unfit(why): Unfit) -> Self {
        Self::Unfit(why)
    }
}

impl Ports {
    /// As [`Ports::open`], with AF_XDP sockets of one of `modes` whose frames lie in `pool`, of which no frame is lent. An
    /// interface has one program, and each of its queues one socket, so a running gateway has to leave first. Meanwhile the
    /// kernel's own path passes frames, if both fail open.
    ///
    /// # Errors
    /// [`WhyNot`]. Nothing is changed on the interfaces then.
    pub(in crate::gateway) fn open_xdp(
        config: &GatewayConfig,
        [input, output]: [&Interface; 2],
        (fit, modes): (Fit, &'static [Mode]),
        (pool, within): (&mut FramePool, &Within),
        early: Option<&Early>,
        notes: &mut Vec<String>,
    ) -> Result<Self, WhyNot> {
        let directions = directions(config, [input, output]);
        let receiving: Vec<_> = directions.iter().map(|&(from, _)| from).collect();
        let (claims, taken_over) = match claim::claim(&receiving, config.force, notes) {
            Err(OpenError::Taken { .. }) if config.take_over => {
                (claim::take_over(&receiving, notes).map_err(WhyNot::Refused)?, true)
            }
            claims => (claims.map_err(WhyNot::Refused)?, false),
        };
        let hold = match config.fail_open {
            FailOpen::Never => {
                Hold::without(&directions, notes);
                None
            }
            FailOpen::Auto | FailOpen::Require => Some(Hold::in_driver(&directions).map_err(WhyNot::Unfit)?),
        };
        let patience = if taken_over { claim::PATIENCE } else { Duration::ZERO };
        let drops = early.map(|early| {
            let dropper = early.in_driver();
            move |code: &mut Assembler| dropper.append(code)
        });
        let opening = Opening {
            fit,
            modes,
            beat: hold.as_ref().and_then(Hold::heart),
            before: drops.as_ref().map(|drops| drops as Part<'_>),
            patience,
        };
        let mut opened = || -> Result<_, WhyNot> {
            let offloads = offloads(config.offloads, [input, output], notes).map_err(WhyNot::Refused)?;
            let ports = match &within.desk {
                None => alone([input, output], pool, &opening)?,
                Some(desk) => of_workers(config, [input, output], pool, &opening, (within.clock, desk))?,
            };
            Ok((ports, offloads))
        };
        match opened() {
            Ok(([input, output], offloads)) => {
                let fail_open =
                    FailOpenStats { by: hold.is_some().then(|| "bpf".to_owned()), ..FailOpenStats::default() };
                Ok(Self {
                    input,
                    output,
                    held: Held { hold, fail_open: Arc::new(fail_open), offloads, claims, cable: None },
                })
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

/// Opens the ports for this thread.
fn alone(interfaces: [&Interface; 2], pool: &mut FramePool, opening: &Opening<'_>) -> Result<[RealPort; 2], WhyNot> {
    let mut pairs = AfXdp::open_pairs(interfaces, std::slice::from_mut(pool), opening)?;
    Ok(pairs.swap_remove(0).map(RealPort::Xdp))
}

/// Opens the ports for workers, each with queues of its own and frames for them.
fn of_workers(
    config: &GatewayConfig,
    interfaces: [&Interface; 2],
    pool: &mut FramePool,
    opening: &Opening<'_>,
    common: (MonotonicClock, &Arc<Desk>),
) -> Result<[RealPort; 2], WhyNot> {
    let fit = opening.fit;
    let mut views: Vec<FramePool> =
        (0..fit.threads).map(|thread| with_frames(pool, fit.receiving_of(thread))).collect();
    let opened = AfXdp::open_pairs(interfaces, &mut views, opening).map_err(WhyNot::from).and_then(|pairs| {
        let sockets = [0, 1].map(|side| {
            let all = || pairs.iter().map(|pair| &pair[side]);
            let zero_copy = all().all(AfXdp::is_zero_copy);
            Sockets {
                backend: BackendInfo { backend: BackendKind::AfXdp, zero_copy },
                kernel_bytes: all().map(|socket| u64::from(socket.ring_bytes())).sum(),
                slots: all().next().and_then(AfXdp::ring_slots),
                memory_bytes: 0,
            }
        });
        let staff = views.into_iter().zip(pairs).map(|(view, backends)| Staff { view, backends }).collect();
        behind_workers(config, staff, sockets, common).map_err(WhyNot::Refused)
    });
    if opened.is_err() {
        // SAFETY: the sockets and the views are gone, and nothing else had frames of the pool.
        unsafe { pool.end_all_lending() };
    }
    opened
}

/// Makes a view of `pool` with up to `count` frames for reception, and room for those on their way.
fn with_frames(pool: &mut FramePool, count: u32) -> FramePool {
    let mut view = pool.view((OF_WORKER + count) as usize);
    for _ in 0..count {
        let Some(frame) = pool.take() else { break };
        pool.lend_to_write(frame);
        // SAFETY: it was just lent, and the thread of the view alone has it.
        unsafe { view.adopt(frame, Use::Fill) };
    }
    view
}

/// Turns off offloads that join packets, if requested. XDP sees frames before they take effect.
fn offloads(
    policy: OffloadPolicy,
    interfaces: [&Interface; 2],
    notes: &mut Vec<String>,
) -> Result<Vec<OffloadsOff>, OpenError> {
    let mut off = Vec::new();
    for interface in interfaces.into_iter().filter(|_| policy == OffloadPolicy::Fix) {
        off.extend(turn_off(interface, notes)?);
    }
    Ok(off)
}
