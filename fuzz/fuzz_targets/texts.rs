//! Gives libFuzzer's inputs to `src/texts.rs`.
#![no_main]
#![forbid(unsafe_code)]

#[path = "../src/texts.rs"]
mod texts;

libfuzzer_sys::fuzz_target!(|data: &[u8]| texts::run(data));
