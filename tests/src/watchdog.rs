//! Ends what hangs: the only use of a real duration in the tests.
//!
//! Its time runs as fast as a test could: where ten threads want two processors, a second counts as a fifth
//! of one. So a limit that is generous on a quiet machine is as generous beside other work.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::leftovers;

/// How often the watchdog examines how busy the machine is.
const LOOK: Duration = Duration::from_millis(500);
/// A second of the machine's is at least so much of one: whatever else is at work, a hang ends.
const SHARE_MIN: f64 = 0.1;

/// Ends the whole test process, and all that it has started, with a message if it makes no progress in time.
#[derive(Debug)]
pub struct Watchdog {
    alive: Sender<()>,
}

impl Watchdog {
    /// Generous: a slow machine must not be mistaken for a hang.
    pub fn new(what: &'static str, limit: Duration) -> Self {
        let (alive, watch) = channel::<()>();
        std::thread::spawn(move || {
            let mut counted = Duration::ZERO;
            while counted < limit {
                let before = Instant::now();
                match watch.recv_timeout(LOOK) {
                    Ok(()) => counted = Duration::ZERO,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        let share = share(&std::fs::read_to_string("/proc/stat").unwrap_or_default());
                        counted += before.elapsed().mul_f64(share);
                    }
                }
            }
            let text = format!("watchdog: {what} made no progress for {} s\n", limit.as_secs());
            let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
            // What this process has started would continue for good: nothing is dropped at this end.
            leftovers::kill_all();
            std::process::exit(101);
        });
        Self { alive }
    }

    /// Two minutes.
    pub fn usual(what: &'static str) -> Self {
        Self::new(what, Duration::from_secs(120))
    }

    /// One of several steps is done: the time for the next one begins. A test of many steps may take long
    /// beside other work; a hang is a step that does not end.
    pub fn progress(&self) {
        // The other end only goes away by ending this process.
        let _ = self.alive.send(());
    }
}

/// Which share of its time a thread has of a processor just now, by what the kernel says of all: how many
/// there are, and how many threads want one.
fn share(stat: &str) -> f64 {
    let is_processor = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let processors = stat.lines().filter(is_processor).count() as f64;
    let wanted =
        stat.lines().find_map(|line| line.strip_prefix("procs_running ")?.trim().parse::<f64>().ok());
    match wanted {
        Some(wanted) if processors > 0.0 && wanted > processors => (processors / wanted).max(SHARE_MIN),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_slower_where_many_want_the_processors() {
        let of = |wanted: u32| share(&format!("cpu  1 2\ncpu0 1 2\ncpu1 1 2\nprocs_running {wanted}\n"));
        assert_eq!([of(0), of(1), of(2), of(10)], [1.0, 1.0, 1.0, 0.2]);
        assert_eq!(of(1000), SHARE_MIN);
        assert_eq!(share(""), 1.0);
    }
}
