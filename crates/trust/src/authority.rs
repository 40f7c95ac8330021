//! The cluster's own authority: a key and a self-signed certificate, and the certificates that it issues to
//! nodes.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proto::ids::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SerialNumber, SignatureAlgorithm, SigningKey,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};
use sha2::{Digest, Sha256};

use crate::error::{Result, TrustError};
use crate::identity::provider;
use crate::store::{Store, random};
use crate::unfinished;

pub(crate) const KEY: &str = "authority.key";
pub(crate) const CERTIFICATE: &str = "authority.crt";
pub(crate) const CLUSTER: &str = "cluster";
/// How long the authority's certificate is valid.
const AUTHORITY_LIFE: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How long a node's certificate is valid.
pub const NODE_LIFE: Duration = Duration::from_secs(365 * 86_400);
/// Clocks of hosts may differ by that much.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3600);
/// No certificate of a node is valid for longer.
pub(crate) const LONGEST_LIFE: Duration = NODE_LIFE.saturating_add(CLOCKS_DIFFER);
/// Before what is signed that is no certificate, so that neither can be taken for the other.
const CONTEXT: &[u8] = b"tieline: list of revoked certificates\n";
/// Bytes of a public key.
pub(crate) const PUBLIC_KEY_BYTES: usize = 32;

/// SHA-256 of an authority's certificate: what a token carries, so that who joins knows which authority is
/// meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of this certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate.as_ref()).into())
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::hex::encode(&self.0))
    }
}

/// The authority, on the host that has its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The same key, for what is no certificate.
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

/// A public key that came from elsewhere.
struct PublicKey([u8; PUBLIC_KEY_BYTES]);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl Authority {
    /// Makes a key and a certificate, and keeps both in the directory. `now` is the wall clock.
    pub fn create(store: &Store, cluster: &str, now: SystemTime) -> Result<Self> {
        Self::create_with(store, cluster, now, |_| Ok(()))
    }

    /// The same, with what else the directory is to hold from the beginning on. All of it is there, or
    /// nothing: also if this process is killed meanwhile, the next one finds the beginning, and begins anew.
    pub fn create_with(
        store: &Store,
        cluster: &str,
        now: SystemTime,
        rest: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        // Of two that are made at once one is refused.
        let lock = store.lock()?;
        unfinished::clear(store, &lock)?;
        if store.has(KEY) || store.has(CERTIFICATE) {
            return Err(TrustError::Exists { path: store.path().into() });
        }
        let made = unfinished::begin(store, &lock)
            .and_then(|()| Self::write(store, cluster, now, rest))
            .and_then(|made| unfinished::end(store, &lock).map(|()| made));
        if made.is_err() {
            let _ = store.remove(KEY);
            let _ = unfinished::clear(store, &lock);
            store.remove_if_empty();
        }
        made
    }

    fn write(
        store: &Store,
        cluster: &str,
        now: SystemTime,
        rest: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        let key =
            KeyPair::generate_for(&PKCS_ED25519).map_err(TrustError::crypto("making the authority's key"))?;
        let params = own_params(cluster, now);
        let certificate =
            params.self_signed(&key).map_err(TrustError::crypto("making the authority's certificate"))?;
        let again =
            key_from(key.serialized_der()).map_err(TrustError::crypto("making the authority's key"))?;
        let secret = key.serialized_der().to_vec();
        let made =
            Self { issuer: Issuer::new(params, key), key: again, certificate: certificate.der().clone() };
        store.make_dir(crate::token::FOLDER)?;
        store.write(CLUSTER, cluster.as_bytes())?;
        store.write(CERTIFICATE, &made.certificate)?;
        rest(&made)?;
        // The key comes last: with it there is an authority.
        store.write(KEY, &secret)?;
        Ok(made)
    }

    /// The authority in this directory.
    pub fn open(store: &Store) -> Result<Self> {
        let Some(key) = store.read(KEY)? else {
            return Err(TrustError::NoAuthority { path: store.path().into() });
        };
        let [key, again] = [key_from(&key), key_from(&key)]
            .map(|key| key.map_err(|error| store.damaged(KEY, error.to_string())));
        let (key, again) = (key?, again?);
        let cluster = store.text(CLUSTER)?;
        let certificate = CertificateDer::from(store.need(CERTIFICATE)?);
        // Of these, the issuer's name and key count; they are those of the certificate that was made.
        let issuer = Issuer::new(own_params(&cluster, SystemTime::UNIX_EPOCH), key);
        Ok(Self { issuer, key: again, certificate })
    }

    /// Whether the directory has an authority's key.
    pub fn is_in(store: &Store) -> bool {
        store.has(KEY)
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// What tokens carry.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// A certificate for the node that has this public key.
    pub fn issue(
        &self,
        node: NodeId,
        public_key: [u8; PUBLIC_KEY_BYTES],
        now: SystemTime,
    ) -> Result<CertificateDer<'static>> {
        self.issue_from(node, public_key, seconds(begin_of(now)), now)
    }

    /// The same, valid from `begin` on, in seconds since 1970.
    pub(crate) fn issue_from(
        &self,
        node: NodeId,
        public_key: [u8; PUBLIC_KEY_BYTES],
        begin: u64,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>> {
        let mut params = CertificateParams::new(vec![name_of(node)])
            .map_err(TrustError::crypto("making a node's certificate"))?;
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, format!("tieline node {node}"));
        params.distinguished_name = name;
        // Each has a number of its own, also two for one key: positive, and never with a zero in front.
        let mut serial: [u8; 16] = random()?;
        serial[0] = serial[0] & 0x3f | 0x40;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.not_before = (UNIX_EPOCH + Duration::from_secs(begin)).into();
        params.not_after = (now + NODE_LIFE).into();
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let signed = params
            .signed_by(&PublicKey(public_key), &self.issuer)
            .map_err(TrustError::crypto("signing a node's certificate"))?;
        Ok(signed.der().clone())
    }

    /// Signs the text of a list of revoked certificates.
    pub(crate) fn sign(&self, text: &[u8]) -> Result<Vec<u8>> {
        let signed = self.key.sign(&[CONTEXT, text].concat());
        signed.map_err(TrustError::crypto("signing the list of revoked certificates"))
    }
}

/// Whether the authority with this certificate has signed the text of a list of revoked certificates.
pub(crate) fn is_signature_of(authority: &CertificateDer<'_>, text: &[u8], signature: &[u8]) -> bool {
    let Ok(parsed) = webpki::EndEntityCert::try_from(authority) else { return false };
    parsed.verify_signature(webpki::ring::ED25519, &[CONTEXT, text].concat(), signature).is_ok()
}

fn key_from(pkcs8: &[u8]) -> std::result::Result<KeyPair, rcgen::Error> {
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(pkcs8), &PKCS_ED25519)
}

/// From when on a certificate is valid that is issued now.
pub(crate) fn begin_of(now: SystemTime) -> SystemTime {
    now.checked_sub(CLOCKS_DIFFER).unwrap_or(now)
}

/// Since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn own_params(cluster: &str, now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, format!("tieline cluster {cluster}"));
    params.distinguished_name = name;
    params.not_before = begin_of(now).into();
    params.not_after = (now + AUTHORITY_LIFE).into();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// The name by which a certificate names its node. It is resolved by nobody.
pub(crate) fn name_of(node: NodeId) -> String {
    format!("node-{node}.tieline.invalid")
}

/// The node that a certificate names; `None`: none, or several.
pub fn node_of(certificate: &CertificateDer<'_>) -> Option<NodeId> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut names = parsed.valid_dns_names();
    let node = names.next()?.strip_prefix("node-")?.strip_suffix(".tieline.invalid")?.parse().ok()?;
    names.next().is_none().then_some(node)
}

/// The Ed25519 key that a certificate is for; `None`: it has another one.
pub(crate) fn key_of(certificate: &CertificateDer<'_>) -> Option<[u8; PUBLIC_KEY_BYTES]> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let info = parsed.subject_public_key_info();
    let key = info.last_chunk::<PUBLIC_KEY_BYTES>().copied()?;
    (PublicKey(key).subject_public_key_info() == info.to_vec()).then_some(key)
}

/// Whether the authority itself has issued a certificate for this node and this key that is valid now; if
/// not, why.
pub(crate) fn check_issued(
    certificate: &CertificateDer<'_>,
    node: NodeId,
    key: Option<[u8; PUBLIC_KEY_BYTES]>,
    authority: &CertificateDer<'_>,
) -> std::result::Result<(), &'static str> {
    if node_of(certificate) != Some(node) {
        return Err("it names another node");
    }
    if key.is_none() || key_of(certificate) != key {
        return Err("it is for another key than this host's");
    }
    check_signed(certificate, authority, UnixTime::now()).map_err(|error| match error {
        Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => "it is not valid at this time, so this host's clock or the authority's is wrong",
        _ => "the authority has not signed it",
    })
}

/// Whether the authority itself has signed a node's certificate, and it is valid then.
pub(crate) fn check_signed(
    certificate: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
    now: UnixTime,
) -> std::result::Result<(), Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone().into_owned())?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| Error::General(error.to_string()))?;
    let nameless = Error::InvalidCertificate(CertificateError::NotValidForName);
    let name = node_of(certificate).map(name_of).ok_or(nameless)?;
    let name = ServerName::try_from(name).map_err(|error| Error::General(error.to_string()))?;
    verifier.verify_server_cert(certificate, &[], &name, &[], now).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    #[test]
    fn an_authority_is_made_once_and_opened_again() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        assert!(matches!(Authority::open(&store), Err(TrustError::NoAuthority { .. })));
        let made = Authority::create(&store, "lab", SystemTime::now()).unwrap();
        assert!(matches!(
            Authority::create(&store, "lab", SystemTime::now()),
            Err(TrustError::Exists { .. })
        ));
        let opened = Authority::open(&store).unwrap();
        assert_eq!(opened.fingerprint(), made.fingerprint());
        let node = NodeId::new(12).unwrap();
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let public = key.der_bytes().try_into().unwrap();
        let certificate = opened.issue(node, public, SystemTime::now()).unwrap();
        assert_eq!(node_of(&certificate), Some(node));
        assert_eq!(node_of(opened.certificate()), None);
    }

    /// A directory in the place of a file refuses the write as a full disk does, for the superuser, too.
    #[test]
    fn half_an_authority_does_not_stay() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        for name in [CLUSTER, CERTIFICATE, KEY] {
            std::fs::create_dir_all(store.place(name).join("full")).unwrap();
            Authority::create(&store, "lab", SystemTime::now()).unwrap_err();
            std::fs::remove_dir_all(store.place(name)).unwrap();
            assert_eq!(store.names().unwrap_or_default(), [""; 0], "after a failed write of {name}");
            std::fs::create_dir_all(store.path()).unwrap();
        }
        Authority::create(&store, "lab", SystemTime::now()).unwrap();
    }

    /// A panic leaves what a process leaves that is killed: no file is taken back, and the lock is free.
    #[test]
    fn the_remains_of_an_attempt_that_was_killed_do_not_stand_in_the_way() {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        let now = SystemTime::now();
        let (node, address) = (NodeId::new(4).unwrap(), "10.0.0.1:1".parse().unwrap());
        let keep = |authority: &Authority| Identity::issue_here(&store, authority, node, address, now);
        for is_node_kept in [false, true] {
            let killed = catch_unwind(AssertUnwindSafe(|| {
                Authority::create_with(&store, "lab", now, |authority| {
                    if is_node_kept {
                        keep(authority)?;
                    }
                    store.write(".0123456789abcdef", b"half of a file")?;
                    panic!("killed")
                })
            }));
            assert!(killed.is_err() && store.has(CERTIFICATE) && !Authority::is_in(&store));
        }
        let other = NodeId::new(8).unwrap();
        let made = Authority::create_with(&store, "lab", now, |authority| {
            Identity::issue_here(&store, authority, other, address, now)
        });
        let fingerprint = made.unwrap().fingerprint();
        assert_eq!(
            Identity::nodes(&store).unwrap(),
            [other],
            "of the attempt that was killed nothing is left"
        );
        let mut names = store.names().unwrap();
        names.sort();
        let whole = "authority.crt authority.key cluster node-8.address node-8.crt node-8.key tokens";
        assert_eq!(names.join(" "), whole);
        // Killed when all was there but the note that it is: it is whole, and stays.
        unfinished::begin(&store, &store.lock().unwrap()).unwrap();
        let again = Authority::create(&store, "lab", now);
        assert!(matches!(again, Err(TrustError::Exists { .. })));
        assert_eq!(Authority::open(&store).unwrap().fingerprint(), fingerprint);
        assert_eq!(Identity::nodes(&store).unwrap(), [other]);
    }
}
