//! The client that a program calls.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use link::page::{LinkWord, PageReader};
use proto::fault::LinkChange;
use proto::ids::{GroupId, NodeId, SegmentKey};
use proto::wire::program::{Access, ImportSlot, Incarnation, Refusal, Reply, Request};
use proto::wire::status::{NodeInfo, NodeStatus};

use crate::blocking::{BlockingClient, DEFAULT_LIMIT};
use crate::connection::{Answer, Connection, Shared, State};
use crate::error::{ClientError, Result, io};
use crate::event::ClientEvent;
use crate::import::{Import, ImportId, Place};
use crate::options::AttachOptions;
use crate::registry::Registry;
use crate::responsiveness::Responsiveness;
use crate::runtime_dir::ClusterDir;

/// First pause between two attempts to connect to something that is not there yet; doubles up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// An attachment to a node. Clones are the same attachment; it ends when the last is dropped.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// Ends the attachment when the last client is dropped, although the library's thread still holds the rest.
pub(crate) struct Handle {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("node", &self.shared.node).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a fork the socket is the parent's, and must stay as it is.
        if self.shared.check_process().is_ok() {
            self.shared.close();
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shared = &self.handle.shared;
        f.debug_struct("Client").field("node", &shared.node).field("cluster", shared.dir.cluster()).finish()
    }
}

impl Client {
    /// Attaches to a node and starts the library's thread, which calls `events` for all that happens. The
    /// callback may use the client, but a long one delays the next event.
    pub fn attach(
        options: &AttachOptions,
        events: impl Fn(ClientEvent) + Send + Sync + 'static,
    ) -> Result<Self> {
        let dir = options.cluster_dir()?;
        let node = options.node_in(&dir)?;
        let name = options.program_name();
        let mut client = match BlockingClient::open(&dir, node, &name, false, DEFAULT_LIMIT) {
            // The only node there is has died and left its socket behind: nothing runs here.
            Err(ClientError::ManagerGone { .. })
                if options.node.is_none() && dir.nodes_with("sock")?.len() < 2 =>
            {
                return Err(ClientError::NoManager {
                    cluster: dir.cluster().clone(),
                    dir: dir.path().into(),
                });
            }
            other => other?,
        };
        let page =
            PageReader::open(client.take_page()?).map_err(|source| ClientError::Page { node, source })?;
        crate::copy_plan::follow(&page);
        let shared = Arc::new(Shared::new((dir, node, name), first_state(client, page), Box::new(events))?);
        let library = shared.clone();
        let _quiet = shm::process::SignalsBlocked::here();
        std::thread::Builder::new()
            .name("tieline".into())
            .spawn(move || crate::library::run(&library))
            .map_err(|error| ClientError::Io {
                what: "start the library's thread",
                errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::AGAIN),
            })?;
        Ok(Self { handle: Arc::new(Handle { shared }) })
    }

    pub(crate) fn of(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    pub(crate) fn weak_handle(&self) -> Weak<Handle> {
        Arc::downgrade(&self.handle)
    }

    /// The node that this program is attached to.
    pub fn node(&self) -> NodeId {
        self.handle.shared.node
    }

    /// The cluster's directory.
    pub fn cluster_dir(&self) -> &ClusterDir {
        &self.handle.shared.dir
    }

    /// The facts of the node at the last attachment of this program.
    pub fn info(&self) -> NodeInfo {
        self.handle.shared.info()
    }

    /// The state page of the present manager, or of the last one. Another one after its restart
    /// ([`ClientEvent::ManagerBack`]).
    pub fn page(&self) -> Result<Arc<PageReader>> {
        self.handle.shared.page()
    }

    /// The link to a node, as the present page shows it.
    pub fn link(&self, node: NodeId) -> Result<LinkWord> {
        self.page()?.link(node).map_err(|source| ClientError::Page { node: self.node(), source })
    }

    /// Whether the manager is there at the moment.
    pub fn is_attached(&self) -> bool {
        self.handle.shared.is_attached()
    }

    /// Asks anything, and waits for the answer at most [`DEFAULT_LIMIT`]; fails at once while the manager is
    /// gone.
    pub fn request(&self, body: Request, descriptors: &[BorrowedFd<'_>]) -> Result<(Reply, Vec<OwnedFd>)> {
        let answer = self.handle.shared.call(body, descriptors, DEFAULT_LIMIT, false)?;
        Ok((answer.reply, answer.descriptors))
    }

    /// As [`Self::request`], but waits at most `limit`, also for the return of a manager that is gone.
    pub fn request_within(
        &self,
        body: Request,
        descriptors: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        let answer = self.handle.shared.call(body, descriptors, limit, true)?;
        Ok((answer.reply, answer.descriptors))
    }

    pub(crate) fn ask(&self, body: Request, descriptors: &[BorrowedFd<'_>]) -> Result<Answer> {
        self.handle.shared.call(body, descriptors, DEFAULT_LIMIT, false)
    }

    /// As [`Self::ask`], for at most that long.
    pub(crate) fn ask_once(&self, body: Request, limit: Duration) -> Result<Answer> {
        self.handle.shared.call(body, &[], limit, false)
    }

    pub(crate) fn order(&self, body: Request, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        self.done(self.ask(body, descriptors)?)
    }

    fn done(&self, answer: Answer) -> Result<()> {
        match answer.reply {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// A request that removes an object. A manager that is gone has lost the object, which is then not
    /// announced again, unless others are connected to it. A silent manager is waited for only briefly.
    pub(crate) fn give_up(&self, body: Request) -> Result<()> {
        self.handle.shared.check_process()?;
        let limit = self.handle.shared.lock().responsiveness.detach_timeout();
        let answer = self.handle.shared.call(body.clone(), &[], limit, false);
        match answer.and_then(|answer| self.done(answer)) {
            Err(ClientError::ManagerGone { .. }) => {
                self.handle.shared.lock().registry.give_up(&body).map_err(ClientError::Refused)
            }
            other => other,
        }
    }

    pub(crate) fn unexpected(&self, reply: &Reply) -> ClientError {
        let what = format!("it sent the wrong kind of reply, {reply:?}");
        ClientError::Protocol { node: self.node(), what: what.chars().take(200).collect() }
    }

    /// Deposits memory under a key of this node. It is not available to others until [`Self::set_available`].
    pub fn create_segment(
        &self,
        key: SegmentKey,
        size_bytes: u64,
        access: Access,
        memory: BorrowedFd<'_>,
    ) -> Result<Incarnation> {
        let incarnation = draw()?;
        self.order(
            Request::CreateSegment { key, size_bytes, access, incarnation, available: false, shared: false },
            &[memory],
        )?;
        Ok(incarnation)
    }

    /// Opens a segment to connections, or closes it to new ones and, with `disconnect`, ends those there are.
    pub fn set_available(&self, key: SegmentKey, available: bool, disconnect: bool) -> Result<()> {
        self.order(Request::SetAvailable { key, available, disconnect }, &[])
    }

    /// Forgets a segment; refused while it is connected, unless forced.
    pub fn remove_segment(&self, key: SegmentKey, force: bool) -> Result<()> {
        self.give_up(Request::RemoveSegment { key, force })
    }

    /// Connects to a segment of any node: its life, its memory, its size in bytes.
    pub fn connect_segment(&self, node: NodeId, key: SegmentKey) -> Result<(Import, OwnedFd, u64)> {
        let answer = self.ask(Request::ConnectSegment { node, key }, &[])?;
        self.segment_of(answer)
    }

    /// As [`Self::connect_segment`], but waits at most `limit` for the segment to exist and be available, for
    /// its node to be reachable, and for a manager that is gone. The error is then the last one seen.
    pub fn connect_segment_within(
        &self,
        node: NodeId,
        key: SegmentKey,
        limit: Duration,
    ) -> Result<(Import, OwnedFd, u64)> {
        let answer = self.ask_until(Request::ConnectSegment { node, key }, limit)?;
        self.segment_of(answer)
    }

    pub(crate) fn ask_until(&self, body: Request, limit: Duration) -> Result<Answer> {
        let deadline = Instant::now() + limit.min(crate::LONGEST_LIMIT);
        let mut pause = FIRST_PAUSE;
        let mut last = None;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let error = match self.handle.shared.call(body.clone(), &[], left.max(FIRST_PAUSE), true) {
                Err(error) if may_pass(&error) => error,
                // Only the last attempt had too little time: the earlier result is more useful.
                Err(ClientError::TimedOut { node, what, limit }) => {
                    return Err(last.unwrap_or(ClientError::TimedOut { node, what, limit }));
                }
                other => return other,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(error);
            }
            last = Some(error);
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(crate) fn segment_of(&self, answer: Answer) -> Result<(Import, OwnedFd, u64)> {
        let size_bytes = match &answer.reply {
            Reply::Segment { size_bytes, .. } => *size_bytes,
            Reply::OnOtherHost { .. } => return Err(self.on_other_host()),
            other => return Err(self.unexpected(other)),
        };
        let memory = answer.descriptors.into_iter().next();
        match (answer.import, memory) {
            (Some(import), Some(memory)) => Ok((import, memory, size_bytes)),
            _ => {
                Err(ClientError::Protocol { node: self.node(), what: "a segment without its memory".into() })
            }
        }
    }

    /// For callers that want memory in any case.
    fn on_other_host(&self) -> ClientError {
        let what = "the segment is on another host, and was asked for as memory of this one".to_owned();
        ClientError::Protocol { node: self.node(), what }
    }

    /// Gives an import up, alive or not. Giving it up twice is no error.
    pub fn disconnect(&self, import: &Import) -> Result<()> {
        self.handle.shared.check_process()?;
        let slot = {
            let mut state = self.handle.shared.lock();
            let known = state.registry.imports.contains_key(&import.id());
            let slot = import
                .slot_in(&state.page)
                .filter(|_| known && matches!(state.connection, Connection::Up(_)));
            if slot.is_none() {
                state.registry.forget_import(import.id());
            }
            slot
        };
        if let Some(import) = slot {
            self.give_up(Request::Disconnect { import })?;
        }
        import.move_to(Place::GivenUp);
        Ok(())
    }

    /// Where the present manager has an import.
    pub(crate) fn slot_of(&self, import: ImportId) -> Option<ImportSlot> {
        let state = self.handle.shared.lock();
        state.registry.imports.get(&import)?.slot_in(&state.page)
    }

    /// Whether a node answers: its manager's session is valid.
    pub fn probe(&self, node: NodeId) -> Result<bool> {
        match self.ask(Request::Probe { node }, &[])?.reply {
            Reply::Probed { reachable } => Ok(reachable),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Does something to the link to a node, at this end. Only the manager's user (or root) may.
    pub fn change_link(&self, peer: NodeId, change: LinkChange) -> Result<()> {
        match self.ask(Request::ChangeLink { peer, change }, &[])?.reply {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Nodes that hold a copy of a group, ascending; changes come as [`ClientEvent::Member`].
    pub fn watch_group(&self, group: GroupId) -> Result<Vec<NodeId>> {
        match self.ask(Request::WatchGroup { group }, &[])?.reply {
            Reply::Members(members) => Ok(members),
            other => Err(self.unexpected(&other)),
        }
    }

    /// No more events for this group.
    pub fn unwatch_group(&self, group: GroupId) -> Result<()> {
        self.give_up(Request::UnwatchGroup { group })
    }

    /// The state of the node.
    pub fn status(&self) -> Result<NodeStatus> {
        match self.ask(Request::Status, &[])?.reply {
            Reply::Status(status) => Ok(*status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Clears the manager's counters.
    pub fn clear_counters(&self) -> Result<()> {
        self.order(Request::ClearCounters, &[])
    }

    /// Ends the manager.
    pub fn shutdown(&self) -> Result<()> {
        self.order(Request::Shutdown, &[])
    }
}

fn first_state(client: BlockingClient, page: PageReader) -> State {
    let mut parts = client.into_parts();
    let mut registry = Registry::default();
    let events = parts.events.drain(..).filter_map(|(event, fds)| registry.translate(event, fds));
    let events: VecDeque<_> = events.collect();
    State {
        connection: Connection::Up(Arc::new(parts.socket)),
        responsiveness: Responsiveness::default(),
        info: parts.info,
        page: Arc::new(page),
        next_id: parts.next_id,
        pending: HashMap::new(),
        buffer: Some(parts.buffer),
        armed: false,
        registry,
        events,
        chores: VecDeque::new(),
        to_resume: VecDeque::new(),
        resume_until: None,
    }
}

/// Whether waiting may help.
fn may_pass(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Refused(
            Refusal::NotFound { .. }
                | Refusal::NotAvailable { .. }
                | Refusal::Unreachable { .. }
                | Refusal::NotShared { .. }
                | Refusal::OwnerBusy { .. }
        ) | ClientError::ManagerGone { .. }
    )
}

/// A random number that distinguishes this object from others of the same name.
pub(crate) fn draw() -> Result<Incarnation> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(io("draw a random number"))?;
    Ok(Incarnation(u64::from_ne_bytes(bytes)))
}

impl link::Directory for Client {
    type Error = ClientError;
    type Import = Import;

    fn find(&self, node: NodeId, key: SegmentKey) -> Result<(link::Grant, Import)> {
        let (import, memory, size_bytes) = self.connect_segment(node, key)?;
        Ok((link::Grant { node, size_bytes, memory }, import))
    }

    fn release(&self, import: &Import) -> Result<()> {
        self.disconnect(import)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_be_used_by_many_threads() {
        fn shareable<T: Send + Sync>() {}
        shareable::<Client>();
        shareable::<Import>();
        let _ = draw().unwrap().0 ^ draw().unwrap().0;
    }

    #[test]
    fn only_what_may_pass_is_waited_for() {
        let node = NodeId::new(4).unwrap();
        assert!(may_pass(&ClientError::Refused(Refusal::NotFound { what: "segment 1".into(), node })));
        assert!(may_pass(&ClientError::ManagerGone { node, why: String::new() }));
        assert!(!may_pass(&ClientError::Refused(Refusal::Denied { what: "connect".into(), uid: 1 })));
        assert!(!may_pass(&ClientError::Forked { parent: 1 }));
    }
}
