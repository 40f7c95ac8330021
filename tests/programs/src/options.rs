//! The command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::case::Case;

/// Runs well-known programs plain and under `tieline run`, compares what they say, and how fast they are.
#[derive(Debug, Parser)]
#[command(
    name = "tieline-test-programs",
    after_help = "\
Examples:
  tieline-test-programs                        all of them, some minutes
  tieline-test-programs --only redis,nginx     two of them
  tieline-test-programs --blocks 30 --json     enough blocks for a verdict on speed, for a program to read

Exit status: 0 all the same, 1 a difference, 2 wrong usage, 3 some could not be tried here, 4 could not run."
)]
pub(crate) struct Options {
    /// Only these, by name.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Alternating blocks of load, plain and under the library.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) blocks: u32,
    /// Seconds of one load.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    pub(crate) seconds: u32,
    /// Under the library each connection inside the machine goes through memory, from its first use on.
    #[arg(long)]
    pub(crate) rings: bool,
    /// The binary to test; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    tieline: Option<PathBuf>,
    /// Prints a document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints the names and ends.
    #[arg(long)]
    pub(crate) list: bool,
    /// Prints the Debian packages that are missing here and ends.
    #[arg(long)]
    pub(crate) packages: bool,
}

impl Options {
    pub(crate) fn chosen(&self, all: &'static [Case]) -> Result<Vec<&'static Case>> {
        if self.only.is_empty() {
            return Ok(all.iter().collect());
        }
        let find = |name: &String| {
            let found = all.iter().find(|case| case.name == name);
            found.with_context(|| format!("no program is named `{name}`; --list shows the names"))
        };
        self.only.iter().map(find).collect()
    }

    pub(crate) fn tieline(&self) -> Result<PathBuf> {
        let path = match &self.tieline {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("tieline"),
        };
        if !path.is_file() {
            bail!("{} is not there: `./run build` makes it, --tieline names another", path.display());
        }
        Ok(path.canonicalize()?)
    }
}
