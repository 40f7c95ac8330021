//! Atomic operations on a peer's memory: `fi_atomic(3)`.
//!
//! What [`super::msg`] says of its functions holds for these; lists of operands, of results and of what is
//! compared with are lists of elements.

use fabric_sys::abi::{
    fi_addr_t, fi_atomic_attr, fi_datatype, fi_ioc, fi_op, fi_ops_atomic, fi_rma_ioc, fid_domain, fid_ep,
};
use fabric_sys::constants::FI_EINVAL;
use libc::{c_int, c_void};
use message_queue::Buffers;
use message_queue::buffers::Source as _;
use shm::lent::Piece;

use super::ep::Flags;
use super::remote::{Remote, Target, begin};
use crate::abi::{FI_COMPARE_ATOMIC, FI_EOPNOTSUPP, FI_FETCH_ATOMIC, fi_msg_atomic};
use crate::absent::Table;
use crate::engine::arithmetic::{Form, element_bytes, is_read};
use crate::engine::request::{INLINE_MAX_BYTES, What};
use crate::trace::{Op, count};

pub(super) static OPS: Table<fi_ops_atomic> = Table(fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: write as *const c_void,
    writev: writev as *const c_void,
    writemsg: writemsg as *const c_void,
    inject: inject as *const c_void,
    readwrite: Some(readwrite),
    readwritev: readwritev as *const c_void,
    readwritemsg: readwritemsg as *const c_void,
    compwrite: Some(compwrite),
    compwritev: compwritev as *const c_void,
    compwritemsg: compwritemsg as *const c_void,
    writevalid: writevalid as *const c_void,
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
});

/// Elements that one operation may change.
fn most(element_bytes: usize) -> usize {
    INLINE_MAX_BYTES / element_bytes
}

/// The kind of an atomic operation.
#[derive(Clone, Copy)]
struct Kind {
    form: Form,
    datatype: fi_datatype,
    op: fi_op,
}

impl Kind {
    fn element_bytes(self) -> Option<usize> {
        element_bytes(self.datatype, self.op, self.form)
    }

    fn what(self) -> What {
        match self.form {
            Form::Plain => What::Atomic,
            Form::Fetch => What::Fetch,
            Form::Compare => What::Compare,
        }
    }

    /// How many elements one call may have.
    ///
    /// # Safety
    /// `count` is null or a place for a number.
    unsafe fn valid(self, count: *mut usize) -> c_int {
        let Some(bytes) = self.element_bytes() else { return -FI_EOPNOTSUPP };
        if !count.is_null() {
            // SAFETY: by the caller's word.
            unsafe { *count = most(bytes) };
        }
        0
    }
}

/// Elements in the program's memory, by their lists.
#[derive(Clone, Copy)]
struct Lists {
    operands: (*const fi_ioc, usize),
    compares: (*const fi_ioc, usize),
    results: (*const fi_ioc, usize),
}

const NONE: (*const fi_ioc, usize) = (std::ptr::null(), 0);

/// The memory of elements; with no address zeroes, as an operation may have no operands.
///
/// # Safety
/// As [`crate::engine::buffers::of_list`].
unsafe fn elements((list, count): (*const fi_ioc, usize), element_bytes: usize) -> Option<Vec<Piece>> {
    if count == 0 || list.is_null() {
        return Some(Vec::new());
    }
    // SAFETY: by the caller's word.
    let list = unsafe { std::slice::from_raw_parts(list, count) };
    let pieces = list.iter().map(|part| {
        let bytes = part.count.checked_mul(element_bytes)?;
        // SAFETY: by the caller's word.
        Some(unsafe { Piece::new(part.addr.cast(), if part.addr.is_null() { 0 } else { bytes }) })
    });
    pieces.collect()
}

/// Begins an operation on `wanted` elements.
///
/// # Safety
/// As the functions of the module.
unsafe fn change(
    ep: *mut fid_ep,
    kind: Kind,
    lists: &Lists,
    (wanted, target): (usize, Target),
    context: *mut c_void,
    flags: Flags,
) -> isize {
    count(Op::Atomic);
    let Some(size) = kind.element_bytes() else { return -(FI_EOPNOTSUPP as isize) };
    if wanted == 0 || wanted > most(size) {
        return -(FI_EINVAL as isize);
    }
    let len = wanted * size;
    // SAFETY: by the caller's word.
    let parts = unsafe {
        (elements(lists.operands, size), elements(lists.compares, size), elements(lists.results, size))
    };
    let (Some(operands), Some(compares), Some(results)) = parts else { return -(FI_EINVAL as isize) };
    let mut bytes = Buffers::Scattered(operands.into()).to_vec();
    if bytes.is_empty() && kind.form == Form::Fetch && is_read(kind.op as u8) {
        bytes.resize(len, 0);
    }
    let compares = Buffers::Scattered(compares.into()).to_vec();
    let wanted_compares = if kind.form == Form::Compare { len } else { 0 };
    if bytes.len() != len || compares.len() != wanted_compares {
        return -(FI_EINVAL as isize);
    }
    bytes.extend(compares);
    let into = if kind.form == Form::Plain { Buffers::default() } else { Buffers::Scattered(results.into()) };
    if kind.form != Form::Plain && into.len() != len {
        return -(FI_EINVAL as isize);
    }
    let (datatype, op) = (kind.datatype as u8, kind.op as u8);
    let remote = Remote { what: kind.what(), datatype, op, target, data: None, context, flags };
    // SAFETY: by the caller's word.
    unsafe { begin(ep, &remote, Buffers::Owned(bytes), into) }
}

/// A list of one.
fn one(addr: *const c_void, count: usize) -> fi_ioc {
    fi_ioc { addr: addr.cast_mut(), count }
}

/// The number of elements of a list.
///
/// # Safety
/// As [`elements`].
unsafe fn count_of((list, count): (*const fi_ioc, usize)) -> usize {
    if count == 0 || list.is_null() {
        return 0;
    }
    // SAFETY: by the caller's word.
    unsafe { std::slice::from_raw_parts(list, count) }
        .iter()
        .fold(0, |sum: usize, part| sum.saturating_add(part.count))
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let operands = one(buf, count);
    let lists = Lists { operands: (&raw const operands, 1), compares: NONE, results: NONE };
    let kind = Kind { form: Form::Plain, datatype, op };
    // SAFETY: see the module.
    unsafe { change(ep, kind, &lists, (count, Target { to, address, key }), context, Flags::Default) }
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    list: *const fi_ioc,
    _desc: *mut *mut c_void,
    parts: usize,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let lists = Lists { operands: (list, parts), compares: NONE, results: NONE };
    let kind = Kind { form: Form::Plain, datatype, op };
    // SAFETY: see the module.
    unsafe {
        let wanted = count_of(lists.operands);
        change(ep, kind, &lists, (wanted, Target { to, address, key }), context, Flags::Default)
    }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
) -> isize {
    let operands = one(buf, count);
    let lists = Lists { operands: (&raw const operands, 1), compares: NONE, results: NONE };
    let kind = Kind { form: Form::Plain, datatype, op };
    let target = (count, Target { to, address, key });
    // SAFETY: see the module.
    unsafe { change(ep, kind, &lists, target, std::ptr::null_mut(), Flags::Inject) }
}

/// An operation that a structure describes.
///
/// # Safety
/// As the functions of the module.
unsafe fn change_by(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    form: Form,
    (compares, results): ((*const fi_ioc, usize), (*const fi_ioc, usize)),
    flags: u64,
) -> isize {
    // SAFETY: by the caller's word.
    unsafe {
        let msg = &*msg;
        let lists = Lists { operands: (msg.msg_iov, msg.iov_count), compares, results };
        if msg.rma_iov_count != 1 || msg.rma_iov.is_null() {
            return -(FI_EINVAL as isize);
        }
        let fi_rma_ioc { addr, count, key } = *msg.rma_iov;
        let kind = Kind { form, datatype: msg.datatype, op: msg.op };
        let target = Target { to: msg.addr, address: addr, key };
        change(ep, kind, &lists, (count, target), msg.context, Flags::Given(flags))
    }
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
    // SAFETY: see the module.
    unsafe { change_by(ep, msg, Form::Plain, (NONE, NONE), flags) }
}

unsafe extern "C" fn readwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (operands, results) = (one(buf, count), one(result, count));
    let lists =
        Lists { operands: (&raw const operands, 1), compares: NONE, results: (&raw const results, 1) };
    let kind = Kind { form: Form::Fetch, datatype, op };
    // SAFETY: see the module.
    unsafe { change(ep, kind, &lists, (count, Target { to, address, key }), context, Flags::Default) }
}

unsafe extern "C" fn readwritev(
    ep: *mut fid_ep,
    list: *const fi_ioc,
    _desc: *mut *mut c_void,
    parts: usize,
    results: *const fi_ioc,
    _result_desc: *mut *mut c_void,
    result_parts: usize,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let lists = Lists { operands: (list, parts), compares: NONE, results: (results, result_parts) };
    let kind = Kind { form: Form::Fetch, datatype, op };
    // SAFETY: see the module.
    unsafe {
        let wanted = count_of(lists.results);
        change(ep, kind, &lists, (wanted, Target { to, address, key }), context, Flags::Default)
    }
}

unsafe extern "C" fn readwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    results: *const fi_ioc,
    _result_desc: *mut *mut c_void,
    result_parts: usize,
    flags: u64,
) -> isize {
    // SAFETY: see the module.
    unsafe { change_by(ep, msg, Form::Fetch, (NONE, (results, result_parts)), flags) }
}

unsafe extern "C" fn compwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (operands, compares, results) = (one(buf, count), one(compare, count), one(result, count));
    let lists = Lists {
        operands: (&raw const operands, 1),
        compares: (&raw const compares, 1),
        results: (&raw const results, 1),
    };
    let kind = Kind { form: Form::Compare, datatype, op };
    // SAFETY: see the module.
    unsafe { change(ep, kind, &lists, (count, Target { to, address, key }), context, Flags::Default) }
}

unsafe extern "C" fn compwritev(
    ep: *mut fid_ep,
    list: *const fi_ioc,
    _desc: *mut *mut c_void,
    parts: usize,
    compares: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_parts: usize,
    results: *const fi_ioc,
    _result_desc: *mut *mut c_void,
    result_parts: usize,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let lists = Lists {
        operands: (list, parts),
        compares: (compares, compare_parts),
        results: (results, result_parts),
    };
    let kind = Kind { form: Form::Compare, datatype, op };
    // SAFETY: see the module.
    unsafe {
        let wanted = count_of(lists.results);
        change(ep, kind, &lists, (wanted, Target { to, address, key }), context, Flags::Default)
    }
}

unsafe extern "C" fn compwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    compares: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_parts: usize,
    results: *const fi_ioc,
    _result_desc: *mut *mut c_void,
    result_parts: usize,
    flags: u64,
) -> isize {
    // SAFETY: see the module.
    unsafe { change_by(ep, msg, Form::Compare, ((compares, compare_parts), (results, result_parts)), flags) }
}

unsafe extern "C" fn writevalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: see the module.
    unsafe { Kind { form: Form::Plain, datatype, op }.valid(count) }
}

unsafe extern "C" fn readwritevalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: see the module.
    unsafe { Kind { form: Form::Fetch, datatype, op }.valid(count) }
}

unsafe extern "C" fn compwritevalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: see the module.
    unsafe { Kind { form: Form::Compare, datatype, op }.valid(count) }
}

/// `fi_query_atomic(3)`.
pub(super) unsafe extern "C" fn query(
    _: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let form = match flags {
        0 => Form::Plain,
        FI_FETCH_ATOMIC => Form::Fetch,
        FI_COMPARE_ATOMIC => Form::Compare,
        _ => return -FI_EINVAL,
    };
    let Some(size) = element_bytes(datatype, op, form) else { return -FI_EOPNOTSUPP };
    if !attr.is_null() {
        // SAFETY: the program's structure.
        unsafe { ((*attr).size, (*attr).count) = (size, most(size)) };
    }
    0
}
