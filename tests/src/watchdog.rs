//! Ends what hangs: the only use of a real duration in the tests.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Ends the whole test process with a message if it is not dropped in time.
#[derive(Debug)]
pub struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    /// Generous: a slow machine must not be mistaken for a hang.
    pub fn new(what: &'static str, limit: Duration) -> Self {
        let (alive, watch) = channel::<()>();
        std::thread::spawn(move || {
            if watch.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let text = format!("watchdog: {what} hung for {} s\n", limit.as_secs());
                let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
                std::process::exit(101);
            }
        });
        Self { _alive: alive }
    }

    /// Two minutes.
    pub fn usual(what: &'static str) -> Self {
        Self::new(what, Duration::from_secs(120))
    }
}
