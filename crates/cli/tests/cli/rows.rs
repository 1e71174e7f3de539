//! Output for large trees.

use crate::{Scratch, fairlink, scenario};

/// A link file: `wide` classes below the link, `deep` below each of them.
fn tree(wide: usize, deep: usize) -> String {
    let mut text = "[link]\nrate = \"1gbit\"\n".to_owned();
    for a in 0..wide {
        text += &format!("[[class]]\nname = \"a{a}\"\nguarantee = \"1mbit\"\n");
        for b in 0..deep {
            text += &format!("[[class]]\nname = \"a{a}b{b}\"\nparent = \"a{a}\"\nguarantee = \"10kbit\"\n");
        }
    }
    text
}

/// Lines of the first table that begin with the name of a class.
fn rows(text: &str) -> usize {
    let first = text.split("Worst case:").next().unwrap_or(text);
    first.lines().filter(|line| line.trim_start().starts_with('a') && line.contains("bit/s")).count()
}

#[test]
fn text_shows_the_upper_levels_of_a_large_tree_and_sums_up_the_rest() {
    let dir = Scratch::new();
    let deep = dir.write("deep.toml", &tree(10, 50));
    let wide = dir.write("wide.toml", &tree(310, 0));
    for command in ["check", "fluid"] {
        let text = fairlink(&[command, &deep]).quiet().stdout;
        assert_eq!(rows(&text), 10, "{text}");
        assert!(text.contains("500 classes are not shown; --all shows all, --class NAME one. By level:"), "{text}");
        let level =
            text.lines().find(|line| line.trim_start().starts_with("2  ")).expect("a line for the second level");
        let words: Vec<&str> = level.split_whitespace().collect();
        assert_eq!(words, ["2", "500", "500", "2", "Mbit/s", "2", "Mbit/s"]);
        assert_eq!(rows(&fairlink(&[command, &wide]).quiet().stdout), 20);
        assert_eq!(rows(&fairlink(&[command, &deep, "--all"]).quiet().stdout), 510);
        let one = fairlink(&[command, &deep, "--class", "a7b31"]).quiet().stdout;
        assert_eq!(rows(&one), 2, "{one}");
        assert!(one.contains("\n  a7b31 "), "{one}");
        let unknown = fairlink(&[command, &deep, "--class", "nobody"]);
        assert_eq!((unknown.code, unknown.stdout.as_str()), (2, ""));
        assert!(unknown.stderr.contains("there are: a0, a0b0"), "{}", unknown.stderr);
        assert!(unknown.stderr.contains("and 498 more"), "{}", unknown.stderr);
    }
}

#[test]
fn json_has_every_class_or_the_one_that_is_asked_for() {
    let dir = Scratch::new();
    let link = dir.write("link.toml", &tree(10, 50));
    for command in ["check", "fluid"] {
        let all = fairlink(&[command, &link, "--json"]).quiet().json();
        assert_eq!(all["link"]["classes"].as_array().map(Vec::len), Some(510));
        let one = fairlink(&[command, &link, "--json", "--class", "a7b31"]).quiet().json();
        let one = one["link"]["classes"].as_array().expect("a list");
        assert_eq!((one.len(), &one[0]["name"], &one[0]["parent"]), (1, &"a7b31".into(), &"a7".into()));
    }
}

#[test]
fn a_table_stands_the_same_whether_its_rows_are_kept_or_made_twice() {
    let text = fairlink(&["fluid", &scenario("fig1.toml"), "--demand", "A1=inf,B2=inf,C=100mbit"]).quiet().stdout;
    let expected = "\
class      demand        rate  of link  limited by
A       unlimited  450 Mbit/s     45 %  the link
  A1    unlimited  450 Mbit/s     45 %  A
  A2      0 bit/s     0 bit/s      0 %  -
B       unlimited  450 Mbit/s     45 %  the link
  B1      0 bit/s     0 bit/s      0 %  -
  B2    unlimited  450 Mbit/s     45 %  B
C      100 Mbit/s  100 Mbit/s     10 %  -
";
    assert_eq!(text, expected);
}

#[test]
fn a_simulation_shows_the_leaves_that_something_was_sent_to_and_the_first_phases() {
    let dir = Scratch::new();
    dir.write("link.toml", &tree(400, 0));
    let active: Vec<String> = (0..400).map(|n| format!("\"{}us..{}us\"", 20 * n, 20 * n + 10)).collect();
    let scenario = format!(
        "link = \"link.toml\"\nduration = \"9ms\"\n[[source]]\nclass = \"a7\"\nmodel = \"greedy\"\npacket = \"100B\"\nactive = [{}]\n",
        active.join(", ")
    );
    let scenario = dir.write("scenario.toml", &scenario);
    let text = fairlink(&["sim", &scenario]).quiet().stdout;
    assert!(text.contains("399 leaves are not shown, idle ones first"), "{text}");
    assert!(text.contains("phases are not shown; --all shows all, --class NAME one class"), "{text}");
    assert!(text.lines().count() < 330, "{}", text.lines().count());
    assert!(fairlink(&["sim", &scenario, "--all"]).quiet().stdout.lines().count() > 1_000);
    let json = fairlink(&["sim", &scenario, "--json"]).quiet().json();
    assert_eq!(json["runs"][0]["link"]["classes"].as_array().map(Vec::len), Some(400));
    let json = fairlink(&["sim", &scenario, "--json", "--class", "a8"]).quiet().json();
    assert_eq!(json["runs"][0]["link"]["classes"].as_array().map(Vec::len), Some(1));
    assert_eq!(json["runs"][0]["link"]["spans"][1]["classes"].as_array().map(Vec::len), Some(1));
    let unknown = fairlink(&["sim", &scenario, "--class", "nobody"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("and 388 more"), "{}", unknown.stderr);
}
