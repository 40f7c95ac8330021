//! Programs that measure sockets.

use anyhow::{Context, Result};

use crate::{
    case::{Case, Over, Session},
    room::Room,
    running::{self, Running},
};

pub(super) const IPERF3: Case = Case {
    name: "iperf3",
    what: "iperf3, one stream in messages of 128 KiB",
    over: Over::Sockets,
    needs: &[("iperf3", "iperf3")],
    open: |room| {
        let port = room.port()?;
        let port_text = port.to_string();
        let server = room.start("iperf3", &["-s", "--forceflush", "-B", "127.0.0.1", "-p", &port_text])?;
        // It would take a connection that says nothing for a client: its first word is enough.
        wait_for_words(&server, "Server listening")?;
        room.must_be_in(&server)?;
        Ok(Box::new(Iperf3 { room, port: port_text, _server: server }))
    },
};

fn wait_for_words(server: &Running, words: &str) -> Result<()> {
    for _ in 0..3000 {
        if server.said().contains(words) {
            return Ok(());
        }
        running::check_interrupted()?;
        if let Some(reason) = server.ended()? {
            anyhow::bail!("the server ended: {reason}");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    anyhow::bail!("the server does not say `{words}`: {}", server.complaint())
}

struct Iperf3 {
    room: Room,
    port: String,
    _server: Running,
}

impl Iperf3 {
    fn run(&self, more: &[&str]) -> Result<serde_json::Value> {
        let arguments = [&["-c", "127.0.0.1", "-p", &self.port, "-l", "128K", "-J"], more].concat();
        Ok(serde_json::from_str(&self.room.run("iperf3", &arguments)?)?)
    }
}

impl Session for Iperf3 {
    fn check(&mut self) -> Result<Vec<String>> {
        let mut said = Vec::new();
        for more in [&["-n", "64M"][..], &["-n", "64M", "-R"], &["-n", "64M", "-P", "4"]] {
            let bytes = self.run(more)?.pointer("/end/sum_sent/bytes").and_then(serde_json::Value::as_u64);
            // What was on its way when enough was sent is not always counted as received.
            said.push(format!("{more:?}: at least 64 MiB: {}", bytes.context("no sum")? >= 64 << 20));
        }
        Ok(said)
    }

    fn load(&mut self, seconds: u32) -> Result<Option<f64>> {
        let report = self.run(&["-t", &seconds.to_string()])?;
        let rate = report.pointer("/end/sum_received/bits_per_second").and_then(serde_json::Value::as_f64);
        Ok(Some(rate.context("no rate")? / 8e6))
    }

    fn unit(&self) -> &'static str {
        "MB/s"
    }
}

pub(super) const SOCKPERF: Case = Case {
    name: "sockperf",
    what: "sockperf ping-pong over TCP, 14 bytes, data checked",
    over: Over::Sockets,
    needs: &[("sockperf", "sockperf")],
    open: |room| {
        let port = room.port()?;
        let port_text = port.to_string();
        let server = room.start("sockperf", &["server", "--tcp", "-i", "127.0.0.1", "-p", &port_text])?;
        wait_for_words(&server, "listen")?;
        room.must_be_in(&server)?;
        Ok(Box::new(Sockperf { room, port: port_text, _server: server }))
    },
};

struct Sockperf {
    room: Room,
    port: String,
    _server: Running,
}

impl Sockperf {
    fn run(&self, seconds: u32, more: &[&str]) -> Result<String> {
        let seconds = seconds.to_string();
        let usual = ["ping-pong", "--tcp", "-i", "127.0.0.1", "-p", &self.port, "-m", "14", "-t", &seconds];
        // Its tables are of so many messages as slower networks carry, and rings carry more.
        self.room.run("sockperf", &[&usual[..], &["--mps=10000000"], more].concat())
    }
}

impl Session for Sockperf {
    fn check(&mut self) -> Result<Vec<String>> {
        let said = self.run(1, &["--data-integrity"])?;
        let line =
            said.lines().find(|line| line.contains("dropped messages")).context("no line about drops")?;
        Ok(vec![line.split("sockperf:").last().unwrap_or_default().trim().to_owned()])
    }

    fn load(&mut self, seconds: u32) -> Result<Option<f64>> {
        let said = self.run(seconds, &[])?;
        let line = said.lines().find(|line| line.contains("Latency is")).context("no latency")?;
        let us = line.split("Latency is").nth(1).and_then(|rest| rest.split_whitespace().next());
        let us: f64 = us.context("no latency")?.parse()?;
        Ok(Some(1e6 / us))
    }

    fn unit(&self) -> &'static str {
        "half round trips/s"
    }
}
