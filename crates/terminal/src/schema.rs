//! `schema documents`: JSON schemas of the documents that a program prints.

use fairlink_report::{Content, document_schema};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

/// The schema of the documents of a program. A document has one of these shapes, distinguished by the key `document`.
#[derive(Serialize)]
pub struct Schemas {
    #[serde(rename = "$schema")]
    dialect: &'static str,
    title: String,
    #[serde(rename = "anyOf")]
    any_of: Vec<Schema>,
    /// The types that they refer to.
    #[serde(rename = "$defs")]
    definitions: serde_json::Map<String, serde_json::Value>,
}

/// Collects the kinds of documents of a program.
#[derive(Debug)]
pub struct Kinds {
    generator: SchemaGenerator,
    any_of: Vec<Schema>,
}

impl Default for Kinds {
    fn default() -> Self {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        Self { generator, any_of: Vec::new() }
    }
}

impl Kinds {
    /// Adds documents with this content.
    pub fn add<T: Content + JsonSchema>(&mut self) {
        self.any_of.push(document_schema::<T>(&mut self.generator));
    }

    /// Returns the schema of the documents of this program.
    #[must_use]
    pub fn schemas(mut self, program: &str) -> Schemas {
        Schemas {
            dialect: "https://json-schema.org/draft/2020-12/schema",
            title: format!("Documents of {program}"),
            any_of: self.any_of,
            definitions: self.generator.take_definitions(true),
        }
    }
}
