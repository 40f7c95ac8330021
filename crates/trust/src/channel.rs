//! One connection between two hosts, without a socket: bytes in, records out, and back.
//!
//! TLS 1.3; both ends prove which node they are by certificates of the cluster's authority. The one exception
//! is a connection of somebody who joins ([`Purpose::Join`]): there the accepting end proves that it belongs
//! to the authority whose fingerprint the token carries, and the token is the proof of the other.
//!
//! Who dialled counts as connected when the first record has come, not before: only then has the other side
//! accepted its certificate. The accepting side therefore says something at once.
//!
//! # Bounds
//! What is received is one TLS record, one record of ours and one piece of [`PIECE_BYTES`]; what waits to be
//! sent is counted by [`Channel::queued_bytes`], and who is not done with the handshake by [`Channel::limit`]
//! is to be dropped.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use proto::ids::NodeId;
use proto::time::Instant;
use proto::wire::record::{Record, RecordError, RecordKind, Records, frame};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::Acceptor;
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection};

use crate::authority::{name_of, node_of};
use crate::identity::{Identity, JOIN, LEAVE, PEER, RENEW};

/// How long a handshake may take, the connecting included.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// How many bytes are handed in at a time, at most.
pub const PIECE_BYTES: usize = 16 * 1024;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Two managers.
    Peer,
    /// Somebody joins.
    Join,
    /// A node renews its certificate.
    Renew,
    /// A node leaves the cluster.
    Leave,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The other side is who its certificate says.
    Peer(NodeId),
    /// Somebody wants to join; who that is, its token will say.
    Joiner,
    /// This node wants its certificate renewed, which has proved who it is.
    Renewer(NodeId),
    /// This node wants to leave the cluster, which has proved who it is.
    Leaver(NodeId),
    /// A record.
    Record(Record),
}

/// Why a connection is given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// Not TLS at all: a port scanner, another program.
    #[error(
        "the other side does not speak TLS 1.3 ({0}): check that a node manager uses this port, not another program"
    )]
    NotTls(String),
    /// Not of this cluster.
    #[error(
        "the certificate of the other side is not of this cluster's authority: let it join this cluster with a token"
    )]
    WrongAuthority,
    /// Too old, or the clocks differ.
    #[error(
        "the certificate of the other side is not valid at this time: compare the clocks of both hosts; if it has expired, let the node join again with a new token"
    )]
    WrongTime,
    /// This side does not accept it any more.
    #[error(
        "the certificate of the other side was revoked: let that node join again with a token of `tieline cluster token --node ID`"
    )]
    Revoked,
    /// The other side does not accept ours any more.
    #[error(
        "the other side refused this node's certificate, because it was revoked: join again with a token of `tieline cluster token --node ID`, made on the host where `tieline cluster init` was run"
    )]
    OwnRevoked,
    /// Another node answers at this address.
    #[error(
        "the certificate of the other side is not that of node {0}: correct the address of that node in the file `hosts`"
    )]
    WrongNode(NodeId),
    /// It names no node.
    #[error("the certificate of the other side names no node: let it join again with a new token")]
    NoNode,
    /// It refused us.
    #[error("the other side refused this node's certificate ({0}): see the log of the manager there")]
    Refused(String),
    /// Anything else in TLS.
    #[error("the encrypted connection failed: {0}")]
    Tls(String),
    /// The records within.
    #[error("the other side sent invalid data ({0}): install the same tieline on both sides")]
    Record(#[from] RecordError),
    /// Neither a manager nor somebody who joins.
    #[error("the other side offered another protocol: install the same tieline on both sides")]
    OtherProtocol,
}

enum Tls {
    Greeting(Box<Acceptor>, Arc<Identity>),
    Open(Box<Connection>),
    /// What is still to be said to somebody who is refused.
    Farewell(Vec<u8>),
}

/// One end.
pub struct Channel {
    tls: Tls,
    purpose: Purpose,
    dialled: Option<NodeId>,
    established: bool,
    records: Records,
    events: VecDeque<Event>,
    queue: VecDeque<Vec<u8>>,
    queued_bytes: usize,
    closing: bool,
    limit: Instant,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel")
            .field("purpose", &self.purpose)
            .field("dialled", &self.dialled)
            .field("established", &self.established)
            .field("queued_bytes", &self.queued_bytes)
            .finish_non_exhaustive()
    }
}

impl Channel {
    fn new(mut tls: Tls, purpose: Purpose, dialled: Option<NodeId>, now: Instant) -> Self {
        if let Tls::Open(connection) = &mut tls {
            // Its own limit is shorter than our longest record, of which it is given one at a time.
            connection.set_buffer_limit(None);
        }
        Self {
            tls,
            purpose,
            dialled,
            established: false,
            records: Records::default(),
            events: VecDeque::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            closing: false,
            limit: now + HANDSHAKE_LIMIT,
        }
    }

    /// The end that connects to the manager of `node`.
    pub fn dial(identity: &Identity, node: NodeId, now: Instant) -> Result<Self, ChannelError> {
        let name =
            ServerName::try_from(name_of(node)).map_err(|error| ChannelError::Tls(error.to_string()))?;
        let tls =
            ClientConnection::new(Arc::clone(&identity.dialling), name).map_err(|error| tls(error, None))?;
        Ok(Self::new(Tls::Open(Box::new(tls.into())), Purpose::Peer, Some(node), now))
    }

    /// The end that connects to a node whose name it does not know.
    pub(crate) fn dial_for(purpose: Purpose, tls: ClientConnection, now: Instant) -> Self {
        Self::new(Tls::Open(Box::new(tls.into())), purpose, None, now)
    }

    /// The end that accepts.
    pub fn accept(identity: &Arc<Identity>, now: Instant) -> Self {
        Self::new(Tls::Greeting(Box::default(), Arc::clone(identity)), Purpose::Peer, None, now)
    }

    /// When the handshake must be over; `None`: it is.
    pub fn limit(&self) -> Option<Instant> {
        (!self.established).then_some(self.limit)
    }

    /// The other side has proved who it is.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// What it is for, as far as that is known yet.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The certificates of the other side.
    pub(crate) fn chain(&self) -> Option<&[CertificateDer<'static>]> {
        match &self.tls {
            Tls::Open(tls) => tls.peer_certificates(),
            _ => None,
        }
    }

    /// The certificate by which the other side has proved who it is.
    pub fn proof(&self) -> Option<&CertificateDer<'static>> {
        self.chain().filter(|_| self.established)?.first()
    }

    /// Takes bytes from the network, at most [`PIECE_BYTES`]; then [`Self::next_event`] says what came. After
    /// an error what is still to be said can be sent; nothing more is received.
    pub fn received(&mut self, mut bytes: &[u8]) -> Result<(), ChannelError> {
        while !bytes.is_empty() {
            match &mut self.tls {
                Tls::Greeting(acceptor, _) => {
                    let read = acceptor.read_tls(&mut bytes);
                    if read.map_err(|error| ChannelError::Tls(error.to_string()))? == 0 {
                        return Err(ChannelError::Tls("a greeting that is too long".to_owned()));
                    }
                    self.greeted()?;
                }
                Tls::Open(_) => self.opened(&mut bytes)?,
                Tls::Farewell(_) => return Ok(()),
            }
        }
        // What came with the greeting.
        if matches!(self.tls, Tls::Open(_)) { self.opened(&mut &[][..]) } else { Ok(()) }
    }

    /// Whether the whole greeting has come, and what it asks for.
    fn greeted(&mut self) -> Result<(), ChannelError> {
        let Tls::Greeting(acceptor, identity) = &mut self.tls else { return Ok(()) };
        let refused = |(error, mut alert): (rustls::Error, rustls::server::AcceptedAlert)| {
            let mut farewell = Vec::new();
            // Into memory.
            let _ = alert.write_all(&mut farewell);
            (ChannelError::NotTls(error.to_string()), farewell)
        };
        let outcome = match acceptor.accept().map_err(refused) {
            Ok(None) => return Ok(()),
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let offered: Vec<&[u8]> = hello.alpn().into_iter().flatten().collect();
                let (config, purpose) = match offered.as_slice() {
                    [PEER] => (&identity.accepting, Purpose::Peer),
                    [JOIN] => (&identity.joining, Purpose::Join),
                    [RENEW] => (&identity.accepting, Purpose::Renew),
                    [LEAVE] => (&identity.accepting, Purpose::Leave),
                    _ => {
                        self.tls = Tls::Farewell(Vec::new());
                        return Err(ChannelError::OtherProtocol);
                    }
                };
                accepted.into_connection(Arc::clone(config)).map_err(refused).map(|tls| (tls, purpose))
            }
            Err(failed) => Err(failed),
        };
        match outcome {
            Ok((mut tls, purpose)) => {
                tls.set_buffer_limit(None);
                (self.tls, self.purpose) = (Tls::Open(Box::new(tls.into())), purpose);
                Ok(())
            }
            Err((error, farewell)) => {
                self.tls = Tls::Farewell(farewell);
                Err(error)
            }
        }
    }

    fn opened(&mut self, bytes: &mut &[u8]) -> Result<(), ChannelError> {
        let Tls::Open(connection) = &mut self.tls else { return Ok(()) };
        if !bytes.is_empty()
            && connection.read_tls(bytes).map_err(|error| ChannelError::Tls(error.to_string()))? == 0
        {
            // The other side has said that nothing more comes: what follows is to be ignored (RFC 8446, 6.1).
            *bytes = &[];
        }
        connection.process_new_packets().map_err(|error| tls(error, self.dialled))?;
        if !connection.is_handshaking() && !self.established && self.dialled.is_none() {
            let who = match self.purpose {
                Purpose::Join => Event::Joiner,
                Purpose::Peer => Event::Peer(named(connection)?),
                Purpose::Renew => Event::Renewer(named(connection)?),
                Purpose::Leave => Event::Leaver(named(connection)?),
            };
            // Who joins has dialled, and hears nothing before it has asked.
            self.established = true;
            self.events.push_back(who);
        }
        let mut piece = [0; PIECE_BYTES];
        loop {
            let read = match connection.reader().read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(ChannelError::Tls(error.to_string())),
            };
            self.records.push(piece.get(..read).unwrap_or_default());
            while let Some(record) = self.records.take()? {
                if let (false, Some(node)) = (self.established, self.dialled) {
                    self.established = true;
                    self.events.push_back(Event::Peer(node));
                }
                self.events.push_back(Event::Record(record));
            }
        }
    }

    /// What came, in order.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Queues a record; it is sent by [`Self::write_to`], as soon as the handshake is over.
    pub fn send(&mut self, kind: RecordKind, body: &[u8]) -> Result<(), RecordError> {
        let bytes = frame(kind, body)?;
        self.queued_bytes += bytes.len();
        self.queue.push_back(bytes);
        Ok(())
    }

    /// Bytes of records that wait.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Says, after what waits, that nothing more comes.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Something can be sent now.
    pub fn wants_write(&self) -> bool {
        match &self.tls {
            Tls::Greeting(..) => false,
            Tls::Open(tls) => tls.wants_write() || (!tls.is_handshaking() && !self.queue.is_empty()),
            Tls::Farewell(rest) => !rest.is_empty(),
        }
    }

    /// Nothing that was queued waits any more.
    pub fn is_flushed(&self) -> bool {
        self.queue.is_empty() && !self.wants_write()
    }

    /// Sends as much as goes; `WouldBlock` of the writer is no error.
    pub fn write_to(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        loop {
            let wrote = match &mut self.tls {
                Tls::Greeting(..) => return Ok(()),
                Tls::Farewell(rest) => {
                    if rest.is_empty() {
                        return Ok(());
                    }
                    let wrote = out.write(rest);
                    if let Ok(bytes) = wrote {
                        rest.drain(..bytes);
                    }
                    wrote
                }
                Tls::Open(tls) => {
                    if !tls.wants_write() && !tls.is_handshaking() {
                        // One record at a time is encrypted, so that what waits is counted here.
                        if let Some(bytes) = self.queue.pop_front() {
                            self.queued_bytes -= bytes.len();
                            tls.writer().write_all(&bytes)?;
                        } else if std::mem::take(&mut self.closing) {
                            tls.send_close_notify();
                        }
                    }
                    if !tls.wants_write() {
                        return Ok(());
                    }
                    tls.write_tls(out)
                }
            };
            match wrote {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn named(tls: &Connection) -> Result<NodeId, ChannelError> {
    let own = tls.peer_certificates().and_then(<[_]>::first);
    own.and_then(node_of).ok_or(ChannelError::NoNode)
}

/// A connection with the host that has the authority's key. It proves that by certificates, in which no name
/// of a host stands.
pub(crate) fn to_authority(config: ClientConfig) -> Result<ClientConnection, ChannelError> {
    let nobody = ServerName::try_from("authority.tieline.invalid")
        .map_err(|error| ChannelError::Tls(error.to_string()))?;
    ClientConnection::new(Arc::new(config), nobody).map_err(|error| tls(error, None))
}

/// In words that name the next step.
pub(crate) fn tls(error: rustls::Error, dialled: Option<NodeId>) -> ChannelError {
    use rustls::Error;
    match error {
        Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => ChannelError::WrongAuthority,
            CertificateError::Revoked => ChannelError::Revoked,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => ChannelError::WrongTime,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                dialled.map_or(ChannelError::NoNode, ChannelError::WrongNode)
            }
            other => ChannelError::Tls(Error::InvalidCertificate(other).to_string()),
        },
        Error::AlertReceived(AlertDescription::CertificateRevoked) => ChannelError::OwnRevoked,
        Error::AlertReceived(alert) => ChannelError::Refused(format!("{alert:?}")),
        Error::InvalidMessage(why) => ChannelError::NotTls(format!("{why:?}")),
        other => ChannelError::Tls(other.to_string()),
    }
}
