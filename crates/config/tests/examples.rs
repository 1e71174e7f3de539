//! The files that users copy are sound, and say what their comments say.

use std::path::PathBuf;

use fairlink_config::{LinkFile, ReadOptions};

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
