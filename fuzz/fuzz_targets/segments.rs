//! Gives libFuzzer's inputs to `src/segments.rs`.
#![no_main]
#![forbid(unsafe_code)]

#[path = "../src/segments.rs"]
mod segments;

libfuzzer_sys::fuzz_target!(|data: &[u8]| segments::run(data));
