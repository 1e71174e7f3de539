//! The JSON schema of the documents, and real documents beside it.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::{Scratch, fairlink, scenario};

/// The part of JSON schema that the schemas of documents use.
struct Schema(Value);

impl Schema {
    /// Checks `value` against `schema`. Returns the first violation, with its path; a key that the schema does not name
    /// is one.
    fn check(&self, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        let mut named = Vec::new();
        self.walk(schema, value, path, &mut named)?;
        let Value::Object(object) = value else { return Ok(()) };
        let open = schema.get("additionalProperties").is_some() || named.is_empty();
        match object.keys().find(|key| !open && !named.contains(key)) {
            Some(key) => Err(format!("{path}.{key} is not in the schema")),
            None => Ok(()),
        }
    }

    fn walk(&self, schema: &Value, value: &Value, path: &str, named: &mut Vec<String>) -> Result<(), String> {
        let refuse = |why: String| Err(format!("{path}: {why}: {value}"));
        if let Some(place) = schema["$ref"].as_str() {
            let target = self.0.pointer(place.trim_start_matches('#')).ok_or_else(|| format!("no {place}"))?;
            self.walk(target, value, path, named)?;
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.walk(part, value, path, named)?;
        }
        for key in ["anyOf", "oneOf"] {
            let Some(parts) = schema[key].as_array() else { continue };
            let mut fits = Vec::new();
            let whys: Vec<String> = parts
                .iter()
                .filter_map(|part| {
                    let mut own = Vec::new();
                    let fit = self.walk(part, value, path, &mut own);
                    fit.map(|()| fits.extend(own)).err()
                })
                .collect();
            if whys.len() == parts.len() {
                return Err(whys.join("; "));
            }
            named.extend(fits);
        }
        if schema.get("const").is_some_and(|constant| constant != value) {
            return refuse(format!("is to be {}", schema["const"]));
        }
        if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
            return refuse(format!("is none of {}", schema["enum"]));
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.clone(),
            Value::Null => Vec::new(),
            one => vec![one.clone()],
        };
        let is = |kind: &Value| match kind.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("number") => value.is_number(),
            Some("integer") => value.is_u64() || value.is_i64(),
            Some("null") => value.is_null(),
            _ => false,
        };
        if !types.is_empty() && !types.iter().any(is) {
            return refuse(format!("is not of type {}", schema["type"]));
        }
        if let Value::Array(items) = value
            && schema["items"].is_object()
        {
            for (at, item) in items.iter().enumerate() {
                self.check(&schema["items"], item, &format!("{path}[{at}]"))?;
            }
        }
        if let Value::Object(object) = value {
            for key in schema["required"].as_array().into_iter().flatten() {
                if !object.contains_key(key.as_str().unwrap_or_default()) {
                    return refuse(format!("has no {key}"));
                }
            }
            for (key, value) in object {
                let path = format!("{path}.{key}");
                if let Some(property) = schema["properties"].get(key) {
                    named.push(key.clone());
                    self.check(property, value, &path)?;
                } else if schema["additionalProperties"].is_object() {
                    named.push(key.clone());
                    self.check(&schema["additionalProperties"], value, &path)?;
                }
            }
        }
        Ok(())
    }

    fn document(&self, document: &Value) -> Result<(), String> {
        let of_kind = |schema: &&Value| schema["properties"]["document"]["const"] == document["document"];
        let mut why = format!("no schema of {}", document["document"]);
        for schema in self.0["anyOf"].as_array().expect("a list").iter().filter(of_kind) {
            match self.check(schema, document, "") {
                Ok(()) => return Ok(()),
                Err(violation) => why = violation,
            }
        }
        Err(why)
    }
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema(fairlink(&["schema", "documents"]).quiet().json()))
}

/// Longer output is not compared with the schema: it repeats the same for very many classes.
pub(crate) const LONGEST: usize = 4 << 20;

/// Panics if `text` is JSON and not the documents that the schema describes, one or a line each. `what` names it.
pub(crate) fn assert_documents(what: &str, text: &str) {
    if text.len() > LONGEST {
        return;
    }
    let one = serde_json::from_str::<Value>(text).map(|document| vec![document]);
    // A program that was ended leaves half a line.
    let lines = || text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for document in one.unwrap_or_else(|_| lines()) {
        assert_eq!(schema().document(&document), Ok(()), "{what}: {document}");
    }
}

#[test]
fn documents_of_simulations_are_as_their_schema_says() {
    let schema = schema();
    let dir = Scratch::new();
    let file = dir.write("s.toml", &std::fs::read_to_string(scenario("exp2-M.toml")).expect("a scenario"));
    let of_scenario = |name: &str| scenario(name);
    let changed = of_scenario("reload.toml");
    let expected = of_scenario("expect.toml");
    for args in [
        &["sim", &file, "--json"][..],
        &["sim", &file, "--json", "--metrics", "--window", "1s"],
        &["sim", &file, "--json", "--runs", "2", "--scheduler", "hls", "--scheduler", "htb"],
        &["sim", &changed, "--json"],
        &["sim", &expected, "--json"],
    ] {
        let document = fairlink(args).json();
        assert_eq!(schema.document(&document), Ok(()), "{args:?}");
        assert_eq!((&document["document"], &document["version"]), (&json!("sim"), &json!(1)));
    }
}

#[test]
fn what_is_not_in_the_schema_is_found() {
    let schema = schema();
    let mut document = fairlink(&["sim", &scenario("exp2-M.toml"), "--json"]).quiet().json();
    let link = &mut document["runs"][0]["link"];
    link["link_bps"] = json!(1);
    assert!(schema.document(&document).unwrap_err().contains(".link_bps is not in the schema"));
    document["runs"][0]["link"].as_object_mut().expect("an object").remove("link_bps");
    document["runs"][0]["link"]["classes"][0]["counts"]["sent"] = json!(7);
    assert!(schema.document(&document).unwrap_err().contains("is not of type"));
    document["document"] = json!("weather");
    assert!(schema.document(&document).unwrap_err().contains("no schema of"));
}
