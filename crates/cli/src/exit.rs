//! The exit status, the same for all commands (`docs/exit-status.md`).

use std::sync::OnceLock;

/// Pass, or done.
pub(crate) const PASS: u8 = 0;
/// A check failed.
pub(crate) const FAIL: u8 = 1;
/// Wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// Measured, but not surely on one side of a limit.
pub(crate) const INCONCLUSIVE: u8 = 3;
/// Could not run; the reason is printed.
pub(crate) const CANNOT: u8 = 4;

/// Set when a signal ends this process and its cluster is being taken away.
static INTERRUPTED: OnceLock<()> = OnceLock::new();

/// From now on nobody else ends the process: whoever calls this does, when the cluster is gone.
pub(crate) fn interrupted() {
    // A second signal changes nothing.
    let _ = INTERRUPTED.set(());
}

/// Returns only if no signal has come. What a command finds in a cluster that is being taken away is no result.
pub(crate) fn hold_if_interrupted() {
    while INTERRUPTED.get().is_some() {
        std::thread::park();
    }
}

/// An error with the status that it ends with.
#[derive(Debug)]
pub(crate) struct Failure {
    /// One of the above.
    pub status: u8,
    /// For standard error.
    pub error: anyhow::Error,
}

impl Failure {
    /// Wrong usage or configuration.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { status: USAGE, error: error.into() }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { status: CANNOT, error: error.into() }
    }
}

/// What a command comes to: its exit status.
pub(crate) type Outcome = Result<u8, Failure>;
