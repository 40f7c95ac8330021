//! Numbers of libfabric 1.17: versions, flags, enumerations, errors.
#![allow(missing_docs)]

/// Declares constants, and lists them for the comparison with the C headers.
macro_rules! numbers {
    ($(pub const $name:ident: $type:ty = $value:expr;)*) => {
        $(pub const $name: $type = $value;)*

        /// All numbers of this module by their names in C.
        pub const NUMBERS: &[(&str, u64)] = &[$((stringify!($name), $name as u64),)*];
    };
}

/// The API that is asked for: its structures are those of [`abi`](crate::abi), in every later library too.
pub const API_VERSION: u32 = (1 << 16) | 17;

numbers! {
    pub const FI_MSG: u64 = 1 << 1;
    pub const FI_RMA: u64 = 1 << 2;
    pub const FI_TAGGED: u64 = 1 << 3;
    pub const FI_ATOMIC: u64 = 1 << 4;
    pub const FI_READ: u64 = 1 << 8;
    pub const FI_WRITE: u64 = 1 << 9;
    pub const FI_RECV: u64 = 1 << 10;
    pub const FI_SEND: u64 = 1 << 11;
    pub const FI_REMOTE_READ: u64 = 1 << 12;
    pub const FI_REMOTE_WRITE: u64 = 1 << 13;
    pub const FI_COMPLETION: u64 = 1 << 24;
    pub const FI_INJECT: u64 = 1 << 25;
    pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
    pub const FI_LOCAL_COMM: u64 = 1 << 51;
    pub const FI_REMOTE_COMM: u64 = 1 << 52;
    pub const FI_NUMERICHOST: u64 = 1 << 55;
    pub const FI_SOURCE: u64 = 1 << 57;
    pub const FI_CONTEXT: u64 = 1 << 59;
    pub const FI_CONTEXT2: u64 = 1 << 52;

    pub const FI_ADDR_UNSPEC: u64 = u64::MAX;
    pub const FI_ADDR_NOTAVAIL: u64 = u64::MAX;
    pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;
    pub const FI_SOCKADDR_IN: u32 = 2;
    pub const FI_SOCKADDR_IN6: u32 = 3;
    pub const FI_ADDR_STR: u32 = 9;

    pub const FI_AV_UNSPEC: u32 = 0;
    pub const FI_AV_MAP: u32 = 1;
    pub const FI_AV_TABLE: u32 = 2;

    pub const FI_MR_LOCAL: i32 = 1 << 2;
    pub const FI_MR_RAW: i32 = 1 << 3;
    pub const FI_MR_VIRT_ADDR: i32 = 1 << 4;
    pub const FI_MR_ALLOCATED: i32 = 1 << 5;
    pub const FI_MR_PROV_KEY: i32 = 1 << 6;
    pub const FI_MR_ENDPOINT: i32 = 1 << 9;

    pub const FI_PROGRESS_UNSPEC: u32 = 0;
    pub const FI_PROGRESS_AUTO: u32 = 1;
    pub const FI_PROGRESS_MANUAL: u32 = 2;
    pub const FI_THREAD_SAFE: u32 = 1;
    pub const FI_RM_ENABLED: u32 = 2;
    pub const FI_EP_RDM: u32 = 3;

    pub const FI_ORDER_RAW: u64 = 1 << 1;
    pub const FI_ORDER_WAW: u64 = 1 << 4;
    pub const FI_ORDER_SAW: u64 = 1 << 7;
    pub const FI_ORDER_SAS: u64 = 1 << 8;
    pub const FI_ORDER_RMA_WAW: u64 = 1 << 35;

    pub const FI_GETWAIT: i32 = 5;
    pub const FI_ENABLE: i32 = 6;

    pub const FI_WAIT_NONE: u32 = 0;
    pub const FI_WAIT_UNSPEC: u32 = 1;
    pub const FI_WAIT_FD: u32 = 3;
    pub const FI_CQ_FORMAT_DATA: u32 = 3;

    pub const FI_UINT32: u32 = 5;
    pub const FI_UINT64: u32 = 7;
    pub const FI_SUM: u32 = 2;
    pub const FI_CSWAP: u32 = 12;
    pub const FI_FETCH_ATOMIC: u64 = 1 << 58;
    pub const FI_COMPARE_ATOMIC: u64 = 1 << 59;

    pub const FI_EAGAIN: i32 = libc::EAGAIN;
    pub const FI_ENOSYS: i32 = libc::ENOSYS;
    pub const FI_ENODATA: i32 = libc::ENODATA;
    pub const FI_ENOMEM: i32 = libc::ENOMEM;
    pub const FI_EINVAL: i32 = libc::EINVAL;
    pub const FI_EACCES: i32 = libc::EACCES;
    pub const FI_EINTR: i32 = libc::EINTR;
    pub const FI_ENOTCONN: i32 = libc::ENOTCONN;
    pub const FI_ECONNREFUSED: i32 = libc::ECONNREFUSED;
    pub const FI_ECONNRESET: i32 = libc::ECONNRESET;
    pub const FI_ECONNABORTED: i32 = libc::ECONNABORTED;
    pub const FI_ESHUTDOWN: i32 = libc::ESHUTDOWN;
    pub const FI_EHOSTUNREACH: i32 = libc::EHOSTUNREACH;
    pub const FI_ENETUNREACH: i32 = libc::ENETUNREACH;
    pub const FI_ETIMEDOUT: i32 = libc::ETIMEDOUT;
    pub const FI_EIO: i32 = libc::EIO;
    pub const FI_EREMOTEIO: i32 = libc::EREMOTEIO;
    pub const FI_ECANCELED: i32 = libc::ECANCELED;
    pub const FI_EKEYREJECTED: i32 = libc::EKEYREJECTED;
    pub const FI_EOTHER: i32 = 256;
    pub const FI_ETOOSMALL: i32 = 257;
    pub const FI_EAVAIL: i32 = 259;
    pub const FI_ETRUNC: i32 = 265;
    pub const FI_ENOKEY: i32 = 266;
}
