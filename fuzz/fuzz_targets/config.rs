//! Gives libFuzzer's inputs to `src/config.rs`.
#![no_main]
#![forbid(unsafe_code)]

#[path = "../src/config.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|data: &[u8]| config::run(data));
