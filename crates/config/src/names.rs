//! Names of classes. Inside the program a class is a number; only people see names.

use std::collections::HashMap;
use std::sync::Arc;

use fairlink_core::ClassId;
use thiserror::Error;

use crate::reader::closest;

/// The name of the link itself, the root of the tree; no class may take it.
pub const LINK: &str = "link";
/// Longest name in bytes.
pub const MAX_NAME: usize = 255;

/// Names of the classes of a tree, both ways. The root is called [`LINK`].
#[derive(Clone, Debug)]
pub struct Names {
    by_id: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, ClassId>,
}

/// No class of a tree has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no class \"{name}\"{}", .suggestion.as_ref().map_or(String::new(), |name| format!("; did you mean \"{name}\"?")))]
pub struct UnknownClass {
    /// As written.
    pub name: String,
    /// The closest name.
    pub suggestion: Option<String>,
}

impl Names {
    /// With the link alone.
    pub(crate) fn new(capacity: usize) -> Self {
        let mut names = Self { by_id: Vec::with_capacity(capacity + 1), by_name: HashMap::with_capacity(capacity + 1) };
        names.push(LINK);
        names
    }

    /// The next id gets this name, which must be new.
    pub(crate) fn push(&mut self, name: &str) -> ClassId {
        let id = ClassId(self.by_id.len() as u32);
        let name: Arc<str> = name.into();
        self.by_id.push(Arc::clone(&name));
        let before = self.by_name.insert(name, id);
        debug_assert!(before.is_none());
        id
    }

    /// The name of a class.
    ///
    /// # Panics
    /// When the class is not of this tree.
    #[must_use]
    pub fn name(&self, class: ClassId) -> &str {
        &self.by_id[class.index()]
    }

    /// The class of that name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<ClassId> {
        self.by_name.get(name).copied()
    }

    /// The class of that name, which somebody wrote.
    ///
    /// # Errors
    /// Says which name may have been meant.
    pub fn find(&self, name: &str) -> Result<ClassId, UnknownClass> {
        let unknown = || UnknownClass { name: name.to_owned(), suggestion: self.closest(name).map(str::to_owned) };
        self.id(name).ok_or_else(unknown)
    }

    /// All names, by id, the link first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.by_id.iter().map(|name| &**name)
    }

    /// The name that `word` is most likely a slip of.
    #[must_use]
    pub(crate) fn closest(&self, word: &str) -> Option<&str> {
        closest(word, self.iter().skip(1))
    }
}

/// Why a class cannot have this name, or `None` where it can.
pub(crate) fn refusal(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("a name has at least one letter")
    } else if name.len() > MAX_NAME {
        Some("a name has at most 255 bytes")
    } else if name == LINK {
        Some("this is the name of the link itself")
    } else if name.contains(['=', ',', '"']) || name.contains(char::is_control) {
        Some("a name has no =, no comma, no quote and no control character")
    } else if name.trim() != name {
        Some("a name neither begins nor ends with white space")
    } else {
        None
    }
}
