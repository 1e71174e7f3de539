//! A text with its templates and tables of classes written out.

use fairlink_config::{Source, written_out};
use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use crate::refused::Refused;

/// The document of [`expand`].
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ExpandDoc {
    /// The text, a class in full for each row.
    pub text: String,
    /// Names of the tables that classes came from.
    pub tables: Vec<String>,
}

impl Content for ExpandDoc {
    const KIND: &'static str = "expand";
}

/// Expands the templates and tables of classes of a link file or a scenario. A text of tc commands has none.
///
/// ```
/// use std::sync::Arc;
/// use fairlink_config::{Memory, SourceText};
///
/// let link = "[link]\nrate = \"9mbit\"\n[[classes]]\nfrom = \"who.csv\"\nname = \"{who}\"\nweight = 1\n";
/// let files = Arc::new(Memory::new([("who.csv", "who\nann\nbob\n")]));
/// let made = fairlink_api::expand(&SourceText::among("a.toml", link, files))?.content;
/// assert!(made.text.contains("[[class]]\nname = \"bob\"") && made.tables == ["who.csv"]);
/// # Ok::<(), fairlink_api::Refused>(())
/// ```
///
/// # Errors
/// A text that is not TOML, unknown templates and columns, unreadable tables, and errors in rows.
pub fn expand(source: &Source) -> Result<Document<ExpandDoc>, Refused> {
    let made = written_out(source)?;
    let tables = made.included().map(str::to_owned).collect();
    Ok(Document::new(ExpandDoc { text: made.inner().to_owned(), tables }))
}
