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
    program: &'static str,
    generator: SchemaGenerator,
    any_of: Vec<Schema>,
}

impl Kinds {
    /// None yet, of the program with this name.
    #[must_use]
    pub fn of_program(program: &'static str) -> Self {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        Self { program, generator, any_of: Vec::new() }
    }

    /// Adds documents with this content.
    pub fn add<T: Content + JsonSchema>(&mut self) {
        self.any_of.push(document_schema::<T>(self.program, &mut self.generator));
    }

    /// Returns the schema of the documents of this program.
    #[must_use]
    pub fn schemas(mut self) -> Schemas {
        Schemas {
            dialect: "https://json-schema.org/draft/2020-12/schema",
            title: format!("Documents of {}", self.program),
            any_of: self.any_of,
            definitions: self.generator.take_definitions(true),
        }
    }
}
