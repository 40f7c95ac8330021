//! Handles that a C program holds in place of pointers: numbers that are looked up, never followed.
//!
//! A handle has its kind, its place in a table, and the number of the object in that place. So
//! every call detects a handle that is NULL, of another kind, removed, or made up, with one lookup.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use shm::sync::plain::{AtomicU32, Ordering};

use crate::code::{Code, Result};

/// Numbers the objects of all places of all tables, so that a handle from before SCITerminate is
/// not valid again either. Wraps around after 2^32 handles.
static TENANTS: AtomicU32 = AtomicU32::new(1);

/// Kinds of things that have handles. None is 0, so that no handle is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `sci_desc_t`.
    Descriptor = 1,
    /// `sci_local_segment_t`.
    LocalSegment,
    /// `sci_remote_segment_t`.
    RemoteSegment,
    /// `sci_map_t`.
    Map,
    /// `sci_sequence_t`.
    Sequence,
    /// `sci_dma_queue_t`.
    DmaQueue,
    /// `sci_local_interrupt_t`.
    LocalInterrupt,
    /// `sci_remote_interrupt_t`.
    RemoteInterrupt,
    /// `sci_local_data_interrupt_t`.
    LocalDataInterrupt,
    /// `sci_remote_data_interrupt_t`.
    RemoteDataInterrupt,
    /// `sci_block_transfer_t`.
    BlockTransfer,
    /// `sci_dma_channel_t`.
    DmaChannel,
}

/// An object that has handles.
pub trait Handled: Send + Sync + 'static {
    /// The kind of the handle.
    const KIND: Kind;
}

/// A handle as it crosses the border: as wide as a pointer.
#[repr(transparent)]
#[derive(Debug)]
pub struct Handle<T> {
    bits: usize,
    _of: PhantomData<fn() -> T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

/// The number of ended handles that are remembered.
const ENDED_MAX: usize = 1024;
/// Places in a table: 2^24.
const INDEX_BITS: u32 = 24;
/// Bits of the number of an object.
const TENANT_BITS: u32 = 32;

impl<T> Handle<T> {
    /// NULL.
    pub const NULL: Self = Self { bits: 0, _of: PhantomData };

    /// Whether it is NULL.
    pub fn is_null(self) -> bool {
        self.bits == 0
    }

    /// Handles of one kind taken for another: the queries of SISCI do that.
    pub fn cast<U>(self) -> Handle<U> {
        Handle { bits: self.bits, _of: PhantomData }
    }
}

impl<T: Handled> Handle<T> {
    fn new(index: usize, tenant: u32) -> Self {
        let bits = (T::KIND as usize) << (INDEX_BITS + TENANT_BITS) | (tenant as usize) << INDEX_BITS | index;
        Self { bits, _of: PhantomData }
    }

    /// Place and tenant, if the handle is of this kind.
    fn parts(self) -> Option<(usize, u32)> {
        let tenant = u32::try_from((self.bits >> INDEX_BITS) & ((1 << TENANT_BITS) - 1)).ok()?;
        let is_mine = self.bits >> (INDEX_BITS + TENANT_BITS) == T::KIND as usize;
        is_mine.then_some((self.bits & ((1 << INDEX_BITS) - 1), tenant))
    }
}

#[derive(Debug)]
struct Place<T> {
    tenant: u32,
    thing: Option<Arc<T>>,
}

#[derive(Debug)]
struct Places<T> {
    all: Vec<Place<T>>,
    free: Vec<usize>,
}

/// All things of one kind in this process.
#[derive(Debug)]
pub struct Table<T> {
    places: RwLock<Places<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { places: RwLock::new(Places { all: Vec::new(), free: Vec::new() }) }
    }
}

impl<T: Handled> Table<T> {
    fn read(&self) -> RwLockReadGuard<'_, Places<T>> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Places<T>> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a handle and its object; the object may store the handle.
    pub fn insert_with(&self, make: impl FnOnce(Handle<T>) -> Arc<T>) -> Result<Handle<T>> {
        let mut places = self.write();
        let index = match places.free.pop() {
            Some(index) => index,
            None if places.all.len() < 1 << INDEX_BITS => {
                places.all.push(Place { tenant: 0, thing: None });
                places.all.len() - 1
            }
            None => return Err(Code::API_NOSPC.because("this process holds 2^24 handles of this kind")),
        };
        let Some(place) = places.all.get_mut(index) else { return Err(Code::API_NOSPC.into()) };
        place.tenant = TENANTS.fetch_add(1, Ordering::Relaxed);
        let handle = Handle::new(index, place.tenant);
        place.thing = Some(make(handle));
        Ok(handle)
    }

    /// Makes a handle for an object.
    pub fn insert(&self, thing: Arc<T>) -> Result<Handle<T>> {
        self.insert_with(|_| thing)
    }

    /// Returns the object of a handle.
    pub fn get(&self, handle: Handle<T>) -> Result<Arc<T>> {
        self.with(handle, Arc::clone)
    }

    /// Uses the object under the lock: only for short operations.
    pub fn with<R>(&self, handle: Handle<T>, look: impl FnOnce(&Arc<T>) -> R) -> Result<R> {
        let places = self.read();
        let place = handle.parts().and_then(|(index, tenant)| {
            places.all.get(index).filter(|place| place.tenant == tenant)?.thing.as_ref()
        });
        place.map(look).ok_or_else(|| not_valid(handle))
    }

    /// Ends the handle. If two threads do so, one of them gets the object.
    pub fn remove(&self, handle: Handle<T>) -> Result<Arc<T>> {
        let mut places = self.write();
        let found = handle.parts().and_then(|(index, tenant)| {
            let place = places.all.get_mut(index).filter(|place| place.tenant == tenant)?;
            Some((index, place.thing.take()?))
        });
        let (index, thing) = found.ok_or_else(|| not_valid(handle))?;
        places.free.push(index);
        Ok(thing)
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().all.iter().filter_map(|place| place.thing.clone()).collect()
    }

    /// Ends all handles, and returns their objects.
    pub fn drain(&self) -> Vec<Arc<T>> {
        let mut places = self.write();
        let mut things = Vec::new();
        for index in 0..places.all.len() {
            let Some(place) = places.all.get_mut(index) else { continue };
            if let Some(thing) = place.thing.take() {
                things.push(thing);
                places.free.push(index);
            }
        }
        things
    }
}

/// A few facts about the last objects whose handles have ended, for programs that query them
/// afterwards.
#[derive(Debug, Default)]
pub struct Ended<W>(Mutex<VecDeque<(usize, W)>>);

impl<W: Copy> Ended<W> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(usize, W)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a fact.
    pub fn note<T>(&self, handle: Handle<T>, what: W) {
        let mut ended = self.lock();
        if ended.len() == ENDED_MAX {
            ended.pop_front();
        }
        ended.push_back((handle.bits, what));
    }

    /// Returns the fact, if it is stored.
    pub fn find<T>(&self, handle: Handle<T>) -> Option<W> {
        self.lock().iter().rev().find(|(bits, _)| *bits == handle.bits).map(|(_, what)| *what)
    }
}

#[cold]
fn not_valid<T: Handled>(handle: Handle<T>) -> crate::code::Failure {
    let what = if handle.is_null() { "NULL".to_owned() } else { format!("{:#x}", handle.bits) };
    Code::ILLEGAL_PARAMETER.because(format!("{what} is not a valid handle of a {:?}", T::KIND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing(u32);
    impl Handled for Thing {
        const KIND: Kind = Kind::Map;
    }

    #[derive(Debug)]
    struct Other;
    impl Handled for Other {
        const KIND: Kind = Kind::Sequence;
    }

    fn is_refused<T: std::fmt::Debug>(result: Result<T>) {
        assert_eq!(result.unwrap_err().code, Code::ILLEGAL_PARAMETER);
    }

    #[test]
    fn a_handle_is_good_from_insertion_to_removal_and_never_again() {
        let table = Table::default();
        let first = table.insert(Arc::new(Thing(1))).unwrap();
        let second = table.insert(Arc::new(Thing(2))).unwrap();
        assert!(!first.is_null());
        assert_eq!((table.get(first).unwrap().0, table.get(second).unwrap().0), (1, 2));
        assert_eq!(*table.remove(first).unwrap(), Thing(1));
        is_refused(table.get(first));
        is_refused(table.remove(first));
        let third = table.insert(Arc::new(Thing(3))).unwrap();
        assert!(third != first, "the place is the same, the tenant is not");
        is_refused(table.get(first));
        assert_eq!(table.all().len(), 2);
        assert_eq!(table.drain().len(), 2);
        is_refused(table.get(second));
        is_refused(table.get(third));
    }

    #[test]
    fn the_last_ended_handles_are_known() {
        let table = Table::default();
        let ended = Ended::default();
        let handles: Vec<_> =
            (0..=1024).map(|number| table.insert(Arc::new(Thing(number))).unwrap()).collect();
        for (number, handle) in handles.iter().enumerate() {
            assert_eq!(ended.find(*handle), None);
            ended.note(*handle, number);
            assert_eq!(ended.find(*handle), Some(number));
        }
        assert_eq!((ended.find(handles[0]), ended.find(handles[1])), (None, Some(1)));
    }

    #[test]
    fn null_foreign_and_invented_handles_are_refused() {
        let table = Table::<Thing>::default();
        let other = Table::<Other>::default();
        let foreign = other.insert(Arc::new(Other)).unwrap();
        let mine = table.insert(Arc::new(Thing(1))).unwrap();
        is_refused(table.get(Handle::NULL));
        is_refused(table.get(foreign.cast()));
        is_refused(other.get(mine.cast()));
        for bits in [1, usize::MAX, mine.bits + 1, mine.bits ^ (1 << 40), 0xdead_beef] {
            is_refused(table.get(Handle { bits, _of: PhantomData }));
        }
    }
}
