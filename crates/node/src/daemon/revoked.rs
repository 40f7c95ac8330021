//! Revoked certificates: takes newer lists from the directory and from other managers, passes them on, and
//! ends what they end.

use std::collections::BTreeSet;

use proto::ids::NodeId;
use proto::manager::{Input, PeerConn, Revoked};
use proto::wire::record::RecordKind;
use trust::hosts::HostMap;
use trust::revocation_list::Standing;

use super::Daemon;
use super::network::UNREAD;
use crate::network::Network;

const OURS: &str = "this node's certificate was revoked by the cluster's authority, and other hosts refuse it: make a token on the \
                    authority's host (`tieline cluster token --node ID`), join again with it, and restart this manager";

impl Network {
    /// Takes nodes out that are not of the cluster any more. One that tells of itself has just proved that it
    /// is.
    pub(crate) fn without_gone(&self, told: &mut HostMap, teller: Option<NodeId>) -> bool {
        let list = self.identity.revocations.list();
        let gone = list.gone().map(|(node, _)| node);
        let gone = gone.filter(|node| Some(*node) != teller && *node != self.identity.node);
        gone.fold(false, |any, node| told.remove(node) | any)
    }

    /// Connections whose other ends have proved who they are by a certificate that was revoked.
    fn refused(&self) -> Vec<(PeerConn, NodeId)> {
        let is_refused = |(conn, remote): (&PeerConn, &crate::remote::Remote)| {
            let refused = self.identity.revocations.refuses(remote.channel.proof()?);
            remote.node.filter(|_| refused).map(|node| (*conn, node))
        };
        self.remotes.iter().filter_map(is_refused).collect()
    }
}

impl Daemon {
    /// Tells the machine at the start whose certificates were revoked.
    pub(super) fn tell_of_revoked(&mut self) {
        if self.network.as_ref().is_some_and(|network| network.identity.revocations.list().version() > 0) {
            self.obey_list();
        }
    }

    /// Another process of this host may have written a newer list.
    pub(super) fn reload_list(&mut self) {
        let Some(network) = &self.network else { return };
        match network.identity.revocations.reload(&network.store) {
            Ok(true) => self.pass_list_on(),
            Ok(false) => {}
            // What is known continues to count.
            Err(error) => self.warn(error.to_string()),
        }
    }

    /// Another manager has sent its list.
    pub(super) fn heard_of_revoked(&mut self, peer: PeerConn, body: &[u8]) {
        let Some(network) = &self.network else { return };
        match network.identity.revocations.offer(body) {
            Ok(true) => {
                let stored = network.identity.revocations.keep(&network.store);
                self.note_stored("the list of revoked certificates", stored);
                self.pass_list_on();
            }
            Ok(false) => {}
            Err(why) => self.lose_remote(peer, Some(why.to_string())),
        }
    }

    /// To all, also to those whose connections end by it: they learn why.
    fn pass_list_on(&mut self) {
        let Some(network) = &mut self.network else { return };
        let list = network.identity.revocations.list();
        let Some(bytes) = list.as_bytes() else { return };
        let told: Vec<_> = network
            .remotes
            .iter_mut()
            .filter(|(_, remote)| remote.node.is_some())
            .map(|(conn, remote)| (*conn, remote.send(RecordKind::Revoked, bytes)))
            .collect();
        for (conn, fits) in told {
            if fits { self.flush_remote(conn) } else { self.lose_remote(conn, Some(UNREAD.to_owned())) }
        }
        self.obey_list();
    }

    /// A connection whose other end has proved who it is by a certificate that was revoked a moment ago.
    pub(super) fn refuse_revoked(&mut self, peer: PeerConn) {
        let dialled = self.remote(peer).and_then(|remote| remote.dialled);
        let why = "its certificate was revoked".to_owned();
        self.lose_remote(peer, Some(why.clone()));
        if let Some(node) = dialled {
            self.tell(Input::DialFailed { node, why });
        }
    }

    /// Nothing of a node continues whose certificate was revoked.
    fn obey_list(&mut self) {
        let Some(network) = &mut self.network else { return };
        if network.identity.is_revoked() {
            return self.obey_own();
        }
        let mut hosts = std::mem::take(&mut network.hosts);
        let is_news = network.without_gone(&mut hosts, None);
        network.hosts = hosts;
        if is_news {
            network.news.note();
        }
        let list = network.identity.revocations.list();
        let refused = network.refused();
        let again: Vec<NodeId> =
            refused.iter().map(|(_, node)| *node).filter(|node| !list.is_gone(*node)).collect();
        let valid: Vec<NodeId> = network
            .remotes
            .values()
            .filter_map(|remote| remote.node)
            .filter(|node| !refused.iter().any(|(_, other)| other == node))
            .collect();
        let own = self.node;
        for (node, standing) in list.gone().filter(|(node, _)| *node != own && !valid.contains(node)) {
            let revoked = if standing == Standing::Left { Revoked::Left } else { Revoked::Theirs };
            self.tell(Input::HostRevoked { node, revoked });
        }
        for node in &again {
            self.tell(Input::HostRevoked { node: *node, revoked: Revoked::Theirs });
        }
        // What the machine did not know yet.
        for (peer, _) in refused {
            if self.remote(peer).is_some_and(|remote| !remote.is_closing()) {
                self.lose_remote(peer, Some("its certificate was revoked".to_owned()));
            }
        }
        self.hosts_seen(&again);
        self.forget_dropped();
        self.spread_if_due();
    }

    /// The signed list names this node: it dials nobody any more, and hears nobody out.
    fn obey_own(&mut self) {
        let Some(network) = &mut self.network else { return };
        if !std::mem::replace(&mut network.is_revoked, true) {
            self.warn(OURS.to_owned());
        }
        let Some(network) = &self.network else { return };
        let peers: Vec<_> = network.remotes.keys().copied().collect();
        let connected = network.remotes.values().filter_map(|remote| remote.node);
        let nodes: BTreeSet<NodeId> = network.hosts.nodes().chain(connected).collect();
        for node in nodes {
            self.tell(Input::HostRevoked { node, revoked: Revoked::Ours });
        }
        for peer in peers {
            if self.remote(peer).is_some_and(|remote| !remote.is_closing()) {
                self.lose_remote(peer, None);
            }
        }
    }
}
