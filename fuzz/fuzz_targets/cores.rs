//! Gives libFuzzer's inputs to `src/cores.rs`.
#![no_main]
#![forbid(unsafe_code)]

#[path = "../src/cores.rs"]
mod cores;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cores::run(data));
