//! Progress by a thread of the provider, for programs that ask for `FI_PROGRESS_AUTO`: peers reach the memory
//! of such a program, and its own operations go on, also while it computes.
//!
//! A program that lets libfabric make progress anyway does so faster than a thread that has to be woken. So
//! the thread looks from time to time whether the program does, and sleeps until a peer wakes it only if not.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use message_queue::{Alarm, Armed};
use rustix::io::Errno;
use shm::doorbell::Sleep;
use shm::process::SignalsBlocked;
use shm::sync::{AtomicBool, Ordering};

use super::state::Domain;
use super::wait::Bell;

/// How often it looks whether the program makes progress itself, or whether there is room again.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// A program that makes progress at least so often meanwhile does not need the thread.
const TURNS_OF_BUSY: u64 = 256;
/// Longest sleep: a peer may miss who goes to sleep in that very moment, and one that dies wakes nobody.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// What the thread and its domain share.
#[derive(Debug, Default)]
struct Order {
    is_over: AtomicBool,
    bell: Bell,
}

/// The thread of a domain, if there is one.
#[derive(Debug, Default)]
pub(crate) struct OwnProgress {
    running: Mutex<Option<(Arc<Order>, JoinHandle<()>)>>,
}

impl OwnProgress {
    /// Starts it.
    pub(crate) fn start(&self, domain: Weak<Domain>) -> Result<(), Errno> {
        let order = Arc::new(Order::default());
        let of_thread = Arc::clone(&order);
        let signals = SignalsBlocked::here();
        let thread = std::thread::Builder::new()
            .name("tieline-progress".to_owned())
            .spawn(move || run(&of_thread, &domain))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        drop(signals);
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some((order, thread));
        Ok(())
    }

    /// Ends it, and waits until it has ended: whether there was one.
    pub(crate) fn stop(&self) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((order, thread)) = running else { return false };
        order.is_over.store(true, Ordering::SeqCst);
        order.bell.ring();
        let _ = thread.join();
        true
    }
}

fn run(order: &Order, domain: &Weak<Domain>) {
    let mut turns = 0;
    while !order.is_over.load(Ordering::SeqCst) {
        let mut alarm = Alarm::default();
        order.bell.join(&mut alarm);
        if order.is_over.load(Ordering::SeqCst) {
            return;
        }
        let Some(domain) = domain.upgrade() else { return };
        let mut state = domain.lock();
        let of_program = state.turns.wrapping_sub(std::mem::replace(&mut turns, state.turns));
        if of_program >= TURNS_OF_BUSY {
            drop(state);
            nap(&alarm, LOOK_EVERY);
            continue;
        }
        state.turn_all();
        let (sleep, mut armed) = (Sleep::new(), Armed::Asleep);
        state.each_endpoint(|endpoint| {
            if armed == Armed::Asleep {
                armed = endpoint.arm(&mut alarm, &sleep, false);
            }
        });
        drop(state);
        match armed {
            Armed::Asleep => nap(&alarm, SLEEP_MAX),
            Armed::Restless => std::thread::sleep(LOOK_EVERY),
            Armed::Awake => {}
        }
        domain.lock().each_endpoint(|endpoint| endpoint.disarm(&sleep));
    }
}

/// Sleeps until the alarm goes off, for `limit` at most.
fn nap(alarm: &Alarm, limit: Duration) {
    if !alarm.sleep(limit) {
        // It cannot wait for so many peers at once, or not on this kernel.
        std::thread::sleep(LOOK_EVERY.min(limit));
    }
}
