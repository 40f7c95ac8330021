//! How long routing again takes after one cable died, and what it changes: `route_again RADIX`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use topology::build::{FatTree, fat_tree};
use topology::routing::{Engine, Lids, Request, View, check, route};
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
        let changes: Vec<_> = before.tables.changes(&after.tables).collect();
        let took = begin.elapsed();
        let view = View::of(&graph);
        // An entry that had to change: its port leads nowhere now, or to a switch that has no way any more.
        let led_there = |change: &&topology::routing::Changed| {
            let row = view.row(change.switch).unwrap();
            match view.beyond(row, change.before) {
                None => true,
                Some((there, _)) => {
                    let next = after.tables.port(view.switch(there), change.lid);
                    next.is_none_or(|port| {
                        view.beyond(there, port).is_some_and(|(back, _)| {
                            back == row
                                || after.plan.ranks().is_up(there, back)
                                    != after.plan.ranks().is_up(row, there)
                                || port != before.tables.port(view.switch(there), change.lid).unwrap_or(255)
                        })
                    })
                }
            }
        };
        let needed = changes.iter().filter(led_there).count();
        let switches: std::collections::BTreeSet<_> = changes.iter().map(|change| change.switch).collect();
        let blocks = before.tables.blocks_to_write(&after.tables).count();
        println!(
            "{took:?}: {} changes, {needed} had to, {} switches, {blocks} blocks {:?}",
            changes.len(),
            switches.len(),
            after.remarks
        );
        let checked = check(&graph, &after.tables);
        println!(
            "  lost {} switches {} loop {}",
            checked.lost,
            checked.lost_switches,
            checked.credit_loop.len()
        );
        before = after;
    }
}
