//! The reply to `fi_getinfo`: one entry, if this provider can do what the hints ask for.
//!
//! libfabric frees what is returned with C's `free`, each structure for itself, so all of it comes from C's
//! allocator; and with room behind each structure, because later versions of libfabric have longer ones, and
//! read the fields that they have added: zeros.

mod hints;

use std::ffi::CStr;

use cancellation::no_points;
use fabric_sys::abi::{fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr};
use fabric_sys::constants::{
    FI_ATOMIC, FI_AV_TABLE, FI_ENODATA, FI_ENOMEM, FI_EP_RDM, FI_LOCAL_COMM, FI_MSG, FI_ORDER_SAS,
    FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL, FI_READ, FI_RECV, FI_REMOTE_COMM, FI_REMOTE_READ, FI_REMOTE_WRITE,
    FI_RM_ENABLED, FI_RMA, FI_SEND, FI_SOURCE, FI_TAGGED, FI_THREAD_SAFE, FI_WRITE,
};
use libc::{c_char, c_int};

use crate::abi::{
    FI_DIRECTED_RECV, FI_MULTI_RECV, FI_PROV_ATTR_ONLY, FI_PROV_SPECIFIC, FI_RMA_EVENT, FI_TAG_GENERIC,
    version,
};
use crate::engine::endpoint::EAGER_MAX_BYTES;
use crate::engine::memory_lane::MOST_OUTSTANDING;
use crate::trace::{Op, count};

/// All that the provider can do.
///
/// `FI_REMOTE_COMM` is a promise of the final design: Open MPI asks for it even if all processes are on one
/// machine. An address of another machine is refused when it is inserted.
pub(crate) const CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_SEND
    | FI_RECV
    | MEMORY
    | FI_MULTI_RECV
    | FI_DIRECTED_RECV
    | FI_SOURCE
    | FI_LOCAL_COMM
    | FI_REMOTE_COMM;
/// Operations on memory, of this program and of its peers.
const MEMORY: u64 = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | OF_OWN | OF_PEERS;
const OF_OWN: u64 = FI_READ | FI_WRITE;
const OF_PEERS: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;
const TX_CAPS: u64 = FI_MSG | FI_TAGGED | FI_SEND | FI_RMA | FI_ATOMIC | OF_OWN;
const RX_CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_RECV
    | FI_MULTI_RECV
    | FI_DIRECTED_RECV
    | FI_SOURCE
    | FI_RMA
    | FI_ATOMIC
    | FI_RMA_EVENT
    | OF_PEERS;
/// `FI_MR_BASIC`, the old name of memory that is named by addresses and keys of the provider's.
pub(crate) const MR_BASIC: i32 = 1;

/// Addresses are opaque bytes of one length: see `engine::name`.
pub(crate) const ADDRESS_FORMAT: u32 = FI_PROV_SPECIFIC | 0x746c;
const PROTOCOL: u32 = FI_PROV_SPECIFIC | 0x746c;
/// A length that never is the limit, and whose sums do not overflow.
const MAX_MESSAGE_BYTES: usize = 1 << 40;
const IOV_LIMIT: usize = 8;
/// Operations that may be under way.
const QUEUE_SIZE: usize = MOST_OUTSTANDING;
/// The oldest API whose meaning of `mr_mode` is the present one.
const OLDEST: u32 = version(1, 5);

const DOMAIN: &CStr = c"tieline";
const FABRIC: &CStr = c"tieline";

/// `fi_getinfo(3)`.
///
/// # Safety
/// As libfabric calls it: `node`, `service` and `hints` are null or as the manual page says, `info` is a
/// place for a pointer.
pub unsafe extern "C" fn getinfo(
    api: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    let _no_points = no_points();
    count(Op::Getinfo);
    // Names of machines and ports mean nothing here: a program gets the addresses of others from them, and
    // its own is chosen for it, whatever it would like (`FI_SOURCE`).
    let names_other = flags & FI_SOURCE == 0 && !(node.is_null() && service.is_null());
    if api < OLDEST || names_other || flags & FI_PROV_ATTR_ONLY != 0 {
        return -FI_ENODATA;
    }
    // SAFETY: by the caller's word.
    let wanted = match unsafe { hints::Wanted::read(hints.as_ref()) } {
        Ok(wanted) => wanted,
        Err(unmet) => {
            hints::tell(unmet);
            return -FI_ENODATA;
        }
    };
    // SAFETY: by the caller's word.
    match make(&wanted) {
        Some(made) => {
            // SAFETY: by the caller's word.
            unsafe { *info = made };
            0
        }
        None => -FI_ENOMEM,
    }
}

/// A zeroed structure of C's allocator, with as much room again behind it, and at least a line.
fn allocate<T>() -> Option<*mut T> {
    let bytes = size_of::<T>() + size_of::<T>().max(64);
    // SAFETY: `calloc` may be called with any numbers.
    let made = unsafe { libc::calloc(1, bytes) };
    (!made.is_null()).then_some(made.cast())
}

fn copy_of(text: &CStr) -> *mut c_char {
    // SAFETY: a C string. Null for want of memory is what libfabric takes for no name.
    unsafe { libc::strdup(text.as_ptr()) }
}

/// The answer. What was allocated before memory ran out is lost then.
fn make(wanted: &hints::Wanted) -> Option<*mut fi_info> {
    let (info, tx, rx) = (allocate::<fi_info>()?, allocate::<fi_tx_attr>()?, allocate::<fi_rx_attr>()?);
    let (ep, domain) = (allocate::<fi_ep_attr>()?, allocate::<fi_domain_attr>()?);
    let fabric = allocate::<fi_fabric_attr>()?;
    // SAFETY: six new structures, zeroed; each is written field by field.
    unsafe {
        (*info).caps = wanted.caps;
        (*info).addr_format = ADDRESS_FORMAT;
        ((*info).tx_attr, (*info).rx_attr, (*info).ep_attr) = (tx, rx, ep);
        ((*info).domain_attr, (*info).fabric_attr) = (domain, fabric);

        let (tx, rx, ep) = (&mut *tx, &mut *rx, &mut *ep);
        tx.caps = wanted.caps & TX_CAPS;
        tx.op_flags = wanted.send_flags;
        tx.msg_order = FI_ORDER_SAS;
        tx.inject_size = EAGER_MAX_BYTES;
        (tx.size, tx.iov_limit) = (QUEUE_SIZE, IOV_LIMIT);
        tx.rma_iov_limit = 1;

        rx.caps = wanted.caps & RX_CAPS;
        rx.op_flags = wanted.receive_flags;
        rx.msg_order = FI_ORDER_SAS;
        (rx.size, rx.iov_limit) = (QUEUE_SIZE, IOV_LIMIT);

        ep.r#type = FI_EP_RDM;
        (ep.protocol, ep.protocol_version) = (PROTOCOL, 1);
        ep.max_msg_size = MAX_MESSAGE_BYTES;
        ep.mem_tag_format = FI_TAG_GENERIC;
        (ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (1, 1);

        let (domain, fabric) = (&mut *domain, &mut *fabric);
        let progress = if wanted.is_auto { FI_PROGRESS_AUTO } else { FI_PROGRESS_MANUAL };
        domain.name = copy_of(DOMAIN);
        domain.threading = wanted.threading.unwrap_or(FI_THREAD_SAFE);
        (domain.control_progress, domain.data_progress) = (progress, progress);
        domain.resource_mgmt = FI_RM_ENABLED;
        domain.av_type = wanted.av_type.unwrap_or(FI_AV_TABLE);
        domain.mr_mode = wanted.mr_mode;
        (domain.mr_key_size, domain.cq_data_size) = (8, 8);
        (domain.cq_cnt, domain.ep_cnt, domain.cntr_cnt) = (1024, 1024, 1024);
        (domain.tx_ctx_cnt, domain.rx_ctx_cnt) = (1024, 1024);
        (domain.max_ep_tx_ctx, domain.max_ep_rx_ctx) = (1, 1);
        domain.mr_iov_limit = 1;
        domain.caps = FI_LOCAL_COMM | FI_REMOTE_COMM;

        fabric.name = copy_of(FABRIC);
        // libfabric writes the provider's name itself, and takes one that is there for that of a provider
        // below.
        fabric.prov_version = crate::VERSION;
    }
    Some(info)
}
