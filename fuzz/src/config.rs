//! Whatever a file, a match, a quantity or a demand holds, reading it ends in a value or an error that can be shown.

use fairlink_config::demand::parse_demand;
use fairlink_config::matching::Match;
use fairlink_config::{LinkFile, ReadOptions, Scenario, units};
use fairlink_core::{Leniency, Nanos};
use fairlink_traffic::{TrafficMix, What};

/// The first events of the sources: in the order of time, with lengths that the link takes.
fn play(scenario: &Scenario) {
    for source in &scenario.sources {
        let _ = source.mean_rate(|len| len);
        assert!(
            source.lengths().is_some_and(|(shortest, longest)| shortest <= longest && longest <= scenario.link.mtu)
        );
    }
    let mut mix = TrafficMix::new(&scenario.sources, scenario.seed, scenario.duration).expect("the scenario is sound");
    let mut last = Nanos::ZERO;
    for _ in 0..500 {
        let Some(event) = mix.next() else { break };
        assert!(event.at >= last);
        last = event.at;
        if let What::Packet { len } = event.what {
            assert!((1..=scenario.link.mtu).contains(&len) && event.at < scenario.duration);
        }
        if let Some(tag) = event.tag {
            mix.arrived(event.source, tag, last, len_is_odd(&event.what));
        }
    }
}

fn len_is_odd(what: &What) -> bool {
    matches!(what, What::Packet { len } if len % 2 == 1)
}

/// Tries one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A file that names another is left out: no reading around in the file system.
    let names_a_file = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .any(|(key, _)| ["link", "file", "tc"].iter().any(|word| key.contains(word)));
    for leniency in [Leniency::Refuse, Leniency::Ignore] {
        let options = ReadOptions { leniency, scheduler: None };
        if names_a_file {
            break;
        }
        match LinkFile::parse("fuzz.toml", text, &options) {
            Ok(file) => {
                assert_eq!(file.names.iter().len(), file.tree.len());
                let demand = file.names.iter().skip(1).collect::<Vec<_>>().join("=inf,");
                let _ = parse_demand(&demand, &file.tree, &file.names);
            }
            Err(problems) => assert!(!problems.lines().is_empty()),
        }
        match Scenario::parse("fuzz.toml", text, &options) {
            Ok(scenario) => play(&scenario),
            Err(problems) => assert!(!problems.lines().is_empty()),
        }
    }
    if let Ok(made) = Match::parse(text) {
        assert_eq!(Match::parse(&made.to_string()), Ok(made));
    }
    if let Ok(rate) = units::parse_rate(text, None) {
        assert_eq!(units::parse_rate(&units::show_rate(rate), None), Ok(rate));
    }
    if let Ok(time) = units::parse_time(text) {
        assert_eq!(units::parse_time(&units::show_time(time)), Ok(time));
    }
    if let Ok(size) = units::parse_size(text, u64::MAX) {
        assert_eq!(units::parse_size(&units::show_size(size), u64::MAX), Ok(size));
    }
    let _ = units::parse_queue(text);
}
