//! Gives libFuzzer's inputs to `src/operations.rs`.
#![no_main]
#![forbid(unsafe_code)]

#[path = "../../crates/core/tests/contract/checks.rs"]
#[allow(dead_code)]
mod checks;
#[path = "../../crates/core/tests/contract/model.rs"]
mod model;
#[path = "../src/operations.rs"]
mod operations;
#[path = "../../crates/core/tests/contract/trees.rs"]
#[allow(dead_code)]
mod trees;

libfuzzer_sys::fuzz_target!(|data: &[u8]| operations::run(data));
