//! Recordings, scripts of the HTB text, tc commands and configurations of other tools, of any content: reading ends in a value or an error that can
//! be shown, what was read can be played, and what was imported is a link file.

use fairlink_config::Problems;
use fairlink_config::import::{Direction, Imported, Weights, k8s, libreqos, libvirt, mikrotik, pf, tc as import_tc};
use fairlink_config::tc::{self, ImportOptions};
use fairlink_core::Rate;
use fairlink_traffic::{Accept, Script, read_trace};

/// Tries one input.
pub(crate) fn run(data: &[u8]) {
    let [kind, flags, rest @ ..] = data else { return };
    let (kind, flags) = (*kind, *flags);
    match kind % 9 {
        0 => {
            let accept = Accept {
                unsorted: flags & 4 != 0,
                truncated: flags & 8 != 0,
                cut: flags & 16 != 0,
                link_type: flags & 32 != 0,
            };
            match read_trace(rest, accept, flags & 64 != 0, |recorded| recorded.bytes.first() != Some(&0xff)) {
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
        2 => match tc::import("fuzz.tc", String::from_utf8_lossy(rest), &ImportOptions::default()) {
            Ok(_) => {}
            Err(problems) => assert!(!problems.lines().is_empty()),
        },
        kind => imported(kind, flags, &String::from_utf8_lossy(rest)),
    }
}

/// Reads a configuration of another tool. What is handed out was read as a link file already.
fn imported(kind: u8, flags: u8, text: &str) {
    let directions = vec![Direction::Down, Direction::Up];
    let as_is = flags & 1 != 0;
    let rate = Rate::from_bps(1_000_000_000).ok();
    let made: Result<Imported, Problems> = match kind {
        3 => {
            let (devices, network) = text.split_once('\0').unwrap_or((text, "{}"));
            let options = libreqos::Options {
                directions,
                rate: rate.filter(|_| flags & 2 != 0),
                as_is,
                weights: Weights::default(),
            };
            libreqos::import(("fuzz.csv", devices), Some(("fuzz.json", network)), &options)
        }
        4 => {
            let queues = if flags & 2 != 0 { mikrotik::Queues::Tree } else { mikrotik::Queues::Simple };
            let options = mikrotik::Options {
                rate,
                queues: Some(queues),
                parent: None,
                directions,
                as_is,
                weights: Weights::default(),
            };
            mikrotik::import("fuzz.rsc", text, &options)
        }
        5 => import_tc::import(
            "fuzz.tc",
            text,
            &import_tc::Options { rate: rate.filter(|_| flags & 2 != 0), device: None, as_is },
        ),
        6 => k8s::import("fuzz.json", text, &k8s::Options { rate: Rate::MAX, node: None, directions }),
        7 => {
            let options = pf::Options { rate: rate.filter(|_| flags & 2 != 0), interface: None, as_is };
            pf::import("fuzz.conf", text, &options)
        }
        _ => {
            let texts: Vec<(&str, &str)> = text.split('\0').map(|text| ("fuzz.xml", text)).collect();
            libvirt::import(&texts, &libvirt::Options { rate, directions, as_is })
        }
    };
    match made {
        Ok(made) => assert!(!made.links.is_empty()),
        Err(problems) => assert!(!problems.lines().is_empty()),
    }
}
