//! Moments of links that move packets in memory, as text.

use std::collections::BTreeSet;

use super::*;
use crate::gateway::account::Generation;
use crate::gateway::account::played::{Played, two_levels};
use crate::gateway::playing::PlayedLink;
use crate::gateway::remote::Publisher;

use super::grammar::{self, Sample};

/// The next moment of an observer.
fn next(observer: &mut Observer) -> Moment {
    observer.ask();
    loop {
        if let Some(moment) = observer.poll() {
            return moment;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn all() -> ClassFilter {
    ClassFilter::default()
}

/// The value of a sample with these labels.
fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels = labels.iter().map(|&(label, value)| (label.to_owned(), value.to_owned())).collect();
    let found = samples.iter().find(|sample| sample.name == name && sample.labels == labels);
    found.unwrap_or_else(|| panic!("no {name} with {labels:?}")).value
}

#[test]
fn a_scraper_is_told_of_every_class_and_sums_over_leaves_are_the_links() {
    let playing = PlayedLink::start(3, 4);
    let mut observer = Observer::new(playing.remote().into());
    next(&mut observer);
    std::thread::sleep(SHORTEST + Duration::from_millis(100));
    let text = next(&mut observer).open_metrics(&all());
    let samples = grammar::read(&text);
    let link = [("link", "out")];
    for (what, unit) in [("received", "bytes"), ("received", "packets"), ("sent", "bytes"), ("sent", "packets")] {
        let name = format!("fairlink_class_{what}_{unit}_total");
        let sum = |leaf: &str| -> f64 {
            let of = samples.iter().filter(|sample| sample.name == name && sample.labels["leaf"] == leaf);
            of.map(|sample| sample.value).sum()
        };
        let whole = value(&samples, &format!("fairlink_link_{what}_{unit}_total"), &link);
        assert!(whole > 0.0 && sum("true") == whole && sum("false") == whole, "{what} {unit}: {text}");
    }
    let class = [("link", "out"), ("class", "2"), ("leaf", "true")];
    for name in ["rate", "ideal", "demand", "guarantee"] {
        assert!(value(&samples, &format!("fairlink_class_{name}_bits_per_second"), &class) > 0.0, "{name}: {text}");
    }
    assert!(value(&samples, "fairlink_class_delay_seconds_count", &class) > 0.0);
    let limits: Vec<_> = samples.iter().filter(|sample| sample.name == "fairlink_class_limited_seconds").collect();
    assert!(limits.iter().all(|sample| sample.value > 0.0), "{text}");
    assert!(limits.iter().all(|sample| sample.labels.contains_key("limited_by")), "{text}");
    assert_eq!(value(&samples, "fairlink_gateway_up", &link), 1.0);
    assert_eq!(value(&samples, "fairlink_gateway_balanced", &link), 1.0);
    let reasons = samples.iter().filter(|sample| sample.name == "fairlink_class_dropped_packets_total");
    assert!(reasons.clone().any(|sample| sample.labels["reason"] == "too_long"));
}

#[test]
fn a_class_that_gets_no_more_has_its_limit_by_kind_by_name_and_since_when() {
    let mut played = Played::new(two_levels(2, 2), "hls");
    let before = played.observe();
    for milli in 0..100 {
        (0..10).for_each(|_| played.arrive(0, 1000));
        (0..10).for_each(|_| played.arrive(1, 1000));
        (0..20).for_each(|part| played.turn(milli * 1_000_000 + part * 50_000));
    }
    let after = played.observe();
    let interval = Interval::of_links(&[Some((&before, &after))]).swap_remove(0);
    let page = LinkPage { name: "l".to_owned(), observation: Some(Arc::new(after)), interval };
    let text = Page::new(vec![page], Links::default().reloads()).text(&all());
    let samples = grammar::read(&text);
    for (class, leaf, limit, by) in
        [("1", "false", "link", "link"), ("2", "true", "parent", "1"), ("5", "true", "demand", "")]
    {
        let labels = [("link", "l"), ("class", class), ("leaf", leaf), ("limit", limit), ("limited_by", by)];
        let since = value(&samples, "fairlink_class_limited_seconds", &labels);
        assert!((since - 0.1).abs() < 0.01, "{text}");
    }
    assert!(!text.contains("fairlink_class_ceiling_bits_per_second{"), "no class has one");
}

#[test]
fn a_filter_leaves_out_classes_and_keeps_the_links_own_metrics() {
    let playing = PlayedLink::start(3, 4);
    let moment = next(&mut Observer::new(playing.remote().into()));
    let names = |query: &str| -> BTreeSet<String> {
        let filter = ClassFilter::read(query).unwrap();
        let stats = moment.link("out").unwrap().stats(&filter).unwrap();
        let samples = grammar::read(&moment.open_metrics(&filter));
        assert_eq!(value(&samples, "fairlink_gateway_up", &[("link", "out")]), 1.0, "{query}");
        let names = samples.iter().filter_map(|sample| sample.labels.get("class").cloned()).collect();
        assert_eq!(stats.classes.iter().map(|class| class.name.clone()).collect::<BTreeSet<_>>(), names, "{query}");
        names
    };
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(names("").len(), 15);
    assert_eq!(names("depth=1"), set(&["1", "6", "11"]));
    assert_eq!(names("class=1%2A"), set(&["1", "10", "11", "12", "13", "14", "15"]));
    assert_eq!(names("class=1*&depth=1"), set(&["1", "11"]));
    assert_eq!(names("class=x"), set(&[]));
}

#[test]
fn a_link_that_does_not_answer_is_told_as_down_and_holds_up_no_other() {
    let (dead, playing) = (Publisher::new(Generation::flat(2)), PlayedLink::start(1, 2));
    let links = vec![("dead".to_owned(), dead.remote()), ("alive".to_owned(), playing.remote())];
    let moment = next(&mut Observer::new(Links::new(links)));
    assert!(moment.link("dead").unwrap().stats(&all()).is_none());
    let samples = grammar::read(&moment.open_metrics(&all()));
    assert_eq!(value(&samples, "fairlink_gateway_up", &[("link", "dead")]), 0.0);
    assert_eq!(value(&samples, "fairlink_gateway_up", &[("link", "alive")]), 1.0);
    assert!(value(&samples, "fairlink_link_received_packets_total", &[("link", "alive")]) > 0.0);
}

#[test]
fn ten_thousand_classes_are_told() {
    let playing = PlayedLink::start(100, 100);
    let text = next(&mut Observer::new(playing.remote().into())).open_metrics(&all());
    println!("{} bytes", text.len());
    let leaves = text
        .lines()
        .filter(|line| line.starts_with("fairlink_class_sent_packets_total{") && line.contains("leaf=\"true\""));
    assert_eq!(leaves.count(), 10_000);
    // Only some have their own delays.
    let histograms = text
        .lines()
        .filter(|line| line.starts_with("fairlink_class_delay_seconds_count{") && line.contains("leaf=\"true\""));
    assert_eq!(histograms.count(), crate::gateway::account::MAX_HISTOGRAMS);
    assert!(text.len() < 32 << 20, "{} bytes", text.len());
    assert_eq!(playing.end().1, 1);
}

#[test]
fn names_of_any_kind_are_escaped_as_the_format_has_it() {
    let mut generation = Generation::flat(2);
    generation.names = vec!["link".to_owned(), "a\\b {x}, \u{e9}".to_owned(), "\\".to_owned()];
    let publisher = Publisher::new(generation);
    let snapshot = crate::gateway::account::Snapshot::new(Arc::clone(publisher.generation()));
    let observation = Some(Observation::new(Arc::new(snapshot)));
    let page = Page::new(
        vec![LinkPage { name: "up\n\"1\"".to_owned(), observation: observation.map(Arc::new), interval: None }],
        Links::default().reloads(),
    );
    let samples = grammar::read(&page.text(&all()));
    for class in ["a\\b {x}, \u{e9}", "\\"] {
        let labels = [("link", "up\n\"1\""), ("class", class), ("leaf", "true")];
        assert_eq!(value(&samples, "fairlink_class_sent_packets_total", &labels), 0.0);
    }
}

#[test]
fn the_page_is_as_it_was_reviewed() {
    let (earlier, later) = crate::gateway::account::tests::watched();
    let interval = Interval::of_links(&[Some((&earlier, &later))]).remove(0);
    let link = LinkPage { name: "out".to_owned(), observation: Some(Arc::new(later)), interval };
    let text = Page::new(vec![link], crate::gateway::links::Reloads::default()).text(&all());
    // The start time of the process differs each time.
    let lines = text.lines().filter(|line| !line.starts_with("fairlink_process") && !line.starts_with("process"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}
