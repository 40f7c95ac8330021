//! Joining a cluster: a token, a public key and an address go to the authority, a certificate comes back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use proto::ids::NodeId;
use proto::time::Instant;
use proto::wire::program::Refusal;
use proto::wire::record::RecordKind;
use proto::wire::{decode, encode};
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection};
use serde::{Deserialize, Serialize};

use crate::authority::{self, Authority, Fingerprint, PUBLIC_KEY_BYTES};
use crate::channel::{Channel, ChannelError, Purpose, tls, to_authority};
use crate::error::{Result, TrustError};
use crate::hosts::HostMap;
use crate::identity::{Identity, JOIN, NewKey, provider};
use crate::issued::{self, is_issued, marker};
use crate::pinned::Pinned;
use crate::revocation_list::Standing;
use crate::revocations;
use crate::revoke::set_standing;
use crate::store::{Lock, Store};
use crate::token::{self, Token};
use crate::unfinished;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    token: [u8; 8],
    secret: [u8; 16],
    public_key: [u8; PUBLIC_KEY_BYTES],
    node: Option<NodeId>,
    address: SocketAddr,
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
struct Welcome {
    node: NodeId,
    cluster: String,
    certificate: Vec<u8>,
    hosts: Vec<u8>,
}

type Answer = std::result::Result<Welcome, Refusal>;

/// Somebody who has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// Which node it is.
    pub node: NodeId,
    /// Where its manager listens.
    pub address: SocketAddr,
}

/// Answers one request, on a host that has the authority's key; who has joined is in the directory's host map
/// then. The answer is to be sent in any case. `now` is the wall clock.
pub fn serve(store: &Store, request: &[u8], now: SystemTime) -> (Vec<u8>, Result<Joined>) {
    let served = serve_one(store, request, now);
    let (answer, outcome): (Answer, _) = match served {
        Ok((welcome, joined)) => (Ok(welcome), Ok(joined)),
        Err(error) => (Err(Refusal::Invalid(told(&error, "issue a certificate"))), Err(error)),
    };
    (encode(&answer).unwrap_or_default(), outcome)
}

/// A stranger is told nothing of this host's files; `what` is what it has asked for.
pub(crate) fn told(error: &TrustError, what: &str) -> String {
    match error {
        TrustError::Taken { .. }
        | TrustError::OtherNode { .. }
        | TrustError::NoId
        | TrustError::Full
        | TrustError::Revoked { .. }
        | TrustError::OwnNode { .. }
        | TrustError::ListFull { .. }
        | TrustError::UnknownToken
        | TrustError::ExpiredToken => error.to_string(),
        TrustError::NoAuthority { .. } => {
            "this host has no authority: give the host where `tieline cluster init` was run".to_owned()
        }
        _ => format!("the authority could not {what}: see the log of its node manager"),
    }
}

fn serve_one(store: &Store, request: &[u8], now: SystemTime) -> Result<(Welcome, Joined)> {
    let authority = Authority::open(store)?;
    let unreadable = |why: String| TrustError::Crypto { what: "reading a request to join", why };
    let request: Request = decode(request).map_err(|error| unreadable(error.to_string()))?;
    let lock = store.lock()?;
    let checked = token::check(store, request.token, request.secret, now)?;
    let list = revocations::load(store, authority.certificate())?;
    let mut hosts = HostMap::load(store)?;
    let node = match (checked.node, request.node) {
        (Some(bound), Some(asked)) if bound != asked => return Err(TrustError::OtherNode { bound, asked }),
        (Some(bound), _) => bound,
        (None, Some(asked)) if is_issued(store, &hosts, asked) => {
            return Err(TrustError::Taken { node: asked });
        }
        (None, Some(asked)) => asked,
        (None, None) => first_free(store, &hosts)?,
    };
    // A node that is not in the list could not be found.
    if hosts.get(node).is_none() && hosts.is_full() {
        return Err(TrustError::Full);
    }
    let cluster = store.text(authority::CLUSTER)?;
    let (certificate, begin) = issued::issue(&authority, &list, node, request.public_key, now)?;
    let is_bound = checked.node.is_some();
    // All that can fail for lack of space comes before the token is used up.
    let noted = Noted::write(store, &hosts, node, request.address, is_bound)?;
    let was = match readmit(store, &lock, &authority, node, begin, now) {
        Ok(was) => was,
        Err(error) => {
            noted.take_back(store);
            return Err(error);
        }
    };
    hosts.set(node, request.address);
    let told = hosts.to_bytes().map_err(|error| unreadable(error.to_string()))?;
    // From here on it is used up: two requests with one token are one certificate.
    if let Err(error) = token::use_up(store, checked) {
        noted.take_back(store);
        if let Some(was) = was {
            set_standing(store, &lock, &authority, node, was, now)?;
        }
        return Err(error);
    }
    let welcome = Welcome { node, cluster, certificate: certificate.to_vec(), hosts: told };
    Ok((welcome, Joined { node, address: request.address }))
}

/// Notes a new certificate; a node whose certificates were revoked is one of the cluster again. What it was
/// before, if so.
fn readmit(
    store: &Store,
    lock: &Lock,
    authority: &Authority,
    node: NodeId,
    begin: u64,
    now: SystemTime,
) -> Result<Option<Standing>> {
    issued::note(store, node, begin)?;
    set_standing(store, lock, authority, node, Standing::Readmitted, now)
}

/// What was written for a node before its token was used up.
struct Noted {
    node: NodeId,
    /// It had been given no certificate before.
    is_new: bool,
    /// Its addresses before.
    before: Vec<SocketAddr>,
}

impl Noted {
    fn write(
        store: &Store,
        hosts: &HostMap,
        node: NodeId,
        address: SocketAddr,
        is_bound: bool,
    ) -> Result<Self> {
        store.make_dir(issued::FOLDER)?;
        let is_new = store.make_new(&marker(node))?;
        // Another manager of this host may have given the node away meanwhile.
        if !is_new && !is_bound {
            return Err(TrustError::Taken { node });
        }
        let noted = Self { node, is_new, before: hosts.addresses(node).to_vec() };
        let mut hosts = hosts.clone();
        hosts.set(node, address);
        match hosts.save(store) {
            Ok(()) => Ok(noted),
            Err(error) => {
                noted.unmark(store);
                Err(error)
            }
        }
    }

    fn unmark(&self, store: &Store) {
        if self.is_new {
            let _ = store.remove(&marker(self.node));
        }
    }

    /// The token is not good any more. What cannot be taken back only keeps a node ID from being given out.
    fn take_back(&self, store: &Store) {
        if let Ok(mut hosts) = HostMap::load(store) {
            if self.before.is_empty() {
                hosts.remove(self.node);
            } else {
                hosts.set_all(self.node, self.before.clone());
            }
            let _ = hosts.save(store);
        }
        self.unmark(store);
    }
}

fn first_free(store: &Store, hosts: &HostMap) -> Result<NodeId> {
    let mut ids = (0..).map_while(|index| NodeId::nth(index).ok());
    ids.find(|node| !is_issued(store, hosts, *node)).ok_or(TrustError::NoId)
}

/// Who joins, between its connecting and the answer.
#[derive(Debug)]
pub struct Joining {
    token: Token,
    key: NewKey,
    node: Option<NodeId>,
    address: SocketAddr,
    /// The connection.
    pub channel: Channel,
}

/// Why joining failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
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
    #[error("the reply of the authority cannot be read ({0}): install the same tieline on both sides")]
    Unreadable(String),
    /// The answer's certificate is not one to keep.
    #[error(
        "the certificate that came back is not kept: {0}: see that the address is that of the host where `tieline cluster init` was run, and join with a new token"
    )]
    NotIssued(&'static str),
    /// The directory is of another cluster.
    #[error(
        "{0} belongs to another cluster's authority: remove it first, or choose another name with --cluster"
    )]
    OtherCluster(String),
}

impl Joining {
    /// Begins on a connection that stands, with the address at which this host's manager will listen.
    pub fn begin(
        token: Token,
        node: Option<NodeId>,
        address: SocketAddr,
        now: Instant,
    ) -> std::result::Result<Self, JoinError> {
        let key = NewKey::make()?;
        let request =
            Request { token: token.id, secret: token.secret, public_key: key.public()?, node, address };
        let bytes = encode(&request).map_err(|error| JoinError::Unreadable(error.to_string()))?;
        let mut channel = Channel::dial_for(Purpose::Join, connection(token.authority)?, now);
        channel.send(RecordKind::Join, &bytes).map_err(ChannelError::from)?;
        Ok(Self { token, key, node, address, channel })
    }

    /// Takes the answer, and keeps what it brings in the directory that `place` chooses by the cluster's
    /// name.
    pub fn finish(
        self,
        answer: &[u8],
        place: impl FnOnce(&str) -> std::result::Result<Store, TrustError>,
    ) -> std::result::Result<(NodeId, String, Store), JoinError> {
        let unreadable = |error: proto::wire::CodecError| JoinError::Unreadable(error.to_string());
        let answer: Answer = decode(answer).map_err(unreadable)?;
        let welcome = answer.map_err(|refusal| match refusal {
            Refusal::Invalid(text) => JoinError::Refused(text),
            other => JoinError::Refused(other.to_string()),
        })?;
        let certificate = CertificateDer::from(welcome.certificate);
        let own = self
            .channel
            .chain()
            .and_then(<[_]>::last)
            .filter(|own| Fingerprint::of(own) == self.token.authority);
        let own =
            own.ok_or_else(|| JoinError::Unreadable("the authority's certificate is missing".to_owned()))?;
        // Any node of the cluster can answer, and so can claim anything.
        if self.node.is_some_and(|asked| asked != welcome.node) {
            return Err(JoinError::NotIssued("it names another node"));
        }
        authority::check_issued(&certificate, welcome.node, Some(self.key.public()?), own)
            .map_err(JoinError::NotIssued)?;
        let mut told = HostMap::from_bytes(&welcome.hosts).map_err(unreadable)?;
        let store = place(&welcome.cluster)?;
        // Two who join here at once do not mix their keys and certificates. The token is spent: whoever does
        // not let go of the lock does not keep this one from what it has got.
        let lock = store.lock().ok();
        if let Some(lock) = &lock {
            // What a killed `init` has left is nobody's cluster.
            unfinished::clear(&store, lock)?;
        }
        match store.read(authority::CERTIFICATE)? {
            Some(there) if there != own.as_ref() => {
                return Err(JoinError::OtherCluster(store.path().display().to_string()));
            }
            Some(_) => {}
            None => {
                store.write(authority::CLUSTER, welcome.cluster.as_bytes())?;
                store.write(authority::CERTIFICATE, own)?;
            }
        }
        told.set(welcome.node, self.address);
        told.save(&store)?;
        Identity::keep(&store, welcome.node, &self.key, &certificate, self.address)?;
        Ok((welcome.node, welcome.cluster, store))
    }
}

fn connection(authority: Fingerprint) -> std::result::Result<ClientConnection, ChannelError> {
    let failed = |error| tls(error, None);
    let verifier = Arc::new(Pinned::new(authority));
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![JOIN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    to_authority(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    #[test]
    fn what_was_written_for_a_token_that_is_not_good_any_more_is_taken_back() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        let (old, new) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap());
        let mut hosts = HostMap::default();
        hosts.set(node(4), old);
        hosts.save(&store).unwrap();
        let noted = Noted::write(&store, &hosts, node(8), new, false).unwrap();
        assert_eq!(HostMap::load(&store).unwrap().get(node(8)), Some(new));
        let taken = Noted::write(&store, &hosts, node(8), old, false);
        assert!(matches!(taken, Err(TrustError::Taken { .. })));
        noted.take_back(&store);
        assert_eq!(HostMap::load(&store).unwrap(), hosts);
        assert!(!is_issued(&store, &hosts, node(8)));
        // A node that has a certificate keeps its address, and stays taken.
        store.make_new(&marker(node(4))).unwrap();
        Noted::write(&store, &hosts, node(4), new, true).unwrap().take_back(&store);
        assert_eq!(HostMap::load(&store).unwrap(), hosts);
        assert!(store.has(&marker(node(4))));
    }

    #[test]
    fn a_list_that_cannot_be_written_leaves_the_node_free() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        // No file can take its place.
        store.make_dir("hosts/x").unwrap();
        let (hosts, address) = (HostMap::default(), "10.0.0.1:1".parse().unwrap());
        assert!(matches!(Noted::write(&store, &hosts, node(8), address, false), Err(TrustError::Io { .. })));
        assert!(!is_issued(&store, &hosts, node(8)));
    }
}
