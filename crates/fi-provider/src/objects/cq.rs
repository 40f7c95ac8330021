//! `fid_cq`: queues of completions. Reading one lets its end points make progress.

use std::sync::Arc;

use cancellation::no_points;
use fabric_sys::abi::{
    fi_addr_t, fi_cq_attr, fi_cq_data_entry, fi_cq_err_entry, fi_ops, fi_ops_cq, fid, fid_cq, fid_domain,
};
use fabric_sys::constants::{FI_CQ_FORMAT_DATA, FI_EAGAIN, FI_EAVAIL, FI_EINVAL};
use libc::{c_char, c_int, c_void};

use super::Object;
use super::waiting::WaitObject;
use crate::abi::{
    FI_CLASS_CQ, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_UNSPEC, FI_EBUSY,
    fi_cq_tagged_entry,
};
use crate::absent::Table;
use crate::engine::completion::{Completion, Queue};
use crate::engine::state::{Domain, Shared};
use crate::engine::wait::{self, Awaited, Bell, Member};
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, Some(control)));
static CQ_OPS: Table<fi_ops_cq> = Table(fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: Some(read),
    readfrom: readfrom as *const c_void,
    readerr: Some(readerr),
    sread: sread as *const c_void,
    sreadfrom: sreadfrom as *const c_void,
    signal: signal as *const c_void,
    strerror: Some(strerror),
});

/// A queue, and in which form the program reads completions.
#[repr(C)]
struct QueueObject {
    c: fid_cq,
    domain: Arc<Domain>,
    number: u32,
    entry_bytes: usize,
    /// Wakes who waits for it.
    bell: Arc<Bell>,
    wait_object: WaitObject,
}

impl QueueObject {
    /// # Safety
    /// A queue of the program's.
    #[inline]
    unsafe fn of<'a>(cq: *mut fid_cq) -> &'a Self {
        // SAFETY: by the caller's word; made by `open`, whose first field it is.
        unsafe { &*cq.cast() }
    }
}

/// The number of a queue in its domain.
///
/// # Safety
/// A queue of the program's.
pub(super) unsafe fn number(fid: *mut fid) -> u32 {
    // SAFETY: by the caller's word.
    unsafe { QueueObject::of(fid.cast()) }.number
}

/// A queue as one of several things that are waited for.
///
/// # Safety
/// A queue of the program's.
pub(super) unsafe fn member(fid: *mut fid) -> Member {
    // SAFETY: by the caller's word.
    let object = unsafe { QueueObject::of(fid.cast()) };
    Member { domain: Arc::clone(&object.domain), awaited: Awaited::Queue(object.number) }
}

/// `fi_cq_open(3)`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    let _no_points = no_points();
    count(Op::CqOpen);
    // SAFETY: a domain of the program's, and its attributes.
    let (object, attr) = unsafe { (Object::of(domain), attr.as_mut()) };
    let Some(attr) = attr else { return -FI_EINVAL };
    let entry_bytes = match attr.format {
        FI_CQ_FORMAT_CONTEXT => 8,
        FI_CQ_FORMAT_MSG => 24,
        FI_CQ_FORMAT_DATA => size_of::<fi_cq_data_entry>(),
        FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_TAGGED => {
            attr.format = FI_CQ_FORMAT_TAGGED;
            size_of::<fi_cq_tagged_entry>()
        }
        _ => return -FI_EINVAL,
    };
    let queue = Queue::default();
    let bell = Arc::clone(&queue.bell);
    // SAFETY: the program's attributes.
    let wait_object = match unsafe { WaitObject::new(attr.wait_obj, attr.wait_set.cast()) } {
        Ok(wait_object) => wait_object,
        Err(error) => return error,
    };
    let number = object.domain.lock().shared.queues.insert(queue);
    let fid = fid { fclass: FI_CLASS_CQ, context, ops: OPS.pointer() };
    let c = fid_cq { fid, ops: CQ_OPS.pointer() };
    let domain = Arc::clone(&object.domain);
    wait_object.open(&domain, Awaited::Queue(number));
    let made = Box::new(QueueObject { c, domain, number, entry_bytes, bell, wait_object });
    // SAFETY: the program's place for the pointer.
    unsafe { *cq = Box::into_raw(made).cast() };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let _no_points = no_points();
    // SAFETY: a queue of the program's.
    let object = unsafe { QueueObject::of(fid.cast()) };
    let mut state = object.domain.lock();
    let is_in_set = state.shared.queues.get(object.number).is_some_and(|queue| queue.sets > 0);
    if state.is_polled(object.number) || is_in_set {
        return -FI_EBUSY;
    }
    state.shared.queues.remove(object.number);
    drop(state);
    object.wait_object.close(&object.domain, Awaited::Queue(object.number));
    // SAFETY: made by `open`, and used no more.
    drop(unsafe { Box::from_raw(fid.cast::<QueueObject>()) });
    0
}

/// Reads completions into the program's array.
///
/// # Safety
/// As for `fi_cq_readfrom`; `sources` may be null.
#[inline]
unsafe fn read_into(cq: *mut fid_cq, buf: *mut c_void, len: usize, sources: *mut fi_addr_t) -> isize {
    // SAFETY: a queue of the program's.
    let object = unsafe { QueueObject::of(cq) };
    let mut state = object.domain.lock();
    state.progress(object.number);
    let Some(queue) = state.shared.queues.get_mut(object.number) else { return -(FI_EINVAL as isize) };
    let mut taken = 0;
    while taken < len
        && let Some(completion) = queue.pop_good()
    {
        let entry = entry(&completion);
        // SAFETY: the program's array has room for `len` entries of this form, which is the beginning of the
        // longest.
        unsafe {
            let to = buf.cast::<u8>().add(taken * object.entry_bytes);
            if object.entry_bytes == size_of::<fi_cq_tagged_entry>() {
                // Known to the compiler, which needs no call for it.
                to.cast::<fi_cq_tagged_entry>().write_unaligned(entry);
            } else {
                std::ptr::copy_nonoverlapping((&raw const entry).cast::<u8>(), to, object.entry_bytes);
            }
            if !sources.is_null() {
                *sources.add(taken) = completion.source;
            }
        }
        taken += 1;
    }
    match taken {
        0 if queue.is_bad_next() => -(FI_EAVAIL as isize),
        0 => -(FI_EAGAIN as isize),
        taken => taken.cast_signed(),
    }
}

fn entry(completion: &Completion) -> fi_cq_tagged_entry {
    fi_cq_tagged_entry {
        op_context: std::ptr::with_exposed_provenance_mut(completion.context),
        flags: completion.flags,
        len: completion.len,
        buf: std::ptr::with_exposed_provenance_mut(completion.buffer),
        data: completion.data,
        tag: completion.tag,
    }
}

unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, len: usize) -> isize {
    count(Op::CqRead);
    // SAFETY: the program's arguments.
    unsafe { read_into(cq, buf, len, std::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    len: usize,
    sources: *mut fi_addr_t,
) -> isize {
    count(Op::CqReadfrom);
    // SAFETY: the program's arguments.
    unsafe { read_into(cq, buf, len, sources) }
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, _flags: u64) -> isize {
    count(Op::CqReaderr);
    // SAFETY: a queue of the program's.
    let object = unsafe { QueueObject::of(cq) };
    let mut state = object.domain.lock();
    state.progress(object.number);
    let bad = state.shared.queues.get_mut(object.number).and_then(Queue::pop_bad);
    let Some(bad) = bad else { return -(FI_EAGAIN as isize) };
    // SAFETY: the program's structure. There is no further data of an error, so only its size is written.
    unsafe {
        (*buf).op_context = std::ptr::with_exposed_provenance_mut(bad.context);
        (*buf).flags = bad.flags;
        (*buf).len = bad.len;
        (*buf).buf = std::ptr::with_exposed_provenance_mut(bad.buffer);
        (*buf).data = bad.data;
        (*buf).tag = bad.tag;
        (*buf).olen = bad.beyond;
        (*buf).err = bad.error;
        (*buf).prov_errno = bad.error;
        (*buf).err_data_size = 0;
    }
    1
}

/// Waits until there is something, and sleeps if that takes long.
///
/// # Safety
/// As for `fi_cq_sreadfrom`; `sources` may be null.
unsafe fn wait(
    cq: *mut fid_cq,
    buf: *mut c_void,
    len: usize,
    sources: *mut fi_addr_t,
    timeout: c_int,
) -> isize {
    const NOTHING: isize = -(FI_EAGAIN as isize);
    count(Op::CqSread);
    // SAFETY: a queue of the program's.
    let object = unsafe { QueueObject::of(cq) };
    let awaited = Awaited::Queue(object.number);
    // SAFETY: the program's arguments.
    let look = || Some(unsafe { read_into(cq, buf, len, sources) }).filter(|got| *got != NOTHING);
    let is_over = |shared: &Shared| shared.has_news(awaited);
    wait::wait(&object.domain, awaited, &object.bell, timeout, look, is_over).unwrap_or(NOTHING)
}

/// Ends a wait for completions: `fi_cq_signal(3)`. From any thread, also of a domain that is used by one at a
/// time.
unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    count(Op::CqSignal);
    // SAFETY: a queue of the program's.
    unsafe { QueueObject::of(cq) }.bell.signal();
    0
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    let _no_points = no_points();
    // SAFETY: a queue of the program's, and its argument.
    unsafe { QueueObject::of(fid.cast()).wait_object.control(command, arg) }
}

/// Whether the program may wait for the descriptor of a queue now: `fi_trywait` in fi_poll(3).
///
/// # Safety
/// A queue of the program's.
pub(super) unsafe fn try_wait(fid: *mut fid) -> c_int {
    // SAFETY: by the caller's word.
    let object = unsafe { QueueObject::of(fid.cast()) };
    object.wait_object.try_wait(&object.domain, Awaited::Queue(object.number))
}

unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    len: usize,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    let _no_points = no_points();
    // SAFETY: the program's arguments.
    unsafe { wait(cq, buf, len, std::ptr::null_mut(), timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    len: usize,
    sources: *mut fi_addr_t,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    let _no_points = no_points();
    // SAFETY: the program's arguments.
    unsafe { wait(cq, buf, len, sources, timeout) }
}

unsafe extern "C" fn strerror(
    _: *mut fid_cq,
    _prov_errno: c_int,
    _: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // This provider's own numbers are libfabric's, which `fi_strerror` explains.
    const TEXT: &std::ffi::CStr = c"see fi_strerror(err)";
    if !buf.is_null() && len > 0 {
        let room = (TEXT.count_bytes() + 1).min(len);
        // SAFETY: the program's buffer has `len` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(TEXT.as_ptr(), buf, room);
            *buf.add(room - 1) = 0;
        }
    }
    TEXT.as_ptr()
}
