//! Programs of others as judges: ibsim is brought up by the manager, infiniband-diags look at what came of
//! it, and a fabric that OpenSM has brought up is taken over; OpenSM beside it in one fabric is in
//! [`beside`]. What is not installed is skipped, and said so.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helpers"
)]

mod beside;
mod records;
mod registered;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mad::ibsim::IbsimTransport;
use subnet::{BroughtUp, Manager, Options};
use topology::build::{FatTree, fat_tree};
use topology::{Graph, Kind};

/// The library that stock programs are preloaded with.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";
/// Ends what hangs.
const WATCHDOG: Duration = Duration::from_secs(60);

fn missing(programs: &[&str]) -> bool {
    let found = |program: &str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let mut all = std::env::split_paths(&folders).chain(["/usr/sbin".into()]);
        all.any(|folder: PathBuf| folder.join(program).exists())
    };
    let mut lacking: Vec<&str> = programs.iter().copied().filter(|program| !found(program)).collect();
    if !Path::new(LIBRARY).exists() {
        lacking.push(LIBRARY);
    }
    if !lacking.is_empty() {
        println!("skipped: not installed: {}", lacking.join(", "));
    }
    !lacking.is_empty()
}

/// `ibsim` with a fabric, in a folder of its own; both go with the test.
struct Simulator {
    base: String,
    folder: PathBuf,
    child: Child,
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Simulator {
    fn new(name: &str, graph: &Graph) -> Self {
        let base = format!("tl-subnet-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(&base);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("net"), net(graph)).unwrap();
        let mut command = Command::new("ibsim");
        command.args(["-s", "-n", "net"]).current_dir(&folder).env("IBSIM_SOCKNAME", &base);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let this = Self { base, folder, child };
        let begun = Instant::now();
        while IbsimTransport::connect(&this.base, "host00001").is_err() {
            assert!(begun.elapsed() < WATCHDOG, "ibsim did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        this
    }

    /// A stock program at a node; what it printed.
    fn run(&self, node: &str, words: &[&str]) -> String {
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("timeout");
        command.arg("60").args(words).current_dir(&self.folder).env("PATH", path).stdin(Stdio::null());
        command.env("LD_PRELOAD", LIBRARY).env("IBSIM_SOCKNAME", &self.base).env("SIM_HOST", node);
        command.env("OSM_CACHE_DIR", &self.folder).env("OSM_TMP_DIR", &self.folder);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    fn bring_up(&self, node: &str) -> (Manager, BroughtUp) {
        let mut transport = IbsimTransport::connect(&self.base, node).unwrap();
        transport.set_is_sm(true).unwrap();
        let mut manager = Manager::new(Options::default()).unwrap();
        let up = manager.bring_up(&mut transport, &mut |_| (), &|| false).unwrap();
        transport.set_is_sm(false).unwrap();
        (manager, up)
    }
}

/// A graph as ibsim reads it.
fn net(graph: &Graph) -> String {
    let mut text = String::new();
    for node in graph.nodes() {
        let word = if graph.kind(node) == Kind::Switch { "Switch" } else { "Hca" };
        text += &format!("{word} {} \"{}\"\n", graph.port_count(node), graph.name(node));
        for (port, peer) in graph.cabled(node) {
            let (far, number) = (graph.name(graph.owner(peer)), graph.number(peer));
            text += &format!("[{}] \"{far}\"[{number}]\n", graph.number(port));
        }
        text += "\n";
    }
    text
}

/// What `iblinkinfo` calls active, and what `ibtracert` reaches, from every host to every fourth.
fn judged(simulator: &Simulator, manager: &Manager, links: usize) {
    let seen = simulator.run("host00001", &["iblinkinfo"]);
    assert_eq!(seen.matches("Active/  LinkUp").count(), 2 * links, "{seen}");
    assert_eq!(seen.matches("Initialize").count() + seen.matches("Armed").count(), 0);
    let model = manager.model().unwrap();
    let hosts: Vec<(u16, String)> = model
        .lids
        .iter()
        .map(|(lid, port)| (lid, model.graph.owner(port)))
        .filter(|(_, node)| model.graph.kind(*node) == Kind::Host)
        .map(|(lid, node)| (lid, model.graph.name(node).to_owned()))
        .collect();
    for (from, _) in hosts.iter().step_by(5) {
        for (to, name) in hosts.iter().step_by(4).filter(|(to, _)| to != from) {
            let route = simulator.run("host00001", &["ibtracert", &from.to_string(), &to.to_string()]);
            assert!(route.contains("To ca") && route.contains(name), "{from} to {to}: {route}");
        }
    }
}

#[test]
fn stock_programs_find_ibsims_fabric_active_and_routed() {
    if missing(&["ibsim", "iblinkinfo", "ibtracert"]) {
        return;
    }
    let graph = fat_tree(&FatTree::new(4, 3)).unwrap();
    let simulator = Simulator::new("up", &graph);
    let (manager, up) = simulator.bring_up("host00000");
    assert!(up.is_good(), "{up:?}");
    assert_eq!((up.nodes, up.active_links), (graph.node_count(), graph.link_count()));
    judged(&simulator, &manager, graph.link_count());
    // A second manager at the same port finds nothing to set. Elsewhere its own LID is another, and nodes are
    // found in another order, so that other tables may be as good; LIDs stay.
    let (_, again) = simulator.bring_up("host00000");
    assert_eq!(again.sets.total(), 0, "{again:?}");
    let (elsewhere, moved) = simulator.bring_up("host00007");
    assert_eq!((moved.failed_sets, moved.lost_pairs), (0, 0), "{moved:?}");
    judged(&simulator, &elsewhere, graph.link_count());
}

#[test]
fn a_fabric_of_opensm_is_taken_over_with_its_lids() {
    if missing(&["ibsim", "opensm", "iblinkinfo", "ibtracert"]) {
        return;
    }
    let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
    let simulator = Simulator::new("opensm", &graph);
    let log = simulator.folder.join("osm.log");
    simulator.run("host00000", &["opensm", "-e", "-o", "-R", "minhop", "-f", log.to_str().unwrap()]);
    let lids = |simulator: &Simulator| {
        let mut transport = IbsimTransport::connect(&simulator.base, "host00002").unwrap();
        let options = fabric::sweep::Options::default();
        let found = fabric::sweep::sweep(&mut transport, &options, &mut |_| (), &|| false).unwrap();
        let graph = &found.graph;
        let mut all: Vec<(u64, u16)> = graph
            .nodes()
            .flat_map(|node| graph.ports(node))
            .filter(|port| graph.lid(*port) != 0)
            .filter(|port| graph.kind(graph.owner(*port)) != Kind::Switch || graph.number(*port) == 0)
            .map(|port| (graph.port_guid(port), graph.lid(port)))
            .collect();
        all.sort_unstable();
        all
    };
    let before = lids(&simulator);
    assert_eq!(before.len(), graph.node_count());
    let (manager, up) = simulator.bring_up("host00000");
    assert_eq!((up.failed_sets, up.lost_pairs, up.active_links), (0, 0, graph.link_count()), "{up:?}");
    assert_eq!(lids(&simulator), before);
    judged(&simulator, &manager, graph.link_count());
}
