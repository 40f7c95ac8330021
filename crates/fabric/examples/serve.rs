//! Serves a fat tree until a file exists or it is told to quit: `serve BASE RADIX LEVELS CONTROL-SOCKET [up]`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "its result is what it prints")]

use fabric::server::{Options, serve};
use topology::build::{FatTree, fat_tree};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [base, radix, levels, control, rest @ ..] = words.as_slice() else {
        return Err("usage: serve BASE RADIX LEVELS CONTROL-SOCKET [up]".into());
    };
    let graph = fat_tree(&FatTree::new(radix.parse()?, levels.parse()?))?;
    println!("{} nodes, {} links", graph.node_count(), graph.link_count());
    let options = Options { base: base.clone(), control: Some(control.into()), bring_up: !rest.is_empty() };
    let served = serve(graph, &options, &mut |event| println!("{event:?}"), &|| false)?;
    println!("{served:?}");
    Ok(())
}
