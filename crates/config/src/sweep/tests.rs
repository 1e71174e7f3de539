use std::sync::Arc;

use super::*;
use crate::{Files, Memory, ReadOptions, Scenario};
use fairlink_core::{Leniency, Nanos};

fn values(text: &str) -> Vec<String> {
    Sweep::parse(text).unwrap().values
}

#[test]
fn values_are_lists_and_ranges_that_add_or_multiply() {
    assert_eq!(values("seed=1,2,7"), ["1", "2", "7"]);
    assert_eq!(values("seed = 3..9..2"), ["3", "5", "7", "9"]);
    assert_eq!(values("link.rate=10mbit..25mbit..10mbit,1gbit"), ["10mbit", "20mbit", "1gbit"]);
    // A tenth is exact: ten steps, not nine or eleven.
    assert_eq!(values("source.A.utilisation=0.1..1..0.1").len(), 10);
    assert_eq!(values("class.A.burst=1kB..20kB..x2"), ["1kB", "2kB", "4kB", "8kB", "16kB"]);
    assert_eq!(values("x=2.5ms..3ms..0.25"), ["2.5ms", "2.75ms", "3ms"]);
    assert_eq!(Sweep::parse("link.rate = 5mbit").unwrap().key, "link.rate");
}

#[test]
fn a_sweep_that_cannot_be_says_what_is_wrong_and_what_to_write() {
    for (text, says) in [
        ("seed", "not KEY=VALUES"),
        ("=1", "not KEY=VALUES"),
        ("seed=", "a value is missing"),
        ("seed=1,,2", "a value is missing"),
        ("seed=1..3", "a range has three parts"),
        ("seed=3..1..1", "ends before it starts"),
        ("seed=1..3..0", "does not advance"),
        ("seed=1..3..x1", "does not advance"),
        ("seed=0..3..x2", "does not advance"),
        ("seed=a..3..1", "does not begin with a number"),
        ("link.rate=1mbit..3gbit..1mbit", "the units \"mbit\" and \"gbit\" differ"),
        ("seed=1..20000..1", "more than 10000 values"),
        ("seed=1..99999999999999999999..1", "does not begin with a number"),
        ("seed=1\"", "cannot be written into a file"),
        ("seed=1\n2", "cannot be written into a file"),
    ] {
        let error = Sweep::parse(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

const SCENARIO: &str = r#"
    duration = "2s"   # long enough
    link = { rate = "10mbit" }
    class = [ { name = "a.b", guarantee = "4mbit" }, { name = "10mbit", guarantee = "6mbit" } ]
    source = [
        { class = "a.b", model = "poisson", packets_per_second = 15, packet = { uniform = ["40B", "700B"], header = "40B" } },
        { class = "a.b", model = "cbr", rate = "1mbit", packet = "500B", active = ["0s..1s"] },
        { class = "10mbit", model = "greedy", packet = "1000B" },
    ]
"#;

fn template() -> Template {
    Template::parse("s.toml", SCENARIO.to_owned()).unwrap()
}

#[test]
fn every_number_of_a_scenario_has_a_key_and_names_have_none() {
    assert_eq!(
        template().keys(),
        [
            "duration",
            "link.rate",
            "class.a.b.guarantee",
            "class.10mbit.guarantee",
            "source.a.b.packets_per_second",
            "source.a.b.packet.uniform.1",
            "source.a.b.packet.uniform.2",
            "source.a.b.packet.header",
            "source.a.b#2.rate",
            "source.a.b#2.packet",
            "source.10mbit.packet",
            "seed",
            "warmup",
        ]
    );
}

#[test]
fn a_changed_text_differs_in_its_values_alone_and_reads_as_a_scenario() {
    let template = template();
    assert_eq!(template.with(&[]), SCENARIO);
    let text = template.with(&[("source.a.b.packets_per_second", "99.5"), ("link.rate", "1gbit"), ("duration", "3s")]);
    let expected = SCENARIO.replace("15,", "99.5,").replace("10mbit\" }\n", "1gbit\" }\n").replace("\"2s\"", "\"3s\"");
    assert_eq!(text, expected);
    let options = ReadOptions { leniency: Leniency::Refuse, scheduler: None };
    let read = Scenario::parse(template.name(), text, &options).unwrap();
    assert_eq!((read.link.tree.link().rate.bps(), read.duration), (1_000_000_000, Nanos::from_secs(3)));
    let seeded = template.with(&[("seed", "77"), ("warmup", "500ms")]);
    let read = Scenario::parse(template.name(), seeded, &options).unwrap();
    assert_eq!((read.seed, read.warmup), (77, Nanos::from_millis(500)));
}

#[test]
fn an_unknown_key_is_refused_with_those_that_there_are() {
    let check = |keys: &[&str]| {
        let sweeps: Vec<Sweep> = keys.iter().map(|key| Sweep::parse(&format!("{key}=1")).unwrap()).collect();
        template().check(&sweeps).map_err(|error| error.to_string())
    };
    assert_eq!(check(&["seed", "link.rate"]), Ok(()));
    assert_eq!(check(&["link.rat"]).unwrap_err(), "s.toml has no number link.rat; did you mean link.rate?");
    let error = check(&["class.zzz.quantum_of_something"]).unwrap_err();
    assert!(error.contains("these can be swept: duration, link.rate, class.a.b.guarantee"), "{error}");
    assert_eq!(check(&["seed", "seed"]).unwrap_err(), "seed is swept twice; write all values after one --sweep");
}

#[test]
fn the_link_file_that_a_scenario_names_can_be_swept() {
    let link = "# a link\n[link]\nrate = \"8mbit\"\n[[class]]\nname = \"x\"\nguarantee = \"1mbit\"\n";
    let scenario =
        "link = \"link.toml\"\nduration = \"1s\"\n[[source]]\nclass = \"x\"\nmodel = \"greedy\"\npacket = \"100B\"\n";
    let files: Arc<dyn Files> = Arc::new(Memory::new([
        ("dir/link.toml", link.to_owned()),
        ("dir/s.toml", scenario.to_owned()),
        ("dir/secret", "password = \"10B\"\n".to_owned()),
        ("dir/bad.toml", scenario.replace("link.toml", "secret")),
    ]));
    let open = |name: &str| Template::read(&SourceText::read_from(&files, name).unwrap()).unwrap();
    let template = open("dir/s.toml");
    assert!(template.keys().iter().any(|key| key == "class.x.guarantee"), "{:?}", template.keys());
    let options = ReadOptions { leniency: Leniency::Refuse, scheduler: None };
    let text = template.with(&[("class.x.guarantee", "3mbit"), ("link.rate", "9mbit")]);
    let read = Scenario::parse(template.name(), text, &options).unwrap();
    assert_eq!(read.link.tree.link().rate.bps(), 9_000_000);
    let bad = open("dir/bad.toml");
    assert!(!bad.with(&[]).contains("password"));
}

#[test]
fn the_rule_of_a_pool_can_be_swept_though_it_is_a_word() {
    let pool = "[[pool]]\nname = \"up\"\nrule = \"ratio\"\nrate = \"1mbit\"\nburst = \"1kB\"\n";
    let template = Template::parse("s.toml", pool.to_owned()).unwrap();
    assert_eq!(template.keys(), ["pool.up.rule", "pool.up.rate", "pool.up.burst", "seed", "warmup"]);
    assert_eq!(template.with(&[("pool.up.rule", "exact")]), pool.replace("ratio", "exact"));
}
