//! The check of a certificate by a client that knows the authority of its cluster, and not which node will
//! respond.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use crate::authority::{Fingerprint, check_signed};
use crate::identity::provider;

/// Believes a certificate that the authority with this fingerprint has issued to a node, whichever node that
/// is.
#[derive(Debug)]
pub(crate) struct Pinned {
    authority: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    pub(crate) fn new(authority: Fingerprint) -> Self {
        Self { authority, provider: provider() }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authority = others.iter().find(|other| Fingerprint::of(other) == self.authority);
        let Some(authority) = authority else { return Err(unknown) };
        check_signed(own, authority, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
