//! Our tables beside OpenSM's on the same damaged fabric:
//! `route_rivals FABRIC PERCENT SEED DIRECTORY [ENGINE…]`, where the fabric is a word of [`fabric`], the
//! radix of a tree of three levels, or a file. Needs `opensm` and `ibsim`; each engine's run is bounded by
//! `timeout`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use topology::build::{
    FatTree, Island, Pgft, Size, Trunks, fat_tree, halls, pgft, trunks, uneven, with_aggregation, with_island,
};
use topology::quality::{Pattern, bandwidth, loads};
use topology::read::read;
use topology::recognise::recognise;
use topology::routing::auto::least_loads;
use topology::routing::referee::{read_fdbs, read_guid2lid};
use topology::routing::{Engine, Lids, Request, Tables, check, route, route_auto};
use topology::{Graph, Kind, LinkSpec, PortIx};

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

/// The fabrics by their words: `small/trunks`, `large/two-levels-with-an-island` and so on are those of
/// [`halls`]; a number is the radix of a fat tree of three levels, and anything else is a file.
fn fabric(word: &str) -> Graph {
    let link = LinkSpec::EDR4X;
    let tree = |radix, levels| FatTree::new(radix, levels);
    let whole = |shape: &FatTree| fat_tree(shape).unwrap();
    let (size, name) = word.split_once('/').unwrap_or(("", word));
    let of_size = |size| halls(size).unwrap().into_iter().find(|(known, _)| known.replace(' ', "-") == name);
    match size {
        "small" => return of_size(Size::Small).unwrap().1,
        "large" => return of_size(Size::Large).unwrap().1,
        _ => {}
    }
    match word {
        "deep" => {
            let (children, parents) = (vec![11, 6, 5, 2, 6], vec![1, 3, 2, 1, 3]);
            let tree = pgft(&Pgft { children, parents, parallel: vec![1, 4, 3, 6, 2], link }).unwrap();
            uneven(&tree, &[[11; 5].as_slice(), &[10; 19]].concat()).unwrap()
        }
        word if word.starts_with("trunks:") => {
            let cables = word[7..].split(',').map(|cables| cables.parse().unwrap()).collect();
            trunks(&Trunks { leaves: 20, hosts_per_leaf: 16, spines: 6, cables, link }).unwrap()
        }
        "all" => {
            let tree = tree(12, 3).subtrees(10);
            let island = with_island(&Island { tree, leaves: 4, hosts_per_leaf: 8, up: 12 }).unwrap();
            with_aggregation(&island).unwrap()
        }
        word => match word.parse() {
            Ok(radix) => whole(&tree(radix, 3)),
            Err(_) => read(&fs::read(word).unwrap(), None).unwrap().graph,
        },
    }
}

fn judge(graph: &Graph, name: &str, tables: &Tables, took: f64) {
    let (loads, checked) = (loads(graph, tables), check(graph, tables));
    let random = bandwidth(graph, tables, Pattern::Bisection { count: 200, seed: 1 });
    println!(
        "{name:16} bisection {:.4} up {:4} (mean {:.1}) down {:4} (mean {:.2}) lost {} of aggregation nodes {} switches {} loop {} VLs {} {took:.2} s",
        random.mean,
        loads.up.most,
        loads.up.mean,
        loads.down.most,
        loads.down.mean,
        checked.lost,
        checked.lost_aggregation,
        checked.lost_switches,
        checked.credit_loop.len(),
        checked.vls,
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let percent: f64 = words[1].parse().unwrap();
    let seed: u64 = words[2].parse().unwrap();
    let directory = Path::new(&words[3]);
    let graph = damaged(&fabric(&words[0]), percent, seed);
    let hosts = graph.nodes_of(Kind::Host).filter(|host| !graph.is_aggregation(*host)).count();
    let (switches, seen) = (graph.count(Kind::Switch), recognise(&graph));
    println!(
        "# {} faults {percent} % seed {seed}: {hosts} hosts, {switches} switches, {} ({:.2}) {:?}, {:?}",
        words[0],
        seen.shape.name(),
        seen.confidence,
        seen.against,
        least_loads(&graph)
    );
    let lids = Arc::new(Lids::assign(&graph, 0, |_| None).unwrap());
    for engine in [Engine::FatTree, Engine::Balanced, Engine::MinHop, Engine::UpDown, Engine::Layered] {
        let begin = Instant::now();
        let routing = route(&graph, &lids, &Request::by(engine)).unwrap();
        judge(&graph, engine.word(), &routing.tables, begin.elapsed().as_secs_f64());
        routing.notes.iter().for_each(|note| println!("  {note}"));
    }
    let begin = Instant::now();
    let routing = route_auto(&graph, &lids, &Request::by(Engine::Layered)).unwrap();
    judge(&graph, "auto", &routing.tables, begin.elapsed().as_secs_f64());
    println!("  {}", routing.notes[0]);
    for engine in &words[4..] {
        match rival(&graph, directory, engine) {
            Some((tables, took)) => judge(&graph, &format!("o:{engine}"), &tables, took),
            None => println!("o:{engine} made no tables"),
        }
    }
}
