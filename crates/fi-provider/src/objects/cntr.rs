//! `fid_cntr`: counters of completed operations.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric_sys::abi::{fi_ops, fid, fid_domain};
use fabric_sys::constants::FI_ETIMEDOUT;
use libc::{c_int, c_void};

use super::Object;
use crate::abi::{FI_CLASS_CNTR, FI_EBUSY, fi_ops_cntr, fid_cntr};
use crate::absent::Table;
use crate::engine::completion::Counter;
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, None));
static CNTR_OPS: Table<fi_ops_cntr> =
    Table(fi_ops_cntr { size: size_of::<fi_ops_cntr>(), read, readerr, add, set, wait, adderr, seterr });

/// `fi_cntr_open(3)`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    _attr: *mut c_void,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    count(Op::CntrOpen);
    // SAFETY: a domain of the program's.
    let object = unsafe { Object::of(domain) };
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
    unsafe { with(cntr, |counter| counter.good = counter.good.wrapping_add(value)) };
    0
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program's counter.
    unsafe { with(cntr, |counter| counter.good = value) };
    0
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program's counter.
    unsafe { with(cntr, |counter| counter.bad = counter.bad.wrapping_add(value)) };
    0
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program's counter.
    unsafe { with(cntr, |counter| counter.bad = value) };
    0
}

unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    let until = u64::try_from(timeout).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
    // SAFETY: the program's counter.
    let before = unsafe { with(cntr, |counter| counter.bad) };
    loop {
        // SAFETY: the program's counter.
        let (good, bad) = unsafe { with(cntr, |counter| (counter.good, counter.bad)) };
        if good >= threshold {
            return 0;
        }
        if bad != before {
            return -fabric_sys::constants::FI_EAVAIL;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return -FI_ETIMEDOUT;
        }
        std::thread::yield_now();
    }
}
