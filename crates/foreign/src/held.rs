//! A received descriptor that a closer's thread closes.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::Closer;

/// A descriptor (or what is made of one) of another user, or a connection in whose queue there may be some.
/// Dropping it never waits.
#[derive(Debug)]
pub struct Foreign<T: Into<OwnedFd>> {
    /// None only while it is dropped.
    held: Option<T>,
    uid: u32,
    closer: Closer,
    /// Closing it closes nothing of anybody else.
    empty: bool,
}

impl<T: Into<OwnedFd>> Foreign<T> {
    /// Takes what user `uid` has sent, or is connected to.
    pub fn new(held: T, uid: u32, closer: &Closer) -> Self {
        Self { held: Some(held), uid, closer: closer.clone(), empty: false }
    }

    /// Takes a connection with user `uid` that the kernel has kept descriptors out of since it was there (see
    /// [`crate::refuse_descriptors`]): there is nothing in its queue whose closing could sleep, so dropping
    /// it closes it at once.
    pub fn new_empty(held: T, uid: u32, closer: &Closer) -> Self {
        Self { held: Some(held), uid, closer: closer.clone(), empty: true }
    }

    /// There may be descriptors in its queue from now on. To be called before they are let in.
    pub fn expect_descriptors(&mut self) {
        self.empty = false;
    }

    /// Whose it is.
    pub fn uid(&self) -> u32 {
        self.uid
    }
}

impl<T: Into<OwnedFd>> Deref for Foreign<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.held {
            Some(held) => held,
            None => unreachable!("it is taken out when it is dropped, and nobody has it then"),
        }
    }
}

impl<T: Into<OwnedFd> + AsFd> AsFd for Foreign<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

impl<T: Into<OwnedFd>> Drop for Foreign<T> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            if self.empty {
                return drop(held.into());
            }
            self.closer.close(self.uid, held.into());
        }
    }
}
