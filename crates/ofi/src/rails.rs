//! Several peers that lead to one owner, each over a network interface of its own: one link.
//!
//! A block longer than a chunk goes over all of them at once, each chunk over the rail that will have carried
//! it first. All else goes over one rail, the first one until it fails, as soon as all rails have confirmed
//! their chunks. So what programs rely on of one [`Peer`] holds: blocks of one thread arrive in their order,
//! a doorbell rings and an atomic operation is carried out after them, a barrier waits for all. With one rail
//! each call is that of the peer.
//!
//! A rail that fails is closed at the owner, what was not confirmed is sent again over the others, and it is
//! opened again ([`Rails::recovering`]). Its failure is the link's if it is the only one. If a short put was
//! under way on it, which must not be done a second time, the link is suspended until the program resumes it
//! ([`suspension`]). Atomic operations have numbers, by which the owner carries each out once ([`orders`]).
//! Interrupts have no memory: all that they send has numbers, and is sent again ([`outbox`], [`inbox`]).
//! docs/adr/0015 has the reasons.

mod choice;
mod core;
mod fence;
mod inbox;
mod keeper;
mod lead;
mod numbered;
mod numbers;
mod orders;
mod outbox;
mod owner;
mod pace;
mod place;
mod probe;
mod question;
mod queue;
mod reads;
mod recovery;
mod reopening;
mod shorts;
mod suspension;
mod travel;
mod waiting;
mod watch;

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use shm::process::SignalsBlocked;
use shm::window::Window;

use self::core::{Core, Earlier, Target};
use self::lead::Lead;
use crate::card::MemoryCard;
use crate::error::{OfiError, Result};
use crate::peer::Peer;
use crate::port::SEND_SLOT_BYTES;
pub use fence::{Fence, Word};
pub use inbox::Inbox;
pub use keeper::Recover;
pub use outbox::Outbox;
pub use owner::{Opened, OwnerRails, Task};
use recovery::Chunk;

/// No link has more rails.
pub const RAILS_MAX: usize = 4;

/// See the module. May be used by any threads at once.
#[derive(Debug)]
pub struct Rails(Arc<Core>);

/// A rail that is not used at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reduced {
    /// The owner's number of it, from 0 on.
    pub rail: usize,
    /// For how long.
    pub since: Duration,
    /// Why it failed.
    pub why: &'static str,
}

impl From<Arc<Peer>> for Rails {
    fn from(only: Arc<Peer>) -> Self {
        Self::of(vec![Arc::clone(&only)], only, None)
    }
}

impl Rails {
    /// All lead to the same owner. Those after [`RAILS_MAX`] are left out; `None`: there is none. The first
    /// failure of any rail is that of the link.
    pub fn new(lanes: Vec<Arc<Peer>>) -> Option<Self> {
        let first = Arc::clone(lanes.first()?);
        Some(Self::of(lanes, first, None))
    }

    /// The same, which goes on without rails that fail, and uses them again when they are back; those that
    /// have failed already are tried as well. It leads to one piece of memory or one interrupt alone: a new
    /// end point has another key.
    pub fn recovering(lanes: Vec<Arc<Peer>>, recover: Recover) -> Option<Self> {
        let first = Arc::clone(lanes.first()?);
        let is_possible = lanes.len() > 1;
        let has_none = lanes.iter().all(|lane| lane.state.is_failed());
        let why = first.failure().filter(|_| has_none);
        let rails = Self::of(lanes, first, is_possible.then_some(recover));
        if let Some(error) = why.filter(|_| is_possible) {
            // None was ever there: it would be waited for in vain.
            rails.0.end(error);
        } else if is_possible {
            let (core, bell) = (Arc::downgrade(&rails.0), Arc::clone(&rails.0.keeper));
            let _quiet = SignalsBlocked::here();
            let thread = Builder::new().name("tieline-rails".to_owned());
            if let Err(error) = thread.spawn(move || keeper::run(&core, &bell)) {
                rails.0.end(OfiError::System { call: "the start of a thread", reason: error.to_string() });
            }
        }
        Some(rails)
    }

    fn of(mut lanes: Vec<Arc<Peer>>, first: Arc<Peer>, recover: Option<Recover>) -> Self {
        lanes.truncate(RAILS_MAX);
        Self(Arc::new(Core::new(lanes, first, recover)))
    }

    /// How many they are, used or not.
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Those that are not used at present.
    pub fn reduced(&self) -> Vec<Reduced> {
        self.0.reduced()
    }

    /// Does what is no long block over the rail for that, when what was put before has arrived over all of
    /// them.
    #[inline]
    pub(crate) fn over_lead<T>(&self, act: impl FnMut(&Lead<'_>) -> Result<T>) -> Result<T> {
        let _no_chunks = self.0.others_are_done()?;
        self.0.over_lead(act)
    }

    /// The failure that ended it, if one has.
    pub fn failure(&self) -> Option<OfiError> {
        self.0.failure()
    }

    /// As of a peer.
    pub fn lost(&self, reason: &str) {
        if self.0.recover.is_some() {
            let peer = self.0.first.name().to_owned();
            self.0.end(OfiError::Gone { peer, reason: reason.to_owned() });
        }
        self.0.peers().iter().for_each(|lane| lane.lost(reason));
    }

    fn is_long(&self, len: usize) -> bool {
        len > SEND_SLOT_BYTES && self.count() > 1
    }

    /// As of a peer; a card for each rail.
    #[inline]
    pub fn put(&self, cards: &[MemoryCard], offset: usize, from: &[u8]) -> Result<()> {
        if self.is_long(from.len()) {
            return self.spread(cards, offset, from.len(), |memory, at, len| {
                Ok(memory.put(0, &from[at..at + len])?)
            });
        }
        self.over_lead(|lead| lead.peer().put(lead.card(cards), offset, from))
    }

    /// As of a peer; a card for each rail.
    #[inline]
    pub fn put_from(&self, cards: &[MemoryCard], offset: usize, source: &Window<'_>) -> Result<()> {
        if self.is_long(source.len()) {
            return self.spread(cards, offset, source.len(), |memory, at, len| {
                Ok(source.copy_to(at, memory, 0, len)?)
            });
        }
        self.over_lead(|lead| lead.peer().put_from(lead.card(cards), offset, source))
    }

    /// As of a peer; a card for each rail.
    pub fn try_put_from(&self, cards: &[MemoryCard], offset: usize, source: &Window<'_>) -> Result<bool> {
        self.over_lead(|lead| lead.peer().try_put_from(lead.card(cards), offset, source))
    }

    /// As of a peer. Chunks of long blocks are waited for.
    pub fn has_arrived(&self) -> Result<bool> {
        self.over_lead(|lead| lead.peer().has_arrived())
    }

    /// Begins to write a block over all rails. `fill` gets a slot, and which part of the block goes there.
    fn spread(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        len: usize,
        fill: impl Fn(&Window<'_>, usize, usize) -> Result<()>,
    ) -> Result<()> {
        let peers = self.0.peers();
        let _at_work: Vec<_> = peers.iter().map(|peer| peer.inside.engine.at_work()).collect();
        let block = self.0.begin_block();
        let mut earlier = Earlier::of(self.0.lead_peer());
        let cards: Arc<[MemoryCard]> = cards.into();
        let (mut at, mut nth) = (0, 0_u32);
        let whole = len;
        while at < whole {
            let len = self.0.chunk_bytes().min(whole - at);
            let chunk = Chunk { block, nth };
            let target = Target { cards: Arc::clone(&cards), offset: offset + at, len };
            let fill = |memory: &Window<'_>, len| fill(memory, at, len);
            let mut try_chunk = || self.0.try_chunk(chunk, &target, &mut earlier, &fill);
            if !try_chunk()? {
                self.0.wait_for_any(try_chunk)?;
            }
            (at, nth) = (at + len, nth + 1);
        }
        Ok(())
    }

    /// As of a peer.
    pub fn get(&self, cards: &[MemoryCard], offset: usize, into: &mut [u8]) -> Result<()> {
        if !self.is_long(into.len()) {
            return self.over_lead(|lead| lead.peer().get(lead.card(cards), offset, into));
        }
        self.over_lead(|lead| lead.peer().barrier())?;
        let len = into.len();
        self.0.gather(cards, offset, len, |memory, piece| {
            Ok(memory.get(0, &mut into[piece.at..piece.at + piece.len])?)
        })
    }

    /// As of a peer.
    pub fn get_to(&self, cards: &[MemoryCard], offset: usize, target: &Window<'_>) -> Result<()> {
        if !self.is_long(target.len()) {
            return self.over_lead(|lead| lead.peer().get_to(lead.card(cards), offset, target));
        }
        self.over_lead(|lead| lead.peer().barrier())?;
        self.0.gather(cards, offset, target.len(), |memory, piece| {
            Ok(memory.copy_to(0, target, piece.at, piece.len)?)
        })
    }

    /// As of a peer.
    #[inline]
    pub fn barrier(&self) -> Result<()> {
        self.over_lead(|lead| lead.peer().barrier())?;
        if self.count() == 1 { Ok(()) } else { self.0.check() }
    }

    /// As of a peer, on all rails.
    pub fn reach(&self, cards: &[MemoryCard]) -> Result<()> {
        self.0.peers().iter().zip(cards).try_for_each(|(lane, card)| lane.reach(card))
    }
}

impl Drop for Rails {
    fn drop(&mut self) {
        // In a forked child there is no such thread, and another one may have held its lock at the fork.
        if self.0.recover.is_some() && self.0.first.inside.is_own() {
            self.0.keeper.end();
        }
    }
}
