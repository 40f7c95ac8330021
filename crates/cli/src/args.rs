//! The command line.

mod bench;
pub(crate) mod bench_tools;
pub(crate) mod fabric;
mod help;
pub(crate) mod link;
mod node;
mod sockets;
#[cfg(test)]
mod tests;
pub(crate) mod wrong;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, FromArgMatches, Parser, Subcommand};
use tieline::NodeId;

pub(crate) use bench::{Acceptance, Bench, Compare, CompareBuilds, Limits, Scipp};
pub(crate) use node::NodeAction;
pub(crate) use sockets::{Run, SocketsAction};

/// A cluster interconnect in software, with the tools that prove that it works and how fast it is.
#[derive(Debug, Parser)]
#[command(
    name = "tieline",
    version,
    about = "A cluster interconnect in software, with the tools that prove that it works and how fast it is",
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  tieline verify                 bring up nine nodes here, test and measure them, print a verdict\n  \
                  tieline up --nodes 4           start four nodes on this machine\n  \
                  tieline status                 which nodes run, and whether all see each other\n  \
                  tieline down                   stop them\n\nExit status: 0 pass or done, 1 a check failed, 2 wrong usage or \
                  configuration, 3 inconclusive, 4 could not run."
)]
pub(crate) struct Cli {
    /// What all commands take.
    #[command(flatten)]
    pub common: Common,
    /// Which command.
    #[command(subcommand)]
    pub command: Command,
}

/// What the words of a command line say.
pub(crate) fn parse<W: Into<OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let mut command = help::command();
    let parsed = command.try_get_matches_from_mut(&words);
    let parsed = parsed
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
    parsed.map_err(|error| wrong::mended(error, &mut command, &words))
}

/// What all commands take. The environment fills in what is not given: see `environment`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Directory of the clusters' sockets [env: TIELINE_RUNTIME_DIR] [default: /run/tieline as root, else
    /// $XDG_RUNTIME_DIR/tieline, else a private one]
    #[arg(long, global = true, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
    /// Which cluster, where several run side by side [env: TIELINE_CLUSTER] [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Which node, for a command about one [env: TIELINE_NODE] [default: the only one]
    #[arg(long, visible_alias = "id", global = true, value_name = "ID")]
    pub node: Option<NodeId>,
    /// Configuration, a file or a directory of them, instead of /etc/tieline/*.toml and the user's [env: TIELINE_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the result as JSON; of an error, an object with the field `error`
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
    #[command(after_help = "Examples:\n  tieline up                     two nodes, 4 and 8\n  \
                            tieline up --nodes 9\n  tieline --cluster lab up --nodes 2")]
    Up(Up),
    /// Stop all nodes of a cluster on this machine
    #[command(after_help = "Examples:\n  tieline down\n  tieline down --cluster lab\n  \
                            tieline node stop --node 8     only one node")]
    Down,
    /// Which nodes run, and whether each has a valid session with each other
    #[command(after_help = "Examples:\n  tieline status                 all nodes of the cluster\n  \
                            tieline status --node 8        the services of one node\n  tieline status --json")]
    Status,
    /// Which clusters there are on this machine, and which of their nodes run
    #[command(after_help = "Examples:\n  tieline clusters               with what removes the dead ones\n  \
                            tieline clusters --json")]
    Clusters,
    /// This node: its id, adapters and what their links can do
    #[command(after_help = "Examples:\n  tieline query                  the only node here\n  \
                            tieline query --node 8\n  tieline query --node 8 --json\n  \
                            tieline query --brief --host rack1-a   the number of the node on that host")]
    Query(Query),
    /// Connection test: each link, whether it is up, which node is at its other end, and whether the plan says so
    #[command(
        after_help = "Examples:\n  tieline cable                          every node linked with every other?\n  \
                            tieline cable --generate > plan.toml   a plan to begin with\n  \
                            tieline cable --save plan.toml         what stands now, if all is well\n  \
                            tieline cable --save plan.toml --measure   with limits from what the links reach now\n  \
                            tieline cable --plan plan.toml         missing, extra, swapped, slow\n\n\
                            Exit status: 0 as planned, 1 not, 2 the plan or the command line is wrong, 3 a measurement leaves it \
                            open, 4 could not run or not be written."
    )]
    Cable(Cable),
    /// Static test: adapter, links, self test, nodes seen, sessions; on all nodes, and their topologies compared
    #[command(after_help = "Examples:\n  tieline diag                   all nodes of the cluster\n  \
                            tieline diag --node 8          one of them\n  tieline diag -V 9              with all counters\n  \
                            tieline diag -V 0              only what is wrong\n  \
                            tieline diag --prod            while others work on the cluster\n  \
                            tieline diag --hosts hosts     are all that should be there, there?")]
    Diag(Diag),
    /// Load test: every node sends checked data to every other
    #[command(after_help = "Examples:\n  tieline conntest               all nodes here, ten seconds\n  \
                            tieline conntest -t 60 --throttle 100   a minute, 100 MB/s a node: for a cluster that works\n  \
                            tieline conntest --node 4      one instance; start the others on their nodes")]
    Conntest(crate::commands::conntest::Conntest),
    /// Inject faults into links, to check that the tests notice them
    #[command(after_help = "Examples:\n  tieline link list\n  tieline link down 4 8\n  \
                            tieline link flap 4 8 --count 5 --down 100ms\n  \
                            tieline link degrade 4 8 --loss 1%\n  \
                            tieline link degrade 4 8 --stall 5ms/1s --one-way\n  tieline link clear")]
    Link {
        /// What to do.
        #[command(subcommand)]
        action: link::LinkAction,
    },
    /// Bring up a cluster (or take one that runs), test every node and every pair, measure, print a verdict
    #[command(
        after_help = "Examples:\n  tieline verify                 nine nodes, started and stopped for it\n  \
                            tieline verify --nodes 4\n  tieline verify --running       the cluster that runs, left running\n  \
                            tieline verify --report verify.html\n  \
                            tieline verify --from verify.json --report verify.html   of an earlier run\n  \
                            tieline verify --running --bundle lab.tar.gz   for whoever has to help"
    )]
    Verify(Verify),
    /// The manager of one node: run, start, stop, restart it, or print its state
    #[command(after_help = "Examples:\n  tieline node start --node 12\n  tieline node status --node 12\n  \
                            tieline node stop --node 12")]
    Node {
        /// What to do.
        #[command(subcommand)]
        action: NodeAction,
    },
    /// Run a program with the sockets library in it; the program's exit status is the command's
    #[command(after_help = "Examples:\n  tieline run -- curl -s http://localhost/\n  \
                            tieline run --rings -- redis-server; tieline run --rings -- redis-benchmark -t get\n  \
                            tieline run --stats s -- redis-server; tieline sockets stat --from s\n\n\
                            Exit status: the program's; 127 there is no such program, 126 it cannot be executed, 2 wrong usage, \
                            4 the library is missing, the file of --stats cannot be made, or --strict and the library cannot enter the program.")]
    Run(Run),
    /// What programs started by `tieline run` do with their connections
    #[command(after_help = "Examples:\n  tieline sockets status\n  tieline sockets stat --json")]
    Sockets {
        /// What to show.
        #[command(subcommand)]
        action: SocketsAction,
    },
    /// Which copy kernel serves which sizes on this machine: measured once, and used by all nodes that start from then on
    #[command(
        after_help = "Examples:\n  tieline tune                   measure, if that was not done on this machine yet\n  \
                            tieline tune --renew           measure again\n  tieline tune --show --json     what is used now\n\n\
                            TIELINE_COPY_PLAN names another plan: `libc` (the C library's memcpy), `table` (by the kind of \
                            processor, not measured), or a file.\n\n\
                            Exit status: 0 done, 3 measured but not kept, because the machine was busy, 4 could not run."
    )]
    Tune(Tune),
    /// Switched fabrics: see them, judge them, route them
    #[command(
        after_help = "Examples:\n  tieline fabric                         what is wrong with the fabric behind this machine\n  \
                            tieline fabric generate net.toml fattree 8 2\n  tieline fabric route net.toml\n  \
                            tieline fabric serve net.toml --name lab     and in another terminal\n  \
                            tieline fabric observe --ibsim lab"
    )]
    Fabric(Box<fabric::Fabric>),
    /// Measure
    #[command(after_help = "Examples:\n  tieline bench scipp\n  tieline bench limits --json\n  \
                            tieline bench acceptance --only put")]
    Bench {
        /// What to measure.
        #[command(subcommand)]
        bench: Bench,
    },
}

/// `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// How many nodes, 1 to 256, numbered 4, 8, 12, …
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub nodes: u32,
    /// With faults: `tieline link` can degrade links and swap cables, and a link that is down stops raw stores too
    #[arg(long)]
    pub faults: bool,
}

/// `tune`.
#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// Print the plan that is used now, and measure nothing
    #[arg(long, conflicts_with = "renew")]
    pub show: bool,
    /// Measure again, and keep the new plan; running nodes keep the plan they have
    #[arg(long)]
    pub renew: bool,
}

/// `query`.
#[derive(Debug, Args)]
pub(crate) struct Query {
    /// The node on this host, as the nodes of the cluster know it
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Only the node's number; of several nodes on the host the first, but the own node last
    #[arg(long)]
    pub brief: bool,
    /// Only the node's number, as `dis_config -gn` prints it for each card
    #[arg(long, conflicts_with_all = ["brief", "host"])]
    pub card: bool,
}

/// `cable`.
#[derive(Debug, Args)]
pub(crate) struct Cable {
    /// Judge by this plan [default: every node linked with every other]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["generate", "save", "nodes", "measure", "force"])]
    pub plan: Option<PathBuf>,
    /// Print a plan in which every node is linked with every other, and test nothing
    #[arg(long, conflicts_with_all = ["save", "measure", "force"])]
    pub generate: bool,
    /// With --generate: for so many nodes, numbered 4, 8, 12, … [default: the nodes of the cluster here]
    #[arg(long, value_name = "N", requires = "generate", conflicts_with_all = ["save", "measure", "force"], value_parser = clap::value_parser!(u32).range(1..=256))]
    pub nodes: Option<u32>,
    /// Write the present links as a plan, if nothing is wrong with them
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// With --save: measure all links, and write limits that they keep now, with a margin
    #[arg(long, requires = "save")]
    pub measure: bool,
    /// With --save: replace a plan that is there already
    #[arg(long, requires = "save")]
    pub force: bool,
}

/// `diag`.
#[derive(Debug, Args)]
pub(crate) struct Diag {
    /// How much to print, 0 to 9; each level adds to the one below it: 0 only what was found, 1 facts, links, tests and
    /// topology, 2 since when, 3 heartbeats, 4 faults on purpose, 5 capabilities, 6 durations, 7 programs, 8 segments, 9
    /// counters
    #[arg(long, short = 'V', value_name = "LEVEL", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub verbosity: u8,
    /// Set the managers' counters to zero afterwards
    #[arg(long)]
    pub clear: bool,
    /// Safe for a cluster in production: moves no data, triggers no interrupts, and lists what it leaves out
    #[arg(long)]
    pub prod: bool,
    /// Compare with this host file: lines `NODE-ID HOST`, or the classic HOSTNAME and ADAPTER lines
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// All nodes, as if none were named
    #[arg(long, conflicts_with = "node")]
    pub all: bool,
    /// Print in the format of the classic tool
    #[arg(long, hide = true)]
    pub classic: bool,
}

/// `verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// How many nodes to start for the test, 2 to 64
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(2..=64), conflicts_with = "running")]
    pub nodes: u32,
    /// Test the cluster that runs, and leave it running
    #[arg(long)]
    pub running: bool,
    /// Seed of the exchanged data
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Every step but `curves`, each briefly: ten seconds
    #[arg(long, conflicts_with_all = ["thorough", "health"])]
    pub quick: bool,
    /// Longer tests: about a minute and a half
    #[arg(long, conflicts_with = "health")]
    pub thorough: bool,
    /// Which nodes should be linked: a plan as `tieline cable` writes it; without one, every node with every other
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Judge what is measured of one pair by limits from a file, as `tieline bench thresholds` prints them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "health"])]
    pub thresholds: Option<PathBuf>,
    /// Compare with an earlier result, a file with the output of `tieline verify --json`; worse than that is a failure
    #[arg(long, value_name = "OLD.json", conflicts_with_all = ["quick", "health"])]
    pub baseline: Option<PathBuf>,
    /// Only whether the running cluster is sound: seconds, one line, and the exit status; for a job's prolog
    #[arg(long, conflicts_with = "nodes")]
    pub health: bool,
    /// Write the report as one HTML page, too
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The heading of the page, such as the customer and the system
    #[arg(long, value_name = "TEXT", requires = "report")]
    pub title: Option<String>,
    /// Pack the result with logs, configuration and the machine's facts, without secrets, for support
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub bundle: Option<PathBuf>,
    /// Run nothing: make the page of --report from a file with the output of `tieline verify --json`
    #[arg(long, value_name = "FILE", requires = "report", conflicts_with_all = ["nodes", "running", "seed", "quick", "thorough", "health", "plan", "thresholds", "baseline"])]
    pub from: Option<PathBuf>,
}
