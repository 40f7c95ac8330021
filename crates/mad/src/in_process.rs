//! A fabric in the same process: datagrams are passed to it, and its responses come back after
//! virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::header::Mad;
use crate::transport::{Address, MadTransport, Received, TransportError};
use crate::values::Lid;

/// A fabric, or anything that takes datagrams and sends some back.
pub trait Fabric {
    /// A datagram from the port that the transport stands for. What comes back to that port is appended to
    /// `back`, each with how long it takes.
    fn carry(&mut self, now: Duration, to: &Address, mad: &Mad, back: &mut Vec<(Duration, Received)>);

    /// LID of the port, and of its manager.
    fn lids(&self) -> (Lid, Lid) {
        (Lid(0), Lid(0))
    }
}

/// The transport to it. Its clock is virtual: waiting takes no time, and passes exactly as much of it as was
/// asked for.
#[derive(Debug)]
pub struct InProcess<F> {
    /// The fabric.
    pub fabric: F,
    now: Duration,
    /// By when they arrive and in which order they were sent.
    coming: BTreeMap<(Duration, u64), Received>,
    sent: u64,
    back: Vec<(Duration, Received)>,
}

impl<F: Fabric> InProcess<F> {
    /// At time zero.
    pub fn new(fabric: F) -> Self {
        Self { fabric, now: Duration::ZERO, coming: BTreeMap::new(), sent: 0, back: Vec::new() }
    }

    /// Delivers a datagram that was not requested.
    pub fn inject(&mut self, after: Duration, received: Received) {
        self.sent += 1;
        self.coming.insert((self.now + after, self.sent), received);
    }
}

impl<F: Fabric> MadTransport for InProcess<F> {
    fn send(&mut self, to: &Address, mad: &Mad) -> Result<bool, TransportError> {
        let mut back = std::mem::take(&mut self.back);
        self.fabric.carry(self.now, to, mad, &mut back);
        for (after, received) in back.drain(..) {
            self.inject(after, received);
        }
        self.back = back;
        Ok(true)
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Received>, TransportError> {
        match self.coming.first_key_value() {
            Some((&(at, number), _)) if at <= self.now + wait => {
                self.now = self.now.max(at);
                Ok(self.coming.remove(&(at, number)))
            }
            _ => {
                self.now += wait;
                Ok(None)
            }
        }
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn lid(&self) -> Lid {
        self.fabric.lids().0
    }

    fn sm_lid(&self) -> Lid {
        self.fabric.lids().1
    }
}
