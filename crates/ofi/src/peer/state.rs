//! What the engine knows of a peer: what is under way, whether something may begin, how it failed.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use shm::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::error::{OfiError, Result};
use crate::port::Address;
use crate::slots::Kind;

/// What the engine knows of a peer.
#[derive(Debug)]
pub(crate) struct PeerState {
    pub(crate) name: String,
    pub(crate) session: u64,
    pub(crate) address: Address,
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
    /// How many had ended when it was last asked, and since when it was that number, while others were under
    /// way.
    silent: Mutex<Option<(u32, Instant)>>,
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

    /// Since when nothing that nobody waits for has ended, as far as this was asked, while something is under
    /// way (`is_any`).
    pub(super) fn silent_since(&self, is_any: bool, now: Instant) -> Option<Instant> {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: one that is counted later is seen the next time.
        let ended = self.ended.load(Ordering::Relaxed);
        let since = silent.filter(|(count, _)| *count == ended).map_or(now, |(_, since)| since);
        *silent = is_any.then_some((ended, since));
        is_any.then_some(since)
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
