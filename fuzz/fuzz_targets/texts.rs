//! Recordings, scripts of the HTB text and tc commands of any content: reading ends in a value or an error that can be shown, what was
//! read can be played, and what was imported can be exported.
#![no_main]

use fairlink_config::tc::{self, ImportOptions};
use fairlink_traffic::{Accept, Script, read_trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    match kind % 3 {
        0 => {
            let accept = Accept {
                unsorted: kind & 4 != 0,
                truncated: kind & 8 != 0,
                cut: kind & 16 != 0,
                link_type: kind & 32 != 0,
            };
            match read_trace(rest, accept, kind & 64 != 0, |recorded| recorded.bytes.first() != Some(&0xff)) {
                Ok(trace) => {
                    assert!(trace.packets().is_sorted_by_key(|packet| packet.at));
                    assert!(trace.period() > trace.packets().last().map_or_else(Default::default, |last| last.at));
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        1 => match Script::parse(&String::from_utf8_lossy(rest)) {
            Ok(script) => {
                let _ = script.interfaces();
            }
            Err(errors) => assert!(!errors.is_empty()),
        },
        _ => match tc::import("fuzz.tc", String::from_utf8_lossy(rest), &ImportOptions::default()) {
            Ok(_) => {}
            Err(problems) => assert!(!problems.lines().is_empty()),
        },
    }
});
