//! `tieline node`. `--node` names the node, as for all commands.

use clap::Subcommand;

/// `node`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeAction {
    /// Run the manager of a node in the foreground, as a service does
    #[command(after_help = "Examples:\n  tieline node run --node 4\n  \
                            tieline node run --config /etc/tieline/node.toml\n\nEnds on SIGTERM or SIGINT, and by \
                            `tieline down` or `tieline node stop`.")]
    Run {
        /// Leave the session of the terminal (what `start` and `up` do)
        #[arg(long, hide = true)]
        background: bool,
    },
    /// Start the manager of a node in the background, and wait until it is connected with all other
    /// nodes of the cluster on this host
    #[command(
        after_help = "Examples:\n  tieline node start --node 12\n  tieline node start --cluster lab --node 4\n\n\
                      `tieline status` shows whether it is connected with nodes of other hosts."
    )]
    Start,
    /// Stop the manager of a node; established connections of its programs continue
    #[command(after_help = "Examples:\n  tieline node stop --node 12")]
    Stop,
    /// Stop the manager of a node, if it runs, and start it; its programs stay attached
    #[command(after_help = "Examples:\n  tieline node restart --node 12")]
    Restart,
    /// Show whether the manager of a node runs, its programs and objects, and the path of its log
    #[command(
        after_help = "Examples:\n  tieline node status --node 12\n  tieline node status --node 12 --json"
    )]
    Status,
}
