//! Which numbers filters have as priorities.

use super::plan::MOST_PRIORITIES;

/// The first priority that is ours.
pub(crate) const FIRST: u16 = 4096;
/// The last one. What tc chooses by itself is 0x8000 and above.
pub(crate) const LAST: u16 = FIRST + 3 * MOST_PRIORITIES as u16 - 1;

/// Filters of a priority that are there, ours by their place and their classifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) priority: u16,
    pub(crate) kind: &'static str,
}

/// Where `count` priorities begin that are free while those `present` are still there: behind them, so that frames go by the old ones until
/// these are taken away; else before them. Where the old ones are of one file, there is room for another wherever they are.
pub(crate) fn place(present: &[Present], count: usize) -> Option<u16> {
    let count = u16::try_from(count).ok()?;
    let (first, last) = (present.iter().map(|one| one.priority).min(), present.iter().map(|one| one.priority).max());
    let (Some(first), Some(last)) = (first, last) else { return Some(FIRST) };
    if LAST - last >= count {
        return Some(last + 1);
    }
    (first - FIRST >= count).then_some(FIRST)
}
