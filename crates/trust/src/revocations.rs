//! The list of revoked certificates that counts now, and handshakes that ask it.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::authority;
use crate::error::Result;
use crate::revocation_list::{ListError, RevocationList};
use crate::store::{Lock, Store};

/// The file in the directory.
pub const FILE: &str = "revoked";

/// Takes newer lists while handshakes ask it.
#[derive(Debug)]
pub struct Revocations {
    authority: CertificateDer<'static>,
    list: RwLock<Arc<RevocationList>>,
}

/// The list in a directory; an error if it cannot be read as a whole, or the authority has not signed it.
pub(crate) fn load(store: &Store, authority: &CertificateDer<'_>) -> Result<RevocationList> {
    match store.read(FILE)? {
        None => Ok(RevocationList::default()),
        Some(bytes) => RevocationList::from_bytes(&bytes, authority)
            .map_err(|why| crate::TrustError::Revocations { path: store.place(FILE), why }),
    }
}

/// Keeps a list, unless the directory has a newer one.
pub(crate) fn keep(
    store: &Store,
    _lock: &Lock,
    authority: &CertificateDer<'_>,
    list: &RevocationList,
) -> Result<()> {
    match list.as_bytes() {
        Some(bytes) if load(store, authority)?.version() < list.version() => store.write(FILE, bytes),
        _ => Ok(()),
    }
}

impl Revocations {
    /// The list in the directory; it must be readable if it is there.
    pub fn open(store: &Store) -> Result<Arc<Self>> {
        let authority = CertificateDer::from(store.need(authority::CERTIFICATE)?);
        let list = RwLock::new(Arc::new(load(store, &authority)?));
        Ok(Arc::new(Self { authority, list }))
    }

    /// The list that counts now.
    pub fn list(&self) -> Arc<RevocationList> {
        Arc::clone(&self.list.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a list that somebody has sent, if it is newer and the authority's; false: it is not newer.
    pub fn offer(&self, bytes: &[u8]) -> std::result::Result<bool, ListError> {
        // Most that come are known: of those no signature is checked.
        if RevocationList::claimed_version(bytes, &self.authority)? <= self.list().version() {
            return Ok(false);
        }
        Ok(self.take(RevocationList::from_bytes(bytes, &self.authority)?))
    }

    /// Reads the directory again; true: there was a newer list.
    pub fn reload(&self, store: &Store) -> Result<bool> {
        Ok(self.take(load(store, &self.authority)?))
    }

    /// Keeps the list in the directory, which other managers of this host use, too.
    pub fn keep(&self, store: &Store) -> Result<()> {
        keep(store, &store.lock()?, &self.authority, &self.list())
    }

    fn take(&self, list: RevocationList) -> bool {
        let mut now = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let is_newer = list.version() > now.version();
        if is_newer {
            *now = Arc::new(list);
        }
        is_newer
    }

    /// Whether a certificate was revoked.
    pub fn refuses(&self, certificate: &CertificateDer<'_>) -> bool {
        self.list().refuses(certificate, &self.authority)
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> std::result::Result<(), Error> {
        if self.refuses(certificate) {
            return Err(Error::InvalidCertificate(CertificateError::Revoked));
        }
        Ok(())
    }
}

/// Believes the servers that another verifier believes, without those whose certificates were revoked.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) valid: Arc<dyn ServerCertVerifier>,
    pub(crate) revoked: Arc<Revocations>,
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        let valid = self.valid.verify_server_cert(own, others, name, ocsp, now)?;
        self.revoked.check(own)?;
        Ok(valid)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.valid.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.valid.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.valid.supported_verify_schemes()
    }
}

/// The same for those who connect.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) valid: Arc<dyn ClientCertVerifier>,
    pub(crate) revoked: Arc<Revocations>,
}

impl ClientCertVerifier for Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.valid.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, Error> {
        let valid = self.valid.verify_client_cert(own, others, now)?;
        self.revoked.check(own)?;
        Ok(valid)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.valid.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.valid.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.valid.supported_verify_schemes()
    }
}
