//! The contract: the definition of a scheduler, its input, and its calls.
//!
//! [`scheduler`] defines a scheduler; [`hierarchy`] and [`class`] are its input. [`info`] describes a scheduler,
//! [`sharing`] its rule of sharing, [`promises`] its guarantees, and [`error`] why it could not be made. [`packet`],
//! [`amount`], [`units`] and [`overhead`] are the counted quantities. [`lender`] lets a class borrow beyond its own
//! link.

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
