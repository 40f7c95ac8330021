//! Serves the fabric of a file of any format that is known (or a fat tree) until it is told to quit:
//! `serve BASE FILE|RADIXxLEVELS CONTROL-SOCKET [up]`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "its result is what it prints")]

use fabric::server::{Options, serve};
use topology::Graph;
use topology::build::{FatTree, fat_tree};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [base, what, control, rest @ ..] = words.as_slice() else {
        return Err("usage: serve BASE FILE|RADIXxLEVELS CONTROL-SOCKET [up]".into());
    };
    let graph = graph(what)?;
    println!("{} nodes, {} links", graph.node_count(), graph.link_count());
    let options = Options { base: base.clone(), control: Some(control.into()), bring_up: !rest.is_empty() };
    let served = serve(graph, &options, &mut |event| println!("{event:?}"), &|| false)?;
    println!("{served:?}");
    Ok(())
}

fn graph(what: &str) -> Result<Graph, Box<dyn std::error::Error>> {
    let tree =
        what.split_once('x').and_then(|(radix, levels)| Some((radix.parse().ok()?, levels.parse().ok()?)));
    match tree {
        Some((radix, levels)) => Ok(fat_tree(&FatTree::new(radix, levels))?),
        None => {
            let reading = topology::read::read(&std::fs::read(what)?, None)?;
            reading.anomalies.iter().take(10).for_each(|anomaly| println!("{anomaly}"));
            Ok(reading.graph)
        }
    }
}
