//! What threads do so that two queues meet: each step may wait for managers and for the other host.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use link::LinkError;
use message_queue::Name;
use message_queue::meet::Arrival;
use node_client::ClientError;
use ofi::random_u64;
use proto::ids::{NodeId, SegmentId, SegmentKey};
use proto::wire::program::Refusal;
use rustix::io::Errno;
use shm::sync::Ordering;

use super::forms::{HEADER_AT, HEADER_BYTES, Header, Hello, RING_AT, WELCOME_AT, Welcome, welcome};
use super::pair::{Its, Own, Pair, RESUME, is_in_doubt};
use super::ring::Ring;
use super::table::{Asked, Hosts, Owing, Pauses, Step, World};
use super::workers::Worker;
use super::{Directory, mailbox};
use crate::error::{Error, Result};
use crate::options::SegmentOptions;
use crate::remote::{Place, RemoteSegment};

/// A request is repeated after this time, and after ever longer ones: it may have been lost with a thread of
/// the peer, which the peer does not know of.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A peer whose port has no room for a request is asked again after that, and after ever longer times.
const NO_ROOM: Duration = Duration::from_millis(10);
const NO_ROOM_MAX: Duration = Duration::from_millis(320);
/// After a failure that may pass.
const AGAIN: Duration = Duration::from_millis(200);
/// Failures after which a request is left unanswered. Its queue repeats it.
const FAILURES_MAX: u32 = 20;

/// A step.
#[derive(Debug)]
pub(super) enum Job<W: World = Hosts> {
    /// Makes memory for a peer, and leaves a request.
    Ask(Name),
    /// Leaves the request once more.
    Repeat { name: Name, own: W::Own, pauses: Pauses },
    /// Connects to the memory that the peer has named, if it has.
    Complete { name: Name, answer: Welcome, own: W::Own },
    /// Connects to the memory of a peer that has asked, and answers.
    Answer(Owing<W>),
    /// Tells a peer that has asked that it will not be met.
    TurnAway(Hello),
    /// Lets nobody else connect to the memory that was made for a peer.
    Seal { name: Name, pair: Weak<W::Pair>, node: NodeId },
}

/// Why a peer's memory was not connected.
#[derive(Debug)]
enum NotMet {
    /// It is not what a queue makes.
    Wrong,
    /// It is gone.
    Gone,
    /// This may pass.
    Later,
}

impl<W: World> Job<W> {
    /// The peer.
    pub(super) fn name(&self) -> Name {
        match self {
            Self::Ask(name)
            | Self::Repeat { name, .. }
            | Self::Complete { name, .. }
            | Self::Seal { name, .. } => *name,
            Self::Answer(owing) => owing.hello.from,
            Self::TurnAway(hello) => hello.from,
        }
    }
}

fn not_met(error: &Error) -> NotMet {
    match error {
        Error::Lost { .. } => NotMet::Gone,
        Error::Client(ClientError::Refused(refusal)) => match refusal {
            Refusal::NotFound { .. } | Refusal::NotAvailable { .. } => NotMet::Gone,
            Refusal::Denied { .. } => NotMet::Wrong,
            _ => NotMet::Later,
        },
        _ => NotMet::Later,
    }
}

/// Whether an error of the own side will stay.
fn is_scarce(error: &Error) -> bool {
    let is_refused = matches!(error, Error::Client(ClientError::Refused(Refusal::Limit { .. })));
    is_refused || matches!(error, Error::Memory(_) | Error::Limit { .. })
}

impl Directory {
    /// What a thread does.
    pub(super) fn carry_out(self: Arc<Self>, job: Job, worker: Worker) {
        match job {
            Job::Ask(name) => self.ask(name),
            Job::Repeat { name, own, pauses } => self.request(name, own, pauses),
            Job::Complete { name, answer: Welcome::At(segment), own } => self.complete(name, segment, own),
            Job::Complete { name, answer: Welcome::Never, .. } => self.step(&name, Step::Gone),
            Job::Answer(owing) => self.answer(owing),
            Job::TurnAway(hello) => self.turn_away(&hello),
            Job::Seal { pair, node, .. } => {
                if let Some(pair) = pair.upgrade() {
                    pair.seal(node);
                }
            }
        }
        let mut state = self.state();
        state.workers.end(worker);
        // What has come of it, or what has waited for a thread.
        self.tell(&state);
    }

    fn step(&self, name: &Name, step: Step) {
        self.state().table.set_after_work(name, step, &self.name, Instant::now());
    }

    fn ask(&self, name: Name) {
        match self.make(&name) {
            Ok(own) => self.request(name, own, Pauses { left: FIRST_PAUSE, no_room: NO_ROOM }),
            Err(error) => {
                let mut state = self.state();
                state.table.put_off(&name, &self.name, Instant::now(), AGAIN);
                if is_scarce(&error) {
                    state.arrivals.push(Arrival::Failed { name, errno: Errno::NOMEM });
                } else {
                    state.not_yet(name);
                }
            }
        }
    }

    /// Memory for a peer, which it may connect to.
    fn make(&self, peer: &Name) -> Result<Own> {
        let ring = self.ring;
        let segment = self.node.create_segment_with(&SegmentOptions::new(RING_AT + ring.bytes()))?;
        let key = random_u64().map_err(|error| Error::System {
            what: "the draw of a random number",
            source: std::io::Error::other(error.to_string()),
        })?;
        let header = Header { owner: self.name, peer: *peer, ring_bytes: ring.bytes() as u64, key };
        segment.window().put(HEADER_AT, &header.bytes())?;
        segment.make_available()?;
        Ok(Own { segment, ring, key })
    }

    /// Leaves a request at a peer, for which that memory was made.
    fn request(&self, name: Name, own: Own, pauses: Pauses) {
        let contact = self.state().table.get(&name).and_then(|peer| peer.contact.clone());
        let (Some(contact), Some(segment)) = (contact, own.segment.id()) else {
            return self.step(&name, Step::Gone);
        };
        let hello = Hello { from: self.name, to: name, node: self.node.id(), segment, key: own.key };
        // Not 0, and another one than those of other queues.
        let left = mailbox::leave(&contact, &hello, own.key | 1);
        let now = Instant::now();
        let asked =
            |own, wait, pauses| Step::Asked(Asked { own, again_at: now + wait, pauses, not_before: now });
        let Pauses { left: pause, no_room } = pauses;
        let step = match left {
            Ok(true) => asked(own, pause, Pauses { left: (2 * pause).min(LONGEST_PAUSE), no_room: NO_ROOM }),
            Ok(false) => asked(own, no_room, Pauses { no_room: (2 * no_room).min(NO_ROOM_MAX), ..pauses }),
            Err(Error::Link(LinkError::Down { .. })) => asked(own, AGAIN, pauses),
            Err(error) if is_in_doubt(&error) => {
                drop(contact.resume(RESUME));
                asked(own, AGAIN, pauses)
            }
            // What it was to answer with goes with it.
            Err(_) => Step::Gone,
        };
        self.step(&name, step);
    }

    /// Connects to memory that a peer has made for this queue.
    fn connect(
        &self,
        (peer, node): (&Name, NodeId),
        segment: SegmentId,
        key: Option<u64>,
    ) -> std::result::Result<Its, NotMet> {
        let segment = SegmentKey::Segment(segment);
        // It is there before it is named: nothing is waited for.
        let place = RemoteSegment::find(&self.node, node, segment, Duration::ZERO);
        let Place::OnOtherHost(addresses) = place.map_err(|error| not_met(&error))? else {
            return Err(NotMet::Wrong);
        };
        let remote = RemoteSegment::connect_to(&self.node, node, segment, &addresses, Duration::ZERO);
        let remote = remote.map_err(|error| not_met(&error))?;
        let mut bytes = [0; HEADER_BYTES];
        remote.get(HEADER_AT, &mut bytes).map_err(|error| not_met(&error))?;
        let header = Header::of_bytes(&bytes).ok_or(NotMet::Wrong)?;
        let ring = Ring::of_peer(header.ring_bytes, self.ring).ok_or(NotMet::Wrong)?;
        let is_meant = header.owner == *peer && header.peer == self.name;
        let is_same = key.is_none_or(|key| key == header.key);
        // What was named is gone, and its number is that of memory for others by now.
        if !is_meant || !is_same {
            return Err(NotMet::Gone);
        }
        if remote.size_bytes() < RING_AT + ring.bytes() {
            return Err(NotMet::Wrong);
        }
        Ok(Its { remote, ring, key: header.key })
    }

    /// A peer has answered.
    fn complete(&self, name: Name, segment: SegmentId, own: Own) {
        let Some(node) = self.state().table.get(&name).map(|peer| peer.node) else { return };
        match self.connect((&name, node), segment, None) {
            Ok(its) => _ = self.meet(name, own, its),
            Err(NotMet::Later) => {
                let now = Instant::now();
                let pauses = Pauses { left: LONGEST_PAUSE, no_room: NO_ROOM };
                let again_at = now + LONGEST_PAUSE;
                self.step(&name, Step::Asked(Asked { own, again_at, pauses, not_before: now + AGAIN }));
            }
            Err(NotMet::Gone) => self.step(&name, Step::Gone),
            Err(NotMet::Wrong) => {
                self.step(&name, Step::Gone);
                self.state().arrivals.push(Arrival::Nonsense { name });
            }
        }
    }

    /// A peer has asked.
    fn answer(&self, Owing { hello, own, failures, .. }: Owing) {
        let name = hello.from;
        // In this order: memory is made for those alone who have made some.
        let its = self.connect((&name, hello.node), hello.segment, Some(hello.key));
        match its {
            Ok(its) => {
                let Ok(own) = own.map_or_else(|| self.make(&name), Ok) else {
                    return self.answer_later(hello, None, failures);
                };
                let id = own.segment.id();
                // In this order: whoever is answered can rely on this queue to find what it sends.
                if let (Some(pair), Some(id)) = (self.meet(name, own, its), id) {
                    pair.answer(id);
                }
            }
            Err(NotMet::Later) => self.answer_later(hello, own, failures),
            Err(NotMet::Gone | NotMet::Wrong) => self.refuse(&name, own),
        }
    }

    /// A peer has asked that this queue has lost. If it cannot be told, it asks again.
    fn turn_away(&self, hello: &Hello) {
        if let Ok(its) = self.connect((&hello.from, hello.node), hello.segment, Some(hello.key)) {
            let put = its.remote.put(WELCOME_AT, &welcome(Welcome::Never, its.key));
            drop(put.and_then(|()| its.remote.barrier()));
        }
        self.step(&hello.from, Step::Gone);
    }

    /// A request leads to nothing.
    fn refuse(&self, name: &Name, own: Option<Own>) {
        let mut state = self.state();
        let is_asked = state.table.get(name).is_some_and(|peer| peer.is_asked);
        match own {
            Some(own) if is_asked => {
                // This queue's own request is still there: its answer may come.
                let (now, pauses) = (Instant::now(), Pauses { left: FIRST_PAUSE, no_room: NO_ROOM });
                let asked = Asked { own, again_at: now, pauses, not_before: now };
                state.table.set(name, Step::Asked(asked));
            }
            own => {
                state.table.give_up(name);
                state.not_yet(*name);
                self.tell(&state);
                drop(state);
                drop(own);
            }
        }
    }

    fn answer_later(&self, hello: Hello, own: Option<Own>, failures: u32) {
        if failures >= FAILURES_MAX {
            let mut state = self.state();
            state.not_yet(hello.from);
            return state.table.give_up(&hello.from);
        }
        let (at, failures) = (Instant::now() + AGAIN, failures + 1);
        self.step(&hello.from, Step::Owing(Owing { hello, own, at, failures }));
    }

    /// Both are connected to each other's memory, or will be.
    fn meet(&self, name: Name, own: Own, its: Its) -> Option<Arc<Pair>> {
        let Ok((pair, outlet, inlet)) = Pair::new(own, its, &self.pusher) else {
            let mut state = self.state();
            state.table.set(&name, Step::Gone);
            state.arrivals.push(Arrival::Failed { name, errno: Errno::NOMEM });
            return None;
        };
        let mut state = self.state();
        if self.is_over.load(Ordering::Relaxed) {
            drop(state);
            return None;
        }
        let contact = state.table.met(&name, Arc::downgrade(&pair));
        state.arrivals.push(Arrival::Outlet { name, process: None, outlet });
        state.arrivals.push(Arrival::Inlet { name, process: None, inlet });
        self.tell(&state);
        drop(state);
        drop(contact);
        Some(pair)
    }
}
