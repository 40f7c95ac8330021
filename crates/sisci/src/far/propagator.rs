//! The thread that sends the stores that a program has made through a shadow map and does not flush, and that
//! refreshes the shadow.

use std::sync::Weak;
use std::time::{Duration, Instant};

use shm::clock::Deadline;

use super::{FarSegment, Journal};

/// The interval at which it looks for stores after a flush of the program's has sent what woke it:
/// being woken costs the store a system call. It doubles so often.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
const LONGER_LOOKS: u32 = 4;
/// It was woken so often for nothing before it looks by itself, and then looks so often before it
/// sleeps.
const VAIN_WAKES: u32 = 2;
const IDLE_LOOKS: u32 = 20;
/// The interval between refreshes: the shortest while the segment changes, the longest while it does
/// not.
const REFRESH: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(10)];
/// A refresh takes one part of so many of the time, also of a large segment.
const REFRESH_PART: u32 = 20;

/// Life of the thread: until the journal is closed, or the segment is gone.
pub(super) fn serve(journal: &Journal, far: &Weak<FarSegment>) {
    let mut refreshes = Refreshes { interval: REFRESH[0], next: Instant::now() + REFRESH[0] };
    let (mut vain_wakes, mut looks) = (0, 0);
    while !journal.is_closed() {
        if !journal.is_empty() {
            (vain_wakes, looks) = (0, 0);
            let Some(far) = far.upgrade() else { return };
            far.send();
        }
        if Instant::now() >= refreshes.next {
            let Some(far) = far.upgrade() else { return };
            refreshes.make(&far);
        }
        let left = refreshes.next.saturating_duration_since(Instant::now());
        if vain_wakes >= VAIN_WAKES && looks < IDLE_LOOKS {
            std::thread::sleep((LOOK_AGAIN * (1 << looks.min(LONGER_LOOKS))).min(left));
            looks += 1;
            continue;
        }
        journal.wait(Deadline::after_ns(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)));
        (vain_wakes, looks) =
            (vain_wakes + u32::from(journal.is_empty() && Instant::now() < refreshes.next), 0);
    }
}

/// When the shadow is made new.
struct Refreshes {
    interval: Duration,
    next: Instant,
}

impl Refreshes {
    fn make(&mut self, far: &FarSegment) {
        let begin = Instant::now();
        // The next flush or sequence reports a failure of the connection.
        let has_changed = far.refresh_if_quiet().unwrap_or(false);
        let took = begin.elapsed();
        self.interval = if has_changed { REFRESH[0] } else { (self.interval * 2).min(REFRESH[1]) };
        self.next = Instant::now() + self.interval.max(took * REFRESH_PART);
    }
}
