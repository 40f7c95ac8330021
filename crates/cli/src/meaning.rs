//! Which command uses which of the common options. A command refuses an option that it does not use, because
//! the user expects an effect of it.

use anyhow::anyhow;

use crate::args::link::LinkAction;
use crate::args::{Bench, Cli, ClusterAction, Command, NodeAction};
use crate::exit::Failure;

/// What a command makes of the common options.
struct Meaning {
    /// As it is typed.
    name: &'static str,
    /// What `--node` means.
    node: Node,
    /// Why `--cluster` means nothing, if so.
    no_cluster: Option<&'static str>,
    /// It reads no runtime directory.
    no_runtime_dir: bool,
}

/// What `--node` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    /// The command acts on one node: the environment may name it too.
    One,
    /// It acts on all, or on the one that is named on the command line.
    Narrows,
    /// Nothing; and what to do instead.
    Nothing(&'static str),
    /// Nothing beside these options of the command; and why.
    NotWith(&'static str, &'static str),
}

const OWN_CLUSTER: &str = "it starts a cluster of its own";
const OWN_CLUSTERS_OF_BUILDS: &str = "each build starts clusters of its own";
const NO_CLUSTER_OF_SOCKETS: &str = "sockets of programs belong to no cluster";

/// Of a command that takes `--cluster` and `--runtime-dir`.
fn of(name: &'static str, node: Node) -> Meaning {
    Meaning { name, node, no_cluster: None, no_runtime_dir: false }
}

fn meaning(command: &Command) -> Meaning {
    match command {
        Command::Up(arguments) if arguments.hosts.is_some() => Meaning {
            no_runtime_dir: true,
            ..of("up --hosts", Node::Nothing("the file says which node a host becomes (`node=ID`)"))
        },
        Command::Down(arguments) if arguments.hosts.is_some() => Meaning {
            no_runtime_dir: true,
            ..of("down --hosts", Node::Nothing("it stops all nodes of each host"))
        },
        Command::Up(_) => of(
            "up",
            Node::Nothing(
                "it starts as many nodes as --nodes says; for one node: `tieline node start --node ID`",
            ),
        ),
        Command::Down(_) => {
            of("down", Node::Nothing("it stops all nodes; for one: `tieline node stop --node ID`"))
        }
        Command::On(_) => {
            of("on", Node::Nothing("the host is an argument, such as `tieline on host2 -- COMMAND`"))
        }
        Command::Status => of("status", Node::Narrows),
        Command::Cable(arguments) if arguments.generate || arguments.save.is_some() => {
            of("cable", Node::NotWith("--generate or --save", "a plan covers the whole cluster"))
        }
        Command::Cable(_) => of("cable", Node::Narrows),
        Command::Diag(_) => of("diag", Node::Narrows),
        Command::Query(arguments) if arguments.messages => Meaning {
            no_cluster: Some("it measures the machine, without a cluster"),
            no_runtime_dir: true,
            ..of("query --messages", Node::Nothing("it measures the machine, without a node"))
        },
        Command::Query(_) => of("query", Node::One),
        Command::Conntest(_) => of("conntest", Node::Narrows),
        Command::Link { action: LinkAction::List } => {
            of("link list", Node::Nothing("it lists the links of all nodes: leave --node out"))
        }
        Command::Link { .. } => of(
            "link",
            Node::Nothing("it names both ends of the link itself, such as `tieline link down 4 8`"),
        ),
        Command::Clusters => Meaning {
            no_cluster: Some("it lists all clusters; for one: `tieline status --cluster NAME`"),
            ..of("clusters", Node::Nothing("it lists all nodes; for one: `tieline node status --node ID`"))
        },
        Command::Verify(arguments) if arguments.running => {
            of("verify --running", Node::Nothing("it tests all nodes; for one: `tieline diag --node ID`"))
        }
        Command::Verify(_) => Meaning {
            no_cluster: Some("it starts a cluster of its own; for one that runs: `tieline verify --running`"),
            ..of("verify", Node::Nothing("it tests all nodes; for one: `tieline diag --node ID`"))
        },
        Command::Node { action } => of(of_node(action), Node::One),
        Command::Cluster { action } => of_cluster(action),
        Command::Fleet { .. } => Meaning {
            no_cluster: Some("hosts of a list belong to no cluster"),
            no_runtime_dir: true,
            ..of("fleet", Node::Nothing("name hosts with --on or --hosts"))
        },
        Command::Run(_) => Meaning {
            no_cluster: Some(NO_CLUSTER_OF_SOCKETS),
            ..of("run", Node::Nothing("it needs no node"))
        },
        Command::Sockets { .. } => Meaning {
            no_cluster: Some(NO_CLUSTER_OF_SOCKETS),
            ..of("sockets", Node::Nothing("programs with the sockets library belong to no node"))
        },
        Command::Tune(_) => Meaning {
            no_cluster: Some("the plan belongs to the machine, not to a cluster"),
            ..of("tune", Node::Nothing("the plan belongs to the machine, not to a node"))
        },
        Command::Fabric(_) => Meaning {
            no_cluster: Some("a switched fabric belongs to no cluster"),
            no_runtime_dir: true,
            ..of("fabric", Node::Nothing("nodes of a switched fabric are named by the command's own options"))
        },
        Command::Bench { bench } => of_bench(bench),
    }
}

/// As it is typed.
fn of_node(action: &NodeAction) -> &'static str {
    match action {
        NodeAction::Run { .. } => "node run",
        NodeAction::Start => "node start",
        NodeAction::Stop => "node stop",
        NodeAction::Restart => "node restart",
        NodeAction::Status => "node status",
    }
}

fn of_cluster(action: &ClusterAction) -> Meaning {
    match action {
        ClusterAction::Revoke { .. } => {
            of("cluster revoke", Node::Nothing("the node is an argument, such as `tieline cluster revoke 8`"))
        }
        ClusterAction::Show => Meaning {
            no_runtime_dir: true,
            ..of("cluster show", Node::Nothing("it shows all nodes that this host has"))
        },
        ClusterAction::Leave(_) => of("cluster leave", Node::Narrows),
        ClusterAction::Init(_) => of_membership("cluster init"),
        ClusterAction::Token { .. } => of_membership("cluster token"),
        ClusterAction::Join(_) => Meaning {
            no_cluster: Some("the cluster's name comes from the other host"),
            ..of_membership("cluster join")
        },
        ClusterAction::Renew(_) => of_membership("cluster renew"),
    }
}

/// Of an action on this host's membership, which no running node has a part in.
fn of_membership(name: &'static str) -> Meaning {
    Meaning { no_runtime_dir: true, ..of(name, Node::Narrows) }
}

fn of_bench(bench: &Bench) -> Meaning {
    match bench {
        Bench::Scipp(_) => of("bench scipp", Node::One),
        Bench::Scibench2(_) => of("bench scibench2", Node::One),
        Bench::Dma(_) => of("bench dma", Node::One),
        Bench::Intr(_) => of("bench intr", Node::One),
        Bench::Jitter(_) => of("bench jitter", Node::One),
        Bench::Latency(_) => of("bench latency", Node::One),
        Bench::Compare(_) => Meaning {
            no_cluster: Some("it reads two files, without a cluster"),
            no_runtime_dir: true,
            ..of("bench compare", Node::Nothing("it reads two files, without a node"))
        },
        Bench::CompareBuilds(_) => Meaning {
            no_cluster: Some(OWN_CLUSTERS_OF_BUILDS),
            no_runtime_dir: true,
            ..of("bench compare-builds", Node::Nothing(OWN_CLUSTERS_OF_BUILDS))
        },
        Bench::Thresholds => Meaning {
            no_cluster: Some("it prints what is built in, without a cluster"),
            no_runtime_dir: true,
            ..of("bench thresholds", Node::Nothing("it prints what is built in, without a node"))
        },
        Bench::Hosts(_) => of("bench hosts", Node::Nothing("name the ends with --from and --to")),
        Bench::Limits(_) => Meaning {
            no_cluster: Some("it measures the machine, without a cluster"),
            no_runtime_dir: true,
            ..of("bench limits", Node::Nothing("it measures the machine, without a node"))
        },
        Bench::Pt2pt(arguments) if arguments.rn.is_some() => of("bench pt2pt --rn", Node::One),
        Bench::Pt2pt(_) => Meaning {
            no_cluster: Some("its processes find each other without a cluster, or have one of their own"),
            no_runtime_dir: true,
            ..of(
                "bench pt2pt",
                Node::Nothing("its processes find each other without a node, or have nodes of their own"),
            )
        },
        Bench::Acceptance(_) => {
            Meaning { no_cluster: Some(OWN_CLUSTER), ..of("bench acceptance", Node::Nothing(OWN_CLUSTER)) }
        }
    }
}

/// Refuses what was given on the command line and means nothing there. The environment is another matter: it
/// is set once for many commands. Returns whether the command acts on one node.
pub(crate) fn check(cli: &Cli) -> Result<bool, Failure> {
    let Meaning { name, node, no_cluster, no_runtime_dir } = meaning(&cli.command);
    let refuse = |option: &str, why: &str| {
        Err(Failure::usage(anyhow!(
            "`tieline {name}` takes no {option}: {why} (see `tieline {name} --help`)"
        )))
    };
    match (cli.common.node, node) {
        (Some(_), Node::Nothing(why)) => return refuse("--node", why),
        (Some(_), Node::NotWith(options, why)) => {
            let text = anyhow!("--node cannot be used with {options}: {why}: leave --node out");
            return Err(Failure::usage(text));
        }
        _ => {}
    }
    if let (Some(_), Some(why)) = (&cli.common.cluster, no_cluster) {
        return refuse("--cluster", why);
    }
    if cli.common.runtime_dir.is_some() && no_runtime_dir {
        return refuse("--runtime-dir", no_cluster.unwrap_or("it needs none"));
    }
    if let Some(path) = &cli.common.config {
        // Also where no manager is started: a mistake in it is better said now.
        node::config::load(Some(path))?;
    }
    Ok(node == Node::One)
}
