//! The JSON schema of scenarios for editors: that of link files, plus the keys of scenarios.

use fairlink_schema::editor::{class_lists, one_link, one_of, one_or_more, rate, size, table, time};
use serde_json::{Value, json};

use super::expect::{self, Quantity};
use super::{model, packet, shape};
use crate::changes;
use crate::peers;

/// Returns the JSON schema of scenarios; also of a link file that uses keys of scenarios.
#[must_use]
pub fn schema() -> Value {
    let list = |items: Value| json!({ "type": "array", "items": items });
    let script = table(model::SCRIPT_KEYS.map(|key| (key, json!({ "type": "string" }))), &["model"]);
    let sources = table(model::keys().into_iter().map(|key| (key, source(key))), &["class", "model"]);
    let links = |keys: &[&'static str], form: fn(&str) -> Value, required: &[&str]| {
        let keys: Vec<(&str, Value)> = keys.iter().map(|&key| (key, form(key))).collect();
        list(table(keys.into_iter().chain(class_lists().into_iter().skip(1)), required))
    };
    let mut schema = fairlink_schema::editor::link();
    schema["title"] = "Scenario of fairlink".into();
    for (key, form) in [
        ("link", one_link()),
        ("duration", time()),
        ("warmup", time()),
        ("propagation", time()),
        ("lag", time()),
        ("seed", json!({ "type": "integer", "minimum": 0 })),
        ("source", list(json!({ "anyOf": [sources, script] }))),
        ("change", links(&changes::KEYS, link_part, &["at", "link"])),
        ("peer", links(&peers::KEYS, link_part, &["name", "link"])),
        ("expect", list(table(expect::KEYS.map(|key| (key, expectation(key))), &["value"]))),
    ] {
        schema["properties"][key] = form;
    }
    schema
}

/// A value of `[[change]]` or `[[peer]]`.
fn link_part(key: &str) -> Value {
    let [(_, classes), _] = class_lists();
    match key {
        "link" => one_link(),
        "class" => classes,
        "at" | "propagation" => time(),
        _ => json!({ "type": "string" }),
    }
}

fn expectation(key: &str) -> Value {
    match key {
        "value" => one_of(Quantity::NAMES.iter().map(|&(name, _)| name)),
        "at" => time(),
        "class" | "scheduler" => json!({ "type": "string" }),
        _ => json!({ "type": ["string", "number"] }),
    }
}

/// A value of `[[source]]`. One that is not known here may be anything.
fn source(key: &str) -> Value {
    let number = || json!({ "type": "number" });
    let text = || json!({ "type": "string" });
    match key {
        "model" => one_of(model::names()),
        "class" | "link" | "file" | "of_class" | "gop" => text(),
        "rate" | "return_rate" => rate(),
        "on" | "off" | "rtt" | "think" => time(),
        "request" | "response" => size(),
        "packet" => packet_length(),
        "active" => one_or_more(&json!({ "type": "string", "pattern": r"\.\." })),
        "shape" | "police" => one_or_more(&table(shape::KEYS.map(|key| (key, text())), &[])),
        "match" => one_or_more(&text()),
        "repeat" | "whole_frames" => json!({ "type": "boolean" }),
        "route" | "accept" => json!({ "type": "array", "items": text() }),
        "regulator" => table([("delay_jitter", json!({ "type": "array", "items": time() }))], &["delay_jitter"]),
        "packets_per_second" | "gops_per_second" | "frames_per_second" | "k" | "utilisation" | "rho"
        | "peak_to_mean" | "deviation_to_mean" => number(),
        "states" => {
            let next = json!({ "type": "array", "items": number() });
            let keys = [("packets_per_second", number()), ("mean", time()), ("next", next)];
            json!({ "type": "array", "items": table(keys, &["mean"]) })
        }
        _ => json!({}),
    }
}

fn packet_length() -> Value {
    let forms = packet::FORMS.iter().map(|&(form, more)| {
        table([form].into_iter().chain(more.iter().copied()).map(|key| (key, json!({}))), &[form])
    });
    let all: Vec<Value> = [one_of(["imix"]), size()].into_iter().chain(forms).collect();
    json!({ "anyOf": all })
}
