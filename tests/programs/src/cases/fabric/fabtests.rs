//! libfabric's own test programs (fabtests): each as server and client on this machine, over `tcp` of
//! libfabric and over tieline.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::carried::Carried;
use crate::{
    case::{Case, NO_PACKAGE, Over, Session},
    room::Room,
    running::{self, Running},
};

/// Longest that the two ends of a test may take, and longest until the server listens.
const PATIENCE: Duration = Duration::from_secs(90);
const START: Duration = Duration::from_secs(20);

/// The tests, with their options beside those that all have.
const TESTS: &[&[&str]] = &[
    &["fi_rdm"],
    &["fi_rdm_pingpong", "-v", "-I", "100"],
    &["fi_rdm_pingpong", "-v", "-I", "100", "-c", "sread"],
    &["fi_rdm_pingpong", "-v", "-I", "100", "-c", "fd"],
    &["fi_rdm_tagged_pingpong", "-v", "-I", "100"],
    &["fi_rdm_tagged_pingpong", "-v", "-I", "100", "-c", "sread"],
    &["fi_rdm_tagged_pingpong", "-v", "-I", "100", "-c", "fd"],
    &["fi_rdm_tagged_bw", "-v", "-I", "100"],
    &["fi_rdm_cntr_pingpong", "-v", "-I", "100"],
    &["fi_rma_bw", "-v", "-I", "100", "-o", "write"],
    &["fi_rma_bw", "-v", "-I", "100", "-o", "read"],
    &["fi_rma_bw", "-v", "-I", "100", "-o", "writedata"],
    &["fi_rdm_atomic", "-I", "50", "-o", "all"],
    &["fi_rdm_rma_event"],
    &["fi_multi_mr", "-V"],
    &["fi_rdm_tagged_peek"],
    &["fi_bw", "-v", "-I", "100"],
    &["fi_cq_data"],
    &["fi_multi_recv", "-I", "100"],
    &["fi_recv_cancel", "-V"],
    &["fi_unexpected_msg"],
    &["fi_unmap_mem", "-I", "20"],
];

/// Those that libfabric's `tcp` lacks something for, or that do not listen at the port that they are told:
/// they must come to their end over tieline all the same.
const NOT_PLAIN: [&str; 5] =
    ["fi_rdm_rma_event", "fi_multi_mr", "fi_multi_recv", "fi_unexpected_msg", "fi_unmap_mem"];

pub(in crate::cases) const FABTESTS: Case = Case {
    name: "fabtests",
    what: "libfabric's own tests over the provider: messages, tags, memory, atomic operations, waits",
    over: Over::Provider,
    needs: &[
        ("fi_rdm_tagged_pingpong", NO_PACKAGE),
        ("fi_rdm_atomic", NO_PACKAGE),
        ("fi_rma_bw", NO_PACKAGE),
    ],
    open: |room| Ok(Box::new(Fabtests { room, carried: Carried::default() })),
};

struct Fabtests {
    room: Room,
    carried: Carried,
}

impl Session for Fabtests {
    fn check(&mut self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for test in TESTS {
            let name = test.join(" ");
            let is_compared = test.first().is_none_or(|of| !NOT_PLAIN.contains(of));
            if is_compared || self.room.is_over_provider() {
                let lines = self.one(test).with_context(|| name.clone())?;
                all.extend(lines.into_iter().filter(|_| is_compared));
            }
            all.push(format!("{name}: to its end"));
        }
        Ok(all)
    }

    fn carried(&self) -> Option<String> {
        self.carried.words()
    }
}

impl Fabtests {
    /// Runs both ends of a test: the sizes that it has measured.
    fn one(&mut self, test: &[&str]) -> Result<Vec<String>> {
        let Self { room, carried } = self;
        let port = room.port()?;
        let port_text = port.to_string();
        let [program, options @ ..] = test else { bail!("no program") };
        // Addresses of tieline are no IP addresses: they are exchanged over a connection beside.
        let (of_server, of_client) = if room.is_over_provider() {
            let beside = format!("-E={port}");
            (
                vec!["-p".to_owned(), "tieline".to_owned(), beside.clone()],
                vec!["-p".to_owned(), "tieline".to_owned(), beside],
            )
        } else {
            let provider = || ["-p".to_owned(), "tcp;ofi_rxm".to_owned()];
            let here = ["-s", "127.0.0.1", "-B", &port_text].map(str::to_owned);
            (
                [&provider()[..], &here].concat(),
                [&provider()[..], &["-P".to_owned(), port_text.clone()]].concat(),
            )
        };
        let words = |more: &[String], last: &[&'static str]| {
            let own = options.iter().map(|word| (*word).to_owned());
            own.chain(more.iter().cloned())
                .chain(last.iter().map(|word| (*word).to_owned()))
                .collect::<Vec<_>>()
        };
        let start = |words: Vec<String>| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            room.start_with(program, &words, &[("FI_TCP_IFACE", "lo")])
        };
        let server = start(words(&of_server, &[]))?;
        wait_until_it_listens(&server, port)?;
        let client = start(words(&of_client, &["127.0.0.1"]))?;
        // One that fails leaves the other waiting.
        let client = client.finish(PATIENCE).context("client")?;
        let (counted, out) = (client.err.clone(), client.good().context("client")?);
        let server = server.finish(PATIENCE).context("server")?;
        if room.is_over_provider() {
            carried.add(&[&counted, "\n", &server.err].concat(), 2)?;
        }
        server.good().context("server")?;
        Ok(sizes(&out))
    }
}

/// Who connects to the port would be taken for the client: so the kernel is asked.
fn wait_until_it_listens(server: &Running, port: u16) -> Result<()> {
    let start = Instant::now();
    loop {
        let tables =
            ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
        if tables.iter().any(|table| listens(table, port)) {
            return Ok(());
        }
        if let Some(reason) = server.ended()? {
            bail!("the server ended: {reason}");
        }
        running::check_interrupted()?;
        ensure!(start.elapsed() < START, "the server does not listen: {}", server.complaint());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a table of the kernel's has a socket that listens at the port (proc_net_tcp in the kernel's
/// documentation: state 0A).
fn listens(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next().unwrap_or_default(), words.nth(1));
        local.ends_with(&end) && state == Some("0A")
    })
}

/// Of the rows of a table what does not depend on time: the size, and how many were sent.
fn sizes(out: &str) -> Vec<String> {
    let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_row = words.len() >= 7 && words.iter().all(is_number);
        is_row.then(|| format!("{} bytes, {} times", words[0], words[1]))
    };
    out.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_listens_is_found_by_its_port() {
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:240C 00000000:0000 0A 00000000:0\n\
                     1: 0100007F:240D 0100007F:1111 01 0\n";
        assert!(listens(table, 0x240c) && !listens(table, 0x240d) && !listens(table, 0x40c));
    }

    #[test]
    fn rows_of_a_table_are_told_by_their_size_and_number() {
        let out = "bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                   64      100     12k         0.00s     94.12         0.68         1.47\n\
                   1k      100     200k        0.00s    294.12         0.68         1.47\nGOOD\n";
        assert_eq!(sizes(out), ["64 bytes, 100 times", "1k bytes, 100 times"]);
    }
}
