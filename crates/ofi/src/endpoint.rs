//! An end point: the object through which this program and programs of other hosts reach each other's memory
//! and doorbells.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fabric_sys::Library;
use fabric_sys::constants::{FI_ORDER_RMA_WAW, FI_ORDER_WAW};
use shm::region::Region;
use shm::sync::{AtomicU32, Ordering};

use crate::card::{EndpointCard, MemoryCard};
use crate::engine::Engine;
use crate::error::{OfiError, Result};
use crate::message::{ANSWER_WORDS, Answer, Delivery};
use crate::peer::{Peer, PeerState};
use crate::port::{Port, SEND_SLOT_BYTES};
use crate::progress;
use crate::provider::{Offer, Wanted, choose};
use crate::rails::OwnerRails;
use crate::random::random_u64;
use crate::spin::Spin;

/// How an end point waits.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a wait looks for its end at most before the thread sleeps: less if that is without success,
    /// see `spin`.
    pub spin: Duration,
    /// How long an operation may take; then it ends with [`OfiError::TimedOut`], and the peer has failed. It
    /// begins anew while bytes travel to or from the peer, where the provider uses TCP.
    pub give_up_after: Duration,
    /// How long a rail may confirm nothing at least, while others do, before another one carries what it has;
    /// longer if it is slow.
    pub rail_silence: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            spin: Duration::from_micros(50),
            give_up_after: Duration::from_secs(10),
            rail_silence: Duration::from_millis(50),
        }
    }
}

/// An open end point. It is closed when it and all its peers, doorbells and exports have been dropped.
#[derive(Debug, Clone)]
pub struct Endpoint(Arc<Inside>);

/// What all that belongs to an end point shares.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) engine: Arc<Engine>,
    /// `FI_ORDER_…`: what can be relied on for operations as long as a slot.
    pub(crate) order: u64,
    peers: AtomicU32,
    thread: Option<JoinHandle<()>>,
    /// That has opened it.
    process: u32,
}

impl Inside {
    /// Not a forked child, which must neither wait for locks that other threads held at the fork nor close
    /// what is its parent's.
    pub(crate) fn is_own(&self) -> bool {
        std::process::id() == self.process
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if !self.is_own() {
            // In a forked child there is no such thread, and to close the connections would end those of the
            // parent.
            std::mem::forget((Arc::clone(&self.engine), self.thread.take()));
            return;
        }
        // Release: pairs with the Acquire in `progress::run`.
        self.engine.is_stopping.store(true, Ordering::Release);
        self.engine.events.kick();
        self.engine.events.end_nap();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Endpoint {
    /// Opens an end point, and starts the thread that looks after it.
    pub fn open(wanted: &Wanted, settings: Settings) -> Result<Self> {
        let (_, info) = choose(Library::load()?, wanted)?;
        let port = Port::open(info)?;
        let mut order = port.info().order();
        if order & FI_ORDER_RMA_WAW != 0 {
            order |= FI_ORDER_WAW;
        }
        if port.info().ordered_bytes() < SEND_SLOT_BYTES {
            order &= !(FI_ORDER_WAW | FI_ORDER_RMA_WAW);
        }
        if port.info().longest_bytes() < SEND_SLOT_BYTES {
            let (what, given) = ("provider for this link", port.provider().to_owned());
            return Err(OfiError::Unusable { what, given, instead: "one with messages of 64 KiB or more" });
        }
        let system = |call, reason: String| OfiError::System { call, reason };
        let engine = Arc::new(Engine::new(port, settings)?);
        let its_engine = Arc::clone(&engine);
        let thread = std::thread::Builder::new().name("tieline-ofi".to_owned());
        let thread = thread.spawn(move || progress::run(&its_engine));
        let thread = Some(thread.map_err(|error| system("the start of a thread", error.to_string()))?);
        Ok(Self(Arc::new(Inside {
            engine,
            order,
            peers: AtomicU32::new(1),
            thread,
            process: std::process::id(),
        })))
    }

    pub(crate) fn inside(&self) -> &Arc<Inside> {
        &self.0
    }

    pub(crate) fn of(inside: &Arc<Inside>) -> Self {
        Self(Arc::clone(inside))
    }

    /// Whether both are the same end point.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The provider's way that it uses.
    pub fn offer(&self) -> Offer {
        self.0.engine.port.info().offer()
    }

    /// What peers need to know of it.
    pub fn card(&self) -> Result<EndpointCard> {
        let port = &self.0.engine.port;
        Ok(EndpointCard { provider: port.provider().to_owned(), address: port.address()? })
    }

    /// Lets those peers reach a region that are given its card.
    pub fn export(&self, region: &Arc<Region>) -> Result<Exported> {
        let card = self.0.engine.port.export(region)?;
        let mut exported = self.0.engine.exported.write().unwrap_or_else(PoisonError::into_inner);
        exported.insert(card.token, Arc::clone(region));
        Ok(Exported { inside: Arc::clone(&self.0), card })
    }

    /// Adds a peer by its card. Both ends call this with the same random `session` ([`random_u64`]); messages
    /// of other sessions are dropped. The name is for messages. Nothing is sent yet.
    pub fn connect(&self, name: &str, card: &EndpointCard, session: u64) -> Result<Peer> {
        let engine = &self.0.engine;
        if card.provider != engine.port.provider() {
            // The peer's word, for a terminal.
            let theirs = card.provider.chars().filter(|&c| proto::wire::is_printable(c)).take(64).collect();
            return Err(OfiError::OtherProvider { theirs, ours: engine.port.provider().to_owned() });
        }
        let address = engine.port.insert(&card.address)?;
        // Relaxed: a number that nobody else has.
        let number = self.0.peers.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(PeerState::new(name, session, address, number).at(&card.address));
        let mut sessions = engine.sessions.write().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(session, Arc::clone(&state));
        drop(sessions);
        Ok(Peer { inside: Arc::clone(&self.0), state })
    }

    /// A new doorbell, which peers with a session can ring by its id.
    pub fn bell(&self) -> Result<Bell> {
        self.bell_with(None)
    }

    /// A doorbell that is asked: `answer` gets what peers ask with and says what they are told, on any thread
    /// that makes progress, as the action of [`Self::bell_calling`].
    pub fn bell_answering(
        &self,
        answer: impl Fn(&[u8]) -> [u64; ANSWER_WORDS] + Send + Sync + 'static,
    ) -> Result<Bell> {
        self.bell_with(Some(Action::Answer(Box::new(answer))))
    }

    /// The same, which also calls `action` each time: on any thread that makes progress, so it must neither
    /// wait nor use an end point.
    pub fn bell_calling(&self, action: impl Fn() + Send + Sync + 'static) -> Result<Bell> {
        self.bell_with(Some(Action::Call(Box::new(action))))
    }

    /// A doorbell that is rung by data alone: `take` gets it on any thread that makes progress, as the action
    /// of [`Self::bell_calling`].
    pub fn bell_taking(&self, take: impl Fn(&[u8]) -> Delivery + Send + Sync + 'static) -> Result<Bell> {
        self.bell_with(Some(Action::Take(Box::new(take))))
    }

    /// A doorbell of a connection over several rails, for messages that have numbers and for questions about
    /// rails.
    pub fn bell_numbered(&self, owner: &Arc<OwnerRails>) -> Result<Bell> {
        self.bell_with(Some(Action::Numbered(Arc::clone(owner))))
    }

    fn bell_with(&self, action: Option<Action>) -> Result<Bell> {
        let (id, state) = (random_u64()?, Arc::new(BellState { count: AtomicU32::new(0), action }));
        let mut bells = self.0.engine.bells.write().unwrap_or_else(PoisonError::into_inner);
        bells.insert(id, Arc::clone(&state));
        let spin = Spin::up_to(self.0.engine.settings.spin);
        Ok(Bell { inside: Arc::clone(&self.0), id, state, spin })
    }

    /// What came in and was dropped, and what was tried again, by name.
    pub fn counters(&self) -> [(&'static str, u64); 5] {
        let counters = &self.0.engine.counters;
        [
            ("garbage", &counters.garbage),
            ("strangers", &counters.strangers),
            ("again", &counters.again),
            ("unnamed-errors", &counters.unnamed_errors),
            ("replies-dropped", &counters.replies_dropped),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}

/// Memory that peers reach; withdrawn when dropped. What was under way then may still land in the region,
/// which stays mapped until the end point is closed.
#[derive(Debug)]
pub struct Exported {
    inside: Arc<Inside>,
    card: MemoryCard,
}

impl Exported {
    /// Whether this end point leads to it.
    pub fn is_of(&self, end_point: &Endpoint) -> bool {
        Arc::ptr_eq(&self.inside, &end_point.0)
    }

    /// The end point that leads to it.
    pub fn end_point(&self) -> Endpoint {
        Endpoint::of(&self.inside)
    }

    /// For the peers that may reach it.
    pub fn card(&self) -> &MemoryCard {
        &self.card
    }

    /// From now on messages that ask for an operation on it are refused, by a reply. What peers put and get
    /// themselves reaches it until this is dropped: a provider that finds no memory for such an operation may
    /// end the connection (`tcp` does), and with it all that is under way between the two end points.
    pub fn refuse_messages(&self) {
        if self.inside.is_own() {
            let engine = &self.inside.engine;
            engine.exported.write().unwrap_or_else(PoisonError::into_inner).remove(&self.card.token);
        }
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        if self.inside.is_own() {
            self.refuse_messages();
            self.inside.engine.port.withdraw(self.card.token);
        }
    }
}

pub(crate) struct BellState {
    pub(crate) count: AtomicU32,
    action: Option<Action>,
}

type Take = dyn Fn(&[u8]) -> Delivery + Send + Sync;
type Reply = dyn Fn(&[u8]) -> [u64; ANSWER_WORDS] + Send + Sync;

/// What happens when a message comes for a doorbell.
enum Action {
    Call(Box<dyn Fn() + Send + Sync>),
    Take(Box<Take>),
    Answer(Box<Reply>),
    Numbered(Arc<OwnerRails>),
}

impl BellState {
    /// A message has come, with its number if it has one.
    pub(crate) fn ring(&self, number: u64) {
        // Release: pairs with the Acquire of `Bell::count`.
        self.count.fetch_add(1, Ordering::Release);
        match &self.action {
            Some(Action::Call(action)) => action(),
            Some(Action::Numbered(owner)) => owner.ring(number),
            _ => {}
        }
    }

    /// Data has come, with its number if it has one; `None` if this doorbell takes none. `carry_out` does
    /// what the data asks for of memory.
    pub(crate) fn take(
        &self,
        number: u64,
        data: &[u8],
        carry_out: impl FnOnce(&[u8]) -> Answer,
    ) -> Option<Answer> {
        match &self.action {
            Some(Action::Take(take)) => Some(Answer::Took(take(data))),
            Some(Action::Answer(answer)) => Some(Answer::Said(answer(data))),
            Some(Action::Numbered(owner)) if number == 0 => Some(Answer::Said(owner.answer(data))),
            Some(Action::Numbered(owner)) if owner.leads_to_memory() => {
                Some(owner.order(number, || carry_out(data)))
            }
            Some(Action::Numbered(owner)) => owner.take(number, data).map(Answer::Took),
            _ => None,
        }
    }
}

impl std::fmt::Debug for BellState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BellState").field("count", &self.count).finish_non_exhaustive()
    }
}

/// A doorbell of this side.
#[derive(Debug)]
pub struct Bell {
    inside: Arc<Inside>,
    id: u64,
    state: Arc<BellState>,
    spin: Spin,
}

impl Bell {
    /// For the peers that may ring it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How often it was rung; wraps.
    #[inline]
    pub fn count(&self) -> u32 {
        // Acquire: pairs with the Release where a message rings it.
        self.state.count.load(Ordering::Acquire)
    }

    /// Waits until the count is another than `seen`; `None` if that takes longer than the settings' limit.
    #[inline]
    pub fn wait(&self, seen: u32) -> Option<u32> {
        self.inside
            .engine
            .wait_until(&self.spin, Duration::MAX, || self.count() != seen)
            .then(|| self.count())
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if self.inside.is_own() {
            self.inside.engine.bells.write().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        }
    }
}
