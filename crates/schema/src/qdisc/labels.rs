//! Labels of classes: minor numbers of tc, and names.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::fmt;

use fairlink_core::{ClassId, OutOfMemory, pause};

/// Largest minor number of a class; 0 is the queueing discipline itself, and 0xffff is tc's.
pub const MAX_MINOR: u16 = 0xfffe;
/// Longest name in bytes.
pub const MAX_NAME: usize = 255;

/// Numbers and names of the classes of a tree. The link has the number 0 and no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    minors: Vec<u16>,
    text: Vec<u8>,
    /// By class: the end of its name, where the next begins.
    ends: Vec<u32>,
    /// Numbers with their classes, in the order of numbers once [`Labels::sorted`].
    by_minor: Vec<(u16, u32)>,
}

/// The reason for which a label was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelError {
    /// A minor number of 0 or above [`MAX_MINOR`].
    Minor {
        /// The class.
        class: ClassId,
        /// The number given.
        minor: u16,
    },
    /// Two classes have one number.
    Twice {
        /// The number.
        minor: u16,
        /// One of them.
        first: ClassId,
        /// The other.
        second: ClassId,
    },
    /// A name that is longer than [`MAX_NAME`] bytes.
    Name {
        /// The class.
        class: ClassId,
        /// Its length.
        len: usize,
    },
    /// Not enough memory.
    OutOfMemory(OutOfMemory),
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Minor { class, minor } => {
                write!(f, "class {} has the minor number {minor:#x}, outside 0x1 .. {MAX_MINOR:#x}", class.0)
            }
            Self::Twice { minor, first, second } => {
                write!(f, "classes {} and {} both have the minor number {minor:#x}", first.0, second.0)
            }
            Self::Name { class, len } => {
                write!(f, "class {} has a name of {len} bytes; the limit is {MAX_NAME}", class.0)
            }
            Self::OutOfMemory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LabelError {}

impl From<OutOfMemory> for LabelError {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

/// Reserves room for `more` entries; fails if there is not enough memory.
pub(crate) fn room<T>(all: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
    all.try_reserve(more).map_err(|_| OutOfMemory { bytes: (more as u64).saturating_mul(size_of::<T>() as u64) })
}

impl Labels {
    /// Makes the labels of the link alone, with room for `classes` others.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(classes: usize) -> Result<Self, LabelError> {
        let mut labels = Self { minors: Vec::new(), text: Vec::new(), ends: Vec::new(), by_minor: Vec::new() };
        room(&mut labels.minors, classes + 1)?;
        room(&mut labels.ends, classes + 1)?;
        room(&mut labels.by_minor, classes)?;
        labels.minors.push(0);
        labels.ends.push(0);
        Ok(labels)
    }

    /// Labels the class that follows.
    ///
    /// # Errors
    /// [`LabelError`], but not [`LabelError::Twice`].
    pub fn add(&mut self, minor: u16, name: &[u8]) -> Result<(), LabelError> {
        let class = ClassId(self.minors.len() as u32);
        if minor == 0 || minor > MAX_MINOR {
            return Err(LabelError::Minor { class, minor });
        }
        if name.len() > MAX_NAME {
            return Err(LabelError::Name { class, len: name.len() });
        }
        room(&mut self.text, name.len())?;
        room(&mut self.minors, 1)?;
        room(&mut self.ends, 1)?;
        room(&mut self.by_minor, 1)?;
        self.text.extend_from_slice(name);
        self.minors.push(minor);
        self.ends.push(self.text.len() as u32);
        self.by_minor.push((minor, class.0));
        Ok(())
    }

    /// Sorts the labels after the last addition, for searches by number.
    ///
    /// # Errors
    /// [`LabelError::Twice`].
    pub fn sorted(mut self) -> Result<Self, LabelError> {
        // Without recursion, since a kernel's stack is short, and with pauses, since it takes long for many.
        let mut heap = BinaryHeap::from(core::mem::take(&mut self.by_minor));
        room(&mut self.by_minor, heap.len())?;
        while let Some(last) = heap.pop() {
            pause(self.by_minor.len());
            self.by_minor.push(last);
        }
        self.by_minor.reverse();
        for pair in self.by_minor.windows(2) {
            if let &[(minor, first), (same, second)] = pair
                && minor == same
            {
                return Err(LabelError::Twice { minor, first: ClassId(first), second: ClassId(second) });
            }
        }
        Ok(self)
    }

    /// Number of labelled classes, including the link.
    #[must_use]
    pub fn len(&self) -> usize {
        self.minors.len()
    }

    /// Returns true if only the link has a label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.minors.len() <= 1
    }

    /// Returns the minor number: 0 for the link and for a class that does not exist.
    #[must_use]
    pub fn minor(&self, class: ClassId) -> u16 {
        self.minors.get(class.index()).copied().unwrap_or(0)
    }

    /// Returns the name, which need not be UTF-8; empty for the link.
    #[must_use]
    pub fn name(&self, class: ClassId) -> &[u8] {
        let start = class.index().checked_sub(1).and_then(|before| self.ends.get(before));
        match (start, self.ends.get(class.index())) {
            (Some(&start), Some(&end)) => self.text.get(start as usize..end as usize).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Returns the class of a minor number; always `None` before [`Labels::sorted`].
    #[must_use]
    pub fn class(&self, minor: u16) -> Option<ClassId> {
        let at = self.by_minor.binary_search_by_key(&minor, |&(minor, _)| minor).ok()?;
        self.by_minor.get(at).map(|&(_, class)| ClassId(class))
    }

    /// By class of these labels, the class of the same minor number in `new` if `keep` accepts it: the survivors of
    /// [`prepare`](fairlink_core::prepare).
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn survivors(
        &self,
        new: &Self,
        keep: impl Fn(ClassId, ClassId) -> bool,
    ) -> Result<Box<[Option<ClassId>]>, OutOfMemory> {
        let mut all = Vec::new();
        all.try_reserve_exact(self.len())
            .map_err(|_| OutOfMemory { bytes: (self.len() * size_of::<Option<ClassId>>()) as u64 })?;
        all.extend((0..self.len()).map(|index| {
            pause(index);
            let old = ClassId(index as u32);
            new.class(self.minor(old)).filter(|&new| keep(old, new))
        }));
        Ok(all.into_boxed_slice())
    }
}
