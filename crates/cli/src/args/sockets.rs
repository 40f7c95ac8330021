//! Options of `tieline run` and `tieline sockets`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `run`. The words are also read by `entry::words`, which must know the same ones.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Print which library is loaded, and the statistics file
    #[arg(long)]
    pub verbose: bool,
    /// Write statistics to this file, for `tieline sockets stat --from` [default: one in the
    /// runtime directory]
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
    /// Preload the library into this program only, not into programs that it starts
    #[arg(long)]
    pub no_children: bool,
    /// Move the bytes of TCP connections inside this machine through shared memory, after 1,000
    /// reads and writes (each 8 KiB counts as one more), if both programs run with --rings as the
    /// same user; give each a processor of its own; new, off by default
    #[arg(long)]
    pub rings: bool,
    /// Refuse a program into which the library cannot be preloaded (static, set-user-ID, Go),
    /// instead of running it without
    #[arg(long)]
    pub strict: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// `sockets`.
#[derive(Debug, Subcommand)]
pub(crate) enum SocketsAction {
    /// List the programs started by `tieline run` that use connections now
    #[command(after_help = "Examples:\n  tieline sockets status\n  tieline sockets status --json")]
    Status,
    /// Show the bytes of each connection, and why a connection is on TCP
    #[command(
        after_help = "Examples:\n  tieline sockets stat\n  tieline run --stats s -- curl -s example.org; tieline sockets stat --from s"
    )]
    Stat {
        /// Read this file, written by `tieline run --stats`; it also has programs that have ended
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// Only this process
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
    },
}
