//! The state of a DMA queue, and which transfer an abort applies to.
//!
//! A transfer is one cycle of gather, post and end, and has a number. An abort names the transfer that it
//! saw, so it can neither get lost because the transfer is posted at that moment, nor hit a later one.

use shm::sync::{AtomicU64, Ordering};

use super::DmaState;

const STATES: [DmaState; 6] = [
    DmaState::Idle,
    DmaState::Gathering,
    DmaState::Posted,
    DmaState::Done,
    DmaState::Aborted,
    DmaState::Failed,
];

/// Bits of a word that are the state; the rest is the number of the transfer.
const STATE_BITS: u32 = 3;

/// The number of a transfer; 0 before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer(u64);

#[derive(Debug)]
pub(super) struct Phase {
    /// Number and state; written under the queue's lock.
    word: AtomicU64,
    /// The latest transfer that is to end.
    aborted: AtomicU64,
}

impl Phase {
    pub(super) const fn new() -> Self {
        Self { word: AtomicU64::new(0), aborted: AtomicU64::new(0) }
    }

    fn now(&self) -> (Transfer, DmaState) {
        // Acquire: pairs with the Release in `set`; a process that sees Done sees the copies as this process
        // made them.
        let word = self.word.load(Ordering::Acquire);
        let state = STATES.get((word & ((1 << STATE_BITS) - 1)) as usize).copied();
        (Transfer(word >> STATE_BITS), state.unwrap_or(DmaState::Idle))
    }

    pub(super) fn state(&self) -> DmaState {
        self.now().1
    }

    /// Under the queue's lock. A first entry begins the next transfer.
    pub(super) fn set(&self, state: DmaState) {
        let (Transfer(number), before) = self.now();
        let begins = state == DmaState::Gathering && before != DmaState::Gathering;
        let number = number + u64::from(begins);
        let place = STATES.iter().position(|known| *known == state).unwrap_or(0) as u64;
        // Release: pairs with the Acquire in `now`.
        self.word.store(number << STATE_BITS | place, Ordering::Release);
    }

    /// Asks the present transfer to end, without the queue's lock; `None` if there is none that has not
    /// ended.
    pub(super) fn abort(&self) -> Option<Transfer> {
        let (transfer, state) = self.now();
        if !matches!(state, DmaState::Gathering | DmaState::Posted) {
            return None;
        }
        // Release: pairs with the Acquire in `is_aborted`.
        self.aborted.fetch_max(transfer.0, Ordering::Release);
        Some(transfer)
    }

    /// Asks every transfer to end: the queue is being dropped.
    pub(super) fn abort_all(&self) {
        // Release: pairs with the Acquire in `is_aborted`.
        self.aborted.store(u64::MAX, Ordering::Release);
    }

    /// The present transfer, which stays that under the queue's lock.
    pub(super) fn transfer(&self) -> Transfer {
        self.now().0
    }

    /// Whether this transfer is to end: one load, before each entry.
    #[inline]
    pub(super) fn is_aborted(&self, transfer: Transfer) -> bool {
        // Acquire: pairs with the Release in `abort` and `abort_all`.
        self.aborted.load(Ordering::Acquire) >= transfer.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_before_the_post_is_still_there_after_it() {
        let phase = Phase::new();
        phase.set(DmaState::Gathering);
        let transfer = phase.abort().unwrap();
        // The other thread posts before the one that aborts has the lock.
        phase.set(DmaState::Posted);
        assert!(phase.is_aborted(transfer) && phase.transfer() == transfer);
    }

    #[test]
    fn an_abort_does_not_hit_the_next_transfer() {
        let phase = Phase::new();
        phase.set(DmaState::Gathering);
        phase.set(DmaState::Posted);
        let transfer = phase.abort().unwrap();
        phase.set(DmaState::Aborted);
        phase.set(DmaState::Gathering);
        phase.set(DmaState::Gathering);
        phase.set(DmaState::Posted);
        assert!(!phase.is_aborted(phase.transfer()) && phase.transfer() != transfer);
    }

    #[test]
    fn what_has_ended_is_not_aborted() {
        let phase = Phase::new();
        assert_eq!(phase.abort(), None);
        for end in [DmaState::Done, DmaState::Aborted, DmaState::Failed, DmaState::Idle] {
            phase.set(DmaState::Gathering);
            phase.set(end);
            let aborted = phase.is_aborted(phase.transfer());
            assert_eq!((phase.abort(), aborted, phase.state()), (None, false, end));
        }
        phase.abort_all();
        assert!(phase.is_aborted(phase.transfer()));
    }

    /// One thread posts what another aborts, over and over: an abort that named a transfer ends it.
    #[test]
    fn no_abort_gets_lost_between_two_threads() {
        use std::sync::{Barrier, Mutex};
        const ROUNDS: u32 = 5_000;
        let (phase, lock, both) = (Phase::new(), Mutex::new(()), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    both.wait();
                    let _locked = lock.lock().unwrap();
                    phase.set(DmaState::Posted);
                    both.wait();
                }
            });
            for _ in 0..ROUNDS {
                phase.set(DmaState::Gathering);
                both.wait();
                let transfer = phase.abort().unwrap();
                both.wait();
                assert!(phase.is_aborted(transfer) && phase.transfer() == transfer);
                phase.set(DmaState::Aborted);
            }
        });
    }
}
