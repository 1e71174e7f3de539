//! Guarantees, and the rest to the class whose state needs it most.

pub mod fq_sds;
pub mod lqf;
