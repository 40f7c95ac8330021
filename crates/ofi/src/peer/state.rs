//! What the engine knows of a peer: what is under way, whether something may begin, how it failed.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use shm::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::error::{OfiError, Result};
use crate::lasting::Lasting;
use crate::port::{Address, Carried, carried};
use crate::slots::Kind;

/// What the engine knows of a peer.
#[derive(Debug)]
pub(crate) struct PeerState {
    pub(crate) name: String,
    pub(crate) session: u64,
    pub(crate) address: Address,
    /// The same as its card has it; empty: not known.
    place: Vec<u8>,
    /// Of the end point's peers; never used again.
    pub(crate) number: u32,
    /// Operations that nobody waits for and that have not ended.
    pub(crate) outstanding: AtomicU32,
    /// Slots that its operations have.
    pub(crate) held: AtomicU32,
    /// Bytes of chunks that are under way ([`crate::Rails`]).
    pub(crate) chunk_bytes: AtomicU64,
    /// Chunks that were under way and are no more.
    pub(crate) chunks_ended: AtomicU64,
    /// Of operations that nobody waits for, those that have ended: it wraps.
    ended: AtomicU32,
    /// How many had ended when it was last asked, since when it was that number while others were under way,
    /// and how long that may last.
    silent: Mutex<Option<(u32, Instant, Lasting)>>,
    /// A doorbell was rung since the last [`super::Peer::confirm_rings`].
    pub(super) has_rung: AtomicBool,
    /// Nothing may be begun for now.
    is_held: AtomicBool,
    /// Something failed that must not be done a second time: nobody knows whether it was done.
    has_lost: AtomicBool,
    pub(crate) failure: OnceLock<OfiError>,
}

impl PeerState {
    pub(crate) fn new(name: &str, session: u64, address: Address, number: u32) -> Self {
        Self {
            name: name.to_owned(),
            session,
            address,
            place: Vec::new(),
            number,
            outstanding: AtomicU32::new(0),
            held: AtomicU32::new(0),
            chunk_bytes: AtomicU64::new(0),
            chunks_ended: AtomicU64::new(0),
            ended: AtomicU32::new(0),
            silent: Mutex::default(),
            has_rung: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    pub(crate) fn fail(&self, error: &OfiError) {
        // The first one stays: what follows it is mostly its consequence.
        let _ = self.failure.set(error.clone());
    }

    /// The same, and answers what the peer has failed by.
    pub(crate) fn failed_by(&self, error: OfiError) -> OfiError {
        self.failure.get_or_init(|| error).clone()
    }

    /// One of the operations that nobody waits for has ended.
    pub(crate) fn one_ended(&self) {
        // Relaxed: it tells that the peer confirms, and nothing else.
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.outstanding.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many of the operations that nobody waits for have ended: it wraps.
    pub(crate) fn ended(&self) -> u32 {
        // Relaxed: as in `one_ended`.
        self.ended.load(Ordering::Relaxed)
    }

    /// With the provider's address of the peer.
    pub(crate) fn at(mut self, place: &[u8]) -> Self {
        self.place = place.to_vec();
        self
    }

    /// What its connections have carried, where that is known: some 10 µs, more in programs with many
    /// descriptors.
    #[cold]
    pub(crate) fn carried(&self) -> Option<Carried> {
        if self.place.is_empty() { None } else { carried(&self.place) }
    }

    /// Whether something is under way (`is_any`), and nothing that nobody waits for has ended for too long,
    /// as far as this was asked.
    pub(super) fn is_silent_for(&self, limit: Duration, is_any: bool, now: Instant) -> bool {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: one that is counted later is seen the next time.
        let ended = self.ended.load(Ordering::Relaxed);
        match &mut *silent {
            Some((count, since, lasting)) if is_any && *count == ended => {
                let carried = || Some(self.carried()?.bytes);
                lasting.rest(now.duration_since(*since), carried).is_none()
            }
            other => {
                *other = is_any.then(|| (ended, now, Lasting::new(limit)));
                false
            }
        }
    }

    /// An operation of this kind will not be known to have ended well.
    pub(crate) fn lose(&self, kind: Kind) {
        if kind.is_done_once() {
            self.has_lost.store(true, Ordering::SeqCst);
        }
    }

    /// Whether nobody knows of something that must not be done a second time whether it was done.
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::SeqCst)
    }

    /// From now on nothing is begun, or is again. Who has a slot by then is seen among what is under way; who
    /// has none yet finds this.
    pub(crate) fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn is_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }
}
