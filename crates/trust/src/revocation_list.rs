//! The list of revoked certificates: signed by the cluster's authority, and the same on every host.
//!
//! An entry names a node and a moment: each certificate of that node whose validity began at that moment or
//! before is refused. So it covers renewed certificates and those that nobody remembers, and not one that is
//! issued afterwards. An entry is dropped when all that it covers has expired.
//!
//! The list is text, so that an administrator can read it:
//!
//! ```text
//! tieline-revoked 1
//! authority 5d0c…             the fingerprint of the authority's certificate
//! version 3                   of two lists the one with the higher version counts
//! 8 1780000000 revoked        a node, a moment in seconds since 1970, and what the node is now
//! signature 1f22…             Ed25519, of all bytes before this line
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::str::Lines;
use std::time::Duration;

use proto::ids::NodeId;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};

use crate::authority::{Fingerprint, LONGEST_LIFE, check_signed, is_signature_of, node_of};
use crate::hex;

/// Entries of a list; so a list fits into a record between managers.
pub const ENTRIES_MAX: usize = 2000;
/// No list is longer.
pub const LIST_BYTES_MAX: usize = proto::wire::MAX_DATAGRAM_BYTES;
const TITLE: &str = "tieline-revoked 1";
const SIGNATURE: &str = "signature ";
/// An entry is kept longer than what it covers is valid, for hosts whose clocks are late.
const MARGIN: Duration = Duration::from_secs(86_400);

/// What a node is, of which certificates are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its certificates were revoked, and it has no other.
    Revoked,
    /// It has left the cluster.
    Left,
    /// It has been given a new certificate since.
    Readmitted,
}

impl Standing {
    const fn word(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Left => "left",
            Self::Readmitted => "readmitted",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::Revoked, Self::Left, Self::Readmitted].into_iter().find(|standing| standing.word() == word)
    }
}

/// Why a list is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// Longer than any list may be.
    #[error("the list of revoked certificates has more than {LIST_BYTES_MAX} bytes or {ENTRIES_MAX} entries")]
    TooLong,
    /// Not such a list, or not all of it.
    #[error("the list of revoked certificates is damaged: {0}")]
    Malformed(&'static str),
    /// Of another authority.
    #[error("the list of revoked certificates is that of another cluster")]
    OtherCluster,
    /// Whoever made it has no key of the authority.
    #[error("the list of revoked certificates is not signed by this cluster's authority")]
    NotSigned,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevocationList {
    version: u64,
    /// By node: a moment in seconds since 1970, and what the node is now.
    entries: BTreeMap<NodeId, (u64, Standing)>,
    /// As it is kept and sent; empty: nothing was ever revoked.
    text: String,
}

impl RevocationList {
    /// Reads a list that the authority with this certificate must have signed.
    pub fn from_bytes(bytes: &[u8], authority: &CertificateDer<'_>) -> Result<Self, ListError> {
        let (list, signature) = Self::unsigned(bytes, authority)?;
        let signed = list.text.rfind(SIGNATURE).and_then(|at| list.text.as_bytes().get(..at));
        match signed {
            Some(signed) if is_signature_of(authority, signed, &signature) => Ok(list),
            _ => Err(ListError::NotSigned),
        }
    }

    /// The version that a list claims to have, before its signature is checked.
    pub(crate) fn claimed_version(bytes: &[u8], authority: &CertificateDer<'_>) -> Result<u64, ListError> {
        Self::unsigned(bytes, authority).map(|(list, _)| list.version)
    }

    fn unsigned(bytes: &[u8], authority: &CertificateDer<'_>) -> Result<(Self, [u8; 64]), ListError> {
        if bytes.len() > LIST_BYTES_MAX {
            return Err(ListError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ListError::Malformed("it is not text"))?;
        if !text.ends_with('\n') {
            return Err(ListError::Malformed("its end is missing"));
        }
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(ListError::Malformed("its first line is another one"));
        }
        let own = word_after(&mut lines, "authority ").and_then(hex::decode).map(Fingerprint);
        if own.ok_or(ListError::Malformed("the line of the authority is missing"))?
            != Fingerprint::of(authority)
        {
            return Err(ListError::OtherCluster);
        }
        let version = word_after(&mut lines, "version ").and_then(|word| word.parse().ok());
        let version = version.ok_or(ListError::Malformed("the line of the version is missing"))?;
        let mut entries = BTreeMap::new();
        for line in lines {
            if let Some(signature) = line.strip_prefix(SIGNATURE) {
                let signature =
                    hex::decode(signature).ok_or(ListError::Malformed("its signature is not one"))?;
                let list = Self { version, entries, text: text.to_owned() };
                // One way to write a list: nothing comes after its end, nothing twice.
                if list.body(Fingerprint::of(authority)) + SIGNATURE + &hex::encode(&signature) + "\n" != text
                {
                    return Err(ListError::Malformed("it is not in order"));
                }
                return Ok((list, signature));
            }
            if entries.len() >= ENTRIES_MAX {
                return Err(ListError::TooLong);
            }
            let (node, entry) = entry(line).ok_or(ListError::Malformed("a line is not one of a node"))?;
            entries.insert(node, entry);
        }
        Err(ListError::Malformed("its signature is missing"))
    }

    fn body(&self, authority: Fingerprint) -> String {
        let mut text = format!("{TITLE}\nauthority {authority}\nversion {}\n", self.version);
        for (node, (moment, standing)) in &self.entries {
            let _ = writeln!(text, "{node} {moment} {}", standing.word());
        }
        text
    }

    /// The next version with another entry, before it is signed; entries that cover nothing any more are left
    /// out. `None`: too many.
    pub(crate) fn with(&self, node: NodeId, moment: u64, standing: Standing, now_s: u64) -> Option<Self> {
        let lasts = |moment: u64| moment + (LONGEST_LIFE + MARGIN).as_secs() > now_s;
        let mut entries = self.entries.clone();
        entries.retain(|_, (moment, _)| lasts(*moment));
        entries.insert(node, (moment, standing));
        (entries.len() <= ENTRIES_MAX).then(|| Self {
            version: self.version + 1,
            entries,
            text: String::new(),
        })
    }

    /// What of a new list the authority signs, and the list once it has.
    pub(crate) fn sign(
        mut self,
        authority: Fingerprint,
        sign: impl FnOnce(&[u8]) -> crate::Result<Vec<u8>>,
    ) -> crate::Result<Self> {
        let body = self.body(authority);
        let signature = sign(body.as_bytes())?;
        self.text = body + SIGNATURE + &hex::encode(&signature) + "\n";
        Ok(self)
    }

    /// As it is kept and sent; `None`: nothing was ever revoked.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        Some(self.text.as_bytes()).filter(|bytes| !bytes.is_empty())
    }

    /// Of two lists the one with the higher version counts; 0: nothing was ever revoked.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What a node is, if certificates of it are refused.
    pub fn standing(&self, node: NodeId) -> Option<Standing> {
        self.entries.get(&node).map(|(_, standing)| *standing)
    }

    /// The moment of a node's entry, in seconds since 1970.
    pub(crate) fn moment(&self, node: NodeId) -> Option<u64> {
        self.entries.get(&node).map(|(moment, _)| *moment)
    }

    /// The node has no certificate that is accepted: it is neither dialled nor listed.
    pub fn is_gone(&self, node: NodeId) -> bool {
        matches!(self.standing(node), Some(Standing::Revoked | Standing::Left))
    }

    /// Nodes without a certificate that is accepted, ascending.
    pub fn gone(&self) -> impl Iterator<Item = (NodeId, Standing)> {
        let entries = self.entries.iter().map(|(node, (_, standing))| (*node, *standing));
        entries.filter(|(_, standing)| *standing != Standing::Readmitted)
    }

    /// Whether a certificate was revoked, which the authority has issued. In doubt it was.
    pub fn refuses(&self, certificate: &CertificateDer<'_>, authority: &CertificateDer<'_>) -> bool {
        let Some(moment) = node_of(certificate).and_then(|node| self.moment(node)) else { return false };
        let then = UnixTime::since_unix_epoch(Duration::from_secs(moment));
        // Only a certificate whose validity began later was issued later.
        !matches!(
            check_signed(certificate, authority, then),
            Err(Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }
            ))
        )
    }
}

fn word_after<'t>(lines: &mut Lines<'t>, begin: &str) -> Option<&'t str> {
    lines.next()?.strip_prefix(begin)
}

fn entry(line: &str) -> Option<(NodeId, (u64, Standing))> {
    let mut words = line.split(' ');
    let node = words.next()?.parse().ok()?;
    // Sums with it do not overflow.
    let moment = words.next()?.parse().ok().filter(|moment| *moment < u64::MAX / 2)?;
    let standing = Standing::of(words.next()?)?;
    words.next().is_none().then_some((node, (moment, standing)))
}

#[cfg(test)]
mod tests;
