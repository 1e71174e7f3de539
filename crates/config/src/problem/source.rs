//! Texts of files, with the origin of each part.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Problem, ProblemKind, Problems, Span};
use crate::files::{Disk, Files, Limits, MAX_FILE};

/// A file's name and text, shared by all that points into it.
pub type Source = Arc<SourceText>;

/// A named text. An [expanded](crate::written_out) text has the origin of each of its parts.
#[derive(Clone, Debug)]
pub struct SourceText {
    name: String,
    text: String,
    /// In the order of the text; they do not overlap.
    origins: Vec<Origin>,
    /// Other files that the text was made from.
    included: Vec<Source>,
    /// Files that the text may name.
    files: Arc<dyn Files>,
    /// True if the text was read from those files, so that it may name tables of classes.
    was_opened: bool,
}

/// Origin of a part of a text.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) part: Range<usize>,
    pub(crate) source: Source,
    pub(crate) from: From,
}

/// Relation of a part to its source.
#[derive(Clone, Debug)]
pub(crate) enum From {
    /// The same text, which begins there.
    Copy(usize),
    /// Made from the text at this place.
    Place(Span),
}

impl SourceText {
    /// A text that is to be called `name`. A link file, a recording or a script that it names is looked for on the
    /// disk, beside `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Arc::new(Self {
            name: name.into(),
            text: text.into(),
            origins: Vec::new(),
            included: Vec::new(),
            files: Arc::new(Disk),
            was_opened: false,
        })
    }

    /// The text of the file `name` among `files`. Other files that it names are looked for there, beside `name`.
    #[must_use]
    pub fn among(name: impl Into<String>, text: impl Into<String>, files: Arc<dyn Files>) -> Source {
        let (name, text) = (name.into(), text.into());
        Arc::new(Self { name, text, origins: Vec::new(), included: Vec::new(), files, was_opened: true })
    }

    /// Reads the whole file at `path` on the disk.
    ///
    /// # Errors
    /// As [`SourceText::read_from`].
    pub fn read(path: impl AsRef<Path>) -> Result<Source, Problems> {
        let disk: Arc<dyn Files> = Arc::new(Disk);
        Self::read_from(&disk, path)
    }

    /// Reads the whole file at `path` among `files`. Other files that it names are looked for there, too.
    ///
    /// # Errors
    /// A file that cannot be opened or read, is longer than 256 MiB, or is not UTF-8.
    pub fn read_from(files: &Arc<dyn Files>, path: impl AsRef<Path>) -> Result<Source, Problems> {
        let name = path.as_ref().display().to_string();
        let mut bytes = Vec::new();
        let read = files
            .open(path.as_ref())
            .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| error.to_string()));
        let refused = |kind| Problems::one(Problem::error(&Self::new(&name, ""), None, kind));
        match read {
            Ok(len) if len as u64 <= MAX_FILE => {}
            Ok(_) => {
                let reason = format!("it is longer than {} MiB", MAX_FILE >> 20);
                return Err(refused(ProblemKind::Unreadable { reason }));
            }
            Err(reason) => return Err(refused(ProblemKind::Unreadable { reason })),
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::among(name, text, Arc::clone(files))),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let bytes = error.into_bytes();
                let before = &bytes[..at];
                let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
                let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
                Err(refused(ProblemKind::NotText { at, line, column, byte: bytes[at] }))
            }
        }
    }

    /// This file with another text, which was made from it and `included`.
    pub(crate) fn made(&self, text: String, origins: Vec<Origin>, included: Vec<Source>) -> Source {
        let (name, files) = (self.name.clone(), Arc::clone(&self.files));
        Arc::new(Self { name, text, origins, included, files, was_opened: self.was_opened })
    }

    /// Name of the source in errors: the file as it was named.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text; for a link file with templates or tables of classes, the expanded text.
    #[must_use]
    pub fn inner(&self) -> &str {
        &self.text
    }

    /// Names of the other files that the text was made from.
    pub fn included(&self) -> impl Iterator<Item = &str> {
        self.included.iter().map(|source| source.name())
    }

    /// Files that the text may name.
    pub(crate) fn files(&self) -> &Arc<dyn Files> {
        &self.files
    }

    /// Limits of the text and of what it is expanded to.
    pub(crate) fn limits(&self) -> Limits {
        self.files.limits()
    }

    /// The path of the file `name`, which the text names.
    pub(crate) fn beside(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new(&self.name).parent().unwrap_or(Path::new("")).join(name)
    }

    /// Reads the file at `path`, which the text names.
    ///
    /// # Errors
    /// As [`SourceText::read_from`].
    pub(crate) fn open(&self, path: &Path) -> Result<Source, Problems> {
        Self::read_from(&self.files, path)
    }

    pub(crate) fn was_opened(&self) -> bool {
        self.was_opened
    }

    /// Returns the origin of a part of the text. `None` if it is this text itself.
    pub(crate) fn origin(&self, span: &Span) -> Option<(Source, Span)> {
        let at = self.origins.partition_point(|origin| origin.part.end <= span.start);
        let Origin { part, source, from } = self.origins.get(at).filter(|origin| origin.part.start <= span.start)?;
        let span = match from {
            From::Place(place) => place.clone(),
            From::Copy(start) => {
                let begin = start + (span.start - part.start);
                begin..(begin + span.len()).min(start + part.len())
            }
        };
        Some((Arc::clone(source), span))
    }
}
