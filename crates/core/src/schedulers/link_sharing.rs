//! Schedulers that own a whole tree of classes and share the link down it.

pub mod cbq;
pub mod hls;
pub mod htb;
pub mod hvt;
