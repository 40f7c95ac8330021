//! Options of `tieline fabric`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `fabric`; without a further word, `observe`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Fabric {
    /// The action.
    #[command(subcommand)]
    pub action: Option<FabricAction>,
    /// Options of `observe`.
    #[command(flatten)]
    pub observe: Observe,
}

/// The actions on a fabric.
#[derive(Debug, Subcommand)]
pub(crate) enum FabricAction {
    /// Report what is wrong with a fabric, live or from a file; nothing is ever set
    #[command(
        after_help = "Examples:\n  tieline fabric observe                 # the fabric at this machine's umad device 0\n  \
                      tieline fabric observe --ibsim lab     # a fabric that `tieline fabric serve` or ibsim simulates\n  \
                      tieline fabric observe --from dump.ibnetdiscover --plan plan.toml\n  \
                      tieline fabric observe --save now.json --html now.html\n  \
                      tieline fabric observe --from now.json --since before.json --worst integrity\n  \
                      tieline fabric observe --route hostA hostB"
    )]
    Observe(Box<Observe>),
    /// Simulate a fabric for infiniband-diags, OpenSM and `observe`, until Ctrl-C or the line
    /// `quit`
    #[command(after_help = "Examples:\n  tieline fabric serve net.toml --name lab\n  \
                            IBSIM_SOCKNAME=lab ibsim-run ibnetdiscover     # in another terminal\n  \
                            echo 'unlink leaf000 1' | tieline fabric serve net.toml     # commands on standard input\n\n\
                            Commands: unlink, relink NODE PORT (unplug or plug its cable); down, up NODE; counter NODE PORT NAME VALUE \
                            (set a counter); counters, port NODE PORT (print); lose, double, garble NODE PORT N (drop, repeat, change N of 1000 MADs at this port); delay NODE PORT MS; reboot NODE; \
                            guid NODE GUID (replace it); sets NODE refuse, ignore, one-lid or take; describe NODE \
                            TEXT (set the NodeDescription); clients; quit.")]
    Serve(Serve),
    /// Manage a fabric as its subnet manager (SM): set LIDs, forwarding tables (LFTs) and link states,
    /// then repair routes after faults, until Ctrl-C
    #[command(
        after_help = "Examples:\n  tieline fabric serve net.toml --name lab --bare     # a fabric without an SM, in another terminal\n  \
                            tieline fabric manage --ibsim lab --plan-only     # list every Set; send none\n  \
                            tieline fabric manage --ibsim lab --once     # bring it up, and end\n  \
                            tieline fabric manage --ibsim lab --state lids.txt     # stay, and repair after faults\n  \
                            tieline fabric manage --ibsim lab --at spine001 --priority 1     # a second one, which stands by\n\n\
                            Of several SMs the one with the highest priority manages, of equal ones that with the lowest port GUID; the others stand \
                            by and take over. With --once it refuses to start beside a master.\n\n\
                            The master answers requests to subnet administration: paths and other records, multicast groups, services, subscriptions. \
                            Without --mkey-file the M_Key is set to 0. Tried on simulators only: with --umad it needs --plan-only."
    )]
    Manage(Manage),
    /// Compute forwarding tables (LFTs), check them and measure their quality; sets nothing in a
    /// live fabric
    #[command(
        after_help = "Examples:\n  tieline fabric route net.toml\n  tieline fabric route net.toml --engine updown\n  \
                            tieline fabric route net.toml --without leaf000/19 --without spine001\n  \
                            tieline fabric route net.toml --dump tables\n\n\
                            --dump writes for ibdmchk: opensm-subnet.lst, opensm.fdbs, opensm.mcfdbs, opensm.psl (SLs), opensm.slvl (SL to VL);\n\
                            for OpenSM: opensm-lfts.dump, which `opensm -R file -U tables/opensm-lfts.dump` loads. OpenSM's engine `file` knows \
                            no SLs: tables that need more than 1 VL can deadlock there. tieline.sha256 has the sums of these files; files that \
                            differ from it are not replaced."
    )]
    Route(Route),
    /// Measure the quality of the present forwarding tables (LFTs), or, if there are none, of tables
    /// that are computed now; sets nothing in a live fabric
    #[command(
        after_help = "Examples:\n  tieline fabric quality net.toml\n  tieline fabric quality now.json\n  \
                            tieline fabric quality dump.ibnetdiscover --lfts opensm.fdbs"
    )]
    Quality(Tabled),
    /// Check the present forwarding tables (LFTs): reachability and credit loops (deadlock)
    #[command(
        after_help = "Examples:\n  tieline fabric check now.json\n  tieline fabric check --ibsim lab\n  \
                            tieline fabric check dump.ibnetdiscover --lfts opensm.fdbs\n  \
                            tieline fabric check opensm-subnet.lst --lfts opensm.fdbs --sl opensm.psl --sl2vl opensm.slvl"
    )]
    Check(Check),
    /// Show what taking switches or cables out for maintenance would change
    #[command(
        after_help = "Examples:\n  tieline fabric drain net.toml spine001\n  tieline fabric drain net.toml leaf000/19\n  \
                            tieline fabric drain --ibsim lab spine001     # a live fabric; nothing is set"
    )]
    Drain(Drain),
    /// Compare the quality of two fabrics, each routed by the engine that fits it
    #[command(after_help = "Examples:\n  tieline fabric compare now.toml planned.toml")]
    Compare(Pair),
    /// List all differences between two fabrics and their forwarding tables (LFTs)
    #[command(after_help = "Examples:\n  tieline fabric diff before.json now.json\n  \
                            tieline fabric diff --net dump.ibnetdiscover old.fdbs new.fdbs     # only tables")]
    Diff(Diff),
    /// Convert a fabric file to another format, which the extension of OUT chooses
    #[command(after_help = "Examples:\n  tieline fabric convert dump.ibnetdiscover net.toml\n  \
                            tieline fabric convert net.toml topology.conf\n  tieline fabric convert net.toml - --to ibsim")]
    Convert(Convert),
    /// Draw a fabric as SVG
    #[command(after_help = "Examples:\n  tieline fabric draw net.toml net.svg")]
    Draw(Draw),
    /// Generate a topology of a well-known shape and any size
    #[command(
        after_help = "Examples:\n  tieline fabric generate net.toml fattree 36 2     # radix, levels\n  \
                            tieline fabric generate net.net dragonfly 4        # hosts per switch\n  \
                            tieline fabric generate net.toml torus 4x4x4 --hosts 2\n  \
                            tieline fabric generate - hypercube 5 --to ibsim"
    )]
    Generate(Generate),
}

/// A live fabric.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Live {
    /// Use the simulated fabric with this socket name, of ibsim or `tieline fabric serve`
    #[arg(long, value_name = "NAME", conflicts_with = "umad")]
    pub ibsim: Option<String>,
    /// With --ibsim: connect at this node, by NodeDescription or GUID [default: the node that the
    /// simulator chooses]
    #[arg(long, value_name = "NODE", requires = "ibsim", conflicts_with = "umad")]
    pub at: Option<String>,
    /// Use the fabric of the umad device with this number: 0 is /dev/infiniband/umad0
    #[arg(long, value_name = "NUMBER")]
    pub umad: Option<u32>,
    /// Time in milliseconds after which a MAD without a response is sent again
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeout: u64,
    /// Retries of a MAD before it counts as unanswered
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub retries: u32,
}

/// `fabric observe`.
#[derive(Debug, Args)]
pub(crate) struct Observe {
    /// Observe this file instead: a snapshot of --save, or a topology in any format that `convert`
    /// reads
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
    /// Print the route between two ports, each a NodeDescription, GUID, LID, or one of these with
    /// /PORT
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub route: Option<Vec<String>>,
    /// Compare with this plan, a topology in any format: missing, extra and swapped cables and
    /// nodes, by name and port
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Show what changed since this snapshot, and judge counters by their growth since then
    #[arg(long, value_name = "SNAPSHOT")]
    pub since: Option<PathBuf>,
    /// List the ten ports with the highest values: integrity, congestion, security, routing, data,
    /// or the name of a counter
    #[arg(long, value_name = "CATEGORY")]
    pub worst: Option<String>,
    /// Report this counter only above N, such as SymbolErrorCounter=100; may be repeated
    #[arg(long, value_name = "NAME=N")]
    pub threshold: Vec<String>,
    /// Do not read the counters
    #[arg(long, conflicts_with = "watch")]
    pub no_counters: bool,
    /// Do not read the forwarding tables (LFTs)
    #[arg(long)]
    pub no_tables: bool,
    /// Afterwards read counters and link states again at this interval, and print what changed
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "10", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub watch: Option<u32>,
    /// With --watch: end after this many readings
    #[arg(long, value_name = "N", requires = "watch")]
    pub times: Option<u64>,
    /// Save the observed state in this file, as a snapshot; all commands can read it
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Also write the report as one HTML page with a drawing
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `fabric serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The fabric, a file in any format that `convert` reads
    #[arg(value_name = "FABRIC")]
    pub file: PathBuf,
    /// Socket name under which programs find the fabric: their IBSIM_SOCKNAME
    #[arg(long, value_name = "NAME", default_value = "sim")]
    pub name: String,
    /// Also take commands on this UNIX socket, one per line
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Leave LIDs, forwarding tables and link states to a subnet manager (SM) instead of setting
    /// them; until an SM runs, `observe` finds none of them
    #[arg(long)]
    pub bare: bool,
}

/// `fabric manage`.
#[derive(Debug, Args)]
pub(crate) struct Manage {
    /// The live fabric.
    #[command(flatten)]
    pub live: Live,
    /// List every Set that would be sent, in order, and send none
    #[arg(long, conflicts_with = "once")]
    pub plan_only: bool,
    /// End after the fabric is brought up
    #[arg(long)]
    pub once: bool,
    /// Keep the LIDs of all port GUIDs in this file, so that they stay the same over restarts [default:
    /// ports keep the LIDs that they have]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Write the P_Key tables of CAs and switches by this file, of the form of OpenSM's partitions.conf
    /// [default: P_Key tables stay as they are]
    #[arg(long, value_name = "FILE", conflicts_with = "plan_only")]
    pub partitions: Option<PathBuf>,
    /// Routing engine: auto, minhop, updown, fattree, balanced, layered, grid or dragonfly; or OpenSM's names
    /// updn, ftree, dfsssp, dor, torus-2QoS
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub engine: String,
    /// LID mask control (LMC): 2 to the power of N LIDs per CA port, each with its own route. Give all SMs of
    /// a fabric the same
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: u8,
    /// Write SL-to-VL maps and VL arbitration by this file, with the options qos_* of OpenSM's opensm.conf
    /// [default: these tables stay as they are]
    #[arg(long, value_name = "FILE", conflicts_with = "plan_only")]
    pub qos: Option<PathBuf>,
    /// Protect all ports with the M_Key in this file (0x and up to 16 digits), which only its owner may be
    /// able to read (chmod 600); also needed where ports have that M_Key already
    #[arg(long, value_name = "FILE")]
    pub mkey_file: Option<PathBuf>,
    /// M_Key protection: 0: all may read, the M_Key too; 1: all may read all but the M_Key; 2 or 3: nobody
    /// may read without the M_Key
    #[arg(long, value_name = "LEVEL", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=3), requires = "mkey_file")]
    pub mkey_protect: u8,
    /// After a request with a wrong M_Key and then so many seconds without one with the right M_Key, a port
    /// lets all read it, so that another SM can take over; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "mkey_file")]
    pub mkey_lease: u16,
    /// Priority among SMs, 0 to 15: the highest manages
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=15))]
    pub priority: u8,
    /// SM_Key of all SMs of this fabric; a master with another key is an error, others are passed over.
    /// OpenSM's is 1 unless it was configured; 0 trusts all
    #[arg(long, value_name = "KEY", default_value_t = 1)]
    pub sm_key: u64,
    /// Ask other SMs at this interval, in milliseconds, whether they are there
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..=600_000))]
    pub poll: u64,
    /// Take over from a master after so many of these questions in a row without a response
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub polls: u32,
    /// Hold back a cable between switches that goes down twice in a minute until it has been up for
    /// this many seconds, twice as long each further time; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=600), conflicts_with_all = ["once", "plan_only"])]
    pub quarantine: u32,
    /// Ask all switches at this interval, in seconds, whether a port changed, beside the traps that they send
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400), conflicts_with_all = ["once", "plan_only"])]
    pub sweep: u32,
}

/// A fabric from a file or live, for commands that need no counters.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// A file in any format that `convert` reads; without one, --ibsim or --umad names a live
    /// fabric
    #[arg(value_name = "FABRIC", conflicts_with_all = ["ibsim", "at", "umad"])]
    pub file: Option<PathBuf>,
    /// The live fabric.
    #[command(flatten)]
    pub live: Live,
}

/// Options of routing.
#[derive(Debug, Args)]
pub(crate) struct Engine {
    /// Routing engine: auto, minhop, updown, fattree, balanced, layered, grid or dragonfly; or OpenSM's names
    /// updn, ftree, dfsssp, dor, torus-2QoS
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub engine: String,
    /// Root switch of a tree, by name; may be repeated [default: recognised]
    #[arg(long, value_name = "SWITCH")]
    pub root: Vec<String>,
    /// Data virtual lanes (VLs) that may be used [default: as many as the ports between switches
    /// operate, or 8 if the source does not say so]
    #[arg(long = "vls", alias = "lanes", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    pub vls: Option<u8>,
    /// LID mask control (LMC): 2 to the power of N LIDs per CA port, each with its own route
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: u8,
}

/// `fabric route`.
#[derive(Debug, Args)]
pub(crate) struct Route {
    /// The fabric.
    #[command(flatten)]
    pub source: Source,
    /// The engine and its options.
    #[command(flatten)]
    pub engine: Engine,
    /// First remove this switch or CA, or the cable at NODE/PORT; may be repeated
    #[arg(long, value_name = "PART")]
    pub without: Vec<String>,
    /// Write the tables into this directory, as files for ibdmchk and for OpenSM's engine `file`
    /// (see below)
    #[arg(long, value_name = "DIR", visible_alias = "dump-lfts")]
    pub dump: Option<PathBuf>,
}

/// `fabric quality`, and what `fabric check` has of it.
#[derive(Debug, Args)]
pub(crate) struct Tabled {
    /// The fabric.
    #[command(flatten)]
    pub source: Source,
    /// Forwarding tables in a dump of OpenSM (opensm.fdbs or opensm-lfts.dump)
    #[arg(long, value_name = "FILE")]
    pub lfts: Option<PathBuf>,
}

/// `fabric check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Fabric and tables.
    #[command(flatten)]
    pub tabled: Tabled,
    /// Service levels (SLs) of all pairs (opensm.psl) [default: SL 0]
    #[arg(long, value_name = "FILE")]
    pub sl: Option<PathBuf>,
    /// SL-to-VL maps of all switches (opensm.slvl) [default: the VL with the number of the SL]
    #[arg(long, value_name = "FILE")]
    pub sl2vl: Option<PathBuf>,
}

/// `fabric drain`.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// The fabric, a file in any format that `convert` reads (leave it out with --ibsim or --umad);
    /// after it the parts to take out: switches, CAs, or cables by NODE/PORT
    #[arg(value_name = "FABRIC|PART", required = true)]
    pub words: Vec<String>,
    /// The live fabric.
    #[command(flatten)]
    pub live: Live,
    /// The engine and its options.
    #[command(flatten)]
    pub engine: Engine,
}

/// `fabric compare`.
#[derive(Debug, Args)]
pub(crate) struct Pair {
    /// The first fabric
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The second fabric
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// The engine and its options.
    #[command(flatten)]
    pub engine: Engine,
}

/// `fabric diff`.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Before: a snapshot or a topology; with --net a dump of forwarding tables of OpenSM
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Now: the same kind of file
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// The fabric that the tables A and B belong to
    #[arg(long, value_name = "FABRIC")]
    pub net: Option<PathBuf>,
}

/// `fabric convert`.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A file in one of the formats ibnetdiscover, ibsim, lst, opa, toml, or a snapshot
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The file to write; `-` is standard output
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Format: ibnetdiscover, ibsim, lst, toml, dot, slurm-conf, slurm-yaml, svg or snapshot [default: by
    /// the extension of OUT]
    #[arg(long, value_name = "FORM")]
    pub to: Option<String>,
    /// Read IN as this format, without detection
    #[arg(long, value_name = "FORM")]
    pub as_form: Option<String>,
}

/// `fabric draw`.
#[derive(Debug, Args)]
pub(crate) struct Draw {
    /// A file in any format that `convert` reads
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The file to write; `-` is standard output
    #[arg(value_name = "OUT.svg")]
    pub output: PathBuf,
}

/// `fabric generate`.
#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// The file to write; `-` is standard output
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Shape: fattree, pgft, dragonfly, dragonfly+, torus, mesh, hyperx or hypercube
    #[arg(value_name = "KIND")]
    pub kind: String,
    /// Its size: fattree RADIX LEVELS; pgft CHILDREN PARENTS PARALLEL (4,4 1,2 1,1); dragonfly
    /// HOSTS-A-SWITCH; dragonfly+ GROUPS LEAVES SPINES GLOBAL; torus, mesh, hyperx 4x4x4; hypercube
    /// DIMENSIONS
    #[arg(value_name = "SIZE", required = true)]
    pub sizes: Vec<String>,
    /// Hosts per switch, in a fat tree per leaf; not for dragonfly and pgft, whose SIZE gives it
    /// [default: half the radix, else 1]
    #[arg(long, value_name = "N")]
    pub hosts: Option<u32>,
    /// Width and speed of all links: 1x, 2x, 4x, 8x or 12x, and SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or
    /// XDR; of Omni-Path 4x25Gb
    #[arg(long, value_name = "RATE", default_value = "4xHDR")]
    pub rate: String,
    /// Format: ibnetdiscover, ibsim, lst, toml, dot, slurm-conf, slurm-yaml, svg or snapshot [default: by
    /// the extension of OUT]
    #[arg(long, value_name = "FORM")]
    pub to: Option<String>,
}
