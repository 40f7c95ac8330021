//! The network side of a manager: where it listens for managers of other hosts, and what it knows of their
//! addresses.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use proto::ids::NodeId;
use proto::manager::PeerConn;
use proto::time::Instant;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use trust::hosts::HostMap;
use trust::identity::Identity;
use trust::store::Store;

use crate::daemon::Announcing;
use crate::dial_addresses::DialAddresses;
use crate::dials::Dials;
use crate::error::{NodeError, Result};
use crate::news::News;
use crate::remote::Remote;
use crate::watch::Watch;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;
/// Connections that have not proved who they are, in all and from one address. One more, and the oldest of
/// them is dropped.
const STRANGERS_MAX: usize = 256;
const STRANGERS_OF_ONE_MAX: usize = 32;

/// What a manager has that talks to other hosts.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) identity: Arc<Identity>,
    pub(crate) store: Store,
    /// At the address by which the others know this node, and at those of its other rails.
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) hosts: HostMap,
    pub(crate) remotes: HashMap<PeerConn, Remote>,
    /// Whom this side dials now, and who waits for that.
    pub(crate) dials: Dials,
    /// At which of their addresses.
    pub(crate) dial_addresses: DialAddresses,
    /// No descriptor was left: nothing is accepted until then.
    pub(crate) accept_again_at: Option<Instant>,
    /// What is new of addresses.
    pub(crate) news: News,
    /// When those who dial this node are told where it is.
    pub(crate) announcing: Announcing,
    /// When the lists that the disk refused are stored again, and whether it has refused them since they were
    /// stored last.
    pub(crate) store_again_at: Option<Instant>,
    pub(crate) is_storing_refused: bool,
    /// The authority has revoked this node's own certificate.
    pub(crate) is_revoked: bool,
}

impl Network {
    /// Listens at the address of this node; `None`: the directory has no identity for it.
    /// `watch` reports from then on what other processes of this host write there.
    pub(crate) fn open(dir: &Path, node: NodeId, watch: &mut Watch) -> Result<Option<Self>> {
        let Some(store) = Store::open(dir)? else { return Ok(None) };
        // Before the list is read: what is written afterwards is seen.
        watch.watch_keys(dir).map_err(|errno| NodeError::Io {
            what: "watch",
            path: dir.into(),
            source: errno.into(),
        })?;
        let Some(identity) = Identity::load(&store, node)? else { return Ok(None) };
        let hosts = HostMap::load(&store)?;
        let address = identity.address;
        let listener =
            listen_at(address).map_err(|errno| NodeError::Listen { node, address, source: errno.into() })?;
        Ok(Some(Self {
            identity: Arc::new(identity),
            store,
            listeners: vec![listener],
            hosts,
            remotes: HashMap::new(),
            dials: Dials::default(),
            dial_addresses: DialAddresses::default(),
            accept_again_at: None,
            news: News::default(),
            announcing: Announcing::new(),
            store_again_at: None,
            is_storing_refused: false,
            is_revoked: false,
        }))
    }

    /// Listens at the addresses of the other rails as well, so that the session does not depend on one of
    /// them, and keeps all of them for the others. What cannot be done is answered in words: the node does
    /// without.
    pub(crate) fn listen_on_rails(&mut self, rails: &[IpAddr]) -> Vec<String> {
        let own = self.identity.address;
        let mut warnings = Vec::new();
        let mut addresses = vec![own];
        // At the unspecified address it listens on all.
        for rail in rails.iter().filter(|rail| **rail != own.ip() && !own.ip().is_unspecified()) {
            let address = SocketAddr::new(*rail, own.port());
            match listen_at(address) {
                Ok(listener) => {
                    self.listeners.push(listener);
                    addresses.push(address);
                }
                Err(errno) => warnings.push(format!(
                    "other hosts cannot connect over rail {rail}: listening at {address} failed ({errno}): stop the program that uses the port"
                )),
            }
        }
        if self.hosts.set_all(self.identity.node, addresses)
            && let Err(error) = self.hosts.save(&self.store)
        {
            warnings.push(format!(
                "the addresses of this host's rails cannot be stored, so other managers do not know them after a restart: {error}: correct that, and restart this node"
            ));
        }
        warnings
    }

    /// The earliest moment at which a connection is given up, or accepting is tried again.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let moments = self.remotes.values().filter_map(Remote::limit);
        let moments = moments.chain(self.store_again_at).chain(Some(self.announcing.at()));
        moments.chain(self.accept_again_at).chain(self.news.next_timeout()).min()
    }

    /// Connections whose time is over.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<PeerConn> {
        let due = |remote: &Remote| remote.limit().is_some_and(|limit| limit <= now);
        self.remotes.iter().filter(|(_, remote)| due(remote)).map(|(conn, _)| *conn).collect()
    }

    /// Which connection makes room for one more from this address; `None`: there is room.
    pub(crate) fn one_too_many(&self, from: IpAddr) -> Option<PeerConn> {
        let strangers = || self.remotes.iter().filter(|(_, remote)| remote.is_stranger());
        let of_one = || strangers().filter(|(_, remote)| remote.from() == from);
        // Numbers are given out in order: the lowest is the oldest.
        if of_one().count() >= STRANGERS_OF_ONE_MAX {
            return of_one().map(|(conn, _)| *conn).min_by_key(|conn| conn.0);
        }
        if strangers().count() >= STRANGERS_MAX {
            return strangers().map(|(conn, _)| *conn).min_by_key(|conn| conn.0);
        }
        None
    }
}

/// Whether an interface of this host has the address now.
pub(crate) fn is_here(address: IpAddr) -> bool {
    // Only a certain no counts: where a socket cannot be made, the address is not to blame.
    !TcpListener::bind((address, 0)).is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

fn listen_at(address: SocketAddr) -> std::result::Result<TcpListener, rustix::io::Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    // The manager may start before the interface has its address, and stays when it is taken away and comes
    // back.
    let _ = sockopt::set_ip_freebind(&fd, true);
    bind(&fd, &address)?;
    listen(&fd, BACKLOG)?;
    Ok(fd.into())
}
