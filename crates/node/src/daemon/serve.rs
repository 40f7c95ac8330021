//! Serves hosts that join, renew their certificates or leave: on the host that has the key of the authority.

use std::time::SystemTime;

use proto::manager::PeerConn;
use proto::wire::record::RecordKind;

use super::{Daemon, clock};

impl Daemon {
    pub(super) fn serve_join(&mut self, peer: PeerConn, body: &[u8]) {
        let Some(network) = &mut self.network else { return };
        let Some(remote) = network.remotes.get_mut(&peer) else { return };
        let from = remote.from();
        let (answer, outcome) = trust::join::serve(&network.store, body, SystemTime::now());
        remote.send(RecordKind::Join, &answer);
        remote.close_soon(clock());
        self.flush_remote(peer);
        // A node that was revoked is one of the cluster again.
        self.reload_list();
        match outcome {
            Ok(joined) => {
                self.info(&format!("node {} at {} has joined the cluster", joined.node, joined.address));
                if let Some(network) = &mut self.network {
                    network.hosts.set(joined.node, joined.address);
                }
                self.spread(&[joined.node]);
            }
            Err(error) => self.warn(format!("a host at {from} could not join: {error}")),
        }
    }

    pub(super) fn serve_renewal(&mut self, peer: PeerConn, body: &[u8]) {
        let Some(network) = &mut self.network else { return };
        let Some(remote) = network.remotes.get_mut(&peer) else { return };
        let from = remote.from();
        let (answer, outcome) = trust::renew::serve(&network.store, &remote.channel, body, SystemTime::now());
        remote.send(RecordKind::Join, &answer);
        remote.close_soon(clock());
        self.flush_remote(peer);
        match outcome {
            Ok(node) => self.info(&format!("node {node} at {from} has a new certificate")),
            Err(error) => self.warn(format!("a node at {from} got no new certificate: {error}")),
        }
    }

    pub(super) fn serve_leave(&mut self, peer: PeerConn, body: &[u8]) {
        let Some(network) = &mut self.network else { return };
        let Some(remote) = network.remotes.get_mut(&peer) else { return };
        let from = remote.from();
        let (answer, outcome) = trust::leave::serve(&network.store, &remote.channel, body, SystemTime::now());
        remote.send(RecordKind::Join, &answer);
        remote.close_soon(clock());
        self.flush_remote(peer);
        self.reload_list();
        match outcome {
            Ok(node) => self.info(&format!("node {node} at {from} has left the cluster")),
            Err(error) => self.warn(format!("a node at {from} could not leave the cluster: {error}")),
        }
    }
}
