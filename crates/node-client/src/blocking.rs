//! A blocking connection with a manager, for one thread that waits for each reply.
//!
//! Attaching begins with one; a tool that only sends a few requests needs nothing more.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use proto::ids::NodeId;
use proto::wire::program::{Event, Refusal, Reply, Request, ToManager, ToProgram};
use proto::wire::status::NodeInfo;
use proto::wire::{CodecError, MAX_DATAGRAM_BYTES, decode, encode};
use rustix::io::Errno;
use shm::process::PidFd;

use crate::error::{ClientError, Result, io};
use crate::runtime_dir::{ClusterDir, ConnectError, OpenDir, RuntimeDirError};
use crate::seqpacket::{Seqpacket, Wanted};

/// How long a manager may take to accept or to reply, unless the caller says otherwise.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(10);

/// A connection after the handshake.
#[derive(Debug)]
pub struct BlockingClient {
    node: NodeId,
    socket: Seqpacket,
    buffer: Vec<u8>,
    next_id: u64,
    info: NodeInfo,
    page: Option<OwnedFd>,
    events: VecDeque<(Event, Vec<OwnedFd>)>,
}

impl BlockingClient {
    /// Connects to the manager of `node` and does the handshake; all within `limit`.
    pub fn open(dir: &ClusterDir, node: NodeId, name: &str, reattach: bool, limit: Duration) -> Result<Self> {
        let deadline = Instant::now() + limit.min(crate::LONGEST_LIMIT);
        let socket = connect(dir, node, deadline)?;
        let myself = PidFd::of_this().map_err(io("open a pidfd of this process"))?;
        let hello = encode(&ToManager::Hello { name: name.to_owned(), reattach })?;
        let mut waiting =
            Waiting { node, socket: &socket, what: "the connection", limit, deadline, reset: false };
        waiting.send_hello(&hello, &[myself.as_fd()])?;
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        let (message, descriptors) = waiting.receive(&mut buffer)?;
        match message {
            ToProgram::Welcome { info } => {
                let page = descriptors.into_iter().next();
                Ok(Self { node, socket, buffer, next_id: 0, info, page, events: VecDeque::new() })
            }
            ToProgram::Rejected(refusal) => Err(rejected(node, refusal)),
            _ => Err(ClientError::Protocol {
                node,
                what: "its reply to the hello is neither a welcome nor a refusal".into(),
            }),
        }
    }

    /// The facts of the node.
    pub fn info(&self) -> &NodeInfo {
        &self.info
    }

    /// The socket, to read the credentials of the other end.
    pub fn socket(&self) -> &Seqpacket {
        &self.socket
    }

    /// Sends a request and waits for the reply, at most `limit`.
    pub fn ask(
        &mut self,
        body: Request,
        descriptors: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        self.next_id += 1;
        let wanted = self.next_id;
        let what = name_of(&body);
        let bytes = encode(&ToManager::Request { id: wanted, body })?;
        let deadline = Instant::now() + limit.min(crate::LONGEST_LIMIT);
        let mut waiting =
            Waiting { node: self.node, socket: &self.socket, what, limit, deadline, reset: false };
        waiting.send(&bytes, descriptors)?;
        loop {
            let (message, descriptors) = waiting.receive(&mut self.buffer)?;
            match message {
                ToProgram::Reply { id, result } if id == wanted => return Ok((result?, descriptors)),
                // The reply to a request that timed out.
                ToProgram::Reply { .. } => {}
                ToProgram::Event(event) => self.events.push_back((event, descriptors)),
                ToProgram::Rejected(refusal) => return Err(rejected(self.node, refusal)),
                ToProgram::Welcome { .. } => {
                    return Err(ClientError::Protocol { node: self.node, what: "a second welcome".into() });
                }
            }
        }
    }

    /// The next event; waits for it until `deadline`, which is `limit` after somebody began to wait for
    /// `what`.
    pub(crate) fn event(&mut self, what: &'static str, limit: Duration, deadline: Instant) -> Result<Event> {
        if let Some((event, _)) = self.events.pop_front() {
            return Ok(event);
        }
        let mut waiting =
            Waiting { node: self.node, socket: &self.socket, what, limit, deadline, reset: false };
        loop {
            match waiting.receive(&mut self.buffer)?.0 {
                ToProgram::Event(event) => return Ok(event),
                ToProgram::Rejected(refusal) => return Err(rejected(self.node, refusal)),
                // The reply to a request that timed out.
                _ => {}
            }
        }
    }

    /// Takes the client apart, so that an attachment continues with its socket.
    pub(crate) fn into_parts(self) -> Parts {
        let Self { socket, buffer, next_id, info, events, .. } = self;
        Parts { socket, buffer, next_id, info, events }
    }

    /// The state page, once.
    pub(crate) fn take_page(&mut self) -> Result<OwnedFd> {
        let missing =
            || ClientError::Protocol { node: self.node, what: "a welcome without a state page".into() };
        self.page.take().ok_or_else(missing)
    }
}

/// The parts of a [`BlockingClient`].
pub(crate) struct Parts {
    pub(crate) socket: Seqpacket,
    pub(crate) buffer: Vec<u8>,
    pub(crate) next_id: u64,
    pub(crate) info: NodeInfo,
    pub(crate) events: VecDeque<(Event, Vec<OwnedFd>)>,
}

struct Waiting<'a> {
    node: NodeId,
    socket: &'a Seqpacket,
    what: &'static str,
    limit: Duration,
    deadline: Instant,
    reset: bool,
}

impl Waiting<'_> {
    fn send_hello(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        self.send_by(|socket| socket.send_hello(bytes, descriptors))
    }

    fn send(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        self.send_by(|socket| socket.send(bytes, descriptors))
    }

    fn send_by(&mut self, send: impl Fn(&Seqpacket) -> std::result::Result<(), Errno>) -> Result<()> {
        loop {
            match send(self.socket) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) => self.wait(Wanted::Write)?,
                // A manager that refuses sends the reason before it closes: it is still to be read.
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(errno) => return Err(ClientError::Io { what: "send to the node manager", errno }),
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<(ToProgram, Vec<OwnedFd>)> {
        loop {
            match self.socket.receive(buffer) {
                Ok(Some(datagram)) => return understand(self.node, buffer, datagram),
                // Reported once, before the last message: a refusal may still be in the socket.
                Err(Errno::CONNRESET) if !self.reset => self.reset = true,
                Ok(None) | Err(Errno::CONNRESET) => return Err(gone(self.node)),
                Err(Errno::AGAIN) => self.wait(Wanted::Read)?,
                Err(errno) => return Err(ClientError::Io { what: "receive from the node manager", errno }),
            }
        }
    }

    fn wait(&self, wanted: Wanted) -> Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::TimedOut { node: self.node, what: self.what, limit: self.limit });
        }
        self.socket.wait(wanted, Some(left)).map_err(io("wait for the node manager"))?;
        Ok(())
    }
}

/// Decodes a message from a manager.
pub(crate) fn understand(
    node: NodeId,
    buffer: &[u8],
    datagram: crate::seqpacket::Datagram,
) -> Result<(ToProgram, Vec<OwnedFd>)> {
    let message = match decode::<ToProgram>(buffer.get(..datagram.len).unwrap_or_default()) {
        Ok(message) if !datagram.truncated => message,
        Err(CodecError::OtherVersion { theirs }) => return Err(ClientError::Version { theirs }),
        Err(error) => return Err(ClientError::Protocol { node, what: error.to_string() }),
        Ok(_) => return Err(ClientError::Protocol { node, what: "a message longer than the limit".into() }),
    };
    match message {
        _ if !datagram.descriptors_lost => Ok((message, datagram.descriptors)),
        // An event is valid even if this process had no room for its descriptors.
        ToProgram::Event(_) => Ok((message, Vec::new())),
        _ => Err(no_room()),
    }
}

/// The error for descriptors that did not fit into this process.
pub(crate) fn no_room() -> ClientError {
    // The limit of this process is by far the likelier cause.
    ClientError::Io { what: "receive a descriptor from the node manager", errno: Errno::MFILE }
}

/// The error for a connection that the manager closed.
pub(crate) fn gone(node: NodeId) -> ClientError {
    ClientError::ManagerGone { node, why: "it closed the connection".into() }
}

/// The error for a hello that was refused.
pub(crate) fn rejected(node: NodeId, refusal: Refusal) -> ClientError {
    match refusal {
        Refusal::Version { ours, .. } => ClientError::Version { theirs: ours },
        Refusal::Denied { what, uid } => {
            ClientError::Denied { node, why: format!("user {uid} may not {what}") }
        }
        other => ClientError::Refused(other),
    }
}

fn connect(dir: &ClusterDir, node: NodeId, deadline: Instant) -> Result<Seqpacket> {
    let path = dir.socket(node)?;
    let no_socket = || ClientError::ManagerGone { node, why: "it has no socket".into() };
    let open: OpenDir = dir.open().map_err(of_directory)?.ok_or_else(no_socket)?;
    let mut pause = Duration::from_millis(1);
    loop {
        let errno = match open.connect(node) {
            Ok(socket) => return Ok(socket),
            Err(ConnectError::System(errno)) => errno,
            Err(ConnectError::Foreign { uid, owner }) => {
                return Err(ClientError::ForeignManager { path, uid, owner });
            }
        };
        match errno {
            // The backlog is full, and there is nothing to wait on.
            Errno::AGAIN | Errno::INTR if Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Errno::AGAIN => {
                return Err(ClientError::TimedOut { node, what: "the connection", limit: DEFAULT_LIMIT });
            }
            Errno::NOENT => return Err(no_socket()),
            Errno::CONNREFUSED => {
                let why = "its socket refuses connections".into();
                return Err(ClientError::ManagerGone { node, why });
            }
            Errno::ACCESS | Errno::PERM => {
                return Err(ClientError::Denied {
                    node,
                    why: format!("{} cannot be opened", path.display()),
                });
            }
            errno => return Err(ClientError::Io { what: "connect to the node manager", errno }),
        }
    }
}

/// Separates errors of this process (no descriptors, no memory) from errors of the directory.
fn of_directory(error: RuntimeDirError) -> ClientError {
    let errno = match &error {
        RuntimeDirError::Io { source, .. } => Errno::from_io_error(source),
        _ => None,
    };
    match errno {
        Some(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
            ClientError::Io { what: "open the runtime directory", errno }
        }
        _ => error.into(),
    }
}

/// The name of a request, for messages.
pub(crate) fn name_of(request: &Request) -> &'static str {
    match request {
        Request::CreateSegment { .. } => "the creation of a segment",
        Request::SetAvailable { .. } => "a change of a segment's availability",
        Request::RemoveSegment { .. } => "the removal of a segment",
        Request::ConnectSegment { .. } => "the connection to a segment",
        Request::ShareSegment { .. } => "the sharing of a segment",
        Request::AttachSegment { .. } => "the attachment to a segment",
        Request::CreateInterrupt { .. } => "the creation of an interrupt",
        Request::RemoveInterrupt { .. } => "the removal of an interrupt",
        Request::ConnectInterrupt { .. } => "the connection to an interrupt",
        Request::ConnectByNetwork { .. } => "the connection to another host",
        Request::AnswerByNetwork { .. } => "the answer to another host",
        Request::Disconnect { .. } => "a disconnection",
        Request::ResumeImport { .. } => "the resumption of an import",
        Request::ResumeExport { .. } => "the resumption of a connection",
        Request::Probe { .. } => "a probe",
        Request::WatchGroup { .. } | Request::UnwatchGroup { .. } => "watching a group",
        Request::NodeInfo => "the facts of the node",
        Request::Status => "the state of the node",
        Request::StatusOf { .. } => "the state of another node",
        Request::TellRails { .. } => "the word of rails that are not used",
        Request::AskOwner { .. } => "a question about rails to another host",
        Request::AnswerImporter { .. } => "the answer about rails to another host",
        Request::StartAgent { .. } => "the start of an agent",
        Request::ClearCounters => "clearing the counters",
        Request::ChangeLink { .. } => "the change of a link",
        Request::Shutdown => "the shutdown",
    }
}
