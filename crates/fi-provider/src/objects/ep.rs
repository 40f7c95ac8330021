//! `fid_ep`: end points. How messages are sent and received is in `msg` and `tagged`, which differ in the tag
//! alone.

use std::sync::Arc;

use cancellation::no_points;
use fabric_sys::abi::{fi_addr_t, fi_info, fi_ops, fi_ops_cm, fi_ops_ep, fid, fid_domain, fid_ep};
use fabric_sys::constants::{
    FI_ADDR_UNSPEC, FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_EINVAL, FI_ENABLE, FI_ENOMEM, FI_ENOSYS,
    FI_INJECT, FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_WRITE,
};
use libc::{c_int, c_void};
use message_queue::{Buffers, Want};

use super::{Object, atomic, av, cntr, cq, msg, ops, rma, tagged};
use crate::abi::{
    FI_CLAIM, FI_CLASS_AV, FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EP, FI_DIRECTED_RECV, FI_DISCARD,
    FI_EBADFLAGS, FI_EMSGSIZE, FI_ENOAV, FI_ENOENT, FI_EOPBADSTATE, FI_INJECT_COMPLETE, FI_MORE,
    FI_MULTI_RECV, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, FI_PEEK, FI_REMOTE_CQ_DATA,
    FI_SELECTIVE_COMPLETION, FI_TRANSMIT_COMPLETE,
};
use crate::absent::{ABSENT, Table};
use crate::engine::endpoint::{Bound, EAGER_MAX_BYTES, Endpoint, ReceiveRequest, SendRequest, Wishes};
use crate::trace::{self, Op, count};

/// Flags of a send that are known here.
pub(crate) const SEND_FLAGS: u64 = FI_COMPLETION
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_REMOTE_CQ_DATA
    | FI_MORE;
/// Flags of a receive that are known here.
pub(crate) const RECEIVE_FLAGS: u64 =
    FI_COMPLETION | FI_MORE | FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD;

static OPS: Table<fi_ops> = Table(ops(close, Some(bind), Some(control)));
static EP_OPS: Table<fi_ops_ep> = Table(fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: getopt as *const c_void,
    setopt: setopt as *const c_void,
    tx_ctx: ABSENT,
    rx_ctx: ABSENT,
    rx_size_left: ABSENT,
    tx_size_left: ABSENT,
});
static CM_OPS: Table<fi_ops_cm> = Table(fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: ABSENT,
    getname: Some(getname),
    getpeer: ABSENT,
    connect: ABSENT,
    listen: ABSENT,
    accept: ABSENT,
    reject: ABSENT,
    shutdown: ABSENT,
    join: ABSENT,
});

/// `fi_endpoint(3)`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    let _no_points = no_points();
    count(Op::Endpoint);
    // SAFETY: a domain of the program's, and what `fi_getinfo` has told it, which it may have changed.
    let (object, info) = unsafe { (Object::of(domain), info.as_ref()) };
    let Some(info) = info else { return -FI_EINVAL };
    // SAFETY: likewise; null or structures.
    let (tx, rx) = unsafe { (info.tx_attr.as_ref(), info.rx_attr.as_ref()) };
    let wishes = Wishes {
        is_directed: info.caps & FI_DIRECTED_RECV != 0,
        send_flags: tx.map_or(0, |attr| attr.op_flags),
        receive_flags: rx.map_or(0, |attr| attr.op_flags),
        is_target: info.caps & (FI_REMOTE_READ | FI_REMOTE_WRITE) != 0,
    };
    if wishes.send_flags & !SEND_FLAGS != 0 || wishes.receive_flags & !RECEIVE_FLAGS != 0 {
        return -FI_EBADFLAGS;
    }
    let mut state = object.domain.lock();
    let Some(endpoint) = Endpoint::new(wishes, &mut state.shared) else { return -FI_ENOMEM };
    let number = state.endpoints.insert(endpoint);
    let fid = fid { fclass: FI_CLASS_EP, context, ops: OPS.pointer() };
    let c = fid_ep {
        fid,
        ops: EP_OPS.pointer(),
        cm: CM_OPS.pointer(),
        msg: msg::OPS.pointer(),
        rma: rma::OPS.pointer(),
        tagged: tagged::OPS.pointer(),
        atomic: atomic::OPS.pointer(),
        collective: std::ptr::null_mut(),
    };
    // SAFETY: the program's place for the pointer.
    unsafe { *ep = Object::give(c, Arc::clone(&object.domain), number) };
    0
}

/// The same with flags, of which none is known here.
pub(crate) unsafe extern "C" fn open2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -FI_ENOSYS;
    }
    // SAFETY: the program's arguments.
    unsafe { open(domain, info, ep, context) }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let _no_points = no_points();
    // SAFETY: an end point of the program's, which it uses no more.
    let object = unsafe { Object::take_back(fid.cast::<fid_ep>()) };
    let mut state = object.domain.lock();
    let endpoint = state.remove_endpoint(object.number);
    drop(state);
    // Its thread ends here; it never waits for the domain.
    drop(endpoint);
    trace::tell();
    0
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    count(Op::Bind);
    // SAFETY: objects of the program's.
    let (object, class) = unsafe { (Object::of(fid.cast::<fid_ep>()), (*other).fclass) };
    let mut state = object.domain.lock();
    let Some(endpoint) = state.endpoints.get_mut(object.number) else { return -FI_EINVAL };
    // Sandia OpenSHMEM binds counters to an end point that is enabled.
    if endpoint.is_enabled() && class != FI_CLASS_CNTR {
        return -FI_EOPBADSTATE;
    }
    match class {
        FI_CLASS_AV => {
            // SAFETY: an address vector, as its class says.
            endpoint.vector = Some(unsafe { Object::of(other.cast::<fabric_sys::abi::fid_av>()) }.number);
        }
        FI_CLASS_CQ => {
            // SAFETY: a queue, as its class says.
            let queue = unsafe { cq::number(other) };
            let bound = Some(Bound { queue, is_selective: flags & FI_SELECTIVE_COMPLETION != 0 });
            if flags & FI_SEND != 0 {
                endpoint.send_queue = bound;
            }
            if flags & FI_RECV != 0 {
                endpoint.receive_queue = bound;
            }
            state.poll(queue, object.number);
        }
        FI_CLASS_CNTR => {
            // SAFETY: a counter, as its class says.
            let number = unsafe { cntr::number(other) };
            let places = [
                (FI_SEND, &mut endpoint.send_counter),
                (FI_RECV, &mut endpoint.receive_counter),
                (FI_READ, &mut endpoint.read_counter),
                (FI_WRITE, &mut endpoint.write_counter),
                (FI_REMOTE_READ, &mut endpoint.counters.reads),
                (FI_REMOTE_WRITE, &mut endpoint.counters.writes),
            ];
            let mut changes = Vec::new();
            for (flag, place) in places {
                if flags & flag != 0 {
                    changes.push(place.replace(number));
                }
            }
            endpoint.has_new_counters();
            for before in changes {
                state.shared.bind(number);
                before.into_iter().for_each(|before| state.shared.unbind(before));
            }
        }
        _ => return -FI_ENOSYS,
    }
    0
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, _: *mut c_void) -> c_int {
    let _no_points = no_points();
    if command != FI_ENABLE {
        return -FI_ENOSYS;
    }
    count(Op::Enable);
    // SAFETY: an end point of the program's.
    let object = unsafe { Object::of(fid.cast::<fid_ep>()) };
    let mut state = object.domain.lock();
    let Some(endpoint) = state.endpoints.get_mut(object.number) else { return -FI_EINVAL };
    if endpoint.vector.is_none() {
        return -FI_ENOAV;
    }
    match endpoint.enable() {
        Ok(()) => 0,
        Err(errno) => -errno.raw_os_error(),
    }
}

unsafe extern "C" fn getname(fid: *mut fid, addr: *mut c_void, len: *mut usize) -> c_int {
    count(Op::Getname);
    // SAFETY: an end point of the program's.
    let object = unsafe { Object::of(fid.cast::<fid_ep>()) };
    let state = object.domain.lock();
    let Some(endpoint) = state.endpoints.get(object.number) else { return -FI_EINVAL };
    // SAFETY: the program's buffer and its length.
    unsafe { av::give_name(&endpoint.name, addr, len) }
}

unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    count(Op::Cancel);
    // SAFETY: an end point of the program's.
    let object = unsafe { Object::of(fid.cast::<fid_ep>()) };
    let state = &mut *object.domain.lock();
    let endpoint = state.endpoints.get_mut(object.number);
    let is_cancelled = endpoint.is_some_and(|endpoint| endpoint.cancel(context.addr(), &mut state.shared));
    if is_cancelled { 0 } else { -(FI_ENOENT as isize) }
}

unsafe extern "C" fn setopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    count(Op::Setopt);
    if (level, name) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
        return -FI_ENOSYS;
    }
    if value.is_null() || len != size_of::<usize>() {
        return -FI_EINVAL;
    }
    // SAFETY: an end point of the program's, and a value of the length that was just checked.
    let (object, least) =
        unsafe { (Object::of(fid.cast::<fid_ep>()), value.cast::<usize>().read_unaligned()) };
    let mut state = object.domain.lock();
    let Some(endpoint) = state.endpoints.get_mut(object.number) else { return -FI_EINVAL };
    endpoint.least_for_many = least;
    0
}

unsafe extern "C" fn getopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    count(Op::Getopt);
    if (level, name) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
        return -FI_ENOSYS;
    }
    // SAFETY: an end point of the program's; a place for a value, and its length.
    unsafe {
        if *len < size_of::<usize>() {
            return -FI_EINVAL;
        }
        let object = Object::of(fid.cast::<fid_ep>());
        let state = object.domain.lock();
        let Some(endpoint) = state.endpoints.get(object.number) else { return -FI_EINVAL };
        value.cast::<usize>().write_unaligned(endpoint.least_for_many);
        *len = size_of::<usize>();
    }
    0
}

/// A send, whatever function it came through.
#[derive(Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) to: fi_addr_t,
    /// `None` for an untagged message.
    pub(super) tag: Option<u64>,
    pub(super) data: Option<u64>,
    pub(super) context: *mut c_void,
    pub(super) flags: Flags,
}

/// Where an operation's flags come from.
#[derive(Clone, Copy)]
pub(super) enum Flags {
    /// Those of the end point.
    Default,
    /// Those of the call; all of the end point's but the wish for a completion hold, too.
    Given(u64),
    /// There is no completion, and the memory may be used again at once.
    Inject,
}

/// Sends a message.
///
/// # Safety
/// An end point of the program's; the buffers are as [`crate::engine::buffers`] needs them.
#[inline]
pub(super) unsafe fn send(ep: *mut fid_ep, outgoing: &Outgoing, buffers: Buffers) -> isize {
    // SAFETY: by the caller's word.
    let object = unsafe { Object::of(ep) };
    let state = &mut *object.domain.lock();
    let Some(endpoint) = state.endpoints.get_mut(object.number) else { return -(FI_EINVAL as isize) };
    let flags = match outgoing.flags {
        Flags::Default => endpoint.wishes.send_flags,
        Flags::Given(flags) => flags | endpoint.wishes.send_flags & !FI_COMPLETION,
        Flags::Inject => FI_INJECT,
    };
    if flags & !SEND_FLAGS != 0 {
        return -(FI_EBADFLAGS as isize);
    }
    if flags & FI_INJECT != 0 && buffers.len() > EAGER_MAX_BYTES {
        return -(FI_EMSGSIZE as isize);
    }
    let peer = endpoint.vector.and_then(|number| state.shared.vectors.get(number)?.peer(outgoing.to));
    let Some(to) = peer else { return -(FI_EINVAL as isize) };
    let is_inject = matches!(outgoing.flags, Flags::Inject);
    let wants_completion = !is_inject
        && endpoint.send_queue.is_some_and(|bound| !bound.is_selective || flags & FI_COMPLETION != 0);
    let request = SendRequest {
        to,
        is_tagged: outgoing.tag.is_some(),
        tag: outgoing.tag.unwrap_or(0),
        data: outgoing.data,
        context: outgoing.context.expose_provenance(),
        wants_completion,
        wants_delivery: flags & FI_DELIVERY_COMPLETE != 0,
    };
    match endpoint.send(&request, buffers, &mut state.shared) {
        Ok(()) => 0,
        Err(error) => -(error as isize),
    }
}

/// A receive, whatever function it came through.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) from: fi_addr_t,
    /// The tag and the bits of it to be ignored; `None` for an untagged message.
    pub(super) tag: Option<(u64, u64)>,
    pub(super) context: *mut c_void,
    /// `None`: those of the end point.
    pub(super) flags: Option<u64>,
}

/// Receives, peeks at or claims a message.
///
/// # Safety
/// An end point of the program's; the buffers are as [`crate::engine::buffers`] needs them.
#[inline]
pub(super) unsafe fn receive(ep: *mut fid_ep, wanted: &Wanted, buffers: Buffers) -> isize {
    // SAFETY: by the caller's word.
    let object = unsafe { Object::of(ep) };
    let state = &mut *object.domain.lock();
    let Some(endpoint) = state.endpoints.get_mut(object.number) else { return -(FI_EINVAL as isize) };
    // Nothing could arrive for it, and it would never end.
    if !endpoint.is_enabled() {
        return -(FI_EOPBADSTATE as isize);
    }
    let default = endpoint.wishes.receive_flags;
    let flags = wanted.flags.map_or(default, |flags| flags | default & !FI_COMPLETION);
    if flags & !RECEIVE_FLAGS != 0 {
        return -(FI_EBADFLAGS as isize);
    }
    let source = if endpoint.wishes.is_directed && wanted.from != FI_ADDR_UNSPEC {
        let vector = endpoint.vector.and_then(|number| state.shared.vectors.get(number));
        // A message that was claimed is known by the program's pointer alone.
        let peer = vector.and_then(|vector| vector.peer(wanted.from));
        if peer.is_none() && flags & FI_CLAIM == 0 {
            return -(FI_EINVAL as isize);
        }
        peer
    } else {
        None
    };
    let (tag, ignore) = wanted.tag.unwrap_or((0, u64::MAX));
    let wants_completion =
        endpoint.receive_queue.is_some_and(|bound| !bound.is_selective || flags & FI_COMPLETION != 0);
    let request = ReceiveRequest {
        is_tagged: wanted.tag.is_some(),
        want: Want { source, tag, ignore },
        context: wanted.context.expose_provenance(),
        wants_completion,
    };
    let (is_claim, is_discard) = (flags & FI_CLAIM != 0, flags & FI_DISCARD != 0);
    let shared = &mut state.shared;
    if flags & FI_PEEK != 0 {
        endpoint.peek(&request, is_claim, is_discard, shared);
    } else if is_claim {
        if !endpoint.receive_claimed(&request, buffers, is_discard, shared) {
            return -(FI_EINVAL as isize);
        }
    } else if is_discard {
        return -(FI_EBADFLAGS as isize);
    } else if flags & FI_MULTI_RECV != 0 {
        let Buffers::Lent(memory) = buffers else { return -(FI_EINVAL as isize) };
        endpoint.receive_many(&request, memory, shared);
    } else {
        endpoint.receive(&request, buffers, shared);
    }
    0
}
