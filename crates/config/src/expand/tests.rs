use std::path::Path;

use fairlink_core::{ClassId, Rate, Share};
use proptest::prelude::*;

use super::*;
use crate::files::Memory;
use crate::link::{LinkFile, ReadOptions};
use crate::problem::SourceText;

const TABLE: &str = "\
# name and what is sold
name,site,plan,down,addresses
ann,north,gold,20,10.0.0.1;10.0.0.2
\"bob \"\"b\"\"\",south,silver,,10.0.1.1
cid, south ,silver,7, 10.0.2.9
";

const LINK: &str = r#"
[link]
rate = "1gbit"
default = "rest"

[template.silver]
guarantee = "5mbit"
queue = "fq_codel"

[template.gold]
template = "silver"
guarantee = "10mbit"
ceiling = "50%"

[[class]]
name = "north"
guarantee = "100mbit"

[[classes]]
from = "subscribers.csv"
name = "{name}"
parent = "{site}"
template = "{plan}"
ceiling = "100mbit"
guarantee = "{down}mbit"
match = ["dst host {addresses}", "dst net 192.168.{down}.0/24", "vlan 7"]

[[class]]
name = "south"
guarantee = "100mbit"

[[class]]
name = "rest"
template = "silver"
guarantee = "1mbit"
"#;

/// The text of a link file, and the table beside it.
fn with_table(link: &str, table: &str) -> Source {
    let tables = ["subscribers.csv", "t.csv", "t.tsv"].map(|name| (Path::new("dir").join(name), table));
    SourceText::among("dir/link.toml", link, Arc::new(Memory::new(tables)))
}

/// Returns the expanded text, or its errors.
fn written(link: &str, table: &str) -> Result<String, String> {
    let made = expand(&with_table(link, table));
    made.map(|source| source.inner().to_owned()).map_err(|problems| problems.lines())
}

fn read(link: &str, table: &str) -> Result<LinkFile, String> {
    LinkFile::from_source(&with_table(link, table), &ReadOptions::default()).map_err(|problems| problems.lines())
}

#[test]
fn a_table_of_classes_says_what_the_same_classes_say_one_by_one() {
    let made = expand(&with_table(LINK, &TABLE.replace("\"bob \"\"b\"\"\"", "bob"))).unwrap();
    assert_eq!(made.included().collect::<Vec<_>>(), ["dir/subscribers.csv"]);
    let by_hand = r#"
        [link]
        rate = "1gbit"
        default = "rest"
        [[class]]
        name = "north"
        guarantee = "100mbit"
        [[class]]
        name = "ann"
        parent = "north"
        guarantee = "20mbit"
        ceiling = "100mbit"
        queue = "fq_codel"
        match = ["dst host 10.0.0.1", "dst host 10.0.0.2", "dst net 192.168.20.0/24", "vlan 7"]
        [[class]]
        name = "bob"
        parent = "south"
        guarantee = "5mbit"
        ceiling = "100mbit"
        queue = "fq_codel"
        match = ["dst host 10.0.1.1", "vlan 7"]
        [[class]]
        name = "cid"
        parent = "south"
        guarantee = "7mbit"
        ceiling = "100mbit"
        queue = "fq_codel"
        match = ["dst host 10.0.2.9", "dst net 192.168.7.0/24", "vlan 7"]
        [[class]]
        name = "south"
        guarantee = "100mbit"
        [[class]]
        name = "rest"
        guarantee = "1mbit"
        queue = "fq_codel"
    "#;
    // Three classes cannot all be of VLAN 7, so it is another VLAN in each here.
    let apart = |text: &str| {
        let mut vlans = 0;
        let mut parts = text.split("vlan 7");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            vlans += 1;
            text + &format!("vlan {vlans}") + part
        })
    };
    let options = ReadOptions::default();
    let one = LinkFile::parse("made", apart(made.inner()), &options).unwrap();
    let other = LinkFile::parse("by hand", apart(by_hand), &options).unwrap();
    assert_eq!(one.names.iter().collect::<Vec<_>>(), other.names.iter().collect::<Vec<_>>());
    for class in other.tree.classes() {
        assert_eq!(one.tree.config(class), other.tree.config(class), "{}", other.names.name(class));
        assert_eq!(one.tree.parent(class), other.tree.parent(class));
    }
    assert_eq!(one.matches, other.matches);
    assert_eq!(one.default_class, other.default_class);
}

#[test]
fn what_is_wrong_with_a_row_is_said_of_the_row_and_what_is_wrong_with_a_template_once() {
    let link = |extra: &str| {
        format!(
            "[link]\nrate = \"1gbit\"\n\n[template.t]\nguarantee = \"1mbit\"\n{extra}\n\n[[classes]]\nfrom = \"t.csv\"\n"
        )
    };
    let of_rows = [
        (
            "name,guarantee\na,1mbit,\n",
            "dir/t.csv:2:1: error: this row has 3 fields, and there are 2 columns; the columns are name, guarantee",
        ),
        ("name,guarantee\na,1mbit\nb\n", "dir/t.csv:3:1: error: this row has 1 field, and there are 2 columns"),
        ("name,name\na,b\n", "dir/t.csv:1:1: error: two columns are called \"name\""),
        ("name,\na,b\n", "dir/t.csv:1:1: error: column 2 has no name"),
        ("\u{feff}name;guarantee\r\na;1mbit\r\nb;fast\r\n", "dir/t.csv:3:1: error: \"guarantee\""),
        ("name,guarantee\n\n# no\na,1mbit\na,2mbit\n", "dir/t.csv:5:1: error: there are two classes named \"a\""),
        ("name,parent\na,\nb,c\n", "dir/t.csv:3:1: error: there is no class \"c\""),
        ("name,guarantee\n\"a,1mbit\nb,1mbit\n", "dir/t.csv:2:1: error: a quote is not closed on its line"),
        ("name,guarantee\n\"\",1mbit\n", "dir/t.csv:2:1: error: the name of this class is empty; fill it in"),
        ("name,guarantee\na,0\n", "dir/t.csv:2:1: error: \"guarantee\""),
        ("name,weight\na,much\n", "dir/t.csv:2:1: error: \"weight\" must be a whole number"),
        ("name,template\na,u\n", "dir/t.csv:2:1: error: there is no template \"u\"; did you mean \"t\"?"),
        ("name,match\na,dst host 10.0.0.1;dst nett 10.0.0.2\n", "dir/t.csv:2:1: error: "),
        ("", "dir/t.csv:1:1: error: the table is empty"),
        ("name,guarantee\n", "dir/t.csv:1:1: error: the table has column names and no rows"),
        ("site,guarantee\nn,1mbit\n", "dir/link.toml:8:1: error: [[classes]] has no \"name\""),
    ];
    for (table, wanted) in of_rows {
        let says = read(&link(""), table).unwrap_err();
        assert!(says.contains(wanted), "{table:?}: {says}");
        assert_eq!(says.lines().count(), 1, "{table:?}: {says}");
    }
    let rows: String = (0..100).map(|row| format!("c{row},t\n")).collect();
    let says = read(&link("ceiling = \"fast\""), &format!("name,template\n{rows}")).unwrap_err();
    assert!(says.starts_with("dir/link.toml:6:11: error: \"ceiling\""), "{says}");
    assert_eq!(says.lines().count(), 1, "{says}");
}

#[test]
fn what_is_wrong_with_templates_and_tables_is_said_at_its_place() {
    let table = "name,down\na,1\n";
    for (link, wanted) in [
        ("[[class]]\nname = \"a\"\ntemplate = \"gold\"\n", "3:1: error: there is no template \"gold\""),
        ("[[class]]\nname = \"a\"\ntemplate = 3\n", "3:1: error: \"template\" must be a name in quotes, not integer"),
        (
            "[template.a]\ntemplate = \"b\"\n[template.b]\ntemplate = \"a\"\n[[class]]\nname = \"x\"\ntemplate = \"a\"\n",
            "depends on itself: a -> b -> a",
        ),
        ("[template]\nx = 1\n[[class]]\nname = \"x\"\n", "1:1: error: \"template\" needs a name"),
        ("[[template.a]]\nweight = 1\n", "1:1: error: \"template\" is a single table for each name"),
        ("[template.a.contract]\nbytes = \"1kB\"\n", "1:1: error: \"template\" cannot contain tables"),
        ("[template.a]\ncontract.bytes = \"1kB\"\n", "\"contract\" is split over several tables"),
        ("[template.a]\nname = \"x\"\n", "2:1: error: \"name\" must differ for each class"),
        ("template = { a = { weight = 1 } }\n", "1:1: error: \"template\" is not a table with its own header"),
        ("classes = [{ from = \"t.csv\" }]\n", "1:1: error: \"classes\" is not a table with its own header"),
        ("[[classes]]\nname = \"{name}\"\n", "1:1: error: [[classes]] has no \"from\""),
        ("[[classes]]\nfrom = \"/etc/shadow\"\n", "2:1: error: \"from\" of \"/etc/shadow\" is not the name of a table"),
        (
            "[[classes]]\nfrom = \"t.csv\"\nguarantee = \"{up}mbit\"\n",
            "3:1: error: the table has no column \"up\"; there are: name, down",
        ),
        ("[[classes]]\nfrom = \"t.csv\"\nguarantee = \"{dow}mbit\"\n", "did you mean {down}?"),
        ("[[classes]]\nfrom = \"t.csv\"\nguarantee = \"{down\"\n", "3:1: error: unmatched brace in \"{down\""),
        ("[[classes]]\nfrom = \"t.csv\"\nclassid = \"1:2\"\n", "3:1: error: \"classid\" must differ for each class"),
        ("[[classes]]\nfrom = \"t.csv\"\n[classes.contract]\nbytes = \"1kB\"\n", "error: "),
    ] {
        let says = read(&format!("{link}[link]\nrate = \"1gbit\"\n"), table).unwrap_err();
        assert!(says.contains(wanted) && says.contains("dir/link.toml"), "{link:?}: {says}");
    }
    // A text without files names none.
    let text = "[link]\nrate = \"1gbit\"\n[[classes]]\nfrom = \"t.csv\"\n";
    let says = LinkFile::parse("sent", text, &ReadOptions::default()).unwrap_err().lines();
    assert!(
        says.contains("sent:4:1: error: \"from\" names a file") && says.contains("`fairlink expand FILE`"),
        "{says}"
    );
}

#[test]
fn a_class_keeps_what_it_sets_itself_in_its_own_tables_too() {
    let link = r#"
[link]
rate = "1gbit"
scheduler = "drr+"
[template.t]
guarantee = "1mbit"
latency_critical = true
contract = { bytes = "9kB", every = "9s" }
[[class]]
name = "a"
template = "t" # as sold
guarantee = "2mbit"
[class.contract]
bytes = "3kB"
every = "1s"
[[class]]
template = "t"
name = "b"
"#;
    let file = read(link, "").unwrap();
    let config = |id| *file.tree.config(ClassId(id));
    assert_eq!(config(1).share, Some(Share::Guarantee(Rate::from_bps(2_000_000).unwrap())));
    assert_eq!(config(1).contract.unwrap().bytes, 3000);
    assert_eq!(config(2).share, Some(Share::Guarantee(Rate::from_bps(1_000_000).unwrap())));
    assert_eq!(config(2).contract.unwrap().bytes, 9000);
    assert!(config(1).latency_critical && config(2).latency_critical);
}

#[test]
fn braces_written_twice_are_braces_and_numbers_and_flags_stand_without_quotes() {
    let link =
        "[[classes]]\nfrom = \"t.csv\"\nname = \"{{{name}}}\"\nweight = \"{w}\"\nbounded = \"{b}\"\nqueue = \"fifo\"\n";
    let made = written(link, "name,w,b\n7,3,true\n").unwrap();
    assert_eq!(made, "[[class]]\nname = \"{7}\"\nweight = 3\nbounded = true\nqueue = \"fifo\"\n\n");
    // Expansion is idempotent.
    assert_eq!(written(&made, ""), Ok(made.clone()));
}

proptest! {
    #[test]
    fn a_text_without_templates_or_tables_is_left_as_it_is(lines in proptest::collection::vec("(\\[+[a-z.]{1,9}\\]+|[a-z]{1,8} = (\"[a-z\\[{]*\"|\\[ \\[1\\],\n\\[2\\] \\]|7|\\{ a = 1 \\}|'''\n\\[x\\]\n''')|# template \\[|)\r?", 0..12)) {
        let text = lines.join("\n");
        let source = SourceText::new("t.toml", text.as_str());
        let has_template = text.lines().any(|line| line.starts_with("[template") || line.starts_with("[[class") || line.starts_with("template") || line.starts_with("classes"));
        if !has_template {
            let made = expand(&source).unwrap();
            prop_assert_eq!(made.inner(), text);
        }
    }

    #[test]
    fn no_table_makes_it_panic(table in "([a-z,;\"\r\n#\u{feff}{}=\\\\]|name|,|\n){0,80}", name in "[a-z{}]{0,6}") {
        let link = format!("[[classes]]\nfrom = \"t.csv\"\nname = \"{name}\"\nmatch = [\"{name}\", \"any\"]\n");
        if let Ok(made) = written(&link, &table) {
            prop_assert!(crate::reader::toml(&SourceText::new("made", made)).is_ok());
        }
    }
}
