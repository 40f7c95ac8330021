//! Objects of nodes on other hosts, which are reached over a network: both programs learn the other's end of
//! the link here.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::time::Duration;

use proto::ids::{InterruptNo, NodeId, SegmentKey};
use proto::wire::network::{ImporterEnd, OwnerEnd, RailDown};
use proto::wire::program::{ConnectionId, Imported, Reply, Request};

use crate::client::{Client, Handle};
use crate::connection::Answer;
use crate::error::{ClientError, Result};
use crate::import::{Import, ImportId};
use crate::interrupts::InterruptGrant;

/// Where a segment is.
#[derive(Debug)]
pub enum Found {
    /// On this host: its life, its memory, its size in bytes.
    Here(Import, OwnedFd, u64),
    /// On another host: nothing is connected yet, see [`Client::connect_by_network`].
    OnOtherHost {
        /// This host's addresses for data, one of each rail.
        addresses: Vec<IpAddr>,
    },
}

/// Where an interrupt is.
#[derive(Debug)]
pub enum FoundInterrupt {
    /// On this host.
    Here(InterruptGrant),
    /// As of a segment.
    OnOtherHost {
        /// As of a segment.
        addresses: Vec<IpAddr>,
    },
}

/// A connection to an object on another host.
#[derive(Debug)]
pub struct ByNetwork {
    /// Its life.
    pub import: Import,
    /// Of a segment: its size in bytes.
    pub size_bytes: u64,
    /// The owner's end of the link.
    pub end: OwnerEnd,
}

/// An attachment that does not keep it alive.
#[derive(Debug, Clone)]
pub struct WeakClient(Weak<Handle>);

impl WeakClient {
    /// The client, while the attachment lasts.
    pub fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(Client::of)
    }
}

impl Client {
    /// For what must not keep the attachment alive.
    pub fn downgrade(&self) -> WeakClient {
        WeakClient(self.weak_handle())
    }

    /// As [`Self::connect_segment`] on this host; of another host it says so. Waits at most `limit`, as
    /// [`Self::connect_segment_within`] does; zero: an error at once.
    pub fn find_segment(&self, node: NodeId, key: SegmentKey, limit: Duration) -> Result<Found> {
        let answer = self.ask_for(Request::ConnectSegment { node, key }, limit)?;
        if let Reply::OnOtherHost { addresses } = answer.reply {
            return Ok(Found::OnOtherHost { addresses });
        }
        self.segment_of(answer).map(|(import, memory, size_bytes)| Found::Here(import, memory, size_bytes))
    }

    /// The same for an interrupt.
    pub fn find_interrupt(
        &self,
        node: NodeId,
        number: InterruptNo,
        limit: Duration,
    ) -> Result<FoundInterrupt> {
        let answer = self.ask_for(Request::ConnectInterrupt { node, number }, limit)?;
        if let Reply::OnOtherHost { addresses } = answer.reply {
            return Ok(FoundInterrupt::OnOtherHost { addresses });
        }
        self.interrupt_of(answer).map(FoundInterrupt::Here)
    }

    /// Connects to an object on another host, and learns the owner's end. Waits at most `limit`, as
    /// [`Self::find_segment`] does.
    pub fn connect_by_network(
        &self,
        node: NodeId,
        what: Imported,
        end: &ImporterEnd,
        limit: Duration,
    ) -> Result<ByNetwork> {
        let answer = self.ask_for(Request::ConnectByNetwork { node, what, end: end.clone() }, limit)?;
        match (answer.reply, answer.import) {
            (Reply::ByNetwork { size_bytes, end, .. }, Some(import)) => {
                Ok(ByNetwork { import, size_bytes, end })
            }
            (Reply::ByNetwork { .. }, None) => Err(ClientError::Protocol {
                node: self.node(),
                what: "a connection without its import".to_owned(),
            }),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    /// Answers [`ClientEvent::WantedByNetwork`](crate::ClientEvent::WantedByNetwork).
    pub fn answer_by_network(
        &self,
        connection: ConnectionId,
        end: std::result::Result<OwnerEnd, String>,
    ) -> Result<()> {
        self.order(Request::AnswerByNetwork { connection, end }, &[])
    }

    /// Tells the manager which rails of a connection are not used, for the status. Nothing is told of an
    /// import that has not been taken up again by a new manager: say it later once more.
    pub fn tell_rails(&self, import: ImportId, down: Vec<RailDown>) -> Result<()> {
        let Some(import) = self.slot_of(import) else { return Ok(()) };
        self.order(Request::TellRails { import, down }, &[])
    }

    /// Asks the owner of an object on another host about the rails of a connection, by way of both managers.
    /// Waits at most `limit`.
    pub fn ask_owner(&self, import: ImportId, question: Vec<u8>, limit: Duration) -> Result<Vec<u8>> {
        let why = || "a new one has not taken up this import yet".to_owned();
        let gone = || ClientError::ManagerGone { node: self.node(), why: why() };
        let import = self.slot_of(import).ok_or_else(gone)?;
        match self.ask_once(Request::AskOwner { import, question }, limit)?.reply {
            Reply::Answer { answer } => Ok(answer),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Answers [`ClientEvent::Asked`](crate::ClientEvent::Asked).
    pub fn answer_importer(&self, connection: ConnectionId, number: u64, answer: Vec<u8>) -> Result<()> {
        self.order(Request::AnswerImporter { connection, number, answer }, &[])
    }

    fn ask_for(&self, body: Request, limit: Duration) -> Result<Answer> {
        if limit.is_zero() { self.ask(body, &[]) } else { self.ask_until(body, limit) }
    }
}
