//! Packets that go over several links in a row.

use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, Leniency, LinkConfig, NANOS_PER_SEC, Nanos, Share, registry::find,
};
use fairlink_sim::{Hop, Links, Options, Route, RouteRun, Run, Scenario, SimError, compare_links};
use fairlink_traffic::Model;
use proptest::prelude::*;

use crate::common::{flat, rate, scenario, source};

fn hop(link: usize, class: u32) -> Hop {
    Hop { link, class: ClassId(class) }
}

fn route(source: (usize, usize), hops: &[Hop]) -> Route {
    Route { name: "way".to_owned(), source, hops: hops.to_vec(), regulated: None }
}

/// Links in a row, named b, c ... after the first.
fn network(scenarios: Vec<Scenario>, routes: Vec<Route>) -> Links {
    let mut all = scenarios.into_iter();
    let first = all.next().unwrap();
    let further = ["b", "c", "d", "e", "f", "g"].iter().map(|&name| name.to_owned()).zip(all).collect();
    Links { first, further, pools: Vec::new(), routes }
}

fn run(links: &Links, scheduler: &str) -> Result<Run, SimError> {
    let info = find(scheduler).unwrap();
    Ok(compare_links(links, &[info], Leniency::Ignore, 1, &Options::default(), &mut ())?.runs.remove(0))
}

fn kept(run: &RouteRun) -> u64 {
    run.hops.iter().map(|hop| hop.arrived_packets - hop.sent_packets - hop.dropped_packets).sum()
}

/// Packets that are on a link, or between two, at the end.
fn between(run: &RouteRun) -> u64 {
    run.hops.windows(2).map(|pair| pair[0].sent_packets - pair[1].arrived_packets).sum()
}

#[test]
fn a_packet_is_stored_and_forwarded_by_each_link() {
    // 1000 B: 8 ms at 1 Mbit/s, 2 ms along it, 4 ms at 2 Mbit/s, 1 ms along it.
    let duration = Nanos::from_secs(1);
    let mut first = scenario(flat(1, &[1]), vec![source(1, Model::cbr(rate(80_000)), 1000, &[])], duration);
    let mut second = scenario(flat(2, &[1]), Vec::new(), duration);
    (first.propagation, second.propagation) = (Nanos::from_millis(2), Nanos::from_millis(1));
    let run = run(&network(vec![first, second], vec![route((0, 0), &[hop(1, 1)])]), "hls").unwrap();
    let way = &run.routes[0];
    assert_eq!((way.offered_packets, way.received_packets, way.dropped_packets), (10, 10, 0));
    let [at_first, at_second] = &way.hops[..] else { panic!("{way:?}") };
    assert_eq!((at_first.delay_s.max, at_second.delay_s.max), (Some(0.008), Some(0.004)));
    assert_eq!((way.delay_s.mean, way.delay_s.max), (Some(0.015), Some(0.015)));
    assert_eq!((&*at_second.link, &*at_second.class), ("b", "b:C1"));
}

#[test]
fn the_bottleneck_of_a_parking_lot_is_shared_by_its_weights() {
    // Three links of 10 Mbit/s. The long way meets one local greedy source at each.
    let duration = Nanos::from_secs(4);
    let local = |weights: &[u64]| scenario(flat(10, weights), vec![source(1, Model::Greedy, 1000, &[])], duration);
    let mut first = local(&[1, 1]);
    first.sources.push(source(2, Model::Greedy, 1000, &[]));
    let lot = network(vec![first, local(&[3, 1]), local(&[1, 1])], vec![route((0, 1), &[hop(1, 2), hop(2, 2)])]);
    let run = run(&lot, "hls").unwrap();
    let got = |name: &str| run.classes.iter().find(|class| class.name == name).unwrap().rates.rate() / 1e6;
    // A quarter of the second link is the least that the long way gets.
    for (class, expected) in [("C1", 5.0), ("C2", 5.0), ("b:C1", 7.5), ("b:C2", 2.5), ("c:C1", 7.5), ("c:C2", 2.5)] {
        assert!((got(class) - expected).abs() < 0.06, "{class}: {} of {expected}", got(class));
        let ideal = run.phases[0].classes.iter().find(|rate| rate.name == class).unwrap().rates.fair() / 1e6;
        assert!((ideal - expected).abs() < 1e-9, "{class}: ideal {ideal} of {expected}");
    }
    let way = &run.routes[0];
    let left = kept(way) + between(way);
    assert_eq!(way.offered_packets, way.received_packets + way.dropped_packets + left);
}

/// `links` links of 10 Mbit/s with three classes of these shares of 20; on each, others send as much as they can.
fn lot(links: usize, share: u64, sigma_packets: u32, len: u32, way: &[Hop], seed: u64) -> Links {
    let duration = Nanos::from_secs(3);
    let tree = || {
        let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1500, ..LinkConfig::new(rate(10_000_000)) });
        for part in [share, (20 - share) / 2, 20 - share - (20 - share) / 2] {
            let guarantee = Some(Share::Guarantee(rate(part * 500_000)));
            tree.add(ClassId::ROOT, ClassConfig { share: guarantee, ..ClassConfig::default() }).unwrap();
        }
        tree.build().unwrap()
    };
    let others = || vec![source(2, Model::Greedy, 1500, &[]), source(3, Model::poisson(rate(9_000_000)), 1500, &[])];
    let mut scenarios: Vec<Scenario> = (0..links).map(|_| scenario(tree(), others(), duration)).collect();
    // Bursts of sigma at rho.
    let pace = fairlink_traffic::Pace::Rate(rate(share * 500_000));
    scenarios[0].sources.push(source(1, Model::Cbr { pace, burst: sigma_packets }, len, &[]));
    scenarios[0].seed = seed;
    network(scenarios, vec![route((0, 2), way)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_delay_over_several_links_is_within_the_bounds_of_wfq(
        links in 2usize..=5, share in 2u64..=12, burst in 1u32..20, len in 100u32..=1500, seed: u64,
    ) {
        let way: Vec<Hop> = (1..links).map(|link| hop(link, 1)).collect();
        let run = run(&lot(links, share, burst, len, &way, seed), "wfq").unwrap();
        let way = &run.routes[0];
        prop_assert!(way.received_packets > 50);
        let (rho, c) = (share as f64 * 500_000.0, 10e6);
        let (sigma, len, longest) = (f64::from(burst * len) * 8.0, f64::from(len) * 8.0, 12_000.0);
        let hops = links as f64;
        // One hop: sigma / rho + L / rho + L_max / r. The departing traffic has the burst of sigma plus the arrivals
        // during such a delay.
        let (mut at_each, mut sum) = (sigma, 0.0);
        for hop in &way.hops {
            let bound = at_each / rho + len / rho + longest / c;
            prop_assert!(hop.delay_s.max.unwrap() <= bound, "{:?} {bound}", hop.delay_s);
            sum += bound;
            at_each += rho * bound;
        }
        // Bursts are paid for only once (Parekh and Gallager 1994): (sigma + (K - 1) L) / rho + K L_max / r.
        let once = (sigma + (hops - 1.0) * len) / rho + hops * longest / c;
        let longest_seen = way.delay_s.max.unwrap();
        prop_assert!(longest_seen <= once, "{longest_seen} {once}");
        prop_assert!(once <= sum);
    }

    #[test]
    fn no_packet_is_lost_or_made_up_on_random_ways(
        links in 2usize..=5, seed: u64, ways in prop::collection::vec((0usize..5, prop::collection::vec(any::<bool>(), 5)), 1..6),
    ) {
        let duration = Nanos(NANOS_PER_SEC / 2);
        let mut scenarios: Vec<Scenario> = (0..links)
            .map(|_| scenario(flat(5, &[1, 2]), vec![source(1, Model::poisson(rate(2_000_000)), 700, &[])], duration))
            .collect();
        let mut routes = Vec::new();
        for (number, (start, visited)) in ways.into_iter().enumerate() {
            // Links rise, so that there is no circle.
            let hops: Vec<Hop> =
                (start + 1..links).filter(|&link| visited[link]).map(|link| hop(link, 1 + (number % 2) as u32)).collect();
            if start >= links || hops.is_empty() {
                continue;
            }
            scenarios[start].sources.push(source(2, Model::poisson(rate(4_000_000)), 900, &[]));
            routes.push(route((start, scenarios[start].sources.len() - 1), &hops));
        }
        scenarios[0].seed = seed;
        for scheduler in ["hls", "drr", "hfsc"] {
            let run = run(&network(scenarios.clone(), routes.clone()), scheduler).unwrap();
            for way in &run.routes {
                // At the end a packet is queued, or between two links: fewer arrived than were sent.
                let between = between(way);
                let left = kept(way) + between;
                prop_assert_eq!(way.offered_packets, way.received_packets + way.dropped_packets + left);
                prop_assert!(between < way.hops.len() as u64);
            }
        }
    }
}

#[test]
fn a_delay_jitter_regulator_gives_each_link_the_pattern_of_the_source() {
    // The first two links are congested, the last one is not: its delay is constant.
    let regulated = |on: bool| {
        let mut lot = lot(3, 4, 1, 1000, &[hop(1, 1), hop(2, 1)], 3);
        lot.further[1].1.sources.clear();
        let others = [&mut lot.first, &mut lot.further[0].1];
        others.into_iter().for_each(|link| link.sources[1].model = Model::poisson(rate(2_000_000)));
        // rcsp: one priority for all. A packet waits for one of each class and one on the link, 1 ms each at 8 Mbit/s and more.
        lot.routes[0].regulated = on.then(|| vec![Nanos::from_millis(40); 2]);
        run(&lot, "rcsp").unwrap().routes.remove(0)
    };
    let spread = |way: &RouteRun| way.delay_s.max.unwrap() - way.delay_s.mean.unwrap();
    let (without, with) = (regulated(false), regulated(true));
    assert!(spread(&without) > 1e-4, "{without:?}");
    assert!(spread(&with) < 1e-9, "{with:?}");
    assert!((with.delay_s.mean.unwrap() - 0.0808).abs() < 1e-6, "{with:?}");
    assert!(with.hops.iter().all(|hop| hop.dropped_packets == 0));
}

#[test]
fn routes_that_cannot_be_are_refused() {
    let links = |routes| {
        let alone = || scenario(flat(1, &[1]), vec![source(1, Model::Greedy, 1000, &[])], Nanos::from_secs(1));
        network(vec![alone(), alone(), alone()], routes)
    };
    let refused = |routes| run(&links(routes), "hls").unwrap_err().to_string();
    assert_eq!(refused(vec![route((0, 0), &[hop(0, 1)])]), "routes lead from link 0 back to it");
    let circle = vec![route((0, 0), &[hop(1, 1), hop(2, 1)]), route((2, 0), &[hop(0, 1)])];
    assert_eq!(refused(circle), "routes lead from link 0 back to it");
    assert_eq!(refused(vec![route((0, 0), &[hop(1, 0)])]), "route way: class 0 of link 1 is no leaf");
    assert_eq!(refused(vec![route((0, 0), &[hop(3, 1)])]), "route way: class 1 of link 3 is no leaf");
    assert_eq!(refused(vec![route((0, 1), &[hop(1, 1)])]), "route way: there is no source 1 of link 0");
    assert_eq!(refused(vec![route((0, 0), &[])]), "route way: 0 links after the first; there can be 1 to 1000");
    let twice = vec![route((0, 0), &[hop(1, 1)]), route((0, 0), &[hop(2, 1)])];
    assert_eq!(refused(twice), "route way: source 0 of link 0 has another route");
}
