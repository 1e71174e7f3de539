//! The users' manual names every key and word, and its examples are sound.

use fairlink_config::{LinkFile, ReadOptions};
use fairlink_schema::keys;

const MANUAL: &str = include_str!("../../../../docs/link-files.md");

#[test]
fn the_first_example_of_the_manual_is_a_sound_link_file() {
    let example = MANUAL.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let file = LinkFile::parse("manual.toml", example, &ReadOptions::default());
    let file = file.unwrap_or_else(|problems| panic!("{}", problems.lines()));
    assert_eq!(file.tree.leaves().len(), 2);
}

/// The tables of `[link]` and `[[class]]` in the manual are those of the declarations. `FAIRLINK_GOLDEN=write` writes
/// them.
#[test]
fn the_manual_has_the_tables_of_the_keys_as_they_are_declared() {
    let mut manual = MANUAL.to_owned();
    for (heading, table) in
        [("## `[link]`\n", keys::markdown(&keys::LINK)), ("## `[[class]]`\n", keys::markdown(&keys::CLASS))]
    {
        let start = manual.find(heading).and_then(|at| Some(at + manual[at..].find("\n| ")? + 1)).unwrap();
        let end = start + manual[start..].find("\n\n").unwrap() + 1;
        if std::env::var("FAIRLINK_GOLDEN").as_deref() == Ok("write") {
            manual.replace_range(start..end, &table);
        } else {
            assert_eq!(&manual[start..end], table, "write it with FAIRLINK_GOLDEN=write");
        }
    }
    if manual != MANUAL {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/link-files.md"), manual).unwrap();
    }
}
