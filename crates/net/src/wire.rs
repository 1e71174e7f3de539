//! Frames as bytes: parsing, labelling, splitting and writing. Independent of interfaces.

pub(crate) mod checksum;
pub(crate) mod fragments;
pub(crate) mod frame;
pub(crate) mod labels;
pub(crate) mod segments;
pub(crate) mod unfinished;
pub(crate) mod virtio;
