//! Keeps a misbehaving program from filling the disk with log lines about itself.

use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(10);
const LINES_PER_WINDOW: u32 = 200;

/// Lets so many lines through in so much time, and counts the rest.
#[derive(Debug)]
pub(crate) struct LogGate {
    since: Instant,
    lines: u32,
    held_back: u32,
}

impl LogGate {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, lines: 0, held_back: 0 }
    }

    /// Whether a line may be written, and how many were not in the window before.
    pub(crate) fn admit(&mut self, now: Instant) -> (bool, u32) {
        let mut not_told = 0;
        if now.saturating_duration_since(self.since) >= WINDOW {
            not_told = std::mem::take(&mut self.held_back);
            (self.since, self.lines) = (now, 0);
        }
        self.lines = self.lines.saturating_add(1);
        let open = self.lines <= LINES_PER_WINDOW;
        self.held_back += u32::from(!open);
        (open, not_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let start = Instant::now();
        let mut gate = LogGate::new(start);
        let through = (0..1000).filter(|_| gate.admit(start).0).count();
        assert_eq!(through, LINES_PER_WINDOW as usize);
        assert_eq!(gate.admit(start + WINDOW), (true, 1000 - LINES_PER_WINDOW));
        assert_eq!(gate.admit(start + WINDOW), (true, 0));
    }
}
