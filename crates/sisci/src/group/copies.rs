//! The copies that a store must reach, in a form that a signal handler can read.
//!
//! A handler can neither lock nor wait. So all that it reads is written once, published through one
//! pointer, and kept until no handler can still be reading it: read-copy-update, with two counters
//! of readers that take turns (as in sleepable RCU).
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use std::any::Any;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shm::sync::plain::{AtomicPtr, AtomicUsize, Ordering};

use crate::code::{Code, Result};
use crate::far::Journal;
use crate::own::Own;

/// The number of views that a process may have; each fault searches those in use.
const VIEWS_MAX: usize = 256;
/// How often, and how long each time, a change waits for handlers to leave before it postpones
/// freeing.
const LEAVE_RETRIES: (u32, Duration) = (20, Duration::from_micros(200));

/// A member's copy, mapped for writing.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// First byte; at least as many bytes as the view has are mapped from there, while `_kept`
    /// lives.
    pub(crate) start: usize,
    pub(crate) _kept: Arc<dyn Kept>,
}

/// Keeps a copy mapped.
pub(crate) trait Kept: Any + Send + Sync + std::fmt::Debug {}
impl<T: Any + Send + Sync + std::fmt::Debug> Kept for T {}

/// A view, as handlers see it.
#[derive(Debug)]
pub(crate) struct Published {
    /// The address to which the program stores.
    pub(crate) start: usize,
    /// How many bytes.
    pub(crate) bytes: usize,
    /// An address at which the same bytes of the first copy can be written, within reach of a
    /// displacement of 32 bits.
    pub(crate) alias: usize,
    /// All that must be reached; the first is what the view shows.
    pub(crate) copies: Vec<Copy>,
    /// Where stores are noted, too, for copies that have no memory here.
    pub(crate) journal: Option<Arc<Journal>>,
    /// Whether it is that of a group.
    pub(crate) is_group: bool,
}

impl Published {
    /// Offset of an address, if `width` bytes from there lie in the view.
    pub(crate) fn offset_of(&self, address: usize, width: usize) -> Option<usize> {
        let offset = address.checked_sub(self.start)?;
        (offset < self.bytes && width <= self.bytes - offset).then_some(offset)
    }

    /// Stores bytes into all copies. The range was checked with [`Self::offset_of`].
    pub(crate) fn store(&self, offset: usize, bytes: &[u8]) {
        self.store_and_note(&self.copies, offset, bytes);
    }

    /// Stores bytes into all copies but the first, which has them.
    pub(crate) fn store_to_others(&self, offset: usize, bytes: &[u8]) {
        let others = self.copies.get(1..).unwrap_or_default();
        let turn = self.journal.as_ref().map(|journal| journal.turn());
        self.store_to(others, offset, bytes);
        if let Some(turn) = turn {
            turn.note(offset, bytes);
        }
    }

    /// Two stores to one place are noted in the order in which they are made. What is noted is stored
    /// through the alias: the copy may be replaced meanwhile.
    fn store_and_note(&self, copies: &[Copy], offset: usize, bytes: &[u8]) {
        let Some(journal) = &self.journal else { return self.store_to(copies, offset, bytes) };
        let turn = journal.turn();
        debug_assert!(offset + bytes.len() <= self.bytes);
        // SAFETY: the alias has as many bytes as the view, and is mapped for writing while this is
        // published; no Rust reference to its bytes exists; the range lies in the view.
        unsafe { put(std::ptr::with_exposed_provenance_mut(self.alias + offset), bytes) };
        self.store_to(copies.get(1..).unwrap_or_default(), offset, bytes);
        turn.note(offset, bytes);
    }

    fn store_to(&self, copies: &[Copy], offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= self.bytes);
        for copy in copies {
            // SAFETY: a copy has at least as many bytes as the view, stays mapped while it is
            // published (and this is), and no Rust reference to its bytes exists; the range lies in
            // the view.
            unsafe { put(std::ptr::with_exposed_provenance_mut(copy.start + offset), bytes) };
        }
    }
}

/// Writes bytes as a processor would: what has a register's width in one piece, everything else in aligned
/// words.
///
/// # Safety
/// The range is mapped for writing, and no Rust reference to its bytes exists.
unsafe fn put(mut to: *mut u8, mut bytes: &[u8]) {
    if let [_] | [_, _] | [_, _, _, _] | [_, _, _, _, _, _, _, _] = bytes {
        // SAFETY: as promised by the caller.
        return unsafe { put_word(to, bytes, bytes.len()) };
    }
    while !bytes.is_empty() {
        if to.addr().is_multiple_of(8) && bytes.len() >= 8 {
            let (words, rest) = bytes.as_chunks::<8>();
            for word in words {
                // SAFETY: there are 8 bytes of the range for each, on a boundary of 8.
                unsafe {
                    to.cast::<u64>().write_volatile(u64::from_ne_bytes(*word));
                    to = to.add(8);
                }
            }
            bytes = rest;
            continue;
        }
        // The widest word that is aligned there and not longer than what is left.
        let aligned = 1 << to.addr().trailing_zeros().min(3);
        let fits = 1 << bytes.len().ilog2().min(3);
        let width = if aligned < fits { aligned } else { fits };
        // SAFETY: `width` is at most what is left of the range.
        unsafe {
            put_word(to, bytes, width);
            to = to.add(width);
        }
        bytes = bytes.get(width..).unwrap_or_default();
    }
}

/// # Safety
/// As for `put`; `bytes` has at least `width` of them.
unsafe fn put_word(to: *mut u8, bytes: &[u8], width: usize) {
    #[derive(Clone, Copy)]
    #[repr(C, packed)]
    struct Unaligned<T: core::marker::Copy>(T);
    macro_rules! word {
        ($integer:ty) => {
            // SAFETY: as promised by the caller; the type takes any alignment and any bytes.
            unsafe {
                to.cast::<Unaligned<$integer>>()
                    .write_volatile(bytes.as_ptr().cast::<Unaligned<$integer>>().read())
            }
        };
    }
    match width {
        8 => word!(u64),
        4 => word!(u32),
        2 => word!(u16),
        _ => word!(u8),
    }
}

/// All that this process has published.
#[derive(Debug)]
struct Views {
    /// Null: a place that is free.
    places: [AtomicPtr<Published>; VIEWS_MAX],
    /// Places that were ever used.
    used: AtomicUsize,
    /// Its lowest bit says which counter new readers use.
    epoch: AtomicUsize,
    readers: [AtomicUsize; 2],
    /// Objects that were replaced while handlers were reading: freed with a later change.
    // In boxes: readers use them at their addresses.
    #[allow(clippy::vec_box)]
    retired: Mutex<Vec<Box<Published>>>,
}

/// A forked child has other memory at its parent's addresses, or none.
static VIEWS: Own<Views> = Own::new();

impl Views {
    fn new() -> Self {
        Self {
            places: [const { AtomicPtr::new(null_mut()) }; VIEWS_MAX],
            used: AtomicUsize::new(0),
            epoch: AtomicUsize::new(0),
            readers: [const { AtomicUsize::new(0) }; 2],
            retired: Mutex::default(),
        }
    }

    /// Waits until every thread that was reading when this was called has ended; false if that takes
    /// too long.
    fn have_left(&self) -> bool {
        // Twice: a reader may have chosen its counter just before a turn, and be counted there only
        // after it.
        (0..2).all(|_| {
            let old = self.epoch.fetch_add(1, Ordering::SeqCst) & 1;
            (0..LEAVE_RETRIES.0).any(|attempt| {
                if attempt > 0 {
                    std::thread::sleep(LEAVE_RETRIES.1);
                }
                self.readers.get(old).is_none_or(|readers| readers.load(Ordering::SeqCst) == 0)
            })
        })
    }
}

/// While it lives, nothing is freed that was published when it was made. To be used in handlers:
/// two additions.
#[derive(Debug)]
pub(crate) struct Reading {
    views: Option<&'static Views>,
    counter: usize,
}

impl Reading {
    pub(crate) fn begin() -> Self {
        let views = VIEWS.get();
        let counter = views.map_or(0, |views| views.epoch.load(Ordering::SeqCst) & 1);
        // SeqCst, as everything about epochs: a reader that is not counted yet will load the
        // pointer after its change.
        if let Some(readers) = views.and_then(|views| views.readers.get(counter)) {
            readers.fetch_add(1, Ordering::SeqCst);
        }
        Self { views, counter }
    }

    /// The view in which an address lies.
    pub(crate) fn find(&self, address: usize) -> Option<&Published> {
        let views = self.views?;
        let used = views.used.load(Ordering::SeqCst);
        views.places.iter().take(used).find_map(|place| {
            // SAFETY: a published pointer was made by `Box::into_raw` and is freed only after every
            // reader that might have loaded it has ended; the borrow ends with `self`.
            let view = unsafe { place.load(Ordering::SeqCst).as_ref() }?;
            view.offset_of(address, 1).map(|_| view)
        })
    }

    /// Continues in another handler of the same thread: see [`Self::take_up`].
    pub(crate) fn put_aside(self) -> usize {
        let counter = self.counter;
        std::mem::forget(self);
        counter
    }

    /// Takes up the postponed reading, once.
    pub(crate) fn take_up(counter: usize) -> Self {
        Self { views: VIEWS.get(), counter }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(readers) = self.views.and_then(|views| views.readers.get(self.counter)) {
            readers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// One of the places for a view.
#[derive(Debug)]
pub(crate) struct Place {
    views: &'static Views,
    index: usize,
}

impl Place {
    /// Takes a free one and publishes there.
    pub(crate) fn publish(view: Published) -> Result<Self> {
        let views = VIEWS.get_or_make(Views::new);
        let new = Box::into_raw(Box::new(view));
        for (index, place) in views.places.iter().enumerate() {
            if place.compare_exchange(null_mut(), new, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                views.used.fetch_max(index + 1, Ordering::SeqCst);
                return Ok(Self { views, index });
            }
        }
        // SAFETY: made above, and published nowhere.
        drop(unsafe { Box::from_raw(new) });
        let detail = format!(
            "this process maps {VIEWS_MAX} groups and segments of other hosts already: disconnect from one"
        );
        Err(Code::API_NOSPC.because(detail))
    }

    /// Publishes a view in place of the present one.
    pub(crate) fn replace(&self, view: Published) -> Replaced {
        self.swap(Box::into_raw(Box::new(view)))
    }

    fn swap(&self, new: *mut Published) -> Replaced {
        let old = self.views.places.get(self.index).map(|place| place.swap(new, Ordering::SeqCst));
        let old = old.filter(|old| !old.is_null());
        // SAFETY: a published pointer was made by `Box::into_raw`, and only one of the threads that
        // swap gets it. Readers may still use it as a shared reference: `Replaced` frees it when
        // they have ended.
        Replaced { views: self.views, old: old.map(|old| unsafe { Box::from_raw(old) }) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.swap(null_mut()));
    }
}

/// The object that was published before. When dropped, it is freed as soon as no handler can use
/// it.
#[derive(Debug)]
#[must_use = "what was replaced must outlive the mapping that it described"]
pub(crate) struct Replaced {
    views: &'static Views,
    old: Option<Box<Published>>,
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let mut retired = self.views.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.extend(self.old.take());
        // Under the lock, so that no other thread changes the epoch in the meantime.
        let freed = if self.views.have_left() { std::mem::take(&mut *retired) } else { Vec::new() };
        drop(retired);
        drop(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_found_is_not_freed_before_it_ends() {
        let kept = Arc::new(7_u8);
        let copy = Copy { start: 0, _kept: Arc::<u8>::clone(&kept) };
        let view =
            |copies| Published { start: 1 << 60, bytes: 64, alias: 0, copies, journal: None, is_group: true };
        let place = Place::publish(view(vec![copy])).unwrap();
        let reading = Reading::begin();
        assert_eq!(reading.find((1 << 60) + 63).unwrap().copies.len(), 1);
        assert!(reading.find((1 << 60) + 64).is_none());
        drop(place.replace(view(Vec::new())));
        assert_eq!(Arc::strong_count(&kept), 2, "somebody may look at it");
        assert_eq!(reading.find(1 << 60).unwrap().copies.len(), 0);
        drop(reading);
        // Other tests read too, so that it may be put off more than once.
        while Arc::strong_count(&kept) > 1 {
            drop(place.replace(view(Vec::new())));
        }
    }

    #[test]
    fn bytes_are_put_whole_whatever_their_length_and_place() {
        let source: Vec<u8> = (1..=100).collect();
        for start in 0..16 {
            for len in 0..70 {
                let mut memory = [0_u8; 100];
                // SAFETY: the range lies in the array, which is borrowed for writing only here.
                unsafe { put(memory.as_mut_ptr().add(start), &source[..len]) };
                assert_eq!(&memory[start..start + len], &source[..len]);
                assert!(memory[..start].iter().chain(&memory[start + len..]).all(|&byte| byte == 0));
            }
        }
    }
}
