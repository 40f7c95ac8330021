//! The inline functions of libfabric's headers: calls through the tables of functions that an object carries.
//!
//! A function that a table lacks answers `-FI_ENOSYS`. All are unsafe alike, so it is said once:
//!
//! # Safety
//! The first argument points to a live object that libfabric made and that nobody closes during the call;
//! every other pointer is valid for what the manual page of the function says it is used for, buffers and
//! contexts until their completion has been read.
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]

use libc::{c_char, c_int, c_void};

use crate::abi::{
    fi_addr_t, fi_av_attr, fi_cq_attr, fi_cq_err_entry, fi_datatype, fi_info, fi_msg_rma, fi_op, fid, fid_av,
    fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr,
};
use crate::constants::FI_ENOSYS;

/// Declares a function that calls a member of the table `(*object).$table`.
macro_rules! through_table {
    ($($(#[$doc:meta])* $name:ident = $table:ident => $op:ident ($object:ident: $type:ty $(, $arg:ident: $arg_type:ty)*) -> $ret:ty;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// See the module.
            #[inline]
            pub unsafe fn $name($object: *mut $type $(, $arg: $arg_type)*) -> $ret {
                // SAFETY: the object is live by the caller's word. A provider gives each object a table, or
                // none for abilities that were not asked for; the member read here has been in each such
                // table since API 1.0. The arguments are the caller's.
                unsafe {
                    let table = (*$object).$table;
                    if table.is_null() {
                        return -(FI_ENOSYS as $ret);
                    }
                    match (*table).$op {
                        Some(function) => function(through_table!(@object $object $table) $(, $arg)*),
                        None => -(FI_ENOSYS as $ret),
                    }
                }
            }
        )*
    };
    // The table of a `fid` takes the `fid`, the table for registrations the `fid` of the domain, all others
    // the object.
    (@object $object:ident mr) => { &raw mut (*$object).fid };
    (@object $object:ident cm) => { &raw mut (*$object).fid };
    (@object $object:ident $table:ident) => { $object };
}

through_table! {
    /// Closes an object.
    fi_close = ops => close(object: fid) -> c_int;
    /// Binds an object to another.
    fi_bind = ops => bind(object: fid, to: *mut fid, flags: u64) -> c_int;
    /// Sends an object a command.
    fi_control = ops => control(object: fid, command: c_int, arg: *mut c_void) -> c_int;
    /// Opens a domain.
    fi_domain = ops => domain(fabric: fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain, context: *mut c_void) -> c_int;
    /// Whether one may sleep on the wait objects of these.
    fi_trywait = ops => trywait(fabric: fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int;
    /// Opens an address vector.
    fi_av_open = ops => av_open(domain: fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av, context: *mut c_void) -> c_int;
    /// Opens a completion queue.
    fi_cq_open = ops => cq_open(domain: fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq, context: *mut c_void) -> c_int;
    /// Opens an end point.
    fi_endpoint = ops => endpoint(domain: fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, context: *mut c_void) -> c_int;
    /// Registers memory.
    fi_mr_reg = mr => reg(domain: fid_domain, buf: *const c_void, len: usize, access: u64, offset: u64, requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int;
    /// Inserts addresses of peers.
    fi_av_insert = ops => insert(av: fid_av, addr: *const c_void, count: usize, fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void) -> c_int;
    /// Removes addresses of peers.
    fi_av_remove = ops => remove(av: fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int;
    /// Reads completions.
    fi_cq_read = ops => read(cq: fid_cq, buf: *mut c_void, count: usize) -> isize;
    /// Reads a completion with an error.
    fi_cq_readerr = ops => readerr(cq: fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize;
    /// The end point's own address.
    fi_getname = cm => getname(ep: fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int;
    /// Posts a buffer for a message.
    fi_recv = msg => recv(ep: fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, context: *mut c_void) -> isize;
    /// Sends a message.
    fi_send = msg => send(ep: fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, context: *mut c_void) -> isize;
    /// Posts a buffer for a tagged message.
    fi_trecv = tagged => recv(ep: fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void) -> isize;
    /// Sends a tagged message.
    fi_tsend = tagged => send(ep: fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> isize;
    /// Reads remote memory.
    fi_read = rma => read(ep: fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> isize;
    /// Writes remote memory.
    fi_write = rma => write(ep: fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> isize;
    /// Writes remote memory, with flags.
    fi_writemsg = rma => writemsg(ep: fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize;
    /// Changes remote memory and fetches what was there.
    fi_fetch_atomic = atomic => readwrite(ep: fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize;
    /// Compares and swaps remote memory, and fetches what was there.
    fi_compare_atomic = atomic => compwrite(ep: fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, compare: *const c_void, compare_desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize;
}

/// What a provider's own error number means: text in `buf` or of the provider's, or null.
///
/// # Safety
/// See the module.
pub unsafe fn fi_cq_strerror(
    cq: *mut fid_cq,
    prov_errno: c_int,
    err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: as for the functions above.
    unsafe {
        let table = (*cq).ops;
        match table.as_ref().and_then(|table| table.strerror) {
            Some(function) => function(cq, prov_errno, err_data, buf, len),
            None => std::ptr::null(),
        }
    }
}
