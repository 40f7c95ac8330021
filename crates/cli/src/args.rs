//! The command line.

mod bench;
pub(crate) mod bench_tools;
mod exit_help;
pub(crate) mod fabric;
mod fleet;
mod help;
mod hosts;
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

pub(crate) use bench::{Acceptance, Bench, Compare, CompareBuilds, Hosts, Limits, Scipp};
pub(crate) use fleet::{
    FleetAction, FleetCopy, FleetFetch, FleetInstall, FleetMenu, FleetReboot, FleetReport, FleetRun,
    FleetSelect, FleetSetup, FleetVerify,
};
pub(crate) use hosts::{ClusterAction, Init, Join, Leave, Renew};
pub(crate) use node::NodeAction;
pub(crate) use sockets::{Run, SocketsAction};

/// A cluster interconnect in software, and tools that test and measure it.
#[derive(Debug, Parser)]
#[command(
    name = "tieline",
    version,
    about = "A cluster interconnect in software, and tools that test and measure it",
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  tieline verify                 # start nine nodes here, test and measure them, print PASS or FAIL\n  \
                  tieline up --nodes 4           # start four nodes on this machine\n  \
                  tieline status                 # which nodes run, and whether all are connected\n  \
                  tieline down                   # stop the nodes\n\nExit status: 0 pass or done, 1 a check failed, 2 wrong usage or \
                  configuration, 3 inconclusive, 4 could not run."
)]
pub(crate) struct Cli {
    /// Options that all commands take.
    #[command(flatten)]
    pub common: Common,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Parses the words of a command line.
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

/// The command line as it is declared, with its help complete.
pub(crate) fn command() -> clap::Command {
    help::command()
}

/// Options that all commands take. The environment fills in those that are not given: see
/// `environment`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Common {
    /// Directory of the clusters' sockets [env: TIELINE_RUNTIME_DIR] [default: /run/tieline as root, else
    /// $XDG_RUNTIME_DIR/tieline, else $TMPDIR/tieline-UID or /tmp/tieline-UID]
    #[arg(long, global = true, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
    /// Name of the cluster, if several run on this machine [env: TIELINE_CLUSTER] [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Node that the command is about [env: TIELINE_NODE] [default: the only one]
    #[arg(long, visible_alias = "id", global = true, value_name = "ID")]
    pub node: Option<NodeId>,
    /// Configuration file, or directory of such files, instead of /etc/tieline/*.toml and the user's
    /// [env: TIELINE_CONFIG, read only by commands that start a manager]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the result as JSON; an error as an object with the field `error`
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress and no notes on standard error
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start nodes, each with its own manager, and wait until all are connected: on this machine, or over ssh
    #[command(after_help = "Examples:\n  tieline up                     # two nodes, 4 and 8\n  \
                            tieline up --nodes 9\n  tieline --cluster lab up --nodes 2\n  \
                            tieline up --hosts hosts.txt   # a node on each host of a list, over ssh\n  \
                            sudo tieline up --hosts-in-namespaces 3      # three hosts that share nothing, on this machine\n  \
                            sudo tieline up --hosts-in-namespaces 3 --rate 1gbit --delay 50us --loss 0.1%\n  \
                            sudo tieline up --hosts-in-namespaces 2 --rails 2      # each has two interfaces, eth0 and eth1\n  \
                            sudo tieline on host1 -- tieline status      # a command on one of them")]
    Up(Up),
    /// Stop all nodes of a cluster on this machine
    #[command(after_help = "Examples:\n  tieline down\n  tieline down --cluster lab\n  \
                            tieline node stop --node 8     # only one node")]
    Down(Down),
    /// Run a command on a host of `tieline up --hosts-in-namespaces`; its exit status is the command's
    #[command(
        after_help = "Examples:\n  sudo tieline on host1 -- tieline status\n  sudo tieline on host2 -- bash\n  \
                      sudo tieline on host2 --cluster lab -- ip address > addresses   # the file is written outside of the host\n\n\
                      The command sees the files of this machine, read-only, in place of which it has /run, /tmp, /var/tmp and /dev/shm of its \
                      host. It ends when `tieline on` or the host does."
    )]
    On(On),
    /// List the nodes and their sessions with each other
    #[command(after_help = "Examples:\n  tieline status                 # all nodes of the cluster\n  \
                            tieline status --node 8        # the services of one node\n  tieline status --json")]
    Status,
    /// List the clusters on this machine and their nodes
    #[command(
        after_help = "Examples:\n  tieline clusters               # also names the command that cleans up dead clusters\n  \
                            tieline clusters --json"
    )]
    Clusters,
    /// Show a node's ID, its adapters, the capabilities of their links, and which nodes it reaches by way of
    /// a relay
    #[command(after_help = "Examples:\n  tieline query                  # the only node here\n  \
                            tieline query --node 8\n  tieline query --node 8 --json\n  \
                            tieline query --brief --host rack1-a   # the ID of the node on that host\n  \
                            tieline query --messages       # thresholds of message queues")]
    Query(Query),
    /// Test the links: is each up, and does it lead to the planned node?
    #[command(
        after_help = "Examples:\n  tieline cable                          # every node linked with every other?\n  \
                            tieline cable --generate > plan.toml   # a plan to start from\n  \
                            tieline cable --save plan.toml         # the present links, if none is faulty\n  \
                            tieline cable --save plan.toml --measure   # with limits from the measured rates\n  \
                            tieline cable --plan plan.toml         # missing, extra, swapped, slow"
    )]
    Cable(Cable),
    /// Run the static test on all nodes: adapter, links, self test, nodes seen, sessions; compare their
    /// topologies
    #[command(after_help = "Examples:\n  tieline diag                   # all nodes of the cluster\n  \
                            tieline diag --node 8          # one of them\n  tieline diag -V 9              # with all counters\n  \
                            tieline diag -V 0              # the findings, and each node's result\n  \
                            tieline diag --prod            # on a cluster in use\n  \
                            tieline diag --hosts hosts     # compare with a list of the nodes")]
    Diag(Diag),
    /// Run the load test: every node sends checked data to every other
    #[command(
        after_help = "Examples:\n  tieline conntest               # all nodes of all hosts, ten seconds\n  \
                            tieline conntest -t 60 --throttle 100   # a minute, 100 MB/s per node: for a cluster in use\n  \
                            tieline conntest --node 4      # one instance; start the others on their nodes"
    )]
    Conntest(crate::commands::conntest::Conntest),
    /// Inject link faults: down, flap, swap, degrade
    #[command(after_help = "Examples:\n  tieline link list\n  tieline link down 4 8\n  \
                            tieline link flap 4 8 --count 5 --down 100ms\n  \
                            tieline link degrade 4 8 --loss 1%\n  \
                            tieline link degrade 4 8 --stall 5ms/1s --one-way\n  tieline link clear")]
    Link {
        /// The action.
        #[command(subcommand)]
        action: link::LinkAction,
    },
    /// Test and measure every node and every pair of a cluster; the result is PASS, FAIL or INCONCLUSIVE
    #[command(
        after_help = "Examples:\n  tieline verify                 # nine nodes, started and stopped for it\n  \
                            tieline verify --nodes 4\n  tieline verify --running       # the running cluster, which keeps running\n  \
                            tieline verify --report verify.html\n  \
                            tieline verify --from verify.json --report verify.html   # of an earlier run\n  \
                            tieline verify --running --bundle lab.tar.gz   # for support\n\n\
                            Steps: up (start the cluster), status (managers and sessions), diag (static test), cable (links), names (does each \
                            node ID lead to that node), exchange (checked transfer between every pair), load (all pairs at once), pairs (speed of \
                            every pair), hosts (speed of links between hosts, with --running), scipp (latency by message size on one pair), curves (bandwidth, DMA, interrupts, jitter on one pair), \
                            thresholds (if given), closing (have managers or links changed?)."
    )]
    Verify(Verify),
    /// Run, start, stop, restart or query the manager of one node
    #[command(after_help = "Examples:\n  tieline node start --node 12\n  tieline node status --node 12\n  \
                            tieline node stop --node 12")]
    Node {
        /// The action.
        #[command(subcommand)]
        action: NodeAction,
    },
    /// Create a cluster over several hosts, let other hosts join and leave it, renew and revoke certificates
    #[command(after_help = "Examples:\n  tieline cluster init --address 10.0.0.1   # on the first host\n  \
                            tieline node start --node 4; tieline cluster token\n  \
                            tieline cluster join 10.0.0.1 --token -   # on another host; reads the token from standard input\n  \
                            tieline node start --node 8\n\nWhat works between hosts so far: docs/hosts.md.")]
    Cluster {
        /// The action.
        #[command(subcommand)]
        action: ClusterAction,
    },
    /// Run commands on many hosts over ssh, copy files to and from them, compare them
    #[command(after_help = "Examples:\n  tieline fleet ping --hosts hosts.txt\n  \
                            tieline fleet run --on 'node[001-128]' uptime\n  \
                            tieline fleet copy --hosts hosts.txt /etc/hosts /etc/hosts\n  \
                            tieline fleet verify --hosts hosts.txt\n\n\
                            Your own ssh is used, with its configuration, keys, agent and known hosts. It asks nothing: what it would ask \
                            is an error of that host, with the next step.")]
    Fleet {
        /// The action.
        #[command(subcommand)]
        action: FleetAction,
    },
    /// Run a program with the sockets library preloaded; the program's exit status is the command's
    #[command(after_help = "Examples:\n  tieline run -- curl -s http://localhost/\n  \
                            tieline run --rings -- redis-server\n  \
                            tieline run --rings -- redis-benchmark -t get     # in another terminal\n  \
                            tieline run --stats s -- redis-server\n  \
                            tieline sockets stat --from s                     # when it has ended")]
    Run(Run),
    /// Show the connections of programs started by `tieline run`
    #[command(after_help = "Examples:\n  tieline sockets status\n  tieline sockets stat --json")]
    Sockets {
        /// The action.
        #[command(subcommand)]
        action: SocketsAction,
    },
    /// Measure which memory-copy routine is fastest for each size on this machine, and store the result for
    /// nodes that start later
    #[command(
        after_help = "Examples:\n  tieline tune                   # measure, unless this machine was measured before\n  \
                            tieline tune --renew           # measure again\n  tieline tune --show --json     # the plan in use\n\n\
                            TIELINE_COPY_PLAN names another plan: `libc` (the C library's memcpy), `table` (by the kind of \
                            processor, not measured), or a file."
    )]
    Tune(Tune),
    /// Observe, check, route and manage switched fabrics (InfiniBand)
    #[command(
        after_help = "Examples:\n  tieline fabric                         # check the fabric that this machine is connected to\n  \
                            tieline fabric generate net.toml fattree 8 2\n  tieline fabric route net.toml\n  \
                            tieline fabric serve net.toml --name lab     # and in another terminal\n  \
                            tieline fabric observe --ibsim lab"
    )]
    Fabric(Box<fabric::Fabric>),
    /// Run benchmarks, and compare results
    #[command(after_help = "Examples:\n  tieline bench scipp\n  tieline bench limits --json\n  \
                            tieline bench acceptance --only put")]
    Bench {
        /// The benchmark.
        #[command(subcommand)]
        bench: Bench,
    },
}

/// `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Number of nodes, 1 to 256; their IDs are 4, 8, 12, …
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub nodes: u32,
    /// Start the nodes with fault injection: needed for `tieline link degrade` and `swap`; `link down` then
    /// also discards stores through mapped segments
    #[arg(long)]
    pub faults: bool,
    /// Start a node on each host of this file, over ssh: a line for each, as `ssh` takes it, followed, if
    /// needed, by address=IP[:PORT] and node=ID. The first one creates the cluster, the others join it. The
    /// file of `tieline diag --hosts` has another form
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "faults", "hosts_in_namespaces"])]
    pub hosts: Option<PathBuf>,
    /// Start this many hosts, 2 to 64, each with one node, in namespaces of the kernel: they share no memory,
    /// file or socket, and are joined by a network of their own; needs root
    #[arg(long, value_name = "N", conflicts_with = "nodes", value_parser = clap::value_parser!(u32).range(HOSTS))]
    pub hosts_in_namespaces: Option<u32>,
    /// With --hosts-in-namespaces: number of networks between the hosts, 1 to 4; each host has one interface
    /// (eth0, eth1, …) in each
    #[arg(long, value_name = "N", default_value_t = 1, requires = "hosts_in_namespaces", conflicts_with_all = ["nodes", "hosts"],
          value_parser = clap::value_parser!(u32).range(RAILS))]
    pub rails: u32,
    /// With --hosts-in-namespaces: limit what each host sends, and what it receives, to this many bits per
    /// second on each of its interfaces, such as 1gbit or 100mbit [default: unlimited]
    #[arg(long, value_name = "RATE", requires = "hosts_in_namespaces", conflicts_with_all = ["nodes", "hosts"])]
    pub rate: Option<namespaces::Rate>,
    /// With --hosts-in-namespaces: delay of each frame from one host to another, one way, from 1us to 1s,
    /// such as 50us or 2ms [default: none]
    #[arg(long, value_name = "TIME", requires = "hosts_in_namespaces", conflicts_with_all = ["nodes", "hosts"])]
    pub delay: Option<namespaces::Delay>,
    /// With --hosts-in-namespaces: share of frames that are lost, chosen at random, from 0.0001% to 50%, such
    /// as 0.1% [default: none]
    #[arg(long, value_name = "SHARE", requires = "hosts_in_namespaces", conflicts_with_all = ["nodes", "hosts"])]
    pub loss: Option<namespaces::Loss>,
}

/// `down`.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Stop the nodes on each host of this file, over ssh (see `tieline up --help`); their keys stay
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
}

/// How many rails hosts may have.
const RAILS: std::ops::RangeInclusive<i64> = 1..=namespaces::RAILS_MAX as i64;

/// How many hosts there may be.
const HOSTS: std::ops::RangeInclusive<i64> = namespaces::HOSTS_MIN as i64..=namespaces::HOSTS_MAX as i64;

/// `on`.
#[derive(Debug, Args)]
pub(crate) struct On {
    /// The host: host1, host2, …
    #[arg(value_name = "HOST")]
    pub host: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub program: Vec<OsString>,
}

/// `tune`.
#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// Print the plan in use, and measure nothing
    #[arg(long, conflicts_with = "renew")]
    pub show: bool,
    /// Measure again, and store the new plan; running nodes keep the plan that they have
    #[arg(long)]
    pub renew: bool,
}

/// `query`.
#[derive(Debug, Args)]
pub(crate) struct Query {
    /// Show the node on this host, by the host name that the cluster knows
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Print only the node's ID; if the host has several nodes, the first one other than TIELINE_NODE
    #[arg(long)]
    pub brief: bool,
    /// Print only the node's ID, as `dis_config -gn` does for each card
    #[arg(long, conflicts_with_all = ["brief", "host"])]
    pub card: bool,
    /// Show the settings of message queues, and which way of a message is fastest here by its size;
    /// measures for some seconds, without a node
    #[arg(long, conflicts_with_all = ["brief", "host", "card"])]
    pub messages: bool,
}

/// `cable`.
#[derive(Debug, Args)]
pub(crate) struct Cable {
    /// Compare with this plan [default: every node linked with every other]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["generate", "save", "nodes", "measure", "force"])]
    pub plan: Option<PathBuf>,
    /// Print a plan in which every node is linked with every other, and test nothing
    #[arg(long, conflicts_with_all = ["save", "measure", "force"])]
    pub generate: bool,
    /// With --generate: number of nodes, numbered 4, 8, 12, … [default: the nodes of the cluster here]
    #[arg(long, value_name = "N", requires = "generate", conflicts_with_all = ["save", "measure", "force"], value_parser = clap::value_parser!(u32).range(1..=256))]
    pub nodes: Option<u32>,
    /// Save the present links as a plan, if none is faulty
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// With --save: measure the links between nodes of this host, and save limits derived from the rates,
    /// with a margin
    #[arg(long, requires = "save")]
    pub measure: bool,
    /// With --save: replace a plan that is there already
    #[arg(long, requires = "save")]
    pub force: bool,
}

/// `diag`.
#[derive(Debug, Args)]
pub(crate) struct Diag {
    /// How much to print, 0 to 9; each level adds to the one below it: 0 findings and the result of each
    /// node, 1 facts, links, tests and topology, 2 uptimes, 3 heartbeats, 4 injected faults, 5 capabilities,
    /// 6 durations, 7 programs, 8 segments, 9 counters
    #[arg(long, short = 'V', value_name = "LEVEL", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub verbosity: u8,
    /// Set the managers' counters to zero afterwards
    #[arg(long)]
    pub clear: bool,
    /// Safe for a cluster in production: run no test that writes to segments or triggers interrupts, and list
    /// what is left out
    #[arg(long)]
    pub prod: bool,
    /// Compare with this host file: lines `NODE-ID HOST`, or the classic HOSTNAME and ADAPTER lines. The list
    /// of `tieline up --hosts` has another form
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Test all nodes (the default)
    #[arg(long, conflicts_with = "node")]
    pub all: bool,
    /// Print in the format of the classic tool
    #[arg(long, hide = true)]
    pub classic: bool,
}

/// `verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Number of nodes to start for the test, 2 to 64
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(2..=64), conflicts_with = "running")]
    pub nodes: u32,
    /// Test the running cluster, which keeps running, with the nodes of all its hosts
    #[arg(long)]
    pub running: bool,
    /// Seed of the exchanged data
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run every step but `curves`, each for a short time: about ten seconds on an idle machine, several
    /// times that on a busy one, and up to 40 seconds more with --running on several hosts
    #[arg(long, conflicts_with_all = ["thorough", "health"])]
    pub quick: bool,
    /// Run each test for longer: about a minute and a half on an idle machine, and up to two minutes more
    /// with --running on several hosts
    #[arg(long, conflicts_with = "health")]
    pub thorough: bool,
    /// The links that the cluster should have: a plan as `tieline cable` writes it [default: every node that
    /// runs with every other]
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Judge the measurements of one pair by limits from a file, as `tieline bench thresholds` prints them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "health"])]
    pub thresholds: Option<PathBuf>,
    /// Compare with an earlier result, a file with the output of `tieline verify --json`; worse than that is
    /// a failure
    #[arg(long, value_name = "OLD.json", conflicts_with_all = ["quick", "health"])]
    pub baseline: Option<PathBuf>,
    /// Check the running nodes in a few seconds and print one line, for a job's prolog; measures nothing. A
    /// stopped node is reported only if --plan names the expected nodes
    #[arg(long, conflicts_with = "nodes")]
    pub health: bool,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Title of the page of --report
    #[arg(long, value_name = "TEXT", requires = "report")]
    pub title: Option<String>,
    /// Pack the result with logs, configuration and facts of the machine, without secrets, for support
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub bundle: Option<PathBuf>,
    /// Run no test: make the page of --report from a file with the output of `tieline verify --json`
    #[arg(long, value_name = "FILE", requires = "report", conflicts_with_all = ["nodes", "running", "seed", "quick", "thorough", "health", "plan", "thresholds", "baseline"])]
    pub from: Option<PathBuf>,
}
