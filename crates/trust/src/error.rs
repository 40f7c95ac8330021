//! What can go wrong with keys, certificates and tokens.

use std::io::ErrorKind;
use std::path::PathBuf;

use proto::ids::NodeId;

use crate::revocation_list::ListError;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, TrustError>;

/// Each names the thing, the cause and the next step.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file or directory of the credentials.
    #[error("cannot {what} {path}: {source}{}", next_step(.source))]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The disk is full, or the user's part of it.
    #[error(
        "there is no room for the keys in {path}: {source}: free some space (160 KiB suffice) and join again, the token was not used"
    )]
    NoRoom {
        /// Which directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Others could read or replace keys.
    #[error(
        "{path} can be reached by other users (mode {mode:o}, owner {owner}): `chmod 700` it, or remove it and join again"
    )]
    Open {
        /// Which directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// Its owner.
        owner: u32,
    },
    /// There is an authority already.
    #[error(
        "{path} holds the authority of a cluster already: add nodes with `tieline cluster token`, or remove the \
         directory to start over"
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The authority's key is not here.
    #[error("{path} has no key of an authority: run this on the host where `tieline cluster init` was run")]
    NoAuthority {
        /// The directory.
        path: PathBuf,
    },
    /// A file does not hold what it should.
    #[error("{path} is damaged ({why}): restore it, or remove it and join again with a new token")]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The list of revoked certificates cannot be relied on.
    #[error(
        "{path} cannot be used: {why}: copy the file of this name from another host of the cluster, where it is the same"
    )]
    Revocations {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: ListError,
    },
    /// Another process is at work on the files, and does not end.
    #[error("another process has locked {path}: see with `fuser -v {path}` which one it is, and try again")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The node is on the host that has the authority's key.
    #[error(
        "node {node} cannot leave or be revoked: this host has the authority's key: to end the whole cluster, stop all managers and remove the cluster's \
         directory on each host"
    )]
    OwnNode {
        /// Which.
        node: NodeId,
    },
    /// Nobody was given a certificate for it.
    #[error(
        "node {node} has no certificate of this cluster, so there is nothing to revoke: `tieline status` lists the nodes"
    )]
    UnknownNode {
        /// Which.
        node: NodeId,
    },
    /// The certificate by which somebody proves who it is.
    #[error(
        "the certificate of node {node} was revoked: let it join again with a token of `tieline cluster token --node {node}`"
    )]
    Revoked {
        /// Whose.
        node: NodeId,
    },
    /// No room in the list.
    #[error(
        "the list of revoked certificates has its maximum of {most} nodes, which it keeps for a year: make a new cluster"
    )]
    ListFull {
        /// How many fit.
        most: usize,
    },
    /// The node has a certificate already.
    #[error(
        "node {node} has a certificate already: choose another --node, or make a token for it with `tieline cluster token --node {node}`"
    )]
    Taken {
        /// Which.
        node: NodeId,
    },
    /// The node has none.
    #[error("node {node} has no certificate in {path}: give a node of this host, or join with a token")]
    NoCertificate {
        /// Which.
        node: NodeId,
        /// The directory.
        path: PathBuf,
    },
    /// The token is for another node.
    #[error(
        "the token is for node {bound}, not for node {asked}: leave out --node, or ask for another token"
    )]
    OtherNode {
        /// As the token says.
        bound: NodeId,
        /// As was asked.
        asked: NodeId,
    },
    /// No node ID is left.
    #[error(
        "all node IDs are taken: give the ID of a node that is gone, with a token of `tieline cluster token --node ID`"
    )]
    NoId,
    /// The list of hosts is full.
    #[error(
        "the cluster has its maximum of hosts: take out those that are gone with `tieline cluster revoke ID` on the authority's host"
    )]
    Full,
    /// Not a token.
    #[error("this is not a token: give the whole line that `tieline cluster token` printed")]
    NotAToken,
    /// The token is not known: used up, or never issued.
    #[error(
        "the token is not valid (used already, or of another authority): make a new one with `tieline cluster token` \
         on the host where `tieline cluster init` ran"
    )]
    UnknownToken,
    /// Too late.
    #[error(
        "the token has expired: make a new one with `tieline cluster token` on the host where `tieline cluster init` ran"
    )]
    ExpiredToken,
    /// Making or loading a certificate failed.
    #[error("{what}: {why}")]
    Crypto {
        /// What was tried.
        what: &'static str,
        /// What the library says.
        why: String,
    },
    /// The system gives no random numbers.
    #[error("the kernel gives no random numbers: {0}")]
    Random(#[source] std::io::Error),
}

/// What helps, where that is known.
fn next_step(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ": free some space (160 KiB suffice), and try again"
        }
        ErrorKind::ReadOnlyFilesystem => ": mount it writable, or set another directory",
        ErrorKind::PermissionDenied => ": do this as the user who owns it",
        _ => "",
    }
}

impl TrustError {
    pub(crate) fn crypto(what: &'static str) -> impl FnOnce(rcgen::Error) -> Self {
        move |error| Self::Crypto { what, why: error.to_string() }
    }

    pub(crate) fn tls(what: &'static str) -> impl FnOnce(rustls::Error) -> Self {
        move |error| Self::Crypto { what, why: error.to_string() }
    }
}
