//! The list that `fi_getinfo` returns, owned; see [`port`](crate::port) for the objects that are opened by
//! it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::{NonNull, null};

use fabric_sys::Library;
use fabric_sys::abi::fi_info;
use fabric_sys::constants::{
    API_VERSION, FI_CONTEXT, FI_CONTEXT2, FI_ENOMEM, FI_EP_RDM, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL,
    FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_MSG, FI_NUMERICHOST, FI_PROGRESS_AUTO, FI_READ, FI_RECV,
    FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RM_ENABLED, FI_RMA, FI_SEND, FI_SOCKADDR_IN, FI_SOCKADDR_IN6,
    FI_SOURCE, FI_THREAD_SAFE, FI_WRITE,
};
use libc::{c_char, c_int};

use crate::error::{OfiError, Result};
use crate::provider::{Offer, Wanted};

/// What end points of ours do.
const CAPABILITIES: u64 =
    FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// An answer of `fi_getinfo`.
pub(crate) struct InfoList(Info);

/// One way into a network, with all its attributes.
#[derive(Debug)]
pub(crate) struct Info {
    library: &'static Library,
    /// From `fi_dupinfo` or `fi_getinfo`, and freed by this owner alone; its attributes are never null.
    raw: NonNull<fi_info>,
}

// SAFETY: plain memory of one owner. After it is made it is only read through `&self`, or passed to calls of
// libfabric that copy it.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: owned, and not used after this.
        unsafe { (self.library.fi_freeinfo)(self.raw.as_ptr()) };
    }
}

impl InfoList {
    /// Asks for end points that can do what a link needs. The inner error is libfabric's number.
    pub(crate) fn query(
        library: &'static Library,
        wanted: &Wanted,
    ) -> Result<std::result::Result<Self, c_int>> {
        let provider = wanted.provider.as_deref().map(provider_name).transpose()?;
        let Some(hints) = hints(library, provider.as_deref()) else { return Ok(Err(FI_ENOMEM)) };
        let node = wanted.source.and_then(|source| CString::new(source.to_string()).ok());
        let flags = if node.is_some() { FI_SOURCE | FI_NUMERICHOST } else { 0 };
        let node = node.as_deref().map_or(null(), CStr::as_ptr);
        let mut list = std::ptr::null_mut();
        // SAFETY: a C string or null; hints of this library's making; a place for the answer.
        let failed = unsafe {
            (library.fi_getinfo)(API_VERSION, node, null(), flags, hints.raw.as_ptr(), &raw mut list)
        };
        match NonNull::new(list) {
            Some(raw) if failed == 0 => Ok(Ok(Self(Info { library, raw }))),
            _ => Ok(Err(failed)),
        }
    }

    /// A copy of each.
    pub(crate) fn infos(&self) -> Vec<Info> {
        let mut infos = Vec::new();
        let mut next = self.0.raw.as_ptr();
        while let Some(raw) = NonNull::new(next) {
            // SAFETY: an element of the list, which lives as long as `self`; the call copies this element
            // alone.
            let copy = unsafe {
                next = (*raw.as_ptr()).next;
                (self.0.library.fi_dupinfo)(raw.as_ptr())
            };
            infos.extend(NonNull::new(copy).map(|raw| Info { library: self.0.library, raw }));
        }
        infos.retain(Info::is_complete);
        infos
    }
}

fn provider_name(name: &str) -> Result<CString> {
    let given = || OfiError::Unusable {
        what: "provider's name",
        given: name.escape_debug().to_string(),
        instead: "one that `fi_info -l` lists",
    };
    if name.is_empty() || name.len() > 64 {
        return Err(given());
    }
    CString::new(name).map_err(|_| given())
}

fn hints(library: &'static Library, provider: Option<&CStr>) -> Option<Info> {
    // SAFETY: null asks for an empty one.
    let raw = unsafe { (library.fi_dupinfo)(null()) };
    let info = Info { library, raw: NonNull::new(raw)? };
    if !info.is_complete() {
        return None;
    }
    // SAFETY: owned here and complete. The name is a copy by the C allocator, with which `fi_freeinfo` frees
    // it.
    unsafe {
        let info = info.raw.as_ptr();
        (*info).caps = CAPABILITIES;
        (*info).mode = FI_CONTEXT | FI_CONTEXT2;
        (*(*info).ep_attr).r#type = FI_EP_RDM;
        let domain = (*info).domain_attr;
        (*domain).threading = FI_THREAD_SAFE;
        (*domain).resource_mgmt = FI_RM_ENABLED;
        (*domain).mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
        if let Some(name) = provider {
            (*(*info).fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
    }
    Some(info)
}

impl Info {
    fn is_complete(&self) -> bool {
        let info = self.get();
        !info.tx_attr.is_null()
            && !info.rx_attr.is_null()
            && !info.ep_attr.is_null()
            && !info.domain_attr.is_null()
            && !info.fabric_attr.is_null()
    }

    /// For calls of libfabric.
    pub(crate) fn as_ptr(&self) -> *mut fi_info {
        self.raw.as_ptr()
    }

    pub(crate) fn library(&self) -> &'static Library {
        self.library
    }

    fn get(&self) -> &fi_info {
        // SAFETY: owned and live.
        unsafe { self.raw.as_ref() }
    }

    /// `FI_MR_…`: what registrations need.
    pub(crate) fn mr_mode(&self) -> i32 {
        // SAFETY: attributes are never null.
        unsafe { (*self.get().domain_attr).mr_mode }
    }

    /// Bytes of a key.
    pub(crate) fn key_bytes(&self) -> usize {
        // SAFETY: attributes are never null.
        unsafe { (*self.get().domain_attr).mr_key_size }
    }

    /// `FI_ORDER_…`: what both directions keep.
    pub(crate) fn order(&self) -> u64 {
        // SAFETY: attributes are never null.
        unsafe { (*self.get().tx_attr).msg_order & (*self.get().rx_attr).msg_order }
    }

    /// Writes up to this long keep their order byte by byte, if they keep it at all.
    pub(crate) fn ordered_bytes(&self) -> usize {
        // SAFETY: attributes are never null.
        unsafe { (*self.get().ep_attr).max_order_waw_size }
    }

    /// The longest operation.
    pub(crate) fn longest_bytes(&self) -> usize {
        // SAFETY: attributes are never null.
        unsafe { (*self.get().ep_attr).max_msg_size }
    }

    /// What is said of it to people.
    pub(crate) fn offer(&self) -> Offer {
        let info = self.get();
        // SAFETY: attributes are never null, and their names are C strings or null.
        let (provider, domain, fabric, progress) = unsafe {
            (
                text((*info.fabric_attr).prov_name),
                text((*info.domain_attr).name),
                text((*info.fabric_attr).name),
                (*info.domain_attr).data_progress,
            )
        };
        let leaves_machine = match self.source() {
            Some(address) => !address.is_loopback(),
            None => provider != "shm",
        };
        Offer {
            provider,
            domain,
            fabric,
            is_progress_automatic: progress == FI_PROGRESS_AUTO,
            leaves_machine,
            is_ipv4: info.addr_format == FI_SOCKADDR_IN,
        }
    }

    /// Whether addresses begin with a family (`sa_family`).
    pub(crate) fn has_families(&self) -> bool {
        matches!(self.get().addr_format, FI_SOCKADDR_IN | FI_SOCKADDR_IN6)
    }

    /// The own address, if it is one of the internet's.
    fn source(&self) -> Option<IpAddr> {
        let info = self.get();
        let (address, len) = (info.src_addr.cast::<u8>(), info.src_addrlen);
        let (at, bytes) = match info.addr_format {
            FI_SOCKADDR_IN => (std::mem::offset_of!(libc::sockaddr_in, sin_addr), 4),
            FI_SOCKADDR_IN6 => (std::mem::offset_of!(libc::sockaddr_in6, sin6_addr), 16),
            _ => return None,
        };
        if address.is_null() || len < at + bytes {
            return None;
        }
        // SAFETY: the address has `len` bytes, which is enough for these.
        let address = unsafe { std::slice::from_raw_parts(address.add(at), bytes) };
        match bytes {
            4 => address.try_into().ok().map(|bytes: [u8; 4]| Ipv4Addr::from(bytes).into()),
            _ => address.try_into().ok().map(|bytes: [u8; 16]| Ipv6Addr::from(bytes).into()),
        }
    }
}

/// # Safety
/// Null, or a C string that lives through the call.
pub(crate) unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's word.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}
