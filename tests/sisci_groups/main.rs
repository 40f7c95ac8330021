//! Groups of the SISCI C API: C programs on several nodes, compiled against the headers and linked with the
//! library.
#![allow(clippy::unwrap_used, clippy::panic)]

mod membership;
mod stores;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tieline_tests::cluster::tieline_binary;
use tieline_tests::{Cluster, Peer};

const GROUP: u32 = 3;
const SIZE: u32 = 8192;

/// What a compiler makes of a store differs: each way once, the first as most programs have it.
const OPTIONS: [&str; 3] = ["-O2", "-O0", "-O3"];

/// The program of `tests/sisci/c`, compiled once with each of the options.
fn program(option: &str) -> PathBuf {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = BUILT.get_or_init(|| {
        let dir = tempfile::Builder::new().prefix("tieline-c-").tempdir().unwrap();
        OPTIONS.iter().for_each(|option| compile(option, dir.path()));
        dir
    });
    dir.path().join(option)
}

fn compile(option: &str, into: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let binary = tieline_binary().unwrap();
    let libraries = binary.parent().unwrap();
    assert!(libraries.join("libsisci.so").is_file(), "libsisci.so is not built: run `cargo build -p sisci`");
    let mut cc = Command::new("cc");
    cc.args([option, "-Wall", "-Werror", "-std=gnu11", "-I"]).arg(root.join("include/sisci"));
    if option == "-O3" {
        // All that this processor has.
        cc.arg("-march=native");
    }
    cc.arg(root.join("tests/sisci/c/group_node.c")).arg("-o").arg(into.join(option));
    cc.arg("-L").arg(libraries).arg("-lsisci").arg(format!("-Wl,-rpath,{}", libraries.display()));
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A C program on a node.
struct Program(Peer);

impl Program {
    fn start(cluster: &Cluster, node: usize) -> Self {
        Self::built_with(OPTIONS[0], cluster, node)
    }

    fn built_with(option: &str, cluster: &Cluster, node: usize) -> Self {
        let mut peer = Peer::start(cluster, program(option).to_str().unwrap(), node, &[]).unwrap();
        peer.expect("ready").unwrap();
        Self(peer)
    }

    fn member(cluster: &Cluster, node: usize) -> Self {
        let mut member = Self::start(cluster, node);
        assert_eq!(member.ask(&format!("join {GROUP} {SIZE}")), "joined");
        member
    }

    fn writer(cluster: &Cluster, node: usize) -> Self {
        let mut writer = Self::start(cluster, node);
        assert_eq!(writer.ask(&format!("connect {GROUP}")), format!("connected {SIZE}"));
        writer
    }

    fn ask(&mut self, line: &str) -> String {
        self.0.say(line).unwrap();
        self.0.line().unwrap()
    }

    fn get(&mut self, index: u32) -> u32 {
        self.ask(&format!("lget {index}")).parse().unwrap()
    }

    fn set(&mut self, index: u32, value: u32) {
        assert_eq!(self.ask(&format!("lset {index} {value}")), "ok");
    }

    fn store(&mut self, index: u32, value: u32) {
        assert_eq!(self.ask(&format!("rset {index} {value}")), "ok");
    }
}

/// Stores through the map until every member has it: then the writer knows them all.
fn reach(writer: &mut Program, members: &mut [Program]) {
    const PROBE: u32 = 2000;
    for round in 1.. {
        writer.store(PROBE, round);
        if members.iter_mut().all(|member| member.get(PROBE) == round) {
            return;
        }
        std::thread::yield_now();
    }
}

/// Members on all nodes but the first, where the writer is.
fn group_of(cluster: &Cluster, members: usize) -> (Program, Vec<Program>) {
    let mut members: Vec<_> = (1..=members).map(|node| Program::member(cluster, node)).collect();
    let mut writer = Program::writer(cluster, 0);
    reach(&mut writer, &mut members);
    (writer, members)
}
