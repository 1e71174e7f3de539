//! The files that users copy are sound, and say what their comments say.

use std::path::PathBuf;

use fairlink_config::{LinkFile, ReadOptions, Scenario};
use fairlink_core::{Rate, Share};
use fairlink_traffic::{Model, PacketSize, SourceSpec};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

fn link(name: &str) -> LinkFile {
    let file = LinkFile::read(path(name), &ReadOptions::default());
    let file = file.unwrap_or_else(|problems| panic!("{}", problems.lines()));
    assert!(file.warnings.is_empty(), "{:?}", file.warnings);
    file
}

fn rates(file: &LinkFile) -> Vec<(&str, u64)> {
    file.tree.leaves().iter().map(|&leaf| (file.names.name(leaf), file.tree.rate_all_busy(leaf) / 1_000_000)).collect()
}

#[test]
fn figure_1_shares_alike_with_guarantees_and_with_weights() {
    for name in ["fig1.toml", "fig1-weights.toml"] {
        let file = link(name);
        assert_eq!(rates(&file), [("A1", 100), ("A2", 200), ("B1", 100), ("B2", 200), ("C", 400)], "{name}");
        assert_eq!((file.mtu, file.tree.link().max_packet, file.scheduler.as_str()), (1500, 1500, "hls"));
        assert_eq!(file.matches.len(), 5);
        assert_eq!(file.require_default().ok(), file.names.id("C"));
    }
}

#[test]
fn the_simple_link_gives_the_household_four_fifths() {
    assert_eq!(rates(&link("simple.toml")), [("guests", 10), ("ana", 20), ("ben", 20)]);
}

#[test]
fn the_provider_sells_what_its_table_says() {
    let file = link("provider.toml");
    let of = |name: &str| {
        let class = file.names.id(name).unwrap();
        let ceiling = file.tree.config(class).ceiling.map(|rate| rate.bps() / 1_000_000);
        let parent = file.tree.parent(class).unwrap();
        (file.names.name(parent), file.tree.config(class).share, ceiling)
    };
    let guarantee = |mbit: u64| Some(Share::Guarantee(Rate::from_bps(mbit * 1_000_000).unwrap()));
    assert_eq!(of("ada"), ("north", guarantee(10), Some(100)));
    assert_eq!(of("clinic"), ("north", guarantee(50), Some(1000)));
    assert_eq!(of("elif"), ("south", guarantee(10), Some(50)));
    assert_eq!(of("others"), ("link", guarantee(20), None));
    let bakery = file.names.id("bakery").unwrap();
    assert_eq!(file.matches.iter().filter(|(class, _)| *class == bakery).count(), 2);
    assert_eq!((file.tree.leaves().len(), file.default_class), (8, file.names.id("others")));
}

#[test]
fn the_experiments_send_what_their_comments_say() {
    let phases = |name: &str| {
        let scenario = Scenario::read(path(name), &ReadOptions::default());
        let scenario = scenario.unwrap_or_else(|problems| panic!("{}", problems.lines()));
        assert!(scenario.warnings.is_empty() && scenario.link.warnings.is_empty());
        assert!(scenario.sources.iter().all(|source| source.model == Model::Greedy));
        assert!(scenario.sources.iter().all(|source| source.packet == PacketSize::Fixed(1000)));
        let active = |source: &SourceSpec| -> Vec<(u64, u64)> {
            source.active.iter().map(|i| (i.start.0 / 1_000_000_000, i.end.0 / 1_000_000_000)).collect()
        };
        let sources = scenario.sources.iter();
        let sent: Vec<_> =
            sources.map(|source| (scenario.link.names.name(source.class).to_owned(), active(source))).collect();
        (scenario.duration.0 / 1_000_000_000, sent, scenario.link)
    };
    let (duration, sent, link) = phases("exp1.toml");
    let expected =
        [("A1", vec![(0, 5)]), ("A2", vec![(0, 20)]), ("B1", vec![(0, 10)]), ("B2", vec![]), ("C", vec![(0, 15)])];
    assert_eq!((duration, sent), (25, expected.map(|(name, active)| (name.to_owned(), active)).to_vec()));
    assert_eq!(rates(&link), [("A1", 10), ("A2", 20), ("B1", 10), ("B2", 20), ("C", 40)]);
    for (name, first, second) in [("exp2-L.toml", 14, 16), ("exp2-M.toml", 10, 20), ("exp2-H.toml", 6, 24)] {
        let (duration, sent, link) = phases(name);
        let expected = [("A1", vec![]), ("B2", vec![]), ("C", vec![(0, 10), (20, 30)])];
        assert_eq!((duration, sent), (30, expected.map(|(name, active)| (name.to_owned(), active)).to_vec()));
        assert_eq!(rates(&link), [("A1", first), ("A2", second), ("B1", first), ("B2", second), ("C", 40)], "{name}");
        assert_eq!(link.tree.link().rate.bps(), 100_000_000);
    }
}

#[test]
fn a_scenario_file_serves_as_a_link_file() {
    for name in ["exp1.toml", "exp2-H.toml", "fig1-busy.toml"] {
        assert_eq!(link(name).tree.leaves().len(), 5, "{name}");
    }
}

#[test]
fn a_link_file_is_looked_for_beside_the_scenario_that_names_it() {
    let scenario = Scenario::read(path("fig1-busy.toml"), &ReadOptions::default()).unwrap();
    assert!(scenario.link.source().name().ends_with("fig1.toml"));
    assert_eq!(scenario.sources.len(), 5);
}

#[test]
fn the_slots_of_2001_are_two_links_and_a_pool() {
    let file = Scenario::read(path("htb-slots.toml"), &ReadOptions::default());
    let file = file.unwrap_or_else(|problems| panic!("{}", problems.lines()));
    assert!(file.warnings.is_empty() && file.link.warnings.is_empty() && file.peers[0].link.warnings.is_empty());
    assert_eq!((file.sources.len(), file.peers[0].sources.len(), file.peers[0].name.as_str()), (2, 1, "eth1"));
    let pool = &file.pools[0];
    let bases: Vec<_> = pool.members.iter().map(|&(link, _, base)| (link, base.bps())).collect();
    assert_eq!((pool.rate.bps(), pool.burst, bases), (800_000, 2_000, vec![(0, 400_000), (1, 240_000)]));
}

#[test]
fn the_reload_keeps_two_leaves_and_brings_one() {
    let file = Scenario::read(path("reload.toml"), &ReadOptions::default());
    let file = file.unwrap_or_else(|problems| panic!("{}", problems.lines()));
    assert!(file.warnings.is_empty() && file.link.warnings.is_empty());
    let [change] = &file.changes[..] else { panic!("{} changes", file.changes.len()) };
    assert!(change.link.warnings.is_empty());
    assert_eq!(
        (change.at.0, change.name.as_str(), change.scheduler.is_none()),
        (10_000_000_000, "simple-after.toml", true)
    );
    assert_eq!(rates(&change.link), [("guests", 20), ("ana", 30), ("office", 30)]);
    let sources: Vec<_> = file.sources.iter().map(|source| file.names[source.class.index()].as_str()).collect();
    assert_eq!(sources, ["guests", "ana", "ben", "office"]);
}
