//! Gives libFuzzer's inputs to `src/qdisc.rs`.
#![no_main]
#![forbid(unsafe_code)]

#[path = "../src/qdisc.rs"]
mod qdisc;

libfuzzer_sys::fuzz_target!(|data: &[u8]| qdisc::run(data));
