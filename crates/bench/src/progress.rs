//! How a benchmark reports progress to its caller; the library itself prints nothing.

use std::sync::Arc;

/// Receives the progress of a run. Called from a benchmark's own thread, never inside a timed loop.
pub trait Progress: Send {
    /// Receives a description of the present step, and the share of the whole that is done (0 … 1).
    fn tell(&mut self, what: &str, share: f64);

    /// A figure is there, or cannot be measured, in words that fit on a line.
    fn finished(&mut self, _line: &str) {}

    /// Whether the run is to end early, with the results so far. Called between readings.
    fn stop(&self) -> bool {
        false
    }

    /// The same for a wait that lasts, on whichever thread.
    fn waiter(&self) -> Arc<dyn Waiter> {
        Arc::new(Quiet)
    }
}

/// Called during a wait for another process.
pub trait Waiter: Send + Sync {
    /// Receives a description of the wait, once it has lasted for a while.
    fn tell(&self, _what: &str) {}

    /// Whether the wait is to end.
    fn stop(&self) -> bool {
        false
    }
}

impl Waiter for Quiet {}

impl<F: FnMut(&str, f64) + Send> Progress for F {
    fn tell(&mut self, what: &str, share: f64) {
        self(what, share);
    }
}

/// Reports nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn tell(&mut self, _what: &str, _share: f64) {}
}
