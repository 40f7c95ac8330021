//! A map of a segment of another host that programs load from and store to.
//!
//! The memory is a copy here, the shadow. It is mapped for reading: a store faults, the handler of
//! groups ([`crate::group::trap`]) carries it out on the shadow and notes it in a journal, and from
//! there it is sent, in the order in which it was made: at the program's next flush, or by a thread
//! of the library ([`super::propagator`]). Loads read the shadow, which is as new as its last
//! refresh. A refresh prepares another copy and replaces the mapping in one step.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use shm::process::SignalsBlocked;
use shm::region::{Region, RegionOptions};
use shm::window::Window;
use tieline::Stores;

use super::{FarSegment, Journal, propagator};
use crate::code::{Code, Failure, Result};
use crate::group::copies::Copy;
use crate::group::{trap, view::View};
use crate::worker::Worker;

/// As much is sent at once.
const BATCH_BYTES: usize = 1 << 16;
/// So often a turn is asked for before what is pending is sent again.
const TURN_ATTEMPTS: u32 = 100;
/// So often a segment is read until it is twice the same.
const READ_ATTEMPTS: u32 = 8;

/// The shadow of one segment, with all maps of it.
#[derive(Debug)]
pub(crate) struct Shadow {
    // Before the memory: no handler uses it after that.
    view: View,
    journal: Arc<Journal>,
    sending: Mutex<Sending>,
    reading: Mutex<Reading>,
    worker: Worker,
}

/// What the thread that sends holds.
#[derive(Debug)]
struct Sending {
    /// What is being sent: empty between two sendings.
    stores: Stores,
    /// The number of messages and blocks that were sent.
    count: u64,
    /// The first failure that no caller was told of.
    failure: Option<Failure>,
    /// What the view shows.
    shown: Arc<Region>,
}

/// What the thread that makes the shadow new holds. It may wait for who sends, not the other way
/// round.
#[derive(Debug)]
struct Reading {
    /// Memory for what the view will show after the next refresh.
    next: Option<Arc<Region>>,
    /// What the last two readings of the segment have found.
    read: [Vec<u8>; 2],
}

impl Shadow {
    /// The shadow of a segment, as the segment is now.
    pub(crate) fn new(far: &Arc<FarSegment>) -> Result<Self> {
        let size_bytes = far.segment().size_bytes();
        let shown = region(size_bytes)?;
        let mut read = zeroes(size_bytes)?;
        far.read(&mut read)?;
        shown.window().put(0, &read)?;
        let journal = Arc::new(Journal::new(size_bytes)?);
        let view = View::new(size_bytes, false)?;
        let copy = Copy { start: start_of(&shown), _kept: Arc::<Region>::clone(&shown) };
        view.follow(vec![copy], Some(Arc::clone(&journal)))?;
        let sending = Mutex::new(Sending { stores: Stores::new(), count: 0, failure: None, shown });
        let reading = Mutex::new(Reading { next: None, read: [read, zeroes(size_bytes)?] });
        Ok(Self { view, journal, sending, reading, worker: Worker::default() })
    }

    /// Starts the thread that sends what the program does not flush, and makes the shadow new.
    pub(super) fn start(&self, far: Weak<FarSegment>) -> Result<()> {
        let journal = Arc::clone(&self.journal);
        self.worker.start("sisci-shadow", move || propagator::serve(&journal, &far))
    }

    /// The address of its first byte.
    pub(crate) fn address(&self) -> usize {
        self.view.start()
    }

    /// That of the same memory for maps that are read only.
    pub(super) fn read_only_address(&self) -> Result<usize> {
        self.view.read_only()
    }

    /// The offset of an address in it.
    pub(super) fn offset_of(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.address())?;
        (offset < self.view.window().len()).then_some(offset)
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends all that was stored, in its order. What cannot be sent is dropped, and the next flush is
    /// told: the program repeats it, or connects again.
    pub(super) fn send(&self, far: &FarSegment) {
        // A handler of the program on this thread could wait for room that only this thread makes.
        let _quiet = SignalsBlocked::here();
        self.sending().send(&self.journal, far);
    }

    /// The same for a flush, which is told what has failed so far.
    pub(super) fn flush(&self, far: &FarSegment) -> Result<()> {
        let _quiet = SignalsBlocked::here();
        let mut sending = self.sending();
        sending.send(&self.journal, far);
        sending.failure.take().map_or(Ok(()), Err)
    }

    /// Sends what was stored before, and then a block, which the shadow gets as well.
    pub(super) fn put_from(&self, far: &FarSegment, offset: usize, source: Window<'_>) -> Result<()> {
        let _quiet = SignalsBlocked::here();
        let mut sending = self.sending();
        loop {
            sending.send(&self.journal, far);
            let shadowed = self.alone(|| source.copy_to(0, &self.view.window(), offset, source.len()));
            if let Some(shadowed) = shadowed {
                shadowed?;
                sending.count += 1;
                return far.put_now(offset, source);
            }
        }
    }

    /// Makes the shadow what the segment is now, but for what is stored meanwhile. Whether that has
    /// changed it.
    ///
    /// The segment is read until it is the same twice: then it was so at one moment, and no load
    /// finds a word that was stored there later than one that it does not find. A segment that is
    /// never the same twice is taken as it was read last.
    pub(super) fn refresh(&self, far: &FarSegment) -> Result<bool> {
        let _quiet = SignalsBlocked::here();
        let mut reading = self.reading();
        loop {
            let mut sending = self.sending();
            sending.send(&self.journal, far);
            // What was sent must be in what is read.
            far.wait_for_arrival()?;
            if !reading.read_segment(far, &sending.shown)? {
                return Ok(false);
            }
            if let Some(has_changed) = self.try_show(&mut sending, &mut reading)? {
                return Ok(has_changed);
            }
        }
    }

    /// The same, if it delays nobody: nothing if something was sent meanwhile.
    pub(super) fn refresh_if_quiet(&self, far: &FarSegment) -> Result<bool> {
        let _quiet = SignalsBlocked::here();
        let mut reading = self.reading();
        let mut sending = self.sending();
        sending.send(&self.journal, far);
        let (sent, shown) = (sending.count, Arc::clone(&sending.shown));
        drop(sending);
        far.wait_for_arrival()?;
        if !reading.read_segment(far, &shown)? {
            return Ok(false);
        }
        let mut sending = self.sending();
        if sending.count != sent {
            return Ok(false);
        }
        Ok(self.try_show(&mut sending, &mut reading)?.unwrap_or(false))
    }

    /// Shows what was read last. Nothing was sent since, so all that is newer is pending. None if
    /// somebody stores all the time.
    fn try_show(&self, sending: &mut Sending, reading: &mut Reading) -> Result<Option<bool>> {
        let next = reading.next.take().map_or_else(|| region(sending.shown.size_bytes()), Ok)?;
        next.window().put(0, &reading.read[0])?;
        let shown = self.alone(|| self.show(&next));
        reading.next = Some(match &shown {
            Some(Ok(())) => std::mem::replace(&mut sending.shown, next),
            _ => next,
        });
        Ok(shown.transpose()?.map(|()| true))
    }

    fn show(&self, next: &Region) -> Result<()> {
        let (memory, mut stored) = (next.window(), Ok(()));
        self.journal.each_pending(|offset, bytes| {
            if stored.is_ok() {
                stored = memory.put(offset, bytes);
            }
        });
        stored?;
        self.view.turn_to(start_of(next))
    }

    /// Calls `change` while nothing is stored to the shadow. None if it does not come to that: who
    /// stores may be waiting for room, which the caller makes.
    fn alone<R>(&self, mut change: impl FnMut() -> R) -> Option<R> {
        (0..TURN_ATTEMPTS).find_map(|attempt| {
            if attempt > 0 {
                rustix::thread::sched_yield();
            }
            trap::without_displaced(|| self.journal.try_turn().map(|_turn| change())).flatten()
        })
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // What is stored from now on is dropped.
        self.journal.close();
        self.worker.stop(|| self.journal.close());
    }
}

impl Sending {
    fn send(&mut self, journal: &Journal, far: &FarSegment) {
        while let Some(read) = journal.next(&mut self.stores, BATCH_BYTES) {
            // What a link does not take while it is down is lost, as stores on one host are, and the
            // next flush is told; what is stored when it is up again is not.
            if let Err(failure) = far.store_all(&self.stores) {
                self.failure.get_or_insert(failure);
            }
            self.count += 1;
            self.stores.clear();
            journal.forget(read);
        }
    }
}

impl Reading {
    /// Reads the segment into `read[0]`. Whether that differs from what the view shows.
    fn read_segment(&mut self, far: &FarSegment, shown: &Region) -> Result<bool> {
        let [last, before] = &mut self.read;
        far.read(last)?;
        if is_in(shown, last)? {
            return Ok(false);
        }
        for _ in 0..READ_ATTEMPTS {
            std::mem::swap(last, before);
            far.read(last)?;
            if last == before {
                break;
            }
        }
        Ok(true)
    }
}

fn region(size_bytes: usize) -> Result<Arc<Region>> {
    let region = Region::create(&RegionOptions::new("tieline-shadow", size_bytes))?;
    // A forked child has no use for it.
    region.dont_fork()?;
    Ok(Arc::new(region))
}

/// As large as the owner wants it: too little memory is an error, and no end of the program.
fn zeroes(bytes: usize) -> Result<Vec<u8>> {
    let mut zeroes = Vec::new();
    zeroes.try_reserve_exact(bytes).map_err(|_| {
        Code::NOSPC.because(format!(
            "no memory for the shadow of a segment of {bytes} bytes, which needs four times as much: use a copy-only map"
        ))
    })?;
    zeroes.resize(bytes, 0);
    Ok(zeroes)
}

fn start_of(region: &Region) -> usize {
    region.as_ptr().expose_provenance()
}

/// Whether a region holds these bytes.
fn is_in(region: &Region, bytes: &[u8]) -> Result<bool> {
    let mut held = [0; 4096];
    for (index, bytes) in bytes.chunks(held.len()).enumerate() {
        let held = held.get_mut(..bytes.len()).ok_or(Code::SYSTEM)?;
        region.window().get(index * 4096, held)?;
        if held != bytes {
            return Ok(false);
        }
    }
    Ok(true)
}
