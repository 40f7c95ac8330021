//! Completions, and the queues and counters that they go to.

use std::collections::VecDeque;
use std::sync::Arc;

use fabric_sys::abi::fi_addr_t;
use fabric_sys::constants::FI_ADDR_NOTAVAIL;
use libc::c_int;

use super::wait::Bell;

/// The end of an operation, as a program reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The program's own pointer.
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    /// Address of a received message.
    pub(crate) buffer: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) source: fi_addr_t,
    /// What went wrong (a positive number of libfabric's), or 0.
    pub(crate) error: c_int,
    /// Bytes of a message for which there was no room.
    pub(crate) beyond: usize,
}

impl Completion {
    pub(crate) fn new(context: usize, flags: u64) -> Self {
        let source = FI_ADDR_NOTAVAIL;
        Self { context, flags, len: 0, buffer: 0, data: 0, tag: 0, source, error: 0, beyond: 0 }
    }
}

/// Completions that the program has not read yet. There is always room.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Completion>,
    /// Wakes who waits for it.
    pub(crate) bell: Arc<Bell>,
    is_bell_wanted: bool,
    /// Poll sets that it is in.
    pub(crate) sets: u32,
}

impl Queue {
    pub(crate) fn push(&mut self, completion: Completion) {
        self.waiting.push_back(completion);
        if self.is_bell_wanted {
            self.is_bell_wanted = false;
            self.bell.ring();
        }
    }

    /// The bell, which is rung with the next completion.
    pub(crate) fn bell_wanted(&mut self) -> &Bell {
        self.is_bell_wanted = true;
        &self.bell
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next one, if it is no error.
    #[inline]
    pub(crate) fn pop_good(&mut self) -> Option<Completion> {
        if self.is_bad_next() { None } else { self.waiting.pop_front() }
    }

    /// The next one, if it is an error.
    pub(crate) fn pop_bad(&mut self) -> Option<Completion> {
        if self.is_bad_next() { self.waiting.pop_front() } else { None }
    }

    #[inline]
    pub(crate) fn is_bad_next(&self) -> bool {
        self.waiting.front().is_some_and(|next| next.error != 0)
    }
}

/// How many operations ended.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) good: u64,
    pub(crate) bad: u64,
    /// What it is bound to.
    pub(crate) users: u32,
    /// Wakes who waits for it.
    pub(crate) bell: Arc<Bell>,
    is_bell_wanted: bool,
    /// What of both the program itself has added, which is no event: wraps around.
    of_program: u64,
    /// Its values, as the program last read them, or was told that they have changed.
    shown: (u64, u64),
}

impl Counter {
    /// The program changes it.
    pub(crate) fn set(&mut self, good: u64) {
        self.of_program = self.of_program.wrapping_add(good.wrapping_sub(self.good));
        self.good = good;
    }

    /// How many operations ended, whatever the program has made of the values: wraps around.
    pub(crate) fn events(&self) -> u64 {
        self.good.wrapping_add(self.bad).wrapping_sub(self.of_program)
    }

    /// Its value, which the program is shown.
    pub(crate) fn show(&mut self) -> u64 {
        self.shown.0 = self.good;
        self.good
    }

    /// The same of failed operations.
    pub(crate) fn show_bad(&mut self) -> u64 {
        self.shown.1 = self.bad;
        self.bad
    }

    /// Whether one of its values is not what the program was shown.
    pub(crate) fn has_news(&self) -> bool {
        self.shown != (self.good, self.bad)
    }

    /// The program is told that it has changed, and reads both values.
    pub(crate) fn take_news(&mut self) -> bool {
        let has_news = self.has_news();
        self.shown = (self.good, self.bad);
        has_news
    }

    /// An operation has ended.
    #[inline]
    pub(crate) fn count(&mut self, is_good: bool) {
        *(if is_good { &mut self.good } else { &mut self.bad }) += 1;
        self.has_changed();
    }

    /// Wakes who waits for it.
    #[inline]
    pub(crate) fn has_changed(&mut self) {
        if self.is_bell_wanted {
            self.is_bell_wanted = false;
            self.bell.ring();
        }
    }

    /// The bell, which is rung with the next change.
    pub(crate) fn bell_wanted(&mut self) -> &Bell {
        self.is_bell_wanted = true;
        &self.bell
    }
}
