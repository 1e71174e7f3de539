//! Opens both interfaces with AF_XDP sockets. Any obstacle is a reason to use packet sockets.

use std::sync::Arc;
use std::time::Duration;

use super::{Held, Ports, directions, turn_off};
use crate::gateway::claim;
use crate::gateway::config::{GatewayConfig, OffloadPolicy};
use crate::gateway::early::Early;
use crate::gateway::fail_open::{FailOpen, FailOpenStats, Hold};
use crate::gateway::open_error::OpenError;
use crate::io::af_xdp::{AfXdp, Fit, Mode, Opening};
use crate::io::bpf::assembler::{Assembler, Part};
use crate::io::frame_pool::FramePool;
use crate::io::interface::{Interface, OffloadsOff};
use crate::io::port::RealPort;

/// Reason why the interfaces were not opened with AF_XDP sockets.
pub(in crate::gateway) enum WhyNot {
    /// The interfaces or the kernel cannot use it, with the reason.
    Unfit(String),
    /// They cannot be opened at all.
    Refused(OpenError),
}

impl Ports {
    /// As [`Ports::open`], with AF_XDP sockets of one of `modes` whose frames lie in `pool`. An interface has one program and one socket,
    /// so a running gateway has to leave first. Meanwhile the kernel's own path passes frames, if both fail open.
    ///
    /// # Errors
    /// [`WhyNot`]. Nothing is changed on the interfaces then.
    pub(in crate::gateway) fn open_xdp(
        config: &GatewayConfig,
        [input, output]: [&Interface; 2],
        (fit, modes): (Fit, &'static [Mode]),
        pool: &mut FramePool,
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
            let ports = AfXdp::open_pair([input, output], pool, &opening);
            Ok((ports.map_err(|error| WhyNot::Unfit(error.0))?, offloads))
        };
        match opened() {
            Ok(([input, output], offloads)) => {
                let fail_open =
                    FailOpenStats { by: hold.is_some().then(|| "bpf".to_owned()), ..FailOpenStats::default() };
                let (input, output) = (RealPort::Xdp(input), RealPort::Xdp(output));
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
