//! `tieline fleet`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

/// `fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetAction {
    /// Run a command on each host; the same output of several hosts is printed once
    #[command(after_help = "Examples:\n  tieline fleet run --hosts hosts.txt uname -r\n  \
                            tieline fleet run --on 'node[001-128,200]' -x node007 'ulimit -l; nproc'\n  \
                            tieline fleet run --on @rack1 --timeout 30s --diff cat /etc/fstab\n  \
                            HOSTS='elrond arwen' tieline fleet run date     # variables of FastFabric\n\n\
                            `sh` on the host runs the command. One word is a text for it, such as 'ls | wc -l'; several words arrive as they are. \
                            It has no input. When the run ends early, the command is ended on all hosts.")]
    Run(FleetRun),
    /// Log in to each host, and say how long that took or why it is not possible
    #[command(after_help = "Examples:\n  tieline fleet ping --hosts hosts.txt\n  \
                            tieline fleet ping --on 'node[1-64]' --timeout 5s --json")]
    Ping(FleetSelect),
    /// Copy files and directories to each host
    #[command(
        override_usage = "tieline fleet copy [OPTIONS] <FILE>... <TO>",
        after_help = "Examples:\n  tieline fleet copy --hosts hosts.txt /etc/hosts /etc/hosts\n  \
                            tieline fleet copy --on 'node[1-16]' program input/ /tmp      # into a directory that is there\n\n\
                            A file takes the place of the old one when it is complete. Directories, and several files, go as an archive \
                            (`tar`), which is made once."
    )]
    Copy(FleetCopy),
    /// Fetch a file from each host, into a directory for each host
    #[command(after_help = "Examples:\n  tieline fleet fetch --hosts hosts.txt /var/log/dmesg\n  \
                            tieline fleet fetch --on 'node[1-4]' --to results out.txt     # results/node1/out.txt and so on")]
    Fetch(FleetFetch),
    /// Collect logs, facts and settings of each host for a problem report
    #[command(after_help = "Examples:\n  tieline fleet report --hosts hosts.txt\n  \
                            tieline fleet report --on node7 --to report-42     # report-42/node7/report.tar.gz\n\n\
                            What the user may not read there is left out; `sudo` is not used. Command lines and environments are not collected.")]
    Report(FleetReport),
    /// Install your key on hosts that ask for a password; ssh asks for it, and for unknown host keys, at the
    /// terminal
    #[command(after_help = "Examples:\n  tieline fleet setup-ssh --hosts hosts.txt\n  \
                            tieline fleet setup-ssh --on 'node[1-4]' --key ~/.ssh/id_ed25519.pub\n\n\
                            Hosts that need nothing are left alone. A host whose key has changed is named and left alone, too.")]
    SetupSsh(FleetSetup),
    /// Install packages, or a tarball of an installation, on each host
    #[command(after_help = "Examples:\n  tieline fleet install --hosts hosts.txt target/packages/*.deb\n  \
                            tieline fleet install --on 'root@node[1-16]' --dry-run tieline.tar.gz     # what would be done\n\n\
                            The user is root on the hosts, or `sudo` asks for no password there. Packages go through apt-get, or dpkg where \
                            there is none. A tarball is made by `DESTDIR=$PWD/stage ./run install; tar -C stage -czf tieline.tar.gz .`")]
    Install(FleetInstall),
    /// Install another version on hosts that have one; packages that a host does not have are left out there
    #[command(after_help = "Examples:\n  tieline fleet upgrade --hosts hosts.txt target/packages/*.deb\n  \
                            tieline fleet upgrade --on 'node[1-16]' --downgrade old/*.deb     # back to an older version\n\n\
                            Services of packages are started again, and programs stay attached to their nodes.")]
    Upgrade(FleetInstall),
    /// Reboot each host, and wait until it is back
    #[command(after_help = "Examples:\n  tieline fleet reboot --on 'node[1-16]'\n  \
                            tieline fleet reboot --hosts hosts.txt --yes --within 15m     # asks nothing\n\n\
                            A host is back when it answers with another boot than before.")]
    Reboot(FleetReboot),
    /// Choose these commands from a list
    #[command(after_help = "Examples:\n  tieline fleet menu --hosts hosts.txt\n\n\
                            Each choice prints the command that it runs, so that it can be repeated without the list.")]
    Menu(FleetMenu),
    /// Compare processors, memory, network adapters, limits, services, clocks and versions of the hosts
    #[command(after_help = "Examples:\n  tieline fleet verify --hosts hosts.txt\n  \
                            tieline fleet verify --hosts hosts.txt --rules rules.txt --services sshd,slurmd\n  \
                            tieline fleet verify --on node1 --facts     # what is known of a host, for rules\n\n\
                            A rule is a line such as `memory.gib >= 250`, `nic.*.speed_mbit = 100000` or `ignore cpu.microcode`. Facts without \
                            a rule are compared with those of most hosts, clocks with this host's.")]
    Verify(FleetVerify),
    /// Close the connections that --keep has left open
    #[command(
        after_help = "Examples:\n  tieline fleet run --hosts hosts.txt --keep 10m true     # connects\n  \
                            tieline fleet run --hosts hosts.txt --keep 10m date     # over the same connections\n  \
                            tieline fleet close"
    )]
    Close,
}

/// Which hosts, and how.
#[derive(Debug, Args)]
pub(crate) struct FleetSelect {
    /// File of hosts: a line for each, as `ssh` takes it, or for a range; `include FILE`, `group NAME =
    /// HOSTS`, `!HOSTS` leaves out; /etc/hosts is such a file [env: HOSTS_FILE]
    #[arg(long, short = 'f', value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Hosts, such as 'node[001-128,200],gpu1', and groups of the file, such as @rack1 [env: HOSTS, else
    /// SLURM_JOB_NODELIST, if there is no file]
    #[arg(long, short = 'w', value_name = "HOSTS")]
    pub on: Option<String>,
    /// Hosts that are left out
    #[arg(long, short = 'x', value_name = "HOSTS")]
    pub except: Option<String>,
    /// Hosts at a time [env: FF_MAX_PARALLEL] [default: 64]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub parallel: Option<u32>,
    /// How long each host may take, from the start of its connection [default: as long as it takes]
    #[arg(long, short = 'T', value_name = "TIME", value_parser = super::hosts::life)]
    pub timeout: Option<Duration>,
    /// How long a host may take until it is connected
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = super::hosts::life)]
    pub connect_timeout: Duration,
    /// Keep connections open for so long, and use those that are
    #[arg(long, value_name = "TIME", value_parser = super::hosts::life)]
    pub keep: Option<Duration>,
    /// Leave out hosts that have done their part by this file, and add those that do; the same command goes
    /// on after an interruption or with the hosts that failed
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Also write the hosts that failed to this file, which may be such a list already: host;kind;reason
    #[arg(long, value_name = "FILE")]
    pub punch_list: Option<PathBuf>,
}

/// `fleet run`.
#[derive(Debug, Args)]
pub(crate) struct FleetRun {
    /// Hosts.
    #[command(flatten)]
    pub select: FleetSelect,
    /// Print the host's name before each line, in place of groups of hosts
    #[arg(long, short = 'P')]
    pub prefix: bool,
    /// Print what differs from the output of most hosts
    #[arg(long, conflicts_with = "prefix")]
    pub diff: bool,
    /// Also write what each host printed, as it is, to HOST.out and HOST.err in this directory, which is
    /// made if it is missing
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// The command
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `fleet copy`.
#[derive(Debug, Args)]
pub(crate) struct FleetCopy {
    /// Hosts.
    #[command(flatten)]
    pub select: FleetSelect,
    /// Files and directories here; the last one is TO, the file or directory on the hosts
    #[arg(required = true, value_name = "FILE")]
    pub paths: Vec<PathBuf>,
}

/// `fleet fetch`.
#[derive(Debug, Args)]
pub(crate) struct FleetFetch {
    /// Hosts.
    #[command(flatten)]
    pub select: FleetSelect,
    /// The directory here [env: UPLOADS_DIR] [default: uploads]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// The file on the hosts
    #[arg(value_name = "FILE")]
    pub file: String,
}

/// `fleet report`.
#[derive(Debug, Args)]
pub(crate) struct FleetReport {
    /// Hosts.
    #[command(flatten)]
    pub select: FleetSelect,
    /// The directory here
    #[arg(long, value_name = "DIR", default_value = "fleet-report")]
    pub to: PathBuf,
}

/// `fleet setup-ssh`.
#[derive(Debug, Args)]
pub(crate) struct FleetSetup {
    /// Hosts.
    #[command(flatten)]
    pub select: FleetSelect,
    /// The public key that is installed [default: the one that `ssh-copy-id` chooses]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// `fleet install` and `fleet upgrade`.
#[derive(Debug, Args)]
pub(crate) struct FleetInstall {
    /// Hosts.
    #[command(flatten)]
    pub select: FleetSelect,
    /// Change nothing: say what would be installed on each host
    #[arg(long)]
    pub dry_run: bool,
    /// Also install a version that is older than the one there
    #[arg(long)]
    pub downgrade: bool,
    /// Packages (.deb), or one tarball
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// `fleet reboot`.
#[derive(Debug, Args)]
pub(crate) struct FleetReboot {
    /// Hosts.
    #[command(flatten)]
    pub select: FleetSelect,
    /// Do not ask first
    #[arg(long, short)]
    pub yes: bool,
    /// How long hosts may take until they are back
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = super::hosts::life)]
    pub within: Duration,
}

/// `fleet menu`.
#[derive(Debug, Args)]
pub(crate) struct FleetMenu {
    /// File of hosts [env: HOSTS_FILE]
    #[arg(long, short = 'f', value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Hosts and groups [env: HOSTS]
    #[arg(long, short = 'w', value_name = "HOSTS")]
    pub on: Option<String>,
}

/// `fleet verify`.
#[derive(Debug, Args)]
pub(crate) struct FleetVerify {
    /// Hosts.
    #[command(flatten)]
    pub select: FleetSelect,
    /// File of rules
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Services of systemd whose state is compared, too
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub services: Vec<String>,
    /// Print the facts of each host
    #[arg(long)]
    pub facts: bool,
}
