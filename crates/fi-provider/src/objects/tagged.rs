//! Tagged messages: `fi_tagged(3)`.
//!
//! Of all functions here: the end point is the program's; a buffer is lent until the completion has been
//! read, or, where there is none (`inject`), for the call; a list of pieces and a message's description for
//! the call.

use fabric_sys::abi::{fi_addr_t, fi_ops_tagged, fid_ep};
use libc::{c_void, iovec};

use super::ep::{Flags, Outgoing, Wanted, receive, send};
use crate::abi::{FI_REMOTE_CQ_DATA, fi_msg_tagged};
use crate::absent::Table;
use crate::engine::buffers;
use crate::trace::{Op, count};

pub(super) static OPS: Table<fi_ops_tagged> = Table(fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
    recv: Some(recv),
    recvv: recvv as *const c_void,
    recvmsg: recvmsg as *const c_void,
    send: Some(tsend),
    sendv: sendv as *const c_void,
    sendmsg: sendmsg as *const c_void,
    inject: Some(inject),
    senddata: senddata as *const c_void,
    injectdata: injectdata as *const c_void,
});

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Trecv);
    let wanted = Wanted { from, tag: Some((tag, ignore)), context, flags: None };
    // SAFETY: see the module.
    unsafe { receive(ep, &wanted, buffers::one(buf.cast(), len)) }
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    list: *const iovec,
    _desc: *mut *mut c_void,
    pieces: usize,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Trecvv);
    let wanted = Wanted { from, tag: Some((tag, ignore)), context, flags: None };
    // SAFETY: see the module.
    unsafe { receive(ep, &wanted, buffers::of_list(list, pieces)) }
}

unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    count(Op::Trecvmsg);
    // SAFETY: see the module.
    unsafe {
        let msg = &*msg;
        let (tag, flags) = (Some((msg.tag, msg.ignore)), Some(flags));
        let wanted = Wanted { from: msg.addr, tag, context: msg.context, flags };
        receive(ep, &wanted, buffers::of_list(msg.msg_iov, msg.iov_count))
    }
}

unsafe extern "C" fn tsend(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Tsend);
    let outgoing = Outgoing { to, tag: Some(tag), data: None, context, flags: Flags::Default };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::one(buf.cast_mut().cast(), len)) }
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    list: *const iovec,
    _desc: *mut *mut c_void,
    pieces: usize,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Tsendv);
    let outgoing = Outgoing { to, tag: Some(tag), data: None, context, flags: Flags::Default };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::of_list(list, pieces)) }
}

unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    count(Op::Tsendmsg);
    // SAFETY: see the module.
    unsafe {
        let msg = &*msg;
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let (tag, context, flags) = (Some(msg.tag), msg.context, Flags::Given(flags));
        let outgoing = Outgoing { to: msg.addr, tag, data, context, flags };
        send(ep, &outgoing, buffers::of_list(msg.msg_iov, msg.iov_count))
    }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    to: fi_addr_t,
    tag: u64,
) -> isize {
    count(Op::Tinject);
    let context = std::ptr::null_mut();
    let outgoing = Outgoing { to, tag: Some(tag), data: None, context, flags: Flags::Inject };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::one(buf.cast_mut().cast(), len)) }
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    count(Op::Tsenddata);
    let outgoing = Outgoing { to, tag: Some(tag), data: Some(data), context, flags: Flags::Default };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::one(buf.cast_mut().cast(), len)) }
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: fi_addr_t,
    tag: u64,
) -> isize {
    count(Op::Tinjectdata);
    let context = std::ptr::null_mut();
    let outgoing = Outgoing { to, tag: Some(tag), data: Some(data), context, flags: Flags::Inject };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::one(buf.cast_mut().cast(), len)) }
}
