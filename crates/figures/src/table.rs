//! Layout of tables: columns of minimal width, numbers aligned right, no frame. If lines are too narrow for it, cells
//! of words continue in the next line. Columns without room beside the others form a second table below the first, with
//! the names again. Nothing is cut off.

use std::ops::Range;

use console::{Alignment, measure_text_width, pad_str};

/// Blanks between two columns.
const GAP: usize = 2;
/// No column of words is made narrower than this.
const LEAST_WORDS: usize = 12;

/// The columns beside each other, and their widths.
#[derive(Debug)]
pub struct Layout {
    /// Columns of each table, by index.
    pub blocks: Vec<Vec<usize>>,
    widths: Vec<usize>,
    /// The columns of numbers, which are aligned right.
    right: Range<usize>,
}

impl Layout {
    /// Makes the layout for columns of these widths; `limit` is the width of a line, if any.
    #[must_use]
    pub fn new(mut widths: Vec<usize>, right: Range<usize>, limit: Option<usize>) -> Self {
        let all = (0..widths.len()).collect();
        let Some(limit) = limit.filter(|&limit| total(&widths) > limit) else {
            return Self { blocks: vec![all], widths, right };
        };
        let least = |column: usize| if column == 0 { LEAST_WORDS.max(limit / 3) } else { LEAST_WORDS };
        // The widest column of words gives way first.
        while total(&widths) > limit {
            let spare = |&column: &usize| widths[column].saturating_sub(least(column));
            let words = (0..widths.len()).filter(|column| !right.contains(column));
            let Some(widest) = words.filter(|column| spare(column) > 0).max_by_key(|&column| widths[column]) else {
                break;
            };
            widths[widest] -= 1;
        }
        if total(&widths) <= limit {
            return Self { blocks: vec![all], widths, right };
        }
        // Cells that identify rows: all words before the first number, or without room for these, the first column.
        let named = total(&widths[..right.start.clamp(1, widths.len())]);
        let names = if named <= limit / 2 { right.start.max(1) } else { 1 };
        let named = total(&widths[..names]);
        let room = limit.saturating_sub(named + GAP).max(1);
        let mut blocks: Vec<Vec<usize>> = Vec::new();
        let mut taken = limit;
        for (column, width) in widths.iter_mut().enumerate().skip(names) {
            *width = (*width).min(room);
            if taken + GAP + *width > limit {
                blocks.push((0..names).collect());
                taken = named;
            }
            taken += GAP + *width;
            if let Some(block) = blocks.last_mut() {
                block.push(column);
            }
        }
        if blocks.is_empty() {
            blocks.push(all);
        }
        Self { blocks, widths, right }
    }

    /// Passes on the lines of a row in one of the blocks, without white space at their ends.
    pub fn row(&self, cells: &[String], block: &[usize], mut line: impl FnMut(&str)) {
        let folded: Vec<Vec<String>> = block.iter().map(|&column| fold(&cells[column], self.widths[column])).collect();
        let height = folded.iter().map(Vec::len).max().unwrap_or_default();
        for at in 0..height {
            let mut text = String::new();
            for (&column, parts) in block.iter().zip(&folded) {
                let part = parts.get(at).map_or("", String::as_str);
                let side = if self.right.contains(&column) { Alignment::Right } else { Alignment::Left };
                text.push_str(&pad_str(part, self.widths[column], side, None));
                text.push_str("  ");
            }
            line(text.trim_end());
        }
    }
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its row; `None` for the head, and for the empty line between two blocks.
    pub row: Option<usize>,
    /// Without white space at its end.
    pub text: String,
}

/// Returns the lines of a table, its head first. The columns `right` are numbers and aligned right. No line is wider
/// than `limit`, if that is at least 40.
#[must_use]
pub fn fitted(head: &[impl AsRef<str>], rows: &[Vec<String>], right: Range<usize>, limit: Option<usize>) -> Vec<Line> {
    let head: Vec<String> = head.iter().map(|title| title.as_ref().to_owned()).collect();
    let mut widths = widths(&head);
    rows.iter().for_each(|cells| widen(&mut widths, cells));
    let layout = Layout::new(widths, right, limit);
    let mut lines = Vec::new();
    for (place, block) in layout.blocks.iter().enumerate() {
        if place > 0 {
            lines.push(Line { row: None, text: String::new() });
        }
        layout.row(&head, block, |text| lines.push(Line { row: None, text: text.to_owned() }));
        for (row, cells) in rows.iter().enumerate() {
            layout.row(cells, block, |text| lines.push(Line { row: Some(row), text: text.to_owned() }));
        }
    }
    lines
}

/// Widths of columns for these cells alone.
#[must_use]
pub fn widths(cells: &[String]) -> Vec<usize> {
    cells.iter().map(|cell| measure_text_width(cell)).collect()
}

/// Makes columns wide enough for these cells too.
pub fn widen(widths: &mut [usize], cells: &[String]) {
    widths.iter_mut().zip(cells).for_each(|(width, cell)| *width = (*width).max(measure_text_width(cell)));
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Returns the parts of a cell, each at most `width` wide: broken between words, and inside a word that is longer.
fn fold(cell: &str, width: usize) -> Vec<String> {
    if measure_text_width(cell) <= width {
        return vec![cell.to_owned()];
    }
    // The indentation of a name also applies to its continuation.
    let indent = (cell.len() - cell.trim_start_matches(' ').len()).min(width / 2);
    let mut parts = vec![String::new()];
    for word in cell.split_inclusive(' ') {
        let last = parts.last().map_or(0, |part| measure_text_width(part));
        if last > indent && last + measure_text_width(word.trim_end()) > width {
            parts.push(" ".repeat(indent));
        }
        for c in word.chars() {
            let last = parts.last().map_or(0, |part| measure_text_width(part));
            if last + measure_text_width(c.encode_utf8(&mut [0; 4])) > width {
                if c == ' ' {
                    continue;
                }
                parts.push(" ".repeat(indent));
            }
            if let Some(part) = parts.last_mut() {
                part.push(c);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(head: &[impl AsRef<str>], rows: &[Vec<String>], right: Range<usize>, limit: Option<usize>) -> Vec<String> {
        fitted(head, rows, right, limit).into_iter().map(|line| line.text).collect()
    }

    fn cells(row: &[&str]) -> Vec<String> {
        row.iter().map(|&cell| cell.to_owned()).collect()
    }

    #[test]
    fn numbers_stand_to_the_right_and_words_to_the_left() {
        let rows = [cells(&["A1", "100", "yes"]), cells(&["B", "7", "-"])];
        let expected = ["class  bytes  sent", "A1       100  yes", "B          7  -"];
        assert_eq!(table(&["class", "bytes", "sent"], &rows, 1..2, None), expected);
        assert_eq!(table(&["class", "bytes", "sent"], &rows, 1..2, Some(18)), expected);
    }

    #[test]
    fn columns_without_room_stand_below_with_the_names_again() {
        let rows = [cells(&["A1", "100 Mbit/s", "50 Mbit/s", "1.5 Mbit/s"])];
        let expected = [
            "class   guarantee      share",
            "A1     100 Mbit/s  50 Mbit/s",
            "",
            "class     ceiling",
            "A1     1.5 Mbit/s",
        ];
        assert_eq!(table(&["class", "guarantee", "share", "ceiling"], &rows, 1..4, Some(30)), expected);
    }

    #[test]
    fn the_lines_of_a_row_are_told_and_words_before_the_numbers_come_again() {
        let rows = [cells(&["0 .. 1 s", "A1", "100", "100", "1"]), cells(&["", "B", "7", "7", "2"])];
        let lines = fitted(&["phase", "class", "measured by us", "ideal", "off by"], &rows, 2..5, Some(40));
        let rows: Vec<_> = lines.iter().map(|line| (line.row, line.text.as_str())).collect();
        let expected = [
            (None, "phase     class  measured by us  ideal"),
            (Some(0), "0 .. 1 s  A1                100    100"),
            (Some(1), "          B                   7      7"),
            (None, ""),
            (None, "phase     class  off by"),
            (Some(0), "0 .. 1 s  A1          1"),
            (Some(1), "          B           2"),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn words_go_on_in_the_next_line_and_nothing_is_lost() {
        let rows = [cells(&["hls", "fairness, delay, transmission gap", "O(1)"])];
        let expected = ["name  bounds              cost", "hls   fairness, delay,    O(1)", "      transmission gap"];
        assert_eq!(table(&["name", "bounds", "cost"], &rows, 0..0, Some(30)), expected);
        let name = "subscriber-0001-of-the-northern-tower";
        let rows = [cells(&[name, "1 Mbit/s"]), cells(&["  x", "日本語"])];
        let lines = table(&["class", "rate"], &rows, 1..2, Some(24));
        assert_eq!(
            lines[1..4].iter().map(|line| &line[..line.len().min(14)]).collect::<String>().replace(' ', ""),
            name
        );
        assert!(lines.iter().all(|line| measure_text_width(line) <= 24), "{lines:?}");
    }

    #[test]
    fn no_line_is_wider_than_the_limit_whatever_the_cells_are() {
        for columns in 1..8 {
            for length in [1, 5, 30, 200] {
                let row: Vec<String> = (0..columns).map(|column| "ab c".repeat(length / (column + 1) + 1)).collect();
                for right in 0..columns {
                    let lines = table(&row, std::slice::from_ref(&row), 1..right, Some(40));
                    assert!(lines.iter().all(|line| measure_text_width(line) <= 40), "{lines:?}");
                    let letters = |text: &str| text.chars().filter(|c| *c == 'c').count();
                    let whole: usize = row.iter().map(|cell| letters(cell)).sum();
                    assert!(lines.iter().map(|line| letters(line)).sum::<usize>() >= 2 * whole, "{lines:?}");
                }
            }
        }
    }
}
