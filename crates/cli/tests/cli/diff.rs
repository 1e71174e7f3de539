//! `fairlink diff` and `fairlink schema`.

use super::{Scratch, fairlink, scenario};

const OLD: &str = "[link]\nrate = '100mbit'\n[[class]]\nname = 'a'\nguarantee = '60mbit'\nceiling = '80mbit'\n\
                   [[class]]\nname = 'b'\nguarantee = '40mbit'\n[[class]]\nname = 'b1'\nparent = 'b'\nburst = '3kB'\n\
                   [[class]]\nname = 'b2'\nparent = 'b'\n";

#[test]
fn a_difference_names_keys_and_what_each_class_gets_instead() {
    let dir = Scratch::new();
    let old = dir.write("old.toml", OLD);
    let new = OLD
        .replace("guarantee = '60mbit'\nceiling = '80mbit'", "guarantee = '20mbit'\nbuffer = '50p'")
        .replace("name = 'b2'\nparent = 'b'", "name = 'b2'\nmatch = 'udp'\nguarantee = '10mbit'");
    let new = dir.write("new.toml", &new);
    let run = fairlink(&["diff", &old, &new, "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let diff = run.json();
    assert_eq!((&diff["document"], &diff["version"], &diff["same"]), (&"diff".into(), &1.into(), &false.into()));
    let [link] = &diff["links"].as_array().unwrap()[..] else { panic!("{diff}") };
    assert!(link.get("keys").is_none() || link["keys"][0]["key"] == "default", "{link}");
    let class = |name: &str| {
        let all = link["classes"].as_array().unwrap().iter();
        all.clone().find(|class| class["name"] == name).unwrap_or_else(|| panic!("{name}: {link}"))
    };
    let a = class("a");
    let keys = serde_json::json!([
        { "key": "guarantee", "old": "60 Mbit/s", "new": "20 Mbit/s" },
        { "key": "ceiling", "old": "80 Mbit/s" },
        { "key": "buffer", "new": "50p" },
    ]);
    assert_eq!((&a["change"], &a["keys"]), (&"changed".into(), &keys));
    // The file's second class has matches, so nothing reaches the others but the default class.
    assert_eq!(a["most_bps"], serde_json::json!({ "old": 80_000_000, "new": 100_000_000 }));
    let moved = class("b2");
    assert_eq!(moved["keys"][0], serde_json::json!({ "key": "parent", "old": "b" }));
    assert_eq!(moved["keys"][1], serde_json::json!({ "key": "guarantee", "new": "10 Mbit/s" }));
    let text = fairlink(&["diff", &old, &new]).stdout;
    assert!(
        text.contains("~ a: guarantee 60 Mbit/s -> 20 Mbit/s, ceiling 80 Mbit/s -> default, buffer 50p\n"),
        "{text}"
    );
    assert!(text.contains("~ b2: parent b -> default, guarantee 10 Mbit/s, match udp\n"), "{text}");
}

#[test]
fn who_is_only_affected_is_in_the_table_with_the_sizes() {
    let dir = Scratch::new();
    let old = dir.write("old.toml", OLD);
    let new = dir.write("new.toml", &OLD.replace("'60mbit'", "'10mbit'").replace("'80mbit'", "'10mbit'"));
    let text = fairlink(&["diff", &old, &new]).stdout;
    assert!(text.contains("b1     20 Mbit/s -> 45 Mbit/s (+125.0 %)"), "{text}");
    assert!(text.contains("a      60 Mbit/s -> 10 Mbit/s (-83.3 %)"), "{text}");
    let diff = fairlink(&["diff", &old, &new, "--json"]).json();
    let classes = diff["links"][0]["classes"].as_array().unwrap();
    let b1 = classes.iter().find(|class| class["name"] == "b1").unwrap();
    assert_eq!((b1["change"].as_str(), b1.get("keys")), (Some("affected"), None));
    assert_eq!(b1["share_all_busy_bps"], serde_json::json!({ "old": 20_000_000, "new": 45_000_000 }));
}

#[test]
fn the_same_file_differs_in_nothing_and_a_table_of_classes_is_as_its_classes() {
    let provider = scenario("provider.toml");
    let same = fairlink(&["diff", &provider, &provider]).quiet();
    assert_eq!(same.stdout, "No difference: the same links, classes and keys.\n");
    let dir = Scratch::new();
    let written = dir.write("written.toml", &fairlink(&["expand", &provider]).stdout);
    assert_eq!(fairlink(&["diff", &provider, &written, "--json"]).quiet().json()["same"], true);
}

#[test]
fn links_are_compared_by_name_and_a_file_that_cannot_be_read_is_named() {
    let dir = Scratch::new();
    let link = |name: &str, rate: &str| {
        format!(
            "[[link]]\nname = '{name}'\nin = '{name}0'\nout = '{name}1'\nrate = '{rate}'\n[[link.class]]\nname = 'x'\n"
        )
    };
    let old = dir.write("old.toml", &(link("up", "10mbit") + &link("down", "50mbit")));
    let new = dir.write("new.toml", &(link("down", "60mbit") + &link("side", "5mbit")));
    let diff = fairlink(&["diff", &old, &new, "--json"]).quiet().json();
    let links: Vec<_> = diff["links"].as_array().unwrap().iter().map(|link| (&link["name"], &link["change"])).collect();
    let expected =
        [("down", "changed"), ("side", "new"), ("up", "gone")].map(|(name, change)| (name.into(), change.into()));
    assert_eq!(links, expected.each_ref().map(|(name, change)| (name, change)));
    let one = dir.write("one.toml", &link("other", "10mbit"));
    let renamed = fairlink(&["diff", &one, &dir.write("two.toml", &link("new", "10mbit")), "--json"]).quiet().json();
    assert_eq!(renamed["links"][0]["keys"][0], serde_json::json!({ "key": "name", "old": "other", "new": "new" }));
    let run = fairlink(&["diff", &old, &dir.path("none.toml")]);
    assert!(run.code == 2 && run.stderr.contains("none.toml"), "{}", run.stderr);
    let bad = dir.write("bad.toml", "[link]\nrate = '5'\n");
    let run = fairlink(&["diff", &bad, &old]);
    assert!(run.code == 2 && run.stderr.contains("bad.toml:2:8"), "{}", run.stderr);
}

#[test]
fn schemas_are_json_of_draft_7() {
    for (kind, key) in [("link", "pool"), ("scenario", "source")] {
        let schema = fairlink(&["schema", kind]).quiet().json();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        assert!(schema["properties"].get(key).is_some(), "{kind}");
        assert_eq!(schema["definitions"]["class"]["additionalProperties"], false);
    }
    assert_eq!(fairlink(&["schema", "lnk"]).code, 2);
}
