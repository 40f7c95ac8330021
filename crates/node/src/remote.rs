//! A connection with another host: a TCP socket that never blocks, and a channel of crate `trust` on it.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use proto::ids::NodeId;
use proto::time::Instant;
use proto::wire::record::RecordKind;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use trust::channel::{Channel, ChannelError, Event, HANDSHAKE_LIMIT, PIECE_BYTES};

/// More than this unread by the other host, and it is cut off; it comes back, and nothing is lost.
const QUEUED_BYTES_MAX: usize = 1024 * 1024;
/// Pieces taken from one connection before the others get their turn.
const PIECES_AT_ONCE: usize = 4;
/// What was sent and is not acknowledged for so long breaks the connection: it is dialled again, which finds
/// a network that is back sooner than the kernel's own repetitions, whose pauses double.
const UNACKNOWLEDGED_MS: u32 = 10_000;
/// The same of one to a node with further addresses: another rail may carry the session.
const UNACKNOWLEDGED_OF_RAILS_MS: u32 = 3_000;
/// How long a connection that is to be closed may take to send what was said last.
const CLOSING_LIMIT: Duration = Duration::from_secs(2);

/// One connection.
#[derive(Debug)]
pub(crate) struct Remote {
    socket: TcpStream,
    pub(crate) channel: Channel,
    from: IpAddr,
    /// Whom this side has dialled.
    pub(crate) dialled: Option<NodeId>,
    /// It is only to tell the other one where this node is.
    pub(crate) announces: bool,
    /// Who forwards it.
    pub(crate) via: Option<NodeId>,
    /// Who it is, as soon as that is proved; the machine knows of the connection from then on.
    pub(crate) node: Option<NodeId>,
    connecting: bool,
    /// It is closed at this moment in any case.
    close_at: Option<Instant>,
    /// The machine has given it up, or never knew it: it is closed when all is sent.
    closing: bool,
    /// The other side has said that this node's certificate was revoked.
    pub(crate) refuses_us: bool,
    /// What epoll was told.
    pub(crate) wants_write: bool,
}

impl Remote {
    /// One that was accepted.
    pub(crate) fn accepted(socket: TcpStream, from: SocketAddr, channel: Channel) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        Self::new(socket, from.ip(), channel, None, false)
    }

    /// Begins to connect.
    pub(crate) fn dial(address: SocketAddr, node: NodeId, channel: Channel) -> std::io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(family, SocketType::STREAM, flags, None)?;
        let connecting = match connect(&fd, &address) {
            Ok(()) => false,
            Err(Errno::INPROGRESS) => true,
            Err(errno) => return Err(errno.into()),
        };
        Self::new(fd.into(), address.ip(), channel, Some(node), connecting)
    }

    fn new(
        socket: TcpStream,
        from: IpAddr,
        channel: Channel,
        dialled: Option<NodeId>,
        connecting: bool,
    ) -> std::io::Result<Self> {
        socket.set_nodelay(true)?;
        sockopt::set_tcp_user_timeout(&socket, UNACKNOWLEDGED_MS)?;
        // Of a new connection it is first waited for that it stands, or that it has something to say.
        Ok(Self {
            socket,
            channel,
            from,
            dialled,
            announces: false,
            via: None,
            node: None,
            connecting,
            close_at: None,
            closing: false,
            refuses_us: false,
            wants_write: dialled.is_some(),
        })
    }

    /// The node has further addresses: a rail that is cut is to be noticed sooner.
    pub(crate) fn give_up_sooner(&self) -> std::io::Result<()> {
        Ok(sockopt::set_tcp_user_timeout(&self.socket, UNACKNOWLEDGED_OF_RAILS_MS)?)
    }

    /// Where it leads.
    pub(crate) fn from(&self) -> IpAddr {
        self.from
    }

    /// Which address of this host it has.
    pub(crate) fn own_address(&self) -> std::io::Result<IpAddr> {
        Ok(self.socket.local_addr()?.ip().to_canonical())
    }

    /// It has come to us and not proved who it is.
    pub(crate) fn is_stranger(&self) -> bool {
        self.node.is_none() && self.dialled.is_none()
    }

    /// It is given up at that moment, unless it gets further.
    pub(crate) fn limit(&self) -> Option<Instant> {
        self.close_at.or_else(|| self.channel.limit())
    }

    /// Nothing that comes counts any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Who joins gets so much time, and no more.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.close_at = Some(now + HANDSHAKE_LIMIT);
    }

    /// Closes it after what waits.
    pub(crate) fn close_soon(&mut self, now: Instant) {
        self.channel.close();
        (self.node, self.closing) = (None, true);
        self.close_at = Some(now + CLOSING_LIMIT);
    }

    /// Whether a connection that was begun stands; an error if it will not.
    pub(crate) fn stands(&mut self) -> Result<bool, String> {
        if self.connecting {
            if let Some(error) = self.socket.take_error().map_err(|error| error.to_string())? {
                return Err(error.to_string());
            }
            if self.socket.peer_addr().is_err() {
                return Ok(false);
            }
            self.connecting = false;
        }
        Ok(true)
    }

    /// Takes what came. The events count even where an error follows them; `None` in its place is the end.
    pub(crate) fn read(&mut self) -> (Vec<Event>, Result<(), Option<String>>) {
        let mut events = Vec::new();
        let mut piece = [0; PIECE_BYTES];
        for _ in 0..PIECES_AT_ONCE {
            let read = match self.socket.read(&mut piece) {
                Ok(0) => return (events, Err(None)),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return (events, Err(Some(error.to_string()))),
            };
            let outcome = self.channel.received(piece.get(..read).unwrap_or_default());
            events.extend(std::iter::from_fn(|| self.channel.next_event()));
            if let Err(error) = outcome {
                self.refuses_us = error == ChannelError::OwnRevoked;
                // Why it is refused, as far as it goes.
                let _ = self.channel.write_to(&mut self.socket);
                return (events, Err(Some(error.to_string())));
            }
        }
        (events, Ok(()))
    }

    /// Queues a record; false: the other side does not read, cut it off.
    pub(crate) fn send(&mut self, kind: RecordKind, body: &[u8]) -> bool {
        self.channel.send(kind, body).is_ok() && self.channel.queued_bytes() <= QUEUED_BYTES_MAX
    }

    /// Sends what goes now.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        if self.connecting {
            return Ok(());
        }
        self.channel.write_to(&mut self.socket).map_err(|error| error.to_string())
    }

    /// Room in the socket is waited for, or that the connection stands.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.connecting || self.channel.wants_write()
    }

    /// Ends it for the other side.
    pub(crate) fn hang_up(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl AsFd for Remote {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
