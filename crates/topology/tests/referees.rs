//! What stock tools make of our files, and we of theirs. Each test says so and passes where the tools are not
//! installed (Debian's `opensm ibsim-utils infiniband-diags ibutils`).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use topology::build::*;
use topology::read::{Format, Reading, read};
use topology::{Graph, Kind, LinkSpec, NodeIx, Speed, Width, write};

/// Where the library lies that puts the simulator in a device's place.
const PRELOADS: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so",
    "/usr/lib/aarch64-linux-gnu/umad2sim/libumad2sim.so",
    "/usr/lib64/umad2sim/libumad2sim.so",
];
/// Rates that the simulator knows.
const LINK: LinkSpec = LinkSpec { width: Width::X4, speed: Speed::Qdr };

/// A simulator with a fabric; it ends with this.
struct Sim {
    child: Child,
    folder: tempfile::TempDir,
    preload: &'static str,
    socket: String,
    attach: String,
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sim {
    /// Nothing if the tools are not there.
    fn start(net: &[u8], attach: &str, called: &str) -> Option<Self> {
        let preload = PRELOADS.into_iter().find(|path| Path::new(path).exists());
        let there = |tool: &str| Command::new(tool).arg("-V").stdin(Stdio::null()).output().is_ok();
        let (Some(preload), true, true) = (preload, there("ibnetdiscover"), there("opensm")) else {
            println!("skipped: ibsim, ibnetdiscover or opensm is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net"), net).unwrap();
        let socket = format!("tieline-{}-{called}", std::process::id());
        let log = std::fs::File::create(folder.path().join("ibsim.log")).unwrap();
        // It dies with the thread that started it, also if the test is killed.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "ibsim", "-s", "-n", "-N", "4096", "-S", "1024", "-P", "100000"])
            .arg(folder.path().join("net"))
            .env("IBSIM_SOCKNAME", &socket)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let Ok(child) = child else {
            println!("skipped: no `setpriv` here");
            return None;
        };
        let sim = Self { child, folder, preload, socket, attach: attach.to_owned() };
        let until = Instant::now() + Duration::from_secs(30);
        while !sim.log().contains("simulator ready") {
            assert!(Instant::now() < until, "ibsim does not take our net: {}", sim.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(sim)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("ibsim.log")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, tool: &str, args: &[&str]) -> Vec<u8> {
        let out = Command::new("timeout")
            .args(["-s", "KILL", "60", tool])
            .args(args)
            .current_dir(self.folder.path())
            .env("LD_PRELOAD", self.preload)
            .env("IBSIM_SOCKNAME", &self.socket)
            .env("SIM_HOST", &self.attach)
            .env("OSM_CACHE_DIR", self.folder.path())
            .env("OSM_TMP_DIR", self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(out.status.success(), "{tool}: {}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }
}

fn believed(bytes: &[u8], format: Format) -> Reading {
    let reading = read(bytes, None).unwrap();
    assert_eq!(reading.format, format, "{}", reading.reason);
    let anomalies: Vec<_> = reading.anomalies.iter().take(5).collect();
    assert!(anomalies.is_empty(), "{anomalies:?}");
    reading
}

/// The simulator serves our net; what is discovered there, and what OpenSM dumps, is our graph.
fn there_and_back(graph: &Graph, called: &str) {
    let mut net = Vec::new();
    write::ibsim(graph, &mut net).unwrap();
    let host = graph.nodes_of(Kind::Host).next().unwrap();
    let Some(sim) = Sim::start(&net, graph.name(host), called) else { return };
    let dump = believed(&sim.run("ibnetdiscover", &[]), Format::IbNetDiscover);
    assert_eq!(graph.differences(&dump.graph, 5), [""; 0]);
    sim.run("opensm", &["-e", "-o", "-f", "osm.log"]);
    let list = believed(&std::fs::read(sim.path("opensm-subnet.lst")).unwrap(), Format::SubnetList);
    assert_eq!(graph.differences(&list.graph, 5), [""; 0]);
    let dump = believed(&sim.run("ibnetdiscover", &["-f"]), Format::IbNetDiscover);
    assert_eq!(graph.differences(&dump.graph, 5), [""; 0]);
    // Both know the LIDs that OpenSM gave out.
    for node in dump.graph.nodes() {
        let other = list.graph.node_by_guid(dump.graph.node_guid(node)).unwrap();
        for (port, _) in dump.graph.cabled(node) {
            let same = list.graph.port(other, dump.graph.number(port)).unwrap();
            assert_eq!(dump.graph.lid(port), list.graph.lid(same));
            assert_eq!(dump.graph.port_guid(port), list.graph.port_guid(same));
            assert_ne!(dump.graph.lid(port), 0);
        }
    }
}

#[test]
fn a_tree_there_and_back() {
    there_and_back(&fat_tree(&FatTree { link: LINK, ..FatTree::new(8, 3) }).unwrap(), "tree");
}

#[test]
fn parallel_cables_there_and_back() {
    there_and_back(&fat_tree(&FatTree { link: LINK, ..FatTree::new(36, 2).parallel(2) }).unwrap(), "324");
}

#[test]
fn a_torus_there_and_back() {
    let link = LinkSpec { width: Width::X12, speed: Speed::Ddr };
    there_and_back(&torus(&Torus { link, ..Torus::new(&[3, 3, 2], 1) }).unwrap(), "torus");
}

#[test]
fn a_broken_dragonfly_there_and_back() {
    let graph = dragonfly(&Dragonfly { link: LINK, ..Dragonfly::balanced(2) }).unwrap();
    let cable = graph.cabled(NodeIx(0)).last().unwrap().0;
    there_and_back(&graph.without(&[cable], &[]), "dragonfly");
}

/// Nodes without GUIDs in a net file get those that the simulator gives them.
#[test]
fn guids_are_the_simulator_s() {
    let net = b"Switch 4 \"sw1\"\n[1] \"h1\"[1]\n[2] \"sw2\"[2]\n\nHca 2 \"h1\"\n[1] \"sw1\"[1]\n\nSwitch 4 \"sw2\"\n[1] \"h2\"[1]\n[2] \"sw1\"[2]\n\nHca 1 \"h2\"\n[1] \"sw2\"[1]\n";
    let ours = believed(net, Format::IbSim).graph;
    let Some(sim) = Sim::start(net, "h1", "guids") else { return };
    let dump = believed(&sim.run("ibnetdiscover", &[]), Format::IbNetDiscover);
    let guids = |graph: &Graph| {
        graph
            .nodes()
            .map(|node| (graph.name(node).to_owned(), graph.node_guid(node)))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(guids(&ours), guids(&dump.graph));
}
