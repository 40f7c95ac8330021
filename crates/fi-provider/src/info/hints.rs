//! What a program asks for in its hints, and whether this provider can do it.

use std::ffi::CStr;

use fabric_sys::abi::{fi_domain_attr, fi_ep_attr, fi_info, fi_rx_attr, fi_tx_attr};
use fabric_sys::constants::{
    FI_ATOMIC, FI_AV_UNSPEC, FI_EP_RDM, FI_LOCAL_COMM, FI_ORDER_SAS, FI_PROGRESS_AUTO, FI_RECV,
    FI_REMOTE_COMM, FI_RMA, FI_SEND, FI_SOURCE,
};
use libc::c_char;

use super::{
    ADDRESS_FORMAT, CAPS, DOMAIN, FABRIC, IOV_LIMIT, MAX_MESSAGE_BYTES, OF_OWN, OF_PEERS, QUEUE_SIZE,
    RX_CAPS, TX_CAPS,
};
use crate::abi::FI_MULTI_RECV;
use crate::engine::endpoint::EAGER_MAX_BYTES;
use crate::objects::ep::{RECEIVE_FLAGS, SEND_FLAGS};

/// `FI_MR_BASIC` and `FI_MR_SCALABLE`: the old names of what a program can do with registered memory, of
/// which exactly one is returned.
const OLD_MR_MODES: i32 = 3;

/// What cannot be done, as one would write it in C.
pub(super) type Unmet = &'static str;

/// What is asked for and can be done.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) caps: u64,
    pub(super) send_flags: u64,
    pub(super) receive_flags: u64,
    pub(super) threading: Option<u32>,
    pub(super) av_type: Option<u32>,
    pub(super) mr_mode: i32,
    /// A thread of the provider makes progress.
    pub(super) is_auto: bool,
}

/// Refuses what is not so.
fn check(is_met: bool, unmet: Unmet) -> Result<(), Unmet> {
    if is_met { Ok(()) } else { Err(unmet) }
}

impl Wanted {
    /// # Safety
    /// Pointers in the hints are null or lead to what their types say.
    pub(super) unsafe fn read(hints: Option<&fi_info>) -> Result<Self, Unmet> {
        let mut wanted = Self {
            caps: CAPS,
            send_flags: 0,
            receive_flags: 0,
            threading: None,
            av_type: None,
            mr_mode: 0,
            is_auto: false,
        };
        let Some(hints) = hints else { return Ok(wanted) };
        check(hints.caps & !CAPS == 0, "caps")?;
        check(hints.addr_format == 0 || hints.addr_format == ADDRESS_FORMAT, "addr_format")?;
        if hints.caps != 0 {
            // What costs nothing is there unasked.
            let unasked = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SOURCE | FI_MULTI_RECV;
            // Messages in no direction are messages in both.
            let both = FI_SEND | FI_RECV;
            let directions = if hints.caps & both == 0 { both } else { 0 };
            // Likewise of operations on memory.
            let is_memory = hints.caps & (FI_RMA | FI_ATOMIC) != 0;
            let of_memory = OF_OWN | OF_PEERS;
            let sides = if is_memory && hints.caps & of_memory == 0 { of_memory } else { 0 };
            wanted.caps = hints.caps | unasked | directions | sides;
        }
        // SAFETY: by the caller's word.
        let (tx, rx, ep, domain, fabric) = unsafe {
            (
                hints.tx_attr.as_ref(),
                hints.rx_attr.as_ref(),
                hints.ep_attr.as_ref(),
                hints.domain_attr.as_ref(),
                hints.fabric_attr.as_ref(),
            )
        };
        wanted.send_flags = tx.map_or(Ok(0), read_tx)?;
        wanted.receive_flags = rx.map_or(Ok(0), read_rx)?;
        ep.map_or(Ok(()), read_ep)?;
        if let Some(domain) = domain {
            // SAFETY: by the caller's word.
            unsafe { read_domain(domain, &mut wanted)? };
        }
        // SAFETY: by the caller's word.
        check(unsafe { fabric.is_none_or(|fabric| is_named(fabric.name, FABRIC)) }, "fabric_attr->name")?;
        Ok(wanted)
    }
}

/// # Safety
/// `name` is null or a C string.
unsafe fn is_named(name: *const c_char, own: &CStr) -> bool {
    // SAFETY: by the caller's word, and not null.
    name.is_null() || unsafe { CStr::from_ptr(name) } == own
}

fn read_tx(tx: &fi_tx_attr) -> Result<u64, Unmet> {
    check(tx.caps & !(TX_CAPS | FI_LOCAL_COMM | FI_REMOTE_COMM) == 0, "tx_attr->caps")?;
    check(tx.op_flags & !SEND_FLAGS == 0, "tx_attr->op_flags")?;
    check(tx.msg_order & !FI_ORDER_SAS == 0, "tx_attr->msg_order")?;
    check(tx.comp_order == 0, "tx_attr->comp_order")?;
    check(tx.inject_size <= EAGER_MAX_BYTES, "tx_attr->inject_size")?;
    check(tx.size <= QUEUE_SIZE, "tx_attr->size")?;
    check(tx.iov_limit <= IOV_LIMIT, "tx_attr->iov_limit")?;
    check(tx.rma_iov_limit <= 1, "tx_attr->rma_iov_limit")?;
    Ok(tx.op_flags)
}

fn read_rx(rx: &fi_rx_attr) -> Result<u64, Unmet> {
    check(rx.caps & !(RX_CAPS | FI_LOCAL_COMM | FI_REMOTE_COMM) == 0, "rx_attr->caps")?;
    check(rx.op_flags & !RECEIVE_FLAGS == 0, "rx_attr->op_flags")?;
    check(rx.msg_order & !FI_ORDER_SAS == 0, "rx_attr->msg_order")?;
    check(rx.comp_order == 0, "rx_attr->comp_order")?;
    check(rx.size <= QUEUE_SIZE, "rx_attr->size")?;
    check(rx.iov_limit <= IOV_LIMIT, "rx_attr->iov_limit")?;
    Ok(rx.op_flags)
}

fn read_ep(ep: &fi_ep_attr) -> Result<(), Unmet> {
    check(ep.r#type == 0 || ep.r#type == FI_EP_RDM, "ep_attr->type")?;
    check(ep.max_msg_size <= MAX_MESSAGE_BYTES, "ep_attr->max_msg_size")?;
    check(ep.tx_ctx_cnt <= 1 && ep.rx_ctx_cnt <= 1, "ep_attr->tx_ctx_cnt")?;
    check(ep.auth_key_size == 0, "ep_attr->auth_key_size")?;
    check(ep.protocol == 0 || ep.protocol == super::PROTOCOL, "ep_attr->protocol")
}

/// # Safety
/// The name is null or a C string.
unsafe fn read_domain(domain: &fi_domain_attr, wanted: &mut Wanted) -> Result<(), Unmet> {
    // SAFETY: by the caller's word.
    check(unsafe { is_named(domain.name, DOMAIN) }, "domain_attr->name")?;
    check(domain.cq_data_size <= 8, "domain_attr->cq_data_size")?;
    check(domain.mr_key_size <= 8, "domain_attr->mr_key_size")?;
    check(domain.auth_key_size == 0, "domain_attr->auth_key_size")?;
    check(domain.caps & !(FI_LOCAL_COMM | FI_REMOTE_COMM) == 0, "domain_attr->caps")?;
    wanted.is_auto = [domain.control_progress, domain.data_progress].contains(&FI_PROGRESS_AUTO);
    wanted.threading = (domain.threading != 0).then_some(domain.threading);
    wanted.av_type = (domain.av_type != FI_AV_UNSPEC).then_some(domain.av_type);
    wanted.mr_mode = domain.mr_mode & OLD_MR_MODES;
    Ok(())
}

/// For those who wonder why the provider is not offered: with `TIELINE_FI_TRACE` set, the hint that it does
/// not meet.
pub(super) fn tell(unmet: Unmet) {
    if std::env::var_os("TIELINE_FI_TRACE").is_some() {
        let text = format!("tieline-fi: not offered, because of the hint {unmet}\n");
        // SAFETY: the pointer leads to so many bytes.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
}
