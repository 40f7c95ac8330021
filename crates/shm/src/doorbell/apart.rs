//! Sleeping apart from the waiters: whoever holds them arms them for a sleep, and another thread, which has
//! nothing but the words that ringers change, sleeps.
//!
//! Ringers call [`Ringer::ring_once`](super::Ringer::ring_once), which may miss who arms: a sleep is to have
//! a limit.

use super::{ASLEEP, AWAKE, LOOKS_ARMED, SLEEPS, Waiter};
use crate::region::PartialMap;
use crate::sync::{AtomicU32, Ordering, fence};
use crate::window::Window;

/// The word that a doorbell's ringers change, mapped for itself: it can be slept on when the doorbell is no
/// more.
#[derive(Debug)]
pub struct Signal {
    map: PartialMap,
}

impl Signal {
    /// The word that the map begins with.
    pub(crate) fn new(map: PartialMap) -> Self {
        Self { map }
    }

    /// The word; `None` if the map is shorter.
    #[must_use]
    pub fn word(&self) -> Option<&AtomicU32> {
        let window: Window<'_> = self.map.window();
        window.atomic_u32(0).ok()
    }
}

/// One sleep.
#[derive(Debug)]
pub struct Sleep(u32);

impl Sleep {
    /// A new one.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        Self(SLEEPS.fetch_add(1, Ordering::Relaxed) << 2 | ASLEEP)
    }

    /// The ringer of this waiter rings from now on, once: what the word holds that it changes then.
    #[must_use]
    pub fn arm(&self, waiter: &Waiter<'_>) -> u32 {
        let value = waiter.value();
        waiter.armed.store(self.0, Ordering::Relaxed);
        value
    }

    /// After the last waiter was armed: whether `ready` returns true, looked at for about as long as a store
    /// takes to become visible.
    pub fn look(&self, mut ready: impl FnMut() -> bool) -> bool {
        fence(Ordering::SeqCst);
        (0..LOOKS_ARMED).any(|_| {
            core::hint::spin_loop();
            ready()
        })
    }

    /// Ends it, for a waiter that was not armed for another sleep since.
    pub fn disarm(&self, waiter: &Waiter<'_>) {
        if waiter.armed.load(Ordering::Relaxed) == self.0 {
            waiter.armed.store(AWAKE, Ordering::Relaxed);
        }
    }
}
