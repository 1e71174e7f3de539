#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "text")]
extern crate std;

#[cfg(feature = "text")]
pub mod editor;
#[cfg(feature = "text")]
pub mod human;
pub mod keys;
pub mod qdisc;
#[cfg(feature = "text")]
pub mod units;
