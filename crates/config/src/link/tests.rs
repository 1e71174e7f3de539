//! A file read in pieces is the file read as a whole.

use super::*;
use proptest::prelude::*;

/// Returns the contents of a file, or its errors.
fn read(source: &Source, pieces: bool) -> String {
    let read = |table: &Table<'_, '_>, log: Log| LinkFile::from_table(table, &ReadOptions::default(), log);
    let done = match pieces {
        true => document::read(source, "a link file", read),
        false => document::read_whole(source, "a link file", read),
    };
    match done {
        Err(problems) => problems.lines(),
        Ok(file) => {
            let classes = file.tree.classes().map(|class| {
                let parent = file.tree.parent(class).map(|parent| file.names.name(parent));
                (file.names.name(class), parent, file.span(class), *file.tree.config(class))
            });
            let warnings: Vec<String> = file.warnings.iter().map(Problem::line).collect();
            format!("{:#?}", (classes.collect::<Vec<_>>(), &file.matches, &file.features, &file.pools, warnings))
        }
    }
}

/// Parts of a file with text that looks like a header in every kind of place.
const PARTS: [&str; 22] = [
    "[link]\nrate = \"1gbit\"\n",
    "[[class]]\nname = \"a\"\nguarantee = \"1mbit\"\n",
    "[[class]]\nname = \"b\"\nparent = \"a\"\nceiling = \"2mbit\"\n",
    "[[class]] # a comment\nparent = \"b\"\nname = \"c\"\nburst = \"2kB\"\nmatch = [\n  \"dscp ef\",\n]\n",
    "  [[class]]\nname = \"d\"\n",
    "[[ class ]]\nname = \"e\"\n",
    "[[\"class\"]]\nname = \"f\"\n",
    "[class]\nname = \"g\"\n",
    "[class.contract]\nbytes = \"3kB\"\nevery = \"1s\"\n",
    "[[class.match]]\n",
    "[[class]]x\n",
    "[[classes]]\nname = \"h\"\n",
    "[[source]]\nclass = \"a\"\n",
    "duration = \"1s\"\n",
    "name = \"\"\"\n[[class]]\nname = \"i\"\n\"\"\"\n",
    "match = [\n[[class]]\n]\n",
    "match = [\n[[class]]\n, \"any\"]\n",
    "# [[class]]\n",
    "class = []\n",
    "\r\n",
    "pool = '''\n",
    "weight = 3\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn a_file_in_pieces_says_what_the_whole_file_says(
        begins in any::<bool>(),
        parts in prop::collection::vec(0..PARTS.len(), 0..7),
        names in prop::collection::vec(0..9u8, 0..9),
        seed in 0..9u8,
    ) {
        let mut text = if begins { PARTS[0].to_owned() } else { String::new() };
        parts.iter().for_each(|&part| text += PARTS[part]);
        for (at, name) in names.iter().enumerate() {
            // Parents before their children and behind them, and names twice.
            text += &format!("[[class]]\nname = \"n{name}\"\nparent = \"n{}\"\n", (name * seed + at as u8) % 9);
        }
        let source = SourceText::new("test.toml", text);
        prop_assert_eq!(read(&source, true), read(&source, false));
    }

    #[test]
    fn the_order_of_classes_in_a_file_does_not_matter_to_what_they_are(
        order in Just((0..12usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut text = PARTS[0].to_owned();
        for &n in &order {
            let parent = if n == 0 { "link".to_owned() } else { format!("n{}", (n - 1) / 2) };
            text += &format!("[[class]]\nname = \"n{n}\"\nparent = \"{parent}\"\nceiling = \"{}mbit\"\n", n + 1);
        }
        let file = LinkFile::parse("test.toml", &text[..], &ReadOptions::default()).unwrap();
        for n in 0..order.len() {
            let class = file.names.id(&format!("n{n}")).unwrap();
            let parent = file.tree.parent(class).filter(|&parent| parent != ClassId::ROOT);
            prop_assert_eq!(parent, (n > 0).then(|| file.names.id(&format!("n{}", (n - 1) / 2)).unwrap()));
            prop_assert_eq!(file.tree.config(class).ceiling.map(Rate::bps), Some((n as u64 + 1) * 1_000_000));
            let written = |span: Option<Span>| text[span.unwrap()].trim_matches('"').to_owned();
            prop_assert_eq!(written(file.span(class)), format!("n{n}"));
            prop_assert_eq!(written(file.feature_span(class, Feature::Ceiling)), format!("{}mbit", n + 1));
        }
    }
}

#[test]
fn a_file_of_ordinary_classes_is_read_in_pieces() {
    let class =
        |n| format!("\n[[class]]\nname = \"{n}\"\nceiling = \"1mbit\"\n[class.upper_limit]\nrate = \"1mbit\"\n");
    let classes: String = (0..100).map(class).collect();
    let tail = "\n[[source]]\nclass = \"7\"\n";
    for end in ["", tail] {
        let text = format!("[link]\nrate = \"1gbit\"\n{classes}{end}");
        let pieces = crate::pieces::Pieces::cut(&text).expect("pieces");
        let mut count = 0;
        pieces.each(|_, _| count += 1);
        assert_eq!((count, pieces.estimate(), pieces.are_sound()), (100, 100, true));
        assert_eq!(pieces.tail.is_some(), !end.is_empty());
    }
}

const TWO: &str = r#"
[[link]]
name = "down"
in = "wan"
out = "lan"
rate = "100mbit"
[[link.class]]
name = "a"
guarantee = "60%"
match = ["udp"]
[[link.class]]
name = "b"
guarantee = "40%"

[[link]]
name = "up"
in = "lan"
out = "wan"
rate = "20mbit"
scheduler = "drr"
[[link.class]]
name = "a"
"#;

fn all(text: &str) -> Result<Vec<LinkFile>, String> {
    LinkFile::all_from_text("links.toml", text, &ReadOptions::default()).map_err(|problems| problems.lines())
}

#[test]
fn a_file_of_several_links_has_their_names_interfaces_and_classes() {
    let links = all(TWO).unwrap();
    let heads: Vec<_> = links.iter().map(|link| (link.name.as_deref(), &link.ports, link.scheduler.as_str())).collect();
    let ports = |from: &str, to: &str| [Some(from.to_owned()), Some(to.to_owned())];
    assert_eq!(heads, [(Some("down"), &ports("wan", "lan"), "hls"), (Some("up"), &ports("lan", "wan"), "drr")]);
    assert_eq!(links[0].names.iter().collect::<Vec<_>>(), ["link", "a", "b"]);
    assert_eq!(links[0].tree.rate_all_busy(ClassId(1)), 60_000_000);
    assert_eq!(links[1].tree.len(), 2);
    // One link is also in a file of its own, with or without a name.
    let one =
        all("[link]\nrate = \"1mbit\"\nname = \"x\"\nin = \"a\"\nout = \"b\"\n[[class]]\nname = \"c\"\n").unwrap();
    assert_eq!((one.len(), one[0].name.as_deref(), &one[0].ports), (1, Some("x"), &ports("a", "b")));
    // The machine's own traffic has no input interface.
    let own = all(&TWO.replacen("in = \"lan\"\nout = \"wan\"", "egress = \"wan\"", 1)).unwrap();
    assert_eq!((&own[1].ports, own[1].egress.as_deref(), &own[0].egress), (&[None, None], Some("wan"), &None));
}

#[test]
fn what_is_wrong_with_one_of_several_links_is_said_at_its_place() {
    for (from, to, says) in [
        ("name = \"up\"\n", "", "links.toml:15:1: error: [[link]] has no \"name\""),
        ("in = \"lan\"\n", "", "links.toml:15:1: error: [[link]] has no \"in\""),
        ("name = \"up\"", "name = \"down\"", "links.toml:16:8: error: "),
        ("out = \"wan\"", "out = \"lan\"", "links.toml:18:7: error: \"out\" and in are both \"lan\""),
        ("out = \"wan\"", "out = \"a b\"", "links.toml:18:7: error: "),
        (
            "out = \"wan\"",
            "egress = \"wan\"",
            "links.toml:18:10: error: \"egress\" is for traffic of the machine itself",
        ),
        ("in = \"lan\"\nout = \"wan\"", "egress = \"a/b\"", "links.toml:17:10: error: "),
        ("rate = \"20mbit\"", "rate = \"20mbps\"", "links.toml:19:8: error: "),
        ("guarantee = \"40%\"", "guarantee = \"50%\"", "links.toml:6:8: error: "),
        ("scheduler = \"drr\"", "schedular = \"drr\"", "links.toml:20:1: error: "),
        ("[[link]]\nname = \"up\"", "[[class]]\nname = \"z\"\n[[link]]\nname = \"up\"", "links.toml:15:"),
    ] {
        let text = TWO.replacen(from, to, 1);
        assert_ne!(text, TWO);
        let said = all(&text).unwrap_err();
        assert!(said.contains(says), "{from:?} to {to:?}: {said}");
    }
    let one_wanted = LinkFile::parse("links.toml", TWO, &ReadOptions::default()).unwrap_err().lines();
    assert!(one_wanted.contains("links.toml:2:1") && one_wanted.contains("2 times"), "{one_wanted}");
}

#[test]
fn links_of_a_file_share_its_pools_and_what_is_wrong_with_them_is_said_at_its_place() {
    const POOL: &str = "\n[[pool]]\nname = \"up\"\nrate = \"50mbit\"\nburst = \"10kB\"\n";
    let pooled = TWO
        .replace("scheduler = \"drr\"", "scheduler = \"htb\"")
        .replace("guarantee = \"60%\"", "guarantee = \"40%\"\npool = \"up\"")
        + "guarantee = \"8mbit\"\npool = \"up\"\n";
    let links = all(&(pooled.clone() + POOL)).unwrap();
    let shared = &links[0].shared;
    assert!(std::sync::Arc::ptr_eq(shared, &links[1].shared) && links.iter().all(|link| link.warnings.is_empty()));
    let members: Vec<_> = shared[0].members.iter().map(|&(link, class, base)| (link, class.0, base.bps())).collect();
    assert_eq!(members, [(0, 1, 40_000_000), (1, 1, 8_000_000)]);
    assert_eq!((shared[0].rule, [links[0].place, links[1].place]), (fairlink_core::PoolRule::Exact, [0, 1]));
    // Borrowing is limited by the link.
    assert_eq!(links[1].tree.config(ClassId(1)).ceiling.map(fairlink_core::Rate::bps), Some(20_000_000));
    for (text, says) in [
        (pooled.clone(), "names \"up\", and there is no [[pool]] of that name"),
        (pooled.clone() + &POOL.replace("50mbit", "40mbit"), "48000000 bit/s together, more than its 40000000"),
        (pooled.clone() + POOL + "rule = \"fair\"\n", "there is no rule \"fair\"; there are: exact, ratio"),
        (pooled.clone() + POOL + POOL, "already the name of a [[pool]]"),
        (TWO.to_owned() + POOL, "a pool without members"),
    ] {
        let said = all(&text).unwrap_err();
        assert!(said.contains(says), "{says}: {said}");
    }
}

#[test]
fn a_curve_that_becomes_steeper_and_is_not_flat_at_first_is_refused_with_its_numbers_and_one_that_is_taken() {
    for key in ["real_time", "link_share"] {
        let text = format!(
            "[link]\nrate = \"8mbit\"\nscheduler = \"hfsc\"\n[[class]]\nname = \"a\"\nguarantee = \"4mbit\"\n\
             {key} = {{ m1 = \"2mbit\", d = \"100ms\", m2 = \"5mbit\" }}\n[[class]]\nname = \"b\"\nguarantee = \"2mbit\"\n"
        );
        let build = |text: &str| {
            let link = LinkFile::parse("l.toml", text.to_owned(), &ReadOptions::default()).unwrap();
            let refused =
                link.info().build(&link.tree, fairlink_core::Leniency::Refuse, fairlink_core::Members::new()).err();
            refused.map(|error| link.explain(&error).lines())
        };
        let said = build(&text).unwrap();
        for part in ["l.toml:7:", "\"a\"", key, "2 Mbit/s for 100 ms, then 5 Mbit/s"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let taken = "{ m1 = \"0bit\", d = \"60ms\", m2 = \"5000000bit\" }";
        assert!(said.contains(taken), "{said}");
        assert_eq!(build(&text.replace("{ m1 = \"2mbit\", d = \"100ms\", m2 = \"5mbit\" }", taken)), None);
    }
}

#[test]
fn a_default_queue_holds_100_ms_at_the_most_that_the_scheduler_gives_its_class() {
    let bytes = |scheduler: &str, keys: &str| {
        let text = format!("[link]\nrate = '100mbit'\nscheduler = '{scheduler}'\n[[class]]\nname = 'a'\n{keys}\n");
        let link = LinkFile::parse("l.toml", &text, &ReadOptions::default()).unwrap();
        let limits = link.tree.config(ClassId(1)).limits;
        assert_eq!(link.default_queues(&link.tree)[1], Some(limits));
        limits.bytes
    };
    assert_eq!(bytes("hls", "guarantee = '1mbit'"), 1_250_000);
    assert_eq!(bytes("hls", "ceiling = '20mbit'"), 250_000);
    assert_eq!(bytes("cbq-formal", "guarantee = '40mbit'\nbounded = true"), 500_000);
    assert_eq!(
        bytes("hfsc", "guarantee = '8mbit'\nupper_limit = { m1 = '50mbit', d = '5ms', m2 = '20mbit' }"),
        250_000
    );
    assert_eq!(bytes("hfsc", "guarantee = '8mbit'\nreal_time = { rate = '40mbit' }\nceiling = '20mbit'"), 500_000);
    assert_eq!(bytes("hfsc", "real_time = { rate = '40mbit' }"), 500_000);
}

#[test]
fn quanta_and_priorities_that_default_buckets_cannot_bear_are_warned_of_with_values() {
    let warnings = |classes: &str| -> Vec<String> {
        let text = format!("[link]\nrate = \"10mbit\"\nscheduler = \"htb\"\n{classes}");
        let link = LinkFile::parse("l.toml", text, &ReadOptions::default()).unwrap();
        link.lending_warnings().iter().map(Problem::line).collect()
    };
    let class = |name: &str, guarantee: &str, more: &str| {
        format!("[[class]]\nname = \"{name}\"\nguarantee = \"{guarantee}\"\n{more}\n")
    };
    let long = warnings(&(class("a", "4kbit", "quantum = \"1.6MB\"") + &class("b", "2mbit", "")));
    assert!(
        matches!(&long[..], [one] if one.contains("l.toml:5:") || one.contains("\"quantum\" of 1.6 MB at class \"a\"")),
        "{long:?}"
    );
    assert!(long[0].contains("times as long as default buckets last"), "{long:?}");
    let late = |priority: &str| {
        class("a", "5mbit", "")
            + &class("b", "4.9mbit", "")
            + &class("late", "94kbit", priority)
            + &class("tiny", "6kbit", "")
    };
    let waits = warnings(&late("priority = 1"));
    assert!(
        matches!(&waits[..], [one] if one.contains("\"priority\" of 1 at class \"late\": it waits up to 2.537 s while")),
        "{waits:?}"
    );
    assert_eq!(warnings(&late("")), [""; 0]);
}
