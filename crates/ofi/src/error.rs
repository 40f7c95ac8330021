//! Errors of the link over libfabric.

use fabric_sys::LoadError;

/// An operation over libfabric failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OfiError {
    /// libfabric is not there, or too old.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No provider can do what is needed, or not the one that was named.
    #[error(
        "libfabric {version} offers no {wanted} with remote memory access and messages ({reason}): list what it offers with `fi_info -t FI_EP_RDM` (package libfabric-bin), and name one of those, or leave the choice to tieline"
    )]
    NoProvider {
        /// Of the library.
        version: String,
        /// What was asked for, with its article left out.
        wanted: String,
        /// In libfabric's words.
        reason: String,
    },
    /// A name or an address that cannot be given to libfabric.
    #[error("`{given}` is no {what}: give {instead}")]
    Unusable {
        /// What it should be.
        what: &'static str,
        /// What was given.
        given: String,
        /// What to give.
        instead: &'static str,
    },
    /// A call of libfabric failed at set-up.
    #[error("{call} failed on provider {provider}: {reason} (error {errno}); {next}")]
    Call {
        /// The function.
        call: &'static str,
        /// The provider.
        provider: String,
        /// libfabric's error number.
        errno: i32,
        /// What it means, in libfabric's words.
        reason: String,
        /// What to do.
        next: &'static str,
    },
    /// An operation that was under way ended with an error.
    #[error(
        "{what} to {peer} failed: {reason} (error {errno}; provider {provider} says: {detail}); if the peer was restarted, connect again"
    )]
    Completion {
        /// The operation that failed.
        what: &'static str,
        /// The peer that has the memory.
        peer: String,
        /// The provider.
        provider: String,
        /// libfabric's error number.
        errno: i32,
        /// What it means, in libfabric's words.
        reason: String,
        /// The provider's own words.
        detail: String,
    },
    /// An operation did not end in time.
    #[error(
        "{what} to {peer} made no progress for {limit_ms} ms ({state}): check that the peer runs and that the network reaches it"
    )]
    TimedOut {
        /// The operation that failed.
        what: &'static str,
        /// The peer that has the memory.
        peer: String,
        /// How long it was waited for.
        limit_ms: u64,
        /// What it waited for.
        state: &'static str,
    },
    /// The control plane has reported that the peer is gone.
    #[error("{peer} is gone ({reason}): connect again when it is back")]
    Gone {
        /// The peer.
        peer: String,
        /// In the teller's words.
        reason: String,
    },
    /// A rail failed while a short put was under way on it: nobody knows whether that has landed.
    #[error(
        "what was put to {peer} may be missing, as a rail failed under it: resume the connection (RemoteSegment::resume) and repeat \
         what was put since the last barrier, or connect again"
    )]
    InDoubt {
        /// The owner.
        peer: String,
    },
    /// The owner refused an operation.
    #[error("{peer} refused {what}: {reason}")]
    Refused {
        /// The operation that failed.
        what: &'static str,
        /// The owner.
        peer: String,
        /// The reason.
        reason: &'static str,
    },
    /// What came from a peer cannot be read.
    #[error(
        "{what} of {len} bytes from the other end is malformed ({why}): install the same tieline on both hosts"
    )]
    BadCard {
        /// What it should be, with its article.
        what: &'static str,
        /// How long it is.
        len: usize,
        /// The reason.
        why: &'static str,
    },
    /// Peers reach each other only by the same provider.
    #[error(
        "the other end's endpoint address is of another provider than this end (`{theirs}` there, `{ours}` here): set FI_PROVIDER to the \
         same provider for both programs"
    )]
    OtherProvider {
        /// The peer's.
        theirs: String,
        /// Of this end.
        ours: String,
    },
    /// Memory of this side.
    #[error("memory for libfabric cannot be used: {0}")]
    Memory(#[from] shm::Error),
    /// A system call of this side.
    #[error("{call} failed: {reason}; see the limits of this process (`ulimit -a`)")]
    System {
        /// The call that failed.
        call: &'static str,
        /// The kernel's reason.
        reason: String,
    },
}

/// Result of an operation over libfabric.
pub type Result<T> = std::result::Result<T, OfiError>;
