//! The first process of a host. It makes what the host has for itself, does what the hub orders, and waits
//! for processes whose parents have ended, as the first process of a machine does.

use std::ffi::OsString;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use node::cluster::{Launcher, UpOptions};
use node::hosts::{JoinOptions, USUAL_LIFE};
use node_client::runtime_dir::{ClusterDir, ENV_CLUSTER, ENV_NODE, ENV_RUNTIME_DIR};
use proto::ids::NodeId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{WaitOptions, wait};
use shm::process::{Namespaces, unshare};
use signal_hook::consts::SIGCHLD;

use crate::error::{NamespacesError, Result};
use crate::plan;
use crate::process::Identity;
use crate::words::{Order, Said};
use crate::{HOST, hub, ip, line, mounts, wait};

/// Where the managers of a host have their sockets, and their keys.
const RUNTIME: &str = "/run/tieline";
const CONFIG_HOME: &str = "/run/config";
/// How long a manager may take to start, and a host to join and to connect.
const LIMIT: Duration = Duration::from_secs(60);
/// How long managers may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// What a host is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// From 0 on.
    pub(crate) index: usize,
    /// The same for all.
    pub(crate) all: hub::Arguments,
}

impl Arguments {
    /// For the start of that process.
    pub(crate) fn words(&self) -> Vec<OsString> {
        self.all.words([HOST.into(), self.index.to_string().into()])
    }

    fn of(words: &[OsString]) -> Option<Self> {
        let (index, all) = words.split_first()?;
        Some(Self { index: index.to_str()?.parse().ok()?, all: hub::Arguments::of(all)? })
    }
}

/// Points a program of a host at what the host has for itself, and at nothing of the machine's.
pub(crate) fn environment(command: &mut Command) {
    for name in [
        ENV_NODE,
        ENV_CLUSTER,
        "TIELINE_LEASE",
        "TIELINE_TOKEN",
        "NOTIFY_SOCKET",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
    ] {
        command.env_remove(name);
    }
    command.env(ENV_RUNTIME_DIR, RUNTIME).env("XDG_CONFIG_HOME", CONFIG_HOME);
}

/// This process is the first of a host: its exit status.
pub(crate) fn run(words: &[OsString]) -> u8 {
    let Some(arguments) = Arguments::of(words) else { return 2 };
    if let Err(error) = begin(&arguments) {
        say(&Said::Failed(error.to_string()));
        return 1;
    }
    let dir = own_dir(&arguments);
    serve(&Host { dir, arguments }).unwrap_or(1)
}

/// The cluster's directory in the host.
fn own_dir(arguments: &Arguments) -> ClusterDir {
    ClusterDir::new(RUNTIME.into(), arguments.all.dir.cluster().clone())
}

fn say(said: &Said) {
    // The hub that does not listen any more takes this process with it.
    let _ = writeln!(std::io::stdout(), "{said}");
}

fn begin(arguments: &Arguments) -> Result<()> {
    // What needs the machine's `/proc` and runtime directory comes first.
    let own = Identity::own().map_err(NamespacesError::io("read", "/proc/self"))?;
    let copies = std::fs::read(node::copy_plan::path(arguments.all.dir.root()));
    let program = std::env::current_exe().map_err(NamespacesError::io("read", "/proc/self/exe"))?;
    unshare(Namespaces::OfAHost)
        .map_err(|source| NamespacesError::Namespace { what: "the namespaces of a host", source })?;
    let name = plan::name(arguments.index);
    rustix::system::sethostname(name.as_bytes())
        .map_err(|source| NamespacesError::Namespace { what: "a host name", source })?;
    mounts::make_own(program.parent().unwrap_or(Path::new("/")))?;
    mounts::name_hosts(&names(arguments))?;
    let dir = own_dir(arguments);
    node::runtime_dir::prepare_root_of(&dir)?;
    // Measured once on the machine, and not by each manager.
    if let Ok(copies) = copies {
        let path = node::copy_plan::path(dir.root());
        std::fs::write(&path, copies).map_err(NamespacesError::io("write", path))?;
    }
    say(&Said::Process(own));
    Ok(())
}

/// What `/etc/hosts` has there.
fn names(arguments: &Arguments) -> String {
    let of = |index| format!("{} {}\n", arguments.all.address(index), plan::name(index));
    "127.0.0.1 localhost\n".to_owned() + &(0..arguments.all.count).map(of).collect::<String>()
}

/// A host that has its namespaces.
struct Host {
    dir: ClusterDir,
    arguments: Arguments,
}

/// Until the hub says that it is enough, or has ended.
fn serve(host: &Host) -> std::io::Result<u8> {
    let (ended, at_end) = UnixStream::pair()?;
    ended.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, at_end)?;
    let orders = std::io::stdin();
    loop {
        let mut fds = [PollFd::new(&orders, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        retry_on_intr(|| poll(&mut fds, None))?;
        let has_order = !fds[0].revents().is_empty();
        // Between two orders only: what an order has started it waits for itself.
        while rustix::io::read(&ended, &mut [0; 64]).is_ok_and(|read| read > 0) {}
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        if !has_order {
            continue;
        }
        let Some(order) = line::next(&orders) else { return Ok(1) };
        let said = match order.parse::<Order>().map_err(NamespacesError::Said) {
            Ok(Order::Stop) => {
                // What does not end by itself ends with this process.
                let _ = node::cluster::down(&host.dir, None, STOP_LIMIT, &mut |_| {});
                return Ok(0);
            }
            Ok(order) => host.carry_out(order),
            Err(error) => Err(error),
        };
        say(&said.unwrap_or_else(|error| Said::Failed(error.to_string())));
    }
}

impl Host {
    fn carry_out(&self, order: Order) -> Result<Said> {
        let cluster = self.dir.cluster().as_str();
        match order {
            Order::Address => {
                let hub::Arguments { rails, count, rate, .. } = &self.arguments.all;
                ip::addresses(rails, self.arguments.index, *count)?;
                // What this host sends.
                let interfaces = (0..rails.len()).map(ip::interface);
                rate.map_or(Ok(()), |rate| ip::limit(interfaces, rate))?;
            }
            Order::Found(node) => {
                let address = self.arguments.all.address(self.arguments.index).to_string();
                node::hosts::init(cluster, node, address.parse().map_err(NamespacesError::Said)?)?;
                self.start(node)?;
            }
            Order::Token(node) => {
                return Ok(Said::Token(node::hosts::token(cluster, Some(node), USUAL_LIFE)?.to_string()));
            }
            Order::Join { node, at, token } => {
                let token =
                    token.parse().map_err(|_| NamespacesError::Said(format!("`{token}` is no token")))?;
                let (host, node_id) = (at.to_string(), Some(node));
                node::hosts::join(JoinOptions { host, token, node: node_id, address: None, limit: LIMIT })?;
                self.start(node)?;
            }
            Order::Wait { node, others } => wait::for_sessions(&self.dir, node, &others, LIMIT)?,
            Order::Stop => {}
        }
        Ok(Said::Done)
    }

    /// Of the host's managers: the one that was named, or the usual one, and the host's rails beside it.
    fn configuration(&self) -> Result<Option<PathBuf>> {
        let named = self.arguments.all.config.clone();
        if self.arguments.all.rails.len() < 2 {
            return Ok(named);
        }
        let Some(path) = named else {
            // What the user's own configuration is on a machine: nobody else has one on a host.
            write_rails(&Path::new(CONFIG_HOME).join("tieline"), &self.rails())?;
            return Ok(None);
        };
        let folder = Path::new(CONFIG_HOME).join("named");
        write_rails(&folder, &self.rails())?;
        let files = node::config::files(Some(&path)).map_err(node::NodeError::from)?;
        for (nth, file) in files.iter().enumerate() {
            let copy = folder.join(format!("{nth:03}.toml"));
            std::fs::copy(file, &copy).map_err(NamespacesError::io("copy", file))?;
        }
        Ok(Some(folder))
    }

    fn rails(&self) -> Vec<Ipv4Addr> {
        self.arguments.all.rails.iter().map(|range| range.address(self.arguments.index)).collect()
    }

    fn start(&self, node: NodeId) -> Result<()> {
        let options = UpOptions {
            dir: self.dir.clone(),
            nodes: vec![node],
            launcher: Launcher { faults: self.arguments.all.faults, ..Launcher::this_binary()? },
            config: self.configuration()?,
            limit: LIMIT,
            keep_files: false,
            stop: || false,
        };
        node::cluster::up(&options, &mut |_| {})?;
        Ok(())
    }
}

/// Into a file of this folder that is read after all others.
fn write_rails(folder: &Path, rails: &[Ipv4Addr]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(NamespacesError::io("create", folder))?;
    let quoted: Vec<_> = rails.iter().map(|rail| format!("\"{rail}\"")).collect();
    let path = folder.join("rails.toml");
    let text = format!("[node]\nrails = [{}]\n", quoted.join(", "));
    std::fs::write(&path, text).map_err(NamespacesError::io("write", path))
}

#[cfg(test)]
mod tests {
    use node_client::runtime_dir::ClusterName;

    use super::*;
    use crate::plan::Range;

    #[test]
    fn a_host_is_started_with_what_it_is_told() {
        for (delay, loss, rate, faults, config) in [
            (None, None, None, false, None),
            ("2ms".parse().ok(), "1%".parse().ok(), "1gbit".parse().ok(), true, Some("/etc/x y".into())),
        ] {
            let dir = ClusterDir::new("/run/tieline".into(), ClusterName::new("lab").unwrap());
            let all = hub::Arguments {
                dir,
                count: 3,
                rails: vec![Range(78), Range(79)],
                rate,
                delay,
                loss,
                faults,
                config,
            };
            let arguments = Arguments { index: 1, all };
            assert_eq!(Arguments::of(&arguments.words()[1..]), Some(arguments.clone()));
            let names = names(&arguments);
            assert_eq!(names, "127.0.0.1 localhost\n10.78.0.1 host1\n10.78.0.2 host2\n10.78.0.3 host3\n");
        }
        assert_eq!(Arguments::of(&["x".into()]), None);
    }
}
