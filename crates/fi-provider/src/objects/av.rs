//! `fid_av`: numbers for addresses.

use std::sync::Arc;

use cancellation::no_points;
use fabric_sys::abi::{fi_addr_t, fi_av_attr, fi_ops, fi_ops_av, fid, fid_av, fid_domain};
use fabric_sys::constants::{FI_ADDR_NOTAVAIL, FI_EINVAL, FI_ENOSYS, FI_ETOOSMALL};
use libc::{c_char, c_int, c_void};

use super::Object;
use crate::abi::{FI_CLASS_AV, FI_ENOENT, FI_SYNC_ERR};
use crate::absent::{ABSENT, Table};
use crate::engine::name::{NAME_BYTES, Name};
use crate::engine::state::Vector;
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, None));
static AV_OPS: Table<fi_ops_av> = Table(fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: Some(insert),
    insertsvc: ABSENT,
    insertsym: ABSENT,
    remove: Some(remove),
    lookup: lookup as *const c_void,
    straddr: straddr as *const c_void,
    av_set: ABSENT,
});

/// `fi_av_open(3)`. A vector that several processes share (a named one) is not there: MPICH asks for one
/// first, and does without.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    let _no_points = no_points();
    count(Op::AvOpen);
    // SAFETY: a domain of the program's, and its attributes.
    let (object, attr) = unsafe { (Object::of(domain), attr.as_ref()) };
    let Some(attr) = attr else { return -FI_EINVAL };
    if !attr.name.is_null() || attr.flags != 0 || attr.rx_ctx_bits != 0 {
        return -FI_ENOSYS;
    }
    let number = object.domain.lock().shared.vectors.insert(Vector::default());
    let fid = fid { fclass: FI_CLASS_AV, context, ops: OPS.pointer() };
    let c = fid_av { fid, ops: AV_OPS.pointer() };
    // SAFETY: the program's place for the pointer.
    unsafe { *av = Object::give(c, Arc::clone(&object.domain), number) };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: a vector of the program's, which it uses no more.
    let object = unsafe { Object::take_back(fid.cast::<fid_av>()) };
    object.domain.lock().shared.vectors.remove(object.number);
    0
}

unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    len: usize,
    numbers: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let _no_points = no_points();
    count(Op::AvInsert);
    if flags & !(FI_SYNC_ERR | crate::abi::FI_MORE) != 0 {
        return -crate::abi::FI_EBADFLAGS;
    }
    // SAFETY: a vector of the program's.
    let object = unsafe { Object::of(av) };
    let mut state = object.domain.lock();
    let shared = &mut state.shared;
    let Some(vector) = shared.vectors.get_mut(object.number) else { return -FI_EINVAL };
    let mut inserted = 0;
    for at in 0..len {
        // SAFETY: the program passes so many addresses of the length that `fi_getname` told.
        let bytes = unsafe { addr.cast::<[u8; NAME_BYTES]>().add(at).read_unaligned() };
        let name = Name::of_bytes(&bytes);
        let number = name.map_or(FI_ADDR_NOTAVAIL, |name| vector.insert(shared.names.number(name)));
        inserted += c_int::from(name.is_some());
        if !numbers.is_null() {
            // SAFETY: the program's array has a place for each address.
            unsafe { *numbers.add(at) = number };
        }
        if flags & FI_SYNC_ERR != 0 && !context.is_null() {
            let error = if name.is_some() { 0 } else { libc::EHOSTUNREACH };
            // SAFETY: with this flag the context is an array with an integer for each address.
            unsafe { *context.cast::<c_int>().add(at) = error };
        }
    }
    inserted
}

unsafe extern "C" fn remove(av: *mut fid_av, numbers: *mut fi_addr_t, len: usize, _: u64) -> c_int {
    count(Op::AvRemove);
    // SAFETY: a vector of the program's.
    let object = unsafe { Object::of(av) };
    let mut state = object.domain.lock();
    let Some(vector) = state.shared.vectors.get_mut(object.number) else { return -FI_EINVAL };
    for at in 0..len {
        // SAFETY: the program's array has so many numbers.
        if !vector.remove(unsafe { *numbers.add(at) }) {
            return -FI_EINVAL;
        }
    }
    0
}

unsafe extern "C" fn lookup(av: *mut fid_av, number: fi_addr_t, addr: *mut c_void, len: *mut usize) -> c_int {
    count(Op::AvLookup);
    // SAFETY: a vector of the program's.
    let object = unsafe { Object::of(av) };
    let Some(name) = object.domain.lock().shared.look_up(object.number, number) else { return -FI_ENOENT };
    // SAFETY: the program's buffer and its length.
    unsafe { give_name(&name, addr, len) };
    0
}

/// Copies as much of a name as the program has room for, and says how long it is: `-FI_ETOOSMALL` if there
/// was too little room.
///
/// # Safety
/// `len` leads to the length of the buffer at `addr`.
pub(crate) unsafe fn give_name(name: &Name, addr: *mut c_void, len: *mut usize) -> c_int {
    let bytes = name.bytes();
    // SAFETY: by the caller's word.
    unsafe {
        let room = (*len).min(bytes.len());
        if room > 0 {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), room);
        }
        *len = bytes.len();
        if room < bytes.len() { -FI_ETOOSMALL } else { 0 }
    }
}

unsafe extern "C" fn straddr(
    _: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: the program passes an address of the length that `fi_getname` told.
    let bytes = unsafe { addr.cast::<[u8; NAME_BYTES]>().read_unaligned() };
    let text = Name::of_bytes(&bytes).map_or_else(|| "not an address of tieline".to_owned(), |n| n.text());
    // SAFETY: the program's buffer and its length.
    unsafe {
        if *len > 0 {
            let room = text.len().min(*len - 1);
            std::ptr::copy_nonoverlapping(text.as_ptr(), buf.cast(), room);
            *buf.add(room) = 0;
        }
        *len = text.len() + 1;
    }
    buf
}
