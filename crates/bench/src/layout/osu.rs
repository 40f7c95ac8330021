//! The layouts of the OSU micro-benchmarks (version 7.4), for scripts that read these: a heading in lines
//! that begin with `#`, then a row for each size.
//!
//! Source: output of `osu_latency`, `osu_bw`, `osu_bibw`, `osu_mbw_mr`, `osu_multi_lat`, `osu_barrier -f`,
//! `osu_allreduce -f`, `osu_put_latency` and `osu_put_bw` of that version; the titles of `osu_get_latency`,
//! `osu_get_bw`, `osu_fop_latency` and `osu_cas_latency`, and that the latter two name no datatype, from
//! outputs of version 5.8. 1 MB is 10⁶ bytes.

use crate::patterns::pt2pt::{Report, Row, Test};

/// The rows of one test.
pub fn render(report: &Report, test: Test, rows: &[Row]) -> String {
    let mut text = format!("\n# tieline {}, as OSU {} Test v7.4\n", test.name(), title(test));
    if test == Test::Mr {
        text.push_str(&format!("# [ pairs: {} ] [ window size: {} ]\n", report.pairs, report.window));
    }
    if test.is_of_memory() {
        text.push_str("# Window creation: a segment of another node\n");
    }
    if matches!(test, Test::Put | Test::PutBw) {
        text.push_str("# Synchronization: a barrier\n");
    }
    if !matches!(test, Test::Barrier | Test::FetchAdd | Test::CompareSwap) {
        text.push_str("# Datatype: MPI_CHAR.\n");
    }
    text.push_str(columns(test));
    text.push('\n');
    for row in rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    text
}

const fn title(test: Test) -> &'static str {
    match test {
        Test::Latency => "MPI Latency",
        Test::Bw => "MPI Bandwidth",
        Test::Bibw => "MPI Bi-Directional Bandwidth",
        Test::Mr => "MPI Multiple Bandwidth / Message Rate",
        Test::MultiLat => "MPI Multi Latency",
        Test::Barrier => "MPI Barrier Latency",
        Test::Broadcast => "MPI Broadcast Latency",
        Test::Allreduce => "MPI Allreduce Latency",
        Test::Allgather => "MPI Allgather Latency",
        Test::Alltoall => "MPI All-to-All Personalized Exchange Latency",
        Test::Put => "MPI_Put Latency",
        Test::Get => "MPI_Get latency",
        Test::PutBw => "MPI_Put Bandwidth",
        Test::GetBw => "MPI_Get Bandwidth",
        Test::FetchAdd => "MPI_Fetch_and_op latency",
        Test::CompareSwap => "MPI_Compare_and_swap latency",
    }
}

const fn columns(test: Test) -> &'static str {
    match test {
        Test::Latency | Test::MultiLat => "# Size       Avg Latency(us)",
        Test::Put | Test::Get | Test::FetchAdd | Test::CompareSwap => "# Size          Latency (us)",
        Test::Bw | Test::Bibw | Test::PutBw | Test::GetBw => "# Size      Bandwidth (MB/s)",
        Test::Mr => "# Size                  MB/s        Messages/s",
        Test::Barrier => "# Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations",
        _ => "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations",
    }
}

fn line(row: &Row) -> String {
    let us = |ns: f64| ns / 1e3;
    let size = row.size_bytes;
    let mb_s = row.gb_s() * 1e3;
    let group = |first: String| {
        let (min, max) = (us(row.member_min_ns), us(row.member_max_ns));
        format!("{first}{min:>18.2}{max:>18.2}{:>12}", row.iterations)
    };
    match row.test {
        Test::Latency | Test::MultiLat | Test::Put | Test::Get | Test::FetchAdd | Test::CompareSwap => {
            format!("{size:<10}{:>18.2}", us(row.ns))
        }
        Test::Bw | Test::Bibw | Test::PutBw | Test::GetBw => format!("{size:<10}{mb_s:>18.2}"),
        Test::Mr => format!("{size:<10}{mb_s:>18.2}{:>18.2}", 1e9 / row.ns),
        Test::Barrier => group(format!("{:>17.2}", us(row.ns))),
        _ => group(format!("{size:<10}{:>18.2}", us(row.ns))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;

    fn row(test: Test, size_bytes: usize, ns: [f64; 3]) -> Row {
        Row {
            test,
            size_bytes,
            window: 64,
            iterations: 1000,
            ns: ns[0],
            member_min_ns: ns[1],
            member_max_ns: ns[2],
            readings_ns: Vec::new(),
        }
    }

    #[test]
    fn rows_are_those_of_the_benchmarks() {
        for (row, line) in [
            (row(Test::Latency, 1, [200.0; 3]), "1                       0.20"),
            (row(Test::Bw, 1024, [1024.0 / 2.16899; 3]), "1024                 2168.99"),
            (row(Test::Mr, 1, [1e9 / 13_401_766.07; 3]), "1                      13.40       13401766.07"),
            (
                row(Test::Barrier, 0, [530.0; 3]),
                "             0.53              0.53              0.53        1000",
            ),
            (row(Test::Put, 64, [3070.0; 3]), "64                      3.07"),
            (row(Test::PutBw, 32, [32.0 / 0.23731; 3]), "32                    237.31"),
            (row(Test::FetchAdd, 8, [400.0; 3]), "8                       0.40"),
            (
                row(Test::Allreduce, 4, [490.0, 430.0, 560.0]),
                "4                       0.49              0.43              0.56        1000",
            ),
        ] {
            assert_eq!(super::line(&row), line);
        }
    }

    #[test]
    fn the_heading_is_a_comment_and_has_the_columns() {
        let rows = vec![
            row(Test::Mr, 8, [100.0; 3]),
            row(Test::Barrier, 0, [100.0; 3]),
            row(Test::Put, 1, [860.0; 3]),
            row(Test::CompareSwap, 8, [40.0; 3]),
        ];
        let report = Report {
            schema: Report::SCHEMA.into(),
            env: Env::default(),
            environment: Vec::new(),
            nodes: None,
            path: None,
            cpus: [0, 1],
            pairs: 3,
            members: 2,
            window: 64,
            partial: false,
            rows,
        };
        let want = "\n# tieline mr, as OSU MPI Multiple Bandwidth / Message Rate Test v7.4\n\
                    # [ pairs: 3 ] [ window size: 64 ]\n# Datatype: MPI_CHAR.\n\
                    # Size                  MB/s        Messages/s\n\
                    8                      80.00       10000000.00\n\
                    \n# tieline barrier, as OSU MPI Barrier Latency Test v7.4\n\
                    # Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n\
                    \x20            0.10              0.10              0.10        1000\n\
                    \n# tieline put, as OSU MPI_Put Latency Test v7.4\n\
                    # Window creation: a segment of another node\n# Synchronization: a barrier\n\
                    # Datatype: MPI_CHAR.\n# Size          Latency (us)\n\
                    1                       0.86\n\
                    \n# tieline compare-swap, as OSU MPI_Compare_and_swap latency Test v7.4\n\
                    # Window creation: a segment of another node\n\
                    # Size          Latency (us)\n8                       0.04\n";
        assert_eq!(report.to_osu(), want);
    }
}
