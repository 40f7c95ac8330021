//! The report of `pt2pt`, and its text.

use serde::{Deserialize, Serialize};

use super::Test;
use crate::{
    env::Env,
    layout::{
        osu,
        table::{Align, Table, size, three_digits},
    },
};

/// Result of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// [`Report::SCHEMA`].
    pub schema: String,
    /// Circumstances.
    pub env: Env,
    /// Variables that were set and change how message queues work.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Between hosts: the node of the end that measured, and the other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<[u32; 2]>,
    /// Between hosts: the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Processors of the ends of a pair; members of groups take turns on them. Operations on memory run on
    /// the first. Between hosts: of the first end on each host.
    pub cpus: [usize; 2],
    /// Pairs of the tests with several.
    pub pairs: usize,
    /// Members of groups.
    pub members: usize,
    /// Most messages under way.
    pub window: usize,
    /// It was ended early: the rows were measured before that.
    #[serde(default)]
    pub partial: bool,
    /// By test and size.
    pub rows: Vec<Row>,
}

/// One size of one test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The test.
    pub test: Test,
    /// Bytes of a message, or of a block; 0 of a barrier.
    pub size_bytes: usize,
    /// Messages under way.
    pub window: usize,
    /// Messages, calls or round trips of a reading.
    pub iterations: usize,
    /// Time of a message, of a call, or of half a round trip: the median of the readings.
    pub ns: f64,
    /// Of that reading, the shortest time of a member or of a pair.
    pub member_min_ns: f64,
    /// The longest.
    pub member_max_ns: f64,
    /// All readings, the shortest first.
    pub readings_ns: Vec<f64>,
}

impl Row {
    /// 10⁹ bytes a second.
    pub fn gb_s(&self) -> f64 {
        self.size_bytes as f64 / self.ns
    }

    /// The shortest and the longest reading.
    fn range_ns(&self) -> [f64; 2] {
        let first = self.readings_ns.first().copied().unwrap_or(self.ns);
        [first, self.readings_ns.last().copied().unwrap_or(first)]
    }
}

impl Report {
    /// Name of the form.
    pub const SCHEMA: &'static str = "tieline.pt2pt/1";

    /// The rows of each test, in order.
    fn tests(&self) -> impl Iterator<Item = (Test, &[Row])> {
        self.rows.chunk_by(|a, b| a.test == b.test).filter_map(|rows| Some((rows.first()?.test, rows)))
    }

    /// As the OSU micro-benchmarks print it, for scripts that read that.
    pub fn to_osu(&self) -> String {
        self.tests().map(|(test, rows)| osu::render(self, test, rows)).collect()
    }

    /// The tables.
    pub fn to_text(&self) -> String {
        let [near, far] = self.cpus;
        let mut text = match (&self.nodes, &self.path) {
            (Some([here, there]), Some(path)) => {
                format!("between nodes {here} and {there} over {path}, processor {near} here and {far} there")
            }
            _ => format!("between processors {near} and {far}"),
        };
        text.push_str(&format!("; median of {} readings, and their range\n", super::READINGS));
        if !self.environment.is_empty() {
            text.push_str(&format!("with {} of the environment\n", self.environment.join(", ")));
        }
        for (test, rows) in self.tests() {
            text.push_str(&format!("\n{}{}\n", test.name(), self.circumstances(test)));
            text.push_str(&table(test, rows));
        }
        text
    }

    fn of_memory(&self, what: &str) -> String {
        let near = self.cpus[0];
        match self.nodes {
            Some([_, there]) => format!(", {what}, on processor {near}; node {there} takes no part"),
            None => format!(", {what}, on processor {near}; the other node's end is in the same process"),
        }
    }

    fn circumstances(&self, test: Test) -> String {
        match test {
            Test::Latency => ", half a round trip".to_owned(),
            Test::Bw => ", one direction".to_owned(),
            Test::Bibw => ", both directions".to_owned(),
            Test::Mr => format!(", {} pairs, one direction", self.pairs),
            Test::Put => self.of_memory("a put and its barrier"),
            Test::Get => self.of_memory("a get"),
            Test::PutBw => self.of_memory("puts, a barrier for each window"),
            Test::GetBw => self.of_memory("gets"),
            Test::FetchAdd | Test::CompareSwap => self.of_memory("one word"),
            Test::MultiLat => format!(", {} pairs, half a round trip", self.pairs),
            _ => format!(", {} members", self.members),
        }
    }
}

fn table(test: Test, rows: &[Row]) -> String {
    let right = |name| (name, Align::Right);
    if test.is_bandwidth() {
        let columns = [right("size"), right("window"), right("GB/s"), ("range", Align::Left), right("M/s")];
        let mut table = Table::new(columns);
        for row in rows {
            let [short, long] = row.range_ns();
            let gb_s = |ns: f64| three_digits(row.size_bytes as f64 / ns);
            table.row([
                size(row.size_bytes as u64),
                row.window.to_string(),
                gb_s(row.ns),
                format!("{} … {}", gb_s(long), gb_s(short)),
                three_digits(1e3 / row.ns),
            ]);
        }
        return table.render();
    }
    let mut table = Table::new([right("size"), right("us"), ("range", Align::Left), right("repeated")]);
    for row in rows {
        let [short, long] = row.range_ns().map(|ns| three_digits(ns / 1e3));
        table.row([
            if row.size_bytes == 0 { "-".to_owned() } else { size(row.size_bytes as u64) },
            three_digits(row.ns / 1e3),
            format!("{short} … {long}"),
            row.iterations.to_string(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: Vec<Row>) -> Report {
        Report {
            schema: Report::SCHEMA.into(),
            env: Env::default(),
            environment: Vec::new(),
            nodes: None,
            path: None,
            cpus: [0, 1],
            pairs: 2,
            members: 4,
            window: 64,
            partial: false,
            rows,
        }
    }

    fn row(test: Test, size_bytes: usize, ns: f64) -> Row {
        Row {
            test,
            size_bytes,
            window: 64,
            iterations: 1000,
            ns,
            member_min_ns: ns * 0.9,
            member_max_ns: ns * 1.1,
            readings_ns: vec![ns * 0.5, ns, ns * 2.0],
        }
    }

    #[test]
    fn each_test_has_its_table_and_its_units() {
        let rows = vec![
            row(Test::Latency, 8, 150.0),
            row(Test::Latency, 1024, 300.0),
            row(Test::Mr, 8, 100.0),
            row(Test::Barrier, 0, 2500.0),
        ];
        let report = report(rows);
        let text = report.to_text();
        for line in [
            "latency, half a round trip",
            " 8 B  0.150  0.075 … 0.300      1000",
            "mr, 2 pairs, one direction",
            " 8 B      64  0.080  0.040 … 0.160  10.0",
            "barrier, 4 members",
            "   -  2.50  1.25 … 5.00      1000",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let back: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!((back.rows.len(), back.rows[2].test), (4, Test::Mr));
    }
}
