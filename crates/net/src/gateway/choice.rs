//! Choice of the backend.

use crate::gateway::config::{BackendChoice, GatewayConfig};
use crate::io::af_xdp::Mode;
use crate::io::backend::BackendKind;
use crate::io::interface::Interface;
use crate::io::netdev;

/// A backend for the two interfaces of a gateway.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) backend: BackendKind,
    /// Modes of AF_XDP, in the order in which they are tried.
    pub(super) modes: &'static [Mode],
    /// Reason of [`BackendChoice::Auto`]; `None` for another choice.
    pub(super) reason: Option<String>,
}

impl Choice {
    /// Chooses by `config`. Automatic is AF_XDP if the drivers of both interfaces offer zero-copy, else packet sockets:
    /// in copy mode AF_XDP saves time of the data thread, but it has no super-frames.
    pub(super) fn of(config: &GatewayConfig, interfaces: [&Interface; 2], notes: &mut Vec<String>) -> Self {
        let packet = |reason| Self { backend: BackendKind::AfPacket, modes: &[], reason };
        match config.backend {
            BackendChoice::AfPacket => packet(None),
            // A driver's program would take the received frames of the interface, which do not belong to a gateway for the
            // host's own frames.
            BackendChoice::AfXdp if config.own_traffic => {
                let why =
                    "packet sockets for this host's traffic: AF_XDP would take the frames that the interface receives";
                notes.push(why.to_owned());
                packet(None)
            }
            BackendChoice::AfXdp => {
                // If only the first driver supports zero-copy, both copy.
                Self { backend: BackendKind::AfXdp, modes: &[Mode::Best, Mode::Copy], reason: None }
            }
            BackendChoice::Auto if config.own_traffic => packet(Some("this host's own traffic".to_owned())),
            BackendChoice::Auto => match interfaces.iter().find_map(|interface| lacks_zero_copy(interface)) {
                Some(why) => packet(Some(why)),
                None => Self {
                    backend: BackendKind::AfXdp,
                    modes: &[Mode::ZeroCopy],
                    reason: Some("the drivers of both offer zero-copy".to_owned()),
                },
            },
        }
    }

    /// Returns true if a gateway with this configuration may use AF_XDP.
    pub(super) fn may_be_af_xdp(config: &GatewayConfig) -> bool {
        let open = |name: &str| Interface::open(name).ok();
        match config.backend {
            BackendChoice::AfPacket => false,
            BackendChoice::AfXdp => true,
            BackendChoice::Auto => open(&config.input).zip(open(&config.output)).is_some_and(|(input, output)| {
                Self::of(config, [&input, &output], &mut Vec::new()).backend == BackendKind::AfXdp
            }),
        }
    }
}

/// Returns why `interface` cannot use frames of the pool without copying them; `None` if its driver offers that.
fn lacks_zero_copy(interface: &Interface) -> Option<String> {
    let Interface { name, driver, index, .. } = interface;
    match netdev::xdp_features(*index) {
        Ok(features) if features & netdev::ZERO_COPY != 0 => None,
        Ok(_) => Some(format!("the driver {driver:?} of {name} offers no zero-copy")),
        Err(why) => Some(format!("the kernel does not tell what the driver {driver:?} of {name} offers: {why}")),
    }
}
