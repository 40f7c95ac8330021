//! The addresses of a group in the program, and the memory behind them.
//!
//! | copies | the view is |
//! |---|---|
//! | none | private memory of zeroes, in which stores vanish |
//! | one | that copy itself, at full speed |
//! | more, or stores are noted | the first copy, for reading only: stores fault, and [`super::trap`] carries them out on all copies |
//!
//! Each change of it replaces the mapping in one step, so a store lands before the change or after it.

use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::ffi::c_void;
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mprotect, mremap,
    mremap_fixed, munmap,
};
use shm::origin::Origin;
use shm::region::MapAccess;
use shm::window::Window;

use super::copies::{Copy, Place, Published};
use super::trap;
use crate::code::{Code, Failure, Result};
use crate::far::Journal;

/// The instructions that are carried out elsewhere reach so far.
const BYTES_MAX: usize = 1 << 30;

/// The present target of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    Nowhere,
    /// The copy that is mapped there.
    Alone(usize),
    First(usize),
}

impl Leads {
    fn first(self) -> Option<usize> {
        match self {
            Self::Nowhere => None,
            Self::Alone(first) | Self::First(first) => Some(first),
        }
    }
}

/// Addresses for one group, followed by an alias of the first copy that can always be written.
#[derive(Debug)]
pub(crate) struct View {
    start: usize,
    mapped_bytes: usize,
    origin: Origin,
    place: Option<Place>,
    leads: Mutex<Leads>,
    is_group: bool,
    /// Of a shadow only, and made with the first map of that kind: the same memory at addresses whose
    /// faults are the program's.
    read_only: OnceLock<usize>,
}

impl View {
    /// Addresses that lead nowhere yet: of a group, or of a shadow.
    pub(crate) fn new(size_bytes: usize, is_group: bool) -> Result<Self> {
        let page = rustix::param::page_size();
        let mapped_bytes = size_bytes
            .checked_next_multiple_of(page)
            .filter(|&bytes| bytes <= BYTES_MAX)
            .ok_or_else(|| {
                Code::NOSPC.because(format!(
                    "{size_bytes} bytes: groups and shadow maps have up to {BYTES_MAX}: use a smaller segment, or SCI_FLAG_COPY_ONLY_MAP"
                ))
            })?;
        let (bytes, none) = (reserved_bytes(mapped_bytes), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), none) };
        let start = start.map_err(|errno| refused("mmap of a group or shadow", errno))?.expose_provenance();
        let leads = Mutex::new(Leads::Nowhere);
        let (origin, read_only) = (Origin::here(), OnceLock::new());
        let mut view = Self { start, mapped_bytes, origin, place: None, leads, is_group, read_only };
        view.lead_nowhere(view.start)?;
        view.lead_nowhere(view.alias())?;
        view.place = Some(Place::publish(view.published(Vec::new(), None))?);
        Ok(view)
    }

    /// The first byte.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// A page that leads nowhere is between, so that what runs over the end of the view does not
    /// land at the beginning.
    fn alias(&self) -> usize {
        self.start + self.mapped_bytes + rustix::param::page_size()
    }

    /// Where the view's memory can be loaded from, and a store is a fault of the program's.
    pub(crate) fn read_only(&self) -> Result<usize> {
        // So that nothing is turned meanwhile.
        let led = self.leads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(start) = self.read_only.get() {
            return Ok(*start);
        }
        let first = led.first().ok_or(Code::SYSTEM)?;
        let none = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), self.mapped_bytes, ProtFlags::empty(), none) };
        let start = start.map_err(|errno| refused("mmap of a read-only map", errno))?.expose_provenance();
        self.lead_to(first, start, MprotectFlags::READ)
            .inspect_err(|_| self.unmap(start, self.mapped_bytes))?;
        Ok(*self.read_only.get_or_init(|| start))
    }

    /// Ends a mapping of this view alone.
    fn unmap(&self, start: usize, bytes: usize) {
        // SAFETY: the range was reserved for this view alone; maps that led into it are gone.
        let _ = unsafe { munmap(with_exposed_provenance_mut(start), bytes) };
    }

    fn published(&self, copies: Vec<Copy>, journal: Option<Arc<Journal>>) -> Published {
        let (alias, is_group) = (self.alias(), self.is_group);
        Published { start: self.start, bytes: self.mapped_bytes, alias, copies, journal, is_group }
    }

    /// From now on stores reach these copies, each of which has at least as many bytes as the view, and
    /// are noted in the journal, if there is one.
    pub(crate) fn follow(&self, mut copies: Vec<Copy>, journal: Option<Arc<Journal>>) -> Result<()> {
        // The target is the address of a published copy, so nothing else can be mapped there.
        let mut led = self.leads.lock().unwrap_or_else(PoisonError::into_inner);
        let held = led.first();
        // The first stays the first, so that what the program reads does not jump from one copy to
        // another.
        copies.sort_by_key(|copy| Some(copy.start) != held);
        let leads = match copies.as_slice() {
            [] => Leads::Nowhere,
            [only] if journal.is_none() => Leads::Alone(only.start),
            [first, ..] => Leads::First(first.start),
        };
        if matches!(leads, Leads::First(_)) {
            trap::install()?;
        }
        // First the copies: a store that faults from now on reaches all of them.
        let replaced = self.place.as_ref().map(|place| place.replace(self.published(copies, journal)));
        if leads != *led {
            self.lead(*led, leads)?;
        }
        // The copies so far stay mapped until no store to them can be in progress.
        drop(replaced);
        *led = leads;
        Ok(())
    }

    /// From now on the view and its alias lead to other memory, mapped at `first`, of at least as many
    /// bytes. Loads see the one or the other. The caller sees to it that nothing is stored meanwhile.
    pub(crate) fn turn_to(&self, first: usize) -> Result<()> {
        let mut led = self.leads.lock().unwrap_or_else(PoisonError::into_inner);
        let before = led.first().unwrap_or(first);
        let write = MprotectFlags::READ | MprotectFlags::WRITE;
        self.lead_to(first, self.alias(), write)?;
        let loads = |to| {
            self.lead_to(to, self.start, MprotectFlags::READ)?;
            self.read_only.get().map_or(Ok(()), |start| self.lead_to(to, *start, MprotectFlags::READ))
        };
        // Stores must not go elsewhere than loads come from.
        loads(first).inspect_err(|_| {
            drop((loads(before), self.lead_to(before, self.alias(), write)));
        })?;
        *led = Leads::First(first);
        Ok(())
    }

    /// The memory that the view shows, to be read and written.
    pub(crate) fn window(&self) -> Window<'_> {
        let alias = with_exposed_provenance_mut(self.alias());
        // SAFETY: the alias is mapped for both while `self` lives, and no Rust reference to its bytes
        // exists.
        unsafe { Window::from_raw(alias, self.mapped_bytes, MapAccess::ReadWrite) }
    }

    fn lead(&self, from: Leads, to: Leads) -> Result<()> {
        if to.first() != from.first() {
            match to.first() {
                None => self.lead_nowhere(self.alias())?,
                Some(first) => {
                    self.lead_to(first, self.alias(), MprotectFlags::READ | MprotectFlags::WRITE)?
                }
            }
        }
        match to {
            Leads::Nowhere => self.lead_nowhere(self.start),
            Leads::Alone(first) => {
                self.lead_to(first, self.start, MprotectFlags::READ | MprotectFlags::WRITE)
            }
            Leads::First(first) => self.lead_to(first, self.start, MprotectFlags::READ),
        }
    }

    /// Puts private memory there, which a forked child does not get.
    fn lead_nowhere(&self, at: usize) -> Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let at = with_exposed_provenance_mut::<c_void>(at);
        // SAFETY: the range is this view's or its alias's, of which no Rust reference exists;
        // nothing else is replaced.
        unsafe {
            mmap_anonymous(at, self.mapped_bytes, ProtFlags::READ | ProtFlags::WRITE, flags)
                .and_then(|at| madvise(at, self.mapped_bytes, Advice::LinuxDontFork))
        }
        .map_err(|errno| refused("mmap of a group without members", errno))
    }

    /// Maps the copy that is mapped at `copy` also at `at`.
    fn lead_to(&self, copy: usize, at: usize, protection: MprotectFlags) -> Result<()> {
        let (copy, at) =
            (with_exposed_provenance_mut::<c_void>(copy), with_exposed_provenance_mut::<c_void>(at));
        // An old size of 0 makes a second mapping of the same shared memory and leaves the first:
        // mremap(2). It gets its protection before it is moved into place, so that no store goes
        // through before that.
        // SAFETY: the kernel chooses the place of the new mapping, so nothing is replaced; the copy
        // is shared memory, mapped for at least that many bytes.
        let second = unsafe { mremap(copy, 0, self.mapped_bytes, MremapFlags::MAYMOVE) }
            .map_err(|errno| refused("mremap of a copy", errno))?;
        // SAFETY: the range is the mapping just made; then the one at `at`, this view's or its
        // alias's, of which no Rust reference exists, is replaced by it in one step.
        let moved = unsafe {
            mprotect(second, self.mapped_bytes, protection)
                .and_then(|()| madvise(second, self.mapped_bytes, Advice::LinuxDontFork))
                .and_then(|()| {
                    mremap_fixed(second, self.mapped_bytes, self.mapped_bytes, MremapFlags::MAYMOVE, at)
                })
        };
        moved.map(drop).map_err(|errno| {
            // SAFETY: created above, and not yet given to anything.
            let _ = unsafe { munmap(second, self.mapped_bytes) };
            refused("mapping a group's copy", errno)
        })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let place = self.place.take();
        if self.origin != Origin::here() {
            // A forked child does not have the mapping, and may have other memory there. Its handlers
            // do not find what its parent has published, whose locks a thread of the parent may hold.
            std::mem::forget(place);
            return;
        }
        // From now on no handler uses it; only after that may its addresses be reused.
        drop(place);
        self.unmap(self.start, reserved_bytes(self.mapped_bytes));
        if let Some(start) = self.read_only.get() {
            self.unmap(*start, self.mapped_bytes);
        }
    }
}

/// View, page, alias, page.
fn reserved_bytes(mapped_bytes: usize) -> usize {
    2 * (mapped_bytes + rustix::param::page_size())
}

fn refused(what: &str, errno: Errno) -> Failure {
    Code::SYSTEM.because(format!("{what}: {errno}"))
}
