//! Sweeps the fabric of a simulator and reads its counters: `counters BASE NODE [WINDOW]`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "its result is what it prints")]

use fabric::counters::{Options, Plan, collect};
use fabric::sweep;
use mad::ibsim::IbsimTransport;
use mad::windowed::Limits;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [base, node, rest @ ..] = words.as_slice() else {
        return Err("usage: counters BASE NODE [WINDOW]".into());
    };
    let window: usize = rest.first().map_or(Ok(0), |word| word.parse())?;
    let mut transport = IbsimTransport::connect(base, node)?;
    let found = sweep::sweep(&mut transport, &sweep::Options::default(), &mut |_| (), &|| false)?;
    println!("{} nodes, {} anomalies", found.graph.node_count(), found.anomalies.len());
    let mut plan = Plan::new(&found.graph);
    let limits = Limits { window, ..Limits::default() };
    for extended in [false, true, true] {
        let collected = collect(&mut transport, &mut plan, &Options { limits, extended }, &|| false)?;
        println!(
            "{} of {} ports in {:.3} s, {} missing; {:?}",
            collected.readings.len(),
            plan.ports(),
            collected.took.as_secs_f64(),
            collected.missing.len(),
            collected.tally
        );
    }
    Ok(())
}
