//! Events that a program receives unasked.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use proto::ids::{GroupId, NodeId};
use proto::wire::network::ImporterEnd;
use proto::wire::program::{ConnectionId, Imported, LossReason, Refusal};
use proto::wire::status::NodeInfo;

use crate::import::ImportId;

/// The process that sends to a data interrupt.
#[derive(Debug)]
pub enum Sender {
    /// Its pidfd: proof of death when it is readable.
    Descriptor(OwnedFd),
    /// The descriptor did not come: as a rule this process had no room for it. The process's number, by the
    /// word of its manager; 0 if it could not be seen from there.
    Number(u32),
}

/// Something happened. Told by the library's thread, one after the other, in the order of happening.
#[derive(Debug)]
pub enum ClientEvent {
    /// A program connected to one of this program's objects.
    Connected {
        /// The segment or interrupt.
        what: Imported,
        /// From which node.
        node: NodeId,
        /// The connection, as this node counts.
        connection: ConnectionId,
        /// Number of the producer in the ring of a data interrupt.
        producer: u16,
        /// For a data interrupt: how the producer's death can be proven.
        sender: Option<Sender>,
    },
    /// The program that has just connected is on another host, and waits for
    /// [`Client::answer_by_network`](crate::Client::answer_by_network).
    WantedByNetwork {
        /// The object.
        what: Imported,
        /// From which node.
        node: NodeId,
        /// As in `Connected`.
        connection: ConnectionId,
        /// The importer's end of the link.
        end: ImporterEnd,
        /// This host's addresses for data, one of each rail.
        addresses: Vec<IpAddr>,
    },
    /// A program on another host asks about the rails of its connection, and waits for
    /// [`Client::answer_importer`](crate::Client::answer_importer).
    Asked {
        /// As in `Connected`.
        connection: ConnectionId,
        /// Of the question.
        number: u64,
        /// In the link's own form.
        question: Vec<u8>,
    },
    /// A program disconnected.
    Disconnected {
        /// The segment or interrupt.
        what: Imported,
        /// From which node.
        node: NodeId,
        /// As in `Connected`.
        connection: ConnectionId,
        /// It died rather than disconnected.
        died: bool,
    },
    /// An import has ended; [`Import::state`](crate::Import::state) shows it already.
    Lost {
        /// The import.
        import: ImportId,
        /// The reason.
        reason: LossReason,
    },
    /// A session with another node came up or went down.
    Link {
        /// The node.
        node: NodeId,
        /// Whether it is up now.
        up: bool,
    },
    /// A watched group gained or lost a member.
    Member {
        /// The group.
        group: GroupId,
        /// Whose copy.
        node: NodeId,
        /// Joined or left.
        joined: bool,
    },
    /// The manager of this program's node is gone. What is connected continues working.
    ManagerGone {
        /// This node.
        node: NodeId,
    },
    /// It is back, knows this program's objects again, and takes requests.
    ManagerBack {
        /// The facts of the node.
        info: NodeInfo,
    },
    /// The restarted manager did not take this object back: it no longer exists for others.
    ExportRefused {
        /// The segment or interrupt.
        what: Imported,
        /// In its words.
        refusal: Refusal,
    },
}
