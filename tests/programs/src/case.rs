//! What a case is.

use anyhow::Result;

use crate::room::Room;

/// An executable that a case needs, and the Debian package that brings it: [`NO_PACKAGE`] if none does.
pub(crate) type Need = (&'static str, &'static str);

/// The package of a program that users build themselves: docs/mpi.md names its source.
pub(crate) const NO_PACKAGE: &str = "";

/// What a program runs over, if it does not run plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The sockets library: it is started by `tieline run`.
    Sockets,
    /// The provider of libfabric: it is started with `FI_PROVIDER_PATH`.
    Provider,
}

impl Over {
    /// For people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sockets => "under the library",
            Self::Provider => "over the provider",
        }
    }
}

/// One program, or a few that belong together.
#[derive(Debug)]
pub(crate) struct Case {
    /// What `--only` takes.
    pub(crate) name: &'static str,
    /// What is tried.
    pub(crate) what: &'static str,
    /// Over what, beside plain.
    pub(crate) over: Over,
    /// Without these it cannot be tried.
    pub(crate) needs: &'static [Need],
    /// Starts what must run, in a room of its own.
    pub(crate) open: fn(Room) -> Result<Box<dyn Session>>,
}

/// A case that has been opened; what it started ends with it.
pub(crate) trait Session {
    /// Does what can be compared, and returns it: lines that must not depend on time, port or process.
    fn check(&mut self) -> Result<Vec<String>>;

    /// Puts load on it for about so many seconds: how much was done a second. `None`: no load is worth
    /// measuring.
    fn load(&mut self, _seconds: u32) -> Result<Option<f64>> {
        Ok(None)
    }

    /// What `load` counts.
    fn unit(&self) -> &'static str {
        ""
    }

    /// How much of what `check` did is known to have gone over tieline, in words; `None` if nobody counts.
    fn carried(&self) -> Option<String> {
        None
    }
}
