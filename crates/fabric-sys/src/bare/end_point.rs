//! An end point of libfabric, opened by its calls, and the thread that makes progress while the program does
//! not.

use std::ffi::CString;
use std::ptr::{null, null_mut};
// tidy: allow(atomics): this crate lies below `shm`, and the reference shares no code with it
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::BareError;
use crate::Library;
use crate::abi::{
    fi_av_attr, fi_context2, fi_cq_attr, fi_cq_data_entry, fid, fid_av, fid_cq, fid_ep, fid_fabric, fid_mr,
};
use crate::calls::{
    fi_av_insert, fi_av_open, fi_bind, fi_control, fi_cq_open, fi_cq_read, fi_domain, fi_endpoint,
    fi_getname, fi_mr_reg, fi_trywait,
};
use crate::constants::{
    API_VERSION, FI_CONTEXT, FI_CONTEXT2, FI_CQ_FORMAT_DATA, FI_EAGAIN, FI_ENABLE, FI_EP_RDM, FI_GETWAIT,
    FI_NUMERICHOST, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RMA, FI_SEND, FI_SOURCE, FI_TAGGED,
    FI_THREAD_SAFE, FI_WAIT_FD,
};
use libc::c_int;

/// Operations that may be under way: receives, sends, writes.
pub(super) const RECEIVES: usize = 8;
pub(super) const SENDS: usize = 8;
pub(super) const WRITES: usize = 16;
const CONTEXTS: usize = RECEIVES + SENDS + WRITES;
/// How long the thread looks for the next completion before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// The provider may forget to make its descriptor readable.
const LONGEST_POLL_MS: c_int = 50;
/// Completions that are read at once.
const BATCH: usize = 16;

/// What has ended so far.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) receives: AtomicU64,
    pub(super) sends: AtomicU64,
    pub(super) writes: AtomicU64,
}

/// A bit for each of the [`WRITES`] contexts that a write has.
pub(super) type Busy = AtomicU64;

/// Objects of libfabric. Nothing is closed before the process ends.
pub(super) struct Objects {
    fabric: *mut fid_fabric,
    av: *mut fid_av,
    cq: *mut fid_cq,
    mr: *mut fid_mr,
    pub(super) ep: *mut fid_ep,
    wait_fd: c_int,
    contexts: *mut fi_context2,
    pub(super) ended: Ended,
    pub(super) busy: Busy,
    /// Makes the thread's sleep on `wait_fd` end.
    kick_fd: c_int,
    /// Nothing takes this long: the peer is gone.
    pub(super) give_up_after: Duration,
    /// The program's own thread reads completions.
    is_taken: AtomicBool,
    rest: Mutex<()>,
    given_back: Condvar,
}

// SAFETY: the domain was opened as FI_THREAD_SAFE: all its objects may be used by any threads. Contexts are
// libfabric's.
unsafe impl Send for Objects {}
// SAFETY: as above.
unsafe impl Sync for Objects {}

pub(super) struct EndPoint {
    pub(super) objects: Arc<Objects>,
    /// What the peer writes to; never given back.
    pub(super) memory: *mut u8,
    pub(super) memory_bytes: usize,
}

fn check(call: &str, failed: c_int) -> Result<(), String> {
    match (failed, Library::load()) {
        (0, _) => Ok(()),
        (_, Ok(library)) => Err(format!("{call}: {}", library.explain(failed))),
        (_, Err(error)) => Err(error.to_string()),
    }
}

/// Memory that is never given back.
pub(super) fn kept(bytes: usize) -> *mut u8 {
    Box::leak(vec![0_u64; bytes.div_ceil(8)].into_boxed_slice()).as_mut_ptr().cast()
}

impl EndPoint {
    pub(super) fn open(
        provider: &str,
        source: Option<&str>,
        memory_bytes: usize,
        key: u64,
        give_up_after: Duration,
    ) -> Result<Self, BareError> {
        let library = Library::load()?;
        let (provider, source) = (CString::new(provider)?, source.map(CString::new).transpose()?);
        let memory = kept(memory_bytes);
        // SAFETY: calls in libfabric's order, with live objects, local places, and memory that is never given
        // back.
        let objects = unsafe {
            let hints = (library.fi_dupinfo)(null());
            if hints.is_null() {
                return Err("fi_dupinfo: no memory".into());
            }
            (*hints).caps = FI_TAGGED | FI_RMA;
            (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
            (*(*hints).ep_attr).r#type = FI_EP_RDM;
            (*(*hints).domain_attr).threading = FI_THREAD_SAFE;
            (*(*hints).fabric_attr).prov_name = libc::strdup(provider.as_ptr());
            let mut info = null_mut();
            let (node, flags) =
                source.as_ref().map_or((null(), 0), |source| (source.as_ptr(), FI_SOURCE | FI_NUMERICHOST));
            let failed = (library.fi_getinfo)(API_VERSION, node, null(), flags, hints, &raw mut info);
            check("fi_getinfo", failed)?;
            let (mut fabric, mut domain, mut av) = (null_mut(), null_mut(), null_mut());
            check("fi_fabric", (library.fi_fabric)((*info).fabric_attr, &raw mut fabric, null_mut()))?;
            check("fi_domain", fi_domain(fabric, info, &raw mut domain, null_mut()))?;
            let mut attributes = fi_av_attr::zeroed();
            check("fi_av_open", fi_av_open(domain, &raw mut attributes, &raw mut av, null_mut()))?;
            let (mut cq, mut ep, mut mr, mut wait_fd) = (null_mut(), null_mut(), null_mut(), -1);
            let mut attributes = fi_cq_attr::zeroed();
            (attributes.size, attributes.format, attributes.wait_obj) =
                (4 * CONTEXTS, FI_CQ_FORMAT_DATA, FI_WAIT_FD);
            check("fi_cq_open", fi_cq_open(domain, &raw mut attributes, &raw mut cq, null_mut()))?;
            check("fi_control", fi_control(cq.cast(), FI_GETWAIT, (&raw mut wait_fd).cast()))?;
            check("fi_endpoint", fi_endpoint(domain, info, &raw mut ep, null_mut()))?;
            check("fi_ep_bind", fi_bind(ep.cast(), av.cast(), 0))?;
            check("fi_ep_bind", fi_bind(ep.cast(), cq.cast(), FI_SEND | FI_RECV))?;
            check("fi_enable", fi_control(ep.cast(), FI_ENABLE, null_mut()))?;
            let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
            let failed =
                fi_mr_reg(domain, memory.cast(), memory_bytes, access, 0, key, 0, &raw mut mr, null_mut());
            check("fi_mr_reg", failed)?;
            Objects {
                fabric,
                av,
                cq,
                mr,
                ep,
                wait_fd,
                contexts: kept(CONTEXTS * size_of::<fi_context2>()).cast(),
                ended: Ended::default(),
                busy: Busy::default(),
                kick_fd: libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK),
                give_up_after,
                is_taken: AtomicBool::new(false),
                rest: Mutex::default(),
                given_back: Condvar::new(),
            }
        };
        let objects = Arc::new(objects);
        let its = Arc::clone(&objects);
        std::thread::Builder::new().name("progress".to_owned()).spawn(move || its.progress_thread())?;
        Ok(Self { objects, memory, memory_bytes })
    }

    pub(super) fn address(&self) -> Result<Vec<u8>, String> {
        let (mut bytes, mut len) = (vec![0_u8; 512], 512);
        // SAFETY: a live end point, and a place of that length.
        check("fi_getname", unsafe { fi_getname(self.objects.ep, bytes.as_mut_ptr().cast(), &raw mut len) })?;
        bytes.truncate(len);
        Ok(bytes)
    }

    pub(super) fn key(&self) -> u64 {
        // SAFETY: a live registration.
        unsafe { (*self.objects.mr).key }
    }

    pub(super) fn insert(&self, address: &[u8]) -> Result<u64, String> {
        let mut inserted = 0;
        // A card may come from anywhere: the provider reads no more than is there.
        if address.len() != self.address()?.len() {
            return Err("the peer's address has another length than the own one".to_owned());
        }
        // SAFETY: a live address vector, and as many bytes as an address of this provider has.
        let count = unsafe {
            fi_av_insert(self.objects.av, address.as_ptr().cast(), 1, &raw mut inserted, 0, null_mut())
        };
        if count == 1 { Ok(inserted) } else { Err("fi_av_insert: the peer's address is refused".to_owned()) }
    }
}

impl Objects {
    /// The context of an operation: receives come first, then sends, then writes.
    pub(super) fn context(&self, nth: usize) -> *mut libc::c_void {
        self.contexts.wrapping_add(nth % CONTEXTS).cast()
    }

    /// Reads completions; returns how many.
    pub(super) fn progress(&self) -> Result<usize, String> {
        let mut entries = [fi_cq_data_entry::zeroed(); BATCH];
        // SAFETY: a live queue of this format, and a place for that many entries.
        let count = unsafe { fi_cq_read(self.cq, entries.as_mut_ptr().cast(), BATCH) };
        let Ok(count) = usize::try_from(count) else {
            let again = count == -(FI_EAGAIN as isize);
            return if again { Ok(0) } else { check("an operation", count as c_int).map(|()| 0) };
        };
        for entry in entries.iter().take(count) {
            let nth = (entry.op_context as usize - self.contexts as usize) / size_of::<fi_context2>();
            let counter = match nth {
                ..RECEIVES => &self.ended.receives,
                nth if nth < RECEIVES + SENDS => &self.ended.sends,
                nth => {
                    // Release: pairs with the Acquire in `Bare::next_write`, which uses the buffer again.
                    self.busy.fetch_and(!(1 << (nth - RECEIVES - SENDS)), Ordering::Release);
                    &self.ended.writes
                }
            };
            // Release: pairs with the Acquire of the loops that wait for it.
            counter.fetch_add(1, Ordering::Release);
        }
        Ok(count)
    }

    /// From now on the caller makes progress, until [`Self::give_back`].
    pub(super) fn take(&self) {
        self.is_taken.store(true, Ordering::SeqCst);
        // SAFETY: an own descriptor, and 8 bytes. It cannot fail but for being readable already.
        unsafe { libc::write(self.kick_fd, (&raw const ONE).cast(), 8) };
    }

    /// From now on the thread makes progress.
    pub(super) fn give_back(&self) {
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_taken.store(false, Ordering::SeqCst);
        drop(rest);
        self.given_back.notify_one();
    }

    fn progress_thread(&self) {
        let mut idle_since: Option<Instant> = None;
        loop {
            if self.is_taken.load(Ordering::SeqCst) {
                let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
                while self.is_taken.load(Ordering::SeqCst) {
                    rest = self.given_back.wait(rest).unwrap_or_else(PoisonError::into_inner);
                }
                idle_since = None;
            }
            // What fails here fails for the loops, too, which say so.
            if self.progress().unwrap_or(0) > 0 {
                idle_since = None;
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                self.sleep();
            }
        }
    }

    fn sleep(&self) {
        let mut objects = [self.cq.cast::<fid>()];
        // SAFETY: live objects; descriptors that live as long; a place for 8 bytes.
        unsafe {
            if fi_trywait(self.fabric, objects.as_mut_ptr(), 1) != 0 {
                return;
            }
            let of = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut polled = [of(self.wait_fd), of(self.kick_fd)];
            libc::poll(polled.as_mut_ptr(), 2, LONGEST_POLL_MS);
            if polled[1].revents != 0 {
                let mut count = 0_u64;
                libc::read(self.kick_fd, (&raw mut count).cast(), 8);
            }
        }
    }
}

static ONE: u64 = 1;
