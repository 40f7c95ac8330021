//! An open end point of libfabric with its queue, and the memory that it may touch, behind functions that are
//! safe to call in any order.
//!
//! Buffers of operations are *slots* of memory that belongs to the port and lives until the end point is
//! closed: so an operation that nobody waits for any more can end whenever it likes. A slot carries one
//! operation at a time, which is checked. Memory that peers reach stays mapped until the port is closed, also
//! when it is withdrawn: a provider may still be receiving into it.
#![allow(unsafe_code)]

mod carried;
mod closing;
mod operations;

use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use fabric_sys::Library;
use fabric_sys::abi::{
    fi_av_attr, fi_context2, fi_cq_attr, fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr,
};
use fabric_sys::calls::{
    fi_av_insert, fi_av_open, fi_bind, fi_close, fi_control, fi_cq_open, fi_domain, fi_endpoint, fi_getname,
    fi_mr_reg,
};
use fabric_sys::constants::{
    FI_ADDR_UNSPEC, FI_CQ_FORMAT_DATA, FI_EINVAL, FI_ENABLE, FI_ENOKEY, FI_ETOOSMALL, FI_GETWAIT,
    FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_READ, FI_RECV, FI_REMOTE_READ,
    FI_REMOTE_WRITE, FI_SEND, FI_WAIT_FD, FI_WAIT_NONE, FI_WRITE,
};
use libc::{c_int, c_void};
use shm::region::{Region, RegionOptions};
use shm::sync::AtomicBool;
use shm::window::Window;

use crate::card::MemoryCard;
use crate::error::{OfiError, Result};
use crate::handles::Info;
use crate::message::{DATA_BYTES_MAX, MESSAGE_BYTES};
use crate::random::random_u64;
pub(crate) use carried::{Carried, carried};
pub(crate) use closing::{Closed, Closing};
pub(crate) use operations::{Target, WriteEnd};

/// Slots for operations of this side, and the bytes of each: enough under way for a network's bandwidth times
/// its delay.
pub(crate) const SEND_SLOTS: usize = 32;
pub(crate) const SEND_SLOT_BYTES: usize = 64 * 1024;
/// Slots for messages that come in, and the bytes of each.
pub(crate) const RECEIVE_SLOTS: usize = 64;
pub(crate) const RECEIVE_SLOT_BYTES: usize = (MESSAGE_BYTES + DATA_BYTES_MAX).next_multiple_of(64);
/// Slots for replies, and the bytes of each. They come last.
pub(crate) const REPLY_SLOTS: usize = 32;
const REPLY_SLOT_BYTES: usize = MESSAGE_BYTES.next_multiple_of(64);
const SLOTS: usize = SEND_SLOTS + RECEIVE_SLOTS + REPLY_SLOTS;
/// No provider's address is longer.
const LONGEST_ADDRESS_BYTES: usize = 512;

/// Whether an operation was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// Its completion will come.
    Yes,
    /// The provider has no room: make progress, and try again.
    Again,
    /// It cannot be posted: libfabric's error number.
    Failed(c_int),
}

/// The end of an operation.
#[derive(Debug)]
pub(crate) struct Completion {
    /// Its slot; `None` if the provider does not say which operation failed.
    pub(crate) slot: Option<usize>,
    /// Bytes that were received, if it was a receive.
    pub(crate) outcome: std::result::Result<usize, Failure>,
}

/// Why an operation failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) errno: c_int,
    /// The provider's own words.
    pub(crate) detail: String,
}

/// An address in the address vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Address(u64);

#[cfg(test)]
impl Address {
    /// Of nobody.
    pub(crate) const NONE: Self = Self(FI_ADDR_UNSPEC);

    /// One of several.
    pub(crate) fn nth(number: u64) -> Self {
        Self(number)
    }
}

/// A context that a provider may write to while the operation is under way. Of its own cache line.
#[repr(C, align(64))]
struct Context(UnsafeCell<fi_context2>);

/// Memory that peers reach, or reached.
struct Registered {
    /// `None` once it was withdrawn.
    registration: Option<NonNull<fid_mr>>,
    token: u64,
    /// Kept mapped until the port is closed.
    _region: Arc<Region>,
}

/// See the module.
pub(crate) struct Port {
    info: Info,
    provider: String,
    fabric: NonNull<fid_fabric>,
    domain: NonNull<fid_domain>,
    av: NonNull<fid_av>,
    cq: NonNull<fid_cq>,
    ep: NonNull<fid_ep>,
    wait_fd: Option<RawFd>,
    contexts: Box<[Context]>,
    /// Whether an operation of the slot is under way: then libfabric owns its context.
    posted: Box<[AtomicBool]>,
    /// Of the slots. Behind an `Option`, so that it can be given up if the end point does not close.
    staging: Option<Region>,
    staging_registration: Option<NonNull<fid_mr>>,
    registered: Mutex<Vec<Registered>>,
    /// Tells those who watch when it is closed.
    closing: Arc<Closing>,
}

// SAFETY: the domain was opened as FI_THREAD_SAFE: all its objects may be used by any threads at once. A
// context is written by libfabric only while `posted` of its slot is set, and by nobody else.
unsafe impl Send for Port {}
// SAFETY: as above.
unsafe impl Sync for Port {}

/// Objects that are open so far, so that a failure in the middle closes them, the last one first.
struct Opening<'a> {
    library: &'static Library,
    provider: &'a str,
    open: Vec<NonNull<fid>>,
}

impl Opening<'_> {
    /// Takes what a call has opened.
    fn take<T>(&mut self, call: &'static str, failed: c_int, object: *mut T) -> Result<NonNull<T>> {
        let object = NonNull::new(object).filter(|_| failed == 0);
        let object = object.ok_or_else(|| self.error(call, failed))?;
        // Every object begins with its `fid`.
        self.open.push(object.cast());
        Ok(object)
    }

    fn check(&self, call: &'static str, failed: c_int) -> Result<()> {
        if failed == 0 { Ok(()) } else { Err(self.error(call, failed)) }
    }

    fn error(&self, call: &'static str, failed: c_int) -> OfiError {
        call_error(self.library, self.provider, call, failed)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        while let Some(object) = self.open.pop() {
            // SAFETY: opened here, not closed yet, and given to nobody, as the opening failed.
            unsafe { fi_close(object.as_ptr()) };
        }
    }
}

fn call_error(library: &Library, provider: &str, call: &'static str, failed: c_int) -> OfiError {
    let next = match failed.abs() {
        libc::EADDRNOTAVAIL => "give an address that an interface of this machine has (`ip address`)",
        libc::EADDRINUSE => "choose another port, or let the provider choose one",
        _ => {
            "see that the interface is up and the limits of locked memory and of descriptors suffice (`ulimit -l -n`)"
        }
    };
    let (errno, reason) = (failed.abs(), library.explain(failed));
    OfiError::Call { call, provider: provider.to_owned(), errno, reason, next }
}

impl Port {
    pub(crate) fn open(info: Info) -> Result<Self> {
        let library = info.library();
        let provider = info.offer().provider;
        let slot_bytes = place(SLOTS).0;
        let staging = Region::create(&RegionOptions::new("tieline-ofi", slot_bytes))?;
        let contexts = (0..SLOTS).map(|_| Context(UnsafeCell::new(fi_context2::zeroed()))).collect();
        let posted = (0..SLOTS).map(|_| AtomicBool::new(false)).collect();
        let mut opening = Opening { library, provider: &provider, open: Vec::new() };
        // SAFETY: `info` is live, and every other pointer is one to a local place or to an object that was
        // opened before.
        let (fabric, domain, av, cq, ep, wait_fd) = unsafe {
            let mut fabric = null_mut();
            let failed = (library.fi_fabric)((*info.as_ptr()).fabric_attr, &raw mut fabric, null_mut());
            let fabric = opening.take("fi_fabric", failed, fabric)?;
            let mut domain = null_mut();
            let failed = fi_domain(fabric.as_ptr(), info.as_ptr(), &raw mut domain, null_mut());
            let domain = opening.take("fi_domain", failed, domain)?;
            let (mut attributes, mut av) = (fi_av_attr::zeroed(), null_mut());
            let failed = fi_av_open(domain.as_ptr(), &raw mut attributes, &raw mut av, null_mut());
            let av = opening.take("fi_av_open", failed, av)?;
            let (cq, wait_fd) = open_queue(&mut opening, domain)?;
            let mut ep = null_mut();
            let failed = fi_endpoint(domain.as_ptr(), info.as_ptr(), &raw mut ep, null_mut());
            let ep = opening.take("fi_endpoint", failed, ep)?;
            opening.check("fi_ep_bind", fi_bind(ep.as_ptr().cast(), av.as_ptr().cast(), 0))?;
            opening
                .check("fi_ep_bind", fi_bind(ep.as_ptr().cast(), cq.as_ptr().cast(), FI_SEND | FI_RECV))?;
            opening.check("fi_enable", fi_control(ep.as_ptr().cast(), FI_ENABLE, null_mut()))?;
            (fabric, domain, av, cq, ep, wait_fd)
        };
        opening.open.clear();
        drop(opening);
        let (staging, registered) = (Some(staging), Mutex::default());
        let mut port = Self {
            info,
            provider,
            fabric,
            domain,
            av,
            cq,
            ep,
            wait_fd,
            contexts,
            posted,
            staging,
            staging_registration: None,
            registered,
            closing: Arc::default(),
        };
        if port.info.mr_mode() & FI_MR_LOCAL != 0 {
            let window = port.staging();
            let registration = port.register(&window, FI_SEND | FI_RECV | FI_READ | FI_WRITE)?;
            port.staging_registration = Some(registration);
        }
        Ok(port)
    }

    /// For those who watch when it is closed.
    pub(crate) fn closing(&self) -> &Arc<Closing> {
        &self.closing
    }

    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    pub(crate) fn provider(&self) -> &str {
        &self.provider
    }

    /// What an error number means.
    pub(crate) fn explain(&self, errno: c_int) -> String {
        self.info.library().explain(errno)
    }

    fn staging(&self) -> Window<'_> {
        match &self.staging {
            Some(region) => region.window(),
            // SAFETY: no byte at all; it is given up only while the port is dropped.
            None => unsafe {
                Window::from_raw(NonNull::dangling().as_ptr(), 0, shm::region::MapAccess::ReadOnly)
            },
        }
    }

    /// The memory of a slot.
    pub(crate) fn slot(&self, slot: usize) -> Result<Window<'_>> {
        let (offset, len) = place(slot);
        Ok(self.staging().sub(offset, len)?)
    }

    /// The own address, for the peers.
    pub(crate) fn address(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0_u8; LONGEST_ADDRESS_BYTES];
        let mut len = bytes.len();
        // SAFETY: a live end point, and a place of `len` bytes.
        let failed = unsafe { fi_getname(self.ep.as_ptr(), bytes.as_mut_ptr().cast(), &raw mut len) };
        if failed != 0 {
            let failed = if failed == -FI_ETOOSMALL { -FI_EINVAL } else { failed };
            return Err(self.error("fi_getname", failed));
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Adds a peer's address. The provider reads as many bytes as its addresses have: they must be as many as
    /// the own ones.
    pub(crate) fn insert(&self, address: &[u8]) -> Result<Address> {
        let own = self.address()?;
        // Names of `shm` and the like have no fixed length; they end with a zero byte.
        let is_text = own.last() == Some(&0) && self.info.offer().domain == self.provider;
        // Addresses of the internet begin with their family, which tells the provider how to read the rest.
        let is_of_family = !self.info.has_families() || address.get(..2) == own.get(..2);
        let fits =
            if is_text { address.last() == Some(&0) } else { address.len() == own.len() && is_of_family };
        if !fits {
            let why = if is_of_family {
                "its form is not that of this end's provider"
            } else {
                "it is of another family than the own one, so both hosts have to name their rails in the same order"
            };
            return Err(OfiError::BadCard { what: "an endpoint address", len: address.len(), why });
        }
        let mut inserted = FI_ADDR_UNSPEC;
        // SAFETY: a live address vector; an address of the length that this provider reads; a place for the
        // answer.
        let count = unsafe {
            fi_av_insert(self.av.as_ptr(), address.as_ptr().cast(), 1, &raw mut inserted, 0, null_mut())
        };
        if count != 1 || inserted == FI_ADDR_UNSPEC {
            return Err(self.error("fi_av_insert", if count < 0 { count } else { -FI_EINVAL }));
        }
        Ok(Address(inserted))
    }

    /// Lets peers reach a region that have its card.
    pub(crate) fn export(&self, region: &Arc<Region>) -> Result<MemoryCard> {
        let window = region.window();
        let registration = self.register(&window, FI_REMOTE_READ | FI_REMOTE_WRITE)?;
        // SAFETY: just opened.
        let key = unsafe { (*registration.as_ptr()).key };
        let is_by_address = self.info.mr_mode() & FI_MR_VIRT_ADDR != 0;
        let base = if is_by_address { window.as_ptr() as u64 } else { 0 };
        let token = random_u64()?;
        let kept = Registered { registration: Some(registration), token, _region: Arc::clone(region) };
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        Ok(MemoryCard { key, token, base, size_bytes: window.len() as u64 })
    }

    /// Peers no longer reach it. What is on its way may still land in it: the region stays mapped until the
    /// port is closed.
    pub(crate) fn withdraw(&self, token: u64) {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = registered.iter_mut().find(|entry| entry.token == token)
            && let Some(registration) = entry.registration.take()
        {
            // SAFETY: opened by `register`, and taken out, so closed once.
            unsafe { fi_close(registration.as_ptr().cast()) };
        }
    }

    /// Registers memory, with a random key where keys are ours to choose.
    fn register(&self, window: &Window<'_>, access: u64) -> Result<NonNull<fid_mr>> {
        let is_key_ours = self.info.mr_mode() & FI_MR_PROV_KEY == 0;
        let key_mask = match self.info.key_bytes() {
            bytes @ 1..8 => (1 << (8 * bytes)) - 1,
            _ => u64::MAX,
        };
        let mut failed = -FI_ENOKEY;
        // A key that is taken is drawn again; that it happens twice with 64 bits will not be seen.
        for _ in 0..8 {
            let key = if is_key_ours { random_u64()? & key_mask } else { 0 };
            let mut registration = null_mut();
            // SAFETY: a live domain; memory that stays mapped until the port is closed (its slots, or a
            // region that `export` keeps).
            failed = unsafe {
                let start = window.as_ptr().cast::<c_void>();
                fi_mr_reg(
                    self.domain.as_ptr(),
                    start,
                    window.len(),
                    access,
                    0,
                    key,
                    0,
                    &raw mut registration,
                    null_mut(),
                )
            };
            match NonNull::new(registration) {
                Some(registration) if failed == 0 => return self.enabled(registration),
                _ if failed != -FI_ENOKEY => break,
                _ => {}
            }
        }
        Err(self.error("fi_mr_reg", failed))
    }

    /// Some providers bind a registration to the end point.
    fn enabled(&self, registration: NonNull<fid_mr>) -> Result<NonNull<fid_mr>> {
        if self.info.mr_mode() & FI_MR_ENDPOINT == 0 {
            return Ok(registration);
        }
        let object = registration.as_ptr().cast::<fid>();
        // SAFETY: both objects are live; if it fails, the registration is closed and not used again.
        unsafe {
            let mut failed = fi_bind(object, self.ep.as_ptr().cast(), 0);
            if failed == 0 {
                failed = fi_control(object, FI_ENABLE, null_mut());
            }
            if failed != 0 {
                fi_close(object);
                return Err(self.error("fi_mr_enable", failed));
            }
        }
        Ok(registration)
    }

    fn error(&self, call: &'static str, failed: c_int) -> OfiError {
        call_error(self.info.library(), &self.provider, call, failed)
    }
}

/// Offset and length of a slot's memory.
fn place(slot: usize) -> (usize, usize) {
    const RECEIVE_AT: usize = SEND_SLOTS * SEND_SLOT_BYTES;
    const REPLIES_AT: usize = RECEIVE_AT + RECEIVE_SLOTS * RECEIVE_SLOT_BYTES;
    if let Some(nth) = slot.checked_sub(SEND_SLOTS + RECEIVE_SLOTS) {
        return (REPLIES_AT + nth * REPLY_SLOT_BYTES, REPLY_SLOT_BYTES);
    }
    match slot.checked_sub(SEND_SLOTS) {
        None => (slot * SEND_SLOT_BYTES, SEND_SLOT_BYTES),
        Some(nth) => (RECEIVE_AT + nth * RECEIVE_SLOT_BYTES, RECEIVE_SLOT_BYTES),
    }
}

/// With a descriptor to sleep on, if the provider has one.
///
/// # Safety
/// The domain is live.
unsafe fn open_queue(
    opening: &mut Opening<'_>,
    domain: NonNull<fid_domain>,
) -> Result<(NonNull<fid_cq>, Option<RawFd>)> {
    let mut attributes = fi_cq_attr::zeroed();
    (attributes.size, attributes.format) = (4 * SLOTS, FI_CQ_FORMAT_DATA);
    for wait_obj in [FI_WAIT_FD, FI_WAIT_NONE] {
        attributes.wait_obj = wait_obj;
        let mut cq = null_mut();
        // SAFETY: a live domain by the caller's word, and local places.
        let failed = unsafe { fi_cq_open(domain.as_ptr(), &raw mut attributes, &raw mut cq, null_mut()) };
        if failed != 0 && wait_obj == FI_WAIT_FD {
            continue;
        }
        let cq = opening.take("fi_cq_open", failed, cq)?;
        let mut fd: c_int = -1;
        if wait_obj == FI_WAIT_FD {
            // SAFETY: a live queue, and a place for a descriptor.
            let failed = unsafe { fi_control(cq.as_ptr().cast(), FI_GETWAIT, (&raw mut fd).cast()) };
            fd = if failed == 0 { fd } else { -1 };
        }
        return Ok((cq, (fd >= 0).then_some(fd)));
    }
    Err(opening.error("fi_cq_open", -FI_EINVAL))
}

impl Drop for Port {
    fn drop(&mut self) {
        let registered = std::mem::take(self.registered.get_mut().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: each object is closed once, users before what they use, and none is used after this.
        let is_closed = unsafe {
            let is_closed = fi_close(self.ep.as_ptr().cast()) == 0;
            let registrations = registered.iter().filter_map(|entry| entry.registration);
            for registration in registrations.chain(self.staging_registration) {
                fi_close(registration.as_ptr().cast());
            }
            fi_close(self.cq.as_ptr().cast());
            fi_close(self.av.as_ptr().cast());
            fi_close(self.domain.as_ptr().cast());
            fi_close(self.fabric.as_ptr().cast());
            is_closed
        };
        // What peers are told relies on it: nothing lands in any memory of the end point from here on.
        self.closing.end(is_closed);
        if !is_closed {
            // The provider may still write to all this: it is never given back.
            std::mem::forget((registered, self.staging.take(), std::mem::take(&mut self.contexts)));
        }
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("offer", &self.info.offer()).finish_non_exhaustive()
    }
}
