//! System interfaces shared by the gateway and the test bed: interfaces, sockets, frame memory, clocks and waiting.

pub(crate) mod af_packet;
pub(crate) mod af_xdp;
pub(crate) mod backend;
pub(crate) mod bpf;
pub(crate) mod clock;
pub(crate) mod ethtool;
pub(crate) mod frame_pool;
pub(crate) mod heap;
pub(crate) mod hub;
pub(crate) mod huge_pages;
pub mod interface;
mod joined_sender;
mod message_sender;
pub(crate) mod netdev;
pub(crate) mod netlink;
pub(crate) mod nftables;
pub(crate) mod pacing;
pub(crate) mod packet_ring;
pub mod packet_socket;
pub(crate) mod port;
pub(crate) mod priority;
mod received;
mod reception;
pub(crate) mod sock_diag;
pub(crate) mod sys;
pub(crate) mod veth;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), expect(dead_code, reason = "tests of this crate use all of it"))]
pub(crate) mod virtual_link;
