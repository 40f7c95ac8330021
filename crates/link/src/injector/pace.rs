//! Makes operations slower by spinning, as a store on a slow bus does.
//!
//! It does not sleep. A processor whose store is held up by the bus stops, too; and a sleep would take tens
//! of microseconds where a fault of one is wanted.

use proto::fault::LinkFaults;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, in nanoseconds: the same for all processes, so that a stall hits all of them at one
/// moment.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

fn wait_until(at_ns: u64) {
    while now_ns() < at_ns {
        shm::cpu::pause();
    }
}

/// Waits until the link continues, if it is stopped at the moment.
pub(super) fn stall(faults: &LinkFaults) {
    if let Some(end_ns) = stall_end(faults, now_ns()) {
        wait_until(end_ns);
    }
}

fn stall_end(faults: &LinkFaults, now_ns: u64) -> Option<u64> {
    let into_ns = now_ns.checked_rem(faults.stall_every_ns)?;
    (into_ns < faults.stall_ns).then(|| now_ns - into_ns + faults.stall_ns)
}

/// Waits as long as the operation is to take longer than it did.
pub(super) fn hold_up(faults: &LinkFaults, bytes: usize, started_ns: u64) {
    if faults.delay_ns == 0 && faults.rate_bytes_per_s == 0 && faults.speed_percent == 0 {
        return;
    }
    wait_until(started_ns + duration_ns(faults, bytes, now_ns() - started_ns));
}

/// How long an operation that really took `took_ns` is to take.
fn duration_ns(faults: &LinkFaults, bytes: usize, took_ns: u64) -> u64 {
    let slowed_ns = match faults.speed_percent {
        0 => took_ns,
        percent => (u128::from(took_ns) * 100 / u128::from(percent)) as u64,
    };
    let rate_ns = match faults.rate_bytes_per_s {
        0 => 0,
        rate => (bytes as u128 * 1_000_000_000 / u128::from(rate)) as u64,
    };
    slowed_ns.max(rate_ns) + faults.delay_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let none = LinkFaults::default();
        assert_eq!(duration_ns(&none, 1000, 50), 50);
        assert_eq!(duration_ns(&LinkFaults { delay_ns: 7, ..none }, 1000, 50), 57);
        assert_eq!(duration_ns(&LinkFaults { speed_percent: 80, ..none }, 1000, 400), 500);
        let slow = LinkFaults { rate_bytes_per_s: 1_000_000_000, ..none };
        assert_eq!((duration_ns(&slow, 1000, 50), duration_ns(&slow, 1000, 5000)), (1000, 5000));
    }

    #[test]
    fn stalls_lie_at_the_start_of_each_period() {
        let faults = LinkFaults { stall_ns: 5, stall_every_ns: 100, ..LinkFaults::default() };
        assert_eq!(stall_end(&faults, 1203), Some(1205));
        assert_eq!(stall_end(&faults, 1205), None);
        assert_eq!(stall_end(&LinkFaults::default(), 1203), None);
    }
}
