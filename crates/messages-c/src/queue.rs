//! What a program holds: a message queue for one thread or for several, and what it has set aside.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use collectives::{CollectiveSettings, Group};
use proto::ids::{NodeId, PortNo};
use tieline::messages::{
    Buffers, Claimed, DIRECT_LOOKS, Direct, Engine, Envelope, MessageError, Mode, PeerId, Persistent,
    Request, SendRequest, Settings, Space, Status, Want,
};
use tieline::{MessageQueue, Node, NodeOptions, SharedMessageQueue};

use crate::code::{Code, Failure, Result};
use crate::fork;

/// How to open a queue.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The node, or the only one.
    pub node: Option<u32>,
    /// The port.
    pub port: u32,
    /// Whether several threads use it at once.
    pub threads: bool,
    /// Its thresholds and limits.
    pub settings: Settings,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is never moved, and a box more is a cache line more a call")]
enum Kind {
    /// Of one thread at a time: two at once are noticed where they meet, and not always.
    Single(RefCell<MessageQueue>),
    Shared(SharedMessageQueue),
}

/// An end point, as C programs hold it.
#[derive(Debug)]
pub struct Queue {
    kind: Kind,
    /// The process that opened it.
    forks: u64,
    /// Messages that were set aside, and operations that can be started again, by their numbers.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    claimed: HashMap<u64, Claimed>,
    persistent: HashMap<u64, Persistent>,
    groups: HashMap<u64, Group>,
}

impl Kept {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

fn busy() -> Failure {
    Code::Busy.because("another thread is in this queue: open it with `threads` set, or take turns")
}

fn not_started() -> Failure {
    Code::Invalid.because("the operation is not under way: start it first")
}

fn nothing_came() -> Failure {
    Code::TimedOut.because("no message came within the time limit: call again, or with a longer limit")
}

fn no_group() -> Failure {
    Code::NoSuchRequest.because("no group has this number: make it with tieline_mq_group_create")
}

impl Queue {
    /// Opens a queue.
    ///
    /// # Errors
    /// No manager, a port in use, missing resources.
    pub fn open(options: &Options) -> Result<Self> {
        fork::watch();
        let node = options.node.map(NodeId::new).transpose().map_err(tieline::Error::from)?;
        let node = Node::attach_with(&NodeOptions { node, ..NodeOptions::default() })?;
        let queue = node.message_queue(PortNo(options.port), &options.settings)?;
        let kind =
            if options.threads { Kind::Shared(queue.share()) } else { Kind::Single(RefCell::new(queue)) };
        Ok(Self { kind, forks: fork::count(), kept: Mutex::default() })
    }

    /// Whether this process is the one that opened it.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.forks == fork::count()
    }

    /// Lets sends end and tells the peers.
    ///
    /// # Errors
    /// Not all of that within the limit; another thread is in the queue.
    pub fn close(self, limit: Duration) -> Result<()> {
        let is_done = match self.kind {
            Kind::Single(queue) => queue.into_inner().close(limit),
            Kind::Shared(queue) => queue.finish(limit),
        };
        if is_done {
            return Ok(());
        }
        Err(Code::TimedOut.because(
            "sends had not ended, or a peer could not be told; closed all the same: give peers time to receive",
        ))
    }

    /// The node and port.
    ///
    /// # Errors
    /// Another thread is in the queue.
    pub fn address(&self) -> Result<(u32, u32)> {
        let (node, port) = match &self.kind {
            Kind::Single(queue) => queue.try_borrow().map_err(|_| busy())?.address(),
            Kind::Shared(queue) => queue.address(),
        };
        Ok((node.get(), port.0))
    }

    /// The number of a peer.
    ///
    /// # Errors
    /// There is none within the limit, no link for data leads to its host, or it is another user's.
    pub fn peer(&self, node: u32, port: u32, limit: Duration) -> Result<PeerId> {
        let (node, port) = (NodeId::new(node).map_err(tieline::Error::from)?, PortNo(port));
        Ok(match &self.kind {
            Kind::Single(queue) => queue.try_borrow_mut().map_err(|_| busy())?.peer_at(node, port, limit)?,
            Kind::Shared(queue) => queue.peer_at(node, port, limit)?,
        })
    }

    /// Calls that do not wait.
    ///
    /// # Errors
    /// Those of the calls; another thread is in the queue.
    #[inline]
    pub fn with<R>(
        &self,
        calls: impl FnOnce(&mut Engine) -> std::result::Result<R, MessageError>,
    ) -> Result<R> {
        Ok(match &self.kind {
            Kind::Single(queue) => {
                let mut queue = queue.try_borrow_mut().map_err(|_| busy())?;
                calls(&mut queue)?
            }
            Kind::Shared(queue) => queue.with(calls)?,
        })
    }

    /// Waits for the end of a request.
    ///
    /// # Errors
    /// The time limit; no such request.
    #[inline]
    pub fn wait(&self, request: Request, limit: Option<Duration>) -> Result<Status> {
        Ok(match &self.kind {
            Kind::Single(queue) => queue.try_borrow_mut().map_err(|_| busy())?.wait(request, limit)?,
            Kind::Shared(queue) => queue.wait(request, limit)?,
        })
    }

    /// Waits for the first end of one of the requests.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn wait_any(&self, requests: &[Request], limit: Option<Duration>) -> Result<(usize, Status)> {
        Ok(match &self.kind {
            Kind::Single(queue) => queue.try_borrow_mut().map_err(|_| busy())?.wait_any(requests, limit)?,
            Kind::Shared(queue) => queue.wait_any(requests, limit)?,
        })
    }

    /// Waits for the ends of all of the requests.
    ///
    /// # Errors
    /// As [`Self::wait`]; after the time limit none of the ends was told.
    pub fn wait_all(&self, requests: &[Request], limit: Option<Duration>) -> Result<Vec<Status>> {
        Ok(match &self.kind {
            Kind::Single(queue) => queue.try_borrow_mut().map_err(|_| busy())?.wait_all(requests, limit)?,
            Kind::Shared(queue) => queue.wait_all(requests, limit)?,
        })
    }

    /// Waits for a message that a receive would get.
    ///
    /// # Errors
    /// The time limit.
    pub fn probe(&self, want: &Want, limit: Option<Duration>) -> Result<Envelope> {
        let found = match &self.kind {
            Kind::Single(queue) => queue.try_borrow_mut().map_err(|_| busy())?.wait_probe(want, limit),
            Kind::Shared(queue) => queue.wait_probe(want, limit),
        };
        match found {
            Err(MessageError::TimedOut) => Err(nothing_came()),
            found => Ok(found?),
        }
    }

    /// Receives a short message that comes soon; `waits`: else only one that is there.
    ///
    /// # Errors
    /// Another thread is in the queue.
    #[inline]
    pub fn receive_direct(&self, want: &Want, bytes: &mut [u8], waits: bool) -> Result<Option<Status>> {
        let direct = match &self.kind {
            Kind::Single(queue) => {
                let looks = if waits { DIRECT_LOOKS } else { 1 };
                queue.try_borrow_mut().map_err(|_| busy())?.receive_direct(want, bytes, looks)
            }
            // Others want the lock.
            Kind::Shared(queue) => queue.with(|queue| queue.receive_direct(want, bytes, 1)),
        };
        Ok(match direct {
            Direct::Received(envelope, error) => {
                Some(Status { envelope: Some(envelope), error, buffers: Buffers::default() })
            }
            Direct::Nothing | Direct::Post => None,
        })
    }

    /// Receives; what the message says of itself.
    ///
    /// # Errors
    /// The time limit, and then the memory is the caller's again; what went wrong in the receive.
    pub fn receive(&self, want: Want, buffers: Buffers, limit: Option<Duration>) -> Result<Status> {
        let request = self.with(|queue| Ok(queue.receive(want, buffers)))?;
        match self.wait(request, limit) {
            Err(failure) if failure.code == Code::TimedOut => {}
            ended => return ended,
        }
        // One that has its message is being filled, and ends by itself.
        let is_cancelled = self.with(|queue| queue.cancel(request))?;
        let status = self.wait(request, None)?;
        if is_cancelled { Err(nothing_came()) } else { Ok(status) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a message aside that a receive would get: its number.
    ///
    /// # Errors
    /// The time limit.
    pub fn claim(&self, want: &Want, limit: Option<Duration>) -> Result<(u64, Envelope)> {
        loop {
            self.probe(want, limit)?;
            // Another thread may have got it meanwhile.
            if let Some(claimed) = self.with(|queue| Ok(queue.claim(want)))? {
                let (envelope, mut kept) = (claimed.envelope(), self.kept());
                let number = kept.number();
                kept.claimed.insert(number, claimed);
                return Ok((number, envelope));
            }
        }
    }

    /// Receives a message that was set aside.
    ///
    /// # Errors
    /// No such message.
    pub fn receive_claimed(&self, number: u64, buffers: Buffers) -> Result<Request> {
        let claimed = self.kept().claimed.remove(&number).ok_or_else(|| {
            Code::NoSuchRequest.because("no message was set aside under this number: receive each once")
        })?;
        self.with(|queue| Ok(queue.receive_claimed(claimed, buffers)))
    }

    /// An operation that can be started again and again: its number.
    pub fn keep(&self, persistent: Persistent) -> u64 {
        let mut kept = self.kept();
        let number = kept.number();
        kept.persistent.insert(number, persistent);
        number
    }

    /// The operation of a number, for one call. Another call with it fails meanwhile.
    fn operation<R>(&self, number: u64, call: impl FnOnce(&mut Persistent) -> Result<R>) -> Result<R> {
        let mut persistent = self.kept().persistent.remove(&number).ok_or_else(|| {
            Code::NoSuchRequest
                .because("no operation has this number, or another thread is in a call with it")
        })?;
        let result = call(&mut persistent);
        self.kept().persistent.insert(number, persistent);
        result
    }

    /// Starts it.
    ///
    /// # Errors
    /// It is under way; as a send.
    pub fn start(&self, number: u64) -> Result<()> {
        self.operation(number, |persistent| {
            if persistent.request().is_some() {
                return Err(Code::Busy.because("the operation is under way: complete it first"));
            }
            self.with(|queue| queue.start(persistent))
        })
    }

    /// Gives up a receive that has no message yet; its end is returned by [`Self::complete`] in any case.
    ///
    /// # Errors
    /// It is not under way.
    pub fn stop(&self, number: u64) -> Result<()> {
        self.operation(number, |persistent| {
            let request = persistent.request().ok_or_else(not_started)?;
            self.with(|queue| queue.cancel(request)).map(drop)
        })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It is not under way; the time limit; what went wrong in the operation.
    pub fn complete(&self, number: u64, limit: Option<Duration>) -> Result<Option<Envelope>> {
        self.operation(number, |persistent| {
            if persistent.request().is_none() {
                return Err(not_started());
            }
            match &self.kind {
                Kind::Single(_) => self.with(|queue| queue.complete(persistent, limit)),
                Kind::Shared(queue) => Ok(queue.complete(persistent, limit)?),
            }
        })
    }

    /// A group of these peers, the queue itself among them, in rank order: its number.
    ///
    /// # Errors
    /// The list is wrong; the queue is shared by threads.
    pub fn make_group(&self, peers: &[PeerId], context: u32) -> Result<u64> {
        let Kind::Single(queue) = &self.kind else {
            // A call of a group waits, and would keep all other threads out meanwhile.
            let why = "collective operations need a queue of one thread: open another one without `threads`";
            return Err(Code::Invalid.because(why));
        };
        let mut queue = queue.try_borrow_mut().map_err(|_| busy())?;
        let name_of =
            |peer: &PeerId| queue.endpoint().name_of(*peer).ok_or(MessageError::NoSuchPeer { peer: *peer });
        let names: Vec<_> = peers.iter().map(name_of).collect::<std::result::Result<_, _>>()?;
        let group = Group::new(&mut queue, &names, context, CollectiveSettings::default())?;
        let mut kept = self.kept();
        let number = kept.number();
        kept.groups.insert(number, group);
        Ok(number)
    }

    /// A call of a group.
    ///
    /// # Errors
    /// No such group; those of the call.
    pub fn with_group(
        &self,
        number: u64,
        call: impl FnOnce(&mut Group, &mut Engine) -> std::result::Result<(), collectives::Error>,
    ) -> Result<Code> {
        let Kind::Single(queue) = &self.kind else { return Err(no_group()) };
        let mut queue = queue.try_borrow_mut().map_err(|_| busy())?;
        let mut kept = self.kept();
        let group = kept.groups.get_mut(&number).ok_or_else(no_group)?;
        call(group, &mut queue)?;
        Ok(Code::Ok)
    }

    /// Number of members of a group.
    ///
    /// # Errors
    /// No such group.
    pub fn group_members(&self, number: u64) -> Result<usize> {
        self.kept().groups.get(&number).map(Group::members).ok_or_else(no_group)
    }

    /// Forgets a group.
    ///
    /// # Errors
    /// No such group.
    pub fn forget_group(&self, number: u64) -> Result<()> {
        self.kept().groups.remove(&number).map(drop).ok_or_else(no_group)
    }

    /// Forgets it.
    ///
    /// # Errors
    /// It is under way.
    pub fn forget(&self, number: u64) -> Result<()> {
        let mut kept = self.kept();
        match kept.persistent.get(&number) {
            Some(persistent) if persistent.request().is_some() => {
                Err(Code::Busy.because("the operation is under way: complete it first"))
            }
            Some(_) => {
                kept.persistent.remove(&number);
                Ok(())
            }
            None => Err(Code::NoSuchRequest.because("no operation has this number")),
        }
    }
}

/// A tagged send.
#[must_use]
pub fn tagged(to: PeerId, tag: u64, mode: Mode) -> SendRequest {
    SendRequest { mode, ..SendRequest::tagged(to, tag) }
}

/// A persistent send.
#[must_use]
pub fn persistent_send(to: PeerId, tag: u64, buffers: Buffers) -> Persistent {
    Persistent::send(SendRequest::tagged(to, tag), buffers)
}

/// A persistent receive.
#[must_use]
pub fn persistent_receive(want: Want, buffers: Buffers) -> Persistent {
    Persistent::receive(Space::Tagged, want, buffers)
}
