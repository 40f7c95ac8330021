//! Our tables beside OpenSM's on the same damaged tree: `route_rivals RADIX PERCENT SEED DIRECTORY [ENGINE…]`.
//! Needs `opensm` and `ibsim`; each engine's run is bounded by `timeout`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use topology::build::{FatTree, fat_tree};
use topology::quality::{Pattern, bandwidth, loads};
use topology::routing::referee::{read_fdbs, read_guid2lid};
use topology::routing::{Engine, Lids, Request, Tables, check, route};
use topology::{Graph, Kind, PortIx};

const PRELOAD: &str = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";

/// A number below a limit.
fn below(state: &mut u64, limit: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) as usize) % limit
}

fn damaged(graph: &Graph, percent: f64, seed: u64) -> Graph {
    let is_switch = |port: PortIx| graph.kind(graph.owner(port)) == Kind::Switch;
    let mut links: Vec<PortIx> =
        graph.links().filter(|(a, b)| is_switch(*a) && is_switch(*b)).map(|(a, _)| a).collect();
    let count = (links.len() as f64 * percent / 100.0).round() as usize;
    let mut state = seed.wrapping_add(0x5DEE_CE66);
    let mut dead = Vec::new();
    for _ in 0..count {
        dead.push(links.swap_remove(below(&mut state, links.len())));
    }
    graph.without(&dead, &[])
}

fn net(graph: &Graph) -> String {
    let mut text = String::new();
    for node in graph.nodes() {
        let (word, key) =
            if graph.kind(node) == Kind::Switch { ("Switch", "switchguid") } else { ("Ca", "caguid") };
        let guid = graph.node_guid(node);
        writeln!(
            text,
            "{key}=0x{guid:x}\n{word} {} \"N{guid:016x}\" # \"{}\"",
            graph.port_count(node),
            graph.name(node)
        )
        .unwrap();
        for (near, far) in graph.cabled(node) {
            let owner = graph.owner(far);
            let own = if graph.kind(node) == Kind::Switch {
                String::new()
            } else {
                format!("({:x})", graph.port_guid(near))
            };
            writeln!(
                text,
                "[{}]{own} \"N{:016x}\"[{}]",
                graph.number(near),
                graph.node_guid(owner),
                graph.number(far)
            )
            .unwrap();
        }
        text.push('\n');
    }
    text
}

fn rival(graph: &Graph, directory: &Path, engine: &str) -> Option<(Tables, f64)> {
    let here = directory.join(engine);
    let _ = fs::remove_dir_all(&here);
    fs::create_dir_all(&here).unwrap();
    fs::write(here.join("net"), net(graph)).unwrap();
    let socket = format!("{}-{engine}-{}", directory.file_name()?.to_str()?, std::process::id());
    let first = graph.nodes_of(Kind::Host).find(|host| graph.cabled(*host).next().is_some())?;
    let mut ibsim = Command::new("ibsim")
        .args(["-s", "-n", "-N", "20000", "-S", "3000", "-P", "200000", "-L", "49151", "net"])
        .current_dir(&here)
        .env("IBSIM_SOCKNAME", &socket)
        .stdout(fs::File::create(here.join("ibsim.log")).unwrap())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let begin = Instant::now();
    let done = Command::new("timeout")
        .args(["600", "env"])
        .arg(format!("LD_PRELOAD={PRELOAD}"))
        .args(["opensm", "-o", "-R", engine, "-D", "0x43", "-f", "osm.log"])
        .arg("--dump_files_dir")
        .arg(&here)
        .current_dir(&here)
        .env("IBSIM_SOCKNAME", &socket)
        .env("SIM_HOST", format!("N{:016x}", graph.node_guid(first)))
        .env("OSM_CACHE_DIR", &here)
        .env("OSM_TMP_DIR", &here)
        .stdout(fs::File::create(here.join("opensm.out")).unwrap())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let took = begin.elapsed().as_secs_f64();
    let _ = ibsim.kill();
    let _ = ibsim.wait();
    if !done.success() {
        println!("  {engine}: {done}");
    }
    let lids = read_guid2lid(&fs::read_to_string(here.join("guid2lid")).ok()?).unwrap();
    let (tables, unknown) =
        read_fdbs(graph, &fs::read_to_string(here.join("opensm.fdbs")).ok()?, &lids).unwrap();
    assert_eq!(unknown, []);
    Some((tables, took))
}

fn judge(graph: &Graph, name: &str, tables: &Tables, took: f64) {
    let (loads, checked) = (loads(graph, tables), check(graph, tables));
    let random = bandwidth(graph, tables, Pattern::Bisection { count: 300, seed: 1 });
    let shifts = bandwidth(graph, tables, Pattern::Shifts { step: 17 });
    println!(
        "{name:10} max {:5} (up {} down {}) mean {:.2}/{:.2} bisection {:.4} shifts {:.4} worst {:.4} lost {} sw {} loop {} hops {:?} {took:.2} s",
        loads.most(),
        loads.up.most,
        loads.down.most,
        loads.up.mean,
        loads.down.mean,
        random.mean,
        shifts.mean,
        shifts.worst_pattern,
        checked.lost,
        checked.lost_switches,
        checked.credit_loop.len(),
        loads.hops,
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let radix: u32 = words[0].parse().unwrap();
    let percent: f64 = words[1].parse().unwrap();
    let seed: u64 = words[2].parse().unwrap();
    let directory = Path::new(&words[3]);
    let graph = damaged(&fat_tree(&FatTree::new(radix, 3)).unwrap(), percent, seed);
    println!("radix {radix} faults {percent} % seed {seed}");
    let lids = Arc::new(Lids::assign(&graph, 0, |_| None).unwrap());
    for engine in [Engine::FatTree, Engine::MinHop, Engine::UpDown, Engine::Layered] {
        let begin = Instant::now();
        let routing = route(&graph, &lids, &Request::by(engine)).unwrap();
        judge(&graph, engine.word(), &routing.tables, begin.elapsed().as_secs_f64());
    }
    for engine in &words[4..] {
        match rival(&graph, directory, engine) {
            Some((tables, took)) => judge(&graph, &format!("o:{engine}"), &tables, took),
            None => println!("o:{engine} made no tables"),
        }
    }
}
