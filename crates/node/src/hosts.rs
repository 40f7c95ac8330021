//! Makes a cluster over several hosts: its authority, tokens, joining, and taking nodes out. What runs then
//! is the [`crate::Daemon`].

mod address;
mod leave;
mod revoke;

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use proto::ids::NodeId;
use proto::wire::record::RecordKind;
use trust::authority::{Authority, Fingerprint};
use trust::channel::{Channel, ChannelError, Event, PIECE_BYTES};
use trust::hosts::HostMap;
use trust::identity::Identity;
use trust::join::{JoinError, Joining};
use trust::leave::LeaveError;
use trust::renew::{RenewError, Renewing, renew_here};
use trust::room::Room;
use trust::store::Store;

use address::{is_link_local, with_port};

pub use address::{Address, check_host};
pub use leave::{LeaveOptions, leave};
pub use revoke::{Revoked, revoke};
pub use trust::TrustError;
pub use trust::token::{Token, USUAL_LIFE};

/// Where a manager listens for other hosts unless something else is said.
pub const DEFAULT_PORT: u16 = 7411;

/// What cannot be done with other hosts.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// Keys, certificates, tokens.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Joining.
    #[error("cannot join at {at}: {source}")]
    Join {
        /// The authority's host.
        at: String,
        /// Why not.
        source: JoinError,
    },
    /// Renewing.
    #[error("cannot renew the certificate of node {node} at {at}: {source}")]
    Renew {
        /// Whose.
        node: NodeId,
        /// The authority's host.
        at: String,
        /// Why not.
        source: RenewError,
    },
    /// Leaving.
    #[error(
        "node {node} cannot leave the cluster at {at}: {source}; to remove only the keys of this host: `tieline cluster leave --force --node {node}`, then `tieline cluster revoke {node}` on the authority's host"
    )]
    Leave {
        /// Which.
        node: NodeId,
        /// The authority's host.
        at: String,
        /// Why not.
        source: LeaveError,
    },
    /// The authority's host cannot be reached.
    #[error(
        "{source}; to remove only the keys of this host: `tieline cluster leave --force --node {node}`, then `tieline cluster revoke {node}` on the authority's host"
    )]
    Unreached {
        /// Which.
        node: NodeId,
        /// Why not.
        source: Box<Self>,
    },
    /// Its manager uses what would be removed.
    #[error("node {node} runs: stop it first (`tieline node stop --node {node}`)")]
    Runs {
        /// Which.
        node: NodeId,
    },
    /// This host is not in the cluster.
    #[error(
        "this host has not joined cluster `{cluster}` ({path} does not exist): join it with `tieline cluster join`, or correct --cluster"
    )]
    NoKeys {
        /// Its name.
        cluster: String,
        /// Where its keys would be.
        path: PathBuf,
    },
    /// It is not clear which node is meant.
    #[error("{path} has certificates of {count} nodes: name the one that is meant with --node")]
    WhichNode {
        /// The directory.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// The authority is elsewhere, and where was not said.
    #[error(
        "this host does not have the authority's key: give the host where `tieline cluster init` was run"
    )]
    WhichHost,
    /// It cannot be connected to.
    #[error(
        "cannot connect to {at}: {source}: start the node manager there (`tieline node start`), and see that no firewall blocks the port"
    )]
    Connect {
        /// The authority's host.
        at: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Other hosts cannot find this one at the address that leads to the authority.
    #[error(
        "this host reaches {at} from the link-local address {own}, by which other hosts cannot find it: name another of its addresses with --address"
    )]
    LinkLocal {
        /// The authority's host.
        at: String,
        /// This host's.
        own: IpAddr,
    },
    /// Its name leads to no address.
    #[error("the name {host} cannot be resolved ({source}): correct it, or give the IP address")]
    UnknownName {
        /// The name.
        host: String,
        /// What the resolver says.
        source: std::io::Error,
    },
    /// It says nothing more.
    #[error(
        "{at} did not respond: check that `tieline cluster init` was run on that host, and that the port is \
         that of its node manager"
    )]
    NoAnswer {
        /// The authority's host.
        at: String,
    },
    /// The node that is to be started here is another host's.
    #[error(
        "node {node} is on another host ({address}), not on this one: {}",
        match here {
            Some(here) => format!("start this host's node with `tieline node start --node {here}`"),
            None => "start it there, or let this host join with `tieline cluster join`".to_owned(),
        }
    )]
    OfAnotherHost {
        /// The node.
        node: NodeId,
        /// Where other hosts reach it.
        address: SocketAddr,
        /// The first node of this host.
        here: Option<NodeId>,
    },
    /// There is no place for keys.
    #[error("there is no directory for the cluster's keys: set HOME or XDG_CONFIG_HOME to an absolute path")]
    NoDirectory,
}

/// Result of this module.
pub type Result<T> = std::result::Result<T, HostsError>;

/// Where keys and certificates of a cluster are: `$XDG_CONFIG_HOME/tieline/hosts/NAME`, else under
/// `~/.config`.
pub fn directory(cluster: &str) -> Option<PathBuf> {
    Some(places()?.join(cluster))
}

fn places() -> Option<PathBuf> {
    Some(crate::config::user_directory()?.join("hosts"))
}

fn place(cluster: &str) -> Result<PathBuf> {
    directory(cluster).ok_or(HostsError::NoDirectory)
}

/// What [`init`] has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The first node.
    pub node: NodeId,
    /// Where its manager will listen.
    pub address: SocketAddr,
    /// Where all that is.
    pub dir: PathBuf,
    /// The authority's.
    pub fingerprint: Fingerprint,
}

/// What is wrong with an address that other hosts shall connect to, if no interface of this host has it.
pub fn address_warning(address: SocketAddr) -> Option<String> {
    let ip = address.ip();
    (!crate::network::is_here(ip)).then(|| {
        format!(
            "no interface of this host has {ip}: other hosts can only connect if the network forwards it (NAT)"
        )
    })
}

/// The same for the address of a node of this host, if it has one.
pub fn address_warning_of(cluster: &str, node: NodeId) -> Option<String> {
    let store = Store::open(&place(cluster).ok()?).ok()??;
    address_warning(Identity::load(&store, node).ok()??.address)
}

/// The nodes of a cluster that have a certificate on this host; none if it is not one of several hosts.
pub fn nodes_here(cluster: &str) -> Vec<NodeId> {
    let Some(Ok(Some(store))) = directory(cluster).map(|dir| Store::open(&dir)) else { return Vec::new() };
    let Ok(hosts) = HostMap::load(&store) else { return Vec::new() };
    hosts.nodes().filter(|node| matches!(Identity::load(&store, *node), Ok(Some(_)))).collect()
}

/// What this host has of a cluster of several hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Where its keys are, or would be.
    pub dir: PathBuf,
    /// It has the authority's key: it is the host where the cluster was made.
    pub is_authority: bool,
    /// The nodes that have a certificate here, and where their managers listen.
    pub nodes: Vec<(NodeId, SocketAddr)>,
    /// All nodes whose addresses are known here.
    pub hosts: Vec<(NodeId, SocketAddr)>,
}

/// What this host has of the cluster: nothing is no error.
pub fn show(cluster: &str) -> Result<Shown> {
    let dir = place(cluster)?;
    let nothing = || Shown { dir: dir.clone(), is_authority: false, nodes: Vec::new(), hosts: Vec::new() };
    let Some(store) = Store::open(&dir)? else { return Ok(nothing()) };
    let mut nodes = Vec::new();
    for node in Identity::nodes(&store)? {
        nodes.extend(Identity::load(&store, node)?.map(|identity| (node, identity.address)));
    }
    let map = HostMap::load(&store)?;
    let hosts = map.nodes().filter_map(|node| Some((node, map.get(node)?))).collect();
    Ok(Shown { is_authority: Authority::is_in(&store), nodes, hosts, ..nothing() })
}

/// Whether managers of these nodes may run on this host: none is the node of another host.
pub fn check_here(cluster: &str, nodes: &[NodeId]) -> Result<()> {
    let Some(dir) = directory(cluster) else { return Ok(()) };
    let Some(store) = Store::open(&dir)? else { return Ok(()) };
    let hosts = HostMap::load(&store)?;
    let here = nodes_here(cluster);
    for &node in nodes.iter().filter(|node| !here.contains(node)) {
        if let Some(address) = hosts.get(node) {
            return Err(HostsError::OfAnotherHost { node, address, here: here.first().copied() });
        }
    }
    Ok(())
}

/// Makes the cluster's authority, and a certificate for the first node, which is on this host.
pub fn init(cluster: &str, node: NodeId, address: Address) -> Result<Made> {
    let (now, address) = (SystemTime::now(), address.complete());
    let store = Store::create(&place(cluster)?)?;
    let mut hosts = HostMap::default();
    hosts.set(node, address);
    let authority = Authority::create_with(&store, cluster, now, |authority| {
        hosts.save(&store).and_then(|()| Identity::issue_here(&store, authority, node, address, now))
    })?;
    Ok(Made { node, address, dir: store.path().into(), fingerprint: authority.fingerprint() })
}

/// Makes a token that is valid for so long, for this node or for any new one.
pub fn token(cluster: &str, node: Option<NodeId>, life: Duration) -> Result<Token> {
    let dir = place(cluster)?;
    let store = Store::open(&dir)?.ok_or(TrustError::NoAuthority { path: dir })?;
    let authority = Authority::open(&store)?;
    Ok(trust::token::issue(&store, authority.fingerprint(), node, SystemTime::now() + life)?)
}

/// Who has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// Which node this host has now.
    pub node: NodeId,
    /// The cluster.
    pub cluster: String,
    /// Where its manager will listen.
    pub address: SocketAddr,
    /// Where its keys are.
    pub dir: PathBuf,
}

/// What is asked of the authority.
#[derive(Debug)]
pub struct JoinOptions {
    /// Its host, with or without a port.
    pub host: String,
    /// From [`token`].
    pub token: Token,
    /// Which node this host wants to be; none: what the token says, or the next.
    pub node: Option<NodeId>,
    /// Where its manager will listen; none: at the address that leads to the authority.
    pub address: Option<Address>,
    /// How long it may take.
    pub limit: Duration,
}

/// Lets a node of this host join the cluster.
pub fn join(options: JoinOptions) -> Result<Joined> {
    let JoinOptions { host, token, node, address, limit } = options;
    let place = places().ok_or(HostsError::NoDirectory)?;
    let at = with_port(&host);
    let until = Instant::now() + limit;
    let no_connection = |source| HostsError::Connect { at: at.clone(), source };
    let mut socket = connect(&at, until)?;
    socket.set_write_timeout(Some(limit)).map_err(no_connection)?;
    let own = socket.local_addr().map_err(no_connection)?.ip();
    if address.is_none() && is_link_local(own) {
        return Err(HostsError::LinkLocal { at, own });
    }
    let address = address.unwrap_or(Address { ip: own, port: None }).complete();
    let failed = |source: JoinError| HostsError::Join { at: at.clone(), source };
    // A token that is spent lets nobody in again: what this host lacks is found before.
    let room = Room::hold(&place)?;
    // Its own limit is this function's.
    let now = proto::time::Instant::from_nanos(0);
    let mut joining = Joining::begin(token, node, address, now).map_err(failed)?;
    let answer = converse(&mut socket, &mut joining.channel, until, &at, |error| failed(error.into()))?;
    let (node, cluster, store) = joining
        .finish(&answer, |cluster| {
            drop(room);
            let dir = directory(cluster).filter(|_| is_plain(cluster));
            Store::create(&dir.ok_or_else(|| TrustError::Crypto {
                what: "the other side's name of the cluster",
                why: format!("`{cluster}` cannot name a directory: install the same tieline on both sides"),
            })?)
        })
        .map_err(failed)?;
    Ok(Joined { node, cluster, address, dir: store.path().into() })
}

/// Whose certificate [`renew`] has renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// The node.
    pub node: NodeId,
    /// Where its keys are.
    pub dir: PathBuf,
}

/// Renews the certificate of a node of this host: of the only one, if none is named. `host` is the
/// authority's, with or without a port; none: this one.
pub fn renew(cluster: &str, node: Option<NodeId>, host: Option<&str>, limit: Duration) -> Result<Renewed> {
    let (store, node) = own_node(cluster, node)?;
    let dir = store.path().to_owned();
    let Some(host) = host else {
        if !Authority::is_in(&store) {
            return Err(HostsError::WhichHost);
        }
        renew_here(&store, node, SystemTime::now())?;
        return Ok(Renewed { node, dir });
    };
    let at = with_port(host);
    let failed = |source: RenewError| HostsError::Renew { node, at: at.clone(), source };
    // Its own limit is this function's.
    let now = proto::time::Instant::from_nanos(0);
    let mut renewing = Renewing::begin(store, node, now).map_err(failed)?;
    let until = Instant::now() + limit;
    let no_connection = |source| HostsError::Connect { at: at.clone(), source };
    let mut socket = connect(&at, until)?;
    socket.set_write_timeout(Some(limit)).map_err(no_connection)?;
    let answer = converse(&mut socket, &mut renewing.channel, until, &at, |error| failed(error.into()))?;
    renewing.finish(&answer).map_err(failed)?;
    Ok(Renewed { node, dir })
}

/// The keys of this host, and the node that is named, or the only one.
fn own_node(cluster: &str, node: Option<NodeId>) -> Result<(Store, NodeId)> {
    let dir = place(cluster)?;
    let store = Store::open(&dir)?
        .ok_or_else(|| HostsError::NoKeys { cluster: cluster.to_owned(), path: dir.clone() })?;
    match (node, Identity::nodes(&store)?.as_slice()) {
        (Some(node), _) => Ok((store, node)),
        (None, [only]) => Ok((store, *only)),
        (None, nodes) => Err(HostsError::WhichNode { path: dir, count: nodes.len() }),
    }
}

/// It is one part of a path: what the other side says does not lead elsewhere.
fn is_plain(cluster: &str) -> bool {
    node_client::runtime_dir::ClusterName::new(cluster).is_ok()
}

/// To the first of its addresses that answers; all of them have this time together.
fn connect(at: &str, until: Instant) -> Result<TcpStream> {
    let host = || at.rsplit_once(':').map_or(at, |(host, _)| host).to_owned();
    let addresses =
        at.to_socket_addrs().map_err(|source| HostsError::UnknownName { host: host(), source })?;
    let mut last = ErrorKind::NotFound.into();
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            last = ErrorKind::TimedOut.into();
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(HostsError::Connect { at: at.to_owned(), source: last })
}

/// Until the answer has come.
fn converse(
    socket: &mut TcpStream,
    channel: &mut Channel,
    until: Instant,
    at: &str,
    failed: impl Fn(ChannelError) -> HostsError,
) -> Result<Vec<u8>> {
    let broke = |source| HostsError::Connect { at: at.to_owned(), source };
    let mut piece = [0; PIECE_BYTES];
    loop {
        channel.write_to(socket).map_err(broke)?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HostsError::NoAnswer { at: at.to_owned() });
        }
        socket.set_read_timeout(Some(left)).map_err(broke)?;
        let read = match socket.read(&mut piece) {
            Ok(0) => return Err(HostsError::NoAnswer { at: at.to_owned() }),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(HostsError::NoAnswer { at: at.to_owned() });
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(broke(error)),
        };
        let outcome = channel.received(piece.get(..read).unwrap_or_default());
        while let Some(event) = channel.next_event() {
            if let Event::Record(record) = event
                && record.kind == RecordKind::Join
            {
                return Ok(record.body);
            }
        }
        outcome.map_err(&failed)?;
    }
}
