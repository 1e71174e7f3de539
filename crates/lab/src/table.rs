//! How a table is laid out: columns as wide as they need to be, numbers to the right, no frame.

use std::ops::Range;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// The lines of a table, its head first, without white space at their ends. The columns `right` are numbers and stand to the
/// right.
#[must_use]
pub fn lines(head: &[impl AsRef<str>], rows: Vec<Vec<String>>, right: Range<usize>) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head.iter().map(AsRef::as_ref));
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_words_to_the_left() {
        let rows = vec![vec!["A1".into(), "100".into(), "yes".into()], vec!["B".into(), "7".into(), "-".into()]];
        let expected = ["class  bytes  sent", "A1       100  yes", "B          7  -"];
        assert_eq!(lines(&["class", "bytes", "sent"], rows, 1..2), expected);
    }
}
