//! Options of `tieline run` and `tieline sockets`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `run`. The words are also read by `entry::words`, which must know the same ones.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Say which library is loaded and where is counted
    #[arg(long)]
    pub verbose: bool,
    /// Count in this file, for `tieline sockets stat --from` [default: one in the runtime directory]
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
    /// Only this program: what it starts runs without the library
    #[arg(long)]
    pub no_children: bool,
    /// Move the bytes of connections inside this machine through shared memory, if both programs run with --rings; new, and off without this
    #[arg(long)]
    pub rings: bool,
    /// Refuse a program that the library cannot enter, instead of running it plain
    #[arg(long)]
    pub strict: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// `sockets`.
#[derive(Debug, Subcommand)]
pub(crate) enum SocketsAction {
    /// Programs started by `tieline run` that use connections now, one a line
    #[command(after_help = "Examples:\n  tieline sockets status\n  tieline sockets status --json")]
    Status,
    /// Bytes of each connection, and why connections are on TCP
    #[command(
        after_help = "Examples:\n  tieline sockets stat\n  tieline run --stats s -- curl -s example.org; tieline sockets stat --from s"
    )]
    Stat {
        /// Read the file of `tieline run --stats`, in which those that have ended are kept
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// Only this process
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
    },
}
