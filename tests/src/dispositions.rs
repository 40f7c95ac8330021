//! What signals do to the programs that a test starts.
//!
//! A shell starts programs in the background with SIGINT ignored, and `nohup` with SIGHUP ignored; both are
//! inherited. A program that is sent such a signal before its own handler stands continues as if nothing had
//! happened, and the test waits for an end that never comes. What is handled, though, is not inherited: it
//! has its usual effect in a program that is started.

use std::sync::{Arc, Once};

use rustix::process::Signal;

/// Signals that tests send to what they have started.
const SENT: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// From now on programs that this process starts do not inherit that these signals are ignored.
pub fn pass_on_the_usual() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
            // Handled by a flag that nobody reads: here it has no effect, as before. Without it tests are as
            // they were.
            drop(signal_hook::flag::register(signal.as_raw(), Arc::default()));
        }
    });
}

/// Those of [`SENT`] that a process ignores, by its status.
pub fn ignored(status: &str) -> Vec<Signal> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    SENT.into_iter().filter(|signal| mask >> (signal.as_raw() - 1) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_background_shell_and_nohup_ignore_is_seen() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000000002\n"), [Signal::INT]);
        assert_eq!(ignored("SigIgn:\t0000000000001007\n"), [Signal::INT, Signal::HUP, Signal::QUIT]);
        assert!(ignored("SigIgn:\t0000000000001000\n").is_empty() && ignored("").is_empty());
    }
}
