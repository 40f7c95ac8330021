//! Programs of MPI over Open MPI's own shared memory and over the provider, and one of OpenSHMEM.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::carried::Carried;
use crate::{
    case::{Case, NO_PACKAGE, Need, Over, Session},
    room::Room,
};

const LAUNCHER: Need = ("mpirun.openmpi", "openmpi-bin");
const COMPILER: Need = ("mpicc.openmpi", "libopenmpi-dev");
/// Longest that one of these programs may take, on two processors.
const PATIENCE: Duration = Duration::from_secs(120);
/// Processes of each job.
const RANKS: usize = 2;
const ROOT: [(&str, &str); 2] = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

/// What Open MPI is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Messages,
    /// One-sided operations as well.
    Windows,
}

impl Transport {
    fn words(self, is_over_provider: bool) -> Vec<&'static str> {
        let own = &["--mca", "pml", "ob1", "--mca", "btl", "vader,self"][..];
        let ofi = &[
            "--mca",
            "pml",
            "cm",
            "--mca",
            "mtl",
            "ofi",
            "--mca",
            "mtl_ofi_provider_include",
            "tieline",
            "--mca",
            "btl_base_warn_component_unused",
            "0",
        ][..];
        let windows = &[
            "--mca",
            "osc",
            "rdma",
            "--mca",
            "btl",
            "ofi,self",
            "--mca",
            "btl_ofi_provider_include",
            "tieline",
        ][..];
        let all: &[&[&str]] = match (is_over_provider, self) {
            (false, _) => &[own],
            (true, Self::Messages) => &[ofi],
            (true, Self::Windows) => &[ofi, windows],
        };
        all.concat()
    }
}

/// What a program has said: on standard output, and on standard error.
struct Words<'a> {
    room: &'a Room,
    out: &'a str,
    err: &'a str,
}

type Lines = fn(&Words<'_>) -> Result<Vec<String>>;

/// One program of a job, its arguments, and which of its lines are compared.
struct Job {
    words: Vec<String>,
    transport: Transport,
    lines: Lines,
}

struct Mpi {
    room: Room,
    jobs: Vec<Job>,
    carried: Carried,
}

impl Mpi {
    fn open(room: Room, jobs: Vec<Job>) -> Box<dyn Session> {
        Box::new(Self { room, jobs, carried: Carried::default() })
    }
}

impl Session for Mpi {
    fn check(&mut self) -> Result<Vec<String>> {
        let Self { room, jobs, carried } = self;
        let (mut all, ranks) = (Vec::new(), RANKS.to_string());
        for job in jobs {
            let mut words = vec!["--oversubscribe", "-n", &ranks];
            words.extend(job.transport.words(room.is_over_provider()));
            words.extend(job.words.iter().map(String::as_str));
            let said = room.start_with(LAUNCHER.0, &words, &ROOT)?.finish(PATIENCE)?;
            let err = said.err.clone();
            let out = said.good()?;
            if room.is_over_provider() {
                carried.add(&err, RANKS).with_context(|| job.words.join(" "))?;
            }
            let lines = (job.lines)(&Words { room, out: &out, err: &err })?;
            ensure!(!lines.is_empty(), "nothing to compare: {out}{err}");
            all.extend(lines);
        }
        Ok(all)
    }

    fn carried(&self) -> Option<String> {
        self.carried.words()
    }
}

fn all_lines(said: &Words<'_>) -> Result<Vec<String>> {
    Ok(said.out.lines().map(str::to_owned).collect())
}

/// A program of ours, compiled by the MPI's compiler.
fn compile(room: &Room, name: &str, source: &str) -> Result<String> {
    let file = room.file(&format!("{name}.c"), source)?.display().to_string();
    let program = room.text(name);
    room.prepare(COMPILER.0, &["-O2", "-o", &program, &file])?;
    Ok(program)
}

fn job(words: &[&str], transport: Transport, lines: Lines) -> Job {
    Job { words: words.iter().map(|word| (*word).to_owned()).collect(), transport, lines }
}

pub(in crate::cases) const OPENMPI: Case = Case {
    name: "openmpi-ofi",
    what: "Open MPI over the provider, `mtl ofi`: messages of all sizes, each byte checked, and a sum",
    over: Over::Provider,
    needs: &[COMPILER, LAUNCHER],
    open: |room| {
        let sizes = compile(&room, "mpi", include_str!("../../../files/mpi.c"))?;
        let jobs = vec![job(&[&sizes, "check"], Transport::Messages, all_lines)];
        Ok(Mpi::open(room, jobs))
    },
};

pub(in crate::cases) const OPENMPI_RMA: Case = Case {
    name: "openmpi-rma",
    what: "Open MPI's one-sided operations over the provider, `btl ofi`: put, get, sums, each byte checked",
    over: Over::Provider,
    needs: &[COMPILER, LAUNCHER],
    open: |room| {
        let source = include_str!("../../../../../crates/fi-provider/tests/mpi/onesided.c");
        let program = compile(&room, "onesided", source)?;
        let jobs = vec![job(&[&program, "3"], Transport::Windows, all_lines)];
        Ok(Mpi::open(room, jobs))
    },
};

pub(in crate::cases) const NETPIPE: Case = Case {
    name: "netpipe",
    what: "NetPIPE over Open MPI: round trips up to 1 MiB, with its check of data, and timed",
    over: Over::Provider,
    needs: &[("NPopenmpi", "netpipe-openmpi"), LAUNCHER],
    open: |room| {
        let limits = ["-l", "1", "-u", "1048576", "-n", "20"];
        let jobs = vec![
            job(&[&["NPopenmpi", "-i"], &limits[..]].concat(), Transport::Messages, netpipe_checks),
            // Not with `-2`: both send first then, and wait for ever for each other, over any transport.
            job(&[&["NPopenmpi"], &limits[..]].concat(), Transport::Messages, netpipe_sizes),
        ];
        Ok(Mpi::open(room, jobs))
    },
};

/// It says of each size whether all bytes were right.
fn netpipe_checks(said: &Words<'_>) -> Result<Vec<String>> {
    let is_result = |line: &&str| line.contains("-->");
    let lines: Vec<&str> = said.err.lines().chain(said.out.lines()).filter(is_result).collect();
    if let Some(wrong) = lines.iter().find(|line| !line.ends_with("Integrity check passed")) {
        anyhow::bail!("its check of data: {wrong}");
    }
    Ok(lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

/// Of its file of results only the sizes do not depend on time.
fn netpipe_sizes(said: &Words<'_>) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(said.room.path("np.out")).context("np.out")?;
    let sizes = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(sizes.map(|size| format!("{size} bytes are timed")).collect())
}

pub(in crate::cases) const HPCC: Case = Case {
    name: "hpcc",
    what: "HPC Challenge over Open MPI: its own checks of HPL, PTRANS, RandomAccess, FFT and the rest",
    over: Over::Provider,
    needs: &[("hpcc", "hpcc"), LAUNCHER],
    open: |room| {
        room.file("hpccinf.txt", include_str!("../../../files/hpccinf.txt"))?;
        let jobs = vec![job(&["hpcc"], Transport::Messages, hpcc_checks)];
        Ok(Mpi::open(room, jobs))
    },
};

/// The results of its checks; times, rates and residuals differ from run to run.
fn hpcc_checks(said: &Words<'_>) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(said.room.path("hpccoutf.txt")).context("hpccoutf.txt")?;
    ensure!(text.contains("End of HPC Challenge tests."), "it did not come to its end");
    ensure!(!text.contains("FAILED"), "one of its checks failed: {}", line_with(&text, "FAILED"));
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.contains("PASSED") {
            lines.push(format!("{} passed", line.split_whitespace().next().unwrap_or_default()));
        } else if line.starts_with("Success=") || line.contains("_Errors=") || line.ends_with("tests.") {
            lines.push(line.to_owned());
        }
    }
    ensure!(lines.iter().any(|line| line == "Success=1"), "it does not say that it succeeded");
    Ok(lines)
}

fn line_with<'a>(text: &'a str, words: &str) -> &'a str {
    text.lines().find(|line| line.contains(words)).unwrap_or_default().trim()
}

pub(in crate::cases) const IMB: Case = Case {
    name: "imb",
    what: "Intel MPI Benchmarks over Open MPI: messages, collectives, non-blocking ones and one-sided operations",
    over: Over::Provider,
    needs: &[("IMB-MPI1", NO_PACKAGE), ("IMB-NBC", NO_PACKAGE), ("IMB-RMA", NO_PACKAGE), LAUNCHER],
    open: |room| {
        let short = ["-msglog", "0:17", "-iter", "20", "-iter_policy", "off", "-npmin", "2"];
        let run =
            |program: &'static str, transport| job(&[&[program], &short[..]].concat(), transport, imb_rows);
        let jobs = vec![
            run("IMB-MPI1", Transport::Messages),
            run("IMB-NBC", Transport::Messages),
            run("IMB-RMA", Transport::Windows),
        ];
        Ok(Mpi::open(room, jobs))
    },
};

/// Which benchmarks ran, with which sizes and how often.
fn imb_rows(said: &Words<'_>) -> Result<Vec<String>> {
    let out = said.out;
    ensure!(out.contains("# All processes entering MPI_Finalize"), "it did not come to its end");
    let mut rows = Vec::new();
    for line in out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["#", "Benchmarking", name, ..] = words.as_slice() {
            rows.push(format!("benchmark {name}"));
        } else if let [size, repetitions, _, ..] = words.as_slice()
            && [size, repetitions].iter().all(|word| word.parse::<u64>().is_ok())
        {
            rows.push(format!("{size} bytes {repetitions} times"));
        }
    }
    Ok(rows)
}

pub(in crate::cases) const SHMEM: Case = Case {
    name: "openshmem",
    what: "Sandia OpenSHMEM, which knows libfabric only: put, get, atomic operations, signals, collectives",
    over: Over::Provider,
    needs: &[("oshcc", NO_PACKAGE), ("oshrun", NO_PACKAGE)],
    open: |room| {
        // Open MPI has programs of these names, too, which do not ask libfabric.
        let shown = room.prepare("oshcc", &["-show"])?;
        ensure!(
            shown.contains("-lsma"),
            "the first `oshcc` of PATH is not that of Sandia OpenSHMEM: build that from its source, docs/mpi.md"
        );
        let file = room.file("shmem.c", include_str!("../../../files/shmem.c"))?.display().to_string();
        let program = room.text("shmem");
        room.prepare("oshcc", &["-O2", "-o", &program, &file])?;
        Ok(Box::new(Shmem { room, program, carried: Carried::default() }))
    },
};

struct Shmem {
    room: Room,
    program: String,
    carried: Carried,
}

impl Session for Shmem {
    fn check(&mut self) -> Result<Vec<String>> {
        let Self { room, program, carried } = self;
        let provider = if room.is_over_provider() { "tieline" } else { "sockets" };
        let variables = [("SHMEM_OFI_PROVIDER", provider), ("FI_SOCKETS_IFACE", "lo")];
        let ranks = RANKS.to_string();
        let said = room.start_with("oshrun", &["-n", &ranks, program], &variables)?.finish(PATIENCE)?;
        let counted = said.err.clone();
        let out = said.good()?;
        if room.is_over_provider() {
            carried.add(&counted, RANKS)?;
        }
        ensure!(out.lines().last() == Some("done"), "it did not come to its end: {out}");
        Ok(out.lines().map(str::to_owned).collect())
    }

    fn carried(&self) -> Option<String> {
        self.carried.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_mpi_is_told_to_use_nothing_but_the_provider() {
        let words = Transport::Windows.words(true).join(" ");
        assert!(words.starts_with("--mca pml cm --mca mtl ofi"), "{words}");
        assert!(words.contains("--mca osc rdma --mca btl ofi,self"), "{words}");
        assert!(!Transport::Windows.words(false).join(" ").contains("ofi"));
    }
}
