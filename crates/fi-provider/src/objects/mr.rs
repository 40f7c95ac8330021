//! `fid_mr`: registered memory, which peers may read or write as its flags say. Messages need none of it; but
//! programs register what they send whether that is needed or not (`fi_multi_recv` does).

use std::sync::Arc;
use std::time::{Duration, Instant};

use cancellation::no_points;
use fabric_sys::abi::{fi_mr_attr, fi_ops, fid, fid_domain, fid_mr};
use fabric_sys::constants::{
    FI_EINVAL, FI_ENABLE, FI_ENOSYS, FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_WRITE,
};
use libc::{c_int, c_void, iovec};

use super::{Object, cntr};
use crate::abi::{FI_CLASS_CNTR, FI_CLASS_DOMAIN, FI_CLASS_EP, FI_CLASS_MR, FI_EBUSY};
use crate::absent::Table;
use crate::trace::{Op, count};

/// What may be done with memory.
const ACCESS: u64 = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
/// How long the closing of a registration waits for operations of peers that are under way in it.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

static OPS: Table<fi_ops> = Table(super::ops(close, Some(bind), Some(control)));

/// A piece of memory, and what may be done there.
struct Wanted {
    start: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
}

/// Gives the program a registration.
///
/// # Safety
/// `domain` is a domain of the program's, `mr` its place for the pointer; the memory may be accessed so until
/// the registration is closed.
unsafe fn give(domain: *mut fid, wanted: &Wanted, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int {
    count(Op::MrReg);
    if wanted.access & !ACCESS != 0 {
        return -FI_ENOSYS;
    }
    // SAFETY: by the caller's word.
    if wanted.offset != 0 || unsafe { (*domain).fclass } != FI_CLASS_DOMAIN {
        return -FI_EINVAL;
    }
    // SAFETY: a domain, as its class says.
    let object = unsafe { Object::of(domain.cast::<fid_domain>()) };
    let start = wanted.start.expose_provenance();
    let made = object.domain.lock().shared.memory.register(start, wanted.len, wanted.access, wanted.key);
    match made {
        Ok((number, key)) => {
            let fid = fid { fclass: FI_CLASS_MR, context, ops: OPS.pointer() };
            let c = fid_mr { fid, mem_desc: std::ptr::null_mut(), key };
            // SAFETY: by the caller's word.
            unsafe { *mr = Object::give(c, Arc::clone(&object.domain), number) };
            0
        }
        Err(error) => -error,
    }
}

/// `fi_mr_reg(3)`.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe extern "C" fn reg(
    domain: *mut fid,
    start: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { give(domain, &Wanted { start, len, access, offset, key }, mr, context) }
}

/// The one piece of a list.
///
/// # Safety
/// `pieces` structures can be read from `list`.
unsafe fn only(list: *const iovec, pieces: usize) -> Option<(*const c_void, usize)> {
    if list.is_null() || pieces != 1 {
        return None;
    }
    // SAFETY: by the caller's word.
    let piece = unsafe { &*list };
    Some((piece.iov_base, piece.iov_len))
}

#[allow(clippy::too_many_arguments)]
pub(super) unsafe extern "C" fn regv(
    domain: *mut fid,
    list: *const iovec,
    pieces: usize,
    access: u64,
    offset: u64,
    key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe {
        let Some((start, len)) = only(list, pieces) else { return -FI_EINVAL };
        give(domain, &Wanted { start, len, access, offset, key }, mr, context)
    }
}

pub(super) unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    _flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the program's attributes, and its place for the pointer.
    unsafe {
        let fi_mr_attr { access, offset, requested_key: key, context, mr_iov, iov_count, .. } = *attr;
        let Some((start, len)) = only(mr_iov, iov_count) else { return -FI_EINVAL };
        give(domain, &Wanted { start, len, access, offset, key }, mr, context)
    }
}

/// `fi_mr_bind(3)`: a counter of what peers do there. End points are bound to all memory of their domain.
unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: a registration of the program's, and an object.
    let (object, class) = unsafe { (Object::of(fid.cast::<fid_mr>()), (*other).fclass) };
    match class {
        FI_CLASS_EP => 0,
        FI_CLASS_CNTR => {
            // SAFETY: a counter, as its class says.
            let number = unsafe { cntr::number(other) };
            let shared = &mut object.domain.lock().shared;
            let Some(counters) = shared.memory.counters(object.number) else { return -FI_EINVAL };
            let mut changes = Vec::new();
            if flags & FI_REMOTE_READ != 0 {
                changes.push(counters.reads.replace(number));
            }
            if flags & FI_REMOTE_WRITE != 0 {
                changes.push(counters.writes.replace(number));
            }
            for before in changes {
                shared.bind(number);
                before.into_iter().for_each(|before| shared.unbind(before));
            }
            0
        }
        _ => -FI_ENOSYS,
    }
}

/// `fi_mr_enable(3)`: it can be used since it was made.
unsafe extern "C" fn control(_: *mut fid, command: c_int, _: *mut c_void) -> c_int {
    if command == FI_ENABLE { 0 } else { -FI_ENOSYS }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let _no_points = no_points();
    let pointer = fid.cast::<fid_mr>();
    // SAFETY: a registration of the program's.
    let object = unsafe { Object::of(pointer) };
    let until = Instant::now() + CLOSE_LIMIT;
    let mut has_left = false;
    loop {
        let mut state = object.domain.lock();
        let counters = state.shared.memory.counters(object.number).copied().unwrap_or_default();
        if state.shared.memory.remove(object.number) {
            [counters.reads, counters.writes].into_iter().flatten().for_each(|it| state.shared.unbind(it));
            break;
        }
        state.progress_all();
        if Instant::now() >= until {
            state.leave_region(object.number);
            if has_left {
                return -FI_EBUSY;
            }
            has_left = true;
        }
        drop(state);
        std::thread::yield_now();
    }
    // SAFETY: made by `give`, and used no more.
    drop(unsafe { Object::take_back(pointer) });
    0
}
