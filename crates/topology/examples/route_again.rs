//! How long routing again takes after one cable died, and what it changes: `route_again RADIX`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use topology::build::{FatTree, fat_tree};
use topology::routing::check::between;
use topology::routing::{Engine, Lids, Request, account, check, route};
use topology::{Kind, PortIx};

fn main() {
    let radix: u32 = std::env::args().nth(1).map_or(24, |word| word.parse().unwrap());
    let mut graph = fat_tree(&FatTree::new(radix, 3)).unwrap();
    let lids = Arc::new(Lids::assign(&graph, 0, |_| None).unwrap());
    let mut before = route(&graph, &lids, &Request::by(Engine::FatTree)).unwrap();
    let links: Vec<PortIx> = graph
        .links()
        .filter(|(a, b)| {
            graph.kind(graph.owner(*a)) == Kind::Switch && graph.kind(graph.owner(*b)) == Kind::Switch
        })
        .map(|(a, _)| a)
        .collect();
    for at in 0..8 {
        let dead = links[links.len() / 8 * at + at];
        graph = graph.without(&[dead], &[]);
        let begin = Instant::now();
        let again =
            Request { plan: Some(&before.plan), prior: Some(&before.tables), ..Request::by(Engine::FatTree) };
        let after = route(&graph, &lids, &again).unwrap();
        let changes = before.tables.changes(&after.tables).count();
        let took = begin.elapsed();
        println!("{took:?}: {changes} changes {:?}", after.notes);
        println!("  {:?}", account(&graph, &before, &after));
        let begin = Instant::now();
        let checked = check(&graph, &after.tables);
        println!(
            "  checked in {:?}: lost {} switches {} loop {}",
            begin.elapsed(),
            checked.lost,
            checked.lost_switches,
            checked.credit_loop.len()
        );
        let begin = Instant::now();
        let possible = between(&graph, &before.tables, &after.tables).len();
        println!("  between the two in {:?}: possible loop {possible}", begin.elapsed());
        before = after;
    }
}
