//! The contract: what a scheduler is, what it is built from, and what it is told and asked.
//!
//! [`scheduler`] says what a scheduler is; [`hierarchy`] and [`class`] what it is built from; [`info`] what it tells of itself, [`sharing`]
//! by which rule it shares, [`promises`] what it promises, and [`error`] why it could not be made;
//! [`packet`], [`amount`], [`units`] and [`overhead`] what is counted; [`lender`] whom a class may borrow from beyond its own link.

pub mod amount;
pub mod class;
pub mod error;
pub mod hierarchy;
pub mod info;
pub mod lender;
pub mod memory;
pub mod overhead;
pub mod packet;
pub mod promises;
pub mod scheduler;
pub mod sharing;
pub mod units;

pub use amount::Amount;
pub use class::*;
pub use error::BuildError;
pub use hierarchy::*;
pub use info::*;
pub use lender::{Lender, Members};
pub use memory::OutOfMemory;
pub use overhead::{Framing, Overhead};
pub use packet::*;
pub use promises::*;
pub use scheduler::*;
pub use sharing::*;
pub use units::*;
