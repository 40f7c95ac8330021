//! Sweeps the fabric of a simulator and says what it found: `sweep BASE NODE [WINDOW]`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "its result is what it prints")]

use fabric::sweep::{Options, sweep};
use mad::ibsim::IbsimTransport;
use mad::windowed::Limits;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [base, node, rest @ ..] = words.as_slice() else {
        return Err("usage: sweep BASE NODE [WINDOW]".into());
    };
    let window: usize = rest.first().map_or(Ok(0), |word| word.parse())?;
    let mut transport = IbsimTransport::connect(base, node)?;
    let options = Options { limits: Limits { window, ..Limits::default() }, ..Options::default() };
    let found = sweep(&mut transport, &options, &mut |_| (), &|| false)?;
    println!(
        "{} nodes, {} links, {} anomalies in {:.3} s; {:?}",
        found.graph.node_count(),
        found.graph.link_count(),
        found.anomalies.len(),
        found.took.as_secs_f64(),
        found.tally
    );
    found.anomalies.iter().take(20).for_each(|anomaly| println!("{anomaly}"));
    Ok(())
}
