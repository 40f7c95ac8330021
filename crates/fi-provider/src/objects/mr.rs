//! `fid_mr`: registered memory. Messages need none of it here, and remote access is not there yet; but
//! programs register what they send whether that is needed or not (`fi_multi_recv` does).

use fabric_sys::abi::{fi_mr_attr, fi_ops, fid, fid_mr};
use fabric_sys::constants::{FI_ENOSYS, FI_READ, FI_RECV, FI_SEND, FI_WRITE};
use libc::{c_int, c_void, iovec};

use crate::abi::FI_CLASS_MR;
use crate::absent::Table;
use crate::trace::{Op, count};

/// What this process itself may do with memory: of what others might do, nothing.
const LOCAL: u64 = FI_SEND | FI_RECV | FI_READ | FI_WRITE;

static OPS: Table<fi_ops> = Table(super::ops(close, None, None));

/// Gives the program a registration.
///
/// # Safety
/// `mr` is the program's place for the pointer.
unsafe fn give(access: u64, key: u64, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int {
    count(Op::MrReg);
    if access & !LOCAL != 0 {
        return -FI_ENOSYS;
    }
    let fid = fid { fclass: FI_CLASS_MR, context, ops: OPS.pointer() };
    let made = Box::new(fid_mr { fid, mem_desc: std::ptr::null_mut(), key });
    // SAFETY: by the caller's word.
    unsafe { *mr = Box::into_raw(made) };
    0
}

/// `fi_mr_reg(3)`.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe extern "C" fn reg(
    _: *mut fid,
    _buf: *const c_void,
    _len: usize,
    access: u64,
    _offset: u64,
    requested_key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program's place for the pointer.
    unsafe { give(access, requested_key, mr, context) }
}

#[allow(clippy::too_many_arguments)]
pub(super) unsafe extern "C" fn regv(
    _: *mut fid,
    _list: *const iovec,
    _pieces: usize,
    access: u64,
    _offset: u64,
    requested_key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program's place for the pointer.
    unsafe { give(access, requested_key, mr, context) }
}

pub(super) unsafe extern "C" fn regattr(
    _: *mut fid,
    attr: *const fi_mr_attr,
    _flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the program's attributes, and its place for the pointer.
    unsafe { give((*attr).access, (*attr).requested_key, mr, (*attr).context) }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: made by `give`, and used no more.
    drop(unsafe { Box::from_raw(fid.cast::<fid_mr>()) });
    0
}
