//! A JSON schema of link files, for editors that complete and check TOML by one (taplo, Even Better TOML).
//!
//! It is of draft 7, which these editors support. It covers keys, forms of values and limits of numbers. It does not
//! cover rules on two keys or two classes: sums of guarantees, parents, features of a scheduler. `fairlink check` does.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use fairlink_core::{MAX_LEAKY_BUCKETS, PoolRule, registry};
use serde_json::{Map, Value, json};

use crate::keys::{CLASS, ClassKey, HOST_KEYS, Key, Kind, LINK, OVERHEADS};

/// The first line of a link file by which editors find the schema at its installed path.
pub const DIRECTIVE: &str = "#:schema file:///usr/share/fairlink/link.schema.json";

const NUMBER: &str = r"\s*[0-9]+(\.[0-9]+)?\s*";
const RATE_UNIT: &str = "(%|([kmgtKMGT]|[kmgKMG][iI])?[bB][iI][tT])(/[sS])?";
const SIZE_UNIT: &str = "([kMG]?B|[KMG]iB)";
const TIME_UNIT: &str = "(ns|us|µs|μs|ms|s)";
/// Keys of a class that no template has.
pub const OWN_KEYS: [&str; 2] = ["name", "classid"];

fn quantity(units: &str) -> Value {
    json!({ "type": "string", "pattern": format!(r"^{NUMBER}({units})\s*$") })
}

/// Makes the schema of a rate.
#[must_use]
pub fn rate() -> Value {
    quantity(RATE_UNIT)
}

/// Makes the schema of a size.
#[must_use]
pub fn size() -> Value {
    quantity(SIZE_UNIT)
}

/// Makes the schema of a time.
#[must_use]
pub fn time() -> Value {
    quantity(TIME_UNIT)
}

/// Makes the schema of one of these words.
pub fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    json!({ "enum": words.into_iter().collect::<Vec<_>>() })
}

/// Makes the schema of a value of that schema, or a list of such values.
#[must_use]
pub fn one_or_more(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "array", "items": schema, "minItems": 1 }] })
}

/// Makes the schema of a table with these keys and no others.
pub fn table<'a>(properties: impl IntoIterator<Item = (&'a str, Value)>, required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn of_kind(kind: Kind) -> Value {
    match kind {
        Kind::Rate => rate(),
        Kind::Size { .. } => size(),
        Kind::Time => time(),
        Kind::Number { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Word { words, .. } => one_of(words.iter().copied()),
        Kind::Per => one_of(HOST_KEYS.iter().map(|&(word, _)| word)),
        Kind::Scheduler => {
            let names = registry::SCHEDULERS
                .iter()
                .flat_map(|info| [info.name].into_iter().chain(info.aliases.iter().copied()));
            json!({ "type": "string", "examples": names.collect::<Vec<_>>() })
        }
        Kind::Packets { .. } => quantity("p"),
        Kind::Buffer => quantity(&format!("p|{SIZE_UNIT}|{TIME_UNIT}")),
        Kind::Overhead => json!({ "anyOf": [one_of(OVERHEADS.iter().map(|&(word, _)| word)), size()] }),
        Kind::Gso => json!({ "anyOf": [one_of(["auto", "split"].into_iter()), time()] }),
        Kind::Contract => table([("bytes", size()), ("every", time())], &["bytes", "every"]),
        Kind::Curve { .. } => {
            let burst = table([("burst", size()), ("delay", time()), ("rate", rate())], &["rate"]);
            json!({ "anyOf": [burst, table([("m1", rate()), ("d", time()), ("m2", rate())], &[])] })
        }
        Kind::Buckets => {
            let bucket = table([("burst", size()), ("peak", rate()), ("rate", rate())], &["burst", "peak", "rate"]);
            let list = json!({ "type": "array", "items": bucket, "minItems": 1, "maxItems": MAX_LEAKY_BUCKETS });
            json!({ "anyOf": [bucket, list] })
        }
        Kind::Matches => {
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
        }
        Kind::Text { pattern } => json!({ "type": "string", "pattern": pattern }),
    }
}

/// Returns the schema of each key, with its description and default.
fn properties<C>(keys: &'static [Key<C>]) -> impl Iterator<Item = (&'static str, Value)> {
    keys.iter().map(|key| {
        let mut schema = of_kind(key.kind);
        let default = if key.default.is_empty() { String::new() } else { format!(" Default: {}.", key.default) };
        let default = if key.default == "required" { String::from(" Required.") } else { default };
        schema["description"] = format!("{}{default}", key.doc).into();
        (key.name, schema)
    })
}

fn classes_from_a_table() -> Value {
    // A text with a name in braces is replaced by the row's value.
    let column = json!({ "type": "string", "pattern": r"\{" });
    let keys = properties(&CLASS).map(|(name, mut schema)| {
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        (name, json!({ "anyOf": [schema, column], "description": description }))
    });
    let from = json!({ "type": "string", "pattern": r"\.[ct]sv$", "description": "The table, beside this file: a class for each of its rows." });
    let more = [("from", from), ("template", json!({ "type": "string" }))];
    table(more.into_iter().chain(keys), &["from"])
}

/// Returns the tables that hold classes, in a file or in a link.
#[must_use]
pub fn class_lists() -> [(&'static str, Value); 2] {
    ["class", "classes"]
        .map(|name| (name, json!({ "type": "array", "items": { "$ref": format!("#/definitions/{name}") } })))
}

/// The schema of a link: the name of a link file, a table, or tc commands.
#[must_use]
pub fn one_link() -> Value {
    json!({ "anyOf": [
        { "type": "string", "description": "The name of a link file." },
        { "$ref": "#/definitions/link" },
        { "$ref": "#/definitions/tc" },
    ] })
}

/// Returns the JSON schema of link files.
#[must_use]
pub fn link() -> Value {
    let own = |key: &ClassKey| OWN_KEYS.contains(&key.name);
    let template = json!({ "type": "string", "description": "The template whose keys hold where this sets none." });
    let with_template = || [("template", template.clone())].into_iter();
    let in_template = properties(&CLASS).zip(&CLASS).filter(|(_, key)| !own(key)).map(|(property, _)| property);
    let one_of_several = table(properties(&LINK).chain(class_lists()), &["name", "rate"]);
    let pool = [
        ("name", json!({ "type": "string" })),
        ("rule", one_of(PoolRule::ALL.iter().map(|rule| rule.as_str()))),
        ("rate", rate()),
        ("burst", size()),
    ];
    let tc = [("tc", json!({ "type": "string" })), ("device", json!({ "type": "string" })), ("rate", rate())];
    let mut link = one_link();
    if let Some(forms) = link["anyOf"].as_array_mut() {
        forms.push(json!({ "type": "array", "items": one_of_several }));
    }
    let templates = json!({ "type": "object", "additionalProperties": { "$ref": "#/definitions/template" } });
    let top = [
        ("link", link),
        ("template", templates),
        ("pool", json!({ "type": "array", "items": table(pool, &["name", "rate", "burst"]) })),
    ];
    let mut schema = table(top.into_iter().chain(class_lists()), &["link"]);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Link file of fairlink".into();
    schema["definitions"] = json!({
        "link": table(properties(&LINK), &["rate"]),
        "class": table(properties(&CLASS).chain(with_template()), &["name"]),
        "template": table(in_template.chain(with_template()), &[]),
        "classes": classes_from_a_table(),
        "tc": table(tc, &["tc"]),
    });
    schema
}
