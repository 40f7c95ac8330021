//! The identity of a node towards other hosts: its certificate, its key, the authority that it trusts, and
//! its address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use proto::ids::NodeId;
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData};
use rustls::client::Resumption;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::authority::{self, Authority, Fingerprint, PUBLIC_KEY_BYTES, node_of};
use crate::error::{Result, TrustError};
use crate::pinned::Pinned;
use crate::revocations::{Clients, Revocations, Servers};
use crate::store::Store;

/// Protocol names (ALPN): what a connection is for.
pub(crate) const PEER: &[u8] = b"tieline-peer/1";
pub(crate) const JOIN: &[u8] = b"tieline-join/1";
pub(crate) const RENEW: &[u8] = b"tieline-renew/1";
pub(crate) const LEAVE: &[u8] = b"tieline-leave/1";

/// A node of this host that other hosts may talk to.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Which.
    pub node: NodeId,
    /// Of which cluster.
    pub cluster: String,
    /// Where its manager listens.
    pub address: SocketAddr,
    /// The certificates that are refused, at each handshake.
    pub revocations: Arc<Revocations>,
    certificate: CertificateDer<'static>,
    /// For connections that this node makes.
    pub(crate) dialling: Arc<ClientConfig>,
    /// For those that it accepts, from managers with a certificate only.
    pub(crate) accepting: Arc<ServerConfig>,
    /// For those who join, and have none yet.
    pub(crate) joining: Arc<ServerConfig>,
}

/// A key that was just made; its public part goes to the authority.
pub struct NewKey(KeyPair);

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NewKey").finish_non_exhaustive()
    }
}

impl NewKey {
    /// Makes one.
    pub fn make() -> Result<Self> {
        KeyPair::generate_for(&PKCS_ED25519).map(Self).map_err(TrustError::crypto("making a node's key"))
    }

    /// What the authority signs.
    pub fn public(&self) -> Result<[u8; PUBLIC_KEY_BYTES]> {
        let wrong = |_| TrustError::Crypto { what: "making a node's key", why: "its length is wrong".into() };
        self.0.der_bytes().try_into().map_err(wrong)
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Identity {
    /// Keeps what a node of this host was given. The certificate comes last: with it the identity is there.
    pub fn keep(
        store: &Store,
        node: NodeId,
        key: &NewKey,
        certificate: &CertificateDer<'_>,
        address: SocketAddr,
    ) -> Result<()> {
        store.write(&format!("node-{node}.key"), key.0.serialized_der())?;
        store.write(&format!("node-{node}.address"), address.to_string().as_bytes())?;
        store.write(&file_of(node), certificate)
    }

    /// For a node on the authority's own host.
    pub fn issue_here(
        store: &Store,
        authority: &Authority,
        node: NodeId,
        address: SocketAddr,
        now: SystemTime,
    ) -> Result<()> {
        let key = NewKey::make()?;
        let certificate = authority.issue(node, key.public()?, now)?;
        Self::keep(store, node, &key, &certificate, address)
    }

    /// The identity of a node of this host; `None`: it has none, and talks to this host's nodes only.
    pub fn load(store: &Store, node: NodeId) -> Result<Option<Self>> {
        let Some(certificate) = certificate_in(store, node)? else { return Ok(None) };
        let address_file = format!("node-{node}.address");
        let address = store.text(&address_file)?;
        let address = address
            .parse()
            .map_err(|_| store.damaged(&address_file, "it is not an address such as 10.0.0.1:7411"))?;
        let authority = CertificateDer::from(store.need(authority::CERTIFICATE)?);
        let key = store.need(&format!("node-{node}.key"))?;
        let revocations = Revocations::open(store)?;
        let configs = Configs::new(&certificate, &authority, &key, &revocations)?;
        Ok(Some(Self {
            node,
            cluster: store.text(authority::CLUSTER)?,
            address,
            revocations,
            certificate,
            dialling: Arc::new(configs.dialling),
            accepting: Arc::new(configs.accepting),
            joining: Arc::new(configs.joining),
        }))
    }
}

impl Identity {
    /// Whether this node's own certificate was revoked.
    pub fn is_revoked(&self) -> bool {
        self.revocations.refuses(&self.certificate)
    }

    /// The certificate of a node of this host.
    pub fn certificate(store: &Store, node: NodeId) -> Result<CertificateDer<'static>> {
        let missing = || TrustError::NoCertificate { node, path: store.path().into() };
        certificate_in(store, node)?.ok_or_else(missing)
    }

    /// The nodes of this host that have one.
    pub fn nodes(store: &Store) -> Result<Vec<NodeId>> {
        let node = |name: &str| name.strip_prefix("node-")?.strip_suffix(".crt")?.parse().ok();
        let mut nodes: Vec<NodeId> = store.names()?.iter().filter_map(|name| node(name)).collect();
        nodes.sort_unstable();
        Ok(nodes)
    }
}

pub(crate) fn file_of(node: NodeId) -> String {
    format!("node-{node}.crt")
}

fn certificate_in(store: &Store, node: NodeId) -> Result<Option<CertificateDer<'static>>> {
    let name = file_of(node);
    let Some(certificate) = store.read(&name)? else { return Ok(None) };
    let certificate = CertificateDer::from(certificate);
    if node_of(&certificate) != Some(node) {
        return Err(store.damaged(&name, format!("it is no certificate of node {node}")));
    }
    Ok(Some(certificate))
}

/// For a connection with any node of the cluster, on which a node proves who it is for this purpose.
pub(crate) fn proving(
    store: &Store,
    node: NodeId,
    authority: Fingerprint,
    purpose: &[u8],
) -> Result<ClientConfig> {
    let what = "reading the node's key and certificate";
    let key = store.need(&format!("node-{node}.key"))?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(TrustError::tls(what))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Servers {
            valid: Arc::new(Pinned::new(authority)),
            revoked: Revocations::open(store)?,
        }))
        .with_client_auth_cert(
            vec![Identity::certificate(store, node)?],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key)),
        )
        .map_err(TrustError::tls(what))?;
    config.alpn_protocols = vec![purpose.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(config)
}

struct Configs {
    dialling: ClientConfig,
    accepting: ServerConfig,
    joining: ServerConfig,
}

impl Configs {
    fn new(
        certificate: &CertificateDer<'_>,
        authority: &CertificateDer<'_>,
        key: &[u8],
        revoked: &Arc<Revocations>,
    ) -> Result<Self> {
        let failed = TrustError::tls;
        let key = || PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_vec()));
        // The authority's own comes along, for those who know only its fingerprint.
        let chain = || vec![certificate.clone().into_owned(), authority.clone().into_owned()];
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned()).map_err(failed("reading the authority's certificate"))?;
        let roots = Arc::new(roots);
        let versions = &[&rustls::version::TLS13];
        let what = "reading the node's key and certificate";

        let believing = |error: rustls::server::VerifierBuilderError| TrustError::Crypto {
            what: "believing the authority",
            why: error.to_string(),
        };
        let valid = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider())
            .build()
            .map_err(believing)?;
        let servers = Servers { valid, revoked: Arc::clone(revoked) };
        let mut dialling = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .map_err(failed(what))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(servers))
            .with_client_auth_cert(chain(), key())
            .map_err(failed(what))?;
        dialling.alpn_protocols = vec![PEER.to_vec()];
        dialling.resumption = Resumption::disabled();
        dialling.enable_sni = false;

        let valid = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
        let clients = Clients { valid: valid.map_err(believing)?, revoked: Arc::clone(revoked) };
        let builder = || {
            ServerConfig::builder_with_provider(provider())
                .with_protocol_versions(versions)
                .map_err(failed(what))
        };
        let mut accepting = builder()?
            .with_client_cert_verifier(Arc::new(clients))
            .with_single_cert(chain(), key())
            .map_err(failed(what))?;
        accepting.alpn_protocols = vec![PEER.to_vec(), RENEW.to_vec(), LEAVE.to_vec()];
        let mut joining =
            builder()?.with_no_client_auth().with_single_cert(chain(), key()).map_err(failed(what))?;
        joining.alpn_protocols = vec![JOIN.to_vec()];
        // Each connection proves anew who is at its ends.
        for config in [&mut accepting, &mut joining] {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { dialling, accepting, joining })
    }
}
