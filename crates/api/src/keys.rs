//! The keys of link files, from the tables that the reader goes by.

use fairlink_core::registry::SCHEDULERS;
use fairlink_report::{Content, Document};
use fairlink_schema::keys::{CLASS, Key, LINK, Place};
use schemars::JsonSchema;
use serde::Serialize;

/// A key of a link file.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KeyReport {
    /// Its name.
    pub name: &'static str,
    /// True if only a class without children has it.
    pub leaf_only: bool,
    /// The default in Markdown. Absent if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub default: &'static str,
    /// The schedulers that honour it. Absent if all do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulers: Option<Vec<&'static str>>,
    /// The description in Markdown.
    pub description: &'static str,
}

/// The document of [`keys`].
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KeysDoc {
    /// Keys of `[link]`.
    pub link: Vec<KeyReport>,
    /// Keys of `[[class]]`.
    pub class: Vec<KeyReport>,
}

impl Content for KeysDoc {
    const KIND: &'static str = "keys";
}

impl<C> From<&Key<C>> for KeyReport {
    fn from(key: &Key<C>) -> Self {
        // A burst asks for one feature of two, depending on its class.
        let able = SCHEDULERS.iter().filter(|info| key.features.iter().any(|&feature| info.supports(feature)));
        Self {
            name: key.name,
            leaf_only: key.place == Place::Leaf,
            default: key.default,
            schedulers: (!key.features.is_empty()).then(|| able.map(|info| info.name).collect()),
            description: key.doc,
        }
    }
}

/// Returns the keys of link files: defaults, descriptions, and the schedulers that honour them.
///
/// ```
/// let keys = fairlink_api::keys().content;
/// let ceiling = keys.class.iter().find(|key| key.name == "ceiling").expect("a key");
/// let schedulers = ceiling.schedulers.as_ref().expect("not all honour it");
/// assert!(schedulers.contains(&"hls") && !schedulers.contains(&"drr"));
/// ```
#[must_use]
pub fn keys() -> Document<KeysDoc> {
    Document::new(KeysDoc {
        link: LINK.iter().map(KeyReport::from).collect(),
        class: CLASS.iter().map(KeyReport::from).collect(),
    })
}
