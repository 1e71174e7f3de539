//! Why a scheduler could not be made.

use core::fmt;

use super::class::Feature;
use super::memory::OutOfMemory;
use super::packet::ClassId;
use super::units::Nanos;

/// The reason for which a scheduler could not be made for a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// A class sets something the scheduler cannot honour.
    Unsupported {
        /// The scheduler.
        scheduler: &'static str,
        /// The class.
        class: ClassId,
        /// The feature that the class sets.
        feature: Feature,
    },
    /// A class's parameter has a value the scheduler cannot run with.
    Parameter {
        /// The class.
        class: ClassId,
        /// The parameter.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The smallest value taken.
        min: u64,
        /// The largest value taken.
        max: u64,
    },
    /// A class has a service curve that the scheduler cannot compute with.
    Curve {
        /// The class.
        class: ClassId,
        /// Description of the offending setting.
        what: &'static str,
    },
    /// Not enough memory.
    OutOfMemory {
        /// Size of the refused allocation, in bytes.
        bytes: u64,
    },
    /// The guaranteed curves together ask for more than the link carries.
    NotAdmitted {
        /// The time after which they do, counted from when all classes become backlogged at once. Rounded down.
        fails_at: Nanos,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unsupported { scheduler, class, feature } => {
                write!(f, "class {} sets {}, which {scheduler} cannot honour", class.0, feature.as_str())
            }
            Self::Parameter { class, what, value, min, max } => {
                write!(f, "class {}: {what} of {value} is outside {min} .. {max}", class.0)
            }
            Self::Curve { class, what } => write!(f, "class {} has {what}", class.0),
            Self::OutOfMemory { bytes } => OutOfMemory { bytes }.fmt(f),
            Self::NotAdmitted { fails_at } => {
                write!(
                    f,
                    "the real-time curves together ask for more than the link carries, from {fails_at} after all start on"
                )
            }
        }
    }
}

impl core::error::Error for BuildError {}

impl From<OutOfMemory> for BuildError {
    fn from(OutOfMemory { bytes }: OutOfMemory) -> Self {
        Self::OutOfMemory { bytes }
    }
}
