//! Leaving a cluster: a node proves its identity by its certificate, the authority revokes that and removes
//! the node from the list of hosts, and the node's host removes the files of the cluster.

use std::time::SystemTime;

use proto::ids::NodeId;
use proto::time::Instant;
use proto::wire::program::Refusal;
use proto::wire::record::RecordKind;
use proto::wire::{CodecError, decode, encode};
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use crate::authority::{self, Authority, Fingerprint};
use crate::channel::{Channel, ChannelError, Purpose, to_authority};
use crate::error::{Result, TrustError};
use crate::identity::{self, Identity, LEAVE};
use crate::join::told;
use crate::revoke::let_go;
use crate::store::Store;
use crate::{hosts, revocations};

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    node: NodeId,
}

type Answer = std::result::Result<(), Refusal>;

/// Why leaving failed. Nothing was removed then.
#[derive(Debug, thiserror::Error)]
pub enum LeaveError {
    /// The connection.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The authority said no.
    #[error("{0}")]
    Refused(String),
    /// This host's directory.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The answer is no answer.
    #[error("the authority's reply cannot be read ({0}): install the same tieline on both sides")]
    Unreadable(String),
}

fn unreadable(error: CodecError) -> LeaveError {
    LeaveError::Unreadable(error.to_string())
}

/// Answers one request, on a host that has the authority's key. The answer is to be sent in any case. `now`
/// is the wall clock.
pub fn serve(store: &Store, channel: &Channel, request: &[u8], now: SystemTime) -> (Vec<u8>, Result<NodeId>) {
    let (answer, outcome): (Answer, _) = match serve_one(store, channel, request, now) {
        Ok(node) => (Ok(()), Ok(node)),
        Err(error) => (Err(Refusal::Invalid(told(&error, "take the node out of the cluster"))), Err(error)),
    };
    (encode(&answer).unwrap_or_default(), outcome)
}

fn serve_one(store: &Store, channel: &Channel, request: &[u8], now: SystemTime) -> Result<NodeId> {
    Authority::open(store)?;
    let unreadable = |why: String| TrustError::Crypto { what: "reading a request to leave the cluster", why };
    let Request { node } = decode(request).map_err(|error| unreadable(error.to_string()))?;
    let nobody = || unreadable("it came from nobody".to_owned());
    let proof = channel.proof().filter(|_| channel.purpose() == Purpose::Leave).ok_or_else(nobody)?;
    let proved = authority::node_of(proof).ok_or_else(nobody)?;
    if proved != node {
        return Err(unreadable(format!("node {proved} asked to let node {node} leave")));
    }
    let_go(store, node, now)?;
    Ok(node)
}

/// A node of this host that leaves, between its connecting and the answer.
#[derive(Debug)]
pub struct Leaving {
    store: Store,
    node: NodeId,
    /// The connection.
    pub channel: Channel,
}

impl Leaving {
    /// Begins on a connection that stands.
    pub fn begin(store: Store, node: NodeId, now: Instant) -> std::result::Result<Self, LeaveError> {
        let authority = CertificateDer::from(store.need(authority::CERTIFICATE)?);
        let config = identity::proving(&store, node, Fingerprint::of(&authority), LEAVE)?;
        let connection = to_authority(config)?;
        let mut channel = Channel::dial_for(Purpose::Leave, connection, now);
        let request = encode(&Request { node }).map_err(unreadable)?;
        channel.send(RecordKind::Join, &request).map_err(ChannelError::from)?;
        Ok(Self { store, node, channel })
    }

    /// Takes the answer, and removes what this host has of the node.
    pub fn finish(self, answer: &[u8]) -> std::result::Result<(), LeaveError> {
        let answer: Answer = decode(answer).map_err(unreadable)?;
        answer.map_err(|refusal| match refusal {
            Refusal::Invalid(text) => LeaveError::Refused(text),
            other => LeaveError::Refused(other.to_string()),
        })?;
        Ok(forget(&self.store, self.node)?)
    }
}

/// Removes the key, the certificate and the address of a node of this host; with the last of its nodes, also
/// what it knows of the cluster.
pub fn forget(store: &Store, node: NodeId) -> Result<()> {
    if Authority::is_in(store) {
        return Err(TrustError::OwnNode { node });
    }
    // Without its certificate the rest is of no use, so that goes first.
    for file in [identity::file_of(node), format!("node-{node}.key"), format!("node-{node}.address")] {
        store.remove(&file)?;
    }
    if Identity::nodes(store)?.is_empty() {
        for file in [hosts::FILE, revocations::FILE, authority::CLUSTER, authority::CERTIFICATE] {
            store.remove(file)?;
        }
        store.remove_if_empty();
    }
    Ok(())
}
