//! `fid_cntr`: counters of completed operations.

use std::sync::Arc;

use cancellation::no_points;
use fabric_sys::abi::{fi_ops, fid, fid_domain};
use fabric_sys::constants::{FI_EAVAIL, FI_ETIMEDOUT, FI_WAIT_NONE};
use libc::{c_int, c_void};

use super::Object;
use super::waiting::WaitObject;
use crate::abi::{FI_CLASS_CNTR, FI_EBUSY, fi_cntr_attr, fi_ops_cntr, fid_cntr};
use crate::absent::Table;
use crate::engine::completion::Counter;
use crate::engine::state::{Domain, Shared};
use crate::engine::wait::{self, Awaited, Member};
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, Some(control)));
static CNTR_OPS: Table<fi_ops_cntr> =
    Table(fi_ops_cntr { size: size_of::<fi_ops_cntr>(), read, readerr, add, set, wait, adderr, seterr });

#[repr(C)]
struct CounterObject {
    c: fid_cntr,
    domain: Arc<Domain>,
    number: u32,
    wait_object: WaitObject,
}

impl CounterObject {
    /// # Safety
    /// A counter of the program's.
    #[inline]
    unsafe fn of<'a>(cntr: *mut fid_cntr) -> &'a Self {
        // SAFETY: by the caller's word; made by `open`, whose first field it is.
        unsafe { &*cntr.cast() }
    }
}

/// The number of a counter in its domain.
///
/// # Safety
/// A counter of the program's.
pub(super) unsafe fn number(fid: *mut fid) -> u32 {
    // SAFETY: by the caller's word.
    unsafe { CounterObject::of(fid.cast()) }.number
}

/// A counter as one of several things that are waited for.
///
/// # Safety
/// A counter of the program's.
pub(super) unsafe fn member(fid: *mut fid) -> Member {
    // SAFETY: by the caller's word.
    let object = unsafe { CounterObject::of(fid.cast()) };
    Member { domain: Arc::clone(&object.domain), awaited: Awaited::Counter(object.number) }
}

/// `fi_cntr_open(3)`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    let _no_points = no_points();
    count(Op::CntrOpen);
    // SAFETY: a domain of the program's, and attributes or null.
    let (object, attr) = unsafe { (Object::of(domain), attr.as_ref()) };
    let (kind, set) =
        attr.map_or((FI_WAIT_NONE, std::ptr::null_mut()), |attr| (attr.wait_obj, attr.wait_set));
    // SAFETY: the program's attributes.
    let wait_object = match unsafe { WaitObject::new(kind, set) } {
        Ok(wait_object) => wait_object,
        Err(error) => return error,
    };
    let number = object.domain.lock().shared.counters.insert(Counter::default());
    let fid = fid { fclass: FI_CLASS_CNTR, context, ops: OPS.pointer() };
    let c = fid_cntr { fid, ops: CNTR_OPS.pointer() };
    let domain = Arc::clone(&object.domain);
    wait_object.open(&domain, Awaited::Counter(number));
    let made = Box::new(CounterObject { c, domain, number, wait_object });
    // SAFETY: the program's place for the pointer.
    unsafe { *cntr = Box::into_raw(made).cast() };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let _no_points = no_points();
    // SAFETY: a counter of the program's.
    let object = unsafe { CounterObject::of(fid.cast()) };
    let mut state = object.domain.lock();
    if state.shared.counters.get(object.number).is_some_and(|counter| counter.users > 0) {
        return -FI_EBUSY;
    }
    state.shared.counters.remove(object.number);
    drop(state);
    object.wait_object.close(&object.domain, Awaited::Counter(object.number));
    // SAFETY: made by `open`, and used no more.
    drop(unsafe { Box::from_raw(fid.cast::<CounterObject>()) });
    0
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    let _no_points = no_points();
    // SAFETY: a counter of the program's, and its argument.
    unsafe { CounterObject::of(fid.cast()).wait_object.control(command, arg) }
}

/// Whether the program may wait for the descriptor of a counter now: `fi_trywait` in fi_poll(3).
///
/// # Safety
/// A counter of the program's.
pub(super) unsafe fn try_wait(fid: *mut fid) -> c_int {
    // SAFETY: by the caller's word.
    let object = unsafe { CounterObject::of(fid.cast()) };
    object.wait_object.try_wait(&object.domain, Awaited::Counter(object.number))
}

/// Lets the domain make progress, and changes or reads the counter.
///
/// # Safety
/// A counter of the program's.
unsafe fn with<R: Default>(cntr: *mut fid_cntr, work: impl FnOnce(&mut Counter) -> R) -> R {
    // SAFETY: by the caller's word.
    let object = unsafe { CounterObject::of(cntr) };
    let mut state = object.domain.lock();
    state.progress_all();
    state.shared.counters.get_mut(object.number).map(work).unwrap_or_default()
}

/// The same for a change, which may end waits.
///
/// # Safety
/// A counter of the program's.
unsafe fn change(cntr: *mut fid_cntr, work: impl FnOnce(&mut Counter)) {
    // SAFETY: by the caller's word.
    unsafe {
        with(cntr, |counter| {
            work(counter);
            counter.has_changed();
        });
    }
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    count(Op::CntrRead);
    // SAFETY: the program's counter.
    unsafe { with(cntr, Counter::show) }
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the program's counter.
    unsafe { with(cntr, Counter::show_bad) }
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program's counter.
    unsafe { change(cntr, |counter| counter.set(counter.good.wrapping_add(value))) };
    0
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program's counter.
    unsafe { change(cntr, |counter| counter.set(value)) };
    0
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program's counter.
    unsafe { change(cntr, |counter| counter.bad = counter.bad.wrapping_add(value)) };
    0
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program's counter.
    unsafe { change(cntr, |counter| counter.bad = value) };
    0
}

unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    let _no_points = no_points();
    count(Op::CntrWait);
    // SAFETY: the program's counter.
    let object = unsafe { CounterObject::of(cntr) };
    // SAFETY: the program's counter.
    let (before, bell) = unsafe { with(cntr, |counter| (counter.bad, Arc::clone(&counter.bell))) };
    let end = move |counter: &Counter| {
        if counter.good >= threshold { Some(0) } else { (counter.bad != before).then_some(-FI_EAVAIL) }
    };
    let number = object.number;
    let is_over = |shared: &Shared| shared.counters.get(number).and_then(end).is_some();
    // SAFETY: the program's counter.
    let look = || unsafe { with(cntr, |counter| end(counter)) };
    let awaited = Awaited::Counter(number);
    wait::wait(&object.domain, awaited, &bell, timeout, look, is_over).unwrap_or(-FI_ETIMEDOUT)
}
