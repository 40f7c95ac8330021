//! How long routing and checking take on a tree of three levels: `route_speed RADIX [ENGINE]`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use topology::build::{FatTree, fat_tree};
use topology::routing::{Engine, Lids, Request, check, route};

fn main() {
    let mut words = std::env::args().skip(1);
    let radix: u32 = words.next().map_or(24, |word| word.parse().unwrap());
    let engine = match words.next().as_deref() {
        Some("minhop") => Engine::MinHop,
        Some("updown") => Engine::UpDown,
        Some("layered") => Engine::Layered,
        _ => Engine::FatTree,
    };
    let graph = fat_tree(&FatTree::new(radix, 3)).unwrap();
    let lids = Arc::new(Lids::assign(&graph, 0, |_| None).unwrap());
    for _ in 0..5 {
        let begin = Instant::now();
        let routing = route(&graph, &lids, &Request::by(engine)).unwrap();
        let routed = begin.elapsed();
        let checked = check(&graph, &routing.tables);
        println!("route {routed:?} check {:?}", begin.elapsed() - routed);
        println!("{checked:?} {} MB", (graph.memory() + routing.tables.memory()) / 1_000_000);
    }
}
