//! Names of classes. Inside the program a class is a number; only people see names.

use std::hash::{BuildHasher, RandomState};

use fairlink_core::ClassId;
use thiserror::Error;

use crate::problem::{Log, ProblemKind};
use crate::reader::{Table, closest};

/// The name of the link itself, the root of the tree; no class may take it.
pub const LINK: &str = "link";
/// Longest name in bytes.
pub const MAX_NAME: usize = 255;

/// Names of the classes of a tree, both ways. The root is called [`LINK`]. Each name is kept once, all of them in one
/// text.
#[derive(Clone, Debug)]
pub struct Names {
    text: String,
    /// By id: end of its name and beginning of the next. Below 2^32, because files are shorter
    /// ([`crate::files::MAX_FILE`]).
    ends: Vec<u32>,
    /// Ids by the hash of their names, in open addressing with linear probing, each with the upper half of the hash;
    /// [`FREE`] for an empty slot. A power of two, at most half full.
    slots: Vec<(u32, u32)>,
    hasher: RandomState,
}

const FREE: u32 = u32::MAX;

/// No class of a tree has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no class \"{name}\"; {}", match suggestion {
    Some(name) => format!("did you mean \"{name}\"?"),
    None => format!("there are: {known}"),
})]
pub struct UnknownClass {
    /// As written.
    pub name: String,
    /// The closest name.
    pub suggestion: Option<String>,
    /// The first few names that there are, and how many more.
    pub known: String,
}

/// Maximum number of names listed for an unknown name.
const LISTED: usize = 12;

impl UnknownClass {
    /// Says which of `known` may have been meant, and lists them.
    pub fn among<'k>(name: &str, known: impl ExactSizeIterator<Item = &'k str> + Clone) -> Self {
        let more = known.len().saturating_sub(LISTED);
        let mut list = known.clone().take(LISTED).collect::<Vec<_>>().join(", ");
        if more > 0 {
            list += &format!(" and {more} more");
        }
        Self { name: name.to_owned(), suggestion: closest(name, known).map(str::to_owned), known: list }
    }
}

impl Names {
    /// With the link alone.
    pub(crate) fn new(capacity: usize) -> Self {
        let slots = (2 * (capacity + 1)).next_power_of_two();
        let mut names = Self {
            text: String::new(),
            ends: Vec::with_capacity(capacity + 1),
            slots: vec![(FREE, 0); slots],
            hasher: RandomState::new(),
        };
        names.push(LINK).expect("the first name");
        names
    }

    /// The next id gets this name. It is found under it unless another has the name already.
    ///
    /// # Errors
    /// The class that has the name.
    pub(crate) fn push(&mut self, name: &str) -> Result<ClassId, ClassId> {
        if 2 * (self.ends.len() + 1) > self.slots.len() {
            self.grow();
        }
        let id = self.ends.len() as u32;
        let (slot, tag) = self.slot(name);
        self.text.push_str(name);
        self.ends.push(self.text.len() as u32);
        match self.slots[slot] {
            (FREE, _) => {
                self.slots[slot] = (id, tag);
                Ok(ClassId(id))
            }
            (other, _) => Err(ClassId(other)),
        }
    }

    /// Returns the slot of a name, or the empty slot for it, and the upper half of its hash.
    fn slot(&self, name: &str) -> (usize, u32) {
        let mask = self.slots.len() - 1;
        let hash = self.hasher.hash_one(name);
        let tag = (hash >> 32) as u32;
        let mut slot = hash as usize & mask;
        while let (id, other) = self.slots[slot]
            && id != FREE
            && (other != tag || self.name(ClassId(id)) != name)
        {
            slot = (slot + 1) & mask;
        }
        (slot, tag)
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![(FREE, 0); 2 * old.len()];
        for (id, _) in old.into_iter().filter(|&(id, _)| id != FREE) {
            let (slot, tag) = self.slot(self.name(ClassId(id)));
            self.slots[slot] = (id, tag);
        }
    }

    /// The name of a class.
    ///
    /// # Panics
    /// When the class is not of this tree.
    #[must_use]
    pub fn name(&self, class: ClassId) -> &str {
        let start = class.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[class.index()] as usize]
    }

    /// The class of that name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<ClassId> {
        let (slot, _) = self.slot(name);
        let (id, _) = self.slots[slot];
        (id != FREE).then_some(ClassId(id))
    }

    /// Finds the class of a name written by the user.
    ///
    /// # Errors
    /// The error suggests a similar name.
    pub fn find(&self, name: &str) -> Result<ClassId, UnknownClass> {
        self.id(name).ok_or_else(|| UnknownClass::among(name, self.iter().skip(1)))
    }

    /// All names, by id, the link first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        (0..self.ends.len()).map(|id| self.name(ClassId(id as u32)))
    }

    /// The name that `word` is most likely a slip of.
    #[must_use]
    pub(crate) fn closest(&self, word: &str) -> Option<&str> {
        closest(word, self.iter().skip(1))
    }
}

/// Returns the reason why a class cannot have this name; `None` if it can.
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

/// The name of a table, unless `refused` says why it cannot be.
pub(crate) fn named(
    table: &Table<'_, '_>,
    refused: impl FnOnce(&str) -> Option<String>,
    log: &mut Log,
) -> Option<String> {
    let value = table.need("name", "name = \"...\"", log)?;
    let name = value.string("a name in quotes", log)?;
    let why = refusal(name).map(|why| format!("cannot be {name:?}: {why}"));
    if let Some(why) = why.or_else(|| refused(name)) {
        log.error(value.span(), ProblemKind::Misplaced { key: "name", why, help: "choose another name" });
        return None;
    }
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_finds_its_class_and_a_name_given_twice_the_first_of_them() {
        let mut names = Names::new(1);
        for id in 1..=1000u32 {
            assert_eq!(names.push(&format!("class {id}")), Ok(ClassId(id)));
        }
        assert_eq!(names.push("class 7"), Err(ClassId(7)));
        assert_eq!((names.iter().len(), names.name(ClassId::ROOT)), (1002, LINK));
        for id in 1..=1000 {
            assert_eq!(names.id(&format!("class {id}")), Some(ClassId(id)));
            assert_eq!(names.name(ClassId(id)), format!("class {id}"));
        }
        assert_eq!((names.id(LINK), names.id("class"), names.id("")), (Some(ClassId::ROOT), None, None));
        assert_eq!(names.name(ClassId(1001)), "class 7");
    }
}
