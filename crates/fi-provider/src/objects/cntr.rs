//! `fid_cntr`: counters of completed operations.

use std::sync::Arc;

use fabric_sys::abi::{fi_ops, fid, fid_domain};
use fabric_sys::constants::{FI_EAVAIL, FI_ENOSYS, FI_ETIMEDOUT, FI_WAIT_NONE, FI_WAIT_UNSPEC};
use libc::{c_int, c_void};

use super::Object;
use crate::abi::{FI_CLASS_CNTR, FI_EBUSY, FI_WAIT_YIELD, fi_cntr_attr, fi_ops_cntr, fid_cntr};
use crate::absent::Table;
use crate::engine::completion::Counter;
use crate::engine::state::Shared;
use crate::engine::wait::{self, Awaited};
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, None));
static CNTR_OPS: Table<fi_ops_cntr> =
    Table(fi_ops_cntr { size: size_of::<fi_ops_cntr>(), read, readerr, add, set, wait, adderr, seterr });

/// `fi_cntr_open(3)`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    count(Op::CntrOpen);
    // SAFETY: a domain of the program's, and attributes or null.
    let (object, attr) = unsafe { (Object::of(domain), attr.as_ref()) };
    let has_descriptor =
        |attr: &fi_cntr_attr| !matches!(attr.wait_obj, FI_WAIT_NONE | FI_WAIT_UNSPEC | FI_WAIT_YIELD);
    if attr.is_some_and(has_descriptor) {
        return -FI_ENOSYS;
    }
    let number = object.domain.lock().shared.counters.insert(Counter::default());
    let fid = fid { fclass: FI_CLASS_CNTR, context, ops: OPS.pointer() };
    let c = fid_cntr { fid, ops: CNTR_OPS.pointer() };
    // SAFETY: the program's place for the pointer.
    unsafe { *cntr = Object::give(c, Arc::clone(&object.domain), number) };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let pointer = fid.cast::<fid_cntr>();
    // SAFETY: a counter of the program's.
    let object = unsafe { Object::of(pointer) };
    let mut state = object.domain.lock();
    if state.shared.counters.get(object.number).is_some_and(|counter| counter.users > 0) {
        return -FI_EBUSY;
    }
    state.shared.counters.remove(object.number);
    drop(state);
    // SAFETY: made by `open`, and used no more.
    drop(unsafe { Object::take_back(pointer) });
    0
}

/// Lets the domain make progress, and changes or reads the counter.
///
/// # Safety
/// A counter of the program's.
unsafe fn with<R: Default>(cntr: *mut fid_cntr, work: impl FnOnce(&mut Counter) -> R) -> R {
    // SAFETY: by the caller's word.
    let object = unsafe { Object::of(cntr) };
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
    unsafe { with(cntr, |counter| counter.good) }
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the program's counter.
    unsafe { with(cntr, |counter| counter.bad) }
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program's counter.
    unsafe { change(cntr, |counter| counter.good = counter.good.wrapping_add(value)) };
    0
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program's counter.
    unsafe { change(cntr, |counter| counter.good = value) };
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
    count(Op::CntrWait);
    // SAFETY: the program's counter.
    let object = unsafe { Object::of(cntr) };
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
