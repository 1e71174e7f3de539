//! Real packets: a gateway that shares a link between two interfaces, a generator and a receiver of traffic, and the private
//! network namespaces in which they can be tried without root.
//!
//! Linux only: on other systems the crate has nothing but [`Unsupported`].
//!
//! # Unsafe code
//! The whole project's unsafe code lives here, at system calls. Each block says why it is sound.

/// Real packets need Linux, and this is another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("real packets need Linux; `fairlink sim` runs everywhere")]
pub struct Unsupported;

// The gateway.
#[cfg(target_os = "linux")]
pub mod active;
#[cfg(target_os = "linux")]
pub mod af_packet;
#[cfg(target_os = "linux")]
pub mod backend;
#[cfg(target_os = "linux")]
pub mod bench;
#[cfg(target_os = "linux")]
mod checks;
#[cfg(target_os = "linux")]
pub mod classify;
#[cfg(target_os = "linux")]
pub mod control;
#[cfg(target_os = "linux")]
pub mod gateway;
#[cfg(target_os = "linux")]
pub mod interface;
#[cfg(target_os = "linux")]
pub mod pacing;
#[cfg(target_os = "linux")]
pub mod parse;
#[cfg(target_os = "linux")]
mod plane;
#[cfg(target_os = "linux")]
pub mod pool;
#[cfg(target_os = "linux")]
pub mod remote;
#[cfg(target_os = "linux")]
pub mod stats;
#[cfg(target_os = "linux")]
pub mod virtual_link;

// Namespaces, interfaces, generator, receiver, demo.
pub mod addressing;
pub mod demo;
pub mod frame;
#[cfg(target_os = "linux")]
pub mod generator;
#[cfg(target_os = "linux")]
pub mod meter;
#[cfg(target_os = "linux")]
pub mod netns;
#[cfg(target_os = "linux")]
pub mod receiver;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
pub mod tc;
#[cfg(target_os = "linux")]
pub mod veth;
