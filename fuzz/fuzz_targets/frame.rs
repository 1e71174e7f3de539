//! Gives libFuzzer's inputs to `src/frame.rs`.
#![no_main]
#![forbid(unsafe_code)]

#[path = "../src/frame.rs"]
mod frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| frame::run(data));
