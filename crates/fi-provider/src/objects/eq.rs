//! `fid_eq`: queues of events. Nothing here has events, because addresses are inserted at once and nothing is
//! connected; but programs open a queue before they know that (`fi_pingpong` does).

use std::time::Duration;

use cancellation::no_points;
use fabric_sys::abi::{fi_ops, fid, fid_fabric};
use fabric_sys::constants::FI_EAGAIN;
use libc::{c_int, c_void};

use crate::abi::{FI_CLASS_EQ, fi_ops_eq, fid_eq};
use crate::absent::{ABSENT, Table};
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, None));
static EQ_OPS: Table<fi_ops_eq> =
    Table(fi_ops_eq { size: size_of::<fi_ops_eq>(), read, readerr, write: ABSENT, sread, strerror: ABSENT });

/// `fi_eq_open(3)`.
pub(crate) unsafe extern "C" fn open(
    _: *mut fid_fabric,
    _attr: *mut c_void,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    count(Op::EqOpen);
    let fid = fid { fclass: FI_CLASS_EQ, context, ops: OPS.pointer() };
    // SAFETY: the program's place for the pointer.
    unsafe { *eq = Box::into_raw(Box::new(fid_eq { fid, ops: EQ_OPS.pointer() })) };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: made by `open`, and used no more.
    drop(unsafe { Box::from_raw(fid.cast::<fid_eq>()) });
    0
}

unsafe extern "C" fn read(_: *mut fid_eq, _: *mut u32, _: *mut c_void, _: usize, _: u64) -> isize {
    -(FI_EAGAIN as isize)
}

unsafe extern "C" fn readerr(_: *mut fid_eq, _: *mut c_void, _: u64) -> isize {
    -(FI_EAGAIN as isize)
}

unsafe extern "C" fn sread(
    _: *mut fid_eq,
    _: *mut u32,
    _: *mut c_void,
    _: usize,
    timeout: c_int,
    _: u64,
) -> isize {
    let _no_points = no_points();
    // For ever, if the program wants that: it waits for what will not come.
    let longest = u64::try_from(timeout).map_or(Duration::MAX, Duration::from_millis);
    std::thread::sleep(longest);
    -(FI_EAGAIN as isize)
}
