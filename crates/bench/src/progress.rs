//! How a benchmark reports progress to its caller; the library itself prints nothing.

use std::sync::Arc;

/// Receives where a run stands. Called from a benchmark's own thread, never inside a timed loop.
pub trait Progress: Send {
    /// What is being done, and which share of the whole is done (0 … 1).
    fn tell(&mut self, what: &str, share: f64);

    /// A figure is there, or cannot be measured, in words that fit on a line.
    fn finished(&mut self, _line: &str) {}

    /// Whether the run is to end early, with what there is. Asked between readings.
    fn stop(&self) -> bool {
        false
    }

    /// The same for a wait that lasts, on whichever thread.
    fn waiter(&self) -> Arc<dyn Waiter> {
        Arc::new(Quiet)
    }
}

/// Told and asked by a wait for another process.
pub trait Waiter: Send + Sync {
    /// For whom it waits, once that has lasted.
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

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn tell(&mut self, _what: &str, _share: f64) {}
}
