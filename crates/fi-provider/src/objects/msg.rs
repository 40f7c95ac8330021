//! Untagged messages: `fi_msg(3)`.
//!
//! Of all functions here: the end point is the program's; a buffer is lent until the completion has been
//! read, or, where there is none (`inject`), for the call; a list of pieces and a message's description for
//! the call.

use fabric_sys::abi::{fi_addr_t, fi_ops_msg, fid_ep};
use libc::{c_void, iovec};

use super::ep::{Flags, Outgoing, Wanted, receive, send};
use crate::abi::{FI_REMOTE_CQ_DATA, fi_msg};
use crate::absent::Table;
use crate::engine::buffers;
use crate::trace::{Op, count};

pub(super) static OPS: Table<fi_ops_msg> = Table(fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recv: Some(recv),
    recvv: recvv as *const c_void,
    recvmsg: recvmsg as *const c_void,
    send: Some(send_one),
    sendv: sendv as *const c_void,
    sendmsg: sendmsg as *const c_void,
    inject: Some(inject),
    senddata: senddata as *const c_void,
    injectdata: injectdata as *const c_void,
});

unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    count(Op::Recv);
    let wanted = Wanted { from, tag: None, context, flags: None };
    // SAFETY: see the module.
    unsafe { receive(ep, &wanted, buffers::one(buf.cast(), len)) }
}

unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    list: *const iovec,
    _desc: *mut *mut c_void,
    pieces: usize,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    count(Op::Recvv);
    let wanted = Wanted { from, tag: None, context, flags: None };
    // SAFETY: see the module.
    unsafe { receive(ep, &wanted, buffers::of_list(list, pieces)) }
}

unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    count(Op::Recvmsg);
    // SAFETY: see the module.
    unsafe {
        let msg = &*msg;
        let wanted = Wanted { from: msg.addr, tag: None, context: msg.context, flags: Some(flags) };
        receive(ep, &wanted, buffers::of_list(msg.msg_iov, msg.iov_count))
    }
}

unsafe extern "C" fn send_one(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    count(Op::Send);
    let outgoing = Outgoing { to, tag: None, data: None, context, flags: Flags::Default };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::one(buf.cast_mut().cast(), len)) }
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    list: *const iovec,
    _desc: *mut *mut c_void,
    pieces: usize,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    count(Op::Sendv);
    let outgoing = Outgoing { to, tag: None, data: None, context, flags: Flags::Default };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::of_list(list, pieces)) }
}

unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    count(Op::Sendmsg);
    // SAFETY: see the module.
    unsafe {
        let msg = &*msg;
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let (context, flags) = (msg.context, Flags::Given(flags));
        let outgoing = Outgoing { to: msg.addr, tag: None, data, context, flags };
        send(ep, &outgoing, buffers::of_list(msg.msg_iov, msg.iov_count))
    }
}

unsafe extern "C" fn inject(ep: *mut fid_ep, buf: *const c_void, len: usize, to: fi_addr_t) -> isize {
    count(Op::Inject);
    let context = std::ptr::null_mut();
    let outgoing = Outgoing { to, tag: None, data: None, context, flags: Flags::Inject };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::one(buf.cast_mut().cast(), len)) }
}

unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    count(Op::Senddata);
    let outgoing = Outgoing { to, tag: None, data: Some(data), context, flags: Flags::Default };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::one(buf.cast_mut().cast(), len)) }
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: fi_addr_t,
) -> isize {
    count(Op::Injectdata);
    let context = std::ptr::null_mut();
    let outgoing = Outgoing { to, tag: None, data: Some(data), context, flags: Flags::Inject };
    // SAFETY: see the module.
    unsafe { send(ep, &outgoing, buffers::one(buf.cast_mut().cast(), len)) }
}
