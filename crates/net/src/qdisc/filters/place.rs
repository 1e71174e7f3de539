//! Allocation of filter priorities.

use super::plan::MOST_PRIORITIES;

/// The first priority that is ours.
pub(crate) const FIRST: u16 = 4096;
/// Last priority. tc itself chooses 0x8000 and above.
pub(crate) const LAST: u16 = FIRST + 3 * MOST_PRIORITIES as u16 - 1;

/// Present filters of a priority; ours are identified by parent and classifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) priority: u16,
    pub(crate) kind: &'static str,
}

/// Returns the first of `count` free priorities while those `present` are still in use. It prefers those behind, so
/// that frames match the old filters until these are deleted. If the present filters are those of one file, there is
/// always room for another file.
pub(crate) fn place(present: &[Present], count: usize) -> Option<u16> {
    let count = u16::try_from(count).ok()?;
    let (first, last) = (present.iter().map(|one| one.priority).min(), present.iter().map(|one| one.priority).max());
    let (Some(first), Some(last)) = (first, last) else { return Some(FIRST) };
    if LAST - last >= count {
        return Some(last + 1);
    }
    (first - FIRST >= count).then_some(FIRST)
}
