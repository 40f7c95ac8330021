//! The definition: lists that are searched from their beginning.

use message_queue::endpoint::Space;
use message_queue::{Envelope, Want};

/// The waiting receives and messages of one end point.
#[derive(Default)]
pub(crate) struct Naive {
    receives: Vec<(Space, Want, usize)>,
    messages: Vec<(Space, Envelope, usize)>,
}

impl Naive {
    /// The message that a receive gets, or it waits.
    pub(crate) fn post(&mut self, space: Space, want: Want, receive: usize) -> Option<usize> {
        let taken = self.take(space, &want);
        if taken.is_none() {
            self.receives.push((space, want, receive));
        }
        taken
    }

    /// The receive that a message gets, or it waits.
    pub(crate) fn arrive(&mut self, space: Space, envelope: Envelope, message: usize) -> Option<usize> {
        let takes = |(of, want, _): &(Space, Want, usize)| *of == space && want.takes(&envelope);
        if let Some(at) = self.receives.iter().position(takes) {
            return Some(self.receives.remove(at).2);
        }
        self.messages.push((space, envelope, message));
        None
    }

    pub(crate) fn cancel(&mut self, receive: usize) -> bool {
        let at = self.receives.iter().position(|(.., of)| *of == receive);
        at.map(|at| self.receives.remove(at)).is_some()
    }

    pub(crate) fn probe(&self, space: Space, want: &Want) -> Option<Envelope> {
        self.at(space, want).map(|at| self.messages[at].1)
    }

    pub(crate) fn take(&mut self, space: Space, want: &Want) -> Option<usize> {
        self.at(space, want).map(|at| self.messages.remove(at).2)
    }

    pub(crate) fn waiting_receives(&self) -> Vec<usize> {
        self.receives.iter().map(|(.., receive)| *receive).collect()
    }

    fn at(&self, space: Space, want: &Want) -> Option<usize> {
        self.messages.iter().position(|(of, envelope, _)| *of == space && want.takes(envelope))
    }
}
