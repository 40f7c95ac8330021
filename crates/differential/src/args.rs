//! The command line's options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Random programs of socket calls, run plain and under a preloaded library, and compared.
#[derive(Debug, Parser)]
#[command(
    name = "differential",
    after_help = "Examples:\n  \
        differential run --programs 2000 --seed 1\n      \
        the kernel against itself: nothing may differ\n  \
        differential run --programs 2000 --preload target/debug/libtieline-sockets.so --save found\n      \
        the kernel against a library; what differs is made small and saved\n  \
        differential show 17\n      \
        the program of seed 17\n  \
        differential replay found/seed-17.txt --preload target/debug/libtieline-sockets.so\n      \
        what each call came to, on both sides\n  \
        differential shrink found/seed-17.txt --preload target/debug/libtieline-sockets.so\n\n\
        Exit status: 0 nothing differs, 1 something does, 2 wrong usage, 3 interrupted, 4 could not run.\n\
        How to read a difference: docs/differential.md"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run random programs
    Run(Run),
    /// Run one saved program and print what each call came to
    Replay(Replay),
    /// Make a saved program that differs smaller, and print it
    Shrink(Shrink),
    /// Print the program of a seed, or of a file
    Show(Show),
}

#[derive(Debug, Args)]
pub(crate) struct Under {
    /// The library; without it the kernel is compared with itself
    #[arg(long, value_name = "LIB")]
    pub(crate) preload: Option<PathBuf>,
    /// A variable of the environment, for the side with the library (may be given several times)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// How often a program that differs is repeated before that counts
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) repetitions: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) under: Under,
    /// How many programs
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) programs: u64,
    /// Seed of the first one; the others' follow it
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// At a time; two a processor unless said: one works while the other waits for a timeout
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
    /// End after so many differences, or twenty times as many programs that are suspicious
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) enough: usize,
    /// A family of moves that comes more often than others (may be given several times); a wrong name lists
    /// them
    #[arg(long, value_name = "FAMILY")]
    pub(crate) focus: Vec<String>,
    /// Programs with this word are left out (may be given several times)
    #[arg(long, value_name = "WORD")]
    pub(crate) without: Vec<String>,
    /// What is known to differ with a ring on each connection is counted apart, by name, and does not make
    /// the run fail
    #[arg(long)]
    pub(crate) known: bool,
    /// Where programs that differ are saved, made small
    #[arg(long, value_name = "FOLDER")]
    pub(crate) save: Option<PathBuf>,
    /// Say how many of the bytes went through memory, by the statistics of the project's own library (of the
    /// last 256 processes)
    #[arg(long, requires = "preload")]
    pub(crate) share: bool,
    /// Programs that differ only at first count as different
    #[arg(long)]
    pub(crate) strict: bool,
    /// The result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) under: Under,
    /// The saved program
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Shrink {
    #[command(flatten)]
    pub(crate) under: Under,
    /// The saved program
    pub(crate) file: PathBuf,
    /// Stop after so many seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub(crate) seconds: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A seed, or a saved program
    pub(crate) what: String,
}
