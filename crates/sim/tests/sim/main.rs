//! Tests of the simulator with the schedulers of the core, in one program so that they link once.
#![forbid(unsafe_code)]

mod batch;
mod changes;
mod closed;
mod common;
mod cores;
mod crossings;
mod delays;
mod documents;
mod ideals;
mod link;
mod metrics;
mod pools;
mod random_trees;
mod routes;
mod steps;
