//! A plain table: columns as wide as their content, numbers to the right.

use std::fmt::Write as _;

use crate::stats::Interval;

/// The alignment of the cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table that is filled row by row.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        Self {
            columns: columns.into_iter().map(|(name, align)| (name.to_owned(), align)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells stay empty, surplus ones are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().take(self.columns.len()).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text: header, then the rows, two blanks between columns, no blanks at the ends of lines.
    pub fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.columns[column].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        let header: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        for cells in std::iter::once(&header).chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                let (width, align) = (widths[column], self.columns[column].1);
                // Writing to a String cannot fail.
                let _ = match align {
                    Align::Left => write!(line, "{gap}{cell:<width$}"),
                    Align::Right => write!(line, "{gap}{cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if self.rows.is_empty() {
            text.push_str(NOTHING);
        }
        text
    }
}

/// Below a head without rows, as of a run that was ended early.
pub(crate) const NOTHING: &str = "(nothing measured)\n";

/// A size as people write it: `4 B`, `8 KiB`, `16 MiB`; exact, or in bytes.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// An interval of ratios; a dash if there is none.
pub fn interval(ci95: Option<Interval>) -> String {
    ci95.map_or_else(|| "-".to_owned(), |ci95| format!("{:.3} … {:.3}", ci95.low, ci95.high))
}

/// Three significant digits for tables in which the clock is not the limit (ratios, rates).
pub fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = if magnitude >= 100.0 || magnitude == 0.0 {
        0
    } else if magnitude >= 10.0 {
        1
    } else if magnitude >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_without_rows_says_that_there_are_none() {
        let mut table = Table::new([("id", Align::Left), ("ns", Align::Right)]);
        assert_eq!(table.render(), "id  ns\n(nothing measured)\n");
        table.row(["scipp".to_owned(), "62".to_owned()]);
        assert!(!table.render().contains("nothing"));
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new([("id", Align::Left), ("ns", Align::Right), ("", Align::Left)]);
        table.row(["scipp".to_owned(), "62".to_owned(), "PASS".to_owned()]);
        table.row(["µ".to_owned(), "1234".to_owned()]);
        assert_eq!(table.render(), "id       ns\nscipp    62  PASS\nµ      1234\n");
        assert_eq!((table.len(), table.is_empty()), (2, false));
    }

    #[test]
    fn sizes() {
        let shown = [0, 4, 1023, 1024, 1500, 8192, 1 << 20, 3 << 20, 1 << 30].map(size);
        assert_eq!(shown, ["0 B", "4 B", "1023 B", "1 KiB", "1500 B", "8 KiB", "1 MiB", "3 MiB", "1 GiB"]);
    }

    #[test]
    fn intervals() {
        let some = Interval { low: 0.5, high: 1.25 };
        assert_eq!((interval(Some(some)), interval(None)), ("0.500 … 1.250".to_owned(), "-".to_owned()));
    }

    #[test]
    fn digits() {
        assert_eq!(
            [0.0, 0.1234, 1.2345, 12.345, 123.45, 12345.6].map(three_digits),
            ["0", "0.123", "1.23", "12.3", "123", "12346"]
        );
    }
}
