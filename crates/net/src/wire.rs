//! Frames as bytes: read, labelled, split and written. Nothing here knows an interface.

pub(crate) mod checksum;
pub(crate) mod fragments;
pub(crate) mod frame;
pub(crate) mod labels;
pub(crate) mod segments;
pub(crate) mod unfinished;
pub(crate) mod virtio;
