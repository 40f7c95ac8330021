//! The plain table of `scibench2`, with columns in the style of `dma_bench`, because no output of
//! the classic program is public. MBytes are 10⁶ bytes.

use std::fmt::Write as _;

use super::table::NOTHING;
use crate::stats::digits;

/// One size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Bytes of a block.
    pub size_bytes: u64,
    /// Time of a block.
    pub time_us: f64,
    /// The resolution of the time, by the clock and the batch: no digit below it is printed.
    pub step_ns: f64,
}

const RULE: &str = "---------------------------------------------";

/// The table with its title.
pub fn render(rows: &[Row]) -> String {
    let mut text = format!("{RULE}\n  Block        Store          Bandwidth\n   size         time\n{RULE}\n");
    for row in rows {
        let time = digits::show(row.time_us, row.step_ns, 1000.0, 3);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:>7}    {time:>9} us    {:>9.2} MBytes/s",
            row.size_bytes,
            row.size_bytes as f64 / row.time_us
        );
    }
    if rows.is_empty() {
        text.push_str(NOTHING);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let row = |size_bytes, time_us, step_ns| Row { size_bytes, time_us, step_ns };
        let text = render(&[row(64, 0.002, 0.1), row(1_048_576, 52.4288, 10.0)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[4], "     64        0.002 us     32000.00 MBytes/s");
        assert_eq!(lines[5], "1048576        52.43 us     20000.00 MBytes/s");
    }
}
