//! The trait for sending and receiving datagrams.

use std::time::Duration;

use crate::header::Mad;
use crate::values::Lid;

/// Where a datagram goes to, or came from. A directed one carries its route itself, and its address is
/// [`Address::DIRECTED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// LID of the port.
    pub lid: Lid,
    /// Queue: 0 for subnet management, 1 for all other classes.
    pub queue_pair: u32,
    /// Key of that queue; zero for queue 0.
    pub queue_key: u32,
    /// Service level.
    pub service_level: u8,
}

impl Address {
    /// Of directed datagrams.
    pub const DIRECTED: Self = Self { lid: Lid::PERMISSIVE, queue_pair: 0, queue_key: 0, service_level: 0 };

    /// The subnet-management agent of a port.
    #[must_use]
    pub fn management(lid: Lid) -> Self {
        Self { lid, queue_pair: 0, queue_key: 0, service_level: 0 }
    }

    /// The agents of the other classes behind a port.
    #[must_use]
    pub fn services(lid: Lid) -> Self {
        Self { lid, queue_pair: 1, queue_key: crate::pm::QUEUE_KEY, service_level: 0 }
    }
}

/// A datagram that came.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// The sender.
    pub from: Address,
    /// The datagram.
    pub mad: Mad,
    /// It is the asker's own datagram, which could not be delivered.
    pub undelivered: bool,
}

/// Why a transport can't continue. What concerns one datagram only is no error: it is lost, and that is what
/// retries are for.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// A call failed.
    #[error("cannot {what}: {cause}: {next}")]
    Io {
        /// What was tried, as words that follow "cannot".
        what: String,
        /// The error of the system.
        cause: std::io::Error,
        /// What to do about it.
        next: &'static str,
    },
    /// The other side broke the protocol.
    #[error("{what}: {next}")]
    Protocol {
        /// What it sent.
        what: String,
        /// What to do about it.
        next: &'static str,
    },
    /// The other side is gone.
    #[error("{0} is gone: start it again and repeat the command")]
    Gone(String),
}

impl TransportError {
    pub(crate) fn io(what: impl Into<String>, cause: impl Into<std::io::Error>, next: &'static str) -> Self {
        Self::Io { what: what.into(), cause: cause.into(), next }
    }
}

/// A port of a fabric, from which datagrams are sent and where they arrive.
///
/// Like the network it stands for, it may lose, double, delay and reorder.
pub trait MadTransport {
    /// Sends, without waiting: `false` means that there is no room now, and that what has come should be
    /// received first.
    ///
    /// # Errors
    /// When nothing more can be sent at all.
    fn send(&mut self, to: &Address, mad: &Mad) -> Result<bool, TransportError>;

    /// What has come, or comes within `wait`. `None`: nothing did, and then `wait` has passed unless the call
    /// was interrupted.
    ///
    /// # Errors
    /// When nothing more can come at all.
    fn receive(&mut self, wait: Duration) -> Result<Option<Received>, TransportError>;

    /// Time since some moment before: the clock by which `wait` passes.
    fn now(&self) -> Duration;

    /// LID of the port by what is known here; 0 where there is none yet.
    fn lid(&self) -> Lid;

    /// LID of the fabric's subnet manager by what is known here; 0 where there is none.
    fn sm_lid(&self) -> Lid;

    /// Datagrams that may be in flight at once without this transport losing some.
    fn room(&self) -> usize {
        64
    }
}

impl<T: MadTransport + ?Sized> MadTransport for &mut T {
    fn send(&mut self, to: &Address, mad: &Mad) -> Result<bool, TransportError> {
        (**self).send(to, mad)
    }
    fn receive(&mut self, wait: Duration) -> Result<Option<Received>, TransportError> {
        (**self).receive(wait)
    }
    fn now(&self) -> Duration {
        (**self).now()
    }
    fn lid(&self) -> Lid {
        (**self).lid()
    }
    fn sm_lid(&self) -> Lid {
        (**self).sm_lid()
    }
    fn room(&self) -> usize {
        (**self).room()
    }
}
