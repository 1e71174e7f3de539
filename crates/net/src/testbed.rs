//! A private network to try things in: namespaces, virtual cables, a generator and a receiver of traffic, TCP, a ping beside an
//! upload, the kernel's HTB to compare with, the demo's stage and the gateway's bench.

pub(crate) mod addressing;
pub(crate) mod bench;
pub(crate) mod departures;
pub(crate) mod generator;
pub(crate) mod kernel_htb;
mod machine;
pub(crate) mod netns;
pub(crate) mod ping;
pub(crate) mod reassembly;
pub(crate) mod receiver;
pub(crate) mod scripted;
pub(crate) mod stage;
pub(crate) mod tally;
pub(crate) mod tcp;
pub(crate) mod veth;
