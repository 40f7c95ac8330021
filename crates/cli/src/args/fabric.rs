//! `tieline fabric`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `fabric`; without a further word, `observe`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Fabric {
    /// What to do.
    #[command(subcommand)]
    pub action: Option<FabricAction>,
    /// What to look at.
    #[command(flatten)]
    pub observe: Observe,
}

/// What to do with a fabric.
#[derive(Debug, Subcommand)]
pub(crate) enum FabricAction {
    /// What is wrong with a fabric, live or from a file; nothing is ever set
    #[command(
        after_help = "Examples:\n  tieline fabric observe                 the fabric behind this machine's first port\n  \
                      tieline fabric observe --ibsim lab     one that `tieline fabric serve` or ibsim serves\n  \
                      tieline fabric observe --from dump.ibnetdiscover --plan plan.toml\n  \
                      tieline fabric observe --save now.json --html now.html\n  \
                      tieline fabric observe --from now.json --since before.json --worst integrity\n  \
                      tieline fabric observe --route hostA hostB\n\n\
                      Exit status: 0 nothing is wrong, 1 something is, 2 wrong usage or no fabric in the file, 3 something could \
                      not be judged, 4 could not run or not be written."
    )]
    Observe(Box<Observe>),
    /// Simulate a fabric, so that stock programs and `observe` can look at it, until Ctrl-C or the line `quit`
    #[command(after_help = "Examples:\n  tieline fabric serve net.toml --name lab\n  \
                            IBSIM_SOCKNAME=lab ibsim-run ibnetdiscover     in another terminal\n  \
                            echo 'unlink leaf000 1' | tieline fabric serve net.toml     commands on standard input\n\n\
                            Commands: unlink, relink NODE PORT; down, up NODE; counter NODE PORT NAME VALUE; counters, port NODE \
                            PORT; lose NODE PORT THOUSANDTHS; describe NODE TEXT; clients; quit.")]
    Serve(Serve),
    /// Compute forwarding tables, check them, say how good they are
    #[command(
        after_help = "Examples:\n  tieline fabric route net.toml\n  tieline fabric route net.toml --engine updown\n  \
                            tieline fabric route net.toml --without leaf000/19 --without spine001\n  \
                            tieline fabric route net.toml --dump tables     for ibdmchk and OpenSM"
    )]
    Route(Route),
    /// How good tables are: those that are there, or those of an engine
    #[command(
        after_help = "Examples:\n  tieline fabric quality net.toml\n  tieline fabric quality now.json\n  \
                            tieline fabric quality dump.ibnetdiscover --lfts opensm.fdbs"
    )]
    Quality(Tabled),
    /// Check tables that are there: do all reach each other, and can traffic wait for itself in a circle?
    #[command(
        after_help = "Examples:\n  tieline fabric check now.json\n  tieline fabric check --ibsim lab\n  \
                            tieline fabric check dump.ibnetdiscover --lfts opensm.fdbs\n  \
                            tieline fabric check opensm-subnet.lst --lfts opensm.fdbs --sl opensm.psl --sl2vl opensm.slvl"
    )]
    Check(Check),
    /// What taking a switch or cables out for maintenance would do
    #[command(
        after_help = "Examples:\n  tieline fabric drain net.toml spine001\n  tieline fabric drain net.toml leaf000/19\n  \
                            tieline fabric drain --ibsim lab spine001     the live fabric, of which nothing is set"
    )]
    Drain(Drain),
    /// Two fabrics side by side, each with the routes that fit it
    #[command(after_help = "Examples:\n  tieline fabric compare now.toml planned.toml")]
    Compare(Pair),
    /// In what two fabrics and their tables differ, exactly
    #[command(after_help = "Examples:\n  tieline fabric diff before.json now.json\n  \
                            tieline fabric diff --net dump.ibnetdiscover old.fdbs new.fdbs     tables alone")]
    Diff(Diff),
    /// Turn a file of a fabric into another form, by the end of its name
    #[command(after_help = "Examples:\n  tieline fabric convert dump.ibnetdiscover net.toml\n  \
                            tieline fabric convert net.toml topology.conf\n  tieline fabric convert net.toml - --to ibsim")]
    Convert(Convert),
    /// Draw a fabric
    #[command(after_help = "Examples:\n  tieline fabric draw net.toml net.svg")]
    Draw(Draw),
    /// Make a well-known shape of any size
    #[command(
        after_help = "Examples:\n  tieline fabric generate net.toml fattree 36 2     radix, levels\n  \
                            tieline fabric generate net.net dragonfly 4        hosts a switch\n  \
                            tieline fabric generate net.toml torus 4x4x4 --hosts 2\n  \
                            tieline fabric generate - hypercube 5 --to ibsim"
    )]
    Generate(Generate),
}

/// A live fabric.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Live {
    /// Through the simulator that serves under this name: ibsim, or `tieline fabric serve`
    #[arg(long, value_name = "NAME", conflicts_with = "umad")]
    pub ibsim: Option<String>,
    /// With --ibsim: stand at this node, by description or GUID [default: where the simulator says]
    #[arg(long, value_name = "NODE", requires = "ibsim", conflicts_with = "umad")]
    pub at: Option<String>,
    /// Through the kernel's device of this number: 0 is /dev/infiniband/umad0
    #[arg(long, value_name = "NUMBER")]
    pub umad: Option<u32>,
    /// Milliseconds until a question is repeated
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeout: u64,
    /// Repetitions before a question is given up
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub retries: u32,
}

/// `fabric observe`.
#[derive(Debug, Args)]
pub(crate) struct Observe {
    /// Look at this file instead: a snapshot of --save, or a topology in any form that `convert` reads
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ibsim", "at", "umad", "watch", "times"])]
    pub from: Option<PathBuf>,
    /// The live fabric.
    #[command(flatten)]
    pub live: Live,
    /// List all nodes
    #[arg(long)]
    pub nodes: bool,
    /// List all links
    #[arg(long)]
    pub links: bool,
    /// The way between two ports: descriptions, GUIDs, LIDs, or one of these with /PORT
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub route: Option<Vec<String>>,
    /// Judge by this plan: a topology in any form; missing, extra and swapped by name and port
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// What changed since this snapshot; counters are judged by what they grew
    #[arg(long, value_name = "SNAPSHOT")]
    pub since: Option<PathBuf>,
    /// The ten ports with most of it: integrity, congestion, security, routing, data, or a counter's name
    #[arg(long, value_name = "CATEGORY")]
    pub worst: Option<String>,
    /// What a counter may reach, such as symbol_errors=100; again for others
    #[arg(long, value_name = "NAME=N")]
    pub threshold: Vec<String>,
    /// Leave the counters out
    #[arg(long, conflicts_with = "watch")]
    pub no_counters: bool,
    /// Leave the forwarding tables out
    #[arg(long)]
    pub no_tables: bool,
    /// Then read the counters again every so many seconds, and say what grew
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "10", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub watch: Option<u32>,
    /// With --watch: so many times, then end
    #[arg(long, value_name = "N", requires = "watch")]
    pub times: Option<u64>,
    /// Keep what was seen in this file; every report runs on it
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write the report as one HTML page with a drawing, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `fabric serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The fabric: a file in any form that can be read
    #[arg(value_name = "FABRIC")]
    pub file: PathBuf,
    /// Name under which programs find it: their IBSIM_SOCKNAME
    #[arg(long, value_name = "NAME", default_value = "sim")]
    pub name: String,
    /// Take commands on this socket, too, a line each
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Leave LIDs, tables and link states to a subnet manager, instead of serving the fabric as one left it
    #[arg(long)]
    pub bare: bool,
}

/// A fabric for what needs no counters: a file, or live.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// A file in any form that can be read; without one the live fabric
    #[arg(value_name = "FABRIC", conflicts_with_all = ["ibsim", "at", "umad"])]
    pub file: Option<PathBuf>,
    /// The live one.
    #[command(flatten)]
    pub live: Live,
}

/// How to route.
#[derive(Debug, Args)]
pub(crate) struct Engine {
    /// auto, minhop, updown, fattree, balanced, layered, grid or dragonfly
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub engine: String,
    /// Roots of a tree, by name; again for others [default: found]
    #[arg(long, value_name = "SWITCH")]
    pub root: Vec<String>,
    /// Data lanes that may be used
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=15))]
    pub lanes: u8,
    /// Two to this power LIDs a host, each with a way of its own
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: u8,
}

/// `fabric route`.
#[derive(Debug, Args)]
pub(crate) struct Route {
    /// The fabric.
    #[command(flatten)]
    pub source: Source,
    /// How.
    #[command(flatten)]
    pub engine: Engine,
    /// Without this switch, host, or the cable in NODE/PORT; again for others
    #[arg(long, value_name = "PART")]
    pub without: Vec<String>,
    /// Leave the tables in this directory, as OpenSM dumps them and ibdmchk reads them
    #[arg(long, value_name = "DIR", visible_alias = "dump-lfts")]
    pub dump: Option<PathBuf>,
}

/// `fabric quality`, and what `fabric check` has of it.
#[derive(Debug, Args)]
pub(crate) struct Tabled {
    /// The fabric.
    #[command(flatten)]
    pub source: Source,
    /// Tables as OpenSM dumps them (opensm.fdbs)
    #[arg(long, value_name = "FILE")]
    pub lfts: Option<PathBuf>,
}

/// `fabric check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Fabric and tables.
    #[command(flatten)]
    pub tabled: Tabled,
    /// Service levels of all pairs (opensm.psl); without it all have level 0
    #[arg(long, value_name = "FILE")]
    pub sl: Option<PathBuf>,
    /// Lanes of the levels in each switch (opensm.slvl); without it each level has the lane of its number
    #[arg(long, value_name = "FILE")]
    pub sl2vl: Option<PathBuf>,
}

/// `fabric drain`.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// A file in any form that can be read, unless --ibsim or --umad names a live fabric; then what is to be taken out:
    /// switches, hosts, or the cables in NODE/PORT
    #[arg(value_name = "FABRIC|PART", required = true)]
    pub words: Vec<String>,
    /// The live one.
    #[command(flatten)]
    pub live: Live,
    /// How.
    #[command(flatten)]
    pub engine: Engine,
}

/// `fabric compare`.
#[derive(Debug, Args)]
pub(crate) struct Pair {
    /// The one
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The other
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// How.
    #[command(flatten)]
    pub engine: Engine,
}

/// `fabric diff`.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Before: a snapshot or a topology, with --net tables as OpenSM dumps them
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Now: the same
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// The fabric whose tables A and B are
    #[arg(long, value_name = "FABRIC")]
    pub net: Option<PathBuf>,
}

/// `fabric convert`.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A file in any form that can be read: ibnetdiscover, ibsim, lst, toml, a snapshot, …
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Where to; `-` is standard output
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// ibnetdiscover, ibsim, lst, toml, dot, slurm-conf, slurm-yaml, svg or snapshot [default: by the name's end]
    #[arg(long, value_name = "FORM")]
    pub to: Option<String>,
    /// Read it as this, whatever it looks like
    #[arg(long, value_name = "FORM")]
    pub as_form: Option<String>,
}

/// `fabric draw`.
#[derive(Debug, Args)]
pub(crate) struct Draw {
    /// A file in any form that can be read
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Where to; `-` is standard output
    #[arg(value_name = "OUT.svg")]
    pub output: PathBuf,
}

/// `fabric generate`.
#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// Where to; `-` is standard output
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// fattree, pgft, dragonfly, dragonfly+, torus, mesh, hyperx or hypercube
    #[arg(value_name = "KIND")]
    pub kind: String,
    /// fattree RADIX LEVELS; pgft CHILDREN PARENTS PARALLEL (4,4 1,2 1,1); dragonfly HOSTS-A-SWITCH; dragonfly+ GROUPS LEAVES SPINES GLOBAL; torus,
    /// mesh, hyperx 4x4x4; hypercube DIMENSIONS
    #[arg(value_name = "SIZE", required = true)]
    pub sizes: Vec<String>,
    /// Hosts a switch, of a fat tree a leaf [default: half the radix, else 1]
    #[arg(long, value_name = "N")]
    pub hosts: Option<u32>,
    /// Width and speed of all links
    #[arg(long, value_name = "RATE", default_value = "4xHDR")]
    pub rate: String,
    /// ibnetdiscover, ibsim, lst, toml, dot, slurm-conf, slurm-yaml, svg or snapshot [default: by the name's end]
    #[arg(long, value_name = "FORM")]
    pub to: Option<String>,
}
