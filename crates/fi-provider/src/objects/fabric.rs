//! `fid_fabric`: the network.

use fabric_sys::abi::{fi_fabric_attr, fi_ops, fi_ops_fabric, fid, fid_fabric};
use libc::{c_int, c_void};

use super::{domain, eq};
use crate::abi::FI_CLASS_FABRIC;
use crate::absent::{ABSENT, Table};
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, None));
static FABRIC_OPS: Table<fi_ops_fabric> = Table(fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(domain::open),
    passive_ep: ABSENT,
    eq_open: eq::open as *const c_void,
    wait_open: ABSENT,
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

/// There is nothing to sleep on yet, so nothing that forbids it.
unsafe extern "C" fn trywait(_: *mut fid_fabric, _: *mut *mut fid, _: c_int) -> c_int {
    -fabric_sys::constants::FI_ENOSYS
}
