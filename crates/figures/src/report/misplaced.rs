//! Traffic of the wrong leaves, beside each other for several runs.

use fairlink_sim::Run;

use super::metrics::bytes;
use super::plain;
use crate::table::fitted;

/// Returns a table with a row for each run that has measured it; `None` if none has.
#[must_use]
pub fn misplaced<'a>(runs: impl IntoIterator<Item = &'a Run>, width: Option<usize>) -> Option<String> {
    let runs: Vec<(&Run, _)> = runs.into_iter().filter_map(|run| Some((run, run.misplaced.as_ref()?))).collect();
    let lengths = runs.iter().map(|(_, found)| &found.windows).max_by_key(|windows| windows.len())?;
    let mut head = vec!["scheduler".to_owned()];
    for window in lengths {
        let length = super::time(Some(window.window_s));
        head.extend([format!("{length}, mean"), "worst".to_owned()]);
    }
    head.extend(["farthest".to_owned(), "class".to_owned()]);
    let row = |(run, found): &(&Run, &fairlink_sim::Misplaced)| {
        let mut row = vec![run.scheduler.clone()];
        for place in 0..lengths.len() {
            let part = |part: f64| format!("{:.2} %", 100.0 * part);
            row.extend(found.windows.get(place).map_or_else(Default::default, |of| [part(of.mean), part(of.worst)]));
        }
        row.extend([bytes(found.farthest_bytes), found.class.clone()]);
        row
    };
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    Some(plain(&fitted(&head, &rows, 1..head.len() - 1, width)))
}
