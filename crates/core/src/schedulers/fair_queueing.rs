//! Flat and hierarchical fair queueing: packets in the order of tags in virtual or real time.

pub mod hpfq;
pub mod pifo_tree;
pub mod qfq;
pub mod scfq;
pub mod sfq;
pub mod virtual_clock;
pub mod wf2q_plus;
pub mod wfq;
