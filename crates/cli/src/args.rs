//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tieline::NodeId;

/// A cluster interconnect in software, with the tools that prove that it works and how fast it is.
#[derive(Debug, Parser)]
#[command(
    name = "tieline",
    version,
    about = "A cluster interconnect in software, with the tools that prove that it works and how fast it is",
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  tieline verify                 bring up nine nodes here, test and measure them, say a verdict\n  \
                  tieline up --nodes 4           start four nodes on this machine\n  \
                  tieline status                 which nodes run, and whether all see each other\n  \
                  tieline down                   stop them\n\nExit status: 0 pass or done, 1 a check failed, 2 wrong usage, \
                  3 inconclusive, 4 could not run."
)]
pub(crate) struct Cli {
    /// What all commands take.
    #[command(flatten)]
    pub common: Common,
    /// Which command.
    #[command(subcommand)]
    pub command: Command,
}

/// What all commands take.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Directory of the clusters' sockets [default: /run/tieline as root, else $XDG_RUNTIME_DIR/tieline, else a private one]
    #[arg(long, global = true, env = "TIELINE_RUNTIME_DIR", value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
    /// Which cluster, where several run side by side [default: default]
    #[arg(long, global = true, env = "TIELINE_CLUSTER", value_name = "NAME")]
    pub cluster: Option<String>,
    /// Which node this command is about or runs on [default: the only one]
    #[arg(long, global = true, env = "TIELINE_NODE", value_name = "ID")]
    pub node: Option<NodeId>,
    /// Configuration file instead of /etc/tieline/*.toml and the user's
    #[arg(long, global = true, env = "TIELINE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress on standard error
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start nodes on this machine, each with a manager of its own, and wait until all see each other
    #[command(after_help = "Examples:\n  tieline up --nodes 9\n  tieline --cluster lab up --nodes 2")]
    Up(Up),
    /// Stop all nodes of a cluster on this machine
    Down,
    /// Which nodes run, and whether each has a valid session with each other
    Status,
    /// This node: its id, adapters and what their links can do
    Query,
    /// Static test: adapter, links, self test, nodes seen, sessions; on all nodes, and their topologies compared
    #[command(
        after_help = "Examples:\n  tieline diag                   all nodes of the cluster\n  tieline --node 8 diag          one of them"
    )]
    Diag,
    /// Bring up a cluster (or take one that runs), test every node and every pair, measure, say a verdict
    #[command(
        after_help = "Examples:\n  tieline verify                 nine nodes, started and stopped for it\n  \
                            tieline verify --nodes 4\n  tieline verify --running       the cluster that runs, left running"
    )]
    Verify(Verify),
    /// The manager of one node
    Node {
        /// What to do.
        #[command(subcommand)]
        action: NodeAction,
    },
    /// Measure
    Bench {
        /// What to measure.
        #[command(subcommand)]
        bench: Bench,
    },
}

/// `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// How many nodes, numbered 4, 8, 12, …
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub nodes: u32,
}

/// `verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// How many nodes to start for the test
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(2..=64), conflicts_with = "running")]
    pub nodes: u32,
    /// Test the cluster that runs, and leave it running
    #[arg(long)]
    pub running: bool,
    /// Seed of the exchanged data
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `node`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeAction {
    /// Run the manager of a node in the foreground (what a service does)
    Run {
        /// Which node [default: from the configuration]
        #[arg(long)]
        id: Option<NodeId>,
        /// Leave the session of the terminal (what `start` and `up` do)
        #[arg(long, hide = true)]
        background: bool,
    },
    /// Start the manager of a node in the background
    Start {
        /// Which node.
        #[arg(long)]
        id: NodeId,
    },
    /// Stop it
    Stop {
        /// Which node.
        #[arg(long)]
        id: NodeId,
    },
    /// Stop and start it; its programs stay attached
    Restart {
        /// Which node.
        #[arg(long)]
        id: NodeId,
    },
    /// Whether it runs, and what it serves
    Status {
        /// Which node.
        #[arg(long)]
        id: NodeId,
    },
}

/// `bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Request and response by stores into remote memory: half round trip by size
    Scipp(Scipp),
    /// What this machine allows at this moment: cache line, copies, wake-ups, clock
    Limits,
    /// Every figure with a goal: measured beside its reference in alternating blocks
    Acceptance(Acceptance),
}

/// `bench scipp`.
#[derive(Debug, Args)]
pub(crate) struct Scipp {
    /// Be the server end, for the client on the node --rn
    #[arg(long, conflicts_with = "client", requires = "rn")]
    pub server: bool,
    /// Be the client end, which measures and prints
    #[arg(long, requires = "rn")]
    pub client: bool,
    /// Node of the other end
    #[arg(long, value_name = "ID")]
    pub rn: Option<NodeId>,
    /// Where messages lie: both in one line of one segment, or each in the other side's segment
    #[arg(long, value_enum, default_value_t = Placement::Shared)]
    pub placement: Placement,
    /// The classic table
    #[arg(long)]
    pub classic: bool,
}

/// Where messages of `scipp` lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Placement {
    /// Request and response in one cache line of one segment
    Shared,
    /// Each side writes into the other's segment, as on adapters without coherent loads
    Own,
}

impl From<Placement> for bench::patterns::pio::Placement {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Shared => Self::Shared,
            Placement::Own => Self::Own,
        }
    }
}

/// `bench acceptance`.
#[derive(Debug, Args)]
pub(crate) struct Acceptance {
    /// Only these figures
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub only: Vec<String>,
    /// Only list the figures
    #[arg(long)]
    pub list: bool,
}
