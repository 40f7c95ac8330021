//! Programs that nobody here wrote, run plain, and under `tieline run` or over the libfabric provider: the
//! same results, and about the same speed.
//!
//! What it is for: `./run test-programs`. Each case opens twice, once plain and once over tieline, with
//! servers of its own on loopback; what both say is compared word for word, then loads alternate in blocks
//! and the ratio decides.
//!
//! What it must never do: touch a process that it did not start, leave one behind, send anything beyond
//! loopback.
//!
//! Where to start reading: [`case`], then [`cases`].
#![forbid(unsafe_code)]

mod case;
mod cases;
mod judge;
mod options;
mod report;
mod room;
mod running;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let options = options::Options::parse();
    match run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            report::tell(&format!("test-programs: {error:#}"));
            ExitCode::from(4)
        }
    }
}

/// 0: all the same; 1: a difference; 3: some could not be tried here.
fn run(options: &options::Options) -> anyhow::Result<u8> {
    if options.list {
        for case in cases::ALL {
            report::say(&format!("{:<14} {}", case.name, case.what));
        }
        return Ok(0);
    }
    let chosen = options.chosen(cases::ALL)?;
    if options.packages {
        report::say(&report::packages(&chosen).join(" "));
        return Ok(0);
    }
    running::end_on_signals()?;
    let tieline = options.tieline()?;
    if options.rings {
        room::force_rings();
    }
    let mut results = Vec::new();
    for case in chosen {
        report::tell(&format!("{}: {}", case.name, case.what));
        let result = judge::judge(case, &tieline, options.blocks, options.seconds);
        report::tell(&format!("    {}", result.line()));
        results.push(result);
    }
    report::print(&results, options.json)?;
    Ok(report::status(&results))
}
