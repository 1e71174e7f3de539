//! Fails open (stub).
mod programs;
mod wire;
