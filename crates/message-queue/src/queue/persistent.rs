//! Operations that are begun again and again with the same memory.

use std::time::Duration;

use super::MessageQueue;
use crate::buffers::Buffers;
use crate::endpoint::{SendRequest, Space};
use crate::error::Error;
use crate::matching::{Envelope, Want};
use crate::meet::Meeting;
use crate::requests::{Request, Status};

#[derive(Clone, Copy, Debug)]
enum What {
    Send(SendRequest),
    Receive(Space, Want),
}

/// An operation that can be begun again when it has ended.
#[derive(Debug)]
pub struct Persistent {
    what: What,
    /// Here while it is not under way.
    buffers: Option<Buffers>,
    request: Option<Request>,
}

impl Persistent {
    /// A send.
    #[must_use]
    pub fn send(request: SendRequest, buffers: impl Into<Buffers>) -> Self {
        Self { what: What::Send(request), buffers: Some(buffers.into()), request: None }
    }

    /// A receive.
    #[must_use]
    pub fn receive(space: Space, want: Want, buffers: impl Into<Buffers>) -> Self {
        Self { what: What::Receive(space, want), buffers: Some(buffers.into()), request: None }
    }

    /// Its memory, while it is not under way.
    pub fn buffers(&mut self) -> Option<&mut Buffers> {
        self.buffers.as_mut()
    }

    /// The request that is under way.
    #[must_use]
    pub fn request(&self) -> Option<Request> {
        self.request
    }

    /// What is under way has ended so.
    pub(crate) fn ended(&mut self, status: Status) -> Result<Option<Envelope>, Error> {
        self.request = None;
        self.buffers = Some(status.buffers);
        status.error.map_or(Ok(status.envelope), Err)
    }
}

impl<M: Meeting> MessageQueue<M> {
    /// Begins a persistent operation.
    ///
    /// # Errors
    /// As [`MessageQueue::send`]; [`Error::NoSuchRequest`] if it is under way.
    pub fn start(&mut self, persistent: &mut Persistent) -> Result<(), Error> {
        let buffers = persistent.buffers.take().ok_or(Error::NoSuchRequest)?;
        persistent.request = Some(match persistent.what {
            What::Receive(space, want) => self.receive_as(space, want, buffers),
            What::Send(request) => self.send_as(&request, buffers)?,
        });
        Ok(())
    }

    /// Waits until a persistent operation has ended: what a received message said of itself.
    ///
    /// # Errors
    /// As [`MessageQueue::wait`], and what went wrong in the operation, which can be begun again then, too.
    pub fn complete(
        &mut self,
        persistent: &mut Persistent,
        limit: Option<Duration>,
    ) -> Result<Option<Envelope>, Error> {
        let request = persistent.request.ok_or(Error::NoSuchRequest)?;
        let status = self.wait(request, limit)?;
        persistent.ended(status)
    }
}
