//! Structures of libfabric 1.17, field by field as in its headers.
//!
//! Functions that tieline does not call stand as [`Unused`]: a place in a table. A union of which only the
//! size matters is an integer.
#![allow(missing_docs, non_camel_case_types)]

use libc::{c_char, c_int, c_uint, c_void, iovec};

/// An address in an address vector.
pub type fi_addr_t = u64;
/// A place in a table of functions that tieline does not call.
pub type Unused = *const c_void;

/// Enumerations are `unsigned int` in C; their values are in [`constants`](crate::constants).
pub type fi_ep_type = c_uint;
pub type fi_threading = c_uint;
pub type fi_progress = c_uint;
pub type fi_resource_mgmt = c_uint;
pub type fi_av_type = c_uint;
pub type fi_hmem_iface = c_uint;
pub type fi_wait_obj = c_uint;
pub type fi_cq_format = c_uint;
pub type fi_cq_wait_cond = c_uint;
pub type fi_datatype = c_uint;
pub type fi_op = c_uint;

/// Structures that are only pointed to.
#[repr(C)]
#[derive(Debug)]
pub struct Opaque {
    _private: [u8; 0],
}
pub type fid_nic = Opaque;
pub type fid_wait = Opaque;
pub type fi_ops_collective = Opaque;

/// A structure's name in C, its size, and its fields with their offsets: for the comparison with the C
/// headers.
#[derive(Debug)]
pub struct Layout {
    pub name: &'static str,
    pub size_bytes: usize,
    pub fields: &'static [(&'static str, usize)],
}

/// Declares structures as C lays them out, and lists their layouts.
macro_rules! layouts {
    ($(pub struct $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Debug, Clone, Copy)]
            pub struct $name {
                $(pub $field: $type,)*
            }

            impl $name {
                /// All bytes zero.
                pub const fn zeroed() -> Self {
                    // SAFETY: every field is an integer, a raw pointer or an `Option` of a function pointer,
                    // alone or in an array or in another structure of this list: all zeros are a value of
                    // each.
                    unsafe { std::mem::zeroed() }
                }
            }
        )*

        /// The layouts of all structures of this module.
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            name: stringify!($name),
            size_bytes: size_of::<$name>(),
            fields: &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*],
        },)*];
    };
}

layouts! {
    pub struct fi_tx_attr {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        inject_size: usize,
        size: usize,
        iov_limit: usize,
        rma_iov_limit: usize,
        tclass: u32,
    }

    pub struct fi_rx_attr {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        total_buffered_recv: usize,
        size: usize,
        iov_limit: usize,
    }

    pub struct fi_ep_attr {
        r#type: fi_ep_type,
        protocol: u32,
        protocol_version: u32,
        max_msg_size: usize,
        msg_prefix_size: usize,
        max_order_raw_size: usize,
        max_order_war_size: usize,
        max_order_waw_size: usize,
        mem_tag_format: u64,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        auth_key_size: usize,
        auth_key: *mut u8,
    }

    pub struct fi_domain_attr {
        domain: *mut fid_domain,
        name: *mut c_char,
        threading: fi_threading,
        control_progress: fi_progress,
        data_progress: fi_progress,
        resource_mgmt: fi_resource_mgmt,
        av_type: fi_av_type,
        mr_mode: c_int,
        mr_key_size: usize,
        cq_data_size: usize,
        cq_cnt: usize,
        ep_cnt: usize,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        max_ep_tx_ctx: usize,
        max_ep_rx_ctx: usize,
        max_ep_stx_ctx: usize,
        max_ep_srx_ctx: usize,
        cntr_cnt: usize,
        mr_iov_limit: usize,
        caps: u64,
        mode: u64,
        auth_key: *mut u8,
        auth_key_size: usize,
        max_err_data: usize,
        mr_cnt: usize,
        tclass: u32,
    }

    pub struct fi_fabric_attr {
        fabric: *mut fid_fabric,
        name: *mut c_char,
        prov_name: *mut c_char,
        prov_version: u32,
        api_version: u32,
    }

    pub struct fi_info {
        next: *mut fi_info,
        caps: u64,
        mode: u64,
        addr_format: u32,
        src_addrlen: usize,
        dest_addrlen: usize,
        src_addr: *mut c_void,
        dest_addr: *mut c_void,
        handle: *mut fid,
        tx_attr: *mut fi_tx_attr,
        rx_attr: *mut fi_rx_attr,
        ep_attr: *mut fi_ep_attr,
        domain_attr: *mut fi_domain_attr,
        fabric_attr: *mut fi_fabric_attr,
        nic: *mut fid_nic,
    }

    pub struct fi_ops {
        size: usize,
        close: Option<unsafe extern "C" fn(fid: *mut fid) -> c_int>,
        bind: Option<unsafe extern "C" fn(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int>,
        control: Option<unsafe extern "C" fn(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int>,
        ops_open: Unused,
        tostr: Unused,
        ops_set: Unused,
    }

    pub struct fid {
        fclass: usize,
        context: *mut c_void,
        ops: *mut fi_ops,
    }

    pub struct fi_ops_fabric {
        size: usize,
        domain: Option<unsafe extern "C" fn(fabric: *mut fid_fabric, info: *mut fi_info, dom: *mut *mut fid_domain, context: *mut c_void) -> c_int>,
        passive_ep: Unused,
        eq_open: Unused,
        wait_open: Unused,
        trywait: Option<unsafe extern "C" fn(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int>,
        domain2: Unused,
    }

    pub struct fid_fabric {
        fid: fid,
        ops: *mut fi_ops_fabric,
        api_version: u32,
    }

    pub struct fi_av_attr {
        r#type: fi_av_type,
        rx_ctx_bits: c_int,
        count: usize,
        ep_per_node: usize,
        name: *const c_char,
        map_addr: *mut c_void,
        flags: u64,
    }

    pub struct fi_ops_av {
        size: usize,
        insert: Option<unsafe extern "C" fn(av: *mut fid_av, addr: *const c_void, count: usize, fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void) -> c_int>,
        insertsvc: Unused,
        insertsym: Unused,
        remove: Option<unsafe extern "C" fn(av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int>,
        lookup: Unused,
        straddr: Unused,
        av_set: Unused,
    }

    pub struct fid_av {
        fid: fid,
        ops: *mut fi_ops_av,
    }

    pub struct fid_mr {
        fid: fid,
        mem_desc: *mut c_void,
        key: u64,
    }

    pub struct fi_mr_attr {
        mr_iov: *const iovec,
        iov_count: usize,
        access: u64,
        offset: u64,
        requested_key: u64,
        context: *mut c_void,
        auth_key_size: usize,
        auth_key: *mut u8,
        iface: fi_hmem_iface,
        device: u64,
    }

    pub struct fi_ops_domain {
        size: usize,
        av_open: Option<unsafe extern "C" fn(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av, context: *mut c_void) -> c_int>,
        cq_open: Option<unsafe extern "C" fn(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq, context: *mut c_void) -> c_int>,
        endpoint: Option<unsafe extern "C" fn(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, context: *mut c_void) -> c_int>,
        scalable_ep: Unused,
        cntr_open: Unused,
        poll_open: Unused,
        stx_ctx: Unused,
        srx_ctx: Unused,
        query_atomic: Option<unsafe extern "C" fn(domain: *mut fid_domain, datatype: fi_datatype, op: fi_op, attr: *mut fi_atomic_attr, flags: u64) -> c_int>,
        query_collective: Unused,
        endpoint2: Unused,
    }

    pub struct fi_ops_mr {
        size: usize,
        reg: Option<unsafe extern "C" fn(fid: *mut fid, buf: *const c_void, len: usize, access: u64, offset: u64, requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int>,
        regv: Unused,
        regattr: Unused,
    }

    pub struct fid_domain {
        fid: fid,
        ops: *mut fi_ops_domain,
        mr: *mut fi_ops_mr,
    }

    pub struct fi_ops_ep {
        size: usize,
        cancel: Option<unsafe extern "C" fn(fid: *mut fid, context: *mut c_void) -> isize>,
        getopt: Unused,
        setopt: Unused,
        tx_ctx: Unused,
        rx_ctx: Unused,
        rx_size_left: Unused,
        tx_size_left: Unused,
    }

    pub struct fi_ops_msg {
        size: usize,
        recv: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, context: *mut c_void) -> isize>,
        recvv: Unused,
        recvmsg: Unused,
        send: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, context: *mut c_void) -> isize>,
        sendv: Unused,
        sendmsg: Unused,
        inject: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t) -> isize>,
        senddata: Unused,
        injectdata: Unused,
    }

    pub struct fid_ep {
        fid: fid,
        ops: *mut fi_ops_ep,
        cm: *mut fi_ops_cm,
        msg: *mut fi_ops_msg,
        rma: *mut fi_ops_rma,
        tagged: *mut fi_ops_tagged,
        atomic: *mut fi_ops_atomic,
        collective: *mut fi_ops_collective,
    }

    pub struct fi_cq_data_entry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
    }

    pub struct fi_cq_err_entry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
        olen: usize,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
    }

    pub struct fi_cq_attr {
        size: usize,
        flags: u64,
        format: fi_cq_format,
        wait_obj: fi_wait_obj,
        signaling_vector: c_int,
        wait_cond: fi_cq_wait_cond,
        wait_set: *mut fid_wait,
    }

    pub struct fi_ops_cq {
        size: usize,
        read: Option<unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize>,
        readfrom: Unused,
        readerr: Option<unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize>,
        sread: Unused,
        sreadfrom: Unused,
        signal: Unused,
        strerror: Option<unsafe extern "C" fn(cq: *mut fid_cq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char, len: usize) -> *const c_char>,
    }

    pub struct fid_cq {
        fid: fid,
        ops: *mut fi_ops_cq,
    }

    pub struct fi_rma_iov {
        addr: u64,
        len: usize,
        key: u64,
    }

    pub struct fi_rma_ioc {
        addr: u64,
        count: usize,
        key: u64,
    }

    pub struct fi_ioc {
        addr: *mut c_void,
        count: usize,
    }

    pub struct fi_msg_rma {
        msg_iov: *const iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: fi_addr_t,
        rma_iov: *const fi_rma_iov,
        rma_iov_count: usize,
        context: *mut c_void,
        data: u64,
    }

    pub struct fi_ops_rma {
        size: usize,
        read: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> isize>,
        readv: Unused,
        readmsg: Unused,
        write: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> isize>,
        writev: Unused,
        writemsg: Option<unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize>,
        inject: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, addr: u64, key: u64) -> isize>,
        writedata: Unused,
        injectdata: Unused,
    }

    pub struct fi_ops_tagged {
        size: usize,
        recv: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void) -> isize>,
        recvv: Unused,
        recvmsg: Unused,
        send: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> isize>,
        sendv: Unused,
        sendmsg: Unused,
        inject: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, tag: u64) -> isize>,
        senddata: Unused,
        injectdata: Unused,
    }

    pub struct fi_ops_atomic {
        size: usize,
        write: Unused,
        writev: Unused,
        writemsg: Unused,
        inject: Unused,
        readwrite: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize>,
        readwritev: Unused,
        readwritemsg: Unused,
        compwrite: Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, compare: *const c_void, compare_desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize>,
        compwritev: Unused,
        compwritemsg: Unused,
        writevalid: Unused,
        readwritevalid: Option<unsafe extern "C" fn(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int>,
        compwritevalid: Option<unsafe extern "C" fn(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int>,
    }

    pub struct fi_atomic_attr {
        count: usize,
        size: usize,
    }

    pub struct fi_ops_cm {
        size: usize,
        setname: Unused,
        getname: Option<unsafe extern "C" fn(fid: *mut fid, addr: *mut c_void, addrlen: *mut usize) -> c_int>,
        getpeer: Unused,
        connect: Unused,
        listen: Unused,
        accept: Unused,
        reject: Unused,
        shutdown: Unused,
        join: Unused,
    }

    pub struct fi_context {
        internal: [*mut c_void; 4],
    }

    pub struct fi_context2 {
        internal: [*mut c_void; 8],
    }
}
