//! The exit status, the same for all commands (`docs/exit-status.md`).

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
