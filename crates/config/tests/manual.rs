//! The users' manual names every key and word, and its examples are sound.
#![forbid(unsafe_code)]

use fairlink_config::{LinkFile, ReadOptions};

const MANUAL: &str = include_str!("../../../docs/link-files.md");

#[test]
fn the_first_example_of_the_manual_is_a_sound_link_file() {
    let example = MANUAL.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let file = LinkFile::parse("manual.toml", example, &ReadOptions::default());
    let file = file.unwrap_or_else(|problems| panic!("{}", problems.lines()));
    assert_eq!(file.tree.leaves().len(), 2);
}

#[test]
fn the_manual_has_every_key_that_a_file_takes() {
    // The list of keys comes from the errors themselves.
    let text = "link = { rate = '1gbit', zzzzzzzz = 1 }\n[[class]]\nname = 'a'\nzzzzzzzz = 1\n";
    let problems = LinkFile::parse("keys.toml", text, &ReadOptions::default()).unwrap_err().lines();
    let lists: Vec<&str> =
        problems.lines().filter_map(|line| line.split_once("there are: ")).map(|(_, keys)| keys).collect();
    assert_eq!(lists.len(), 2, "{problems}");
    for key in lists.iter().flat_map(|list| list.split(", ")) {
        assert!(MANUAL.contains(&format!("`{key}`")), "{key}");
    }
}
