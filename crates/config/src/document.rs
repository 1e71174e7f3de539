//! Documents: expanded, parsed, and read in pieces if possible.

use crate::expand::expand;
use crate::pieces::Pieces;
use crate::problem::{Log, Problems, Source};
use crate::reader::{Table, parse};

/// Reads a document with `read`, [expanded](expand): in pieces if it can be cut into them, else as a whole. Errors of
/// syntax are found in the whole document.
///
/// # Errors
/// All errors of syntax, else those of `read`.
pub(crate) fn read<T>(
    source: &Source,
    place: &'static str,
    read: impl Fn(&Table<'_, '_>, Log) -> Result<T, Problems>,
) -> Result<T, Problems> {
    let source = expand(source)?;
    if let Some(pieces) = Pieces::cut(source.inner()) {
        let done = read(&Table::in_pieces(place, &pieces), Log::new(&source));
        if pieces.are_sound() {
            return done;
        }
    }
    whole(&source, place, read)
}

/// As [`read`], never in pieces.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_whole<T>(
    source: &Source,
    place: &'static str,
    read: impl Fn(&Table<'_, '_>, Log) -> Result<T, Problems>,
) -> Result<T, Problems> {
    whole(&expand(source)?, place, read)
}

fn whole<T>(
    source: &Source,
    place: &'static str,
    read: impl Fn(&Table<'_, '_>, Log) -> Result<T, Problems>,
) -> Result<T, Problems> {
    let mut log = Log::new(source);
    let document = parse(source.inner(), &mut log)?;
    read(&Table::document(place, document.get_ref()), log)
}
