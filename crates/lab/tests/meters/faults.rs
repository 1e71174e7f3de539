//! The meters themselves: records of valid runs, with one fault each.

use std::collections::BTreeMap;

use fairlink_core::Nanos;

use crate::case::{Case, Entry, Kind, Tree};
use crate::judge::Judge;
use crate::trace::{Event, Seen, What, run};
use crate::{account, bounds, rates};

/// Classes of a link of 10 Mbit/s, each with its keys and its source's rate, in Mbit/s. All packets have the same
/// length, so that any may replace another on the link.
fn seen(scheduler: &'static str, classes: &[(&'static str, u64)]) -> Seen {
    let mut tree = Tree::default();
    tree.link.quote("rate", "10mbit");
    if scheduler == "hls" {
        tree.link.quote("rounds", "long");
    }
    let mut sources = Vec::new();
    for (place, (keys, mbps)) in classes.iter().enumerate() {
        let mut class = Entry::default();
        class.quote("name", format_args!("c{}", place + 1));
        // Faults that hold packets back leave queues as long as that makes them.
        class.quote("buffer", "1000p");
        for line in keys.split("; ").filter(|line| !line.is_empty()) {
            let (key, value) = line.split_once(" = ").unwrap();
            class.set(key, value);
        }
        let hosts = if class.get("per").is_some() { 2 } else { 1 };
        tree.classes.push(class);
        for _ in 0..hosts {
            let mut source = Entry::default();
            source.quote("class", format_args!("c{}", place + 1));
            source.quote("model", "cbr");
            source.quote("rate", format_args!("{mbps}mbit"));
            source.quote("packet", "1250B");
            sources.push(source);
        }
    }
    let mut top = Entry::default();
    top.quote("duration", "3s");
    let case = Case { kind: Kind::Steady, scheduler, top, tree, sources, change: None, peer: None, pool: None };
    let Ok(mut links) = run(&case) else { panic!("{scheduler} does not run\n{}", case.text()) };
    links.remove(0)
}

/// Returns the result of each meter, independently of the others.
fn found(seen: &Seen) -> BTreeMap<&'static str, String> {
    let mut judge = Judge::default();
    account::account(seen, &mut judge);
    account::serial(seen, &mut judge);
    bounds::bounds(seen, &mut judge);
    rates::ceilings(seen, &mut judge);
    rates::steady(seen, 1.0, &mut judge);
    judge.found
}

/// Returns the meters that report something after `fault`, but not before it.
fn meters(mut seen: Seen, fault: impl FnOnce(&mut Vec<Event>)) -> Vec<&'static str> {
    let before = found(&seen);
    assert!(before.is_empty(), "{before:?}");
    fault(&mut seen.events);
    found(&seen).into_keys().collect()
}

fn is_sent(event: &Event) -> bool {
    matches!(event.what, What::Sent { .. })
}

/// Returns the positions of the link's packets in order, from number `from` of these on.
fn sent(events: &[Event], from: usize, count: usize) -> Vec<usize> {
    (0..events.len()).filter(|&place| is_sent(&events[place])).skip(from).take(count).collect()
}

/// Swaps some of `count` packets on the link from number `from` on with the others: those for which `later` holds.
fn postponed(events: &mut [Event], (from, count): (usize, usize), later: impl Fn(&Event) -> bool) {
    let places = sent(events, from, count);
    let packets = || places.iter().map(|&place| events[place]);
    let order: Vec<Event> =
        packets().filter(|packet| !later(packet)).chain(packets().filter(|packet| later(packet))).collect();
    for (&place, packet) in places.iter().zip(order) {
        events[place] = Event { at: events[place].at, what: events[place].what, ..packet };
    }
}

fn two() -> Seen {
    seen("hls", &[("weight = 3001", 12), ("weight = 2000", 12)])
}

#[test]
fn a_packet_that_vanishes_or_is_made_up_is_found_by_the_account() {
    let place = |events: &[Event]| sent(events, 400, 1)[0];
    assert!(meters(two(), |events| _ = events.remove(place(events))).contains(&"account"));
    let twice = |events: &mut Vec<Event>| {
        let at = place(events);
        events.insert(at, events[at]);
    };
    assert!(meters(two(), twice).contains(&"account"));
    let unannounced = |events: &mut Vec<Event>| {
        let number = events[place(events)].number;
        events.retain(|event| event.what != What::Came || event.number != number);
    };
    assert!(meters(two(), unannounced).contains(&"account"));
    // The numbers that are reported.
    let mut seen = two();
    seen.told[1].as_mut().unwrap().bytes[1] += 1;
    assert_eq!(found(&seen).into_keys().collect::<Vec<_>>(), ["account"]);
    // A drop that is not counted.
    let mut seen = two();
    let drops = &mut seen.told[1].as_mut().unwrap().drops;
    assert!(drops.values().sum::<u64>() > 0, "{drops:?}");
    drops.values_mut().for_each(|count| *count -= 1);
    assert_eq!(found(&seen).into_keys().collect::<Vec<_>>(), ["account"]);
}

#[test]
fn two_packets_of_a_class_in_the_wrong_order_are_found() {
    let swap = |events: &mut Vec<Event>| {
        let places: Vec<usize> = sent(events, 400, 20).into_iter().filter(|&place| events[place].class == 1).collect();
        let (one, other) = (events[places[0]].number, events[places[1]].number);
        (events[places[0]].number, events[places[1]].number) = (other, one);
    };
    assert_eq!(meters(two(), swap), ["order"]);
}

#[test]
fn a_link_that_idles_or_is_too_fast_is_found() {
    let idle = |events: &mut Vec<Event>| {
        let places = sent(events, 400, 1);
        let from = events[places[0]].at;
        for event in events.iter_mut().filter(|event| event.at >= from) {
            event.at.0 += 5;
            if let What::Sent { done } = &mut event.what {
                done.0 += 5;
            }
        }
    };
    assert_eq!(meters(two(), idle), ["link"]);
    let fast = |events: &mut Vec<Event>| {
        let place = sent(events, 400, 1)[0];
        events[place].what = What::Sent { done: Nanos(events[place].at.0 + 999_000) };
    };
    assert_eq!(meters(two(), fast), ["link"]);
}

#[test]
fn a_class_that_is_passed_over_is_found_by_what_is_printed_of_it() {
    // The class with more than a largest packet a round waits for this many packets of 1 ms.
    let waits = |count| meters(two(), move |events| postponed(events, (400, count), |event| event.class == 1));
    assert_eq!(waits(2), Vec::<&str>::new());
    let found = waits(120);
    assert!(["fairness", "gap", "next packet"].iter().all(|meter| found.contains(meter)), "{found:?}");
    let delay = |count| {
        let classes = [("weight = 3", 9), ("weight = 2", 3)];
        meters(seen("wfq", &classes), move |events| postponed(events, (400, count), |event| event.class == 2))
    };
    assert_eq!(delay(30), ["delay"]);
    let behind = |events: &mut Vec<Event>| postponed(events, (400, 30), |event| event.class == 2);
    let found = meters(seen("wf2q+", &[("weight = 3", 9), ("weight = 2", 9)]), behind);
    assert_eq!(found, ["worst case"]);
    let host = |events: &mut Vec<Event>| postponed(events, (400, 30), |event| event.source == 1);
    assert_eq!(meters(seen("drr", &[("per = \"flow\"", 9)]), host), ["hosts"]);
}

#[test]
fn a_class_that_gets_less_or_more_for_long_is_found_by_its_shares() {
    let classes = [("guarantee = \"6mbit\"", 9), ("guarantee = \"4mbit\"", 9)];
    // The second class's service before the judged window is missing in it: 120 packets of 960.
    let less = |events: &mut Vec<Event>| postponed(events, (300, 600), |event| event.class == 1);
    assert_eq!(meters(seen("drr", &classes), less), ["ideal", "model", "shares"]);
    let ceiling = [("ceiling = \"3mbit\"; ceiling_burst = \"20kB\"", 9), ("", 9)];
    let burst = |events: &mut Vec<Event>| postponed(events, (400, 300), |event| event.class == 2);
    let found = meters(seen("htb", &ceiling), burst);
    assert!(found.contains(&"ceiling"), "{found:?}");
}
