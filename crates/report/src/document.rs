//! The head of a JSON document.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The content of a kind of documents.
pub trait Content {
    /// The kind: the value of the key `document`.
    const KIND: &'static str;
    /// The version: it grows when a key changes its meaning or is removed, and stays when a key is added.
    const VERSION: u32 = 1;
}

/// A JSON document: `document` and `version`, then the keys of its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document<T> {
    /// The kind of the document.
    pub document: String,
    /// Its version.
    pub version: u32,
    /// Its content.
    #[serde(flatten)]
    pub content: T,
}

impl<T: Content> Document<T> {
    /// Adds the head before `content`.
    pub fn new(content: T) -> Self {
        Self { document: T::KIND.to_owned(), version: T::VERSION, content }
    }
}

/// Returns the JSON schema of the documents with this content, which `program` prints. Types that it refers to are left to the definitions of `generator`.
pub fn document_schema<T: Content + JsonSchema>(program: &str, generator: &mut SchemaGenerator) -> Schema {
    let content = generator.subschema_for::<T>();
    json_schema!({
        "title": format!("{program} {}", T::KIND),
        "type": "object",
        "properties": {"document": {"const": T::KIND}, "version": {"const": T::VERSION}},
        "required": ["document", "version"],
        "allOf": [content],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Links {
        links: Vec<u8>,
    }

    impl Content for Links {
        const KIND: &'static str = "stats";
    }

    #[test]
    fn a_document_begins_with_its_kind_and_version() {
        let text = serde_json::to_string(&Document::new(Links { links: vec![7] })).unwrap();
        assert_eq!(text, r#"{"document":"stats","version":1,"links":[7]}"#);
        assert_eq!(serde_json::from_str::<Document<Links>>(&text).unwrap().content, Links { links: vec![7] });
    }
}
