//! `fid_domain`: where end points, queues, counters and address vectors belong together.

use std::sync::Arc;

use cancellation::no_points;
use fabric_sys::abi::{fi_info, fi_ops, fi_ops_domain, fi_ops_mr, fid, fid_domain, fid_fabric};
use fabric_sys::constants::{FI_ENOSYS, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_PROGRESS_AUTO};
use libc::{c_int, c_void};

use super::{Object, atomic, av, cntr, cq, ep, mr, poll_set};
use crate::abi::{FI_CLASS_DOMAIN, FI_EBUSY, FI_THREAD_DOMAIN};
use crate::absent::{ABSENT, Table};
use crate::engine::memory::Naming;
use crate::engine::state::Domain;
use crate::info::MR_BASIC;
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, None));
static DOMAIN_OPS: Table<fi_ops_domain> = Table(fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(av::open),
    cq_open: Some(cq::open),
    endpoint: Some(ep::open),
    scalable_ep: ABSENT,
    cntr_open: cntr::open as *const c_void,
    poll_open: poll_set::open as *const c_void,
    stx_ctx: ABSENT,
    srx_ctx: ABSENT,
    query_atomic: Some(atomic::query),
    query_collective: ABSENT,
    endpoint2: ep::open2 as *const c_void,
});
static MR_OPS: Table<fi_ops_mr> = Table(fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg: Some(mr::reg),
    regv: mr::regv as *const c_void,
    regattr: mr::regattr as *const c_void,
});

/// `fi_domain(3)`.
pub(crate) unsafe extern "C" fn open(
    _: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    let _no_points = no_points();
    count(Op::Domain);
    // SAFETY: what `fi_getinfo` has told the program, which it may have changed: null or structures.
    let attr = unsafe { info.as_ref().and_then(|info| info.domain_attr.as_ref()) };
    let is_auto = attr.is_some_and(|attr| attr.data_progress == FI_PROGRESS_AUTO);
    // The provider's own thread is one more.
    let is_serial = attr.is_some_and(|attr| attr.threading == FI_THREAD_DOMAIN) && !is_auto;
    let mode = attr.map_or(0, |attr| attr.mr_mode);
    let naming = Naming {
        is_virtual: mode & (MR_BASIC | FI_MR_VIRT_ADDR) != 0,
        chooses_keys: mode & (MR_BASIC | FI_MR_PROV_KEY) != 0,
    };
    let fid = fid { fclass: FI_CLASS_DOMAIN, context, ops: OPS.pointer() };
    let c = fid_domain { fid, ops: DOMAIN_OPS.pointer(), mr: MR_OPS.pointer() };
    let made = Arc::new(Domain::new(is_serial, naming));
    if is_auto && let Err(errno) = made.own_progress.start(Arc::downgrade(&made)) {
        return -errno.raw_os_error();
    }
    // SAFETY: the program's place for the pointer.
    unsafe { *domain = Object::give(c, made, 0) };
    0
}

/// The same with flags, of which none is known here.
pub(crate) unsafe extern "C" fn open2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -FI_ENOSYS;
    }
    // SAFETY: the program's arguments.
    unsafe { open(fabric, info, domain, context) }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let _no_points = no_points();
    let pointer = fid.cast::<fid_domain>();
    // SAFETY: a domain of the program's.
    let object = unsafe { Object::of(pointer) };
    // Its thread has the domain, too, now and then.
    let was_running = object.domain.own_progress.stop();
    if Arc::strong_count(&object.domain) > 1 {
        if was_running {
            let _ = object.domain.own_progress.start(Arc::downgrade(&object.domain));
        }
        return -FI_EBUSY;
    }
    // SAFETY: the program uses it no more, and nothing of it is left.
    drop(unsafe { Object::take_back(pointer) });
    0
}
