//! Tests of link and scenario files, in one program so that they link once.
#![forbid(unsafe_code)]

mod editor;
mod errors;
mod examples;
mod manual;
mod robustness;
