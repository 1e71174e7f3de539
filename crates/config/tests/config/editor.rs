//! The JSON schema for editors accepts every file of the project, and refuses values that the reader refuses.

use std::fs;
use std::path::{Path, PathBuf};

use fairlink_config::{LinkFile, ReadOptions, scenario};
use fairlink_schema::{editor, keys};
use jsonschema::Validator;
use serde_json::{Map, Value, json};
use toml::de::{DeTable, DeValue};

fn as_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Integer(number) => {
            u64::from_str_radix(number.as_str(), number.radix()).map_or_else(|_| json!(-1), |number| json!(number))
        }
        DeValue::Float(number) => json!(number.as_str().parse::<f64>().unwrap_or(f64::MAX)),
        DeValue::Boolean(flag) => json!(flag),
        DeValue::Datetime(time) => json!(time.to_string()),
        DeValue::Array(all) => all.iter().map(|value| as_json(value.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(table_as_json(table)),
    }
}

fn table_as_json(table: &DeTable<'_>) -> Map<String, Value> {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), as_json(value.get_ref()))).collect()
}

fn read(text: &str) -> Value {
    Value::Object(table_as_json(DeTable::parse(text).unwrap().get_ref()))
}

fn validators() -> [Validator; 2] {
    [editor::link(), scenario::schema()].map(|schema| jsonschema::draft7::new(&schema).unwrap())
}

/// The TOML files below `dir`.
fn files(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            all.push(path);
        }
    }
}

#[test]
fn the_schemas_take_every_link_file_and_scenario_of_the_project() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut paths, mut links) = (Vec::new(), 0);
    files(&root.join("scenarios"), &mut paths);
    assert!(paths.len() > 50, "{}", paths.len());
    let [link, scenario] = validators();
    for path in paths {
        let value = read(&fs::read_to_string(&path).unwrap());
        let is_scenario = ["source", "duration", "peer", "change"].iter().any(|key| value.get(key).is_some());
        links += usize::from(!is_scenario);
        let errors: Vec<String> = if is_scenario { &scenario } else { &link }
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
    assert!(links > 5, "{links}");
    // Examples of the manual that stand alone.
    let manual = fs::read_to_string(root.join("docs/link-files.md")).unwrap();
    let examples = manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let whole = examples.filter(|text| text.starts_with("[link]") || text.starts_with("[[link]]"));
    assert_eq!(whole.inspect(|text| assert!(link.is_valid(&read(text)), "{text}")).count(), 2);
}

/// A link file of which `[link]` or `[[class]]` has this line, too.
fn with(place: &str, key: &str, value: &str) -> String {
    let [mut link, mut class] = [
        "rate = '1gbit'\n".to_owned(),
        "name = 'a'\nguarantee = '5mbit'\nqueue = 'codel'\nper = 'src-ip'\n".to_owned(),
    ];
    let table = if place == "link" { &mut link } else { &mut class };
    let kept: String =
        table.lines().filter(|line| !line.starts_with(&format!("{key} "))).map(|line| format!("{line}\n")).collect();
    *table = format!("{kept}{key} = {value}\n");
    format!("[link]\n{link}transmit_queue = '4p'\n[[class]]\n{class}")
        .replace(if key == "transmit_queue" { "transmit_queue = '4p'\n[[class]]" } else { "\0" }, "[[class]]")
}

#[test]
fn what_the_reader_takes_the_schema_takes_and_what_is_no_value_of_a_key_neither_does() {
    let [link, scenario] = validators();
    let lenient = ReadOptions { leniency: fairlink_core::Leniency::Ignore, scheduler: None };
    let values = [
        "true",
        "0",
        "3",
        "1.5",
        "'zzz'",
        "''",
        "'5mbit'",
        "'10%'",
        "'5kbps'",
        "'1.5 Gbit/s'",
        "'2kB'",
        "'2 KiB'",
        "'10ms'",
        "'100p'",
        "[]",
        "['udp']",
        "{ zzz = 1 }",
        "{ rate = '1mbit' }",
        "{ m1 = '1mbit', d = '1ms', m2 = '0bit' }",
        "{ bytes = '3kB', every = '1s' }",
        "{ burst = '9kB', peak = '2mbit', rate = '1mbit' }",
        "'fq_codel'",
        "'atm'",
        "'hls'",
        "'1:2'",
        "'long'",
        "'flow'",
        "'eth0'",
    ];
    let places = [
        ("link", keys::LINK.iter().map(|key| key.name).collect::<Vec<_>>()),
        ("class", keys::CLASS.iter().map(|key| key.name).collect()),
    ];
    let (mut taken, mut refused, mut wrong) = (0, 0, String::new());
    for (place, keys) in places {
        for key in keys {
            for value in values {
                let text = with(place, key, value);
                let json = read(&text);
                match LinkFile::parse("any.toml", &text, &lenient) {
                    Ok(_) => {
                        taken += 1;
                        if !link.is_valid(&json) || !scenario.is_valid(&json) {
                            wrong += &format!("{place} {key} = {value} is taken\n");
                        }
                    }
                    // Relations between keys and limits of sizes are checked only by the reader.
                    Err(problems) if problems.all().iter().any(is_of_one_value) => {
                        refused += 1;
                        if link.is_valid(&json) || scenario.is_valid(&json) {
                            wrong += &problems.lines();
                        }
                    }
                    Err(_) => {}
                }
            }
        }
    }
    assert_eq!(wrong, "");
    assert!(taken > 100 && refused > 700, "{taken} {refused}");
}

fn is_of_one_value(problem: &fairlink_config::Problem) -> bool {
    use fairlink_config::problem::ProblemKind::{Unit, UnknownKey, UnknownWord, WrongType};
    use fairlink_config::units::UnitError::{NoLink, TooFine, TooLarge, Zero};
    match problem.kind() {
        Unit { error: NoLink { .. } | Zero { .. } | TooLarge { .. } | TooFine { .. }, .. } => false,
        kind => matches!(kind, Unit { .. } | UnknownKey { .. } | UnknownWord { .. } | WrongType { .. }),
    }
}

#[test]
fn random_keys_are_refused_by_the_schema_as_by_the_reader() {
    let [link, _] = validators();
    let mut state = 28u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let known: Vec<&str> =
        keys::LINK.iter().map(|key| key.name).chain(keys::CLASS.iter().map(|key| key.name)).collect();
    for _ in 0..1000 {
        // A slip of the pen: a letter of a known key is another one, or missing.
        let mut key = known[next(known.len())].to_owned();
        let at = next(key.len());
        let letter = char::from(b'a' + next(26) as u8).to_string();
        key.replace_range(at..=at, if next(2) == 0 { &letter } else { "" });
        let place = ["link", "class"][next(2)];
        let text = with(place, if key.is_empty() { "x" } else { &key }, "true");
        let is_key = match place {
            "link" => keys::LINK.iter().any(|known| known.name == key),
            _ => keys::CLASS.iter().any(|known| known.name == key),
        };
        if !is_key && DeTable::parse(&text).is_ok() {
            assert!(LinkFile::parse("any.toml", &text, &ReadOptions::default()).is_err(), "{text}");
            assert!(!link.is_valid(&read(&text)), "{text}");
        }
    }
}

#[test]
fn the_schema_of_scenarios_has_every_key_of_a_document() {
    let text = "zzzzzzzz = 1\nlink = { rate = '1gbit' }\nclass = [{ name = 'a' }]";
    let said = LinkFile::parse("keys.toml", text, &ReadOptions::default()).unwrap_err().lines();
    let (_, list) = said.lines().find_map(|line| line.split_once("there are: ")).unwrap();
    let mut keys: Vec<&str> = list.split(", ").chain(["template", "classes"]).collect();
    keys.sort_unstable();
    let schema = scenario::schema();
    let mut declared: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    declared.sort_unstable();
    assert_eq!(declared, keys);
}
