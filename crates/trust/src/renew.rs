//! Renewing a node's certificate: the node proves who it is by the one that it has, and gets another one for
//! the same key.
//!
//! The certificate is the proof, so no token is needed. One that has expired proves nothing: then the node
//! joins with a new token.

use std::time::SystemTime;

use proto::ids::NodeId;
use proto::time::Instant;
use proto::wire::program::Refusal;
use proto::wire::record::RecordKind;
use proto::wire::{CodecError, decode, encode};
use rustls::pki_types::{CertificateDer, UnixTime};
use serde::{Deserialize, Serialize};

use crate::authority::{self, Authority, Fingerprint, check_signed, key_of};
use crate::channel::{Channel, ChannelError, Purpose, to_authority};
use crate::error::{Result, TrustError};
use crate::identity::{self, Identity, RENEW};
use crate::issued;
use crate::join::told;
use crate::revocations;
use crate::store::Store;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    node: NodeId,
}

/// The certificate.
type Answer = std::result::Result<Vec<u8>, Refusal>;

/// Why renewing failed.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// The connection.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The authority said no.
    #[error("{0}")]
    Refused(String),
    /// This host's directory.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// What it has proves nothing.
    #[error(
        "the certificate of node {node} does not prove who it is ({why}): compare the clocks of both hosts; if it has expired, join again with a token of `tieline cluster token --node {node}`"
    )]
    NoProof {
        /// Which.
        node: NodeId,
        /// Why.
        why: String,
    },
    /// The answer is no answer.
    #[error("the authority's reply cannot be read ({0}): install the same tieline on both sides")]
    Unreadable(String),
    /// The answer's certificate is not one to keep.
    #[error(
        "the certificate that came back is not kept: {0}: see that the address is that of the host where `tieline cluster init` was run, and renew again"
    )]
    NotIssued(&'static str),
}

fn unreadable(error: CodecError) -> RenewError {
    RenewError::Unreadable(error.to_string())
}

/// Answers one request, on a host that has the authority's key. The answer is to be sent in any case. `now`
/// is the wall clock.
pub fn serve(store: &Store, channel: &Channel, request: &[u8], now: SystemTime) -> (Vec<u8>, Result<NodeId>) {
    let (answer, outcome): (Answer, _) = match serve_one(store, channel, request, now) {
        Ok((node, certificate)) => (Ok(certificate.to_vec()), Ok(node)),
        Err(error) => (Err(Refusal::Invalid(told(&error, "issue a certificate"))), Err(error)),
    };
    (encode(&answer).unwrap_or_default(), outcome)
}

fn serve_one(
    store: &Store,
    channel: &Channel,
    request: &[u8],
    now: SystemTime,
) -> Result<(NodeId, CertificateDer<'static>)> {
    let authority = Authority::open(store)?;
    let unreadable =
        |why: String| TrustError::Crypto { what: "reading a request to renew a certificate", why };
    let Request { node } = decode(request).map_err(|error| unreadable(error.to_string()))?;
    let nobody = || unreadable("it came from nobody".to_owned());
    let proof = channel.proof().filter(|_| channel.purpose() == Purpose::Renew).ok_or_else(nobody)?;
    let proved = authority::node_of(proof).ok_or_else(nobody)?;
    if proved != node {
        return Err(unreadable(format!("node {proved} asked for a certificate of node {node}")));
    }
    let key = key_of(proof).ok_or_else(|| unreadable("its key is not an Ed25519 key".to_owned()))?;
    let _lock = store.lock()?;
    let list = revocations::load(store, authority.certificate())?;
    // This manager may not have heard of the newest list when the connection was made.
    if list.refuses(proof, authority.certificate()) {
        return Err(TrustError::Revoked { node });
    }
    let (certificate, begin) = issued::issue(&authority, &list, node, key, now)?;
    issued::note(store, node, begin)?;
    Ok((node, certificate))
}

/// Renews the certificate of a node on the authority's own host, also one that has expired.
pub fn renew_here(store: &Store, node: NodeId, now: SystemTime) -> Result<()> {
    let authority = Authority::open(store)?;
    let old = Identity::certificate(store, node)?;
    let key = key_of(&old)
        .ok_or_else(|| store.damaged(&identity::file_of(node), "its key is not an Ed25519 key"))?;
    store.write(&identity::file_of(node), &authority.issue(node, key, now)?)
}

/// A node of this host that renews its certificate, between its connecting and the answer.
#[derive(Debug)]
pub struct Renewing {
    store: Store,
    node: NodeId,
    old: CertificateDer<'static>,
    authority: CertificateDer<'static>,
    /// The connection.
    pub channel: Channel,
}

impl Renewing {
    /// Begins on a connection that stands.
    pub fn begin(store: Store, node: NodeId, now: Instant) -> std::result::Result<Self, RenewError> {
        let old = Identity::certificate(&store, node)?;
        let authority = CertificateDer::from(store.need(authority::CERTIFICATE)?);
        check_signed(&old, &authority, UnixTime::now())
            .map_err(|error| RenewError::NoProof { node, why: error.to_string() })?;
        let config = identity::proving(&store, node, Fingerprint::of(&authority), RENEW)?;
        let connection = to_authority(config)?;
        let mut channel = Channel::dial_for(Purpose::Renew, connection, now);
        let request = encode(&Request { node }).map_err(unreadable)?;
        channel.send(RecordKind::Join, &request).map_err(ChannelError::from)?;
        Ok(Self { store, node, old, authority, channel })
    }

    /// Takes the answer, and puts the new certificate in the place of the old one.
    pub fn finish(self, answer: &[u8]) -> std::result::Result<(), RenewError> {
        let answer: Answer = decode(answer).map_err(unreadable)?;
        let certificate = answer.map_err(|refusal| match refusal {
            Refusal::Invalid(text) => RenewError::Refused(text),
            other => RenewError::Refused(other.to_string()),
        })?;
        let certificate = CertificateDer::from(certificate);
        let key = key_of(&self.old);
        authority::check_issued(&certificate, self.node, key, &self.authority)
            .map_err(RenewError::NotIssued)?;
        Ok(self.store.write(&identity::file_of(self.node), &certificate)?)
    }
}
