//! `fid_fabric`: the network.

use cancellation::no_points;
use fabric_sys::abi::{fi_fabric_attr, fi_ops, fi_ops_fabric, fid, fid_fabric};
use fabric_sys::constants::FI_ENOSYS;
use libc::{c_int, c_void};

use super::{cntr, cq, domain, eq, wait_set};
use crate::abi::{FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_FABRIC, FI_CLASS_WAIT};
use crate::absent::{ABSENT, Table};
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, None));
static FABRIC_OPS: Table<fi_ops_fabric> = Table(fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(domain::open),
    passive_ep: ABSENT,
    eq_open: eq::open as *const c_void,
    wait_open: wait_set::open as *const c_void,
    trywait: Some(trywait),
    domain2: domain::open2 as *const c_void,
});

/// `fi_fabric(3)`.
pub(crate) unsafe extern "C" fn open(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    count(Op::Fabric);
    // SAFETY: libfabric has read the attributes before it called.
    let api_version = unsafe { (*attr).api_version };
    let fid = fid { fclass: FI_CLASS_FABRIC, context, ops: OPS.pointer() };
    let made = Box::new(fid_fabric { fid, ops: FABRIC_OPS.pointer(), api_version });
    // SAFETY: the program's place for the pointer.
    unsafe { *fabric = Box::into_raw(made) };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: made by `open`, and used no more.
    drop(unsafe { Box::from_raw(fid.cast::<fid_fabric>()) });
    0
}

/// Whether the program may wait for the descriptors of all of these objects: queues of completions, counters
/// and wait sets, because others have none.
unsafe extern "C" fn trywait(_: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    let _no_points = no_points();
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the program's array has so many objects.
        let (fid, class) = unsafe {
            let fid = *fids.add(at);
            (fid, (*fid).fclass)
        };
        // SAFETY: objects of the program's, of the class that they say.
        let may_wait = unsafe {
            match class {
                FI_CLASS_CQ => cq::try_wait(fid),
                FI_CLASS_CNTR => cntr::try_wait(fid),
                FI_CLASS_WAIT => wait_set::try_wait(fid),
                _ => -FI_ENOSYS,
            }
        };
        if may_wait != 0 {
            return may_wait;
        }
    }
    0
}
