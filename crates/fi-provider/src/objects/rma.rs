//! Reads and writes of a peer's memory: `fi_rma(3)`.
//!
//! What [`super::msg`] says of its functions holds for these.

use fabric_sys::abi::{fi_addr_t, fi_msg_rma, fi_ops_rma, fi_rma_iov, fid_ep};
use fabric_sys::constants::FI_EINVAL;
use libc::{c_void, iovec};
use message_queue::Buffers;

use super::ep::Flags;
use super::remote::{Remote, Target, begin};
use crate::abi::FI_REMOTE_CQ_DATA;
use crate::absent::Table;
use crate::engine::buffers;
use crate::engine::request::What;
use crate::trace::{Op, count};

pub(super) static OPS: Table<fi_ops_rma> = Table(fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read: Some(read),
    readv: readv as *const c_void,
    readmsg: readmsg as *const c_void,
    write: Some(write),
    writev: writev as *const c_void,
    writemsg: Some(writemsg),
    inject: Some(inject),
    writedata: writedata as *const c_void,
    injectdata: injectdata as *const c_void,
});

fn to_read(target: Target, context: *mut c_void, flags: Flags) -> Remote {
    Remote { what: What::Read, datatype: 0, op: 0, target, data: None, context, flags }
}

fn to_write(target: Target, data: Option<u64>, context: *mut c_void, flags: Flags) -> Remote {
    Remote { what: What::Write, datatype: 0, op: 0, target, data, context, flags }
}

/// The one place in the peer's memory that a list may name, and whether it is as long.
///
/// # Safety
/// `count` structures can be read from `list`.
unsafe fn only(list: *const fi_rma_iov, count: usize, to: fi_addr_t, len: usize) -> Option<Target> {
    if count != 1 || list.is_null() {
        return None;
    }
    // SAFETY: by the caller's word.
    let one = unsafe { &*list };
    (one.len == len).then_some(Target { to, address: one.addr, key: one.key })
}

unsafe extern "C" fn read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    to: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Read);
    let remote = to_read(Target { to, address, key }, context, Flags::Default);
    // SAFETY: see the module.
    unsafe { begin(ep, &remote, Buffers::default(), buffers::one(buf.cast(), len)) }
}

unsafe extern "C" fn readv(
    ep: *mut fid_ep,
    list: *const iovec,
    _desc: *mut *mut c_void,
    pieces: usize,
    to: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Read);
    let remote = to_read(Target { to, address, key }, context, Flags::Default);
    // SAFETY: see the module.
    unsafe { begin(ep, &remote, Buffers::default(), buffers::of_list(list, pieces)) }
}

unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    count(Op::Read);
    // SAFETY: see the module.
    unsafe {
        let msg = &*msg;
        let into = buffers::of_list(msg.msg_iov, msg.iov_count);
        let Some(target) = only(msg.rma_iov, msg.rma_iov_count, msg.addr, into.len()) else {
            return -(FI_EINVAL as isize);
        };
        begin(ep, &to_read(target, msg.context, Flags::Given(flags)), Buffers::default(), into)
    }
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Write);
    let remote = to_write(Target { to, address, key }, None, context, Flags::Default);
    // SAFETY: see the module.
    unsafe { begin(ep, &remote, buffers::one(buf.cast_mut().cast(), len), Buffers::default()) }
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    list: *const iovec,
    _desc: *mut *mut c_void,
    pieces: usize,
    to: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Write);
    let remote = to_write(Target { to, address, key }, None, context, Flags::Default);
    // SAFETY: see the module.
    unsafe { begin(ep, &remote, buffers::of_list(list, pieces), Buffers::default()) }
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    count(Op::Write);
    // SAFETY: see the module.
    unsafe {
        let msg = &*msg;
        let bytes = buffers::of_list(msg.msg_iov, msg.iov_count);
        let Some(target) = only(msg.rma_iov, msg.rma_iov_count, msg.addr, bytes.len()) else {
            return -(FI_EINVAL as isize);
        };
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        begin(ep, &to_write(target, data, msg.context, Flags::Given(flags)), bytes, Buffers::default())
    }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    to: fi_addr_t,
    address: u64,
    key: u64,
) -> isize {
    count(Op::Write);
    let remote = to_write(Target { to, address, key }, None, std::ptr::null_mut(), Flags::Inject);
    // SAFETY: see the module.
    unsafe { begin(ep, &remote, buffers::one(buf.cast_mut().cast(), len), Buffers::default()) }
}

unsafe extern "C" fn writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Write);
    let remote = to_write(Target { to, address, key }, Some(data), context, Flags::Default);
    // SAFETY: see the module.
    unsafe { begin(ep, &remote, buffers::one(buf.cast_mut().cast(), len), Buffers::default()) }
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: fi_addr_t,
    address: u64,
    key: u64,
) -> isize {
    count(Op::Write);
    let remote = to_write(Target { to, address, key }, Some(data), std::ptr::null_mut(), Flags::Inject);
    // SAFETY: see the module.
    unsafe { begin(ep, &remote, buffers::one(buf.cast_mut().cast(), len), Buffers::default()) }
}
