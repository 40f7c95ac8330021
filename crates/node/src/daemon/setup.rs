//! Starts a manager.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use foreign::{Closer, Foreign};
use link::page::PageWriter;
use proto::ids::{AdapterNo, NodeId};
use proto::manager::{Manager, ManagerConfig};
use proto::wire::status::{AdapterInfo, NodeInfo};
use proto::wire::{MAX_DATAGRAM_BYTES, is_printable};
use rustix::event::epoll::{self, EventFlags};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use super::{Daemon, DaemonOptions, Key, StopHandle, clock, watch};
use crate::config::{ENV_FAULTS, Settings, limits};
use crate::descriptor::Held;
use crate::error::{NodeError, Result};
use crate::in_flight::InFlight;
use crate::interrupt_sockets::InterruptSockets;
use crate::listener::{Listener, Spare};
use crate::lock::{LockError, NodeLock};
use crate::log_gate::LogGate;
use crate::network::Network;
use crate::runtime_dir::{ClusterDir, Sharing, prepare, remove_files, remove_if_empty};
use crate::watch::Watch;

/// A manager has a dozen of its own, and one that can take no program is of no use.
const FEWEST_DESCRIPTORS: u64 = 32;

pub(super) fn start(options: &DaemonOptions) -> Result<Daemon> {
    let (dir, node) = (&options.dir, options.node);
    let sharing = options.settings.sharing();
    let lock = lock_in(dir, node, &sharing)?;
    // What a manager that was killed left.
    remove_files(dir, node, &lock);
    match behind_the_lock(options, &sharing) {
        Ok(mut daemon) => {
            daemon.lock = Some(lock);
            Ok(daemon)
        }
        Err(error) => {
            remove_files(dir, node, &lock);
            lock.remove();
            remove_if_empty(dir);
            Err(error)
        }
    }
}

/// The rest, once the node is locked. The lock itself is given to it then.
fn behind_the_lock(options: &DaemonOptions, sharing: &Sharing) -> Result<Daemon> {
    let (dir, node) = (&options.dir, options.node);
    let descriptor_limit = enough_descriptors()?;
    let incarnation = draw().map_err(|errno| io(dir, "draw a random number for", errno))?;
    let (page, page_fd) = state_page(options, incarnation)?;
    let mut config = machine_config(options, incarnation, descriptor_limit);

    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
        .map_err(|errno| io(dir, "create an epoll set for", errno))?;
    let (stop_reader, stop_handle) = stop_pipe(options).map_err(|source| NodeError::Io {
        what: "create a pipe for signals in",
        path: dir.path().into(),
        source,
    })?;
    // Before the sockets are there, and before anybody looks: a manager that starts beside us is seen in any
    // case.
    let mut directory_watch = Watch::new(dir.path()).map_err(|errno| io(dir, "watch", errno))?;
    let own_uid = geteuid().as_raw();
    let closer = Closer::new(own_uid);
    let (programs_listener, door) =
        Listener::bind(&dir.socket(node)?, Some(sharing), descriptor_limit, &closer)?;
    let (peers_listener, _) = Listener::bind(&dir.peer_socket(node)?, None, descriptor_limit, &closer)?;
    let network = open_network(options, &mut directory_watch, &mut config)?;
    if !door.is_by_list() {
        tracing::warn!(
            node = %node,
            "{} has no access control lists: any user can connect, and those that are not listed are refused then",
            dir.path().display()
        );
    }
    let mut inputs = vec![
        (programs_listener.as_fd(), Key::Programs),
        (peers_listener.as_fd(), Key::Peers),
        (directory_watch.as_fd(), Key::Watch),
        (stop_reader.as_fd(), Key::Stop),
    ];
    if let Some(network) = &network {
        inputs.extend(network.listeners.iter().map(|listener| (listener.as_fd(), Key::Network)));
    }
    watch_all(dir, &epoll, inputs, options.signals)?;

    Ok(Daemon {
        dir: dir.clone(),
        node,
        lock: None,
        machine: Manager::new(config, clock()),
        page,
        page_fd: Held::new(Foreign::new(page_fd, own_uid, &closer)),
        epoll,
        own_uid,
        closer: closer.clone(),
        door,
        programs_listener,
        peers_listener,
        network,
        watch: Some(directory_watch),
        stop_reader,
        stop_handle,
        spare: Spare::new(),
        descriptors: crate::descriptor::DescriptorTable::new(descriptor_limit, &closer),
        interrupt_sockets: InterruptSockets::new(dir, node, &closer),
        descriptor_limit,
        in_flight: InFlight::new(own_uid, descriptor_limit),
        counted_at: None,
        programs: std::collections::HashMap::new(),
        peers: std::collections::HashMap::new(),
        agents: std::collections::HashMap::new(),
        forwards: std::collections::HashMap::new(),
        timed: Vec::new(),
        follow_up: Vec::new(),
        put_off: std::collections::BTreeSet::new(),
        accepts_nothing: false,
        no_room_until: None,
        look_at_users_at: None,
        next_conn: 0,
        buffer: vec![0; MAX_DATAGRAM_BYTES],
        gate: LogGate::new(Instant::now()),
        stopping: None,
        lease_ended: false,
        ended: false,
    })
}

/// The limit of descriptors, raised as far as this process may.
fn enough_descriptors() -> Result<u64> {
    let limit = raise_descriptor_limit();
    if limit < FEWEST_DESCRIPTORS {
        return Err(NodeError::FewDescriptors { limit, wanted: FEWEST_DESCRIPTORS });
    }
    Ok(limit)
}

/// The state page, with the machine's copy plan in it, and its descriptor as it is sent to programs.
fn state_page(options: &DaemonOptions, incarnation: u64) -> Result<(PageWriter, OwnedFd)> {
    let node = options.node;
    let page = PageWriter::create(node, incarnation).map_err(|source| NodeError::Page { node, source })?;
    if let Some(plan) = &options.settings.copy_plan {
        page.set_copy_plan(plan).map_err(|source| NodeError::Page { node, source })?;
    }
    let page_fd = page.fd().try_clone_to_owned().map_err(|source| NodeError::Io {
        what: "duplicate a descriptor in",
        path: options.dir.path().into(),
        source,
    })?;
    Ok((page, page_fd))
}

/// Listens for other hosts, if the node has a certificate: at each of its rails, which the configuration then
/// has.
fn open_network(
    options: &DaemonOptions,
    changes: &mut Watch,
    config: &mut ManagerConfig,
) -> Result<Option<Network>> {
    let node = options.node;
    let Some(dir) = &options.settings.hosts else { return Ok(None) };
    let Some(mut network) = Network::open(dir, node, changes)? else { return Ok(None) };
    config.info.rails = rails(node, network.identity.address.ip(), &options.settings.rails)?;
    for warning in network.listen_on_rails(&config.info.rails) {
        tracing::warn!(node = %node, "{warning}");
    }
    tracing::info!(node = %node, address = %network.identity.address, "listens for other hosts");
    Ok(Some(network))
}

/// Waits for each of these, and for the end of a lease on standard input if there is one.
fn watch_all(
    dir: &ClusterDir,
    epoll: &OwnedFd,
    inputs: Vec<(BorrowedFd<'_>, Key)>,
    signals: bool,
) -> Result<()> {
    let add =
        |fd, key| watch(epoll, fd, key, EventFlags::IN).map_err(|errno| io(dir, "watch sockets in", errno));
    for (fd, key) in inputs {
        add(fd, key)?;
    }
    // A process that takes signals is a process of its own, and its standard input is its own too.
    if signals && crate::cluster::lease::is_on_stdin()? {
        add(std::io::stdin().as_fd(), Key::Lease)?;
    }
    Ok(())
}

fn io(dir: &ClusterDir, what: &'static str, errno: rustix::io::Errno) -> NodeError {
    NodeError::Io { what, path: dir.path().into(), source: errno.into() }
}

/// Makes the directory and locks the node. The last manager of the cluster removes the empty directory,
/// perhaps at just this moment: then both are tried again. The addresses that data goes over: those of the
/// configuration, else the one by which other hosts know this one.
fn rails(node: NodeId, own: IpAddr, configured: &[IpAddr]) -> Result<Vec<IpAddr>> {
    if configured.is_empty() {
        return Ok(Some(own).filter(|own| !own.is_unspecified()).into_iter().collect());
    }
    // Hosts of a cluster on one machine may use such addresses; others would reach themselves by them, or
    // nobody.
    if !own.is_loopback() {
        for rail in configured {
            let kind = match rail.to_canonical() {
                rail if rail.is_loopback() => "a loopback",
                IpAddr::V4(rail) if rail.is_link_local() => "a link-local",
                IpAddr::V6(rail) if rail.is_unicast_link_local() => "a link-local",
                _ => continue,
            };
            return Err(NodeError::Rail { node, rail: *rail, kind, own });
        }
    }
    Ok(configured.to_vec())
}

fn lock_in(dir: &ClusterDir, node: NodeId, sharing: &Sharing) -> Result<NodeLock> {
    let mut attempts = 0;
    loop {
        prepare(dir, sharing)?;
        attempts += 1;
        match NodeLock::take(dir, node) {
            Err(LockError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound && attempts < 10 => {}
            other => return Ok(other?),
        }
    }
}

/// As many descriptors as this process may have without asking anybody.
fn raise_descriptor_limit() -> u64 {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(1 << 20).min(1 << 20);
    if now.current.is_some_and(|current| current < most)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: now.maximum }).is_ok()
    {
        return most;
    }
    now.current.unwrap_or(most)
}

fn draw() -> std::result::Result<u64, rustix::io::Errno> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

fn machine_config(options: &DaemonOptions, incarnation: u64, descriptor_limit: u64) -> ManagerConfig {
    let settings = &options.settings;
    ManagerConfig {
        info: NodeInfo {
            node: options.node,
            cluster: options.dir.cluster().to_string(),
            host: settings.name.clone().unwrap_or_else(host_name),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            manager_pid: std::process::id(),
            incarnation,
            adapters: vec![AdapterInfo {
                number: AdapterNo(0),
                kind: "shm".to_owned(),
                capabilities: ["map", "put", "get", "atomics", "doorbell"].map(str::to_owned).to_vec(),
            }],
            faults: settings.faults || std::env::var_os(ENV_FAULTS).is_some_and(|value| value == "1"),
            rails: Vec::new(),
        },
        uid: geteuid().as_raw(),
        attach: settings.attach.clone(),
        heartbeat_interval: settings.heartbeat_interval,
        heartbeat_limit: settings.heartbeat_limit,
        resume_grace: settings.resume_grace,
        agents: settings.agents,
        relay: settings.relay,
        limits: limits(&settings.limits, descriptor_limit),
    }
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().filter(|c| is_printable(*c)).take(proto::wire::MAX_NAME_BYTES / 4).collect()
}

fn stop_pipe(options: &DaemonOptions) -> std::io::Result<(UnixStream, StopHandle)> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    writer.set_nonblocking(true)?;
    if options.signals {
        // A handler is installed a moment before its pipe is registered: a signal in that moment would be
        // lost.
        let _later = shm::process::SignalsBlocked::here();
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP]
        {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
    }
    Ok((reader, StopHandle { writer: Arc::new(writer) }))
}

/// Loads the configuration and returns the node: the one given, else the one under `[node]`.
pub fn settings_for(config: Option<&std::path::Path>, node: Option<NodeId>) -> Result<(Settings, NodeId)> {
    let settings = crate::config::load(config)?;
    let node = node.or(settings.id).ok_or(NodeError::NoId)?;
    Ok((settings, node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_by_which_others_reach_nobody_are_refused_with_the_reason() {
        let node = NodeId::new(4).unwrap();
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        let (far, here) = (address("10.77.0.1"), address("127.0.0.1"));
        for (rail, kind) in [
            ("127.0.0.2", "a loopback"),
            ("::1", "a loopback"),
            ("::ffff:127.0.0.2", "a loopback"),
            ("169.254.3.4", "a link-local"),
            ("fe80::1", "a link-local"),
        ] {
            let configured = [far, address(rail)];
            let said = rails(node, far, &configured).unwrap_err().to_string();
            assert!(said.contains(rail) && said.contains(kind) && said.contains("10.77.0.1"), "{said}");
            assert_eq!(rails(node, here, &configured).unwrap(), configured);
        }
        let two = [far, address("fd00::1")];
        assert_eq!(rails(node, far, &two).unwrap(), two);
        // None is configured.
        assert_eq!(rails(node, far, &[]).unwrap(), [far]);
        assert!(rails(node, address("0.0.0.0"), &[]).unwrap().is_empty());
    }
}
