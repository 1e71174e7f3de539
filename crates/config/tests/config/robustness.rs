//! No file makes a panic, however broken, and large files are read.

use std::fmt::Write;

use fairlink_config::link::Gso;
use fairlink_config::{LinkFile, Problem, ReadOptions, Scenario};
use fairlink_core::{ClassId, Leniency};
use proptest::prelude::*;

/// Every key of both kinds of file.
const EVERYTHING: &str = r#"
duration = "2s"
warmup = "10ms"
seed = 7
[link]
rate = "1gbit"
scheduler = "hls"
mtu = "1514B"
rounds = "long"
overhead = "ethernet"
default = "b"
buffer = "1000p"
[[class]]
name = "a"
guarantee = "30%"
ceiling = "50%"
burst = "2kB"
ceiling_burst = "3kB"
priority = 1
bounded = true
isolated = true
quantum = "2000B"
link_share = { m1 = "6.6mbit", d = "10ms", m2 = "2mbit" }
upper_limit = { rate = "3mbit" }
pool = "up"
[[class]]
name = "a1"
parent = "a"
guarantee = "64kbit"
latency_critical = true
contract = { bytes = "3kB", every = "1s" }
real_time = { burst = "160B", delay = "5ms", rate = "64kbit" }
max_delay = "10ms"
leaky_bucket = [{ burst = "10kB", peak = "2mbit", rate = "1mbit" }, { burst = "4kB", peak = "2mbit", rate = "1.5mbit" }]
buffer = "50ms"
queue = "codel"
ecn = true
per = "dst-ip"
hosts = 300
match = ["udp dst port 5001", "dscp ef and src net 10.1.0.0/16"]
[[class]]
name = "b"
guarantee = "70%"
[[peer]]
name = "far"
link = { rate = "10mbit" }
[[peer.class]]
name = "c"
guarantee = "1mbit"
pool = "up"
[[pool]]
name = "up"
rate = "500mbit"
burst = "10kB"
[[source]]
link = "far"
class = "c"
model = "greedy"
packet = "1kB"
[[source]]
class = "a1"
model = "poisson"
packets_per_second = 1.5
packet = { uniform = ["40B", "700B"], header = "40B" }
active = ["0s..1s", "1.5s..2s"]
[[source]]
class = "b"
model = "cbr"
rate = "10%"
packet = "1kB"
"#;

/// A scenario whose link changes twice; one with changes has neither peers nor pools.
const CHANGED: &str = r#"
duration = "3s"
link = { rate = "1gbit" }
class = [{ name = "a" }, { name = "b" }]
[[change]]
at = "1s"
link = { rate = "2gbit" }
class = [{ name = "a" }, { name = "c", parent = "a" }]
[[change]]
at = "2s"
scheduler = "htb"
link = { rate = "10mbit", mtu = "1400B" }
class = [{ name = "b", guarantee = "1mbit" }, { name = "c", guarantee = "2mbit" }]
[[source]]
class = "c"
model = "greedy"
packet = "1kB"
active = "1s..3s"
[[source]]
class = "b"
model = "poisson"
rate = "1mbit"
packet = "1kB"
active = ["0s..1s", "2s..3s"]
"#;

const LENIENT: ReadOptions<'static> = ReadOptions { leniency: Leniency::Ignore, scheduler: None };

/// Reads a file in both ways and formats all of its messages.
fn read(text: &str) -> bool {
    let look = |problem: &Problem| {
        assert!(!problem.line().is_empty());
        if let Some(span) = problem.span() {
            assert!(span.start <= span.end && span.end <= text.len(), "{span:?}: {problem}");
        }
    };
    let link = LinkFile::parse("any.toml", text, &LENIENT);
    match &link {
        Ok(file) => file.warnings.iter().for_each(look),
        Err(problems) => problems.all().iter().for_each(look),
    }
    match Scenario::parse("any.toml", text, &LENIENT) {
        Ok(file) => {
            file.warnings.iter().for_each(look);
            assert!(file.sources.iter().all(|source| source.class.index() < file.names.len()));
        }
        Err(problems) => problems.all().iter().for_each(look),
    }
    link.is_ok()
}

#[test]
fn a_file_with_every_key_is_sound() {
    let scenario = Scenario::parse("all.toml", EVERYTHING, &LENIENT);
    let scenario = scenario.unwrap_or_else(|problems| panic!("{}", problems.lines()));
    assert_eq!(scenario.link.names.iter().collect::<Vec<_>>(), ["link", "a", "a1", "b"]);
    let class = |name: &str| *scenario.link.tree.config(scenario.link.names.id(name).unwrap());
    insta::assert_debug_snapshot!((scenario.link.tree.link(), class("a"), class("a1"), &scenario.sources));
}

#[test]
fn pieces_of_super_frames_are_as_long_as_their_time_lets_them_and_so_is_the_longest_packet() {
    let read = |gso: &str, rate: &str| {
        let text = format!(
            "[link]\nrate = '{rate}'\nmtu = '1514B'\noverhead = 'ethernet'\n{gso}\n[[class]]\nname = 'a'\n[[class]]\nname = 'b'\nbuffer = '5kB'\n"
        );
        LinkFile::parse("gso.toml", text, &LENIENT).unwrap()
    };
    let plain = read("", "1gbit");
    assert_eq!((plain.gso, plain.longest_piece(), plain.tree.link().max_packet), (Gso::Split, 0, 1538));
    // A link of 1 Gbit/s sends 125 B in a microsecond. Two frames of 1538 B take 24.6 us.
    for (gso, rate, expected) in [
        ("gso = 'split'", "1gbit", 0),
        ("gso = 'auto'", "1gbit", 31_250),
        ("gso = '0.25ms'", "1gbit", 31_250),
        ("gso = '1ms'", "1gbit", 73_728),
        ("gso = '24us'", "1gbit", 0),
        ("gso = '25us'", "1gbit", 3125),
        ("gso = 'auto'", "98mbit", 0),
        ("gso = 'auto'", "99mbit", 3093),
        ("gso = 'auto'", "100gbit", 73_728),
    ] {
        let file = read(gso, rate);
        assert_eq!(file.longest_piece(), expected, "{gso} at {rate}");
        assert_eq!(file.tree.link().max_packet, expected.max(1538), "{gso} at {rate}");
        assert_eq!(file.tree_of_frames().link().max_packet, 1538);
        // The limits of queues stay the same, and no warning calls a queue too short for a piece.
        let without = read("", rate);
        for class in file.tree.classes() {
            assert_eq!(file.tree.config(class).limits, without.tree.config(class).limits, "{gso} at {rate}");
        }
        assert_eq!(file.warnings.len(), without.warnings.len());
    }
}

#[test]
fn children_may_come_before_their_parents() {
    let text = "link.rate = '1gbit'\n[[class]]\nname = 'c'\nparent = 'b'\n[[class]]\nname = 'x'\n\
                [[class]]\nname = 'b'\nparent = 'a'\n[[class]]\nname = 'a'\nparent = 'link'\n";
    let file = LinkFile::parse("order.toml", text, &LENIENT).unwrap();
    assert_eq!(file.names.iter().collect::<Vec<_>>(), ["link", "a", "b", "c", "x"]);
    let ids = ["a", "b", "c", "x"].map(|name| file.names.id(name).unwrap());
    assert_eq!(ids.map(|id| file.tree.parent(id).unwrap()), [ClassId::ROOT, ids[0], ids[1], ClassId::ROOT]);
}

#[test]
fn matches_keep_the_order_of_the_file_whatever_the_ids() {
    let text = "link.rate = '1gbit'\n[[class]]\nname = 'c'\nparent = 'a'\nmatch = ['udp', 'vlan 1']\n\
                [[class]]\nname = 'b'\nmatch = 'tcp'\n[[class]]\nname = 'a'\n[[class]]\nname = 'd'\nmatch = 'any'\n";
    let file = LinkFile::parse("order.toml", text, &LENIENT).unwrap();
    let matches: Vec<_> =
        file.matches.iter().map(|(class, made)| format!("{} {made}", file.names.name(*class))).collect();
    assert_eq!(matches, ["c udp", "c vlan 1", "b tcp", "d any"]);
    assert_eq!(file.default_class, file.names.id("d"));
}

#[test]
fn a_hundred_thousand_leaves_are_read() {
    let mut text = String::from("[link]\nrate = \"100gbit\"\n");
    for group in 0..100 {
        writeln!(text, "[[class]]\nname = \"g{group}\"\nweight = {}", group + 1).unwrap();
        for leaf in 0..1_000 {
            let parent = format!("parent = \"g{group}\"");
            let address = format!("10.{group}.{}.{}", leaf / 250, leaf % 250);
            writeln!(
                text,
                "[[class]]\nname = \"l{group}-{leaf}\"\n{parent}\nweight = 3\nmatch = \"dst host {address}\""
            )
            .unwrap();
        }
    }
    let file = LinkFile::parse("large.toml", text, &LENIENT).unwrap();
    assert_eq!((file.tree.leaves().len(), file.matches.len()), (100_000, 100_000));
    let leaf = file.names.id("l99-999").unwrap();
    assert_eq!(file.tree.parent(leaf), file.names.id("g99"));
    assert_eq!(file.tree.link().max_queued, 400_400);
}

#[test]
fn bytes_that_are_not_text_are_refused_with_their_place() {
    let path = std::env::temp_dir().join(format!("fairlink-config-{}.toml", std::process::id()));
    std::fs::write(&path, b"[link]\nrate = \"\xff\"\n").unwrap();
    let problems = LinkFile::read(&path, &LENIENT).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    let said = problems.lines();
    let place =
        "this is not UTF-8 text: the byte 0xff in line 2, column 9 (byte 15 of the file); save the file as UTF-8";
    assert!(said.contains(place), "{said}");
}

#[test]
fn a_file_that_is_too_long_is_refused() {
    let path = std::env::temp_dir().join(format!("fairlink-long-{}.toml", std::process::id()));
    // A hole: nothing is on the disk.
    std::fs::File::create(&path).unwrap().set_len((256 << 20) + 1).unwrap();
    let problems = LinkFile::read(&path, &LENIENT).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(problems.lines().contains("it is longer than 256 MiB"), "{}", problems.lines());
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_no_ordinary_file_is_refused_unopened() {
    // Opening a pipe without a writer blocks.
    let pipe = std::env::temp_dir().join(format!("fairlink-pipe-{}", std::process::id()));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let said = LinkFile::read(&pipe, &LENIENT).unwrap_err().lines();
    std::fs::remove_file(&pipe).unwrap();
    assert!(said.contains("a pipe, a device or a socket"), "{said}");
    for (path, why) in [("/dev/zero", "a pipe, a device or a socket"), ("/", "it is a directory")] {
        let said = LinkFile::read(path, &LENIENT).unwrap_err().lines();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn nothing_is_quoted_of_a_file_that_another_one_names_unless_it_looks_like_a_link_file() {
    let name = |kind: &str| std::env::temp_dir().join(format!("fairlink-{kind}-{}.toml", std::process::id()));
    let [scenario, secret] = [name("scenario"), name("secret")];
    let text = format!("link = \"{}\"\nduration = \"1s\"\n", secret.file_name().unwrap().display());
    std::fs::write(&scenario, text).unwrap();
    let render = |secret_text: &str| {
        std::fs::write(&secret, secret_text).unwrap();
        [LinkFile::read(&scenario, &LENIENT).unwrap_err(), Scenario::read(&scenario, &LENIENT).unwrap_err()].map(
            |problems| {
                let lines = problems.lines();
                let mut picture = String::new();
                let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::none());
                handler.render_report(&mut picture, &problems).unwrap();
                lines + &picture
            },
        )
    };
    for hidden in ["root:$6$hunter2:19000:0:99999:7:::\n", "[registry]\ntoken = \"hunter2\"\n", "hunter2 = 1\n", ""] {
        for said in render(hidden) {
            assert!(!said.contains("hunter2") && !said.contains("token") && !said.contains("registry"), "{said}");
            assert!(said.contains("names this file, which is not a link file"), "{said}");
        }
    }
    for said in render("[link]\nrate = 1mbit\n") {
        assert!(said.contains(":2:8: error: this is not TOML") && said.contains("rate = 1mbit"), "{said}");
    }
    std::fs::remove_file(&scenario).unwrap();
    std::fs::remove_file(&secret).unwrap();
}

#[test]
fn a_line_of_megabytes_is_shown_in_part_and_read_no_more_than_a_few_times() {
    let long = "A".repeat(2_000_000);
    let matches = "'udp dst port 5', ".repeat(100_000);
    let head = "[link]\nrate = '10mbit'\n[[class]]\nname = 'a'\n";
    for line in [
        format!("x = '{long}'"),
        format!("guarantee = '{long}'"),
        format!("{long} = 1"),
        long.clone(),
        "é".repeat(1_000_000),
        format!("match = [{matches}]"),
        format!("y = 1 # {long}"),
    ] {
        let problems = LinkFile::parse("long.toml", format!("{head}{line}\n"), &LENIENT).unwrap_err();
        let mut picture = String::new();
        let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::none());
        handler.render_report(&mut picture, &problems).unwrap();
        let shown = problems.all().len();
        assert!(
            picture.contains("[long.toml:5:") && picture.len() < 6_000 * shown,
            "{} {}",
            picture.len(),
            &picture[..300]
        );
        assert!(problems.lines().len() < 2_000 * shown, "{}", problems.lines().len());
    }
}

#[test]
fn files_cannot_name_each_other_in_circles() {
    let path = std::env::temp_dir().join(format!("fairlink-circle-{}.toml", std::process::id()));
    std::fs::write(&path, format!("link = \"{}\"\n", path.file_name().unwrap().display())).unwrap();
    let problems = LinkFile::read(&path, &LENIENT).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(problems.lines().contains("\"link\" must be a table: [link], not a string"), "{}", problems.lines());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_panics(text in "(\\[{1,2}(link|class|source)\\]{1,2}\n|(rate|name|match|buffer|active) = [\"'\\[{]?[0-9a-z%.]{0,8}[\"'\\]}]?\n|\\PC|\n){0,20}") {
        read(&text);
    }

    #[test]
    fn no_mutation_of_a_sound_file_panics(changed: bool, edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6, any::<prop::sample::Index>()), 1..4)) {
        let mut text = if changed { CHANGED } else { EVERYTHING }.to_owned();
        for (place, kind, other) in edits {
            let lines: Vec<&str> = text.lines().collect();
            let words = ["0", "-1", "\"", "999999999999999999999", "[", "{}", "link", "a", "µ", "bit", "p", "B", "="];
            let at = place.index(text.len() + 1);
            let at = (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            text = match kind {
                // A line gone, twice, or elsewhere.
                0 => lines.iter().enumerate().filter(|&(i, _)| i != place.index(lines.len().max(1))).map(|(_, l)| format!("{l}\n")).collect(),
                1 if !lines.is_empty() => format!("{text}{}\n", other.get(&lines)),
                2 if !lines.is_empty() => {
                    let mut lines = lines;
                    let line = lines.remove(place.index(lines.len()));
                    lines.insert(other.index(lines.len() + 1), line);
                    lines.join("\n")
                }
                // A character gone, a word put in, a value replaced.
                3 => text[..at].chars().chain(text[at..].chars().skip(1)).collect(),
                4 => format!("{}{}{}", &text[..at], other.get(&words), &text[at..]),
                _ => lines.iter().enumerate().map(|(i, l)| match l.split_once(" = ") {
                    Some((key, _)) if i == place.index(lines.len()) => format!("{key} = {}\n", other.get(&words)),
                    _ => format!("{l}\n"),
                }).collect(),
            };
        }
        read(&text);
    }
}

#[test]
fn mutations_of_the_sound_file_are_often_still_sound() {
    // Or the property above would look at syntax errors only.
    assert!(read(EVERYTHING) && Scenario::parse("changed.toml", CHANGED, &LENIENT).is_ok());
    let lines: Vec<&str> = EVERYTHING.lines().collect();
    let without = |gone: usize| -> String {
        lines.iter().enumerate().filter(|&(i, _)| i != gone).map(|(_, line)| format!("{line}\n")).collect()
    };
    let sound = (0..lines.len()).filter(|&gone| read(&without(gone))).count();
    assert!(sound * 2 > lines.len(), "{sound} of {}", lines.len());
}
