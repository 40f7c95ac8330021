//! What a case is.

use anyhow::Result;

use crate::room::Room;

/// An executable that a case needs, and the Debian package that brings it.
pub(crate) type Need = (&'static str, &'static str);

/// One program, or a few that belong together.
#[derive(Debug)]
pub(crate) struct Case {
    /// What `--only` takes.
    pub(crate) name: &'static str,
    /// What is tried.
    pub(crate) what: &'static str,
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
}
