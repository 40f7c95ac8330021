//! What a provider needs of libfabric's binary interface beyond `fabric_sys`: field by field as in the
//! headers of 1.17. Structures of 2.x begin alike: see `docs` of the crate `fabric-sys`.
#![allow(non_camel_case_types)]

use fabric_sys::abi::{
    fi_addr_t, fi_context, fi_datatype, fi_fabric_attr, fi_info, fi_ioc, fi_op, fi_rma_ioc, fid, fid_fabric,
};
use libc::{c_char, c_int, c_void, iovec};

/// A version as the headers write it.
pub(crate) const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

/// What a provider tells libfabric of itself (`rdma/providers/fi_prov.h`).
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_provider {
    pub version: u32,
    pub fi_version: u32,
    pub context: fi_context,
    pub name: *const c_char,
    pub getinfo: Option<
        unsafe extern "C" fn(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            info: *mut *mut fi_info,
        ) -> c_int,
    >,
    pub fabric: Option<
        unsafe extern "C" fn(
            attr: *mut fi_fabric_attr,
            fabric: *mut *mut fid_fabric,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub cleanup: Option<unsafe extern "C" fn()>,
}

#[repr(C)]
pub(crate) struct fi_msg {
    pub(crate) msg_iov: *const iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: fi_addr_t,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct fi_msg_tagged {
    pub(crate) msg_iov: *const iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: fi_addr_t,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct fi_msg_atomic {
    pub(crate) msg_iov: *const fi_ioc,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: fi_addr_t,
    pub(crate) rma_iov: *const fi_rma_ioc,
    pub(crate) rma_iov_count: usize,
    pub(crate) datatype: fi_datatype,
    pub(crate) op: fi_op,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

/// The longest form of a completion; each shorter form is its beginning.
#[repr(C)]
pub(crate) struct fi_cq_tagged_entry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
}

#[repr(C)]
pub(crate) struct fi_ops_cntr {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(cntr: *mut fid_cntr) -> u64,
    pub(crate) readerr: unsafe extern "C" fn(cntr: *mut fid_cntr) -> u64,
    pub(crate) add: unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int,
    pub(crate) set: unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int,
    pub(crate) wait: unsafe extern "C" fn(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int,
    pub(crate) adderr: unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int,
    pub(crate) seterr: unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int,
}

#[repr(C)]
pub(crate) struct fi_cntr_attr {
    pub(crate) events: u32,
    pub(crate) wait_obj: u32,
    pub(crate) wait_set: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct fid_cntr {
    pub(crate) fid: fid,
    pub(crate) ops: *mut fi_ops_cntr,
}

#[repr(C)]
pub(crate) struct fi_wait_attr {
    pub(crate) wait_obj: u32,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct fi_ops_wait {
    pub(crate) size: usize,
    pub(crate) wait: unsafe extern "C" fn(waitset: *mut fid_wait, timeout: c_int) -> c_int,
}

#[repr(C)]
pub(crate) struct fid_wait {
    pub(crate) fid: fid,
    pub(crate) ops: *mut fi_ops_wait,
}

#[repr(C)]
pub(crate) struct fi_poll_attr {
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct fi_ops_poll {
    pub(crate) size: usize,
    pub(crate) poll:
        unsafe extern "C" fn(set: *mut fid_poll, context: *mut *mut c_void, count: c_int) -> c_int,
    pub(crate) poll_add: unsafe extern "C" fn(set: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
    pub(crate) poll_del: unsafe extern "C" fn(set: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
}

#[repr(C)]
pub(crate) struct fid_poll {
    pub(crate) fid: fid,
    pub(crate) ops: *mut fi_ops_poll,
}

#[repr(C)]
pub(crate) struct fi_ops_eq {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, usize, u64) -> isize,
    pub(crate) readerr: unsafe extern "C" fn(*mut fid_eq, *mut c_void, u64) -> isize,
    pub(crate) write: *const c_void,
    pub(crate) sread: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, usize, c_int, u64) -> isize,
    pub(crate) strerror: *const c_void,
}

#[repr(C)]
pub(crate) struct fid_eq {
    pub(crate) fid: fid,
    pub(crate) ops: *mut fi_ops_eq,
}

const _: () = {
    assert!(size_of::<fi_msg_atomic>() == 72);
    assert!(size_of::<fi_provider>() == 72 && size_of::<fi_msg>() == 48 && size_of::<fi_msg_tagged>() == 64);
    assert!(size_of::<fi_cq_tagged_entry>() == 48 && size_of::<fi_ops_cntr>() == 64);
    assert!(size_of::<fid_wait>() == 32 && size_of::<fid_poll>() == 32 && size_of::<fi_wait_attr>() == 16);
    assert!(size_of::<fi_ops_wait>() == 16 && size_of::<fi_ops_poll>() == 32);
    assert!(size_of::<fid_cntr>() == 32 && size_of::<fid_eq>() == 32 && size_of::<fi_ops_eq>() == 48);
};

// Classes of objects.
pub(crate) const FI_CLASS_FABRIC: usize = 1;
pub(crate) const FI_CLASS_DOMAIN: usize = 2;
pub(crate) const FI_CLASS_EP: usize = 3;
pub(crate) const FI_CLASS_AV: usize = 11;
pub(crate) const FI_CLASS_MR: usize = 12;
pub(crate) const FI_CLASS_EQ: usize = 13;
pub(crate) const FI_CLASS_CQ: usize = 14;
pub(crate) const FI_CLASS_CNTR: usize = 15;
pub(crate) const FI_CLASS_WAIT: usize = 16;
pub(crate) const FI_CLASS_POLL: usize = 17;

// Capabilities and flags.
pub(crate) const FI_MULTI_RECV: u64 = 1 << 16;
pub(crate) const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
pub(crate) const FI_MORE: u64 = 1 << 18;
pub(crate) const FI_PEEK: u64 = 1 << 19;
pub(crate) const FI_INJECT_COMPLETE: u64 = 1 << 26;
pub(crate) const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
pub(crate) const FI_PROV_ATTR_ONLY: u64 = 1 << 54;
pub(crate) const FI_RMA_EVENT: u64 = 1 << 56;
pub(crate) const FI_SYNC_ERR: u64 = 1 << 58;
pub(crate) const FI_DISCARD: u64 = 1 << 58;
pub(crate) const FI_DIRECTED_RECV: u64 = 1 << 59;
pub(crate) const FI_CLAIM: u64 = 1 << 59;
pub(crate) const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;
pub(crate) const FI_FETCH_ATOMIC: u64 = 1 << 58;
pub(crate) const FI_COMPARE_ATOMIC: u64 = 1 << 59;
/// All 64 bits of a tag can be used, in any fields.
pub(crate) const FI_TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// A value of an enumeration that belongs to one provider.
pub(crate) const FI_PROV_SPECIFIC: u32 = 1 << 31;

pub(crate) const FI_THREAD_DOMAIN: u32 = 3;
pub(crate) const FI_CQ_FORMAT_UNSPEC: u32 = 0;
pub(crate) const FI_CQ_FORMAT_CONTEXT: u32 = 1;
pub(crate) const FI_CQ_FORMAT_MSG: u32 = 2;
pub(crate) const FI_CQ_FORMAT_TAGGED: u32 = 4;
pub(crate) const FI_WAIT_SET: u32 = 2;
pub(crate) const FI_WAIT_YIELD: u32 = 5;

pub(crate) const FI_OPT_ENDPOINT: c_int = 0;
pub(crate) const FI_OPT_MIN_MULTI_RECV: c_int = 0;

// Errors.
pub(crate) const FI_ENOENT: c_int = libc::ENOENT;
pub(crate) const FI_ENOMSG: c_int = libc::ENOMSG;
pub(crate) const FI_EMSGSIZE: c_int = libc::EMSGSIZE;
pub(crate) const FI_EBUSY: c_int = libc::EBUSY;
pub(crate) const FI_EOPNOTSUPP: c_int = libc::EOPNOTSUPP;
pub(crate) const FI_EOPBADSTATE: c_int = 258;
pub(crate) const FI_EBADFLAGS: c_int = 260;
pub(crate) const FI_ENOAV: c_int = 267;
