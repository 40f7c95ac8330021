//! The classic table of `dma_bench`, column for column. MBytes are 10⁶ bytes.

use std::fmt::Write as _;

use super::table::NOTHING;
use crate::stats::digits;

/// One vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Bytes of an entry.
    pub size_bytes: u64,
    /// Entries.
    pub entries: u64,
    /// Time of the whole vector.
    pub transfer_us: f64,
    /// The resolution of the time, by the clock and the batch: no digit below it is printed.
    pub step_ns: f64,
}

const RULE: &str = "-------------------------------------------------------------------------------";

/// The table with its title.
pub fn render(rows: &[Row]) -> String {
    let mut text = format!(
        "{RULE}\n  Message    Total     Vector     Transfer     Transfer time      Bandwidth\n   \
         size      size      length       time        per message\n{RULE}\n"
    );
    for row in rows {
        let total_bytes = row.size_bytes * row.entries;
        let entries = row.entries.max(1) as f64;
        let whole = digits::show(row.transfer_us, row.step_ns, 1000.0, 2);
        let each = digits::show(row.transfer_us / entries, row.step_ns / entries, 1000.0, 2);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:>7}    {:>7}      {:>3}      {whole:>7} us     {each:>6} us     {:>8.2} MBytes/s",
            row.size_bytes,
            total_bytes,
            row.entries,
            total_bytes as f64 / row.transfer_us,
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

    /// The published table: size, vector length, transfer time and the line itself, except for the
    /// bandwidth: its last digits come from a transfer time with more digits than are printed.
    const PUBLISHED: [(u64, u64, f64, &str); 21] = [
        (64, 256, 69.55, "     64      16384      256        69.55 us       0.27 us       235.57 MBytes/s"),
        (128, 256, 70.07, "    128      32768      256        70.07 us       0.27 us       467.63 MBytes/s"),
        (256, 256, 66.13, "    256      65536      256        66.13 us       0.26 us       991.08 MBytes/s"),
        (512, 256, 64.77, "    512     131072      256        64.77 us       0.25 us      2023.65 MBytes/s"),
        (1024, 256, 65.98, "   1024     262144      256        65.98 us       0.26 us      3973.08 MBytes/s"),
        (2048, 256, 69.25, "   2048     524288      256        69.25 us       0.27 us      7570.95 MBytes/s"),
        (4096, 256, 76.81, "   4096    1048576      256        76.81 us       0.30 us     13651.38 MBytes/s"),
        (8192, 256, 94.94, "   8192    2097152      256        94.94 us       0.37 us     22090.40 MBytes/s"),
        (
            16384,
            256,
            162.86,
            "  16384    4194304      256       162.86 us       0.64 us     25753.73 MBytes/s",
        ),
        (
            32768,
            256,
            312.17,
            "  32768    8388608      256       312.17 us       1.22 us     26871.84 MBytes/s",
        ),
        (
            65536,
            256,
            611.22,
            "  65536    16777216      256       611.22 us       2.39 us     27448.83 MBytes/s",
        ),
        (
            131072,
            256,
            1209.15,
            " 131072    33554432      256      1209.15 us       4.72 us     27750.48 MBytes/s",
        ),
        (
            262144,
            256,
            2405.18,
            " 262144    67108864      256      2405.18 us       9.40 us     27901.78 MBytes/s",
        ),
        (
            524288,
            128,
            2402.11,
            " 524288    67108864      128      2402.11 us      18.77 us     27937.52 MBytes/s",
        ),
        (
            1048576,
            64,
            2402.21,
            "1048576    67108864       64      2402.21 us      37.53 us     27936.29 MBytes/s",
        ),
        (
            2097152,
            32,
            2400.34,
            "2097152    67108864       32      2400.34 us      75.01 us     27958.01 MBytes/s",
        ),
        (
            4194304,
            16,
            2400.34,
            "4194304    67108864       16      2400.34 us     150.02 us     27958.12 MBytes/s",
        ),
        (
            8388608,
            8,
            2400.29,
            "8388608    67108864        8      2400.29 us     300.04 us     27958.67 MBytes/s",
        ),
        (
            16777216,
            4,
            2400.31,
            "16777216    67108864        4      2400.31 us     600.08 us     27958.42 MBytes/s",
        ),
        (
            33554432,
            2,
            2400.15,
            "33554432    67108864        2      2400.15 us     1200.07 us     27960.29 MBytes/s",
        ),
        (
            67108864,
            1,
            2400.20,
            "67108864    67108864        1      2400.20 us     2400.20 us     27959.73 MBytes/s",
        ),
    ];

    #[test]
    fn published_lines() {
        let rows: Vec<Row> = PUBLISHED
            .iter()
            .map(|&(size_bytes, entries, transfer_us, _)| Row {
                size_bytes,
                entries,
                transfer_us,
                step_ns: 0.01,
            })
            .collect();
        let text = render(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], RULE);
        assert_eq!(lines[1], "  Message    Total     Vector     Transfer     Transfer time      Bandwidth");
        assert_eq!(lines[2], "   size      size      length       time        per message");
        for (line, (.., want)) in lines[4..].iter().zip(PUBLISHED) {
            // 33554432: half of 2400.15 printed from the unrounded time is 1200.07, from the
            // printed one 1200.08 or .07.
            let columns = |line: &str| line.find(" us").unwrap();
            assert_eq!(columns(line), columns(want), "{line}");
            assert_eq!(line[..columns(line)], want[..columns(want)]);
            assert_eq!(line.len(), want.len(), "{line}\n{want}");
            assert!(line.ends_with(" MBytes/s"));
            let bandwidth = |line: &str| line.split_whitespace().nth(7).unwrap().parse::<f64>().unwrap();
            assert!((bandwidth(line) / bandwidth(want) - 1.0).abs() < 1e-3, "{line}\n{want}");
        }
        assert_eq!(lines.len(), 25);
    }

    #[test]
    fn a_coarse_clock_prints_fewer_digits() {
        let text = render(&[Row { size_bytes: 64, entries: 1, transfer_us: 0.129, step_ns: 100.0 }]);
        assert!(text.lines().last().unwrap().contains("  0.1 us        0.1 us"), "{text}");
    }
}
